/* What methods share when fusion is among the tasks: the rule's groups, as a problem whose ops they are, and room for threads. */
#include "method/fusing.h"

/* The device that does all the work soonest: groups are made as if all were there. */
static int32_t fastest_device(const stw_simulator *s) {
    double least = 0.0;
    int32_t fastest = 0;
    for (int32_t d = 0; d < s->machine->device_count; d++) {
        double us = 0.0;
        for (int32_t i = 0; i < s->graph->N; i++) us += s->costs->us[s->machine->device[d].cost_class][i];
        if (d > 0 && us >= least) continue;
        least = us;
        fastest = d;
    }
    return fastest;
}

/* Groups that are placed as one. */
static stw_status open_fused(const stw_simulator *s, const stw_stop *stop, stw_fusing *out, stw_arena *arena, stw_error *error) {
    const stw_fusion rule = out->rule >= 0 ? (stw_fusion)out->rule : STW_FUSION_DEFAULT;
    const int32_t N = s->graph->N, device = fastest_device(s);
    int32_t *group, *on;
    STW_TRY_NEW(arena, out->priority, N, error);
    STW_TRY_NEW(arena, out->workspace, out->threads, error);
    stw_arena scratch = *arena;
    STW_TRY_NEW(&scratch, group, N, error);
    STW_TRY_NEW(&scratch, on, N, error);
    for (int32_t i = 0; i < N; i++) on[i] = device;
    stw_fuser_set_stop(out->fuser[0], stop);
    stw_fuse_by_rule(out->fuser[0], rule, on, group, out->priority);
    stw_fuser_set_stop(out->fuser[0], NULL);
    out->partial = stw_fuser_was_stopped(out->fuser[0]);
    out->device = device;
    out->asked = rule;
    if (out->partial || s->machine->device_count == 1 || rule == STW_FUSION_NONE || stw_stop_is_due(stop)) return STW_OK;
    stw_fuser_allow_recomputing(out->fuser[0], false);
    stw_fuse_by_priority(out->fuser[0], out->priority, on, group);
    stw_fuser_allow_recomputing(out->fuser[0], true);
    TRY(stw_fused_create(s, group, device, &out->fused, error));
    for (int32_t t = 0; t < out->threads; t++) TRY(stw_workspace_create(out->fused->simulator, &out->workspace[t], error));
    return STW_OK;
}

stw_status stw_fusing_open(const stw_simulator *simulator, int32_t rule, int32_t threads, const stw_stop *stop, stw_arena *arena,
                           stw_fusing *out, stw_error *error) {
    *out = (stw_fusing){.rule = rule, .threads = threads};
    STW_TRY_NEW(arena, out->fuser, threads, error);
    for (int32_t t = 0; t < threads; t++) TRY(stw_fuser_create(simulator->costs, arena, &out->fuser[t], error));
    return open_fused(simulator, stop, out, arena, error);
}

stw_status stw_fusing_open_groups(const stw_simulator *simulator, const int32_t *group, int32_t threads, stw_arena *arena,
                                  stw_fusing *out, stw_error *error) {
    stw_error several = {0};
    *out = (stw_fusing){.rule = -1, .threads = threads};
    STW_TRY_NEW(arena, out->workspace, threads, error);
    const stw_status status = stw_fused_create(simulator, group, fastest_device(simulator), &out->fused, &several);
    if (status == STW_ERROR_INPUT) return STW_OK;
    if (status != STW_OK && error != NULL) *error = several;
    for (int32_t t = 0; t < threads && status == STW_OK; t++)
        TRY(stw_workspace_create(out->fused->simulator, &out->workspace[t], error));
    return status;
}

void stw_fusing_close(stw_fusing *fusing) {
    for (int32_t t = 0; t < fusing->threads && fusing->workspace != NULL; t++) stw_workspace_destroy(fusing->workspace[t]);
    stw_fused_destroy(fusing->fused);
    *fusing = (stw_fusing){0};
}
