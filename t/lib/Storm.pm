# Storm.pm: many clients at once, for tests of what they must not do to each other
#
# Clients are pgbench scripts, which use the functions of install_records() in Dexp3.pm.
# In a script ":bandit" is the bandit, and ":loss" a number below 1e9.

package Storm;

use strict;
use warnings;

use Dexp3;
use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw($feedback_in_savepoints $choices_in_savepoints clients storm storm_and_crash check_sums);

# Feedback for the decisions ":first", which is taken back, and ":second"
our $feedback_in_savepoints = q{
\if :first > 0
SAVEPOINT a;
SELECT give(:first, :loss / 1e9);
ROLLBACK TO a;
\endif
\if :second > 0
SAVEPOINT b;
SELECT give(:second, :loss / 1e9);
RELEASE b;
\endif
};

# Four choices, of which the first two are taken back
our $choices_in_savepoints = q{
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
};

# clients(NODE, PREFIX, BEGIN, 'NAME@WEIGHT' => SCRIPT, ...): return the arguments with
# which pgbench runs these scripts, each after the same beginning.  The prefix is that of
# their files.
sub clients
{
	my ($node, $prefix, $begin, %scripts) = @_;
	my @files;

	foreach my $script (sort keys %scripts)
	{
		my ($name, $weight) = split /@/, $script;
		my $file = $node->basedir . "/$prefix-$name.sql";

		append_to_file($file, $begin . $scripts{$script});
		push @files, '-f', "$file\@$weight";
	}
	return ('pgbench', '-n', '-c', 16, '-j', 2, @files);
}

# storm(NODE, SECONDS, NAME, CLIENTS...): let the clients do what they want for so long.
# None of them fails.
sub storm
{
	my ($node, $seconds, $name, @clients) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->command_checks_all(
		[ @clients, '-T', $seconds, 'postgres' ],
		0,
		[qr/^number of failed transactions: 0 /m],
		[qr/^(?!.*(?:error|aborted))/s],
		$name);
	return;
}

# storm_and_crash(NODE, SECONDS, CLIENTS...): the same, until the server crashes.  It is
# not started again.
sub storm_and_crash
{
	my ($node, $seconds, @clients) = @_;
	my ($stdout, $stderr) = ('', '');
	my $storm = IPC::Run::start([ @clients, '-T', 60, $node->connstr('postgres') ], '>', \$stdout, '2>', \$stderr);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	sleep $seconds;
	$node->stop('immediate');
	$storm->finish;
	like($stderr, qr/connection to server|server closed|terminat/, 'the clients are cut off');
	unlike($stderr, qr/ERROR:/, 'and have had no errors before');
	return;
}

# check_sums(NODE, WHEN, BANDITS...): what the clients were told, the log, and the sums
# agree.
sub check_sums
{
	my ($node, $when, @bandits) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach my $bandit (@bandits)
	{
		check_records($node, $bandit, "$when: the log is what was acknowledged");
		agrees($node, $bandit, undef, "$when: the state");
		is($node->safe_psql('postgres', "SELECT bandit_verify('$bandit')"), 't', "$bandit: $when: the sums");
	}
	return;
}

1;
