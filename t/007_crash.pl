# A server is killed again and again while clients are at work.  What it has
# acknowledged is there, once, and nothing is half done.
#
# The clients are psql processes.  What the server tells them goes to files, and
# after each COMMIT or ROLLBACK that succeeded, a line which says so.  A crash of the
# server does not touch these files, and afterwards they are compared with the
# tables.  What was committed must be there, and what was rolled back must not.  Of a
# transaction whose end is unknown, all must be there or nothing.  The clients also record
# everything in tables of their own, so that an application's rows and those of
# the log are there together or not at all.
#
# No crash of the machine is simulated, hence fsync = off is as good as on.

use strict;
use warnings;

use FindBin;
use List::Util qw(shuffle);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Dexp3;

my $clients = 8;
my @bandits = qw(skipping exploring deda self-tuned);

# Small segments and caches, and a vacuum whenever there is something to do: then
# there are many checkpoints, and pages of all ages on disk.
my $node = new_node(
	'crash',
	initdb => [ '--wal-segsize', '1' ],
	synchronous_commit => 'on',
	wal_level => 'replica',
	max_wal_size => '2MB',
	min_wal_size => '2MB',
	checkpoint_warning => 0,
	shared_buffers => '2MB',
	restart_after_crash => 'on',
	autovacuum_naptime => '1s',
	autovacuum_vacuum_threshold => 10,
	autovacuum_vacuum_insert_threshold => 10,
	statement_timeout => '120s');

install_records($node);
$node->safe_psql(
	'postgres', q{
SELECT bandit_create('skipping', ARRAY['a', 'b', 'c'], 'dada', patience => 5);
SELECT bandit_create('exploring', ARRAY['a', 'b', 'c', 'd', 'e'], 'dada-ix', skipping => false);
SELECT bandit_create('deda', ARRAY['a', 'b', 'c'], 'deda', max_delay => 40);
SELECT bandit_create('self-tuned', ARRAY['a', 'b', 'c']);

-- Feedback row by row; a query on "outcome" sees these rows, too.
CREATE TABLE outcome_by_row () INHERITS (outcome);
CREATE INDEX ON outcome_by_row (batch);
CREATE TRIGGER feedback AFTER INSERT OR UPDATE ON outcome_by_row
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'loss');

-- Up to n open decisions in the order of their numbers, so that there are no
-- deadlocks.
CREATE FUNCTION some_open(bandit text, n integer) RETURNS SETOF bigint LANGUAGE sql AS $$
    SELECT DISTINCT d FROM (SELECT recent(bandit, true) AS d FROM generate_series(1, n)) _ WHERE d > 0 ORDER BY d
$$;
});

my $has_amcheck =
  $node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'amcheck'});
if ($has_amcheck)
{
	$node->safe_psql('postgres', 'CREATE EXTENSION amcheck');
}
else
{
	diag('contrib/amcheck is not installed: tables and indexes are not checked');
}

#
# The clients' transactions, as psql scripts
#
# Each statement tells what it did: kind|decision|time|loss|outcome.  A decision
# is told apart by its time, too, since a number that was never acknowledged may be
# given out again after a crash; a feedback by its loss.
#

my $choose = q{SELECT 'chosen', choose('BANDIT'), statement_timestamp(), NULL, NULL;};
my $give = q{
SELECT 'given', d, NULL, loss, give(d, loss)
FROM (SELECT d, random() AS loss FROM some_open('BANDIT', 2) d) _;};

my %transactions = (
	'choose' => 'BEGIN; ' . "$choose\n" x 12 . 'COMMIT;',

	'choose, own feedback' => q{
BEGIN;
SELECT choose('BANDIT') AS mine, statement_timestamp() AS at \gset
\echo chosen|:mine|:at||
SELECT 'given', :mine, NULL, loss, give(:mine, loss) FROM random() loss;
COMMIT;},

	'feedback, choose' => "BEGIN; $give $choose COMMIT;",

	# all bandits, several times
	'several' => q{
BEGIN;
SELECT 'given', d, NULL, loss, give(d, loss)
FROM (SELECT d, random() AS loss FROM dexp3.bandit b, some_open(b.name, 2) d ORDER BY d) _;
SELECT 'chosen', choose(name), statement_timestamp(), NULL, NULL FROM dexp3.bandit, generate_series(1, 2);
COMMIT;},

	'savepoints' => qq{
BEGIN;
SAVEPOINT a;
SELECT 'undone', d, NULL, loss, give(d, loss)
FROM (SELECT d, random() AS loss FROM some_open('BANDIT', 2) d) _;
ROLLBACK TO a;
$give
SAVEPOINT b;
$choose
SAVEPOINT c;
SELECT 'undone', choose('BANDIT'), statement_timestamp(), NULL, NULL;
ROLLBACK TO c;
RELEASE b;
COMMIT;},

	'rollback' => "BEGIN; $give $choose ROLLBACK;",

	'statement trigger' => q{
BEGIN;
INSERT INTO outcome SELECT d, random() FROM some_open('BANDIT', 5) d
RETURNING 'outcome', decision_id, NULL, loss, NULL;
COMMIT;},

	'row trigger' => q{
BEGIN;
INSERT INTO outcome_by_row SELECT d, random() FROM some_open('BANDIT', 3) d
RETURNING 'outcome', decision_id, NULL, loss, NULL;
COMMIT;},

	'row trigger, update' => q{
BEGIN;
INSERT INTO outcome_by_row SELECT d, NULL, CLIENT FROM some_open('BANDIT', 1) d;
UPDATE outcome_by_row SET loss = random() WHERE batch = CLIENT AND loss IS NULL
RETURNING 'outcome', decision_id, NULL, loss, NULL;
COMMIT;});

# A transaction that is open all the time until the server goes down, so it knows
# beforehand that it will not be committed.  It leaves alone the bandit that skips:
# feedback for a decision that it has skipped would wait for it.
my $never_ends = q{
BEGIN;
SELECT 'given', d, NULL, loss, give(d, loss)
FROM (SELECT choose(name) AS d, random() AS loss FROM dexp3.bandit WHERE NOT skipping) _;
SELECT 'chosen', choose(name), statement_timestamp(), NULL, NULL FROM dexp3.bandit WHERE NOT skipping;
\echo rolled back
SET statement_timeout = 0;
SELECT pg_sleep(100000);
};

# Every kind of transaction with every bandit, in random order.
sub script
{
	my ($client) = @_;
	my @script;

	foreach my $bandit (@bandits)
	{
		foreach (values %transactions)
		{
			my $end = /ROLLBACK;$/ ? 'rolled back' : 'committed';

			push @script, s/BANDIT/$bandit/gr =~ s/CLIENT/$client/gr . "\n\\echo $end\n";
		}
	}
	return join '', shuffle(@script);
}

#
# Starting clients, and waiting for their end
#

my $told = $node->basedir . '/told';
my $started = 0;

# Start a client that runs a script once, or again and again.
sub start_client
{
	my ($script, $repeat) = @_;
	my $path = $node->basedir . '/client' . ++$started;

	# psql has no loop, but a script can include itself.
	append_to_file("$path.sql", $script . ($repeat ? "\\i $path.sql\n" : ''));
	return {
		path => $path,
		run => IPC::Run::start(
			[ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', "$path.sql", '-d', $node->connstr('postgres') ],
			'>', "$path.out", '2>', "$path.err",
			IPC::Run::timeout(2 * $PostgreSQL::Test::Utils::timeout_default))
	};
}

# Wait for the end of clients, check that it was as expected, and add what they
# were told to the file $told: client|number of transaction|its end|what.
sub finish_clients
{
	my ($expected, $name, @running) = @_;
	my @surprises;

	foreach my $client (@running)
	{
		my $transaction = 1;
		my @lines;
		my $add = sub {
			my ($end) = @_;
			append_to_file($told, join '', map { "$client->{path}|$transaction|$end|$_\n" } @lines);
			@lines = ();
			$transaction++;
		};

		$client->{run}->finish;
		my $status = $client->{run}->result(0);
		my $stderr = slurp_file("$client->{path}.err");
		# psql does not always know a lost connection from a statement that failed.
		$status = 2 if $status == 3 && $stderr =~ /server closed the connection unexpectedly/;
		push @surprises, "$status: $stderr" if $status != $expected || $stderr =~ /ERROR|FATAL|PANIC/;

		foreach my $line (split /\n/, slurp_file("$client->{path}.out"))
		{
			if ($line eq 'committed' || $line eq 'rolled back')
			{
				$add->($line);
			}
			else
			{
				push @lines, $line;
			}
		}
		$add->('unknown');
	}
	is(join("\n", @surprises), '', $name);
	return;
}

#
# Crashes
#

my %crashes = (
	'immediate shutdown' => sub {
		$node->stop('immediate');
	},
	'a backend is killed' => sub {
		my $pid = $node->safe_psql(
			'postgres', q{
SELECT pid FROM pg_stat_activity
WHERE backend_type = 'client backend' AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
ORDER BY random() LIMIT 1});
		kill('KILL', $pid) or die "could not kill $pid";
	});

# How far the clients, and the server's checkpoints, have come.
my $progress = q{
SELECT count(*) AS decisions, (SELECT count(*) FROM dexp3.feedback WHERE loss IS NULL) AS skips,
       (SELECT redo_lsn FROM pg_control_checkpoint())
FROM dexp3.decision};

# Let the clients work until the server is killed, and start it again.
sub crash
{
	my ($kind) = @_;
	my ($decisions, $skips, $redo) = split /\|/, $node->safe_psql('postgres', $progress);
	my $log_size = -s $node->logfile;

	my @running = map { start_client(script($_), 1) } 1 .. $clients;
	push @running, start_client($never_ends);
	my $worked = $node->poll_query_until(
		'postgres', qq{
SELECT decisions > $decisions + 1000 AND skips > $skips AND redo_lsn > '$redo'
       AND EXISTS (SELECT FROM pg_class WHERE oid = 'dexp3.feedback_rows'::regclass AND reltuples > 0)
       AND EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep')
FROM ($progress) _});
	ok($worked, "$kind: there were choices, skips, a checkpoint of the server, and autovacuum");

	$crashes{$kind}->();
	finish_clients(2, "$kind: all clients lose their connection, and none had an error", @running);
	die 'the clients did not get far' unless $worked;
	$node->start if $kind eq 'immediate shutdown';
	$node->poll_query_until('postgres', 'SELECT true') or die 'the server does not come back';

	my $log = slurp_file($node->logfile, $log_size);
	my @recoveries = $log =~ /redo starts at/g;
	is(scalar @recoveries, 1, "$kind: the server recovers");
	my @bad = grep { /ERROR|PANIC|TRAP|inconsistent page/ && !/canceling autovacuum/ } split /\n/, $log;
	is(join("\n", @bad), '', "$kind: no errors in the server log");
	return;
}

#
# What must hold afterwards
#

# Compare what the clients were told, since the beginning, with the tables.
sub check_told
{
	my ($name) = @_;

	is( $node->safe_psql(
			'postgres', qq{
CREATE TEMP TABLE told (client text, n integer, ending text, kind text, decision_id bigint,
                        at timestamptz, loss float8, outcome text);
\\copy told FROM '$told' (FORMAT csv, DELIMITER '|')
ANALYZE told;
CREATE TEMP TABLE compared AS
SELECT t.*, CASE kind WHEN 'chosen' THEN d.decision_id IS NOT NULL
                      WHEN 'given' THEN g.decision_id IS NOT NULL AND (t.outcome <> 'applied' OR f.decision_id IS NOT NULL)
                      WHEN 'outcome' THEN o.decision_id IS NOT NULL
                      WHEN 'undone' THEN coalesce(d.decision_id, f.decision_id) IS NOT NULL END AS there
FROM told t
LEFT JOIN dexp3.decision d ON d.decision_id = t.decision_id AND d.decided_at = t.at
LEFT JOIN dexp3.feedback f ON f.decision_id = t.decision_id AND f.loss = t.loss
LEFT JOIN given g ON g.decision_id = t.decision_id AND g.loss = t.loss AND g.outcome = t.outcome
LEFT JOIN outcome o ON o.decision_id = t.decision_id AND o.loss = t.loss;

SELECT 'committed, but missing', * FROM compared
WHERE ending = 'committed' AND kind <> 'undone' AND there IS NOT TRUE;
SELECT 'rolled back, but there', * FROM compared
WHERE (ending = 'rolled back' OR kind = 'undone') AND there IS NOT FALSE;
SELECT 'half there', client, n FROM compared
WHERE ending = 'unknown' AND kind <> 'undone'
GROUP BY client, n HAVING count(*) FILTER (WHERE there) NOT IN (0, count(*));
SELECT 'told twice', kind, decision_id FROM told
WHERE ending = 'committed' AND (kind = 'chosen' OR kind = 'given' AND outcome = 'applied')
GROUP BY kind, decision_id HAVING count(*) > 1}),
		'', $name);
	return;
}

sub check_all
{
	my ($when) = @_;

  SKIP:
	{
		skip 'contrib/amcheck is not installed', 1 unless $has_amcheck;
		$node->command_ok(
			[
				'pg_amcheck', '--heapallindexed', '--parent-check', '--rootdescend',
				'--schema', 'dexp3', '--schema', 'public', 'postgres'
			],
			"$when: tables and indexes are sound");
	}

	check_told("$when: what was acknowledged is there, and nothing is half there");
	check_records($node, $_, "$when: the log is what the clients recorded") foreach @bandits;

	# The first session starts from checkpoints, goes on while others work, and
	# then agrees with new ones.
	my $warm = $node->background_psql('postgres');
	agrees($node, $_, $warm, "$when: the first session") foreach @bandits;
	$warm->query_safe("SELECT give(choose('$_'), 0.5)") foreach @bandits;
	finish_clients(0, "$when: clients can go on", map { start_client(script($_)) } 1 .. 2);
	agrees($node, $_, $warm, "$when: a session in use") foreach @bandits;
	agrees($node, $_, undef, "$when: a new session") foreach @bandits;
	$warm->query_safe("SELECT give(choose('$_'), 0.5)") foreach @bandits;
	$warm->quit;

	my $folding = $node->background_psql('postgres');
	$folding->query_safe('BEGIN; DELETE FROM dexp3.checkpoint');
	agrees($node, $_, $folding, "$when: a session without checkpoints") foreach @bandits;
	$folding->query_safe('ROLLBACK');
	$folding->quit;

	check_told("$when: what was acknowledged since is there");
	return;
}

srand(1);
crash('immediate shutdown');
check_all('after an immediate shutdown');
crash('a backend is killed');
check_all('after a kill');
{
	# Every page that is changed goes into the log, to be compared with what
	# recovery makes of it.
	local $ENV{PGOPTIONS} = '-c wal_consistency_checking=all';
	is($node->safe_psql('postgres', 'SHOW wal_consistency_checking'), 'all', 'pages are compared');
	crash('a backend is killed');
}
check_all('after a kill, with pages compared');
crash('immediate shutdown');
check_all('after the last shutdown');

# There was something to compare.
my %count;
foreach (split /\n/, slurp_file($told))
{
	my (undef, undef, $ending, $kind) = split /\|/;
	$count{$ending}++;
	$count{"$ending, $kind"}++;
}
note(map { "$_: $count{$_}\n" } sort keys %count);
cmp_ok($count{$_} // 0, '>', 0, "some is $_")
  foreach ('committed, chosen', 'committed, given', 'committed, outcome', 'committed, undone',
	'rolled back, chosen', 'rolled back, given', 'unknown');
is($node->safe_psql('postgres', 'SELECT count(DISTINCT bandit_id) FROM dexp3.checkpoint'),
	scalar @bandits, 'each bandit has a checkpoint');

$node->stop;
done_testing();
