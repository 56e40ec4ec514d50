# shellcheck shell=bash
#
# servers.sh: one bandit on several servers, for scripts/bench

bench_servers()
{
	local rounds=100000 seeds=30 arguments=()

	[ "$quick" = no ] || { rounds=10000 seeds=2 arguments=(--quick); }
	[ -z "$repetitions" ] || arguments+=(--repetitions "$repetitions")
	printf '\n## One bandit on several servers\n'
	run env PYTHONDONTWRITEBYTECODE=1 "$python" bench/servers.py "${arguments[@]}" "$tmp/servers"
	cat <<-EOF

		### Regret and lag

		Simulated with the extension's learner, $rounds rounds in all, which go to the servers by turns; mean of $seeds
		runs, and twice its standard error. Ten arms, of which the first loses with probability 0.4, the others with 0.5.
		The servers exchange their sums every so many rounds of all of them together.

	EOF
	new_database
	sql -c 'CREATE EXTENSION dexp3' -c 'CREATE SCHEMA bench'
	sql -v rounds="$rounds" -v seeds="$seeds" -f bench/servers.sql
	sql -c 'SELECT bench.servers_table()'
	cat "$tmp/output"
}
