# Many clients on one hot bandit: nothing is lost, nothing counts twice, and all
# sessions agree on the state.
#
# The clients mix choices, feedback for their own and for others' decisions,
# duplicates, rollbacks, savepoints, statement triggers and isolation levels.
# Each records what it was told in a table of its own, in the same transaction,
# so that afterwards the log can be compared with what was acknowledged.
#
# A transaction that has settled or skipped a decision makes feedback for that
# one wait, so, as with any rows that are locked in turn, the order matters: each
# transaction settles others' decisions first, in the order of their numbers,
# and chooses, which never waits, afterwards.  Then there are no deadlocks, and
# no transaction fails at all.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = 6;

my $node = PostgreSQL::Test::Cluster->new('stress');
$node->init;
$node->append_conf(
	'postgresql.conf', q{
fsync = off
log_statement = none
statement_timeout = 120s
autovacuum_naptime = 1s
restart_after_crash = off
});
$node->start;

$node->safe_psql(
	'postgres', q{
CREATE EXTENSION dexp3;

-- What the clients were told.
CREATE TABLE chosen (decision_id bigint);
CREATE TABLE given (decision_id bigint, loss float8, outcome text);

-- Feedback by triggers, which tell nothing.
CREATE TABLE outcome (decision_id bigint, loss float8, batch integer);
CREATE INDEX ON outcome (batch);
CREATE TRIGGER inserted AFTER INSERT ON outcome REFERENCING NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'loss');
CREATE TRIGGER updated AFTER UPDATE ON outcome REFERENCING OLD TABLE AS old NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'loss');

-- A recent decision after the given one, open at this moment or whatever; 0 if
-- there is none.  Some are so old that others are about to skip them.
CREATE FUNCTION recent(bandit text, open boolean, after bigint DEFAULT 0) RETURNS bigint LANGUAGE sql AS $$
    SELECT coalesce((
        SELECT decision_id
        FROM dexp3.decision d JOIN dexp3.bandit b USING (bandit_id)
        WHERE decision_id > (SELECT last_value - (500 * random() ^ 2)::bigint FROM dexp3.decision_id_seq)
          AND decision_id > after AND b.name = bandit
          AND NOT (open AND EXISTS (SELECT FROM dexp3.feedback f WHERE f.decision_id = d.decision_id))
        ORDER BY decision_id LIMIT 1), 0)
$$;

CREATE FUNCTION choose(bandit text) RETURNS void LANGUAGE sql
    AS 'INSERT INTO chosen SELECT decision_id FROM bandit_choose(bandit)';
CREATE FUNCTION give(decision bigint, loss float8) RETURNS void LANGUAGE sql
    AS 'INSERT INTO given VALUES (decision, loss, bandit_feedback(decision, loss))';

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

--
-- The state of a bandit as SQL makes it from the tables, with the keys of the
-- text form
--

CREATE FUNCTION folded(name text) RETURNS jsonb LANGUAGE sql AS $$
    WITH bandit AS (
        SELECT * FROM dexp3.bandit b WHERE b.name = folded.name),
    decision AS (
        SELECT d.* FROM dexp3.decision d JOIN bandit USING (bandit_id, epoch)),
    settled AS (
        SELECT f.* FROM dexp3.feedback f JOIN bandit USING (bandit_id, epoch)),
    newest AS (
        SELECT count(*) AS round FROM decision),
    by_arm AS (
        SELECT i, coalesce(sum(f.estimate), 0) AS z, coalesce(sum(f.expected), 0) AS m,
               coalesce(sum(f.estimate) FILTER (WHERE f.round = newest.round), 0) AS z_tie,
               coalesce(sum(f.expected) FILTER (WHERE f.round = newest.round), 0) AS m_tie
        FROM bandit CROSS JOIN generate_subscripts(bandit.arms, 1) i CROSS JOIN newest
        LEFT JOIN settled f ON f.arm = i
        GROUP BY i),
    -- Open decisions of the same round are numbered on.
    open AS (
        SELECT n + max(round - n) OVER (ORDER BY n) AS round
        FROM (SELECT round, row_number() OVER (ORDER BY round, decision_id) AS n
              FROM dexp3.pending WHERE bandit = folded.name) p)
    SELECT jsonb_build_object(
               'round', (SELECT round FROM newest),
               'cumulative_delay', (SELECT coalesce(sum(outstanding), 0) FROM decision),
               'z', (SELECT array_agg(z ORDER BY i) FROM by_arm))
           || CASE WHEN skipping THEN jsonb_build_object('open', ARRAY(SELECT round FROM open ORDER BY 1))
              ELSE jsonb_build_object('outstanding', (SELECT round FROM newest) - (SELECT count(*) FROM settled)) END
           || CASE algorithm WHEN 'deda' THEN jsonb_build_object(
                  'lbck', (SELECT coalesce(sum(lbck), 0) FROM settled),
                  'longest_delay', greatest(max_delay, (SELECT max(delay) FROM decision), (SELECT max(delay) FROM settled)),
                  'm', (SELECT array_agg(m ORDER BY i) FROM by_arm),
                  'z_tie', (SELECT array_agg(z_tie ORDER BY i) FROM by_arm),
                  'm_tie', (SELECT array_agg(m_tie ORDER BY i) FROM by_arm))
              ELSE '{}' END
    FROM bandit
$$;

-- The part of a state that is learned.
CREATE FUNCTION learned(name text) RETURNS jsonb LANGUAGE sql AS $$
    SELECT bandit_current_state(name)::jsonb
           - '{version,algorithm,arms,skipping,patience,max_delay,step_scale}'::text[]
$$;

-- The keys in which two states differ by more than rounding.
CREATE FUNCTION differences(a jsonb, b jsonb) RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(DISTINCT coalesce(x.key, y.key), ' '), '')
    FROM (SELECT key, n, v::float8 FROM jsonb_each(a), jsonb_path_query(value, '$[*]') WITH ORDINALITY _ (v, n)) x
    FULL JOIN (SELECT key, n, v::float8 FROM jsonb_each(b), jsonb_path_query(value, '$[*]') WITH ORDINALITY _ (v, n)) y
        ON y.key = x.key AND y.n = x.n
    WHERE coalesce(abs(x.v - y.v) > 1e-9 * greatest(1, abs(y.v)), true)
$$;
});

# The comparison sees what differs.
is( $node->safe_psql(
		'postgres', q{
SELECT differences('{"a": 1, "b": [2, 3]}', '{"a": 1, "b": [2, 3.0000000001]}'),
       differences('{"a": 1, "b": [2, 3]}', '{"a": 2, "b": [2]}'),
       differences('{"a": 1, "b": []}', '{"b": [], "c": 1}')}),
	'|a b|a c',
	'states are compared');

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
\\set loss random(0, 1000000000)
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
\\set loss random(0, 1000000000)
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
\\set loss random(0, 1000000000)
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
\\set loss random(0, 1000000000)
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
\\set loss random(0, 1000000000)
SELECT recent(':bandit', true) AS first \\gset
SELECT recent(':bandit', true, :first) AS second \\gset
$begin
\\if :first > 0
SAVEPOINT a;
SELECT give(:first, :loss / 1e9);
ROLLBACK TO a;
\\endif
\\if :second > 0
SAVEPOINT b;
SELECT give(:second, :loss / 1e9);
RELEASE b;
\\endif
SAVEPOINT c;
SELECT choose(':bandit');
SAVEPOINT d;
SELECT choose(':bandit');
RELEASE d;
ROLLBACK TO c;
SELECT choose(':bandit');
SAVEPOINT e;
SELECT choose(':bandit');
RELEASE e;
COMMIT;
},

	# feedback by triggers: in bulk by INSERT, and by UPDATE
	'trigger@2' => qq{
\\set loss random(0, 1000000000)
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

# Compare what a session, or a new one, thinks with the tables.
sub agrees
{
	my ($bandit, $session, $name) = @_;
	my $sql = "SELECT differences(folded('$bandit'), learned('$bandit'))";

	is( defined $session
		? $session->query_safe($sql)
		: $node->safe_psql('postgres', $sql),
		'', "$bandit: $name agrees with the tables");
	return;
}

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

	# a pgbench script and its weight for each of ours
	my @files;
	foreach my $script (sort keys %scripts)
	{
		my ($name, $weight) = split /@/, $script;
		my $file = $node->basedir . "/$bandit-$name.sql";

		append_to_file($file, $scripts{$script});
		push @files, '-f', "$file\@$weight";
	}
	$node->command_checks_all(
		[
			'pgbench', '-n', '-c', 16, '-j', 2, '-T', $seconds, '-D',
			"bandit=$bandit", @files, 'postgres'
		],
		0,
		[qr/^number of failed transactions: 0 /m],
		[qr/^(?!.*(?:error|aborted))/s],
		"$bandit: no client fails");

	$node->safe_psql('postgres', 'INSERT INTO stop DEFAULT VALUES');
	$busy->query_safe('SELECT 1');
	$node->safe_psql('postgres', 'DELETE FROM stop');
	agrees($bandit, $idle, 'a session that has slept for long');
	$open->query_safe('COMMIT');

	check_acknowledged($bandit);
	agrees($bandit, $busy, 'a session that took part');
	agrees($bandit, $idle, 'the session that has slept');
	agrees($bandit, $open, 'a session whose transaction was open all the time');
	agrees($bandit, undef, 'a new session');
	$_->quit foreach ($busy, $idle, $open);
	return;
}

# Compare the log with what was acknowledged.
sub check_acknowledged
{
	my ($bandit) = @_;
	my $ids =
	  "(SELECT d.* FROM dexp3.decision d JOIN dexp3.bandit b USING (bandit_id) WHERE b.name = '$bandit')";
	my $feedback =
	  "(SELECT f.* FROM dexp3.feedback f JOIN dexp3.bandit b USING (bandit_id) WHERE b.name = '$bandit')";
	my $given = "(SELECT g.* FROM given g JOIN $ids d USING (decision_id))";

	my $counts = $node->safe_psql(
		'postgres', qq{
SELECT count(*) FROM $ids _;
SELECT count(*) FROM $feedback _ WHERE loss IS NOT NULL;
SELECT count(*) FROM $feedback _ WHERE loss IS NULL;
SELECT outcome, count(*) FROM $given _ GROUP BY outcome ORDER BY outcome});
	note("$bandit: decisions, feedbacks, skips, outcomes: " . join(', ', split /\n/, $counts));

	my %checks = (
		'an acknowledged choice is missing, or a decision was not acknowledged' => qq{
			SELECT decision_id FROM ((SELECT * FROM chosen EXCEPT ALL SELECT decision_id FROM dexp3.decision)
			                         UNION ALL
			                         (SELECT decision_id FROM dexp3.decision EXCEPT ALL SELECT * FROM chosen)) _},
		'feedback for a decision that is not there, or twice' => qq{
			SELECT decision_id FROM $feedback f LEFT JOIN $ids d USING (decision_id)
			GROUP BY decision_id HAVING count(*) > 1 OR count(d.round) = 0},
		'an acknowledged feedback is missing, or counted with another loss' => qq{
			SELECT decision_id FROM $given g LEFT JOIN $feedback f USING (decision_id)
			WHERE outcome = 'applied' AND f.loss IS DISTINCT FROM g.loss},
		'a feedback was acknowledged as applied twice' => qq{
			SELECT decision_id FROM $given _ WHERE outcome = 'applied' GROUP BY 1 HAVING count(*) > 1},
		'a feedback that nobody gave' => qq{
			SELECT decision_id, loss FROM $feedback f WHERE loss IS NOT NULL
			EXCEPT (SELECT decision_id, loss FROM given WHERE outcome = 'applied'
			        UNION ALL SELECT decision_id, loss FROM outcome)},
		'what a trigger was given is not settled' => qq{
			SELECT decision_id FROM outcome o JOIN $ids d USING (decision_id)
			WHERE o.loss IS NOT NULL
			  AND NOT EXISTS (SELECT FROM dexp3.feedback f WHERE f.decision_id = o.decision_id)},
		'a duplicate of nothing' => qq{
			SELECT decision_id FROM $given g LEFT JOIN $feedback f USING (decision_id)
			WHERE outcome = 'duplicate' AND f.loss IS NULL},
		'skipped, but not so' => qq{
			SELECT decision_id FROM $given g LEFT JOIN $feedback f USING (decision_id)
			WHERE outcome = 'skipped' AND (f.decision_id IS NULL OR f.loss IS NOT NULL)},
		'a delay that is not the difference of rounds, or negative' => qq{
			SELECT decision_id FROM $feedback f JOIN $ids d USING (decision_id)
			WHERE f.delay <> f.round - d.round OR f.delay < 0});
	foreach my $problem (sort keys %checks)
	{
		is($node->safe_psql('postgres', $checks{$problem}), '', "$bandit, none of: $problem");
	}
	return;
}

stress('skipping', "ARRAY['a', 'b', 'c'], patience => 5");
stress('exploring', "ARRAY['a', 'b', 'c', 'd', 'e'], 'dada-ix', skipping => false");
stress('deda', "ARRAY['a', 'b', 'c'], 'deda', max_delay => 40");

cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM dexp3.feedback WHERE loss IS NULL'),
	'>', 0, 'there were skips');
is($node->safe_psql('postgres', 'SELECT count(DISTINCT bandit_id) FROM dexp3.checkpoint'),
	3, 'each bandit has a checkpoint');
ok( $node->poll_query_until(
		'postgres',
		"SELECT n_tup_ins > 3 FROM pg_stat_all_tables WHERE relid = 'dexp3.checkpoint'::regclass"),
	'and more than one was written');

# A crash loses nothing, and without checkpoints the result is the same.
$node->stop('immediate');
$node->start;
foreach my $bandit (qw(skipping exploring deda))
{
	check_acknowledged($bandit);
	agrees($bandit, undef, 'a session after a crash');
}
$node->safe_psql('postgres', 'DELETE FROM dexp3.checkpoint');
agrees($_, undef, 'a session that folds the whole log') foreach qw(skipping exploring deda);

my @bad = grep { /\b(?:ERROR|FATAL|PANIC|TRAP|WARNING|deadlock)\b/ } split /\n/, slurp_file($node->logfile);
is(join("\n", @bad), '', 'no errors in the server log');

$node->stop;
done_testing();
