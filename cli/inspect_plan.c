/* The head of a plan file, and how many nodes each device holds. The graph is not needed, so the JSON is read directly; whether
 * the plan fits its graph is for `stowage simulate` to say. */
#include <math.h>

#include "base/sort.h"
#include "cli.h"

typedef struct plan_head { /* a missing text has p NULL, a missing number is NaN */
    stw_str graph_name, fingerprint, method, objective;
    int64_t seed;
    double version, value, step_s, lower_bound_s, lower_bound_fusion_s, measured_share;
    bool has_seed, has_valid, valid;
    stw_machine *machine; /* or NULL */
    int64_t nodes;        /* length of "device" */
    int64_t on_device[STW_MAX_DEVICES];
    int32_t device_count; /* of the machine, or as many as are used */
    int64_t written;      /* ops that a kernel writes; -1: the plan has no groups */
    int64_t kernels;      /* that write them */
} plan_head;

static bool read_number(stw_json *json, double *out) {
    return stw_json_peek(json) == STW_JSON_NULL ? stw_json_null(json) : stw_json_double(json, out);
}

static bool read_text(stw_json *json, stw_str *out) {
    return stw_json_peek(json) == STW_JSON_NULL ? stw_json_null(json) : stw_json_string(json, out);
}

static bool read_graph(stw_json *json, plan_head *head) {
    stw_str key;
    if (!stw_json_object(json)) return false;
    while (stw_json_key(json, &key)) {
        if (stw_str_is(key, "name")) {
            stw_json_string(json, &head->graph_name);
        } else if (stw_str_is(key, "fingerprint")) {
            stw_json_string(json, &head->fingerprint);
        } else {
            stw_json_skip(json, NULL);
        }
    }
    return !json->failed;
}

static bool read_devices(stw_json *json, plan_head *head) {
    if (!stw_json_array(json)) return false;
    while (stw_json_item(json)) {
        int64_t device;
        if (!stw_json_int64(json, &device)) return false;
        if (device < 0 || device >= STW_MAX_DEVICES) {
            return stw_json_fail(json, "device %lld; devices are 0 to %d", (long long)device, STW_MAX_DEVICES - 1);
        }
        head->nodes++;
        head->on_device[device]++;
        if (head->device_count <= device) head->device_count = (int32_t)device + 1;
    }
    return !json->failed;
}

/* Equal numbers are one kernel; what has -1 is written by none. Which nodes are ops is not known here: plans of ours have -1 for
 * the others. */
static bool read_groups(stw_json *json, plan_head *head) {
    stw_arena scratch = *json->strings;
    int32_t *kernel = STW_NEW_DIRTY(&scratch, int32_t, stw_json_count_items(json, scratch));
    if (kernel == NULL) return stw_json_fail(json, "out of memory");
    if (!stw_json_array(json)) return false;
    head->written = head->kernels = 0;
    while (stw_json_item(json)) {
        int64_t group;
        if (!stw_json_int64(json, &group)) return false;
        if (group < -1 || group > INT32_MAX) return stw_json_fail(json, "group %lld; it is -1 or a number", (long long)group);
        if (group >= 0) kernel[head->written++] = (int32_t)group;
    }
    stw_sort_ids(kernel, head->written);
    for (int64_t k = 0; k < head->written; k++) head->kernels += k == 0 || kernel[k] != kernel[k - 1];
    return !json->failed;
}

static bool read_value(stw_json *json, stw_str key, plan_head *head, stw_error *error) {
    if (stw_str_is(key, "version")) return read_number(json, &head->version);
    if (stw_str_is(key, "graph")) return read_graph(json, head);
    if (stw_str_is(key, "machine") && head->machine == NULL) return stw_machine_read(json, &head->machine, error) == STW_OK;
    if (stw_str_is(key, "method")) return read_text(json, &head->method); /* null: no plan was found */
    if (stw_str_is(key, "objective")) return stw_json_string(json, &head->objective);
    if (stw_str_is(key, "seed")) return head->has_seed = true, stw_json_int64(json, &head->seed);
    if (stw_str_is(key, "value")) return read_number(json, &head->value);
    if (stw_str_is(key, "step_s")) return read_number(json, &head->step_s);
    if (stw_str_is(key, "lower_bound_s")) return read_number(json, &head->lower_bound_s);
    if (stw_str_is(key, "lower_bound_fusion_s")) return read_number(json, &head->lower_bound_fusion_s);
    if (stw_str_is(key, "measured_share")) return read_number(json, &head->measured_share);
    if (stw_str_is(key, "valid")) return head->has_valid = true, stw_json_bool(json, &head->valid);
    if (stw_str_is(key, "device")) return read_devices(json, head);
    if (stw_str_is(key, "group")) return read_groups(json, head);
    return stw_json_skip(json, NULL);
}

static stw_status read_head(stw_str text, stw_arena *arena, plan_head *head, stw_error *error) {
    *head = (plan_head){0};
    head->written = -1;
    head->version = head->value = head->step_s = head->lower_bound_s = head->lower_bound_fusion_s = head->measured_share = NAN;
    stw_json json;
    stw_str key;
    stw_json_init(&json, text, arena, error);
    if (stw_json_object(&json)) {
        while (stw_json_key(&json, &key)) {
            if (!read_value(&json, key, head, error)) return error->status != STW_OK ? error->status : STW_ERROR_INPUT;
        }
    }
    TRY(stw_json_finish(&json));
    if (head->version != 1.0) return stw_fail(error, STW_ERROR_INPUT, "this is not a plan of version 1, the only one known");
    if (head->machine == NULL) return STW_OK;
    if (head->device_count > head->machine->device_count) {
        return stw_fail(error, STW_ERROR_INPUT, "a node is on device %d; the machine has devices 0 to %d", head->device_count - 1,
                        head->machine->device_count - 1);
    }
    head->device_count = head->machine->device_count;
    return STW_OK;
}

static void add_text(cli_table *table, const char *name, stw_str value) {
    if (value.p == NULL) return;
    cli_table_add(table, CLI_PLAIN, "%s", name);
    cli_table_add(table, CLI_PLAIN, "%.*s", STW_STR_SHOW(value));
}

static void add_time(cli_table *table, const char *name, double seconds) {
    if (!isnan(seconds)) add_text(table, name, stw_str_of(cli_time(seconds, 5).text));
}

static void print_text(const plan_head *head, stw_arena arena) {
    static const cli_column facts[] = {{NULL, CLI_LEFT}, {NULL, CLI_LEFT}};
    static const cli_column devices[] = {{"device", CLI_LEFT}, {"nodes", CLI_RIGHT}, {"share", CLI_RIGHT}};
    cli_table table;
    cli_table_begin(&table, &arena, facts, 2);
    cli_heading("plan for %.*s",
                STW_STR_SHOW(head->graph_name.p != NULL ? head->graph_name : STW_STR("a graph it does not name")));
    add_text(&table, "graph fingerprint", head->fingerprint);
    if (head->machine != NULL) add_text(&table, "machine", head->machine->name);
    add_text(&table, "method", head->method);
    if (head->has_seed) add_text(&table, "seed", stw_str_of(cli_count(head->seed).text));
    add_text(&table, "objective", head->objective);
    add_time(&table, "step time", head->step_s);
    if (head->lower_bound_s > 0.0) add_time(&table, "lower bound", head->lower_bound_s); /* a bound of nothing is none */
    if (head->lower_bound_fusion_s > 0.0) add_time(&table, "  with any fusion", head->lower_bound_fusion_s);
    if (!isnan(head->measured_share)) add_text(&table, "measured", stw_str_of(cli_percent(head->measured_share).text));
    if (head->written >= 0) {
        cli_table_add(&table, CLI_PLAIN, "kernels");
        cli_table_add(&table, CLI_PLAIN, "%s for %s ops", cli_count(head->kernels).text, cli_count(head->written).text);
    }
    if (head->has_valid) {
        cli_table_add(&table, CLI_PLAIN, "valid");
        cli_table_add(&table, head->valid ? CLI_GREEN : CLI_RED, head->valid ? "yes" : "no");
    }
    cli_table_print(&table, stdout);
    printf("%s", table.cell_count > 0 ? "\n" : "");
    cli_table_begin(&table, &arena, devices, 3);
    for (int32_t d = 0; d < head->device_count; d++) {
        if (head->machine != NULL) {
            cli_table_add(&table, CLI_PLAIN, "%s", stw_machine_device_name(head->machine, d));
        } else {
            cli_table_add(&table, CLI_PLAIN, "%d", d);
        }
        cli_table_add(&table, CLI_PLAIN, "%s", cli_count(head->on_device[d]).text);
        cli_table_add(&table, CLI_PLAIN, "%s",
                      cli_percent((double)head->on_device[d] / (double)(head->nodes + (head->nodes == 0))).text);
    }
    cli_table_print(&table, stdout);
}

static void print_json(const plan_head *head) {
    stw_json_writer writer;
    stw_json_writer_init(&writer, stdout);
    stw_json_begin_object(&writer);
    stw_json_field_text(&writer, "format", STW_STR("plan"));
    stw_json_field_text(&writer, "graph", head->graph_name);
    stw_json_field_text(&writer, "fingerprint", head->fingerprint);
    stw_json_field_text(&writer, "machine", head->machine != NULL ? head->machine->name : (stw_str){0});
    stw_json_field_text(&writer, "method", head->method);
    stw_json_write_key(&writer, "seed");
    if (head->has_seed) {
        stw_json_write_int64(&writer, head->seed);
    } else {
        stw_json_write_null(&writer);
    }
    stw_json_field_text(&writer, "objective", head->objective);
    stw_json_field_double(&writer, "value", head->value);
    stw_json_field_double(&writer, "step_s", head->step_s);
    stw_json_write_key(&writer, "valid");
    if (head->has_valid) {
        stw_json_write_bool(&writer, head->valid);
    } else {
        stw_json_write_null(&writer);
    }
    stw_json_field_double(&writer, "lower_bound_s", head->lower_bound_s);
    stw_json_field_double(&writer, "lower_bound_fusion_s", head->lower_bound_fusion_s);
    stw_json_field_double(&writer, "measured_share", head->measured_share);
    stw_json_field_int64(&writer, "nodes", head->nodes);
    stw_json_field_double(&writer, "ops_written", head->written >= 0 ? (double)head->written : NAN);
    stw_json_field_double(&writer, "kernels", head->written >= 0 ? (double)head->kernels : NAN);
    stw_json_write_key(&writer, "devices");
    stw_json_begin_array(&writer);
    for (int32_t d = 0; d < head->device_count; d++) {
        stw_json_begin_object(&writer);
        stw_json_field_text(&writer, "name", head->machine != NULL ? head->machine->device[d].name : (stw_str){0});
        stw_json_field_int64(&writer, "nodes", head->on_device[d]);
        stw_json_end_object(&writer);
    }
    stw_json_end_array(&writer);
    stw_json_end_object(&writer);
    printf("\n");
}

stw_status cli_show_plan(const cli_call *call, stw_str text, const char *label, stw_error *error) {
    stw_arena arena = call->arena;
    plan_head head;
    const stw_status status = read_head(text, &arena, &head, error);
    if (status != STW_OK) {
        stw_error_prefix(error, label);
    } else if (cli_wants_json(call)) {
        print_json(&head);
    } else {
        print_text(&head, arena);
    }
    stw_machine_destroy(head.machine);
    return status;
}
