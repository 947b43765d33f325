/* Changes of what is fused. A chain keeps fusion priorities beside its plan and makes the groups from them anew after each change
 * of priorities or devices, so that what is legal again after a move is fused again. */
#include <math.h>
#include <string.h>

#include "method/anneal.h"
#include "method/fusing.h"

static int32_t below(stw_chain *c, int32_t bound) { return (int32_t)stw_rng_below(&c->rng, bound); }

void stw_anneal_regroup(const stw_annealing *a, stw_chain *c, int32_t worker) {
    const stw_fusing *fusing = a->search->fusing;
    if (fusing->rule < 0) {
        stw_fuse_by_priority(fusing->fuser[worker], c->fusion, c->plan->device, c->plan->group);
    } else if (fusing->rule != STW_FUSION_NONE) {
        stw_fuse_by_rule(fusing->fuser[worker], (stw_fusion)fusing->rule, c->plan->device, c->plan->group, NULL);
    }
}

static void keep_fusion(stw_chain *c) {
    memcpy(c->old_fusion, c->fusion, (size_t)c->plan->graph->N * sizeof *c->fusion);
    c->fusion_changed = true;
}

/* One that can be merged somewhere, if a few tries find it. */
static int32_t choose_mergeable(const stw_annealing *a, stw_chain *c) {
    int32_t op = stw_anneal_choose_op(a, c);
    for (int tries = 0; tries < 8 && c->fusion[op] == 0.0 && a->search->fusing->priority[op] == 0.0; tries++)
        op = stw_anneal_choose_op(a, c);
    return op;
}

/* One op is merged, or no longer; often together with what it reads or with what reads it. */
static void toggle(const stw_annealing *a, stw_chain *c) {
    const stw_graph *graph = a->search->simulator->graph;
    const int32_t op = choose_mergeable(a, c), reach = below(c, 3); /* 0: alone, 1: what it reads, 2: what reads it */
    const bool merge = c->fusion[op] <= 0.0;
    const double priority = merge ? stw_rng_uniform(&c->rng) + 1e-3 : -0.5;
    const int64_t *start = reach == 1 ? graph->read_start : graph->reader_start;
    const stw_use *use = reach == 1 ? graph->read : graph->reader;
    c->fusion[op] = priority;
    for (int64_t e = start[op]; reach > 0 && e < start[op + 1]; e++) c->fusion[use[e].node] = priority;
}

/* All ops of a unit: as the rule for one device has them; all merged; none merged. */
static void set_unit(const stw_annealing *a, stw_chain *c) {
    const int32_t op = choose_mergeable(a, c), how = below(c, 4);
    const stw_units *units = &a->units.level[below(c, a->units.count > 2 ? 3 : 1)];
    const double *rule = a->search->fusing->priority;
    const int32_t unit = units->of[op];
    for (int32_t m = units->start[unit]; m < units->start[unit + 1]; m++) {
        const int32_t i = units->member[m];
        c->fusion[i] = how == 0 ? -0.5 : how == 1 ? fabs(rule[i]) + 1e-3 : rule[i];
    }
}

/* Ops of which a part was merged change their turns: what comes first takes the room. */
static void shuffle(const stw_annealing *a, stw_chain *c) {
    const stw_units *units = &a->units.level[below(c, a->units.count > 2 ? 3 : 1)];
    const int32_t unit = units->of[choose_mergeable(a, c)];
    for (int32_t m = units->start[unit]; m < units->start[unit + 1]; m++) {
        const int32_t i = units->member[m];
        if (c->fusion[i] > 0.0) c->fusion[i] = 1e-3 + stw_rng_uniform(&c->rng);
    }
}

void stw_anneal_fuse(const stw_annealing *a, stw_chain *c) {
    const int32_t kind = below(c, 10);
    keep_fusion(c);
    if (kind < 6) {
        toggle(a, c);
    } else if (kind < 9) {
        set_unit(a, c);
    } else {
        shuffle(a, c);
    }
}
