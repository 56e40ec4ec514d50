-- servers.sql: one bandit on several servers, simulated, for scripts/bench
--
-- psql -v rounds=N -v seeds=N

CREATE FUNCTION bench.servers_simulate(losses float8[], delays integer[], servers integer, exchange_every integer,
    optimism float8, seed bigint) RETURNS float8
    LANGUAGE C VOLATILE STRICT COST 1000
    AS 'yardsticks', 'servers_simulate';

-- One server is bandit_simulate(); and several that exchange in every round are one.
DO $$
DECLARE
    losses float8[] := (SELECT array_agg(ARRAY[t % 2, t % 3 / 2.0, 0.4] ORDER BY t) FROM generate_series(1, 2000) t);
    late integer[] := (SELECT array_agg(t % 7 ORDER BY t) FROM generate_series(1, 2000) t);
    simulated float8 := (SELECT sum(loss) FROM bandit_simulate(losses, late, seed => 5));
BEGIN
    ASSERT abs(bench.servers_simulate(losses, late, 1, 0, 0.25, 5) - simulated) < 1e-6, 'one server';
    ASSERT abs(bench.servers_simulate(losses, late, 4, 1, 0.25, 5) - simulated) < 1e-6, 'several that know all';
END
$$;

CREATE TABLE bench.servers_run (
    servers integer,
    exchange_every integer,             -- rounds of all servers; 0: never
    delay integer,
    seed integer,
    regret float8
);

-- Ten arms, of which the first loses with probability 0.4, the others with 0.5
CREATE PROCEDURE bench.play_servers(rounds integer, seeds integer) LANGUAGE plpgsql AS $$
DECLARE
    losses float8[];
    best float8;
    late integer;
BEGIN
    FOR this_seed IN 1 .. seeds LOOP
        PERFORM setseed(this_seed / 1000.0);
        losses := (SELECT array_agg(l ORDER BY t)
                   FROM (SELECT t, array_agg((random() < CASE i WHEN 1 THEN 0.4 ELSE 0.5 END)::integer::float8 ORDER BY i) AS l
                         FROM generate_series(1, rounds) t, generate_series(1, 10) i GROUP BY t) w);
        best := (SELECT min(s) FROM (SELECT sum(losses[t][i]) AS s FROM generate_series(1, 10) i, generate_series(1, rounds) t GROUP BY i) a);
        FOREACH late IN ARRAY '{0,1000}'::integer[] LOOP
            INSERT INTO bench.servers_run
            SELECT s, e, late, this_seed,
                   bench.servers_simulate(losses, array_fill(late, ARRAY[rounds]), s, e, 0.25, this_seed) - best
            FROM (VALUES (1), (2), (4), (8)) server (s), (VALUES (10), (100), (1000), (10000), (0)) exchange (e)
            WHERE s > 1 OR e = 0;
        END LOOP;
        COMMIT;
    END LOOP;
END
$$;
CALL bench.play_servers(:rounds, :seeds);

CREATE FUNCTION bench.servers_table() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT '| servers | delay | exchange every 10 rounds | 100 | 1,000 | 10,000 | never |'
    UNION ALL SELECT '|---|---|---|---|---|---|---|'
    UNION ALL (
    SELECT format('| %s | %s | %s |', servers, to_char(delay, 'FM9,999'), string_agg(cell, ' | ' ORDER BY e = 0, e))
    FROM (SELECT s.servers, d.delay, e,
                 coalesce((SELECT format('%s ± %s', to_char(avg(regret), 'FM99,999'), to_char(2 * stddev(regret) / sqrt(count(*)), 'FM9,999'))
                           FROM bench.servers_run r
                           WHERE r.servers = s.servers AND r.delay = d.delay AND r.exchange_every = e HAVING count(*) > 0), '') AS cell
          FROM (VALUES (1), (2), (4), (8)) s (servers), (VALUES (0), (1000)) d (delay), (VALUES (10), (100), (1000), (10000), (0)) e (e)) c
    GROUP BY servers, delay ORDER BY delay, servers)
$$;
