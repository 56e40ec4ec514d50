-- Managed bandits with the self-tuned learner against its reference
-- (self_tuned_reference.sql): every probability, step size, mass, baseline and
-- estimate, whatever happens in between. With a half-life in real time, too: then
-- each step is a statement of its own, for a statement has one time.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

SET synchronous_commit = off;
-- the reference runs the same few statements again and again
SET jit = off;
SET plan_cache_mode = force_generic_plan;

CREATE SCHEMA tuned;

--
-- What happens, written down by triggers on the log, in its order. What is rolled
-- back is rolled back here, too; what is trimmed stays.
--

CREATE TABLE tuned.event (
    n bigserial,
    bandit_id integer,
    epoch integer,
    kind text,
    decision_id bigint,
    arm integer,
    at timestamptz DEFAULT statement_timestamp(),
    allowed integer[],          -- null: all
    decision dexp3.decision_rows,
    feedback dexp3.feedback_rows
);
CREATE INDEX ON tuned.event (decision_id);

CREATE FUNCTION tuned.record() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'decision_rows' THEN
        INSERT INTO tuned.event (bandit_id, epoch, kind, decision_id, arm, decision)
        VALUES (NEW.bandit_id, NEW.epoch, 'draw', NEW.decision_id, NEW.arm, NEW);
    ELSIF TG_TABLE_NAME = 'feedback_rows' THEN
        INSERT INTO tuned.event (bandit_id, epoch, kind, decision_id, feedback)
        VALUES (NEW.bandit_id, NEW.epoch, 'feedback', NEW.decision_id, NEW);
    ELSE
        INSERT INTO tuned.event (bandit_id, epoch, kind, decision_id, feedback)
        SELECT bandit_id, epoch, CASE WHEN decision_id = NEW.first_decision THEN 'feedback' ELSE 'also' END, decision_id,
               ROW(s.*)::dexp3.feedback_rows
        FROM dexp3.settled s WHERE decision_id = ANY (NEW.decisions) ORDER BY decision_id;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER record AFTER INSERT ON dexp3.decision_rows FOR EACH ROW EXECUTE FUNCTION tuned.record();
CREATE TRIGGER record AFTER INSERT ON dexp3.feedback_rows FOR EACH ROW EXECUTE FUNCTION tuned.record();
CREATE TRIGGER record AFTER INSERT ON dexp3.expiry_rows FOR EACH ROW EXECUTE FUNCTION tuned.record();

--
-- Playing
--

-- The loss of an arm in some round, as a share of the range
CREATE FUNCTION tuned.loss(arm integer, round bigint) RETURNS float8 LANGUAGE sql IMMUTABLE AS $$
    SELECT ((31 * round * round + 17 * arm + 13 * round * arm) % 101) / 100.0 / (1 + arm % 3)
$$;

-- Feedback for up to n of the decisions that are open, in no good order. For every
-- ninth it never comes.
CREATE FUNCTION tuned.give(bandit text, n integer, salt integer DEFAULT 0) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    open record;
BEGIN
    FOR open IN
        SELECT d.decision_id, b.loss_range[1] + tuned.loss(d.arm, d.round) * (b.loss_range[2] - b.loss_range[1]) AS loss
        FROM dexp3.bandit b JOIN dexp3.decision d USING (bandit_id, epoch)
        WHERE b.name = give.bandit AND d.round % 9 <> 5
          AND NOT EXISTS (SELECT FROM dexp3.settled s WHERE s.decision_id = d.decision_id)
        ORDER BY (d.round * 7 + salt) % 5, d.round LIMIT give.n
    LOOP
        PERFORM bandit_feedback(open.decision_id, open.loss);
    END LOOP;
END
$$;

-- One decision, of all arms or of some, and feedback for 0 to 2
CREATE FUNCTION tuned.step(bandit text, i integer, restrict boolean DEFAULT false) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    b dexp3.bandit := (SELECT b FROM dexp3.bandit b WHERE name = step.bandit);
    which integer[];
    chosen record;
BEGIN
    IF restrict THEN
        which := ARRAY(SELECT n FROM generate_subscripts(b.arms, 1) n
                       WHERE b.arms[n] <> ALL (b.retired) AND (n + i) % 3 > 0);
    END IF;
    SELECT * INTO chosen FROM bandit_choose(step.bandit, allowed => (SELECT array_agg(b.arms[n]) FROM unnest(which) n));
    UPDATE tuned.event SET allowed = which WHERE decision_id = chosen.decision_id AND kind = 'draw' AND restrict;
    PERFORM tuned.give(step.bandit, i % 3, i);
END
$$;

-- Add or retire an arm; the result is by how much the step size is then not what it
-- was, or what it can be at most with so many arms.
CREATE FUNCTION tuned.change(bandit text, kind text, arm text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
    before float8 := bandit_step_size(bandit_current_state(bandit));
BEGIN
    CASE kind WHEN 'add' THEN
        PERFORM bandit_add_arm(bandit, arm);
    WHEN 'retire' THEN
        PERFORM bandit_retire_arm(bandit, arm);
    END CASE;
    INSERT INTO tuned.event (bandit_id, epoch, kind, arm)
    SELECT bandit_id, epoch, change.kind, array_position(arms, change.arm) FROM dexp3.bandit WHERE name = change.bandit;
    RETURN bandit_step_size(bandit_current_state(bandit))
           / least(before, 1 / (bandit_current_state(bandit)::jsonb ->> 'arms')::float8) - 1;
END
$$;

--
-- Judging
--

-- The events of a bandit since its last reset, as the reference wants them, and a
-- look at this moment
CREATE FUNCTION tuned.events(bandit text) RETURNS reference.event[] LANGUAGE sql AS $$
    SELECT array_agg((kind, number, arm, probability, allowed, loss, extract(epoch FROM at - first), NULL)::reference.event ORDER BY n)
           || ('look', NULL, NULL, NULL, NULL, NULL, extract(epoch FROM statement_timestamp() - min(first)), NULL)::reference.event
    FROM (SELECT e.*, (decision).probability,
                 ((feedback).loss - loss_range[1]) / (loss_range[2] - loss_range[1]) AS loss,
                 min(at) OVER () AS first,
                 first_value(e.n) OVER (PARTITION BY decision_id ORDER BY e.n) AS drawn
          FROM tuned.event e JOIN dexp3.bandit b USING (bandit_id, epoch) WHERE b.name = events.bandit) e
    LEFT JOIN (SELECT e.n AS drawn, row_number() OVER (ORDER BY e.n) AS number
               FROM tuned.event e JOIN dexp3.bandit b USING (bandit_id, epoch)
               WHERE b.name = events.bandit AND kind = 'draw') d USING (drawn)
$$;

CREATE FUNCTION tuned.difference(a float8[], b float8[]) RETURNS float8 LANGUAGE sql AS $$
    SELECT max(coalesce(abs(x - y) / greatest(1, abs(x)), 'infinity')) FROM unnest(a, b) _ (x, y)
$$;

-- What of a bandit is as the reference says. "draws": probability, gamma and mass of
-- each; "feedback": baseline, estimate and mass of each; "times" that the rows have;
-- "next": all that the bandit shows of the round to come; "regret": the estimate, and
-- the bound where it holds; "invariant": C - min z <= 1.5 v - 0.5 K ln K.
CREATE FUNCTION tuned.agreement(
    bandit text, OUT rounds bigint, OUT settled bigint, OUT draws boolean, OUT feedback boolean, OUT times boolean,
    OUT next boolean, OUT regret boolean, OUT invariant boolean, OUT verified boolean)
LANGUAGE sql AS $$
    WITH b AS MATERIALIZED (
        SELECT *, loss_range[2] - loss_range[1] AS range, tuned.events(name) AS events,
               bandit_current_state(name) AS state, bandit_current_state(name)::jsonb AS object
        FROM dexp3.bandit WHERE name = agreement.bandit),
    e AS MATERIALIZED (
        SELECT row_number() OVER (ORDER BY n) AS n, e.kind, e.decision, e.feedback, e.allowed, e.at, b.half_life IS NOT NULL AS forgets,
               first_value((e.decision).decided_at) OVER (PARTITION BY decision_id ORDER BY e.n) AS decided_at
        FROM tuned.event e JOIN b USING (bandit_id, epoch)),
    x AS MATERIALIZED (
        SELECT x.*, max(x.n) OVER () AS last
        FROM b, reference.self_tuned(b.events,
                    cardinality(b.arms) - (SELECT count(*) FROM e WHERE kind = 'add')::integer,
                    b.optimism, extract(epoch FROM b.half_life)::float8) x)
    SELECT count(*) FILTER (WHERE e.kind = 'draw'), count(*) FILTER (WHERE e.kind IN ('feedback', 'also')),
           max(abs((e.decision).probability - x.probability)) < 1e-9
               AND max(abs((e.decision).gamma * 16 / x.step_size - 1)) < 1e-9
               AND max(abs(coalesce((e.decision).mass, 1) - x.mass)) FILTER (WHERE e.kind = 'draw') < 1e-9
               AND coalesce(bool_and((e.decision).mass IS NULL) FILTER (WHERE e.kind = 'draw' AND e.allowed IS NULL), true),
           max(abs(coalesce((e.feedback).baseline, 0) - x.baseline)) < 1e-9
               AND max(abs((e.feedback).estimate - x.estimate) / greatest(1, abs(x.estimate))) < 1e-9,
           bool_and((e.decision).decided_at = e.at) FILTER (WHERE e.kind = 'draw')
               AND bool_and((e.feedback).received_at = e.at
                            AND (e.feedback).decided_at IS NOT DISTINCT FROM CASE WHEN forgets THEN e.decided_at END)
                   FILTER (WHERE e.kind IN ('feedback', 'also')),
           (SELECT tuned.difference(ARRAY[object ->> 'settled', object ->> 'total_loss', object ->> 'cost']::float8[]
                                    || ARRAY(SELECT z::float8 FROM jsonb_array_elements_text(object -> 'z') WITH ORDINALITY _ (z, n) ORDER BY n),
                                    ARRAY[x.settled, x.total_loss, x.cost]
                                    || ARRAY(SELECT z FROM unnest(x.z) WITH ORDINALITY _ (z, n)
                                             WHERE b.arms[n] <> ALL (b.retired) ORDER BY n)) < 1e-9
                   AND abs(bandit_step_size(state) / x.step_size - 1) < 1e-9
                   AND tuned.difference(bandit_probabilities(state), ARRAY(SELECT probability FROM bandit_probabilities(name))) < 1e-12
                   AND tuned.difference(ARRAY(SELECT p.probability FROM unnest(b.arms) WITH ORDINALITY a (arm, n)
                                              LEFT JOIN bandit_probabilities(name) p USING (arm) WHERE arm <> ALL (b.retired) ORDER BY a.n),
                                        ARRAY(SELECT p FROM unnest(x.probabilities) WITH ORDINALITY _ (p, n)
                                              WHERE b.arms[n] <> ALL (b.retired) ORDER BY n)) < 1e-9
                   AND (object ->> 'round')::bigint = (SELECT count(*) FROM e WHERE kind = 'draw')
                   AND (object ->> 'outstanding')::bigint = (SELECT sum(CASE WHEN kind = 'draw' THEN 1 WHEN kind IN ('feedback', 'also') THEN -1 END) FROM e)
                   AND (object ->> 'half_life') IS NULL
            FROM b, x WHERE x.n = last),
           (SELECT abs(bandit_regret_estimate(name) / expected - 1) < 1e-9
                   AND CASE WHEN optimism = 1 AND NOT EXISTS (SELECT FROM e WHERE kind IN ('add', 'retire'))
                            THEN abs(bandit_regret_bound(name) / expected - 1) < 1e-9
                            ELSE bandit_regret_bound(name) IS NULL END
            FROM (SELECT name, optimism,
                         least(1.5 * x.v - 0.5 * x.k * ln(x.k) + (object ->> 'outstanding')::bigint, (object ->> 'round')::bigint)
                             * range AS expected
                  FROM b, x WHERE x.n = last) _),
           (SELECT x.cost - (SELECT min(z) FROM unnest(x.z) WITH ORDINALITY _ (z, n) WHERE b.arms[n] <> ALL (b.retired))
                   <= 1.5 * ln(x.k) / bandit_step_size(state) - 0.5 * x.k * ln(x.k) + 1e-9
            FROM b, x WHERE x.n = last),
           bandit_verify(agreement.bandit)
    FROM e JOIN x USING (n)
$$;

--
-- The bandits
--

SELECT setseed(0.6);
SELECT bandit_create('default', '{a,b,c}', retention => '0'),
       bandit_create('proven', '{a,b}', optimism => 1, retention => '0'),
       bandit_create('units', '{a,b,c,d,e,f,g,h,i,j}', 'self-tuned', optimism => 0.6, loss_range => '{-5,15}', retention => '0'),
       bandit_create('bleak', '{a,b,c,d}', optimism => 0.01, retention => '0'),
       bandit_create('forgets', '{a,b,c}', half_life => '50 ms', retention => '0'),
       bandit_create('forgets fast', '{a,b,c,d,e}', optimism => 1, half_life => '0.01 s', loss_range => '{0,10}', retention => '0') \gset
CREATE TABLE tuned.bandit AS SELECT bandit_id, name FROM dexp3.bandit
WHERE name IN ('default', 'proven', 'units', 'bleak', 'forgets', 'forgets fast');
SELECT name, algorithm, skipping, optimism, half_life, missing_loss, head_start, cost_offset, arms_changed_at
FROM tuned.bandit JOIN dexp3.bandit USING (bandit_id, name) ORDER BY bandit_id;

-- Play, and then a new session
\set ECHO none
SELECT format('DO $d$ BEGIN PERFORM tuned.step(%L, %s); END $d$', name, i)
FROM tuned.bandit, generate_series(1, 60) i ORDER BY bandit_id, i \gexec
\set ECHO all
SELECT name, a.* FROM tuned.bandit, tuned.agreement(name) a ORDER BY bandit_id;

-- The judgment must be able to fail.
BEGIN;
UPDATE tuned.event SET decision.probability = (decision).probability + 1e-8
WHERE n = (SELECT max(n) FROM tuned.event JOIN tuned.bandit USING (bandit_id) WHERE name = 'default' AND kind = 'draw');
UPDATE tuned.event SET feedback.loss = (feedback).loss + 1e-6
WHERE n = (SELECT min(n) FROM tuned.event JOIN tuned.bandit USING (bandit_id) WHERE name = 'proven' AND kind = 'feedback');
UPDATE tuned.event SET at = at - interval '1 ms', decision.decided_at = (decision).decided_at - interval '1 ms'
WHERE n = (SELECT max(n) FROM tuned.event JOIN tuned.bandit USING (bandit_id) WHERE name = 'forgets' AND kind = 'draw');
DELETE FROM tuned.event
WHERE n = (SELECT max(n) FROM tuned.event JOIN tuned.bandit USING (bandit_id) WHERE name = 'bleak' AND kind = 'feedback');
SELECT name, draws, feedback, times, next FROM tuned.bandit, tuned.agreement(name) WHERE name IN ('default', 'proven', 'forgets', 'bleak')
ORDER BY bandit_id;
ROLLBACK;

\c -
SET synchronous_commit = off;
SET jit = off;
SELECT name, next, verified FROM tuned.bandit, tuned.agreement(name) ORDER BY bandit_id;

--
-- Only some arms: C grows by the mass of those that are allowed
--

\set ECHO none
SELECT format('DO $d$ BEGIN PERFORM tuned.step(%L, %s, %L); END $d$', name, i, i % 4 > 0)
FROM tuned.bandit, generate_series(61, 100) i ORDER BY bandit_id, i \gexec
\set ECHO all
SELECT name, a.* FROM tuned.bandit, tuned.agreement(name) a ORDER BY bandit_id;
SELECT count(*) > 100 AS some, min(d.mass) > 0 AND max(d.mass) <= 1 AS masses,
       bool_and(f.mass IS NOT DISTINCT FROM d.mass) FILTER (WHERE f.loss IS NOT NULL) AS in_feedback
FROM tuned.bandit JOIN dexp3.decision d USING (bandit_id) LEFT JOIN dexp3.feedback f USING (decision_id) WHERE d.mass IS NOT NULL;

--
-- Rollbacks and savepoints
--

\set ECHO none
SELECT CASE step
           WHEN 'choose' THEN format('DO $d$ BEGIN PERFORM tuned.step(%L, %s, %L); END $d$', name, 3 * n, n % 2 = 0)
           WHEN 'feedback' THEN format('DO $d$ BEGIN PERFORM tuned.give(%L, 1, %s); END $d$', name, i + n)
           ELSE step
       END
FROM tuned.bandit, generate_series(1, 6) i,
     unnest(ARRAY['choose', 'feedback', 'choose', 'BEGIN', 'choose', 'SAVEPOINT a', 'choose', 'feedback', 'feedback',
                  'SAVEPOINT b', 'choose', 'feedback', 'choose',
                  (ARRAY['ROLLBACK TO a', 'ROLLBACK TO b', 'RELEASE a', 'RELEASE b'])[i % 4 + 1],
                  'feedback', 'choose', 'SAVEPOINT c', 'choose', 'feedback', 'RELEASE c',
                  CASE WHEN i % 3 = 0 THEN 'ROLLBACK' ELSE 'COMMIT' END]) WITH ORDINALITY u (step, n)
ORDER BY bandit_id, i, n \gexec
\set ECHO all
SELECT name, a.* FROM tuned.bandit, tuned.agreement(name) a ORDER BY bandit_id;

--
-- Many at once, and feedback from a trigger
--

CREATE TABLE tuned.outcome (decision_id bigint, loss float8);
CREATE TRIGGER feedback AFTER INSERT ON tuned.outcome REFERENCING NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'loss');
SELECT name, count(*) FROM tuned.bandit, bandit_choose_many(name, 12) GROUP BY bandit_id, name ORDER BY bandit_id;
INSERT INTO tuned.outcome SELECT decision_id, 1 - round % 7 / 7.0 FROM dexp3.pending JOIN tuned.bandit ON name = bandit ORDER BY decision_id DESC;
SELECT name, count(*) FROM tuned.bandit, bandit_choose_many(name, 3) GROUP BY bandit_id, name ORDER BY bandit_id;
SELECT name, a.* FROM tuned.bandit, tuned.agreement(name) a ORDER BY bandit_id;

--
-- Arms come and go: the step size stays, and all goes on as it should
--

-- some decisions of a and b are open when these go
SELECT count(bandit_choose(name, allowed => '{a}')), count(bandit_choose(name, allowed => '{b}')) FROM tuned.bandit;
UPDATE tuned.event e SET allowed = ARRAY[e.arm]
FROM (SELECT e.n, row_number() OVER (PARTITION BY bandit_id ORDER BY e.n DESC) AS age
      FROM tuned.event e JOIN tuned.bandit USING (bandit_id) WHERE e.kind = 'draw') last
WHERE last.n = e.n AND age <= 2;
CREATE TABLE tuned.changed (step integer, name text, kind text, difference float8);
\set ECHO none
SELECT CASE WHEN kind = 'play' THEN format('DO $d$ BEGIN PERFORM tuned.step(%L, %s, %L); END $d$', name, i, i % 5 = 0)
            ELSE format('INSERT INTO tuned.changed SELECT %s, %L, %L, tuned.change(%2$L, %3$L, %L)', step, name, kind, arm) END
FROM tuned.bandit,
     (VALUES (1, 'add', 'x', 1), (2, 'play', NULL, 12), (3, 'retire', 'a', 1), (4, 'play', NULL, 12), (5, 'add', 'y', 1), (6, 'add', 'z', 1),
             (7, 'play', NULL, 12), (8, 'retire', 'x', 1), (9, 'retire', 'b', 1), (10, 'play', NULL, 12)) v (step, kind, arm, times),
     generate_series(1, times) i
ORDER BY bandit_id, step, i \gexec
\set ECHO all
SELECT name, a.* FROM tuned.bandit, tuned.agreement(name) a ORDER BY bandit_id;
SELECT name, string_agg(kind, ' ' ORDER BY step) AS changes, max(abs(difference)) < 1e-9 AS step_size_stays
FROM tuned.changed JOIN tuned.bandit USING (name) GROUP BY bandit_id, name ORDER BY bandit_id;
SELECT name, cardinality(b.arms) AS arms, b.retired, b.cost_offset <> 0 AS cost_offset,
       b.arms_changed_at IS NOT NULL AS changed_at
FROM tuned.bandit JOIN dexp3.bandit b USING (bandit_id, name) ORDER BY bandit_id;
\c -
SET synchronous_commit = off;
SET jit = off;
SELECT name, next, verified FROM tuned.bandit, tuned.agreement(name) ORDER BY bandit_id;

-- A change that is rolled back was none.
BEGIN;
SAVEPOINT s;
SELECT count(tuned.change(name, 'add', 'rolled back')) FROM tuned.bandit;
SELECT count(tuned.step(name, 1)) FROM tuned.bandit;
ROLLBACK TO s;
SELECT count(tuned.change(name, 'retire', 'y')) FROM tuned.bandit WHERE name <> 'proven';
ROLLBACK;
SELECT name, next, verified FROM tuned.bandit, tuned.agreement(name) ORDER BY bandit_id;

--
-- What was settled is trimmed
--

SELECT count(bandit_trim(name)) FROM tuned.bandit;
SELECT count(*) AS rows, bool_and(f.decision_id IS NULL) AS open
FROM tuned.bandit JOIN dexp3.decision d USING (bandit_id) LEFT JOIN dexp3.feedback f USING (decision_id);
SELECT name, next, regret, verified FROM tuned.bandit, tuned.agreement(name) ORDER BY bandit_id;
\c -
SET synchronous_commit = off;
SET jit = off;
SELECT name, next, regret, verified FROM tuned.bandit, tuned.agreement(name) ORDER BY bandit_id;
DELETE FROM dexp3.checkpoint;
\c -
SET synchronous_commit = off;
SET jit = off;
\set ECHO none
SELECT format('DO $d$ BEGIN PERFORM tuned.step(%L, %s, %L); END $d$', name, i, i % 2 = 0)
FROM tuned.bandit, generate_series(1, 20) i ORDER BY bandit_id, i \gexec
\set ECHO all
-- for a second time
SELECT count(bandit_trim(name)) FROM tuned.bandit;
SELECT name, a.* FROM tuned.bandit, tuned.agreement(name) a ORDER BY bandit_id;

--
-- A reset
--

SELECT count(bandit_reset(name)) FROM tuned.bandit;
SELECT name, object ->> 'settled' AS settled, object ->> 'cost' AS cost, abs(step_size * k - 1) < 1e-12 AS step_size, b.cost_offset, b.arms_changed_at
FROM (SELECT bandit_id, name, bandit_current_state(name)::jsonb AS object, bandit_step_size(bandit_current_state(name)) AS step_size FROM tuned.bandit) _
JOIN dexp3.bandit b USING (bandit_id, name), LATERAL (SELECT cardinality(b.arms) - cardinality(b.retired) AS k) k ORDER BY bandit_id;
\set ECHO none
SELECT format('DO $d$ BEGIN PERFORM tuned.step(%L, %s); END $d$', name, i)
FROM tuned.bandit, generate_series(1, 10) i ORDER BY bandit_id, i \gexec
\set ECHO all
-- The reference does not know of arms that had retired before. What there is of the
-- others, from the log:
SELECT name, count(*) AS settled, verified,
       tuned.difference(ARRAY[object ->> 'settled', object ->> 'total_loss', object ->> 'cost']::float8[],
                        ARRAY[count(*), sum(f.loss - b.loss_range[1]) / (b.loss_range[2] - b.loss_range[1]),
                              sum((f.loss - b.loss_range[1]) / (b.loss_range[2] - b.loss_range[1]) - coalesce(baseline, 0))]) < 1e-9 AS sums,
       abs(bandit_step_size(state) * reference.solve((object ->> 'cost')::float8,
               ARRAY(SELECT z::float8 FROM jsonb_array_elements_text(object -> 'z') z)) / ln((object ->> 'arms')::float8) - 1) < 1e-9 AS step_size
FROM (SELECT bandit_id, name, bandit_current_state(name) AS state, bandit_current_state(name)::jsonb AS object, bandit_verify(name) AS verified
      FROM tuned.bandit OFFSET 0) _
JOIN dexp3.bandit b USING (bandit_id, name) JOIN dexp3.feedback f USING (bandit_id, epoch)
WHERE b.half_life IS NULL GROUP BY bandit_id, name, b.loss_range, state, object, verified ORDER BY bandit_id;
SELECT count(bandit_drop(name)) FROM tuned.bandit;
DELETE FROM tuned.bandit;

--
-- Missing feedback: a window of 0 makes everything due that an earlier statement has
-- done. What has expired counts with the missing loss, as any other.
--

SELECT bandit_create('window', '{a,b,c}', feedback_window => '0', missing_loss => 0.5),
       bandit_create('window, units', '{a,b,c}', optimism => 0.6, feedback_window => '0', missing_loss => 12, loss_range => '{-5,15}'),
       bandit_create('window, proven', '{a,b}', optimism => 1, feedback_window => '0'),
       bandit_create('window, forgets', '{a,b,c,d}', half_life => '50 ms', feedback_window => '0', retention => '0') \gset
INSERT INTO tuned.bandit SELECT bandit_id, name FROM dexp3.bandit WHERE name LIKE 'window%';
\set ECHO none
SELECT format(CASE step WHEN 'many' THEN 'DO $d$ BEGIN PERFORM bandit_choose_many(%L, 5); END $d$'
                        WHEN 'step' THEN 'DO $d$ BEGIN PERFORM tuned.step(%L, %s, %L); END $d$'
                        WHEN 'give' THEN 'DO $d$ BEGIN PERFORM tuned.give(%L, 1, %s); END $d$'
                        WHEN 'expire' THEN 'DO $d$ BEGIN PERFORM bandit_expire(%L); END $d$' END, name, n, n % 2 = 0)
FROM tuned.bandit, generate_series(1, 5) i,
     unnest(ARRAY['step', 'step', 'step', 'many', 'give', 'step', 'step', 'give', 'expire', 'step', 'many', 'give', 'step']) WITH ORDINALITY _ (step, n)
ORDER BY bandit_id, i, n \gexec
\set ECHO all
SELECT name, a.* FROM tuned.bandit, tuned.agreement(name) a ORDER BY bandit_id;
SELECT name, missing_loss, count(*) > 10 AS expired, count(DISTINCT loss) AS losses
FROM tuned.bandit JOIN dexp3.bandit USING (bandit_id, name) JOIN dexp3.settled USING (bandit_id) WHERE expired GROUP BY bandit_id, name, missing_loss ORDER BY bandit_id;
SELECT count(bandit_trim(name)) FROM tuned.bandit;
\c -
SET synchronous_commit = off;
SET jit = off;
SELECT name, next, regret, verified FROM tuned.bandit, tuned.agreement(name) ORDER BY bandit_id;
SELECT count(bandit_drop(name)) FROM tuned.bandit;
DELETE FROM tuned.bandit;

--
-- Checkpoints
--

SELECT bandit_create('long', '{a,b,c}'), bandit_create('long, forgets', '{a,b,c}', half_life => '0.3 s', optimism => 0.5) \gset
INSERT INTO tuned.bandit SELECT bandit_id, name FROM dexp3.bandit WHERE name LIKE 'long%';
\set ECHO none
SELECT format('DO $d$ BEGIN FOR i IN 1 .. 15 LOOP PERFORM tuned.step(%L, i); END LOOP; END $d$', name)
FROM tuned.bandit, generate_series(1, 20) i ORDER BY bandit_id, i \gexec
\set ECHO all
SELECT name, count(*) > 0 AS checkpoints FROM tuned.bandit JOIN dexp3.checkpoint USING (bandit_id) GROUP BY bandit_id, name ORDER BY bandit_id;
SELECT name, a.* FROM tuned.bandit, tuned.agreement(name) a ORDER BY bandit_id;
-- Without the part of the log that a checkpoint covers, and then without checkpoints.
\c -
SET jit = off;
SET client_min_messages = error;
BEGIN;
CLUSTER dexp3.trimmed_rows USING trimmed_rows_pkey;
ALTER TABLE dexp3.feedback DISABLE TRIGGER log_changed;
ALTER TABLE dexp3.decision DISABLE TRIGGER log_changed;
CREATE TEMP TABLE early AS SELECT decision_id FROM tuned.bandit JOIN dexp3.decision USING (bandit_id) JOIN dexp3.feedback f USING (decision_id)
WHERE f.round < 50;
DELETE FROM dexp3.feedback WHERE decision_id IN (SELECT decision_id FROM early);
DELETE FROM dexp3.decision WHERE decision_id IN (SELECT decision_id FROM early);
SELECT name, next FROM tuned.bandit, tuned.agreement(name) ORDER BY bandit_id;
ROLLBACK;
\c -
SET jit = off;
BEGIN;
CLUSTER dexp3.trimmed_rows USING trimmed_rows_pkey;
DELETE FROM dexp3.checkpoint;
SELECT name, next, verified FROM tuned.bandit, tuned.agreement(name) ORDER BY bandit_id;
ROLLBACK;

-- A reset, once more
SELECT count(bandit_reset(name)) FROM tuned.bandit;
\set ECHO none
SELECT format('DO $d$ BEGIN PERFORM tuned.step(%L, %s); END $d$', name, i)
FROM tuned.bandit, generate_series(1, 20) i ORDER BY bandit_id, i \gexec
\set ECHO all
SELECT name, a.* FROM tuned.bandit, tuned.agreement(name) a ORDER BY bandit_id;
SELECT count(bandit_drop(name)) FROM tuned.bandit;
DROP TRIGGER record ON dexp3.decision_rows;
DROP TRIGGER record ON dexp3.feedback_rows;
DELETE FROM tuned.bandit;

--
-- Arms so bad that they have no weight beside the others: when only they are allowed,
-- that costs nothing
--

SELECT bandit_create('hopeless', '{good,bad,worse}', optimism => 1) \gset
DO $$
BEGIN
    FOR i IN 1 .. 5000 LOOP
        PERFORM bandit_feedback(decision_id, 1) FROM bandit_choose('hopeless', allowed => '{bad,worse}');
    END LOOP;
END
$$;
SELECT * FROM bandit_probabilities('hopeless');
SELECT mass, probability > 0 AND probability < 1 AS renormalised FROM dexp3.decision ORDER BY decision_id DESC LIMIT 1;
SELECT bandit_verify('hopeless'), (state ->> 'settled')::float8 AS settled, (state ->> 'cost')::float8 < 20 AS cost
FROM CAST(bandit_current_state('hopeless') AS jsonb) state;
SELECT bandit_drop('hopeless');

--
-- Time that has passed: the log is made older by hand
--

SELECT count(bandit_create('half-life ' || h, '{a,b,c}', half_life => h::interval, retention => '0'))
FROM unnest('{1 month,3 days,1 hour,1 ms}'::text[]) h;
INSERT INTO tuned.bandit SELECT bandit_id, name FROM dexp3.bandit WHERE name LIKE 'half-life%';
-- arm c never loses, so its sum of estimates is negative
SELECT count(bandit_feedback(c.decision_id, CASE WHEN c.arm = 'c' THEN 0 ELSE (1 + i % 7) / 8.0 END))
FROM generate_series(1, 40) i, tuned.bandit,
     bandit_choose_each(name, i, allowed => CASE WHEN i % 4 = 0 THEN '{c}' WHEN i % 4 = 1 THEN '{a,b}' END::text[]) c;
CREATE TABLE tuned.settled AS SELECT f.* FROM tuned.bandit JOIN dexp3.feedback f USING (bandit_id);

CREATE VIEW tuned.weighed AS
SELECT name, s.*, CASE WHEN age < 100 THEN 2 ^ -age ELSE 0 END AS w
FROM tuned.settled s JOIN dexp3.bandit b USING (bandit_id),
     LATERAL (SELECT (extract(epoch FROM statement_timestamp() - s.decided_at) / extract(epoch FROM b.half_life))::float8) a (age);

-- Is the state what it should be? Each settled decision counts by its age.
CREATE FUNCTION tuned.aged(bandit text, OUT sums boolean, OUT sound boolean) LANGUAGE sql AS $$
    SELECT tuned.difference(ARRAY[object ->> 'settled', object ->> 'total_loss', object ->> 'cost']::float8[] || z, expected) < 1e-9,
           abs(bandit_step_size(state) / ln(3) * reference.solve((object ->> 'cost')::float8, z) - 1) < 1e-9
               AND (SELECT abs(sum(p) - 1) < 1e-12 AND min(p) > 0 FROM unnest(bandit_probabilities(state)) p)
    FROM (SELECT bandit_current_state(bandit) AS state, bandit_current_state(bandit)::jsonb AS object) _,
         LATERAL (SELECT ARRAY(SELECT z::float8 FROM jsonb_array_elements_text(object -> 'z') z)) z (z),
         LATERAL (SELECT ARRAY[sum(w), sum(w * loss), sum(w * (loss - coalesce(baseline, 0)) * coalesce(mass, 1))]
                         || (SELECT array_agg(coalesce(sum, 0) ORDER BY i)
                             FROM (SELECT i, (SELECT sum(w * estimate) FROM tuned.weighed WHERE name = bandit AND arm = i)
                                   FROM generate_series(1, 3) i) _)
                  FROM tuned.weighed WHERE name = bandit) e (expected)
$$;

SELECT name, a.*, bandit_verify(name) FROM tuned.bandit, tuned.aged(name) a ORDER BY bandit_id;

-- 10 hours for each round
BEGIN;
UPDATE dexp3.decision SET decided_at = decided_at - (41 - round) * interval '10 hours' WHERE bandit_id IN (SELECT bandit_id FROM tuned.bandit);
UPDATE dexp3.feedback f SET decided_at = d.decided_at, received_at = d.decided_at
FROM dexp3.decision d WHERE d.decision_id = f.decision_id AND f.bandit_id IN (SELECT bandit_id FROM tuned.bandit);
UPDATE tuned.settled s SET decided_at = f.decided_at FROM dexp3.feedback f WHERE f.decision_id = s.decision_id;
COMMIT;
SELECT name, a.*, bandit_verify(name) FROM tuned.bandit, tuned.aged(name) a ORDER BY bandit_id;
SELECT name, round(sum(w)::numeric, 1) AS settled FROM tuned.weighed JOIN tuned.bandit USING (bandit_id, name) GROUP BY bandit_id, name ORDER BY bandit_id;

-- All is trimmed, and the sums are made anew.
SELECT name, bandit_trim(name) FROM tuned.bandit ORDER BY bandit_id;
\c -
BEGIN;
CLUSTER dexp3.trimmed_rows USING trimmed_rows_pkey;
SELECT name, a.*, bandit_verify(name) FROM tuned.bandit, tuned.aged(name) a ORDER BY bandit_id;
COMMIT;

-- What was settled when the clock was ahead makes no number infinite.
SELECT count(bandit_feedback(c.decision_id, i % 7 / 7.0)) FROM generate_series(1, 20) i, tuned.bandit, bandit_choose_each(name, i) c;
UPDATE dexp3.feedback SET decided_at = decided_at + interval '2 days' WHERE bandit_id IN (SELECT bandit_id FROM tuned.bandit);
SELECT name, a.sound, bandit_verify(name) FROM tuned.bandit, tuned.aged(name) a ORDER BY bandit_id;
SELECT name, bandit_feedback(decision_id, 1) FROM tuned.bandit, bandit_choose_each(name, 1) ORDER BY bandit_id;
SELECT name, a.sound, bandit_verify(name) FROM tuned.bandit, tuned.aged(name) a ORDER BY bandit_id;
SELECT count(bandit_drop(name)) FROM tuned.bandit;

--
-- Regret: 1.5 v - 0.5 K ln K, and 1 for each open decision, but not more than could be
-- lost at all; in units of the range
--

SELECT bandit_create('r proven', '{a,b}', optimism => 1),
       bandit_create('r units', '{a,b}', optimism => 1, loss_range => '{-10,30}'),
       bandit_create('r forgets', '{a,b}', optimism => 1, half_life => '1 hour'),
       bandit_create('r default', '{a,b}'),
       bandit_create('r changed', '{a,b,x}', optimism => 1),
       bandit_create('r dada', '{a,b}', 'dada'),
       bandit_create('r deda', '{a,b}', 'deda', max_delay => 1, loss_range => '{0,20}') \gset
SELECT bandit_retire_arm('r changed', 'x');
CREATE VIEW tuned.regret AS
SELECT name, round(bandit_regret_bound(name)::numeric, 6) AS bound, round(bandit_regret_estimate(name)::numeric, 6) AS estimate,
       (o.regret_bound, o.regret_estimate) IS NOT DISTINCT FROM (bandit_regret_bound(name), bandit_regret_estimate(name)) AS overview
FROM dexp3.bandit b JOIN dexp3.overview o ON o.bandit = b.name WHERE name LIKE 'r %' ORDER BY bandit_id;

-- Nothing can have been lost yet.
SELECT * FROM tuned.regret;
-- One open decision: 2 ln 2 + 1 is more than 1.
SELECT count(bandit_choose(name)) FROM dexp3.bandit WHERE name LIKE 'r %';
SELECT * FROM tuned.regret;
-- Nine that cost nothing, and one that is open: 2 ln 2 + 1 = 2.386294. With the
-- half-life the same. After an arm has retired, v = 3 ln 2 and the sum is
-- 4.5 ln 2 - ln 2 + 1 = 3.426015.
SELECT count(bandit_feedback(decision_id, loss_range[1]))
FROM dexp3.bandit JOIN dexp3.pending ON bandit = name WHERE name LIKE 'r %';
SELECT count(bandit_feedback(c.decision_id, loss_range[1]))
FROM generate_series(1, 8) i, dexp3.bandit b, bandit_choose_each(b.name, i) c WHERE name LIKE 'r %';
SELECT count(bandit_choose(name)) FROM dexp3.bandit WHERE name LIKE 'r %';
SELECT * FROM tuned.regret WHERE name NOT IN ('r dada', 'r deda');
-- The bound of the others is capped, too; estimates they have none.
SELECT name, bound <= rounds * (loss_range[2] - loss_range[1]) AS capped, estimate, overview
FROM tuned.regret JOIN dexp3.bandit USING (name) JOIN dexp3.overview ON bandit = name WHERE name IN ('r dada', 'r deda') ORDER BY name;
SELECT bandit_regret_estimate('nobody');
SELECT bandit_regret_estimate(NULL);
SELECT count(bandit_drop(name)) FROM (SELECT name FROM dexp3.bandit WHERE name LIKE 'r %' OFFSET 0) _;

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
SELECT bandit_create('refuses', '{a,b}') \gset
\pset format unaligned
\pset tuples_only
SELECT call || E'\n    ' || state || coalesce(' ' || message, '') || coalesce(E'\n        ' || nullif(detail, ''), '') || coalesce(E'\n        ' || nullif(hint, ''), '')
FROM (SELECT format('bandit_create(''wrong'', ''{a,b}'', %s)', argument)
      FROM unnest(ARRAY[
               $$skipping => true$$,
               $$skipping => true, feedback_window => '1 day'$$,
               $$patience => 5$$,
               $$max_delay => 5$$,
               $$step_scale => 0.5$$,
               $$algorithm => 'dada', optimism => 1$$,
               $$algorithm => 'dada-ix', half_life => '1 day'$$,
               $$algorithm => 'deda', max_delay => 1, half_life => '1 day'$$,
               $$optimism => NULL$$,
               $$optimism => 0$$,
               $$optimism => 1.01$$,
               $$optimism => 'NaN'$$,
               $$optimism => '-infinity'$$,
               $$half_life => '0'$$,
               $$half_life => '-1 second'$$,
               $$half_life => '1 day -25 hours'$$,
               $$half_life => '1000000 years'$$]) argument
      UNION ALL VALUES ($$bandit_choose('refuses', 3)$$), ($$bandit_choose('refuses', 0)$$), ($$bandit_choose_many('refuses', 3, delay => 1)$$),
                       ($$bandit_choose_each('refuses', 1, delay => 1)$$)) c (call),
     pg_temp.complaint(call);
\pset tuples_only
\pset format aligned
SELECT count(*) AS made FROM dexp3.bandit WHERE name = 'wrong';
SELECT bandit_drop('refuses');

SET client_min_messages = warning;
DROP SCHEMA tuned CASCADE;
