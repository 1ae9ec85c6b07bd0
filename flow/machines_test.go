package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// body returns an expression for a member of the body, absent if it isn't there.
func body(name string) Expr {
	return func(v *Vars) (any, error) {
		m, _ := v.Body.(map[string]any)
		if x, ok := m[name]; ok {
			return x, nil
		}
		return Absent, nil
	}
}

// field returns an expression for "prefix" and a field of the task, empty if it isn't there.
func field(prefix, name string) Expr {
	return func(v *Vars) (any, error) {
		if x, ok := v.Task[name]; ok {
			return prefix + fmt.Sprint(x), nil
		}
		return prefix, nil
	}
}

func text0(s any) Expr { return func(*Vars) (any, error) { return s, nil } }

func fails(msg string) Expr { return func(*Vars) (any, error) { return nil, errors.New(msg) } }

// payload is what the effects of the tests carry.
type payload struct {
	ID, Name, Task, State, Resource string
	Version, Fence                  int64
}

func sent(name, to string) Effect {
	return Effect{Name: name, Destination: to, Build: func(v *Vars) ([]byte, []byte, error) {
		p := payload{ID: v.Effect.ID, Name: v.Effect.Name, Task: v.Task["id"].(string),
			State: v.Task["state"].(string), Version: v.Task["version"].(int64)}
		if v.Resource != nil {
			p.Resource, p.Fence = v.Resource.Kind+"/"+v.Resource.Name, v.Resource.Fence
		}
		b, err := json.Marshal(p)
		return []byte(`{}`), b, err
	}}
}

// robots is the flow of examples/robots.yaml.
func robots() *Machine {
	return &Machine{
		Name: "transport", Initial: "created", Final: []string{"finished", "cancelled"},
		Starts: []string{"startFE"}, Early: 24 * time.Hour, Busy: Busy{Wait: 10 * time.Minute},
		Overdue: map[string]Overdue{"running": {After: 30 * time.Minute,
			Effects: []Effect{sent("task-stands-still", "wms")}}},
		Retention: 7 * 24 * time.Hour,
		Events: map[string]*Event{
			"startFE": {From: []string{"created"}, To: "running",
				Set:     []Field{{"roadway", body("roadway")}, {"robot", body("robotCode")}},
				Acquire: []Expr{field("roadway/", "roadway")}, AcquireReads: []string{"roadway"}},
			"station": {From: []string{"running"}, To: "at_station",
				Set:     []Field{{"station", body("currentPositionCode")}},
				Acquire: []Expr{field("station/", "station")}, AcquireReads: []string{"station"}},
			"updateSeq": {From: []string{"running", "at_station"},
				Max: []Field{{"seq", body("seq")}}},
			"finishFE": {From: []string{"running", "at_station"}, To: "unloaded",
				Release: []Expr{field("roadway/", "roadway")},
				Effects: []Effect{sent("tell-wms", "wms")}},
			"finish": {From: []string{"unloaded"}, To: "finished",
				Set:        []Field{{"finishFlag", text0(true)}, {"jobStatus", text0("finish")}},
				ReleaseAll: true},
			"cancel": {
				From: []string{"created", "running", "at_station", "unloaded"},
				To:   "cancelled", ReleaseAll: true},
		},
	}
}

// plant are the kinds of resources of examples/robots.yaml.
func plant() []ResourceKind {
	return []ResourceKind{
		{Kind: "roadway", OnRelease: []Effect{sent("unlock-roadway", "plant")}},
		{Kind: "station", OnRelease: []Effect{sent("release-station", "plant")}},
	}
}

// lift is a flow with a cycle: a task goes up and down as often as it likes, and takes what it
// passes by. `hop` is told from its repeats by a number.
func lift() *Machine {
	return &Machine{
		Name: "lift", Initial: "idle", Final: []string{"out"}, Busy: Busy{Wait: time.Minute,
			Effects: []Effect{sent("busy-alarm", "wms")}},
		Early: time.Hour,
		Events: map[string]*Event{
			"up": {From: []string{"idle"}, To: "top", Newer: body("n"),
				Set:     []Field{{"shaft", body("shaft")}},
				Acquire: []Expr{field("roadway/", "shaft"), text0("door/top")}},
			"down": {From: []string{"top"}, To: "idle", Again: AgainPark,
				Release: []Expr{text0("door/top")}},
			"hop": {From: []string{"top", "idle"}, Newer: body("n"),
				Set:     []Field{{"via", body("via")}},
				Acquire: []Expr{field("roadway/", "via")},
				Effects: []Effect{sent("hopped", "wms")}},
			"drop": {From: []string{"top"}, To: "idle", Again: AgainStale,
				ReleaseAll: true},
			"leave": {From: []string{"idle", "top"}, To: "out", ReleaseAll: true},
		},
	}
}
