package peer

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// insertSQL is one round trip and one commit.
const insertSQL = `INSERT INTO callbacks (req, task, method, body) VALUES ($1, $2, $3, $4)
	ON CONFLICT DO NOTHING`

// inserter inserts each callback into PostgreSQL and commits it, by itself.
type inserter struct{ pool *pgxpool.Pool }

// openInserter makes the table, with a unique index on the three parts of the key. How many
// connections there are is said by pool_max_conns in the URL.
func openInserter(ctx context.Context, url string) (*inserter, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	_, err = pool.Exec(ctx, `CREATE TABLE callbacks (
		id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, req text NOT NULL, task text NOT NULL,
		method text NOT NULL, at timestamptz NOT NULL DEFAULT now(), body bytea NOT NULL,
		UNIQUE (req, task, method))`)
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("create table: %w", err)
	}
	return &inserter{pool}, nil
}

func (i *inserter) accept(ctx context.Context, c Callback) error {
	if _, err := i.pool.Exec(ctx, insertSQL, c.ReqCode, c.TaskCode, c.Method, c.Body); err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	return nil
}

// run closes the pool when ctx ends.
func (i *inserter) run(ctx context.Context) error {
	<-ctx.Done()
	i.pool.Close()
	return nil
}
