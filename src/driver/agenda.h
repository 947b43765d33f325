/* What runs when: which methods suit the situation, in what order, and what share of the budget each may use. The tables are in
 * agenda.c; optimize.c runs what they say. */
#ifndef STW_DRIVER_AGENDA_H
#define STW_DRIVER_AGENDA_H

#include "driver/runner.h"

/* Shares of the whole budget: what ends when. */
#define STW_AGENDA_EXACT        0.3  /* proving the optimum of a small graph, before anything else */
#define STW_AGENDA_CONSTRUCTIVE 0.4  /* methods that build plans; what is left is for improving */
#define STW_AGENDA_POLICY       0.6  /* until here the policy may learn */
#define STW_AGENDA_TIDY         0.15 /* of the search: for dropping transfers, where they take of the devices' own time */

/* ---- the budget ---- */

/* This share of it is gone. */
bool stw_agenda_is_spent(const stw_runner *runner, double share);
/* What is left of it, from 1 to 0. */
double stw_agenda_left(const stw_runner *runner);
/* Takes longer than this share of a budget of time. */
bool stw_agenda_is_slow(const stw_runner *runner, double seconds, double share);
/* The method comes to a plan before this share of the time is gone. */
bool stw_agenda_may_build(const stw_runner *runner, const stw_method *method, double share);
/* Seconds before a method has tried anything: units, clusters, features, a network for them. */
double stw_agenda_seconds_to_begin(const stw_runner *runner, stw_method_kind kind);

/* ---- what is ours to decide ---- */

/* Devices. */
bool stw_agenda_may_place(const stw_runner *runner);
/* The order, and no rule was asked for. */
bool stw_agenda_may_order(const stw_runner *runner);

/* ---- the first plan ---- */

/* The cheapest method that is good for the objective. Where even one pass of `etf` is too much, that is `expert`. */
const stw_method *stw_agenda_first(const stw_runner *runner);

/* Methods that are tried until a plan fits, this many in a round. In the second round, where the budget is one of time, the clock
 * has no say. */
enum { STW_AGENDA_FITTING = 6 };
const stw_method *stw_agenda_fitting_at(const stw_runner *runner, int32_t k, bool timed);
stw_budget stw_agenda_fitting_slice(const stw_runner *runner, const stw_method *method, bool timed);

/* ---- the constructive methods ---- */

/* Nothing fits on one device: `pack` has run. */
bool stw_agenda_has_packed(const stw_result *result);
/* The k-th of them, or NULL past the last. */
const stw_method *stw_agenda_at(const stw_runner *runner, bool packed, int32_t k);
/* It serves the objective, decides about what is ours to decide, and suits the size of the graph. */
bool stw_agenda_has(const stw_runner *runner, const stw_method *method);
/* Of what they have together, the share of one of them, as the time stands. */
double stw_agenda_each(const stw_runner *runner);
/* In this situation its plans would take too long to repair. */
bool stw_agenda_passes_over(const stw_runner *runner, const stw_result *result, const stw_method *method);
/* The share of the budget after which none of them begins. */
double stw_agenda_until(const stw_runner *runner, const stw_result *result);
/* What one of them may use. */
stw_budget stw_agenda_slice(const stw_runner *runner, const stw_result *result, const stw_method *method);
/* The same for one that goes before the others. */
stw_budget stw_agenda_slice_ahead(const stw_runner *runner);
/* The rule that goes with placements (stw_runner_rule); -1: none, repairs decide about the order as well. */
int32_t stw_agenda_rule(const stw_runner *runner, const stw_result *result);
/* Memory is so scarce that plans which others make would seldom be valid. */
bool stw_agenda_is_scarce(const stw_runner *runner, const stw_result *result);

/* ---- where plans are counted ---- */

/* So few evaluations were asked for that `shortlist` stands for the constructive methods, once there is a plan; what it may use.
 */
bool stw_agenda_has_shortlist(const stw_runner *runner);
stw_budget stw_agenda_slice_of_shortlist(const stw_runner *runner);

/* ---- methods for some sizes only ---- */

/* Whether the graph is small enough for `exact`. */
bool stw_agenda_has_exact(const stw_runner *runner);
/* Of the search that improves plans, the share of `coarse`, which comes before all others; 0: it has no turn. */
double stw_agenda_coarse_share(const stw_runner *runner);
/* Of what is left then, the share of `breed`; 0: it has no turn. */
double stw_agenda_breed_share(const stw_runner *runner);

/* ---- policies and the end ---- */

/* What has learnt on other graphs knows where ops should run, and no more: else one that learns here. */
stw_method_kind stw_agenda_policy(const stw_runner *runner);
/* Of policies and searches: not `go-tune` where it would anneal, as `anneal` does later with all that is left. */
bool stw_agenda_runs(const stw_runner *runner, const stw_method *method);
/* Transfers take of the devices' own time, so those that bring nothing are dropped in the end. */
bool stw_agenda_tidies(const stw_runner *runner);

#endif
