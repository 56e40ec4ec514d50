# The boundary: a role that is not a superuser, even the one that has installed the
# extension, gets at most an error.
#
# All of this is tried by both the owner of the database, who has installed the
# extension, and a role that has nothing:
#   - every statement that could change an object of the extension, or attach
#     something to it, on every object;
#   - every value that should not be, in every column of every table that one may
#     write to, and then everything that can be done with such a bandit;
#   - every function with such values.
# What is tried is undone.  The result is an SQLSTATE, which must not be that of an
# internal error; what succeeds must be in a list here.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Dexp3 qw(new_node);

my $node = new_node('boundary', start => 0);
$node->append_conf('postgresql.conf', "log_min_messages = fatal\nlog_min_error_statement = fatal\n");
$node->start;
my $superuser = $node->safe_psql('postgres', 'SELECT current_user');

sub query
{
	my ($role, $sql) = @_;

	return $node->safe_psql('bounds', $sql, extra_params => [ '-U', $role ], timeout => 250);
}

$node->safe_psql(
	'postgres', q{
CREATE ROLE installer LOGIN;
CREATE ROLE app LOGIN;
CREATE DATABASE bounds OWNER installer;
});
query(
	'installer', q{
CREATE EXTENSION dexp3;
SELECT bandit_create('tuned', '{a,b,c}', half_life => '1 day', feedback_window => '1 hour', retention => '0'),
       bandit_create('hasty', '{a,b}', 'dada', patience => 0, retention => '0'),
       bandit_create('wide', '{a,b}', 'dada-ix', loss_range => '{-5,5}', sticky => true, retention => '0'),
       bandit_create('deda', '{a,b}', 'deda', max_delay => 3, retention => '0');
SELECT bandit_grant('tuned', 'app'), bandit_share('tuned');
SELECT bandit_feedback(decision_id, 0.5) FROM dexp3.bandit, generate_series(1, 8) i, bandit_choose_each(name, i);
SELECT bandit_trim();
SELECT bandit_feedback(decision_id, 0.5) FROM dexp3.bandit, generate_series(1, 3) i, bandit_choose_each(name, i);
SELECT bandit_choose(name, subject => 's') FROM dexp3.bandit;
SELECT bandit_create('late', '{a,b}', feedback_window => '1 microsecond');
SELECT count(*) FROM bandit_choose_many('late', 3);
SELECT bandit_expire();
SELECT bandit_choose('late');
});

# The tools.  attempt() does something, undoes it, and tells what it came to.
query(
	$superuser, q{
CREATE SCHEMA tools;
GRANT USAGE ON SCHEMA tools TO PUBLIC;
GRANT CREATE ON SCHEMA public TO app;

CREATE FUNCTION tools.attempt(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    RAISE SQLSTATE 'UNDO1';
EXCEPTION
    WHEN SQLSTATE 'UNDO1' THEN RETURN 'done';
    WHEN OTHERS THEN RETURN sqlstate;
END
$$;

-- Values that should not be, of a type
CREATE FUNCTION tools.strange(type regtype) RETURNS text[] LANGUAGE sql AS $$
    SELECT CASE
        WHEN type::text IN ('integer', 'bigint', 'smallint', 'oid') THEN
            '{NULL,0,-1,1,3,-2147483648,2147483647,-9223372036854775808,9007199254740992,9223372036854775806,9223372036854775807}'
        WHEN type::text = 'double precision' THEN
            '{NULL,NaN,Infinity,-Infinity,0,-0,-1,2,0.5,1e-310,1e-200,1e-39,1e99,-1e99,1e308,-1e308}'
        WHEN type::text = 'timestamp with time zone' THEN
            '{NULL,-infinity,infinity,4714-11-24 00:00:00 BC UTC,294276-12-31 23:59:59 UTC,2000-01-01}'
        WHEN type::text = 'interval' THEN
            '{NULL,0,-1 day,178000000 years,-178000000 years,1 microsecond,100000 days,infinity}'
        WHEN type::text = 'boolean' THEN '{NULL,t,f}'
        WHEN type::text = 'xid8' THEN '{NULL,0,1,18446744073709551615}'
        WHEN type::text = 'int8multirange' THEN
            ARRAY[NULL, '{}', '{(,)}', '{[1,2)}', '{[-9223372036854775808,9223372036854775807)}']
        WHEN type::text = 'bytea' THEN ARRAY[NULL, '', '\x00', repeat('x', 1000)]
        WHEN type::text = 'double precision[]' THEN
            ARRAY[NULL, '{}', '{NULL}', '{0}', '{0,1}', '{1,0}', '{NaN,1}', '{-Infinity,Infinity}', '{0,1,2}', '{{0,1}}', '[5:6]={0,1}',
                  '{1e308,1e308}', '{-1e99,1e99}', '{1e-170,1}', '{{NaN,1},{1,1}}', array_fill('NaN'::float8, '{14,2}')::text,
                  array_fill(1e299, '{14,3}')::text, array_fill(-1, '{14,2}')::text]
        WHEN type::text = 'integer[]' THEN ARRAY[NULL, '{}', '{NULL}', '{0,1}', '{-1,2147483647}', '{{1,2}}']
        WHEN type::text = 'bigint[]' THEN
            ARRAY[NULL, '{}', '{NULL}', '{0}', '{1,2,3}', '{3,2}', '{2,2}', '{{1,2}}', '[0:1]={1,2}', '{-1,9223372036854775807}', '{1000000}']
        WHEN type::text = 'xid8[]' THEN ARRAY[NULL, '{}', '{NULL}', '{0,1}']
        WHEN type::text = 'bandit_state' THEN
            ARRAY[NULL, '', '{}', '{"version": 1}', bandit_new(2)::text, bandit_new(100, 'deda')::text]
        WHEN type::text = 'bandit_ticket' THEN
            ARRAY[NULL, '(1,1,0.5,0,0,0)', '(0,0,0,0,0,0)', '(,,,,,)', '(9223372036854775807,2147483647,NaN,NaN,NaN,NaN)']
        WHEN type::text LIKE '%[]' THEN
            ARRAY[NULL, '{}', '{NULL}', '{a}', '{a,a}', '{a,b,NULL}', '{{a,b}}', '[5:6]={a,b}', '{a,b,c,d,e,f}', '{public,nobody}']
        ELSE ARRAY[NULL, '', 'a', 'public', 'nobody', 'tuned', 'deda', 'dada', 'self-tuned', 'share', repeat('ä', 5000)]
    END
$$;

-- All that can be done with a bandit; the SQLSTATEs that are not fine
CREATE FUNCTION tools.exercise(bandit text, decision bigint) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(outcome || ' ' || statement, '; ')
    FROM unnest(ARRAY[
        'SELECT bandit_choose(%1$L)', 'SELECT bandit_choose(%1$L, delay => 1, subject => ''s'')',
        'SELECT count(*) FROM bandit_choose_many(%1$L, 20)', 'SELECT bandit_feedback(%2$L, 0.5)',
        'SELECT bandit_reward(%2$L, 1)', 'SELECT bandit_feedback(%1$L, ''s'', 0)',
        'SELECT bandit_feedback(decision_id, 0.1) FROM dexp3.pending WHERE bandit = %1$L',
        'SELECT * FROM bandit_report(%1$L)', 'SELECT * FROM bandit_probabilities(%1$L)', 'SELECT bandit_current_state(%1$L)::jsonb',
        'SELECT bandit_evaluate(%1$L, (SELECT ARRAY[1] || array_fill(0::float8, ARRAY[cardinality(arms) - 1]) FROM dexp3.bandit WHERE name = %1$L))',
        'SELECT bandit_regret_bound(%1$L), bandit_regret_estimate(%1$L)', 'SELECT * FROM dexp3.overview', 'SELECT * FROM dexp3.pending',
        'SELECT * FROM dexp3.nodes', 'SELECT * FROM bandit_report(%1$L, true)', 'SELECT * FROM bandit_advice()', 'SELECT length(bandit_page(%1$L))',
        'SELECT * FROM bandit_delays(%1$L)', 'SELECT bandit_share(%1$L, false)', 'SELECT bandit_forget_node(5)',
        'SELECT bandit_chart(%1$L, kind) FROM unnest(''{share,loss,delay}''::text[]) kind', 'SELECT bandit_verify(%1$L)',
        'SELECT bandit_expire()', 'SELECT bandit_trim()', 'SELECT bandit_trim(%1$L), * FROM bandit_choose(%1$L)',
        'SELECT bandit_add_arm(%1$L, ''z'') FROM bandit_choose(%1$L)', 'SELECT bandit_retire_arm(%1$L, ''a'')',
        'SELECT bandit_grant(%1$L, ''app''), bandit_revoke(%1$L, ''app'')',
        'SELECT bandit_reset(%1$L), bandit_choose(%1$L), bandit_trim(%1$L)', 'SELECT bandit_drop(%1$L)'
    ]) template, LATERAL (SELECT format(template, bandit, decision) AS statement) s, LATERAL tools.attempt(statement) outcome
    WHERE outcome LIKE 'XX%' AND outcome <> 'XX001'
$$;
});

#
# Statements on objects
#

query(
	$superuser, q{
CREATE FUNCTION tools.evil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE FUNCTION tools.evil(anyelement) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN true; END $$;

-- All that the catalogs say about the schemas of the extension, about what depends on
-- it, and about rights to it
CREATE FUNCTION tools.fingerprint() RETURNS text LANGUAGE sql AS $$
    SELECT md5(string_agg(fact, ' ' ORDER BY fact COLLATE "C"))
    FROM (SELECT (to_jsonb(c) - '{relpages,reltuples,relallvisible,relallfrozen,relfrozenxid,relminmxid}'::text[])::text
          FROM pg_class c WHERE c.relnamespace IN ('dexp3'::regnamespace, 'public'::regnamespace)
          UNION ALL SELECT to_jsonb(a)::text FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid WHERE relnamespace = 'dexp3'::regnamespace
          UNION ALL SELECT to_jsonb(i)::text FROM pg_index i JOIN pg_class c ON c.oid = indexrelid WHERE relnamespace = 'dexp3'::regnamespace
          UNION ALL SELECT (to_jsonb(p) || jsonb_build_object('proacl', coalesce(proacl, acldefault('f', proowner))))::text
          FROM pg_proc p WHERE p.pronamespace IN ('dexp3'::regnamespace, 'public'::regnamespace)
          UNION ALL SELECT (to_jsonb(t) || jsonb_build_object('typacl', coalesce(typacl, acldefault('T', typowner))))::text
          FROM pg_type t WHERE t.typnamespace IN ('dexp3'::regnamespace, 'public'::regnamespace)
          UNION ALL SELECT to_jsonb(x)::text FROM pg_trigger x
          UNION ALL SELECT to_jsonb(x)::text FROM pg_policy x
          UNION ALL SELECT to_jsonb(x)::text FROM pg_constraint x WHERE oid >= 16384
          UNION ALL SELECT to_jsonb(x)::text FROM pg_rewrite x WHERE oid >= 16384
          UNION ALL SELECT to_jsonb(x)::text FROM pg_inherits x
          UNION ALL SELECT to_jsonb(x)::text FROM pg_depend x WHERE objid >= 16384
          UNION ALL SELECT to_jsonb(x)::text FROM pg_extension x
          UNION ALL SELECT to_jsonb(x)::text FROM pg_namespace x
          UNION ALL SELECT to_jsonb(x)::text FROM pg_operator x WHERE oid >= 16384
          UNION ALL SELECT to_jsonb(x)::text FROM pg_cast x WHERE oid >= 16384
          UNION ALL SELECT to_jsonb(x)::text FROM pg_description x WHERE objoid >= 16384
          UNION ALL SELECT to_jsonb(x)::text FROM pg_db_role_setting x
          UNION ALL SELECT to_jsonb(x)::text FROM pg_default_acl x) f (fact)
$$;
CREATE TABLE tools.before AS SELECT '' AS fingerprint;
GRANT SELECT ON tools.before TO PUBLIC;

-- attempt() for statements that may do nothing, and say so in a warning
CREATE FUNCTION tools.attempt_ddl(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    IF statement ~ '^(ALTER|GRANT|REVOKE|COMMENT)' AND tools.fingerprint() = (SELECT fingerprint FROM tools.before) THEN
        RAISE SQLSTATE 'UNDO2';
    END IF;
    RAISE SQLSTATE 'UNDO1';
EXCEPTION
    WHEN SQLSTATE 'UNDO1' THEN RETURN 'done';
    WHEN SQLSTATE 'UNDO2' THEN RETURN 'nothing';
    WHEN OTHERS THEN RETURN sqlstate;
END
$$;

-- The objects, and what belongs to the tables
CREATE VIEW tools.object AS
WITH member AS (
    SELECT d.classid, d.objid, i.type, i.identity
    FROM pg_extension e JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e',
         pg_identify_object(d.classid, d.objid, 0) i
    WHERE e.extname = 'dexp3' AND i.type <> 'type' OR e.extname = 'dexp3' AND i.identity NOT LIKE '%[]'
      AND NOT EXISTS (SELECT FROM pg_class c WHERE c.reltype = d.objid AND c.relkind <> 'c'))
SELECT type, identity, ''::text AS on_table FROM member
UNION ALL
SELECT 'index', x.indexrelid::regclass::text, x.indrelid::regclass::text
FROM member m JOIN pg_index x ON x.indrelid = m.objid AND m.classid = 'pg_class'::regclass
UNION ALL
SELECT 'trigger', quote_ident(t.tgname), t.tgrelid::regclass::text
FROM member m JOIN pg_trigger t ON t.tgrelid = m.objid AND m.classid = 'pg_class'::regclass WHERE NOT t.tgisinternal
UNION ALL
SELECT 'constraint', quote_ident(c.conname), c.conrelid::regclass::text
FROM member m JOIN pg_constraint c ON c.conrelid = m.objid AND m.classid = 'pg_class'::regclass
UNION ALL
SELECT 'policy', quote_ident(p.polname), p.polrelid::regclass::text
FROM member m JOIN pg_policy p ON p.polrelid = m.objid AND m.classid = 'pg_class'::regclass
UNION ALL
SELECT 'column', quote_ident(a.attname), a.attrelid::regclass::text
FROM member m JOIN pg_attribute a ON a.attrelid = m.objid AND m.classid = 'pg_class'::regclass AND a.attnum > 0
UNION ALL VALUES ('extension', 'dexp3', '');

-- %1$s is the object, %2$s its table, %3$s its type.
CREATE TABLE tools.statement (types text, template text);
INSERT INTO tools.statement VALUES
('any', 'ALTER EXTENSION dexp3 DROP %3$s %1$s'),
('any', 'ALTER EXTENSION dexp3 ADD %3$s %1$s'),
('any', 'COMMENT ON %3$s %1$s IS NULL'),
('any', 'DROP %3$s %1$s'),
('any', 'DROP %3$s %1$s CASCADE'),
('any', 'ALTER %3$s %1$s OWNER TO CURRENT_USER'),
('any', 'ALTER %3$s %1$s RENAME TO x'),
('any', 'ALTER %3$s %1$s SET SCHEMA public'),
('any', 'ALTER %3$s %1$s SET SCHEMA pg_temp'),
('table|view|sequence|function|schema|type', 'GRANT ALL ON %3$s %1$s TO PUBLIC'),
('table|view|sequence|function|schema|type', 'GRANT ALL ON %3$s %1$s TO CURRENT_USER WITH GRANT OPTION'),
('table|view|sequence|function|schema|type', 'REVOKE ALL ON %3$s %1$s FROM PUBLIC'),
('table|view|sequence|index', 'ALTER TABLE %1$s OWNER TO CURRENT_USER'),
('table|view|sequence|index', 'ALTER TABLE %1$s RENAME TO x'),
('table|view', 'GRANT TRIGGER, REFERENCES, TRUNCATE, UPDATE, DELETE ON %1$s TO CURRENT_USER'),
('table|view', 'GRANT SELECT ON %1$s TO app'),
('table', 'ALTER TABLE %1$s ADD COLUMN x integer'),
('table', 'ALTER TABLE %1$s ADD CHECK (tools.evil(bandit_id))'),
('table', 'ALTER TABLE %1$s ADD UNIQUE (bandit_id)'),
('table', 'ALTER TABLE %1$s ADD FOREIGN KEY (bandit_id) REFERENCES dexp3.bandit_rows'),
('table', 'ALTER TABLE %1$s DISABLE TRIGGER ALL'),
('table', 'ALTER TABLE %1$s DISABLE TRIGGER USER'),
('table', 'ALTER TABLE %1$s ENABLE REPLICA TRIGGER log_changed'),
('table', 'ALTER TABLE %1$s DISABLE RULE x'),
('table', 'ALTER TABLE %1$s ENABLE ROW LEVEL SECURITY'),
('table', 'ALTER TABLE %1$s DISABLE ROW LEVEL SECURITY'),
('table', 'ALTER TABLE %1$s FORCE ROW LEVEL SECURITY'),
('table', 'ALTER TABLE %1$s DETACH PARTITION dexp3.decision_rows'),
('table', 'CREATE TABLE public.p (LIKE %1$s); ALTER TABLE %1$s ATTACH PARTITION public.p FOR VALUES FROM (1) TO (2)'),
('table', 'CREATE TABLE public.p PARTITION OF %1$s FOR VALUES FROM (1) TO (2)'),
('table', 'CREATE TABLE public.p () INHERITS (%1$s)'),
('table', 'CREATE TABLE public.p (LIKE %1$s); ALTER TABLE %1$s INHERIT public.p'),
('table', 'CREATE TABLE public.p (LIKE %1$s); ALTER TABLE public.p INHERIT %1$s'),
('table', 'CREATE TABLE public.p (d integer REFERENCES %1$s)'),
('table', 'ALTER TABLE %1$s SET (fillfactor = 50)'),
('table', 'ALTER TABLE %1$s SET UNLOGGED'),
('table', 'ALTER TABLE %1$s SET TABLESPACE pg_default'),
('table', 'ALTER TABLE %1$s SET ACCESS METHOD heap'),
('table', 'ALTER TABLE %1$s REPLICA IDENTITY FULL'),
('table', 'ALTER TABLE %1$s OF public.x'),
('table', 'CREATE INDEX ON %1$s (tools.evil(bandit_id))'),
('table', 'CREATE STATISTICS public.x ON bandit_id, epoch FROM %1$s'),
('table|view', 'CREATE TRIGGER x AFTER INSERT ON %1$s FOR EACH ROW EXECUTE FUNCTION tools.evil()'),
('table|view', 'CREATE TRIGGER x BEFORE INSERT ON %1$s FOR EACH STATEMENT EXECUTE FUNCTION tools.evil()'),
('table|view', 'CREATE TRIGGER x INSTEAD OF INSERT ON %1$s FOR EACH ROW EXECUTE FUNCTION tools.evil()'),
('table|view', 'CREATE RULE x AS ON INSERT TO %1$s DO ALSO NOTIFY x'),
('table|view', 'CREATE OR REPLACE RULE "_RETURN" AS ON SELECT TO %1$s DO INSTEAD SELECT * FROM %1$s'),
('table|view', 'CREATE POLICY x ON %1$s USING (true)'),
('table|view', 'CREATE OR REPLACE VIEW %1$s AS SELECT 1'),
('table|view|sequence', 'LOCK TABLE %1$s IN SHARE MODE'),
('table|view|sequence', 'TRUNCATE %1$s'),
('table|view|sequence', 'DELETE FROM %1$s'),
('table|view|sequence', 'COPY %1$s TO ''/dev/null'''),
('table', 'UPDATE %1$s SET bandit_id = bandit_id'),
('table', 'SELECT FROM %1$s FOR UPDATE'),
('table', 'MERGE INTO %1$s t USING (VALUES (1)) s ON true WHEN MATCHED THEN DELETE'),
('table', 'CREATE PUBLICATION x FOR TABLE %1$s'),
('table|index', 'REINDEX %3$s %1$s'),
('table', 'CLUSTER %1$s'),
('view', 'ALTER VIEW %1$s SET (security_invoker = false)'),
('view', 'CREATE OR REPLACE VIEW %1$s WITH (security_invoker = false) AS SELECT * FROM %1$s'),
('sequence', 'ALTER SEQUENCE %1$s MAXVALUE 5'),
('sequence', 'ALTER SEQUENCE %1$s RESTART'),
('sequence', 'ALTER SEQUENCE %1$s OWNED BY NONE'),
('sequence', 'SELECT nextval(''%1$s'')'),
('sequence', 'SELECT setval(''%1$s'', 1)'),
('index', 'ALTER INDEX %1$s SET (fillfactor = 50)'),
('table', 'ALTER TABLE %1$s SET WITHOUT CLUSTER'),
('trigger|policy', 'DROP %3$s %1$s ON %2$s'),
('trigger|policy', 'ALTER %3$s %1$s ON %2$s RENAME TO x'),
('trigger|policy', 'COMMENT ON %3$s %1$s ON %2$s IS NULL'),
('trigger', 'ALTER TABLE %2$s DISABLE TRIGGER %1$s'),
('trigger', 'CREATE OR REPLACE TRIGGER %1$s AFTER INSERT ON %2$s FOR EACH ROW EXECUTE FUNCTION tools.evil()'),
('policy', 'ALTER POLICY %1$s ON %2$s USING (true)'),
('policy', 'ALTER POLICY %1$s ON %2$s TO PUBLIC'),
('constraint', 'ALTER TABLE %2$s DROP CONSTRAINT %1$s'),
('constraint', 'ALTER TABLE %2$s RENAME CONSTRAINT %1$s TO x'),
('column', 'ALTER TABLE %2$s DROP COLUMN %1$s'),
('column', 'ALTER TABLE %2$s RENAME COLUMN %1$s TO x'),
('column', 'ALTER TABLE %2$s ALTER COLUMN %1$s DROP NOT NULL'),
('column', 'ALTER TABLE %2$s ALTER COLUMN %1$s TYPE text'),
('column', 'ALTER TABLE %2$s ALTER COLUMN %1$s SET DEFAULT NULL'),
('column', 'ALTER TABLE %2$s ALTER COLUMN %1$s SET STATISTICS 1'),
('column', 'ALTER TABLE %2$s ALTER COLUMN %1$s SET STORAGE PLAIN'),
('column', 'GRANT UPDATE (%1$s) ON %2$s TO CURRENT_USER'),
('column', 'UPDATE %2$s SET %1$s = NULL'),
('column', 'COMMENT ON COLUMN %2$s.%1$s IS NULL'),
('function', 'ALTER FUNCTION %1$s SECURITY DEFINER'),
('function', 'ALTER FUNCTION %1$s SET search_path = public'),
('function', 'ALTER FUNCTION %1$s LEAKPROOF'),
('function', 'ALTER FUNCTION %1$s COST 1'),
('function', 'ALTER FUNCTION %1$s DEPENDS ON EXTENSION dexp3'),
('function', 'CREATE OR REPLACE FUNCTION %1$s RETURNS trigger LANGUAGE plpgsql AS ''BEGIN RETURN NULL; END'''),
('function', 'CREATE OR REPLACE FUNCTION %1$s RETURNS integer LANGUAGE sql AS ''SELECT 1'''),
('composite type|type', 'ALTER TYPE %1$s ADD ATTRIBUTE x integer'),
('composite type|type', 'ALTER TYPE %1$s SET (RECEIVE = NONE)'),
('composite type|type', 'ALTER TYPE %1$s OWNER TO CURRENT_USER'),
('composite type|type', 'CREATE CAST (%1$s AS integer) WITH INOUT AS IMPLICIT'),
('composite type|type', 'CREATE OPERATOR CLASS public.x DEFAULT FOR TYPE %1$s USING btree AS FUNCTION 1 bttextcmp(text, text)'),
('composite type|type', 'CREATE TRANSFORM FOR %1$s LANGUAGE plpgsql (FROM SQL WITH FUNCTION tools.evil(internal))'),
('operator', 'ALTER OPERATOR %1$s SET (RESTRICT = NONE)'),
('operator family', 'ALTER OPERATOR FAMILY %1$s ADD FUNCTION 1 (text, text) bttextcmp(text, text)'),
('schema', 'CREATE TABLE %1$s.x ()'),
('schema', 'CREATE FUNCTION %1$s.may_use(bigint) RETURNS boolean LANGUAGE sql AS ''SELECT true'''),
('schema', 'CREATE OPERATOR %1$s.== (FUNCTION = int4eq, LEFTARG = int4, RIGHTARG = int4)'),
('schema', 'ALTER DEFAULT PRIVILEGES IN SCHEMA %1$s GRANT ALL ON TABLES TO PUBLIC'),
('schema', 'REASSIGN OWNED BY SESSION_USER TO CURRENT_USER'),
('extension', 'ALTER EXTENSION dexp3 UPDATE'),
('extension', 'ALTER EXTENSION dexp3 SET SCHEMA pg_temp'),
('extension', 'CREATE TABLE public.x (); ALTER EXTENSION dexp3 ADD TABLE public.x'),
('extension', 'SELECT pg_extension_config_dump(''dexp3.checkpoint'', '''')'),
('extension', 'ALTER DATABASE bounds SET dexp3.shared_memory = 0'),
('extension', 'ALTER DATABASE bounds SET session_preload_libraries = ''x'''),
('extension', 'SET session_replication_role = replica'),
('extension', 'SET row_security = off; SELECT * FROM dexp3.bandit');

CREATE TABLE tools.tried (who text, type text, template text, statement text, outcome text);
GRANT INSERT, SELECT ON tools.tried TO PUBLIC;
GRANT SELECT ON tools.object, tools.statement TO PUBLIC;
UPDATE tools.before SET fingerprint = tools.fingerprint();
});

# "composite type" is just a type, and those that are partitioned are tables.
my $try = q{
SET client_min_messages = error;
INSERT INTO tools.tried
SELECT current_user, type, template, statement, tools.attempt_ddl(statement)
FROM tools.object o JOIN tools.statement s
     ON CASE s.types WHEN 'any' THEN o.type !~ '^(column|trigger|constraint|policy)$' ELSE o.type ~ ('^(' || s.types || ')$') END,
     LATERAL format(template, identity, on_table, CASE type WHEN 'composite type' THEN 'type' ELSE type END) AS statement;
};
query($_, $try) foreach ('installer', 'app');
my @counts = split /\|/, query($superuser, 'SELECT count(*), count(DISTINCT type), count(DISTINCT who) FROM tools.tried');
cmp_ok($counts[0], '>', 5000, "$counts[0] statements");
cmp_ok($counts[1], '>=', 15, "on $counts[1] kinds of objects");
is($counts[2], 2, 'by two roles');
is(query($superuser, q{SELECT statement, outcome FROM tools.tried WHERE outcome LIKE 'XX%' OR outcome = '57014'}),
	'', 'none is an internal error');
is(query($superuser, q{SELECT template FROM tools.tried GROUP BY template HAVING every(outcome = '42601')}),
	'', 'and all are understood');
is( query($superuser, q{
SELECT format('%s: %s', who, statement) FROM tools.tried WHERE outcome = 'done' AND statement !~ '^GRANT .*(_rows|component) TO|_seq' ORDER BY 1}),
	# what REASSIGN finds is nothing
	q{app: ALTER DEFAULT PRIVILEGES IN SCHEMA dexp3 GRANT ALL ON TABLES TO PUBLIC
app: REASSIGN OWNED BY SESSION_USER TO CURRENT_USER
installer: ALTER DEFAULT PRIVILEGES IN SCHEMA dexp3 GRANT ALL ON TABLES TO PUBLIC
installer: COMMENT ON extension dexp3 IS NULL
installer: CREATE TABLE public.x (); ALTER EXTENSION dexp3 ADD TABLE public.x
installer: DROP extension dexp3
installer: DROP extension dexp3 CASCADE
installer: REASSIGN OWNED BY SESSION_USER TO CURRENT_USER}, 'what succeeds is harmless');
is( query($superuser, q{
SELECT who, regexp_replace(statement, '[a-z]+(_rows|_id_seq)|component', '*\1'), count(*) FROM tools.tried
WHERE outcome = 'done' AND statement ~ '^GRANT .*(_rows|component) TO|_seq' GROUP BY 1, 2 ORDER BY 2}),
	q{installer|GRANT ALL ON sequence dexp3.*_id_seq TO PUBLIC|2
installer|GRANT ALL ON table dexp3.* TO PUBLIC|1
installer|GRANT ALL ON table dexp3.*_rows TO PUBLIC|5
installer|GRANT SELECT ON dexp3.* TO app|1
installer|GRANT SELECT ON dexp3.*_rows TO app|5
installer|SELECT nextval('dexp3.*_id_seq')|2
installer|SELECT setval('dexp3.*_id_seq', 1)|2}, 'or what a dump and a restore need, which the installer may hand on');

#
# Values in columns.  A row is copied, with one value changed, and everything is done
# with its bandit.
#

query(
	$superuser, q{
-- What makes a copy of a row another row: a new identifier, or that of an open decision
CREATE TABLE tools.copy (relation regclass, key text, value text);
INSERT INTO tools.copy VALUES
('dexp3.bandit_rows', 'bandit_id', '1000'),
('dexp3.decision_rows', 'decision_id', '1000000'),
('dexp3.feedback_rows', 'decision_id', '(SELECT min(p.decision_id) FROM dexp3.pending p WHERE p.bandit = b.name)'),
('dexp3.trimmed_rows', 'first_decision', '1000000'),
-- of which a batch is made
('dexp3.expiry_rows', 'first_decision', '(SELECT min(p.decision_id) FROM dexp3.pending p WHERE p.bandit = b.name)'),
('dexp3.component', 'node', '5');
GRANT SELECT ON tools.copy TO PUBLIC;

-- Insert the copy, do everything, undo it.  Returns the SQLSTATE of the INSERT, or
-- what has gone wrong later.
CREATE FUNCTION tools.attempt_row(relation regclass, name text, changed text, value text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    bandit text := CASE relation WHEN 'dexp3.bandit_rows'::regclass THEN 'copy' ELSE name END;
    problem text;
    inserted integer;
BEGIN
    EXECUTE (SELECT format('INSERT INTO %1$s SELECT %2$s FROM %1$s r JOIN dexp3.bandit b ON %4$s WHERE b.name = %3$L LIMIT 1',
                           c.relation, string_agg(CASE WHEN a.attname = changed THEN format('%L::%s', attempt_row.value, format_type(a.atttypid, NULL))
                                                       WHEN a.attname = c.key THEN c.value
                                                       WHEN c.relation = 'dexp3.expiry_rows'::regclass AND a.attname = 'last_decision' THEN c.value
                                                       WHEN a.attname = 'decisions' AND a.atttypid = 'bigint[]'::regtype THEN format('ARRAY[%s]', c.value)
                                                       WHEN bandit = 'copy' AND a.attname = 'name' THEN '''copy'''
                                                       WHEN a.attname = 'bandit_id' THEN 'b.bandit_id'
                                                       ELSE format('r.%I', a.attname) END, ', ' ORDER BY a.attnum), name,
                           CASE c.relation WHEN 'dexp3.component'::regclass THEN 'b.name = r.bandit' ELSE 'b.bandit_id = r.bandit_id' END)
             FROM tools.copy c JOIN pg_attribute a ON a.attrelid = c.relation AND a.attnum > 0 AND NOT a.attisdropped
             WHERE c.relation = attempt_row.relation GROUP BY c.relation);
    GET DIAGNOSTICS inserted = ROW_COUNT;
    IF inserted = 0 THEN
        RETURN 'left out';
    END IF;
    problem := tools.exercise(bandit, (SELECT max(decision_id) FROM dexp3.pending));
    RAISE SQLSTATE 'UNDO1';
EXCEPTION
    WHEN SQLSTATE 'UNDO1' THEN RETURN coalesce(problem, 'done');
    WHEN OTHERS THEN RETURN sqlstate;
END
$$;
});
is( query($superuser, q{
SELECT c.oid::regclass FROM pg_class c
WHERE relnamespace = 'dexp3'::regnamespace AND relkind IN ('r', 'p', 'v') AND has_table_privilege('installer', c.oid, 'INSERT')
EXCEPT SELECT relation FROM tools.copy}), '', 'these are all tables that the installer may insert into');
my $values = query(
	'installer', q{
SET client_min_messages = error;
CREATE TABLE outcome AS
SELECT c.relation, a.attname AS name, b.name AS bandit, v AS value, tools.attempt_row(c.relation, b.name, a.attname, v) AS outcome
FROM tools.copy c JOIN pg_attribute a ON a.attrelid = c.relation AND a.attnum > 0 AND NOT a.attisdropped, dexp3.bandit b,
     unnest(tools.strange(a.atttypid)) v
WHERE CASE c.relation WHEN 'dexp3.component'::regclass THEN b.name = 'tuned'
                      WHEN 'dexp3.expiry_rows'::regclass THEN b.name = 'late'
                      ELSE b.name IN ('tuned', (ARRAY['hasty', 'wide', 'deda'])[1 + a.attnum % 3]) END;
SELECT count(*) > 1000, count(*) FILTER (WHERE outcome = 'done') > 100, count(*) FILTER (WHERE outcome = '23514') > 100,
       count(*) FILTER (WHERE outcome = 'done' AND relation = 'dexp3.expiry_rows'::regclass) > 10 FROM outcome;
SELECT relation, name, bandit, left(value, 50), left(outcome, 200) FROM outcome
WHERE outcome <> 'done' AND outcome !~ '^(22|23|54)...$'
  -- the same version of the same node is not needed twice
  AND NOT (outcome = 'left out' AND relation = 'dexp3.component'::regclass) ORDER BY relation::text, name});
is($values, 't|t|t|t', 'a value in a column is refused, or harms nobody');
# nothing happens to the originals either
is( query('installer', q{
SELECT bool_and(bandit_verify(name)), bool_and(dexp3.may_use(bandit_id)) FROM dexp3.bandit;
SELECT count(bandit_choose(name)) FROM dexp3.bandit}), "t|t\n5", 'and all is well afterwards');

#
# Functions
#

foreach my $role ('installer', 'app')
{
	is( query(
			$role, q{
SET client_min_messages = error;
SET statement_timeout = '100s';
SELECT statement, outcome FROM (
    SELECT format('SELECT * FROM %s(%s)', p.oid::regproc,
                  (SELECT string_agg(format('%L::%s', strange[1 + (n + i * (n % 7)) % cardinality(strange)], type), ', ' ORDER BY i)
                   FROM unnest(p.proargtypes::regtype[]) WITH ORDINALITY a (declared, i),
                        LATERAL (SELECT CASE declared WHEN 'anyelement'::regtype THEN 'integer'::regtype ELSE declared END AS type) t,
                        LATERAL tools.strange(type) strange)) AS statement
    FROM pg_depend d JOIN pg_extension e ON d.refobjid = e.oid AND d.refclassid = 'pg_extension'::regclass AND e.extname = 'dexp3'
         JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid, generate_series(0, 40) n
    WHERE NOT p.proargtypes::oid[] && '{internal,cstring}'::regtype[]::oid[] AND p.prorettype <> 'trigger'::regtype) s,
    LATERAL tools.attempt(statement) outcome
WHERE outcome ~ '^(XX|08|57)'}),
		'', "functions with strange arguments, by $role");
}

# The sequences, wherever they are
is( query('installer', q{
SELECT DISTINCT tools.attempt(format('SELECT setval(%L, %s); SELECT bandit_choose(%L), bandit_create(%L, %L)', s, v, 'hasty', 'new', '{a,b}'))
FROM unnest('{dexp3.bandit_id_seq,dexp3.decision_id_seq}'::text[]) s,
     unnest('{1,2147483646,2147483647,9223372036854775806,9223372036854775807,0,-1}'::text[]) v ORDER BY 1}),
	"22003\n2200H\n23505\ndone", 'sequences that are somewhere else');

#
# A superuser's slips: something else in the place of a table, an index or a sequence
#

is( query(
		$superuser, q{
SELECT DISTINCT outcome FROM (
    SELECT tools.attempt(format('ALTER TABLE dexp3.%I RENAME TO x; %s; SELECT bandit_choose(%L)', relname, instead, 'hasty')) AS outcome
    FROM pg_class c, LATERAL unnest(CASE c.relkind
        WHEN 'i' THEN ARRAY[format('CREATE INDEX %I ON dexp3.decision_rows USING hash (round)', relname),
                            format('CREATE INDEX %I ON dexp3.decision_rows (subject)', relname), '']
        ELSE ARRAY[format('CREATE VIEW dexp3.%I AS SELECT 1', relname), format('CREATE TABLE dexp3.%I (a integer)', relname),
                   format('CREATE SEQUENCE dexp3.%I', relname), ''] END) instead
    WHERE c.relnamespace = 'dexp3'::regnamespace AND c.relkind IN ('r', 'S', 'i')
      AND relname !~ '^(trimmed_rows_pkey|trimmed_decisions_idx|dropped)$'   -- only SQL uses these
      AND NOT (c.relkind = 'S' AND instead ~ '^CREATE SEQUENCE')) o ORDER BY 1}),
	"42P01\n55000", 'a relation that is missing or another one is an error');

$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC:|TRAP:|terminated by signal/, 'nothing crashed');
done_testing();
