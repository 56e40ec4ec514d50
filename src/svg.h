/*
 * svg.h
 *	  Charts as SVG documents.
 */
#ifndef DEXP3_SVG_H
#define DEXP3_SVG_H

#include "postgres.h"

#include "lib/stringinfo.h"

/* Each series has its colour.  The last one is a grey. */
#define PLOT_COLOURS	8
/* The colour of the text, for what is not one series among others. */
#define PLOT_MAIN		0

/* An axis with ticks at the multiples of a round number. */
typedef struct Scale
{
	double		low;
	double		high;
	double		step;
} Scale;

typedef struct Plot
{
	Scale		x;
	Scale		y;
	const char *title;			/* as XML, like all text below */
	const char *subtitle;
	int			nlegend;		/* how many entries the legend has */
	StringInfoData summary;		/* the legend, for those who cannot see it */
	StringInfoData body;
} Plot;

typedef struct Point
{
	double		x;
	double		y;
} Point;

/* A part of an area.  It is empty if high is not a number. */
typedef struct Column
{
	double		left;
	double		right;
	double		low;
	double		high;
} Column;

extern char *xml_text(const text *name, int width);
extern char *number_label(double number, double precision);
extern Scale plot_scale(double low, double high, double min_step, int ticks);
extern Scale plot_rounded(Scale scale);

extern void plot_init(Plot *plot, const char *title, const char *subtitle);
extern void plot_message(Plot *plot, const char *message);
extern void plot_note(Plot *plot, const char *note);
extern void plot_y_axis(Plot *plot, const char *unit);
extern void plot_x_axis(Plot *plot);
extern void plot_x_tick(Plot *plot, double x, const char *label);
extern void plot_x_title(Plot *plot, const char *left, const char *middle,
						 const char *right);
extern void plot_area(Plot *plot, int colour, const Column *columns, int n);
extern void plot_bars(Plot *plot, int colour, const Column *columns, int n);
extern void plot_line(Plot *plot, int colour, const Point *points, int n, bool dashed);
extern void plot_legend(Plot *plot, int colour, const char *name,
						const char *value);
extern char *plot_document(Plot *plot);

#endif							/* DEXP3_SVG_H */
