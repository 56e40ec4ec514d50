-- Pages: that they show what the reports say, and are documents that do nothing, whatever
-- the names are.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
DROP ROLE IF EXISTS regress_dexp3_reader;
RESET client_min_messages;

CREATE SCHEMA page;

-- Is it well-formed?  A server without libxml cannot tell, and is believed.
CREATE FUNCTION page.well_formed(page text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RETURN xmlparse(DOCUMENT regexp_replace(page, '^<!DOCTYPE html>', '')) IS NOT NULL;
EXCEPTION
    WHEN feature_not_supported THEN RETURN true;
    WHEN invalid_xml_document THEN RETURN false;
END $$;

-- The texts of all elements of a kind
CREATE FUNCTION page.find(page text, element text) RETURNS SETOF text
LANGUAGE sql AS $$
    SELECT trim(regexp_replace(m[1], '<[^>]*>', '', 'g'))
    FROM regexp_matches(page, '<' || element || '[^>]*?>(.*?)</' || split_part(element, ' ', 1) || '>', 'g') m
$$;

-- The rows of the table with this caption, with a bar between cells
CREATE FUNCTION page.rows(page text, caption text) RETURNS SETOF text
LANGUAGE sql AS $$
    SELECT (SELECT string_agg(trim(c), ' | ' ORDER BY n)
            FROM unnest(regexp_split_to_array(regexp_replace(regexp_replace(r[1], '</t[hd]>$', ''),
                '<span [^>]*>|</span>|<bdi>|</bdi>|<t[hd][^>]*>', '', 'g'), '</t[hd]>')) WITH ORDINALITY AS s (c, n))
    FROM regexp_matches(substring(page FROM '<caption>' || caption || '</caption>\n(.*?)</table>'),
                        '<tr>(.*?)</tr>', 'g') r
$$;

-- Nothing yet
SELECT bandit_create('headline', ARRAY['plain', 'funny', 'bold']) > 0 AS created;
SELECT page.rows(bandit_page('headline'), 'What is known about each arm, the most probable first');
SELECT array_agg(h) AS sections FROM page.find(bandit_page('headline'), 'h2') h;

-- Played
SELECT setseed(0.5);
SELECT count(CASE WHEN i % 10 <> 0 THEN bandit_feedback(c.decision_id, random() * CASE c.arm WHEN 'bold' THEN 0.3 ELSE 0.9 END) END) AS fed
FROM generate_series(1, 2000) i, LATERAL bandit_choose_each('headline', i) c;
SELECT page.rows(bandit_page('headline'), 'What is known about each arm, the most probable first');

-- The same numbers as the reports have
CREATE FUNCTION page.number(n float8) RETURNS text LANGUAGE sql AS $$
    SELECT CASE WHEN n IS NULL THEN '–' WHEN n = 0 THEN '0.00'
                ELSE to_char(round(n::numeric, d), 'FM999,999,990' || CASE WHEN d > 0 THEN '.' || repeat('0', d) ELSE '' END) END
    FROM (SELECT CASE WHEN n <> 0 THEN least(greatest(2 - floor(log(abs(n)))::integer, 0), 6) END AS d) s
$$;
CREATE VIEW page.expected AS
SELECT format('%s | %s%% | %s | %s | %s | %s | %s | %s', arm, to_char(100 * probability, 'FM990.0'), decisions, settled, open,
              page.number(mean_loss), page.number(estimate), page.number(estimate_low) || ' to ' || page.number(estimate_high))
       AS row
FROM bandit_report('headline');
SELECT count(*) AS wrong FROM (
    (SELECT replace(r, ',', '') FROM page.rows(bandit_page('headline'), 'What is known about each arm, the most probable first') r
     OFFSET 1)
    EXCEPT SELECT replace(row, ',', '') FROM page.expected) x;
SELECT array_agg(t) AS terms FROM page.find(bandit_page('headline'), 'dt') t;
SELECT (array_agg(d))[1:8] = (
        SELECT ARRAY[to_char(rounds, 'FM9,999'), to_char(rounds - open, 'FM9,999'), open::text,
                     page.number(total_loss), page.number(total_loss / (rounds - open)), page.number(regret_estimate),
                     to_char(last_decision, 'YYYY-MM-DD HH24:MI TZ'), to_char(last_feedback, 'YYYY-MM-DD HH24:MI TZ')]
        FROM dexp3.overview WHERE bandit = 'headline') AS as_in_the_overview
FROM page.find(bandit_page('headline'), 'dd') d;
SELECT page.find(bandit_page('headline'), 'h1') AS name, (SELECT t FROM page.find(bandit_page('headline'), 'title') t LIMIT 1) AS title;
SELECT array_agg(m[1]) AS pictures FROM regexp_matches(bandit_page('headline'), '<figure [^>]*aria-label="([^"]*)"', 'g') m;
SELECT array_agg(c) AS captions FROM page.find(bandit_page('headline'), 'caption') c;

-- Every cell of a table belongs to a heading.
SELECT b, count(DISTINCT cells) AS widths
FROM (VALUES ('headline'), (NULL)) AS v (b),
     LATERAL (SELECT array_length(string_to_array(r, ' | '), 1) AS cells
              FROM page.find(bandit_page(b), 'caption') c, page.rows(bandit_page(b), c) r WHERE c !~ '^(By|The newest) ') t
GROUP BY b ORDER BY b;
SELECT count(*) AS headings_without_scope FROM regexp_matches(bandit_page('headline'), '<th(?!ead| scope=)', 'g');

-- Of a bandit with everything
SELECT bandit_create('all', '{a,b}', feedback_window => '0 seconds', half_life => '1000 days', retention => '30 days',
                     loss_range => '{-10,10}') > 0 AS created;
SELECT count(*) FROM bandit_choose_many('all', 30);
SELECT bandit_expire('all');
SELECT string_agg(t || ': ' || d, ', ' ORDER BY n) AS facts
FROM ROWS FROM (page.find(bandit_page('all'), 'dt'), page.find(bandit_page('all'), 'dd')) WITH ORDINALITY AS x (t, d, n)
WHERE t NOT LIKE 'last %';

-- Decisions that wait
SELECT bandit_create('waiting', '{a,b}', 'dada', skipping => false) > 0 AS created;
SELECT count(*) FROM bandit_choose_many('waiting', 4);
UPDATE dexp3.decision SET decided_at = decided_at - make_interval(days => 5 * n::integer)
FROM (SELECT decision_id, row_number() OVER (ORDER BY decision_id) - 1 AS n
      FROM dexp3.pending WHERE bandit = 'waiting') p WHERE p.decision_id = decision.decision_id;
SELECT page.rows(bandit_page('waiting'), 'By how long their feedback has been waited for');
-- It does not tell its regret.
SELECT array_agg(m[1]) AS pictures FROM regexp_matches(bandit_page('waiting'), '<figure [^>]*aria-label="([^"]*)"', 'g') m;

-- Advice: as bandit_advice gives it
SELECT bandit_create('orders', '{a,b}') > 0 AS created;
SELECT count(CASE WHEN i % 20 = 0 THEN bandit_reward(decision_id, 1) END)
FROM generate_series(1, 500) AS i, bandit_choose_each('orders', i);
SELECT a.severity || ': ' || a.advice IN (SELECT page.find(bandit_page('orders'), 'li')) AS for_one,
       a.bandit || ': ' || a.severity || ': ' || a.advice IN (SELECT page.find(bandit_page(), 'li')) AS for_all
FROM bandit_advice('orders') a;
SELECT bandit_page('waiting') LIKE '%<li>%' AS advised;

-- How long feedback took
SELECT page.rows(bandit_page('orders'), 'The newest feedback came within so many decisions, and within this time') LIMIT 2;

-- With a goal: rewards, as the report has them
SELECT bandit_create('button', '{buy,"order now"}', goal => 'reward') > 0 AS created;
SELECT count(bandit_reward(decision_id, random() < CASE arm WHEN 'order now' THEN 0.6 ELSE 0.2 END))
FROM generate_series(1, 300) AS i, bandit_choose_each('button', i);
SELECT page.rows(bandit_page('button'), 'What is known about each arm, the most probable first');
SELECT arm, page.number(mean_reward) AS mean, page.number(estimate) AS estimate, page.number(estimate_low) AS low,
       page.number(estimate_high) AS high
FROM bandit_report('button');
SELECT string_agg(t || ': ' || d, ', ' ORDER BY n) AS facts
FROM ROWS FROM (page.find(bandit_page('button'), 'dt'), page.find(bandit_page('button'), 'dd')) WITH ORDINALITY AS x (t, d, n)
WHERE t NOT LIKE 'last %';
SELECT rounds, page.number(total_reward) AS total FROM dexp3.overview WHERE bandit = 'button';
SELECT array_agg(m[1]) AS pictures FROM regexp_matches(bandit_page('button'), '<figure [^>]*aria-label="([^"]*)"', 'g') m;

-- While a window is open, the newest outcomes are left out, and the page says so.
SELECT bandit_create('window', '{a,b}', feedback_window => '1 day', goal => 'reward') > 0 AS created;
SELECT count(CASE WHEN i % 10 = 3 THEN bandit_reward(decision_id, true) END)
FROM generate_series(1, 100) AS i, bandit_choose_each('window', i);
SELECT sum(left_out) AS left_out FROM bandit_report('window');
SELECT page.find(bandit_page('window'), 'p class="muted"') AS remark;

-- Shared with other servers: none has told anything yet.
SELECT bandit_share('button');
SELECT bandit_publish('button') AS published;
SELECT regexp_replace(page.rows(bandit_page('button'),
    'The servers that share the bandit; everything else here but the arms is about this one'), '@ [^|]*', 'now ') AS row;
SELECT count(*) AS rows
FROM page.rows(bandit_page('button'), 'What is known about each arm on all servers, the most probable first');
SELECT bandit_share('button', false);

-- Many arms: those that are most probable
SELECT bandit_create('many', array_agg('arm ' || i)) > 0 AS created FROM generate_series(1, 300) i;
SELECT count(*) - 1 AS arms FROM page.rows(bandit_page('many'), 'What is known about each arm, the most probable first');
SELECT page.find(bandit_page('many'), 'p class="muted"') AS remark;

-- Names that would do harm
SELECT bandit_create(E'</title><script>alert("1")</script>\x01\n&amp;' || repeat('long ', 100),
                     ARRAY['<img src="x" onerror="alert(2)">', '''"></td></table>', U&'\202Eevil \05D0\05D1', ''])
       > 0 AS created;
SELECT count(bandit_reward(decision_id, 1)) FROM dexp3.bandit, bandit_choose_many(name, 100) WHERE name LIKE '</%';
SELECT (SELECT t FROM page.find(bandit_page(name), 'title') t LIMIT 1) AS title FROM dexp3.bandit WHERE name LIKE '</%';
SELECT replace(arm, U&'\202E', '[override]') AS arm
FROM dexp3.bandit, page.find(bandit_page(name), 'th scope="row"') arm
WHERE name LIKE '</%' AND arm !~ '%$' ORDER BY arm COLLATE "C";
SELECT count(*) FILTER (WHERE p ~* '<(script|img|iframe|object|embed|link|a|form|input|base)\M') AS elements,
       count(*) FILTER (WHERE p ~* '<[^>]* (on\w+|src|href|action)\s*=') AS attributes,
       count(*) FILTER (WHERE p ~* 'url\(|@import|\mjavascript:') AS outside,
       count(*) FILTER (WHERE p NOT LIKE '%default-src ''none''%') AS unprotected,
       count(*) FILTER (WHERE NOT page.well_formed(p)) AS malformed
FROM (SELECT bandit_page(name) FROM dexp3.bandit UNION ALL SELECT bandit_page()) AS x (p);

-- All bandits: those that one may use
SELECT regexp_replace(r, '\d{4}-\d\d-\d\d \d\d:\d\d', 'today') AS row
FROM page.rows(bandit_page(), 'The regret estimate is a share of what could have been lost in all decisions') r
WHERE r ~ '^(bandit|headline|all|waiting|button|many|&#60;/title) ?';
CREATE ROLE regress_dexp3_reader;
GRANT USAGE ON SCHEMA page TO regress_dexp3_reader;
SELECT bandit_grant('many', 'regress_dexp3_reader');
SET ROLE regress_dexp3_reader;
SELECT array_agg(r) AS bandits FROM page.find(bandit_page(), 'th scope="row"') r;
SELECT page.find(bandit_page(), 'p class="muted"') AS bandits;
SELECT bandit_page('many') LIKE '<!DOCTYPE html>%' AS page;
SELECT bandit_page('headline');
SELECT bandit_page('nobody');
RESET ROLE;

-- Nothing changes, so that it may be read only.
BEGIN TRANSACTION READ ONLY;
SELECT bandit_page() IS NOT NULL AND bandit_page('headline') IS NOT NULL AS fine;
COMMIT;

-- Nobody's functions are called in the place of others.
CREATE SCHEMA page_trap;
CREATE FUNCTION page_trap.bandit_report(text) RETURNS TABLE (arm text) LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'called';
END $$;
SET search_path = page_trap, public;
SELECT bandit_page('headline') IS NOT NULL AS fine;
RESET search_path;

-- Numbers that are tiny, and those that rounding has left of 0
SELECT bandit_create('tiny', '{a,b}', loss_range => '{-1e-8,1e-8}') > 0 AS created;
SELECT count(bandit_feedback(decision_id, 2e-9)) FROM bandit_choose_many('tiny', 3);
SELECT count(bandit_feedback(decision_id, -2e-9)) FROM bandit_choose_many('tiny', 1);
SELECT count(bandit_feedback(decision_id, 1e-13)) FROM bandit_choose_many('tiny', 1);
SELECT string_agg(t || ': ' || d, ', ' ORDER BY n) AS facts
FROM ROWS FROM (page.find(bandit_page('tiny'), 'dt'), page.find(bandit_page('tiny'), 'dd')) WITH ORDINALITY AS x (t, d, n)
WHERE t LIKE '% loss';
SELECT bandit_reset('tiny');
SELECT count(bandit_feedback(decision_id, 1e-13)) FROM bandit_choose_many('tiny', 1);
SELECT string_agg(t || ': ' || d, ', ' ORDER BY n) AS facts
FROM ROWS FROM (page.find(bandit_page('tiny'), 'dt'), page.find(bandit_page('tiny'), 'dd')) WITH ORDINALITY AS x (t, d, n)
WHERE t LIKE '% loss';
SELECT bandit_drop('tiny');

-- Losses that are hardly numbers. Nobody can spoil the page of all bandits with them.
SELECT bandit_create('hardly', '{a,b}', loss_range => '{0,5e-324}') > 0 AS created;
SELECT count(bandit_feedback(decision_id, v.loss))
FROM (VALUES ('{a}', 5e-324), ('{b}', 0)) AS v (allowed, loss), bandit_choose_each('hardly', v.loss, allowed => v.allowed::text[]);
SELECT bandit_page() IS NOT NULL AND bandit_page('hardly') IS NOT NULL AS fine;

-- Nothing to see
SELECT bandit_revoke('many', 'regress_dexp3_reader');
SET ROLE regress_dexp3_reader;
SELECT page.find(bandit_page(), 'p class="muted"') AS bandits;
RESET ROLE;

SELECT bandit_drop(name) FROM dexp3.bandit
WHERE name IN ('headline', 'all', 'waiting', 'orders', 'button', 'window', 'many', 'hardly') OR name LIKE '</%';
DELETE FROM dexp3.component;	-- which outlives a bandit
SET client_min_messages = warning;
DROP SCHEMA page, page_trap CASCADE;
DROP ROLE regress_dexp3_reader;
