# Many clients on one hot bandit: nothing is lost, nothing counts twice, and all
# sessions agree on the state.
#
# The clients mix choices, feedback for their own and for others' decisions,
# duplicates, rollbacks, savepoints, statement triggers and isolation levels.
# Each records what it was told in a table of its own, in the same transaction,
# so that afterwards the log can be compared with what was acknowledged.
#
# Feedback waits for an open transaction that has settled or skipped the same
# decision.  So the order matters, as with any rows that are locked in turn: each
# transaction first settles others' decisions, in the order of their numbers, and
# then chooses, which never waits.  Then there are no deadlocks, and no transaction
# fails at all.

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

my $node = new_node('stress', statement_timeout => '120s', autovacuum_naptime => '1s');

install_records($node);
$node->safe_psql(
	'postgres', q{
-- A session that takes part until it is told to stop.
CREATE TABLE stop ();
CREATE PROCEDURE take_part(bandit text) LANGUAGE plpgsql AS $$
DECLARE
    decision bigint;
BEGIN
    WHILE NOT EXISTS (SELECT FROM stop) LOOP
        INSERT INTO chosen SELECT decision_id FROM bandit_choose(bandit) RETURNING decision_id INTO decision;
        COMMIT;
        PERFORM give(decision, random());
        IF random() < 0.2 THEN
            ROLLBACK;
        ELSE
            COMMIT;
        END IF;
    END LOOP;
END
$$;
});

#
# The clients' transactions, as pgbench scripts
#

my $begin = q{
\set level random(1, 3)
\if :level = 1
BEGIN ISOLATION LEVEL READ COMMITTED;
\elif :level = 2
BEGIN ISOLATION LEVEL REPEATABLE READ;
\else
BEGIN ISOLATION LEVEL SERIALIZABLE;
\endif
};

my %scripts = (

	# a choice, sometimes several in one statement
	'choose@4' => qq{
$begin
\\set several random(1, 10)
\\if :several = 1
INSERT INTO chosen SELECT c.decision_id FROM generate_series(1, 5) i, bandit_choose_each(':bandit', i) c;
\\else
SELECT choose(':bandit');
\\endif
COMMIT;
},

	# a choice and its own feedback, at once or in the next transaction
	'own@4' => qq{
\\set together random(0, 1)
$begin
INSERT INTO chosen SELECT decision_id FROM bandit_choose(':bandit') RETURNING decision_id AS mine \\gset
\\if :together = 0
COMMIT;
$begin
\\endif
SELECT give(:mine, :loss / 1e9);
COMMIT;
},

	# feedback for a decision that is, or was a moment ago, open
	'other@6' => qq{
SELECT recent(':bandit', true) AS first \\gset
SELECT recent(':bandit', true, :first) AS second \\gset
$begin
\\if :first > 0
SELECT give(:first, :loss / 1e9);
\\endif
\\if :second > 0
SELECT give(:second, :loss / 1e9);
\\endif
SELECT choose(':bandit');
COMMIT;
},

	# feedback that has probably come already, and certainly twice
	'duplicate@2' => qq{
SELECT recent(':bandit', false) AS first \\gset
$begin
\\if :first > 0
SELECT give(:first, :loss / 1e9);
SELECT give(:first, :loss / 1e9);
\\endif
COMMIT;
},

	# all for nothing
	'rollback@3' => qq{
SELECT recent(':bandit', true) AS first \\gset
$begin
\\if :first > 0
SELECT give(:first, :loss / 1e9);
\\endif
SELECT choose(':bandit');
SELECT choose(':bandit');
ROLLBACK;
},

	# savepoints, rolled back and released
	'savepoint@3' => qq{
SELECT recent(':bandit', true) AS first \\gset
SELECT recent(':bandit', true, :first) AS second \\gset
$begin
$feedback_in_savepoints
$choices_in_savepoints
COMMIT;
},

	# feedback by triggers: in bulk by INSERT, and by UPDATE
	'trigger@2' => qq{
\\set batch random(1, 1000000000)
SELECT recent(':bandit', true) AS first \\gset
SELECT coalesce(string_agg(decision_id::text, ','), '0') AS ids
FROM (SELECT DISTINCT recent(':bandit', true) AS decision_id FROM generate_series(1, 6)) d \\gset
$begin
INSERT INTO outcome SELECT decision_id, :loss / 1e9
FROM unnest(ARRAY[:ids]) decision_id WHERE decision_id > 0 ORDER BY decision_id;
COMMIT;
\\if :first > 0
INSERT INTO outcome VALUES (:first, NULL, :batch);
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE outcome SET loss = :loss / 1e9 WHERE batch = :batch;
COMMIT;
\\endif
},

	# a look
	'probabilities@1' => qq{
$begin
SELECT 1 / (abs(sum(probability) - 1) < 1e-9)::int FROM bandit_probabilities(':bandit');
COMMIT;
});

#
# One bandit after the other
#

sub stress
{
	my ($bandit, $arguments) = @_;

	$node->safe_psql('postgres', "SELECT bandit_create('$bandit', $arguments)");

	# Three that stay connected: one takes part all the time, one sleeps from the
	# beginning to the end, one has a transaction open that has written something.
	my ($busy, $idle, $open) =
	  map { $node->background_psql('postgres') } 1 .. 3;
	$idle->query_safe("SELECT choose('$bandit')");
	$open->query_safe("BEGIN; SELECT choose('$bandit') FROM generate_series(1, 3); "
		  . 'SELECT give(max(decision_id), 0.5) FROM chosen');
	$busy->query_until(qr/begins/, "\\echo begins\nCALL take_part('$bandit');\n");

	storm($node, $seconds, "$bandit: no client fails",
		clients($node, $bandit, "\\set loss random(0, 1000000000)\n", %scripts), '-D', "bandit=$bandit");

	$node->safe_psql('postgres', 'INSERT INTO stop DEFAULT VALUES');
	$busy->query_safe('SELECT 1');
	$node->safe_psql('postgres', 'DELETE FROM stop');
	agrees($node, $bandit, $idle, 'a session that has slept for long');
	$open->query_safe('COMMIT');

	check_records($node, $bandit, 'the log is what was acknowledged');
	agrees($node, $bandit, $busy, 'a session that took part');
	agrees($node, $bandit, $idle, 'the session that has slept');
	agrees($node, $bandit, $open, 'a session whose transaction was open all the time');
	agrees($node, $bandit, undef, 'a new session');
	$_->quit foreach ($busy, $idle, $open);
	return;
}

stress('skipping', "ARRAY['a', 'b', 'c'], 'dada', patience => 5");
stress('exploring', "ARRAY['a', 'b', 'c', 'd', 'e'], 'dada-ix', skipping => false");
stress('deda', "ARRAY['a', 'b', 'c'], 'deda', max_delay => 40");
stress('self-tuned', "ARRAY['a', 'b', 'c']");

cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM dexp3.feedback WHERE loss IS NULL'),
	'>', 0, 'there were skips');

# One session at a time skips.  What was left over is skipped when it is due.
my $last = $node->safe_psql('postgres', 'SELECT max(decision_id) FROM dexp3.decision');
my $left = qq{SELECT count(*) FROM dexp3.pending WHERE bandit = 'skipping' AND decision_id <= $last};
$node->safe_psql(
	'postgres', qq{
DO \$\$
BEGIN
    FOR i IN 1 .. 20000 LOOP
        INSERT INTO chosen SELECT decision_id FROM bandit_choose('skipping');
        COMMIT;
        EXIT WHEN i % 100 = 0 AND ($left) = 0;
    END LOOP;
END
\$\$});
is($node->safe_psql('postgres', $left), 0, 'in the end nothing is left that is due');

is($node->safe_psql('postgres', 'SELECT count(DISTINCT bandit_id) FROM dexp3.checkpoint'),
	4, 'each bandit has a checkpoint');
ok( $node->poll_query_until(
		'postgres',
		"SELECT n_tup_ins > 3 FROM pg_stat_all_tables WHERE relid = 'dexp3.checkpoint'::regclass"),
	'and more than one was written');

# A crash loses nothing, and without checkpoints the result is the same.
$node->stop('immediate');
$node->start;
foreach my $bandit (qw(skipping exploring deda self-tuned))
{
	check_records($node, $bandit, 'the log survives a crash');
	agrees($node, $bandit, undef, 'a session after a crash');
}
$node->safe_psql('postgres', 'DELETE FROM dexp3.checkpoint');
agrees($node, $_, undef, 'a session that folds the whole log') foreach qw(skipping exploring deda self-tuned);

my @bad = grep { /\b(?:ERROR|FATAL|PANIC|TRAP|WARNING|deadlock)\b/ } split /\n/, slurp_file($node->logfile);
is(join("\n", @bad), '', 'no errors in the server log');

$node->stop;
done_testing();
