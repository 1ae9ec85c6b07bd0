package config

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/queue"
)

// called hands what a source gets to a service, so that its file needs no flow.
const called = "    to: {http: \"http://127.0.0.1:1/\"}\n"

// withPreset is a file with one source. lines are further fields of it.
func withPreset(name string, lines ...string) string {
	text := "sources:\n  rcs:\n    preset: " + name + "\n"
	for _, line := range lines {
		text += "    " + line + "\n"
	}
	return text + called
}

func TestPresets_AreRightAndPrintWhatLoadsAgain(t *testing.T) {
	for _, name := range presetNames() {
		t.Run(name, func(t *testing.T) {
			text, err := presetFiles.ReadFile("presets/" + name + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(text), "# ") {
				t.Error("it doesn't begin with a comment that says what it is for")
			}
			l := &loader{problems: &problems{}}
			p := l.readPreset(name, place{1, 1})
			if len(l.all) > 0 || p.source == nil {
				t.Fatalf("it can't be read: %v", l.all)
			}
			if p.source.member("to") != nil || p.source.member("preset") != nil {
				t.Error("it says who works the callbacks, or names a preset")
			}
			var lines []string
			for _, q := range p.requires {
				value := map[string]string{"repeats": "duplicate", "auth": "none"}[q.key.raw]
				lines = append(lines, q.key.raw+": "+value)
				if q.value.text == "" {
					t.Errorf("it doesn't say why it needs %s", q.key.raw)
				}
			}
			first := printed(t, mustParse(t, withPreset(name, lines...), Env{}))
			if again := printed(t, mustParse(t, first, Env{})); again != first {
				t.Errorf("printed\n%s\nloads as\n%s", first, again)
			}
			if !strings.Contains(first, "    preset: "+name+"\n") {
				t.Errorf("the preset isn't shown:\n%s", first)
			}
		})
	}
}

func TestPreset_AFieldOfTheSourceReplacesIt(t *testing.T) {
	c := mustParse(t, withPreset("hik-rcs-v3", "paths: [/mine]", `key: ["body.reqCode"]`,
		"retention: 1d", "reply: {invalid: {status: 200, body: no}}", "ignore: []"), Env{})
	s := c.Sources[0]
	if !slices.Equal(s.Paths, []string{"/mine"}) || s.Retention.Hours() != 24 {
		t.Errorf("paths %v, retention %v", s.Paths, s.Retention)
	}
	m := message(t, hikSample)
	if key, err := s.Key(m); err != nil || !slices.Equal(key, mustKey(t, "15A0BC96B1112")) {
		t.Errorf("key %v, %v", key, err)
	}
	if event, err := s.Event(m); err != nil || event != "end" {
		t.Errorf("event %q, %v: what the source doesn't say is the preset's", event, err)
	}
	// reply is merged by outcome: accepted is still the preset's.
	if got := replyOf(t, s, queue.Accepted, m); got !=
		`{"code":"0","message":"Success","reqCode":"15A0BC96B1112"}` {
		t.Errorf("accepted: %s", got)
	}
	if got := replyOf(t, s, queue.Invalid, m); got != "no" {
		t.Errorf("invalid: %s", got)
	}
	out := printed(t, c)
	for _, want := range []string{"    ignore: []\n", "    paths: [\"/mine\"]\n",
		"    event: \"body.method\"\n", "    order_by: \"body.taskCode\"\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("the print lacks %q:\n%s", want, out)
		}
	}
	later := message(t, strings.Replace(hikSample, "10:08:06", "10:08:09", 1))
	first, err := s.Fingerprint(m)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := s.Fingerprint(later); err != nil || second == first {
		t.Errorf("with ignore: [] the time still doesn't count: %v", err)
	}
}

const hikSample = `{"reqCode":"15A0BC96B1112","reqTime":"2026-04-03 10:08:06","cooX":"3000",` +
	`"cooY":"21999","currentPositionCode":"p02","data":"","mapCode":"AA",` +
	`"mapDataCode":"002069AA015172","method":"end","podCode":"100001","podDir":"",` +
	`"robotCode":"6001","taskCode":"T16A0E0F39740116Q","wbCode":"p02"}`

func replyOf(t *testing.T, s *inbox.Source, o queue.Outcome, m *inbox.Message) string {
	t.Helper()
	body, _, err := s.Replies[o].Body(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestPreset_WithAFlowTheTaskIsTheOrder(t *testing.T) {
	src := "sources:\n  rcs:\n    preset: robot-triple\n    to: {flow: f}\n"
	flow := strings.Replace(minimalFlow, "body.task", "body.taskCode", 1)
	out := printed(t, mustParse(t, src+flow+minimalDestinations, Env{}))
	if strings.Contains(out, "order_by") {
		t.Errorf("order_by is filled in:\n%s", out)
	}
}

func TestPreset_TwoSourcesOfOneAreToldApart(t *testing.T) {
	text := "sources:\n  a:\n    preset: hik-rcs-v3\n    paths: [/a]\n" + called +
		"  b:\n    preset: hik-rcs-v3\n    paths: []\n" + called
	c := mustParse(t, text, Env{})
	if len(c.Sources) != 2 || len(c.Sources[1].Paths) != 0 {
		t.Errorf("%d sources, paths %v", len(c.Sources), c.Sources[1].Paths)
	}
}

func TestPreset_UnknownOnesNameTheNearest(t *testing.T) {
	list := "expected one of " + strings.Join(presetNames(), ", ")
	for _, tt := range []struct{ preset, want string }{
		{"robot-tripel", `there is no preset "robot-tripel"; did you mean "robot-triple"? ` + list},
		{"hik-v3", `there is no preset "hik-v3"; did you mean "hik-rcs-v3"? ` + list},
		{"Hik_RCS_V3", `there is no preset "Hik_RCS_V3"; did you mean "hik-rcs-v3"? ` + list},
		{"of no kind", `there is no preset "of no kind"; ` + list},
		{"3", "preset is a number; expected the name of a preset: " +
			strings.Join(presetNames(), ", ")},
		{"[]", "preset is a list; expected the name of a preset: " +
			strings.Join(presetNames(), ", ")},
	} {
		flow := strings.Replace(minimalFlow, "body.task", "item.task", 1)
		text := strings.Replace(withPreset(tt.preset), called, "    to: {flow: f}\n", 1) + flow
		_, err := Parse("once.yaml", []byte(text), Env{})
		var e *Error
		if !errors.As(err, &e) || len(e.Problems) != 1 {
			t.Errorf("%s: %v; want one problem", tt.preset, err)
			continue
		}
		// Nor is the flow told to use what only the preset gives.
		if p := e.Problems[0]; p.Msg != tt.want || p.Line != 3 || p.Column != 13 {
			t.Errorf("%s: %d:%d %s; want 3:13 %s", tt.preset, p.Line, p.Column, p.Msg, tt.want)
		}
	}
}

// robotPlans and webhookPlans are what makes identities by the presets: the texts of the first
// release that had them.
func robotPlans() map[string]SourcePlan {
	return map[string]SourcePlan{
		"robot-triple": {Key: [][]string{{"body.reqCode", "body.taskCode", "body.callbackMethod"}}},
		"hik-rcs-v3": {Key: [][]string{
			{"body.reqCode", "body.taskCode", "body.method"},
			{"body.taskCode", "body.method", "body.reqTime", "body.currentPositionCode",
				"body.wbCode"},
			{"body.taskCode", "body.method", "body.reqTime", "body.currentPositionCode", "'-'"},
			{"body.taskCode", "body.method", "body.reqTime", "'-'", "'-'"},
		}},
		"hik-rcs-v3-warnings": {Each: "body[?'data:'].orValue(body.data)", Key: [][]string{
			{"item.robotCode", "item.beginTime", "item.warnContent", "item.taskCode"},
			{"item.robotCode", "item.beginTime", "item.warnContent", "'-'"},
		}},
		"hik-rcs-v4": {
			Each: "body.?extra.orValue('') == '' ? body :" +
				" type(body.extra) == string ? json(body.extra) :" +
				" type(body.extra) == list ? body.extra : body",
			Key: [][]string{
				{"body.reqCode", "body.robotTaskCode",
					"item.?method.or(item.?extra.?values.?method).or(item.?values.?method)"},
				{"header['x-lr-request-id']", "body.robotTaskCode",
					"item.?method.or(item.?extra.?values.?method).or(item.?values.?method)"},
			},
		},
		"geekplus-rms": {
			Each: "body.request.body.?tasks.orValue([]) in [null, []] ? body.request.body :" +
				" body.request.body.tasks",
			Key: [][]string{
				{"body.request.header.requestId", "item.taskId", "item.taskStatus",
					"item.taskPhase"},
				{"body.request.header.requestId", "item.taskId", "item.taskStatus", "'-'"},
				{"body.request.header.requestId", "item.taskId", "'-'", "item.taskPhase"},
			},
		},
		"kuka-amr": {Key: [][]string{
			{"body.missionCode", "body.missionStatus", "body.currentPosition",
				"body.containerCode"},
			{"body.missionCode", "body.missionStatus", "body.currentPosition", "'-'"},
			{"body.missionCode", "body.missionStatus", "'-'", "body.containerCode"},
			{"body.missionCode", "body.missionStatus", "'-'", "'-'"},
		}},
	}
}

func webhookPlans() map[string]SourcePlan {
	const adyen = "item.NotificationRequestItem."
	return map[string]SourcePlan{
		"adyen": {Each: "body.notificationItems", Key: [][]string{
			{adyen + "pspReference", adyen + "eventCode", adyen + "success"}}},
		"github": {Key: [][]string{{"header['x-github-delivery']"}}},
		"paypal": {Key: [][]string{{"body.id"}}},
		"shopify": {Scope: "header['x-shopify-shop-domain']",
			Key: [][]string{{"header['x-shopify-webhook-id']"}}},
		"slack": {Key: [][]string{{"body.event_id"},
			{"body.type", "body.team_id", "body.minute_rate_limited"}}},
		"standard-webhooks": {Key: [][]string{{"header['webhook-id']"}}},
		"stripe":            {Key: [][]string{{"body.id"}}},
		"twilio": {Form: true, Key: [][]string{
			{"body.TranscriptionSid", "body.TranscriptionStatus"},
			{"body.RecordingSid", "body.RecordingStatus"},
			{"body.ConferenceSid", "body.StatusCallbackEvent", "body.SequenceNumber"},
			{"body.ConferenceSid", "body.StatusCallbackEvent", "body.Timestamp"},
			{"body.MessageSid", "body.MessageStatus"},
			{"body.MessageSid", "body.SmsStatus"}, {"body.CallSid", "body.CallStatus"}}},
	}
}

// What makes identities never changes under the name of a preset: a plant that updates the program
// would take every repeat for new.
func TestPresets_KeysNeverChange(t *testing.T) {
	plans := robotPlans()
	maps.Copy(plans, webhookPlans())
	for _, name := range presetNames() {
		want, known := plans[name]
		if !known {
			t.Errorf("%s: what makes its identities isn't held by this test", name)
			continue
		}
		lines := []string{"repeats: duplicate"}
		if _, isRobot := robotPlans()[name]; !isRobot {
			lines = append(lines, "auth: none")
		}
		c := mustParse(t, withPreset(name, lines...), Env{})
		if got := c.Plan().Sources["rcs"]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nhas  %+v\nwant %+v", name, got, want)
		}
	}
}

func TestPreset_EachIsMergedByMember(t *testing.T) {
	s := mustParse(t, withPreset("geekplus-rms", "each: {bad: refuse}"), Env{}).Sources[0]
	box := message(t, `{"request":{"body":{"tasks":[{"taskId":1},{"taskId":2}]}}}`)
	if items, err := s.Each(box); err != nil || len(items) != 2 || !s.RefuseBad {
		t.Errorf("%v, %v, refuse %v; want the preset's two items and a bad one refused", items, err,
			s.RefuseBad)
	}
	s = mustParse(t, withPreset("geekplus-rms", `each: "body.request.body"`), Env{}).Sources[0]
	if items, err := s.Each(box); err != nil || len(items) != 1 || s.RefuseBad {
		t.Errorf("%v, %v, refuse %v; want one item", items, err, s.RefuseBad)
	}
}

// A preset in the place of fields that say the same is no change to a store.
func TestPreset_IsTheSameSourceAsItsFields(t *testing.T) {
	written := `sources:
  rcs:
    key: ["body.reqCode", "body.taskCode", "body.callbackMethod"]
    event: "body.callbackMethod"
    repeats: {new_after: 1h}
` + called
	old := mustParse(t, written, Env{}).Plan()
	c := mustParse(t, withPreset("robot-triple"), Env{})
	use := InUse{Identities: map[string]int64{"rcs": 5}}
	if got := ComparePlans(old, c.Plan(), use, c.Migrate); len(got) != 0 {
		t.Errorf("refused: %v", got)
	}
}
