#include "method/expert_stages.h"

#include <math.h>

/* ---- contiguous stages ---- */

typedef struct {
    const stw_items *items;
    const stw_machine *machine;
    const stw_device_set *set;
    int32_t stages; /* S */
    double aversion;
    double **before; /* (C)(L + 1) time of all items in front of one */
    double *best;    /* (S + 1)(L + 1) the least cost of items [0, j) in the first s stages */
    int32_t *from;   /* likewise: where the last stage of it begins */
} cutter;

/* Items [i, j) on the s-th device; nothing costs nothing. */
static double stage_us(const cutter *c, int32_t s, int32_t i, int32_t j) {
    if (i == j) return 0.0;
    const double *before = c->before[c->machine->device[c->set->device[s % c->set->count]].cost_class];
    return before[j] - before[i] + c->aversion * (c->items->cross_us[i] + c->items->cross_us[j]);
}

/* Dynamic programming over (stages, items). Without a limit the cost is the longest stage; with one it is the sum of squares of
 * stages that keep to it. Returns the cost. */
static double divide(cutter *c, double limit) {
    const int32_t L = c->items->count, S = c->stages;
    const int64_t row = (int64_t)L + 1;
    for (int32_t j = 0; j <= L; j++) c->best[j] = j == 0 ? 0.0 : INFINITY;
    for (int32_t s = 1; s <= S; s++) {
        const double *above = c->best + (s - 1) * row;
        for (int32_t j = 0; j <= L; j++) {
            double least = INFINITY;
            int32_t from = j;
            for (int32_t i = j; i >= 0; i--) {
                if (isinf(above[i])) continue;
                const double us = stage_us(c, s - 1, i, j);
                if (us > limit) continue;
                const double cost = isinf(limit) ? fmax(above[i], us) : above[i] + us * us;
                if (cost < least) {
                    least = cost;
                    from = i;
                }
            }
            c->best[s * row + j] = least;
            c->from[s * row + j] = from;
        }
    }
    return c->best[S * row + L];
}

stw_status stw_items_cut(const stw_items *items, const stw_machine *machine, const stw_device_set *set, int32_t rounds,
                         double aversion, int32_t *device, stw_arena scratch, stw_error *error) {
    const int32_t L = items->count, S = rounds * set->count;
    cutter c = {.items = items, .machine = machine, .set = set, .stages = S, .aversion = aversion};
    STW_TRY_NEW(&scratch, c.before, machine->cost_class_count, error);
    for (int32_t k = 0; k < machine->cost_class_count; k++) {
        STW_TRY_NEW(&scratch, c.before[k], (int64_t)L + 1, error);
        for (int32_t i = 0; i < L; i++) c.before[k][i + 1] = c.before[k][i] + items->us[k][i];
    }
    STW_TRY_NEW(&scratch, c.best, ((int64_t)S + 1) * (L + 1), error);
    STW_TRY_NEW(&scratch, c.from, ((int64_t)S + 1) * (L + 1), error);
    const double longest = divide(&c, INFINITY);
    divide(&c, longest * (1.0 + 1e-12));
    for (int32_t s = S, j = L; s >= 1; s--) {
        const int32_t from = c.from[s * (int64_t)(L + 1) + j];
        for (int32_t i = from; i < j; i++) device[i] = set->device[(s - 1) % set->count];
        j = from;
    }
    return STW_OK;
}

/* ---- in turn, and packed ---- */

void stw_items_deal(const stw_items *items, const stw_device_set *set, int32_t *device) {
    for (int32_t i = 0; i < items->count; i++) device[i] = set->device[i % set->count];
}

stw_status stw_items_pack(const stw_items *items, const stw_machine *machine, const stw_device_set *set, int32_t *device,
                          stw_arena scratch, stw_error *error) {
    double load[STW_MAX_DEVICES] = {0.0};
    const double *any = items->us[machine->device[set->device[0]].cost_class];
    bool *placed;
    STW_TRY_NEW(&scratch, placed, items->count, error);
    for (int32_t round = 0; round < items->count; round++) {
        int32_t item = -1, best = 0;
        for (int32_t i = 0; i < items->count; i++) {
            if (!placed[i] && (item < 0 || any[i] > any[item])) item = i;
        }
        for (int32_t s = 1; s < set->count; s++) {
            const double us = items->us[machine->device[set->device[s]].cost_class][item];
            if (load[s] + us < load[best] + items->us[machine->device[set->device[best]].cost_class][item]) best = s;
        }
        load[best] += items->us[machine->device[set->device[best]].cost_class][item];
        device[item] = set->device[best];
        placed[item] = true;
    }
    return STW_OK;
}
