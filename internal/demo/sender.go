package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/oncekit/once/internal/demo/model"
)

// Bounds of the senders.
const (
	// answerLimit is how long a controller waits for an answer before it sends again.
	answerLimit = time.Second
	// patientLimit is that after the load, when nothing goes wrong any more.
	patientLimit = 15 * time.Second
	// resendAfter and resendMost bound the wait before a callback is sent again.
	resendAfter = 40 * time.Millisecond
	resendMost  = 400 * time.Millisecond
	// maxReply bounds what is read of an answer.
	maxReply = 64 << 10
	// maxConns bounds the connections to the server.
	maxConns = 512
)

// sender posts callbacks and notes the answers.
type sender struct {
	// urls are those of the nodes: each request goes to the next one, also one that is sent again.
	urls   []string
	posts  atomic.Uint64
	client *http.Client
	book   *ledger
	start  time.Time
	// fail is called with an answer that must not be.
	fail func(error)
	// patient is set after the load.
	patient atomic.Bool
}

func newSender(book *ledger, start time.Time, fail func(error), addrs ...string) *sender {
	s := &sender{book: book, start: start, fail: fail,
		client: &http.Client{Transport: &http.Transport{
			MaxIdleConnsPerHost: maxConns, MaxConnsPerHost: maxConns}}}
	for _, addr := range addrs {
		s.urls = append(s.urls, "http://"+addr+"/in/rcs")
	}
	return s
}

// next is where the next request goes.
func (s *sender) next() string { return s.urls[s.posts.Add(1)%uint64(len(s.urls))] }

func (s *sender) close() { s.client.CloseIdleConnections() }

// body is the message of a callback. The time of a request differs in each.
func body(c *model.Callback, changed bool, stamp int64) ([]byte, error) {
	m := map[string]any{"reqCode": c.Request, "taskCode": c.Task, "callbackMethod": c.Event,
		"robotCode": c.Robot, "reqTime": strconv.FormatInt(stamp, 10)}
	if changed {
		m["robotCode"] = c.Robot + "-X"
	}
	switch c.Event {
	case "startFE":
		m["data"] = map[string]any{"roadway": c.Roadway}
	case "updateSeq":
		m["data"] = map[string]any{"seq": c.Seq}
	case "station":
		m["currentPositionCode"] = c.Station
	}
	return json.Marshal(m)
}

// how says how a callback is sent.
type how struct {
	why     string
	changed bool
	// cut closes the connection when the request was written, before its answer.
	cut bool
}

// errCut is the sender's own cut.
var errCut = errors.New("cut by the sender")

// post sends a callback once and reports whether it was acknowledged.
func (s *sender) post(ctx context.Context, c *model.Callback, h how) bool {
	sent := model.Send{At: time.Since(s.start), Why: h.why, Changed: h.changed}
	status, reply, err := s.do(ctx, c, h)
	if err == nil {
		sent.Wrong = misreply(c, status, reply)
	}
	switch {
	case err == nil && status/100 == 2:
		sent.Told, sent.Answer = true, strconv.Itoa(status)
	case err == nil && status != http.StatusServiceUnavailable:
		sent.Answer = strconv.Itoa(status)
		s.fail(fmt.Errorf("%s of %s was answered %d %.200q, and is right", c.Name(), c.Task,
			status, reply))
	case err == nil:
		sent.Answer = strconv.Itoa(status)
	case ctx.Err() != nil && !errors.Is(err, errCut):
		sent.Answer = "given up"
	default:
		sent.Answer = explain(err)
	}
	s.book.note(c, sent)
	return sent.Told
}

// explain says in a word why there is no answer.
func explain(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, errCut):
		return "cut before the answer"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timed out"
	}
	return "connection lost"
}

// do makes the request and returns the status and the body of its reply.
func (s *sender) do(
	ctx context.Context, c *model.Callback, h how,
) (status int, reply []byte, err error) {
	b, err := body(c, h.changed, time.Now().UnixMilli())
	if err != nil {
		return 0, nil, err
	}
	limit := answerLimit
	if s.patient.Load() {
		limit = patientLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	if h.cut {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			WroteRequest: func(httptrace.WroteRequestInfo) { cut(errCut) }})
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.next(), bytes.NewReader(b))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errCut) {
			return 0, nil, errCut
		}
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }() // it was read
	if reply, err = io.ReadAll(io.LimitReader(res.Body, maxReply)); err != nil {
		return 0, nil, err
	}
	return res.StatusCode, reply, nil
}
