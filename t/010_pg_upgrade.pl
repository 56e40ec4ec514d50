# pg_upgrade: bandits go on in a cluster of a newer PostgreSQL.
#
# OLD_PG_CONFIG names the pg_config of the older PostgreSQL, which must have the
# extension, too; scripts/test sees to that.  Without it a cluster is upgraded to
# the version that it has, which is done in the same way.
#
# Transactions keep their identifiers, so the log and the checkpoints are taken
# over as they are.  The old cluster is left alone and can be started again: it
# shows what is expected of the new one.

use strict;
use warnings;

use File::Basename;
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Continuation;
use Dexp3 qw(new_node);

my $old_path;
if ($ENV{OLD_PG_CONFIG})
{
	chomp(my $bindir = `$ENV{OLD_PG_CONFIG} --bindir`);
	$old_path = dirname($bindir);
}

# Make clusters that pg_upgrade finds compatible; before 18 checksums are not the
# default.
my ($old, $new) = map {
	new_node(
		$_,
		install_path => $_ eq 'old' ? $old_path : undef,
		initdb => ['--data-checksums'],
		start => 0);
} ('old', 'new');
note('from ' . $old->pg_version . ' to ' . $new->pg_version);

# identifiers of more than 32 bits
$old->command_ok([ 'pg_resetwal', '-e', 3, $old->data_dir ], 'an epoch is set');
$old->start;
my $superuser = $old->safe_psql('postgres', 'SELECT current_user');
$old->safe_psql('postgres', 'CREATE ROLE anna LOGIN');

my %owner = (shop => $superuser, trusted => 'anna');

# Run a query, in a new session, in each of the databases.
sub query
{
	my ($node, $sql) = @_;

	return map { $node->safe_psql($_, $sql) } sort keys %owner;
}

# What pg_upgrade keeps, other than a restore
my $kept = q{
SELECT min(xact), max(xact), md5(string_agg(xact::text, ' ' ORDER BY decision_id)) FROM dexp3.decision;
SELECT min(xact), max(xact), md5(string_agg(xact::text, ' ' ORDER BY decision_id)) FROM dexp3.feedback;
SELECT * FROM dexp3.checkpoint ORDER BY bandit_id;
SELECT extconfig::regclass[], extcondition FROM pg_extension WHERE extname = 'dexp3';
SELECT relname, relowner::regrole FROM pg_class WHERE relnamespace = 'dexp3'::regnamespace ORDER BY relname;
SELECT last_value, is_called FROM dexp3.bandit_id_seq;
SELECT last_value, is_called FROM dexp3.decision_id_seq;
};

foreach my $database (keys %owner)
{
	$old->safe_psql('postgres', "CREATE DATABASE $database OWNER $owner{$database}");
	$old->safe_psql($database, "CREATE EXTENSION dexp3; $played", extra_params => [ '-U', $owner{$database} ]);
}
is(join(' ', query($old, 'SELECT count(DISTINCT bandit_id) FROM dexp3.checkpoint')),
	'1 1', 'one of the bandits has a checkpoint');
my @contents = query($old, $contents . $kept);
my @states = query($old, $states);
$old->stop;

# pg_upgrade leaves files in the current directory.
chdir $new->basedir or die;
my $upgraded = run_log(
	[
		'pg_upgrade', '--no-sync', '--old-datadir', $old->data_dir, '--new-datadir', $new->data_dir,
		'--old-bindir', $old->config_data('--bindir'), '--new-bindir', $new->config_data('--bindir'),
		'--socketdir', $new->host, '--old-port', $old->port, '--new-port', $new->port
	]);
ok($upgraded, 'pg_upgrade');
if (!$upgraded)
{
	diag(slurp_file($_)) foreach glob($new->data_dir . '/pg_upgrade_output.d/*/log/*.log');
	BAIL_OUT('no upgraded cluster to look at');
}

$_->start foreach ($old, $new);
my @new_contents = query($new, $contents . $kept);
my @new_states = query($new, $states);
query($new, 'DELETE FROM dexp3.checkpoint');
my @folded_states = query($new, $states);
my (@settled, @gone_on, @later);
foreach my $node ($old, $new)
{
	push @settled, [ query($node, $settle) ];
	push @gone_on, [ query($node, $go_on) ];
	push @later, [ query($node, $states) ];
}

foreach my $i (0, 1)
{
	my $database = (sort keys %owner)[$i];

	is($new_contents[$i], $contents[$i], "$database: the same contents");
	same_states($new_states[$i], $states[$i], $database);
	same_states($folded_states[$i], $states[$i], "$database, without the checkpoint");
	like($settled[0][$i], qr/\|applied\|duplicate$/m, "$database: there are open decisions");
	is($settled[1][$i], $settled[0][$i], "$database: decisions are settled alike");
	is($gone_on[1][$i], $gone_on[0][$i], "$database: the same decisions and identifiers");
	same_states($later[1][$i], $later[0][$i], "$database, later");
}

$_->stop foreach ($old, $new);
done_testing();
