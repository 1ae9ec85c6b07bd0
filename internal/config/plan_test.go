package config

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPlan_IsStableJSON(t *testing.T) {
	b, err := json.Marshal(mustParse(t, minimal, Env{}).Plan())
	want := `{"version":1,"sources":{"rcs":{"key":[["body.id"]]}},` +
		`"flows":{"f":{"states":["a","b","z"],"events":["end","go"]}},"destinations":["wms"]}`
	if string(b) != want || err != nil {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}

func TestComparePlans_WhatIsInUseAndGoneIsRefusedUntilTheFileSaysMore(t *testing.T) {
	old := mustParse(t, minimal, Env{}).Plan()
	changed := strings.NewReplacer(`"body.id"`, `"body.no"`, "to: b", "to: c", "[b]", "[c]",
		"end:", "stop:", "wms:", "erp:").Replace(minimal)
	use := InUse{
		Identities:   map[string]int64{"rcs": 12},
		States:       map[string]map[string]int64{"f": {"b": 3, "z": 9}, "gone": {"x": 1}},
		Events:       map[string]map[string]int64{"f": {"end": 1, "go": 2}},
		Destinations: map[string]int64{"wms": 4, "erp": 1},
	}
	c := mustParse(t, changed, Env{})
	got := ComparePlans(old, c.Plan(), use, c.Migrate)
	wants := []string{
		"sources: {rcs: {key: changed}}", "flows: {f: {states: {b: c}}}",
		"flows: {f: {events: {end: discard}}}", "flows: {gone: discard}",
		"destinations: {wms: discard}",
	}
	if len(got) != len(wants) {
		t.Fatalf("got %d problems: %v", len(got), got)
	}
	for i, want := range wants {
		want = strings.Replace(want, "{b: c}", "{b: NEW}", 1)
		if !strings.Contains(got[i].Msg, want) {
			t.Errorf("problem %d: %s\nwant %s", i, got[i].Msg, want)
		}
	}
	migrated := changed + `migrate:
  sources: {rcs: {key: changed}}
  flows: {f: {states: {b: c}, events: {end: stop}}, gone: discard}
  destinations: {wms: erp}
`
	c = mustParse(t, migrated, Env{})
	if got := ComparePlans(old, c.Plan(), use, c.Migrate); len(got) != 0 {
		t.Errorf("still refused: %v", got)
	}
	if c.Migrate.Flows["f"].States["b"] != "c" || c.Migrate.Destinations["wms"] != "erp" {
		t.Errorf("migrate: %+v", c.Migrate)
	}
}

func TestComparePlans_WhatIsNotInUseMayGo(t *testing.T) {
	old := mustParse(t, minimal, Env{}).Plan()
	c := mustParse(t, "gateway: {upstream: \"http://h\", scope: none, routes: [{match: POST /}]}\n",
		Env{})
	if got := ComparePlans(old, c.Plan(), InUse{States: map[string]map[string]int64{"f": {"a": 0}}},
		Migrate{}); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	if got := ComparePlans(Plan{}, old, InUse{}, Migrate{}); len(got) != 0 {
		t.Errorf("a new store: %v", got)
	}
}

func TestComparePlans_AnotherScopeIsAnotherKey(t *testing.T) {
	old := mustParse(t, minimal, Env{}).Plan()
	scoped := strings.Replace(minimal, "    event", "    scope: \"header['x-t']\"\n    event", 1)
	now := mustParse(t, scoped, Env{}).Plan()
	use := InUse{Identities: map[string]int64{"rcs": 1}}
	if got := ComparePlans(old, now, use, Migrate{}); len(got) != 1 ||
		!strings.Contains(got[0].Msg, "the 1 callback that") {
		t.Errorf("got %v", got)
	}
}

func TestComparePlans_ASourceThatIsGoneIsRefusedWhileTheStoreHasItsCallbacks(t *testing.T) {
	old := mustParse(t, minimal, Env{}).Plan()
	renamed := strings.Replace(minimal, "  rcs:", "  rcs2:", 1)
	for _, tt := range []struct {
		name, migrate, says string
		known               bool
		use                 InUse
	}{
		{"remembered", "", "sources: {rcs: rcs2}", true,
			InUse{Identities: map[string]int64{"rcs": 3}}},
		{"remembered, and done with in an earlier start", "", "", false,
			InUse{Identities: map[string]int64{"rcs": 3}}},
		{"unfinished, whatever the last file was", "", "3 callbacks of it, 1 of them unfinished",
			false, InUse{Identities: map[string]int64{"rcs": 3},
				Unfinished: map[string]int64{"rcs": 1}}},
		{"nothing left", "", "", true, InUse{Identities: map[string]int64{"rcs": 0}}},
		{"discarded", "migrate: {sources: {rcs: discard}}\n", "", true,
			InUse{Identities: map[string]int64{"rcs": 3}}},
		{"moved", "migrate: {sources: {rcs: rcs2}}\n", "", true,
			InUse{Identities: map[string]int64{"rcs": 3}}},
	} {
		c := mustParse(t, renamed+tt.migrate, Env{})
		before := old
		if !tt.known {
			before = Plan{}
		}
		got := ComparePlans(before, c.Plan(), tt.use, c.Migrate)
		if (tt.says == "") != (len(got) == 0) ||
			len(got) > 0 && !strings.Contains(got[0].Msg, tt.says) {
			t.Errorf("%s: %v, want %q", tt.name, got, tt.says)
		}
	}
}

func TestIdleMigrations_NameWhatNobodyKnows(t *testing.T) {
	old := mustParse(t, minimal, Env{}).Plan()
	m := Migrate{
		Sources:      map[string]string{"rcs": discard, "rsc": discard},
		Destinations: map[string]string{"wms": discard, "erp": discard},
		Flows: map[string]FlowMigration{
			"f": {States: map[string]string{"b": "a", "y": "a"},
				Events: map[string]string{"go": "end", "no": "end"}},
			"g": {Discard: true}, "h": {Discard: true},
		},
	}
	use := InUse{States: map[string]map[string]int64{"g": {"x": 1}}}
	got := strings.Join(IdleMigrations(old, old, use, m), "\n")
	for _, want := range []string{"destination erp", "event no of flow f", "flow h", "source rsc",
		"state y of flow f"} {
		if !strings.Contains(got, "there is no "+want+" in the store") {
			t.Errorf("it lacks %q:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n") + 1; n != 5 {
		t.Errorf("%d lines, want 5:\n%s", n, got)
	}
}
