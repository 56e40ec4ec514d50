-- Charts: what they show, and that they are documents whatever the names are.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dexp3;
DROP ROLE IF EXISTS regress_dexp3_viewer;
RESET client_min_messages;

CREATE SCHEMA chart;

-- Is it well-formed?  A server without libxml cannot tell, and is believed.
CREATE FUNCTION chart.well_formed(document text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RETURN xmlparse(DOCUMENT document) IS NOT NULL;
EXCEPTION
    WHEN feature_not_supported THEN RETURN true;
    WHEN invalid_xml_document THEN RETURN false;
END $$;

-- What a chart says and shows, without dates
CREATE FUNCTION chart.look(bandit text, kind text,
    OUT says text, OUT areas integer, OUT bars integer, OUT lines integer, OUT fine boolean)
LANGUAGE sql AS $$
    SELECT substring(svg FROM '<desc>(.*)</desc>'),
           regexp_count(svg, '<path class="area '), regexp_count(svg, '<path class="fill '),
           regexp_count(svg, '<path class="line '),
           chart.well_formed(svg) AND svg LIKE '<svg %</svg>_' AND svg !~* '\m(nan|inf(inity)?)\M'
    FROM bandit_chart(bandit, kind) svg;
$$;

-- The labels of its axes, from left to right and from the bottom up
CREATE FUNCTION chart.ticks(bandit text, kind text, OUT x text, OUT y text)
LANGUAGE sql AS $$
    SELECT (SELECT string_agg(m[1], ' ' ORDER BY n)
            FROM regexp_matches(svg, '<text class="muted middle"[^>]*>([^<]*)<', 'g') WITH ORDINALITY AS r (m, n)),
           (SELECT string_agg(m[1], ' ' ORDER BY n)
            FROM regexp_matches(svg, '<text class="muted end" x="64.0"[^>]*>([^<]*)<', 'g') WITH ORDINALITY AS r (m, n))
    FROM bandit_chart(bandit, kind) svg;
$$;

-- Let a bandit choose an arm some times, and give feedback if there is a loss.
CREATE PROCEDURE chart.play(bandit text, arm text, times integer, loss float8 DEFAULT NULL)
LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. times LOOP
        IF loss IS NULL THEN
            PERFORM bandit_choose(bandit, allowed => ARRAY[arm]);
        ELSE
            PERFORM bandit_feedback(decision_id, loss) FROM bandit_choose(bandit, allowed => ARRAY[arm]);
        END IF;
    END LOOP;
END $$;

-- Without data
SELECT bandit_create('shop', ARRAY['plain', 'funny', 'bold'], 'dada') > 0 AS created;
SELECT kind, l.* FROM unnest(ARRAY['share', 'loss', 'delay']) kind, chart.look('shop', kind) l;

-- A single decision, without feedback
CALL chart.play('shop', 'plain', 1);
SELECT kind, l.* FROM unnest(ARRAY['share', 'loss', 'delay']) kind, chart.look('shop', kind) l;

-- Its arm has the whole plot, the others have nothing.
SELECT d[1] AS outline FROM regexp_matches(bandit_chart('shop'), '<path class="area c\d" d="([^"]*)"', 'g') d;

-- Some more; one arm is never chosen.
CALL chart.play('shop', 'plain', 1499, 0.5);
CALL chart.play('shop', 'funny', 450, 0.25);
CALL chart.play('shop', 'plain', 50);
SELECT kind, l.* FROM unnest(ARRAY['share', 'loss', 'delay']) kind, chart.look('shop', kind) l;
SELECT kind, t.* FROM unnest(ARRAY['share', 'loss', 'delay']) kind, chart.ticks('shop', kind) t;
SELECT bandit_chart('shop') = bandit_chart('shop', kind => 'share') AS default_kind,
       bandit_chart('shop') ~ '^<svg [^>]*viewBox="0 0 800 440">\n<title>shop</title>' AS titled,
       bandit_chart('shop') LIKE '%(prefers-color-scheme: dark)%' AS for_the_dark;

-- Reading is enough.
BEGIN READ ONLY;
SELECT length(bandit_chart('shop', 'loss')) > 1000 AS drawn;
COMMIT;

-- After a reset it starts from nothing.
SELECT bandit_reset('shop');
SELECT kind, l.says FROM unnest(ARRAY['share', 'loss', 'delay']) kind, chart.look('shop', kind) l;

-- Long delays, and decisions that were skipped
SELECT bandit_create('slow', ARRAY['a', 'b'], 'dada', patience => 150) > 0 AS created;
CALL chart.play('slow', 'a', 1);
CALL chart.play('slow', 'b', 100);
SELECT count(bandit_feedback(decision_id, 0.5)) FROM dexp3.pending WHERE bandit = 'slow' AND round % 2 = 0;
CALL chart.play('slow', 'b', 100, 0);
SELECT * FROM chart.look('slow', 'delay');
SELECT * FROM chart.ticks('slow', 'delay');

-- Feedback that did not come in time
SELECT bandit_create('late', ARRAY['a', 'b'], 'dada', feedback_window => '1 microsecond') > 0 AS created;
CALL chart.play('late', 'a', 4, 0.5);
CALL chart.play('late', 'b', 6);
SELECT bandit_expire('late');
SELECT kind, l.* FROM unnest(ARRAY['loss', 'delay']) kind, chart.look('late', kind) l;

-- What was trimmed is not shown.
SELECT bandit_create('short', ARRAY['a', 'b'], 'dada', retention => '0') > 0 AS created;
CALL chart.play('short', 'a', 1200, 0.5);
CALL chart.play('short', 'b', 10);
SELECT bandit_trim('short') > 0 AS trimmed;
SELECT kind, says ~ '; without [0-9,]+ decisions that were trimmed from the log$' AS told, fine
FROM unnest(ARRAY['share', 'loss', 'delay']) kind, chart.look('short', kind);

-- What a self-tuned bandit took its regret to be.  At the end it is nearly what it is now.
SELECT bandit_create('tuned', ARRAY['a', 'b', 'c'], loss_range => '{0,10}') > 0 AS created;
SELECT says FROM chart.look('tuned', 'regret');
CALL chart.play('tuned', 'a', 1);
SELECT * FROM chart.look('tuned', 'regret');
CALL chart.play('tuned', 'a', 400, 5);
CALL chart.play('tuned', 'c', 20);
CALL chart.play('tuned', 'b', 400, 2);
SELECT * FROM chart.look('tuned', 'regret');
SELECT * FROM chart.ticks('tuned', 'regret');
SELECT abs(replace(substring(says FROM 'estimate: ([0-9,.]+) at the end'), ',', '')::float8
           / bandit_regret_estimate('tuned') - 1) < 0.1 AS as_told
FROM chart.look('tuned', 'regret');
SELECT bandit_create('untuned', ARRAY['a', 'b'], 'dada') > 0 AS created;
CALL chart.play('untuned', 'a', 1);
SELECT * FROM chart.look('untuned', 'regret');

-- Losses on another scale
SELECT bandit_create('money', ARRAY['a', 'b'], 'dada', loss_range => '{-1000000,2500000}') > 0 AS created;
CALL chart.play('money', 'a', 20, -400000);
CALL chart.play('money', 'b', 20, 1600000);
SELECT * FROM chart.look('money', 'loss');
SELECT * FROM chart.ticks('money', 'loss');

-- With many arms, those that are chosen most
SELECT bandit_create('many', array_agg('arm ' || i ORDER BY i), 'dada') > 0 AS created FROM generate_series(1, 12) i;
SELECT format('CALL chart.play(%L, %L, %s, 0.5)', 'many', 'arm ' || i, i * 7 % 13) FROM generate_series(1, 12) i \gexec
SELECT kind, l.* FROM unnest(ARRAY['share', 'loss', 'delay']) kind, chart.look('many', kind) l;

-- Names that are no XML, and names that are too long
SELECT bandit_create(E'<b title="x">&amp;</b>\t\x01', ARRAY['</text>', ']]>', E'''\x1f\x7f\n', repeat('long ', 100)], 'dada') > 0
    AS created;
DO $$
DECLARE
    bandit record;
BEGIN
    FOR bandit IN SELECT name, unnest(arms) AS arm FROM dexp3.bandit WHERE name LIKE '<b %' LOOP
        CALL chart.play(bandit.name, bandit.arm, 5, 0.5);
    END LOOP;
END $$;
SELECT l.says, l.fine, substring(bandit_chart(name) FROM '<title>[^\n]*') AS title
FROM dexp3.bandit, chart.look(name, 'share') l WHERE name LIKE '<b %';

-- The same with characters of several bytes; those that XML does not know are
-- replaced.  Only UTF8 has them all.
DO $$
DECLARE
    characters integer[] := '{233, 776, 26085, 128512, 65535}';
    svg text;
BEGIN
    IF getdatabaseencoding() <> 'UTF8' THEN
        RETURN;
    END IF;
    FOR length IN 1 .. 40 LOOP
        PERFORM bandit_create('characters', array_agg(repeat(chr(c), length)), 'dada') FROM unnest(characters) c;
        CALL chart.play('characters', repeat(chr(233), length), 1);
        svg := bandit_chart('characters');
        ASSERT chart.well_formed(svg), svg;
        ASSERT strpos(svg, chr(65535)) = 0, svg;
        ASSERT strpos(svg, CASE WHEN length <= 18 THEN '>' || repeat(chr(233), length) || '<'
                                ELSE '>' || repeat(chr(233), 17) || '&#8230;<' END) > 0, svg;
        PERFORM bandit_drop('characters');
    END LOOP;
END $$;

-- Errors
SELECT bandit_chart('shop', 'pie');
\echo :LAST_ERROR_SQLSTATE
SELECT bandit_chart('shop', NULL);
SELECT bandit_chart(NULL);
SELECT bandit_chart('nobody''s');

-- It is for those who may use the bandit.
CREATE ROLE regress_dexp3_viewer;
GRANT USAGE ON SCHEMA chart TO regress_dexp3_viewer;
SET ROLE regress_dexp3_viewer;
SELECT bandit_chart('many');
RESET ROLE;
SELECT bandit_grant('many', 'regress_dexp3_viewer');
SET ROLE regress_dexp3_viewer;
SELECT says FROM chart.look('many', 'share');
RESET ROLE;

-- Nobody's operators and functions are in its way.
CREATE FUNCTION chart.trap(integer, integer) RETURNS boolean
LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped'; END $$;
CREATE OPERATOR chart.= (FUNCTION = chart.trap, LEFTARG = integer, RIGHTARG = integer);
CREATE VIEW chart.together AS SELECT string_agg(bandit_chart('many', kind), '') FROM unnest(ARRAY['share', 'loss', 'delay']) kind;
SET search_path = chart, pg_catalog;
SELECT 1 = 1;
SELECT string_agg IS NOT NULL AS drawn FROM together;
RESET search_path;

SELECT bandit_drop(name) FROM dexp3.bandit
WHERE name IN ('shop', 'slow', 'late', 'short', 'tuned', 'untuned', 'money', 'many') OR name LIKE '<b %';
SET client_min_messages = warning;
DROP SCHEMA chart CASCADE;
DROP ROLE regress_dexp3_viewer;
