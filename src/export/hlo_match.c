/* Which instruction of the module is which node of the graph. The graph is built again from the module, so the two cannot
 * differ unnoticed. */
#include "export/hlo.h"

/* A parameter that is a tuple has a node for each array: all their devices are named. */
static stw_status name_homes(stw_hlo_edit *edit, const stw_graph *graph, const int32_t *instruction_of) {
    const stw_export *e = edit->e;
    int32_t *last; /* device + 1 */
    STW_TRY_NEW(edit->arena, edit->home, edit->entry->count, edit->error);
    STW_TRY_NEW(edit->arena, last, edit->entry->count, edit->error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (!stw_node_is_resident(graph->kind[i])) continue;
        const int32_t k = stw_hlo_local(edit, instruction_of[graph->origin[i]]), device = e->plan->device[i];
        if (last[k] == device + 1) continue;
        const stw_str more = e->machine->device[device].name, now = edit->home[k];
        edit->home[k] =
            last[k] == 0 ? more : stw_str_format(edit->arena, "%.*s,%.*s", (int)now.length, now.p, (int)more.length, more.p);
        if (edit->home[k].p == NULL) return stw_fail(edit->error, STW_ERROR_MEMORY, "out of memory");
        last[k] = device + 1;
    }
    return STW_OK;
}

static stw_status match_nodes(stw_hlo_edit *edit, const stw_graph *graph, const int32_t *instruction_of) {
    STW_TRY_NEW(edit->arena, edit->op_node, edit->entry->count, edit->error);
    STW_TRY_NEW(edit->arena, edit->op_at, graph->N, edit->error);
    for (int32_t k = 0; k < edit->entry->count; k++) edit->op_node[k] = -1;
    for (int32_t i = 0; i < graph->N; i++) {
        edit->op_at[i] = graph->kind[i] == STW_NODE_OP ? instruction_of[graph->origin[i]] : -1;
        if (edit->op_at[i] >= 0) edit->op_node[stw_hlo_local(edit, edit->op_at[i])] = i;
    }
    return name_homes(edit, graph, instruction_of);
}

static stw_status check_same(const stw_hlo_edit *edit, const stw_graph *graph) {
    const stw_str read = stw_str_of(edit->e->graph->fingerprint);
    if (graph->N == edit->e->graph->N && stw_str_is(read, graph->fingerprint)) return STW_OK;
    return stw_fail(edit->error, STW_ERROR_INPUT,
                    "the module '%.*s' is not the one that the plan's graph was read from (%d nodes, not %d); was it changed?",
                    STW_STR_SHOW(edit->m->name), graph->N, edit->e->graph->N);
}

/* The tasks: the simulator has accepted the groups already. */
static stw_status find_tasks(stw_hlo_edit *edit) {
    const stw_export *e = edit->e;
    stw_str reason = {0};
    TRY(stw_membership_build(e->graph, e->machine, e->plan->group, e->plan->device, edit->arena, &edit->tasks, &reason,
                             edit->error));
    if (reason.length > 0) return stw_fail(edit->error, STW_ERROR_NO_PLAN, "%.*s", (int)reason.length, reason.p);
    STW_TRY_NEW(edit->arena, edit->fused_of, edit->tasks.T, edit->error);
    for (int32_t t = 0; t < edit->tasks.T; t++) {
        const bool several = edit->tasks.member_start[t + 1] - edit->tasks.member_start[t] > 1;
        edit->fused_of[t] = several ? edit->fused_count++ : -1;
    }
    STW_TRY_NEW(edit->arena, edit->fused, edit->fused_count, edit->error);
    for (int32_t t = 0; t < edit->tasks.T; t++) {
        if (edit->fused_of[t] >= 0) edit->fused[edit->fused_of[t]].task = t;
    }
    return STW_OK;
}

stw_status stw_hlo_match(stw_hlo_edit *edit) {
    stw_graph *graph = NULL;
    int32_t *instruction_of = NULL;
    TRY(stw_hlo_build(edit->m, edit->arena, &graph, &instruction_of, edit->error));
    stw_status status = check_same(edit, graph);
    if (status == STW_OK) status = match_nodes(edit, graph, instruction_of);
    stw_graph_destroy(graph);
    return status == STW_OK ? find_tasks(edit) : status;
}
