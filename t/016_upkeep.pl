# Retention and missing feedback while many sessions are at work: rows are removed
# while others read them, decisions expire while feedback for them arrives, and
# still everything counts exactly once.
#
# The retentions and windows are so short that rows are removed almost as soon as
# they are settled, by each choose that writes a checkpoint and by bandit_trim().

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Dexp3 qw(new_node);
use Storm;

my $seconds = 5;
my @bandits = qw(skipping exploring deda plain);

my $node = new_node('upkeep', statement_timeout => '120s', autovacuum_naptime => '1s');

$node->safe_psql(
	'postgres', q{
CREATE EXTENSION dexp3;
SELECT bandit_create('skipping', '{a,b,c}', 'dada', patience => 5, retention => '20 ms'),
       bandit_create('exploring', '{a,b,c}', 'dada-ix', retention => '20 ms', feedback_window => '50 ms', missing_loss => 0.5),
       bandit_create('deda', '{a,b,c}', 'deda', max_delay => 40, retention => '20 ms', feedback_window => '50 ms'),
       bandit_create('plain', '{a,b,c}', retention => '20 ms');

-- What the clients were told
CREATE TABLE chosen (bandit text, decision_id bigint);
CREATE TABLE given (bandit text, decision_id bigint, loss float8, outcome text);

-- What became of all decisions, those that are not in the log any more included
CREATE VIEW whole AS
SELECT o.bandit, bool_and(t.settled = 0 OR t.loss IS NOT NULL) AS sound, sum(t.decisions) AS decisions,
       sum(t.settled + t.left_out) AS settled, sum(t.open) AS open,
       o.total_loss AS loss     -- arm_totals leaves out losses while a window is open
FROM dexp3.overview o CROSS JOIN LATERAL dexp3.arm_totals(o.bandit) t
WHERE o.bandit IS NOT NULL GROUP BY o.bandit, o.total_loss;

-- How many decisions each row of dexp3.trimmed stands for
CREATE FUNCTION members(ranges int8multirange) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(sum(upper(r) - lower(r)), 0)::bigint FROM unnest(ranges) r
$$;
});

my $script = $node->basedir . '/clients.sql';
append_to_file(
	$script, q{
\set number random(1, 4)
\set loss random(0, 1000)
\set what random(1, 20)
SELECT (ARRAY['skipping', 'exploring', 'deda', 'plain'])[:number] AS bandit \gset
INSERT INTO chosen SELECT ':bandit', decision_id FROM bandit_choose(':bandit') RETURNING decision_id \gset
\if :what <= 14
INSERT INTO given SELECT ':bandit', :decision_id, :loss / 1000.0, bandit_feedback(:decision_id, :loss / 1000.0);
\endif
\if :what <= 3
INSERT INTO given SELECT ':bandit', :decision_id, 0, bandit_feedback(:decision_id, 0);
\elif :what = 4
SELECT bandit_trim(':bandit');
\elif :what = 5
BEGIN;
SELECT bandit_trim(':bandit');
SELECT bandit_expire(':bandit');
ROLLBACK;
\elif :what = 6
SELECT bandit_expire();
\elif :what = 7
SELECT 1 / bandit_verify(':bandit')::integer;
\elif :what = 15
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM dexp3.decision;
INSERT INTO chosen SELECT ':bandit', decision_id FROM bandit_choose(':bandit');
COMMIT;
\elif :what = 16
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO chosen SELECT ':bandit', decision_id FROM bandit_choose(':bandit');
COMMIT;
\elif :what = 17
INSERT INTO chosen SELECT ':bandit', decision_id FROM bandit_choose_many(':bandit', 20);
\endif
});

# One session sleeps all the time, and so knows rows that are long gone; one has a
# transaction open.
my ($asleep, $open) = map { $node->background_psql('postgres') } 1 .. 2;
foreach my $bandit (@bandits)
{
	$asleep->query_safe("INSERT INTO chosen SELECT '$bandit', decision_id FROM bandit_choose_many('$bandit', 30)");
}
$open->query_safe("BEGIN; INSERT INTO chosen SELECT 'plain', decision_id FROM bandit_choose('plain')");

storm($node, $seconds, 'no client fails', 'pgbench', '-n', '-c', 12, '-j', 2, '-f', $script);
$open->query_safe('COMMIT');

# The totals include what was removed, so they tell whether anything was lost or
# counted twice.
sub check
{
	my ($when) = @_;

	is( $node->safe_psql(
			'postgres', q{
SELECT c.bandit, w.sound, w.decisions = c.decisions, w.settled = g.applied + e.expired,
       abs(w.loss - g.loss - e.loss) < 1e-6, w.open = p.open
FROM (SELECT bandit, count(*) AS decisions FROM chosen GROUP BY bandit) c
JOIN whole w USING (bandit)
JOIN (SELECT bandit, count(*) AS applied, sum(loss) AS loss FROM given WHERE outcome = 'applied' GROUP BY bandit) g USING (bandit)
JOIN LATERAL (SELECT expired, expired * missing_loss AS loss FROM dexp3.overview o JOIN dexp3.bandit b ON b.name = o.bandit
              WHERE o.bandit = c.bandit) e ON true
JOIN LATERAL (SELECT count(*) AS open FROM dexp3.pending p WHERE p.bandit = c.bandit) p ON true
ORDER BY c.bandit}),
		join("\n", map { "$_|t|t|t|t|t" } sort @bandits),
		"$when: what was told is what happened, once");

	is( $node->safe_psql(
			'postgres', q{
SELECT bool_and(rounds = members(decisions)), bool_and(skipped_rounds = members(skipped)),
       bool_and(expired_rounds = members(expired)), sum(rounds) > 1000,
       count(*) = count(*) FILTER (WHERE decisions @> skipped AND decisions @> expired)
FROM dexp3.trimmed}),
		't|t|t|t|t', "$when: what was removed is accounted for");

	is( $node->safe_psql(
			'postgres', q{
SELECT count(*) FROM chosen c
WHERE (SELECT count(*) FROM dexp3.decision d WHERE d.decision_id = c.decision_id)
    + (SELECT count(*) FROM dexp3.trimmed t WHERE t.decisions @> c.decision_id) <> 1}),
		'0', "$when: each decision is in the log or was removed");
	return;
}

check('after the storm');
foreach my $bandit (@bandits)
{
	is($asleep->query_safe("SELECT bandit_verify('$bandit')"), 't', "$bandit: the session that slept agrees");
	is($open->query_safe("SELECT bandit_verify('$bandit')"), 't', "$bandit: the other one, too");
	is($node->safe_psql('postgres', "SELECT bandit_verify('$bandit')"), 't', "$bandit: and a new one");
}
$_->quit foreach ($asleep, $open);

# Feedback for what is gone is answered as before.
is( $node->safe_psql(
		'postgres', q{
SELECT status, string_agg(DISTINCT answer, ' ')
FROM (SELECT id, CASE WHEN skipped @> id THEN 'skipped' WHEN expired @> id THEN 'expired' ELSE 'settled' END AS status,
             bandit_feedback(id, 0) AS answer
      FROM dexp3.trimmed, unnest(decisions) r, generate_series(lower(r), upper(r) - 1) id OFFSET 0) _
GROUP BY status ORDER BY status}),
	join("\n", 'expired|expired', 'settled|duplicate', 'skipped|skipped'),
	'feedback for what is gone is answered');

# A crash, and a dump to elsewhere
my $states = q{
SELECT name, round((p.probability)::numeric, 9), o.rounds, o.open, o.skipped, o.expired, round(o.total_loss::numeric, 6)
FROM dexp3.bandit b, bandit_probabilities(b.name) p, dexp3.overview o WHERE o.bandit = b.name ORDER BY name, p.arm};
my $before = $node->safe_psql('postgres', $states);
$node->stop('immediate');
$node->start;
check('after a crash');
is($node->safe_psql('postgres', $states), $before, 'the states are the same after a crash');

my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, '-d', 'postgres' ], 'dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', 'restored' ], 'restore');
is($node->safe_psql('restored', $states), $before, 'the states are the same after a restore');
foreach my $bandit (@bandits)
{
	is($node->safe_psql('restored', "SELECT bandit_verify('$bandit')"), 't', "$bandit: the log was restored");
}
is( $node->safe_psql(
		'restored',
		'SELECT bandit_feedback(min(d), 0.5) FROM (SELECT lower(decisions) AS d FROM dexp3.trimmed WHERE skipped = \'{}\' AND expired = \'{}\') _'),
	'duplicate', 'what was removed before the dump is still answered');
is( $node->safe_psql(
		'restored', q{
SELECT c.decision_id > max(chosen.decision_id) FROM chosen, bandit_choose('plain') c GROUP BY c.decision_id}),
	't', 'identifiers go on');
is($node->safe_psql('restored', 'SELECT bandit_trim() >= 0'), 't', 'trimming goes on');

my @bad = grep { /\b(?:ERROR|FATAL|PANIC|TRAP|WARNING|deadlock)\b/ } split /\n/, slurp_file($node->logfile);
is(join("\n", @bad), '', 'no errors in the server log');

$node->stop;
done_testing();
