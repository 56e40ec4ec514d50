-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION dexp3 UPDATE TO '1.1'" to load this file. \quit

--
-- Managed bandits: the tables
--

-- bandit_create asks for it; the default could call somebody else's nextval(text)
ALTER TABLE dexp3.bandit ALTER COLUMN bandit_id DROP DEFAULT;

ALTER TABLE dexp3.bandit
	ADD COLUMN feedback_window interval,
	ADD COLUMN missing_loss double precision NOT NULL DEFAULT 1,
	ADD COLUMN history interval,
	ADD COLUMN sticky boolean NOT NULL DEFAULT false,
	ADD COLUMN loss_range double precision[] NOT NULL DEFAULT '{0,1}',
	ADD COLUMN clamp boolean NOT NULL DEFAULT false,
	ADD COLUMN retired text[] NOT NULL DEFAULT '{}',
	ADD COLUMN head_start double precision[] NOT NULL DEFAULT '{}';

COMMENT ON COLUMN dexp3.feedback.estimate IS 'the loss estimate: the loss, as a share of its range, / (probability + gamma)';
COMMENT ON COLUMN dexp3.bandit.feedback_window IS 'how long feedback is waited for; null: without end';
COMMENT ON COLUMN dexp3.bandit.missing_loss IS 'the loss of a decision whose feedback does not come in time';
COMMENT ON COLUMN dexp3.bandit.history IS 'how long settled decisions are kept in the log; null: for ever';
COMMENT ON COLUMN dexp3.bandit.sticky IS 'whether a subject gets its open decision again instead of a new one';
COMMENT ON COLUMN dexp3.bandit.loss_range IS 'the smallest and the largest loss';
COMMENT ON COLUMN dexp3.bandit.clamp IS 'whether losses beyond the range are moved to its ends, not refused';
COMMENT ON COLUMN dexp3.bandit.retired IS 'arms that are not drawn any more';
COMMENT ON COLUMN dexp3.bandit.head_start IS 'the sum of loss estimates that each arm began with, 0 where it is missing';

ALTER TABLE dexp3.decision ADD COLUMN subject text COLLATE "C";
CREATE INDEX decision_subject_idx ON dexp3.decision (bandit_id, subject, decision_id)
	WHERE subject IS NOT NULL;
COMMENT ON COLUMN dexp3.decision.subject IS 'who it was for, as given to bandit_choose';

ALTER TABLE dexp3.feedback ADD COLUMN expired boolean;
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

CREATE TRIGGER log_arrival BEFORE INSERT ON dexp3.trimmed
	FOR EACH ROW EXECUTE FUNCTION dexp3.log_arrival();
CREATE TRIGGER log_truncated AFTER TRUNCATE ON dexp3.trimmed
	FOR EACH STATEMENT EXECUTE FUNCTION dexp3.log_truncated();
ALTER TABLE dexp3.trimmed ENABLE ALWAYS TRIGGER log_arrival;
ALTER TABLE dexp3.trimmed ENABLE ALWAYS TRIGGER log_truncated;

SELECT pg_catalog.pg_extension_config_dump('dexp3.trimmed', '');

ALTER TABLE dexp3.trimmed ENABLE ROW LEVEL SECURITY;
CREATE POLICY may_use ON dexp3.trimmed FOR SELECT USING (dexp3.may_use(bandit_id));
COMMENT ON POLICY may_use ON dexp3.trimmed IS 'only bandits that one may use';

--
-- Managed bandits: functions with new arguments
--

DROP FUNCTION bandit_create(text, text[], text, boolean, integer, integer, double precision);
DROP FUNCTION bandit_choose(text, integer);
DROP FUNCTION bandit_choose_each(text, anyelement, integer);

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

COMMENT ON FUNCTION bandit_feedback(bigint, double precision)
	IS 'settle a decision with its loss: applied, duplicate, skipped or expired';
COMMENT ON FUNCTION bandit_reward(bigint, double precision)
	IS 'settle a decision with a reward: the loss is as far from the other end of its range';
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

-- They belong to whom the other tables belong to, which need not be who updates.
DO $$
DECLARE
	owner pg_catalog.name := pg_catalog.pg_get_userbyid(relowner)
		FROM pg_catalog.pg_class WHERE oid = 'dexp3.bandit'::pg_catalog.regclass;
BEGIN
	EXECUTE pg_catalog.format('ALTER TABLE dexp3.trimmed OWNER TO %I', owner);
	EXECUTE pg_catalog.format('ALTER VIEW dexp3.arm_totals OWNER TO %I', owner);
	EXECUTE pg_catalog.format('ALTER VIEW dexp3.overview OWNER TO %I', owner);
END
$$;

-- Those of version 1.0 again: it granted before the owner was set, so that a dump
-- took the rights for changed.
GRANT USAGE ON SCHEMA dexp3 TO PUBLIC;
GRANT SELECT ON dexp3.bandit, dexp3.decision, dexp3.feedback, dexp3.pending TO PUBLIC;
GRANT SELECT ON dexp3.trimmed, dexp3.arm_totals, dexp3.overview TO PUBLIC;

CREATE FUNCTION @extschema@.bandit_chart(bandit text, kind text DEFAULT 'share') RETURNS text
	LANGUAGE C STABLE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION @extschema@.bandit_chart(text, text)
	IS 'an SVG document that shows how a managed bandit is doing: share, loss or delay';
