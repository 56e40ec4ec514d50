# What monitoring/ has works: Debian's prometheus-postgres-exporter, as a role that may
# do nothing else, tells of each bandit what dexp3.overview says; the alarms go off when
# they should; and alarms and dashboard use no metrics that do not exist.

use strict;
use warnings;

use File::Basename;
use FindBin;
use HTTP::Tiny;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

use lib "$FindBin::RealBin/lib";
use Dexp3;

my $monitoring = dirname($FindBin::RealBin) . '/monitoring';
my ($exporter, $promtool) = map { program($_) } qw(prometheus-postgres-exporter promtool);
plan skip_all => 'prometheus-postgres-exporter is not installed' unless defined $exporter;

# Return the path of a program, if it is installed.
sub program
{
	my ($name) = @_;

	return (grep { -x } map { "$_/$name" } split(/:/, $ENV{PATH}))[0];
}

#
# Bandits of all kinds, of several owners
#

my $hostile = qq{a "b" \\ {c="d"}\n# TYPE x counter};
my $node = new_node('monitoring');
$node->safe_psql(
	'postgres', qq{
CREATE EXTENSION dexp3;
CREATE ROLE watcher LOGIN;
CREATE ROLE anna LOGIN;
SELECT bandit_create('headline', '{a,b,c}'), bandit_create('new', '{a,b}'),
       bandit_create('given up', '{a,b}', 'dada', patience => 3),
       bandit_create('price', '{a,b}', loss_range => '{0,20}', feedback_window => '0 seconds');
SET ROLE anna;
SELECT bandit_create(\$name\$$hostile\$name\$, '{a,b}');
RESET ROLE;
CREATE TABLE visit (decision_id bigint, bought boolean);
CREATE TRIGGER feedback AFTER INSERT ON visit FOR EACH ROW
    EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'bought', 'reward', 'warn');
SELECT bandit_create('losses only', '{a,b}', goal => 'loss');
INSERT INTO visit SELECT decision_id, true FROM bandit_choose_many('losses only', 2);
INSERT INTO visit VALUES (4711, true), (4712, true), (4713, true);
SELECT bandit_create('orders', '{a,b}');
SELECT bandit_node(3), bandit_share('headline');
SELECT count(CASE WHEN i % 20 = 0 THEN bandit_reward(decision_id, 1) END)
FROM generate_series(1, 500) AS i, bandit_choose_each('orders', i);
SELECT count(bandit_feedback(decision_id, 0.5)) FROM bandit_choose_many('headline', 100) WHERE decision_id % 4 <> 0;
SELECT count(*) FROM generate_series(1, 60), LATERAL bandit_choose_each('given up', generate_series);
SELECT bandit_feedback(decision_id, 12.5) FROM bandit_choose('price');
SELECT count(*) FROM bandit_choose_many('price', 9);
SELECT bandit_expire('price');
SELECT bandit_feedback(decision_id, 1) FROM bandit_choose(\$name\$$hostile\$name\$);
});

# What a role needs: twice, since it may be run again.
command_ok(
	[ 'psql', '-X', '-q', '-d', $node->connstr('postgres'), '-v', 'role=watcher', '-f', "$monitoring/setup.sql" ],
	"setup.sql, $_ time")
  foreach qw(first second);

# It sees figures, and can do nothing.
is( $node->safe_psql('postgres', 'SET ROLE watcher; SELECT count(*) FROM dexp3_monitoring.bandits()'),
	7, 'the role sees all bandits');
is( $node->safe_psql(
		'postgres', 'SET ROLE watcher; SELECT count(*) FROM dexp3.overview;
SELECT count(*) FROM dexp3.bandit; SELECT count(*) FROM dexp3.decision'),
	"0\n0\n0", '... in no other way');
my (undef, undef, $stderr) = $node->psql('postgres', "SET ROLE watcher; SELECT bandit_choose('headline')");
like($stderr, qr/permission denied for bandit "headline"/, '... and cannot choose');
(undef, undef, $stderr) = $node->psql('postgres', 'SET ROLE anna; SELECT dexp3_monitoring.bandits()');
like($stderr, qr/permission denied for schema dexp3_monitoring/, 'other roles see nothing');

#
# The exporter
#

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $log = $node->basedir . '/exporter.log';
my $running;

# Return what it tells: values by metric and labels; die if it does not answer.
sub metrics
{
	my %values;
	my $http = HTTP::Tiny->new(timeout => 30, no_proxy => '127.0.0.1');

	for my $try (1 .. 300)
	{
		my $answer = $http->get("http://127.0.0.1:$port/metrics");

		if ($answer->{success})
		{
			foreach (split /\n/, $answer->{content})
			{
				my ($name, $labels, $value) = /^(dexp3_\w+)\{(.*)\} (\S+)$/ or next;

				my %labels = $labels =~ /(\w+)="((?:[^"\\]|\\.)*)"/g;
				my %unescaped = ('n' => "\n", '"' => '"', '\\' => '\\');
				s/\\(.)/$unescaped{$1}/g foreach values %labels;
				$values{$name}{ ($labels{bandit} // 'none') . (defined $labels{node} ? " at $labels{node}" : '') } = $value;
			}
			return \%values;
		}
		$running->pump_nb;
		die 'the exporter has ended: ' . slurp_file($log) unless $running->pumpable;
		usleep(100_000);
	}
	die 'the exporter does not answer: ' . slurp_file($log);
}

local $ENV{DATA_SOURCE_NAME} = sprintf 'user=watcher host=%s port=%d dbname=postgres sslmode=disable', $node->host, $node->port;
append_to_file($log, '');
$running = IPC::Run::start(
	[
		$exporter, "--web.listen-address=127.0.0.1:$port",
		"--extend.query-path=$monitoring/queries.yaml", '--disable-default-metrics', '--disable-settings-metrics'
	],
	'<', \undef, '>&', $log);
my $values = metrics();

# What the bandits say themselves
my $overview = decode_json(
	$node->safe_psql(
		'postgres', q{
SELECT jsonb_object_agg(bandit, to_jsonb(o) || jsonb_build_object('settled', rounds - open - skipped - expired,
    'longest_delay_rounds', longest_delay,
    'problems', (SELECT count(*) FROM bandit_advice(o.bandit) WHERE severity = 'problem'),
    'regret_share', regret_estimate / nullif(rounds * (loss_range[2] - loss_range[1]), 0)))
FROM dexp3.overview o JOIN dexp3.bandit b ON b.name = o.bandit}));
is(scalar(keys %$overview), 7, 'there are bandits to compare');
my @columns = qw(rounds open settled skipped expired longest_delay_rounds total_loss regret_estimate regret_share warnings problems);
foreach my $bandit (sort keys %$overview)
{
	my %wrong;

	foreach my $column (@columns)
	{
		my $expected = $overview->{$bandit}{$column};
		my $got = $values->{"dexp3_bandit_$column"}{$bandit} // 'nothing';
		my $same = defined $expected ? $got =~ /^[-+\d.e]+$/ && abs($got - $expected) <= 1e-9 * (1 + abs($expected)) : $got eq 'NaN';

		$wrong{$column} = "$got is not " . ($expected // 'NaN') unless $same;
	}
	is_deeply(\%wrong, {}, 'metrics of ' . $bandit =~ s/\n/ /gr);
	cmp_ok($values->{"dexp3_bandit_last_${_}_age_seconds"}{$bandit} // 'NaN', '<', 600, "... and the age of the last $_")
	  foreach qw(decision feedback);
}
is($overview->{price}{expired}, 9, 'some have expired');
cmp_ok($overview->{'given up'}{skipped}, '>', 10, 'some were skipped');
is($overview->{headline}{open}, 25, 'some are open');
is($overview->{'losses only'}{warnings}, 2, 'some feedback was lost');
is($overview->{orders}{problems}, 1, 'there is a problem');
is($values->{dexp3_node_rounds}{'headline at 3'}, 100, 'this server shares a bandit');
is($values->{dexp3_node_counts}{'headline at 3'}, 1, '... and counts');
is($values->{dexp3_stray_warnings}{none}, 3, 'some feedback was for decisions of no bandit');
unlike(slurp_file($log), qr/level=(?:error|warn)[^\n]*dexp3/, 'the exporter does not complain');

# The next look is about what has happened since.
$node->safe_psql('postgres', q{SELECT bandit_choose('new')});
is(metrics()->{dexp3_bandit_rounds}{new}, 1, 'the metrics are of this moment');

$running->kill_kill(grace => 5);

#
# Alarms and the dashboard
#

my %exists = map { $_ => 1 } keys %$values;
cmp_ok(scalar(keys %exists), '>=', 11, 'there are metrics');
my $rules = slurp_file("$monitoring/rules.yaml");
my $dashboard = decode_json(slurp_file("$monitoring/dashboard.json"));
my @alarms = $rules =~ /alert: (\w+)/g;
my %queries = (
	'rules.yaml' => [ $rules =~ /^( *expr:.*?)^ *for:/msg ],
	'dashboard.json' => [
		(map { $_->{query}{query} } grep { $_->{type} eq 'query' } @{ $dashboard->{templating}{list} }),
		map { $_->{expr} } map { @{ $_->{targets} } } @{ $dashboard->{panels} }
	]);
foreach my $file (sort keys %queries)
{
	my @used = map { /\b(dexp3_\w+)/g } @{ $queries{$file} };

	cmp_ok(scalar(@used), '>=', 6, "$file uses metrics");
	is(join(' ', grep { !$exists{$_} } @used), '', "$file: all of them exist");
}
is(scalar(grep { $rules !~ /alert: $_\n(?:.*\n)*? +description:/ } @alarms), 0, 'every alarm says what to do');
my $tried = slurp_file("$monitoring/rules-test.yaml");
is(join(' ', grep { $tried !~ /alertname: $_\n +exp_alerts:\n/ } @alarms), '', 'every alarm is tried');
my %places;
foreach my $panel (@{ $dashboard->{panels} })
{
	my $place = $panel->{gridPos};

	push @{ $places{"$_,$place->{y}"} }, $panel->{title} foreach ($place->{x} .. $place->{x} + $place->{w} - 1);
}
is(join(' ', map { @$_ } grep { @$_ > 1 } values %places), '', 'no panel covers another one');

SKIP:
{
	skip 'promtool is not installed', 2 unless defined $promtool;

	command_ok([ $promtool, 'check', 'rules', "$monitoring/rules.yaml" ], 'the alarms are well-formed');
	command_ok([ $promtool, 'test', 'rules', "$monitoring/rules-test.yaml" ], 'the alarms go off when they should');
}

$node->stop;
done_testing();
