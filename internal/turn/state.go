package turn

// State is what a batch has to know before it reads anything, and changes with it. The names of its
// fields are stored.
type State struct {
	// Last is the last number that an effect, a task, or what a person did was given.
	Last int64 `json:"last"`
	// At is the latest time of a commit.
	At Stamp `json:"at"`
	// Timer is when something is due by time, or earlier; 0: nothing waits for a time.
	Timer Stamp `json:"timer,omitempty"`
	// Overdue is when a task will have stood still too long, or earlier; 0: none does.
	Overdue Stamp `json:"overdue,omitempty"`
	// WaitsEnd puts off the limits of waits that came while nobody served the store.
	WaitsEnd Stamp `json:"waits_end,omitempty"`
	// Waiting is how many rows wait for something, or were woken and not worked yet.
	Waiting int64       `json:"waiting,omitempty"`
	Lanes   []LaneState `json:"lanes,omitempty"`
	// Wakes are what is left of wakes of very many rows.
	Wakes []UnfinishedWake `json:"wakes,omitempty"`
}

// LaneState is what is kept of a lane.
type LaneState struct {
	Name string `json:"name"`
	// InLine, Working and Suspects count its rows in line, its rows in somebody's hands, and those
	// of them that lost a worker before.
	InLine   int64 `json:"in_line,omitempty"`
	Working  int64 `json:"working,omitempty"`
	Suspects int64 `json:"suspects,omitempty"`
	// Stepped is true once Steps work rows of it: these may be what ended a node.
	Stepped bool `json:"stepped,omitempty"`
	// Singly is how many of its rows are worked singly, since a node was lost.
	Singly int `json:"singly,omitempty"`

	// LaneHead is where to look for what is due.
	LaneHead
}

// lane returns what is kept of a lane.
func (s *State) lane(name string) LaneState {
	for _, l := range s.Lanes {
		if l.Name == name {
			return l
		}
	}
	return LaneState{Name: name}
}

// DueFrom is a number below which no row of a lane is due.
func (s *State) DueFrom(lane string) int64 { return s.lane(lane).From }
