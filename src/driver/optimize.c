/* The search: the default first, then the constructive methods, then the policy, then a search that improves the best of them
 * until the budget ends. What is returned is the best valid plan that was seen, so it is never worse than the default. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cancel.h"
#include "driver/agenda.h"
#include "method/starts.h"
#include "search/fusing.h"
#include "sim/bounds.h"

/* It has made a valid plan before; what it could not make then it may now, with more time. */
static bool has_run(const stw_result *result, const stw_method *method) {
    for (int32_t k = 0; k < result->count; k++) {
        if (result->entry[k]->ran == method->name && result->entry[k]->candidate.valid) return true;
    }
    return false;
}

/* There is something new for it to find. */
static bool is_due(const stw_runner *r, const stw_result *result, const stw_method *method) {
    const bool is_default = (method->traits & STW_METHOD_DEFAULT) != 0, orders = (method->traits & STW_METHOD_ORDERS) != 0;
    if (!stw_agenda_has(r, method)) return false;
    const bool again = is_default || (orders && stw_agenda_may_place(r)); /* a rule, placements */
    return again || !has_run(result, method);
}

static stw_status run_constructive(stw_runner *r, stw_result *result, stw_error *error) {
    const stw_method *method;
    if (result->best >= 0 && stw_agenda_has_shortlist(r)) return STW_OK; /* what is left is for searches */
    const bool packed = stw_agenda_has_packed(result);
    for (int32_t k = 0; (method = stw_agenda_at(r, packed, k)) != NULL; k++) {
        const double until = stw_agenda_until(r, result);
        if (stw_agenda_passes_over(r, result, method) || !is_due(r, result, method)) continue;
        if (stw_agenda_is_spent(r, until) || stw_runner_meets_bound(r, result)) break;
        if (!stw_agenda_may_build(r, method, fmax(until, STW_AGENDA_POLICY))) continue; /* policies and searches must begin */
        TRY(stw_runner_run(r, method, stw_agenda_rule(r, result), stw_agenda_slice(r, result, method), true, result, error));
        if (method->traits & STW_METHOD_DEFAULT) stw_result_name_last(result, "single-by-rule");
    }
    return STW_OK;
}

/* Small graphs are solved; where that is proved, there is nothing left to do. */
static stw_status run_exact(stw_runner *r, stw_result *result, stw_error *error) {
    if (!stw_agenda_has_exact(r) || stw_agenda_is_spent(r, STW_AGENDA_EXACT)) return STW_OK;
    if (stw_runner_meets_bound(r, result) || stw_runner_proves_none(r, result)) return STW_OK;
    stw_budget budget = stw_runner_share(r, STW_AGENDA_EXACT);
    budget.gives_up = true; /* what it cannot prove in time is better left to searches at once */
    TRY(stw_runner_run(r, &stw_method_exact, -1, budget, true, result, error));
    result->optimal = result->entry[result->count - 1]->outcome.proved;
    return STW_OK;
}

/* Policies and searches improve what there is; from a plan that only lacks memory they may still come to a valid one. */
static stw_status run_kind(stw_runner *r, stw_result *result, stw_method_kind kind, double until, stw_error *error) {
    const stw_method *method;
    for (int32_t k = 0; (method = stw_method_at(k)) != NULL; k++) {
        if (method->kind != kind || !stw_agenda_runs(r, method)) continue;
        if (stw_agenda_is_spent(r, until) || stw_runner_meets_bound(r, result) ||
            stw_runner_is_late(r, stw_agenda_seconds_to_begin(r, kind) + r->end_s))
            break;
        TRY(stw_runner_run(r, method, r->settings.rule, stw_runner_share(r, until), true, result, error));
    }
    return STW_OK;
}

/* The share of the budget of time after which the noise check begins, which takes 64 evaluations. (A budget of evaluations is
 * for the search alone.) */
static double end_of_search(const stw_runner *r, const stw_result *result) {
    if (r->settings.budget_s <= 0.0 || result->entry[0]->candidate.evaluations == 0) return 1.0;
    const double evaluation_s = result->entry[0]->candidate.search_s / (double)result->entry[0]->candidate.evaluations;
    return 1.0 - fmin(0.1, 100.0 * evaluation_s / r->threads / r->settings.budget_s);
}

/* With a share of what is left until then. */
static stw_status run_share(stw_runner *r, stw_result *result, stw_method_kind kind, double share, double until,
                            stw_error *error) {
    const double now = 1.0 - stw_agenda_left(r);
    if (share == 0.0 || result->best < 0) return STW_OK;
    return run_kind(r, result, kind, now + share * (until - now), error);
}

/* Searches by chance leave transfers that bring nothing; with charges each of them costs, so what is left is tidied in the end.
 */
static stw_status search_on(stw_runner *r, stw_result *result, stw_error *error) {
    const bool tidies = stw_agenda_tidies(r);
    const double end = end_of_search(r, result), until = tidies ? (1.0 - STW_AGENDA_TIDY) * end : end;
    const double coarse = stw_agenda_is_scarce(r, result) ? 0.0 : stw_agenda_coarse_share(r);
    TRY(run_share(r, result, STW_METHOD_COARSENER, coarse, until, error));
    TRY(run_share(r, result, STW_METHOD_BREEDER, stw_agenda_breed_share(r), until, error));
    TRY(run_kind(r, result, STW_METHOD_SEARCH, until, error));
    if (!tidies || result->best < 0 || stw_agenda_is_spent(r, end) || stw_runner_meets_bound(r, result)) return STW_OK;
    return stw_runner_tidy(r, end, result, error);
}

/* ---- the flow ---- */

stw_status stw_runner_optimize(stw_runner *r, stw_result *result, stw_error *error) {
    const bool ahead = r->groups_wait;
    TRY(ahead ? stw_runner_run_ahead(r, result, error) : stw_runner_run_default(r, result, error));
    TRY(run_exact(r, result, error));
    if (!result->optimal)
        TRY(ahead ? stw_runner_run_first_on_groups(r, result, error) : stw_runner_run_first(r, false, result, error));
    if (stw_runner_proves_none(r, result)) {
        stw_runner_say_what_lacks(r, result);
        return STW_OK;
    }
    if (!result->optimal) TRY(run_constructive(r, result, error));
    if (result->best < 0 && stw_agenda_may_order(r)) /* is there an order that fits? */
        TRY(stw_runner_run(r, &stw_method_lean, -1, stw_runner_share(r, STW_AGENDA_POLICY), true, result, error));
    TRY(stw_runner_find_bounds(r, result, error));
    const stw_policy_settings *wish = &r->settings.policy;
    const bool rare = stw_agenda_is_scarce(r, result) && !wish->trains; /* plans of the policy would seldom be valid */
    if (!result->optimal && !rare && (wish->trains || !wish->no_policy))
        TRY(run_kind(r, result, stw_agenda_policy(r), STW_AGENDA_POLICY, error));
    if (!result->optimal) TRY(search_on(r, result, error));
    if (stw_runner_meets_bound(r, result)) result->optimal = true;
    if (result->optimal && result->best >= 0) TRY(stw_runner_tidy(r, 1.0, result, error));
    TRY(stw_runner_bound_groups(r, result, error));
    if (result->best < 0) stw_runner_say_what_lacks(r, result);
    return STW_OK;
}

/* Per op, measured as what methods take (method.h): until the first draw is done, and until all are. */
static const double NOISE_S = 4e-6, WHOLE_NOISE_S = 4e-5;

/* What the caller asked for goes before this as well. */
static stw_status try_noise(stw_runner *r, stw_result *result, stw_error *error) {
    if (result->best < 0 || result->entry[0]->plan == NULL || stw_runner_is_cancelled(r)) return STW_OK;
    if (stw_runner_is_late(r, (r->end_s > 0.0 ? WHOLE_NOISE_S : NOISE_S) * r->simulator->graph->op_count)) return STW_OK;
    return stw_runner_try_noise(r, result->entry[result->best]->plan, result->entry[0]->plan, result, error);
}

stw_status stw_optimize(const stw_simulator *simulator, const stw_options *options, const stw_watch *watch, stw_result **out,
                        stw_error *error) {
    return stw_optimize_by(simulator, options, watch, NULL, NULL, out, error);
}

stw_status stw_optimize_by(const stw_simulator *simulator, const stw_options *options, const stw_watch *watch,
                           const stw_clock *clock, const stw_plan *given, stw_result **out, stw_error *error) {
    STW_NEED(simulator);
    STW_NEED(out);
    stw_runner *runner;
    stw_result *result;
    *out = NULL;
    TRY(stw_runner_open(simulator, options, STW_TASK_ALL, watch, clock, &runner, &result, error));
    runner->settings.given = given;
    if (watch != NULL) runner->began_s -= fmax(watch->spent_s, 0.0);
    stw_runner_keep_for_end(runner, -1.0);
    stw_status status = stw_runner_prepare_in_time(runner, error);
    if (status == STW_OK) status = stw_runner_settle(runner, stw_runner_optimize(runner, result, error), result, error);
    if (status == STW_OK) stw_runner_weigh_gain(runner, result);
    if (status == STW_OK) status = stw_runner_settle(runner, try_noise(runner, result, error), result, error);
    if (status == STW_OK) stw_runner_finish(runner, result);
    return stw_runner_close(runner, status, result, out);
}
