-- One of 1,000 bandits
\set n random(1, 1000)
SELECT decision_id FROM bandit_choose('one of many ' || :n) \gset
\set loss random(0, 1)
SELECT bandit_feedback(:decision_id, :loss);
