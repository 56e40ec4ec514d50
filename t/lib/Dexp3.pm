# Dexp3.pm: what the TAP tests of managed bandits share
#
# Tables in which sessions record what they were told, in the same transaction,
# so that the log can be compared with what was acknowledged; and the state of a
# bandit as SQL makes it from the log, to be compared with what sessions think.

package Dexp3;

use strict;
use warnings;

use Exporter 'import';
use Test::More;

our @EXPORT = qw(install_records check_records agrees);

my $records = q{
CREATE EXTENSION dexp3;

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

CREATE FUNCTION choose(bandit text) RETURNS bigint LANGUAGE sql
    AS 'INSERT INTO chosen SELECT decision_id FROM bandit_choose(bandit) RETURNING decision_id';
CREATE FUNCTION give(decision bigint, loss float8) RETURNS text LANGUAGE sql
    AS 'INSERT INTO given VALUES (decision, loss, bandit_feedback(decision, loss)) RETURNING outcome';
};

my $states = q{
-- The state of a bandit as SQL makes it from the tables, with the keys of the
-- text form.
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
};

# Make the extension, the tables and the functions.
sub install_records
{
	my ($node) = @_;

	$node->safe_psql('postgres', $records . $states);
	is( $node->safe_psql(
			'postgres', q{
SELECT differences('{"a": 1, "b": [2, 3]}', '{"a": 1, "b": [2, 3.0000000001]}'),
       differences('{"a": 1, "b": [2, 3]}', '{"a": 2, "b": [2]}'),
       differences('{"a": 1, "b": []}', '{"b": [], "c": 1}')}),
		'|a b|a c',
		'states are compared');
	return;
}

# Compare the log with what was acknowledged.
sub check_records
{
	my ($node, $bandit, $name) = @_;
	my $ids =
	  "(SELECT d.* FROM dexp3.decision d JOIN dexp3.bandit b USING (bandit_id) WHERE b.name = '$bandit')";
	my $feedback =
	  "(SELECT f.* FROM dexp3.feedback f JOIN dexp3.bandit b USING (bandit_id) WHERE b.name = '$bandit')";
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
