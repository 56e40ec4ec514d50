# Logical replication.
#
# Of the extension's own tables: a subscriber has the bandits and their log as
# they are on the publisher, and goes on when it is on its own.  Identifiers must
# not repeat there, although sequences are not replicated.
#
# And of an application's table: its rows are feedback on the subscriber, if the
# triggers there are told so.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Continuation;
use Dexp3 qw(new_node $feedback_tables);

my ($publisher, $subscriber) = map {
	# Large transactions are sent before they end.
	new_node(
		$_,
		allows_streaming => 'logical',
		autovacuum => 'off',
		logical_decoding_work_mem => '64kB',
		max_logical_replication_workers => 12,
		max_sync_workers_per_subscription => 4,
		max_worker_processes => 20,
		wal_retrieve_retry_interval => '100ms');
} ('publisher', 'subscriber');

# Make a database, of the same name on both sides.
sub create_database
{
	my ($database) = @_;

	$_->safe_psql('postgres', "CREATE DATABASE $database") foreach ($publisher, $subscriber);
	return;
}

# Subscribe to all publications of a database, and wait for the rows that are
# there already.
sub subscribe
{
	my ($database, @publications) = @_;
	my $connection = $publisher->connstr . " dbname=$database";

	$subscriber->safe_psql($database,
		    "CREATE SUBSCRIPTION $database CONNECTION '$connection' PUBLICATION "
		  . join(', ', @publications)
		  . ' WITH (streaming = on)');
	$subscriber->wait_for_subscription_sync($publisher, $database, $database);
	return;
}

#
# The log, as a publication of the four tables that matter, and as a part of one
# of all tables; then there are checkpoints and the application's tables, whose
# triggers have done their work on the publisher.  One sends rows of the partitions
# that have them, the other of the tables as everybody knows them.
#

my %publications = (
	log => 'FOR TABLE dexp3.bandit, dexp3.decision, dexp3.feedback, dexp3.expiry',
	everything => 'FOR ALL TABLES WITH (publish_via_partition_root = true)');
my @databases = sort keys %publications;
my (%warm, %open);

# Compare the subscriber's tables and states with the publisher's.
sub compare
{
	my ($name) = @_;

	foreach my $database (@databases)
	{
		my ($log, $expected) = map { $publisher->safe_psql($database, $_) } (log_of($database), $states);

		$publisher->wait_for_catchup($database);
		is($subscriber->safe_psql($database, log_of($database)), $log, "$database, $name: the same rows");
		same_states($subscriber->safe_psql($database, $states), $expected, "$database, $name, a new session");
		same_states($warm{$database}->query_safe($states), $expected, "$database, $name, the warm session");
	}
	return;
}

# What is to be the same: in "log" not the application's tables
sub log_of
{
	my ($database) = @_;

	return $database eq 'everything' ? $contents : join ';', (split /;/, $contents)[ 0 .. 5 ];
}

foreach my $database (@databases)
{
	create_database($database);
	$publisher->safe_psql($database, "CREATE EXTENSION dexp3; $played");
	$publisher->safe_psql($database, "CREATE PUBLICATION pub $publications{$database}");
	# The subscriber has the same tables, and a session that knows the extension
	# before any row is there.
	$subscriber->safe_psql(
		$database, qq{
CREATE EXTENSION dexp3;
CREATE TABLE own_bandit (state bandit_state, ticket bandit_ticket);
$feedback_tables});
	$warm{$database} = $subscriber->background_psql($database);
	is($warm{$database}->query_safe($states), '', "$database: nothing is there yet");
	subscribe($database, 'pub');
	$open{$database} = $publisher->background_psql($database);
}
compare('initial copy');

# The stream: on the publisher in all databases, by a new session or one that
# stays open
sub publish
{
	my ($sql, $session) = @_;

	foreach my $database (@databases)
	{
		$session ? $session->{$database}->query_safe($sql) : $publisher->safe_psql($database, $sql);
	}
	return;
}

my $choose_all = 'SELECT count(bandit_choose(name)) FROM dexp3.bandit';
my $feed_one = q{SELECT bandit_feedback(min(decision_id), 0.5) FROM dexp3.pending WHERE bandit = 'deda'};
my $others = q{CALL play('skipping', 7); CALL play('deda', 3)};

publish($others);
compare('one by one');
publish("BEGIN; $choose_all; SAVEPOINT a; $feed_one; RELEASE a; SAVEPOINT b; $choose_all; ROLLBACK TO b", \%open);
publish($others);
compare('while a transaction is open');
publish('COMMIT', \%open);
compare('since it is committed');
publish("BEGIN; $choose_all", \%open);
publish($others);
publish('ROLLBACK', \%open);
compare('one that is rolled back');

# Large ones, and checkpoints on the publisher, which do not arrive
publish('SELECT count(bandit_choose(name)) FROM dexp3.bandit, generate_series(1, 700)');
publish(q{SELECT format('SELECT bandit_choose(%L)', name) FROM dexp3.bandit \gexec});
compare('a large transaction');
foreach my $database (@databases)
{
	is($publisher->safe_psql($database, 'SELECT count(DISTINCT bandit_id) FROM dexp3.checkpoint'),
		8, "$database: the publisher has checkpoints");
	is($subscriber->safe_psql($database, 'SELECT count(*) FROM dexp3.checkpoint'),
		0, "$database: the subscriber has none");
}

# Bandits that come, change and go
publish(q{SELECT bandit_create('new', '{a,b}'); CALL play('new', 10)});
compare('a new bandit');
publish(q{SELECT bandit_reset('skipping'); SELECT bandit_grant('deda', 'public')});
compare('a reset');
publish($others);
compare('since the reset');
publish(q{SELECT bandit_drop('new'); SELECT bandit_create('new', '{a,b,c}', 'dada'); CALL play('new', 5)});
compare('another of the same name');
publish(q{SELECT bandit_create('gone', '{a,b}', 'dada'); CALL play('gone', 5)});
compare('one more');
publish(q{SELECT bandit_drop('gone')});
compare('and it is gone');

# Rows of the log that somebody changes by hand, or removes
publish(q{UPDATE dexp3.feedback SET estimate = estimate + 1 WHERE bandit_id = 1});
compare('rows that are changed');
publish(q{DELETE FROM dexp3.feedback WHERE bandit_id = 2 AND delay > 0});
compare('rows that are gone');

#
# Alone: the subscriber goes on.
#

foreach my $database (@databases)
{
	my $warm = $warm{$database};
	my $before = $subscriber->safe_psql($database, $states);
	my $last_id = $publisher->safe_psql($database, 'SELECT max(decision_id) FROM dexp3.decision');
	my $last_bandit = $publisher->safe_psql($database, 'SELECT last_value FROM dexp3.bandit_id_seq');
	my $wanted = $subscriber->safe_psql($database, 'SELECT min(decision_id) FROM dexp3.pending');

	$subscriber->safe_psql($database, "DROP SUBSCRIPTION $database");
	same_states($warm->query_safe($states), $before, "$database, alone, the warm session");

	# Decisions are what they were: open, settled, or skipped.
	is($warm->query_safe("SELECT bandit_feedback($wanted, 0.5)"), 'applied', "$database: an open decision can be settled");
	is($subscriber->safe_psql($database, "SELECT bandit_feedback($wanted, 0.5)"), 'duplicate', "$database: once");
	my $settle_all = q{
SELECT outcome, count(*) FROM (SELECT bandit_feedback(decision_id, 0.25) AS outcome FROM dexp3.decision) f GROUP BY outcome ORDER BY outcome};
	$publisher->safe_psql($database, "SELECT bandit_feedback($wanted, 0.5)");
	is( $subscriber->safe_psql($database, $settle_all),
		$publisher->safe_psql($database, $settle_all),
		"$database: what feedback comes to is as on the publisher");
	same_states($warm->query_safe($states), $publisher->safe_psql($database, $states), "$database, all settled");

	# New identifiers, at the first attempt
	is( $subscriber->safe_psql(
			$database, "SELECT min(decision_id) > $last_id FROM (SELECT (bandit_choose(name)).decision_id FROM dexp3.bandit) d"),
		't', "$database: identifiers of decisions do not repeat");
	is($subscriber->safe_psql($database, q{SELECT bandit_create('another', '{a,b}', 'dada') > } . $last_bandit),
		't', "$database: nor those of bandits");

	# It goes on, with checkpoints of its own.
	$warm->query_safe($choose_all);
	$subscriber->safe_psql($database,
		q{SELECT count(bandit_feedback(decision_id, 0.5)) FROM generate_series(1, 700) i, bandit_choose_each('another', i)});
	$subscriber->safe_psql($database, q{SELECT format('SELECT bandit_choose(%L)', name) FROM dexp3.bandit \gexec});
	cmp_ok($subscriber->safe_psql($database, 'SELECT count(*) FROM dexp3.checkpoint'),
		'>', 1, "$database: the subscriber has checkpoints");
	my $after = $subscriber->safe_psql($database, $states);
	same_states($warm->query_safe($states), $after, "$database, later, the warm session");
	$subscriber->safe_psql($database, 'DELETE FROM dexp3.checkpoint');
	same_states($subscriber->safe_psql($database, $states), $after, "$database, later, from the whole log");

	$warm->quit;
	$open{$database}->quit;
}

#
# One bandit of several.  Rows of the log can only be filtered if deletions are not
# published: they are identified by decision_id alone.
#

create_database('one');
$_->safe_psql('one', 'CREATE EXTENSION dexp3') foreach ($publisher, $subscriber);
$publisher->safe_psql(
	'one', q{
SELECT bandit_create('private', '{a,b}', 'dada'), bandit_create('shared', '{a,b}', 'dada');
CREATE PUBLICATION bandits FOR TABLE dexp3.bandit_rows WHERE (bandit_id = 2);
CREATE PUBLICATION log FOR TABLE dexp3.decision_rows WHERE (bandit_id = 2), dexp3.feedback_rows WHERE (bandit_id = 2)
    WITH (publish = 'insert');
CREATE PROCEDURE play(rounds integer) LANGUAGE sql AS $$
    SELECT bandit_feedback(decision_id, 0.25) FROM dexp3.bandit, generate_series(1, rounds) i, bandit_choose_each(name, i)
$$;
CALL play(5);
});
subscribe('one', 'bandits', 'log');
$publisher->safe_psql('one', 'CALL play(5)');
$publisher->wait_for_catchup('one');
same_states($subscriber->safe_psql('one', $states),
	$publisher->safe_psql('one', $states =~ s/ORDER/WHERE name = 'shared' ORDER/r), 'one bandit');
$publisher->safe_psql('one', q{SELECT bandit_reset('shared'), bandit_reset('private'); CALL play(3)});
$publisher->wait_for_catchup('one');
same_states($subscriber->safe_psql('one', $states),
	$publisher->safe_psql('one', $states =~ s/ORDER/WHERE name = 'shared' ORDER/r), 'one bandit, reset');
$publisher->safe_psql('one', q{SELECT bandit_drop('shared'), bandit_drop('private')});
$publisher->wait_for_catchup('one');
is($subscriber->safe_psql('one', 'SELECT count(*) FROM dexp3.bandit'), 0, 'one bandit, dropped');
# Its rows stay, and are nobody's.
is($subscriber->safe_psql('one', q{SELECT bandit_create('shared', '{a,b}', 'dada')}), 3, 'another of the same name');
is($subscriber->safe_psql('one', q{SELECT bandit_current_state('shared') = bandit_new(2, 'dada')}), 't', 'it is new');
$subscriber->safe_psql('one', 'DROP SUBSCRIPTION one');

#
# The application's table: the bandit is on the subscriber, outcomes come from a
# publisher that knows nothing about it.  There are five tables with five kinds of
# triggers, and in each the rows
#   1  there before the subscription, with a loss
#   2  there before, the loss comes later
#   3  inserted later, with a loss
#   4  inserted later, the loss comes in the same transaction
#

my @tables = qw(origin_row origin_statement replica_row always_row always_statement);

create_database('shop');
foreach my $node ($publisher, $subscriber)
{
	$node->safe_psql('shop', "CREATE TABLE $_ (decision bigint PRIMARY KEY, loss float8)") foreach @tables;
}
$subscriber->safe_psql(
	'shop', q{
CREATE EXTENSION dexp3;
SELECT bandit_create('shop', '{a,b}', 'dada', skipping => false);
SELECT bandit_choose('shop') FROM generate_series(1, 60);
});
foreach my $table (@tables)
{
	my ($mode, $kind) = split /_/, $table;
	my @triggers = ('AFTER INSERT OR UPDATE ON %s FOR EACH ROW');

	@triggers = (
		'AFTER INSERT ON %s REFERENCING NEW TABLE AS new FOR EACH STATEMENT',
		'AFTER UPDATE ON %s REFERENCING OLD TABLE AS old NEW TABLE AS new FOR EACH STATEMENT')
	  if $kind eq 'statement';
	for my $i (0 .. $#triggers)
	{
		$subscriber->safe_psql('shop',
			    sprintf("CREATE TRIGGER t$i $triggers[$i] ", $table)
			  . q{EXECUTE FUNCTION bandit_feedback_trigger('decision', 'loss')});
		$subscriber->safe_psql('shop', "ALTER TABLE $table ENABLE $mode TRIGGER t$i") if $mode ne 'origin';
	}
}

# Run a statement for each TABLE, whose decisions come after FIRST.
sub publish_outcomes
{
	my ($sql) = @_;

	for my $i (0 .. $#tables)
	{
		(my $statement = $sql) =~ s/TABLE/$tables[$i]/g;
		$statement =~ s/FIRST/10 * $i/eg;
		$publisher->safe_psql('shop', $statement);
	}
	return;
}

publish_outcomes('INSERT INTO TABLE VALUES (FIRST + 1, 0.1), (FIRST + 2, NULL)');
$publisher->safe_psql('shop', 'CREATE PUBLICATION pub FOR ALL TABLES');
subscribe('shop', 'pub');
my $shop_warm = $subscriber->background_psql('shop');
my $outstanding = q{SELECT bandit_current_state('shop')::jsonb ->> 'outstanding'};
is($shop_warm->query_safe($outstanding), 57, 'three outcomes count in the initial copy');

publish_outcomes(
	'UPDATE TABLE SET loss = 0.2 WHERE decision = FIRST + 2;
	INSERT INTO TABLE VALUES (FIRST + 3, 0.3);
	BEGIN; INSERT INTO TABLE VALUES (FIRST + 4, NULL); UPDATE TABLE SET loss = 0.4 WHERE decision = FIRST + 4; COMMIT;
	UPDATE TABLE SET loss = 0.9');
$publisher->wait_for_catchup('shop');
for my $i (0 .. $#tables)
{
	my $settled = $subscriber->safe_psql('shop',
		"SELECT string_agg(decision_id - 10 * $i || ': ' || loss, ', ' ORDER BY decision_id)
		 FROM dexp3.feedback WHERE decision_id BETWEEN 10 * $i AND 10 * $i + 9");
	my %expected = (
		# ordinary triggers are for those who write here
		origin_row => '',
		origin_statement => '',
		replica_row => '1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4',
		always_row => '1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4',
		# The initial copy is a statement, what is streamed is not.
		always_statement => '1: 0.1');

	is($subscriber->safe_psql('shop', "SELECT count(loss) FROM $tables[$i]"), 4, "$tables[$i]: all rows are there");
	is($settled, $expected{ $tables[$i] }, "$tables[$i]: outcomes that count");
}
is($shop_warm->query_safe($outstanding), 51, 'a session sees what arrives');

# A session that writes to the table on the subscriber fires the others.
$subscriber->safe_psql('shop', join ';', map { "INSERT INTO $tables[$_] VALUES (10 * $_ + 5, 0.5)" } 0 .. $#tables);
is( $subscriber->safe_psql('shop', 'SELECT string_agg((decision_id / 10)::text, $$ $$ ORDER BY 1) FROM dexp3.feedback WHERE loss = 0.5'),
	'0 1 3 4', 'rows that are written on the subscriber itself');
$shop_warm->quit;
$subscriber->safe_psql('shop', 'DROP SUBSCRIPTION shop');

# Nothing has gone wrong on the way.  From 16 on, PostgreSQL itself warns of a leak when
# a subscription fires triggers of a partition for rows that were published by way of
# the partitioned table: any such trigger will do.
my $expected = 'terminating .* due to administrator';
$expected .= '|(?:relcache reference leak|resource was not closed): relation "\w+_rows"'
  if $subscriber->pg_version >= 16;
foreach my $node ($publisher, $subscriber)
{
	my @bad = grep { /\b(?:ERROR|FATAL|PANIC|TRAP|WARNING):/ && !/$expected/ }
	  split /\n/, slurp_file($node->logfile);
	is(join("\n", @bad), '', 'no errors in the log of the ' . $node->name);
	$node->stop;
}
done_testing();
