/* Ranges of units by dynamic programming: best[state][k] is the most weight that the first k units keep on their planned devices
 * when the devices of the state have had one range each, some of them empty. States are the sets of devices; where that would be
 * too many, the first so many devices of one order, that of the mean place of their units. */
#include "export/modules/pipeline_cut.h"

enum { MOST_SET_DEVICES = 10 };
static const int64_t most_cells = 8 << 20;

typedef struct choice { /* the last range of a state: of this device, from here on */
    int32_t device, begin;
} choice;

typedef struct cutter {
    const int32_t *sequence;
    const bool *can_begin;
    const int64_t *weight;
    int32_t count, D;
    int32_t used_count;
    int32_t used[STW_MAX_DEVICES]; /* devices that hold something, by the mean place of it */
    bool sets;                     /* states are sets, else prefixes of `used` */
    int32_t state_count;
    int64_t *best;  /* (state_count, count + 1) -1: cannot be */
    choice *chosen; /* (state_count, count + 1) */
} cutter;

static int64_t weight_at(const cutter *c, int32_t place, int32_t device) {
    return c->weight[(int64_t)c->sequence[place] * c->D + device];
}

static void order_devices(cutter *c) {
    double mean[STW_MAX_DEVICES];
    for (int32_t d = 0; d < c->D; d++) {
        double sum = 0.0, places = 0.0;
        for (int32_t k = 0; k < c->count; k++) {
            sum += (double)weight_at(c, k, d);
            places += (double)weight_at(c, k, d) * k;
        }
        if (sum == 0.0) continue;
        mean[d] = places / sum;
        int32_t at = c->used_count++;
        for (; at > 0 && mean[c->used[at - 1]] > mean[d]; at--) c->used[at] = c->used[at - 1];
        c->used[at] = d;
    }
}

/* The state before the j-th used device had its range, or -1. */
static int32_t state_before(const cutter *c, int32_t state, int32_t j) {
    if (c->sets) return (state >> j & 1) != 0 ? state ^ (1 << j) : -1;
    return j == state - 1 ? state - 1 : -1;
}

/* Gives the j-th device the last range of a state. */
static void extend(cutter *c, int32_t state, int32_t before, int32_t j) {
    const int64_t row = (int64_t)c->count + 1;
    const int64_t *from = &c->best[before * row];
    int64_t *best = &c->best[state * row];
    choice *chosen = &c->chosen[state * row];
    const int32_t device = c->used[j];
    int64_t sum = 0, most = 0; /* of the device's weight so far; what a beginning is worth, less the sum there */
    int32_t begin = -1;
    for (int32_t k = 0; k <= c->count; k++) {
        if (from[k] > best[k]) { /* an empty range */
            best[k] = from[k];
            chosen[k] = (choice){device, k};
        }
        if (begin >= 0 && most + sum > best[k]) {
            best[k] = most + sum;
            chosen[k] = (choice){device, begin};
        }
        if (k == c->count) break;
        if (from[k] >= 0 && c->can_begin[k] && (begin < 0 || from[k] - sum > most)) {
            most = from[k] - sum;
            begin = k;
        }
        sum += weight_at(c, k, device);
    }
}

static void trace_back(const cutter *c, stw_pipeline *out) {
    const int64_t row = (int64_t)c->count + 1;
    int32_t state = c->state_count - 1, end = c->count;
    stw_stage reversed[STW_MAX_DEVICES];
    int32_t count = 0;
    while (state > 0) {
        const choice last = c->chosen[state * row + end];
        if (last.begin < end) reversed[count++] = (stw_stage){last.device, last.begin, end};
        int32_t j = 0;
        while (c->used[j] != last.device) j++;
        state = state_before(c, state, j);
        end = last.begin;
    }
    out->count = count;
    for (int32_t k = 0; k < count; k++) out->stage[k] = reversed[count - 1 - k];
}

stw_status stw_pipeline_cut(const int32_t *sequence, const bool *can_begin, int32_t count, const int64_t *weight, int32_t D,
                            stw_arena scratch, stw_pipeline *out, stw_error *error) {
    cutter c = {.sequence = sequence, .can_begin = can_begin, .weight = weight, .count = count, .D = D};
    order_devices(&c);
    c.sets = c.used_count <= MOST_SET_DEVICES && ((int64_t)count + 1) << c.used_count <= most_cells;
    c.state_count = c.sets ? 1 << c.used_count : c.used_count + 1;
    const int64_t cells = (int64_t)c.state_count * (count + 1);
    STW_TRY_NEW(&scratch, c.best, cells, error);
    STW_TRY_NEW(&scratch, c.chosen, cells, error);
    for (int64_t k = 1; k < cells; k++) c.best[k] = -1;
    for (int32_t state = 1; state < c.state_count; state++) {
        for (int32_t j = 0; j < c.used_count; j++) {
            const int32_t before = state_before(&c, state, j);
            if (before >= 0) extend(&c, state, before, j);
        }
    }
    *out = (stw_pipeline){.exact = c.sets};
    trace_back(&c, out);
    return STW_OK;
}
