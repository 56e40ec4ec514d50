# The documentation is right, and nothing is missing in it.
#
# In README.md and doc/reference.md each block marked sql is run, in order and in
# one session; what it prints must be the block that follows.  (doc/examples.md has
# a test of its own.)  The reference must have every function as it is declared,
# every type, relation, column and setting, and every error that the sources have.

use strict;
use warnings;

use File::Basename;
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Dexp3 qw(new_node);
use Documentation;

my $node = new_node('documentation');

foreach my $page ('README.md', 'doc/reference.md')
{
	my @examples = grep { $_->{language} eq 'sql' } examples_in(page($page));
	cmp_ok(scalar(@examples), '>', 5, "$page has examples");

	(my $database = basename($page)) =~ s/\W/_/g;
	$node->safe_psql('postgres', "CREATE DATABASE \"$database\"");
	run_sql($node, $database, $page, @examples);
}

#
# Every object of the extension is in the reference.
#

my $reference = page('doc/reference.md');

# Return the names in a query's result that the reference does not have.
sub missing
{
	my ($sql) = @_;

	$node->safe_psql('postgres', 'CREATE EXTENSION IF NOT EXISTS dexp3');
	my @names = split /\n/, $node->safe_psql('postgres', "SET client_min_messages = warning; LOAD 'dexp3'; $sql");
	cmp_ok(scalar(@names), '>', 0, 'there is something to look for');
	return join ', ', grep { $reference !~ /`\Q$_\E[`(]/ } @names;
}

# The members of the extension, of one catalog
sub members
{
	my ($catalog) = @_;

	return qq{
SELECT c.* FROM $catalog c
JOIN pg_depend d ON d.classid = '$catalog'::regclass AND d.objid = c.oid AND d.deptype = 'e'
JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'dexp3'};
}
my $members = sprintf q{WITH proc AS (%s), relation AS (%s), type AS (%s)},
  map { members($_) } qw(pg_proc pg_class pg_type);

is( missing(
		qq{$members
SELECT CASE pronamespace WHEN 'dexp3'::regnamespace THEN 'dexp3.' ELSE '' END || proname FROM proc}),
	'', 'the reference has all functions');
is( missing(
		qq{$members
SELECT CASE typnamespace WHEN 'dexp3'::regnamespace THEN 'dexp3.' ELSE '' END || typname FROM type
WHERE typcategory <> 'A' AND (typrelid = 0 OR (SELECT relkind FROM pg_class WHERE oid = typrelid) = 'c')}),
	'', 'the reference has all types');
is(missing("$members SELECT oid::regclass FROM relation WHERE relkind <> 'c'"), '', 'the reference has all relations');
is( missing(
		qq{$members
SELECT attname FROM pg_attribute
WHERE attnum > 0 AND NOT attisdropped AND attrelid IN (
    SELECT oid FROM relation
    WHERE relkind IN ('r', 'p', 'v', 'c') AND NOT relispartition AND relname NOT IN ('trimmed', 'checkpoint', 'arm_totals'))}),
	'', 'the reference has all columns that are not internal');
is(missing(q{SELECT name FROM pg_settings WHERE name LIKE 'dexp3.%'}), '', 'the reference has all settings');

# Functions for users have a heading with their names.  The block below it has their
# arguments, defaults and results; a line that is indented goes on with the one before.
my %signatures;
my @misplaced;
while ($reference =~ /^### ([^\n]*)\n\n```\n(.*?)^```\n/mgs)
{
	my ($heading, $block) = ($1, $2);

	$block =~ s/\n +/ /g;
	$block =~ s/\( /(/g;
	my %named = map { $_ => 1 } $heading =~ /`(\w+)`/g;
	my %described = map { /^(\w+)\(/ => 1 } split /\n/, $block;

	push @misplaced, $heading unless join(' ', sort keys %named) eq join(' ', sort keys %described);
	$signatures{$_} = 1 foreach split /\n/, $block;
}
is(join("\n", @misplaced), '', 'headings name the functions below them');
my $declared = $node->safe_psql(
	'postgres', qq{$members
SELECT proname || '(' || pg_get_function_arguments(oid) || ')' ||
       CASE WHEN prorettype IN ('void'::regtype, 'trigger'::regtype)
                 OR proargmodes IS NOT NULL AND NOT proretset THEN ''
            ELSE ' RETURNS ' || pg_get_function_result(oid) END
FROM proc
WHERE pronamespace <> 'dexp3'::regnamespace
  AND proname NOT LIKE 'bandit_state\\_%' AND proname <> 'jsonb'});
$declared =~ s/double precision/float8/g;
$declared =~ s/::\w+(?:\[\])?//g;
$declared =~ s/\bTABLE\(/TABLE (/g;
my %declared = map { $_ => 1 } split /\n/, $declared;
is(join("\n", grep { !$signatures{$_} } sort keys %declared), '', 'functions are as the reference says');
is(join("\n", grep { !$declared{$_} } sort keys %signatures), '', 'the reference has no other functions');

#
# Every error is in the reference.
#

my ($errors) = $reference =~ /^## Errors\n(.*?)(?:^## |\z)/ms;
my %table;    # messages by SQLSTATE
foreach (split /\n/, $errors)
{
	my ($code, $condition, $messages) = /^\| (\w{5}) \| `(\w+)` \| (.*?) \| / or next;

	push @{ $table{$code}{messages} }, $messages =~ /`([^`]+)`/g;
	$table{$code}{condition} = $condition;
}
cmp_ok(scalar(keys %table), '>', 15, 'the reference has errors');

# PostgreSQL's own list of codes, names in C and conditions
my (%code_of, %condition_of);
my $sharedir = $node->config_data('--sharedir');
foreach (split /\n/, slurp_file("$sharedir/errcodes.txt"))
{
	my ($code, $name, $condition) = /^(\w{5})\s+[ESW]\s+(\w+)(?:\s+(\w+))?/ or next;

	$code_of{$name} = $code;
	$condition_of{$code} //= $condition;
}
is( join(', ', grep { $table{$_}{condition} ne ($condition_of{$_} // '') } sort keys %table),
	'', 'SQLSTATEs have their conditions');

# The messages of the sources, as patterns.  A message is a literal with a space; other
# literals are among its arguments.
my $literal = qr/"(?:[^"\\]|\\.)*"/;
my $part = qr/$literal|INT64_FORMAT/;
my @unknown;
my %patterns;    # by SQLSTATE
foreach my $file (glob dirname($FindBin::RealBin) . '/src/*.[ch]')
{
	my $source = slurp_file($file);
	my @found;

	while ($source =~ /\b(?:ereport\(ERROR|ereturn\(|errsave\()(.*?);\n/gs)
	{
		my $call = $1;
		my ($name) = $call =~ /errcode\((ERRCODE_\w+)\)/;
		my ($text) = $call =~ /errmsg\((.*?)(?:errhint|errdetail|\z)/s;

		push @found, map { [ $name, $_ ] } ($text // '') =~ /((?:$part)(?:\s+$part)*)/g;
	}
	push @found, [ 'ERRCODE_INVALID_PARAMETER_VALUE', $_ ] foreach $source =~ /\binvalid_argument\((?:psprintf\()?($literal)/g;
	foreach my $found (@found)
	{
		my ($name, $message) = @$found;
		my $code = $code_of{ $name // '' } // "an error without a code in $file";

		$message = join '', map { /^"(.*)"$/s ? $1 : '%d' } $message =~ /$part/g;
		$message =~ s/\\"/"/g;
		next unless $message =~ / /;
		my $pattern = join '.+', map { quotemeta } split /%[-.0-9]*[a-z]/, $message, -1;
		push @{ $patterns{$code} }, $pattern;
		push @unknown, "$code $message"
		  unless grep { /^$pattern$/ } @{ $table{$code}{messages} };
	}
}
cmp_ok(scalar(map { @$_ } values %patterns), '>', 50, 'the sources have errors');
is(join("\n", @unknown), '', 'the reference has all errors');

# Those that PostgreSQL's own functions have in store
$patterns{25000} = ['cannot execute .+ during a parallel operation'];
$patterns{25006} = ['cannot execute .+ in a read-only transaction'];
push @{ $patterns{42704} }, 'role .+ does not exist';
my @stale;
foreach my $code (sort keys %table)
{
	foreach my $message (@{ $table{$code}{messages} })
	{
		push @stale, "$code $message" unless grep { $message =~ /^$_$/ } @{ $patterns{$code} };
	}
}
is(join("\n", @stale), '', 'the reference has no other errors');

$node->stop;
done_testing();
