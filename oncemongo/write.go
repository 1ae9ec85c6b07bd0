package oncemongo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/oncekit/once/write"
)

// The defaults and bounds of [WriterConfig].
const (
	// DefaultEvents is the collection in which events are remembered.
	DefaultEvents = "once_events"
	// DefaultEventRetention is how long an event is remembered.
	DefaultEventRetention = 7 * 24 * time.Hour
	// DefaultWriteWait is how long one call tries.
	DefaultWriteWait = 10 * time.Second
	// DefaultPending is how many ids a document holds at most.
	DefaultPending = 64
	// maxPending bounds the list in a document: with ids of write.MaxID bytes, half a megabyte.
	maxPending = 1024
)

// WriterConfig says what a [Writer] writes to.
type WriterConfig struct {
	// Targets are the collections that events change. At least one.
	Targets []write.Target
	// Events is the collection in which events are remembered. Default DefaultEvents.
	Events string
	// Retention is how long an event is remembered after it was written; after that it would be
	// written again. Sweep forgets. Default DefaultEventRetention.
	Retention time.Duration
	// Wait is how long one call tries to get through to a server that does not answer or a document
	// that is busy, if the caller's context does not end earlier. Default DefaultWriteWait.
	Wait time.Duration
	// Pending is how many events may be between the change of one document and its
	// confirmation, where there are no transactions: the document holds their ids. At most 1,024.
	// Default DefaultPending.
	Pending int
	// Steps: the steps are taken although the server has transactions.
	Steps bool
	// Logger is told what a person should know; never a key or a value. nil: nobody.
	Logger *slog.Logger
}

func (c *WriterConfig) fill() error {
	if c.Events == "" {
		c.Events = DefaultEvents
	}
	if c.Retention == 0 {
		c.Retention = DefaultEventRetention
	}
	if c.Wait == 0 {
		c.Wait = DefaultWriteWait
	}
	if c.Pending == 0 {
		c.Pending = DefaultPending
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Retention < 0:
		return errors.New("a negative Retention")
	case c.Wait < 0:
		return errors.New("a negative Wait")
	case c.Pending < 1 || c.Pending > maxPending:
		return fmt.Errorf("a Pending of %d, not 1 to %d", c.Pending, maxPending)
	}
	return nil
}

// Writer writes events into collections of one database, each once. It is safe for concurrent use,
// also by many processes. Where the server has transactions, an event and its change are one;
// elsewhere they are four steps, of which anyone can do the rest. It implements write.Writer.
type Writer struct {
	db      *mongo.Database
	conf    WriterConfig
	targets write.Targets
	events  *mongo.Collection
	epochs  *epochs
	facts   atomic.Pointer[Facts] // nil until it is open

	// stop is called between the steps; tests let it stand for the end of the process.
	stop func(step string) error
}

var _ write.Writer = (*Writer)(nil)

// NewWriter makes a writer over the user's client, without asking the server. [Writer.Open] it
// before use.
func NewWriter(db *mongo.Database, conf WriterConfig) (*Writer, error) {
	if err := conf.fill(); err != nil {
		return nil, fmt.Errorf("writer: %w", err)
	}
	targets, err := write.NewTargets(conf.Targets, "_id")
	if err != nil {
		return nil, fmt.Errorf("writer: %w", err)
	}
	for _, target := range targets.All() {
		if err := checkTarget(target, conf.Events); err != nil {
			return nil, fmt.Errorf("writer: %w", err)
		}
	}
	return &Writer{
		db:      db,
		conf:    conf,
		targets: targets,
		events:  collection(db, conf.Events),
		epochs:  newEpochs(),
		stop:    func(string) error { return nil },
	}, nil
}

// Open looks what the server can do ([Probe]), makes the index of the collection of events, and
// looks for the unique index of each target: where it is missing, the error is a *write.IndexError.
// Nothing is made or changed in a target.
func (w *Writer) Open(ctx context.Context) error {
	facts, err := Probe(ctx, w.db)
	if err != nil {
		return fmt.Errorf("open writer: %w", err)
	}
	if err := w.makeIndex(ctx); err != nil {
		return fmt.Errorf("open writer: %w", err)
	}
	for _, target := range w.targets.All() {
		if err := w.checkIndex(ctx, target); err != nil {
			return fmt.Errorf("open writer: %w", err)
		}
	}
	if w.conf.Steps {
		facts.Transactions = false
	}
	w.facts.Store(&facts)
	return nil
}

// Write makes one change happen once. The errors are those of package write; after
// once.ErrUnavailable the event may or may not be written: write it again.
func (w *Writer) Write(ctx context.Context, e write.Event) (write.Result, error) {
	facts, err := w.opened()
	if err != nil {
		return write.Result{}, err
	}
	j, err := w.newJob(e, facts)
	if err != nil {
		return write.Result{}, err
	}
	limited, cancel := context.WithTimeout(ctx, w.conf.Wait)
	defer cancel()
	return w.writeOne(limited, j)
}

// writeOne writes an event in the way of the server.
func (w *Writer) writeOne(ctx context.Context, j *writeJob) (write.Result, error) {
	if w.now().Transactions {
		return w.inTransaction(ctx, j)
	}
	return w.inSteps(ctx, j)
}

func (w *Writer) opened() (Facts, error) {
	facts := w.facts.Load()
	if facts == nil {
		return Facts{}, errors.New("the writer is not open")
	}
	return *facts, nil
}

// now is the writer's facts; only what is reached after opened uses it.
func (w *Writer) now() Facts { return *w.facts.Load() }
