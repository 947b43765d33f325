/* What a report says once: names, devices, what each run is worth and made of, candidates. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <math.h>
#include <stdlib.h>

#include "base/index.h"
#include "driver/runner.h"
#include "export/plan_file.h"
#include "report/report.h"

/* ---- nodes ---- */

static stw_status number_op_names(const stw_graph *graph, stw_arena *arena, int32_t *op, stw_str **name, int32_t *count,
                                  stw_error *error) {
    stw_names names;
    TRY(stw_names_create(arena, 256, &names, error));
    STW_TRY_NEW(arena, *name, graph->N, error);
    *count = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        int32_t *number;
        TRY(stw_names_enter(&names, 0, graph->op_name[i], &number, error));
        if (*number < 0) {
            *number = (*count)++;
            (*name)[*number] = graph->op_name[i];
        }
        op[i] = *number;
    }
    return STW_OK;
}

/* Who reads what, each pair once: start (N + 1) into producers. */
static stw_status add_reads(const stw_graph *graph, stw_payload *payload, stw_error *error) {
    int32_t *start, *producer;
    int64_t count = 0;
    if (graph->read_start[graph->N] > INT32_MAX) return stw_fail(error, STW_ERROR_INPUT, "the graph has too many edges");
    STW_TRY_NEW(payload->arena, start, graph->N + 1, error);
    STW_TRY_NEW(payload->arena, producer, graph->read_start[graph->N], error);
    for (int32_t i = 0; i < graph->N; i++) {
        start[i] = (int32_t)count;
        for (int64_t k = graph->read_start[i]; k < graph->read_start[i + 1]; k++) {
            if (count > start[i] && producer[count - 1] == graph->read[k].node) continue; /* through another view */
            producer[count++] = graph->read[k].node;
        }
    }
    start[graph->N] = (int32_t)count;
    TRY(stw_payload_add(payload, -1, "read_start", STW_COLUMN_I32, start, graph->N + 1, error));
    return stw_payload_add(payload, -1, "read", STW_COLUMN_I32, producer, count, error);
}

stw_status stw_report_nodes_add(const stw_report_parts *parts, stw_payload *payload, stw_str **op_name, int32_t *op_count,
                                stw_error *error) {
    const stw_graph *graph = parts->simulator->graph;
    int32_t *op;
    STW_TRY_NEW(payload->arena, op, graph->N, error);
    TRY(number_op_names(graph, payload->arena, op, op_name, op_count, error));
    TRY(stw_payload_add(payload, -1, "node_kind", STW_COLUMN_U8, graph->kind, graph->N, error));
    TRY(stw_payload_add(payload, -1, "node_class", STW_COLUMN_U8, graph->op_class, graph->N, error));
    TRY(stw_payload_add(payload, -1, "node_op", STW_COLUMN_I32, op, graph->N, error));
    TRY(stw_payload_add(payload, -1, "node_root", STW_COLUMN_I32, graph->root, graph->N, error));
    TRY(stw_payload_add(payload, -1, "node_module", STW_COLUMN_I32, parts->modules.of, graph->N, error));
    TRY(stw_payload_add_int64(payload, -1, "node_bytes", graph->bytes, graph->N, error));
    TRY(stw_payload_add_int64(payload, -1, "node_flops", graph->flops, graph->N, error));
    return add_reads(graph, payload, error);
}

/* [what the path has more than the parent's: "enc", ".0"; parent]: whole paths would take the square of a name's length. */
static void write_modules(const stw_report_tree *tree, stw_json_writer *w) {
    stw_json_write_key(w, "modules");
    stw_json_begin_array(w);
    for (int32_t k = 0; k < tree->count; k++) {
        const stw_str path = tree->path[k];
        const int64_t from = tree->parent[k] >= 0 ? tree->path[tree->parent[k]].length : 0;
        stw_json_begin_array(w);
        stw_json_write_string(w, (stw_str){path.p + from, path.length - from});
        stw_json_write_int64(w, tree->parent[k]);
        stw_json_end_array(w);
    }
    stw_json_end_array(w);
}

static void write_texts(const char *key, const stw_str *text, int64_t count, stw_json_writer *w) {
    stw_json_write_key(w, key);
    stw_json_begin_array(w);
    for (int64_t k = 0; k < count; k++) stw_json_write_string(w, text[k]);
    stw_json_end_array(w);
}

static void write_names(const stw_report_parts *parts, const stw_str *op_name, int32_t op_count, stw_json_writer *w) {
    const stw_graph *graph = parts->simulator->graph;
    stw_json_newline(w);
    write_texts("names", graph->node_name, graph->N, w);
    stw_json_newline(w);
    stw_json_write_key(w, "labels"); /* [node, label] */
    stw_json_begin_array(w);
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->label[i].length == 0) continue;
        stw_json_begin_array(w);
        stw_json_write_int64(w, i);
        stw_json_write_string(w, graph->label[i]);
        stw_json_end_array(w);
    }
    stw_json_end_array(w);
    write_texts("op_names", op_name, op_count, w);
    stw_json_write_key(w, "classes");
    stw_json_begin_array(w);
    for (int32_t k = 0; k < STW_CLASS_COUNT; k++) stw_json_write_string(w, stw_str_of(stw_op_class_name((stw_op_class)k)));
    stw_json_end_array(w);
    write_modules(&parts->modules, w);
}

/* ---- runs ---- */

static void write_machine(const stw_machine *machine, stw_json_writer *w) {
    stw_json_write_key(w, "machine");
    stw_json_begin_object(w);
    stw_json_field_text(w, "name", machine->name);
    stw_json_field_bool(w, "charges", machine->charges);
    stw_json_write_key(w, "devices");
    stw_json_begin_array(w);
    for (int32_t d = 0; d < machine->device_count; d++) {
        stw_json_begin_object(w);
        stw_json_field_text(w, "name", machine->device[d].name);
        stw_json_field_text(w, "kind", machine->device[d].kind);
        const bool limited = machine->device[d].memory_bytes < STW_GRAPH_MAX_BYTES; /* no graph is larger */
        stw_json_write_key(w, "memory_bytes");
        if (limited) {
            stw_json_write_int64(w, machine->device[d].memory_bytes);
        } else {
            stw_json_write_null(w);
        }
        stw_json_end_object(w);
    }
    stw_json_end_array(w);
    stw_json_end_object(w);
}

static void write_devices(const stw_report_run *run, stw_json_writer *w) {
    stw_json_write_key(w, "devices");
    stw_json_begin_array(w);
    for (int32_t d = 0; d < run->plan->machine->device_count; d++) {
        const stw_device_time *time = &run->explanation->device[d];
        stw_json_begin_object(w);
        stw_json_field_int64(w, "busy_ps", time->busy_ps);
        stw_json_field_int64(w, "charged_ps", time->charged_ps);
        stw_json_field_int64(w, "idle_ps", time->idle_ps);
        stw_json_field_int64(w, "peak_bytes", run->result.peak_bytes[d]);
        stw_json_end_object(w);
    }
    stw_json_end_array(w);
}

static void write_idle(const stw_explanation *x, stw_json_writer *w) {
    static const char *const kinds[] = {
        [STW_IDLE_OPS] = "ops", [STW_IDLE_CHANNEL] = "channel", [STW_IDLE_TRANSFER] = "transfer", [STW_IDLE_DONE] = "done"};
    stw_json_write_key(w, "idle");
    stw_json_begin_array(w);
    for (int32_t k = 0; k < x->idle_count; k++) {
        const stw_idle *idle = &x->idle[k];
        stw_json_begin_object(w);
        stw_json_field_int64(w, "device", idle->device);
        stw_json_field_text(w, "kind", stw_str_of(kinds[idle->kind]));
        stw_json_field_int64(w, "from", idle->from);
        stw_json_field_int64(w, "to", idle->to);
        stw_json_field_int64(w, "ps", idle->ps);
        stw_json_field_int64(w, "node", idle->node);
        stw_json_end_object(w);
    }
    stw_json_end_array(w);
}

/* The dearest of each sort. */
static void write_costs(const stw_explanation *x, stw_json_writer *w) {
    enum { MOST = 10 };
    int32_t seen[3] = {0};
    stw_json_write_key(w, "costs");
    stw_json_begin_array(w);
    for (int32_t k = 0; k < x->cost_count; k++) {
        const stw_path_cost *cost = &x->cost[k];
        if (seen[cost->sort]++ >= MOST) continue;
        stw_json_begin_object(w);
        stw_json_field_int64(w, "sort", cost->sort);
        stw_json_field_int64(w, "node", cost->node);
        stw_json_field_int64(w, "members", cost->members);
        stw_json_field_int64(w, "from", cost->from);
        stw_json_field_int64(w, "to", cost->to);
        stw_json_field_int64(w, "bytes", cost->bytes);
        stw_json_field_int64(w, "path_ps", cost->path_ps);
        stw_json_field_int64(w, "delay_ps", cost->delay_ps);
        stw_json_end_object(w);
    }
    stw_json_end_array(w);
}

static void write_run(const stw_report_run *run, stw_json_writer *w) {
    const stw_explanation *x = run->explanation;
    stw_json_newline(w);
    stw_json_begin_object(w);
    stw_json_field_text(w, "title", stw_str_of(run->title));
    stw_json_field_text(w, "method", run->plan->method);
    stw_json_field_int64(w, "step_ps", run->result.step_ps);
    stw_json_field_bool(w, "valid", run->result.reason == STW_VALID);
    stw_json_field_text(w, "reason", run->result.reason == STW_VALID ? (stw_str){0} : stw_str_of(run->result.message));
    stw_json_write_key(w, "parts");
    stw_json_begin_object(w);
    for (int k = 0; k < STW_PATH_KINDS; k++) stw_json_field_int64(w, stw_path_kind_names[k], x->parts.ps[k]);
    stw_json_end_object(w);
    write_devices(run, w);
    write_idle(x, w);
    write_costs(x, w);
    stw_json_end_object(w);
}

/* ---- candidates and what was measured ---- */

static void write_candidates(const stw_report_parts *parts, stw_json_writer *w) {
    const char *searched = parts->result != NULL ? stw_objective_name[parts->result->settings.objective] : "time";
    stw_json_newline(w);
    if (parts->result == NULL && parts->objective.length > 0) {
        stw_json_field_text(w, "objective", parts->objective);
    } else {
        stw_json_field_text(w, "objective", stw_str_of(searched));
    }
    stw_json_write_key(w, "candidates");
    if (parts->result == NULL && parts->candidates.length > 0) { /* JSON as it was read */
        fwrite(parts->candidates.p, 1, (size_t)parts->candidates.length, w->file);
        w->after_key = false;
        return;
    }
    stw_json_begin_array(w);
    stw_candidate candidate;
    for (int32_t k = 0; parts->result != NULL && stw_result_candidate(parts->result, k, &candidate); k++)
        stw_candidate_write(w, &candidate, parts->simulator->machine->device_count, true);
    stw_json_end_array(w);
}

static void write_measured(const stw_measured *measured, stw_json_writer *w) {
    stw_json_newline(w);
    stw_json_write_key(w, "measured");
    if (measured->path.length == 0) {
        stw_json_write_null(w);
        return;
    }
    stw_json_begin_object(w);
    stw_json_field_text(w, "path", measured->path);
    stw_json_field_int64(w, "left_out", measured->left_out);
    stw_json_write_key(w, "tracks");
    stw_json_begin_array(w);
    for (int64_t k = 0; k < measured->track_count; k++) {
        stw_json_begin_object(w);
        stw_json_field_text(w, "process", measured->track[k].process);
        stw_json_field_text(w, "name", measured->track[k].name);
        stw_json_field_int64(w, "device", measured->track[k].device);
        stw_json_end_object(w);
    }
    stw_json_end_array(w);
    write_texts("names", measured->name, measured->name_count, w);
    stw_json_end_object(w);
}

static void write_all(const stw_report_parts *parts, const stw_str *op_name, int32_t op_count, const stw_payload *payload,
                      stw_json_writer *w) {
    const stw_graph *graph = parts->simulator->graph;
    stw_json_begin_object(w);
    stw_json_field_text(w, "format", STW_STR("report"));
    stw_json_field_int64(w, "version", 1);
    stw_json_field_text(w, "stowage", STW_STR(STW_VERSION));
    stw_json_write_key(w, "graph");
    stw_json_begin_object(w);
    stw_json_field_text(w, "name", graph->name);
    stw_json_field_text(w, "fingerprint", stw_str_of(graph->fingerprint));
    stw_json_field_int64(w, "ops", graph->op_count);
    stw_json_field_double(w, "size_scale", graph->size_scale > 0.0 ? graph->size_scale : 1.0);
    stw_json_field_int64(w, "loss", graph->loss);
    stw_json_end_object(w);
    write_machine(parts->simulator->machine, w);
    stw_json_field_text(w, "note", stw_str_of(parts->note));
    stw_json_field_double(w, "lower_bound_s", parts->bounds.plan_s);
    stw_json_write_key(w, "warnings");
    stw_json_begin_array(w);
    const char *warning;
    for (int32_t k = 0; (warning = stw_costs_warning(parts->simulator->costs, k)) != NULL; k++)
        stw_json_write_string(w, stw_str_of(warning));
    stw_json_end_array(w);
    stw_json_write_key(w, "runs");
    stw_json_begin_array(w);
    for (int32_t k = 0; k < parts->run_count; k++) write_run(&parts->run[k], w);
    stw_json_end_array(w);
    write_candidates(parts, w);
    write_measured(&parts->measured, w);
    stw_payload_describe(payload, w);
    write_names(parts, op_name, op_count, w);
    stw_json_end_object(w);
}

stw_status stw_report_head(const stw_report_parts *parts, const stw_str *op_name, int32_t op_count, const stw_payload *payload,
                           stw_str *out, stw_error *error) {
    char *bytes = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&bytes, &size);
    if (file == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    stw_json_writer writer;
    stw_json_writer_init(&writer, file);
    write_all(parts, op_name, op_count, payload, &writer);
    const bool lost = ferror(file) != 0;
    stw_status status = STW_OK;
    if (fclose(file) != 0 || lost) status = stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    if (status == STW_OK) {
        *out = stw_str_copy(payload->arena, (stw_str){bytes, (int64_t)size});
        if (out->p == NULL) status = stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    }
    free(bytes);
    return status;
}
