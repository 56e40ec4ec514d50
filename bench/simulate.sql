-- bandit_simulate() against a bare loop of the same mathematics.
--
-- Prints one line for each case: arms, rounds, delay, the median milliseconds of
-- the floor and of bandit_simulate(), and the median of the repetitions' ratios.

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
        PERFORM count(*) FROM bandit_simulate(input.losses);
        INSERT INTO bench.timing (arms, rounds, delay, floor_ms, subject_ms)
            VALUES (arms, rounds, 0, floor_ms, bench.milliseconds_since(start));

        start := clock_timestamp();
        PERFORM count(*) FROM bench.floor_simulate(input.losses, 1000);
        floor_ms := bench.milliseconds_since(start);
        start := clock_timestamp();
        PERFORM count(*) FROM bandit_simulate(input.losses, input.delays);
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

SELECT arms, rounds, delay,
       round(percentile_cont(0.5) WITHIN GROUP (ORDER BY floor_ms)),
       round(percentile_cont(0.5) WITHIN GROUP (ORDER BY subject_ms)),
       percentile_cont(0.5) WITHIN GROUP (ORDER BY floor_ms / subject_ms)
    FROM bench.timing
    GROUP BY arms, rounds, delay
    ORDER BY min(id);
