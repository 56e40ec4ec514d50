-- bandit_feedback_trigger and every way in which rows come into a table or change
-- there: which of them a trigger FOR EACH ROW sees, which one FOR EACH STATEMENT.
-- The table in doc/reference.md says the same. (COPY, partitioned tables with a
-- trigger on the parent, and deferred triggers are in trigger.sql, replication is
-- in t/013_logical.pl.)

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

SELECT bandit_create('ways', '{a,b}', 'dada', skipping => false) AS ways_id \gset
CREATE SCHEMA ways;

-- Decisions, called by names and made when they are first mentioned
CREATE TABLE ways.decision (name text PRIMARY KEY, id bigint);
CREATE FUNCTION ways.id(text) RETURNS bigint LANGUAGE sql AS $$
    INSERT INTO ways.decision SELECT $1, decision_id FROM bandit_choose('ways')
    WHERE NOT EXISTS (SELECT FROM ways.decision WHERE name = $1);
    SELECT id FROM ways.decision WHERE name = $1
$$;

-- Make triggers of the kind that is being tried.
CREATE FUNCTION ways.watch(relation regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('ways.kind') = 'row' THEN
        EXECUTE format('CREATE TRIGGER learn AFTER INSERT OR UPDATE ON %s
            FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger(''decision'', ''loss'')', relation);
    ELSE
        EXECUTE format('CREATE TRIGGER learn_insert AFTER INSERT ON %s REFERENCING NEW TABLE AS new
            FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger(''decision'', ''loss'')', relation);
        EXECUTE format('CREATE TRIGGER learn_update AFTER UPDATE ON %s REFERENCING OLD TABLE AS old NEW TABLE AS new
            FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger(''decision'', ''loss'')', relation);
    END IF;
END
$$;
-- Let them fire in another mode: ALWAYS or REPLICA.
CREATE FUNCTION ways.enable(mode text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT tgname FROM pg_trigger WHERE tgrelid = 'ways.t'::regclass AND tgname ~ '^learn' LOOP
        EXECUTE format('ALTER TABLE ways.t ENABLE %s TRIGGER %I', mode, name);
    END LOOP;
END
$$;

-- What has been settled, and with which losses
CREATE FUNCTION ways.settled() RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(name || ' ' || loss, ', ' ORDER BY name), 'nothing')
    FROM ways.decision d JOIN dexp3.feedback f ON f.decision_id = d.id
$$;

-- Run statements with triggers of one kind, and then undo all of it.
CREATE FUNCTION ways.try_kind(kind text, script text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    PERFORM set_config('ways.kind', kind, true);
    EXECUTE script;
    result := ways.settled();
    RAISE SQLSTATE 'UNDO1';
EXCEPTION
    WHEN SQLSTATE 'UNDO1' THEN
        RETURN result;
    WHEN OTHERS THEN
        RETURN sqlstate || ' ' || sqlerrm;
END
$$;
CREATE FUNCTION ways.try(script text, OUT row_trigger text, OUT statement_trigger text) LANGUAGE sql AS $$
    SELECT ways.try_kind('row', script), ways.try_kind('statement', script)
$$;

-- Most of them start like this: a row without a loss, one with a loss; further
-- ones are c and d.
SELECT $$
    CREATE TABLE ways.t (name text PRIMARY KEY, loss float8, decision bigint);
    INSERT INTO ways.t VALUES ('a', NULL, ways.id('a')), ('b', 0.5, ways.id('b'));
    SELECT ways.watch('ways.t');
$$ AS t \gset

--
-- SQL statements that name the table
--

SELECT * FROM ways.try(:'t' || $$ INSERT INTO ways.t VALUES ('c', 0.25, ways.id('c')), ('d', NULL, ways.id('d')), ('e', 1, ways.id('e')) $$);
SELECT * FROM ways.try(:'t' || $$ INSERT INTO ways.t SELECT c, 0.25, ways.id(c) FROM unnest('{c,d}'::text[]) c $$);
SELECT * FROM ways.try(:'t' || $$ PREPARE p AS INSERT INTO ways.t VALUES ($1, 0.25, ways.id($1)); EXECUTE p('c'); EXECUTE p('d'); DEALLOCATE p $$);
SELECT * FROM ways.try(:'t' || $$ UPDATE ways.t SET loss = 0.25 $$);
SELECT * FROM ways.try(:'t' || $$ UPDATE ways.t SET loss = v.loss FROM (VALUES ('a', 0.25), ('b', 0.75)) v (name, loss) WHERE t.name = v.name $$);
SELECT * FROM ways.try(:'t' || $$ UPDATE ways.t SET loss = 0.25, decision = ways.id('c') WHERE name = 'a' $$);
SELECT * FROM ways.try(:'t' || $$
    DO $do$
    DECLARE
        every CURSOR FOR SELECT * FROM ways.t FOR UPDATE;
    BEGIN
        FOR each IN every LOOP
            UPDATE ways.t SET loss = 0.25 WHERE CURRENT OF every;
        END LOOP;
    END
    $do$ $$);
SELECT * FROM ways.try(:'t' || $$ INSERT INTO ways.t SELECT n, 0.25, ways.id(n) FROM unnest('{a,b,c}'::text[]) n ON CONFLICT DO NOTHING $$);
SELECT * FROM ways.try(:'t' || $$
    INSERT INTO ways.t SELECT n, 0.25, ways.id(n) FROM unnest('{a,b,c}'::text[]) n
    ON CONFLICT (name) DO UPDATE SET loss = excluded.loss $$);
SELECT * FROM ways.try(:'t' || $$
    INSERT INTO ways.t SELECT n, 0.25, ways.id(n) FROM unnest('{a,b,c}'::text[]) n
    ON CONFLICT (name) DO UPDATE SET loss = excluded.loss WHERE t.name <> 'a' $$);
SELECT * FROM ways.try(:'t' || $$
    MERGE INTO ways.t USING (VALUES ('a', 0.25), ('b', 0.25), ('c', 0.25)) v (name, loss) ON t.name = v.name
    WHEN MATCHED AND v.name = 'a' THEN UPDATE SET loss = v.loss
    WHEN MATCHED THEN DELETE
    WHEN NOT MATCHED THEN INSERT VALUES (v.name, v.loss, ways.id(v.name)) $$);
-- a DELETE is not feedback
SELECT * FROM ways.try(:'t' || $$ DELETE FROM ways.t; TRUNCATE ways.t $$);

-- Data-modifying WITH, also several of them for the same table
SELECT * FROM ways.try(:'t' || $$
    WITH i AS (INSERT INTO ways.t VALUES ('c', 0.25, ways.id('c')) RETURNING *),
         u AS (UPDATE ways.t SET loss = 0.75 WHERE name = 'a' RETURNING *)
    SELECT count(*) FROM i, u $$);
SELECT * FROM ways.try(:'t' || $$
    WITH one AS (INSERT INTO ways.t VALUES ('c', 0.25, ways.id('c'))),
         two AS (INSERT INTO ways.t VALUES ('d', 0.25, ways.id('d')))
    INSERT INTO ways.t VALUES ('e', 0.25, ways.id('e')) $$);
SELECT * FROM ways.try(:'t' || $$
    INSERT INTO ways.t VALUES ('c', NULL, ways.id('c')), ('d', 1, ways.id('d'));
    WITH one AS (UPDATE ways.t SET loss = 0.25 WHERE name IN ('a', 'd')),
         two AS (INSERT INTO ways.t VALUES ('c', 0.75) ON CONFLICT (name) DO UPDATE SET loss = excluded.loss)
    UPDATE ways.t SET loss = 1 WHERE name = 'b' $$);

--
-- Statements that lead to the table in a roundabout way
--

-- Views: one that PostgreSQL can update itself, one with a trigger, one with a rule
SELECT * FROM ways.try(:'t' || $$
    CREATE VIEW ways.v AS SELECT name AS n, loss AS l, decision AS d FROM ways.t;
    INSERT INTO ways.v VALUES ('c', 0.25, ways.id('c'));
    UPDATE ways.v SET l = 0.75 WHERE n = 'a';
    INSERT INTO ways.v VALUES ('d', 1, ways.id('d')), ('b', 1, NULL) ON CONFLICT (n) DO UPDATE SET l = excluded.l $$);
SELECT * FROM ways.try(:'t' || $$
    CREATE VIEW ways.v AS SELECT DISTINCT * FROM ways.t;
    CREATE FUNCTION ways.instead() RETURNS trigger LANGUAGE plpgsql AS $f$
    BEGIN
        INSERT INTO ways.t VALUES (new.name, new.loss, new.decision) ON CONFLICT (name) DO UPDATE SET loss = excluded.loss;
        RETURN new;
    END
    $f$;
    CREATE TRIGGER instead INSTEAD OF INSERT OR UPDATE ON ways.v FOR EACH ROW EXECUTE FUNCTION ways.instead();
    INSERT INTO ways.v VALUES ('c', 0.25, ways.id('c'));
    UPDATE ways.v SET loss = 0.75 $$);
SELECT * FROM ways.try(:'t' || $$
    CREATE VIEW ways.v AS SELECT DISTINCT * FROM ways.t;
    CREATE RULE instead AS ON UPDATE TO ways.v DO INSTEAD UPDATE ways.t SET loss = new.loss WHERE name = new.name;
    UPDATE ways.v SET loss = 0.75 $$);
SELECT * FROM ways.try(:'t' || $$
    CREATE TABLE ways.other (name text);
    CREATE RULE also AS ON INSERT TO ways.other DO ALSO INSERT INTO ways.t VALUES (new.name, 0.25, ways.id(new.name));
    INSERT INTO ways.other VALUES ('c'), ('d') $$);

-- Other triggers: one that knows the loss before the row is there, one that adds
-- it afterwards, one that puts the row elsewhere
SELECT * FROM ways.try(:'t' || $$
    CREATE FUNCTION ways.fill() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN new.loss := 0.25; RETURN new; END $f$;
    CREATE TRIGGER fill BEFORE INSERT ON ways.t FOR EACH ROW EXECUTE FUNCTION ways.fill();
    INSERT INTO ways.t VALUES ('c', NULL, ways.id('c')) $$);
SELECT * FROM ways.try(:'t' || $$
    CREATE FUNCTION ways.fill() RETURNS trigger LANGUAGE plpgsql AS $f$
        BEGIN UPDATE ways.t SET loss = 0.25 WHERE name = new.name; RETURN NULL; END $f$;
    CREATE TRIGGER fill AFTER INSERT ON ways.t FOR EACH ROW EXECUTE FUNCTION ways.fill();
    INSERT INTO ways.t VALUES ('c', NULL, ways.id('c')), ('d', 1, ways.id('d')) $$);
SELECT * FROM ways.try(:'t' || $$
    CREATE FUNCTION ways.elsewhere() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN RETURN NULL; END $f$;
    CREATE TRIGGER elsewhere BEFORE INSERT OR UPDATE ON ways.t FOR EACH ROW EXECUTE FUNCTION ways.elsewhere();
    INSERT INTO ways.t VALUES ('c', 0.25, ways.id('c'));
    UPDATE ways.t SET loss = 0.25 $$);

-- A foreign key changes what a loss is generated from.
SELECT * FROM ways.try($$
    CREATE TABLE ways.status (status text PRIMARY KEY);
    INSERT INTO ways.status VALUES ('open'), ('kept');
    CREATE TABLE ways.t (decision bigint, status text DEFAULT 'kept' REFERENCES ways.status ON UPDATE CASCADE ON DELETE SET DEFAULT,
                         loss float8 GENERATED ALWAYS AS (CASE status WHEN 'returned' THEN 1 WHEN 'kept' THEN 0 END) STORED);
    SELECT ways.watch('ways.t');
    INSERT INTO ways.t VALUES (ways.id('a'), 'open'), (ways.id('b'), 'kept'), (ways.id('c'), 'open');
    UPDATE ways.status SET status = 'returned' WHERE status = 'open' $$);
SELECT * FROM ways.try($$
    CREATE TABLE ways.status (status text PRIMARY KEY);
    INSERT INTO ways.status VALUES ('open'), ('kept');
    CREATE TABLE ways.t (decision bigint, status text DEFAULT 'kept' REFERENCES ways.status ON DELETE SET DEFAULT,
                         loss float8 GENERATED ALWAYS AS (CASE status WHEN 'kept' THEN 0 END) STORED);
    SELECT ways.watch('ways.t');
    INSERT INTO ways.t VALUES (ways.id('a'), 'open');
    DELETE FROM ways.status WHERE status = 'open' $$);

--
-- Partitions with triggers of their own: b has them, a has none
--

SELECT $$
    CREATE TABLE ways.t (name text, loss float8, decision bigint, part text) PARTITION BY LIST (part);
    CREATE TABLE ways.t_a PARTITION OF ways.t FOR VALUES IN ('a');
    CREATE TABLE ways.t_b PARTITION OF ways.t FOR VALUES IN ('b');
    SELECT ways.watch('ways.t_b');
$$ AS parts \gset
SELECT * FROM ways.try(:'parts' || $$ INSERT INTO ways.t SELECT p, 0.25, ways.id(p), p FROM unnest('{a,b}'::text[]) p $$);
SELECT * FROM ways.try(:'parts' || $$ INSERT INTO ways.t_b VALUES ('b', 0.25, ways.id('b'), 'b') $$);
SELECT * FROM ways.try(:'parts' || $$
    INSERT INTO ways.t SELECT p, NULL, ways.id(p), p FROM unnest('{a,b}'::text[]) p;
    UPDATE ways.t SET loss = 0.25 $$);
SELECT * FROM ways.try(:'parts' || $$
    INSERT INTO ways.t SELECT p, NULL, ways.id(p), p FROM unnest('{a,b}'::text[]) p;
    UPDATE ways.t_b SET loss = 0.25 $$);
-- moved there, or away, with the loss
SELECT * FROM ways.try(:'parts' || $$
    INSERT INTO ways.t VALUES ('c', NULL, ways.id('c'), 'a'), ('d', NULL, ways.id('d'), 'b');
    UPDATE ways.t SET loss = 0.25, part = CASE part WHEN 'a' THEN 'b' ELSE 'a' END $$);
-- A table that becomes a partition brings rows, but nobody inserts them.
SELECT * FROM ways.try($$
    CREATE TABLE ways.t (name text, loss float8, decision bigint, part text) PARTITION BY LIST (part);
    SELECT ways.watch('ways.t');
    CREATE TABLE ways.t_c (name text, loss float8, decision bigint, part text);
    INSERT INTO ways.t_c VALUES ('c', 0.25, ways.id('c'), 'c');
    ALTER TABLE ways.t ATTACH PARTITION ways.t_c FOR VALUES IN ('c') $$);

--
-- Inheritance: triggers are not inherited
--

SELECT $$
    CREATE TABLE ways.t (name text, loss float8, decision bigint);
    CREATE TABLE ways.child () INHERITS (ways.t);
    INSERT INTO ways.t VALUES ('a', NULL, ways.id('a'));
    INSERT INTO ways.child VALUES ('b', NULL, ways.id('b'));
$$ AS family \gset
-- on the parent
SELECT * FROM ways.try(:'family' || $$
    SELECT ways.watch('ways.t');
    INSERT INTO ways.child VALUES ('c', 0.25, ways.id('c'));
    UPDATE ways.child SET loss = 0.75 $$);
SELECT * FROM ways.try(:'family' || $$ SELECT ways.watch('ways.t'); UPDATE ways.t SET loss = 0.75 $$);
SELECT * FROM ways.try(:'family' || $$ SELECT ways.watch('ways.t'); UPDATE ONLY ways.t SET loss = 0.75 $$);
-- on the child
SELECT * FROM ways.try(:'family' || $$
    SELECT ways.watch('ways.child');
    INSERT INTO ways.child VALUES ('c', 0.25, ways.id('c'));
    UPDATE ways.child SET loss = 0.75 $$);
SELECT * FROM ways.try(:'family' || $$ SELECT ways.watch('ways.child'); UPDATE ways.t SET loss = 0.75 $$);
-- on both, a loss is given once
SELECT * FROM ways.try(:'family' || $$ SELECT ways.watch('ways.t'), ways.watch('ways.child'); UPDATE ways.t SET loss = 0.75 $$);

--
-- Triggers that are told when to fire
--

SELECT $$ INSERT INTO ways.t VALUES ('c', 0.25, ways.id('c')); UPDATE ways.t SET loss = 0.75 WHERE name = 'a'; $$ AS both \gset
SELECT * FROM ways.try(:'t' || $$ SET LOCAL session_replication_role = replica; $$ || :'both');
SELECT * FROM ways.try(:'t' || $$ SELECT ways.enable('REPLICA'); $$ || :'both');
SELECT * FROM ways.try(:'t' || $$ SELECT ways.enable('REPLICA'); SET LOCAL session_replication_role = replica; $$ || :'both');
SELECT * FROM ways.try(:'t' || $$ SELECT ways.enable('ALWAYS'); $$ || :'both');
SELECT * FROM ways.try(:'t' || $$ SELECT ways.enable('ALWAYS'); SET LOCAL session_replication_role = replica; $$ || :'both');
SELECT * FROM ways.try(:'t' || $$ ALTER TABLE ways.t DISABLE TRIGGER USER; $$ || :'both');

-- A table that is written anew: nobody updates the rows.
SELECT * FROM ways.try(:'t' || $$ ALTER TABLE ways.t ALTER loss TYPE float4 USING 0.25; ALTER TABLE ways.t ADD other float8 DEFAULT 0.5 $$);

-- A deferred trigger, which can only be one FOR EACH ROW, takes the rows as they
-- were at the time.
SELECT ways.try_kind('row', $$
    CREATE TABLE ways.t (name text PRIMARY KEY, loss float8, decision bigint);
    CREATE CONSTRAINT TRIGGER learn AFTER INSERT OR UPDATE ON ways.t DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
    INSERT INTO ways.t VALUES ('a', NULL, ways.id('a')), ('b', 0.5, ways.id('b'));
    UPDATE ways.t SET loss = 0.25 WHERE name = 'a';
    UPDATE ways.t SET loss = 0.75;
    SET CONSTRAINTS ALL IMMEDIATE $$);
CREATE CONSTRAINT TRIGGER learn AFTER INSERT ON ways.decision DEFERRABLE INITIALLY DEFERRED
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('id', 'id');

--
-- COPY, which cannot be tried like that: into a partition and through its parent,
-- with triggers on the partition
--

CREATE FUNCTION ways.look_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.decision := ways.id(new.name); RETURN new; END $$;
CREATE TABLE ways.by_row (name text, loss float8, decision bigint, part text) PARTITION BY LIST (part);
CREATE TABLE ways.by_row_a PARTITION OF ways.by_row FOR VALUES IN ('a');
CREATE TABLE ways.by_row_b PARTITION OF ways.by_row FOR VALUES IN ('b');
CREATE TRIGGER look_up BEFORE INSERT ON ways.by_row FOR EACH ROW EXECUTE FUNCTION ways.look_up();
CREATE TABLE ways.by_statement (name text, loss float8, decision bigint, part text) PARTITION BY LIST (part);
CREATE TABLE ways.by_statement_a PARTITION OF ways.by_statement FOR VALUES IN ('a');
CREATE TABLE ways.by_statement_b PARTITION OF ways.by_statement FOR VALUES IN ('b');
CREATE TRIGGER look_up BEFORE INSERT ON ways.by_statement FOR EACH ROW EXECUTE FUNCTION ways.look_up();
SET ways.kind = 'row';
SELECT ways.watch('ways.by_row_b');
SET ways.kind = 'statement';
SELECT ways.watch('ways.by_statement_b');
COPY ways.by_row (name, loss, part) FROM stdin;
row, parent, a	0.25	a
row, parent, b	0.25	b
\.
COPY ways.by_row_b (name, loss, part) FROM stdin;
row, partition	0.25	b
\.
COPY ways.by_statement (name, loss, part) FROM stdin;
statement, parent, a	0.25	a
statement, parent, b	0.25	b
\.
COPY ways.by_statement_b (name, loss, part) FROM stdin;
statement, partition	0.25	b
\.
SELECT name FROM ways.decision JOIN dexp3.feedback ON decision_id = id ORDER BY name COLLATE "C";

-- Nothing of what was undone is left in this session's memory.
SELECT state -> 'round' AS round, state -> 'outstanding' AS outstanding FROM CAST(bandit_current_state('ways') AS jsonb) state;
SELECT count(*) AS round, count(*) - count(f.decision_id) AS outstanding
FROM dexp3.decision d LEFT JOIN dexp3.feedback f USING (decision_id) WHERE d.bandit_id = :ways_id;

SELECT bandit_drop('ways');
SET client_min_messages = warning;
DROP SCHEMA ways CASCADE;
RESET client_min_messages;
