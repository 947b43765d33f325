/* The whole flow as one short function: graph, machine, costs, simulator, plan. Start reading here. */
#include "stowage.h"

#include <stdlib.h>
#include <string.h>

#include "api/options.h"
#include "base/str.h"
#include "import/import.h"
#include "plan/plan.h"

/* ---- a graph: where the options meet the readers ---- */

static stw_status read_graph(const stw_graph_source *source, const stw_options *options, stw_graph **out, stw_error *error) {
    stw_arena arena;
    stw_read_options reading;
    *out = NULL;
    TRY(stw_arena_create(&arena, error));
    stw_status status = stw_read_options_parse(stw_options_text(options, "shape"), &arena, &reading, error);
    reading.limits = stw_options_file_limits(options);
    if (status == STW_OK) status = stw_graph_read(source, &reading, out, error);
    stw_arena_destroy(&arena);
    return status;
}

stw_status stw_graph_open(const char *path, const stw_options *options, stw_graph **out, stw_error *error) {
    STW_NEED(path);
    STW_NEED(out);
    return read_graph(&(stw_graph_source){.path = path}, options, out, error);
}

stw_status stw_graph_parse(const void *bytes, size_t size, const char *label, const stw_options *options, stw_graph **out,
                           stw_error *error) {
    STW_NEED(label);
    STW_NEED(out);
    return read_graph(&(stw_graph_source){.bytes = {bytes, (int64_t)size}, .label = label}, options, out, error);
}

/* ---- the session ---- */

struct stw_session {
    stw_graph *graph;
    stw_machine *machine; /* NULL when the plan or the graph brought one */
    stw_costs *costs;
    stw_simulator *simulator;
    stw_plan *plan;
};

static int64_t in_unit_of(const stw_graph *graph, int64_t bytes) {
    const double scaled = (double)bytes * stw_graph_size_scale(graph);
    return graph->size_scale <= 0.0 ? bytes : scaled < (double)STW_GRAPH_MAX_BYTES ? (int64_t)scaled : STW_GRAPH_MAX_BYTES;
}

/* In the graph's unit. */
static stw_status set_memory(const stw_options *options, const stw_graph *graph, stw_machine *machine, stw_error *error) {
    const int64_t bytes = stw_options_number(options, "memory", 0);
    return bytes == 0 ? STW_OK : stw_machine_set_memory(machine, in_unit_of(graph, bytes), error);
}

static stw_status open_machine(stw_session *s, const stw_options *options, const char *name, stw_error *error) {
    if (name == NULL) return s->graph->machine == NULL ? STW_OK : set_memory(options, s->graph, s->graph->machine, error);
    TRY(stw_machine_open(name, &s->machine, error));
    for (int32_t d = 0; d < s->machine->device_count; d++)
        s->machine->device[d].memory_bytes = in_unit_of(s->graph, s->machine->device[d].memory_bytes);
    return set_memory(options, s->graph, s->machine, error);
}

/* One that nobody has named here, so a fault says where its name is from. */
static stw_status open_usual(stw_session *s, const stw_options *options, const char *name, stw_error *error) {
    const stw_status status = open_machine(s, options, name, error);
    if (status != STW_OK) stw_error_prefix(error, "the machine of your config file");
    return status;
}

static stw_status open_plan(stw_session *s, const stw_options *options, const char *path, stw_error *error) {
    TRY(stw_plan_open(path, s->graph, s->machine, &s->plan, error));
    return s->plan->owned_machine == NULL ? STW_OK : set_memory(options, s->graph, s->plan->owned_machine, error);
}

/* What is neither a file nor a method: the plan that is in the graph's file. */
static bool is_carried(const char *plan) { return strcmp(plan, STW_PLAN_CARRIED) == 0; }

static stw_status make_plan(stw_session *s, const char *plan, const stw_options *options, stw_error *error) {
    if (is_carried(plan)) return stw_plan_carried(s->graph, stw_session_machine(s), &s->plan, error);
    return stw_method_run(plan, s->simulator, options, &s->plan, error);
}

static stw_status open_all(stw_session *s, const char *graph_path, const stw_options *options, stw_error *error) {
    const char *plan = stw_options_get(options, "plan");
    const bool plan_is_file = plan != NULL && !stw_method_exists(plan) && !is_carried(plan);
    TRY(stw_graph_open(graph_path, options, &s->graph, error));
    /* One that is asked for goes before what graph and plan bring, and this before one that somebody usually has. */
    const char *name = stw_options_get(options, "machine");
    TRY(open_machine(s, options, stw_options_is_given(options, "machine") ? name : NULL, error));
    if (plan_is_file) TRY(open_plan(s, options, plan, error));
    if (stw_session_machine(s) == NULL && name != NULL) TRY(open_usual(s, options, name, error));
    const stw_machine *machine = stw_session_machine(s);
    if (machine == NULL)
        return stw_fail(error, STW_ERROR_INPUT, "a machine is needed, such as --machine h200x4, unless %sthe graph brings one",
                        stw_options_takes(options, "plan") ? "--plan is a file or " : "");
    TRY(stw_costs_create(s->graph, machine, options, &s->costs, error));
    TRY(stw_simulator_create(s->costs, &s->simulator, error));
    return plan == NULL || plan_is_file ? STW_OK : make_plan(s, plan, options, error);
}

stw_status stw_session_open(const char *graph_path, const stw_options *options, stw_session **out, stw_error *error) {
    STW_NEED(graph_path);
    STW_NEED(out);
    *out = NULL;
    if (options == NULL) return stw_fail(error, STW_ERROR_INPUT, "a session needs options: at least a machine, or a plan file");
    stw_session *session = calloc(1, sizeof *session);
    if (session == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    const stw_status status = open_all(session, graph_path, options, error);
    if (status != STW_OK) {
        stw_session_destroy(session);
        return status;
    }
    *out = session;
    return STW_OK;
}

void stw_session_destroy(stw_session *session) {
    if (session == NULL) return;
    stw_simulator_destroy(session->simulator);
    stw_costs_destroy(session->costs);
    stw_plan_destroy(session->plan);
    stw_machine_destroy(session->machine);
    stw_graph_destroy(session->graph);
    free(session);
}

const stw_graph *stw_session_graph(const stw_session *session) {
    STW_NEED(session);
    return session->graph;
}

const stw_simulator *stw_session_simulator(const stw_session *session) {
    STW_NEED(session);
    return session->simulator;
}

const stw_plan *stw_session_plan(const stw_session *session) {
    STW_NEED(session);
    return session->plan;
}

const stw_machine *stw_session_machine(const stw_session *session) {
    STW_NEED(session);
    if (session->plan != NULL) return stw_plan_machine(session->plan);
    return session->machine != NULL ? session->machine : session->graph->machine;
}

const char *stw_session_warning(const stw_session *session, int32_t index) {
    STW_NEED(session);
    const char *of_plan = session->plan != NULL ? stw_plan_warning(session->plan) : NULL;
    if (of_plan == NULL) return stw_costs_warning(session->costs, index);
    return index == 0 ? of_plan : stw_costs_warning(session->costs, index - 1);
}

const char *stw_version(void) { return STW_VERSION; }
