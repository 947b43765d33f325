#include "sim/score.h"

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
