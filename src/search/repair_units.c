/* The kinds of units that memory repair moves: convex ones of several sizes, and units by weights.
 *
 * Units by weights: all that reads or writes one parameter or buffer, so that a move leaves no copy of it behind, and what sums
 * up its gradient, which is as large. The layers of a recurrent net are such units; they are not convex, which does not matter to
 * a repair. */
#include "base/union_find.h"
#include "search/repair.h"

/* Joins atoms that share a parameter or buffer. */
static void join_readers(const stw_graph *graph, const stw_units *atoms, int32_t *leader) {
    for (int32_t i = 0; i < graph->N; i++) {
        if (!stw_node_is_resident(graph->kind[i])) continue;
        for (int64_t k = graph->reader_start[i]; k < graph->reader_start[i + 1]; k++) {
            stw_sets_join(leader, atoms->of[i], atoms->of[graph->reader[k].node]);
        }
    }
}

/* Joins each update with the ops before it whose outputs are as large as the parameter. visited, stack: (N). */
static void join_gradients(const stw_graph *graph, const stw_units *atoms, int32_t *leader, bool *visited, int32_t *stack) {
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->updates[i] < 0) continue;
        const int64_t bytes = graph->bytes[graph->updates[i]];
        int32_t depth = 0;
        stack[depth++] = i;
        while (depth > 0) {
            const int32_t op = stack[--depth];
            for (int64_t k = graph->read_start[op]; k < graph->read_start[op + 1]; k++) {
                const int32_t before = graph->read[k].node;
                if (graph->kind[before] != STW_NODE_OP || graph->bytes[before] != bytes) continue;
                stw_sets_join(leader, atoms->of[i], atoms->of[before]);
                if (!visited[before]) stack[depth++] = before;
                visited[before] = true;
            }
        }
    }
}

/* The units that come of joining others. leader: (from->count). */
static stw_status number_units(const stw_graph *graph, const stw_units *from, int32_t *leader, stw_arena *arena, stw_units *out,
                               stw_error *error) {
    int32_t *number;
    *out = (stw_units){0};
    STW_TRY_NEW(arena, number, from->count, error);
    STW_TRY_NEW(arena, out->of, graph->N, error);
    STW_TRY_NEW(arena, out->start, (int64_t)from->count + 2, error);
    STW_TRY_NEW(arena, out->member, from->start[from->count], error);
    for (int32_t u = 0; u < from->count; u++)
        number[u] = stw_sets_find(leader, u) == u ? out->count++ : number[stw_sets_find(leader, u)];
    for (int32_t i = 0; i < graph->N; i++) out->of[i] = from->of[i] < 0 ? -1 : number[from->of[i]];
    for (int32_t k = 0; k < from->start[from->count]; k++) out->start[out->of[from->member[k]] + 2]++;
    for (int32_t u = 0; u < out->count; u++) out->start[u + 2] += out->start[u + 1];
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] == STW_NODE_VIEW || out->of[i] < 0) continue;
        out->member[out->start[out->of[i] + 1]++] = i;
    }
    return STW_OK;
}

/* Units of everything that reads or writes the same parameter. */
static stw_status weight_units(const stw_graph *graph, const stw_units *atoms, stw_arena *arena, stw_units *out,
                               stw_error *error) {
    int32_t *leader, *stack;
    bool *visited;
    STW_TRY_NEW(arena, leader, atoms->count, error);
    STW_TRY_NEW(arena, stack, graph->N, error);
    STW_TRY_NEW(arena, visited, graph->N, error);
    stw_sets_begin(leader, atoms->count);
    join_readers(graph, atoms, leader);
    join_gradients(graph, atoms, leader, visited, stack);
    return number_units(graph, atoms, leader, arena, out, error);
}

/* Units that hold whole groups: the members of each, and what is recomputed with all that reads it. */
static stw_status join_groups(const stw_graph *graph, const stw_tasks *tasks, const stw_units *units, stw_arena *arena,
                              stw_units *out, stw_error *error) {
    int32_t *leader;
    STW_TRY_NEW(arena, leader, units->count, error);
    stw_sets_begin(leader, units->count);
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP) continue;
        const int32_t task = tasks->task_of[i];
        if (task >= 0) stw_sets_join(leader, units->of[i], units->of[tasks->task_node[task]]);
        for (int64_t k = graph->reader_start[i]; task < 0 && k < graph->reader_start[i + 1]; k++) {
            stw_sets_join(leader, units->of[i], units->of[graph->reader[k].node]);
        }
    }
    return number_units(graph, units, leader, arena, out, error);
}

stw_status stw_repair_units_list(const stw_graph *graph, const double *us, const stw_tasks *tasks, stw_arena *arena,
                                 stw_repair_units *out, stw_error *error) {
    enum { FEW = 16 }; /* units of a kind that are too coarse to be of use */
    const int32_t finest = graph->op_count > 2 * 2048 ? 2048 : graph->op_count / 2;
    const int32_t wanted[] = {finest, finest / 4, finest / 16, finest / 64};
    const bool grouped = tasks->T < graph->op_count;
    stw_unit_levels levels = {0};
    *out = (stw_repair_units){0};
    TRY(stw_units_build(graph, us, wanted, finest < 64 ? 2 : 4, arena, &levels, error));
    for (int32_t k = 0; k < levels.count; k++) {
        stw_units *units = &out->kind[out->count];
        *units = levels.level[levels.count - 1 - k];
        if (grouped) TRY(join_groups(graph, tasks, &levels.level[levels.count - 1 - k], arena, units, error));
        if (!grouped || units->count >= FEW || k == levels.count - 1) out->count++;
    }
    const stw_units *atoms = &out->kind[out->count - 1];
    return weight_units(graph, atoms, arena, &out->kind[out->count++], error);
}
