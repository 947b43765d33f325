/* Plans that are changed and simulated. */
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "explain/explain.h"

/* ---- strict orders ---- */

typedef struct {
    int64_t start_ps;
    int32_t place; /* of the last of its ops, in topological order */
    int32_t task;
} turn;

static int compare_turns(const void *left, const void *right) {
    const turn *a = left, *b = right;
    if (a->start_ps != b->start_ps) return a->start_ps < b->start_ps ? -1 : 1;
    return a->place != b->place ? a->place - b->place : a->task - b->task;
}

/* An order that lists each task of its device once. seen: (T), all false, and again at the end. */
static bool fits_tasks(const stw_plan *plan, const stw_tasks *tasks, int32_t device, bool *seen) {
    int32_t left = 0, k = 0;
    for (int32_t t = 0; t < tasks->T; t++) left += plan->device[tasks->task_node[t]] == device;
    for (; k < plan->order_count[device]; k++) {
        const int32_t node = plan->order[device][k], task = tasks->task_of[node];
        if (task < 0 || tasks->task_node[task] != node || plan->device[node] != device || seen[task]) break;
        seen[task] = true;
    }
    const bool fits = k == plan->order_count[device] && k == left;
    while (k-- > 0) seen[tasks->task_of[plan->order[device][k]]] = false;
    return fits;
}

/* All tasks, by when their last op began in the run that is explained. */
static stw_status sort_turns(const stw_explainer *e, const stw_tasks *tasks, stw_arena *arena, turn **out, stw_error *error) {
    const stw_graph *graph = e->simulator->graph;
    STW_TRY_NEW(arena, *out, tasks->T, error);
    for (int32_t t = 0; t < tasks->T; t++) (*out)[t] = (turn){.start_ps = -1, .task = t};
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t node = graph->topological[k], t = tasks->task_of[node];
        if (t < 0) continue;
        (*out)[t].place = k;
        if (e->op_start_ps[node] > (*out)[t].start_ps) (*out)[t].start_ps = e->op_start_ps[node];
    }
    qsort(*out, (size_t)tasks->T, sizeof **out, compare_turns);
    return STW_OK;
}

/* need: what each task needs, (start (T + 1)), tasks being counted by their turn. */
static stw_status list_needs(const stw_tasks *tasks, const turn *by_turn, stw_arena *arena, int64_t **start, int32_t **need,
                             stw_error *error) {
    const int32_t T = tasks->T;
    int32_t *rank;
    STW_TRY_NEW(arena, rank, T, error);
    STW_TRY_NEW(arena, *start, (int64_t)T + 2, error);
    STW_TRY_NEW(arena, *need, (int64_t)tasks->U + tasks->waiter_start[T], error);
    for (int32_t k = 0; k < T; k++) rank[by_turn[k].task] = k;
    for (int pass = 0; pass < 2; pass++) { /* counts, then fills */
        for (int32_t t = 0; t < T; t++) {
            for (int32_t s = tasks->input_start[t]; s < tasks->input_start[t + 1]; s++) {
                const int32_t producer = tasks->value_task[tasks->slot_value[s]];
                if (producer < 0) continue;
                if (pass == 0)
                    (*start)[rank[t] + 2]++;
                else
                    (*need)[(*start)[rank[t] + 1]++] = rank[producer];
            }
            for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++) {
                if (pass == 0)
                    (*start)[rank[tasks->waiter[w]] + 2]++;
                else
                    (*need)[(*start)[rank[tasks->waiter[w]] + 1]++] = rank[t];
            }
        }
        for (int32_t k = 0; k < T && pass == 0; k++) (*start)[k + 2] += (*start)[k + 1];
    }
    return STW_OK;
}

static stw_status refit(const stw_explainer *e, const stw_tasks *tasks, stw_plan *plan, const bool *unfit, stw_arena scratch,
                        stw_error *error) {
    turn *by_turn = NULL;
    int64_t *start = NULL;
    int32_t *need = NULL, *order, *listed, stuck = -1;
    TRY(sort_turns(e, tasks, &scratch, &by_turn, error));
    TRY(list_needs(tasks, by_turn, &scratch, &start, &need, error));
    STW_TRY_NEW(&scratch, order, tasks->T, error);
    STW_TRY_NEW(&scratch, listed, tasks->T, error);
    TRY(stw_inputs_first(tasks->T, start, need, scratch, order, &stuck, error));
    for (int32_t d = 0; d < plan->machine->device_count && stuck < 0; d++) {
        int32_t count = 0;
        for (int32_t k = 0; k < tasks->T && unfit[d]; k++) {
            const int32_t node = tasks->task_node[by_turn[order[k]].task];
            if (plan->device[node] == d) listed[count++] = node;
        }
        if (unfit[d]) TRY(stw_plan_set_order(plan, d, listed, count, error));
    }
    return STW_OK;
}

stw_status stw_refit_orders(const stw_explainer *e, const stw_simulator *simulator, stw_plan *plan, stw_error *error) {
    stw_arena scratch = *e->scratch;
    stw_tasks room;
    const stw_tasks *tasks;
    stw_str reason;
    bool unfit[STW_MAX_DEVICES] = {false}, *seen, any = false;
    for (int32_t d = 0; d < plan->machine->device_count; d++) any |= plan->order[d] != NULL;
    if (!any) return STW_OK;
    TRY(stw_simulator_tasks(simulator, plan, &scratch, &room, &tasks, &reason, error));
    if (reason.length > 0) return STW_OK; /* the simulator will say so */
    STW_TRY_NEW(&scratch, seen, tasks->T, error);
    any = false;
    for (int32_t d = 0; d < plan->machine->device_count; d++) {
        unfit[d] = plan->order[d] != NULL && !fits_tasks(plan, tasks, d, seen);
        any |= unfit[d];
    }
    return any ? refit(e, tasks, plan, unfit, scratch, error) : STW_OK;
}

/* ---- simulating ---- */

static stw_status run(stw_explainer *e, const stw_simulator *simulator, const stw_plan *plan, stw_workspace *workspace,
                      stw_attempt *out, stw_error *error) {
    stw_evaluation result;
    TRY(stw_simulate(simulator, plan, workspace, &result, error));
    const stw_str message = stw_str_copy(&e->out->arena, stw_str_of(result.message));
    if (message.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    *out = (stw_attempt){.tried = true,
                         .reason = result.reason,
                         .message = message.p,
                         .step_ps = result.step_ps,
                         .peak_bytes = result.worst_peak_bytes};
    return STW_OK;
}

stw_status stw_try_plan(stw_explainer *e, stw_plan *plan, stw_attempt *out, stw_error *error) {
    TRY(stw_refit_orders(e, e->simulator, plan, error));
    return run(e, e->simulator, plan, e->trial, out, error);
}

stw_status stw_try_plan_on(stw_explainer *e, const stw_simulator *simulator, const stw_plan *plan, stw_attempt *out,
                           stw_error *error) {
    stw_workspace *workspace;
    TRY(stw_workspace_create(simulator, &workspace, error));
    const stw_status status = run(e, simulator, plan, workspace, out, error);
    stw_workspace_destroy(workspace);
    return status;
}
