-- Managed bandits against the reference (reference.sql), from one session at a
-- time: every probability, step size and skip. Feedback is late, out of order,
-- together, or never comes; it comes by function and by triggers, in
-- transactions long and short, and with much in between that is rolled back.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

SET synchronous_commit = off;
-- the reference runs the same few statements again and again
SET jit = off;
SET plan_cache_mode = force_generic_plan;

CREATE SCHEMA managed;

--
-- The games: learners times environments
--

-- What deda is told in advance: the truth (nothing, 0, for what never comes),
-- always 2, or, where it has a bound, nothing.
CREATE TABLE managed.learner (id, arms, algorithm, skipping, patience, max_delay, step_scale, told) AS
VALUES (1, 2, 'dada', false, 100, NULL::integer, 1::float8, NULL),
       (2, 9, 'dada', false, 100, NULL, 0.5, NULL),
       (3, 3, 'dada', true, 0, NULL, 1, NULL),
       (4, 2, 'dada', true, 3, NULL, 4, NULL),
       (5, 5, 'dada', NULL, 100, NULL, 1, NULL),
       (6, 4, 'dada-ix', false, 100, NULL, 0.5, NULL),
       (7, 2, 'dada-ix', false, 100, NULL, 4, NULL),
       (8, 3, 'dada-ix', NULL, 0, NULL, 1, NULL),
       (9, 12, 'dada-ix', true, 3, NULL, 1, NULL),
       (10, 2, 'deda', NULL, 100, NULL, 1, 'truth'),
       (11, 3, 'deda', NULL, 100, NULL, 1, 'always 2'),
       (12, 2, 'deda', false, 100, 12, 1, NULL),
       (13, 6, 'deda', NULL, 100, 1, 1, NULL),
       (14, 2, 'deda', NULL, 100, 0, 1, 'truth');

CREATE TABLE managed.environment AS
SELECT id, name, rounds, backwards, array_agg(delay ORDER BY t) AS delays
FROM (VALUES (1, 'out of order', 40, false),
             (2, 'together', 40, true),
             (3, 'often never', 40, true),
             (4, 'long', 400, false)) environment (id, name, rounds, backwards),
     generate_series(1, rounds) t,
     LATERAL (SELECT CASE name WHEN 'out of order' THEN (7 * t * t + 3 * t) % 11
                               WHEN 'together' THEN 11 - (t - 1) % 12
                               WHEN 'often never' THEN CASE WHEN t % 3 > 0 THEN t % 5 END
                               WHEN 'long' THEN CASE WHEN t % 60 > 0 THEN (7 * t * t + 3 * t) % 8 END
                     END AS delay) d
GROUP BY id, name, rounds, backwards;

-- A game: how feedback is given ("way"), after how many operations there is a
-- COMMIT (0: none), and what the game has come to.
CREATE TABLE managed.game (
    name text PRIMARY KEY,
    learner integer,
    environment integer,
    way text,
    every integer,
    trouble boolean,
    -- the same game, played with a bandit_state
    twin bandit_state,
    tickets bandit_ticket[] DEFAULT '{}',
    decisions bigint[] DEFAULT '{}',
    losses float8[] DEFAULT '{}',
    announced integer[] DEFAULT '{}',
    difference float8 DEFAULT 0,        -- of the probabilities from the twin's
    surprises text[] DEFAULT '{}'       -- what else was not as it should
);

CREATE TABLE managed.row_insert (decision bigint, loss float8);
CREATE TABLE managed.row_update (decision bigint, loss float8);
CREATE TABLE managed.statement_insert (decision bigint, loss float8);
CREATE TABLE managed.statement_update (decision bigint, loss float8);
CREATE TRIGGER feedback AFTER INSERT ON managed.row_insert
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
CREATE TRIGGER feedback AFTER UPDATE ON managed.row_update
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
CREATE TRIGGER feedback AFTER INSERT ON managed.statement_insert
    REFERENCING NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
CREATE TRIGGER feedback AFTER UPDATE ON managed.statement_update
    REFERENCING OLD TABLE AS old NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');

--
-- Playing
--

-- The outcome that feedback for a decision should have, given the twin before
-- it: a bandit_state that does not learn from a ticket has given it up.
CREATE FUNCTION managed.outcome(twin bandit_state, ticket bandit_ticket, loss float8) RETURNS text
LANGUAGE sql AS $$
    SELECT CASE WHEN bandit_learn(twin, ticket, loss) = twin THEN 'skipped' ELSE 'applied' END
$$;

-- Choose, and give feedback for a decision that is open (null if none is), in
-- a savepoint that is rolled back.
CREATE FUNCTION managed.abort_savepoint(bandit text, announced integer, open bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM bandit_choose(bandit, announced);
    BEGIN
        PERFORM bandit_feedback(open, 0.75) WHERE open IS NOT NULL;
        PERFORM bandit_choose(bandit, announced);
        RAISE EXCEPTION 'inner';
    EXCEPTION WHEN raise_exception THEN
        PERFORM bandit_choose(bandit, announced);
    END;
    PERFORM bandit_feedback(open, 1) WHERE open IS NOT NULL;
    -- a wrong loss in the middle of a statement
    PERFORM bandit_feedback(decision_id, 2 - n)
    FROM generate_series(1, 3) n, bandit_choose_each(bandit, n, announced);
EXCEPTION WHEN numeric_value_out_of_range THEN
    NULL;
END
$$;

CREATE PROCEDURE managed.play(game text, first integer, last integer)
LANGUAGE plpgsql AS $$
DECLARE
    g managed.game := (SELECT g FROM managed.game g WHERE g.name = game);
    l managed.learner := (SELECT l FROM managed.learner l WHERE id = g.learner);
    e managed.environment := (SELECT e FROM managed.environment e WHERE id = g.environment);
    delays integer[] := e.delays;
    tickets bandit_ticket[] := g.tickets;
    decisions bigint[] := g.decisions;
    losses float8[] := g.losses;
    announced integer[] := g.announced;
    operations integer := 0;
    told integer;
    seed float8;
    c record;
    drawn record;
    arrived integer[];
    gone integer[];
    open bigint;
    s integer;
    outcome text;
BEGIN
    FOR t IN first .. last LOOP
        told := CASE l.told WHEN 'truth' THEN coalesce(delays[t], 0) WHEN 'always 2' THEN 2 END;

        -- what must leave no trace
        open := (SELECT decisions[n] FROM generate_series(1, t - 1) n
                 WHERE n + coalesce(delays[n], t) >= t ORDER BY n DESC LIMIT 1);
        IF g.trouble AND t % 3 = 0 THEN
            PERFORM managed.abort_savepoint(game, told, open);
        END IF;
        IF g.trouble AND g.every > 0 AND t % 5 = 0 THEN
            COMMIT;
            PERFORM bandit_choose(game, told);
            PERFORM bandit_feedback(open, 0.125) WHERE open IS NOT NULL;
            PERFORM managed.abort_savepoint(game, told, NULL);
            PERFORM bandit_choose(game, told);
            ROLLBACK;
        END IF;

        -- the decision, with the same random number for the twin
        seed := (7919 * t + 17 * g.learner) % 2000 / 1000.0 - 1;
        PERFORM setseed(seed);
        IF t % 4 = 0 THEN
            BEGIN
                SELECT * INTO STRICT c FROM bandit_choose(game, told);
            EXCEPTION WHEN division_by_zero THEN
                NULL;           -- a savepoint that is released
            END;
        ELSE
            SELECT * INTO STRICT c FROM bandit_choose(game, told);
        END IF;
        PERFORM setseed(seed);
        SELECT * INTO STRICT drawn FROM bandit_draw(g.twin, told);
        g.twin := drawn.state;
        tickets[t] := drawn.ticket;
        decisions[t] := c.decision_id;
        announced[t] := told;
        losses[t] := ((31 * t * t + 17 * (drawn.ticket).arm + 13 * t * (drawn.ticket).arm) % 101) / 100.0;
        g.difference := greatest(g.difference, abs(c.probability - (drawn.ticket).probability));
        IF c.arm <> 'arm ' || (drawn.ticket).arm THEN
            g.surprises := g.surprises || format('round %s: %s', t, c.arm);
        END IF;
        IF g.way LIKE '%update' THEN
            EXECUTE format('INSERT INTO managed.%I VALUES ($1, NULL)', g.way) USING c.decision_id;
        END IF;
        operations := operations + 1;
        IF g.every > 0 AND operations % g.every = 0 THEN
            COMMIT;
        END IF;

        -- the feedback that arrives now, and some of it twice
        arrived := ARRAY(SELECT n FROM generate_series(1, t) n WHERE n + delays[n] = t
                         ORDER BY CASE WHEN e.backwards THEN -n ELSE n END);
        gone := ARRAY(SELECT n FROM generate_series(1, t) n WHERE n + delays[n] < t AND n % 7 = t % 7);
        CASE g.way
        WHEN 'function' THEN
            FOREACH s IN ARRAY arrived LOOP
                outcome := bandit_feedback(decisions[s], losses[s]);
                IF outcome <> managed.outcome(g.twin, tickets[s], losses[s]) THEN
                    g.surprises := g.surprises || format('feedback %s in round %s: %s', s, t, outcome);
                END IF;
                g.twin := bandit_learn(g.twin, tickets[s], losses[s]);
                IF bandit_feedback(decisions[s], 1 - losses[s])
                   <> (CASE outcome WHEN 'applied' THEN 'duplicate' ELSE outcome END) THEN
                    g.surprises := g.surprises || format('feedback %s again in round %s', s, t);
                END IF;
                operations := operations + 1;
                IF g.every > 0 AND operations % g.every = 0 THEN
                    COMMIT;
                END IF;
            END LOOP;
            PERFORM bandit_reward(decisions[n], 0.5) FROM unnest(gone) n;
        WHEN 'row_insert', 'statement_insert' THEN
            EXECUTE format('INSERT INTO managed.%I SELECT ($1)[n], ($2)[n] FROM unnest($3) n', g.way)
                USING decisions, losses, arrived || gone || arrived;
        WHEN 'row_update', 'statement_update' THEN
            EXECUTE format('UPDATE managed.%I SET loss = ($2)[n] FROM unnest($3) n WHERE decision = ($1)[n]', g.way)
                USING decisions, losses, arrived;
            -- neither null nor another value is news
            EXECUTE format('UPDATE managed.%I SET loss = CASE WHEN n %% 2 = 0 THEN 1 - loss END FROM unnest($2) n WHERE decision = ($1)[n]', g.way)
                USING decisions, arrived;
        END CASE;
        IF g.way <> 'function' THEN
            FOREACH s IN ARRAY arrived LOOP
                g.twin := bandit_learn(g.twin, tickets[s], losses[s]);
            END LOOP;
            operations := operations + cardinality(arrived);
            IF g.every > 0 THEN
                COMMIT;
            END IF;
        END IF;
    END LOOP;

    DELETE FROM managed.game played WHERE played.name = game;
    INSERT INTO managed.game
    VALUES (game, g.learner, g.environment, g.way, g.every, g.trouble,
            g.twin, tickets, decisions, losses, announced, g.difference, g.surprises);
END
$$;

--
-- Judging
--

-- The largest difference between two states, relative to the numbers if they
-- are above 1; infinity if they differ in anything but numbers.
CREATE FUNCTION managed.difference(a bandit_state, b bandit_state) RETURNS float8
LANGUAGE sql AS $$
    WITH part AS (
        SELECT state, key, n, value
        FROM (VALUES ('a', a::jsonb), ('b', b::jsonb)) s (state, object),
             jsonb_each(object) e (key, field),
             jsonb_array_elements(CASE jsonb_typeof(field) WHEN 'array' THEN field ELSE jsonb_build_array(field) END)
                 WITH ORDINALITY u (value, n))
    SELECT max(CASE WHEN x.value = y.value THEN 0
                    WHEN jsonb_typeof(x.value) = 'number' AND jsonb_typeof(y.value) = 'number'
                    THEN abs(x.value::float8 - y.value::float8) / greatest(1, abs(x.value::float8))
                    ELSE 'infinity' END)
    FROM (SELECT * FROM part WHERE state = 'a') x
    FULL JOIN (SELECT * FROM part WHERE state = 'b') y USING (key, n)
$$;

-- The log of a bandit, as the reference wants it. The step size is known from
-- gamma, except with dada.
CREATE FUNCTION managed.log(bandit text) RETURNS reference.decision[]
LANGUAGE sql AS $$
    SELECT array_agg((d.round, d.arm, d.probability, f.loss,
                      CASE WHEN f.loss IS NOT NULL THEN f.round - d.round END,
                      d.delay, CASE WHEN b.algorithm <> 'dada' THEN d.gamma END)::reference.decision
                     ORDER BY d.round)
    FROM dexp3.bandit b JOIN dexp3.decision d USING (bandit_id) LEFT JOIN dexp3.feedback f USING (decision_id)
    WHERE b.name = bandit
$$;

-- What of a bandit is as the reference says: "probabilities" and "step_sizes" of
-- all rounds, "outstanding" decisions in each, "skips" with the rounds that
-- decided them, "next": all that the bandit shows of the round to come.
CREATE FUNCTION managed.agreement(
    bandit text, OUT rounds bigint, OUT skipped bigint, OUT probabilities boolean, OUT step_sizes boolean,
    OUT outstanding boolean, OUT skips boolean, OUT next boolean)
LANGUAGE sql AS $$
    WITH reference AS (
        SELECT r.*, b.bandit_id, b.name
        FROM dexp3.bandit b,
             reference.rounds(managed.log(b.name), cardinality(b.arms), b.algorithm, b.skipping,
                              b.patience, b.max_delay, b.step_scale) r
        WHERE b.name = bandit),
    each AS (
        SELECT d.round AS decision,
               cardinality(r.skips) AS skipped,
               abs(d.probability - r.probabilities[d.arm]) AS probability,
               CASE WHEN d.gamma > 0 THEN abs(d.gamma / r.step_size - 1) END AS step_size,
               d.outstanding = r.tau AS outstanding,
               r.skips = ARRAY(SELECT s.round FROM dexp3.feedback f JOIN dexp3.decision s USING (decision_id)
                               WHERE f.bandit_id = r.bandit_id AND f.round = r.round AND f.loss IS NULL
                               ORDER BY s.round) AS skips
        FROM reference r LEFT JOIN dexp3.decision d USING (bandit_id, round)),
    next AS (
        SELECT max(abs(p.probability - r.probabilities[p.n])) AS probability,
               max(abs(bandit_step_size(bandit_current_state(bandit)) / r.step_size - 1)) AS step_size,
               bool_and(p.probability = (bandit_probabilities(bandit_current_state(bandit)))[p.n]) AS same
        FROM bandit_probabilities(bandit) WITH ORDINALITY p (arm, probability, n), reference r
        WHERE r.round = (SELECT max(round) FROM reference))
    SELECT count(e.decision), sum(e.skipped) FILTER (WHERE e.decision IS NOT NULL),
           max(e.probability) < 1e-9, max(e.step_size) < 1e-9,
           bool_and(e.outstanding), bool_and(e.skips) FILTER (WHERE e.decision IS NOT NULL),
           (SELECT n.probability < 1e-9 AND n.step_size < 1e-9 AND n.same FROM next n)
    FROM each e
$$;

-- What of a game is as it was played: the log holds the losses that were given
-- and the delays that they had; the twin has seen and learned the same.
CREATE FUNCTION managed.record(game text, OUT log boolean, OUT twin boolean, OUT surprises text[])
LANGUAGE sql AS $$
    SELECT (SELECT count(*) = cardinality(g.decisions)
                   AND count(*) FILTER (WHERE f.loss IS NOT NULL OR coalesce(e.delays[n] + n <= cardinality(g.decisions), false))
                     = count(*) FILTER (WHERE f.decision_id IS NOT NULL AND coalesce(e.delays[n] + n <= cardinality(g.decisions), false))
                   AND bool_and(d.bandit_id = b.bandit_id AND d.round = n)
                   AND bool_and(d.delay IS NOT DISTINCT FROM g.announced[n])
                   AND bool_and(f.loss = g.losses[n] AND f.round = n + e.delays[n]) FILTER (WHERE f.loss IS NOT NULL)
            FROM unnest(g.decisions) WITH ORDINALITY u (id, n)
            LEFT JOIN dexp3.decision d ON d.decision_id = id
            LEFT JOIN dexp3.feedback f ON f.decision_id = id),
           g.difference < 1e-9 AND managed.difference(bandit_current_state(game), g.twin) < 1e-9,
           g.surprises
    FROM managed.game g
    JOIN dexp3.bandit b ON b.name = game
    JOIN managed.environment e ON e.id = g.environment
    WHERE g.name = game
$$;

-- The judgment must be able to fail.
SELECT managed.difference(bandit_new(3, 'dada'), bandit_new(3, 'dada')) AS same,
       managed.difference(bandit_new(3, 'dada'), bandit_new(4, 'dada')) > 1 AS arms,
       managed.difference(bandit_new(3, 'dada'), (bandit_draw(bandit_new(3, 'dada'))).state) > 0 AS round,
       managed.difference(bandit_new(3, 'dada'), bandit_new(3, 'dada-ix')) AS algorithm;

--
-- Short games
--

INSERT INTO managed.game (name, learner, environment, way, every, trouble, twin)
SELECT format('game %s.%s', l.id, e.id), l.id, e.id,
       (ARRAY['function', 'row_insert', 'statement_insert', 'row_update', 'statement_update'])[(l.id + 2 * e.id) % 5 + 1],
       (ARRAY[1, 4, 0])[(l.id + e.id) % 3 + 1],
       (l.id * 3 + e.id) % 4 > 0,
       bandit_new(arms, algorithm, skipping, patience, max_delay, step_scale)
FROM managed.learner l, managed.environment e WHERE e.name <> 'long';

SELECT count(bandit_create(g.name, ARRAY(SELECT 'arm ' || n FROM generate_series(1, arms) n),
                           algorithm, skipping, patience, max_delay, step_scale)) AS created
FROM managed.game g JOIN managed.learner l ON l.id = g.learner;

-- one after the other; a procedure that commits must be called from the top
\set ECHO none
SELECT format('CALL managed.play(%L, 1, %s)', g.name, e.rounds)
FROM managed.game g JOIN managed.environment e ON e.id = g.environment ORDER BY g.learner, g.environment \gexec
\set ECHO all

SELECT g.learner AS l, e.name AS environment, g.way, g.every, g.trouble AS t, a.*, r.*
FROM managed.game g JOIN managed.environment e ON e.id = g.environment,
     managed.agreement(g.name) a, managed.record(g.name) r
ORDER BY g.learner, g.environment;

-- Every way was tried with every algorithm.
SELECT l.algorithm, count(DISTINCT g.way) AS ways, count(DISTINCT g.every) AS transactions
FROM managed.game g JOIN managed.learner l ON l.id = g.learner GROUP BY l.algorithm ORDER BY l.algorithm;

SELECT count(bandit_drop(name)) AS dropped FROM managed.game;
DELETE FROM managed.game;

--
-- Savepoints in SQL
--

-- Feedback for some decision that is open, if there is one
CREATE FUNCTION managed.feedback(game text, n integer) RETURNS text
LANGUAGE sql AS $$
    SELECT bandit_feedback(decision_id, n % 11 / 10.0)
    FROM (SELECT decision_id FROM dexp3.pending WHERE bandit = game ORDER BY (round * 7 + n) % 5, round LIMIT 1) p
$$;

SELECT count(bandit_create('savepoints ' || id, ARRAY(SELECT 'arm ' || n FROM generate_series(1, arms) n),
                           algorithm, skipping, patience, max_delay, step_scale)) AS created
FROM managed.learner WHERE id IN (1, 3, 5, 8, 10, 13);

\set ECHO none
SELECT CASE step
           WHEN 'choose' THEN format('DO $d$ BEGIN PERFORM bandit_choose(%L, %s); END $d$', bandit, delay)
           WHEN 'feedback' THEN format('DO $d$ BEGIN PERFORM managed.feedback(%L, %s); END $d$', bandit, i + n)
           ELSE step
       END
FROM (SELECT 'savepoints ' || id AS bandit, coalesce(CASE told WHEN 'truth' THEN i % 4 WHEN 'always 2' THEN 2 END::text, 'NULL') AS delay,
             id, i, n, step
      FROM managed.learner JOIN dexp3.bandit ON name = 'savepoints ' || id, generate_series(1, 8) i,
           unnest(ARRAY['choose', 'feedback', 'choose', 'BEGIN', 'choose', 'SAVEPOINT a', 'choose', 'feedback', 'feedback',
                        'SAVEPOINT b', 'choose', 'feedback', 'choose',
                        (ARRAY['ROLLBACK TO a', 'ROLLBACK TO b', 'RELEASE a', 'RELEASE b'])[i % 4 + 1],
                        'feedback', 'choose',
                        CASE WHEN i % 5 = 0 THEN 'ROLLBACK TO a' ELSE 'feedback' END,
                        'SAVEPOINT c', 'choose', 'feedback', 'RELEASE c',
                        CASE WHEN i % 3 = 0 THEN 'ROLLBACK' ELSE 'COMMIT' END]) WITH ORDINALITY u (step, n)
      WHERE NOT (i % 5 = 0 AND i % 4 = 2 AND step = 'ROLLBACK TO a')) s
ORDER BY id, i, n \gexec
\set ECHO all

SELECT id AS l, a.*, (SELECT count(loss) FROM dexp3.feedback WHERE bandit_id = b.bandit_id) AS settled
FROM managed.learner JOIN dexp3.bandit b ON b.name = 'savepoints ' || id, managed.agreement(b.name) a
ORDER BY id;

-- Another session sees the same.
CREATE TABLE managed.state AS SELECT name, bandit_current_state(name) AS state FROM dexp3.bandit WHERE name LIKE 'savepoints %';
\c -
SELECT count(*) AS bandits, max(managed.difference(state, bandit_current_state(name))) < 1e-9 AS same FROM managed.state;
SELECT count(bandit_drop(name)) AS dropped FROM managed.state;
DROP TABLE managed.state;

--
-- Long games, with new sessions in between: they begin with a checkpoint
--

SET synchronous_commit = off;
INSERT INTO managed.game (name, learner, environment, way, every, trouble, twin)
SELECT 'long ' || l.id, l.id, 4, way, 1, l.id % 2 = 0, bandit_new(arms, algorithm, skipping, patience, max_delay, step_scale)
FROM managed.learner l
JOIN (VALUES (2, 'function'), (3, 'row_update'), (5, 'statement_update'), (6, 'row_insert'), (8, 'function'),
             (10, 'statement_insert'), (13, 'function')) v (id, way) USING (id);
SELECT count(bandit_create(g.name, ARRAY(SELECT 'arm ' || n FROM generate_series(1, arms) n),
                           algorithm, skipping, patience, max_delay, step_scale)) AS created
FROM managed.game g JOIN managed.learner l ON l.id = g.learner;

\set ECHO none
SELECT format('CALL managed.play(%L, 1, 360)', name) FROM managed.game ORDER BY learner \gexec
\set ECHO all
CREATE TABLE managed.state AS SELECT name, bandit_current_state(name) AS state FROM managed.game;

\c -
-- Without the early part of the log, which a checkpoint covers.  A table with
-- another file lets sums be made anew, but from the checkpoint.
BEGIN;
CLUSTER dexp3.trimmed_rows USING trimmed_rows_pkey;
ALTER TABLE dexp3.feedback DISABLE TRIGGER log_changed;
ALTER TABLE dexp3.decision DISABLE TRIGGER log_changed;
SELECT count(*) AS bandits, min(count) AS checkpoints, min(events) > 500 AS events
FROM (SELECT g.name, count(c.*), max(c.events) AS events
      FROM managed.game g JOIN dexp3.bandit b USING (name) LEFT JOIN dexp3.checkpoint c USING (bandit_id, epoch)
      GROUP BY g.name) g;
CREATE TEMP TABLE early AS
SELECT decision_id FROM managed.game JOIN dexp3.bandit USING (name) JOIN dexp3.decision USING (bandit_id) WHERE round < 50;
DELETE FROM dexp3.feedback WHERE decision_id IN (SELECT decision_id FROM early);
DELETE FROM dexp3.decision WHERE decision_id IN (SELECT decision_id FROM early);
SELECT count(*) AS bandits, max(managed.difference(state, bandit_current_state(name))) < 1e-9 AS same FROM managed.state;
ROLLBACK;

\c -
-- Without the checkpoints
BEGIN;
CLUSTER dexp3.trimmed_rows USING trimmed_rows_pkey;
DELETE FROM dexp3.checkpoint;
SELECT count(*) AS bandits, max(managed.difference(state, bandit_current_state(name))) < 1e-9 AS same FROM managed.state;
ROLLBACK;

\c -
SET synchronous_commit = off;
SELECT count(*) AS bandits, max(managed.difference(state, bandit_current_state(name))) < 1e-9 AS same FROM managed.state;
\c -
SET synchronous_commit = off;
\set ECHO none
SELECT format('CALL managed.play(%L, 361, 380)', name) FROM managed.game ORDER BY learner \gexec
\set ECHO all
SET jit = off;
SET plan_cache_mode = force_generic_plan;
SELECT g.learner AS l, g.way, a.*, r.*
FROM managed.game g, managed.agreement(g.name) a, managed.record(g.name) r
ORDER BY g.learner;

SELECT count(bandit_drop(name)) AS dropped FROM managed.game;
SET client_min_messages = warning;
DROP SCHEMA managed CASCADE;
RESET client_min_messages;
