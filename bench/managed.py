#!/usr/bin/env python3
"""Measure managed bandits under load: throughput and latency; see load.py."""

import json
import os
import subprocess
import sys
import time

import picture
from load import (HERE, Floors, compare, new_bandit, of_times, pgbench, print_row, print_table, settings, sql,
                  verdict)

CLIENTS = (1, 8, 32)
WANTED = 0.9        # of the floor
SELDOM = ('PL/pgSQL', 'INSERT that returns nothing', 'dexp3 without a window')    # they show much, or are not judged
WANTED_OF_PEER = 5  # times the PL/pgSQL peer, of the mix with 8 clients
WANTED_SIZE = 1.2   # times what the log takes without a window

# Short enough for decisions to expire as fast as they are made when a slice begins
WINDOW = ", feedback_window => '250 ms'"


def app(learner, clients, commit):
    """Run the application in Python."""
    done = subprocess.run([sys.executable, os.path.join(HERE, 'app.py'), learner, str(clients), str(settings.seconds)],
                          env={**os.environ, 'PGOPTIONS': f'-c synchronous_commit={commit}'},
                          stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout)
    return of_times(result['rounds'] / result['seconds'], result['times'])


class Stock:
    """Decisions that feedback can be given to."""

    def __init__(self, floors):
        self.floors = floors
        self.size = 0

    def grow_with(self, taken, warm_up):
        """Have enough for a slice at this rate and its first seconds, even if this slice was a slow one.

        Where each commit waits for the disk, the next one may be many times as fast.
        """
        self.size = max(self.size, int(3 * taken.rate * (settings.seconds + warm_up)) + 25000)
        return taken

    def floor(self):
        return self.floor_of(self.floors.decision)

    def floor_many(self):
        return self.floor_of(self.floors.decision_by_turns)

    def floor_of(self, decision):
        sql('TRUNCATE bench.decision, bench.feedback, bench.purchase_floor')
        sql('ALTER SEQUENCE bench.decision_id RESTART')
        sql(f'{decision} FROM generate_series(1, %s) AS n', max(self.size, 25000 if settings.quick else 75000))
        sql('VACUUM ANALYZE bench.decision')
        return 1

    def dexp3(self):
        first = sql("SELECT min(decision_id) FROM bandit_choose_many('patient', %s)", self.size)
        sql("SELECT bandit_choose('patient')")      # which writes a checkpoint
        return first

    def dexp3_many(self):
        first = sql('SELECT bench.choose_by_turns(%s)', self.size)
        sql('SELECT bench.choose_by_turns(1000)')       # which writes checkpoints
        return first

    def peer(self):
        sql("UPDATE peer.bandit SET round = round + %s, outstanding = outstanding + %s WHERE name = 'peer'",
            self.size, self.size)
        return sql('WITH d AS (INSERT INTO peer.decision (bandit, round, arm, probability)'
                   " SELECT 'peer', n, 1, 0.1 FROM generate_series(1, %s) AS n RETURNING decision_id)"
                   ' SELECT min(decision_id) FROM d', self.size)


def workloads(floors, stock):
    """Return what is measured: names, and variants as (who, function of clients and commit)."""
    def with_bandit(script, arguments=''):
        def prepare(clients, commit):
            bandit = new_bandit(f'{script}{arguments} {clients} {commit}', arguments)
            return lambda: pgbench(script, clients, commit, bandit=bandit)
        return prepare

    def plain(script, **arguments):
        return lambda clients, commit: lambda: pgbench(script, clients, commit, **arguments)

    def with_stock(script, make, warm_up=0.5):
        return lambda clients, commit: lambda: pgbench(script, clients, commit, warm_up, next=make())

    def floor_with_stock(script, make, warm_up=0.5):
        """The warm-up is that of the others, who need as many decisions."""
        return lambda clients, commit: lambda: stock.grow_with(pgbench(script, clients, commit, next=make()), warm_up)

    def of_app(learner):
        return lambda clients, commit: lambda: app(learner, clients, commit)

    # in which sessions look at the 1,000 bandits
    many_warm_up = 1.5

    return (
        ('choose', 'A choice', (
            ('INSERT', plain(floors.choose)),
            ('INSERT again', plain(floors.choose)),     # how much is noise
            ('dexp3', with_bandit('choose.sql')),
            ('INSERT that returns nothing', plain(floors.choose_silently)),
            ('PL/pgSQL', plain('peer_choose.sql')))),
        ('feedback', 'Feedback', (
            ('INSERT', floor_with_stock(floors.feedback, stock.floor)),
            ('dexp3', with_stock('feedback.sql', stock.dexp3)),
            ('PL/pgSQL', with_stock('peer_feedback.sql', stock.peer)))),
        ('trigger', 'Feedback by a trigger: a row of the application, which settles a decision', (
            ('INSERT', floor_with_stock(floors.trigger, stock.floor)),
            ('dexp3', with_stock('trigger.sql', stock.dexp3)),
            ('PL/pgSQL', with_stock('peer_trigger.sql', stock.peer)))),
        ('mix', 'A round: a choice, and its feedback in another transaction', (
            ('INSERT', plain(floors.mix)),
            ('dexp3', with_bandit('mix.sql')),
            ('PL/pgSQL', plain('peer_mix.sql')))),
        ('many choose', 'A choice of one of 1,000 bandits', (
            ('INSERT', plain(floors.many_choose)),
            ('dexp3', plain('many_choose.sql', warm_up=many_warm_up)))),
        ('many feedback', 'Feedback for 1,000 bandits by turns', (
            ('INSERT', floor_with_stock(floors.feedback, stock.floor_many, many_warm_up)),
            ('dexp3', with_stock('many_feedback.sql', stock.dexp3_many, many_warm_up)))),
        ('many', 'A round of one of 1,000 bandits', (
            ('INSERT', plain(floors.many_mix)),
            ('dexp3', plain('many_mix.sql', warm_up=many_warm_up)),
            ('PL/pgSQL', plain('peer_many_mix.sql')))),
        ('skips', 'A choice of a bandit with skipping that gets no feedback at all, so that most choices also'
                  ' give up an old one', (
            ('INSERT of both rows', plain(floors.choose_and_skip)),
            ('dexp3', with_bandit('choose.sql', ", 'dada'")))),
        ('silent', 'A choice of a bandit with a `feedback_window`; one in twenty decisions gets feedback, the others'
                   ' expire', (
            ('INSERT', plain(floors.silent_mix)),
            ('dexp3', with_bandit('silent_mix.sql', WINDOW)),
            ('dexp3 without a window', with_bandit('silent_mix.sql')))),
        ('window', 'A round of a bandit with a `feedback_window`; one in five decisions expires', (
            ('INSERT', plain(floors.window_mix)),
            ('dexp3', with_bandit('window_mix.sql', WINDOW)))),
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
                result = compare([prepare(clients, commit) for _, prepare in variants],
                                 [i for i, (who, _) in enumerate(variants) if who in SELDOM])
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


def log_size():
    return sql("SELECT sum(pg_total_relation_size(format('dexp3.%s_rows', t)::regclass))::bigint"
               " FROM unnest(ARRAY['decision', 'feedback', 'expiry']) AS t")


def measure_size():
    """Measure how much the log grows by silent decisions."""
    transactions = 2000 if settings.quick else 20000
    print_table('Bytes a round, if one in twenty decisions gets feedback', '', 'bytes', 'of those without a window', '')
    without = None
    for name, arguments in (('without a window', ''), ('with one, after which the others expire', WINDOW)):
        bandit = new_bandit(f'size {name}', arguments)
        before = log_size()
        pgbench('silent_mix.sql', 8, 'off', warm_up=0, transactions=transactions, bandit=bandit)
        time.sleep(0.5)
        sql('SELECT bandit_expire(%s)', bandit)
        size = (log_size() - before) / (8 * transactions)
        without = without or size
        print_row(name, f'{size:.0f}', f'{size / without:.2f}',
                  f'at most {WANTED_SIZE}: {"ok" if round(size / without, 2) <= WANTED_SIZE else "MISSED"}')


def draw(name, svg):
    with open(os.path.join(settings.pictures, name), 'w', encoding='utf-8') as file:
        file.write(svg)


def draw_throughput(results):
    names = {'choose': 'choice', 'feedback': 'feedback', 'trigger': 'trigger', 'mix': 'round', 'many': '1,000 bandits',
             'window': 'window', 'silent': 'silent'}
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
        y={'title': 'rounds a second', 'scale': 'log', 'range': [200, 20000]}))

    def late(commit, who):
        return [[clients, results['mix', commit, clients][who][0].late / 1000] for clients in CLIENTS]
    draw('managed-latency.svg', picture.lines(
        'The slowest of 100 rounds', [{
            'title': f'synchronous_commit = {commit}',
            'series': [{'name': who, 'points': late(commit, who)} for who in ('INSERT', 'dexp3', 'PL/pgSQL')]
        } for commit in ('on', 'off')],
        x={'title': 'clients', 'scale': 'log', 'ticks': list(CLIENTS)},
        y={'title': '99th percentile, ms', 'scale': 'log', 'range': [0.5, 200]}))


def main():
    print('\n## Managed bandits under load')
    results = measure_throughput(Floors())
    measure_size()
    draw_throughput(results)
    print('\n![dexp3 as a share of the bare INSERTs](managed-floor.svg)')
    print('\n![Rounds a second](managed-rounds.svg)')
    print('\n![The slowest of 100 rounds](managed-latency.svg)')


if __name__ == '__main__':
    main()
