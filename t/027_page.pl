# Pages in a real browser: they show what the report says, names that would do harm do
# nothing, and they fit on a phone, by day and by night.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Dexp3;

my ($browser) = grep { -x }
  map { my $name = $_; map { "$_/$name" } split /:/, $ENV{PATH} } qw(chromium chromium-browser google-chrome);
plan skip_all => 'chromium is not installed' unless defined $browser;

my $node = new_node('page');
my $files = $node->basedir;

# Show a document in the browser.  Return the tree that it has made of it, as text.
sub show
{
	my ($html, @options) = @_;
	my ($dom, $messages);

	unlink "$files/page.html";
	append_to_file("$files/page.html", $html);
	my $ok = IPC::Run::run(
		[
			$browser, qw(--headless --no-sandbox --disable-gpu --disable-quic --no-first-run
			  --disable-background-networking --disable-component-update --disable-sync --disable-dev-shm-usage
			  --hide-scrollbars --virtual-time-budget=5000 --dump-dom), "--user-data-dir=$files/browser", @options,
			"file://$files/page.html"
		],
		'<', \undef, '>', \$dom, '2>', \$messages, IPC::Run::timeout(120));
	die "the browser has failed: $messages" unless $ok && $dom =~ /<html/;
	return $dom;
}

# Return a page as the server writes it.
sub page
{
	my ($bandit) = @_;

	return $node->safe_psql('postgres', 'SELECT bandit_page(' . (defined $bandit ? literal($bandit) : '') . ')');
}

sub literal
{
	my ($name) = @_;

	return "\$name\$$name\$name\$";
}

# Return a text as a reader sees it.
sub seen
{
	my ($html) = @_;
	my %entity = (lt => '<', gt => '>', amp => '&', quot => '"', nbsp => ' ');

	$html =~ s/<[^>]*>//g;
	$html =~ s/&(\w+);/$entity{$1}/g;
	return $html;
}

# Return the rows of a table of the tree, by its caption; each is an array of cells.
sub rows
{
	my ($dom, $caption) = @_;
	my ($table) = $dom =~ m{<caption>\Q$caption\E</caption>(.*?)</table>}s or return;

	return map { [ map { seen($_) } m{<t[hd][^>]*>(.*?)</t[hd]>}sg ] } $table =~ m{<tr>(.*?)</tr>}sg;
}

# Names that would do harm if they were not escaped, each in another way
my $script = q{document.documentElement.setAttribute('data-harm', 'done')};
my %hostile = (
	'a script' => qq{</title></style></bdi><script>$script</script>},
	'an image' => qq{<img src=x onerror="$script">},
	'an attribute' => qq{" onmouseover="$script" autofocus onfocus="$script" x="},
	'an apostrophe' => qq{' onclick='$script'},
	'a picture' => qq{</svg><svg onload="$script">},
	'entities' => q{&lt;b&gt; &amp; &#60;i&#62;},
	'another direction' => "\xe2\x80\xaeevil \xd7\x90\xd7\x91\xd7\x92",
	'a comment' => '<!-- ',
	'a section' => '<![CDATA[ ]]>',
	'many letters' => 'long' x 200,
);
my @kinds = sort keys %hostile;
my $arms = join ', ', map { literal($hostile{$_}) } @kinds;

$node->safe_psql(
	'postgres', q{
CREATE EXTENSION dexp3;
SELECT setseed(0.5);
SELECT bandit_create('headline', ARRAY['plain', 'funny', 'bold']);
SELECT count(CASE WHEN i % 10 <> 0 THEN
                 bandit_feedback(c.decision_id, random() * CASE c.arm WHEN 'bold' THEN 0.3 ELSE 0.9 END) END)
FROM generate_series(1, 2000) i, LATERAL bandit_choose_each('headline', i) c;
});
foreach my $name (map { literal($hostile{$_}) } @kinds)
{
	$node->safe_psql(
		'postgres', qq{
SELECT bandit_create($name, ARRAY[$arms]);
SELECT count(bandit_reward(decision_id, 0.5)) FROM bandit_choose_many($name, 20);
});
}

#
# What it shows is what the report says.
#

my $caption = 'What is known about each arm, the most probable first';
my $caption_of_all = 'The regret estimate is a share of what could have been lost in all decisions';
my $dom = show(page('headline'));
my ($head, @rows) = rows($dom, $caption);
is( join(', ', @$head),
	'arm, share now, decisions, with outcome, open, mean loss, estimate, 95% interval',
	'the columns');
my @report = map { [ split /\|/ ] } split /\n/, $node->safe_psql(
	'postgres', q{
SELECT arm, probability, decisions, settled, open, mean_loss, estimate, estimate_low, estimate_high
FROM bandit_report('headline') ORDER BY probability DESC});
is(scalar(@rows), 3, 'a row for each arm');
foreach my $i (0 .. 2)
{
	my ($name, $share, @shown) = map { s/,//gr } @{ $rows[$i] };
	my ($expected_name, $probability, @told) = @{ $report[$i] };

	push @shown, (pop @shown) =~ /^(\S+) to (\S+)$/;
	is($name, $expected_name, "arm $name");
	cmp_ok(abs($share =~ s/%$//r - 100 * $probability), '<=', 0.05, '... its share');
	is(scalar(@shown), scalar(@told), '... all numbers');
	is(join(', ', grep { abs($shown[$_] - $told[$_]) > 0.005 * abs($told[$_]) } 0 .. $#told),
		'', '... are those of the report');
}
my %facts = map { s/,//gr } map { seen($_) } $dom =~ m{<dt>(.*?)</dt><dd>(.*?)</dd>}g;
my ($rounds, $open, $regret) = split /\|/,
  $node->safe_psql('postgres', q{SELECT rounds, open, regret_estimate FROM dexp3.overview WHERE bandit = 'headline'});
is($facts{decisions}, $rounds, 'decisions');
is($facts{open}, $open, 'open decisions');
cmp_ok(abs($facts{'regret estimate'} / $regret - 1), '<', 0.005, 'the regret estimate');
is(scalar(() = $dom =~ /<svg /g), 4, 'four pictures');
like($dom, qr{<svg [^>]*role="img".*?<desc>[^<]*share of each arm[^<]*bold: 9\d\.\d%}s, 'they can be read aloud');

#
# Names
#

# The tree is what it would be without them: these elements, and no others.
my %known = map { $_ => 1 } qw(html head meta title style body main section h1 h2 p div dl dt dd table caption thead tbody
  tr th td bdi span ul li figure svg desc rect text path footer);
foreach my $kind (undef, @kinds)
{
	my $html = page(defined $kind ? $hostile{$kind} : undef);
	my $about = defined $kind ? "a name with $kind" : 'all bandits';

	# Without the policy that forbids scripts: names are harmless by themselves.
	my $tree = show($html =~ s/<meta http-equiv[^>]*>//r);

	is(join(' ', grep { !$known{ lc $_ } } $tree =~ /<(\w+)/g), '', "$about: no other elements");
	unlike($tree =~ s/>[^<]*</></gr, qr/data-harm|\bon\w+=/, '... and nothing has run, or could');

	# A long name is shortened, and a name of another direction stays in its place.
	my (undef, @names) = map { $_->[0] } rows($tree, defined $kind ? $caption : $caption_of_all);
	my @expected = map { length($hostile{$_}) > 80 ? substr($hostile{$_}, 0, 79) . "\xe2\x80\xa6" : $hostile{$_} } @kinds;
	push @expected, 'headline' unless defined $kind;
	is_deeply([ sort @names ], [ sort @expected ], '... and they read as they were written');
	like($html, qr/<bdi>\Q$hostile{'another direction'}\E<\/bdi>/, '... and do not turn what is beside them');
}

# The test can fail: such names do harm where they are not escaped.
like(show("<!DOCTYPE html><html><head><title>$hostile{'a script'}</title></head><body></body></html>"),
	qr/<html data-harm="done"/, 'a browser runs a script that is not escaped');
like(show("<!DOCTYPE html><html><body>$hostile{'an image'}</body></html>"),
	qr/<html data-harm="done"/, '... and that of an image');
unlike(
	show(page('headline') =~ s{</main>}{<img src="x" onerror="$script"/><script>$script</script></main>}r),
	qr/<html[^>]* data-harm/,
	'a page forbids it, wherever it would come from');

#
# On a phone, by day and by night
#

# A page in a window of this width tells how wide it is, how much of its widest table is
# out of sight, and its colours.  The script is ours.
my $measure = q{<script>
addEventListener('load', () => parent.postMessage([document.documentElement.scrollWidth,
	Math.max(...Array.from(document.querySelectorAll('.card'), c => c.scrollWidth - c.clientWidth)),
	getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color].join(';'), '*'));
</script>};
sub window
{
	my ($width) = @_;

	return qq{<!DOCTYPE html><html><head><meta name="color-scheme" content="light dark"></head><body>
<script>addEventListener('message', e => document.body.setAttribute('data-measure', e.data))</script>
<iframe src="inner.html" width="$width" height="640" style="border: 0"></iframe></body></html>};
}
foreach my $bandit ('headline', $hostile{'many letters'}, undef)
{
	my %colours;

	unlink "$files/inner.html";
	append_to_file("$files/inner.html", page($bandit) =~ s/<meta http-equiv[^>]*>//r =~ s{</body>}{$measure</body>}r);
	foreach my $scheme (0, 1)
	{
		my $tree = show(window(360), "--blink-settings=preferredColorScheme=$scheme");
		my ($width, undef, @colours) = split /;/, ($tree =~ /data-measure="([^"]*)"/)[0] // '';

		is($width, 360, 'it fits on a phone');
		$colours{$scheme} = "@colours";
	}
	isnt($colours{0}, $colours{1}, 'it has colours for the dark');
	is((show(window(1280)) =~ /data-measure="1280;(\d+);/)[0], 0, 'on a desk, nothing is out of sight');
}

$node->stop;
done_testing();
