-- Arms at choice time and over time, and many decisions at once. Probabilities
-- are compared with what the formulas give for the stored state.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

CREATE SCHEMA arms;

-- The weights that dada, without delays or skipping, gives to these sums of loss
-- estimates in round t
CREATE FUNCTION arms.probabilities(t bigint, z float8[]) RETURNS float8[] LANGUAGE sql AS $$
    SELECT array_agg(w / total ORDER BY i)
    FROM (SELECT i, exp(-sqrt(ln(k) / (t * k)) * z_i) AS w, sum(exp(-sqrt(ln(k) / (t * k)) * z_i)) OVER () AS total
          FROM unnest(z) WITH ORDINALITY _ (z_i, i), cardinality(z) k) _
$$;

-- The largest difference between two arrays
CREATE FUNCTION arms.difference(a float8[], b float8[]) RETURNS float8 LANGUAGE sql AS $$
    SELECT max(coalesce(abs(x - y), 'infinity')) FROM unnest(a, b) _ (x, y)
$$;

-- The sums of loss estimates of a bandit's arms, from its log
CREATE FUNCTION arms.z(bandit text) RETURNS float8[] LANGUAGE sql AS $$
    SELECT array_agg(coalesce(head_start[i], 0) + coalesce(
               (SELECT sum(estimate) FROM dexp3.feedback f
                WHERE f.bandit_id = b.bandit_id AND f.epoch = b.epoch AND f.arm = i), 0) ORDER BY i)
    FROM dexp3.bandit b, generate_subscripts(arms, 1) i WHERE name = z.bandit
$$;

-- Choose n times, each with feedback at once: a loses 0.1, b 0.2, and so on.
CREATE FUNCTION arms.play(bandit text, n integer, allowed text[] DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    chosen record;
BEGIN
    FOR i IN 1 .. n LOOP
        SELECT * INTO chosen FROM bandit_choose(play.bandit, allowed => play.allowed);
        PERFORM bandit_feedback(chosen.decision_id, (ascii(chosen.arm) - 96) / 10.0);
    END LOOP;
END
$$;

SELECT setseed(0.3);

--
-- Only some arms
--

SELECT bandit_create('choice', '{a,b,c,d}', 'dada', skipping => false) \gset
SELECT arms.play('choice', 50);

-- The probability is that of all arms, renormalised, and so is the estimate.
WITH plain AS MATERIALIZED (
    SELECT arm, probability FROM bandit_probabilities('choice')),
chosen AS MATERIALIZED (
    SELECT * FROM bandit_choose('choice', allowed => '{d,b}')),
settled AS MATERIALIZED (
    SELECT bandit_feedback(decision_id, 0.5) AS outcome FROM chosen)
SELECT chosen.arm IN ('b', 'd') AS allowed,
       abs(chosen.probability - p.probability / (SELECT sum(probability) FROM plain WHERE arm IN ('b', 'd'))) < 1e-12
           AS renormalised,
       (SELECT outcome FROM settled)
FROM chosen JOIN plain p USING (arm);
SELECT abs(f.estimate - 0.5 / d.probability) < 1e-12 AS divided_by_it
FROM dexp3.feedback f JOIN dexp3.decision d USING (decision_id) ORDER BY decision_id DESC LIMIT 1;

-- Often enough, all that are allowed come, and no other; a single one is certain.
SELECT string_agg(DISTINCT arm, ' ' ORDER BY arm)
FROM generate_series(1, 100) i, bandit_choose_each('choice', i, allowed => ARRAY['a', 'c', 'a']) c;
SELECT arm, probability FROM bandit_choose('choice', allowed => '{c}');
SELECT string_agg(DISTINCT arm, ' ' ORDER BY arm) FROM bandit_choose_many('choice', 100, allowed => '{d,c}');

-- Arms so bad that only excluding the good ones leaves them a weight
SELECT bandit_create('hopeless', '{good,bad,worse}', 'dada', skipping => false, step_scale => 1e6) \gset
SELECT bandit_feedback(decision_id, 1) FROM bandit_choose('hopeless', allowed => '{bad}');
SELECT bandit_feedback(decision_id, 1) FROM bandit_choose('hopeless', allowed => '{worse}');
SELECT * FROM bandit_probabilities('hopeless');
SELECT arm, probability FROM bandit_choose('hopeless', allowed => '{bad,worse}');

SELECT bandit_choose('choice', allowed => '{}');
SELECT bandit_choose('choice', allowed => '{a,NULL}');
SELECT bandit_choose('choice', allowed => '{a,x}');

--
-- Arms come
--

SELECT bandit_create('show', '{a,b,c}', 'dada', skipping => false) \gset
SELECT arms.play('show', 40);
SELECT arms.z('show') AS z \gset
SELECT bandit_add_arm('show', 'd');

-- The new arm starts at the smallest estimated loss, and K is 4 now.
SELECT arms, head_start[4] = (SELECT min(z) FROM unnest(:'z'::float8[]) z) AS smallest,
       head_start[1:3] = '{0,0,0}' AS others_unchanged
FROM dexp3.bandit WHERE name = 'show';
SELECT arms.difference(arms.probabilities(41, arms.z('show')),
                       ARRAY(SELECT probability FROM bandit_probabilities('show'))) < 1e-9 AS as_it_should;
SELECT arms.play('show', 40);
SELECT count(*) > 0 AS drawn FROM dexp3.decision JOIN dexp3.bandit USING (bandit_id) WHERE name = 'show' AND arm = 4;
SELECT arms.difference(arms.probabilities(81, arms.z('show')),
                       ARRAY(SELECT probability FROM bandit_probabilities('show'))) < 1e-9 AS as_it_should;

--
-- Arms go
--

SELECT decision_id AS open FROM bandit_choose('show', allowed => '{b}') \gset
SELECT bandit_retire_arm('show', 'b');
SELECT arms, retired FROM dexp3.bandit WHERE name = 'show';
SELECT string_agg(arm, ' ') FROM bandit_probabilities('show');

-- An open decision of it still settles, its loss counts, and K is 3.
SELECT bandit_feedback(:open, 0.25);
SELECT arms.difference((SELECT arms.probabilities(82, ARRAY[z[1], z[3], z[4]]) FROM arms.z('show') z),
                       ARRAY(SELECT probability FROM bandit_probabilities('show'))) < 1e-9 AS as_it_should;
SELECT arms.play('show', 60);
SELECT count(*) FROM dexp3.decision JOIN dexp3.bandit USING (bandit_id)
WHERE name = 'show' AND arm = 2 AND decision_id > :open;

-- The state as a value is that of the others.
SELECT state ->> 'arms' AS arms,
       arms.difference((SELECT ARRAY[z[1], z[3], z[4]] FROM arms.z('show') z),
                       ARRAY(SELECT jsonb_array_elements_text(state -> 'z')::float8)) < 1e-9 AS z
FROM (SELECT bandit_current_state('show')::jsonb AS state) _;
SELECT arms.difference(bandit_probabilities(bandit_current_state('show')),
                       ARRAY(SELECT probability FROM bandit_probabilities('show'))) < 1e-12 AS same_probabilities;

-- A retired arm may be among the allowed ones, but is not enough.
SELECT arm FROM bandit_choose('show', allowed => '{a,b}');
SELECT bandit_choose('show', allowed => '{b}');

-- What cannot be
SELECT bandit_add_arm('show', 'a');
SELECT bandit_add_arm('show', 'b');
SELECT bandit_add_arm('show', NULL);
SELECT bandit_add_arm('no show', 'a');
SELECT bandit_retire_arm('show', 'b');
SELECT bandit_retire_arm('show', 'x');
SELECT bandit_retire_arm('show', NULL);
SELECT bandit_retire_arm('choice', 'a'), bandit_retire_arm('choice', 'b');
SELECT bandit_retire_arm('choice', 'c');

-- A rollback takes an arm back, and what was learned in between.
BEGIN;
SELECT arms.play('show', 3);
SAVEPOINT s;
SELECT bandit_add_arm('show', 'e');
SELECT arms.play('show', 3, '{e}');
SELECT string_agg(arm, ' ') FROM bandit_probabilities('show');
ROLLBACK TO s;
SELECT string_agg(arm, ' ') FROM bandit_probabilities('show');
SELECT bandit_verify('show');
ROLLBACK;
SELECT string_agg(arm, ' ') FROM bandit_probabilities('show');
SELECT bandit_verify('show');

-- A reset starts all arms alike; retired ones stay so.
SELECT bandit_reset('show');
SELECT arms, retired, head_start FROM dexp3.bandit WHERE name = 'show';
SELECT arm, round(probability::numeric, 6) FROM bandit_probabilities('show');

-- With deda, skipping and checkpoints: sessions that start from a checkpoint with
-- fewer arms come to the same.
SELECT bandit_create('deda', '{a,b}', 'deda', max_delay => 2),
       bandit_create('skip', '{a,b}', 'dada', patience => 3) \gset
SELECT arms.play(name, 600) FROM unnest('{deda,skip}'::text[]) name;
SELECT name, count(*) FROM unnest('{deda,skip}'::text[]) name, bandit_choose_many(name, 10) GROUP BY name ORDER BY name;
SELECT count(DISTINCT bandit_id) FROM dexp3.checkpoint JOIN dexp3.bandit USING (bandit_id) WHERE name IN ('deda', 'skip');
SELECT bandit_add_arm(name, 'c'), arms.play(name, 20), bandit_retire_arm(name, 'a'), arms.play(name, 20)
FROM unnest('{deda,skip}'::text[]) name;
SELECT name, bandit_verify(name), bandit_current_state(name)::jsonb -> 'arms' AS arms FROM unnest('{deda,skip}'::text[]) name;
CREATE TABLE arms.state AS
SELECT name, bandit_current_state(name)::jsonb AS state FROM unnest('{deda,skip}'::text[]) name;
\c -
SELECT name, arms.difference(ARRAY(SELECT jsonb_array_elements_text(s.state -> 'z')::float8),
                             ARRAY(SELECT jsonb_array_elements_text(bandit_current_state(name)::jsonb -> 'z')::float8)) < 1e-9
           AS same
FROM arms.state s;

--
-- Many at once
--

SELECT setseed(0.7);
SELECT bandit_create('one', '{a,b,c}', 'dada', patience => 5), bandit_create('many', '{a,b,c}', 'dada', patience => 5) \gset
SELECT arms.play('one', 30);
SELECT setseed(0.7);
SELECT arms.play('many', 30);

-- The same draws, rows and skips as from single calls
SELECT setseed(0.1);
CREATE TABLE arms.one AS SELECT c.* FROM generate_series(1, 1200) i, bandit_choose_each('one', i) c;
SELECT setseed(0.1);
CREATE TABLE arms.many AS SELECT * FROM bandit_choose_many('many', 1200);
SELECT count(*), count(DISTINCT decision_id), min(decision_id) - lag(max(decision_id)) OVER (ORDER BY min(decision_id)) AS next
FROM (SELECT 1, * FROM arms.one UNION ALL SELECT 2, * FROM arms.many) _ (n) GROUP BY n ORDER BY n;
SELECT count(*) AS rounds, count(*) FILTER (WHERE (a.arm, a.probability, a.round, a.outstanding, a.gamma, a.skipped_in)
                                               IS NOT DISTINCT FROM (b.arm, b.probability, b.round, b.outstanding, b.gamma, b.skipped_in))
           AS same, count(a.skipped_in) > 500 AS some_skipped
FROM (SELECT d.*, f.round AS skipped_in, row_number() OVER (ORDER BY d.decision_id) AS n
      FROM dexp3.decision d JOIN dexp3.bandit USING (bandit_id) LEFT JOIN dexp3.feedback f ON f.decision_id = d.decision_id AND f.loss IS NULL
      WHERE name = 'one') a
FULL JOIN (SELECT d.*, f.round AS skipped_in, row_number() OVER (ORDER BY d.decision_id) AS n
      FROM dexp3.decision d JOIN dexp3.bandit USING (bandit_id) LEFT JOIN dexp3.feedback f ON f.decision_id = d.decision_id AND f.loss IS NULL
      WHERE name = 'many') b USING (n);
SELECT bandit_verify('many');
SELECT count(*) FROM dexp3.decision d JOIN arms.many USING (decision_id, probability);

SELECT count(*) FROM bandit_choose_many('many', 0);
SELECT bandit_choose_many('many', -1);
SELECT bandit_choose_many('many', NULL);
SELECT bandit_choose_many('many', 1, delay => 3);
SELECT bandit_create('told', '{a,b}', 'deda') \gset
SELECT bandit_choose_many('told', 2);
SELECT count(*) FROM bandit_choose_many('told', 2, delay => 4);

-- In a savepoint that is rolled back
BEGIN;
SAVEPOINT s;
SELECT count(*) FROM bandit_choose_many('many', 700);
ROLLBACK TO s;
SELECT count(*) FROM bandit_choose_many('many', 7);
COMMIT;
SELECT count(*) FROM dexp3.decision JOIN dexp3.bandit USING (bandit_id) WHERE name = 'many';
SELECT bandit_verify('many');

-- A cancelled call leaves nothing.
SET statement_timeout = '10ms';
\set VERBOSITY sqlstate
SELECT count(*) FROM bandit_choose_many('many', 100000000);
\set VERBOSITY default
RESET statement_timeout;
SELECT count(*) FROM dexp3.decision JOIN dexp3.bandit USING (bandit_id) WHERE name = 'many';
SELECT bandit_verify('many');

SET client_min_messages = warning;
SELECT count(bandit_drop(name)) FROM (SELECT name FROM dexp3.bandit WHERE name IN
    ('choice', 'hopeless', 'show', 'deda', 'skip', 'one', 'many', 'told') OFFSET 0) _;
DROP SCHEMA arms CASCADE;
