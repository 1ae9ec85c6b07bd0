-- Everything that once stores in one SQLite file. Times are microseconds since 1970 by the store's
-- clock; NULL or 0 means "never". Raw bytes are kept as they came.

CREATE TABLE meta (
  name  TEXT PRIMARY KEY,
  value ANY
) STRICT, WITHOUT ROWID;

CREATE TABLE lanes (
  id    INTEGER PRIMARY KEY,
  name  TEXT NOT NULL UNIQUE,
  kinds INTEGER NOT NULL DEFAULT 0        -- of the rows that were put into it: 1 | 2
) STRICT;

-- Callbacks and effects. The order of seq is the order of acceptance.
CREATE TABLE rows (
  seq         INTEGER PRIMARY KEY,
  identity    BLOB NOT NULL,
  kind        INTEGER NOT NULL,            -- 1 callback, 2 effect
  lane        INTEGER NOT NULL,
  phase       INTEGER,                     -- see phase.go; NULL: done, and in no index of work
  fence       INTEGER NOT NULL DEFAULT 0,
  attempt     INTEGER NOT NULL DEFAULT 0,
  lost        INTEGER NOT NULL DEFAULT 0,
  flags       INTEGER NOT NULL DEFAULT 0,  -- see append.go, newer.go
  revision    INTEGER NOT NULL DEFAULT 0,
  duplicates  INTEGER NOT NULL DEFAULT 0,
  conflicts   INTEGER NOT NULL DEFAULT 0,
  received_at INTEGER NOT NULL,
  last_at     INTEGER,                     -- NULL: no arrival after the first
  next_at     INTEGER,                     -- next try, or limit of a wait
  wait_until  INTEGER,                     -- limit of a wait, kept while the row is woken
  started_at  INTEGER,
  finished_at INTEGER,
  expires_at  INTEGER,
  sweep_at    INTEGER,                     -- earliest time at which something of it may go
  retention   INTEGER NOT NULL,            -- microseconds
  keep_body   INTEGER NOT NULL,            -- microseconds
  source      TEXT NOT NULL,
  event       TEXT NOT NULL,
  flow        TEXT NOT NULL,
  task        TEXT NOT NULL,
  order_key   TEXT NOT NULL,
  key         TEXT,                        -- JSON list of texts
  resource    TEXT,
  cause       TEXT,
  error       TEXT,
  dead_cause  TEXT,
  waits       TEXT,                        -- JSON list of what a parked row waits for
  trace       TEXT,
  peer        TEXT,
  fingerprint BLOB,
  meta        BLOB,
  body        BLOB
) STRICT;
CREATE INDEX rows_work  ON rows(phase, lane, seq) WHERE phase IS NOT NULL;
CREATE INDEX rows_timer ON rows(next_at) WHERE next_at IS NOT NULL;
CREATE INDEX rows_sweep ON rows(sweep_at) WHERE sweep_at IS NOT NULL;

-- Where rows are found: by the first 8 bytes of their identities. Those of the newest rows, after
-- that of "placed" in meta, may be missing: they are in memory. See places.go.
CREATE TABLE places (
  place BLOB NOT NULL,
  seq   INTEGER NOT NULL,
  PRIMARY KEY (place, seq)
) STRICT, WITHOUT ROWID;

-- The order lines of keys that are held up: a row that waits for another try, and those behind it.
CREATE TABLE lines (
  lane      INTEGER NOT NULL,
  order_key TEXT NOT NULL,
  seq       INTEGER NOT NULL,
  PRIMARY KEY (lane, order_key, seq)
) STRICT, WITHOUT ROWID;

-- What parked rows wait for. A woken row stays until it is settled, so that its turn is kept.
CREATE TABLE waits (
  wait TEXT NOT NULL,
  seq  INTEGER NOT NULL,
  PRIMARY KEY (wait, seq)
) STRICT, WITHOUT ROWID;

-- Wakes that are not through: parked rows of the wait after one seq and up to another are left.
CREATE TABLE wakes (
  id    INTEGER PRIMARY KEY,               -- the least one goes on first
  wait  TEXT NOT NULL UNIQUE,
  after INTEGER NOT NULL,
  upto  INTEGER NOT NULL,
  cause INTEGER NOT NULL                   -- the row that is not woken, for it woke the others
) STRICT;

-- Arrivals after the first one; of very many the first and the last ones.
CREATE TABLE receipts (
  seq         INTEGER NOT NULL,
  n           INTEGER NOT NULL,
  at          INTEGER NOT NULL,
  outcome     TEXT NOT NULL,
  peer        TEXT,
  fingerprint BLOB,
  meta        BLOB,
  body        BLOB,
  accepted    TEXT,                        -- public id of the revision made of it
  PRIMARY KEY (seq, n)
) STRICT, WITHOUT ROWID;

-- The latest tries, but those that ended a row well: the row itself tells of its last one.
CREATE TABLE attempts (
  seq        INTEGER NOT NULL,
  n          INTEGER NOT NULL,
  attempt    INTEGER NOT NULL,
  started_at INTEGER,
  ended_at   INTEGER NOT NULL,
  result     TEXT NOT NULL,
  error      TEXT,
  PRIMARY KEY (seq, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE tasks (
  id         INTEGER PRIMARY KEY,
  flow       TEXT NOT NULL,
  task       TEXT NOT NULL,
  state      TEXT NOT NULL,
  version    INTEGER NOT NULL,
  fields     TEXT,                         -- JSON object
  taken      TEXT,                         -- JSON object: event -> count and `newer` value
  gone       INTEGER NOT NULL DEFAULT 0,   -- 1: tombstone
  final      INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  since_at   INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  overdue_at INTEGER,
  retention  INTEGER NOT NULL,
  sweep_at   INTEGER
) STRICT;
CREATE UNIQUE INDEX tasks_task ON tasks(flow, task);
CREATE INDEX tasks_overdue ON tasks(overdue_at) WHERE overdue_at IS NOT NULL;
CREATE INDEX tasks_sweep ON tasks(sweep_at) WHERE sweep_at IS NOT NULL;

CREATE TABLE history (
  id       INTEGER NOT NULL,               -- of the task
  version  INTEGER NOT NULL,
  at       INTEGER NOT NULL,
  event    TEXT NOT NULL,
  origin   TEXT NOT NULL,                  -- state before
  state    TEXT NOT NULL,                  -- state after
  note     TEXT,
  actor    TEXT,
  reason   TEXT,
  callback TEXT,
  PRIMARY KEY (id, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE resources (
  kind     TEXT NOT NULL,
  name     TEXT NOT NULL,
  fence    INTEGER NOT NULL,
  flow     TEXT NOT NULL,
  task     TEXT NOT NULL,                  -- owner; '': free
  freeing  INTEGER NOT NULL,
  since_at INTEGER NOT NULL,
  version  INTEGER NOT NULL,
  PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX resources_owner ON resources(flow, task, since_at, kind, name) WHERE task <> '';

-- Refused messages: a ring per source.
CREATE TABLE rejected (
  id      INTEGER PRIMARY KEY,
  source  TEXT NOT NULL,
  at      INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  reason  TEXT NOT NULL,
  peer    TEXT,
  meta    BLOB,
  body    BLOB,
  size    INTEGER NOT NULL
) STRICT;
CREATE INDEX rejected_source ON rejected(source, id);

-- What people did.
CREATE TABLE audit (
  id     INTEGER PRIMARY KEY,
  at     INTEGER NOT NULL,
  target TEXT NOT NULL,
  action TEXT NOT NULL,
  actor  TEXT NOT NULL,
  reason TEXT NOT NULL
) STRICT;
CREATE INDEX audit_target ON audit(target, id);

-- Kept counters, changed in the transaction that changes what they count.
CREATE TABLE counters (
  kind   INTEGER NOT NULL,                 -- 1 callbacks, 2 effects, 3 tasks
  source TEXT NOT NULL,                    -- source, destination or flow
  state  TEXT NOT NULL,
  n      INTEGER NOT NULL,
  PRIMARY KEY (kind, source, state)
) STRICT, WITHOUT ROWID;

-- The search index: which rows of a segment carry a term. Written behind the rows, segment after
-- segment, so that new blocks share pages however many rows there are.
CREATE TABLE terms (
  segment INTEGER NOT NULL,
  term    INTEGER NOT NULL,                -- the least one of the block
  block   BLOB NOT NULL,                   -- see block.go
  PRIMARY KEY (segment, term)
) STRICT, WITHOUT ROWID;

-- The segments of the search index, and the last row that each covers.
CREATE TABLE segments (
  segment INTEGER PRIMARY KEY,
  last    INTEGER NOT NULL
) STRICT;
