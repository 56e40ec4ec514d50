-- Reports: each number against its definition, computed from the log in another
-- way; who may ask; and that a report does not depend on what is trimmed.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;

CREATE SCHEMA report;
CREATE ROLE regress_dexp3_stranger;
CREATE ROLE regress_dexp3_guest;
GRANT USAGE ON SCHEMA report TO regress_dexp3_stranger, regress_dexp3_guest;

-- A bandit with losses between 0 and 10: arm b is the best. Every seventh feedback
-- is missing, so that some decisions are skipped and some are open.
CREATE FUNCTION report.play(bandit text, n integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    chosen record;
    outcome text;
BEGIN
    FOR i IN 1 .. n LOOP
        SELECT * INTO chosen FROM bandit_choose(bandit);
        IF i % 7 > 0 THEN
            outcome := bandit_feedback(chosen.decision_id,
                CASE chosen.arm WHEN 'a' THEN 8 WHEN 'b' THEN 2 ELSE 5 END + (i % 3 - 1));
        END IF;
    END LOOP;
END
$$;

SELECT setseed(0.6);
SELECT bandit_create('shop', '{a,b,c}', 'dada', patience => 20, loss_range => '{0,10}', retention => '0'),
       bandit_create('idle', '{a,b}', 'dada') \gset
SELECT report.play('shop', 400);

--
-- bandit_report
--

CREATE VIEW report.shop AS
SELECT b.arms[d.arm] AS arm, d.decision_id, d.probability AS p, f.loss AS l, f.decision_id IS NULL AS open,
       f.loss IS NULL AND f.decision_id IS NOT NULL AS skipped, f.delay
FROM dexp3.bandit b JOIN dexp3.decision d USING (bandit_id, epoch) LEFT JOIN dexp3.feedback f USING (decision_id)
WHERE b.name = 'shop';

-- The estimate is the average of the losses, weighted with 1 / p; its variance that
-- of a ratio of sums.
CREATE TABLE report.expected AS
SELECT arm, count(*) AS decisions, count(l) AS settled, count(*) FILTER (WHERE open) AS open, avg(l) AS mean_loss,
       r AS estimate,
       greatest(r - 1.959964 * e, 0) AS estimate_low, least(r + 1.959964 * e, 10) AS estimate_high
FROM report.shop
JOIN (SELECT arm, r, sqrt(sum(((l - r) / p) ^ 2) * count(*) / (count(*) - 1)) / sum(1 / p) AS e
      FROM report.shop JOIN (SELECT arm, sum(l / p) / sum(1 / p) AS r FROM report.shop WHERE l IS NOT NULL GROUP BY arm) _ USING (arm)
      WHERE l IS NOT NULL GROUP BY arm, r) _ USING (arm)
GROUP BY arm, r, e;

CREATE FUNCTION report.compare() RETURNS TABLE (arm text, counts boolean, mean boolean, estimate boolean, bounds boolean, probability boolean)
LANGUAGE sql AS $$
    SELECT r.arm, (r.decisions, r.settled, r.open) = (e.decisions, e.settled, e.open), abs(r.mean_loss - e.mean_loss) < 1e-9,
           abs(r.estimate - e.estimate) < 1e-9,
           greatest(abs(r.estimate_low - e.estimate_low), abs(r.estimate_high - e.estimate_high)) < 1e-9,
           r.probability = (SELECT p.probability FROM bandit_probabilities('shop') p WHERE p.arm = r.arm)
    FROM bandit_report('shop') r JOIN report.expected e USING (arm) ORDER BY r.arm
$$;
SELECT * FROM report.compare();
SELECT sum(decisions), sum(settled) > 300 AS settled, sum(open) > 0 AS open,
       bool_and(estimate BETWEEN estimate_low AND estimate_high) AS between,
       string_agg(arm, ' ' ORDER BY estimate) AS best_first, round(sum(probability)::numeric, 9) AS sum
FROM bandit_report('shop');

-- Nothing known: the interval is the whole range.
SELECT * FROM bandit_report('idle');
SELECT * FROM bandit_evaluate('idle', '{0.5,0.5}');

--
-- bandit_evaluate
--

-- For a policy that always plays one arm, and for others, with the sums written out
CREATE FUNCTION report.evaluate(policy float8[]) RETURNS TABLE (estimator text, loss float8, low float8, high float8)
LANGUAGE sql AS $$
    WITH w AS (
        SELECT l, policy[array_position('{a,b,c}', arm)] / p AS w FROM report.shop WHERE l IS NOT NULL),
    ips AS (
        SELECT avg(w * l) AS m, sqrt(var_samp(w * l) / count(*)) AS e FROM w),
    sn AS (
        SELECT r, sqrt(sum((w * (l - r)) ^ 2) * count(*) / (count(*) - 1)) / sum(w) AS e
        FROM w, (SELECT sum(w * l) / sum(w) AS r FROM w) _ GROUP BY r)
    SELECT 'ips', m, m - 1.959964 * e, m + 1.959964 * e FROM ips
    UNION ALL SELECT 'self-normalised', r, r - 1.959964 * e, r + 1.959964 * e FROM sn
$$;
CREATE TABLE report.policy AS
SELECT policy, e.* FROM (VALUES ('{1,0,0}'::float8[]), ('{0,1,0}'), ('{0.2,0.3,0.5}'), ('{0.333333333,0.333333333,0.333333334}')) _ (policy),
                        report.evaluate(policy) e;
SELECT policy, estimator, greatest(abs(e.loss - p.loss), abs(e.loss_low - p.low), abs(e.loss_high - p.high)) < 1e-9 AS same
FROM report.policy p JOIN LATERAL bandit_evaluate('shop', policy) e USING (estimator) ORDER BY policy, estimator;
-- a is worse than b, which is better than playing all alike
SELECT (SELECT loss_low FROM bandit_evaluate('shop', '{1,0,0}') WHERE estimator = 'self-normalised')
     > (SELECT loss_high FROM bandit_evaluate('shop', '{0,1,0}') WHERE estimator = 'self-normalised') AS a_worse_than_b;

SELECT bandit_evaluate('shop', '{0.5,0.5}');
SELECT bandit_evaluate('shop', '{{0.5,0.5,0}}');
SELECT bandit_evaluate('shop', '{0.5,0.5,0.5}');
SELECT bandit_evaluate('shop', '{1.5,-0.5,0}');
SELECT bandit_evaluate('shop', '{1,NaN,0}');
SELECT bandit_evaluate('shop', '{1,NULL,0}');
SELECT bandit_evaluate('shop', NULL);

--
-- bandit_regret_bound, overview
--

-- Corollary 3.2 with the rounds that were skipped added, in units of the losses
CREATE FUNCTION report.bound_is_right() RETURNS boolean LANGUAGE sql AS $$
    SELECT abs(bandit_regret_bound('shop') - 10 * (
               (SELECT skipped FROM dexp3.overview WHERE bandit = 'shop')
               + 3 * sqrt(ln(3) * ((s ->> 'round')::float8 * 3 + (s ->> 'cumulative_delay')::float8)))) < 1e-9
    FROM (SELECT bandit_current_state('shop')::jsonb AS s) _
$$;
SELECT report.bound_is_right();

-- The others, with other factors: Corollary 4.2, and the theorem on DeDa-Exp3
SELECT bandit_create('ix', '{a,b,c}', 'dada-ix', step_scale => 0.5, patience => 20),
       bandit_create('scaled', '{a,b,c}', 'dada', step_scale => 3, skipping => false),
       bandit_create('deda', '{a,b,c}', 'deda', max_delay => 5) \gset
CREATE PROCEDURE report.rounds(name text, rounds integer) LANGUAGE plpgsql AS $$
DECLARE
    decision bigint;
BEGIN
    FOR i IN 1 .. rounds LOOP
        decision := decision_id FROM bandit_choose(name);
        IF i % 400 <> 0 THEN
            PERFORM bandit_feedback(decision, 0.5);
        END IF;
    END LOOP;
END
$$;
CALL report.rounds('ix', 3000);
CALL report.rounds('scaled', 3000);
CALL report.rounds('deda', 3000);
SELECT bandit, delta, abs(bandit_regret_bound(bandit, delta) - CASE bandit
           WHEN 'ix' THEN skipped + (1 / 0.5 + 0.5) * sqrt(3 * ln(3) * (6 * t + d))
               + (2 / 0.5 * sqrt((6 * t + d) / (3 * ln(3))) + longest + 2) * ln(2 / delta) / 2
           WHEN 'scaled' THEN (1 / 3.0 + 2 * 3) * sqrt(ln(3) * (3 * t + d))
           ELSE 4 * 5 ^ 2 + 6 * 5 + 2 + (2 + sqrt(2)) * sqrt(ln(3) * (2 * d + 3 * t)) END) < 1e-9 AS same
FROM (SELECT o.bandit, skipped, rounds::float8 AS t, total_delay AS d,
             greatest(longest_delay, rounds - (SELECT min(p.round) FROM dexp3.pending p WHERE p.bandit = o.bandit)) AS longest
      FROM dexp3.overview o WHERE o.bandit IN ('ix', 'scaled', 'deda')) _, unnest('{0.01,0.5}'::float8[]) delta
ORDER BY 1, 2;
-- Nobody can lose more than the whole range in each round.
SELECT bandit_create('brief', '{a,b,c}', 'dada', loss_range => '{-2,8}') \gset
SELECT count(*) FROM bandit_choose_many('brief', 20);
SELECT bandit_regret_bound('brief'), 3 * sqrt(ln(3) * 20 * 3) > 20 AS would_be_more;
SELECT bandit_regret_bound('shop', 0);
SELECT bandit_regret_bound('shop', 'NaN');

CREATE TABLE report.whole AS
SELECT count(*) AS rounds, count(*) FILTER (WHERE open) AS open, count(*) FILTER (WHERE skipped) AS skipped,
       max(f.delay) AS longest, sum(l) AS loss, max(d.decided_at) AS last_decision,
       max(f.received_at) FILTER (WHERE f.loss IS NOT NULL) AS last_feedback
FROM report.shop JOIN dexp3.decision d USING (decision_id) LEFT JOIN dexp3.feedback f USING (decision_id);
CREATE FUNCTION report.overview_is_right() RETURNS boolean LANGUAGE sql AS $$
    SELECT (o.rounds, o.open, o.skipped, o.expired, o.longest_delay)
               = (e.rounds, e.open, e.skipped, 0, e.longest) AND abs(o.total_loss - e.loss) < 1e-9
           AND o.total_delay = (s ->> 'cumulative_delay')::float8
           AND o.step_size = bandit_step_size(bandit_current_state('shop'))
           AND o.regret_bound = bandit_regret_bound('shop', 0.05)
           AND (o.last_decision, o.last_feedback) = (e.last_decision, e.last_feedback)
    FROM dexp3.overview o, report.whole e, (SELECT bandit_current_state('shop')::jsonb AS s) _ WHERE o.bandit = 'shop'
$$;
SELECT report.overview_is_right();
SELECT bandit, algorithm, rounds, open, skipped, expired, total_delay, longest_delay, total_loss, regret_bound, last_decision
FROM dexp3.overview WHERE bandit = 'idle';

-- After trimming all is the same.
SELECT bandit_trim('shop') > 300 AS trimmed;
SELECT * FROM report.compare();
SELECT report.bound_is_right(), report.overview_is_right();
SELECT policy, estimator, greatest(abs(e.loss - p.loss), abs(e.loss_low - p.low), abs(e.loss_high - p.high)) < 1e-9 AS same
FROM report.policy p JOIN LATERAL bandit_evaluate('shop', policy) e USING (estimator) ORDER BY policy, estimator;

--
-- bandit_verify
--

SELECT name, bandit_verify(name) FROM unnest('{shop,idle,ix,deda}'::text[]) name;

-- It sees when somebody has changed the log behind a session's back.
BEGIN;
ALTER TABLE dexp3.feedback DISABLE TRIGGER log_changed;
UPDATE dexp3.feedback SET estimate = estimate + 1 WHERE decision_id = (
    SELECT min(decision_id) FROM dexp3.feedback JOIN dexp3.bandit USING (bandit_id) WHERE name = 'ix' AND loss > 0);
SET LOCAL client_min_messages = warning;	-- the notice has all digits
SELECT bandit_verify('ix') AS same;
ROLLBACK;
SELECT bandit_verify('ix') AS same;

--
-- Who may ask
--

SELECT bandit_grant('shop', 'regress_dexp3_guest');
SET ROLE regress_dexp3_guest;
SELECT count(*) FROM bandit_report('shop');
SELECT count(loss) FROM bandit_evaluate('shop', '{1,0,0}');
SELECT bandit_regret_bound('shop') > 0 AS bound, bandit_verify('shop') AS verified;
SELECT string_agg(bandit, ' ') FROM dexp3.overview;
SELECT count(*) > 0 AS trimmed, count(DISTINCT bandit_id) FROM dexp3.trimmed;
SELECT bandit_report('ix');
SET ROLE regress_dexp3_stranger;
SELECT bandit_report('shop');
SELECT bandit_evaluate('shop', '{1,0,0}');
SELECT bandit_regret_bound('shop');
SELECT bandit_verify('shop');
SELECT bandit_expire('shop');
SELECT bandit_trim('shop');
SELECT bandit_add_arm('shop', 'x');
SELECT bandit_retire_arm('shop', 'a');
SELECT bandit_choose_many('shop', 1);
SELECT bandit_feedback('shop', 'ann', 1);
SELECT bandit_expire(), bandit_trim();
SELECT count(*) FROM dexp3.overview;
SELECT count(*) FROM dexp3.arm_totals('shop');
SELECT count(*) FROM dexp3.trimmed;
SELECT bandit_report('nothing');
RESET ROLE;

-- Losses and probabilities whose products are too small to be numbers
SELECT bandit_create('small', '{a,b}') > 0 AS created;
SELECT count(bandit_feedback(decision_id, loss))
FROM generate_series(1, 10), unnest('{1e-200,3e-320,1e-200,0,5e-324,1e-170}'::float8[]) loss, bandit_choose_each('small', loss);
SELECT estimator, loss < 1e-150 AS small, loss_low < 1e-100 AS low, loss_high < 1e-100 AS high
FROM unnest('{1e-170,1e-320,1,0.5}'::float8[]) p, bandit_evaluate('small', ARRAY[p, 1 - p]);
SELECT count(*), bool_and(estimate < 1e-150) AS small FROM bandit_report('small');
SELECT total_loss < 1e-150 AS small FROM dexp3.overview WHERE bandit = 'small';
SELECT bandit_drop('small');

SELECT count(bandit_drop(name)) FROM (SELECT name FROM dexp3.bandit WHERE name IN
    ('shop', 'idle', 'ix', 'scaled', 'deda') OFFSET 0) _;
SET client_min_messages = warning;
DROP SCHEMA report CASCADE;
DROP ROLE regress_dexp3_stranger, regress_dexp3_guest;
