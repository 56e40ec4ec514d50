# Many clients share few server connections, through PgBouncer in transaction
# mode: nothing that a session remembers of one client's transaction gets in the
# way of the next client's.
#
# A server connection changes hands at the end of each transaction, whatever ends it:
# COMMIT, ROLLBACK, an error, or a client that is gone.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

use lib "$FindBin::RealBin/lib";
use Dexp3;

my $seconds = 3;
my $pool_size = 5;

my ($program) =
  grep { -x } map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin';
plan skip_all => 'pgbouncer is not installed' unless defined $program;

my $node = new_node('pgbouncer', statement_timeout => '120s');
install_records($node);
$node->safe_psql(
	'postgres', q{
CREATE ROLE anna LOGIN;
CREATE ROLE stranger;
GRANT ALL ON chosen, given TO PUBLIC;
});
my $superuser = $node->safe_psql('postgres', 'SELECT current_user');

#
# PgBouncer, beside the server: the same socket directory, another port.  Database
# "single" is the same one through a single connection.
#

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $server = sprintf "host=%s port=%d dbname=postgres", $node->host, $node->port;
my $files = $node->basedir;

append_to_file("$files/users", qq{"$superuser" ""\n"anna" ""\n});
append_to_file(
	"$files/pgbouncer.ini", qq{
[databases]
postgres = $server
single = $server pool_size=1

[pgbouncer]
listen_addr =
listen_port = $port
unix_socket_dir = @{[ $node->host ]}
auth_type = trust
auth_file = $files/users
admin_users = $superuser
pool_mode = transaction
default_pool_size = $pool_size
max_client_conn = 200
server_reset_query = DISCARD ALL
query_wait_timeout = 0
});

# Its messages go to a file: it would wait for somebody who reads a pipe.
my $messages = "$files/pgbouncer.log";
append_to_file($messages, '');
my $pgbouncer = IPC::Run::start([ $program, "$files/pgbouncer.ini" ], '<', \undef, '>&', $messages);
for (my $try = 0; slurp_file($messages) !~ /process up/; $try++)
{
	BAIL_OUT('PgBouncer does not start') if $try == 10 * $PostgreSQL::Test::Utils::timeout_default;
	usleep(100_000);
}

END
{
	local $?;
	$pgbouncer->kill_kill if defined $pgbouncer;
}

# The way to the server through PgBouncer
my $pool = bless { %$node, _port => $port }, ref $node;

# Choose through the single connection of a user, which must be refused.
sub is_refused
{
	my ($user, $sql, $name) = @_;
	my ($status, $stdout, $stderr) = $pool->psql('single', $sql, extra_params => [ '-U', $user ]);

	like($stderr, qr/permission denied for bandit "single"/, $name);
	return;
}

# Compare what each server connection thinks with the tables: as many transactions
# as there are connections, all open at the same time, have one each.
sub all_agree
{
	my ($bandit, $name) = @_;
	my @sessions = map { $pool->background_psql('postgres') } 1 .. $pool_size;
	my %pids = map { $_->query_safe('BEGIN; SELECT pg_backend_pid()') => 1 } @sessions;

	is(keys %pids, $pool_size, "$name: each session has a connection of its own");
	agrees($node, $bandit, $_, "$name: a server connection") foreach @sessions;
	$_->query_safe('COMMIT') foreach @sessions;
	$_->quit foreach @sessions;
	return;
}

#
# One connection, one client after the other
#

$node->safe_psql('postgres', q{SELECT bandit_create('single', '{a,b,c}', 'dada', patience => 3)});

my $first = $pool->background_psql('single', on_error_stop => 0);
my $second = $pool->background_psql('single', on_error_stop => 0);
my $pid = $first->query_safe('SELECT pg_backend_pid()');
is($second->query_safe('SELECT pg_backend_pid()'), $pid, 'two clients share a connection');

# What the first client does, and how many decisions the second one then sees
my @turns = (
	[ 'a choice', q{SELECT choose('single')}, 1 ],
	[ 'a choice and feedback, rolled back',
		q{BEGIN; SELECT choose('single'); SELECT give(max(decision_id), 0.5) FROM chosen; ROLLBACK}, 1 ],
	[ 'savepoints',
		q{BEGIN; SAVEPOINT a; SELECT choose('single'); ROLLBACK TO a; SELECT choose('single');
		  SAVEPOINT b; SELECT choose('single'); RELEASE b; COMMIT}, 3 ],
	[ 'an error in a transaction', q{BEGIN; SELECT choose('single'); SELECT 1 / 0; COMMIT}, 3 ],
	[ 'an error in the statement that chooses', q{SELECT 1 / (choose('single') - choose('single') + 1)}, 3 ],
	[ 'feedback', q{SELECT give(min(decision_id), 1) FROM chosen}, 3 ],
	[ 'DISCARD ALL', 'DISCARD ALL', 3 ],
	[ 'another choice', q{SELECT choose('single')}, 4 ],
	[ 'skips, rolled back',
		q{BEGIN; SELECT choose('single') FROM generate_series(1, 10); ROLLBACK}, 4 ],
	[ 'skips', q{SELECT choose('single') FROM generate_series(1, 10)}, 14 ]);
foreach my $turn (@turns)
{
	my ($name, $sql, $rounds) = @$turn;

	$first->query($sql);
	$first->{stderr} = '';
	is($second->query_safe(q{SELECT learned('single') ->> 'round'}), $rounds, "rounds after $name");
	agrees($node, 'single', $second, "after $name, the next client");
}
is($second->query_safe('SELECT pg_backend_pid()'), $pid, 'still the same connection');

# A client that is killed in the middle: its transaction is over, and its decision
# can be settled by others at once.
my $decision = $second->query_safe(q{SELECT choose('single')});
$first->query_safe("BEGIN; SELECT choose('single'); SELECT give($decision, 0.5)");
$first->{run}->signal('KILL');
$first->{run}->finish;
is($second->query_safe("SELECT give($decision, 0.25)"), 'applied', 'a client that was killed has left nothing');
is($second->query_safe(q{SELECT learned('single') ->> 'round'}), 15, 'and its choice is gone');
agrees($node, 'single', $second, 'after that, the next client');

# Rights are those of the moment: what the connection remembers is of no use to a
# role that may not use the bandit.
is_refused($superuser, q{BEGIN; SET LOCAL ROLE stranger; SELECT choose('single')},
	'a role without rights on a warm connection');
$second->query_safe(q{SELECT choose('single')});

# With a reset after each transaction neither roles nor settings remain.
$pool->safe_psql('pgbouncer', 'SET server_reset_query_always = 1');
$second->query_safe(q{SET ROLE stranger});
$second->query_safe(q{SET dexp3.progress_interval = '7s'});
is($second->query_safe(q{SELECT current_user, current_setting('dexp3.progress_interval')}),
	"$superuser|5s", 'reset: no role or setting remains');
$second->query_safe(q{SELECT choose('single')}) foreach 1 .. 3;
agrees($node, 'single', $second, 'reset: a connection');
$pool->safe_psql('pgbouncer', 'SET server_reset_query_always = 0');

# Another user has a pool, and rights, of its own.
my @anna = ('-U', 'anna');
is( $pool->safe_psql('single', q{SELECT bandit_create('of anna', '{x,y}', 'dada') > 0; SELECT current_user},
		extra_params => \@anna),
	"t\nanna", 'another user makes a bandit');
is_refused('anna', q{SELECT choose('single')}, 'and may not use that of the first');
$pool->safe_psql('single', q{SELECT choose('of anna') FROM generate_series(1, 3)}, extra_params => \@anna);
agrees($node, 'of anna', $second, 'the bandit of another user');
$second->quit;
check_records($node, $_, 'one connection, one client after the other') foreach ('single', 'of anna');

#
# 50 clients at the same time: 20 that use the simple protocol, 20 the extended one,
# 5 whose transactions all fail, and 5 that vanish in the middle and come again
#

$node->safe_psql('postgres',
	q{SELECT bandit_create('crowd', '{a,b,c}', 'dada', patience => 20), bandit_create('deda', '{a,b}', 'deda', max_delay => 9)});

# As in 003_stress.pl: feedback first, in the order of the decisions, then choices,
# so that there are no deadlocks.
my $feedback = q{
\set loss random(0, 1000000000)
SELECT recent(BANDIT, true) AS first \gset
BEGIN;
\if :first > 0
SELECT give(:first, :loss / 1e9);
\endif
};
my %scripts = (
	choose => q{SELECT choose(BANDIT);},
	own => qq{
\\set loss random(0, 1000000000)
SELECT choose(BANDIT) AS mine \\gset
SELECT give(:mine, :loss / 1e9);
},
	other => qq{$feedback SELECT choose(BANDIT); COMMIT;},
	rollback => qq{$feedback SELECT choose(BANDIT); ROLLBACK;},
	savepoint => qq{$feedback
SAVEPOINT a;
SELECT choose(BANDIT);
ROLLBACK TO a;
SELECT choose(BANDIT);
SAVEPOINT b;
SELECT choose(BANDIT);
RELEASE b;
COMMIT;
},
	trigger => q{
INSERT INTO outcome SELECT decision_id, 0.5
FROM (SELECT DISTINCT recent(BANDIT, true) AS decision_id FROM generate_series(1, 4)) d
WHERE decision_id > 0 ORDER BY decision_id;
});

sub crowd
{
	my ($bandit) = @_;
	my @pgbench;

	my @scripts;
	foreach my $name (sort keys %scripts)
	{
		append_to_file("$files/$bandit-$name.sql", $scripts{$name} =~ s/BANDIT/'$bandit'/gr);
		push @scripts, '-f', "$files/$bandit-$name.sql";
	}
	local %ENV = $pool->_get_env();
	foreach my $protocol (qw(simple extended))
	{
		my %client = (protocol => $protocol, output => '');

		$client{run} = IPC::Run::start(
			[
				'pgbench', '-n', '-c', 20, '-T', $seconds, '-M', $protocol,
				@scripts, 'postgres'
			],
			'<', \undef, '>&', \$client{output});
		push @pgbench, \%client;
	}

	# The others go on until pgbench has finished.
	my $transaction =
	  "BEGIN; SELECT give(recent('$bandit', true), 0.5); SELECT choose('$bandit'); SAVEPOINT a; SELECT choose('$bandit');";
	my $failing = "$transaction SELECT 1 / 0; COMMIT;\n" x 10;
	my $vanished = 0;
	while (grep { $_->{run}->pumpable } @pgbench)
	{
		my @psql = map {
			my $script = $_;
			my $output = '';
			IPC::Run::start([ 'psql', '-XAtq', 'postgres' ], '<', \$script, '>&', \$output)
		} (($failing) x 5, ($transaction) x 5);

		$_->finish foreach @psql;
		$vanished += 5;
		$_->{run}->pump_nb foreach grep { $_->{run}->pumpable } @pgbench;
	}
	note("$bandit: $vanished clients vanished");

	foreach my $client (@pgbench)
	{
		$client->{run}->finish;
		like($client->{output}, qr/^number of failed transactions: 0 /m, "$bandit, $client->{protocol}: no transaction fails");
		unlike($client->{output}, qr/error|aborted/, "$bandit, $client->{protocol}: no client fails");
	}
	return;
}

foreach my $bandit (qw(crowd deda))
{
	crowd($bandit);
	$node->poll_query_until('postgres',
		q{SELECT count(*) = 0 FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'})
	  or BAIL_OUT('a transaction is still open');
	check_records($node, $bandit, 'a crowd');
	all_agree($bandit, 'a crowd');
	agrees($node, $bandit, undef, 'a new session');
}

$pgbouncer->signal('INT');
$pgbouncer->finish;
undef $pgbouncer;

# The only errors are those that were asked for.
my @bad =
  grep { !/division by zero|permission denied for bandit|decision 0 does not exist|current transaction is aborted|connection to client|unexpected EOF/ }
  grep { /\b(?:ERROR|FATAL|PANIC|TRAP|WARNING|deadlock)\b/ }
  split /\n/, slurp_file($node->logfile);
is(join("\n", @bad), '', 'no other errors in the server log');

$node->stop;
done_testing();
