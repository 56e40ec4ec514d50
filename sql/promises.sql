-- bandit_choose and bandit_feedback write their rows without an SQL statement.
-- What PostgreSQL promises about rows holds all the same: transactions that must
-- not write, and whatever the owner of the tables has added to them. (READ ONLY
-- transactions are in managed.sql, privileges in privileges.sql.)

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
DROP ROLE IF EXISTS regress_dexp3_visitor;
RESET client_min_messages;

CREATE SCHEMA promises;
SELECT bandit_create('promises', '{a,b}', 'dada', skipping => false) AS promises_id,
       bandit_create('hasty', '{a,b}', 'dada', patience => 0) AS hasty_id \gset

-- Choose, and settle the decision.
CREATE FUNCTION promises.play(bandit text, loss float8 DEFAULT 0.5) RETURNS text
LANGUAGE sql AS $$ SELECT bandit_feedback(decision_id, loss) FROM bandit_choose(bandit) $$;

-- What this session thinks of the bandit, and whether the tables say the same
CREATE FUNCTION promises.state(OUT rounds bigint, OUT outstanding bigint, OUT agrees boolean)
LANGUAGE sql AS $$
    SELECT rounds, outstanding,
           rounds = (SELECT count(*) FROM dexp3.decision JOIN dexp3.bandit USING (bandit_id, epoch) WHERE name = 'promises')
           AND outstanding = (SELECT count(*) FROM dexp3.pending WHERE bandit = 'promises')
           AND (SELECT bool_and(abs(z - estimates) < 1e-9)
                FROM (SELECT z, (SELECT coalesce(sum(estimate), 0) FROM dexp3.feedback f JOIN dexp3.bandit USING (bandit_id, epoch)
                                 WHERE name = 'promises' AND f.arm = u.arm) AS estimates
                      FROM unnest(s.z) WITH ORDINALITY u (z, arm)) e)
    FROM (SELECT (s ->> 'round')::bigint AS rounds, (s ->> 'outstanding')::bigint AS outstanding,
                 ARRAY(SELECT jsonb_array_elements_text(s -> 'z')::float8) AS z
          FROM CAST(bandit_current_state('promises') AS jsonb) s) s
$$;

SELECT promises.play('promises');
SELECT decision_id AS open FROM bandit_choose('promises') \gset

--
-- Transactions that must not write
--

-- A temporary table may be written; its trigger may not give feedback.
CREATE TEMP TABLE outcome (decision bigint, loss float8);
CREATE TRIGGER learn AFTER INSERT ON outcome
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
CREATE TEMP TABLE outcomes (decision bigint, loss float8);
CREATE TRIGGER learn AFTER INSERT ON outcomes REFERENCING NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
SET default_transaction_read_only = on;
\set VERBOSITY sqlstate
SELECT bandit_create('another', '{a,b}', 'dada');
SELECT bandit_choose('promises');
SELECT bandit_choose_each('promises', 1);
SELECT bandit_feedback(:open, 0.5);
SELECT bandit_reward(:open, 0.5);
INSERT INTO outcome VALUES (:open, 0.5);
INSERT INTO outcomes VALUES (:open, 0.5);
SELECT bandit_reset('promises');
SELECT bandit_grant('promises', 'public');
SELECT bandit_revoke('promises', 'public');
SELECT bandit_drop('promises');
\set VERBOSITY default
INSERT INTO outcome VALUES (:open, NULL);
SELECT * FROM promises.state();
RESET default_transaction_read_only;

-- A function that is called safe in parallel queries, and is not
CREATE FUNCTION promises.unsafe_choose() RETURNS text
LANGUAGE plpgsql PARALLEL SAFE AS $$ BEGIN RETURN (bandit_choose('promises')).arm; END $$;
CREATE FUNCTION promises.unsafe_feedback(decision bigint) RETURNS text
LANGUAGE plpgsql PARALLEL SAFE AS $$ BEGIN RETURN bandit_feedback(decision, 0.5); END $$;
CREATE FUNCTION promises.unsafe_look() RETURNS float8
LANGUAGE plpgsql PARALLEL SAFE AS $$ BEGIN RETURN (SELECT sum(probability) FROM bandit_probabilities('promises')); END $$;
CREATE FUNCTION promises.unsafe_state() RETURNS bandit_state
LANGUAGE plpgsql PARALLEL SAFE AS $$ BEGIN RETURN bandit_current_state('promises'); END $$;
BEGIN;
-- the transaction has written already, so that a worker would find an identifier
SELECT promises.play('promises');
SELECT count(set_config(name, CASE vartype WHEN 'integer' THEN '2' ELSE 'on' END, true)) AS settings
FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query', 'max_parallel_workers_per_gather');
\set VERBOSITY sqlstate
SAVEPOINT s;
SELECT promises.unsafe_choose();
ROLLBACK TO s;
SELECT promises.unsafe_feedback(:open);
ROLLBACK TO s;
SELECT promises.unsafe_look();
ROLLBACK TO s;
SELECT promises.unsafe_state();
ROLLBACK TO s;
\set VERBOSITY default
-- Row security works there.
SELECT count(*) FROM dexp3.bandit WHERE dexp3.may_use(bandit_id) AND name = 'promises';
COMMIT;
SELECT * FROM promises.state();

--
-- Indexes: all are maintained
--

CREATE INDEX plain ON dexp3.decision_rows (decided_at DESC) INCLUDE (arm);
CREATE INDEX partial ON dexp3.decision_rows (outstanding) WHERE arm = 1;
CREATE INDEX expression ON dexp3.decision_rows ((probability + gamma));
CREATE INDEX hashed ON dexp3.decision_rows USING hash (round);
CREATE INDEX ranges ON dexp3.feedback_rows USING brin (received_at);
CREATE UNIQUE INDEX pairs ON dexp3.feedback_rows (arm, decision_id) WHERE loss > 0.25;
CREATE INDEX upside_down ON dexp3.feedback_rows ((1 - loss)) WHERE loss <= 0.25;
SELECT promises.play(bandit, n % 5 / 4.0) AS outcome, count(*)
FROM generate_series(0, 19) n, unnest('{promises,hasty}'::text[]) bandit GROUP BY outcome;
SELECT count(bandit_choose('hasty')) FROM generate_series(1, 5);
BEGIN;
SELECT count(promises.play('promises')) FROM generate_series(1, 5);
ROLLBACK;

-- The index that a query uses, and whether it finds what a scan of the table does
CREATE FUNCTION promises.by_index(condition text, OUT index text, OUT rows bigint, OUT same boolean)
LANGUAGE plpgsql AS $$
DECLARE
    plan json;
    scanned bigint;
BEGIN
    SET LOCAL enable_indexscan = off;
    SET LOCAL enable_indexonlyscan = off;
    SET LOCAL enable_bitmapscan = off;
    EXECUTE 'SELECT count(*) FROM ' || condition INTO scanned;
    RESET enable_indexscan;
    RESET enable_indexonlyscan;
    RESET enable_bitmapscan;
    SET LOCAL enable_seqscan = off;
    EXECUTE 'EXPLAIN (FORMAT json) SELECT count(*) FROM ' || condition INTO plan;
    EXECUTE 'SELECT count(*) FROM ' || condition INTO rows;
    RESET enable_seqscan;
    index := jsonb_path_query_first(plan::jsonb, '$.**."Index Name"') #>> '{}';
    same := rows = scanned AND rows > 0;
END
$$;
SELECT index, same
FROM unnest(ARRAY['dexp3.decision WHERE decided_at > ''-infinity''',
                  'dexp3.decision WHERE arm = 1 AND outstanding >= 0',
                  'dexp3.decision WHERE probability + gamma > 0',
                  'dexp3.decision WHERE round = 5',
                  'dexp3.feedback WHERE received_at < ''infinity''',
                  'dexp3.feedback WHERE loss > 0.25 AND arm IN (1, 2)',
                  'dexp3.feedback WHERE loss <= 0.25 AND 1 - loss = 1']) condition,
     promises.by_index(condition);
DROP INDEX dexp3.plain, dexp3.partial, dexp3.expression, dexp3.hashed, dexp3.ranges, dexp3.pairs, dexp3.upside_down;

-- A unique index that refuses a row, of either table
SELECT decision_id AS second FROM bandit_choose('promises') \gset
CREATE UNIQUE INDEX rare ON dexp3.feedback_rows (bandit_id, loss) WHERE loss = 0.125;
SELECT bandit_feedback(:open, 0.125);
\set VERBOSITY terse
SELECT bandit_feedback(:second, 0.125);
SELECT * FROM promises.state();
BEGIN;
SAVEPOINT s;
SELECT bandit_feedback(:second, 0.125);
ROLLBACK TO s;
SELECT bandit_feedback(:second, 0.25);
COMMIT;
SELECT * FROM promises.state();
CREATE UNIQUE INDEX crowded ON dexp3.decision_rows ((outstanding * 0 + bandit_id)) WHERE round > 24;
SELECT count(*) FROM bandit_choose('promises');
SELECT count(*) FROM bandit_choose('promises');
SELECT * FROM promises.state();
DROP INDEX dexp3.rare, dexp3.crowded;

--
-- Constraints
--

ALTER TABLE dexp3.decision_rows ADD CONSTRAINT early CHECK (round <= 26);
ALTER TABLE dexp3.feedback_rows ADD CONSTRAINT known CHECK (loss IS NULL OR loss <> 0.375);
SELECT decision_id AS open FROM bandit_choose('promises') \gset
SELECT bandit_choose('promises');
SELECT bandit_feedback(:open, 0.375);
SELECT * FROM promises.state();
SELECT bandit_feedback(:open, 0.5);
-- a skip is a row, too
ALTER TABLE dexp3.decision_rows DROP CONSTRAINT early;
ALTER TABLE dexp3.feedback_rows ADD CONSTRAINT no_skips CHECK (loss IS NOT NULL) NOT VALID;
SELECT count(bandit_choose('hasty')) FROM generate_series(1, 10);
ALTER TABLE dexp3.feedback_rows DROP CONSTRAINT known, DROP CONSTRAINT no_skips;
BEGIN;
TRUNCATE dexp3.decision, dexp3.feedback;
ALTER TABLE dexp3.decision_rows ALTER delay SET NOT NULL;
SELECT bandit_choose('promises');
ROLLBACK;
SELECT * FROM promises.state();

-- Deferrable ones, which are checked by triggers
ALTER TABLE dexp3.decision_rows ADD CONSTRAINT once UNIQUE (bandit_id, round) DEFERRABLE INITIALLY DEFERRED;
BEGIN;
SELECT bandit_reset('promises');
SELECT promises.play('promises');
COMMIT;
SELECT * FROM promises.state();
ALTER TABLE dexp3.decision_rows DROP CONSTRAINT once;

-- Foreign keys of the tables, and to them
CREATE TABLE promises.blessed (bandit_id integer PRIMARY KEY);
INSERT INTO promises.blessed VALUES (:hasty_id);
ALTER TABLE dexp3.decision_rows ADD CONSTRAINT blessed FOREIGN KEY (bandit_id) REFERENCES promises.blessed NOT VALID;
SELECT count(bandit_choose('hasty'));
SELECT bandit_choose('promises');
SELECT * FROM promises.state();
ALTER TABLE dexp3.decision_rows DROP CONSTRAINT blessed;
CREATE TABLE promises.visit (decision bigint REFERENCES dexp3.decision_rows, loss float8);
CREATE TRIGGER learn AFTER INSERT OR UPDATE ON promises.visit
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
INSERT INTO promises.visit SELECT decision_id FROM bandit_choose('promises');
INSERT INTO promises.visit VALUES (-1);
UPDATE promises.visit SET loss = 0.5;
SELECT * FROM promises.state();
SELECT bandit_drop('promises');
SELECT * FROM promises.state();
DROP TABLE promises.visit;
\set VERBOSITY default

--
-- Triggers and rules
--

-- AFTER INSERT FOR EACH ROW is as for any row.
CREATE TABLE promises.heard (n serial, what text, decision bigint);
CREATE FUNCTION promises.hear() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    found boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE decision_id = $1)', tg_relid::regclass) INTO found USING new.decision_id;
    INSERT INTO promises.heard (what, decision)
    VALUES (format('%s %s, %s', tg_name, tg_table_name, CASE WHEN found THEN 'found' ELSE 'not found' END), new.decision_id);
    RETURN NULL;
END
$$;
CREATE TRIGGER after_row AFTER INSERT ON dexp3.decision_rows FOR EACH ROW EXECUTE FUNCTION promises.hear();
CREATE TRIGGER after_row AFTER INSERT ON dexp3.feedback_rows FOR EACH ROW EXECUTE FUNCTION promises.hear();
CREATE TRIGGER rarely AFTER INSERT ON dexp3.feedback_rows FOR EACH ROW WHEN (new.loss = 0.75) EXECUTE FUNCTION promises.hear();
CREATE TRIGGER always AFTER INSERT ON dexp3.decision_rows FOR EACH ROW EXECUTE FUNCTION promises.hear();
ALTER TABLE dexp3.decision_rows ENABLE ALWAYS TRIGGER always;
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON dexp3.decision_rows DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION promises.hear();
-- Those for statements, those that could change the row, and rules are not.
CREATE FUNCTION promises.disturb() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'disturbed'; END $$;
CREATE TRIGGER before_row BEFORE INSERT ON dexp3.decision_rows FOR EACH ROW EXECUTE FUNCTION promises.disturb();
CREATE TRIGGER before_statement BEFORE INSERT ON dexp3.decision_rows FOR EACH STATEMENT EXECUTE FUNCTION promises.disturb();
CREATE TRIGGER after_statement AFTER INSERT ON dexp3.decision_rows FOR EACH STATEMENT EXECUTE FUNCTION promises.disturb();
CREATE TRIGGER transition AFTER INSERT ON dexp3.decision_rows REFERENCING NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION promises.disturb();
CREATE RULE nothing AS ON INSERT TO dexp3.decision_rows DO INSTEAD NOTHING;

SELECT promises.play('promises', loss) FROM unnest('{0.5,0.75}'::float8[]) loss;
SELECT what FROM promises.heard ORDER BY n;
TRUNCATE promises.heard;
BEGIN;
SELECT promises.play('promises');
ROLLBACK;
SET session_replication_role = replica;
SELECT promises.play('promises');
RESET session_replication_role;
SELECT what FROM promises.heard ORDER BY n;
-- a skip
TRUNCATE promises.heard;
SELECT count(bandit_choose('hasty')) FROM generate_series(1, 10);
SELECT count(*) > 0 AS heard, count(*) = count(f.decision_id) FILTER (WHERE f.loss IS NULL) AS skips
FROM promises.heard h LEFT JOIN dexp3.feedback f ON f.decision_id = h.decision WHERE what ~ 'feedback';
SELECT * FROM promises.state();

DROP RULE nothing ON dexp3.decision_rows;
DROP TRIGGER before_row ON dexp3.decision_rows;
DROP TRIGGER before_statement ON dexp3.decision_rows;
DROP TRIGGER after_statement ON dexp3.decision_rows;
DROP TRIGGER transition ON dexp3.decision_rows;
DROP TRIGGER after_row ON dexp3.decision_rows;
DROP TRIGGER always ON dexp3.decision_rows;
DROP TRIGGER late ON dexp3.decision_rows;
DROP TRIGGER after_row ON dexp3.feedback_rows;
DROP TRIGGER rarely ON dexp3.feedback_rows;

-- Whoever is called in the middle cannot use bandits, not even those that have
-- nothing to do with it; at the end of the transaction that is different.
CREATE FUNCTION promises.use() RETURNS void LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    BEGIN
        PERFORM bandit_choose('hasty');
    EXCEPTION WHEN OTHERS THEN
        NULL;
    END;
    PERFORM bandit_current_state('promises');
END
$$;
CREATE FUNCTION promises.use(n bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM promises.use(); RETURN n; END $$;
CREATE FUNCTION promises.trigger_use() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM promises.use(); RETURN NULL; END $$;
CREATE FUNCTION promises.insert(n bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dexp3.decision SELECT * FROM dexp3.decision LIMIT 1;
    RETURN n;
END
$$;
CREATE FUNCTION promises.try(ddl text, undo text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    EXECUTE ddl;
    BEGIN
        result := promises.play('promises');
    EXCEPTION WHEN OTHERS THEN
        result := sqlstate || ': ' || sqlerrm;
    END;
    EXECUTE undo;
    RETURN result;
END
$$;
SELECT promises.try('CREATE INDEX used ON dexp3.decision_rows (promises.use(round))', 'DROP INDEX dexp3.used');
SELECT promises.try('CREATE INDEX used ON dexp3.feedback_rows (decision_id) WHERE promises.use(round) > 0', 'DROP INDEX dexp3.used');
SELECT promises.try('ALTER TABLE dexp3.decision_rows ADD CONSTRAINT used CHECK (promises.use(round) > 0) NOT VALID',
                    'ALTER TABLE dexp3.decision_rows DROP CONSTRAINT used');
SELECT promises.try('ALTER TABLE dexp3.decision_rows ADD CONSTRAINT used CHECK (promises.insert(round) > 0) NOT VALID',
                    'ALTER TABLE dexp3.decision_rows DROP CONSTRAINT used');
SELECT promises.try('CREATE TRIGGER used AFTER INSERT ON dexp3.feedback_rows FOR EACH ROW EXECUTE FUNCTION promises.trigger_use()',
                    'DROP TRIGGER used ON dexp3.feedback_rows');
SELECT * FROM promises.state();
CREATE CONSTRAINT TRIGGER used AFTER INSERT ON dexp3.feedback_rows DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION promises.trigger_use();
SELECT promises.play('promises');
DROP TRIGGER used ON dexp3.feedback_rows;
SELECT * FROM promises.state();

--
-- Row security and privileges on the tables are for queries.
--

CREATE ROLE regress_dexp3_visitor;
GRANT USAGE ON SCHEMA promises TO regress_dexp3_visitor;
SELECT bandit_grant('promises', 'regress_dexp3_visitor');
CREATE POLICY nobody ON dexp3.decision AS RESTRICTIVE TO regress_dexp3_visitor USING (false) WITH CHECK (false);
ALTER TABLE dexp3.decision FORCE ROW LEVEL SECURITY;
REVOKE SELECT ON dexp3.feedback FROM PUBLIC;
SET ROLE regress_dexp3_visitor;
SELECT promises.play('promises');
SELECT count(*) FROM dexp3.decision;
SELECT count(*) FROM dexp3.feedback;
RESET ROLE;
GRANT SELECT ON dexp3.feedback TO PUBLIC;
ALTER TABLE dexp3.decision NO FORCE ROW LEVEL SECURITY;
DROP POLICY nobody ON dexp3.decision;
SELECT * FROM promises.state();

--
-- Other columns than the library expects are refused; in their absence it goes on.
--

CREATE FUNCTION promises.try_shape(ddl text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    result := promises.try('ALTER TABLE dexp3.' || ddl, 'SELECT');
    RAISE SQLSTATE 'UNDO1';
EXCEPTION WHEN SQLSTATE 'UNDO1' THEN
    RETURN result;
END
$$;
SELECT ddl, promises.try_shape(ddl)
FROM unnest(ARRAY['decision ADD COLUMN note text',
                  'decision ADD COLUMN note text NOT NULL DEFAULT ''new''',
                  'decision ADD COLUMN twice bigint GENERATED ALWAYS AS (round * 2) STORED',
                  'decision DROP COLUMN m',
                  'decision ALTER COLUMN z TYPE numeric',
                  'feedback ADD COLUMN note text',
                  'bandit ADD COLUMN note text',
                  'bandit DROP COLUMN grantees']) ddl;
SELECT promises.play('promises');
-- added and dropped for good
ALTER TABLE dexp3.decision ADD COLUMN note text DEFAULT 'new';
ALTER TABLE dexp3.feedback ADD COLUMN note text NOT NULL DEFAULT 'new', ADD COLUMN twice float8 GENERATED ALWAYS AS (loss * 2) STORED;
ALTER TABLE dexp3.bandit ADD COLUMN note text;
SELECT bandit_choose('promises');
ALTER TABLE dexp3.decision DROP COLUMN note;
ALTER TABLE dexp3.feedback DROP COLUMN note, DROP COLUMN twice;
ALTER TABLE dexp3.bandit DROP COLUMN note;
SELECT promises.play('promises');
SELECT * FROM promises.state();
\c -
SELECT promises.play('promises');
SELECT * FROM promises.state();

--
-- Tables in another place
--

SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_dexp3_space LOCATION '';
ALTER TABLE dexp3.decision_rows SET TABLESPACE regress_dexp3_space;
SELECT promises.play('promises');
ALTER INDEX dexp3.decision_log_idx SET TABLESPACE regress_dexp3_space;
SELECT promises.play('promises');
ALTER TABLE dexp3.feedback_rows SET UNLOGGED;
SELECT promises.play('promises');
VACUUM FULL dexp3.decision_rows, dexp3.feedback_rows;
SELECT promises.play('promises');
CLUSTER dexp3.feedback_rows USING feedback_log_idx;
ALTER TABLE dexp3.feedback_rows SET WITHOUT CLUSTER;
SELECT promises.play('promises');
REINDEX TABLE dexp3.decision_rows;
REINDEX TABLE dexp3.feedback_rows;
SELECT promises.play('promises');
ALTER TABLE dexp3.decision_rows SET TABLESPACE pg_default;
ALTER INDEX dexp3.decision_log_idx SET TABLESPACE pg_default;
DROP TABLESPACE regress_dexp3_space;
SELECT * FROM promises.state();
-- in a transaction that has written already
BEGIN;
SELECT promises.play('promises');
CLUSTER dexp3.decision_rows USING decision_rows_pkey;
SELECT promises.play('promises');
SAVEPOINT s;
ALTER TABLE dexp3.feedback_rows SET LOGGED;
SELECT promises.play('promises');
SELECT * FROM promises.state();
ROLLBACK TO s;
SELECT promises.play('promises');
SELECT * FROM promises.state();
ROLLBACK;
SELECT * FROM promises.state();
ALTER TABLE dexp3.feedback_rows SET LOGGED;
\c -
SELECT promises.play('promises');
SELECT * FROM promises.state();

SELECT bandit_drop('promises'), bandit_drop('hasty');
SET client_min_messages = warning;
DROP SCHEMA promises CASCADE;
DROP ROLE regress_dexp3_visitor;
RESET client_min_messages;
