-- The table that ledger.yaml writes into. The primary key is the unique index that makes two rows
-- for one payment impossible; once refuses to start without one.
CREATE TABLE payments (
  payment TEXT PRIMARY KEY NOT NULL,
  status  TEXT NOT NULL,
  updated INTEGER NOT NULL,
  cents   INTEGER,
  events  INTEGER NOT NULL
);
