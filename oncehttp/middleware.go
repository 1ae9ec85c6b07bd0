package oncehttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/value"
)

// Middleware returns a middleware that guards requests as the configuration says. It does no I/O.
// It refuses a configuration that is incomplete, and what the store can't do. The middleware is
// safe for concurrent use, and can wrap several handlers. Put it outside of what shortens paths,
// such as http.StripPrefix: a path that it can't see whole doesn't tell two endpoints apart.
func Middleware(cfg Config) (func(http.Handler) http.Handler, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("new middleware: %w", err)
	}
	g, err := once.NewGuard(cfg.Store, cfg.Guard)
	if err != nil {
		return nil, fmt.Errorf("new middleware: %w", err)
	}
	m := guarded{
		cfg: cfg, guard: g, drop: cfg.dropSet(), parsing: make(chan struct{}, maxParsing),
	}
	for _, text := range cfg.Content.Ignore {
		paths, err := value.ParsePointer(text)
		if err != nil {
			return nil, fmt.Errorf("new middleware: Content.Ignore: %w", err)
		}
		m.ignore = append(m.ignore, paths...)
	}
	return func(next http.Handler) http.Handler {
		m := m
		m.next = next
		return &m
	}, nil
}

// guarded is a handler whose requests run once.
type guarded struct {
	cfg     Config
	guard   *once.Guard
	drop    map[string]bool
	ignore  []value.Path
	parsing chan struct{} // holds a place for each large body that is being parsed
	next    http.Handler
}

// recheckAfter is how old the answer of Authorize may be when a replay is sent: a repeat that
// waited for the first request is asked again.
const recheckAfter = time.Second

// ServeHTTP implements http.Handler.
func (m *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(m.cfg.Methods, r.Method) {
		m.next.ServeHTTP(w, r)
		return
	}
	key, problem := requestKey(r.Header)
	switch {
	case problem != nil:
		m.refuse(w, r, problem)
	case key != "":
		m.serveKey(w, r, key)
	case m.cfg.Key == KeyRequired:
		m.refuse(w, r, keyMissing())
	default:
		m.cfg.Observe(r, Unguarded)
		m.next.ServeHTTP(w, r)
	}
}

func keyMissing() *Problem {
	p := problem(ProblemKeyMissing, http.StatusBadRequest, "An idempotency key is missing")
	p.Detail = `Send Idempotency-Key: "KEY" with a key that no other request of yours has, such ` +
		"as a random UUID, and the same key when you send this request again."
	return p
}

func (m *guarded) refuse(w http.ResponseWriter, r *http.Request, p *Problem) {
	m.cfg.Observe(r, p.name)
	p.write(w, m.cfg.Docs)
}

// serveKey serves a request that bears a key.
func (m *guarded) serveKey(w http.ResponseWriter, r *http.Request, key string) {
	var asked time.Time
	outer := r
	if m.cfg.Authorize != nil {
		asked = time.Now()
		var ok bool
		if r, ok = m.authorize(w, r); !ok {
			return
		}
	}
	scope, err := m.cfg.Scope(r)
	if err != nil {
		if !errors.Is(err, once.ErrScopeMissing) {
			m.cfg.Logger.Error("the scope of a request can't be told", "error", err)
		}
		m.refuse(w, r, scopeProblem(err))
		return
	}
	coreKey, err := once.KeyOf(key)
	if err != nil {
		m.refuse(w, r, keyProblem("the %v", err))
		return
	}
	b, err := m.readBody(w, r)
	if err != nil {
		m.refuseBody(w, r, err)
		return
	}
	defer b.close()
	if r.Trailer == nil && outer.Trailer != nil {
		r.Trailer = outer.Trailer // not announced: the server writes them into its own request
	}
	fingerprint, err := m.fingerprint(r, b)
	if err != nil {
		m.refuse(w, r, m.bodyProblem(err))
		return
	}
	m.claim(w, r, b, asked, once.Operation{
		Scope: scope, Key: coreKey, Fingerprint: fingerprint, Request: r.Method + " " + r.URL.Path,
	})
}

func (m *guarded) authorize(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	allowed, ok := m.cfg.Authorize(w, r)
	if !ok {
		m.cfg.Observe(r, NotAuthorized)
	}
	return allowed, ok
}

// What is read of a refused body after the answer, at most: a client that is still sending when its
// connection ends may never see the answer.
const (
	lingerBytes = 256 << 10
	lingerTime  = time.Second
)

// refuseBody refuses a body that was not read to its end.
func (m *guarded) refuseBody(w http.ResponseWriter, r *http.Request, err error) {
	if r.ProtoMajor != 1 { // the end of the connection would end other requests
		m.refuse(w, r, m.bodyProblem(err))
		return
	}
	w.Header().Set("Connection", "close")
	m.refuse(w, r, m.bodyProblem(err))
	c := http.NewResponseController(w)
	if c.Flush() == nil && c.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.CopyN(io.Discard, r.Body, lingerBytes)
	}
}

func scopeProblem(err error) *Problem {
	if errors.Is(err, once.ErrScopeMissing) {
		p := problem(ProblemScopeMissing, http.StatusUnauthorized, "Nobody knows whose key this is")
		p.Detail = "The request doesn't say who sends it, so that its key belongs to nobody."
		return p
	}
	p := problem(ProblemScopeFailed, http.StatusServiceUnavailable,
		"Nobody knows whose key this is")
	p.Detail = "Who sends the request could not be found out now. Send it again later."
	p.retryAfter = 1
	return p
}

func (m *guarded) bodyProblem(err error) *Problem {
	switch {
	case errors.Is(err, errBodyTooLarge):
		p := problem(ProblemBodyTooLarge, http.StatusRequestEntityTooLarge, "The body is too large")
		p.Limit = m.cfg.MaxBody
		p.Detail = fmt.Sprintf("At most %d bytes are taken, and %d after decoding.", m.cfg.MaxBody,
			m.cfg.Content.MaxDecoded)
		return p
	case errors.Is(err, errBudget):
		m.cfg.Logger.Warn("a request is refused: as many bytes of bodies are held as may be",
			"limit", m.cfg.Bodies.max)
		p := problem(ProblemNotProcessed, http.StatusServiceUnavailable, "Not possible now")
		p.Detail = "Too many large requests come at one time. Send it again later."
		p.retryAfter = 1
		return p
	case errors.Is(err, errSpool), errors.Is(err, errBusy):
		if !errors.Is(err, errBusy) { // else its client has left
			m.cfg.Logger.Error("a request's body can't be kept in a temporary file", "error", err)
		}
		p := problem(ProblemNotProcessed, http.StatusServiceUnavailable, "Not possible now")
		p.Detail = "The body could not be kept. The request was not worked; send it again later."
		p.retryAfter = 1
		return p
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		p := problem(ProblemBodyTimeout, http.StatusRequestTimeout, "The body did not come in time")
		p.Detail = "No further piece of the body came in time. Nothing was done."
		return p
	}
	p := problem(ProblemBodyBroken, http.StatusBadRequest, "The body can't be read")
	p.Detail = "It ended early, or its Content-Encoding is not what it says."
	return p
}

// claim asks for the identity, and works or answers.
func (m *guarded) claim(
	w http.ResponseWriter, r *http.Request, b *body, asked time.Time, op once.Operation,
) {
	ctx := r.Context()
	if !m.cfg.EndWithClient {
		ctx = context.WithoutCancel(ctx)
	}
	work, err := m.begin(ctx, r, op)
	if err == nil {
		m.work(w, r, b, work)
		return
	}
	replay, ok := errors.AsType[*once.ReplayError](err)
	if !ok {
		if m.failsOpen(r, err) {
			m.workUnguarded(w, r, b, err)
			return
		}
		fault := errors.Is(err, once.ErrUnavailable) || errors.Is(err, once.ErrCorrupt)
		if fault && r.Context().Err() == nil {
			m.cfg.Logger.Error("a request could not be claimed", "error", err)
		}
		p := claimProblem(err)
		if p.name == ProblemStoreDown && r.Context().Err() != nil {
			m.cfg.Observe(r, ClientLeft)
			p.write(w, m.cfg.Docs) // it may have been another deadline than the client's
			return
		}
		m.refuse(w, r, p)
		return
	}
	if m.cfg.Authorize != nil && time.Since(asked) > recheckAfter {
		if r, ok = m.authorize(w, r); !ok {
			return
		}
	}
	m.replay(w, r, op, replay.Outcome)
}

// begin claims. Without a wait the client's leaving doesn't end the claim, which would leave a
// record that nobody works; with one, it ends the wait.
func (m *guarded) begin(
	ctx context.Context, r *http.Request, op once.Operation,
) (*once.Work, error) {
	if m.cfg.Guard.Wait == 0 || m.cfg.EndWithClient {
		return m.guard.Begin(ctx, op)
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(r.Context(), cancel)
	work, err := m.guard.Begin(ctx, op)
	left := !stop() // from here on the work doesn't need its client
	if err == nil && !left {
		context.AfterFunc(work.Context(), cancel)
		return work, nil
	}
	cancel()
	if err == nil { // it left just then: nothing was begun
		err = errors.Join(context.Canceled, work.Release())
	}
	return nil, err
}

// replay answers from the record.
func (m *guarded) replay(
	w http.ResponseWriter, r *http.Request, op once.Operation, o once.Outcome,
) {
	data := o.Data
	var err error
	if m.cfg.Seal != nil && len(data) > 0 {
		var id once.Identity
		if id, err = once.Identify(op.Scope, op.Key); err == nil {
			data, err = m.cfg.Seal.open(id, data)
		}
	}
	a := answer{status: http.StatusConflict}
	if err == nil && (o.Kind == once.Kept || len(data) > 0) {
		a, err = parseAnswer(data)
	}
	if err == nil && o.Kind == once.Kept && a.status < http.StatusOK {
		err = errors.New("its status is no final one")
	}
	switch {
	case err != nil:
		m.cfg.Logger.Error("a kept answer can't be read", "error", err)
		m.refuse(w, r, claimProblem(fmt.Errorf("%w: %w", once.ErrCorrupt, err)))
	case o.Kind == once.Tombstone:
		m.cfg.Observe(r, ProblemNotKept)
		a.writeTombstone(w, r, m.cfg.Docs)
	default:
		m.cfg.Observe(r, Replayed)
		a.write(w, r)
	}
}

// Grant returns what the handler of a guarded request holds: its fence rises with each attempt, so
// that a service that keeps the highest one it saw can refuse a late write of an earlier attempt.
// ok is false outside of a guarded request.
func Grant(ctx context.Context) (grant once.Grant, ok bool) {
	return once.GrantOf(ctx)
}

// work runs the handler and settles its claim. A panic and a call of runtime.Goexit go on after the
// claim is settled as lost.
func (m *guarded) work(w http.ResponseWriter, r *http.Request, b *body, work *once.Work) {
	rec := newRecorder(w, m.cfg.MaxAnswer)
	defer rec.recycle()
	settled := false
	defer func() {
		switch {
		case settled:
		case rec.leftStream():
			_ = m.store(rec, work) // the guard logs and counts
		case work.Lose() == nil: // else it was told, by the guard or by giveUp
			m.logLost(r, work, "the handler panicked or ended itself")
		}
	}()
	m.cfg.Observe(r, FirstAnswer)
	defer rec.free()
	inner := r.WithContext(work.Context())
	if b.size > 0 {
		inner.Body = b
	}
	if r.MultipartForm == nil {
		defer removeForm(inner) // the server knows only its own request
	}
	m.next.ServeHTTP(rec, inner)
	if work.Context().Err() != nil && rec.silent() {
		rec.free() // what the handler left behind has no say any more
		m.giveUp(w, r, work)
		return
	}
	m.settle(r, rec, work)
	settled = true
}

// removeForm removes the files of a form that the handler had parsed.
func removeForm(r *http.Request) {
	if r.MultipartForm != nil {
		_ = r.MultipartForm.RemoveAll() // as the server, which has nobody to tell either
	}
}

// giveUp answers for a handler that was told to stop and said nothing. An empty 200, which a server
// sends for it, would be kept as if the work were done.
func (m *guarded) giveUp(w http.ResponseWriter, r *http.Request, work *once.Work) {
	if work.Lose() == nil { // else the guard logs
		m.logLost(r, work, "the work was not finished in time")
	}
	p := problem(ProblemNotFinished, http.StatusGatewayTimeout, "The work was not finished")
	p.Detail = "It took too long, or its lease was lost. Whether it had its effect is not known."
	p.write(w, m.cfg.Docs)
}

// settle stores what came of the handler, and then lets the client have it.
func (m *guarded) settle(r *http.Request, rec *recorder, work *once.Work) {
	short := rec.end()
	verdict := m.cfg.Keep(rec.status)
	switch {
	case rec.forced != nil:
		verdict = *rec.forced
	case verdict == Free && work.Context().Err() != nil:
		verdict = Ambiguous // it was told to stop: nobody knows how far it had come
	}
	if verdict != Keep && rec.hijacked {
		verdict = Keep // the other protocol had its effect
	}
	var err error
	switch {
	case verdict == Free && short == nil:
		err = work.Release()
	case verdict == Ambiguous || short != nil:
		if err = work.Lose(); err == nil {
			m.logLost(r, work, lostBy(rec.status, short))
		}
	default:
		err = m.store(rec, work)
	}
	rec.finish(err == nil || verdict != Keep)
}

// store keeps an answer, or that it can't be repeated.
func (m *guarded) store(rec *recorder, work *once.Work) error {
	outcome := once.Outcome{Kind: once.Kept}
	if !rec.keeping {
		outcome.Kind = once.Tombstone
	}
	buf := getBuffer()
	a := rec.answer(m.drop)
	if !a.fits() {
		outcome.Kind, a = once.Tombstone, answer{status: a.status}
	}
	*buf = a.appendTo(*buf)
	outcome.Data = *buf
	if m.cfg.Seal != nil {
		outcome.Data = m.cfg.Seal.seal(work.Grant().Identity, outcome.Data)
	}
	err := work.Complete(outcome)
	if err == nil {
		putBuffer(buf) // else a store that was given up may still have it in its hands
	}
	return err
}
