# shellcheck shell=bash
#
# regret.sh: what the learners lose in worlds that we know, for scripts/bench

# regret_table HEADING FUNCTION: print what a function of regret_tables.sql returns.
regret_table()
{
	printf '\n### %s\n\n' "$1"
	sql -c "SELECT bench.$2"
	cat "$tmp/output"
}

# regret_picture NAME TEXT: draw what the function NAME_picture of regret_tables.sql
# says.
regret_picture()
{
	sql -c "SELECT bench.$1_picture()"
	"$python" -I bench/picture.py <"$tmp/output" >"$tmp/pictures/regret-${1//_/-}.svg"
	printf '\n![%s](regret-%s.svg)\n' "$2" "${1//_/-}"
}

# regret_prose: the definitions that the tables need
regret_prose()
{
	cat <<-EOF

		## Regret

		Regret is the sum of the losses of the arms that were played, minus that of the best single arm over the same
		losses. It is negative if a player changes arms at the right time. Each number is the mean over $seeds runs of
		T = $1 rounds, with new losses (where they are random), delays and draws in each run; behind ± is half the
		width of its 95% interval (Student's). All players meet the same losses and delays.

		The worlds, with 10 arms unless something else is said:

		- *stochastic*: each loss is 0 or 1; it is 1 with probability 0.4 for arm 1, with 0.5 for the others.
		- *switching*: likewise, with probability 0.4 for arm 1 in the first half of the rounds, 0.3 for arm 2 in the
		  second, otherwise 0.5. Arm 2 is the best of the whole run; who plays 1 and then 2 loses 0.05 a round less.
		- *changing*: likewise, with probability 0.3 for arm 1 in the first half and for arm 2 in the second, otherwise
		  0.5. Who plays 1 and then 2 loses 0.1 a round less than either.
		- *improving*: likewise, with probability 0.4 for arm 1, and 0.2 for arm 2 from T/3 on, otherwise 0.5. Arm 2 is the
		  best of the whole run. Until T/3 there is nothing to be seen of that.
		- *alternating*: the even arms lose 1 in even rounds and 0 in odd ones, the odd arms the other way round, so that
		  each loss is the opposite of the next; but arm 1 loses in two rounds of five.
		- *small losses*: uniform in [0, 0.01] for arm 1, in [0, 0.05] for the others.
		- *large losses*: the same plus 0.95.
		- *conversions*: 4 arms, of which 5, 6, 7 and 8% of the visitors buy. A loss is 0 if they do, otherwise 1.
		- *two rates*: 5 arms; 7% with arm 1, 5% with the others. *Rising*: arm 2 has 9% from T/3 on.
		- *resonant*: of 2 arms one loses 0 and the other 1, and they change places every 2d rounds, for the first time
		  after d; d is 100 where the delay is 100, otherwise 1,000. Whoever counts the losses as they arrive, d rounds
		  late, finds the wrong arm ahead all the time. Each arm loses half the rounds, so that who does not learn at all,
		  or sticks to any one arm, has a regret of about 0.
		- *resonant, 10 arms*: likewise, with the odd arms and the even arms.
		- *slowly resonant*: 2 arms, which change places every 4d rounds, for the first time after 2d.

		The delays:

	EOF
	sql -c "SELECT format('- *%s*: %s', delay, definition) FROM bench.delay ORDER BY delay_id"
	cat "$tmp/output"
	cat <<-EOF

		A delay belongs to a round, whichever arm is played in it. In a shop it depends on what happens: a purchase is known
		soon, and that there was none only at the end of the window. The simulation cannot express that.

		The players:

		- *self-tuned*: the default, with an optimism of 0.25; or with an optimism of 1, for which a bound is proven.
		- *dada*, *dada-ix*: with skipping and a patience of 100 rounds; *no skipping*: without. c is the \`step_scale\`.
		  *deda*: it is told the delay of each round in advance, but not which feedback will never come: it takes those
		  rounds for ones without delay.
		- *dada, best c*: the best \`step_scale\` of dada with skipping, of those from 0.25 to 64 that are powers of 2. It is
		  chosen in hindsight for each line; the c is in parentheses, and at 0.25 or 64 another might be better still. Mean
		  of $sweep_seeds runs, unless c is 1.
		- *blind*: Exp3 that ignores delays, with the step size sqrt(ln K / (tK)), which is dada's without delays.
		  *Stored* divides a loss by the probability with which the arm was drawn; *at arrival*, a mistake that
		  some libraries make, by the arm's probability in the round when the feedback arrives, but at least 2^-108.
		- *Thompson*: Thompson sampling. It keeps a Beta distribution of each arm's mean loss, draws a number from each, and
		  plays the arm with the smallest. A loss l adds l to one parameter and 1 - l to the other when it arrives.
		- *uniform*: all arms alike, always.
	EOF
}

bench_regret()
{
	local rounds=100000 seeds=30 sweep_seeds=20
	local forgetting_rounds=400000 forgetting_seeds=6
	local random_worlds=200 random_rounds=50000 random_seeds=4
	local environment variable variables=()

	if [ "$quick" = yes ]; then
		rounds=10000 seeds=3 sweep_seeds=2
		forgetting_rounds=40000 forgetting_seeds=2
		random_worlds=40 random_rounds=10000 random_seeds=2
	fi
	for variable in rounds seeds sweep_seeds forgetting_rounds forgetting_seeds \
		random_worlds random_rounds random_seeds; do
		variables+=(-v "$variable=${!variable}")
	done
	new_database
	sql "${variables[@]}" -f bench/regret.sql -f bench/regret_tables.sql

	value "SELECT bench.whole($rounds)"
	regret_prose "$result"
	regret_table 'Summary' 'summary_table()'
	regret_picture worlds 'Regret of the most important players in all worlds'

	printf '\n## What it costs not to choose a step size\n\n%s\n%s\n%s\n' \
		'self-tuned with an optimism of 1 beside the best of three players, chosen in hindsight: dada, dada with c = 4,' \
		'both without skipping, and blind (stored). It should lose at most 1.6 times as much where that best one loses' \
		'anything. In the resonant worlds the best is who learns least. The last columns compare it with dada with skipping.'
	regret_table 'Optimism 1 and the best of the others' 'price_table()'

	printf '\n## What self-tuned says of its own regret\n\n%s\n%s\n%s\n%s\n%s\n%s\n' \
		'Without knowing what the other arms would have lost, it says 1.5 v - 0.5 K ln K, plus the number of decisions' \
		'without feedback. Here v is ln K / η with the step size η of the last round, and the decisions are those whose' \
		'feedback was not there when the last arm was drawn. With an optimism of 1, that is a bound on the expected regret,' \
		'otherwise an estimate. Each number is the mean over the runs, and the ratio says how many times the regret it is.' \
		'The bound of dada is that of Corollary 3.2 for its expected regret without skipping, in the worst of all worlds with' \
		'these delays.'
	regret_table 'Bound and estimate' 'own_bound_table()'

	printf '\n## All players\n'
	sql -c 'SELECT environment FROM bench.environment_order ORDER BY environment_order'
	while read -r environment; do
		regret_table "${environment^}" "environment_table('$environment')"
	done <<<"$(<"$tmp/output")"

	printf '\n## In the course of a run\n\n%s\n' \
		'In each round against the arm that is the best until then.'
	regret_picture time 'Regret over rounds'

	value "SELECT bench.whole($forgetting_rounds)"
	printf '\n## Forgetting\n\n%s\n%s\n%s\n%s\n%s\n' \
		"Worlds that keep changing: T = $result rounds, 10 arms, $forgetting_seeds runs. Regret is against the best arm *of each moment*." \
		'Each loss is 0 or 1; it is 1 with probability 0.4 for the best arm, with 0.5 for the others. *Rotation*: with' \
		'probability 0.5 - 0.1 cos(2π(t/P - i/10)) for arm i, with the period P. *Conversions*: 7% with the best arm, 5% with' \
		'the others. The best arm changes at fixed times, to one of the others at random. The half-lives, in rounds, are of' \
		'self-tuned with an optimism of 0.25.'
	regret_table 'Half-lives' 'forgetting_table()'

	value "SELECT bench.whole($random_rounds)"
	cat <<-EOF

		## Random worlds

		$random_worlds worlds of T = $result rounds, with 2 to 20 arms, $random_seeds runs each. Kinds, as many of each:

		- *square waves*: every other arm loses more for half of a period, then less. Half of these worlds resonate with the
		  delay, unless it is very short. *Sines*: the arms take turns smoothly.
		- *switches*: one arm is better by 0.05 to 0.4, and from time to time it is another one.
		- *random walks*: the mean of each arm wanders. *Random blocks*: each arm loses more or less for a while, at random.
		- *rare conversions*: each arm has a rate, all of them around 1 to 10%. In half of these worlds the rates are drawn
		  anew from time to time.
		- *benign, then hostile*: for a third of the rounds one arm is better, and then all resonate with the delay.
		- *small losses*: switches, random walks or random blocks, all losses multiplied by 0.01 to 0.1.

		In half of the worlds with waves, walks or blocks one arm is better by up to 0.1 all the time. Periods are from T/500
		to T if nothing else is said. Losses are 0 or 1, or in some worlds the means themselves. Delays are constant,
		exponential, heavy-tailed, or constant with feedback that never comes (0.1 to 20% of it), typically 0 to T/10 rounds.
		[regret.sql](../regret.sql) has all details.

		*Regret / bound* is the mean regret in a world divided by the paper's bound, 3·sqrt(ln K·(TK + D)). *Excess / bound*
		is what was lost beyond the best of dada, with or without skipping, and blind, chosen in hindsight for each world,
		divided by the bound as well. The second table has the worst regret / bound in each kind of world, and in parentheses
		the worst excess / bound.
	EOF
	regret_table 'Distribution over the random worlds' 'random_table()'
	regret_table 'Worst of each kind' 'random_kinds_table()'
	regret_picture random 'Regret and excess in the random worlds'

	printf '\n## Other step sizes\n\n%s\n%s\n' \
		'dada and dada-ix with skipping and c = step_scale; the proven bound of dada grows by (1/c + 2c)/3.' \
		"Means of $sweep_seeds runs, of $seeds with c = 1."
	regret_picture step_scale 'Regret over step_scale'
	regret_table 'dada, no delay' "step_scale_table('dada', 1)"
	regret_table 'dada, delay 100' "step_scale_table('dada', 2)"
	regret_table 'dada, delay 1,000' "step_scale_table('dada', 3)"
	regret_table 'dada-ix, delay 1,000' "step_scale_table('dada-ix', 3)"
}
