\set decision_id :next + :client_id
\set next :next + :clients
SELECT peer.feedback(:decision_id, 0.5);
