/* What a simulated plan says of each unit, and of each unit and device. */
#include <math.h>
#include <string.h>

#include "feature/columns.h"
#include "feature/crossings.h"
#include "feature/feedback.h"
#include "feature/places.h"

/* ---- the columns that go by the clock: start, wait, slack, ... ---- */

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

static stw_status fill_timing(stw_feedback *b, double *matrix, stw_arena scratch, stw_error *error) {
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

/* ---- traffic ---- */

/* What each unit receives from other devices and sends to them: a value goes once to each device that reads it, and counts in
 * full for every unit that reads it there. */

typedef struct {
    double us[STW_MAX_DEVICES]; /* on the mean link, for each device that the value at hand is sent to */
    int32_t view[STW_MAX_DEVICES];
    uint64_t to; /* a bit for each of them */
} sending;

/* Bytes first, then time. */
static void find_sending(const stw_feedback *b, int32_t value, sending *s) {
    const stw_features *f = b->features;
    const stw_tasks *tasks = f->tasks;
    const int32_t home = b->input->device[tasks->value_node[value]];
    s->to = 0;
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        const stw_task_use *use = &tasks->use[u];
        const int32_t at = b->task_device[use->task];
        if (at == home) continue;
        if (!(s->to >> at & 1u)) {
            s->to |= 1ull << at;
            s->us[at] = 0.0;
            s->view[at] = -2;
        }
        if (use->view == s->view[at]) continue;
        s->view[at] = use->view;
        s->us[at] = fmin((double)tasks->value_bytes[value], s->us[at] + stw_use_bytes(f, value, use));
    }
    for (uint64_t left = s->to; left != 0; left &= left - 1) {
        const int d = __builtin_ctzll(left);
        s->us[d] = stw_mean_link_us(f->crossings, s->us[d]);
    }
}

static stw_status fill_traffic(const stw_feedback *b, double *matrix, stw_arena scratch, stw_error *error) {
    const stw_features *f = b->features;
    const stw_tasks *tasks = f->tasks;
    double *in, *out;
    int32_t *counted; /* (M, D) the last value that counted for a unit on a device, plus 1 */
    sending s;
    memset(&s, 0, sizeof s);
    STW_TRY_NEW(&scratch, in, f->M, error);
    STW_TRY_NEW(&scratch, out, f->M, error);
    STW_TRY_NEW(&scratch, counted, (int64_t)f->M * f->D, error);
    for (int32_t v = 0; v < tasks->V; v++) {
        if (f->crossings->from[v] < 0) continue;
        find_sending(b, v, &s);
        if (s.to == 0) continue;
        for (uint64_t left = s.to; left != 0; left &= left - 1) out[f->crossings->from[v]] += s.us[__builtin_ctzll(left)];
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) {
            const int32_t at = b->task_device[tasks->use[u].task];
            const int32_t unit = f->units->of[tasks->task_node[tasks->use[u].task]];
            int32_t *last = &counted[(int64_t)unit * f->D + at];
            if (!(s.to >> at & 1u) || *last == v + 1) continue;
            *last = v + 1;
            in[unit] += s.us[at];
        }
    }
    for (int32_t u = 0; u < f->M; u++) {
        double *row = matrix + (int64_t)u * STW_FEEDBACK_COLUMNS;
        row[STW_FEEDBACK_COMM_IN] = stw_compressed(in[u] * 1e6 * b->per_step);
        row[STW_FEEDBACK_COMM_OUT] = stw_compressed(out[u] * 1e6 * b->per_step);
    }
    return STW_OK;
}

/* ---- priorities: a heap sort, since qsort may allocate ---- */

typedef struct {
    double priority;
    int32_t unit;
} ranked;

static void sift(ranked *heap, int32_t k, int32_t count) {
    const ranked top = heap[k];
    for (int32_t child; (child = 2 * k + 1) < count; k = child) {
        if (child + 1 < count && heap[child + 1].priority > heap[child].priority) child++;
        if (heap[child].priority <= top.priority) break;
        heap[k] = heap[child];
    }
    heap[k] = top;
}

static void sort_by_priority(ranked *list, int32_t count) {
    for (int32_t k = count / 2 - 1; k >= 0; k--) sift(list, k, count);
    for (int32_t end = count - 1; end > 0; end--) {
        const ranked last = list[end];
        list[end] = list[0];
        list[0] = last;
        sift(list, 0, end);
    }
}

static double mean_priority(const stw_features *f, int32_t unit, const double *priority) {
    double sum = 0.0, weight = 0.0;
    for (int32_t m = f->units->start[unit]; m < f->units->start[unit + 1]; m++) {
        const int32_t node = f->units->member[m];
        sum += f->weight[node] * fmax(-1e200, fmin(1e200, priority[node]));
        weight += f->weight[node];
    }
    return stw_ratio(sum, weight);
}

/* Equals share the middle of their places. */
static stw_status rank_priorities(const stw_feedback *b, double *matrix, stw_arena scratch, stw_error *error) {
    const int32_t M = b->features->M;
    ranked *list;
    STW_TRY_NEW(&scratch, list, M, error);
    for (int32_t u = 0; u < M; u++) list[u] = (ranked){mean_priority(b->features, u, b->input->priority), u};
    sort_by_priority(list, M);
    for (int32_t k = 0; k < M;) {
        int32_t end = k + 1;
        while (end < M && list[end].priority == list[k].priority) end++;
        const double place = M > 1 ? 0.5 * (k + end - 1) / (M - 1) : 0.5;
        for (; k < end; k++) matrix[(int64_t)list[k].unit * STW_FEEDBACK_COLUMNS + STW_FEEDBACK_PRIORITY] = place;
    }
    return STW_OK;
}

/* ---- all of it ---- */

static stw_status check_devices(const stw_features *f, const int32_t *device, stw_error *error) {
    for (int32_t i = 0; i < f->costs->graph->N; i++) {
        if (device[i] >= 0 && device[i] < f->D) continue;
        return stw_fail(error, STW_ERROR_INPUT, "node %d is on device %d, but devices go from 0 to %d", i, device[i], f->D - 1);
    }
    return STW_OK;
}

static stw_status read_links(const stw_machine *machine, stw_arena *arena, stw_feature_links *out, stw_error *error) {
    const int32_t D = machine->device_count;
    double *latency, *per_byte;
    STW_TRY_NEW(arena, latency, (int64_t)D * D, error);
    STW_TRY_NEW(arena, per_byte, (int64_t)D * D, error);
    for (int32_t k = 0; k < D * D; k++) {
        if (k / D == k % D) continue;
        const bool linked = machine->link[k].bandwidth > 0.0;
        latency[k] = linked ? 1e6 * stw_link_fixed_us(&machine->link[k]) : INFINITY;
        per_byte[k] = linked ? 1e12 / machine->link[k].bandwidth : 0.0;
    }
    *out = (stw_feature_links){D, latency, per_byte, machine->tabled ? machine->link : NULL};
    return STW_OK;
}

stw_status stw_features_feedback(const stw_features *features, const stw_feedback_input *input, double *feedback, double *pair,
                                 stw_arena scratch, stw_error *error) {
    const stw_tasks *tasks = features->tasks;
    stw_feedback b = {.features = features, .input = input, .per_step = input->step_ps > 0 ? 1.0 / (double)input->step_ps : 0.0};
    TRY(check_devices(features, input->device, error));
    TRY(read_links(features->costs->machine, &scratch, &b.links, error));
    STW_TRY_NEW(&scratch, b.task_device, tasks->T, error);
    STW_TRY_NEW(&scratch, b.start, features->M, error);
    for (int32_t t = 0; t < tasks->T; t++) b.task_device[t] = input->device[tasks->task_node[t]];
    TRY(fill_timing(&b, feedback, scratch, error));
    TRY(fill_traffic(&b, feedback, scratch, error));
    TRY(rank_priorities(&b, feedback, scratch, error));
    TRY(stw_feedback_pairs(&b, pair, scratch, error));
    return STW_OK;
}
