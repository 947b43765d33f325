/* The plans that come before anything else: the default, which no plan may be worse than, and one that is worth having or fits at
 * all. Making groups may take long for the budget; then these are plans of ops at first, and groups follow. */
#include <stdio.h>
#include <string.h>

#include "driver/agenda.h"
#include "method/starts.h"
#include "search/fusing.h"

static const double LAST_FUSION_SHARE = 0.7; /* groups that are not there by then are left out */

/* Of what is left when the search begins: where the rule `default` takes longer, `one-pass` makes the groups; where that takes
 * longer still, they wait as well. (With groups, which are few, the first plan takes half of the time.) */
static const double SLOW_RULE_SHARE = 0.1, SLOW_FUSION_SHARE = 0.5;

/* Seconds per op, measured as those of methods were (method.h). */
static const double FUSION_S = 1e-5, ONE_PASS_S = 2e-6;
static const double QUICK_S = 0.05; /* nobody minds waiting for it */

/* ---- when groups are made ---- */

/* Until groups are made, by a rule or by one that takes less time. */
static double seconds_to_fuse(const stw_runner *r) {
    return (r->groups_by == STW_FUSION_ONE_PASS ? ONE_PASS_S : FUSION_S) * r->simulator->graph->op_count;
}

/* Groups are ours to decide, and take a while. */
static bool may_fuse_less(const stw_runner *r) {
    const bool given = r->settings.from != NULL || r->settings.given != NULL;
    const bool open = (r->settings.tasks & STW_TASK_FUSION) && r->settings.fusion < 0 && !given;
    return open && r->settings.budget_s > 0.0 && FUSION_S * r->simulator->graph->op_count > QUICK_S;
}

/* Chooses the rule that the time allows. True: with as little time as there is, even that comes after a plan. */
static bool choose_rule(stw_runner *r) {
    if (!may_fuse_less(r)) return false;
    const double left_s = stw_agenda_left(r) * r->settings.budget_s;
    if (seconds_to_fuse(r) > SLOW_RULE_SHARE * left_s) r->groups_by = STW_FUSION_ONE_PASS;
    return seconds_to_fuse(r) > SLOW_FUSION_SHARE * left_s;
}

/* When the making of groups ends at the latest. */
static stw_stop stop_at(const stw_runner *r, double until_s) {
    return (stw_stop){.cancelled = r->watch->cancel == NULL ? NULL : &r->watch->cancel->requested,
                      .clock = r->settings.clock,
                      .until_s = until_s};
}

stw_status stw_runner_prepare_in_time(stw_runner *r, stw_error *error) {
    r->groups_wait = choose_rule(r);
    const stw_stop stop = stop_at(r, stw_runner_share(r, LAST_FUSION_SHARE).until_s);
    return r->groups_wait ? STW_OK : stw_runner_prepare(r, may_fuse_less(r) ? &stop : NULL, error);
}

/* ---- the default ---- */

/* Everything on one device in topological order, with this fusion rule. */
static stw_status run_single(stw_runner *r, int32_t fusion, stw_result *result, stw_error *error) {
    const stw_budget share = stw_runner_share(r, STW_AGENDA_CONSTRUCTIVE);
    if (r->fusing == NULL) return stw_runner_run(r, &stw_method_single, STW_RULE_TOPOLOGICAL, share, false, result, error);
    stw_fused *const groups = r->fusing->fused;
    const int32_t before = r->fusing->rule;
    r->fusing->rule = fusion;
    r->fusing->fused = NULL; /* ops are ordered, not groups */
    const stw_status status = stw_runner_run(r, &stw_method_single, STW_RULE_TOPOLOGICAL, share, false, result, error);
    r->fusing->rule = before;
    r->fusing->fused = groups;
    if (status != STW_OK) return status;
    stw_entry *entry = result->entry[result->count - 1];
    if (entry->outcome.note[0] == '\0')
        snprintf(entry->outcome.note, sizeof entry->outcome.note,
                 fusion == STW_FUSION_NONE ? "nothing fused" : "fused by the rule %s%s", stw_fusion_name[fusion],
                 r->fusing->partial ? " as far as the time went" : "");
    return STW_OK;
}

void stw_result_name_last(stw_result *result, const char *name) {
    stw_entry *entry = result->entry[result->count - 1];
    entry->candidate.method = name;
    if (entry->plan != NULL) entry->plan->method = stw_str_of(name);
}

/* The plan that was given, as it is. */
static stw_status add_given(stw_runner *r, stw_result *result, stw_error *error) {
    stw_entry *entry;
    TRY(stw_entry_create("given", &entry, error));
    entry->began_s = stw_runner_now_s(r);
    entry->candidate.evaluations = 1;
    stw_status status = stw_plan_create(r->simulator->graph, r->simulator->machine, &entry->plan, error);
    if (status == STW_OK) status = stw_plan_assign(entry->plan, r->from, error);
    if (status == STW_OK) return stw_runner_add(r, entry, result, error);
    stw_entry_destroy(entry);
    return status;
}

stw_status stw_runner_run_default(stw_runner *r, stw_result *result, stw_error *error) {
    const bool fixed = r->settings.fusion >= 0;
    if (r->from != NULL) {
        TRY(add_given(r, result, error));
        return stw_runner_find_bounds(r, result, error);
    }
    TRY(run_single(r, fixed ? r->settings.fusion : (int32_t)r->groups_by, result, error));
    if (r->fusing != NULL && !fixed) {
        TRY(run_single(r, STW_FUSION_NONE, result, error));
        stw_result_name_last(result, "single-unfused");
    }
    return stw_runner_is_slow_to_bound(r) ? STW_OK : stw_runner_find_bounds(r, result, error);
}

/* ---- a plan that is worth having ---- */

/* One method after the other until a plan fits. When the time is up they only build one plan each; if that does not do either,
 * time is no object. */
static stw_status run_until_one_fits(stw_runner *r, stw_result *result, stw_error *error) {
    const int32_t runs = r->settings.budget_s > 0.0 ? 2 * STW_AGENDA_FITTING : STW_AGENDA_FITTING;
    for (int32_t k = 0; k < runs && stw_agenda_may_place(r) && result->best < 0; k++) {
        const stw_method *method = stw_agenda_fitting_at(r, k % STW_AGENDA_FITTING, k < STW_AGENDA_FITTING);
        const int32_t rule = method == &stw_method_pack ? r->settings.rule : stw_agenda_rule(r, result);
        if (stw_runner_is_cancelled(r) || stw_runner_proves_none(r, result)) break;
        TRY(stw_runner_run(r, method, rule, stw_agenda_fitting_slice(r, method, k < STW_AGENDA_FITTING), true, result, error));
    }
    return STW_OK;
}

/* A method before all others; if it `gives_up`, then at the end of the budget. */
static stw_status run_alone(stw_runner *r, const stw_method *method, bool gives_up, stw_result *result, stw_error *error) {
    stw_budget slice = stw_agenda_slice_ahead(r);
    if (gives_up) slice.last_s = stw_runner_share(r, 1.0).until_s;
    slice.gives_up = gives_up;
    return stw_runner_run(r, method, stw_runner_rule(r), slice, true, result, error);
}

stw_status stw_runner_run_first(stw_runner *r, bool gives_up, stw_result *result, stw_error *error) {
    const stw_method *first = stw_agenda_first(r);
    if (stw_runner_is_cancelled(r) || stw_runner_meets_bound(r, result)) return STW_OK;
    if (result->best < 0) {
        if (!stw_runner_is_slow_to_bound(r)) TRY(stw_runner_find_bounds(r, result, error)); /* can anything? */
        return run_until_one_fits(r, result, error);
    }
    if (stw_method_decides_placement(first) ? !stw_agenda_may_place(r) : !stw_agenda_may_order(r)) return STW_OK;
    if (stw_agenda_has_shortlist(r))
        return stw_runner_run(r, &stw_method_shortlist, stw_runner_rule(r), stw_agenda_slice_of_shortlist(r), true, result,
                              error);
    TRY(run_alone(r, first, gives_up, result, error));
    const stw_method *better = stw_method_for(r->settings.objective);
    if (better == first || stw_agenda_may_build(r, better, STW_AGENDA_CONSTRUCTIVE)) return STW_OK; /* its turn comes */
    return stw_agenda_may_build(r, better, 1.0) ? run_alone(r, better, true, result, error) : STW_OK;
}

/* ---- plans of ops before groups ---- */

/* The last entry comes first. */
static void put_last_first(stw_result *result) {
    stw_entry *last = result->entry[result->count - 1];
    memmove(result->entry + 1, result->entry, (size_t)(result->count - 1) * sizeof(stw_entry *));
    result->entry[0] = last;
    result->best = result->best == result->count - 1 ? 0 : result->best + (result->best >= 0);
}

static void rename_entry(stw_entry *entry, const char *ending) {
    char name[sizeof entry->again];
    snprintf(name, sizeof name, "%.30s-%s", entry->candidate.method, ending);
    memcpy(entry->again, name, sizeof name);
    entry->candidate.method = entry->again;
    if (entry->plan != NULL) entry->plan->method = stw_str_of(entry->candidate.method);
}

/* Groups for what there is: the default as it should be, and the best plan. */
static stw_status fuse_plans(stw_runner *r, stw_result *result, stw_error *error) {
    for (int32_t k = 0; k < result->count; k++) rename_entry(result->entry[k], "unfused");
    TRY(run_single(r, (int32_t)r->groups_by, result, error));
    put_last_first(result);
    return result->best > 0 ? stw_runner_regroup(r, result, error) : STW_OK;
}

/* The time at which groups must be there, so that the plans with them can be simulated still. */
static stw_stop end_of_fusing(const stw_runner *r, const stw_result *result) {
    enum { EVALUATIONS = 10 }; /* of plans with groups, which take longer: two of the default, four of the best plan */
    const stw_entry *first = result->entry[0];
    const double evaluation_s =
        first->candidate.evaluations > 0 ? first->candidate.search_s / (double)first->candidate.evaluations : 0.0;
    return stop_at(r, r->began_s + r->settings.budget_s - EVALUATIONS * evaluation_s);
}

stw_status stw_runner_run_ahead(stw_runner *r, stw_result *result, stw_error *error) {
    const unsigned tasks = r->settings.tasks;
    r->settings.tasks &= ~(unsigned)STW_TASK_FUSION;
    TRY(run_single(r, STW_FUSION_NONE, result, error));
    TRY(stw_runner_run_first(r, false, result, error));
    const stw_stop stop = end_of_fusing(r, result);
    const double half_s = 0.5 * seconds_to_fuse(r);
    const bool fits = result->best >= 0; /* else it may with groups, and time is no object */
    if (fits && stw_runner_now_s(r) + half_s > stop.until_s) {
        snprintf(result->entry[0]->outcome.note, sizeof result->entry[0]->outcome.note,
                 "nothing fused: the budget is too short for it; give it more");
        return STW_OK;
    }
    r->settings.tasks = tasks;
    r->groups_wait = false;
    TRY(stw_runner_prepare(r, fits ? &stop : NULL, error));
    return fuse_plans(r, result, error);
}

stw_status stw_runner_run_first_on_groups(stw_runner *r, stw_result *result, stw_error *error) {
    if (result->best < 0 && r->fusing != NULL) return stw_runner_run_first(r, false, result, error);
    if (result->best < 0 || r->fusing == NULL || r->fusing->fused == NULL || !stw_agenda_may_build(r, stw_agenda_first(r), 1.0))
        return STW_OK;
    return stw_runner_run_first(r, true, result, error);
}
