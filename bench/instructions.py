#!/usr/bin/env python3
"""Count the instructions that the server executes for a transaction; see load.py.

    instructions.py DIRECTORY

The server runs under Valgrind's tool callgrind, which writes to the directory how many
instructions each process has executed, when it ends.  A transaction's are the difference
between a session with many transactions and one with fewer, divided by their number.
What the kernel and the client do is not counted, nor waiting: there is one client.
"""

import glob
import os
import time

from load import Floors, new_bandit, pgbench, print_row, print_table, settings, sql, verdict

WANTED = 0.9        # of the floor

# Valgrind is slow: as many decisions shall expire together as do in service
WINDOW = ", feedback_window => '3 s'"


def counted():
    """Return the instructions of all processes that have ended, by file."""
    totals = {}
    for name in glob.glob(os.path.join(settings.pictures, '*')):
        with open(name, encoding='utf-8', errors='replace') as file:
            for line in file:
                if line.startswith('totals:'):
                    totals[name] = int(line.split()[1])
    return totals


def instructions(script, transactions, **variables):
    """Run a script, and return the instructions of its sessions."""
    before = counted()
    pgbench(script, 1, 'off', warm_up=0, transactions=transactions, **variables)
    # The session has ended for the client, and writes its file.
    after = counted()
    while True:
        time.sleep(1)
        last, after = after, counted()
        if after == last and len(after) > len(before):
            return sum(after[name] for name in after.keys() - before.keys())


def of_transaction(script, first, more, stock=None, **variables):
    """Return the instructions of a transaction, after so many others, from so many more.

    What is done only once, such as adding up the log of a bandit, is done in a session that does not count.
    """
    _, few, many = (instructions(script, n, **variables, **({'next': stock(n)} if stock else {}))
                    for n in (1, first, first + more))
    return (many - few) / more


def decisions_of_dexp3(n):
    first = sql("SELECT min(decision_id) FROM bandit_choose_many('patient', %s)", n)
    sql("SELECT bandit_choose('patient')")      # which writes a checkpoint
    return first


def main():
    floors = Floors()

    def decisions_of_floor(n):
        sql('TRUNCATE bench.decision, bench.feedback, bench.purchase_floor')
        sql('ALTER SEQUENCE bench.decision_id RESTART')
        sql(f'{floors.decision} FROM generate_series(1, %s) AS n', n)
        sql('VACUUM ANALYZE bench.decision')
        return 1

    # Before they are counted, enough decisions have been made for some to be skipped or to expire.
    few, long = (500, 2000), (4000, 6000)
    print('\n## Instructions')
    print_table('Instructions of the server for a transaction, one client, `synchronous_commit` off', '', 'INSERT',
                'dexp3', 'share', '')
    for title, floor, script, (first, more), floor_stock, stock, arguments in (
            ('a choice', floors.choose, 'choose.sql', few, None, None, ''),
            ('feedback', floors.feedback, 'feedback.sql', few, decisions_of_floor, decisions_of_dexp3, None),
            ('feedback by a trigger', floors.trigger, 'trigger.sql', few, decisions_of_floor, decisions_of_dexp3, None),
            ('a round', floors.mix, 'mix.sql', few, None, None, ''),
            ('a choice of one of 1,000 bandits', floors.many_choose, 'many_choose.sql', few, None, None, None),
            ('a round of one of 1,000 bandits', floors.many_mix, 'many_mix.sql', few, None, None, None),
            ('a choice that also skips another one', floors.choose_and_skip, 'choose.sql', few, None, None, ", 'dada'"),
            ('a choice with a window, after which 19 of 20 expire', floors.silent_mix, 'silent_mix.sql', long, None, None,
             WINDOW),
            ('a round with a window, after which 1 in 5 expires', floors.window_mix, 'window_mix.sql', long, None, None,
             WINDOW)):
        variables = {} if arguments is None else {'bandit': new_bandit(title, arguments)}
        of_floor = of_transaction(floor, first, more, floor_stock)
        of_dexp3 = of_transaction(script, first, more, stock, **variables)
        print_row(title, f'{of_floor:,.0f}', f'{of_dexp3:,.0f}', f'{of_floor / of_dexp3:.2f}',
                  verdict(of_floor / of_dexp3, WANTED))


if __name__ == '__main__':
    main()
