-- What was applied, and the records of requests.
--
-- The files of this folder are plain SQL. Names are those of the first schema of the search_path:
-- to apply them by hand, make a schema, SET search_path TO it, and run each file in a transaction,
-- in the order of their numbers. Each one writes down that it was applied.

CREATE TABLE once_migrations (
	version integer PRIMARY KEY,
	name text NOT NULL,
	-- SHA-256 of the file in hex; NULL: applied by hand.
	checksum text,
	applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row for each identity. Times are this server's; spans are in microseconds. A row is looked up
-- and judged as it is, so nothing depends on how soon expired ones are removed.
CREATE TABLE records (
	-- SHA-256 over the scope and the key.
	identity bytea PRIMARY KEY,
	-- A version, and a SHA-256 of what was asked.
	fingerprint bytea NOT NULL,
	-- in_flight, completed, released or unknown.
	state text NOT NULL,
	-- A lost attempt is not run again before a person has decided.
	hold boolean NOT NULL,
	-- The token of the latest attempt, and its fence, which only rises.
	owner bytea NOT NULL,
	fence bigint NOT NULL,
	attempt bigint NOT NULL,
	-- The attempt before this one was lost.
	takeover boolean NOT NULL,
	retention bigint NOT NULL,
	claimed_at timestamptz NOT NULL,
	lease_end timestamptz NOT NULL,
	last_at timestamptz NOT NULL,
	finished_at timestamptz,
	-- NULL: never, in the state that it is in.
	expires_at timestamptz,
	-- The outcome is all that is known, but what was answered was not kept.
	tombstone boolean NOT NULL DEFAULT false,
	outcome bytea,
	-- For people. A backslash begins what is no text: \\ or \xNN.
	scope text[] NOT NULL,
	key text NOT NULL,
	request text NOT NULL,

	CONSTRAINT records_state CHECK (state IN ('in_flight', 'completed', 'released', 'unknown')),
	CONSTRAINT records_tokens CHECK (octet_length(identity) = 32 AND
		octet_length(fingerprint) = 33 AND octet_length(owner) = 16),
	CONSTRAINT records_counts CHECK (fence > 0 AND attempt > 0 AND retention > 0),
	CONSTRAINT records_outcome CHECK ((state = 'completed') = (outcome IS NOT NULL)),
	CONSTRAINT records_expiry CHECK
		((state IN ('completed', 'released')) = (expires_at IS NOT NULL)),
	CONSTRAINT records_finish CHECK ((state = 'in_flight') = (finished_at IS NULL))
);

CREATE INDEX records_expires ON records (expires_at) WHERE expires_at IS NOT NULL;
-- The few that people look for.
CREATE INDEX records_open ON records (state, identity) WHERE state <> 'completed';

INSERT INTO once_migrations (version, name) VALUES (1, 'records');
