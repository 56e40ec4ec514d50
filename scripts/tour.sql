--
-- Three headlines, and nobody knows which one sells.  Make a bandit of them.
--
SELECT bandit_create('headline', ARRAY['plain', 'funny', 'bold'], goal => 'reward');

--
-- For every visitor, ask it which headline to show.  Remember the decision_id.
--
SELECT * FROM bandit_choose('headline');

--
-- Later, perhaps much later, tell it what came of that: a reward from 0 (bad) to 1
-- (good), or true or false.  Telling it twice does no harm.
--
SELECT bandit_reward(1, true) AS first_time, bandit_reward(1, true) AS second_time;

--
-- Mostly you have a table that knows anyway.  A trigger takes feedback from it.  With
-- 'warn' it never makes a statement fail.
--
CREATE TABLE visit (
    decision_id bigint PRIMARY KEY,
    headline text NOT NULL,
    bought boolean                      -- null until we know
);

CREATE TRIGGER visit_feedback AFTER INSERT OR UPDATE ON visit FOR EACH ROW
    EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'bought', 'reward', 'warn');

--
-- Let 5,000 visitors come.  In truth 5, 15 and 35 of 100 buy.  We know 20 visitors
-- later whether a visitor bought, and we never hear of every tenth visitor.
--
SELECT setseed(0.42);

CREATE PROCEDURE visitors(n integer) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. n LOOP
        INSERT INTO visit SELECT decision_id, arm FROM bandit_choose('headline');
        UPDATE visit
        SET bought = random() < CASE headline WHEN 'plain' THEN 0.05 WHEN 'funny' THEN 0.15 ELSE 0.35 END
        WHERE decision_id = (SELECT max(decision_id) - 20 FROM visit)
          AND decision_id % 10 <> 0;
        COMMIT;
    END LOOP;
END $$;

CALL visitors(5000);

--
-- It has learned which headline sells, and shows it most of the time ...
--
SELECT arm, round(probability::numeric, 3) AS probability
FROM bandit_probabilities('headline');

SELECT headline, count(*) AS shown, count(*) FILTER (WHERE bought) AS bought
FROM visit GROUP BY headline ORDER BY headline;

--
-- ... and it does not mind the visitors that we never heard of.  It would still take
-- their answer.  What it takes its regret to be counts them as lost.
--
SELECT rounds, open, total_reward, round(regret_estimate) AS regret FROM dexp3.overview;

--
-- This is what is known about each headline: the average reward, and an estimate with a
-- 95% interval.
--
SELECT arm, decisions, open, round(mean_reward::numeric, 3) AS mean_reward, round(estimate::numeric, 3) AS estimate,
       round(estimate_low::numeric, 3) AS low, round(estimate_high::numeric, 3) AS high
FROM bandit_report('headline');

--
-- Would it have been better to show "bold" all the time?  And "plain"?
--
SELECT policy, round(reward::numeric, 3) AS reward, round(reward_low::numeric, 3) AS low,
       round(reward_high::numeric, 3) AS high
FROM (VALUES ('always bold', '{0,0,1}'::float8[]), ('always plain', '{1,0,0}')) v (policy, shares),
     bandit_evaluate('headline', shares)
WHERE estimator = 'self-normalised';

--
-- Is one sold out?  Choose among the others.  Add a new headline, and retire an old
-- one.
--
SELECT arm, round(probability::numeric, 3) AS probability FROM bandit_choose('headline', allowed => '{plain,funny}');
SELECT bandit_add_arm('headline', 'short'), bandit_retire_arm('headline', 'plain');
SELECT arm, round(probability::numeric, 3) AS probability FROM bandit_probabilities('headline');

--
-- No answer is an answer, too.  Here losses are in euros, from 0 to 20, and the window for
-- answers is 0: each of 1,000 mails counts as the worst loss at once.  A visitor who comes
-- back before the outcome is known keeps the arm ("sticky").
--
SELECT bandit_create('price', '{9.99,10.49}', feedback_window => '0 seconds', sticky => true, loss_range => '{0,20}');
SELECT arm FROM bandit_choose('price', subject => 'ann');
SELECT bandit_feedback('price', 'ann', 5.50);
SELECT count(*) AS mails FROM bandit_choose_many('price', 1000);
SELECT bandit_expire('price');
SELECT bandit, rounds, open, expired, total_loss FROM dexp3.overview;

--
-- All of it obeys transactions: what is rolled back has never happened.
--
BEGIN;
SELECT arm FROM bandit_choose('headline');
ROLLBACK;
SELECT count(*) AS decisions FROM dexp3.decision;

--
-- Before going live, try learners on losses that you know.  Here the best of two
-- arms changes in the middle of 10,000 rounds, and feedback takes 100 rounds.
--
WITH world AS (
    SELECT array_agg(CASE WHEN t <= 5000 THEN '{0.2, 0.8}'::float8[] ELSE '{0.8, 0.2}' END ORDER BY t) AS losses,
           array_agg(100 ORDER BY t) AS delays
    FROM generate_series(1, 10000) t
)
SELECT algorithm, round(sum(loss)::numeric) AS total_loss, 5000 AS of_either_arm
FROM world, unnest(ARRAY['self-tuned', 'dada', 'dada-ix']) AS algorithm,
     bandit_simulate(losses, delays, algorithm, seed => 1)
GROUP BY algorithm ORDER BY algorithm;

--
-- Finally, make pages of all this, for a browser.
--
SELECT bandit_page() \g (format=unaligned tuples_only=on) :pages/bandits.html
SELECT bandit_page('headline') \g (format=unaligned tuples_only=on) :pages/headline.html
