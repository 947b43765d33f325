/* Runs methods one after the other, on threads that they share, and keeps what came out: behind optimize, compare and
 * stw_method_run. */
#ifndef STW_DRIVER_RUNNER_H
#define STW_DRIVER_RUNNER_H

#include "api/settings.h"
#include "driver/limits.h"
#include "method/method.h"
#include "plan/fuse.h"

typedef struct stw_trail { /* how a method's best value fell */
    stw_found *found;      /* (count) owned; NULL: none */
    int32_t count;
    int64_t capacity;
    int64_t total;  /* that were found */
    int64_t stride; /* each of these is kept, and the last */
} stw_trail;

typedef struct stw_entry {   /* what one method came to */
    stw_candidate candidate; /* as callers see it; its texts and lists are literals or of the entry */
    stw_outcome outcome;
    const char *ran; /* the name of the method that ran; NULL: none did */
    char again[44];  /* "lean-2", where a method runs a second time: no two entries have one name */
    stw_plan *plan;  /* NULL if it made none */
    stw_score score;
    int64_t peak_bytes[STW_MAX_DEVICES];
    char reason[512]; /* why it is not valid, or empty */
    double began_s;
    stw_trail trail;
} stw_entry;

enum { STW_MAX_ENTRIES = 64 };

struct stw_result {
    const stw_simulator *simulator;
    stw_settings settings;
    stw_entry *entry[STW_MAX_ENTRIES]; /* owned */
    int32_t count;
    int32_t best; /* valid, or -1 */
    stw_bounds bounds;
    double measured_share;
    stw_noise noise;
    bool interrupted, optimal;
    bool short_of_memory; /* something ended early for want of it */
    char lacking[800];
    char *limits; /* owned; as they were given, or NULL */
};

typedef struct stw_runner {
    const stw_simulator *simulator;
    stw_settings settings;
    const stw_watch *watch; /* never NULL */
    stw_pool *pool;
    int32_t threads;
    stw_workspace **workspace; /* (threads) */
    stw_arena *scratch;        /* (threads) */
    stw_arena arena;
    double began_s;
    double end_s;        /* of a budget of time, kept for what comes after the searches; 0: that takes no time to speak of */
    int64_t evaluations; /* of the methods that are done */
    stw_progress progress;
    double reported_s;         /* when it was last reported */
    stw_plan *from;            /* the initial plan, or NULL */
    stw_fusing *fusing;        /* when fusion is among the tasks and prepared, else NULL */
    stw_fusion groups_by;      /* makes the groups where they are ours to decide: the rule of the default, or a quicker one */
    bool groups_wait;          /* fusion is among the tasks, but groups come later, or never if the time does not suffice */
    stw_fusing *given_groups;  /* of `from`, when they must stay and the placement need not; else NULL */
    const stw_search *running; /* or NULL; then: */
    stw_entry *entry;          /* its outcome so far */
    stw_plan *kept;            /* the best plan of the method that runs, in case it ends badly; or NULL */
    const stw_entry *kept_for; /* whose it is; NULL: there is none */
    stw_limited *limited;      /* the problem with the caller's limits, of which `simulator` is, or NULL: there are none */
    stw_error shortage;        /* the first that ran out of memory; its status is STW_OK: none has */
} stw_runner;

stw_status stw_runner_create(const stw_simulator *simulator, const stw_settings *settings, const stw_watch *watch,
                             stw_runner **out, stw_error *error);
void stw_runner_destroy(stw_runner *runner);
double stw_runner_now_s(const stw_runner *runner);
bool stw_runner_is_cancelled(const stw_runner *runner);
/* Whether work of this many seconds would end well after the time budget, if there is one; where time is kept for the end, after
 * it at all. */
bool stw_runner_is_late(const stw_runner *runner, double seconds);

/* A runner with an empty result, as the options say (without a word on the tasks: these), by this clock (NULL: theirs);
 * and the end of both: the runner goes, the result is handed out if `status` is OK. */
stw_status stw_runner_open(const stw_simulator *simulator, const stw_options *options, unsigned tasks, const stw_watch *watch,
                           const stw_clock *clock, stw_runner **runner, stw_result **result, stw_error *error);
/* What methods need beside it: groups, when fusion is among the tasks, and the initial plan. On large graphs groups take
 * long; they end early when `stop` (or NULL) is due. */
stw_status stw_runner_prepare(stw_runner *runner, const stw_stop *stop, stw_error *error);
stw_status stw_runner_close(stw_runner *runner, stw_status status, stw_result *result, stw_result **out);
/* Out of memory is no failure once there is a valid plan, which is kept; and one where no method could make any. */
stw_status stw_runner_settle(stw_runner *runner, stw_status status, const stw_result *result, stw_error *error);
/* Fills in what is known only at the end: interrupted or not, short of memory or not, the measured share. */
void stw_runner_finish(stw_runner *runner, stw_result *result);
/* That of all methods together. */
stw_budget stw_runner_budget(const stw_runner *runner);
/* What the next method may use until `share` of it is gone. */
stw_budget stw_runner_share(const stw_runner *runner, double share);
/* The rule that goes with placements: the one that was asked for; the default if the schedule is not ours to decide; else what
 * suits the objective. */
int32_t stw_runner_rule(const stw_runner *runner);

/* Runs a method within `budget` and adds its entry to the result. `rule`: stw_rule or -1; a schedule that is not ours
 * to decide stays topological. Initial plans: those in the result, best first, if `starts` is set. A method that can make no plan
 * gets an entry that says why. One that runs out of memory does so too, with the best plan that it had found, if any: others may
 * need less. */
stw_status stw_runner_run(stw_runner *runner, const stw_method *method, int32_t rule, stw_budget budget, bool starts,
                          stw_result *result, stw_error *error);
/* Plans of the result become plans of the caller's graph: to be called before the runner goes. */
void stw_runner_release(stw_result *result);
/* gain.c: where several devices bring less over one than they must, the best plan is the one on one device. */
void stw_runner_weigh_gain(const stw_runner *runner, stw_result *result);
/* The best valid entry whose plan uses one device alone; -1: there is none. */
int32_t stw_runner_best_on_one(const stw_runner *runner, const stw_result *result);

/* Adds an entry for a plan (which it takes over): evaluates it and keeps `best` up to date. */
stw_status stw_runner_add(stw_runner *runner, stw_entry *entry, stw_result *result, stw_error *error);

/* Drops transfers of the best plan that bring nothing, until this share of the budget is spent: for a plan that is as good as can
 * be, or where transfers charge. */
stw_status stw_runner_tidy(stw_runner *runner, double until, stw_result *result, stw_error *error);

/* Adds the best plan with groups for its devices; those that it has stay if they are better. */
stw_status stw_runner_regroup(stw_runner *runner, stw_result *result, stw_error *error);

/* An entry without a plan; `method` is a literal. */
stw_status stw_entry_create(const char *method, stw_entry **out, stw_error *error);
void stw_entry_destroy(stw_entry *entry);

/* proofs.c: fills in the lower bounds, which do not depend on a plan whose ops are all alone. */
stw_status stw_runner_bound(stw_runner *runner, stw_result *result, stw_error *error);
/* The same where time is short, for the groups of the first plan: what the caller asked for goes before what is nice to know. */
stw_status stw_runner_find_bounds(stw_runner *runner, stw_result *result, stw_error *error);
/* Sets end_s: bounds, writing. Bounds took so long on the first plan; below 0: they are still to come, and take what they did
 * elsewhere. */
void stw_runner_keep_for_end(stw_runner *runner, double bounds_s);
/* With this little time plans come first, and bounds later. */
bool stw_runner_is_slow_to_bound(const stw_runner *runner);
/* The bounds for the groups of the best plan take the place of those that were found for others. */
stw_status stw_runner_bound_groups(stw_runner *runner, stw_result *result, stw_error *error);
/* The bound of the objective that holds for all plans of the tasks. 0: not known yet. */
double stw_runner_objective_bound(const stw_runner *runner, const stw_result *result);
/* The best plan cannot be improved: it meets the bound of the objective. */
bool stw_runner_meets_bound(const stw_runner *runner, const stw_result *result);
/* A bound tells that no plan is valid. */
bool stw_runner_proves_none(const stw_runner *runner, const stw_result *result);
/* Says in result->lacking whether there is no valid plan or none was found, and what stands between the plans and validity. */
void stw_runner_say_what_lacks(const stw_runner *runner, stw_result *result);

/* first_plans.c: what methods need (stw_runner_prepare), with groups by a rule that the time allows; or they wait for a plan. */
stw_status stw_runner_prepare_in_time(stw_runner *runner, stw_error *error);
/* The default (or the plan that was given); and nothing fused, which no plan may be worse than either. */
stw_status stw_runner_run_default(stw_runner *runner, stw_result *result, stw_error *error);
/* A plan that is worth having, whatever is left of the budget (unless it `gives_up` at its end): of the cheapest method that is
 * good for the objective; and where the graph fits on no device alone, one that fits. */
stw_status stw_runner_run_first(stw_runner *runner, bool gives_up, stw_result *result, stw_error *error);
/* Where groups wait, both, as plans of ops; then groups, as far as the time goes. Where it does not even do for half of them,
 * nothing is fused, and the default says so. */
stw_status stw_runner_run_ahead(stw_runner *runner, stw_result *result, stw_error *error);
/* After that: with groups the first method comes to a better plan, where there is time for it. */
stw_status stw_runner_run_first_on_groups(stw_runner *runner, stw_result *result, stw_error *error);
/* The last entry is a second run of its method: rows have names of their own. `name` is a literal. */
void stw_result_name_last(stw_result *result, const char *name);

/* trail.c: what is not better than the last is passed over. */
void stw_trail_add(stw_trail *trail, stw_found found);
/* What another found, `seconds` and `evaluations` later. */
void stw_trail_append(stw_trail *trail, const stw_trail *other, double seconds, int64_t evaluations);
void stw_trail_free(stw_trail *trail);

/* optimize.c: the flow, into an empty result. The budget counts from now. */
stw_status stw_runner_optimize(stw_runner *runner, stw_result *result, stw_error *error);
/* stw_optimize by another clock than the computer's (NULL: by that), and from this plan (NULL: from none) as with the option
 * "from". */
stw_status stw_optimize_by(const stw_simulator *simulator, const stw_options *options, const stw_watch *watch,
                           const stw_clock *clock, const stw_plan *given, stw_result **out, stw_error *error);
/* outline.c: the methods that it would run as things look before the first: what becomes of them may change that. `simulator` has
 * the graph; no groups are made, so that shares which depend on their number are those of the ops. Limits that cannot be kept are
 * refused. */
typedef struct stw_outline_step {
    const char *method;
    double most;      /* share of the budget that it may take; 0: a plan, however long that takes */
    double until;     /* share of the budget that is gone when it ends */
    const char *when; /* under which condition; "": as long as there is time */
} stw_outline_step;
typedef struct stw_outline {
    stw_outline_step step[STW_MAX_ENTRIES]; /* (count) in order */
    int32_t count;
} stw_outline;
stw_status stw_optimize_outline(const stw_simulator *simulator, const stw_options *options, const stw_settings *settings,
                                stw_outline *out, stw_error *error);
/* noise.c: how often the best stays ahead of the default when costs are off. */
stw_status stw_runner_try_noise(stw_runner *runner, const stw_plan *best, const stw_plan *standard, stw_result *result,
                                stw_error *error);

#endif
