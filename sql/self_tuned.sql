-- The self-tuned learner as a value: bandit_simulate, bandit_new, bandit_draw and
-- bandit_learn against its reference (self_tuned_reference.sql), the state in all
-- its forms, hard numbers, and what is refused. Managed bandits are in
-- self_tuned_managed.sql.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

-- the reference runs the same few statements again and again
SET jit = off;
SET plan_cache_mode = force_generic_plan;

--
-- Simulation
--

-- Losses and delays, by integer arithmetic, so that they are the same everywhere
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
                                  WHEN 'rare' THEN ((7 * t + 5 * i) % (11 + i) <> 0)::integer
                                  WHEN 'turning' THEN ((i = 1) = (t > rounds / 2))::integer
                              END::float8 ORDER BY i) AS losses
          FROM generate_series(1, rounds) t, generate_series(1, arms) i
          GROUP BY t) environment
$$;

CREATE FUNCTION pg_temp.delays(kind text, rounds integer) RETURNS integer[]
LANGUAGE sql AS $$
    SELECT CASE WHEN kind <> 'omitted' THEN
           array_agg(CASE kind
                         WHEN 'constant' THEN 5
                         WHEN 'random' THEN (7 * t * t + 3 * t) % 23
                         -- all feedback of 15 rounds at once
                         WHEN 'bursts' THEN 14 - (t - 1) % 15
                         -- nothing until half time, then everything
                         WHEN 'half time' THEN greatest(rounds / 2 - t, 0)
                         WHEN 'thirds never' THEN CASE WHEN t % 3 > 0 THEN t % 5 END
                         WHEN 'all never' THEN NULL
                         WHEN 'longest' THEN CASE WHEN t % 7 = 0 THEN 2147483647 ELSE t % 3 END
                     END ORDER BY t) END
    FROM generate_series(1, rounds) t
$$;

CREATE TEMP TABLE environment (environment, loss, delay, arms, rounds) AS
VALUES (1, 'mixed', 'omitted', 2, 80),
       (2, 'rare', 'constant', 3, 100),
       (3, 'mixed', 'random', 10, 80),
       (4, 'best is 2', 'bursts', 3, 90),
       (5, 'turning', 'thirds never', 2, 120),
       (6, 'mixed', 'half time', 3, 60),
       (7, 'unit', 'all never', 2, 20),
       (8, 'zero', 'random', 3, 30),
       (9, 'tiny', 'omitted', 2, 40),
       (10, 'tiny or unit', 'bursts', 2, 60),
       (11, 'unit', 'constant', 3, 60),
       (12, 'mixed', 'longest', 10, 40),
       (13, 'turning', 'random', 4, 300),
       (14, 'rare', 'constant', 10, 200);

CREATE TEMP TABLE test_case AS
SELECT 100 * environment + row_number() OVER (PARTITION BY environment ORDER BY optimism, half_life) AS id, e.*,
       optimism, half_life, pg_temp.losses(loss, rounds, arms) AS losses, pg_temp.delays(delay, rounds) AS delays
FROM environment e,
     unnest(ARRAY[0.01, 0.25, 0.6, 1]::float8[]) optimism, unnest(ARRAY[0.7, 7, 20.5, NULL]::float8[]) half_life
WHERE environment <= 3 OR optimism IN (0.25, 1) AND (half_life IS NULL OR half_life = 20.5);

CREATE TEMP TABLE run AS
SELECT c.id, s.*
FROM test_case c,
     bandit_simulate(c.losses, c.delays, 'self-tuned', optimism => c.optimism, half_life => c.half_life, seed => c.id) s;

-- Every round of every run against the reference. "learned": in how many runs some
-- probability was not 1/K; "charged": in how many the step size became smaller.
SELECT c.loss, c.delay, c.arms, c.rounds, count(*) AS runs,
       count(*) FILTER (WHERE r.rounds = c.rounds AND r.step_sizes = c.rounds) AS complete,
       count(*) FILTER (WHERE s.learned) AS learned,
       count(*) FILTER (WHERE s.charged) AS charged,
       count(*) FILTER (WHERE r.probability_difference < 1e-9 AND r.step_size_difference < 1e-9) AS agree
FROM test_case c,
     LATERAL (SELECT array_agg((round, arm, probability, loss,
                                CASE WHEN c.delays IS NULL THEN 0 ELSE c.delays[round] END,
                                NULL, step_size)::reference.decision) AS log,
                     max(abs(probability - 1.0 / c.arms)) > 1e-6 AS learned,
                     min(step_size) < 0.999 / c.arms AS charged
              FROM run WHERE run.id = c.id) s,
     reference.self_tuned_check(reference.events(s.log), c.arms, c.optimism, c.half_life) r
GROUP BY c.environment, c.loss, c.delay, c.arms, c.rounds
ORDER BY c.environment;

-- The loss is that of the arm played; no step size exceeds 1/K.
SELECT count(DISTINCT id) AS runs, bool_and(r.loss = losses[round][arm]) AS losses_match,
       bool_and(probability > 0 AND probability <= 1) AS probabilities,
       bool_and(step_size > 0 AND step_size <= (1 + 1e-12) / arms) AS step_sizes
FROM test_case c JOIN run r USING (id);

-- It is the default, with optimism 0.25 and no half-life.
SELECT count(*), bool_and(coalesce(a = b, false)) AS defaults
FROM bandit_simulate(pg_temp.losses('mixed', 100, 3), pg_temp.delays('random', 100), seed => 7) a
FULL JOIN bandit_simulate(pg_temp.losses('mixed', 100, 3), pg_temp.delays('random', 100), 'self-tuned',
                          false, 100, NULL, 1, 7, 0.25, NULL) b USING (round);

--
-- Draws and feedback
--

-- Play one bandit. Feedback of round s is given after the decision of round
-- s + delays[s]; what arrives together is given in the order of the rounds, or
-- backwards. One row for each operation, with the state after it and, for a draw,
-- what the state before it said.
CREATE FUNCTION pg_temp.play(rounds integer, delays integer[], backwards boolean, arms integer, optimism float8, half_life float8)
RETURNS TABLE (kind text, at bigint, ticket bandit_ticket, loss float8, state bandit_state,
               step_size float8, probabilities float8[])
LANGUAGE plpgsql AS $$
DECLARE
    tickets bandit_ticket[];
    drawn record;
    s bigint;
BEGIN
    state := bandit_new(arms, 'self-tuned', optimism => optimism, half_life => half_life);
    FOR t IN 1 .. rounds LOOP
        step_size := bandit_step_size(state);
        probabilities := bandit_probabilities(state);
        SELECT * INTO STRICT drawn FROM bandit_draw(state);
        kind := 'draw';
        at := t;
        state := drawn.state;
        tickets[t] := drawn.ticket;
        ticket := drawn.ticket;
        loss := NULL;
        RETURN NEXT;

        kind := 'feedback';
        step_size := NULL;
        probabilities := NULL;
        FOR s IN SELECT n FROM generate_series(1, t) n
                 WHERE n + delays[n] = t
                 ORDER BY CASE WHEN backwards THEN -n ELSE n END LOOP
            ticket := tickets[s];
            loss := ((31 * s * s + 17 * ticket.arm + 13 * s * ticket.arm) % 101) / 100.0 / ticket.arm;
            state := bandit_learn(state, ticket, loss);
            RETURN NEXT;
        END LOOP;
    END LOOP;
END
$$;

CREATE TEMP TABLE game AS
SELECT row_number() OVER (ORDER BY delay, backwards, arms, optimism, half_life) AS game, *
FROM (VALUES ('omitted', false, 2), ('random', false, 3), ('random', true, 10), ('bursts', true, 3), ('thirds never', true, 2))
         environment (delay, backwards, arms),
     unnest(ARRAY[0.01, 0.25, 1]::float8[]) optimism,
     unnest(ARRAY[0.7, 20.5, NULL]::float8[]) half_life;

SELECT setseed(0.5);
CREATE TEMP TABLE played AS
SELECT game, p.*
FROM (SELECT * FROM game ORDER BY game) g,
     pg_temp.play(45, coalesce(pg_temp.delays(delay, 45), array_fill(0, ARRAY[45])), backwards, arms, optimism, half_life)
         WITH ORDINALITY p (kind, at, ticket, loss, state, step_size, probabilities, n);

CREATE TEMP TABLE expected AS
SELECT game, events[x.n].at, x.*
FROM (SELECT game, array_agg((kind, (ticket).round, (ticket).arm, (ticket).probability, NULL, loss, at, step_size)::reference.event
                             ORDER BY n) || ('look', NULL, NULL, NULL, NULL, NULL, 46, NULL)::reference.event AS events
      FROM played GROUP BY game) e
JOIN game g USING (game),
     reference.self_tuned(e.events, g.arms, g.optimism, g.half_life) x;

-- The largest difference of two arrays, relative where they are above 1
CREATE FUNCTION pg_temp.difference(a float8[], b float8[]) RETURNS float8 LANGUAGE sql AS $$
    SELECT max(coalesce(abs(x - y) / greatest(1, abs(x)), 'infinity')) FROM unnest(a, b) _ (x, y)
$$;

-- The numbers in a state: settled, total_loss, cost, and all of z
CREATE FUNCTION pg_temp.sums(state bandit_state) RETURNS float8[] LANGUAGE sql AS $$
    SELECT ARRAY[s ->> 'settled', s ->> 'total_loss', s ->> 'cost']::float8[]
           || ARRAY(SELECT z::float8 FROM jsonb_array_elements_text(s -> 'z') WITH ORDINALITY _ (z, n) ORDER BY n)
    FROM (SELECT state::jsonb AS s) _
$$;

-- With a half-life h the sums of a state are those at the moment h floor(round / h):
-- what they are multiplied by to be those of another moment
CREATE FUNCTION pg_temp.weight(state bandit_state, at float8) RETURNS float8 LANGUAGE sql AS $$
    SELECT coalesce(2 ^ ((h * floor(round / h) - at) / h), 1)
    FROM (SELECT (s ->> 'half_life')::float8 AS h, (s ->> 'round')::float8 AS round FROM (SELECT state::jsonb AS s) _) _
$$;

-- Draws: "probabilities" and "step_sizes" that the state showed before, and those of
-- the tickets; gamma is a sixteenth of the step size; "foreseen": the probability of
-- the ticket is the very one that the state showed (with a half-life, but for rounding).
-- All operations: "sums" in the state after it; the reference has them just before the
-- next operation, with the weights of that moment.
SELECT delay, backwards, arms, count(DISTINCT g.game) AS games, count(*) FILTER (WHERE p.kind = 'draw') AS draws,
       count(*) FILTER (WHERE p.kind = 'feedback') AS feedback,
       max(pg_temp.difference(p.probabilities, x.probabilities)) < 1e-9
         AND max(abs((p.ticket).probability - x.probability)) FILTER (WHERE p.kind = 'draw') < 1e-9 AS probabilities,
       max(abs(p.step_size / x.step_size - 1)) < 1e-9 AS step_sizes,
       max(abs((p.ticket).gamma * 16 / x.step_size - 1)) FILTER (WHERE p.kind = 'draw') < 1e-9 AS gamma,
       bool_and(abs((p.ticket).probability - p.probabilities[(p.ticket).arm]) <= CASE WHEN half_life > 0 THEN 1e-15 ELSE 0 END)
           FILTER (WHERE p.kind = 'draw') AS foreseen,
       max(pg_temp.difference(ARRAY(SELECT s * pg_temp.weight(p.state, y.at) FROM unnest(pg_temp.sums(p.state)) WITH ORDINALITY _ (s, i) ORDER BY i),
                              ARRAY[y.settled, y.total_loss, y.cost] || y.z)) < 1e-9 AS sums
FROM game g JOIN played p USING (game) JOIN expected x USING (game, n) JOIN expected y ON y.game = g.game AND y.n = p.n + 1
GROUP BY delay, backwards, arms ORDER BY 1, 2, 3;

-- After the last feedback
SELECT count(*) AS games,
       max(abs(bandit_step_size(p.state) / x.step_size - 1)) < 1e-9 AS step_size,
       max(pg_temp.difference(bandit_probabilities(p.state), x.probabilities)) < 1e-9 AS probabilities
FROM (SELECT DISTINCT ON (game) * FROM played ORDER BY game, n DESC) p JOIN expected x ON x.game = p.game AND x.n = p.n + 1;

-- What the state counts besides
SELECT count(*) AS states, bool_and((state::jsonb ->> 'round')::bigint = at) AS round,
       bool_and((state::jsonb ->> 'outstanding')::bigint = open) AS outstanding,
       bool_and((state::jsonb ->> 'cumulative_delay')::bigint = delay) AS cumulative_delay
FROM (SELECT *, sum(CASE WHEN kind = 'draw' THEN before ELSE 0 END) OVER (PARTITION BY game ORDER BY n) AS delay
      FROM (SELECT *, open - CASE WHEN kind = 'draw' THEN 1 ELSE 0 END AS before
            FROM (SELECT *, sum(CASE kind WHEN 'draw' THEN 1 ELSE -1 END) OVER (PARTITION BY game ORDER BY n) AS open FROM played) _) _) _;

--
-- The invariant: C - min z <= 1.5 v - 0.5 K ln K, with the weights of the next draw,
-- after every operation. And v solves its equation.
--

CREATE FUNCTION pg_temp.equation(state bandit_state, OUT slack float8, OUT residual float8) LANGUAGE sql AS $$
    SELECT 1.5 * v - 0.5 * start - (cost - (SELECT min(z_i) FROM unnest(z) z_i)),
           abs(v - greatest(start, start + 2 * reference.excess(eta, cost, z))) / v
    FROM (SELECT eta, ln(k) / eta AS v, k * ln(k) AS start,
                 weight * sums[3] AS cost, ARRAY(SELECT weight * z FROM unnest(sums[4:]) WITH ORDINALITY _ (z, n) ORDER BY n) AS z
          FROM (SELECT bandit_step_size(state) AS eta, pg_temp.sums(state) AS sums,
                       pg_temp.weight(state, (state::jsonb ->> 'round')::float8 + 1) AS weight,
                       (state::jsonb ->> 'arms')::float8 AS k) _) _
$$;
SELECT count(*) AS states, min(slack) > -1e-9 AS invariant, max(residual) < 1e-9 AS solved
FROM played, pg_temp.equation(state);

-- Also of runs that are longer than the reference likes
CREATE FUNCTION pg_temp.long_run(arms integer, rounds integer, optimism float8, half_life float8, OUT states bigint, OUT slack float8, OUT residual float8)
LANGUAGE plpgsql AS $$
DECLARE
    state bandit_state := bandit_new(arms, 'self-tuned', optimism => optimism, half_life => half_life);
    tickets bandit_ticket[];
    drawn record;
    e record;
BEGIN
    states := 0;
    slack := 'infinity';
    residual := 0;
    FOR t IN 1 .. rounds LOOP
        SELECT * INTO STRICT drawn FROM bandit_draw(state);
        state := drawn.state;
        tickets[t] := drawn.ticket;
        -- the loss of arm 1 is small in every other stretch of 100 rounds
        IF t > 40 THEN
            state := bandit_learn(state, tickets[t - 40], CASE WHEN (tickets[t - 40].arm = 1) = (t / 100 % 2 = 0) THEN 0.1 ELSE 0.9 END);
        END IF;
        SELECT * INTO e FROM pg_temp.equation(state);
        states := states + 1;
        slack := least(slack, e.slack);
        residual := greatest(residual, e.residual);
    END LOOP;
END
$$;
SELECT optimism, half_life, states, slack > -1e-9 AS invariant, residual < 1e-9 AS solved
FROM (VALUES (1::float8, NULL::float8), (0.25, NULL), (0.25, 300), (0.01, 33.3)) v (optimism, half_life),
     pg_temp.long_run(3, 500, optimism, half_life);

--
-- Text and binary form
--

-- Bytes are compared, for text that has lost digits is equal to itself.
SELECT count(*) AS states, bool_and(bandit_state_send(again) = bandit_state_send(state)) AS bytes,
       bool_and(again = state AND bandit_state_hash(again) = bandit_state_hash(state)) AS equal,
       bool_and(state::jsonb = state::text::jsonb) AS jsonb,
       count(*) FILTER (WHERE 0 > ANY (pg_temp.sums(state))) > 100 AS some_negative
FROM (SELECT state, state::text::bandit_state AS again FROM played OFFSET 0) _;

CREATE TEMP TABLE received (game bigint, n bigint, state bandit_state);
\copy (SELECT game, n, state FROM played) TO 'results/self_tuned_states' (FORMAT binary)
\copy received FROM 'results/self_tuned_states' (FORMAT binary)
SELECT count(*) AS states, bool_and(bandit_state_send(r.state) = bandit_state_send(p.state)) AS bytes,
       bool_and(r.state::text = p.state::text) AS text
FROM received r JOIN played p USING (game, n);

-- What it looks like
SELECT bandit_new(2);
SELECT bandit_new(3, 'self-tuned', optimism => 0.1, half_life => 20.5);
SELECT bandit_learn(state, '(1,2,0.5,0.03125,0,0)', 0.75)
FROM bandit_draw(bandit_new(2, optimism => 1)) WHERE setseed(0.1) IS NOT NULL;

-- From its text a bandit goes on as before.
SELECT max(pg_temp.difference(bandit_probabilities(state), bandit_probabilities(again))) < 1e-12 AS same_probabilities,
       max(abs(bandit_step_size(state) / bandit_step_size(again) - 1)) < 1e-12 AS same_step_size
FROM (SELECT state, state::text::bandit_state AS again FROM played) _;

--
-- Hard numbers
--

-- Can the state go on? Its probabilities are numbers that sum to 1 and its step
-- size is one. (The sum is numeric: with many arms, sum() has more rounding than they
-- have.)
CREATE FUNCTION pg_temp.is_sound(state bandit_state) RETURNS boolean LANGUAGE sql AS $$
    SELECT count(*) = (state::jsonb ->> 'arms')::integer AND bool_and(p >= 0 AND p <= 1) AND abs(sum(p::numeric) - 1) < 1e-12
       AND bandit_step_size(state) > 0 AND bandit_step_size(state) < 'infinity'
    FROM unnest(bandit_probabilities(state)) p
$$;

-- Draw and learn some times, with the same loss always.
CREATE FUNCTION pg_temp.go_on(state bandit_state, rounds integer, loss float8) RETURNS bandit_state LANGUAGE plpgsql AS $$
DECLARE
    drawn record;
BEGIN
    FOR t IN 1 .. rounds LOOP
        SELECT * INTO STRICT drawn FROM bandit_draw(state);
        state := bandit_learn(drawn.state, drawn.ticket, loss);
    END LOOP;
    RETURN state;
END
$$;

-- As many arms as there may be
SELECT loss, pg_temp.is_sound(state) AS sound, residual < 1e-9 AS solved, slack > -1e-6 AS invariant,
       bandit_state_send(state) = bandit_state_send(state::text::bandit_state) AS round_trip
FROM (SELECT loss, pg_temp.go_on(bandit_new(65535), 12, loss) AS state FROM unnest(ARRAY[0, 1, 0.5]) loss OFFSET 0) _,
     pg_temp.equation(state);

-- Losses all 0, all 1, tiny: nothing overflows, and where nothing is lost, nothing
-- is learned.
SELECT loss, optimism, half_life, pg_temp.is_sound(state) AS sound, residual < 1e-9 AS solved, slack > -1e-9 AS invariant,
       bandit_probabilities(state) = bandit_probabilities(bandit_new(3)) AS uniform
FROM (SELECT loss, optimism, half_life,
             pg_temp.go_on(bandit_new(3, optimism => optimism, half_life => half_life), 300, loss) AS state
      FROM (VALUES (1, 0::float8), (2, 1e-300), (3, 5e-324), (4, 1)) l (n, loss),
           (VALUES (1::float8, NULL::float8), (0.25, NULL), (0.25, 20.5)) v (optimism, half_life)
      ORDER BY n, optimism, half_life OFFSET 0) _,
     pg_temp.equation(state);

-- States that no test can play for. The sums are large and near each other, or
-- far from each other; one arm is left probable; 10^12 rounds have been played.
CREATE TEMP TABLE hard AS
SELECT n, name, (bandit_new(3, half_life => half_life)::jsonb || patch::jsonb)::text::bandit_state AS state
FROM (VALUES (1, 'near', NULL::float8, '{"cost": 1e15, "z": [999999999999995, 1000000000000003, 1e15]}'),
             (2, 'nearer', NULL, '{"cost": 1e15, "z": [999999999999999.875, 1e15, 1e15]}'),
             (3, 'equal', NULL, '{"cost": 1e15, "z": [1e15, 1e15, 1e15]}'),
             (4, 'above', NULL, '{"cost": 1e15, "z": [1000000000000001, 2e15, 1e15]}'),
             (5, 'negative', NULL, '{"cost": -1e15, "z": [-1e15, -999999999999990, -1000000000000020]}'),
             (6, 'far', NULL, '{"cost": 1e15, "z": [0, 1e15, 1e14]}'),
             (7, 'far, negative', NULL, '{"cost": 1e15, "z": [-1e15, 1e15, 0]}'),
             (8, 'largest', NULL, '{"cost": 1e300, "z": [1e300, 1e300, 9.99e299]}'),
             (9, 'largest, equal', NULL, '{"cost": 1e300, "z": [1e300, 1e300, 1e300]}'),
             (10, 'largest, far', NULL, '{"cost": 1e300, "z": [-1e300, 1e300, 0]}'),
             (11, 'largest, no cost', NULL, '{"cost": 0, "z": [1e300, 0, 1e300]}'),
             (12, 'largest, negative', NULL, '{"cost": -1e300, "z": [-1e300, 1e300, -1e300]}'),
             (13, 'one arm', NULL, '{"cost": 10, "z": [0, 1e6, 1e6]}'),
             (14, 'one arm, almost', NULL, '{"cost": 10, "z": [1e6, 1e6, 999000]}'),
             (15, 'one arm, dear', NULL, '{"cost": 1e6, "z": [0, 1e9, 1e9]}'),
             (16, 'small', NULL, '{"cost": 1e-300, "z": [5e-324, 0, 1e-300]}'),
             (17, 'small, negative', NULL, '{"cost": 5e-324, "z": [-5e-324, 0, -1e-300]}'),
             (18, 'many rounds', NULL, '{"round": 1000000000000, "settled": 999999999999, "total_loss": 5e11, "cost": 125000000000, "z": [124999000000, 124999500000, 1.5e11]}'),
             (19, 'many rounds, free', NULL, '{"round": 1000000000000, "settled": 1e12, "total_loss": 0, "cost": 0, "z": [0, 0, 0]}'),
             (20, 'many rounds, half-life', 7, '{"round": 1000000000000, "settled": 10, "total_loss": 5, "cost": 2, "z": [1, 2, 3]}'),
             (21, 'many rounds, odd half-life', 0.75, '{"round": 1000000000001, "settled": 1, "total_loss": 0.5, "cost": 0.25, "z": [0.5, 0, 0.1]}'),
             (22, 'many rounds, long half-life', 1e11, '{"round": 1000000000000, "settled": 1e11, "total_loss": 5e10, "cost": 1e10, "z": [9999900000, 9999950000, 1.5e10]}'),
             (23, 'all rounds', NULL, '{"round": 9007199254740000, "settled": 9e15, "total_loss": 9e15, "cost": 2e15, "z": [2e15, 1e15, 3e15]}')) v (n, name, half_life, patch);

-- "goes_on": also after some rounds more
SELECT name, pg_temp.is_sound(state) AS sound, residual < 1e-9 AS solved,
       slack > -1e-9 * greatest(1, abs((pg_temp.sums(state))[3])) AS invariant,
       bandit_state_send(state) = bandit_state_send(state::text::bandit_state) AS round_trip,
       pg_temp.is_sound(pg_temp.go_on(state, 5, 1)) AND pg_temp.is_sound(pg_temp.go_on(state, 5, 0)) AS goes_on,
       (SELECT count(*) FROM unnest(bandit_probabilities(state)) p WHERE p > 1e-9) AS probable
FROM hard, pg_temp.equation(state) ORDER BY n;

-- An arm of probability 1e-13 is drawn: its estimate is bounded by 1 / gamma.
SELECT x < 16 / bandit_step_size(state) AS bounded
FROM (SELECT state, (pg_temp.sums(bandit_learn((drawn).state, ROW(1, 3, 1e-13, bandit_step_size(state) / 16, 0, 0), 1)))[6] AS x
      FROM (SELECT state, bandit_draw(state) AS drawn
            FROM CAST((bandit_new(3)::jsonb || '{"cost": 5, "z": [0, 0, 0]}')::text AS bandit_state) state) _) _;

-- More half-lives than a double can count one by one: such a text is refused, or the
-- state goes on and can be written and read.
CREATE FUNCTION pg_temp.refused_or_sound(state text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    later bandit_state;
BEGIN
    later := pg_temp.go_on(state::bandit_state, 3, 1);
    RETURN pg_temp.is_sound(later) AND bandit_state_send(later) = bandit_state_send(later::text::bandit_state);
EXCEPTION WHEN invalid_text_representation THEN
    RETURN true;
END
$$;
SELECT half_life, bool_and(pg_temp.refused_or_sound((bandit_new(3, half_life => half_life)::jsonb
           || format('{"round": %s, "settled": 1, "total_loss": 0.5, "cost": 0.25, "z": [0.5, -0.25, 0]}', round)::jsonb)::text)) AS refused_or_sound
FROM unnest(ARRAY[0.001, 0.0017, 0.013, 0.7]::float8[]) half_life,
     unnest(ARRAY[100000000000000, 1000000000000000, 4503599627370496, 9007199254740000]) round
GROUP BY half_life ORDER BY half_life;

-- Half-lives so short that nothing is left of the last round, or so long that nothing
-- is forgotten
SELECT count(*) AS rounds, max(abs(p1 - 1 / 3.0)) < 1e-9 AS nothing_left,
       bool_and(a2 = a3) AND max(abs(p2 - p3)) < 1e-9 AS nothing_forgotten
FROM pg_temp.losses('mixed', 100, 3) losses,
     ROWS FROM (bandit_simulate(losses, half_life => 0.001, seed => 1), bandit_simulate(losses, half_life => 1e15, seed => 1),
                bandit_simulate(losses, seed => 1)) _ (r1, a1, p1, s1, l1, r2, a2, p2, s2, l2, r3, a3, p3, s3, l3);

--
-- What is refused
--

CREATE FUNCTION pg_temp.complaint(call text, OUT state text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'SELECT ' || call;
    state := 'none';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
                            detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
END
$$;

CREATE TEMP TABLE wrong (n serial, call text, shown text);

-- What is not for this learner, what is for this learner only, and wrong values
INSERT INTO wrong (call)
SELECT format(call, value)
FROM (VALUES (1, 'bandit_new(3, %s)'), (2, 'bandit_simulate(''{{0,1},{1,0}}'', %s)')) f (f, call),
     unnest(ARRAY[
         $$skipping => true$$,
         $$algorithm => 'self-tuned', skipping => true$$,
         $$patience => 99$$,
         $$patience => NULL$$,
         $$max_delay => 10$$,
         $$step_scale => 2$$,
         $$step_scale => 'NaN'$$,
         $$step_scale => NULL$$,
         $$algorithm => 'dada', optimism => 0.5$$,
         $$algorithm => 'dada-ix', optimism => 1$$,
         $$algorithm => 'deda', optimism => 0.5$$,
         $$algorithm => 'dada', optimism => NULL$$,
         $$algorithm => 'dada', half_life => 10$$,
         $$algorithm => 'dada-ix', half_life => 10$$,
         $$algorithm => 'deda', half_life => 10$$,
         $$optimism => NULL$$,
         $$optimism => 0$$,
         $$optimism => '-0'$$,
         $$optimism => -0.25$$,
         $$optimism => 1.0000000000000002::float8$$,
         $$optimism => 'NaN'$$,
         $$optimism => 'infinity'$$,
         $$optimism => '-infinity'$$,
         $$half_life => 0$$,
         $$half_life => '-0'$$,
         $$half_life => -1$$,
         $$half_life => 5e-324::float8$$,
         $$half_life => 1e300$$,
         $$half_life => 'NaN'$$,
         $$half_life => 'infinity'$$,
         $$half_life => '-infinity'$$,
         $$algorithm => 'self_tuned'$$,
         $$algorithm => 'Self-Tuned'$$]) WITH ORDINALITY v (value, n)
ORDER BY f, n;

INSERT INTO wrong (call)
SELECT unnest(ARRAY[
    $$bandit_draw(bandit_new(3), 0)$$,
    $$bandit_draw(bandit_new(3), 5)$$,
    $$bandit_draw(bandit_new(3), -1)$$]);

-- Tickets and losses
CREATE FUNCTION pg_temp.played() RETURNS bandit_state LANGUAGE sql AS $$
    SELECT (bandit_new(3)::jsonb || '{"round": 10, "outstanding": 2, "cumulative_delay": 5, "settled": 8, "total_loss": 4, "cost": 3, "z": [1, -2, 3]}')::text::bandit_state
$$;
INSERT INTO wrong (call)
SELECT format('bandit_learn(pg_temp.played(), %s)', arguments)
FROM unnest(ARRAY[
    $$ROW(7, 1, 0.5, 0.02, 0, 0), NULL$$,
    $$ROW(7, 1, 0.5, 0.02, 0, 0), 1.0000000000000002::float8$$,
    $$ROW(7, 1, 0.5, 0.02, 0, 0), 'NaN'$$,
    $$NULL, 0.5$$,
    $$ROW(11, 1, 0.5, 0.02, 0, 0), 0.5$$,
    $$ROW(7, 4, 0.5, 0.02, 0, 0), 0.5$$,
    $$ROW(7, 1, 0, 0.02, 0, 0), 0.5$$,
    $$ROW(7, 1, 0.5, -0.02, 0, 0), 0.5$$,
    $$ROW(7, 1, 0.5, 'NaN', 0, 0), 0.5$$,
    $$ROW(7, 1, 0.5, 'infinity', 0, 0), 0.5$$,
    $$ROW(7, 1, 0.5, 0.02, -1, 0), 0.5$$,
    $$ROW(7, 1, 0.5, 0.02, 0, 'NaN'), 0.5$$]) arguments;

-- Texts: keys that are missing, do not belong, or have wrong values
INSERT INTO wrong (call, shown)
SELECT format('%L::bandit_state', (bandit_new(2)::jsonb - key)::text), 'bandit_state without ' || key
FROM jsonb_object_keys(bandit_new(2)::jsonb) key ORDER BY key COLLATE "C";
INSERT INTO wrong (call, shown)
SELECT format('%L::bandit_state', (bandit_new(2)::jsonb || patch::jsonb)::text), 'bandit_state with ' || patch
FROM unnest(ARRAY['{"skipping": false}', '{"patience": 100}', '{"step_scale": 1}', '{"max_delay": null}', '{"open": []}',
                  '{"lbck": 0}', '{"m": [0, 0]}', '{"longest_delay": 0}', '{"mass": 1}', '{"v": 2}',
                  '{"optimism": 0}', '{"optimism": -0.25}', '{"optimism": 1.5}', '{"optimism": null}', '{"optimism": "NaN"}',
                  '{"half_life": 0}', '{"half_life": -1}', '{"half_life": 1e17}', '{"half_life": "NaN"}', '{"half_life": false}',
                  '{"settled": -1}', '{"settled": null}', '{"settled": "NaN"}', '{"settled": -0.000001}',
                  '{"total_loss": -0.5}', '{"total_loss": null}', '{"total_loss": "NaN"}',
                  '{"cost": "NaN"}', '{"cost": null}', '{"cost": [0]}',
                  '{"z": [0]}', '{"z": [0, 0, 0]}', '{"z": [0, "NaN"]}', '{"z": [0, null]}', '{"z": 0}',
                  '{"round": -1}', '{"round": 0.5}', '{"outstanding": 1}', '{"outstanding": -1}', '{"cumulative_delay": -1}',
                  '{"algorithm": "self-tune"}', '{"algorithm": "dada"}']) patch;
-- numbers that are too large, or none
INSERT INTO wrong (call, shown)
SELECT format('%L::bandit_state', replace(bandit_new(2)::text, replace(wrong, value, '0'), wrong)), 'bandit_state with ' || wrong
FROM (VALUES ('"cost": NaN', 'NaN'), ('"cost": Infinity', 'Infinity'), ('"cost": 1e301', '1e301'),
             ('"cost": -1e301', '-1e301'), ('"cost": 1e400', '1e400'), ('"settled": 1e301', '1e301'), ('"total_loss": 1e301', '1e301'),
             ('"z": [1e301, 0]', '1e301'), ('"z": [-1e301, 0]', '-1e301')) v (wrong, value);
INSERT INTO wrong (call, shown)
SELECT format('%L::bandit_state', (bandit_new(2, algorithm)::jsonb || patch::jsonb)::text), 'bandit_state of ' || algorithm || ' with ' || patch
FROM (VALUES ('dada', '{"optimism": 0.25}'), ('dada-ix', '{"half_life": null}'), ('deda', '{"cost": 0}')) v (algorithm, patch);

CREATE TEMP TABLE said AS
SELECT w.*, c.* FROM wrong w, pg_temp.complaint(w.call) c ORDER BY w.n;
-- what PostgreSQL says about wrong JSON is its own business
\pset format unaligned
\pset tuples_only
SELECT coalesce(shown, call) || E'\n    ' || state || coalesce(' ' || message, '')
       || CASE WHEN message ~ 'type json' THEN ''
               ELSE coalesce(E'\n        ' || nullif(detail, ''), '') || coalesce(E'\n        ' || nullif(hint, ''), '') END
FROM said ORDER BY n;
\pset tuples_only
\pset format aligned

-- None succeeds, none is an internal error, all say something.
SELECT count(*) AS calls,
       count(*) FILTER (WHERE state = 'none') AS succeeded,
       count(*) FILTER (WHERE state LIKE 'XX%') AS internal,
       count(*) FILTER (WHERE state <> 'none' AND coalesce(message, '') = '') AS silent,
       count(*) FILTER (WHERE message ~ '^[A-Z]|[.]$') AS bad_style,
       count(*) FILTER (WHERE detail <> '' AND detail !~ '^["A-Z].*[.]$' OR hint <> '' AND hint !~ '^[A-Z].*[.]$') AS bad_sentences
FROM said;

-- What looks wrong and is not
SELECT bandit_new(2, 'self-tuned', false, 100, NULL, 1, 0.25, NULL) = bandit_new(2) AS defaults,
       bandit_new(2, optimism => 1) <> bandit_new(2) AS optimism,
       bandit_new(2, optimism => 5e-324::float8) IS NOT NULL AS little_optimism,
       bandit_new(2, half_life => 0.5) <> bandit_new(2) AS half_life,
       bandit_new(2, 'dada', optimism => 0.25) = bandit_new(2, 'dada') AS unused,
       bandit_draw(bandit_new(2), NULL) IS NOT NULL AS delay;
