-- bandit_new, bandit_draw, bandit_learn: a bandit kept by its user, with
-- feedback late, out of order, together and never, against the reference
-- (reference.sql).

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

-- Play one bandit. Feedback of round s is given after the decision of round
-- s + delays[s]; what arrives together is given in the order of the rounds, or
-- backwards. Before each decision the state is asked what it is going to do;
-- a deda does not know that before it is told a delay longer than all before,
-- so in those rounds "step_size" and "before" are null. The last row, without a
-- decision, is the state after the last feedback.
CREATE FUNCTION pg_temp.play(
    rounds integer, delays integer[], announced integer[], backwards boolean,
    arms integer, algorithm text, skipping boolean, patience integer, max_delay integer, step_scale float8)
RETURNS TABLE (decision reference.decision, before float8[])
LANGUAGE plpgsql AS $$
DECLARE
    state bandit_state := bandit_new(arms, algorithm, skipping, patience, max_delay, step_scale);
    tickets bandit_ticket[];
    losses float8[];
    d_star integer := coalesce(max_delay, 0);
    step_size float8;
    drawn record;
    s bigint;
BEGIN
    FOR t IN 1 .. rounds LOOP
        step_size := bandit_step_size(state);
        before := bandit_probabilities(state);
        IF announced[t] > d_star THEN
            step_size := NULL;
            before := NULL;
        END IF;

        SELECT * INTO STRICT drawn FROM bandit_draw(state, announced[t]);
        state := drawn.state;
        tickets[t] := drawn.ticket;
        losses[t] := ((31 * t * t + 17 * tickets[t].arm + 13 * t * tickets[t].arm) % 101) / 100.0;
        d_star := greatest(d_star, announced[t]);

        FOR s IN SELECT n FROM generate_series(1, t) n
                 WHERE n + delays[n] = t
                 ORDER BY CASE WHEN backwards THEN -n ELSE n END LOOP
            state := bandit_learn(state, tickets[s], losses[s]);
            d_star := greatest(d_star, delays[s]);
        END LOOP;

        decision := (tickets[t].round, tickets[t].arm, tickets[t].probability, losses[t],
                     delays[t], announced[t], step_size);
        RETURN NEXT;
    END LOOP;

    decision := (rounds + 1, NULL, NULL, NULL, NULL, NULL, bandit_step_size(state));
    before := bandit_probabilities(state);
    RETURN NEXT;
END
$$;

CREATE TEMP TABLE environment AS
SELECT name, rounds, backwards, array_agg(delay ORDER BY t) AS delays
FROM (VALUES ('at once', 30, false),
             ('out of order', 60, false),
             ('out of order', 60, true),
             ('together', 60, false),
             ('together', 60, true),
             ('often never', 60, true)) environment (name, rounds, backwards),
     generate_series(1, rounds) t,
     LATERAL (SELECT CASE name WHEN 'at once' THEN 0
                               WHEN 'out of order' THEN (7 * t * t + 3 * t) % 11
                               WHEN 'together' THEN 11 - (t - 1) % 12
                               WHEN 'often never' THEN CASE WHEN t % 3 > 0 THEN t % 5 END
                     END AS delay) d
GROUP BY name, rounds, backwards;

-- What deda is told in advance: the truth (nothing, 0, for what never comes),
-- always 2, or, where it has a bound, nothing.
CREATE TEMP TABLE learner (id, arms, algorithm, skipping, patience, max_delay, step_scale, told) AS
VALUES (1, 2, 'dada', false, 100, NULL::integer, 1::float8, NULL),
       (2, 3, 'dada', true, 0, NULL, 1, NULL),
       (3, 2, 'dada', true, 3, NULL, 4, NULL),
       (4, 4, 'dada-ix', false, 100, NULL, 0.5, NULL),
       (5, 3, 'dada-ix', NULL, 0, NULL, 1, NULL),
       (6, 12, 'dada-ix', true, 3, NULL, 1, NULL),
       (7, 2, 'deda', NULL, 100, NULL, 1, 'truth'),
       (8, 3, 'deda', NULL, 100, NULL, 1, 'always 2'),
       (9, 2, 'deda', false, 100, 12, 1, NULL),
       (10, 5, 'deda', NULL, 100, 1, 1, NULL);

SELECT setseed(0.5);

CREATE TEMP TABLE run AS
SELECT e.name, e.backwards, l.*, p.decision, p.before
FROM (SELECT * FROM environment ORDER BY name, backwards) e
CROSS JOIN learner l
CROSS JOIN LATERAL
     pg_temp.play(e.rounds, e.delays,
                  CASE told WHEN 'truth' THEN (SELECT array_agg(coalesce(d, 0) ORDER BY t)
                                               FROM unnest(e.delays) WITH ORDINALITY u (d, t))
                            WHEN 'always 2' THEN array_fill(2, ARRAY[e.rounds]) END,
                  e.backwards, l.arms, l.algorithm, l.skipping, l.patience, l.max_delay, l.step_scale) p;

CREATE TEMP TABLE expected AS
SELECT r.name, r.backwards, r.id, x.*
FROM (SELECT name, backwards, id,
             array_agg(decision) FILTER (WHERE (decision).arm IS NOT NULL) AS log
      FROM run GROUP BY name, backwards, id) r
JOIN learner l USING (id),
     reference.rounds(r.log, l.arms, l.algorithm, l.skipping, l.patience, l.max_delay, l.step_scale) x;

-- "agrees": the probability of each ticket, and each step size and all the
-- probabilities that the state showed before the decision (and after the last
-- feedback), are those of the reference. "foreseen": the probability of the
-- ticket is the very one that the state showed.
SELECT r.name, r.backwards, r.arms, r.algorithm, r.skipping, r.patience, r.max_delay, r.told,
       count((r.decision).probability) AS decisions,
       count((r.decision).step_size) AS step_sizes,
       count(*) FILTER (WHERE cardinality(r.before) = r.arms) AS distributions,
       sum(cardinality(x.skips)) AS skipped,
       max(abs((r.decision).probability - x.probabilities[(r.decision).arm])) < 1e-9
         AND max(abs((r.decision).step_size / x.step_size - 1)) < 1e-9
         AND max(d.difference) < 1e-9 AS agrees,
       bool_and((r.decision).probability = r.before[(r.decision).arm]) AS foreseen
FROM run r
JOIN expected x ON (x.name, x.backwards, x.id, x.round) = (r.name, r.backwards, r.id, (r.decision).round)
CROSS JOIN LATERAL (SELECT max(abs(b - x.probabilities[i])) AS difference
                    FROM unnest(r.before) WITH ORDINALITY b (b, i)) d
GROUP BY r.name, r.backwards, r.id, r.arms, r.algorithm, r.skipping, r.patience, r.max_delay, r.told
ORDER BY r.name, r.backwards, r.id;

--
-- Tickets of rounds that are not open any more
--

-- With three arms and no patience the second decision skips the first. The
-- text form is exact, so equal texts are equal states.
CREATE FUNCTION pg_temp.closed_rounds(algorithm text)
RETURNS TABLE (what text, changed boolean)
LANGUAGE plpgsql AS $$
DECLARE
    state bandit_state := bandit_new(3, algorithm, skipping => true, patience => 0);
    first record;
    second record;
    third record;
    learned bandit_state;
BEGIN
    SELECT * INTO STRICT first FROM bandit_draw(state);
    SELECT * INTO STRICT second FROM bandit_draw(first.state);

    what := 'skipped, loss 1';
    changed := bandit_learn(second.state, first.ticket, 1)::text <> second.state::text;
    RETURN NEXT;
    what := 'skipped, loss 0';
    changed := bandit_learn(second.state, first.ticket, 0)::text <> second.state::text;
    RETURN NEXT;

    what := 'open';
    learned := bandit_learn(second.state, second.ticket, 1);
    changed := learned::text <> second.state::text;
    RETURN NEXT;
    what := 'open, loss 0';
    changed := bandit_learn(second.state, second.ticket, 0)::text <> second.state::text;
    RETURN NEXT;
    what := 'settled';
    changed := bandit_learn(learned, second.ticket, 1)::text <> learned::text;
    RETURN NEXT;
    what := 'settled, another loss';
    changed := bandit_learn(learned, second.ticket, 0.5)::text <> learned::text;
    RETURN NEXT;
    what := 'skipped, later';
    changed := bandit_learn(learned, first.ticket, 1)::text <> learned::text;
    RETURN NEXT;

    SELECT * INTO STRICT third FROM bandit_draw(learned);
    what := 'settled, a round later';
    changed := bandit_learn(third.state, second.ticket, 1)::text <> third.state::text;
    RETURN NEXT;
    what := 'skipped, a round later';
    changed := bandit_learn(third.state, first.ticket, 1)::text <> third.state::text;
    RETURN NEXT;
    what := 'open, from its text';
    changed := bandit_learn(third.state::text::bandit_state, third.ticket, 1)::text <> third.state::text;
    RETURN NEXT;
    what := 'skipped, from its text';
    changed := bandit_learn(third.state::text::bandit_state, first.ticket, 1)::text <> third.state::text;
    RETURN NEXT;
END
$$;
SELECT algorithm, what, changed
FROM unnest(ARRAY['dada', 'dada-ix']) WITH ORDINALITY a (algorithm, n),
     pg_temp.closed_rounds(algorithm) WITH ORDINALITY c (what, changed, m)
ORDER BY n, m;

--
-- States that know nothing yet
--

-- With K arms and no feedback every p is 1/K, and the first step size is
-- sqrt(ln K / K), sqrt(3 ln K / 2 K) / 2, ln K / (4 d^2 + 6 d + 2).
SELECT arms, algorithm,
       bandit_probabilities(state) = array_fill(1.0::float8 / arms, ARRAY[arms]) AS uniform,
       abs(bandit_step_size(state) / expected - 1) < 1e-12 AS step_size
FROM unnest(ARRAY[2, 3, 12]) arms,
     LATERAL (SELECT ln(arms::float8) AS ln_k) k,
     LATERAL (VALUES ('dada', NULL, sqrt(ln_k / arms)),
                     ('dada-ix', NULL, sqrt(3 * ln_k / (2 * arms)) / 2),
                     ('deda', NULL, ln_k / 2),
                     ('deda', 10, ln_k / 462)) a (algorithm, max_delay, expected),
     LATERAL (SELECT bandit_new(arms, algorithm, max_delay => max_delay) AS state) s
ORDER BY arms, algorithm, expected;

-- Drawing changes the state, and only the state that it returns.
SELECT (drawn).state::text <> state::text AS other,
       ((drawn).ticket).round,
       ((drawn).ticket).probability,
       ((drawn).ticket).gamma
FROM (SELECT state, bandit_draw(state) AS drawn FROM bandit_new(4, 'dada') state) d;

--
-- Exponentials
--

-- The learner has a function of its own for them.  Probabilities from 1 down to
-- 1e-304, relative to the largest, are those of exp() to 1e-13; the largest
-- weight is exactly 1, and beyond that they soon are 0.
WITH state AS (
    SELECT jsonb_set(bandit_new(8000, 'dada')::jsonb, '{z}',
                     (SELECT jsonb_agg(i * 0.1 / step_size) FROM generate_series(0, 7999) i))::text::bandit_state AS state,
           step_size
    FROM bandit_step_size(bandit_new(8000, 'dada')) step_size
), arm AS (
    SELECT p / first_value(p) OVER (ORDER BY i) AS weight, -step_size * z AS exponent
    FROM state,
         ROWS FROM (unnest(bandit_probabilities(state)),
                    jsonb_array_elements_text(state::jsonb -> 'z')) WITH ORDINALITY a (p, z_text, i),
         LATERAL (SELECT z_text::float8 AS z) z
)
SELECT count(*) FILTER (WHERE exponent > -700) AS normal,
       max(abs(weight / exp(greatest(exponent, -700)) - 1)) FILTER (WHERE exponent > -700) < 1e-13 AS as_exp,
       max(weight) FILTER (WHERE exponent = 0) AS largest,
       max(weight) FILTER (WHERE exponent < -709) AS least
FROM arm;
