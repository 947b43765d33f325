/* What a simulated plan says of each unit, and of each unit and device. */
#include <math.h>

#include "feature/columns.h"
#include "feature/crossings.h"
#include "feature/parts.h"

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

stw_status stw_features_feedback(const stw_features *features, const stw_feedback_input *input, double *feedback, double *pair,
                                 stw_arena scratch, stw_error *error) {
    const stw_tasks *tasks = features->tasks;
    stw_feedback b = {.features = features, .input = input, .per_step = input->step_ps > 0 ? 1.0 / (double)input->step_ps : 0.0};
    TRY(check_devices(features, input->device, error));
    TRY(read_links(features->costs->machine, &scratch, &b.links, error));
    STW_TRY_NEW(&scratch, b.task_device, tasks->T, error);
    STW_TRY_NEW(&scratch, b.start, features->M, error);
    for (int32_t t = 0; t < tasks->T; t++) b.task_device[t] = input->device[tasks->task_node[t]];
    TRY(stw_feedback_timing(&b, feedback, scratch, error));
    TRY(stw_feedback_traffic(&b, feedback, scratch, error));
    TRY(rank_priorities(&b, feedback, scratch, error));
    TRY(stw_feedback_pairs(&b, pair, scratch, error));
    return STW_OK;
}
