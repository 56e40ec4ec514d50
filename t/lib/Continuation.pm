# Continuation.pm: what the tests of dumps and upgrades share
#
# It has a database with bandits of all kinds; queries for what must still be the
# same after the database was dumped and restored, or upgraded; and a way to go on
# from there that is always the same, so that two databases can be compared.

package Continuation;

use strict;
use warnings;

use Dexp3 qw($feedback_tables);
use Exporter 'import';
use Test::More;

our @EXPORT = qw($played $contents $states $settle $go_on same_states);

my $strange = q{E'it\\'s "quoted", \\\\ {größer} \t 数'};

# For a database that has the extension.
our $played = qq{
$feedback_tables
-- Make decisions, and settle three of four two rounds later.  After setseed() the
-- result is always the same.
CREATE PROCEDURE play(bandit text, rounds integer) LANGUAGE plpgsql AS \$\$
DECLARE
    ids bigint[];
    id bigint;
    loss float8;
BEGIN
    FOR i IN 1 .. rounds LOOP
        ids[i] := (SELECT decision_id FROM bandit_choose(bandit));
        COMMIT;
        id := ids[i - 2];
        loss := (SELECT arm * 0.2 FROM dexp3.decision WHERE decision_id = id);
        CASE i % 4
            WHEN 1 THEN PERFORM bandit_feedback(id, loss) WHERE id IS NOT NULL;
            WHEN 2 THEN INSERT INTO by_row VALUES (id, loss);
            WHEN 3 THEN INSERT INTO by_statement VALUES (id, 1 - loss), (NULL, 1);
            ELSE NULL;
        END CASE;
        COMMIT;
    END LOOP;
END
\$\$;

SELECT setseed(0.1);
SELECT bandit_create('skipping', '{a,b,c}', 'dada', patience => 5),
       bandit_create('exploring', '{a,b,c,d}', 'dada-ix', step_scale => 2),
       bandit_create('deda', '{a,b}', 'deda', max_delay => 3),
       bandit_create('reset', '{a,b}', 'dada'),
       bandit_create('self-tuned', '{a,b,c}'),
       bandit_create('fading', '{a,b}', half_life => '100000 years'),	-- so that some minutes are nothing
       bandit_create('expiring', '{a,b,c}', feedback_window => '0'),
       bandit_create($strange, ARRAY['NULL', '', E'\\\\N', '"x", {y}', E'\\n'], 'dada', skipping => false);
CALL play('skipping', 300);
CALL play('exploring', 20);
CALL play('deda', 20);
CALL play('reset', 20);
SELECT bandit_reset('reset');
CALL play('reset', 10);
CALL play('self-tuned', 50);
SELECT bandit_add_arm('self-tuned', 'd'), bandit_retire_arm('self-tuned', 'a');
SELECT bandit_feedback(decision_id, 0.5) FROM bandit_choose('self-tuned', allowed => '{c,d}');
CALL play('self-tuned', 20);
CALL play('fading', 20);
SELECT count(bandit_feedback(decision_id, 0.5)) FROM bandit_choose_many('expiring', 300) WHERE decision_id % 20 = 0;
SELECT bandit_expire('expiring');
CALL play($strange, 20);

CREATE TABLE own_bandit (state bandit_state, ticket bandit_ticket);
INSERT INTO own_bandit
SELECT d.* FROM unnest(ARRAY[bandit_new(3), bandit_new(3, 'dada'), bandit_new(2, 'deda', max_delay => 1)]) AS n, bandit_draw(n) AS d;
UPDATE own_bandit SET state = bandit_learn(state, ticket, 1 / 3.0);
};

# What must be the same to the last bit
our $contents = q{
SELECT bandit_id, name, arms, algorithm, skipping, patience, max_delay, step_scale, epoch, created_at, owner, grantees,
       optimism, half_life, head_start, cost_offset, arms_changed_at, retired, goal, shared
FROM dexp3.bandit ORDER BY bandit_id;
SELECT count(*), md5(string_agg(format('%s', ROW(decision_id, bandit_id, epoch, round, outstanding, probability,
                                                 gamma, decided_at, arm, delay, z, m, mass)), ' ' ORDER BY decision_id))
FROM dexp3.decision;
SELECT count(*), md5(string_agg(format('%s', ROW(decision_id, bandit_id, epoch, round, delay, received_at,
                                                 loss, estimate, arm, expected, lbck, baseline, mass, decided_at)), ' ' ORDER BY decision_id))
FROM dexp3.feedback;
SELECT count(*), md5(string_agg(format('%s', ROW(first_decision, bandit_id, epoch, last_decision, round, received_at, loss,
                                                 baseline, decisions)), ' ' ORDER BY first_decision))
FROM dexp3.expiry;
SELECT expired, count(*), md5(string_agg(format('%s', ROW(decision_id, round, delay, arm, loss, estimate)), ' ' ORDER BY decision_id))
FROM dexp3.settled GROUP BY expired ORDER BY expired;
SELECT decision_id, bandit, round, arm, probability, decided_at FROM dexp3.pending ORDER BY decision_id;
SELECT bandit_state_send(state), ticket FROM own_bandit;
SELECT count(*), sum(decision_id) FROM by_row;
SELECT count(*), sum(decision_id) FROM by_statement;
SELECT tgrelid::regclass, tgname, tgenabled FROM pg_trigger
WHERE tgrelid IN ('by_row'::regclass, 'by_statement'::regclass) ORDER BY tgrelid::regclass::text;
};

# What must be the same to rounding
our $states = q{
SELECT name, bandit_current_state(name), (SELECT array_agg(p) FROM bandit_probabilities(name) p)
FROM dexp3.bandit ORDER BY bandit_id;
};

# Give feedback, twice for each decision that was ever made.
our $settle = q{
SELECT decision_id, bandit_feedback(decision_id, 0.7) AS once, bandit_feedback(decision_id, 0.3) AS again
FROM dexp3.decision ORDER BY decision_id;
};

# Go on with new decisions; and tell by how much new identifiers are above those
# that are there.
our $go_on = qq{
SELECT setseed(0.2);
SELECT bandit_create('new', '{a,b}') - max(bandit_id) FROM dexp3.bandit;
SELECT c.decision_id - max(d.decision_id) FROM bandit_choose('new') c, dexp3.decision d GROUP BY c.decision_id;
CALL play('skipping', 20);
CALL play('exploring', 20);
CALL play('deda', 20);
CALL play('reset', 20);
CALL play('self-tuned', 20);
CALL play('fading', 20);
SELECT decision_id, arm FROM bandit_choose_many('expiring', 20);
CALL play($strange, 20);
SELECT decision_id, round, arm FROM dexp3.decision ORDER BY decision_id;
};

# Compare what $states has told: numbers to 1e-9, and the rest as it is.
sub same_states
{
	my ($got, $expected, $name) = @_;
	my $number = qr/(-?\b\d+(?:\.\d+)?(?:e[-+]\d+)?)/;
	my @got = split $number, $got;
	my @expected = split $number, $expected;
	my @differences;

	while (@got && @expected)
	{
		my ($x, $y) = (shift @got, shift @expected);
		my $same = $x eq $y || ("$x $y" =~ /^$number $number$/ && abs($x - $y) <= 1e-9 * (1 + abs($y)));

		push @differences, "$x is not $y" unless $same;
	}
	is(join(', ', @differences, @got, @expected), '', "$name: the same states");
	return;
}

1;
