-- What a shop needs: rewards or losses, said once; booleans and constants as feedback;
-- triggers that warn.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;
CREATE SCHEMA shop;
-- so that decisions have the same numbers whatever was before
SELECT setval('dexp3.decision_id_seq', 7000000);

-- The losses of decisions, as they are in the log
CREATE FUNCTION shop.losses(first bigint, last bigint) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT string_agg(decision_id - first || ': ' || loss, ', ' ORDER BY decision_id)
    FROM dexp3.feedback WHERE decision_id BETWEEN first AND last
$$;

--
-- goal
--

SELECT bandit_create('rewarded', '{a,b,c}', goal => 'reward', loss_range => '{0,10}'),
       bandit_create('punished', '{a,b,c}', goal => 'loss', loss_range => '{0,10}'),
       bandit_create('either', '{a,b,c}', loss_range => '{0,10}') \gset
SELECT name, goal FROM dexp3.bandit WHERE name IN ('rewarded', 'punished', 'either') ORDER BY name;
SELECT bandit_create('x', '{a,b}', goal => 'conversion');
\echo :LAST_ERROR_SQLSTATE
SELECT bandit_create('x', '{a,b}', goal => '');
SELECT bandit_create('x', '{a,b}', goal => 'Reward');

-- The other kind of feedback is refused, whatever the way, also for what is settled.
SELECT decision_id AS rewarded FROM bandit_choose('rewarded', subject => 'ann') \gset
SELECT decision_id AS punished FROM bandit_choose('punished', subject => 'ann') \gset
SELECT decision_id AS either FROM bandit_choose('either', subject => 'ann') \gset
SELECT bandit_feedback(:rewarded, 5);
\echo :LAST_ERROR_SQLSTATE
SELECT bandit_feedback('rewarded', 'ann', 5);
SELECT bandit_reward(:punished, 5);
SELECT bandit_reward('punished', 'ann', 5);
SELECT bandit_reward(:punished, true);
SELECT bandit_reward('punished', 'ann', true);
CREATE TABLE shop.plain (decision bigint, loss float8);
CREATE TRIGGER learn AFTER INSERT ON shop.plain
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
CREATE TABLE shop.rewards (decision bigint, reward float8);
CREATE TRIGGER learn AFTER INSERT ON shop.rewards REFERENCING NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', 'reward', 'reward');
INSERT INTO shop.plain VALUES (:rewarded, 5);
\echo :LAST_ERROR_SQLSTATE
INSERT INTO shop.rewards VALUES (:either, 2), (:punished, 5);
SELECT shop.losses(:rewarded, :either);
SELECT bandit_reward('rewarded', 'ann', 7), bandit_feedback('punished', 'ann', 7), bandit_reward('either', 'ann', 7);
SELECT bandit_feedback(:rewarded, 5);
SELECT bandit_reward(:punished, 5);
SELECT bandit_feedback(:either, 5);
SELECT shop.losses(:rewarded, :either);

-- Reports are in the unit of the goal, with the best at the top. Arm b is the best; c
-- is retired.
CREATE PROCEDURE shop.play(bandit text, n integer) LANGUAGE plpgsql AS $$
DECLARE
    chosen record;
    reward float8;
BEGIN
    FOR i IN 1 .. n LOOP
        SELECT * INTO chosen FROM bandit_choose(bandit);
        reward := CASE chosen.arm WHEN 'a' THEN 3 WHEN 'b' THEN 8 ELSE 9 END + i % 3 - 1;
        IF bandit = 'rewarded' THEN
            PERFORM bandit_reward(chosen.decision_id, reward);
        ELSE
            PERFORM bandit_feedback(chosen.decision_id, 10 - reward);
        END IF;
    END LOOP;
END $$;
SET seed = 0.5;
CALL shop.play('rewarded', 300);
SET seed = 0.5;
CALL shop.play('punished', 300);
SET seed = 0.5;
CALL shop.play('either', 300);
SELECT bandit_retire_arm(b, 'c') FROM unnest(ARRAY['rewarded', 'punished', 'either']) b;
CREATE VIEW shop.report AS
    SELECT b AS bandit, r.*
    FROM unnest(ARRAY['rewarded', 'punished', 'either']) b, bandit_report(b) WITH ORDINALITY AS r
        (arm, decisions, settled, open, mean_loss, estimate, estimate_low, estimate_high, probability, mean_reward, unit, left_out, n);
SELECT bandit, string_agg(arm, ' ' ORDER BY n) AS top_down, min(unit) AS unit,
       bool_and(estimate BETWEEN estimate_low AND estimate_high) AS between,
       bool_and(abs(mean_loss + mean_reward - 10) < 1e-9) AS mirrored
FROM shop.report GROUP BY bandit ORDER BY bandit;
-- against the rewards in the log, weighted with 1 / p
SELECT r.arm, abs(r.estimate - e) < 1e-9 AS estimate, abs(r.estimate_low - greatest(e - 1.959964 * s, 0)) < 1e-9 AS low,
       abs(r.estimate_high - least(e + 1.959964 * s, 10)) < 1e-9 AS high, abs(r.mean_reward - mean) < 1e-9 AS mean
FROM shop.report r JOIN (
    SELECT arm, e, avg(reward) AS mean, sqrt(sum(((reward - e) / p) ^ 2) * count(*) / (count(*) - 1)) / sum(1 / p) AS s
    FROM (SELECT arms[f.arm] AS arm, 10 - loss AS reward, probability AS p,
                 sum((10 - loss) / probability) OVER w / sum(1 / probability) OVER w AS e
          FROM dexp3.feedback f JOIN dexp3.bandit USING (bandit_id) WHERE name = 'rewarded' WINDOW w AS (PARTITION BY f.arm)) f
    GROUP BY arm, e) f USING (arm)
WHERE bandit = 'rewarded' ORDER BY arm;

SELECT bandit, bool_and(abs(loss + reward - 10) < 1e-9 AND abs(loss_low + reward_high - 10) < 1e-9
                        AND abs(loss_high + reward_low - 10) < 1e-9) AS mirrored
FROM unnest(ARRAY['rewarded', 'punished']) bandit, bandit_evaluate(bandit, '{0.25,0.5,0.25}') GROUP BY bandit ORDER BY bandit;
SELECT bandit, goal, abs(total_reward - sum) < 1e-9 AS total_reward
FROM dexp3.overview JOIN (
    SELECT name AS bandit, sum(10 - loss) FROM dexp3.feedback JOIN dexp3.bandit USING (bandit_id) GROUP BY 1) s USING (bandit)
WHERE bandit IN ('rewarded', 'punished', 'either') ORDER BY bandit;

-- So are charts. Without a goal, the kind of the chart decides.
SELECT bandit, kind, substring(svg FROM '<desc>([^;]*)') AS what,
       ARRAY(SELECT m[1] FROM regexp_matches(svg, '<text class="name"[^>]*>([^<]*)', 'g') m) AS legend
FROM unnest(ARRAY['rewarded', 'punished', 'either']) bandit, unnest(ARRAY['loss', 'reward']) kind,
     bandit_chart(bandit, kind) svg;
SELECT bandit_chart('rewarded', 'loss') = bandit_chart('rewarded', 'reward') AS same,
       abs(substring(bandit_chart('rewarded', 'loss') FROM '; b: ([\d.]*) on average')::numeric - mean_reward::numeric) < 0.1 AS mean
FROM bandit_report('rewarded') WHERE arm = 'b';

--
-- Booleans: one end of the range or the other
--

SELECT min(decision_id) AS first, max(decision_id) AS last FROM bandit_choose_many('rewarded', 20) \gset
SELECT bandit_reward(:first, true), bandit_reward(:first + 1, false), bandit_reward(:first + 2, 2 > 1),
       bandit_reward(:first + 2, false);
SELECT bandit_reward(:first + 3, NULL::boolean);
SELECT count(bandit_choose('rewarded', subject => s)) FROM unnest(ARRAY['bob', 'cem']) s;
SELECT bandit_reward('rewarded', 'bob', true), bandit_reward('rewarded', 'cem', reward => false);
SELECT loss FROM dexp3.feedback ORDER BY decision_id DESC LIMIT 2;
-- true is not a loss that was meant
\set VERBOSITY terse
SELECT bandit_feedback(:either, true);
\set VERBOSITY default
-- what has no type is a number, as drivers expect that send parameters without one
SELECT bandit_reward(:first + 3, NULL);
SELECT bandit_reward('rewarded', 'bob', NULL);
SELECT bandit_reward(:first + 3, '2.5');
PREPARE untyped AS SELECT bandit_reward($1, $2);
PREPARE untyped_by_subject AS SELECT bandit_reward($1, $2, $3);
SELECT name, parameter_types FROM pg_prepared_statements WHERE name LIKE 'untyped%' ORDER BY name;
DEALLOCATE untyped;
DEALLOCATE untyped_by_subject;

CREATE DOMAIN shop.bought AS boolean;
CREATE TABLE shop.visit (decision bigint, bought shop.bought);
CREATE TRIGGER learn AFTER INSERT OR UPDATE ON shop.visit
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', 'bought', 'reward');
INSERT INTO shop.visit VALUES (:first + 4, true), (:first + 5, false), (:first + 6, NULL);
UPDATE shop.visit SET bought = true;
CREATE TABLE shop.bounce (decision bigint, bounced boolean);
CREATE TRIGGER learn AFTER INSERT ON shop.bounce
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', 'bounced');
SELECT min(decision_id) AS bounce FROM bandit_choose_many('punished', 2) \gset
INSERT INTO shop.bounce VALUES (:bounce, true), (:bounce + 1, false);
SELECT shop.losses(:first, :last) AS rewarded, shop.losses(:bounce, :bounce + 1) AS punished;

--
-- Constants: the row itself is the success
--

CREATE TABLE shop.sale (id integer PRIMARY KEY, decision bigint);
CREATE TRIGGER learn AFTER INSERT OR UPDATE ON shop.sale
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', '=1', 'reward');
INSERT INTO shop.sale VALUES (1, :first + 7), (2, NULL), (3, :first + 7);
-- an UPDATE counts if the decision was not known
UPDATE shop.sale SET decision = :first + 8 WHERE id = 2;
UPDATE shop.sale SET decision = :first + 9 WHERE id = 1;
UPDATE shop.sale SET id = 9 WHERE id = 3;
CREATE TABLE shop.batch (id integer PRIMARY KEY, decision bigint);
CREATE TRIGGER learn_insert AFTER INSERT ON shop.batch REFERENCING NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', '=2.5e0', 'reward');
CREATE TRIGGER learn_update AFTER UPDATE ON shop.batch REFERENCING OLD TABLE AS old NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', '=2.5e0', 'reward');
INSERT INTO shop.batch VALUES (1, :first + 10), (2, NULL), (3, :first + 11);
UPDATE shop.batch SET decision = :first + 12;
SELECT shop.losses(:first + 7, :first + 12);

CREATE TABLE shop.wrong (decision bigint);
CREATE FUNCTION shop.try(arguments text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    detail text;
BEGIN
    EXECUTE 'CREATE TRIGGER wrong AFTER INSERT ON shop.wrong FOR EACH ROW
        EXECUTE FUNCTION bandit_feedback_trigger(' || arguments || ')';
    INSERT INTO shop.wrong SELECT max(decision_id) FROM dexp3.pending WHERE bandit = 'rewarded';
    RAISE 'accepted';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
    RETURN sqlstate || ' ' || sqlerrm || coalesce(E'\n' || nullif(detail, ''), '');
END $$;
SELECT a, shop.try(a) FROM unnest(ARRAY['', $$'decision'$$, $$'decision', '='$$, $$'decision', '=x'$$, $$'decision', '=1x'$$, $$'decision', '=1', '=1'$$,
    $$'decision', '=11', 'reward'$$, $$'decision', '=nan', 'reward'$$, $$'decision', '=1'$$, $$'decision', '=1', 'reward', 'reward'$$,
    $$'decision', '=1', 'warn', 'warn'$$, $$'decision', '=1', 'warn', 'reward', 'x'$$, $$'decision', 'warn'$$]) a;

--
-- 'warn': a statement goes on, whatever is wrong with its feedback
--

CREATE ROLE regress_dexp3_shop;
CREATE ROLE regress_dexp3_cashier;
GRANT USAGE ON SCHEMA shop TO regress_dexp3_shop, regress_dexp3_cashier;
GRANT CREATE ON SCHEMA shop TO regress_dexp3_shop;
SET ROLE regress_dexp3_shop;
CREATE TABLE shop.orders (id integer PRIMARY KEY, decision bigint, total numeric);
CREATE TRIGGER learn AFTER INSERT OR UPDATE ON shop.orders
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', 'total', 'warn', 'reward');
CREATE TABLE shop.parcels (id integer, decision bigint, total numeric);
CREATE TRIGGER learn AFTER INSERT ON shop.parcels REFERENCING NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', 'total', 'reward', 'warn');
GRANT INSERT ON shop.orders, shop.parcels TO regress_dexp3_cashier;
RESET ROLE;
SELECT bandit_create('dropped', '{a,b}') \gset
SELECT decision_id AS dropped FROM bandit_choose('dropped') \gset
SELECT bandit_drop('dropped');
SELECT decision_id AS loss_only FROM bandit_choose('punished') \gset
SELECT count(*) AS before FROM dexp3.feedback \gset

-- no grant yet
SET ROLE regress_dexp3_cashier;
INSERT INTO shop.orders VALUES (1, :first + 13, 5);
INSERT INTO shop.parcels VALUES (1, :first + 13, 5);
RESET ROLE;
SELECT bandit_grant('rewarded', 'regress_dexp3_cashier'), bandit_grant('punished', 'regress_dexp3_cashier');
-- a bandit that was dropped, a value out of range, not a number, the other kind of
-- feedback; what is right counts, what is null or comes twice is nothing to warn of
SET ROLE regress_dexp3_cashier;
INSERT INTO shop.orders VALUES (2, :dropped, 5), (3, :first + 13, 11), (4, :first + 13, 'NaN'), (5, :loss_only, 5),
    (6, :first + 14, 5), (7, NULL, 5), (8, :first + 13, NULL), (9, :first + 14, 5), (10, -1, 5);
INSERT INTO shop.parcels VALUES (2, :dropped, 5), (3, :first + 13, 11), (4, :first + 13, 'NaN'), (5, :loss_only, 5),
    (6, :first + 15, 5), (7, NULL, 5), (8, :first + 13, NULL), (9, :first + 15, 5), (10, -1, 5);
RESET ROLE;
-- whoever may read the key is told
UPDATE shop.orders SET total = 12 WHERE id = 8;
SELECT (SELECT count(*) FROM shop.orders) AS orders, (SELECT count(*) FROM shop.parcels) AS parcels,
       shop.losses(:first + 13, :first + 15), (SELECT count(*) FROM dexp3.feedback) - :before AS feedback;

-- also with savepoints, and when the trigger is a deferred one
BEGIN;
SAVEPOINT s;
INSERT INTO shop.orders VALUES (11, :dropped, 5), (12, :first + 16, 5);
ROLLBACK TO s;
INSERT INTO shop.orders VALUES (13, :first + 17, 5), (14, :dropped, 5);
COMMIT;
CREATE TABLE shop.later (id integer, decision bigint);
CREATE CONSTRAINT TRIGGER learn AFTER INSERT ON shop.later DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', '=5', 'reward', 'warn');
BEGIN;
INSERT INTO shop.later VALUES (1, :dropped), (2, :first + 18);
SELECT shop.losses(:first + 16, :first + 18);
COMMIT;
SELECT shop.losses(:first + 16, :first + 18);

-- In a READ ONLY transaction only temporary tables can be written.
CREATE TEMPORARY TABLE draft (decision bigint);
CREATE TRIGGER learn AFTER INSERT ON draft
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', '=5', 'reward', 'warn');
BEGIN READ ONLY;
INSERT INTO draft VALUES (:first + 19);
COMMIT;
SELECT shop.losses(:first + 19, :first + 19);

-- A column that was renamed
ALTER TABLE shop.orders RENAME total TO sum;
INSERT INTO shop.orders VALUES (15, :first + 19, 5);
ALTER TABLE shop.orders RENAME sum TO total;
INSERT INTO shop.orders VALUES (16, :first + 19, 5);
SELECT shop.losses(:first + 19, :first + 19);

-- Without 'warn' it is an error.
INSERT INTO shop.rewards VALUES (:dropped, 5);
-- So is a trigger that is not as it should be.
CREATE TABLE shop.early (decision bigint);
CREATE TRIGGER learn BEFORE INSERT ON shop.early
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', '=5', 'reward', 'warn');
INSERT INTO shop.early VALUES (1);

-- They were counted, for those whom they concern: who may use the bandit, and the
-- owner of the table.
SELECT name AS bandit, replace(table_owner::regrole::text, session_user, 'me') COLLATE "C" AS table_owner,
    replace(role, session_user, 'me') COLLATE "C" AS role, regexp_replace(table_name, 'pg_temp_.*[.]', 'pg_temp.') COLLATE "C" AS table_name,
    trigger_name, decision_id = :dropped AS dropped, sqlstate, count(*)
FROM dexp3.warning LEFT JOIN dexp3.bandit USING (bandit_id)
GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY 1, 2, 3, 4, 5, 6, 7;
SELECT bool_and(warned_at BETWEEN now() - interval '1 hour' AND now()) AS just_now, min(number) AS first,
       count(*) FILTER (WHERE decision_id IS NULL) AS without_decision, bool_and(message <> '') AS reason
FROM dexp3.warning;
SELECT bandit, rounds IS NOT NULL AS known, warnings FROM dexp3.overview
WHERE bandit IN ('rewarded', 'punished', 'either') OR bandit IS NULL ORDER BY bandit;
SET ROLE regress_dexp3_cashier;
SELECT bandit, warnings FROM dexp3.overview ORDER BY bandit;
SET ROLE regress_dexp3_shop;
SELECT bandit, warnings FROM dexp3.overview ORDER BY bandit;
SELECT count(*), count(bandit_id) AS of_bandits FROM dexp3.warning;
DELETE FROM dexp3.warning;
INSERT INTO dexp3.warning SELECT * FROM dexp3.warning;
RESET ROLE;
CREATE ROLE regress_dexp3_passer_by;
SET ROLE regress_dexp3_passer_by;
SELECT count(*) FROM dexp3.warning;
SELECT count(*) FROM dexp3.overview;
RESET ROLE;
DROP ROLE regress_dexp3_passer_by;

-- Old ones do not count, and the table does not grow without end: it has the last 1000
-- of each bandit and owner of tables, and those of the running command.
UPDATE dexp3.warning SET warned_at = now() - interval '8 days' WHERE sqlstate = '22003';
SELECT bandit, warnings FROM dexp3.overview WHERE bandit = 'rewarded';
SET client_min_messages = error;
SELECT count(*) AS others FROM dexp3.warning WHERE bandit_id IS DISTINCT FROM (SELECT bandit_id FROM dexp3.bandit WHERE name = 'rewarded') \gset
INSERT INTO shop.parcels SELECT n, :first, 11 FROM generate_series(1, 1700) n;
INSERT INTO shop.orders SELECT n, :first, 11 FROM generate_series(1001, 1100) n;
RESET client_min_messages;
SELECT count(*), max(number) - min(number) AS numbers
FROM dexp3.warning JOIN dexp3.bandit USING (bandit_id) WHERE name = 'rewarded' AND table_owner = 'regress_dexp3_shop'::regrole;
SELECT count(*) = :others AS others_stay
FROM dexp3.warning WHERE bandit_id IS DISTINCT FROM (SELECT bandit_id FROM dexp3.bandit WHERE name = 'rewarded');
SELECT bandit_drop('rewarded');
SELECT count(*) FROM dexp3.warning WHERE bandit_id IS NOT NULL AND bandit_id NOT IN (SELECT bandit_id FROM dexp3.bandit);

-- If it cannot be counted, the statement goes on all the same.
ALTER TABLE dexp3.warning RENAME TO hidden;
INSERT INTO shop.orders VALUES (17, :dropped, 5);
ALTER TABLE dexp3.hidden RENAME TO warning;
INSERT INTO shop.orders VALUES (18, :dropped, 5);

SELECT bool_and(bandit_verify(b)) AS verified FROM unnest(ARRAY['punished', 'either']) b;
SELECT bandit_drop(b) FROM unnest(ARRAY['punished', 'either']) b;
DELETE FROM dexp3.warning;
SET client_min_messages = warning;
DROP SCHEMA shop CASCADE;
DROP OWNED BY regress_dexp3_shop, regress_dexp3_cashier;
DROP ROLE regress_dexp3_shop, regress_dexp3_cashier;
