# shellcheck shell=bash
#
# instructions.sh: how many instructions the server executes for bandit_choose() and
# bandit_feedback(), for scripts/bench

bench_instructions()
{
	new_database
	sql -f bench/managed.sql
	quietly pg_ctl -D "$tmp/data" -w stop

	# Valgrind writes a file for each process, when that ends.
	as_user mkdir "$tmp/callgrind"
	as_user mv "$bindir/postgres" "$bindir/postgres.bin"
	as_user tee "$bindir/postgres" >/dev/null <<-SCRIPT
		#!/bin/sh
		exec valgrind --quiet --tool=callgrind --callgrind-out-file=$tmp/callgrind/%p "$bindir/postgres.bin" "\$@"
	SCRIPT
	as_user chmod +x "$bindir/postgres"
	serve -c autovacuum=off -c authentication_timeout=10min
	run env PGDATABASE="$database" PYTHONDONTWRITEBYTECODE=1 \
		"$python" bench/instructions.py "$tmp/callgrind"
	quietly pg_ctl -D "$tmp/data" -w -t 300 stop
	as_user mv "$bindir/postgres.bin" "$bindir/postgres"
	serve
}
