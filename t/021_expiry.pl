# Feedback at the very moment at which its decision expires, from many clients, with
# windows of milliseconds; with rollbacks, savepoints and a crash.  At the end what the
# clients were told, the log and the sums agree: feedback that was applied counts with
# its loss, all other decisions have expired, each of them once.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Dexp3;
use Storm;

my $seconds = 6;
my @bandits = ('tuned', 'exploring', 'both', 'deda', 'at once');

my $node = new_node(
	'expiry',
	statement_timeout => '60s',
	autovacuum_naptime => '1s');

install_records($node);
$node->safe_psql(
	'postgres', q{
SELECT bandit_create('tuned', '{a,b,c}', feedback_window => '15 ms'),
       bandit_create('exploring', '{a,b,c}', 'dada-ix', feedback_window => '25 ms', missing_loss => 0.5),
       bandit_create('both', '{a,b,c}', 'dada', skipping => true, patience => 20, feedback_window => '20 ms'),
       bandit_create('deda', '{a,b,c}', 'deda', max_delay => 40, feedback_window => '15 ms'),
       bandit_create('at once', '{a,b,c}', feedback_window => '0');

-- Somebody's decision that expires about now, after the given one; 0 if there is
-- none
CREATE FUNCTION about_due(bandit text, after bigint DEFAULT 0) RETURNS bigint LANGUAGE sql AS $$
    SELECT coalesce((
        SELECT decision_id
        FROM dexp3.decision d JOIN dexp3.bandit b USING (bandit_id)
        WHERE decision_id > (SELECT last_value - 2000 FROM dexp3.decision_id_seq) AND decision_id > after
          AND b.name = bandit AND d.decided_at > clock_timestamp() - b.feedback_window * (1 + 0.3 * random())
        ORDER BY decision_id LIMIT 1), 0)
$$;
});

#
# The clients' transactions, as pgbench scripts.  Others' decisions are settled first, in
# order, so that there are no deadlocks.
#

my $begin = q{
\set number random(1, 10)
\set loss random(0, 1000000000)
SELECT (ARRAY['tuned', 'tuned', 'tuned', 'tuned', 'exploring', 'exploring', 'exploring', 'both', 'deda', 'at once'])[:number] AS bandit \gset
};
my $others = q{
SELECT about_due(':bandit') AS zeroth \gset
SELECT about_due(':bandit', :zeroth) AS first \gset
SELECT about_due(':bandit', greatest(:zeroth, :first)) AS second \gset
BEGIN;
\if :zeroth > 0
SELECT give(:zeroth, :loss / 1e9);
\endif
} . $feedback_in_savepoints;
my @clients = clients(
	$node, 'expiry', $begin,
	'choose@12' => q{SELECT choose(':bandit');},
	'many@1' => q{INSERT INTO chosen SELECT decision_id FROM bandit_choose_many(':bandit', 70);},

	# its own, when it expires
	'edge@12' => q{
\set wait random(10000, 30000)
INSERT INTO chosen SELECT decision_id FROM bandit_choose(':bandit') RETURNING decision_id AS mine \gset
\sleep :wait us
SELECT give(:mine, :loss / 1e9);
},
	'others@6' => qq{$others COMMIT;},
	'savepoints@4' => qq{
$others
SELECT choose(':bandit');
SAVEPOINT c;
SELECT choose(':bandit');
ROLLBACK TO c;
SELECT choose(':bandit');
COMMIT;
},
	'rollback@3' => qq{
$others
SELECT choose(':bandit');
SELECT bandit_expire(':bandit');
ROLLBACK;
},
	'expire@2' => qq{
$others
SAVEPOINT c;
SELECT bandit_expire(':bandit');
ROLLBACK TO c;
SELECT choose(':bandit');
SAVEPOINT d;
SELECT bandit_expire(':bandit');
RELEASE d;
COMMIT;
},
	'verify@1' => q{SELECT 1 / bandit_verify(':bandit')::int;});

# What the clients were told, the log, and the sums agree.
sub check
{
	my ($when) = @_;

	$node->safe_psql('postgres', 'ANALYZE');
	check_sums($node, $when, @bandits);
	is($node->safe_psql('postgres', 'SELECT strays()'), 0, "$when: nothing was settled twice");
	return;
}

# The server crashes in the middle.
storm_and_crash($node, $seconds, @clients);
$node->start;
check('after a crash');

# Now the entries in shared memory, where batches are noted, are thrown away and made anew
# all the time: there is room for two of them.
$node->append_conf('postgresql.conf', q{dexp3.shared_memory = '6kB'});
$node->reload;
storm($node, $seconds, 'no client fails', @clients);
check('after the storm');

# It was about the moment of expiry: both sides have won many times, and most that
# has expired has done so together with others.
note($node->safe_psql('postgres', q{
SELECT name, count(*), sum(cardinality(decisions)), max(cardinality(decisions)),
       (SELECT count(*) FROM dexp3.feedback f WHERE f.bandit_id = b.bandit_id AND expired) AS alone
FROM dexp3.bandit b LEFT JOIN dexp3.expiry USING (bandit_id) GROUP BY b.bandit_id, name ORDER BY name}));
is( $node->safe_psql(
		'postgres', q{
SELECT (SELECT count(*) > 100 FROM given WHERE outcome = 'applied'),
       (SELECT count(*) > 100 FROM given WHERE outcome = 'expired'),
       (SELECT sum(cardinality(decisions)) > 3 * count(*) FROM dexp3.expiry JOIN dexp3.bandit USING (bandit_id) WHERE name = 'tuned'),
       (SELECT max(cardinality(decisions)) BETWEEN 20 AND 200 FROM dexp3.expiry)}),
	't|t|t|t', 'both feedback and expiry were quicker, many times');

# No decision was forgotten.
is( $node->safe_psql(
		'postgres', q{
SELECT FROM pg_sleep(0.1);
SELECT FROM bandit_expire();
SELECT count(*) FROM dexp3.pending}),
	0, 'none is open for longer than the window');
is( $node->safe_psql(
		'postgres', q{
SELECT count(*)
FROM chosen c LEFT JOIN (SELECT decision_id FROM given WHERE outcome = 'applied') g USING (decision_id)
LEFT JOIN settlement s USING (decision_id)
WHERE CASE WHEN g.decision_id IS NULL THEN s.loss IS NOT NULL AND s.expired IS NOT TRUE ELSE s.expired END
   OR s.decision_id IS NULL}),
	0, 'what was not applied has expired, or was skipped');

# The same from the log alone
$node->safe_psql('postgres', 'DELETE FROM dexp3.checkpoint');
$node->restart;
check('after a restart without checkpoints');

# A transaction that has removed a batch makes the entry anew, and is rolled back: the batch
# is there for all others, and is not forgotten.
$node->safe_psql(
	'postgres', q{
SELECT bandit_create('trimmed', '{a,b}', feedback_window => '0', retention => '0'),
       bandit_create('one', '{a,b}'), bandit_create('two', '{a,b}'), bandit_create('three', '{a,b}');
SELECT bandit_choose('trimmed') FROM generate_series(1, 3);
});
my $expired = $node->safe_psql(
	'postgres', q{
SELECT FROM bandit_expire('trimmed');
SELECT decisions[2] FROM dexp3.expiry JOIN dexp3.bandit USING (bandit_id) WHERE name = 'trimmed'});
for my $end ('ROLLBACK', 'COMMIT')
{
	my $session = $node->background_psql('postgres');

	$session->query_safe(q{BEGIN; SELECT bandit_trim('trimmed')});
	# there is no room for all of them
	$node->safe_psql('postgres', qq{SELECT FROM bandit_choose('$_')}) for (qw(one two three) x 2);
	$session->query_safe(q{SELECT FROM bandit_probabilities('trimmed')});
	$session->query_safe($end) if $end eq 'ROLLBACK';
	is($node->safe_psql('postgres', "SELECT bandit_feedback($expired, 0)"),
		'expired', "feedback for what a transaction has removed, before its $end or after it");
	$session->query_safe($end) if $end eq 'COMMIT';
	$session->quit;
	is($node->safe_psql('postgres', q{SELECT bandit_verify('trimmed')}), 't', "the log agrees after $end");
}

is( join("\n", grep { /\b(?:ERROR|PANIC|TRAP|deadlock)\b/ } split /\n/, slurp_file($node->logfile)),
	'', 'no errors in the server log');

$node->stop;
done_testing();
