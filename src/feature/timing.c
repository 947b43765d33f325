/* The columns of the feedback that go by the clock. */
#include <math.h>

#include "feature/columns.h"
#include "feature/crossings.h"
#include "feature/parts.h"
#include "feature/places.h"

typedef struct { /* (T) picoseconds */
    double *start;
    double *wait;     /* from the end of all producers to the start */
    double *transfer; /* the part of it that its inputs would be on their way if no transfer queued */
    double *slack;    /* how much later it could end without a longer step, by data and transfers alone */
    double *critical; /* 1 or 0 */
} task_times;

static double end_of_producer(const stw_feedback *b, int32_t value) {
    const int32_t task = b->features->tasks->value_task[value];
    return task < 0 ? 0.0 : (double)b->input->end_ps[task];
}

/* wait and transfer hold, until the last loop, when all producers have ended and when all inputs could be there. */
static void find_waits(const stw_feedback *b, task_times *times) {
    const stw_tasks *tasks = b->features->tasks;
    for (int32_t v = 0; v < tasks->V; v++) {
        if (tasks->value_flags[v] & STW_VALUE_EVERYWHERE) continue;
        const double end = end_of_producer(b, v);
        const int32_t home = b->input->device[tasks->value_node[v]];
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) {
            const stw_task_use *use = &tasks->use[u];
            const int32_t at = b->task_device[use->task];
            const double there =
                at == home ? end : end + stw_feature_transfer_ps(&b->links, home, at, stw_use_bytes(b->features, v, use));
            if (times->wait[use->task] < end) times->wait[use->task] = end;
            if (times->transfer[use->task] < there) times->transfer[use->task] = there;
        }
    }
    for (int32_t t = 0; t < tasks->T; t++) {
        for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++) {
            double *ended = &times->wait[tasks->waiter[w]];
            if (*ended < (double)b->input->end_ps[t]) *ended = (double)b->input->end_ps[t];
        }
    }
    for (int32_t t = 0; t < tasks->T; t++) {
        const double ended = times->wait[t];
        times->wait[t] = fmax(0.0, times->start[t] - ended);
        times->transfer[t] = fmax(0.0, fmin(times->transfer[t] - ended, times->wait[t]));
    }
}

/* Against the order of the graph: the latest end of a task is that from which all readers could still start at their latest.
 * slack holds the latest start until the last loop. */
static void find_slack(const stw_feedback *b, task_times *times) {
    const stw_tasks *tasks = b->features->tasks;
    const stw_graph *graph = b->features->costs->graph;
    for (int32_t k = graph->op_count - 1; k >= 0; k--) {
        const int32_t t = tasks->task_of[graph->topological[k]];
        double latest = (double)b->input->step_ps;
        for (int32_t o = tasks->output_start[t]; o < tasks->output_start[t + 1]; o++) {
            const int32_t v = tasks->output[o];
            for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) {
                const stw_task_use *use = &tasks->use[u];
                const int32_t at = b->task_device[use->task];
                double needed = times->slack[use->task];
                if (at != b->task_device[t])
                    needed -= stw_feature_transfer_ps(&b->links, b->task_device[t], at, stw_use_bytes(b->features, v, use));
                if (needed < latest) latest = needed;
            }
        }
        for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++) {
            if (times->slack[tasks->waiter[w]] < latest) latest = times->slack[tasks->waiter[w]];
        }
        times->slack[t] = latest - (double)(b->input->end_ps[t] - b->input->start_ps[t]);
    }
    for (int32_t t = 0; t < tasks->T; t++) times->slack[t] = fmax(0.0, times->slack[t] - times->start[t]);
}

/* room: (M) how much later each unit could end with no other unit starting later. */
static void find_room(const stw_feedback *b, double *room) {
    const stw_features *f = b->features;
    const stw_tasks *tasks = f->tasks;
    const double step = (double)b->input->step_ps;
    for (int32_t u = 0; u < f->M; u++) room[u] = step;
    for (int32_t t = 0; t < tasks->T; t++) {
        double *of = &room[f->units->of[tasks->task_node[t]]];
        *of = fmin(*of, step - (double)b->input->end_ps[t]);
    }
    for (int32_t v = 0; v < tasks->V; v++) {
        if (f->crossings->start[v] == f->crossings->start[v + 1]) continue;
        const int32_t home = b->input->device[tasks->value_node[v]];
        const double end = end_of_producer(b, v);
        double *of = &room[f->crossings->from[v]];
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) {
            const stw_task_use *use = &tasks->use[u];
            if (f->crossings->of_use[u] < 0) continue;
            const int32_t at = b->task_device[use->task];
            double gap = (double)b->input->start_ps[use->task] - end;
            if (at != home) gap -= stw_feature_transfer_ps(&b->links, home, at, stw_use_bytes(f, v, use));
            if (gap < *of) *of = gap;
        }
    }
}

static double least_slack(const stw_features *f, int32_t unit, const double *slack) {
    double least = INFINITY;
    for (int32_t m = f->units->start[unit]; m < f->units->start[unit + 1]; m++) {
        const int32_t task = f->stand_in[f->units->member[m]];
        if (task >= 0 && f->weight[f->units->member[m]] > 0.0) least = fmin(least, slack[task]);
    }
    return least == INFINITY ? 0.0 : least;
}

static double time_of(const stw_feedback *b, int32_t unit) {
    const stw_features *f = b->features;
    double sum = 0.0;
    for (int32_t m = f->units->start[unit]; m < f->units->start[unit + 1]; m++) {
        const int32_t task = f->tasks->task_of[f->units->member[m]];
        if (task >= 0) sum += (double)(b->input->end_ps[task] - b->input->start_ps[task]);
    }
    return sum;
}

stw_status stw_feedback_timing(stw_feedback *b, double *matrix, stw_arena scratch, stw_error *error) {
    const stw_features *f = b->features;
    const int32_t T = f->tasks->T;
    const double per_step = b->per_step;
    task_times times = {0};
    double **const lists[] = {&times.start, &times.wait, &times.transfer, &times.slack, &times.critical}, *room;
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) STW_TRY_NEW(&scratch, *lists[k], T, error);
    STW_TRY_NEW(&scratch, room, f->M, error);
    for (int32_t t = 0; t < T; t++) times.start[t] = (double)b->input->start_ps[t];
    for (int32_t k = 0; k < b->input->critical_count; k++) times.critical[b->input->critical[k]] = 1.0;
    find_waits(b, &times);
    find_slack(b, &times);
    find_room(b, room);
    for (int32_t u = 0; u < f->M; u++) {
        double *row = matrix + (int64_t)u * STW_FEEDBACK_COLUMNS;
        b->start[u] = stw_unit_mean(f, u, times.start);
        row[STW_FEEDBACK_START] = stw_bounded(b->start[u] * per_step);
        row[STW_FEEDBACK_WAIT] = stw_compressed(stw_unit_mean(f, u, times.wait) * per_step);
        row[STW_FEEDBACK_TRANSFER_WAIT] = stw_compressed(stw_unit_mean(f, u, times.transfer) * per_step);
        row[STW_FEEDBACK_CRITICAL] = stw_unit_mean(f, u, times.critical);
        row[STW_FEEDBACK_SLACK_MEAN] = stw_compressed(stw_unit_mean(f, u, times.slack) * per_step);
        row[STW_FEEDBACK_SLACK_LEAST] = stw_compressed(least_slack(f, u, times.slack) * per_step);
        row[STW_FEEDBACK_SLACK_OF_READERS] = stw_compressed(fmax(0.0, room[u]) * per_step);
        row[STW_FEEDBACK_TIME] = stw_compressed(time_of(b, u) * per_step);
    }
    return STW_OK;
}
