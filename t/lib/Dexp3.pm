# Dexp3.pm: what the TAP tests share
#
# It has a server; tables in which sessions record what they were told, in the same
# transaction, so that the log can be compared with what was acknowledged; and the
# state of a bandit as SQL makes it from the log, to be compared with what sessions
# say.

package Dexp3;

use strict;
use warnings;

use Exporter 'import';
use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(new_node install_records check_records agrees);
our @EXPORT_OK = qw($feedback_tables);

my $records = q{
-- What sessions were told, and in which transaction.
CREATE TABLE chosen (decision_id bigint, xact xid8 DEFAULT pg_current_xact_id());
CREATE TABLE given (decision_id bigint, loss float8, outcome text);

-- Feedback by triggers, which tell nothing.
CREATE TABLE outcome (decision_id bigint, loss float8, batch integer);
CREATE INDEX ON outcome (batch);
CREATE TRIGGER inserted AFTER INSERT ON outcome REFERENCING NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'loss');
CREATE TRIGGER updated AFTER UPDATE ON outcome REFERENCING OLD TABLE AS old NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'loss');

-- A recent decision after the given one, open at this moment or not; 0 if there
-- is none.  Some are so old that others are about to skip them.
CREATE FUNCTION recent(bandit text, open boolean, after bigint DEFAULT 0) RETURNS bigint LANGUAGE sql AS $$
    SELECT coalesce((
        SELECT decision_id
        FROM dexp3.decision d JOIN dexp3.bandit b USING (bandit_id)
        WHERE decision_id > (SELECT last_value - (500 * random() ^ 2)::bigint FROM dexp3.decision_id_seq)
          AND decision_id > after AND b.name = bandit
          AND NOT (open AND EXISTS (SELECT FROM dexp3.settled s WHERE s.decision_id = d.decision_id))
        ORDER BY decision_id LIMIT 1), 0)
$$;

-- How decisions were settled; if one was settled twice, it is here twice.
CREATE VIEW settlement AS
    SELECT decision_id, bandit_id, epoch, round, delay, loss, expired FROM dexp3.feedback
    UNION ALL
    SELECT id, e.bandit_id, e.epoch, greatest(e.round, d.round), greatest(e.round - d.round, 0), e.loss, true
    FROM dexp3.expiry e CROSS JOIN unnest(e.decisions) id LEFT JOIN dexp3.decision d ON d.decision_id = id;

CREATE FUNCTION choose(bandit text) RETURNS bigint LANGUAGE sql
    AS 'INSERT INTO chosen SELECT decision_id FROM bandit_choose(bandit) RETURNING decision_id';
CREATE FUNCTION give(decision bigint, loss float8) RETURNS text LANGUAGE sql
    AS 'INSERT INTO given VALUES (decision, loss, bandit_feedback(decision, loss)) RETURNING outcome';
};

# The extension, and the state of a bandit as SQL makes it from the log: the
# functions that the isolation tests use.
my ($states) = slurp_file(dirname(dirname(dirname(__FILE__))) . '/specs/folded.spec') =~ /^setup\n\{(.*?)\}/ms;

# Two tables with triggers that give feedback
our $feedback_tables = q{
CREATE TABLE by_row (decision_id bigint, loss float8);
CREATE TRIGGER feedback AFTER INSERT OR UPDATE ON by_row
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'loss');
CREATE TABLE by_statement (decision_id bigint, reward numeric);
CREATE TRIGGER feedback AFTER INSERT ON by_statement REFERENCING NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'reward', 'reward');
};

# new_node(NAME, SETTING => VALUE, ...): make a server with these settings, and start
# it.  It does not log statements.  Among the settings may be "initdb", a list of
# options; "start", which can be 0; and what PostgreSQL::Test::Cluster calls
# "install_path" and "allows_streaming".
sub new_node
{
	my ($name, %settings) = @_;
	my ($initdb, $start, $path, $streaming) =
	  delete @settings{qw(initdb start install_path allows_streaming)};
	my $node = PostgreSQL::Test::Cluster->new($name, install_path => $path);

	$node->init(
		allows_streaming => $streaming,
		extra => [ '--locale=C', '--encoding=UTF8', @{ $initdb // [] } ]);
	%settings = (log_statement => 'none', %settings);
	$node->append_conf('postgresql.conf', "$_ = '$settings{$_}'") foreach sort keys %settings;
	$node->start if $start // 1;
	return $node;
}

# Make the extension, the tables and the functions.
sub install_records
{
	my ($node) = @_;

	$node->safe_psql('postgres', $states . $records);
	return;
}

# Compare the log with what was acknowledged.
sub check_records
{
	my ($node, $bandit, $name) = @_;
	my $ids =
	  "(SELECT d.* FROM dexp3.decision d JOIN dexp3.bandit b USING (bandit_id) WHERE b.name = '$bandit')";
	my $feedback =
	  "(SELECT s.* FROM settlement s JOIN dexp3.bandit b USING (bandit_id) WHERE b.name = '$bandit')";
	my $settled =
	  "(SELECT s.* FROM dexp3.settled s JOIN dexp3.bandit b USING (bandit_id) WHERE b.name = '$bandit')";
	my $shown = 'SELECT decision_id, round, delay, loss, expired';
	my $given = "(SELECT g.* FROM given g JOIN $ids d USING (decision_id))";
	my $decisions = 'SELECT decision_id, xact FROM dexp3.decision';
	my $chosen = 'SELECT decision_id, xact FROM chosen';

	my $counts = $node->safe_psql(
		'postgres', qq{
SELECT count(*) FROM $ids _;
SELECT count(*) FROM $feedback _ WHERE loss IS NOT NULL;
SELECT count(*) FROM $feedback _ WHERE loss IS NULL;
SELECT outcome, count(*) FROM $given _ GROUP BY outcome ORDER BY outcome});
	note("$bandit: decisions, feedbacks, skips, outcomes: " . join(', ', split /\n/, $counts));

	my %checks = (
		'an acknowledged choice is missing, or a decision was not acknowledged' => qq{
			SELECT decision_id FROM (($chosen EXCEPT ALL $decisions) UNION ALL ($decisions EXCEPT ALL $chosen)) _},
		'feedback for a decision that is not there, or twice' => qq{
			SELECT decision_id FROM $feedback f LEFT JOIN $ids d USING (decision_id)
			GROUP BY decision_id HAVING count(*) > 1 OR count(d.round) = 0},
		'an acknowledged feedback is missing, or counted with another loss' => qq{
			SELECT decision_id FROM $given g LEFT JOIN $feedback f USING (decision_id)
			WHERE outcome = 'applied' AND f.loss IS DISTINCT FROM g.loss},
		'a feedback was acknowledged as applied twice' => qq{
			SELECT decision_id FROM $given _ WHERE outcome = 'applied' GROUP BY 1 HAVING count(*) > 1},
		'a feedback that nobody gave' => qq{
			SELECT decision_id, loss FROM $feedback f WHERE loss IS NOT NULL AND NOT coalesce(expired, false)
			EXCEPT (SELECT decision_id, loss FROM given WHERE outcome = 'applied'
			        UNION ALL SELECT decision_id, loss FROM outcome)},
		'what a trigger was given is not settled' => qq{
			SELECT decision_id FROM outcome o JOIN $ids d USING (decision_id)
			WHERE o.loss IS NOT NULL
			  AND NOT EXISTS (SELECT FROM $feedback f WHERE f.decision_id = o.decision_id)},
		'dexp3.settled shows something else' => qq{
			SELECT decision_id FROM (($shown FROM $feedback _ EXCEPT ALL $shown FROM $settled _)
			                         UNION ALL ($shown FROM $settled _ EXCEPT ALL $shown FROM $feedback _)) _},
		'settled and pending, or neither' => qq{
			SELECT decision_id FROM (SELECT decision_id FROM $feedback _
			                         UNION ALL SELECT decision_id FROM dexp3.pending WHERE bandit = '$bandit') s
			FULL JOIN $ids d USING (decision_id) GROUP BY decision_id HAVING count(*) <> 1 OR count(d.round) <> 1
			       OR bool_or(s IS NULL)},
		'expired, but not so' => qq{
			SELECT decision_id FROM $given g LEFT JOIN $feedback f USING (decision_id)
			WHERE outcome = 'expired' AND f.expired IS NOT TRUE},
		'a duplicate of nothing' => qq{
			SELECT decision_id FROM $given g LEFT JOIN $feedback f USING (decision_id)
			WHERE outcome = 'duplicate' AND f.loss IS NULL},
		'skipped, but not so' => qq{
			SELECT decision_id FROM $given g LEFT JOIN $feedback f USING (decision_id)
			WHERE outcome = 'skipped' AND (f.decision_id IS NULL OR f.loss IS NOT NULL)},
		'a delay that is not the difference of rounds, or negative' => qq{
			SELECT decision_id FROM $feedback f JOIN $ids d USING (decision_id)
			WHERE f.delay <> f.round - d.round OR f.delay < 0});

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $problems = join "\nUNION ALL\n", map {
		"SELECT '$_: ' || string_agg(decision_id::text, ' ') FROM ($checks{$_}) _ HAVING count(*) > 0"
	} sort keys %checks;
	is($node->safe_psql('postgres', $problems), '', "$bandit: $name");
	return;
}

# Compare what a session, or a new one, thinks with the tables.
sub agrees
{
	my ($node, $bandit, $session, $name) = @_;
	my $sql = "SELECT differences(folded('$bandit'), learned('$bandit'))";

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( defined $session
		? $session->query_safe($sql)
		: $node->safe_psql('postgres', $sql),
		'', "$bandit: $name agrees with the tables");
	return;
}

1;
