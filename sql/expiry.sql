-- Decisions that expire together, with one row of dexp3.expiry: everything that looks
-- at single decisions says the same as if each of them had a row of its own. How that
-- goes together with feedback at the same time is in specs/expire-feedback.spec.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

CREATE SCHEMA expiry;

-- The rows of a bandit in both tables, and how many decisions expired in them
CREATE FUNCTION expiry.rows(bandit text, OUT alone bigint, OUT batches bigint, OUT together bigint, OUT pending bigint,
                            OUT verified boolean)
LANGUAGE sql AS $$
    SELECT (SELECT count(*) FROM dexp3.feedback f WHERE f.bandit_id = b.bandit_id AND f.expired),
           (SELECT count(*) FROM dexp3.expiry e WHERE e.bandit_id = b.bandit_id),
           (SELECT sum(cardinality(decisions)) FROM dexp3.expiry e WHERE e.bandit_id = b.bandit_id),
           (SELECT count(*) FROM dexp3.pending p WHERE p.bandit = b.name),
           bandit_verify(b.name)
    FROM dexp3.bandit b WHERE b.name = rows.bandit
$$;

--
-- Together or one by one: the same
--

-- Two bandits make the same decisions. Some get feedback, the others expire in the one
-- bandit, and get the same loss as feedback in the other.
SELECT bandit_create('together', '{a,b,c}', 'dada-ix', feedback_window => '0', missing_loss => 8, loss_range => '{-2,10}'),
       bandit_create('one by one', '{a,b,c}', 'dada-ix', skipping => false, loss_range => '{-2,10}') \gset
CREATE FUNCTION expiry.play(bandit text, n integer, salt integer) RETURNS bigint LANGUAGE sql AS $$
    SELECT count(bandit_feedback(decision_id, number % 7))
    FROM (SELECT decision_id, row_number() OVER (ORDER BY decision_id) AS number FROM bandit_choose_many(bandit, n)) d
    WHERE (number + salt) % 3 = 0
$$;
CREATE FUNCTION expiry.settle_one_by_one() RETURNS bigint LANGUAGE sql AS $$
    SELECT count(bandit_feedback(decision_id, 8)) FROM (SELECT * FROM dexp3.pending WHERE bandit = 'one by one' ORDER BY round) p
$$;
SELECT setseed(0.5);
SELECT expiry.play('together', 250, 1);
SELECT bandit_expire('together');
SELECT expiry.play('together', 150, 2);
SELECT bandit_expire('together');
SELECT setseed(0.5);
SELECT expiry.play('one by one', 250, 1);
SELECT expiry.settle_one_by_one();
SELECT expiry.play('one by one', 150, 2);
SELECT expiry.settle_one_by_one();
SELECT * FROM expiry.rows('together');
SELECT * FROM expiry.rows('one by one');

-- Rows, one by one
CREATE VIEW expiry.said AS
    SELECT name, d.round - 1 AS n, d.arm = s.arm AND d.probability = s.probability AND d.bandit_id = s.bandit_id AND d.epoch = s.epoch AS same,
           d.arm, s.round, s.delay, s.loss, round(s.estimate::numeric, 9) AS estimate, round(s.probability::numeric, 9) AS probability,
           s.baseline, s.mass, s.decided_at
    FROM dexp3.settled s JOIN dexp3.decision d USING (decision_id) JOIN dexp3.bandit b ON b.bandit_id = d.bandit_id;
SELECT a.same AND b.same AS same, count(*),
       bool_and((a.arm, a.round, a.delay, a.loss, a.estimate, a.probability) = (b.arm, b.round, b.delay, b.loss, b.estimate, b.probability)) AS equal,
       bool_and((a.baseline, a.mass, a.decided_at) IS NULL) AS nulls
FROM (SELECT * FROM expiry.said WHERE name = 'together') a FULL JOIN (SELECT * FROM expiry.said WHERE name = 'one by one') b USING (n)
GROUP BY 1;

-- Reports, evaluation, state
SELECT count(*) FROM (SELECT arm, decisions, settled, open, round(mean_loss::numeric, 9), round(estimate::numeric, 9),
                             round(estimate_low::numeric, 9), round(estimate_high::numeric, 9), round(probability::numeric, 4) FROM bandit_report('together')
                      INTERSECT
                      SELECT arm, decisions, settled, open, round(mean_loss::numeric, 9), round(estimate::numeric, 9),
                             round(estimate_low::numeric, 9), round(estimate_high::numeric, 9), round(probability::numeric, 4) FROM bandit_report('one by one')) _;
SELECT count(*) FROM (SELECT estimator, round(loss::numeric, 9), round(loss_low::numeric, 9), round(loss_high::numeric, 9)
                      FROM bandit_evaluate('together', '{0.5,0.2,0.3}')
                      INTERSECT
                      SELECT estimator, round(loss::numeric, 9), round(loss_low::numeric, 9), round(loss_high::numeric, 9)
                      FROM bandit_evaluate('one by one', '{0.5,0.2,0.3}')) _;
SELECT bandit, rounds, open, skipped, expired, total_delay, longest_delay, total_loss FROM dexp3.overview
WHERE bandit IN ('together', 'one by one') ORDER BY bandit;
SELECT bandit_current_state('together')::jsonb - 'z' = bandit_current_state('one by one')::jsonb - 'z' AS state;
SELECT count(DISTINCT regexp_replace(bandit_chart(name, 'loss'), name || '|\d{4}-\d\d-\d\d \d\d:\d\d', '', 'g')) AS charts
FROM unnest('{together,one by one}'::text[]) name;

-- Answers, by decision and by subject; a subject that stays gets a new decision
SELECT bandit_feedback(decision_id, 0) AS answer, count(*)
FROM dexp3.settled JOIN dexp3.bandit USING (bandit_id) WHERE name = 'together' GROUP BY 1 ORDER BY 1;
SELECT bandit_create('subjects', '{a,b}', feedback_window => '0', sticky => true) \gset
SELECT decision_id AS ann FROM bandit_choose('subjects', subject => 'ann') \gset
SELECT bandit_expire('subjects');
SELECT bandit_feedback('subjects', 'ann', 0), decision_id > :ann AS another FROM bandit_choose('subjects', subject => 'ann');
SELECT bandit_feedback('subjects', 'ann', 0), bandit_feedback('subjects', 'ann', 0);
CREATE TABLE expiry.orders (decision_id bigint, loss float8);
CREATE TRIGGER learn AFTER INSERT ON expiry.orders FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'loss');
INSERT INTO expiry.orders VALUES (:ann, 0);
SELECT loss, expired FROM dexp3.settled WHERE decision_id = :ann;

--
-- Who may see it
--

CREATE ROLE regress_dexp3_nosy;
SET ROLE regress_dexp3_nosy;
SELECT (SELECT count(*) FROM dexp3.expiry) AS expiry, (SELECT count(*) FROM dexp3.settled) AS settled, (SELECT count(*) FROM dexp3.pending) AS pending;
SELECT count(*) FROM dexp3.expiry_rows;
DELETE FROM dexp3.expiry;
RESET ROLE;
SELECT bandit_grant('subjects', 'regress_dexp3_nosy');
SET ROLE regress_dexp3_nosy;
SELECT (SELECT count(*) FROM dexp3.expiry) AS expiry, (SELECT count(*) FROM dexp3.settled) AS settled, (SELECT count(*) FROM dexp3.pending) AS pending;
RESET ROLE;
SELECT bandit_revoke('subjects', 'regress_dexp3_nosy');
DROP ROLE regress_dexp3_nosy;

--
-- Rows that come and go in other ways
--

-- Another loss, fewer decisions, no row at all, and the row again
SELECT bandit_create('by hand', '{a,b}', feedback_window => '0', half_life => '1000 days') \gset
SELECT bandit_create('others', '{a,b}', feedback_window => '0', retention => '0') \gset
SELECT min(decision_id) AS first FROM bandit_choose_many('by hand', 10) \gset
SELECT bandit_expire('by hand');
CREATE TABLE expiry.saved AS SELECT e.* FROM dexp3.expiry e JOIN dexp3.bandit USING (bandit_id) WHERE name = 'by hand';
CREATE FUNCTION expiry.looks(OUT closed bigint, OUT loss numeric, OUT verified boolean) LANGUAGE sql AS $$
    SELECT rounds - open, round(total_loss::numeric, 6), bandit_verify(bandit) FROM dexp3.overview WHERE bandit = 'by hand'
$$;
SELECT * FROM expiry.looks();
UPDATE dexp3.expiry SET loss = 0.25 WHERE first_decision = :first;
SELECT * FROM expiry.looks();
UPDATE dexp3.expiry SET decisions = decisions[3:10], first_decision = decisions[3] WHERE first_decision = :first;
SELECT * FROM expiry.looks();
SELECT bandit_feedback(:first, 0.5), bandit_feedback(:first + 2, 0.5);
SELECT * FROM expiry.looks();
BEGIN;
TRUNCATE dexp3.expiry;
SELECT * FROM expiry.looks();
SELECT bandit_feedback(:first + 3, 0.5);
ROLLBACK;
SELECT * FROM expiry.looks();
DELETE FROM dexp3.expiry WHERE first_decision = :first + 2;
DELETE FROM dexp3.feedback WHERE decision_id = :first;
SELECT * FROM expiry.looks();
INSERT INTO dexp3.expiry SELECT * FROM expiry.saved;
SELECT * FROM expiry.looks();
SELECT e.xact > s.xact AS stamped FROM dexp3.expiry e JOIN expiry.saved s USING (first_decision);
SELECT DISTINCT bandit_feedback(decision_id, 0.5) FROM generate_series(:first, :first + 9) decision_id;
-- A decision that is not there counts for nothing.
DELETE FROM dexp3.decision WHERE decision_id = :first + 4;
SELECT * FROM expiry.looks();
-- What no row of ours looks like
UPDATE dexp3.expiry SET decisions = '{{1,2},{3,4}}' WHERE first_decision = :first;
SELECT bandit_choose('by hand');
UPDATE dexp3.expiry SET decisions = '{}' WHERE first_decision = :first;
SELECT bandit_choose('by hand');
UPDATE dexp3.expiry SET decisions = ARRAY[NULL, :first] WHERE first_decision = :first;
SELECT bandit_choose('by hand');
DELETE FROM dexp3.expiry WHERE first_decision = :first;
SELECT * FROM expiry.looks();

-- A row from elsewhere must begin with its first decision, and end with its last one.
SELECT min(decision_id) AS first FROM bandit_choose_many('by hand', 3) \gset
INSERT INTO dexp3.expiry SELECT :first + 1, bandit_id, epoch, :first + 2, 3, now(), '0', 1, NULL, ARRAY[:first, :first + 1, :first + 2]
FROM dexp3.bandit WHERE name = 'by hand';
INSERT INTO dexp3.expiry SELECT :first, bandit_id, epoch, :first + 1, 3, now(), '0', 1, NULL, ARRAY[:first, :first + 1, :first + 2]
FROM dexp3.bandit WHERE name = 'by hand';
-- Decisions of another bandit are not the batch's.
INSERT INTO dexp3.expiry SELECT :first, bandit_id, epoch, :first + 2, 3, now() - interval '1 hour', '0', 1, NULL,
                                ARRAY[:first, :first + 1, :first + 2]
FROM dexp3.bandit WHERE name = 'others';
SELECT * FROM expiry.rows('others');
SELECT bandit_trim('others');
SELECT * FROM expiry.rows('others');
SELECT * FROM expiry.looks();
SELECT bandit_feedback(:first, 0.5);
SELECT * FROM expiry.looks();

-- A batch that comes before its decisions, and a checkpoint between the two
SELECT bandit_create('odd order', '{a,b}', feedback_window => '0') \gset
SELECT count(*) FROM bandit_choose_many('odd order', 10);
SELECT bandit_expire('odd order');
CREATE TABLE expiry.decisions AS SELECT d.* FROM dexp3.decision d JOIN dexp3.bandit USING (bandit_id) WHERE name = 'odd order';
DELETE FROM dexp3.decision USING expiry.decisions d WHERE decision.decision_id = d.decision_id;
SELECT bandit_alter('odd order', feedback_window => '1 day');
SELECT count(*) FROM bandit_choose_many('odd order', 600);
SELECT count(*) FROM bandit_choose('odd order');
SELECT events FROM dexp3.checkpoint JOIN dexp3.bandit USING (bandit_id) WHERE name = 'odd order';
INSERT INTO dexp3.decision SELECT * FROM expiry.decisions;
SELECT rounds, open, expired, bandit_verify(bandit) FROM dexp3.overview WHERE bandit = 'odd order';

-- What is settled is not settled again: by a row of its own, by another batch, or by a batch after a row of its own.
CREATE TABLE expiry.batch AS SELECT e.* FROM dexp3.expiry e JOIN expiry.decisions d ON first_decision = decision_id;
\set VERBOSITY sqlstate
INSERT INTO dexp3.feedback SELECT s.* FROM dexp3.settled s JOIN expiry.batch b ON decision_id = b.decisions[3];
INSERT INTO dexp3.expiry
SELECT decisions[3], bandit_id, epoch, decisions[4], round, received_at, xact, loss, baseline, decisions[3:4] FROM expiry.batch;
DELETE FROM dexp3.expiry USING expiry.batch b WHERE expiry.first_decision = b.first_decision;
SELECT bandit_feedback(decisions[3], 0.5) FROM expiry.batch;
INSERT INTO dexp3.expiry SELECT * FROM expiry.batch;
\set VERBOSITY default
INSERT INTO dexp3.expiry
SELECT decisions[4], bandit_id, epoch, last_decision, round, received_at, xact, loss, baseline, decisions[4:10] FROM expiry.batch;
INSERT INTO dexp3.expiry
SELECT first_decision, bandit_id, epoch, decisions[2], round, received_at, xact, loss, baseline, decisions[1:2] FROM expiry.batch;
SELECT rounds, open, expired, bandit_verify(bandit) FROM dexp3.overview WHERE bandit = 'odd order';

-- Decisions that come too late: batches never overlap.
SELECT bandit_create('late', '{a,b}', feedback_window => '0') \gset
SELECT setval('dexp3.decision_id_seq', nextval('dexp3.decision_id_seq') + 100) > 0 AS room;
SELECT count(*) FROM bandit_choose_many('late', 6);
BEGIN;
SAVEPOINT a;
SELECT bandit_expire('late');
ROLLBACK TO a;
SELECT bandit_feedback(min(decision_id), 0) FROM dexp3.pending WHERE bandit = 'late';
SELECT bandit_expire('late');
SAVEPOINT b;
SELECT bandit_feedback(max(decision_id), 0) FROM dexp3.settled JOIN dexp3.bandit USING (bandit_id) WHERE name = 'late';
COMMIT;
SELECT * FROM expiry.rows('late');
INSERT INTO dexp3.decision
SELECT (jsonb_populate_record(d, jsonb_build_object('decision_id', decision_id - 50))).*
FROM dexp3.decision d JOIN dexp3.bandit USING (bandit_id) WHERE name = 'late';
SELECT bandit_expire('late');
SELECT * FROM expiry.rows('late');

-- A reset, with retention, and a drop
SELECT bandit_create('gone', '{a,b}', feedback_window => '0', retention => '0') \gset
SELECT count(*) FROM bandit_choose_many('gone', 300);
SELECT bandit_expire('gone');
SELECT bandit_reset('gone');
SELECT * FROM expiry.rows('gone');
SELECT count(*) FROM bandit_choose_many('gone', 3, allowed => '{b}');
SELECT bandit_expire('gone');
SELECT bandit_trim('gone');
SELECT * FROM expiry.rows('gone');
SELECT bandit_create('dropped', '{a,b}', feedback_window => '0') AS dropped \gset
SELECT count(*) FROM bandit_choose_many('dropped', 5);
SELECT bandit_expire('dropped');
SELECT bandit_drop('dropped');
SELECT count(*) FROM dexp3.expiry WHERE bandit_id = :dropped;

--
-- Retention: what was in a batch is removed with it, and remembered
--

SELECT bandit_create('kept', '{a,b,c}', feedback_window => '0', missing_loss => 3, loss_range => '{1,5}', half_life => '1000 days',
                     retention => '0') \gset
SELECT count(bandit_feedback(decision_id, 1 + decision_id % 4)) FROM bandit_choose_many('kept', 350) WHERE decision_id % 5 = 0;
SELECT count(bandit_feedback(decision_id, 2)) FROM bandit_choose_many('kept', 50, allowed => '{a,c}') WHERE decision_id % 5 = 0;
SELECT bandit_expire('kept');
SELECT * FROM expiry.rows('kept');
CREATE TABLE expiry.before AS
SELECT r.arm, decisions, settled, round(mean_loss::numeric, 9) AS mean, round(estimate_low::numeric, 9) AS low,
       round(estimate_high::numeric, 9) AS high, round(probability::numeric, 4) AS probability FROM bandit_report('kept') r;
CREATE TABLE expiry.answers AS
SELECT decision_id, bandit_feedback(decision_id, 2) AS answer FROM dexp3.decision JOIN dexp3.bandit USING (bandit_id) WHERE name = 'kept';
SELECT answer, count(*) FROM expiry.answers GROUP BY answer ORDER BY answer;
SELECT bandit_trim('kept');
SELECT rounds, expired_rounds, skipped_rounds FROM dexp3.trimmed JOIN dexp3.bandit USING (bandit_id) WHERE name = 'kept';
SELECT * FROM expiry.rows('kept');
SELECT count(*) FROM (SELECT r.arm, decisions, settled, round(mean_loss::numeric, 9), round(estimate_low::numeric, 9),
                             round(estimate_high::numeric, 9), round(probability::numeric, 4) FROM bandit_report('kept') r
                      INTERSECT SELECT * FROM expiry.before) _;
SELECT count(*) FROM expiry.answers WHERE answer <> bandit_feedback(decision_id, 2);
-- From the log alone
DELETE FROM dexp3.checkpoint;
UPDATE dexp3.feedback SET loss = loss WHERE false;
\c -
SELECT bandit_verify(name) AS verified, count(*) FROM dexp3.bandit
WHERE name IN ('together', 'one by one', 'subjects', 'late', 'gone', 'kept') GROUP BY 1;

SELECT count(bandit_drop(name)) FROM unnest('{together,one by one,subjects,by hand,others,odd order,late,gone,kept}'::text[]) name;
SELECT count(*) FROM dexp3.expiry WHERE bandit_id NOT IN (SELECT bandit_id FROM dexp3.bandit);
SET client_min_messages = warning;
DROP SCHEMA expiry CASCADE;
