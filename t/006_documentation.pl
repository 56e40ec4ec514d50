# Every example in the documentation: run it, and compare the output.
#
# In README.md and doc/reference.md each block marked sql is run, in order and
# in one session.  What it prints must be the unmarked block that follows it.

use strict;
use warnings;

use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = dirname(dirname(__FILE__));
my $node = PostgreSQL::Test::Cluster->new('documentation');
$node->init;
$node->start;

foreach my $page ('README.md', 'doc/reference.md')
{
	my $text = slurp_file("$top/$page");
	my (@sql, @expected);

	while ($text =~ /^```sql\n(.*?)\n```\n(?:\n```\n(.*?)\n```\n)?/gms)
	{
		push @sql, $1;
		push @expected, defined $2 ? $2 : '';
	}
	cmp_ok(scalar(@sql), '>', 5, "$page has examples");

	# A line after each block tells where its output ends.
	my $end = "-- end of block --";
	my $script = join('', map { "$_\n\\echo '$end'\n" } @sql);
	my ($stdout, $stderr);
	(my $database = basename($page)) =~ s/\W/_/g;
	$node->safe_psql('postgres', "CREATE DATABASE \"$database\"");
	IPC::Run::run(
		[ 'psql', '-X', '-q', '-d', $node->connstr($database) ],
		'<', \$script, '>', \$stdout, '2>', \$stderr);
	is($stderr, '', "$page: no errors or warnings");

	my @got = split /^\Q$end\E\n/m, $stdout;
	is(scalar(@got), scalar(@sql), "$page: all examples ran");
	for my $i (0 .. $#sql)
	{
		(my $output = $got[$i] // '') =~ s/[ \t]+$//mg;
		$output =~ s/\n+\z//;
		is($output, $expected[$i], "$page: " . (split /\n/, $sql[$i])[0]);
	}
}

done_testing();
