package oncesqlite

import (
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/oncekit/once/queue"
)

//go:embed schema.sql
var schema string

// recordSchema came with schema 3; from schema 4 on its records are found by their place.
//
//go:embed records.sql
var recordSchema string

// What brings a store of an earlier schema up to this one.
const (
	placeRecords = `DROP INDEX records_identity;
CREATE INDEX records_place ON records(substr(identity, 1, 8));`
	placeRows = `CREATE TABLE places (
  place BLOB NOT NULL,
  seq   INTEGER NOT NULL,
  PRIMARY KEY (place, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO places SELECT substr(identity, 1, 8), seq FROM rows ORDER BY identity;
INSERT INTO meta SELECT 'placed', coalesce(max(seq), 0) FROM rows;
DROP INDEX rows_identity;`
)

// schemaVersion is what PRAGMA user_version holds, and oldestSchema the one from which a store can
// be brought up to it. applicationID marks the file as ours.
const (
	schemaVersion = 4
	oldestSchema  = 2
	applicationID = 0x6f6e6365 // "once"
)

// Names in the table meta.
const (
	metaClean   = "clean"   // 1: closed in order
	metaClock   = "clock"   // the latest time that was given out at a close or a sweep
	metaIndexed = "indexed" // rows up to this seq are in the search index
	metaFence   = "fence"   // the highest fence of a record ever swept
	metaPlaced  = "placed"  // rows up to this seq are in the table of places
	metaSeq     = "seq"     // the highest seq ever swept: numbers are not used again
	metaPlan    = "plan"    // what the configuration named when the store was last used
)

// Values of the lost-attempt rules.
const (
	// defaultMaxLost is how many attempts in a row a row may lose before it is a dead letter.
	defaultMaxLost = 5
	// waitGrace bounds the time by which the limits of waits are put off after a start: while
	// nobody served the store, nothing could come of what was waited for.
	waitGrace = time.Minute
	// suspectRows is how many rows at the head of a lane are worked singly after a process was
	// lost: as many as one Step may have had in its hands.
	suspectRows = maxStep
)

// inspect looks at the file before anything of it is changed. It reports whether it is empty, and
// refuses what is not ours or can't be read.
func (s *Store) inspect() (empty bool, err error) {
	defer func() {
		if errors.Is(err, sqlite3.NOTADB) {
			err = errors.New("the file is not a database: it holds something else, or its " +
				"beginning is damaged; name another file, or put a backup in its place")
		}
	}()
	c, err := openReader(s.dsn(), initReader)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	app, err := c.int("PRAGMA application_id")
	if err != nil {
		return false, fmt.Errorf("read the file: %w", err)
	}
	version, err := c.int("PRAGMA user_version")
	if err != nil {
		return false, err
	}
	tables, err := c.int("SELECT count(*) FROM sqlite_schema")
	switch {
	case err != nil:
		return false, err
	case tables == 0 && app == 0 && s.cfg.NoCreate:
		return true, errors.New("the file is empty, and create is false")
	case tables == 0 && app == 0:
		return true, nil
	case app != applicationID:
		return false, errors.New("the file is a SQLite database of another program; name another " +
			"file")
	case version > schemaVersion:
		return false, fmt.Errorf("the file was written by a newer version (schema %d, this one "+
			"knows %d); use that version, or restore a backup", version, schemaVersion)
	case version < oldestSchema:
		return false, fmt.Errorf("the file was written before the first release (schema %d, this "+
			"version reads %d and later ones) and can't be used any more; name another file",
			version, oldestSchema)
	}
	return false, nil
}

func (s *Store) createSchema() error {
	text := fmt.Sprintf("BEGIN IMMEDIATE;\n%s\n%s\nPRAGMA application_id=%d;\n"+
		"PRAGMA user_version=%d;\nINSERT INTO meta VALUES ('%s', 1);\nCOMMIT;",
		schema, recordSchema, applicationID, schemaVersion, metaClean)
	if err := s.w.raw.Exec(text); err != nil {
		return fmt.Errorf("create the tables: %w", err)
	}
	return nil
}

// upgradeSchema adds what a store of an earlier schema lacks, all of it or nothing.
func (s *Store) upgradeSchema() error {
	version, err := s.w.int("PRAGMA user_version")
	if err != nil || version == schemaVersion {
		return err
	}
	text := recordSchema
	if version == 3 {
		text = placeRecords
	}
	text = fmt.Sprintf("BEGIN IMMEDIATE;\n%s\n%s\nPRAGMA user_version=%d;\nCOMMIT;", text,
		placeRows, schemaVersion)
	if err := s.w.raw.Exec(text); err != nil {
		return fmt.Errorf("bring schema %d up to %d: %w", version, schemaVersion, err)
	}
	s.cfg.Logger.Info("the store was brought up to this version's tables", "from", version,
		"to", schemaVersion)
	return nil
}

// recover reads what the writer keeps in memory, and takes back the rows that an earlier process
// had in its hands. Their number is bounded by the concurrency of that process.
func (s *Store) recover() error {
	last, err := s.metaInt(metaClock)
	if err != nil {
		return err
	}
	newest, err := s.w.int("SELECT received_at FROM rows ORDER BY seq DESC LIMIT 1")
	if err != nil {
		return err
	}
	claimed, err := s.w.int("SELECT claimed_at FROM records ORDER BY seq DESC LIMIT 1")
	if err != nil {
		return err
	}
	known := max(last, newest, claimed) // the latest time that the store knows of
	s.clock.start(known)
	s.began = s.clock.now()
	if now := s.clock.now(); known > 0 { // in a new store nothing waits
		s.waitsEnd = now + min(now-known, waitGrace.Microseconds())
	}
	clean, err := s.metaInt(metaClean)
	if err != nil {
		return err
	}
	if err := s.reload(); err != nil {
		return err
	}
	return s.transactNow(func(t *txn) error {
		if err := t.takeBack(true); err != nil {
			return err
		}
		if err := t.loseRecords(); err != nil {
			return err
		}
		if clean == 0 {
			for _, lane := range s.lanes {
				s.suspects[lane] = suspectRows
			}
		}
		// What a crash left of a segment of the search index that was not recorded.
		err := t.c.exec("DELETE FROM terms WHERE segment > " +
			"(SELECT coalesce(max(segment), 0) FROM segments)")
		if err != nil {
			return err
		}
		return t.setMeta(metaClean, 0)
	})
}

// reload reads what the writer keeps in memory of a file that was just opened.
func (s *Store) reload() error {
	for _, load := range []func() error{
		s.loadLanes, s.loadSeq, s.loadPlaces, s.loadCounts, s.loadLines, s.loadWaits,
		s.loadTimersErr, s.loadRecords,
	} {
		if err := load(); err != nil {
			return fmt.Errorf("read what is stored: %w", err)
		}
	}
	return nil
}

func (s *Store) loadSeq() error {
	n, err := s.w.int("SELECT max(seq) FROM rows")
	if err != nil {
		return err
	}
	swept, err := s.metaInt(metaSeq)
	s.nextSeq, s.newTerms = max(n, swept)+1, newTerms{}
	return err
}

func (s *Store) loadLanes() error {
	clear(s.lanes)
	clear(s.laneNames)
	clear(s.laneKinds)
	return s.w.query("SELECT id, name, kinds FROM lanes", func(r *stmt) error {
		s.lanes[r.text(1)], s.laneNames[r.int(0)] = r.int(0), r.text(1)
		s.laneKinds[r.int(0)] = r.int(2)
		return nil
	})
}

func (s *Store) loadWaits() (err error) {
	clear(s.tasks)
	s.waiting, err = s.w.int("SELECT count(*) FROM waits")
	return err
}

func (s *Store) loadLines() error {
	clear(s.inLine)
	return s.w.query("SELECT lane, count(*) FROM lines GROUP BY lane", func(r *stmt) error {
		s.inLine[r.int(0)] = int(r.int(1))
		return nil
	})
}

// takeBack makes the rows due that nobody holds any more. lost says that they were in somebody's
// hands: also a process that closed in order may have left a try behind that did not end in time.
func (t *txn) takeBack(lost bool) error {
	var orphans []int64
	err := t.c.query("SELECT seq FROM rows WHERE phase = 3", func(r *stmt) error {
		if seq := r.int(0); t.s.working[seq] == nil {
			orphans = append(orphans, seq)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, seq := range orphans {
		if err := t.backToDue(seq, lost, "the process that worked it ended"); err != nil {
			return err
		}
	}
	return nil
}

// backToDue makes a row due again whose worker is gone. lost says that nobody knows how far it
// came.
func (t *txn) backToDue(seq int64, lost bool, reason string) error {
	row, err := t.rowBy(bySeq, seq)
	if err != nil {
		return err
	}
	t.release(row)
	if lost {
		row.Lost++
		if err := t.addAttempt(row, "lost", reason); err != nil {
			return err
		}
	} else {
		row.Attempt = max(row.Attempt-1, 0)
	}
	err = t.c.exec("UPDATE rows SET phase = 0, lost = ?, attempt = ?, next_at = NULL WHERE seq = ?",
		row.Lost, row.Attempt, seq)
	if err != nil {
		return err
	}
	t.count(rowCounter(row.Kind, row.Source, row.State), -1)
	t.count(rowCounter(row.Kind, row.Source, queue.Pending), 1)
	t.ring(row.lane)
	return t.passLine(row)
}

func (s *Store) metaInt(name string) (int64, error) {
	return s.w.int("SELECT value FROM meta WHERE name = ?", name)
}

func (t *txn) setMeta(name string, v any) error {
	return t.c.exec("INSERT INTO meta VALUES (?1, ?2) "+
		"ON CONFLICT (name) DO UPDATE SET value = ?2", name, v)
}

// lane returns the number of a lane, giving it one if it is new.
func (t *txn) lane(name string) (int64, error) {
	s := t.s
	if id, ok := s.lanes[name]; ok {
		return id, nil
	}
	if err := t.c.exec("INSERT INTO lanes (name) VALUES (?)", name); err != nil {
		return 0, err
	}
	id := t.c.raw.LastInsertRowID()
	s.lanes[name], s.laneNames[id] = id, name
	t.onUndo(func() {
		delete(s.lanes, name)
		delete(s.laneNames, id)
	})
	return id, nil
}

// laneFor returns the number of a lane in which a row of the kind is put.
func (t *txn) laneFor(name string, k queue.Kind) (int64, error) {
	id, err := t.lane(name)
	kinds := t.s.laneKinds[id]
	if err != nil || kinds&int64(k) != 0 {
		return id, err
	}
	t.s.laneKinds[id] = kinds | int64(k)
	t.onUndo(func() { t.s.laneKinds[id] = kinds })
	return id, t.c.exec("UPDATE lanes SET kinds = ? WHERE id = ?", kinds|int64(k), id)
}
