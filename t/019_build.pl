# The sums that all sessions share are made anew all the time, while many clients
# write: one session throws them away again and again, there is room for only two of
# them, and the server crashes.  At the end the sums, the log and what the clients were
# told agree: nothing is lost, nothing counts twice.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Dexp3;
use Storm;

my $seconds = 7;
my @bandits = qw(plain skipping window deda both);

my $node = new_node(
	'build',
	statement_timeout => '60s',
	autovacuum_naptime => '1s',
	'dexp3.shared_memory' => '6kB');

install_records($node);
$node->safe_psql(
	'postgres', q{
SELECT bandit_create('plain', '{a,b,c}'),
       bandit_create('skipping', '{a,b,c}', 'dada', patience => 5),
       bandit_create('window', '{a,b,c}', 'dada-ix', skipping => false, feedback_window => '100 ms', missing_loss => 0.5),
       bandit_create('deda', '{a,b,c}', 'deda', max_delay => 40),
       bandit_create('both', '{a,b,c}', 'dada-ix', feedback_window => '100 ms', missing_loss => 0.5);

-- Throws all sums away, and all checkpoints.
CREATE TABLE stop ();
CREATE PROCEDURE invalidate() LANGUAGE plpgsql AS $$
BEGIN
    WHILE NOT EXISTS (SELECT FROM stop) LOOP
        UPDATE dexp3.feedback SET loss = loss WHERE false;
        COMMIT;
        PERFORM pg_sleep(0.03 * random() ^ 3);
        COMMIT;
    END LOOP;
END
$$;

-- The newest decision comes again from elsewhere, so that the sums of its bandit
-- are thrown away.
CREATE FUNCTION arrive(name text) RETURNS void LANGUAGE sql AS $$
    WITH new AS (
        INSERT INTO dexp3.decision
        SELECT (jsonb_populate_record(d, jsonb_build_object('decision_id', nextval('dexp3.decision_id_seq')))).*
        FROM dexp3.decision d
        WHERE d.decision_id = (SELECT max(decision_id) FROM dexp3.decision JOIN dexp3.bandit b USING (bandit_id)
                               WHERE b.name = arrive.name)
        RETURNING decision_id)
    INSERT INTO chosen SELECT decision_id FROM new
$$;
});

#
# The clients' transactions, as pgbench scripts.  Others' decisions are settled first, in
# order, so that there are no deadlocks.
#

my $begin = q{
\set number random(1, 5)
\set loss random(0, 1000000000)
SELECT (ARRAY['plain', 'skipping', 'window', 'deda', 'both'])[:number] AS bandit \gset
};
my $others = q{
SELECT recent(':bandit', true) AS first \gset
SELECT recent(':bandit', true, :first) AS second \gset
BEGIN;
} . $feedback_in_savepoints;
my @clients = clients(
	$node, 'build', $begin,
	'choose@4' => q{SELECT choose(':bandit');},
	'many@1' => q{INSERT INTO chosen SELECT decision_id FROM bandit_choose_many(':bandit', 30);},
	'own@6' => q{
INSERT INTO chosen SELECT decision_id FROM bandit_choose(':bandit') RETURNING decision_id AS mine \gset
SELECT give(:mine, :loss / 1e9);
},
	'savepoints@6' => qq{$others $choices_in_savepoints COMMIT;},
	'rollback@3' => qq{
$others
SELECT choose(':bandit');
SELECT choose(':bandit');
ROLLBACK;
},
	'arrival@1' => q{SELECT arrive(':bandit');},
	'verify@1' => q{SELECT 1 / bandit_verify(':bandit')::int;});

sub start_to_invalidate
{
	my $session = $node->background_psql('postgres');

	$session->query_until(qr/begins/, "\\echo begins\nCALL invalidate();\n");
	return $session;
}

# The server crashes in the middle.
my $invalidator = start_to_invalidate();
storm_and_crash($node, $seconds, @clients);
$invalidator->{run}->finish;
$node->start;
check_sums($node, 'after a crash', @bandits);

$invalidator = start_to_invalidate();
storm($node, $seconds, 'no client fails', @clients);
$node->safe_psql('postgres', 'INSERT INTO stop DEFAULT VALUES');
$invalidator->query_safe('SELECT 1');
$invalidator->quit;
check_sums($node, 'after the storm', @bandits);

# Now with room for all, and then without any checkpoint
$node->append_conf('postgresql.conf', q{dexp3.shared_memory = '64MB'});
$node->reload;
storm($node, 3, 'no client fails when there is room', @clients);
check_sums($node, 'when there is room', @bandits);

# No decision was forgotten: all that have missed their feedback, or have been open for
# too long, are settled in the end.  Those that were made at the same time need not be in
# order.
is( $node->safe_psql(
		'postgres', q{
SELECT FROM pg_sleep(0.2);
SELECT FROM bandit_expire();
SELECT count(*) FROM dexp3.pending WHERE bandit IN ('window', 'both')}),
	0, 'none is open for longer than the window');
is( $node->safe_psql(
		'postgres', q{
SELECT FROM generate_series(1, 1000) WHERE choose('skipping') IS NULL;
SELECT count(*)
FROM dexp3.pending p,
     (SELECT max(round) AS newest, sqrt(sum(outstanding) / ln(3)) AS patience
      FROM dexp3.decision JOIN dexp3.bandit USING (bandit_id) WHERE name = 'skipping') d
WHERE p.bandit = 'skipping' AND p.round < newest - greatest(patience, 5) - 100}),
	0, 'none is open for too many rounds');
check_sums($node, 'after that', @bandits);
$node->safe_psql('postgres', 'DELETE FROM dexp3.checkpoint');
$node->restart;
check_sums($node, 'after a restart without checkpoints', @bandits);

# Autovacuum may be in the way of the session that throws checkpoints away.
my @bad = grep { /\b(?:ERROR|PANIC|TRAP|deadlock)\b/ && !/canceling autovacuum task/ }
  split /\n/, slurp_file($node->logfile);
is(join("\n", @bad), '', 'no errors in the server log');

$node->stop;
done_testing();
