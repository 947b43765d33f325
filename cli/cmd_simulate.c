/* `stowage simulate`: reads what is needed, makes or reads the plan, evaluates it, reports. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "plan/plan.h"
#include "sim/sim.h"

typedef struct simulation {
    stw_session *session; /* owns the next four */
    const stw_graph *graph;
    const stw_machine *machine;
    const stw_simulator *simulator;
    const stw_plan *plan;
    stw_workspace *workspace;
    stw_evaluation result;
    stw_bounds bounds;
    double measured_share;
    bool has_step; /* there is a timeline: valid, or short of memory only */
} simulation;

/* ---- what the links carried ---- */

enum { MAX_LINK_ROWS = 16 };

typedef struct link_traffic { /* what one link carried */
    int32_t from, to;
    int64_t transfers, bytes;
    double busy_ps; /* transfers may overlap, so that a sum of whole picoseconds could overflow */
} link_traffic;

static double seconds(int64_t ps) { return (double)ps * 1e-12; }

/* Links that carried something, by device indices; in the arena. */
static stw_status count_traffic(const simulation *s, stw_arena *arena, link_traffic **out, int32_t *count, stw_error *error) {
    const int32_t D = s->machine->device_count;
    const stw_transfer *transfer = NULL;
    const int32_t transfers = s->has_step ? stw_workspace_transfers(s->workspace, &transfer) : 0;
    link_traffic *traffic;
    STW_TRY_NEW(arena, traffic, (int64_t)D * D, error);
    for (int32_t i = 0; i < transfers; i++) {
        link_traffic *link = &traffic[(int64_t)transfer[i].from * D + transfer[i].to];
        link->transfers++;
        link->bytes += transfer[i].bytes;
        link->busy_ps += (double)(transfer[i].end_ps - transfer[i].start_ps);
    }
    *count = 0;
    for (int32_t l = 0; l < D * D; l++) { /* keeps those that carried something */
        if (traffic[l].transfers == 0) continue;
        traffic[*count] = traffic[l];
        traffic[*count].from = l / D;
        traffic[(*count)++].to = l % D;
    }
    *out = traffic;
    return STW_OK;
}

/* The busiest first. */
static int by_busy(const void *a, const void *b) {
    const link_traffic *x = a, *y = b;
    if (x->busy_ps != y->busy_ps) return x->busy_ps < y->busy_ps ? 1 : -1;
    return x->from != y->from ? x->from - y->from : x->to - y->to;
}

/* ---- the report for people ---- */

/* A bound of nothing is none. */
static void add_bound(cli_table *table, const char *name, double bound_s, double step_s) {
    if (bound_s <= 0.0) return;
    cli_table_add(table, CLI_PLAIN, "%s", name);
    if (step_s > 0.0) {
        cli_table_add(table, CLI_PLAIN, "%s; the step is %s above it", cli_time(bound_s, 5).text,
                      cli_percent(step_s / bound_s - 1.0).text);
    } else {
        cli_table_add(table, CLI_PLAIN, "%s", cli_time(bound_s, 5).text);
    }
}

static void print_facts(const simulation *s, stw_arena arena) {
    static const cli_column columns[] = {{NULL, CLI_LEFT}, {NULL, CLI_LEFT}};
    const double step_s = s->has_step ? s->result.step_s : 0.0;
    cli_table table;
    cli_table_begin(&table, &arena, columns, 2);
    cli_table_add(&table, CLI_PLAIN, "step time");
    cli_table_add(&table, s->has_step ? CLI_BOLD : CLI_DIM, "%s", s->has_step ? cli_time(step_s, 5).text : "none");
    add_bound(&table, "lower bound", s->bounds.plan_s, step_s);
    add_bound(&table, "  with any fusion", s->bounds.fusion_s, step_s);
    cli_table_add(&table, CLI_PLAIN, "measured");
    cli_table_add(&table, CLI_PLAIN, "%s of the work", cli_percent(s->measured_share).text);
    cli_table_add(&table, CLI_PLAIN, "valid");
    if (s->result.reason == STW_VALID) {
        cli_table_add(&table, CLI_GREEN, "yes");
    } else {
        cli_table_add(&table, CLI_RED, "no; %s", s->result.message);
    }
    cli_table_print(&table, stdout);
}

static void print_devices(const simulation *s, stw_arena arena) {
    static const cli_column columns[] = {{"device", CLI_LEFT},       {"busy", CLI_RIGHT}, {"idle", CLI_RIGHT},
                                         {"utilisation", CLI_RIGHT}, {"", CLI_LEFT},      {"peak memory", CLI_RIGHT},
                                         {"of", CLI_RIGHT},          {"used", CLI_RIGHT}, {"charged", CLI_RIGHT}};
    const stw_machine *machine = s->machine;
    const double scale = stw_graph_size_scale(s->graph);
    cli_table table;
    cli_table_begin(&table, &arena, columns, machine->charges ? 9 : 8); /* charged: busy with transfers */
    for (int32_t d = 0; d < machine->device_count; d++) {
        const int64_t busy = s->result.busy_ps[d], step = s->result.step_ps;
        const int64_t peak = s->result.peak_bytes[d], memory = machine->device[d].memory_bytes;
        const double utilisation = step > 0 ? (double)busy / (double)step : 0.0;
        cli_table_add(&table, CLI_PLAIN, "%.*s", STW_STR_SHOW(machine->device[d].name));
        cli_table_add(&table, CLI_PLAIN, "%s", cli_time(seconds(busy), 3).text);
        cli_table_add(&table, CLI_PLAIN, "%s", cli_time(seconds(step - busy), 3).text);
        cli_table_add(&table, CLI_PLAIN, "%s", cli_percent(utilisation).text);
        cli_table_add(&table, CLI_PLAIN, "%s", cli_bar(utilisation).text);
        const bool limited = memory < STW_GRAPH_MAX_BYTES; /* no graph is larger */
        cli_table_add(&table, peak > memory ? CLI_RED : CLI_PLAIN, "%s", cli_bytes((double)peak / scale).text);
        cli_table_add(&table, CLI_PLAIN, "%s", limited ? cli_bytes((double)memory / scale).text : "no limit");
        cli_table_add(&table, CLI_PLAIN, "%s", memory > 0 && limited ? cli_percent((double)peak / (double)memory).text : "-");
        if (machine->charges) cli_table_add(&table, CLI_PLAIN, "%s", cli_time(seconds(s->result.charged_ps[d]), 3).text);
    }
    printf("\n");
    cli_table_print(&table, stdout);
}

static stw_status print_links(const simulation *s, stw_arena arena, stw_error *error) {
    static const cli_column columns[] = {
        {"from", CLI_LEFT}, {"to", CLI_LEFT}, {"transfers", CLI_RIGHT}, {"bytes", CLI_RIGHT}, {"busy", CLI_RIGHT}};
    const stw_machine *machine = s->machine;
    link_traffic *traffic;
    int32_t count;
    TRY(count_traffic(s, &arena, &traffic, &count, error));
    if (count == 0) {
        printf("\n  nothing is sent between devices\n");
        return STW_OK;
    }
    qsort(traffic, (size_t)count, sizeof *traffic, by_busy);
    cli_table table;
    cli_table_begin(&table, &arena, columns, 5);
    for (int32_t l = 0; l < count && l < MAX_LINK_ROWS; l++) {
        cli_table_add(&table, CLI_PLAIN, "%.*s", STW_STR_SHOW(machine->device[traffic[l].from].name));
        cli_table_add(&table, CLI_PLAIN, "%.*s", STW_STR_SHOW(machine->device[traffic[l].to].name));
        cli_table_add(&table, CLI_PLAIN, "%s", cli_count(traffic[l].transfers).text);
        const bool is_size = s->graph->size_scale <= 0.0; /* else the file states times, and bytes stand for them */
        cli_table_add(&table, CLI_PLAIN, "%s", is_size ? cli_bytes((double)traffic[l].bytes).text : "-");
        cli_table_add(&table, CLI_PLAIN, "%s", cli_time(traffic[l].busy_ps / 1e12, 3).text);
    }
    printf("\n");
    cli_table_print(&table, stdout);
    if (count > MAX_LINK_ROWS) printf("  and %d more; --format json lists all\n", count - MAX_LINK_ROWS);
    return STW_OK;
}

static stw_status report_text(const simulation *s, stw_arena arena, stw_error *error) {
    const stw_machine *machine = s->machine;
    const stw_str method = s->plan->method;
    cli_heading("%.*s on %.*s%s%.*s", STW_STR_SHOW(s->graph->name), STW_STR_SHOW(machine->name),
                method.length > 0 ? ", plan by " : "", STW_STR_SHOW(method));
    print_facts(s, arena);
    if (!s->has_step) return STW_OK;
    print_devices(s, arena);
    return print_links(s, arena, error);
}

/* ---- the report for programs ---- */

static void write_devices(const simulation *s, stw_json_writer *writer) {
    const stw_machine *machine = s->machine;
    stw_json_write_key(writer, "devices");
    stw_json_begin_array(writer);
    for (int32_t d = 0; d < machine->device_count; d++) {
        stw_json_begin_object(writer);
        stw_json_field_text(writer, "name", machine->device[d].name);
        stw_json_field_double(writer, "busy_s", s->has_step ? seconds(s->result.busy_ps[d]) : NAN);
        if (s->machine->charges) stw_json_field_double(writer, "charged_s", s->has_step ? seconds(s->result.charged_ps[d]) : NAN);
        stw_json_field_double(writer, "idle_s", s->has_step ? seconds(s->result.step_ps - s->result.busy_ps[d]) : NAN);
        cli_field_bytes(writer, "peak_bytes", s->has_step ? s->result.peak_bytes[d] : -1);
        stw_json_end_object(writer);
    }
    stw_json_end_array(writer);
}

static stw_status write_links(const simulation *s, stw_arena arena, stw_json_writer *writer, stw_error *error) {
    const stw_machine *machine = s->machine;
    link_traffic *traffic;
    int32_t count;
    TRY(count_traffic(s, &arena, &traffic, &count, error));
    stw_json_write_key(writer, "links");
    stw_json_begin_array(writer);
    for (int32_t l = 0; l < count; l++) {
        stw_json_begin_object(writer);
        stw_json_field_text(writer, "from", machine->device[traffic[l].from].name);
        stw_json_field_text(writer, "to", machine->device[traffic[l].to].name);
        stw_json_field_int64(writer, "transfers", traffic[l].transfers);
        stw_json_field_int64(writer, "bytes", traffic[l].bytes);
        stw_json_field_double(writer, "busy_s", traffic[l].busy_ps / 1e12);
        stw_json_end_object(writer);
    }
    stw_json_end_array(writer);
    return STW_OK;
}

/* One entry per device, as in plan files; empty when there is no step. */
static void write_peaks(const simulation *s, stw_json_writer *writer) {
    stw_json_write_key(writer, "peak_bytes");
    stw_json_begin_array(writer);
    for (int32_t d = 0; s->has_step && d < s->machine->device_count; d++) stw_json_write_int64(writer, s->result.peak_bytes[d]);
    stw_json_end_array(writer);
}

static stw_status report_json(const simulation *s, stw_arena arena, stw_error *error) {
    const bool valid = s->result.reason == STW_VALID;
    stw_json_writer writer;
    stw_json_writer_init(&writer, stdout);
    stw_json_begin_object(&writer);
    stw_json_field_text(&writer, "graph", s->graph->name);
    stw_json_field_text(&writer, "machine", s->machine->name);
    stw_json_field_double(&writer, "step_s", s->has_step ? s->result.step_s : NAN);
    stw_json_write_key(&writer, "valid");
    stw_json_write_bool(&writer, valid);
    stw_json_field_text(&writer, "reason", valid ? (stw_str){0} : stw_str_of(s->result.message));
    write_peaks(s, &writer);
    stw_json_field_double(&writer, "lower_bound_s", s->bounds.plan_s);
    stw_json_field_double(&writer, "lower_bound_fusion_s", s->bounds.fusion_s);
    stw_json_field_double(&writer, "lower_bound_load_s", s->bounds.load_s);
    cli_field_bytes(&writer, "lower_bound_bytes", s->bounds.peak_bytes);
    stw_json_field_double(&writer, "measured_share", s->measured_share);
    stw_json_write_key(&writer, "warnings");
    stw_json_begin_array(&writer);
    const char *warning;
    for (int32_t k = 0; (warning = stw_session_warning(s->session, k)) != NULL; k++)
        stw_json_write_string(&writer, stw_str_of(warning));
    stw_json_end_array(&writer);
    write_devices(s, &writer);
    TRY(write_links(s, arena, &writer, error));
    stw_json_end_object(&writer);
    printf("\n");
    return STW_OK;
}

/* ---- the command ---- */

typedef struct arguments {
    const char *graph, *machine, *plan, *costs, *output, *trace, *report;
} arguments;

static bool is_dash(const char *path) { return path != NULL && strcmp(path, "-") == 0; }

static stw_status check_arguments(const cli_call *call, arguments *a, stw_error *error) {
    *a = (arguments){.graph = call->operand[0],
                     .machine = stw_options_get(call->options, "machine"),
                     .plan = stw_options_get(call->options, "plan"),
                     .costs = stw_options_get(call->options, "costs"),
                     .output = stw_options_get(call->options, "output"),
                     .trace = stw_options_get(call->options, "trace"),
                     .report = stw_options_get(call->options, "report")};
    if (a->plan == NULL) return stw_fail(error, STW_ERROR_INPUT, "simulate needs --plan FILE|METHOD, such as --plan spread");
    TRY(cli_check_plan(a->plan, error));
    if (is_dash(a->graph) + is_dash(a->machine) + is_dash(a->plan) + is_dash(a->costs) > 1) {
        return stw_fail(error, STW_ERROR_INPUT, "'-' (standard input) can be read only once");
    }
    if (is_dash(a->output) && is_dash(a->trace)) {
        return stw_fail(error, STW_ERROR_INPUT, "--output and --trace cannot both write to '-' (standard output)");
    }
    return cli_check_report(call, error);
}

static stw_status open_session(const cli_call *call, const arguments *a, simulation *s, stw_error *error) {
    TRY(stw_session_open(a->graph, call->options, &s->session, error));
    const char *warning;
    for (int32_t i = 0; (warning = stw_session_warning(s->session, i)) != NULL; i++) cli_warn(warning);
    s->graph = stw_session_graph(s->session);
    s->machine = stw_session_machine(s->session);
    s->simulator = stw_session_simulator(s->session);
    s->plan = stw_session_plan(s->session);
    return STW_OK;
}

static stw_status evaluate(simulation *s, stw_error *error) {
    TRY(stw_workspace_create(s->simulator, &s->workspace, error));
    TRY(stw_simulate(s->simulator, s->plan, s->workspace, &s->result, error));
    s->has_step = s->result.reason == STW_VALID || s->result.reason == STW_INVALID_MEMORY;
    s->measured_share = stw_measured_share(s->simulator, s->plan);
    return stw_lower_bounds(s->simulator, s->plan, &s->bounds, error);
}

/* An interrupt waits until the files are whole: they are small, and a half-written one would be left behind. */
static stw_status write_files(const cli_call *call, const arguments *a, const simulation *s, stw_error *error) {
    cli_hold_interrupts();
    stw_status status = STW_OK;
    if (a->output != NULL) status = stw_plan_write(s->simulator, s->plan, a->output, error);
    if (status == STW_OK && a->trace != NULL && s->has_step) {
        stw_export_io trace = {.path = a->trace};
        status = stw_plan_export(s->simulator, s->plan, "trace", NULL, &trace, error);
    }
    if (status == STW_OK && a->report != NULL && s->has_step)
        status = stw_plan_report(s->simulator, s->plan, NULL, call->options, a->report, error);
    cli_release_interrupts();
    return status;
}

static stw_status write_results(const cli_call *call, const arguments *a, const simulation *s, stw_error *error) {
    TRY(write_files(call, a, s, error));
    if (a->trace != NULL && !s->has_step) cli_warn("no trace was written: an invalid plan has no timeline");
    if (a->report != NULL && !s->has_step) cli_warn("no report was written: an invalid plan has no timeline");
    if (is_dash(a->output) || is_dash(a->trace)) return STW_OK; /* the report would spoil that file */
    return cli_wants_json(call) ? report_json(s, call->arena, error) : report_text(s, call->arena, error);
}

int cmd_simulate(const cli_call *call) {
    stw_error error;
    arguments a;
    simulation s = {0};
    stw_status status = check_arguments(call, &a, &error);
    if (status == STW_OK) status = open_session(call, &a, &s, &error);
    if (status == STW_OK) status = evaluate(&s, &error);
    if (status == STW_OK) status = write_results(call, &a, &s, &error);
    const int exit_status = status != STW_OK ? cli_fault(&error) : s.result.reason == STW_VALID ? CLI_DONE : CLI_NO_PLAN;
    stw_workspace_destroy(s.workspace);
    stw_session_destroy(s.session);
    return exit_status;
}
