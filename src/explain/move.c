/* An op on each other device, with what must be with it and all else as it is: the step, the memory, what forbids it, and the
 * transfers that would come and go. */
#include <stdlib.h>

#include "base/union_find.h"
#include "explain/explain.h"

/* ---- what moves along ---- */

/* Joins what must be on one device: as the graph says, and the ops of a group, with those that it recomputes. */
static stw_status join_nodes(const stw_explainer *e, int32_t *leader, stw_error *error) {
    const stw_simulator *s = e->simulator;
    stw_arena scratch = *e->scratch;
    stw_membership m;
    stw_str reason;
    stw_sets_begin(leader, s->graph->N);
    for (int32_t k = 0; k < s->pair_count; k++) stw_sets_join(leader, s->pair[k][0], s->pair[k][1]);
    TRY(stw_membership_build(s->graph, s->machine, e->plan->group, e->plan->device, &scratch, &m, &reason, error));
    for (int32_t t = 0; t < m.T; t++) {
        for (int32_t k = m.member_start[t]; k < m.member_start[t + 1]; k++) stw_sets_join(leader, m.task_node[t], m.member[k]);
    }
    return STW_OK;
}

static stw_status list_moved(stw_explainer *e, int32_t op, bool *moves, stw_error *error) {
    const stw_graph *graph = e->simulator->graph;
    stw_explanation *out = e->out;
    int32_t *leader;
    STW_TRY_NEW(e->scratch, leader, graph->N, error);
    TRY(join_nodes(e, leader, error));
    STW_TRY_NEW(&out->arena, out->moved, graph->N, error);
    out->moved[out->moved_count++] = op;
    for (int32_t i = 0; i < graph->N; i++) {
        const bool counts = graph->kind[i] == STW_NODE_OP || stw_node_is_resident(graph->kind[i]);
        moves[i] = counts && stw_sets_find(leader, i) == stw_sets_find(leader, op);
        if (moves[i] && i != op) out->moved[out->moved_count++] = i;
    }
    return STW_OK;
}

/* ---- transfers that come and go ---- */

static int compare_sends(const void *left, const void *right) {
    const stw_transfer *a = left, *b = right;
    if (a->producer != b->producer) return a->producer - b->producer;
    if (a->from != b->from) return a->from - b->from;
    if (a->to != b->to) return a->to - b->to;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static stw_status sorted_sends(const stw_workspace *workspace, stw_arena *arena, stw_transfer **out, int32_t *count,
                               stw_error *error) {
    const stw_transfer *transfer;
    *count = stw_workspace_transfers(workspace, &transfer);
    STW_TRY_NEW(arena, *out, *count, error);
    for (int32_t k = 0; k < *count; k++) (*out)[k] = transfer[k];
    if (*count > 0) qsort(*out, (size_t)*count, sizeof **out, compare_sends);
    return STW_OK;
}

/* At the other end of a transfer: who makes the value, or if that moves, the first that reads it there. */
static int32_t neighbour_of(const stw_explainer *e, const stw_transfer *x, const stw_plan *plan, const bool *moves) {
    const stw_graph *graph = e->simulator->graph;
    if (!moves[x->producer]) return x->producer;
    for (int64_t r = graph->reader_start[x->producer]; r < graph->reader_start[x->producer + 1]; r++) {
        if (plan->device[graph->reader[r].node] == x->to) return graph->reader[r].node;
    }
    return x->producer;
}

static stw_status note_pull(stw_explainer *e, stw_move_trial *move, const stw_transfer *x, bool appears, int32_t neighbour,
                            stw_error *error) {
    const stw_pull pull = {.device = move->device,
                           .appears = appears,
                           .node = x->producer,
                           .neighbour = neighbour,
                           .from = x->from,
                           .to = x->to,
                           .bytes = x->bytes,
                           .ps = x->end_ps - x->start_ps};
    *(appears ? &move->appear_count : &move->vanish_count) += 1;
    *(appears ? &move->appear_bytes : &move->vanish_bytes) += pull.bytes;
    *(appears ? &move->appear_ps : &move->vanish_ps) += pull.ps;
    STW_PUSH(&e->out->arena, e->out, pull, pull, error);
    return STW_OK;
}

static int compare_pulls(const void *left, const void *right) {
    const stw_pull *a = left, *b = right;
    if (a->ps != b->ps) return a->ps > b->ps ? -1 : 1;
    if (a->appears != b->appears) return a->appears ? -1 : 1;
    return a->node != b->node ? a->node - b->node : a->to - b->to;
}

/* The last trial is that of `changed`. */
static stw_status compare_transfers(stw_explainer *e, stw_move_trial *move, const stw_plan *changed, const bool *moves,
                                    stw_error *error) {
    stw_arena scratch = *e->scratch;
    stw_transfer *before, *after;
    int32_t before_count, after_count, b = 0, a = 0;
    const int64_t first = e->out->pull_count;
    TRY(sorted_sends(e->workspace, &scratch, &before, &before_count, error));
    TRY(sorted_sends(e->trial, &scratch, &after, &after_count, error));
    while (b < before_count || a < after_count) {
        const int order = b == before_count ? 1 : a == after_count ? -1 : compare_sends(&before[b], &after[a]);
        if (order < 0) TRY(note_pull(e, move, &before[b], false, neighbour_of(e, &before[b], e->plan, moves), error));
        if (order > 0) TRY(note_pull(e, move, &after[a], true, neighbour_of(e, &after[a], changed, moves), error));
        b += order <= 0;
        a += order >= 0;
    }
    if (e->out->pull_count > first)
        qsort(e->out->pull + first, (size_t)(e->out->pull_count - first), sizeof *e->out->pull, compare_pulls);
    return STW_OK;
}

/* ---- the trials ---- */

static stw_status try_device(stw_explainer *e, int32_t device, const bool *moves, stw_move_trial *move, stw_error *error) {
    stw_plan *changed;
    move->device = device;
    move->here = e->plan->device[e->out->moved[0]] == device;
    TRY(stw_plan_copy(e->plan, &changed, error));
    for (int32_t i = 0; i < e->simulator->graph->N; i++) {
        if (moves[e->simulator->graph->root[i]]) changed->device[i] = device;
    }
    stw_status status = stw_try_plan(e, changed, &move->trial, error);
    if (status == STW_OK && stw_has_step(&move->trial)) {
        move->device_peak_bytes = e->trial->timeline.peak_bytes[device];
        status = compare_transfers(e, move, changed, moves, error);
    }
    stw_plan_destroy(changed);
    return status;
}

stw_status stw_explain_move(stw_explainer *e, const char *name, stw_error *error) {
    const int32_t D = e->simulator->machine->device_count;
    stw_explanation *out = e->out;
    int32_t op;
    bool *moves;
    TRY(stw_find_named(e->simulator->graph, "op", name, true, &op, error));
    STW_TRY_NEW(e->scratch, moves, e->simulator->graph->N, error);
    STW_TRY_NEW(&out->arena, out->move, D, error);
    TRY(list_moved(e, op, moves, error));
    for (int32_t d = 0; d < D; d++) TRY(try_device(e, d, moves, &out->move[out->move_count++], error));
    return STW_OK;
}
