/*
 * stateio.c
 *	  Text and binary form of bandit_state, equality and hashing.
 *
 * The text form is one JSON object; doc/format.md lists its keys.  Numbers are
 * written with the fewest digits that read back as the same number, so both
 * forms are exact.
 */
#include "postgres.h"

#include <math.h>

#include "common/hashfn.h"
#include "common/shortest_dec.h"
#include "lib/stringinfo.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
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
PG_FUNCTION_INFO_V1(bandit_state_eq);
PG_FUNCTION_INFO_V1(bandit_state_ne);
PG_FUNCTION_INFO_V1(bandit_state_hash);
PG_FUNCTION_INFO_V1(bandit_state_hash_extended);

/* The names of the vectors, in the order of BanditState.vectors. */
static const char *const vector_names[] = {"z", "m", "z_tie", "m_tie"};

/* ----------
 * Text output
 * ----------
 */

static void
append_number(StringInfo buf, double number)
{
	char		digits[DOUBLE_SHORTEST_DECIMAL_LEN];

	double_to_shortest_decimal_buf(number, digits);
	appendStringInfoString(buf, digits);
}

static void
append_vector(StringInfo buf, const char *key, const double *vector, int32 arms)
{
	appendStringInfo(buf, ", \"%s\": [", key);
	for (int32 i = 0; i < arms; i++)
	{
		if (i > 0)
			appendStringInfoString(buf, ", ");
		append_number(buf, vector[i]);
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
	bool		deda = state->algorithm == DEDA;

	state_view(state, &learner);

	initStringInfo(&buf);
	appendStringInfo(&buf, "{\"version\": %d, \"algorithm\": \"%s\", \"arms\": %d",
					 state->version, algorithm_name(params->algorithm),
					 params->arms);
	if (deda)
	{
		if (params->max_delay == NO_DELAY)
			appendStringInfoString(&buf, ", \"max_delay\": null");
		else
			appendStringInfo(&buf, ", \"max_delay\": %d", params->max_delay);
	}
	else
	{
		appendStringInfo(&buf, ", \"skipping\": %s",
						 params->skipping ? "true" : "false");
		if (params->skipping)
			appendStringInfo(&buf, ", \"patience\": %d", params->patience);
		appendStringInfoString(&buf, ", \"step_scale\": ");
		append_number(&buf, params->step_scale);
	}

	appendStringInfo(&buf, ", \"round\": " INT64_FORMAT, learner.round);
	if (params->skipping)
		append_open_rounds(&buf, &learner.open);
	else
		appendStringInfo(&buf, ", \"outstanding\": " INT64_FORMAT,
						 learner.outstanding);
	appendStringInfoString(&buf, ", \"cumulative_delay\": ");
	append_number(&buf, learner.cumulative_delay);
	if (deda)
	{
		appendStringInfoString(&buf, ", \"longest_delay\": ");
		append_number(&buf, learner.longest_delay);
		appendStringInfoString(&buf, ", \"lbck\": ");
		append_number(&buf, learner.lbck);
	}
	for (int i = 0; i < NUM_VECTORS(params->algorithm); i++)
		append_vector(&buf, vector_names[i],
					  state->vectors + (Size) i * params->arms, params->arms);
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
 * PostgreSQL's own parser makes a jsonb of the text; what remains is to pick
 * the fields out of it.  Each function below returns false after reporting an
 * error to escontext.
 * ----------
 */

/* The text being read. */
#define MAX_FIELDS	16

typedef struct StateReader
{
	JsonbContainer *object;
	const char *fields[MAX_FIELDS];	/* keys found in it so far */
	int			nfields;
	Node	   *escontext;
} StateReader;

#define REJECT(reader, ...) \
	ereturn((reader)->escontext, false, \
			(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION), \
			 errmsg("invalid input syntax for type %s", "bandit_state"), \
			 errdetail(__VA_ARGS__)))

/*
 * Find a field by its key.  A value of another type than wanted is an error;
 * jbvNull stands for "a number or null".
 */
static bool
read_field(StateReader *reader, const char *key, enum jbvType wanted,
		   JsonbValue *value)
{
	static const char *const kinds[] = {
		[jbvNull] = "a number or null",
		[jbvString] = "a string",
		[jbvNumeric] = "a number",
		[jbvBool] = "a boolean"
	};

	if (getKeyJsonValueFromContainer(reader->object, key, strlen(key), value) == NULL)
		REJECT(reader, "Key \"%s\" is missing.", key);
	Assert(reader->nfields < MAX_FIELDS);
	reader->fields[reader->nfields++] = key;

	if (wanted == jbvArray)
	{
		/* an array inside an object comes as jbvBinary */
		if (value->type != jbvBinary ||
			!JsonContainerIsArray(value->val.binary.data))
			REJECT(reader, "Key \"%s\" must be an array.", key);
	}
	else if (value->type != wanted &&
			 !(wanted == jbvNull && value->type == jbvNumeric))
		REJECT(reader, "Key \"%s\" must be %s.", key, kinds[wanted]);
	return true;
}

/*
 * Write a number.  It may have 131,072 digits, and there may be many of them, so
 * be ready to be cancelled.
 */
static char *
json_number_text(const JsonbValue *value)
{
	CHECK_FOR_INTERRUPTS();
	return DatumGetCString(DirectFunctionCall1(numeric_out,
											   NumericGetDatum(value->val.numeric)));
}

/*
 * Convert a JSON number to a double, correctly rounded.  Too large a number
 * becomes infinity, which state_problem() will not accept.
 */
static double
number_to_double(const JsonbValue *value)
{
	char	   *digits = json_number_text(value);
	double		result = strtod(digits, NULL);

	pfree(digits);
	return result;
}

static bool
number_to_int64(const JsonbValue *value, int64 *result)
{
	char	   *digits = json_number_text(value);
	char	   *end;

	errno = 0;
	*result = strtoi64(digits, &end, 10);
	return errno == 0 && *end == '\0';
}

static bool
read_double(StateReader *reader, const char *key, double *result)
{
	JsonbValue	value;

	if (!read_field(reader, key, jbvNumeric, &value))
		return false;
	*result = number_to_double(&value);
	return true;
}

static bool
read_int64(StateReader *reader, const char *key, int64 least, int64 most,
		   int64 *result)
{
	JsonbValue	value;

	if (!read_field(reader, key, jbvNumeric, &value))
		return false;
	if (least == most && (!number_to_int64(&value, result) || *result != least))
		REJECT(reader, "Key \"%s\" must be " INT64_FORMAT ".", key, least);
	if (!number_to_int64(&value, result) || *result < least || *result > most)
		REJECT(reader, "Key \"%s\" must be an integer from " INT64_FORMAT
			   " to " INT64_FORMAT ".", key, least, most);
	return true;
}

static bool
read_int32(StateReader *reader, const char *key, int32 least, int32 most,
		   int32 *result)
{
	int64		number;

	if (!read_int64(reader, key, least, most, &number))
		return false;
	*result = (int32) number;
	return true;
}

static bool
read_params(StateReader *reader, LearnerParams *params)
{
	JsonbValue	value;
	int32		version;

	if (!read_int32(reader, "version", BANDIT_STATE_VERSION,
					BANDIT_STATE_VERSION, &version))
		return false;

	if (!read_field(reader, "algorithm", jbvString, &value))
		return false;
	if (!algorithm_by_name(pnstrdup(value.val.string.val, value.val.string.len),
						   &params->algorithm))
		REJECT(reader, "Key \"%s\" must be \"dada\", \"dada-ix\" or \"deda\".",
			   "algorithm");

	if (!read_int32(reader, "arms", LEARNER_MIN_ARMS, LEARNER_MAX_ARMS,
					&params->arms))
		return false;

	params->skipping = false;
	params->patience = 0;
	params->max_delay = NO_DELAY;
	params->step_scale = 1;
	if (params->algorithm == DEDA)
	{
		if (!read_field(reader, "max_delay", jbvNull, &value))
			return false;
		if (value.type == jbvNumeric)
		{
			reader->nfields--;	/* the same field once more */
			return read_int32(reader, "max_delay", 0, PG_INT32_MAX,
							  &params->max_delay);
		}
		return true;
	}

	if (!read_field(reader, "skipping", jbvBool, &value))
		return false;
	params->skipping = value.val.boolean;
	if (params->skipping &&
		!read_int32(reader, "patience", 0, PG_INT32_MAX, &params->patience))
		return false;
	return read_double(reader, "step_scale", &params->step_scale);
}

/*
 * Read the open rounds, none of them after the newest round, into a palloc'd
 * set, and count them.
 */
static bool
read_open_rounds(StateReader *reader, int64 newest, OpenRounds *open, int64 *count)
{
	JsonbValue	value;
	JsonbContainer *array;
	int64		previous = 0;
	int64		capacity = 0;

	if (!read_field(reader, "open", jbvArray, &value))
		return false;
	array = value.val.binary.data;
	*count = JsonContainerSize(array);

	for (uint32 i = 0; i < *count; i++)
	{
		JsonbValue *element = getIthJsonbValueFromContainer(array, i);
		int64		round;
		int64		nwords;

		if (element->type != jbvNumeric ||
			!number_to_int64(element, &round) ||
			round <= previous || round > newest)
			REJECT(reader, "Key \"%s\" must list rounds up to \"round\" in ascending order.",
				   "open");

		nwords = open_rounds_words_with(open, round);
		if (nwords > capacity)
		{
			if (nwords > MAX_OPEN_WORDS)
				REJECT(reader, "Key \"%s\" spans too many rounds.", "open");
			capacity = Min(2 * nwords, MAX_OPEN_WORDS);
			open->words = open->words == NULL ?
				palloc(capacity * sizeof(uint64)) :
				repalloc(open->words, capacity * sizeof(uint64));
		}
		open_rounds_add(open, round);
		previous = round;
		pfree(element);
	}
	return true;
}

static bool
read_vector(StateReader *reader, const char *key, double *vector, int32 arms)
{
	JsonbValue	value;
	JsonbIterator *iterator;
	JsonbIteratorToken token;
	int32		i = 0;

	if (!read_field(reader, key, jbvArray, &value))
		return false;
	if (JsonContainerSize(value.val.binary.data) != (uint32) arms)
		REJECT(reader, "Key \"%s\" must have %d elements.", key, arms);

	iterator = JsonbIteratorInit(value.val.binary.data);
	while ((token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE)
	{
		if (token != WJB_ELEM)
			continue;
		if (value.type != jbvNumeric)
			REJECT(reader, "Key \"%s\" must be an array of numbers.", key);
		vector[i++] = number_to_double(&value);
	}
	return true;
}

/*
 * Check that there are no fields but those that have been read.
 */
static bool
check_no_more_fields(StateReader *reader)
{
	JsonbIterator *iterator = JsonbIteratorInit(reader->object);
	JsonbIteratorToken token;
	JsonbValue	value;

	while ((token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE)
	{
		bool		known = token != WJB_KEY;

		for (int i = 0; i < reader->nfields && !known; i++)
			known = strlen(reader->fields[i]) == (size_t) value.val.string.len &&
				memcmp(reader->fields[i], value.val.string.val,
					   value.val.string.len) == 0;
		if (!known)
			REJECT(reader, "Key \"%s\" does not belong here.",
				   pnstrdup(value.val.string.val, value.val.string.len));
	}
	return true;
}

static bool
read_state(StateReader *reader, BanditState **result)
{
	LearnerParams params;
	OpenRounds	open = {0};
	BanditState *state;
	Learner		learner;
	const char *problem;
	int64		round;
	int64		outstanding;

	if (!read_params(reader, &params) ||
		!read_int64(reader, "round", 0, LEARNER_MAX_ROUNDS, &round))
		return false;
	if (!(params.skipping ?
		  read_open_rounds(reader, round, &open, &outstanding) :
		  read_int64(reader, "outstanding", 0, round, &outstanding)))
		return false;

	state = state_make(&params, open.nwords);
	state->open_first_word = open.first_word;
	state->round = round;
	state->outstanding = outstanding;
	state_view(state, &learner);
	if (open.nwords > 0)
		memcpy(learner.open.words, open.words, open.nwords * sizeof(uint64));

	if (!read_double(reader, "cumulative_delay", &state->cumulative_delay))
		return false;
	if (params.algorithm == DEDA &&
		(!read_double(reader, "longest_delay", &state->longest_delay) ||
		 !read_double(reader, "lbck", &state->lbck)))
		return false;
	for (int i = 0; i < NUM_VECTORS(params.algorithm); i++)
	{
		if (!read_vector(reader, vector_names[i],
						 state->vectors + (Size) i * params.arms, params.arms))
			return false;
	}

	if (!check_no_more_fields(reader))
		return false;
	problem = state_problem(state);
	if (problem != NULL)
		REJECT(reader, "The state is wrong: %s.", problem);

	*result = state;
	return true;
}

Datum
bandit_state_in(PG_FUNCTION_ARGS)
{
	char	   *text = PG_GETARG_CSTRING(0);
	Node	   *escontext = fcinfo->context;
	StateReader reader = {0};
	BanditState *state;
	Datum		jsonb;

	if (!InputFunctionCallSoft(jsonb_in, text, escontext, &jsonb))
		PG_RETURN_NULL();
	reader.object = &DatumGetJsonbP(jsonb)->root;
	reader.escontext = escontext;
	if (!JsonContainerIsObject(reader.object))
		ereturn(escontext, (Datum) 0,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid input syntax for type %s", "bandit_state"),
				 errdetail("A JSON object is expected.")));

	if (!read_state(&reader, &state))
		PG_RETURN_NULL();
	PG_RETURN_BANDIT_STATE(state);
}

/* ----------
 * Binary form: the fields of BanditState in their order, in network byte order
 * ----------
 */

Datum
bandit_state_send(PG_FUNCTION_ARGS)
{
	BanditState *state = PG_GETARG_BANDIT_STATE(0);
	Size		nvalues = NUM_VECTORS(state->algorithm) * (Size) state->arms;
	StringInfoData buf;
	Learner		learner;

	state_view(state, &learner);
	pq_begintypsend(&buf);
	pq_sendbyte(&buf, state->version);
	pq_sendbyte(&buf, state->algorithm);
	pq_sendbyte(&buf, state->skipping);
	pq_sendbyte(&buf, state->reserved);
	pq_sendint32(&buf, state->arms);
	pq_sendint32(&buf, state->patience);
	pq_sendint32(&buf, state->max_delay);
	pq_sendint32(&buf, state->reserved2);
	pq_sendfloat8(&buf, state->step_scale);
	pq_sendint64(&buf, state->round);
	pq_sendint64(&buf, state->outstanding);
	pq_sendfloat8(&buf, state->cumulative_delay);
	pq_sendfloat8(&buf, state->longest_delay);
	pq_sendfloat8(&buf, state->lbck);
	pq_sendint64(&buf, state->open_first_word);
	pq_sendint64(&buf, state->open_nwords);
	for (Size i = 0; i < nvalues; i++)
		pq_sendfloat8(&buf, state->vectors[i]);
	for (int64 i = 0; i < learner.open.nwords; i++)
		pq_sendint64(&buf, learner.open.words[i]);
	PG_RETURN_BYTEA_P(pq_endtypsend(&buf));
}

static void
reject_binary(const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
			 errmsg("invalid binary representation of type %s", "bandit_state"),
			 errdetail("The state is wrong: %s.", problem)));
}

Datum
bandit_state_recv(PG_FUNCTION_ARGS)
{
	StringInfo	buf = (StringInfo) PG_GETARG_POINTER(0);
	BanditState header = {0};
	LearnerParams params;
	BanditState *state;
	Learner		learner;
	const char *problem;
	Size		nvalues;
	Size		remaining;

	header.version = pq_getmsgbyte(buf);
	if (header.version != BANDIT_STATE_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("unsupported version %d of the binary form of type %s",
						header.version, "bandit_state")));
	header.algorithm = pq_getmsgbyte(buf);
	header.skipping = pq_getmsgbyte(buf);
	header.reserved = pq_getmsgbyte(buf);
	header.arms = pq_getmsgint(buf, 4);
	header.patience = pq_getmsgint(buf, 4);
	header.max_delay = pq_getmsgint(buf, 4);
	header.reserved2 = pq_getmsgint(buf, 4);
	header.step_scale = pq_getmsgfloat8(buf);
	header.round = pq_getmsgint64(buf);
	header.outstanding = pq_getmsgint64(buf);
	header.cumulative_delay = pq_getmsgfloat8(buf);
	header.longest_delay = pq_getmsgfloat8(buf);
	header.lbck = pq_getmsgfloat8(buf);
	header.open_first_word = pq_getmsgint64(buf);
	header.open_nwords = pq_getmsgint64(buf);

	/* nothing is allocated before the counts match the message's length */
	params = state_params(&header);
	problem = learner_params_problem(&params);
	if (problem != NULL)
		reject_binary(problem);
	nvalues = NUM_VECTORS(params.algorithm) * (Size) params.arms;
	remaining = buf->len - buf->cursor;
	if (remaining % 8 != 0 || remaining / 8 < nvalues ||
		header.open_nwords != (int64) (remaining / 8 - nvalues))
		reject_binary("its size is wrong");

	state = state_make(&params, header.open_nwords);
	SET_VARSIZE(&header, VARSIZE(state));
	memcpy(state, &header, offsetof(BanditState, vectors));
	state_view(state, &learner);
	for (Size i = 0; i < nvalues; i++)
		state->vectors[i] = pq_getmsgfloat8(buf);
	for (int64 i = 0; i < learner.open.nwords; i++)
		learner.open.words[i] = pq_getmsgint64(buf);

	problem = state_problem(state);
	if (problem != NULL)
		reject_binary(problem);
	PG_RETURN_BANDIT_STATE(state);
}

/* ----------
 * Equality and hashing: the stored form is canonical, so bytes decide
 * ----------
 */

static bool
state_equal(const BanditState *a, const BanditState *b)
{
	return VARSIZE(a) == VARSIZE(b) && memcmp(a, b, VARSIZE(a)) == 0;
}

Datum
bandit_state_eq(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(state_equal(PG_GETARG_BANDIT_STATE(0),
							   PG_GETARG_BANDIT_STATE(1)));
}

Datum
bandit_state_ne(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!state_equal(PG_GETARG_BANDIT_STATE(0),
								PG_GETARG_BANDIT_STATE(1)));
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
