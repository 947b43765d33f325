#include "sim/score.h"

/* ---- load ---- */

/* What limits steps that follow each other as in a pipeline: the ops of a device, and the transfers at its end. */

/* The value that a node writes. */
static int32_t value_of(const stw_tasks *tasks, int32_t node) {
    int32_t low = 0, high = tasks->V;
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        if (tasks->value_node[middle] <= node) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Bytes of a value that are read anywhere but on its own device, each part once. */
static int64_t leaving_bytes(const stw_timeline *timeline, const stw_graph *graph, int32_t value, int32_t home) {
    const stw_tasks *tasks = timeline->tasks;
    int64_t sum = 0;
    int32_t last = -1; /* uses are sorted by view */
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        const stw_task_use *use = &tasks->use[u];
        if (timeline->device[use->task] == home) continue;
        if (use->view < 0) return tasks->value_bytes[value];
        if (use->view != last) sum += graph->bytes[use->view];
        if (sum >= tasks->value_bytes[value]) return tasks->value_bytes[value];
        last = use->view;
    }
    return sum;
}

/* A hop takes its nominal time, times what the run did to this transfer (which may stretch transfers). */
static int64_t hop_ps(const stw_machine *machine, const stw_transfer *transfer, int32_t from, int32_t to, int64_t bytes) {
    const int64_t nominal = stw_cost_transfer_ps(stw_machine_link(machine, transfer->from, transfer->to), transfer->bytes);
    const int64_t actual = transfer->end_ps - transfer->start_ps;
    const int64_t hop = stw_cost_transfer_ps(stw_machine_link(machine, from, to), bytes);
    if (nominal == actual || nominal == 0) return hop;
    const double stretched = (double)hop * ((double)actual / (double)nominal) + 0.5;
    return stretched < (double)INT64_MAX ? (int64_t)stretched : INT64_MAX;
}

/* Transfers of many links meet in one device: their sum may be longer than any step. */
static void add_load(int64_t *load, int64_t ps) {
    if (__builtin_add_overflow(*load, ps, load)) *load = INT64_MAX;
}

/* Transfers staged through the host: `count` of one value, which leaves its device once. */
static void add_staged(const stw_workspace *workspace, const stw_transfer *transfer, int32_t count, int64_t *load) {
    const stw_machine *machine = workspace->simulator->machine;
    const int32_t from = transfer->from;
    if (from != machine->host) {
        const stw_timeline *timeline = &workspace->timeline;
        const int32_t value = value_of(timeline->tasks, transfer->producer);
        const int64_t bytes = leaving_bytes(timeline, workspace->simulator->graph, value, from);
        add_load(&load[from], hop_ps(machine, transfer, from, machine->host, bytes));
    }
    for (int32_t k = 0; k < count; k++) {
        const int32_t to = transfer[k].to;
        if (to != machine->host) add_load(&load[to], hop_ps(machine, &transfer[k], machine->host, to, transfer[k].bytes));
    }
}

void stw_workspace_loads_ps(const stw_workspace *workspace, int64_t *load) {
    const stw_machine *machine = workspace->simulator->machine;
    const stw_timeline *timeline = &workspace->timeline;
    for (int32_t d = 0; d < machine->device_count; d++) load[d] = timeline->busy_ps[d];
    for (int32_t k = 0, end; k < timeline->transfer_count; k = end) {
        const stw_transfer *transfer = &timeline->transfer[k];
        for (end = k + 1; end < timeline->transfer_count && timeline->transfer[end].producer == transfer->producer; end++) {
        } /* all transfers of a value are queued at one moment, so they stand together */
        if (machine->host >= 0) {
            add_staged(workspace, transfer, end - k, load);
            continue;
        }
        for (int32_t t = k; t < end; t++) {
            const int64_t duration = timeline->transfer[t].end_ps - timeline->transfer[t].start_ps;
            add_load(&load[timeline->transfer[t].from], duration);
            add_load(&load[timeline->transfer[t].to], duration);
        }
    }
}

double stw_workspace_largest_load_s(const stw_workspace *workspace) {
    int64_t load[STW_MAX_DEVICES], largest = 0;
    stw_workspace_loads_ps(workspace, load);
    for (int32_t d = 0; d < workspace->simulator->machine->device_count; d++) {
        if (load[d] > largest) largest = load[d];
    }
    return (double)largest / 1e12;
}

/* ---- score ---- */

static int rank_of(stw_reason reason) { return reason == STW_VALID ? 0 : reason == STW_INVALID_MEMORY ? 1 : 2; }

bool stw_score_is_better(const stw_score *a, const stw_score *b) {
    const int x = rank_of(a->reason), y = rank_of(b->reason);
    if (x != y) return x < y;
    if (x == 2) return false;
    if (a->lacks != b->lacks) return a->lacks < b->lacks;
    if (a->value != b->value) return a->value < b->value;
    if (a->step_s != b->step_s) return a->step_s < b->step_s;
    if (a->sent_bytes != b->sent_bytes) return a->sent_bytes < b->sent_bytes;
    if (a->peak_bytes != b->peak_bytes) return a->peak_bytes < b->peak_bytes;
    return a->devices < b->devices;
}

stw_score stw_score_of(stw_objective objective, const stw_workspace *workspace, const stw_evaluation *evaluation) {
    stw_score score = {.reason = evaluation->reason, .step_s = evaluation->step_s};
    if (rank_of(score.reason) == 2) return score;
    const stw_machine *machine = workspace->simulator->machine;
    score.sent_bytes = evaluation->transfer_bytes;
    score.peak_bytes = evaluation->worst_peak_bytes;
    for (int32_t d = 0; d < machine->device_count; d++) {
        score.devices += evaluation->peak_bytes[d] > 0 || evaluation->busy_ps[d] > 0;
        const int64_t over = evaluation->peak_bytes[d] - machine->device[d].memory_bytes;
        if (over > 0) score.lacks += (double)over;
    }
    switch (objective) {
        case STW_OBJECTIVE_TIME: score.value = evaluation->step_s; break;
        case STW_OBJECTIVE_MEMORY: score.value = (double)evaluation->worst_peak_bytes; break;
        case STW_OBJECTIVE_THROUGHPUT: score.value = stw_workspace_largest_load_s(workspace); break;
    }
    return score;
}
