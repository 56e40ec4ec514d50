-- Every client takes its own share of the decisions from :next on.
\set decision_id :next + :client_id
\set next :next + :clients
SELECT bandit_feedback(:decision_id, 0.5);
