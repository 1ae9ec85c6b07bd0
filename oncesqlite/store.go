package oncesqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/oncekit/once/queue"
)

// Config says where the store is and how it behaves. The zero value of every field but Path works.
type Config struct {
	// Path of the database file. Required.
	Path string
	// NoCreate refuses to make a new file. Default: it is created.
	NoCreate bool
	// Now is the store's clock. The store never lets it run backwards. Leases end after the time
	// that has passed by its monotonic readings (see [time.Time]), so that a step of the machine's
	// clock ends none; where they have none, a step counts as time that passed. Default: time.Now.
	Now func() time.Time
	// Logger gets what an operator should know. Default: discards.
	Logger *slog.Logger
	// Readers is the number of connections that answer an operator's questions. Default 4.
	Readers int
	// CacheKiB is the page cache of the connection that writes, in KiB. Default 8192.
	CacheKiB int
	// CommitTimeout is how long a handler's Commit may take. Default 1s.
	CommitTimeout time.Duration
	// RejectedPerSource is the length of the ring of refused messages. Default 200.
	RejectedPerSource int
	// Synchronous is the durability of a commit, for tests that show what another value loses.
	// Default "FULL": flushed before it is acknowledged.
	Synchronous string
	// MaxOutcome bounds the data of one outcome of a record, in bytes; at most 512 MiB.
	// Default 16 MiB.
	MaxOutcome int
	// ReplayKiB bounds the memory for outcomes of records that were completed or asked for lately,
	// in KiB; below 0 there is none. Default 8192.
	ReplayKiB int
	// VFS is the name of the SQLite VFS; with one, no lock file is made. Default: the system's.
	VFS string
	// Probe is called at each of the Points by the goroutine that writes, at PointReply by the one
	// that flushes. For tests: a process that ends there has to lose nothing. Default: nobody is
	// called.
	Probe func(Point)

	// segmentRows is how many rows a segment of the search index covers. Default 8192.
	segmentRows int64
	// checkpointPages is the length of the WAL from which it is written back. Default 32000.
	checkpointPages int64
	// forcePages is the length from which the writer itself writes it back. Default 65536.
	forcePages int64
	// readOnly opens the file without the right to write it.
	readOnly bool
}

// Point names a place in the store's work at which tests let a process end.
type Point string

// The points.
const (
	// PointCommit: everything is written, nothing is committed.
	PointCommit Point = "commit"
	// PointReply: it is durable, and nobody was told.
	PointReply Point = "reply"
	// PointSweep: a sweep has removed something and is not committed.
	PointSweep Point = "sweep"
)

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Readers <= 0 {
		c.Readers = 4
	}
	if c.CacheKiB <= 0 {
		c.CacheKiB = 8 << 10
	}
	if c.CommitTimeout <= 0 {
		c.CommitTimeout = time.Second
	}
	if c.RejectedPerSource <= 0 {
		c.RejectedPerSource = 200
	}
	if c.MaxOutcome <= 0 {
		c.MaxOutcome = defaultMaxOutcome
	}
	c.MaxOutcome = min(c.MaxOutcome, largestOutcome)
	if c.ReplayKiB == 0 {
		c.ReplayKiB = defaultReplayKiB
	}
	if c.segmentRows <= 0 {
		c.segmentRows = segmentRows
	}
	if c.checkpointPages <= 0 {
		c.checkpointPages = checkpointPages
	}
	if c.forcePages <= 0 {
		c.forcePages = checkpointForce
	}
	if c.Probe == nil {
		c.Probe = func(Point) {}
	}
	if c.Synchronous == "" {
		c.Synchronous = "FULL"
	}
	return c
}

// Store keeps rows, tasks, resources and records in one SQLite file. One process has it at a time.
// All methods are safe for concurrent use.
type Store struct {
	cfg     Config
	clock   clock
	lock    *fileLock
	created bool

	// ops wait for the writer, those that write many rows in longOps.
	ops, longOps chan *op
	quit         chan struct{}
	// ended is closed when the goroutine that writes took its last operation.
	ended chan struct{}
	wg    sync.WaitGroup

	closeOnce sync.Once
	closed    error

	// The rest below belongs to the goroutine that writes, unless it says otherwise.
	w         *conn
	lanes     map[string]int64
	laneNames map[int64]string
	laneKinds map[int64]int64 // kinds of rows that were put into a lane
	nextSeq   int64
	waitsEnd  int64             // no limit of a wait ends before this time; see recover.go
	nextTimer int64             // earliest next_at, or at once if a wake is left; 0: none
	busy      map[lineKey]int64 // order keys in somebody's hands, and the row
	working   map[int64]*lease
	inLine    map[int64]int // rows in lines, by lane
	waiting   int64         // entries in waits
	tasks     taskCache
	suspects  map[int64]int // lanes whose next rows are stepped singly, and how many
	damaged   bool          // the connection has to be opened again
	mended    bool          // it was, and memory and file are not compared yet
	wrote     bool          // the last commit reached the file
	// notStepped is what the writer did since the last Step.
	notStepped time.Duration
	newTerms   newTerms
	changed    map[int64][]entry // rows in no segment yet whose terms changed, by seq

	// walPages is the length of the WAL after the last commit.
	walPages atomic.Int64
	// writesBack is held by whoever writes the WAL back: SQLite lets only one.
	writesBack sync.Mutex
	// forceAt is the length of the WAL at which the writer writes it back itself.
	forceAt int64

	flusher flusher
	known   *known
	notes   notes
	counts  counters
	bells   bells
	readers chan *conn
	opened  int // readers
	health  health
	present present
	records Records
	places  places
	began   int64 // when it was opened
}

var (
	_ queue.Store      = (*Store)(nil)
	_ queue.Transactor = (*Store)(nil)
	_ queue.Notifier   = (*Store)(nil)
	_ queue.Browser    = (*Store)(nil)
	_ queue.Operator   = (*Store)(nil)
	_ queue.Rejecter   = (*Store)(nil)
	_ queue.Recaller   = (*Store)(nil)
	_ queue.NodeLister = (*Store)(nil)
)

// opBacklog bounds the operations that wait for the writer; further callers wait to hand theirs
// over.
const opBacklog = 4096

// Open opens or creates the store and starts its work. It returns a *LockedError if another process
// has the file, and an error that says what to do for a file that is no store or a newer one.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if cfg.Path == "" {
		return nil, errors.New("open store: no path is given")
	}
	s := &Store{
		cfg: cfg, ops: make(chan *op, opBacklog), longOps: make(chan *op, opBacklog),
		quit:  make(chan struct{}),
		ended: make(chan struct{}),
		lanes: map[string]int64{}, laneNames: map[int64]string{},
		laneKinds: map[int64]int64{},
		busy:      map[lineKey]int64{}, working: map[int64]*lease{},
		inLine: map[int64]int{}, suspects: map[int64]int{}, tasks: taskCache{},
		known: newKnown(), readers: make(chan *conn, cfg.Readers),
		flusher: flusher{turns: make(chan struct{}, maxUnflushed),
			committed: make(chan *unflushed, maxUnflushed)},
	}
	s.clock.source = cfg.Now
	s.records.s = s
	s.records.outcomes.init(cfg.ReplayKiB)
	if err := s.open(ctx); err != nil {
		err = fmt.Errorf("open store %s: %w", cfg.Path, withRoom(cfg.Path, err))
		return nil, errors.Join(err, s.release())
	}
	s.wg.Go(s.write)
	s.wg.Go(s.flush)
	s.wg.Go(s.checkpoint)
	s.wg.Go(s.indexRows)
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	if s.cfg.VFS == "" {
		if err := checkPlace(s.cfg.Path); err != nil {
			return err
		}
		_, err := os.Stat(s.cfg.Path)
		missing := errors.Is(err, os.ErrNotExist)
		if missing && s.cfg.NoCreate {
			return errors.New("there is no such file, and create is false")
		}
		if s.lock, err = lockFile(s.cfg.Path + ".lock"); err != nil {
			return err
		}
		if err := makeFiles(s.cfg.Path, missing); err != nil {
			return err
		}
	}
	empty, err := s.inspect()
	if err == nil && s.cfg.VFS == "" {
		err = makeFiles(s.cfg.Path, false) // the look has removed it again
	}
	if err != nil {
		return err
	}
	if s.w, err = openWriter(ctx, s.writerDSN(), s.initWriter); err != nil {
		return err
	}
	if s.created = empty; empty {
		err = s.createSchema()
	} else {
		err = s.upgradeSchema()
	}
	if err != nil {
		return err
	}
	for range s.cfg.Readers {
		r, err := openReader(s.dsn(), initReader)
		if err != nil {
			return err
		}
		s.readers <- r
		s.opened++
	}
	if err := s.recover(); err != nil || s.cfg.VFS != "" {
		return err
	}
	return s.present.remember(s.cfg.Path, s.cfg.Path+"-wal")
}

// Created reports whether Open made a new, empty store.
func (s *Store) Created() bool { return s.created }

// writerDSN names the file for the connection that writes. Without a sync nobody would say when
// what was gathered has to be in the file.
func (s *Store) writerDSN() string {
	if s.cfg.Synchronous != "FULL" {
		return s.dsn()
	}
	return s.dsnOver(walVFS(s.cfg.VFS))
}

func (s *Store) dsn() string { return s.dsnOver(s.cfg.VFS) }

func (s *Store) dsnOver(vfs string) string {
	abs := s.cfg.Path
	if s.cfg.VFS == "" {
		if a, err := filepath.Abs(abs); err == nil {
			abs = a
		}
	}
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: abs}).EscapedPath()}
	options := url.Values{}
	if vfs != "" {
		options.Set("vfs", vfs)
	}
	if s.cfg.VFS == "" && !s.cfg.readOnly { // the WAL is for the eyes that the database is for
		options.Set("modeof", abs)
	}
	if s.cfg.readOnly {
		options.Set("mode", "ro")
	}
	u.RawQuery = strings.ReplaceAll(options.Encode(), "+", "%20") // a plus is one to SQLite
	return u.String()
}

func (s *Store) initWriter(c *sqlite3.Conn) error {
	err := pragmas(c, []string{
		"PRAGMA busy_timeout=10000",
		"PRAGMA page_size=4096",
		"PRAGMA journal_mode=WAL",
		"PRAGMA synchronous=" + s.cfg.Synchronous,
		"PRAGMA temp_store=MEMORY",
		"PRAGMA wal_autocheckpoint=0", // see checkpoint.go
		fmt.Sprintf("PRAGMA cache_size=-%d", s.cfg.CacheKiB),
	})
	// SQLite keeps its own checkpoints in the same hook, so that the pragma would take ours away.
	c.WALHook(func(_ *sqlite3.Conn, _ string, pages int) error {
		s.walPages.Store(int64(pages))
		s.wrote = true
		return nil
	})
	return err
}

func initReader(c *sqlite3.Conn) error {
	return pragmas(c, []string{
		"PRAGMA busy_timeout=10000",
		"PRAGMA query_only=1",
		"PRAGMA cache_size=-4096",
	})
}

// pragmas sets up a connection. The plan of a statement may not depend on what is bound to it: else
// SQLite compiles each one with a LIMIT anew whenever that is bound.
func pragmas(c *sqlite3.Conn, list []string) error {
	if _, err := c.Config(sqlite3.DBCONFIG_ENABLE_QPSG, true); err != nil {
		return fmt.Errorf("set up a connection: %w", err)
	}
	for _, p := range list {
		if err := c.Exec(p); err != nil {
			return fmt.Errorf("%s: %w", strings.ToLower(p), err)
		}
	}
	return nil
}

// Close finishes what was handed over, marks the store as closed in order, and lets go of the file.
// It is safe to call twice.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.quit)
		s.wg.Wait()
		s.closed = s.release()
	})
	return s.closed
}

// release closes what is open.
func (s *Store) release() error {
	var errs []error
	for range s.opened { // one that answers a question comes back when it is done
		errs = append(errs, (<-s.readers).close())
	}
	if s.w != nil {
		errs = append(errs, s.w.close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.release())
	}
	return errors.Join(errs...)
}

// read runs fn with a connection that reads, in one consistent view.
func (s *Store) read(ctx context.Context, fn func(*conn) error) error {
	select {
	case c := <-s.readers:
		defer func() { s.readers <- c }()
		old := c.raw.SetInterrupt(ctx)
		defer c.raw.SetInterrupt(old)
		if err := c.exec("BEGIN"); err != nil {
			return fmt.Errorf("read store: %w", err)
		}
		err := fn(c)
		c.raw.SetInterrupt(old)
		if !c.raw.GetAutocommit() { // a fault of the disk ends the transaction by itself
			err = errors.Join(err, c.exec("COMMIT"))
		}
		if storeFault(err) {
			err = unavailable(err)
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.quit:
		return errClosed
	}
}
