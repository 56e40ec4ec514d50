# The sums that all sessions share.  Whatever one session does, the others agree with
# the log after its commit; also where sums must be made anew, are just being made, or
# cannot be shared.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Dexp3 qw(new_node install_records);

# Shared memory that is made later is in files then, the size of which we can see.
my $node = new_node(
	'shared',
	max_prepared_transactions => 4,
	max_connections => 20,
	dynamic_shared_memory_type => 'mmap');
my @bandits = qw(plain skipping window deda);
my $copied = $node->basedir . '/copied';

my $create = q{
SELECT bandit_create('plain', '{a,b,c}'),
       bandit_create('skipping', '{a,b,c}', 'dada', patience => 5),
       bandit_create('window', '{a,b,c}', 'dada-ix', skipping => false, feedback_window => '1 hour'),
       bandit_create('deda', '{a,b,c}', 'deda', max_delay => 10);
};

# Decisions come again under other identifiers, with feedback for some.
my $tables = q{
CREATE TABLE d AS SELECT * FROM dexp3.decision;
CREATE TABLE f AS SELECT * FROM dexp3.feedback;
};
my $again = q{
SELECT last_value AS newest FROM dexp3.decision_id_seq \gset
DELETE FROM d;
DELETE FROM f;
INSERT INTO d SELECT DISTINCT ON (bandit_id, round) * FROM dexp3.decision WHERE round <= 4 ORDER BY bandit_id, round;
INSERT INTO f SELECT * FROM dexp3.feedback WHERE decision_id IN (SELECT decision_id FROM d WHERE round % 3 > 0);
UPDATE d SET decision_id = decision_id + :newest + 1000000;
UPDATE f SET decision_id = decision_id + :newest + 1000000;
};
my $arrive = 'INSERT INTO dexp3.decision SELECT * FROM d; INSERT INTO dexp3.feedback SELECT * FROM f;';

# A round of each bandit
my $round =
  q{SELECT bandit_feedback(decision_id, 0.25) FROM dexp3.bandit b, bandit_choose_each(b.name, b.bandit_id);};

# What a session says of the bandits is what the log says.
sub agrees
{
	my ($session, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( $session->query_safe(q{
SELECT string_agg(name || ' ' || bandit_verify(name) || differences(folded(name), learned(name)), ', ' ORDER BY bandit_id)
FROM dexp3.bandit}),
		join(', ', map { "$_ true" } @bandits),
		$name);
	return;
}

my ($reader, $writer, $third);

sub connect_all
{
	($reader, $writer, $third) = map { $node->background_psql('postgres', on_error_stop => 0) } 1 .. 3;
	$reader->query_safe($round);
	return;
}

sub disconnect_all
{
	$_->quit foreach ($reader, $writer, $third);
	return;
}

# Are there sums of a bandit in shared memory?  To make them a session needs a table
# that is locked.
sub are_shared
{
	my ($bandit, $expected, $name) = @_;

	$third->query_safe('BEGIN; LOCK TABLE dexp3.checkpoint');
	my ($status) = $node->psql('postgres',
		"SET lock_timeout = '100ms'; SELECT count(*) FROM bandit_probabilities('$bandit')");
	$third->query_safe('ROLLBACK');
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($status == 0 ? 'yes' : 'no', $expected, $name);
	return;
}

# Let everything be made anew.
sub invalidate
{
	$node->safe_psql('postgres', 'UPDATE dexp3.feedback SET loss = loss WHERE false');
	return;
}

#
# One session writes, another reads
#

install_records($node);
$node->safe_psql('postgres', $create . $tables);
my $allocated = q{SELECT count(*) FROM pg_shmem_allocations WHERE name = 'dexp3 sums'};
is($node->safe_psql('postgres', $allocated), 0, 'nothing is there before it is used');
connect_all();
is($reader->query_safe($allocated), 1, 'then there is one piece of shared memory');
are_shared($_, 'yes', "$_: sums are shared") foreach @bandits;

foreach my $turn (
	[ 'a round', $round ],
	[ 'open decisions', q{SELECT count(bandit_choose_each(name, bandit_id)) FROM dexp3.bandit, generate_series(1, 7)} ],
	[ 'a rollback', "BEGIN; $round $round ROLLBACK" ],
	[ 'an error', "BEGIN; $round SELECT 1 / 0; COMMIT" ],
	[ 'savepoints', qq{
BEGIN;
$round
SAVEPOINT a;
$round
ROLLBACK TO a;
$round
SAVEPOINT b;
$round
SAVEPOINT c;
$round
RELEASE b;
SAVEPOINT d;
$round
SAVEPOINT e;
$round
RELEASE e;
ROLLBACK TO d;
COMMIT} ],
	[ 'many in one statement', q{SELECT count(*) FROM dexp3.bandit, bandit_choose_many(name, 700)} ],
	[ 'feedback for many',
		q{SELECT count(bandit_feedback(decision_id, random())) FROM dexp3.decision WHERE round % 2 = 1} ],
	[ 'as many, rolled back', q{BEGIN; SELECT count(*) FROM dexp3.bandit, bandit_choose_many(name, 700); ROLLBACK} ])
{
	$writer->query($turn->[1]);
	$writer->{stderr} = '';
	agrees($reader, "after $turn->[0]");
	are_shared('deda', 'yes', 'nothing has to be folded for it');
}

foreach my $turn (
	[ 'rows that arrive', "$again $arrive" ],
	[ 'rows that arrive in vain', "$again BEGIN; $arrive ROLLBACK" ],
	[ 'rows that arrive, and some in vain', qq{
$again
BEGIN;
$round
SAVEPOINT a;
$arrive
ROLLBACK TO a;
$round
$arrive
$round
COMMIT} ],
	[ 'COPY', qq{
$again
COPY d TO '$copied.d';
COPY f TO '$copied.f';
COPY dexp3.decision FROM '$copied.d';
COPY dexp3.feedback FROM '$copied.f'} ],
	[ 'changes by hand', qq{
UPDATE dexp3.feedback SET estimate = estimate / 2 WHERE decision_id % 7 = 0;
DELETE FROM dexp3.feedback WHERE decision_id % 11 = 0} ],
	[ 'changes by hand in vain', qq{
BEGIN; UPDATE dexp3.feedback SET estimate = estimate / 2; $round ROLLBACK} ],
	[ 'VACUUM FULL', 'VACUUM FULL dexp3.decision, dexp3.feedback' ],
	[ 'CLUSTER', q{CLUSTER dexp3.decision_rows USING decision_log_idx; CLUSTER dexp3.feedback_rows USING feedback_rows_pkey} ],
	[ 'REINDEX', q{REINDEX TABLE dexp3.decision; REINDEX TABLE dexp3.feedback} ],
	[ 'a bandit that is dropped, and put back', q{
CREATE TABLE saved AS SELECT * FROM dexp3.bandit WHERE name = 'deda';
CREATE TABLE saved_decision AS SELECT d.* FROM dexp3.decision d JOIN saved USING (bandit_id);
CREATE TABLE saved_feedback AS SELECT f.* FROM dexp3.feedback f JOIN saved USING (bandit_id);
SELECT bandit_drop('deda');
INSERT INTO dexp3.bandit SELECT * FROM saved;
INSERT INTO dexp3.decision SELECT * FROM saved_decision;
INSERT INTO dexp3.feedback SELECT * FROM saved_feedback;
DROP TABLE saved, saved_decision, saved_feedback} ],
	[ 'a reset', q{SELECT bandit_reset('plain')} ],
	[ 'a reset in vain', qq{BEGIN; SELECT bandit_reset('skipping'); $round ROLLBACK} ],
	[ 'TRUNCATE', 'TRUNCATE dexp3.decision, dexp3.feedback' ])
{
	$reader->query_safe($round);
	$writer->query_safe($turn->[1]);
	agrees($reader, "after $turn->[0]");
	agrees($writer, 'the session itself');
	$writer->query_safe($round);
	agrees($reader, 'and after a round');
}
are_shared($_, 'yes', "$_: sums are shared again") foreach @bandits;

#
# While sums are being made
#

# The session that makes them stops at a table that is locked.
sub start_to_build
{
	my ($sql) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');

	$session->query_until(qr/begins/, "\\echo begins\n$sql;\n");
	$node->poll_query_until('postgres',
		"SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid");
	return ($session, $pid);
}

foreach my $memory ('64MB', '0')
{
	$node->append_conf('postgresql.conf', "dexp3.shared_memory = '$memory'");
	$node->reload;

	# Some transactions were open before, one of them is rolled back.
	my @open = map { $node->background_psql('postgres') } 1 .. 3;
	$_->query_safe("BEGIN; $round SAVEPOINT a; $round") foreach @open;
	$open[1]->query_safe('ROLLBACK TO a');
	invalidate();
	$third->query_safe('BEGIN; LOCK TABLE dexp3.checkpoint');
	my @builders = map { (start_to_build("SELECT bandit_choose('$_')"))[0] } (@bandits, @bandits);
	$open[0]->query_safe('COMMIT');
	$open[1]->query_safe('COMMIT');
	$open[2]->query_safe('ROLLBACK');
	$third->query_safe('COMMIT');
	$_->query_safe('SELECT 1') foreach @builders;
	agrees($reader, "$memory: commits while sums are being made");
	agrees($_, "$memory: one of those sessions") foreach ($builders[0], $builders[7], $open[0], $open[2]);
	$_->quit foreach (@builders, @open);
}
$node->append_conf('postgresql.conf', "dexp3.shared_memory = '64MB'");
$node->reload;

# The session that makes them is cancelled, with its whole transaction or to a
# savepoint, or it is ended.
foreach my $end (
	[ 'cancelled', 'pg_cancel_backend', q{SELECT bandit_choose('deda')} ],
	[ 'cancelled to a savepoint', 'pg_cancel_backend', q{
DO $$
BEGIN
    BEGIN
        PERFORM bandit_choose('deda');
    EXCEPTION WHEN query_canceled THEN
        PERFORM pg_sleep(2);
    END;
END
$$} ],
	[ 'terminated', 'pg_terminate_backend', q{SELECT bandit_choose('deda')} ])
{
	my ($name, $function, $sql) = @$end;

	invalidate();
	$third->query_safe('BEGIN; LOCK TABLE dexp3.checkpoint');
	my ($builder, $pid) = start_to_build($sql);
	$node->safe_psql('postgres', "SELECT $function($pid)");
	$node->poll_query_until('postgres',
		"SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid AND wait_event_type = 'Lock')");
	$third->query_safe('ROLLBACK');
	agrees($reader, "$name: others go on");
	are_shared('deda', 'yes', "$name: and make the sums");
	$builder->{run}->signal('KILL');
	$builder->{run}->finish;
}

#
# Transactions that are prepared
#

# Prepare arrivals, or changes by hand.
sub prepare
{
	my ($name, $sql) = @_;

	$node->safe_psql('postgres', "$again BEGIN; $sql PREPARE TRANSACTION '$name'");
	return;
}

# The sessions that end them need not know the extension.
my $by_hand = 'UPDATE dexp3.feedback SET estimate = estimate / 2 WHERE decision_id % 5 = 0;';
foreach my $what ([ 'arrival', $arrive ], [ 'change by hand', $by_hand ])
{
	my ($name, $sql) = @$what;

	foreach my $end ('COMMIT', 'ROLLBACK')
	{
		prepare('p', $sql);
		agrees($reader, "$name: while it is prepared");
		$writer->query_safe($round);
		agrees($reader, "$name: and others go on");
		$node->safe_psql('postgres', "$end PREPARED 'p'");
		agrees($reader, "$name: after $end PREPARED");
		$writer->query_safe($round);
		agrees($reader, "$name: and after a round");
	}
}

# Very many, while nobody looks
my $one = q{BEGIN; UPDATE dexp3.feedback SET loss = loss WHERE false; PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p';};
$node->safe_psql('postgres', "$one\n" x 1100);
agrees($reader, 'after many prepared transactions');

prepare('to be committed', $arrive);
prepare('to be rolled back', $arrive);
disconnect_all();
$node->restart;
connect_all();
agrees($reader, 'prepared before a restart');
$node->safe_psql('postgres', q{COMMIT PREPARED 'to be committed'});
agrees($reader, 'committed after it');
$node->safe_psql('postgres', q{ROLLBACK PREPARED 'to be rolled back'});
agrees($reader, 'rolled back after it');
prepare('to be committed', $arrive);
disconnect_all();
$node->stop('immediate');
$node->start;
$node->safe_psql('postgres', q{COMMIT PREPARED 'to be committed'});
connect_all();
agrees($reader, 'prepared before a crash, and committed before the first use');

# A change by hand is open, or prepared, while others write a checkpoint.
my $many = q{SELECT count(*) FROM dexp3.bandit, bandit_choose_many(name, 1500)};
$writer->query_safe("BEGIN; $by_hand");
$reader->query_safe($many) foreach 1 .. 2;
$writer->query_safe('COMMIT');
agrees($reader, 'a change by hand while others write a checkpoint');
prepare('p', $by_hand);
$reader->query_safe($many) foreach 1 .. 2;
$node->safe_psql('postgres', q{COMMIT PREPARED 'p'});
agrees($reader, 'and one that was prepared');

#
# Other databases, another installation
#

$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', "CREATE EXTENSION dexp3; $create");
my $other = $node->background_psql('other');
my $rounds = q{SELECT string_agg(bandit_current_state(name)::jsonb ->> 'round', ' ') FROM dexp3.bandit};
$other->query_safe($round);
$writer->query_safe($round);
is($other->query_safe($rounds), '1 1 1 1', 'another database has other bandits');
agrees($reader, 'and they are none of ours');
$other->query_safe("BEGIN; DROP EXTENSION dexp3; CREATE EXTENSION dexp3; $create COMMIT");
is($other->query_safe($rounds), '0 0 0 0', 'a new installation has new bandits');
$other->query_safe($round);
$node->safe_psql('other', $round);
is($other->query_safe($rounds), '2 2 2 2', 'which learn');
agrees($reader, 'and do not disturb ours');
$other->quit;

#
# Very many arms
#

my $large = q{SELECT bandit_verify('large'), bandit_current_state('large')::jsonb ->> 'round'};
$writer->query_safe(q{
SELECT bandit_create('large', array_agg(i::text), 'dada') FROM generate_series(1, 65535) i;
SELECT bandit_feedback(decision_id, 0.5) FROM bandit_choose_many('large', 20)});
is($reader->query_safe($large), 't|20', '65,535 arms');
$reader->query_safe(q{SELECT bandit_feedback(decision_id, 0.5) FROM bandit_choose('large')});
is($writer->query_safe($large), 't|21', 'and another round');
are_shared('large', 'yes', 'their sums are shared');
$writer->query_safe(q{SELECT bandit_drop('large')});

#
# Little shared memory
#

# The bandits take 8 MB.  The files are that of the server itself, and ours.
sub file_size
{
	my $size = 0;

	$size += -s $_ foreach glob($node->data_dir . '/pg_dynshmem/*');
	return $size;
}

disconnect_all();
$node->append_conf('postgresql.conf', 'dexp3.shared_memory = 0');
$node->restart;
connect_all();
my $size = file_size();
$writer->query_safe(q{
SELECT count(bandit_create('one of many ' || i, (SELECT array_agg(j::text) FROM generate_series(1, 100) j), 'dada'))
FROM generate_series(1, 1000) i});
foreach my $session ($writer, $reader, $writer)
{
	$session->query_safe(q{
SELECT count(bandit_feedback(decision_id, 0.5))
FROM generate_series(1, 1000) i, bandit_choose_each('one of many ' || i, i)});
}
is( $reader->query_safe(q{
SELECT count(*) FROM generate_series(1, 1000) i
WHERE bandit_current_state('one of many ' || i)::jsonb -> 'round' = '3' AND bandit_verify('one of many ' || i)}),
	1000, '1,000 bandits by turns, with room for one');
cmp_ok(file_size() - $size, '<', 1024 * 1024, 'they do not take more than they may');
$writer->query_safe(q{SELECT count(bandit_drop('one of many ' || i)) FROM generate_series(1, 1000) i});
agrees($reader, 'the others');

# Two bandits by turns, each of which throws the other's sums away: decisions still expire
# and are skipped, however many have been.
$writer->query_safe(q{
SELECT bandit_create('expiring', '{a,b}', feedback_window => '0'), bandit_create('skipping too', '{a,b}', 'dada', patience => 5);
DO $$
BEGIN
    FOR i IN 1 .. 1500 LOOP
        PERFORM bandit_choose('expiring');
        COMMIT;
        PERFORM CASE WHEN i % 10 > 0 THEN bandit_feedback(decision_id, 0.5) END FROM bandit_choose('skipping too');
        COMMIT;
    END LOOP;
END
$$});
cmp_ok($reader->query_safe(qq{SELECT open FROM dexp3.overview WHERE bandit = '$_'}), '<', 50, "$_, with room for one bandit")
  foreach ('expiring', 'skipping too');
$writer->query_safe(q{SELECT bandit_drop('expiring'), bandit_drop('skipping too')});

# An arm that is added, and not yet for the others: the entry has room for it, since the
# session that added it made the entry anew.
$writer->query_safe(q{BEGIN; SELECT bandit_add_arm('plain', 'd'); SELECT bandit_choose('deda'); SELECT bandit_choose('plain')});
$reader->query_safe(q{SELECT bandit_choose('plain')});
agrees($reader, 'while an arm is being added');
$writer->query_safe('ROLLBACK');
$reader->query_safe(q{SELECT bandit_choose('plain')});
agrees($reader, 'an arm that was not added after all');

# A session that has claimed a checkpoint and then sleeps does not keep others from
# writing one.
$node->append_conf('postgresql.conf', "dexp3.shared_memory = '64MB'");
$node->reload;
$writer->query_safe(q{SELECT count(bandit_feedback(decision_id, 0.5)) FROM bandit_choose_many('plain', 1000)});
$writer->query_safe(q{BEGIN; SELECT bandit_choose('plain')});
$reader->query_safe(q{SELECT count(bandit_feedback(decision_id, 0.5)) FROM bandit_choose_many('plain', 1000)}) foreach 1 .. 2;
$reader->query_safe(q{SELECT bandit_choose('plain')}) foreach 1 .. 2;
cmp_ok(
	$reader->query_safe(q{SELECT max(events) FROM dexp3.checkpoint JOIN dexp3.bandit USING (bandit_id) WHERE name = 'plain'}),
	'>', 5000, 'a checkpoint while another session sleeps over one');
$writer->query_safe('COMMIT');
agrees($reader, 'after that');

# No shared memory is left: it goes without.  Locks take what there is.
disconnect_all();
$node->restart;
$node->psql('postgres', 'SELECT count(pg_advisory_lock(i)) FROM generate_series(1, 10000000) i', stderr => \my $error);
like($error, qr/out of shared memory/, 'shared memory is used up');
connect_all();
foreach my $i (1 .. 3)
{
	$writer->query_safe($round);
	agrees($reader, "without shared memory, $i");
}
disconnect_all();

my @bad = grep { /\b(?:PANIC|TRAP|WARNING|deadlock)\b/ } split /\n/, slurp_file($node->logfile);
is(join("\n", @bad), '', 'nothing bad in the server log');

$node->stop;
done_testing();
