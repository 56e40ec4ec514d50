# Several sessions that take turns at one bandit, each operation committed before
# the next begins: every probability is exactly the paper's, or what the definition
# of the self-tuned learner says.
#
# The judge is the reference of the regression tests, sql/reference.sql and
# sql/self_tuned_reference.sql, which knows nothing of the extension.  Between the
# operations that count, others are rolled back, as a whole or to a savepoint.
# Isolation levels are mixed, and feedback comes from the function and from both
# kinds of triggers.

use strict;
use warnings;

use File::Basename;
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Dexp3 qw(new_node $feedback_tables);

my $rounds = 100;

my $node = new_node('turns');
my $directory = dirname(dirname(__FILE__)) . '/sql';
$node->command_ok(
	[
		'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-f',
		"$directory/reference.sql", '-f', "$directory/self_tuned_reference.sql", 'postgres'
	],
	'the reference is loaded');
$node->safe_psql(
	'postgres', "CREATE EXTENSION dexp3; $feedback_tables" . q{
-- What really happened, as the reference wants it.  The step size is known
-- where it is also gamma.
CREATE FUNCTION history(name text) RETURNS reference.decision[] LANGUAGE sql AS $$
    SELECT array_agg((d.round, d.arm, d.probability, f.loss,
                      CASE WHEN f.loss IS NOT NULL THEN f.round - d.round END,
                      d.delay, nullif(d.gamma, 0))::reference.decision ORDER BY d.round)
    FROM dexp3.bandit b JOIN dexp3.decision d USING (bandit_id)
    LEFT JOIN dexp3.feedback f USING (decision_id)
    WHERE b.name = history.name
$$;

-- What the reference says about the next round, and how far this session is
-- from it.
CREATE TABLE next_round (bandit text, probabilities float8[]);
CREATE FUNCTION next_difference(bandit text) RETURNS float8 LANGUAGE sql AS $$
    SELECT max(abs(p.probability - r.probabilities[p.n]))
    FROM next_round r, bandit_probabilities(r.bandit) WITH ORDINALITY p (arm, probability, n)
    WHERE r.bandit = next_difference.bandit
$$;

-- The same for self-tuned bandits, to which the order of all events matters, and
-- with a half-life their time.  The last event is a look at this moment.
CREATE TABLE happened (n serial, bandit text, kind text, decision_id bigint);
CREATE FUNCTION events(name text) RETURNS reference.event[] LANGUAGE sql AS $$
    SELECT array_agg((h.kind, d.round, d.arm, d.probability, NULL, f.loss,
                      extract(epoch FROM CASE h.kind WHEN 'draw' THEN d.decided_at ELSE f.received_at END - b.created_at),
                      d.gamma * 16)::reference.event ORDER BY h.n)
           || ('look', NULL, NULL, NULL, NULL, NULL,
               extract(epoch FROM statement_timestamp() - min(b.created_at)), NULL)::reference.event
    FROM happened h JOIN dexp3.bandit b ON b.name = h.bandit JOIN dexp3.decision d USING (decision_id)
    LEFT JOIN dexp3.feedback f ON f.decision_id = d.decision_id AND h.kind = 'feedback'
    WHERE b.name = events.name
$$;
CREATE FUNCTION self_tuned_next_difference(bandit text) RETURNS float8 LANGUAGE sql AS $$
    SELECT max(abs(p.probability - r.probabilities[p.n]))
    FROM dexp3.bandit b,
         LATERAL (SELECT * FROM reference.self_tuned(events(b.name), cardinality(b.arms), b.optimism,
                                                     extract(epoch FROM b.half_life)::float8)
                  ORDER BY n DESC LIMIT 1) r,
         bandit_probabilities(b.name) WITH ORDINALITY p (arm, probability, n)
    WHERE b.name = self_tuned_next_difference.bandit
$$;
});

my @levels = ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');
my @sessions;
foreach my $i (1 .. 5)
{
	push @sessions, $node->background_psql('postgres');
	$sessions[-1]->query_safe("SELECT setseed(0.1 * $i)");
}
srand(1);

sub one_of
{
	return $_[ int(rand(@_)) ];
}

# Let some session run statements in a transaction, and return the last line of
# its output.
sub turn
{
	my ($sql, $end) = @_;
	my $level = one_of(@levels);
	my $output = one_of(@sessions)->query_safe("BEGIN ISOLATION LEVEL $level; $sql; $end");

	return (split /\n/, $output)[-1];
}

# Play a bandit, and compare.
sub play
{
	my ($bandit, $arguments, $announced) = @_;
	my (@open, @happened, %outcomes, $decision);
	my $decisions = 0;
	my $rolled_back = 0;

	my $choose = sub {
		my $delay = $announced ? ', ' . one_of(0 .. 6) : '';
		return "SELECT decision_id FROM bandit_choose('$bandit'$delay)";
	};
	# Take an open decision, so that few are open for long.
	my $pick = sub {
		return @open > 6 || (@open && rand() < 0.4)
		  ? splice(@open, int(rand(@open)), 1)
		  : undef;
	};

	my $happened = sub {
		my ($kind, @decisions) = @_;
		push @happened, map { "('$bandit', '$kind', $_)" } @decisions;
	};

	$node->safe_psql('postgres', "SELECT bandit_create('$bandit', $arguments)");
	while ($decisions < $rounds)
	{
		# decisions: alone, after one that is rolled back, in a released savepoint
		my $kind = one_of('plain', 'plain', 'rollback', 'rollback to', 'release');
		if ($kind eq 'rollback')
		{
			turn($choose->() . '; ' . $choose->(), 'ROLLBACK');
			$rolled_back++;
		}
		my $sql = $choose->();
		if ($kind eq 'rollback to')
		{
			$sql = "SAVEPOINT a; $sql; ROLLBACK TO a; $sql";
			$rolled_back++;
		}
		$sql = "SAVEPOINT a; SAVEPOINT b; $sql; RELEASE a" if $kind eq 'release';
		$decision = turn($sql, 'COMMIT');
		$happened->('draw', $decision);
		push @open, $decision if rand() < 0.9;
		$decisions++;

		# feedback, none or some in this round, mostly from other sessions
		while (defined($decision = $pick->()))
		{
			my $l = sprintf '%.3f', rand();
			my $give = "SELECT bandit_feedback($decision, $l)";

			if (rand() < 0.2)
			{
				turn($give, 'ROLLBACK');
				$rolled_back++;
			}
			if (rand() < 0.2)
			{
				$give = "SAVEPOINT a; SELECT bandit_feedback($decision, 1 - $l); ROLLBACK TO a; $give";
				$rolled_back++;
			}
			$kind = one_of('function', 'function', 'row', 'update', 'statement');
			if ($kind eq 'function')
			{
				my $outcome = turn($give, 'COMMIT');
				my $again = turn("SELECT bandit_feedback($decision, 1)", 'COMMIT');

				$outcomes{"$outcome, then $again"}++;
				$happened->('feedback', $decision);
				next;
			}
			my @more;
			if ($kind eq 'row')
			{
				turn("INSERT INTO by_row VALUES ($decision, $l)", 'COMMIT');
			}
			elsif ($kind eq 'update')
			{
				turn("INSERT INTO by_row VALUES ($decision, NULL)", 'COMMIT');
				turn("UPDATE by_row SET loss = $l WHERE decision_id = $decision", 'COMMIT');
			}
			else
			{
				@more = grep { defined } $pick->(), $pick->();
				turn("INSERT INTO by_statement VALUES "
					  . join(', ', map { "($_, 1 - $l)" } $decision, @more), 'COMMIT');
			}
			$happened->('feedback', $decision, @more);
			$outcomes{trigger}++;
		}
	}
	note("$bandit: $rolled_back rolled back; "
		  . join(', ', map { "$outcomes{$_} $_" } sort keys %outcomes));

	my $self_tuned = $bandit =~ /^self-tuned/;
	$node->safe_psql('postgres',
		'INSERT INTO happened (bandit, kind, decision_id) VALUES ' . join(', ', @happened))
	  if $self_tuned;
	my ($compared, $difference, $step_sizes, $step_difference, $skipped, $really_skipped) = split /\|/,
	  $node->safe_psql(
		'postgres', $self_tuned ? qq{
SELECT c.*, 0, (SELECT count(*) FROM dexp3.feedback f WHERE f.bandit_id = b.bandit_id AND f.loss IS NULL)
FROM dexp3.bandit b,
     reference.self_tuned_check(events(b.name), cardinality(b.arms), b.optimism,
                                extract(epoch FROM b.half_life)::float8) c
WHERE b.name = '$bandit'} : qq{
SELECT c.*, (SELECT count(*) FROM dexp3.feedback f WHERE f.bandit_id = b.bandit_id AND f.loss IS NULL)
FROM dexp3.bandit b,
     reference.check(history(b.name), cardinality(b.arms), b.algorithm, b.skipping, b.patience,
                     b.max_delay, b.step_scale) c
WHERE b.name = '$bandit'});
	is($compared, $rounds, "$bandit: every round is compared");
	cmp_ok($difference, '<', 1e-9, "$bandit: every probability is that of the reference");
	if ($bandit !~ /^dada\b(?!-)/)
	{
		is($step_sizes, $rounds, "$bandit: every step size is compared");
		cmp_ok($step_difference, '<', 1e-9, "$bandit: every step size is that of the reference");
	}
	is($really_skipped, $skipped, "$bandit: as many decisions are skipped");
	is(join(' ', grep { !/applied, then duplicate|skipped, then skipped|trigger/ } keys %outcomes),
		'', "$bandit: feedback counts once");

	# The next round, as each of the sessions sees it, and as a new one does.
	$node->safe_psql(
		'postgres', qq{
INSERT INTO next_round
SELECT b.name, r.probabilities
FROM dexp3.bandit b,
     reference.rounds(history(b.name), cardinality(b.arms), b.algorithm, b.skipping, b.patience,
                      b.max_delay, b.step_scale) r
WHERE b.name = '$bandit' AND r.round = $rounds + 1}) unless $self_tuned;
	my $next = 'SELECT ' . ($self_tuned ? 'self_tuned_' : '') . "next_difference('$bandit')";
	cmp_ok($_, '<', 1e-9, "$bandit: a session knows the probabilities of the next round")
	  foreach ((map { $_->query_safe($next) } @sessions), $node->safe_psql('postgres', $next));
	return ($skipped, \%outcomes);
}

my ($skipped, $outcomes);
play('dada', "ARRAY['a', 'b', 'c'], 'dada', skipping => false");
($skipped, $outcomes) = play('dada, skipping', "ARRAY['a', 'b', 'c'], 'dada', patience => 4");
cmp_ok($skipped, '>', 0, 'there were skips');
cmp_ok($outcomes->{'skipped, then skipped'}, '>', 0, 'and feedback that was too late');
play('dada-ix', "ARRAY['a', 'b', 'c', 'd'], 'dada-ix', skipping => false, step_scale => 3");
($skipped, $outcomes) = play('dada-ix, skipping', "ARRAY['a', 'b'], 'dada-ix', patience => 0");
cmp_ok($skipped, '>', 0, 'there were skips');
play('deda', "ARRAY['a', 'b', 'c'], 'deda', max_delay => 2");
play('deda, told the delays', "ARRAY['a', 'b'], 'deda'", 1);
play('self-tuned', "ARRAY['a', 'b', 'c']");
play('self-tuned, optimism 1', "ARRAY['a', 'b'], 'self-tuned', optimism => 1");
play('self-tuned, half-life', "ARRAY['a', 'b', 'c'], half_life => '1 second'");

$_->quit foreach @sessions;
$node->stop;
done_testing();
