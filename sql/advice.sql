-- bandit_advice: for each case a bandit of which it is said, and what makes it
-- silent again; and healthy bandits, of which nothing is ever said.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
DROP ROLE IF EXISTS regress_dexp3_adviser;
RESET client_min_messages;
\set SHOW_CONTEXT never

\pset format unaligned
\pset tuples_only

SELECT setseed(0.5) IS NULL;
CREATE TEMP TABLE before AS SELECT bandit_id FROM dexp3.bandit;

-- Play some rounds. Of every "of" decisions, one gets its loss at once: the next of
-- the losses.
CREATE FUNCTION pg_temp.play(bandit text, rounds integer, losses float8[], of integer DEFAULT 1) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. rounds LOOP
        PERFORM CASE WHEN i % of = 0 THEN bandit_feedback(decision_id, losses[1 + i / of % cardinality(losses)]) END
        FROM bandit_choose(play.bandit);
    END LOOP;
END
$$;

-- Let some time pass, for one bandit only: all that has happened becomes older.
CREATE FUNCTION pg_temp.wait(bandit text, span interval) RETURNS void
LANGUAGE sql AS $$
    WITH old AS (DELETE FROM dexp3.decision d USING dexp3.bandit b
                 WHERE b.name = wait.bandit AND d.bandit_id = b.bandit_id RETURNING d.*)
    INSERT INTO dexp3.decision
    SELECT (jsonb_populate_record(NULL::dexp3.decision, to_jsonb(old) || jsonb_build_object('decided_at', decided_at - span))).*
    FROM old ORDER BY decision_id;
    UPDATE dexp3.feedback SET received_at = received_at - span
    WHERE bandit_id = (SELECT bandit_id FROM dexp3.bandit WHERE name = wait.bandit);
$$;

--
-- No feedback at all
--

SELECT bandit_create('never', '{a,b}') IS NULL;
SELECT count(*) FROM bandit_choose_many('never', 100);
SELECT 'young', * FROM bandit_advice('never');
SELECT pg_temp.wait('never', '2 days');
SELECT 'old', * FROM bandit_advice('never');
SELECT bandit_feedback(min(decision_id), 1) FROM dexp3.pending WHERE bandit = 'never';
SELECT 'one', * FROM bandit_advice('never');
SELECT bandit_create('few', '{a,b}') IS NULL;
SELECT count(*) FROM bandit_choose_many('few', 99);
SELECT pg_temp.wait('few', '2 days');
SELECT 'few', * FROM bandit_advice('few');

-- with a window
SELECT bandit_create('never in time', '{a,b}', feedback_window => '1 hour') IS NULL;
SELECT count(*) FROM bandit_choose_many('never in time', 100);
SELECT pg_temp.wait('never in time', '2 hours');
SELECT bandit_expire('never in time');
SELECT 'expired', * FROM bandit_advice('never in time');
SELECT bandit_feedback(decision_id, 0) FROM bandit_choose('never in time');
SELECT 'one', * FROM bandit_advice('never in time');

--
-- No feedback for long
--

SELECT bandit_create('stopped', '{a,b}') IS NULL;
SELECT pg_temp.play('stopped', 300, '{0,1,0.5}', 3);
SELECT pg_temp.wait('stopped', '3 days 1 hour');
SELECT count(*) FROM bandit_choose_many('stopped', 30);
SELECT 'not many', * FROM bandit_advice('stopped');
SELECT count(*) FROM bandit_choose_many('stopped', 30);
SELECT 'many', * FROM bandit_advice('stopped');
SELECT bandit_feedback(max(decision_id), 1) FROM dexp3.pending WHERE bandit = 'stopped';
SELECT 'again', * FROM bandit_advice('stopped');

-- not for a few hours, nor if feedback has always taken that long
SELECT bandit_create('pausing', '{a,b}') IS NULL;
SELECT pg_temp.play('pausing', 300, '{0,1,0.5}');
SELECT pg_temp.wait('pausing', '20 hours');
SELECT count(*) FROM bandit_choose_many('pausing', 1000);
SELECT 'pausing', * FROM bandit_advice('pausing');
SELECT bandit_create('slow', '{a,b}') IS NULL;
SELECT count(*) FROM bandit_choose_many('slow', 300);
SELECT pg_temp.wait('slow', '2 days');
SELECT count(bandit_feedback(decision_id, decision_id % 2)) FROM dexp3.pending WHERE bandit = 'slow';
SELECT pg_temp.wait('slow', '3 days');
SELECT count(*) FROM bandit_choose_many('slow', 100);
SELECT 'slow', * FROM bandit_advice('slow');

--
-- All outcomes alike
--

-- Only successes are reported, and there is no window.
SELECT bandit_create('orders', '{a,b,c,d}') IS NULL;
SELECT pg_temp.play('orders', 475, '{0}', 25);
SELECT 'few', * FROM bandit_advice('orders');
SELECT pg_temp.play('orders', 25, '{0}', 25);
SELECT 'more', * FROM bandit_advice('orders');
SELECT bandit_feedback(max(decision_id), 1) FROM dexp3.pending WHERE bandit = 'orders';
SELECT 'not alike', * FROM bandit_advice('orders');

-- Those that are open may just be late.
SELECT bandit_create('late', '{a,b}') IS NULL;
SELECT count(*) FROM bandit_choose_many('late', 200);
SELECT count(bandit_feedback(decision_id, 0.25))
FROM (SELECT decision_id FROM dexp3.pending WHERE bandit = 'late' ORDER BY decision_id LIMIT 60) d;
SELECT 'late', * FROM bandit_advice('late');

-- Everything is reported, and rare successes need time.
SELECT bandit_create('alike', '{a,b}') IS NULL;
SELECT pg_temp.play('alike', 999, '{0.7}');
SELECT '999', * FROM bandit_advice('alike');
SELECT pg_temp.play('alike', 1, '{0.7}');
SELECT '1000', * FROM bandit_advice('alike');
SELECT pg_temp.play('alike', 1, '{0.701}');
SELECT 'not alike', * FROM bandit_advice('alike') WHERE severity = 'problem';

--
-- A hundredth of the range
--

SELECT bandit_create('narrow', '{a,b}', loss_range => '{0,1000}') IS NULL;
SELECT pg_temp.play('narrow', 99, '{12,13.5,20}');
SELECT 'few', * FROM bandit_advice('narrow');
SELECT pg_temp.play('narrow', 1, '{12}');
SELECT 'enough', * FROM bandit_advice('narrow');
SELECT pg_temp.play('narrow', 1, '{500}');
SELECT 'wide', * FROM bandit_advice('narrow');

-- What is missing uses the range, too.
SELECT bandit_create('narrow, but missing', '{a,b}', loss_range => '{0,1000}', feedback_window => '1 hour') IS NULL;
SELECT count(*) FROM bandit_choose_many('narrow, but missing', 1);
SELECT pg_temp.wait('narrow, but missing', '2 hours');
SELECT bandit_expire('narrow, but missing');
SELECT pg_temp.play('narrow, but missing', 100, '{12,13.5,20}');
SELECT 'missing', * FROM bandit_advice('narrow, but missing');

--
-- Much skipped, much expired
--

SELECT bandit_create('impatient', '{a,b}', 'dada', patience => 5) IS NULL;
SELECT count(*) FROM bandit_choose_many('impatient', 500);
SELECT 'skipped', * FROM bandit_advice('impatient');
SELECT count(bandit_feedback(decision_id, decision_id % 2)) FROM dexp3.pending WHERE bandit = 'impatient';
SELECT 'prompt', * FROM bandit_advice('impatient');

-- Failures are reported as well, so what is missing is not one.
SELECT count(bandit_create(b, '{a,b}', feedback_window => '1 hour')) FROM unnest('{missing,successes}'::text[]) b;
SELECT count(*) FROM unnest('{missing,successes}'::text[]) b, bandit_choose_many(b, 100);
SELECT pg_temp.wait('missing', '2 hours'), pg_temp.wait('successes', '2 hours');
SELECT bandit_expire('missing'), bandit_expire('successes');
SELECT pg_temp.play('missing', 100, '{0,0,0,0,1}'), pg_temp.play('successes', 100, '{0,0,0,0,0.9}');
SELECT 'failures', * FROM bandit_advice('missing');
SELECT 'only successes', * FROM bandit_advice('successes');
SELECT pg_temp.play('missing', 400, '{0,0,0,0,1}');
SELECT 'not much', * FROM bandit_advice('missing');

--
-- A window that is too short, or too long
--

SELECT count(bandit_create(b, '{a,b}', feedback_window => '1 hour')) FROM unnest('{short,right}'::text[]) b;
SELECT count(*) FROM unnest('{short,right}'::text[]) b, bandit_choose_many(b, 100);
SELECT pg_temp.wait('short', '2 hours'), pg_temp.wait('right', '2 hours');
SELECT bandit_expire('short'), bandit_expire('right');
SELECT pg_temp.play('short', 200, '{0,0.1}'), pg_temp.play('right', 200, '{0,0.1}');
-- it has taken up to 59, and up to 50 minutes
UPDATE dexp3.decision d SET decided_at = decided_at - d.round % 60 * interval '1 minute' * CASE name WHEN 'short' THEN 1 ELSE 5 / 6.0 END
FROM dexp3.bandit b WHERE b.bandit_id = d.bandit_id AND name IN ('short', 'right') AND round > 100;
SELECT 'short', * FROM bandit_advice('short');
SELECT 'right', * FROM bandit_advice('right');

SELECT bandit_create('long', '{a,b}', feedback_window => '30 days') IS NULL;
SELECT bandit_create('not long', '{a,b}', feedback_window => '1 day') IS NULL;
SELECT pg_temp.play('long', 380, '{0}', 20), pg_temp.play('not long', 400, '{0}', 20);
SELECT 'few', * FROM bandit_advice('long');
SELECT pg_temp.play('long', 20, '{0}', 20);
SELECT 'long', * FROM bandit_advice('long');
SELECT 'not long', * FROM bandit_advice('not long');
SELECT pg_temp.play('long', 20, '{0.5}', 20);
SELECT 'not alike', * FROM bandit_advice('long');

--
-- An arm without feedback
--

SELECT bandit_create('broken', '{a,b}') IS NULL;
SELECT count(bandit_feedback(decision_id, decision_id % 2)) FROM bandit_choose_many('broken', 50) WHERE arm = 'a';
SELECT 'broken', * FROM bandit_advice('broken');
SELECT bandit_feedback(min(decision_id), 0) FROM dexp3.pending WHERE bandit = 'broken' AND arm = 'b';
SELECT 'mended', * FROM bandit_advice('broken');

SELECT bandit_create('several', '{a,b,c,d}') IS NULL;
SELECT count(bandit_feedback(decision_id, decision_id % 2)) FROM bandit_choose_many('several', 400) WHERE arm IN ('a', 'd');
SELECT 'several', regexp_replace(a::text, '\d+ times', 'N times') FROM bandit_advice('several') a;
SELECT bandit_retire_arm('several', 'b');
SELECT 'changed a moment ago', * FROM bandit_advice('several');
UPDATE dexp3.bandit SET arms_changed_at = arms_changed_at - interval '2 days' WHERE name = 'several';
SELECT 'one has retired', regexp_replace(a::text, '\d+ times', 'N times') FROM bandit_advice('several') a;

--
-- Known better, but not played
--

SELECT bandit_create('stiff', '{good,bad,poor}', 'dada', step_scale => 1e-6) IS NULL;
SELECT count(bandit_feedback(decision_id, CASE arm WHEN 'good' THEN 0.1 ELSE 0.2 END + i % 7 * 0.1))
FROM generate_series(1, 999) i, bandit_choose_each('stiff', i);
SELECT 'young', * FROM bandit_advice('stiff');
SELECT bandit_feedback(decision_id, 0.3) FROM bandit_choose('stiff');
SELECT 'stiff', regexp_replace(a::text, 'at most [0-9.]+', 'at most N') FROM bandit_advice('stiff') a;

SELECT bandit_create('agile', '{good,bad,poor}') IS NULL;
SELECT count(bandit_feedback(decision_id, CASE arm WHEN 'good' THEN 0.1 ELSE 0.2 END + i % 7 * 0.1))
FROM generate_series(1, 1500) i, bandit_choose_each('agile', i);
SELECT 'agile', * FROM bandit_advice('agile');

-- What differs little needs time.
SELECT bandit_create('subtle', '{good,b,c,d,e,f}') IS NULL;
SELECT count(bandit_feedback(decision_id, CASE arm WHEN 'good' THEN 0.5 ELSE 0.51 END + i % 2 * 0.01))
FROM generate_series(1, 1000) i, bandit_choose_each('subtle', i);
SELECT 'subtle', regexp_replace(regexp_replace(a::text, 'at most [0-9.]+', 'at most N'), '\d+%', 'N%') FROM bandit_advice('subtle') a;

-- Not enough is known of one arm, or both are about the same.
SELECT bandit_create('same', '{good,bad,poor}', 'dada', step_scale => 1e-6) IS NULL;
SELECT pg_temp.play('same', 1500, '{0,1,0,0}');
SELECT 'same', * FROM bandit_advice('same');

--
-- Outcomes that triggers could not report
--

SELECT bandit_create('warned', '{a,b}') IS NULL;
CREATE TABLE sale (decision_id bigint, loss float8);
CREATE TRIGGER sale_feedback AFTER INSERT ON sale FOR EACH ROW
    EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'loss', 'warn');
SET client_min_messages = error;
INSERT INTO sale SELECT decision_id, 7 FROM bandit_choose_many('warned', 3);
SELECT 'warned', * FROM bandit_advice('warned');
SELECT 'overview', advice FROM dexp3.overview WHERE bandit = 'warned';
INSERT INTO sale VALUES (-1, 0);
SELECT 'of none', * FROM bandit_advice() WHERE bandit IS NULL;
SELECT 'warned', * FROM bandit_advice('warned');
UPDATE dexp3.warning SET warned_at = warned_at - interval '8 days';
SELECT 'long ago', * FROM bandit_advice('warned');
SELECT 'long ago', * FROM bandit_advice() WHERE bandit IS NULL;
TRUNCATE dexp3.warning;
RESET client_min_messages;
DROP TABLE sale;

--
-- What another server has learned is not counted
--

SELECT bandit_create('here', '{a,b}') < bandit_create('there', '{a,b,c}');
SELECT bandit_share('here'), bandit_share('there');
SELECT pg_temp.play('there', 10, '{0,1}');
SELECT bandit_publish('there') IS NULL;
SELECT 'alone', * FROM bandit_advice('here');
INSERT INTO dexp3.component
SELECT (jsonb_populate_record(c, '{"bandit": "here", "node": 7}')).* FROM dexp3.component c WHERE bandit = 'there';
SELECT 'not alike', * FROM bandit_advice('here');
SELECT 'overview', advice FROM dexp3.overview WHERE bandit = 'here';
SELECT 'there', * FROM bandit_advice('there');
SELECT bandit_add_arm('here', 'c');
SELECT 'alike', * FROM bandit_advice('here');
SELECT bandit_retire_arm('here', 'a');
SELECT 'not alike', * FROM bandit_advice('here');
SELECT bandit_forget_node(7, 'here') IS NULL;
SELECT 'forgotten', * FROM bandit_advice('here');
-- somebody else with the number of this server
INSERT INTO dexp3.component
SELECT (jsonb_populate_record(c, jsonb_build_object('bandit', 'here', 'version', version + 1000000000))).*
FROM dexp3.component c WHERE bandit = 'there';
SELECT 'same node', regexp_replace(a::text, 'node \d+', 'node N') FROM bandit_advice('here') a;
SELECT bandit_share('here', false);
SELECT 'not shared', * FROM bandit_advice('here');
TRUNCATE dexp3.component;

--
-- In the unit of the goal
--

SELECT bandit_create('rewards', '{good,bad,poor}', 'dada', step_scale => 1e-6, loss_range => '{0,100}', goal => 'reward') IS NULL;
SELECT count(bandit_reward(decision_id, 40.25 + i % 3 * 0.25)) FROM generate_series(1, 100) i, bandit_choose_each('rewards', i);
SELECT 'narrow', * FROM bandit_advice('rewards');
SELECT count(bandit_reward(decision_id, CASE arm WHEN 'good' THEN 40 ELSE 30 END + i % 2)) FROM generate_series(1, 1000) i, bandit_choose_each('rewards', i);
SELECT 'better', regexp_replace(a::text, '\d\d\.\d+', 'NN') FROM bandit_advice('rewards') a;
SELECT bandit_create('all sold', '{a,b}', goal => 'reward') IS NULL;
SELECT count(CASE WHEN i % 20 = 0 THEN bandit_reward(decision_id, 1) END) FROM generate_series(1, 500) i, bandit_choose_each('all sold', i);
SELECT 'alike', * FROM bandit_advice('all sold');
SELECT bandit_alter('all sold', feedback_window => '1 hour');
SELECT 'window', * FROM bandit_advice('all sold');

--
-- Several at once, all bandits, and only one's own
--

SELECT bandit_create('worst', '{a,b}', 'dada', patience => 5) IS NULL;
SELECT pg_temp.play('worst', 1000, '{0}', 10);
SELECT severity, left(advice, 30) FROM bandit_advice('worst');
SELECT left(advice, 30) FROM dexp3.overview WHERE bandit = 'worst';
SELECT advice IS NULL FROM dexp3.overview WHERE bandit = 'agile' OR bandit = 'same';
SELECT bool_and(o.advice IS NOT DISTINCT FROM a.advice), count(o.advice) = count(DISTINCT a.bandit), count(o.advice) > 3
FROM dexp3.overview o
LEFT JOIN (SELECT DISTINCT ON (bandit) * FROM bandit_advice() WITH ORDINALITY ORDER BY bandit, ordinality) a USING (bandit);
-- problems first, then hints
SELECT string_agg(severity, ' ' ORDER BY n) ~ '^problem( problem)* hint( hint)*$'
FROM bandit_advice() WITH ORDINALITY _ (bandit, severity, advice, n);
SELECT count(*) = count(a.advice) FROM bandit_advice() a WHERE a.advice ~ '^[A-Z][^.]*(\d\.\d[^.]*)*\.$';

CREATE ROLE regress_dexp3_adviser;
SELECT bandit_grant('worst', 'regress_dexp3_adviser');
SET ROLE regress_dexp3_adviser;
SELECT DISTINCT bandit FROM bandit_advice();
SELECT count(*) FROM bandit_advice('worst');
SELECT * FROM bandit_advice('narrow');
SELECT * FROM dexp3.advice('narrow', 0);
SELECT * FROM dexp3.advice(NULL, 0);
SELECT * FROM dexp3.advice('worst', NULL);
RESET ROLE;
SELECT * FROM bandit_advice('no such bandit');

--
-- Healthy bandits: nothing is ever said, from the first round on
--

SELECT setseed(0.25) IS NULL;

-- Conversions of 3, 4 and 5%, each known at once; conversions that are known up to 200
-- rounds later, and so are failures; losses of all sizes, of which every third is
-- never known.
SELECT count(bandit_create(b, '{a,b,c}')) FROM unnest('{at once,delayed,gaps}'::text[]) b;
CREATE TEMP TABLE outcome (bandit text, decision_id bigint, loss float8, due integer);
CREATE TEMP TABLE said (bandit text, round integer, advice text);
DO $$
BEGIN
    FOR i IN 1 .. 2000 LOOP
        INSERT INTO outcome
        SELECT b, decision_id,
               CASE b WHEN 'gaps' THEN random() ELSE (random() > CASE arm WHEN 'a' THEN 0.03 WHEN 'b' THEN 0.04 ELSE 0.05 END)::integer END,
               i + CASE b WHEN 'at once' THEN 0 WHEN 'delayed' THEN (200 * random())::integer ELSE CASE WHEN random() < 0.67 THEN 3 END END
        FROM unnest('{at once,delayed,gaps}'::text[]) b, bandit_choose_each(b, i);
        PERFORM bandit_feedback(decision_id, loss) FROM outcome WHERE due <= i;
        DELETE FROM outcome WHERE due <= i OR due IS NULL;
        IF i % 25 = 0 THEN
            INSERT INTO said SELECT b, i, advice FROM unnest('{at once,delayed,gaps}'::text[]) b, bandit_advice(b);
            COMMIT;
        END IF;
    END LOOP;
END
$$;
SELECT 'healthy', bandit, rounds, open > 0 FROM dexp3.overview WHERE bandit IN ('at once', 'delayed', 'gaps') ORDER BY bandit;
SELECT * FROM said ORDER BY bandit, round;

-- A shop with a window of an hour: conversions of 3% come within half of it, and
-- nothing else.
SELECT bandit_create('shop', '{a,b,c}', feedback_window => '1 hour') IS NULL;
DO $$
BEGIN
    FOR i IN 1 .. 10 LOOP
        CREATE TEMP TABLE visitor AS SELECT * FROM bandit_choose_many('shop', 100);
        INSERT INTO said SELECT bandit, i, advice FROM bandit_advice('shop');
        PERFORM pg_temp.wait('shop', '30 minutes');
        COMMIT;
        PERFORM bandit_feedback(decision_id, 0) FROM visitor WHERE random() < 0.03;
        INSERT INTO said SELECT bandit, i, advice FROM bandit_advice('shop');
        PERFORM pg_temp.wait('shop', '31 minutes');
        COMMIT;
        PERFORM bandit_expire('shop');
        INSERT INTO said SELECT bandit, i, advice FROM bandit_advice('shop');
        DROP TABLE visitor;
    END LOOP;
END
$$;
SELECT 'shop', rounds, open, expired FROM dexp3.overview WHERE bandit = 'shop';
SELECT * FROM said ORDER BY bandit, round;

--
-- A long log costs no more than a short one
--

SELECT bandit_create('short log', '{a,b}') < bandit_create('long log', '{a,b}');
SELECT count(bandit_feedback(decision_id, decision_id % 3 / 2.0)) FROM bandit_choose_many('short log', 1000);
SELECT count(bandit_feedback(decision_id, decision_id % 3 / 2.0)) FROM bandit_choose_many('long log', 30000);

-- How many blocks a query looks at
CREATE FUNCTION pg_temp.blocks(query text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    FOR i IN 1 .. 2 LOOP
        EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT json) ' || query INTO plan;
    END LOOP;
    RETURN (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::bigint + (plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::bigint;
END
$$;
SELECT query, pg_temp.blocks(format(query, 'long log')) BETWEEN 100 AND 1.2 * pg_temp.blocks(format(query, 'short log'))
FROM unnest(ARRAY['SELECT * FROM bandit_advice(%L)', 'SELECT * FROM dexp3.overview WHERE bandit = %L',
                  'SELECT * FROM bandit_delays(%L, newest => 1000)']) AS query;

-- With a window and skipping: what has expired was not given up.
SELECT bandit_create('hasty', '{a,b}', 'dada', skipping => true, patience => 5, feedback_window => '1 hour') IS NULL;
SELECT count(*) FROM bandit_choose_many('hasty', 500);
SELECT pg_temp.wait('hasty', '2 hours'), bandit_expire('hasty');
SELECT 'hasty', * FROM bandit_advice('hasty') WHERE advice ~ 'given up';
SELECT bandit_alter('hasty', patience => 1000);
SELECT count(*) FROM bandit_choose_many('hasty', 500);
SELECT pg_temp.wait('hasty', '2 hours'), bandit_expire('hasty');
SELECT 'patient', * FROM bandit_advice('hasty') WHERE advice ~ 'given up';

SELECT count(bandit_drop(name)) > 0 FROM dexp3.bandit WHERE bandit_id NOT IN (SELECT bandit_id FROM before);
DROP ROLE regress_dexp3_adviser;
