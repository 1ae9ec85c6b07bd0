package scenario_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/oncekit/once/internal/scenario"
	"github.com/oncekit/once/scenarios"
)

func TestThereAreScenariosForEveryCaseThatHTTPCanExpress(t *testing.T) {
	cases := map[string]int{}
	list, err := scenario.Load(scenarios.Files())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		for _, id := range s.Cases {
			cases[id]++
		}
	}
	for _, id := range strings.Fields("K01 K03 K05 K11 K19 K20 K23 H01 H02 H03 H04 H06 H09 H10 " +
		"S01 S02 S03 S04 S07 F01 F02 F03 F06 F07 F09 F10 F12 R01 R02 R04 R05 R10 R11 R12 R13 R14 " +
		"R16 P01") {
		if cases[id] == 0 {
			t.Errorf("no scenario names %s", id)
		}
		delete(cases, id)
	}
	if len(cases) > 0 {
		t.Errorf("scenarios name cases that are not there: %v", cases)
	}
	if len(list) < 100 {
		t.Errorf("%d scenarios, want at least 100", len(list))
	}
}

func TestFilesThatMakeNoSenseAreRefused(t *testing.T) {
	const head = "- id: a\n  title: T\n  why: W\n"
	const steps = "  steps: [{send: {}, expect: {status: 201}}]\n  runs: 1\n"
	for name, c := range map[string]struct{ text, want string }{
		"an unknown member": {head + "  origins: []\n" + steps, "origins"},
		"a name twice":      {head + "  title: U\n" + steps, "title"},
		"no runs":           {head + "  steps: [{send: {}, expect: {}}]\n", "runs is missing"},
		"no steps":          {head + "  runs: 1\n", "no steps"},
		"two verbs": {head + "  steps: [{send: {}, wait: 1s, expect: {}}]\n  runs: 1\n",
			"has 2 verbs"},
		"no verb":             {head + "  steps: [{}]\n  runs: 1\n", "has 0 verbs"},
		"nothing is expected": {head + "  steps: [{send: {}}]\n  runs: 1\n", "expects nothing"},
		"a step that is not there": {
			head + "  steps: [{send: {}, expect: {same_as: x}}]\n  runs: 1\n", `no step "x"`},
		"await of what isn't sent": {head + "  steps: [{await: x}]\n  runs: 1\n", `no step "x"`},
		"an unknown placeholder": {
			head + "  steps: [{send: {body: '${k}'}, expect: {}}]\n  runs: 1\n", "${k}"},
		"a bad pattern": {
			head + "  steps: [{send: {}, expect: {matches: {A: '('}}}]\n  runs: 1\n", "header A"},
		"a bad id":          {strings.Replace(head, "a", "A_b", 1) + steps, "its id"},
		"an id twice":       {head + steps + head + steps, "a is in f.yaml already"},
		"a second document": {head + steps + "---\n" + head + steps, "second document"},
		"a long wait":       {head + "  steps: [{wait: 1h}]\n  runs: 1\n", "is longer than 10s"},
		"a bad close":       {head + "  origin: [{close: x}]\n" + steps, "close"},
		"nothing":           {"[]", "no scenarios"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := scenario.Load(fstest.MapFS{"f.yaml": {Data: []byte(c.text)}})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// one runs a single scenario against a proxy that a function stands in front of.
func one(t *testing.T, text string, wrap wrapper) scenario.Result {
	t.Helper()
	list, err := scenario.Load(fstest.MapFS{"f.yaml": {Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	o := origin(t)
	results, err := scenario.Run(t.Context(), list, scenario.Config{
		Target: target(t, o, wrap), Origin: o, Patience: 2 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	return results[0]
}

func TestWhatDiffersIsTold(t *testing.T) {
	const head = "- id: a\n  title: T\n  why: W\n"
	plain := func(_ string, h http.Handler) http.Handler { return h }
	for name, c := range map[string]struct {
		text string
		wrap wrapper
		want string
	}{
		"a status": {
			"  steps: [{send: {}, expect: {status: 200}}]\n  runs: 1\n", plain,
			"step 1: status: got 201, want 200",
		},
		"a header": {
			"  steps: [{send: {}, expect: {headers: {X-A: [b]}}}]\n  runs: 1\n", plain,
			`step 1: header X-A: got none, want "b"`,
		},
		"how often it ran": {
			"  steps: [{send: {}, expect: {}}, {send: {}, expect: {}}]\n  runs: 1\n", plain,
			"the origin ran 2 times, want 1",
		},
		"a problem": {
			"  steps: [{send: {}, expect: {problem: mismatch}}]\n  runs: 1\n", plain,
			`step 1: content type: got "application/json", want application/problem+json`,
		},
		"another body": {
			"  steps: [{name: x, send: {}, expect: {}}, {send: {}, expect: {same_as: x}}]\n" +
				"  runs: 2\n", plain, "step 2: body: got",
		},
		"one of many": {
			"  steps: [{together: {times: 3, send: {}, answers: [{count: 1, status: 201}]}}]\n" +
				"  runs: 3\n", plain, "step 1: 3 answers are as the alternative 1 says, want 1",
		},
		"what the origin got": {
			"  steps: [{name: x, send: {body: abc}, expect: {}}]\n  runs: 1\n" +
				"  seen: [{body_of: x}]\n",
			func(_ string, h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					r.Body = io.NopCloser(strings.NewReader("abd"))
					h.ServeHTTP(w, r)
				})
			},
			`the origin's run 1: body: got "abd", want what x sent: "abc"`,
		},
		"a missing answer": {
			"  steps: [{send: {}, expect: {status: 201}}]\n  runs: 0\n",
			func(_ string, _ http.Handler) http.Handler {
				return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					panic(http.ErrAbortHandler)
				})
			},
			"step 1: no whole answer: unexpected EOF",
		},
		"a request that doesn't come": {
			"  steps: [{until_runs: 1}]\n  runs: 1\n", plain,
			"step 1: the origin got 0 requests in 2s, want 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := one(t, head+c.text, c.wrap)
			if r.Passed || !strings.HasPrefix(r.Problems[0], c.want) {
				t.Errorf("problems %q, want %q", r.Problems, c.want)
			}
		})
	}
}

func TestATargetThatSendsOnToSomethingElseIsTold(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	u, err := url.Parse(other.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, err = scenario.Run(t.Context(), load(t), scenario.Config{Target: u, Origin: origin(t)})
	if err == nil || !strings.Contains(err.Error(), "does not send on to the origin") {
		t.Errorf("error %v", err)
	}
}

func TestResultsAreWrittenForPeopleAndPrograms(t *testing.T) {
	results := []scenario.Result{
		{ID: "a", Title: "A happens.", Passed: true, Took: 12 * time.Millisecond},
		{ID: "long-id", Title: "B happens.", Why: "Else C.", Problems: []string{"step 1: wrong"}},
	}
	var table, lines bytes.Buffer
	if err := scenario.WriteTable(&table, results); err != nil {
		t.Fatal(err)
	}
	const want = "ok      a           12ms  A happens.\n" +
		"FAILED  long-id       0s  B happens.\n" +
		"          step 1: wrong\n" +
		"          why it matters: Else C.\n" +
		"\n2 scenarios: 1 passed, 1 failed\n"
	if table.String() != want {
		t.Errorf("got\n%swant\n%s", table.String(), want)
	}
	if err := scenario.WriteJSON(&lines, results); err != nil {
		t.Fatal(err)
	}
	var second scenario.Result
	dec := json.NewDecoder(&lines)
	if err := dec.Decode(&struct{}{}); err != nil {
		t.Fatal(err)
	}
	if err := dec.Decode(&second); err != nil || second.ID != "long-id" || second.Passed ||
		!slices.Equal(second.Problems, results[1].Problems) {
		t.Errorf("%+v, %v", second, err)
	}
	if scenario.Passed(results) || !scenario.Passed(results[:1]) {
		t.Error("the verdict is wrong")
	}
}

func TestScenariosAreChosenByTheirIDs(t *testing.T) {
	all := load(t)
	some, err := scenario.Choose(all, []string{"race-of-twenty", "key-line-twice"}, nil)
	if err != nil || len(some) != 2 {
		t.Errorf("%d scenarios, %v", len(some), err)
	}
	rest, err := scenario.Choose(all, nil, []string{"race-of-twenty"})
	if err != nil || len(rest) != len(all)-1 {
		t.Errorf("%d of %d scenarios, %v", len(rest), len(all), err)
	}
	if _, err := scenario.Choose(all, []string{"no-such"}, nil); err == nil {
		t.Error("an unknown id is not refused")
	}
}
