\set n random(1, 1000)
SELECT decision_id FROM peer.choose('one of many ' || :n) \gset
\set loss random(0, 1)
SELECT peer.feedback(:decision_id, :loss);
