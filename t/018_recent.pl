# The newest rows of the log in shared memory.  With assertions on, every session
# compares their number with that in the log, in all tests; here are the cases in which
# they must not be used, or cannot be made.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('recent');
$node->init;
$node->append_conf('postgresql.conf', "fsync = off\nmax_prepared_transactions = 2\nmax_connections = 20\n");
$node->start;
$node->safe_psql('postgres', q{CREATE EXTENSION dexp3; SELECT bandit_create('b', '{a,b,c}', skipping => false)});

my $ring = q{SELECT count(*) FROM pg_shmem_allocations WHERE name = 'dexp3 recent rows'};
my $rounds = q{SELECT bandit_current_state('b')::jsonb -> 'round'};

# What a session says of the bandit is what the log says.
sub agrees
{
	my ($session, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( $session->query_safe(q{SELECT bandit_replay('b')}), 't', $name);
	is( $session->query_safe($rounds),
		$node->safe_psql('postgres', 'SELECT count(*) FROM dexp3.decision WHERE bandit_id = 1'),
		"$name: rounds");
	return;
}

my $reader = $node->background_psql('postgres');
my $writer = $node->background_psql('postgres');
is($reader->query_safe($ring), 0, 'not there before it is used');
$reader->query_safe(q{SELECT bandit_choose('b')});
$writer->query_safe(q{SELECT bandit_choose('b')});
is($reader->query_safe($ring), 1, 'there is one ring');
agrees($reader, 'one row');

# Rows that are not there: many, some that are copied in, and those of a savepoint
$writer->query_safe(q{SELECT count(*) FROM bandit_choose_many('b', 1000)});
agrees($reader, 'many rows');
$writer->query_safe(q{
CREATE TABLE copy AS SELECT * FROM dexp3.decision WHERE round <= 2;
UPDATE copy SET decision_id = decision_id + 1000000;
INSERT INTO dexp3.decision SELECT * FROM copy});
agrees($reader, 'rows that arrive');
$writer->query_safe(q{
BEGIN;
SELECT bandit_choose('b');
SAVEPOINT s;
SELECT bandit_choose('b') FROM generate_series(1, 3);
ROLLBACK TO s;
SELECT bandit_choose('b');
SAVEPOINT s;
SELECT bandit_choose('b') FROM generate_series(1, 2);
COMMIT});
agrees($reader, 'savepoints');
$writer->query_safe(q{BEGIN; SELECT bandit_choose('b'); ROLLBACK});
agrees($reader, 'rollback');

# Rows that are there no more when their transaction commits
$writer->query_safe(q{BEGIN; SELECT bandit_choose('b') FROM generate_series(1, 10)});
$node->safe_psql('postgres', q{SELECT bandit_choose('b')}) foreach 1 .. 2;
agrees($reader, 'while a transaction is open');
$node->safe_psql('postgres', q{SELECT bandit_choose('b') FROM generate_series(1, 300)});
agrees($reader, 'after more rows than there is room for');
$writer->query_safe('COMMIT');
agrees($reader, 'after it has committed');

# Rows of a prepared transaction
$writer->query_safe(q{
UPDATE copy SET decision_id = decision_id + 1000000;
BEGIN;
INSERT INTO dexp3.decision SELECT * FROM copy;
PREPARE TRANSACTION 'arrival'});
agrees($reader, 'while a transaction is prepared');
$node->safe_psql('postgres', q{SELECT bandit_choose('b')}) foreach 1 .. 2;
agrees($reader, 'and others go on');
$node->safe_psql('postgres', q{COMMIT PREPARED 'arrival'});
agrees($reader, 'after it has committed');

# A bandit that is dropped, and put back with its rows
$writer->query_safe(q{
CREATE TABLE saved AS SELECT * FROM dexp3.bandit;
CREATE TABLE saved_decision AS SELECT * FROM dexp3.decision;
SELECT bandit_drop('b');
INSERT INTO dexp3.bandit SELECT * FROM saved;
INSERT INTO dexp3.decision SELECT * FROM saved_decision});
agrees($reader, 'put back');

# A bandit of the same number in another database
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', q{CREATE EXTENSION dexp3; SELECT bandit_create('b', '{a,b,c}')});
my $other = $node->background_psql('other');
$other->query_safe(q{SELECT bandit_choose('b')});
$writer->query_safe(q{SELECT bandit_choose('b')});
is($other->query_safe($rounds), 1, 'another database is another bandit');
agrees($reader, 'and it is none of ours');

$_->quit foreach ($reader, $writer, $other);
$node->stop;

# No shared memory is left: it goes without.  Locks take what there is.
$node->start;
$node->psql('postgres', 'SELECT count(pg_advisory_lock(i)) FROM generate_series(1, 10000000) i', stderr => \my $error);
like($error, qr/out of shared memory/, 'shared memory is used up');
$reader = $node->background_psql('postgres');
$writer = $node->background_psql('postgres');
foreach my $i (1 .. 3)
{
	$writer->query_safe(q{SELECT bandit_feedback(decision_id, 0.5) FROM bandit_choose('b')});
	agrees($reader, "without the ring, $i");
}
is($reader->query_safe($ring), 0, 'there is none');

$_->quit foreach ($reader, $writer);
$node->stop;
done_testing();
