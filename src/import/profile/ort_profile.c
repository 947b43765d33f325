/* Reads profiles of ONNX Runtime. Of each run of a node there is an event of category "Node" named NODE_kernel_time; the others
 * (fences, the session, kernels) are passed over. */
#include "import/profile/ort_profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"

static const char suffix[] = "_kernel_time";

typedef struct {
    stw_arena *arena;
    stw_ort_time *run;
    int64_t count, room;
    stw_error *error;
} collector;

static const char *skip_space(const char *c, const char *end) {
    while (c < end && (*c == ' ' || *c == '\t' || *c == '\n' || *c == '\r')) c++;
    return c;
}

bool stw_ort_profile_is(stw_str text) {
    enum { NEAR = 4096 };
    const char *end = text.p + text.length, *c = skip_space(text.p, end);
    if (c == end) return false;
    if (*c == '[') {
        c = skip_space(c + 1, end);
        return c < end && (*c == '{' || *c == ']');
    }
    static const stw_str key = {"\"traceEvents\"", 13};
    for (int64_t k = 0; *c == '{' && k < NEAR && k + key.length <= end - c; k++) {
        if (memcmp(c + k, key.p, (size_t)key.length) == 0) return true;
    }
    return false;
}

static bool read_text(stw_json *json, stw_str *out) {
    return stw_json_peek(json) == STW_JSON_STRING ? stw_json_string(json, out) : stw_json_skip(json, NULL);
}

static void read_provider(stw_json *json, stw_str *out) {
    stw_str key;
    if (stw_json_peek(json) != STW_JSON_OBJECT) {
        stw_json_skip(json, NULL);
        return;
    }
    if (!stw_json_object(json)) return;
    while (stw_json_key(json, &key)) {
        if (stw_str_is(key, "provider")) {
            read_text(json, out);
        } else {
            stw_json_skip(json, NULL);
        }
    }
}

static stw_status keep(collector *c, stw_ort_time run) {
    TRY(STW_GROW(c->arena, c->run, c->count + 1, c->room, c->error));
    c->run[c->count++] = run;
    return STW_OK;
}

static stw_status read_event(stw_json *json, collector *c) {
    stw_str key, name = {0}, category = {0}, phase = {0}, provider = {0};
    double us = -1.0;
    if (stw_json_peek(json) != STW_JSON_OBJECT) return stw_json_skip(json, NULL) ? STW_OK : STW_ERROR_INPUT;
    if (!stw_json_object(json)) return STW_ERROR_INPUT;
    while (stw_json_key(json, &key)) {
        if (stw_str_is(key, "cat")) {
            read_text(json, &category);
        } else if (stw_str_is(key, "ph")) {
            read_text(json, &phase);
        } else if (stw_str_is(key, "name")) {
            read_text(json, &name);
        } else if (stw_str_is(key, "args")) {
            read_provider(json, &provider);
        } else if (stw_str_is(key, "dur") && stw_json_peek(json) == STW_JSON_NUMBER) {
            stw_json_double(json, &us);
        } else {
            stw_json_skip(json, NULL);
        }
    }
    if (json->failed) return STW_ERROR_INPUT;
    const bool counts = stw_str_is(category, "Node") && (phase.length == 0 || stw_str_is(phase, "X")) && us >= 0.0 &&
                        provider.length > 0 && stw_str_ends(name, suffix) && name.length > (int64_t)sizeof suffix - 1;
    if (!counts) return STW_OK;
    name.length -= (int64_t)sizeof suffix - 1;
    return keep(c, (stw_ort_time){name, provider, us});
}

static stw_status read_events(stw_json *json, collector *c) {
    if (!stw_json_array(json)) return STW_ERROR_INPUT;
    while (stw_json_item(json)) TRY(read_event(json, c));
    return json->failed ? STW_ERROR_INPUT : STW_OK;
}

static int compare_text(stw_str a, stw_str b) {
    const int64_t shorter = a.length < b.length ? a.length : b.length;
    const int order = shorter > 0 ? memcmp(a.p, b.p, (size_t)shorter) : 0;
    return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

static int compare_runs(const void *left, const void *right) {
    const stw_ort_time *a = left, *b = right;
    int order = compare_text(a->name, b->name);
    if (order == 0) order = compare_text(a->provider, b->provider);
    return order != 0 ? order : (a->us > b->us) - (a->us < b->us);
}

/* Runs of one node stand together, shortest first; of an even number the lower middle one counts. */
static void take_medians(collector *c, stw_ort_profile *out) {
    if (c->count > 0) qsort(c->run, (size_t)c->count, sizeof *c->run, compare_runs);
    *out = (stw_ort_profile){.time = c->run};
    for (int64_t first = 0, next = 0; first < c->count; first = next) {
        const stw_ort_time *one = &c->run[first];
        while (next < c->count && stw_str_equal(c->run[next].name, one->name) &&
               stw_str_equal(c->run[next].provider, one->provider))
            next++;
        out->time[out->count++] = c->run[first + (next - first - 1) / 2];
    }
}

stw_status stw_ort_profile_read(stw_str text, stw_arena *arena, stw_ort_profile *out, stw_error *error) {
    stw_json json;
    stw_str key;
    collector c = {.arena = arena, .error = error};
    stw_status status = STW_OK;
    stw_json_init(&json, text, arena, error);
    if (stw_json_peek(&json) == STW_JSON_ARRAY) {
        status = read_events(&json, &c);
    } else if (stw_json_object(&json)) {
        while (status == STW_OK && stw_json_key(&json, &key)) {
            if (stw_str_is(key, "traceEvents")) {
                status = read_events(&json, &c);
            } else {
                stw_json_skip(&json, NULL);
            }
        }
    }
    if (status == STW_ERROR_MEMORY) return status;
    TRY(stw_json_finish(&json));
    take_medians(&c, out);
    if (out->count > 0) return STW_OK;
    return stw_fail(
        error, STW_ERROR_INPUT,
        "no times of nodes (events of category Node named NODE_kernel_time, with a provider); is it a profile of ONNX "
        "Runtime?");
}
