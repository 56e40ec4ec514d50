# shellcheck shell=bash
#
# managed.sh: bandit_choose() and bandit_feedback() under load, in the long run, and in
# a shop, for scripts/bench

# measure PROGRAM: run a program of bench in a database with what it needs.
measure()
{
	local arguments=()

	[ "$quick" = no ] || arguments=(--quick)
	[ -z "$open" ] || arguments+=(--open "$open")
	[ -z "$repetitions" ] || arguments+=(--repetitions "$repetitions")
	new_database
	sql -f bench/managed.sql
	run env PGDATABASE="$database" PYTHONDONTWRITEBYTECODE=1 \
		"$python" "bench/$1" "${arguments[@]}" "$tmp/pictures"
}

bench_managed()
{
	measure managed.py
}

bench_steady()
{
	measure steady.py
}

bench_shop()
{
	measure shop.py
}
