#!/usr/bin/env python3
"""Measure managed bandits under load, for scripts/bench.

    managed.py [--quick] PICTURES

Prints the tables as Markdown, and writes pictures into the given directory.  The server
and the database, with what managed.sql defines, are those of the environment.

A measurement is made of slices: some seconds of the floor, some of dexp3, some of each
peer, and so on by turns.  Of the rates, of the times and of the ratios of neighbours the
medians are shown, so that a disturbance of a slice or two does no harm.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

import psycopg2

import picture

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENTS = (1, 8, 32)
WANTED = 0.9        # of the floor
WANTED_OF_PEER = 5  # times the PL/pgSQL peer, of the mix with 8 clients

Slice = namedtuple('Slice', 'rate median late')     # a second; microseconds; their 99th percentile

connection = None
settings = None


# ---------------------------------------------------------------------------
# Statements and slices
# ---------------------------------------------------------------------------

def sql(statement, *arguments):
    """Run a statement in a transaction of its own, and return its first value, if any."""
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments or None)
        return cursor.fetchone()[0] if cursor.description else None


def of_times(rate, times):
    times.sort()
    return Slice(rate, times[len(times) // 2], times[len(times) * 99 // 100])


def read_logs(directory):
    """Return pgbench's transactions: when each of them ended, and how long it took."""
    ended = []
    for name in os.listdir(directory):
        with open(os.path.join(directory, name), encoding='ascii') as log:
            for line in log:
                fields = line.split()
                ended.append((int(fields[4]) * 1000000 + int(fields[5]), int(fields[2])))
    return ended


def pgbench(script, clients, commit, warm_up=0.5, transactions=None, **variables):
    """Run a script of bench/managed, or one of the floor's, and return a slice.

    The first seconds, in which sessions fill their caches, do not count.
    """
    path = script if os.path.isabs(script) else os.path.join(HERE, 'managed', script)
    command = ['pgbench', '-n', '-M', 'prepared', '-c', str(clients), '-j', '2', '-f', path,
               '-D', f'clients={clients}']
    command += ['-t', str(transactions)] if transactions else ['-T', str(math.ceil(warm_up + settings.seconds))]
    for name, value in variables.items():
        command += ['-D', f'{name}={value}']
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(command + ['-l', '--log-prefix', os.path.join(directory, 'log')],
                              env={**os.environ, 'PGOPTIONS': f'-c synchronous_commit={commit}'},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(done.stdout)
        ended = read_logs(directory)
    start = min(end - duration for end, duration in ended) + warm_up * 1e6
    times = [duration for end, duration in ended if end >= start]
    return of_times(len(times) / (max(ended)[0] - start) * 1e6, times)


def app(learner, clients, commit):
    """Run the application in Python."""
    done = subprocess.run([sys.executable, os.path.join(HERE, 'app.py'), learner, str(clients), str(settings.seconds)],
                          env={**os.environ, 'PGOPTIONS': f'-c synchronous_commit={commit}'},
                          stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout)
    return of_times(result['rounds'] / result['seconds'], result['times'])


def compare(variants):
    """Take slices of each variant, which are functions, by turns.

    Returns a list of (slice of medians, median ratio to the first variant's rate).
    """
    turns = [[variant() for variant in variants] for _ in range(settings.repetitions)]
    return [(Slice(*(statistics.median(turn[i][k] for turn in turns) for k in range(3))),
             statistics.median(turn[i].rate / turn[0].rate for turn in turns))
            for i in range(len(variants))]


# ---------------------------------------------------------------------------
# Output
# ---------------------------------------------------------------------------

def print_row(*cells):
    print('| ' + ' | '.join(str(cell) for cell in cells) + ' |', flush=True)


def print_table(title, *columns):
    print(f'\n### {title}\n')
    print_row(*columns)
    print_row(*['---'] * len(columns))


def verdict(ratio, at_least):
    return f'at least {at_least}: {"ok" if round(ratio, 2) >= at_least else "MISSED"}'


def draw(name, svg):
    with open(os.path.join(settings.pictures, name), 'w', encoding='utf-8') as file:
        file.write(svg)


# ---------------------------------------------------------------------------
# Throughput and latency
# ---------------------------------------------------------------------------

class Floors:
    """The bare INSERTs: scripts for pgbench, made from real rows."""

    def __init__(self, directory):
        decision = sql('SELECT bench.insert_decision()')
        feedback = sql("SELECT bench.insert_feedback('FROM bench.decision AS d WHERE d.decision_id = :decision_id')")
        skip = sql("SELECT bench.insert_feedback('FROM d')")
        share = '\\set decision_id :next + :client_id\n\\set next :next + :clients\n'
        self.directory = directory
        self.decision = decision
        self.choose = self.write('choose', f'{decision};')
        self.choose_and_skip = self.write('choose_and_skip', f'WITH d AS ({decision} RETURNING *) {skip};')
        self.feedback = self.write('feedback', f'{share}{feedback};')
        self.trigger = self.write('trigger', f'{share}WITH p AS (INSERT INTO bench.purchase_floor (decision_id, loss)'
                                             f' VALUES (:decision_id, 0.5)) {feedback};')
        self.mix = self.write('mix', f'{decision} RETURNING decision_id \\gset\n{feedback};')

    def write(self, name, text):
        path = os.path.join(self.directory, f'floor_{name}.sql')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text + '\n')
        return path


class Stock:
    """Decisions that feedback can be given to."""

    def __init__(self, floors):
        self.floors = floors
        self.size = 0

    def grow_with(self, taken):
        """Have enough for a slice at this rate and its first half second, and half as much again."""
        self.size = max(self.size, int(1.5 * taken.rate * (settings.seconds + 0.5)) + 1000)
        return taken

    def floor(self):
        sql('TRUNCATE bench.decision, bench.feedback, bench.purchase_floor')
        sql('ALTER SEQUENCE bench.decision_id RESTART')
        sql(f'{self.floors.decision} FROM generate_series(1, %s)', max(self.size, settings.first_stock))
        sql('VACUUM ANALYZE bench.decision')
        return 1

    def dexp3(self):
        first = sql("SELECT min(decision_id) FROM bandit_choose_many('patient', %s)", self.size)
        sql("SELECT bandit_choose('patient')")      # which writes a checkpoint
        return first

    def peer(self):
        sql("UPDATE peer.bandit SET round = round + %s, outstanding = outstanding + %s WHERE name = 'peer'",
            self.size, self.size)
        return sql('WITH d AS (INSERT INTO peer.decision (bandit, round, arm, probability)'
                   " SELECT 'peer', n, 1, 0.1 FROM generate_series(1, %s) AS n RETURNING decision_id)"
                   ' SELECT min(decision_id) FROM d', self.size)


def new_bandit(name, arguments=''):
    sql(f"SELECT bandit_create(%s, bench.arms(10){arguments})", name)
    return name


def workloads(floors, stock):
    """Return what is measured: names, and variants as (who, function of clients and commit)."""
    def choose(skipping):
        def prepare(clients, commit):
            bandit = new_bandit(f'choose {skipping} {clients} {commit}', '' if skipping else ', skipping => false')
            return lambda: pgbench('choose.sql', clients, commit, bandit=bandit)
        return prepare

    def mix(clients, commit):
        bandit = new_bandit(f'mix {clients} {commit}')
        return lambda: pgbench('mix.sql', clients, commit, bandit=bandit)

    def plain(script, **arguments):
        return lambda clients, commit: lambda: pgbench(script, clients, commit, **arguments)

    def with_stock(script, make):
        return lambda clients, commit: lambda: pgbench(script, clients, commit, next=make())

    def floor_with_stock(script):
        return lambda clients, commit: lambda: stock.grow_with(pgbench(script, clients, commit, next=stock.floor()))

    def of_app(learner):
        return lambda clients, commit: lambda: app(learner, clients, commit)

    return (
        ('choose', 'A choice', (
            ('INSERT', plain(floors.choose)),
            ('dexp3', choose(skipping=False)),
            ('PL/pgSQL', plain('peer_choose.sql')))),
        ('feedback', 'Feedback', (
            ('INSERT', floor_with_stock(floors.feedback)),
            ('dexp3', with_stock('feedback.sql', stock.dexp3)),
            ('PL/pgSQL', with_stock('peer_feedback.sql', stock.peer)))),
        ('trigger', 'Feedback by a trigger: a row of the application, which settles a decision', (
            ('INSERT', floor_with_stock(floors.trigger)),
            ('dexp3', with_stock('trigger.sql', stock.dexp3)),
            ('PL/pgSQL', with_stock('peer_trigger.sql', stock.peer)))),
        ('mix', 'A round: a choice, and its feedback in another transaction', (
            ('INSERT', plain(floors.mix)),
            ('dexp3', mix),
            ('PL/pgSQL', plain('peer_mix.sql')))),
        ('many', 'A round of one of 1,000 bandits, in sessions that have used most of them', (
            ('INSERT', plain(floors.mix)),
            ('dexp3', plain('many_mix.sql', warm_up=1 if settings.quick else 12.5)),
            ('PL/pgSQL', plain('peer_many_mix.sql')))),
        ('skips', 'A choice of a bandit with skipping that gets no feedback at all, so that most choices also'
                  ' give up an old one', (
            ('INSERT of both rows', plain(floors.choose_and_skip)),
            ('dexp3', choose(skipping=True)))),
        ('app', 'A round of an application in Python', (
            ('weights in a row', of_app('weights')),
            ('dexp3', of_app('dexp3')))),
    )


def measure_throughput(floors):
    """Measure all workloads; return the results by workload, commit and clients."""
    results = {}
    for name, title, variants in workloads(floors, Stock(floors)):
        print_table(title, '`synchronous_commit`', 'clients', '', 'a second', 'median, ms', '99 %, ms',
                    f'of {variants[0][0]}', '')
        for commit in ('on', 'off'):
            for clients in CLIENTS:
                result = compare([prepare(clients, commit) for _, prepare in variants])
                results[name, commit, clients] = {who: r for (who, _), r in zip(variants, result)}
                for who, (taken, ratio) in results[name, commit, clients].items():
                    wanted = verdict(ratio, WANTED) if who == 'dexp3' and name != 'app' else ''
                    print_row(commit, clients, who, f'{taken.rate:,.0f}', f'{taken.median / 1000:.2f}',
                              f'{taken.late / 1000:.2f}', f'{ratio:.2f}', wanted)
    print_table('A round with 8 clients, dexp3 as a multiple of PL/pgSQL', '`synchronous_commit`', 'multiple', '',
                'and the INSERTs')
    for commit in ('on', 'off'):
        result = results['mix', commit, 8]
        multiple = result['dexp3'][1] / result['PL/pgSQL'][1]
        print_row(commit, f'{multiple:.1f}', verdict(multiple, WANTED_OF_PEER), f"{1 / result['PL/pgSQL'][1]:.1f}")
    return results


def draw_throughput(results):
    names = {'choose': 'choice', 'feedback': 'feedback', 'trigger': 'trigger', 'mix': 'round', 'many': '1,000 bandits'}
    draw('managed-floor.svg', picture.bars(
        'dexp3 as a share of the bare INSERTs', [{
            'title': f'synchronous_commit = {commit}',
            'categories': list(names.values()),
            'reference': {'value': WANTED, 'label': f'{WANTED}'},
            'series': [{'name': f'{clients} client{"s" if clients > 1 else ""}',
                        'values': [results[name, commit, clients]['dexp3'][1] for name in names]}
                       for clients in CLIENTS]
        } for commit in ('on', 'off')],
        y={'title': 'share of the rate', 'range': [0, 1.25]}, decimals=2))

    def points(workload, commit, who):
        return [[clients, results[workload, commit, clients][who][0].rate] for clients in CLIENTS]
    draw('managed-rounds.svg', picture.lines(
        'Rounds a second: a choice, and its feedback in another transaction', [{
            'title': f'synchronous_commit = {commit}',
            'series': [{'name': 'INSERTs', 'points': points('mix', commit, 'INSERT')},
                       {'name': 'dexp3', 'points': points('mix', commit, 'dexp3')},
                       {'name': 'PL/pgSQL, one state row', 'points': points('mix', commit, 'PL/pgSQL')},
                       {'name': 'Python with dexp3', 'points': points('app', commit, 'dexp3')},
                       {'name': 'Python, one state row', 'points': points('app', commit, 'weights in a row')}]
        } for commit in ('on', 'off')],
        x={'title': 'clients', 'scale': 'log', 'ticks': list(CLIENTS)},
        y={'title': 'rounds a second', 'scale': 'log'}))

    def late(commit, who):
        return [[clients, results['mix', commit, clients][who][0].late / 1000] for clients in CLIENTS]
    draw('managed-latency.svg', picture.lines(
        'The slowest of 100 rounds', [{
            'title': f'synchronous_commit = {commit}',
            'series': [{'name': who, 'points': late(commit, who)} for who in ('INSERT', 'dexp3', 'PL/pgSQL')]
        } for commit in ('on', 'off')],
        x={'title': 'clients', 'scale': 'log', 'ticks': list(CLIENTS)},
        y={'title': '99th percentile, ms', 'scale': 'log'}))


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
    rounds = 10000 if settings.quick else 60000
    print_table(f'A round, 8 clients, `synchronous_commit` off, after {rounds:,} rounds with a transaction held open',
                'held open', '', 'of the INSERTs, before', 'of the INSERTs, after', 'ratio', '')

    def share(script, bandit):
        return compare([lambda: pgbench(floors.mix, 8, 'off'),
                        lambda: pgbench(script, 8, 'off', bandit=bandit)])[1][1]

    def row(held, who, script, bandit, isolation, statement, *arguments):
        before = share(script, bandit)
        holder = psycopg2.connect()
        holder.set_session(isolation_level=isolation)
        with holder.cursor() as cursor:
            cursor.execute(statement, arguments)
            pgbench(script, 8, 'off', transactions=rounds // 8, bandit=bandit)
            after = share(script, bandit)
        holder.close()
        print_row(held, who, f'{before:.2f}', f'{after:.2f}', f'{after / before:.2f}',
                  verdict(after / before, 0.7) if who == 'dexp3' else '')

    row('a snapshot', 'dexp3', 'mix.sql', new_bandit('snapshot'), 'REPEATABLE READ', 'SELECT count(*) FROM dexp3.bandit')
    row('a snapshot', 'PL/pgSQL', 'peer_mix.sql', 'peer', 'REPEATABLE READ', 'SELECT count(*) FROM peer.bandit')
    row('a choice', 'dexp3', 'mix.sql', new_bandit('writer'), 'READ COMMITTED',
        'SELECT bandit_choose(%s)', 'writer')


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


def measure_long_statements():
    """Compare the time of a choice in two long statements."""
    print_table("Many choices in one statement", '', '', 'microseconds a choice', '', 'microseconds a choice', 'ratio')

    def cost(function, arms, choices):
        bandit = new_bandit_of(arms)
        return sql(f'SELECT bench.{function}(%s, %s)', bandit, choices) * 1000 / choices

    def new_bandit_of(arms):
        name = f'long statement {next(numbers)}'
        sql('SELECT bandit_create(%s, bench.arms(%s))', name, arms)
        return name

    numbers = iter(range(1000000))
    for label, first, second in (
            ('more choices', ('choose_each', 10, 10000), ('choose_each', 10, 100000)),
            ('more arms', ('choose_each', 10, 10000), ('choose_each', 1000, 10000)),
            ('`bandit_choose_many`', ('choose_each', 10, 100000), ('choose_many', 10, 100000))):
        pairs = [(cost(*first), cost(*second)) for _ in range(settings.repetitions)]
        print_row(label, f'{first[1]:,} arms, {first[2]:,} choices', f'{statistics.median(a for a, _ in pairs):.1f}',
                  f'{second[1]:,} arms, {second[2]:,} choices', f'{statistics.median(b for _, b in pairs):.1f}',
                  f'{statistics.median(b / a for a, b in pairs):.2f}')


def main():
    global connection, settings

    parser = argparse.ArgumentParser()
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('pictures')
    settings = parser.parse_args()
    settings.repetitions = 1 if settings.quick else 5
    settings.seconds = 0.5 if settings.quick else 2.5
    settings.first_stock = 25000 if settings.quick else 75000
    connection = psycopg2.connect()
    connection.autocommit = True

    print('\n## Managed bandits under load')
    with tempfile.TemporaryDirectory() as directory:
        floors = Floors(directory)
        draw_throughput(measure_throughput(floors))
        print('\n![dexp3 as a share of the bare INSERTs](managed-floor.svg)')
        print('\n![Rounds a second](managed-rounds.svg)')
        print('\n![The slowest of 100 rounds](managed-latency.svg)')
        measure_growth(floors)
        measure_held(floors)
        measure_fresh_sessions()
        measure_long_statements()


if __name__ == '__main__':
    main()
