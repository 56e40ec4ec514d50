#!/usr/bin/env python3
"""Measure the processor time of a round on a server that shares a bandit with others.

    servers.py [--quick] [--repetitions N] DIRECTORY

It makes four servers in the given directory, with the PostgreSQL in PATH.  The first one
has the load; the others, its peers, make a few decisions, so that each of them publishes
every second.  Measured is the processor time of all processes of the first server, be it
for its rounds, for replication or for those who pull from it.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
import time

import psycopg2

parser = argparse.ArgumentParser()
parser.add_argument('--quick', action='store_true')
parser.add_argument('--repetitions', type=int)
parser.add_argument('directory')
settings = parser.parse_args()
settings.repetitions = settings.repetitions or (1 if settings.quick else 5)
settings.seconds = 3 if settings.quick else 12

PEERS = 3
TICKS = os.sysconf('SC_CLK_TCK')
ROUND = """SELECT decision_id FROM bandit_choose('b') \\gset
SELECT bandit_feedback(:decision_id, 0.5);
"""


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Server:
    """A server of its own, as one would be in service."""

    def __init__(self, number):
        self.number = number
        self.data = os.path.join(settings.directory, f'data{number}')
        run('initdb', '-D', self.data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C.UTF-8')
        self.address = {'host': settings.directory, 'port': 6000 + number}
        options = (f'-k {settings.directory} -p {self.address["port"]} -c listen_addresses= -c wal_level=logical -c jit=off'
                   ' -c shared_buffers=64MB -c max_wal_size=4GB -c checkpoint_timeout=1h -c autovacuum=off')
        run('pg_ctl', '-D', self.data, '-l', self.data + '.log', '-w', '-o', options, 'start')
        self.connection = psycopg2.connect(dbname='postgres', user='postgres', **self.address)
        self.connection.autocommit = True
        self.sql('CREATE EXTENSION dexp3; CREATE EXTENSION postgres_fdw')
        self.sql(f"SELECT bandit_node({number}); SELECT bandit_create('b', ARRAY(SELECT i::text FROM generate_series(1, 10) i))")
        self.sql(f"SELECT bandit_share('b'); CREATE PUBLICATION dexp3 FOR TABLE dexp3.component WHERE (node = {number})"
                 " WITH (publish = 'insert')")

    def sql(self, statement):
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchone()[0] if cursor.description else None

    def stop(self):
        self.connection.close()
        run('pg_ctl', '-D', self.data, '-m', 'fast', 'stop')

    def connect_to(self, other):
        """Make a foreign server, and a foreign table that stays."""
        self.sql(f"""CREATE SERVER s{other.number} FOREIGN DATA WRAPPER postgres_fdw
                         OPTIONS (host '{settings.directory}', port '{other.address["port"]}', dbname 'postgres');
                     CREATE USER MAPPING FOR postgres SERVER s{other.number} OPTIONS (user 'postgres');
                     CREATE SCHEMA on_s{other.number};
                     IMPORT FOREIGN SCHEMA dexp3 LIMIT TO (component) FROM SERVER s{other.number} INTO on_s{other.number}""")

    def subscribe_to(self, other):
        self.sql(f"""CREATE SUBSCRIPTION from_{other.number}_to_{self.number} CONNECTION 'host={settings.directory}
                         port={other.address["port"]} dbname=postgres user=postgres' PUBLICATION dexp3""")

    def unsubscribe_from(self, other):
        self.sql(f'DROP SUBSCRIPTION from_{other.number}_to_{self.number}')

    def pgbench(self, script, *options):
        return subprocess.Popen(['pgbench', '--no-vacuum', '-U', 'postgres', '-h', settings.directory,
                                 '-p', str(self.address['port']), '-f', script, *options, 'postgres'],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def sessions(self):
        return self.sql("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")

    def processor_time(self):
        """Return the seconds that all processes of the server have had, those that have ended included."""
        with open(os.path.join(self.data, 'postmaster.pid'), encoding='ascii') as file:
            postmaster = int(file.readline())
        total = 0
        for process in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open(f'/proc/{process}/stat', encoding='ascii') as file:
                    fields = file.read().rpartition(')')[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(process) == postmaster:
                total += sum(map(int, fields[11:15]))
            elif int(fields[1]) == postmaster:
                total += sum(map(int, fields[11:13]))
        return total / TICKS


def measure(servers, script, pulls):
    """Return the microseconds of processor time of a round on the first server."""
    first = servers[0]
    sessions = first.sessions()
    others = [peer.pgbench(script, '--rate=20', f'--time={settings.seconds + 2}') for peer in servers[1:]]
    others += [server.pgbench(pull, '--rate=1', f'--time={settings.seconds + 2}') for server, pull in pulls]
    time.sleep(1)
    before = first.processor_time()
    output = first.pgbench(script, '--client=2', f'--time={settings.seconds}').communicate()[0]
    rounds = int(output.partition('actually processed: ')[2].split('/')[0].split()[0])
    for process in others:
        process.wait()
    # a process that ends while the times are read would be missed
    while first.sessions() > sessions:
        time.sleep(0.1)
    time.sleep(1)
    return (first.processor_time() - before) / rounds * 1e6


def main():
    os.makedirs(settings.directory, exist_ok=True)
    servers = [Server(number) for number in range(PEERS + 1)]
    first, peers = servers[0], servers[1:]
    with tempfile.TemporaryDirectory() as scripts:
        def write(name, text):
            path = os.path.join(scripts, name)
            with open(path, 'w', encoding='ascii') as file:
                file.write(text)
            return path

        script = write('round.sql', ROUND)
        for peer in peers:
            first.connect_to(peer)
            peer.connect_to(first)
        first.sql("ALTER SYSTEM SET synchronous_commit = off")
        first.sql('SELECT pg_reload_conf()')

        def alone():
            first.sql("SELECT bandit_share('b', false)")
            result = measure([first], script, [])
            first.sql("SELECT bandit_share('b')")
            return result

        def replicated(n):
            for peer in peers[:n]:
                first.subscribe_to(peer)
                peer.subscribe_to(first)
            result = measure([first, *peers[:n]], script, [])
            for peer in peers[:n]:
                first.unsubscribe_from(peer)
                peer.unsubscribe_from(first)
            return result

        def pulled(n):
            mine = write('pull.sql', ''.join(f"SELECT bandit_pull('s{peer.number}');\n" for peer in peers[:n]))
            theirs = write('pull_first.sql', "SELECT bandit_pull('s0');\n")
            return measure([first, *peers[:n]], script, [(first, mine)] + [(peer, theirs) for peer in peers[:n]])

        variants = [('not shared', 0, alone),
                    ('shared, no peers', 0, lambda: measure([first], script, [])),
                    ('logical replication', 1, lambda: replicated(1)), ('logical replication', 3, lambda: replicated(3)),
                    ('postgres_fdw', 1, lambda: pulled(1)), ('postgres_fdw', 3, lambda: pulled(3))]
        turns = [[variant() for _, _, variant in variants] for _ in range(settings.repetitions)]

    print('\n### Processor time of a round\n')
    print('A choice and its feedback, two clients, 10 arms, `synchronous_commit` off. All processes of the server are'
          ' counted.\nThe last column is a computation, not a measurement: how many times the rounds of one server so many'
          ' servers can do,\nif the time of each round grows by as much for each peer.\n')
    print('| | peers | microseconds a round | beyond a server that shares nothing | servers together |')
    print('|---|---|---|---|---|')
    base = statistics.median(turn[0] for turn in turns)
    for i, (name, n, _) in enumerate(variants):
        cost = statistics.median(turn[i] for turn in turns)
        print(f'| {name} | {n} | {cost:.0f} | {cost - base:+.0f} | {(n + 1) * base / cost:.2f} |')
    for server in servers:
        server.stop()


main()
