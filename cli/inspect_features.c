/* `stowage inspect GRAPH --features`: the matrices that a policy sees of a graph on a machine; feedback and pairs for the plan
 * that the method `single` makes. */
#include <math.h>
#include <string.h>

#include "api/settings.h"
#include "cli.h"
#include "feature/feature.h"
#include "plan/plan.h"
#include "sim/critical.h"

static const char plan_method[] = "single";

typedef struct shown {
    stw_graph *graph;
    stw_machine *own_machine; /* NULL: the graph brought one */
    const stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_plan *plan;
    stw_workspace *workspace;
    stw_features features;
    double *feedback, *pair; /* NULL: no plan has a timeline */
} shown;

static stw_status open_problem(const cli_call *call, shown *s, stw_error *error) {
    const char *path = call->operand[0], *machine = stw_options_get(call->options, "machine");
    if (machine != NULL && strcmp(machine, "-") == 0 && strcmp(path, "-") == 0) {
        return stw_fail(error, STW_ERROR_INPUT, "'-' (standard input) can be read only once");
    }
    TRY(stw_graph_open(path, call->options, &s->graph, error));
    if (machine != NULL) TRY(stw_machine_open(machine, &s->own_machine, error));
    s->machine = s->own_machine != NULL ? s->own_machine : s->graph->machine;
    if (s->machine == NULL) {
        return stw_fail(error, STW_ERROR_INPUT, "--features needs a machine, such as --machine h200x4: the graph brings none");
    }
    TRY(stw_costs_create(s->graph, s->machine, NULL, &s->costs, error));
    return stw_simulator_create(s->costs, &s->simulator, error);
}

static stw_status build_features(shown *s, int32_t unit_count, stw_arena *arena, stw_error *error) {
    stw_unit_levels *levels;
    STW_TRY_NEW(arena, levels, 1, error);
    TRY(stw_units_build(s->graph, s->costs->least_us, &unit_count, unit_count > 0 ? 1 : 0, arena, levels, error));
    return stw_features_build(s->costs, &s->simulator->unfused, &levels->level[levels->count - 1], arena, &s->features, error);
}

/* Runs the plan; without a timeline there is no feedback. */
static stw_status look_at_plan(shown *s, stw_arena *arena, stw_error *error) {
    const stw_features *f = &s->features;
    stw_evaluation result;
    int32_t *critical;
    stw_feedback_input input = {0};
    TRY(stw_method_run(plan_method, s->simulator, NULL, &s->plan, error));
    TRY(stw_workspace_create(s->simulator, &s->workspace, error));
    TRY(stw_simulate(s->simulator, s->plan, s->workspace, &result, error));
    if (result.reason != STW_VALID && result.reason != STW_INVALID_MEMORY) return STW_OK;
    STW_TRY_NEW(arena, s->feedback, (int64_t)f->M * stw_feature_count(STW_FEATURES_FEEDBACK), error);
    STW_TRY_NEW(arena, s->pair, (int64_t)f->M * f->D * stw_feature_count(STW_FEATURES_PAIR), error);
    STW_TRY_NEW(arena, critical, s->simulator->unfused.T, error);
    TRY(stw_critical_path(s->workspace, critical, s->simulator->unfused.T, &input.critical_count, *arena, error));
    input.device = s->plan->device;
    input.step_ps = result.step_ps;
    input.start_ps = s->workspace->timeline.start_ps;
    input.end_ps = s->workspace->timeline.end_ps;
    input.critical = critical;
    input.busy_ps = result.busy_ps;
    input.priority = s->plan->priority;
    return stw_features_feedback(f, &input, s->feedback, s->pair, *arena, error);
}

/* ---- text ---- */

/* Without the "-0.000" of roundings. */
static void add_number(cli_table *table, double x) { cli_table_add(table, CLI_PLAIN, "%.3f", fabs(x) < 5e-4 ? 0.0 : x); }

static void print_set(const char *title, stw_feature_set set, const double *matrix, int64_t rows, stw_arena arena) {
    static const cli_column columns[] = {{"column", CLI_LEFT}, {"min", CLI_RIGHT}, {"mean", CLI_RIGHT}, {"max", CLI_RIGHT}};
    const int32_t count = stw_feature_count(set);
    cli_table table;
    printf("\n");
    cli_heading("%s", title);
    cli_table_begin(&table, &arena, columns, 4);
    for (int32_t k = 0; k < count; k++) {
        double least = INFINITY, sum = 0.0, most = -INFINITY;
        for (int64_t r = 0; r < rows; r++) {
            const double x = matrix[r * count + k];
            least = fmin(least, x);
            most = fmax(most, x);
            sum += x;
        }
        cli_table_add(&table, CLI_PLAIN, "%s", stw_feature_name(set, k));
        add_number(&table, rows > 0 ? least : 0.0);
        add_number(&table, rows > 0 ? sum / (double)rows : 0.0);
        add_number(&table, rows > 0 ? most : 0.0);
    }
    cli_table_print(&table, stdout);
}

static void print_text(const shown *s, stw_arena arena) {
    const stw_features *f = &s->features;
    cli_heading("features of %.*s on %.*s, version %d", STW_STR_SHOW(s->graph->name), STW_STR_SHOW(s->machine->name),
                STW_FEATURE_VERSION);
    printf("  %s units, %d %s, feedback of the plan '%s'; docs/features.md says what the columns mean\n", cli_count(f->M).text,
           f->D, f->D == 1 ? "device" : "devices", plan_method);
    print_set("unit", STW_FEATURES_UNIT, f->unit, f->M, arena);
    if (s->feedback != NULL) print_set("feedback", STW_FEATURES_FEEDBACK, s->feedback, f->M, arena);
    print_set("device", STW_FEATURES_DEVICE, f->device, f->D, arena);
    if (s->pair != NULL) print_set("unit and device", STW_FEATURES_PAIR, s->pair, (int64_t)f->M * f->D, arena);
}

/* ---- JSON ---- */

static void write_numbers(stw_json_writer *writer, const double *x, int32_t count) {
    stw_json_begin_array(writer);
    for (int32_t k = 0; k < count; k++) stw_json_write_double(writer, x[k]);
    stw_json_end_array(writer);
}

/* inner > 0: every row holds that many rows of numbers. */
static void write_set(stw_json_writer *writer, const char *key, stw_feature_set set, const double *matrix, int32_t rows,
                      int32_t inner) {
    const int32_t count = stw_feature_count(set);
    stw_json_newline(writer);
    stw_json_write_key(writer, key);
    if (matrix == NULL) {
        stw_json_write_null(writer);
        return;
    }
    stw_json_begin_object(writer);
    stw_json_write_key(writer, "columns");
    stw_json_begin_array(writer);
    for (int32_t k = 0; k < count; k++) stw_json_write_string(writer, stw_str_of(stw_feature_name(set, k)));
    stw_json_end_array(writer);
    stw_json_write_key(writer, "rows");
    stw_json_begin_array(writer);
    for (int32_t r = 0; r < rows; r++) {
        stw_json_newline(writer);
        if (inner == 0) {
            write_numbers(writer, matrix + (int64_t)r * count, count);
            continue;
        }
        stw_json_begin_array(writer);
        for (int32_t d = 0; d < inner; d++) write_numbers(writer, matrix + ((int64_t)r * inner + d) * count, count);
        stw_json_end_array(writer);
    }
    stw_json_end_array(writer);
    stw_json_end_object(writer);
}

static void print_json(const shown *s) {
    const stw_features *f = &s->features;
    stw_json_writer writer;
    stw_json_writer_init(&writer, stdout);
    stw_json_begin_object(&writer);
    stw_json_field_text(&writer, "graph", s->graph->name);
    stw_json_field_text(&writer, "machine", s->machine->name);
    stw_json_field_int64(&writer, "version", STW_FEATURE_VERSION);
    stw_json_field_int64(&writer, "units", f->M);
    stw_json_field_int64(&writer, "devices", f->D);
    stw_json_field_text(&writer, "plan", stw_str_of(plan_method));
    write_set(&writer, "unit", STW_FEATURES_UNIT, f->unit, f->M, 0);
    write_set(&writer, "feedback", STW_FEATURES_FEEDBACK, s->feedback, f->M, 0);
    write_set(&writer, "device", STW_FEATURES_DEVICE, f->device, f->D, 0);
    write_set(&writer, "pair", STW_FEATURES_PAIR, s->pair, f->M, f->D);
    stw_json_newline(&writer);
    stw_json_write_key(&writer, "operator");
    stw_json_begin_array(&writer);
    for (int32_t u = 0; u < f->M; u++) stw_json_write_int64(&writer, f->operator_[u]);
    stw_json_end_array(&writer);
    stw_json_end_object(&writer);
    printf("\n");
}

static void close_problem(shown *s) {
    stw_workspace_destroy(s->workspace);
    stw_plan_destroy(s->plan);
    stw_simulator_destroy(s->simulator);
    stw_costs_destroy(s->costs);
    stw_machine_destroy(s->own_machine);
    stw_graph_destroy(s->graph);
}

stw_status cli_show_features(const cli_call *call, stw_error *error) {
    stw_arena arena = call->arena;
    stw_settings settings;
    shown s = {0};
    stw_status status = stw_settings_read(call->options, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE, &settings, error);
    if (status == STW_OK) status = open_problem(call, &s, error);
    if (status == STW_OK) status = build_features(&s, settings.unit_count, &arena, error);
    if (status == STW_OK) status = look_at_plan(&s, &arena, error);
    if (status == STW_OK && cli_wants_json(call)) {
        print_json(&s);
    } else if (status == STW_OK) {
        print_text(&s, arena);
    }
    close_problem(&s);
    return status;
}
