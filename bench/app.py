#!/usr/bin/env python3
"""An application that plays rounds: a choice, and its feedback in a transaction of its own.

    app.py weights|dexp3 CLIENTS SECONDS

"weights" is what one would write without dexp3: "dada" without skipping, in the
application, with the weights in a row of the database that every round locks, twice.
"dexp3" calls bandit_choose and bandit_feedback instead.  Each client is a process with a
connection of its own.  Prints a JSON object: the number of rounds, the seconds that they
took, and the microseconds of each round.
"""

import json
import math
import multiprocessing
import random
import sys
import time

import psycopg2


class Weights:
    """The learner in the application."""

    def __init__(self, connection):
        self.connection = connection
        self.cursor = connection.cursor()

    def choose(self):
        self.cursor.execute("SELECT arms, round, outstanding, cumulative_delay, z"
                            " FROM peer.bandit WHERE name = 'app' FOR UPDATE")
        arms, round_, outstanding, cumulative_delay, z = self.cursor.fetchone()
        round_ += 1
        cumulative_delay += outstanding
        eta = math.sqrt(math.log(len(arms)) / (round_ * len(arms) + cumulative_delay))
        least = min(z)
        weights = [math.exp(-eta * (value - least)) for value in z]
        arm = random.choices(range(len(arms)), weights)[0]
        self.cursor.execute("UPDATE peer.bandit SET round = %s, outstanding = %s, cumulative_delay = %s"
                            " WHERE name = 'app'", (round_, outstanding + 1, cumulative_delay))
        self.cursor.execute("INSERT INTO peer.decision (bandit, round, arm, probability)"
                            " VALUES ('app', %s, %s, %s) RETURNING decision_id",
                            (round_, arm + 1, weights[arm] / sum(weights)))
        decision_id = self.cursor.fetchone()[0]
        self.connection.commit()
        return decision_id

    def feedback(self, decision_id, loss):
        self.cursor.execute("SELECT arm, probability FROM peer.decision WHERE decision_id = %s", (decision_id,))
        arm, probability = self.cursor.fetchone()
        self.cursor.execute("INSERT INTO peer.feedback (decision_id, loss) VALUES (%s, %s)"
                            " ON CONFLICT DO NOTHING", (decision_id, loss))
        if self.cursor.rowcount == 1:
            self.cursor.execute("UPDATE peer.bandit SET outstanding = outstanding - 1, z[%s] = z[%s] + %s"
                                " WHERE name = 'app'", (arm, arm, loss / probability))
        self.connection.commit()


class Dexp3:
    """The learner in the database."""

    def __init__(self, connection):
        connection.autocommit = True
        self.cursor = connection.cursor()

    def choose(self):
        self.cursor.execute("SELECT decision_id, arm FROM bandit_choose('app')")
        return self.cursor.fetchone()[0]

    def feedback(self, decision_id, loss):
        self.cursor.execute("SELECT bandit_feedback(%s, %s)", (decision_id, loss))


start = None    # in each client's process: the barrier at which all of them start


def set_start(barrier):
    global start
    start = barrier


def play(learner_class, seconds):
    """Play for some seconds after all have started; return how long, and each round's time."""
    learner = learner_class(psycopg2.connect())
    learner.feedback(learner.choose(), 0.5)
    start.wait(timeout=60)
    times = []
    now = begin = time.perf_counter()
    while now < begin + seconds:
        learner.feedback(learner.choose(), random.randint(0, 1))
        before, now = now, time.perf_counter()
        times.append(round((now - before) * 1e6))
    return now - begin, times


def main():
    learner_class = {'weights': Weights, 'dexp3': Dexp3}[sys.argv[1]]
    clients, seconds = int(sys.argv[2]), float(sys.argv[3])
    with multiprocessing.Pool(clients, set_start, (multiprocessing.Barrier(clients),)) as pool:
        results = pool.starmap(play, [(learner_class, seconds)] * clients, chunksize=1)
    times = [t for _, ts in results for t in ts]
    print(json.dumps({'rounds': len(times), 'seconds': max(s for s, _ in results), 'times': times}))


if __name__ == '__main__':
    main()
