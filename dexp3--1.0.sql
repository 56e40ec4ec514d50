-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION dexp3" to load this file. \quit

--
-- Types: bandit_state, a learner as one value
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
-- Types: bandit_ticket, what to keep of a decision until its loss is known
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
-- Pure functions: on bandit_state
--

CREATE FUNCTION bandit_new(
	arms integer,
	algorithm text DEFAULT 'self-tuned',
	skipping boolean DEFAULT NULL,
	patience integer DEFAULT 100,
	max_delay integer DEFAULT NULL,
	step_scale double precision DEFAULT 1,
	optimism double precision DEFAULT 0.25,
	half_life double precision DEFAULT NULL
) RETURNS bandit_state
	LANGUAGE C IMMUTABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_new(integer, text, boolean, integer, integer, double precision, double precision,
	double precision)
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
	AS 'MODULE_PATHNAME', 'bandit_probabilities_of_state';

COMMENT ON FUNCTION bandit_probabilities(bandit_state)
	IS 'the probability of each arm in the next draw';

CREATE FUNCTION bandit_step_size(state bandit_state) RETURNS double precision
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_step_size(bandit_state)
	IS 'the step size of the next draw';

--
-- Pure functions: simulation
--

CREATE FUNCTION bandit_simulate(
	losses double precision[],
	delays integer[] DEFAULT NULL,
	algorithm text DEFAULT 'self-tuned',
	skipping boolean DEFAULT NULL,
	patience integer DEFAULT 100,
	max_delay integer DEFAULT NULL,
	step_scale double precision DEFAULT 1,
	seed bigint DEFAULT NULL,
	optimism double precision DEFAULT 0.25,
	half_life double precision DEFAULT NULL,
	feedback_window integer DEFAULT NULL,
	missing_loss double precision DEFAULT NULL
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

COMMENT ON FUNCTION bandit_simulate(double precision[], integer[], text, boolean, integer, integer, double precision,
	bigint, double precision, double precision, integer, double precision)
	IS 'play a bandit on known losses and delays';

CREATE FUNCTION bandit_rehearse(
	arms text[],
	losses double precision[],
	probabilities double precision[] DEFAULT NULL,
	delays integer[] DEFAULT NULL,
	algorithm text DEFAULT 'self-tuned',
	skipping boolean DEFAULT NULL,
	patience integer DEFAULT 100,
	max_delay integer DEFAULT NULL,
	step_scale double precision DEFAULT 1,
	seed bigint DEFAULT NULL,
	optimism double precision DEFAULT 0.25,
	half_life double precision DEFAULT NULL,
	feedback_window integer DEFAULT NULL,
	missing_loss double precision DEFAULT NULL,
	least_probability double precision DEFAULT NULL,
	OUT rounds bigint,
	OUT used bigint,
	OUT loss double precision,
	OUT loss_low double precision,
	OUT loss_high double precision,
	OUT logged_loss double precision
) RETURNS record
	LANGUAGE C VOLATILE PARALLEL RESTRICTED
	COST 1000
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_rehearse(text[], double precision[], double precision[], integer[], text, boolean, integer,
	integer, double precision, bigint, double precision, double precision, integer, double precision, double precision)
	IS 'play a bandit on a log of past decisions, of which each has the outcome of one arm';

--
-- Managed bandits: the tables
--
-- Normally only the extension's functions write to them.  xact has a meaning in
-- its own cluster only, so triggers stamp rows that arrive from elsewhere anew.
-- These triggers always fire, also in a restore and for a subscription.  When
-- rows were changed or removed by hand, they let all sums be made anew.
--
-- Every role may read the rows of the bandits that it may use: row security sees to
-- that.  But pg_dump must get all rows, and refuses what row security would filter.  So
-- each table is partitioned, with row security, and has one partition for all rows,
-- without it, which the role that installs the extension can dump and restore.  The
-- library uses the partition, which has no constraint, since there is no other one.
--
-- Nothing belongs to the role that installs the extension.  In its functions the
-- extension does things with the rights of the tables' owner, and relies on what they
-- look like; so nobody but a superuser may attach anything to them.
--

CREATE SCHEMA dexp3;
COMMENT ON SCHEMA dexp3 IS 'managed bandits and their log';

-- In the tables, a role is one by its identifier, so that it can be renamed; in a dump,
-- by its name.
CREATE TYPE dexp3.role;

CREATE FUNCTION dexp3.role_in(cstring) RETURNS dexp3.role
	LANGUAGE C STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'dexp3_role_in';
CREATE FUNCTION dexp3.role_out(dexp3.role) RETURNS cstring
	LANGUAGE C STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'dexp3_role_out';
CREATE FUNCTION dexp3.role_recv(internal) RETURNS dexp3.role
	LANGUAGE C STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'dexp3_role_recv';
CREATE FUNCTION dexp3.role_send(dexp3.role) RETURNS bytea
	LANGUAGE C STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'dexp3_role_send';

CREATE TYPE dexp3.role (
	INPUT = dexp3.role_in,
	OUTPUT = dexp3.role_out,
	RECEIVE = dexp3.role_recv,
	SEND = dexp3.role_send,
	INTERNALLENGTH = 68,
	ALIGNMENT = int4
);

COMMENT ON TYPE dexp3.role IS 'a role that may be renamed, dropped, or not be there yet';
COMMENT ON FUNCTION dexp3.role_in(cstring) IS 'I/O';
COMMENT ON FUNCTION dexp3.role_out(dexp3.role) IS 'I/O';
COMMENT ON FUNCTION dexp3.role_recv(internal) IS 'I/O';
COMMENT ON FUNCTION dexp3.role_send(dexp3.role) IS 'I/O';

CREATE CAST (dexp3.role AS text) WITH INOUT AS IMPLICIT;
CREATE CAST (dexp3.role AS name) WITH INOUT AS ASSIGNMENT;
CREATE CAST (text AS dexp3.role) WITH INOUT AS ASSIGNMENT;
CREATE CAST (name AS dexp3.role) WITH INOUT AS ASSIGNMENT;
COMMENT ON CAST (dexp3.role AS text) IS 'its name';
COMMENT ON CAST (dexp3.role AS name) IS 'its name';
COMMENT ON CAST (text AS dexp3.role) IS 'the role of this name';
COMMENT ON CAST (name AS dexp3.role) IS 'the role of this name';

-- Names are what is compared.
CREATE FUNCTION dexp3.role_eq(dexp3.role, dexp3.role) RETURNS boolean
	LANGUAGE C STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'dexp3_role_eq';
CREATE FUNCTION dexp3.role_ne(dexp3.role, dexp3.role) RETURNS boolean
	LANGUAGE C STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'dexp3_role_ne';
CREATE FUNCTION dexp3.role_lt(dexp3.role, dexp3.role) RETURNS boolean
	LANGUAGE C STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'dexp3_role_lt';
CREATE FUNCTION dexp3.role_le(dexp3.role, dexp3.role) RETURNS boolean
	LANGUAGE C STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'dexp3_role_le';
CREATE FUNCTION dexp3.role_gt(dexp3.role, dexp3.role) RETURNS boolean
	LANGUAGE C STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'dexp3_role_gt';
CREATE FUNCTION dexp3.role_ge(dexp3.role, dexp3.role) RETURNS boolean
	LANGUAGE C STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'dexp3_role_ge';
CREATE FUNCTION dexp3.role_cmp(dexp3.role, dexp3.role) RETURNS integer
	LANGUAGE C STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'dexp3_role_cmp';

COMMENT ON FUNCTION dexp3.role_eq(dexp3.role, dexp3.role) IS 'implementation of = operator';
COMMENT ON FUNCTION dexp3.role_ne(dexp3.role, dexp3.role) IS 'implementation of <> operator';
COMMENT ON FUNCTION dexp3.role_lt(dexp3.role, dexp3.role) IS 'implementation of < operator';
COMMENT ON FUNCTION dexp3.role_le(dexp3.role, dexp3.role) IS 'implementation of <= operator';
COMMENT ON FUNCTION dexp3.role_gt(dexp3.role, dexp3.role) IS 'implementation of > operator';
COMMENT ON FUNCTION dexp3.role_ge(dexp3.role, dexp3.role) IS 'implementation of >= operator';
COMMENT ON FUNCTION dexp3.role_cmp(dexp3.role, dexp3.role) IS 'less-equal-greater';

CREATE OPERATOR dexp3.= (FUNCTION = dexp3.role_eq, LEFTARG = dexp3.role, RIGHTARG = dexp3.role,
	COMMUTATOR = OPERATOR(dexp3.=), NEGATOR = OPERATOR(dexp3.<>), RESTRICT = eqsel, JOIN = eqjoinsel);
CREATE OPERATOR dexp3.<> (FUNCTION = dexp3.role_ne, LEFTARG = dexp3.role, RIGHTARG = dexp3.role,
	COMMUTATOR = OPERATOR(dexp3.<>), NEGATOR = OPERATOR(dexp3.=), RESTRICT = neqsel, JOIN = neqjoinsel);
CREATE OPERATOR dexp3.< (FUNCTION = dexp3.role_lt, LEFTARG = dexp3.role, RIGHTARG = dexp3.role,
	COMMUTATOR = OPERATOR(dexp3.>), NEGATOR = OPERATOR(dexp3.>=), RESTRICT = scalarltsel, JOIN = scalarltjoinsel);
CREATE OPERATOR dexp3.<= (FUNCTION = dexp3.role_le, LEFTARG = dexp3.role, RIGHTARG = dexp3.role,
	COMMUTATOR = OPERATOR(dexp3.>=), NEGATOR = OPERATOR(dexp3.>), RESTRICT = scalarlesel, JOIN = scalarlejoinsel);
CREATE OPERATOR dexp3.> (FUNCTION = dexp3.role_gt, LEFTARG = dexp3.role, RIGHTARG = dexp3.role,
	COMMUTATOR = OPERATOR(dexp3.<), NEGATOR = OPERATOR(dexp3.<=), RESTRICT = scalargtsel, JOIN = scalargtjoinsel);
CREATE OPERATOR dexp3.>= (FUNCTION = dexp3.role_ge, LEFTARG = dexp3.role, RIGHTARG = dexp3.role,
	COMMUTATOR = OPERATOR(dexp3.<=), NEGATOR = OPERATOR(dexp3.<), RESTRICT = scalargesel, JOIN = scalargejoinsel);

COMMENT ON OPERATOR dexp3.= (dexp3.role, dexp3.role) IS 'equal';
COMMENT ON OPERATOR dexp3.<> (dexp3.role, dexp3.role) IS 'not equal';
COMMENT ON OPERATOR dexp3.< (dexp3.role, dexp3.role) IS 'less than';
COMMENT ON OPERATOR dexp3.<= (dexp3.role, dexp3.role) IS 'less than or equal';
COMMENT ON OPERATOR dexp3.> (dexp3.role, dexp3.role) IS 'greater than';
COMMENT ON OPERATOR dexp3.>= (dexp3.role, dexp3.role) IS 'greater than or equal';

CREATE OPERATOR CLASS dexp3.role_ops
	DEFAULT FOR TYPE dexp3.role USING btree AS
	OPERATOR 1 dexp3.<,
	OPERATOR 2 dexp3.<=,
	OPERATOR 3 dexp3.=,
	OPERATOR 4 dexp3.>=,
	OPERATOR 5 dexp3.>,
	FUNCTION 1 dexp3.role_cmp(dexp3.role, dexp3.role);

COMMENT ON OPERATOR CLASS dexp3.role_ops USING btree IS 'order of roles by name';
COMMENT ON OPERATOR FAMILY dexp3.role_ops USING btree IS 'order of roles by name';

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
	owner dexp3.role NOT NULL,
	grantees dexp3.role[] NOT NULL DEFAULT '{}',
	feedback_window interval,
	missing_loss double precision NOT NULL DEFAULT 1,
	retention interval,
	sticky boolean NOT NULL DEFAULT false,
	loss_range double precision[] NOT NULL DEFAULT '{0,1}',
	clamp_losses boolean NOT NULL DEFAULT false,
	retired text[] NOT NULL DEFAULT '{}',
	head_start double precision[] NOT NULL DEFAULT '{}',
	optimism double precision,
	half_life interval,
	cost_offset double precision NOT NULL DEFAULT 0,
	arms_changed_at timestamptz,
	goal text,
	shared boolean NOT NULL DEFAULT false,
	CONSTRAINT bandit_pkey PRIMARY KEY (bandit_id)
) PARTITION BY RANGE (bandit_id);

CREATE TABLE dexp3.bandit_rows PARTITION OF dexp3.bandit (
	CONSTRAINT bandit_name_key UNIQUE (name)
) DEFAULT;

COMMENT ON TABLE dexp3.bandit IS 'managed bandits';
COMMENT ON TABLE dexp3.bandit_rows IS 'all rows of dexp3.bandit, for pg_dump and for the library';
COMMENT ON COLUMN dexp3.bandit.bandit_id IS 'identifier, never used again';
COMMENT ON COLUMN dexp3.bandit.name IS 'name, as given to bandit_create';
COMMENT ON COLUMN dexp3.bandit.arms IS 'names of the arms';
COMMENT ON COLUMN dexp3.bandit.algorithm IS 'self-tuned, dada, dada-ix or deda';
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
COMMENT ON COLUMN dexp3.bandit.retention IS 'how long settled decisions are kept in the log; null: for ever';
COMMENT ON COLUMN dexp3.bandit.sticky IS 'whether a subject gets its open decision again instead of a new one';
COMMENT ON COLUMN dexp3.bandit.loss_range IS 'the smallest and the largest loss';
COMMENT ON COLUMN dexp3.bandit.clamp_losses IS 'whether losses beyond the range are moved to its ends, not refused';
COMMENT ON COLUMN dexp3.bandit.retired IS 'arms that are not drawn any more';
COMMENT ON COLUMN dexp3.bandit.head_start IS 'the sum of loss estimates that each arm began with, 0 where it is missing';
COMMENT ON COLUMN dexp3.bandit.optimism IS 'self-tuned: how much better than the average an arm may be that was not tried';
COMMENT ON COLUMN dexp3.bandit.half_life IS 'self-tuned: after this time a decision counts half; null: for ever in full';
COMMENT ON COLUMN dexp3.bandit.cost_offset IS 'self-tuned: what the sum of costs began with, so that a change of arms did not change the step size';
COMMENT ON COLUMN dexp3.bandit.arms_changed_at IS 'when the arms or the optimism were last changed: the moment that head_start and cost_offset are of';
COMMENT ON COLUMN dexp3.bandit.goal IS 'reward or loss, if only one kind of feedback is taken; null: both';
COMMENT ON COLUMN dexp3.bandit.shared IS 'whether it learns together with bandits of that name on other servers, see bandit_share';

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
	mass double precision,
	CONSTRAINT decision_pkey PRIMARY KEY (decision_id)
) PARTITION BY RANGE (decision_id);

CREATE TABLE dexp3.decision_rows PARTITION OF dexp3.decision DEFAULT;

CREATE INDEX decision_log_idx ON dexp3.decision_rows (bandit_id, epoch, xact, decision_id);
CREATE INDEX decision_subject_idx ON dexp3.decision_rows (bandit_id, subject, decision_id)
	WHERE subject IS NOT NULL;

COMMENT ON TABLE dexp3.decision IS 'one row for each bandit_choose';
COMMENT ON TABLE dexp3.decision_rows IS 'all rows of dexp3.decision, for pg_dump and for the library';
COMMENT ON COLUMN dexp3.decision.decision_id IS 'identifier, to be given to bandit_feedback';
COMMENT ON COLUMN dexp3.decision.bandit_id IS 'the bandit';
COMMENT ON COLUMN dexp3.decision.epoch IS 'its epoch at that time';
COMMENT ON COLUMN dexp3.decision.round IS 'its round; sessions that choose at the same time may get the same one';
COMMENT ON COLUMN dexp3.decision.outstanding IS 'how many earlier decisions were open';
COMMENT ON COLUMN dexp3.decision.probability IS 'the probability that the arm was drawn with';
COMMENT ON COLUMN dexp3.decision.gamma IS 'implicit exploration: the loss is divided by probability + gamma';
COMMENT ON COLUMN dexp3.decision.decided_at IS 'start of the statement that chose, or of its transaction if that is later';
COMMENT ON COLUMN dexp3.decision.xact IS 'transaction under which the row became visible in this cluster';
COMMENT ON COLUMN dexp3.decision.arm IS 'the arm drawn, from 1';
COMMENT ON COLUMN dexp3.decision.delay IS 'deda: the delay as announced';
COMMENT ON COLUMN dexp3.decision.z IS 'deda: the arm''s sum of loss estimates at that time, null for 0';
COMMENT ON COLUMN dexp3.decision.m IS 'deda: the arm''s sum of estimate times probability at that time, null for 0';
COMMENT ON COLUMN dexp3.decision.subject IS 'who it was for, as given to bandit_choose';
COMMENT ON COLUMN dexp3.decision.mass IS 'self-tuned: the probability that all allowed arms together had among all; null for 1';

CREATE TABLE dexp3.feedback (
	decision_id bigint NOT NULL,
	bandit_id integer NOT NULL,
	epoch integer NOT NULL,
	round bigint NOT NULL,
	delay bigint NOT NULL,
	received_at timestamptz NOT NULL,
	xact xid8 NOT NULL,
	arm integer NOT NULL,
	loss double precision,
	estimate double precision,
	probability double precision,
	expected double precision,
	lbck double precision,
	expired boolean,
	baseline double precision,
	mass double precision,
	decided_at timestamptz,
	CONSTRAINT feedback_pkey PRIMARY KEY (decision_id)
) PARTITION BY RANGE (decision_id);

CREATE TABLE dexp3.feedback_rows PARTITION OF dexp3.feedback DEFAULT;

CREATE INDEX feedback_log_idx ON dexp3.feedback_rows (bandit_id, epoch, xact);

COMMENT ON TABLE dexp3.feedback IS 'one row for each decision that was settled by itself: by feedback, by skipping, seldom by expiry';
COMMENT ON TABLE dexp3.feedback_rows IS 'all rows of dexp3.feedback, for pg_dump and for the library';
COMMENT ON COLUMN dexp3.feedback.decision_id IS 'the decision';
COMMENT ON COLUMN dexp3.feedback.bandit_id IS 'its bandit';
COMMENT ON COLUMN dexp3.feedback.epoch IS 'its epoch';
COMMENT ON COLUMN dexp3.feedback.round IS 'the newest round when the feedback arrived';
COMMENT ON COLUMN dexp3.feedback.delay IS 'by how many rounds that was after the decision';
COMMENT ON COLUMN dexp3.feedback.received_at IS 'start of the statement that brought it, or of its transaction if that is later';
COMMENT ON COLUMN dexp3.feedback.xact IS 'transaction under which the row became visible in this cluster';
COMMENT ON COLUMN dexp3.feedback.arm IS 'the arm of the decision, from 1';
COMMENT ON COLUMN dexp3.feedback.loss IS 'the loss; null if the decision was skipped';
COMMENT ON COLUMN dexp3.feedback.estimate IS 'the loss estimate: (the loss, as a share of its range, - baseline) / (probability + gamma)';
COMMENT ON COLUMN dexp3.feedback.probability IS 'the probability of the decision; null if it was skipped';
COMMENT ON COLUMN dexp3.feedback.expected IS 'deda: estimate times probability, null for 0';
COMMENT ON COLUMN dexp3.feedback.lbck IS 'deda: what it adds to Lbck, null for 0';
COMMENT ON COLUMN dexp3.feedback.expired IS 'true if the feedback did not come in time';
COMMENT ON COLUMN dexp3.feedback.baseline IS 'self-tuned: what an arm was taken to lose that was not drawn, null for 0';
COMMENT ON COLUMN dexp3.feedback.mass IS 'self-tuned: that of the decision; null for 1';
COMMENT ON COLUMN dexp3.feedback.decided_at IS 'time of the decision, if the bandit has a half_life';

CREATE TABLE dexp3.expiry (
	first_decision bigint NOT NULL,
	bandit_id integer NOT NULL,
	epoch integer NOT NULL,
	last_decision bigint NOT NULL,
	round bigint NOT NULL,
	received_at timestamptz NOT NULL,
	xact xid8 NOT NULL,
	loss double precision NOT NULL,
	baseline double precision,
	decisions bigint[] NOT NULL,
	CONSTRAINT expiry_pkey PRIMARY KEY (first_decision)
) PARTITION BY RANGE (first_decision);

CREATE TABLE dexp3.expiry_rows PARTITION OF dexp3.expiry DEFAULT;

CREATE INDEX expiry_log_idx ON dexp3.expiry_rows (bandit_id, epoch, xact);
CREATE INDEX expiry_last_idx ON dexp3.expiry_rows (bandit_id, epoch, last_decision);

COMMENT ON TABLE dexp3.expiry IS 'one row for many decisions that have expired together';
COMMENT ON TABLE dexp3.expiry_rows IS 'all rows of dexp3.expiry, for pg_dump and for the library';
COMMENT ON COLUMN dexp3.expiry.first_decision IS 'the first of them';
COMMENT ON COLUMN dexp3.expiry.bandit_id IS 'their bandit';
COMMENT ON COLUMN dexp3.expiry.epoch IS 'their epoch';
COMMENT ON COLUMN dexp3.expiry.last_decision IS 'the last of them';
COMMENT ON COLUMN dexp3.expiry.round IS 'the newest round when they expired';
COMMENT ON COLUMN dexp3.expiry.received_at IS 'when they expired';
COMMENT ON COLUMN dexp3.expiry.xact IS 'transaction under which the row became visible in this cluster';
COMMENT ON COLUMN dexp3.expiry.loss IS 'the loss of each of them';
COMMENT ON COLUMN dexp3.expiry.baseline IS 'self-tuned: what an arm was taken to lose that was not drawn, null for 0';
COMMENT ON COLUMN dexp3.expiry.decisions IS 'which decisions they are, in ascending order';

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
	sums double precision[] NOT NULL,
	half_lives bigint NOT NULL,
	settled double precision NOT NULL,
	total_loss double precision NOT NULL,
	cost double precision NOT NULL,
	restricted_rounds bigint NOT NULL,
	CONSTRAINT trimmed_pkey PRIMARY KEY (first_decision)
) PARTITION BY RANGE (first_decision);

CREATE TABLE dexp3.trimmed_rows PARTITION OF dexp3.trimmed DEFAULT;

CREATE INDEX trimmed_log_idx ON dexp3.trimmed_rows (bandit_id, epoch, xact);
CREATE INDEX trimmed_decisions_idx ON dexp3.trimmed_rows USING gist (decisions);

COMMENT ON TABLE dexp3.trimmed IS 'sums of settled decisions that were removed from the log';
COMMENT ON TABLE dexp3.trimmed_rows IS 'all rows of dexp3.trimmed, for pg_dump and for the library';
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
COMMENT ON COLUMN dexp3.trimmed.sums IS 'for each arm the sums of: estimate; expected; 0; 0; 0; 1; 1; and, over those with a loss l and the probability p, of: 1; l; 1/p; 1/p^2; l/p; l/p^2; (l/p)^2';
COMMENT ON COLUMN dexp3.trimmed.half_lives IS 'with a half_life: the moment, in half-lives since 2000-01-01 UTC, at which a decision counts in full in the estimates and in the next three columns';
COMMENT ON COLUMN dexp3.trimmed.settled IS 'number of those with a loss';
COMMENT ON COLUMN dexp3.trimmed.total_loss IS 'sum of their losses, as shares of the range';
COMMENT ON COLUMN dexp3.trimmed.cost IS 'sum of (loss - baseline) * mass';
COMMENT ON COLUMN dexp3.trimmed.restricted_rounds IS 'self-tuned: for how many not all arms were allowed';

CREATE TABLE dexp3.checkpoint (
	bandit_id integer NOT NULL,
	epoch integer NOT NULL,
	events bigint NOT NULL,
	written_at timestamptz NOT NULL,
	state bytea NOT NULL
);

-- compressing it would take more time than it is worth
ALTER TABLE dexp3.checkpoint ALTER COLUMN state SET STORAGE EXTERNAL;

CREATE INDEX checkpoint_idx ON dexp3.checkpoint (bandit_id, epoch, events);

COMMENT ON TABLE dexp3.checkpoint IS 'states of bandits, to start from; can be removed at any time';
COMMENT ON COLUMN dexp3.checkpoint.bandit_id IS 'the bandit';
COMMENT ON COLUMN dexp3.checkpoint.epoch IS 'its epoch';
COMMENT ON COLUMN dexp3.checkpoint.events IS 'how many decisions and feedbacks it covers';
COMMENT ON COLUMN dexp3.checkpoint.written_at IS 'when it was written';
COMMENT ON COLUMN dexp3.checkpoint.state IS 'the state, in an internal form';

CREATE TABLE dexp3.dropped (
	bandit_id integer NOT NULL,
	dropped_at timestamptz NOT NULL,
	xact xid8 NOT NULL
);

-- Where all tables are published, rows must still go away.
ALTER TABLE dexp3.dropped REPLICA IDENTITY FULL;

COMMENT ON TABLE dexp3.dropped IS 'bandits that were dropped not long ago, of which rows may still come';
COMMENT ON COLUMN dexp3.dropped.bandit_id IS 'the bandit';
COMMENT ON COLUMN dexp3.dropped.dropped_at IS 'when it was dropped';
COMMENT ON COLUMN dexp3.dropped.xact IS 'the transaction that dropped it';

-- Where all tables are published, a subscriber need not have these roles.
CREATE TABLE dexp3.warning (
	bandit_id integer,
	table_owner oid NOT NULL,
	number bigint NOT NULL,
	warned_at timestamptz NOT NULL,
	role name NOT NULL,
	table_name text NOT NULL,
	trigger_name name NOT NULL,
	decision_id bigint,
	sqlstate text NOT NULL,
	message text NOT NULL
);

CREATE INDEX warning_idx ON dexp3.warning (bandit_id, table_owner, number);

-- It has no key, and where all tables are published, rows must still go away.
ALTER TABLE dexp3.warning REPLICA IDENTITY FULL;

COMMENT ON TABLE dexp3.warning IS 'feedback that triggers with ''warn'' could not give; can be removed at any time';
COMMENT ON COLUMN dexp3.warning.bandit_id IS 'the bandit; null if the decision is of none';
COMMENT ON COLUMN dexp3.warning.table_owner IS 'the owner of the table with the trigger, a role by its identifier';
COMMENT ON COLUMN dexp3.warning.number IS 'counted up for each bandit and table_owner; old rows are removed';
COMMENT ON COLUMN dexp3.warning.warned_at IS 'when it was';
COMMENT ON COLUMN dexp3.warning.role IS 'the role that wrote the row';
COMMENT ON COLUMN dexp3.warning.table_name IS 'the table with the trigger';
COMMENT ON COLUMN dexp3.warning.trigger_name IS 'the trigger';
COMMENT ON COLUMN dexp3.warning.decision_id IS 'the decision, if the row named one';
COMMENT ON COLUMN dexp3.warning.sqlstate IS 'the SQLSTATE of the error that there would have been without ''warn''';
COMMENT ON COLUMN dexp3.warning.message IS 'and its message';

-- One writer a row, and rows of the same version are the same: two sessions that bring
-- one at the same time shall neither wait nor fail, so nothing is unique.  A publication
-- with a filter needs to know all columns of a row that is removed.
CREATE TABLE dexp3.component (
	bandit text COLLATE "C" NOT NULL,
	node integer NOT NULL,
	epoch integer NOT NULL,
	version bigint NOT NULL,
	written_at timestamptz NOT NULL,
	forgotten boolean NOT NULL DEFAULT false,
	arms text[] NOT NULL,
	playable integer NOT NULL,
	algorithm text NOT NULL,
	loss_range double precision[] NOT NULL,
	optimism double precision NOT NULL,
	half_life interval,
	rounds bigint NOT NULL,
	settled bigint NOT NULL,
	expired bigint NOT NULL,
	last_decision timestamptz,
	last_feedback timestamptz,
	half_lives bigint NOT NULL,
	weight double precision NOT NULL,
	total_loss double precision NOT NULL,
	cost double precision NOT NULL,
	z double precision[] NOT NULL,
	sums double precision[] NOT NULL
);

ALTER TABLE dexp3.component REPLICA IDENTITY FULL;
-- compressing them, every second, would take more time than it is worth
ALTER TABLE dexp3.component ALTER COLUMN z SET STORAGE EXTERNAL, ALTER COLUMN sums SET STORAGE EXTERNAL;

CREATE INDEX component_idx ON dexp3.component (bandit, node, version);

COMMENT ON TABLE dexp3.component IS 'what each of several servers has published of its sums';
COMMENT ON COLUMN dexp3.component.bandit IS 'name of the bandit';
COMMENT ON COLUMN dexp3.component.node IS 'the server that has written the row, see bandit_node';
COMMENT ON COLUMN dexp3.component.epoch IS 'epoch of the bandit there';
COMMENT ON COLUMN dexp3.component.version IS 'the largest one of each bandit and node counts: microseconds since 2000-01-01 UTC, but never less than before';
COMMENT ON COLUMN dexp3.component.written_at IS 'when it was written';
COMMENT ON COLUMN dexp3.component.forgotten IS 'true if it does not count, see bandit_forget_node';
COMMENT ON COLUMN dexp3.component.arms IS 'names of the arms, the retired ones last';
COMMENT ON COLUMN dexp3.component.playable IS 'how many of them have not retired';
COMMENT ON COLUMN dexp3.component.algorithm IS 'that of the bandit';
COMMENT ON COLUMN dexp3.component.loss_range IS 'that of the bandit';
COMMENT ON COLUMN dexp3.component.optimism IS 'that of the bandit';
COMMENT ON COLUMN dexp3.component.half_life IS 'that of the bandit';
COMMENT ON COLUMN dexp3.component.rounds IS 'number of decisions';
COMMENT ON COLUMN dexp3.component.settled IS 'how many of them are settled';
COMMENT ON COLUMN dexp3.component.expired IS 'how many of these because the feedback did not come in time';
COMMENT ON COLUMN dexp3.component.last_decision IS 'when the last decision was made';
COMMENT ON COLUMN dexp3.component.last_feedback IS 'when the last feedback came';
COMMENT ON COLUMN dexp3.component.half_lives IS 'with a half_life: the moment, in half-lives since 2000-01-01 UTC, at which a decision counts in full in the next four columns';
COMMENT ON COLUMN dexp3.component.weight IS 'number of settled decisions';
COMMENT ON COLUMN dexp3.component.total_loss IS 'sum of their losses, as shares of the range';
COMMENT ON COLUMN dexp3.component.cost IS 'sum of (loss - baseline) * mass, and the cost_offset of the bandit';
COMMENT ON COLUMN dexp3.component.z IS 'of each arm the sum of estimates, and its head_start';
COMMENT ON COLUMN dexp3.component.sums IS 'of each arm the number of decisions and of settled ones; and, over those with a loss l and the probability p, the sums of: 1; l; 1/p; 1/p^2; l/p; l/p^2; (l/p)^2';

CREATE FUNCTION dexp3.bandit_changed() RETURNS trigger
	LANGUAGE C AS 'MODULE_PATHNAME', 'dexp3_bandit_changed';
CREATE FUNCTION dexp3.log_arrival() RETURNS trigger
	LANGUAGE C AS 'MODULE_PATHNAME', 'dexp3_log_arrival';
CREATE FUNCTION dexp3.log_changed() RETURNS trigger
	LANGUAGE C AS 'MODULE_PATHNAME', 'dexp3_log_changed';
CREATE FUNCTION dexp3.checkpoint_arrival() RETURNS trigger
	LANGUAGE C AS 'MODULE_PATHNAME', 'dexp3_checkpoint_arrival';
CREATE FUNCTION dexp3.component_arrival() RETURNS trigger
	LANGUAGE C AS 'MODULE_PATHNAME', 'dexp3_component_arrival';
CREATE FUNCTION dexp3.component_changed() RETURNS trigger
	LANGUAGE C AS 'MODULE_PATHNAME', 'dexp3_component_changed';

COMMENT ON FUNCTION dexp3.bandit_changed() IS 'makes all sessions read dexp3.bandit again';
COMMENT ON FUNCTION dexp3.log_arrival() IS 'stamps log rows that come from elsewhere';
COMMENT ON FUNCTION dexp3.log_changed() IS 'lets sums be made anew when rows were changed by hand';
COMMENT ON FUNCTION dexp3.checkpoint_arrival() IS 'drops checkpoints that come from elsewhere';
COMMENT ON FUNCTION dexp3.component_arrival() IS 'keeps the newest row of each server';
COMMENT ON FUNCTION dexp3.component_changed() IS 'makes all sessions read dexp3.component again';

REVOKE ALL ON FUNCTION dexp3.bandit_changed() FROM PUBLIC;
REVOKE ALL ON FUNCTION dexp3.log_arrival() FROM PUBLIC;
REVOKE ALL ON FUNCTION dexp3.log_changed() FROM PUBLIC;
REVOKE ALL ON FUNCTION dexp3.checkpoint_arrival() FROM PUBLIC;
REVOKE ALL ON FUNCTION dexp3.component_arrival() FROM PUBLIC;
REVOKE ALL ON FUNCTION dexp3.component_changed() FROM PUBLIC;

CREATE TRIGGER bandit_changed AFTER INSERT OR UPDATE OR DELETE ON dexp3.bandit_rows
	FOR EACH ROW EXECUTE FUNCTION dexp3.bandit_changed();
CREATE TRIGGER log_arrival BEFORE INSERT ON dexp3.decision_rows
	FOR EACH ROW EXECUTE FUNCTION dexp3.log_arrival();
CREATE TRIGGER log_arrival BEFORE INSERT ON dexp3.feedback_rows
	FOR EACH ROW EXECUTE FUNCTION dexp3.log_arrival();
CREATE TRIGGER log_arrival BEFORE INSERT ON dexp3.expiry_rows
	FOR EACH ROW EXECUTE FUNCTION dexp3.log_arrival();
CREATE TRIGGER log_arrival BEFORE INSERT ON dexp3.trimmed_rows
	FOR EACH ROW EXECUTE FUNCTION dexp3.log_arrival();
CREATE TRIGGER checkpoint_arrival BEFORE INSERT OR UPDATE ON dexp3.checkpoint
	FOR EACH ROW EXECUTE FUNCTION dexp3.checkpoint_arrival();

CREATE TRIGGER component_arrival BEFORE INSERT ON dexp3.component
	FOR EACH ROW EXECUTE FUNCTION dexp3.component_arrival();
CREATE TRIGGER component_changed AFTER UPDATE OR DELETE ON dexp3.component
	FOR EACH ROW EXECUTE FUNCTION dexp3.component_changed();
CREATE TRIGGER component_truncated AFTER TRUNCATE ON dexp3.component
	FOR EACH STATEMENT EXECUTE FUNCTION dexp3.component_changed();

-- A trigger for statements fires for the table that the statement names.
CREATE TRIGGER log_changed AFTER UPDATE OR DELETE OR TRUNCATE ON dexp3.decision
	FOR EACH STATEMENT EXECUTE FUNCTION dexp3.log_changed();
CREATE TRIGGER log_changed AFTER UPDATE OR DELETE OR TRUNCATE ON dexp3.decision_rows
	FOR EACH STATEMENT EXECUTE FUNCTION dexp3.log_changed();
CREATE TRIGGER log_changed AFTER UPDATE OR DELETE OR TRUNCATE ON dexp3.feedback
	FOR EACH STATEMENT EXECUTE FUNCTION dexp3.log_changed();
CREATE TRIGGER log_changed AFTER UPDATE OR DELETE OR TRUNCATE ON dexp3.feedback_rows
	FOR EACH STATEMENT EXECUTE FUNCTION dexp3.log_changed();
CREATE TRIGGER log_changed AFTER UPDATE OR DELETE OR TRUNCATE ON dexp3.expiry
	FOR EACH STATEMENT EXECUTE FUNCTION dexp3.log_changed();
CREATE TRIGGER log_changed AFTER UPDATE OR DELETE OR TRUNCATE ON dexp3.expiry_rows
	FOR EACH STATEMENT EXECUTE FUNCTION dexp3.log_changed();
CREATE TRIGGER log_changed AFTER UPDATE OR DELETE OR TRUNCATE ON dexp3.trimmed
	FOR EACH STATEMENT EXECUTE FUNCTION dexp3.log_changed();
CREATE TRIGGER log_changed AFTER UPDATE OR DELETE OR TRUNCATE ON dexp3.trimmed_rows
	FOR EACH STATEMENT EXECUTE FUNCTION dexp3.log_changed();

-- For rows that a subscription changes.  It fires no triggers for statements, and rows
-- come with the publisher's xact.
CREATE TRIGGER log_row_arrival BEFORE UPDATE ON dexp3.decision_rows
	FOR EACH ROW EXECUTE FUNCTION dexp3.log_arrival();
CREATE TRIGGER log_row_arrival BEFORE UPDATE ON dexp3.feedback_rows
	FOR EACH ROW EXECUTE FUNCTION dexp3.log_arrival();
CREATE TRIGGER log_row_arrival BEFORE UPDATE ON dexp3.expiry_rows
	FOR EACH ROW EXECUTE FUNCTION dexp3.log_arrival();
CREATE TRIGGER log_row_arrival BEFORE UPDATE ON dexp3.trimmed_rows
	FOR EACH ROW EXECUTE FUNCTION dexp3.log_arrival();
CREATE TRIGGER log_row_changed AFTER UPDATE OR DELETE ON dexp3.decision_rows
	FOR EACH ROW EXECUTE FUNCTION dexp3.log_changed();
CREATE TRIGGER log_row_changed AFTER UPDATE OR DELETE ON dexp3.feedback_rows
	FOR EACH ROW EXECUTE FUNCTION dexp3.log_changed();
CREATE TRIGGER log_row_changed AFTER UPDATE OR DELETE ON dexp3.expiry_rows
	FOR EACH ROW EXECUTE FUNCTION dexp3.log_changed();
CREATE TRIGGER log_row_changed AFTER UPDATE OR DELETE ON dexp3.trimmed_rows
	FOR EACH ROW EXECUTE FUNCTION dexp3.log_changed();

ALTER TABLE dexp3.bandit_rows ENABLE ALWAYS TRIGGER bandit_changed;
ALTER TABLE dexp3.decision_rows ENABLE ALWAYS TRIGGER log_arrival;
ALTER TABLE dexp3.feedback_rows ENABLE ALWAYS TRIGGER log_arrival;
ALTER TABLE dexp3.expiry_rows ENABLE ALWAYS TRIGGER log_arrival;
ALTER TABLE dexp3.trimmed_rows ENABLE ALWAYS TRIGGER log_arrival;
ALTER TABLE dexp3.checkpoint ENABLE ALWAYS TRIGGER checkpoint_arrival;
ALTER TABLE dexp3.component ENABLE ALWAYS TRIGGER component_arrival;
ALTER TABLE dexp3.component ENABLE ALWAYS TRIGGER component_changed;
ALTER TABLE dexp3.component ENABLE ALWAYS TRIGGER component_truncated;
ALTER TABLE dexp3.decision ENABLE ALWAYS TRIGGER log_changed;
ALTER TABLE dexp3.decision_rows ENABLE ALWAYS TRIGGER log_changed;
ALTER TABLE dexp3.feedback ENABLE ALWAYS TRIGGER log_changed;
ALTER TABLE dexp3.feedback_rows ENABLE ALWAYS TRIGGER log_changed;
ALTER TABLE dexp3.expiry ENABLE ALWAYS TRIGGER log_changed;
ALTER TABLE dexp3.expiry_rows ENABLE ALWAYS TRIGGER log_changed;
ALTER TABLE dexp3.trimmed ENABLE ALWAYS TRIGGER log_changed;
ALTER TABLE dexp3.trimmed_rows ENABLE ALWAYS TRIGGER log_changed;
ALTER TABLE dexp3.decision_rows ENABLE REPLICA TRIGGER log_row_arrival;
ALTER TABLE dexp3.feedback_rows ENABLE REPLICA TRIGGER log_row_arrival;
ALTER TABLE dexp3.expiry_rows ENABLE REPLICA TRIGGER log_row_arrival;
ALTER TABLE dexp3.trimmed_rows ENABLE REPLICA TRIGGER log_row_arrival;
ALTER TABLE dexp3.decision_rows ENABLE REPLICA TRIGGER log_row_changed;
ALTER TABLE dexp3.feedback_rows ENABLE REPLICA TRIGGER log_row_changed;
ALTER TABLE dexp3.expiry_rows ENABLE REPLICA TRIGGER log_row_changed;
ALTER TABLE dexp3.trimmed_rows ENABLE REPLICA TRIGGER log_row_changed;

-- It has the rights of the role that asks, so that row security applies.
CREATE VIEW dexp3.pending WITH (security_invoker = true) AS
	SELECT d.decision_id, b.name AS bandit, d.round, b.arms[d.arm] AS arm,
		d.probability, d.decided_at
	FROM dexp3.decision d JOIN dexp3.bandit b USING (bandit_id, epoch)
	WHERE NOT EXISTS (SELECT FROM dexp3.feedback f WHERE f.decision_id = d.decision_id)
		-- the planner may hash what has expired or, for one decision, use the indexes
		AND NOT EXISTS (
			SELECT FROM dexp3.expiry e CROSS JOIN LATERAL unnest(e.decisions) AS x (id)
			WHERE x.id = d.decision_id AND e.bandit_id = d.bandit_id AND e.epoch = d.epoch
				AND d.decision_id BETWEEN e.first_decision AND e.last_decision);

COMMENT ON VIEW dexp3.pending IS 'decisions whose feedback is waited for';

-- So has this one.  Of one decision, its batch is found by an index; of many batches,
-- each decision is found by its identifier, and by no other index: hence the zeros.
CREATE VIEW dexp3.settled WITH (security_invoker = true) AS
	SELECT f.decision_id, f.bandit_id, f.epoch, f.round, f.delay, f.received_at, f.xact, f.arm, f.loss, f.estimate,
		f.probability, f.expected, f.lbck, f.expired, f.baseline, f.mass, f.decided_at
	FROM dexp3.feedback f
	UNION ALL
	SELECT d.decision_id, e.bandit_id, e.epoch, greatest(e.round, d.round), greatest(e.round - d.round, 0), e.received_at,
		e.xact, d.arm, e.loss,
		-- a very small quotient would be an error (underflow)
		(CASE WHEN abs(e.loss - b.loss_range[1]) > 1e-150 THEN (e.loss - b.loss_range[1])
			/ (b.loss_range[2] - b.loss_range[1]) ELSE 0 END - coalesce(e.baseline, 0)) / (d.probability + d.gamma),
		d.probability, NULL, NULL, true, e.baseline, d.mass, CASE WHEN b.half_life IS NOT NULL THEN d.decided_at END
	FROM dexp3.expiry e
		JOIN dexp3.bandit b USING (bandit_id)
		CROSS JOIN LATERAL unnest(e.decisions) AS x (id)
		JOIN dexp3.decision d ON d.decision_id = x.id AND e.bandit_id = d.bandit_id + 0 AND e.epoch = d.epoch + 0
			AND e.first_decision <= d.decision_id + 0 AND e.last_decision >= d.decision_id + 0;

COMMENT ON VIEW dexp3.settled IS 'decisions that were settled, by feedback, by skipping or by expiry, one by one';

-- The checkpoints are left out: they can be made again.
SELECT pg_catalog.pg_extension_config_dump('dexp3.bandit_rows', '');
SELECT pg_catalog.pg_extension_config_dump('dexp3.bandit_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('dexp3.decision_rows', '');
SELECT pg_catalog.pg_extension_config_dump('dexp3.decision_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('dexp3.feedback_rows', '');
SELECT pg_catalog.pg_extension_config_dump('dexp3.expiry_rows', '');
SELECT pg_catalog.pg_extension_config_dump('dexp3.trimmed_rows', '');
SELECT pg_catalog.pg_extension_config_dump('dexp3.component', '');

--
-- Managed bandits: who may see what
--
-- Who installs the extension can dump and restore it, and let others do so.
--

CREATE FUNCTION dexp3.may_use(bandit_id integer) RETURNS boolean
	LANGUAGE C STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'dexp3_may_use';

COMMENT ON FUNCTION dexp3.may_use(integer) IS 'whether the current user may use a bandit';

CREATE FUNCTION dexp3.may_see_warning(bandit_id integer, table_owner oid) RETURNS boolean
	LANGUAGE C STABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'dexp3_may_see_warning';

COMMENT ON FUNCTION dexp3.may_see_warning(integer, oid)
	IS 'whether the current user may use a bandit, or has the rights of the owner of a table';

ALTER TABLE dexp3.warning ENABLE ROW LEVEL SECURITY;
CREATE POLICY may_see ON dexp3.warning FOR SELECT USING (dexp3.may_see_warning(bandit_id, table_owner));
COMMENT ON POLICY may_see ON dexp3.warning IS 'only warnings about bandits that one may use, or from tables that one owns';
ALTER TABLE dexp3.bandit ENABLE ROW LEVEL SECURITY;
ALTER TABLE dexp3.decision ENABLE ROW LEVEL SECURITY;
ALTER TABLE dexp3.feedback ENABLE ROW LEVEL SECURITY;
ALTER TABLE dexp3.expiry ENABLE ROW LEVEL SECURITY;
ALTER TABLE dexp3.trimmed ENABLE ROW LEVEL SECURITY;
CREATE POLICY may_use ON dexp3.bandit FOR SELECT USING (dexp3.may_use(bandit_id));
CREATE POLICY may_use ON dexp3.decision FOR SELECT USING (dexp3.may_use(bandit_id));
CREATE POLICY may_use ON dexp3.feedback FOR SELECT USING (dexp3.may_use(bandit_id));
CREATE POLICY may_use ON dexp3.expiry FOR SELECT USING (dexp3.may_use(bandit_id));
CREATE POLICY may_use ON dexp3.trimmed FOR SELECT USING (dexp3.may_use(bandit_id));
COMMENT ON POLICY may_use ON dexp3.bandit IS 'only bandits that one may use';
COMMENT ON POLICY may_use ON dexp3.decision IS 'only bandits that one may use';
COMMENT ON POLICY may_use ON dexp3.feedback IS 'only bandits that one may use';
COMMENT ON POLICY may_use ON dexp3.expiry IS 'only bandits that one may use';
COMMENT ON POLICY may_use ON dexp3.trimmed IS 'only bandits that one may use';

GRANT USAGE ON SCHEMA dexp3 TO PUBLIC;
GRANT SELECT ON dexp3.bandit, dexp3.decision, dexp3.feedback, dexp3.expiry, dexp3.trimmed, dexp3.pending, dexp3.settled,
	dexp3.warning TO PUBLIC;
GRANT SELECT, INSERT ON dexp3.bandit_rows, dexp3.decision_rows, dexp3.feedback_rows, dexp3.expiry_rows,
	dexp3.trimmed_rows TO @extowner@ WITH GRANT OPTION;
GRANT SELECT, INSERT ON dexp3.component TO @extowner@ WITH GRANT OPTION;
GRANT SELECT, UPDATE ON SEQUENCE dexp3.bandit_id_seq, dexp3.decision_id_seq TO @extowner@ WITH GRANT OPTION;

--
-- Managed bandits: make, drop, reset, grant
--
-- Functions that use the log are not strict, since a silent null would lose a
-- decision or a loss.  They are unsafe in parallel queries.
--

CREATE FUNCTION bandit_create(
	bandit text,
	arms text[],
	algorithm text DEFAULT 'self-tuned',
	skipping boolean DEFAULT NULL,
	patience integer DEFAULT 100,
	max_delay integer DEFAULT NULL,
	step_scale double precision DEFAULT 1,
	feedback_window interval DEFAULT NULL,
	missing_loss double precision DEFAULT NULL,
	retention interval DEFAULT NULL,
	sticky boolean DEFAULT false,
	loss_range double precision[] DEFAULT '{0,1}',
	clamp_losses boolean DEFAULT false,
	optimism double precision DEFAULT 0.25,
	half_life interval DEFAULT NULL,
	goal text DEFAULT NULL
) RETURNS integer
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_create(text, text[], text, boolean, integer, integer, double precision,
	interval, double precision, interval, boolean, double precision[], boolean, double precision, interval, text)
	IS 'make a managed bandit';

CREATE FUNCTION bandit_drop(bandit text) RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_drop(text) IS 'remove a managed bandit and its log';

CREATE FUNCTION bandit_alter(
	bandit text,
	feedback_window interval DEFAULT NULL,
	missing_loss double precision DEFAULT NULL,
	retention interval DEFAULT NULL,
	half_life interval DEFAULT NULL,
	optimism double precision DEFAULT NULL,
	step_scale double precision DEFAULT NULL,
	patience integer DEFAULT NULL,
	sticky boolean DEFAULT NULL,
	clamp_losses boolean DEFAULT NULL,
	goal text DEFAULT NULL,
	without text[] DEFAULT NULL
) RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_alter(text, interval, double precision, interval, interval, double precision, double precision,
	integer, boolean, boolean, text, text[])
	IS 'change the settings of a managed bandit; null leaves one as it is';

CREATE FUNCTION bandit_reset(bandit text) RETURNS void
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

--
-- Managed bandits: choose
--

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
-- Feedback
--

-- So that bandit_reward takes a boolean, too.  If that had an argument of type boolean,
-- a call with parameters of unknown type would be ambiguous, which is what many drivers
-- send.  This type is in the category of numbers, in which double precision is preferred.
CREATE TYPE dexp3.success;

CREATE FUNCTION dexp3.success_in(cstring) RETURNS dexp3.success
	LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
	AS 'boolin';

CREATE FUNCTION dexp3.success_out(dexp3.success) RETURNS cstring
	LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
	AS 'boolout';

CREATE TYPE dexp3.success (
	INPUT = dexp3.success_in,
	OUTPUT = dexp3.success_out,
	LIKE = boolean,
	CATEGORY = 'N'
);

CREATE CAST (boolean AS dexp3.success) WITHOUT FUNCTION AS IMPLICIT;

COMMENT ON TYPE dexp3.success IS 'a boolean, as bandit_reward takes it';
COMMENT ON FUNCTION dexp3.success_in(cstring) IS 'I/O';
COMMENT ON FUNCTION dexp3.success_out(dexp3.success) IS 'I/O';
COMMENT ON CAST (boolean AS dexp3.success) IS 'the same';

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

CREATE FUNCTION bandit_reward(decision_id bigint, reward dexp3.success) RETURNS text
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'bandit_reward_boolean';

COMMENT ON FUNCTION bandit_reward(bigint, dexp3.success)
	IS 'settle a decision: true is the best reward there is, false the worst';

CREATE FUNCTION bandit_feedback_trigger() RETURNS trigger
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_feedback_trigger()
	IS 'trigger that settles decisions with losses from the rows of a table';

--
-- Arms over time
--

CREATE FUNCTION bandit_add_arm(bandit text, arm text) RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_add_arm(text, text) IS 'give a managed bandit another arm';

CREATE FUNCTION bandit_retire_arm(bandit text, arm text) RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_retire_arm(text, text) IS 'let an arm of a managed bandit not be drawn any more';

CREATE FUNCTION bandit_unretire_arm(bandit text, arm text) RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION bandit_unretire_arm(text, text) IS 'let an arm of a managed bandit be drawn again';

--
-- Subjects
--

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

CREATE FUNCTION bandit_reward(bandit text, subject text, reward dexp3.success) RETURNS text
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'bandit_reward_by_subject_boolean';

COMMENT ON FUNCTION bandit_reward(text, text, dexp3.success)
	IS 'settle the newest open decision of a subject: true is the best reward there is, false the worst';

--
-- Upkeep
--
-- From here on the extension's schema is not in search_path: what other people may
-- have put there must not get into the bodies of functions and views.
--

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION @extschema@.bandit_expire(bandit text DEFAULT NULL) RETURNS bigint
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION @extschema@.bandit_expire(text)
	IS 'settle all decisions whose feedback is missing, of one managed bandit or of all';

CREATE FUNCTION @extschema@.bandit_trim(bandit text DEFAULT NULL) RETURNS bigint
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION @extschema@.bandit_trim(text)
	IS 'remove old rows from the log, of one managed bandit or of all';

CREATE FUNCTION @extschema@.bandit_publish(bandit text DEFAULT NULL) RETURNS bigint
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION @extschema@.bandit_publish(text)
	IS 'publish the sums of one shared bandit or of all, for other servers';

CREATE FUNCTION dexp3.faded(
	value double precision,
	factor double precision,
	decided_at timestamptz,
	half_life interval,
	half_lives bigint
) RETURNS double precision
	LANGUAGE C IMMUTABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'dexp3_faded';

COMMENT ON FUNCTION dexp3.faded(double precision, double precision, timestamptz, interval, bigint)
	IS 'a product, as much as it counts at a moment, in half-lives since 2000-01-01 UTC';

-- For bandit_trim, and for the choose or feedback that writes a checkpoint.  It passes
-- over rows that somebody else is removing.
--
-- The planner knows nothing about these rows, and may believe that there is one.  So
-- there must be no join that it could do by nested loops without an index: pairs are
-- made by the second DELETE, and a FULL JOIN, which adds nothing here, is hashed.
CREATE FUNCTION dexp3.trim_settled(
	bandit_id integer,
	epoch integer,
	settled_before timestamptz,
	round_before bigint,
	xact_from xid8,			-- 0: where the last removal ended
	xact_before xid8,
	running xid8[],			-- transactions between these that were running
	max bigint,
	half_lives bigint,		-- the moment that weighted sums refer to
	OUT trimmed bigint,
	OUT newest_settler xid8
) RETURNS record
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	WITH bandit AS MATERIALIZED (
		SELECT cardinality(b.arms) AS arms, b.half_life, b.loss_range[1] AS low, b.loss_range[2] - b.loss_range[1] AS range
		FROM dexp3.bandit_rows b
		WHERE b.bandit_id = trim_settled.bandit_id),
	begins AS MATERIALIZED (
		SELECT CASE WHEN xact_from = '0'::xid8 THEN coalesce((
			SELECT t.newest_xact
			FROM dexp3.trimmed_rows t
			WHERE t.bandit_id = trim_settled.bandit_id AND t.epoch = trim_settled.epoch AND t.newest_xact < t.xact
			ORDER BY t.bandit_id DESC, t.epoch DESC, t.xact DESC LIMIT 1), '0') ELSE xact_from END AS xact),
	old AS MATERIALIZED (
		SELECT f.decision_id, f.xact
		FROM dexp3.feedback_rows f
		WHERE f.bandit_id = trim_settled.bandit_id AND f.epoch = trim_settled.epoch
			AND f.xact < xact_before AND NOT f.xact = ANY (running) AND f.xact >= (SELECT b.xact FROM begins b)
			AND f.received_at < settled_before AND f.round < round_before
		ORDER BY f.bandit_id, f.epoch, f.xact
		LIMIT max FOR UPDATE SKIP LOCKED),
	old_batch AS MATERIALIZED (
		SELECT e.first_decision, e.decisions, e.xact
		FROM dexp3.expiry_rows e
		WHERE e.bandit_id = trim_settled.bandit_id AND e.epoch = trim_settled.epoch
			AND e.xact < xact_before AND NOT e.xact = ANY (running) AND e.xact >= (SELECT b.xact FROM begins b)
			AND e.received_at < settled_before AND e.round < round_before
		ORDER BY e.bandit_id, e.epoch, e.xact
		LIMIT max / 100 + 1 FOR UPDATE SKIP LOCKED),
	-- of both, what was written up to the same transaction; the next removal goes on there
	ends AS MATERIALIZED (
		SELECT least((SELECT max(o.xact) FROM old o HAVING count(*) = max),
			(SELECT max(o.xact) FROM old_batch o HAVING count(*) = max / 100 + 1)) AS xact),
	free AS MATERIALIZED (
		SELECT d.decision_id
		FROM dexp3.decision_rows d JOIN old o USING (decision_id)
		WHERE coalesce(o.xact <= (SELECT e.xact FROM ends e), true)
		FOR UPDATE OF d SKIP LOCKED),
	covered AS MATERIALIZED (
		SELECT o.first_decision, unnest(o.decisions) AS decision_id
		FROM old_batch o
		WHERE coalesce(o.xact <= (SELECT e.xact FROM ends e), true)),
	free_covered AS MATERIALIZED (
		SELECT c.first_decision
		FROM dexp3.decision_rows d JOIN covered c USING (decision_id)
		FOR UPDATE OF d SKIP LOCKED),
	-- a row for many decisions goes if nobody else has one of them, as far as they are there
	free_batch AS (
		SELECT first_decision
		FROM (SELECT c.first_decision, 0 AS n FROM covered c
			UNION ALL SELECT c.first_decision, 1 FROM covered c JOIN dexp3.decision_rows d USING (decision_id)
			UNION ALL SELECT f.first_decision, -1 FROM free_covered f) _
		GROUP BY first_decision HAVING sum(n) = 0),
	settled AS (
		DELETE FROM dexp3.feedback_rows f USING free WHERE f.decision_id = free.decision_id
		RETURNING f.*),
	expired AS (
		DELETE FROM dexp3.expiry_rows e USING free_batch b WHERE e.first_decision = b.first_decision
		RETURNING e.*),
	expired_each AS (
		SELECT e.*, unnest(e.decisions) AS decision_id FROM expired e),
	single AS (
		DELETE FROM dexp3.decision_rows d USING settled f WHERE d.decision_id = f.decision_id
		RETURNING int8range(d.decision_id, d.decision_id, '[]') AS id, d.decision_id, d.arm, d.outstanding, d.decided_at,
			greatest(d.delay, f.delay) AS delay, f.loss AS l, f.probability AS p, f.estimate, f.expected, f.lbck, f.expired,
			-- as addition_of_feedback() does; feedback from before there was a half_life has no decided_at
			f.received_at, least(f.decided_at, f.received_at) AS counts_from, f.xact AS settler, greatest(d.xact, f.xact) AS newest, d.mass AS allowed,
			coalesce(f.mass, 1) AS mass, coalesce(f.baseline, 0) AS baseline, d.gamma),
	together AS (
		DELETE FROM dexp3.decision_rows d USING expired_each e
		-- found by its identifier, and by no other index
		WHERE d.decision_id = e.decision_id AND d.bandit_id + 0 = e.bandit_id AND d.epoch + 0 = e.epoch
		RETURNING int8range(d.decision_id, d.decision_id, '[]') AS id, d.decision_id, d.arm, d.outstanding, d.decided_at,
			greatest(d.delay, e.round - d.round, 0) AS delay, e.loss AS l, d.probability AS p, NULL::float8 AS estimate,
			NULL::float8 AS expected, NULL::float8 AS lbck, true AS expired,
			e.received_at, least(d.decided_at, e.received_at) AS counts_from, e.xact AS settler, greatest(d.xact, e.xact) AS newest, d.mass AS allowed,
			coalesce(d.mass, 1) AS mass, coalesce(e.baseline, 0) AS baseline, d.gamma),
	pair AS (
		SELECT * FROM single UNION ALL SELECT * FROM together),
	learned AS (
		SELECT p.*, b.half_life, CASE WHEN abs(l - low) > 1e-150 THEN (l - low) / range ELSE 0 END AS share,
			-- the square of a very small loss would be an error (underflow)
			CASE WHEN abs(l) > 1e-150 THEN l / p END AS w
		FROM pair p CROSS JOIN bandit b),
	arm AS (
		SELECT i, coalesce(sum(dexp3.faded(coalesce(estimate, (share - baseline) / (p + gamma)), 1, counts_from, half_life, half_lives)), 0) AS z,
			count(decision_id)::float8 AS decisions, count(l)::float8 AS settled,
			coalesce(sum(l), 0) AS loss, coalesce(sum(1 / p), 0) AS inverse, coalesce(sum(1 / p / p), 0) AS inverse2,
			coalesce(sum(l / p), 0) AS weighted, coalesce(sum(l / p / p), 0) AS weighted_inverse,
			coalesce(sum(w * w), 0) AS weighted2, coalesce(sum(expected), 0) AS m
		FROM (SELECT generate_series(1, arms) AS i FROM bandit) i FULL JOIN learned ON arm = i
		GROUP BY i),
	written AS (
		INSERT INTO dexp3.trimmed_rows
		SELECT min(decision_id), trim_settled.bandit_id, trim_settled.epoch, pg_current_xact_id(), max(newest),
			range_agg(id), coalesce(range_agg(id) FILTER (WHERE l IS NULL), '{}'),
			coalesce(range_agg(id) FILTER (WHERE expired), '{}'), count(*), count(*) FILTER (WHERE l IS NULL),
			count(*) FILTER (WHERE expired), sum(outstanding)::float8, max(delay), max(decided_at),
			max(received_at) FILTER (WHERE l IS NOT NULL AND expired IS NULL), coalesce(sum(lbck), 0),
			(SELECT ARRAY[array_agg(z ORDER BY i), array_agg(m ORDER BY i), array_agg(0::float8), array_agg(0::float8),
				array_agg(0::float8),
				array_agg(decisions ORDER BY i), array_agg(decisions ORDER BY i), array_agg(settled ORDER BY i),
				array_agg(loss ORDER BY i), array_agg(inverse ORDER BY i), array_agg(inverse2 ORDER BY i),
				array_agg(weighted ORDER BY i), array_agg(weighted_inverse ORDER BY i),
				array_agg(weighted2 ORDER BY i)] FROM arm),
			half_lives, coalesce(sum(dexp3.faded(1, 1, counts_from, half_life, half_lives)) FILTER (WHERE l IS NOT NULL), 0),
			coalesce(sum(dexp3.faded(share, 1, counts_from, half_life, half_lives)) FILTER (WHERE l IS NOT NULL), 0),
			coalesce(sum(dexp3.faded(share - baseline, mass, counts_from, half_life, half_lives))
				FILTER (WHERE l IS NOT NULL), 0), count(allowed)
		FROM learned
		HAVING count(*) > 0)
	SELECT count(*), max(settler) FROM pair;
END;

COMMENT ON FUNCTION dexp3.trim_settled(integer, integer, timestamptz, bigint, xid8, xid8, xid8[], bigint, bigint)
	IS 'replace old decisions that were settled by their sums';

-- For bandit_trim.  Nothing is learned any more from decisions before the last reset:
-- settled or not, they are remembered as skipped.
CREATE FUNCTION dexp3.trim_earlier_epochs(bandit_id integer, epoch integer, decided_before timestamptz) RETURNS bigint
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	WITH removed AS (
		DELETE FROM dexp3.decision_rows d
		WHERE d.bandit_id = trim_earlier_epochs.bandit_id AND d.epoch < trim_earlier_epochs.epoch
			AND d.decided_at < decided_before
		RETURNING d.epoch, d.decision_id, d.decided_at, int8range(d.decision_id, d.decision_id, '[]') AS id),
	settled AS (
		DELETE FROM dexp3.feedback_rows f USING removed r WHERE f.decision_id = r.decision_id),
	expired AS (
		DELETE FROM dexp3.expiry_rows e
		WHERE e.bandit_id = trim_earlier_epochs.bandit_id AND e.epoch < trim_earlier_epochs.epoch
			AND e.received_at < decided_before),
	written AS (
		INSERT INTO dexp3.trimmed_rows
		SELECT min(r.decision_id), trim_earlier_epochs.bandit_id, r.epoch, pg_current_xact_id(), '0', range_agg(id),
			range_agg(id), '{}', count(*), count(*), 0, 0, 0, max(r.decided_at), NULL, 0, '{}', 0, 0, 0, 0, 0
		FROM removed r
		GROUP BY r.epoch)
	SELECT count(*) FROM removed;
END;

COMMENT ON FUNCTION dexp3.trim_earlier_epochs(integer, integer, timestamptz)
	IS 'remove old decisions from before the last reset';

REVOKE ALL ON FUNCTION dexp3.trim_settled(integer, integer, timestamptz, bigint, xid8, xid8, xid8[], bigint, bigint)
	FROM PUBLIC;
REVOKE ALL ON FUNCTION dexp3.trim_earlier_epochs(integer, integer, timestamptz) FROM PUBLIC;

--
-- Reports
--
-- They are made from the sums that all sessions share, not from the log.  They read
-- dexp3.bandit with the rights of the role that asks.  Their first statement makes
-- sure that a role that may not use the bandit gets an error, not an empty report.
--

CREATE FUNCTION dexp3.bandit_id_of(bandit text) RETURNS integer
	LANGUAGE C STABLE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'dexp3_bandit_id_of';

COMMENT ON FUNCTION dexp3.bandit_id_of(text)
	IS 'the identifier of a bandit, which must exist and be for the current user';

CREATE FUNCTION dexp3.checked_policy(policy double precision[], arms integer) RETURNS double precision[]
	LANGUAGE C IMMUTABLE PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'dexp3_checked_policy';

COMMENT ON FUNCTION dexp3.checked_policy(double precision[], integer)
	IS 'a distribution over so many arms, or an error';

-- SQL makes an error of what is too small to be a number; here that is 0.
CREATE FUNCTION dexp3.product(double precision, double precision, double precision DEFAULT 1) RETURNS double precision
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'dexp3_product';

COMMENT ON FUNCTION dexp3.product(double precision, double precision, double precision)
	IS 'a product, which may be too small to be a number: 0';

CREATE FUNCTION dexp3.ratio(double precision, double precision) RETURNS double precision
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', 'dexp3_ratio';

COMMENT ON FUNCTION dexp3.ratio(double precision, double precision)
	IS 'a ratio, which may be too small to be a number: 0; null if the second number is 0';

CREATE FUNCTION dexp3.totals(
	bandit text,
	OUT rounds bigint,
	OUT open bigint,
	OUT skipped bigint,
	OUT expired bigint,
	OUT total_delay double precision,
	OUT longest_delay bigint,
	OUT step_size double precision,
	OUT total_loss double precision,
	OUT regret_bound double precision,
	OUT regret_estimate double precision,
	OUT last_decision timestamptz,
	OUT last_feedback timestamptz,
	OUT total_reward double precision
) RETURNS record
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'dexp3_totals';

COMMENT ON FUNCTION dexp3.totals(text) IS 'counts and sums over all decisions of a bandit';

-- "settled" counts the decisions that have a loss, so not those that were skipped.
-- p and l are the probability and the loss of each of them.
CREATE FUNCTION dexp3.arm_totals(bandit text, all_nodes boolean DEFAULT false) RETURNS TABLE (
	arm integer,
	decisions bigint,
	settled bigint,
	open bigint,
	loss double precision,				-- sum of l
	inverse double precision,			-- sum of 1 / p
	inverse2 double precision,			-- sum of 1 / p^2
	weighted double precision,			-- sum of l / p
	weighted_inverse double precision,	-- sum of l / p^2
	weighted2 double precision,			-- sum of (l / p)^2
	left_out bigint						-- settled decisions that are not in these
)
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'dexp3_arm_totals';

COMMENT ON FUNCTION dexp3.arm_totals(text, boolean) IS 'sums over the decisions of each arm of a bandit';

CREATE FUNCTION @extschema@.bandit_report(bandit text, all_nodes boolean DEFAULT false) RETURNS TABLE (
	arm text,
	decisions bigint,
	settled bigint,
	open bigint,
	mean_loss double precision,
	estimate double precision,
	estimate_low double precision,
	estimate_high double precision,
	probability double precision,
	mean_reward double precision,
	unit text,
	left_out bigint
)
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT dexp3.bandit_id_of(bandit_report.bandit);
	SELECT a.name, coalesce(t.decisions, 0), coalesce(t.settled + t.left_out, 0), coalesce(t.open, 0), m.loss,
		CASE b.goal WHEN 'reward' THEN u.both - e.estimate ELSE e.estimate END,
		CASE b.goal WHEN 'reward' THEN u.both - i.high ELSE i.low END,
		CASE b.goal WHEN 'reward' THEN u.both - i.low ELSE i.high END,
		coalesce(p.probability, 0), u.both - m.loss, coalesce(b.goal, 'loss'), coalesce(t.left_out, 0)
	FROM dexp3.bandit b
		CROSS JOIN LATERAL unnest(b.arms) WITH ORDINALITY AS a (name, arm)
		LEFT JOIN dexp3.arm_totals(bandit_report.bandit, bandit_report.all_nodes) t ON t.arm = a.arm
		CROSS JOIN LATERAL (
			SELECT r AS estimate, dexp3.ratio(sqrt(dexp3.ratio(dexp3.product(greatest(t.weighted2
				- dexp3.product(2, r, t.weighted_inverse) + dexp3.product(r, r, t.inverse2), 0), t.settled),
				t.settled - 1)), t.inverse) AS error
			FROM (SELECT dexp3.ratio(t.weighted, t.inverse) AS r) s) e
		CROSS JOIN LATERAL (
			SELECT greatest(e.estimate - 1.959964 * e.error, b.loss_range[1]) AS low,
				least(e.estimate + 1.959964 * e.error, b.loss_range[2]) AS high) i
		CROSS JOIN LATERAL (SELECT dexp3.ratio(t.loss, t.settled) AS loss) m
		-- a loss and the reward that it is make this together
		CROSS JOIN LATERAL (SELECT b.loss_range[1] + b.loss_range[2] AS both) u
		LEFT JOIN @extschema@.bandit_probabilities(bandit_report.bandit) p ON p.arm = a.name
	WHERE b.bandit_id = dexp3.bandit_id_of(bandit_report.bandit)
	-- with a goal, the best at the top
	ORDER BY b.goal IS NOT NULL AND a.name = ANY (b.retired), CASE WHEN b.goal IS NOT NULL THEN e.estimate END, a.arm;
END;

COMMENT ON FUNCTION @extschema@.bandit_report(text, boolean)
	IS 'what is known about each arm of a managed bandit, on this server or on all';

CREATE FUNCTION @extschema@.bandit_evaluate(bandit text, policy double precision[]) RETURNS TABLE (
	estimator text,
	loss double precision,
	loss_low double precision,
	loss_high double precision,
	reward double precision,
	reward_low double precision,
	reward_high double precision
)
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT dexp3.checked_policy(bandit_evaluate.policy, cardinality(b.arms))
	FROM dexp3.bandit_id_of(bandit_evaluate.bandit) id LEFT JOIN dexp3.bandit b ON b.bandit_id = id;
	WITH share AS (
		SELECT p.weight, t.*
		FROM dexp3.bandit b
			CROSS JOIN LATERAL unnest(bandit_evaluate.policy) WITH ORDINALITY AS p (weight, number)
			JOIN dexp3.arm_totals(bandit_evaluate.bandit) t ON t.arm = p.number
		WHERE b.bandit_id = dexp3.bandit_id_of(bandit_evaluate.bandit)),
	total AS (
		SELECT nullif(sum(settled), 0)::double precision AS n,
			sum(dexp3.product(weight, weighted)) AS weighted, sum(dexp3.product(weight, inverse)) AS inverse,
			sum(dexp3.product(weight, weight, weighted2)) AS weighted2,
			sum(dexp3.product(weight, weight, weighted_inverse)) AS weighted_inverse,
			sum(dexp3.product(weight, weight, inverse2)) AS inverse2
		FROM share),
	estimate AS (
		SELECT 'ips' AS estimator, m AS loss, error
		FROM total, LATERAL (SELECT dexp3.ratio(weighted, n) AS m) s,
			LATERAL (SELECT sqrt(dexp3.ratio(greatest(dexp3.ratio(weighted2, n) - dexp3.product(m, m), 0), n - 1)) AS error) e
		UNION ALL
		SELECT 'self-normalised', r, error
		FROM total, LATERAL (SELECT dexp3.ratio(weighted, inverse) AS r) s,
			LATERAL (SELECT dexp3.ratio(sqrt(dexp3.ratio(dexp3.product(greatest(weighted2
				- dexp3.product(2, r, weighted_inverse) + dexp3.product(r, r, inverse2), 0), n), n - 1)), inverse) AS error) e)
	SELECT e.estimator, e.loss, i.low, i.high, u.both - e.loss, u.both - i.high, u.both - i.low
	FROM dexp3.bandit b CROSS JOIN estimate e
		CROSS JOIN LATERAL (SELECT e.loss - 1.959964 * e.error AS low, e.loss + 1.959964 * e.error AS high) i
		CROSS JOIN LATERAL (SELECT b.loss_range[1] + b.loss_range[2] AS both) u
	WHERE b.bandit_id = dexp3.bandit_id_of(bandit_evaluate.bandit);
END;

COMMENT ON FUNCTION @extschema@.bandit_evaluate(text, double precision[])
	IS 'what another distribution over the arms of a managed bandit would have lost on average';

CREATE FUNCTION @extschema@.bandit_regret_bound(bandit text, delta double precision DEFAULT 0.05) RETURNS double precision
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION @extschema@.bandit_regret_bound(text, double precision)
	IS 'the bound on the regret of a managed bandit that is proven for what has been seen; null if none is';

CREATE FUNCTION @extschema@.bandit_regret_estimate(bandit text) RETURNS double precision
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION @extschema@.bandit_regret_estimate(text)
	IS 'what a managed bandit, if it is self-tuned, takes its own regret to be; null for other algorithms';

CREATE FUNCTION dexp3.newest_feedback(bandit text, newest integer) RETURNS TABLE (
	round bigint,						-- of the decision
	decided_at timestamptz,
	delay bigint,
	duration interval
)
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'dexp3_newest_feedback';

COMMENT ON FUNCTION dexp3.newest_feedback(text, integer)
	IS 'how long the newest feedback of a bandit took, among so many of the newest rows of dexp3.feedback';

-- The last of the candidates is the window that was asked about.
CREATE FUNCTION @extschema@.bandit_delays(
	bandit text,
	feedback_window interval DEFAULT NULL,
	newest integer DEFAULT 10000
) RETURNS TABLE (
	quantile double precision,
	rounds bigint,
	duration interval,
	lost double precision,
	open double precision
)
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	WITH arrived AS MATERIALIZED (
		SELECT f.* FROM dexp3.newest_feedback(bandit_delays.bandit, bandit_delays.newest) f),
	candidate AS (
		SELECT q.quantile, percentile_disc(q.quantile) WITHIN GROUP (ORDER BY a.duration) AS duration
		FROM arrived a CROSS JOIN unnest(ARRAY[0.5, 0.75, 0.9, 0.95, 0.99, 1]) AS q (quantile)
		GROUP BY q.quantile
		UNION ALL
		SELECT avg((a.duration <= bandit_delays.feedback_window)::integer), bandit_delays.feedback_window
		FROM arrived a
		WHERE bandit_delays.feedback_window IS NOT NULL
		HAVING count(*) > 0)
	SELECT c.quantile, percentile_disc(c.quantile) WITHIN GROUP (ORDER BY a.delay), c.duration,
		avg((a.duration > c.duration)::integer)::double precision,
		round(extract(epoch FROM c.duration) * (max(a.round) - min(a.round))
			/ nullif(extract(epoch FROM max(a.decided_at) - min(a.decided_at)), 0))::double precision
	FROM candidate c CROSS JOIN arrived a
	GROUP BY c.quantile, c.duration
	ORDER BY c.duration, c.quantile;
END;

COMMENT ON FUNCTION @extschema@.bandit_delays(text, interval, integer)
	IS 'how long the feedback of a managed bandit took, and what a feedback window would lose';

-- The most important comes first.  Triggers have counted the warnings.
CREATE FUNCTION dexp3.advice(bandit text, warnings bigint) RETURNS TABLE (severity text, advice text)
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	COST 1000 ROWS 1
	AS 'MODULE_PATHNAME', 'dexp3_advice';

COMMENT ON FUNCTION dexp3.advice(text, bigint) IS 'what is wrong with a bandit, and what to do about it';

CREATE FUNCTION @extschema@.bandit_advice(bandit text DEFAULT NULL) RETURNS TABLE (
	bandit text,
	severity text,
	advice text
)
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	ROWS 10
BEGIN ATOMIC
	SELECT dexp3.bandit_id_of($1) WHERE $1 IS NOT NULL;
	WITH recent AS (
		SELECT w.bandit_id, count(*) AS warnings
		FROM dexp3.warning w
		WHERE w.warned_at > now() - interval '7 days'
		GROUP BY w.bandit_id),
	said AS (
		SELECT b.name, a.severity, a.advice, a.n
		FROM dexp3.bandit b LEFT JOIN recent w USING (bandit_id)
			CROSS JOIN LATERAL dexp3.advice(b.name, coalesce(w.warnings, 0)) WITH ORDINALITY AS a (severity, advice, n)
		WHERE $1 IS NULL OR b.bandit_id = dexp3.bandit_id_of($1)
		UNION ALL
		SELECT NULL, 'problem', format('Triggers have failed to report outcomes of decisions that are of no bandit,'
			' or of one that you may not use, %s in the last 7 days: see dexp3.warning for the reasons.', sum(w.warnings)), 1
		FROM recent w
		WHERE $1 IS NULL AND NOT EXISTS (SELECT FROM dexp3.bandit b WHERE b.bandit_id = w.bandit_id)
		HAVING count(*) > 0)
	SELECT s.name, s.severity, s.advice
	FROM said s
	ORDER BY s.severity <> 'problem', s.name, s.n;
END;

COMMENT ON FUNCTION @extschema@.bandit_advice(text)
	IS 'what is wrong with a managed bandit, or with any, and what to do about it';

CREATE VIEW dexp3.overview WITH (security_invoker = true) AS
	WITH recent AS (
		SELECT w.bandit_id, count(*) AS warnings
		FROM dexp3.warning w
		WHERE w.warned_at > now() - interval '7 days'
		GROUP BY w.bandit_id)
	SELECT b.name AS bandit, b.algorithm, t.rounds, t.open, t.skipped, t.expired, t.total_delay, t.longest_delay,
		t.step_size, t.total_loss, t.regret_bound, t.regret_estimate, t.last_decision, t.last_feedback,
		(SELECT a.advice FROM dexp3.advice(b.name, coalesce(w.warnings, 0)) a LIMIT 1) AS advice,
		b.goal, t.total_reward, coalesce(w.warnings, 0) AS warnings
	FROM dexp3.bandit b CROSS JOIN LATERAL dexp3.totals(b.name) t LEFT JOIN recent w USING (bandit_id)
	UNION ALL
	SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
		sum(w.warnings)::bigint
	FROM recent w
	WHERE NOT EXISTS (SELECT FROM dexp3.bandit b WHERE b.bandit_id = w.bandit_id)
	HAVING count(*) > 0;

COMMENT ON VIEW dexp3.overview IS 'how the bandits that one may use are doing';

GRANT SELECT ON dexp3.overview TO PUBLIC;

--
-- Several servers
--

CREATE FUNCTION @extschema@.bandit_node(node integer DEFAULT NULL) RETURNS integer
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION @extschema@.bandit_node(integer)
	IS 'the number of this server among those that share bandits; it is set unless it is null';

CREATE FUNCTION @extschema@.bandit_share(bandit text, shared boolean DEFAULT true) RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION @extschema@.bandit_share(text, boolean)
	IS 'let a managed bandit learn together with those of the same name on other servers';

CREATE FUNCTION @extschema@.bandit_pull(server name) RETURNS bigint
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION @extschema@.bandit_pull(name)
	IS 'fetch what is new in dexp3.component of a foreign server';

CREATE FUNCTION @extschema@.bandit_forget_node(node integer, bandit text DEFAULT NULL) RETURNS bigint
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION @extschema@.bandit_forget_node(integer, text)
	IS 'let what a server has published count no longer, for one managed bandit or for all';

CREATE FUNCTION dexp3.node_totals(bandit text) RETURNS TABLE (
	node integer,
	own boolean,
	epoch integer,
	rounds bigint,
	settled bigint,
	losses double precision,
	written_at timestamptz,
	counts boolean,
	why text
)
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'dexp3_node_totals';

COMMENT ON FUNCTION dexp3.node_totals(text) IS 'what each server has published of a shared bandit';

CREATE VIEW dexp3.nodes WITH (security_invoker = true) AS
	SELECT b.name AS bandit, n.node, n.own, n.epoch, n.rounds, n.settled, n.losses, n.written_at,
		clock_timestamp() - n.written_at AS age, n.counts, n.why
	FROM dexp3.bandit b CROSS JOIN LATERAL dexp3.node_totals(b.name) n
	WHERE b.shared;

COMMENT ON VIEW dexp3.nodes IS 'the servers that share the bandits that one may use, and whether what they have published counts';

GRANT SELECT ON dexp3.nodes TO PUBLIC;

--
-- Pictures
--

CREATE FUNCTION @extschema@.bandit_chart(bandit text, kind text DEFAULT 'share') RETURNS text
	LANGUAGE C STABLE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION @extschema@.bandit_chart(text, text)
	IS 'an SVG document that shows how a managed bandit is doing: share, loss, delay or regret';

CREATE FUNCTION @extschema@.bandit_page(bandit text DEFAULT NULL) RETURNS text
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION @extschema@.bandit_page(text)
	IS 'an HTML document about a managed bandit, or about all that one may use';

--
-- Audit
--

CREATE FUNCTION @extschema@.bandit_verify(bandit text) RETURNS boolean
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION @extschema@.bandit_verify(text)
	IS 'whether the sums of a managed bandit are those of its log, added up from the start';
