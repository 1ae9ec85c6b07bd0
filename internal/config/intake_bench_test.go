package config

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// receiving is the source of a real configuration, and a callback of 1 KiB for it.
type receiving struct {
	src   *inbox.Source
	scope once.Scope
	msg   *inbox.Message
	ctx   context.Context
}

// receivings are what the benchmark and its test receive: the configurations in testdata/intake,
// each with a callback of its controller. The first one is that of the figure; the others take the
// message apart, so that each of their expressions is worked by CEL.
func receivings() []string { return []string{"hik-rcs-v3", "geekplus-rms", "hik-rcs-v4"} }

func newReceiving(tb testing.TB, name string) *receiving {
	tb.Helper()
	raw, err := os.ReadFile("testdata/intake/" + name + ".json")
	if err != nil {
		tb.Fatal(err)
	}
	if len(raw) != 1024 || !json.Valid(raw) {
		tb.Fatalf("the callback has %d bytes, want 1024 of JSON", len(raw))
	}
	file, err := os.ReadFile("testdata/intake/" + name + ".yaml")
	if err != nil {
		tb.Fatal(err)
	}
	const secret = "the old secret of the site's proxy"
	c, err := Parse(name+".yaml", file, vars(map[string]string{"PROXY_SECRET": secret}))
	if err != nil {
		tb.Fatal(err)
	}
	body, err := value.Decode(raw, value.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	src := c.Sources[0]
	scope, err := once.NewScope("source", src.Name)
	if err != nil {
		tb.Fatal(err)
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10) // right for five minutes
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamp + "." + string(raw)))
	return &receiving{src: src, scope: scope, ctx: tb.Context(), msg: &inbox.Message{
		Source: src.Name, Method: http.MethodPost, Path: "/in/rcs", Raw: raw, Body: body,
		Header: http.Header{
			"Content-Type": {"application/json;charset=UTF-8"}, "User-Agent": {"Java/1.8.0_202"},
			"Accept": {"*/*"}, "Content-Length": {"1024"}, "X-Lr-Request-Id": {"lr-000471142"},
			"X-Timestamp": {stamp}, "X-Signature": {"sha256=" + hex.EncodeToString(mac.Sum(nil))},
		},
	}}
}

// decode is the part that isn't counted.
func (r *receiving) decode(tb testing.TB) {
	if _, err := value.Decode(r.msg.Raw, value.Limits{}); err != nil {
		tb.Fatal(err)
	}
}

// receive does with a decoded callback what is counted: signature, elements, key, identity, event,
// fingerprint, route and reply. It returns the reply.
func (r *receiving) receive(tb testing.TB) []byte {
	err := r.src.Verifier.Verify(r.ctx, r.msg)
	if err == nil && r.src.Each != nil {
		var items []any
		if items, err = r.src.Each(r.msg); err == nil {
			r.msg.Item = items[0]
		}
	}
	if err != nil {
		tb.Fatal(err)
	}
	key, err := r.src.Key(r.msg)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := once.Identify(r.scope, key); err != nil {
		tb.Fatal(err)
	}
	event, err := r.src.Event(r.msg)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := r.src.Fingerprint(r.msg); err != nil {
		tb.Fatal(err)
	}
	if route, err := r.src.Route(r.msg, event); err != nil || route.Unrouted {
		tb.Fatalf("%+v, %v", route, err)
	}
	reply, _, err := r.src.Replies[queue.Accepted].Body(r.msg)
	if err != nil {
		tb.Fatal(err)
	}
	return reply
}

// inner is what it allocates to decode the JSON that a text of the body holds, which isn't counted.
func (r *receiving) inner(tb testing.TB) float64 {
	text, ok := r.msg.Body.(map[string]any)["extra"].(string)
	if !ok {
		return 0
	}
	return testing.AllocsPerRun(100, func() {
		if _, err := value.Decode([]byte(text), value.Limits{}); err != nil {
			tb.Fatal(err)
		}
	})
}

// maxAllocations is what a callback of 1 KiB may cost beside its decoding.
const maxAllocations = 40

func TestReceiving_AllocatesLittle(t *testing.T) {
	for name, want := range map[string]string{
		"hik-rcs-v3": `{"code":"0","message":"Success","reqCode":"15A0BC96B1112"}`,
		"geekplus-rms": `{"id":"client","msgType":"RobotTaskCallbackResponseMsg","response":` +
			`{"header":{"responseId":"07b1aa66-8f0c-4a3e-9a53-0a7f3f6d2b11","code":0,` +
			`"msg":"success"}}}`,
		"hik-rcs-v4": `{"code":"SUCCESS","message":"Success","data":` +
			`{"robotTaskCode":"T16A0E0F39740116Q","nextSeq":1,"extra":null}}`,
	} {
		r := newReceiving(t, name)
		if got := r.receive(t); string(got) != want {
			t.Errorf("%s: the reply is %s, want %s", name, got, want)
		}
		n := testing.AllocsPerRun(100, func() { r.receive(t) }) - r.inner(t)
		if t.Logf("%s: %v allocations", name, n); n > maxAllocations+poolMisses {
			t.Errorf("%s: %v allocations beside decoding, want at most %d", name, n,
				maxAllocations+poolMisses)
		}
	}
}

// Both are measured in turns within one run, so that a machine whose speed changes doesn't decide.
func BenchmarkReceiving(b *testing.B) {
	for _, name := range receivings() {
		b.Run(name, func(b *testing.B) {
			r := newReceiving(b, name)
			const turn = 20
			var decoding, rest time.Duration
			n := 0
			for b.Loop() {
				start := time.Now()
				for range turn {
					r.decode(b)
				}
				middle := time.Now()
				for range turn {
					r.receive(b)
				}
				decoding, rest, n = decoding+middle.Sub(start), rest+time.Since(middle), n+turn
			}
			b.ReportMetric(float64(decoding.Nanoseconds())/float64(n), "ns/decoding")
			b.ReportMetric(float64(rest.Nanoseconds())/float64(n), "ns/receiving")
			b.ReportMetric(float64(rest)/float64(decoding), "ratio")
			b.ReportMetric(testing.AllocsPerRun(100, func() { r.receive(b) }), "allocs/receiving")
			b.ReportMetric(0, "ns/op") // of a turn: no figure
		})
	}
}
