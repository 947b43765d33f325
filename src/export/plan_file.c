/* Writes the plan file: its head with the evaluation, then one entry per node (docs/formats/plan.md). */
#include "export/plan_file.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "plan/membership.h"

/* ---- the head ---- */

/* Group numbers are free, so a plan is fused when it has fewer groups than ops. */
static bool is_fused(const stw_plan *plan, const stw_membership *groups) {
    return plan != NULL && groups->T != plan->graph->op_count;
}

static void write_names(stw_json_writer *w, const stw_plan_head *head, const stw_membership *groups) {
    const stw_graph *graph = head->simulator->graph;
    stw_json_field_text(w, "format", STW_STR("plan"));
    stw_json_field_int64(w, "version", 1);
    stw_json_write_key(w, "graph");
    stw_json_begin_object(w);
    stw_json_field_text(w, "name", graph->name);
    stw_json_field_text(w, "fingerprint", stw_str_of(graph->fingerprint));
    stw_json_end_object(w);
    stw_json_write_key(w, "machine");
    stw_machine_write(head->simulator->machine, w);
    stw_json_write_key(w, "tasks");
    stw_tasks_write(head->tasks | (is_fused(head->plan, groups) ? STW_TASK_FUSION : 0u), w);
    stw_json_field_text(w, "method", head->plan == NULL ? (stw_str){0} : head->plan->method);
    stw_json_field_int64(w, "seed", head->seed);
}

static void write_peaks(stw_json_writer *w, const int64_t *peak_bytes, int32_t device_count) {
    stw_json_write_key(w, "peak_bytes");
    stw_json_begin_array(w);
    for (int32_t d = 0; peak_bytes != NULL && d < device_count; d++) stw_json_write_int64(w, peak_bytes[d]);
    stw_json_end_array(w);
}

/* When the method had a plan that was better than all before, after how many evaluations, and what it is worth. */
static void write_found(stw_json_writer *w, const stw_candidate *candidate) {
    stw_json_begin_array(w);
    for (int32_t k = 0; k < candidate->found_count; k++) {
        stw_json_begin_array(w);
        stw_json_write_double(w, candidate->found[k].seconds);
        stw_json_write_int64(w, candidate->found[k].evaluations);
        stw_json_write_double(w, candidate->found[k].value);
        stw_json_end_array(w);
    }
    stw_json_end_array(w);
}

void stw_candidate_write(stw_json_writer *w, const stw_candidate *candidate, int32_t device_count, bool timed) {
    stw_json_begin_object(w);
    stw_json_field_text(w, "method", stw_str_of(candidate->method));
    stw_json_field_double(w, "step_s", candidate->step_s);
    stw_json_field_double(w, "value", candidate->value);
    stw_json_field_bool(w, "valid", candidate->valid);
    stw_json_field_text(w, "reason", candidate->reason == NULL ? (stw_str){0} : stw_str_of(candidate->reason));
    write_peaks(w, candidate->peak_bytes, device_count);
    if (timed) stw_json_field_double(w, "search_s", candidate->search_s);
    stw_json_field_int64(w, "evaluations", candidate->evaluations);
    stw_json_field_int64(w, "seed", candidate->seed);
    if (timed) {
        stw_json_field_text(w, "note", stw_str_of(candidate->note));
        stw_json_write_key(w, "found");
        write_found(w, candidate);
    }
    stw_json_end_object(w);
}

/* Whether the plan stays ahead of the default when costs are off, and by how much they were. */
static void write_noise(stw_json_writer *w, const stw_noise *noise) {
    stw_json_write_key(w, "noise");
    if (noise == NULL || noise->draws == 0) {
        stw_json_write_null(w);
        return;
    }
    stw_json_begin_object(w);
    stw_json_field_int64(w, "draws", noise->draws);
    stw_json_field_int64(w, "ahead", noise->ahead);
    stw_json_field_double(w, "measured_error", noise->measured_error);
    stw_json_field_double(w, "carried_error", noise->carried_error);
    stw_json_field_double(w, "modelled_error", noise->modelled_error);
    stw_json_field_double(w, "fused_error", noise->fused_error);
    stw_json_end_object(w);
}

static void write_warnings(stw_json_writer *w, const stw_costs *costs) {
    stw_json_write_key(w, "warnings");
    stw_json_begin_array(w);
    for (int32_t k = 0; k < costs->warning_count; k++) stw_json_write_string(w, costs->warning[k]);
    stw_json_end_array(w);
}

static void write_numbers(stw_json_writer *w, const stw_plan_head *head) {
    const int32_t D = head->simulator->machine->device_count;
    stw_json_field_text(w, "objective", stw_str_of(stw_objective_name[head->objective]));
    stw_json_field_double(w, "value", head->outcome.value);
    stw_json_field_double(w, "step_s", head->outcome.step_s);
    stw_json_field_bool(w, "valid", head->outcome.valid);
    stw_json_field_double(w, "lower_bound_s", head->bounds.plan_s);
    stw_json_field_double(w, "lower_bound_fusion_s", head->bounds.fusion_s);
    stw_json_field_double(w, "lower_bound_load_s", head->bounds.load_s);
    stw_json_write_key(w, "lower_bound_bytes");
    stw_json_write_int64(w, head->bounds.peak_bytes);
    stw_json_field_bool(w, "optimal", head->optimal);
    stw_json_field_text(w, "limits", head->limits == NULL ? (stw_str){0} : stw_str_of(head->limits));
    stw_json_field_double(w, "measured_share", head->measured_share);
    write_peaks(w, head->outcome.peak_bytes, D);
    write_noise(w, head->noise);
    write_warnings(w, head->simulator->costs);
    stw_json_write_key(w, "candidates");
    stw_json_begin_array(w);
    for (int32_t k = 0; k < head->candidate_count; k++) {
        stw_json_newline(w);
        stw_candidate_write(w, &head->candidate[k], D, false);
    }
    stw_json_end_array(w);
}

/* What differs between two runs that are equal otherwise stands by itself, and not in files. */
static void write_timings(stw_json_writer *w, const stw_plan_head *head) {
    stw_json_newline(w);
    stw_json_write_key(w, "timings");
    stw_json_begin_object(w);
    stw_json_write_key(w, "search_s");
    stw_json_begin_array(w);
    for (int32_t k = 0; k < head->candidate_count; k++) stw_json_write_double(w, head->candidate[k].search_s);
    stw_json_end_array(w);
    stw_json_write_key(w, "found");
    stw_json_begin_array(w);
    for (int32_t k = 0; k < head->candidate_count; k++) write_found(w, &head->candidate[k]);
    stw_json_end_array(w);
    stw_json_end_object(w);
}

/* ---- the lists per node ---- */

static void write_order(stw_json_writer *w, const stw_plan *plan) {
    bool any = false;
    for (int32_t d = 0; d < plan->machine->device_count; d++) any |= plan->order[d] != NULL;
    if (!any) return;
    stw_json_newline(w);
    stw_json_write_key(w, "order");
    stw_json_begin_array(w);
    for (int32_t d = 0; d < plan->machine->device_count; d++) {
        if (plan->order[d] == NULL) {
            stw_json_write_null(w);
            continue;
        }
        stw_json_begin_array(w);
        for (int32_t k = 0; k < plan->order_count[d]; k++) stw_json_write_int64(w, plan->order[d][k]);
        stw_json_end_array(w);
    }
    stw_json_end_array(w);
}

static void write_devices(stw_json_writer *w, const stw_plan *plan) {
    const stw_graph *graph = plan->graph;
    stw_json_newline(w);
    stw_json_write_key(w, "device");
    stw_json_begin_array(w);
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t root = graph->root[i];
        stw_json_write_int64(w, stw_node_is_everywhere(graph->kind[root]) ? 0 : plan->device[root]);
    }
    stw_json_end_array(w);
}

static void write_priorities(stw_json_writer *w, const stw_plan *plan) {
    stw_json_newline(w);
    stw_json_write_key(w, "priority");
    stw_json_begin_array(w);
    for (int32_t i = 0; i < plan->graph->N; i++) {
        stw_json_write_double(w, isfinite(plan->priority[i]) ? plan->priority[i] : 0.0); /* of nodes where it is ignored */
    }
    stw_json_end_array(w);
}

/* A group is written as its smallest op, whatever number the plan gives it. */
static void write_groups(stw_json_writer *w, const stw_plan *plan, const stw_membership *groups) {
    stw_json_newline(w);
    stw_json_write_key(w, "group");
    stw_json_begin_array(w);
    for (int32_t i = 0; i < plan->graph->N; i++) {
        const bool written = plan->graph->kind[i] == STW_NODE_OP && plan->group[i] >= 0;
        stw_json_write_int64(w, written ? groups->task_node[groups->task_of[i]] : -1);
    }
    stw_json_end_array(w);
}

/* ---- the file ---- */

static void write_file(FILE *file, const stw_plan_head *head, const stw_membership *groups, bool head_only) {
    stw_json_writer w;
    stw_json_writer_init(&w, file);
    stw_json_begin_object(&w);
    write_names(&w, head, groups);
    write_numbers(&w, head);
    if (head_only) {
        write_timings(&w, head);
    } else {
        write_devices(&w, head->plan);
        write_priorities(&w, head->plan);
        write_groups(&w, head->plan, groups);
        write_order(&w, head->plan);
    }
    stw_json_end_object(&w);
    fputc('\n', file);
}

static stw_status write_to(const stw_plan_head *head, const char *path, bool head_only, stw_arena *arena, stw_error *error) {
    stw_membership groups = {0};
    stw_output output;
    const stw_plan *plan = head->plan;
    if (plan != NULL) TRY(stw_membership_number(plan->graph, plan->group, arena, &groups, error));
    TRY(stw_output_open(&output, path, error));
    write_file(output.file, head, &groups, head_only);
    return stw_output_commit(&output, error);
}

stw_status stw_plan_head_write(const stw_plan_head *head, const char *path, bool head_only, stw_error *error) {
    if (head->plan == NULL && !head_only) return stw_fail(error, STW_ERROR_NO_PLAN, "there is no plan to write");
    stw_arena arena;
    TRY(stw_arena_create(&arena, error));
    const stw_status status = write_to(head, path, head_only, &arena, error);
    stw_arena_destroy(&arena);
    return status;
}

/* ---- a plan of which nothing else is known ---- */

static stw_status write_evaluated(const stw_simulator *s, const stw_plan *plan, const char *path, stw_workspace *workspace,
                                  stw_error *error) {
    stw_evaluation result;
    TRY(stw_simulate(s, plan, workspace, &result, error));
    const double step_s = result.peak_bytes != NULL ? result.step_s : NAN;
    stw_plan_head head = {
        .simulator = s,
        .plan = plan,
        .tasks = STW_TASK_PLACEMENT | STW_TASK_SCHEDULE,
        .seed = plan->seed,
        .objective = STW_OBJECTIVE_TIME,
        .outcome = {.value = step_s, .step_s = step_s, .valid = result.reason == STW_VALID, .peak_bytes = result.peak_bytes},
        .measured_share = stw_measured_share(s, plan)};
    TRY(stw_lower_bounds(s, plan, &head.bounds, error));
    return stw_plan_head_write(&head, path, false, error);
}

stw_status stw_plan_write(const stw_simulator *simulator, const stw_plan *plan, const char *path, stw_error *error) {
    STW_NEED(simulator);
    STW_NEED(plan);
    STW_NEED(path);
    stw_workspace *workspace;
    TRY(stw_workspace_create(simulator, &workspace, error));
    const stw_status status = write_evaluated(simulator, plan, path, workspace, error);
    stw_workspace_destroy(workspace);
    return status;
}
