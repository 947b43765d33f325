/* The formats that a plan goes out in, and what all of them need: the plan's timeline and, for some, the model file. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "export/export.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/options.h"

/* What a format is like: it needs the file that the graph was read from; it speaks of modules, so that "strip" has a meaning. */
enum { NEEDS_MODEL = 1u << 0, HAS_MODULES = 1u << 1 };

typedef struct export_format {
    const char *name, *description;
    stw_status (*write)(stw_export *e, stw_error *error);
    unsigned traits; /* of the above */
    stw_target target;
} export_format;

static const export_format formats[] = {
    {"onnx", "the ONNX model with a device, priority and group at each node, nodes in planned order", stw_export_onnx,
     NEEDS_MODEL, STW_TARGET_SESSIONS},
    {"hlo", "the HLO module, text or protobuf as it came, with the plan's schedule, fusions and devices", stw_export_hlo,
     NEEDS_MODEL, STW_TARGET_ONE},
    {"hlo-text", "the same as HLO text, for reading", stw_export_hlo_text, NEEDS_MODEL, STW_TARGET_ONE},
    {"graphdef", "the TensorFlow graph, binary or text as it came, with device strings", stw_export_graphdef, NEEDS_MODEL,
     STW_TARGET_READY},
    {"device-map", "JSON: module names to devices, as Hugging Face's device_map takes them", stw_export_device_map, HAS_MODULES,
     STW_TARGET_MODULES},
    {"split-points", "JSON: the modules where a pipeline over the devices is to be split", stw_export_split_points, HAS_MODULES,
     STW_TARGET_MODULES},
    {"trace", "the simulated step as a timeline for chrome://tracing or Perfetto", stw_export_trace, 0, STW_TARGET_PLAN},
    {"dot", "a drawing of a small graph for Graphviz, coloured by device", stw_export_dot, 0, STW_TARGET_PLAN},
    {"csv", "a table of the nodes: device, priority, group, start, end, bytes", stw_export_csv, 0, STW_TARGET_PLAN},
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

bool stw_export_list(int32_t index, const char **name, const char **description) {
    STW_NEED(name);
    if (index < 0 || index >= FORMATS) return false;
    *name = formats[index].name;
    *description = formats[index].description;
    return true;
}

static const export_format *find_format(const char *name) {
    for (int k = 0; k < FORMATS; k++) {
        if (strcmp(formats[k].name, name) == 0) return &formats[k];
    }
    return NULL;
}

static stw_status read_model(stw_export *e, const char *format, const stw_options *options, const stw_export_io *io,
                             stw_error *error) {
    const char *path = io->model_path;
    const stw_file_limits limits = stw_options_file_limits(options);
    if (io->model != NULL)
        return stw_unpack_within((stw_str){io->model, (int64_t)io->model_size}, &limits, e->arena, &e->model, error);
    if (path == NULL) return stw_fail(error, STW_ERROR_INPUT, "format '%s' needs the model that the graph was read from", format);
    struct stat info;
    if (strcmp(path, "-") == 0 || (stat(path, &info) == 0 && !S_ISREG(info.st_mode))) {
        return stw_fail(error, STW_ERROR_INPUT,
                        "format '%s' reads the model again, so it cannot come from standard input or a pipe; name its file",
                        format);
    }
    return stw_file_read_within(path, &limits, e->arena, &e->model, error);
}

/* ---- the order of the tasks ---- */

typedef struct begun { /* a task */
    int64_t start_ps, end_ps;
    int32_t task;
} begun;

static int compare_begun(const void *left, const void *right) {
    const begun *a = left, *b = right;
    if (a->start_ps != b->start_ps) return a->start_ps < b->start_ps ? -1 : 1;
    if (a->end_ps != b->end_ps) return a->end_ps < b->end_ps ? -1 : 1; /* one that takes no time may feed the other */
    return a->task - b->task;
}

static stw_status rank_tasks(stw_export *e, stw_error *error) {
    const stw_tasks *tasks = e->timeline->tasks;
    begun *sequence;
    int32_t *task_rank, *rank;
    STW_TRY_NEW(e->arena, sequence, tasks->T, error);
    STW_TRY_NEW(e->arena, task_rank, tasks->T, error);
    STW_TRY_NEW(e->arena, rank, e->graph->N, error);
    for (int32_t t = 0; t < tasks->T; t++) sequence[t] = (begun){e->timeline->start_ps[t], e->timeline->end_ps[t], t};
    qsort(sequence, (size_t)tasks->T, sizeof *sequence, compare_begun);
    for (int32_t k = 0; k < tasks->T; k++) task_rank[sequence[k].task] = k;
    for (int32_t i = 0; i < e->graph->N; i++) rank[i] = tasks->task_of[i] >= 0 ? task_rank[tasks->task_of[i]] : -1;
    e->rank = rank;
    return STW_OK;
}

static stw_status evaluate(stw_export *e, stw_workspace *workspace, stw_error *error) {
    const stw_run_options options = {.record_memory = true};
    stw_evaluation result;
    TRY(stw_simulator_run(e->simulator, e->plan, &options, workspace, &result, error));
    if (result.peak_bytes == NULL)
        return stw_fail(error, STW_ERROR_NO_PLAN, "the plan has no step to export: %s", result.message);
    e->timeline = &workspace->timeline;
    if (result.reason != STW_VALID) {
        e->warning = stw_str_format(e->arena, "the plan does not fit: %s\n", result.message);
        if (e->warning.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    }
    return rank_tasks(e, error);
}

/* ---- writing ---- */

/* What cannot be priced is not written either. */
static stw_status write_priced(stw_export *e, const export_format *format, stw_error *error) {
    TRY(format->write(e, error));
    return stw_export_price(e, error);
}

static stw_status write_file(stw_export *e, const export_format *format, const char *path, stw_error *error) {
    stw_output output;
    TRY(stw_output_open(&output, path, error));
    e->out = output.file;
    const stw_status status = write_priced(e, format, error);
    if (status == STW_OK) return stw_output_commit(&output, error);
    stw_output_discard(&output);
    return status;
}

static stw_status write_memory(stw_export *e, const export_format *format, stw_export_io *io, stw_error *error) {
    e->out = open_memstream(&io->bytes, &io->size);
    if (e->out == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    stw_status status = write_priced(e, format, error);
    const bool lost = ferror(e->out) != 0;
    if ((fclose(e->out) != 0 || lost) && status == STW_OK) status = stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    if (status == STW_OK) return STW_OK;
    free(io->bytes);
    io->bytes = NULL;
    io->size = 0;
    return status;
}

static stw_status write_plan(stw_export *e, const export_format *format, stw_export_io *io, stw_error *error) {
    stw_workspace *workspace;
    TRY(stw_workspace_create(e->simulator, &workspace, error));
    stw_status status = evaluate(e, workspace, error);
    if (status == STW_OK) status = io->path == NULL ? write_memory(e, format, io, error) : write_file(e, format, io->path, error);
    stw_workspace_destroy(workspace);
    return status;
}

static stw_status read_options(stw_export *e, const export_format *format, const stw_options *options, stw_error *error) {
    const char *strip = stw_options_text(options, "strip");
    if (strip == NULL) return STW_OK;
    if ((format->traits & HAS_MODULES) == 0)
        return stw_fail(error, STW_ERROR_INPUT, "--strip goes with device-map and split-points, not with '%s'", format->name);
    e->strip = stw_str_of(strip);
    if (e->strip.length > 1 && e->strip.p[e->strip.length - 1] == '.') e->strip.length--;
    return STW_OK;
}

stw_status stw_plan_export(const stw_simulator *simulator, const stw_plan *plan, const char *format, const stw_options *options,
                           stw_export_io *io, stw_error *error) {
    STW_NEED(simulator);
    STW_NEED(plan);
    STW_NEED(format);
    STW_NEED(io);
    io->bytes = NULL;
    io->size = 0;
    io->note[0] = '\0';
    const export_format *found = find_format(format);
    if (found == NULL) return stw_fail(error, STW_ERROR_INPUT, "'%.60s' is not a format that plans are exported to", format);
    stw_arena arena;
    TRY(stw_arena_create(&arena, error));
    stw_export e = {.simulator = simulator,
                    .graph = simulator->graph,
                    .machine = simulator->machine,
                    .plan = plan,
                    .target = found->target,
                    .model_path = io->model_path,
                    .path = io->path,
                    .arena = &arena};
    stw_status status = read_options(&e, found, options, error);
    if (status == STW_OK && (found->traits & NEEDS_MODEL) != 0) status = read_model(&e, format, options, io, error);
    if (status == STW_OK) status = write_plan(&e, found, io, error);
    if (status == STW_OK) {
        io->exported_s = e.price.exported_s;
        io->plan_s = e.price.plan_s;
        io->one_device_s = e.price.one_device_s;
        snprintf(io->note, sizeof io->note, "%.*s%.*s%.*s", (int)e.price_note.length, e.price_note.p, (int)e.warning.length,
                 e.warning.p, (int)e.note.length, e.note.p);
    }
    stw_arena_destroy(&arena);
    return status;
}

void stw_bytes_free(char *bytes) { free(bytes); }
