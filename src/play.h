/*
 * play.h
 *	  A learner that plays in memory, with feedback that arrives rounds later.
 */
#ifndef DEXP3_PLAY_H
#define DEXP3_PLAY_H

#include "common/pg_prng.h"
#include "fmgr.h"
#include "lib/ilist.h"
#include "utils/array.h"

#include "learner/learner.h"
#include "progress.h"

/* The delay of feedback that does not arrive, and no feedback window. */
#define NEVER			(-1)

/*
 * The arguments that all ways to play have in common, in their order.  "algorithm"
 * and the four that follow are those of argument_params().
 */
enum
{
	PLAY_PARAMS,
	PLAY_SEED = PLAY_PARAMS + 5,
	PLAY_OPTIMISM,
	PLAY_HALF_LIFE,
	PLAY_FEEDBACK_WINDOW,
	PLAY_MISSING_LOSS,
	PLAY_NUM_ARGS
};

typedef struct Play
{
	Learner		learner;
	double	   *weights;		/* room for a number for each arm */
	int64		open_capacity;	/* words of open rounds that there is room for */

	int			max_rounds;
	int			feedback_window;	/* in rounds, or NEVER */
	double		missing_loss;	/* of what has not arrived when it ends */
	dlist_head *arrivals;		/* for each round, what arrives after it */

	bool		seeded;			/* if not, numbers come from the session */
	pg_prng_state generator;
	Progress	progress;
	int			look;			/* how many rounds between two looks at the
								 * clock */
} Play;

extern int	check_series(ArrayType *array, const char *name, int rounds);
extern int *delays_of_array(ArrayType *array);
extern void check_delays_of_arms(const LearnerParams *params);
extern void play_start(Play *play, FunctionCallInfo fcinfo, int first, int arms,
					   int max_rounds);
extern void play_check(Play *play, int64 round);
extern double play_random(Play *play);
extern int	play_announced_delay(const Play *play, int delay);
extern void play_reserve(Play *play);
extern void play_send(Play *play, const Ticket *ticket, int delay, double loss);
extern void play_receive(Play *play);

#endif							/* DEXP3_PLAY_H */
