#include "sim/op_times.h"

static const double LITTLE_US = 1e-6; /* so that ops that take no time have a place too */

/* The task that computes each op. Backwards, so that a recomputed op finds its readers done. */
static void find_tasks(const stw_workspace *w, int32_t *task) {
    const stw_tasks *ops = &w->simulator->unfused, *tasks = w->timeline.tasks;
    const stw_graph *graph = w->simulator->graph;
    for (int32_t k = graph->op_count - 1; k >= 0; k--) {
        const int32_t node = graph->topological[k], op = ops->task_of[node];
        task[op] = tasks->task_of[node];
        if (task[op] >= 0) continue;
        for (int32_t o = ops->output_start[op]; o < ops->output_start[op + 1]; o++) {
            const int32_t v = ops->output[o];
            for (int32_t u = ops->use_start[v]; u < ops->use_start[v + 1]; u++) {
                const int32_t reader = task[ops->use[u].task];
                if (reader < 0) continue;
                if (task[op] < 0 || w->timeline.start_ps[reader] < w->timeline.start_ps[task[op]]) task[op] = reader;
            }
        }
    }
}

stw_status stw_op_times(const stw_workspace *w, int64_t *start_ps, int64_t *end_ps, int32_t *task, stw_arena scratch,
                        stw_error *error) {
    const stw_simulator *s = w->simulator;
    const stw_timeline *timeline = &w->timeline;
    const int32_t ops = s->unfused.T, T = timeline->tasks->T;
    double *all, *before; /* (T) microseconds of the members, and of those that came before */
    int32_t *left;        /* (T) members to come */
    STW_TRY_NEW(&scratch, all, T, error);
    STW_TRY_NEW(&scratch, before, T, error);
    STW_TRY_NEW(&scratch, left, T, error);
    find_tasks(w, task);
    for (int32_t op = 0; op < ops; op++) {
        start_ps[op] = end_ps[op] = 0;
        if (task[op] < 0) continue;
        all[task[op]] += s->costs->least_us[s->unfused.task_node[op]] + LITTLE_US;
        left[task[op]]++;
    }
    for (int32_t k = 0; k < s->graph->op_count; k++) {
        const int32_t node = s->graph->topological[k], op = s->unfused.task_of[node], t = task[op];
        if (t < 0) continue;
        const double us = s->costs->least_us[node] + LITTLE_US, length = (double)(timeline->end_ps[t] - timeline->start_ps[t]);
        start_ps[op] = timeline->start_ps[t] + (int64_t)(length * before[t] / all[t]);
        before[t] += us;
        end_ps[op] = --left[t] == 0 ? timeline->end_ps[t] : timeline->start_ps[t] + (int64_t)(length * before[t] / all[t]);
    }
    return STW_OK;
}
