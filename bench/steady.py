#!/usr/bin/env python3
"""Measure what managed bandits leave behind, and what must not slow them down; see load.py.

Where many decisions are open, these are a million, or 100,000 with --quick.  For ten
million, which takes some minutes and 3 GB of disk:

    ./scripts/bench --open=10000000 steady
"""

import itertools
import statistics
import time

import psycopg2

from load import Floors, compare, new_bandit, pgbench, print_row, print_table, settings, sql, verdict


# ---------------------------------------------------------------------------
# What a round leaves behind
# ---------------------------------------------------------------------------

def measure_growth(floors):
    """WAL and disk space of a round, one client."""
    rounds = 2000 if settings.quick else 20000
    bandit = new_bandit('growth')
    print_table(f'What a round leaves behind, one client, over {rounds:,} rounds', '', 'WAL, bytes a round',
                'tables and indexes, bytes a round')
    for who, script, schema in (('INSERT', floors.mix, 'bench'), ('dexp3', 'mix.sql', 'dexp3'),
                                ('PL/pgSQL', 'peer_mix.sql', 'peer')):
        size = ('SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class'
                " WHERE relkind = 'r' AND relnamespace = %s::regnamespace")
        sql('CHECKPOINT')
        lsn = sql('SELECT pg_current_wal_insert_lsn()')
        before = sql(size, schema)
        pgbench(script, 1, 'off', transactions=rounds, bandit=bandit)
        wal = sql('SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %s)::bigint', lsn)
        print_row(who, f'{wal / rounds:,.0f}', f'{(sql(size, schema) - before) / rounds:,.0f}')


# ---------------------------------------------------------------------------
# What must not slow it down
# ---------------------------------------------------------------------------

def measure_held(floors):
    """Hold a transaction open for many rounds; compare the shares of the floor before and after."""
    print_table('A round, 8 clients, `synchronous_commit` off, with a transaction held open',
                'held open', '', 'for so many rounds', 'of the INSERTs, before', 'of the INSERTs, after', 'ratio', '')

    def share(script, bandit):
        return compare([lambda: pgbench(floors.mix, 8, 'off'),
                        lambda: pgbench(script, 8, 'off', bandit=bandit)])[1][1]

    def row(held, who, rounds, script, bandit, isolation, statement, *arguments):
        before = share(script, bandit)
        holder = psycopg2.connect()
        holder.set_session(isolation_level=isolation)
        with holder.cursor() as cursor:
            cursor.execute(statement, arguments)
            pgbench(script, 8, 'off', transactions=rounds // 8, bandit=bandit)
            after = share(script, bandit)
        holder.close()
        print_row(held, who, f'{rounds:,}', f'{before:.2f}', f'{after:.2f}', f'{after / before:.2f}',
                  verdict(after / before, 0.7) if who == 'dexp3' else '')

    many = 10000 if settings.quick else 60000
    row('a snapshot', 'dexp3', many, 'mix.sql', new_bandit('snapshot'), 'REPEATABLE READ',
        'SELECT count(*) FROM dexp3.bandit')
    row('a choice', 'dexp3', many, 'mix.sql', new_bandit('writer'), 'READ COMMITTED',
        'SELECT bandit_choose(%s)', 'writer')
    # it takes ever longer
    row('a snapshot', 'PL/pgSQL', 10000, 'peer_mix.sql', 'peer', 'REPEATABLE READ',
        'SELECT count(*) FROM peer.bandit')


def first_choose(bandit, before):
    """Return the milliseconds of a fresh session's first choice, or of that after another statement."""
    with psycopg2.connect(options='-c synchronous_commit=off') as session, session.cursor() as cursor:
        if before:
            cursor.execute(before)
        start = time.perf_counter()
        cursor.execute('SELECT decision_id FROM bandit_choose(%s)', (bandit,))
        elapsed = time.perf_counter() - start
    session.close()
    return elapsed * 1000


def measure_fresh_sessions():
    """Between the samples some rounds are played, so that they meet the log at different distances from its
    last checkpoint."""
    many = 50000 if settings.quick else 200000
    young, old = new_bandit('young'), new_bandit('old')
    sql('SET synchronous_commit = off')
    sql('CALL bench.play(%s, 1000)', young)
    sql('CALL bench.play(%s, %s)', old, many)
    print_table('The first choice of a fresh session', 'what it has done before', 'after 1,000 rounds, ms',
                f'after {many:,} rounds, ms', 'ratio')
    samples = {'nothing': [], 'chosen for another bandit': []}
    for _ in range(3 * settings.repetitions):
        sql('CALL bench.play(%s, 30)', young)
        sql('CALL bench.play(%s, 30)', old)
        for what, pairs in samples.items():
            before = None if what == 'nothing' else "SELECT bandit_choose('example')"
            pairs.append((first_choose(young, before), first_choose(old, before)))
    for what, pairs in samples.items():
        print_row(what, f'{statistics.median(a for a, _ in pairs):.2f}', f'{statistics.median(b for _, b in pairs):.2f}',
                  f'{statistics.median(b / a for a, b in pairs):.2f}')
    sql('RESET synchronous_commit')


def set_shared_memory(size):
    sql(f'ALTER SYSTEM SET dexp3.shared_memory = {size}')
    sql('SELECT pg_reload_conf()')
    time.sleep(1)


def memory_after_choose(bandit):
    """Return the bytes of a fresh session's memory after its first choice."""
    with psycopg2.connect() as session, session.cursor() as cursor:
        cursor.execute('SELECT bandit_choose(%s)', (bandit,))
        cursor.execute('SELECT sum(total_bytes)::bigint FROM pg_backend_memory_contexts')
        memory = cursor.fetchone()[0]
    session.close()
    return memory


def measure_open_decisions(floors):
    """Compare a bandit that waits for the feedback of many decisions with one that waits for none."""
    many = settings.open or (100000 if settings.quick else 1000000)
    bandits = [new_bandit(f'{n} open', ", feedback_window => '1 day'") for n in (0, many)]
    sql('SET synchronous_commit = off')
    sql('CALL bench.fill(%s, %s)', bandits[1], many)
    print_table('Many open decisions, with a `feedback_window`', '', 'with none', f'with {many:,}', 'ratio', '')

    def row(label, pairs, form, wanted=None):
        none, some = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
        ratio = statistics.median(b / a for a, b in pairs)
        missed = wanted and round(ratio, 2) > wanted
        print_row(label, form.format(none), form.format(some), f'{ratio:.2f}',
                  f'at most {wanted}: {"MISSED" if missed else "ok"}' if wanted else '')

    def first_choices():
        return [[first_choose(b, None) for b in bandits] for _ in range(30)]

    row("a fresh session's first choice, ms", first_choices(), '{:.2f}', 2)
    set_shared_memory('0')      # so that each of the two takes the other's place
    row('that, if shared memory has lost the sums, ms', first_choices(), '{:.2f}', 2)
    set_shared_memory('DEFAULT')
    memory = [[memory_after_choose(b) for b in bandits] for _ in range(3)]
    row('memory of a session after its first choice, bytes', memory, '{:,.0f}')
    for clients in (1, 8):
        variants = [lambda: pgbench(floors.choose, clients, 'off')]
        variants += [lambda b=b: pgbench('choose.sql', clients, 'off', bandit=b) for b in bandits]
        _, none, some = compare(variants)
        print_row(f'choices a second, {clients} client{"s" if clients > 1 else ""}, `synchronous_commit` off',
                  f'{none[0].rate:,.0f}', f'{some[0].rate:,.0f}', f'{some[1] / none[1]:.2f}',
                  f'of the INSERTs: {none[1]:.2f} and {some[1]:.2f}')
    checkpoint = ('SELECT octet_length(state) FROM dexp3.checkpoint JOIN dexp3.bandit USING (bandit_id, epoch)'
                  ' WHERE name = %s ORDER BY events DESC LIMIT 1')
    row('bytes of the checkpoint', [[sql(checkpoint, b) for b in bandits]], '{:,.0f}')
    sql('RESET synchronous_commit')


def measure_reports():
    """Compare the times of reports with few and with many decisions in the log."""
    many = 100000 if settings.quick else 1000000
    sql('SET synchronous_commit = off')
    print_table('Reports', '', 'algorithm', 'with 1,000 decisions, ms', f'with {many:,}, ms', 'ratio')
    for algorithm in ('self-tuned', 'dada-ix'):
        bandits = [new_bandit(f'report {algorithm} {n}', f", '{algorithm}', skipping => false") for n in (1000, many)]
        for bandit, n in zip(bandits, (1000, many)):
            sql('CALL bench.fill(%s, %s, 0.5)', bandit, n)
        for label, statement in (('`dexp3.overview`', 'SELECT rounds FROM dexp3.overview WHERE bandit = %s'),
                                 ('`bandit_report`', 'SELECT count(*) FROM bandit_report(%s)'),
                                 ('`bandit_regret_bound`', 'SELECT bandit_regret_bound(%s)')):
            pairs = [[milliseconds(statement, b) for b in bandits] for _ in range(5)]
            few, lots = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
            print_row(label, f'`{algorithm}`', f'{few:.2f}', f'{lots:.2f}', f'{lots / few:.2f}')
    sql('RESET synchronous_commit')


def milliseconds(statement, *arguments):
    start = time.perf_counter()
    sql(statement, *arguments)
    return (time.perf_counter() - start) * 1000


def measure_long_statements():
    """Compare the time of a choice in two long statements."""
    print_table('Many choices in one statement', '', '', 'microseconds a choice', '', 'microseconds a choice', 'ratio')

    one_by_one = 'SELECT count(bandit_choose(%s)) FROM generate_series(1, %s)'
    at_once = 'SELECT count(*) FROM bandit_choose_many(%s, %s)'
    numbers = itertools.count()

    def cost(statement, arms, choices):
        bandit = f'long statement {next(numbers)}'
        sql('SELECT bandit_create(%s, bench.arms(%s))', bandit, arms)
        start = time.perf_counter()
        sql(statement, bandit, choices)
        return (time.perf_counter() - start) * 1e6 / choices

    for label, first, second in (
            ('more choices', (one_by_one, 10, 10000), (one_by_one, 10, 100000)),
            ('more arms', (one_by_one, 10, 10000), (one_by_one, 1000, 10000)),
            ('`bandit_choose_many`', (one_by_one, 10, 100000), (at_once, 10, 100000))):
        pairs = [(cost(*first), cost(*second)) for _ in range(settings.repetitions)]
        print_row(label, f'{first[1]:,} arms, {first[2]:,} choices', f'{statistics.median(a for a, _ in pairs):.1f}',
                  f'{second[1]:,} arms, {second[2]:,} choices', f'{statistics.median(b for _, b in pairs):.1f}',
                  f'{statistics.median(b / a for a, b in pairs):.2f}')


def measure_learners():
    """Compare a choice of the default learner with one of `dada`, whose step size needs no equation to be solved."""
    print_table('What tuning itself costs: a choice, one client, `synchronous_commit` off', 'arms',
                '`dada` without skipping, ms', '`self-tuned`, ms', 'ratio', '')
    for arms, wanted in ((10, 1.05), (1000, 2.5)):
        bandits = []
        for algorithm in ('dada', 'self-tuned'):
            bandits.append(f'{algorithm} with {arms} arms')
            sql('SELECT bandit_create(%s, bench.arms(%s), %s, skipping => false)', bandits[-1], arms, algorithm)
            sql('CALL bench.play(%s, 2000)', bandits[-1])
        dada, tuned = compare([lambda b=b: pgbench('choose.sql', 1, 'off', bandit=b) for b in bandits])
        ratio = 1 / tuned[1]
        print_row(arms, f'{1000 / dada[0].rate:.3f}', f'{1000 / tuned[0].rate:.3f}', f'{ratio:.2f}',
                  f'at most {wanted}: {"MISSED" if round(ratio, 2) > wanted else "ok"}')


def main():
    floors = Floors()
    print('\n## Managed bandits in the long run')
    measure_growth(floors)
    measure_held(floors)
    measure_fresh_sessions()
    measure_open_decisions(floors)
    measure_reports()
    measure_long_statements()
    measure_learners()


if __name__ == '__main__':
    main()
