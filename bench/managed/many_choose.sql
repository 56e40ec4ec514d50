-- One of 1,000 bandits.  A session looks at all of them first.
\if :looked = 0
SELECT count(*) FROM generate_series(1, 1000) AS n, bandit_probabilities('one of many patient ' || n);
\set looked 1
\endif
\set n random(1, 1000)
SELECT * FROM bandit_choose('one of many patient ' || :n);
