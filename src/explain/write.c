/* An explanation as JSON: lists of flat rows, so that each suits a table. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "explain/explain.h"

const char *const stw_path_kind_names[STW_PATH_KINDS] = {"compute", "charge", "transfer", "device", "channel", "order"};
static const char *const idle_names[] = {"ops", "channel", "transfer", "done"};

typedef struct {
    const stw_explanation *x;
    stw_json_writer json;
} output;

/* ---- fields ---- */

static void field_node(output *o, const char *id_key, const char *name_key, int32_t node) {
    stw_json_write_key(&o->json, id_key);
    if (node < 0)
        stw_json_write_null(&o->json);
    else
        stw_json_write_int64(&o->json, node);
    stw_json_field_text(&o->json, name_key, node < 0 ? (stw_str){0} : o->x->simulator->graph->node_name[node]);
}

static void field_device(output *o, const char *key, int32_t device) {
    stw_json_field_text(&o->json, key, device < 0 ? (stw_str){0} : o->x->simulator->machine->device[device].name);
}

/* `name`: goes in front of the keys, or "". */
static void field_trial(output *o, const char *name, const stw_attempt *trial) {
    char key[40];
    const bool has_step = stw_has_step(trial) && trial->step_ps > 0, found = trial->tried && trial->reason == STW_VALID;
    snprintf(key, sizeof key, "%svalid", name);
    stw_json_field_bool(&o->json, key, found);
    snprintf(key, sizeof key, "%sreason", name);
    stw_json_field_text(&o->json, key, trial->tried && !found ? stw_str_of(trial->message) : (stw_str){0});
    snprintf(key, sizeof key, "%sstep_ps", name);
    stw_json_write_key(&o->json, key);
    if (has_step || found)
        stw_json_write_int64(&o->json, trial->step_ps);
    else
        stw_json_write_null(&o->json);
    snprintf(key, sizeof key, "%speak_bytes", name);
    stw_json_write_key(&o->json, key);
    if (has_step || found)
        stw_json_write_int64(&o->json, trial->peak_bytes);
    else
        stw_json_write_null(&o->json);
}

static void begin_list(output *o, const char *key) {
    stw_json_newline(&o->json);
    stw_json_write_key(&o->json, key);
    stw_json_begin_array(&o->json);
}

static void begin_row(output *o) {
    stw_json_newline(&o->json);
    stw_json_begin_object(&o->json);
}

/* ---- the step ---- */

static void write_parts(output *o) {
    const stw_step_parts *parts = &o->x->parts;
    stw_json_field_int64(&o->json, "step_ps", parts->step_ps);
    stw_json_newline(&o->json);
    stw_json_write_key(&o->json, "parts");
    stw_json_begin_object(&o->json);
    for (int k = 0; k < STW_PATH_KINDS; k++) stw_json_field_int64(&o->json, stw_path_kind_names[k], parts->ps[k]);
    stw_json_end_object(&o->json);
}

static void write_path(output *o) {
    begin_list(o, "path");
    for (int64_t k = 0; k < o->x->path_count; k++) {
        const stw_path_part *part = &o->x->path[k];
        begin_row(o);
        stw_json_field_string(&o->json, "kind", stw_str_of(stw_path_kind_names[part->kind]));
        field_node(o, "node", "name", part->node);
        field_node(o, "waiting", "waiting_name", part->waiting);
        field_device(o, "from", part->from);
        field_device(o, "to", part->to);
        stw_json_field_int64(&o->json, "start_ps", part->start_ps);
        stw_json_field_int64(&o->json, "end_ps", part->end_ps);
        stw_json_end_object(&o->json);
    }
    stw_json_end_array(&o->json);
}

static void write_costs(output *o, const char *key, stw_path_sort sort) {
    begin_list(o, key);
    for (int32_t k = 0; k < o->x->cost_count; k++) {
        const stw_path_cost *cost = &o->x->cost[k];
        if (cost->sort != sort) continue;
        begin_row(o);
        field_node(o, "node", "name", cost->node);
        if (sort == STW_SORT_TRANSFER) {
            field_device(o, "from", cost->from);
            field_device(o, "to", cost->to);
            stw_json_field_int64(&o->json, "bytes", cost->bytes);
        } else {
            field_device(o, "device", cost->from);
            stw_json_field_int64(&o->json, "members", cost->members);
        }
        stw_json_field_int64(&o->json, "path_ps", cost->path_ps);
        stw_json_field_int64(&o->json, "delay_ps", cost->delay_ps);
        stw_json_end_object(&o->json);
    }
    stw_json_end_array(&o->json);
}

static void write_devices(output *o) {
    const stw_machine *machine = o->x->simulator->machine;
    begin_list(o, "devices");
    for (int32_t d = 0; d < machine->device_count; d++) {
        const stw_device_time *time = &o->x->device[d];
        begin_row(o);
        field_device(o, "device", d);
        stw_json_field_int64(&o->json, "busy_ps", time->busy_ps);
        stw_json_field_int64(&o->json, "charged_ps", time->charged_ps);
        stw_json_field_int64(&o->json, "idle_ps", time->idle_ps);
        stw_json_field_int64(&o->json, "peak_bytes", time->peak_bytes);
        stw_json_end_object(&o->json);
    }
    stw_json_end_array(&o->json);
    begin_list(o, "idle");
    for (int32_t k = 0; k < o->x->idle_count; k++) {
        const stw_idle *idle = &o->x->idle[k];
        begin_row(o);
        field_device(o, "device", idle->device);
        stw_json_field_string(&o->json, "kind", stw_str_of(idle_names[idle->kind]));
        field_device(o, "from", idle->from);
        field_device(o, "to", idle->to);
        stw_json_field_int64(&o->json, "times", idle->times);
        stw_json_field_int64(&o->json, "ps", idle->ps);
        field_node(o, "node", "name", idle->node);
        stw_json_field_int64(&o->json, "node_ps", idle->node_ps);
        stw_json_end_object(&o->json);
    }
    stw_json_end_array(&o->json);
}

/* ---- what was asked besides ---- */

static void write_what_ifs(output *o) {
    begin_list(o, "what_ifs");
    for (int64_t k = 0; k < o->x->what_if_count; k++) {
        const stw_what_if *row = &o->x->what_if[k];
        begin_row(o);
        stw_json_field_string(&o->json, "change", stw_str_of(row->change));
        stw_json_field_string(&o->json, "words", stw_str_of(row->words));
        field_trial(o, "kept_", &row->kept);
        field_trial(o, "searched_", &row->searched);
        stw_json_field_int64(&o->json, "evaluations", row->evaluations);
        stw_json_end_object(&o->json);
    }
    stw_json_end_array(&o->json);
}

static void write_moves(output *o) {
    begin_list(o, "moves");
    for (int32_t k = 0; k < o->x->move_count; k++) {
        const stw_move_trial *move = &o->x->move[k];
        begin_row(o);
        field_device(o, "device", move->device);
        stw_json_field_bool(&o->json, "here", move->here);
        field_trial(o, "", &move->trial);
        stw_json_field_int64(&o->json, "device_peak_bytes", move->device_peak_bytes);
        stw_json_field_int64(&o->json, "appear_count", move->appear_count);
        stw_json_field_int64(&o->json, "appear_bytes", move->appear_bytes);
        stw_json_field_int64(&o->json, "appear_ps", move->appear_ps);
        stw_json_field_int64(&o->json, "vanish_count", move->vanish_count);
        stw_json_field_int64(&o->json, "vanish_bytes", move->vanish_bytes);
        stw_json_field_int64(&o->json, "vanish_ps", move->vanish_ps);
        stw_json_end_object(&o->json);
    }
    stw_json_end_array(&o->json);
    begin_list(o, "pulls");
    for (int64_t k = 0; k < o->x->pull_count; k++) {
        const stw_pull *pull = &o->x->pull[k];
        begin_row(o);
        field_device(o, "device", pull->device);
        stw_json_field_bool(&o->json, "appears", pull->appears);
        field_node(o, "node", "name", pull->node);
        field_node(o, "neighbour", "neighbour_name", pull->neighbour);
        field_device(o, "from", pull->from);
        field_device(o, "to", pull->to);
        stw_json_field_int64(&o->json, "bytes", pull->bytes);
        stw_json_field_int64(&o->json, "ps", pull->ps);
        stw_json_end_object(&o->json);
    }
    stw_json_end_array(&o->json);
}

/* Ids with their names. */
static void write_nodes(output *o, const char *key, const int32_t *node, int32_t count) {
    begin_list(o, key);
    for (int32_t k = 0; k < count; k++) {
        begin_row(o);
        field_node(o, "node", "name", node[k]);
        stw_json_end_object(&o->json);
    }
    stw_json_end_array(&o->json);
}

static void write_group(output *o) {
    const stw_group_worth *group = &o->x->group;
    stw_json_newline(&o->json);
    stw_json_write_key(&o->json, "group");
    stw_json_begin_object(&o->json);
    field_node(o, "node", "name", group->group);
    field_device(o, "device", group->device);
    stw_json_field_int64(&o->json, "kernel_ps", group->kernel_ps);
    stw_json_field_int64(&o->json, "apart_ps", group->apart_ps);
    field_trial(o, "apart_", &group->apart);
    stw_json_field_int64(&o->json, "left_out", group->left_out);
    stw_json_end_object(&o->json);
    write_nodes(o, "members", group->member, group->member_count);
    begin_list(o, "merges");
    for (int32_t k = 0; k < o->x->merge_count; k++) {
        const stw_merge_trial *merge = &o->x->merge[k];
        begin_row(o);
        field_node(o, "node", "name", merge->node);
        stw_json_field_bool(&o->json, "reads", merge->reads);
        field_trial(o, "", &merge->trial);
        stw_json_field_int64(&o->json, "kernel_ps", merge->kernel_ps);
        stw_json_end_object(&o->json);
    }
    stw_json_end_array(&o->json);
}

static void write(output *o) {
    stw_json_begin_object(&o->json);
    stw_json_field_string(&o->json, "format", STW_STR("explanation"));
    stw_json_field_int64(&o->json, "version", 1);
    stw_json_field_string(&o->json, "graph", o->x->simulator->graph->name);
    stw_json_field_string(&o->json, "machine", o->x->simulator->machine->name);
    write_parts(o);
    write_path(o);
    write_costs(o, "ops", STW_SORT_OP);
    write_costs(o, "groups", STW_SORT_GROUP);
    write_costs(o, "transfers", STW_SORT_TRANSFER);
    write_devices(o);
    write_what_ifs(o);
    stw_json_field_bool(&o->json, "interrupted", o->x->interrupted);
    if (o->x->moved_count > 0) {
        write_nodes(o, "moved", o->x->moved, o->x->moved_count);
        write_moves(o);
    }
    if (o->x->has_group) write_group(o);
    stw_json_end_object(&o->json);
}

stw_status stw_explanation_json(const stw_explanation *explanation, char **bytes, size_t *size, stw_error *error) {
    STW_NEED(explanation);
    STW_NEED(bytes);
    STW_NEED(size);
    *bytes = NULL;
    *size = 0;
    FILE *file = open_memstream(bytes, size);
    if (file == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    output o = {.x = explanation};
    stw_json_writer_init(&o.json, file);
    write(&o);
    fputc('\n', file);
    const bool lost = ferror(file) != 0;
    if (fclose(file) == 0 && !lost) return STW_OK;
    free(*bytes);
    *bytes = NULL;
    *size = 0;
    return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
}
