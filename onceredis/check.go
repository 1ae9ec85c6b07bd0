package onceredis

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/oncekit/once"
)

// oldest is the first version of Redis whose scripts may read the time and write: they are
// replicated by their effects.
const oldest = 5

// Open checks the server as [Store.Check] does and loads the scripts, so that no request pays for
// that. It may be called again.
func (s *Store) Open(ctx context.Context) error {
	if err := s.Check(ctx); err != nil {
		return err
	}
	return s.bounded(ctx, func() error {
		nodes, err := s.masters(ctx)
		if err != nil {
			return fmt.Errorf("open redis store: %w", unavailable(err))
		}
		for _, node := range nodes {
			for _, script := range scripts {
				if err := script.Load(ctx, node).Err(); err != nil {
					return fmt.Errorf("open redis store: load script: %w", unavailable(err))
				}
			}
		}
		return nil
	})
}

// Check refuses a server that may forget records and of which that was not accepted: one that
// evicts keys, has not the persistence that is asked for, or is a replica. In a Cluster all nodes
// are looked at, behind Sentinel the present master. It reads INFO, which managed servers leave
// open. If the server can't be asked the error wraps [once.ErrUnavailable].
func (s *Store) Check(ctx context.Context) error {
	return s.bounded(ctx, func() error {
		if s.cluster == nil {
			return s.checkNode(ctx, s.client, true)
		}
		masters, err := s.masters(ctx)
		if err != nil {
			return fmt.Errorf("check redis: %w", unavailable(err))
		}
		for _, node := range masters {
			if err := s.checkNode(ctx, node, true); err != nil {
				return fmt.Errorf("node %s: %w", node.Options().Addr, err)
			}
		}
		return s.cluster.ForEachSlave(ctx, func(ctx context.Context, node *redis.Client) error {
			err := s.checkNode(ctx, node, false)
			if errors.Is(err, once.ErrUnavailable) {
				return nil // a replica that is down keeps nobody from working
			}
			return err
		})
	})
}

// UnsafeError refuses a server that forgets records by design.
type UnsafeError struct {
	// Problem says what the server does, and Remedy how to set it.
	Problem, Remedy string
	// Field of [Config] that accepts it as it is: AllowEviction, or Persistence.
	Field string
}

// Error tells all of it.
func (e *UnsafeError) Error() string {
	accept := e.Field
	if accept == "Persistence" {
		accept += " none"
	}
	return "check redis: " + e.Problem + "; " + e.Remedy + ", or " + accept + " to accept that"
}

// Ping reports whether the servers that hold records answer, and are there to be written to. In a
// Cluster all masters are asked, behind Sentinel the present one. The error wraps
// [once.ErrUnavailable]. ctx bounds it.
func (s *Store) Ping(ctx context.Context) error {
	return s.bounded(ctx, func() error {
		if s.cluster == nil {
			return pingNode(ctx, s.client)
		}
		return s.cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			return pingNode(ctx, node)
		})
	})
}

func pingNode(ctx context.Context, node redis.Cmdable) error {
	text, err := node.Info(ctx).Result()
	if err != nil {
		return fmt.Errorf("ping redis: %w", unavailable(err))
	}
	switch info := parseInfo(text); {
	case info["role"] != "master":
		return fmt.Errorf("ping redis: %w: the server is a %s", once.ErrUnavailable, info["role"])
	case info["loading"] == "1":
		return fmt.Errorf("ping redis: %w: the server still loads", once.ErrUnavailable)
	}
	return nil
}

// masters are the servers that hold records, in the order of their addresses.
func (s *Store) masters(ctx context.Context) ([]*redis.Client, error) {
	if s.cluster == nil {
		if c, ok := s.client.(*redis.Client); ok {
			return []*redis.Client{c}, nil
		}
		return nil, errors.New("the client has no node")
	}
	var mu sync.Mutex
	var all []*redis.Client
	err := s.cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, node)
		return nil
	})
	sort.Slice(all, func(i, j int) bool { return all[i].Options().Addr < all[j].Options().Addr })
	return all, err
}

func (s *Store) checkNode(ctx context.Context, node redis.Cmdable, master bool) error {
	text, err := node.Info(ctx).Result()
	if err != nil {
		return fmt.Errorf("check redis: %w", unavailable(err))
	}
	info := parseInfo(text)
	major, _, _ := strings.Cut(info["redis_version"], ".")
	version, err := strconv.Atoi(major)
	role, policy, aof := info["role"], info["maxmemory_policy"], info["aof_enabled"]
	switch {
	case err != nil || role == "" || policy == "" || aof == "":
		return errors.New("check redis: INFO doesn't tell its version, role, maxmemory_policy " +
			"and aof_enabled")
	case version < oldest:
		return fmt.Errorf("check redis: version %s, want at least %d", info["redis_version"],
			oldest)
	case info["arch_bits"] == "32":
		return errors.New("check redis: a server of 32 bits can't hold times of 64")
	case master && role != "master":
		return fmt.Errorf("check redis: the server is a %s, records are kept on the master", role)
	case policy != "noeviction" && !s.cfg.AllowEviction:
		return &UnsafeError{Problem: "maxmemory-policy is " + policy + ": the server removes " +
			"keys when its memory is full, and their operations run again",
			Remedy: "set noeviction", Field: "AllowEviction"}
	case aof != "1" && s.cfg.Persistence != PersistNone:
		return &UnsafeError{Problem: "appendonly is off: a restart forgets keys, and their " +
			"operations run again", Remedy: "set appendonly yes", Field: "Persistence"}
	}
	if s.cfg.Persistence == PersistAlways {
		return checkFlush(ctx, node)
	}
	return nil
}

// checkFlush wants each write flushed before it is answered.
func checkFlush(ctx context.Context, node redis.Cmdable) error {
	got, err := node.ConfigGet(ctx, "appendfsync").Result()
	var refused redis.Error
	if errors.As(err, &refused) {
		return fmt.Errorf("check redis: whether each write is flushed can't be seen, CONFIG is "+
			"closed; set Persistence aof to accept that: %w", err)
	}
	if err != nil {
		return fmt.Errorf("check redis: %w", unavailable(err))
	}
	if got["appendfsync"] != "always" {
		return fmt.Errorf("check redis: appendfsync is %s: a crash forgets the last writes; set "+
			"it to always, or Persistence aof to accept that", got["appendfsync"])
	}
	return nil
}

// parseInfo reads what INFO answers: a name, a colon and a value a line.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			info[name] = value
		}
	}
	return info
}
