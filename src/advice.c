/*
 * advice.c
 *	  What goes wrong with a managed bandit, and what to do about it.
 *
 * Everything comes from the sums that all sessions share, and from a few of the newest
 * rows of dexp3.feedback, so that it takes no longer with a long log.  Nothing is said
 * about a bandit that has hardly begun: each case waits until chance or delays cannot
 * well explain what is seen.  doc/reference.md has the list of cases.
 */
#include "postgres.h"

#include <math.h>

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "arguments.h"
#include "bandit.h"
#include "clock.h"
#include "component.h"
#include "log.h"
#include "node.h"
#include "sums.h"

PG_FUNCTION_INFO_V1(dexp3_advice);

/* How many of the newest rows of dexp3.feedback to look at. */
#define NEWEST_ROWS		200

/* This many decisions, outcomes or rows are enough to say something about them ... */
#define ENOUGH			100
/* ... this many if they are all alike, as rare successes are for a while ... */
#define ENOUGH_ALIKE	1000
/* ... and this many to say that something is not what is left out. */
#define ENOUGH_PRESENT	20

/* "For long" is at least this, and three times as long as feedback takes. */
#define FOR_LONG		USECS_PER_DAY
#define TIMES_AS_LONG	3

/* If something was to be expected this often, it is not by chance that it is missing. */
#define NO_CHANCE		10

/* Losses that differ by less than this, relatively, are taken to be equal. */
#define ROUNDING		1e-5

/* An arm needs this many outcomes to be compared with others. */
#define LEAST_OUTCOMES	30

/* The 97.5% quantile of the normal distribution. */
#define Z_95			1.959964

typedef enum Severity
{
	PROBLEM,					/* it learns nothing, or something wrong */
	HINT						/* it could do better */
} Severity;

static const char *const severity_names[] = {
	[PROBLEM] = "problem",
	[HINT] = "hint"
};

/* What the newest rows of dexp3.feedback are like. */
typedef struct Newest
{
	const Bandit *bandit;
	int64		window;			/* in microseconds, if there is one */
	int			rows;
	int			skipped;
	int			arrived;		/* neither skipped nor expired; of these: */
	int			like_missing;	/* have a loss like missing_loss */
	int			at_the_end;		/* came at the end of the window, or later */
	double		least_loss;
	double		greatest_loss;
	int64		last_round;		/* the newest round when one arrived */
	int64		longest_delay;	/* how long one took, in rounds ... */
	int64		longest;		/* ... and in microseconds */
} Newest;

/* What is known about a bandit. */
typedef struct Facts
{
	const Bandit *bandit;
	Sums		sums;
	TimestampTz now;
	int64		rounds;			/* on all servers, if it is shared; from here
								 * on, what this server has made itself: */
	int64		decisions;
	int64		open;
	int64		skipped;
	int64		expired;
	int64		arrived;		/* settled by feedback */
	int64		outcomes;		/* arrived or expired */
	bool		alike;			/* are all of these the same? */
	double		mean;			/* of their losses */
	Newest		newest;
	int64		warnings;		/* of triggers */

	ReturnSetInfo *rsinfo;
	Severity	severity;		/* what is to be said now */
} Facts;

/* ----------
 * Words
 * ----------
 */

/*
 * Say something, if it is the turn of its severity.
 */
static void
say(Facts *facts, Severity severity, const char *sentence)
{
	Datum		values[2];
	bool		nulls[2] = {0};

	if (severity != facts->severity)
		return;
	values[0] = CStringGetTextDatum(severity_names[severity]);
	values[1] = CStringGetTextDatum(sentence);
	tuplestore_putvalues(facts->rsinfo->setResult, facts->rsinfo->setDesc, values, nulls);
}

/*
 * Write a span of time in the largest unit that it has at least two of.
 */
static char *
span_text(int64 microseconds)
{
	static const struct
	{
		int64		length;
		const char *name;
	}			units[] = {
		{USECS_PER_DAY, "days"},
		{USECS_PER_HOUR, "hours"},
		{USECS_PER_MINUTE, "minutes"},
		{USECS_PER_SEC, "seconds"}
	};

	for (size_t i = 0; i < lengthof(units); i++)
	{
		if (microseconds >= 2 * units[i].length)
			return psprintf(INT64_FORMAT " %s", microseconds / units[i].length, units[i].name);
	}
	return pstrdup(microseconds >= USECS_PER_SEC ? "a second" : "less than a second");
}

static bool
is_about_rewards(const Facts *facts)
{
	return facts->bandit->goal == GOAL_REWARD;
}

/*
 * Write an outcome in the unit of the bandit's goal, with as many digits as one wants
 * to read.
 */
static char *
outcome_text(const Facts *facts, double loss)
{
	return psprintf("%.4g", (is_about_rewards(facts) ? bandit_mirrored(facts->bandit, loss) : loss) + 0.0);
}

static double
percent(double part, double whole)
{
	return 100 * part / whole;
}

/* ----------
 * Facts
 * ----------
 */

static void
look_at_row(void *context, const void *row)
{
	Newest	   *newest = context;
	const Bandit *bandit = newest->bandit;
	const FeedbackRow *feedback = row;
	double		range = bandit->loss_high - bandit->loss_low;
	DecisionRow decision;
	int64		duration;

	newest->rows++;
	newest->skipped += feedback->settled_by == SETTLED_BY_SKIPPING;
	if (feedback->settled_by != SETTLED_BY_FEEDBACK)
		return;
	newest->least_loss = newest->arrived == 0 ? feedback->loss :
		fmin(newest->least_loss, feedback->loss);
	newest->greatest_loss = newest->arrived == 0 ? feedback->loss :
		fmax(newest->greatest_loss, feedback->loss);
	newest->last_round = Max(newest->last_round, feedback->round);
	newest->longest_delay = Max(newest->longest_delay, feedback->terms.delay);
	newest->like_missing += fabs(feedback->loss - bandit->missing_loss) <= range / 100;
	newest->arrived++;

	if (log_find_decision(feedback->decision_id, &decision))
	{
		duration = feedback->received_at - decision.decided_at;
		newest->longest = Max(newest->longest, duration);
		newest->at_the_end += duration > newest->window / 5 * 4;
	}
}

/*
 * Find out whether all outcomes are the same, from the sums of 1 / p^2, l / p^2 and (l
 * / p)^2: the sum of ((l - mean) / p)^2 is 0 then.
 */
static void
find_spread(Facts *facts)
{
	const Totals *totals = &facts->sums.totals;
	double		loss = 0;
	double		spread = 0;
	double		scale = 0;

	for (int i = 0; i < totals->arms; i++)
		loss += totals_vector(totals, ARM_LOSS)[i];
	facts->mean = facts->outcomes > 0 ? loss / facts->outcomes : 0;
	for (int i = 0; i < totals->arms; i++)
	{
		double		squares = totals_vector(totals, ARM_WEIGHTED2)[i];
		double		products = totals_vector(totals, ARM_WEIGHTED_INVERSE)[i];
		double		weights = totals_vector(totals, ARM_INVERSE2)[i];

		spread += squares - 2 * facts->mean * products + facts->mean * facts->mean * weights;
		scale += squares + facts->mean * facts->mean * weights;
	}
	facts->alike = facts->outcomes > 0 && spread <= ROUNDING * ROUNDING * scale;
}

static void
find_facts(Facts *facts, const Bandit *bandit)
{
	const Counts *counts;

	facts->bandit = bandit;
	facts->now = time_of_action();
	sums_take(&facts->sums, bandit, AccessShareLock, NUM_ARM_SUMS, 0, bandit->params.arms);
	counts = &facts->sums.totals.counts;
	facts->decisions = counts->decisions;
	facts->rounds = counts->decisions + facts->sums.foreign.counts.decisions;
	facts->open = Max(counts->decisions - counts->closed, 0);
	facts->skipped = counts->skipped;
	facts->expired = counts->expired;
	facts->outcomes = counts->closed - counts->skipped;
	facts->arrived = facts->outcomes - counts->expired;
	find_spread(facts);

	facts->newest.bandit = bandit;
	if (bandit->feedback_window)
		facts->newest.window = bandit_microseconds(bandit->feedback_window);
	log_scan_newest(bandit->bandit_id, bandit->epoch, NEWEST_ROWS, look_at_row, &facts->newest);
}

/*
 * Say for how long something must last to be worth mentioning.
 */
static int64
for_long(const Facts *facts)
{
	return Max(FOR_LONG, TIMES_AS_LONG * facts->newest.longest);
}

/*
 * Return when the oldest decision in the log was made.
 */
static TimestampTz
oldest_decision(const Facts *facts)
{
	DecisionWalk *walk = log_begin_walk(facts->bandit->bandit_id, facts->bandit->epoch, 0, 0, false);
	TimestampTz oldest = facts->now;
	DecisionRow row;
	uint64		xact;
	int64		decision_id;

	/* there may be many rows that are not there for us */
	for (int i = 0; i < NEWEST_ROWS && log_next_place(walk, &xact, &decision_id); i++)
	{
		if (log_read_place(walk, &row))
		{
			oldest = row.decided_at;
			break;
		}
	}
	log_end_walk(walk);
	return oldest;
}

/* ----------
 * Advice
 * ----------
 */

/*
 * Is there feedback that triggers could not give?
 */
static void
advise_about_triggers(Facts *facts)
{
	if (facts->warnings > 0)
		say(facts, PROBLEM, psprintf("Triggers have failed to report outcomes, " INT64_FORMAT " in the last 7 days: see dexp3.warning for the reasons, and report these outcomes anew.",
									 facts->warnings));
}

static void
advise_about_server(void *context, const ComponentRow *row)
{
	Facts	   *facts = context;
	const char *problem;

	if (row->node == own_node() || row->forgotten)
		return;
	problem = component_problem(row, facts->bandit);
	if (problem != NULL)
		say(facts, PROBLEM, psprintf("What server %d has learned is not counted here, since %s: make the bandits alike on both, or use bandit_forget_node.",
									 row->node, problem));
}

/*
 * Is there another server that shares the bandit, and is not counted?
 */
static void
advise_about_servers(Facts *facts)
{
	Snapshot	snapshot;
	int64		version;
	TimestampTz written_at;

	if (!facts->bandit->shared)
		return;
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	component_visit_newest(facts->bandit->name, snapshot, advise_about_server, facts);
	UnregisterSnapshot(snapshot);
	if (component_find_newest(facts->bandit->name, own_node(), FORGOTTEN_ROWS, &version, &written_at))
		say(facts, PROBLEM, psprintf("Another server has published as node %d, like this one: unless that was this one before it was restored, give one of them another number with bandit_node.",
									 own_node()));
}

/*
 * Has any feedback come?  And has some come lately?
 */
static void
advise_about_silence(Facts *facts)
{
	const Counts *counts = &facts->sums.totals.counts;
	int64		since;
	int64		silence;

	if (facts->decisions < ENOUGH)
		return;
	if (facts->arrived == 0)
	{
		if (facts->bandit->feedback_window && facts->expired >= ENOUGH)
			say(facts, PROBLEM, psprintf("No feedback has come for any of " INT64_FORMAT " decisions within the feedback_window (%s): see whether outcomes are reported, or make the window longer.",
										 facts->expired, span_text(facts->newest.window)));
		else if (facts->open >= ENOUGH &&
				 facts->now - oldest_decision(facts) >= FOR_LONG)
			say(facts, PROBLEM, psprintf("No feedback has come for any of " INT64_FORMAT " decisions: report outcomes with bandit_feedback, bandit_reward or a trigger.",
										 facts->decisions));
		return;
	}

	/* how many decisions were made since, as far as the newest rows can tell */
	since = facts->newest.last_round > 0 ?
		Min(facts->rounds - facts->newest.last_round, facts->open) : facts->open;
	silence = counts->last_decision - counts->last_feedback;
	if (silence >= for_long(facts) &&
		(double) since * facts->arrived >= (double) NO_CHANCE * facts->decisions)
		say(facts, PROBLEM, psprintf("No feedback has come for %s, in which " INT64_FORMAT " decisions were made, while on the whole one in %.0f has some: see whether outcomes are still reported.",
									 span_text(silence), since, (double) facts->decisions / facts->arrived));
}

/*
 * Are all outcomes the same?
 */
static void
advise_about_outcomes(Facts *facts)
{
	const Newest *newest = &facts->newest;
	double		least = newest->least_loss;
	double		greatest = newest->greatest_loss;
	double		range = facts->bandit->loss_high - facts->bandit->loss_low;

	if (facts->alike)
	{
		double		without = (double) (facts->open + facts->skipped);

		if (facts->bandit->feedback_window == NULL &&
			facts->arrived >= ENOUGH_PRESENT &&
			without > facts->arrived &&
			without > 2.0 * newest->longest_delay)
			say(facts, PROBLEM, psprintf("All " INT64_FORMAT " outcomes are %s, and %.0f decisions have none: if nothing is reported unless something happens, set a feedback_window with bandit_alter, so that silence counts as missing_loss.",
										 facts->outcomes, outcome_text(facts, facts->mean), without));
		else if (facts->outcomes >= ENOUGH_ALIKE)
			say(facts, PROBLEM, psprintf("All " INT64_FORMAT " outcomes are %s, so that there is nothing to learn: see whether the right value is reported.",
										 facts->outcomes, outcome_text(facts, facts->mean)));
		return;
	}

	if (facts->expired > 0)
	{
		least = fmin(least, facts->bandit->missing_loss);
		greatest = fmax(greatest, facts->bandit->missing_loss);
	}
	if (newest->arrived >= ENOUGH && greatest > least && greatest - least <= range / 100)
		say(facts, HINT, psprintf("The newest %d %s are between %s and %s, which is at most a hundredth of loss_range: make a bandit with a narrower loss_range, and clamp_losses for the rest, which learns faster.",
								  newest->arrived, is_about_rewards(facts) ? "rewards" : "losses",
								  outcome_text(facts, is_about_rewards(facts) ? greatest : least),
								  outcome_text(facts, is_about_rewards(facts) ? least : greatest)));
}

/*
 * Is much given up, or missing although it is reported?
 */
static void
advise_about_losses_of_feedback(Facts *facts)
{
	const Newest *newest = &facts->newest;

	/* what has expired is not among the newest rows */
	bool		all = facts->bandit->feedback_window != NULL;
	int64		skipped = all ? facts->skipped : newest->skipped;
	int64		settled = all ? facts->outcomes + facts->skipped : newest->rows;

	if (settled >= ENOUGH && skipped >= settled / 5)
		say(facts, HINT, psprintf("%.0f%% of the %s" INT64_FORMAT " decisions that are not open were given up without feedback: raise patience with bandit_alter, or take algorithm \"self-tuned\", which does not give up.",
								  percent(skipped, settled), all ? "" : "newest ", settled));

	if (facts->bandit->feedback_window &&
		facts->expired >= ENOUGH && facts->expired >= facts->outcomes / 5 &&
		newest->arrived >= ENOUGH_PRESENT && newest->like_missing >= newest->arrived / 10)
		say(facts, PROBLEM, psprintf("%.0f%% of all outcomes are missing and count as %s, although outcomes like that are reported, too: report them within the feedback_window (%s), or make it longer with bandit_alter.",
									 percent(facts->expired, facts->outcomes), outcome_text(facts, facts->bandit->missing_loss),
									 span_text(facts->newest.window)));
}

/*
 * Is the feedback window too short, or too long?
 */
static void
advise_about_window(Facts *facts)
{
	const Newest *newest = &facts->newest;
	int64		ends_in;

	if (facts->bandit->feedback_window == NULL)
		return;
	if (newest->arrived >= ENOUGH && newest->at_the_end >= newest->arrived / 10 &&
		facts->expired >= facts->outcomes / 20)
		say(facts, HINT, psprintf("%.0f%% of the newest feedback has come in the last fifth of the feedback_window (%s) or after it, so that more has probably come too late: see bandit_delays, and make the window longer with bandit_alter.",
								  percent(newest->at_the_end, newest->arrived), span_text(facts->newest.window)));

	if (facts->expired > 0 || !facts->alike || facts->arrived < ENOUGH_PRESENT ||
		facts->open < ENOUGH || newest->window <= TIMES_AS_LONG * newest->longest)
		return;
	ends_in = oldest_decision(facts) + newest->window - facts->now;
	if (ends_in >= FOR_LONG)
		say(facts, HINT, psprintf("All " INT64_FORMAT " outcomes so far are %s, and no other can come for %s, since the feedback_window (%s) has not ended for any decision: feedback has taken %s at most, so that a shorter window, set with bandit_alter, may do.",
								  facts->outcomes, outcome_text(facts, facts->mean), span_text(ends_in), span_text(facts->newest.window),
								  span_text(newest->longest)));
}

/*
 * Is there an arm whose outcomes are not reported?
 */
static void
advise_about_arms(Facts *facts)
{
	const Bandit *bandit = facts->bandit;
	const Totals *totals = &facts->sums.totals;
	int			first = -1;
	int			silent = 0;

	/* a new arm may just have to wait */
	if (facts->decisions == 0 || (bandit->arms_changed_at != DT_NOBEGIN &&
								  facts->now - bandit->arms_changed_at < for_long(facts)))
		return;
	for (int i = 0; i < totals->arms; i++)
	{
		double		expected = totals_vector(totals, ARM_DECISIONS)[i] * facts->outcomes /
			facts->decisions;

		if (totals_vector(totals, ARM_SETTLED)[i] > 0 || expected < NO_CHANCE ||
			bandit_is_retired(bandit, i))
			continue;
		if (silent++ == 0)
			first = i;
	}
	if (silent > 0)
		say(facts, PROBLEM, psprintf("Arm \"%s\"%s has been chosen %.0f times and has no outcome, while %.0f%% of all decisions have one: see whether outcomes of this arm are reported.",
									 TextDatumGetCString(bandit->arms[first]),
									 silent > 2 ? psprintf(", like %d others,", silent - 1) :
									 silent == 2 ? ", like another one," : "",
									 totals_vector(totals, ARM_DECISIONS)[first],
									 percent((double) facts->outcomes, (double) facts->decisions)));
}

/*
 * Work out the interval of an arm's mean loss, as bandit_report does.
 */
static void
arm_interval(const Totals *totals, int arm, double *low, double *high)
{
	double		n = totals_vector(totals, ARM_SETTLED)[arm];
	double		inverse = totals_vector(totals, ARM_INVERSE)[arm];
	double		mean = totals_vector(totals, ARM_WEIGHTED)[arm] / inverse;
	double		spread = totals_vector(totals, ARM_WEIGHTED2)[arm] -
		2 * mean * totals_vector(totals, ARM_WEIGHTED_INVERSE)[arm] +
		mean * mean * totals_vector(totals, ARM_INVERSE2)[arm];
	double		error = sqrt(fmax(spread, 0) * n / (n - 1)) / inverse;

	*low = mean - Z_95 * error;
	*high = mean + Z_95 * error;
}

/*
 * Is an arm known to be better than those that get at least half of all decisions?
 */
static void
advise_about_best_arm(Facts *facts)
{
	const Bandit *bandit = facts->bandit;
	const Totals *totals = &facts->sums.totals;
	const double *settled = totals_vector(totals, ARM_SETTLED);
	double	   *weights = palloc(sizeof(double) * totals->arms);
	Learner		learner;
	double		total;
	double		worse = 0;
	double		low;
	double		high;
	double		best_high = INFINITY;
	int			best = -1;

	if (facts->outcomes < ENOUGH_ALIKE)
		return;
	for (int i = 0; i < totals->arms; i++)
	{
		if (settled[i] < LEAST_OUTCOMES || bandit_is_retired(bandit, i))
			continue;
		arm_interval(totals, i, &low, &high);
		if (high < best_high)
		{
			best = i;
			best_high = high;
		}
	}
	if (best < 0)
		return;

	sums_learner(&facts->sums, bandit, &learner);
	total = learner_weights(&learner, learner_step_size(&learner, NO_DELAY, weights),
							learner.retired, weights);
	for (int i = 0; i < totals->arms; i++)
	{
		if (settled[i] < LEAST_OUTCOMES)
			continue;
		arm_interval(totals, i, &low, &high);
		if (low > best_high)
			worse += weights[i] / total;
	}
	if (worse < 0.5)
		return;
	say(facts, HINT, psprintf("Arm \"%s\" has %s %s on average) than arms which now get %.0f%% of all decisions: %s.",
							  TextDatumGetCString(bandit->arms[best]),
							  is_about_rewards(facts) ? "gained more (at least" : "lost less (at most",
							  outcome_text(facts, best_high), percent(worse, 1),
							  bandit->params.algorithm == SELF_TUNED ?
							  "this is right if those have become better lately, and otherwise a matter of time" :
							  "algorithm \"self-tuned\" learns faster from what is known"));
}

/*
 * dexp3.advice(bandit, warnings): what is wrong with it, the most important first
 */
Datum
dexp3_advice(PG_FUNCTION_ARGS)
{
	Facts		facts = {0};

	InitMaterializedSRF(fcinfo, 0);
	facts.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	check_not_null(fcinfo, 1, "warnings");
	facts.warnings = PG_GETARG_INT64(1);
	find_facts(&facts, bandit_argument(fcinfo, "dexp3.advice()"));
	for (facts.severity = PROBLEM; facts.severity <= HINT; facts.severity++)
	{
		advise_about_triggers(&facts);
		advise_about_servers(&facts);
		advise_about_silence(&facts);
		advise_about_outcomes(&facts);
		advise_about_losses_of_feedback(&facts);
		advise_about_arms(&facts);
		advise_about_window(&facts);
		advise_about_best_arm(&facts);
	}
	PG_RETURN_NULL();
}
