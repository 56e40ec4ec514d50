-- One in twenty decisions gets feedback, the others expire.
\set n random(1, 20)
SELECT decision_id FROM bandit_choose(:bandit) \gset
\if :n = 1
\set loss random(0, 1)
SELECT bandit_feedback(:decision_id, :loss);
\endif
