package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekit/once/internal/api"
	"github.com/oncekit/once/onceredis"
)

// redisClient reads the URL of a server, of a Cluster or of Sentinels, and returns what makes a
// client for it. The client's deadlines are those of its calls' contexts.
func redisClient(url string) (func() redis.UniversalClient, error) {
	scheme, rest, _ := strings.Cut(url, "://")
	plain, kind, _ := strings.Cut(scheme, "+")
	url = plain + "://" + rest
	switch kind {
	case "cluster":
		o, err := redis.ParseClusterURL(url)
		if err != nil {
			return nil, hideURL(err)
		}
		o.ContextTimeoutEnabled = true
		return func() redis.UniversalClient { return redis.NewClusterClient(o) }, nil
	case "sentinel":
		o, err := redis.ParseFailoverURL(url)
		if err != nil {
			return nil, hideURL(err)
		}
		if o.MasterName == "" {
			return nil, errors.New("it has no master_name, by which Sentinels are asked for their" +
				" master")
		}
		o.ContextTimeoutEnabled = true
		return func() redis.UniversalClient { return redis.NewFailoverClient(o) }, nil
	}
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, hideURL(err)
	}
	o.ContextTimeoutEnabled = true
	return func() redis.UniversalClient { return redis.NewClient(o) }, nil
}

// openRedisRecords opens a Redis that keeps the gateway's records.
func (s *Server) openRedisRecords(ctx context.Context, url string, maxOutcome int) error {
	connect, err := redisClient(url)
	if err != nil {
		return fmt.Errorf("the URL of the Redis: %w", err)
	}
	client := connect()
	s.closers = append(s.closers, client)
	g := s.cfg.Gateway
	cfg := onceredis.Config{MayForget: g.MayForget, AllowEviction: g.MayEvict,
		MaxOutcome: maxOutcome}
	if g.MayForget {
		cfg.Persistence = onceredis.PersistNone
	}
	records, err := onceredis.New(client, cfg)
	if err != nil {
		return err
	}
	if err := records.Open(ctx); err != nil {
		return inFile(err)
	}
	s.recordsReady = cached(records.Ping, recordsPingLimit)
	s.records = records
	return nil
}

// hideURL keeps an address with its password out of an error.
func hideURL(err error) error {
	text := strings.TrimPrefix(err.Error(), "redis: ")
	if strings.Contains(text, "://") {
		text = "it can't be read"
	}
	return errors.New(text)
}

// inFile says how a refusal of a Redis is accepted in a file, where Go's fields are not known.
func inFile(err error) error {
	var unsafe *onceredis.UnsafeError
	if !errors.As(err, &unsafe) {
		return err
	}
	field := map[string]string{"AllowEviction": "redis_may_evict: true",
		"Persistence": "redis_may_forget: true"}[unsafe.Field]
	return errors.New(strings.Replace(err.Error(), unsafe.Error(), fmt.Sprintf("%s; %s, or write "+
		"%s in the gateway to accept that", unsafe.Problem, unsafe.Remedy, field), 1))
}

// Bounds of asking the records' store whether it is ready.
const (
	recordsPingLimit = time.Second
	recordsPingFresh = time.Second
)

// cached asks at most once a second, and one at a time.
func cached(ping func(context.Context) error, limit time.Duration) func(context.Context) error {
	var mu sync.Mutex
	var at time.Time
	var last error
	return func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if !at.IsZero() && time.Since(at) < recordsPingFresh {
			return last
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		last = ping(ctx)
		at = time.Now()
		return last
	}
}

// ready reports whether the store can be written, and whether that of the records answers.
func (s *Server) ready(ctx context.Context) error {
	if err := s.store.Ping(ctx); err != nil {
		return err
	}
	if s.recordsReady == nil {
		return nil
	}
	if err := s.recordsReady(ctx); err != nil {
		return fmt.Errorf("%w: %w", api.ErrRecordsAway, err)
	}
	return nil
}

// LogRedis lets the Redis client, which has one logger for all of the program, tell its faults
// through log: a warning every ten seconds at most, and all of them under level debug.
func LogRedis(log *slog.Logger) { redis.SetLogger(&redisLog{log: log}) }

// redisLogPause is the time between two warnings.
const redisLogPause = 10 * time.Second

type redisLog struct {
	log *slog.Logger

	mu   sync.Mutex
	next time.Time
	left int // out, since the last warning
}

// Printf implements the client's interface.
func (l *redisLog) Printf(ctx context.Context, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.mu.Lock()
	warn, left := !time.Now().Before(l.next), l.left
	if l.left++; warn {
		l.next, l.left = time.Now().Add(redisLogPause), 0
	}
	l.mu.Unlock()
	if warn {
		l.log.WarnContext(ctx, "the Redis client reports a fault", "fault", text, "left_out", left)
		return
	}
	l.log.DebugContext(ctx, "the Redis client reports a fault", "fault", text)
}
