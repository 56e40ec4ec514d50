/*
 * page.c
 *	  A page about one managed bandit, or about all of them.
 *
 * It is one HTML document that loads nothing and runs nothing, and says so to the
 * browser, too (Content-Security-Policy).  It is well-formed XML besides.  Whatever users
 * have named goes through xml_text(), and through nothing else, and stands in a <bdi>, so
 * that a name that is written from right to left does not turn what is beside it.
 *
 * Tables are the results of queries, which run with the rights of whoever asks.  A table
 * of Fields says what to make of the columns of a result.  Everything that is drawn in a
 * table is there as text, too.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "common/string.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/lsyscache.h"

#include "arguments.h"
#include "bandit.h"
#include "chart.h"
#include "svg.h"

PG_FUNCTION_INFO_V1(bandit_page);

/* How many rows are shown at most; $2 in the queries. */
#define MAX_BANDITS		500
#define MAX_ARMS		100
#define MAX_ADVICE		100
#define MAX_DELAYS		10
#define MAX_PENDING		10
#define MAX_NODES		100

/* How long names and texts may be, in columns of a terminal. */
#define NAME_WIDTH		80
#define TEXT_WIDTH		1000

typedef struct HtmlPage
{
	const char *schema;			/* of the extension's functions, quoted */
	bool		reward;			/* is the bandit's goal a reward? */
	StringInfoData html;
} HtmlPage;

/* What a column of a table shows. */
typedef enum FieldKind
{
	FIELD_NAME,					/* what somebody has named: text */
	FIELD_TEXT,					/* text */
	FIELD_COUNT,				/* bigint */
	FIELD_NUMBER,				/* float8 */
	FIELD_PERCENT,				/* float8, from 0 to 1 */
	FIELD_SHARE,				/* the same, with a bar */
	FIELD_INTERVAL,				/* three float8: an estimate, and its interval */
	FIELD_SHARES				/* float8[]: a bar only */
} FieldKind;

#define IS_NUMBER(kind)	((kind) >= FIELD_COUNT && (kind) <= FIELD_INTERVAL)

typedef struct Field
{
	const char *heading;
	FieldKind	kind;
} Field;

static const char *const head =
"<!DOCTYPE html>\n"
"<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n"
"<head>\n"
"<meta charset=\"utf-8\"/>\n"
"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n"
"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
"<meta name=\"color-scheme\" content=\"light dark\"/>\n";

static const char *const style =
"<style>\n"
":root { --text: #1f2328; --muted: #59636e; --line: #d1d9e0; --page: #f6f8fa; --card: #ffffff;"
" --bar: #0072b2; --warn: #9a4a00;\n"
" --c1: #0072b2; --c2: #e69f00; --c3: #009e73; --c4: #cc79a7; --c5: #56b4e9; --c6: #d55e00;"
" --c7: #c9b400; --c8: #8c8c8c }\n"
"@media (prefers-color-scheme: dark) {\n"
":root { --text: #e6edf3; --muted: #9ea7b1; --line: #30363d; --page: #010409; --card: #0d1117;"
" --bar: #2f8fd0; --warn: #ffb366;\n"
" --c1: #2f8fd0; --c7: #f0e442 }\n"
"}\n"
"body { margin: 0 auto; padding: 1rem; max-width: 72rem; color: var(--text); background: var(--page);"
" font: 16px/1.5 system-ui, 'Segoe UI', Roboto, sans-serif }\n"
"h1 { margin: 0.5rem 0 0; font-size: 1.6rem; line-height: 1.25; overflow-wrap: anywhere }\n"
"h2 { margin: 2rem 0 0.5rem; font-size: 1.15rem }\n"
"p { margin: 0.25rem 0 }\n"
".muted, footer { color: var(--muted); font-size: 0.875rem }\n"
".card { padding: 0.75rem 1rem; border: 1px solid var(--line); border-radius: 8px; background: var(--card);"
" overflow-x: auto }\n"
".card:focus-visible { outline: 2px solid var(--bar) }\n"
"dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr)); gap: 0.75rem 1rem; margin: 0 }\n"
"dt { color: var(--muted); font-size: 0.8rem }\n"
"dd { margin: 0; font-size: 1.15rem; font-variant-numeric: tabular-nums }\n"
"table { border-spacing: 0; width: 100%; font-size: 0.95rem; font-variant-numeric: tabular-nums }\n"
"caption { position: sticky; left: 0; max-width: calc(100vw - 4.25rem); text-align: left; color: var(--muted);"
" font-size: 0.875rem; padding-bottom: 0.25rem }\n"
"th, td { padding: 0.3rem 0.9rem 0.3rem 0; border-top: 1px solid var(--line); text-align: left;"
" vertical-align: baseline; white-space: nowrap }\n"
"th:last-child, td:last-child { padding-right: 0 }\n"
"thead th { border-top: 0; color: var(--muted); font-size: 0.8rem; font-weight: 600; vertical-align: bottom;"
" white-space: normal }\n"
"tbody th { font-weight: 600 }\n"
"tbody th, .name { white-space: normal; overflow-wrap: anywhere; min-width: 7rem }\n"
"th:first-child { position: sticky; left: 0; max-width: 40vw; background: var(--card) }\n"
".n { text-align: right }\n"
".bar { display: block; height: 4px; border-radius: 2px; background: var(--bar); min-width: 1px; margin-left: auto }\n"
".shares { display: flex; height: 12px; width: 7rem; border-radius: 3px; overflow: hidden; background: var(--line) }\n"
".range { position: relative; display: block; height: 6px; margin-top: 2px; min-width: 8rem;"
" border-radius: 3px; background: var(--line) }\n"
"ul { margin: 0; padding-left: 1.1rem; overflow-wrap: anywhere }\n"
".problem { color: var(--warn); font-weight: 600 }\n"
".range span { position: absolute; height: 6px; border-radius: 3px; background: var(--bar); min-width: 2px }\n"
"figure { margin: 1rem 0 0 }\n"
"figure svg { display: block; min-width: 34rem; width: 100%; height: auto }\n"
"footer { margin-top: 2rem }\n"
"</style>\n";

/* ----------
 * Writing
 * ----------
 */

static void
add(HtmlPage *page, const char *html)
{
	appendStringInfoString(&page->html, html);
}

/*
 * Add what a user has named, or any other text that is not ours.
 */
static void
add_name(HtmlPage *page, const text *name, int width)
{
	appendStringInfo(&page->html, "<bdi>%s</bdi>", xml_text(name, width));
}

/*
 * Write a number with three significant digits, or with all digits before the point.
 */
static char *
number_html(double number)
{
	double		digits;

	/* anything less is what rounding has left of 0 */
	if (fabs(number) < 1e-12)
		number = 0;
	if (number != 0 && fabs(number) < 1e-6)
		return psprintf("%.3g", number);
	digits = number == 0 ? 0 : floor(log10(fabs(number)));
	return number_label(number, pow(10, fmin(fmax(digits - 2, -6), 0)));
}

static char *
percent_html(double share)
{
	return psprintf("%s%%", number_label(100 * share, 0.1));
}

static void
begin_page(HtmlPage *page, const char *title)
{
	add(page, head);
	appendStringInfo(&page->html, "<title>%s</title>\n", title);
	add(page, style);
	add(page, "</head>\n<body>\n<main>\n");
}

static void
begin_card(HtmlPage *page, const char *heading)
{
	/* those who cannot use a mouse must be able to scroll it */
	appendStringInfo(&page->html,
					 "<section>\n<h2>%s</h2>\n"
					 "<div class=\"card\" tabindex=\"0\" role=\"group\" aria-label=\"%s\">\n",
					 heading, heading);
}

static void
end_card(HtmlPage *page)
{
	add(page, "</div>\n</section>\n");
}

/* ----------
 * Results of queries
 * ----------
 */

/*
 * Run a query about a bandit; the result is in SPI_tuptable.  $1 is the bandit's name,
 * or null, and $2 how many rows are wanted.  %s is the schema of the extension.
 */
static void
run_query(HtmlPage *page, const char *sql, text *bandit, int limit)
{
	StringInfoData query;
	Oid			types[] = {TEXTOID, INT4OID};
	Datum		values[] = {PointerGetDatum(bandit), Int32GetDatum(limit)};
	char		nulls[] = {bandit == NULL ? 'n' : ' ', ' ', '\0'};

	initStringInfo(&query);
	for (const char *c = sql; *c != '\0'; c++)
	{
		if (c[0] == '%' && c[1] == 's')
		{
			appendStringInfoString(&query, page->schema);
			c++;
		}
		else
			appendStringInfoChar(&query, *c);
	}
	if (SPI_execute_with_args(query.data, lengthof(values), types, values, nulls,
							  true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not execute: %s", query.data);
}

static Datum
value(uint64 row, int column, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, isnull);
}

/*
 * Return a number of the result, NaN for null.
 */
static double
number(uint64 row, int column)
{
	bool		isnull;
	Datum		datum = value(row, column, &isnull);

	return isnull ? get_float8_nan() : DatumGetFloat8(datum);
}

/*
 * Add a bar of several shares.
 */
static void
add_shares(HtmlPage *page, ArrayType *array)
{
	Datum	   *shares;
	int			n;

	deconstruct_array(array, FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
					  &shares, NULL, &n);
	add(page, "<span class=\"shares\" aria-hidden=\"true\">");
	for (int i = 0; i < n; i++)
		appendStringInfo(&page->html, "<span style=\"width: %.1f%%; background: var(--c%d)\"></span>",
						 100 * DatumGetFloat8(shares[i]), Min(i + 1, PLOT_COLOURS));
	add(page, "</span>");
}

/*
 * Add an interval, and draw it between the least and the largest number of its column.
 */
static void
add_interval(HtmlPage *page, uint64 row, int column)
{
	double		low = number(row, column + 1);
	double		high = number(row, column + 2);
	double		least = get_float8_nan();
	double		most = get_float8_nan();

	for (uint64 i = 0; i < SPI_processed; i++)
	{
		least = fmin(least, number(i, column + 1));
		most = fmax(most, number(i, column + 2));
	}
	appendStringInfo(&page->html, "%s to %s", number_html(low), number_html(high));
	if (most > least)
		appendStringInfo(&page->html,
						 "<span class=\"range\" aria-hidden=\"true\">"
						 "<span style=\"left: %.1f%%; width: %.1f%%\"></span></span>",
						 100 * (low - least) / (most - least), 100 * (high - low) / (most - least));
}

/*
 * Return the heading of a field: "mean loss" is "mean reward" if rewards are the goal.
 */
static const char *
heading_of(const HtmlPage *page, const Field *field)
{
	const char *loss = " loss";

	if (!page->reward || !pg_str_endswith(field->heading, loss))
		return field->heading;
	return psprintf("%.*s reward", (int) (strlen(field->heading) - strlen(loss)), field->heading);
}

/*
 * Add the value of a field, which begins with this column of the result.
 */
static void
add_field(HtmlPage *page, FieldKind kind, uint64 row, int column)
{
	bool		isnull;
	Datum		datum = value(row, column, &isnull);

	if (isnull)
	{
		add(page, "&#8211;");
		return;
	}
	switch (kind)
	{
		case FIELD_NAME:
			add_name(page, DatumGetTextPP(datum), NAME_WIDTH);
			break;
		case FIELD_TEXT:
			add_name(page, DatumGetTextPP(datum), TEXT_WIDTH);
			break;
		case FIELD_COUNT:
			add(page, number_label((double) DatumGetInt64(datum), 1));
			break;
		case FIELD_NUMBER:
		case FIELD_INTERVAL:
			add(page, number_html(DatumGetFloat8(datum)));
			break;
		case FIELD_PERCENT:
			add(page, percent_html(DatumGetFloat8(datum)));
			break;
		case FIELD_SHARE:
			appendStringInfo(&page->html,
							 "%s<span class=\"bar\" aria-hidden=\"true\" style=\"width: %.1f%%\"></span>",
							 percent_html(DatumGetFloat8(datum)), 100 * DatumGetFloat8(datum));
			break;
		case FIELD_SHARES:
			add_shares(page, DatumGetArrayTypeP(datum));
			break;
	}
}

/*
 * Add the first row of the result, as terms and what they are.
 */
static void
add_facts(HtmlPage *page, const Field *fields, int nfields)
{
	add(page, "<dl>\n");
	for (int i = 0; i < nfields && SPI_processed > 0; i++)
	{
		bool		isnull;

		value(0, i + 1, &isnull);
		if (isnull)
			continue;
		appendStringInfo(&page->html, "<div><dt>%s</dt><dd>", heading_of(page, &fields[i]));
		add_field(page, fields[i].kind, 0, i + 1);
		add(page, "</dd></div>\n");
	}
	add(page, "</dl>\n");
}

/*
 * Add a table of the result.  The first field is the name of the row.
 */
static void
add_table(HtmlPage *page, const char *caption, const Field *fields, int nfields)
{
	appendStringInfo(&page->html, "<table>\n<caption>%s</caption>\n<thead><tr>", caption);
	for (int i = 0; i < nfields; i++)
	{
		appendStringInfo(&page->html, "<th scope=\"col\"%s>%s</th>",
						 i > 0 && IS_NUMBER(fields[i].kind) ? " class=\"n\"" : "",
						 heading_of(page, &fields[i]));
		if (fields[i].kind == FIELD_INTERVAL)
			add(page, "<th scope=\"col\">95% interval</th>");
	}
	add(page, "</tr></thead>\n<tbody>\n");
	for (uint64 row = 0; row < SPI_processed; row++)
	{
		int			column = 1;

		CHECK_FOR_INTERRUPTS();
		add(page, "<tr>");
		for (int i = 0; i < nfields; i++)
		{
			FieldKind	kind = fields[i].kind;

			add(page, i == 0 ? "<th scope=\"row\">" :
				IS_NUMBER(kind) ? "<td class=\"n\">" :
				kind == FIELD_NAME ? "<td class=\"name\">" : "<td>");
			add_field(page, kind, row, column++);
			add(page, i == 0 ? "</th>" : "</td>");
			if (kind == FIELD_INTERVAL)
			{
				add(page, "<td>");
				if (isnan(number(row, column)))
					add(page, "&#8211;");
				else
					add_interval(page, row, column - 1);
				add(page, "</td>");
				column += 2;
			}
		}
		add(page, "</tr>\n");
	}
	add(page, "</tbody>\n</table>\n");
}

/*
 * Add a card with a table of what a query finds, if there is anything.
 */
static void
add_table_card(HtmlPage *page, const char *heading, const char *sql, text *bandit, int limit,
			   const char *caption, const Field *fields, int nfields)
{
	run_query(page, sql, bandit, limit);
	if (SPI_processed == 0)
		return;
	begin_card(page, heading);
	add_table(page, caption, fields, nfields);
	end_card(page);
}

/*
 * Add what is advised, if there is anything: the result has a bandit's name, or null, how
 * severe it is, and the advice.
 */
static void
add_advice(HtmlPage *page)
{
	if (SPI_processed == 0)
		return;
	begin_card(page, "Advice");
	add(page, "<ul>\n");
	for (uint64 row = 0; row < SPI_processed; row++)
	{
		bool		isnull;
		Datum		name = value(row, 1, &isnull);

		add(page, "<li>");
		if (!isnull)
		{
			add_name(page, DatumGetTextPP(name), NAME_WIDTH);
			add(page, ": ");
		}
		appendStringInfo(&page->html, "<span class=\"%s\">%s</span>: ",
						 SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, 2),
						 SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, 2));
		add_field(page, FIELD_TEXT, row, 3);
		add(page, "</li>\n");
	}
	add(page, "</ul>\n");
	end_card(page);
}

/* The mean outcome of bandit o.bandit, in the unit of its goal, as the report has it. */
#define MEAN_OUTCOME \
"  CROSS JOIN LATERAL (" \
"   SELECT dexp3.ratio(" \
"    sum(CASE unit WHEN 'reward' THEN mean_reward ELSE mean_loss END * (settled - left_out))," \
"    sum((settled - left_out)::float8)) AS mean" \
"   FROM %s.bandit_report(o.bandit)) m"

/* ----------
 * One bandit
 * ----------
 */

static const char *const advice_query =
"SELECT NULL::text, severity, advice FROM %s.bandit_advice($1) LIMIT $2";

static const char *const facts_query =
"SELECT o.rounds, o.rounds - o.open - o.skipped - o.expired, o.open, nullif(o.expired, 0), nullif(o.skipped, 0),"
"  CASE b.goal WHEN 'reward' THEN o.total_reward ELSE o.total_loss END, m.mean, o.regret_estimate,"
"  nullif(o.warnings, 0),"
"  to_char(o.last_decision, 'YYYY-MM-DD HH24:MI TZ'), to_char(o.last_feedback, 'YYYY-MM-DD HH24:MI TZ'),"
"  b.feedback_window::text, b.half_life::text, b.retention::text"
" FROM dexp3.overview o JOIN dexp3.bandit b ON b.name = o.bandit"
MEAN_OUTCOME
" WHERE o.bandit = $1";

static const Field facts[] = {
	{"decisions", FIELD_COUNT},
	{"with feedback", FIELD_COUNT},
	{"open", FIELD_COUNT},
	{"expired", FIELD_COUNT},
	{"skipped", FIELD_COUNT},
	{"total loss", FIELD_NUMBER},
	{"mean loss", FIELD_NUMBER},
	{"regret estimate", FIELD_NUMBER},
	{"warnings in a week", FIELD_COUNT},
	{"last decision", FIELD_TEXT},
	{"last feedback", FIELD_TEXT},
	{"feedback window", FIELD_TEXT},
	{"half-life", FIELD_TEXT},
	{"retention", FIELD_TEXT},
};

static const char *const arms_query =
"SELECT arm, probability, decisions, settled, open,"
"  CASE unit WHEN 'reward' THEN mean_reward ELSE mean_loss END, estimate,"
"  CASE WHEN estimate IS NOT NULL THEN estimate_low END, CASE WHEN estimate IS NOT NULL THEN estimate_high END"
" FROM (SELECT *, row_number() OVER () AS n FROM %s.bandit_report($1, all_nodes => true)) r"
" ORDER BY probability DESC, n LIMIT $2";

static const Field arms[] = {
	{"arm", FIELD_NAME},
	{"share now", FIELD_SHARE},
	{"decisions", FIELD_COUNT},
	{"with outcome", FIELD_COUNT},
	{"open", FIELD_COUNT},
	{"mean loss", FIELD_NUMBER},
	{"estimate", FIELD_INTERVAL},
};

static const char *const left_out_query =
"SELECT coalesce(sum(left_out), 0)::bigint FROM %s.bandit_report($1, all_nodes => true)";

static const char *const pending_query =
"WITH age AS ("
"  SELECT width_bucket(extract(epoch FROM statement_timestamp() - decided_at)::float8,"
"   ARRAY[60, 3600, 86400, 2592000]::float8[]) AS class"
"  FROM dexp3.pending WHERE bandit = $1)"
" SELECT (ARRAY['less than a minute', 'less than an hour', 'less than a day', 'less than 30 days', 'longer'])[class + 1],"
"  count(*),"
"  count(*) / sum(count(*)) OVER ()::float8"
" FROM age GROUP BY class ORDER BY class LIMIT $2";

static const Field pending[] = {
	{"waiting for", FIELD_TEXT},
	{"decisions", FIELD_COUNT},
	{"share", FIELD_SHARE},
};

static const char *const delays_query =
"SELECT quantile, rounds, date_trunc('milliseconds', duration)::text"
" FROM %s.bandit_delays($1) LIMIT $2";

static const Field delays[] = {
	{"share", FIELD_PERCENT},
	{"decisions", FIELD_COUNT},
	{"time", FIELD_TEXT},
};

static const char *const nodes_query =
"SELECT node || CASE WHEN own THEN ' (this one)' ELSE '' END, rounds, settled,"
"  date_trunc('seconds', age)::text, CASE WHEN counts THEN 'yes' ELSE coalesce('no: ' || why, 'no') END"
" FROM dexp3.nodes WHERE bandit = $1 ORDER BY node LIMIT $2";

static const Field nodes[] = {
	{"server", FIELD_TEXT},
	{"decisions", FIELD_COUNT},
	{"with outcome", FIELD_COUNT},
	{"age of its sums", FIELD_TEXT},
	{"counts here", FIELD_TEXT},
};

static void
add_chart(HtmlPage *page, text *name, const char *kind, const char *title)
{
	appendStringInfo(&page->html,
					 "<figure class=\"card\" tabindex=\"0\" aria-label=\"%s\">\n%s</figure>\n",
					 title, chart_document(name, kind, title));
}

static void
write_bandit(HtmlPage *page, text *name)
{
	const Bandit *bandit = bandit_by_name(name, BANDIT_USE);
	const char *algorithm = algorithm_name(bandit->params.algorithm);
	bool		self_tuned = bandit->params.algorithm == SELF_TUNED;
	bool		shared = bandit->shared;
	int			narms = bandit->params.arms;
	int64		decisions;
	int64		left_out;
	bool		isnull;

	page->reward = bandit->goal == GOAL_REWARD;
	begin_page(page, xml_text(name, NAME_WIDTH));
	add(page, "<h1>");
	add_name(page, name, NAME_WIDTH);
	appendStringInfo(&page->html, "</h1>\n<p class=\"muted\">a bandit with %d arms, %s%s</p>\n",
					 narms, algorithm, page->reward ? ", for rewards" : "");

	run_query(page, advice_query, name, MAX_ADVICE);
	add_advice(page);

	begin_card(page, "At a glance");
	run_query(page, facts_query, name, 1);
	decisions = DatumGetInt64(value(0, 1, &isnull));
	add_facts(page, facts, lengthof(facts));
	end_card(page);

	begin_card(page, "Arms");
	run_query(page, arms_query, name, MAX_ARMS);
	add_table(page, shared ? "What is known about each arm on all servers, the most probable first" :
			  "What is known about each arm, the most probable first", arms, lengthof(arms));
	if (narms > MAX_ARMS)
		appendStringInfo(&page->html, "<p class=\"muted\">and %s more</p>\n",
						 number_label(narms - MAX_ARMS, 1));
	run_query(page, left_out_query, name, 1);
	left_out = DatumGetInt64(value(0, 1, &isnull));
	if (left_out > 0)
		appendStringInfo(&page->html,
						 "<p class=\"muted\">Means and estimates are without the last %s outcomes: "
						 "the feedback window of earlier decisions is still open.</p>\n",
						 number_label((double) left_out, 1));
	end_card(page);

	if (shared)
		add_table_card(page, "Servers", nodes_query, name, MAX_NODES,
					   "The servers that share the bandit; everything else here but the arms is about this one",
					   nodes, lengthof(nodes));

	if (decisions == 0)
		return;
	add(page, "<section>\n<h2>In the course of time</h2>\n");
	add_chart(page, name, "share", "Shares");
	add_chart(page, name, "loss", page->reward ? "Rewards" : "Losses");
	if (self_tuned)
		add_chart(page, name, "regret", "Regret estimate");
	add_chart(page, name, "delay", "Delays");
	add(page, "</section>\n");

	add_table_card(page, "How long feedback takes", delays_query, name, MAX_DELAYS,
				   "The newest feedback came within so many decisions, and within this time",
				   delays, lengthof(delays));
	add_table_card(page, "Open decisions", pending_query, name, MAX_PENDING,
				   "By how long their feedback has been waited for", pending, lengthof(pending));
}

/* ----------
 * All bandits
 * ----------
 */

static const char *const glance_query =
"SELECT o.bandit, p.best, p.share, p.shares, o.rounds, o.open,"
"  m.mean, coalesce(b.goal, 'loss'),"
"  dexp3.ratio(o.regret_estimate, o.rounds * (b.loss_range[2] - b.loss_range[1])),"
"  to_char(o.last_feedback, 'YYYY-MM-DD HH24:MI'), o.algorithm"
" FROM dexp3.overview o JOIN dexp3.bandit b ON b.name = o.bandit"
MEAN_OUTCOME
"  CROSS JOIN LATERAL ("
"   SELECT (array_agg(arm ORDER BY q.probability DESC NULLS LAST, a.n))[1] AS best, max(q.probability) AS share,"
"    CASE WHEN count(*) <= 8 THEN array_agg(coalesce(q.probability, 0) ORDER BY a.n)"
"     ELSE (array_agg(q.probability ORDER BY q.probability DESC NULLS LAST))[1:8] END AS shares"
"   FROM unnest(b.arms) WITH ORDINALITY AS a (arm, n) LEFT JOIN %s.bandit_probabilities(o.bandit) q USING (arm)) p"
" WHERE o.bandit IN (SELECT name FROM dexp3.bandit ORDER BY name LIMIT $2)"
" ORDER BY o.bandit";

static const Field glance[] = {
	{"bandit", FIELD_NAME},
	{"most probable arm", FIELD_NAME},
	{"its share", FIELD_PERCENT},
	{"shares", FIELD_SHARES},
	{"decisions", FIELD_COUNT},
	{"open", FIELD_COUNT},
	{"mean outcome", FIELD_NUMBER},
	{"unit", FIELD_TEXT},
	{"regret estimate", FIELD_PERCENT},
	{"last feedback", FIELD_TEXT},
	{"learner", FIELD_TEXT},
};

static const char *const all_advice_query =
"SELECT bandit, severity, advice FROM %s.bandit_advice() LIMIT $2";

static void
write_all(HtmlPage *page)
{
	int64		bandits;
	bool		isnull;

	run_query(page, "SELECT count(*) FROM dexp3.bandit", NULL, 1);
	bandits = DatumGetInt64(value(0, 1, &isnull));

	begin_page(page, "Bandits");
	appendStringInfo(&page->html, "<h1>Bandits</h1>\n<p class=\"muted\">%s</p>\n",
					 bandits == 0 ? "none yet" :
					 bandits == 1 ? "one bandit" :
					 psprintf("%s bandits", number_label((double) bandits, 1)));
	if (bandits == 0)
		return;
	run_query(page, all_advice_query, NULL, MAX_ADVICE);
	add_advice(page);

	begin_card(page, "At a glance");
	run_query(page, glance_query, NULL, MAX_BANDITS);
	add_table(page, "The regret estimate is a share of what could have been lost in all decisions",
			  glance, lengthof(glance));
	if (bandits > MAX_BANDITS)
		appendStringInfo(&page->html, "<p class=\"muted\">and %s more</p>\n",
						 number_label((double) (bandits - MAX_BANDITS), 1));
	end_card(page);
}

/*
 * bandit_page(bandit)
 */
Datum
bandit_page(PG_FUNCTION_ARGS)
{
	HtmlPage	page;
	bool		isnull;

	initStringInfo(&page.html);
	page.reward = false;
	page.schema = quote_identifier(get_namespace_name(get_func_namespace(fcinfo->flinfo->fn_oid)));

	SPI_connect();
	if (PG_ARGISNULL(0))
		write_all(&page);
	else
		write_bandit(&page, PG_GETARG_TEXT_PP(0));

	run_query(&page,
			  "SELECT current_user::text, current_database()::text,"
			  "  to_char(statement_timestamp(), 'YYYY-MM-DD HH24:MI:SS TZ')", NULL, 1);
	add(&page, "</main>\n<footer>\n<p>What ");
	add_name(&page, DatumGetTextPP(value(0, 1, &isnull)), NAME_WIDTH);
	add(&page, " may see in the database ");
	add_name(&page, DatumGetTextPP(value(0, 2, &isnull)), NAME_WIDTH);
	add(&page, ", at ");
	add_name(&page, DatumGetTextPP(value(0, 3, &isnull)), NAME_WIDTH);
	add(&page, ". Made by dexp3.</p>\n</footer>\n</body>\n</html>\n");
	SPI_finish();

	PG_RETURN_TEXT_P(cstring_to_text(page.html.data));
}
