-- One of 1,000 bandits without skipping
\set n random(1, 1000)
SELECT * FROM bandit_choose('one of many patient ' || :n);
