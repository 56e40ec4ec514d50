/*
 * statefuncs.c
 *	  SQL functions on bandit_state: make one, draw, learn, look inside, compare.
 *
 * These are for a bandit in a column of the user's own table.  They keep
 * nothing between two calls.  The owner of the value decides about locking and
 * visibility.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/typcache.h"

#include "arguments.h"
#include "compat.h"
#include "random.h"
#include "state.h"

PG_FUNCTION_INFO_V1(bandit_new);
PG_FUNCTION_INFO_V1(bandit_draw);
PG_FUNCTION_INFO_V1(bandit_learn);
PG_FUNCTION_INFO_V1(bandit_probabilities_of_state);
PG_FUNCTION_INFO_V1(bandit_step_size);
PG_FUNCTION_INFO_V1(bandit_state_eq);
PG_FUNCTION_INFO_V1(bandit_state_ne);
PG_FUNCTION_INFO_V1(bandit_state_hash);
PG_FUNCTION_INFO_V1(bandit_state_hash_extended);

/* The columns of the composite type bandit_ticket. */
enum
{
	TICKET_ROUND,
	TICKET_ARM,					/* counted from 1 */
	TICKET_PROBABILITY,
	TICKET_GAMMA,
	TICKET_Z,
	TICKET_M,
	TICKET_NATTS
};

static const Oid ticket_types[TICKET_NATTS] = {
	INT8OID, INT4OID, FLOAT8OID, FLOAT8OID, FLOAT8OID, FLOAT8OID
};

/*
 * Look up the type bandit_ticket.  Somebody may have altered it.
 */
static TupleDesc
lookup_ticket_tupdesc(Oid type, int32 typmod)
{
	TupleDesc	tupdesc = lookup_rowtype_tupdesc(type, typmod);
	bool		fits = tupdesc->natts == TICKET_NATTS;

	for (int i = 0; fits && i < TICKET_NATTS; i++)
		fits = TupleDescAttr(tupdesc, i)->atttypid == ticket_types[i];
	if (!fits)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("type %s does not have the attributes that the library of dexp3 expects",
						format_type_be(type))));
	return tupdesc;
}

static Datum
ticket_to_datum(const Ticket *ticket, Oid type)
{
	TupleDesc	tupdesc = lookup_ticket_tupdesc(type, -1);
	Datum		values[TICKET_NATTS];
	bool		nulls[TICKET_NATTS] = {0};
	Datum		result;

	values[TICKET_ROUND] = Int64GetDatum(ticket->round);
	values[TICKET_ARM] = Int32GetDatum(ticket->arm + 1);
	values[TICKET_PROBABILITY] = Float8GetDatum(ticket->probability);
	values[TICKET_GAMMA] = Float8GetDatum(ticket->gamma);
	values[TICKET_Z] = Float8GetDatum(ticket->z);
	values[TICKET_M] = Float8GetDatum(ticket->m);
	result = HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
	ReleaseTupleDesc(tupdesc);
	return result;
}

static void
datum_to_ticket(Datum datum, Ticket *ticket)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(datum);
	TupleDesc	tupdesc = lookup_ticket_tupdesc(HeapTupleHeaderGetTypeId(header),
												HeapTupleHeaderGetTypMod(header));
	HeapTupleData tuple;
	Datum		values[TICKET_NATTS];
	bool		nulls[TICKET_NATTS];

	tuple.t_len = HeapTupleHeaderGetDatumLength(header);
	tuple.t_data = header;
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_tableOid = InvalidOid;
	heap_deform_tuple(&tuple, tupdesc, values, nulls);
	ReleaseTupleDesc(tupdesc);

	for (int i = 0; i < TICKET_NATTS; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("no field of a ticket may be null")));
	}
	ticket->round = DatumGetInt64(values[TICKET_ROUND]);
	/* -1 is no arm, and does not overflow */
	ticket->arm = Max(DatumGetInt32(values[TICKET_ARM]), 0) - 1;
	ticket->probability = DatumGetFloat8(values[TICKET_PROBABILITY]);
	ticket->gamma = DatumGetFloat8(values[TICKET_GAMMA]);
	ticket->z = DatumGetFloat8(values[TICKET_Z]);
	ticket->m = DatumGetFloat8(values[TICKET_M]);
	ticket->mass = 1;
}

/*
 * bandit_new(arms, algorithm, skipping, patience, max_delay, step_scale, optimism,
 *	half_life)
 */
Datum
bandit_new(PG_FUNCTION_ARGS)
{
	LearnerParams params;

	check_not_null(fcinfo, 0, "arms");
	argument_params(fcinfo, 1, 6, PG_GETARG_INT32(0), &params);
	argument_half_life(fcinfo, 7, &params);
	PG_RETURN_BANDIT_STATE(state_make(&params, 0));
}

/*
 * bandit_draw(state, delay, OUT state, OUT ticket): play one round
 */
Datum
bandit_draw(PG_FUNCTION_ARGS)
{
	BanditState *state;
	Learner		learner;
	Ticket		ticket;
	double		step_size;
	double	   *weights;
	int64		delay;
	TupleDesc	tupdesc;
	Datum		values[2];
	bool		nulls[2] = {0};

	check_not_null(fcinfo, 0, "state");
	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	state = PG_GETARG_BANDIT_STATE(0);
	if (state->round >= LEARNER_MAX_ROUNDS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a bandit cannot play more than " INT64_FORMAT " rounds",
						(int64) LEARNER_MAX_ROUNDS)));

	state = state_copy_for_draw(state);
	state_view(state, &learner);
	delay = argument_delay(fcinfo, 1, &learner.params);
	weights = palloc(sizeof(double) * learner.params.arms);
	learner_draw(&learner, delay, session_random(), weights, &ticket, &step_size);
	state_store(state, &learner);
	Assert(state_problem(state) == NULL);

	values[0] = PointerGetDatum(state);
	values[1] = ticket_to_datum(&ticket, TupleDescAttr(tupdesc, 1)->atttypid);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc),
													  values, nulls)));
}

/*
 * bandit_learn(state, ticket, loss): the state after this feedback
 */
Datum
bandit_learn(PG_FUNCTION_ARGS)
{
	BanditState *state;
	Learner		learner;
	Ticket		ticket;
	double		loss;
	const char *problem;

	check_not_null(fcinfo, 0, "state");
	check_not_null(fcinfo, 1, "ticket");
	check_not_null(fcinfo, 2, "loss");
	loss = PG_GETARG_FLOAT8(2);
	check_loss(loss);
	datum_to_ticket(PG_GETARG_DATUM(1), &ticket);

	state = PG_GETARG_BANDIT_STATE_COPY(0);
	state_view(state, &learner);
	problem = learner_ticket_problem(&learner, &ticket);
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("ticket does not fit the state: %s", problem)));
	if (learner_learn(&learner, &ticket, loss))
		state_store(state, &learner);
	Assert(state_problem(state) == NULL);
	PG_RETURN_BANDIT_STATE(state);
}

/*
 * bandit_probabilities(state): what the next draw would use
 */
Datum
bandit_probabilities_of_state(PG_FUNCTION_ARGS)
{
	BanditState *state = PG_GETARG_BANDIT_STATE(0);
	Learner		learner;
	double	   *weights;
	double		total;

	state_view(state, &learner);
	weights = palloc(sizeof(double) * learner.params.arms);
	total = learner_weights(&learner, learner_step_size(&learner, NO_DELAY, weights),
							NULL, weights);
	for (int i = 0; i < learner.params.arms; i++)
		weights[i] /= total;
	PG_RETURN_DATUM(number_array(weights, 1, learner.params.arms));
}

/*
 * bandit_step_size(state): eta of the next round
 */
Datum
bandit_step_size(PG_FUNCTION_ARGS)
{
	Learner		learner;
	double	   *weights;

	state_view(PG_GETARG_BANDIT_STATE(0), &learner);
	weights = palloc(sizeof(double) * learner.params.arms);
	PG_RETURN_FLOAT8(learner_step_size(&learner, NO_DELAY, weights));
}

/*
 * Compare two states.  The stored form is canonical, so they are equal if their
 * bytes are.
 */
Datum
bandit_state_eq(PG_FUNCTION_ARGS)
{
	BanditState *a = PG_GETARG_BANDIT_STATE(0);
	BanditState *b = PG_GETARG_BANDIT_STATE(1);

	PG_RETURN_BOOL(VARSIZE(a) == VARSIZE(b) && memcmp(a, b, VARSIZE(a)) == 0);
}

Datum
bandit_state_ne(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!DatumGetBool(bandit_state_eq(fcinfo)));
}

Datum
bandit_state_hash(PG_FUNCTION_ARGS)
{
	BanditState *state = PG_GETARG_BANDIT_STATE(0);

	return hash_any((unsigned char *) state, VARSIZE(state));
}

Datum
bandit_state_hash_extended(PG_FUNCTION_ARGS)
{
	BanditState *state = PG_GETARG_BANDIT_STATE(0);

	return hash_any_extended((unsigned char *) state, VARSIZE(state),
							 PG_GETARG_INT64(1));
}
