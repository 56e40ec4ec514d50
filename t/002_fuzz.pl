# Text and binary input of bandit_state, fuzzed by mutation: whatever comes in is
# refused with a clean error, or it is a state that works in every function.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::RealBin/lib";
use Dexp3 qw(new_node);

my $seed = $ENV{DEXP3_FUZZ_SEED} // 20260;
my $number_of_texts = 4000;
my $number_of_binaries = 4000;

note "seed $seed; set DEXP3_FUZZ_SEED for another one";
srand($seed);

# The refused inputs would fill the log.
my $node = new_node('main', log_min_messages => 'log', log_min_error_statement => 'panic');
$node->safe_psql('postgres', 'CREATE EXTENSION dexp3');
my $started = $node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');

# try_state says what is wrong with a state that was accepted: nothing, if it
# keeps its identity in both forms, has probabilities and a step size, and draws
# and learns.
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION check_form(state bandit_state) RETURNS text LANGUAGE plpgsql STRICT AS $$
DECLARE
    again bandit_state := state::text;
    p float8[] := bandit_probabilities(state);
BEGIN
    RETURN concat_ws(', ',
        CASE WHEN bandit_state_send(again) <> bandit_state_send(state) THEN 'text loses something' END,
        CASE WHEN again::text <> state::text THEN 'text changes' END,
        CASE WHEN again <> state OR NOT again = state THEN 'not equal' END,
        CASE WHEN bandit_state_hash(again) <> bandit_state_hash(state) THEN 'other hash' END,
        CASE WHEN state::jsonb <> state::text::jsonb THEN 'other jsonb' END,
        CASE WHEN cardinality(p) <> (state::jsonb ->> 'arms')::integer THEN 'other number of arms' END,
        CASE WHEN (SELECT NOT bool_and(x >= 0 AND x <= 1) FROM unnest(p) x) THEN 'not probabilities' END,
        CASE WHEN (SELECT abs(sum(x::numeric) - 1) > 1e-12 FROM unnest(p) x) THEN 'sum is not 1' END,
        CASE WHEN NOT (bandit_step_size(state) >= 0 AND bandit_step_size(state) < 'infinity') THEN 'step size' END);
END
$$;

CREATE FUNCTION try_state(state bandit_state) RETURNS text LANGUAGE plpgsql STRICT AS $$
DECLARE
    problem text := check_form(state);
    drawn record;
BEGIN
    IF problem <> '' THEN
        RETURN problem;
    END IF;
    FOR i IN 1 .. 2 LOOP
        SELECT * INTO STRICT drawn FROM bandit_draw(state, CASE WHEN state::text LIKE '%"deda"%' THEN i END);
        problem := check_form(drawn.state);
        state := bandit_learn(drawn.state, drawn.ticket, 1);
        problem := concat_ws(', ', nullif(problem, ''), nullif(check_form(state), ''),
            CASE WHEN (drawn.ticket).probability > 0 IS NOT TRUE THEN 'drawn with probability 0' END,
            CASE WHEN (state::jsonb ->> 'round')::bigint <> (drawn.ticket).round THEN 'other round' END);
        EXIT WHEN problem <> '';
    END LOOP;
    RETURN problem;
EXCEPTION
    WHEN program_limit_exceeded THEN
        RETURN '';                      -- it has no round left, or no room for its open rounds
    WHEN OTHERS THEN
        RETURN SQLSTATE || ' ' || SQLERRM;
END
$$;

-- Input, and what became of it: "error" is null if it was accepted, and then
-- "problem" says what does not work.
CREATE TABLE text_input (id integer PRIMARY KEY, input text, error text, state bandit_state, problem text);
CREATE TABLE binary_input (id integer PRIMARY KEY, input bytea, error text, state bandit_state, problem text);
CREATE TABLE received (id integer DEFAULT current_setting('fuzz.id')::integer, state bandit_state);

CREATE PROCEDURE try_texts() LANGUAGE plpgsql AS $$
DECLARE
    r record;
    accepted bandit_state;
    refused text;
    detail text;
BEGIN
    FOR r IN SELECT * FROM text_input LOOP
        BEGIN
            accepted := NULL;
            refused := NULL;
            accepted := r.input;
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
            refused := concat_ws(' ', SQLSTATE, SQLERRM, detail);
        END;
        UPDATE text_input SET error = refused, state = accepted WHERE id = r.id;
    END LOOP;
    UPDATE text_input SET problem = try_state(state);
END
$$;

-- Binary input has only one way in without a client of our own: a field of a
-- binary COPY. The same bytes come out of a bytea column as go into recv.
CREATE PROCEDURE try_binaries(file text) LANGUAGE plpgsql AS $$
DECLARE
    r record;
    detail text;
BEGIN
    TRUNCATE received;
    FOR r IN SELECT id FROM binary_input LOOP
        PERFORM set_config('fuzz.id', r.id::text, false);
        EXECUTE format('COPY (SELECT input FROM binary_input WHERE id = %s) TO %L (FORMAT binary)', r.id, file);
        BEGIN
            EXECUTE format('COPY received (state) FROM %L (FORMAT binary)', file);
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
            UPDATE binary_input SET error = concat_ws(' ', SQLSTATE, SQLERRM, detail) WHERE id = r.id;
        END;
    END LOOP;
    UPDATE binary_input b SET state = c.state, problem = try_state(c.state) FROM received c WHERE c.id = b.id;
END
$$;
SQL

# The corpus: states of all variants, fresh and played, with open rounds on both
# sides of a word's end.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE corpus (id serial, state bandit_state);
CREATE PROCEDURE play(state bandit_state, rounds integer) LANGUAGE plpgsql AS $$
DECLARE
    drawn record;
BEGIN
    INSERT INTO corpus (state) VALUES (state);
    FOR t IN 1 .. rounds LOOP
        SELECT * INTO STRICT drawn FROM bandit_draw(state, CASE WHEN state::text LIKE '%"max_delay": null%' THEN t % 3 END);
        state := drawn.state;
        IF t % 3 > 0 THEN
            state := bandit_learn(state, drawn.ticket, (t % 8) / 7.0);
        END IF;
        IF t IN (1, 2, 10, rounds) THEN
            INSERT INTO corpus (state) VALUES (state);
        END IF;
    END LOOP;
END
$$;
SELECT setseed(0.5);
CALL play(bandit_new(2), 30);
CALL play(bandit_new(3, optimism => 1, half_life => 7), 30);
CALL play(bandit_new(2, 'dada', skipping => false), 30);
CALL play(bandit_new(3, 'dada', skipping => false, step_scale => 0.1), 30);
CALL play(bandit_new(2, 'dada', patience => 0), 30);
CALL play(bandit_new(3, 'dada', patience => 100), 130);
CALL play(bandit_new(2, 'dada-ix', skipping => false), 30);
CALL play(bandit_new(12, 'dada-ix', step_scale => 3), 70);
CALL play(bandit_new(2, 'deda'), 30);
CALL play(bandit_new(5, 'deda', max_delay => 9), 30);
SQL
my @texts = split /\n/,
  $node->safe_psql('postgres', 'SELECT state FROM corpus ORDER BY id');
my @binaries = map { pack('H*', $_) } split /\n/,
  $node->safe_psql('postgres',
    q{SELECT encode(bandit_state_send(state), 'hex') FROM corpus ORDER BY id});
cmp_ok(scalar @texts, '>=', 30, 'there is a corpus');

#
# Mutations
#

sub pick
{
    return $_[ int rand @_ ];
}

# Cut a piece out, double it, move one in from elsewhere, or change single
# characters; other is another member of the corpus.
sub mutate_bytes
{
    my ($bytes, $other, @alphabet) = @_;
    my $length = length $bytes;
    my $at = int rand($length + 1);
    my $size = int rand pick(2, 4, 16, $length);
    my $how = int rand 7;

    if ($how == 0) { substr($bytes, $at, $size) = ''; }
    elsif ($how == 1) { substr($bytes, $at, 0) = substr($bytes, $at, $size); }
    elsif ($how == 2) { substr($bytes, $at, 0) = pick(@alphabet); }
    elsif ($how == 3) { substr($bytes, $at) = substr($other, int rand length $other); }
    elsif ($how == 4)
    {
        my $from = int rand length $other;
        substr($bytes, $at, $size) = substr($other, $from, $size);
    }
    elsif ($how == 5) { substr($bytes, $at) = ''; }
    elsif ($length > 0) { substr($bytes, int rand $length, 1) = pick(@alphabet); }
    return $bytes;
}

my @numbers = (
    '0', '-0', '1', '2', '3', '-1', '0.5', '1.5', '-0.5', '1.0', '1e0', '1e-300', '5e-324', '1e-400',
    '1.7976931348623157e308', '1e308', '1e309', '1e400', '-1e400', '1e131071', '1e131072', '1e-16383', '1e999999999',
    '9007199254740990', '9007199254740992', '9007199254740993', '9223372036854775807', '9223372036854775808',
    '18446744073709551616', '63', '64', '65', '127', '128', '4096', '65535', '65536', '0.1', '0.30000000000000004');
my @values = (
    'null', 'true', 'false', '""', '"self-tuned"', '"dada"', '"dada-ix"', '"deda"', '"\u0000"', '"\u00e4"', '"1"', '[]', '{}',
    '[0, 0]', '[1, 2, 3]', '[[0, 0]]', '{"z": 0}', 'NaN', 'Infinity', '[' x 10000);
my @characters =
  ((map { chr } 32 .. 126), "\t", "\n", "\x01", "\x7f", "\xc3\xa4", "\xf0\x9f\x8e\xb0");

# A key of the text form, with its value
my $pair = qr/"\w+": (?:"[^"]*"|\[[^]]*\]|[^,}\[]*)/;

sub mutate_text
{
    my ($text, $other) = @_;
    my $how = int rand 8;

    if ($how <= 2)
    {
        my @places;
        push @places, [ $-[0], $+[0] - $-[0] ] while $text =~ /-?\d[\d.e+-]*/g;
        my $place = pick(@places) or return $text;
        substr($text, $place->[0], $place->[1]) = pick(@numbers);
    }
    elsif ($how == 3)
    {
        # numbers that are limits of one key only
        $text =~ s/("(?:patience|max_delay|longest_delay|cumulative_delay|lbck)": )[^,}]*/$1 . pick(2147483647, 2147483648, 1e15, 5e23, @numbers)/e;
    }
    else
    {
        my @pairs = $text =~ /$pair/g;
        my @others = $other =~ /$pair/g;
        my $at = int rand @pairs;

        return mutate_bytes($text, $other, @characters)
          if $how > 5 || !@pairs || !@others;
        my $what = int rand 6;
        if ($what == 0) { splice(@pairs, $at, 1); }
        elsif ($what == 1) { push @pairs, pick(@others); }
        elsif ($what == 2) { $pairs[$at] = pick(@others); }
        elsif ($what == 3) { @pairs = reverse @pairs; }
        else { $pairs[$at] =~ s/: .*/': ' . pick(@values)/es; }
        $text = '{' . join(', ', @pairs) . '}';
    }
    return $text;
}

my @words = map { pack('H*', $_) } (
    '0000000000000000',  # 0
    '8000000000000000',  # -0, the smallest integer
    '0000000000000001',  # 1, the smallest double
    '7fefffffffffffff',  # the largest double
    '7ff0000000000000',  # infinity
    'fff0000000000000',
    '7ff8000000000000',  # not a number
    '7fffffffffffffff',  # the largest integer, not a number
    'ffffffffffffffff',  # -1, not a number
    '0010000000000000',  # the smallest normal double
    '3ff0000000000000',  # 1
    '3ff0000000000001',
    'bff0000000000000',
    '3fe0000000000000',  # 0.5
    '0020000000000000',  # 2^53
    '0020000000000001',
    '001fffffffffffff',
    '4340000000000000',  # 2^53 as a double
    '0000000000000040',  # 64
    '0000000007ffffff',  # as many words as fit into 1 GB
    '1fffffffffffffff');
my @half_words = map { pack('N', $_) } (
    0, 1, 2, 3, 4, 12, 65535, 65536, 0x7fffffff, 0x80000000, 0xffffffff);

sub mutate_binary
{
    my ($bytes, $other) = @_;
    my $how = int rand 8;
    my $length = length $bytes;

    # The header has 4 single bytes, 4 numbers of 4 bytes, and then all are of 8.
    if ($how <= 2 && $length >= 28)
    {
        my $word = int rand(($length - 20) / 8);
        substr($bytes, 20 + 8 * $word, 8) = pick(@words);
    }
    elsif ($how == 3 && $length >= 20) { substr($bytes, pick(4, 8, 12, 16), 4) = pick(@half_words); }
    elsif ($how == 4 && $length >= 4) { substr($bytes, int rand 4, 1) = chr pick(0, 1, 2, 3, 255); }
    elsif ($how == 5 && $length > 0)
    {
        my $at = int rand $length;
        substr($bytes, $at, 1) ^= chr(1 << int rand 8);
    }
    else { $bytes = mutate_bytes($bytes, $other, map { chr } 0 .. 255); }
    return $bytes;
}

# Most inputs have one mutation, some have more, and a few have none.
sub mutants
{
    my ($number, $mutate, @corpus) = @_;

    return map {
        my $mutant = pick(@corpus);
        $mutant = $mutate->($mutant, pick(@corpus)) for 1 .. pick(0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 8);
        $mutant;
    } 1 .. $number;
}

# Load the inputs with COPY, in its text format.
sub load
{
    my ($table, @inputs) = @_;
    my %escape = ("\\" => "\\\\", "\n" => "\\n", "\t" => "\\t", "\r" => "\\r");
    my $file = PostgreSQL::Test::Utils::tempdir_short() . '/input';
    my $id = 0;

    open my $handle, '>:raw', $file or die "could not write $file: $!";
    foreach my $input (@inputs)
    {
        $input =~ s/([\\\n\t\r])/$escape{$1}/g;
        print $handle ++$id . "\t$input\n";
    }
    close $handle;
    $node->safe_psql('postgres', "COPY $table (id, input) FROM '$file'");
}

#
# The run
#

# Random cuts may leave half a character; the client's encoding is not the
# subject here.
my @text_inputs =
  map { my $s = $_; $s =~ s/[\x80-\xff]+/utf8::decode(my $c = $&) ? $& : '?'/ge; $s }
  mutants($number_of_texts, \&mutate_text, @texts);
load('text_input', @text_inputs);
$node->safe_psql('postgres', 'CALL try_texts()');

load('binary_input',
    map { '\\x' . unpack('H*', $_) }
      mutants($number_of_binaries, \&mutate_binary, @binaries));
my $copy_file = PostgreSQL::Test::Utils::tempdir_short() . '/field';
$node->safe_psql('postgres', "CALL try_binaries('$copy_file')");

#
# The verdict
#

# The SQLSTATEs that an input may be refused with. For text: what the type says,
# and what the JSON parser may say of numbers, escapes and nesting.
my %clean = (
    text_input => q{'22P02', '22003', '22P05', '54000', '54001'},
    binary_input => q{'22P03', '08P01', '54000'});

foreach my $table (qw(text_input binary_input))
{
    my $query = sub { return $node->safe_psql('postgres', "SELECT $_[0] FROM $table"); };
    my $original = $table eq 'text_input' ? 'state::text' : 'bandit_state_send(state)';

    is($query->("string_agg(DISTINCT error, E'\\n') FILTER (WHERE left(error, 5) NOT IN ($clean{$table}))"),
        '', "$table: refused only with clean errors");
    is($query->("string_agg(id || ': ' || problem || ' ' || left(input::text, 1000), E'\\n') FILTER (WHERE problem <> '')"),
        '', "$table: what is accepted works");
    is($query->('count(*) FILTER (WHERE (error IS NULL) <> (state IS NOT NULL) OR (error IS NULL) <> (problem IS NOT NULL))'),
        0, "$table: everything is either accepted, and tried, or refused");

    # The test would be worth nothing if all were refused, or if only the
    # unchanged were accepted.
    my $refused = $query->('count(error)');
    my $changed = $query->("count(*) FILTER (WHERE error IS NULL AND $original NOT IN (SELECT $original FROM corpus))");
    my $reasons = $query->('count(DISTINCT error)');
    note "$table: $refused refused for $reasons reasons, $changed accepted that were not in the corpus";
    cmp_ok($refused, '>', 1000, "$table: many are refused");
    cmp_ok($changed, '>', 300, "$table: many are accepted that were not in the corpus");
    cmp_ok($reasons, '>=', 10, "$table: for different reasons");
}

# Unchanged input is accepted, and is the same state, in both forms.
$node->safe_psql('postgres', q{TRUNCATE text_input, binary_input;
INSERT INTO text_input SELECT id, state::text FROM corpus;
INSERT INTO binary_input SELECT id, bandit_state_send(state) FROM corpus;
CALL try_texts()});
$node->safe_psql('postgres', "CALL try_binaries('$copy_file')");
is($node->safe_psql('postgres', q{SELECT count(*), bool_and(c.state = t.state AND c.state = b.state AND t.problem = '' AND b.problem = '')
FROM corpus c JOIN text_input t USING (id) JOIN binary_input b USING (id)}),
    scalar(@texts) . '|t', 'the corpus itself passes');

is($node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $started, 'the server is still up');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');

done_testing();
