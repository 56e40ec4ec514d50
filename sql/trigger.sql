-- bandit_feedback_trigger: feedback from the rows of a table, for each row and
-- for each statement, after INSERT and UPDATE and what becomes of them.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

-- One bandit and many decisions, all made in advance. Here they are called by
-- their rounds.
SELECT bandit_create('shop', '{a,b,c}', 'dada', skipping => false) AS shop_id \gset
SELECT count(bandit_choose('shop')) AS decisions FROM generate_series(1, 300);

CREATE SCHEMA shop;
CREATE TABLE shop.decision AS SELECT round, decision_id AS id FROM dexp3.decision WHERE bandit_id = :shop_id;
CREATE FUNCTION shop.id(round integer) RETURNS bigint
LANGUAGE sql STABLE AS $$ SELECT d.id FROM shop.decision d WHERE d.round = id.round $$;

-- The rounds that have been settled, with their losses
CREATE FUNCTION shop.settled(first integer, last integer) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT string_agg(d.round || ': ' || round(f.loss::numeric, 6)::float8, ', ' ORDER BY d.round)
    FROM shop.decision d JOIN dexp3.feedback f ON f.decision_id = d.id
    WHERE d.round BETWEEN first AND last
$$;

--
-- FOR EACH ROW
--

CREATE TABLE shop.sale (decision bigint, loss float8, note text);
CREATE TRIGGER learn AFTER INSERT OR UPDATE ON shop.sale
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');

INSERT INTO shop.sale VALUES (shop.id(1), 0.5);
INSERT INTO shop.sale VALUES (shop.id(2), NULL), (NULL, 0.5), (NULL, NULL), (NULL, 99), (shop.id(3), 0), (shop.id(4), 1);
SELECT shop.settled(1, 9);
-- at most once, and the first time counts
INSERT INTO shop.sale VALUES (shop.id(5), 0.25), (shop.id(5), 0.75), (shop.id(1), 0.75);
INSERT INTO shop.sale VALUES (shop.id(5), 0.75);
SELECT shop.settled(1, 9);

-- An UPDATE counts if the loss was null and no longer is.
UPDATE shop.sale SET note = 'x';
UPDATE shop.sale SET loss = 0.125 WHERE decision = shop.id(2);
SELECT shop.settled(1, 9);
UPDATE shop.sale SET loss = 0.875 WHERE decision = shop.id(2);
UPDATE shop.sale SET loss = NULL WHERE decision = shop.id(2);
UPDATE shop.sale SET loss = 0.875 WHERE decision = shop.id(2);
SELECT shop.settled(1, 9);
INSERT INTO shop.sale VALUES (NULL, NULL, '6'), (NULL, 0.5, '7'), (shop.id(8), NULL, '8');
UPDATE shop.sale SET decision = shop.id(6), loss = 0.5 WHERE note = '6';
UPDATE shop.sale SET decision = shop.id(7) WHERE note = '7';                            -- had a loss
UPDATE shop.sale SET loss = 0.5, decision = NULL WHERE note = '8';
SELECT shop.settled(1, 9);

-- The null decision above with the loss 99 is nobody's.
UPDATE shop.sale SET note = 'y';

-- Only the columns that a trigger names; WHEN; UPDATE OF
CREATE TABLE shop.narrow (d bigint, l float8, ready boolean);
CREATE TRIGGER learn AFTER UPDATE OF ready ON shop.narrow
    FOR EACH ROW WHEN (new.ready) EXECUTE FUNCTION bandit_feedback_trigger('d', 'l');
INSERT INTO shop.narrow SELECT shop.id(n) FROM generate_series(11, 14) n;
UPDATE shop.narrow SET l = 0.5 WHERE d = shop.id(11);
UPDATE shop.narrow SET l = 0.5, ready = false WHERE d = shop.id(12);
UPDATE shop.narrow SET l = 0.5, ready = true WHERE d = shop.id(13);
UPDATE shop.narrow SET ready = true WHERE d = shop.id(11);
SELECT shop.settled(10, 19);

-- Rolled back, it can come again; so it can after an error in another row.
BEGIN;
INSERT INTO shop.sale VALUES (shop.id(21), 0.5);
ROLLBACK;
BEGIN;
SAVEPOINT s;
INSERT INTO shop.sale VALUES (shop.id(22), 0.5);
ROLLBACK TO s;
INSERT INTO shop.sale VALUES (shop.id(23), 0.5);
COMMIT;
INSERT INTO shop.sale VALUES (shop.id(24), 0.5), (shop.id(25), 1.5);
SELECT shop.settled(20, 29);
INSERT INTO shop.sale SELECT shop.id(n), n / 100.0 FROM generate_series(21, 25) n;
SELECT shop.settled(20, 29);

--
-- FOR EACH STATEMENT
--

CREATE TABLE shop.batch (decision bigint, loss float8, note text);
CREATE TRIGGER learn_insert AFTER INSERT ON shop.batch
    REFERENCING NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
CREATE TRIGGER learn_update AFTER UPDATE ON shop.batch
    REFERENCING OLD TABLE AS old NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');

INSERT INTO shop.batch VALUES (shop.id(31), 0.5);
INSERT INTO shop.batch SELECT shop.id(31), 0.25 WHERE false;
INSERT INTO shop.batch VALUES (shop.id(32), NULL), (NULL, 0.5), (NULL, NULL), (NULL, 99), (shop.id(33), 0), (shop.id(34), 1),
                              (shop.id(35), 0.25), (shop.id(35), 0.75), (shop.id(31), 0.75);
SELECT shop.settled(30, 39);
UPDATE shop.batch SET note = 'x';
UPDATE shop.batch SET note = 'y' WHERE false;
UPDATE shop.batch SET loss = CASE WHEN decision = shop.id(32) THEN 0.125 ELSE 0.875 END WHERE decision IS NOT NULL;
SELECT shop.settled(30, 39);
UPDATE shop.batch SET loss = NULL WHERE decision = shop.id(32);
UPDATE shop.batch SET loss = 0.875 WHERE decision = shop.id(32);
SELECT shop.settled(30, 39);
INSERT INTO shop.batch VALUES (NULL, NULL, '36'), (NULL, 0.5, '37'), (shop.id(38), NULL, '38');
UPDATE shop.batch SET (decision, loss) = (SELECT CASE WHEN note <> '38' THEN shop.id(note::integer) END, 0.5)
WHERE note IN ('36', '37', '38');
SELECT shop.settled(30, 39);

-- Old and new rows go together, whatever the order and the gaps.
INSERT INTO shop.batch SELECT shop.id(40 + n), CASE WHEN n % 3 = 0 THEN 0.5 END, 'gap' FROM generate_series(0, 19) n;
SELECT shop.settled(40, 59);
UPDATE shop.batch b SET loss = d.round / 100.0 FROM (SELECT * FROM shop.decision ORDER BY id DESC) d
WHERE b.decision = d.id AND note = 'gap' AND round % 4 > 0;
SELECT shop.settled(40, 59);
UPDATE shop.batch SET loss = 0.75 WHERE note = 'gap';
SELECT shop.settled(40, 59);

BEGIN;
INSERT INTO shop.batch VALUES (shop.id(61), 0.5);
ROLLBACK;
INSERT INTO shop.batch VALUES (shop.id(62), 0.5), (shop.id(63), 1.5);
SELECT shop.settled(60, 69);
INSERT INTO shop.batch SELECT shop.id(n), n / 100.0 FROM generate_series(61, 63) n;
SELECT shop.settled(60, 69);

-- Another trigger may read the transition tables as well, before and after.
CREATE TABLE shop.audit (event text, rows bigint, losses bigint);
CREATE FUNCTION shop.audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO shop.audit SELECT tg_name, count(*), count(loss) FROM new;
    RETURN NULL;
END
$$;
CREATE TRIGGER a_audit AFTER INSERT ON shop.batch
    REFERENCING NEW TABLE AS new FOR EACH STATEMENT EXECUTE FUNCTION shop.audit();
CREATE TRIGGER z_audit AFTER INSERT ON shop.batch
    REFERENCING NEW TABLE AS new FOR EACH STATEMENT EXECUTE FUNCTION shop.audit();
INSERT INTO shop.batch SELECT shop.id(n), CASE WHEN n < 69 THEN n / 100.0 END FROM generate_series(65, 69) n;
SELECT * FROM shop.audit;
SELECT shop.settled(65, 69);

--
-- Rewards
--

CREATE TABLE shop.praise (decision bigint, stars float8);
CREATE TRIGGER learn AFTER INSERT OR UPDATE ON shop.praise
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', 'stars', 'reward');
CREATE TABLE shop.praises (decision bigint, stars float8);
CREATE TRIGGER learn_insert AFTER INSERT ON shop.praises
    REFERENCING NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', 'stars', 'reward');
CREATE TRIGGER learn_update AFTER UPDATE ON shop.praises
    REFERENCING OLD TABLE AS old NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', 'stars', 'reward');
INSERT INTO shop.praise SELECT shop.id(71 + n), n / 4.0 FROM generate_series(0, 4) n;
INSERT INTO shop.praise VALUES (shop.id(76), NULL);
UPDATE shop.praise SET stars = 0.125;
INSERT INTO shop.praises SELECT shop.id(81 + n), n / 4.0 FROM generate_series(0, 4) n;
INSERT INTO shop.praises VALUES (shop.id(86), NULL);
UPDATE shop.praises SET stars = 0.125;
SELECT shop.settled(70, 79), shop.settled(80, 89);

--
-- Types of columns
--

CREATE DOMAIN shop.identifier AS bigint;
CREATE DOMAIN shop.fraction AS numeric CHECK (value <= 1);
CREATE DOMAIN shop.small_fraction AS shop.fraction CHECK (value >= 0);
CREATE DOMAIN shop.bit AS integer;
CREATE DOMAIN shop.single AS real;

CREATE FUNCTION shop.try_types(first integer) RETURNS TABLE (decision_type text, loss_type text, settled text)
LANGUAGE plpgsql AS $$
DECLARE
    row_round integer := first;
BEGIN
    FOR decision_type, loss_type IN
        SELECT d, l
        FROM unnest(ARRAY['integer', 'bigint', 'shop.identifier']) d,
             unnest(ARRAY['smallint', 'integer', 'bigint', 'real', 'double precision', 'numeric', 'numeric(3,2)',
                          'shop.small_fraction', 'shop.bit', 'shop.single']) l
        WHERE d = 'bigint' OR l = 'integer' OR l = 'numeric' LOOP
        EXECUTE format('CREATE TEMP TABLE typed (decision %s, loss %s)', decision_type, loss_type);
        CREATE TRIGGER learn AFTER UPDATE ON typed
            FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
        CREATE TRIGGER learns AFTER INSERT ON typed REFERENCING NEW TABLE AS new
            FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss', 'reward');
        INSERT INTO typed VALUES (shop.id(row_round), 1), (shop.id(row_round + 1), NULL);
        UPDATE typed SET loss = CASE WHEN loss_type ~ 'int|bit' THEN 1 ELSE 0.25 END;
        settled := shop.settled(row_round, row_round + 1);
        RETURN NEXT;
        DROP TABLE typed;
        row_round := row_round + 2;
    END LOOP;
END
$$;
SELECT * FROM shop.try_types(101);

-- A numeric that no double precision can tell from 0 is a loss of 0; one that is too large is out of range, as others are.
CREATE TABLE shop.exact (decision bigint, loss numeric);
CREATE TRIGGER learn AFTER INSERT ON shop.exact
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
INSERT INTO shop.exact VALUES (shop.id(131), 1e-400);
INSERT INTO shop.exact VALUES (shop.id(132), 1e400);
SELECT shop.settled(131, 139);

-- Names that need quotes; columns that were dropped, added or generated
CREATE TABLE shop.odd (gone integer, "Decision ""Id""" bigint, gone_too text, stars integer, "größe" float8);
ALTER TABLE shop.odd DROP COLUMN gone, DROP COLUMN gone_too;
INSERT INTO shop.odd VALUES (shop.id(151), 4, 0.5);
ALTER TABLE shop.odd ADD COLUMN later bigint DEFAULT NULL, ADD COLUMN loss float8 DEFAULT 0.25,
    ADD COLUMN made float8 GENERATED ALWAYS AS (1 - stars / 5.0) STORED;
CREATE TRIGGER learn AFTER INSERT OR UPDATE ON shop.odd
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('Decision "Id"', 'größe');
CREATE TRIGGER learn_later AFTER UPDATE ON shop.odd
    REFERENCING OLD TABLE AS old NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('later', 'made');
CREATE TRIGGER learn_made AFTER INSERT ON shop.odd
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('later', 'made');
INSERT INTO shop.odd VALUES (shop.id(152), 5, 0.75, shop.id(153)), (shop.id(154), 1, 1, shop.id(155)), (NULL, NULL, NULL, shop.id(156));
SELECT shop.settled(151, 159);
UPDATE shop.odd SET stars = 3, "größe" = 0.5;
SELECT shop.settled(151, 159);

-- A column that was added after the row: the row has it all the same.
CREATE TABLE shop.added (id integer);
INSERT INTO shop.added VALUES (1);
ALTER TABLE shop.added ADD COLUMN decision bigint, ADD COLUMN loss float8;
CREATE TRIGGER learn AFTER UPDATE ON shop.added
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
UPDATE shop.added SET decision = shop.id(161), loss = 0.5;
ALTER TABLE shop.added ADD COLUMN other bigint DEFAULT 7, ADD COLUMN other_loss float8 DEFAULT 0.75;
CREATE TRIGGER other AFTER UPDATE ON shop.added REFERENCING OLD TABLE AS old NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('other', 'other_loss');
UPDATE shop.added SET id = 2;                                                           -- had a loss already
SELECT shop.settled(161, 169);

-- A column whose value is never stored cannot bring feedback: it is refused,
-- not ignored. (From PostgreSQL 18 on there are such columns.)
DO $$
BEGIN
    IF current_setting('server_version_num')::integer >= 180000 THEN
        CREATE TABLE shop.virtual (decision bigint, stars integer);
        EXECUTE 'ALTER TABLE shop.virtual ADD COLUMN loss float8 GENERATED ALWAYS AS (1 - stars / 5.0) VIRTUAL';
        CREATE TRIGGER learn AFTER INSERT ON shop.virtual
            FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
        BEGIN
            INSERT INTO shop.virtual VALUES (shop.id(171), 4);
            RAISE EXCEPTION 'ignored' USING ERRCODE = 'XX000';
        EXCEPTION WHEN feature_not_supported OR datatype_mismatch OR invalid_parameter_value OR undefined_column THEN
            NULL;
        END;
    END IF;
END
$$;

--
-- Ways in which rows come
--

-- Both kinds of triggers, on tables that look the decision up. The key of a
-- row is its round.
CREATE FUNCTION shop.look_up() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    new.decision := shop.id(new.round);
    RETURN new;
END
$$;
CREATE TABLE shop.by_row (round integer PRIMARY KEY, loss float8, decision bigint);
CREATE TRIGGER look_up BEFORE INSERT ON shop.by_row FOR EACH ROW EXECUTE FUNCTION shop.look_up();
CREATE TRIGGER learn AFTER INSERT OR UPDATE ON shop.by_row
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
CREATE TABLE shop.by_statement (LIKE shop.by_row INCLUDING ALL);
CREATE TRIGGER look_up BEFORE INSERT ON shop.by_statement FOR EACH ROW EXECUTE FUNCTION shop.look_up();
CREATE TRIGGER learn_insert AFTER INSERT ON shop.by_statement
    REFERENCING NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
CREATE TRIGGER learn_update AFTER UPDATE ON shop.by_statement
    REFERENCING OLD TABLE AS old NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');

COPY shop.by_row (round, loss) FROM stdin;
181	0.25
182	\N
183	1
\.
COPY shop.by_statement (round, loss) FROM stdin;
184	0.25
185	\N
186	1
\.
SELECT shop.settled(180, 189);
COPY shop.by_row (round, loss) FROM stdin;
187	0.25
188	7
\.
COPY shop.by_statement (round, loss) FROM stdin;
187	0.25
188	NaN
\.
SELECT shop.settled(180, 189);

INSERT INTO shop.by_row VALUES (181, 0.5), (182, 0.5), (187, 0.5)
ON CONFLICT (round) DO UPDATE SET loss = excluded.loss;
INSERT INTO shop.by_statement VALUES (184, 0.5), (185, 0.5), (188, 0.5)
ON CONFLICT (round) DO UPDATE SET loss = excluded.loss;
SELECT shop.settled(180, 189);
INSERT INTO shop.by_row VALUES (182, 0.75), (189, 0.75) ON CONFLICT DO NOTHING;
SELECT shop.settled(180, 189);

INSERT INTO shop.by_row VALUES (191, NULL), (192, 0.25);
INSERT INTO shop.by_statement VALUES (194, NULL), (195, 0.25);
MERGE INTO shop.by_row t USING (VALUES (191, 0.5), (192, 0.5), (193, 0.5), (190, NULL)) v (round, loss) ON t.round = v.round
    WHEN MATCHED AND t.round < 193 THEN UPDATE SET loss = v.loss
    WHEN NOT MATCHED THEN INSERT VALUES (v.round, v.loss);
MERGE INTO shop.by_statement t USING (VALUES (194, 0.5), (195, 0.5), (196, 0.5), (190, NULL)) v (round, loss) ON t.round = v.round
    WHEN MATCHED THEN UPDATE SET loss = v.loss
    WHEN NOT MATCHED THEN INSERT VALUES (v.round, v.loss);
SELECT shop.settled(190, 199);
MERGE INTO shop.by_statement t USING (VALUES (194, 0.5), (195, 0.5), (190, 0.5)) v (round, loss) ON t.round = v.round
    WHEN MATCHED AND v.round < 195 THEN UPDATE SET loss = v.loss
    WHEN MATCHED THEN DELETE;
SELECT shop.settled(190, 199);

WITH new AS (INSERT INTO shop.by_row VALUES (197, 0.5) RETURNING *)
INSERT INTO shop.by_statement SELECT 198, loss / 2 FROM new;
SELECT shop.settled(190, 199);

-- A deferred trigger waits for the end of the transaction.
CREATE TABLE shop.deferred (decision bigint, loss float8);
CREATE CONSTRAINT TRIGGER learn AFTER INSERT OR UPDATE ON shop.deferred
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
BEGIN;
INSERT INTO shop.deferred VALUES (shop.id(201), 0.5), (shop.id(202), NULL);
UPDATE shop.deferred SET loss = 0.25 WHERE loss IS NULL;
SELECT shop.settled(200, 209);
COMMIT;
SELECT shop.settled(200, 209);
BEGIN;
INSERT INTO shop.deferred VALUES (shop.id(203), 0.5);
SET CONSTRAINTS ALL IMMEDIATE;
SELECT shop.settled(200, 209);
ROLLBACK;
BEGIN;
INSERT INTO shop.deferred VALUES (shop.id(204), 0.5);
INSERT INTO shop.deferred VALUES (shop.id(205), 2);
COMMIT;
SELECT shop.settled(200, 209);

--
-- Partitioned tables
--

-- Partitions with other orders of columns, and with dropped ones
CREATE TABLE shop.parted (round integer, part text, decision bigint, loss float8) PARTITION BY LIST (part);
CREATE TABLE shop.parted_a PARTITION OF shop.parted FOR VALUES IN ('a');
CREATE TABLE shop.parted_b (loss float8, gone integer, part text, decision bigint, round integer);
ALTER TABLE shop.parted_b DROP COLUMN gone;
ALTER TABLE shop.parted ATTACH PARTITION shop.parted_b FOR VALUES IN ('b');
CREATE TABLE shop.parted_c PARTITION OF shop.parted FOR VALUES IN ('c', 'd') PARTITION BY LIST (part);
CREATE TABLE shop.parted_cc (decision bigint, part text, loss float8, round integer);
ALTER TABLE shop.parted_c ATTACH PARTITION shop.parted_cc FOR VALUES IN ('c');
CREATE TABLE shop.parted_cd PARTITION OF shop.parted_c DEFAULT;

CREATE TRIGGER learn AFTER INSERT OR UPDATE ON shop.parted
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
INSERT INTO shop.parted
SELECT 211 + n, substr('abcd', n % 4 + 1, 1), shop.id(211 + n), CASE WHEN n < 4 THEN n / 4.0 END FROM generate_series(0, 15) n;
SELECT shop.settled(210, 229);
INSERT INTO shop.parted_b (round, part, decision, loss) VALUES (227, 'b', shop.id(227), 0.5);
INSERT INTO shop.parted_cc (round, part, decision, loss) VALUES (228, 'c', shop.id(228), 0.5);
SELECT shop.settled(225, 229);
-- in place, and moving, with a new loss, an old one or none; directly
UPDATE shop.parted SET loss = 0.125 WHERE round BETWEEN 215 AND 218;
UPDATE shop.parted SET loss = 0.25, part = CASE part WHEN 'a' THEN 'b' WHEN 'b' THEN 'c' WHEN 'c' THEN 'd' ELSE 'a' END
WHERE round BETWEEN 219 AND 222;
UPDATE shop.parted SET loss = 0.75, part = CASE part WHEN 'a' THEN 'b' WHEN 'b' THEN 'c' WHEN 'c' THEN 'd' ELSE 'a' END
WHERE round BETWEEN 211 AND 222;
UPDATE shop.parted SET part = CASE part WHEN 'a' THEN 'b' WHEN 'b' THEN 'c' WHEN 'c' THEN 'd' ELSE 'a' END;
UPDATE shop.parted_b SET loss = 0.375 WHERE round = 223;
SELECT tableoid::regclass AS partition, round, loss FROM shop.parted WHERE round >= 223 ORDER BY round;
SELECT shop.settled(210, 229);

-- Statement triggers of a partitioned table fire for statements that name it.
DROP TRIGGER learn ON shop.parted;
CREATE TRIGGER learn_insert AFTER INSERT ON shop.parted
    REFERENCING NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
CREATE TRIGGER learn_update AFTER UPDATE ON shop.parted
    REFERENCING OLD TABLE AS old NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
DELETE FROM shop.parted;
INSERT INTO shop.parted
SELECT 231 + n, substr('abcd', n % 4 + 1, 1), shop.id(231 + n), CASE WHEN n < 4 THEN n / 4.0 END FROM generate_series(0, 15) n;
SELECT shop.settled(230, 249);
INSERT INTO shop.parted_b (round, part, decision, loss) VALUES (247, 'b', shop.id(247), 0.5);
SELECT shop.settled(247, 249);
UPDATE shop.parted SET loss = 0.125 WHERE round BETWEEN 235 AND 238;
UPDATE shop.parted SET loss = 0.25, part = CASE part WHEN 'a' THEN 'b' WHEN 'b' THEN 'c' WHEN 'c' THEN 'd' ELSE 'a' END
WHERE round BETWEEN 239 AND 242;
-- half of the rows move, two of them for the first time with a loss
UPDATE shop.parted SET loss = round / 1000.0, part = CASE part WHEN 'a' THEN 'b' WHEN 'c' THEN 'd' ELSE part END
WHERE round BETWEEN 231 AND 244;
SELECT shop.settled(230, 249);

-- COPY, ON CONFLICT and MERGE through the parent
CREATE TABLE shop.ranges (round integer PRIMARY KEY, decision bigint, loss float8) PARTITION BY RANGE (round);
CREATE TABLE shop.ranges_low PARTITION OF shop.ranges FOR VALUES FROM (0) TO (255);
CREATE TABLE shop.ranges_high (loss float8, decision bigint, round integer NOT NULL);
ALTER TABLE shop.ranges ATTACH PARTITION shop.ranges_high FOR VALUES FROM (255) TO (1000);
CREATE TRIGGER look_up BEFORE INSERT ON shop.ranges FOR EACH ROW EXECUTE FUNCTION shop.look_up();
CREATE TRIGGER learn AFTER INSERT OR UPDATE ON shop.ranges
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
COPY shop.ranges (round, loss) FROM stdin;
251	0.25
256	\N
257	0.5
\.
INSERT INTO shop.ranges (round, loss) VALUES (252, 0.125), (256, 0.125), (257, 0.125)
ON CONFLICT (round) DO UPDATE SET loss = excluded.loss;
MERGE INTO shop.ranges t USING (VALUES (251, 0.75), (253, 0.75), (258, 0.75)) v (round, loss) ON t.round = v.round
    WHEN MATCHED THEN UPDATE SET loss = v.loss
    WHEN NOT MATCHED THEN INSERT (round, loss) VALUES (v.round, v.loss);
SELECT shop.settled(250, 259);
DROP TRIGGER learn ON shop.ranges;
CREATE TRIGGER learn_insert AFTER INSERT ON shop.ranges
    REFERENCING NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
CREATE TRIGGER learn_update AFTER UPDATE ON shop.ranges
    REFERENCING OLD TABLE AS old NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
COPY shop.ranges (round, loss) FROM stdin;
261	0.25
266	\N
267	0.5
\.
INSERT INTO shop.ranges (round, loss) VALUES (262, 0.125), (266, 0.125), (267, 0.125)
ON CONFLICT (round) DO UPDATE SET loss = excluded.loss;
MERGE INTO shop.ranges t USING (VALUES (261, 0.75), (263, 0.75), (268, 0.75)) v (round, loss) ON t.round = v.round
    WHEN MATCHED THEN UPDATE SET loss = v.loss
    WHEN NOT MATCHED THEN INSERT (round, loss) VALUES (v.round, v.loss);
SELECT shop.settled(260, 269);

-- A row that was to move, and is refused by its new partition, leaves an old
-- version without a new one. No loss of another row may be lost by that; the
-- statement may fail.
CREATE TABLE shop.swallow (round integer, part text, decision bigint, loss float8) PARTITION BY LIST (part);
CREATE TABLE shop.swallow_a PARTITION OF shop.swallow FOR VALUES IN ('a');
CREATE TABLE shop.swallow_b PARTITION OF shop.swallow FOR VALUES IN ('b');
CREATE FUNCTION shop.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON shop.swallow_b FOR EACH ROW EXECUTE FUNCTION shop.refuse();
CREATE TRIGGER learn_update AFTER UPDATE ON shop.swallow
    REFERENCING OLD TABLE AS old NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
INSERT INTO shop.swallow SELECT n, 'a', shop.id(n), CASE WHEN n = 271 THEN 0.5 END FROM generate_series(271, 273) n;
DO $$
BEGIN
    UPDATE shop.swallow SET loss = round / 1000.0, part = CASE round WHEN 271 THEN 'b' ELSE 'a' END;
EXCEPTION WHEN triggered_action_exception OR feature_not_supported OR object_not_in_prerequisite_state THEN
    NULL;
END
$$;
SELECT count(*) AS lost FROM shop.swallow
WHERE round > 271 AND loss IS NOT NULL AND decision NOT IN (SELECT decision_id FROM dexp3.feedback);

--
-- Wrong use: the statement fails as a whole, and nothing has changed
--

CREATE TABLE shop.plain (decision bigint, loss float8, note text, day date, yes boolean, numbers float8[], rate money);
CREATE VIEW shop.plain_view AS SELECT * FROM shop.plain;
CREATE FUNCTION shop.complaint(ddl text, dml text, OUT state text, OUT message text, OUT hint text)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'CREATE TRIGGER shy ' || ddl;
    EXECUTE dml;
    RAISE EXCEPTION 'accepted' USING ERRCODE = 'XX000';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
END
$$;

CREATE TEMP TABLE wrong (n serial, what text, dml text DEFAULT 'INSERT INTO shop.plain VALUES (shop.id(291), 0.5)', ddl text);
INSERT INTO wrong (what, ddl)
SELECT arguments, format('AFTER INSERT ON shop.plain FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger(%s)', arguments)
FROM unnest(ARRAY['', '''decision''', '''decision'', ''loss'', ''reward'', ''x''', '''decision'', ''loss'', ''rewards''',
                  '''decision'', ''loss'', ''Reward''', '''decision'', ''loss'', ''''', '''decision'', ''loss'', ''loss''',
                  '''missing'', ''loss''', '''decision'', ''missing''', '''Decision'', ''loss''', ''''', ''loss''', '''decision'', ''''',
                  '''ctid'', ''loss''', '''decision'', ''tableoid''',
                  '''note'', ''loss''', '''loss'', ''loss''', '''day'', ''loss''', '''yes'', ''loss''',
                  '''decision'', ''note''', '''decision'', ''day''', '''decision'', ''numbers''',
                  '''decision'', ''rate''', '''decision'', ''note'', ''reward''']) arguments;
-- also without any row
INSERT INTO wrong (what, dml, ddl)
VALUES ('statement, no row', 'INSERT INTO shop.plain SELECT WHERE false',
        'AFTER INSERT ON shop.plain REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger(''decision'', ''missing'')');
INSERT INTO wrong (what, ddl)
VALUES ('BEFORE, row', 'BEFORE INSERT ON shop.plain FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger(''decision'', ''loss'')'),
       ('BEFORE, statement', 'BEFORE INSERT ON shop.plain FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger(''decision'', ''loss'')'),
       ('no transition table', 'AFTER INSERT ON shop.plain FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger(''decision'', ''loss'')'),
       ('both, no arguments', 'BEFORE INSERT ON shop.plain FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger()');
INSERT INTO wrong (what, dml, ddl)
VALUES ('INSTEAD OF', 'INSERT INTO shop.plain_view (decision, loss) VALUES (shop.id(291), 0.5)',
        'INSTEAD OF INSERT ON shop.plain_view FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger(''decision'', ''loss'')'),
       ('UPDATE, no transition table', 'UPDATE shop.plain SET loss = 0.5',
        'AFTER UPDATE ON shop.plain FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger(''decision'', ''loss'')'),
       ('UPDATE, no old table', 'UPDATE shop.plain SET loss = 0.5',
        'AFTER UPDATE ON shop.plain REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger(''decision'', ''loss'')'),
       ('UPDATE, no new table', 'UPDATE shop.plain SET loss = 0.5',
        'AFTER UPDATE ON shop.plain REFERENCING OLD TABLE AS o FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger(''decision'', ''loss'')'),
       ('DELETE, row', 'DELETE FROM shop.plain',
        'AFTER DELETE ON shop.plain FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger(''decision'', ''loss'')'),
       ('DELETE, statement', 'DELETE FROM shop.plain',
        'AFTER DELETE ON shop.plain REFERENCING OLD TABLE AS o FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger(''decision'', ''loss'')'),
       ('TRUNCATE', 'TRUNCATE shop.plain',
        'AFTER TRUNCATE ON shop.plain FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger(''decision'', ''loss'')');
-- the wrong row is the last of several
INSERT INTO wrong (what, dml, ddl)
SELECT what || ', ' || kind, format('INSERT INTO shop.plain VALUES (shop.id(291), 0.5), (shop.id(292), NULL), (shop.id(293), 1), %s', wrong_row), ddl
FROM (VALUES (1, 'row', 'AFTER INSERT ON shop.plain FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger(''decision'', ''loss'')'),
             (2, 'statement', 'AFTER INSERT ON shop.plain REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger(''decision'', ''loss'')'),
             (3, 'reward', 'AFTER INSERT ON shop.plain FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger(''decision'', ''loss'', ''reward'')')) t (t, kind, ddl),
     (VALUES (1, 'too high', '(shop.id(294), 1.5)'), (2, 'too low', '(shop.id(294), -0.5)'), (3, 'NaN', '(shop.id(294), ''NaN'')'),
             (4, 'infinite', '(shop.id(294), ''-infinity'')'), (5, 'settled, too high', '(shop.id(1), 2)'),
             (6, 'unknown decision', '(-1, 0.5)'), (7, 'unknown decision, too high', '(-1, 2)')) v (v, what, wrong_row)
ORDER BY t, v;

INSERT INTO shop.plain VALUES (shop.id(290), NULL);
CREATE TEMP TABLE before AS
SELECT bandit_current_state('shop')::jsonb - 'z' AS counts, bandit_probabilities(bandit_current_state('shop')) AS probabilities,
       count(*) AS feedbacks FROM dexp3.feedback WHERE bandit_id = :shop_id;

CREATE TEMP TABLE said AS SELECT w.*, c.* FROM wrong w, shop.complaint(w.ddl, w.dml) c ORDER BY w.n;
\pset format unaligned
\pset tuples_only
SELECT what || E'\n    ' || state || ' ' || message || coalesce(E'\n        ' || nullif(hint, ''), '') FROM said ORDER BY n;
\pset tuples_only
\pset format aligned

-- All are refused. Those that are wrong whatever the row name the trigger.
SELECT count(*) AS statements,
       count(*) FILTER (WHERE state LIKE 'XX%') AS accepted,
       count(*) FILTER (WHERE state NOT IN ('22003', '42704') AND message !~ '"shy"') AS nameless,
       count(*) FILTER (WHERE message ~ '^[A-Z]|[.]$') AS bad_style
FROM said;
SELECT (SELECT count(*) FROM shop.plain) AS rows,
       bandit_current_state('shop')::jsonb - 'z' = counts AS same_counts,
       (SELECT max(abs(a - b)) < 1e-9
        FROM unnest(probabilities, bandit_probabilities(bandit_current_state('shop'))) p (a, b)) AS same_probabilities,
       feedbacks = (SELECT count(*) FROM dexp3.feedback WHERE bandit_id = :shop_id) AS same_feedbacks
FROM before;

--
-- In the end this session's state is that of a new one.
--

CREATE TABLE shop.state AS SELECT bandit_current_state('shop') AS state;
SELECT state::jsonb ->> 'round' AS round,
       (state::jsonb ->> 'outstanding')::bigint = (SELECT count(*) FROM dexp3.pending WHERE bandit = 'shop') AS outstanding,
       300 - (state::jsonb ->> 'outstanding')::bigint
         = (SELECT count(*) FROM dexp3.feedback JOIN dexp3.bandit USING (bandit_id) WHERE name = 'shop') AS settled
FROM shop.state;
\c -
SELECT max(abs(a - b)) < 1e-9 AS same
FROM shop.state, unnest(bandit_probabilities(state), bandit_probabilities(bandit_current_state('shop'))) p (a, b);

SELECT bandit_drop('shop');
SET client_min_messages = warning;
DROP SCHEMA shop CASCADE;
RESET client_min_messages;
