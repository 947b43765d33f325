#include "feature/places.h"

#include <math.h>

#include "feature/columns.h"
#include "feature/crossings.h"

/* ---- weights ---- */

static bool has_ops(const stw_features *f, int32_t unit) {
    for (int32_t m = f->units->start[unit]; m < f->units->start[unit + 1]; m++) {
        if (f->costs->graph->kind[f->units->member[m]] == STW_NODE_OP) return true;
    }
    return false;
}

static int32_t find_stand_in(const stw_features *f, int32_t node) {
    const stw_graph *graph = f->costs->graph;
    int32_t first = -1;
    if (graph->kind[node] == STW_NODE_OP) return f->tasks->task_of[node];
    for (int64_t k = graph->reader_start[node]; k < graph->reader_start[node + 1]; k++) {
        if (first < 0 || graph->reader[k].node < first) first = graph->reader[k].node;
    }
    return first < 0 ? -1 : f->tasks->task_of[first];
}

stw_status stw_places_weigh(stw_features *f, stw_arena *arena, stw_error *error) {
    const stw_graph *graph = f->costs->graph;
    STW_TRY_NEW(arena, f->weight, graph->N, error);
    STW_TRY_NEW(arena, f->stand_in, graph->N, error);
    double work = 0.0;
    for (int32_t k = 0; k < graph->op_count; k++) work += f->costs->least_us[graph->topological[k]];
    const double little = work > 0.0 ? 0.05 * work / graph->op_count : 1.0; /* ops without time count as well */
    for (int32_t u = 0; u < f->M; u++) {
        const bool ops = has_ops(f, u);
        for (int32_t m = f->units->start[u]; m < f->units->start[u + 1]; m++) {
            const int32_t node = f->units->member[m];
            const bool is_op = graph->kind[node] == STW_NODE_OP;
            f->weight[node] = is_op ? f->costs->least_us[node] + little : ops ? 0.0 : 1.0;
            f->stand_in[node] = find_stand_in(f, node);
        }
    }
    return STW_OK;
}

double stw_unit_mean(const stw_features *f, int32_t unit, const double *by_task) {
    double sum = 0.0, weight = 0.0;
    for (int32_t m = f->units->start[unit]; m < f->units->start[unit + 1]; m++) {
        const int32_t node = f->units->member[m];
        weight += f->weight[node];
        if (f->stand_in[node] >= 0) sum += f->weight[node] * by_task[f->stand_in[node]];
    }
    return stw_ratio(sum, weight);
}

/* ---- paths ---- */

static double us_of(const stw_features *f, int32_t task) { return f->costs->least_us[f->tasks->task_node[task]]; }

/* Top levels and depths, in the order of the graph. depth: (T), zeroed. Returns the largest depth. */
static int32_t walk_down(const stw_features *f, stw_places *p, int32_t *depth) {
    const stw_tasks *tasks = f->tasks;
    const stw_graph *graph = f->costs->graph;
    int32_t deepest = 0;
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t t = tasks->task_of[graph->topological[k]], below = depth[t] + 1;
        const double end = p->top[t] + us_of(f, t);
        for (int32_t o = tasks->output_start[t]; o < tasks->output_start[t + 1]; o++) {
            const int32_t value = tasks->output[o];
            for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
                const int32_t reader = tasks->use[u].task;
                if (p->top[reader] < end) p->top[reader] = end;
                if (depth[reader] < below) depth[reader] = below;
            }
        }
        for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++) {
            const int32_t reader = tasks->waiter[w];
            if (p->top[reader] < end) p->top[reader] = end;
            if (depth[reader] < below) depth[reader] = below;
        }
        if (depth[t] > deepest) deepest = depth[t];
    }
    return deepest;
}

/* Bottom levels and ranks, against the order. */
static void walk_up(const stw_features *f, stw_places *p) {
    const stw_tasks *tasks = f->tasks;
    const stw_graph *graph = f->costs->graph;
    const double chance = 1.0 - 1.0 / f->D; /* that two ops are on different devices */
    for (int32_t k = graph->op_count - 1; k >= 0; k--) {
        const int32_t t = tasks->task_of[graph->topological[k]];
        double bottom = 0.0, rank = 0.0;
        for (int32_t o = tasks->output_start[t]; o < tasks->output_start[t + 1]; o++) {
            const int32_t value = tasks->output[o];
            for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
                const stw_task_use *use = &tasks->use[u];
                const double sent = chance * stw_mean_link_us(f->crossings, stw_use_bytes(f, value, use));
                bottom = fmax(bottom, p->bottom[use->task]);
                rank = fmax(rank, p->rank[use->task] + sent);
            }
        }
        for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++) {
            bottom = fmax(bottom, p->bottom[tasks->waiter[w]]);
            rank = fmax(rank, p->rank[tasks->waiter[w]]);
        }
        p->bottom[t] = bottom + us_of(f, t);
        p->rank[t] = rank + us_of(f, t);
        p->path_us = fmax(p->path_us, p->bottom[t]);
        p->rank_most = fmax(p->rank_most, p->rank[t]);
        p->work_us += us_of(f, t);
    }
}

static stw_status find_levels(const stw_features *f, const int32_t *depth, int32_t deepest, stw_places *p, stw_arena scratch,
                              stw_error *error) {
    const stw_tasks *tasks = f->tasks;
    double *at, sum = 0.0; /* weight at each depth, then the share of it before its middle */
    STW_TRY_NEW(&scratch, at, (int64_t)deepest + 1, error);
    for (int32_t t = 0; t < tasks->T; t++) at[depth[t]] += f->weight[tasks->task_node[t]];
    for (int32_t d = 0; d <= deepest; d++) {
        const double here = at[d];
        at[d] = sum + 0.5 * here;
        sum += here;
    }
    for (int32_t t = 0; t < tasks->T; t++) p->level[t] = stw_ratio(at[depth[t]], sum);
    return STW_OK;
}

/* ---- what an op is for ---- */

/* Against the order: what is needed by something that the loss needs. */
static void mark_forward(const stw_features *f, double *forward) {
    const stw_graph *graph = f->costs->graph;
    const int32_t *task_of = f->tasks->task_of;
    const int32_t loss = graph->loss < 0 ? -1 : graph->root[graph->loss];
    if (loss < 0 || task_of[loss] < 0) {
        for (int32_t t = 0; t < f->tasks->T; t++) forward[t] = 0.5;
        return;
    }
    forward[task_of[loss]] = 1.0;
    for (int32_t k = graph->op_count - 1; k >= 0; k--) {
        const int32_t op = graph->topological[k];
        if (forward[task_of[op]] == 0.0) continue;
        for (int64_t r = graph->read_start[op]; r < graph->read_start[op + 1]; r++) {
            if (task_of[graph->read[r].node] >= 0) forward[task_of[graph->read[r].node]] = 1.0;
        }
    }
}

stw_status stw_places_build(const stw_features *f, stw_arena *arena, stw_places *out, stw_error *error) {
    const int32_t T = f->tasks->T, N = f->costs->graph->N;
    double **const lists[] = {&out->top, &out->bottom, &out->rank, &out->level, &out->forward, &out->update, &out->trace};
    int32_t *depth;
    *out = (stw_places){0};
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) STW_TRY_NEW(arena, *lists[k], T, error);
    STW_TRY_NEW(arena, depth, T, error);
    const int32_t deepest = walk_down(f, out, depth);
    walk_up(f, out);
    TRY(find_levels(f, depth, deepest, out, *arena, error));
    mark_forward(f, out->forward);
    for (int32_t t = 0; t < T; t++) {
        const int32_t node = f->tasks->task_node[t];
        out->update[t] = f->costs->graph->updates[node] >= 0 ? 1.0 : 0.0;
        out->trace[t] = stw_ratio(node, N - 1);
    }
    return STW_OK;
}
