-- bandit_simulate with a feedback window and with delays that depend on the arm:
-- every round against the references (reference.sql, self_tuned_reference.sql),
-- then what a window is good for.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

-- Losses and delays of T x K. Integer arithmetic, so that they are the same
-- everywhere.
CREATE FUNCTION pg_temp.losses(rounds integer, arms integer) RETURNS float8[]
LANGUAGE sql AS $$
    SELECT array_agg(losses ORDER BY t)
    FROM (SELECT t, array_agg((((31 * t * t + 17 * i + 13 * t * i) % 101) / 100.0)::float8 ORDER BY i) AS losses
          FROM generate_series(1, rounds) t, generate_series(1, arms) i
          GROUP BY t) environment
$$;

CREATE FUNCTION pg_temp.delays(kind text, rounds integer, arms integer) RETURNS integer[]
LANGUAGE sql AS $$
    SELECT array_agg(delays ORDER BY t)
    FROM (SELECT t, array_agg(CASE kind
                                  WHEN 'none' THEN 0
                                  WHEN 'mixed' THEN (7 * t * t + 3 * t + 5 * i) % 23
                                  -- the first arm at once, the second late, the others never
                                  WHEN 'of the arm' THEN CASE i WHEN 1 THEN 0 WHEN 2 THEN 6 END
                                  WHEN 'thirds never' THEN CASE WHEN (t + i) % 3 > 0 THEN (t * i) % 9 END
                                  WHEN 'never' THEN NULL
                                  WHEN 'bursts' THEN CASE WHEN (t + i) % 5 > 0 THEN 14 - (t - 1) % 15 END
                              END ORDER BY i) AS delays
          FROM generate_series(1, rounds) t, generate_series(1, arms) i
          GROUP BY t) environment
$$;

CREATE TEMP TABLE test_case AS
SELECT row_number() OVER (ORDER BY d, w, l) AS id, *,
       pg_temp.losses(30, 3) AS losses, pg_temp.delays(kind, 30, 3) AS delays
FROM (VALUES (1, 'none'), (2, 'mixed'), (3, 'of the arm'), (4, 'thirds never'), (5, 'never'),
             (6, 'bursts')) delay (d, kind),
     (VALUES (1, NULL, NULL), (2, 0, NULL), (3, 5, 0.3), (4, 6, 1), (5, 14, 0), (6, 1000, 0.7)) feedback (w, win, missing),
     (VALUES (1, 'dada', NULL::boolean, 100, NULL::integer, 0.25::float8, NULL::float8),
             (2, 'dada', true, 3, NULL, 0.25, NULL),
             (3, 'dada-ix', NULL, 0, NULL, 0.25, NULL),
             (4, 'deda', NULL, 100, 4, 0.25, NULL),
             (5, 'self-tuned', NULL, 100, NULL, 0.25, NULL),
             (6, 'self-tuned', NULL, 100, NULL, 1, 11.5)) learner (l, algorithm, skipping, patience, max_delay, optimism, half_life)
WHERE NOT (l = 3 AND w = 1) AND (w IN (2, 3) OR d IN (3, 6));

CREATE TEMP TABLE run AS
SELECT c.id, s.*
FROM test_case c,
     bandit_simulate(c.losses, c.delays, c.algorithm, c.skipping, c.patience, c.max_delay, seed => c.id,
                     optimism => c.optimism, half_life => c.half_life, feedback_window => c.win,
                     missing_loss => c.missing) s;

-- What the learner is to have met: the delay is that of the arm drawn. What is not
-- there when the window ends is missing_loss then, and by default 1.
CREATE TEMP TABLE met AS
SELECT id, array_agg((round, arm, probability,
                      CASE WHEN late THEN coalesce(missing, 1) ELSE loss END,
                      CASE WHEN late THEN win ELSE delay END, NULL, step_size)::reference.decision ORDER BY round) AS log,
       bool_or(late) AS any_late, max(abs(probability - 1.0 / 3)) > 1e-6 AS learned,
       bool_and(loss = losses[round][arm]) AS losses_match
FROM (SELECT c.id, c.losses, c.win, c.missing, r.round, r.arm, r.probability, r.loss, r.step_size, d.delay,
             c.win IS NOT NULL AND (d.delay IS NULL OR d.delay > c.win) AS late
      FROM test_case c JOIN run r USING (id), LATERAL (SELECT c.delays[r.round][r.arm] AS delay) d) run
GROUP BY id;

CREATE TEMP TABLE judged AS
SELECT id, r.rounds, r.step_sizes, r.probability_difference, r.step_size_difference
FROM test_case c JOIN met m USING (id),
     -- a window turns skipping off, unless it is asked for
     reference.check(m.log, 3, algorithm, coalesce(skipping, win IS NULL AND algorithm <> 'deda'), patience, max_delay) r
WHERE algorithm <> 'self-tuned'
UNION ALL
SELECT id, r.rounds, r.step_sizes, r.probability_difference, r.step_size_difference
FROM test_case c JOIN met m USING (id), reference.self_tuned_check(reference.events(m.log), 3, optimism, half_life) r
WHERE algorithm = 'self-tuned';

-- "learned": in how many runs some probability was not 1/K; "late": in how many
-- something came too late.
SELECT kind, win, missing, count(*) AS runs,
       count(*) FILTER (WHERE learned) AS learned, count(*) FILTER (WHERE any_late) AS late,
       bool_and(losses_match) AS losses_match,
       count(*) FILTER (WHERE rounds = 30 AND step_sizes = 30
                              AND probability_difference < 1e-9 AND step_size_difference < 1e-9) AS agree
FROM test_case JOIN met USING (id) JOIN judged USING (id)
GROUP BY d, w, kind, win, missing
ORDER BY d, w;

--
-- The surface
--

CREATE FUNCTION pg_temp.run(delays integer[], win integer, missing float8 DEFAULT NULL, algorithm text DEFAULT 'self-tuned',
                            max_delay integer DEFAULT NULL, losses float8[] DEFAULT NULL, skipping boolean DEFAULT NULL)
RETURNS text
LANGUAGE sql AS $$
    SELECT string_agg(s::text, ';' ORDER BY round)
    FROM bandit_simulate(coalesce(losses, pg_temp.losses(12, 2)), delays, algorithm, skipping, seed => 3,
                         max_delay => max_delay, feedback_window => win, missing_loss => missing) s
$$;

-- A window that is long enough for everything changes nothing, nor does a
-- missing_loss without a window. One delay a round is the same as that delay for
-- every arm.
SELECT algorithm,
       pg_temp.run(delays, NULL, algorithm => algorithm, max_delay => longest, skipping => false)
     = pg_temp.run(delays, 5, algorithm => algorithm, max_delay => longest) AS long_enough,
       pg_temp.run(delays, NULL, algorithm => algorithm, max_delay => longest)
     = pg_temp.run(delays, NULL, 0.5, algorithm => algorithm, max_delay => longest) AS without_window,
       pg_temp.run('{0,1,2,NULL,4,5,0,1,2,3,NULL,5}', 3, 0.5, algorithm, longest)
     = pg_temp.run('{{0,0},{1,1},{2,2},{NULL,NULL},{4,4},{5,5},{0,0},{1,1},{2,2},{3,3},{NULL,NULL},{5,5}}', 3, 0.5, algorithm, longest)
       AS same_for_all_arms,
       pg_temp.run(delays, 5, algorithm => algorithm, max_delay => longest)
     = pg_temp.run(delays, 4, algorithm => algorithm, max_delay => longest) AS too_short
FROM (VALUES ('{0,1,2,3,4,5,0,1,2,3,4,5}'::integer[])) d (delays),
     (VALUES ('self-tuned', NULL), ('dada', NULL), ('dada-ix', NULL), ('deda', 5)) l (algorithm, longest);

-- A window of 0 rounds: what does not come at once is missing. The delay of what is
-- missing makes no difference.
SELECT pg_temp.run('{0,1,0,2,0,NULL,0,3,0,9,0,1}', 0, 0.25)
     = pg_temp.run('{0,9,0,9,0,9,0,9,0,9,0,NULL}', 0, 0.25) AS late_is_late,
       pg_temp.run('{0,1,0,2,0,NULL,0,3,0,9,0,1}', 0, 0.25)
     = pg_temp.run('{0,1,0,2,0,NULL,0,3,0,9,0,1}', 0, 0.75) AS missing_loss_matters,
       pg_temp.run('{0,1,0,2,0,NULL,0,3,0,9,0,1}', 0)
     = pg_temp.run('{0,1,0,2,0,NULL,0,3,0,9,0,1}', 0, 1) AS worst_by_default;

-- Without max_delay, deda is told in advance, but never more than the window.
SELECT pg_temp.run('{0,1,9,NULL,4,5,0,1,2,3,4,5}', 3, algorithm => 'deda')
     = pg_temp.run('{0,1,4,2147483647,4,5,0,1,2,3,4,5}', 3, algorithm => 'deda') AS told,
       r.rounds, r.probability_difference < 1e-9 AND r.step_size_difference < 1e-9 AS agrees
FROM (SELECT array_agg((round, arm, probability, CASE WHEN delay <= 3 THEN loss ELSE 1 END, least(delay, 3), least(delay, 3),
                        step_size)::reference.decision ORDER BY round) AS log
      FROM bandit_simulate(pg_temp.losses(12, 2), '{0,1,9,NULL,4,5,0,1,2,3,4,5}', 'deda', seed => 3, feedback_window => 3),
           LATERAL (SELECT ('{0,1,9,NULL,4,5,0,1,2,3,4,5}'::integer[])[round] AS delay) d) l,
     reference.check(l.log, 2, 'deda') r;

-- Only the order in the arrays matters, not their lower bounds.
SELECT pg_temp.run('{{0,1},{2,NULL},{1,0}}', 1, losses => '{{0,1},{1,0},{1,1}}')
     = pg_temp.run('[5:7][-1:0]={{0,1},{2,NULL},{1,0}}', 1, losses => '[0:2][4:5]={{0,1},{1,0},{1,1}}') AS lower_bounds;

--
-- A shop: 3 of 20 visitors buy if they see the first arm, 1 of 20 otherwise. A
-- conversion is known 5 to 50 visitors later. That somebody will not buy is never
-- known.
--

CREATE TEMP TABLE shop AS
WITH visitor AS (
    SELECT t, i, (hashint4(1000 * t + i) & 1023) / 1024.0 < CASE i WHEN 1 THEN 0.15 ELSE 0.05 END AS buys,
           5 + (hashint4(7 * t + i) & 1023) % 46 AS delay
    FROM generate_series(1, 4000) t, generate_series(1, 3) i)
SELECT array_agg(losses ORDER BY t) AS losses, array_agg(delays ORDER BY t) AS delays
FROM (SELECT t, array_agg(CASE WHEN buys THEN 0 ELSE 1 END::float8 ORDER BY i) AS losses,
             array_agg(CASE WHEN buys THEN delay END ORDER BY i) AS delays
      FROM visitor GROUP BY t) v;

-- Without a window all that arrives are losses of 0: it learns nothing. With one it
-- learns, also if the window loses half of the conversions. A missing_loss of 0 says
-- that nobody can do wrong.
SELECT win, missing, round(avg((arm = 1)::integer), 1) AS share_of_best, min(round(probability::numeric, 3)) AS least_p
FROM shop, (VALUES (1, NULL, NULL), (2, 50, NULL), (3, 27, NULL), (4, 50, 0), (5, 4, NULL)) w (n, win, missing),
     generate_series(1, 5) seed,
     bandit_simulate(losses, delays, feedback_window => win, missing_loss => missing, seed => seed)
WHERE round > 2000
GROUP BY n, win, missing ORDER BY n;

-- The longer the window, the later one knows, and the more is lost: here all
-- conversions come within 50 visitors.
SELECT win, round(avg(loss)::numeric, 3) AS loss
FROM shop, unnest(ARRAY[50, 500, 2000]) win, generate_series(1, 10) seed,
     bandit_simulate(losses, delays, feedback_window => win, seed => seed)
GROUP BY win ORDER BY win;
