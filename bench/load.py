"""What managed.py, steady.py, shop.py and instructions.py share: taking slices by turns, the floor, tables.

They are programs for scripts/bench:

    managed.py|steady.py [--quick] [--open N] [--repetitions N] PICTURES

They print tables as Markdown, and write pictures into the given directory.  The server
and the database, with what managed.sql defines, are those of the environment.

A measurement is made of slices: a moment of the floor, one of dexp3, one of each peer, and
so on by turns.  Machines are faster at one moment than at another, so the turns are short.
"""

import argparse
import bisect
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

import psycopg2

HERE = os.path.dirname(os.path.abspath(__file__))

SLICE = 0.2     # seconds, of scripts that take turns

Slice = namedtuple('Slice', 'rate median late')     # a second; microseconds; their 99th percentile

parser = argparse.ArgumentParser()
parser.add_argument('--quick', action='store_true')
parser.add_argument('--open', type=int, help='how many decisions are open, where many are')
parser.add_argument('--repetitions', type=int, help='how many slices of each are taken by turns')
parser.add_argument('pictures', help='the directory for pictures')
settings = parser.parse_args()
settings.repetitions = settings.repetitions or (1 if settings.quick else 5)
settings.seconds = 0.5 if settings.quick else 2.5       # of a slice, of programs that take turns


def connect(database):
    made = psycopg2.connect(dbname=database)
    made.autocommit = True
    return made


original = os.environ['PGDATABASE']
connection = connect(original)


# ---------------------------------------------------------------------------
# Statements and slices
# ---------------------------------------------------------------------------

def sql(statement, *arguments):
    """Run a statement in a transaction of its own, and return its first value, if any."""
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments or None)
        return cursor.fetchone()[0] if cursor.description else None


def fresh_database():
    """Go on in a new copy of the database, where no measurement has left anything."""
    global connection

    connection.close()
    copy = f'{original}_copy'
    administration = connect('postgres')
    with administration.cursor() as cursor:
        cursor.execute(f'DROP DATABASE IF EXISTS {copy} WITH (FORCE)')
        cursor.execute(f'CREATE DATABASE {copy} TEMPLATE {original}')
    administration.close()
    os.environ['PGDATABASE'] = copy
    connection = connect(copy)


def new_bandit(name, arguments=''):
    """Make a bandit of ten arms, and return its name."""
    sql(f"SELECT bandit_create(%s, bench.arms(10){arguments})", name)
    return name


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


def command_of(script, clients, **variables):
    """Return the command that runs a script of bench/managed, or one of the floor's."""
    path = script if os.path.isabs(script) else os.path.join(HERE, 'managed', script)
    variables = {'clients': clients, 'looked': 0, **variables}
    command = ['pgbench', '-n', '-M', 'prepared', '-c', str(clients), '-j', '2', '-f', path]
    for name, value in variables.items():
        command += ['-D', f'{name}={value}']
    return command


class Pgbench:
    """A run of pgbench that has been started, and writes a log."""

    def __init__(self, command, commit):
        self.directory = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(command + ['-l', '--log-prefix', os.path.join(self.directory.name, 'log')],
                                        env={**os.environ, 'PGOPTIONS': f'-c synchronous_commit={commit}'},
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def transactions(self):
        """Wait for its end, and return its transactions."""
        output = self.process.communicate()[0]
        if self.process.returncode != 0:
            sys.exit(output)
        ended = read_logs(self.directory.name)
        self.directory.cleanup()
        return ended


def pgbench(script, clients, commit, warm_up=0.5, transactions=None, **variables):
    """Run a script, and return a slice.

    The first seconds, in which sessions fill their caches, do not count.
    """
    limit = ['-t', str(transactions)] if transactions else ['-T', str(math.ceil(warm_up + settings.seconds))]
    ended = Pgbench(command_of(script, clients, **variables) + limit, commit).transactions()
    start = min(end - duration for end, duration in ended) + warm_up * 1e6
    times = [duration for end, duration in ended if end >= start]
    if not times:       # the machine was so busy that connecting took the time
        return pgbench(script, clients, commit, warm_up, transactions, **variables)
    return of_times(len(times) / (max(ended)[0] - start) * 1e6, times)


def compare(variants):
    """Take slices of each variant, which are functions, by turns.

    Returns a list of (slice of medians, median ratio to the first variant's rate).
    """
    turns = [[variant() for variant in variants] for _ in range(settings.repetitions)]
    return [(Slice(*(statistics.median(turn[i][k] for turn in turns) for k in range(3))),
             statistics.median(turn[i].rate / turn[0].rate for turn in turns))
            for i in range(len(variants))]


def compare_scripts(scripts, clients, commit, warm_up):
    """Compare scripts, given with their variables, in slices of a fifth of a second.

    All of them are started, and then stopped by signals but for one, by turns: there and back, so that what
    changes in the course of time favours none.  What was under way when a script was stopped does not count.

    Returns a list of (slice over all turns, ratio to the first script's rate).
    """
    seconds = 4 * settings.repetitions * len(scripts) * SLICE
    limit = ['-T', str(math.ceil(warm_up + seconds))]
    runs = [Pgbench(command_of(script, clients, **variables) + limit, commit) for script, variables in scripts]
    time.sleep(warm_up)
    for run in runs:
        run.process.send_signal(signal.SIGSTOP)
    windows = [[] for _ in runs]
    for turn in range(4 * settings.repetitions):
        order = list(range(len(runs)))
        for i in order if turn % 2 == 0 else reversed(order):
            start = time.time()
            runs[i].process.send_signal(signal.SIGCONT)
            time.sleep(SLICE)
            runs[i].process.send_signal(signal.SIGSTOP)
            windows[i].append((start * 1e6, time.time() * 1e6))
    for run in runs:
        run.process.send_signal(signal.SIGCONT)
    slices = [slice_of(run.transactions(), window) for run, window in zip(runs, windows)]
    return [(taken, taken.rate / slices[0].rate) for taken in slices]


def slice_of(ended, windows):
    """Return the slice that is made of the transactions which have begun and ended in one of the windows."""
    starts = [start for start, _ in windows]
    times = []
    for end, duration in ended:
        i = bisect.bisect_right(starts, end) - 1
        if i >= 0 and end <= windows[i][1] and end - duration >= starts[i]:
            times.append(duration)
    return of_times(len(times) / sum(stop - start for start, stop in windows) * 1e6, times)


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


# ---------------------------------------------------------------------------
# The floor
# ---------------------------------------------------------------------------

class Floors:
    """The bare INSERTs: scripts for pgbench, made from real rows."""

    def __init__(self):
        decision = sql('SELECT bench.insert_decision()')
        feedback = sql("SELECT bench.insert_feedback('FROM bench.decision AS d WHERE d.decision_id = :decision_id')")
        skip = sql("SELECT bench.insert_feedback('FROM d', %s)",
                   '{"loss": null, "estimate": null, "probability": null}')
        of_many = sql("SELECT bench.insert_decision(':n')")
        one_of_many = '\\set n random(1, 1000)\n'
        share = '\\set decision_id :next + :client_id\n\\set next :next + :clients\n'
        self.directory = tempfile.TemporaryDirectory()
        self.decision = decision
        self.decision_by_turns = sql("SELECT bench.insert_decision('1 + mod(n, 1000)')")
        # A client that chooses must know what was chosen, and the decision's identifier for the feedback.
        returned = 'RETURNING decision_id, arm, probability'
        self.choose = self.write('choose', f'{decision} {returned};')
        self.choose_silently = self.write('choose_silently', f'{decision};')
        self.choose_and_skip = self.write('choose_and_skip', f'WITH d AS ({decision} RETURNING *), s AS ({skip})'
                                                             ' SELECT decision_id, arm, probability FROM d;')
        answered = "RETURNING 'applied'::text"
        self.feedback = self.write('feedback', f'{share}{feedback} {answered};')
        self.feedback_silently = self.write('feedback_silently', f'{share}{feedback};')
        self.trigger = self.write('trigger', f'{share}WITH p AS (INSERT INTO bench.purchase_floor (decision_id, loss)'
                                             f' VALUES (:decision_id, 0.5)) {feedback};')
        returning = f'{decision} RETURNING decision_id \\gset\n'
        self.mix = self.write('mix', f'{returning}{feedback} {answered};')
        self.many_choose = self.write('many_choose', f'{one_of_many}{of_many} {returned};')
        self.many_mix = self.write('many_mix', f'{one_of_many}{of_many} RETURNING decision_id \\gset\n{feedback} {answered};')
        # What expires has no row of its own.  Nobody knows in advance what will, so the identifier is always asked for.
        self.window_mix = self.write('window_mix', f'\\set n random(1, 5)\n{returning}\\if :n > 1\n{feedback} {answered};\n\\endif')
        self.silent_mix = self.write('silent_mix', f'\\set n random(1, 20)\n{returning}\\if :n = 1\n{feedback} {answered};\n\\endif')

    def write(self, name, text):
        path = os.path.join(self.directory.name, f'floor_{name}.sql')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text + '\n')
        return path
