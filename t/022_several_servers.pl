# One bandit on several servers, with logical replication.
#
# The servers are made with the commands of doc/several-servers.md.  There is load on all
# of them, while links are cut and joined, a server is stopped immediately, rows are
# repeated and reordered by hand, and come in both ways at once.  In the end each has the
# probabilities of one learner that was fed all rows, to 1e-9.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Servers;

my %server = map { $_ => new_server("server$_") } 1 .. 3;
my @servers = @server{ 1 .. 3 };
my $judge = $server{1};
my $late = 'CREATE TABLE late (decision_id bigint, loss float8)';

run_page('Three servers', %server);
run_page('With logical replication', %server);
$_->safe_psql('shop', $late) foreach @servers;

# Wait until each server has the newest row of every other.
sub exchange
{
	my (@numbers) = @_;

	$server{$_}->safe_psql('shop', 'SELECT bandit_publish()') foreach @numbers;
	foreach my $from (@numbers)
	{
		my $version = $server{$from}->safe_psql('shop',
			"SELECT max(version) FROM dexp3.component WHERE bandit = 'headline' AND node = $from");

		$server{$_}->poll_query_until('shop',
			"SELECT count(*) > 0 FROM dexp3.component WHERE bandit = 'headline' AND node = $from AND version >= $version")
		  or die "a row of server $from has not come to server $_"
		  foreach grep { $_ != $from } @numbers;
	}
	return;
}

exchange(1 .. 3);
is( $_->safe_psql('shop', q{SELECT string_agg(node || ' ' || counts, ', ' ORDER BY node) FROM dexp3.nodes}),
	'1 true, 2 true, 3 true', $_->name . ' knows all')
  foreach @servers;

# Rows as they are now on a server, to be brought again later
my @saved;

sub save_rows
{
	push @saved, $server{1}->safe_psql('shop', 'COPY (SELECT * FROM dexp3.component WHERE node = 1) TO STDOUT');
	return;
}

sub bring_rows
{
	my ($to, @rows) = @_;

	foreach (@rows)
	{
		my $file = "$PostgreSQL::Test::Utils::tmp_check/rows.copy";

		open my $handle, '>', $file or die;
		print $handle "$_\n";
		close $handle;
		$server{$to}->safe_psql('shop', "\\copy dexp3.component FROM '$file'");
	}
	return;
}

# Both ways at once: server 2 also pulls from server 1.  While there is load, cut a link,
# and stop a server immediately.
run_page('With postgres_fdw', %server);
my $doomed = start_load($server{3}, 100_000);
my @loads = map { start_load($server{$_}, 700) } 1, 2;
push @loads, start_pulling($server{2}, 200, 1);
wait_for_rounds($_, 100) foreach @servers;
save_rows();
$server{2}->safe_psql('shop', 'ALTER SUBSCRIPTION dexp3_2_from_3 DISABLE');
$server{1}->safe_psql('shop', 'ALTER SUBSCRIPTION dexp3_1_from_2 DISABLE');
wait_for_rounds($_, 200) foreach @servers;
save_rows();
$server{3}->stop('immediate');
stop_load($doomed, 1);
wait_for_rounds($server{1}, 300);
save_rows();
$server{3}->start;
push @loads, start_load($server{3}, 300);
$server{2}->safe_psql('shop', 'ALTER SUBSCRIPTION dexp3_2_from_3 ENABLE');
bring_rows(2, @saved, reverse(@saved), @saved);
bring_rows(3, reverse(@saved), @saved);
wait_for_rounds($server{1}, 400);
$server{1}->safe_psql('shop', 'ALTER SUBSCRIPTION dexp3_1_from_2 ENABLE');
bring_rows(1, @saved);
stop_load($_) foreach @loads;

exchange(1 .. 3);
check_union('after load on all', $judge, @servers);
foreach my $server (@servers)
{
	is($server->safe_psql('shop', q{SELECT bandit_verify('headline')}), 't', $server->name . ': its own sums are those of its log');
	cmp_ok($server->safe_psql('shop', 'SELECT count(*) FROM dexp3.component'), '<', 20, $server->name . ' keeps few rows');
	is( $server->safe_psql('shop', q{
SELECT count(*) FROM dexp3.nodes n JOIN (SELECT sum(decisions) AS decisions FROM bandit_report('headline')) r
ON n.own AND n.rounds = r.decisions}), 1, $server->name . ': a report is about this server');
	is( $server->safe_psql('shop', q{
SELECT (SELECT sum(decisions) FROM bandit_report('headline', all_nodes => true)) = (SELECT sum(rounds) FROM dexp3.nodes)}),
		't', $server->name . ': and another one about all');
}
is( $server{1}->safe_psql('shop', q{SELECT bool_and(decision_id >> 48 = 1 AND decision_id < 1::bigint << 53) FROM dexp3.decision}),
	't', 'identifiers have the node in their upper bits');

# Identifiers of others do not settle anything here.
my ($foreign) = split /\n/, $server{2}->safe_psql('shop', 'SELECT max(decision_id) FROM dexp3.decision');
my ($result, undef, $error) = $server{1}->psql('shop', "\\set VERBOSITY verbose\nSELECT bandit_feedback($foreign, 0.5)");
like($error, qr/ERROR:  42704: decision $foreign is not here: node 2 has made it, and this is node 1/, 'feedback for a decision of another server');

# A row that a prepared transaction has brought, as a subscription with two_phase does,
# counts when that is committed.
my $choose = q{SELECT sum(rounds) FROM dexp3.nodes WHERE counts};
my $known = $server{1}->safe_psql('shop', $choose);
my $probabilities = probabilities($server{1});
$server{1}->safe_psql('shop', q{
BEGIN;
INSERT INTO dexp3.component
SELECT (jsonb_populate_record(c, '{"node": 30, "rounds": 1000, "z": [500, 0, 0], "cost": 0}')).* FROM dexp3.component c WHERE node = 1 LIMIT 1;
PREPARE TRANSACTION 'brought'});
same_probabilities(probabilities($server{1}), $probabilities, 'a prepared transaction does not count');
$server{1}->safe_psql('shop', q{COMMIT PREPARED 'brought'});
is($server{1}->safe_psql('shop', $choose), $known + 1000, 'when it is committed, it does');
cmp_ok(abs(probabilities($server{1})->{bold} - $probabilities->{bold}), '>', 1e-6, 'and matters');
$server{1}->safe_psql('shop', 'DELETE FROM dexp3.component WHERE node = 30');
same_probabilities(probabilities($server{1}), $probabilities, 'it is gone again');

#
# A server joins: its first choice is informed.
#

$server{4} = new_server('server4');
run_page('A server joins', %server);
$server{4}->poll_query_until('shop', 'SELECT count(*) = 4 FROM dexp3.nodes') or die;
same_probabilities(probabilities($server{4}), probabilities($server{1}), 'a server that joins knows all at once');
is($server{4}->safe_psql('shop', q{SELECT count(*) FROM dexp3.decision}), 0, 'before its first choice');
$server{4}->safe_psql('shop', $late);
@loads = map { start_load($server{$_}, 100) } 1 .. 4;
stop_load($_) foreach @loads;
exchange(1 .. 4);
check_union('four servers', $judge, @server{ 1 .. 4 });

# One leaves, and one dies: what they have learned stays.
run_page('A server leaves', 4 => $server{4});
$server{3}->stop('immediate');
exchange(1, 2);
my $before = probabilities($server{1});
same_probabilities(probabilities($server{2}), $before, 'two are left');
is($server{1}->safe_psql('shop', 'SELECT string_agg(node::text, $$ $$ ORDER BY node) FROM dexp3.nodes WHERE counts'),
	'1 2 3 4', 'what the others have learned counts');
@loads = map { start_load($server{$_}, 50) } 1, 2;
stop_load($_) foreach @loads;
exchange(1, 2);
same_probabilities(probabilities($server{2}), probabilities($server{1}), 'two go on');

# The dead one comes back, and catches up.
$server{3}->start;
exchange(1 .. 3);
same_probabilities(probabilities($server{3}), probabilities($server{1}), 'it is back, and knows all');

# Publications that tell deletions, too, and have no filter: rows go round, and stop.
foreach my $i (1 .. 3)
{
	$server{$i}->safe_psql('shop', "ALTER PUBLICATION dexp3 SET (publish = 'insert, update, delete, truncate')");
}
@loads = map { start_load($server{$_}, 50) } 1 .. 3;
stop_load($_) foreach @loads;
exchange(1 .. 3);
$server{$_}->safe_psql('shop', 'ALTER PUBLICATION dexp3 SET TABLE dexp3.component') foreach 1 .. 3;
@loads = map { start_load($server{$_}, 50) } 1 .. 3;
stop_load($_) foreach @loads;
exchange(1 .. 3);
same_probabilities(probabilities($server{$_}), probabilities($server{1}), "server$_, with rows that go round") foreach 2, 3;
is( $server{$_}->safe_psql('shop', 'SELECT count(*) FROM dexp3.nodes WHERE NOT counts OR why IS NOT NULL'),
	0, "server$_: nobody is taken for somebody else")
  foreach 1 .. 3;

check_logs(@server{ 1 .. 4 });
$_->stop foreach @server{ 1 .. 4 };
done_testing();
