# Every example in doc/examples.md: run it, and compare the output.
#
# With the real programs, as far as they are installed:
# - pg_cron runs its jobs.  Without it, a stand-in takes them, and each command is
#   run as its user.
# - PostgREST answers the requests.  Without it, or without curl, the statements
#   that PostgREST 12.0.2 sends for them are sent.
# - psycopg 3 runs the program, directly and through PgBouncer.  Without it, that is
#   skipped.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Dexp3 qw(new_node);
use Documentation;

my $page = 'doc/examples.md';
my $database = 'shop';

# The examples of each chapter, by language
my %chapter;
foreach (page($page) =~ /^(## .*?)(?=^## |\z)/gms)
{
	my ($title) = /^## (.*)/;

	push @{ $chapter{$title}{ $_->{language} } }, $_ foreach examples_in($_);
}
is(join(', ', sort keys %chapter), 'A web shop, PostgREST, pg_cron, psycopg', 'all chapters are there');
my %languages = map { $_ => 1 } map { keys %$_ } values %chapter;
is(join(', ', sort keys %languages), 'ini, python, sh, sql', 'examples in known languages only');

# Return the first of several programs that exists, or passes a test.
sub program
{
	my ($name, @test) = @_;

	foreach my $path (map { "$_/$name" } split(/:/, $ENV{PATH}), '/usr/sbin', '/usr/bin')
	{
		my $output = '';
		return $path if -x $path && (!@test || IPC::Run::run([ $path, @test ], '>&', \$output));
	}
	return;
}

# A program that runs beside the server; it does not outlive this test.
my $running;

sub stop
{
	$running->kill_kill if defined $running;
	undef $running;
	return;
}

END
{
	local $?;
	stop();
}

# Start a program, and wait until it says that it is ready.
sub start
{
	my ($command, $ready, %environment) = @_;
	my $messages = '';

	local %ENV = (%ENV, %environment);
	$running = IPC::Run::start($command, '<', \undef, '>&', \$messages);
	pump_until($running, IPC::Run::timer($PostgreSQL::Test::Utils::timeout_default), \$messages, $ready)
	  or BAIL_OUT("$command->[0] does not start: $messages");
	return;
}

my $node = new_node('examples');
$node->safe_psql('postgres', "CREATE DATABASE $database ENCODING 'UTF8' TEMPLATE template0");

#
# A web shop
#

run_sql($node, $database, $page, @{ $chapter{'A web shop'}{sql} });

#
# pg_cron: the jobs are made here, and run in the end
#

my @cron = @{ $chapter{'pg_cron'}{sql} };
my $has_cron = -e $node->config_data('--sharedir') . '/extension/pg_cron.control';

if ($has_cron)
{
	$node->append_conf('postgresql.conf', $chapter{'pg_cron'}{ini}[0]{code});
	$node->restart;
}
else
{
	diag('skipped: pg_cron, which is not installed; a stand-in takes the jobs');
	is((shift @cron)->{code}, "CREATE EXTENSION pg_cron;\n", 'the page has pg_cron created first');
	$node->safe_psql(
		$database, q{
CREATE SCHEMA cron;
CREATE TABLE cron.job (
    jobid bigint GENERATED ALWAYS AS IDENTITY,
    schedule text,
    command text,
    username text DEFAULT current_user,
    jobname text
);
GRANT INSERT, SELECT ON cron.job TO PUBLIC;
CREATE FUNCTION cron.schedule(job_name text, schedule text, command text) RETURNS bigint LANGUAGE sql
    AS 'INSERT INTO cron.job (jobname, schedule, command) VALUES ($1, $2, $3) RETURNING jobid';
});
}
run_sql($node, $database, $page, @cron);
# None of them shall run because it happens to be five to twelve.
$node->safe_psql($database, 'UPDATE cron.job SET active = false') if $has_cron;

#
# PostgREST
#

# What choices depend on is the same for each request.
$node->safe_psql($database,
	q{CREATE FUNCTION public.same_numbers() RETURNS void LANGUAGE sql AS 'SELECT setseed(0.5)'});

# Send what PostgREST sends for a request to call a function that returns a text, as
# psql sees it, and return what it answers.
sub as_postgrest
{
	my ($request) = @_;
	my ($function, $query) = $request =~ m{ http://localhost:3000/rpc/(\w+)(?:\?(\S+))?};
	my ($json) = $request =~ /-d '(.*)'/;
	my ($method, $access) = ('POST', 'READ WRITE');

	if (defined $query)
	{
		($method, $access) = ('GET', 'READ ONLY');
		$json = '{' . join(', ', map { s/(\w+)=(.*)/"$1": "$2"/r } split /&/, $query) . '}';
	}
	my @names = $json =~ /"(\w+)":/g;
	my %type = split /[|\n]/, $node->safe_psql(
		$database, qq{
SELECT name, type::regtype
FROM pg_proc, unnest(proargnames, proargtypes::oid[]) AS argument (name, type)
WHERE oid = 'api.$function'::regproc});
	my $columns = join(', ', map { qq{"$_"} } @names);
	my $typed = join(', ', map { qq{"$_" $type{$_}} } @names);
	my $arguments = join(', ', map { qq{"$_" := pgrst_body."$_"} } @names);
	my ($stdout, $stderr);

	my $script = qq{
BEGIN ISOLATION LEVEL READ COMMITTED $access;
select set_config('search_path', '"api", "public"', true), set_config('role', 'web_anon', true),
       set_config('request.jwt.claims', '{"role":"web_anon"}', true),
       set_config('request.method', '$method', true), set_config('request.path', '/rpc/$function', true),
       set_config('request.headers', '{}', true), set_config('request.cookies', '{}', true) \\gset
select "public"."same_numbers"() \\gset
WITH pgrst_source AS (
    SELECT pgrst_call.pgrst_scalar
    FROM (SELECT '$json'::json AS json_data) pgrst_payload,
         LATERAL (SELECT CASE WHEN json_typeof(pgrst_payload.json_data) = 'array' THEN pgrst_payload.json_data
                         ELSE json_build_array(pgrst_payload.json_data) END AS val) pgrst_uniform_json,
         LATERAL (SELECT $columns FROM json_to_recordset(pgrst_uniform_json.val) AS _($typed) LIMIT 1) pgrst_body,
         LATERAL (SELECT "api"."$function"($arguments) pgrst_scalar) pgrst_call)
SELECT null::bigint AS total_result_set, 1 AS page_total,
       coalesce(json_agg(_postgrest_t.pgrst_scalar)->0, 'null') AS body,
       nullif(current_setting('response.headers', true), '') AS response_headers,
       nullif(current_setting('response.status', true), '') AS response_status, '' AS response_inserted
FROM (SELECT "$function".* FROM "pgrst_source" AS "$function") _postgrest_t \\gset
\\if :ERROR
\\echo error :LAST_ERROR_SQLSTATE :LAST_ERROR_MESSAGE
ABORT;
\\else
\\echo :body
COMMIT;
\\endif
};
	IPC::Run::run([ 'psql', '-X', '-q', '-d', $node->connstr($database), '-U', 'authenticator' ],
		'<', \$script, '>', \$stdout, '2>', \$stderr);
	if ($stdout =~ /^error (\w+) (.*)/)
	{
		my ($code, $message) = ($1, $2);

		$message =~ s/"/\\"/g;
		return qq({"code":"$code","details":null,"hint":null,"message":"$message"});
	}
	return $stdout;
}

# The requests come before the last of the SQL examples, which looks at the result.
my @postgrest = @{ $chapter{'PostgREST'}{sql} };
my $afterwards = pop @postgrest;
run_sql($node, $database, $page, @postgrest);

# The page for colleagues, in a transaction like that which PostgREST makes of a GET
foreach my $argument ('', q{bandit => 'help'})
{
	is( $node->safe_psql(
			$database, qq{
BEGIN READ ONLY;
SET LOCAL ROLE staff;
SELECT pg_typeof(p), p LIKE '<!DOCTYPE html>%>help<%</html>%' FROM api.bandits($argument) p;
COMMIT}),
		'api."text/html"|t', "the page of $argument");
}
my (undef, undef, $refused) = $node->psql($database, 'SET ROLE web_anon; SELECT api.bandits()');
like($refused, qr/permission denied for function bandits/, 'not everybody gets it');

my $postgrest = program('postgrest');
my $port;
if (defined $postgrest && defined program('curl'))
{
	note(`$postgrest --version`);
	append_to_file($node->basedir . '/postgrest.conf', $chapter{'PostgREST'}{ini}[0]{code});
	# The environment overrides the file.
	$port = PostgreSQL::Test::Cluster::get_free_port();
	start(
		[ $postgrest, $node->basedir . '/postgrest.conf' ],
		qr/Schema cache loaded/,
		PGRST_DB_URI => $node->connstr($database) . ' user=authenticator',
		PGRST_DB_PRE_REQUEST => 'public.same_numbers',
		PGRST_SERVER_HOST => '127.0.0.1',
		PGRST_SERVER_PORT => $port);
}
else
{
	diag('skipped: PostgREST, since it or curl is not installed; what it would send is sent');
}
foreach my $example (@{ $chapter{'PostgREST'}{sh} })
{
	my $output;

	if (defined $port)
	{
		my $command = $example->{code} =~ s/localhost:3000/127.0.0.1:$port/r;
		$output = `$command`;
	}
	else
	{
		$output = as_postgrest($example->{code});
	}
	check_output($page, $example, $output);
}
stop();
run_sql($node, $database, $page, $afterwards);

#
# psycopg
#

run_sql($node, $database, $page, @{ $chapter{'psycopg'}{sql} });

SKIP:
{
	my $python = program('python3', '-c', 'import psycopg');
	diag('skipped: psycopg 3, which is not installed') unless defined $python;
	skip 'psycopg 3 is not installed', 1 unless defined $python;

	my $example = $chapter{'psycopg'}{python}[0];
	my $file = $node->basedir . '/archive.py';
	my $superuser = $node->safe_psql('postgres', 'SELECT current_user');
	append_to_file($file, $example->{code});

	# Run the program, and compare what it prints.
	my $runs = sub {
		my ($host_and_port, $name) = @_;
		my ($stdout, $stderr);

		IPC::Run::run([ $python, $file, "$host_and_port dbname=$database user=$superuser" ],
			'>', \$stdout, '2>', \$stderr);
		is($stderr, '', "$name: no errors or warnings");
		check_output("$page, $name", $example, $stdout);
		is( $node->safe_psql($database, q{
				SELECT (SELECT sum(settled) FROM bandit_report('compression')),
				       (SELECT count(*) FROM dexp3.pending WHERE bandit = 'compression'),
				       (SELECT count(*) FROM outcome)}),
			'1001|0|1000', "$name: all outcomes count, once");
		$node->safe_psql($database, q{SELECT bandit_reset('compression'); TRUNCATE outcome});
	};
	$runs->(sprintf('host=%s port=%d', $node->host, $node->port), 'psycopg');

	# Every third transaction that tells outcomes fails, and has to be done again.
	$node->safe_psql(
		$database, q{
CREATE SEQUENCE attempt;
CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('attempt') % 3 = 0 THEN
        RAISE serialization_failure;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER conflict AFTER INSERT ON outcome FOR EACH STATEMENT EXECUTE FUNCTION conflict();
});
	$runs->(sprintf('host=%s port=%d', $node->host, $node->port), 'psycopg, with conflicts');
	cmp_ok($node->safe_psql($database, 'SELECT last_value FROM attempt'), '>', 70, 'there were conflicts');
	$node->safe_psql($database, 'DROP TRIGGER conflict ON outcome');

	my $pgbouncer = program('pgbouncer');
	diag('skipped: PgBouncer, which is not installed') unless defined $pgbouncer;
	skip 'PgBouncer is not installed', 1 unless defined $pgbouncer;

	my $pool = PostgreSQL::Test::Cluster::get_free_port();
	append_to_file($node->basedir . '/users', qq{"$superuser" ""\n});
	append_to_file(
		$node->basedir . '/pgbouncer.ini', qq{
[databases]
$database = @{[ $node->connstr($database) ]}

[pgbouncer]
listen_addr =
listen_port = $pool
unix_socket_dir = @{[ $node->host ]}
auth_type = trust
auth_file = @{[ $node->basedir ]}/users
pool_mode = transaction
});
	start([ $pgbouncer, $node->basedir . '/pgbouncer.ini' ], qr/process up/);
	$runs->(sprintf('host=%s port=%d', $node->host, $pool), 'psycopg and PgBouncer');
	stop();
}

#
# The jobs: something for each of them to do, and what has become of it
#

$node->safe_psql(
	$database, q{
SELECT bandit_create('old', '{a,b}', retention => '0'), bandit_grant('old', 'shop_jobs');
SELECT bandit_feedback(decision_id, 0) FROM bandit_choose_many('old', 10);
SELECT bandit_create('silent', '{a,b}'), bandit_grant('silent', 'shop_jobs');
SELECT bandit_choose('silent');
TRUNCATE bandit_daily, bandit_alarm;
});
if ($has_cron)
{
	# There is one time that a test need not wait for.
	$node->safe_psql(
		$database, q{
DELETE FROM cron.job_run_details;
UPDATE cron.job SET active = true, schedule = '@reboot';
});
	$node->restart;
	$node->poll_query_until($database,
		q{SELECT count(*) = 4 FROM cron.job_run_details WHERE status IN ('succeeded', 'failed')});
	is( $node->safe_psql($database, q{SELECT * FROM (SELECT DISTINCT status, username FROM cron.job_run_details) d}),
		'succeeded|shop_jobs', 'pg_cron has run all jobs');
}
else
{
	foreach my $job (1 .. 4)
	{
		my $command = $node->safe_psql($database, "SELECT command FROM cron.job WHERE jobid = $job");
		my $user = $node->safe_psql($database, "SELECT username FROM cron.job WHERE jobid = $job");

		is( $node->psql($database, $command, extra_params => [ '-U', $user ]),
			0, "job $job runs as $user");
	}
}
is($node->safe_psql($database, q{SELECT count(*) FROM dexp3.pending WHERE bandit = 'rehearsal'}),
	0, 'bandit-expire: nobody is undecided');
is( $node->safe_psql($database, q{
		SELECT rounds FROM dexp3.trimmed JOIN dexp3.bandit USING (bandit_id) WHERE name = 'old'}),
	10, 'bandit-trim: old decisions are removed');
is( $node->safe_psql($database, q{
		SELECT string_agg(DISTINCT bandit, ' ' ORDER BY bandit), count(*), sum(decisions)
		FROM bandit_daily WHERE bandit IN ('checkout', 'rehearsal')}),
	'checkout rehearsal|6|5001', 'bandit-daily: the report of the day');
is($node->safe_psql($database, 'SELECT bandit, open FROM bandit_alarm'), 'silent|1', 'bandit-alarm: who is silent');

$node->stop;
done_testing();
