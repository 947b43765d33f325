/* Packing with the simulator: a run shows when everything happens, a packing finds devices for which that fits, the next run
 * shows what it is like with them. */
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "search/lean_order.h"
#include "search/pack.h"
#include "search/repair.h"
#include "sim/bounds.h"

enum {
    ROUNDS = 3,              /* of a simulation and a packing, for one order */
    LAST_ROUNDS = 10,        /* for the leanest, after which there is no other */
    LOOSE_ROUNDS = 2,        /* without strict orders */
    BLENDS = 4,              /* orders between one that is too quick and one that fits */
    WORK = 3 * 1000 * 1000,  /* of a packing */
    WORK_OF_EVALUATION = 12, /* that counts as one evaluation, per task */
};

static const double HOPELESS = 0.02; /* of all memory: what a packing exceeds it by, if another round is not worth it */
static const double HOT = 0.003, AWAY = 0.1;
static const double LITTLE = 0.05; /* of all memory, that a plan may lack to be worth packing again */

typedef struct {
    stw_search *search;
    const stw_tasks *tasks; /* of the plan, whatever its devices */
    const stw_repair_units *units;
    stw_plan *plan, *best; /* the one that is worked on; of the caller */
    stw_score score, best_score;
    int32_t worker;
    stw_arena arena;
    int32_t packings; /* so far */
    int64_t excess;   /* of the last, by the model */
    double *quick;    /* (T) when each task begins in the order that takes least time; the step is 1 */
    double *lean;     /* (T) the same in the order that holds least */
    int32_t *run;     /* (T) the order that is tried: between the two */
    int32_t *fits;    /* (N) devices that were valid, once some were */
    bool found;
    double hot, away; /* of packings */
    double memory;    /* bytes of all devices */
} packing;

/* Until a plan fits it goes on as long as the first plan of a method may. */
static bool is_over(const packing *k) {
    const stw_stop stop = stw_search_stop(k->search, -1);
    return k->found ? stw_search_is_over(k->search) : stw_stop_is_due(&stop) || stw_search_evaluations_left(k->search) == 0;
}

static bool may_schedule(const packing *k) { return (k->search->tasks & STW_TASK_SCHEDULE) && k->search->rule < 0; }

/* ---- orders ---- */

typedef struct {
    double start;
    int32_t place, task; /* place: in an order in which they could run */
} started;

static int by_start(const void *left, const void *right) {
    const started *a = left, *b = right;
    if (a->start != b->start) return a->start < b->start ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

/* When tasks began in the run that the workspace holds. */
static void read_run(const packing *k, double *out) {
    const stw_timeline *timeline = &k->search->workspace[k->worker]->timeline;
    int64_t step_ps = 1;
    for (int32_t t = 0; t < timeline->tasks->T; t++) step_ps = timeline->end_ps[t] > step_ps ? timeline->end_ps[t] : step_ps;
    for (int32_t t = 0; t < timeline->tasks->T; t++) out[t] = (double)timeline->start_ps[t] / (double)step_ps;
}

/* When tasks begin in the leanest order, one after the other. */
static stw_status find_lean(const packing *k, stw_arena scratch, stw_error *error) {
    const stw_simulator *s = k->search->simulator;
    const stw_tasks *tasks = k->tasks;
    stw_sequences sequences;
    stw_lean_order order;
    double sum = 0.0;
    TRY(stw_sequences_build(tasks, &scratch, &sequences, error));
    TRY(stw_lean_find(&sequences, s->machine->cost_class_count, NULL, k->search, &scratch, &order, error));
    for (int32_t n = 0; n < tasks->T; n++) {
        k->lean[order.task[n]] = sum;
        sum += (double)tasks->duration_ps[0][order.task[n]] / 1e6;
    }
    for (int32_t t = 0; t < tasks->T && sum > 0.0; t++) k->lean[t] /= sum;
    return STW_OK;
}

/* An order between the two: the mean of both times, weighted. What comes first in both comes first in it. */
static stw_status blend_orders(const packing *k, double leanness, stw_arena scratch, stw_error *error) {
    const stw_tasks *tasks = k->tasks;
    started *all;
    STW_TRY_NEW(&scratch, all, tasks->T, error);
    for (int32_t n = 0; n < tasks->T; n++) {
        const int32_t t = tasks->order[n];
        all[n] = (started){(1.0 - leanness) * k->quick[t] + leanness * k->lean[t], n, t};
    }
    qsort(all, (size_t)tasks->T, sizeof *all, by_start);
    for (int32_t n = 0; n < tasks->T; n++) k->run[n] = all[n].task;
    return STW_OK;
}

/* Priorities that say the same as the order of a run. */
static void prioritise(packing *k) {
    const stw_tasks *tasks = k->tasks;
    const stw_lean_order order = {.task = k->run};
    stw_plan_remove_orders(k->plan);
    stw_lean_apply(tasks, &order, k->plan);
}

/* Devices run exactly as they ran, and wait where they must. */
static stw_status order_strictly(packing *k, stw_arena scratch, stw_error *error) {
    const stw_tasks *tasks = k->tasks;
    int32_t *mine;
    STW_TRY_NEW(&scratch, mine, tasks->T, error);
    for (int32_t d = 0; d < k->plan->machine->device_count; d++) {
        int32_t count = 0;
        for (int32_t n = 0; n < tasks->T; n++) {
            const int32_t node = tasks->task_node[k->run[n]];
            if (k->plan->device[node] == d) mine[count++] = node;
        }
        TRY(stw_plan_set_order(k->plan, d, mine, count, error));
    }
    return STW_OK;
}

/* ---- rounds ---- */

static stw_status judge(packing *k, stw_error *error) {
    k->score = (stw_score){.reason = STW_INVALID_OVERFLOW}; /* nobody knows */
    if (stw_search_evaluations_left(k->search) == 0) return STW_OK;
    TRY(stw_search_evaluate(k->search, k->plan, k->worker, &k->score, error));
    if (stw_score_is_better(&k->best_score, &k->score)) return STW_OK;
    /* Of equals the one that binds nobody to an order. */
    const bool frees = stw_plan_has_orders(k->best) && !stw_plan_has_orders(k->plan);
    if (!frees && !stw_score_is_better(&k->score, &k->best_score)) return STW_OK;
    k->best_score = k->score;
    return stw_plan_assign(k->best, k->plan, error);
}

/* What the model does not know of (transfers that wait) is taken off the limits. */
static void set_limits(const packing *k, stw_pack *pack) {
    const stw_timeline *timeline = &k->search->workspace[k->worker]->timeline;
    for (int32_t d = 0; d < pack->D; d++) {
        const int64_t unknown = timeline->peak_bytes[d] - stw_pack_peak(pack, d);
        if (unknown > 0) pack->limit[d] -= unknown < pack->limit[d] ? unknown : pack->limit[d];
    }
}

/* New devices by the run that the workspace holds. */
static stw_status pack_run(packing *k, bool stages, stw_arena scratch, stw_error *error) {
    const stw_simulator *s = k->search->simulator;
    const stw_stop stop = stw_search_stop(k->search, -1);
    const stw_rng seeded = stw_rng_create(k->search->seed), mine = stw_rng_split(&seeded, 0x7061636b); /* "pack" */
    const stw_pack_plan plan = {.units = k->units->kind,
                                .kinds = k->units->count,
                                .work = WORK,
                                .hot = k->hot,
                                .away = stages ? 0.0 : k->away,
                                .rng = stw_rng_split(&mine, (uint64_t)k->packings++),
                                .stop = &stop};
    stw_pack pack;
    TRY(stw_pack_open(s->costs, s->machine, &k->search->workspace[k->worker]->timeline, k->plan->device, &scratch, &pack, error));
    set_limits(k, &pack);
    if (stages) TRY(stw_pack_stages(&pack, &k->units->kind[k->units->count - 2], scratch, error));
    TRY(stw_pack_search(&pack, &plan, scratch, error));
    const int64_t counted = pack.work / ((int64_t)WORK_OF_EVALUATION * (k->tasks->T + 1));
    const int64_t left = stw_search_evaluations_left(k->search);
    atomic_fetch_add(&k->search->evaluations, counted < left ? counted : left);
    k->excess = stw_pack_excess(&pack);
    memcpy(k->plan->device, pack.device, (size_t)s->graph->N * sizeof *pack.device);
    stw_plan_join(s, k->plan);
    return STW_OK;
}

/* Simulates the devices as they are with the order that is tried, or with what the search asks for. */
static stw_status run_devices(packing *k, stw_arena scratch, stw_error *error) {
    const stw_simulator *s = k->search->simulator;
    stw_plan_remove_orders(k->plan);
    if (k->search->rule >= 0) TRY(stw_rule_apply((stw_rule)k->search->rule, s->costs, &s->unfused, k->plan, scratch, error));
    if (may_schedule(k)) {
        prioritise(k);
        TRY(order_strictly(k, scratch, error));
    }
    return judge(k, error);
}

/* Devices may be quicker if they do not wait for the next in the order. They hold more then; what lacks little is packed again.
 */
static stw_status loosen(packing *k, stw_arena scratch, stw_error *error) {
    const stw_simulator *s = k->search->simulator;
    if (!may_schedule(k)) return STW_OK;
    for (int32_t round = 0; round <= LOOSE_ROUNDS; round++) {
        prioritise(k);
        TRY(judge(k, error));
        if (k->score.reason == STW_VALID) break;
        if (k->score.reason != STW_INVALID_MEMORY || k->score.lacks > LITTLE * k->memory || is_over(k)) return STW_OK;
        if (round < LOOSE_ROUNDS) TRY(pack_run(k, false, scratch, error));
    }
    TRY(stw_rule_apply(STW_RULE_UPWARD_RANK, s->costs, &s->unfused, k->plan, scratch, error));
    return judge(k, error);
}

/* Rounds with one order, until the plan fits. */
static stw_status run_rounds(packing *k, int32_t rounds, bool stages, bool *fits, stw_error *error) {
    int64_t least = INT64_MAX; /* excess */
    for (int32_t round = 0, vain = 0;; round++) {
        TRY(run_devices(k, k->arena, error));
        *fits = k->score.reason == STW_VALID;
        if (*fits || k->score.reason != STW_INVALID_MEMORY || round == rounds || is_over(k)) break;
        TRY(pack_run(k, stages && round == 0, k->arena, error));
        vain = k->excess > 0 && k->excess >= least ? vain + 1 : 0;
        if (k->excess < least) least = k->excess;
        if (vain == 2 || (rounds < LAST_ROUNDS && (double)k->excess > HOPELESS * k->memory)) break;
    }
    if (!*fits) return STW_OK;
    k->found = true;
    memcpy(k->fits, k->plan->device, (size_t)k->plan->graph->N * sizeof *k->fits);
    return loosen(k, k->arena, error);
}

/* Orders between one that is too quick and one that fits: ever closer to the first as long as they fit. */
static stw_status blend(packing *k, stw_error *error) {
    double quick = 0.0, lean = 1.0; /* the leanness of both */
    for (int32_t n = 0; n < BLENDS && !is_over(k); n++) {
        bool fits = false;
        const double middle = 0.5 * (quick + lean);
        TRY(blend_orders(k, middle, k->arena, error));
        memcpy(k->plan->device, k->fits, (size_t)k->plan->graph->N * sizeof *k->fits);
        TRY(run_rounds(k, ROUNDS, false, &fits, error));
        *(fits ? &lean : &quick) = middle;
    }
    return STW_OK;
}

/* The plan as it is, in its own order; if that cannot be made to fit, in the leanest; then between the two. */
static stw_status run(packing *k, stw_pack_begin begin, stw_error *error) {
    const stw_simulator *s = k->search->simulator;
    bool fits = false;
    read_run(k, k->quick);
    if (begin == STW_PACK_REPAIR || !may_schedule(k)) {
        TRY(blend_orders(k, 0.0, k->arena, error));
        TRY(run_rounds(k, may_schedule(k) ? ROUNDS : LAST_ROUNDS, begin == STW_PACK_STAGES, &fits, error));
    }
    if (fits || !may_schedule(k) || is_over(k)) return STW_OK;
    TRY(find_lean(k, k->arena, error));
    TRY(blend_orders(k, 1.0, k->arena, error));
    TRY(run_rounds(k, LAST_ROUNDS, begin == STW_PACK_STAGES, &fits, error));
    if (!fits || is_over(k)) return STW_OK;
    if (begin == STW_PACK_STAGES) { /* the quick one is by rank */
        memcpy(k->plan->device, k->fits, (size_t)s->graph->N * sizeof *k->fits);
        stw_plan_remove_orders(k->plan);
        TRY(stw_rule_apply(STW_RULE_UPWARD_RANK, s->costs, &s->unfused, k->plan, k->arena, error));
        TRY(judge(k, error));
        if (k->score.reason == STW_VALID) return STW_OK;
        read_run(k, k->quick);
    }
    return blend(k, error);
}

static stw_status prepare(packing *k, stw_error *error) {
    const int32_t T = k->tasks->T;
    STW_TRY_NEW(&k->arena, k->quick, T, error);
    STW_TRY_NEW(&k->arena, k->lean, T, error);
    STW_TRY_NEW(&k->arena, k->run, T, error);
    STW_TRY_NEW(&k->arena, k->fits, k->plan->graph->N, error);
    return STW_OK;
}

stw_status stw_repair_stages(const stw_search *search, const stw_repair_units *units, stw_plan *plan, int32_t worker,
                             stw_arena scratch, stw_error *error) {
    const stw_simulator *s = search->simulator;
    stw_pack pack;
    TRY(stw_pack_open(s->costs, s->machine, &search->workspace[worker]->timeline, plan->device, &scratch, &pack, error));
    TRY(stw_pack_stages(&pack, &units->kind[units->count - 2], scratch, error));
    memcpy(plan->device, pack.device, (size_t)s->graph->N * sizeof *pack.device);
    stw_plan_join(s, plan);
    return STW_OK;
}

stw_status stw_repair_pack(stw_search *search, const stw_tasks *tasks, const stw_repair_units *units, stw_pack_begin begin,
                           stw_plan *plan, stw_score *score, int32_t worker, stw_arena scratch, stw_error *error) {
    packing k = {.search = search,
                 .tasks = tasks,
                 .units = units,
                 .best = plan,
                 .best_score = *score,
                 .worker = worker,
                 .arena = scratch,
                 .hot = HOT,
                 .away = AWAY};
    int64_t task_bytes = 0, most = 0;
    TRY(stw_bound_largest_task(search->simulator, tasks, scratch, &task_bytes, error));
    for (int32_t d = 0; d < plan->machine->device_count; d++) {
        if (plan->machine->device[d].memory_bytes > most) most = plan->machine->device[d].memory_bytes;
    }
    if (task_bytes > most) return STW_OK; /* on no device */
    TRY(stw_plan_create(plan->graph, plan->machine, &k.plan, error));
    for (int32_t d = 0; d < plan->machine->device_count; d++) k.memory += (double)plan->machine->device[d].memory_bytes;
    stw_status status = stw_plan_assign(k.plan, plan, error);
    if (status == STW_OK) status = prepare(&k, error);
    if (status == STW_OK) status = run(&k, begin, error);
    stw_plan_destroy(k.plan);
    *score = k.best_score;
    return status;
}
