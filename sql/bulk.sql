-- Managed bandits in bulk: many rounds in one statement, many bandits with
-- little memory.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

SELECT setseed(0.5);
CREATE SCHEMA bulk;

-- How many of the bandits whose names match have a state that is what the log
-- says: its rounds, its open decisions, its sums of loss estimates
CREATE FUNCTION bulk.compare(pattern text, OUT bandits bigint, OUT agree bigint)
LANGUAGE sql SET enable_nestloop = off SET jit = off AS $$
    WITH state AS MATERIALIZED (
        SELECT b.bandit_id, b.epoch, cardinality(b.arms) AS arms, CAST(bandit_current_state(b.name) AS jsonb) AS s
        FROM dexp3.bandit b WHERE b.name ~ pattern),
    log AS MATERIALIZED (
        SELECT d.bandit_id, d.epoch, d.arm, count(*) AS rounds, count(*) - count(f.decision_id) AS open,
               coalesce(sum(f.loss / (d.probability + d.gamma)), 0) AS z
        FROM dexp3.decision d LEFT JOIN dexp3.feedback f USING (decision_id)
        GROUP BY d.bandit_id, d.epoch, d.arm),
    arm AS MATERIALIZED (
        SELECT bandit_id, epoch, arms, arm, z::float8 AS z, (s ->> 'round')::bigint AS rounds,
               coalesce((s ->> 'outstanding')::bigint, jsonb_array_length(s -> 'open')) AS open
        FROM state, jsonb_array_elements(s -> 'z') WITH ORDINALITY u (z, arm)),
    verdict AS (
        SELECT min(a.rounds) = coalesce(sum(l.rounds), 0)
               AND min(a.open) = coalesce(sum(l.open), 0)
               AND count(a.z) = min(a.arms)
               AND bool_and(abs(a.z - coalesce(l.z, 0)) <= 1e-9 * greatest(1, l.z)) AS agrees
        FROM arm a LEFT JOIN log l USING (bandit_id, epoch, arm)
        GROUP BY bandit_id)
    SELECT count(*), count(*) FILTER (WHERE agrees) FROM verdict
$$;

--
-- One statement, many rounds
--

SELECT bandit_create('patient', '{a,b,c}', 'dada', skipping => false) AS patient_id,
       bandit_create('skipping', '{a,b,c}', 'dada-ix') AS skipping_id,
       bandit_create('bounded', '{a,b,c}', 'deda', max_delay => 5) AS bounded_id \gset
SELECT count(bandit_choose('patient')) AS decisions FROM generate_series(1, 20000);
ANALYZE dexp3.bandit, dexp3.decision, dexp3.feedback;
SELECT count(*) AS decisions, count(DISTINCT round) AS rounds, max(round) AS last, bool_and(outstanding = round - 1) AS outstanding
FROM dexp3.decision WHERE bandit_id = :patient_id;
CREATE TEMP TABLE pending AS SELECT decision_id, round FROM dexp3.pending WHERE bandit = 'patient';
SELECT outcome, count(*)
FROM (SELECT bandit_feedback(decision_id, round % 11 / 10.0) AS outcome FROM pending) f GROUP BY outcome;
DROP TABLE pending;
SELECT outcome, count(*)
FROM (SELECT bandit_reward(decision_id, 0.5) AS outcome FROM dexp3.decision WHERE bandit_id = :patient_id) f GROUP BY outcome;
SELECT count(*) AS feedbacks, round(sum(loss)::numeric, 6) AS losses, min(round) AS first_round, sum(round - 20000) AS rounds
FROM dexp3.feedback WHERE bandit_id = :patient_id;
SELECT * FROM bulk.compare('patient');

-- With skipping: nothing has come, so D_t is about the sum of all waits, and the
-- reference's rule says which rounds are still open.
SELECT count(bandit_choose('skipping')) AS decisions FROM generate_series(1, 20000);
ANALYZE dexp3.bandit, dexp3.decision, dexp3.feedback;
SELECT count(*) AS decisions, count(DISTINCT d.round) AS rounds, count(f.decision_id) AS skipped,
       count(*) FILTER (WHERE f.loss IS NOT NULL) AS settled,
       min(f.round - d.round) AS shortest_wait,
       bool_and(d.round < (SELECT min(round) FROM dexp3.pending WHERE bandit = 'skipping')) FILTER (WHERE f.decision_id IS NOT NULL) AS oldest
FROM dexp3.decision d LEFT JOIN dexp3.feedback f USING (decision_id) WHERE d.bandit_id = :skipping_id;
WITH RECURSIVE wait (round, outstanding, total, first_open) AS (
    SELECT 1::bigint, 0::bigint, 0::bigint, 1::bigint
    UNION ALL
    SELECT round, outstanding, total, CASE WHEN round - first_open > greatest(100, sqrt(total / ln(3.0::float8))) THEN first_open + 1 ELSE first_open END
    FROM (SELECT round + 1 AS round, round + 1 - first_open AS outstanding, total + round + 1 - first_open AS total, first_open FROM wait WHERE round < 20000) w)
SELECT count(*) AS rounds, bool_and(w.outstanding = d.outstanding) AS outstanding,
       (SELECT min(round) FROM dexp3.pending WHERE bandit = 'skipping') = max(w.first_open) AS first_open
FROM wait w JOIN dexp3.decision d ON d.bandit_id = :skipping_id AND d.round = w.round;
CREATE TEMP TABLE outcome AS
SELECT decision_id, bandit_feedback(decision_id, round % 11 / 10.0) AS outcome FROM dexp3.decision WHERE bandit_id = :skipping_id;
SELECT outcome, count(*), count(f.decision_id) AS feedbacks, count(f.loss) AS losses
FROM outcome LEFT JOIN dexp3.feedback f USING (decision_id) GROUP BY outcome ORDER BY outcome;
DROP TABLE outcome;
SELECT * FROM bulk.compare('skipping');

-- Decision and feedback in one statement, many times
SELECT outcome, count(*)
FROM (SELECT bandit_feedback(decision_id, n % 11 / 10.0) AS outcome FROM generate_series(1, 5000) n, bandit_choose_each('bounded', n)) f
GROUP BY outcome;
SELECT * FROM bulk.compare('bounded');

CREATE TABLE bulk.probability AS
SELECT name, p.* FROM unnest(ARRAY['patient', 'skipping', 'bounded']) name, bandit_probabilities(name) p;
\c -
SELECT count(*) AS arms, max(abs(o.probability - p.probability)) < 1e-9 AS same
FROM bulk.probability o, LATERAL (SELECT probability FROM bandit_probabilities(o.name) n WHERE n.arm = o.arm) p;

-- The next transaction leaves a checkpoint, large or small.
SELECT bandit_create('wide', ARRAY(SELECT 'arm ' || n FROM generate_series(1, 500) n), 'deda', max_delay => 5) IS NOT NULL AS created;
SELECT count(bandit_feedback(decision_id, n % 11 / 10.0)) FROM generate_series(1, 1500) n, bandit_choose_each('wide', n);
SELECT name, arm IS NOT NULL AS chosen FROM unnest(ARRAY['patient', 'skipping', 'bounded', 'wide']) name, bandit_choose_each(name, name);
SELECT name, count(c.*) > 0 AS checkpoint, max(c.events) > 2000 AS events
FROM dexp3.bandit LEFT JOIN dexp3.checkpoint c USING (bandit_id)
WHERE name IN ('patient', 'skipping', 'bounded', 'wide') GROUP BY name ORDER BY name;
\c -
SELECT * FROM bulk.compare('patient|skipping|bounded|wide');
SELECT count(bandit_drop(name)) AS dropped FROM unnest(ARRAY['patient', 'skipping', 'bounded', 'wide']) name;

-- One that is rolled back leaves none: then the next transaction does.
SELECT bandit_create('unlucky', '{a,b}', 'dada', skipping => false) IS NOT NULL AS created;
SELECT count(bandit_choose('unlucky')) AS decisions FROM generate_series(1, 700);
BEGIN;
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('unlucky');
ROLLBACK;
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('unlucky');
SELECT count(*) AS checkpoints FROM dexp3.checkpoint JOIN dexp3.bandit USING (bandit_id) WHERE name = 'unlucky';
SELECT * FROM bulk.compare('unlucky');
SELECT bandit_drop('unlucky');

--
-- Large states and savepoints: one with many arms, one with many open decisions
--

SELECT bandit_create('arms', ARRAY(SELECT 'arm ' || n FROM generate_series(1, 10000) n), 'dada-ix', skipping => false) AS arms_id,
       bandit_create('open', '{a,b,c}', 'dada', patience => 1000000) AS open_id \gset
CREATE FUNCTION bulk.play(n integer) RETURNS text
LANGUAGE sql AS $$
    SELECT string_agg(outcome, ' ' ORDER BY bandit)
    FROM (SELECT bandit, bandit_feedback(max(decision_id), 0.5) || ' ' || count(*) AS outcome
          FROM (SELECT bandit, decision_id FROM unnest(ARRAY['arms', 'open']) bandit, generate_series(1, n) i, bandit_choose_each(bandit, i)) d
          GROUP BY bandit) f
$$;
SELECT bulk.play(10);
BEGIN;
SELECT bulk.play(3);
SAVEPOINT a;
SELECT bulk.play(2);
SELECT * FROM bulk.compare('arms|open');
ROLLBACK TO a;
SELECT * FROM bulk.compare('arms|open');
SELECT bulk.play(1);
-- from here on there are too many open decisions to save
SELECT count(bandit_choose('open')) FROM generate_series(1, 5000);
SAVEPOINT b;
SELECT bulk.play(2);
RELEASE b;
SELECT * FROM bulk.compare('arms|open');
SAVEPOINT c;
SELECT bulk.play(2);
SAVEPOINT d;
SELECT bulk.play(2);
ROLLBACK TO d;
SELECT * FROM bulk.compare('arms|open');
SELECT bulk.play(1);
ROLLBACK TO c;
SELECT * FROM bulk.compare('arms|open');
ROLLBACK TO a;
SELECT * FROM bulk.compare('arms|open');
SELECT bulk.play(4);
COMMIT;
SELECT * FROM bulk.compare('arms|open');
SELECT count(bandit_choose('open')) FROM generate_series(1, 5000);
BEGIN;
SELECT bulk.play(1);
ROLLBACK;
SELECT * FROM bulk.compare('arms|open');
SELECT max(round) FILTER (WHERE bandit_id = :arms_id) AS arms, max(round) FILTER (WHERE bandit_id = :open_id) AS open FROM dexp3.decision;
SELECT count(bandit_drop(name)) AS dropped FROM unnest(ARRAY['arms', 'open']) name;

--
-- Many bandits, and memory for a few of them
--

SELECT setseed(0.25);
SELECT count(bandit_create('b' || n, ARRAY(SELECT 'arm ' || i FROM generate_series(1, 2 + n % 5) i),
                           CASE n % 3 WHEN 0 THEN 'dada' WHEN 1 THEN 'dada-ix' ELSE 'deda' END,
                           skipping => n % 6 < 2 AND n % 3 < 2, max_delay => CASE WHEN n % 3 = 2 THEN 4 END)) AS created
FROM generate_series(1, 2000) n;

-- Three rounds of each, by turns, in one transaction; the first of them settled
SELECT count(*) AS decisions FROM generate_series(1, 3) t, generate_series(1, 2000) n, bandit_choose_each('b' || n, t);
ANALYZE dexp3.bandit, dexp3.decision, dexp3.feedback;
CREATE TABLE bulk.decision AS SELECT decision_id, round FROM dexp3.pending WHERE bandit ~ '^b[0-9]+$';
SELECT outcome, count(*)
FROM (SELECT bandit_feedback(decision_id, decision_id % 11 / 10.0) AS outcome FROM bulk.decision WHERE round = 1) f
GROUP BY outcome;
SELECT * FROM bulk.compare('^b[0-9]+$');

-- In one transaction, and a savepoint that is rolled back: states are evicted
-- and come back with what the transaction has written itself.
BEGIN;
SELECT count(*) AS decisions FROM generate_series(1, 2000) n, bandit_choose_each('b' || n, n);
SAVEPOINT s;
SELECT count(*) AS decisions FROM generate_series(1, 2000) n, bandit_choose_each('b' || n, n) WHERE n % 2 = 0;
SELECT count(bandit_feedback(decision_id, 1)) AS feedbacks FROM bulk.decision WHERE round = 2;
SELECT * FROM bulk.compare('^b[0-9]+$');
ROLLBACK TO s;
SELECT * FROM bulk.compare('^b[0-9]+$');
SELECT count(bandit_feedback(decision_id, 0.5)) AS feedbacks FROM bulk.decision WHERE round = 3;
COMMIT;
BEGIN;
SELECT count(*) AS decisions FROM generate_series(1, 2000) n, bandit_choose_each('b' || n, n);
SELECT * FROM bulk.compare('^b[0-9]+$');
ROLLBACK;
SELECT * FROM bulk.compare('^b[0-9]+$');
SELECT max(round) AS rounds, count(*) FILTER (WHERE round = 4) AS fourth
FROM dexp3.decision JOIN dexp3.bandit USING (bandit_id) WHERE name ~ '^b[0-9]+$';

-- With enough memory it is the same.
CREATE TABLE bulk.state AS
SELECT name, state::jsonb - '{z,m,z_tie,m_tie,lbck}'::text[] AS counts, bandit_probabilities(state) AS probabilities
FROM dexp3.bandit, bandit_current_state(name) state WHERE name ~ '^b[0-9]+$';
\c -
SELECT count(*) AS bandits, bool_and(o.counts = state::jsonb - '{z,m,z_tie,m_tie,lbck}'::text[]) AS counts,
       max((SELECT max(abs(x - y)) FROM unnest(o.probabilities, bandit_probabilities(state)) u (x, y))) < 1e-9 AS probabilities
FROM bulk.state o, bandit_current_state(o.name) state;

SELECT count(bandit_drop(name)) AS dropped FROM bulk.state;
SET client_min_messages = warning;
DROP SCHEMA bulk CASCADE;
RESET client_min_messages;
