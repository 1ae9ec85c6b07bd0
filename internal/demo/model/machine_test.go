package model

import (
	"slices"
	"strings"
	"testing"
)

// Each sequence is worked by hand by the rules of the robots' flow. applied is the order in which
// the server applied them, by their places in the sequence.
func TestWhatComesOfATasksCallbacks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		sent    string // EVENT or EVENT:content
		applied []int
		became  string
		state   string
		effects string
	}{
		{"in order", "startFE:R1 updateSeq:3 station:S1 finishFE finish", []int{0, 1, 2, 3, 4},
			"done done done done done", "finished",
			"tell-progress 3, unlock-roadway roadway/R1, tell-wms, release-station station/S1"},
		{"an event before the start waits for it", "updateSeq:3 startFE:R1 finishFE finish",
			[]int{1, 0, 2, 3}, "done done done done", "finished",
			"tell-progress 3, unlock-roadway roadway/R1, tell-wms"},
		{"the end before the last step waits for it", "startFE:R1 finish finishFE",
			[]int{0, 2, 1}, "done done done", "finished", "unlock-roadway roadway/R1, tell-wms"},
		{"what never starts stays parked", "updateSeq:1 cancel", nil, "parked parked", "", ""},
		{"a lower number is stale", "startFE:R1 updateSeq:9 updateSeq:9 updateSeq:4 updateSeq:10",
			[]int{0, 1, 4}, "done done stale stale done", "running",
			"tell-progress 9, tell-progress 10"},
		{"a number of an unloaded task: illegal, or stale if there was one",
			"startFE:R1 finishFE updateSeq:9", []int{0, 1}, "done done dead", "unloaded",
			"unlock-roadway roadway/R1, tell-wms"},
		{"a number after one", "startFE:R1 updateSeq:2 finishFE updateSeq:9", []int{0, 1, 2},
			"done done done stale", "unloaded",
			"tell-progress 2, unlock-roadway roadway/R1, tell-wms"},
		{"a station after unloading is illegal", "startFE:R1 finishFE station:S1", []int{0, 1},
			"done done dead", "unloaded", "unlock-roadway roadway/R1, tell-wms"},
		{"a second start is stale, so is a second step",
			"startFE:R1 startFE:R2 finishFE finishFE", []int{0, 2}, "done stale done stale",
			"unloaded", "unlock-roadway roadway/R1, tell-wms"},
		{"a cancelled task frees what it has", "startFE:R1 station:S1 cancel finishFE finish",
			[]int{0, 1, 2}, "done done done stale stale", "cancelled",
			"unlock-roadway roadway/R1, release-station station/S1"},
		{"a cancel after unloading frees the station alone",
			"startFE:R1 station:S1 finishFE cancel", []int{0, 1, 2, 3}, "done done done done",
			"cancelled", "unlock-roadway roadway/R1, tell-wms, release-station station/S1"},
		{"nothing is declared for it", "startFE:R1 charge", []int{0}, "done unrouted", "running",
			""},
		{"a station that is taken lets others pass", "startFE:R1 station:S1 updateSeq:3 finishFE",
			[]int{0, 2, 1, 3}, "done done done done", "unloaded",
			"tell-progress 3, unlock-roadway roadway/R1, tell-wms"},
		{"a station that stays taken too long is illegal in the end",
			"startFE:R1 station:S1 finishFE finish", []int{0, 2, 3}, "done dead done done",
			"finished", "unlock-roadway roadway/R1, tell-wms"},
		{"one that stays taken until the task is cancelled is stale",
			"startFE:R1 station:S1 cancel", []int{0, 2}, "done stale done", "cancelled",
			"unlock-roadway roadway/R1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := follow("T", sequence(c.sent), c.applied)
			var effects []string
			for _, ef := range k.effects {
				effects = append(effects, strings.TrimSuffix(ef.String(), " of T"))
			}
			if k.problem != "" || strings.Join(k.became, " ") != c.became || k.state != c.state ||
				strings.Join(effects, ", ") != c.effects || len(k.stuck) > 0 {
				t.Errorf("got %v, %q, %v, stuck %v, problem %q", k.became, k.state, effects,
					k.stuck, k.problem)
			}
		})
	}
}

func TestAHistoryThatCantBeIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		sent    string
		applied []int
		problem string
	}{
		{"an event is left out", "startFE:R1 finishFE finish", []int{0, 2},
			"the history lacks q1 finishFE where it had to be applied"},
		{"two changed places", "startFE:R1 updateSeq:1 updateSeq:2", []int{0, 2, 1},
			"the history lacks q1 updateSeq where it had to be applied"},
		{"one more", "startFE:R1 finishFE finishFE", []int{0, 1, 2},
			"the history has q2 finishFE applied, which can't be"},
		{"a stranger", "startFE:R1", []int{0, -1},
			"the history has an unknown callback applied, which can't be"},
		{"who waited longer is passed over", "startFE:R1 startFE:R1", []int{1},
			"q1 startFE got roadway/R1 before q0 startFE, which waited longer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if k := follow("T", sequence(c.sent), c.applied); k.problem != c.problem {
				t.Errorf("problem %q, want %q", k.problem, c.problem)
			}
		})
	}
}

func TestACallbackThatWaitsToTheEndIsStuck(t *testing.T) {
	t.Parallel()
	k := follow("T", sequence("startFE:R1 updateSeq:1"), nil)
	if !slices.Equal(k.stuck, []int{0}) || strings.Join(k.became, " ") != "parked parked" {
		t.Errorf("stuck %v, %v", k.stuck, k.became)
	}
}

// sequence makes callbacks of a text.
func sequence(text string) (out []*Callback) {
	for i, word := range strings.Fields(text) {
		event, content, _ := strings.Cut(word, ":")
		c := cb("q"+string(rune('0'+i)), "T", event, content)
		if event == "updateSeq" {
			c.Roadway = ""
			for _, d := range content {
				c.Seq = c.Seq*10 + int(d-'0')
			}
		}
		out = append(out, c)
	}
	return out
}
