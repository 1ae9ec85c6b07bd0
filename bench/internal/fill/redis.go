package fill

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekit/once"
	"github.com/oncekit/once/onceredis"
)

// pipeCommands is how many commands are on their way at once.
const pipeCommands = 2000

// RedisRecords makes the records of Claim(0) to Claim(n-1) in an empty Redis that persists nothing
// yet, and has it persist them: in an append-only file.
func RedisRecords(ctx context.Context, client *redis.Client, n int64) error {
	if err := redisRecords(ctx, client, n); err != nil {
		return fmt.Errorf("fill records: %w", err)
	}
	return nil
}

func redisRecords(ctx context.Context, client *redis.Client, n int64) error {
	s, err := onceredis.New(client, onceredis.Config{Persistence: onceredis.PersistNone})
	if err != nil {
		return err
	}
	size, err := client.DBSize(ctx).Result()
	if err == nil && size != 0 {
		err = fmt.Errorf("%d keys are there already", size)
	}
	if err != nil {
		return err
	}
	if err := pattern(ctx, s); err != nil {
		return err
	}
	name, err := client.RandomKey(ctx).Result() // the only one
	if err != nil {
		return err
	}
	value, err := client.Get(ctx, name).Result()
	if err != nil {
		return err
	}
	first := recordIdentity(0)
	before, after, ok := strings.Cut(name, hex.EncodeToString(first[:]))
	if !ok {
		return fmt.Errorf("key %q does not name its identity", name)
	}
	for from := int64(1); from < n; from += pipeCommands {
		pipe := client.Pipeline()
		for i := from; i < min(n, from+pipeCommands); i++ {
			id := recordIdentity(i)
			pipe.Set(ctx, before+hex.EncodeToString(id[:])+after, value, retention)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	return persist(ctx, client)
}

// persistTime bounds the writing of the first append-only file.
const persistTime = 10 * time.Minute

// persist turns the append-only file on and waits until it holds what is there.
func persist(ctx context.Context, client *redis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, persistTime)
	defer cancel()
	if err := client.ConfigSet(ctx, "appendonly", "yes").Err(); err != nil {
		return err
	}
	for {
		info, err := client.Info(ctx, "persistence").Result()
		if err != nil {
			return err
		}
		if strings.Contains(info, "aof_enabled:1") &&
			strings.Contains(info, "aof_rewrite_in_progress:0") &&
			strings.Contains(info, "aof_rewrite_scheduled:0") &&
			strings.Contains(info, "aof_last_bgrewrite_status:ok") {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait for the append-only file: %w", ctx.Err())
		}
	}
}

// Known checks that a store takes records up to n for its own: it answers from them.
func Known(ctx context.Context, s once.Store, n int64) error {
	for _, i := range []int64{0, 1, n / 2, n - 1} {
		_, err := s.Claim(ctx, Claim(i))
		if replay, ok := err.(*once.ReplayError); !ok || len(replay.Outcome.Data) != outcomeSize {
			return fmt.Errorf("record %d of the filled store is answered with %v, want a replay", i,
				err)
		}
	}
	return nil
}
