/* What a method tells of its plans of groups, told on as plans of ops. Where priorities tie, a plan of ops may take another time
 * than that of groups, so each is judged, and the best of them can be had at the end. */
#include "method/fusing_told.h"

#include "plan/plan.h"

stw_status stw_told_open(stw_told *t, stw_search *outer, const stw_fused *fused, stw_error *error) {
    *t = (stw_told){.outer = outer, .fused = fused};
    TRY(stw_plan_create(fused->outer->graph, fused->outer->machine, &t->trial, error));
    const stw_status status = stw_plan_create(fused->outer->graph, fused->outer->machine, &t->best, error);
    if (status != STW_OK) stw_told_close(t);
    return status;
}

void stw_told_close(stw_told *t) {
    stw_plan_destroy(t->trial);
    stw_plan_destroy(t->best);
    *t = (stw_told){0};
}

/* The workspaces of the ops are not in use while a method runs on groups. */
static stw_status judge(stw_told *t, const stw_plan *of_groups, stw_score *score) {
    stw_workspace *workspace = t->outer->workspace[0];
    stw_evaluation evaluation;
    TRY(stw_fused_expand(t->fused, of_groups, t->trial, NULL));
    TRY(stw_simulate(t->outer->simulator, t->trial, workspace, &evaluation, NULL));
    *score = stw_score_of(t->outer->objective, workspace, &evaluation);
    return STW_OK;
}

static void on_found(void *context, const stw_plan *of_groups, const stw_score *unused) {
    stw_told *t = context;
    stw_score score = {0};
    (void)unused;
    if (judge(t, of_groups, &score) != STW_OK || score.reason != STW_VALID) return;
    if (t->has_best && !stw_score_is_better(&score, &t->score)) return;
    if (stw_plan_copy(t->best, t->trial, NULL) != STW_OK) return;
    t->has_best = true;
    t->score = score;
    atomic_store(&t->outer->evaluations, atomic_load(&t->inner->evaluations));
    if (t->outer->found != NULL) t->outer->found(t->outer->watch_context, t->best, &score);
}

static void on_tick(void *context) {
    const stw_told *t = context;
    atomic_store(&t->outer->evaluations, atomic_load(&t->inner->evaluations));
    stw_search_tick(t->outer);
}

static void on_curve(void *context, const stw_curve_row *row) {
    const stw_told *t = context;
    t->outer->curve(t->outer->watch_context, row);
}

void stw_told_watch(stw_told *t, stw_search *inner) {
    t->inner = inner;
    inner->found = on_found;
    inner->tick = on_tick;
    inner->curve = t->outer->curve == NULL ? NULL : on_curve;
    inner->watch_context = t;
}
