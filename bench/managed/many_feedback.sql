-- As feedback.sql, but for 1,000 bandits.  A session looks at all of them first.
\if :looked = 0
SELECT count(*) FROM generate_series(1, 1000) AS n, bandit_probabilities('one of many patient ' || n);
\set looked 1
\endif
\set decision_id :next + :client_id
\set next :next + :clients
SELECT bandit_feedback(:decision_id, 0.5);
