# Extension upgrade: each older version works with today's library, and ALTER
# EXTENSION UPDATE makes of it what CREATE EXTENSION makes today.
#
# An older version is installed, used, updated and used again, and compared with a
# database that has had today's version from the beginning and was used in the
# same way.  The extension belongs to anna, who is no superuser.  The update is
# done once by her and once by a superuser, who must own nothing afterwards.
#
# The objects of the extension are compared by pg_dump, which shows everything about
# them as soon as they are no members any more.  What pg_dump does not show is compared
# by queries: members, configuration tables and initial privileges.
#
# The versions are those that PostgreSQL can make with the scripts dexp3--A.sql and
# dexp3--A--B.sql, and one that is made here: it lacks some objects of today's, and its
# update makes them.  It shows that this test works, even before there is an update.
# PostgreSQL finds it in a copy of its installation that nobody else uses.

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

# Make a private installation, as scripts/lib.sh does, and return the directories of
# its extensions and its programs.
sub copy_installation
{
	my %dir = map { $_ => `pg_config --$_` =~ s/\n//r } qw(bindir pkglibdir sharedir);
	my $base = PostgreSQL::Test::Utils::tempdir();

	# Programs are copied; they find what is linked beside them.
	foreach my $name (sort keys %dir)
	{
		my $options = $name eq 'bindir' ? '-RL' : '-RLs';

		system('mkdir', '-p', "$base$dir{$name}");
		system("cp $options '$dir{$name}/.' '$base$dir{$name}' 2>/dev/null");
	}
	plan skip_all => 'this PostgreSQL cannot be moved'
	  if `'$base$dir{bindir}/pg_config' --sharedir` ne "$base$dir{sharedir}\n";
	return ("$base$dir{sharedir}/extension", "$base$dir{bindir}");
}

my ($extensions, $bindir) = copy_installation();
my $node = new_node('extension_upgrade', install_path => dirname($bindir));

my ($superuser, $current) = split /\|/,
  $node->safe_psql('postgres',
	q{SELECT current_user, default_version FROM pg_available_extensions WHERE name = 'dexp3'});

# What today's version has, and the one that is made here has not.
my $added = qr/\bdexp3\.overview\b|\bbandit_verify\b/;

sub make_older_version
{
	my @parts = split /\n{2,}/, slurp_file("$extensions/dexp3--$current.sql");

	append_to_file("$extensions/dexp3--older.sql", join "\n\n", grep { !/$added/ } @parts);
	append_to_file("$extensions/dexp3--older--$current.sql", join "\n\n", grep { /$added/ } @parts);
	return;
}

make_older_version();
my @older = split /\n/,
  $node->safe_psql('postgres',
	"SELECT version FROM pg_available_extension_versions WHERE name = 'dexp3' AND version <> '$current'");

isnt("@older", '', 'an older version can be installed');
is( $node->safe_psql(
		'postgres', qq{
SELECT source FROM pg_extension_update_paths('dexp3') WHERE target = '$current' AND path IS NULL}),
	'', "every version can be updated to $current");

$node->safe_psql('postgres', 'CREATE ROLE anna LOGIN');

sub query
{
	my ($database, $sql, $role) = @_;

	return $node->safe_psql($database, $sql, extra_params => [ '-U', $role // 'anna' ]);
}

# Make a database with a version of the extension, in which bandits have played.
sub create_database
{
	my ($database, $version) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE \"$database\" OWNER anna");
	query($database, "CREATE EXTENSION dexp3 VERSION '$version'; $played");
	return;
}

# What the extension consists of, as a list of texts.  Its members are none
# afterwards.
sub anatomy
{
	my ($database) = @_;
	my $file = $node->basedir . "/$database.sql";
	my @parts = split /\n/, query($database, q{
CREATE TEMP VIEW member AS
SELECT o.type, o.identity, d.classid, d.objid
FROM pg_extension e JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e',
     pg_identify_object(d.classid, d.objid, d.objsubid) o
WHERE e.extname = 'dexp3';

SELECT 'extension', extversion, extowner::regrole, extnamespace::regnamespace, extrelocatable
FROM pg_extension WHERE extname = 'dexp3';
SELECT 'configuration table', c.* FROM pg_extension e, unnest(e.extconfig::regclass[], e.extcondition) c WHERE extname = 'dexp3';
SELECT 'member', type, identity FROM member;
SELECT 'initial privileges', type, identity, ARRAY(SELECT a::text FROM unnest(initprivs) a ORDER BY 1)
FROM member JOIN pg_init_privs p ON p.classoid = classid AND p.objoid = objid AND p.objsubid = 0;

-- Since PostgreSQL 17 the types that come with a type or table are members, but
-- go with it.
DO $$
DECLARE
    m record;
BEGIN
    FOR m IN SELECT * FROM member
             WHERE NOT EXISTS (SELECT FROM pg_depend d
                               WHERE d.classid = member.classid AND d.objid = member.objid AND d.deptype = 'i')
    LOOP
        EXECUTE format('ALTER EXTENSION dexp3 DROP %s %s', m.type, m.identity);
    END LOOP;
END
$$;
}, $superuser);

	$node->command_ok([ 'pg_dump', '--schema-only', '-f', $file, $database ], "$database: pg_dump");
	# Each part begins with a comment that names it; what comes before and after
	# them is not about the extension.
	my $dump = slurp_file($file);
	$dump =~ s/^--\n-- PostgreSQL database dump complete.*//ms;
	push @parts, grep { /^-- Name: / } split /^--\n(?=-- Name: )/m, $dump;
	return @parts;
}

# Compare a database with one that has had today's version from the beginning.
sub differences
{
	my ($database, @expected) = @_;
	my %count;

	$count{$_}++ foreach @expected;
	$count{$_}-- foreach anatomy($database);
	return join "\n",
	  map { ($count{$_} > 0 ? 'missing: ' : 'too much: ') . $_ } grep { $count{$_} } sort keys %count;
}

# Call every function with nulls: an error is fine, as long as it is one that the
# function has meant.
my $call_all = q{
CREATE FUNCTION pg_temp.outcome(function oid) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    arguments text := (SELECT string_agg('NULL::' || CASE t WHEN 'anyelement'::regtype THEN 'integer' ELSE t::text END, ', ')
                       FROM pg_proc p, unnest(p.proargtypes::regtype[]) t WHERE p.oid = function);
BEGIN
    EXECUTE format('SELECT %s(%s)', function::regproc, arguments);
    RETURN 'returned';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE;
END
$$;

SELECT CASE WHEN o LIKE 'XX%' THEN f::regprocedure || ': ' || o ELSE 'fine' END, count(*) > 10
FROM pg_extension e JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e',
     CAST(d.objid AS oid) f, pg_temp.outcome(f) o
WHERE e.extname = 'dexp3' AND d.classid = 'pg_proc'::regclass
GROUP BY 1;
};

# Functions that are not used elsewhere.
my $use_others = q{
SELECT setseed(0.3);
SELECT bandit_create('others', '{a,b}', 'dada') IS NOT NULL;
SELECT bandit_grant('others', 'public'), bandit_revoke('others', 'public');
SELECT bandit_reward(c.decision_id, 0.5) FROM generate_series(1, 3) i, bandit_choose_each('others', i) c;
SELECT bandit_current_state('others');
SELECT bandit_drop('others');
SELECT state = state, state::text, bandit_probabilities(state), bandit_step_size(state) FROM own_bandit;
SELECT * FROM bandit_simulate('{{0,1},{1,0}}', seed => 1, algorithm => 'dada');
};

# What is expected of all
my $fresh = 'fresh';
my %fresh;
create_database($fresh, $current);
$fresh{states} = query($fresh, $states);
# twice, as the others do, which matters for identifiers
$fresh{others} = query($fresh, $use_others) foreach 1, 2;
$fresh{settled} = query($fresh, $settle);
$fresh{gone_on} = query($fresh, $go_on);
$fresh{states_later} = query($fresh, $states);
$fresh{anatomy} = [ anatomy($fresh) ];

# It would be noticed if an update forgot something.
create_database('not updated', 'older');
my $difference = differences('not updated', @{ $fresh{anatomy} });
like($difference, qr/^missing: $_/m, "not updated: $_")
  foreach 'member\|view\|dexp3\.overview$', 'member\|function\|public\.bandit_verify\(pg_catalog\.text\)$',
  'initial privileges\|view\|dexp3\.overview\|', '-- Name: overview; Type: VIEW;',
  '-- Name: FUNCTION bandit_verify\(bandit text\); Type: COMMENT;';

foreach my $version (@older)
{
	foreach my $role ('anna', $superuser)
	{
		my $database = "$version, updated by $role";

		create_database($database, $version);
		same_states(query($database, $states), $fresh{states}, "$database: before");
		is(query($database, $use_others), $fresh{others}, "$database: before: functions work alike");
		is(query($database, $call_all), 'fine|t', "$database: before: no function is out of order");

		my $contents_before = query($database, $contents);
		my $session = $node->background_psql($database);
		my $states_before = $session->query_safe($states);

		query($database, 'ALTER EXTENSION dexp3 UPDATE', $role);
		is(query($database, $contents), $contents_before, "$database: the same contents");
		same_states($session->query_safe($states), $states_before, "$database: a session that was there");
		same_states(query($database, $states), $states_before, "$database: a new session");
		$session->quit;

		is(query($database, $use_others), $fresh{others}, "$database: functions work alike");
		is(query($database, $settle), $fresh{settled}, "$database: decisions are settled alike");
		is(query($database, $go_on), $fresh{gone_on}, "$database: the same decisions and identifiers");
		same_states(query($database, $states), $fresh{states_later}, "$database: later");

		is(differences($database, @{ $fresh{anatomy} }), '', "$database: the extension is as if installed today");
	}
}

$node->stop;
done_testing();
