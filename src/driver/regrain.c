/* A plan at another grain, from a plan. */
#include <string.h>

#include "api/options.h"
#include "driver/runner.h"

/* The options that count, with a grain in any case. */
static stw_status make_options(const stw_options *from, stw_options **out, stw_error *error) {
    static const char *const names[] = {"grain",     "evaluations",   "budget", "clock",      "seed",
                                        "threads",   "min-gain",      "pin",    "policy",     "proposals",
                                        "objective", "keep-together", "forbid", "max-devices"};
    TRY(stw_options_create(out, error));
    stw_status status = stw_options_set(*out, "grain", stw_grain_name[STW_GRAIN_MODULE], error);
    for (size_t k = 0; k < sizeof names / sizeof names[0] && status == STW_OK; k++) {
        const char *value = from != NULL && stw_options_takes(from, names[k]) ? stw_options_get(from, names[k]) : NULL;
        if (value != NULL) status = stw_options_set(*out, names[k], value, error);
    }
    if (status == STW_OK) return STW_OK;
    stw_options_destroy(*out);
    *out = NULL;
    return status;
}

/* The plan with the order of the program and nothing fused, as targets run modules. */
static stw_status plain_copy(const stw_plan *plan, stw_plan **out, stw_error *error) {
    const stw_graph *graph = plan->graph;
    TRY(stw_plan_copy(plan, out, error));
    stw_plan_remove_orders(*out);
    for (int32_t i = 0; i < graph->N; i++) (*out)->group[i] = i;
    for (int32_t k = 0; k < graph->op_count; k++) (*out)->priority[graph->topological[k]] = -(double)k;
    return STW_OK;
}

static stw_status step_of(const stw_simulator *s, const stw_plan *plan, double *out, stw_error *error) {
    stw_workspace *workspace;
    stw_evaluation evaluation;
    TRY(stw_workspace_create(s, &workspace, error));
    const stw_status status = stw_simulate(s, plan, workspace, &evaluation, error);
    stw_workspace_destroy(workspace);
    *out = status == STW_OK && evaluation.reason == STW_VALID ? evaluation.step_s : -1.0;
    return status;
}

/* The search's plan, or one device where that gains too little. */
static stw_status choose(const stw_simulator *s, const stw_options *options, const stw_plan *found, stw_plan **out,
                         stw_error *error) {
    stw_settings settings;
    stw_plan *one = NULL;
    double found_s = -1.0, one_s = -1.0;
    TRY(stw_settings_read(options, STW_TASK_PLACEMENT, &settings, error));
    const double gain = settings.min_gain >= 0.0 ? settings.min_gain : 0.01;
    TRY(stw_method_run("single", s, options, &one, error));
    stw_status status = step_of(s, one, &one_s, error);
    if (status == STW_OK && found != NULL) status = step_of(s, found, &found_s, error);
    const bool stays = one_s >= 0.0 && (found_s < 0.0 || found_s > (1.0 - gain) * one_s);
    if (status == STW_OK && stays) {
        *out = one;
        return STW_OK;
    }
    stw_plan_destroy(one);
    TRY(status);
    if (found == NULL) return stw_fail(error, STW_ERROR_NO_PLAN, "no plan at this grain is valid");
    return stw_plan_copy(found, out, error);
}

/* The plan places nothing apart that the options want together. */
static stw_status is_there(const stw_simulator *simulator, const stw_options *options, const stw_plan *plan, bool *out,
                           stw_error *error) {
    stw_limited *limited;
    stw_plan *moved;
    *out = false;
    TRY(stw_limited_open(simulator, options, &limited, error));
    if (limited == NULL) { /* each op by itself, and nothing else is asked for */
        *out = true;
        return STW_OK;
    }
    stw_status status = stw_plan_copy(plan, &moved, error);
    if (status == STW_OK) {
        moved->graph = &limited->graph;
        status = stw_limited_project(limited, moved, limited->arena, error);
        *out = status == STW_OK;
        for (int32_t i = 0; i < plan->graph->N && *out; i++) {
            const uint8_t kind = plan->graph->kind[i];
            *out = (kind != STW_NODE_OP && !stw_node_is_resident(kind)) || moved->device[i] == plan->device[i];
        }
        stw_plan_destroy(moved);
    }
    stw_limited_close(limited);
    return status;
}

stw_status stw_plan_regrain(const stw_simulator *simulator, const stw_plan *plan, const stw_options *options, stw_plan **out,
                            stw_error *error) {
    STW_NEED(simulator);
    STW_NEED(plan);
    STW_NEED(out);
    stw_options *own = NULL;
    stw_plan *given = NULL;
    stw_result *result = NULL;
    *out = NULL;
    bool there = false;
    double step_s = -1.0;
    TRY(make_options(options, &own, error));
    stw_status status = is_there(simulator, own, plan, &there, error);
    if (status == STW_OK) status = plain_copy(plan, &given, error);
    if (status == STW_OK && there) status = step_of(simulator, given, &step_s, error);
    if (status == STW_OK && there && step_s >= 0.0) {
        *out = given;
        stw_options_destroy(own);
        return STW_OK;
    }
    if (status == STW_OK) status = stw_optimize_by(simulator, own, NULL, NULL, given, &result, error);
    if (status == STW_OK) status = choose(simulator, own, stw_result_plan(result), out, error);
    if (status == STW_ERROR_NO_PLAN && there) { /* then what was given is as good as any */
        *out = given;
        given = NULL;
        status = STW_OK;
    }
    stw_result_destroy(result);
    stw_plan_destroy(given);
    stw_options_destroy(own);
    return status;
}
