# Servers.pm: what the tests of several servers share
#
# They are made with the commands of doc/several-servers.md.  There is load for them; a
# judge, which is one learner that is fed the log of all servers; and another judge,
# which is written in SQL and knows nothing of the extension but the rows of the logs.

package Servers;

use strict;
use warnings;

use Dexp3 qw(new_node);
use Documentation;
use Exporter 'import';
use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(new_server run_page start_load stop_load start_pulling wait_for_rounds
  probabilities same_probabilities check_union check_logs log_errors);

my $top = dirname(dirname(dirname(__FILE__)));
my $page = 'doc/several-servers.md';
my $database = 'shop';

# Make a server with a database.
sub new_server
{
	my ($name, %settings) = @_;
	my $server = new_node(
		$name,
		allows_streaming => 'logical',
		autovacuum => 'off',
		max_logical_replication_workers => 12,
		max_prepared_transactions => 2,
		max_worker_processes => 20,
		wal_retrieve_retry_interval => '100ms',
		'dexp3.publish_interval' => '100ms',
		%settings);

	$server->safe_psql('postgres', "CREATE DATABASE $database");
	return $server;
}

# run_page(CHAPTER, SERVERS): run the examples of a chapter that begin with "-- on
# server 1" or the like, on these servers, a hash by their numbers.  In the examples the
# servers are called server1, server2 and so on.
sub run_page
{
	my ($chapter, %servers) = @_;
	my ($text) = page($page) =~ /^##+ \Q$chapter\E\n(.*?)(?=^##|\z)/ms or die "no chapter $chapter";
	my $ran = 0;

	foreach my $example (grep { $_->{language} eq 'sql' } examples_in($text))
	{
		my ($where) = $example->{code} =~ /^-- on (?:each server|servers? ([\d, and]+))\n/ or next;
		my @numbers = defined $1 ? $1 =~ /\d+/g : sort keys %servers;

		foreach my $number (grep { defined $servers{$_} } @numbers)
		{
			my $code = $example->{code};

			# where the servers really are
			$code =~ s/host=server(\d+)/'host=' . $servers{$1}->host . ' port=' . $servers{$1}->port/eg;
			$code =~ s/host 'server(\d+)'/"host '" . $servers{$1}->host . "', port '" . $servers{$1}->port . "'"/eg;
			$code =~ s/\buser=\w+/'user=' . getpwuid($<)/eg;
			$servers{$number}->safe_psql($database, $code);
			$ran++;
		}
	}
	cmp_ok($ran, '>', 0, "$page: $chapter");
	return;
}

# start_script(SERVER, NAME, SCRIPT, OPTIONS): run a script again and again, with pgbench.
# What it says goes to a file: nobody reads a pipe while it runs.
sub start_script
{
	my ($server, $name, $script, @options) = @_;
	my $file = "$PostgreSQL::Test::Utils::tmp_check/$name" . $server->name . '.sql';
	open my $handle, '>', $file or die;
	print $handle $script;
	close $handle;
	return {
		output => "$file.out",
		run => IPC::Run::start(
			[ 'pgbench', '--no-vacuum', "--file=$file", @options, $server->connstr($database) ],
			'<', \undef, '>&', "$file.out")
	};
}

# Two sessions choose and give feedback, some of it later, for so many rounds, of which
# there are at most 150 in a second.
sub start_load
{
	my ($server, $rounds) = @_;

	return start_script($server, 'load', q{
SELECT decision_id, CASE arm WHEN 'plain' THEN 0.6 WHEN 'funny' THEN 0.5 ELSE 0.4 END AS loss
FROM bandit_choose('headline') \gset
\set kind random(1, 4)
\if :kind <= 2
SELECT bandit_feedback(:decision_id, :loss);
\elif :kind = 3
INSERT INTO late VALUES (:decision_id, :loss);
SELECT bandit_feedback(decision_id, loss)
FROM (SELECT * FROM late ORDER BY random() LIMIT 1) AS l;
\endif
}, '--client=2', '--rate=150', '--transactions=' . int($rounds / 2));
}

# A session pulls from other servers, so many times, at most 50 times in a second.
sub start_pulling
{
	my ($server, $times, @from) = @_;

	return start_script($server, 'pull', join('', map { "SELECT bandit_pull('server$_');\n" } @from),
		'--rate=50', "--transactions=$times");
}

# Wait until a server has had so many rounds.
sub wait_for_rounds
{
	my ($server, $rounds) = @_;

	$server->poll_query_until($database, "SELECT count(*) >= $rounds FROM dexp3.decision")
	  or die $server->name . " does not get to round $rounds";
	return;
}

# Wait for the end of such a script.  It has not failed unless that is expected.
sub stop_load
{
	my ($load, $may_fail) = @_;
	my $result = $load->{run}->finish;

	ok($result, 'the load has run') or diag(slurp_file($load->{output})) unless $may_fail;
	return;
}

sub probabilities
{
	my ($server) = @_;

	return { split /[|\n]/, $server->safe_psql($database, q{SELECT * FROM bandit_probabilities('headline')}) };
}

# Compare probabilities to 1e-9.
sub same_probabilities
{
	my ($got, $expected, $name) = @_;
	my $worst = %$expected ? 0 : 1;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach (keys %$expected)
	{
		my $difference = abs(($got->{$_} // -1) - $expected->{$_});
		$worst = $difference if $difference > $worst;
	}
	cmp_ok($worst, '<', 1e-9, $name) or diag(explain($got, $expected));
	return;
}

# The functions of the independent reference that solve the learner's equation
my $reference = "CREATE SCHEMA reference;\n" . join "\n",
  map { slurp_file("$top/sql/$_") =~ /^CREATE FUNCTION reference\.(?:weight|excess|solve|exponential)\(.*?^\$\$;/msg }
  qw(reference.sql self_tuned_reference.sql);

# All servers have the probabilities of one learner that was fed all rows of their logs.
sub check_union
{
	my ($name, $judge, @servers) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$judge->safe_psql('postgres', 'DROP DATABASE IF EXISTS judge');
	$judge->safe_psql('postgres', 'CREATE DATABASE judge');
	$judge->safe_psql('judge',
		"CREATE EXTENSION dexp3; SELECT bandit_create('headline', ARRAY['plain', 'funny', 'bold']); $reference");
	foreach my $server (@servers)
	{
		foreach my $table ('decision', 'feedback')
		{
			my $rows = $server->safe_psql($database, qq{
				COPY (SELECT (jsonb_populate_record(t, jsonb_build_object('arm',
				          array_position(ARRAY['plain', 'funny', 'bold'], b.arms[t.arm])))).*
				      FROM dexp3.$table t JOIN dexp3.bandit b USING (bandit_id, epoch)
				      WHERE b.name = 'headline' AND b.bandit_id = 1 AND b.epoch = 1) TO STDOUT});
			my $file = "$PostgreSQL::Test::Utils::tmp_check/union.copy";

			open my $handle, '>', $file or die;
			print $handle "$rows\n" if $rows ne '';
			close $handle;
			$judge->safe_psql('judge', "\\copy dexp3.$table FROM '$file'");
		}
	}
	my $expected = { split /[|\n]/, $judge->safe_psql('judge', q{SELECT * FROM bandit_probabilities('headline')}) };
	my $solved = { split /[|\n]/, $judge->safe_psql('judge', q{
WITH sums AS (
    SELECT (SELECT sum((loss - coalesce(baseline, 0)) * coalesce(mass, 1)) FROM dexp3.feedback) AS cost,
           array_agg((SELECT coalesce(sum(estimate), 0) FROM dexp3.feedback f WHERE f.arm = a) ORDER BY a) AS z
    FROM generate_series(1, 3) a)
SELECT p.arm, p.probability
FROM sums, dexp3.bandit b, unnest(b.arms, reference.exponential(ln(3::float8) / reference.solve(cost, z), z, '{t,t,t}')) AS p (arm, probability)}) };
	my $rounds = $judge->safe_psql('judge', 'SELECT count(*) FROM dexp3.decision');

	note("$name: $rounds rounds, " . join ', ', map { "$_ $expected->{$_}" } sort keys %$expected);
	same_probabilities($expected, $solved, "$name: one learner with the log of all, and the reference");
	same_probabilities(probabilities($_), $expected, "$name: " . $_->name . ' as one learner') foreach @servers;
	return;
}

# Return the lines of a server's log that tell of something wrong, apart from what the
# test has done to it.  A worker of a subscription that begins again may find the
# replication origin still held by the one that is just ending, and is then started once
# more: core lets go of the worker's slot first, and of its origin after that.
sub log_errors
{
	my ($server) = @_;

	return join "\n", grep {
		/\b(?:ERROR|FATAL|PANIC|TRAP|WARNING):/
		  && !/is not here: node 2 has made it|terminating|shutting down|starting up|not yet accepting|recovery|could not (?:connect|receive|send)|connection to server|SSL|canceling|is not (?:yet )?accepting|server closed the connection|replication origin with ID \d+ is already active/
	} split /\n/, slurp_file($server->logfile);
}

sub check_logs
{
	is(log_errors($_), '', 'nothing has gone wrong on ' . $_->name) foreach @_;
	return;
}

1;
