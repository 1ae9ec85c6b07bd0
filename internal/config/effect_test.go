package config

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/flow"
	"github.com/oncekit/once/outbox"
)

// effectFlow is a flow whose event end has the effects of a test.
func effectFlow(t *testing.T, effects string) []flow.Effect {
	t.Helper()
	text := strings.Replace(minimal, "to: z}", "to: z, effects: ["+effects+"]}", 1) +
		"  plant: {mqtt: {url: \"mqtt://h\"}}\n"
	return machine(t, mustParse(t, text, Env{}), "f").Events["end"].Effects
}

func built(t *testing.T, ef flow.Effect, v *flow.Vars) (outbox.Meta, string) {
	t.Helper()
	meta, body, err := ef.Build(v)
	if err != nil {
		t.Fatal(err)
	}
	var m outbox.Meta
	if err := json.Unmarshal(meta, &m); err != nil {
		t.Fatal(err)
	}
	return m, string(body)
}

func effectVars() *flow.Vars {
	return &flow.Vars{
		Body: map[string]any{"n": int64(3)}, Source: "rcs",
		Task:   map[string]any{"id": "T1", "state": "z", "version": int64(2)},
		Effect: &flow.EffectVars{ID: "e1", Name: "n"},
	}
}

func TestEffect_BuildsAddressAndPayload(t *testing.T) {
	tests := map[string]struct {
		effect string
		meta   outbox.Meta
		body   string
	}{
		"tree": {`{name: n, to: wms, path: "/t/${task.id}", method: PUT,
          payload: {id: "${effect.id}", n: "${body.n}", s: "at ${task.state}",
          none: "${body.?x}", yes: true}}`,
			outbox.Meta{Path: "/t/T1", Method: "PUT", ContentType: "application/json"},
			`{"id":"e1","n":3,"s":"at z","yes":true}`},
		"text": {`{name: n, to: plant, topic: "a/${task.id}", retain: true, payload: "${task.id};1"}`,
			outbox.Meta{Topic: "a/T1", Retain: true, ContentType: "text/plain; charset=utf-8"},
			"T1;1"},
		"value": {`{name: n, to: wms, payload: "${body}"}`,
			outbox.Meta{ContentType: "application/json"}, `{"n":3}`},
		"nothing": {`{name: n, to: wms, headers: {X-Task: "${task.id}"}}`,
			outbox.Meta{Header: map[string]string{"X-Task": "T1"}}, ""},
		"own type": {`{name: n, to: wms, content_type: application/cloudevents+json, payload: {a: 1}}`,
			outbox.Meta{ContentType: "application/cloudevents+json"}, `{"a":1}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			meta, body := built(t, effectFlow(t, tt.effect)[0], effectVars())
			if !reflect.DeepEqual(meta, tt.meta) || body != tt.body {
				t.Errorf("got %+v %s\nwant %+v %s", meta, body, tt.meta, tt.body)
			}
		})
	}
}

func TestEffect_AMissingFieldIsAnErrorThatNamesIt(t *testing.T) {
	ef := effectFlow(t, `{name: n, to: wms, payload: {x: "${body.data.seq}"}}`)[0]
	_, _, err := ef.Build(effectVars())
	if err == nil || !strings.Contains(err.Error(), "payload: body.data") {
		t.Errorf("got %v", err)
	}
}

func TestEffect_WhenAndExpires(t *testing.T) {
	ef := effectFlow(t, `{name: n, to: wms, expires: 90s, when: "body.?n.orValue(0) > 2"}`)[0]
	if ef.Expires != 90*time.Second || ef.When == nil {
		t.Fatalf("%+v", ef)
	}
	if got, err := ef.When(effectVars()); got != true || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	none := effectVars()
	none.Body = map[string]any{}
	if got, err := ef.When(none); got != false || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestRelease_EffectsCarryTheFence(t *testing.T) {
	c, err := Load("../../examples/robots.yaml", Env{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	v := effectVars()
	v.Resource = &flow.ResourceVars{Kind: "roadway", Name: "R17", Fence: 5}
	meta, body := built(t, c.Kinds[0].OnRelease[0], v)
	if meta.Topic != "roadway/R17/unlock" || meta.Fence != 5 ||
		body != `{"fence":5,"id":"e1","task":"T1"}` {
		t.Errorf("got %+v %s", meta, body)
	}
}

func TestFlow_AnAbsentValueIsAbsent(t *testing.T) {
	c, err := Load("../../examples/robots.yaml", Env{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	start := machine(t, c, "transport").Events["startFE"]
	v := &flow.Vars{Body: map[string]any{"robotCode": "r1"}, Task: map[string]any{}}
	for i, want := range []any{any(flow.Absent), "r1"} {
		if got, err := start.Set[i].Value(v); got != want || err != nil {
			t.Errorf("set %s: %v, %v", start.Set[i].Name, got, err)
		}
	}
	if got, err := start.Acquire[0](v); got != "roadway/" || err != nil {
		t.Errorf("acquire: %v, %v", got, err)
	}
	v.Task["roadway"] = "R1"
	if got, err := start.Acquire[0](v); got != "roadway/R1" || err != nil {
		t.Errorf("acquire: %v, %v", got, err)
	}
}

func BenchmarkEffect_Build(b *testing.B) {
	c, err := Load("../../examples/robots.yaml", Env{})
	if err != nil {
		b.Fatal(err)
	}
	v := effectVars()
	v.Resource = &flow.ResourceVars{Kind: "roadway", Name: "R17", Fence: 5}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := c.Kinds[0].OnRelease[0].Build(v); err != nil {
			b.Fatal(err)
		}
	}
}

func TestEffect_OfAWaitCanNameTheResourceThatIsTaken(t *testing.T) {
	text := strings.Replace(minimalFlow, "    initial: a\n", `    initial: a
    busy: {effects: [{name: waits, to: wms,
      payload: "${task.id} waits for ${resource.kind}/${resource.name}, ${resource.fence}"}]}
`, 1)
	m := machine(t, mustParse(t, minimalSource+text+minimalDestinations, Env{}), "f")
	v := effectVars()
	v.Resource = &flow.ResourceVars{Kind: "roadway", Name: "R1", Fence: 7}
	if _, body := built(t, m.Busy.Effects[0], v); body != "T1 waits for roadway/R1, 7" {
		t.Errorf("got %s", body)
	}
}
