/* Who runs which chain for how long, and when chains meet.
 *
 * By evaluations: rounds. Every chain has the same share of them; then all meet, and the worst goes on from the best plan. What
 * comes out does not depend on threads.
 *
 * By time: turns. Each thread has chains of its own and runs them in turns of some milliseconds; after its turn a chain meets the
 * others where they are, so that no thread waits for another but at the lock. */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "method/anneal/anneal.h"
#include "plan/plan.h"

enum { ROUNDS = 48, LEAST_TURN = 2 }; /* evaluations of a turn, at least */
/* What a proposed try takes over a blind one: by evaluations, as much; by time, as docs/results/proposals.md has it. */
static const double COST_OF_EVALUATIONS = 1.0, COST_OF_TIME = 2.5;
static const double DEFAULT_S = 10.0; /* without any limit */

bool stw_anneal_is_timed(const stw_search *search) { return search->budget.evaluations <= 0; }

/* Where a graph is large, a chain takes much memory (some 250 bytes per op) and, with the time there is, few evaluations: each
 * thread has no more of them than come to so many. */
static int32_t most_of_a_thread(const stw_search *search) {
    enum { LARGE_OPS = 50000, WORTH_EVALUATIONS = 100 };
    static const double EVALUATION_S = 5e-7; /* per op, measured as what methods take (method.h) */
    const int32_t ops = search->simulator->graph->op_count;
    if (ops < LARGE_OPS || search->budget.until_s <= 0.0) return STW_ANNEAL_CHAINS;
    const double left_s = search->budget.until_s - stw_search_now_s(search);
    return (int32_t)fmin(fmax(1.0, left_s / (WORTH_EVALUATIONS * EVALUATION_S * ops)), STW_ANNEAL_CHAINS);
}

int32_t stw_anneal_chains(const stw_search *search) {
    const int32_t threads = stw_pool_threads(search->pool), each = (STW_ANNEAL_CHAINS + threads - 1) / threads;
    if (!stw_anneal_is_timed(search)) return STW_ANNEAL_CHAINS;
    const int32_t most = most_of_a_thread(search);
    return threads * (most < each ? most : each);
}

int32_t stw_anneal_best_chain(const stw_annealing *a) {
    int32_t best = 0;
    for (int32_t k = 1; k < a->count; k++) {
        if (stw_score_is_better(&a->chain[k].best_score, &a->chain[best].best_score)) best = k;
    }
    return best;
}

/* ---- rounds ---- */

typedef struct {
    const stw_annealing *a;
    int64_t quota; /* evaluations per chain in this round */
} stw_round;

static stw_status run_quota(void *context, int64_t index, int32_t worker, stw_error *error) {
    const stw_round *round = context;
    const stw_search *search = round->a->search;
    stw_chain *c = &round->a->chain[index];
    c->error = error;
    for (int64_t k = 0; k < round->quota && !stw_search_is_stopped(search); k++) {
        if (stw_search_meets_bound(search, &c->best_score)) break;
        if (worker == 0) stw_search_tick(search); /* the thread that runs the method */
        TRY(stw_chain_step(round->a, c, worker));
    }
    return STW_OK;
}

static int32_t worst_chain(const stw_annealing *a) {
    int32_t worst = 0;
    for (int32_t k = 1; k < a->count; k++) {
        if (stw_score_is_better(&a->chain[worst].score, &a->chain[k].score)) worst = k;
    }
    return worst;
}

static stw_status end_round(const stw_annealing *a, stw_score *known, stw_error *error) {
    const stw_chain *best = &a->chain[stw_anneal_best_chain(a)];
    stw_chain *worst = &a->chain[worst_chain(a)];
    if (stw_score_is_better(&best->best_score, known)) {
        *known = best->best_score;
        stw_search_tell(a->search, best->best, known);
    }
    const stw_lead lead = {best->best, best->best_fusion, best->best_strict, best->best_score};
    if (stw_score_is_better(&lead.score, &worst->score)) TRY(stw_chain_follow(worst, &lead, error));
    stw_search_tick(a->search);
    return STW_OK;
}

static void judge_proposals(const stw_annealing *a, stw_verdict *verdict) {
    stw_tally all = {0};
    for (int32_t k = 0; k < a->count; k++) {
        stw_tally *one = &a->chain[k].tally;
        for (int i = 0; i < 2; i++) {
            all.tries[i] += one->tries[i];
            all.gain[i] += one->gain[i];
        }
        *one = (stw_tally){0};
    }
    const bool pays = stw_anneal_pays(verdict, &all, 1.0, COST_OF_EVALUATIONS);
    for (int32_t k = 0; k < a->count; k++) stw_chain_may_propose(&a->chain[k], pays);
}

static stw_status run_rounds(const stw_annealing *a, stw_score known, stw_error *error) {
    const stw_search *search = a->search;
    stw_verdict verdict = {0};
    for (int32_t k = 0; k < ROUNDS && !stw_search_is_over(search); k++) {
        stw_round round = {a, stw_search_evaluations_left(search) / a->count / (ROUNDS - k)};
        for (int32_t c = 0; c < a->count; c++) a->chain[c].progress = (double)k / ROUNDS;
        TRY(stw_pool_try(search->pool, a->count, run_quota, &round, error));
        TRY(end_round(a, &known, error));
        stw_anneal_learn(a);
        judge_proposals(a, &verdict);
    }
    return STW_OK;
}

/* ---- turns ---- */

typedef struct {
    const stw_annealing *a;
    double turn_s;
    atomic_bool failed; /* in some thread: the others need not go on */

    pthread_mutex_t lock; /* of what follows */
    stw_plan *plan;       /* the best of all chains */
    double *fusion;       /* (N) its fusion priorities, or NULL */
    bool strict;          /* its orders, if it has any, are those of its priorities */
    stw_score score, told;
    stw_verdict verdict; /* on proposals */
    stw_score *now;      /* (count) what each chain stood at after its last turn, */
    int32_t *device;     /* (count, N) and its plan */
    double *priority;    /* (count, N) */
} stw_meeting;

static bool is_over(const stw_meeting *m, double now_s) {
    const stw_search *search = m->a->search;
    if (now_s >= m->a->budget.until_s || atomic_load(&m->failed)) return true;
    return stw_stop_is_due(&(stw_stop){.cancelled = search->cancelled}) || stw_search_evaluations_left(search) == 0;
}

/* False in *goes_on: there is no time left. */
static stw_status take_turn(const stw_meeting *m, stw_chain *c, int32_t worker, bool *goes_on) {
    const stw_search *search = m->a->search;
    double now_s = stw_search_now_s(search);
    const double end_s = now_s + m->turn_s;
    c->progress = fmin(1.0, stw_budget_progress(&m->a->budget, (stw_moment){.s = now_s}));
    for (int64_t k = 0; k < LEAST_TURN || now_s < end_s; k++) {
        *goes_on = !is_over(m, now_s);
        if (!*goes_on) return STW_OK;
        if (worker == 0) stw_search_tick(search); /* the thread that runs the method */
        TRY(stw_chain_step(m->a, c, worker));
        now_s = stw_search_now_s(search);
    }
    return STW_OK;
}

static bool is_worst(const stw_meeting *m, int32_t index) {
    for (int32_t k = 0; k < m->a->count; k++) {
        if (stw_score_is_better(&m->now[index], &m->now[k])) return false;
    }
    return true;
}

/* Leaves the chain's plan for the others, and takes one of theirs along; a chain by itself takes the best. */
static void exchange(const stw_meeting *m, stw_chain *c, int32_t index) {
    const size_t devices = (size_t)c->plan->graph->N * sizeof *m->device;
    const size_t priorities = (size_t)c->plan->graph->N * sizeof *m->priority;
    if (m->a->count == 1) {
        memcpy(c->other_device, m->plan->device, devices);
        memcpy(c->other_priority, m->plan->priority, priorities);
        return;
    }
    const int64_t N = c->plan->graph->N, other = (index + 1 + stw_rng_below(&c->rng, m->a->count - 1)) % m->a->count;
    memcpy(&m->device[index * N], c->plan->device, devices);
    memcpy(&m->priority[index * N], c->plan->priority, priorities);
    memcpy(c->other_device, &m->device[other * N], devices);
    memcpy(c->other_priority, &m->priority[other * N], priorities);
}

static stw_status meet_locked(stw_meeting *m, int32_t index, int32_t worker) {
    stw_chain *c = &m->a->chain[index];
    if (stw_score_is_better(&c->best_score, &m->score)) {
        TRY(stw_plan_assign(m->plan, c->best, c->error));
        if (m->fusion != NULL) memcpy(m->fusion, c->best_fusion, (size_t)c->plan->graph->N * sizeof *m->fusion);
        m->strict = c->best_strict;
        m->score = c->best_score;
    }
    m->now[index] = c->score;
    if (m->a->count > 1 && is_worst(m, index) && stw_score_is_better(&m->score, &c->score)) {
        const stw_lead lead = {m->plan, m->fusion, m->strict, m->score};
        TRY(stw_chain_follow(c, &lead, c->error));
        m->now[index] = c->score;
    }
    stw_chain_may_propose(c, stw_anneal_pays(&m->verdict, &c->tally, 1.0 / m->a->count, COST_OF_TIME));
    exchange(m, c, index);
    if (worker == 0 && stw_score_is_better(&m->score, &m->told)) {
        m->told = m->score;
        stw_search_tell(m->a->search, m->plan, &m->told);
    }
    return STW_OK;
}

static stw_status meet(stw_meeting *m, int32_t index, int32_t worker) {
    pthread_mutex_lock(&m->lock);
    const stw_status status = meet_locked(m, index, worker);
    pthread_mutex_unlock(&m->lock);
    stw_anneal_compare(m->a, &m->a->chain[index]);
    return status;
}

/* The chains of one thread, in turns. */
static stw_status take_turns(stw_meeting *m, int32_t first, int32_t worker, stw_error *error) {
    const int32_t threads = stw_pool_threads(m->a->search->pool);
    bool goes_on = true;
    for (int32_t k = first; goes_on; k = k + threads < m->a->count ? k + threads : first) {
        m->a->chain[k].error = error;
        TRY(take_turn(m, &m->a->chain[k], worker, &goes_on));
        TRY(meet(m, k, worker));
    }
    return STW_OK;
}

static stw_status work(void *context, int64_t index, int32_t worker, stw_error *error) {
    stw_meeting *m = context;
    const stw_status status = take_turns(m, (int32_t)index, worker, error);
    if (status != STW_OK) atomic_store(&m->failed, true);
    return status;
}

static stw_status begin_meeting(stw_meeting *m, stw_arena *arena, stw_error *error) {
    const stw_annealing *a = m->a;
    const stw_chain *first = &a->chain[stw_anneal_best_chain(a)];
    const stw_simulator *s = a->search->simulator;
    if (first->fusion != NULL) STW_TRY_NEW(arena, m->fusion, s->graph->N, error);
    if (m->fusion != NULL) memcpy(m->fusion, first->best_fusion, (size_t)s->graph->N * sizeof *m->fusion);
    const int64_t N = s->graph->N;
    STW_TRY_NEW(arena, m->now, a->count, error);
    STW_TRY_NEW(arena, m->device, a->count * N, error);
    STW_TRY_NEW(arena, m->priority, a->count * N, error);
    for (int32_t k = 0; k < a->count; k++) {
        m->now[k] = a->chain[k].score;
        memcpy(&m->device[k * N], a->chain[k].plan->device, (size_t)N * sizeof *m->device);
        memcpy(&m->priority[k * N], a->chain[k].plan->priority, (size_t)N * sizeof *m->priority);
    }
    m->strict = first->best_strict;
    m->score = first->best_score;
    TRY(stw_plan_create(s->graph, s->machine, &m->plan, error));
    return stw_plan_assign(m->plan, first->best, error);
}

static stw_status run_turns(const stw_annealing *a, stw_score known, stw_arena arena, stw_error *error) {
    const int32_t threads = stw_pool_threads(a->search->pool), chains = a->count / threads; /* of each thread */
    stw_meeting m = {.a = a, .told = known};
    m.turn_s = stw_budget_seconds_left(&a->budget, a->budget.began.s) / ROUNDS / chains;
    pthread_mutex_init(&m.lock, NULL);
    stw_status status = begin_meeting(&m, &arena, error);
    if (status == STW_OK) status = stw_pool_try(a->search->pool, threads, work, &m, error);
    if (status == STW_OK && stw_score_is_better(&m.score, &m.told)) stw_search_tell(a->search, m.plan, &m.score);
    stw_plan_destroy(m.plan);
    pthread_mutex_destroy(&m.lock);
    return status;
}

stw_status stw_anneal_run(stw_annealing *a, stw_score known, stw_arena arena, stw_error *error) {
    const stw_search *search = a->search;
    a->budget = stw_budget_share(&search->budget, stw_search_moment(search), 1.0, STW_SHARE_DOWN);
    if (a->budget.until_s <= 0.0) a->budget.until_s = a->budget.began.s + DEFAULT_S;
    return stw_anneal_is_timed(search) ? run_turns(a, known, arena, error) : run_rounds(a, known, error);
}
