/* `lanes`: what the step hangs on has devices of its own. A device that runs whatever is ready makes the ops of the longest path
 * wait for the rest of what it has just begun, which is half an op each time, and most of the step where paths are of many small
 * ops. So in every part of the step the ops with the least slack go to some of the devices, all others to the rest of them, each
 * where it ends first. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "method/method.h"
#include "search/list.h"
#include "sim/bounds.h"

enum { MAX_VARIANTS = 512 };

typedef struct {
    int32_t urgent;  /* devices for what is urgent */
    double limit_us; /* that has at most this slack */
    double share;    /* of the work */
    bool queues, etf, wide;
} variant;

typedef struct {
    double key;
    int32_t task;
} keyed;

typedef struct {
    stw_search *search;
    stw_list list;
    keyed *by_slack;
    int32_t *order; /* (T) by when they could begin */
    double *us;       /* (T) the least time */
    double work_us, path_us;
    int32_t devices[STW_MAX_DEVICES]; /* the fastest first */
    variant variant[MAX_VARIANTS];
    int32_t count;
} lanes;

/* ---- slack ---- */

static int by_value(const void *left, const void *right) {
    const keyed *a = left, *b = right;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return a->task < b->task ? -1 : a->task > b->task;
}

static stw_status sort_tasks(lanes *l, stw_arena *arena, stw_error *error) {
    const stw_simulator *s = l->search->simulator;
    const int32_t T = s->unfused.T;
    STW_TRY_NEW(arena, l->by_slack, T, error);
    STW_TRY_NEW(arena, l->order, T, error);
    STW_TRY_NEW(arena, l->us, T, error);
    stw_arena scratch = *arena;
    stw_levels levels;
    keyed *heads;
    STW_TRY_NEW(&scratch, heads, T, error);
    for (int32_t t = 0; t < T; t++) l->us[t] = s->costs->least_us[s->unfused.task_node[t]];
    TRY(stw_bound_levels(s, &s->unfused, l->us, false, &scratch, &levels, error));
    for (int32_t t = 0; t < T; t++) l->path_us = fmax(l->path_us, levels.head[t] + l->us[t] + levels.tail[t]);
    for (int32_t t = 0; t < T; t++) {
        heads[t] = (keyed){levels.head[t], t};
        l->by_slack[t] = (keyed){l->path_us - levels.head[t] - l->us[t] - levels.tail[t], t};
        l->work_us += l->us[t];
    }
    if (T > 1) qsort(heads, (size_t)T, sizeof *heads, by_value);
    if (T > 1) qsort(l->by_slack, (size_t)T, sizeof *heads, by_value);
    for (int32_t k = 0; k < T; k++) l->order[k] = heads[k].task;
    return STW_OK;
}

/* ---- variants ---- */

static void list_variants(lanes *l) {
    const int32_t D = l->search->simulator->machine->device_count, T = l->search->simulator->unfused.T;
    double before = 0.0;
    for (int i = 12; i >= 1; i--) {
        const double limit = ldexp(l->path_us, -i);
        double work = 0.0;
        for (int32_t k = 0; k < T && l->by_slack[k].key <= limit; k++) work += l->us[l->by_slack[k].task];
        const double share = work / l->work_us;
        if (share < before + 0.02 || share > 0.8) continue;
        before = share;
        const int32_t least = (int32_t)fmax(1.0, 0.92 * share * D);
        for (int32_t urgent = least; urgent <= least + 1 + D / 16 && urgent < D; urgent++) {
            for (int how = 0; how < 4; how++) l->variant[l->count++] = (variant){urgent, limit, share, (how & 1) != 0, true, (how & 2) != 0};
        }
    }
    const char *e = getenv("LANES");
    if (e != NULL) {
        if (atoi(e) < 0) for (int k = 0; k < l->count; k++) fprintf(stderr, "%d: %d devices, limit %g share %.3f queues %d etf %d\n", k, l->variant[k].urgent, l->variant[k].limit_us / l->path_us, l->variant[k].share, l->variant[k].queues, l->variant[k].etf);
        l->variant[0] = l->variant[abs(atoi(e))];
        l->count = 1;
    }
}

static stw_status build(void *context, int32_t index, stw_plan *plan, stw_arena scratch, stw_error *error) {
    const lanes *l = context;
    const variant *v = &l->variant[index];
    const int32_t T = l->list.base.tasks->T;
    uint64_t urgent = 0, *allowed;
    STW_TRY_NEW(&scratch, allowed, T, error);
    for (int32_t k = 0; k < v->urgent; k++) urgent |= 1ull << l->devices[k];
    for (int32_t k = 0; k < T; k++) allowed[l->by_slack[k].task] = l->by_slack[k].key <= v->limit_us ? (v->wide ? UINT64_MAX : urgent) : ~urgent;
    if (v->etf) {
        const stw_etf_input input = {.list = &l->list, .home = STW_HOME_UPDATE, .task_allowed = allowed, .queues = v->queues, .stop = stw_search_stop(l->search, index)};
        return stw_etf(&input, plan->device, scratch, error);
    }
    const stw_steer_input input = {.base = &l->list.base,
                                   .home = STW_HOME_UPDATE,
                                   .order = l->order,
                                   .task_allowed = allowed,
                                   .insertion = true,
                                   .queues = v->queues,
                                   .memory = l->list.memory,
                                   .stop = stw_search_stop(l->search, index)};
    return stw_steer(&input, plan->device, NULL, scratch, error);
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    stw_arena arena = search->arena;
    lanes *l;
    int32_t best = 0;
    STW_TRY_NEW(&arena, l, 1, error);
    l->search = search;
    for (int32_t d = 0; d < STW_MAX_DEVICES; d++) l->devices[d] = d;
    TRY(stw_list_prepare(search, &arena, &l->list, error));
    TRY(sort_tasks(l, &arena, error));
    list_variants(l);
    const stw_arena before = search->arena;
    search->arena = arena;
    const stw_variants variants = {.count = l->count, .build = build, .context = l, .own_rule = STW_RULE_UPWARD_RANK};
    const stw_status status = stw_search_variants(search, &variants, plan, &best, error);
    search->arena = before;
    TRY(status);
    snprintf(search->outcome.note, sizeof search->outcome.note, "urgent ops on %d devices, limit %g share %.3f queues %d etf %d wide %d",
             l->variant[best].urgent, l->variant[best].limit_us / l->path_us, l->variant[best].share, l->variant[best].queues, l->variant[best].etf, l->variant[best].wide);
    return STW_OK;
}

const stw_method stw_method_lanes = {
    .name = "lanes",
    .description = "what the step hangs on has devices of its own; each op where it ends first among its devices",
    .kind = STW_METHOD_CONSTRUCTIVE,
    .traits = STW_METHOD_PLACES | STW_METHOD_NAMED_ONLY,
    .pair_s = 1e-7,
    .run = run};
