-- The regret study: what the learners lose in worlds that we know.  regret_tables.sql
-- makes tables and pictures of it.
--
-- psql's variables: rounds, T; seeds, how often each trial is played; sweep_seeds,
-- likewise, with other step sizes; forgetting_rounds and forgetting_seeds, for the
-- worlds that keep changing; random_worlds, how many, with random_rounds and
-- random_seeds.
--
-- A world is a row of bench.environment and a row of bench.delay, whose SQL
-- expressions make its numbers, or it is made by make_world() of worlds.c.  All start
-- from a seed, and the players' draws from their own, so that the study comes out the
-- same each time.

SET client_min_messages = warning;
SET work_mem = '64MB';
CREATE EXTENSION dexp3;
CREATE SCHEMA bench;

CREATE FUNCTION bench.blind_simulate(losses float8[], delays integer[], stored boolean, step_scale float8, seed bigint)
RETURNS TABLE (round bigint, arm integer, probability float8, step_size float8, loss float8)
    LANGUAGE C VOLATILE STRICT COST 1000 ROWS 1000
    AS '$libdir/yardsticks';

CREATE FUNCTION bench.thompson_simulate(losses float8[], delays integer[], seed bigint)
RETURNS TABLE (round bigint, arm integer, loss float8)
    LANGUAGE C VOLATILE STRICT COST 1000 ROWS 1000
    AS '$libdir/yardsticks';

CREATE FUNCTION bench.beta_draws(a float8, b float8, n integer, seed bigint) RETURNS float8[]
    LANGUAGE C VOLATILE STRICT
    AS '$libdir/yardsticks';

-- "best" is what was lost by who always knew the best arm of the moment.
CREATE FUNCTION bench.make_world(kind text, rounds integer, arms integer, level float8, edge float8, amplitude float8,
                                 period float8, noisy boolean, scale float8, seed bigint,
                                 OUT losses float8[], OUT best float8)
    LANGUAGE C VOLATILE STRICT
    AS '$libdir/yardsticks';

-- The loss of the best arm after each of so many equal parts of the run: in each the
-- best of the rounds until then.
CREATE FUNCTION bench.best_losses(losses float8[], parts integer) RETURNS float8[]
    LANGUAGE C VOLATILE STRICT
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
        'each with probability 0.01 never, otherwise 0'),
    (8, '1,500 to 5,000', '1500 + floor(3501 * random())',
        'uniform, from 1,500 to 5,000');

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
        '((t - 1 + 1000) / 2000 + i + 1) % 2'),
    (9, 'slowly resonant', 2, false, '{3}', NULL,
        '((t - 1 + 2000) / 4000 + i + 1) % 2'),
    (10, 'changing', 10, true, '{1, 3}', NULL,
        '(random() < CASE WHEN i = 1 AND 2 * t <= $1 OR i = 2 AND 2 * t > $1 THEN 0.3 ELSE 0.5 END)::integer'),
    (11, 'improving', 10, true, '{1, 3}', 3,
        '(random() < CASE WHEN i = 1 THEN 0.4
                          WHEN i = 2 AND 3 * t > $1 THEN 0.2
                          ELSE 0.5 END)::integer'),
    (12, 'large losses', 10, true, '{1, 3}', NULL,
        '0.95 + random() * CASE i WHEN 1 THEN 0.01 ELSE 0.05 END'),
    (13, 'conversions', 4, true, '{1, 8}', 8,
        '(random() >= (4 + i) / 100.0)::integer'),
    (14, 'two rates', 5, true, '{1, 3}', NULL,
        '(random() >= CASE i WHEN 1 THEN 0.07 ELSE 0.05 END)::integer'),
    (15, 'two rates, rising', 5, true, '{1, 3}', NULL,
        '(random() >= CASE WHEN i = 1 THEN 0.07
                           WHEN i = 2 AND 3 * t > $1 THEN 0.09
                           ELSE 0.05 END)::integer');

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

--
-- The players
--

-- What plays: bandit_simulate(), with the arguments that follow; blind_simulate(), with
-- "stored" and a step_scale; or thompson_simulate().  A variant is played in all
-- worlds, but its results are only shown together with other step sizes.
CREATE TABLE bench.player (
    player_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    player text NOT NULL,
    program text NOT NULL,
    algorithm text,
    skipping boolean,
    stored boolean,
    step_scale float8 NOT NULL DEFAULT 1,
    optimism float8 NOT NULL DEFAULT 0.25,
    half_life float8,
    is_variant boolean NOT NULL DEFAULT false,
    is_pictured boolean NOT NULL DEFAULT false,
    delay_ids integer[] NOT NULL DEFAULT '{1, 2, 3, 4, 5, 6, 7, 8}',
    seeds integer NOT NULL DEFAULT :seeds
);
INSERT INTO bench.player (player, program, algorithm, skipping, stored, step_scale, optimism, is_pictured) VALUES
    ('self-tuned', 'bandit', 'self-tuned', false, NULL, 1, 0.25, true),
    ('self-tuned, optimism 1', 'bandit', 'self-tuned', false, NULL, 1, 1, true),
    ('dada', 'bandit', 'dada', true, NULL, 1, 0.25, true),
    ('dada, no skipping', 'bandit', 'dada', false, NULL, 1, 0.25, false),
    ('dada, no skipping, c = 4', 'bandit', 'dada', false, NULL, 4, 0.25, true),
    ('dada-ix', 'bandit', 'dada-ix', true, NULL, 1, 0.25, false),
    ('dada-ix, no skipping', 'bandit', 'dada-ix', false, NULL, 1, 0.25, false),
    ('deda', 'bandit', 'deda', false, NULL, 1, 0.25, false),
    ('blind, stored', 'blind', NULL, NULL, true, 1, 0.25, true),
    ('blind, at arrival', 'blind', NULL, NULL, false, 1, 0.25, false),
    ('Thompson', 'Thompson', NULL, NULL, NULL, 1, 0.25, true),
    ('uniform', 'blind', NULL, NULL, true, 0, 0.25, true);

-- The same with other step sizes
INSERT INTO bench.player (player, program, algorithm, skipping, step_scale, is_variant, delay_ids, seeds)
    SELECT algorithm, 'bandit', algorithm, true, step_scale, true, delay_ids, :sweep_seeds
        FROM (VALUES ('dada', '{1, 2, 3, 4, 5, 6, 7, 8}'::integer[]), ('dada-ix', '{3}')) AS p (algorithm, delay_ids),
             unnest('{0.25, 0.5, 2, 4, 8, 16, 32, 64}'::float8[]) AS step_scale
        ORDER BY algorithm, step_scale;

-- The same with half-lives, a share of T.  They play only in worlds that keep changing.
INSERT INTO bench.player (player, program, algorithm, skipping, half_life, delay_ids)
    SELECT format('half-life %s', to_char(half_life, 'FM999,999')), 'bandit', 'self-tuned', false, half_life, '{}'
        FROM unnest('{0.0075, 0.025, 0.075, 0.25}'::float8[]) AS share,
             LATERAL (SELECT share * :forgetting_rounds) AS h (half_life)
        ORDER BY share;

-- With a seed it is always the same: it may be called stable, and is inlined.
CREATE FUNCTION bench.simulate(losses float8[], delays integer[], program text, algorithm text, skipping boolean,
                               stored boolean, step_scale float8, optimism float8, half_life float8, seed bigint)
RETURNS TABLE (round bigint, step_size float8, loss float8)
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT round, step_size, loss
        FROM bandit_simulate(losses, delays, algorithm, skipping, step_scale => step_scale, optimism => optimism,
                             half_life => half_life, seed => seed)
        WHERE program = 'bandit'
    UNION ALL
    SELECT round, step_size, loss
        FROM bench.blind_simulate(losses, delays, stored, step_scale, seed)
        WHERE program = 'blind'
    UNION ALL
    SELECT round, NULL, loss
        FROM bench.thompson_simulate(losses, delays, seed)
        WHERE program = 'Thompson';
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

-- Mean and variance of the numbers that Thompson sampling draws must be those of the Beta
-- distribution.
CREATE PROCEDURE bench.check_beta(a float8, b float8)
    LANGUAGE plpgsql
AS $$
DECLARE
    draws CONSTANT integer := 100000;
    mean CONSTANT float8 := a / (a + b);
    variance CONSTANT float8 := a * b / ((a + b) ^ 2 * (a + b + 1));
    seen record;
BEGIN
    SELECT avg(x) AS mean, var_samp(x) AS variance
        INTO seen
        FROM unnest(bench.beta_draws(a, b, draws, 1)) AS x;
    IF abs(seen.mean - mean) > 5 * sqrt(variance / draws) OR abs(seen.variance / variance - 1) > 0.05 THEN
        RAISE EXCEPTION 'beta_draws(%, %) has mean % and variance %, not % and %',
            a, b, seen.mean, seen.variance, mean, variance;
    END IF;
END;
$$;
CALL bench.check_beta(1, 1);
CALL bench.check_beta(1, 3.5);
CALL bench.check_beta(2.5, 1.25);
CALL bench.check_beta(40, 600);
CALL bench.check_beta(930, 70);

-- Of two arms that always lose, Thompson sampling must play the same again with
-- probability 1/2 while the loss is not known, and a third time with 1/4 when both are.
CREATE PROCEDURE bench.check_thompson()
    LANGUAGE plpgsql
AS $$
DECLARE
    runs CONSTANT integer := 4000;
    played record;
BEGIN
    SELECT avg((arms[2] = arms[1])::integer) AS second,
           avg((arms[3] = arms[1])::integer) FILTER (WHERE arms[2] = arms[1]) AS third
        INTO played
        FROM (SELECT array_agg(arm ORDER BY round) AS arms
                  FROM generate_series(1, runs) AS seed,
                       bench.thompson_simulate(array_fill(1::float8, ARRAY[3, 2]), '{1, 0, 0}', seed)
                  GROUP BY seed) AS r;
    IF abs(played.second - 0.5) > 0.04 OR abs(played.third - 0.25) > 0.05 THEN
        RAISE EXCEPTION 'thompson_simulate() plays an arm again with probability %, and then with %, not 1/2 and 1/4',
            played.second, played.third;
    END IF;
END;
$$;
CALL bench.check_thompson();

--
-- Playing
--

CREATE TABLE bench.run (
    environment text NOT NULL,
    delay_id integer NOT NULL,
    player_id integer NOT NULL,
    seed integer NOT NULL,
    regret float8 NOT NULL,
    last_step_size float8,
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
                SELECT losses, bench.best_losses(losses, parts) AS best
                    INTO world
                    FROM bench.losses(environment.expression, rounds, environment.arms, this_seed) AS losses;
            END IF;
            FOR trial IN
                SELECT p.*, d.delay_id, d.delays
                    FROM bench.delays AS d JOIN bench.player AS p ON d.delay_id = ANY (p.delay_ids)
                    WHERE d.delay_id = ANY (environment.delay_ids) AND d.seed = this_seed AND this_seed <= p.seeds
            LOOP
                INSERT INTO bench.run
                    SELECT environment.environment, trial.delay_id, trial.player_id, this_seed,
                           sum(loss) - world.best[parts], max(step_size) FILTER (WHERE round = rounds)
                        FROM bench.simulate(world.losses, trial.delays, trial.program, trial.algorithm, trial.skipping,
                                            trial.stored, trial.step_scale, trial.optimism, trial.half_life, this_seed);
                CONTINUE WHEN trial.delay_id IS DISTINCT FROM environment.followed_delay_id OR NOT trial.is_pictured;
                INSERT INTO bench.path
                    SELECT environment.environment, trial.player_id, this_seed, max(round),
                           sum(sum(loss)) OVER (ORDER BY part) - world.best[part]
                        FROM bench.simulate(world.losses, trial.delays, trial.program, trial.algorithm, trial.skipping,
                                            trial.stored, trial.step_scale, trial.optimism, trial.half_life, this_seed),
                             LATERAL (SELECT (round - 1) * parts / rounds + 1) AS p (part)
                        GROUP BY part;
            END LOOP;
        END LOOP;
    END LOOP;
END;
$$;

-- D, for the delays until the end of the run
CREATE FUNCTION bench.cumulative_delay(delays integer[]) RETURNS float8
    LANGUAGE sql
    RETURN (SELECT sum(least(coalesce(d, cardinality(delays)), cardinality(delays) - t))
                FROM unnest(delays) WITH ORDINALITY AS u (d, t));

-- How many decisions had no feedback when the last one was drawn, with that one
CREATE FUNCTION bench.open_at_end(delays integer[]) RETURNS bigint
    LANGUAGE sql
    RETURN (SELECT count(*)
                FROM unnest(delays) WITH ORDINALITY AS u (d, t)
                WHERE coalesce(t + d >= cardinality(delays), true));

CREATE TABLE bench.delays AS
    SELECT delay_id, seed, delays, bench.cumulative_delay(delays) AS cumulative, bench.open_at_end(delays) AS open
        FROM bench.delay, generate_series(1, :seeds) AS seed,
             LATERAL bench.delays(expression, :rounds, seed) AS delays;
CALL bench.play(:rounds, :seeds);

--
-- Forgetting: worlds that keep changing
--

CREATE TABLE bench.forgetting_world (
    world_id integer PRIMARY KEY,
    world text NOT NULL,
    kind text NOT NULL,
    level float8 NOT NULL,
    edge float8 NOT NULL,
    amplitude float8 NOT NULL,
    period float8 NOT NULL,
    delay_id integer NOT NULL
);
INSERT INTO bench.forgetting_world
    SELECT world_id, format(world, to_char(period, 'FM999,999')), kind, level, edge, amplitude, period, delay_id
        FROM (VALUES
                 (1, 'nothing changes', 'switches', 0.5, 0.1, 0, 2, 1),
                 (2, 'another arm every %s rounds', 'switches', 0.5, 0.1, 0, 0.25, 1),
                 (3, 'another arm every %s rounds', 'switches', 0.5, 0.1, 0, 0.05, 1),
                 (4, 'another arm every %s rounds', 'switches', 0.5, 0.1, 0, 0.05, 3),
                 (5, 'rotation in %s rounds', 'sines', 0.5, 0, 0.1, 0.075, 1),
                 (6, 'conversions, another arm every %s', 'switches', 0.95, 0.02, 0, 0.125, 1)
             ) AS w (world_id, world, kind, level, edge, amplitude, share, delay_id),
             LATERAL (SELECT share * :forgetting_rounds) AS p (period);

CREATE TABLE bench.forgetting_run (
    world_id integer NOT NULL,
    player_id integer NOT NULL,
    seed integer NOT NULL,
    regret float8 NOT NULL,
    PRIMARY KEY (world_id, player_id, seed)
);

CREATE PROCEDURE bench.play_forgetting(rounds integer, seeds integer)
    LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    changing bench.forgetting_world;
    world record;
    trial bench.player;
BEGIN
    FOR changing IN SELECT * FROM bench.forgetting_world ORDER BY world_id LOOP
        FOR this_seed IN 1 .. seeds LOOP
            SELECT w.losses, w.best, bench.delays(d.expression, rounds, this_seed) AS delays
                INTO world
                FROM bench.make_world(changing.kind, rounds, 10, changing.level, changing.edge, changing.amplitude,
                                      changing.period, true, 1, this_seed) AS w,
                     bench.delay AS d
                WHERE d.delay_id = changing.delay_id;
            FOR trial IN
                SELECT *
                    FROM bench.player
                    WHERE player IN ('uniform', 'Thompson', 'dada', 'self-tuned') AND NOT is_variant
                          OR half_life IS NOT NULL
            LOOP
                INSERT INTO bench.forgetting_run
                    SELECT changing.world_id, trial.player_id, this_seed, sum(loss) - world.best
                        FROM bench.simulate(world.losses, world.delays, trial.program, trial.algorithm, trial.skipping,
                                            trial.stored, trial.step_scale, trial.optimism, trial.half_life, this_seed);
            END LOOP;
        END LOOP;
    END LOOP;
END;
$$;
CALL bench.play_forgetting(:forgetting_rounds, :forgetting_seeds);

--
-- Random worlds
--

-- u_... are uniform random numbers, from which the rest follows.  Hostile is what
-- resonates with the delay, unless that is too short: half of the square waves, and what
-- turns hostile later.  Heavy-tailed delays are too different for that.
SELECT setseed(0.5) \g /dev/null
CREATE TABLE bench.random_world AS
    WITH drawn AS MATERIALIZED (
        SELECT world_id,
               ('{square waves, sines, switches, random walks, random blocks, rare conversions,
                  "benign, then hostile", small losses}'::text[])[1 + world_id % 8] AS world,
               ('{switches, random walks, random blocks}'::text[])[1 + floor(3 * random())] AS small_kind,
               ('{constant, exponential, missing, heavy-tailed}'::text[])[1 + floor(4 * random())] AS drawn_delay,
               2 + floor(19 * random()) AS arms,
               random() AS u_noisy, random() AS u_delay, random() AS u_missing, random() AS u_resonant,
               random() AS u_period, random() AS u_amplitude, random() AS u_level, random() AS u_edge,
               random() AS u_scale
            FROM generate_series(1, :random_worlds) AS world_id
    ), delayed AS (
        SELECT *,
               world = 'benign, then hostile' OR world = 'square waves' AND u_resonant < 0.5 AS is_hostile,
               CASE world WHEN 'rare conversions' THEN 'rates' WHEN 'small losses' THEN small_kind ELSE world END AS kind,
               floor((:random_rounds / 10.0) ^ u_delay) - 1 AS typical_delay,
               0.01 * 10 ^ u_level AS rate
            FROM drawn
    ), shaped AS (
        SELECT *,
               CASE WHEN is_hostile AND drawn_delay = 'heavy-tailed' THEN 'constant' ELSE drawn_delay END AS delay,
               CASE WHEN kind = 'benign, then hostile' THEN 0.5
                    WHEN kind = 'rates' THEN rate * (0.1 + 0.6 * u_amplitude)
                    WHEN kind = 'switches' THEN 0
                    ELSE least(0.05 + 0.7 * u_amplitude, 0.5) END AS amplitude
            FROM delayed
    )
    SELECT world_id, world, kind, delay, arms::integer,
           CASE kind WHEN 'rates' THEN 1 - rate
                     WHEN 'switches' THEN 0.4 + 0.6 * u_level
                     ELSE amplitude + (1 - 2 * amplitude) * u_level END AS level,
           CASE kind WHEN 'rates' THEN 0
                     WHEN 'switches' THEN 0.05 + 0.35 * u_edge
                     WHEN 'benign, then hostile' THEN 0.05 + 0.35 * u_edge
                     ELSE 0.1 * greatest(2 * u_edge - 1, 0) END AS edge,
           amplitude,
           CASE WHEN is_hostile AND typical_delay >= :random_rounds / 2000.0
                THEN 4 * typical_delay
                WHEN kind = 'rates' AND u_resonant < 0.5
                THEN 2 * :random_rounds
                ELSE :random_rounds * 0.002 ^ u_period END AS period,
           kind IN ('switches', 'rates') OR u_noisy < 0.5 AS noisy,
           CASE world WHEN 'small losses' THEN 0.01 * 10 ^ u_scale ELSE 1 END AS scale,
           CASE delay
               WHEN 'constant'
               THEN format('%s', typical_delay)
               WHEN 'exponential'
               THEN format('floor(-%s * ln(1 - random()))', typical_delay)
               WHEN 'heavy-tailed'
               THEN format('least(floor(%s * ((1 - random()) ^ -2 - 1)), $1)', 1 + typical_delay / 100)
               WHEN 'missing'
               THEN format('CASE WHEN random() >= %s THEN %s END', 0.001 * 200 ^ u_missing, typical_delay)
           END AS delay_expression
        FROM shaped;

CREATE TABLE bench.random_run (
    world_id integer NOT NULL,
    player_id integer NOT NULL,
    seed integer NOT NULL,
    regret float8 NOT NULL,
    bound float8 NOT NULL,
    PRIMARY KEY (world_id, player_id, seed)
);

CREATE PROCEDURE bench.play_random(rounds integer, seeds integer)
    LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    random bench.random_world;
    world record;
    trial bench.player;
BEGIN
    FOR random IN SELECT * FROM bench.random_world ORDER BY world_id LOOP
        FOR this_seed IN 1 .. seeds LOOP
            SELECT losses, delays, bench.best_losses(losses, 1) AS best,
                   3 * sqrt(ln(random.arms) * (rounds::float8 * random.arms + bench.cumulative_delay(delays))) AS bound
                INTO world
                FROM bench.make_world(random.kind, rounds, random.arms, random.level, random.edge, random.amplitude,
                                      random.period, random.noisy, random.scale, random.world_id * 100 + this_seed),
                     bench.delays(random.delay_expression, rounds, this_seed) AS delays;
            FOR trial IN
                SELECT *
                    FROM bench.player
                    WHERE player IN ('self-tuned', 'self-tuned, optimism 1', 'dada', 'dada, no skipping',
                                     'blind, stored', 'Thompson', 'uniform') AND NOT is_variant
            LOOP
                INSERT INTO bench.random_run
                    SELECT random.world_id, trial.player_id, this_seed, sum(loss) - world.best[1], world.bound
                        FROM bench.simulate(world.losses, world.delays, trial.program, trial.algorithm, trial.skipping,
                                            trial.stored, trial.step_scale, trial.optimism, trial.half_life, this_seed);
            END LOOP;
        END LOOP;
    END LOOP;
END;
$$;
CALL bench.play_random(:random_rounds, :random_seeds);
