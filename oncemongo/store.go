package oncemongo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/oncekit/once/queue"
)

// Config says how a Store behaves. The zero value works.
type Config struct {
	// NoCreate refuses a database in which no store was made yet. Default: it is made.
	NoCreate bool
	// RejectedPerSource bounds the ring of refused messages of each source, and that of refused
	// strangers. Default 100.
	RejectedPerSource int
	// MaxOutcome bounds the outcomes of the records that are kept beside, as in RecordsConfig.
	MaxOutcome int
	// Poll is how often a node looks whether another one made something due, or its time has come.
	// Default 250ms.
	Poll time.Duration
	// NodeLost is how long a node may show no sign of life until its leases are void. Default 10s.
	NodeLost time.Duration
	// Logger gets what an operator should know. Default: discards.
	Logger *slog.Logger
	// Now is the store's clock, for tests. Default: the server's.
	Now func() time.Time

	// turnLost is how long the holder of the turn may do nothing until another node takes it,
	// turnYield how long one that waits for it goes first, turnPause the pause between two looks,
	// turnShare how long it is held while another one waits, turnIdle while nothing is to be done.
	turnLost, turnYield, turnPause, turnShare, turnIdle time.Duration
	// alone is set by tests that killed all other nodes.
	alone bool
	// noLive asks the database for every row.
	noLive bool
	// facts are those of the server, if they are known. Default: it is probed.
	facts *Facts
	// failpoint is asked at each point whether the process ends there.
	failpoint func(point) bool
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	if c.RejectedPerSource <= 0 {
		c.RejectedPerSource = 100
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	set(&c.Poll, 250*time.Millisecond)
	set(&c.NodeLost, 10*time.Second)
	set(&c.turnLost, 3*time.Second)
	set(&c.turnYield, 200*time.Millisecond)
	set(&c.turnPause, 5*time.Millisecond)
	set(&c.turnShare, 50*time.Millisecond)
	set(&c.turnIdle, 20*time.Millisecond)
	return c
}

// Store keeps callbacks, effects, tasks and resources in a database of MongoDB: [queue.Store],
// [queue.Transactor], [queue.Notifier], [queue.Browser], [queue.Operator] and [queue.Rejecter].
// Many processes may use one database, each with a Store of its own; their commits follow one
// another, whatever they are about. It is safe for concurrent use.
type Store struct {
	db    *mongo.Database
	cfg   Config
	facts Facts
	// node is the name of this process among those that use the database.
	node    string
	created bool

	// Only the writer uses these.
	turn turn
	// live are the unfinished rows, since this node has the turn for some batches.
	live    map[queue.Kind]*live
	batches int
	// singly has for each lane how many of its rows are worked singly, since a node was lost.
	singly map[string]int

	ops         chan *op
	quit, ended chan struct{}
	// seen is the last commit of which this node's lanes were told, or are.
	seen   atomic.Int64
	killed atomic.Bool
	// solo is true while no other node is seen, wanted while one waits for the turn.
	solo, wanted atomic.Bool
	bells        bells
	clock        serverClock

	records *Records

	background sync.WaitGroup
	stop       context.CancelFunc
	closeOnce  sync.Once
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

// OpenStore opens the store in a database, over a client that stays its caller's, and makes what
// is missing of it. The error wraps [ErrServer] for a server that can't be used.
func OpenStore(ctx context.Context, db *mongo.Database, c Config) (*Store, error) {
	s := &Store{db: db, cfg: c.withDefaults(), singly: map[string]int{},
		node: nodeName(), ops: make(chan *op, maxBatch), quit: make(chan struct{}),
		ended: make(chan struct{})}
	var err error
	if s.records, err = NewRecords(db, RecordsConfig{MaxOutcome: c.MaxOutcome}); err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("open store %s: %w", db.Name(), err)
	}
	run, stop := context.WithCancel(context.Background())
	s.stop = stop
	go s.write()
	s.background.Go(func() { s.watch(run) })
	if err := s.do(ctx, false, s.arrive); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", db.Name(), err), s.Close())
	}
	return s, nil
}

// nodeName is a name that no other process has, in which people find the machine.
func nodeName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strings.ToLower(rand.Text()[:10]))
}

func (s *Store) open(ctx context.Context) (err error) {
	if s.cfg.facts != nil {
		s.facts = *s.cfg.facts
	} else if s.facts, err = Probe(ctx, s.db); err != nil {
		return err
	}
	if err := s.clock.set(ctx, s); err != nil {
		return err
	}
	if err := s.records.makeIndexes(ctx, s.facts); err != nil {
		return fmt.Errorf("make the indexes of the records: %w", fault(err))
	}
	found, err := s.find(ctx, meta, bson.D{{Key: "_id", Value: turnID}}, nil, 1,
		bson.D{{Key: "schema", Value: 1}})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		if s.cfg.NoCreate {
			return errors.New("there is no store in the database, and create is false")
		}
		return s.create(ctx)
	}
	if err := rightSchema(found[0]); err != nil {
		return err
	}
	return s.makeIndexes(ctx)
}

// rightSchema refuses documents that another version wrote.
func rightSchema(turn bson.Raw) error {
	if v, _ := turn.Lookup("schema").AsInt64OK(); v != schemaVersion {
		return fmt.Errorf("it was written by another version (schema %d, this one knows %d)", v,
			schemaVersion)
	}
	return nil
}

// schemaVersion is what the turn says of how the documents are written.
const schemaVersion = 1

// create makes the indexes, then the turn: where it is, everything is.
func (s *Store) create(ctx context.Context) error {
	if err := s.makeIndexes(ctx); err != nil {
		return err
	}
	doc, err := bson.Marshal(turnDoc{ID: turnID, Journal: []docWrite{}})
	if err != nil {
		return err
	}
	_, err = collection(s.db, meta).InsertOne(ctx,
		append(without(doc, ""), bson.E{Key: "schema", Value: int64(schemaVersion)}))
	if hasCode(err, codeDuplicateKey) { // another node was faster
		return nil
	}
	s.created = err == nil
	return fault(err)
}

// indexes by collection: each a list of fields, "!" before the first for a unique one.
var indexes = map[string][]string{
	callbacks: {"!identity", "id", "lane phase _id", "lane order_key in_line _id", "waits _id",
		"flow task phase", "next_at", "lease_until", "sweep_at", "source _id", "event _id",
		"task _id", "key _id", "phase _id", "node"},
	effects: {"!identity", "id", "lane phase _id", "lane order_key in_line _id", "next_at",
		"lease_until", "sweep_at", "source _id", "event _id", "task _id", "key _id", "phase _id",
		"node"},
	arrivals:  {"row n", "row fingerprint"},
	tasks:     {"n", "overdue_at", "sweep_at", "flow state n"},
	history:   {"task version"},
	resources: {"kind name", "flow task freeing"},
	rejected:  {"source ring _id"},
	audit:     {"target n"},
}

// makeIndexes makes those indexes that are missing.
func (s *Store) makeIndexes(ctx context.Context) error {
	for name, list := range indexes {
		have, err := s.indexesOf(ctx, name)
		if err != nil {
			return fmt.Errorf("read the indexes of %s: %w", name, err)
		}
		for _, text := range list {
			m, indexName := indexModel(text)
			if have[indexName] {
				continue
			}
			if _, err := collection(s.db, name).Indexes().CreateOne(ctx, m); err != nil {
				return fmt.Errorf("make index %s of %s: %w", indexName, name, fault(err))
			}
		}
	}
	return nil
}

func (s *Store) indexesOf(ctx context.Context, name string) (map[string]bool, error) {
	have := map[string]bool{}
	list, err := collection(s.db, name).Indexes().ListSpecifications(ctx)
	if err != nil && !hasCode(err, codeNoCollection) {
		return nil, fault(err)
	}
	for _, i := range list {
		have[i.Name] = true
	}
	return have, nil
}

// codeNoCollection is the server's error of a question about a collection that is not there.
const codeNoCollection = 26

// indexModel returns an index and its name.
func indexModel(text string) (mongo.IndexModel, string) {
	text, unique := strings.CutPrefix(text, "!")
	names := strings.Fields(text)
	keys := bson.D{}
	for _, f := range names {
		keys = append(keys, bson.E{Key: f, Value: 1})
	}
	name := "once_" + strings.Join(names, "_")
	o := options.Index().SetName(name)
	if unique {
		o.SetUnique(true)
	}
	return mongo.IndexModel{Keys: keys, Options: o}, name
}

// Created reports whether OpenStore made the store.
func (s *Store) Created() bool { return s.created }

// Close ends what was handed over and lets the other nodes know that this one has ended. The client
// stays open. It is safe to call twice.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.stop()
		s.background.Wait()
		close(s.quit)
		<-s.ended
		s.leave()
	})
	return nil
}

func findOptions(sort bson.D, limit int, fields bson.D) *options.FindOptionsBuilder {
	o := options.Find()
	if sort != nil {
		o.SetSort(sort)
	}
	if limit > 0 {
		o.SetLimit(int64(limit))
	}
	if fields != nil {
		o.SetProjection(fields)
	}
	return o
}

// quickly is for writes that may be lost with a primary: each of them counts only together with a
// later one that is not.
func quickly() *options.CollectionOptionsBuilder {
	return options.Collection().SetWriteConcern(&writeconcern.WriteConcern{W: 1})
}

// serverClock is the server's time, as it goes on by our own clock since it was asked.
type serverClock struct {
	mu     sync.Mutex
	at     time.Time
	asked  time.Time
	latest stamp
}

// clockEvery is how often the server is asked for its time.
const clockEvery = time.Minute

// set asks the server, if the last answer is old.
func (c *serverClock) set(ctx context.Context, s *Store) error {
	c.mu.Lock()
	old := c.asked.IsZero() || time.Since(c.asked) >= clockEvery
	c.mu.Unlock()
	if s.cfg.Now != nil || !old {
		return nil
	}
	at, err := serverTime(ctx, s.db)
	if err != nil {
		return fault(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.asked = at, time.Now()
	return nil
}

// now is the store's clock. It never goes back.
func (s *Store) now() stamp {
	if s.cfg.Now != nil {
		return stampOf(s.cfg.Now())
	}
	c := &s.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest = max(c.latest, stampOf(c.at.Add(time.Since(c.asked))))
	return c.latest
}
