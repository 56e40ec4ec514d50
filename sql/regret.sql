-- Regret: what the paper promises of each learner, on losses and delays that are
-- made by arithmetic; and what skipping is for.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

--
-- Environments: T = 10,000 rounds, K = 4 arms
--

-- A number from 0 to 999 that looks random
CREATE FUNCTION pg_temp.noise(t bigint, i bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT (t * t % 10007 * (31 * i + 7) + t * 7919 + i * 104729) % 100003 % 1000
$$;

CREATE TEMP TABLE loss AS
SELECT environment, t, i, loss::float8
FROM generate_series(1, 10000) t, generate_series(1, 4) i,
     LATERAL (VALUES
         -- the losses are 0 or 1, and arm 2 loses less often than the others
         ('stochastic', (pg_temp.noise(t, i) < CASE i WHEN 2 THEN 100 ELSE 900 END)::integer),
         -- the best arm, 1, becomes the worst, and 3 the best
         ('switching', CASE i WHEN 1 THEN (t > 3000)::integer WHEN 3 THEN (t <= 3000)::integer ELSE 0.9 END),
         -- arms 1 and 2 alternate, so that the last loss misleads; arm 4 is best
         ('alternating', CASE i WHEN 1 THEN t % 2 WHEN 2 THEN 1 - t % 2 WHEN 3 THEN 1 ELSE (t % 4 = 0)::integer END),
         -- as stochastic, but no loss exceeds 0.02
         ('small losses', 0.02 * (pg_temp.noise(t, i) < CASE i WHEN 2 THEN 100 ELSE 900 END)::integer)
     ) v (environment, loss);

CREATE TEMP TABLE environment AS
SELECT environment, losses, best, worst, total, largest
FROM (SELECT environment, array_agg(arms ORDER BY t) AS losses
      FROM (SELECT environment, t, array_agg(loss ORDER BY i) AS arms FROM loss GROUP BY environment, t) r GROUP BY environment) r
JOIN (SELECT environment, min(loss) AS best, max(loss) AS worst, sum(loss) AS total, max(largest) AS largest
      FROM (SELECT environment, i, sum(loss) AS loss, max(loss) AS largest FROM loss GROUP BY environment, i) a
      GROUP BY environment) a USING (environment);

SELECT environment, round(best::numeric) AS best, round(worst::numeric) AS worst FROM environment ORDER BY environment;

-- Feedback that never arrives is late until the end.
CREATE TEMP TABLE delay AS
SELECT delay, t, late, coalesce(late, 10000 - t) AS d
FROM generate_series(1, 10000) t,
     LATERAL (VALUES ('none', 0),
                     ('constant', 5),
                     ('tail', CASE WHEN t % 250 = 3 THEN 20 WHEN t % 16 = 1 THEN 5 ELSE 0 END),
                     ('heavy tail', CASE WHEN t % 1000 = 7 THEN 3000 WHEN t % 250 = 3 THEN 500 WHEN t % 16 = 1 THEN 10 ELSE 0 END),
                     ('some never', CASE WHEN t % 100 <> 37 THEN t % 3 END)) v (delay, late);

-- "skipped" is the term |R| + sqrt(D log K) of the bounds with skipping, for the
-- better of two sets R: none, and all whose feedback takes 1000 rounds or more.
CREATE TEMP TABLE delays AS
SELECT delay, array_agg(late ORDER BY t) AS delays, sum(least(d, 10000 - t)) AS total, max(d) AS longest,
       least(sqrt(sum(d) * ln(4)),
             count(*) FILTER (WHERE late IS NULL OR d >= 1000) + sqrt(sum(d) FILTER (WHERE late < 1000) * ln(4))) AS skipped
FROM delay GROUP BY delay;

-- The bounds. Those of dada and deda are for the expected regret, those of
-- dada-ix hold in each run with probability 0.99.
CREATE FUNCTION pg_temp.bound(algorithm text, skipping boolean, total_delay float8, longest float8, skipped float8,
                              total_loss float8, largest_loss float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        -- Corollary 3.2
        WHEN algorithm = 'dada' AND NOT skipping THEN 3 * sqrt(log_k * (t * k + total_delay))
        -- Section 5, theorem (i)
        WHEN algorithm = 'dada' THEN 3 * sqrt(t * k * log_k) + 10 * greatest(2 * log_k, skipped)
        -- Corollary 4.2
        WHEN algorithm = 'dada-ix' AND NOT skipping THEN
            2 * sqrt(3 * log_k * (2 * k * t + total_delay))
            + (2 * sqrt((2 * t * k + total_delay) / (3 * log_k)) + longest + 2) * log_delta / 2
        -- Section 5, theorem (ii)
        WHEN algorithm = 'dada-ix' THEN
            (2 * sqrt(6) + sqrt(2 / 3.0) * log_delta / log_k) * sqrt(k * t * log_k)
            + (4 * (sqrt(3) + 1) + (1 + 2 / sqrt(3)) * log_delta / log_k) * greatest(2 * log_k, skipped)
        -- Section 6, the theorem, where a product of two losses is at most the
        -- square of the largest
        WHEN algorithm = 'deda' THEN
            4 * longest ^ 2 + 6 * longest + 2
            + (2 + sqrt(2)) * sqrt(log_k * (2 * total_delay * largest_loss ^ 2 + total_loss))
    END
    FROM (SELECT 10000::float8 AS t, 4::float8 AS k, ln(4::float8) AS log_k, ln(2 / 0.01::float8) AS log_delta) x
$$;

-- A bound above the regret of the worst arm holds for every player: such are left
-- out.
CREATE TEMP TABLE promise AS
SELECT v.*, d.delay, e.environment, b.bound
FROM (VALUES (1, 'dada', 'dada', false, false),
             (2, 'dada, skipping', 'dada', true, false),
             (3, 'dada-ix', 'dada-ix', false, false),
             (4, 'dada-ix, skipping', 'dada-ix', true, false),
             (5, 'deda, delays told', 'deda', false, true),
             (6, 'deda, maximum known', 'deda', false, false)) v (id, name, algorithm, skipping, told)
CROSS JOIN delays d
CROSS JOIN environment e
CROSS JOIN LATERAL pg_temp.bound(algorithm, skipping, d.total, d.longest, d.skipped, e.total, e.largest) b (bound)
WHERE bound < e.worst - e.best;

CREATE TEMP TABLE run AS
SELECT id, name, delay, environment, bound, seed,
       (SELECT sum(loss)
        FROM bandit_simulate(losses, delays, algorithm, skipping, 0, CASE WHEN algorithm = 'deda' AND NOT told THEN d.longest END,
                             seed => seed)) - e.best AS regret
FROM promise JOIN environment e USING (environment) JOIN delays d USING (delay), generate_series(1, 3) seed;

-- "kept": the mean regret (of dada-ix, each) is below the bound.
SELECT name, delay, string_agg(environment, ', ' ORDER BY environment) AS environments, sum(runs) AS runs,
       round(max(bound)::numeric) AS bound,
       bool_and(CASE WHEN name LIKE 'dada-ix%' THEN most ELSE mean END < bound) AS kept
FROM (SELECT id, name, delay, environment, bound, count(*) AS runs, max(regret) AS most, avg(regret) AS mean
      FROM run GROUP BY id, name, delay, environment, bound) r
GROUP BY id, name, delay ORDER BY id, delay;

--
-- What skipping is for: of 1% of the decisions the feedback never arrives.
--

-- K = 10 arms, T = 100,000 rounds, and after the first half another arm is
-- best. Without skipping the bandit takes ever smaller steps, for the delays add
-- up, and does not turn. With it, it hardly notices.
CREATE TEMP TABLE rescue AS
SELECT array_agg(arms ORDER BY t) AS losses,
       array_agg(CASE WHEN t % 100 <> 37 THEN 0 END ORDER BY t) AS delays
FROM generate_series(1, 100000) t,
     LATERAL (SELECT CASE WHEN t <= 50000 THEN ARRAY[0.4, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
                                          ELSE ARRAY[0.8, 0.2, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5] END::float8[]) a (arms);

-- Arm 2 is the best in hindsight. Single runs of dada may be unlucky, with it
-- drawn at a tiny probability: hence the median.
SELECT algorithm, skipping, runs,
       CASE WHEN median > 5000 THEN 'thousands' WHEN median < 1000 THEN 'about zero, or less' ELSE 'something else' END AS regret
FROM (SELECT algorithm, skipping, count(*) AS runs, percentile_cont(0.5) WITHIN GROUP (ORDER BY regret) AS median
      FROM unnest(ARRAY['dada', 'dada-ix']) algorithm, unnest(ARRAY[false, true]) skipping, generate_series(1, 9) seed, rescue,
           LATERAL (SELECT sum(loss) - (50000 * 0.5 + 50000 * 0.2) AS regret
                    FROM bandit_simulate(losses, delays, algorithm, skipping, seed => seed)) r
      GROUP BY algorithm, skipping) r
ORDER BY algorithm, skipping;
