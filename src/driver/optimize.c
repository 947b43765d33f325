/* The search: the default first, then the constructive methods, then the policy, then a search that improves the best of them
 * until the budget ends. What is returned is the best valid plan that was seen, so it is never worse than the default. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cancel.h"
#include "driver/runner.h"
#include "method/starts.h"
#include "policy/checkpoint.h"
#include "search/fusing.h"
#include "sim/bounds.h"

static const double CONSTRUCTIVE_SHARE = 0.4; /* of the budget; what is left is for improving */
static const double CROWDED_SHARE = 0.8;      /* the same, where the time does not do for all methods */
static const double POLICY_SHARE = 0.6;       /* until here the policy may learn */
static const double METHOD_SHARE = 0.35;      /* of what is left of that, for one method */
static const double STRETCHES_SHARE = 0.5;    /* the same for `stretches`, which goes before them */
static const double EXACT_SHARE = 0.3;        /* for proving the optimum of a small graph, before anything else */
static const double BREED_SHARE = 0.9;        /* of the search for improvements, for `breed` on graphs as small as that; */
static const double BREED_HALF = 0.5;         /* where sequences are less sure to help */
enum { EXPRESS_OPS = 8192 };                  /* (or groups) from which on `express` is tried */
enum { EXACT_OPS = 40, BREED_OPS = 200 };     /* what is larger is seldom proved, or bred well, in the time that people wait */

static const double TIDY_SHARE = 0.15;       /* of the search, for dropping transfers, where they take of the devices' own time */
static const double LAST_FUSION_SHARE = 0.7; /* groups that are not there by then are left out */

/* What takes longer than these shares of a budget of time waits until there is a plan. */
static const double SLOW_BOUND_SHARE = 0.05, SLOW_FIRST_SHARE = 0.3;
static const double SLOW_PACK_SHARE = 0.1; /* then `pack` waits for methods that are quicker */
static const double CROWDED_FIRST_S = 0.5; /* what takes longer waits where the time does not do for all: better ones follow */
/* Of what is left when the search begins: where the rule `default` takes longer, `one-pass` makes the groups; where that takes
 * longer still, they wait as well. (With groups, which are few, the first plan takes half of the time.) */
static const double SLOW_RULE_SHARE = 0.1, SLOW_FUSION_SHARE = 0.5;

/* ---- the budget ---- */

static bool is_spent(const stw_runner *r, double share) {
    const stw_budget whole = stw_runner_budget(r);
    return stw_runner_is_cancelled(r) || stw_budget_is_spent(&whole, (stw_moment){stw_runner_now_s(r), r->evaluations}, share);
}

/* What is left of the budget. */
static double share_left(const stw_runner *r) {
    const stw_budget whole = stw_runner_budget(r);
    return fmax(0.0, 1.0 - stw_budget_progress(&whole, (stw_moment){stw_runner_now_s(r), r->evaluations}));
}

/* ---- what things take ---- */

/* Seconds per op, measured as those of methods were (method.h). */
static const double BOUND_S = 8e-6, QUICK_BOUND_S = 3e-6, FUSION_S = 1e-5, ONE_PASS_S = 2e-6, NOISE_S = 4e-6;
static const double QUICK_S = 0.05; /* nobody minds waiting for it */

/* What placing is done with: groups, if there are any. */
static double count_placed(const stw_runner *r) {
    return r->fusing != NULL && r->fusing->fused != NULL ? r->fusing->fused->graph->op_count : r->simulator->graph->op_count;
}

/* Until a method has built its first plan. */
static double seconds_to_build(const stw_runner *r, const stw_method *method) {
    const double ops = count_placed(r), pairs = ops * r->simulator->machine->device_count;
    return method->op_s * ops + method->pair_s * pairs;
}

static bool is_slow(const stw_runner *r, double seconds, double share) {
    return r->settings.budget_s > 0.0 && seconds > share * r->settings.budget_s;
}

/* Before a method has tried anything: units, clusters, features, a network for them. */
static double seconds_to_begin(const stw_runner *r, stw_method_kind kind) {
    const double us = kind == STW_METHOD_LEARNER ? 25.0 : kind == STW_METHOD_SEARCH ? 8.0 : 3.0; /* per op */
    return us * 1e-6 * r->simulator->graph->op_count;
}

/* The time does not do for all methods, let alone for searches after them: those whose plans are best in most cases go first, and
 * have most of it. */
static bool is_crowded(const stw_runner *r) {
    const double evaluation_s = 5e-7 * r->simulator->graph->op_count; /* measured as the others */
    return is_slow(r, 100.0 * evaluation_s, CONSTRUCTIVE_SHARE) && r->settings.objective == STW_OBJECTIVE_TIME;
}

/* When the constructive methods end. */
static double constructive_share(const stw_runner *r) { return is_crowded(r) ? CROWDED_SHARE : CONSTRUCTIVE_SHARE; }

/* ---- the steps ---- */

/* The best plan cannot be improved: it meets the bound of the objective. */
static bool meets_bound(const stw_runner *r, const stw_result *result) {
    if (result->best < 0) return false;
    return result->entry[result->best]->score.value <= stw_runner_objective_bound(r, result) * (1.0 + 1e-9);
}

static bool is_late_to_bound(const stw_runner *r, double seconds_per_op) {
    return stw_runner_is_late(r, seconds_per_op * r->simulator->graph->op_count);
}

/* What the caller asked for goes before what is nice to know: without time for bounds there are none. */
static stw_status find_bounds(stw_runner *r, stw_result *result, stw_error *error) {
    const stw_plan *plan = NULL;
    for (int32_t k = 0; k < result->count && plan == NULL; k++) plan = result->entry[k]->plan;
    if (result->bounds.plan_s > 0.0 || plan == NULL || is_late_to_bound(r, QUICK_BOUND_S)) return STW_OK;
    const stw_status status = stw_find_bounds(r->simulator, plan, !is_late_to_bound(r, BOUND_S), &result->bounds, error);
    if (status == STW_ERROR_MEMORY) return STW_OK; /* then 0 is the bound; the search needs none */
    TRY(status);
    stw_runner_widen_bounds(r, &result->bounds);
    r->progress.lower_bound_s = stw_runner_lower_bound(r, result);
    return STW_OK;
}

/* With little time, plans come first and the bound later. */
static bool is_slow_to_bound(const stw_runner *r) {
    return is_slow(r, BOUND_S * r->simulator->graph->op_count, SLOW_BOUND_SHARE) && r->simulator->machine->device_count > 1;
}

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
    const double left_s = share_left(r) * r->settings.budget_s;
    if (seconds_to_fuse(r) > SLOW_RULE_SHARE * left_s) r->groups_by = STW_FUSION_ONE_PASS;
    return seconds_to_fuse(r) > SLOW_FUSION_SHARE * left_s;
}

/* When the making of groups ends at the latest. */
static stw_stop stop_at(const stw_runner *r, double until_s) {
    return (stw_stop){.cancelled = r->watch->cancel == NULL ? NULL : &r->watch->cancel->requested,
                      .clock = r->settings.clock,
                      .until_s = until_s};
}

/* Everything on one device in topological order, with this fusion rule. */
static stw_status run_single(stw_runner *r, int32_t fusion, stw_result *result, stw_error *error) {
    const stw_budget share = stw_runner_share(r, CONSTRUCTIVE_SHARE);
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

/* The last entry is a second run of its method: rows have names of their own. */
static void name_last(stw_result *result, const char *name) {
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

/* The default; and nothing fused, which no plan may be worse than either. */
static stw_status run_default(stw_runner *r, stw_result *result, stw_error *error) {
    const bool fixed = r->settings.fusion >= 0;
    if (r->from != NULL) {
        TRY(add_given(r, result, error));
        return find_bounds(r, result, error);
    }
    TRY(run_single(r, fixed ? r->settings.fusion : (int32_t)r->groups_by, result, error));
    if (r->fusing != NULL && !fixed) {
        TRY(run_single(r, STW_FUSION_NONE, result, error));
        name_last(result, "single-unfused");
    }
    return is_slow_to_bound(r) ? STW_OK : find_bounds(r, result, error);
}

/* The last method may use up the share of the constructive ones; each before it leaves most of it to those that follow. Once
 * there is a plan, what does not come to one by the end of the next share is given up. */
static stw_budget slice_for(const stw_runner *r, bool last) {
    stw_budget budget = stw_runner_share(r, constructive_share(r));
    budget.last_s = stw_runner_share(r, fmax(constructive_share(r), POLICY_SHARE)).until_s;
    budget.gives_up = budget.last_s > 0.0;
    if (last) return budget;
    return stw_budget_share(&budget, (stw_moment){.s = stw_runner_now_s(r)}, METHOD_SHARE, STW_SHARE_UP);
}

static bool may_place(const stw_runner *r);

/* Memory is scarce: nothing fits on one device, so `pack` has run, and no plan of `expert` fits as it is. */
static bool is_scarce(const stw_runner *r, const stw_result *result) {
    bool packed = false;
    for (int32_t k = 0; k < result->count; k++) {
        const stw_entry *entry = result->entry[k];
        packed |= entry->ran == stw_method_pack.name;
        if (entry->ran == stw_method_expert.name && entry->score.reason == STW_VALID && !entry->outcome.repaired) return false;
    }
    return packed && may_place(r) && r->settings.objective != STW_OBJECTIVE_MEMORY;
}

/* Then orders are for repairs to decide as well, unless a rule was asked for. */
static int32_t rule_for(const stw_runner *r, const stw_result *result) {
    return is_scarce(r, result) && (r->settings.tasks & STW_TASK_SCHEDULE) ? r->settings.rule : stw_runner_rule(r);
}

static bool may_place(const stw_runner *r) {
    return (r->settings.tasks & STW_TASK_PLACEMENT) != 0 && r->simulator->machine->device_count > 1;
}

/* The order is ours to decide, and no rule was asked for. */
static bool may_lean(const stw_runner *r) { return (r->settings.tasks & STW_TASK_SCHEDULE) != 0 && r->settings.rule < 0; }

/* Where nothing fits yet, a method may always build its plans and make one of them fit, however small the budget; until policies
 * and searches begin, or without an eye on the clock. */
static stw_budget slice_for_any(const stw_runner *r, const stw_method *method, bool timed) {
    const int64_t ENOUGH = method == &stw_method_pack ? 600 : 32; /* evaluations */
    stw_budget budget = slice_for(r, false);
    if (budget.until_s > 0.0 || budget.evaluations < ENOUGH) budget.evaluations = ENOUGH;
    const double until_s = timed ? stw_runner_share(r, POLICY_SHARE).until_s : 0.0;
    budget.last_s = method == &stw_method_pack ? until_s : 0.0; /* once it has a plan, it leaves time to others */
    if (method != &stw_method_pack || !timed) budget.until_s = until_s;
    budget.gives_up = false;
    return budget;
}

/* The cheapest method that is good for the objective. Where even one pass of `etf` is too much, that is `expert`. */
static const stw_method *first_method(const stw_runner *r) {
    const stw_method *first = stw_method_for(r->settings.objective);
    const double seconds = seconds_to_build(r, first);
    const bool slow =
        seconds > QUICK_S && (is_slow(r, seconds, SLOW_FIRST_SHARE) || (is_crowded(r) && seconds > CROWDED_FIRST_S));
    return stw_method_decides_placement(first) && slow ? &stw_method_expert : first;
}

/* The k-th method of those that are tried until a plan fits: `pack` first, unless they are timed and one plan of it takes long
 * for the budget. */
enum { FITTING_COUNT = 6 };
static const stw_method *fitting_at(const stw_runner *r, int32_t k, bool timed) {
    static const stw_method *const good[] = {&stw_method_etf, &stw_method_heft, &stw_method_expert, &stw_method_spread,
                                             &stw_method_topo};
    static const stw_method *const quick[] = {&stw_method_expert, &stw_method_spread, &stw_method_topo, &stw_method_heft,
                                              &stw_method_etf};
    const double pack_s = stw_method_pack.op_s * r->simulator->graph->op_count; /* ops, not groups */
    const bool last = timed && pack_s > QUICK_S && is_slow(r, pack_s, SLOW_PACK_SHARE);
    if (k == (last ? FITTING_COUNT - 1 : 0)) return &stw_method_pack;
    return (first_method(r) == stw_method_for(r->settings.objective) ? good : quick)[last ? k : k - 1];
}

/* One method after the other until a plan fits. When the time is up they only build one plan each; if that does not do either,
 * time is no object. */
static stw_status run_until_one_fits(stw_runner *r, stw_result *result, stw_error *error) {
    const int32_t runs = r->settings.budget_s > 0.0 ? 2 * FITTING_COUNT : FITTING_COUNT;
    for (int32_t k = 0; k < runs && may_place(r) && result->best < 0; k++) {
        const stw_method *method = fitting_at(r, k % FITTING_COUNT, k < FITTING_COUNT);
        const int32_t rule = method == &stw_method_pack ? r->settings.rule : rule_for(r, result);
        if (stw_runner_is_cancelled(r) || stw_runner_proves_none(r, result)) break;
        TRY(stw_runner_run(r, method, rule, slice_for_any(r, method, k < FITTING_COUNT), true, result, error));
    }
    return STW_OK;
}

/* It comes to a plan before this share of the time is gone. */
static bool may_build(const stw_runner *r, const stw_method *method, double share) {
    const double last_s = stw_runner_share(r, share).until_s;
    return last_s <= 0.0 || stw_runner_now_s(r) + seconds_to_build(r, method) <= last_s;
}

/* A method before all others; if it `gives_up`, then at the end of the budget. */
static stw_status run_alone(stw_runner *r, const stw_method *method, bool gives_up, stw_result *result, stw_error *error) {
    stw_budget slice = slice_for(r, false);
    if (gives_up) slice.last_s = stw_runner_share(r, 1.0).until_s;
    slice.gives_up = gives_up;
    return stw_runner_run(r, method, stw_runner_rule(r), slice, true, result, error);
}

/* A plan that is worth having, whatever is left of the budget (unless it `gives_up` at its end): of the cheapest method that is
 * good for the objective; and where the graph fits on no device alone, one that fits. */
static stw_status run_first(stw_runner *r, bool gives_up, stw_result *result, stw_error *error) {
    const stw_method *first = first_method(r);
    if (stw_runner_is_cancelled(r) || meets_bound(r, result)) return STW_OK;
    if (result->best < 0) {
        if (!is_slow_to_bound(r)) TRY(find_bounds(r, result, error)); /* can anything? */
        return run_until_one_fits(r, result, error);
    }
    if (stw_method_decides_placement(first) ? !may_place(r) : !may_lean(r)) return STW_OK;
    TRY(run_alone(r, first, gives_up, result, error));
    const stw_method *better = stw_method_for(r->settings.objective);
    if (better == first || may_build(r, better, CONSTRUCTIVE_SHARE)) return STW_OK; /* its turn comes */
    return may_build(r, better, 1.0) ? run_alone(r, better, true, result, error) : STW_OK;
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

/* Making groups takes long for this budget: the default and the cheapest good plan come first as plans of ops; then groups, as
 * far as the time goes. Where it does not even do for half of them, nothing is fused, and the default says so. */
static stw_status run_ahead(stw_runner *r, stw_result *result, stw_error *error) {
    const unsigned tasks = r->settings.tasks;
    r->settings.tasks &= ~(unsigned)STW_TASK_FUSION;
    r->leaves_fusion = true; /* so far: bounds hold whatever the groups */
    TRY(run_single(r, STW_FUSION_NONE, result, error));
    TRY(run_first(r, false, result, error));
    const stw_stop stop = end_of_fusing(r, result);
    const double half_s = 0.5 * seconds_to_fuse(r);
    const bool fits = result->best >= 0; /* else it may with groups, and time is no object */
    if (fits && stw_runner_now_s(r) + half_s > stop.until_s) {
        snprintf(result->entry[0]->outcome.note, sizeof result->entry[0]->outcome.note,
                 "nothing fused: the budget is too short for it; give it more");
        return STW_OK;
    }
    r->settings.tasks = tasks;
    r->leaves_fusion = false;
    TRY(stw_runner_prepare(r, fits ? &stop : NULL, error));
    return fuse_plans(r, result, error);
}

/* After plans of ops: with groups it comes to a better one, where there is time for it. */
static stw_status run_first_on_groups(stw_runner *r, stw_result *result, stw_error *error) {
    if (result->best < 0 && r->fusing != NULL) return run_first(r, false, result, error);
    if (result->best < 0 || r->fusing == NULL || r->fusing->fused == NULL || !may_build(r, first_method(r), 1.0)) return STW_OK;
    return run_first(r, true, result, error);
}

/* It has made a valid plan before; what it could not make then it may now, with more time. */
static bool has_run(const stw_result *result, const stw_method *method) {
    for (int32_t k = 0; k < result->count; k++) {
        if (result->entry[k]->ran == method->name && result->entry[k]->score.reason == STW_VALID &&
            result->entry[k]->plan != NULL)
            return true;
    }
    return false;
}

/* Where memory is scarce, repairs take most of the time: they are for the methods whose plans are good and send little. */
static bool is_worth_repairing(const stw_method *method) {
    return method == &stw_method_expert || method == &stw_method_metis || method == &stw_method_heft;
}

/* Half of what is left until searches begin. */
static stw_budget slice_for_repair(const stw_runner *r) {
    const stw_budget budget = stw_runner_share(r, fmax(constructive_share(r), POLICY_SHARE));
    const stw_moment now = {.s = stw_runner_now_s(r)};
    stw_budget slice = stw_budget_share(&budget, now, 0.5, STW_SHARE_UP);
    slice.gives_up = budget.until_s > 0.0;
    return slice;
}

/* The k-th constructive method, or NULL past the last. */
static const stw_method *constructive_at(const stw_runner *r, int32_t k) {
    static const stw_method *const best_first[] = {&stw_method_expert, &stw_method_heft, &stw_method_etf, &stw_method_metis};
    enum { COUNT = sizeof best_first / sizeof best_first[0] };
    if (!is_crowded(r) || !may_place(r)) return stw_method_at(k);
    return k < COUNT ? best_first[k] : NULL;
}

/* Of graphs this large the budget allows few plans, unless the same comes again and again in them. */
static stw_status run_stretches(stw_runner *r, stw_result *result, stw_error *error) {
    if (count_placed(r) < STW_STRETCHES_OPS || !may_place(r) || r->settings.objective != STW_OBJECTIVE_TIME) return STW_OK;
    if (is_spent(r, constructive_share(r)) || meets_bound(r, result)) return STW_OK;
    stw_budget slice = slice_for(r, true);
    slice = stw_budget_share(&slice, (stw_moment){.s = stw_runner_now_s(r)}, STRETCHES_SHARE, STW_SHARE_UP);
    return stw_runner_run(r, &stw_method_stretches, stw_runner_rule(r), slice, true, result, error);
}

/* Worth its time where paths are of many ops. */
static stw_status run_express(stw_runner *r, stw_result *result, stw_error *error) {
    if (count_placed(r) < EXPRESS_OPS || !may_place(r) || r->settings.objective != STW_OBJECTIVE_TIME) return STW_OK;
    if (is_spent(r, constructive_share(r)) || meets_bound(r, result)) return STW_OK;
    if (!may_build(r, &stw_method_express, constructive_share(r))) return STW_OK;
    return stw_runner_run(r, &stw_method_express, stw_runner_rule(r), slice_for(r, false), true, result, error);
}

static stw_status run_constructive(stw_runner *r, stw_result *result, stw_error *error) {
    const stw_method *method;
    TRY(run_express(r, result, error));
    TRY(run_stretches(r, result, error));
    for (int32_t k = 0; (method = constructive_at(r, k)) != NULL; k++) {
        const bool scarce = is_scarce(r, result); /* until `expert` has shown that it is not */
        const double until = scarce ? fmax(constructive_share(r), POLICY_SHARE) : constructive_share(r);
        if (scarce && result->best >= 0 && !is_worth_repairing(method)) continue;
        const bool is_default = (method->traits & STW_METHOD_DEFAULT) != 0, orders = (method->traits & STW_METHOD_ORDERS) != 0;
        if (is_default && (r->settings.tasks & STW_TASK_PLACEMENT)) continue; /* only its rule would be new */
        if (!stw_method_serves(method, r->settings.objective, r->settings.tasks)) continue;
        if (orders && !may_lean(r)) continue;
        const bool again = is_default || (orders && may_place(r)); /* a rule, placements */
        if (!again && has_run(result, method)) continue;
        if (is_spent(r, until) || meets_bound(r, result)) break;
        if (!may_build(r, method, fmax(until, POLICY_SHARE))) continue; /* policies and searches must begin */
        const stw_budget slice = scarce ? slice_for_repair(r) : slice_for(r, (method->traits & STW_METHOD_STEERS) != 0);
        TRY(stw_runner_run(r, method, rule_for(r, result), slice, true, result, error));
        if (is_default) name_last(result, "single-by-rule");
    }
    return STW_OK;
}

/* Placement and order are to be decided, by the step alone. */
static bool is_free(const stw_runner *r) {
    const unsigned both = STW_TASK_PLACEMENT | STW_TASK_SCHEDULE;
    return r->settings.objective == STW_OBJECTIVE_TIME && (r->settings.tasks & both) == both && r->settings.rule < 0;
}

/* Small graphs are solved; where that is proved, there is nothing left to do. */
static stw_status run_exact(stw_runner *r, stw_result *result, stw_error *error) {
    if (r->simulator->graph->op_count > EXACT_OPS || !is_free(r)) return STW_OK;
    if (r->fusing != NULL && r->settings.fusion >= 0) return STW_OK; /* it would not go by that rule */
    if (is_spent(r, EXACT_SHARE) || meets_bound(r, result) || stw_runner_proves_none(r, result)) return STW_OK;
    TRY(stw_runner_run(r, &stw_method_exact, -1, stw_runner_share(r, EXACT_SHARE), true, result, error));
    result->optimal = result->entry[result->count - 1]->outcome.proved;
    return STW_OK;
}

/* Policies and searches improve what there is; from a plan that only lacks memory they may still come to a valid one. */
static stw_status run_kind(stw_runner *r, stw_result *result, stw_method_kind kind, double until, stw_error *error) {
    const stw_method *method;
    for (int32_t k = 0; (method = stw_method_at(k)) != NULL; k++) {
        if (method->kind != kind) continue;
        if (is_spent(r, until) || meets_bound(r, result) || stw_runner_is_late(r, seconds_to_begin(r, kind))) break;
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

/* Where memory could be short, what `breed` makes would seldom be valid. */
static bool is_roomy(const stw_simulator *s) {
    int64_t bytes = 0;
    for (int32_t v = 0; v < s->unfused.V; v++) bytes += s->unfused.value_bytes[v];
    for (int32_t d = 0; d < s->machine->device_count; d++) {
        if (bytes > s->machine->device[d].memory_bytes) return false;
    }
    return true;
}

/* Sequences are tried far more quickly than plans, so they find more in small graphs. Where transfers queue, what a sequence
 * takes is only nearly what the simulator says: there `anneal` has at least half of the time, and in larger graphs all of it. */
static double share_of_breed(const stw_runner *r) {
    const double ops = count_placed(r);
    if (ops > (r->simulator->machine->queues ? EXACT_OPS : BREED_OPS)) return 0.0;
    return ops > EXACT_OPS || r->simulator->machine->queues ? BREED_HALF : BREED_SHARE;
}

enum { BREED_LEAST = 500 }; /* evaluations: with fewer, sequences are drawn and hardly improved */

static stw_status run_breed(stw_runner *r, stw_result *result, double until, stw_error *error) {
    const double share = share_of_breed(r), now = 1.0 - share_left(r);
    if (share == 0.0 || !may_place(r) || !is_free(r) || result->best < 0 || !is_roomy(r->simulator)) return STW_OK;
    if (r->settings.fusion >= 0) return STW_OK; /* the rule makes other groups for other devices */
    if (r->settings.evaluations > 0 && r->settings.evaluations - r->evaluations < BREED_LEAST) return STW_OK;
    return run_kind(r, result, STW_METHOD_BREEDER, now + share * (until - now), error);
}

/* Searches by chance leave transfers that bring nothing; with charges each of them costs, so what is left is tidied in the end.
 */
static stw_status search_on(stw_runner *r, stw_result *result, stw_error *error) {
    const bool tidies = may_place(r) && r->simulator->machine->charges && r->settings.objective != STW_OBJECTIVE_MEMORY;
    const double end = end_of_search(r, result);
    TRY(run_breed(r, result, tidies ? (1.0 - TIDY_SHARE) * end : end, error));
    TRY(run_kind(r, result, STW_METHOD_SEARCH, tidies ? (1.0 - TIDY_SHARE) * end : end, error));
    if (!tidies || result->best < 0 || is_spent(r, end) || meets_bound(r, result)) return STW_OK;
    return stw_runner_tidy(r, end, result, error);
}

/* The first bounds are for the groups of the default; these are for those of the plan. */
static stw_status bound_groups(stw_runner *r, stw_result *result, stw_error *error) {
    stw_bounds bounds = {0};
    if (r->fusing == NULL || result->best < 0 || result->bounds.plan_s <= 0.0) return STW_OK;
    if (!is_late_to_bound(r, QUICK_BOUND_S))
        TRY(stw_find_bounds(r->simulator, result->entry[result->best]->plan, !is_late_to_bound(r, BOUND_S), &bounds, error));
    result->bounds.plan_s = fmax(bounds.plan_s, result->bounds.fusion_s); /* that of any groups holds for these too */
    result->bounds.load_s = fmax(bounds.load_s, result->bounds.load_fusion_s);
    return STW_OK;
}

/* ---- the flow ---- */

/* What has learnt on other graphs knows where ops should run, and no more. */
static bool transfers(const stw_runner *r) {
    const bool there = r->settings.policy.policy != NULL || stw_shipped_policy().length > 0;
    return there && (r->settings.tasks & STW_TASK_PLACEMENT) && r->simulator->machine->device_count > 1;
}

stw_status stw_runner_optimize(stw_runner *r, stw_result *result, stw_error *error) {
    const bool ahead = r->fusing == NULL && may_fuse_less(r); /* groups wait */
    TRY(ahead ? run_ahead(r, result, error) : run_default(r, result, error));
    TRY(run_exact(r, result, error));
    if (!result->optimal) TRY(ahead ? run_first_on_groups(r, result, error) : run_first(r, false, result, error));
    if (stw_runner_proves_none(r, result)) {
        stw_runner_say_what_lacks(r, result);
        return STW_OK;
    }
    if (!result->optimal) TRY(run_constructive(r, result, error));
    if (result->best < 0 && may_lean(r)) /* is there an order that fits? */
        TRY(stw_runner_run(r, &stw_method_lean, -1, stw_runner_share(r, POLICY_SHARE), true, result, error));
    TRY(find_bounds(r, result, error));
    const stw_policy_settings *wish = &r->settings.policy;
    const stw_method_kind policy = wish->trains || !transfers(r) ? STW_METHOD_LEARNER : STW_METHOD_POLICY;
    const bool rare = is_scarce(r, result) && !wish->trains; /* plans of the policy would seldom be valid */
    if (!result->optimal && !rare && (wish->trains || !wish->no_policy)) TRY(run_kind(r, result, policy, POLICY_SHARE, error));
    if (!result->optimal) TRY(search_on(r, result, error));
    if (meets_bound(r, result)) result->optimal = true;
    if (result->optimal && result->best >= 0) TRY(stw_runner_tidy(r, 1.0, result, error));
    TRY(bound_groups(r, result, error));
    if (result->best < 0) stw_runner_say_what_lacks(r, result);
    return STW_OK;
}

/* What the caller asked for goes before this as well. */
static stw_status try_noise(stw_runner *r, stw_result *result, stw_error *error) {
    if (result->best < 0 || result->entry[0]->plan == NULL || stw_runner_is_cancelled(r)) return STW_OK;
    if (stw_runner_is_late(r, NOISE_S * r->simulator->graph->op_count)) return STW_OK;
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
    const bool waits = choose_rule(runner);
    const stw_stop stop = stop_at(runner, stw_runner_share(runner, LAST_FUSION_SHARE).until_s);
    stw_status status = waits ? STW_OK : stw_runner_prepare(runner, may_fuse_less(runner) ? &stop : NULL, error);
    if (status == STW_OK) status = stw_runner_settle(runner, stw_runner_optimize(runner, result, error), result, error);
    if (status == STW_OK) status = stw_runner_settle(runner, try_noise(runner, result, error), result, error);
    if (status == STW_OK) stw_runner_finish(runner, result);
    return stw_runner_close(runner, status, result, out);
}
