/* Measured times from files of any format that we know: the rows of a CSV, a profile of ONNX Runtime, statistics of TensorFlow.
 * What names devices in its own way is brought to the machine's kinds here; cost/ knows rows alone. */
#include <math.h>
#include <string.h>

#include "api/options.h"
#include "base/array.h"
#include "cost/cost.h"
#include "import/profile/ort_profile.h"
#include "import/profile/tf_costs.h"

typedef enum { ON_CPU, ON_GPU, ELSEWHERE } place; /* what a file says of the device of a time */
static const char *const place_name[] = {"CPUs", "GPUs", "other devices"};

typedef struct {
    stw_arena *arena;
    const stw_machine *machine;
    int32_t kind_count[2];
    stw_str kind[2][STW_MAX_DEVICES]; /* the machine's, CPUs and all others */
    stw_cost_rows rows;
    int64_t room;
    int64_t times, passed_over[3]; /* by place */
    stw_error *error;
} conversion;

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* In letters of either case. */
static bool contains(stw_str text, const char *word) {
    const int64_t length = (int64_t)strlen(word);
    for (int64_t i = 0; i + length <= text.length; i++) {
        int64_t k = 0;
        while (k < length && lower(text.p[i + k]) == word[k]) k++;
        if (k == length) return true;
    }
    return false;
}

/* A kind that begins with "cpu" is a CPU, any other a GPU. */
static void find_kinds(conversion *c) {
    for (int32_t d = 0; d < c->machine->device_count; d++) {
        const stw_str kind = c->machine->device[d].kind;
        const place on = stw_str_starts(kind, "cpu") ? ON_CPU : ON_GPU;
        int32_t k = 0;
        while (k < c->kind_count[on] && !stw_str_equal(c->kind[on][k], kind)) k++;
        if (k == c->kind_count[on]) c->kind[on][c->kind_count[on]++] = kind;
    }
}

/* A time goes to every kind of the machine that it may be of. */
static stw_status add_time(conversion *c, stw_str name, place on, double us) {
    const int32_t kinds = on == ELSEWHERE ? 0 : c->kind_count[on];
    if (us > STW_GRAPH_MAX_US) {
        return stw_fail(
            c->error, STW_ERROR_INPUT,
            "'%.*s': a time of %g us; at most %g (23 days) are possible; was the profile cut off while it was written?",
            STW_STR_SHOW(name), us, STW_GRAPH_MAX_US);
    }
    c->times++;
    c->passed_over[on] += kinds == 0;
    for (int32_t k = 0; k < kinds; k++) {
        TRY(STW_GROW(c->arena, c->rows.row, c->rows.count + 1, c->room, c->error));
        c->rows.row[c->rows.count++] = (stw_cost_row){.name = name, .kind = c->kind[on][k], .us = us, .again = k > 0};
    }
    return STW_OK;
}

static stw_status note_passed_over(conversion *c) {
    char text[200] = "";
    size_t length = 0;
    for (int on = 0; on < 3; on++) {
        if (c->passed_over[on] == 0) continue;
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%lld of %s", length > 0 ? ", " : "",
                                   (long long)c->passed_over[on], place_name[on]);
    }
    if (length == 0) return STW_OK;
    c->rows.note = stw_str_format(c->arena, "of %lld measured times %s are passed over: the machine has none of these",
                                  (long long)c->times, text);
    return c->rows.note.p != NULL ? STW_OK : stw_fail(c->error, STW_ERROR_MEMORY, "out of memory");
}

/* ---- ONNX Runtime ---- */

static place place_of_provider(stw_str provider) {
    static const char *const cpu[] = {"cpu", "dnnl", "xnnpack", "acl", "armnn"};
    static const char *const gpu[] = {"cuda", "tensorrt", "rocm", "migraphx", "dml", "webgpu"};
    for (size_t k = 0; k < sizeof cpu / sizeof cpu[0]; k++) {
        if (contains(provider, cpu[k])) return ON_CPU;
    }
    for (size_t k = 0; k < sizeof gpu / sizeof gpu[0]; k++) {
        if (contains(provider, gpu[k])) return ON_GPU;
    }
    return ELSEWHERE;
}

static stw_status convert_profile(conversion *c, stw_str text) {
    stw_ort_profile profile;
    TRY(stw_ort_profile_read(text, c->arena, &profile, c->error));
    for (int64_t i = 0; i < profile.count; i++) {
        TRY(add_time(c, profile.time[i].name, place_of_provider(profile.time[i].provider), profile.time[i].us));
    }
    return STW_OK;
}

/* ---- TensorFlow ---- */

/* "/job:gpu_worker/replica:0/task:0/device:CPU:0": the last part tells; "/gpu:0" in old files. */
static place place_of_device(stw_str device) {
    static const char part[] = "device:";
    int64_t begin = 0;
    for (int64_t k = 0; k < device.length; k++) {
        const stw_str rest = {device.p + k, device.length - k};
        if (stw_str_starts(rest, part)) begin = k + (int64_t)sizeof part - 1;
    }
    const stw_str name = {device.p + begin, device.length - begin};
    return contains(name, "gpu") ? ON_GPU : contains(name, "cpu") ? ON_CPU : ELSEWHERE;
}

static stw_status convert_statistics(conversion *c, stw_str bytes, const stw_graph *graph) {
    stw_tf_costs all;
    TRY(stw_tf_costs_read(bytes, c->arena, &all, c->error));
    for (int on = ON_CPU; on <= ELSEWHERE; on++) {
        stw_tf_costs some = {0};
        double *us = NULL;
        STW_TRY_NEW(c->arena, some.row, all.count, c->error);
        for (int64_t i = 0; i < all.count; i++) {
            if (place_of_device(all.row[i].device) == (place)on) some.row[some.count++] = all.row[i];
        }
        int64_t unmatched = 0;
        TRY(stw_tf_costs_times(&some, graph, c->arena, &us, &unmatched, c->error));
        if (on != ELSEWHERE && c->kind_count[on] > 0) c->rows.unmatched += unmatched;
        for (int32_t i = 0; i < graph->N; i++) {
            if (!isnan(us[i])) TRY(add_time(c, graph->node_name[i], (place)on, us[i]));
        }
    }
    return STW_OK;
}

/* ---- any of them ---- */

static stw_status convert(conversion *c, stw_str bytes, const stw_graph *graph) {
    find_kinds(c);
    c->rows.unit = "times";
    if (stw_ort_profile_is(bytes)) {
        c->rows.remedy =
            "views and shape arithmetic are no ops, and ONNX Runtime renames what it fuses, so profile with its optimizations "
            "off";
        TRY(convert_profile(c, bytes));
    } else if (stw_tf_costs_is(bytes)) {
        c->rows.remedy = "views, constants and what TensorFlow adds are no ops; for the rest, profile this graph";
        TRY(convert_statistics(c, bytes, graph));
    } else {
        c->rows.unit = "rows";
        c->rows.remedy = "'stowage export --to csv' lists the names of ops";
        return stw_cost_csv_parse(bytes, c->arena, &c->rows.row, &c->rows.count, c->error);
    }
    return note_passed_over(c);
}

static stw_status create(const stw_graph *graph, const stw_machine *machine, const char *path, const stw_file_limits *limits,
                         bool learned, stw_arena *arena, stw_costs **out, stw_error *error) {
    conversion c = {.arena = arena, .machine = machine, .error = error};
    stw_str bytes;
    TRY(stw_file_read_within(path, limits, arena, &bytes, error));
    stw_status status = convert(&c, bytes, graph);
    if (status == STW_OK) status = stw_costs_from_rows(graph, machine, &c.rows, learned, out, error);
    if (status == STW_ERROR_INPUT) stw_error_prefix(error, stw_file_label(path));
    return status;
}

stw_status stw_costs_create(const stw_graph *graph, const stw_machine *machine, const stw_options *options, stw_costs **out,
                            stw_error *error) {
    STW_NEED(graph);
    STW_NEED(machine);
    STW_NEED(out);
    const char *path = stw_options_text(options, "costs");
    const stw_file_limits limits = stw_options_file_limits(options);
    stw_arena arena;
    *out = NULL;
    const char *kernels = stw_options_text(options, "kernels");
    const bool learned = kernels != NULL && strcmp(kernels, "learned") == 0;
    if (path == NULL) return stw_costs_from_rows(graph, machine, NULL, learned, out, error);
    TRY(stw_arena_create(&arena, error));
    const stw_status status = create(graph, machine, path, &limits, learned, &arena, out, error);
    stw_arena_destroy(&arena);
    return status;
}
