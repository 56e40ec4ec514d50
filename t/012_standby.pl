# A physical standby sees what its primary does, writes nothing, and when it is
# promoted it goes on where the primary was.
#
# One session on the standby, called warm, stays connected from the beginning to
# the end and is asked again and again, also after the promotion.  A new session is
# asked each time as well.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Continuation;
use Dexp3 qw(new_node);

my $primary = new_node('primary', allows_streaming => 1, autovacuum => 'off');
$primary->safe_psql('postgres', "CREATE EXTENSION dexp3; $played");

$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
# No query on the standby shall be cancelled.
$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = -1');
$standby->start;
my $warm = $standby->background_psql('postgres', on_error_stop => 0);

# Ask for the tables, the view, the probabilities and the states.
sub compare
{
	my ($name) = @_;
	my ($primary_contents, $primary_states) =
	  map { $primary->safe_psql('postgres', $_) } ($contents, $states);

	$primary->wait_for_catchup($standby);
	is($standby->safe_psql('postgres', $contents), $primary_contents, "$name: the same tables");
	same_states($standby->safe_psql('postgres', $states), $primary_states, "$name, a new session");
	same_states($warm->query_safe($states), $primary_states, "$name, the warm session");
	return $primary_states;
}

#
# Reading
#

compare('at first');

my $pure = q{
SELECT setseed(0.5);
SELECT d.*, bandit_learn(d.state, d.ticket, 0.25), bandit_step_size(d.state), bandit_probabilities(d.state)
FROM unnest(ARRAY[bandit_new(3, 'dada'), bandit_new(3, 'deda', max_delay => 2)]) AS new, bandit_draw(new) AS d;
SELECT * FROM bandit_simulate('{{0,1},{1,0},{0,1}}', '{0,1,0}', 'dada', seed => 1);
};
is($warm->query_safe($pure), $primary->safe_psql('postgres', $pure), 'pure functions give the same');

# A transaction on the primary that stays open, with subtransactions.
my $open = $primary->background_psql('postgres');
my $choose_all = 'SELECT count(bandit_choose(name)) FROM dexp3.bandit';
my $feed_one = q{SELECT bandit_feedback(min(decision_id), 0.5) FROM dexp3.pending WHERE bandit = 'deda'};
# So many that the primary does not tell the standby about each.
my $subtransactions = q{
DO $$
BEGIN
    FOR i IN 1 .. 100 LOOP
        BEGIN
            PERFORM bandit_choose('skipping');
        EXCEPTION WHEN division_by_zero THEN
        END;
    END LOOP;
END
$$};
my $others = q{CALL play('skipping', 7); CALL play('deda', 3)};

foreach my $end ('COMMIT', 'ROLLBACK')
{
	$open->query_safe("BEGIN; $choose_all; SAVEPOINT a; $feed_one; RELEASE a; SAVEPOINT b; $choose_all");
	$primary->safe_psql('postgres', $others);
	compare("before $end");
	$open->query_safe("ROLLBACK TO b; $subtransactions");
	$primary->safe_psql('postgres', $others);
	compare("before $end, with many subtransactions");
	$open->query_safe($end);
	compare("after $end");
	$primary->safe_psql('postgres', $others);
	compare("after $end and more");
}

# Checkpoints, which make a new session start elsewhere.
my $checkpoints = 'SELECT count(*) FROM dexp3.checkpoint';
$primary->safe_psql('postgres',
	'SELECT count(bandit_choose(name)) FROM dexp3.bandit, generate_series(1, 700)');
$primary->safe_psql('postgres', q{SELECT format('SELECT bandit_choose(%L)', name) FROM dexp3.bandit \gexec});
compare('with checkpoints');
is($standby->safe_psql('postgres', $checkpoints), 8, 'the standby has checkpoints');
$primary->safe_psql('postgres', $others);
compare('since the checkpoints');
$primary->safe_psql('postgres', 'DELETE FROM dexp3.checkpoint');
compare('without checkpoints');
is($standby->safe_psql('postgres', $checkpoints), 0, 'the standby has none any more');

# Bandits that come, change and go; tables that are written anew.
$primary->safe_psql('postgres', q{SELECT bandit_create('new', '{a,b}'); CALL play('new', 10)});
compare('a new bandit');
$primary->safe_psql('postgres', q{SELECT bandit_reset('reset'); SELECT bandit_grant('deda', 'public')});
compare('a reset');
$primary->safe_psql('postgres', q{CALL play('reset', 10)});
compare('since the reset');
$primary->safe_psql('postgres', q{
SELECT bandit_drop('new');
SELECT bandit_create('new', '{a,b,c}', 'dada');
CALL play('new', 5)});
compare('another of the same name');
$primary->safe_psql('postgres', 'VACUUM FULL dexp3.decision, dexp3.feedback');
$primary->safe_psql('postgres', $others);
compare('tables written anew');

#
# Writing
#

$warm->query_safe('\set VERBOSITY sqlstate');
foreach my $write (
	q{SELECT bandit_choose('skipping')},
	q{SELECT bandit_choose_each('skipping', 1)},
	q{SELECT bandit_feedback(max(decision_id), 0.5) FROM dexp3.pending},
	q{SELECT bandit_feedback(max(decision_id), 0.5) FROM dexp3.feedback},
	q{SELECT bandit_reward(max(decision_id), 0.5) FROM dexp3.pending},
	q{INSERT INTO by_row SELECT max(decision_id), 0.5 FROM dexp3.pending},
	q{INSERT INTO by_statement SELECT max(decision_id), 0.5 FROM dexp3.pending},
	q{SELECT bandit_create('another', '{a,b}', 'dada')},
	q{SELECT bandit_reset('skipping')},
	q{SELECT bandit_grant('skipping', 'public')},
	q{SELECT bandit_revoke('skipping', 'public')},
	q{SELECT bandit_drop('skipping')})
{
	$warm->query($write);
	like($warm->{stderr}, qr/ERROR:  25006$/m, "refused: $write");
	$warm->{stderr} = '';
}
compare('after errors');

# In the middle of a transaction that has looked at the bandits
$warm->query("BEGIN; $states SELECT bandit_choose('skipping')");
like($warm->{stderr}, qr/ERROR:  25006$/m, 'refused in a transaction');
$warm->{stderr} = '';
$warm->query_safe('ROLLBACK');
$primary->safe_psql('postgres', $others);
compare('after a transaction that failed');

#
# Promotion, while a transaction is open on the primary
#

my $wanted = $primary->safe_psql('postgres', q{SELECT min(decision_id) FROM dexp3.pending WHERE bandit = 'deda'});
$open->query_safe("BEGIN; $choose_all; SELECT bandit_feedback($wanted, 0.5); $subtransactions");
$primary->safe_psql('postgres', $others);
my $before = compare('before the promotion');
my $last_id = $primary->safe_psql('postgres', 'SELECT last_value FROM dexp3.decision_id_seq');
my $last_bandit = $primary->safe_psql('postgres', 'SELECT last_value FROM dexp3.bandit_id_seq');

$primary->stop('immediate');
eval { $open->quit };
$standby->promote;

same_states($standby->safe_psql('postgres', $states), $before, 'promoted, a new session');
same_states($warm->query_safe($states), $before, 'promoted, the warm session');

# Open decisions are redeemable, once.
is($warm->query_safe("SELECT bandit_feedback($wanted, 0.5)"), 'applied', 'what was being settled can be settled');
is($standby->safe_psql('postgres', "SELECT bandit_feedback($wanted, 0.5)"), 'duplicate', 'once');
my $pending = $standby->safe_psql('postgres', 'SELECT count(*) FROM dexp3.pending');
my $settle_all = q{
SELECT outcome, count(*) FROM (SELECT bandit_feedback(decision_id, 0.25) AS outcome FROM dexp3.pending) f GROUP BY outcome};
is($standby->safe_psql('postgres', $settle_all), "applied|$pending", 'all open decisions can be settled');
same_states($warm->query_safe($states), $standby->safe_psql('postgres', $states), 'all settled');

# It goes on, with new identifiers.
is( $warm->query_safe(
		"SELECT min(decision_id) > $last_id FROM (SELECT (bandit_choose(name)).decision_id FROM dexp3.bandit) d"),
	't', 'identifiers of decisions do not repeat');
is($warm->query_safe(q{SELECT bandit_create('another', '{a,b}', 'dada') > } . $last_bandit), 't', 'nor those of bandits');
$standby->safe_psql('postgres', "$others; CALL play('another', 5)");
$warm->query_safe($others);
$standby->safe_psql('postgres', "$others; $choose_all");
my $after = $standby->safe_psql('postgres', $states);
isnt($after, $before, 'it has learned');
same_states($warm->query_safe($states), $after, 'later, the warm session');
$standby->safe_psql('postgres', 'DELETE FROM dexp3.checkpoint');
same_states($standby->safe_psql('postgres', $states), $after, 'later, from the whole log');
is( $standby->safe_psql(
		'postgres', q{
SELECT count(*) FROM dexp3.feedback f LEFT JOIN dexp3.decision d USING (decision_id) WHERE d.decision_id IS NULL}),
	0, 'no feedback without a decision');

$warm->quit;
$standby->stop;
done_testing();
