# shellcheck shell=bash
#
# simulate.sh: bandit_simulate() against a bare loop, for scripts/bench

bench_simulate()
{
	local repetitions=19 arms rounds delay floor subject ratio

	[ "$quick" = no ] || repetitions=7
	new_database
	sql -v repetitions="$repetitions" -f bench/simulate.sql
	table 'bandit_simulate, and a bare loop that returns the same rows' \
		arms rounds delay 'bare loop, ms' 'bandit_simulate, ms'
	while read -r arms rounds delay floor subject ratio; do
		row "$ratio" '>=' 0.7 "$arms" "$rounds" "$delay" "$floor" "$subject"
	done <"$tmp/output"
}
