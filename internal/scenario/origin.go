package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// WhoamiPath is where the origin says whether a caller may: 200 or 403.
const WhoamiPath = "/whoami"

// Origin is the service behind the target. Its methods are safe for concurrent use.
type Origin struct {
	listener net.Listener
	server   *http.Server

	mu   sync.Mutex
	acts map[string]*act // by token
}

// act is what the origin does in one run of a scenario.
type act struct {
	behaviours []Behaviour
	key        string
	// patience bounds each wait.
	patience time.Duration

	mu        sync.Mutex
	changed   chan struct{} // closed and made anew when a run begins
	runs      []*run
	forbidden bool
}

// run is one request that the origin got.
type run struct {
	n      int
	method string
	path   string // without group and token
	header http.Header
	length int64

	body    []byte
	trailer http.Header
	goOn    chan struct{}
	release sync.Once
}

// ListenOrigin starts an origin on an address such as 127.0.0.1:7010.
func ListenOrigin(ctx context.Context, address string) (*Origin, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen as the origin: %w", err)
	}
	o := &Origin{listener: l, acts: map[string]*act{}}
	o.server = &http.Server{
		Handler: o, ReadHeaderTimeout: defaultPatience, IdleTimeout: 2 * defaultPatience,
	}
	go func() { _ = o.server.Serve(l) }() // ends with Close
	return o, nil
}

// Address is where the origin listens: HOST:PORT.
func (o *Origin) Address() string { return o.listener.Addr().String() }

// Close ends the origin and its connections. It is safe twice.
func (o *Origin) Close() error { return o.server.Close() }

// enter makes the origin know a run of a scenario.
func (o *Origin) enter(token string, a *act) {
	a.changed = make(chan struct{})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.acts[token] = a
}

func (o *Origin) leave(token string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.acts, token)
}

func (o *Origin) act(token string) *act {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.acts[token]
}

// ServeHTTP does what the scenario says whose token is in the path.
func (o *Origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == WhoamiPath {
		o.whoami(w, r)
		return
	}
	parts := strings.SplitN(r.RequestURI, "/", 4) // "", group, token, path
	if len(parts) < 4 {
		http.NotFound(w, r)
		return
	}
	a := o.act(parts[2])
	if a == nil {
		http.NotFound(w, r)
		return
	}
	a.serve(w, r, "/"+parts[3])
}

func (o *Origin) whoami(w http.ResponseWriter, r *http.Request) {
	account := r.Header.Get(accountHeader)
	token, _, _ := strings.Cut(account, "-")
	w.Header().Set("X-Account-Id", account)
	if a := o.act(token); a != nil && a.isForbidden() {
		http.Error(w, "the origin forbids it", http.StatusForbidden)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (a *act) isForbidden() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.forbidden
}

func (a *act) setForbidden(forbidden bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forbidden = forbidden
}

// serve counts a request and does with it what is said.
func (a *act) serve(w http.ResponseWriter, r *http.Request, path string) {
	one, b := a.begin(r, path)
	if !b.Unread {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // nobody is there to be answered
		}
		a.mu.Lock()
		one.body, one.trailer = body, r.Trailer
		a.mu.Unlock()
	}
	if !pauseFor(r.Context(), b.Delay) || b.Waits && !one.wait(r.Context(), a.patience) {
		panic(http.ErrAbortHandler)
	}
	if err := b.answer(w, vars{a.key, one.n}); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// begin notes a request and tells those who wait for it.
func (a *act) begin(r *http.Request, path string) (*run, Behaviour) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := &run{
		n: len(a.runs) + 1, method: r.Method, path: path, header: r.Header, length: r.ContentLength,
		goOn: make(chan struct{}),
	}
	a.runs = append(a.runs, one)
	close(a.changed)
	a.changed = make(chan struct{})
	if len(a.behaviours) == 0 {
		return one, Behaviour{}
	}
	return one, a.behaviours[min(one.n, len(a.behaviours))-1]
}

// count is how often the origin ran.
func (a *act) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.runs)
}

// until waits until there are so many runs.
func (a *act) until(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	for {
		a.mu.Lock()
		have, changed := len(a.runs), a.changed
		a.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the origin got %d requests in %s, want %d", have, a.patience, n)
		}
	}
}

// letGo lets a run go on that waits.
func (a *act) letGo(n int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n < 1 || n > len(a.runs) {
		return fmt.Errorf("the origin has no run %d to let go", n)
	}
	a.runs[n-1].release.Do(func() { close(a.runs[n-1].goOn) })
	return nil
}

// letAllGo ends all waits.
func (a *act) letAllGo() {
	for n := range a.count() {
		_ = a.letGo(n + 1)
	}
}

func (one *run) wait(ctx context.Context, patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-one.goOn:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

func pauseFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

var errCut = errors.New("cut")

// answer writes the answer.
func (b *Behaviour) answer(w http.ResponseWriter, v vars) error {
	if b.Close == "unanswered" {
		return errCut
	}
	if b.Switch {
		return echoBack(w)
	}
	if len(b.Early) > 0 {
		if err := setHeaders(w.Header(), b.Early, v); err != nil {
			return err
		}
		w.WriteHeader(http.StatusEarlyHints)
		for _, h := range b.Early {
			for name := range h {
				w.Header().Del(name)
			}
		}
	}
	for _, t := range b.Trailers {
		for name := range t {
			w.Header().Add("Trailer", name)
		}
	}
	body, err := b.text(w.Header(), v)
	if err != nil {
		return err
	}
	if err := setHeaders(w.Header(), b.Headers, v); err != nil {
		return err
	}
	if b.Close == "within" {
		w.Header().Set("Content-Length", strconv.Itoa(2*len(body)+1))
	}
	w.WriteHeader(b.status())
	if err := b.write(w, body); err != nil {
		return err
	}
	if b.Close == "within" {
		_ = http.NewResponseController(w).Flush()
		return errCut
	}
	return setHeaders(w.Header(), b.Trailers, v)
}

func (b *Behaviour) status() int {
	if b.Status == 0 {
		return http.StatusCreated
	}
	return b.Status
}

// text is the body: by default one that no other answer has.
func (b *Behaviour) text(header http.Header, v vars) ([]byte, error) {
	switch {
	case b.Pieces != nil:
		return nil, nil
	case b.Body != nil:
		text, err := expand(*b.Body, v)
		return bytes.Repeat([]byte(text), max(1, b.Times)), err
	case b.status() == http.StatusNoContent || b.status() == http.StatusNotModified:
		return nil, nil
	}
	header.Set("Content-Type", "application/json")
	return fmt.Appendf(nil, `{"run":%d,"proof":%q}`, v.n, letters(16)), nil
}

func (b *Behaviour) write(w http.ResponseWriter, body []byte) error {
	if b.Pieces == nil {
		if len(body) == 0 {
			return nil
		}
		_, err := w.Write(body)
		return err
	}
	for i, piece := range b.Pieces {
		if i > 0 {
			pauseFor(context.Background(), b.Pause)
		}
		if _, err := io.WriteString(w, piece); err != nil {
			return err
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
	}
	return nil
}

func setHeaders(to http.Header, list []Header, v vars) error {
	for i, h := range list {
		for name, value := range h {
			value, err := expand(value, v)
			if err != nil {
				return err
			}
			if i == 0 || !hasLine(list[:i], name) {
				to.Del(name) // a default
			}
			to.Add(name, value)
		}
	}
	return nil
}

func hasLine(list []Header, name string) bool {
	for _, h := range list {
		for other := range h {
			if strings.EqualFold(other, name) {
				return true
			}
		}
	}
	return false
}

// echoBack switches protocols and sends back what comes.
func echoBack(w http.ResponseWriter) error {
	conn, in, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(defaultPatience))
	const head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n"
	if _, err := io.WriteString(conn, head); err != nil {
		return nil // the connection is ours, and gone
	}
	_, _ = io.Copy(conn, in)
	return nil
}
