-- What a guard remembers of its operations: one record an identity. The order of seq is that of the
-- first claims. Times are microseconds since 1970 by the store's clock; NULL or 0 means "never".

CREATE TABLE records (
  seq         INTEGER PRIMARY KEY,
  identity    BLOB NOT NULL,               -- 32 bytes
  fingerprint BLOB NOT NULL,               -- 33 bytes
  state       INTEGER NOT NULL,            -- see recordrow.go
  on_unknown  INTEGER NOT NULL,            -- 0 retry, 1 hold
  owner       BLOB NOT NULL,               -- 16 bytes: of the latest attempt
  fence       INTEGER NOT NULL,
  attempt     INTEGER NOT NULL,
  takeover    INTEGER NOT NULL DEFAULT 0,
  retention   INTEGER NOT NULL,            -- microseconds
  claimed_at  INTEGER NOT NULL,
  lease_end   INTEGER NOT NULL,
  finished_at INTEGER NOT NULL DEFAULT 0,  -- 0: nobody has said that the attempt ended
  last_at     INTEGER NOT NULL,
  expires_at  INTEGER,                     -- NULL: never, in the state that it is in
  note        TEXT,                        -- JSON
  kind        INTEGER NOT NULL DEFAULT 0,  -- of the outcome: 0 kept, 1 tombstone
  sum         INTEGER NOT NULL DEFAULT 0,  -- CRC-32C of the outcome
  outcome     BLOB                         -- the last column: no other one lies behind it
) STRICT;
-- An identity is a digest: its first bytes find it, and make an index of half the size, of which a
-- claim dirties a page. Whoever inserts has looked for the identity in the same transaction.
CREATE INDEX records_place ON records(substr(identity, 1, 8));
-- Completed ones (2) are many, the others few: they are found by their state.
CREATE INDEX records_open ON records(state, seq) WHERE state <> 2;
CREATE INDEX records_sweep ON records(expires_at) WHERE expires_at IS NOT NULL;
