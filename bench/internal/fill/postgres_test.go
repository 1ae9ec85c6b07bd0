package fill

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once/internal/testserver/postgres"
	"github.com/oncekit/once/oncepg"
	"github.com/oncekit/once/queue"
)

func TestRememberedCallbacksInPostgreSQLAreCountedFoundAndKnown(t *testing.T) {
	server, err := postgres.Start(postgres.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	url := server.URL("postgres")
	if err := Postgres(t.Context(), url, 10_000); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s, err := oncepg.NewStore(pool, oncepg.StoreConfig{NoMigrate: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // the server goes next
	checkRemembered(t, s)
	checkKnown(t, s, 9999)
	err = oncepg.Migrate(t.Context(), pool, oncepg.MigrateConfig{Schema: "plain"})
	if err != nil {
		t.Fatal(err)
	}
	const shape = `SELECT array_agg(indexname || regexp_replace(regexp_replace(indexdef, ' WITH \(.*?\)',
		''), schemaname || '\.', '') ORDER BY indexname) FROM pg_indexes WHERE tablename IN
		('queue_content', 'queue_work') AND schemaname = `
	var tasks int64
	var same bool
	err = pool.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM once.tasks), ("+shape+
		"'once') = ("+shape+"'plain')").Scan(&tasks, &same)
	if err != nil || tasks < 1_900 || !same {
		t.Errorf("%d tasks, the indexes are those of a migration: %v, error %v, want about 2000", tasks,
			same, err)
	}
	// A new callback and what is new in the turn get numbers of their own.
	got, err := s.Append(t.Context(), []queue.Arrival{arrival(t, 20_000)})
	if err != nil || got[0].Outcome != queue.Accepted || got[0].Seq <= 20_000 {
		t.Errorf("%+v, error %v, want a number above those there are", got, err)
	}
}
