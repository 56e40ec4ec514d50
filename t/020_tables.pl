# What is done to the tables while bandits are in use: indexes are made anew, rows are
# thrown away, and checkpoints come so fast that one statement writes two.

use strict;
use warnings;

use FindBin;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Dexp3;

my $seconds = 6;

my $node = new_node('tables', statement_timeout => '60s');
install_records($node);

# What a session says of a bandit is what the log says.
sub holds
{
	my ($session, $bandit, $rounds, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($session->query_safe("SELECT bandit_verify('$bandit'), learned('$bandit') ->> 'round'"), "t|$rounds", "$bandit: $name");
	agrees($node, $bandit, $session, $name);
	return;
}

#
# REINDEX CONCURRENTLY.  All clients want to skip the same decisions, and to give
# feedback for them: for a while there are two unique indexes which tell who was first.
# Nobody waits for an index.
#

$node->safe_psql('postgres', q{SELECT bandit_create('hot', '{a,b,c}', 'dada', patience => 0)});
my $script = $node->basedir . '/hot.sql';
append_to_file(
	$script, q{
\set loss random(0, 1000000000)
SELECT choose('hot') AS mine \gset
SELECT choose('hot');
SELECT give(:mine, :loss / 1e9);
SELECT recent('hot', true) AS other \gset
\if :other > 0
SELECT give(:other, :loss / 1e9);
\endif
});
my ($stdout, $stderr) = ('', '');
my $clients;
{
	local $ENV{PGOPTIONS} = '-c lock_timeout=3s';
	$clients = IPC::Run::start(
		[ 'pgbench', '-n', '-c', 8, '-j', 2, '-T', $seconds, '-f', $script, $node->connstr('postgres') ],
		'>', \$stdout, '2>', \$stderr);
}
my $reindexed = 0;
my $end = time + $seconds;
while (time < $end)
{
	$node->safe_psql('postgres', "REINDEX INDEX CONCURRENTLY dexp3.$_")
	  foreach qw(feedback_rows_pkey decision_rows_pkey decision_log_idx);
	$reindexed++;
}
$clients->finish;
note("indexes were made anew $reindexed times");
like($stdout, qr/^number of failed transactions: 0 /m, 'no client fails while indexes are made anew');
unlike($stderr, qr/error|aborted/i, 'and none complains');
cmp_ok($reindexed, '>', 1, 'they were made anew more than once');
is( $node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relname ~ '_cc(new|old)'}),
	0, 'all of that came to an end');
check_records($node, 'hot', 'the log is what was acknowledged');
cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM dexp3.feedback WHERE loss IS NULL'),
	'>', 0, 'there were skips');
agrees($node, 'hot', undef, 'a new session');
is($node->safe_psql('postgres', q{SELECT bandit_verify('hot')}), 't', 'the sums are those of the log');
$node->safe_psql('postgres', q{SELECT bandit_drop('hot')});

#
# TRUNCATE
#

my @bandits = qw(plain skipping window deda);
$node->safe_psql(
	'postgres', q{
SELECT bandit_create('plain', '{a,b,c}', 'dada', skipping => false),
       bandit_create('skipping', '{a,b,c}', 'dada', patience => 0),
       bandit_create('window', '{a,b,c}', 'dada-ix', skipping => false, feedback_window => '1 hour'),
       bandit_create('deda', '{a,b,c}', 'deda', max_delay => 10)});

my $truncate = 'TRUNCATE dexp3.decision, dexp3.feedback;';
my ($owner, $client) = map { $node->background_psql('postgres') } 1 .. 2;
my $pid = $client->query_safe('SELECT pg_backend_pid()');

foreach my $bandit (@bandits)
{
	my $round = "SELECT bandit_feedback(decision_id, 0.5) FROM bandit_choose('$bandit');";
	my $rounds = "SELECT count(bandit_feedback(decision_id, 0.5)) FROM generate_series(1, 10) i, bandit_choose_each('$bandit', i);";

	# A choice waits for the table, then a round.
	foreach my $sql ("SELECT bandit_choose('$bandit');", $round)
	{
		$client->query_safe($rounds);
		$owner->query_safe("BEGIN; $truncate");
		$client->query_until(qr/begins/, "\\echo begins\n$sql\n");
		$node->poll_query_until('postgres',
			"SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid");
		$owner->query_safe('COMMIT');
		$client->query_safe('SELECT 1');
		is( $client->query_safe('SELECT round, outstanding FROM dexp3.decision'),
			'1|0', "$bandit: a choice that has waited knows nothing of what is gone");
		holds($client, $bandit, 1, 'TRUNCATE while a choice waits');
		holds($owner, $bandit, 1, 'the session that did it');
		$client->query_safe($round);
		holds($owner, $bandit, 2, 'and it learns');
	}

	# TRUNCATE and choices in one transaction, with or without a savepoint
	foreach my $case (
		[ "BEGIN; $truncate $round $truncate COMMIT", 0 ],
		[ "BEGIN; $round $truncate $round $truncate $round COMMIT", 1 ],
		[ "BEGIN; $truncate $round SAVEPOINT a; $round $truncate $round ROLLBACK TO a; $round COMMIT", 2 ],
		[ "BEGIN; SAVEPOINT a; $truncate $round SAVEPOINT b; $truncate $round RELEASE a; $round COMMIT", 2 ],
		[ "BEGIN; SAVEPOINT a; $truncate $round ROLLBACK TO a; $round COMMIT", 3 ],
		[ "BEGIN; $round $truncate $round $truncate ROLLBACK", 2 ])
	{
		my ($sql, $expected) = @$case;
		(my $name = $sql) =~ s/\Q$round\E/round;/g;

		$name =~ s/\Q$truncate\E/TRUNCATE;/g;
		$owner->query_safe($sql);
		holds($client, $bandit, $expected, $name);
		$client->query_safe($round);
		holds($owner, $bandit, $expected + 1, 'and a round');
		$owner->query_safe("$truncate $round $round");
	}
}

#
# A checkpoint is due twice in one statement, and is written once.  There is room for the
# sums of one bandit only, so that they are made anew in between.
#

$node->append_conf('postgresql.conf', 'dexp3.shared_memory = 0');
$node->reload;
$owner->query_safe($truncate);
my $many = q{SELECT count(*) FROM bandit_choose_many('plain', 2000)};
my $checkpoints = q{
SELECT count(*) FROM dexp3.checkpoint WHERE bandit_id = (SELECT bandit_id FROM dexp3.bandit WHERE name = 'plain')};
foreach my $statement (
	q{SELECT bandit_choose('plain'), pg_advisory_lock(1), bandit_choose('plain');},
	q{DO $$ BEGIN PERFORM bandit_choose('plain'); PERFORM pg_advisory_lock(1); PERFORM bandit_choose('plain'); END $$;})
{
	$owner->query_safe("$truncate $many; SELECT pg_advisory_lock(1)");
	$client->query_until(qr/begins/, "\\echo begins\n$statement\n");
	$node->poll_query_until('postgres',
		"SELECT wait_event = 'advisory' FROM pg_stat_activity WHERE pid = $pid");
	$owner->query_safe("$many; SELECT bandit_choose('deda'); SELECT pg_advisory_unlock(1)");
	$client->query_safe('SELECT pg_advisory_unlock(1)');
	is($client->query_safe($checkpoints), 1, 'a checkpoint was written');
	holds($client, 'plain', 4002, 'a statement to which a checkpoint was due twice');
	holds($owner, 'plain', 4002, 'and another session');

	# The next one removes it.
	$owner->query_safe("$many; SELECT bandit_choose('plain')");
	is($client->query_safe($checkpoints), 1, 'the next checkpoint remains');
}

#
# The extension goes in the transaction that has made a bandit, or comes and goes with a
# savepoint: that is no reason for a commit to fail.
#

$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql(
	'other', q{
CREATE TABLE kept (i integer);
BEGIN;
INSERT INTO kept VALUES (1);
SAVEPOINT s;
CREATE EXTENSION dexp3;
SELECT bandit_create('short', '{a,b}');
ROLLBACK TO s;
COMMIT;
BEGIN;
INSERT INTO kept VALUES (2);
CREATE EXTENSION dexp3;
SELECT bandit_create('short', '{a,b}');
DROP EXTENSION dexp3;
COMMIT;
});
is($node->safe_psql('other', 'SELECT sum(i) FROM kept'), 3, 'the extension is gone, and other work is not');
$_->quit foreach ($owner, $client);

my @bad = grep { /\b(?:ERROR|PANIC|TRAP|WARNING|deadlock)\b/ } split /\n/, slurp_file($node->logfile);
is(join("\n", @bad), '', 'no errors in the server log');

$node->stop;
done_testing();
