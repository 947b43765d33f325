#include "method/expert/stages.h"

#include <math.h>

/* ---- items ---- */

/* Items: the forward ops in one order, cut into at most 256 pieces of similar weight. */

static int32_t key_of(const stw_layers *l, stw_item_order order, int32_t op) {
    switch (order) {
        case STW_ITEMS_TRACE: return 0;
        case STW_ITEMS_LEVEL: return l->level[op];
        case STW_ITEMS_LAYER:
        case STW_ITEMS_LAYER_TRACE: return l->layer[op];
        case STW_ITEMS_NUMBER: break;
    }
    return l->number[l->layer[op]];
}

typedef struct {
    int32_t count;
    int32_t *op;  /* (count) forward ops by key, then by topological order */
    int32_t *key; /* (count) */
} sorted;

/* A counting sort. Numbers in names may be any; large ones share the last place, where topological order still separates them. */
static stw_status sort_forward(const stw_layers *l, stw_item_order order, stw_arena *arena, sorted *out, stw_error *error) {
    const stw_graph *graph = l->graph;
    const int32_t last = graph->N;
    int32_t *start;
    *out = (sorted){0};
    STW_TRY_NEW(arena, start, (int64_t)last + 2, error);
    STW_TRY_NEW(arena, out->op, graph->op_count, error);
    STW_TRY_NEW(arena, out->key, graph->op_count, error);
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t k = 0; k < graph->op_count; k++) {
            const int32_t op = graph->topological[k];
            if (!l->forward[op]) continue;
            int32_t key = key_of(l, order, op);
            if (key > last) key = last;
            if (pass == 0) {
                start[key + 1]++;
                out->count++;
            } else {
                out->key[start[key]] = key;
                out->op[start[key]++] = op;
            }
        }
        for (int32_t key = 0; pass == 0 && key <= last; key++) start[key + 1] += start[key];
    }
    return STW_OK;
}

/* Time of each forward op with all that goes with it. Every op counts a little, so that items exist where nothing takes time. */
static stw_status weigh(const stw_layers *l, stw_arena *arena, double **out, double *total, stw_error *error) {
    const stw_graph *graph = l->graph;
    double *weight;
    STW_TRY_NEW(arena, weight, graph->N, error);
    *total = 0.0;
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t op = graph->topological[k];
        weight[l->partner[op]] += l->us[op] + 1e-3;
        *total += l->us[op] + 1e-3;
    }
    *out = weight;
    return STW_OK;
}

static stw_status number_items(const stw_layers *l, stw_item_order order, stw_arena scratch, stw_items *items, stw_error *error) {
    sorted s;
    double *weight = NULL, total = 0.0, in_item = 0.0;
    TRY(sort_forward(l, order, &scratch, &s, error));
    TRY(weigh(l, &scratch, &weight, &total, error));
    const bool whole = order == STW_ITEMS_LEVEL || order == STW_ITEMS_LAYER || order == STW_ITEMS_NUMBER;
    int32_t distinct = 0;
    for (int32_t k = 0; k < s.count; k++) distinct += k == 0 || s.key[k] != s.key[k - 1];
    const double enough = whole && distinct <= STW_MAX_ITEMS ? 0.0 : total / STW_MAX_ITEMS;
    items->count = s.count > 0;
    for (int32_t k = 0; k < s.count; k++) {
        const bool may_end = k > 0 && (!whole || s.key[k] != s.key[k - 1]);
        if (may_end && in_item >= enough && items->count < STW_MAX_ITEMS) {
            items->count++;
            in_item = 0.0;
        }
        items->of[s.op[k]] = items->count - 1;
        in_item += weight[s.op[k]];
    }
    for (int32_t i = 0; i < l->graph->N; i++) {
        const uint8_t kind = l->graph->kind[i];
        if (kind == STW_NODE_OP || (stw_node_is_resident(kind) && l->partner[i] >= 0)) items->of[i] = items->of[l->partner[i]];
    }
    return STW_OK;
}

static stw_status sum_times(const stw_costs *costs, stw_arena *arena, stw_items *items, stw_error *error) {
    const int32_t C = costs->machine->cost_class_count;
    STW_TRY_NEW(arena, items->us, C, error);
    for (int32_t c = 0; c < C; c++) {
        STW_TRY_NEW(arena, items->us[c], items->count, error);
        for (int32_t k = 0; k < costs->graph->op_count; k++) {
            const int32_t op = costs->graph->topological[k];
            items->us[c][items->of[op]] += costs->us[c][op];
        }
    }
    return STW_OK;
}

/* A value is sent over every cut between its first and its last item. */
static stw_status sum_crossings(const stw_graph *graph, const stw_device_set *set, stw_arena *arena, stw_items *items,
                                stw_error *error) {
    STW_TRY_NEW(arena, items->cross_us, (int64_t)items->count + 1, error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP && !stw_node_is_resident(graph->kind[i])) continue;
        int32_t low = items->of[i], high = low;
        for (int64_t r = graph->reader_start[i]; r < graph->reader_start[i + 1]; r++) {
            const int32_t item = items->of[graph->reader[r].node];
            if (item < low) low = item;
            if (item > high) high = item;
        }
        if (low == high) continue;
        const double us = stw_link_mean_us(&set->link, (double)graph->bytes[i]);
        items->cross_us[low + 1] += us;
        items->cross_us[high + 1] -= us;
    }
    for (int32_t k = 1; k <= items->count; k++) items->cross_us[k] += items->cross_us[k - 1];
    items->cross_us[items->count] = 0.0;
    return STW_OK;
}

stw_status stw_items_build(const stw_layers *layers, const stw_costs *costs, const stw_device_set *set, stw_item_order order,
                           stw_arena *arena, stw_items *out, stw_error *error) {
    *out = (stw_items){0};
    if (layers->count == 0 && order != STW_ITEMS_TRACE && order != STW_ITEMS_LEVEL)
        return stw_fail(error, STW_ERROR_NO_PLAN, "the parameters have no names");
    STW_TRY_NEW(arena, out->of, layers->graph->N, error);
    TRY(number_items(layers, order, *arena, out, error));
    TRY(sum_times(costs, arena, out, error));
    return sum_crossings(layers->graph, set, arena, out, error);
}

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
