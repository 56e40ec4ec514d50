-- Where the sums in shared memory, those of the running transaction and the log could
-- part: savepoints, a log that was changed by hand, checkpoints.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
RESET client_min_messages;
SET dexp3.progress_interval = 0;

--
-- Savepoints do not keep decisions from being skipped.
--

SELECT count(bandit_create(name, '{a,b}', 'dada', patience => 10)) FROM unnest('{plain,released,rolled back}'::text[]) name;
CREATE PROCEDURE pg_temp.choose(name text, rounds integer, kind text) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. rounds LOOP
        CASE kind
            WHEN 'plain' THEN
                PERFORM bandit_choose(name);
            WHEN 'released' THEN
                BEGIN
                    PERFORM bandit_choose(name);
                EXCEPTION WHEN division_by_zero THEN
                END;
            ELSE
                BEGIN
                    PERFORM bandit_choose(name);
                    RAISE division_by_zero;
                EXCEPTION WHEN division_by_zero THEN
                END;
                PERFORM bandit_choose(name);
        END CASE;
    END LOOP;
END
$$;
BEGIN;
CALL pg_temp.choose('plain', 600, 'plain');
CALL pg_temp.choose('released', 600, 'released');
CALL pg_temp.choose('rolled back', 600, 'rolled back');
SELECT bandit, rounds, open, skipped = (SELECT skipped FROM dexp3.overview WHERE bandit = 'plain') AS skipped_as_many
FROM dexp3.overview WHERE bandit IN ('plain', 'released', 'rolled back') ORDER BY bandit;
COMMIT;
-- When it has ended, nothing is left behind.
SELECT count(bandit_choose(name)) FROM unnest('{plain,released,rolled back}'::text[]) name, generate_series(1, 300);
SELECT bandit, rounds, abs(skipped - (SELECT skipped FROM dexp3.overview WHERE bandit = 'plain')) <= 2 AS skipped_as_many,
       bandit_verify(bandit)
FROM dexp3.overview WHERE bandit IN ('plain', 'released', 'rolled back') ORDER BY bandit;

-- A savepoint that is rolled back opens again what was skipped in it; the next choose
-- skips it.
SELECT bandit_create('once more', '{a,b}', 'dada', patience => 5) > 0 AS created;
BEGIN;
SELECT count(bandit_choose('once more')) FROM generate_series(1, 6);
SAVEPOINT s;
SELECT count(bandit_choose('once more')) FROM generate_series(1, 3);
SELECT skipped > 0 AS skipped FROM dexp3.overview WHERE bandit = 'once more';
ROLLBACK TO s;
SELECT skipped FROM dexp3.overview WHERE bandit = 'once more';
SELECT count(bandit_choose('once more')) FROM generate_series(1, 3);
SELECT skipped > 0 AS skipped FROM dexp3.overview WHERE bandit = 'once more';
COMMIT;
SELECT bandit_verify('once more');

--
-- Many decisions at once, in a transaction that has changed the log by hand
--

SELECT bandit_create('by hand', '{a,b}') > 0 AS created;
SELECT count(*) FROM bandit_choose_many('by hand', 3);
BEGIN;
DELETE FROM dexp3.feedback WHERE false;
SELECT count(*) FROM bandit_choose_many('by hand', 5);
SELECT round, outstanding FROM dexp3.decision JOIN dexp3.bandit USING (bandit_id) WHERE name = 'by hand' ORDER BY decision_id;
COMMIT;
SELECT bandit_verify('by hand');

--
-- One statement that removes rows and, after that or before, writes a checkpoint
--

SELECT bandit_create('one statement', '{a,b}') > 0 AS created;
SELECT count(bandit_feedback(decision_id, 0.5)) FROM bandit_choose_many('one statement', 400);
WITH removed AS (
    DELETE FROM dexp3.feedback f USING dexp3.bandit b WHERE f.bandit_id = b.bandit_id AND b.name = 'one statement' AND f.delay < 100
    RETURNING f.decision_id)
SELECT (SELECT count(*) FROM removed) AS removed, count(*) AS chosen FROM bandit_choose('one statement');
SELECT count(*) AS checkpoints FROM dexp3.checkpoint JOIN dexp3.bandit USING (bandit_id) WHERE name = 'one statement';
SELECT bandit_verify('one statement');
SELECT open FROM dexp3.overview WHERE bandit = 'one statement';

-- Nobody changes a checkpoint.
SELECT count(bandit_choose('one statement')) FROM generate_series(1, 2);
UPDATE dexp3.checkpoint SET state = '\x00';
SELECT count(*) > 0 AS some, bool_and(octet_length(state) > 100) AS unchanged FROM dexp3.checkpoint;

SELECT count(bandit_drop(name)) FROM unnest('{plain,released,rolled back,once more,by hand,one statement}'::text[]) name;

--
-- What a session remembers of bandits is bounded, and who may use none of them reads no
-- arms to find that out.
--

CREATE VIEW remembered AS
SELECT coalesce(sum(total_bytes), 0) AS bytes FROM pg_backend_memory_contexts WHERE name = 'dexp3 bandits';
CREATE ROLE regress_dexp3_nosy;
GRANT SELECT ON remembered TO regress_dexp3_nosy;
GRANT pg_read_all_stats TO regress_dexp3_nosy;
SELECT count(bandit_create('large ' || n, ARRAY(SELECT 'arm ' || i FROM generate_series(1, 65535) i))) FROM generate_series(1, 6) n;
\c -
SELECT count(dexp3.bandit_id_of('large ' || n)) FROM generate_series(1, 6) n;
SELECT bytes BETWEEN 1000000 AND 12000000 AS bounded FROM remembered;
\c -
SET ROLE regress_dexp3_nosy;
SELECT count(*) FROM dexp3.bandit;
SELECT bytes < 100000 AS little FROM remembered;
RESET ROLE;
SELECT count(bandit_drop('large ' || n)) FROM generate_series(1, 6) n;
DROP VIEW remembered;
DROP ROLE regress_dexp3_nosy;
