package wire

import "encoding/json"

// Task is a document of a flow with its history.
type Task struct {
	ID        string          `json:"id"`
	Flow      string          `json:"flow"`
	State     string          `json:"state"`
	Version   int64           `json:"version" doc:"Counts the changes."`
	Fields    json.RawMessage `json:"fields" doc:"The task's own values, numbers exact."`
	Next      []string        `json:"next" doc:"The events that are legal now."`
	Final     bool            `json:"final" doc:"No further event is expected."`
	Gone      bool            `json:"gone" doc:"Only id, flow and state are left."`
	CreatedAt *Instant        `json:"created_at"`
	SinceAt   *Instant        `json:"since_at" doc:"When it came into its state."`
	UpdatedAt *Instant        `json:"updated_at"`
	OverdueAt *Instant        `json:"overdue_at" doc:"When it will have stood still too long."`
	History   []HistoryEntry  `json:"history" doc:"Earliest first; the latest 1000 changes."`
}

// HistoryEntry is one line of a task's history.
type HistoryEntry struct {
	Version  int64   `json:"version"`
	At       Instant `json:"at"`
	Event    string  `json:"event" doc:"The event, overdue, or what a person did."`
	From     string  `json:"from" doc:"The state before; empty for a new task."`
	To       string  `json:"to"`
	Note     string  `json:"note" doc:"What a reader should know."`
	Actor    string  `json:"actor" doc:"Set, like reason, when a person made the change."`
	Reason   string  `json:"reason"`
	Callback string  `json:"callback" doc:"Id of the callback that caused it; empty: none."`
}

// ListedTask is one line of the list of tasks.
type ListedTask struct {
	ID        string   `json:"id"`
	Flow      string   `json:"flow"`
	State     string   `json:"state"`
	Version   int64    `json:"version" doc:"Counts the changes."`
	Final     bool     `json:"final" doc:"No further event is expected."`
	CreatedAt *Instant `json:"created_at"`
	SinceAt   *Instant `json:"since_at" doc:"When it came into its state."`
	UpdatedAt *Instant `json:"updated_at"`
	OverdueAt *Instant `json:"overdue_at" doc:"When it will have stood still too long."`
}

// TaskPage is a page of tasks.
type TaskPage struct {
	Items []ListedTask `json:"items" doc:"Those that were created last first; no tombstones."`
	Next  string       `json:"next" doc:"Cursor of the next page; empty: there is none."`
}

// Owner names a task.
type Owner struct {
	Flow string `json:"flow"`
	Task string `json:"task"`
}

// Resource is what a task owns for a while.
type Resource struct {
	Kind    string  `json:"kind"`
	Name    string  `json:"name"`
	Owner   *Owner  `json:"owner" doc:"The owner, or the last one while freeing; null: free."`
	Fence   int64   `json:"fence" doc:"Rises with each new owner."`
	Since   Instant `json:"since" doc:"Since when it is owned, being freed, or free."`
	Freeing int     `json:"freeing" doc:"Effects to be acknowledged before it is free."`
}

// ListedResource is a resource and how many wait for it.
type ListedResource struct {
	Resource
	Waiting int `json:"waiting" doc:"Callbacks that wait for it; 1000 stands for 1000 or more."`
}

// ResourcePage is a page of resources.
type ResourcePage struct {
	Items []ListedResource `json:"items" doc:"By kind and name."`
	Next  string           `json:"next" doc:"Cursor of the next page; empty: there is none."`
}
