/*
 * chart.c
 *	  Charts of how a managed bandit is doing.
 *
 * They show what is in the log of the current epoch, and read it with the rights
 * of whoever asks.  Everything is counted in a grid of columns (rounds, or
 * delays) and series (arms, or what became of a decision) by one query, so that a
 * chart does not become larger with the log.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/float.h"

#include "arguments.h"
#include "bandit.h"
#include "chart.h"
#include "sums.h"
#include "svg.h"

PG_FUNCTION_INFO_V1(bandit_chart);

#define MAX_COLUMNS		100		/* more than there are bars of delays */

/* Series of arms: with more arms than colours, the last one is all others. */
#define MAX_SERIES		PLOT_COLOURS

/* A line has at most this many points, each the mean of at least this many outcomes. */
#define LINE_POINTS		25
#define LINE_OUTCOMES	40

/* Up to this, each delay has a bar of its own; shorter axes look odd. */
#define LONGEST_EXACT_DELAY		30
#define LEAST_LONGEST_DELAY		9

/* The least part of the range of losses that a chart shows. */
#define LEAST_RANGE		0.05

/* How long names may be, in columns of a terminal. */
#define TITLE_WIDTH		60
#define LEGEND_WIDTH	18

/* One column of one series: decisions, and the sum of something about them. */
typedef struct Cell
{
	int64		count;
	double		sum;
} Cell;

typedef struct Chart
{
	int32		bandit_id;
	int32		epoch;
	double		loss_low;		/* the range of losses, and of rewards */
	double		loss_high;
	bool		self_tuned;
	int			playable;		/* the number of arms that have not retired */
	bool		rewards;		/* are outcomes shown as rewards? */
	bool		best_first;		/* is the best arm on top of the legend? */

	/* what is in the log */
	int64		decisions;
	int64		first_round;
	int64		last_round;
	char	   *since;
	char	   *until;
	int64		first_open;		/* with a feedback window: its round, or 0 */
	bool		has_dashed;		/* is something drawn of what comes after it? */
	int64		trimmed;		/* decisions that are not in the log any more */
	Datum		arms;			/* numbers of the arms shown, an array */
	int			narms;
	char	   *names[MAX_SERIES];	/* of the series of arms, as XML */

	/* the grid: rows of cells for all series, and then their sum */
	int			nseries;
	int			ncolumns;
	Cell	   *cells;
	Column		columns[MAX_COLUMNS];

	Plot		plot;
} Chart;

/*
 * What is there?  $1 bandit_id, $2 epoch, $3 how many arms to show: those that
 * were chosen most.
 */
static const char *const contents_query =
"WITH chosen AS ("
"  SELECT arm, count(*) AS decisions, min(round) AS first, max(round) AS last,"
"   min(decided_at) AS since, max(decided_at) AS until"
"  FROM dexp3.decision WHERE bandit_id = $1 AND epoch = $2 GROUP BY arm),"
" shown AS ("
"  SELECT a.arm::integer, a.name"
"  FROM dexp3.bandit b CROSS JOIN LATERAL unnest(b.arms) WITH ORDINALITY AS a (name, arm)"
"   LEFT JOIN chosen c ON c.arm = a.arm"
"  WHERE b.bandit_id = $1 ORDER BY coalesce(c.decisions, 0) DESC, a.arm LIMIT $3)"
" SELECT coalesce(sum(decisions), 0)::bigint, min(first), max(last),"
"  to_char(min(since), 'YYYY-MM-DD HH24:MI'), to_char(max(until), 'YYYY-MM-DD HH24:MI'),"
"  (SELECT coalesce(sum(rounds), 0)::bigint FROM dexp3.trimmed"
"   WHERE bandit_id = $1 AND epoch = $2),"
"  (SELECT coalesce(array_agg(arm ORDER BY arm), '{}') FROM shown),"
"  (SELECT coalesce(array_agg(name ORDER BY arm), '{}') FROM shown)"
" FROM chosen";

/*
 * The grids: column, series, count and sum of losses.  $1 bandit_id, $2 epoch, $3
 * first round, $4 number of rounds, $5 number of columns, $6 the arms shown.
 */
static const char *const share_query =
"SELECT ((round - $3) * $5 / $4)::integer,"
"  coalesce(array_position($6, arm) - 1, cardinality($6)), count(*), 0::float8"
" FROM dexp3.decision WHERE bandit_id = $1 AND epoch = $2 GROUP BY 1, 2";

static const char *const outcome_query =
"SELECT ((round - delay - $3) * $5 / $4)::integer,"
"  coalesce(array_position($6, arm) - 1, cardinality($6)), count(*), sum(loss)"
" FROM dexp3.settled WHERE bandit_id = $1 AND epoch = $2 AND loss IS NOT NULL GROUP BY 1, 2";

/*
 * The series are what self-tuned needs to tell its regret: the inverse of its gamma,
 * and the open decisions.
 */
static const char *const regret_query =
"SELECT ((round - $3) * $5 / $4)::integer, series, count(*),"
"  coalesce(sum(CASE series WHEN 0 THEN 1 / nullif(gamma, 0) ELSE outstanding END), 0)"
" FROM dexp3.decision CROSS JOIN generate_series(0, 1) AS series"
" WHERE bandit_id = $1 AND epoch = $2 AND $6 IS NOT NULL GROUP BY 1, 2";

/* $3 the least delay in each column. */
static const char *const delay_query =
"SELECT width_bucket(delay::float8, $3) - 1,"
"  CASE WHEN loss IS NULL THEN 2 WHEN expired THEN 1 ELSE 0 END, count(*), 0::float8"
" FROM dexp3.settled WHERE bandit_id = $1 AND epoch = $2 GROUP BY 1, 2";

static const char *const longest_delay_query =
"SELECT coalesce(max(delay), -1)::float8 FROM dexp3.settled WHERE bandit_id = $1 AND epoch = $2";

/*
 * Run a query; the result is in SPI_tuptable.  All queries of a chart see what
 * the calling statement sees.
 */
static void
run_query(const char *sql, int nargs, Oid *types, Datum *values)
{
	if (SPI_execute_with_args(sql, nargs, types, values, NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not execute: %s", sql);
}

static Datum
result_value(uint64 row, int column)
{
	bool		isnull;

	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, &isnull);
}

/*
 * Find out what is in the log.
 */
static void
read_contents(Chart *chart, int arms)
{
	bool		others = arms > MAX_SERIES;
	Oid			types[] = {INT4OID, INT4OID, INT4OID};
	Datum		values[] = {
		Int32GetDatum(chart->bandit_id),
		Int32GetDatum(chart->epoch),
		Int32GetDatum(others ? MAX_SERIES - 1 : arms)
	};
	Datum	   *names;

	run_query(contents_query, lengthof(values), types, values);
	chart->decisions = DatumGetInt64(result_value(0, 1));
	chart->trimmed = DatumGetInt64(result_value(0, 6));
	if (chart->decisions == 0)
		return;

	chart->first_round = DatumGetInt64(result_value(0, 2));
	chart->last_round = DatumGetInt64(result_value(0, 3));
	chart->since = TextDatumGetCString(result_value(0, 4));
	chart->until = TextDatumGetCString(result_value(0, 5));
	chart->arms = result_value(0, 7);
	deconstruct_array(DatumGetArrayTypeP(result_value(0, 8)), TEXTOID, -1, false,
					  TYPALIGN_INT, &names, NULL, &chart->narms);
	for (int i = 0; i < chart->narms; i++)
		chart->names[i] = xml_text(DatumGetTextPP(names[i]), LEGEND_WIDTH);
	if (others)
	{
		chart->names[chart->narms] = psprintf("%d others", arms - chart->narms);
		chart->narms++;
	}
}

static Cell *
series_cells(const Chart *chart, int series)
{
	return &chart->cells[(Size) series * chart->ncolumns];
}

static Cell
range_total(const Chart *chart, int series, int begin, int end)
{
	Cell	   *cells = series_cells(chart, series);
	Cell		total = {0};

	for (int i = begin; i < end; i++)
	{
		total.count += cells[i].count;
		total.sum += cells[i].sum;
	}
	return total;
}

static Cell
series_total(const Chart *chart, int series)
{
	return range_total(chart, series, 0, chart->ncolumns);
}

/*
 * Return how many columns have only decisions before the first open one: all outcomes of
 * these are known.
 */
static int
complete_columns(const Chart *chart)
{
	int			n = 0;

	while (n < chart->ncolumns &&
		   (chart->first_open == 0 || chart->columns[n].right < chart->first_open))
		n++;
	return n;
}

/*
 * Sum up the outcomes of a series that are complete or, if there are none, all.
 */
static Cell
known_total(const Chart *chart, int series)
{
	Cell		known = range_total(chart, series, 0, complete_columns(chart));

	return known.count > 0 ? known : series_total(chart, series);
}

/*
 * Fill the grid with the result of a query.
 */
static void
read_cells(Chart *chart)
{
	Cell	   *all;

	chart->cells = palloc0(sizeof(Cell) * (chart->nseries + 1) * chart->ncolumns);
	all = series_cells(chart, chart->nseries);
	for (uint64 row = 0; row < SPI_processed; row++)
	{
		int			column = DatumGetInt32(result_value(row, 1));
		int			series = DatumGetInt32(result_value(row, 2));
		Cell		cell = {
			.count = DatumGetInt64(result_value(row, 3)),
			.sum = DatumGetFloat8(result_value(row, 4))
		};

		/* somebody may have changed rows of the log */
		if (column < 0 || column >= chart->ncolumns || series >= chart->nseries)
			continue;
		series_cells(chart, series)[column] = cell;
		all[column].count += cell.count;
		all[column].sum += cell.sum;
	}
}

/*
 * Count by rounds and series.  There are about as many columns as decisions in each
 * of them.
 */
static void
read_rounds(Chart *chart, const char *sql, int nseries)
{
	int64		before = chart->first_round - 1;
	int64		rounds = chart->last_round - before;
	int			columns = (int) fmin(sqrt((double) chart->decisions), Min(rounds, MAX_COLUMNS));
	Oid			types[] = {INT4OID, INT4OID, INT8OID, INT8OID, INT4OID, INT4ARRAYOID};
	Datum		values[] = {
		Int32GetDatum(chart->bandit_id),
		Int32GetDatum(chart->epoch),
		Int64GetDatum(chart->first_round),
		Int64GetDatum(rounds),
		Int32GetDatum(columns),
		chart->arms
	};

	run_query(sql, lengthof(values), types, values);
	chart->nseries = nseries;
	chart->ncolumns = columns;
	read_cells(chart);
	for (int i = 0; i < columns; i++)
	{
		chart->columns[i].left = before + (double) rounds * i / columns;
		chart->columns[i].right = before + (double) rounds * (i + 1) / columns;
	}
	chart->plot.x = plot_scale(before, chart->last_round, 1, 6);
}

static void
draw_nothing(Chart *chart, const char *what)
{
	plot_message(&chart->plot,
				 psprintf("no %s %s", what, chart->trimmed > 0 ? "left" : "yet"));
}

static void
draw_round_axis(Chart *chart)
{
	plot_x_axis(&chart->plot);
	plot_x_title(&chart->plot, chart->since, "round", chart->until);
}

/*
 * Draw the share of each arm in the decisions, the first arm on top.
 */
static void
draw_share(Chart *chart)
{
	Plot	   *plot = &chart->plot;
	Cell	   *all;

	read_rounds(chart, share_query, chart->narms);
	all = series_cells(chart, chart->nseries);
	plot->y = plot_scale(0, 100, 1, 5);
	for (int arm = chart->narms - 1; arm >= 0; arm--)
	{
		Cell	   *cells = series_cells(chart, arm);

		for (int i = 0; i < chart->ncolumns; i++)
		{
			chart->columns[i].low = chart->columns[i].high;
			chart->columns[i].high += all[i].count > 0 ?
				100.0 * cells[i].count / all[i].count : get_float8_nan();
		}
		plot_area(plot, arm + 1, chart->columns, chart->ncolumns);
	}
	for (int arm = 0; arm < chart->narms; arm++)
		plot_legend(plot, arm + 1, chart->names[arm],
					psprintf("%s%%", number_label(100.0 * series_total(chart, arm).count /
												  chart->decisions, 0.1)));
	plot_y_axis(plot, "%");
	draw_round_axis(chart);
}

/*
 * Make a line of the mean outcomes of a series in some columns, and return the number of
 * points.
 *
 * Each point stands for about the same number of them, so that arms that are
 * seldom chosen have fewer points, not wilder ones.
 */
static int
mean_outcomes(const Chart *chart, int series, int begin, int end, Point *points)
{
	Cell	   *cells = series_cells(chart, series);
	int64		left = range_total(chart, series, begin, end).count;
	int64		wanted = Max(left / LINE_POINTS, LINE_OUTCOMES);
	Cell		sum = {0};
	double		x = 0;
	int			n = 0;

	for (int i = begin; i < end; i++)
	{
		sum.count += cells[i].count;
		sum.sum += cells[i].sum;
		x += cells[i].count * (chart->columns[i].left + chart->columns[i].right) / 2;
		left -= cells[i].count;
		/* what is left over at the end belongs to the last point */
		if (left == 0 ? sum.count > 0 : sum.count >= wanted && left >= wanted)
		{
			points[n].x = x / sum.count;
			points[n].y = sum.sum / sum.count;
			n++;
			memset(&sum, 0, sizeof(sum));
			x = 0;
		}
	}
	if (n == 1)
	{
		points[1].x = chart->columns[end - 1].right;
		points[1].y = points[0].y;
		points[0].x = chart->columns[begin].left;
		n = 2;
	}
	return n;
}

/*
 * Turn the losses in the grid into rewards.
 */
static void
mirror_cells(Chart *chart)
{
	for (int i = 0; i < (chart->nseries + 1) * chart->ncolumns; i++)
	{
		Cell	   *cell = &chart->cells[i];

		cell->sum = cell->count * (chart->loss_low + chart->loss_high) - cell->sum;
	}
}

static void
add_outcome_legend(Chart *chart, int colour, int series)
{
	Cell		total = known_total(chart, series);

	plot_legend(&chart->plot, colour, colour == PLOT_MAIN ? "all arms" : chart->names[series],
				total.count == 0 ? "no feedback" :
				psprintf("%s on average", number_label(total.sum / total.count,
													   chart->plot.y.step / 10)));
}

/*
 * Add the arms to the legend: those with outcomes first and, if the bandit has a goal,
 * the best of them on top.
 */
static void
add_outcome_legends(Chart *chart)
{
	int			narms = chart->narms;
	int			order[MAX_SERIES];

	for (int arm = 0; arm < narms; arm++)
	{
		Cell		total = known_total(chart, arm);
		int			place = arm;

		for (; place > 0 && chart->best_first && total.count > 0; place--)
		{
			Cell		above = known_total(chart, order[place - 1]);
			double		difference = above.count == 0 ? 1 :
				above.sum / above.count - total.sum / total.count;

			if (above.count > 0 && (chart->rewards ? difference >= 0 : difference <= 0))
				break;
			order[place] = order[place - 1];
		}
		order[place] = arm;
	}
	for (int i = 0; i < narms; i++)
		add_outcome_legend(chart, order[i] + 1, order[i]);
}

/*
 * Draw the mean loss, or reward, of each arm, and of all.
 */
static void
draw_outcome(Chart *chart)
{
	Plot	   *plot = &chart->plot;

	/* of what is complete, and of the rest */
	Point		points[2][MAX_SERIES + 1][LINE_POINTS + 1];
	int			npoints[2][MAX_SERIES + 1];
	int			complete;
	double		range = chart->loss_high - chart->loss_low;
	double		low = chart->loss_high;
	double		high = chart->loss_low;
	double		middle;

	read_rounds(chart, outcome_query, chart->narms);
	if (chart->rewards)
		mirror_cells(chart);
	if (series_total(chart, chart->nseries).count == 0)
	{
		draw_nothing(chart, "feedback");
		return;
	}
	complete = complete_columns(chart);
	for (int part = 0; part < 2; part++)
	{
		for (int series = 0; series <= chart->nseries; series++)
		{
			int			n = mean_outcomes(chart, series, part == 0 ? 0 : complete,
										  part == 0 ? complete : chart->ncolumns,
										  points[part][series]);

			npoints[part][series] = n;
			for (int i = 0; i < n; i++)
			{
				low = fmin(low, points[part][series][i].y);
				high = fmax(high, points[part][series][i].y);
			}
		}
	}
	/* what differs by little should look so */
	middle = (low + high) / 2;
	low = fmax(fmin(low, middle - range * LEAST_RANGE / 2), chart->loss_low);
	high = fmin(fmax(high, middle + range * LEAST_RANGE / 2), chart->loss_high);

	plot->y = plot_rounded(plot_scale(low, high, 0, 5));
	plot_y_axis(plot, "");
	draw_round_axis(chart);
	/* the line of all arms is broad, so it comes first */
	for (int colour = PLOT_MAIN; colour <= chart->nseries; colour++)
	{
		int			series = (colour + chart->nseries) % (chart->nseries + 1);

		plot_line(plot, colour, points[0][series], npoints[0][series], false);
		if (npoints[1][series] > 0)
		{
			plot_line(plot, colour, points[1][series], npoints[1][series], true);
			chart->has_dashed = true;
		}
	}
	add_outcome_legend(chart, PLOT_MAIN, chart->nseries);
	add_outcome_legends(chart);
}

/*
 * The least delay in a column: they hold one delay each, or ever more of them.
 */
static double
delay_bound(bool exact, int column)
{
	static const double mantissas[] = {1, 1.5, 2, 3, 5, 7};
	int			exponent = column / lengthof(mantissas);

	/* there is no delay of 1.5, so 2 comes after 1 */
	if (exact || column <= 1)
		return column;
	return pow(10, exponent) * mantissas[column % lengthof(mantissas)];
}

/*
 * Make columns and an axis for delays up to the longest.  Returns the least delay
 * in each column, as an array.
 */
static Datum
delay_columns(Chart *chart, double longest)
{
	bool		exact = longest <= LONGEST_EXACT_DELAY;
	double		bounds[MAX_COLUMNS];
	int			n = 0;
	int			every;

	if (exact)
		longest = fmax(longest, LEAST_LONGEST_DELAY);
	while (delay_bound(exact, n) <= longest && n < MAX_COLUMNS)
	{
		memset(&chart->columns[n], 0, sizeof(Column));
		chart->columns[n].left = n;
		chart->columns[n].right = n + 1;
		bounds[n] = delay_bound(exact, n);
		n++;
	}
	chart->ncolumns = n;
	memset(&chart->plot.x, 0, sizeof(Scale));
	chart->plot.x.high = n;

	/*
	 * ticks are below columns of one delay; else between them, at 2, 5 and
	 * 10, or at 10 only
	 */
	if (exact)
		every = n <= 20 ? 1 : 5;
	else
		every = n <= 24 ? 2 : 6;
	for (int i = 0; i < n; i += every)
		plot_x_tick(&chart->plot, exact ? i + 0.5 : i, number_label(delay_bound(exact, i), 1));
	plot_x_title(&chart->plot, "", "delay in rounds", "");
	return number_array(bounds, 1, n);
}

/*
 * Draw how long decisions were waited for.
 */
static void
draw_delay(Chart *chart)
{
	/* the series of the query */
	static const struct
	{
		const char *name;
		int			colour;
	}			outcomes[] = {{"with feedback", 1}, {"expired", 2}, {"skipped", PLOT_COLOURS}};
	Plot	   *plot = &chart->plot;
	Oid			types[] = {INT4OID, INT4OID, FLOAT8ARRAYOID};
	Datum		values[3] = {Int32GetDatum(chart->bandit_id), Int32GetDatum(chart->epoch)};
	int64		most = 0;
	double		longest;

	run_query(longest_delay_query, 2, types, values);
	longest = DatumGetFloat8(result_value(0, 1));
	if (longest < 0)
	{
		draw_nothing(chart, "feedback");
		return;
	}
	values[2] = delay_columns(chart, longest);
	run_query(delay_query, 3, types, values);
	chart->nseries = lengthof(outcomes);
	read_cells(chart);

	for (int i = 0; i < chart->ncolumns; i++)
		most = Max(most, series_cells(chart, chart->nseries)[i].count);
	plot->y = plot_rounded(plot_scale(0, most, 1, 5));
	plot_y_axis(plot, "");
	for (int series = 0; series < chart->nseries; series++)
	{
		Cell	   *cells = series_cells(chart, series);
		int64		total = series_total(chart, series).count;

		if (total == 0)
			continue;
		for (int i = 0; i < chart->ncolumns; i++)
		{
			chart->columns[i].low = chart->columns[i].high;
			chart->columns[i].high += cells[i].count;
		}
		plot_bars(plot, outcomes[series].colour, chart->columns, chart->ncolumns);
		plot_legend(plot, outcomes[series].colour, outcomes[series].name,
					number_label(total, 1));
	}
}

/*
 * Draw what the bandit took its regret to be at each decision.  Its gamma, which tells
 * its step size, and the number of open decisions are stored with each of them.
 */
static void
draw_regret(Chart *chart)
{
	Plot	   *plot = &chart->plot;
	double		range = chart->loss_high - chart->loss_low;
	Point		estimate[MAX_COLUMNS + 1];
	Point		open[MAX_COLUMNS + 1];
	double		highest = 0;
	int			n = 0;

	if (!chart->self_tuned)
	{
		plot_message(plot, "only a self-tuned bandit tells its regret");
		return;
	}
	read_rounds(chart, regret_query, 2);
	for (int i = 0; i < chart->ncolumns; i++)
	{
		Cell		inverse_gamma = series_cells(chart, 0)[i];
		Cell		outstanding = series_cells(chart, 1)[i];
		double		middle = (chart->columns[i].left + chart->columns[i].right) / 2;

		if (inverse_gamma.count == 0)
			continue;
		estimate[n].x = open[n].x = middle;
		open[n].y = range * outstanding.sum / outstanding.count;
		estimate[n].y = open[n].y + range *
			fmax(learner_regret_of_gamma(inverse_gamma.sum / inverse_gamma.count,
										 chart->playable), 0);
		estimate[n].y = fmin(estimate[n].y, range * middle);
		open[n].y = fmin(open[n].y, estimate[n].y);
		highest = fmax(highest, estimate[n].y);
		n++;
	}
	if (n == 0)
	{
		draw_nothing(chart, "decisions");
		return;
	}
	/* a line needs two points */
	estimate[n] = estimate[n - 1];
	open[n] = open[n - 1];
	estimate[n].x = open[n].x = plot->x.high;
	n++;

	plot->y = plot_rounded(plot_scale(0, fmax(highest, range), 0, 5));
	plot_y_axis(plot, "");
	draw_round_axis(chart);
	plot_line(plot, PLOT_MAIN, estimate, n, false);
	plot_line(plot, PLOT_COLOURS, open, n, false);
	plot_legend(plot, PLOT_MAIN, "estimate",
				psprintf("%s at the end", number_label(estimate[n - 1].y, plot->y.step / 10)));
	plot_legend(plot, PLOT_COLOURS, "open decisions",
				psprintf("%s of it", number_label(open[n - 1].y, plot->y.step / 10)));
}

/* The kinds of charts, as users name them. */
typedef struct ChartKind
{
	const char *name;
	const char *subtitle;
	const char *reward_subtitle;	/* if it shows rewards */
	void		(*draw) (Chart *chart);
} ChartKind;

static const ChartKind kinds[] =
{
	{"share", "share of each arm in the decisions", NULL, draw_share},
	{"loss", "mean loss, by the round of the decision",
	"mean reward, by the round of the decision", draw_outcome},
	{"reward", "mean loss, by the round of the decision",
	"mean reward, by the round of the decision", draw_outcome},
	{"delay", "decisions by how long their feedback was waited for", NULL, draw_delay},
	{"regret", "what the bandit took its regret to be, in units of loss", NULL, draw_regret},
};

/*
 * Return a chart of a bandit as an SVG document.  Its title is the bandit's name if no
 * other one is given, as XML.
 */
char *
chart_document(text *name, const char *kind, const char *title)
{
	Chart	   *chart = palloc0(sizeof(Chart));
	const Bandit *bandit;
	int			arms;
	size_t		k = 0;

	while (k < lengthof(kinds) && strcmp(kinds[k].name, kind) != 0)
		k++;
	if (k == lengthof(kinds))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown kind of chart: \"%s\"", kind),
				 errhint("The kinds are \"share\", \"loss\", \"reward\", \"delay\" and \"regret\".")));

	/* the queries look up the bandit, too, so keep nothing of it */
	bandit = bandit_by_name(name, BANDIT_USE);
	chart->bandit_id = bandit->bandit_id;
	chart->epoch = bandit->epoch;
	chart->loss_low = bandit->loss_low;
	chart->loss_high = bandit->loss_high;
	chart->self_tuned = bandit->params.algorithm == SELF_TUNED;
	chart->playable = bandit->playable;
	chart->best_first = bandit->goal != GOAL_NOT_SAID;
	/* the goal decides; without one, the name of the chart */
	chart->rewards = kinds[k].reward_subtitle != NULL &&
		(bandit->goal == GOAL_NOT_SAID ? strcmp(kind, "reward") == 0 :
		 bandit->goal == GOAL_REWARD);
	arms = bandit->params.arms;
	plot_init(&chart->plot, title != NULL ? title : xml_text(bandit->name, TITLE_WIDTH),
			  chart->rewards ? kinds[k].reward_subtitle : kinds[k].subtitle);

	if (kinds[k].draw == draw_outcome && bandit->feedback_window != NULL)
	{
		Sums		sums;
		DecisionRow first;

		sums_take_all(&sums, bandit, AccessShareLock);
		if (sums_first_open(&sums, &first))
			chart->first_open = first.ticket.round;
	}

	SPI_connect();
	read_contents(chart, arms);
	if (chart->decisions > 0)
		kinds[k].draw(chart);
	else
		draw_nothing(chart, "decisions");
	if (chart->trimmed > 0 || chart->has_dashed)
		plot_note(&chart->plot,
				  psprintf("%s%s%s",
						   chart->has_dashed ? "dashed: some decisions of that time are still open" : "",
						   chart->trimmed > 0 && chart->has_dashed ? "; " : "",
						   chart->trimmed > 0 ?
						   psprintf("without %s decisions that were trimmed from the log",
									number_label(chart->trimmed, 1)) : ""));
	SPI_finish();
	return plot_document(&chart->plot);
}

/*
 * bandit_chart(bandit, kind)
 */
Datum
bandit_chart(PG_FUNCTION_ARGS)
{
	check_not_null(fcinfo, 0, "bandit");
	check_not_null(fcinfo, 1, "kind");
	PG_RETURN_TEXT_P(cstring_to_text(chart_document(PG_GETARG_TEXT_PP(0),
													text_to_cstring(PG_GETARG_TEXT_PP(1)),
													NULL)));
}
