/*
 * stateio.c
 *	  Text and binary form of bandit_state.
 *
 * The text form is one JSON object; doc/format.md lists its keys.  Its numbers
 * have the fewest digits that read back as the same number, so both forms are
 * exact.
 */
#include "postgres.h"

#include "common/shortest_dec.h"
#include "lib/stringinfo.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

#include "compat.h"
#include "state.h"

PG_FUNCTION_INFO_V1(bandit_state_in);
PG_FUNCTION_INFO_V1(bandit_state_out);
PG_FUNCTION_INFO_V1(bandit_state_recv);
PG_FUNCTION_INFO_V1(bandit_state_send);
PG_FUNCTION_INFO_V1(bandit_state_to_jsonb);

/* The names of the vectors, in the order of BanditState.values. */
static const char *const vector_names[] = {"z", "m", "z_tie", "m_tie"};

/* ----------
 * Text output
 * ----------
 */

static void
append_vector(StringInfo buf, const char *key, const double *vector, int32 arms)
{
	char		digits[DOUBLE_SHORTEST_DECIMAL_LEN];

	appendStringInfo(buf, ", \"%s\": [", key);
	for (int32 i = 0; i < arms; i++)
	{
		double_to_shortest_decimal_buf(vector[i], digits);
		appendStringInfo(buf, "%s%s", i > 0 ? ", " : "", digits);
	}
	appendStringInfoChar(buf, ']');
}

static void
append_open_rounds(StringInfo buf, const OpenRounds *open)
{
	const char *separator = "";

	appendStringInfoString(buf, ", \"open\": [");
	for (int64 round = open_rounds_next(open, 0);
		 round != 0;
		 round = open_rounds_next(open, round))
	{
		appendStringInfo(buf, "%s" INT64_FORMAT, separator, round);
		separator = ", ";
	}
	appendStringInfoChar(buf, ']');
}

static char *
state_to_text(BanditState *state)
{
	StringInfoData buf;
	Learner		learner;
	const LearnerParams *params = &learner.params;

	state_view(state, &learner);

	initStringInfo(&buf);
	appendStringInfo(&buf, "{\"version\": %d, \"algorithm\": \"%s\", \"arms\": %d",
					 state->version, algorithm_name(params->algorithm),
					 params->arms);
	if (params->algorithm == SELF_TUNED)
		appendStringInfo(&buf, ", \"optimism\": %s, \"half_life\": %s",
						 double_to_shortest_decimal(params->optimism),
						 params->half_life == NO_HALF_LIFE ? "null" :
						 double_to_shortest_decimal(params->half_life));
	else if (params->algorithm == DEDA)
		appendStringInfo(&buf, ", \"max_delay\": %s",
						 params->max_delay == NO_DELAY ? "null" :
						 psprintf("%d", params->max_delay));
	else
	{
		appendStringInfo(&buf, ", \"skipping\": %s",
						 params->skipping ? "true" : "false");
		if (params->skipping)
			appendStringInfo(&buf, ", \"patience\": %d", params->patience);
		appendStringInfo(&buf, ", \"step_scale\": %s",
						 double_to_shortest_decimal(params->step_scale));
	}

	appendStringInfo(&buf, ", \"round\": " INT64_FORMAT, learner.round);
	if (params->skipping)
		append_open_rounds(&buf, &learner.open);
	else
		appendStringInfo(&buf, ", \"outstanding\": " INT64_FORMAT,
						 learner.outstanding);
	appendStringInfo(&buf, ", \"cumulative_delay\": %s",
					 double_to_shortest_decimal(learner.cumulative_delay));
	if (params->algorithm == DEDA)
		appendStringInfo(&buf, ", \"longest_delay\": %s, \"lbck\": %s",
						 double_to_shortest_decimal(learner.longest_delay),
						 double_to_shortest_decimal(learner.lbck));
	if (params->algorithm == SELF_TUNED)
		appendStringInfo(&buf, ", \"settled\": %s, \"total_loss\": %s, \"cost\": %s",
						 double_to_shortest_decimal(learner.settled),
						 double_to_shortest_decimal(learner.total_loss),
						 double_to_shortest_decimal(learner.cost));
	for (int i = 0; i < NUM_VECTORS(params->algorithm); i++)
		append_vector(&buf, vector_names[i],
					  state_vectors(state) + (Size) i * params->arms, params->arms);
	appendStringInfoChar(&buf, '}');
	return buf.data;
}

Datum
bandit_state_out(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(state_to_text(PG_GETARG_BANDIT_STATE(0)));
}

Datum
bandit_state_to_jsonb(PG_FUNCTION_ARGS)
{
	char	   *text = state_to_text(PG_GETARG_BANDIT_STATE(0));

	return DirectFunctionCall1(jsonb_in, CStringGetDatum(text));
}

/* ----------
 * Text input
 *
 * PostgreSQL's own parser turns the text into a jsonb, and we pick the fields out
 * of it.  If something is wrong, it is reported to escontext, and what is read
 * from then on means nothing.
 * ----------
 */

/* The text that is being read. */
typedef struct StateReader
{
	JsonbContainer *object;
	List	   *keys;			/* those that were read so far, String nodes */
	Node	   *escontext;
	bool		failed;
} StateReader;

/*
 * Report what is wrong, if it is the first thing that is.
 */
static void
reject(StateReader *reader, const char *detail)
{
	if (!reader->failed)
		errsave(reader->escontext,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid input syntax for type %s", "bandit_state"),
				 errdetail_internal("%s", detail)));
	reader->failed = true;
}

/*
 * Find a field by its key.  Returns NULL if it is missing, or does not have the
 * wanted type.  jbvNull stands for "a number or null", jbvBinary for an array.
 */
static JsonbValue *
read_field(StateReader *reader, const char *key, enum jbvType wanted)
{
	static const char *const kinds[] = {
		[jbvNull] = "a number or null",
		[jbvString] = "a string",
		[jbvNumeric] = "a number",
		[jbvBool] = "a boolean",
		[jbvBinary] = "an array"
	};
	JsonbValue *value = getKeyJsonValueFromContainer(reader->object, key,
													 strlen(key), NULL);

	if (value == NULL)
	{
		reject(reader, psprintf("Key \"%s\" is missing.", key));
		return NULL;
	}
	reader->keys = lappend(reader->keys, makeString(unconstify(char *, key)));

	if (wanted == jbvNull && value->type == jbvNumeric)
		return value;
	if (value->type != wanted ||
		(wanted == jbvBinary && !JsonContainerIsArray(value->val.binary.data)))
	{
		reject(reader, psprintf("Key \"%s\" must be %s.", key, kinds[wanted]));
		return NULL;
	}
	return value;
}

/*
 * Convert a JSON number to a double, correctly rounded.  A number that is too
 * large becomes infinity, and state_problem() does not accept that.  A number may
 * have 131,072 digits, and there may be many of them, so let the user cancel.
 */
static double
number_to_double(const JsonbValue *value)
{
	CHECK_FOR_INTERRUPTS();
	return DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow,
											  NumericGetDatum(value->val.numeric)));
}

/*
 * Convert a JSON value to an integer.  Returns false if it is none.
 */
static bool
value_to_int64(const JsonbValue *value, int64 *result)
{
	char	   *digits;
	char	   *end;
	bool		valid;

	CHECK_FOR_INTERRUPTS();
	if (value->type != jbvNumeric)
		return false;
	digits = DatumGetCString(DirectFunctionCall1(numeric_out,
												 NumericGetDatum(value->val.numeric)));
	errno = 0;
	*result = strtoi64(digits, &end, 10);
	valid = errno == 0 && *end == '\0';
	pfree(digits);
	return valid;
}

static double
read_double(StateReader *reader, const char *key)
{
	JsonbValue *value = read_field(reader, key, jbvNumeric);

	return value != NULL ? number_to_double(value) : 0;
}

/*
 * Read an integer from a field that was found, or not.
 */
static int64
check_int(StateReader *reader, const char *key, const JsonbValue *value,
		  int64 least, int64 most)
{
	int64		result = 0;

	if (value == NULL ||
		(value_to_int64(value, &result) && result >= least && result <= most))
		return result;
	if (least == most)
		reject(reader, psprintf("Key \"%s\" must be " INT64_FORMAT ".", key, least));
	else
		reject(reader, psprintf("Key \"%s\" must be an integer from " INT64_FORMAT
								" to " INT64_FORMAT ".", key, least, most));
	return 0;
}

static int64
read_int(StateReader *reader, const char *key, int64 least, int64 most)
{
	return check_int(reader, key, read_field(reader, key, jbvNumeric), least, most);
}

static void
read_params(StateReader *reader, LearnerParams *params)
{
	JsonbValue *value;

	(void) read_int(reader, "version", BANDIT_STATE_VERSION, BANDIT_STATE_VERSION);
	value = read_field(reader, "algorithm", jbvString);
	if (value != NULL &&
		!algorithm_by_name(pnstrdup(value->val.string.val, value->val.string.len),
						   &params->algorithm))
		reject(reader, "Key \"algorithm\" must be \"self-tuned\", \"dada\", \"dada-ix\" or \"deda\".");
	params->arms = read_int(reader, "arms", LEARNER_MIN_ARMS, LEARNER_MAX_ARMS);

	params->max_delay = NO_DELAY;
	params->step_scale = 1;
	if (params->algorithm == SELF_TUNED)
	{
		params->optimism = read_double(reader, "optimism");
		value = read_field(reader, "half_life", jbvNull);
		if (value != NULL && value->type == jbvNumeric)
		{
			params->half_life = number_to_double(value);
			if (params->half_life == NO_HALF_LIFE)
				reject(reader, "Key \"half_life\" must not be 0.");
		}
	}
	if (params->algorithm == DEDA)
	{
		value = read_field(reader, "max_delay", jbvNull);
		if (value != NULL && value->type == jbvNumeric)
			params->max_delay = check_int(reader, "max_delay", value, 0, PG_INT32_MAX);
	}
	if (params->algorithm != DADA && params->algorithm != DADA_IX)
		return;

	value = read_field(reader, "skipping", jbvBool);
	params->skipping = value != NULL && value->val.boolean;
	if (params->skipping)
		params->patience = read_int(reader, "patience", 0, PG_INT32_MAX);
	params->step_scale = read_double(reader, "step_scale");
}

/*
 * Return an element of the open rounds, or 0 if it is not an integer.
 */
static int64
open_round(JsonbContainer *array, uint32 i)
{
	JsonbValue *element = getIthJsonbValueFromContainer(array, i);
	int64		round;

	if (!value_to_int64(element, &round))
		round = 0;
	pfree(element);
	return round;
}

/*
 * Read the open rounds, none of which may be after the newest.  Returns NULL if
 * there are none, and sets how many words they need.
 */
static JsonbContainer *
read_open_rounds(StateReader *reader, int64 newest, int64 *nwords)
{
	JsonbValue *value = read_field(reader, "open", jbvBinary);
	JsonbContainer *array;
	int64		previous = 0;

	*nwords = 0;
	if (value == NULL || JsonContainerSize(value->val.binary.data) == 0)
		return NULL;
	array = value->val.binary.data;
	for (uint32 i = 0; i < JsonContainerSize(array); i++)
	{
		int64		round = open_round(array, i);

		if (round <= previous || round > newest)
		{
			reject(reader, "Key \"open\" must list rounds up to \"round\" in ascending order.");
			return NULL;
		}
		previous = round;
	}
	*nwords = open_rounds_span(open_round(array, 0), previous);
	if (*nwords > MAX_OPEN_WORDS)
		reject(reader, "Key \"open\" spans too many rounds.");
	return array;
}

static void
read_vector(StateReader *reader, const char *key, double *vector, int32 arms)
{
	JsonbValue *value = read_field(reader, key, jbvBinary);

	if (value == NULL)
		return;
	if (JsonContainerSize(value->val.binary.data) != (uint32) arms)
	{
		reject(reader, psprintf("Key \"%s\" must have %d elements.", key, arms));
		return;
	}
	for (int32 i = 0; i < arms; i++)
	{
		JsonbValue *element = getIthJsonbValueFromContainer(value->val.binary.data, i);

		if (element->type != jbvNumeric)
		{
			reject(reader, psprintf("Key \"%s\" must be an array of numbers.", key));
			return;
		}
		vector[i] = number_to_double(element);
		pfree(element);
	}
}

/*
 * Check that there are no other fields than those that were read.
 */
static void
check_no_more_fields(StateReader *reader)
{
	JsonbIterator *iterator = JsonbIteratorInit(reader->object);
	JsonbIteratorToken token;
	JsonbValue	value;

	while ((token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE)
	{
		char	   *key;

		if (token != WJB_KEY)
			continue;
		key = pnstrdup(value.val.string.val, value.val.string.len);
		if (!list_member(reader->keys, makeString(key)))
			reject(reader, psprintf("Key \"%s\" does not belong here.", key));
	}
}

/*
 * Read all fields.  Returns NULL if something is wrong.
 */
static BanditState *
read_state(StateReader *reader)
{
	LearnerParams params = {0};
	BanditState *state;
	Learner		learner;
	JsonbContainer *open = NULL;
	int64		open_nwords = 0;
	int64		round;
	int64		outstanding = 0;

	read_params(reader, &params);
	round = read_int(reader, "round", 0, LEARNER_MAX_ROUNDS);
	if (params.skipping)
		open = read_open_rounds(reader, round, &open_nwords);
	else
		outstanding = read_int(reader, "outstanding", 0, round);
	if (reader->failed)
		return NULL;

	state = state_make(&params, open_nwords);
	state_view(state, &learner);
	learner.round = round;
	learner.outstanding = open != NULL ? JsonContainerSize(open) : outstanding;
	learner.open.nwords = 0;
	for (uint32 i = 0; open != NULL && i < learner.outstanding; i++)
		open_rounds_add(&learner.open, open_round(open, i));
	learner.cumulative_delay = read_double(reader, "cumulative_delay");
	if (params.algorithm == DEDA)
	{
		learner.longest_delay = read_double(reader, "longest_delay");
		learner.lbck = read_double(reader, "lbck");
	}
	if (params.algorithm == SELF_TUNED)
	{
		learner.settled = read_double(reader, "settled");
		learner.total_loss = read_double(reader, "total_loss");
		learner.cost = read_double(reader, "cost");
	}
	for (int i = 0; i < NUM_VECTORS(params.algorithm); i++)
		read_vector(reader, vector_names[i],
					state_vectors(state) + (Size) i * params.arms, params.arms);
	check_no_more_fields(reader);
	if (reader->failed)
		return NULL;

	state_store(state, &learner);
	if (state_problem(state) != NULL)
		reject(reader, psprintf("The state is wrong: %s.", state_problem(state)));
	return reader->failed ? NULL : state;
}

Datum
bandit_state_in(PG_FUNCTION_ARGS)
{
	StateReader reader = {.escontext = fcinfo->context};
	BanditState *state = NULL;
	Datum		jsonb;

	if (!InputFunctionCallSoft(jsonb_in, PG_GETARG_CSTRING(0), reader.escontext, &jsonb))
		PG_RETURN_NULL();
	reader.object = &DatumGetJsonbP(jsonb)->root;
	if (JsonContainerIsObject(reader.object))
		state = read_state(&reader);
	else
		reject(&reader, "A JSON object is expected.");
	if (state == NULL)
		PG_RETURN_NULL();
	PG_RETURN_BANDIT_STATE(state);
}

/* ----------
 * Binary form: the fields of BanditState in their order, in network byte order.
 * From step_scale on there are 64-bit words only.
 * ----------
 */

#define NUM_WORDS(state) \
	((VARSIZE(state) - offsetof(BanditState, step_scale)) / sizeof(uint64))

static uint64 *
state_words(BanditState *state)
{
	return (uint64 *) ((char *) state + offsetof(BanditState, step_scale));
}

Datum
bandit_state_send(PG_FUNCTION_ARGS)
{
	BanditState *state = PG_GETARG_BANDIT_STATE(0);
	const uint64 *words = state_words(state);
	StringInfoData buf;

	pq_begintypsend(&buf);
	pq_sendbyte(&buf, state->version);
	pq_sendbyte(&buf, state->algorithm);
	pq_sendbyte(&buf, state->skipping);
	pq_sendbyte(&buf, state->reserved);
	pq_sendint32(&buf, state->arms);
	pq_sendint32(&buf, state->patience);
	pq_sendint32(&buf, state->max_delay);
	pq_sendint32(&buf, state->reserved2);
	for (Size i = 0; i < NUM_WORDS(state); i++)
		pq_sendint64(&buf, words[i]);
	PG_RETURN_BYTEA_P(pq_endtypsend(&buf));
}

Datum
bandit_state_recv(PG_FUNCTION_ARGS)
{
	StringInfo	buf = (StringInfo) PG_GETARG_POINTER(0);
	Size		size = VARHDRSZ + buf->len - buf->cursor;
	BanditState *state = palloc0(Max(size, offsetof(BanditState, values)));
	uint64	   *words = state_words(state);
	const char *problem;

	SET_VARSIZE(state, Max(size, offsetof(BanditState, values)));
	state->version = pq_getmsgbyte(buf);
	if (state->version != BANDIT_STATE_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("unsupported version %d of the binary form of type %s",
						state->version, "bandit_state")));
	state->algorithm = pq_getmsgbyte(buf);
	state->skipping = pq_getmsgbyte(buf);
	state->reserved = pq_getmsgbyte(buf);
	state->arms = pq_getmsgint(buf, 4);
	state->patience = pq_getmsgint(buf, 4);
	state->max_delay = pq_getmsgint(buf, 4);
	state->reserved2 = pq_getmsgint(buf, 4);
	for (Size i = 0; i < NUM_WORDS(state); i++)
		words[i] = pq_getmsgint64(buf);

	problem = state_problem(state);
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("invalid binary representation of type %s", "bandit_state"),
				 errdetail("The state is wrong: %s.", problem)));
	PG_RETURN_BANDIT_STATE(state);
}
