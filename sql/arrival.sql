-- Rows that reach the log in another way than by bandit_choose and
-- bandit_feedback: by a restore, by replication. They count like others, from the
-- moment on that they are visible here.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

-- What pg_dump dumps of the extension's tables and sequences: all but the
-- checkpoints, and all of their rows.
SELECT c.oid::regclass AS relation, c.relkind AS kind, config.condition IS NOT NULL AS dumped, config.condition
FROM pg_class c
LEFT JOIN (SELECT u.* FROM pg_extension e, unnest(e.extconfig, e.extcondition) u (oid, condition) WHERE e.extname = 'dexp3') config USING (oid)
WHERE c.relnamespace = 'dexp3'::regnamespace AND c.relkind IN ('r', 'S')
ORDER BY c.oid::regclass::text COLLATE "C";
-- No foreign keys, which a restore in parallel would stumble over
SELECT conrelid::regclass, conname FROM pg_constraint WHERE connamespace = 'dexp3'::regnamespace AND contype = 'f';
-- The triggers fire always, also for replicated rows.
SELECT tgrelid::regclass AS relation, tgname, tgenabled FROM pg_trigger
WHERE tgrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'dexp3'::regnamespace) AND NOT tgisinternal
ORDER BY tgrelid::regclass::text COLLATE "C", tgname;

CREATE SCHEMA arrival;

-- What a bandit has come to, in short
CREATE FUNCTION arrival.summary(bandit text) RETURNS text
LANGUAGE sql AS $$
    SELECT format('round %s, outstanding %s, delay %s, z %s', s ->> 'round',
                  coalesce(s ->> 'outstanding', s ->> 'open'), s ->> 'cumulative_delay', s ->> 'z')
    FROM CAST(bandit_current_state(bandit) AS jsonb) s
$$;

--
-- COPY, as a restore does it
--

COPY dexp3.bandit (bandit_id, name, arms, algorithm, skipping, patience, max_delay, step_scale, epoch, created_at, owner, grantees) FROM stdin;
900001	restored	{a,b}	dada	f	100	\N	1	3	2026-01-01 00:00:00+00	somebody	{}
900002	skipping	{a,b,c}	dada-ix	t	100	\N	1	1	2026-01-01 00:00:00+00	somebody	{public}
\.
SELECT arrival.summary('restored'), arrival.summary('skipping');
COPY dexp3.decision (decision_id, bandit_id, epoch, round, outstanding, probability, gamma, decided_at, xact, arm, delay, z, m) FROM stdin;
900000001	900001	2	1	0	0.5	0	2026-01-01 00:00:01+00	7	1	\N	\N	\N
900000002	900001	3	1	0	0.5	0	2026-01-01 00:00:02+00	8	1	\N	\N	\N
900000003	900001	3	2	1	0.5	0	2026-01-01 00:00:03+00	18446744073709551615	2	\N	\N	\N
900000004	900001	3	3	1	0.25	0	2026-01-01 00:00:04+00	3	1	\N	\N	\N
900000005	900002	1	1	0	0.5	0.5	2026-01-01 00:00:05+00	1000000000000	3	\N	\N	\N
900000006	900002	1	2	1	0.5	0.5	2026-01-01 00:00:06+00	5	3	\N	\N	\N
\.
SELECT arrival.summary('restored'), arrival.summary('skipping');
COPY dexp3.feedback (decision_id, bandit_id, epoch, round, delay, received_at, xact, loss, estimate, arm, expected, lbck) FROM stdin;
900000001	900001	2	1	0	2026-01-01 00:00:01+00	7	1	2	1	\N	\N
900000002	900001	3	2	1	2026-01-01 00:00:03+00	8	0.5	1	1	\N	\N
900000006	900002	1	2	0	2026-01-01 00:00:06+00	5	0.25	0.25	3	\N	\N
\.
SELECT arrival.summary('restored'), arrival.summary('skipping');
SELECT count(*) AS rows, count(*) FILTER (WHERE xact < pg_snapshot_xmax(pg_current_snapshot()) AND xact > '8') AS stamped
FROM (SELECT xact FROM dexp3.decision WHERE bandit_id IN (900001, 900002)
      UNION ALL
      SELECT xact FROM dexp3.feedback WHERE bandit_id IN (900001, 900002)) r;

-- Decisions stay redeemable, identifiers are new, and it goes on.
SELECT bandit_feedback(900000002, 1) AS settled, bandit_feedback(900000003, 0.5) AS open, bandit_feedback(900000001, 0.5) AS reset,
       bandit_feedback(900000005, 1) AS skipping;
SELECT arrival.summary('restored'), arrival.summary('skipping');
SELECT decision_id > 900000006 AS new FROM bandit_choose('restored');
SELECT arrival.summary('restored');
\c -
SELECT arrival.summary('restored'), arrival.summary('skipping');

--
-- INSERT, with the state in this session's memory and whatever comes next
--

-- n more decisions of a bandit, and then the feedback for all that are open, with
-- loss 1; rows as they would come from elsewhere
CREATE FUNCTION arrival.decisions(bandit text, n integer) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO dexp3.decision (decision_id, bandit_id, epoch, round, outstanding, probability, gamma, decided_at, xact, arm)
    SELECT last.id + 1000 + i, b.bandit_id, b.epoch, coalesce(d.round, 0) + i, coalesce(d.round, 0) + i - 1, 0.5, 0, now(), '1', 1
    FROM dexp3.bandit b
    LEFT JOIN (SELECT bandit_id, max(round) AS round FROM dexp3.decision GROUP BY bandit_id) d USING (bandit_id),
         (SELECT max(decision_id) AS id FROM dexp3.decision) last,
         generate_series(1, n) i
    WHERE b.name = bandit
$$;
CREATE FUNCTION arrival.feedbacks(bandit text) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO dexp3.feedback (decision_id, bandit_id, epoch, round, delay, received_at, xact, loss, estimate, arm)
    SELECT d.decision_id, b.bandit_id, b.epoch, max(d.round) OVER (), max(d.round) OVER () - d.round, now(), '1', 1, 2, 1
    FROM dexp3.bandit b JOIN dexp3.decision d USING (bandit_id, epoch)
    WHERE b.name = bandit AND decision_id NOT IN (SELECT decision_id FROM dexp3.feedback)
$$;

SELECT bandit_create('plain', '{a,b}', 'dada', skipping => false) IS NOT NULL AS created;
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('plain');
SELECT arrival.summary('plain');
SELECT arrival.decisions('plain', 2);
SELECT arrival.summary('plain');
BEGIN;
SELECT arrival.decisions('plain', 1);
SELECT count(*) AS stamped FROM dexp3.decision WHERE xact = pg_current_xact_id();
COMMIT;
SELECT arrival.summary('plain');
SELECT arrival.feedbacks('plain');
SELECT arrival.summary('plain');

-- Read in the same transaction, before and after; then committed
BEGIN;
SELECT arrival.summary('plain');
SELECT arrival.decisions('plain', 2);
SELECT arrival.summary('plain');
SELECT arrival.decisions('plain', 1);
SELECT arrival.summary('plain');
COMMIT;
SELECT arrival.summary('plain');
-- rolled back
BEGIN;
SELECT arrival.decisions('plain', 2);
SELECT arrival.summary('plain');
ROLLBACK;
SELECT arrival.summary('plain');
-- in a savepoint that is rolled back, and in one that is not
BEGIN;
SAVEPOINT s;
SELECT arrival.decisions('plain', 2);
SELECT arrival.summary('plain');
ROLLBACK TO s;
SELECT arrival.summary('plain');
SELECT arrival.decisions('plain', 1);
RELEASE s;
SELECT arrival.summary('plain');
COMMIT;
SELECT arrival.summary('plain');
-- with decisions of one's own around
BEGIN;
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('plain');
SELECT arrival.decisions('plain', 1);
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('plain');
SELECT arrival.feedbacks('plain');
SELECT arrival.summary('plain') LIKE 'round 11, outstanding 0,%' AS summary;
COMMIT;
SELECT arrival.summary('plain') LIKE 'round 11, outstanding 0,%' AS summary;
BEGIN;
SELECT arrival.decisions('plain', 1);
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('plain');
ROLLBACK;
SELECT arrival.summary('plain') LIKE 'round 11, outstanding 0,%' AS summary;
SELECT array_agg(outstanding ORDER BY round) AS outstanding FROM dexp3.decision JOIN dexp3.bandit USING (bandit_id) WHERE name = 'plain';
\c -
SELECT arrival.summary('plain') LIKE 'round 11, outstanding 0,%' AS summary;

-- So many that a checkpoint is due in the very transaction
SELECT bandit_create('many', '{a,b}', 'dada', skipping => false) IS NOT NULL AS created;
BEGIN;
SELECT arrival.decisions('many', 700);
SELECT arrival.feedbacks('many');
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('many');
COMMIT;
SELECT arrival.summary('many');
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('many');
SELECT arrival.summary('many');
\c -
SELECT arrival.summary('many');
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('many');
\c -
SELECT arrival.summary('many');
-- and later ones on top of it
SELECT arrival.decisions('many', 3);
SELECT arrival.summary('many');
SELECT arrival.feedbacks('many');
SELECT arrival.summary('many') LIKE 'round 706, outstanding 0,%' AS summary;
\c -
SELECT arrival.summary('many') LIKE 'round 706, outstanding 0,%' AS summary;
SELECT count(*) > 0 AS checkpoint FROM dexp3.checkpoint JOIN dexp3.bandit USING (bandit_id) WHERE name = 'many';

-- Feedback that arrives before its decision, as it may in a restore in
-- parallel: with skipping the log makes no sense until the decision is there.
SELECT bandit_create('early', '{a,b}', 'dada') AS early_id \gset
INSERT INTO dexp3.feedback (decision_id, bandit_id, epoch, round, delay, received_at, xact, loss, estimate, arm)
VALUES (960000001, :early_id, 1, 1, 0, now(), '1', 1, 2, 1);
SELECT bandit_current_state('early');
SELECT bandit_choose('early');
INSERT INTO dexp3.decision (decision_id, bandit_id, epoch, round, outstanding, probability, gamma, decided_at, xact, arm)
VALUES (960000001, :early_id, 1, 1, 0, 0.5, 0, now(), '1', 1);
SELECT arrival.summary('early');
SELECT decision_id > 960000001 AS new FROM bandit_choose('early');

--
-- Replication: triggers that are not "always" do not fire
--

SET session_replication_role = replica;
SELECT arrival.summary('restored');
INSERT INTO dexp3.decision (decision_id, bandit_id, epoch, round, outstanding, probability, gamma, decided_at, xact, arm)
VALUES (970000001, 900001, 3, 5, 1, 0.5, 0, now(), '1', 2), (970000002, 900001, 3, 6, 2, 0.5, 0, now(), '18446744073709551615', 2);
SELECT arrival.summary('restored');
INSERT INTO dexp3.feedback (decision_id, bandit_id, epoch, round, delay, received_at, xact, loss, estimate, arm)
VALUES (970000001, 900001, 3, 6, 1, now(), '1', 1, 2, 2);
SELECT arrival.summary('restored');
INSERT INTO dexp3.bandit (bandit_id, name, arms, algorithm, skipping, patience, step_scale, owner)
VALUES (910003, 'replicated', '{a,b}', 'deda', false, 100, 1, 'somebody');
SELECT bandit_current_state('replicated') = bandit_new(2, 'deda') AS is_new;
-- a reset that is replicated, and a drop
UPDATE dexp3.bandit SET epoch = 4 WHERE name = 'restored';
SELECT arrival.summary('restored'), bandit_feedback(970000002, 1);
DELETE FROM dexp3.bandit WHERE name = 'restored';
RESET session_replication_role;
SELECT count(*) AS later FROM dexp3.decision
WHERE decision_id >= 970000001 AND xact >= pg_snapshot_xmax(pg_current_snapshot());
SELECT bandit_current_state('restored');
\c -
SELECT bandit_feedback(970000002, 1);

--
-- TRUNCATE, which empties the log
--

SELECT arrival.summary('many') LIKE 'round 706, outstanding 0,%' AS summary;
BEGIN;
SAVEPOINT s;
TRUNCATE dexp3.decision, dexp3.feedback;
SELECT arrival.summary('many');
SELECT count(*) AS checkpoints FROM dexp3.checkpoint;
ROLLBACK TO s;
SELECT arrival.summary('many') LIKE 'round 706, outstanding 0,%' AS summary;
TRUNCATE dexp3.decision, dexp3.feedback;
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('many');
SELECT arrival.summary('many');
ROLLBACK;
SELECT arrival.summary('many') LIKE 'round 706, outstanding 0,%' AS summary;
SELECT count(*) > 0 AS checkpoint FROM dexp3.checkpoint JOIN dexp3.bandit USING (bandit_id) WHERE name = 'many';

--
-- Checkpoints do not arrive
--

SELECT count(*) AS checkpoints FROM dexp3.checkpoint \gset
INSERT INTO dexp3.checkpoint SELECT bandit_id, epoch, 1000000, now(), '\x00' FROM dexp3.bandit;
COPY dexp3.checkpoint (bandit_id, epoch, events, written_at, state) FROM stdin;
900002	1	1000000	2026-01-01 00:00:00+00	\\x00
\.
SET session_replication_role = replica;
INSERT INTO dexp3.checkpoint SELECT bandit_id, epoch, 1000000, now(), '\x00' FROM dexp3.bandit;
RESET session_replication_role;
SELECT count(*) - :checkpoints AS arrived FROM dexp3.checkpoint;

--
-- Rows that make no sense are refused, when they arrive or when they are read.
--

CREATE FUNCTION arrival.refused(bandit text, statement text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    PERFORM bandit_current_state(bandit);
    RAISE EXCEPTION 'accepted' USING ERRCODE = 'XX000';
EXCEPTION WHEN OTHERS THEN
    RETURN sqlstate <> 'XX000';
END
$$;
SELECT bandit_create('strict', '{a,b}', 'dada', skipping => false) AS strict_id \gset
SELECT arrival.decisions('strict', 3);
SELECT count(*) AS rows, count(*) FILTER (WHERE arrival.refused('strict', statement)) AS refused
FROM (SELECT format('INSERT INTO dexp3.feedback (decision_id, bandit_id, epoch, round, delay, received_at, xact, loss, estimate, arm)
                     VALUES (%s, %s, 1, 3, 0, now(), ''1'', 1, 2, %s)', max(decision_id), :strict_id, wrong_arm) AS statement
      FROM dexp3.decision, unnest(ARRAY['0', '-1', '3', '65536', '2147483647', '-2147483648', 'NULL']) w (wrong_arm)
      WHERE bandit_id = :strict_id GROUP BY wrong_arm) s;
SELECT arrival.summary('strict');

-- A row of nulls: the trigger sees it before the constraints do.
SELECT arrival.refused('strict', 'INSERT INTO dexp3.decision DEFAULT VALUES') AS decision,
       arrival.refused('strict', 'INSERT INTO dexp3.feedback DEFAULT VALUES') AS feedback;

-- The triggers are for the extension's own tables.
CREATE TABLE arrival.narrow (a integer);
CREATE TRIGGER log_arrival BEFORE INSERT ON arrival.narrow FOR EACH ROW EXECUTE FUNCTION dexp3.log_arrival();
SELECT arrival.refused('strict', 'INSERT INTO arrival.narrow VALUES (1)');
CREATE TABLE arrival.wide (a integer, b integer, c integer, d integer, e integer, f integer, g text, h integer, i text);
CREATE TRIGGER log_arrival BEFORE INSERT ON arrival.wide FOR EACH ROW EXECUTE FUNCTION dexp3.log_arrival();
SELECT arrival.refused('strict', 'INSERT INTO arrival.wide VALUES (1, 2, 3, 4, 5, 6, ''7'', 8, ''9'')');

SELECT count(bandit_drop(name)) AS dropped FROM dexp3.bandit
WHERE name IN ('skipping', 'plain', 'many', 'early', 'strict', 'replicated');
DELETE FROM dexp3.feedback WHERE bandit_id = 900001;
DELETE FROM dexp3.decision WHERE bandit_id = 900001;
SET client_min_messages = warning;
DROP SCHEMA arrival CASCADE;
RESET client_min_messages;

--
-- Identifiers: the sequence is moved past those that arrive, also if the bandit
-- has a checkpoint already
--
SELECT bandit_create('failback', '{x,y}', 'dada', skipping => false) AS failback_id \gset
SELECT count(bandit_choose('failback')) FROM generate_series(1, 700);
SELECT count(bandit_choose('failback'));
SELECT count(*) > 0 AS checkpoint FROM dexp3.checkpoint WHERE bandit_id = :failback_id;
INSERT INTO dexp3.decision
SELECT (SELECT last_value FROM dexp3.decision_id_seq) + i, :failback_id, 1, 701 + i, 0, 0.5, 0, now(), '1', 1
FROM generate_series(1, 30) i;
SELECT decision_id = (SELECT max(decision_id) FROM dexp3.decision WHERE bandit_id = :failback_id) + 1 AS next
FROM bandit_choose('failback');
\c -
SELECT count(bandit_choose('failback')) FROM generate_series(1, 3);
SELECT bandit_current_state('failback')::jsonb -> 'round' AS rounds;
-- never back
INSERT INTO dexp3.decision
SELECT min(decision_id) - 1, :failback_id, 1, 1, 0, 0.5, 0, now(), '1', 1 FROM dexp3.decision WHERE bandit_id = :failback_id;
SELECT decision_id = (SELECT max(decision_id) FROM dexp3.decision WHERE bandit_id = :failback_id) + 1 AS next
FROM bandit_choose('failback');
SELECT bandit_drop('failback');

-- What a savepoint has brought and was rolled back does not move the sequence, be it
-- that the row was refused or not.
SELECT bandit_create('undone', '{x,y}') AS undone_id \gset
SELECT decision_id AS undone_first FROM bandit_choose('undone') \gset
CREATE TEMP TABLE far AS SELECT * FROM dexp3.decision WHERE decision_id = :undone_first;
UPDATE far SET decision_id = decision_id + 1000000;
BEGIN;
SAVEPOINT a;
INSERT INTO dexp3.decision SELECT 9223372036854775807, bandit_id, epoch, round, outstanding, probability, gamma, decided_at, xact, arm FROM far;
ROLLBACK TO a;
INSERT INTO dexp3.decision SELECT * FROM far;
SAVEPOINT b;
INSERT INTO dexp3.decision SELECT decision_id + 1, bandit_id, epoch, round, outstanding, probability, gamma, decided_at, xact, arm FROM far;
RELEASE b;
ROLLBACK TO a;
COMMIT;
SELECT decision_id - :undone_first AS next FROM bandit_choose('undone');
-- what is kept of it does
BEGIN;
SAVEPOINT a;
SAVEPOINT b;
INSERT INTO dexp3.decision SELECT decision_id - 1, bandit_id, epoch, round, outstanding, probability, gamma, decided_at, xact, arm FROM far;
RELEASE b;
SAVEPOINT c;
INSERT INTO dexp3.decision SELECT * FROM far;
ROLLBACK TO c;
RELEASE a;
COMMIT;
SELECT decision_id - :undone_first AS next FROM bandit_choose('undone');
SELECT bandit_drop('undone');

-- Rows of the log that were deleted by hand: an error, nothing worse
SELECT bandit_create('holes', '{x,y}', 'dada') AS holes_id \gset
SELECT count(bandit_choose('holes')) FROM generate_series(1, 1000);
DELETE FROM dexp3.feedback WHERE bandit_id = :holes_id;
DELETE FROM dexp3.decision WHERE bandit_id = :holes_id AND round < 995;
\c -
SELECT bandit_current_state('holes');
SELECT bandit_drop('holes');
