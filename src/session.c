/* The whole flow as one short function: graph, machine, costs, simulator, plan. Start reading here. */
#include "stowage.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "opening.h"
#include "plan/plan.h"

struct stw_session {
    stw_graph *graph;
    stw_machine *machine; /* NULL when the plan or the graph brought one */
    stw_costs *costs;
    stw_simulator *simulator;
    stw_plan *plan;
    char of_graph[STW_OPENING_REMARK];
    const char *remark[3]; /* of the graph, the plan and the costs */
    int32_t remark_count;
};

static void add_remark(stw_session *s, const char *remark) {
    if (remark != NULL) s->remark[s->remark_count++] = remark;
}

static stw_status set_memory(const stw_options *options, stw_machine *machine, stw_error *error) {
    const char *memory = stw_options_get(options, "memory");
    int64_t bytes = 0;
    if (memory == NULL || !stw_str_to_bytes(stw_str_of(memory), &bytes)) return STW_OK;
    return stw_machine_set_memory(machine, bytes, error);
}

static stw_status open_machine(stw_session *s, const stw_options *options, stw_error *error) {
    const char *name = stw_options_get(options, "machine");
    if (name == NULL) return s->graph->machine == NULL ? STW_OK : set_memory(options, s->graph->machine, error);
    TRY(stw_machine_open(name, &s->machine, error));
    return set_memory(options, s->machine, error);
}

static stw_status open_plan(stw_session *s, const stw_options *options, const char *path, stw_error *error) {
    const char *remark = NULL;
    TRY(stw_plan_open(path, s->graph, s->machine, &s->plan, &remark, error));
    add_remark(s, remark);
    return s->plan->owned_machine == NULL ? STW_OK : set_memory(options, s->plan->owned_machine, error);
}

static stw_status open_all(stw_session *s, const char *graph_path, const stw_options *options, stw_error *error) {
    const char *plan = stw_options_get(options, "plan");
    const bool plan_is_file = plan != NULL && !stw_method_exists(plan);
    TRY(stw_graph_open_telling(graph_path, options, s->of_graph, &s->graph, error));
    if (s->of_graph[0] != '\0') add_remark(s, s->of_graph);
    TRY(open_machine(s, options, error));
    if (plan_is_file) TRY(open_plan(s, options, plan, error));
    const stw_machine *machine = stw_session_machine(s);
    if (machine == NULL)
        return stw_fail(error, STW_ERROR_INPUT,
                        "a machine is needed, such as --machine h200x4, unless --plan is a file or the graph brings one");
    const stw_file_limits limits = stw_file_limits_of(stw_options_get(options, "file-limit"));
    TRY(stw_costs_create_within(s->graph, machine, stw_options_get(options, "costs"), &limits, &s->costs, error));
    add_remark(s, stw_costs_remark(s->costs));
    TRY(stw_simulator_create(s->costs, &s->simulator, error));
    return plan == NULL || plan_is_file ? STW_OK : stw_method_run(plan, s->simulator, options, &s->plan, error);
}

stw_status stw_session_open(const char *graph_path, const stw_options *options, stw_session **out, stw_error *error) {
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

const stw_graph *stw_session_graph(const stw_session *session) { return session->graph; }
const stw_simulator *stw_session_simulator(const stw_session *session) { return session->simulator; }
const stw_plan *stw_session_plan(const stw_session *session) { return session->plan; }

const stw_machine *stw_session_machine(const stw_session *session) {
    if (session->plan != NULL) return stw_plan_machine(session->plan);
    return session->machine != NULL ? session->machine : session->graph->machine;
}

const char *stw_session_remark(const stw_session *session, int32_t index) {
    return index < 0 || index >= session->remark_count ? NULL : session->remark[index];
}
