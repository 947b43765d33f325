/* What is known of all plans at once: bounds that none of them beats, and whether any is valid. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "driver/agenda.h"
#include "sim/bounds.h"

/* Seconds per op, measured as those of methods were (method.h): with the slow bounds, and with the quick ones alone. */
static const double BOUND_S = 8e-6, QUICK_BOUND_S = 3e-6;
static const double BOUND_OF_GROUPS_S = 4e-6, QUICK_BOUND_OF_GROUPS_S = 2e-6; /* of the best plan alone, in the end */
static const double SLOW_BOUND_SHARE = 0.05; /* what takes longer than this share of a budget of time waits for a plan */

/* ---- what comes in the end ---- */

static const double QUICK_END_S = 0.5;  /* nobody minds waiting for it */
static const double MOST_FOR_END = 0.2; /* of the budget, less what reading took */
static const double OF_GROUPS = 0.5;    /* of what the first bounds took: those of the best plan's groups */
static const double TO_WRITE = 0.4;     /* of what reading took: whoever has read a large graph writes a large plan */

void stw_runner_keep_for_end(stw_runner *r, double bounds_s) {
    const double ops = r->simulator->graph->op_count, read_s = fmax(r->watch->spent_s, 0.0);
    const bool groups = (r->settings.tasks & STW_TASK_FUSION) != 0;
    double seconds = TO_WRITE * read_s;
    if (bounds_s < 0.0) seconds += BOUND_S * ops; /* they are still to come */
    if (groups) seconds += bounds_s < 0.0 ? BOUND_OF_GROUPS_S * ops : OF_GROUPS * bounds_s;
    seconds = fmin(seconds, MOST_FOR_END * (r->settings.budget_s - read_s));
    r->end_s = seconds < QUICK_END_S ? 0.0 : seconds;
}

/* ---- bounds ---- */

/* A rule makes other groups for other devices. */
static bool groups_are_open(const stw_runner *r) {
    return (r->fusing != NULL || r->groups_wait) && r->settings.fusion != STW_FUSION_NONE;
}

/* That of the step, in seconds, for all plans of the tasks. 0: not known yet. */
static double lower_bound(const stw_runner *r, const stw_result *result) {
    return groups_are_open(r) ? result->bounds.fusion_s : result->bounds.plan_s;
}

double stw_runner_objective_bound(const stw_runner *r, const stw_result *result) {
    switch (r->settings.objective) {
        case STW_OBJECTIVE_MEMORY: return (double)result->bounds.peak_bytes;
        case STW_OBJECTIVE_THROUGHPUT: return groups_are_open(r) ? result->bounds.load_fusion_s : result->bounds.load_s;
        default: return lower_bound(r, result);
    }
}

/* Whatever is fused: parameters and buffers stay for the whole step, outputs are there at its end, on one device or another. */
static int64_t least_peak(const stw_simulator *s) {
    const stw_graph *graph = s->graph;
    int64_t held = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        const bool output = graph->kind[i] == STW_NODE_OP && graph->kept[i] && graph->updates[i] < 0;
        if (output || stw_node_is_resident(graph->kind[i])) held += graph->bytes[i];
    }
    return held / s->machine->device_count;
}

/* Makes the bound of the peak hold for all groups, when these are open. */
static void widen_bounds(const stw_runner *r, stw_bounds *bounds) {
    if (!groups_are_open(r) || !stw_simulator_may_fuse(r->simulator)) return;
    int64_t bytes = 0; /* stays 0 where the memory for it is missing */
    if (stw_bound_peak_of_groups(r->simulator, r->scratch[0], &bytes, NULL) != STW_OK) bytes = 0;
    bounds->peak_bytes = least_peak(r->simulator);
    if (bytes > bounds->peak_bytes) bounds->peak_bytes = bytes;
}

stw_status stw_runner_bound(stw_runner *r, stw_result *result, stw_error *error) {
    stw_plan *any;
    TRY(stw_plan_create(r->simulator->graph, r->simulator->machine, &any, error));
    stw_status status = r->from != NULL ? stw_plan_assign(any, r->from, error) : STW_OK; /* its groups may have to stay */
    if (status == STW_OK) status = stw_lower_bounds(r->simulator, any, &result->bounds, error);
    stw_plan_destroy(any);
    widen_bounds(r, &result->bounds);
    result->bounds.plan_s = lower_bound(r, result); /* whatever the groups of each method */
    if (groups_are_open(r)) result->bounds.load_s = result->bounds.load_fusion_s;
    r->progress.lower_bound_s = result->bounds.plan_s;
    return status;
}

bool stw_runner_meets_bound(const stw_runner *r, const stw_result *result) {
    if (result->best < 0) return false;
    return result->entry[result->best]->score.value <= stw_runner_objective_bound(r, result) * (1.0 + 1e-9);
}

static bool is_late_to_bound(const stw_runner *r, double seconds_per_op) {
    return stw_runner_is_late(r, seconds_per_op * r->simulator->graph->op_count);
}

stw_status stw_runner_find_bounds(stw_runner *r, stw_result *result, stw_error *error) {
    const stw_plan *plan = NULL;
    for (int32_t k = 0; k < result->count && plan == NULL; k++) plan = result->entry[k]->plan;
    if (result->bounds.plan_s > 0.0 || plan == NULL || is_late_to_bound(r, QUICK_BOUND_S)) return STW_OK;
    const double began_s = stw_runner_now_s(r);
    const stw_status status = stw_find_bounds(r->simulator, plan, !is_late_to_bound(r, BOUND_S), &result->bounds, error);
    if (status == STW_ERROR_MEMORY) return STW_OK; /* then 0 is the bound; the search needs none */
    TRY(status);
    widen_bounds(r, &result->bounds);
    stw_runner_keep_for_end(r, stw_runner_now_s(r) - began_s);
    r->progress.lower_bound_s = lower_bound(r, result);
    return STW_OK;
}

bool stw_runner_is_slow_to_bound(const stw_runner *r) {
    return stw_agenda_is_slow(r, BOUND_S * r->simulator->graph->op_count, SLOW_BOUND_SHARE) &&
           r->simulator->machine->device_count > 1;
}

stw_status stw_runner_bound_groups(stw_runner *r, stw_result *result, stw_error *error) {
    stw_bounds bounds = {0};
    if (r->fusing == NULL || result->best < 0 || result->bounds.plan_s <= 0.0) return STW_OK;
    if (!is_late_to_bound(r, QUICK_BOUND_OF_GROUPS_S))
        TRY(stw_find_bounds_of_groups(r->simulator, result->entry[result->best]->plan, !is_late_to_bound(r, BOUND_OF_GROUPS_S),
                                      &bounds, error));
    result->bounds.plan_s = fmax(bounds.plan_s, result->bounds.fusion_s); /* that of any groups holds for these too */
    result->bounds.load_s = fmax(bounds.load_s, result->bounds.load_fusion_s);
    return STW_OK;
}

/* ---- no plan fits ---- */

/* Bytes of parameters and buffers, and of the memory of all devices up to that. */
static void sum_memory(const stw_simulator *s, int64_t *resident, int64_t *memory) {
    *resident = *memory = 0;
    for (int32_t i = 0; i < s->graph->N; i++) *resident += stw_node_is_resident(s->graph->kind[i]) ? s->graph->bytes[i] : 0;
    for (int32_t d = 0; d < s->machine->device_count && *memory < *resident; d++) *memory += s->machine->device[d].memory_bytes;
}

static int64_t largest_memory(const stw_machine *machine) {
    int64_t most = 0;
    for (int32_t d = 0; d < machine->device_count; d++) {
        if (machine->device[d].memory_bytes > most) most = machine->device[d].memory_bytes;
    }
    return most;
}

/* An entry that has tried everything there is. */
static const stw_entry *find_proof(const stw_result *result) {
    for (int32_t k = 0; k < result->count; k++) {
        if (result->entry[k]->plan == NULL && result->entry[k]->outcome.proved) return result->entry[k];
    }
    return NULL;
}

/* The words for it; empty: nothing is proved. */
static void write_proof(const stw_runner *r, const stw_result *result, char *out, size_t size) {
    const stw_graph *graph = r->simulator->graph;
    int64_t resident, memory;
    const int64_t most = largest_memory(r->simulator->machine);
    const stw_entry *proof = find_proof(result);
    out[0] = '\0';
    sum_memory(r->simulator, &resident, &memory);
    if (resident > memory) {
        snprintf(out, size,
                 "there is no valid plan: parameters and buffers take %" PRId64 " bytes, all devices together hold %" PRId64
                 ": %" PRId64 " bytes are missing",
                 stw_graph_size(graph, resident), stw_graph_size(graph, memory), stw_graph_size(graph, resident - memory));
    } else if (result->bounds.peak_bytes > most) {
        snprintf(out, size,
                 "there is no valid plan: whatever the plan, some device holds %" PRId64
                 " bytes at once, and the largest has %" PRId64,
                 stw_graph_size(graph, result->bounds.peak_bytes), stw_graph_size(graph, most));
    } else if (proof != NULL) {
        snprintf(out, size, "there is no valid plan: %s: %.200s", proof->candidate.method, proof->reason);
    }
}

bool stw_runner_proves_none(const stw_runner *r, const stw_result *result) {
    char words[320];
    if (result->best >= 0) return false;
    write_proof(r, result, words, sizeof words);
    return words[0] != '\0';
}

void stw_runner_say_what_lacks(const stw_runner *r, stw_result *result) {
    const stw_entry *nearest = NULL;
    char words[320];
    write_proof(r, result, words, sizeof words);
    for (int32_t k = 0; k < result->count; k++) {
        const stw_entry *entry = result->entry[k];
        if (entry->plan == NULL || entry->score.reason != STW_INVALID_MEMORY) continue;
        if (nearest == NULL || stw_score_is_better(&entry->score, &nearest->score)) nearest = entry;
    }
    if (nearest == NULL) nearest = result->entry[0];
    const char *found = words[0] != '\0' ? words : "no valid plan was found within the budget";
    if (nearest->plan != NULL) {
        snprintf(result->lacking, sizeof result->lacking, "%s; the nearest plan (%s): %.300s", found, nearest->candidate.method,
                 nearest->reason);
    } else {
        snprintf(result->lacking, sizeof result->lacking, "%s; no method made a plan (%s: %.300s)", found,
                 nearest->candidate.method, nearest->reason);
    }
}
