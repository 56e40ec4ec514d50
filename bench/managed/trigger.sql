\set decision_id :next + :client_id
\set next :next + :clients
INSERT INTO bench.purchase (decision_id, loss) VALUES (:decision_id, 0.5);
