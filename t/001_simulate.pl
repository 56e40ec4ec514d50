# bandit_simulate on long runs: progress, cancelling, results beyond work_mem.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Dexp3 qw(new_node);

my $node = new_node('main');
$node->safe_psql('postgres', 'CREATE EXTENSION dexp3');

# Run SQL and return what psql writes to stdout and to stderr, where notices and
# errors go.
sub run_sql
{
    my ($sql) = @_;
    my ($stdout, $stderr);

    $node->psql('postgres', $sql,
        stdout => \$stdout, stderr => \$stderr, on_error_stop => 0);
    return ($stdout, $stderr);
}

# A run that takes a while. The losses come from a table, uncompressed, so that it
# is the simulation that takes it.
my $rounds = 1_000_000;
$node->safe_psql('postgres', qq{
CREATE TABLE long_run (losses float8[]);
ALTER TABLE long_run ALTER losses SET STORAGE external;
INSERT INTO long_run SELECT array_fill(0.5::float8, ARRAY[$rounds, 2]);
});
my $long_run = q{SELECT count(*) FROM long_run, bandit_simulate(losses, seed => 1, algorithm => 'dada')};

#
# Progress
#

my ($stdout, $stderr) = run_sql("SET dexp3.progress_interval = '1ms'; $long_run");
is($stdout, $rounds, 'a run with progress lines returns all rows');
my @lines = $stderr =~ /NOTICE:  (.*)/g;
cmp_ok(scalar @lines, '>=', 5, 'progress is reported again and again');
my $line =
  qr/^progress: (\d+\.\d) s, (\d+) of $rounds rounds \((\d+\.\d)%\), \d+ rounds\/s$/;
is(scalar(grep { $_ !~ $line } @lines), 0, 'every line is a progress line')
  or diag($stderr);
my @done = map { /$line/ ? $2 : () } @lines;
is_deeply(\@done, [ sort { $a <=> $b } @done ], 'and says more than the one before');
is(scalar(grep { /$line/ && abs($3 - 100 * $2 / $rounds) > 0.051 } @lines),
    0, 'with the right percentage');

($stdout, $stderr) = run_sql("SET dexp3.progress_interval = '200ms'; $long_run");
@lines = $stderr =~ /NOTICE:  (.*)/g;
my ($seconds) = @lines ? $lines[-1] =~ $line : 0;
cmp_ok(scalar @lines, '<=', 5 * $seconds + 1, "no more lines than the interval allows in $seconds s");

($stdout, $stderr) = run_sql("SET dexp3.progress_interval = 0; $long_run");
is($stdout, $rounds, 'a run without progress lines returns all rows');
is($stderr, '', 'progress_interval = 0 turns them off');

($stdout, $stderr) = run_sql(
    "SET dexp3.progress_interval = '1ms'; SET client_min_messages = warning; $long_run");
is($stderr, '', 'client_min_messages silences them');

# The default is a line every 5 seconds: none for a short run.
is($node->safe_psql('postgres', "SELECT bandit_new(2, 'dada') IS NULL; SHOW dexp3.progress_interval"),
    "f\n5s", 'the default interval');
($stdout, $stderr) =
  run_sql("SELECT count(*) FROM bandit_simulate('{{0,1},{1,0}}', algorithm => 'dada')");
is($stderr, '', 'a short run is silent');

#
# Cancelling
#

# Run it with a timeout, in ms, or without one (0). Returns whether it was cancelled,
# the time taken in ms, and how much of its result it has written to a temporary
# file: that says how far it got, however busy the machine is. There is nothing to
# cancel but the simulation: no progress lines, and no rows to be read afterwards.
sub timed_run
{
    my ($timeout) = @_;
    my $offset = -s $node->logfile;
    my (undef, $notices) = run_sql(qq{
SET dexp3.progress_interval = 0;
SET work_mem = '64kB';
SET log_temp_files = 0;
SET statement_timeout = $timeout;
DO \$\$
DECLARE
    start timestamptz := clock_timestamp();
    cancelled integer := 0;
BEGIN
    BEGIN
        PERFORM FROM long_run, bandit_simulate(losses, seed => 1, algorithm => 'dada') LIMIT 1;
    EXCEPTION WHEN query_canceled THEN
        cancelled := 1;
    END;
    RAISE NOTICE 'cancelled: %, %', cancelled, round(1000 * extract(epoch FROM clock_timestamp() - start));
END
\$\$;
});
    $notices =~ /cancelled: (\d), (\d+)/ or die "unexpected output: $notices";
    my ($cancelled, $taken) = ($1, $2);
    my ($written) =
      slurp_file($node->logfile, $offset) =~ /temporary file: .* size (\d+)/;
    return ($cancelled, $taken, $written // 0);
}

# The timeout must end in the middle of the simulation: on a busy machine that
# may need some attempts.
my (undef, $whole_time, $whole) = timed_run(0);
my ($cancelled, $taken, $written);
for (1 .. 10)
{
    my $timeout = int(0.4 * $whole_time);
    ($cancelled, $taken, $written) = timed_run($timeout);
    note "with a timeout of $timeout ms: $taken ms, $written of $whole bytes";
    last if $cancelled && $written > 0 && $written < 0.9 * $whole;
    # the machine is quicker than before, or slower
    $whole_time = $taken if !$cancelled;
    $whole_time *= $written > 0 ? 0.7 : 1.3 if $cancelled;
}
ok($cancelled, 'statement_timeout cancels a run');
cmp_ok($written, '<', 0.9 * $whole, 'in the middle');

# Not caught, the error reaches the user, and the session goes on.
($stdout, $stderr) = run_sql(qq{
\\set VERBOSITY verbose
SET statement_timeout = '20ms';
$long_run;
SET statement_timeout = 0;
SELECT 'still here, ' || count(*) FROM bandit_simulate('{{0,1},{1,0}}', algorithm => 'dada');
});
like($stderr, qr/ERROR:  57014: canceling statement due to statement timeout/,
    'its SQLSTATE');
is($stdout, 'still here, 2', 'the session goes on');

#
# Results beyond work_mem
#

my $digest = q{
SELECT count(*), bool_and(round = n), md5(string_agg(row::text, '' ORDER BY n))
FROM (SELECT row_number() OVER () AS n, round, row(round, arm, probability, step_size, loss) AS row
      FROM bandit_simulate((SELECT array_agg(ARRAY[t % 2, 0.5, (t % 7) / 7.0]::float8[] ORDER BY t)
                            FROM generate_series(1, 100000) t),
                           (SELECT array_agg(t % 50 ORDER BY t) FROM generate_series(1, 100000) t), 'dada',
                           seed => 3)) s};
my $spilled = $node->safe_psql('postgres', "SET work_mem = '64kB'; $digest");
my $in_memory = $node->safe_psql('postgres', "SET work_mem = '1GB'; $digest");
like($spilled, qr/^100000\|t\|/, 'a result larger than work_mem is complete and in order');
is($spilled, $in_memory, 'and the same as one that fits');

my $explain = 'EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) '
  . q{SELECT * FROM bandit_simulate(array_fill(0.5::float8, ARRAY[100000, 2]), algorithm => 'dada')};
like($node->safe_psql('postgres', "SET work_mem = '64kB'; $explain"),
    qr/temp .*written=[1-9]/, 'it went to disk');
unlike($node->safe_psql('postgres', "SET work_mem = '1GB'; $explain"),
    qr/temp .*written=[1-9]/, 'and the other did not');

$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/,
    'nothing crashed');

done_testing();
