-- One bandit on several servers, as far as one server can show it: rows of others
-- are written by hand. t/022 and t/023 do it with real servers.

SET client_min_messages = warning;
SET dexp3.publish_interval = -1;	-- only when we say so
CREATE SCHEMA servers;
SET search_path = servers, public;

-- Two bandits, which shall be one on two servers: the same arms in another order.
SELECT bandit_create('here', '{a,b,c}') > 0 AS here, bandit_create('there', '{c,a,b}') > 0 AS there;
CREATE PROCEDURE play(bandit text, rounds integer, allowed text[] DEFAULT '{a,c}') LANGUAGE plpgsql AS $$
DECLARE
    id bigint;
    loss float8;
BEGIN
    FOR i IN 1 .. rounds LOOP
        SELECT decision_id, CASE arm WHEN 'a' THEN 0.2 WHEN 'b' THEN 0.5 ELSE i % 2 END INTO id, loss
        FROM bandit_choose(bandit, allowed => CASE WHEN i % 5 = 0 THEN allowed END);
        IF i % 7 <> 0 THEN
            PERFORM bandit_feedback(id, loss);
        END IF;
    END LOOP;
END
$$;
SELECT setseed(0.3);
CALL play('here', 60);
CALL play('there', 40);

-- What one learner would do that was fed the rows of several bandits, from its definition
CREATE FUNCTION one_learner(VARIADIC bandits text[]) RETURNS TABLE (arm text, probability float8) LANGUAGE sql AS $$
    WITH settled AS (
        SELECT b.arms[f.arm] AS arm, f.estimate, (f.loss - coalesce(f.baseline, 0)) * coalesce(f.mass, 1) AS cost
        FROM dexp3.feedback f JOIN dexp3.bandit b USING (bandit_id, epoch) WHERE b.name = ANY (bandits)),
    z AS (
        SELECT array_agg(coalesce(z, 0) ORDER BY name) AS z, array_agg(name ORDER BY name) AS arms
        FROM (SELECT unnest(arms) AS name FROM dexp3.bandit WHERE name = bandits[1]) a
            LEFT JOIN (SELECT arm AS name, sum(estimate) AS z FROM settled GROUP BY arm) s USING (name)),
    eta AS (
        SELECT ln(cardinality(z)) / reference.solve((SELECT coalesce(sum(cost), 0) FROM settled), z) AS eta FROM z)
    SELECT u.*
    FROM z, eta, unnest(arms, reference.exponential(eta, z, array_fill(true, ARRAY[cardinality(z)]))) u
$$;
CREATE FUNCTION differs(bandit text, VARIADIC bandits text[]) RETURNS boolean LANGUAGE sql AS $$
    SELECT max(abs(p.probability - o.probability)) > 1e-9 OR count(*) <> max(cardinality(b.arms) - cardinality(b.retired))
    FROM bandit_probabilities(bandit) p JOIN one_learner(VARIADIC bandits) o USING (arm), dexp3.bandit b
    WHERE b.name = bandit
$$;
SELECT differs('here', 'here'), differs('there', 'there'), differs('here', 'here', 'there');

--
-- Sharing
--

SELECT bandit_share('nobody');
SELECT bandit_share(NULL);
SELECT bandit_share('here', NULL);
SELECT bandit_create('exact', '{a,b}', 'dada') > 0 AS made;
SELECT bandit_share('exact');
SELECT bandit_publish('here');
SELECT * FROM dexp3.nodes;

SELECT bandit_share('here'), bandit_share('there');
SELECT bandit_share('here');			-- once more
SELECT bandit, node, epoch, forgotten, arms, playable, algorithm, loss_range, optimism, half_life, rounds, settled, expired,
       last_decision < last_feedback AS times, half_lives, weight
FROM dexp3.component ORDER BY bandit;
SELECT bandit, node, own, epoch, rounds, settled, losses > 0 AS losses, age < '1 hour' AS recent, counts, why
FROM dexp3.nodes ORDER BY bandit;

-- The columns z, total_loss and cost are the sums over the log.
SELECT c.bandit, bool_and(abs(c.z[i] - s.z) < 1e-9) AS z, abs(c.total_loss - sum(s.loss)) < 1e-9 AS loss,
       abs(c.cost - sum(s.cost)) < 1e-9 AS cost
FROM dexp3.component c CROSS JOIN generate_subscripts(c.arms, 1) i
    JOIN (SELECT b.name, b.arms[f.arm] AS arm, sum(f.estimate) AS z, sum(f.loss) AS loss,
                 sum((f.loss - coalesce(f.baseline, 0)) * coalesce(f.mass, 1)) AS cost
          FROM dexp3.feedback f JOIN dexp3.bandit b USING (bandit_id) GROUP BY 1, 2) s
    ON s.name = c.bandit AND s.arm = c.arms[i]
GROUP BY c.bandit, c.total_loss, c.cost ORDER BY c.bandit;

--
-- Rows of another server
--

-- What is there comes here as the row of a node, as much newer as the last argument
-- says, perhaps changed.
CREATE FUNCTION arrives(node integer, later bigint DEFAULT 0, changed jsonb DEFAULT '{}') RETURNS text LANGUAGE sql AS $$
    WITH arrived AS (
        INSERT INTO dexp3.component
        SELECT (jsonb_populate_record(c, jsonb_build_object('bandit', 'here', 'node', arrives.node,
                                                            'version', c.version + later) || changed)).*
        FROM dexp3.component c WHERE c.bandit = 'there' AND c.node = bandit_node()
        RETURNING 1)
    SELECT count(*) || ' row' FROM arrived
$$;
CREATE TABLE first AS SELECT * FROM dexp3.component WHERE bandit = 'there';
SELECT arrives(7), differs('here', 'here', 'there');	-- the second before the first
SELECT differs('here', 'here', 'there'), differs('there', 'there');
SELECT node, own, epoch, rounds, settled, counts, why FROM dexp3.nodes WHERE bandit = 'here' ORDER BY node;

-- again, and an older one
SELECT arrives(7), arrives(7, -5);
SELECT differs('here', 'here', 'there'), count(*) FROM dexp3.component WHERE bandit = 'here' AND node = 7;

-- a newer one; the older one comes after it
CALL play('there', 10);
SELECT bandit_publish('there');
SELECT arrives(7);
SELECT differs('here', 'here', 'there');
INSERT INTO dexp3.component
SELECT (jsonb_populate_record(f, '{"bandit": "here", "node": 7}')).* FROM first f;
SELECT differs('here', 'here', 'there'), count(*) FROM dexp3.component WHERE bandit = 'here' AND node = 7;

-- In a transaction it counts at once, and not any more when it is rolled back.
CALL play('there', 10);
SELECT bandit_publish('there');
BEGIN;
SELECT arrives(7);
SELECT differs('here', 'here', 'there');
ROLLBACK;
SELECT differs('here', 'here', 'there');
BEGIN;
SAVEPOINT s;
SELECT arrives(7);
ROLLBACK TO s;
SELECT differs('here', 'here', 'there');
COMMIT;
SELECT arrives(7);
SELECT differs('here', 'here', 'there');

-- It goes on by all sums; its baselines, too. What is published is its own.
CALL play('here', 30);
SELECT differs('here', 'here', 'there'), bandit_verify('here');
SELECT bandit_publish();
SELECT rounds, settled FROM dexp3.component WHERE bandit = 'here' AND node = bandit_node();
SELECT decisions = 90 AND settled = 78 AS own
FROM (SELECT sum(decisions) AS decisions, sum(settled) AS settled FROM bandit_report('here')) r;
SELECT decisions = 150 AND settled = 131 AS of_all
FROM (SELECT sum(decisions) AS decisions, sum(settled) AS settled FROM bandit_report('here', all_nodes => true)) r;
SELECT r.arm, abs(r.mean_loss - s.mean_loss) < 1e-9 AND abs(r.estimate - s.estimate) < 1e-9 AS as_in_the_log
FROM bandit_report('here', true) r
    JOIN (SELECT b.arms[f.arm] AS arm, avg(f.loss) AS mean_loss,
                 sum(f.loss / f.probability) / sum(1 / f.probability) AS estimate
          FROM dexp3.feedback f JOIN dexp3.bandit b USING (bandit_id) WHERE b.name IN ('here', 'there') GROUP BY 1) s
    ON s.arm = r.arm;
SELECT rounds FROM dexp3.overview WHERE bandit = 'here';
SELECT s ->> 'round' AS round, s ->> 'outstanding' AS outstanding,
       bandit_probabilities(bandit_current_state('here')) = (SELECT array_agg(probability) FROM bandit_probabilities('here')) AS same
FROM (SELECT bandit_current_state('here')::jsonb AS s) s;
SELECT bandit_regret_bound('here'), bandit_regret_estimate('here') > 0 AS estimate;

--
-- What does not count, and why
--

CREATE FUNCTION why(changed jsonb) RETURNS TABLE (counts boolean, why text, without boolean) LANGUAGE plpgsql AS $$
DECLARE
    later bigint := (SELECT coalesce(max(c.version), 0) - min(t.version) + 1
                     FROM dexp3.component t LEFT JOIN dexp3.component c ON c.bandit = 'here' AND c.node = 7
                     WHERE t.bandit = 'there');
BEGIN
    PERFORM arrives(7, later, changed);
    RETURN QUERY SELECT n.counts, n.why, NOT differs('here', 'here') FROM dexp3.nodes n WHERE n.bandit = 'here' AND n.node = 7;
END
$$;
SELECT * FROM why('{}');
SELECT * FROM why('{"loss_range": [0, 10]}');
SELECT * FROM why('{"optimism": 1}');
SELECT * FROM why('{"half_life": "1 day"}');
SELECT * FROM why('{"algorithm": "dada"}');
SELECT * FROM why('{"arms": ["a", "b", "d"]}');
SELECT * FROM why('{"playable": 2}');
SELECT * FROM why('{"arms": ["a", "b"], "playable": 2, "z": [1, 2]}');
SELECT * FROM why('{"z": [1, 2]}');
SELECT * FROM why('{"z": [1, 2, "NaN"]}');
SELECT * FROM why('{"cost": "Infinity"}');
SELECT * FROM why('{"arms": ["a", "b", null]}');
SELECT * FROM why('{"arms": ["a", "a", "b"]}');
SELECT * FROM why('{"rounds": -1}');
SELECT * FROM why('{"rounds": 9223372036854775807}');
SELECT * FROM why('{"settled": -1}');
SELECT * FROM why('{"expired": -1}');
SELECT * FROM why('{"weight": -1}');
SELECT * FROM why('{"weight": 1e308}');
SELECT * FROM why('{"half_lives": 1}');
SELECT * FROM why('{"half_life": "-1 day"}');
SELECT * FROM why(jsonb_build_object('sums', array_fill(-1, ARRAY[9, 3])));
SELECT * FROM why(jsonb_build_object('sums', array_fill(1e300, ARRAY[9, 3])));
SELECT * FROM why('{"forgotten": true}');
SELECT * FROM why('{"epoch": 2}');			-- does not matter
SELECT * FROM why('{"written_at": "infinity", "last_decision": "infinity"}');
SELECT written_at, age FROM dexp3.nodes WHERE bandit = 'here' AND node = 7;
SELECT arrives(32), arrives(-1);			-- no server has such a number
SELECT node, counts, why FROM dexp3.nodes WHERE bandit = 'here' AND node NOT BETWEEN 0 AND 31 ORDER BY node;
DELETE FROM dexp3.component WHERE node NOT BETWEEN 0 AND 31;
-- no version that could never be followed by another
SELECT arrives(7, changed => '{"version": 9223372036854775807}');
SELECT arrives(bandit_node(), changed => '{"version": 9223372036854775807}');
SELECT differs('here', 'here', 'there');

-- Forgetting
SELECT bandit_forget_node(7, 'here');
SELECT differs('here', 'here'), why FROM dexp3.nodes WHERE bandit = 'here' AND node = 7;
SELECT bandit_forget_node(7), bandit_forget_node(8);
INSERT INTO dexp3.component		-- the same row once more
SELECT (jsonb_populate_record(c, '{"forgotten": false}')).* FROM dexp3.component c WHERE bandit = 'here' AND node = 7;
SELECT differs('here', 'here'), count(*) FROM dexp3.component WHERE bandit = 'here' AND node = 7;
SELECT * FROM why('{}');				-- it publishes again
SELECT bandit_forget_node(bandit_node(), 'here');
SELECT bandit_forget_node(32);
SELECT bandit_forget_node(NULL);

-- Somebody else with our number
SELECT arrives(bandit_node(), 1000000000);
SELECT node, own, counts, why, differs('here', 'here', 'there') FROM dexp3.nodes WHERE bandit = 'here' ORDER BY node;
SELECT bandit_publish('here');
SELECT count(*), count(DISTINCT version), bool_or(forgotten) FROM dexp3.component WHERE bandit = 'here' AND node = bandit_node();
DELETE FROM dexp3.component WHERE forgotten;
SELECT node, own, counts, why FROM dexp3.nodes WHERE bandit = 'here' ORDER BY node;

-- Rows that are changed or removed by hand
BEGIN;
UPDATE dexp3.component SET optimism = 0.5 WHERE node = 7;
SELECT differs('here', 'here');
ROLLBACK;
SELECT differs('here', 'here', 'there');
DELETE FROM dexp3.component WHERE node = 7;
SELECT differs('here', 'here');
SELECT arrives(7);
SELECT differs('here', 'here', 'there');
TRUNCATE dexp3.component;
SELECT differs('here', 'here'), differs('there', 'there');
SELECT bandit_publish();
SELECT arrives(7);

-- Not shared any more, and again
SELECT bandit_share('here', false);
SELECT differs('here', 'here');
SELECT bandit_share('here');
SELECT differs('here', 'here', 'there');

--
-- Changes of the bandit
--

-- It begins anew here, not there.
SELECT bandit_reset('here');
SELECT differs('here', 'here', 'there'), epoch, rounds FROM dexp3.component WHERE bandit = 'here' AND node = bandit_node();
CALL play('here', 10);
SELECT differs('here', 'here', 'there');

-- Another arm: until both have it, each goes by its own sums.
SELECT bandit_add_arm('here', 'd');
SELECT counts, why FROM dexp3.nodes WHERE bandit = 'here' AND node = 7;
SELECT bandit_add_arm('there', 'd');
SELECT arrives(7);
SELECT counts, why FROM dexp3.nodes WHERE bandit = 'here' AND node = 7;
-- Both servers have the same probabilities, although they began at different points.
INSERT INTO dexp3.component
SELECT (jsonb_populate_record(c, '{"bandit": "there", "node": 8}')).* FROM dexp3.component c WHERE bandit = 'here' AND node = bandit_node();
SELECT max(abs(h.probability - t.probability)) < 1e-9 AS same
FROM bandit_probabilities('here') h JOIN bandit_probabilities('there') t USING (arm);
SELECT bandit_retire_arm('there', 'c');
SELECT arrives(7);
SELECT counts, why FROM dexp3.nodes WHERE bandit = 'here' AND node = 7;
SELECT bandit_retire_arm('here', 'c');
SELECT counts, why FROM dexp3.nodes WHERE bandit = 'here' AND node = 7;
INSERT INTO dexp3.component
SELECT (jsonb_populate_record(c, '{"bandit": "there", "node": 8}')).* FROM dexp3.component c WHERE bandit = 'here' AND node = bandit_node();
SELECT max(abs(h.probability - t.probability)) < 1e-9 AS same
FROM bandit_probabilities('here') h JOIN bandit_probabilities('there') t USING (arm);

-- With a half-life: each row says to which moment its sums refer.
SELECT bandit_create('fading', '{a,b}', half_life => '100 days') > 0 AS made, bandit_create('faded', '{b,a}', half_life => '100 days') > 0 AS other;
SELECT bandit_share('fading'), bandit_share('faded');
CALL play('fading', 20, NULL);
CALL play('faded', 20, NULL);
UPDATE dexp3.feedback f SET decided_at = decided_at - interval '250 days'
FROM dexp3.bandit b WHERE b.bandit_id = f.bandit_id AND b.name = 'faded';
SELECT bandit_publish('faded');
INSERT INTO dexp3.component
SELECT (jsonb_populate_record(c, '{"bandit": "fading", "node": 7}')).* FROM dexp3.component c WHERE bandit = 'faded';
-- The sums of both, weighted by hand
WITH settled AS (
    SELECT b.arms[f.arm] AS name, 2 ^ (-extract(epoch FROM statement_timestamp() - f.decided_at)::float8 / 8640000) AS w, f.*
    FROM dexp3.feedback f JOIN dexp3.bandit b USING (bandit_id) WHERE b.name IN ('fading', 'faded')),
sums AS (
    SELECT sum(w) AS settled, sum(w * loss) AS total_loss, sum(w * (loss - coalesce(baseline, 0))) AS cost,
           sum(w * estimate) FILTER (WHERE name = 'a') AS a, sum(w * estimate) FILTER (WHERE name = 'b') AS b
    FROM settled)
SELECT abs((s ->> 'settled')::float8 - settled) < 1e-4 AS settled, abs((s ->> 'total_loss')::float8 - total_loss) < 1e-4 AS loss,
       abs((s ->> 'cost')::float8 - cost) < 1e-4 AS cost, abs((s -> 'z' ->> 0)::float8 - a) < 1e-4 AS a,
       abs((s -> 'z' ->> 1)::float8 - b) < 1e-4 AS b
FROM sums, (SELECT bandit_current_state('fading')::jsonb AS s) s;
-- A clock that is far ahead would make all others count nothing.
INSERT INTO dexp3.component
SELECT (jsonb_populate_record(c, jsonb_build_object('bandit', 'fading', 'node', 8, 'half_lives', c.half_lives + 99))).*
FROM dexp3.component c WHERE bandit = 'faded';
SELECT node, counts, why FROM dexp3.nodes WHERE bandit = 'fading' AND node = 8;

--
-- Decisions of other nodes
--

SELECT bandit_node();
SELECT bandit_feedback(3 * (1::bigint << 48) + 17, 0.5);
SELECT bandit_feedback((1::bigint << 53) + 1, 0.5);
CREATE TABLE outcome (decision_id bigint, loss float8);
CREATE TRIGGER feedback AFTER INSERT ON outcome FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'loss');
INSERT INTO outcome VALUES (3 * (1::bigint << 48) + 17, 0.5);
SELECT bandit_node(32);
SELECT bandit_node(-1);
SELECT bandit_node(0);
SELECT bandit_node(7);				-- another server's
SELECT bandit_node(9);
-- Decisions that come from there do not move the sequence, and are settled here.
CREATE TABLE last AS SELECT last_value FROM dexp3.decision_id_seq;
INSERT INTO dexp3.decision
SELECT (jsonb_populate_record(d, jsonb_build_object('decision_id', 3 * (1::bigint << 48) + 17))).*
FROM dexp3.decision d JOIN dexp3.bandit b USING (bandit_id, epoch) WHERE b.name = 'there' ORDER BY d.decision_id LIMIT 1;
SELECT s.last_value - l.last_value AS moved FROM dexp3.decision_id_seq s, last l;
SELECT bandit_feedback(3 * (1::bigint << 48) + 17, 0.5);
SELECT bandit_node(3);

--
-- Who may do what
--

CREATE ROLE regress_dexp3_reader;
SELECT bandit_grant('here', 'regress_dexp3_reader');
GRANT USAGE ON SCHEMA servers TO regress_dexp3_reader;
SET ROLE regress_dexp3_reader;
SELECT DISTINCT bandit FROM dexp3.nodes;
SELECT bandit_node() AS node, bandit_publish() AS published;
SELECT bandit_node(5);
SELECT bandit_share('here', false);
SELECT bandit_forget_node(7, 'here');
SELECT bandit_forget_node(7);
SELECT count(*) FROM dexp3.component;
INSERT INTO dexp3.component SELECT FROM generate_series(1, 1);
SELECT bandit_pull('nowhere');
SELECT bandit_pull(NULL);
RESET ROLE;
SELECT bandit_drop(name) FROM dexp3.bandit WHERE name IN ('here', 'there', 'exact', 'fading', 'faded');
TRUNCATE dexp3.component;
DROP SCHEMA servers CASCADE;
DROP ROLE regress_dexp3_reader;
