#include "driver/agenda.h"

#include <math.h>

#include "method/go/go.h"
#include "method/starts.h"
#include "policy/checkpoint.h"
#include "search/fusing.h"

/* ---- the constructive methods: what they may use, and which run ---- */

/* Time is ample or short, memory is ample or scarce. */
enum { AMPLE, SHORT_OF_TIME, SHORT_FOR_SEARCHES, SHORT_OF_MEMORY, SHORT_OF_BOTH };

typedef struct {
    double until;                   /* the share of the budget after which none begins */
    double each;                    /* of what is left of that, for one of them */
    double last;                    /* until this share of the budget one may come to its first plan; 0: no longer than its own */
    const stw_method *const *order; /* they run in this order; NULL: those for large graphs, then all of the table of methods */
    const stw_method *const *worth; /* once there is a plan, no others run; NULL: all do */
} turns;

/* They are for large graphs, and decide by themselves whether there is time. */
static const stw_method *const for_large[] = {&stw_method_express, &stw_method_stretches};
enum { FOR_LARGE = sizeof for_large / sizeof for_large[0] };
/* The time does not do for all, let alone for searches after them: those whose plans are best in most cases go first, and
 * `stretches`, which uses all that it is given, after those that soon come to a plan. */
static const stw_method *const best_first[] = {
    &stw_method_express, &stw_method_expert, &stw_method_heft, &stw_method_stretches, &stw_method_etf, &stw_method_metis, NULL};
/* Repairs take most of the time: they are for methods whose plans are good and send little. */
static const stw_method *const worth_repairing[] = {&stw_method_express, &stw_method_stretches, &stw_method_expert,
                                                    &stw_method_metis,   &stw_method_heft,      NULL};

/* clang-format off */
static const turns turns_in[] = {
    /*                      until                    each  last               order       worth */
    [AMPLE]              = {STW_AGENDA_CONSTRUCTIVE, 0.35, STW_AGENDA_POLICY, NULL,       NULL},
    [SHORT_OF_TIME]      = {0.8,                     0.35, 0.8,               best_first, NULL},
    [SHORT_FOR_SEARCHES] = {0.95,                    0.35, 0.95,              best_first, NULL},
    [SHORT_OF_MEMORY]    = {STW_AGENDA_POLICY,       0.5,  0.0,               NULL,       worth_repairing},
    [SHORT_OF_BOTH]      = {0.8,                     0.5,  0.0,               best_first, worth_repairing},
};
/* clang-format on */

/* ---- until a plan fits: which methods are tried ---- */

/* `pack` first, then good ones; what takes long for the budget goes last. */
static const stw_method *const fitting[2][2][STW_AGENDA_FITTING] = {
    /* [etf is slow][pack is slow] */
    {{&stw_method_pack, &stw_method_etf, &stw_method_heft, &stw_method_expert, &stw_method_spread, &stw_method_topo},
     {&stw_method_etf, &stw_method_heft, &stw_method_expert, &stw_method_spread, &stw_method_topo, &stw_method_pack}},
    {{&stw_method_pack, &stw_method_expert, &stw_method_spread, &stw_method_topo, &stw_method_heft, &stw_method_etf},
     {&stw_method_expert, &stw_method_spread, &stw_method_topo, &stw_method_heft, &stw_method_etf, &stw_method_pack}},
};

enum { ENOUGH = 32, ENOUGH_TO_PACK = 600 }; /* evaluations that one of them may make, of those that were asked for */

/* ---- methods for some sizes only ---- */

enum {
    EXACT_OPS = 40,     /* what is larger is seldom proved */
    BREED_OPS = 200,    /* or bred well, in the time that people wait */
    BREED_LEAST = 500,  /* evaluations: with fewer, sequences are drawn and hardly improved */
    COARSE_OPS = 2000,  /* (or groups) and more: of fewer, searches try plans enough as they are */
    COARSE_LEAST = 200, /* evaluations */
    EXPRESS_OPS = 8192  /* (or groups) from which on paths are of many ops, so that `express` is worth its time */
};
static const double BREED_SHARE = 0.9;     /* of the search for improvements, on graphs that are as small as for `exact`; */
static const double BREED_HALF = 0.5;      /* where sequences are less sure to help */
static const double COARSE_SHARE = 0.45;   /* of the search for improvements */
static const double STRETCHES_SHARE = 0.5; /* of what the constructive methods have */

/* ---- what takes long ---- */

static const double QUICK_S = 0.05; /* nobody minds waiting for it */
/* What takes longer than these shares of a budget of time waits until there is a plan: */
static const double SLOW_FIRST_SHARE = 0.3; /* the better of the first methods */
static const double SLOW_PACK_SHARE = 0.1;  /* `pack`, for methods that are quicker */
static const double CROWDED_FIRST_S = 0.5;  /* and where time is short, what takes longer than this: better ones follow */

/* ---- the budget ---- */

static stw_moment now_of(const stw_runner *r) { return (stw_moment){stw_runner_now_s(r), r->evaluations}; }

bool stw_agenda_is_spent(const stw_runner *r, double share) {
    const stw_budget whole = stw_runner_budget(r);
    return stw_runner_is_cancelled(r) || stw_budget_is_spent(&whole, now_of(r), share);
}

double stw_agenda_left(const stw_runner *r) {
    const stw_budget whole = stw_runner_budget(r);
    return fmax(0.0, 1.0 - stw_budget_progress(&whole, now_of(r)));
}

bool stw_agenda_is_slow(const stw_runner *r, double seconds, double share) {
    return r->settings.budget_s > 0.0 && seconds > share * r->settings.budget_s;
}

/* What placing is done with: groups, if there are any. */
static double count_placed(const stw_runner *r) {
    return r->fusing != NULL && r->fusing->fused != NULL ? r->fusing->fused->graph->op_count : r->simulator->graph->op_count;
}

/* Until a method has built its first plan. */
static double seconds_to_build(const stw_runner *r, const stw_method *method) {
    const double ops = count_placed(r), pairs = ops * r->simulator->machine->device_count;
    return method->op_s * ops + method->pair_s * pairs;
}

bool stw_agenda_may_build(const stw_runner *r, const stw_method *method, double share) {
    const double last_s = stw_runner_share(r, share).until_s;
    return last_s <= 0.0 || stw_runner_now_s(r) + seconds_to_build(r, method) <= last_s;
}

double stw_agenda_seconds_to_begin(const stw_runner *r, stw_method_kind kind) {
    enum { LARGE_OPS = 50000 }; /* (or more) where a search must come to some forty plans to be worth its memory */
    const double ops = r->simulator->graph->op_count, us_of_search = ops < LARGE_OPS ? 8.0 : 28.0;
    const bool searches = kind == STW_METHOD_SEARCH || kind == STW_METHOD_COARSENER;
    const double us = kind == STW_METHOD_LEARNER ? 25.0 : searches ? us_of_search : 3.0; /* per op */
    return us * 1e-6 * ops;
}

/* ---- what is ours to decide ---- */

bool stw_agenda_may_place(const stw_runner *r) {
    return (r->settings.tasks & STW_TASK_PLACEMENT) != 0 && r->simulator->machine->device_count > 1;
}

bool stw_agenda_may_order(const stw_runner *r) { return (r->settings.tasks & STW_TASK_SCHEDULE) != 0 && r->settings.rule < 0; }

/* Devices and the order, by the step alone. */
static bool is_free(const stw_runner *r) {
    const unsigned both = STW_TASK_PLACEMENT | STW_TASK_SCHEDULE;
    return r->settings.objective == STW_OBJECTIVE_TIME && (r->settings.tasks & both) == both && r->settings.rule < 0;
}

/* ---- the situation ---- */

/* The constructive methods could not make a hundred evaluations in their share. */
static bool is_short_of_time(const stw_runner *r) {
    const double evaluation_s = 5e-7 * r->simulator->graph->op_count; /* measured as what methods take (method.h) */
    return stw_agenda_is_slow(r, 100.0 * evaluation_s, STW_AGENDA_CONSTRUCTIVE) && r->settings.objective == STW_OBJECTIVE_TIME;
}

bool stw_agenda_has_packed(const stw_result *result) {
    int32_t k = 0;
    while (k < result->count && result->entry[k]->ran != stw_method_pack.name) k++;
    return k < result->count;
}

/* Nothing fits on one device, nor does any plan of `expert` as it is. */
bool stw_agenda_is_scarce(const stw_runner *r, const stw_result *result) {
    for (int32_t k = 0; k < result->count; k++) {
        const stw_entry *entry = result->entry[k];
        if (entry->ran == stw_method_expert.name && entry->score.reason == STW_VALID && !entry->outcome.repaired) return false;
    }
    return stw_agenda_has_packed(result) && stw_agenda_may_place(r) && r->settings.objective != STW_OBJECTIVE_MEMORY;
}

/* In what the constructive methods would leave, no search could begin, so they have that as well. */
static bool is_short_for_searches(const stw_runner *r) {
    const double left_s = (1.0 - turns_in[SHORT_OF_TIME].until) * r->settings.budget_s;
    return r->end_s > 0.0 && r->end_s + stw_agenda_seconds_to_begin(r, STW_METHOD_SEARCH) > left_s;
}

/* What it is by time alone. */
static const turns *turns_by_time(const stw_runner *r) {
    if (!is_short_of_time(r)) return &turns_in[AMPLE];
    return &turns_in[is_short_for_searches(r) ? SHORT_FOR_SEARCHES : SHORT_OF_TIME];
}

static const turns *turns_now(const stw_runner *r, const stw_result *result) {
    if (!stw_agenda_is_scarce(r, result)) return turns_by_time(r);
    return &turns_in[is_short_of_time(r) ? SHORT_OF_BOTH : SHORT_OF_MEMORY];
}

/* ---- the first plan ---- */

const stw_method *stw_agenda_first(const stw_runner *r) {
    const stw_method *first = stw_method_for(r->settings.objective);
    const double seconds = seconds_to_build(r, first);
    const bool slow = seconds > QUICK_S &&
                      (stw_agenda_is_slow(r, seconds, SLOW_FIRST_SHARE) || (is_short_of_time(r) && seconds > CROWDED_FIRST_S));
    return stw_method_decides_placement(first) && slow ? &stw_method_expert : first;
}

const stw_method *stw_agenda_fitting_at(const stw_runner *r, int32_t k, bool timed) {
    const double pack_s = stw_method_pack.op_s * r->simulator->graph->op_count; /* ops, not groups */
    const bool first_is_slow = stw_agenda_first(r) != stw_method_for(r->settings.objective);
    const bool pack_is_slow = timed && pack_s > QUICK_S && stw_agenda_is_slow(r, pack_s, SLOW_PACK_SHARE);
    return fitting[first_is_slow][pack_is_slow][k];
}

/* ---- slices ---- */

/* Each leaves most of the share to those that follow. Once there is a plan, what does not come to one in time is given up. */
static stw_budget slice_of(const stw_runner *r, const turns *row, bool all) {
    stw_budget budget = stw_runner_share(r, row->until);
    if (row->last > 0.0) budget.last_s = stw_runner_share(r, row->last).until_s;
    budget.gives_up = budget.until_s > 0.0;
    if (all) return budget;
    return stw_budget_share(&budget, (stw_moment){.s = stw_runner_now_s(r)}, row->each, STW_SHARE_UP);
}

stw_budget stw_agenda_slice_ahead(const stw_runner *r) { return slice_of(r, turns_by_time(r), false); }

static stw_budget slice_of_stretches(const stw_runner *r) {
    const stw_budget slice = slice_of(r, turns_by_time(r), true);
    return stw_budget_share(&slice, (stw_moment){.s = stw_runner_now_s(r)}, STRETCHES_SHARE, STW_SHARE_UP);
}

/* The last method may use up what is left, unless repairs would. */
stw_budget stw_agenda_slice(const stw_runner *r, const stw_result *result, const stw_method *method) {
    if (method == &stw_method_stretches) return slice_of_stretches(r);
    if (method == &stw_method_express) return stw_agenda_slice_ahead(r);
    const bool last = (method->traits & STW_METHOD_STEERS) != 0 && !stw_agenda_is_scarce(r, result);
    return slice_of(r, turns_now(r, result), last);
}

/* Where nothing fits yet, a method may always build its plans and make one of them fit, however little is left of the share of
 * the constructive methods; until policies and searches begin, or without an eye on the clock. */
stw_budget stw_agenda_fitting_slice(const stw_runner *r, const stw_method *method, bool timed) {
    const bool packs = method == &stw_method_pack;
    const int64_t enough = packs ? ENOUGH_TO_PACK : ENOUGH, left = stw_runner_share(r, 1.0).evaluations;
    stw_budget budget = stw_agenda_slice_ahead(r);
    if (budget.until_s > 0.0 || budget.evaluations < enough) budget.evaluations = enough;
    const int64_t most = packs ? (left + 1) / 2 : left; /* where `pack` finds none, others may */
    if (left > 0 && budget.evaluations > most) budget.evaluations = most;
    const double until_s = timed ? stw_runner_share(r, STW_AGENDA_POLICY).until_s : 0.0;
    budget.last_s = packs ? until_s : 0.0; /* once it has a plan, it leaves time to others */
    if (!packs || !timed) budget.until_s = until_s;
    budget.gives_up = false;
    return budget;
}

/* ---- the constructive methods ---- */

/* The table of methods, but `expert` before all others: what comes of it tells whether memory is scarce. */
static const stw_method *expert_first_at(int32_t k) {
    int32_t at = 0;
    while (stw_method_at(at) != &stw_method_expert) at++;
    return k == 0 ? &stw_method_expert : stw_method_at(k <= at ? k - 1 : k);
}

static bool is_for_large(const stw_method *method) { return method == &stw_method_express || method == &stw_method_stretches; }

const stw_method *stw_agenda_at(const stw_runner *r, bool packed, int32_t k) {
    const turns *row = turns_by_time(r);
    const stw_method *method;
    if (row->order != NULL && stw_agenda_may_place(r)) return row->order[k];
    if (k < FOR_LARGE) return for_large[k];
    k -= FOR_LARGE;
    for (int32_t i = 0; (method = packed ? expert_first_at(i) : stw_method_at(i)) != NULL; i++) { /* those have had their turn */
        if (!is_for_large(method) && k-- == 0) return method;
    }
    return NULL;
}

static bool suits_express(const stw_runner *r) {
    const double until = turns_by_time(r)->until;
    return count_placed(r) >= EXPRESS_OPS && !stw_agenda_is_spent(r, until) &&
           stw_agenda_may_build(r, &stw_method_express, until);
}

/* Of graphs this large the budget allows few plans, unless the same comes again and again in them. */
static bool suits_stretches(const stw_runner *r) {
    return count_placed(r) >= STW_STRETCHES_OPS && !stw_agenda_is_spent(r, turns_by_time(r)->until);
}

bool stw_agenda_has(const stw_runner *r, const stw_method *method) {
    const bool is_default = (method->traits & STW_METHOD_DEFAULT) != 0, orders = (method->traits & STW_METHOD_ORDERS) != 0;
    if (is_for_large(method)) {
        if (!stw_agenda_may_place(r) || r->settings.objective != STW_OBJECTIVE_TIME) return false;
        return method == &stw_method_express ? suits_express(r) : suits_stretches(r);
    }
    if (is_default && (r->settings.tasks & STW_TASK_PLACEMENT)) return false; /* only its rule would be new */
    if (orders && !stw_agenda_may_order(r)) return false;
    return stw_method_serves(method, r->settings.objective, r->settings.tasks);
}

double stw_agenda_each(const stw_runner *r) { return turns_by_time(r)->each; }

bool stw_agenda_passes_over(const stw_runner *r, const stw_result *result, const stw_method *method) {
    const stw_method *const *worth = turns_now(r, result)->worth;
    if (worth == NULL || result->best < 0) return false;
    while (*worth != NULL && *worth != method) worth++;
    return *worth == NULL;
}

double stw_agenda_until(const stw_runner *r, const stw_result *result) { return turns_now(r, result)->until; }

int32_t stw_agenda_rule(const stw_runner *r, const stw_result *result) {
    const bool ordered = stw_agenda_is_scarce(r, result) && (r->settings.tasks & STW_TASK_SCHEDULE);
    return ordered ? r->settings.rule : stw_runner_rule(r);
}

/* ---- where plans are counted ---- */

/* Groups are ours: the best plan of groups becomes one of ops, and its groups are chosen. */
enum { SHORTLIST_MOST = 100, TO_CHOOSE_GROUPS = 5 }; /* evaluations */

bool stw_agenda_has_shortlist(const stw_runner *r) {
    const int64_t evaluations = r->settings.evaluations;
    const bool counted = evaluations > 0 && evaluations <= SHORTLIST_MOST && r->settings.budget_s <= 0.0;
    if (!counted || r->limited != NULL || r->settings.objective != STW_OBJECTIVE_TIME) return false;
    return stw_agenda_may_place(r) && count_placed(r) < EXPRESS_OPS; /* the lists are from graphs of some thousand ops at most */
}

stw_budget stw_agenda_slice_of_shortlist(const stw_runner *r) {
    stw_budget slice = stw_runner_share(r, 1.0);
    const int64_t later = r->fusing != NULL && r->settings.fusion < 0 ? TO_CHOOSE_GROUPS : 0;
    slice.evaluations = slice.evaluations > later + 1 ? slice.evaluations - later : 1;
    return slice;
}

/* ---- methods for some sizes only ---- */

bool stw_agenda_has_exact(const stw_runner *r) {
    if (r->simulator->graph->op_count > EXACT_OPS || !is_free(r)) return false;
    return r->fusing == NULL || r->settings.fusion < 0; /* else it would not go by that rule */
}

double stw_agenda_coarse_share(const stw_runner *r) {
    if (r->limited != NULL) return 0.0; /* strands know nothing of what must be together */
    if (count_placed(r) < COARSE_OPS || !stw_agenda_may_place(r) || r->settings.objective != STW_OBJECTIVE_TIME) return 0.0;
    if (r->settings.evaluations > 0 && r->settings.evaluations - r->evaluations < COARSE_LEAST) return 0.0;
    return COARSE_SHARE;
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
double stw_agenda_breed_share(const stw_runner *r) {
    const bool queues = r->simulator->machine->queues;
    const double ops = count_placed(r);
    if (ops > (queues ? EXACT_OPS : BREED_OPS) || !stw_agenda_may_place(r) || !is_free(r)) return 0.0;
    if (!is_roomy(r->simulator) || r->settings.fusion >= 0) return 0.0; /* the rule makes other groups for other devices */
    if (r->settings.evaluations > 0 && r->settings.evaluations - r->evaluations < BREED_LEAST) return 0.0;
    return ops > EXACT_OPS || queues ? BREED_HALF : BREED_SHARE;
}

/* ---- policies and the end ---- */

stw_method_kind stw_agenda_policy(const stw_runner *r) {
    const bool there = r->settings.policy.policy != NULL || stw_shipped_policy().length > 0;
    const bool transfers = there && stw_agenda_may_place(r);
    return r->settings.policy.trains || !transfers ? STW_METHOD_LEARNER : STW_METHOD_POLICY;
}

bool stw_agenda_runs(const stw_runner *r, const stw_method *method) {
    const stw_settings *s = &r->settings;
    return method != &stw_method_go_tune || !stw_go_tunes_scorer(&s->policy, s->objective, s->tasks, NULL);
}

bool stw_agenda_tidies(const stw_runner *r) {
    if (r->limited != NULL && r->limited->in_line) return false; /* see stw_runner_tidy */
    return stw_agenda_may_place(r) && r->simulator->machine->charges && r->settings.objective != STW_OBJECTIVE_MEMORY;
}
