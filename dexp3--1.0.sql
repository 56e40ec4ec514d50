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
