/* `express`: what the step hangs on has devices of its own.
 *
 * A device that runs whatever is ready makes the ops of the longest path wait for the rest of what it has just begun: half an op
 * each time, which is much of the step where long paths are of many small ops, as in training steps that follow each other. So
 * ops with little slack go to some devices, all others to the rest of them, each where it can start first (etf). How little and
 * how many is tried: where twice the slack would hardly take in more work there is a gap between what is urgent and what is not.
 *
 * The step ends with paths from what is not urgent; there all devices are for everything. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "method/method.h"
#include "search/list.h"
#include "sim/bounds.h"

enum { LEAST_STEPS = 2, MOST_STEPS = 26 };     /* slack that counts as little: the longest path / 2^(k / 2) */
enum { MOST_COUNTS = 16, MOST_VARIANTS = 48 }; /* numbers of devices that are told apart; what is tried in all */
static const double FULL_SHARE = 0.85;         /* of their time what is urgent can use, as its ops wait for each other */
static const double LEAST_STEP = 0.008;        /* of the work, between two limits that are worth telling apart */
static const double LATER =
    1.15; /* what counts on queues is best more rarely: it is tried as if it were to take so much longer */
static const double MOST_WORK = 0.8;    /* that is urgent: else there is no rest to speak of */
static const double MOST_ENDING = 0.25; /* of the longest path: else it is no ending */

typedef struct {
    double limit_us;  /* of slack */
    double share;     /* of the work that is urgent then */
    double more;      /* that twice the slack would take in */
    double ending_us; /* before the end of the longest path all devices are for everything */
} division;

typedef struct {
    const division *division;
    int32_t devices; /* for what is urgent */
    bool queues;
    double expected_us;
} variant;

typedef struct {
    stw_search *search;
    stw_list list;
    double *head_us, *slack_us;     /* (T) */
    double path_us, work_us;        /* the longest; all */
    int32_t order[STW_MAX_DEVICES]; /* devices, the fastest first */
    division division[MOST_STEPS + 1];
    int32_t division_count;
    variant variant[(MOST_STEPS + 1) * MOST_COUNTS * 2];
    int32_t count;
} express;

/* ---- what is urgent ---- */

static stw_status measure_slack(express *l, stw_arena *arena, stw_error *error) {
    const stw_simulator *s = l->search->simulator;
    const int32_t T = s->unfused.T;
    double *us;
    stw_levels levels;
    STW_TRY_NEW(arena, us, T, error);
    for (int32_t t = 0; t < T; t++) us[t] = s->costs->least_us[s->unfused.task_node[t]];
    TRY(stw_bound_levels(s, &s->unfused, us, false, arena, &levels, error));
    for (int32_t t = 0; t < T; t++) l->path_us = fmax(l->path_us, levels.head[t] + us[t] + levels.tail[t]);
    for (int32_t t = 0; t < T; t++) levels.tail[t] = l->path_us - levels.head[t] - us[t] - levels.tail[t];
    l->head_us = levels.head;
    l->slack_us = levels.tail;
    return STW_OK;
}

static double slack_limit(const express *l, int k) {
    return ldexp(k % 2 == 0 ? l->path_us : l->path_us * 0.70710678118654752, -(k / 2));
}

/* Work by the least k for which a slack is above its limit. work: (MOST_STEPS + 2); [0]: all of it. */
static void sum_work(const express *l, double *work) {
    const stw_simulator *s = l->search->simulator;
    double limit[MOST_STEPS + 1];
    for (int k = 0; k <= MOST_STEPS; k++) limit[k] = slack_limit(l, k);
    for (int k = 0; k <= MOST_STEPS + 1; k++) work[k] = 0.0;
    for (int32_t t = 0; t < s->unfused.T; t++) {
        const double us = s->costs->least_us[s->unfused.task_node[t]];
        for (int k = 0; k <= MOST_STEPS && l->slack_us[t] <= limit[k]; k++) work[k] += us;
    }
}

/* The longest path from what is not urgent to the end. */
static double ending_of(const express *l, double limit_us) {
    const stw_simulator *s = l->search->simulator;
    double longest = 0.0;
    for (int32_t t = 0; t < s->unfused.T; t++) {
        if (l->slack_us[t] > limit_us) longest = fmax(longest, l->path_us - l->head_us[t] - l->slack_us[t]);
    }
    return longest <= MOST_ENDING * l->path_us ? longest : 0.0;
}

static void find_divisions(express *l) {
    double work[MOST_STEPS + 2], before = 0.0;
    sum_work(l, work);
    l->work_us = work[0];
    for (int k = MOST_STEPS; k >= LEAST_STEPS && work[0] > 0.0; k--) {
        const double share = work[k] / work[0], limit_us = slack_limit(l, k);
        if (share < before + LEAST_STEP || share > MOST_WORK) continue;
        before = share;
        l->division[l->division_count++] = (division){limit_us, share, (work[k - 2] - work[k]) / work[0], ending_of(l, limit_us)};
    }
}

/* ---- variants ---- */

/* What the step can be expected to take: the longest path, or the fuller devices; more where what is urgent is hard to tell. */
static double expected_us(const express *l, const division *of, int32_t devices) {
    const int32_t D = l->search->simulator->machine->device_count;
    const double urgent_us = l->work_us * of->share / (FULL_SHARE * devices);
    const double rest_us = l->work_us * (1.0 - of->share) / (D - devices);
    return fmax(l->path_us, fmax(urgent_us, rest_us)) * (1.0 + of->more);
}

static int by_expectation(const void *left, const void *right) {
    const variant *a = left, *b = right;
    if (a->expected_us != b->expected_us) return a->expected_us < b->expected_us ? -1 : 1;
    if (a->division != b->division) return a->division < b->division ? -1 : 1;
    if (a->devices != b->devices) return a->devices < b->devices ? -1 : 1;
    return (int)a->queues - (int)b->queues;
}

/* The most promising first. Where what is urgent has twice the devices that it needs, more of them bring nothing. */
static void list_variants(express *l) {
    const int32_t D = l->search->simulator->machine->device_count, step = (D + MOST_COUNTS - 1) / MOST_COUNTS;
    for (int32_t k = 0; k < l->division_count; k++) {
        const division *of = &l->division[k];
        for (int32_t devices = step; devices < D && devices < 2.0 * of->share * D + step; devices += step) {
            const double us = expected_us(l, of, devices);
            l->variant[l->count++] = (variant){of, devices, false, us};
            l->variant[l->count++] = (variant){of, devices, true, us * LATER};
        }
    }
    if (l->count > 1) qsort(l->variant, (size_t)l->count, sizeof *l->variant, by_expectation);
    if (l->count > MOST_VARIANTS) l->count = MOST_VARIANTS;
}

static stw_status build(void *context, int32_t index, stw_plan *plan, stw_arena scratch, stw_error *error) {
    const express *l = context;
    const variant *v = &l->variant[index];
    const int32_t T = l->list.base.tasks->T;
    uint64_t urgent = 0, *allowed;
    STW_TRY_NEW(&scratch, allowed, T, error);
    for (int32_t k = 0; k < v->devices; k++) urgent |= 1ull << l->order[k];
    for (int32_t t = 0; t < T; t++) {
        allowed[t] = l->slack_us[t] <= v->division->limit_us ? urgent : ~urgent;
        if (l->head_us[t] > l->path_us - v->division->ending_us) allowed[t] = UINT64_MAX;
    }
    const stw_etf_input input = {.list = &l->list,
                                 .home = STW_HOME_UPDATE,
                                 .allowed = l->list.linked,
                                 .task_allowed = allowed,
                                 .queues = v->queues,
                                 .stop = stw_search_stop(l->search, index)};
    return stw_etf(&input, plan->device, scratch, error);
}

/* ---- the method ---- */

static void order_devices(express *l) {
    const stw_simulator *s = l->search->simulator;
    double us[STW_MAX_DEVICES];
    for (int32_t d = 0; d < s->machine->device_count; d++) {
        const double *of = s->costs->us[s->machine->device[d].cost_class];
        us[d] = 0.0;
        for (int32_t k = 0; k < s->graph->op_count; k++) us[d] += of[s->graph->topological[k]];
        int32_t at = d;
        for (; at > 0 && us[l->order[at - 1]] > us[d]; at--) l->order[at] = l->order[at - 1];
        l->order[at] = d;
    }
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    stw_arena arena = search->arena;
    express *l;
    int32_t best = 0;
    STW_TRY_NEW(&arena, l, 1, error);
    l->search = search;
    TRY(measure_slack(l, &arena, error));
    find_divisions(l);
    list_variants(l);
    if (l->count == 0) return stw_method_etf.run(search, plan, error); /* no op is more urgent than others */
    order_devices(l);
    TRY(stw_list_prepare(search, &arena, &l->list, error));
    const stw_variants variants = {.count = l->count, .build = build, .context = l, .own_rule = STW_RULE_UPWARD_RANK};
    TRY(stw_search_variants(search, &variants, plan, &best, error));
    const variant *v = &l->variant[best];
    snprintf(search->outcome.note, sizeof search->outcome.note,
             "%.0f %% of the work, which has a slack of at most %.2g %% of the longest path, on %d devices of its own, assuming "
             "that transfers %s",
             100.0 * v->division->share, 100.0 * v->division->limit_us / l->path_us, v->devices,
             v->queues ? "queue" : "never queue");
    return STW_OK;
}

const stw_method stw_method_express = {
    .name = "express",
    .description = "what the step hangs on has devices of its own; each op where it starts first",
    .kind = STW_METHOD_CONSTRUCTIVE,
    .traits = STW_METHOD_PLACES | STW_METHOD_NAMED_ONLY,
    .op_s = 5e-7,
    .pair_s = 2.5e-7,
    .run = run};
