package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/oncemongo"
	"github.com/oncekit/once/queue"
	"github.com/oncekit/once/write"
)

// Bounds of opening a database.
const (
	// openAtStart is how long the start waits for its databases, openLimit how long a try may take
	// that nobody waits for.
	openAtStart = 5 * time.Second
	openLimit   = time.Minute
	// openPause and openPauseMost bound the time between two tries: a database that comes back is
	// not left alone for long, whatever its callbacks wait for.
	openPause     = time.Second
	openPauseMost = 15 * time.Second
	// sweepEvents is how often a database is relieved of events past their retention.
	sweepEvents = 10 * time.Minute
)

// database is one in which callbacks change documents. It is opened in the background until that
// succeeds, since messages are taken in whether it is there or not; before, nothing is written.
type database struct {
	cfg *config.DatabaseConfig
	log *slog.Logger
	// connect makes its writer and checks that it can be written to: that targets have their unique
	// index.
	connect func(ctx context.Context) (write.Writer, error)
	// wrap is put around the writer, for tests.
	wrap func(write.Writer) write.Writer

	mu     sync.Mutex
	writer write.Writer // nil: it was never open
	err    error        // why not
	away   bool         // the last answer was none
}

var _ write.Writer = (*database)(nil)

// Write implements write.Writer.
func (d *database) Write(ctx context.Context, e write.Event) (write.Result, error) {
	w, err := d.current()
	if err != nil {
		return write.Result{}, err
	}
	r, err := w.Write(ctx, e)
	d.heard(ctx, err)
	return r, err
}

// WriteAll implements write.Writer.
func (d *database) WriteAll(ctx context.Context, events []write.Event) ([]write.Result, error) {
	w, err := d.current()
	if err != nil {
		return nil, err
	}
	r, err := w.WriteAll(ctx, events)
	d.heard(ctx, err)
	return r, err
}

// current returns the writer, or why there is none.
func (d *database) current() (write.Writer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.writer != nil:
		return d.writer, nil
	case d.err != nil:
		return nil, fmt.Errorf("open database %s: %w", d.cfg.Name, d.err)
	}
	return nil, fmt.Errorf("open database %s: %w", d.cfg.Name, once.ErrUnavailable)
}

// Open reports whether the database is open and gave its last answer.
func (d *database) Open() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writer != nil && !d.away
}

// heard notes whether the database answers, and logs that it begins or ends to.
func (d *database) heard(ctx context.Context, err error) {
	if err != nil && ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return // we stopped, not the database
	}
	away := err != nil && !answered(err)
	d.mu.Lock()
	before := d.away
	d.away = away
	d.mu.Unlock()
	switch {
	case away && !before:
		d.log.Warn("the database is away; its writes wait", "error", queue.Public(err))
	case before && !away:
		d.log.Info("the database is back")
	}
}

// answered reports whether an error is one that the database, or the check before it, gave about an
// event or a document.
func answered(err error) bool {
	for _, is := range []error{write.ErrEvent, write.ErrShape, write.ErrIndex, write.ErrExists,
		write.ErrBusy, once.ErrState, once.ErrTooLarge} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// open tries to open the database once.
func (d *database) open(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w, err := d.connect(ctx)
	if err == nil && d.wrap != nil {
		w = d.wrap(w)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err = err; err == nil {
		d.writer, d.away = w, false
	}
	return err
}

// run opens the database, if that is left to do, and then removes the events that are past their
// retention, until ctx ends.
func (d *database) run(ctx context.Context) {
	told := ""
	for pause := openPause; d.missing(); pause = min(2*pause, openPauseMost) {
		err := d.open(ctx, openLimit)
		if err == nil {
			d.log.Info("the database is open")
			break
		}
		if ctx.Err() != nil {
			return
		}
		if why := notOpen(err); why != told {
			told = why
			d.log.Warn("the database can't be opened; its writes wait", "error", why)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
	w, _ := d.current()
	if s, ok := w.(once.Sweeper); ok {
		once.RunSweeper(ctx, s, sweepEvents, d.log)
	}
}

func (d *database) missing() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writer == nil
}

// notOpen is what a log may show of why a database is not open.
func notOpen(err error) string {
	var index *write.IndexError
	if errors.As(err, &index) { // without the keys that are there twice
		return index.In + " has no unique index over " + index.Key + " alone; create it with: " +
			index.Command
	}
	if s := queue.Public(err); s != "" {
		return s
	}
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) && coded.SQLState() != "" {
		return "it refuses: " + sqlRefusal(coded.SQLState())
	}
	switch {
	case refusesLogin(err):
		return "it refuses our login"
	case strings.Contains(err.Error(), "server refused TLS connection"): // pgx has no type for it
		return "it has no TLS, which the url asks for"
	case errors.Is(err, sqlite3.NOTADB), errors.Is(err, sqlite3.CANTOPEN):
		return "it is no file of SQLite that can be opened"
	}
	return "it refuses"
}

// sqlRefusal says what a SQLSTATE of PostgreSQL means where a database is opened. The server's own
// text has names, and may have more.
func sqlRefusal(code string) string {
	what := ""
	switch {
	case code == "3D000":
		what = "there is no such database, "
	case code == "42501":
		what = "our login may not do this (it makes once_events), "
	case strings.HasPrefix(code, "28"):
		what = "our login is turned down, "
	case code == "53300":
		what = "it has too many connections, "
	}
	return what + "SQLSTATE " + code
}

// wrongAtStart reports whether an error of opening a database means that the file and the database
// don't fit. Then nothing is served: what was declared was never right. A database that can't be
// reached, or that refuses our login, may be on its way, and messages are taken in meanwhile.
func wrongAtStart(err error) bool {
	return errors.Is(err, write.ErrIndex) || errors.Is(err, write.ErrShape) ||
		errors.Is(err, fs.ErrNotExist) || errors.Is(err, oncemongo.ErrServer)
}

// makeDatabases prepares those to which a source writes. It connects to nothing.
func (s *Server) makeDatabases() error {
	targets := map[string][]write.Target{}
	for _, src := range s.cfg.SourceSettings {
		if src.Handler == nil || src.Handler.Document == nil {
			continue
		}
		doc := src.Handler.Document
		list := targets[doc.Database]
		known := false
		for _, t := range list {
			known = known || t == doc.Target
		}
		if !known {
			targets[doc.Database] = append(list, doc.Target)
		}
	}
	for i := range s.cfg.Databases {
		cfg := &s.cfg.Databases[i]
		if len(targets[cfg.Name]) == 0 {
			continue
		}
		connect, closes, err := s.connector(cfg, targets[cfg.Name])
		if err != nil {
			return fmt.Errorf("database %s: %w", cfg.Name, err)
		}
		s.closers = append(s.closers, closes)
		d := &database{cfg: cfg, log: s.log.With("database", cfg.Name), connect: connect,
			wrap: s.opts.Writer}
		s.databases = append(s.databases, d)
	}
	return nil
}

// openDatabases tries each database once.
func (s *Server) openDatabases(ctx context.Context) error {
	limit := openAtStart
	if s.opts.DatabaseWait > 0 {
		limit = s.opts.DatabaseWait
	}
	errs := make([]error, len(s.databases))
	var wg sync.WaitGroup
	for i, d := range s.databases {
		wg.Go(func() {
			if err := d.open(ctx, limit); err != nil && wrongAtStart(err) {
				errs[i] = fmt.Errorf("open database %s: %w", d.cfg.Name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// database returns one by its name.
func (s *Server) database(name string) *database {
	for _, d := range s.databases {
		if d.cfg.Name == name {
			return d
		}
	}
	return nil // not possible: the file declares it
}

// areOpen tells the metrics which databases answer.
func (s *Server) areOpen() map[string]bool {
	out := make(map[string]bool, len(s.databases))
	for _, d := range s.databases {
		out[d.cfg.Name] = d.Open()
	}
	return out
}
