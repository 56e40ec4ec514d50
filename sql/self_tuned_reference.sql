-- The reference of the self-tuned learner, written from its definition
-- (doc/algorithms.md), to judge the extension by. Like reference.sql it uses
-- nothing of the extension.
--
-- Input is what really happened, in the order in which it did: draws with the
-- probability that was really used, feedback with its loss, arms that came and
-- went. Baselines, gammas, masses and everything else are the reference's own.
-- Every sum is made anew from all that has been settled, each with its weight
-- at that moment, and the equation for v is solved by bisection. The cost is
-- O(T^2): a few hundred rounds are fine.

-- One event. "at" is its time: for a half-life in rounds the newest round (the
-- one that is drawn, if it is a draw), else in the unit of the half-life.
CREATE TYPE reference.event AS (
    kind text,                  -- draw, feedback, also (feedback that comes together
                                -- with the event before, and does not know of it),
                                -- add, retire, or look: only tell
    decision bigint,            -- the decision drawn or settled: 1, 2, ...
    arm integer,                -- drawn, added or retired
    probability float8,         -- of the arm drawn, as really used
    allowed integer[],          -- of a draw: which arms may be drawn; null: all
    loss float8,                -- of feedback, between 0 and 1
    at float8,
    step_size float8            -- of a draw; it is only ever compared
);

-- C - Phi_eta(z), where Phi_eta(z) = -(1/eta) ln((1/K) sum_i exp(-eta z_i)). SQL
-- makes an error of every underflow; what is cut off is below 1e-300 beside 1.
CREATE FUNCTION reference.excess(eta float8, cost float8, z float8[]) RETURNS float8
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    least_z float8 := z[1];
    sum float8 := 0;
    far float8 := 700 / eta;
    z_i float8;
BEGIN
    FOREACH z_i IN ARRAY z LOOP
        IF z_i < least_z THEN
            least_z := z_i;
        END IF;
    END LOOP;
    FOREACH z_i IN ARRAY z LOOP
        IF z_i - least_z < 1e-200 THEN
            sum := sum + 1;
        ELSIF z_i - least_z < far THEN
            sum := sum + exp(-eta * (z_i - least_z));
        END IF;
    END LOOP;
    RETURN (cost - least_z) + ln(sum / cardinality(z)) / eta;
END
$$;

-- The solution of v = K ln K + 2 (C - Phi_{ln K / v}(z)), or K ln K if that is
-- larger. The difference of the two sides grows with v, and the solution is
-- between K ln K and K ln K + 2 max(0, C - min z).
CREATE FUNCTION reference.solve(cost float8, z float8[]) RETURNS float8
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    ln_k float8 := ln(cardinality(z)::float8);
    start float8 := cardinality(z) * ln_k;
    low float8 := start;
    high float8 := start + 2 * greatest(0, cost - (SELECT min(z_i) FROM unnest(z) z_i));
    v float8;
BEGIN
    LOOP
        v := low + (high - low) / 2;
        EXIT WHEN v <= low OR v >= high;
        IF v >= start + 2 * reference.excess(ln_k / v, cost, z) THEN
            high := v;
        ELSE
            low := v;
        END IF;
    END LOOP;
    RETURN high;
END
$$;

-- p_i ~ exp(-eta z_i), over some of the arms
CREATE FUNCTION reference.exponential(eta float8, z float8[], which boolean[]) RETURNS float8[]
LANGUAGE sql IMMUTABLE AS $$
    WITH arm AS (
        SELECT i, CASE WHEN a THEN reference.weight(eta, z_i - min(z_i) FILTER (WHERE a) OVER ()) ELSE 0 END AS w
        FROM unnest(z, which) WITH ORDINALITY _ (z_i, a, i))
    SELECT array_agg(w / (SELECT sum(w) FROM arm) ORDER BY i) FROM arm
$$;

-- A number with its weight. What is cut off is nothing beside 1.
CREATE FUNCTION reference.weighted(weight float8, x float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN weight = 1 OR abs(x) > 1e-200 THEN weight * x ELSE 0 END
$$;

-- What is to be expected of each event: the sums just before it, each settled
-- decision weighted by 2^(-age / half_life), age being the time since it was
-- made; for a draw, a look and a change of arms also the step size and the
-- probabilities that follow from these sums; and what the event itself makes.
CREATE FUNCTION reference.self_tuned(
    events reference.event[],
    arms integer,
    optimism float8 DEFAULT 0.25,
    half_life float8 DEFAULT NULL)
RETURNS TABLE (
    n integer,
    settled float8,             -- number of settled decisions
    total_loss float8,          -- sum of their losses
    cost float8,                -- C
    z float8[],
    k integer,                  -- number of arms that have not retired
    v float8,
    step_size float8,           -- eta = ln K / v
    probabilities float8[],     -- p_i ~ exp(-eta z_i); 0 for arms that have retired
    mass float8,                -- of a draw: the sum of p over the arms allowed
    probability float8,         -- of a draw: of the arm drawn, among those allowed
    baseline float8,            -- of feedback: o
    estimate float8)            -- of feedback: x
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    e reference.event;
    active boolean[] := array_fill(true, ARRAY[arms]);
    -- of each decision
    drawn integer[];
    made_at float8[];
    p float8[];
    gamma float8[];
    share float8[];
    -- of each thing that counts: a settled decision, a change of arms
    things integer := 0;
    since float8[];
    counts integer[];
    loss float8[];
    charge float8[];
    arm_of integer[];
    gain float8[];
    weight float8;
    active_z float8[];
    least_z float8;
    ln_k float8;
    new_v float8;
    offset_to_cost float8;
    common float8;
BEGIN
    n := 0;
    FOREACH e IN ARRAY events LOOP
        n := n + 1;
        settled := 0;
        total_loss := 0;
        cost := 0;
        z := array_fill(0::float8, ARRAY[cardinality(active)]);
        FOR j IN 1 .. things LOOP
            weight := CASE WHEN half_life IS NULL THEN 1
                           -- 1e-30 beside 1, and SQL makes an error of underflow
                           WHEN e.at - since[j] > 100 * half_life THEN 0
                           ELSE 2 ^ (-(e.at - since[j]) / half_life) END;
            settled := settled + weight * counts[j];
            total_loss := total_loss + reference.weighted(weight, loss[j]);
            cost := cost + reference.weighted(weight, charge[j]);
            z[arm_of[j]] := z[arm_of[j]] + reference.weighted(weight, gain[j]);
        END LOOP;
        k := (SELECT count(*) FILTER (WHERE a) FROM unnest(active) a);
        v := NULL;
        step_size := NULL;
        probabilities := NULL;
        mass := NULL;
        probability := NULL;
        baseline := NULL;
        estimate := NULL;

        IF e.kind NOT IN ('feedback', 'also') THEN
            active_z := ARRAY(SELECT z_i FROM unnest(z, active) _ (z_i, a) WHERE a);
            v := reference.solve(cost, active_z);
            step_size := ln(k::float8) / v;
            probabilities := reference.exponential(step_size, z, active);
        END IF;

        CASE e.kind
        WHEN 'draw' THEN
            mass := 1;
            probability := probabilities[e.arm];
            IF e.allowed IS NOT NULL THEN
                mass := (SELECT sum(probabilities[i]) FROM unnest(e.allowed) i);
                probability := (reference.exponential(step_size, z, (
                    SELECT array_agg(a AND i = ANY (e.allowed) ORDER BY i)
                    FROM unnest(active) WITH ORDINALITY _ (a, i))))[e.arm];
            END IF;
            drawn[e.decision] := e.arm;
            made_at[e.decision] := e.at;
            p[e.decision] := e.probability;
            gamma[e.decision] := step_size / 16;
            share[e.decision] := CASE WHEN mass > 1e-100 THEN mass ELSE 0 END;

        WHEN 'feedback', 'also' THEN
            IF e.kind = 'feedback' THEN
                common := (1 - optimism) * total_loss / (settled + k);
            END IF;
            baseline := common;
            estimate := (e.loss - baseline) / (p[e.decision] + gamma[e.decision]);
            things := things + 1;
            since[things] := made_at[e.decision];
            counts[things] := 1;
            loss[things] := e.loss;
            charge[things] := reference.weighted(share[e.decision], e.loss - baseline);
            arm_of[things] := drawn[e.decision];
            gain[things] := estimate;

        WHEN 'add', 'retire' THEN
            -- A new arm begins with the smallest z of the others. What is
            -- added to C leaves the step size as it is, except that v is
            -- never below K ln K: C' - Phi = (v' - K' ln K') / 2.
            least_z := CASE e.kind WHEN 'add' THEN (SELECT min(z_i) FROM unnest(active_z) z_i) ELSE 0 END;
            active[e.arm] := e.kind = 'add';
            z[e.arm] := coalesce(z[e.arm], 0) + least_z;
            active_z := ARRAY(SELECT z_i FROM unnest(z, active) _ (z_i, a) WHERE a);
            ln_k := ln(cardinality(active_z)::float8);
            new_v := greatest(ln_k / step_size, cardinality(active_z) * ln_k);
            offset_to_cost := (new_v - cardinality(active_z) * ln_k) / 2
                              - reference.excess(ln_k / new_v, cost, active_z);
            things := things + 1;
            since[things] := e.at;
            counts[things] := 0;
            loss[things] := 0;
            charge[things] := offset_to_cost;
            arm_of[things] := e.arm;
            gain[things] := least_z;

        WHEN 'look' THEN
            NULL;
        END CASE;
        RETURN NEXT;
    END LOOP;
END
$$;

-- The log of a run in rounds, as events; the feedback of a round comes in the
-- order of the decisions, or backwards. In the end there is a look at the round
-- that comes next.
CREATE FUNCTION reference.events(log reference.decision[], backwards boolean DEFAULT false)
RETURNS reference.event[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT array_agg((kind, round, arm, probability, NULL, loss, at, step_size)::reference.event
                     ORDER BY at, kind, CASE WHEN backwards THEN -round ELSE round END)
    FROM (SELECT 'draw' AS kind, round, arm, probability, NULL::float8 AS loss, round AS at, step_size
          FROM unnest(log)
          UNION ALL
          SELECT 'feedback', round, NULL, NULL, loss, round + delay, NULL
          FROM unnest(log) WHERE round + delay <= cardinality(log)
          UNION ALL
          SELECT 'look', NULL, NULL, NULL, NULL, cardinality(log) + 1, NULL) e
$$;

-- How far a log is from the reference: the number of draws compared and the
-- largest absolute difference in the probability of the arm drawn; the number
-- of step sizes compared and the largest relative difference.
CREATE FUNCTION reference.self_tuned_check(
    events reference.event[],
    arms integer,
    optimism float8 DEFAULT 0.25,
    half_life float8 DEFAULT NULL,
    OUT rounds bigint,
    OUT probability_difference float8,
    OUT step_sizes bigint,
    OUT step_size_difference float8)
LANGUAGE sql STABLE AS $$
    SELECT count(e.probability - r.probability),
           max(abs(e.probability - r.probability)),
           count(e.step_size / r.step_size),
           max(abs(e.step_size / r.step_size - 1))
    FROM unnest(events) WITH ORDINALITY e (kind, decision, arm, probability, allowed, loss, at, step_size, n)
    JOIN reference.self_tuned(events, arms, optimism, half_life) r USING (n)
    WHERE e.kind = 'draw'
$$;

--
-- The reference itself, pinned by numbers worked out by hand.
-- ln 2 = 0.693147, ln 3 = 1.098612
--

-- The equation, from a solution that is chosen.
--   2 arms, eta = 1/4: v = 4 ln 2. z = (0, 4 ln 3): exp(-eta z) = (1, 1/3), so
--     Phi = -4 ln(2/3) = 1.621860; C = Phi + (4 ln 2 - 2 ln 2) / 2 = 2.315007
--   3 arms, eta = 1/10: v = 10 ln 3. z = (0, 10 ln 2, 10 ln 4): exp(-eta z) =
--     (1, 1/2, 1/4), so Phi = -10 ln(7/12) = 5.389965;
--     C = Phi + (10 ln 3 - 3 ln 3) / 2 = 9.235108
--   The same z moved by -1000, and C with them: the same.
--   C = Phi, or less: v = K ln K, eta = 1/K
SELECT name, round(reference.solve(cost, z)::numeric, 6) AS v, round((ln(cardinality(z)) / reference.solve(cost, z))::numeric, 6) AS eta
FROM (VALUES (1, '2 arms', 4 * ln(1.5) + ln(2.0), ARRAY[0, 4 * ln(3.0)]),
             (2, '3 arms', 10 * ln(12 / 7.0) + 3.5 * ln(3.0), ARRAY[0, 10 * ln(2.0), 10 * ln(4.0)]),
             (3, 'moved', 10 * ln(12 / 7.0) + 3.5 * ln(3.0) - 1000, ARRAY[-1000, 10 * ln(2.0) - 1000, 10 * ln(4.0) - 1000]),
             (4, 'C = Phi', 7, ARRAY[7, 7, 7]),
             (5, 'C < min z', 6, ARRAY[7, 7, 8])) v (n, name, cost, z)
ORDER BY n;

-- 2 arms, optimism 1/4, feedback at once.
--   Round 1: v = 2 ln 2, eta = 1/2, gamma = 1/32. Loss 1 for arm 1: o = 0. The
--     probability is chosen such that eta_2 = 2/5, v = 2.5 ln 2: C = 1, so
--     Phi = 1 - 0.25 ln 2 = 0.826713 and (exp(-eta x) + 1) / 2 = exp(-0.4 Phi) =
--     0.718430, exp(-eta x) = 0.436859; x = 2.070342 = 1 / (p + 1/32): p = 0.451762
--   Round 2: p_1 = 0.436859 / 1.436859 = 0.304039. Arm 2 is drawn, and 0.475 is
--     taken for its probability: p + gamma = 0.475 + 0.025 = 0.5. Loss 0.5:
--     o = 3/4 * 1 / (1 + 2) = 0.25, x = (0.5 - 0.25) / 0.5 = 0.5, C = 1.25
--   Round 3: z = (2.070342, 0.5). v = 1.581053, eta = 0.438408 is the solution:
--     Phi = -ln((0.403469 + 0.803158) / 2) / 0.438408 = 1.152620, and
--     2 ln 2 + 2 (1.25 - 1.152620) = 1.581053. p_1 = 0.403469 / 1.206627 = 0.334378
SELECT n, round(settled::numeric, 6) AS settled, round(total_loss::numeric, 6) AS loss, round(cost::numeric, 6) AS cost,
       round(z[1]::numeric, 6) AS z_1, round(z[2]::numeric, 6) AS z_2, round(v::numeric, 6) AS v,
       round(step_size::numeric, 6) AS eta, round(probabilities[1]::numeric, 6) AS p_1, round(baseline::numeric, 6) AS o,
       round(estimate::numeric, 6) AS x
FROM reference.self_tuned(reference.events(ARRAY[(1, 1, 0.4517619624911013, 1, 0, NULL, NULL),
                                                 (2, 2, 0.475, 0.5, 0, NULL, NULL)]::reference.decision[]), 2);

-- Half-life 1: what is a round older counts half.
--   Round 2: C = 1/2, and again the probability is such that eta = 2/5: Phi =
--     0.5 - 0.25 ln 2 = 0.326713, (exp(-eta z_1) + 1) / 2 = exp(-0.4 Phi) =
--     0.877494, exp(-eta z_1) = 0.754988; z_1 = 0.702634, x = 2 z_1 = 1.405269,
--     p + 1/32 = 0.711608. p_1 = 0.754988 / 1.754988 = 0.430195
--   Its feedback, 0.9 for arm 2, still in round 2: o = 3/4 * 1/2 / (1/2 + 2) = 0.15;
--     x = 0.75 / 0.5 = 1.5
--   Round 3: n = 1/4 + 1/2, losses 1/4 + 0.9/2 = 0.7, C = 1/4 + 0.75/2 = 0.625,
--     z = (1.405269 / 4, 1.5 / 2) = (0.351317, 0.75). v = 1.552693, eta = 0.446416:
--     Phi = -ln((0.854846 + 0.715473) / 2) / 0.446416 = 0.541801, and
--     2 ln 2 + 2 (0.625 - 0.541801) = 1.552693. p_1 = 0.854846 / 1.570319 = 0.544378
SELECT n, round(settled::numeric, 6) AS settled, round(total_loss::numeric, 6) AS loss, round(cost::numeric, 6) AS cost,
       round(z[1]::numeric, 6) AS z_1, round(z[2]::numeric, 6) AS z_2, round(v::numeric, 6) AS v,
       round(step_size::numeric, 6) AS eta, round(probabilities[1]::numeric, 6) AS p_1, round(baseline::numeric, 6) AS o,
       round(estimate::numeric, 6) AS x
FROM reference.self_tuned(reference.events(ARRAY[(1, 1, 0.6803577705665672, 1, 0, NULL, NULL),
                                                 (2, 2, 0.475, 0.9, 0, NULL, NULL)]::reference.decision[]), 2, half_life => 1);

-- 3 arms, optimism 1, arm 3 not allowed: the mass is 2/3, the probability 1/2.
-- eta = 1/3, gamma = 1/48: x = 1 / (1/2 + 1/48) = 1.92, and C = 2/3.
SELECT n, round(cost::numeric, 6) AS cost, round(z[1]::numeric, 6) AS z_1, round(mass::numeric, 6) AS mass,
       round(probability::numeric, 6) AS p, round(estimate::numeric, 6) AS x
FROM reference.self_tuned(ARRAY[('draw', 1, 1, 0.5, ARRAY[1, 2], NULL, 1, NULL),
                                ('feedback', 1, NULL, NULL, NULL, 1, 1, NULL),
                                ('look', NULL, NULL, NULL, NULL, NULL, 2, NULL)]::reference.event[], 3, 1);

-- 3 arms, optimism 1, and ten draws before any feedback: gamma = 1/48. The losses
-- and probabilities are such that it comes to the second solution above.
--   Arm 3 goes: eta stays 1/10, v = 10 ln 2, K ln K = 2 ln 2, z = (0, 10 ln 2),
--     Phi = -10 ln(3/4), C = Phi + 4 ln 2 = 5.649409, p = (2/3, 1/3)
--   Arm 4 comes, with z = 0: eta stays, v = 10 ln 3, Phi = -10 ln(5/6),
--     C = Phi + 3.5 ln 3 = 5.668359, p = (2/5, 1/5, 0, 2/5)
SELECT n, k, round(cost::numeric, 6) AS cost, round(v::numeric, 6) AS v, round(step_size::numeric, 6) AS eta,
       round(probabilities[1]::numeric, 6) AS p_1, round(probabilities[2]::numeric, 6) AS p_2,
       round(probabilities[3]::numeric, 6) AS p_3, round(probabilities[4]::numeric, 6) AS p_4
FROM reference.self_tuned(
    (SELECT array_agg(('draw', i, CASE WHEN i <= 4 THEN 2 ELSE 3 END,
                       loss / (CASE WHEN i <= 4 THEN 10 * ln(2.0) / 4 ELSE 10 * ln(4.0) / 6 END) - 1 / 48.0,
                       NULL, NULL, i, NULL)::reference.event ORDER BY i)
            || array_agg(('feedback', i, NULL, NULL, NULL, loss, 10, NULL)::reference.event ORDER BY i)
            || ARRAY[('look', NULL, NULL, NULL, NULL, NULL, 11, NULL),
                     ('retire', NULL, 3, NULL, NULL, NULL, 11, NULL),
                     ('look', NULL, NULL, NULL, NULL, NULL, 11, NULL),
                     ('add', NULL, 4, NULL, NULL, NULL, 11, NULL),
                     ('look', NULL, NULL, NULL, NULL, NULL, 11, NULL)]::reference.event[]
     FROM generate_series(1, 10) i, (SELECT ln(12 / 7.0) + 0.35 * ln(3.0) AS loss) l), 3, 1)
WHERE n IN (21, 23, 25);

-- Another arm for 2 arms that have learned nothing: v was 2 ln 2 and becomes 3 ln 3.
SELECT n, k, round(v::numeric, 6) AS v, round(step_size::numeric, 6) AS eta
FROM reference.self_tuned(ARRAY[('add', NULL, 3, NULL, NULL, NULL, 1, NULL),
                                ('look', NULL, NULL, NULL, NULL, NULL, 1, NULL)]::reference.event[], 2);

-- The comparison sees what differs: a probability off by 0.01, a step size by
-- a tenth; and it does not count what it was not given.
SELECT rounds, round(probability_difference::numeric, 6) AS probability_difference,
       step_sizes, round(step_size_difference::numeric, 6) AS step_size_difference
FROM reference.self_tuned_check(reference.events(ARRAY[(1, 1, 0.5, 0, 0, NULL, NULL),
                                                       (2, 2, 0.51, 0, 0, NULL, 0.55),
                                                       (3, 2, NULL, 0, 0, NULL, 0.5)]::reference.decision[]), 2);
