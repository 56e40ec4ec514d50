-- What a monitoring role needs: run this as a superuser in each database with bandits.
--
--   psql -X -v role=prometheus -f setup.sql shop
--
-- Whoever may use a bandit may choose and give feedback, too, so a role that only
-- watches gets no bandit.  It gets functions instead, which show the figures of all
-- bandits, and nothing else.  Their bodies are strings, so that updates and DROP
-- EXTENSION find nothing that depends on the views.  Running this again replaces them.

\set ON_ERROR_STOP on
BEGIN;

CREATE SCHEMA IF NOT EXISTS dexp3_monitoring;

DROP FUNCTION IF EXISTS dexp3_monitoring.bandits();
CREATE FUNCTION dexp3_monitoring.bandits() RETURNS TABLE (
	bandit text,
	algorithm text,
	rounds bigint,
	open bigint,
	settled bigint,
	skipped bigint,
	expired bigint,
	longest_delay bigint,
	total_loss double precision,
	regret_estimate double precision,
	regret_share double precision,
	warnings bigint,
	problems bigint,
	last_decision_age_seconds double precision,
	last_feedback_age_seconds double precision
)
	LANGUAGE sql VOLATILE SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT o.bandit, o.algorithm, o.rounds, o.open, o.rounds - o.open - o.skipped - o.expired, o.skipped, o.expired,
		o.longest_delay, o.total_loss, o.regret_estimate,
		o.regret_estimate / nullif(o.rounds * (b.loss_range[2] - b.loss_range[1]), 0),
		o.warnings, (SELECT count(*) FROM dexp3.advice(o.bandit, o.warnings) a WHERE a.severity = 'problem'),
		extract(epoch FROM clock_timestamp() - coalesce(o.last_decision, b.created_at)),
		extract(epoch FROM clock_timestamp() - coalesce(o.last_feedback, b.created_at))
	FROM dexp3.overview o JOIN dexp3.bandit b ON b.name = o.bandit
$$;

-- Warnings of triggers about decisions of no bandit
DROP FUNCTION IF EXISTS dexp3_monitoring.stray_warnings();
CREATE FUNCTION dexp3_monitoring.stray_warnings() RETURNS bigint
	LANGUAGE sql VOLATILE SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT coalesce(sum(warnings), 0)::bigint FROM dexp3.overview WHERE bandit IS NULL
$$;

-- What the servers that share bandits have published
DROP FUNCTION IF EXISTS dexp3_monitoring.nodes();
CREATE FUNCTION dexp3_monitoring.nodes() RETURNS TABLE (
	bandit text,
	node integer,
	own boolean,
	rounds bigint,
	settled bigint,
	age_seconds double precision,
	counts integer
)
	LANGUAGE sql VOLATILE SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT n.bandit, n.node, n.own, n.rounds, n.settled, extract(epoch FROM n.age), n.counts::integer
	FROM dexp3.nodes n
$$;

REVOKE ALL ON SCHEMA dexp3_monitoring FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA dexp3_monitoring FROM PUBLIC;
GRANT USAGE ON SCHEMA dexp3_monitoring TO :"role";
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA dexp3_monitoring TO :"role";

COMMIT;
