#include "sched/cost.h"

#include "base/cleanup.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define CELLS (1u << COST_CELLS_LOG)

#define KEY_FREE 0u
#define KEY_GONE 2u /* keys are odd */

#define ASKED_MASK 0xffffu
#define UNSEEN_ONE 0x10000u

/* In pace p, one of .period launches is measured, at random. */
enum pace {
#define X(pace, period, window, from_ns) pace,
    COST_PACE_LIST(X)
#undef X
};

/*
 * The mean is over about the last `window` launches. A sample stands for `period` launches, so its
 * weight is period / window. An equal weight in each pace would be wrong: after a long sample the
 * next ones come sooner, so it would be averaged away in fewer launches than it stands for, and
 * work that varies would be charged too little.
 */
static const struct {
    float period, window;
    float from_ns; /* a sample as long as that sets this pace */
} paces[] = {
#define X(pace, period, window, from_ns) [pace] = {period, window, from_ns},
    COST_PACE_LIST(X)
#undef X
};

union state {
    struct {
        uint32_t samples : 8; /* saturates */
        uint32_t pace : 2;
        uint32_t calm : 10;    /* samples in a row that were too short for the pace */
        uint32_t doubtful : 1; /* no undoubted sample yet */
    };
    uint32_t word;
};

union learned {
    struct {
        float mean_ns;   /* 0: nothing is known */
        float spread_ns; /* mean distance of samples from the mean */
    };
    uint64_t word;
};

struct cost_cell {
    _Atomic uint64_t key;
    _Atomic uint64_t learned;
    _Atomic uint32_t state;   /* changed by the thread that has changed `learned` */
    _Atomic uint32_t wild_ns; /* the longest recent sample that was not believed at once */
    _Atomic uint32_t asked;   /* first launches, all of which are measured; UNSEEN_ONE each: first
                                 launches that were not */
    _Atomic uint16_t
        used; /* a sample has come since the table was last searched for a cell to reuse */
    _Atomic uint16_t generation;
};

_Static_assert(sizeof(struct cost_cell) == 32, "two cells a cache line");
_Static_assert(sizeof(union state) == 4 && sizeof(union learned) == 8, "words");

struct cost_table {
    struct cost_cell cell[CELLS];
};

#define LOAD(word)         atomic_load_explicit(word, memory_order_relaxed)
#define STORE(word, value) atomic_store_explicit(word, value, memory_order_relaxed)

struct cost_table *cost_table_new(void)
{
    KEEP_ERRNO;
    void *table = mmap(NULL, sizeof(struct cost_table), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return table == MAP_FAILED ? NULL : table;
}

/* Finding a cell */

static struct cost_cell *probe(struct cost_table *table, uint64_t key, uint32_t i)
{
    uint32_t home = (uint32_t)((key * 0x9E3779B97F4A7C15ULL) >> (64 - COST_CELLS_LOG));

    return &table->cell[(home + i) % CELLS];
}

static void doubt(struct cost_cell *cell)
{
    atomic_fetch_add_explicit(&cell->generation, 1, memory_order_relaxed);
    STORE(&cell->state, 0);
    STORE(&cell->wild_ns, 0);
    STORE(&cell->asked, 0);
}

static void clear(struct cost_cell *cell)
{
    doubt(cell);
    STORE(&cell->learned, 0);
}

static bool take(struct cost_cell *cell, uint64_t had, uint64_t key)
{
    if (!atomic_compare_exchange_strong(&cell->key, &had, key))
        return had == key;
    STORE(&cell->used, 1);
    if (had != KEY_FREE && had != KEY_GONE)
        clear(cell);
    return true;
}

/* All cells of the key are used. Reuses the first one without a sample since the last search. */
static struct cost_cell *take_unused(struct cost_table *table, uint64_t key)
{
    for (uint32_t i = 0; i < COST_CELL_PROBES; i++) {
        struct cost_cell *cell = probe(table, key, i);
        uint64_t had = LOAD(&cell->key);

        if (LOAD(&cell->used))
            STORE(&cell->used, 0);
        else if (take(cell, had, key))
            return cell;
    }
    return probe(table, key, 0);
}

static struct cost_cell *insert(struct cost_table *table, uint64_t key)
{
    for (uint32_t i = 0; i < COST_CELL_PROBES; i++) {
        struct cost_cell *cell = probe(table, key, i);
        uint64_t had = LOAD(&cell->key);

        if (had == key || ((had == KEY_FREE || had == KEY_GONE) && take(cell, had, key)))
            return cell;
    }
    return take_unused(table, key);
}

struct cost_cell *cost_find(struct cost_table *table, uint64_t key)
{
    key |= 1;
    for (uint32_t i = 0; i < COST_CELL_PROBES; i++) {
        struct cost_cell *cell = probe(table, key, i);
        uint64_t has = LOAD(&cell->key);

        if (__builtin_expect(has == key, 1))
            return cell;
        if (has == KEY_FREE)
            break;
    }
    return insert(table, key);
}

void cost_forget(struct cost_table *table, uint64_t key)
{
    key |= 1;
    /* Two threads at once may have made the key twice. */
    for (uint32_t i = 0; i < COST_CELL_PROBES; i++) {
        struct cost_cell *cell = probe(table, key, i);
        uint64_t has = LOAD(&cell->key);

        if (has == KEY_FREE)
            break;
        if (has != key)
            continue;
        clear(cell);
        atomic_compare_exchange_strong(&cell->key, &has, KEY_GONE);
    }
}

/* Asking a cell */

uint64_t cost_estimate(const struct cost_cell *cell, uint64_t unknown_ns)
{
    union learned learned = {.word = LOAD(&cell->learned)};
    uint64_t ns = learned.word ? (uint64_t)(learned.mean_ns + 0.5f) : unknown_ns;

    return ns < COST_MIN_NS ? COST_MIN_NS : ns;
}

bool cost_known(const struct cost_cell *cell)
{
    return LOAD(&cell->learned) != 0;
}

bool cost_trusted(const struct cost_cell *cell)
{
    union state state = {.word = LOAD(&cell->state)};

    return state.samples > 0;
}

uint32_t cost_generation(const struct cost_cell *cell)
{
    return LOAD(&cell->generation);
}

bool cost_wants_sample(struct cost_cell *cell, uint32_t random)
{
    union state state = {.word = LOAD(&cell->state)};
    uint32_t asked = LOAD(&cell->asked) & ASKED_MASK, period;

    if (asked < COST_FIRST_SAMPLES) {
        atomic_fetch_add_explicit(&cell->asked, 1, memory_order_relaxed);
        return true;
    }
    if (state.samples < COST_FIRST_SAMPLES)
        period = COST_FIRST_SAMPLES; /* the samples on their way are enough, if they arrive */
    else
        period = (uint32_t)paces[state.pace].period;
    if (state.doubtful && period < (uint32_t)paces[PACE_SPREAD].period)
        period = (uint32_t)paces[PACE_SPREAD].period;
    return (random & (period - 1)) == 0;
}

bool cost_measured_always(const struct cost_cell *cell)
{
    union state state = {.word = LOAD(&cell->state)};

    return !state.doubtful && (state.samples < COST_FIRST_SAMPLES || state.pace == PACE_VERY_LONG);
}

void cost_defer(struct cost_cell *cell)
{
    if (LOAD(&cell->asked) < UINT32_MAX - UNSEEN_ONE)
        atomic_fetch_add_explicit(&cell->asked, UNSEEN_ONE, memory_order_relaxed);
}

void cost_doubt(struct cost_table *table, uint64_t key)
{
    key |= 1;
    for (uint32_t i = 0; i < COST_CELL_PROBES; i++) {
        struct cost_cell *cell = probe(table, key, i);
        uint64_t has = LOAD(&cell->key);

        if (has == KEY_FREE)
            break;
        if (has == key) /* doubted, but the mean is a better guess than none */
            doubt(cell);
    }
}

/* Learning */

static float distance(float a, float b)
{
    return a > b ? a - b : b - a;
}

static float larger(float a, float b)
{
    return a > b ? a : b;
}

static float smaller(float a, float b)
{
    return a < b ? a : b;
}

/*
 * Raises the pace at the first long sample, and lowers it when none has come for a while: work that
 * is long once in many launches must not be measured less only because some samples missed it.
 * Steady and spread share a window, so they may alternate.
 */
static enum pace pace_of(union state *state, union learned learned, float sample)
{
    enum pace pace = state->pace, fits;
    float longest = larger(learned.mean_ns, sample);

    if (longest > paces[PACE_VERY_LONG].from_ns)
        fits = PACE_VERY_LONG;
    else if (longest > paces[PACE_LONG].from_ns)
        fits = PACE_LONG;
    else if (state->samples < COST_FIRST_SAMPLES ||
             learned.spread_ns > learned.mean_ns / 20 + COST_MIN_NS)
        fits = PACE_SPREAD;
    else
        fits = PACE_STEADY;
    if (fits >= pace || pace <= PACE_SPREAD || state->samples <= 2) {
        state->calm = 0;
        return fits;
    }
    state->calm = longest < paces[pace].from_ns / 2 ? state->calm + 1 : 0;
    if (state->calm < COST_CALM_SAMPLES)
        return pace;
    state->calm = 0;
    return pace == PACE_VERY_LONG ? PACE_LONG : fits;
}

/* The first launch is often slower than all others (cold caches): the second sample replaces it. */
static float weight_of(const union state *state)
{
    if (state->samples < 2)
        return 1;
    return larger(paces[state->pace].period / paces[state->pace].window,
                  1.0f / (float)(state->samples - 1));
}

/*
 * The part of a sample that counts. A sample far beyond the usual may be a stall, and counts up to
 * the limit of the usual only. From the second on such samples count in full, whenever they come.
 * So at most one sample is lost that belongs to the cell's work.
 */
static float believable(struct cost_cell *cell, const union state *state, union learned learned,
                        float sample)
{
    float usual, wild;
    uint32_t word = LOAD(&cell->wild_ns);

    if (state->samples < 2 * COST_FIRST_SAMPLES)
        usual = learned.mean_ns * COST_WILD;
    else
        usual = learned.mean_ns + COST_WILD * larger(learned.spread_ns, learned.mean_ns / 20);
    if (sample <= usual)
        return sample;
    memcpy(&wild, &word, sizeof(wild));
    usual = larger(usual, 2 * wild);
    wild = larger(sample, wild * 7 / 8);
    memcpy(&word, &wild, sizeof(word));
    STORE(&cell->wild_ns, word);
    return smaller(sample, usual);
}

/* The mean after a sample. It grows by at most COST_WILD times at once. */
static union learned mixed(union learned learned, float sample, float weight)
{
    float away = distance(sample, learned.mean_ns);

    learned.spread_ns += larger(weight, 1.0f / 16) * (away - learned.spread_ns);
    if (weight < 1)
        sample = smaller(sample, learned.mean_ns * (1 + (COST_WILD - 1) / weight));
    learned.mean_ns += weight * (sample - learned.mean_ns);
    return learned;
}

uint32_t cost_learn(struct cost_cell *cell, uint64_t sample_ns, bool doubtful)
{
    uint32_t unseen = 0;
    uint64_t before = LOAD(&cell->learned);
    union learned learned = {.word = before}, next;
    union state state = {.word = LOAD(&cell->state)};
    float sample = (float)(sample_ns < 1                    ? 1
                           : sample_ns > COST_SAMPLE_MAX_NS ? COST_SAMPLE_MAX_NS
                                                            : sample_ns);
    float counts = sample;

    STORE(&cell->used, 1);
    if (doubtful && state.samples && !state.doubtful)
        return 0;
    if (!doubtful && state.doubtful) {
        state.word = 0;
        STORE(&cell->wild_ns, 0);
    }
    if (state.samples == 0) {
        learned = (union learned){.mean_ns = sample};
        state = (union state){.pace = PACE_SPREAD, .doubtful = doubtful};
    }
    if (state.samples < 255)
        state.samples++;
    if (state.samples > 1)
        unseen =
            atomic_fetch_and_explicit(&cell->asked, ASKED_MASK, memory_order_relaxed) / UNSEEN_ONE;
    if (state.samples > 2)
        counts = believable(cell, &state, learned, sample);
    next = mixed(learned, counts, weight_of(&state));
    state.pace = pace_of(&state, next, sample);
    /* If another sample was quicker, this one is lost. */
    if (atomic_compare_exchange_strong(&cell->learned, &before, next.word))
        STORE(&cell->state, state.word);
    return unseen;
}
