/* Writes the plan file: its head with the evaluation, then one entry per node (docs/formats/plan.md). */
#include <math.h>

#include "base/file.h"
#include "base/json.h"
#include "sim/sim.h"

static void write_key_double(stw_json_writer *w, const char *key, double value) {
    stw_json_write_key(w, key);
    stw_json_write_double(w, value);
}

static bool is_fused(const stw_plan *plan) {
    for (int32_t k = 0; k < plan->graph->op_count; k++) {
        const int32_t op = plan->graph->topological[k];
        if (plan->group[op] != op) return true;
    }
    return false;
}

static void write_names(stw_json_writer *w, const stw_simulator *s, const stw_plan *plan) {
    stw_json_write_key(w, "format");
    stw_json_write_string(w, STW_STR("plan"));
    stw_json_write_key(w, "version");
    stw_json_write_int64(w, 1);
    stw_json_write_key(w, "graph");
    stw_json_begin_object(w);
    stw_json_write_key(w, "name");
    stw_json_write_string(w, s->graph->name);
    stw_json_write_key(w, "fingerprint");
    stw_json_write_string(w, stw_str_of(s->graph->fingerprint));
    stw_json_end_object(w);
    stw_json_write_key(w, "machine");
    stw_machine_write(s->machine, w);
    stw_json_write_key(w, "tasks");
    stw_json_begin_array(w);
    stw_json_write_string(w, STW_STR("placement"));
    stw_json_write_string(w, STW_STR("schedule"));
    if (is_fused(plan)) stw_json_write_string(w, STW_STR("fusion"));
    stw_json_end_array(w);
    stw_json_write_key(w, "method");
    stw_json_write_string(w, plan->method);
    stw_json_write_key(w, "seed");
    stw_json_write_int64(w, plan->seed);
}

static void write_numbers(stw_json_writer *w, const stw_simulator *s, const stw_plan *plan, const stw_evaluation *result,
                          const stw_bounds *bounds) {
    const bool has_step = result->peak_bytes != NULL;
    stw_json_write_key(w, "objective");
    stw_json_write_string(w, STW_STR("time"));
    write_key_double(w, "value", has_step ? result->step_s : HUGE_VAL);
    write_key_double(w, "step_s", has_step ? result->step_s : HUGE_VAL);
    stw_json_write_key(w, "valid");
    stw_json_write_bool(w, result->reason == STW_VALID);
    write_key_double(w, "lower_bound_s", bounds->plan_s);
    write_key_double(w, "lower_bound_fusion_s", bounds->fusion_s);
    write_key_double(w, "measured_share", stw_measured_share(s, plan));
    stw_json_write_key(w, "peak_bytes");
    stw_json_begin_array(w);
    for (int32_t d = 0; has_step && d < s->machine->device_count; d++) stw_json_write_int64(w, result->peak_bytes[d]);
    stw_json_end_array(w);
    stw_json_write_key(w, "candidates");
    stw_json_begin_array(w);
    stw_json_end_array(w);
}

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

static void write_decisions(stw_json_writer *w, const stw_plan *plan) {
    const stw_graph *graph = plan->graph;
    stw_json_newline(w);
    stw_json_write_key(w, "device");
    stw_json_begin_array(w);
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t root = graph->root[i];
        stw_json_write_int64(w, stw_node_is_everywhere(graph->kind[root]) ? 0 : plan->device[root]);
    }
    stw_json_end_array(w);
    stw_json_newline(w);
    stw_json_write_key(w, "priority");
    stw_json_begin_array(w);
    for (int32_t i = 0; i < graph->N; i++) {
        stw_json_write_double(w, isfinite(plan->priority[i]) ? plan->priority[i] : 0.0); /* of nodes where it is ignored */
    }
    stw_json_end_array(w);
    stw_json_newline(w);
    stw_json_write_key(w, "group");
    stw_json_begin_array(w);
    for (int32_t i = 0; i < graph->N; i++) stw_json_write_int64(w, graph->kind[i] == STW_NODE_OP ? plan->group[i] : -1);
    stw_json_end_array(w);
    write_order(w, plan);
}

static stw_status evaluate(const stw_simulator *s, const stw_plan *plan, stw_workspace *workspace, stw_evaluation *result,
                           stw_bounds *bounds, stw_error *error) {
    TRY(stw_simulate(s, plan, workspace, result, error));
    return stw_lower_bounds(s, plan, bounds, error);
}

stw_status stw_plan_write(const stw_simulator *simulator, const stw_plan *plan, const char *path, stw_error *error) {
    stw_output output;
    stw_workspace *workspace;
    stw_evaluation result;
    stw_bounds bounds;
    stw_json_writer writer;
    TRY(stw_workspace_create(simulator, &workspace, error));
    stw_status status = evaluate(simulator, plan, workspace, &result, &bounds, error);
    if (status == STW_OK) status = stw_output_open(&output, path, error);
    if (status == STW_OK) {
        stw_json_writer_init(&writer, output.file);
        stw_json_begin_object(&writer);
        write_names(&writer, simulator, plan);
        write_numbers(&writer, simulator, plan, &result, &bounds);
        write_decisions(&writer, plan);
        stw_json_end_object(&writer);
        fputc('\n', output.file);
        status = stw_output_commit(&output, error);
    }
    stw_workspace_destroy(workspace);
    return status;
}
