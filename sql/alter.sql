-- bandit_alter: settings that change while a bandit is in use; bandit_unretire_arm.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;
CREATE SCHEMA alter;

SELECT bandit_create('shop', '{a,b,c}'), bandit_create('paper', '{a,b}', 'dada', patience => 5),
       bandit_create('deda', '{a,b}', 'deda', max_delay => 3),
       bandit_create('deaf', '{a,b}', 'dada', skipping => false) \gset

-- Null means unchanged.
CREATE VIEW alter.settings AS
    SELECT name, feedback_window AS window, missing_loss AS missing, retention, half_life, optimism, step_scale, patience,
           sticky, clamp_losses AS clamp, goal
    FROM dexp3.bandit WHERE name IN ('shop', 'paper') ORDER BY name;
SELECT bandit_alter('shop', feedback_window => '7 days', missing_loss => 0.5, retention => '1 year', half_life => '30 days',
                    optimism => 0.5, sticky => true, clamp_losses => true, goal => 'reward');
SELECT bandit_alter('paper', step_scale => 2, patience => 50);
SELECT * FROM alter.settings;
SELECT bandit_alter('shop'), bandit_alter('paper');
SELECT * FROM alter.settings;
SELECT bandit_alter('shop', missing_loss => 1, sticky => false, half_life => '1 day', goal => 'loss');
SELECT * FROM alter.settings;
SELECT bandit_alter('shop', without => '{feedback_window,half_life}', retention => '1 day');
SELECT bandit_alter('shop', without => '{retention,goal}');
SELECT * FROM alter.settings;

-- Errors change nothing.
CREATE FUNCTION alter.try(call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'SELECT ' || call;
    RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
    RETURN sqlstate || ' ' || sqlerrm;
END $$;
SELECT c AS call, alter.try(c) FROM unnest(ARRAY[
    $$bandit_alter(NULL)$$, $$bandit_alter('nobody')$$,
    $$bandit_alter('shop', feedback_window => '-1 s')$$, $$bandit_alter('shop', retention => '-1 s')$$,
    $$bandit_alter('shop', feedback_window => '178000000 years')$$, $$bandit_alter('shop', retention => '6000 years 1 s')$$,
    $$bandit_alter('shop', missing_loss => 2)$$, $$bandit_alter('shop', missing_loss => 'NaN')$$,
    $$bandit_alter('shop', half_life => '0')$$, $$bandit_alter('shop', half_life => '-1 day')$$,
    $$bandit_alter('paper', half_life => '1 day')$$, $$bandit_alter('shop', optimism => 0)$$,
    $$bandit_alter('shop', optimism => 'NaN')$$, $$bandit_alter('paper', optimism => 0.5)$$,
    $$bandit_alter('shop', step_scale => 2)$$, $$bandit_alter('deda', step_scale => 2)$$,
    $$bandit_alter('paper', step_scale => 0)$$, $$bandit_alter('paper', patience => -1)$$,
    $$bandit_alter('shop', patience => 5)$$, $$bandit_alter('deaf', patience => 5)$$,
    $$bandit_alter('shop', goal => 'luck')$$, $$bandit_alter('shop', without => '{missing_loss}')$$,
    $$bandit_alter('shop', without => '{NULL}')$$, $$bandit_alter('shop', goal => 'loss', without => '{goal}')$$]) c;
SELECT * FROM alter.settings;
CREATE ROLE regress_dexp3_user;
SELECT bandit_grant('shop', 'regress_dexp3_user');
SET ROLE regress_dexp3_user;
SELECT bandit_alter('shop', sticky => true);
SELECT bandit_unretire_arm('shop', 'a');
RESET ROLE;
BEGIN READ ONLY;
SELECT bandit_alter('shop', sticky => true);
ROLLBACK;

--
-- feedback_window: it goes for decisions that are open, too
--

-- Many decisions are settled, and three are open.
SELECT count(bandit_feedback(decision_id, 0.5)) FROM generate_series(1, 700) i, bandit_choose_each('shop', i);
SELECT min(decision_id) AS first FROM bandit_choose_many('shop', 3) \gset
SELECT bandit_alter('shop', feedback_window => '1 day');
SELECT count(bandit_choose('shop')) FROM generate_series(1, 3);
SELECT open, expired FROM dexp3.overview WHERE bandit = 'shop';
SELECT bandit_alter('shop', feedback_window => '0', missing_loss => 0.75);
-- the first choose expires what is due, however long the log is
SELECT count(bandit_choose('shop'));
SELECT open, expired, expired > 0 AS at_once FROM dexp3.overview WHERE bandit = 'shop';
SELECT bandit_expire('shop') > 0 AS more;
SELECT bandit_feedback(:first, 0);
SELECT bandit_alter('shop', without => '{feedback_window}');
SELECT count(bandit_choose('shop')) FROM generate_series(1, 3);
SELECT bandit_expire('shop');
SELECT open FROM dexp3.overview WHERE bandit = 'shop';
-- what has expired stays so; what is open expires with a window again
SELECT bandit_alter('shop', feedback_window => '0');
SELECT bandit_expire('shop');
SELECT bandit_alter('shop', feedback_window => '1 year');
SELECT bandit_feedback(:first, 0), bandit_verify('shop');
SELECT open, expired FROM dexp3.overview WHERE bandit = 'shop';

--
-- Other settings take effect at once
--

SELECT bandit_create('other', '{a,b}', loss_range => '{0,10}') \gset
SELECT decision_id AS d FROM bandit_choose('other', subject => 'ann') \gset
SELECT bandit_feedback(:d, 11);
SELECT bandit_alter('other', clamp_losses => true, sticky => true);
SELECT count(DISTINCT decision_id) FROM generate_series(1, 3) i, bandit_choose_each('other', i, subject => 'ann');
SELECT bandit_alter('other', goal => 'reward');
SELECT bandit_feedback(:d, 11);
SELECT bandit_reward(:d, -1);
SELECT loss FROM dexp3.feedback WHERE decision_id = :d;
-- the goal cannot change any more, until a reset
SELECT bandit_alter('other', goal => 'loss');
\echo :LAST_ERROR_SQLSTATE
SELECT bandit_alter('other', without => '{goal}');
-- but it may be said again
SELECT bandit_alter('other', goal => 'reward');
SELECT bandit_reset('other');
SELECT bandit_alter('other', goal => 'loss');
SELECT goal FROM dexp3.bandit WHERE name = 'other';
SELECT bandit_alter('other', retention => '0');
SELECT count(bandit_feedback(decision_id, 1)) FROM bandit_choose_many('other', 10);
SELECT bandit_trim('other');
SELECT count(*) FROM dexp3.feedback JOIN dexp3.bandit USING (bandit_id, epoch) WHERE name = 'other';
-- patience
SELECT count(*) FROM bandit_choose_many('paper', 60);
SELECT skipped AS before FROM dexp3.overview WHERE bandit = 'paper' \gset
SELECT bandit_alter('paper', patience => 0);
SELECT count(*) FROM bandit_choose_many('paper', 100);
SELECT skipped > :before + 10 AS more FROM dexp3.overview WHERE bandit = 'paper';
-- step_scale
SELECT step_size AS before FROM dexp3.overview WHERE bandit = 'paper' \gset
SELECT bandit_alter('paper', step_scale => 1);
SELECT abs(step_size / :before - 0.5) < 1e-9 AS half FROM dexp3.overview WHERE bandit = 'paper';
-- optimism: what is settled from now on; nothing is proven any more
SELECT bandit_create('proven', '{a,b}', optimism => 1) \gset
SELECT count(bandit_feedback(decision_id, 0.5)) FROM generate_series(1, 5) i, bandit_choose_each('proven', i);
SELECT bandit_regret_bound('proven') IS NOT NULL AS proven;
SELECT bandit_alter('proven', optimism => 0.5);
SELECT count(bandit_feedback(decision_id, 0.5)) FROM generate_series(1, 5) i, bandit_choose_each('proven', i);
SELECT bandit_alter('proven', optimism => 1);
SELECT bandit_regret_bound('proven') IS NOT NULL AS proven;
SELECT bool_and(baseline IS NULL) FILTER (WHERE n <= 5) AS before, bool_and(baseline > 0) FILTER (WHERE n > 5) AS after
FROM (SELECT baseline, row_number() OVER (ORDER BY decision_id) AS n
      FROM dexp3.feedback JOIN dexp3.bandit USING (bandit_id) WHERE name = 'proven') f;

--
-- half_life: the whole log counts anew
--

SELECT bandit_create('fading', '{a,b,c}') \gset
SELECT setseed(0.3);
SELECT count(bandit_feedback(decision_id, random())) FROM generate_series(1, 600) i, bandit_choose_each('fading', i);
-- as if they had been made over the last days, without a half-life and so without their times
UPDATE dexp3.feedback_rows f SET received_at = received_at - (601 - f.round) * interval '20 minutes'
FROM dexp3.bandit b WHERE b.bandit_id = f.bandit_id AND name = 'fading';

-- z, n, the losses and C, each decision weighted by its age; all in one statement, which has one time
CREATE FUNCTION alter.agrees(bandit text) RETURNS TABLE (verified boolean, z boolean, n boolean, total_loss boolean, cost boolean)
LANGUAGE sql AS $$
    WITH weighted AS (
        SELECT f.*, power(2, -coalesce(extract(epoch FROM statement_timestamp() - least(f.decided_at, f.received_at))
                                       / extract(epoch FROM b.half_life), 0)::float8) AS w
        FROM dexp3.feedback f JOIN dexp3.bandit b USING (bandit_id, epoch) WHERE b.name = bandit),
    arm AS (SELECT arm, sum(w * estimate) AS z FROM weighted GROUP BY arm),
    learner AS (SELECT bandit_current_state(bandit)::jsonb AS s)
    SELECT bandit_verify(bandit), bool_and(abs((s #>> ARRAY['z', (arm - 1)::text])::float8 - z) < 1e-5 * greatest(1, z)),
           bool_and(abs((s ->> 'settled')::float8 - t.n) < 1e-5 * t.n),
           bool_and(abs((s ->> 'total_loss')::float8 - t.l) < 1e-5 * t.l),
           bool_and(abs((s ->> 'cost')::float8 - t.c) < 1e-4 * greatest(1, abs(t.c)))
    FROM arm, learner, (SELECT sum(w) AS n, sum(w * loss) AS l, sum(w * (loss - coalesce(baseline, 0))) AS c FROM weighted) t
$$;
SELECT * FROM alter.agrees('fading');
SELECT bandit_alter('fading', half_life => '1 day');
SELECT * FROM alter.agrees('fading');
SELECT round((bandit_current_state('fading')::jsonb ->> 'settled')::numeric) < 120 AS fewer;
SELECT bandit_alter('fading', half_life => '5 days');
SELECT * FROM alter.agrees('fading');
SELECT count(bandit_feedback(decision_id, random())) FROM generate_series(1, 50) i, bandit_choose_each('fading', i);
SELECT * FROM alter.agrees('fading');
SELECT bandit_alter('fading', without => '{half_life}');
SELECT * FROM alter.agrees('fading');
SELECT (bandit_current_state('fading')::jsonb ->> 'settled')::float8 AS settled;
-- rolled back, it never happened
BEGIN;
SELECT bandit_alter('fading', half_life => '1 hour');
SELECT * FROM alter.agrees('fading');
SELECT count(bandit_feedback(decision_id, 0.5)) FROM generate_series(1, 10) i, bandit_choose_each('fading', i);
SELECT * FROM alter.agrees('fading');
ROLLBACK;
SELECT * FROM alter.agrees('fading');
-- own rows of the same transaction, before and after
BEGIN;
SELECT count(bandit_feedback(decision_id, 0.5)) FROM generate_series(1, 10) i, bandit_choose_each('fading', i);
SELECT bandit_alter('fading', half_life => '1 day');
SELECT * FROM alter.agrees('fading');
SAVEPOINT s;
SELECT count(bandit_feedback(decision_id, 0.5)) FROM generate_series(1, 10) i, bandit_choose_each('fading', i);
RELEASE s;
SELECT * FROM alter.agrees('fading');
COMMIT;
SELECT * FROM alter.agrees('fading');
-- what arms began with fades on
SELECT bandit_add_arm('fading', 'd');
SELECT bandit_current_state('fading')::jsonb AS before \gset
SELECT bandit_alter('fading', half_life => '100 days');
SELECT bandit_alter('fading', half_life => '1 day');
SELECT bool_and(abs((:'before'::jsonb #>> ARRAY['z', i::text])::float8
                    - (bandit_current_state('fading')::jsonb #>> ARRAY['z', i::text])::float8) < 1e-3) AS same
FROM generate_series(0, 3) i;

-- What was trimmed goes on from what it counts.
SELECT bandit_alter('fading', retention => '0');
SELECT bandit_trim('fading') > 600 AS trimmed;
SELECT bandit_current_state('fading')::jsonb AS before, bandit_verify('fading') AS verified \gset
CREATE FUNCTION alter.differs(before jsonb, after jsonb) RETURNS boolean LANGUAGE sql AS $$
    SELECT bool_or(abs((before #>> p)::float8 - (after #>> p)::float8) > 1e-4 * greatest(1, abs((before #>> p)::float8)))
    FROM unnest(ARRAY['settled', 'total_loss', 'cost', 'z,0', 'z,1', 'z,2', 'z,3']) path, string_to_array(path, ',') p
$$;
SELECT bandit_alter('fading', half_life => '10 days');
SELECT alter.differs(:'before', bandit_current_state('fading')::jsonb) AS differs, bandit_verify('fading') AS verified;
SELECT bandit_alter('fading', without => '{half_life}');
SELECT alter.differs(:'before', bandit_current_state('fading')::jsonb) AS differs, bandit_verify('fading') AS verified;
SELECT bandit_alter('fading', half_life => '3 hours');
SELECT alter.differs(:'before', bandit_current_state('fading')::jsonb) AS differs, bandit_verify('fading') AS verified;
-- a tiny one: everything is forgotten, and nothing is infinite
SELECT bandit_alter('fading', half_life => '1 microsecond');
SELECT pg_sleep(0.01);
SELECT (bandit_current_state('fading')::jsonb ->> 'settled')::float8 < 1e-9 AS forgotten;
SELECT bandit_alter('fading', half_life => '1 day');
SELECT bandit_verify('fading'), round(sum(probability)::numeric, 9) AS sum FROM bandit_probabilities('fading');
-- nothing is left from when it had that half-life before
SELECT count(*) AS checkpoints FROM dexp3.checkpoint JOIN dexp3.bandit USING (bandit_id) WHERE name = 'fading';

--
-- bandit_unretire_arm
--

SELECT bandit_create('arms', '{a,b,c}') \gset
SELECT count(bandit_feedback(decision_id, CASE arm WHEN 'a' THEN 0.2 ELSE 0.5 END)) FROM generate_series(1, 400) i, bandit_choose_each('arms', i);
SELECT bandit_unretire_arm('arms', 'a');
\echo :LAST_ERROR_SQLSTATE
SELECT bandit_unretire_arm('arms', 'x');
SELECT bandit_unretire_arm('arms', NULL);
SELECT bandit_unretire_arm('nobody', 'a');
-- at once back, it is as if nothing had happened
SELECT json_agg(probability) AS p FROM bandit_probabilities('arms') \gset
SELECT step_size AS eta FROM dexp3.overview WHERE bandit = 'arms' \gset
SELECT bandit_retire_arm('arms', 'a');
SELECT arm FROM bandit_probabilities('arms');
SELECT abs(step_size / :eta - 1) < 1e-9 AS same_step FROM dexp3.overview WHERE bandit = 'arms';
SELECT bandit_add_arm('arms', 'a');
SELECT bandit_unretire_arm('arms', 'a');
SELECT retired FROM dexp3.bandit WHERE name = 'arms';
SELECT bool_and(abs(probability - (:'p'::json ->> (n - 1)::integer)::float8) < 1e-9) AS same
FROM bandit_probabilities('arms') WITH ORDINALITY AS p (arm, probability, n);
SELECT abs(step_size / :eta - 1) < 1e-9 AS same_step FROM dexp3.overview WHERE bandit = 'arms';
-- While it was away, the others have lost more; it comes back as it was beside the best of them.
SELECT z FROM (SELECT min((s -> 'z' ->> 0)::float8 - least((s -> 'z' ->> 1)::float8, (s -> 'z' ->> 2)::float8)) AS z
               FROM (SELECT bandit_current_state('arms')::jsonb AS s) _) _ \gset
SELECT bandit_retire_arm('arms', 'a');
SELECT count(bandit_feedback(decision_id, 0.5)) FROM generate_series(1, 4000) i, bandit_choose_each('arms', i);
SELECT step_size AS eta FROM dexp3.overview WHERE bandit = 'arms' \gset
SELECT bandit_unretire_arm('arms', 'a');
SELECT abs(step_size / :eta - 1) < 1e-9 AS same_step FROM dexp3.overview WHERE bandit = 'arms';
SELECT abs((s -> 'z' ->> 0)::float8 - least((s -> 'z' ->> 1)::float8, (s -> 'z' ->> 2)::float8) - :z) < 1e-9 AS as_it_was,
       (s -> 'z' ->> 0)::float8 > 300 AS not_at_the_start
FROM (SELECT bandit_current_state('arms')::jsonb AS s) _;
SELECT bandit_verify('arms');

SELECT bandit_drop(name) FROM dexp3.bandit
WHERE name IN ('shop', 'paper', 'deda', 'deaf', 'other', 'proven', 'fading', 'arms');
SET client_min_messages = warning;
DROP SCHEMA alter CASCADE;
DROP ROLE regress_dexp3_user;
