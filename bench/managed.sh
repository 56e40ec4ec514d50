# shellcheck shell=bash
#
# managed.sh: bandit_choose() and bandit_feedback() under load, for scripts/bench

bench_managed()
{
	local arguments=()

	[ "$quick" = no ] || arguments=(--quick)
	new_database
	sql -f bench/managed.sql
	run env PGDATABASE="$database" PYTHONDONTWRITEBYTECODE=1 \
		"$python" bench/managed.py "${arguments[@]}" "$tmp/pictures"
}
