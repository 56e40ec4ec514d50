-- One in five decisions gets no feedback, and expires.
\set n random(1, 5)
SELECT decision_id FROM bandit_choose(:bandit) \gset
\if :n > 1
\set loss random(0, 1)
SELECT bandit_feedback(:decision_id, :loss);
\endif
