-- One of 1,000 bandits.  A session looks at all of them first.
\if :looked = 0
SELECT count(*) FROM generate_series(1, 1000) AS n, bandit_probabilities('one of many ' || n);
\set looked 1
\endif
\set n random(1, 1000)
SELECT decision_id FROM bandit_choose('one of many ' || :n) \gset
\set loss random(0, 1)
SELECT bandit_feedback(:decision_id, :loss);
