package oncepg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once/internal/turn"
	"github.com/oncekit/once/queue"
)

// StoreConfig says how a Store behaves. The zero value works.
type StoreConfig struct {
	// Schema of the tables, as it is named, not quoted. Default [DefaultSchema].
	Schema string
	// NoMigrate lets Open refuse a schema that is missing or behind, rather than migrate it.
	NoMigrate bool
	// RejectedPerSource bounds the ring of refused messages of each source, and that of refused
	// strangers. Default 100.
	RejectedPerSource int
	// MaxOutcome bounds the outcomes of the records that are kept beside, as in RecordsConfig.
	MaxOutcome int
	// Windows is how many commits of arrivals may be under way at once, each with a connection of
	// its own. Default 2.
	Windows int
	// Poll is how often a node looks whether another one made something due, or its time has come.
	// Default 100ms.
	Poll time.Duration
	// NodeLost is how long a node may show no sign of life until its leases are void. Default 10s.
	NodeLost time.Duration
	// Frozen is how long a node may do nothing while it has the turn, until the database takes that
	// from it. Default 5s.
	Frozen time.Duration
	// CommitLimit bounds a handler's Commit, which has the turn. Default 1s.
	CommitLimit time.Duration
	// Logger gets what an operator should know. Default: discards.
	Logger *slog.Logger
	// Now is the store's clock, for tests. Default: the database's.
	Now func() time.Time

	// alone is set by tests that killed all other nodes.
	alone bool
	// failpoint is asked at each point whether the process ends there.
	failpoint func(point) bool
}

func (c StoreConfig) withDefaults() (StoreConfig, error) {
	var err error
	if c.Schema, err = schemaName(c.Schema); err != nil {
		return c, err
	}
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	if c.RejectedPerSource <= 0 {
		c.RejectedPerSource = 100
	}
	if c.Windows <= 0 {
		c.Windows = 2
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	set(&c.Poll, 100*time.Millisecond)
	set(&c.NodeLost, 10*time.Second)
	set(&c.Frozen, 5*time.Second)
	set(&c.CommitLimit, time.Second)
	return c, nil
}

// maxName bounds the names of tasks and resources: an index takes no more than 2,704 bytes, and one
// byte of a name may take four.
const maxName = 600

// maxRowBytes bounds what a row carries: PostgreSQL takes a value of 1 GiB, in one piece.
const maxRowBytes = 256 << 20

// Store keeps callbacks, effects, tasks and resources in PostgreSQL: [queue.Store],
// [queue.Transactor], [queue.Notifier], [queue.Browser], [queue.Operator] and [queue.Rejecter].
// Any number of processes may use one schema, each with a Store of its own. It is safe for
// concurrent use.
//
// Arrivals are committed side by side, many with one flush, by as many connections as
// [StoreConfig.Windows] says. Everything else goes one at a time over all nodes: who decides has a
// row locked, the turn, for as long as its transaction lasts. Nothing is held on to between two
// transactions, so a pooler in transaction mode may stand between.
type Store struct {
	pool    *pgxpool.Pool
	cfg     StoreConfig
	sql     *storeSQL
	node    string
	created bool
	records *Records

	ops         chan *op
	intake      chan *intake
	quit, ended chan struct{}
	writers     sync.WaitGroup
	// gathering is held by who makes the next window of arrivals, with arriving.
	gathering sync.Mutex
	arriving  gatherer
	// commits is the number of this node's last commit. Only the writer uses it.
	commits int64
	// killed is set by tests: nothing is written any more.
	killed atomic.Bool
	// holding is the connection of the transaction that has the turn, for tests that kill it.
	holding atomic.Pointer[net.Conn]
	bells   bells
	// stepped are the lanes of which is written down that they are stepped.
	stepped sync.Map

	background sync.WaitGroup
	stop       context.CancelFunc
	openOnce   sync.Once
	closeOnce  sync.Once
	opened     atomic.Bool
}

var (
	_ queue.Store      = (*Store)(nil)
	_ queue.Transactor = (*Store)(nil)
	_ queue.Notifier   = (*Store)(nil)
	_ queue.Browser    = (*Store)(nil)
	_ queue.Operator   = (*Store)(nil)
	_ queue.Rejecter   = (*Store)(nil)
	_ queue.NodeLister = (*Store)(nil)
)

// NewStore makes a store over a pool, which stays the caller's. It asks the database nothing:
// [Store.Open] does, and comes first. One connection is enough; with
// fewer than two more than [StoreConfig.Windows] they wait for each other.
func NewStore(pool *pgxpool.Pool, cfg StoreConfig) (*Store, error) {
	if pool == nil {
		return nil, errors.New("new store: no pool")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("new store: %w", err)
	}
	records, err := NewRecords(pool, RecordsConfig{Schema: cfg.Schema, NoMigrate: true,
		MaxOutcome: cfg.MaxOutcome, Logger: cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("new store: %w", err)
	}
	return &Store{pool: pool, cfg: cfg, sql: newStoreSQL(cfg.Schema), node: nodeName(),
		records: records, ops: make(chan *op, maxOps), intake: make(chan *intake, maxIntake),
		quit: make(chan struct{}), ended: make(chan struct{})}, nil
}

// nodeName is a name that no other process has, in which people find the machine.
func nodeName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return fmt.Sprintf("%s-%d-%s", recordText(host), os.Getpid(), strings.ToLower(rand.Text()[:10]))
}

// Open brings the schema to the state that this program needs, see [Migrate], or with NoMigrate
// returns a *[SchemaError] if it is not, and begins the store's work. A database that is away is a
// once.ErrUnavailable. After an error it may be called again.
func (s *Store) Open(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return fmt.Errorf("open store: %w", unavailable(err))
	}
	s.openOnce.Do(func() {
		s.opened.Store(true)
		go s.write()
		for i := range s.cfg.Windows {
			s.writers.Go(func() { s.receive(fmt.Sprintf("%s/%d", s.node, i)) })
		}
	})
	if err := s.arrive(ctx); err != nil {
		return fmt.Errorf("open store: %w", turn.AsUnavailable(err))
	}
	if s.stop == nil {
		run, stop := context.WithCancel(context.Background())
		s.stop = stop
		s.background.Go(func() { s.watch(run) })
	}
	return nil
}

// prepare brings the schema up to date.
func (s *Store) prepare(ctx context.Context) error {
	cfg, err := MigrateConfig{Schema: s.cfg.Schema, Logger: s.cfg.Logger}.withDefaults()
	if err != nil {
		return err
	}
	m := poolMigrator{s.pool}
	if s.created, err = s.isNew(ctx); err != nil {
		return err
	}
	if s.cfg.NoMigrate {
		err = checkSchema(ctx, m, cfg)
	} else {
		err = migrate(ctx, m, cfg)
	}
	if err != nil {
		return err
	}
	return warnUnwatched(ctx, poolRunner{s.pool}, s.cfg.Logger)
}

// isNew reports whether the schema has no tables of a store yet.
func (s *Store) isNew(ctx context.Context) (bool, error) {
	has, err := firstOf(pipeline(ctx, s.pool, []query{{
		"SELECT to_regclass($1::text)::text", []any{s.sql.schema + "queue_turn"}}}))
	return err == nil && has[0][0] == nil, err
}

// Created reports whether Open made the store's tables.
func (s *Store) Created() bool { return s.created }

// Records are the records that are kept in the same schema, for a guard or the gateway.
func (s *Store) Records() *Records { return s.records }

// Close ends what was handed over and lets the other nodes know that this one has ended. The pool
// stays open. It is safe to call twice.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		if !s.opened.Load() {
			return
		}
		if s.stop != nil {
			s.stop()
		}
		s.background.Wait()
		close(s.quit)
		s.writers.Wait()
		<-s.ended
		s.leave()
	})
	return nil
}

// config is what a batch has to know. again tells that it is worked out once more.
func (s *Store) config(tx *storeTx, again bool) turn.Config {
	return turn.Config{Log: s.cfg.Logger, Node: s.node,
		RejectedPerSource: s.cfg.RejectedPerSource, MaxRowBytes: maxRowBytes, MaxName: maxName,
		BatchBytes: batchBytes, FreshEffects: !again, Commit: tx.handlerCommit}
}

// Ping reports whether the store can be written: nil, or an error wrapping once.ErrUnavailable.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.sign(ctx, -1); err != nil {
		return fmt.Errorf("write to the store: %w", turn.AsUnavailable(turn.Fault(err)))
	}
	return nil
}
