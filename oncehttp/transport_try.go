package oncehttp

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Bounds on what is read of an answer that is not returned, or that is looked into.
const (
	maxDrain   = 64 << 10
	maxProblem = 16 << 10
)

// errTryTime ends a try whose answer doesn't come.
var errTryTime = errors.New("no answer in time")

// tried is what came of one try.
type tried struct {
	resp *http.Response
	err  error
	// timer ends the try; cancel ends its context.
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

// try sends a request once. It has until the end, and at most TryTime, for its answer. The time
// runs on until the answer is kept or dropped, so that looking into its body is bounded too.
func (t *Transport) try(inner *http.Request, end time.Time) *tried {
	ctx, cancel := context.WithCancelCause(inner.Context())
	limit := min(t.cfg.TryTime, time.Until(end))
	timer := time.AfterFunc(limit, func() { cancel(fmt.Errorf("%w: %s", errTryTime, limit)) })
	resp, err := t.cfg.Base.RoundTrip(inner.WithContext(ctx))
	if err == nil {
		return &tried{resp: resp, timer: timer, cancel: cancel}
	}
	timer.Stop()
	if cause := context.Cause(ctx); errors.Is(cause, errTryTime) {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	cancel(nil)
	return &tried{err: err}
}

// keep returns what came of the try, for the caller. Its context ends with the answer's body.
func (r *tried) keep() (*http.Response, error) {
	if r.resp != nil {
		r.timer.Stop()
		r.resp.Body = endWith(r.resp.Body, func() { r.cancel(nil) })
	}
	return r.resp, r.err
}

// drop reads an answer to its end, so that its connection can be used again, and closes it. A long
// or slow one is cut off.
func (r *tried) drop() {
	if r.resp == nil {
		return
	}
	_, _ = io.CopyN(io.Discard, r.resp.Body, maxDrain)
	_ = r.resp.Body.Close()
	r.timer.Stop()
	r.cancel(nil)
}

// again tells whether a try is worth another one, and after which pause.
func (t *Transport) again(ctx context.Context, r *tried, n int) (bool, time.Duration) {
	if ctx.Err() != nil {
		return false, 0
	}
	pause := t.backoff(n)
	if r.err != nil {
		return worthAnotherTry(r.err), pause
	}
	after, asked := retryAfter(r.resp)
	if !passes(r.resp, asked) {
		return false, 0
	}
	// Never earlier than asked for, and not all at the same moment.
	return true, after + pause
}

// worthAnotherTry tells a broken connection from what stays as it is: a certificate that is not
// trusted.
func worthAnotherTry(err error) bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return !errors.As(err, &certificate) && !errors.As(err, &record)
}

// passes tells whether what an answer says may pass.
func passes(resp *http.Response, asked bool) bool {
	if resp.Header.Get(HeaderReplayed) == "true" {
		return false // it stays as it is
	}
	switch resp.StatusCode {
	case http.StatusTooEarly, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusConflict:
		kind := problemType(resp)
		return kind == problemTypePrefix+ProblemInFlight ||
			asked && !strings.HasPrefix(kind, problemTypePrefix)
	}
	return false
}

// problemType returns the type of a problem (RFC 9457), or nothing. The body can be read after it.
func problemType(resp *http.Response) string {
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || media != contentTypeProblemJSON {
		return ""
	}
	body := resp.Body
	head, err := io.ReadAll(io.LimitReader(body, maxProblem))
	rest := io.Reader(body)
	if err != nil {
		rest = broken{err}
	}
	resp.Body = readCloser{io.MultiReader(bytes.NewReader(head), rest), body}
	var problem struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(head, &problem) != nil {
		return ""
	}
	return problem.Type
}

// broken gives the error that a body ended with.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// retryAfter reads how long a server asks to wait (RFC 9110, section 10.2.3). A date counts from
// the server's own Date, since its clock may differ from ours.
func retryAfter(resp *http.Response) (time.Duration, bool) {
	text := strings.TrimSpace(resp.Header.Get("Retry-After"))
	if text == "" {
		return 0, false
	}
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil && seconds >= 0 {
		return time.Duration(seconds) * time.Second, true
	}
	then, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	now, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return max(0, then.Sub(now)), true
}

// endWith calls done when a body was read to its end or closed. A body that can be written to,
// after 101, still can.
func endWith(body io.ReadCloser, done func()) io.ReadCloser {
	b := &endingBody{body, done}
	if w, ok := body.(io.Writer); ok {
		return struct {
			*endingBody
			io.Writer
		}{b, w}
	}
	return b
}

type endingBody struct {
	body io.ReadCloser
	done func()
}

func (b *endingBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if err != nil {
		b.done()
	}
	return n, err
}

func (b *endingBody) Close() error {
	err := b.body.Close()
	b.done()
	return err
}
