#include "support/every_plan.h"

#include "test.h"

void every_plan_begin(small *s) {
    static const int32_t none[EVERY_PLAN_MOST] = {0};
    for (int32_t d = 0; d < s->machine->device_count; d++) {
        CHECK_EQ_INT(stw_plan_set_order(s->plan, d, none, s->graph->N, NULL),
                     STW_OK); /* room for all nodes, EVERY_PLAN_MOST at most */
    }
}

static int64_t run(small *s) {
    stw_evaluation result;
    CHECK_EQ_INT(stw_simulate(s->simulator, s->plan, s->workspace, &result, NULL), STW_OK);
    return result.reason == STW_VALID ? result.step_ps : INT64_MAX;
}

/* ---- every order of the tasks ---- */

typedef struct {
    small *s;
    const stw_tasks *tasks;
    int32_t sequence[EVERY_PLAN_MOST];
    int32_t pending[EVERY_PLAN_MOST];
    bool done[EVERY_PLAN_MOST];
    int64_t best_ps;
} search;

static void place(search *x, int32_t t, int32_t sign) {
    const stw_tasks *tasks = x->tasks;
    for (int32_t o = tasks->output_start[t]; o < tasks->output_start[t + 1]; o++) {
        for (int32_t u = tasks->use_start[tasks->output[o]]; u < tasks->use_start[tasks->output[o] + 1]; u++) {
            x->pending[tasks->use[u].task] -= sign;
        }
    }
    for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++) x->pending[tasks->waiter[w]] -= sign;
    x->done[t] = sign > 0;
}

/* Cuts the sequence up by device. The arrays of the plan are written in place: set_order would fill its arena. */
static void try_sequence(search *x) {
    stw_plan *plan = x->s->plan;
    for (int32_t d = 0; d < plan->machine->device_count; d++) plan->order_count[d] = 0;
    for (int32_t k = 0; k < x->tasks->T; k++) {
        const int32_t node = x->tasks->task_node[x->sequence[k]], d = plan->device[node];
        plan->order[d][plan->order_count[d]++] = node;
    }
    const int64_t step = run(x->s);
    CHECK(step < INT64_MAX);
    if (step < x->best_ps) x->best_ps = step;
}

static void extend(search *x, int32_t length) {
    if (length == x->tasks->T) try_sequence(x);
    for (int32_t t = 0; t < x->tasks->T; t++) {
        if (x->done[t] || x->pending[t] > 0) continue;
        x->sequence[length] = t;
        place(x, t, 1);
        extend(x, length + 1);
        place(x, t, -1);
    }
}

/* The best step over all orders; INT64_MAX if the groups are illegal. */
static int64_t best_order(small *s, stw_arena scratch) {
    stw_tasks room;
    stw_str reason;
    search x = {.s = s, .best_ps = INT64_MAX};
    CHECK_EQ_INT(stw_simulator_tasks(s->simulator, s->plan, &scratch, &room, &x.tasks, &reason, NULL), STW_OK);
    if (reason.length > 0) return INT64_MAX;
    for (int32_t v = 0; v < x.tasks->V; v++) {
        for (int32_t u = x.tasks->use_start[v]; u < x.tasks->use_start[v + 1]; u++) {
            x.pending[x.tasks->use[u].task] += x.tasks->value_task[v] >= 0;
        }
    }
    for (int32_t w = 0; w < x.tasks->waiter_start[x.tasks->T]; w++) x.pending[x.tasks->waiter[w]]++;
    extend(&x, 0);
    return x.best_ps;
}

/* ---- every placement ---- */

bool next_placement(stw_plan *plan) {
    for (int32_t k = 0; k < plan->graph->op_count; k++) {
        int32_t *device = &plan->device[plan->graph->topological[k]];
        if (++*device < plan->machine->device_count) return true;
        *device = 0;
    }
    return false;
}

int64_t best_plan(small *s, stw_arena scratch) {
    int64_t best = INT64_MAX;
    do {
        const int64_t step = best_order(s, scratch);
        if (step < best) best = step;
    } while (next_placement(s->plan));
    return best;
}
