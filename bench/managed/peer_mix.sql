SELECT decision_id FROM peer.choose('peer') \gset
\set loss random(0, 1)
SELECT peer.feedback(:decision_id, :loss);
