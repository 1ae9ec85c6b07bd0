package demo

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/internal/demo/model"
)

// post sends one callback to a server that answers so, and returns what is noted of it.
func post(t *testing.T, h how, answer http.HandlerFunc) (model.Send, *model.Callback, error) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	var failed error
	book := newLedger()
	s := newSender(book, time.Now(), func(err error) { failed = err },
		server.Listener.Addr().String())
	t.Cleanup(s.close)
	if answer == nil {
		server.Close()
	}
	c := &model.Callback{Request: "R", Task: "T", Event: "finishFE", Robot: "AGV-1"}
	book.begin(c)
	if told := s.post(t.Context(), c, h); told != c.Sends[0].Told {
		t.Errorf("told %v, noted %v", told, c.Sends[0].Told)
	}
	return c.Sends[0], c, failed
}

func TestASenderNotesWhatItWasAnswered(t *testing.T) {
	t.Parallel()
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body) // so that the end of the connection is noticed
		<-r.Context().Done()
	}
	status := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(n) }
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		how    how
		says   string
		told   bool
		fails  bool
	}{
		"accepted":       {status(200), how{}, "200", true, false},
		"another 2xx":    {status(204), how{}, "204", true, false},
		"unavailable":    {status(503), how{}, "503", false, false},
		"refused":        {status(400), how{}, "400", false, true},
		"no answer":      {hang, how{}, "timed out", false, false},
		"cut on purpose": {hang, how{cut: true}, "cut before the answer", false, false},
		"cut off": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			how{}, "connection lost", false, false},
		"nobody there": {nil, how{}, "refused", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent, _, err := post(t, c.how, c.answer)
			if sent.Answer != c.says || sent.Told != c.told || (err != nil) != c.fails {
				t.Errorf("noted %+v, failed %v", sent, err)
			}
		})
	}
}

// The replies are those of plant.yaml, written down here by hand.
func TestAReplyThatTheFileDoesNotSayIsNoted(t *testing.T) {
	t.Parallel()
	const accepted = `{"code":"0","message":"Success","reqCode":"R"}`
	for name, c := range map[string]struct {
		status      int
		body, wrong string // what is noted contains wrong; empty: nothing is noted
	}{
		"accepted":            {200, accepted, ""},
		"in another order":    {200, `{"reqCode": "R", "message": "Success", "code": "0"}`, ""},
		"unavailable":         {503, `{"code":"99","message":"try again","reqCode":"R"}`, ""},
		"unavailable, unread": {503, `{"code":"99","message":"try again","reqCode":""}`, ""},
		"another code":        {200, `{"code":"1","message":"Success","reqCode":"R"}`, accepted},
		"another message":     {200, `{"code":"0","message":"OK","reqCode":"R"}`, accepted},
		"another request":     {200, `{"code":"0","message":"Success","reqCode":"Q"}`, accepted},
		"no request":          {200, `{"code":"0","message":"Success","reqCode":""}`, accepted},
		"a field is missing":  {200, `{"code":"0","message":"Success"}`, accepted},
		"one field more": {200, `{"code":"0","message":"Success","reqCode":"R","a":1}`,
			accepted},
		"a number":         {200, `{"code":0,"message":"Success","reqCode":"R"}`, accepted},
		"null":             {200, `null`, accepted},
		"no body":          {200, "", `the body of the 200 is no JSON object: ""`},
		"an array":         {200, `[]`, `the body of the 200 is no JSON object: "[]"`},
		"another 2xx":      {201, accepted, "the status is 201, and should be 200 or 503"},
		"success in a 503": {503, accepted, `{"code":"99","message":"try again","reqCode":"R"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent, _, err := post(t, how{}, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			if err != nil || (sent.Wrong == "") != (c.wrong == "") ||
				!strings.Contains(sent.Wrong, c.wrong) {
				t.Errorf("noted %q, %v, want %q", sent.Wrong, err, c.wrong)
			}
		})
	}
	for _, line := range []string{
		`accepted:    {status: 200, body: {code: "0", message: Success, reqCode: ` +
			`"${body.reqCode}"}}`,
		`unavailable: {status: 503, body: {code: "99", message: try again, reqCode: ` +
			`"${body.?reqCode.orValue('')}"}}`,
	} {
		if !strings.Contains(plantFile, line) {
			t.Errorf("the file has no longer %s", line)
		}
	}
	if strings.Contains(plantFile, "duplicate:") || strings.Contains(plantFile, "conflict:") {
		t.Error("the file has replies of their own for duplicates or conflicts")
	}
}

func TestABodyHasWhatItsEventNeedsAndAChangeIsNotInItsKey(t *testing.T) {
	t.Parallel()
	c := &model.Callback{Request: "R", Task: "T", Event: "startFE", Robot: "AGV-1", Roadway: "R7",
		Station: "S1", Seq: 4}
	want := map[string]string{
		"startFE": `{"callbackMethod":"startFE","data":{"roadway":"R7"},"reqCode":"R",` +
			`"reqTime":"9","robotCode":"AGV-1","taskCode":"T"}`,
		"updateSeq": `{"callbackMethod":"updateSeq","data":{"seq":4},"reqCode":"R",` +
			`"reqTime":"9","robotCode":"AGV-1","taskCode":"T"}`,
		"station": `{"callbackMethod":"station","currentPositionCode":"S1","reqCode":"R",` +
			`"reqTime":"9","robotCode":"AGV-1","taskCode":"T"}`,
		"finish": `{"callbackMethod":"finish","reqCode":"R","reqTime":"9","robotCode":"AGV-1",` +
			`"taskCode":"T"}`,
	}
	for event, text := range want {
		c.Event = event
		b, err := body(c, false, 9)
		if err != nil || string(b) != text {
			t.Errorf("%s: %s, %v, want %s", event, b, err, text)
		}
		other, err := body(c, true, 9)
		var changed map[string]any
		if err := json.Unmarshal(other, &changed); err != nil {
			t.Fatal(err)
		}
		if err != nil || changed["robotCode"] != "AGV-1-X" || changed["reqCode"] != "R" ||
			changed["taskCode"] != "T" || changed["callbackMethod"] != event {
			t.Errorf("%s, changed: %s, %v", event, other, err)
		}
	}
}

func TestTheLedgerCountsAndKeepsTheOrderOfFirstAnswers(t *testing.T) {
	t.Parallel()
	l := newLedger()
	a, b, never := &model.Callback{Request: "a"}, &model.Callback{Request: "b"},
		&model.Callback{Request: "never"}
	for _, c := range []*model.Callback{a, b, never} {
		l.begin(c)
	}
	told := model.Send{Told: true}
	l.note(a, model.Send{Answer: "timed out"})
	l.note(b, told)
	l.note(a, told)
	l.note(a, told)
	l.shift()
	l.note(b, model.Send{Told: true, Why: model.WhyLate})
	l.note(b, model.Send{Told: true, Changed: true})
	l.note(never, model.Send{Answer: "refused"})
	list := l.callbacks()
	if len(list) != 3 || list[0] != b || list[1] != a || list[2] != never ||
		l.acknowledged(never) || !l.acknowledged(a) {
		t.Errorf("callbacks %v", list)
	}
	got := [...]int64{l.sent.Load(), l.accepted.Load(), l.duplicates.Load(), l.late.Load(),
		l.conflicts.Load(), l.unanswered.Load()}
	if want := [...]int64{7, 2, 2, 1, 1, 2}; got != want {
		t.Errorf("counted %v, want %v", got, want)
	}
	if old := l.earlier(func(n int) int { return n - 1 }, 9); len(old) != 2 || old[0] != a {
		t.Errorf("earlier ones: %v", old)
	}
}
