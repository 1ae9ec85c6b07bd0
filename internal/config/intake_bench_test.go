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

// maxAllocations is what a callback of 1 KiB may cost beside its decoding.
const maxAllocations = 40

// receiving is the configuration of a real source, and a callback of 1 KiB for it.
type receiving struct {
	src   *inbox.Source
	scope once.Scope
	msg   *inbox.Message
	ctx   context.Context
}

// newReceiving reads what the benchmark and its test receive: testdata/intake.yaml, and a callback
// of the task system in full, as testdata/intake.json has it.
func newReceiving(tb testing.TB) *receiving {
	tb.Helper()
	file, err := os.ReadFile("testdata/intake.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	raw, err := os.ReadFile("testdata/intake.json")
	if err != nil {
		tb.Fatal(err)
	}
	if len(raw) != 1024 || !json.Valid(raw) {
		tb.Fatalf("the callback has %d bytes, want 1024 of JSON", len(raw))
	}
	const secret = "the old secret of the site's proxy"
	c, err := Parse("intake.yaml", file, vars(map[string]string{"PROXY_SECRET": secret}))
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
		Source: src.Name, Method: http.MethodPost, Path: src.Paths[0], Raw: raw, Body: body,
		Header: http.Header{
			"Content-Type": {"application/json;charset=UTF-8"}, "User-Agent": {"Java/1.8.0_202"},
			"Accept": {"*/*"}, "Content-Length": {"1024"},
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

// receive does with a decoded callback what is counted: signature, key, identity, event,
// fingerprint, route and reply. It returns the reply.
func (r *receiving) receive(tb testing.TB) []byte {
	if err := r.src.Verifier.Verify(r.ctx, r.msg); err != nil {
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
	if _, err := r.src.Route(r.msg, event); err != nil {
		tb.Fatal(err)
	}
	reply, _, err := r.src.Replies[queue.Accepted].Body(r.msg)
	if err != nil {
		tb.Fatal(err)
	}
	return reply
}

func TestReceiving_AllocatesLittle(t *testing.T) {
	r := newReceiving(t)
	const want = `{"code":"0","message":"Success","reqCode":"15A0BC96B1112"}`
	if got := r.receive(t); string(got) != want {
		t.Fatalf("the reply is %s, want %s", got, want)
	}
	if n := testing.AllocsPerRun(100, func() { r.receive(t) }); n > maxAllocations {
		t.Errorf("%v allocations beside decoding, want at most %d", n, maxAllocations)
	}
}

// Both are measured in turns within one run, so that a machine whose speed changes doesn't decide.
func BenchmarkReceiving(b *testing.B) {
	r := newReceiving(b)
	const turn = 100
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
}
