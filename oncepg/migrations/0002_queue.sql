-- Callbacks, effects, tasks and resources.
--
-- Times are those of this server unless a column says otherwise. Texts compare byte for byte, and a
-- backslash begins what is no text: \\ or \xNN. Bodies are kept byte for byte.

-- The turn: whoever has this row locked decides about everything but what only arrives. Its state is
-- what has to be known before anything is decided.
CREATE TABLE queue_turn (
	one boolean PRIMARY KEY DEFAULT true,
	-- How many commits there were.
	n bigint NOT NULL DEFAULT 0,
	state json NOT NULL DEFAULT '{}',
	CONSTRAINT queue_turn_one CHECK (one)
) WITH (fillfactor = 20);

INSERT INTO queue_turn DEFAULT VALUES;

-- What the configuration named, to be compared with the next one.
CREATE TABLE queue_plan (
	one boolean PRIMARY KEY DEFAULT true,
	plan bytea NOT NULL,
	CONSTRAINT queue_plan_one CHECK (one)
);

-- The processes that use the tables.
CREATE TABLE queue_nodes (
	node text COLLATE "C" PRIMARY KEY,
	-- The number of its last commit: who got no answer to one looks here.
	n bigint NOT NULL DEFAULT 0,
	started_at timestamptz NOT NULL,
	seen_at timestamptz NOT NULL,
	-- It was closed in order.
	ended boolean NOT NULL DEFAULT false
) WITH (fillfactor = 20);

-- A callback's number is twice one of these; those of effects are odd, and come with the turn.
CREATE SEQUENCE queue_numbers;

-- Callbacks and effects, in two tables: what one is, which hardly ever changes, and how its work
-- stands, which is written again and again and is small. Each row has its part in both. The order of
-- seq is the order of acceptance. Where a text may be of any length its index has the beginning of
-- it.
CREATE TABLE queue_content (
	seq bigint NOT NULL,
	-- 1 callback, 2 effect.
	kind smallint NOT NULL,
	identity bytea NOT NULL,
	frees boolean NOT NULL DEFAULT false,
	revision integer NOT NULL DEFAULT 0,
	retention_ms bigint NOT NULL,
	keep_body_ms bigint NOT NULL,
	received_at timestamptz NOT NULL,
	expires_at timestamptz,
	source text COLLATE "C" NOT NULL,
	event text COLLATE "C" NOT NULL DEFAULT '',
	key text[] COLLATE "C",
	-- The first 8 bytes of the SHA-256 of each part of the key: what an index takes however long the
	-- texts are.
	key_marks bigint[],
	resource text COLLATE "C" NOT NULL DEFAULT '',
	cause text COLLATE "C" NOT NULL DEFAULT '',
	peer text COLLATE "C" NOT NULL DEFAULT '',
	trace_parent text COLLATE "C" NOT NULL DEFAULT '',
	trace_state text COLLATE "C" NOT NULL DEFAULT '',
	-- The token of the call that stored it: who got no answer looks here.
	made_by bytea,
	fingerprint bytea,
	meta bytea,
	body bytea,

	CONSTRAINT queue_content_pkey PRIMARY KEY (seq),
	CONSTRAINT queue_content_identity UNIQUE (identity, kind),
	CONSTRAINT queue_content_kind CHECK (kind = 1 + (seq & 1)),
	CONSTRAINT queue_content_digests CHECK (octet_length(identity) = 32)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);

-- What people look for.
CREATE INDEX queue_content_source ON queue_content (source, seq);
CREATE INDEX queue_content_event ON queue_content (left(event, 200), seq);
CREATE INDEX queue_content_key ON queue_content USING gin (key_marks);
CREATE INDEX queue_content_effects ON queue_content (seq) WHERE kind = 2;

CREATE TABLE queue_work (
	seq bigint NOT NULL,
	-- The state as the work sees it: pending is ready, delayed or in_line; running and sending are
	-- working.
	phase text COLLATE "C" NOT NULL,
	lane text COLLATE "C" NOT NULL,
	order_key text COLLATE "C" NOT NULL DEFAULT '',
	flow text COLLATE "C" NOT NULL DEFAULT '',
	task text COLLATE "C" NOT NULL DEFAULT '',
	-- It holds up the later rows of its order key, or waits behind one.
	in_line boolean NOT NULL DEFAULT false,
	blocks boolean NOT NULL DEFAULT false,
	limit_passed boolean NOT NULL DEFAULT false,
	acted boolean NOT NULL DEFAULT false,
	attempt integer NOT NULL DEFAULT 0,
	lost integer NOT NULL DEFAULT 0,
	-- Rises with each lease.
	fence bigint NOT NULL DEFAULT 0,
	duplicates bigint NOT NULL DEFAULT 0,
	conflicts bigint NOT NULL DEFAULT 0,
	-- The newest callback under the identity of this one, if that is another one.
	newest bigint,
	last_at timestamptz,
	next_at timestamptz,
	wait_until timestamptz,
	started_at timestamptz,
	finished_at timestamptz,
	-- The earliest time at which something of it may go.
	sweep_at timestamptz,
	lease_until timestamptz,
	node text COLLATE "C",
	error text COLLATE "C" NOT NULL DEFAULT '',
	dead_cause text COLLATE "C" NOT NULL DEFAULT '',
	waits text[] COLLATE "C",
	-- Of each wait what key_marks has of a part of the key.
	wait_marks bigint[],
	-- The latest tries that did not end well, and the revisions that people made of conflicts.
	attempts json,
	accepted json,

	CONSTRAINT queue_work_pkey PRIMARY KEY (seq),
	CONSTRAINT queue_work_phase CHECK (phase IN ('ready', 'delayed', 'in line', 'working', 'parked',
		'held', 'dead', 'stale', 'unrouted', 'expired', 'discarded', 'done')),
	CONSTRAINT queue_work_lease CHECK ((phase = 'working') = (lease_until IS NOT NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02,
	autovacuum_vacuum_insert_scale_factor = 0.05);

-- What is due is found in the order of acceptance. seq + 0 has no other index: a plan that goes by
-- the primary key, and leaves out what is not due, reads everything that came since.
CREATE INDEX queue_work_ready ON queue_work (lane, (seq + 0)) WHERE phase = 'ready';
-- Who has an order key in hand, and who is in its line.
CREATE INDEX queue_work_line ON queue_work (lane, left(order_key, 200), seq)
	WHERE in_line OR phase = 'working';
CREATE INDEX queue_work_next ON queue_work (next_at) WHERE next_at IS NOT NULL;
-- What is in somebody's hands: few, so that those of a node are found among them.
CREATE INDEX queue_work_lease_until ON queue_work (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX queue_work_sweep ON queue_work (sweep_at) WHERE sweep_at IS NOT NULL;
CREATE INDEX queue_work_waits ON queue_work USING gin (wait_marks) WITH (fastupdate = off)
	WHERE wait_marks IS NOT NULL;
CREATE INDEX queue_work_open ON queue_work (flow, left(task, 200), seq) WHERE task <> '' AND phase IN
	('ready', 'delayed', 'in line', 'working', 'parked', 'held', 'dead');
-- What people look for.
CREATE INDEX queue_work_task ON queue_work (left(task, 200), seq) WHERE task <> '';
CREATE INDEX queue_work_unwell ON queue_work (phase, seq) WHERE phase IN
	('parked', 'held', 'dead', 'stale', 'unrouted', 'expired', 'discarded');

-- Both parts of each.
CREATE VIEW queue_rows AS
SELECT w.seq, c.kind, c.identity, w.phase, w.lane, w.order_key, w.flow, w.task, c.source, c.event,
	c.key, w.attempt, w.lost, w.error, w.dead_cause, w.duplicates, w.conflicts, c.received_at,
	w.last_at, w.next_at, w.wait_until, w.started_at, w.finished_at, c.expires_at, w.sweep_at,
	w.lease_until, w.node, w.in_line, w.blocks, w.limit_passed, c.frees, w.acted, c.revision, w.fence,
	w.newest, c.retention_ms, c.keep_body_ms, c.key_marks, c.resource, c.cause, c.peer,
	c.trace_parent, c.trace_state, w.waits, w.wait_marks, w.attempts, w.accepted, c.made_by,
	c.fingerprint, c.meta, c.body
FROM queue_work w JOIN queue_content c ON c.seq = w.seq;

-- Arrivals after the first one; of very many the first and the last ones.
CREATE TABLE queue_arrivals (
	seq bigint NOT NULL,
	n bigint NOT NULL,
	at timestamptz NOT NULL,
	outcome text COLLATE "C" NOT NULL,
	peer text COLLATE "C" NOT NULL DEFAULT '',
	-- The public id of the revision that a person made of it.
	accepted text COLLATE "C" NOT NULL DEFAULT '',
	fingerprint bytea,
	meta bytea,
	body bytea,
	CONSTRAINT queue_arrivals_pkey PRIMARY KEY (seq, n)
);

CREATE TABLE tasks (
	flow text COLLATE "C" NOT NULL,
	task text COLLATE "C" NOT NULL,
	-- In the order of creation.
	n bigint NOT NULL,
	state text COLLATE "C" NOT NULL,
	version bigint NOT NULL,
	-- A tombstone, of which flow, task and state are left.
	gone boolean NOT NULL,
	final boolean NOT NULL,
	retention_ms bigint NOT NULL,
	created_at timestamptz NOT NULL,
	since_at timestamptz,
	updated_at timestamptz NOT NULL,
	overdue_at timestamptz,
	sweep_at timestamptz,
	fields json,
	-- The transitions that it has made, by event.
	taken json,
	CONSTRAINT tasks_pkey PRIMARY KEY (flow, task)
) WITH (fillfactor = 80);

CREATE UNIQUE INDEX tasks_n ON tasks (n);
CREATE INDEX tasks_state ON tasks (flow, state, n) WHERE NOT gone;
CREATE INDEX tasks_overdue ON tasks (overdue_at) WHERE overdue_at IS NOT NULL;
CREATE INDEX tasks_sweep ON tasks (sweep_at) WHERE sweep_at IS NOT NULL;

CREATE TABLE task_history (
	n bigint NOT NULL, -- of the task
	version bigint NOT NULL,
	at timestamptz NOT NULL,
	event text COLLATE "C" NOT NULL,
	state_before text COLLATE "C" NOT NULL,
	state_after text COLLATE "C" NOT NULL,
	note text COLLATE "C" NOT NULL,
	actor text COLLATE "C" NOT NULL,
	reason text COLLATE "C" NOT NULL,
	callback text COLLATE "C" NOT NULL,
	CONSTRAINT task_history_pkey PRIMARY KEY (n, version)
);

CREATE TABLE resources (
	kind text COLLATE "C" NOT NULL,
	name text COLLATE "C" NOT NULL,
	-- Rises with each new owner.
	fence bigint NOT NULL,
	-- The owner, or the last one while it is being freed.
	flow text COLLATE "C" NOT NULL,
	task text COLLATE "C" NOT NULL,
	-- The effects whose acknowledgement it waits for.
	freeing integer NOT NULL,
	since_at timestamptz,
	version bigint NOT NULL,
	CONSTRAINT resources_pkey PRIMARY KEY (kind, name)
) WITH (fillfactor = 50);

CREATE INDEX resources_owner ON resources (flow, task) WHERE task <> '';

-- What people did.
CREATE TABLE audit (
	n bigint PRIMARY KEY,
	target text COLLATE "C" NOT NULL,
	at timestamptz NOT NULL,
	action text COLLATE "C" NOT NULL,
	actor text COLLATE "C" NOT NULL,
	reason text COLLATE "C" NOT NULL
);

CREATE INDEX audit_target ON audit (target, n);

-- Messages that became no callback, in a ring for each source.
CREATE TABLE rejected (
	id bigint PRIMARY KEY,
	source text COLLATE "C" NOT NULL,
	ring text COLLATE "C" NOT NULL,
	at timestamptz NOT NULL,
	outcome text COLLATE "C" NOT NULL,
	reason text COLLATE "C" NOT NULL,
	peer text COLLATE "C" NOT NULL,
	size bigint NOT NULL,
	meta bytea,
	body bytea
);

CREATE INDEX rejected_ring ON rejected (source, ring, id);

-- How many there are. Each writer has a slot of its own, so that none waits for another; the sum of
-- them is what counts.
CREATE TABLE counters (
	what text COLLATE "C" NOT NULL, -- callback, effect or task
	source text COLLATE "C" NOT NULL, -- or destination, or flow
	state text COLLATE "C" NOT NULL,
	slot text COLLATE "C" NOT NULL,
	n bigint NOT NULL,
	CONSTRAINT counters_pkey PRIMARY KEY (what, source, state, slot)
) WITH (fillfactor = 50);

INSERT INTO once_migrations (version, name) VALUES (2, 'queue');
