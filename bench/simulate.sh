# shellcheck shell=bash
#
# simulate.sh: bandit_simulate() against a bare loop, for scripts/bench

bench_simulate()
{
	local repetitions=19 arms delay floor subject ratio

	[ "$quick" = no ] || repetitions=7
	new_database
	sql -v repetitions="$repetitions" -f bench/simulate.sql
	printf '\n## Simulation\n'
	sql -c 'SELECT bench.picture()'
	"$python" -I bench/picture.py <"$tmp/output" >"$tmp/pictures/simulate.svg"
	printf '\n![Rounds a second](simulate.svg)\n'
	table 'bandit_simulate, and a bare loop with exp() that returns the same rows' \
		arms delay 'bare loop, rounds a second' 'bandit_simulate, rounds a second'
	sql -c "SELECT arms, delay, to_char(floor_rate, 'FM999,999,999'), to_char(subject_rate, 'FM999,999,999'), ratio
		FROM bench.result ORDER BY id"
	while read -r arms delay floor subject ratio; do
		row "$ratio" '>=' 0.7 "$arms" "$delay" "$floor" "$subject"
	done <"$tmp/output"
}
