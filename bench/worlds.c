/*
 * worlds.c
 *	  make_world() and best_losses(): what would take too long in SQL.
 *
 * make_world() makes the losses of a world from a few numbers: the mean loss of an
 * arm is
 *
 *	  level - (edge, if it is the favourite arm) + amplitude * wave(arm, round),
 *
 * but not below 0 or above 1.  The kind of world says what the wave is, and whether
 * the favourite arm changes.  A loss is 0 or 1 with that mean or, unless the world is
 * noisy, the mean itself; in the end all losses are multiplied by the scale.  So a
 * world is determined by its arguments, seed included.
 *
 * No input but the kind is checked.
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(make_world);
PG_FUNCTION_INFO_V1(best_losses);

typedef enum Kind
{
	SQUARE,						/* the wave is 1 for half of a period, then
								 * -1; the other way round for every other arm */
	SINE,						/* a sine; the arms follow each other, evenly
								 * spread over a period */
	SWITCHES,					/* no wave; another favourite in each period */
	WALKS,						/* a random walk for each arm, reflected,
								 * which moves by about 1 in a period */
	BLOCKS,						/* 1 or -1, drawn anew for each arm in each
								 * period */
	RATES,						/* likewise, but uniform in [-1, 1] */
	TURN						/* no wave for a third of the rounds, then a
								 * square one and no favourite */
} Kind;

static const char *const kind_names[] = {
	[SQUARE] = "square waves",
	[SINE] = "sines",
	[SWITCHES] = "switches",
	[WALKS] = "random walks",
	[BLOCKS] = "random blocks",
	[RATES] = "rates",
	[TURN] = "benign, then hostile"
};

typedef struct World
{
	Kind		kind;
	int			rounds;
	int			arms;
	double		edge;
	double		period;
	pg_prng_state generator;

	/* now */
	int			favourite;		/* or -1 */
	double	   *wave;
} World;

static Kind
kind_by_name(const char *name)
{
	for (int i = 0; i < lengthof(kind_names); i++)
	{
		if (strcmp(name, kind_names[i]) == 0)
			return (Kind) i;
	}
	elog(ERROR, "there is no kind of world called \"%s\"", name);
}

/* Reflect at -1 and 1. */
static double
reflected(double x)
{
	while (fabs(x) > 1)
		x = (x > 0 ? 2 : -2) - x;
	return x;
}

static void
square_wave(World *world, double t)
{
	bool		first_half = fmod(t / world->period, 1) < 0.5;

	for (int i = 0; i < world->arms; i++)
		world->wave[i] = first_half == (i % 2 == 0) ? 1 : -1;
}

/* Set favourite and wave for round t, counted from 0. */
static void
advance(World *world, int t)
{
	pg_prng_state *generator = &world->generator;
	bool		new_period = t == 0 ||
		floor(t / world->period) > floor((t - 1) / world->period);

	switch (world->kind)
	{
		case SQUARE:
			/* begin in the middle of a half, so that no arm is ahead for long */
			square_wave(world, t + world->period / 4);
			break;
		case SINE:
			for (int i = 0; i < world->arms; i++)
				world->wave[i] = -cos(2 * M_PI * (t / world->period -
												  (double) i / world->arms));
			break;
		case SWITCHES:
			if (new_period)
				world->favourite =
					(world->favourite + 1 +
					 (int) (pg_prng_double(generator) * (world->arms - 1))) % world->arms;
			break;
		case WALKS:
			/* a step is uniform, with mean 0 and variance 1 / period */
			for (int i = 0; i < world->arms; i++)
				world->wave[i] = t == 0 ? 2 * pg_prng_double(generator) - 1 :
					reflected(world->wave[i] + (2 * pg_prng_double(generator) - 1) *
							  sqrt(3 / world->period));
			break;
		case BLOCKS:
		case RATES:
			for (int i = 0; new_period && i < world->arms; i++)
			{
				double		drawn = 2 * pg_prng_double(generator) - 1;

				world->wave[i] = world->kind == RATES ? drawn : drawn < 0 ? -1 : 1;
			}
			break;
		case TURN:
			if (t >= world->rounds / 3)
			{
				world->favourite = -1;
				square_wave(world, t + world->period / 4);
			}
			break;
	}
}

/*
 * make_world(kind, rounds, arms, level, edge, amplitude, period, noisy, scale, seed,
 *			  OUT losses, OUT best)
 *
 * best is what was lost by who always knew the arm with the smallest mean.
 */
Datum
make_world(PG_FUNCTION_ARGS)
{
	World		world = {
		.kind = kind_by_name(text_to_cstring(PG_GETARG_TEXT_PP(0))),
		.rounds = PG_GETARG_INT32(1),
		.arms = PG_GETARG_INT32(2),
		.edge = PG_GETARG_FLOAT8(4),
		.period = PG_GETARG_FLOAT8(6)
	};
	double		level = PG_GETARG_FLOAT8(3);
	double		amplitude = PG_GETARG_FLOAT8(5);
	bool		noisy = PG_GETARG_BOOL(7);
	double		scale = PG_GETARG_FLOAT8(8);
	int			dims[] = {world.rounds, world.arms};
	int			lower_bounds[] = {1, 1};
	Size		size = ARR_OVERHEAD_NONULLS(2) +
		sizeof(float8) * world.rounds * world.arms;
	ArrayType  *array = palloc0(size);
	double	   *losses;
	double		best = 0;
	TupleDesc	desc;
	Datum		values[2];
	bool		nulls[2] = {0};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "make_world() must return a row");
	SET_VARSIZE(array, size);
	array->ndim = 2;
	array->elemtype = FLOAT8OID;
	memcpy(ARR_DIMS(array), dims, sizeof(dims));
	memcpy(ARR_LBOUND(array), lower_bounds, sizeof(lower_bounds));
	losses = (double *) ARR_DATA_PTR(array);

	pg_prng_seed(&world.generator, PG_GETARG_INT64(9));
	world.favourite = (int) (pg_prng_double(&world.generator) * world.arms);
	world.wave = palloc0(sizeof(double) * world.arms);

	for (int t = 0; t < world.rounds; t++)
	{
		double		least = DBL_MAX;
		double		loss_of_best = 0;

		CHECK_FOR_INTERRUPTS();
		advance(&world, t);
		for (int i = 0; i < world.arms; i++)
		{
			double		mean = level - (i == world.favourite ? world.edge : 0) +
				amplitude * world.wave[i];
			double		loss;

			mean = Min(Max(mean, 0), 1);
			loss = !noisy ? mean : pg_prng_double(&world.generator) < mean ? 1 : 0;
			loss *= scale;
			*losses++ = loss;
			if (mean < least)
			{
				least = mean;
				loss_of_best = loss;
			}
		}
		best += loss_of_best;
	}

	values[0] = PointerGetDatum(array);
	values[1] = Float8GetDatum(best);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/*
 * best_losses(losses, parts): the loss of the best arm until the end of each of so
 * many equal parts of the run
 */
Datum
best_losses(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	int			parts = PG_GETARG_INT32(1);
	const double *losses = (const double *) ARR_DATA_PTR(array);
	int			rounds = ARR_DIMS(array)[0];
	int			arms = ARR_DIMS(array)[1];
	double	   *totals = palloc0(sizeof(double) * arms);
	Datum	   *best = palloc(sizeof(Datum) * parts);
	int			t = 0;

	for (int part = 0; part < parts; part++)
	{
		double		least = DBL_MAX;

		for (; t < rounds && (int64) t * parts / rounds == part; t++)
		{
			for (int i = 0; i < arms; i++)
				totals[i] += *losses++;
		}
		for (int i = 0; i < arms; i++)
			least = Min(least, totals[i]);
		best[part] = Float8GetDatum(least);
	}
	PG_RETURN_ARRAYTYPE_P(construct_array(best, parts, FLOAT8OID, sizeof(float8),
										  FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}
