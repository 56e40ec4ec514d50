-- bandit_rehearse: a learner on a log of past decisions. Is its estimate what the
-- learner really loses in the world that the log is from?

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

--
-- A world of three arms, which lose in 80, 70 and 50% of all rounds. 80 logs of it
-- with 1,500 rounds each, and 80 runs of a learner that has the world to itself.
--

SELECT setseed(0.5);

-- How a log was drawn: the shares of its arms, in its first and in its second half
CREATE TEMP TABLE logger (logger, shares) AS
VALUES ('alike', '{{0.3333333333333333,0.3333333333333333,0.3333333333333334},{0.3333333333333333,0.3333333333333333,0.3333333333333334}}'::float8[]),
       ('unequal', '{{0.6,0.25,0.15},{0.6,0.25,0.15}}'),
       ('changing', '{{0.2,0.2,0.6},{0.6,0.2,0.2}}');

CREATE TEMP TABLE log AS
SELECT n, logger, array_agg((ARRAY['plain', 'funny', 'bold'])[arm] ORDER BY t) AS arms,
       array_agg((coin < (ARRAY[0.8, 0.7, 0.5])[arm])::integer::float8 ORDER BY t) AS losses,
       array_agg(shares[half][arm] ORDER BY t) AS probabilities,
       array_agg(delay ORDER BY t) AS delays
FROM (SELECT n, logger, t, coin, delay, shares, half,
             CASE WHEN u < shares[half][1] THEN 1 WHEN u < shares[half][1] + shares[half][2] THEN 2 ELSE 3 END AS arm
      FROM (SELECT n, logger, t, shares, random() AS u, random() AS coin, (30 * random())::integer AS delay,
                   CASE WHEN t <= 750 THEN 1 ELSE 2 END AS half
            FROM logger, generate_series(1, 80) n, generate_series(1, 1500) t) round) drawn
GROUP BY n, logger;

CREATE TEMP TABLE world AS
SELECT n, array_agg(losses ORDER BY t) AS losses, array_agg((30 * random())::integer ORDER BY t) AS delays
FROM (SELECT n, t, ARRAY[random() < 0.8, random() < 0.7, random() < 0.5]::integer[]::float8[] AS losses
      FROM generate_series(1, 80) n, generate_series(1, 1500) t) round
GROUP BY n;

CREATE TEMP TABLE rehearsal AS
SELECT kind, logger, with_probabilities, algorithm, with_delays, win, r.*, n, truth.loss AS true_loss
FROM (VALUES (1, 'alike', false, 'self-tuned', false, NULL::integer),
             (2, 'alike', true, 'dada', false, NULL),
             (3, 'unequal', true, 'self-tuned', false, NULL),
             (4, 'changing', true, 'self-tuned', false, NULL),
             (5, 'alike', false, 'self-tuned', true, NULL),
             (6, 'unequal', true, 'self-tuned', true, 15),
             -- this must be wrong
             (7, 'changing', false, 'self-tuned', false, NULL))
         kind (kind, logger, with_probabilities, algorithm, with_delays, win)
     JOIN log l USING (logger),
     bandit_rehearse(l.arms, l.losses, CASE WHEN with_probabilities THEN l.probabilities END,
                     CASE WHEN with_delays THEN l.delays END, algorithm, seed => n, feedback_window => win) r,
     -- the same number of rounds, with the world to itself
     LATERAL (SELECT avg(s.loss) AS loss
              FROM world w, bandit_simulate(w.losses, CASE WHEN with_delays THEN w.delays END, algorithm, seed => 1000 + n,
                                            feedback_window => win) s
              WHERE w.n = l.n AND s.round <= r.used) truth;

-- The estimate is unbiased: on average over all logs it is what the learner loses, up
-- to 3 standard errors. Without the probabilities of a log that was not drawn
-- uniformly it is not. "covered": how often the interval has the mean of all runs.
SELECT kind, logger, with_probabilities AS p, algorithm, with_delays AS delays, win, count(*) AS logs,
       round(avg(used) / 1500, 2) AS used, round(avg(loss)::numeric, 2) AS loss, round(avg(true_loss)::numeric, 2) AS truth,
       round(avg(logged_loss)::numeric, 2) AS logged,
       abs(avg(loss - true_loss)) < 3 * stddev(loss - true_loss) / sqrt(count(*)) AS unbiased,
       round(avg((m.truth BETWEEN loss_low AND loss_high)::integer), 1) AS covered
FROM rehearsal r JOIN (SELECT kind, avg(true_loss) AS truth FROM rehearsal GROUP BY kind) m USING (kind)
GROUP BY kind, logger, with_probabilities, algorithm, with_delays, win
ORDER BY kind;

-- The log of another learner, with the probabilities that it has used. The estimate is
-- unbiased with such a log, too, but few rounds can be used, since some arms became
-- rare. With a larger least_probability there are many more, and the bias is small.
WITH learner AS (
    SELECT n, array_agg(arm::text ORDER BY round) AS arms, array_agg(loss ORDER BY round) AS losses,
           array_agg(probability ORDER BY round) AS probabilities
    FROM world w, LATERAL (SELECT s.* FROM bandit_simulate(w.losses, algorithm => 'dada', seed => 2000 + n) s) s
    GROUP BY n)
SELECT least, round(avg(r.used) / 1500, 2) AS used, round(avg(r.loss)::numeric, 2) AS loss, round(avg(truth.loss)::numeric, 2) AS truth,
       round(avg(r.logged_loss)::numeric, 2) AS logged,
       abs(avg(r.loss - truth.loss)) < 3 * stddev(r.loss - truth.loss) / sqrt(count(*)) AS unbiased
FROM learner l, unnest(ARRAY[NULL, 0.05, 0.3]) least,
     bandit_rehearse(l.arms, l.losses, l.probabilities, seed => n, least_probability => least) r,
     LATERAL (SELECT avg(s.loss) AS loss
              FROM world w, bandit_simulate(w.losses, seed => 3000 + l.n) s
              WHERE w.n = l.n % 80 + 1 AND s.round <= r.used) truth
GROUP BY least ORDER BY least NULLS FIRST;

--
-- A learner that gets no feedback plays all arms alike
--

-- So all of a uniform log can be used, and its losses are those of the log.
SELECT r.rounds, r.used, r.loss = r.logged_loss AS same,
       abs(r.logged_loss - (SELECT avg(l) FROM unnest(losses) l)) < 1e-12 AS mean,
       abs(r.loss_high - r.loss - 1.959964 * (SELECT stddev(l) / sqrt(count(*)) FROM unnest(losses) l)) < 1e-12 AS high,
       abs(r.loss - r.loss_low - 1.959964 * (SELECT stddev(l) / sqrt(count(*)) FROM unnest(losses) l)) < 1e-12 AS low
FROM log, bandit_rehearse(arms, losses, delays => array_fill(NULL::integer, ARRAY[1500]), seed => 1) r
WHERE n = 1 AND logger = 'alike';

-- With probabilities as much as the rarest arm allows: 3 times 0.15. The arms come
-- out alike: (0.8 + 0.7 + 0.5) / 3.
SELECT round(avg(used) / 1500, 2) AS used, round(avg(r.loss)::numeric, 2) AS loss, round(avg(logged_loss)::numeric, 2) AS logged
FROM log, bandit_rehearse(arms, losses, probabilities, array_fill(NULL::integer, ARRAY[1500]), seed => n) r
WHERE logger = 'unequal';

-- least_probability: the rarest arm may come too seldom, for the sake of more rounds;
-- or all arms, for nothing. The smallest probability of the log is the default.
SELECT least, round(avg(r.used) / 1500, 2) AS used, round(avg(r.loss)::numeric, 2) AS loss,
       bool_and(r = d) AS default
FROM log, unnest(ARRAY[0.05, 0.15, 0.25, 1]) least,
     bandit_rehearse(arms, losses, probabilities, array_fill(NULL::integer, ARRAY[1500]), seed => n, least_probability => least) r,
     bandit_rehearse(arms, losses, probabilities, array_fill(NULL::integer, ARRAY[1500]), seed => n) d
WHERE logger = 'unequal'
GROUP BY least ORDER BY least;

-- A window makes feedback out of silence: every loss is 1, or 0.5.
SELECT missing, round(avg(r.used) / 1500, 1) AS used
FROM log, unnest(ARRAY[1, 0.5]) missing,
     bandit_rehearse(arms, losses, delays => array_fill(NULL::integer, ARRAY[1500]), seed => n, feedback_window => 0,
                     missing_loss => missing) r
WHERE logger = 'alike' AND n <= 10
GROUP BY missing ORDER BY missing;

--
-- The surface
--

-- The same seed gives the same result. The names of the arms do not matter, nor do
-- lower bounds. Equal probabilities are the same as none.
CREATE TEMP TABLE one AS SELECT * FROM log WHERE n = 7 AND logger = 'alike';
SELECT a.used > 500 AS used, a = b AS same_seed, a = c AS other_seed,
       a.used = d.used AND abs(a.loss - d.loss) < 1e-9 AS other_names, a = e AS lower_bounds,
       a.used = f.used AND abs(a.loss - f.loss) < 1e-9 AS equal_probabilities
FROM one, bandit_rehearse(arms, losses, seed => 1) a, bandit_rehearse(arms, losses, seed => 1) b,
     bandit_rehearse(arms, losses, seed => 2) c,
     bandit_rehearse((SELECT array_agg(CASE a WHEN 'plain' THEN '' WHEN 'funny' THEN repeat('ü', 1000) ELSE 'A' END ORDER BY i)
                      FROM unnest(arms) WITH ORDINALITY _ (a, i)), losses, seed => 1) d,
     bandit_rehearse(('[-7:1492]=' || arms::text)::text[], ('[0:1499]=' || losses::text)::float8[], seed => 1) e,
     bandit_rehearse(arms, losses, array_fill(0.5::float8, ARRAY[1500]), seed => 1) f;

-- Without a seed it draws from the session's numbers.
SELECT setseed(0.25);
CREATE TEMP TABLE unseeded AS SELECT r.* FROM one, bandit_rehearse(arms, losses) r;
INSERT INTO unseeded SELECT r.* FROM one, bandit_rehearse(arms, losses) r;
SELECT setseed(0.25);
INSERT INTO unseeded SELECT r.* FROM one, bandit_rehearse(arms, losses) r;
SELECT count(*), count(DISTINCT unseeded) FROM unseeded;

-- All learners can be rehearsed, with all their arguments.
SELECT a.name, r.used > 450 AS used, r.loss < r.logged_loss AS better, r.loss_low < r.loss AND r.loss < r.loss_high AS interval
FROM one, (VALUES (1, 'self-tuned', NULL::boolean, NULL::integer, 1::float8, 1::float8, 500::float8),
                  (2, 'dada', NULL, NULL, 3, 0.25, NULL), (3, 'dada', false, NULL, 1, 0.25, NULL),
                  (4, 'dada-ix', true, NULL, 1, 0.25, NULL), (5, 'deda', NULL, NULL, 1, 0.25, NULL))
              a (n, name, skipping, max_delay, step_scale, optimism, half_life),
     bandit_rehearse(arms, losses, algorithm => a.name, skipping => a.skipping, max_delay => a.max_delay,
                     step_scale => a.step_scale, optimism => a.optimism, half_life => a.half_life, seed => 5) r
ORDER BY a.n;
SELECT r.used > 450 AS used FROM one, bandit_rehearse(arms, losses, probabilities, delays, 'deda', max_delay => 30, seed => 5) r;

-- The smallest logs. An interval needs two rounds; no mean is made of none.
SELECT r.* FROM bandit_rehearse('{a,b}', '{1,1}', seed => 1) r;
SELECT count(*) FILTER (WHERE used = 0 AND loss IS NULL AND loss_low IS NULL AND loss_high IS NULL AND logged_loss = 0.5) > 0 AS none,
       count(*) FILTER (WHERE used = 1 AND loss IN (0, 1) AND loss_low IS NULL AND loss_high IS NULL) > 0 AS one
FROM generate_series(1, 50) seed,
     bandit_rehearse('{a,b}', '{0,1}', '{1,1}', seed => seed, least_probability => 0.1) r;
