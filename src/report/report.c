/* The report of a plan: the default and the plan are simulated and explained, and everything goes into one file. */
#include "report/report.h"

#include <string.h>
#include <sys/stat.h>

#include "driver/runner.h"

typedef struct report {
    const stw_simulator *simulator;
    const stw_plan *plan;
    const stw_result *result; /* or NULL */
    const stw_options *options;
    const char *path;
    stw_arena *arena;
    stw_report_run run[2];
    char note[600];
    stw_report_parts parts;
} report;

/* ---- the default ---- */

static bool is_fused(const stw_plan *plan) {
    const stw_graph *graph = plan->graph;
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t i = graph->topological[k];
        if (plan->group[i] != i) return true;
    }
    return false;
}

/* What the search compared with, if there was one; else everything on the fastest device, fused by the usual rule if the plan
 * fuses anything. */
static stw_status find_default(const report *r, stw_report_run *run, stw_error *error) {
    const stw_entry *first = r->result != NULL && r->result->count > 0 ? r->result->entry[0] : NULL;
    const bool compares =
        first != NULL && (strcmp(first->candidate.method, "single") == 0 || strcmp(first->candidate.method, "given") == 0);
    if (compares && first->plan != NULL) {
        run->plan = first->plan;
        return STW_OK;
    }
    TRY(stw_method_run("single", r->simulator, NULL, &run->owned_plan, error));
    if (is_fused(r->plan)) TRY(stw_plan_fuse(run->owned_plan, r->simulator->costs, "default", error));
    run->plan = run->owned_plan;
    return STW_OK;
}

static bool is_same_plan(const stw_plan *a, const stw_plan *b) {
    const stw_graph *graph = a->graph;
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t i = graph->topological[k];
        if (a->device[i] != b->device[i] || a->group[i] != b->group[i] || a->priority[i] < b->priority[i] ||
            a->priority[i] > b->priority[i])
            return false;
    }
    return !stw_plan_has_orders(a) && !stw_plan_has_orders(b);
}

/* Leaves it out, and says why, where it is the plan itself or has no step. */
static stw_status add_default(report *r, stw_error *error) {
    stw_report_run *run = &r->run[0];
    stw_error reason;
    run->title = "default";
    stw_status status = find_default(r, run, &reason);
    if (status == STW_OK && is_same_plan(run->plan, r->plan)) {
        snprintf(r->note, sizeof r->note, "The plan is the default itself.");
    } else if (status == STW_OK && (status = stw_report_run_create(r->simulator, run, &reason)) == STW_OK) {
        return STW_OK;
    }
    stw_report_run_destroy(run);
    *run = (stw_report_run){0};
    if (status == STW_OK) return STW_OK;
    if (status != STW_ERROR_NO_PLAN) return stw_fail(error, status, "%s", reason.message);
    snprintf(r->note, sizeof r->note, "The default is not shown: %s.", reason.message);
    return STW_OK;
}

/* ---- what else is known ---- */

/* The keys "candidates" and "objective" of the plan's file, if "plan" names one. */
static stw_status read_candidates(report *r, stw_error *error) {
    const char *path = stw_options_text(r->options, "plan");
    struct stat info;
    stw_str text, key;
    stw_json json;
    if (r->result != NULL || path == NULL || strcmp(path, "-") == 0 || stw_method_exists(path)) return STW_OK;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return STW_OK;
    TRY(stw_file_read(path, r->arena, &text, error));
    stw_json_init(&json, text, r->arena, NULL);
    if (stw_json_peek(&json) != STW_JSON_OBJECT || !stw_json_object(&json))
        return STW_OK; /* what it says of ops was read before */
    while (stw_json_key(&json, &key)) {
        const stw_json_type type = stw_json_peek(&json);
        stw_str raw;
        if (type == STW_JSON_STRING && stw_str_is(key, "objective")) {
            if (stw_json_string(&json, &raw)) r->parts.objective = raw;
        } else if (stw_json_skip(&json, &raw) && type == STW_JSON_ARRAY && stw_str_is(key, "candidates")) {
            r->parts.candidates = raw;
        }
    }
    return STW_OK;
}

static stw_status find_parts(report *r, stw_error *error) {
    const char *measured = stw_options_text(r->options, "measured");
    stw_report_parts *parts = &r->parts;
    const bool has_default = r->run[0].plan != NULL;
    *parts = (stw_report_parts){.simulator = r->simulator,
                                .run = has_default ? r->run : r->run + 1,
                                .run_count = has_default ? 2 : 1,
                                .note = r->note,
                                .result = r->result};
    TRY(read_candidates(r, error));
    TRY(stw_lower_bounds(r->simulator, r->plan, &parts->bounds, error));
    TRY(stw_report_modules(r->simulator->graph, r->arena, &parts->modules, error));
    if (measured == NULL) return STW_OK;
    return stw_report_measured(measured, r->options, r->simulator->graph, r->simulator->machine, r->arena, &parts->measured,
                               error);
}

/* ---- the file ---- */

static stw_status write_page(const report *r, FILE *file, stw_error *error) {
    stw_payload payload = {.arena = r->arena};
    stw_str *op_name, head;
    int32_t op_count;
    TRY(stw_report_nodes_add(&r->parts, &payload, &op_name, &op_count, error));
    for (int32_t k = 0; k < r->parts.run_count; k++) TRY(stw_report_run_add(&r->parts.run[k], k, &payload, error));
    TRY(stw_report_measured_add(&r->parts.measured, &payload, error));
    TRY(stw_report_head(&r->parts, op_name, op_count, &payload, &head, error));
    return stw_report_page(&payload, head, file, error);
}

static stw_status write_report(report *r, stw_error *error) {
    stw_output output;
    r->run[1] = (stw_report_run){.title = "plan", .plan = r->plan};
    TRY(stw_report_run_create(r->simulator, &r->run[1], error));
    TRY(add_default(r, error));
    TRY(find_parts(r, error));
    TRY(stw_output_open(&output, r->path, error));
    const stw_status status = write_page(r, output.file, error);
    if (status == STW_OK) return stw_output_commit(&output, error);
    stw_output_discard(&output);
    return status;
}

stw_status stw_plan_report(const stw_simulator *simulator, const stw_plan *plan, const stw_result *result,
                           const stw_options *options, const char *path, stw_error *error) {
    STW_NEED(simulator);
    STW_NEED(plan);
    STW_NEED(path);
    stw_arena arena;
    TRY(stw_arena_create(&arena, error));
    report r = {.simulator = simulator, .plan = plan, .result = result, .options = options, .path = path, .arena = &arena};
    const stw_status status = write_report(&r, error);
    for (int k = 0; k < 2; k++) stw_report_run_destroy(&r.run[k]);
    stw_arena_destroy(&arena);
    return status;
}
