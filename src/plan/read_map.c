/* Reads device maps and split points: modules by name, and where they are. */
#include <string.h>

#include "base/json.h"
#include "base/vector.h"
#include "plan/of_modules.h"

/* ---- which of the three it is ---- */

enum { IS_PLAN, IS_MAP, IS_SPLIT };

/* By the keys of the object; what cannot be read is left to the reader of plans, which says so. */
static int kind_of(stw_str text, stw_arena *scratch) {
    stw_json json;
    stw_error ignored;
    stw_str key;
    bool plain = true, split = false;
    int32_t count = 0;
    stw_json_init(&json, text, scratch, &ignored);
    if (stw_json_peek(&json) != STW_JSON_OBJECT || !stw_json_object(&json)) return IS_PLAN;
    while (stw_json_key(&json, &key)) {
        if (stw_str_is(key, "format")) return IS_PLAN;
        split |= stw_str_is(key, "split_points");
        const int type = (int)stw_json_peek(&json);
        plain &= type == STW_JSON_NUMBER || type == STW_JSON_STRING;
        count++;
        if (!stw_json_skip(&json, NULL)) return IS_PLAN;
    }
    return json.failed ? IS_PLAN : split ? IS_SPLIT : plain && count > 0 ? IS_MAP : IS_PLAN;
}

bool stw_map_is(stw_str text) {
    stw_arena scratch;
    if (stw_arena_create(&scratch, NULL) != STW_OK) return false;
    const int kind = kind_of(text, &scratch);
    stw_arena_destroy(&scratch);
    return kind != IS_PLAN;
}

/* ---- the map ---- */

typedef struct {
    stw_json json;
    const stw_graph *graph;
    const stw_machine *machine;
    stw_arena scratch;
    int32_t *home;     /* (N) -1: nothing is said */
    int64_t *length;   /* (N) of the name that said so: the longest counts */
    stw_str wrapper;   /* names are relative to it */
    int32_t unmatched; /* names */
    int32_t matched;
    int32_t named;   /* of these, those that are not the whole model, "" */
    stw_str example; /* of one that does not match */
} reader;

/* The device that is number `index` among the CPUs, or among the others. */
static int32_t device_at(const stw_machine *machine, bool cpu, int64_t index) {
    int64_t at = 0;
    for (int32_t d = 0; d < machine->device_count; d++)
        if (stw_str_starts(machine->device[d].kind, "cpu") == cpu && at++ == index) return d;
    return -1;
}

/* PyTorch's "cuda:1", "cuda" (the first), "cpu", "1", or the kind of one of the machine's devices in place of "cuda". */
static int32_t device_called(const stw_machine *machine, stw_str text) {
    static const char *const sorts[] = {"cuda", "xpu", "hip", "gpu"};
    for (int32_t d = 0; d < machine->device_count; d++)
        if (stw_str_equal(text, machine->device[d].name)) return d;
    const char *colon = text.length > 0 ? memchr(text.p, ':', (size_t)text.length) : NULL;
    const stw_str sort = {text.p, colon != NULL ? colon - text.p : text.length};
    int64_t index = 0;
    if (colon == NULL && stw_str_to_int64(text, &index)) return device_at(machine, false, index);
    if (colon != NULL && !stw_str_to_int64((stw_str){colon + 1, text.p + text.length - colon - 1}, &index)) return -1;
    if (stw_str_is(sort, "cpu")) return device_at(machine, true, index);
    bool known = false;
    for (size_t k = 0; k < sizeof sorts / sizeof sorts[0]; k++) known |= stw_str_is(sort, sorts[k]);
    for (int32_t d = 0; d < machine->device_count; d++) known |= stw_str_equal(sort, machine->device[d].kind);
    return known ? device_at(machine, false, index) : -1;
}

static bool read_device(reader *r, int32_t *out) {
    stw_str text;
    int64_t index = 0;
    *out = -1;
    if (stw_json_peek(&r->json) == STW_JSON_NUMBER) {
        if (!stw_json_int64(&r->json, &index)) return false;
        *out = device_at(r->machine, false, index);
        return *out >= 0 || stw_json_fail(&r->json, "device %lld, which the machine does not have", (long long)index);
    }
    if (!stw_json_string(&r->json, &text)) return false;
    *out = device_called(r->machine, text);
    return *out >= 0 ||
           stw_json_fail(&r->json, "device '%.*s', which the machine does not have; write its name, a number, cuda:1 or cpu",
                         STW_STR_SHOW(text));
}

/* The label as names see it; nothing, if it lies outside. */
static stw_str label_of(const reader *r, int32_t i) {
    const stw_str label = r->graph->label[i];
    if (r->wrapper.length == 0) return label;
    if (!stw_path_is_within(label, r->wrapper) || label.length <= r->wrapper.length + 1) return STW_STR("");
    return (stw_str){label.p + r->wrapper.length + 1, label.length - r->wrapper.length - 1};
}

static void take_name(reader *r, stw_str name, int32_t device) {
    bool found = false;
    for (int32_t i = 0; i < r->graph->N; i++) {
        if (!stw_node_is_resident(r->graph->kind[i]) || r->graph->label[i].length == 0) continue;
        const stw_str label = label_of(r, i);
        if (label.length == 0 || !stw_path_is_within(label, name)) continue;
        found = true;
        if (name.length + 1 < r->length[i]) continue;
        r->length[i] = name.length + 1;
        r->home[i] = device;
    }
    r->matched += found;
    r->named += found && name.length > 0;
    r->unmatched += !found;
    if (!found) r->example = stw_str_copy(&r->scratch, name);
}

static bool read_map(reader *r) {
    stw_str key;
    int32_t device;
    if (!stw_json_object(&r->json)) return false;
    while (stw_json_key(&r->json, &key)) {
        const stw_str name = stw_str_copy(&r->scratch, key);
        if (name.p == NULL) return stw_json_lacks_memory(&r->json, "the map");
        if (!read_device(r, &device)) return false;
        take_name(r, name, device);
    }
    return !r->json.failed;
}

/* {"device": 1, "modules": [...]}, in this order, as it is written. */
static bool read_stage(reader *r) {
    stw_str key, name;
    int32_t device = -1;
    if (!stw_json_object(&r->json)) return false;
    while (stw_json_key(&r->json, &key)) {
        if (stw_str_is(key, "device")) {
            if (!read_device(r, &device)) return false;
        } else if (stw_str_is(key, "modules")) {
            if (device < 0) return stw_json_fail(&r->json, "a stage has modules before its device");
            if (!stw_json_array(&r->json)) return false;
            while (stw_json_item(&r->json)) {
                if (!stw_json_string(&r->json, &name)) return false;
                take_name(r, name, device);
            }
        } else if (!stw_json_skip(&r->json, NULL)) {
            return false;
        }
    }
    return !r->json.failed;
}

static bool read_split(reader *r) {
    stw_str key;
    bool staged = false;
    if (!stw_json_object(&r->json)) return false;
    while (stw_json_key(&r->json, &key)) {
        if (!stw_str_is(key, "stages")) {
            if (!stw_json_skip(&r->json, NULL)) return false;
            continue;
        }
        staged = true;
        if (!stw_json_array(&r->json)) return false;
        while (stw_json_item(&r->json))
            if (!read_stage(r)) return false;
    }
    return r->json.failed ? false
                          : staged || stw_json_fail(&r->json, "split points without \"stages\" do not say where these run");
}

/* The first part that all labels have; empty: there is none. */
static stw_str find_wrapper(const stw_graph *graph) {
    stw_str wrapper = {0};
    for (int32_t i = 0; i < graph->N; i++) {
        if (!stw_node_is_resident(graph->kind[i]) || graph->label[i].length == 0) continue;
        const char *dot = memchr(graph->label[i].p, '.', (size_t)graph->label[i].length);
        const stw_str part = {graph->label[i].p, dot == NULL ? 0 : dot - graph->label[i].p};
        if (part.length == 0 || (wrapper.length > 0 && !stw_str_equal(part, wrapper))) return STW_STR("");
        wrapper = part;
    }
    return wrapper.p == NULL ? STW_STR("") : wrapper;
}

static stw_status read_within(reader *r, stw_str text, int kind, stw_str wrapper, stw_error *error) {
    r->wrapper = wrapper;
    r->matched = r->named = r->unmatched = 0;
    for (int32_t i = 0; i < r->graph->N; i++) {
        r->home[i] = -1;
        r->length[i] = 0;
    }
    stw_json_init(&r->json, text, &r->scratch, error);
    if (kind == IS_MAP)
        read_map(r);
    else
        read_split(r);
    return stw_json_finish(&r->json);
}

static stw_status read_all(reader *r, stw_str text, stw_plan **out, stw_error *error) {
    const int kind = kind_of(text, &r->scratch);
    STW_TRY_NEW(&r->scratch, r->home, r->graph->N, error);
    STW_TRY_NEW(&r->scratch, r->length, r->graph->N, error);
    TRY(read_within(r, text, kind, STW_STR(""), error));
    const stw_str wrapper = find_wrapper(r->graph);
    const bool misses = r->matched == 0 || (r->named == 0 && r->unmatched > 0); /* the names may be relative */
    if (misses && wrapper.length > 0) TRY(read_within(r, text, kind, wrapper, error));
    if (r->matched == 0)
        return stw_fail(error, STW_ERROR_INPUT, "no parameter of the graph lies in a module of the map, such as '%.*s'",
                        STW_STR_SHOW(r->example));
    int32_t torn = 0, silent = 0;
    TRY(stw_plan_of_homes(r->graph, r->machine, kind == IS_MAP ? STW_GRAIN_MODULE : STW_GRAIN_OP, r->home, out, &torn, error));
    for (int32_t i = 0; i < r->graph->N; i++)
        silent += stw_node_is_resident(r->graph->kind[i]) && r->graph->label[i].length > 0 && r->home[i] < 0;
    if (r->unmatched + torn + silent == 0) return STW_OK;
    (*out)->warning =
        stw_str_format(&(*out)->arena,
                       "of the map %d names match no parameter%s%.*s%s, %d parameters have none, and %d parts that cannot be "
                       "divided are; these go where most of them is",
                       r->unmatched, r->unmatched > 0 ? " ('" : "", r->unmatched > 0 ? (int)r->example.length : 0,
                       r->example.p == NULL ? "" : r->example.p, r->unmatched > 0 ? "')" : "", silent, torn);
    return STW_OK;
}

stw_status stw_map_read(stw_str text, const stw_graph *graph, const stw_machine *machine, stw_plan **out, stw_error *error) {
    reader r = {.graph = graph, .machine = machine};
    *out = NULL;
    if (machine == NULL) return stw_fail(error, STW_ERROR_INPUT, "a device map names no machine; give one (--machine)");
    TRY(stw_arena_create(&r.scratch, error));
    const stw_status status = read_all(&r, text, out, error);
    if (*out != NULL) (*out)->method = STW_STR("device-map");
    stw_arena_destroy(&r.scratch);
    return status;
}
