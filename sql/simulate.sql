-- bandit_simulate: every round of every learner against the reference
-- (reference.sql), then the surface of the function.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

--
-- The cases: environments times learners
--

-- Losses of a T x K environment. Integer arithmetic, so that they are the same
-- everywhere.
CREATE FUNCTION pg_temp.losses(kind text, rounds integer, arms integer) RETURNS float8[]
LANGUAGE sql AS $$
    SELECT array_agg(losses ORDER BY t)
    FROM (SELECT t, array_agg(CASE kind
                                  WHEN 'mixed' THEN ((31 * t * t + 17 * i + 13 * t * i) % 101) / 100.0
                                  WHEN 'zero' THEN 0
                                  WHEN 'unit' THEN 1
                                  WHEN 'tiny' THEN 1e-300
                                  WHEN 'tiny or unit' THEN CASE WHEN (t + i) % 2 = 0 THEN 1 ELSE 1e-300 END
                                  WHEN 'best is 2' THEN (i <> 2)::integer
                              END::float8 ORDER BY i) AS losses
          FROM generate_series(1, rounds) t, generate_series(1, arms) i
          GROUP BY t) environment
$$;

CREATE FUNCTION pg_temp.delays(kind text, rounds integer) RETURNS integer[]
LANGUAGE sql AS $$
    SELECT CASE WHEN kind <> 'omitted' THEN
           array_agg(CASE kind
                         WHEN 'constant' THEN 5
                         WHEN 'short' THEN (7 * t * t + 3 * t) % 4
                         WHEN 'random' THEN (7 * t * t + 3 * t) % 23
                         -- all feedback of 15 rounds at once
                         WHEN 'bursts' THEN 14 - (t - 1) % 15
                         -- nothing until half time, then everything
                         WHEN 'half time' THEN greatest(rounds / 2 - t, 0)
                         WHEN 'first never' THEN CASE WHEN t > 1 THEN 0 END
                         WHEN 'thirds never' THEN CASE WHEN t % 3 > 0 THEN t % 5 END
                         WHEN 'all never' THEN NULL
                         WHEN 'longest' THEN CASE WHEN t % 7 = 0 THEN 2147483647 ELSE t % 3 END
                     END ORDER BY t) END
    FROM generate_series(1, rounds) t
$$;

CREATE TEMP TABLE environment AS
SELECT environment.*,
       pg_temp.losses(loss, rounds, arms) AS losses,
       pg_temp.delays(delay, rounds) AS delays
FROM (VALUES (1, 'mixed', 'omitted', 2, 40),
             (2, 'unit', 'constant', 2, 60),
             (3, 'best is 2', 'short', 3, 60),
             (4, 'mixed', 'random', 12, 80),
             (5, 'unit', 'bursts', 2, 60),
             (6, 'mixed', 'bursts', 5, 60),
             (7, 'best is 2', 'half time', 4, 60),
             (8, 'mixed', 'thirds never', 3, 60),
             (9, 'unit', 'first never', 7, 40),
             (10, 'unit', 'all never', 2, 40),
             (11, 'zero', 'random', 3, 40),
             (12, 'tiny', 'short', 2, 40),
             (13, 'tiny or unit', 'bursts', 2, 60),
             (14, 'mixed', 'longest', 10, 40),
             (15, 'mixed', 'thirds never', 4, 250)) environment (id, loss, delay, arms, rounds);

-- "bound" is what deda is given as max_delay: nothing (it is told each delay
-- in advance), the longest delay, or less than that.
CREATE TEMP TABLE learner (id, algorithm, skipping, patience, bound, step_scale) AS
VALUES (1, 'dada', false, 100, NULL, 1::float8),
       (2, 'dada', true, 0, NULL, 1),
       (3, 'dada', true, 3, NULL, 1),
       (4, 'dada', NULL, 100, NULL, 1),
       (5, 'dada', false, 100, NULL, 4),
       (6, 'dada', true, 3, NULL, 0.5),
       (7, 'dada-ix', false, 100, NULL, 1),
       (8, 'dada-ix', true, 0, NULL, 1),
       (9, 'dada-ix', true, 3, NULL, 1),
       (10, 'dada-ix', NULL, 100, NULL, 1),
       (11, 'dada-ix', false, 100, NULL, 0.5),
       (12, 'dada-ix', true, 0, NULL, 4),
       (13, 'deda', NULL, 100, NULL, 1),
       (14, 'deda', false, 100, 'longest', 1),
       (15, 'deda', NULL, 100, 'too small', 1);

-- A patience of 100 rounds makes a difference in the long environment only,
-- the others are short.
CREATE TEMP TABLE test_case AS
SELECT 100 * e.id + l.id AS id, e.loss, e.delay, e.arms, e.rounds, e.losses, e.delays,
       l.algorithm, l.skipping, l.patience, l.bound, l.step_scale,
       CASE bound WHEN 'longest' THEN longest
                  WHEN 'too small' THEN least(1, longest - 1) END AS max_delay
FROM environment e
CROSS JOIN learner l
CROSS JOIN LATERAL (SELECT coalesce(max(d), 0) AS longest FROM unnest(e.delays) d) d
WHERE (e.rounds > 100) = (l.skipping IS NULL AND l.patience = 100 AND l.algorithm <> 'deda')
  AND (bound = 'too small' AND longest = 0) IS NOT TRUE;

CREATE TEMP TABLE run AS
SELECT c.id, s.*
FROM test_case c,
     bandit_simulate(c.losses, c.delays, c.algorithm, c.skipping, c.patience, c.max_delay,
                     c.step_scale, seed => c.id) WITH ORDINALITY s;

-- "learned": some probability is not 1/K, so the case has something to tell.
SELECT c.loss, c.delay, c.arms, c.algorithm, c.skipping, c.patience, c.bound, c.step_scale,
       r.rounds, r.step_sizes = r.rounds AS steps, r.skipped, s.learned,
       r.probability_difference < 1e-9 AND r.step_size_difference < 1e-9 AS agrees
FROM test_case c,
     LATERAL (SELECT array_agg((round, arm, probability, loss,
                                CASE WHEN c.delays IS NULL THEN 0 ELSE c.delays[round] END,
                                CASE WHEN algorithm = 'deda' AND max_delay IS NULL THEN c.delays[round] END,
                                step_size)::reference.decision) AS log,
                     max(abs(probability - 1.0 / c.arms)) > 1e-6 AS learned
              FROM run WHERE run.id = c.id) s,
     reference.check(s.log, c.arms, c.algorithm, c.skipping, c.patience, c.max_delay, c.step_scale) r
ORDER BY c.id;

--
-- The surface
--

-- Of all runs above: one row per round, in order; the loss is that of the arm
-- played; no probability is zero; step sizes do not grow (Theorem 3.1).
SELECT count(DISTINCT id) AS runs,
       bool_and(round = ordinality) AS in_order,
       bool_and(last_round = rounds) AS complete,
       bool_and(loss = losses[round][arm]) AS losses_match,
       bool_and(probability > 0 AND probability <= 1) AS probabilities,
       bool_and(step_size > 0 AND step_size <= coalesce(previous, 'infinity')) AS step_sizes
FROM (SELECT c.id, c.rounds, c.losses, r.round, r.ordinality, r.arm, r.loss, r.probability, r.step_size,
             max(r.round) OVER (PARTITION BY c.id) AS last_round,
             lag(r.step_size) OVER (PARTITION BY c.id ORDER BY r.ordinality) AS previous
      FROM test_case c JOIN run r USING (id)) runs;

-- One run as text, to compare runs by.
CREATE FUNCTION pg_temp.run(seed bigint, delays integer[] DEFAULT '{0,1,NULL,3,0,2,1,1,0,0,5,3,0,0,0,0}',
                            losses float8[] DEFAULT NULL, algorithm text DEFAULT 'dada')
RETURNS text
LANGUAGE sql AS $$
    SELECT string_agg(s::text, ';' ORDER BY round)
    FROM bandit_simulate(coalesce(losses, pg_temp.losses('mixed', 16, 3)), delays, algorithm, seed => seed) s
$$;

-- The same seed gives the same run, another seed another one, in all its 64 bits.
SELECT pg_temp.run(1) = pg_temp.run(1) AS same_seed,
       pg_temp.run(1) = pg_temp.run(2) AS other_seed,
       pg_temp.run(1) = pg_temp.run(4294967297) AS high_bits,
       pg_temp.run(-1) = pg_temp.run(1) AS negative,
       count(DISTINCT pg_temp.run(seed)) AS extremes
FROM unnest(ARRAY[0, -9223372036854775808, 9223372036854775807]) seed;

-- Without a seed, setseed() makes a run repeatable; a run with a seed in
-- between makes no difference.
CREATE TEMP TABLE unseeded (n serial, run text);
SELECT setseed(0.25);
INSERT INTO unseeded (run) SELECT pg_temp.run(NULL);
INSERT INTO unseeded (run) SELECT pg_temp.run(NULL);
SELECT setseed(0.25);
INSERT INTO unseeded (run) SELECT pg_temp.run(NULL);
SELECT length(pg_temp.run(1)) > 0 AS seeded;
INSERT INTO unseeded (run) SELECT pg_temp.run(NULL);
SELECT setseed(-0.25);
INSERT INTO unseeded (run) SELECT pg_temp.run(NULL);
SELECT a.n, array_agg(b.n ORDER BY b.n) AS same FROM unseeded a JOIN unseeded b USING (run)
GROUP BY a.n ORDER BY a.n;

-- Runs side by side do not disturb each other.
SELECT count(*), bool_and(coalesce(a = b, false)) AS side_by_side
FROM bandit_simulate(pg_temp.losses('mixed', 50, 3), seed => 7, algorithm => 'dada') a
FULL JOIN bandit_simulate(pg_temp.losses('mixed', 50, 3), seed => 7, algorithm => 'dada') b USING (round);

-- Only the order in the arrays matters, not their lower bounds.
SELECT pg_temp.run(1, '{1,0,NULL}', '{{0.5,1},{0,1},{1,0.5}}')
     = pg_temp.run(1, '[-7:-5]={1,0,NULL}', '[0:2][5:6]={{0.5,1},{0,1},{1,0.5}}') AS lower_bounds;

-- Omitted delays are 0. What arrives after the last round is as good as never:
-- except to deda, which is told in advance.
SELECT algorithm,
       pg_temp.run(1, NULL, algorithm => algorithm)
     = pg_temp.run(1, array_fill(0, ARRAY[16]), algorithm => algorithm) AS omitted,
       pg_temp.run(1, '{0,NULL,0,0,0,NULL,0,0,0,0,0,0,0,0,0,NULL}', algorithm => algorithm)
     = pg_temp.run(1, '{0,15,0,0,0,2147483647,0,0,0,0,0,0,0,0,0,1}', algorithm => algorithm) AS too_late
FROM unnest(ARRAY['dada', 'dada-ix', 'deda']) algorithm;

-- The defaults: dada, with skipping, patience 100, step scale 1.
SELECT count(*), bool_and(coalesce(a = b, false)) AS defaults
FROM bandit_simulate(pg_temp.losses('mixed', 150, 3), array_fill(NULL::integer, ARRAY[150]), 'dada', seed => 7) a
FULL JOIN bandit_simulate(pg_temp.losses('mixed', 150, 3), array_fill(NULL::integer, ARRAY[150]),
                          'dada', true, 100, NULL, 1, 7) b USING (round);

-- The smallest run.
SELECT round, probability, round(step_size::numeric, 6) AS step_size, loss
FROM bandit_simulate('{{1,1}}', algorithm => 'dada');
