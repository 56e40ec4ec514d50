/*
 * fold.c
 *	  The state of a managed bandit: a sum over rows of its log.
 */
#include "postgres.h"

#include <math.h>

#include "utils/memutils.h"

#include "fold.h"

/*
 * Start with an empty log.  Everything is allocated in the current context.
 */
void
fold_init(Fold *fold, const FoldSetup *setup)
{
	const LearnerParams *params = &setup->params;
	Size		arms = params->arms;

	memset(fold, 0, sizeof(Fold));
	fold->keep_open = setup->keep_open;
	learner_init(&fold->learner, params,
				 palloc0(NUM_VECTORS(params->algorithm) * arms * sizeof(double)));
	if (setup->head_start != NULL)
		memcpy(fold->learner.z, setup->head_start, arms * sizeof(double));
	if (setup->retired != NULL)
	{
		bool	   *retired = palloc(arms);

		memcpy(retired, setup->retired, arms);
		learner_retire(&fold->learner, retired);
	}
	fold->weights = palloc(arms * sizeof(double));
	if (params->algorithm == DEDA)
		fold->tie_round = palloc0(arms * sizeof(int64));
}

/* ----------
 * Open decisions
 * ----------
 */

static int
compare_open(const OpenDecision *a, const OpenDecision *b)
{
	if (a->round != b->round)
		return a->round < b->round ? -1 : 1;
	return a->decision_id < b->decision_id ? -1 :
		a->decision_id > b->decision_id ? 1 : 0;
}

/*
 * Return the place of the first open decision that is not before the given one.
 */
static int64
find_open(const Fold *fold, const OpenDecision *decision)
{
	int64		low = fold->open_first;
	int64		high = fold->open_end;

	/* a new decision comes last */
	if (low < high && compare_open(&fold->open[high - 1], decision) < 0)
		return high;

	while (low < high)
	{
		int64		middle = low + (high - low) / 2;

		if (compare_open(&fold->open[middle], decision) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Return the place of the first open decision of this round or a later one.
 */
int64
fold_find_round(const Fold *fold, int64 round)
{
	OpenDecision first = {.round = round, .decision_id = PG_INT64_MIN};

	return find_open(fold, &first);
}

/*
 * Drop the closed ones, and move the others to the start of the array.
 */
static void
compact_open(Fold *fold)
{
	int64		n = 0;

	for (int64 i = fold->open_first; i < fold->open_end; i++)
	{
		if (!fold->open[i].closed)
			fold->open[n++] = fold->open[i];
	}
	fold->open_first = 0;
	fold->open_end = n;
	fold->open_closed = 0;
}

/*
 * Make room for n more at the end.  All that is allocated for a fold lives in
 * one context, so that growing here is safe from any other.
 */
static void
reserve_open(Fold *fold, int64 n)
{
	int64		capacity;

	if (fold->open_end + n <= fold->open_capacity)
		return;

	compact_open(fold);
	if (fold->open_end + n <= fold->open_capacity / 4 * 3)
		return;					/* enough to make compacting worth its while */
	capacity = Max(64, 2 * (fold->open_end + n));
	if (fold->open == NULL)
		fold->open = MemoryContextAllocHuge(GetMemoryChunkContext(fold->weights),
											capacity * sizeof(OpenDecision));
	else
		fold->open = repalloc_huge(fold->open, capacity * sizeof(OpenDecision));
	fold->open_capacity = capacity;
}

static void
add_open(Fold *fold, int64 round, int64 decision_id, TimestampTz decided_at)
{
	OpenDecision decision = {
		.round = round,
		.decision_id = decision_id,
		.decided_at = decided_at
	};
	int64		place;

	reserve_open(fold, 1);
	place = find_open(fold, &decision);	/* nearly always at the end */
	memmove(fold->open + place + 1, fold->open + place,
			(fold->open_end - place) * sizeof(OpenDecision));
	fold->open[place] = decision;
	fold->open_end++;
}

static void
close_open(Fold *fold, int64 round, int64 decision_id)
{
	OpenDecision decision = {.round = round, .decision_id = decision_id};
	int64		place = find_open(fold, &decision);

	if (place == fold->open_end ||
		compare_open(&fold->open[place], &decision) != 0 ||
		fold->open[place].closed)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("decision " INT64_FORMAT " is settled in dexp3.feedback, but is not open in dexp3.decision",
						decision_id)));

	fold->open[place].closed = true;
	fold->open_closed++;
	while (fold->open_first < fold->open_end && fold->open[fold->open_first].closed)
	{
		fold->open_first++;
		fold->open_closed--;
	}
}

/* ----------
 * Folding
 * ----------
 */

void
fold_decision(Fold *fold, const Decision *decision)
{
	Learner    *learner = &fold->learner;

	learner->round++;
	learner->outstanding++;
	learner->cumulative_delay += (double) decision->outstanding;
	if (learner->params.algorithm == DEDA)
		learner->longest_delay = fmax(learner->longest_delay,
									  (double) decision->delay);
	if (fold->keep_open)
		add_open(fold, decision->ticket.round, decision->decision_id,
				 decision->decided_at);
	fold->events++;
}

/*
 * Forget the ties of an arm unless they are about the newest round.
 */
void
fold_clear_old_ties(Fold *fold, int32 arm)
{
	if (fold->tie_round != NULL && fold->tie_round[arm] != fold->learner.round)
	{
		fold->learner.z_tie[arm] = 0;
		fold->learner.m_tie[arm] = 0;
	}
}

/*
 * Make sure that the arm of a log row exists: somebody may have written to the
 * tables.
 */
void
fold_check_arm(const Fold *fold, int32 arm)
{
	if (arm < 0 || arm >= fold->learner.params.arms)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("log of a bandit with %d arms has a row with arm %d",
						fold->learner.params.arms, arm + 1)));
}

/*
 * Fold a row of dexp3.feedback.
 *
 * Ties: of each arm the sums over the newest round in which feedback for it
 * arrived are kept, whatever the order in which the rows come.
 */
void
fold_settlement(Fold *fold, const Settlement *settlement)
{
	Learner    *learner = &fold->learner;

	if (fold->keep_open)
		close_open(fold, settlement->round - settlement->feedback.delay,
					settlement->decision_id);

	if (settlement->skipped)
		learner->outstanding--;
	else
	{
		int32		arm = settlement->feedback.arm;
		double		z_tie = 0;
		double		m_tie = 0;

		fold_check_arm(fold, arm);
		if (fold->tie_round != NULL)
		{
			if (settlement->round > fold->tie_round[arm])
			{
				learner->z_tie[arm] = 0;
				learner->m_tie[arm] = 0;
				fold->tie_round[arm] = settlement->round;
			}
			z_tie = learner->z_tie[arm];
			m_tie = learner->m_tie[arm];
		}
		learner_add_feedback(learner, &settlement->feedback);
		if (fold->tie_round != NULL && settlement->round < fold->tie_round[arm])
		{
			learner->z_tie[arm] = z_tie;
			learner->m_tie[arm] = m_tie;
		}
	}
	fold->events++;
}

/*
 * Fold a row of dexp3.trimmed: decisions that were all settled, and their
 * settlements.
 */
void
fold_trimmed(Fold *fold, const Trimmed *trimmed)
{
	Learner    *learner = &fold->learner;

	fold_check_arm(fold, trimmed->arms - 1);
	learner->round += trimmed->rounds;
	learner->cumulative_delay += trimmed->cumulative_delay;
	for (int i = 0; i < trimmed->arms; i++)
		learner->z[i] += trimmed->z[i];
	if (learner->params.algorithm == DEDA)
	{
		for (int i = 0; i < trimmed->arms; i++)
			learner->m[i] += trimmed->m[i];
		learner->lbck += trimmed->lbck;
		learner->longest_delay = fmax(learner->longest_delay,
									  trimmed->longest_delay);
	}
	fold->events += 2 * trimmed->rounds;
}

/*
 * Return how many bytes the vectors, ties and open decisions of a fold take.
 */
static void
content_sizes(const Fold *fold, Size *vectors, Size *ties, Size *open)
{
	const LearnerParams *params = &fold->learner.params;

	*vectors = NUM_VECTORS(params->algorithm) * (Size) params->arms * sizeof(double);
	*ties = fold->tie_round != NULL ? params->arms * sizeof(int64) : 0;
	*open = (fold->open_end - fold->open_first) * sizeof(OpenDecision);
}

/*
 * Copy a fold, as one chunk in the same context, for fold_restore().  Returns
 * NULL if that takes more than max_size bytes.
 */
Fold *
fold_save(const Fold *fold, Size max_size)
{
	Size		vectors;
	Size		ties;
	Size		open;
	Fold	   *saved;
	char	   *content;

	content_sizes(fold, &vectors, &ties, &open);
	if (sizeof(Fold) + vectors + ties + open > max_size)
		return NULL;
	saved = MemoryContextAlloc(GetMemoryChunkContext(fold->weights),
							   sizeof(Fold) + vectors + ties + open);
	*saved = *fold;
	content = (char *) (saved + 1);
	memcpy(content, fold->learner.z, vectors);
	if (ties > 0)
		memcpy(content + vectors, fold->tie_round, ties);
	if (open > 0)
		memcpy(content + vectors + ties, fold->open + fold->open_first, open);
	return saved;
}

/*
 * Set a fold back to what it was when it was saved.
 */
void
fold_restore(Fold *fold, const Fold *saved)
{
	Fold		now = *fold;
	Size		vectors;
	Size		ties;
	Size		open;
	const char *content = (const char *) (saved + 1);

	content_sizes(saved, &vectors, &ties, &open);
	*fold = *saved;
	memcpy(fold->learner.z, content, vectors);
	if (ties > 0)
		memcpy(fold->tie_round, content + vectors, ties);

	/* the array may have grown meanwhile, but never shrinks */
	fold->open = now.open;
	fold->open_capacity = now.open_capacity;
	fold->open_end -= fold->open_first;
	fold->open_first = 0;
	if (open > 0)
		memcpy(fold->open, content + vectors + ties, open);
}

/* ----------
 * Checkpoints: a fold and the moment it was made at, as bytes
 *
 * They are read by the cluster that wrote them only, so native representation
 * will do.  A change of layout must change CHECKPOINT_FORMAT; a checkpoint that
 * cannot be read is useless but not wrong.
 * ----------
 */

#define CHECKPOINT_FORMAT	2

/* The format before this one, which did not know when a decision was made. */
#define CHECKPOINT_FORMAT_TIMELESS	1

typedef struct CheckpointHeader
{
	uint32		format;
	int32		arms;
	int32		algorithm;
	int32		nrunning;
	uint64		next;
	int64		round;
	int64		outstanding;
	double		cumulative_delay;
	double		longest_delay;
	double		lbck;
	int64		events;
	int64		nopen;
	int64		open_size;		/* in bytes */
} CheckpointHeader;

/* Rounds and identifiers of open decisions mostly grow by little: 7 bits a byte. */
static void
append_difference(StringInfo buf, int64 difference)
{
	uint64		rest = (uint64) difference << 1;

	if (difference < 0)
		rest = ~rest;
	while (rest >= 0x80)
	{
		appendStringInfoCharMacro(buf, (char) (rest | 0x80));
		rest >>= 7;
	}
	appendStringInfoCharMacro(buf, (char) rest);
}

static const char *
read_difference(const char *data, const char *end, int64 *value)
{
	uint64		rest = 0;

	for (int shift = 0; data < end && shift < 64; shift += 7)
	{
		unsigned char byte = *data++;

		rest |= (uint64) (byte & 0x7F) << shift;
		if (byte < 0x80)
			break;
	}
	*value += (int64) (rest >> 1) ^ -(int64) (rest & 1);
	return data;
}

/*
 * Return about how many bytes a checkpoint takes.
 */
Size
fold_checkpoint_size(const Fold *fold)
{
	const LearnerParams *params = &fold->learner.params;

	return sizeof(CheckpointHeader) +
		(NUM_VECTORS(params->algorithm) + 1) * (Size) params->arms * sizeof(double) +
		4 * (fold->open_end - fold->open_first - fold->open_closed);
}

void
fold_serialize(const Fold *fold, const Seen *seen, StringInfo buf)
{
	const Learner *learner = &fold->learner;
	Size		arms = learner->params.arms;
	OpenDecision previous = {0};
	StringInfoData open;
	CheckpointHeader header = {
		.format = CHECKPOINT_FORMAT,
		.arms = learner->params.arms,
		.algorithm = learner->params.algorithm,
		.nrunning = seen->nrunning,
		.next = seen->next,
		.round = learner->round,
		.outstanding = learner->outstanding,
		.cumulative_delay = learner->cumulative_delay,
		.longest_delay = learner->longest_delay,
		.lbck = learner->lbck,
		.events = fold->events,
		.nopen = fold->open_end - fold->open_first - fold->open_closed
	};

	initStringInfo(&open);
	for (int64 i = fold->open_first; i < fold->open_end; i++)
	{
		if (fold->open[i].closed)
			continue;
		append_difference(&open, fold->open[i].round - previous.round);
		append_difference(&open, fold->open[i].decision_id - previous.decision_id);
		append_difference(&open, fold->open[i].decided_at - previous.decided_at);
		previous = fold->open[i];
	}
	header.open_size = open.len;

	appendBinaryStringInfo(buf, (const char *) &header, sizeof(header));
	appendBinaryStringInfo(buf, (const char *) learner->z,
						   NUM_VECTORS(learner->params.algorithm) * arms * sizeof(double));
	if (fold->tie_round != NULL)
		appendBinaryStringInfo(buf, (const char *) fold->tie_round,
							   arms * sizeof(int64));
	appendBinaryStringInfo(buf, (const char *) seen->running,
						   header.nrunning * sizeof(uint64));
	appendBinaryStringInfo(buf, open.data, open.len);
	pfree(open.data);
}

/*
 * Read a checkpoint into a new fold, made with the same parameters except that
 * arms may have been added.  Returns false if it is of another format.
 */
bool
fold_deserialize(Fold *fold, Seen *seen, const char *data, Size size)
{
	Learner    *learner = &fold->learner;
	double	   *vectors[4] = {learner->z, learner->m, learner->z_tie, learner->m_tie};
	int			nvectors = NUM_VECTORS(learner->params.algorithm);
	Size		vector_size;
	Size		ties_size;
	OpenDecision open = {0};
	const char *end = data + size;
	CheckpointHeader header;

	if (size < sizeof(header))
		return false;
	memcpy(&header, data, sizeof(header));
	vector_size = (Size) header.arms * sizeof(double);
	ties_size = fold->tie_round != NULL ? (Size) header.arms * sizeof(int64) : 0;
	if ((header.format != CHECKPOINT_FORMAT &&
		 header.format != CHECKPOINT_FORMAT_TIMELESS) ||
		header.arms < 0 || header.arms > learner->params.arms ||
		header.algorithm != (int32) learner->params.algorithm ||
		header.nrunning < 0 || header.nopen < 0 || header.nopen > header.open_size ||
		size != sizeof(header) + nvectors * vector_size + ties_size +
		header.nrunning * sizeof(uint64) + header.open_size)
		return false;

	learner->round = header.round;
	learner->outstanding = header.outstanding;
	learner->cumulative_delay = header.cumulative_delay;
	learner->longest_delay = header.longest_delay;
	learner->lbck = header.lbck;
	fold->events = header.events;

	/* the bytes need not be aligned */
	data += sizeof(header);
	for (int i = 0; i < nvectors; i++)
	{
		memcpy(vectors[i], data, vector_size);
		data += vector_size;
	}
	if (ties_size > 0)
		memcpy(fold->tie_round, data, ties_size);
	data += ties_size;
	seen->next = header.next;
	seen_set_running(seen, data, header.nrunning);
	data += header.nrunning * sizeof(uint64);

	reserve_open(fold, header.nopen);
	for (int64 i = 0; i < header.nopen; i++)
	{
		data = read_difference(data, end, &open.round);
		data = read_difference(data, end, &open.decision_id);
		if (header.format != CHECKPOINT_FORMAT_TIMELESS)
			data = read_difference(data, end, &open.decided_at);
		fold->open[fold->open_end++] = open;
	}
	return true;
}
