-- Reports and charts while a feedback window is open: successes arrive before failures
-- expire, so they are about decisions before the first open one.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;
CREATE SCHEMA young;

-- 3000 decisions in 100 minutes, of which those of an hour are waited for; only
-- conversions are reported, 10 and 20 in 100.
SELECT setseed(0.5);
SELECT bandit_create('shop', ARRAY['x', 'y'], feedback_window => '1 hour', goal => 'reward') AS shop_id \gset
SELECT count(*) FROM bandit_choose_many('shop', 3000);
UPDATE dexp3.decision SET decided_at = decided_at - (3001 - round) * interval '2 seconds' WHERE bandit_id = :shop_id;
SELECT count(bandit_reward(decision_id, true)) BETWEEN 400 AND 500 AS conversions
FROM dexp3.decision WHERE bandit_id = :shop_id AND random() < CASE arm WHEN 1 THEN 0.1 ELSE 0.2 END;

-- What is known of decisions before the first open one, as the log has it
CREATE FUNCTION young.agrees(bandit text)
RETURNS TABLE (arm text, settled boolean, left_out boolean, mean boolean, estimate boolean) LANGUAGE sql AS $$
    WITH outcome AS (
        SELECT b.arms[s.arm] AS arm, s.loss, s.probability AS p,
               s.decision_id < coalesce((SELECT min(o.decision_id) FROM dexp3.pending o WHERE o.bandit = agrees.bandit),
                                        9223372036854775807) AS known
        FROM dexp3.settled s JOIN dexp3.bandit b USING (bandit_id, epoch)
        WHERE b.name = agrees.bandit AND s.loss IS NOT NULL),
    expected AS (
        SELECT o.arm, count(*) AS settled, count(*) FILTER (WHERE NOT known) AS left_out, avg(loss) FILTER (WHERE known) AS mean,
               sum(loss / p) FILTER (WHERE known) / sum(1 / p) FILTER (WHERE known) AS estimate
        FROM outcome o GROUP BY o.arm)
    SELECT r.arm, r.settled = e.settled, r.left_out = e.left_out,
           coalesce(abs(r.mean_loss - e.mean) < 1e-9, num_nulls(r.mean_loss, e.mean) = 2),
           coalesce(abs(CASE r.unit WHEN 'reward' THEN 1 - r.estimate ELSE r.estimate END - e.estimate) < 1e-9,
                    num_nulls(r.estimate, e.estimate) = 2)
    FROM bandit_report(agrees.bandit) r JOIN expected e USING (arm) ORDER BY r.arm
$$;

-- Nothing has expired yet: nothing is known.
SELECT * FROM young.agrees('shop');
SELECT arm, left_out = settled AS all_left_out, mean_reward, estimate, estimate_low, estimate_high FROM bandit_report('shop') ORDER BY arm;
-- Afterwards it is right, although all outcomes together would be twice as good.
SELECT bandit_expire('shop') > 1000 AS expired;
SELECT * FROM young.agrees('shop');
SELECT arm, mean_reward::numeric(3,2) AS mean, estimate::numeric(3,2) AS estimate, left_out > 50 AS left_out FROM bandit_report('shop') ORDER BY arm;
SELECT arm, avg(1 - loss)::numeric(3,2) AS of_all FROM dexp3.settled WHERE bandit_id = :shop_id GROUP BY arm ORDER BY arm;
SELECT estimator, abs(reward - (SELECT estimate FROM bandit_report('shop') WHERE arm = 'y')) < 1e-9 AS same
FROM bandit_evaluate('shop', '{0,1}') WHERE estimator = 'self-normalised';
-- the bandit itself goes by all that it knows, and so does the overview
SELECT total_loss = (SELECT sum(loss) FROM dexp3.settled WHERE bandit_id = :shop_id) AS all_losses FROM dexp3.overview WHERE bandit = 'shop';

-- The chart shows the rest apart.
CREATE FUNCTION young.look(kind text, OUT says text, OUT solid bigint, OUT dashed bigint) LANGUAGE sql AS $$
    SELECT substring(svg FROM '<desc>(.*)</desc>'),
           (SELECT count(*) FROM regexp_matches(svg, '<path class="line c', 'g')),
           (SELECT count(*) FROM regexp_matches(svg, '<path class="line dashed c', 'g'))
    FROM bandit_chart('shop', kind) svg
$$;
SELECT * FROM young.look('reward');
SELECT dashed FROM unnest(ARRAY['share', 'delay', 'regret']) kind, young.look(kind);

-- What this transaction does counts, too; and what is rolled back does not.
BEGIN;
SELECT count(bandit_reward(decision_id, true)) FROM (SELECT decision_id FROM dexp3.pending WHERE bandit = 'shop' ORDER BY decision_id LIMIT 5) _;
SELECT * FROM young.agrees('shop');
SAVEPOINT s;
SELECT count(bandit_reward(decision_id, false)) > 1000 AS the_rest FROM dexp3.pending WHERE bandit = 'shop';
SELECT * FROM young.agrees('shop');
SELECT sum(left_out) FROM bandit_report('shop');
SELECT dashed FROM young.look('reward');
ROLLBACK TO s;
SELECT * FROM young.agrees('shop');
ROLLBACK;
SELECT * FROM young.agrees('shop');

-- What is answered at once is known at once.
SELECT bandit_create('prompt', ARRAY['x', 'y'], feedback_window => '7 days') \gset
SELECT count(bandit_feedback(decision_id, 0.5)) FROM bandit_choose_many('prompt', 20);
SELECT count(*) FROM bandit_choose_many('prompt', 1);
SELECT count(bandit_feedback(decision_id, 0)) FROM bandit_choose_many('prompt', 3);
SELECT * FROM young.agrees('prompt');
SELECT sum(settled) AS settled, sum(left_out) AS left_out, max(mean_loss) AS mean FROM bandit_report('prompt');
-- Without a window nothing is left out: nobody knows what is still to come.
SELECT bandit_alter('prompt', without => '{feedback_window}');
SELECT sum(settled) AS settled, sum(left_out) AS left_out FROM bandit_report('prompt');

SELECT bandit_drop('shop'), bandit_drop('prompt');
DROP SCHEMA young CASCADE;
