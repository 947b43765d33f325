/* What a plan's step is made of: one run, and what is asked about it. */
#include "explain/explain.h"

#include "sim/op_times.h"

/* ---- the run ---- */

/* The copies of what each task updates. */
static stw_status list_copies(stw_explainer *e, stw_error *error) {
    const stw_tasks *tasks = e->tasks;
    const stw_timeline *l = e->timeline;
    int32_t *updater; /* (N) of parameters and buffers: the task that updates it + 1; 0: none */
    STW_TRY_NEW(e->scratch, updater, e->simulator->graph->N, error);
    STW_TRY_NEW(e->scratch, e->first_copy, tasks->T, error);
    STW_TRY_NEW(e->scratch, e->next_copy, l->transfer_count, error);
    for (int32_t t = 0; t < tasks->T; t++) e->first_copy[t] = -1;
    for (int32_t v = 0; v < tasks->V; v++) updater[tasks->value_node[v]] = tasks->value_updater[v] + 1;
    for (int32_t k = l->transfer_count - 1; k >= 0; k--) {
        const int32_t task = updater[l->transfer[k].producer] - 1;
        if (task < 0) continue;
        e->next_copy[k] = e->first_copy[task];
        e->first_copy[task] = k;
    }
    return STW_OK;
}

/* When each op began. */
static stw_status time_ops(stw_explainer *e, stw_error *error) {
    const stw_tasks *ops = &e->simulator->unfused;
    int64_t *start_ps, *end_ps;
    int32_t *task;
    STW_TRY_NEW(e->scratch, e->op_start_ps, e->simulator->graph->N, error);
    STW_TRY_NEW(e->scratch, start_ps, ops->T, error);
    STW_TRY_NEW(e->scratch, end_ps, ops->T, error);
    STW_TRY_NEW(e->scratch, task, ops->T, error);
    TRY(stw_op_times(e->workspace, start_ps, end_ps, task, *e->scratch, error));
    for (int32_t t = 0; t < ops->T; t++) e->op_start_ps[ops->task_node[t]] = start_ps[t];
    return STW_OK;
}

static stw_status simulate(stw_explainer *e, stw_error *error) {
    TRY(stw_workspace_create(e->simulator, &e->workspace, error));
    TRY(stw_workspace_create(e->simulator, &e->trial, error));
    TRY(stw_simulate(e->simulator, e->plan, e->workspace, &e->result, error));
    if (e->result.peak_bytes == NULL)
        return stw_fail(error, STW_ERROR_NO_PLAN, "the plan has no step to explain: %s", e->result.message);
    e->timeline = &e->workspace->timeline;
    e->tasks = e->timeline->tasks;
    TRY(stw_causes_build(e->workspace, e->scratch, &e->causes, error));
    TRY(list_copies(e, error));
    return time_ops(e, error);
}

/* What was asked, read before anything is simulated, so that a slip shows at once. */
static stw_status explain(stw_explainer *e, stw_error *error) {
    const char *op = stw_options_text(e->options, "op"), *group = stw_options_text(e->options, "group");
    const char *what_if = stw_options_text(e->options, "what-if");
    stw_change *change;
    stw_str *name;
    int32_t count, node;
    TRY(stw_changes_read(what_if, &e->out->arena, &change, &name, &count, error));
    if (op != NULL) TRY(stw_find_named(e->simulator->graph, "op", op, true, &node, error));
    if (group != NULL) TRY(stw_find_named(e->simulator->graph, "group", group, false, &node, error));
    TRY(simulate(e, error));
    TRY(stw_explain_path(e, error));
    TRY(stw_explain_idle(e, error));
    if (op != NULL) TRY(stw_explain_move(e, op, error));
    if (group != NULL) TRY(stw_explain_group(e, group, error));
    return stw_explain_what_ifs(e, change, name, count, error);
}

stw_status stw_explain(const stw_simulator *simulator, const stw_plan *plan, const stw_options *options, const stw_watch *watch,
                       stw_explanation **out, stw_error *error) {
    STW_NEED(simulator);
    STW_NEED(plan);
    STW_NEED(out);
    *out = NULL;
    stw_arena arena, scratch;
    TRY(stw_arena_create(&arena, error));
    stw_explanation *made = STW_NEW(&arena, stw_explanation, 1);
    *made = (stw_explanation){.arena = arena, .simulator = simulator, .plan = plan};
    stw_status status = stw_arena_create(&scratch, error);
    if (status == STW_OK) {
        stw_explainer e = {
            .simulator = simulator, .plan = plan, .options = options, .watch = watch, .out = made, .scratch = &scratch};
        status = explain(&e, error);
        stw_workspace_destroy(e.workspace);
        stw_workspace_destroy(e.trial);
        stw_arena_destroy(&scratch);
    }
    if (status != STW_OK) {
        stw_explanation_destroy(made);
        return status;
    }
    *out = made;
    return STW_OK;
}

void stw_explanation_destroy(stw_explanation *explanation) {
    if (explanation == NULL) return;
    stw_arena arena = explanation->arena;
    stw_arena_destroy(&arena);
}

/* ---- what callers see ---- */

stw_step_parts stw_explanation_parts(const stw_explanation *explanation) {
    STW_NEED(explanation);
    return explanation->parts;
}

#define ROW(list, length)                                 \
    do {                                                  \
        STW_NEED(explanation);                            \
        STW_NEED(out);                                    \
        if (index < 0 || index >= (length)) return false; \
        *out = explanation->list[index];                  \
        return true;                                      \
    } while (0)

bool stw_explanation_path(const stw_explanation *explanation, int32_t index, stw_path_part *out) {
    ROW(path, explanation->path_count);
}

bool stw_explanation_cost(const stw_explanation *explanation, int32_t index, stw_path_cost *out) {
    ROW(cost, explanation->cost_count);
}

bool stw_explanation_device(const stw_explanation *explanation, int32_t index, stw_device_time *out) {
    ROW(device, explanation->simulator->machine->device_count);
}

bool stw_explanation_idle(const stw_explanation *explanation, int32_t index, stw_idle *out) {
    ROW(idle, explanation->idle_count);
}

bool stw_explanation_what_if(const stw_explanation *explanation, int32_t index, stw_what_if *out) {
    ROW(what_if, explanation->what_if_count);
}

bool stw_explanation_move(const stw_explanation *explanation, int32_t index, stw_move_trial *out) {
    ROW(move, explanation->move_count);
}

bool stw_explanation_pull(const stw_explanation *explanation, int32_t index, stw_pull *out) {
    ROW(pull, explanation->pull_count);
}

bool stw_explanation_merge(const stw_explanation *explanation, int32_t index, stw_merge_trial *out) {
    ROW(merge, explanation->merge_count);
}

bool stw_explanation_is_interrupted(const stw_explanation *explanation) {
    STW_NEED(explanation);
    return explanation->interrupted;
}

const int32_t *stw_explanation_moved(const stw_explanation *explanation, int32_t *count) {
    STW_NEED(explanation);
    STW_NEED(count);
    *count = explanation->moved_count;
    return explanation->moved;
}

bool stw_explanation_group(const stw_explanation *explanation, stw_group_worth *out) {
    STW_NEED(explanation);
    STW_NEED(out);
    *out = explanation->group;
    return explanation->has_group;
}
