-- The regret study: what the learners lose in worlds that we know.
--
-- psql's variables: rounds, T; seeds, how often each trial is played; quantile, the
-- 0.975 quantile of Student's distribution with seeds - 1 degrees of freedom.
--
-- A world is a row of bench.environment and a row of bench.delay, whose SQL
-- expressions make its numbers.  Both start from setseed(), and the players' draws
-- from their own seed, so that the study comes out the same each time.

SET client_min_messages = warning;
SET work_mem = '64MB';
CREATE EXTENSION dexp3;
CREATE SCHEMA bench;

CREATE FUNCTION bench.blind_simulate(losses float8[], delays integer[], stored boolean, step_scale float8, seed bigint)
RETURNS TABLE (round bigint, arm integer, probability float8, step_size float8, loss float8)
    LANGUAGE C VOLATILE STRICT COST 1000 ROWS 1000
    AS '$libdir/yardsticks';

--
-- The worlds
--

-- The expressions' parameter is T; t is the round.
CREATE TABLE bench.delay (
    delay_id integer PRIMARY KEY,
    delay text NOT NULL,
    expression text NOT NULL,
    definition text NOT NULL
);
INSERT INTO bench.delay VALUES
    (1, 'none', '0', '0'),
    (2, '100', '100', '100'),
    (3, '1,000', '1000', '1,000'),
    (4, 'exponential', 'floor(-1000 * ln(1 - random()))',
        'exponential with mean 1,000, rounded down'),
    (5, 'heavy tail', 'least(floor((1 - random()) ^ -2) - 1, $1)',
        'Pareto with index 1/2: P(d ≥ x) = 1/√(x + 1); half of them are below 3, one in a hundred is 9,999 or more;'
        ' none is longer than T'),
    (6, '100, 1% never', 'CASE WHEN random() >= 0.01 THEN 100 END',
        'each with probability 0.01 never, otherwise 100'),
    (7, 'none, 1% never', 'CASE WHEN random() >= 0.01 THEN 0 END',
        'each with probability 0.01 never, otherwise 0');

-- Here i is the arm, too.  An environment can have several rows, for different
-- delays.  With followed_delay_id, its regret is shown over time.
CREATE TABLE bench.environment (
    environment_id integer PRIMARY KEY,
    environment text NOT NULL,
    arms integer NOT NULL,
    is_random boolean NOT NULL,
    delay_ids integer[] NOT NULL,
    followed_delay_id integer,
    expression text NOT NULL
);
INSERT INTO bench.environment VALUES
    (1, 'stochastic', 10, true, '{1, 2, 3, 4, 5, 6, 7}', NULL,
        '(random() < CASE i WHEN 1 THEN 0.4 ELSE 0.5 END)::integer'),
    (2, 'switching', 10, true, '{1, 2, 3, 4, 5, 6, 7}', 3,
        '(random() < CASE WHEN i = 1 AND 2 * t <= $1 THEN 0.4
                          WHEN i = 2 AND 2 * t > $1 THEN 0.3
                          ELSE 0.5 END)::integer'),
    (3, 'alternating', 10, false, '{1, 2, 3, 4, 5, 6, 7}', NULL,
        'CASE WHEN i = 1 THEN t % 5 < 2 ELSE (t + i) % 2 = 0 END::integer'),
    (4, 'small losses', 10, true, '{1, 2, 3, 4, 5, 6, 7}', NULL,
        'random() * CASE i WHEN 1 THEN 0.01 ELSE 0.05 END'),
    (5, 'resonant', 2, false, '{2}', NULL,
        '((t - 1 + 100) / 200 + i + 1) % 2'),
    (6, 'resonant', 2, false, '{1, 3, 4, 5, 6, 7}', 3,
        '((t - 1 + 1000) / 2000 + i + 1) % 2'),
    (7, 'resonant, 10 arms', 10, false, '{2}', NULL,
        '((t - 1 + 100) / 200 + i + 1) % 2'),
    (8, 'resonant, 10 arms', 10, false, '{1, 3}', NULL,
        '((t - 1 + 1000) / 2000 + i + 1) % 2');

CREATE FUNCTION bench.delays(expression text, rounds integer, seed integer) RETURNS integer[]
    LANGUAGE plpgsql
AS $$
DECLARE
    delays integer[];
BEGIN
    PERFORM setseed(-seed / 1000.0);
    EXECUTE format('SELECT array_agg((%s)::integer) FROM generate_series(1, $1) AS t', expression)
        INTO delays
        USING rounds;
    RETURN delays;
END;
$$;

-- "t > 0" makes the inner query depend on the outer one, so that it is executed for
-- each round.
CREATE FUNCTION bench.losses(expression text, rounds integer, arms integer, seed integer) RETURNS float8[]
    LANGUAGE plpgsql
AS $$
DECLARE
    losses float8[];
BEGIN
    PERFORM setseed(seed / 1000.0);
    EXECUTE format('SELECT array_agg(losses)
                        FROM generate_series(1, $1) AS t,
                             LATERAL (SELECT array_agg((%s)::float8) AS losses
                                          FROM generate_series(1, $2) AS i
                                          WHERE t > 0) AS round',
                   expression)
        INTO losses
        USING rounds, arms;
    RETURN losses;
END;
$$;

-- The loss of the best arm after each of so many equal parts of the run: in each the
-- best of the rounds until then.
CREATE FUNCTION bench.best(losses float8[], parts integer) RETURNS float8[]
    LANGUAGE sql
BEGIN ATOMIC
    SELECT array_agg(best ORDER BY part)
        FROM (SELECT part, min(total) AS best
                  FROM (SELECT part, sum(sum(losses[t][i])) OVER (PARTITION BY i ORDER BY part) AS total
                            FROM generate_series(1, array_length(losses, 2)) AS i,
                                 generate_series(1, array_length(losses, 1)) AS t,
                                 LATERAL (SELECT (t - 1)::bigint * parts / array_length(losses, 1)) AS p (part)
                            GROUP BY i, part) AS a
                  GROUP BY part) AS b;
END;

--
-- The players
--

-- algorithm and skipping are for bandit_simulate(), stored is for blind_simulate(),
-- which plays where there is no algorithm.
CREATE TABLE bench.player (
    player_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    player text NOT NULL,
    algorithm text,
    skipping boolean,
    stored boolean,
    step_scale float8 NOT NULL,
    is_variant boolean NOT NULL,
    delay_ids integer[] NOT NULL
);
INSERT INTO bench.player (player, algorithm, skipping, stored, step_scale, is_variant, delay_ids) VALUES
    ('dada, no skipping', 'dada', false, NULL, 1, false, '{1, 2, 3, 4, 5, 6, 7}'),
    ('dada', 'dada', true, NULL, 1, false, '{1, 2, 3, 4, 5, 6, 7}'),
    ('dada-ix, no skipping', 'dada-ix', false, NULL, 1, false, '{1, 2, 3, 4, 5, 6, 7}'),
    ('dada-ix', 'dada-ix', true, NULL, 1, false, '{1, 2, 3, 4, 5, 6, 7}'),
    ('deda', 'deda', false, NULL, 1, false, '{1, 2, 3, 4, 5, 6, 7}'),
    ('blind, stored', NULL, NULL, true, 1, false, '{1, 2, 3, 4, 5, 6, 7}'),
    ('blind, at arrival', NULL, NULL, false, 1, false, '{1, 2, 3, 4, 5, 6, 7}'),
    ('uniform', NULL, NULL, true, 0, false, '{1, 2, 3, 4, 5, 6, 7}');

-- The same with other step sizes, in some of the worlds
INSERT INTO bench.player (player, algorithm, skipping, step_scale, is_variant, delay_ids)
    SELECT algorithm, algorithm, true, step_scale, true, delay_ids
        FROM (VALUES ('dada', '{1, 2, 3}'::integer[]), ('dada-ix', '{3}')) AS p (algorithm, delay_ids),
             unnest('{0.25, 0.5, 2, 4, 8, 16, 32, 64}'::float8[]) AS step_scale
        ORDER BY algorithm, step_scale;

-- With a seed it is always the same: it may be called stable, and is inlined.
CREATE FUNCTION bench.simulate(losses float8[], delays integer[], algorithm text, skipping boolean, stored boolean,
                               step_scale float8, seed bigint)
RETURNS TABLE (round bigint, loss float8)
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT round, loss
        FROM bandit_simulate(losses, delays, algorithm, skipping, step_scale => step_scale, seed => seed)
        WHERE algorithm IS NOT NULL
    UNION ALL
    SELECT round, loss
        FROM bench.blind_simulate(losses, delays, stored, step_scale, seed)
        WHERE algorithm IS NULL;
END;

-- Without delays, the player who ignores them must be dada, draw for draw.
CREATE PROCEDURE bench.check_blind(stored boolean)
    LANGUAGE plpgsql
AS $$
DECLARE
    rounds CONSTANT integer := 10000;
    losses float8[] := bench.losses((SELECT expression FROM bench.environment WHERE environment = 'switching'),
                                    rounds, 10, 0);
    delays integer[] := array_fill(0, ARRAY[rounds]);
    agreeing integer;
BEGIN
    SELECT count(*)
        INTO agreeing
        FROM bandit_simulate(losses, delays, 'dada', false, seed => 1) AS dada
             JOIN bench.blind_simulate(losses, delays, stored, 1, 1) AS blind USING (round)
        WHERE dada.arm = blind.arm AND abs(dada.probability / blind.probability - 1) < 1e-9;
    IF agreeing <> rounds THEN
        RAISE EXCEPTION 'without delays, blind_simulate() plays like dada in only % of % rounds', agreeing, rounds;
    END IF;
END;
$$;
CALL bench.check_blind(true);
CALL bench.check_blind(false);

-- With delays, it must play with the probabilities that follow from what has arrived.
CREATE PROCEDURE bench.check_arrival(stored boolean)
    LANGUAGE plpgsql
AS $$
DECLARE
    rounds CONSTANT integer := 500;
    losses float8[] := bench.losses('random()', rounds, 3, 0);
    delays integer[] := bench.delays('CASE WHEN random() < 0.9 THEN floor(random() * 30) END', rounds, 0);
    played record;
    arms integer[];
    drawn float8[];
    probabilities float8[];
    z float8[] := '{0, 0, 0}';
BEGIN
    FOR played IN SELECT * FROM bench.blind_simulate(losses, delays, stored, 1, 1) LOOP
        SELECT array_agg(weight / total ORDER BY i)
            INTO probabilities
            FROM (SELECT i, weight, sum(weight) OVER () AS total
                      FROM unnest(z) WITH ORDINALITY AS u (zi, i),
                           LATERAL exp(-played.step_size * zi) AS weight) AS w;
        IF abs(probabilities[played.arm] / played.probability - 1) > 1e-6 THEN
            RAISE EXCEPTION 'in round %, blind_simulate() draws arm % with probability %, not %',
                played.round, played.arm, played.probability, probabilities[played.arm];
        END IF;
        arms[played.round] := played.arm;
        drawn[played.round] := played.probability;
        FOR s IN 1 .. played.round LOOP
            IF s + delays[s] = played.round THEN
                z[arms[s]] := z[arms[s]]
                    + losses[s][arms[s]] / CASE WHEN stored THEN drawn[s] ELSE probabilities[arms[s]] END;
            END IF;
        END LOOP;
    END LOOP;
END;
$$;
CALL bench.check_arrival(true);
CALL bench.check_arrival(false);

--
-- Playing
--

CREATE TABLE bench.run (
    environment text NOT NULL,
    delay_id integer NOT NULL,
    player_id integer NOT NULL,
    seed integer NOT NULL,
    regret float8 NOT NULL,
    PRIMARY KEY (environment, delay_id, player_id, seed)
);

-- Regret after a part of the rounds, for those worlds that are shown over time
CREATE TABLE bench.path (
    environment text NOT NULL,
    player_id integer NOT NULL,
    seed integer NOT NULL,
    round integer NOT NULL,
    regret float8 NOT NULL,
    PRIMARY KEY (environment, player_id, seed, round)
);

-- Play everything.  The losses are in a record, whose fields, unlike variables of
-- an array type, are passed on as they are, and a generic plan does not copy them
-- either.
CREATE PROCEDURE bench.play(rounds integer, seeds integer)
    LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    parts CONSTANT integer := 50;
    environment bench.environment;
    world record;
    trial record;
BEGIN
    FOR environment IN SELECT * FROM bench.environment ORDER BY environment_id LOOP
        FOR this_seed IN 1 .. seeds LOOP
            IF this_seed = 1 OR environment.is_random THEN
                SELECT losses, bench.best(losses, parts) AS best
                    INTO world
                    FROM bench.losses(environment.expression, rounds, environment.arms, this_seed) AS losses;
            END IF;
            FOR trial IN
                SELECT p.*, d.delay_id, d.delays
                    FROM bench.delays AS d JOIN bench.player AS p ON d.delay_id = ANY (p.delay_ids)
                    WHERE d.delay_id = ANY (environment.delay_ids) AND d.seed = this_seed
            LOOP
                INSERT INTO bench.run
                    SELECT environment.environment, trial.delay_id, trial.player_id, this_seed,
                           sum(loss) - world.best[parts]
                        FROM bench.simulate(world.losses, trial.delays, trial.algorithm, trial.skipping, trial.stored,
                                            trial.step_scale, this_seed);
                CONTINUE WHEN trial.delay_id IS DISTINCT FROM environment.followed_delay_id OR trial.is_variant;
                INSERT INTO bench.path
                    SELECT environment.environment, trial.player_id, this_seed, max(round),
                           sum(sum(loss)) OVER (ORDER BY part) - world.best[part]
                        FROM bench.simulate(world.losses, trial.delays, trial.algorithm, trial.skipping, trial.stored,
                                            trial.step_scale, this_seed),
                             LATERAL (SELECT (round - 1) * parts / rounds + 1) AS p (part)
                        GROUP BY part;
            END LOOP;
        END LOOP;
    END LOOP;
END;
$$;

CREATE TABLE bench.delays AS
    SELECT delay_id, seed, bench.delays(expression, :rounds, seed) AS delays
        FROM bench.delay, generate_series(1, :seeds) AS seed;
CALL bench.play(:rounds, :seeds);

--
-- Results
--

CREATE VIEW bench.result AS
    SELECT environment, delay_id, delay, player, step_scale, is_variant,
           mean, mean - margin AS low, mean + margin AS high, margin
        FROM (SELECT environment, delay_id, player_id, avg(regret) AS mean,
                     :quantile * stddev_samp(regret) / sqrt(count(*)) AS margin
                  FROM bench.run
                  GROUP BY environment, delay_id, player_id) AS r
             JOIN bench.delay USING (delay_id)
             JOIN bench.player USING (player_id);

-- What Corollary 3.2 proves of dada without skipping, for the delays until the end of
-- the run
CREATE VIEW bench.bound AS
    SELECT environment, delay_id, 3 * sqrt(ln(arms) * (:rounds::float8 * arms + cumulative)) AS bound
        FROM (SELECT delay_id, avg(total) AS cumulative
                  FROM (SELECT delay_id, seed, sum(least(coalesce(d, :rounds), :rounds - t)) AS total
                            FROM bench.delays, unnest(delays) WITH ORDINALITY AS u (d, t)
                            GROUP BY delay_id, seed) AS d
                  GROUP BY delay_id) AS d
             JOIN bench.environment ON delay_id = ANY (delay_ids);

-- By how much the bound of dada changes with c = step_scale
CREATE FUNCTION bench.bound_factor(c float8) RETURNS float8
    LANGUAGE sql IMMUTABLE
    RETURN (1 / c + 2 * c) / 3;

-- The order of environments and players in tables and pictures
CREATE VIEW bench.environment_order AS
    SELECT environment, min(environment_id) AS environment_order, environment LIKE 'resonant%' AS is_resonant
        FROM bench.environment
        GROUP BY environment;
CREATE VIEW bench.player_order AS
    SELECT player, min(player_id) AS player_order
        FROM bench.player
        GROUP BY player;

CREATE FUNCTION bench.whole(x float8) RETURNS text
    LANGUAGE sql
    RETURN replace(to_char(round(x::numeric), 'FM999,999,990'), '-', '−');

CREATE FUNCTION bench.markdown(cells text[]) RETURNS text
    LANGUAGE sql
    RETURN '| ' || array_to_string(cells, ' | ') || ' |';

CREATE FUNCTION bench.markdown_rule(columns bigint) RETURNS text
    LANGUAGE sql
    RETURN '|---' || repeat('|---:', columns::integer - 1) || '|';

-- The table of an environment: a line for each delay, a column for each player
CREATE FUNCTION bench.environment_table(environment text) RETURNS SETOF text
    LANGUAGE sql
BEGIN ATOMIC
    WITH cell AS (
        SELECT r.delay_id, r.delay, p.player_order, r.player,
               format('%s ± %s', bench.whole(r.mean), bench.whole(r.margin)) AS cell
            FROM bench.result AS r JOIN bench.player_order AS p USING (player)
            WHERE r.environment = environment_table.environment AND NOT r.is_variant
    )
    (SELECT line
         FROM (SELECT ARRAY['delay'] || array_agg(player ORDER BY player_order)
                      || ARRAY['bound of dada, no skipping'] AS names
                   FROM bench.player_order) AS n,
              LATERAL (VALUES (1, bench.markdown(names)),
                              (2, bench.markdown_rule(cardinality(names)))) AS v (n, line)
         ORDER BY v.n)
    UNION ALL
    (SELECT bench.markdown(ARRAY[delay] || array_agg(cell ORDER BY player_order) || bench.whole(min(bound)))
         FROM cell JOIN bench.bound USING (delay_id)
         WHERE bound.environment = environment_table.environment
         GROUP BY delay_id, delay
         ORDER BY delay_id);
END;

-- The table of a player with different step sizes: a line for each, a column for
-- each environment
CREATE FUNCTION bench.step_scale_table(player text, delay_id integer) RETURNS SETOF text
    LANGUAGE sql
BEGIN ATOMIC
    (SELECT line
         FROM (SELECT ARRAY['step_scale']
                      || CASE WHEN step_scale_table.player = 'dada' THEN ARRAY['proven bound'] END
                      || array_agg(environment ORDER BY environment_order) AS names
                   FROM bench.environment_order) AS n,
              LATERAL (VALUES (1, bench.markdown(names)),
                              (2, bench.markdown_rule(cardinality(names)))) AS v (n, line)
         ORDER BY v.n)
    UNION ALL
    (SELECT bench.markdown(ARRAY[step_scale::text]
                           || CASE WHEN step_scale_table.player = 'dada'
                                   THEN ARRAY['× ' || round(bench.bound_factor(step_scale)::numeric, 2)] END
                           || array_agg(format('%s ± %s', bench.whole(mean), bench.whole(margin))
                                        ORDER BY environment_order))
         FROM bench.result AS r JOIN bench.environment_order USING (environment)
         WHERE r.player = step_scale_table.player AND r.delay_id = step_scale_table.delay_id
         GROUP BY step_scale
         ORDER BY step_scale);
END;

--
-- Pictures: the input of picture.py
--

-- All players in all worlds
CREATE FUNCTION bench.worlds_picture() RETURNS json
    LANGUAGE sql
BEGIN ATOMIC
    WITH series AS (
        SELECT environment, player,
               json_agg(delay ORDER BY delay_id) AS delays,
               json_agg(json_build_array(mean, low, high) ORDER BY delay_id) AS regrets
            FROM bench.result
            WHERE NOT is_variant
            GROUP BY environment, player
    ), panel AS (
        SELECT environment, environment_order,
               (array_agg(delays))[1] AS categories,
               json_agg(json_build_object('name', player, 'values', regrets) ORDER BY player_order) AS series
            FROM series JOIN bench.environment_order USING (environment) JOIN bench.player_order USING (player)
            GROUP BY environment, environment_order
    )
    SELECT json_build_object(
               'chart', 'intervals',
               'title', 'Regret in each world, by delay: mean and 95% interval',
               'x', json_build_object('title', 'regret'),
               'step', 8,
               'panels', json_agg(json_build_object('title', environment, 'categories', categories, 'series', series)
                                  ORDER BY environment_order))
        FROM panel;
END;

-- All players in the course of a run
CREATE FUNCTION bench.time_picture() RETURNS json
    LANGUAGE sql
BEGIN ATOMIC
    WITH point AS (
        SELECT environment, player, round, avg(regret) AS mean,
               :quantile * stddev_samp(regret) / sqrt(count(*)) AS margin
            FROM bench.path JOIN bench.player USING (player_id)
            GROUP BY environment, player, round
    ), series AS (
        SELECT environment, player,
               json_agg(json_build_array(round, mean, mean - margin, mean + margin) ORDER BY round) AS points
            FROM point
            GROUP BY environment, player
    ), panel AS (
        SELECT environment, environment_order,
               json_agg(json_build_object('name', player, 'points', points) ORDER BY player_order) AS series
            FROM series JOIN bench.environment_order USING (environment) JOIN bench.player_order USING (player)
            GROUP BY environment, environment_order
    )
    SELECT json_build_object(
               'chart', 'lines',
               'title', 'Regret in the course of a run, delay 1,000: mean and 95% interval',
               'x', json_build_object('title', 'round'),
               'y', json_build_object('title', 'regret so far'),
               'height', 340,
               'marks', false,
               'panels', json_agg(json_build_object('title', environment, 'series', series) ORDER BY environment_order))
        FROM panel;
END;

-- Regret over step_scale, a row of panels for each player and delay, and what becomes
-- of the bound
CREATE FUNCTION bench.step_scale_picture() RETURNS json
    LANGUAGE sql
BEGIN ATOMIC
    WITH swept AS (
        SELECT player, delay_id
            FROM bench.result
            WHERE is_variant
            GROUP BY player, delay_id
    ), series AS (
        SELECT player, delay_id, delay, environment,
               json_agg(json_build_array(step_scale, mean, low, high) ORDER BY step_scale) AS points
            FROM bench.result JOIN swept USING (player, delay_id)
            GROUP BY player, delay_id, delay, environment
    ), panel AS (
        SELECT player, delay_id, is_resonant,
               json_build_object(
                   'title', format('%s, %s, the %s worlds', player,
                                   CASE delay WHEN 'none' THEN 'no delay' ELSE 'delay ' || delay END,
                                   CASE WHEN is_resonant THEN 'resonant' ELSE 'other' END),
                   'series', json_agg(json_build_object('name', environment, 'points', points)
                                      ORDER BY environment_order)) AS panel
            FROM series JOIN bench.environment_order USING (environment)
            GROUP BY player, delay_id, delay, is_resonant
        UNION ALL
        SELECT NULL, NULL, NULL,
               json_build_object(
                   'title', 'dada, the proven bound',
                   'y', json_build_object('title', 'times that for step_scale 1', 'scale', 'log'),
                   'series', json_build_array(json_build_object(
                       'name', 'bound',
                       'points', json_agg(json_build_array(step_scale, bench.bound_factor(step_scale))
                                          ORDER BY step_scale))))
            FROM bench.player
            WHERE player = 'dada'
    )
    SELECT json_build_object(
               'chart', 'lines',
               'title', 'Regret over step_scale: mean and 95% interval',
               'x', json_build_object(
                        'title', 'step_scale', 'scale', 'log',
                        'ticks', (SELECT json_agg(step_scale ORDER BY step_scale)
                                      FROM bench.player
                                      WHERE player = 'dada')),
               'y', json_build_object('title', 'regret'),
               'height', 240,
               'panels', json_agg(panel ORDER BY player, delay_id, is_resonant))
        FROM panel;
END;
