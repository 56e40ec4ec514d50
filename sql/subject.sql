-- Who a decision was for, and losses in other units.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

SELECT setseed(0.4);

--
-- Subjects
--

SELECT bandit_create('visit', '{a,b,c}', 'dada') \gset
SELECT decision_id AS ann1 FROM bandit_choose('visit', subject => 'ann') \gset
SELECT decision_id AS bob FROM bandit_choose('visit', subject => 'bob') \gset
SELECT decision_id AS ann2 FROM bandit_choose('visit', subject => 'ann') \gset
SELECT decision_id AS nobody FROM bandit_choose('visit') \gset
SELECT decision_id - :ann1 AS n, subject FROM dexp3.decision WHERE decision_id >= :ann1 ORDER BY 1;

-- Feedback goes to the newest open decision; when none is left, the answer is
-- that of the newest.
SELECT bandit_feedback('visit', 'ann', 0.5);
SELECT decision_id = :ann2 AS newest, loss FROM dexp3.feedback WHERE decision_id >= :ann1;
SELECT bandit_reward('visit', 'ann', 0.75);
SELECT decision_id = :ann1 AS oldest, loss FROM dexp3.feedback WHERE decision_id >= :ann1 AND decision_id <> :ann2;
SELECT bandit_feedback('visit', 'ann', 0.5), bandit_feedback('visit', 'bob', 0);
SELECT bandit_reset('visit');
SELECT bandit_feedback('visit', 'ann', 0.5);

-- A rollback gives the decision back.
SELECT decision_id AS eve FROM bandit_choose('visit', subject => 'eve') \gset
BEGIN;
SELECT bandit_feedback('visit', 'eve', 1);
ROLLBACK;
SELECT bandit_feedback('visit', 'eve', 0.25);
SELECT loss FROM dexp3.feedback WHERE decision_id = :eve;

-- Any text will do, the empty one and quotes included, up to 1,000 bytes.
SELECT length(subject), bandit_feedback('visit', subject, 0.1)
FROM (SELECT subject, c.arm FROM unnest(ARRAY['', '''"\', 'Zoë', repeat('x', 1000)]) subject,
                                 bandit_choose_each('visit', subject, subject => subject) c OFFSET 0) _;
SELECT bandit_choose('visit', subject => repeat('x', 1001));

-- What cannot be
SELECT bandit_feedback('visit', 'zoe', 0.5);
SELECT bandit_feedback('nowhere', 'ann', 0.5);
SELECT bandit_feedback('visit', NULL, 0.5);
SELECT bandit_feedback('visit', 'bob', NULL);
SELECT bandit_feedback(NULL, 'bob', 0.5);
SELECT bandit_reward('visit', 'eve', 2);

-- Only rows with a subject are in its index.
SELECT count(*) AS rows, pg_get_expr(indpred, indrelid) AS predicate
FROM pg_index, dexp3.decision WHERE indexrelid = 'dexp3.decision_subject_idx'::regclass AND subject IS NOT NULL
GROUP BY indexrelid, indpred, indrelid;

--
-- Sticky
--

SELECT bandit_create('sticky', '{a,b,c}', 'dada', sticky => true) \gset
CREATE TEMP TABLE first AS SELECT * FROM bandit_choose('sticky', subject => 'ann');

-- The same decision again, until it is settled
SELECT count(*) FILTER (WHERE c = first) AS same, count(*)
FROM first, generate_series(1, 10) i, bandit_choose_each('sticky', i, subject => 'ann') c;
SELECT c.decision_id <> f.decision_id AS other_subject FROM first f, bandit_choose('sticky', subject => 'bob') c;
SELECT c.decision_id <> f.decision_id AS no_subject FROM first f, bandit_choose('sticky') c;
SELECT bandit_feedback('sticky', 'ann', 0.5);
SELECT c.decision_id <> f.decision_id AS after_feedback FROM first f, bandit_choose('sticky', subject => 'ann') c;

-- An arm that is not allowed or has retired is not kept.
SELECT arm AS kept FROM bandit_choose('sticky', subject => 'eve', allowed => '{b}') \gset
SELECT arm FROM bandit_choose('sticky', subject => 'eve', allowed => '{c}');
SELECT arm FROM bandit_choose('sticky', subject => 'eve', allowed => '{b}');
SELECT arm FROM bandit_choose('sticky', subject => 'eve');
SELECT bandit_retire_arm('sticky', 'c');
SELECT arm FROM bandit_choose('sticky', subject => 'eve');
SELECT bandit_reset('sticky');
SELECT arm IS NOT NULL AS chosen FROM bandit_choose('sticky', subject => 'eve');
SELECT round FROM dexp3.pending WHERE bandit = 'sticky';

--
-- Losses in other units
--

SELECT bandit_create('price', '{a,b}', 'dada', loss_range => '{-50, 150}', skipping => false),
       bandit_create('clamped', '{a,b}', 'dada', loss_range => '[5:6]={0, 10}', clamp_losses => true, skipping => false) \gset
SELECT name, loss_range, clamp_losses FROM dexp3.bandit WHERE name IN ('price', 'clamped') ORDER BY bandit_id;

-- The log has the loss in those units, the estimate the share of the range.
CREATE FUNCTION pg_temp.settle(bandit text, number float8, reward boolean DEFAULT false,
                               OUT outcome text, OUT loss float8, OUT share float8) LANGUAGE plpgsql AS $$
DECLARE
    chosen record;
BEGIN
    SELECT * INTO chosen FROM bandit_choose(bandit);
    outcome := CASE WHEN reward THEN bandit_reward(chosen.decision_id, number)
                    ELSE bandit_feedback(chosen.decision_id, number) END;
    SELECT f.loss, round((f.estimate * chosen.probability)::numeric, 12) INTO loss, share
    FROM dexp3.feedback f WHERE f.decision_id = chosen.decision_id;
END
$$;
SELECT number, reward, s.*
FROM (VALUES ('price', -50::float8), ('price', 0), ('price', 150), ('clamped', 2.5), ('clamped', -1), ('clamped', 1e300),
             ('clamped', 'infinity')) _ (bandit, number),
     unnest('{f,t}'::boolean[]) reward, pg_temp.settle(bandit, number, reward) s;
SELECT bandit_feedback(decision_id, 150.5) FROM bandit_choose('price');
SELECT bandit_reward(decision_id, -50.5) FROM bandit_choose('price');
SELECT bandit_feedback(decision_id, 'NaN') FROM bandit_choose('clamped');

-- Through a trigger
CREATE TEMP TABLE sale (decision bigint, amount numeric);
CREATE TRIGGER sale AFTER INSERT ON sale REFERENCING NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', 'amount', 'reward');
INSERT INTO sale SELECT decision_id, 100 FROM bandit_choose('price');
SELECT loss FROM dexp3.feedback JOIN sale ON decision = decision_id;
INSERT INTO sale SELECT decision_id, 200 FROM bandit_choose('price');

-- What cannot be
SELECT bandit_create('bad', '{a,b}', 'dada', loss_range => '{1,1}');
SELECT bandit_create('bad', '{a,b}', 'dada', loss_range => '{0,NaN}');
SELECT bandit_create('bad', '{a,b}', 'dada', loss_range => '{-1e308,1e308}');
SELECT bandit_create('bad', '{a,b}', 'dada', loss_range => '{0,1e101}');
SELECT bandit_create('bad', '{a,b}', 'dada', loss_range => '{0,1,2}');
SELECT bandit_create('bad', '{a,b}', 'dada', loss_range => '{{0,1}}');
SELECT bandit_create('bad', '{a,b}', 'dada', loss_range => '{0,NULL}');
SELECT bandit_create('bad', '{a,b}', 'dada', loss_range => NULL);
SELECT bandit_create('bad', '{a,b}', 'dada', clamp_losses => NULL);
SELECT bandit_create('bad', '{a,b}', 'dada', sticky => NULL);
SELECT bandit_create('bad', '{a,b}', 'dada', loss_range => '{0,10}', missing_loss => 11);

SELECT count(bandit_drop(name)) FROM (SELECT name FROM dexp3.bandit WHERE name IN
    ('visit', 'sticky', 'price', 'clamped') OFFSET 0) _;
