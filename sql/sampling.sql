-- Draws follow the probabilities: a chi-square test that would catch a biased
-- draw, and the draw itself, which is the inverse of the distribution function
-- at one number of the session's generator.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

-- Bandits with uneven probabilities. The smallest is above 10^-4, so that every
-- arm is expected often enough in 100,000 draws.
CREATE TEMP TABLE bandit AS
SELECT arms, format('{"version": 1, "algorithm": "dada", "arms": %s, "skipping": false, "step_scale": 1, "round": 9, '
                    '"outstanding": 0, "cumulative_delay": 0, "z": [%s]}', arms, z)::bandit_state AS state
FROM (VALUES (2), (10), (1000)) v (arms),
     LATERAL (SELECT string_agg(((i * 7 % 23) * scale)::text, ', ' ORDER BY i) AS z
              FROM generate_series(1, arms) i,
                   LATERAL (SELECT CASE arms WHEN 2 THEN 1 WHEN 10 THEN 0.8 ELSE 4 END) s (scale)) z;

CREATE TEMP TABLE probability AS
SELECT arms, i AS arm, p FROM bandit, unnest(bandit_probabilities(state)) WITH ORDINALITY u (p, i);
SELECT arms, count(*), round(min(p)::numeric, 5) AS least, round(max(p)::numeric, 5) AS most,
       abs(sum(p) - 1) < 1e-12 AS sum_is_1
FROM probability GROUP BY arms ORDER BY arms;

-- How far counts are from expected ones: the chi-square statistic as a number of
-- standard deviations (Wilson and Hilferty).
CREATE FUNCTION pg_temp.deviation(counts float8[], expected float8[]) RETURNS float8
LANGUAGE sql AS $$
    SELECT ((sum((c - e) ^ 2 / e) / df) ^ (1 / 3.0) - (1 - 2 / (9 * df))) / sqrt(2 / (9 * df))
    FROM unnest(counts, expected) u (c, e), LATERAL (SELECT cardinality(counts) - 1.0::float8) d (df)
    GROUP BY df
$$;

-- Draw again and again from the same state: the tickets, in order.
CREATE FUNCTION pg_temp.draws(state bandit_state, times integer) RETURNS SETOF bandit_ticket
LANGUAGE sql VOLATILE AS $$
    SELECT (bandit_draw(state)).ticket FROM generate_series(1, times)
$$;

SELECT setseed(0.5);
CREATE TEMP TABLE draw AS
SELECT arms, n, d.round, d.arm, d.probability
FROM (SELECT * FROM bandit ORDER BY arms) b, pg_temp.draws(state, 100000) WITH ORDINALITY d (round, arm, probability, gamma, z, m, n);

-- Each ticket has the round and the probability that belong to it.
SELECT d.arms, count(*), count(DISTINCT d.arm) AS drawn, bool_and(d.round = 10) AS round,
       bool_and(d.probability = p.p) AS probability
FROM draw d JOIN probability p USING (arms, arm) GROUP BY d.arms ORDER BY d.arms;

CREATE TEMP TABLE tally AS
SELECT arms, array_agg(n ORDER BY arm) AS counts, array_agg(p ORDER BY arm) AS p
FROM (SELECT p.arms, p.arm, p.p, count(d.arm)::float8 AS n
      FROM probability p LEFT JOIN draw d USING (arms, arm) GROUP BY p.arms, p.arm, p.p) t
GROUP BY arms;

-- "fair" is the test. The others show that it has teeth: had the draws been
-- meant to follow slightly other probabilities, it would have failed, by far.
SELECT t.arms,
       pg_temp.deviation(counts, fair) BETWEEN -4 AND 4 AS fair,
       pg_temp.deviation(counts, uneven) > 5 AS uneven,
       pg_temp.deviation(counts, neighbour) > 5 AS neighbour,
       pg_temp.deviation(counts, step_size) > 5 AS step_size,
       pg_temp.deviation(counts, last_arm) > 5 AS last_arm
FROM tally t,
     LATERAL (SELECT CASE WHEN arms = 1000 THEN 0.08 ELSE 0.04 END) w (e),
     LATERAL (SELECT sum(p * (2 * (i % 2) - 1)) AS odd, sum(p ^ (1 + e)) AS norm FROM unnest(t.p) WITH ORDINALITY u (p, i)) s,
     LATERAL (SELECT array_agg(100000 * p ORDER BY i) AS fair,
                     -- every other arm a few percent more, the rest less
                     array_agg(100000 * p * (1 + e * (2 * (i % 2) - 1)) / (1 + e * odd) ORDER BY i) AS uneven,
                     -- a part of each arm's draws taken from the next
                     array_agg(100000 * ((1 - e) * p + e * t.p[1 + i % arms]) ORDER BY i) AS neighbour,
                     -- a step size that is a few percent wrong
                     array_agg(100000 * p ^ (1 + e) / norm ORDER BY i) AS step_size,
                     -- a fiftieth of the draws always give the last arm
                     array_agg(100000 * (0.98 * p + 0.02 * (i = arms)::integer) ORDER BY i) AS last_arm
              FROM unnest(t.p) WITH ORDINALITY u (p, i)) x
ORDER BY t.arms;

-- No draw depends on the one before: all pairs, of 10 arms.
SELECT count(*) AS pairs, pg_temp.deviation(array_agg(n), array_agg(50000 * a.p * b.p)) BETWEEN -4 AND 4 AS independent
FROM (SELECT first, second, count(*)::float8 AS n
      FROM (SELECT n, arm AS first, lead(arm) OVER (ORDER BY n) AS second FROM draw WHERE arms = 10) d
      WHERE n % 2 = 1 GROUP BY first, second) d
JOIN probability a ON (a.arms, a.arm) = (10, first)
JOIN probability b ON (b.arms, b.arm) = (10, second);

--
-- One random number a draw, and which arm it gives
--

-- The arm is the first whose cumulative probability is above the number.
CREATE TEMP TABLE cumulative AS
SELECT arms, arm, upper - p AS lower, upper
FROM (SELECT *, sum(p) OVER (PARTITION BY arms ORDER BY arm) AS upper FROM probability) c;

CREATE FUNCTION pg_temp.inverse(arms integer, state bandit_state, OUT as_many boolean, OUT different boolean, OUT inverse boolean)
LANGUAGE plpgsql AS $$
DECLARE
    drawn integer[];
    numbers float8[];
    next float8;
BEGIN
    PERFORM setseed(-0.25);
    drawn := ARRAY(SELECT d.arm FROM pg_temp.draws(state, 2000) d);
    next := random();
    PERFORM setseed(-0.25);
    numbers := ARRAY(SELECT random() FROM generate_series(1, 2000));
    as_many := random() = next;
    SELECT count(DISTINCT d.arm) > 1, bool_and(number > lower - 1e-12 AND number < upper + 1e-12)
      INTO STRICT different, inverse
      FROM unnest(drawn, numbers) d (arm, number) JOIN cumulative c ON (c.arms, c.arm) = (inverse.arms, d.arm);
END
$$;
SELECT arms, i.* FROM bandit, pg_temp.inverse(arms, state) i ORDER BY arms;

-- bandit_simulate takes one number a round, unless it has a seed.
SELECT setseed(0.125);
SELECT count(*) FROM bandit_simulate('{{0,1},{1,0},{1,1},{0,0},{0.5,0.5}}', '{3,2,NULL,0,0}', 'dada');
SELECT random() AS next \gset
SELECT setseed(0.125);
SELECT count(*) FROM bandit_simulate('{{0,1},{1,0},{1,1},{0,0},{0.5,0.5}}', seed => 7, algorithm => 'dada');
SELECT count(random()) FROM generate_series(1, 5);
SELECT random() = :next AS as_many_numbers;

-- setseed() repeats the sequence.
CREATE FUNCTION pg_temp.arms_after(seed float8) RETURNS text
LANGUAGE sql VOLATILE AS $$
    SELECT setseed(seed);
    SELECT string_agg(d.arm::text, ' ' ORDER BY n)
    FROM bandit b, pg_temp.draws(b.state, 100) WITH ORDINALITY d (round, arm, probability, gamma, z, m, n) WHERE b.arms = 10
$$;
SELECT pg_temp.arms_after(0.5) = pg_temp.arms_after(0.5) AS repeated, pg_temp.arms_after(0.5) = pg_temp.arms_after(0.25) AS other;

--
-- Arms of probability zero are never drawn, wherever they are.
--

SELECT setseed(0.75);
SELECT v.n, zero, array_agg(DISTINCT d.arm) AS drawn, min(d.probability) > 0.2 AS likely
FROM (VALUES (1, '[1e5, 0, 0, 0]'), (2, '[0, 0, 0, 1e5]'), (3, '[0, 1e5, 1e5, 0]'), (4, '[1e5, 1e5, 0, 1e308]'), (5, '[1e5, 0, 1e5, 0]'))
     v (n, z),
     LATERAL (SELECT format('{"version": 1, "algorithm": "dada", "arms": 4, "skipping": false, "step_scale": 1, "round": 9, '
                            '"outstanding": 0, "cumulative_delay": 0, "z": %s}', z)::bandit_state AS state) s,
     LATERAL (SELECT array_agg(i) FILTER (WHERE p = 0) FROM unnest(bandit_probabilities(state)) WITH ORDINALITY u (p, i)) z (zero),
     pg_temp.draws(state, 10000) d
GROUP BY v.n, zero ORDER BY v.n;

--
-- bandit_simulate draws with its own generator.
--

-- No losses, even probabilities
SELECT pg_temp.deviation(array_agg(n), array_agg(10000::float8)) BETWEEN -4 AND 4 AS even, count(*) AS arms
FROM (SELECT count(*)::float8 AS n FROM bandit_simulate(array_fill(0::float8, ARRAY[100000, 10]), seed => 42, algorithm => 'dada') GROUP BY arm) c;

-- Uneven ones: the mean of 1/p is the number of arms if the arms are drawn with
-- the probabilities that are reported.
-- "teeth": not so if each probability were reported with a factor of 1.1.
-- Smaller steps of "dada" keep its probabilities from becoming so small, and 1/p
-- so large, that a few draws decide.
SELECT algorithm, count(*) AS rounds, min(probability) < 0.1 AND max(probability) > 0.4 AS uneven,
       abs(avg(1 / probability) - 4) < 4 * stddev(1 / probability) / sqrt(count(*)) AS fair,
       abs(avg(1 / probability / 1.1) - 4) > 4 * stddev(1 / probability) / sqrt(count(*)) AS teeth
FROM unnest(ARRAY['dada', 'dada-ix', 'deda']) algorithm,
     (SELECT array_agg(ARRAY[0.46, 0.5, 0.48, 0.52]::float8[] ORDER BY t) AS losses FROM generate_series(1, 60000) t) l,
     bandit_simulate(losses, algorithm => algorithm, seed => 7,
                     step_scale => CASE algorithm WHEN 'dada' THEN 0.3 ELSE 1 END)
WHERE round > 1000
GROUP BY algorithm ORDER BY algorithm;
