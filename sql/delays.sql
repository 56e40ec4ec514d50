-- bandit_delays: how long feedback took, and what a window would lose.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
DROP ROLE IF EXISTS regress_dexp3_waiter;
RESET client_min_messages;
\set SHOW_CONTEXT never

-- A decision a second. Every third one gets feedback: the first of these a second
-- later, the second two seconds later, and so on; the last one after 200 seconds.
SELECT bandit_create('shop', '{a,b}') IS NOT NULL AS made;
SELECT count(*) FROM bandit_choose_many('shop', 600);
SELECT count(bandit_feedback(decision_id, 0)) FROM dexp3.pending WHERE bandit = 'shop' AND round % 3 = 0;
CREATE TEMP TABLE start AS SELECT now() - interval '1 hour' AS at;
UPDATE dexp3.decision d SET decided_at = at + round * interval '1 s' FROM start, dexp3.bandit b
WHERE b.bandit_id = d.bandit_id AND b.name = 'shop';
UPDATE dexp3.feedback f SET received_at = d.decided_at + d.round / 3 * interval '1 s', delay = d.round / 3
FROM dexp3.decision d, dexp3.bandit b
WHERE d.decision_id = f.decision_id AND b.bandit_id = d.bandit_id AND b.name = 'shop';

SELECT * FROM bandit_delays('shop');

-- A window of one's own comes among the others. "open" is what it costs: so many
-- decisions wait.
SELECT * FROM bandit_delays('shop', '50.5 seconds') WHERE duration < '2 minutes';
SELECT * FROM bandit_delays('shop', '1 hour') WHERE duration > '2 minutes';
SELECT * FROM bandit_delays('shop', '0') ORDER BY duration LIMIT 1;
SELECT * FROM bandit_delays('shop', '3 months') ORDER BY duration DESC LIMIT 1;

-- The same, counted from the tables
SELECT count(*), bool_and(d.lost = t.lost) AS lost, bool_and(d.rounds = t.rounds) AS rounds
FROM generate_series(0, 210, 15) s, bandit_delays('shop', s * interval '1 s') d,
     LATERAL (SELECT avg((received_at - c.decided_at > d.duration)::integer)::float8 AS lost,
                     percentile_disc(d.quantile) WITHIN GROUP (ORDER BY f.delay) AS rounds
              FROM dexp3.feedback f JOIN dexp3.decision c USING (decision_id) JOIN dexp3.bandit b ON b.bandit_id = c.bandit_id
              WHERE b.name = 'shop') t
WHERE d.duration = s * interval '1 s';

-- Only the newest: that is the order in which transactions have begun to write. Feedback
-- at once takes no time, and a single moment has no rate.
SELECT bandit_feedback(decision_id, 0) FROM bandit_choose('shop');
SELECT quantile, rounds, duration < '1 minute' AS short, lost, open FROM bandit_delays('shop', newest => 1);
SELECT max(duration) > '1 minute' AS long FROM bandit_delays('shop', newest => 500);

-- What has expired or was skipped is not feedback, and what was before a reset is
-- over.
SELECT bandit_create('expiring', '{a,b}', feedback_window => '0 s') < bandit_create('skipping', '{a,b}', 'dada', patience => 0) AS made;
SELECT count(*) FROM bandit_choose_many('expiring', 5);
SELECT bandit_expire('expiring');
SELECT count(*) FROM bandit_choose_many('skipping', 50);
SELECT bandit, skipped > 10 AS skipped, expired FROM dexp3.overview WHERE bandit IN ('expiring', 'skipping') ORDER BY bandit;
SELECT count(*) FROM bandit_delays('expiring', '1 day');
SELECT count(*) FROM bandit_delays('skipping', '1 day');
SELECT bandit_reset('shop');
SELECT count(*) FROM bandit_delays('shop', '1 day');

-- Wrong arguments, and bandits of others
SELECT * FROM bandit_delays(NULL);
SELECT * FROM bandit_delays('no such bandit');
SELECT * FROM bandit_delays('shop', newest => 0);
SELECT * FROM bandit_delays('shop', newest => -1);
SELECT * FROM bandit_delays('shop', newest => NULL);
CREATE ROLE regress_dexp3_waiter;
SELECT bandit_grant('shop', 'regress_dexp3_waiter');
SET ROLE regress_dexp3_waiter;
SELECT count(*) FROM bandit_delays('shop');
SELECT * FROM bandit_delays('expiring');
SELECT * FROM dexp3.newest_feedback('expiring', 10);
RESET ROLE;

SELECT count(bandit_drop(name)) FROM dexp3.bandit WHERE name IN ('shop', 'expiring', 'skipping');
DROP ROLE regress_dexp3_waiter;
