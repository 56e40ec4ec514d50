-- bandit_simulate() against a bare loop of the same mathematics.
--
-- The view bench.result has a line for each case: the medians of the rounds a second
-- of the floor and of bandit_simulate(), and of the repetitions' ratios.

SET client_min_messages = warning;
CREATE EXTENSION dexp3;
CREATE SCHEMA bench;

CREATE FUNCTION bench.floor_simulate(losses float8[], delay integer)
RETURNS TABLE (round bigint, arm integer, probability float8, step_size float8, loss float8)
    LANGUAGE C VOLATILE STRICT COST 1000 ROWS 1000
    AS '$libdir/yardsticks';

-- Fifty rounds of random losses, over and over.
CREATE FUNCTION bench.losses(rounds integer, arms integer) RETURNS float8[]
    LANGUAGE sql
BEGIN ATOMIC
    SELECT array_agg(losses)
        FROM generate_series(1, rounds / 50),
             (SELECT array_agg(random()) AS losses
                  FROM generate_series(1, 50) AS r, generate_series(1, arms)
                  GROUP BY r) AS random_rounds;
END;

CREATE TABLE bench.timing (
    id integer GENERATED ALWAYS AS IDENTITY,
    arms integer,
    rounds integer,
    delay integer,
    floor_ms float8,
    subject_ms float8
);

CREATE FUNCTION bench.milliseconds_since(start timestamptz) RETURNS float8
    LANGUAGE sql
    RETURN extract(epoch FROM clock_timestamp() - start) * 1000;

-- Time both by turns, often and shortly, so that most pairs are undisturbed.  A
-- record's field, unlike a variable of an array type, is passed on as it is, and
-- a generic plan does not copy it either.
CREATE PROCEDURE bench.measure(arms integer, rounds integer, repetitions integer)
    LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    input record;
    start timestamptz;
    floor_ms float8;
BEGIN
    SELECT bench.losses(measure.rounds, measure.arms) AS losses,
           array_fill(1000, ARRAY[measure.rounds]) AS delays
        INTO input;
    FOR i IN 1 .. repetitions LOOP
        start := clock_timestamp();
        PERFORM count(*) FROM bench.floor_simulate(input.losses, 0);
        floor_ms := bench.milliseconds_since(start);
        start := clock_timestamp();
        PERFORM count(*) FROM bandit_simulate(input.losses, algorithm => 'dada');
        INSERT INTO bench.timing (arms, rounds, delay, floor_ms, subject_ms)
            VALUES (arms, rounds, 0, floor_ms, bench.milliseconds_since(start));

        start := clock_timestamp();
        PERFORM count(*) FROM bench.floor_simulate(input.losses, 1000);
        floor_ms := bench.milliseconds_since(start);
        start := clock_timestamp();
        PERFORM count(*) FROM bandit_simulate(input.losses, input.delays, 'dada');
        INSERT INTO bench.timing (arms, rounds, delay, floor_ms, subject_ms)
            VALUES (arms, rounds, 1000, floor_ms, bench.milliseconds_since(start));
    END LOOP;
END;
$$;

CALL bench.measure(2, 200000, :repetitions);
CALL bench.measure(10, 200000, :repetitions);
CALL bench.measure(100, 60000, :repetitions);
CALL bench.measure(1000, 8000, :repetitions);
CALL bench.measure(10000, 1000, :repetitions);

CREATE VIEW bench.result AS
    SELECT arms, delay, min(id) AS id,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY rounds / floor_ms * 1000) AS floor_rate,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY rounds / subject_ms * 1000) AS subject_rate,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY floor_ms / subject_ms) AS ratio
        FROM bench.timing
        GROUP BY arms, delay;

-- The picture, for picture.py.
CREATE FUNCTION bench.picture() RETURNS jsonb
    LANGUAGE sql
    RETURN (SELECT jsonb_build_object(
                       'chart', 'lines',
                       'title', 'bandit_simulate, and a bare loop with exp()',
                       'x', '{"title": "arms", "scale": "log"}'::jsonb,
                       'y', '{"title": "rounds a second", "scale": "log"}'::jsonb,
                       'panels', jsonb_agg(jsonb_build_object('title', title, 'series', series) ORDER BY delay))
                FROM (SELECT delay,
                             CASE delay WHEN 0 THEN 'without delay' ELSE format('with a delay of %s', delay) END AS title,
                             jsonb_build_array(
                                 jsonb_build_object('name', 'bare loop',
                                                    'points', jsonb_agg(jsonb_build_array(arms, floor_rate) ORDER BY arms)),
                                 jsonb_build_object('name', 'bandit_simulate',
                                                    'points', jsonb_agg(jsonb_build_array(arms, subject_rate) ORDER BY arms))) AS series
                          FROM bench.result
                          GROUP BY delay) AS panel);
