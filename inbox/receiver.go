package inbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncekit/once/queue"
)

// MaxHeaderBytes is the value for the server's MaxHeaderBytes: headers are stored with each
// callback, and no sender of callbacks needs more.
const MaxHeaderBytes = 64 << 10

// Store is where a Receiver keeps callbacks. If it is a [queue.Rejecter] too, refused messages are
// kept in its ring; if it is a [queue.Recaller], it is asked for repeats first.
type Store interface {
	queue.Appender
}

// Observer counts. Its methods are called by many goroutines at once and must not block.
type Observer interface {
	// Receipt tells the outcome of one message and how long its answer took. The source is empty
	// for a message to a path that no source has (outcome invalid).
	Receipt(source string, o queue.Outcome, d time.Duration)
}

// DropObserver is an optional interface of an Observer.
type DropObserver interface {
	// RejectedDropped tells that a refused message was not kept in the ring: there were too many,
	// or the store could not.
	RejectedDropped(source string)
}

// ElementObserver is an optional interface of an Observer.
type ElementObserver interface {
	// Elements tells what came of n elements of one message of a source with Each: accepted,
	// duplicate, conflict, or invalid. It is not told of a message that was refused as a whole.
	Elements(source string, o queue.Outcome, n int)
}

// Config tunes a Receiver. The zero value works.
type Config struct {
	// MaxInFlightBytes bounds the bodies of all messages between their first byte and their
	// answer. Over it a message is unavailable. What a body is decoded to counts, too; one that
	// would take more than half of it is invalid (413). Default 64 MiB.
	MaxInFlightBytes int64
	// AppendTimeout bounds the store's Append; it may take up to a tenth longer. A message whose
	// sender hung up is still appended. Default 10 s.
	AppendTimeout time.Duration
	// DigestKey is the key of the digests that stand for denied headers. Default: a random one,
	// so that digests of different runs can't be compared.
	DigestKey []byte
	// RejectedBody is how many bytes of a refused message's body are kept. Default 4096.
	RejectedBody int
	// RejectRate is how many refused messages a second and source are kept, and how many at once.
	// Default 50.
	RejectRate int
	// RejectTimeout is how long an answer waits for the ring; the write itself goes on for up to
	// AppendTimeout. Default 250 ms.
	RejectTimeout time.Duration
	// UnauthorizedBody keeps the bodies of unauthorized messages in the ring. Default: not kept.
	UnauthorizedBody bool
	// Proxies are the networks of proxies before the receiver. Only what they say of a sender's
	// address and URL is believed (X-Forwarded-For, -Proto, -Host, -Port, -Prefix). Default: none.
	Proxies []netip.Prefix
	// Observer counts; default: nobody does.
	Observer Observer
	// Tracer follows messages. Default: nobody does.
	Tracer Tracer
	// Logger gets store failures, panics and what a person should see, at a limited rate, and under
	// level debug each message. Default: discarded.
	Logger *slog.Logger
}

// Receiver is the http.Handler for the port that senders see: POST /in/NAME and each source's own
// paths, nothing else. Paths are compared as they are: no redirect, no cleaning, no trailing slash.
// Safe for concurrent use.
type Receiver struct {
	store     Store
	recaller  queue.Recaller // nil: the store has no memory of its own
	proxies   proxies
	cfg       Config
	log       *slog.Logger
	byPath    map[string]*source
	unknown   *source // stands for the source of messages that have none
	ring      *ring
	elements  ElementObserver // nil: nobody counts them
	digests   *digester
	deadline  *deadlines
	inFlight  atomic.Int64
	pool      sync.Pool // of *intake
	logs      *limiter
	strangers *limiter // as logs, of unauthorized messages
	allow     []string
	jsonType  []string
	seconds1  []string
}

// New returns a Receiver for sources. It does no I/O. It refuses a source that lacks a function, a
// name or path that two sources claim, a reply that would tell a lie (a 2xx for unavailable), and a
// source whose MaxBody is above MaxInFlightBytes. The sources must not be changed afterwards.
func New(store Store, sources []*Source, cfg Config) (*Receiver, error) {
	if store == nil {
		return nil, errors.New("make receiver: no store")
	}
	if err := cfg.fill(); err != nil {
		return nil, fmt.Errorf("make receiver: %w", err)
	}
	rc := &Receiver{
		store:     store,
		cfg:       cfg,
		log:       cfg.Logger,
		byPath:    make(map[string]*source),
		digests:   newDigester(cfg.DigestKey),
		deadline:  &deadlines{timeout: cfg.AppendTimeout},
		logs:      newLimiter(logsPerSecond),
		strangers: newLimiter(logsPerSecond),
		allow:     []string{http.MethodPost},
		jsonType:  []string{typeJSON},
		seconds1:  []string{"1"},
	}
	rc.recaller, _ = store.(queue.Recaller)
	for _, p := range cfg.Proxies {
		rc.proxies = append(rc.proxies, p.Masked())
	}
	rc.elements, _ = cfg.Observer.(ElementObserver)
	rc.pool.New = func() any { return new(intake) }
	rc.ring = newRing(store, cfg, rc.logs)
	rc.unknown = &source{
		Source: Source{}, denied: deniedNames(nil), ringRate: newLimiter(cfg.RejectRate),
	}
	for _, s := range sources {
		if err := rc.add(s); err != nil {
			return nil, fmt.Errorf("make receiver: %w", err)
		}
	}
	return rc, nil
}

func (c *Config) fill() error {
	setDefault(&c.MaxInFlightBytes, 64<<20)
	setDefault(&c.AppendTimeout, 10*time.Second)
	setDefault(&c.RejectedBody, 4<<10)
	setDefault(&c.RejectRate, 50)
	setDefault(&c.RejectTimeout, 250*time.Millisecond)
	if c.MaxInFlightBytes < 0 || c.AppendTimeout < 0 || c.RejectedBody < 0 || c.RejectRate < 0 ||
		c.RejectTimeout < 0 {
		return errors.New("a limit is negative")
	}
	if len(c.DigestKey) == 0 {
		c.DigestKey = make([]byte, 32)
		rand.Read(c.DigestKey) // never fails; see crypto/rand
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// add takes a source in under each of its paths.
func (rc *Receiver) add(s *Source) error {
	if s == nil {
		return errors.New("a source is nil")
	}
	src, err := newSource(*s, rc.cfg)
	if err != nil {
		return fmt.Errorf("source %q: %w", s.Name, err)
	}
	for _, path := range append([]string{"/in/" + s.Name}, s.Paths...) {
		if !strings.HasPrefix(path, "/") {
			return fmt.Errorf("source %q: path %q does not begin with a slash", s.Name, path)
		}
		if other := rc.byPath[path]; other != nil && other != src {
			return fmt.Errorf("sources %q and %q: both have path %q", other.Name, s.Name, path)
		}
		rc.byPath[path] = src
	}
	maps.Copy(rc.unknown.denied, src.denied) // a wrong path does not make a secret public
	return nil
}

// find returns the source of a path, nil if there is none. An encoded slash is no slash: such a
// path is compared as it was written.
func (rc *Receiver) find(u *url.URL) *source {
	if u.RawPath != "" && (strings.Contains(u.RawPath, "%2F") ||
		strings.Contains(u.RawPath, "%2f")) {
		return rc.byPath[u.RawPath]
	}
	return rc.byPath[u.Path]
}

// ServeHTTP receives one message. It always answers, and answers 2xx only to what is durable or, if
// a source's invalid reply says so, to what is invalid.
func (rc *Receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	src := rc.find(r.URL)
	if src == nil {
		rc.notFound(w, r, start)
		return
	}
	in := rc.pool.Get().(*intake)
	in.begin(rc, src, r)
	in.follow(r)
	v := in.judge(w, r)
	in.answer(w, v)
	in.told(v)
	rc.observe(src.Name, v.outcome, start)
	rc.inFlight.Add(-in.reserved)
	if !v.broken {
		in.reset()
		rc.pool.Put(in)
	}
}

// notFound answers a message to a path that nobody has. It is kept in the ring under the empty
// source, since a sender with a wrong path is otherwise hard to find.
func (rc *Receiver) notFound(w http.ResponseWriter, r *http.Request, start time.Time) {
	const reason = "no source has this path"
	peer := r.RemoteAddr
	if f := rc.proxies.resolve(r); f != nil {
		peer = f.peer
	}
	rc.ring.keep(r.Context(), rc.unknown.ringRate, queue.Rejected{
		Outcome: queue.Invalid, Reason: reason, Peer: peer,
		Meta: rc.ringMeta(r, peer, rc.unknown.denied),
	})
	w.Header()["Content-Type"] = rc.jsonType
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write(appendBuiltin(nil, queue.Invalid, "", reason))
	rc.observe("", queue.Invalid, start)
}

func (rc *Receiver) observe(source string, o queue.Outcome, start time.Time) {
	if rc.cfg.Observer != nil {
		rc.cfg.Observer.Receipt(source, o, time.Since(start))
	}
}
