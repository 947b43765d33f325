/* Reads a plan file (docs/formats/plan.md). Only "format", "version" and "device" are required: a plan may be written by hand. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "plan/of_modules.h"
#include "plan/plan.h"

typedef struct {
    stw_json json;
    const stw_graph *graph;
    const stw_machine *machine; /* wanted by the caller, or NULL */
    stw_arena scratch;
    stw_machine *own; /* from the file, or NULL */
    stw_str fingerprint, method;
    int64_t seed;
    int64_t *device, *group; /* (N) as written, NULL if absent */
    double *priority;        /* (N) */
    int64_t order_count;     /* lists; -1 if absent */
    int64_t **order;         /* (order_count) NULL: free */
    int64_t *order_length;   /* (order_count) */
    int keys;
} reader;

enum {
    KEY_FORMAT = 1,
    KEY_VERSION = 2,
    KEY_GRAPH = 4,
    KEY_MACHINE = 8,
    KEY_METHOD = 16,
    KEY_SEED = 32,
    KEY_DEVICE = 64,
    KEY_PRIORITY = 128,
    KEY_GROUP = 256,
    KEY_ORDER = 512
};
static const struct {
    const char *name;
    int bit;
} plan_keys[] = {{"format", KEY_FORMAT}, {"version", KEY_VERSION}, {"graph", KEY_GRAPH},   {"machine", KEY_MACHINE},
                 {"method", KEY_METHOD}, {"seed", KEY_SEED},       {"device", KEY_DEVICE}, {"priority", KEY_PRIORITY},
                 {"group", KEY_GROUP},   {"order", KEY_ORDER}};

static int key_bit(stw_str key) {
    for (size_t k = 0; k < sizeof plan_keys / sizeof plan_keys[0]; k++) {
        if (stw_str_is(key, plan_keys[k].name)) return plan_keys[k].bit;
    }
    return 0;
}

static bool read_format(reader *r) {
    stw_str format;
    if (!stw_json_string(&r->json, &format)) return false;
    return stw_str_is(format, "plan") ||
           stw_json_fail(&r->json, "format '%.*s' is not a plan; \"plan\" is expected", STW_STR_SHOW(format));
}

static bool read_version(reader *r) {
    int64_t version;
    if (!stw_json_int64(&r->json, &version)) return false;
    return version == 1 || stw_json_fail(&r->json, "plan version %lld; this program reads version 1", (long long)version);
}

static bool read_graph_key(reader *r) {
    stw_str key;
    if (!stw_json_object(&r->json)) return false;
    while (stw_json_key(&r->json, &key)) {
        if (stw_str_is(key, "fingerprint")) {
            if (!stw_json_string(&r->json, &r->fingerprint)) return false;
        } else if (!stw_json_skip(&r->json, NULL)) {
            return false;
        }
    }
    return !r->json.failed;
}

/* Checks one entry of a list that has one per node. */
static bool in_list(reader *r, const char *list, int64_t i) {
    return i < r->graph->N ||
           stw_json_fail(&r->json, "\"%s\" has more entries than the graph has nodes (%d); is the plan for another graph?", list,
                         r->graph->N);
}

static bool full_list(reader *r, const char *list, int64_t count) {
    if (r->json.failed) return false;
    return count == r->graph->N ||
           stw_json_fail(&r->json, "\"%s\" has %lld entries, the graph has %d nodes; is the plan for another graph?", list,
                         (long long)count, r->graph->N);
}

static bool read_ints(reader *r, const char *name, int64_t least, int64_t **out) {
    int64_t i = 0;
    *out = STW_NEW(&r->scratch, int64_t, r->graph->N);
    if (*out == NULL) return stw_json_lacks_memory(&r->json, "a list of the plan");
    if (!stw_json_array(&r->json)) return false;
    for (; stw_json_item(&r->json); i++) {
        if (!in_list(r, name, i) || !stw_json_int64(&r->json, &(*out)[i])) return false;
        if ((*out)[i] < least || (*out)[i] > INT32_MAX) {
            return stw_json_fail(&r->json, "\"%s\" of node %lld '%.*s' is %lld; it must be from %lld to 2147483647", name,
                                 (long long)i, STW_STR_SHOW(r->graph->node_name[i]), (long long)(*out)[i], (long long)least);
        }
    }
    return full_list(r, name, i);
}

static bool read_priorities(reader *r) {
    int64_t i = 0;
    r->priority = STW_NEW(&r->scratch, double, r->graph->N);
    if (r->priority == NULL) return stw_json_lacks_memory(&r->json, "a list of the plan");
    if (!stw_json_array(&r->json)) return false;
    for (; stw_json_item(&r->json); i++) {
        if (!in_list(r, "priority", i) || !stw_json_double(&r->json, &r->priority[i])) return false;
    }
    return full_list(r, "priority", i);
}

/* The order of one device: at most one entry per node. */
static bool read_order(reader *r, int64_t d) {
    if (stw_json_peek(&r->json) == STW_JSON_NULL) return stw_json_null(&r->json);
    int64_t *list = STW_NEW(&r->scratch, int64_t, r->graph->N);
    if (list == NULL) return stw_json_lacks_memory(&r->json, "an order");
    int64_t count = 0;
    if (!stw_json_array(&r->json)) return false;
    for (; stw_json_item(&r->json); count++) {
        if (!in_list(r, "order", count) || !stw_json_int64(&r->json, &list[count])) return false;
        if (list[count] < 0 || list[count] >= r->graph->N)
            return stw_json_fail(&r->json, "\"order\" names node %lld, which does not exist", (long long)list[count]);
    }
    r->order[d] = list;
    r->order_length[d] = count;
    return !r->json.failed;
}

static bool read_orders(reader *r) {
    r->order_count = 0;
    r->order = STW_NEW(&r->scratch, int64_t *, STW_MAX_DEVICES);
    r->order_length = STW_NEW(&r->scratch, int64_t, STW_MAX_DEVICES);
    if (r->order_length == NULL) return stw_json_lacks_memory(&r->json, "the orders");
    if (stw_json_peek(&r->json) == STW_JSON_NULL) return stw_json_null(&r->json);
    if (!stw_json_array(&r->json)) return false;
    for (; stw_json_item(&r->json); r->order_count++) {
        if (r->order_count == STW_MAX_DEVICES)
            return stw_json_fail(&r->json, "\"order\" has more than %d lists", STW_MAX_DEVICES);
        if (!read_order(r, r->order_count)) return false;
    }
    return !r->json.failed;
}

static bool read_machine_key(reader *r) {
    if (stw_machine_read(&r->json, &r->own, r->json.error) == STW_OK) return true;
    r->json.failed = true; /* the message stands already */
    return false;
}

static bool read_method(reader *r) {
    if (!stw_json_string(&r->json, &r->method)) return false;
    return r->method.length <= 200 ||
           stw_json_fail(&r->json, "the name of the method is %lld bytes long; at most 200 are allowed",
                         (long long)r->method.length);
}

static bool read_value(reader *r, int bit) {
    switch (bit) {
        case KEY_FORMAT: return read_format(r);
        case KEY_VERSION: return read_version(r);
        case KEY_GRAPH: return read_graph_key(r);
        case KEY_MACHINE: return read_machine_key(r);
        case KEY_METHOD: return read_method(r);
        case KEY_SEED: return stw_json_int64(&r->json, &r->seed);
        case KEY_DEVICE: return read_ints(r, "device", 0, &r->device);
        case KEY_PRIORITY: return read_priorities(r);
        case KEY_GROUP: return read_ints(r, "group", -1, &r->group);
        case KEY_ORDER: return read_orders(r);
        default: return stw_json_skip(&r->json, NULL);
    }
}

/* The fingerprint comes early in the file, so a plan of another graph is reported as that, before its lists do not fit. */
static bool check_fingerprint(reader *r) {
    if (r->fingerprint.length == 0 || stw_str_is(r->fingerprint, r->graph->fingerprint)) return true;
    return stw_json_fail(&r->json,
                         "the plan is for another graph (fingerprint %.*s, this graph has %s), or for other sizes (--shape)",
                         STW_STR_SHOW(r->fingerprint), r->graph->fingerprint);
}

static stw_status read_all(reader *r) {
    stw_str key;
    if (stw_json_object(&r->json)) {
        while (stw_json_key(&r->json, &key)) {
            const int bit = key_bit(key);
            if ((r->keys & bit) && !stw_json_fail(&r->json, "\"%.*s\" stands twice", STW_STR_SHOW(key))) break;
            r->keys |= bit;
            if (!read_value(r, bit) || (bit == KEY_GRAPH && !check_fingerprint(r))) break;
        }
    }
    if (!r->json.failed && !(r->keys & KEY_FORMAT))
        stw_json_fail(&r->json, "\"format\":\"plan\" is missing; is this a plan file?");
    if (!r->json.failed && !(r->keys & KEY_VERSION)) stw_json_fail(&r->json, "\"version\" is missing; write \"version\":1");
    if (!r->json.failed && !(r->keys & KEY_DEVICE)) stw_json_fail(&r->json, "\"device\" is missing: one device index per node");
    return stw_json_finish(&r->json);
}

/* Devices of the file's machine, as indices of the machine to be used: matched by name. */
static stw_status match_devices(const reader *r, const stw_machine *machine, int32_t map[STW_MAX_DEVICES], int32_t *count,
                                stw_error *error) {
    const stw_machine *from = r->own != NULL ? r->own : machine;
    *count = from->device_count;
    for (int32_t d = 0; d < from->device_count; d++) {
        map[d] = -1;
        for (int32_t e = 0; e < machine->device_count && map[d] < 0; e++) {
            if (stw_str_equal(from->device[d].name, machine->device[e].name)) map[d] = e;
        }
    }
    for (int32_t i = 0; i < r->graph->N; i++) {
        const uint8_t kind = r->graph->kind[i];
        if (kind == STW_NODE_VIEW || stw_node_is_everywhere(kind)) continue; /* ignored there */
        const int64_t d = r->device[i];
        if (d >= *count) {
            return stw_fail(error, STW_ERROR_INPUT, "node %d '%.*s' is on device %lld; its machine has devices 0 to %d", i,
                            STW_STR_SHOW(r->graph->node_name[i]), (long long)d, *count - 1);
        }
        if (map[d] < 0) {
            return stw_fail(error, STW_ERROR_INPUT, "the plan uses device '%.*s', which machine '%.*s' does not have",
                            STW_STR_SHOW(from->device[d].name), STW_STR_SHOW(machine->name));
        }
    }
    return STW_OK;
}

static stw_status fill_orders(const reader *r, const int32_t *map, int32_t devices, stw_plan *plan, stw_error *error) {
    for (int64_t d = 0; d < r->order_count; d++) {
        if (r->order[d] == NULL) continue;
        if (d >= devices || (map[d] < 0 && r->order_length[d] > 0)) {
            return stw_fail(error, STW_ERROR_INPUT, "\"order\" has a list for device %lld, which the machine does not have",
                            (long long)d);
        }
        if (map[d] < 0) continue;
        stw_arena scratch = r->scratch;
        int32_t *ids;
        STW_TRY_NEW(&scratch, ids, r->order_length[d], error);
        for (int64_t k = 0; k < r->order_length[d]; k++) ids[k] = (int32_t)r->order[d][k];
        TRY(stw_plan_set_order(plan, map[d], ids, (int32_t)r->order_length[d], error));
    }
    return STW_OK;
}

static void add_warning(const reader *r, stw_plan *plan) {
    const bool no_fingerprint = r->fingerprint.length == 0;
    const bool other = r->own != NULL && plan->owned_machine == NULL && !stw_machine_equal(r->own, plan->machine);
    stw_str first = no_fingerprint ? STW_STR("the plan has no fingerprint; it is taken to be for this graph") : STW_STR("");
    stw_str second = STW_STR("");
    if (other && stw_str_equal(r->own->name, plan->machine->name)) {
        second = stw_str_format(&plan->arena, "the plan was made for another machine '%.*s'; it is evaluated again",
                                STW_STR_SHOW(r->own->name));
    } else if (other) {
        second = stw_str_format(&plan->arena, "the plan was made for machine '%.*s'; it is evaluated again for '%.*s'",
                                STW_STR_SHOW(r->own->name), STW_STR_SHOW(plan->machine->name));
    }
    const char *between = no_fingerprint && other ? "; " : "";
    plan->warning = stw_str_format(&plan->arena, "%.*s%s%.*s", (int)first.length, first.p, between, (int)second.length, second.p);
}

static stw_status fill_plan(const reader *r, stw_plan *plan, stw_error *error) {
    const stw_graph *graph = r->graph;
    int32_t map[STW_MAX_DEVICES], devices;
    TRY(match_devices(r, plan->machine, map, &devices, error));
    for (int32_t i = 0; i < graph->N; i++) {
        plan->device[i] = r->device[i] < devices && map[r->device[i]] >= 0 ? map[r->device[i]] : 0;
        if (r->priority != NULL) plan->priority[i] = r->priority[i];
        if (r->group != NULL) plan->group[i] = (int32_t)r->group[i];
    }
    for (int32_t i = 0; i < graph->N; i++) plan->device[i] = plan->device[graph->root[i]];
    TRY(stw_plan_canonical_groups(plan, error));
    TRY(fill_orders(r, map, devices, plan, error));
    plan->method = stw_str_copy(&plan->arena, r->method);
    plan->seed = r->seed;
    return STW_OK;
}

static stw_status make_plan(reader *r, stw_plan **out, stw_error *error) {
    const stw_machine *machine = r->machine != NULL ? r->machine : r->own;
    if (machine == NULL) return stw_fail(error, STW_ERROR_INPUT, "the plan names no machine; give one (--machine)");
    stw_plan *plan;
    TRY(stw_plan_create(r->graph, machine, &plan, error));
    const stw_status status = fill_plan(r, plan, error);
    if (status != STW_OK) {
        stw_plan_destroy(plan);
        return status;
    }
    if (r->machine == NULL) plan->owned_machine = r->own;
    add_warning(r, plan);
    *out = plan;
    return STW_OK;
}

static stw_status read_text(stw_str text, const stw_graph *graph, const stw_machine *machine, stw_plan **out, stw_error *error) {
    *out = NULL;
    if (stw_map_is(text)) return stw_map_read(text, graph, machine != NULL ? machine : graph->machine, out, error);
    reader r = {.graph = graph, .machine = machine, .order_count = -1};
    TRY(stw_arena_create(&r.scratch, error));
    stw_json_init(&r.json, text, &r.scratch, error);
    stw_status status = read_all(&r);
    if (status == STW_OK) status = make_plan(&r, out, error);
    const bool kept = *out != NULL && (*out)->owned_machine == r.own;
    if (!kept) stw_machine_destroy(r.own);
    stw_arena_destroy(&r.scratch);
    return status;
}

stw_status stw_plan_parse(const void *bytes, size_t size, const char *label, const stw_graph *graph, const stw_machine *machine,
                          stw_plan **out, stw_error *error) {
    STW_NEED(label);
    STW_NEED(graph);
    STW_NEED(out);
    *out = NULL;
    stw_arena unpacked;
    stw_str text;
    TRY(stw_arena_create(&unpacked, error));
    stw_status status = stw_unpack((stw_str){bytes, (int64_t)size}, &unpacked, &text, error);
    if (status == STW_OK) status = read_text(text, graph, machine, out, error);
    stw_arena_destroy(&unpacked);
    if (status != STW_OK) stw_error_prefix(error, label);
    return status;
}

stw_status stw_plan_open(const char *path, const stw_graph *graph, const stw_machine *machine, stw_plan **out, stw_error *error) {
    STW_NEED(path);
    STW_NEED(graph);
    STW_NEED(out);
    *out = NULL;
    stw_arena file;
    stw_str text;
    TRY(stw_arena_create(&file, error));
    stw_status status = stw_file_read(path, &file, &text, error);
    if (status == STW_OK) {
        status = read_text(text, graph, machine, out, error);
        if (status != STW_OK) stw_error_prefix(error, stw_file_label(path));
    }
    stw_arena_destroy(&file);
    return status;
}
