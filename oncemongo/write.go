package oncemongo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/oncekit/once"
	"github.com/oncekit/once/write"
)

const (
	defaultEvents         = "once_events"
	defaultEventRetention = 30 * 24 * time.Hour
	defaultPatience       = 10 * time.Second
	defaultPending        = 64
	// maxPending bounds the list in a document: with ids of write.MaxID bytes, half a megabyte.
	maxPending = 1024
)

// WriterConfig is how a [Writer] works. Targets has to be set.
type WriterConfig struct {
	// Targets are the collections whose documents events change. Their default key is "_id".
	Targets []write.Target
	// Events is the collection of the events' records. Default "once_events".
	Events string
	// Retention is how long an event is remembered. Default 30 days.
	Retention time.Duration
	// Patience is how long a call waits for a document that is busy, or a server that is not there
	// for a moment; its context may end it earlier. Default 10 s.
	Patience time.Duration
	// Pending is how many events may be between the change of one document and its confirmation,
	// where there are no transactions: the document holds their ids. At most 1024. Default 64.
	Pending int
	// Steps: the steps are taken although the server has transactions. Default false.
	Steps bool
	// Logger is told of events that could not be finished; never of a key or a value. Default:
	// nobody.
	Logger *slog.Logger
}

func (c *WriterConfig) fill() error {
	if c.Events == "" {
		c.Events = defaultEvents
	}
	if c.Retention == 0 {
		c.Retention = defaultEventRetention
	}
	if c.Patience == 0 {
		c.Patience = defaultPatience
	}
	if c.Pending == 0 {
		c.Pending = defaultPending
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Retention < 0:
		return errors.New("a negative Retention")
	case c.Patience < 0:
		return errors.New("a negative Patience")
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

var (
	_ write.Writer = (*Writer)(nil)
	_ once.Sweeper = (*Writer)(nil)
)

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
	if err := w.checkCollation(ctx, w.conf.Events); err != nil {
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
	limited, cancel := context.WithTimeout(ctx, w.conf.Patience)
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
