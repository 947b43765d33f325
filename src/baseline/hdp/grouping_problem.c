#include "baseline/hdp/grouping_problem.h"

#include <string.h>

#include "plan/plan.h"
#include "plan/rules.h"

/* ---- what the placer sees of a group ---- */

static void normalise(double *row, int32_t columns) {
    double most = row[0];
    for (int32_t i = 1; i < columns; i++) most = row[i] > most ? row[i] : most;
    for (int32_t i = 0; i < columns; i++) row[i] /= most + 1.0;
}

void stw_hdp_embed(const stw_hdp_ops *ops, int32_t G, const int32_t *group, double *out, int64_t step) {
    const int32_t columns = stw_hdp_embedding_columns(ops, G), C = ops->contents;
    for (int32_t g = 0; g < G; g++) memset(&out[g * step], 0, (size_t)columns * sizeof *out);
    for (int64_t e = 0; e < ops->edge_count; e++) {
        const int32_t from = group[ops->from[e]], to = group[ops->to[e]];
        out[from * step + to] += 1.0;
        out[to * step + G + from] += 1.0;
    }
    for (int32_t i = 0; i < ops->N; i++) {
        double *row = &out[group[i] * step + 2 * (int64_t)G];
        for (int32_t k = 0; k < C; k++) row[k] += ops->content[(int64_t)i * C + k];
    }
    for (int32_t g = 0; g < G; g++) normalise(&out[g * step], columns);
}

/* ---- the problem ---- */

enum { SHAPE = 5, CONTENTS = STW_CLASS_COUNT + SHAPE };

/* Units that hold an op, in their order. unit_row: (M), -1 for the others; row: (nodes). */
static void number_rows(stw_grouping_problem *p, const stw_units *rows, int32_t *unit_row) {
    const stw_graph *graph = p->simulator->graph;
    for (int32_t u = 0; u < rows->count; u++) {
        unit_row[u] = -1;
        for (int32_t m = rows->start[u]; m < rows->start[u + 1]; m++) {
            if (graph->kind[rows->member[m]] == STW_NODE_OP) unit_row[u] = p->N;
        }
        p->N += unit_row[u] >= 0;
    }
    for (int32_t i = 0; i < graph->N; i++) p->row[i] = rows->of[i] < 0 ? -1 : unit_row[rows->of[i]];
}

static stw_status list_edges(stw_grouping_problem *p, const stw_features *f, const int32_t *unit_row, stw_arena *arena,
                             stw_error *error) {
    int32_t *from, *to;
    STW_TRY_NEW(arena, from, f->reader_start[f->M], error);
    STW_TRY_NEW(arena, to, f->reader_start[f->M], error);
    for (int32_t u = 0; u < f->M; u++) {
        for (int32_t k = f->reader_start[u]; k < f->reader_start[u + 1]; k++) {
            if (unit_row[u] < 0 || unit_row[f->reader[k]] < 0) continue;
            from[p->ops.edge_count] = unit_row[u];
            to[p->ops.edge_count++] = unit_row[f->reader[k]];
        }
    }
    p->ops.from = from;
    p->ops.to = to;
    return STW_OK;
}

static stw_status sum_contents(stw_grouping_problem *p, stw_arena *arena, stw_error *error) {
    const stw_graph *graph = p->simulator->graph;
    double *content;
    STW_TRY_NEW(arena, content, (int64_t)p->N * CONTENTS, error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP) continue;
        double *own = &content[(int64_t)p->row[i] * CONTENTS];
        const int64_t rank = graph->shape_start[i + 1] - graph->shape_start[i];
        own[graph->op_class[i]] += 1.0;
        for (int64_t k = 0; k < rank && k < SHAPE; k++)
            own[STW_CLASS_COUNT + k] += (double)graph->shape[graph->shape_start[i] + k];
    }
    p->ops.N = p->N;
    p->ops.contents = CONTENTS;
    p->ops.content = content;
    return STW_OK;
}

stw_status stw_grouping_problem_build(const stw_simulator *simulator, uint64_t allowed, int32_t units, stw_arena *arena,
                                      stw_grouping_problem *out, stw_error *error) {
    *out = (stw_grouping_problem){.simulator = simulator, .columns = stw_feature_count(STW_FEATURES_UNIT), .rule = -1};
    for (int32_t d = 0; d < simulator->machine->device_count; d++) {
        if (allowed == 0 || (allowed >> d & 1) != 0) out->device[out->D++] = d;
    }
    stw_unit_levels *levels;
    stw_features *features;
    int32_t *unit_row;
    STW_TRY_NEW(arena, levels, 1, error);
    STW_TRY_NEW(arena, features, 1, error);
    TRY(stw_units_build(simulator->graph, simulator->costs->least_us, &units, units > 0, arena, levels, error));
    const stw_units *rows = &levels->level[levels->count - 1];
    TRY(stw_features_build(simulator->costs, &simulator->unfused, rows, arena, features, error));
    STW_TRY_NEW(arena, unit_row, rows->count, error);
    STW_TRY_NEW(arena, out->row, simulator->graph->N, error);
    number_rows(out, rows, unit_row);
    STW_TRY_NEW(arena, out->feature, (int64_t)out->N * out->columns, error);
    for (int32_t u = 0; u < rows->count; u++) {
        if (unit_row[u] < 0) continue;
        memcpy(&out->feature[(int64_t)unit_row[u] * out->columns], &features->unit[(int64_t)u * out->columns],
               (size_t)out->columns * sizeof *out->feature);
    }
    TRY(list_edges(out, features, unit_row, arena, error));
    return sum_contents(out, arena, error);
}

stw_status stw_grouping_decode(const stw_grouping_problem *p, const int32_t *group, const int32_t *device, stw_plan *plan,
                               stw_arena scratch, stw_error *error) {
    const stw_simulator *s = p->simulator;
    const stw_rule rule = p->rule >= 0 ? (stw_rule)p->rule : STW_RULE_UPWARD_RANK;
    stw_plan_remove_orders(plan);
    for (int32_t i = 0; i < s->graph->N; i++) plan->device[i] = p->row[i] < 0 ? 0 : p->device[device[group[p->row[i]]]];
    stw_plan_complete(s, plan);
    memset(plan->priority, 0, (size_t)s->graph->N * sizeof *plan->priority); /* rules leave views as they are */
    return stw_rule_apply(rule, s->costs, &s->unfused, plan, scratch, error);
}
