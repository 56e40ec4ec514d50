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
	bandit_id integer NOT NULL,
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
	feedback_window interval,
	missing_loss double precision NOT NULL DEFAULT 1,
	history interval,
	sticky boolean NOT NULL DEFAULT false,
	loss_range double precision[] NOT NULL DEFAULT '{0,1}',
	clamp boolean NOT NULL DEFAULT false,
	retired text[] NOT NULL DEFAULT '{}',
	head_start double precision[] NOT NULL DEFAULT '{}',
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
COMMENT ON COLUMN dexp3.bandit.feedback_window IS 'how long feedback is waited for; null: without end';
COMMENT ON COLUMN dexp3.bandit.missing_loss IS 'the loss of a decision whose feedback does not come in time';
COMMENT ON COLUMN dexp3.bandit.history IS 'how long settled decisions are kept in the log; null: for ever';
COMMENT ON COLUMN dexp3.bandit.sticky IS 'whether a subject gets its open decision again instead of a new one';
COMMENT ON COLUMN dexp3.bandit.loss_range IS 'the smallest and the largest loss';
COMMENT ON COLUMN dexp3.bandit.clamp IS 'whether losses beyond the range are moved to its ends, not refused';
COMMENT ON COLUMN dexp3.bandit.retired IS 'arms that are not drawn any more';
COMMENT ON COLUMN dexp3.bandit.head_start IS 'the sum of loss estimates that each arm began with, 0 where it is missing';

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
	subject text COLLATE "C",
	CONSTRAINT decision_pkey PRIMARY KEY (decision_id)
);

CREATE INDEX decision_log_idx ON dexp3.decision (bandit_id, epoch, xact);
CREATE INDEX decision_subject_idx ON dexp3.decision (bandit_id, subject, decision_id)
	WHERE subject IS NOT NULL;

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
COMMENT ON COLUMN dexp3.decision.subject IS 'who it was for, as given to bandit_choose';

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
	expired boolean,
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
COMMENT ON COLUMN dexp3.feedback.estimate IS 'the loss estimate: the loss, as a share of its range, / (probability + gamma)';
COMMENT ON COLUMN dexp3.feedback.arm IS 'the arm, from 1; null if the decision was skipped';
COMMENT ON COLUMN dexp3.feedback.expected IS 'deda: estimate times probability, null for 0';
COMMENT ON COLUMN dexp3.feedback.lbck IS 'deda: what it adds to Lbck, null for 0';
COMMENT ON COLUMN dexp3.feedback.expired IS 'true if the feedback did not come in time';

CREATE TABLE dexp3.trimmed (
	first_decision bigint NOT NULL,
	bandit_id integer NOT NULL,
	epoch integer NOT NULL,
	xact xid8 NOT NULL,
	newest_xact xid8 NOT NULL,
	decisions int8multirange NOT NULL,
	skipped int8multirange NOT NULL,
	expired int8multirange NOT NULL,
	rounds bigint NOT NULL,
	skipped_rounds bigint NOT NULL,
	expired_rounds bigint NOT NULL,
	cumulative_delay double precision NOT NULL,
	longest_delay bigint NOT NULL,
	last_decision timestamptz NOT NULL,
	last_feedback timestamptz,
	lbck double precision NOT NULL,
	z double precision[] NOT NULL,
	m double precision[] NOT NULL,
	arm_decisions bigint[] NOT NULL,
	arm_settled bigint[] NOT NULL,
	arm_loss double precision[] NOT NULL,
	arm_inverse double precision[] NOT NULL,
	arm_inverse2 double precision[] NOT NULL,
	arm_weighted double precision[] NOT NULL,
	arm_weighted_inverse double precision[] NOT NULL,
	arm_weighted2 double precision[] NOT NULL,
	CONSTRAINT trimmed_pkey PRIMARY KEY (first_decision)
);

CREATE INDEX trimmed_log_idx ON dexp3.trimmed (bandit_id, epoch, xact);
CREATE INDEX trimmed_decisions_idx ON dexp3.trimmed USING gist (decisions);

COMMENT ON TABLE dexp3.trimmed IS 'sums of settled decisions that were removed from the log';
COMMENT ON COLUMN dexp3.trimmed.first_decision IS 'the first of them';
COMMENT ON COLUMN dexp3.trimmed.bandit_id IS 'their bandit';
COMMENT ON COLUMN dexp3.trimmed.epoch IS 'their epoch';
COMMENT ON COLUMN dexp3.trimmed.xact IS 'transaction that removed them, or brought this row here';
COMMENT ON COLUMN dexp3.trimmed.newest_xact IS 'no transaction after this one has written them';
COMMENT ON COLUMN dexp3.trimmed.decisions IS 'which decisions they were';
COMMENT ON COLUMN dexp3.trimmed.skipped IS 'which of them were skipped';
COMMENT ON COLUMN dexp3.trimmed.expired IS 'for which of them the feedback did not come in time';
COMMENT ON COLUMN dexp3.trimmed.rounds IS 'their number';
COMMENT ON COLUMN dexp3.trimmed.skipped_rounds IS 'how many were skipped';
COMMENT ON COLUMN dexp3.trimmed.expired_rounds IS 'how many expired';
COMMENT ON COLUMN dexp3.trimmed.cumulative_delay IS 'sum of outstanding';
COMMENT ON COLUMN dexp3.trimmed.longest_delay IS 'the longest delay, in rounds';
COMMENT ON COLUMN dexp3.trimmed.last_decision IS 'when the last of them was made';
COMMENT ON COLUMN dexp3.trimmed.last_feedback IS 'when the last feedback for one of them came';
COMMENT ON COLUMN dexp3.trimmed.lbck IS 'sum of lbck';
COMMENT ON COLUMN dexp3.trimmed.z IS 'for each arm: sum of estimate';
COMMENT ON COLUMN dexp3.trimmed.m IS 'for each arm: sum of expected';
COMMENT ON COLUMN dexp3.trimmed.arm_decisions IS 'for each arm: number of decisions';
COMMENT ON COLUMN dexp3.trimmed.arm_settled IS 'for each arm: number of those with a loss; the following are sums over them';
COMMENT ON COLUMN dexp3.trimmed.arm_loss IS 'for each arm: sum of loss';
COMMENT ON COLUMN dexp3.trimmed.arm_inverse IS 'for each arm: sum of 1 / probability';
COMMENT ON COLUMN dexp3.trimmed.arm_inverse2 IS 'for each arm: sum of 1 / probability^2';
COMMENT ON COLUMN dexp3.trimmed.arm_weighted IS 'for each arm: sum of loss / probability';
COMMENT ON COLUMN dexp3.trimmed.arm_weighted_inverse IS 'for each arm: sum of loss / probability^2';
COMMENT ON COLUMN dexp3.trimmed.arm_weighted2 IS 'for each arm: sum of (loss / probability)^2';

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
CREATE TRIGGER log_arrival BEFORE INSERT ON dexp3.trimmed
	FOR EACH ROW EXECUTE FUNCTION dexp3.log_arrival();
CREATE TRIGGER log_truncated AFTER TRUNCATE ON dexp3.trimmed
	FOR EACH STATEMENT EXECUTE FUNCTION dexp3.log_truncated();
CREATE TRIGGER checkpoint_arrival BEFORE INSERT ON dexp3.checkpoint
	FOR EACH ROW EXECUTE FUNCTION dexp3.checkpoint_arrival();

ALTER TABLE dexp3.bandit ENABLE ALWAYS TRIGGER bandit_changed;
ALTER TABLE dexp3.decision ENABLE ALWAYS TRIGGER log_arrival;
ALTER TABLE dexp3.decision ENABLE ALWAYS TRIGGER log_truncated;
ALTER TABLE dexp3.feedback ENABLE ALWAYS TRIGGER log_arrival;
ALTER TABLE dexp3.feedback ENABLE ALWAYS TRIGGER log_truncated;
ALTER TABLE dexp3.trimmed ENABLE ALWAYS TRIGGER log_arrival;
ALTER TABLE dexp3.trimmed ENABLE ALWAYS TRIGGER log_truncated;
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
SELECT pg_catalog.pg_extension_config_dump('dexp3.trimmed', '');

-- Everybody may read the rows of bandits that are for them.  The tables belong
-- to the role that installs the extension, so that it can dump them.

CREATE FUNCTION dexp3.may_use(bandit_id integer) RETURNS boolean
	LANGUAGE C STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'bandit_may_use';

COMMENT ON FUNCTION dexp3.may_use(integer) IS 'whether the current user may use a bandit';

ALTER TABLE dexp3.bandit ENABLE ROW LEVEL SECURITY;
ALTER TABLE dexp3.decision ENABLE ROW LEVEL SECURITY;
ALTER TABLE dexp3.feedback ENABLE ROW LEVEL SECURITY;
ALTER TABLE dexp3.trimmed ENABLE ROW LEVEL SECURITY;
CREATE POLICY may_use ON dexp3.bandit FOR SELECT USING (dexp3.may_use(bandit_id));
CREATE POLICY may_use ON dexp3.decision FOR SELECT USING (dexp3.may_use(bandit_id));
CREATE POLICY may_use ON dexp3.feedback FOR SELECT USING (dexp3.may_use(bandit_id));
CREATE POLICY may_use ON dexp3.trimmed FOR SELECT USING (dexp3.may_use(bandit_id));
COMMENT ON POLICY may_use ON dexp3.bandit IS 'only bandits that one may use';
COMMENT ON POLICY may_use ON dexp3.decision IS 'only bandits that one may use';
COMMENT ON POLICY may_use ON dexp3.feedback IS 'only bandits that one may use';
COMMENT ON POLICY may_use ON dexp3.trimmed IS 'only bandits that one may use';

ALTER SCHEMA dexp3 OWNER TO @extowner@;
ALTER TABLE dexp3.bandit OWNER TO @extowner@;
ALTER TABLE dexp3.decision OWNER TO @extowner@;
ALTER TABLE dexp3.feedback OWNER TO @extowner@;
ALTER TABLE dexp3.trimmed OWNER TO @extowner@;
ALTER TABLE dexp3.checkpoint OWNER TO @extowner@;
ALTER SEQUENCE dexp3.bandit_id_seq OWNER TO @extowner@;
ALTER SEQUENCE dexp3.decision_id_seq OWNER TO @extowner@;
ALTER VIEW dexp3.pending OWNER TO @extowner@;

-- Only now, so that a dump does not take the rights for changed.
GRANT USAGE ON SCHEMA dexp3 TO PUBLIC;
GRANT SELECT ON dexp3.bandit, dexp3.decision, dexp3.feedback, dexp3.trimmed, dexp3.pending TO PUBLIC;

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
	step_scale double precision DEFAULT 1,
	feedback_window interval DEFAULT NULL,
	missing_loss double precision DEFAULT NULL,
	history interval DEFAULT NULL,
	sticky boolean DEFAULT false,
	loss_range double precision[] DEFAULT '{0,1}',
	clamp boolean DEFAULT false
) RETURNS integer
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_create(text, text[], text, boolean, integer, integer, double precision,
	interval, double precision, interval, boolean, double precision[], boolean)
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
	allowed text[] DEFAULT NULL,
	subject text DEFAULT NULL,
	OUT decision_id bigint,
	OUT arm text,
	OUT probability double precision
) RETURNS record
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_choose(text, integer, text[], text) IS 'choose an arm of a managed bandit';

CREATE FUNCTION bandit_choose_each(
	bandit text,
	row_value anyelement,
	delay integer DEFAULT NULL,
	allowed text[] DEFAULT NULL,
	subject text DEFAULT NULL,
	OUT decision_id bigint,
	OUT arm text,
	OUT probability double precision
) RETURNS record
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_choose_each(text, anyelement, integer, text[], text)
	IS 'bandit_choose for each row that the value comes from';

CREATE FUNCTION bandit_feedback(decision_id bigint, loss double precision) RETURNS text
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_feedback(bigint, double precision)
	IS 'settle a decision with its loss: applied, duplicate, skipped or expired';

CREATE FUNCTION bandit_reward(decision_id bigint, reward double precision) RETURNS text
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_reward(bigint, double precision)
	IS 'settle a decision with a reward: the loss is as far from the other end of its range';

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

--
-- Managed bandits: arms over time, many at once, subjects, upkeep
--

CREATE FUNCTION bandit_add_arm(bandit text, arm text) RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_add_arm(text, text) IS 'give a managed bandit another arm';

CREATE FUNCTION bandit_retire_arm(bandit text, arm text) RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_retire_arm(text, text) IS 'let an arm of a managed bandit not be drawn any more';

CREATE FUNCTION bandit_choose_many(
	bandit text,
	n integer,
	delay integer DEFAULT NULL,
	allowed text[] DEFAULT NULL,
	OUT decision_id bigint,
	OUT arm text,
	OUT probability double precision
) RETURNS SETOF record
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	COST 1000 ROWS 1000
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_choose_many(text, integer, integer, text[])
	IS 'choose arms of a managed bandit for several consecutive rounds';

CREATE FUNCTION bandit_feedback(bandit text, subject text, loss double precision) RETURNS text
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'bandit_feedback_by_subject';

COMMENT ON FUNCTION bandit_feedback(text, text, double precision)
	IS 'settle the newest open decision of a subject with its loss';

CREATE FUNCTION bandit_reward(bandit text, subject text, reward double precision) RETURNS text
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'bandit_reward_by_subject';

COMMENT ON FUNCTION bandit_reward(text, text, double precision)
	IS 'settle the newest open decision of a subject with a reward';

CREATE FUNCTION bandit_expire(bandit text DEFAULT NULL) RETURNS bigint
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_expire(text)
	IS 'settle all decisions whose feedback is missing, of one managed bandit or of all';

CREATE FUNCTION bandit_trim(bandit text DEFAULT NULL) RETURNS bigint
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_trim(text)
	IS 'remove old rows from the log, of one managed bandit or of all';

--
-- Managed bandits: reports
--
-- They read the tables with the rights of whoever asks; a first statement makes
-- sure that there is an error, not an empty report, if the bandit is not for them.
-- What other people may have put into the extension's schema shall not get in.
--

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION dexp3.bandit_id_of(bandit text) RETURNS integer
	LANGUAGE C STABLE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'bandit_checked_id';

COMMENT ON FUNCTION dexp3.bandit_id_of(text)
	IS 'the identifier of a bandit, which must exist and be for the current user';

CREATE FUNCTION dexp3.bound(
	state @extschema@.bandit_state,
	skipped bigint,
	longest_delay bigint,
	delta double precision
) RETURNS double precision
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'bandit_bound';

COMMENT ON FUNCTION dexp3.bound(@extschema@.bandit_state, bigint, bigint, double precision)
	IS 'the bound on the regret of a bandit that the paper proves';

CREATE FUNCTION dexp3.checked_policy(policy double precision[], arms integer) RETURNS double precision[]
	LANGUAGE C IMMUTABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'bandit_checked_policy';

COMMENT ON FUNCTION dexp3.checked_policy(double precision[], integer)
	IS 'a distribution over so many arms, or an error';

-- Settled decisions count if they have a loss, which those that were skipped have
-- not.  p and l: the probability and the loss of each.
CREATE VIEW dexp3.arm_totals WITH (security_invoker = true) AS
	SELECT bandit_id, epoch, arm,
		sum(decisions)::bigint AS decisions, sum(settled)::bigint AS settled, sum(open)::bigint AS open,
		sum(loss) AS loss, sum(inverse) AS inverse, sum(inverse2) AS inverse2, sum(weighted) AS weighted,
		sum(weighted_inverse) AS weighted_inverse, sum(weighted2) AS weighted2
	FROM (
		SELECT d.bandit_id, d.epoch, d.arm,
			count(*) AS decisions, count(f.loss) AS settled, count(*) - count(f.decision_id) AS open,
			coalesce(sum(f.loss), 0) AS loss,
			coalesce(sum(1 / d.probability) FILTER (WHERE f.loss IS NOT NULL), 0) AS inverse,
			coalesce(sum(1 / d.probability / d.probability) FILTER (WHERE f.loss IS NOT NULL), 0) AS inverse2,
			coalesce(sum(f.loss / d.probability), 0) AS weighted,
			coalesce(sum(f.loss / d.probability / d.probability), 0) AS weighted_inverse,
			coalesce(sum(CASE WHEN abs(f.loss) > 1e-150 THEN f.loss / d.probability * f.loss / d.probability END), 0)
				AS weighted2
		FROM dexp3.decision d LEFT JOIN dexp3.feedback f ON f.decision_id = d.decision_id
		GROUP BY d.bandit_id, d.epoch, d.arm
		UNION ALL
		SELECT t.bandit_id, t.epoch, a.arm::integer,
			a.decisions, a.settled, 0, a.loss, a.inverse, a.inverse2, a.weighted, a.weighted_inverse, a.weighted2
		FROM dexp3.trimmed t CROSS JOIN LATERAL unnest(t.arm_decisions, t.arm_settled, t.arm_loss, t.arm_inverse,
			t.arm_inverse2, t.arm_weighted, t.arm_weighted_inverse, t.arm_weighted2) WITH ORDINALITY
			AS a (decisions, settled, loss, inverse, inverse2, weighted, weighted_inverse, weighted2, arm)
	) s
	GROUP BY bandit_id, epoch, arm;

COMMENT ON VIEW dexp3.arm_totals IS 'sums over the decisions of each arm, those that were trimmed included';

CREATE FUNCTION @extschema@.bandit_report(bandit text) RETURNS TABLE (
	arm text,
	decisions bigint,
	settled bigint,
	open bigint,
	mean_loss double precision,
	estimate double precision,
	estimate_low double precision,
	estimate_high double precision,
	probability double precision
)
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT dexp3.bandit_id_of(bandit_report.bandit);
	SELECT a.name, coalesce(t.decisions, 0), coalesce(t.settled, 0), coalesce(t.open, 0),
		t.loss / nullif(t.settled, 0), e.estimate,
		greatest(e.estimate - 1.959964 * e.error, b.loss_range[1]),
		least(e.estimate + 1.959964 * e.error, b.loss_range[2]),
		coalesce(p.probability, 0)
	FROM dexp3.bandit b
		CROSS JOIN LATERAL unnest(b.arms) WITH ORDINALITY AS a (name, arm)
		LEFT JOIN dexp3.arm_totals t ON t.bandit_id = b.bandit_id AND t.epoch = b.epoch AND t.arm = a.arm
		CROSS JOIN LATERAL (
			SELECT r AS estimate, sqrt(greatest(t.weighted2 - 2 * r * t.weighted_inverse + r * r * t.inverse2, 0)
				* t.settled / nullif(t.settled - 1, 0)) / nullif(t.inverse, 0) AS error
			FROM (SELECT CASE WHEN abs(t.weighted) > 1e-150 THEN t.weighted ELSE 0 END / nullif(t.inverse, 0) AS r) s) e
		LEFT JOIN @extschema@.bandit_probabilities(bandit_report.bandit) p ON p.arm = a.name
	WHERE b.bandit_id = dexp3.bandit_id_of(bandit_report.bandit)
	ORDER BY a.arm;
END;

COMMENT ON FUNCTION @extschema@.bandit_report(text) IS 'what is known about each arm of a managed bandit';

CREATE FUNCTION @extschema@.bandit_evaluate(bandit text, policy double precision[]) RETURNS TABLE (
	estimator text,
	loss double precision,
	loss_low double precision,
	loss_high double precision
)
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT dexp3.checked_policy(bandit_evaluate.policy, cardinality(b.arms))
	FROM dexp3.bandit_id_of(bandit_evaluate.bandit) id LEFT JOIN dexp3.bandit b ON b.bandit_id = id;
	WITH share AS (
		SELECT p.weight, t.*
		FROM dexp3.bandit b
			CROSS JOIN LATERAL unnest(bandit_evaluate.policy) WITH ORDINALITY AS p (weight, number)
			JOIN dexp3.arm_totals t ON t.bandit_id = b.bandit_id AND t.epoch = b.epoch AND t.arm = p.number
		WHERE b.bandit_id = dexp3.bandit_id_of(bandit_evaluate.bandit)),
	total AS (
		SELECT nullif(sum(settled), 0)::double precision AS n,
			sum(weight * weighted) AS weighted, nullif(sum(weight * inverse), 0) AS inverse,
			sum(weight * weight * weighted2) AS weighted2,
			sum(weight * weight * weighted_inverse) AS weighted_inverse,
			sum(weight * weight * inverse2) AS inverse2
		FROM share)
	SELECT 'ips', m, m - 1.959964 * error, m + 1.959964 * error
	FROM total, LATERAL (SELECT weighted / n AS m) s,
		LATERAL (SELECT sqrt(greatest(weighted2 / n - m * m, 0) / nullif(n - 1, 0)) AS error) e
	UNION ALL
	SELECT 'self-normalised', r, r - 1.959964 * error, r + 1.959964 * error
	FROM total, LATERAL (SELECT weighted / inverse AS r) s,
		LATERAL (SELECT sqrt(greatest(weighted2 - 2 * r * weighted_inverse + r * r * inverse2, 0)
			* n / nullif(n - 1, 0)) / inverse AS error) e;
END;

COMMENT ON FUNCTION @extschema@.bandit_evaluate(text, double precision[])
	IS 'what another distribution over the arms of a managed bandit would have lost on average';

CREATE FUNCTION @extschema@.bandit_bound(bandit text, delta double precision DEFAULT 0.05) RETURNS double precision
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT dexp3.bandit_id_of(bandit_bound.bandit);
	SELECT dexp3.bound(s.state, f.skipped + t.skipped,
		greatest(f.longest, t.longest, (s.state::jsonb ->> 'round')::bigint - o.oldest, 0), bandit_bound.delta)
		* (b.loss_range[2] - b.loss_range[1])
	FROM dexp3.bandit b
		CROSS JOIN LATERAL (SELECT @extschema@.bandit_current_state(b.name) AS state) s
		CROSS JOIN LATERAL (
			SELECT count(*) FILTER (WHERE loss IS NULL) AS skipped, max(delay) AS longest
			FROM dexp3.feedback f WHERE f.bandit_id = b.bandit_id AND f.epoch = b.epoch) f
		CROSS JOIN LATERAL (
			SELECT coalesce(sum(skipped_rounds), 0)::bigint AS skipped, max(longest_delay) AS longest
			FROM dexp3.trimmed t WHERE t.bandit_id = b.bandit_id AND t.epoch = b.epoch) t
		CROSS JOIN LATERAL (
			SELECT min(d.round) AS oldest
			FROM dexp3.decision d WHERE d.bandit_id = b.bandit_id AND d.epoch = b.epoch
				AND NOT EXISTS (SELECT FROM dexp3.feedback f WHERE f.decision_id = d.decision_id)) o
	WHERE b.bandit_id = dexp3.bandit_id_of(bandit_bound.bandit);
END;

COMMENT ON FUNCTION @extschema@.bandit_bound(text, double precision)
	IS 'the bound on the regret of a managed bandit that the paper proves for what has been seen';

CREATE FUNCTION @extschema@.bandit_replay(bandit text) RETURNS boolean
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION @extschema@.bandit_replay(text)
	IS 'whether the state of a managed bandit is what its log makes when it is folded again';

CREATE VIEW dexp3.overview WITH (security_invoker = true) AS
	SELECT b.name AS bandit, b.algorithm, (s.state ->> 'round')::bigint AS rounds,
		coalesce((s.state ->> 'outstanding')::bigint, jsonb_array_length(s.state -> 'open')) AS open,
		f.skipped + t.skipped AS skipped, f.expired + t.expired AS expired,
		(s.state ->> 'cumulative_delay')::double precision AS total_delay,
		greatest(f.longest, t.longest) AS longest_delay,
		@extschema@.bandit_step_size(s.value) AS step_size,
		f.loss + t.loss AS total_loss,
		@extschema@.bandit_bound(b.name) AS regret_bound,
		greatest(t.last_decision,
			(SELECT max(d.decided_at) FROM dexp3.decision d WHERE d.bandit_id = b.bandit_id AND d.epoch = b.epoch))
			AS last_decision,
		greatest(f.last, t.last_feedback) AS last_feedback
	FROM dexp3.bandit b
		CROSS JOIN LATERAL (SELECT v AS value, v::jsonb AS state FROM @extschema@.bandit_current_state(b.name) v) s
		CROSS JOIN LATERAL (
			SELECT count(*) FILTER (WHERE loss IS NULL) AS skipped, count(expired) AS expired, max(delay) AS longest,
				coalesce(sum(loss), 0) AS loss, max(received_at) FILTER (WHERE loss IS NOT NULL AND expired IS NULL) AS last
			FROM dexp3.feedback f WHERE f.bandit_id = b.bandit_id AND f.epoch = b.epoch) f
		CROSS JOIN LATERAL (
			SELECT coalesce(sum(skipped_rounds), 0)::bigint AS skipped, coalesce(sum(expired_rounds), 0)::bigint AS expired,
				max(longest_delay) AS longest, max(last_decision) AS last_decision, max(last_feedback) AS last_feedback,
				coalesce(sum((SELECT sum(l) FROM unnest(arm_loss) l)), 0) AS loss
			FROM dexp3.trimmed t WHERE t.bandit_id = b.bandit_id AND t.epoch = b.epoch) t;

COMMENT ON VIEW dexp3.overview IS 'how the bandits that one may use are doing';

ALTER VIEW dexp3.arm_totals OWNER TO @extowner@;
ALTER VIEW dexp3.overview OWNER TO @extowner@;
GRANT SELECT ON dexp3.arm_totals, dexp3.overview TO PUBLIC;

CREATE FUNCTION @extschema@.bandit_chart(bandit text, kind text DEFAULT 'share') RETURNS text
	LANGUAGE C STABLE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION @extschema@.bandit_chart(text, text)
	IS 'an SVG document that shows how a managed bandit is doing: share, loss or delay';
