-- What a monitoring role needs: run this as a superuser in each database with bandits.
--
--   psql -X -v role=prometheus -f setup.sql shop
--
-- Whoever may use a bandit may choose and give feedback, too, so a role that only
-- watches gets no bandit.  It gets a function instead, which shows the figures of all
-- bandits, and nothing else.  The function's body is a string, so that updates and DROP
-- EXTENSION find nothing that depends on the views.  Running this again replaces it.

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
	last_decision_age_seconds double precision,
	last_feedback_age_seconds double precision
)
	LANGUAGE sql VOLATILE SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp
	AS $$
	SELECT o.bandit, o.algorithm, o.rounds, o.open, o.rounds - o.open - o.skipped - o.expired, o.skipped, o.expired,
		o.longest_delay, o.total_loss, o.regret_estimate,
		o.regret_estimate / nullif(o.rounds * (b.loss_range[2] - b.loss_range[1]), 0),
		extract(epoch FROM clock_timestamp() - coalesce(o.last_decision, b.created_at)),
		extract(epoch FROM clock_timestamp() - coalesce(o.last_feedback, b.created_at))
	FROM dexp3.overview o JOIN dexp3.bandit b ON b.name = o.bandit
$$;

REVOKE ALL ON SCHEMA dexp3_monitoring FROM PUBLIC;
REVOKE ALL ON FUNCTION dexp3_monitoring.bandits() FROM PUBLIC;
GRANT USAGE ON SCHEMA dexp3_monitoring TO :"role";
GRANT EXECUTE ON FUNCTION dexp3_monitoring.bandits() TO :"role";

COMMIT;
