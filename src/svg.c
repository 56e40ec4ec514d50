/*
 * svg.c
 *	  Charts as SVG documents.
 *
 * A document stands alone.  It has a background, and colours for light and for
 * dark surroundings.  It has no identifiers that could clash with those of a page
 * around it.  Everything is ASCII except the names that users have given.  XML
 * wants UTF8, and the client that writes it to a file must see to that.
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "mb/pg_wchar.h"

#include "compat.h"
#include "svg.h"

/* A number that is relatively this close to a round one is meant to be round. */
#define ROUNDING		1e-9

/* The size of the document, and the rectangle for the data in it. */
#define WIDTH			800
#define HEIGHT			440
#define LEFT			72
#define RIGHT			580
#define TOP				76
#define BOTTOM			364

#define LEGEND_LEFT		620
#define LEGEND_TOP		84
#define LEGEND_SPACING	34

#define MAX_TICKS		20

/*
 * The colours are those of Okabe and Ito, which the colour-blind can tell apart.
 * The yellow is darker in the light, and the blue is lighter in the dark.
 * Neighbours differ in brightness, too.
 */
static const char *const style =
"<style>\n"
".dexp3 { font: 13px system-ui, 'Segoe UI', Roboto, sans-serif; color: #1f2328 }\n"
".dexp3 text { fill: currentColor }\n"
".dexp3 .title { font-size: 18px; font-weight: 600 }\n"
".dexp3 .muted { color: #59636e; font-size: 12px }\n"
".dexp3 .back { fill: #ffffff }\n"
".dexp3 .grid { stroke: #808890; stroke-opacity: 0.3 }\n"
".dexp3 .axis { stroke: #808890 }\n"
".dexp3 .end { text-anchor: end }\n"
".dexp3 .middle { text-anchor: middle }\n"
".dexp3 .fill { fill: currentColor }\n"
".dexp3 .area { fill: currentColor; stroke: #ffffff; stroke-width: 0.75 }\n"
".dexp3 .line { fill: none; stroke: currentColor; stroke-width: 2;"
" stroke-linejoin: round; stroke-linecap: round }\n"
".dexp3 .line.c0 { stroke-width: 4 }\n"
".dexp3 .dashed { stroke-dasharray: 2 6 }\n"
".dexp3 .c1 { color: #0072b2 } .dexp3 .c2 { color: #e69f00 }\n"
".dexp3 .c3 { color: #009e73 } .dexp3 .c4 { color: #cc79a7 }\n"
".dexp3 .c5 { color: #56b4e9 } .dexp3 .c6 { color: #d55e00 }\n"
".dexp3 .c7 { color: #c9b400 } .dexp3 .c8 { color: #8c8c8c }\n"
"@media (prefers-color-scheme: dark) {\n"
".dexp3 { color: #e6edf3 }\n"
".dexp3 .muted { color: #9ea7b1 }\n"
".dexp3 .back { fill: #0d1117 }\n"
".dexp3 .area { stroke: #0d1117 }\n"
".dexp3 .c1 { color: #2f8fd0 } .dexp3 .c7 { color: #f0e442 }\n"
"}\n"
"</style>\n";

/*
 * Write a name as XML.  A name that is wider than this, in columns of a
 * terminal, is shortened.
 *
 * Characters that XML does not allow are replaced, and so are bytes whose
 * encoding is unknown.
 */
char *
xml_text(const text *name, int width)
{
	StringInfoData xml;
	const char *string = VARDATA_ANY(name);
	const char *end = string + VARSIZE_ANY_EXHDR(name);
	bool		known = GetDatabaseEncoding() != PG_SQL_ASCII;

	initStringInfo(&xml);
	while (string < end)
	{
		int			bytes = Min(pg_mblen(string), end - string);

		/* a combining character counts, too */
		width -= Max(pg_dsplen(string), 1);
		if (width < 0 || (width == 0 && string + bytes < end))
		{
			appendStringInfoString(&xml, "&#8230;");
			break;
		}
		if (bytes > 1)
		{
			/* U+FFFE and U+FFFF */
			if (bytes == 3 && memcmp(string, "\xEF\xBF", 2) == 0 &&
				(unsigned char) string[2] >= 0xBE)
				appendStringInfoString(&xml, "&#65533;");
			else
				appendBinaryStringInfo(&xml, string, bytes);
		}
		else if (strchr("\t\n\r", *string))
			appendStringInfoChar(&xml, ' ');
		else if ((unsigned char) *string < ' ' || (IS_HIGHBIT_SET(*string) && !known))
			appendStringInfoString(&xml, "&#65533;");
		else if (strchr("<>&\"'", *string))
			appendStringInfo(&xml, "&#%d;", *string);
		else
			appendStringInfoChar(&xml, *string);
		string += bytes;
	}
	return xml.data;
}

/*
 * Write a number with as many digits as multiples of the precision need.
 */
char *
number_label(double number, double precision)
{
	StringInfoData label;
	char	   *digits;
	int			whole;

	/* this condition is true for NaN, too */
	if (!(precision >= 1e-6 && fabs(number) < 1e15))
		return psprintf("%.6g", number);

	digits = psprintf("%.*f", (int) fmax(ceil(-log10(precision) - 1e-9), 0), fabs(number));
	whole = strcspn(digits, ".");
	initStringInfo(&label);
	if (number < 0)
		appendStringInfoChar(&label, '-');
	for (int i = 0; i < whole; i++)
	{
		if (i > 0 && (whole - i) % 3 == 0)
			appendStringInfoChar(&label, ',');
		appendStringInfoChar(&label, digits[i]);
	}
	appendStringInfoString(&label, digits + whole);
	return label.data;
}

/*
 * Make a scale with about this many ticks.  The step between two ticks is 1, 2 or
 * 5 times a power of ten, but not below min_step.
 */
Scale
plot_scale(double low, double high, double min_step, int ticks)
{
	/* a step so small that its power of ten is 0 would not do */
	double		step = fmax((high - low) / ticks * (1 - ROUNDING), DBL_MIN);
	double		power = pow(10, floor(log10(step)));
	int			factor = step > 5 * power ? 10 : step > 2 * power ? 5 : step > power ? 2 : 1;
	Scale		scale = {low, high, fmax(power * factor, min_step)};

	return scale;
}

/*
 * Let a scale begin and end at a tick.
 */
Scale
plot_rounded(Scale scale)
{
	scale.low = floor(scale.low / scale.step + ROUNDING) * scale.step;
	scale.high = fmax(ceil(scale.high / scale.step - ROUNDING) * scale.step, scale.low + scale.step);
	return scale;
}

/*
 * Count the ticks from the first one on.  There are never many, whatever rounding
 * has done to the scale.
 */
static int
count_ticks(double first, const Scale *scale)
{
	return (int) fmin(floor((scale->high - first) / scale->step + 1e-6) + 1, MAX_TICKS);
}

static double
x_of(const Plot *plot, double x)
{
	return LEFT + (RIGHT - LEFT) * (x - plot->x.low) / (plot->x.high - plot->x.low);
}

static double
y_of(const Plot *plot, double y)
{
	return BOTTOM - (BOTTOM - TOP) * (y - plot->y.low) / (plot->y.high - plot->y.low);
}

/*
 * Begin a plot.  The caller has to set its scales.
 */
void
plot_init(Plot *plot, const char *title, const char *subtitle)
{
	plot->title = title;
	plot->subtitle = subtitle;
	plot->nlegend = 0;
	initStringInfo(&plot->summary);
	initStringInfo(&plot->body);
}

static void
add_text(Plot *plot, const char *class, double x, double y, const char *xml)
{
	appendStringInfo(&plot->body, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
					 class, x, y, xml);
}

/*
 * Say something instead of drawing.
 */
void
plot_message(Plot *plot, const char *message)
{
	add_text(plot, "middle", WIDTH / 2.0, (TOP + BOTTOM) / 2.0, message);
	appendStringInfo(&plot->summary, "; %s", message);
}

/*
 * Add a remark below the chart.
 */
void
plot_note(Plot *plot, const char *note)
{
	add_text(plot, "muted", LEFT, HEIGHT - 14, note);
	appendStringInfo(&plot->summary, "; %s", note);
}

/*
 * Draw the vertical axis and its grid.  What the grid is drawn on shines through.
 */
void
plot_y_axis(Plot *plot, const char *unit)
{
	const Scale *scale = &plot->y;
	int			ticks = count_ticks(scale->low, scale);

	for (int i = 0; i < ticks; i++)
	{
		double		value = scale->low + i * scale->step;
		double		y = y_of(plot, value);

		appendStringInfo(&plot->body, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n",
						 LEFT, y, RIGHT);
		add_text(plot, "muted end", LEFT - 8, y + 4,
				 psprintf("%s%s", number_label(value, scale->step), unit));
	}
}

/*
 * Draw the horizontal axis, with a tick at each multiple of its step.
 */
void
plot_x_axis(Plot *plot)
{
	const Scale *scale = &plot->x;
	double		first = ceil(scale->low / scale->step) * scale->step;
	int			ticks = count_ticks(first, scale);

	for (int i = 0; i < ticks; i++)
	{
		double		value = first + i * scale->step;

		plot_x_tick(plot, value, number_label(value, scale->step));
	}
}

/*
 * Put one tick on the horizontal axis.
 */
void
plot_x_tick(Plot *plot, double x, const char *label)
{
	appendStringInfo(&plot->body, "<path class=\"axis\" d=\"M%.1f %dv5\"/>\n",
					 x_of(plot, x), BOTTOM);
	add_text(plot, "muted middle", x_of(plot, x), BOTTOM + 19, label);
}

/*
 * Say what the horizontal axis is, and where it begins and ends.
 */
void
plot_x_title(Plot *plot, const char *left, const char *middle, const char *right)
{
	appendStringInfo(&plot->body, "<path class=\"axis\" d=\"M%d %dH%d\"/>\n",
					 LEFT, BOTTOM, RIGHT);
	add_text(plot, "muted", LEFT, BOTTOM + 40, left);
	add_text(plot, "middle", (LEFT + RIGHT) / 2.0, BOTTOM + 40, middle);
	add_text(plot, "muted end", RIGHT, BOTTOM + 40, right);
}

/*
 * Draw an area: the columns, joined by straight lines between their middles.
 */
void
plot_area(Plot *plot, int colour, const Column *columns, int n)
{
	appendStringInfo(&plot->body, "<path class=\"area c%d\" d=\"", colour);
	for (int start = 0, end; start < n; start = end + 1)
	{
		for (end = start; end < n && !isnan(columns[end].high); end++)
		{
			const Column *c = &columns[end];

			if (end == start)
				appendStringInfo(&plot->body, "M%.1f %.1f", x_of(plot, c->left),
								 y_of(plot, c->high));
			appendStringInfo(&plot->body, "L%.1f %.1f",
							 x_of(plot, (c->left + c->right) / 2), y_of(plot, c->high));
		}
		if (end == start)
			continue;
		appendStringInfo(&plot->body, "H%.1fV%.1f", x_of(plot, columns[end - 1].right),
						 y_of(plot, columns[end - 1].low));
		for (int i = end - 1; i >= start; i--)
			appendStringInfo(&plot->body, "L%.1f %.1f",
							 x_of(plot, (columns[i].left + columns[i].right) / 2),
							 y_of(plot, columns[i].low));
		appendStringInfo(&plot->body, "H%.1fZ", x_of(plot, columns[start].left));
	}
	appendStringInfoString(&plot->body, "\"/>\n");
}

/*
 * Draw columns with some space between them.
 */
void
plot_bars(Plot *plot, int colour, const Column *columns, int n)
{
	appendStringInfo(&plot->body, "<path class=\"fill c%d\" d=\"", colour);
	for (int i = 0; i < n; i++)
	{
		double		left = x_of(plot, columns[i].left);
		double		right = x_of(plot, columns[i].right);
		double		space = (right - left) * 0.06;

		if (columns[i].high > columns[i].low)
			appendStringInfo(&plot->body, "M%.1f %.1fV%.1fH%.1fV%.1fZ", left + space,
							 y_of(plot, columns[i].low), y_of(plot, columns[i].high),
							 right - space, y_of(plot, columns[i].low));
	}
	appendStringInfoString(&plot->body, "\"/>\n");
}

/*
 * Draw a line through points.
 */
void
plot_line(Plot *plot, int colour, const Point *points, int n, bool dashed)
{
	appendStringInfo(&plot->body, "<path class=\"line%s c%d\" d=\"", dashed ? " dashed" : "", colour);
	for (int i = 0; i < n; i++)
		appendStringInfo(&plot->body, "%c%.1f %.1f", i == 0 ? 'M' : 'L',
						 x_of(plot, points[i].x), y_of(plot, points[i].y));
	appendStringInfoString(&plot->body, "\"/>\n");
}

/*
 * Add a series to the legend.
 */
void
plot_legend(Plot *plot, int colour, const char *name, const char *value)
{
	int			y = LEGEND_TOP + LEGEND_SPACING * plot->nlegend++;

	appendStringInfo(&plot->body,
					 "<rect class=\"fill c%d\" x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" rx=\"2\"/>\n",
					 colour, LEGEND_LEFT, y);
	add_text(plot, "name", LEGEND_LEFT + 20, y + 11, name);
	add_text(plot, "muted", LEGEND_LEFT + 20, y + 26, value);
	appendStringInfo(&plot->summary, "; %s: %s", name, value);
}

/*
 * Return the complete document.
 */
char *
plot_document(Plot *plot)
{
	StringInfoData svg;

	initStringInfo(&svg);
	appendStringInfo(&svg,
					 "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"dexp3\" role=\"img\""
					 " width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n"
					 "<title>%s</title>\n"
					 "<desc>%s%s</desc>\n"
					 "%s"
					 "<rect class=\"back\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n"
					 "<text class=\"title\" x=\"%d\" y=\"34\">%s</text>\n"
					 "<text class=\"muted\" x=\"%d\" y=\"55\">%s</text>\n"
					 "%s"
					 "</svg>\n",
					 WIDTH, HEIGHT, WIDTH, HEIGHT,
					 plot->title,
					 plot->subtitle, plot->summary.data,
					 style,
					 WIDTH, HEIGHT,
					 LEFT, plot->title,
					 LEFT, plot->subtitle,
					 plot->body.data);
	return svg.data;
}
