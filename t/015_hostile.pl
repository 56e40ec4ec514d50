# Hostile surroundings, as far as they need several sessions, a database of their
# own, or a look at the server: a search_path full of traps, cancelled operations,
# timeouts, no memory.  Nothing crashes, nothing is half done, and afterwards the
# session agrees with the tables.
#
# To be cancelled in the middle, an operation is made to wait there: for a lock on
# one of the tables, or for another transaction that has settled a decision.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Dexp3;

my $node = new_node('hostile');

# A session that goes on after errors, and tells their SQLSTATEs.
sub session
{
	my $session = $node->background_psql('postgres', on_error_stop => 0);

	$session->query_safe('\set VERBOSITY sqlstate');
	return $session;
}

# Run a statement that must fail, and nothing else.
sub fails
{
	my ($session, $sql, $sqlstate, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$session->query($sql);
	like($session->{stderr}, qr/^psql:\S+ ERROR:  $sqlstate\s*$/, $name);
	$session->{stderr} = '';
	return;
}

#
# A schema full of traps: the functions and operators of pg_catalog with everyday
# arguments once more, in front of it, and tables and types that are named like ours
#
# The extension is made there, by a role that is no superuser, and used by another
# one.  A trap like nextval(text) is preferred to nextval(regclass) even where
# pg_catalog comes first, as it does in an extension's script.
#

$node->safe_psql(
	'postgres', q{
CREATE ROLE owner LOGIN;
CREATE ROLE app LOGIN;
CREATE DATABASE trapped OWNER owner;
});
$node->safe_psql(
	'trapped', q{
CREATE SCHEMA evil AUTHORIZATION owner;
GRANT USAGE ON SCHEMA evil TO PUBLIC;
SET ROLE owner;
CREATE TABLE evil.bandit ();
CREATE TABLE evil.decision ();
CREATE TABLE evil.feedback ();
CREATE TABLE evil.pending ();
CREATE DOMAIN evil.text AS integer;
CREATE DOMAIN evil.xid8 AS integer;

DO $do$
DECLARE
    everyday oid[] = ARRAY(
        SELECT oid FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace
        AND typname ~ '^(_?(bool|int[48]|float8|text|name|xid8|oid|regclass|timestamptz|jsonb)|any(element|array|compatible|compatiblearray))$');
    trap text = $$LANGUAGE plpgsql AS 'BEGIN RAISE ''trapped''; END'$$;
    trapped record;
BEGIN
    FOR trapped IN
        SELECT proname AS name, pg_get_function_identity_arguments(oid) AS arguments, pg_get_function_result(oid) AS result
        FROM pg_proc
        WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f' AND provariadic = 0 AND proallargtypes IS NULL
          AND proargtypes::oid[] <@ everyday AND prorettype = ANY (everyday)
        UNION ALL VALUES ('nextval', 'text', 'bigint'), ('pg_extension_config_dump', 'text, text', 'void')
    LOOP
        EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s %s', trapped.name, trapped.arguments, trapped.result, trap);
    END LOOP;
    FOR trapped IN
        SELECT oprname AS name, format_type(oprleft, NULL) AS l, format_type(oprright, NULL) AS r
        FROM pg_operator WHERE oprleft = ANY (everyday) AND oprright = ANY (everyday)
    LOOP
        EXECUTE format('CREATE OR REPLACE FUNCTION evil.operator(%s, %s) RETURNS boolean %s', trapped.l, trapped.r, trap);
        EXECUTE format('CREATE OPERATOR evil.%s (FUNCTION = evil.operator, LEFTARG = %s, RIGHTARG = %s)',
                       trapped.name, trapped.l, trapped.r);
    END LOOP;
END $do$;
});

my $evil_path = "SET search_path = evil, pg_catalog;\n";
my ($status, $stdout, $stderr) = $node->psql('trapped', "$evil_path SELECT 1 = 1");
like($stderr, qr/trapped/, 'the traps work');

# An event trigger makes CREATE EXTENSION fail, as a whole.
$node->safe_psql(
	'trapped', q{
CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'refused'; END$$;
CREATE EVENT TRIGGER refuse ON ddl_command_end WHEN tag IN ('CREATE EXTENSION') EXECUTE FUNCTION refuse();
});
my @create = ('trapped', "$evil_path CREATE EXTENSION dexp3 SCHEMA evil", extra_params => [ '-U', 'owner' ]);
($status, $stdout, $stderr) = $node->psql(@create);
like($stderr, qr/refused/, 'an event trigger refuses the extension');
is( $node->safe_psql('trapped',
		q{SELECT count(*) FROM pg_namespace WHERE nspname = 'dexp3'; DROP EVENT TRIGGER refuse}),
	0, 'and nothing of it is there');
$node->safe_psql(@create);

# What the extension's objects refer to is none of the traps.
is( $node->safe_psql(
		'trapped', q{
SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
WHERE classid IN ('pg_attrdef'::regclass, 'pg_rewrite'::regclass, 'pg_policy'::regclass, 'pg_trigger'::regclass, 'pg_class'::regclass, 'pg_proc'::regclass)
  AND (refclassid = 'pg_proc'::regclass AND refobjid IN (SELECT oid FROM pg_proc WHERE prosrc LIKE '%trapped%')
       OR refclassid = 'pg_operator'::regclass AND refobjid IN (SELECT oid FROM pg_operator WHERE oprcode::text ~ '^evil')
       OR refclassid = 'pg_type'::regclass AND refobjid IN ('evil.text'::regtype, 'evil.xid8'::regtype))}),
	'', 'the extension does not refer to the traps');

# Everything is used, by a role that row security applies to, and that does not even
# compare two numbers itself.
is( $node->safe_psql(
		'trapped', $evil_path . q{
CREATE TEMP TABLE bandit (trap integer);
CREATE TEMP TABLE decision (trap integer);
CREATE TEMP TABLE outcome (decision bigint, loss double precision);
CREATE TRIGGER outcome AFTER UPDATE ON outcome REFERENCING OLD TABLE AS decision NEW TABLE AS feedback
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');
CREATE TRIGGER single AFTER INSERT ON outcome FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss');

SELECT bandit_create('b', '{x,y}', 'dada'), bandit_create('deda', '{x,y}', 'deda', max_delay => 3);
SELECT decision_id FROM bandit_choose('b') \gset first_
SELECT decision_id FROM bandit_choose_each('deda', 1) \gset second_
SELECT decision_id FROM bandit_choose('b') \gset third_
SELECT decision_id FROM bandit_choose('b') \gset fourth_
SELECT bandit_feedback(:first_decision_id, 0.5), bandit_reward(:second_decision_id, 0.5);
INSERT INTO outcome VALUES (:third_decision_id, 0.5), (:fourth_decision_id, NULL);
SELECT bandit, round, decision_id FROM dexp3.pending;
UPDATE outcome SET loss = 0.25 WHERE loss IS NULL;
SELECT decision_id, loss, delay FROM dexp3.feedback;
SELECT name, algorithm FROM dexp3.bandit;
SELECT arm FROM bandit_probabilities('b');
SELECT bandit_current_state('b') IS NULL, CAST(bandit_current_state('deda') AS pg_catalog.jsonb) IS NULL;
SELECT bandit_new(2, 'dada') = bandit_new(2, 'dada'), bandit_new(2, 'dada') <> bandit_new(2, 'dada');
SELECT DISTINCT bandit_probabilities(s) FROM (VALUES (bandit_new(2, 'dada')), (bandit_new(2, 'dada'))) v (s) GROUP BY s;
SELECT bandit_step_size(bandit_learn(state, ticket, 0)) IS NULL FROM bandit_draw(bandit_new(2, 'dada'));
SELECT round FROM bandit_simulate('{{0,1},{0,1}}', '{0,1}', 'dada');
SELECT bandit_create('c', '{x,y}', 'dada', feedback_window => '0', retention => '0', sticky => true, loss_range => '{0,10}');
SELECT arm FROM bandit_choose('c', allowed => '{x}', subject => 'ann');
SELECT bandit_feedback('c', 'ann', 5), bandit_reward('c', 'ann', 5);
SELECT arm FROM bandit_choose_many('c', 2, allowed => '{y}');
SELECT bandit_expire('c'), bandit_expire(), bandit_trim('c'), bandit_trim();
SELECT bandit_add_arm('c', 'z'), bandit_retire_arm('c', 'x');
SELECT arm, decisions, settled, open FROM bandit_report('c');
SELECT estimator FROM bandit_evaluate('c', '{0,1,0}');
SELECT bandit_regret_bound('c') IS NULL, bandit_verify('c');
SELECT bandit_chart('c') IS NULL, bandit_chart('c', 'loss') IS NULL, bandit_chart('c', 'delay') IS NULL;
SELECT bandit, rounds, expired FROM dexp3.overview;
SELECT bandit_drop('c');
SELECT bandit_grant('b', 'owner'), bandit_revoke('b', 'owner'), bandit_reset('b');
SELECT bandit_drop('b'), bandit_drop('deda');
SELECT name FROM dexp3.bandit;
},
		extra_params => [ '-U', 'app' ]),
	q{1|2
applied|applied
b|3|4
1|0.5|2
2|0.5|0
3|0.5|1
4|0.25|0
b|dada
deda|deda
x
y
f|f
t|f
{0.5,0.5}
f
1
2
3
x
applied|duplicate
y
y
2|0|1|0
|
x|1|1|0
y|2|2|0
z|0|0|0
ips
self-normalised
f|t
f|f|f
b|3|0
deda|1|0
c|3|2

||
|},
	'nothing falls into the traps');

#
# Cancelled in the middle
#

install_records($node);
$node->safe_psql(
	'postgres', q{
SELECT bandit_create('log', '{a,b,c}', 'dada');
INSERT INTO chosen SELECT decision_id FROM generate_series(1, 4000) i, bandit_choose_each('log', i);
INSERT INTO given SELECT decision_id, 0.5, bandit_feedback(decision_id, 0.5)
FROM (SELECT decision_id FROM dexp3.pending ORDER BY decision_id LIMIT 30) p;
DELETE FROM dexp3.checkpoint;
});

# All that is stored, in a few numbers
sub stored
{
	return $node->safe_psql(
		'postgres', q{
SELECT count(*), sum(decision_id) FROM dexp3.decision;
SELECT count(*), sum(decision_id), sum(loss) FROM dexp3.feedback;
SELECT name, epoch FROM dexp3.bandit ORDER BY name;
SELECT count(*) FROM dexp3.checkpoint;
SELECT count(*) FROM outcome});
}

# Start a statement, and cancel it once the condition on its row in
# pg_stat_activity is true.
sub cancel_when
{
	my ($session, $condition, $sql, $name) = @_;
	my $pid = $session->query_safe('SELECT pg_backend_pid()');

	$session->query_until(qr/started/, "\\echo started\n$sql;\n");
	$node->poll_query_until('postgres', "SELECT $condition FROM pg_stat_activity WHERE pid = $pid")
	  or die "$name: it does not get there";
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	fails($session, '', 57014, "$name: cancelled");
	$session->{stdout} = '';
	return;
}

# Let a statement wait for what the blocker does, and cancel it there.  It must have
# changed nothing, and its session, whether or not it knew the bandit before, must
# agree with the tables.  Without the blocker it must succeed.
sub cancel_in_the_middle
{
	my ($name, $blocker, $sql) = @_;
	my $other = session();

	foreach my $kind ('new', 'warm')
	{
		my $session = session();

		$session->query_safe(q{SELECT bandit_current_state('log')}) if $kind eq 'warm';
		my $before = stored();
		$other->query_safe("BEGIN; $blocker");
		cancel_when($session, "wait_event_type = 'Lock'", $sql, "$name, $kind session");
		$other->query_safe('ROLLBACK');
		is(stored(), $before, "$name, $kind session: nothing is half done");
		agrees($node, 'log', $session, "$name, $kind session");
		$session->query_safe("BEGIN; $sql; ROLLBACK");
		agrees($node, 'log', $session, "$name, $kind session: once more");
		$session->quit;
	}
	$other->quit;
	return;
}

cancel_in_the_middle('a choice', 'LOCK TABLE dexp3.decision',
	q{SELECT bandit_choose('log')});
cancel_in_the_middle('many choices', 'SELECT pg_advisory_xact_lock(1)',
	q{SELECT bandit_choose('log'), CASE i WHEN 1000 THEN pg_advisory_xact_lock(1) END FROM generate_series(1, 2000) i});
cancel_in_the_middle('feedback', 'LOCK TABLE dexp3.feedback',
	q{SELECT bandit_feedback(max(decision_id), 0.5) FROM dexp3.decision});
cancel_in_the_middle('much feedback by a trigger',
	q{SELECT bandit_feedback(decision_id, 0.5) FROM (SELECT decision_id FROM dexp3.pending ORDER BY decision_id OFFSET 50 LIMIT 1) p},
	q{INSERT INTO outcome SELECT decision_id, 0.5 FROM dexp3.pending ORDER BY decision_id LIMIT 100});
cancel_in_the_middle('a reset', 'LOCK TABLE dexp3.checkpoint',
	q{SELECT bandit_reset('log')});
cancel_in_the_middle('a drop', 'LOCK TABLE dexp3.decision',
	q{SELECT bandit_drop('log')});

# A fold of the whole log, when the decisions have been read and the feedback has not
my $session = session();
my $other = session();
$other->query_safe('BEGIN; LOCK TABLE dexp3.feedback');
cancel_when($session, "wait_event_type = 'Lock'", q{SELECT bandit_current_state('log')}, 'a fold');
$other->query_safe('ROLLBACK');
agrees($node, 'log', $session, 'a session whose fold was cancelled');

# Those that wait for nothing, but take their time: a state of numbers with 131,072
# digits each, and one simulation after the other
cancel_when($session, "state = 'active' AND query ~ '1e131071'", q{
SELECT replace('{"version": 1, "algorithm": "deda", "arms": 65535, "max_delay": 1, "round": 10, "outstanding": 2, "cumulative_delay": 5,
                 "longest_delay": 1, "lbck": 0, "z": [1], "m": [1], "z_tie": [1], "m_tie": [1]}',
               '[1]', '[' || repeat('1e131071,', 65534) || '1]')::bandit_state}, 'reading a state');
cancel_when($session, "state = 'active' AND query ~ 'bandit_simulate'", q{
SELECT count(*) FROM generate_series(1, 1000) i, bandit_simulate(array_fill(0.5::float8, '{100000,10}'), seed => i, algorithm => 'dada')},
	'simulations');

#
# Timeouts: in a statement that goes on and on, and in waiting
#

my $before = stored();
$session->query_safe(q{SET statement_timeout = '200ms'});
fails($session, q{SELECT count(bandit_choose('log')) FROM generate_series(1, 1000000000)}, 57014, 'statement_timeout');
fails($session, q{DO 'BEGIN LOOP PERFORM bandit_feedback(decision_id, 1) FROM bandit_choose(''log''); END LOOP; END'},
	57014, 'statement_timeout in a loop');
$session->query_safe(q{RESET statement_timeout; SET lock_timeout = '10ms'});
$other->query_safe('BEGIN; LOCK TABLE dexp3.decision');
fails($session, q{SELECT bandit_choose('log')}, '55P03', 'lock_timeout in a choice');
fails($session, q{SELECT bandit_feedback(1, 0.5)}, '55P03', 'lock_timeout in feedback');
fails($session, q{SELECT bandit_drop('log')}, '55P03', 'lock_timeout in a drop');
$other->query_safe('ROLLBACK');
is(stored(), $before, 'timeouts: nothing is half done');
agrees($node, 'log', $session, 'timeouts: the session');
is($session->query_safe(q{SELECT choose('log') > 0}), 't', 'timeouts: the session goes on');
agrees($node, 'log', $session, 'timeouts: the session, later,');

#
# No memory for the state of a bandit with many open decisions
#

SKIP:
{
	my ($prlimit) = grep { -x } map { "$_/prlimit" } split /:/, $ENV{PATH};
	skip 'there is no prlimit', 1 unless defined $prlimit;

	$node->safe_psql('postgres', q{
SELECT bandit_create('large', '{a,b}', 'dada', patience => 1000000);
INSERT INTO chosen SELECT decision_id FROM generate_series(1, 50000) i, bandit_choose_each('large', i);
DELETE FROM dexp3.checkpoint;
});
	my $poor = session();
	my $pid = $poor->query_safe(q{SELECT pg_backend_pid() FROM bandit_choose('log')});
	my ($kilobytes) = slurp_file("/proc/$pid/status") =~ /^VmSize:\s*(\d+) kB/m;

	system_or_bail($prlimit, "--pid=$pid", '--as=' . ($kilobytes * 1024 + 1_000_000) . ':');
	is($poor->query_safe(q{SELECT choose('large') > 0}), 't', 'a choice does not need it');
	fails($poor, q{SELECT bandit_current_state('large')}, 53200, 'no memory for a state');
	system_or_bail($prlimit, "--pid=$pid", '--as=unlimited:');
	agrees($node, $_, $poor, 'memory again: the session') foreach qw(log large);
	$poor->quit;
}

#
# A parallel query reads with the snapshot of its transaction, and with the rights of
# row security.  What it learns about bandits there must not be what the session
# remembers: under an old snapshot, that is out of date.
#

my $parallel = $node->safe_psql('postgres',
	q{SELECT name FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query')});
$session->query_safe(q{SET ROLE app});
my ($decision) = $session->query_safe(q{
SELECT bandit_create('old', '{a,b}', 'dada') > 0;
SELECT decision_id FROM bandit_choose('old')}) =~ /^(\d+)$/m;
$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT');
$node->safe_psql('postgres', q{SELECT bandit_reset('old')});

# without workers, so that it is done by this session
is( $session->query_safe(qq{
SET LOCAL $parallel = on;
SET LOCAL max_parallel_workers = 0;
SELECT epoch FROM dexp3.bandit; COMMIT}),
	1, 'a parallel query with an old snapshot');
is($session->query_safe("SELECT bandit_feedback($decision, 0.5)"), 'skipped', 'the session knows better');

$_->quit foreach ($session, $other);
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC:|TRAP:|terminated by signal/, 'nothing crashed');
done_testing();
