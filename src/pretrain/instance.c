#include "pretrain/instance.h"

#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "cost/cost.h"
#include "method/go/go.h"
#include "method/method.h"
#include "method/starts.h"
#include "search/list.h"

static const int64_t START_EVALUATIONS = 90; /* for the initial plans */
static const double GO_ON = 0.6;             /* chance that a visit goes on from the best plan so far */
static const double BEST_START = 0.6;        /* chance that it begins with the best of the others' plans, else with one of: */
enum { NEXT_STARTS = 3 };
static const double EXPERT_SHARE = 0.5, METIS_SHARE = 0.25; /* of the instances, which ask these as well: they take longest */
static const int64_t ARENA_BYTES = INT64_C(2) << 30;

enum { TRAINERS = 2 };

struct stw_instance {
    stw_arena arena;
    stw_drawn drawn;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_pool *pool;  /* the pre-training's */
    int32_t threads; /* of it */
    stw_metis_copies *copies;
    stw_arena *scratch;        /* (threads) */
    stw_workspace **workspace; /* (threads) */
    stw_search search;
    stw_list list;
    stw_problem problem;
    stw_starts starts;
    stw_trainer *trainer[TRAINERS]; /* of the visits in turn; the second when it is needed */
    int32_t turn;                   /* whose it is */
    int32_t prepared;               /* visit that is prepared; -1: none */
    stw_net *net;
    stw_train_settings settings;
    double progress;
    const stw_cancel *cancel;
    stw_rng rng;
    stw_plan *found; /* the best plan of the updates so far */
    stw_score found_score;
    bool has_found;
    stw_score reference[TRAINERS]; /* what their updates are relative to */
};

/* ---- the best plan of the updates ---- */

static void found(void *context, const stw_plan *plan, const stw_score *score) {
    stw_instance *i = context;
    if (score->reason != STW_VALID || (i->has_found && !stw_score_is_better(score, &i->found_score))) return;
    if (stw_plan_assign(i->found, plan, NULL) != STW_OK) return; /* then the visits begin with the others' plans */
    i->found_score = *score;
    i->has_found = true;
}

/* ---- making one ---- */

/* Instances run side by side, and their parts where that leaves threads idle. What no thread comes to use is address space. */
static stw_status open_threads(stw_instance *i, stw_error *error) {
    STW_TRY_NEW(&i->arena, i->scratch, i->threads, error);
    STW_TRY_NEW(&i->arena, i->workspace, i->threads, error);
    for (int32_t k = 0; k < i->threads; k++) {
        TRY(stw_arena_create_sized(&i->scratch[k], ARENA_BYTES, error));
        TRY(stw_workspace_create(i->simulator, &i->workspace[k], error));
    }
    return STW_OK;
}

static void close_threads(stw_instance *i) {
    for (int32_t k = 0; k < i->threads && i->scratch != NULL; k++) stw_arena_destroy(&i->scratch[k]);
    for (int32_t k = 0; k < i->threads && i->workspace != NULL; k++) stw_workspace_destroy(i->workspace[k]);
}

static stw_status open_simulator(stw_instance *i, stw_error *error) {
    TRY(stw_arena_create_sized(&i->arena, ARENA_BYTES, error));
    TRY(stw_costs_from_rows(i->drawn.graph, i->drawn.machine, NULL, false, &i->costs, error));
    TRY(stw_simulator_create(i->costs, &i->simulator, error));
    TRY(open_threads(i, error));
    i->search = (stw_search){.simulator = i->simulator,
                             .objective = STW_OBJECTIVE_TIME,
                             .tasks = STW_TASK_PLACEMENT | STW_TASK_SCHEDULE,
                             .rule = -1,
                             .unit_count = 512,
                             .pool = i->pool,
                             .metis_copies = i->copies,
                             .workspace = i->workspace,
                             .scratch = i->scratch,
                             .arena = i->arena,
                             .cancelled = i->cancel == NULL ? NULL : &i->cancel->requested};
    return stw_plan_create(i->drawn.graph, i->drawn.machine, &i->found, error);
}

/* `all`: every constructive method but `steer`, as it is when the policy is used. */
static stw_status open_starts(stw_instance *i, bool all, stw_error *error) {
    const stw_method *methods[STW_MAX_STARTS], *method;
    int32_t count = 0;
    if (all) {
        for (int32_t k = 0; (method = stw_method_at(k)) != NULL && count < STW_MAX_STARTS; k++) {
            if (!(method->traits & STW_METHOD_STEERS) && stw_method_serves(method, i->search.objective, i->search.tasks))
                methods[count++] = method;
        }
    } else {
        if (stw_rng_uniform(&i->rng) < EXPERT_SHARE) methods[count++] = &stw_method_expert;
        if (stw_rng_uniform(&i->rng) < METIS_SHARE) methods[count++] = &stw_method_metis;
        methods[count++] = &stw_method_etf;
        methods[count++] = &stw_method_heft;
        i->search.budget.evaluations = START_EVALUATIONS;
    }
    i->search.arena = i->arena;
    TRY(stw_starts_open(&i->search, methods, count, 1.0, &i->starts, error));
    i->search.budget.evaluations = 0;
    int32_t valid = 0;
    while (valid < i->starts.count && i->starts.score[valid].reason == STW_VALID) valid++;
    i->starts.count = valid; /* they are sorted; the rest stays owned */
    return STW_OK;
}

/* Works for the search of the instance, and goes by the progress of the whole pre-training. */
static stw_status create_trainer(stw_instance *i, const stw_train_settings *settings, stw_trainer **out, stw_error *error) {
    TRY(stw_trainer_create(&i->problem, &i->search, i->net, stw_net_config(i->net), settings, i->starts.plan[0],
                           &i->starts.score[0], out, error));
    stw_trainer_set_progress(*out, i->progress);
    return STW_OK;
}

static stw_status open_trainer(stw_instance *i, const stw_instance_wish *wish, stw_error *error) {
    const int32_t units = wish->unit_count >= 0 ? wish->unit_count : stw_problem_units(i->drawn.graph->op_count);
    i->settings = *wish->settings;
    i->settings.seed = stw_rng_next(&i->rng);
    TRY(stw_list_prepare(&i->search, &i->arena, &i->list, error));
    TRY(stw_problem_build(i->simulator, STW_OBJECTIVE_TIME, &i->list, units, &i->arena, &i->problem, error));
    i->problem.schedules = (wish->tasks & STW_TASK_SCHEDULE) != 0;
    i->problem.fuses = (wish->tasks & STW_TASK_FUSION) != 0;
    stw_go_limit(stw_net_config(i->net), &i->problem);
    i->search.arena = i->arena;
    i->search.found = found; /* from here on: the initial plans are not among them */
    i->search.watch_context = i;
    return create_trainer(i, &i->settings, &i->trainer[0], error);
}

static stw_status fill(stw_instance *i, const stw_instance_wish *wish, stw_error *error) {
    TRY(open_simulator(i, error));
    TRY(open_starts(i, wish->all_starts, error));
    return i->starts.count == 0 ? STW_OK : open_trainer(i, wish, error);
}

stw_status stw_instance_create(stw_drawn *drawn, stw_rng rng, const stw_instance_wish *wish, stw_instance **out,
                               stw_error *error) {
    *out = NULL;
    stw_instance *i = calloc(1, sizeof *i);
    if (i == NULL) {
        stw_drawn_destroy(drawn);
        return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    }
    i->drawn = *drawn;
    i->rng = rng;
    i->net = wish->net;
    i->pool = wish->pool;
    i->copies = wish->copies;
    i->threads = stw_pool_threads(wish->pool);
    i->progress = wish->progress;
    i->prepared = -1;
    i->cancel = wish->cancel;
    const stw_status status = fill(i, wish, error);
    if (status == STW_OK && i->trainer[0] != NULL) {
        *out = i;
    } else {
        stw_instance_destroy(i);
    }
    return status;
}

void stw_instance_destroy(stw_instance *i) {
    if (i == NULL) return;
    for (int k = TRAINERS - 1; k >= 0; k--) stw_trainer_destroy(i->trainer[k]); /* the first has what they share */
    stw_starts_close(&i->starts);
    stw_plan_destroy(i->found);
    close_threads(i);
    stw_simulator_destroy(i->simulator);
    stw_costs_destroy(i->costs);
    stw_drawn_destroy(&i->drawn);
    stw_arena_destroy(&i->arena);
    free(i);
}

/* ---- using it ---- */

static stw_status restart(stw_instance *i, int32_t turn, const stw_plan *plan, const stw_score *score, int32_t round,
                          int64_t update, stw_error *error) {
    if (i->trainer[turn] == NULL)
        TRY(stw_trainer_create_beside(i->trainer[0], i->starts.plan[0], &i->starts.score[0], &i->trainer[turn], error));
    i->reference[turn] = *score;
    return stw_trainer_restart(i->trainer[turn], plan, score, round, update, error);
}

static void take_turn(stw_instance *i, int32_t turn, double progress) {
    i->turn = turn;
    stw_trainer_set_progress(i->trainer[turn], progress);
}

stw_status stw_instance_begin(stw_instance *i, int64_t update, double progress, stw_error *error) {
    take_turn(i, 0, progress);
    return restart(i, 0, i->starts.plan[0], &i->starts.score[0], 0, update, error);
}

static stw_status restart_visit(stw_instance *i, int32_t turn, int32_t visit, stw_error *error) {
    stw_rng rng = stw_rng_split(&i->rng, (uint64_t)visit);
    const bool goes_on = stw_rng_uniform(&rng) < GO_ON, best = stw_rng_uniform(&rng) < BEST_START;
    const int64_t among = i->starts.count < NEXT_STARTS ? i->starts.count : NEXT_STARTS;
    const int32_t start = (int32_t)stw_rng_below(&rng, among);
    if (visit > 0 && i->has_found && goes_on) return restart(i, turn, i->found, &i->found_score, visit, visit, error);
    const int32_t k = visit == 0 || best ? 0 : start;
    return restart(i, turn, i->starts.plan[k], &i->starts.score[k], 0, visit, error);
}

stw_status stw_instance_prepare(stw_instance *i, int32_t visit, double progress, stw_error *error) {
    const int32_t turn = TRAINERS - 1 - i->turn;
    i->prepared = -1;
    TRY(restart_visit(i, turn, visit, error));
    stw_trainer_set_progress(i->trainer[turn], progress);
    TRY(stw_trainer_prepare(i->trainer[turn], error));
    i->prepared = visit;
    return STW_OK;
}

stw_status stw_instance_visit(stw_instance *i, int32_t visit, double progress, stw_error *error) {
    const bool prepared = i->prepared == visit;
    const int32_t turn = prepared ? TRAINERS - 1 - i->turn : i->turn;
    i->prepared = -1;
    if (!prepared) TRY(restart_visit(i, turn, visit, error));
    take_turn(i, turn, progress);
    return STW_OK;
}

stw_status stw_instance_constants(stw_instance *i, double *value, stw_error *error) {
    stw_train_settings settings = i->settings;
    stw_trainer *trainer = NULL;
    stw_score score = {0};
    settings.grid = true;
    TRY(create_trainer(i, &settings, &trainer, error));
    const stw_status status = stw_trainer_begin(trainer, error);
    (void)stw_trainer_best(trainer, &score);
    *value = score.value;
    stw_trainer_destroy(trainer);
    return status;
}

stw_trainer *stw_instance_trainer(stw_instance *i) { return i->trainer[i->turn]; }
double stw_instance_first(const stw_instance *i) { return i->starts.score[0].value; }
double stw_instance_reference(const stw_instance *i) { return i->reference[i->turn].value; }
const char *stw_instance_label(const stw_instance *i) { return i->drawn.label; }

int64_t stw_instance_evaluations(const stw_instance *i) {
    int64_t sum = 0;
    for (int k = 0; k < TRAINERS; k++) sum += i->trainer[k] == NULL ? 0 : stw_trainer_last_row(i->trainer[k])->evaluations;
    return sum;
}
