-- The reference: the paper's learners, written from its definitions, to judge
-- the extension by. It uses nothing of the extension.
--
-- Input is what really happened, a log with one entry per round: the arm, the
-- probability with which that arm was really drawn, its loss, its delay. The
-- estimates divide by those probabilities, so that rounding in one round does
-- not grow into a difference in a later one; everything else, gamma included,
-- is the reference's own. Output, per round: the step size and the
-- probabilities that the paper prescribes.
--
-- Symbols are those of the paper: [K] the arms, A_s the arm of round s, d_s its
-- delay, l_s its loss, a_s^t the indicator that round s still counts in round t.
-- Feedback of round s arrives after the decision of round s + d_s, so round t
-- has the feedback of { s : s + d_s < t }, and feedback that never arrives has
-- d_s = infinity. The cost is O(T^2): a few hundred rounds are fine.

CREATE SCHEMA reference;

-- One entry of a log. "announced" is the delay that deda was told in advance,
-- null if none was. Which rounds are skipped is for the reference to find out:
-- enter them like the others, with the delay after which feedback came, if it
-- did. "step_size" may be null: it is only ever compared.
CREATE TYPE reference.decision AS (
    round bigint,
    arm integer,
    probability float8,
    loss float8,
    delay bigint,               -- null: never
    announced bigint,
    step_size float8
);

-- exp(-eta x) for eta > 0 and x >= 0. SQL makes an error of every underflow;
-- what is cut off here is below 1e-300 beside 1.
CREATE FUNCTION reference.weight(eta float8, x float8) RETURNS float8
LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT CASE WHEN x < 1e-200 THEN 1
                WHEN x > 700 / eta THEN 0
                ELSE exp(-eta * x) END
$$;

-- What the paper prescribes for each round of a log, and, in one row more, for
-- the round that comes next.
CREATE FUNCTION reference.rounds(
    log reference.decision[],
    arms integer,
    algorithm text DEFAULT 'dada',
    skipping boolean DEFAULT NULL,      -- null: yes, unless deda
    patience integer DEFAULT 100,
    max_delay integer DEFAULT NULL,
    step_scale float8 DEFAULT 1)
RETURNS TABLE (
    round bigint,
    tau bigint,                         -- tau_t, the outstanding rounds that count
    total_delay float8,                 -- D_t
    step_size float8,                   -- eta_t
    probabilities float8[],             -- p_t
    skips bigint[])                     -- the rounds skipped in this round
LANGUAGE plpgsql STABLE AS $$
DECLARE
    last bigint := coalesce(cardinality(log), 0);
    ln_k float8 := ln(arms::float8);
    skip boolean := coalesce(skipping, algorithm <> 'deda');
    arm integer[];                      -- A_s
    p float8[];                         -- p_s,i for i = A_s, as really used
    loss float8[];                      -- l_s,i for i = A_s
    d float8[];                         -- d_s
    announced float8[];
    counts boolean[];                   -- a_s^t, for the t at hand
    gamma float8[];                     -- gamma_s
    estimate float8[];                  -- l-hat_s,i for i = A_s; 0 for other i
    l_bck float8 := 0;                  -- Lbck_t
    d_star float8;                      -- d*_t
    skipped bigint;
BEGIN
    SELECT array_agg(e.arm ORDER BY e.round),
           array_agg(e.probability ORDER BY e.round),
           array_agg(e.loss ORDER BY e.round),
           array_agg(coalesce(e.delay, 'infinity'::float8) ORDER BY e.round),
           array_agg(e.announced ORDER BY e.round),
           array_agg(true)
      INTO arm, p, loss, d, announced, counts
      FROM unnest(log) e;
    ASSERT last = 0 OR (SELECT array_agg(e.round ORDER BY e.round) FROM unnest(log) e)
                     = (SELECT array_agg(n) FROM generate_series(1, last) n),
        'the rounds of a log are 1, 2, ...';
    ASSERT NOT (skip AND algorithm = 'deda'), 'deda does not skip';

    total_delay := 0;
    FOR t IN 1 .. last + 1 LOOP
        round := t;

        -- O_t = { s < t : s + d_s >= t }; tau_t = |O_t|, and with skipping
        -- tau-tilde_t = sum_{s < t} a_s^t I[s + d_s >= t]
        tau := (SELECT count(*) FROM generate_series(1, t - 1) s
                WHERE s + d[s] >= t AND counts[s]);

        -- D_t = sum_{s <= t} tau_s
        total_delay := total_delay + tau;

        CASE algorithm
        WHEN 'dada' THEN
            -- Corollary 3.2: eta_t = sqrt(log K / (t K + D_t))
            step_size := step_scale * sqrt(ln_k / (t * arms + total_delay));

        WHEN 'dada-ix' THEN
            -- Corollary 4.2: eta_t = 1/2 sqrt(3 log K / (2 t K + D_t))
            step_size := step_scale / 2 * sqrt(3 * ln_k / (2 * t * arms + total_delay));

        WHEN 'deda' THEN
            -- d*_t: the largest of d^B, the delays announced so far and
            -- those seen so far
            d_star := greatest(max_delay,
                (SELECT max(announced[j]) FROM generate_series(1, t) j),
                (SELECT max(d[j]) FROM generate_series(1, t - 1) j WHERE j + d[j] < t),
                0);

            -- lbck_s,i = sum_{j : s <= j + d_j <= s + d_s}
            --                l-hat_s,i l-hat_j,i (p_j,i + p_s,i)
            -- Lbck_t = sum_i sum_{s : s + d_s < t} lbck_s,i: new in round t
            -- are the s with s + d_s = t - 1. Factors below 1e-100 are left
            -- out: beside 2 / log K they are nothing, but SQL makes an error
            -- of the underflow of their product.
            l_bck := l_bck + (
                SELECT coalesce(sum(estimate[s] * estimate[j] * (p[j] + p[s])), 0)
                FROM generate_series(1, t - 1) s, generate_series(1, t - 1) j
                WHERE s + d[s] = t - 1
                  AND s <= j + d[j] AND j + d[j] <= s + d[s]
                  AND arm[s] = arm[j]
                  AND estimate[s] > 1e-100 AND estimate[j] > 1e-100);

            -- Algorithm 1: 1/eta_t = (4 d*_t^2 + 6 d*_t + 2) / log K
            --                        + sqrt(Lbck_t / log K)
            step_size := 1 / ((4 * d_star * d_star + 6 * d_star + 2) / ln_k
                              + sqrt(l_bck / ln_k));
        END CASE;

        -- z_t,i = sum_{j : j + d_j < t} l-hat_j,i, the loss of a skipped round
        -- being 0; p_t,i = exp(-eta_t z_t,i) / sum_j exp(-eta_t z_t,j)
        probabilities := (
            WITH sums AS (
                SELECT i, coalesce(sum(estimate[j]), 0) AS z
                FROM generate_series(1, arms) i
                LEFT JOIN generate_series(1, t - 1) j
                       ON arm[j] = i AND j + d[j] < t AND counts[j]
                GROUP BY i),
            weights AS (
                SELECT i, reference.weight(step_size, z - (SELECT min(z) FROM sums)) AS w
                FROM sums)
            SELECT array_agg(w / (SELECT sum(w) FROM weights) ORDER BY i) FROM weights);

        -- The estimate: (1) with gamma_t = 0, or with implicit exploration and
        -- gamma_t = eta_t: l-hat_t,i = l_t,i I[A_t = i] / (p_t,i + gamma_t)
        gamma[t] := CASE WHEN algorithm = 'dada' THEN 0 ELSE step_size END;
        IF t <= last THEN
            estimate[t] := loss[t] / (p[t] + gamma[t]);
        END IF;

        -- Skipping: if s in O_t and min { d_s, t - s } > sqrt(D_t / log K), then
        -- a_s^t' = 0 for all t' > t; patience 0 is the paper's rule. (In O_t the
        -- minimum is t - s.)
        skips := ARRAY(
            SELECT s FROM generate_series(1, t - 1) s
            WHERE skip AND s + d[s] >= t AND counts[s]
              AND t - s > greatest(patience, sqrt(total_delay / ln_k))
            ORDER BY s);
        FOREACH skipped IN ARRAY skips LOOP
            counts[skipped] := false;
        END LOOP;

        RETURN NEXT;
    END LOOP;
END
$$;

-- How far a log is from the reference: the number of rounds compared and the
-- largest absolute difference in the probability of the arm played; the number
-- of step sizes compared and the largest relative difference. Beside them, how
-- many rounds the reference skipped.
CREATE FUNCTION reference.check(
    log reference.decision[],
    arms integer,
    algorithm text DEFAULT 'dada',
    skipping boolean DEFAULT NULL,
    patience integer DEFAULT 100,
    max_delay integer DEFAULT NULL,
    step_scale float8 DEFAULT 1,
    OUT rounds bigint,
    OUT probability_difference float8,
    OUT step_sizes bigint,
    OUT step_size_difference float8,
    OUT skipped bigint)
LANGUAGE sql STABLE AS $$
    SELECT count(abs(e.probability - r.probabilities[e.arm])),
           max(abs(e.probability - r.probabilities[e.arm])),
           count(e.step_size / r.step_size),
           max(abs(e.step_size / r.step_size - 1)),
           sum(cardinality(r.skips))
    FROM unnest(log) e
    JOIN reference.rounds(log, arms, algorithm, skipping, patience, max_delay, step_scale) r
         USING (round)
$$;

--
-- The reference itself, pinned by numbers worked out by hand. ln 2 = 0.693147.
--

-- dada, 2 arms. Feedback of rounds 1 and 2 arrives after round 2, of round 3 at once.
--   O_1 = {}, O_2 = {1}, O_3 = O_4 = {}; D = 0, 1, 1, 1
--   eta = sqrt(ln 2 / 2), sqrt(ln 2 / 5), sqrt(ln 2 / 7), sqrt(ln 2 / 9)
--   z_3 = (1 / 0.5, 0.5 / 0.5) = (2, 1);  p_3,1 = 1 / (1 + e^0.314676) = 0.421974
--   z_4 = (2 + 0.5 / 0.4, 1) = (3.25, 1); p_4,1 = 1 / (1 + e^(2.25 * 0.277518)) = 0.348778
SELECT round, tau, total_delay, round(step_size::numeric, 6) AS step_size,
       round(probabilities[1]::numeric, 6) AS p_1, round(probabilities[2]::numeric, 6) AS p_2
FROM reference.rounds(ARRAY[(1, 1, 0.5, 1.0, 1, NULL, NULL),
                            (2, 2, 0.5, 0.5, 0, NULL, NULL),
                            (3, 1, 0.4, 0.5, 0, NULL, NULL)]::reference.decision[],
                      2, 'dada', skipping => false);

-- dada-ix, the first two rounds of the same log.
--   eta = sqrt(3 ln 2 / 4) / 2 = 0.360507, sqrt(3 ln 2 / 9) / 2 = 0.240338,
--         sqrt(3 ln 2 / 13) / 2 = 0.199973
--   z_3 = (1 / (0.5 + 0.360507), 0.5 / (0.5 + 0.240338)) = (1.162106, 0.675367)
--   p_3,1 = 1 / (1 + e^(0.199973 * 0.486739)) = 0.475686
SELECT round, round(step_size::numeric, 6) AS step_size, round(probabilities[1]::numeric, 6) AS p_1
FROM reference.rounds(ARRAY[(1, 1, 0.5, 1.0, 1, NULL, NULL),
                            (2, 2, 0.5, 0.5, 0, NULL, NULL)]::reference.decision[],
                      2, 'dada-ix', skipping => false);

-- The step scale doubles the step size, and gamma with it.
--   2 eta_1 = 0.721013; z_2 = (1 / (0.5 + 0.721013), 0) = (0.818992, 0)
--   2 eta_2 = sqrt(3 ln 2 / 8) = 0.509833; p_2,1 = 1 / (1 + e^(0.509833 * 0.818992)) = 0.397103
SELECT round, round(step_size::numeric, 6) AS step_size, round(probabilities[1]::numeric, 6) AS p_1
FROM reference.rounds(ARRAY[(1, 1, 0.5, 1.0, 0, NULL, NULL)]::reference.decision[],
                      2, 'dada-ix', skipping => false, step_scale => 2);

-- Skipping, 3 arms, ln 3 = 1.098612. Feedback of round 1 never arrives, that of
-- round 3 after round 5, the other at once. With patience 0:
--   round 2: D = 1, 2 - 1 = 1 > sqrt(1 / ln 3) = 0.954: round 1 is skipped
--   round 4: D = 2, 4 - 3 = 1 < sqrt(2 / ln 3) = 1.349
--   round 5: D = 3, 5 - 3 = 2 > sqrt(3 / ln 3) = 1.652: round 3 is skipped, and
--            the feedback that arrives after this very round does not count
-- With patience 2:
--   round 4: tau = 1, 1, 2 (rounds 1 and 3), D = 4, 4 - 1 = 3 > 2: round 1 is skipped
--   round 5: tau = 1, D = 5, 5 - 3 = 2: not skipped, its feedback counts from round 6
-- Only round 3 has a loss, so p is uniform as long as that does not count. In
-- round 6 with patience 2: D = 5, eta = sqrt(ln 3 / (18 + 5)) = 0.218554,
--   z = (1 / 0.5, 0, 0), p_1 = 1 / (1 + 2 e^(2 * 0.218554)) = 0.244114
SELECT patience, round, tau, total_delay, skips, round(probabilities[1]::numeric, 6) AS p_1
FROM unnest(ARRAY[0, 2]) patience,
     reference.rounds(ARRAY[(1, 1, 0.5, NULL, NULL, NULL, NULL),
                            (2, 1, 0.5, 0, 0, NULL, NULL),
                            (3, 1, 0.5, 1, 2, NULL, NULL),
                            (4, 1, 0.5, 0, 0, NULL, NULL),
                            (5, 1, 0.5, 0, 0, NULL, NULL)]::reference.decision[],
                      3, 'dada', patience => patience);

-- deda, 2 arms, delays announced. Feedback of rounds 1 and 2, for the same arm,
-- arrives after round 2, so that the pair counts in both directions.
--   eta_1 = eta_2 = ln 2 / (4 + 6 + 2) = 0.057762
--   l-hat_1 = l-hat_2 = 1 / (0.5 + 0.057762) = 1.792879
--   lbck_1 = lbck_2 = 2 * 1.792879^2 * (0.5 + 0.5) = 6.428827
--   1 / eta_3 = 12 / ln 2 + sqrt(12.857654 / ln 2) = 17.312340 + 4.306933; eta_3 = 0.046255
--   p_3,1 = 1 / (1 + e^(0.046255 * 3.585757)) = 0.458630
SELECT round, round(step_size::numeric, 6) AS step_size, round(probabilities[1]::numeric, 6) AS p_1
FROM reference.rounds(ARRAY[(1, 1, 0.5, 1, 1, 1, NULL),
                            (2, 1, 0.5, 1, 0, 0, NULL)]::reference.decision[],
                      2, 'deda');

-- deda, 2 arms, a bound of 0 on the delays that the first delay exceeds.
--   eta_1 = eta_2 = ln 2 / 2 = 0.346574; d*_3 = 1, after the feedback of round 1
--   l-hat_1 = 1 / 0.846574 = 1.181232 for arm 1, l-hat_2 = 0.5 / 0.846574 = 0.590616 for arm 2
--   lbck_1 = 1.181232^2, lbck_2 = 0.590616^2, together 1.744137
--   1 / eta_3 = 12 / ln 2 + sqrt(1.744137 / ln 2) = 17.312340 + 1.586272; eta_3 = 0.052914
--   p_3,1 = 1 / (1 + e^(0.052914 * 0.590616)) = 0.492188
SELECT round, round(step_size::numeric, 6) AS step_size, round(probabilities[1]::numeric, 6) AS p_1
FROM reference.rounds(ARRAY[(1, 1, 0.5, 1.0, 1, NULL, NULL),
                            (2, 2, 0.5, 0.5, 0, NULL, NULL)]::reference.decision[],
                      2, 'deda', max_delay => 0);

-- The comparison sees what differs: a probability off by 0.01, a step size by
-- a tenth; and it does not count what it was not given.
SELECT rounds, round(probability_difference::numeric, 6) AS probability_difference,
       step_sizes, round(step_size_difference::numeric, 6) AS step_size_difference
FROM reference.check(ARRAY[(1, 1, 0.5, 0, 0, NULL, NULL),
                           (2, 2, 0.51, 0, 0, NULL, 1.1 * sqrt(ln(2.0) / 4)),
                           (3, 2, NULL, 0, 0, NULL, sqrt(ln(2.0) / 6))]::reference.decision[],
                     2);
