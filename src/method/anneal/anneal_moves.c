/* Changes of a plan, and how they are taken back. */
#include <math.h>
#include <string.h>

#include "method/anneal/anneal.h"
#include "plan/plan.h"
#include "search/fusing.h"
#include "sim/backward.h"

/* ---- choosing ---- */

static int32_t below(stw_chain *c, int32_t bound) { return (int32_t)stw_rng_below(&c->rng, bound); }
static bool chance(stw_chain *c, double p) { return stw_rng_uniform(&c->rng) < p; }

/* An op: half of the time one on the critical path. */
static int32_t choose_op(const stw_annealing *a, stw_chain *c) {
    const stw_simulator *s = a->search->simulator;
    if (c->critical_count > 0 && chance(c, 0.5)) return s->unfused.task_node[c->critical[below(c, c->critical_count)]];
    return s->graph->topological[below(c, s->graph->op_count)];
}

/* A level of units: coarse ones first, finer ones later; half of the time any. */
static const stw_units *choose_level(stw_chain *c, const stw_unit_levels *levels) {
    const int32_t last = levels->count - 1;
    if (chance(c, 0.5)) return &levels->level[below(c, levels->count)];
    const double wanted = (1.0 - c->progress) * last + 2.0 * stw_rng_uniform(&c->rng) - 1.0;
    return &levels->level[wanted <= 0.0 ? 0 : wanted >= last ? last : (int32_t)(wanted + 0.5)];
}

/* ---- priorities ---- */

static void keep_priorities(stw_chain *c) {
    memcpy(c->old_priority, c->plan->priority, (size_t)c->plan->graph->N * sizeof(double));
    c->priorities_changed = true;
}

static void nudge(const stw_annealing *a, stw_chain *c) {
    const int32_t op = choose_op(a, c);
    const stw_units *units = choose_level(c, &a->units);
    const int32_t unit = units->of[op];
    const double scale = ldexp(1.0, -2 - (int)stw_rng_below(&c->rng, 7));
    const double by = stw_rng_normal(&c->rng) * a->largest_rank * scale;
    keep_priorities(c);
    for (int32_t m = units->start[unit]; m < units->start[unit + 1]; m++) c->plan->priority[units->member[m]] += by;
}

/* ---- what is fused ---- */

/* Changes of what is fused. A chain keeps fusion priorities beside its plan and makes the groups from them anew after each change
 * of priorities or devices, so that what is legal again after a move is fused again. */

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
    int32_t op = choose_op(a, c);
    for (int tries = 0; tries < 8 && c->fusion[op] == 0.0 && a->search->fusing->priority[op] == 0.0; tries++)
        op = choose_op(a, c);
    return op;
}

/* One op is merged, or no longer; often together with what it reads or with what reads it. */
static void toggle(const stw_annealing *a, stw_chain *c) {
    const stw_graph *graph = a->search->simulator->graph;
    const int32_t op = choose_mergeable(a, c), reach = below(c, 3); /* 0: alone, 1: what it reads, 2: what reads it */
    const bool merge = c->fusion[op] <= 0.0;
    const double priority = merge ? stw_rng_uniform(&c->rng) + 1e-3 : -0.5;
    const int32_t *start = reach == 1 ? graph->read_start : graph->reader_start;
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

static void fuse_or_split(const stw_annealing *a, stw_chain *c) {
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

/* ---- the placement ---- */

static void place(stw_chain *c, int32_t node, int32_t device) {
    const uint64_t *allowed = c->plan->graph->allowed;
    if (c->plan->device[node] == device || (allowed != NULL && !(allowed[node] >> device & 1u))) return;
    c->old_device[c->moved_count] = c->plan->device[node];
    c->moved[c->moved_count++] = node;
    c->plan->device[node] = device;
}

static void place_unit(const stw_units *units, stw_chain *c, int32_t unit, int32_t device) {
    for (int32_t m = units->start[unit]; m < units->start[unit + 1]; m++) place(c, units->member[m], device);
}

void stw_anneal_move_back(stw_chain *c) {
    /* From the last to the first: a node may have moved twice. */
    for (int32_t k = c->moved_count - 1; k >= 0; k--) c->plan->device[c->moved[k]] = c->old_device[k];
}

void stw_anneal_take_back(stw_chain *c) {
    stw_anneal_move_back(c);
    const size_t N = (size_t)c->plan->graph->N;
    if (c->priorities_changed) memcpy(c->plan->priority, c->old_priority, N * sizeof(double));
    if (c->fusion_changed) memcpy(c->fusion, c->old_fusion, N * sizeof(double));
    if (c->fusion != NULL) memcpy(c->plan->group, c->old_group, N * sizeof(int32_t));
}

/* ---- where to ---- */

static int32_t other_device(stw_chain *c, int32_t device) {
    const int32_t d = below(c, c->plan->machine->device_count - 1);
    return d < device ? d : d + 1;
}

/* Mostly where something is that this node reads, or that reads it; else any other device. */
static int32_t choose_device(const stw_annealing *a, stw_chain *c, int32_t node) {
    const stw_graph *graph = a->search->simulator->graph;
    const int32_t own = c->plan->device[node];
    for (int attempt = 0; attempt < 3 && chance(c, 0.7); attempt++) {
        const bool up = chance(c, 0.6);
        const int32_t *start = up ? graph->read_start : graph->reader_start;
        const int64_t count = start[node + 1] - start[node];
        if (count == 0) continue;
        const int32_t neighbour = (up ? graph->read : graph->reader)[start[node] + stw_rng_below(&c->rng, count)].node;
        if (stw_node_is_everywhere(graph->kind[neighbour])) continue;
        if (c->plan->device[neighbour] != own) return c->plan->device[neighbour];
    }
    return other_device(c, own);
}

/* An interval of realised time around the start of an op. */
typedef struct {
    double from, to; /* ps */
} interval;

static interval choose_interval(const stw_annealing *a, stw_chain *c, int32_t op, int32_t halvings) {
    const double width = (double)c->step_ps * ldexp(1.0, -halvings);
    const double from = (double)c->start_ps[a->search->simulator->unfused.task_of[op]] - width * stw_rng_uniform(&c->rng);
    return (interval){from, from + width};
}

static bool is_in(const interval *i, int64_t start_ps) { return (double)start_ps >= i->from && (double)start_ps <= i->to; }

/* ---- moves ---- */

/* Half of the time only what of the unit is on the device of the op it was chosen by: a unit that is split may stay split. */
static void move_unit(const stw_annealing *a, stw_chain *c) {
    const int32_t op = choose_op(a, c), from = c->plan->device[op];
    const stw_unit_levels *levels = chance(c, a->affinity_share) ? &a->affinity : &a->units;
    const stw_units *units = choose_level(c, levels);
    const int32_t first = units->start[units->of[op]], end = units->start[units->of[op] + 1];
    int32_t member = units->member[first + below(c, end - first)];
    if (c->plan->device[member] != from) member = op;
    const int32_t to = choose_device(a, c, member);
    const bool whole = chance(c, 0.5);
    for (int32_t m = first; m < end; m++) {
        if (whole || c->plan->device[units->member[m]] == from) place(c, units->member[m], to);
    }
}

static void enter(const stw_annealing *a, stw_chain *c, int32_t node, int32_t device, int32_t *count) {
    if (c->mark[node] == c->marked || c->plan->device[node] != device) return;
    if (stw_node_is_everywhere(a->search->simulator->graph->kind[node])) return;
    c->mark[node] = c->marked;
    c->queue[(*count)++] = node;
}

/* Breadth first over what an op reads and what reads it, each with what it must be with. */
static void move_blob(const stw_annealing *a, stw_chain *c) {
    const stw_graph *graph = a->search->simulator->graph;
    const stw_units *atoms = &a->units.level[0];
    const int32_t op = choose_op(a, c), from = c->plan->device[op], to = choose_device(a, c, op);
    const int32_t size = 1 << below(c, 8);
    int32_t count = 0;
    c->marked++;
    enter(a, c, op, from, &count);
    for (int32_t k = 0; k < count && count < size; k++) {
        const int32_t node = c->queue[k];
        for (int64_t e = graph->read_start[node]; e < graph->read_start[node + 1] && count < size; e++)
            enter(a, c, graph->read[e].node, from, &count);
        for (int64_t e = graph->reader_start[node]; e < graph->reader_start[node + 1] && count < size; e++)
            enter(a, c, graph->reader[e].node, from, &count);
    }
    for (int32_t k = 0; k < count; k++) place_unit(atoms, c, atoms->of[c->queue[k]], to);
}

/* All of the interval, or a random part; one way, or both. */
static void move_window(const stw_annealing *a, stw_chain *c) {
    const stw_tasks *tasks = &a->search->simulator->unfused;
    const stw_units *atoms = &a->units.level[0];
    const int32_t op = choose_op(a, c), from = c->plan->device[op], to = choose_device(a, c, op);
    const interval window = choose_interval(a, c, op, 1 + below(c, 9));
    const bool swap = chance(c, 0.25);
    const double share = chance(c, 0.5) ? 1.0 : stw_rng_uniform(&c->rng);
    int32_t count = 0;
    for (int32_t t = 0; t < tasks->T; t++) {
        if (!is_in(&window, c->start_ps[t])) continue;
        const int32_t device = c->plan->device[tasks->task_node[t]];
        if (device != from && !(swap && device == to)) continue;
        if (share == 1.0 || chance(c, share)) c->queue[count++] = tasks->task_node[t];
    }
    c->marked++;
    for (int32_t k = 0; k < count; k++) {
        const int32_t atom = atoms->of[c->queue[k]], first = atoms->member[atoms->start[atom]];
        if (c->mark[first] == c->marked) continue; /* it has gone with another op already */
        c->mark[first] = c->marked;
        place_unit(atoms, c, atom, c->plan->device[first] == from ? to : from);
    }
}

/* Frees the ops of a region (an interval of time, or a coarse unit; all, or a random part, or those of one device) and lets the
 * list scheduler place them with random knobs; all others stay. */
static void free_region(const stw_annealing *a, stw_chain *c) {
    const stw_tasks *tasks = &a->search->simulator->unfused;
    const int32_t op = choose_op(a, c);
    const bool by_time = chance(c, 0.6);
    const interval window = choose_interval(a, c, op, below(c, 8));
    const stw_unit_levels *levels = chance(c, 0.5) ? &a->affinity : &a->units;
    const stw_units *units = &levels->level[levels->count - 1 - below(c, levels->count > 2 ? 3 : 1)];
    const double glue = a->mean_us * exp(-3.0 + 8.0 * stw_rng_uniform(&c->rng));
    const double aversion = exp(-2.0 + 4.0 * stw_rng_uniform(&c->rng));
    const double share = chance(c, 0.5) ? 1.0 : stw_rng_uniform(&c->rng);
    const int32_t only = chance(c, 0.5) ? c->plan->device[op] : -1;
    for (int32_t t = 0; t < tasks->T; t++) {
        const int32_t node = tasks->task_node[t];
        bool in = by_time ? is_in(&window, c->start_ps[t]) : units->of[node] == units->of[op];
        if (in && share < 1.0) in = chance(c, share);
        if (in && only >= 0) in = c->plan->device[node] == only || chance(c, 0.1);
        c->plan_glue[t] = in ? glue : STW_GLUE_FIXED;
        c->aversion[t] = aversion;
    }
}

static stw_status steer(const stw_annealing *a, stw_chain *c, stw_arena scratch) {
    const stw_simulator *s = a->search->simulator;
    free_region(a, c);
    const stw_steer_input input = {
        .base = &a->board,
        .aversion = c->aversion,
        .plan_glue = c->plan_glue,
        .glued = c->plan->device,
        .home = chance(c, 0.5) ? STW_HOME_GLUED : STW_HOME_FIRST,
        .order = c->critical_count > 0 && chance(c, 0.7) ? c->order : NULL,
        .outlook = chance(c, 0.5),
        .insertion = chance(c, 0.3), /* in the order of a run there are few gaps */
        .queues = s->machine->queues,
        .channel_gaps = chance(c, 0.15),
    };
    TRY(stw_steer(&input, c->steered, NULL, scratch, c->error));
    for (int32_t i = 0; i < s->graph->N; i++) {
        if (a->units.level[0].of[i] >= 0 && s->graph->kind[i] != STW_NODE_VIEW) place(c, i, c->steered[i]);
    }
    return STW_OK;
}

/* ---- what another chain has found ---- */

void stw_anneal_compare(const stw_annealing *a, stw_chain *c) {
    const stw_units *atoms = &a->units.level[0];
    c->differ_count = 0;
    for (int32_t u = 0; u < atoms->count; u++) {
        const int32_t node = atoms->member[atoms->start[u]];
        if (c->plan->device[node] != c->other_device[node]) c->differ[c->differ_count++] = node;
    }
}

/* Chains that begin alike improve different parts of the plan: what differs in a part is taken over, all of it or a random
 * part. */
static void cross_devices(const stw_annealing *a, stw_chain *c) {
    const stw_tasks *tasks = &a->search->simulator->unfused;
    const stw_units *atoms = &a->units.level[0];
    const int32_t seed = c->differ[below(c, c->differ_count)], seed_task = tasks->task_of[seed];
    const bool by_time = seed_task >= 0 && chance(c, 0.5);
    const interval window = by_time ? choose_interval(a, c, seed, below(c, 8)) : (interval){0};
    const stw_units *units = &a->units.level[below(c, a->units.count)];
    const double share = chance(c, 0.7) ? 1.0 : stw_rng_uniform(&c->rng);
    for (int32_t k = 0; k < c->differ_count; k++) {
        const int32_t node = c->differ[k], task = tasks->task_of[node];
        const bool in = by_time ? task >= 0 && is_in(&window, c->start_ps[task]) : units->of[node] == units->of[seed];
        if (in && (share == 1.0 || node == seed || chance(c, share)))
            place_unit(atoms, c, atoms->of[node], c->other_device[node]);
    }
}

static void cross(const stw_annealing *a, stw_chain *c) {
    const bool orders = a->weight[STW_MOVE_NUDGE] > 0.0;
    if (c->differ_count == 0 && !orders) return;
    if (c->differ_count > 0 && (!orders || !chance(c, 0.1))) {
        cross_devices(a, c);
        return;
    }
    keep_priorities(c);
    memcpy(c->plan->priority, c->other_priority, (size_t)c->plan->graph->N * sizeof(double));
}

/* ---- one change ---- */

stw_move stw_anneal_choose(const stw_annealing *a, stw_chain *c) {
    double draw = stw_rng_uniform(&c->rng);
    int k = 0;
    while (k < STW_MOVE_COUNT - 1 && draw >= a->weight[k]) draw -= a->weight[k++];
    while (a->weight[k] <= 0.0) k--; /* rounding may lead past the last kind that is wanted */
    return (stw_move)k;
}

stw_status stw_anneal_draw(const stw_annealing *a, stw_chain *c, stw_move kind, int32_t worker) {
    const stw_simulator *s = a->search->simulator;
    const stw_arena scratch = a->search->scratch[worker];
    c->moved_count = 0;
    c->priorities_changed = c->fusion_changed = false;
    switch (kind) {
        case STW_MOVE_UNIT: move_unit(a, c); break;
        case STW_MOVE_BLOB: move_blob(a, c); break;
        case STW_MOVE_WINDOW: move_window(a, c); break;
        case STW_MOVE_STEER: TRY(steer(a, c, scratch)); break;
        case STW_MOVE_NUDGE: nudge(a, c); break;
        case STW_MOVE_RANK:
            keep_priorities(c);
            TRY(stw_rule_apply(STW_RULE_UPWARD_RANK, s->costs, &s->unfused, c->plan, scratch, c->error));
            break;
        case STW_MOVE_BACKWARD:
            keep_priorities(c);
            TRY(stw_backward_priorities(s, c->plan, c->start_ps, scratch, c->error));
            break;
        case STW_MOVE_FUSE: fuse_or_split(a, c); break;
        case STW_MOVE_CROSS: cross(a, c); break;
        case STW_MOVE_COUNT: break;
    }
    return STW_OK;
}

/* A rule that was asked for goes with every placement. */
static stw_status apply_rule(const stw_annealing *a, stw_chain *c, int32_t worker) {
    const stw_simulator *s = a->search->simulator;
    if (a->search->rule < 0 || c->moved_count == 0) return STW_OK;
    keep_priorities(c);
    return stw_rule_apply((stw_rule)a->search->rule, s->costs, &s->unfused, c->plan, a->search->scratch[worker], c->error);
}

stw_status stw_anneal_complete(const stw_annealing *a, stw_chain *c, int32_t worker, bool *changed) {
    TRY(apply_rule(a, c, worker));
    *changed = c->moved_count > 0 || c->priorities_changed || c->fusion_changed;
    if (c->fusion == NULL) return STW_OK;
    const size_t size = (size_t)c->plan->graph->N * sizeof(int32_t);
    memcpy(c->old_group, c->plan->group, size);
    if (c->moved_count == 0 && !c->fusion_changed) return STW_OK;
    stw_anneal_regroup(a, c, worker);
    *changed = c->moved_count > 0 || c->priorities_changed || memcmp(c->old_group, c->plan->group, size) != 0;
    return STW_OK;
}

stw_status stw_anneal_change(const stw_annealing *a, stw_chain *c, int32_t worker, bool *changed) {
    TRY(stw_anneal_draw(a, c, stw_anneal_choose(a, c), worker));
    return stw_anneal_complete(a, c, worker, changed);
}
