/*
 * chart.h
 *	  Charts of how a managed bandit is doing.
 */
#ifndef DEXP3_CHART_H
#define DEXP3_CHART_H

#include "postgres.h"

extern char *chart_document(text *name, const char *kind, const char *title);

#endif							/* DEXP3_CHART_H */
