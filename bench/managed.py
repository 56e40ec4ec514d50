#!/usr/bin/env python3
"""Measure managed bandits under load: throughput and latency; see load.py."""

import functools
import json
import os
import subprocess
import sys
import time

import picture
from load import (HERE, Floors, compare, compare_scripts, fresh_database, new_bandit, of_times, pgbench, print_row,
                  print_table, settings, sql, verdict)

CLIENTS = (1, 8, 32)
WANTED = 0.9        # of the floor
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
    """Decisions that feedback can be given to, more than anybody can settle in a measurement."""

    def __init__(self, floors):
        self.floors = floors
        self.first = None       # of the floor's last ones
        self.bandits = 0

    def size(self, commit):
        return (60000 if commit == 'on' else 150000) * (1 if settings.quick else 2)

    def floor(self, commit):
        return self.floor_of(self.floors.decision, commit)

    def floor_many(self, commit):
        return self.floor_of(self.floors.decision_by_turns, commit)

    def floor_of(self, decision, commit):
        self.first = sql(f'WITH d AS ({decision} FROM generate_series(1, %s) AS n RETURNING decision_id)'
                         ' SELECT min(decision_id) FROM d', 2 * self.size(commit))
        sql('VACUUM ANALYZE bench.decision')
        return self.first

    def second_half(self, clients, commit):
        """For a second script beside the floor's."""
        return {'next': self.first + self.size(commit)}

    def dexp3(self, commit):
        # Like those of the floor, its rows come to the right end of the indexes.
        self.bandits += 1
        bandit = new_bandit(f'patient {self.bandits}')
        first = sql('SELECT min(decision_id) FROM bandit_choose_many(%s, %s)', bandit, self.size(commit))
        sql('SELECT bandit_choose(%s)', bandit)     # which writes a checkpoint
        return first

    def dexp3_many(self, commit):
        first = sql('SELECT bench.choose_by_turns(%s)', self.size(commit))
        sql('SELECT bench.choose_by_turns(1000)')       # which writes checkpoints
        return first

    def peer(self, commit):
        size = self.size(commit)
        sql("UPDATE peer.bandit SET round = round + %s, outstanding = outstanding + %s WHERE name = 'peer'", size, size)
        return sql('WITH d AS (INSERT INTO peer.decision (bandit, round, arm, probability)'
                   " SELECT 'peer', n, 1, 0.1 FROM generate_series(1, %s) AS n RETURNING decision_id)"
                   ' SELECT min(decision_id) FROM d', size)

    def check(self, commit):
        """Where the floor has nothing left to settle, its statements do nothing."""
        if sql('SELECT count(*) FROM bench.feedback WHERE decision_id >= %s',
               self.first + 2 * self.size(commit) - 1000) > 0:
            sys.exit('there were too few decisions to settle')


def workloads(floors, stock):
    """Return what is measured: names, seconds to warm up, and variants as (who, script, variables).

    The variables are a function of clients and commit.
    """
    def with_bandit(script, arguments=''):
        return script, lambda clients, commit: {'bandit': new_bandit(f'{script}{arguments} {clients} {commit}', arguments)}

    def plain(script):
        return script, lambda clients, commit: {}

    def with_stock(script, make):
        return script, lambda clients, commit: {'next': make(commit)}

    many_warm_up = 3    # in which sessions look at the 1,000 bandits
    return (
        ('choose', 'A choice', 0.5, (
            ('INSERT', *plain(floors.choose)),
            ('INSERT again', *plain(floors.choose)),     # how much is noise
            ('dexp3', *with_bandit('choose.sql')),
            ('INSERT that returns nothing', *plain(floors.choose_silently)),
            ('PL/pgSQL', *plain('peer_choose.sql')))),
        ('feedback', 'Feedback', 0.5, (
            ('INSERT', *with_stock(floors.feedback, stock.floor)),
            ('dexp3', *with_stock('feedback.sql', stock.dexp3)),
            ('INSERT that returns nothing', floors.feedback_silently, stock.second_half),
            ('PL/pgSQL', *with_stock('peer_feedback.sql', stock.peer)))),
        ('trigger', 'Feedback by a trigger: a row of the application, which settles a decision', 0.5, (
            ('INSERT', *with_stock(floors.trigger, stock.floor)),
            ('dexp3', *with_stock('trigger.sql', stock.dexp3)),
            ('PL/pgSQL', *with_stock('peer_trigger.sql', stock.peer)))),
        ('mix', 'A round: a choice, and its feedback in another transaction', 0.5, (
            ('INSERT', *plain(floors.mix)),
            ('dexp3', *with_bandit('mix.sql')),
            ('PL/pgSQL', *plain('peer_mix.sql')))),
        ('many choose', 'A choice of one of 1,000 bandits', many_warm_up, (
            ('INSERT', *plain(floors.many_choose)),
            ('dexp3', *plain('many_choose.sql')))),
        ('many feedback', 'Feedback for 1,000 bandits by turns', many_warm_up, (
            ('INSERT', *with_stock(floors.feedback, stock.floor_many)),
            ('dexp3', *with_stock('many_feedback.sql', stock.dexp3_many)))),
        ('many', 'A round of one of 1,000 bandits', many_warm_up, (
            ('INSERT', *plain(floors.many_mix)),
            ('dexp3', *plain('many_mix.sql')),
            ('PL/pgSQL', *plain('peer_many_mix.sql')))),
        ('skips', 'A choice of a bandit with skipping that gets no feedback at all, so that most choices also'
                  ' give up an old one', 0.5, (
            ('INSERT of both rows', *plain(floors.choose_and_skip)),
            ('dexp3', *with_bandit('choose.sql', ", 'dada'")))),
        ('silent', 'A choice of a bandit with a `feedback_window`; one in twenty decisions gets feedback, the others'
                   ' expire', 0.5, (
            ('INSERT', *plain(floors.silent_mix)),
            ('dexp3', *with_bandit('silent_mix.sql', WINDOW)),
            ('dexp3 without a window', *with_bandit('silent_mix.sql')))),
        ('window', 'A round of a bandit with a `feedback_window`; one in five decisions expires', 0.5, (
            ('INSERT', *plain(floors.window_mix)),
            ('dexp3', *with_bandit('window_mix.sql', WINDOW)))),
    )


def print_results(results, commit, clients, judged):
    for who, (taken, ratio) in results.items():
        print_row(commit, clients, who, f'{taken.rate:,.0f}', f'{taken.median / 1000:.2f}', f'{taken.late / 1000:.2f}',
                  f'{ratio:.2f}', verdict(ratio, WANTED) if judged and who == 'dexp3' else '')


def measure_throughput(floors):
    """Measure all workloads; return the results by workload, commit and clients."""
    results = {}
    stock = Stock(floors)
    columns = ('`synchronous_commit`', 'clients', '', 'a second', 'median, ms', '99 %, ms')
    for name, title, warm_up, variants in workloads(floors, stock):
        fresh_database()
        print_table(title, *columns, f'of {variants[0][0]}', '')
        for commit in ('on', 'off'):
            for clients in CLIENTS:
                scripts = [(script, variables(clients, commit)) for _, script, variables in variants]
                compared = compare_scripts(scripts, clients, commit, warm_up)
                if 'next' in scripts[0][1]:
                    stock.check(commit)
                results[name, commit, clients] = {who: r for (who, _, _), r in zip(variants, compared)}
                print_results(results[name, commit, clients], commit, clients, True)

    fresh_database()
    learners = {'weights in a row': 'weights', 'dexp3': 'dexp3'}
    print_table('A round of an application in Python', *columns, 'of weights in a row', '')
    for commit in ('on', 'off'):
        for clients in CLIENTS:
            compared = compare([functools.partial(app, learner, clients, commit) for learner in learners.values()])
            results['app', commit, clients] = dict(zip(learners, compared))
            print_results(results['app', commit, clients], commit, clients, False)
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
