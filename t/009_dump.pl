# Dump and restore: a copy is the same as the original, and goes on like it.
#
# Two databases are dumped.  "shop" belongs to the superuser; "trusted" to anna,
# who is none, and who installs the extension, dumps and restores by herself.  Her
# dump is also restored by emil, who is none either, and owns the copy.
# The copies go to clusters whose transaction identifiers are far below and far
# above those of the original, and to the cluster of the original itself.
#
# A copy must not only look like the original.  Both get the same feedback, make
# the same number of decisions with the same random numbers, and must have come
# to the same state afterwards.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Continuation;
use Dexp3 qw(new_node);

# Start a cluster whose transaction identifiers begin at an epoch.
sub cluster
{
	my ($name, $epoch, @roles) = @_;
	my $node = new_node($name, start => 0);

	command_ok([ 'pg_resetwal', '-e', $epoch, $node->data_dir ], "$name: epoch $epoch");
	$node->start;
	$node->safe_psql('postgres', "CREATE ROLE $_ LOGIN") foreach @roles;
	return $node;
}

my $source = cluster('source', 2, 'anna', 'ben', 'carla', 'dora');
my $lower = cluster('lower', 0, 'anna', 'ben', 'carla', 'dora');
# Here nobody knows anna, nor carla, to whom ben has granted something.
my $higher = cluster('higher', 5, 'ben', 'dora', 'emil');

my $superuser = $source->safe_psql('postgres', 'SELECT current_user');
my %owner = (shop => $superuser, trusted => 'anna');

sub query
{
	my ($node, $database, $role, $sql) = @_;

	return $node->safe_psql($database, $sql, extra_params => [ '-U', $role ]);
}

sub create_database
{
	my ($node, $database, $owner) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE \"$database\" OWNER \"$owner\"");
	return;
}

sub dump_file
{
	my ($name) = @_;

	return $source->basedir . "/$name";
}

# Dump a database, as its owner.
sub dump_database
{
	my ($database, $file, @options) = @_;

	$source->command_ok(
		[ 'pg_dump', '-U', $owner{$database}, '-f', dump_file($file), @options, $database ],
		"$file is dumped by $owner{$database}");
	return;
}

#
# The originals
#

my $setup = "CREATE EXTENSION dexp3; $played" . q{
-- Outcomes of decisions that are open: should a trigger fire in a restore, it
-- would settle them.
ALTER TABLE by_row DISABLE TRIGGER feedback;
ALTER TABLE by_statement DISABLE TRIGGER feedback;
INSERT INTO by_row SELECT min(decision_id), 1 FROM dexp3.pending WHERE bandit = 'exploring';
INSERT INTO by_statement SELECT max(decision_id), 1 FROM dexp3.pending WHERE bandit = 'exploring';
ALTER TABLE by_row ENABLE TRIGGER feedback;
ALTER TABLE by_statement ENABLE TRIGGER feedback;
};

my %original;
foreach my $database (sort keys %owner)
{
	my $owner = $owner{$database};

	create_database($source, $database, $owner);
	query($source, $database, $owner, $setup);
	query($source, $database, 'ben',
		q{SELECT bandit_create('of ben', '{a,b}', 'dada'), bandit_grant('of ben', 'carla')});

	# whose name is another one when that is dumped
	if ($database eq 'trusted')
	{
		$source->safe_psql('postgres', 'CREATE ROLE carl');
		query($source, $database, 'ben', q{SELECT bandit_grant('of ben', 'carl')});
		$source->safe_psql('postgres', 'ALTER ROLE carl RENAME TO carlo');
	}

	# Its identifiers must not be used again, though none of them is in the dump.
	query(
		$source, $database, $owner, q{
SELECT bandit_create('dropped', '{a,b}', 'dada');
CALL play('dropped', 10);
SELECT bandit_drop('dropped')});

	$original{$database} = {
		contents => query($source, $database, $superuser, $contents),
		states => query($source, $database, $superuser, $states)
	};
	is( query($source, $database, $superuser, 'SELECT count(DISTINCT bandit_id) FROM dexp3.checkpoint'),
		1, "$database: one of the bandits has a checkpoint");
	is( query(
			$source, $database, $owner, q{
SELECT (SELECT count(*) FROM dexp3.pending JOIN by_row USING (decision_id)),
       (SELECT count(*) FROM dexp3.pending JOIN by_statement USING (decision_id))}),
		'1|1', "$database: a trigger that fires would do something");

	dump_database($database, "$database.$_", "--format=$_") foreach ('plain', 'custom');
}
dump_database('shop', 'shop.inserts', '--inserts');
dump_database('shop', 'shop.schema', '--schema-only');
dump_database('shop', 'shop.data', '--data-only');

# The originals go on after the dump, and tell what is expected of the copies.
foreach my $database (sort keys %owner)
{
	my $original = $original{$database};
	my %outcomes;

	$original->{settled} = query($source, $database, $superuser, $settle);
	$original->{gone_on} = query($source, $database, $superuser, $go_on);
	$original->{states_later} = query($source, $database, $superuser, $states);

	$outcomes{$_}++ foreach $original->{settled} =~ /^\d+\|(.*)$/mg;
	is( join(' ', sort keys %outcomes),
		'applied|duplicate duplicate|duplicate expired|expired skipped|skipped',
		"$database: decisions of all kinds are settled");
	# one bandit and ten decisions were dropped
	like($original->{gone_on}, qr/^\n2\n11\n/, "$database: identifiers are not used again");
}

like(
	slurp_file(dump_file('trusted.plain')),
	qr/^\d+\tof ben\t.*\tben\t\{carla,carlo\}\t/m,
	'a role has the name in the dump that it has now');

# An unprivileged role's dump should say nothing about rights: it might be restored
# where the superuser has another name.
is(join("\n", slurp_file(dump_file('trusted.plain')) =~ /^((?:GRANT|REVOKE).*)/mg),
	'', "the extension's own rights are not dumped");

#
# The copies
#

# Run the commands that restore a database; none may say anything.
sub restore
{
	my ($node, $database, $owner, @commands) = @_;

	foreach my $command (@commands)
	{
		my ($program, @arguments) = @$command;

		$node->command_checks_all([ $program, '-U', $owner, '-d', $database, @arguments ],
			0, [qr/^$/], [qr/^$/], $node->name . ": $database: $program");
	}
	return;
}

# Restore dumps into a new database, and compare.
sub check_copy
{
	my ($node, $database, $how, @commands) = @_;
	my $original = $original{$database};
	my $owner = $owner{$database};
	my $copy = "$database, $how";
	my $name = $node->name . ": $copy";
	my $before = $node->safe_psql('postgres', 'SELECT pg_current_xact_id()');

	create_database($node, $copy, $owner);
	restore($node, $copy, $owner, @commands);
	is(query($node, $copy, $superuser, $contents), $original->{contents}, "$name: the same contents");
	is( query(
			$node, $copy, $superuser, qq{
SELECT count(*) FROM (SELECT xact FROM dexp3.decision UNION ALL SELECT xact FROM dexp3.feedback) l
WHERE xact <= '$before' OR xact >= pg_current_xact_id()}),
		0, "$name: all rows have transactions of this cluster");
	is(query($node, $copy, $superuser, 'SELECT count(*) FROM dexp3.checkpoint'),
		0, "$name: there are no checkpoints");
	same_states(query($node, $copy, $superuser, $states), $original->{states}, $name);

	is(query($node, $copy, $superuser, $settle),
		$original->{settled}, "$name: decisions are settled alike");
	is(query($node, $copy, $superuser, $go_on),
		$original->{gone_on}, "$name: the same decisions and identifiers");
	same_states(query($node, $copy, $superuser, $states), $original->{states_later}, "$name, later");

	check_rights($node, $copy, $name);
	return;
}

# ben's bandit is for him, and for carla as soon as there is one.
sub check_rights
{
	my ($node, $database, $name) = @_;

	$node->safe_psql('postgres', 'CREATE ROLE carla LOGIN') if $node->name eq 'higher';
	foreach my $role ('ben', 'carla')
	{
		is( query(
				$node, $database, $role, q{
SELECT bandit_feedback(decision_id, 0.5) FROM bandit_choose('of ben');
SELECT count(*) > 0 FROM dexp3.decision}),
			"applied\nt", "$name: $role may use the bandit");
	}
	$node->safe_psql('postgres', 'DROP ROLE carla') if $node->name eq 'higher';

	my (undef, undef, $stderr) =
	  $node->psql($database, q{SELECT bandit_choose('of ben')}, extra_params => [ '-U', 'dora' ]);
	like($stderr, qr/permission denied for bandit "of ben"/, "$name: dora may not");
	is(query($node, $database, 'dora', 'SELECT count(*) FROM dexp3.decision'),
		0, "$name: dora sees nothing");
	return;
}

sub psql
{
	my ($file, @options) = @_;

	return [ 'psql', '-X', '-q', '-o', '/dev/null', '-v', 'ON_ERROR_STOP=1', @options, '-f', dump_file($file) ];
}

sub pg_restore
{
	my ($file, @options) = @_;

	return [ 'pg_restore', '--exit-on-error', @options, dump_file($file) ];
}

check_copy($lower, 'shop', 'plain', psql('shop.plain'));
check_copy($source, 'shop', 'custom', pg_restore('shop.custom', '-j', 1));
check_copy($higher, 'shop', 'in parallel', pg_restore('shop.custom', '-j', 4));
check_copy($higher, 'shop', 'inserts', psql('shop.inserts', '--single-transaction'));
check_copy($lower, 'shop', 'sections',
	map { pg_restore('shop.custom', "--section=$_") } 'pre-data', 'data', 'post-data');

check_copy($lower, 'trusted', 'plain', psql('trusted.plain'));
check_copy($source, 'trusted', 'custom', pg_restore('trusted.custom', '-j', 1));
check_copy($lower, 'trusted', 'in parallel', pg_restore('trusted.custom', '-j', 4));
{
	local $owner{trusted} = 'emil';

	check_copy($higher, 'trusted', 'by another', pg_restore('trusted.custom', '--no-owner'));
}

#
# Half a dump: the schema without the data, and the data alone
#

create_database($lower, 'schema only', $superuser);
restore($lower, 'schema only', $superuser, psql('shop.schema'));
is( $lower->safe_psql(
		'schema only', q{
SELECT count(*) FROM dexp3.bandit;
BEGIN;
SELECT bandit_create('first', '{a,b}', 'dada');
INSERT INTO by_row SELECT decision_id, 1 FROM bandit_choose('first');
SELECT decision_id, loss FROM dexp3.feedback;
ROLLBACK}),
	"0\n1\n1|1", 'the schema alone has no bandits, and is ready for some');

# When the data follows, the user's triggers are there already, and fire as for
# any other rows.  Here they stumble over decisions of the bandit that was dropped.
$lower->command_fails_like(
	[ @{ psql('shop.data', '--single-transaction') }, 'schema only' ],
	qr/ERROR:  decision \d+ does not exist\nCONTEXT:  trigger "feedback" on table "by_row"/,
	"the user's triggers fire when data is restored alone");
is($lower->safe_psql('schema only', 'SELECT count(*) FROM dexp3.decision'),
	0, 'all of which is rolled back');

# As a replica they do not fire, and those of the extension do.
check_copy($lower, 'shop', 'in halves',
	psql('shop.schema'),
	psql('shop.data', '-c', 'SET session_replication_role = replica'));

#
# The role that has installed the extension can also remove it, and install it again.
#

sub check_removal
{
	my ($node, $database, $role) = @_;

	query($node, $database, $role, 'SET client_min_messages = warning; DROP EXTENSION dexp3 CASCADE');
	is( query(
			$node, $database, $role, q{
SELECT count(*) FROM pg_namespace WHERE nspname = 'dexp3';
SELECT count(*) FROM pg_proc WHERE probin LIKE '%dexp3%';
SELECT count(*) > 0 FROM by_row;
CREATE EXTENSION dexp3;
SELECT bandit_create('anew', '{a,b}', 'dada')}),
		"0\n0\nt\n1", "$role removes the extension, and has it anew");
	return;
}

check_removal($source, 'trusted', 'anna');
check_removal($higher, 'trusted, by another', 'emil');

$_->stop foreach ($source, $lower, $higher);
done_testing();
