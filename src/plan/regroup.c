#include "plan/regroup.h"

#include <string.h>

struct stw_regroup {
    const stw_graph *graph;
    stw_merge *merge;
    bool known;       /* the rest is that of the last call */
    int32_t *device;  /* (N) */
    double *priority; /* (N) */
    int32_t *group;   /* (N) as plans have it */

    /* What a change has an effect on. */
    int32_t *mark, stamp; /* (N) is among them: mark[i] == stamp */
    int32_t *op;          /* (op_count) them */
    int32_t count;
};

stw_status stw_regroup_create(const stw_graph *graph, stw_merge *merge, stw_arena *arena, stw_regroup **out, stw_error *error) {
    stw_regroup *r;
    STW_TRY_NEW(arena, r, 1, error);
    *r = (stw_regroup){.graph = graph, .merge = merge};
    STW_TRY_NEW(arena, r->device, graph->N, error);
    STW_TRY_NEW(arena, r->priority, graph->N, error);
    STW_TRY_NEW(arena, r->group, graph->N, error);
    STW_TRY_NEW(arena, r->mark, graph->N, error);
    STW_TRY_NEW(arena, r->op, graph->op_count, error);
    *out = r;
    return STW_OK;
}

void stw_regroup_forget(stw_regroup *r) { r->known = false; }

/* ---- what a change has an effect on ---- */

static void enter(stw_regroup *r, int32_t op) {
    if (r->mark[op] == r->stamp) return;
    r->mark[op] = r->stamp;
    r->op[r->count++] = op;
}

static bool is_with_its_readers(const stw_graph *graph, const int32_t *device, int32_t op) {
    for (int64_t e = graph->reader_start[op]; e < graph->reader_start[op + 1]; e++) {
        if (device[graph->reader[e].node] != device[op]) return false;
    }
    return true;
}

/* The op may go into its readers, before the change or after it. */
static bool may_merge(const stw_regroup *r, const double *priority, const int32_t *device, int32_t op) {
    if (r->graph->kind[op] != STW_NODE_OP || stw_merge_never(r->merge, op)) return false;
    return (r->priority[op] > 0.0 && is_with_its_readers(r->graph, r->device, op)) ||
           (priority[op] > 0.0 && is_with_its_readers(r->graph, device, op));
}

static bool has_changed(const stw_regroup *r, const double *priority, const int32_t *device, int32_t op) {
    if (r->graph->kind[op] != STW_NODE_OP) return false;
    return r->device[op] != device[op] || r->priority[op] > 0.0 || priority[op] > 0.0;
}

/* From the ops that differ along the reads of ops that may merge. */
static void find_affected(stw_regroup *r, const double *priority, const int32_t *device) {
    const stw_graph *graph = r->graph;
    r->count = 0;
    r->stamp++;
    for (int32_t i = 0; i < graph->N; i++) {
        const bool differs = r->device[i] != device[i] || r->priority[i] != priority[i];
        if (differs && has_changed(r, priority, device, i)) enter(r, i);
    }
    for (int32_t k = 0; k < r->count; k++) { /* the list grows while it is walked */
        const int32_t op = r->op[k];
        for (int64_t e = graph->read_start[op]; e < graph->read_start[op + 1]; e++) {
            const int32_t read = graph->read[e].node;
            if (r->mark[read] != r->stamp && may_merge(r, priority, device, read)) enter(r, read);
        }
        if (!may_merge(r, priority, device, op)) continue;
        for (int64_t e = graph->reader_start[op]; e < graph->reader_start[op + 1]; e++) enter(r, graph->reader[e].node);
    }
}

/* ---- groups ---- */

static void take_over(stw_regroup *r, const double *priority, const int32_t *device) {
    memcpy(r->priority, priority, (size_t)r->graph->N * sizeof *priority);
    memcpy(r->device, device, (size_t)r->graph->N * sizeof *device);
}

static void regroup_all(stw_regroup *r, const double *priority, const int32_t *device) {
    take_over(r, priority, device);
    stw_merge_reset(r->merge, r->device);
    stw_merge_by_priority(r->merge, r->priority, r->graph->topological, r->graph->op_count);
    stw_merge_groups(r->merge, r->group);
}

static void regroup_affected(stw_regroup *r, const double *priority, const int32_t *device) {
    take_over(r, priority, device);
    for (int32_t k = 0; k < r->count; k++) stw_merge_part(r->merge, r->op[k]);
    stw_merge_by_priority(r->merge, r->priority, r->op, r->count);
    for (int32_t k = 0; k < r->count; k++) r->group[r->op[k]] = stw_merge_group_of(r->merge, r->op[k]);
}

void stw_regroup_make(stw_regroup *r, const double *priority, const int32_t *device, int32_t *group) {
    if (r->known) {
        find_affected(r, priority, device);
        r->known = r->count <= r->graph->op_count / 2;
    }
    if (r->known) {
        regroup_affected(r, priority, device);
        r->known = stw_merge_has_room(r->merge);
    }
    if (!r->known) regroup_all(r, priority, device);
    r->known = true;
    memcpy(group, r->group, (size_t)r->graph->N * sizeof *group);
}
