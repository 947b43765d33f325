/* `windows`: local search inside windows of time, for graphs of which the budget allows few evaluations. */
#include <stdio.h>

#include "method/method.h"
#include "method/starts.h"
#include "method/windows/windows.h"
#include "plan/plan.h"

enum {
    WINDOW = 1024, /* tasks */
    TRIALS = 128,  /* changes of a window in one sweep, of every second window */
    ROUNDS = 4,    /* looks for better priorities, at most, */
    REORDER = 8,   /* after so many sweeps */
    PATIENCE = 16, /* sweeps in a row that gain nothing */
    LEAST_LEFT = 8 /* evaluations, for a sweep or for a look for better priorities */
};
static const double START_SHARE = 0.4; /* of the budget, for initial plans where none are given */

typedef struct {
    stw_search *search;
    stw_look look;
    stw_window *window; /* (threads) */
    stw_rng rng;        /* of this sweep */
    int32_t parity;     /* of the windows that it changes: what is between them stays */
    int64_t trials;
    bool *better;    /* (windows) */
    stw_plan *now;   /* what the next look is at */
    stw_score score; /* of it */
    stw_plan *trial;
    stw_arena scratch;
} refining;

/* ---- a sweep ---- */

static void work_on_window(void *context, int64_t index, int32_t worker) {
    refining *r = context;
    const int32_t w = 2 * (int32_t)index + r->parity;
    r->better[w] = stw_window_improve(&r->window[worker], w, r->trials, stw_rng_split(&r->rng, (uint64_t)w), r->search);
    if (worker == 0) stw_search_tick(r->search);
}

/* The plan with what the windows have come to, of every window or (`of` 2) of each second of those that were changed: strict
 * orders; channels go by the priorities as before. */
static stw_status make_trial(refining *r, int32_t of, int32_t which, stw_error *error) {
    const stw_look *look = &r->look;
    const int32_t *node = look->tasks->task_node;
    stw_arena scratch = r->scratch;
    int32_t *order, count[STW_MAX_DEVICES] = {0}, start[STW_MAX_DEVICES + 1] = {0};
    STW_TRY_NEW(&scratch, order, look->T, error);
    TRY(stw_plan_assign(r->trial, r->now, error));
    for (int32_t w = 0; w < look->windows; w++) {
        const bool taken = w / 2 % of == which;
        for (int32_t k = look->first[w]; k < look->first[w + 1]; k++) {
            const int32_t task = taken ? look->next[k] : look->sequence[k];
            const int32_t d = taken ? look->moved_to[task] : look->device[task], *member;
            const int32_t members = stw_look_members(look, task, &member);
            for (int32_t m = 0; m < members; m++) r->trial->device[member[m]] = d;
            count[d]++;
        }
    }
    stw_plan_join(look->s, r->trial);
    for (int32_t d = 0; d < look->D; d++) start[d + 1] = start[d] + count[d];
    for (int32_t w = 0; w < look->windows; w++) {
        const bool taken = w / 2 % of == which;
        for (int32_t k = look->first[w]; k < look->first[w + 1]; k++) {
            const int32_t task = taken ? look->next[k] : look->sequence[k], d = r->trial->device[node[task]];
            order[start[d + 1] - count[d]--] = node[task];
        }
    }
    for (int32_t d = 0; d < look->D; d++) TRY(stw_plan_set_order(r->trial, d, order + start[d], start[d + 1] - start[d], error));
    return STW_OK;
}

/* Keeps the trial if it is no worse: its devices may be done sooner all the same. */
static stw_status judge_trial(refining *r, bool *better, stw_error *error) {
    stw_score score = {0};
    TRY(stw_search_evaluate(r->search, r->trial, 0, &score, error));
    *better = stw_score_is_better(&score, &r->score);
    if (score.reason != STW_VALID || score.value > r->score.value) return STW_OK;
    stw_plan *old = r->now;
    r->now = r->trial;
    r->trial = old;
    r->score = score;
    if (*better) stw_search_tell(r->search, r->now, &score);
    return STW_OK;
}

static stw_status look_again(refining *r, int32_t offset, stw_error *error) {
    stw_search *search = r->search;
    stw_score score = {0};
    TRY(stw_search_evaluate(search, r->now, 0, &score, error));
    return stw_look_at(&r->look, r->now, search->workspace[0], offset, r->scratch, error);
}

/* Looks at the plan, changes every second window, and keeps all changes or, where these do not go together, half of them. */
static stw_status sweep(refining *r, int32_t number, bool *better, stw_error *error) {
    stw_search *search = r->search;
    const stw_look *look = &r->look;
    const stw_rng seeded = stw_rng_create(search->seed), mine = stw_rng_split(&seeded, 0x77696e646f7773); /* "windows" */
    TRY(look_again(r, number / 2 % 2 * (look->window / 2), error));
    r->rng = stw_rng_split(&mine, (uint64_t)number);
    r->parity = number % 2;
    stw_pool_run(search->pool, (look->windows + 1 - r->parity) / 2, work_on_window, r);
    atomic_fetch_add(&search->evaluations, r->trials / 2); /* each as long as one, together */
    bool any = false;
    for (int32_t w = r->parity; w < look->windows; w += 2) any |= r->better[w];
    *better = false;
    if (!any) return STW_OK;
    TRY(make_trial(r, 1, 0, error));
    TRY(judge_trial(r, better, error));
    for (int32_t half = 0; half < 2 && !*better && !stw_search_is_over(search); half++) {
        TRY(make_trial(r, 2, half, error));
        TRY(judge_trial(r, better, error));
    }
    return STW_OK;
}

/* ---- priorities ---- */

/* The same devices without strict orders: devices take first what has most behind it. Where that is better it is looked at again:
 * what is left has changed. */
static stw_status reorder(refining *r, stw_error *error) {
    const stw_search *search = r->search;
    const stw_look *look = &r->look;
    bool better = true;
    for (int32_t round = 0; round < ROUNDS && better && !stw_search_is_over(search); round++) {
        TRY(look_again(r, 0, error));
        TRY(stw_plan_assign(r->trial, r->now, error));
        stw_plan_remove_orders(r->trial);
        for (int32_t t = 0; t < look->T; t++) {
            const int32_t *member, members = stw_look_members(look, t, &member);
            for (int32_t m = 0; m < members; m++) r->trial->priority[member[m]] = (double)look->left_ps[t] / 1e6;
        }
        TRY(judge_trial(r, &better, error));
    }
    return STW_OK;
}

/* ---- the method ---- */

static stw_status prepare(refining *r, stw_arena *arena, stw_error *error) {
    const stw_search *search = r->search;
    const int32_t threads = stw_pool_threads(search->pool);
    TRY(stw_look_create(search->workspace[0], WINDOW, arena, &r->look, error));
    STW_TRY_NEW(arena, r->window, threads, error);
    STW_TRY_NEW(arena, r->better, r->look.T / WINDOW + 2, error);
    for (int32_t t = 0; t < threads; t++) TRY(stw_window_create(&r->look, WINDOW + WINDOW / 2, arena, &r->window[t], error));
    r->scratch = search->scratch[0];
    r->look.room = *arena;
    return STW_OK;
}

static stw_status refine(refining *r, stw_error *error) {
    stw_search *search = r->search;
    int32_t idle = 0;
    for (int32_t number = 0; idle < PATIENCE && !stw_search_is_over(search); number++) {
        bool better = false;
        if (number % REORDER == 0 && stw_search_evaluations_left(search) >= LEAST_LEFT) TRY(reorder(r, error));
        const int64_t left = stw_search_evaluations_left(search);
        if (left < LEAST_LEFT) break;
        r->trials = left / 2 < TRIALS ? left / 2 : TRIALS;
        TRY(sweep(r, number, &better, error));
        idle = better ? 0 : idle + 1;
    }
    return STW_OK;
}

static stw_status run_from(refining *r, const stw_plan *start, stw_plan *plan, stw_error *error) {
    stw_search *search = r->search;
    stw_arena arena = search->arena;
    TRY(stw_plan_assign(r->now, start, error));
    TRY(stw_search_evaluate(search, r->now, 0, &r->score, error));
    const stw_score before = r->score;
    if (before.reason == STW_VALID && search->workspace[0]->timeline.tasks->T > 0) {
        TRY(prepare(r, &arena, error));
        TRY(refine(r, error));
    }
    if (before.value > 0.0)
        snprintf(search->outcome.note, sizeof search->outcome.note, "%.2f %% better than the initial plan",
                 100.0 * (1.0 - r->score.value / before.value));
    return stw_plan_assign(plan, r->now, error);
}

static stw_status check(const stw_search *search, stw_error *error) {
    const unsigned both = STW_TASK_PLACEMENT | STW_TASK_SCHEDULE;
    if (search->objective != STW_OBJECTIVE_TIME || (search->tasks & both) != both || search->rule >= 0)
        return stw_fail(error, STW_ERROR_NO_PLAN,
                        "windows decides placement and order together, for the step time; take another method");
    if (!search->simulator->machine->complete)
        return stw_fail(error, STW_ERROR_NO_PLAN,
                        "windows needs links between all devices, and this machine lacks some; take another method");
    return STW_OK;
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    const stw_simulator *s = search->simulator;
    stw_starts starts;
    refining r = {.search = search};
    TRY(check(search, error));
    TRY(stw_starts_open(search, NULL, 0, START_SHARE, &starts, error));
    stw_status status = STW_OK;
    if (starts.count == 0) status = stw_fail(error, STW_ERROR_NO_PLAN, "there is no initial plan");
    if (status == STW_OK) status = stw_plan_create(s->graph, s->machine, &r.now, error);
    if (status == STW_OK) status = stw_plan_create(s->graph, s->machine, &r.trial, error);
    if (status == STW_OK) status = run_from(&r, starts.plan[0], plan, error);
    stw_plan_destroy(r.now);
    stw_plan_destroy(r.trial);
    stw_starts_close(&starts);
    return status;
}

const stw_method stw_method_windows = {
    .name = "windows",
    .description = "local search inside windows of time, for graphs of which few plans can be tried",
    .kind = STW_METHOD_REFINER,
    .run = run};
