SELECT decision_id FROM bandit_choose(:bandit) \gset
\set loss random(0, 1)
SELECT bandit_feedback(:decision_id, :loss);
