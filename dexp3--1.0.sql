-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION dexp3" to load this file. \quit

--
-- bandit_state: a learner as one value
--

CREATE TYPE bandit_state;

CREATE FUNCTION bandit_state_in(cstring) RETURNS bandit_state
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME';

CREATE FUNCTION bandit_state_out(bandit_state) RETURNS cstring
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME';

CREATE FUNCTION bandit_state_recv(internal) RETURNS bandit_state
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME';

CREATE FUNCTION bandit_state_send(bandit_state) RETURNS bytea
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME';

CREATE TYPE bandit_state (
	INPUT = bandit_state_in,
	OUTPUT = bandit_state_out,
	RECEIVE = bandit_state_recv,
	SEND = bandit_state_send,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = double,
	STORAGE = extended
);

COMMENT ON TYPE bandit_state IS 'a bandit learner: its algorithm and all it has learned';
COMMENT ON FUNCTION bandit_state_in(cstring) IS 'I/O';
COMMENT ON FUNCTION bandit_state_out(bandit_state) IS 'I/O';
COMMENT ON FUNCTION bandit_state_recv(internal) IS 'I/O';
COMMENT ON FUNCTION bandit_state_send(bandit_state) IS 'I/O';

CREATE FUNCTION jsonb(bandit_state) RETURNS jsonb
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'bandit_state_to_jsonb';

COMMENT ON FUNCTION jsonb(bandit_state) IS 'convert bandit_state to jsonb';

CREATE CAST (bandit_state AS jsonb) WITH FUNCTION jsonb(bandit_state);
CREATE CAST (bandit_state AS text) WITH INOUT AS ASSIGNMENT;

COMMENT ON CAST (bandit_state AS jsonb) IS 'the text form as a JSON object';
COMMENT ON CAST (bandit_state AS text) IS 'the text form';

CREATE FUNCTION bandit_state_eq(bandit_state, bandit_state) RETURNS boolean
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME';

CREATE FUNCTION bandit_state_ne(bandit_state, bandit_state) RETURNS boolean
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME';

CREATE FUNCTION bandit_state_hash(bandit_state) RETURNS integer
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME';

CREATE FUNCTION bandit_state_hash_extended(bandit_state, bigint) RETURNS bigint
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_state_eq(bandit_state, bandit_state) IS 'implementation of = operator';
COMMENT ON FUNCTION bandit_state_ne(bandit_state, bandit_state) IS 'implementation of <> operator';
COMMENT ON FUNCTION bandit_state_hash(bandit_state) IS 'hash';
COMMENT ON FUNCTION bandit_state_hash_extended(bandit_state, bigint) IS 'hash';

CREATE OPERATOR = (
	FUNCTION = bandit_state_eq,
	LEFTARG = bandit_state,
	RIGHTARG = bandit_state,
	COMMUTATOR = =,
	NEGATOR = <>,
	RESTRICT = eqsel,
	JOIN = eqjoinsel,
	HASHES
);

CREATE OPERATOR <> (
	FUNCTION = bandit_state_ne,
	LEFTARG = bandit_state,
	RIGHTARG = bandit_state,
	COMMUTATOR = <>,
	NEGATOR = =,
	RESTRICT = neqsel,
	JOIN = neqjoinsel
);

COMMENT ON OPERATOR = (bandit_state, bandit_state) IS 'equal';
COMMENT ON OPERATOR <> (bandit_state, bandit_state) IS 'not equal';

CREATE OPERATOR CLASS bandit_state_ops
	DEFAULT FOR TYPE bandit_state USING hash AS
	OPERATOR 1 =,
	FUNCTION 1 bandit_state_hash(bandit_state),
	FUNCTION 2 bandit_state_hash_extended(bandit_state, bigint);

COMMENT ON OPERATOR CLASS bandit_state_ops USING hash IS 'hash equality of bandit_state';
COMMENT ON OPERATOR FAMILY bandit_state_ops USING hash IS 'hash equality of bandit_state';

--
-- bandit_ticket: what to keep of a decision until its loss is known
--

CREATE TYPE bandit_ticket AS (
	round bigint,
	arm integer,
	probability double precision,
	gamma double precision,
	z double precision,
	m double precision
);

COMMENT ON TYPE bandit_ticket IS 'a decision of a bandit_state, to be given back with its loss';
COMMENT ON COLUMN bandit_ticket.round IS 'number of the decision, from 1';
COMMENT ON COLUMN bandit_ticket.arm IS 'the arm drawn, from 1';
COMMENT ON COLUMN bandit_ticket.probability IS 'the probability it was drawn with';
COMMENT ON COLUMN bandit_ticket.gamma IS 'implicit exploration: the loss is divided by probability + gamma';
COMMENT ON COLUMN bandit_ticket.z IS 'algorithm deda: the arm''s sum of loss estimates at the draw';
COMMENT ON COLUMN bandit_ticket.m IS 'algorithm deda: the arm''s sum of estimate times probability at the draw';

--
-- Pure functions on bandit_state
--

CREATE FUNCTION bandit_new(
	arms integer,
	algorithm text DEFAULT 'dada',
	skipping boolean DEFAULT NULL,
	patience integer DEFAULT 100,
	max_delay integer DEFAULT NULL,
	step_scale double precision DEFAULT 1
) RETURNS bandit_state
	LANGUAGE C IMMUTABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_new(integer, text, boolean, integer, integer, double precision)
	IS 'make a bandit that has not played yet';

CREATE FUNCTION bandit_draw(
	state bandit_state,
	delay integer DEFAULT NULL,
	OUT state bandit_state,
	OUT ticket bandit_ticket
) RETURNS record
	LANGUAGE C VOLATILE PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_draw(bandit_state, integer)
	IS 'draw an arm: the new state, and a ticket to give back with the loss';

CREATE FUNCTION bandit_learn(
	state bandit_state,
	ticket bandit_ticket,
	loss double precision
) RETURNS bandit_state
	LANGUAGE C IMMUTABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_learn(bandit_state, bandit_ticket, double precision)
	IS 'the state after the loss of a decision has arrived';

CREATE FUNCTION bandit_probabilities(state bandit_state) RETURNS double precision[]
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'bandit_state_probabilities';

COMMENT ON FUNCTION bandit_probabilities(bandit_state)
	IS 'the probability of each arm in the next draw';

CREATE FUNCTION bandit_step_size(state bandit_state) RETURNS double precision
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'bandit_state_step_size';

COMMENT ON FUNCTION bandit_step_size(bandit_state)
	IS 'the step size of the next draw';

--
-- Simulation
--

CREATE FUNCTION bandit_simulate(
	losses double precision[],
	delays integer[] DEFAULT NULL,
	algorithm text DEFAULT 'dada',
	skipping boolean DEFAULT NULL,
	patience integer DEFAULT 100,
	max_delay integer DEFAULT NULL,
	step_scale double precision DEFAULT 1,
	seed bigint DEFAULT NULL
) RETURNS TABLE (
	round bigint,
	arm integer,
	probability double precision,
	step_size double precision,
	loss double precision
)
	LANGUAGE C VOLATILE PARALLEL RESTRICTED
	COST 1000 ROWS 1000
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_simulate(double precision[], integer[], text, boolean, integer, integer, double precision, bigint)
	IS 'play a bandit on known losses and delays';

--
-- Managed bandits: the tables
--
-- Nothing but the extension's functions writes to them.  xact has a meaning in
-- its own cluster only, so rows that arrive from elsewhere are stamped anew by
-- triggers; those fire always, also in a restore and for a subscription.
--

CREATE SCHEMA dexp3;
COMMENT ON SCHEMA dexp3 IS 'managed bandits and their log';

CREATE SEQUENCE dexp3.bandit_id_seq AS integer;
COMMENT ON SEQUENCE dexp3.bandit_id_seq IS 'identifiers of bandits';

CREATE TABLE dexp3.bandit (
	bandit_id integer NOT NULL DEFAULT nextval('dexp3.bandit_id_seq'),
	name text COLLATE "C" NOT NULL,
	arms text[] NOT NULL,
	algorithm text NOT NULL,
	skipping boolean NOT NULL,
	patience integer NOT NULL,
	max_delay integer,
	step_scale double precision NOT NULL,
	epoch integer NOT NULL DEFAULT 1,
	created_at timestamptz NOT NULL DEFAULT now(),
	owner name NOT NULL,
	grantees name[] NOT NULL DEFAULT '{}',
	CONSTRAINT bandit_pkey PRIMARY KEY (bandit_id),
	CONSTRAINT bandit_name_key UNIQUE (name)
);

COMMENT ON TABLE dexp3.bandit IS 'managed bandits';
COMMENT ON COLUMN dexp3.bandit.bandit_id IS 'identifier, never used again';
COMMENT ON COLUMN dexp3.bandit.name IS 'name, as given to bandit_create';
COMMENT ON COLUMN dexp3.bandit.arms IS 'names of the arms';
COMMENT ON COLUMN dexp3.bandit.algorithm IS 'dada, dada-ix or deda';
COMMENT ON COLUMN dexp3.bandit.skipping IS 'whether decisions without feedback are given up after some time';
COMMENT ON COLUMN dexp3.bandit.patience IS 'with skipping: the number of rounds that are always waited for';
COMMENT ON COLUMN dexp3.bandit.max_delay IS 'deda: upper bound on all delays, in rounds';
COMMENT ON COLUMN dexp3.bandit.step_scale IS 'factor on the step size';
COMMENT ON COLUMN dexp3.bandit.epoch IS 'starts at 1, counted up by bandit_reset';
COMMENT ON COLUMN dexp3.bandit.created_at IS 'time of bandit_create';
COMMENT ON COLUMN dexp3.bandit.owner IS 'the role that made it';
COMMENT ON COLUMN dexp3.bandit.grantees IS 'other roles that may use it, see bandit_grant';

CREATE SEQUENCE dexp3.decision_id_seq;
COMMENT ON SEQUENCE dexp3.decision_id_seq IS 'identifiers of decisions';

CREATE TABLE dexp3.decision (
	decision_id bigint NOT NULL,
	bandit_id integer NOT NULL,
	epoch integer NOT NULL,
	round bigint NOT NULL,
	outstanding bigint NOT NULL,
	probability double precision NOT NULL,
	gamma double precision NOT NULL,
	decided_at timestamptz NOT NULL,
	xact xid8 NOT NULL,
	arm integer NOT NULL,
	delay integer,
	z double precision,
	m double precision,
	CONSTRAINT decision_pkey PRIMARY KEY (decision_id)
);

CREATE INDEX decision_log_idx ON dexp3.decision (bandit_id, epoch, xact);

COMMENT ON TABLE dexp3.decision IS 'one row for each bandit_choose';
COMMENT ON COLUMN dexp3.decision.decision_id IS 'identifier, to be given to bandit_feedback';
COMMENT ON COLUMN dexp3.decision.bandit_id IS 'the bandit';
COMMENT ON COLUMN dexp3.decision.epoch IS 'its epoch at that time';
COMMENT ON COLUMN dexp3.decision.round IS 'its round; sessions that choose at the same time may get the same one';
COMMENT ON COLUMN dexp3.decision.outstanding IS 'how many earlier decisions were open';
COMMENT ON COLUMN dexp3.decision.probability IS 'the probability that the arm was drawn with';
COMMENT ON COLUMN dexp3.decision.gamma IS 'implicit exploration: the loss is divided by probability + gamma';
COMMENT ON COLUMN dexp3.decision.decided_at IS 'start of the statement that chose';
COMMENT ON COLUMN dexp3.decision.xact IS 'transaction under which the row became visible in this cluster';
COMMENT ON COLUMN dexp3.decision.arm IS 'the arm drawn, from 1';
COMMENT ON COLUMN dexp3.decision.delay IS 'deda: the delay as announced';
COMMENT ON COLUMN dexp3.decision.z IS 'deda: the arm''s sum of loss estimates at that time, null for 0';
COMMENT ON COLUMN dexp3.decision.m IS 'deda: the arm''s sum of estimate times probability at that time, null for 0';

CREATE TABLE dexp3.feedback (
	decision_id bigint NOT NULL,
	bandit_id integer NOT NULL,
	epoch integer NOT NULL,
	round bigint NOT NULL,
	delay bigint NOT NULL,
	received_at timestamptz NOT NULL,
	xact xid8 NOT NULL,
	loss double precision,
	estimate double precision,
	arm integer,
	expected double precision,
	lbck double precision,
	CONSTRAINT feedback_pkey PRIMARY KEY (decision_id)
);

CREATE INDEX feedback_log_idx ON dexp3.feedback (bandit_id, epoch, xact);

COMMENT ON TABLE dexp3.feedback IS 'one row for each decision that was settled or skipped';
COMMENT ON COLUMN dexp3.feedback.decision_id IS 'the decision';
COMMENT ON COLUMN dexp3.feedback.bandit_id IS 'its bandit';
COMMENT ON COLUMN dexp3.feedback.epoch IS 'its epoch';
COMMENT ON COLUMN dexp3.feedback.round IS 'the newest round when the feedback arrived';
COMMENT ON COLUMN dexp3.feedback.delay IS 'by how many rounds that was after the decision';
COMMENT ON COLUMN dexp3.feedback.received_at IS 'start of the statement that brought it';
COMMENT ON COLUMN dexp3.feedback.xact IS 'transaction under which the row became visible in this cluster';
COMMENT ON COLUMN dexp3.feedback.loss IS 'the loss; null if the decision was skipped';
COMMENT ON COLUMN dexp3.feedback.estimate IS 'the loss estimate: loss / (probability + gamma)';
COMMENT ON COLUMN dexp3.feedback.arm IS 'the arm, from 1; null if the decision was skipped';
COMMENT ON COLUMN dexp3.feedback.expected IS 'deda: estimate times probability, null for 0';
COMMENT ON COLUMN dexp3.feedback.lbck IS 'deda: what it adds to Lbck, null for 0';

CREATE TABLE dexp3.checkpoint (
	bandit_id integer NOT NULL,
	epoch integer NOT NULL,
	events bigint NOT NULL,
	written_at timestamptz NOT NULL,
	state bytea NOT NULL
);

-- not worth the time to compress
ALTER TABLE dexp3.checkpoint ALTER COLUMN state SET STORAGE EXTERNAL;

CREATE INDEX checkpoint_idx ON dexp3.checkpoint (bandit_id, epoch, events);

COMMENT ON TABLE dexp3.checkpoint IS 'states of bandits, to start from; can be removed at any time';
COMMENT ON COLUMN dexp3.checkpoint.bandit_id IS 'the bandit';
COMMENT ON COLUMN dexp3.checkpoint.epoch IS 'its epoch';
COMMENT ON COLUMN dexp3.checkpoint.events IS 'how many decisions and feedbacks it covers';
COMMENT ON COLUMN dexp3.checkpoint.written_at IS 'when it was written';
COMMENT ON COLUMN dexp3.checkpoint.state IS 'the state, in an internal form';

CREATE FUNCTION dexp3.bandit_changed() RETURNS trigger
	LANGUAGE C AS 'MODULE_PATHNAME';
CREATE FUNCTION dexp3.log_arrival() RETURNS trigger
	LANGUAGE C AS 'MODULE_PATHNAME', 'bandit_log_arrival';
CREATE FUNCTION dexp3.log_truncated() RETURNS trigger
	LANGUAGE C AS 'MODULE_PATHNAME', 'bandit_log_truncated';
CREATE FUNCTION dexp3.checkpoint_arrival() RETURNS trigger
	LANGUAGE C AS 'MODULE_PATHNAME', 'bandit_checkpoint_arrival';

COMMENT ON FUNCTION dexp3.bandit_changed() IS 'makes all sessions read dexp3.bandit again';
COMMENT ON FUNCTION dexp3.log_arrival() IS 'stamps log rows that come from elsewhere';
COMMENT ON FUNCTION dexp3.log_truncated() IS 'removes checkpoints that are not true any more';
COMMENT ON FUNCTION dexp3.checkpoint_arrival() IS 'drops checkpoints that come from elsewhere';

REVOKE ALL ON FUNCTION dexp3.bandit_changed() FROM PUBLIC;
REVOKE ALL ON FUNCTION dexp3.log_arrival() FROM PUBLIC;
REVOKE ALL ON FUNCTION dexp3.log_truncated() FROM PUBLIC;
REVOKE ALL ON FUNCTION dexp3.checkpoint_arrival() FROM PUBLIC;

CREATE TRIGGER bandit_changed AFTER INSERT OR UPDATE OR DELETE ON dexp3.bandit
	FOR EACH ROW EXECUTE FUNCTION dexp3.bandit_changed();
CREATE TRIGGER log_arrival BEFORE INSERT ON dexp3.decision
	FOR EACH ROW EXECUTE FUNCTION dexp3.log_arrival();
CREATE TRIGGER log_arrival BEFORE INSERT ON dexp3.feedback
	FOR EACH ROW EXECUTE FUNCTION dexp3.log_arrival();
CREATE TRIGGER log_truncated AFTER TRUNCATE ON dexp3.decision
	FOR EACH STATEMENT EXECUTE FUNCTION dexp3.log_truncated();
CREATE TRIGGER log_truncated AFTER TRUNCATE ON dexp3.feedback
	FOR EACH STATEMENT EXECUTE FUNCTION dexp3.log_truncated();
CREATE TRIGGER checkpoint_arrival BEFORE INSERT ON dexp3.checkpoint
	FOR EACH ROW EXECUTE FUNCTION dexp3.checkpoint_arrival();

ALTER TABLE dexp3.bandit ENABLE ALWAYS TRIGGER bandit_changed;
ALTER TABLE dexp3.decision ENABLE ALWAYS TRIGGER log_arrival;
ALTER TABLE dexp3.decision ENABLE ALWAYS TRIGGER log_truncated;
ALTER TABLE dexp3.feedback ENABLE ALWAYS TRIGGER log_arrival;
ALTER TABLE dexp3.feedback ENABLE ALWAYS TRIGGER log_truncated;
ALTER TABLE dexp3.checkpoint ENABLE ALWAYS TRIGGER checkpoint_arrival;

-- With the rights of whoever asks, so that row security applies.
CREATE VIEW dexp3.pending WITH (security_invoker = true) AS
	SELECT d.decision_id, b.name AS bandit, d.round, b.arms[d.arm] AS arm,
		d.probability, d.decided_at
	FROM dexp3.decision d JOIN dexp3.bandit b USING (bandit_id, epoch)
	WHERE NOT EXISTS (SELECT FROM dexp3.feedback f WHERE f.decision_id = d.decision_id);

COMMENT ON VIEW dexp3.pending IS 'decisions whose feedback is waited for';

-- The checkpoints are left out: they can be made again.
SELECT pg_catalog.pg_extension_config_dump('dexp3.bandit', '');
SELECT pg_catalog.pg_extension_config_dump('dexp3.bandit_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('dexp3.decision', '');
SELECT pg_catalog.pg_extension_config_dump('dexp3.decision_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('dexp3.feedback', '');

-- Everybody may read the rows of bandits that are for them.  The tables belong
-- to the role that installs the extension, so that it can dump them.

CREATE FUNCTION dexp3.may_use(bandit_id integer) RETURNS boolean
	LANGUAGE C STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'bandit_may_use';

COMMENT ON FUNCTION dexp3.may_use(integer) IS 'whether the current user may use a bandit';

ALTER TABLE dexp3.bandit ENABLE ROW LEVEL SECURITY;
ALTER TABLE dexp3.decision ENABLE ROW LEVEL SECURITY;
ALTER TABLE dexp3.feedback ENABLE ROW LEVEL SECURITY;
CREATE POLICY may_use ON dexp3.bandit FOR SELECT USING (dexp3.may_use(bandit_id));
CREATE POLICY may_use ON dexp3.decision FOR SELECT USING (dexp3.may_use(bandit_id));
CREATE POLICY may_use ON dexp3.feedback FOR SELECT USING (dexp3.may_use(bandit_id));
COMMENT ON POLICY may_use ON dexp3.bandit IS 'only bandits that one may use';
COMMENT ON POLICY may_use ON dexp3.decision IS 'only bandits that one may use';
COMMENT ON POLICY may_use ON dexp3.feedback IS 'only bandits that one may use';

GRANT USAGE ON SCHEMA dexp3 TO PUBLIC;
GRANT SELECT ON dexp3.bandit, dexp3.decision, dexp3.feedback, dexp3.pending TO PUBLIC;

ALTER SCHEMA dexp3 OWNER TO @extowner@;
ALTER TABLE dexp3.bandit OWNER TO @extowner@;
ALTER TABLE dexp3.decision OWNER TO @extowner@;
ALTER TABLE dexp3.feedback OWNER TO @extowner@;
ALTER TABLE dexp3.checkpoint OWNER TO @extowner@;
ALTER SEQUENCE dexp3.bandit_id_seq OWNER TO @extowner@;
ALTER SEQUENCE dexp3.decision_id_seq OWNER TO @extowner@;
ALTER VIEW dexp3.pending OWNER TO @extowner@;

--
-- Managed bandits: the functions
--
-- Those that take part in the log are not strict, since a silent null would lose
-- a decision or a loss, and unsafe in parallel queries.
--

CREATE FUNCTION bandit_create(
	name text,
	arms text[],
	algorithm text DEFAULT 'dada',
	skipping boolean DEFAULT NULL,
	patience integer DEFAULT 100,
	max_delay integer DEFAULT NULL,
	step_scale double precision DEFAULT 1
) RETURNS integer
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_create(text, text[], text, boolean, integer, integer, double precision)
	IS 'make a managed bandit';

CREATE FUNCTION bandit_drop(name text) RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_drop(text) IS 'remove a managed bandit and its log';

CREATE FUNCTION bandit_reset(name text) RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_reset(text) IS 'let a managed bandit forget all it has learned';

CREATE FUNCTION bandit_grant(bandit text, role name) RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_grant(text, name)
	IS 'let another role, or public, choose, feed and read a managed bandit';

CREATE FUNCTION bandit_revoke(bandit text, role name) RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_revoke(text, name) IS 'take back what bandit_grant has granted';

CREATE FUNCTION bandit_choose(
	bandit text,
	delay integer DEFAULT NULL,
	OUT decision_id bigint,
	OUT arm text,
	OUT probability double precision
) RETURNS record
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_choose(text, integer) IS 'choose an arm of a managed bandit';

CREATE FUNCTION bandit_choose_each(
	bandit text,
	row_value anyelement,
	delay integer DEFAULT NULL,
	OUT decision_id bigint,
	OUT arm text,
	OUT probability double precision
) RETURNS record
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_choose_each(text, anyelement, integer)
	IS 'bandit_choose for each row that the value comes from';

CREATE FUNCTION bandit_feedback(decision_id bigint, loss double precision) RETURNS text
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_feedback(bigint, double precision)
	IS 'settle a decision with its loss: applied, duplicate or skipped';

CREATE FUNCTION bandit_reward(decision_id bigint, reward double precision) RETURNS text
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_reward(bigint, double precision)
	IS 'settle a decision with a reward, which is 1 - loss';

CREATE FUNCTION bandit_feedback_trigger() RETURNS trigger
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_feedback_trigger()
	IS 'trigger that settles decisions with losses from the rows of a table';

CREATE FUNCTION bandit_probabilities(
	bandit text
) RETURNS TABLE (arm text, probability double precision)
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_probabilities(text)
	IS 'the probability of each arm in the next bandit_choose';

CREATE FUNCTION bandit_current_state(bandit text) RETURNS bandit_state
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_current_state(text)
	IS 'the state of a managed bandit as a value';
