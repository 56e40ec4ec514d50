# shellcheck shell=bash
#
# managed.sh: bandit_choose() and bandit_feedback() under load, for scripts/bench
#
# A measurement is made of slices: some seconds of pgbench for the yardstick, some
# for the subject, by turns.  Of the rates and of the ratios of neighbours the
# medians are shown, so that a disturbance of a slice or two does no harm.

repetitions=4			# pairs of slices
seconds=2			# of a slice
held_rounds=60000		# rounds while a transaction is held open
many_rounds=200000		# rounds that a fresh backend must not notice
stock=500000			# decisions that the floor can give feedback to
synchronous_commit=on

# slice CLIENTS ARGUMENT...: run pgbench, and set $tps and $transactions
slice()
{
	local clients=$1
	shift

	quietly env PGOPTIONS="-c synchronous_commit=$synchronous_commit" \
		pgbench -n -M prepared -c "$clients" -j 2 -D clients="$clients" "$@" "$database"
	tps=$(sed -n 's/^tps = \([0-9.]*\).*/\1/p' "$tmp/output")
	transactions=$(sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' "$tmp/output")
}

# medians: of lines "yardstick subject", the median of the first column, of the
# second, and of their ratio
medians()
{
	awk '
		function median(a, n,    i, j, t) {
			for (i = 2; i <= n; i++)
				for (j = i; j > 1 && a[j] < a[j - 1]; j--) {
					t = a[j]; a[j] = a[j - 1]; a[j - 1] = t
				}
			return (a[int((n + 1) / 2)] + a[int(n / 2) + 1]) / 2
		}
		{ first[NR] = $1; second[NR] = $2; ratio[NR] = $2 / $1 }
		END { print median(first, NR), median(second, NR), median(ratio, NR) }'
}

# compare CLIENTS YARDSTICK SUBJECT: take slices of both, which are functions that
# are called with the number of clients; set $yardstick, $subject and $ratio
compare()
{
	local i pair pairs=

	for ((i = 0; i < repetitions; i++)); do
		"$2" "$1"
		pair=$tps
		"$3" "$1"
		pairs+="$pair $tps"$'\n'
	done
	read -r yardstick subject ratio < <(printf '%s' "$pairs" | medians)
}

# compare_row WANTED LABEL CLIENTS YARDSTICK SUBJECT: the same, as a line of a table
compare_row()
{
	compare "${@:3}"
	row "$ratio" '>=' "$1" "$2" "$3" "$synchronous_commit" \
		"$(printf '%.0f' "$yardstick")" "$(printf '%.0f' "$subject")"
}

# The slices

floor_choose()
{
	slice "$1" -T "$seconds" -f "$tmp/floor_choose.sql"
}

floor_choose_skip()
{
	slice "$1" -T "$seconds" -f "$tmp/floor_choose_skip.sql"
}

choose()
{
	slice "$1" -T "$seconds" -D bandit="$bandit" -f bench/managed/choose.sql
}

floor_feedback()
{
	sql -c 'TRUNCATE bench.feedback'
	slice "$1" -T "$seconds" -D next=1 -f "$tmp/floor_feedback.sql"
	[ "$transactions" -lt "$stock" ] || die "the floor needs more than $stock decisions"
}

# As many transactions as the floor has just had, so that the decisions needed can
# be made beforehand.
feedback()
{
	local each=$((transactions / $1 + 1))

	value "SELECT min((bandit_choose('patient')).decision_id) FROM generate_series(1, $((each * $1)))"
	slice "$1" -t "$each" -D next="$result" -f bench/managed/feedback.sql
}

floor_mix()
{
	slice "$1" -T "$seconds" -f "$tmp/floor_mix.sql"
}

peer_mix()
{
	slice "$1" -T "$seconds" -f bench/managed/peer_mix.sql
}

mix()
{
	slice "$1" -T "$seconds" -D bandit="$bandit" -f bench/managed/mix.sql
}

# The measurements

create()
{
	bandit=$1
	sql -c "SELECT bandit_create('$1', bench.arms(10)${2:+, $2})"
}

bench_choose()
{
	local clients

	# Without any feedback, the default is to skip 1 - 1/(2 ln K) = 0.78 old
	# decisions a choice, and each skip is a row of dexp3.feedback.
	table 'bandit_choose without any feedback, and a bare INSERT' \
		'bandit; rows inserted by the yardstick' \
		clients synchronous_commit 'INSERT, tps' 'bandit_choose, tps'
	for synchronous_commit in on off; do
		for clients in 1 8 32; do
			create "patient $clients $synchronous_commit" 'skipping => false'
			compare_row 0.7 'without skipping; 1' "$clients" floor_choose choose
		done
		for clients in 1 8 32; do
			create "choose $clients $synchronous_commit"
			compare_row 0.7 'default; 1' "$clients" floor_choose choose
		done
		compare_row 0.7 'default; 2, one of them a skip' 8 floor_choose_skip choose
	done
}

bench_feedback()
{
	local clients

	sql -c 'TRUNCATE bench.decision' -c 'ALTER SEQUENCE bench.decision_id RESTART' \
		-c "$(sed "s/;$/ FROM generate_series(1, $stock);/" "$tmp/floor_choose.sql")" \
		-c 'VACUUM ANALYZE bench.decision'
	create patient 'skipping => false'
	table 'bandit_feedback, and a look-up plus a bare INSERT' \
		bandit clients synchronous_commit 'INSERT, tps' 'bandit_feedback, tps'
	for synchronous_commit in on off; do
		for clients in 1 8 32; do
			compare_row 0.7 'without skipping' "$clients" floor_feedback feedback
		done
	done
}

bench_mix()
{
	table 'A choice and its feedback: the bare INSERTs, and PL/pgSQL with a locked state row' \
		yardstick clients synchronous_commit 'yardstick, tps' 'dexp3, tps'
	for synchronous_commit in on off; do
		create "mix $synchronous_commit"
		compare_row 0.7 INSERTs 8 floor_mix mix
		compare_row 3 PL/pgSQL 8 peer_mix mix
	done
}

# held_row LABEL STATEMENTS: hold the transaction open that the statements begin, for
# many rounds.  Speed before and after is compared with the floor's of the same time.
held_row()
{
	local fresh holder_pid

	create "$1"
	compare 8 floor_mix mix
	fresh=$ratio

	coproc holder { as_user psql -X -q -A -t "$database"; }
	# shellcheck disable=SC2154 # coproc sets it
	holder_pid=$holder_PID
	printf '%s\n\\echo ready\n' "$2" >&"${holder[1]}"
	while read -r result && [ "$result" != ready ]; do :; done <&"${holder[0]}"
	slice 8 -t "$((held_rounds / 8))" -D bandit="$bandit" -f bench/managed/mix.sql
	compare 8 floor_mix mix
	value "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
	[ "$result" -eq 1 ] || die 'the transaction was not held open'
	printf 'COMMIT;\n\\q\n' >&"${holder[1]}"
	wait "$holder_pid"

	row "$(awk "BEGIN { print $ratio / $fresh }")" '>=' 0.7 "$1" \
		"$(printf '%.2f' "$fresh")" "$(printf '%.2f' "$ratio")"
}

bench_held()
{
	synchronous_commit=off
	table "A choice and its feedback, 8 clients, after $held_rounds rounds with a transaction open" \
		'held open' 'share of the INSERTs, fresh' 'share of the INSERTs, held'
	held_row 'a snapshot' \
		'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM dexp3.bandit;'
	held_row 'a writing transaction' \
		"BEGIN; SELECT bandit_choose('a writing transaction');"
}

# first_choose BANDIT [BEFORE]: set $result to the milliseconds of a fresh backend's
# first choice, or of that after another statement
first_choose()
{
	sql -c 'SET synchronous_commit = off' ${2:+-c "$2"} -c '\timing on' -c "SELECT decision_id FROM bandit_choose('$1')"
	result=$(sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' "$tmp/output")
}

# Between the samples some rounds are played, so that they meet the log at
# different distances from its last checkpoint.
bench_fresh_backend()
{
	local i short cold= warm=
	local before="SELECT decision_id FROM bandit_choose('example')"

	create young
	create old
	sql -c 'SET synchronous_commit = off' -c "CALL bench.play('young', 1000)" \
		-c "CALL bench.play('old', $many_rounds)"
	for ((i = 0; i < 3 * repetitions; i++)); do
		sql -c "CALL bench.play('young', 30)" -c "CALL bench.play('old', 30)"
		first_choose young
		short=$result
		first_choose old
		cold+="$short $result"$'\n'
		first_choose young "$before"
		short=$result
		first_choose old "$before"
		warm+="$short $result"$'\n'
	done
	table 'The first bandit_choose of a fresh backend' \
		'what it has done before' 'after 1000 rounds, ms' "after $many_rounds rounds, ms"
	read -r yardstick subject ratio < <(printf '%s' "$cold" | medians)
	row "$ratio" '<=' 2 nothing "$(printf '%.2f' "$yardstick")" "$(printf '%.2f' "$subject")"
	read -r yardstick subject ratio < <(printf '%s' "$warm" | medians)
	row "$ratio" '<=' 2 'chosen for another bandit' \
		"$(printf '%.2f' "$yardstick")" "$(printf '%.2f' "$subject")"
}

# many_row BOUND LABEL ARMS CHOICES ARMS CHOICES: compare the time per choice of two
# long statements
many_row()
{
	local i short pairs=

	for ((i = 0; i < repetitions; i++)); do
		value "SELECT bench.choose_many('$2 $3 $4 $i', $3, $4) * 1000 / $4"
		short=$result
		value "SELECT bench.choose_many('$2 $5 $6 $i', $5, $6) * 1000 / $6"
		pairs+="$short $result"$'\n'
	done
	read -r yardstick subject ratio < <(printf '%s' "$pairs" | medians)
	row "$ratio" '<=' "$1" "$2" "$3 arms, $4 choices" "$(printf '%.1f' "$yardstick")" \
		"$5 arms, $6 choices" "$(printf '%.1f' "$subject")"
}

bench_many()
{
	table "SELECT bandit_choose('b') FROM generate_series(1, n)" \
		'' from 'microseconds a choice' to 'microseconds a choice'
	many_row 1.5 'more choices' 10 10000 10 100000
	many_row 12 'more arms' 10 10000 1000 10000
}

bench_managed()
{
	local insert_decision insert_feedback insert_skip

	if [ "$quick" = yes ]; then
		repetitions=1
		seconds=1
		held_rounds=10000
		many_rounds=50000
		stock=200000
	fi

	new_database
	sql -f bench/managed.sql
	value 'SELECT bench.insert_decision()'
	insert_decision=$result
	value "SELECT bench.insert_feedback('FROM bench.decision AS d WHERE d.decision_id = :decision_id')"
	insert_feedback=$result
	value "SELECT bench.insert_feedback('FROM d')"
	insert_skip=$result
	as_user tee "$tmp/floor_choose.sql" <<<"$insert_decision;" >/dev/null
	as_user tee "$tmp/floor_choose_skip.sql" >/dev/null \
		<<<"WITH d AS ($insert_decision RETURNING *) $insert_skip;"
	as_user tee "$tmp/floor_feedback.sql" >/dev/null <<-EOF
		\\set decision_id :next + :client_id
		\\set next :next + :clients
		$insert_feedback;
	EOF
	as_user tee "$tmp/floor_mix.sql" >/dev/null <<-EOF
		$insert_decision RETURNING decision_id \\gset
		$insert_feedback;
	EOF

	bench_choose
	bench_feedback
	bench_mix
	bench_held
	bench_fresh_backend
	bench_many
}
