-- Managed bandits: the surface of their functions, tables and view; every outcome;
-- wrong arguments, after which nothing has changed; and how queries call
-- bandit_choose. That they learn what they should is in managed_reference.sql.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

SELECT setseed(0.5);

--
-- What there is
--

-- What writes, or reads what others have written since, is volatile and stays
-- out of parallel workers; no null argument makes a silent null of a result.
SELECT p.proname AS function, p.provolatile AS volatility, p.proparallel AS parallel,
       p.proisstrict AS strict, p.prosecdef AS definer,
       pg_get_function_arguments(p.oid) || ' -> ' || pg_get_function_result(p.oid) AS signature
FROM pg_proc p
JOIN pg_depend d ON (d.classid, d.objid, d.deptype) = ('pg_proc'::regclass, p.oid, 'e')
JOIN pg_extension e ON (d.refclassid, d.refobjid) = ('pg_extension'::regclass, e.oid) AND e.extname = 'dexp3'
WHERE p.proname IN ('bandit_create', 'bandit_drop', 'bandit_reset', 'bandit_grant', 'bandit_revoke',
                    'bandit_choose', 'bandit_choose_each', 'bandit_feedback', 'bandit_reward',
                    'bandit_feedback_trigger', 'bandit_current_state')
   OR p.proname = 'bandit_probabilities' AND p.proargtypes = ARRAY['text'::regtype]::oidvector
ORDER BY p.proname, p.oid;

-- The columns that users may rely on
SELECT c.name, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS not_null
FROM (SELECT t, t || '.' || c AS name, t::regclass AS relation, c AS attname, t_n, c_n
      FROM (VALUES (1, 'dexp3.bandit', '{bandit_id,name,arms,algorithm,skipping,patience,max_delay,step_scale}'::text[]),
                   (2, 'dexp3.decision', '{decision_id,bandit_id,round,arm,probability,gamma,decided_at}'),
                   (3, 'dexp3.feedback', '{decision_id,bandit_id,round,loss,received_at}'),
                   (4, 'dexp3.pending', '{decision_id,bandit,round,arm,probability,decided_at}')) v (t_n, t, columns),
           unnest(columns) WITH ORDINALITY u (c, c_n)) c
LEFT JOIN pg_attribute a ON a.attrelid = c.relation AND a.attname = c.attname
ORDER BY c.t_n, c.c_n;

-- Functions, relations and columns without a comment: none
SELECT p.oid::regprocedure::text AS object
FROM pg_proc p JOIN pg_depend d ON (d.classid, d.objid, d.deptype) = ('pg_proc'::regclass, p.oid, 'e')
JOIN pg_extension e ON (d.refclassid, d.refobjid) = ('pg_extension'::regclass, e.oid) AND e.extname = 'dexp3'
WHERE obj_description(p.oid, 'pg_proc') IS NULL
UNION ALL
SELECT c.oid::regclass::text
FROM pg_class c
WHERE c.relnamespace = 'dexp3'::regnamespace AND c.relkind NOT IN ('i', 'I') AND obj_description(c.oid, 'pg_class') IS NULL
UNION ALL
SELECT c.oid::regclass || '.' || a.attname
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = 'dexp3'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped
  AND col_description(c.oid, a.attnum) IS NULL
ORDER BY 1;

--
-- The life of a bandit
--

SELECT bandit_create('colour', ARRAY['red', 'green', 'blue'], 'dada') AS colour_id \gset
SELECT bandit_id = :colour_id AS id, name, arms, algorithm, skipping, patience, max_delay, step_scale
FROM dexp3.bandit WHERE name = 'colour';

SELECT * FROM bandit_probabilities('colour');
SELECT bandit_current_state('colour') = bandit_new(3, 'dada') AS is_new;

SELECT decision_id AS first, arm AS first_arm FROM bandit_choose('colour') \gset
SELECT :'first_arm' IN ('red', 'green', 'blue') AS known_arm;
SELECT d.bandit_id = :colour_id AS bandit, d.round, b.arms[d.arm] = :'first_arm' AS arm, d.probability, d.gamma,
       d.decided_at <= now() AND d.decided_at > now() - interval '1 hour' AS decided_at
FROM dexp3.decision d JOIN dexp3.bandit b USING (bandit_id) WHERE decision_id = :first;
SELECT decision_id = :first AS decision, bandit, round, arm = :'first_arm' AS arm, probability,
       decided_at = (SELECT d.decided_at FROM dexp3.decision d WHERE decision_id = :first) AS decided_at
FROM dexp3.pending WHERE bandit = 'colour';

-- No feedback, no preference
SELECT bool_and(abs(probability - 1 / 3.0) < 1e-15) AS uniform FROM bandit_probabilities('colour');
SELECT bandit_feedback(:first, 0.75);
SELECT count(*) AS pending FROM dexp3.pending WHERE bandit = 'colour';
SELECT bandit_id = :colour_id AS bandit, round, loss,
       received_at <= now() AND received_at > now() - interval '1 hour' AS received_at
FROM dexp3.feedback WHERE decision_id = :first;

-- The loss estimate is 0.75 * 3, the step size of the second round
-- sqrt(ln 3 / (2 * 3 + 0)) = 0.427904: e^(-0.427904 * 2.25) = 0.381828
SELECT arm = :'first_arm' AS chosen, round(probability::numeric, 6) AS probability
FROM bandit_probabilities('colour') ORDER BY chosen DESC, arm;
SELECT sum(abs(p.probability - s.probability)) = 0 AS same
FROM bandit_probabilities('colour') WITH ORDINALITY p (arm, probability, n)
JOIN unnest(bandit_probabilities(bandit_current_state('colour'))) WITH ORDINALITY s (probability, n) USING (n);
SELECT state ->> 'round' AS round, state -> 'open' AS open, state -> 'cumulative_delay' AS delay,
       bandit_step_size(bandit_current_state('colour'))::numeric(8, 6) AS step_size
FROM CAST(bandit_current_state('colour') AS jsonb) state;

-- A probability that is returned is the one that is stored, and one that was
-- foreseen.
CREATE TEMP TABLE chosen AS SELECT c.* FROM generate_series(1, 5) n, bandit_choose_each('colour', n) c;
SELECT count(*) AS decisions, bool_and(c.probability = d.probability AND c.arm = b.arms[d.arm]) AS stored
FROM chosen c JOIN dexp3.decision d USING (decision_id) JOIN dexp3.bandit b USING (bandit_id);
DROP TABLE chosen;
CREATE TEMP TABLE foreseen AS SELECT * FROM bandit_probabilities('colour');
SELECT c.probability = f.probability AS foreseen FROM bandit_choose('colour') c JOIN foreseen f USING (arm);

-- bandit_reset: a new start, with the same arms; feedback of the past is not wanted.
SELECT max(decision_id) AS open FROM dexp3.pending WHERE bandit = 'colour' \gset
SELECT bandit_reset('colour');
SELECT bandit_feedback(:first, 1) AS settled, bandit_feedback(:open, 1) AS open, bandit_reward(:open, 1) AS again;
SELECT bandit_current_state('colour') = bandit_new(3, 'dada') AS is_new;
SELECT count(*) AS pending FROM dexp3.pending WHERE bandit = 'colour';
SELECT bandit_id = :colour_id AS id, arms FROM dexp3.bandit WHERE name = 'colour';
SELECT decision_id AS first FROM bandit_choose('colour') \gset
SELECT round FROM dexp3.decision WHERE decision_id = :first;

-- bandit_drop: nothing is left, and the same name makes another bandit.
SELECT bandit_drop('colour');
SELECT (SELECT count(*) FROM dexp3.bandit WHERE bandit_id = :colour_id) AS bandit,
       (SELECT count(*) FROM dexp3.decision WHERE bandit_id = :colour_id) AS decision,
       (SELECT count(*) FROM dexp3.feedback WHERE bandit_id = :colour_id) AS feedback,
       (SELECT count(*) FROM dexp3.checkpoint WHERE bandit_id = :colour_id) AS checkpoint,
       (SELECT count(*) FROM dexp3.pending WHERE bandit = 'colour') AS pending;
SELECT bandit_create('colour', ARRAY['red', 'green', 'blue'], 'dada') <> :colour_id AS another;
SELECT bandit_current_state('colour') = bandit_new(3, 'dada') AS is_new;
SELECT bandit_drop('colour');

-- All of it can be rolled back.
BEGIN;
SELECT bandit_create('brief', '{a,b}', 'dada') IS NOT NULL AS created;
SELECT decision_id AS brief FROM bandit_choose('brief') \gset
SELECT bandit_feedback(:brief, 1);
ROLLBACK;
SELECT count(*) FROM dexp3.bandit WHERE name = 'brief';

SELECT bandit_create('brief', '{a,b}', 'dada') IS NOT NULL AS created;
SELECT decision_id AS brief FROM bandit_choose('brief') \gset
SELECT bandit_feedback(:brief, 1);
CREATE TEMP TABLE brief AS SELECT bandit_current_state('brief') AS state;
BEGIN;
SELECT bandit_reset('brief');
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('brief');
SELECT bandit_feedback(:brief, 1);
ROLLBACK;
SELECT bandit_feedback(:brief, 1), bandit_current_state('brief') = state AS same FROM brief;
BEGIN;
SAVEPOINT before;
SELECT bandit_drop('brief');
SAVEPOINT dropped;
\set VERBOSITY sqlstate
SELECT bandit_feedback(:brief, 1);
\set VERBOSITY default
ROLLBACK TO dropped;
SELECT bandit_create('brief', '{x,y,z}', 'dada') IS NOT NULL AS created;
SELECT arm IN ('x', 'y', 'z') AS another FROM bandit_choose('brief');
ROLLBACK TO before;
SELECT bandit_feedback(:brief, 1), bandit_current_state('brief') = state AS same FROM brief;
COMMIT;
-- A rolled-back reset and a later one may give an epoch the same number.
BEGIN;
SELECT bandit_reset('brief');
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('brief');
SELECT bandit_current_state('brief')::jsonb ->> 'round' AS round;
ROLLBACK;
SELECT bandit_reset('brief');
SELECT bandit_current_state('brief') = bandit_new(2, 'dada') AS is_new;
SELECT bandit_drop('brief');

--
-- What feedback can come to
--

SELECT bandit_create('sketchy', '{a,b,c}', 'dada', patience => 0) IS NOT NULL AS created;
SELECT decision_id AS skipped FROM bandit_choose('sketchy') \gset
SELECT decision_id AS second FROM bandit_choose('sketchy') \gset
SELECT decision_id AS third FROM bandit_choose('sketchy') \gset
SELECT d.round, f.round AS settled, f.loss
FROM dexp3.decision d JOIN dexp3.bandit b USING (bandit_id) LEFT JOIN dexp3.feedback f USING (decision_id)
WHERE b.name = 'sketchy' ORDER BY d.round;
SELECT bandit_feedback(:third, 0.25);
SELECT bandit_feedback(:third, 0.25) AS feedback, bandit_feedback(:third, 1) AS other_loss, bandit_reward(:third, 0) AS reward;
-- nothing was written, so the transaction had no identifier
BEGIN;
SELECT bandit_feedback(:third, 0.25), pg_current_xact_id_if_assigned() AS xact;
COMMIT;
SELECT bandit_feedback(:skipped, 0.25) AS feedback, bandit_feedback(:skipped, 1) AS again, bandit_reward(:skipped, 0.5) AS reward;
SELECT bandit_reward(:second, 0.125);
SELECT d.round, f.round AS settled, f.loss
FROM dexp3.decision d JOIN dexp3.bandit b USING (bandit_id) LEFT JOIN dexp3.feedback f USING (decision_id)
WHERE b.name = 'sketchy' ORDER BY d.round;

-- The limits of a loss; a decision and its feedback in one statement
SELECT loss, bandit_feedback(decision_id, loss), bandit_feedback(decision_id, loss) AS again
FROM unnest('{0,-0,1,5e-324}'::float8[]) loss, bandit_choose_each('sketchy', loss);
SELECT reward, bandit_reward(decision_id, reward), bandit_reward(decision_id, reward) AS again
FROM unnest('{0,-0,1,5e-324}'::float8[]) reward, bandit_choose_each('sketchy', reward);
SELECT f.loss
FROM dexp3.feedback f JOIN dexp3.bandit b USING (bandit_id)
WHERE b.name = 'sketchy' AND f.round > 3 ORDER BY f.round;

-- Feedback that is rolled back can be given again.
SELECT decision_id AS fourth FROM bandit_choose('sketchy') \gset
BEGIN;
SELECT bandit_feedback(:fourth, 0.5);
SELECT bandit_feedback(:fourth, 0.5);
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT bandit_feedback(:fourth, 0.5);
ROLLBACK TO s;
SELECT bandit_feedback(:fourth, 0.5);
RELEASE s;
SELECT bandit_feedback(:fourth, 0.5);
COMMIT;
SELECT bandit_feedback(:fourth, 0.5);

--
-- Names
--

CREATE TEMP TABLE name (n serial, name text);
INSERT INTO name (name)
VALUES ('it''s'), ('"quoted"'), ('a; DROP TABLE b'), (E'back\\slash'), (E'two\nlines'), ('%s %n'), ('$1'), (' '),
       ('Case'), ('case'), ('Ünïcödé 漢字 🎲'), (repeat('x', 1000)), ('dexp3.bandit'), ('{"version": 1}');
SELECT count(bandit_create(name, ARRAY[name, name || name, ''], 'dada')) AS created FROM name;
CREATE TEMP TABLE chosen AS SELECT n.name, c.* FROM name n, bandit_choose_each(n.name, n.n) c;
SELECT count(*) AS decisions, count(DISTINCT d.bandit_id) AS bandits, max(d.round) AS round,
       bool_and(c.arm = (ARRAY[c.name, c.name || c.name, ''])[d.arm]) AS arms
FROM chosen c JOIN dexp3.decision d USING (decision_id);
SELECT count(*) AS pending, bool_and(p.bandit = c.name AND p.arm = c.arm) AS names FROM chosen c JOIN dexp3.pending p USING (decision_id);
DROP TABLE chosen;
SELECT bool_and((SELECT array_agg(arm) FROM bandit_probabilities(name)) = ARRAY[name, name || name, '']) AS arms FROM name;
SELECT name, arms FROM dexp3.bandit WHERE name ~ 'two|漢';
SELECT count(bandit_drop(name)) AS dropped FROM name;

-- Arms in an array that does not begin at 1, the most arms, a domain
SELECT bandit_create('bounds', '[-1:2]={w,x,y,z}', 'dada') IS NOT NULL AS created;
SELECT array_agg(arm) AS arms FROM bandit_probabilities('bounds');
SELECT array_lower(arms, 1) AS lower, arms FROM dexp3.bandit WHERE name = 'bounds';
CREATE TEMP TABLE chosen AS SELECT c.* FROM generate_series(1, 50) n, bandit_choose_each('bounds', n) c;
SELECT count(*) AS decisions, bool_and(c.arm = b.arms[d.arm] AND c.arm = p.arm) AS arms
FROM chosen c
JOIN dexp3.decision d USING (decision_id) JOIN dexp3.bandit b USING (bandit_id) JOIN dexp3.pending p USING (decision_id);
DROP TABLE chosen;
SELECT bandit_drop('bounds');
SELECT bandit_create('most', ARRAY(SELECT 'arm ' || n FROM generate_series(1, 65535) n), 'dada') IS NOT NULL AS created;
SELECT count(*) AS arms, count(DISTINCT probability) AS probabilities FROM bandit_probabilities('most');
SELECT * FROM bandit_choose('most') \gset
SELECT :'arm' = 'arm ' || arm AS arm FROM dexp3.decision WHERE decision_id = :decision_id;
SELECT bandit_drop('most');
CREATE DOMAIN pg_temp.label AS text;
SELECT bandit_create('labels', '{x,y}'::pg_temp.label[]::text[], 'dada') IS NOT NULL AS created, bandit_drop('labels');

--
-- Wrong arguments
--

SELECT bandit_create('plain', '{a,b}', 'dada') IS NOT NULL AS created;
SELECT bandit_create('told', '{a,b}', 'deda') IS NOT NULL AS created;
SELECT bandit_create('bounded', '{a,b}', 'deda', max_delay => 3) IS NOT NULL AS created;
SELECT decision_id AS open FROM bandit_choose('plain') \gset
SELECT decision_id AS settled FROM bandit_choose('plain') \gset
SELECT bandit_feedback(:settled, 1);
SELECT decision_id AS old FROM bandit_choose('bounded') \gset
SELECT bandit_reset('bounded');
SELECT count(bandit_choose('told', delay => 2)) FROM generate_series(1, 3);
SELECT bandit_create('gone', '{a,b}', 'dada') IS NOT NULL AS created;
SELECT decision_id AS gone FROM bandit_choose('gone') \gset
SELECT bandit_drop('gone');

CREATE TABLE managed_before AS
SELECT b.name, b, bandit_current_state(b.name) AS state,
       (SELECT array_agg(d ORDER BY decision_id) FROM dexp3.decision d WHERE d.bandit_id = b.bandit_id) AS decisions,
       (SELECT array_agg(f ORDER BY decision_id) FROM dexp3.feedback f WHERE f.bandit_id = b.bandit_id) AS feedbacks
FROM dexp3.bandit b;

CREATE TEMP TABLE wrong (n serial, call text);
INSERT INTO wrong (call) VALUES
    ($$bandit_create(NULL, '{a,b}', 'dada')$$),
    ($$bandit_create('', '{a,b}', 'dada')$$),
    ($$bandit_create(repeat('x', 1001), '{a,b}', 'dada')$$),
    ($$bandit_create(repeat('é', 501), '{a,b}', 'dada')$$),
    ($$bandit_create('plain', '{a,b}', 'dada')$$),
    ($$bandit_create('plain', '{x,y}', 'deda')$$),
    ($$bandit_create('new', NULL, 'dada')$$),
    ($$bandit_create('new', '{}', 'dada')$$),
    ($$bandit_create('new', '{a}', 'dada')$$),
    ($$bandit_create('new', '[0:0]={a}', 'dada')$$),
    ($$bandit_create('new', '{a,NULL}', 'dada')$$),
    ($$bandit_create('new', '{NULL}', 'dada')$$),
    ($$bandit_create('new', '{a,b,a}', 'dada')$$),
    ($$bandit_create('new', '{"",b,""}', 'dada')$$),
    ($$bandit_create('new', '{{a,b},{c,d}}', 'dada')$$),
    ($$bandit_create('new', '{{a,b}}', 'dada')$$),
    ($$bandit_create('new', '{{{a}},{{b}}}', 'dada')$$),
    ($$bandit_create('new', ARRAY(SELECT n::text FROM generate_series(1, 65536) n), 'dada')$$),
    ($$bandit_create('new', '{a,b}', NULL)$$),
    ($$bandit_create('new', '{a,b}', '')$$),
    ($$bandit_create('new', '{a,b}', 'exp3')$$),
    ($$bandit_create('new', '{a,b}', 'Dada')$$),
    ($$bandit_create('new', '{a,b}', 'deda', skipping => true)$$),
    ($$bandit_create('new', '{a,b}', 'dada', patience => NULL)$$),
    ($$bandit_create('new', '{a,b}', 'dada', patience => -1)$$),
    ($$bandit_create('new', '{a,b}', 'dada', skipping => false, patience => -1)$$),
    ($$bandit_create('new', '{a,b}', 'deda', max_delay => -1)$$),
    ($$bandit_create('new', '{a,b}', 'dada', max_delay => 3)$$),
    ($$bandit_create('new', '{a,b}', 'dada-ix', max_delay => 0)$$),
    ($$bandit_create('new', '{a,b}', 'dada', step_scale => NULL)$$),
    ($$bandit_create('new', '{a,b}', 'dada', step_scale => 0)$$),
    ($$bandit_create('new', '{a,b}', 'dada', step_scale => -1)$$),
    ($$bandit_create('new', '{a,b}', 'dada', step_scale => 'NaN')$$),
    ($$bandit_create('new', '{a,b}', 'dada', step_scale => 'infinity')$$),
    ($$bandit_create('new', '{a,b}', 'deda', step_scale => 2)$$),
    ($$bandit_create(NULL, NULL, NULL, NULL, NULL, NULL, NULL)$$),
    ($$bandit_drop(NULL)$$),
    ($$bandit_drop('new')$$),
    ($$bandit_drop('')$$),
    ($$bandit_drop('Plain')$$),
    ($$bandit_drop('gone')$$),
    ($$bandit_reset(NULL)$$),
    ($$bandit_reset('new')$$),
    ($$bandit_grant(NULL, 'public')$$),
    ($$bandit_grant('plain', NULL)$$),
    ($$bandit_grant('new', 'public')$$),
    ($$bandit_grant('plain', 'no such role')$$),
    ($$bandit_revoke(NULL, 'public')$$),
    ($$bandit_revoke('plain', NULL)$$),
    ($$bandit_revoke('new', 'public')$$),
    ($$bandit_choose(NULL)$$),
    ($$bandit_choose('new')$$),
    ($$bandit_choose('')$$),
    ($$bandit_choose('plain ')$$),
    ($$bandit_choose('plain', 3)$$),
    ($$bandit_choose('plain', delay => 0)$$),
    ($$bandit_choose('told')$$),
    ($$bandit_choose('told', NULL)$$),
    ($$bandit_choose('told', -1)$$),
    ($$bandit_choose('told', -2147483648)$$),
    ($$bandit_choose('bounded', -1)$$),
    ($$bandit_choose(NULL, NULL)$$),
    ($$bandit_choose_each(NULL, 1)$$),
    ($$bandit_choose_each('new', 1)$$),
    ($$bandit_choose_each('plain', 1, 3)$$),
    ($$bandit_choose_each('told', 1)$$),
    ($$bandit_choose_each('told', 1, -1)$$),
    ($$bandit_feedback(NULL, 0.5)$$),
    ($$bandit_feedback(NULL, NULL)$$),
    ($$bandit_feedback(0, 0.5)$$),
    ($$bandit_feedback(-1, 0.5)$$),
    ($$bandit_feedback(9223372036854775807, 0.5)$$),
    ($$bandit_reward(NULL, 0.5)$$),
    ($$bandit_reward(NULL, NULL)$$),
    ($$bandit_reward(0, 0.5)$$),
    ($$bandit_probabilities(NULL::text)$$),
    ($$bandit_probabilities('new')$$),
    ($$bandit_current_state(NULL)$$),
    ($$bandit_current_state('new')$$),
    ($$bandit_feedback_trigger()$$),
    ($$set_config('dexp3.shared_memory', '63kB', false)$$),
    ($$set_config('dexp3.progress_interval', 'much', false)$$);

-- A wrong loss is an error whatever the decision's status; :open and the others
-- stand for decisions.
INSERT INTO wrong (call)
SELECT format('%s(:%s, %s)', function, decision, value)
FROM (VALUES (1, 'bandit_feedback', 'open', '{"NULL",''NaN'',''infinity'',''-infinity'',-0.001,1.001,-5e-324,1.0000000000000002,1e308}'::text[]),
             (2, 'bandit_feedback', 'settled', '{"NULL",''NaN'',2}'),
             (3, 'bandit_feedback', 'old', '{"NULL",''NaN'',2}'),
             (4, 'bandit_feedback', 'gone', '{"NULL",''NaN'',2,0.5}'),
             (5, 'bandit_reward', 'open', '{"NULL",''NaN'',''infinity'',''-infinity'',-0.001,1.001,-5e-324,1.0000000000000002,1e308}'),
             (6, 'bandit_reward', 'settled', '{"NULL",''NaN'',2}'),
             (7, 'bandit_reward', 'old', '{"NULL",''NaN'',2}'),
             (8, 'bandit_reward', 'gone', '{"NULL",''NaN'',2,0.5}')) v (n, function, decision, "values"),
     unnest("values") WITH ORDINALITY u (value, m)
ORDER BY n, m;

CREATE TEMP TABLE decision (name, decision_id) AS
VALUES ('open', :open), ('settled', :settled), ('old', :old), ('gone', :gone);

-- What a call says; decision identifiers, which differ from run to run, are
-- given their names.
CREATE FUNCTION pg_temp.complaint(call text, OUT state text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql AS $$
DECLARE
    decision_name text := substring(call FROM ':([a-z]+)');
    id text := (SELECT d.decision_id FROM decision d WHERE d.name = decision_name);
BEGIN
    EXECUTE 'SELECT ' || coalesce(replace(call, ':' || decision_name, id), call);
    state := 'none';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
                            detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    message := coalesce(replace(message, 'decision ' || id, 'decision :' || decision_name), message);
END
$$;

CREATE TEMP TABLE said AS
SELECT w.*, c.* FROM wrong w, pg_temp.complaint(w.call) c ORDER BY w.n;

\pset format unaligned
\pset tuples_only
SELECT call || E'\n    ' || state || ' ' || regexp_replace(message, ' \(64 .*', '')
       || CASE WHEN message ~ 'parameter' THEN ''
               ELSE coalesce(E'\n        ' || nullif(detail, ''), '') || coalesce(E'\n        ' || nullif(hint, ''), '') END
FROM said ORDER BY n;
\pset tuples_only
\pset format aligned

SELECT count(*) AS calls,
       count(*) FILTER (WHERE state = 'none') AS succeeded,
       count(*) FILTER (WHERE state LIKE 'XX%') AS internal,
       count(*) FILTER (WHERE message ~ '^[A-Z]|[.]$') AS bad_style,
       count(*) FILTER (WHERE detail <> '' AND detail !~ '^["A-Z].*[.]$' OR hint <> '' AND hint !~ '^[A-Z].*[.]$') AS bad_sentences
FROM said;

-- Nothing has changed, for this session and for a new one.
SELECT count(*) AS bandits,
       count(*) FILTER (WHERE m.b IS DISTINCT FROM b
            OR m.state IS DISTINCT FROM bandit_current_state(b.name)
            OR m.decisions IS DISTINCT FROM (SELECT array_agg(d ORDER BY decision_id) FROM dexp3.decision d WHERE d.bandit_id = b.bandit_id)
            OR m.feedbacks IS DISTINCT FROM (SELECT array_agg(f ORDER BY decision_id) FROM dexp3.feedback f WHERE f.bandit_id = b.bandit_id)) AS changed
FROM managed_before m FULL JOIN dexp3.bandit b USING (name);
\c -
SELECT count(*) AS bandits,
       count(*) FILTER (WHERE m.b IS DISTINCT FROM b
            OR m.state IS DISTINCT FROM bandit_current_state(b.name)
            OR m.decisions IS DISTINCT FROM (SELECT array_agg(d ORDER BY decision_id) FROM dexp3.decision d WHERE d.bandit_id = b.bandit_id)
            OR m.feedbacks IS DISTINCT FROM (SELECT array_agg(f ORDER BY decision_id) FROM dexp3.feedback f WHERE f.bandit_id = b.bandit_id)) AS changed
FROM managed_before m FULL JOIN dexp3.bandit b USING (name);
DROP TABLE managed_before;

-- An error in the middle of a statement takes the whole statement with it.
SELECT bandit_feedback(decision_id, CASE round WHEN 1 THEN 0.5 ELSE 2 END) FROM (SELECT * FROM dexp3.pending WHERE bandit = 'told' ORDER BY round) p;
SELECT count(*) AS pending FROM dexp3.pending WHERE bandit = 'told';
SELECT bandit_current_state('told')::jsonb ->> 'outstanding' AS outstanding;

--
-- Transactions that must not write
--

BEGIN READ ONLY;
SELECT count(*) AS arms FROM bandit_probabilities('plain');
SELECT bandit_current_state('plain')::jsonb ->> 'round' AS round;
\set VERBOSITY sqlstate
SAVEPOINT s;
SELECT bandit_choose('plain');
ROLLBACK TO s;
SELECT bandit_choose_each('plain', 1);
ROLLBACK TO s;
SELECT bandit_feedback(:open, 0.5);
ROLLBACK TO s;
SELECT bandit_feedback(:settled, 0.5);
ROLLBACK TO s;
SELECT bandit_reward(:open, 0.5);
ROLLBACK TO s;
SELECT bandit_create('new', '{a,b}', 'dada');
ROLLBACK TO s;
SELECT bandit_reset('plain');
ROLLBACK TO s;
SELECT bandit_drop('plain');
ROLLBACK TO s;
SELECT bandit_grant('plain', 'public');
ROLLBACK TO s;
SELECT bandit_revoke('plain', 'public');
ROLLBACK TO s;
\set VERBOSITY terse
SELECT bandit_choose('plain');
ROLLBACK TO s;
SELECT bandit_feedback(:open, 0.5);
ROLLBACK TO s;
SELECT bandit_reset('plain');
ROLLBACK;
\set VERBOSITY default

-- A transaction that used a bandit cannot be prepared.
BEGIN;
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('plain');
PREPARE TRANSACTION 'dexp3';
BEGIN;
SELECT bandit_feedback(:open, 0.5);
PREPARE TRANSACTION 'dexp3';
SELECT count(*) AS pending FROM dexp3.pending WHERE bandit = 'plain';

--
-- How queries call bandit_choose
--

CREATE TABLE visitor (id integer);
INSERT INTO visitor SELECT generate_series(1, 1000);
ALTER TABLE visitor SET (parallel_workers = 2);
ANALYZE visitor;
CREATE FUNCTION pg_temp.chosen() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT count(*) FROM dexp3.decision JOIN dexp3.bandit USING (bandit_id) WHERE name = 'plain'
$$;

-- Not in parallel workers, even if they cost nothing: the first plan has them.
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
EXPLAIN (COSTS OFF) SELECT abs(id) FROM visitor;
EXPLAIN (COSTS OFF) SELECT bandit_choose('plain') FROM visitor;
EXPLAIN (COSTS OFF) SELECT bandit_choose_each('plain', id) FROM visitor;
EXPLAIN (COSTS OFF) SELECT count(*) FROM visitor WHERE (bandit_choose('plain')).arm = 'a';
EXPLAIN (COSTS OFF) SELECT bandit_feedback(id, 0.5) FROM visitor;
EXPLAIN (COSTS OFF) SELECT bandit_reward(id, 0.5) FROM visitor;
EXPLAIN (COSTS OFF) SELECT bandit_probabilities('plain') FROM visitor;
EXPLAIN (COSTS OFF) SELECT bandit_current_state('plain') FROM visitor;

-- Nor pulled out of its row, although its arguments are constant.
EXPLAIN (VERBOSE, COSTS OFF) SELECT id, bandit_choose('plain') FROM visitor;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET max_parallel_workers_per_gather;

SELECT pg_temp.chosen() AS before \gset
SELECT count(bandit_choose('plain')) FROM visitor WHERE id <= 5;
SELECT pg_temp.chosen() - :before AS chosen;

-- Once for each column, that is three times for each row
SELECT pg_temp.chosen() AS before \gset
SELECT count(*) FROM (SELECT (bandit_choose('plain')).* FROM visitor WHERE id <= 5 OFFSET 0) c WHERE c IS NOT NULL;
SELECT pg_temp.chosen() - :before AS chosen;

-- In FROM, if it does not depend on the row: once for all rows
SELECT pg_temp.chosen() AS before \gset
SELECT count(*) AS rows, count(DISTINCT decision_id) AS decisions FROM visitor, bandit_choose('plain') WHERE id <= 5;
SELECT pg_temp.chosen() - :before AS chosen;
-- likewise in a subquery
SELECT count(*) AS rows, count(DISTINCT decision_id) AS decisions
FROM (SELECT (SELECT decision_id FROM bandit_choose('plain')) FROM visitor WHERE id <= 5) v;
SELECT pg_temp.chosen() - :before AS chosen;

-- The right forms, once for each row: all columns of bandit_choose_each in
-- FROM, or of a subquery's bandit_choose
SELECT pg_temp.chosen() AS before \gset
SELECT count(*) AS rows, count(DISTINCT decision_id) AS decisions, count(arm) AS arms, count(probability) AS probabilities
FROM visitor, bandit_choose_each('plain', id) WHERE id <= 5;
SELECT pg_temp.chosen() - :before AS chosen;
SELECT count(*) AS rows, count(DISTINCT decision_id) AS decisions
FROM (SELECT (SELECT decision_id FROM bandit_choose_each('plain', id)) FROM visitor WHERE id <= 5) v;
SELECT pg_temp.chosen() - :before AS chosen;
SELECT pg_temp.chosen() AS before \gset
SELECT count(*) AS rows, count(DISTINCT (c).decision_id) AS decisions, count((c).arm) AS arms, count((c).probability) AS probabilities
FROM (SELECT id, bandit_choose('plain') AS c FROM visitor WHERE id <= 5) v;
SELECT pg_temp.chosen() - :before AS chosen;

-- The value may be of any type, and null; with deda, the delay may be the row's.
SELECT pg_temp.chosen() AS before \gset
SELECT count(*) FROM (VALUES (1, 'x', now(), ARRAY[1]), (2, NULL, NULL, NULL)) v (a, b, c, d),
    bandit_choose_each('plain', a) x1, bandit_choose_each('plain', b) x2, bandit_choose_each('plain', c) x3,
    bandit_choose_each('plain', d) x4, bandit_choose_each('plain', v) x5;
SELECT pg_temp.chosen() - :before AS chosen;
SELECT count(*) AS decisions FROM visitor, bandit_choose_each('told', id, delay => id) WHERE id <= 5;
SELECT array_agg(delay ORDER BY round) AS delays FROM dexp3.decision JOIN dexp3.bandit USING (bandit_id) WHERE name = 'told';

DROP TABLE visitor;
SELECT count(bandit_drop(name)) AS dropped FROM dexp3.bandit WHERE name IN ('sketchy', 'plain', 'told', 'bounded');
SELECT (SELECT count(*) FROM dexp3.decision WHERE bandit_id NOT IN (SELECT bandit_id FROM dexp3.bandit)) AS decisions,
       (SELECT count(*) FROM dexp3.feedback WHERE bandit_id NOT IN (SELECT bandit_id FROM dexp3.bandit)) AS feedbacks,
       (SELECT count(*) FROM dexp3.checkpoint WHERE bandit_id NOT IN (SELECT bandit_id FROM dexp3.bandit)) AS checkpoints;
