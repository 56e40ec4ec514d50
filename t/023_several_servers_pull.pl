# One bandit on several servers, with postgres_fdw.
#
# The servers are made with the commands of doc/several-servers.md.  There is load on all
# of them while they pull from each other, and while they do not.  One is restored from
# an older backup, one is replaced by its standby, one is dumped and restored, and one
# is a copy that must become another node.  In the end each has the probabilities of
# one learner that was fed all rows, to 1e-9.

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
my $late = 'CREATE TABLE late (decision_id bigint, loss float8)';

run_page('Three servers', %server);
run_page('With postgres_fdw', %server);
$_->safe_psql('shop', $late) foreach @servers;

# Some rounds, and all know of them
sub load_and_exchange
{
	my ($rounds, @numbers) = @_;
	my @loads = map { start_load($server{$_}, $rounds) } @numbers;

	stop_load($_) foreach @loads;
	exchange(@numbers);
	return;
}

sub exchange
{
	my (@numbers) = @_;

	$server{$_}->safe_psql('shop', 'SELECT bandit_publish()') foreach @numbers;
	run_page('Pulling', map { $_ => $server{$_} } @numbers);
	return;
}

load_and_exchange(100, 1 .. 3);
check_union('pulling', $server{1}, @servers);

# Nothing is new: nothing comes, be there a foreign table that stays or not.
is($server{1}->safe_psql('shop', q{SELECT bandit_pull('server2'), bandit_pull('server2'), bandit_pull('server3')}),
	'0|0|0', 'nothing is new');
run_page('Foreign tables that stay', %server);
is( $server{1}->safe_psql('shop', q{
SELECT bandit_pull('server2'); SELECT count(*) FROM pg_class WHERE relpersistence = 't' AND relname LIKE 'dexp3%'}),
	"0\n0", 'the foreign table is found');

# Load, while they pull all the time
$server{2}->backup('old');
my @pulls = map { my $i = $_; start_pulling($server{$i}, 60, grep { $_ != $i } 1 .. 3) } 1 .. 3;
load_and_exchange(300, 1 .. 3);
stop_load($_) foreach @pulls;
exchange(1 .. 3);
check_union('pulling under load', $server{1}, @servers);

# The old backup of server 2 takes its place: it knows less than the others know of it.
my $before = $server{2}->safe_psql('shop', 'SELECT count(*) FROM dexp3.decision');
my $port = $server{2}->port;
$server{2}->stop('immediate');
my $restored = PostgreSQL::Test::Cluster->new('restored');
$restored->init_from_backup($server{2}, 'old');
$restored->append_conf('postgresql.conf', "port = $port");
$restored->{_port} = $port;
$restored->start;
$server{2} = $restored;
cmp_ok($restored->safe_psql('shop', 'SELECT count(*) FROM dexp3.decision'), '<', $before, 'the backup is older');
is($restored->safe_psql('shop', 'SELECT bandit_node()'), 2, 'it knows its number');
# It may hear of its former self before it publishes: that does not count here, and not
# elsewhere from its next row on.
$restored->safe_psql('shop', q{SELECT bandit_pull('server1')});
like($restored->safe_psql('shop', 'SELECT why FROM dexp3.nodes WHERE own'), qr/before it was restored/, 'it has heard of its former self');
exchange(1 .. 3);
@servers = @server{ 1 .. 3 };
check_union('restored from an older backup', $server{1}, @servers);
load_and_exchange(100, 1 .. 3);
check_union('and it goes on', $server{1}, @servers);
is( $_->safe_psql('shop', 'SELECT count(*) FROM dexp3.nodes WHERE NOT counts OR why IS NOT NULL'),
	0, $_->name . ' takes nobody for somebody else')
  foreach @server{ 1, 3 };

# Server 3 is replaced by its standby.
$server{3}->backup('standby');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($server{3}, 'standby', has_streaming => 1);
$standby->start;
load_and_exchange(100, 1 .. 3);
$server{3}->wait_for_catchup($standby);
same_probabilities(probabilities($standby), probabilities($server{1}), 'a standby has all');
$server{3}->stop('immediate');
$standby->promote;
$server{$_}->safe_psql('shop', sprintf q{ALTER SERVER server3 OPTIONS (SET port '%d')}, $standby->port) foreach 1, 2;
$server{3} = $standby;
@servers = @server{ 1 .. 3 };
is($standby->safe_psql('shop', 'SELECT bandit_node()'), 3, 'the standby has its number');
load_and_exchange(100, 1 .. 3);
check_union('with a standby that was promoted', $server{1}, @servers);

# A chain: server 1 hears of server 3 through server 2.
$server{3}->safe_psql('shop', q{
SELECT bandit_feedback(decision_id, 1) FROM bandit_choose('headline');
SELECT bandit_publish()});
$server{2}->safe_psql('shop', q{SELECT bandit_pull('server3')});
$server{1}->safe_psql('shop', q{SELECT bandit_pull('server2')});
same_probabilities(probabilities($server{1}), probabilities($server{3}), 'by way of another server');

# Dumped and restored: the same number, the same sums, and identifiers go on.
my $dump = "$PostgreSQL::Test::Utils::tmp_check/shop.dump";
command_ok([ 'pg_dump', '-Fc', '-f', $dump, $server{1}->connstr('shop') ], 'dump');
$server{2}->safe_psql('postgres', 'CREATE DATABASE copy');
command_ok([ 'pg_restore', '--no-owner', '-d', $server{2}->connstr('copy'), $dump ], 'restore');
is( $server{2}->safe_psql('copy', q{SELECT bandit_node(), string_agg(node || ' ' || counts || coalesce(why, ''), ', ' ORDER BY node) FROM dexp3.nodes}),
	'1|1 true, 2 true, 3 true', 'the restored copy is the same node');
my ($copied, $original) = map { { split /[|\n]/, $_->[0]->safe_psql($_->[1], q{SELECT * FROM bandit_probabilities('headline')}) } }
  [ $server{2}, 'copy' ], [ $server{1}, 'shop' ];
same_probabilities($copied, $original, 'and knows the same');
is( $server{2}->safe_psql('copy', q{
SELECT decision_id > (SELECT max(decision_id) FROM dexp3.decision) AND decision_id >> 48 = 1 FROM bandit_choose('headline')}),
	't', 'its identifiers go on');

# That copy cannot be another node before it begins anew: its decisions would count twice.
my ($result, undef, $error) = $server{2}->psql('copy', "\\set VERBOSITY verbose\nSELECT bandit_node(9)");
like($error, qr/ERROR:  55000: sums of bandit "headline" have been published as those of node 1/, 'a copy cannot be another node at once');
is( $server{2}->safe_psql('copy', q{SELECT bandit_reset('headline'); SELECT bandit_node(9); SELECT decision_id >> 48 FROM bandit_choose('headline')}),
	"\n9\n9", 'after a reset it can');

#
# Which numbers a server can have
#

$server{2}->safe_psql('postgres', 'CREATE DATABASE numbers');
is( $server{2}->safe_psql('numbers', q{
CREATE EXTENSION dexp3;
SELECT FROM bandit_create('b', ARRAY['x', 'y']);
SELECT FROM bandit_share('b');
SELECT bandit_node(1), count(*) FROM dexp3.component;
SELECT count(*) FROM dexp3.component;
SELECT decision_id - (1::bigint << 48) FROM bandit_choose('b')}),
	"1|1\n0\n1", 'an empty row does not stay under the former number');
# When the bandit is dropped, nobody remembers its identifiers but those who have got them.
is( $server{2}->safe_psql('numbers', q{
SELECT FROM bandit_drop('b');
SELECT FROM bandit_create('b', ARRAY['x', 'y']);
SELECT bandit_node(0);
SELECT decision_id >> 48 FROM bandit_choose('b');
SELECT bandit_node(1);
SELECT decision_id >> 48, decision_id - (1::bigint << 48) > 1 FROM bandit_choose('b')}),
	"0\n0\n1\n1|t", 'no identifier is given out twice');
($result, undef, $error) = $server{2}->psql('numbers', q{
SELECT FROM bandit_share('b');
INSERT INTO dexp3.component
SELECT (jsonb_populate_record(c, '{"node": 7}')).* FROM dexp3.component c;
SELECT FROM bandit_reset('b');
SELECT bandit_node(7)});
like($error, qr/sums of bandit "b" have been published as those of node 7/, 'nor a number that another server has');

# A logical replica of the log can take the place of the server: then what that has
# published is its own, and identifiers go on.
$server{3}->safe_psql('shop', q{
SELECT bandit_publish();
CREATE PUBLICATION log FOR TABLE dexp3.bandit, dexp3.decision, dexp3.feedback, dexp3.expiry, dexp3.trimmed, dexp3.component});
$server{2}->safe_psql('postgres', 'CREATE DATABASE replica');
$server{2}->safe_psql('replica', 'CREATE EXTENSION dexp3');
$server{2}->safe_psql('replica', sprintf q{CREATE SUBSCRIPTION log CONNECTION '%s dbname=shop' PUBLICATION log}, $server{3}->connstr);
$server{2}->wait_for_subscription_sync($server{3}, 'log', 'replica');
$server{2}->safe_psql('replica', 'DROP SUBSCRIPTION log');
my $known = q{SELECT string_agg(node || ' ' || own, ', ' ORDER BY node) FROM dexp3.nodes WHERE counts};
is($server{2}->safe_psql('replica', $known), '0 true, 1 false, 2 false, 3 false', 'a replica is another server first');
$server{2}->safe_psql('replica', q{SELECT * FROM bandit_probabilities('headline'); BEGIN; SELECT bandit_node(3); ROLLBACK});
is($server{2}->safe_psql('replica', $known), '1 false, 2 false, 3 true', 'and can become the one that it is a replica of');
same_probabilities({ split /[|\n]/, $server{2}->safe_psql('replica', q{SELECT * FROM bandit_probabilities('headline')}) },
	probabilities($server{3}), 'it knows what that one knew');
is($server{2}->safe_psql('replica', q{
SELECT decision_id - (SELECT max(decision_id) FROM dexp3.decision) FROM bandit_choose('headline')}),
	1, 'its identifiers go on');

# Two servers with the same number, because somebody has forgotten to set it
my $twin = new_server('twin');
$twin->safe_psql('shop', q{
CREATE EXTENSION dexp3;
SELECT bandit_node(1);
SELECT bandit_create('headline', ARRAY['plain', 'funny', 'bold']);
SELECT bandit_share('headline');
SELECT bandit_feedback(decision_id, 1) FROM bandit_choose('headline');
SELECT bandit_publish();
});
$before = probabilities($server{1});
$server{1}->safe_psql('shop', sprintf q{
CREATE SERVER twin FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '%s', port '%d', dbname 'shop');
CREATE USER MAPPING FOR CURRENT_USER SERVER twin;
SELECT bandit_pull('twin')}, $twin->host, $twin->port);
same_probabilities(probabilities($server{1}), $before, 'what another server with our number says does not count');
like($server{1}->safe_psql('shop', 'SELECT why FROM dexp3.nodes WHERE own'), qr/another server/, 'and we are told');

# Who may pull: nobody who lacks the rights that it needs.
$server{1}->safe_psql('shop', q{
CREATE ROLE puller LOGIN;
GRANT USAGE ON FOREIGN SERVER server2 TO puller;
CREATE USER MAPPING FOR puller SERVER server2 OPTIONS (user '} . getpwuid($<) . q{', password_required 'false')});
my $as_puller = 'SET SESSION AUTHORIZATION puller;';
($result, undef, $error) = $server{1}->psql('shop', "$as_puller SELECT bandit_pull('server2')");
like($error, qr/permission denied for table component/, 'without rights on dexp3.component nobody can pull');
($result, undef, $error) = $server{1}->psql('shop', "$as_puller SELECT bandit_pull('server3')");
like($error, qr/permission denied for foreign server server3/, 'nor without rights on the server');
$server{1}->safe_psql('shop', 'GRANT SELECT, INSERT ON dexp3.component TO puller');
$server{2}->safe_psql('shop', q{SELECT bandit_feedback(decision_id, 1) FROM bandit_choose('headline'); SELECT bandit_publish()});
is($server{1}->safe_psql('shop', "$as_puller SELECT bandit_pull('server2')"), 1, 'with them it works');

# A role's own foreign table is nobody else's: it is not asked by the superuser.
$server{1}->safe_psql('shop', q{
DROP SCHEMA dexp3_on_server2 CASCADE;
CREATE SCHEMA mallory AUTHORIZATION puller;
GRANT USAGE ON FOREIGN SERVER server2 TO puller;
SET SESSION AUTHORIZATION puller;
IMPORT FOREIGN SCHEMA dexp3 LIMIT TO (component) FROM SERVER server2 INTO mallory;
ALTER FOREIGN TABLE mallory.component ALTER cost OPTIONS (SET column_name 'weight');
});
$server{2}->safe_psql('shop', q{SELECT bandit_feedback(decision_id, 1) FROM bandit_choose('headline'); SELECT bandit_publish()});
$server{1}->safe_psql('shop', q{SELECT bandit_pull('server2')});
is( $server{1}->safe_psql('shop', 'SELECT cost, weight FROM dexp3.component WHERE node = 2 AND NOT forgotten'),
	$server{2}->safe_psql('shop', 'SELECT cost, weight FROM dexp3.component WHERE node = 2 AND NOT forgotten'),
	'nobody else\'s foreign table is used');

is(join("\n", grep { !/published as those|permission denied/ } split /\n/, log_errors($_)), '',
	'nothing has gone wrong on ' . $_->name)
  foreach @servers, $twin;
$_->stop foreach @servers, $twin;
done_testing();
