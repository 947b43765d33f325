/* `stowage explain`: what a plan's step is made of, and what would change it. */
#include <string.h>

#include "explain/explain.h"
#include "search.h"

enum { MOST_ROWS = 10 };

typedef struct {
    const stw_explanation *x;
    const stw_graph *graph;
    const stw_machine *machine;
    stw_arena arena;
} report;

static double seconds(int64_t ps) { return (double)ps * 1e-12; }

static double share_of(const report *r, int64_t ps) {
    const int64_t step = r->x->parts.step_ps;
    return step > 0 ? (double)ps / (double)step : 0.0;
}

static void add_time(cli_table *table, int64_t ps) { cli_table_add(table, CLI_PLAIN, "%s", cli_time(seconds(ps), 4).text); }

static void add_node(const report *r, cli_table *table, int32_t node) {
    if (node < 0)
        cli_table_add(table, CLI_PLAIN, "%s", "");
    else
        cli_table_add(table, CLI_PLAIN, "%.*s (%d)", STW_STR_SHOW(r->graph->node_name[node]), node);
}

static const char *device_name(const report *r, int32_t device) { return r->machine->device[device].name.p; }

/* ---- what bounds the step ---- */

static void print_parts(const report *r) {
    static const cli_column columns[] = {
        {"critical path", CLI_LEFT}, {"", CLI_LEFT}, {"time", CLI_RIGHT}, {"of the step", CLI_RIGHT}};
    static const char *const words[STW_PATH_KINDS] = {"ops and groups run",
                                                      "devices send and receive",
                                                      "values are on their way",
                                                      "ready, and the device runs something else",
                                                      "ready, and the channel carries something else",
                                                      "ready, and the strict order has something else first"};
    static const char *const names[STW_PATH_KINDS] = {"compute",         "charges",          "transfer",
                                                      "wait for device", "wait for channel", "wait for order"};
    stw_arena arena = r->arena;
    cli_table table;
    cli_table_begin(&table, &arena, columns, 4);
    for (int k = 0; k < STW_PATH_KINDS; k++) {
        if (r->x->parts.ps[k] == 0 && k != STW_PATH_COMPUTE) continue;
        cli_table_add_line(&table, names[k], words[k]);
        add_time(&table, r->x->parts.ps[k]);
        cli_table_add(&table, CLI_PLAIN, "%s", cli_percent(share_of(r, r->x->parts.ps[k])).text);
    }
    printf("\n");
    cli_table_print(&table, stdout);
}

/* Of one sort the dearest rows. */
static void print_costs(const report *r, stw_path_sort sort) {
    static const cli_column tasks[] = {{"", CLI_LEFT},
                                       {"device", CLI_LEFT},
                                       {"ops", CLI_RIGHT},
                                       {"on the path", CLI_RIGHT},
                                       {"others wait for it", CLI_RIGHT},
                                       {"of the step", CLI_RIGHT}};
    static const cli_column transfers[] = {{"transfer", CLI_LEFT},
                                           {"link", CLI_LEFT},
                                           {"bytes", CLI_RIGHT},
                                           {"on the path", CLI_RIGHT},
                                           {"others wait for it", CLI_RIGHT},
                                           {"of the step", CLI_RIGHT}};
    static const char *const titles[] = {"op", "group"};
    const bool sends = sort == STW_SORT_TRANSFER;
    const bool has_bytes = r->graph->size_scale <= 0.0; /* else the file states times, and bytes stand for them */
    cli_column columns[6];
    memcpy(columns, sends ? transfers : tasks, sizeof columns);
    if (!sends) columns[0].title = titles[sort];
    stw_arena arena = r->arena;
    cli_table table;
    int32_t rows = 0, all = 0;
    cli_table_begin(&table, &arena, columns, 6);
    for (int32_t k = 0; k < r->x->cost_count; k++) {
        const stw_path_cost *cost = &r->x->cost[k];
        if (cost->sort != sort || ++all > MOST_ROWS) continue;
        add_node(r, &table, cost->node);
        if (sends) {
            cli_table_add(&table, CLI_PLAIN, "%s > %s", device_name(r, cost->from), device_name(r, cost->to));
            cli_table_add(&table, CLI_PLAIN, "%s", has_bytes ? cli_bytes((double)cost->bytes).text : "-");
        } else {
            cli_table_add(&table, CLI_PLAIN, "%s", device_name(r, cost->from));
            cli_table_add(&table, CLI_PLAIN, "%s", cli_count(cost->members).text);
        }
        add_time(&table, cost->path_ps);
        add_time(&table, cost->delay_ps);
        cli_table_add(&table, CLI_PLAIN, "%s", cli_percent(share_of(r, cost->path_ps + cost->delay_ps)).text);
        rows++;
    }
    if (rows == 0) return;
    printf("\n");
    cli_table_print(&table, stdout);
    if (all > rows) printf("  and %s more; --format json lists all\n", cli_count(all - rows).text);
}

/* ---- devices ---- */

static void print_devices(const report *r) {
    static const cli_column columns[] = {{"device", CLI_LEFT}, {"busy", CLI_RIGHT},        {"charges", CLI_RIGHT},
                                         {"idle", CLI_RIGHT},  {"utilisation", CLI_RIGHT}, {"", CLI_LEFT}};
    stw_arena arena = r->arena;
    cli_table table;
    cli_table_begin(&table, &arena, columns, 6);
    for (int32_t d = 0; d < r->machine->device_count; d++) {
        const stw_device_time *time = &r->x->device[d];
        cli_table_add(&table, CLI_PLAIN, "%s", device_name(r, d));
        add_time(&table, time->busy_ps);
        add_time(&table, time->charged_ps);
        add_time(&table, time->idle_ps);
        cli_table_add(&table, CLI_PLAIN, "%s", cli_percent(share_of(r, time->busy_ps)).text);
        cli_table_add(&table, CLI_PLAIN, "%s", cli_bar(share_of(r, time->busy_ps)).text);
    }
    printf("\n");
    cli_table_print(&table, stdout);
}

/* An update also waits for the copies of its parameter to arrive elsewhere. */
static void add_reason(const report *r, cli_table *table, const stw_idle *idle) {
    const bool leaves = idle->from == idle->device;
    const char *other = idle->from < 0 ? "" : device_name(r, leaves ? idle->to : idle->from);
    switch (idle->kind) {
        case STW_IDLE_OPS: cli_table_add(table, CLI_PLAIN, "ops of %s", other); break;
        case STW_IDLE_CHANNEL: cli_table_add(table, CLI_PLAIN, "the channel %s %s", leaves ? "to" : "from", other); break;
        case STW_IDLE_TRANSFER: cli_table_add(table, CLI_PLAIN, "transfers %s %s", leaves ? "to" : "from", other); break;
        case STW_IDLE_DONE: cli_table_add(table, CLI_PLAIN, "nothing: it is done"); break;
    }
}

/* The reasons that make up most of a device's idle time. */
static void print_idle(const report *r) {
    static const cli_column columns[] = {{"device", CLI_LEFT},      {"idles, waiting for", CLI_LEFT},
                                         {"longest for", CLI_LEFT}, {"time", CLI_RIGHT},
                                         {"times", CLI_RIGHT},      {"of the step", CLI_RIGHT}};
    enum { MOST_REASONS = 6 }; /* of a device */
    stw_arena arena = r->arena;
    cli_table table;
    int32_t device = -1, shown = 0, left_out = 0;
    cli_table_begin(&table, &arena, columns, 6);
    for (int32_t k = 0; k < r->x->idle_count; k++) {
        const stw_idle *idle = &r->x->idle[k];
        shown = idle->device == device ? shown + 1 : 0;
        device = idle->device;
        left_out += shown >= MOST_REASONS;
        if (shown >= MOST_REASONS) continue;
        cli_table_add(&table, CLI_PLAIN, "%s", shown == 0 ? device_name(r, device) : "");
        add_reason(r, &table, idle);
        add_node(r, &table, idle->node);
        add_time(&table, idle->ps);
        cli_table_add(&table, CLI_PLAIN, "%s", cli_count(idle->times).text);
        cli_table_add(&table, CLI_PLAIN, "%s", cli_percent(share_of(r, idle->ps)).text);
    }
    if (device < 0) return;
    printf("\n");
    cli_table_print(&table, stdout);
    if (left_out > 0) printf("  and %s more; --format json lists all\n", cli_count(left_out).text);
}

/* ---- the report ---- */

static void print_text(const cli_call *call, const stw_explanation *x) {
    const report r = {.x = x, .graph = x->simulator->graph, .machine = x->simulator->machine, .arena = call->arena};
    const stw_str method = x->plan->method;
    cli_heading("%.*s on %.*s%s%.*s: a step of %s", STW_STR_SHOW(r.graph->name), STW_STR_SHOW(r.machine->name),
                method.length > 0 ? ", plan by " : "", STW_STR_SHOW(method), cli_time(seconds(x->parts.step_ps), 5).text);
    if (stw_options_get(call->options, "op") == NULL && stw_options_get(call->options, "group") == NULL) {
        print_parts(&r);
        print_costs(&r, STW_SORT_OP);
        print_costs(&r, STW_SORT_GROUP);
        print_costs(&r, STW_SORT_TRANSFER);
        print_devices(&r);
        print_idle(&r);
    }
    cli_print_moves(x, call->arena);
    cli_print_merges(x, call->arena);
    cli_print_what_ifs(x, call->arena);
}

static stw_status print_json(const stw_explanation *x, stw_error *error) {
    char *bytes;
    size_t size;
    TRY(stw_explanation_json(x, &bytes, &size, error));
    fwrite(bytes, 1, size, stdout);
    stw_bytes_free(bytes);
    return STW_OK;
}

/* ---- the command ---- */

static stw_status check_arguments(const cli_call *call, stw_error *error) {
    const char *plan = stw_options_get(call->options, "plan"), *machine = stw_options_get(call->options, "machine");
    const char *costs = stw_options_get(call->options, "costs");
    if (plan == NULL) return stw_fail(error, STW_ERROR_INPUT, "explain needs --plan FILE|METHOD, such as --plan plan.json");
    TRY(cli_check_plan(plan, error));
    if (cli_is_dash(call->operand[0]) + cli_is_dash(machine) + cli_is_dash(plan) + cli_is_dash(costs) > 1)
        return stw_fail(error, STW_ERROR_INPUT, "'-' (standard input) can be read only once");
    return STW_OK;
}

/* What holds where nothing is said. */
static stw_status set_defaults(const cli_call *call, stw_error *error) {
    const bool asks = stw_options_is_given(call->options, "op") || stw_options_is_given(call->options, "group");
    if (!asks && !stw_options_is_given(call->options, "what-if")) TRY(stw_options_set(call->options, "what-if", "all", error));
    if (stw_options_is_given(call->options, "budget") || stw_options_is_given(call->options, "evaluations")) return STW_OK;
    return stw_options_set(call->options, "budget", "1s", error);
}

static stw_status explain(const cli_call *call, const stw_session *session, stw_explanation **out, stw_error *error) {
    cli_progress progress;
    cli_progress_begin(call, &progress, STW_OBJECTIVE_TIME);
    stw_watch watch = {.progress = cli_progress_draw, .context = &progress};
    TRY(cli_interrupt_begin(&watch.cancel, error));
    const stw_status status =
        stw_explain(stw_session_simulator(session), stw_session_plan(session), call->options, &watch, out, error);
    cli_progress_clear(&progress);
    cli_interrupt_end(watch.cancel);
    cli_release_interrupts();
    return status;
}

int cmd_explain(const cli_call *call) {
    stw_error error;
    stw_session *session = NULL;
    stw_explanation *x = NULL;
    stw_status status = check_arguments(call, &error);
    if (status == STW_OK) status = set_defaults(call, &error);
    if (status == STW_OK) status = cli_session_open(call, call->operand[0], &session, &error);
    if (status == STW_OK) status = explain(call, session, &x, &error);
    if (status == STW_OK && cli_wants_json(call))
        status = print_json(x, &error);
    else if (status == STW_OK)
        print_text(call, x);
    const int exit_status = status != STW_OK ? cli_fault(&error) : x->interrupted ? CLI_INTERRUPTED : CLI_DONE;
    stw_explanation_destroy(x);
    stw_session_destroy(session);
    return exit_status;
}
