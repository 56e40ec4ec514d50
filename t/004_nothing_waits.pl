# No choose and no feedback waits for another session, whatever that session is
# doing.  Prepared transactions are refused, and read-only transactions can look.  A
# session that goes on for long does not grow.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Dexp3 qw(new_node);

my $node = new_node('nothing_waits', autovacuum => 'off', max_prepared_transactions => 10);

# Sessions that are in a hurry: whoever waits for a lock fails.
my $hurry = '-c lock_timeout=200ms -c statement_timeout=20s';

sub sql
{
	my ($sql) = @_;

	local $ENV{PGOPTIONS} = $hurry;
	return $node->safe_psql('postgres', $sql);
}

# Run SQL that fails, and return the error and its SQLSTATE.
sub error_of
{
	my ($sql) = @_;
	my $stderr = '';

	local $ENV{PGOPTIONS} = $hurry;
	$node->psql('postgres', "\\set VERBOSITY verbose\n$sql",
		stderr => \$stderr, on_error_stop => 1);
	return $stderr =~ /ERROR:  (.*)/ ? $1 : "no error: $stderr";
}

sql(q{
CREATE EXTENSION dexp3;
SELECT bandit_create('default', ARRAY['a', 'b', 'c'], 'dada');
SELECT bandit_create('impatient', ARRAY['a', 'b', 'c'], 'dada', patience => 0);
SELECT bandit_create('exploring', ARRAY['a', 'b', 'c'], 'dada-ix', skipping => false);
SELECT bandit_create('deda', ARRAY['a', 'b', 'c'], 'deda', max_delay => 3);
});
my @bandits = qw(default impatient exploring deda);

# Choose and give feedback, with statements of their own, in the given number of
# rounds.
my $script = $node->basedir . '/rounds.sql';
append_to_file(
	$script, q{
SELECT decision_id FROM bandit_choose(':bandit') \gset
SELECT 1 / (bandit_feedback(:decision_id, :client_id % 2) = 'applied')::int;
});

sub play
{
	my ($bandit, $rounds, $name) = @_;

	local $ENV{PGOPTIONS} = $hurry;
	return $node->command_checks_all(
		[ 'pgbench', '-n', '-t', $rounds, '-D', "bandit=$bandit", '-f', $script, 'postgres' ],
		0,
		[qr{^number of transactions actually processed: $rounds/$rounds$}m],
		[qr/^(?!.*(?:error|aborted))/s],
		$name);
}

play($_, 300, "$_: rounds") foreach @bandits;
sql('SELECT bandit_choose(name) FROM dexp3.bandit');

#
# Nothing waits
#

# What a session can be in the middle of.
my %holders = (
	'choosing' => q{
		BEGIN;
		SELECT bandit_choose(name) FROM dexp3.bandit},
	'giving feedback' => q{
		BEGIN;
		SELECT 1 / (bandit_feedback(decision_id, 1) = 'applied')::int FROM dexp3.pending WHERE bandit <> 'impatient';
		SELECT bandit_feedback(decision_id, 1) FROM dexp3.bandit b, bandit_choose_each(b.name, b.bandit_id)},
	'choosing, serializable' => q{
		BEGIN ISOLATION LEVEL SERIALIZABLE;
		SELECT bandit_choose(name) FROM dexp3.bandit},
	'a savepoint' => q{
		BEGIN;
		SAVEPOINT a;
		SELECT bandit_feedback(decision_id, 1) FROM dexp3.bandit b, bandit_choose_each(b.name, b.bandit_id);
		SAVEPOINT b;
		SELECT bandit_choose(name) FROM dexp3.bandit},
	'skipping' => q{
		SELECT bandit_choose('impatient');
		BEGIN;
		DO $$
		BEGIN
		    FOR i IN 1 .. 1000 LOOP
		        PERFORM bandit_choose('impatient');
		        EXIT WHEN EXISTS (SELECT FROM dexp3.feedback WHERE loss IS NULL AND xact = pg_current_xact_id());
		    END LOOP;
		END $$;
		SELECT 1 / count(*) FROM dexp3.feedback WHERE loss IS NULL AND xact = pg_current_xact_id()},
	'creating' => q{
		BEGIN;
		SELECT bandit_create('another', ARRAY['a', 'b'], 'dada');
		SELECT bandit_choose('another')},
	'resetting and dropping' => q{
		BEGIN;
		SELECT bandit_reset('default');
		SELECT bandit_drop('default'), bandit_drop('impatient')},
	'a snapshot' => q{
		BEGIN ISOLATION LEVEL REPEATABLE READ;
		SELECT count(*) FROM dexp3.decision},
	'a cursor' => q{
		BEGIN;
		DECLARE c CURSOR FOR SELECT * FROM dexp3.decision d, bandit_choose_each('default', d.decision_id);
		FETCH 2 FROM c},
	'a lock' => q{
		BEGIN;
		LOCK TABLE dexp3.bandit, dexp3.decision, dexp3.feedback, dexp3.checkpoint IN ACCESS SHARE MODE});

my %sessions;
foreach my $holder (sort keys %holders)
{
	$sessions{$holder} = $node->background_psql('postgres');
	$sessions{$holder}->query_safe($holders{$holder});
}

# A VACUUM that is in the middle of a table: it waits for the cursor to leave its
# page.
my $vacuum = $node->background_psql('postgres');
$vacuum->query_until(qr/begins/, "\\echo begins\nVACUUM (FREEZE) dexp3.decision, dexp3.feedback;\n");
my $vacuuming = q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query ~ '^VACUUM' AND wait_event = 'BufferPin'};
ok($node->poll_query_until('postgres', $vacuuming), 'a VACUUM is running');

play($_, 1000, "$_: nothing waits") foreach @bandits;

is( sql(q{SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'}),
	scalar keys %holders,
	'all the transactions are still open');
is(sql($vacuuming), 't', 'and the VACUUM is still running');

# Neither do the rest of the functions, nor triggers, nor a session's first call.
sql(q{
CREATE TABLE result (decision_id bigint, loss float8);
CREATE TRIGGER feedback AFTER INSERT ON result REFERENCING NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'loss');
INSERT INTO result SELECT decision_id, 0.5 FROM dexp3.bandit b, bandit_choose_each(b.name, b.bandit_id);
SELECT bandit_reward(decision_id, 0.5) FROM dexp3.bandit b, bandit_choose_each(b.name, b.bandit_id);
SELECT bandit_create('yet another', ARRAY['a', 'b'], 'dada');
SELECT bandit_choose(b.name), bandit_current_state(b.name), (SELECT sum(probability) FROM bandit_probabilities(b.name))
FROM dexp3.bandit b;
SELECT bandit_reset('yet another');
SELECT bandit_drop('yet another');
});
pass('triggers, rewards, looks, other bandits: nothing waits');

$sessions{$_}->query_safe('ROLLBACK') foreach grep { /creating|dropping/ } keys %holders;
foreach my $holder (sort keys %holders)
{
	$sessions{$holder}->query_safe('COMMIT') if $holder !~ /creating|dropping/;
	$sessions{$holder}->quit;
}
$vacuum->query_safe('SELECT 1');
$vacuum->quit;
is( sql(q{
SELECT count(*) FROM dexp3.bandit b
WHERE (bandit_current_state(name)::jsonb -> 'round')::bigint
      <> (SELECT count(*) FROM dexp3.decision d WHERE d.bandit_id = b.bandit_id)}),
	0, 'in the end all decisions are counted');

#
# Prepared transactions
#

my $refused = qr/^0A000: cannot PREPARE a transaction that has used bandit_choose or bandit_feedback/;
sql(q{
CREATE TABLE other (i integer);
CREATE TABLE deferred (decision_id bigint, loss float8);
CREATE CONSTRAINT TRIGGER feedback AFTER INSERT ON deferred DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'loss');
});
foreach my $case (
	[ "SELECT bandit_choose('default')", 'a choice' ],
	[
		'SELECT bandit_feedback(max(decision_id), 0.5) FROM dexp3.pending',
		'feedback'
	],
	[
		'INSERT INTO result SELECT max(decision_id), 0.5 FROM dexp3.pending',
		'feedback by a trigger'
	],
	[
		'INSERT INTO deferred SELECT max(decision_id), 0.5 FROM dexp3.pending',
		'feedback by a deferred trigger'
	],
	[
		"SAVEPOINT a; SELECT bandit_choose('default'); RELEASE a",
		'a choice in a savepoint'
	])
{
	like(error_of("BEGIN; INSERT INTO other VALUES (1); $case->[0]; PREPARE TRANSACTION 'p';"),
		$refused, "PREPARE TRANSACTION after $case->[1] is refused");
}
is(sql('SELECT count(*) FROM pg_prepared_xacts'), 0, 'nothing was prepared');
is(sql('SELECT bandit_feedback(max(decision_id), 0.5) FROM dexp3.pending'),
	'applied', 'and nothing is left to wait for');

sql("BEGIN; INSERT INTO other VALUES (1); SELECT bandit_probabilities('default'); PREPARE TRANSACTION 'p'");
play('default', 50, 'while a transaction that only had a look is prepared, nothing waits');
sql("COMMIT PREPARED 'p'");

# Bandits can be made, reset and dropped in a prepared transaction.
my $warm = $node->background_psql('postgres');
$warm->query_safe("SET lock_timeout = '200ms'");
foreach my $case (
	[ "bandit_create('prepared', ARRAY['a', 'b'], 'dada')", 'no bandit', '1 open' ],
	[ "bandit_reset('prepared')",                   '2 open',    '1 open' ],
	[ "bandit_drop('prepared')",                    '2 open',    'no bandit' ])
{
	my ($call, $before, $after) = @$case;
	my $choose = q{
SELECT bandit_choose(name) FROM dexp3.bandit WHERE name = 'prepared';
SELECT coalesce((SELECT jsonb_array_length(bandit_current_state(name)::jsonb -> 'open') || ' open'
                 FROM dexp3.bandit WHERE name = 'prepared'), 'no bandit')};

	sql("BEGIN; SELECT $call; PREPARE TRANSACTION 'p'");
	is((split /\n/, $warm->query_safe($choose))[-1], $before, "while $call is prepared");
	sql("COMMIT PREPARED 'p'");
	is((split /\n/, $warm->query_safe($choose))[-1], $after, "and when it is committed");
}
$warm->quit;

#
# Read-only transactions
#

my $reader = $node->background_psql('postgres');
my $look = q{SELECT array_agg(probability) FROM bandit_probabilities('exploring')};
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
my $before = $reader->query_safe($look);
is($before, sql($look), 'a read-only transaction sees the probabilities');
play('exploring', 50, 'which does not disturb anybody');
my $after = $reader->query_safe($look);
is($after, sql($look), 'and it sees the newest ones');
isnt($after, $before, 'which are others');
is($reader->query_safe('SELECT pg_current_xact_id_if_assigned() IS NULL'), 't', 'without a transaction identifier');
$reader->query_safe('COMMIT');
$reader->quit;
foreach my $call ("bandit_choose('default')", 'bandit_feedback(1, 0)', "bandit_reset('default')",
	"bandit_drop('default')", "bandit_create('b', ARRAY['a', 'b'], 'dada')")
{
	like(error_of("BEGIN READ ONLY; SELECT $call;"),
		qr/^25006: /, "$call is refused in a read-only transaction");
}

#
# Memory
#

my $session = $node->background_psql('postgres');
$session->query_safe(q{
SELECT bandit_create('long', ARRAY['a', 'b', 'c'], 'dada', skipping => false);
SELECT bandit_create('feedback', ARRAY['a', 'b', 'c'], 'dada');
SELECT bandit_choose('long') FROM generate_series(1, 100)});

# A function, so that it is asked again each time.
$session->query_safe(q{
CREATE FUNCTION memory() RETURNS bigint LANGUAGE sql VOLATILE
    AS 'SELECT sum(used_bytes) FROM pg_backend_memory_contexts'});

# in one statement
my ($early, $late) = split /\n/, $session->query_safe(q{
SELECT memory
FROM (SELECT CASE WHEN i IN (1000, 100000) THEN memory() END AS memory
      FROM generate_series(1, 100000) i, bandit_choose_each('long', i)) m
WHERE memory IS NOT NULL});
cmp_ok($late - $early, '<', 100_000, '100,000 choices in one statement: memory is flat');

# in many transactions, with feedback, and after errors
$session->query_safe(q{
CREATE PROCEDURE play(rounds integer) LANGUAGE plpgsql AS $$
DECLARE
    decision bigint;
BEGIN
    FOR i IN 1 .. rounds LOOP
        decision := (bandit_choose('feedback')).decision_id;
        PERFORM bandit_feedback(decision, 0.5);
        IF i % 10 = 0 THEN
            COMMIT;
        END IF;
        BEGIN
            PERFORM bandit_choose('feedback');
            PERFORM bandit_feedback(decision + 1, 2);
        EXCEPTION WHEN numeric_value_out_of_range THEN
        END;
        IF i % 25 = 0 THEN
            ROLLBACK;
        END IF;
    END LOOP;
END
$$;
CALL play(500)});
my $state_contexts = q{SELECT count(*) FROM pg_backend_memory_contexts WHERE name LIKE 'dexp3%'};
my $contexts = $session->query_safe($state_contexts);
$early = $session->query_safe('SELECT memory()');
$session->query_safe('CALL play(5000)');
$late = $session->query_safe('SELECT memory()');
cmp_ok($late - $early, '<', 100_000, '5,000 rounds with savepoints rolled back: memory is flat');
is($session->query_safe($state_contexts), $contexts, 'and no state is left over');

# very many bandits, of which only some have sums in shared memory
$node->append_conf('postgresql.conf', q{dexp3.shared_memory = '64kB'});
$node->reload;
$session->query_safe(q{
SELECT count(bandit_create('one of many ' || i, ARRAY['a', 'b', 'c'], 'dada')) FROM generate_series(1, 1000) i;
SELECT count(bandit_choose('one of many ' || i)) FROM generate_series(1, 1000) i});
is( $session->query_safe(q{
SELECT count(*) FROM generate_series(1, 1000) i
WHERE (bandit_current_state('one of many ' || i)::jsonb -> 'round')::int <> 1}),
	0, 'the sums of 1,000 bandits are made again when they are needed');
$session->quit;

my @bad = grep { /\b(?:FATAL|PANIC|TRAP|WARNING|deadlock)\b/ } split /\n/, slurp_file($node->logfile);
is(join("\n", @bad), '', 'nothing bad in the server log');

$node->stop;
done_testing();
