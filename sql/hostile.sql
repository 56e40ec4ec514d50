-- Hostile surroundings: strange names and shapes, limits, tables and settings that
-- get in the way.  Whatever happens, the error is one of its kind, never an
-- internal one, nothing is left half done, and the session goes on.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

SELECT setseed(0.5);
CREATE SCHEMA hostile;

-- Run a statement, and tell its result or its error, without what is too long.
CREATE FUNCTION hostile.try(statement text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    EXECUTE statement INTO result;
    RETURN coalesce(result, 'null');
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || regexp_replace(SQLERRM, '(.)\1{20,}', '\1...');
END $$;

-- What a bandit has in the log: the numbers of decisions and settlements
CREATE FUNCTION hostile.log(bandit text, OUT decisions bigint, OUT settled bigint) LANGUAGE sql AS $$
    SELECT count(*), count(f.decision_id)
    FROM dexp3.decision d LEFT JOIN dexp3.feedback f USING (decision_id)
    WHERE d.bandit_id = (SELECT b.bandit_id FROM dexp3.bandit b WHERE b.name = log.bandit)
$$;

--
-- Names
--

CREATE TABLE hostile.name (n serial, name text);
INSERT INTO hostile.name (name) VALUES
    (''), (' '), ('"'), (''''''), ('\'), ('\\x00'), ($$'; DROP TABLE dexp3.bandit; --$$), ('%s%n'), ('$1'),
    (E'a\nb\tc\r'), (E'\u00e9'), (E'e\u0301'), (E'\U0001f3b0'), (E'\u202e'), ('NULL'), ('dexp3.bandit'),
    (repeat('x', 1000)), (repeat('x', 1001)), (repeat(E'\u00e9', 500)), (repeat(E'\u00e9', 501)), (repeat('x', 10000));

-- Each as the name of a bandit, which is used and dropped, and as one of an arm
CREATE FUNCTION hostile.use(bandit_name text, arm_name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    arm_names text[] = ARRAY[arm_name, 'another'];
    chosen record;
    outcome text;
BEGIN
    PERFORM bandit_create(bandit_name, arm_names, 'dada');
    SELECT * INTO chosen FROM bandit_choose(bandit_name);
    ASSERT chosen.arm = ANY (arm_names);
    ASSERT arm_names = ARRAY(SELECT arm FROM bandit_probabilities(bandit_name));
    ASSERT chosen.arm = (SELECT arm FROM dexp3.pending WHERE bandit = bandit_name);
    outcome := bandit_feedback(chosen.decision_id, 0.5);
    PERFORM bandit_reset(bandit_name), bandit_drop(bandit_name);
    RETURN outcome;
END $$;
SELECT n, length(name), octet_length(name),
       hostile.try(format('SELECT hostile.use(%L, %L)', name, 'x')) AS bandit,
       hostile.try(format('SELECT hostile.use(%L, %L)', 'of strange arms', name)) AS arm
FROM hostile.name ORDER BY n;

-- Unknown ones are named in the error.
SELECT count(*) AS unknown
FROM hostile.name, regexp_replace(format('42704: bandit "%s" does not exist', name), '(.)\1{20,}', '\1...') message
WHERE hostile.try(format('SELECT bandit_choose(%L)', name)) = message;

-- Names that look alike are different.
SELECT bandit_create(name, ARRAY['a', 'A', 'a ', E'a\u0301', E'\u00e1'], 'dada') IS NOT NULL AS created
FROM unnest(ARRAY['like', 'Like', 'like ', E'lik\u00e9', E'like\u0301']) AS name;
SELECT bandit_drop(name) FROM dexp3.bandit WHERE name ILIKE 'lik_%';

--
-- Shapes of arrays, and their limits
--

SELECT statement, hostile.try('SELECT ' || statement)
FROM unnest(ARRAY[
    $$bandit_create('shape', '{}', 'dada')$$,
    $$bandit_create('shape', '{a}', 'dada')$$,
    $$bandit_create('shape', '{a,NULL}', 'dada')$$,
    $$bandit_create('shape', '{{a,b},{c,d}}', 'dada')$$,
    $$bandit_create('shape', array_fill('a'::text, '{65536}'), 'dada')$$,
    $$bandit_create('shape', ARRAY(SELECT i::text FROM generate_series(1, 65536) i), 'dada')$$,
    $$bandit_new(65536, 'dada')$$,
    $$bandit_new(2147483647, 'dada')$$,
    $$bandit_simulate('{}', algorithm => 'dada')$$,
    $$bandit_simulate('{0,1}', algorithm => 'dada')$$,
    $$bandit_simulate('{{{0,1},{0,1}}}', algorithm => 'dada')$$,
    $$bandit_simulate('{{0,NULL}}', algorithm => 'dada')$$,
    $$bandit_simulate('{{0},{1}}', algorithm => 'dada')$$,
    $$bandit_simulate('{{0,1},{0,1}}', '{}', 'dada')$$,
    $$bandit_simulate('{{0,1},{0,1}}', '{{0},{0}}', 'dada')$$,
    $$bandit_simulate('{{0,1},{0,1}}', '{0,0,0}', 'dada')$$,
    $$bandit_simulate(array_fill(0::float8, '{2,65536}'), algorithm => 'dada')$$]) AS statement;

-- Other lower bounds are no difference.
SELECT bandit_create('shape', '[-1:1]={a,b,c}', 'dada') IS NOT NULL AS created;
SELECT arms FROM dexp3.bandit WHERE name = 'shape';
SELECT bandit_drop('shape');
SELECT count(*) AS rounds, count(*) FILTER (WHERE a = b) AS same
FROM bandit_simulate('[5:6][-3:-2]={{0,1},{1,0}}', '[0:1]={1,0}', 'dada', seed => 1) a
     JOIN bandit_simulate('{{0,1},{1,0}}', '{1,0}', 'dada', seed => 1) b USING (round);

-- As many arms as possible, with long names
SELECT bandit_create('crowded', ARRAY(SELECT i || repeat('x', 100) FROM generate_series(1, 65535) i), 'dada') > 0 AS created;
SELECT count(*) AS decisions, min(bandit_feedback(c.decision_id, 1)) AS outcome, min(length(c.arm)) > 100 AS long
FROM generate_series(1, 10) i, bandit_choose_each('crowded', i) c;
SELECT count(*) AS arms, round(sum(probability)::numeric, 9) AS sum FROM bandit_probabilities('crowded');
SELECT bandit_drop('crowded');
SELECT count(*) AS rounds FROM bandit_simulate(array_fill(0.5::float8, '{20,65535}'), algorithm => 'deda', max_delay => 2);

-- Text that is large for its length
SELECT hostile.try(format(
    'SELECT %L::bandit_state', '{"version": 1, "algorithm": "dada", "arms": 2, "skipping": true, "patience": 2147483647, '
    || '"step_scale": 1, "round": 4000000000, "open": [' || open || '], "cumulative_delay": 0, "z": [' || z || ']}'))
FROM (VALUES ('', '1e131071, 0'), ('', '1e999999, 0'), ('', '1e-99999, 0'), ('1, 4000000000', '0, 0'),
             ('1e131071', '0, 0'), ('', repeat('9', 100000) || ', 0')) v (open, z);
SELECT hostile.try(format('SELECT %L::bandit_state', repeat(bracket, 1000000))) FROM unnest('{[,"{\"a\":"}'::text[]) bracket;

--
-- Tables of the same names in front of ours, and tables with strange columns
--

CREATE TEMP TABLE bandit (trap text);
CREATE TEMP TABLE decision AS SELECT 'trap' AS decision_id;
CREATE TEMP TABLE feedback (decision_id bigint, loss float8);
CREATE TEMP TABLE checkpoint (bandit_id text);
CREATE TEMP TABLE pending (trap text);
CREATE TEMP SEQUENCE decision_id_seq START 1000000000;
CREATE TEMP SEQUENCE bandit_id_seq START 1000000000;
SELECT hostile.use('surrounded', 'arm');

CREATE TABLE hostile."dexp3.feedback" ("decision id" integer, "'l""\" numeric, loss text, decision_id date);
CREATE TRIGGER "; --" AFTER INSERT ON hostile."dexp3.feedback" REFERENCING NEW TABLE AS decision
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision id', $$'l"\$$);
SELECT hostile.try($$INSERT INTO hostile."dexp3.feedback" VALUES (-1, 0.5)$$);
SELECT bandit_create('surrounded', '{a,b}', 'dada') IS NOT NULL AS created;
INSERT INTO hostile."dexp3.feedback" SELECT decision_id, 1 FROM bandit_choose('surrounded');
SELECT * FROM hostile.log('surrounded');
DROP TABLE pg_temp.bandit, pg_temp.decision, pg_temp.feedback, pg_temp.checkpoint, pg_temp.pending;
DROP SEQUENCE pg_temp.decision_id_seq, pg_temp.bandit_id_seq;

--
-- Tables and types that their owner has changed
--

BEGIN;
ALTER TYPE bandit_ticket ADD ATTRIBUTE trap text;
SELECT hostile.try($$SELECT bandit_draw(bandit_new(2, 'dada'))$$);
SELECT hostile.try($$SELECT bandit_learn(bandit_new(2, 'dada'), (1, 1, 0.5, 0, 0, 0, 'trap'), 0.5)$$);
ALTER TYPE bandit_ticket DROP ATTRIBUTE trap, ALTER ATTRIBUTE arm TYPE text;
SELECT hostile.try($$SELECT bandit_draw(bandit_new(2, 'dada'))$$);
ROLLBACK;
SELECT (ticket).round FROM bandit_draw(bandit_new(2, 'dada'));

BEGIN;
ALTER TABLE dexp3.bandit ALTER owner DROP NOT NULL;
CREATE FUNCTION hostile.changed(change text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('UPDATE dexp3.bandit SET %s WHERE name = %L', change, 'surrounded');
    PERFORM bandit_choose('surrounded');
    RAISE 'still of use';
END $$;
SELECT change, hostile.try(format('SELECT hostile.changed(%L)', change))
FROM unnest(ARRAY['arms = ''{a}''', 'arms = ''{a,NULL}''', 'arms = ''{{a,b}}''', 'owner = NULL', 'owner = ''nobody''',
                  'algorithm = ''exp4''', 'patience = -1', 'step_scale = ''NaN''', 'epoch = -1',
                  'grantees = ''{NULL}''']) AS change;
ROLLBACK;
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('surrounded');
SELECT * FROM hostile.log('surrounded');

--
-- Read only
--

SELECT decision_id AS open FROM bandit_choose('surrounded') \gset
BEGIN READ ONLY;
SELECT statement, hostile.try('SELECT ' || replace(statement, 'open', :'open'))
FROM unnest(ARRAY[
    $$bandit_create('read only', '{a,b}', 'dada')$$,
    $$bandit_choose('surrounded')$$,
    $$bandit_choose_each('surrounded', 1)$$,
    $$bandit_feedback(open, 0.5)$$,
    $$bandit_reward(open, 0.5)$$,
    $$bandit_reset('surrounded')$$,
    $$bandit_grant('surrounded', 'public')$$,
    $$bandit_revoke('surrounded', 'public')$$,
    $$bandit_drop('surrounded')$$,
    $$count(*) FROM bandit_probabilities('surrounded')$$,
    $$bandit_current_state('surrounded') IS NOT NULL$$,
    $$count(*) FROM bandit_simulate('{{0,1}}', algorithm => 'dada')$$]) AS statement;
COMMIT;
SELECT bandit_feedback(:open, 0.5);

--
-- Event triggers: no function of the extension is DDL, and what is fails as a whole
--

CREATE FUNCTION hostile.refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE 'refused: %', tg_event;
END $$;
BEGIN;
CREATE EVENT TRIGGER regress_dexp3_start ON ddl_command_start EXECUTE FUNCTION hostile.refuse();
SELECT hostile.use('watched', 'arm');
SELECT hostile.try('DROP EXTENSION dexp3 CASCADE');
ROLLBACK;
BEGIN;
CREATE EVENT TRIGGER regress_dexp3_drop ON sql_drop EXECUTE FUNCTION hostile.refuse();
CREATE EVENT TRIGGER regress_dexp3_end ON ddl_command_end EXECUTE FUNCTION hostile.refuse();
SELECT hostile.use('watched', 'arm');
SET LOCAL client_min_messages = warning;
SELECT hostile.try('DROP EXTENSION dexp3 CASCADE');
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('surrounded');
ROLLBACK;

--
-- Too deep
--

SET max_stack_depth = '100kB';
CREATE FUNCTION hostile.deeper() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM bandit_feedback(decision_id, 0.5) FROM bandit_choose('surrounded');
    RETURN hostile.deeper();
END $$;
CREATE TABLE hostile.echo (decision_id bigint, loss float8);
CREATE FUNCTION hostile.echo() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO hostile.echo SELECT decision_id, 0.5 FROM bandit_choose('surrounded');
    RETURN NULL;
END $$;
CREATE TRIGGER a_feedback AFTER INSERT ON hostile.echo FOR EACH ROW
    EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'loss');
CREATE TRIGGER b_echo AFTER INSERT ON hostile.echo FOR EACH ROW EXECUTE FUNCTION hostile.echo();
SELECT * FROM hostile.log('surrounded');
SELECT hostile.try('SELECT hostile.deeper()');
SELECT hostile.try($$INSERT INTO hostile.echo SELECT decision_id, 0.5 FROM bandit_choose('surrounded')$$);
RESET max_stack_depth;
SELECT * FROM hostile.log('surrounded');

--
-- Settings
--

SELECT statement, left(hostile.try(statement), 5) AS sqlstate
FROM unnest(ARRAY['SET dexp3.shared_memory = 0', 'SET dexp3.shared_memory = -1', 'SET dexp3.progress_interval = -1',
                  'SET dexp3.progress_interval = ''soon''', 'SET dexp3.trap = 1']) AS statement;

-- After all that the session knows what a new one knows.
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('surrounded');
SELECT bandit_current_state('surrounded') AS here \gset
\c -
SELECT bandit_current_state('surrounded') = :'here' AS same;
SELECT * FROM hostile.log('surrounded');

SELECT bandit_drop('surrounded');
SET client_min_messages = warning;
DROP SCHEMA hostile CASCADE;
