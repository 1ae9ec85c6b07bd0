package oncesqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

func TestNothingIsAcknowledgedByAFileThatIsNotThereAnyMore(t *testing.T) {
	for _, name := range []string{"once.db", "once.db-wal"} {
		for _, replaced := range []bool{false, true} {
			path := filepath.Join(t.TempDir(), "once.db")
			s := openAt(t, Config{Path: path})
			mustAppend(t, s, callback("a"))
			file := filepath.Join(filepath.Dir(path), name)
			if err := os.Rename(file, file+".away"); err != nil {
				t.Fatal(err)
			}
			if replaced {
				if err := os.WriteFile(file, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				_, err := s.Append(t.Context(), []queue.Arrival{callback("b")})
				if !errors.Is(err, once.ErrUnavailable) {
					t.Fatalf("%s, replaced: %t: append: %v", name, replaced, err)
				}
			}
			_, err := s.Append(t.Context(), []queue.Arrival{callback("a")})
			if !errors.Is(err, once.ErrUnavailable) {
				t.Errorf("%s, replaced: %t: a repeat: %v", name, replaced, err)
			}
			if err := s.Ping(t.Context()); !errors.Is(err, once.ErrUnavailable) {
				t.Errorf("%s, replaced: %t: ping: %v", name, replaced, err)
			}
			if err := os.Rename(file+".away", file); err != nil {
				t.Fatal(err)
			}
			if r := mustAppend(t, s, callback("b"))[0]; r.Outcome != queue.Accepted {
				t.Errorf("%s, replaced: %t: put back: %s", name, replaced, r.Outcome)
			}
			if r := mustAppend(t, s, callback("a"))[0]; r.Outcome != queue.Duplicate {
				t.Errorf("%s, replaced: %t: known before: %s", name, replaced, r.Outcome)
			}
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("%s, replaced: %t: ping: %v", name, replaced, err)
			}
			checkFile(t, s)
		}
	}
}
