# Documentation.pm: the examples of a page, and how to run them
#
# An example is a block marked with its language.  What it prints must be the
# unmarked block that follows it; without one, it prints nothing.

package Documentation;

use strict;
use warnings;

use Exporter 'import';
use File::Basename;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(page examples_in check_output run_sql);

my $top = dirname(dirname(dirname(__FILE__)));

# Return the text of a page.
sub page
{
	my ($name) = @_;

	return slurp_file("$top/$name");
}

# Return the examples in a text, in order.
sub examples_in
{
	my ($text) = @_;
	my @examples;

	while ($text =~ /^```(\w+)\n(.*?)^```\n(?:\n```\n(.*?)^```\n)?/gms)
	{
		push @examples, { language => $1, code => $2, output => $3 // '' };
	}
	return @examples;
}

# Compare what an example has printed with what the page says.
sub check_output
{
	my ($page, $example, $output) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$output =~ s/[ \t]+$//mg;
	$output =~ s/\n+\z//;
	is($output, $example->{output} =~ s/\n+\z//r, "$page: " . (split /\n/, $example->{code})[0]);
	return;
}

# Run SQL examples in one session of psql, and compare what they print.
sub run_sql
{
	my ($node, $database, $page, @examples) = @_;

	# A line after each example tells where its output ends.
	my $end = "-- end of example --";
	my $script = join('', map { "$_->{code}\\echo '$end'\n" } @examples);
	my ($stdout, $stderr);
	IPC::Run::run([ 'psql', '-X', '-q', '-d', $node->connstr($database) ],
		'<', \$script, '>', \$stdout, '2>', \$stderr);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($stderr, '', "$page: no errors or warnings");
	my @output = split /^\Q$end\E\n/m, $stdout, -1;
	is(pop @output, '', "$page: nothing is printed after the last example");
	is(scalar(@output), scalar(@examples), "$page: all examples ran");
	check_output($page, $examples[$_], $output[$_] // '') foreach (0 .. $#examples);
	return;
}

1;
