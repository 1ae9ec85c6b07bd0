package oncehttp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// TransportConfig says how a [Transport] sends. The zero value works.
type TransportConfig struct {
	// Base makes each try. Default http.DefaultTransport.
	Base http.RoundTripper
	// Methods whose requests get a key and are tried again. Default POST and PATCH. Requests of
	// other methods go to Base as they are.
	Methods []string
	// NewKey makes the key of a request that has none: 1 to 255 printable ASCII characters that
	// were never used before. Default: a random UUID (RFC 9562, version 4).
	NewKey func() string
	// MaxTries bounds the tries of a request, the first one included. Default 5.
	MaxTries int
	// MaxTime bounds all tries of a request and the pauses between them, until the header of the
	// answer that is returned has come. Default 2m.
	MaxTime time.Duration
	// TryTime bounds one try, from its start until the header of its answer has come. Default 30s.
	TryTime time.Duration
	// FirstPause is the most that is waited after the first try; it doubles with each further one.
	// The pause is drawn evenly between 0 and that ("full jitter"). Default 250ms.
	FirstPause time.Duration
	// MaxPause bounds what the doubling comes to. Default 15s. A Retry-After may ask for more.
	MaxPause time.Duration
	// MaxBuffer is how many bytes of a request's body are kept for further tries where the request
	// has no GetBody; http.NewRequest gives one for bodies that are in memory. Default 1 MiB.
	MaxBuffer int
}

// The defaults of a transport.
const (
	defaultMaxTries   = 5
	defaultMaxTime    = 2 * time.Minute
	defaultTryTime    = 30 * time.Second
	defaultFirstPause = 250 * time.Millisecond
	defaultMaxPause   = 15 * time.Second
	defaultMaxBuffer  = 1 << 20
)

// ErrNotRepeatable says that a request was tried only once, because its body is larger than
// [TransportConfig].MaxBuffer and it has no GetBody. It is joined to the error of that try.
var ErrNotRepeatable = errors.New("the body can't be sent again: it is larger than MaxBuffer and " +
	"the request has no GetBody")

// Transport is the client's side: an http.RoundTripper that puts a key on each request of the
// methods that change something, and sends the request again, with the same key and the same bytes,
// until it has an answer that trying again won't better.
//
// Tried again are broken connections and tries that take too long; 409 of an attempt in flight;
// 425, 429, 500, 502, 503 and 504. It waits as Retry-After says, else with exponential backoff
// and full jitter. Not tried again are all other answers, among them a 409 that says that a
// person has to decide, a 409 of another server without Retry-After, and every replay: it stays
// as it is. When the tries or the time are over the last answer is returned as it came, and the
// last error if there was no answer. A request whose body can't be sent twice is tried once.
//
// An answer has come when its header has. One whose body breaks off is the caller's to ask for
// again, under the same key.
//
// Use it only with servers that honour the keys: any other one does the work again. To go on over a
// restart of the client, set the key by [WithKey], or in the header, and keep it with the work.
//
// A Transport starts no goroutine, changes no request, and is safe for concurrent use.
type Transport struct {
	cfg TransportConfig
}

// NewTransport makes a transport. It refuses negative bounds and methods that are never guarded.
func NewTransport(cfg TransportConfig) (*Transport, error) {
	if cfg.MaxTries < 0 || cfg.MaxTime < 0 || cfg.TryTime < 0 || cfg.FirstPause < 0 ||
		cfg.MaxPause < 0 || cfg.MaxBuffer < 0 {
		return nil, errors.New("new transport: a bound is negative")
	}
	if len(cfg.Methods) == 0 {
		cfg.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	cfg.Methods = slices.Clone(cfg.Methods)
	for _, m := range cfg.Methods {
		if m == "" || m != strings.ToUpper(m) || slices.Contains(neverGuarded, m) {
			return nil, fmt.Errorf("new transport: method %q takes no key", m)
		}
	}
	if cfg.Base == nil {
		cfg.Base = http.DefaultTransport
	}
	if cfg.NewKey == nil {
		cfg.NewKey = newUUID
	}
	setDefault(&cfg.MaxTries, defaultMaxTries)
	setDefault(&cfg.MaxTime, defaultMaxTime)
	setDefault(&cfg.TryTime, defaultTryTime)
	setDefault(&cfg.FirstPause, defaultFirstPause)
	setDefault(&cfg.MaxPause, defaultMaxPause)
	setDefault(&cfg.MaxBuffer, defaultMaxBuffer)
	return &Transport{cfg: cfg}, nil
}

// RoundTrip sends a request and returns its answer, as http.RoundTripper says. The key of
// [WithKey] is refused if it is not 1 to 255 printable ASCII characters.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !slices.Contains(t.cfg.Methods, req.Method) {
		return t.cfg.Base.RoundTrip(req)
	}
	header, err := t.header(req)
	if err != nil {
		closeBody(req)
		return nil, fmt.Errorf("send request: %w", err)
	}
	body, err := repeatable(req, t.cfg.MaxBuffer)
	if err != nil {
		return nil, fmt.Errorf("send request: read its body: %w", err)
	}
	defer body.close()
	return t.send(req, header, body)
}

// CloseIdleConnections closes those of Base, if it can.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.cfg.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// send tries until there is an answer to return.
func (t *Transport) send(req *http.Request, header http.Header, body *repeatableBody) (
	*http.Response, error,
) {
	ctx := req.Context()
	end := time.Now().Add(t.cfg.MaxTime)
	most := t.cfg.MaxTries
	if body.once {
		most = 1
	}
	for n := 1; ; n++ {
		inner, err := body.request(req, header)
		if err != nil {
			return nil, fmt.Errorf("send request: try %d: body: %w", n, err)
		}
		r := t.try(inner, end)
		again, pause := t.again(ctx, r, n)
		if !again || n == most || !reaches(ctx, end, pause) {
			resp, err := r.keep()
			return resp, explain(err, n, body.once)
		}
		r.drop()
		if err := wait(ctx, pause); err != nil {
			return nil, fmt.Errorf("send request: pause after try %d: %w", n, err)
		}
	}
}

// reaches tells whether there is time for another try after a pause. If not, the answer that is
// there is worth more than a wait.
func reaches(ctx context.Context, end time.Time, pause time.Duration) bool {
	then := time.Now().Add(pause)
	if deadline, ok := ctx.Deadline(); ok && !then.Before(deadline) {
		return false
	}
	return then.Before(end)
}

func wait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// backoff is the pause after a try, counted from 1.
func (t *Transport) backoff(n int) time.Duration {
	most := t.cfg.FirstPause
	for i := 1; i < n && most < t.cfg.MaxPause; i++ {
		most *= 2
	}
	return rand.N(min(most, t.cfg.MaxPause))
}

func explain(err error, n int, once bool) error {
	switch {
	case err == nil:
		return nil
	case once:
		return fmt.Errorf("send request: %w; %w", err, ErrNotRepeatable)
	}
	return fmt.Errorf("send request: try %d: %w", n, err)
}
