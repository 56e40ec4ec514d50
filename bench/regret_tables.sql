-- The regret study: its results as tables and pictures.
--
-- regret.sql has played everything.  psql's variables are the same.

-- The 0.975 quantile of Student's distribution, for so many runs
CREATE TABLE bench.student (runs bigint PRIMARY KEY, quantile float8 NOT NULL);
INSERT INTO bench.student VALUES
    (2, 12.706), (3, 4.303), (4, 3.182), (5, 2.776), (6, 2.571), (8, 2.365), (10, 2.262), (20, 2.093), (30, 2.045);

CREATE VIEW bench.result AS
    SELECT environment, delay_id, delay, player, step_scale, is_variant, is_pictured,
           mean, mean - margin AS low, mean + margin AS high, margin
        FROM (SELECT environment, delay_id, player_id, avg(regret) AS mean,
                     quantile * stddev_samp(regret) / sqrt(runs) AS margin
                  FROM (SELECT *, count(*) OVER (PARTITION BY environment, delay_id, player_id) AS runs
                            FROM bench.run) AS r
                       JOIN bench.student USING (runs)
                  GROUP BY environment, delay_id, player_id, runs, quantile) AS r
             JOIN bench.delay USING (delay_id)
             JOIN bench.player USING (player_id);

-- What Corollary 3.2 proves of dada without skipping, for the delays until the end of
-- the run
CREATE VIEW bench.bound AS
    SELECT environment, delay_id, 3 * sqrt(ln(arms) * (:rounds::float8 * arms + cumulative)) AS bound
        FROM (SELECT delay_id, avg(cumulative) AS cumulative
                  FROM bench.delays
                  GROUP BY delay_id) AS d
             JOIN bench.environment ON delay_id = ANY (delay_ids);

-- What self-tuned says of its regret: the bound with optimism 1, otherwise the estimate.
-- With the step size eta of the last round, v is ln K / eta.
CREATE VIEW bench.own_bound AS
    SELECT environment, delay_id, player,
           avg(least(1.5 * ln(arms) / last_step_size - 0.5 * arms * ln(arms) + open, :rounds)) AS own_bound
        FROM bench.run
             JOIN bench.player AS p USING (player_id)
             JOIN bench.environment AS e USING (environment)
             JOIN bench.delays AS d USING (delay_id, seed)
        WHERE p.algorithm = 'self-tuned' AND delay_id = ANY (e.delay_ids)
        GROUP BY environment, delay_id, player;

-- The best step_scale of dada in hindsight
CREATE VIEW bench.best_scale AS
    SELECT DISTINCT ON (environment, delay_id) environment, delay_id, step_scale, mean, margin
        FROM bench.result
        WHERE player = 'dada'
        ORDER BY environment, delay_id, mean;

-- By how much the bound of dada changes with c = step_scale
CREATE FUNCTION bench.bound_factor(c float8) RETURNS float8
    LANGUAGE sql IMMUTABLE
    RETURN (1 / c + 2 * c) / 3;

-- The order of environments and players in tables and pictures
CREATE VIEW bench.environment_order AS
    SELECT environment, min(environment_id) AS environment_order, environment LIKE '%resonant%' AS is_resonant,
           array_agg(DISTINCT delay_id) AS delay_ids
        FROM bench.environment, unnest(delay_ids) AS delay_id
        GROUP BY environment;
CREATE VIEW bench.player_order AS
    SELECT player, min(player_id) AS player_order
        FROM bench.player
        WHERE half_life IS NULL
        GROUP BY player;

CREATE FUNCTION bench.whole(x float8) RETURNS text
    LANGUAGE sql
    RETURN replace(to_char(round(x::numeric), 'FM999,999,990'), '-', '−');

-- How many times the regret; nothing if there is none
CREATE FUNCTION bench.times(x float8, regret float8) RETURNS text
    LANGUAGE sql
    RETURN CASE WHEN regret > 0 THEN replace(to_char(x / regret, 'FM999,990.00'), '-', '−') ELSE '–' END;

CREATE FUNCTION bench.share(x float8) RETURNS text
    LANGUAGE sql
    RETURN replace(to_char(x, 'FM990.00'), '-', '−');

CREATE FUNCTION bench.markdown(cells text[]) RETURNS text
    LANGUAGE sql
    RETURN '| ' || array_to_string(cells, ' | ') || ' |';

CREATE FUNCTION bench.markdown_rule(columns bigint) RETURNS text
    LANGUAGE sql
    RETURN '|---' || repeat('|---:', columns::integer - 1) || '|';

CREATE FUNCTION bench.markdown_head(names text[]) RETURNS SETOF text
    LANGUAGE sql
BEGIN ATOMIC
    VALUES (bench.markdown(names)), (bench.markdown_rule(cardinality(names)));
END;

CREATE VIEW bench.cell AS
    SELECT r.*, environment_order, player_order, format('%s ± %s', bench.whole(mean), bench.whole(margin)) AS cell
        FROM bench.result AS r
             JOIN bench.environment_order USING (environment)
             JOIN bench.player_order USING (player);

-- A line for each world: what the reader should see first
CREATE FUNCTION bench.summary_table() RETURNS SETOF text
    LANGUAGE sql
BEGIN ATOMIC
    (SELECT bench.markdown_head('{world, delay, uniform, dada, "dada, best c", "blind, stored", Thompson,
                                  "self-tuned, optimism 1", self-tuned}'))
    UNION ALL
    (SELECT bench.markdown(ARRAY[c.environment, delay,
                                 min(cell) FILTER (WHERE player = 'uniform'),
                                 min(cell) FILTER (WHERE player = 'dada'),
                                 format('%s ± %s (%s)', bench.whole(b.mean), bench.whole(b.margin), b.step_scale),
                                 min(cell) FILTER (WHERE player = 'blind, stored'),
                                 min(cell) FILTER (WHERE player = 'Thompson'),
                                 min(cell) FILTER (WHERE player = 'self-tuned, optimism 1'),
                                 min(cell) FILTER (WHERE player = 'self-tuned')])
         FROM bench.cell AS c JOIN bench.best_scale AS b USING (environment, delay_id)
         WHERE NOT is_variant
         GROUP BY environment_order, c.environment, delay_id, delay, b.mean, b.margin, b.step_scale
         ORDER BY environment_order, delay_id);
END;

-- Optimism 1 beside the best of dada, dada with a step_scale of 4 and blind
CREATE VIEW bench.price AS
    SELECT environment_order, environment, delay_id, delay,
           min(mean) FILTER (WHERE player = 'self-tuned, optimism 1') AS regret,
           min(mean) FILTER (WHERE player IN ('dada, no skipping', 'dada, no skipping, c = 4', 'blind, stored')) AS best,
           min(mean) FILTER (WHERE player = 'dada') AS skipping
        FROM bench.cell
        WHERE NOT is_variant
        GROUP BY environment_order, environment, delay_id, delay;

CREATE FUNCTION bench.price_table() RETURNS SETOF text
    LANGUAGE sql
BEGIN ATOMIC
    (SELECT bench.markdown_head('{world, delay, "self-tuned, optimism 1", "best of dada, dada with c = 4, blind", ratio,
                                  wanted, "", "dada with skipping", ratio}'))
    UNION ALL
    (SELECT bench.markdown(ARRAY[environment, delay, bench.whole(regret), bench.whole(best), bench.times(regret, best),
                                 CASE WHEN best > 0 THEN '≤ 1.6' ELSE '' END,
                                 CASE WHEN best > 0 THEN CASE WHEN regret <= 1.6 * best THEN 'ok' ELSE 'MISSED' END
                                      ELSE '' END,
                                 bench.whole(skipping), bench.times(regret, skipping)])
         FROM bench.price
         ORDER BY environment_order, delay_id);
END;

CREATE FUNCTION bench.own_cells(regret float8, own_bound float8) RETURNS text[]
    LANGUAGE sql
    RETURN ARRAY[bench.whole(regret), bench.whole(own_bound), bench.times(own_bound, regret)];

-- What self-tuned says of its regret
CREATE FUNCTION bench.own_bound_table() RETURNS SETOF text
    LANGUAGE sql
BEGIN ATOMIC
    (SELECT bench.markdown_head('{world, delay, "optimism 1: regret", bound, ratio, "optimism 0.25: regret", estimate,
                                  ratio, "bound of dada, no skipping"}'))
    UNION ALL
    (SELECT bench.markdown(ARRAY[environment, delay]
                           || bench.own_cells(min(mean) FILTER (WHERE player <> 'self-tuned'),
                                              min(own_bound) FILTER (WHERE player <> 'self-tuned'))
                           || bench.own_cells(min(mean) FILTER (WHERE player = 'self-tuned'),
                                              min(own_bound) FILTER (WHERE player = 'self-tuned'))
                           || bench.whole(min(bound)))
         FROM bench.cell JOIN bench.own_bound USING (environment, delay_id, player)
              JOIN bench.bound USING (environment, delay_id)
         GROUP BY environment_order, environment, delay_id, delay
         ORDER BY environment_order, delay_id);
END;

-- The table of an environment: a line for each delay, a column for each player
CREATE FUNCTION bench.environment_table(environment text) RETURNS SETOF text
    LANGUAGE sql
BEGIN ATOMIC
    (SELECT bench.markdown_head(ARRAY['delay'] || array_agg(player ORDER BY player_order)
                                || ARRAY['bound of dada, no skipping'])
         FROM bench.player_order)
    UNION ALL
    (SELECT bench.markdown(ARRAY[delay] || array_agg(cell ORDER BY player_order) || bench.whole(min(bound)))
         FROM bench.cell JOIN bench.bound USING (environment, delay_id)
         WHERE cell.environment = environment_table.environment AND NOT is_variant
         GROUP BY delay_id, delay
         ORDER BY delay_id);
END;

-- The table of a player with different step sizes: a line for each, a column for
-- each environment
CREATE FUNCTION bench.step_scale_table(player text, delay_id integer) RETURNS SETOF text
    LANGUAGE sql
BEGIN ATOMIC
    (SELECT bench.markdown_head(ARRAY['step_scale']
                                || CASE WHEN step_scale_table.player = 'dada' THEN ARRAY['proven bound'] END
                                || array_agg(environment ORDER BY environment_order))
         FROM bench.environment_order
         WHERE step_scale_table.delay_id = ANY (delay_ids))
    UNION ALL
    (SELECT bench.markdown(ARRAY[step_scale::text]
                           || CASE WHEN step_scale_table.player = 'dada'
                                   THEN ARRAY['× ' || round(bench.bound_factor(step_scale)::numeric, 2)] END
                           || array_agg(cell ORDER BY environment_order))
         FROM bench.cell
         WHERE cell.player = step_scale_table.player AND cell.delay_id = step_scale_table.delay_id
         GROUP BY step_scale
         ORDER BY step_scale);
END;

-- Forgetting: a line for each world, a column for each player
CREATE FUNCTION bench.forgetting_table() RETURNS SETOF text
    LANGUAGE sql
BEGIN ATOMIC
    WITH cell AS (
        SELECT world_id, world, delay, is_fixed, player_id,
               CASE player WHEN 'self-tuned' THEN 'no half-life' ELSE player END AS player,
               format('%s ± %s', bench.whole(avg(regret)),
                      bench.whole(quantile * stddev_samp(regret) / sqrt(count(*)))) AS cell
            FROM (SELECT *, count(*) OVER (PARTITION BY world_id, player_id) AS runs
                      FROM bench.forgetting_run) AS r
                 JOIN bench.student USING (runs)
                 JOIN bench.player USING (player_id)
                 JOIN bench.forgetting_world USING (world_id)
                 JOIN bench.delay USING (delay_id),
                 LATERAL (SELECT player IN ('uniform', 'dada', 'Thompson')) AS f (is_fixed)
            GROUP BY world_id, world, delay, is_fixed, player_id, player, quantile
    )
    (SELECT bench.markdown_head('{world, delay}' || array_agg(player ORDER BY is_fixed DESC, player_id))
         FROM cell
         WHERE world_id = 1)
    UNION ALL
    (SELECT bench.markdown(ARRAY[world, delay] || array_agg(cell ORDER BY is_fixed DESC, player_id))
         FROM cell
         GROUP BY world_id, world, delay
         ORDER BY world_id);
END;

-- Each player in each random world, as a share of the paper's bound, and what it lost
-- beyond the best of dada, with or without skipping, and blind
CREATE VIEW bench.random_result AS
    SELECT world_id, w.world, w.delay, player_order, player, share, worst_run,
           share - min(share) FILTER (WHERE player IN ('dada', 'dada, no skipping', 'blind, stored'))
                       OVER (PARTITION BY world_id) AS excess
        FROM (SELECT world_id, player_id, avg(regret) / avg(bound) AS share, max(regret / bound) AS worst_run
                  FROM bench.random_run
                  GROUP BY world_id, player_id) AS r
             JOIN bench.random_world AS w USING (world_id)
             JOIN bench.player USING (player_id)
             JOIN bench.player_order USING (player);

CREATE FUNCTION bench.random_table() RETURNS SETOF text
    LANGUAGE sql
BEGIN ATOMIC
    (SELECT bench.markdown_head('{player, "regret / bound: mean", median, "90th percentile", worst, "worst single run",
                                  "excess / bound: mean", median, "90th percentile", worst}'))
    UNION ALL
    (SELECT bench.markdown(ARRAY[player,
                                 bench.share(avg(share)),
                                 bench.share(percentile_cont(0.5) WITHIN GROUP (ORDER BY share)),
                                 bench.share(percentile_cont(0.9) WITHIN GROUP (ORDER BY share)),
                                 bench.share(max(share)),
                                 bench.share(max(worst_run)),
                                 bench.share(avg(excess)),
                                 bench.share(percentile_cont(0.5) WITHIN GROUP (ORDER BY excess)),
                                 bench.share(percentile_cont(0.9) WITHIN GROUP (ORDER BY excess)),
                                 bench.share(max(excess))])
         FROM bench.random_result
         GROUP BY player_order, player
         ORDER BY player_order);
END;

-- The worst world of each kind
CREATE FUNCTION bench.random_kinds_table() RETURNS SETOF text
    LANGUAGE sql
BEGIN ATOMIC
    WITH worst AS (
        SELECT world, player_order, player, bench.share(max(share)) AS cell, bench.share(max(excess)) AS excess
            FROM bench.random_result
            GROUP BY world, player_order, player
    )
    (SELECT bench.markdown_head('{world}' || array_agg(player ORDER BY player_order))
         FROM (SELECT DISTINCT player_order, player FROM worst) AS p)
    UNION ALL
    (SELECT bench.markdown(ARRAY[world] || array_agg(format('%s (%s)', cell, excess) ORDER BY player_order))
         FROM worst
         GROUP BY world
         ORDER BY world);
END;

--
-- Pictures: the input of picture.py
--

-- The most important players in all worlds
CREATE FUNCTION bench.worlds_picture() RETURNS json
    LANGUAGE sql
BEGIN ATOMIC
    WITH series AS (
        SELECT environment, player,
               json_agg(delay ORDER BY delay_id) AS delays,
               json_agg(json_build_array(mean, low, high) ORDER BY delay_id) AS regrets
            FROM bench.result
            WHERE is_pictured
            GROUP BY environment, player
    ), panel AS (
        SELECT environment, environment_order,
               (array_agg(delays))[1] AS categories,
               json_agg(json_build_object('name', player, 'values', regrets) ORDER BY player_order) AS series
            FROM series JOIN bench.environment_order USING (environment) JOIN bench.player_order USING (player)
            GROUP BY environment, environment_order
    )
    SELECT json_build_object(
               'chart', 'intervals',
               'title', 'Regret in each world, by delay: mean and 95% interval',
               'x', json_build_object('title', 'regret'),
               'step', 8,
               'panels', json_agg(json_build_object('title', environment, 'categories', categories, 'series', series)
                                  ORDER BY environment_order))
        FROM panel;
END;

-- The same players in the course of a run
CREATE FUNCTION bench.time_picture() RETURNS json
    LANGUAGE sql
BEGIN ATOMIC
    WITH point AS (
        SELECT environment, player, round, avg(regret) AS mean,
               quantile * stddev_samp(regret) / sqrt(runs) AS margin
            FROM bench.path JOIN bench.player USING (player_id) JOIN bench.student ON runs = seeds
            GROUP BY environment, player, round, runs, quantile
    ), series AS (
        SELECT environment, player,
               json_agg(json_build_array(round, mean, mean - margin, mean + margin) ORDER BY round) AS points
            FROM point
            GROUP BY environment, player
    ), panel AS (
        SELECT environment, environment_order, format('%s, delay %s', environment, delay) AS title,
               json_agg(json_build_object('name', player, 'points', points) ORDER BY player_order) AS series
            FROM series JOIN bench.environment_order USING (environment) JOIN bench.player_order USING (player)
                 JOIN bench.environment AS e USING (environment) JOIN bench.delay ON delay_id = e.followed_delay_id
            GROUP BY environment, environment_order, delay
    )
    SELECT json_build_object(
               'chart', 'lines',
               'title', 'Regret in the course of a run: mean and 95% interval',
               'x', json_build_object('title', 'round'),
               'y', json_build_object('title', 'regret so far'),
               'height', 340,
               'marks', false,
               'panels', json_agg(json_build_object('title', title, 'series', series) ORDER BY environment_order))
        FROM panel;
END;

-- Regret over step_scale, a row of panels for each player and delay, and what becomes
-- of the bound.  Only the worlds that have all these delays are shown.
CREATE FUNCTION bench.step_scale_picture() RETURNS json
    LANGUAGE sql
BEGIN ATOMIC
    WITH swept AS (
        SELECT player, delay_id
            FROM bench.result
            WHERE is_variant AND delay_id <= 3
            GROUP BY player, delay_id
    ), series AS (
        SELECT player, delay_id, delay, environment,
               json_agg(json_build_array(step_scale, mean, low, high) ORDER BY step_scale) AS points
            FROM bench.result JOIN swept USING (player, delay_id) JOIN bench.environment_order AS e USING (environment)
            WHERE e.delay_ids @> '{1, 2, 3}'
            GROUP BY player, delay_id, delay, environment
    ), panel AS (
        SELECT player, delay_id, is_resonant,
               json_build_object(
                   'title', format('%s, %s, the %s worlds', player,
                                   CASE delay WHEN 'none' THEN 'no delay' ELSE 'delay ' || delay END,
                                   CASE WHEN is_resonant THEN 'resonant' ELSE 'other' END),
                   'series', json_agg(json_build_object('name', environment, 'points', points)
                                      ORDER BY environment_order)) AS panel
            FROM series JOIN bench.environment_order USING (environment)
            GROUP BY player, delay_id, delay, is_resonant
        UNION ALL
        SELECT NULL, NULL, NULL,
               json_build_object(
                   'title', 'dada, the proven bound',
                   'y', json_build_object('title', 'times that for step_scale 1', 'scale', 'log'),
                   'series', json_build_array(json_build_object(
                       'name', 'bound',
                       'points', json_agg(json_build_array(step_scale, bench.bound_factor(step_scale))
                                          ORDER BY step_scale))))
            FROM bench.player
            WHERE player = 'dada'
    )
    SELECT json_build_object(
               'chart', 'lines',
               'title', 'Regret over step_scale: mean and 95% interval',
               'x', json_build_object(
                        'title', 'step_scale', 'scale', 'log',
                        'ticks', (SELECT json_agg(step_scale ORDER BY step_scale)
                                      FROM bench.player
                                      WHERE player = 'dada')),
               'y', json_build_object('title', 'regret'),
               'height', 240,
               'panels', json_agg(panel ORDER BY player, delay_id, is_resonant))
        FROM panel;
END;

-- The random worlds, sorted for each player by its own regret and excess, without those
-- in which it did best
CREATE FUNCTION bench.random_picture() RETURNS json
    LANGUAGE sql
BEGIN ATOMIC
    WITH point AS (
        SELECT player_order, player, panel, percent,
               CASE panel WHEN 1 THEN percentile_cont(percent / 100.0) WITHIN GROUP (ORDER BY share)
                          ELSE percentile_cont(percent / 100.0) WITHIN GROUP (ORDER BY excess) END AS y
            FROM bench.random_result, generate_series(1, 2) AS panel, generate_series(40, 100) AS percent
            WHERE player <> 'uniform'
            GROUP BY player_order, player, panel, percent
    ), series AS (
        SELECT panel, player_order,
               json_build_object('name', player,
                                 'points', json_agg(json_build_array(percent, y) ORDER BY percent)) AS series
            FROM point
            GROUP BY panel, player_order, player
    ), panel AS (
        SELECT panel,
               json_build_object(
                   'title', CASE panel WHEN 1 THEN 'regret' ELSE 'excess over the best of dada and blind' END,
                   'series', json_agg(series ORDER BY player_order)) AS json
            FROM series
            GROUP BY panel
    )
    SELECT json_build_object(
               'chart', 'lines',
               'title', 'Random worlds, sorted for each player: the worse ones',
               'x', json_build_object('title', 'percent of the worlds'),
               'y', json_build_object('title', 'share of the paper’s bound'),
               'height', 340,
               'marks', false,
               'panels', json_agg(json ORDER BY panel))
        FROM panel;
END;
