-- Missing feedback and retention. Time does not pass in these tests: a window or
-- retention of 0 makes everything due that an earlier statement has done. What
-- several sessions do at once is in t/016_upkeep.pl.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

CREATE SCHEMA upkeep;

-- What a bandit knows, without what may differ by rounding
CREATE FUNCTION upkeep.known(bandit text) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_object_agg(key, CASE WHEN key IN ('z', 'm', 'lbck', 'z_tie', 'm_tie')
                                      THEN (SELECT jsonb_agg(round(v::numeric, 6)) FROM jsonb_path_query(value, '$[*]') v)
                                      ELSE value END)
    FROM jsonb_each(bandit_current_state(bandit)::jsonb)
$$;

-- A report likewise
CREATE FUNCTION upkeep.report(bandit text) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(jsonb_build_array(r.arm, r.decisions, r.settled, r.open) || (
               SELECT jsonb_agg(round(n::numeric, 6))
               -- with a window, averages leave out the newest decisions, but not if they have been trimmed
               FROM unnest(CASE WHEN b.feedback_window IS NULL
                                THEN ARRAY[r.mean_loss, r.estimate, r.estimate_low, r.estimate_high, r.probability]
                                ELSE ARRAY[r.probability] END) n))
    FROM bandit_report(bandit) r, dexp3.bandit b WHERE b.name = bandit
$$;

SELECT setseed(0.2);

--
-- Missing feedback
--

-- A window turns skipping off, unless it is asked for; the missing loss is the
-- worst, unless it is given.
SELECT bandit_create('hour', '{a,b}', 'dada', feedback_window => '1 hour'),
       bandit_create('both', '{a,b}', 'dada', feedback_window => '1 hour', skipping => true, missing_loss => 0.25),
       bandit_create('units', '{a,b}', 'dada', feedback_window => '0', loss_range => '{0,20}'),
       bandit_create('now', '{a,b}', 'dada', feedback_window => '0', missing_loss => 0.5),
       bandit_create('deda', '{a,b}', 'deda', max_delay => 3, feedback_window => '0'),
       bandit_create('never', '{a,b}', 'dada') \gset
SELECT name, skipping, feedback_window, missing_loss FROM dexp3.bandit
WHERE name IN ('hour', 'both', 'units', 'now', 'deda', 'never') ORDER BY bandit_id;

-- Nothing is due yet, or ever.
SELECT count(*) FROM bandit_choose_many('hour', 3);
SELECT count(*) FROM bandit_choose_many('never', 3);
SELECT bandit_expire('hour'), bandit_expire('never');

-- bandit_expire settles all that is due, as feedback would.
SELECT min(decision_id) AS first FROM bandit_choose_many('now', 5) \gset
SELECT bandit_feedback(:first + 1, 0);
SELECT bandit_expire('now');
SELECT f.decision_id - :first AS n, f.round, f.delay, f.loss, f.expired, abs(f.estimate - f.loss / d.probability) < 1e-12 AS estimate
FROM dexp3.settled f JOIN dexp3.decision d USING (decision_id) WHERE f.decision_id >= :first ORDER BY 1;
SELECT count(*) FROM dexp3.pending WHERE bandit = 'now';
SELECT bandit_feedback(:first, 0.1), bandit_feedback(:first, 0.1), bandit_feedback(:first + 1, 0.1);
SELECT bandit_expire('now');
SELECT bandit_verify('now');

-- When a choose is committed, what is due expires, but not more than 200: a backlog shrinks. One
-- row is enough for many.
SELECT count(*) FROM bandit_choose_many('now', 500);
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('now');
SELECT count(*) FROM dexp3.pending WHERE bandit = 'now';
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('now');
SELECT count(*) FROM dexp3.pending WHERE bandit = 'now';
SELECT count(*) FROM bandit_choose_many('now', 4);
SELECT count(*) FROM dexp3.pending WHERE bandit = 'now';
SELECT cardinality(decisions) AS decisions, loss, first_decision = decisions[1] AS first,
       last_decision = decisions[cardinality(decisions)] AS last, e.round, baseline
FROM dexp3.expiry e JOIN dexp3.bandit USING (bandit_id) WHERE name = 'now' ORDER BY first_decision;
SELECT count(*), count(*) FILTER (WHERE expired) AS expired, count(DISTINCT decision_id) AS decisions
FROM dexp3.settled JOIN dexp3.bandit USING (bandit_id) WHERE name = 'now';
SELECT bandit_verify('now');

-- A choose that is rolled back lets nothing expire, also one to a savepoint.
BEGIN;
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('now');
ROLLBACK;
SELECT count(*) FROM dexp3.pending WHERE bandit = 'now';
BEGIN;
SAVEPOINT a;
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('now');
ROLLBACK TO a;
COMMIT;
SELECT count(*) FROM dexp3.pending WHERE bandit = 'now';

-- What became of the bandit in the meantime is known at the commit.
BEGIN;
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('units');
SELECT bandit_reset('units');
COMMIT;
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('units');
BEGIN;
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('now');
SET TRANSACTION READ ONLY;
COMMIT;
SELECT count(*) FROM dexp3.pending WHERE bandit = 'now';

-- All bandits at once; in their units; deda, too.
SELECT count(*) FROM bandit_choose_many('units', 3);
SELECT count(*) FROM bandit_choose_many('deda', 3);
SELECT bandit_expire();
SELECT DISTINCT name, loss FROM dexp3.settled JOIN dexp3.bandit USING (bandit_id) WHERE expired AND name <> 'now' ORDER BY name;
SELECT name, bandit_verify(name) FROM unnest('{hour,both,units,now,deda}'::text[]) name;

-- Rolled back, it has not expired.
SELECT decision_id AS late FROM bandit_choose('now') \gset
BEGIN;
SELECT bandit_expire('now');
ROLLBACK;
SELECT bandit_feedback(:late, 0.3);

-- A sticky subject does not get a decision again whose feedback is missing.
SELECT bandit_create('come again', '{a,b}', 'dada', feedback_window => '0', sticky => true) \gset
SELECT decision_id AS first FROM bandit_choose('come again', subject => 'ann') \gset
SELECT decision_id > :first AS another FROM bandit_choose('come again', subject => 'ann');

-- A new session knows when open decisions were made, from the log or a checkpoint.
SELECT count(*) FROM bandit_choose_many('now', 600);
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('now');
SELECT count(*) FROM dexp3.checkpoint JOIN dexp3.bandit USING (bandit_id) WHERE name = 'now';
\c -
SELECT bandit_expire('hour'), bandit_expire('now');

-- Triggers that a superuser has put on the table fire, deferred ones, too. They cannot
-- use bandits.
CREATE TABLE upkeep.fired (n integer);
CREATE FUNCTION upkeep.fire() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO upkeep.fired VALUES (cardinality(NEW.decisions));
    RETURN NULL;
END
$$;
CREATE TRIGGER at_once AFTER INSERT ON dexp3.expiry_rows FOR EACH ROW EXECUTE FUNCTION upkeep.fire();
CREATE CONSTRAINT TRIGGER deferred AFTER INSERT ON dexp3.expiry_rows DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION upkeep.fire();
SELECT count(*) FROM bandit_choose_many('now', 3);
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('now');
SELECT n, count(*) FROM upkeep.fired GROUP BY n;
CREATE OR REPLACE FUNCTION upkeep.fire() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM bandit_choose('now');
    RETURN NULL;
END
$$;
DROP TRIGGER at_once ON dexp3.expiry_rows;
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('now');
DROP TRIGGER deferred ON dexp3.expiry_rows;
SELECT bandit_expire('now'), bandit_verify('now');

SELECT bandit_create('bad', '{a,b}', 'dada', feedback_window => '-1 second');
SELECT bandit_create('bad', '{a,b}', 'dada', retention => '-1 second');
SELECT bandit_create('bad', '{a,b}', 'dada', feedback_window => '1 day', missing_loss => 'NaN');
SELECT bandit_create('bad', '{a,b}', 'dada', feedback_window => '1000000 years');
SELECT bandit_create('bad', '{a,b}', 'dada', retention => '1000000 years');
SELECT bandit_expire('nobody');

--
-- Retention
--

SELECT bandit_create('kept', '{a,b,c}', 'dada', retention => '1 day'),
       bandit_create('gone', '{a,b,c}', 'dada', patience => 3, retention => '0'),
       bandit_create('gone deda', '{a,b,c}', 'deda', max_delay => 4, retention => '0', feedback_window => '0'),
       bandit_create('gone ix', '{a,b,c}', 'dada-ix', skipping => false, retention => '0', loss_range => '{0,100}') \gset

-- Some are settled, some skipped, some expired, some open.
CREATE FUNCTION upkeep.play(bandit text, n integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    chosen record;
    outcome text;
BEGIN
    FOR i IN 1 .. n LOOP
        SELECT * INTO chosen FROM bandit_choose(bandit);
        IF i % 3 > 0 THEN
            outcome := bandit_feedback(chosen.decision_id, i % 5 / 5.0);
        END IF;
    END LOOP;
END
$$;
SELECT upkeep.play(name, 100) FROM unnest('{kept,gone,gone deda,gone ix}'::text[]) name;
SELECT bandit_expire();
SELECT upkeep.play(name, 100) FROM unnest('{kept,gone,gone deda,gone ix}'::text[]) name;
CREATE TABLE upkeep.before AS
SELECT name, upkeep.known(name) AS known, upkeep.report(name) AS report
FROM unnest('{kept,gone,gone deda,gone ix}'::text[]) name;
CREATE TABLE upkeep.status AS
SELECT name, d.decision_id, CASE WHEN f.decision_id IS NULL THEN 'open' WHEN f.loss IS NULL THEN 'skipped'
                                 WHEN f.expired THEN 'expired' ELSE 'duplicate' END AS status
FROM dexp3.decision d JOIN dexp3.bandit USING (bandit_id) LEFT JOIN dexp3.settled f USING (decision_id)
WHERE name LIKE 'gone%';
SELECT name, status, count(*) FROM upkeep.status GROUP BY 1, 2 ORDER BY 1, 2;

SELECT bandit_trim('kept');
SELECT name, bandit_trim(name) FROM unnest('{gone,gone deda,gone ix}'::text[]) name;
SELECT bandit_trim();

-- What is left: what is open and, with deda, what was settled in the newest round
SELECT name, count(*) AS decisions, count(f.decision_id) AS settled
FROM dexp3.bandit JOIN dexp3.decision d USING (bandit_id) LEFT JOIN dexp3.feedback f USING (decision_id)
WHERE name LIKE 'gone%' OR name = 'kept' GROUP BY name ORDER BY name;

-- The states and reports are the same, in this session and in a new one, with and
-- without checkpoints.
CREATE FUNCTION upkeep.compare(OUT bandits bigint, OUT same_state bigint, OUT same_report bigint, OUT verified bigint)
LANGUAGE sql AS $$
    SELECT count(*), count(*) FILTER (WHERE known = upkeep.known(name)),
           count(*) FILTER (WHERE report = upkeep.report(name)), count(*) FILTER (WHERE bandit_verify(name))
    FROM upkeep.before
$$;
SELECT * FROM upkeep.compare();
\c -
SELECT * FROM upkeep.compare();
DELETE FROM dexp3.checkpoint;
\c -
SELECT * FROM upkeep.compare();

-- Feedback for what is gone is answered as before; open decisions are settled.
SELECT name, status, answer, count(*)
FROM (SELECT *, bandit_feedback(decision_id, 1) AS answer FROM upkeep.status OFFSET 0) _
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT bandit_feedback(decision_id, 101) FROM upkeep.status WHERE name = 'gone ix' AND status = 'duplicate' LIMIT 1;
SELECT name, bandit_verify(name) FROM unnest('{gone,gone deda,gone ix}'::text[]) name;

-- Trimming goes on, in batches that together are the same.
SELECT upkeep.play(name, 100) FROM unnest('{gone,gone deda,gone ix}'::text[]) name;
UPDATE upkeep.before SET known = upkeep.known(name), report = upkeep.report(name);
BEGIN;
SELECT bandit_trim() > 0 AS trimmed;
SELECT * FROM upkeep.compare();
ROLLBACK;
SELECT * FROM upkeep.compare();
SELECT bandit_trim() > 0 AS trimmed;
SELECT * FROM upkeep.compare();
SELECT count(*) AS rows, sum(rounds) = (SELECT sum(upper(r) - lower(r)) FROM dexp3.trimmed, unnest(decisions) r) AS counted
FROM dexp3.trimmed;

-- Losses whose squares are too small for a number
SELECT bandit_create('tiny', '{a,b}', 'dada', retention => '0') \gset
SELECT bandit_feedback(decision_id, 1e-200) FROM bandit_choose('tiny');
SELECT bandit_feedback(decision_id, 5e-324) FROM bandit_choose('tiny');
SELECT sum(settled), max(estimate) < 1e-100 AS tiny FROM bandit_report('tiny');
SELECT bandit_trim('tiny'), bandit_verify('tiny');
SELECT sum(settled), max(estimate) < 1e-100 AS tiny FROM bandit_report('tiny');
SELECT bandit_drop('tiny');

-- A choose does its share when it writes a checkpoint.
SELECT count(*) FROM bandit_choose_many('gone ix', 800);
SELECT count(bandit_feedback(decision_id, 50)) FROM dexp3.pending WHERE bandit = 'gone ix';
SELECT coalesce(sum(rounds), 0) AS trimmed FROM dexp3.trimmed JOIN dexp3.bandit USING (bandit_id) WHERE name = 'gone ix' \gset
SELECT count(*) FROM bandit_choose_many('gone ix', 800);
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('gone ix');
SELECT sum(rounds) > :trimmed AS trimmed FROM dexp3.trimmed JOIN dexp3.bandit USING (bandit_id) WHERE name = 'gone ix';
SELECT bandit_verify('gone ix');

-- After a reset everything from before may go, and is told so.
SELECT bandit_reset('gone');
SELECT bandit_trim('gone') > 0 AS trimmed;
SELECT count(*) FROM dexp3.decision JOIN dexp3.bandit USING (bandit_id) WHERE name = 'gone';
SELECT bandit_feedback(decision_id, 1) AS answer, count(*) FROM upkeep.status WHERE name = 'gone' GROUP BY 1;
SELECT upkeep.play('gone', 10);
SELECT bandit_trim('gone') > 0 AS trimmed, bandit_verify('gone');

-- After a drop nothing is left.
SELECT bandit_drop('gone');
\set VERBOSITY sqlstate
SELECT bandit_feedback(min(decision_id), 1) FROM upkeep.status WHERE name = 'gone';
\set VERBOSITY default
SELECT count(*) FROM dexp3.trimmed t WHERE NOT EXISTS (SELECT FROM dexp3.bandit b WHERE b.bandit_id = t.bandit_id);

-- Rows that were changed by hand are in the index twice, and the old version is gone.
SELECT count(bandit_create('changed ' || i, '{a,b}', feedback_window => '1 hour')) FROM generate_series(1, 4) i;
SELECT count(*) FROM generate_series(1, 4) i, bandit_choose_many('changed ' || i, 100);
UPDATE dexp3.decision SET decided_at = decided_at - interval '2 hours'
WHERE bandit_id IN (SELECT bandit_id FROM dexp3.bandit WHERE name LIKE 'changed %');
SELECT count(p) FROM generate_series(1, 4) i, bandit_probabilities('changed ' || i) p;
SELECT bandit_expire('changed ' || i) FROM generate_series(1, 4) i;
SELECT count(bandit_drop('changed ' || i)) FROM generate_series(1, 4) i;

-- In a read-only transaction
BEGIN READ ONLY;
SELECT bandit_expire();
ROLLBACK;
BEGIN READ ONLY;
SELECT bandit_trim();
ROLLBACK;

SELECT count(bandit_drop(name)) FROM (SELECT name FROM dexp3.bandit WHERE name IN
    ('hour', 'both', 'units', 'now', 'deda', 'never', 'come again', 'kept', 'gone deda', 'gone ix') OFFSET 0) _;
SET client_min_messages = warning;
DROP SCHEMA upkeep CASCADE;
