/* The method: rounds of eight annealed sequences, what each begins with, what is kept. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "method/breed/breed.h"
#include "method/starts.h"
#include "sim/op_times.h"

enum {
    NESTS = 8,                /* sequences that are annealed side by side, whatever the number of threads */
    TRIALS_PER_OP = 300,      /* of one sequence in the first rounds */
    PATIENCE = 3,             /* rounds without a better plan, after which the rounds become longer */
    MOST_GROWTH = 32,         /* by as much, at most */
    LEAST_ROUNDS = 8,         /* however small the budget: a sequence that is not cooled is worth little */
    FIRST_TRIALS_PER_OP = 20, /* of the first round, which shows the pace */
    HEATED_OPS = 40           /* in larger graphs a change is a smaller part of the step, and nothing is drawn */
};
static const double HOT = 0.05, WARM = 0.02, MILD = 0.008; /* heat at the beginning: anew, shaken, crossed; shares of the step */
static const double START_SHARE = 0.2;                     /* of the budget, for initial plans where none are given */
static const double DEFAULT_S = 10.0;                      /* without any limit */

typedef struct {
    stw_search *search;
    stw_breed b;
    stw_breeding nest[NESTS];
    stw_sequence kept[NESTS]; /* what each nest holds: read by all while a round runs, replaced between rounds */
    double heat[NESTS];       /* of the round */
    int32_t *rename;          /* (D) */
    stw_plan *trial, *plan;
    stw_score score; /* of `plan` */
    int64_t enough_ps, trials, quota;
    int32_t growth, idle; /* how much longer rounds are than the first, and rounds without a better plan */
    double began_s, until_s;
    stw_rng rng;
} breeding;

/* ---- what the simulator says ---- */

/* Judges a sequence and keeps its plan if it is the best. */
static stw_status judge(breeding *x, const stw_sequence *q, bool *better, stw_error *error) {
    stw_score score = {0};
    *better = false;
    TRY(stw_sequence_to_plan(&x->b, q, x->trial, x->search->arena, error));
    TRY(stw_search_evaluate(x->search, x->trial, 0, &score, error));
    if (!stw_score_is_better(&score, &x->score)) return STW_OK;
    *better = score.value < x->score.value;
    x->score = score;
    TRY(stw_plan_assign(x->plan, x->trial, error));
    stw_search_tell(x->search, x->plan, &x->score);
    return STW_OK;
}

/* ---- how it begins ---- */

static stw_status begin_with(breeding *x, const stw_plan *start, stw_sequence *out, stw_score *score, stw_error *error) {
    stw_arena scratch = x->search->arena;
    int64_t *start_ps, *end_ps;
    int32_t *task;
    STW_TRY_NEW(&scratch, start_ps, x->b.T, error);
    STW_TRY_NEW(&scratch, end_ps, x->b.T, error);
    STW_TRY_NEW(&scratch, task, x->b.T, error);
    TRY(stw_search_evaluate(x->search, start, 0, score, error));
    if (x->search->workspace[0]->timeline.start_ps != NULL)
        TRY(stw_op_times(x->search->workspace[0], start_ps, end_ps, task, scratch, error));
    return stw_sequence_of_plan(&x->b, start, start_ps, end_ps, out, scratch, error);
}

/* Nests begin with the initial plans, and with none where there are not enough. */
static stw_status begin(breeding *x, const stw_starts *starts, stw_error *error) {
    for (int32_t k = 0; k < NESTS; k++) {
        stw_score score = {0};
        if (k >= starts->count || (k > 0 && stw_search_evaluations_left(x->search) <= NESTS)) {
            stw_sequence_draw(&x->b, &x->rng, &x->kept[k]);
        } else {
            TRY(begin_with(x, starts->plan[k], &x->kept[k], &score, error));
        }
        if (k == 0) x->score = score;
        x->kept[k].ps = stw_sequence_time(&x->b, &x->kept[k], STW_MAX_STEP_PS, &x->nest[0].sweep);
    }
    return stw_plan_assign(x->plan, starts->plan[0], error);
}

/* ---- one round ---- */

/* What a nest begins a round with: two nests crossed, its own sequence shaken by heat, or one that is drawn. Nests take turns. */
static void choose_start(breeding *x, int32_t k, int64_t round) {
    stw_breeding *nest = &x->nest[k];
    const int64_t turn = (k + round) % 4;
    const double scale = x->b.T > HEATED_OPS ? (double)HEATED_OPS / x->b.T : 1.0;
    nest->rng = stw_rng_split(&x->rng, (uint64_t)(round * NESTS + k));
    nest->moves_branches =
        (k / 4 + round / 4) % 2 == 0; /* half of them, with each way of beginning: some graphs are better without */
    if (round == 0 || turn == 1) {
        stw_sequence_copy(&x->b, &nest->now, &x->kept[k]);
        x->heat[k] = scale * (round == 0 ? HOT : WARM);
    } else if (turn == 0 && x->b.T <= HEATED_OPS) {
        stw_sequence_draw(&x->b, &nest->rng, &nest->now);
        x->heat[k] = HOT;
    } else {
        const int32_t other = (k + 1 + (int32_t)stw_rng_below(&nest->rng, NESTS - 1)) % NESTS;
        stw_sequence_cross(&x->b, &nest->rng, &x->kept[k], &x->kept[other], &nest->now, x->rename);
        x->heat[k] = scale * (turn == 0 ? WARM : MILD);
    }
}

static stw_status work_on_nest(void *context, int64_t index, int32_t worker, stw_error *error) {
    breeding *x = context;
    (void)worker;
    (void)error;
    stw_breeding_anneal(&x->nest[index], x->heat[index], x->quota, x->enough_ps, x->search);
    return STW_OK;
}

static bool are_equal(const stw_breed *b, const stw_sequence *p, const stw_sequence *q) {
    for (int32_t i = 0; i < b->I; i++) {
        if (p->device[i] != q->device[i]) return false;
    }
    return p->ps == q->ps;
}

/* A nest keeps what it came to if that is no worse than what it held, unless another nest holds the same. */
static void settle(breeding *x, int32_t k) {
    const stw_sequence *found = &x->nest[k].best;
    if (found->ps > x->kept[k].ps) return;
    for (int32_t j = 0; j < NESTS; j++) {
        if (j != k && are_equal(&x->b, found, &x->kept[j])) return;
    }
    stw_sequence_copy(&x->b, &x->kept[k], found);
}

/* The trials of a round count as evaluations. */
static void count(breeding *x) {
    int64_t trials = 0;
    for (int32_t k = 0; k < NESTS; k++) trials += x->nest[k].trials;
    x->trials += trials;
    atomic_fetch_add(&x->search->evaluations, (trials + STW_BREED_TRIALS_PER_EVALUATION - 1) / STW_BREED_TRIALS_PER_EVALUATION);
}

/* Trials per nest that fit into what is left, beside one evaluation for each; by time, at the pace so far. */
static int64_t trials_left(const breeding *x) {
    const int64_t left = stw_search_evaluations_left(x->search) - NESTS;
    const double now_s = stw_search_now_s(x->search),
                 end_s = fmin(x->until_s, now_s + stw_budget_seconds_left(&x->search->budget, now_s));
    double most = left < INT64_MAX / 2 ? (double)left * STW_BREED_TRIALS_PER_EVALUATION / NESTS : HUGE_VAL;
    if (x->search->budget.until_s > 0.0 && x->trials > 0)
        most = fmin(most, (double)x->trials / fmax(now_s - x->began_s, 1e-6) * (end_s - now_s) / NESTS);
    return (int64_t)fmax(0.0, fmin(most, 1e15));
}

/* Trials per nest: more after rounds without a better plan; at first no more than a share of what is left. */
static int64_t next_quota(const breeding *x, int64_t round) {
    const int64_t wanted = round == 0 ? (int64_t)FIRST_TRIALS_PER_OP * x->b.T : (int64_t)TRIALS_PER_OP * x->b.T * x->growth;
    const int64_t left = trials_left(x), share = round < LEAST_ROUNDS ? left / (LEAST_ROUNDS - round) : left;
    return share < wanted ? share : wanted;
}

static stw_status run_round(breeding *x, int64_t round, stw_error *error) {
    bool any = false;
    for (int32_t k = 0; k < NESTS; k++) choose_start(x, k, round);
    TRY(stw_pool_try(x->search->pool, NESTS, work_on_nest, x, error));
    count(x);
    for (int32_t k = 0; k < NESTS; k++) {
        bool better = false;
        if (x->nest[k].best.ps < STW_BREED_NEVER_PS && (double)x->nest[k].best.ps / 1e12 <= x->score.value * (1.0 + 1e-12))
            TRY(judge(x, &x->nest[k].best, &better, error));
        any |= better;
        settle(x, k);
    }
    x->idle = any ? 0 : x->idle + 1;
    if (x->idle == PATIENCE && x->growth < MOST_GROWTH) {
        x->growth *= 2;
        x->idle = 0;
    }
    stw_search_tick(x->search);
    return STW_OK;
}

/* ---- the method ---- */

static stw_status breed(breeding *x, const stw_starts *starts, stw_error *error) {
    stw_search *search = x->search;
    const stw_arena before = search->arena;
    stw_arena *arena = &search->arena;
    const stw_rng seeded = stw_rng_create(search->seed);
    x->rng = stw_rng_split(&seeded, 0x6272656564); /* "breed" */
    x->growth = 1;
    stw_status status = stw_breed_prepare(search->simulator, arena, &x->b, error);
    for (int32_t k = 0; k < NESTS && status == STW_OK; k++) status = stw_breeding_create(&x->b, arena, &x->nest[k], error);
    for (int32_t k = 0; k < NESTS && status == STW_OK; k++) status = stw_sequence_create(&x->b, arena, &x->kept[k], error);
    x->rename = STW_NEW(arena, int32_t, x->b.D);
    if (status == STW_OK && x->rename == NULL) status = stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    if (status == STW_OK) status = begin(x, starts, error);
    x->enough_ps = search->bound > 0.0 ? (int64_t)(search->bound * (1.0 + 1e-9) * 1e12) : 0;
    x->began_s = stw_search_now_s(search);
    int64_t round = 0;
    for (; status == STW_OK && !stw_search_is_over(search) && stw_search_now_s(search) < x->until_s; round++) {
        x->quota = next_quota(x, round);
        if (x->quota < 1) break;
        status = run_round(x, round, error);
    }
    search->arena = before;
    snprintf(search->outcome.note, sizeof search->outcome.note, "%lld sequences in %lld rounds", (long long)x->trials,
             (long long)round);
    return status;
}

static stw_status check(const stw_search *search, stw_error *error) {
    const stw_tasks *tasks = &search->simulator->unfused;
    const unsigned both = STW_TASK_PLACEMENT | STW_TASK_SCHEDULE;
    if (search->objective != STW_OBJECTIVE_TIME || (search->tasks & both) != both || search->rule >= 0)
        return stw_fail(error, STW_ERROR_NO_PLAN,
                        "breed decides placement and order together, for the step time; take another method");
    if (tasks->T == 0 || tasks->T > STW_BREED_MAX_OPS || tasks->U > STW_BREED_MAX_READS)
        return stw_fail(error, STW_ERROR_NO_PLAN,
                        "breed is for graphs of 1 to %d ops with at most %d inputs; this one has %d with %d", STW_BREED_MAX_OPS,
                        STW_BREED_MAX_READS, tasks->T, tasks->U);
    return STW_OK;
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    stw_starts starts;
    TRY(check(search, error));
    TRY(stw_starts_open(search, NULL, 0, START_SHARE, &starts, error));
    stw_status status = starts.count > 0 ? STW_OK : stw_fail(error, STW_ERROR_NO_PLAN, "there is no initial plan");
    breeding *x = status == STW_OK ? calloc(1, sizeof *x) : NULL;
    if (status == STW_OK && x == NULL) status = stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    if (status == STW_OK) {
        const bool limited = search->budget.until_s > 0.0 || search->budget.evaluations > 0;
        x->search = search;
        x->plan = plan;
        x->until_s = limited ? HUGE_VAL : stw_search_now_s(search) + DEFAULT_S;
        status = stw_plan_create(search->simulator->graph, search->simulator->machine, &x->trial, error);
        if (status == STW_OK) status = breed(x, &starts, error);
        stw_plan_destroy(x->trial);
    }
    free(x);
    stw_starts_close(&starts);
    return status;
}

const stw_method stw_method_breed = {.name = "breed",
                                     .description = "plans of small graphs as sequences: annealed, crossed, begun anew",
                                     .kind = STW_METHOD_BREEDER,
                                     .run = run};
