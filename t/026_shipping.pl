# What is shipped beside the code is consistent: one version everywhere, Debian's files,
# a workflow whose commands exist, and documents whose links lead somewhere.

use strict;
use warnings;

use File::Basename;
use FindBin;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = dirname($FindBin::RealBin);

sub file
{
	my ($name) = @_;

	return slurp_file("$top/$name");
}

#
# The version
#

my ($version) = file('dexp3.control') =~ /^default_version = '(\d+\.\d+)'$/m;
my $meta = decode_json(file('META.json'));
is($meta->{version}, "$version.0", 'META.json has the version of the control file');
is($meta->{provides}{dexp3}{version}, "$version.0", '... twice');
is((file('CHANGELOG.md') =~ /^## (\S+)/m)[0], "$version.0", 'so has the changelog');
is((file('debian/changelog') =~ /^dexp3 \((\S+)-\d+\)/)[0], "$version.0", 'and that of the package');
my ($year, $month, $day) = file('CHANGELOG.md') =~ /^## \S+ \((\d+)-(\d\d)-(\d\d)\)$/m;
$month = (qw(Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec))[ $month - 1 ];
like((file('debian/changelog') =~ /^ -- .*  (.*)$/m)[0], qr/^\w+, 0?\Q${\($day + 0)} $month $year\E /, '... with the same date');
ok(-f "$top/dexp3--$version.sql", 'there is a script for it');

#
# Debian's files
#

my ($debian_version) = file('debian/control') =~ /^Package: postgresql-(\d+)-dexp3$/m;
is(file('debian/control'), file('debian/control.in') =~ s/PGVERSION/$debian_version/gr, 'debian/control is of control.in');
is( file('debian/copyright') =~ s/.*?^License: PostgreSQL\n//msr =~ s/^ \.?//mgr,
	file('LICENSE') =~ s/^Copyright.*\n\n//r,
	'debian/copyright has the license');
my ($oldest) = file('debian/pgversions') =~ /^(\d+)\+$/m;
is("$oldest.0.0", $meta->{prereqs}{runtime}{requires}{PostgreSQL}, 'the oldest PostgreSQL is the same everywhere');

#
# The workflow
#

my $yaml = file('.github/workflows/test.yml');
my @postgres = ($yaml =~ /postgresql: \[(.*)\]/)[0] =~ /\d+/g;
is_deeply([ sort @postgres ], [ sort split ' ', (file('scripts/lib.sh') =~ /^versions='(.*)'$/m)[0] ],
	'the workflow has all versions of PostgreSQL');

# The scripts that it runs, with the values of the matrix filled in
my %values = map { /^ +(\w+): \[(.*)\]$/m ? ($1 => [ map { s/^'|'$//gr } split /, /, $2 ]) : () } split /^/, $yaml;
my @commands = map { /(\.\/scripts\/.*)/ ? $1 : () } split /\n/, $yaml;
@commands = map {
	my $command = $_;
	my ($name) = $command =~ /\$\{\{ matrix\.(\w+) \}\}/;
	defined $name ? map { $command =~ s/\$\{\{.*\}\}/$_/r } @{ $values{$name} } : $command;
} @commands;
cmp_ok(scalar(@commands), '>=', 6, 'it runs scripts');
foreach (@commands)
{
	my ($script, $argument) = /^\.\/(scripts\/\w+)(?: (\S+))?/;

	ok(-x "$top/$script", "$script exists");
	like(file($script), qr/^#   \.\/scripts\/check \Q$argument\E\b/m, "... and knows $argument") if $script eq 'scripts/check';
}

my $python = '/usr/bin/python3';
SKIP:
{
	skip 'Python has no yaml', 3
	  unless -x $python && !system("$python -c 'import yaml' 2>/dev/null");

	foreach my $file ('.github/workflows/test.yml', glob("$top/monitoring/*.yaml"))
	{
		command_ok([ $python, '-c', 'import sys, yaml; assert yaml.safe_load(open(sys.argv[1]))', $file =~ m{^/} ? $file : "$top/$file" ],
			basename($file) . ' is well-formed');
	}
}

#
# Links of the documents
#

# Return the anchors of a page, as they are made of its headings.
sub anchors
{
	my ($text) = @_;
	my %anchors;

	$text =~ s/^```.*?^```$//msg;
	foreach my $heading ($text =~ /^#+ (.*)$/mg)
	{
		$heading =~ s/\[([^]]*)\]\([^)]*\)/$1/g;
		$anchors{ lc($heading) =~ s/[^\w\- ]//gr =~ s/ /-/gr } = 1;
	}
	return \%anchors;
}

my @pages = map { s{^\Q$top\E/}{}r } glob "$top/*.md $top/doc/*.md $top/bench/*.md $top/fuzz/*.md";
cmp_ok(scalar(@pages), '>=', 10, 'there are pages');
foreach my $page (@pages)
{
	my $text = file($page) =~ s/^```.*?^```$//msgr;
	my @broken;

	foreach my $link ($text =~ /\]\(([^)\s]+)\)/g)
	{
		next if $link =~ m{^https?://} || $link =~ m{\bresults\b};    # which is not copied for the tests
		my ($target, $anchor) = $link =~ /^([^#]*)(?:#(.*))?$/;
		my $path = $target eq '' ? $page : dirname($page) . "/$target";

		push @broken, $link
		  unless -e "$top/$path" && (!defined $anchor || anchors(file($path))->{$anchor});
	}
	is(join(' ', @broken), '', "the links of $page lead somewhere");
}

# The reference begins with links to all of its sections.
my ($contents, $sections) = file('doc/reference.md') =~ /^(.*?)^(## .*)/ms;
$sections = join "\n", $sections =~ s/^```.*?^```$//msgr =~ /^(### .*)$/mg;
is(join(' ', grep { index($contents, "(#$_)") < 0 } sort keys %{ anchors($sections) }),
	'', 'the reference has a table of contents');

done_testing();
