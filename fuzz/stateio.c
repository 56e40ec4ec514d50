/*
 * fuzz/stateio.c
 *	  Fuzz the text and the binary form of bandit_state, inside a real backend.
 *
 * Text input goes through PostgreSQL's JSON parser and its type numeric, so the
 * fuzzer comes to PostgreSQL, not PostgreSQL to the fuzzer: this file is linked
 * into the extension's library, and the SQL function below runs libFuzzer on
 * all the memory there is, thousands of inputs a second in one transaction.
 *
 * An input is refused with an error that such an input may have.  Or it is a
 * state: then both its forms read back as the same bytes, its numbers are where
 * doc/format.md has them, and every function works on it.  The functions are called
 * as SQL would call them.
 *
 * An input that begins with a small byte, as the binary form does with its
 * version, is taken as binary, any other as text.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "port/pg_bitutils.h"
#include "port/pg_bswap.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/fmgrprotos.h"

#include "compat.h"
#include "palloc.h"
#include "state.h"

/* here they are PostgreSQL's own */
#undef palloc
#undef palloc0
#undef repalloc
#undef pfree

extern int	LLVMFuzzerRunDriver(int *argc, char ***argv,
								int (*callback) (const uint8_t *data, size_t size));
extern size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
extern size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
									  size_t max_size, unsigned int seed);

PG_FUNCTION_INFO_V1(fuzz_bandit_state);

#define CHECK(condition, ...) \
	do { \
		if (!(condition)) \
		{ \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			fprintf(stderr, __VA_ARGS__); \
			fputc('\n', stderr); \
			abort(); \
		} \
	} while (0)

/* ----------
 * Memory, see palloc.h
 * ----------
 */

static bool trying = false;		/* is an input being tried? */
static void *pieces[1000];		/* what it got from malloc */
static int	npieces = 0;

/*
 * Open rounds may span so much memory that one input would take seconds; let such
 * an input fail.
 */
#define SMALL_MEMORY	(1024 * 1024)
static Size memory_limit = SMALL_MEMORY;

static void
check_limit(Size size)
{
	if (size > memory_limit)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
}

static int
find_piece(const void *pointer)
{
	for (int i = npieces - 1; i >= 0; i--)
	{
		if (pieces[i] == pointer)
			return i;
	}
	return -1;
}

void *
fuzz_palloc(Size size)
{
	/* what PostgreSQL would refuse, let it refuse */
	if (!trying || !AllocSizeIsValid(size) || npieces == lengthof(pieces))
		return palloc(size);
	check_limit(size);
	pieces[npieces] = malloc(size);
	CHECK(pieces[npieces] != NULL, "out of memory");
	return pieces[npieces++];
}

void *
fuzz_palloc0(Size size)
{
	return memset(fuzz_palloc(size), 0, size);
}

void *
fuzz_repalloc(void *pointer, Size size)
{
	int			i = find_piece(pointer);

	if (i < 0 || !AllocSizeIsValid(size))
		return repalloc(pointer, size);
	check_limit(size);
	pieces[i] = realloc(pointer, size);
	CHECK(pieces[i] != NULL, "out of memory");
	return pieces[i];
}

void
fuzz_pfree(void *pointer)
{
	int			i = find_piece(pointer);

	if (i < 0)
		pfree(pointer);
	else
	{
		free(pointer);
		pieces[i] = pieces[--npieces];
	}
}

/* ----------
 * Calling functions
 * ----------
 */

enum
{
	IN, OUT, RECV, SEND, TO_JSONB, HASH, PROBABILITIES, STEP_SIZE, DRAW, LEARN,
	NUM_FUNCTIONS
};

static const char *const signatures[NUM_FUNCTIONS] = {
	[IN] = "bandit_state_in(cstring)",
	[OUT] = "bandit_state_out(bandit_state)",
	[RECV] = "bandit_state_recv(internal)",
	[SEND] = "bandit_state_send(bandit_state)",
	[TO_JSONB] = "jsonb(bandit_state)",
	[HASH] = "bandit_state_hash(bandit_state)",
	[PROBABILITIES] = "bandit_probabilities(bandit_state)",
	[STEP_SIZE] = "bandit_step_size(bandit_state)",
	[DRAW] = "bandit_draw(bandit_state,integer)",
	[LEARN] = "bandit_learn(bandit_state,bandit_ticket,double precision)"
};

static FmgrInfo functions[NUM_FUNCTIONS];
static MemoryContext memory;

/*
 * Call a function with one to three arguments that are not null, except that a
 * draw may have no delay.  Returns 0 and sets *result, or the SQLSTATE of the
 * error.
 */
static int
call(int function, Node *escontext, Datum *result, Datum a, Datum b, Datum c)
{
	LOCAL_FCINFO(fcinfo, 3);
	MemoryContext caller = CurrentMemoryContext;
	volatile int sqlstate = 0;

	InitFunctionCallInfoData(*fcinfo, &functions[function],
							 functions[function].fn_nargs, InvalidOid,
							 escontext, NULL);
	fcinfo->args[0].value = a;
	fcinfo->args[1].value = b;
	fcinfo->args[2].value = c;
	fcinfo->args[0].isnull = fcinfo->args[2].isnull = false;
	fcinfo->args[1].isnull = function == DRAW && DatumGetInt32(b) == NO_DELAY;

	PG_TRY();
	{
		*result = FunctionCallInvoke(fcinfo);
	}
	PG_CATCH();
	{
		sqlstate = geterrcode();
		MemoryContextSwitchTo(caller);
		FlushErrorState();
	}
	PG_END_TRY();
	return sqlstate;
}

/* Call a function that must not fail. */
static Datum
must(int function, Datum a, Datum b, Datum c)
{
	Datum		result;
	int			sqlstate = call(function, NULL, &result, a, b, c);

	CHECK(sqlstate == 0, "%s failed: %s", signatures[function],
		  unpack_sql_state(sqlstate));
	return result;
}

static Datum
call_in(char *text, int *sqlstate)
{
	Datum		state = 0;

	*sqlstate = call(IN, NULL, &state, CStringGetDatum(text), 0, 0);
	return state;
}

static Datum
call_recv(const void *bytes, Size size, int *sqlstate)
{
	StringInfoData message;
	Datum		state = 0;

	/* of its very size, so that the sanitizer sees who reads on */
	message.data = fuzz_palloc(size);
	memcpy(message.data, bytes, size);
	message.len = message.maxlen = (int) size;
	message.cursor = 0;
	*sqlstate = call(RECV, NULL, &state, PointerGetDatum(&message), 0, 0);

	/* whoever calls such a function refuses what it has not read */
	if (*sqlstate == 0 && message.cursor != message.len)
		*sqlstate = ERRCODE_INVALID_BINARY_REPRESENTATION;
	return state;
}

/* ----------
 * What must hold
 * ----------
 */

static void
check_same(Datum a, Datum b)
{
	const void *x = DatumGetPointer(a);
	const void *y = DatumGetPointer(b);

	CHECK(VARSIZE(x) == VARSIZE(y) && memcmp(x, y, VARSIZE(x)) == 0,
		  "%s\nis not\n%s", DatumGetCString(must(OUT, a, 0, 0)),
		  DatumGetCString(must(OUT, b, 0, 0)));
}

/* Find a number in the text form; null is 0. */
static double
number_in_text(const char *form, const char *key, int index)
{
	char	   *label = psprintf("\"%s\": ", key);
	const char *at = strstr(form, label);

	CHECK(at != NULL, "%s in %s", key, form);
	at += strlen(label);
	if (index >= 0)
		CHECK(*at++ == '[', "%s in %s", key, form);
	for (; index > 0; index--)
	{
		at = strchr(at, ',');
		CHECK(at != NULL, "%s in %s", key, form);
		at++;
	}
	return strncmp(at, "null", 4) == 0 ? 0 : strtod(at, NULL);
}

/* Check a number of the stored form, at its offset in doc/format.md. */
static void
check_number(Datum state, int offset, const char *form, const char *key, int index)
{
	double		want = number_in_text(form, key, index);
	double		have;

	memcpy(&have, (char *) DatumGetPointer(state) + offset, sizeof(have));
	CHECK(memcmp(&have, &want, sizeof(have)) == 0, "%s is %.17g at %d in %s",
		  key, have, offset, form);
}

/* A state has its size, its numbers in their places, and one form only. */
static void
check_layout(Datum datum, const char *form)
{
	BanditState *state = (BanditState *) DatumGetPointer(datum);
	int			arms = state->arms;
	int			z = state->algorithm == SELF_TUNED ? 128 : 88;

	CHECK(VARSIZE(state) == z + 8 * arms * (state->algorithm == DEDA ? 4 : 1) +
		  8 * state->open_nwords, "%d: %s", (int) VARSIZE(state), form);
	for (int i = 0; i < arms; i += 1 + arms / 20)
		check_number(datum, z + 8 * i, form, "z", i);
	check_number(datum, 48, form, "cumulative_delay", -1);
	if (state->algorithm != SELF_TUNED)
		return;

	check_number(datum, 88, form, "optimism", -1);
	check_number(datum, 96, form, "half_life", -1);
	check_number(datum, 104, form, "settled", -1);
	check_number(datum, 112, form, "total_loss", -1);
	check_number(datum, 120, form, "cost", -1);
	for (int i = 0; i < 5 + arms; i++)
	{
		double		number = state->values[i];

		CHECK(fabs(number) <= (i < 4 ? ldexp(1, 54) : 1e300) && !(i < 4 && number < 0) &&
			  !(number == 0 && signbit(number)), "%d: %g", i, number);
	}
	CHECK(state->skipping == 0 && state->patience == 0 && state->max_delay == -1 &&
		  state->step_scale == 1 && state->longest_delay == 0 && state->lbck == 0 &&
		  state->open_first_word == 0 && state->open_nwords == 0, "%s", form);
}

/* A state keeps its identity in every form, and can be looked at. */
static void
check_state(Datum state)
{
	char	   *text = DatumGetCString(must(OUT, state, 0, 0));
	bytea	   *bytes = DatumGetByteaP(must(SEND, state, 0, 0));
	ArrayType  *probabilities = DatumGetArrayTypeP(must(PROBABILITIES, state, 0, 0));
	double	   *p = (double *) ARR_DATA_PTR(probabilities);
	int			arms = ((BanditState *) DatumGetPointer(state))->arms;
	double		step_size = DatumGetFloat8(must(STEP_SIZE, state, 0, 0));
	long double sum = 0;
	Datum		again;
	int			sqlstate;

	memory_limit = MaxAllocSize;	/* what could be made can be read */
	again = call_in(text, &sqlstate);
	memory_limit = SMALL_MEMORY;
	CHECK(sqlstate == 0, "%s: %s", unpack_sql_state(sqlstate), text);
	check_same(state, again);
	CHECK(must(HASH, state, 0, 0) == must(HASH, again, 0, 0), "%s", text);
	again = call_recv(VARDATA(bytes), VARSIZE(bytes) - VARHDRSZ, &sqlstate);
	CHECK(sqlstate == 0, "%s: %s", unpack_sql_state(sqlstate), text);
	check_same(state, again);
	(void) must(TO_JSONB, state, 0, 0);
	check_layout(state, text);

	CHECK(isfinite(step_size) && step_size >= 0, "%g", step_size);
	if (((BanditState *) DatumGetPointer(state))->algorithm == SELF_TUNED)
		CHECK(step_size > 0 && step_size * arms < 1 + 1e-9, "%.17g", step_size);
	CHECK(ARR_NDIM(probabilities) == 1 && ARR_DIMS(probabilities)[0] == arms &&
		  !ARR_HASNULL(probabilities), "%s", text);
	for (int i = 0; i < arms; i++)
	{
		CHECK(p[i] >= 0 && p[i] <= 1, "%d: %g", i, p[i]);
		sum += p[i];
	}
	CHECK(fabsl(sum - 1) < 1e-9L, "%.17Lg", sum);
}

/* Copy a state to memory of its very size. */
static Datum
copy_state(Datum state)
{
	const void *bytes = DatumGetPointer(state);

	return PointerGetDatum(memcpy(fuzz_palloc(VARSIZE(bytes)), bytes, VARSIZE(bytes)));
}

/*
 * Draw from a state, and copy the new state and the ticket.  Returns false if there
 * is no round left, or no room for the open rounds.
 */
static bool
draw(Datum *state, int delay, Datum *ticket)
{
	Datum		drawn;
	Datum		step_size = must(STEP_SIZE, *state, 0, 0);
	HeapTupleHeader fields;
	bool		isnull;
	int			sqlstate = call(DRAW, NULL, &drawn, *state, Int32GetDatum(delay), 0);

	if (sqlstate == ERRCODE_PROGRAM_LIMIT_EXCEEDED || sqlstate == ERRCODE_OUT_OF_MEMORY)
		return false;
	CHECK(sqlstate == 0, "draw failed: %s", unpack_sql_state(sqlstate));
	*state = GetAttributeByNum(DatumGetHeapTupleHeader(drawn), 1, &isnull);
	*ticket = GetAttributeByNum(DatumGetHeapTupleHeader(drawn), 2, &isnull);
	*state = copy_state(PointerGetDatum(DatumGetBanditState(*state)));
	check_state(*state);

	fields = DatumGetHeapTupleHeader(*ticket);
	if (((BanditState *) DatumGetPointer(*state))->algorithm == SELF_TUNED)
		CHECK(DatumGetFloat8(GetAttributeByName(fields, "gamma", &isnull)) ==
			  DatumGetFloat8(step_size) / 16, "%g", DatumGetFloat8(step_size));
	return true;
}

static void
learn(Datum *state, Datum ticket, double loss)
{
	*state = must(LEARN, *state, ticket, Float8GetDatum(loss));
	check_state(*state);
}

/* A state can be played: feedback comes at once, or late and out of order. */
static void
check_play(Datum state, double loss)
{
	BanditState *start = (BanditState *) DatumGetPointer(state);
	Datum		before = copy_state(state);
	Datum		tickets[3];
	int			ndrawn = 0;
	int			delay = NO_DELAY;

	if (start->algorithm == DEDA && start->max_delay == NO_DELAY)
		delay = (int) (start->round % 100);
	while (ndrawn < (int) lengthof(tickets) && draw(&state, delay, &tickets[ndrawn]))
	{
		if (ndrawn++ == 0)
			learn(&state, tickets[0], loss);
	}
	while (ndrawn > 1)
		learn(&state, tickets[--ndrawn], 1 - loss);
	check_same(PointerGetDatum(start), before);
}

/* The errors that an input may be refused with */
static bool
may_refuse(bool binary, int sqlstate)
{
	switch (sqlstate)
	{
		case ERRCODE_PROGRAM_LIMIT_EXCEEDED:
		case ERRCODE_OUT_OF_MEMORY:
			return true;
		case ERRCODE_INVALID_BINARY_REPRESENTATION:
		case ERRCODE_PROTOCOL_VIOLATION:
			return binary;
		case ERRCODE_INVALID_TEXT_REPRESENTATION:
		case ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE:
		case ERRCODE_UNTRANSLATABLE_CHARACTER:
		case ERRCODE_STATEMENT_TOO_COMPLEX:
			return !binary;
		default:
			return false;
	}
}

static bool
is_binary(const uint8_t *data, size_t size)
{
	return size > 0 && data[0] < '\t';
}

static void
try_input(const uint8_t *data, size_t size)
{
	bool		binary = is_binary(data, size);
	int			sqlstate;
	Datum		state;

	if (binary)
		state = call_recv(data, size, &sqlstate);
	else
	{
		char	   *form = fuzz_palloc(size + 1);

		memcpy(form, data, size);
		form[size] = '\0';
		/* a server checks this before an input function sees it */
		if (!pg_verifymbstr(form, (int) size, true))
			return;
		state = call_in(form, &sqlstate);

#if PG_VERSION_NUM >= 160000
		{
			/* asked to be soft, it says the same, except of limits */
			ErrorSaveContext soft = {.type = T_ErrorSaveContext};
			Datum		again;
			int			hard = call(IN, (Node *) &soft, &again,
									CStringGetDatum(form), 0, 0);

			if (hard == 0)
				CHECK(soft.error_occurred == (sqlstate != 0), "%s", form);
			else
				CHECK(hard == sqlstate &&
					  (hard == ERRCODE_STATEMENT_TOO_COMPLEX ||
					   hard == ERRCODE_PROGRAM_LIMIT_EXCEEDED ||
					   hard == ERRCODE_OUT_OF_MEMORY),
					  "%s: %s", unpack_sql_state(hard), form);
		}
#endif
	}
	if (sqlstate != 0)
	{
		CHECK(may_refuse(binary, sqlstate), "%s", unpack_sql_state(sqlstate));
		return;
	}
	check_state(state);
	check_play(state, size % 2 == 0 ? 1 : 0.3);
}

static int
callback(const uint8_t *data, size_t size)
{
	MemoryContext caller = MemoryContextSwitchTo(memory);

	trying = true;
	try_input(data, size);
	trying = false;
	while (npieces > 0)
		free(pieces[--npieces]);
	MemoryContextSwitchTo(caller);
	MemoryContextReset(memory);
	return 0;
}

/* ----------
 * Mutation
 * ----------
 */

/* Offsets in the binary form: those of the stored form, without the length */
#define OFFSET(field)	(offsetof(BanditState, field) - sizeof(int32))

static void
put_int64(uint8_t *at, int64 number)
{
	uint64		big_endian = pg_hton64((uint64) number);

	memcpy(at, &big_endian, sizeof(big_endian));
}

static void
put_double(uint8_t *at, double number)
{
	int64		bits;

	memcpy(&bits, &number, sizeof(bits));
	put_int64(at, bits);
}

/*
 * Mutate at random, as libFuzzer does.  But in the binary form two numbers count
 * what comes later, and if they are wrong nothing else is looked at: so they are
 * often put right, even if that makes one negative.  And libFuzzer does not know
 * where a number begins, so that one of those which matter is sometimes put there.
 */
size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
						unsigned int seed)
{
	static const double numbers[] = {
		0, -0.0, 1, 0.25, 0.001, 2, -1, 9007199254740992.0, 18014398509481984.0,
		1e300, -1e300, 1.0000000000000002e300, 5e-324, 1e16
	};
	uint32		arms;
	int			algorithm;
	int64		words;
	int64		open_nwords;
	int64		outstanding = 0;

	size = LLVMFuzzerMutate(data, size, max_size);
	if (!is_binary(data, size) || size < OFFSET(values) || seed % 4 == 0)
		return size;

	words = (int64) (size - OFFSET(values)) / 8;
	memcpy(&arms, data + OFFSET(arms), sizeof(arms));
	algorithm = data[OFFSET(algorithm)];
	open_nwords = words - NUM_SCALARS(algorithm) -
		NUM_VECTORS(algorithm) * (int64) pg_ntoh32(arms);
	put_int64(data + OFFSET(open_nwords), open_nwords);
	size = OFFSET(values) + (size_t) words * 8;
	if (words > 0 && seed / 4 % 4 == 0)
		put_double(data + OFFSET(values) + seed / 16 % 4096 % words * 8,
				   numbers[seed / 65536 % lengthof(numbers)]);

	if (seed % 4 == 1 || open_nwords < 0)
		return size;
	for (size_t i = size - (size_t) open_nwords * 8; i < size; i++)
		outstanding += pg_number_of_ones[data[i]];
	if (data[OFFSET(skipping)] == 1)
		put_int64(data + OFFSET(outstanding), outstanding);
	return size;
}

/*
 * fuzz_bandit_state(VARIADIC text[]): run libFuzzer with these arguments.
 * libFuzzer ends the process.
 */
Datum
fuzz_bandit_state(PG_FUNCTION_ARGS)
{
	Datum	   *elements;
	int			argc;
	char	  **argv;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), TEXTOID, -1, false, TYPALIGN_INT,
					  &elements, NULL, &argc);
	argv = palloc0(sizeof(char *) * (argc + 2));
	argv[0] = pstrdup("stateio");
	for (int i = 0; i < argc; i++)
		argv[i + 1] = TextDatumGetCString(elements[i]);
	argc++;

	for (int i = 0; i < NUM_FUNCTIONS; i++)
		fmgr_info(DatumGetObjectId(DirectFunctionCall1(regprocedurein,
													   CStringGetDatum(signatures[i]))),
				  &functions[i]);
	memory = AllocSetContextCreate(CurrentMemoryContext, "fuzz",
								   ALLOCSET_DEFAULT_SIZES);
	PG_RETURN_INT32(LLVMFuzzerRunDriver(&argc, &argv, callback));
}
