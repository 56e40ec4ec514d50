# A session goes on for a long time.  After a million calls, with errors, rollbacks
# and bandits that come and go, it takes no more memory than after the first few.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Dexp3 qw(new_node);

# By how many bytes PostgreSQL's memory contexts and the process may grow.  The
# allocator of the latter is not exact.
my $context_bound = 100_000;
my $process_bound = 1_000_000;

my $node = new_node(
	'memory',
	synchronous_commit => 'off',
	full_page_writes => 'off',
	max_wal_size => '4GB',
	track_functions => 'all');

$node->safe_psql(
	'postgres', q{
CREATE EXTENSION dexp3;
SELECT bandit_create('skipping', ARRAY['a', 'b', 'c'], 'dada', patience => 5);
SELECT bandit_create('exploring', ARRAY['a', 'b', 'c'], 'dada-ix', skipping => false);
SELECT bandit_create('deda', ARRAY['a', 'b', 'c'], 'deda', max_delay => 10);
SELECT bandit_create('patient', ARRAY['a', 'b', 'c'], 'dada', patience => 1000000);
SELECT bandit_create('bulk', ARRAY['a', 'b', 'c'], 'dada', patience => 1000000);
SELECT bandit_create('one of many ' || i, ARRAY['a', 'b', 'c'], 'dada', skipping => i % 2 = 0) FROM generate_series(1, 300) i;

-- many open decisions
SELECT bandit_choose('patient') FROM generate_series(1, 5000);

CREATE TABLE by_row (decision_id bigint, loss float8);
CREATE TRIGGER feedback AFTER INSERT OR UPDATE ON by_row
    FOR EACH ROW EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'loss');
CREATE TABLE by_statement (decision_id bigint, loss float8);
CREATE TRIGGER inserted AFTER INSERT ON by_statement REFERENCING NEW TABLE AS new
    FOR EACH STATEMENT EXECUTE FUNCTION bandit_feedback_trigger('decision_id', 'loss');

CREATE FUNCTION memory() RETURNS bigint LANGUAGE sql
    AS 'SELECT sum(total_bytes) FROM pg_backend_memory_contexts';

--
-- Workouts, of any length
--

-- Rounds in many transactions; some are rolled back.
CREATE PROCEDURE rounds(n integer) LANGUAGE plpgsql AS $$
DECLARE
    names text[] := '{skipping, exploring, deda, patient}';
    decision bigint;
BEGIN
    FOR i IN 1 .. n LOOP
        decision := decision_id FROM bandit_choose(names[1 + i % 4]);
        PERFORM bandit_feedback(decision, 0.5);
        IF i % 1000 = 0 THEN
            ROLLBACK;
        ELSIF i % 10 = 0 THEN
            COMMIT;
        END IF;
    END LOOP;
END
$$;

-- Many at once, with feedback by a statement trigger.
CREATE PROCEDURE bulk(n integer) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. n / 10000 LOOP
        INSERT INTO by_statement SELECT decision_id, 0.5
        FROM generate_series(1, 10000) g, bandit_choose_each('bulk', g);
        COMMIT;
        TRUNCATE by_statement;
    END LOOP;
END
$$;

-- One after the other, with feedback by a row trigger, some of it by UPDATE.
CREATE PROCEDURE triggers(n integer) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. n LOOP
        INSERT INTO by_row SELECT decision_id, CASE WHEN i % 2 = 0 THEN 0.5 END FROM bandit_choose('deda');
        IF i % 100 = 0 THEN
            UPDATE by_row SET loss = 1 WHERE loss IS NULL;
            COMMIT;
            TRUNCATE by_row;
        END IF;
    END LOOP;
END
$$;

-- One transaction with many savepoints: released, rolled back, rolled back by
-- all sorts of errors.
CREATE PROCEDURE savepoints(n integer) LANGUAGE plpgsql AS $$
DECLARE
    names text[] := '{skipping, exploring, deda}';
    name text;
    decision bigint;
BEGIN
    FOR i IN 1 .. n LOOP
        name := names[1 + i % 3];
        BEGIN
            decision := decision_id FROM bandit_choose(name);
            BEGIN
                PERFORM bandit_choose(name);
                PERFORM bandit_feedback(decision, 0.5);
                CASE i % 5
                    WHEN 0 THEN PERFORM bandit_feedback(decision, 2);
                    WHEN 1 THEN PERFORM bandit_feedback(0, 0.5);
                    WHEN 2 THEN PERFORM bandit_choose('nobody');
                    WHEN 3 THEN INSERT INTO by_row VALUES (decision, 0.5), (decision, 2);
                    ELSE RAISE data_exception;
                END CASE;
            EXCEPTION WHEN data_exception OR undefined_object THEN
            END;
            PERFORM bandit_feedback(decision, 0.5);
        END;
    END LOOP;
END
$$;

-- Many open decisions, and rollbacks.
CREATE PROCEDURE patient(n integer) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. n LOOP
        BEGIN
            PERFORM bandit_choose('patient');
            RAISE data_exception;
        EXCEPTION WHEN data_exception THEN
        END;
        PERFORM bandit_feedback(decision_id, 0.5) FROM bandit_choose('patient');
        COMMIT;
    END LOOP;
END
$$;

-- More bandits than have room in shared memory.
CREATE PROCEDURE evictions(n integer) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. n LOOP
        PERFORM bandit_feedback(decision_id, 0.5) FROM bandit_choose('one of many ' || 1 + i * 7 % 300);
        IF i % 10 = 0 THEN
            COMMIT;
        END IF;
    END LOOP;
END
$$;

-- Bandits that come and go.
CREATE PROCEDURE bandits(n integer) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. n LOOP
        PERFORM bandit_create('short-lived', ARRAY['a', 'b', 'c'], 'dada');
        PERFORM bandit_choose('short-lived');
        PERFORM bandit_reset('short-lived');
        PERFORM bandit_choose('short-lived');
        PERFORM bandit_drop('short-lived');
        COMMIT;
    END LOOP;
END
$$;

-- Looks at bandits, with news every now and then.
CREATE PROCEDURE looks(n integer) LANGUAGE plpgsql AS $$
DECLARE
    names text[] := '{skipping, exploring, deda}';
    state bandit_state;
BEGIN
    FOR i IN 1 .. n LOOP
        PERFORM bandit_probabilities(names[1 + i % 3]);
        state := bandit_current_state(names[1 + i % 3]);
        IF i % 100 = 0 THEN
            PERFORM bandit_choose(names[1 + i % 3]);
            COMMIT;
        END IF;
    END LOOP;
END
$$;

-- Bandits as values.
CREATE PROCEDURE draws(n integer) LANGUAGE plpgsql AS $$
DECLARE
    state bandit_state := bandit_new(3, 'dada', patience => 5);
    drawn record;
    number float8;
BEGIN
    FOR i IN 1 .. n LOOP
        SELECT * INTO drawn FROM bandit_draw(state);
        state := bandit_learn(drawn.state, drawn.ticket, 0.5);
        number := (bandit_probabilities(state))[1] + bandit_step_size(state);
        IF i % 100 = 0 THEN
            BEGIN
                state := bandit_learn(state, drawn.ticket, 2);
            EXCEPTION WHEN numeric_value_out_of_range THEN
                state := state::text::bandit_state;
            END;
        END IF;
    END LOOP;
END
$$;
});

# The memory of the session: what PostgreSQL knows of, and what the operating
# system does, where it tells.
my $session = $node->background_psql('postgres');
$session->set_query_timer_restart;
my $pid = $session->query_safe('SELECT pg_backend_pid()');

sub memory
{
	my $status = -e "/proc/$pid/status" ? slurp_file("/proc/$pid/status") : '';

	return ($session->query_safe('SELECT memory()'), $status =~ /^RssAnon:\s*(\d+) kB/m ? 1024 * $1 : undef);
}

# Each workout is made twice, first a short one to warm up.
sub work_out
{
	my ($name, $warm_up, $n) = @_;

	$session->query_safe("CALL $name($warm_up)");
	my @before = memory();
	$session->query_safe("CALL $name($n)");
	my @after = memory();

	note("$name: bytes in memory contexts and of the process: @before, then @after");
	cmp_ok($after[0] - $before[0], '<', $context_bound, "$name: memory contexts do not grow");
  SKIP:
	{
		skip 'there is no /proc', 1 unless defined $before[1];
		cmp_ok($after[1] - $before[1], '<', $process_bound, "$name: the process does not grow");
	}
	return;
}

work_out('rounds', 2_000, 50_000);
work_out('bulk', 20_000, 160_000);
work_out('triggers', 1_000, 10_000);
work_out('patient', 20, 300);
work_out('looks', 1_000, 50_000);
work_out('draws', 1_000, 150_000);

$session->query_safe('BEGIN');
work_out('savepoints', 1_000, 10_000);
$session->query_safe('COMMIT');

# With less shared memory than all bandits would take
$node->append_conf('postgresql.conf', q{dexp3.shared_memory = '64kB'});
$node->reload;
work_out('evictions', 1_000, 10_000);
work_out('bandits', 50, 500);

# Open decisions take no memory, neither in a session nor in a checkpoint; also if the
# session has to fold all of them.
$node->safe_psql(
	'postgres', q{
SELECT bandit_create(name, '{a,b,c}', 'dada', skipping => false, feedback_window => '1 day')
FROM unnest('{few, many}'::text[]) name;
SELECT count(bandit_feedback(decision_id, 0.5)) FROM bandit_choose_many('few', 2000);
SELECT count(*) FROM bandit_choose_many('many', 300000)});

sub memory_for
{
	my ($bandit) = @_;

	return $node->safe_psql(
		'postgres', qq{
SELECT bandit_feedback(decision_id, 0.5) AS outcome FROM bandit_choose('$bandit') \\gset
SELECT bandit_feedback(decision_id, 0.5) AS outcome FROM bandit_choose('$bandit') \\gset
SELECT sum(used_bytes) FROM pg_backend_memory_contexts});
}

memory_for('few');
my %bytes = map { $_ => memory_for($_) } qw(few many);
note("bytes with few and with many open decisions: $bytes{few}, $bytes{many}");
cmp_ok($bytes{many} - $bytes{few}, '<', $context_bound, '300,000 open decisions: a session needs no more memory');
my %checkpoint = split /[|\n]/, $node->safe_psql(
	'postgres', q{
SELECT name, max(octet_length(state)) FROM dexp3.checkpoint JOIN dexp3.bandit USING (bandit_id)
WHERE name IN ('few', 'many') GROUP BY name});
cmp_ok($checkpoint{many}, '<=', $checkpoint{few}, 'and a checkpoint is no larger');
$node->safe_psql('postgres', 'UPDATE dexp3.feedback SET loss = loss WHERE false');
cmp_ok(memory_for('many') - $bytes{few}, '<', $context_bound, 'nor does it when it folds the log');

# Was that a million?
$session->quit;
ok( $node->poll_query_until(
		'postgres', q{
SELECT sum(calls) > 1000000 FROM pg_stat_user_functions WHERE funcname LIKE 'bandit%'}),
	'there were a million calls');
is( $node->safe_psql(
		'postgres', q{
SELECT (SELECT count(*) > 200000 FROM dexp3.decision), (SELECT count(*) > 200000 FROM dexp3.feedback)}),
	't|t', 'of which 200,000 choices and 200,000 feedbacks were committed');

$node->stop;
done_testing();
