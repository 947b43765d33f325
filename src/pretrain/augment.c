/* No two draws are the same instance: the times of ops differ by a factor for their class and one of their own. Sizes of values
 * stay, so that views fit what they are views of; links of all speeds come to the same. */
#include <math.h>

#include "cost/cost.h"
#include "pretrain/corpus_parts.h"

static const double class_deviation = 0.3, op_deviation = 0.1; /* of the logarithm */

stw_status stw_base_times(const stw_graph *graph, const stw_machine *base, stw_arena *arena, double **us, stw_error *error) {
    stw_costs *costs;
    TRY(stw_costs_from_rows(graph, base, NULL, false, &costs, error));
    double *copy = STW_NEW_DIRTY(arena, double, graph->N);
    for (int32_t i = 0; copy != NULL && i < graph->N; i++) copy[i] = costs->least_us[i];
    stw_costs_destroy(costs);
    *us = copy;
    return copy != NULL ? STW_OK : stw_fail(error, STW_ERROR_MEMORY, "out of memory for %d times", graph->N);
}

stw_status stw_augment_times(stw_graph *graph, const double *us, stw_rng rng, stw_error *error) {
    double class_factor[STW_CLASS_COUNT];
    for (int c = 0; c < STW_CLASS_COUNT; c++) class_factor[c] = exp(class_deviation * stw_rng_normal(&rng));
    graph->kind_count = 1;
    STW_TRY_NEW(&graph->arena, graph->kind_name, 1, error);
    STW_TRY_NEW(&graph->arena, graph->us, 1, error);
    STW_TRY_NEW(&graph->arena, graph->us[0], graph->N, error);
    graph->kind_name[0] = STW_STR("h200");
    for (int32_t i = 0; i < graph->N; i++) {
        const bool op = graph->kind[i] == STW_NODE_OP;
        graph->us[0][i] = op ? us[i] * class_factor[graph->op_class[i]] * exp(op_deviation * stw_rng_normal(&rng)) : NAN;
    }
    return STW_OK;
}

stw_status stw_graph_variant(const stw_graph *from, stw_graph **out, stw_error *error) {
    stw_arena arena;
    *out = NULL;
    TRY(stw_arena_create(&arena, error));
    stw_graph *graph = STW_NEW(&arena, stw_graph, 1);
    if (graph == NULL) {
        stw_arena_destroy(&arena);
        return stw_fail(error, STW_ERROR_MEMORY, "out of memory for a graph");
    }
    *graph = *from;
    graph->arena = arena;
    graph->machine = NULL; /* the other graph's */
    *out = graph;
    return STW_OK;
}

static int64_t held_by(const stw_graph *graph, int32_t node) { return graph->updates[node] >= 0 ? 0 : graph->bytes[node]; }

/* last[v]: position of the last reader of a value in the order, or of its own op. */
static void find_last_readers(const stw_graph *graph, int32_t *last) {
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t op = graph->topological[k];
        last[op] = k;
        for (int64_t e = graph->read_start[op]; e < graph->read_start[op + 1]; e++) last[graph->read[e].node] = k;
    }
}

/* Bytes of the op's output and of all that it reads. */
static int64_t bytes_at_once(const stw_graph *graph, int32_t op) {
    int64_t sum = held_by(graph, op);
    for (int64_t e = graph->read_start[op]; e < graph->read_start[op + 1]; e++) {
        const bool again = e > graph->read_start[op] && graph->read[e].node == graph->read[e - 1].node;
        if (!again) sum += graph->bytes[graph->read[e].node];
    }
    return sum;
}

stw_status stw_need_of(const stw_graph *graph, stw_need *out, stw_error *error) {
    stw_arena scratch = graph->arena; /* a copy: gone on return */
    int32_t *last;
    STW_TRY_NEW(&scratch, last, graph->N, error);
    int64_t held = 0;
    for (int32_t i = 0; i < graph->N; i++) held += stw_node_is_source(graph->kind[i]) ? graph->bytes[i] : 0;
    *out = (stw_need){.whole = held};
    find_last_readers(graph, last);
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t op = graph->topological[k];
        const int64_t at_once = bytes_at_once(graph, op);
        held += held_by(graph, op);
        if (held > out->whole) out->whole = held;
        if (at_once > out->largest) out->largest = at_once;
        if (last[op] == k && !graph->kept[op]) held -= held_by(graph, op);
        for (int64_t e = graph->read_start[op]; e < graph->read_start[op + 1]; e++) {
            const int32_t value = graph->read[e].node;
            const bool again = e > graph->read_start[op] && value == graph->read[e - 1].node;
            if (again || graph->kind[value] != STW_NODE_OP || last[value] != k || graph->kept[value]) continue;
            held -= held_by(graph, value);
        }
    }
    return STW_OK;
}
