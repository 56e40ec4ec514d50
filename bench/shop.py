#!/usr/bin/env python3
"""A day in a shop, for scripts/bench: how many visitors buy if a managed bandit chooses what they see?

    shop.py [--quick] [--repetitions N] PICTURES

There are four texts for a button, with which 5, 6, 7 and 8% of the visitors buy.  Eight
sessions serve 100,000 visitors, one transaction for each.  An order comes in some time
after its visitor, at most after half the feedback window; that there is none is known
only when the window has passed.  The window is given in visitors: how long that takes is
measured before each day.
"""

import multiprocessing
import statistics

import psycopg2

from load import print_row, print_table, settings, sql

WORKERS = 8
RATES = (0.05, 0.06, 0.07, 0.08)

SERVE = """
CREATE TABLE bench.day (bandit text, visitors bigint, orders bigint, late bigint, opened timestamptz, closed timestamptz);

-- Serve so many visitors.  Orders wait in a queue, sorted by the visitor after whom they come in.
CREATE PROCEDURE bench.serve(bandit text, visitors integer, latest integer, rates float8[])
    LANGUAGE plpgsql
AS $$
DECLARE
    queue bigint[] := array_fill(NULL::bigint, ARRAY[latest]);
    orders integer := 0;
    late integer := 0;
    opened timestamptz := clock_timestamp();
    place integer;
    chosen record;
BEGIN
    FOR i IN 1 .. visitors LOOP
        SELECT c.decision_id, c.arm INTO chosen FROM bandit_choose(bandit) AS c;
        IF random() < rates[chosen.arm::integer] THEN
            orders := orders + 1;
            place := 1 + (i + floor(random() * latest)::integer) % latest;
            -- two at the same place: the first comes in now
            IF queue[place] IS NOT NULL THEN
                late := late + (bandit_reward(queue[place], 1) = 'expired')::integer;
            END IF;
            queue[place] := chosen.decision_id;
        END IF;
        place := 1 + i % latest;
        IF queue[place] IS NOT NULL THEN
            late := late + (bandit_reward(queue[place], 1) = 'expired')::integer;
            queue[place] := NULL;
        END IF;
        COMMIT;
    END LOOP;
    INSERT INTO bench.day VALUES (bandit, visitors, orders, late, opened, clock_timestamp());
END;
$$;
"""


def serve(bandit, visitors, latest):
    session = psycopg2.connect(options='-c synchronous_commit=off')
    session.autocommit = True
    with session.cursor() as cursor:
        cursor.execute('CALL bench.serve(%s, %s, %s, %s)', (bandit, visitors, latest, list(RATES)))
    session.close()


def day(bandit, visitors, window_visitors, arguments):
    """Serve so many visitors, and return how many of 100,000 would have bought, and what else there is to tell."""
    def new(name, seconds):
        sql(f"SELECT bandit_create(%s, '{{1,2,3,4}}', feedback_window => make_interval(secs => %s){arguments})", name,
            seconds)

    def run(name, n):
        workers = [multiprocessing.Process(target=serve, args=(name, n // WORKERS, window_visitors // WORKERS // 2))
                   for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return sql('SELECT extract(epoch FROM max(closed) - min(opened))::float8 / sum(visitors)::float8 FROM bench.day'
                   ' WHERE bandit = %s', name)

    new(f'{bandit} before', 0.1)
    new(bandit, run(f'{bandit} before', visitors) * window_visitors)
    run(bandit, visitors)
    orders = sql('SELECT sum(orders)::float8 * 100000 / sum(visitors) FROM bench.day WHERE bandit = %s', bandit)
    late = sql('SELECT sum(late)::float8 / sum(orders)::float8 FROM bench.day WHERE bandit = %s', bandit)
    waiting = sql('SELECT avg(outstanding)::float8 FROM dexp3.decision JOIN dexp3.bandit USING (bandit_id)'
                  ' WHERE name = %s', bandit)
    best = sql("SELECT probability FROM bandit_probabilities(%s) WHERE arm = '4'", bandit)
    return orders, waiting, best, late


def main():
    visitors = 10000 if settings.quick else 100000
    days = settings.repetitions
    sql(SERVE)
    print(f"""
## A day in a shop

{visitors:,} visitors, {WORKERS} sessions, four button texts with which 5, 6, 7 and 8% of the visitors buy. An order comes in some
time after the visit, at most after half the window; that there is none is known when the `feedback_window` has passed.
A window of 1,500 visitors is as long as it takes to serve so many. Showing all texts alike would bring 6,500 orders in
100,000 visitors, and always showing the best one 8,000. The figures are means of {days} such days, with the lowest and the highest.""")
    print_table('Orders in 100,000 visitors', 'bandit', 'window, in visitors', 'orders', 'lowest', 'highest',
                'open decisions, on average', 'probability of the best text at the end', 'orders after the window', '')
    for label, arguments, wanted in (('default', '', {1500: 7500, 5000: 7350}), ("`dada`", ", algorithm => 'dada'", {})):
        for window in (1500, 5000):
            results = [day(f'{label} {window} {n}', visitors, window, arguments) for n in range(days)]
            orders = [r[0] for r in results]
            mean = statistics.mean(orders)
            verdict = ''
            if window in wanted:
                verdict = f'at least {wanted[window]:,}: {"ok" if mean >= wanted[window] else "MISSED"}'
            print_row(label, f'{window:,}', f'{mean:,.0f}', f'{min(orders):,.0f}', f'{max(orders):,.0f}',
                      f'{statistics.mean(r[1] for r in results):,.0f}', f'{statistics.mean(r[2] for r in results):.2f}',
                      f'{statistics.mean(r[3] for r in results):.1%}', verdict)


if __name__ == '__main__':
    main()
