-- Bad input: wrong values for every argument of every function on values. Each is
-- refused with the SQLSTATE of its kind and a message that says what is wrong.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

-- A bandit of each kind, with 3 arms, that has played 10 rounds
CREATE FUNCTION pg_temp.bandit(kind text) RETURNS bandit_state
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE kind
        WHEN 'dada' THEN '{"version": 1, "algorithm": "dada", "arms": 3, "skipping": false, "step_scale": 1, "round": 10, "outstanding": 2, "cumulative_delay": 5, "z": [1, 2, 3]}'
        WHEN 'dada-ix' THEN '{"version": 1, "algorithm": "dada-ix", "arms": 3, "skipping": false, "step_scale": 1, "round": 10, "outstanding": 2, "cumulative_delay": 5, "z": [1, 2, 3]}'
        WHEN 'skipping' THEN '{"version": 1, "algorithm": "dada", "arms": 3, "skipping": true, "patience": 100, "step_scale": 1, "round": 10, "open": [7, 9], "cumulative_delay": 5, "z": [1, 2, 3]}'
        WHEN 'deda' THEN '{"version": 1, "algorithm": "deda", "arms": 3, "max_delay": null, "round": 10, "outstanding": 2, "cumulative_delay": 5, "longest_delay": 2, "lbck": 1, "z": [1, 2, 3], "m": [0.5, 1, 1.5], "z_tie": [0, 0, 1], "m_tie": [0, 0, 0.5]}'
        WHEN 'deda 4' THEN '{"version": 1, "algorithm": "deda", "arms": 3, "max_delay": 4, "round": 10, "outstanding": 2, "cumulative_delay": 5, "longest_delay": 4, "lbck": 1, "z": [1, 2, 3], "m": [0.5, 1, 1.5], "z_tie": [0, 0, 1], "m_tie": [0, 0, 0.5]}'
    END::bandit_state
$$;

CREATE TEMP TABLE wrong (n serial, function text, argument text, call text);

--
-- What makes a bandit, in all functions that take it
--

INSERT INTO wrong (function, argument, call)
SELECT function, argument, format(call, value)
FROM (VALUES (1, 'bandit_new', 'bandit_new(3, %s)'),
             (2, 'bandit_simulate', 'bandit_simulate(''{{0,1},{1,0}}'', %s)'),
             (3, 'bandit_rehearse', 'bandit_rehearse(''{a,b}'', ''{0,1}'', %s)')) f (f, function, call),
     (VALUES (1, 'algorithm', $$algorithm => NULL$$),
             (2, 'algorithm', $$algorithm => ''$$),
             (3, 'algorithm', $$algorithm => 'exp3'$$),
             (4, 'algorithm', $$algorithm => 'DADA'$$),
             (5, 'algorithm', $$algorithm => 'dada '$$),
             (6, 'algorithm', $$algorithm => 'dada_ix'$$),
             (7, 'algorithm', $$algorithm => E'dada\n'$$),
             (8, 'skipping', $$algorithm => 'deda', skipping => true$$),
             (9, 'skipping', $$algorithm => 'dada', skipping => 'maybe'$$),
             (10, 'patience', $$algorithm => 'dada', patience => NULL$$),
             (11, 'patience', $$algorithm => 'dada', patience => -1$$),
             (12, 'patience', $$algorithm => 'dada', patience => -2147483648$$),
             (13, 'patience', $$algorithm => 'dada', skipping => false, patience => -1$$),
             (14, 'patience', $$algorithm => 'deda', patience => -1$$),
             (15, 'patience', $$algorithm => 'dada', patience => '2147483648'$$),
             (16, 'max_delay', $$algorithm => 'deda', max_delay => -1$$),
             (17, 'max_delay', $$algorithm => 'deda', max_delay => -2147483648$$),
             (18, 'max_delay', $$algorithm => 'dada', max_delay => 10$$),
             (19, 'max_delay', $$algorithm => 'dada', max_delay => -1$$),
             (20, 'max_delay', $$algorithm => 'dada-ix', max_delay => 0$$),
             (21, 'step_scale', $$algorithm => 'dada', step_scale => NULL$$),
             (22, 'step_scale', $$algorithm => 'dada', step_scale => 0$$),
             (23, 'step_scale', $$algorithm => 'dada', step_scale => '-0'$$),
             (24, 'step_scale', $$algorithm => 'dada', step_scale => -1$$),
             (25, 'step_scale', $$algorithm => 'dada', step_scale => 'NaN'$$),
             (26, 'step_scale', $$algorithm => 'dada', step_scale => 'infinity'$$),
             (27, 'step_scale', $$algorithm => 'dada', step_scale => '-infinity'$$),
             (28, 'step_scale', $$algorithm => 'dada', step_scale => -5e-324::float8$$),
             (29, 'step_scale', $$algorithm => 'dada-ix', step_scale => 'NaN'$$),
             (30, 'step_scale', $$algorithm => 'deda', step_scale => 2$$),
             (31, 'step_scale', $$algorithm => 'deda', step_scale => 1.0000000000000002::float8$$),
             (32, 'step_scale', $$algorithm => 'deda', step_scale => 'NaN'$$),
             (33, 'skipping', $$skipping => true$$),
             (34, 'patience', $$patience => 99$$),
             (35, 'max_delay', $$max_delay => 0$$),
             (36, 'step_scale', $$step_scale => 2$$),
             (37, 'optimism', $$optimism => NULL$$),
             (38, 'optimism', $$optimism => 0$$),
             (39, 'optimism', $$optimism => -0.25$$),
             (40, 'optimism', $$optimism => 1.0000000000000002::float8$$),
             (41, 'optimism', $$optimism => 'NaN'$$),
             (42, 'optimism', $$algorithm => 'dada', optimism => 1$$),
             (43, 'optimism', $$algorithm => 'deda', optimism => NULL$$),
             (44, 'half_life', $$half_life => 0$$),
             (45, 'half_life', $$half_life => -1$$),
             (46, 'half_life', $$half_life => 0.0009$$),
             (47, 'half_life', $$half_life => 1e16$$),
             (48, 'half_life', $$half_life => 'NaN'$$),
             (49, 'half_life', $$algorithm => 'dada-ix', half_life => 10$$)) v (v, argument, value)
ORDER BY f, v;

--
-- bandit_new
--

INSERT INTO wrong (function, argument, call)
SELECT 'bandit_new', 'arms', call
FROM unnest(ARRAY[
    $$bandit_new(NULL, 'dada')$$,
    $$bandit_new(1, 'dada')$$,
    $$bandit_new(0, 'dada')$$,
    $$bandit_new(-3, 'dada')$$,
    $$bandit_new(65536, 'dada')$$,
    $$bandit_new(2147483647, 'dada')$$,
    $$bandit_new(-2147483648, 'dada')$$,
    $$bandit_new('three', 'dada')$$]) call;

--
-- bandit_draw, and the other functions that take a state
--

INSERT INTO wrong (function, argument, call)
SELECT function, 'state', call
FROM (VALUES ('bandit_draw', $$bandit_draw(NULL)$$),
             ('bandit_draw', $$bandit_draw(NULL, 3)$$),
             ('bandit_draw', $$bandit_draw('')$$),
             ('bandit_draw', $$bandit_draw('{}')$$),
             ('bandit_probabilities', $$bandit_probabilities('[0.5, 0.5]'::bandit_state)$$),
             ('bandit_step_size', $$bandit_step_size('{"version": 2}')$$),
             ('bandit_learn', $$bandit_learn(NULL, ROW(7, 1, 0.5, 0, 0, 0), 0.5)$$),
             ('bandit_learn', $$bandit_learn('null', ROW(7, 1, 0.5, 0, 0, 0), 0.5)$$)) v (function, call);

INSERT INTO wrong (function, argument, call)
SELECT 'bandit_draw', 'delay', call
FROM unnest(ARRAY[
    $$bandit_draw(pg_temp.bandit('deda'))$$,
    $$bandit_draw(pg_temp.bandit('deda'), NULL)$$,
    $$bandit_draw(pg_temp.bandit('deda'), -1)$$,
    $$bandit_draw(pg_temp.bandit('deda'), -2147483648)$$,
    $$bandit_draw(pg_temp.bandit('deda 4'), -1)$$,
    $$bandit_draw(pg_temp.bandit('dada'), 0)$$,
    $$bandit_draw(pg_temp.bandit('dada'), -1)$$,
    $$bandit_draw(pg_temp.bandit('dada-ix'), 3)$$,
    $$bandit_draw(pg_temp.bandit('skipping'), 3)$$]) call;

--
-- bandit_learn
--

INSERT INTO wrong (function, argument, call)
SELECT 'bandit_learn', 'loss', format('bandit_learn(pg_temp.bandit(%L), ROW(7, 1, 0.5, 0, 0, 0), %s)', kind, loss)
FROM unnest(ARRAY['dada', 'skipping']) kind,
     unnest(ARRAY['NULL', $$'NaN'$$, $$'infinity'$$, $$'-infinity'$$, '-1', '2', '-5e-324::float8', '1.0000000000000002::float8', '1e308']) loss
-- also if the round is not open any more
UNION ALL
SELECT 'bandit_learn', 'loss', $$bandit_learn(pg_temp.bandit('skipping'), ROW(8, 1, 0.5, 0, 0, 0), 2)$$;

INSERT INTO wrong (function, argument, call)
SELECT 'bandit_learn', 'ticket', format('bandit_learn(pg_temp.bandit(%L), %s, 0.5)', kind, ticket)
FROM (VALUES (1, 'dada', ARRAY['NULL',
                 'ROW(NULL, 1, 0.5, 0, 0, 0)', 'ROW(7, NULL, 0.5, 0, 0, 0)', 'ROW(7, 1, NULL, 0, 0, 0)',
                 'ROW(7, 1, 0.5, NULL, 0, 0)', 'ROW(7, 1, 0.5, 0, NULL, 0)', 'ROW(7, 1, 0.5, 0, 0, NULL)',
                 'ROW(NULL, NULL, NULL, NULL, NULL, NULL)',
                 'ROW(7, 1, 0.5)', 'ROW(7, 1, 0.5, 0, 0, 0, 0)', '''(7,1,0.5)''', '''(7,1,half,0,0,0)''', '''{"round": 7}''',
                 'ROW(''x'', 1, 0.5, 0, 0, 0)', 'ROW(7, 2147483648, 0.5, 0, 0, 0)',
                 'ROW(0, 1, 0.5, 0, 0, 0)', 'ROW(-1, 1, 0.5, 0, 0, 0)', 'ROW(11, 1, 0.5, 0, 0, 0)',
                 'ROW(9223372036854775807, 1, 0.5, 0, 0, 0)', 'ROW(-9223372036854775808, 1, 0.5, 0, 0, 0)',
                 'ROW(7, 0, 0.5, 0, 0, 0)', 'ROW(7, -1, 0.5, 0, 0, 0)', 'ROW(7, 4, 0.5, 0, 0, 0)',
                 'ROW(7, 2147483647, 0.5, 0, 0, 0)', 'ROW(7, -2147483648, 0.5, 0, 0, 0)',
                 'ROW(7, 1, 0, 0, 0, 0)', 'ROW(7, 1, ''-0'', 0, 0, 0)', 'ROW(7, 1, -0.5, 0, 0, 0)', 'ROW(7, 1, 1.0000000000000002, 0, 0, 0)',
                 'ROW(7, 1, ''NaN'', 0, 0, 0)', 'ROW(7, 1, ''infinity'', 0, 0, 0)', 'ROW(7, 1, ''-infinity'', 0, 0, 0)',
                 'ROW(7, 1, 5e-324, 0, 0, 0)', 'ROW(7, 1, 5.56e-309, 0, 0, 0)',
                 'ROW(7, 1, 0.5, 0.1, 0, 0)', 'ROW(7, 1, 0.5, ''NaN'', 0, 0)', 'ROW(7, 1, 0.5, -0.1, 0, 0)',
                 'ROW(7, 1, 0.5, 0, ''NaN'', 0)', 'ROW(7, 1, 0.5, 0, 0, ''NaN'')', 'ROW(7, 1, 0.5, 0, -1, 0)', 'ROW(7, 1, 0.5, 0, 0, -1)',
                 'ROW(7, 1, 0.5, 0, ''infinity'', 0)', 'ROW(7, 1, 0.5, 0, 0, ''-infinity'')']),
             (2, 'skipping', ARRAY['NULL',
                 'ROW(11, 1, 0.5, 0, 0, 0)', 'ROW(0, 1, 0.5, 0, 0, 0)', 'ROW(7, 4, 0.5, 0, 0, 0)', 'ROW(7, 0, 0.5, 0, 0, 0)',
                 'ROW(7, 1, 0, 0, 0, 0)', 'ROW(7, 1, 0.5, 0.1, 0, 0)',
                 -- a wrong ticket is wrong, open or not
                 'ROW(8, 4, 0.5, 0, 0, 0)', 'ROW(8, 1, 2, 0, 0, 0)']),
             (3, 'dada-ix', ARRAY[
                 'ROW(7, 1, 0.5, ''NaN'', 0, 0)', 'ROW(7, 1, 0.5, ''infinity'', 0, 0)', 'ROW(7, 1, 0.5, ''-infinity'', 0, 0)',
                 'ROW(7, 1, 0.5, -0.1, 0, 0)', 'ROW(7, 1, 5e-324, 5e-324, 0, 0)', 'ROW(7, 1, 0, 0.1, 0, 0)']),
             (4, 'deda', ARRAY[
                 'ROW(7, 1, 0.5, ''NaN'', 1, 0.5)', 'ROW(7, 1, 0.5, 0.1, 1.0000000000000002, 0.5)', 'ROW(7, 1, 0.5, 0.1, 1, 0.5000000000000001)',
                 'ROW(7, 1, 0.5, 0.1, 2, 1)', 'ROW(7, 1, 0.5, 0.1, ''infinity'', 0)', 'ROW(7, 1, 0.5, 0.1, ''NaN'', ''NaN'')',
                 'ROW(7, 1, 0.5, 0.1, -1, 0)', 'ROW(7, 1, 0.5, 0.1, 0, -1)', 'ROW(7, 4, 0.5, 0.1, 0, 0)'])) v (n, kind, tickets),
     unnest(tickets) WITH ORDINALITY t (ticket, i)
ORDER BY v.n, t.i;

--
-- bandit_simulate
--

INSERT INTO wrong (function, argument, call)
SELECT 'bandit_simulate', 'losses', format('bandit_simulate(%s)', losses)
FROM unnest(ARRAY[
    'NULL', $$'{}'$$, $$'{0,1}'$$, $$'{{{0,1},{1,0}}}'$$,
    $$'{{0.5}}'$$, $$'{{0.5},{0.5}}'$$, $$array_fill(0.5::float8, ARRAY[1, 65536])$$,
    $$'{{0,1},{NULL,0}}'$$, $$'{{0,1},{NaN,0}}'$$, $$'{{0,1},{infinity,0}}'$$, $$'{{0,1},{-infinity,0}}'$$,
    $$'{{0,1},{-0.001,0}}'$$, $$'{{0,1},{0,1.001}}'$$, $$'{{0,1},{0,1e308}}'$$, $$'{{0,1},{0,-5e-324}}'$$,
    $$'{{0,1},{1}}'$$, $$ARRAY[ARRAY[0, 1], ARRAY[1]]$$, $$'{{0,1},{x,0}}'$$, $$'{{0,1}'$$, $$'[[0,1],[1,0]]'$$,
    $$ARRAY[['0', '1']]$$]) losses;

INSERT INTO wrong (function, argument, call)
SELECT 'bandit_simulate', 'delays', format('bandit_simulate(''{{0,1},{1,0}}'', %s)', delays)
FROM unnest(ARRAY[
    $$'{}'$$, $$'{0}'$$, $$'{0,0,0}'$$, $$'{NULL}'$$, $$'{{0,0}}'$$, $$'{{0},{0}}'$$, $$'{{0,0},{0,0},{0,0}}'$$,
    $$'{{0,0,0},{0,0,0}}'$$, $$'{{{0,0},{0,0}}}'$$, $$'{{0,0},{NULL,-1}}'$$, $$'{{0,0},{0,0}}', 'deda'$$,
    $$'{0,-1}'$$, $$'{NULL,-2147483648}'$$, $$'{0,2147483648}'$$, $$'{0,0.5}'$$, $$'{0,never}'$$, $$ARRAY[1.5, 2]$$,
    $$'{0,-1}', 'deda'$$, $$'{0}', 'deda', max_delay => 3$$]) delays;

INSERT INTO wrong (function, argument, call)
SELECT 'bandit_simulate', 'seed', format('bandit_simulate(''{{0,1},{1,0}}'', seed => %s)', seed)
FROM unnest(ARRAY[$$'9223372036854775808'$$, $$'0.5'$$, $$0.5$$]) seed;

-- windows, in both functions that take them
INSERT INTO wrong (function, argument, call)
SELECT function, argument, format(call, value)
FROM (VALUES (1, 'bandit_simulate', 'bandit_simulate(''{{0,1},{1,0}}'', %s)'),
             (2, 'bandit_rehearse', 'bandit_rehearse(''{a,b}'', ''{0,1}'', %s)')) f (f, function, call),
     (VALUES (1, 'feedback_window', $$feedback_window => -1$$),
             (2, 'feedback_window', $$feedback_window => -2147483648$$),
             (3, 'feedback_window', $$feedback_window => '1 day'$$),
             (4, 'feedback_window', $$feedback_window => 1.5$$),
             (5, 'missing_loss', $$feedback_window => 1, missing_loss => 1.1$$),
             (6, 'missing_loss', $$feedback_window => 1, missing_loss => -0.1$$),
             (7, 'missing_loss', $$missing_loss => 'NaN'$$),
             (8, 'missing_loss', $$missing_loss => 'infinity'$$)) v (n, argument, value)
ORDER BY f, n;

--
-- bandit_rehearse
--

INSERT INTO wrong (function, argument, call)
SELECT 'bandit_rehearse', argument, format('bandit_rehearse(%s)', arguments)
FROM (VALUES (1, 'arms', $$NULL, '{0,1}'$$),
             (2, 'arms', $$'{}', '{}'$$),
             (3, 'arms', $$'{a}', '{0}'$$),
             (4, 'arms', $$'{a,a}', '{0,1}'$$),
             (5, 'arms', $$'{a,NULL}', '{0,1}'$$),
             (6, 'arms', $$'{{a,b}}', '{0,1}'$$),
             (7, 'arms', $$ARRAY[1, 2], '{0,1}'$$),
             (8, 'arms', $$ARRAY(SELECT i::text FROM generate_series(1, 65536) i), array_fill(0::float8, ARRAY[65536])$$),
             (9, 'losses', $$'{a,b}', NULL$$),
             (10, 'losses', $$'{a,b}', '{}'$$),
             (11, 'losses', $$'{a,b}', '{0}'$$),
             (12, 'losses', $$'{a,b}', '{0,1,0}'$$),
             (13, 'losses', $$'{a,b}', '{{0,1},{0,1}}'$$),
             (14, 'losses', $$'{a,b}', '{0,NULL}'$$),
             (15, 'losses', $$'{a,b}', '{0,1.001}'$$),
             (16, 'losses', $$'{a,b}', '{-0.001,1}'$$),
             (17, 'losses', $$'{a,b}', '{NaN,1}'$$),
             (18, 'probabilities', $$'{a,b}', '{0,1}', '{}'$$),
             (19, 'probabilities', $$'{a,b}', '{0,1}', '{0.5}'$$),
             (20, 'probabilities', $$'{a,b}', '{0,1}', '{{0.5,0.5},{0.5,0.5}}'$$),
             (21, 'probabilities', $$'{a,b}', '{0,1}', '{0.5,NULL}'$$),
             (22, 'probabilities', $$'{a,b}', '{0,1}', '{0.5,0}'$$),
             (23, 'probabilities', $$'{a,b}', '{0,1}', '{1.5,0.5}'$$),
             (24, 'probabilities', $$'{a,b}', '{0,1}', '{NaN,0.5}'$$),
             (25, 'delays', $$'{a,b}', '{0,1}', NULL, '{1}'$$),
             (26, 'delays', $$'{a,b}', '{0,1}', NULL, '{1,-1}'$$),
             (27, 'delays', $$'{a,b}', '{0,1}', NULL, '{{1,1},{1,1}}'$$),
             (28, 'delays', $$'{a,b}', '{0,1}', NULL, '{0,1}', 'deda'$$),
             (29, 'least_probability', $$'{a,b}', '{0,1}', least_probability => 0.1$$),
             (30, 'least_probability', $$'{a,b}', '{0,1}', '{0.5,0.5}', least_probability => 0$$),
             (31, 'least_probability', $$'{a,b}', '{0,1}', '{0.5,0.5}', least_probability => 1.1$$),
             (32, 'least_probability', $$'{a,b}', '{0,1}', '{0.5,0.5}', least_probability => 'NaN'$$),
             (33, 'seed', $$'{a,b}', '{0,1}', seed => 0.5$$)) v (n, argument, arguments)
ORDER BY n;

-- a seed does not excuse the rest
INSERT INTO wrong (function, argument, call)
VALUES ('bandit_simulate', 'losses', 'bandit_simulate(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)');

--
-- Casts, operators, settings
--

INSERT INTO wrong (function, argument, call)
VALUES ('cast', 'state', $$'{}'::text::bandit_state$$),
       ('cast', 'state', $$bandit_new(2, 'dada')::bytea$$),
       ('cast', 'state', $$bandit_new(2, 'dada')::integer$$),
       ('cast', 'state', $$bandit_new(2, 'dada')::json$$),
       ('=', 'state', $$bandit_new(2, 'dada') = 'x'$$),
       ('=', 'state', $$bandit_new(2, 'dada') = '{}'::jsonb$$),
       ('<', 'state', $$bandit_new(2, 'dada') < bandit_new(2, 'dada')$$),
       ('setting', 'progress_interval', $$set_config('dexp3.progress_interval', '-1', false)$$),
       ('setting', 'progress_interval', $$set_config('dexp3.progress_interval', 'often', false)$$),
       ('setting', 'progress_interval', $$set_config('dexp3.progress_interval', '5 apples', false)$$),
       ('setting', 'unknown', $$set_config('dexp3.progress', '1', false)$$);

--
-- What each of them says
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

CREATE TEMP TABLE said AS
SELECT w.*, c.* FROM wrong w, pg_temp.complaint(w.call) c ORDER BY w.n;

-- What PostgreSQL itself adds differs between versions: the details and hints of
-- errors in the call, of array literals and of settings are left out.
\pset format unaligned
\pset tuples_only
SELECT call || E'\n    ' || state || ' ' || regexp_replace(message, ' \(0.*2147483647.*', '')
       || CASE WHEN state IN ('42883', '42804', '42846') OR message ~ 'array literal|parameter' THEN ''
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

-- Arguments for which the table above has no wrong value: none. (The functions of
-- managed bandits, unsafe in parallel queries, are in managed.sql.)
SELECT p.oid::regprocedure AS function, a.name AS argument
FROM pg_proc p
JOIN pg_depend d ON (d.classid, d.objid, d.deptype) = ('pg_proc'::regclass, p.oid, 'e')
JOIN pg_extension e ON (d.refclassid, d.refobjid) = ('pg_extension'::regclass, e.oid) AND e.extname = 'dexp3',
     LATERAL unnest(p.proargnames[:p.pronargs]) a (name)
WHERE p.proparallel <> 'u' AND p.pronamespace <> 'dexp3'::regnamespace
  AND NOT EXISTS (SELECT FROM wrong w WHERE (w.function, w.argument) = (p.proname, a.name));

--
-- What looks wrong and is not
--

CREATE TEMP TABLE legal (n serial, call text);
INSERT INTO legal (call)
VALUES ($$bandit_probabilities(NULL::bandit_state) IS NULL$$),
       ($$bandit_step_size(NULL) IS NULL$$),
       ($$(NULL::bandit_state)::jsonb IS NULL$$),
       ($$(bandit_new(2, 'dada') = NULL) IS NULL$$),
       ($$bandit_new(2, 'dada') = bandit_new(2, 'dada', NULL, 100, NULL, 1)$$),
       -- a patience that nobody needs is forgotten
       ($$bandit_new(2, 'dada', skipping => false) = bandit_new(2, 'dada', skipping => false, patience => 7)$$),
       ($$bandit_new(2, 'deda') = bandit_new(2, 'deda', false, 7, NULL, 1)$$),
       ($$bandit_new(65535, 'dada') IS NOT NULL$$),
       ($$bandit_new(2, 'dada', patience => 2147483647) IS NOT NULL$$),
       ($$bandit_new(2, 'deda', max_delay => 2147483647) IS NOT NULL$$),
       ($$bandit_step_size(bandit_new(2, 'dada', step_scale => 5e-324::float8)) < 1e-300$$),
       ($$bandit_step_size(bandit_new(2, 'dada', step_scale => 1.7976931348623157e308::float8)) < 'infinity'$$),
       ($$((bandit_draw(pg_temp.bandit('deda'), 0)).ticket).round = 11$$),
       ($$((bandit_draw(pg_temp.bandit('deda'), 2147483647)).state)::jsonb ->> 'longest_delay' = '2147483647'$$),
       ($$((bandit_draw(pg_temp.bandit('deda 4'))).state)::jsonb ->> 'longest_delay' = '4'$$),
       ($$((bandit_draw(pg_temp.bandit('deda 4'), 5)).state)::jsonb ->> 'longest_delay' = '5'$$),
       -- the limits of a loss and of a ticket
       ($$bandit_learn(pg_temp.bandit('dada'), ROW(7, 1, 0.5, 0, 0, 0), 1)::jsonb -> 'z' = '[3, 2, 3]'$$),
       ($$bandit_learn(pg_temp.bandit('dada'), ROW(7, 1, 0.5, 0, 0, 0), 0)::jsonb -> 'z' = '[1, 2, 3]'$$),
       ($$bandit_learn(pg_temp.bandit('dada'), ROW(7, 1, 0.5, 0, 0, 0), '-0')::jsonb -> 'z' = '[1, 2, 3]'$$),
       ($$bandit_learn(pg_temp.bandit('dada'), ROW(1, 1, 1, 0, 0, 0), 1)::jsonb -> 'z' = '[2, 2, 3]'$$),
       ($$bandit_learn(pg_temp.bandit('dada'), ROW(10, 3, 1, 0, 0, 0), 1)::jsonb -> 'z' = '[1, 2, 4]'$$),
       ($$bandit_learn(pg_temp.bandit('dada'), '(10,3,1,0,0,0)', 1)::jsonb -> 'z' = '[1, 2, 4]'$$),
       ($$bandit_learn(pg_temp.bandit('dada-ix'), ROW(7, 1, 0.25, 0.25, 0, 0), 1)::jsonb -> 'z' = '[3, 2, 3]'$$),
       ($$bandit_learn(pg_temp.bandit('deda'), ROW(7, 1, 0.25, 0.25, 1, 0.5), 1)::jsonb -> 'z' = '[3, 2, 3]'$$),
       -- a round that is not open any more, and none that is
       ($$bandit_learn(pg_temp.bandit('skipping'), ROW(8, 1, 0.5, 0, 0, 0), 1) = pg_temp.bandit('skipping')$$),
       ($$bandit_learn(pg_temp.bandit('skipping'), ROW(10, 1, 0.5, 0, 0, 0), 1) = pg_temp.bandit('skipping')$$),
       ($$bandit_learn(pg_temp.bandit('skipping'), ROW(7, 1, 0.5, 0, 0, 0), 1) <> pg_temp.bandit('skipping')$$),
       ($$(SELECT count(*) FROM bandit_simulate('{{0,1},{1,0}}', NULL, 'deda', NULL, 0, NULL, 1, NULL)) = 2$$),
       ($$(SELECT count(*) FROM bandit_simulate('{{0,1},{1,0}}', '{NULL,NULL}', 'deda')) = 2$$),
       ($$(SELECT count(*) FROM bandit_simulate('{{0,1},{1,0}}', '{2147483647,2147483647}', 'deda')) = 2$$),
       ($$(SELECT count(*) FROM bandit_simulate('{{0,1},{1,0}}', '{NULL,9}', 'deda', max_delay => 0)) = 2$$),
       ($$(SELECT count(*) FROM bandit_simulate('{{0,1},{1,0}}', '{{NULL,9},{0,2147483647}}', 'deda', max_delay => 0)) = 2$$),
       ($$(SELECT count(*) FROM bandit_simulate('{{0,1},{1,0}}', '{NULL,9}', feedback_window => 2147483647)) = 2$$),
       ($$(SELECT count(*) FROM bandit_simulate('{{0,1},{1,0}}', missing_loss => '-0')) = 2$$),
       ($$(bandit_rehearse('{a,b}', '{0,1}', '{5e-324,1}', least_probability => 5e-324::float8)).rounds = 2$$),
       ($$(SELECT count(*) FROM bandit_simulate('[-3:-2][7:8]={{0,1},{1,0}}', '[0:1]={0,1}', 'dada')) = 2$$),
       ($$(SELECT count(*) FROM bandit_simulate(array_fill(0.5::float8, ARRAY[1, 65535]), ARRAY[3], 'dada')) = 1$$),
       ($$(SELECT count(*) FROM bandit_simulate(ARRAY[ARRAY[0, 1], ARRAY[1, 0]], ARRAY[0, NULL], 'dada')) = 2$$),
       ($$(SELECT count(*) FROM bandit_simulate('{{-0,5e-324}}', seed => -9223372036854775808, algorithm => 'dada')) = 1$$);

CREATE FUNCTION pg_temp.is_true(call text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    result boolean;
BEGIN
    EXECUTE 'SELECT ' || call INTO result;
    RETURN result;
END
$$;

SELECT count(*) AS calls FROM legal;
SELECT call AS not_true FROM legal WHERE pg_temp.is_true(call) IS NOT TRUE ORDER BY n;
