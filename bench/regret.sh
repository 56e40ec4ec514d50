# shellcheck shell=bash
#
# regret.sh: what the learners lose in worlds that we know, for scripts/bench

# regret_table HEADING FUNCTION: print what a function of regret.sql returns.
regret_table()
{
	printf '\n### %s\n\n' "$1"
	sql -c "SELECT bench.$2"
	cat "$tmp/output"
}

# regret_picture NAME TEXT: draw what the function NAME_picture of regret.sql says.
regret_picture()
{
	sql -c "SELECT bench.$1_picture()"
	"$python" -I bench/picture.py <"$tmp/output" >"$tmp/pictures/regret-${1//_/-}.svg"
	printf '\n![%s](regret-%s.svg)\n' "$2" "${1//_/-}"
}

bench_regret()
{
	local rounds=100000 seeds=30 quantile=2.045		# Student's, 0.975, seeds - 1
	local environment

	if [ "$quick" = yes ]; then
		rounds=10000
		seeds=3
		quantile=4.303
	fi
	new_database
	sql -v rounds="$rounds" -v seeds="$seeds" -v quantile="$quantile" -f bench/regret.sql
	value "SELECT bench.whole($rounds)"

	cat <<-EOF

		## Regret

		Regret is the sum of the losses of the arms that were played, minus that of the best single arm over the same
		losses. It is negative if a player changes arms at the right time. Each number is the mean over $seeds runs of
		T = $result rounds, with new losses (where they are random), delays and draws in each run; behind ± is half the
		width of its 95% interval (Student's). All players meet the same losses and delays.

		The environments, with 10 arms unless something else is said:

		- *stochastic*: each loss is 0 or 1; it is 1 with probability 0.4 for arm 1, with 0.5 for the others.
		- *switching*: likewise, with probability 0.4 for arm 1 in the first half of the rounds, 0.3 for arm 2 in the
		  second, otherwise 0.5. Arm 2 is the best of the whole run; who plays 1 and then 2 loses 0.05 a round less.
		- *alternating*: the even arms lose 1 in even rounds and 0 in odd ones, the odd arms the other way round, so that
		  each loss is the opposite of the next; but arm 1 loses in two rounds of five.
		- *small losses*: uniform in [0, 0.01] for arm 1, in [0, 0.05] for the others.
		- *resonant*: of 2 arms one loses 0 and the other 1, and they change places every 2d rounds, for the first time
		  after d; d is 100 where the delay is 100, otherwise 1,000. Whoever counts the losses as they arrive, d rounds
		  late, finds the wrong arm ahead all the time. Each arm loses half the rounds, so that who does not learn at all,
		  or sticks to any one arm, has a regret of about 0.
		- *resonant, 10 arms*: likewise, with the odd arms and the even arms.

		The delays:

	EOF
	sql -c "SELECT format('- *%s*: %s', delay, definition) FROM bench.delay ORDER BY delay_id"
	cat "$tmp/output"
	cat <<-EOF

		The players:

		- *dada*, *dada-ix*: the default, with skipping and a patience of 100 rounds; *no skipping*: without. *deda*: it is
		  told the delay of each round in advance, but not which feedback will never come: it takes those rounds for ones
		  without delay.
		- *blind*: Exp3 that ignores delays, with the step size sqrt(ln K / (tK)), which is dada's without delays.
		  *Stored* divides a loss by the probability with which the arm was drawn; *at arrival*, a mistake that
		  some libraries make, by the arm's probability in the round when the feedback arrives, but at least 2^-108.
		- *uniform*: all arms alike, always.

		The bound is Corollary 3.2's for the expected regret of dada without skipping, in the worst of all worlds with these
		delays.
	EOF
	regret_picture worlds 'Regret of all players in all worlds'
	sql -c 'SELECT environment FROM bench.environment_order ORDER BY environment_order'
	while read -r environment; do
		regret_table "${environment^}" "environment_table('$environment')"
	done <<<"$(<"$tmp/output")"

	printf '\n## In the course of a run\n\n%s\n' \
		'With a delay of 1,000; in each round against the arm that is the best until then.'
	regret_picture time 'Regret over rounds'

	printf '\n## Other step sizes\n\n%s\n' \
		'dada and dada-ix, the default, with c = step_scale; the proven bound of dada grows by (1/c + 2c)/3.'
	regret_picture step_scale 'Regret over step_scale'
	regret_table 'dada, no delay' "step_scale_table('dada', 1)"
	regret_table 'dada, delay 100' "step_scale_table('dada', 2)"
	regret_table 'dada, delay 1,000' "step_scale_table('dada', 3)"
	regret_table 'dada-ix, delay 1,000' "step_scale_table('dada-ix', 3)"
}
