-- Who may do what: a bandit belongs to the role that made it, other roles need a
-- grant, and nobody but the extension writes to the tables.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
DROP ROLE IF EXISTS regress_dexp3_anna, regress_dexp3_ben, regress_dexp3_team, regress_dexp3_stranger;
RESET client_min_messages;

CREATE ROLE regress_dexp3_anna;
CREATE ROLE regress_dexp3_ben;
CREATE ROLE regress_dexp3_team;
CREATE ROLE regress_dexp3_stranger;
GRANT regress_dexp3_team TO regress_dexp3_ben;

CREATE SCHEMA privileges;
GRANT USAGE ON SCHEMA privileges TO PUBLIC;

-- Run a statement, and tell its result or its error.
CREATE FUNCTION privileges.try(statement text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    EXECUTE statement INTO result;
    RETURN coalesce(result, 'null');
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || regexp_replace(SQLERRM, 'decision \d+', 'decision N');
END $$;

-- Everything that can be done with anna's bandit
CREATE FUNCTION privileges.everything() RETURNS TABLE (what text, outcome text)
LANGUAGE sql AS $$
    SELECT statement, privileges.try(statement)
    FROM unnest(ARRAY[
        $q$SELECT arm IS NOT NULL FROM bandit_choose('of anna')$q$,
        $q$SELECT arm IS NOT NULL FROM bandit_choose_each('of anna', 1)$q$,
        $q$SELECT bandit_feedback(currval('privileges.first'), 0.5)$q$,
        $q$SELECT bandit_reward(currval('privileges.first'), 0.5)$q$,
        $q$SELECT count(*) FROM bandit_probabilities('of anna')$q$,
        $q$SELECT bandit_current_state('of anna') IS NOT NULL$q$,
        $q$SELECT count(*) FROM dexp3.bandit WHERE name = 'of anna'$q$,
        $q$SELECT count(*) > 0 FROM dexp3.decision JOIN dexp3.bandit USING (bandit_id) WHERE name = 'of anna'$q$,
        $q$SELECT count(*) > 0 FROM dexp3.decision WHERE decision_id = currval('privileges.first')$q$,
        $q$SELECT count(*) FROM dexp3.feedback WHERE decision_id = currval('privileges.first')$q$,
        $q$SELECT count(*) > 0 FROM dexp3.pending WHERE bandit = 'of anna'$q$,
        $q$SELECT count(*) FROM dexp3.checkpoint$q$,
        $q$INSERT INTO dexp3.decision SELECT * FROM dexp3.decision$q$,
        $q$UPDATE dexp3.feedback SET loss = 0$q$,
        $q$DELETE FROM dexp3.bandit$q$,
        $q$SELECT bandit_reset('of anna')$q$,
        $q$SELECT bandit_grant('of anna', current_user)$q$,
        $q$SELECT bandit_revoke('of anna', current_user)$q$]) AS statement
$$;

SET ROLE regress_dexp3_anna;
SELECT bandit_create('of anna', '{x,y}', 'dada') IS NOT NULL AS created;
SELECT decision_id AS first FROM bandit_choose('of anna') \gset
RESET ROLE;
SELECT name, owner, grantees FROM dexp3.bandit WHERE name = 'of anna';
CREATE SEQUENCE privileges.first;
GRANT ALL ON SEQUENCE privileges.first TO PUBLIC;
SELECT setval('privileges.first', :first) = :first AS ok;

-- A stranger learns nothing, not even by looking at the tables.
SET ROLE regress_dexp3_stranger;
SELECT * FROM privileges.everything();
SELECT privileges.try($$SELECT bandit_drop('of anna')$$);

-- A role, its members, and then nobody any more
SET ROLE regress_dexp3_anna;
SELECT bandit_grant('of anna', 'regress_dexp3_team');
SET ROLE regress_dexp3_ben;
SELECT * FROM privileges.everything();
SET ROLE regress_dexp3_stranger;
SELECT count(*) FILTER (WHERE outcome LIKE '42501%') AS refused, count(*) FROM privileges.everything();
SET ROLE regress_dexp3_anna;
SELECT bandit_grant('of anna', 'regress_dexp3_team');
SELECT grantees FROM dexp3.bandit WHERE name = 'of anna';
SELECT bandit_revoke('of anna', 'regress_dexp3_team');
SET ROLE regress_dexp3_ben;
SELECT arm FROM bandit_choose('of anna');
SELECT count(*) FROM dexp3.decision WHERE decision_id = :first;

-- Everybody
SET ROLE regress_dexp3_anna;
SELECT bandit_grant('of anna', 'public');
SET ROLE regress_dexp3_stranger;
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('of anna');
SET ROLE regress_dexp3_anna;
SELECT bandit_revoke('of anna', 'public');

-- The owner, a member of the owner's role, and a superuser
SELECT * FROM privileges.everything();
RESET ROLE;
GRANT regress_dexp3_anna TO regress_dexp3_stranger;
SET ROLE regress_dexp3_stranger;
SELECT bandit_reset('of anna');
RESET ROLE;
REVOKE regress_dexp3_anna FROM regress_dexp3_stranger;
SELECT bandit_reset('of anna');

-- Wrong arguments
SELECT privileges.try(statement)
FROM unnest(ARRAY[$$SELECT bandit_grant('of anna', 'regress_dexp3_nobody')$$,
                  $$SELECT bandit_grant('of anna', NULL)$$,
                  $$SELECT bandit_grant(NULL, 'regress_dexp3_ben')$$,
                  $$SELECT bandit_revoke('of nobody', 'regress_dexp3_ben')$$]) AS statement;

-- A role that is gone can still be revoked, once.
SET ROLE NONE;
CREATE ROLE regress_dexp3_gone;
SELECT bandit_grant('of anna', 'regress_dexp3_gone');
DROP ROLE regress_dexp3_gone;
SELECT bandit_revoke('of anna', 'regress_dexp3_gone');
SELECT grantees FROM dexp3.bandit WHERE name = 'of anna';
SELECT bandit_revoke('of anna', 'regress_dexp3_gone');

-- A role that is renamed keeps what it has, and whoever gets its name next does not get
-- it, nor who gets the name of one that is gone.
CREATE FUNCTION privileges.may_use() RETURNS TABLE (role name, may boolean) LANGUAGE plpgsql AS $$
BEGIN
    FOR role IN SELECT rolname FROM pg_roles WHERE rolname ~ '^regress_dexp3_(old|new)$' ORDER BY rolname COLLATE "C" LOOP
        EXECUTE format('SET LOCAL ROLE %I', role);
        may := dexp3.may_use(bandit_id) FROM privileges.renamed;
        SET LOCAL ROLE NONE;
        RETURN NEXT;
    END LOOP;
END
$$;
CREATE TABLE privileges.renamed AS SELECT bandit_id FROM dexp3.bandit WHERE name = 'of anna';
GRANT USAGE ON SCHEMA privileges TO PUBLIC;
GRANT SELECT ON privileges.renamed TO PUBLIC;
CREATE ROLE regress_dexp3_old;
SELECT bandit_grant('of anna', 'regress_dexp3_old');
ALTER ROLE regress_dexp3_old RENAME TO regress_dexp3_new;
CREATE ROLE regress_dexp3_old;
SELECT grantees FROM dexp3.bandit WHERE name = 'of anna';
SELECT * FROM privileges.may_use();
DROP ROLE regress_dexp3_new;
CREATE ROLE regress_dexp3_new;
SELECT grantees FROM dexp3.bandit WHERE name = 'of anna';
SELECT * FROM privileges.may_use();
-- granted anew, the one that is gone makes room for it
SELECT bandit_grant('of anna', 'regress_dexp3_old');
SELECT grantees FROM dexp3.bandit WHERE name = 'of anna';
SELECT * FROM privileges.may_use();
SELECT bandit_revoke('of anna', 'regress_dexp3_old');
DROP ROLE regress_dexp3_old, regress_dexp3_new;
-- one that is gone cannot be granted
CREATE ROLE regress_dexp3_gone;
SELECT bandit_grant('of anna', 'regress_dexp3_gone');
DROP ROLE regress_dexp3_gone;
SELECT bandit_grant('of anna', 'regress_dexp3_gone');
SELECT bandit_revoke('of anna', 'regress_dexp3_gone');

-- Where there was no role of a name, as in a restore, the role may come later.
UPDATE dexp3.bandit SET grantees = '{regress_dexp3_new}' WHERE name = 'of anna';
SELECT * FROM privileges.may_use();
CREATE ROLE regress_dexp3_new;
SELECT * FROM privileges.may_use();
SELECT bandit_revoke('of anna', 'regress_dexp3_new');
DROP ROLE regress_dexp3_new;

-- What a role can be compared with, and be written as
ALTER ROLE regress_dexp3_anna RENAME TO regress_dexp3_anne;
SELECT owner, owner = 'regress_dexp3_anne' AS literal, owner = 'regress_dexp3_anne'::text AS text,
       owner = 'regress_dexp3_anne'::name AS name, owner <> 'regress_dexp3_anna' AS other,
       owner IN ('x', 'regress_dexp3_anne') AS one_of, pg_has_role('regress_dexp3_anne', owner::name, 'USAGE') AS cast,
       owner OPERATOR(dexp3.=) 'regress_dexp3_anne' AS own, upper(owner), dexp3.role_send(owner) = 'regress_dexp3_anne'::bytea AS sent
FROM dexp3.bandit WHERE name = 'of anna';
ALTER ROLE regress_dexp3_anne RENAME TO regress_dexp3_anna;
SELECT 'public' = ANY (grantees) AS literal, 'public'::name = ANY (grantees) AS name, grantees = '{}' AS nobody, grantees::text[] AS text
FROM dexp3.bandit WHERE name = 'of anna';
SELECT owner, count(*) FROM dexp3.bandit WHERE name = 'of anna' GROUP BY owner ORDER BY owner DESC;
SELECT r, lag(r) OVER w OPERATOR(dexp3.<) r AS lt, r OPERATOR(dexp3.>=) r AS ge, lag(r) OVER w OPERATOR(dexp3.>) r AS gt,
       lag(r) OVER w OPERATOR(dexp3.<>) r AS ne, lag(r) OVER w OPERATOR(dexp3.<=) r AS le
FROM unnest('{public,regress_dexp3_anna,none}'::dexp3.role[]) r WINDOW w AS (ORDER BY r);
SELECT length(repeat('ä', 100)::dexp3.role) AS clipped;

-- A trigger gives feedback with the rights of whoever writes the row.
SET ROLE regress_dexp3_anna;
CREATE TEMP TABLE outcome (decision bigint, loss float8);
GRANT ALL ON outcome TO PUBLIC;
CREATE TRIGGER outcome_feedback AFTER INSERT ON outcome FOR EACH ROW
    EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
SELECT decision_id AS second FROM bandit_choose('of anna') \gset
SET ROLE regress_dexp3_stranger;
SELECT privileges.try(format('INSERT INTO outcome VALUES (%s, 0.5)', :second));
SET ROLE regress_dexp3_anna;
INSERT INTO outcome VALUES (:second, 0.5);
SELECT count(*) FROM dexp3.feedback WHERE decision_id = :second;

-- The triggers of the log are not for anybody's tables.
SET ROLE regress_dexp3_stranger;
CREATE TEMP TABLE trap (a integer, b integer, c integer, d integer, e integer, f integer, g text);
CREATE TRIGGER trap BEFORE INSERT ON trap FOR EACH ROW EXECUTE FUNCTION dexp3.log_arrival();
RESET ROLE;
CREATE TRIGGER trap BEFORE INSERT ON trap FOR EACH ROW EXECUTE FUNCTION dexp3.log_arrival();
INSERT INTO trap VALUES (1, 2, 3, 4, 5, 6, 'seven');

-- Row security does not keep superusers from their work.
SELECT count(*) > 0 AS visible FROM dexp3.decision WHERE decision_id = :second;

-- Who may call what: every function is for everybody, but for those of the
-- log's own triggers.
SELECT p.oid::regprocedure AS function
FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
     JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
WHERE e.extname = 'dexp3' AND NOT has_function_privilege('regress_dexp3_stranger', p.oid, 'EXECUTE')
ORDER BY p.oid::regprocedure::text COLLATE "C";

SELECT bandit_drop('of anna');
DROP TABLE outcome, trap;
SET client_min_messages = warning;
DROP SCHEMA privileges CASCADE;
DROP ROLE regress_dexp3_anna, regress_dexp3_ben, regress_dexp3_team, regress_dexp3_stranger;
