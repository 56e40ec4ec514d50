/*
 * exponential.c
 *	  Many exponentials at once.
 *
 * The C library computes them one at a time.  A draw needs one for each arm, and
 * with many arms they are most of its cost.  So this is a loop without branches
 * and calls, and compilers turn it into vector instructions.  The relative error
 * is below 1e-15; sql/learn.sql compares the results with those of exp().
 */
#include "exponential.h"

#include <float.h>
#include <string.h>

/* We take exponentials below about this for 0; they would soon be subnormal. */
#define LEAST		(-708.0)
#define EXP_LEAST	3.4e-308

/* 1.5 * 2^52.  Adding it rounds a small number to an integer. */
#define ROUNDER 6755399441055744.0

#define LOG2_E	1.4426950408889634074

/* log(2) in two parts; the first times an integer up to 2^21 is exact */
#define LN2_HIGH	6.93147180369123816490e-01
#define LN2_LOW		1.90821492927058770002e-10

/*
 * The GNU tools on x86-64 can make two versions and choose the one that suits the
 * processor.  The newer instructions halve the time of a draw from 1,000 arms.
 */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12
#define FOR_EACH_PROCESSOR	__attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

/* A variable that must be a double even if registers hold more digits (x87). */
#if FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD == 1
#define ROUNDED
#else
#define ROUNDED volatile
#endif

/*
 * Replace each number by its exponential.  No number may be above 0.
 *
 * exp(x) = 2^k exp(r), where k is an integer and |r| is at most log(2) / 2.  For
 * exp(r) the first terms of the series are enough.
 */
FOR_EACH_PROCESSOR void
exponentials(double *x, int32_t n)
{
	/* compilers take comparisons for branches, so these have their own loops */
	for (int32_t i = 0; i < n; i++)
		x[i] = x[i] < LEAST ? LEAST : x[i];

	for (int32_t i = 0; i < n; i++)
	{
		ROUNDED double sum_with_rounder = x[i] * LOG2_E + ROUNDER;
		double		shifted = sum_with_rounder;
		double		k = shifted - ROUNDER;
		double		r = (x[i] - k * LN2_HIGH) - k * LN2_LOW;
		double		sum = 1.0 / 479001600;
		double		power;
		uint64_t	bits;

		sum = sum * r + 1.0 / 39916800;
		sum = sum * r + 1.0 / 3628800;
		sum = sum * r + 1.0 / 362880;
		sum = sum * r + 1.0 / 40320;
		sum = sum * r + 1.0 / 5040;
		sum = sum * r + 1.0 / 720;
		sum = sum * r + 1.0 / 120;
		sum = sum * r + 1.0 / 24;
		sum = sum * r + 1.0 / 6;
		sum = sum * r + 0.5;
		sum = sum * r + 1;
		sum = sum * r + 1;

		/* the lowest bits of `shifted` are k; as an exponent they make 2^k */
		memcpy(&bits, &shifted, sizeof(bits));
		bits = (bits << 52) + (UINT64_C(1023) << 52);
		memcpy(&power, &bits, sizeof(power));
		x[i] = sum * power;
	}

	for (int32_t i = 0; i < n; i++)
		x[i] = x[i] < EXP_LEAST ? 0 : x[i];
}
