package onceredis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekit/once"
)

// maxDetached bounds the calls in goroutines of their own. A server that hangs keeps each of them
// until the client's own timeouts end it.
const maxDetached = 4096

// answer is what a script returned: a word and what belongs to it.
type answer struct {
	word   string
	values []any
}

// run runs a script on the record of an identity. Its error wraps [once.ErrUnavailable].
func (s *Store) run(
	ctx context.Context, script *redis.Script, id once.Identity, args ...any,
) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, unavailable(err)
	}
	args = append([]any{s.offset.Load()}, args...)
	key := s.key(id)
	if s.detached == nil {
		return s.runHere(ctx, script, key, args)
	}
	return s.runDetached(ctx, script, key, args)
}

func (s *Store) runHere(
	ctx context.Context, script *redis.Script, key string, args []any,
) (answer, error) {
	var cmd *redis.Cmd
	if s.cfg.Wait > 0 && script != renewScript && script != readScript {
		var err error
		if cmd, err = s.runConfirmed(ctx, script, key, args); err != nil {
			return answer{}, unavailable(err)
		}
	} else {
		cmd = script.Run(ctx, s.client, []string{key}, args...)
	}
	values, err := cmd.Slice()
	if err != nil {
		return answer{}, unavailable(err)
	}
	if len(values) == 0 {
		return answer{}, unavailable(errors.New("a script returned nothing"))
	}
	word, _ := values[0].(string)
	return answer{word, values}, nil
}

// runDetached returns at the end of the context, which a client without ContextTimeoutEnabled does
// not obey while it waits for an answer.
func (s *Store) runDetached(
	ctx context.Context, script *redis.Script, key string, args []any,
) (answer, error) {
	for i, a := range args {
		if b, ok := a.([]byte); ok {
			args[i] = string(b) // the caller may change his while this call is on its way
		}
	}
	var out answer
	err := s.bounded(ctx, func() (err error) {
		out, err = s.runHere(ctx, script, key, args)
		return err
	})
	if err != nil {
		return answer{}, err // out may be written still
	}
	return out, nil
}

// bounded runs fn and returns at the context's end, also with a client that doesn't obey it: what
// fn writes is the caller's only if there is no error.
func (s *Store) bounded(ctx context.Context, fn func() error) error {
	if s.detached == nil {
		return fn()
	}
	select {
	case s.detached <- struct{}{}:
	default:
		return unavailable(fmt.Errorf("%d calls are without an answer", maxDetached))
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-s.detached }()
		done <- fn()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
}

// runConfirmed runs a script and waits until replicas have what it wrote. Both commands go over one
// connection, since replicas confirm the writes of the connection that asks.
func (s *Store) runConfirmed(
	ctx context.Context, script *redis.Script, key string, args []any,
) (*redis.Cmd, error) {
	for try := 0; ; try++ {
		var node redis.Cmdable = s.client
		if s.cluster != nil {
			master, err := s.cluster.MasterForKey(ctx, key)
			if err != nil {
				return nil, err
			}
			node = master
		}
		pipe := node.Pipeline()
		cmd := pipe.EvalSha(ctx, script.Hash(), []string{key}, args...)
		wait := pipe.Do(ctx, "wait", s.cfg.Wait, s.cfg.WaitTimeout.Milliseconds())
		_, _ = pipe.Exec(ctx) // the first error of the commands, which are looked at below
		_, moved := redis.IsMovedError(cmd.Err())
		switch {
		case try == 0 && moved && s.cluster != nil:
			s.cluster.ReloadState(ctx)
			continue
		case try == 0 && redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT"):
			if err := script.Load(ctx, node).Err(); err != nil {
				return nil, err
			}
			continue
		case cmd.Err() != nil:
			return nil, cmd.Err()
		case refused(cmd):
			return cmd, nil
		}
		n, err := wait.Int()
		if err == nil && n < s.cfg.Wait {
			err = fmt.Errorf("%d replicas have it within %s, want %d", n, s.cfg.WaitTimeout,
				s.cfg.Wait)
		}
		return cmd, err
	}
}

// refused tells refusals: what they wrote, the arrival or that an attempt is held, the next one who
// asks writes again, so that no replica has to confirm it.
func refused(cmd *redis.Cmd) bool {
	values, err := cmd.Slice()
	return err != nil || len(values) == 0 || values[0] != "granted" && values[0] != "ok"
}

func unavailable(err error) error {
	if errors.Is(err, once.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", once.ErrUnavailable, err)
}

func (a answer) int(i int) int64 {
	if i >= len(a.values) {
		return 0
	}
	n, _ := a.values[i].(int64)
	return n
}

func (a answer) text(i int) string {
	if i >= len(a.values) {
		return ""
	}
	s, _ := a.values[i].(string)
	return s
}

func (a answer) span(i int) time.Duration { return time.Duration(a.int(i)) * time.Microsecond }

// err is what the word means to whoever asked for a step.
func (a answer) err(step string) error {
	switch a.word {
	case "ok":
		return nil
	case "mismatch":
		return once.ErrMismatch
	case "lost":
		return once.ErrLeaseLost
	case "not found":
		return once.ErrNotFound
	case "state":
		return once.ErrState
	case "corrupt":
		return fmt.Errorf("%s: %w", step, once.ErrCorrupt)
	}
	return fmt.Errorf("%s: %w: a script answered %q", step, once.ErrUnavailable, a.word)
}
