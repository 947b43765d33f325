/* `metis`: a partition with small cut and equal work, by METIS; the best of many settings, since no one fits all graphs.
 *
 * A cut knows no order: parts of equal work may still run one after the other. So some settings divide the step into windows of
 * time and ask for equal work in each of them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "method/method.h"
#include "method/metis/part_graph.h"
#include "plan/plan.h"

/* ---- parts to devices ---- */

/* Parts to devices: METIS numbers parts as it likes, but links may differ. */

typedef struct { /* D x D, from row to column: what parts send each other; a part without a device does not exist */
    int32_t D;
    double *count, *bytes;
} traffic;

/* One transfer for each value and each other part that reads it. `seen`: (D) the last value that was counted for a part. */
static stw_status measure(const stw_graph *graph, const stw_units *units, const int32_t *part, stw_arena *arena, traffic *t,
                          stw_error *error) {
    int32_t seen[STW_MAX_DEVICES];
    STW_TRY_NEW(arena, t->count, (int64_t)t->D * t->D, error);
    STW_TRY_NEW(arena, t->bytes, (int64_t)t->D * t->D, error);
    for (int32_t p = 0; p < t->D; p++) seen[p] = -1;
    for (int32_t i = 0; i < graph->N; i++) {
        if (units->of[i] < 0 || graph->kind[i] == STW_NODE_VIEW) continue;
        const int32_t from = part[units->of[i]];
        for (int64_t r = graph->reader_start[i]; r < graph->reader_start[i + 1]; r++) {
            const int32_t to = part[units->of[graph->reader[r].node]];
            if (to == from || seen[to] == i) continue;
            seen[to] = i;
            t->count[from * t->D + to] += 1.0;
            t->bytes[from * t->D + to] += (double)graph->bytes[i];
        }
    }
    return STW_OK;
}

static const double no_link_us = 1e15; /* worse than anything that exists */

static double cost_between(const stw_machine *machine, const traffic *t, const int32_t *device, int32_t p, int32_t q) {
    const int64_t k = (int64_t)p * t->D + q;
    if (t->count[k] == 0.0) return 0.0;
    const stw_link *link = stw_machine_link(machine, device[p], device[q]);
    if (link->bandwidth <= 0.0) return no_link_us;
    const double count = t->count[k], bytes = t->bytes[k];
    return count * stw_link_fixed_us(link) + stw_link_sum_us(link, bytes, count);
}

/* All that parts a and b exchange with anybody. */
static double cost_of_two(const stw_machine *machine, const traffic *t, const int32_t *device, int32_t a, int32_t b) {
    double us = 0.0;
    for (int32_t p = 0; p < t->D; p++) {
        if (p != a) us += cost_between(machine, t, device, p, a) + cost_between(machine, t, device, a, p);
        if (p != a && p != b) us += cost_between(machine, t, device, p, b) + cost_between(machine, t, device, b, p);
    }
    return us;
}

static bool links_are_alike(const stw_machine *machine) {
    const stw_link *first = NULL;
    for (int32_t a = 0; a < machine->device_count; a++) {
        for (int32_t b = 0; b < machine->device_count; b++) {
            const stw_link *link = stw_machine_link(machine, a, b);
            if (a == b) continue;
            if (first == NULL) first = link;
            if (!stw_link_equal(link, first)) return false;
        }
    }
    return true;
}

/* Exchanges pairs as long as that helps. */
static void improve(const stw_machine *machine, const traffic *t, int32_t *device) {
    enum { MOST_ROUNDS = 20 };
    bool better = true;
    for (int round = 0; round < MOST_ROUNDS && better; round++) {
        better = false;
        for (int32_t a = 0; a < t->D; a++) {
            for (int32_t b = a + 1; b < t->D; b++) {
                const int32_t x = device[a], y = device[b];
                if (machine->device[x].cost_class != machine->device[y].cost_class) continue;
                const double before = cost_of_two(machine, t, device, a, b);
                device[a] = y;
                device[b] = x;
                if (cost_of_two(machine, t, device, a, b) < before * (1.0 - 1e-9)) {
                    better = true;
                } else {
                    device[a] = x;
                    device[b] = y;
                }
            }
        }
    }
}

stw_status stw_metis_map(const stw_simulator *simulator, const stw_units *units, const int32_t *part, const stw_device_set *set,
                         int32_t *device, stw_arena scratch, stw_error *error) {
    const stw_machine *machine = simulator->machine;
    bool taken[STW_MAX_DEVICES] = {false};
    traffic t = {.D = machine->device_count};
    int32_t next = set->count;
    for (int32_t p = 0; p < set->count; p++) taken[device[p] = set->device[p]] = true;
    for (int32_t d = 0; d < machine->device_count; d++) { /* parts with nothing in them hold the free devices */
        if (!taken[d]) device[next++] = d;
    }
    if (links_are_alike(machine)) return STW_OK;
    TRY(measure(simulator->graph, units, part, &scratch, &t, error));
    improve(machine, &t, device);
    return STW_OK;
}

/* ---- the method ---- */

typedef enum { RECURSIVE, AT_ONCE, VOLUME } algorithm;
typedef enum { FINE, COARSE } size; /* of units: what must be together, or about a thousand in all */

typedef struct {
    stw_net_shape shape;
    double latency; /* how much a transfer's latency counts */
    double exponent;
    double imbalance;
    int32_t windows;
    algorithm algorithm;
    size size;
    double glue;      /* what costs more than this share of a part's time is not cut; 0: anything may be */
    int32_t fraction; /* parts = devices / fraction */
} setting;

/* Found by trying 690 random ones on up to 22 pairs of graph and machine: about in the order in which each improved most on
 * the best of those above it. */
static const setting settings[] = {
    {STW_NET_STAR, 0.0, 1.0, 1.3, 2, RECURSIVE, FINE, 0.1, 1},     {STW_NET_STAR, 5.0, 1.0, 1.02, 5, RECURSIVE, FINE, 0.03, 1},
    {STW_NET_STAR, 0.0, 1.0, 1.1, 2, AT_ONCE, FINE, 0.0, 1},       {STW_NET_STAR, 0.0, 1.0, 1.6, 1, RECURSIVE, FINE, 0.3, 1},
    {STW_NET_STAR, 0.0, 1.5, 1.1, 5, RECURSIVE, FINE, 0.03, 1},    {STW_NET_STAR, 5.0, 1.5, 1.3, 3, RECURSIVE, FINE, 0.3, 1},
    {STW_NET_SHARE, 0.0, 1.0, 1.1, 12, RECURSIVE, FINE, 0.0, 1},   {STW_NET_STAR, 1.0, 1.0, 1.02, 2, RECURSIVE, FINE, 0.0, 1},
    {STW_NET_PATH, 0.0, 1.0, 1.6, 2, RECURSIVE, FINE, 0.0, 1},     {STW_NET_STAR, 0.0, 1.0, 1.02, 5, AT_ONCE, FINE, 0.0, 1},
    {STW_NET_SHARE, 1.0, 1.0, 1.02, 3, AT_ONCE, FINE, 0.0, 1},     {STW_NET_SHARE, 1.0, 1.5, 1.02, 5, RECURSIVE, COARSE, 0.1, 1},
    {STW_NET_STAR, 0.0, 1.5, 1.03, 6, RECURSIVE, FINE, 0.0, 1},    {STW_NET_PATH, 0.0, 1.0, 1.3, 5, RECURSIVE, FINE, 0.1, 1},
    {STW_NET_PATH, 5.0, 1.0, 1.1, 1, RECURSIVE, COARSE, 0.3, 1},   {STW_NET_STAR, 5.0, 1.0, 1.02, 3, RECURSIVE, FINE, 0.1, 1},
    {STW_NET_SHARE, 1.0, 1.0, 1.02, 2, RECURSIVE, COARSE, 0.0, 1}, {STW_NET_SHARE, 0.0, 0.7, 1.01, 2, RECURSIVE, FINE, 0.0, 1},
    {STW_NET_STAR, 0.0, 1.5, 1.3, 2, AT_ONCE, FINE, 0.0, 1},       {STW_NET_STAR, 5.0, 1.0, 1.3, 2, RECURSIVE, COARSE, 0.3, 1},
    {STW_NET_STAR, 5.0, 1.5, 1.03, 6, AT_ONCE, FINE, 0.0, 1},      {STW_NET_STAR, 0.0, 1.0, 1.3, 3, RECURSIVE, FINE, 0.0, 1},
    {STW_NET_SHARE, 5.0, 1.0, 1.3, 16, RECURSIVE, COARSE, 0.0, 1}, {STW_NET_SHARE, 5.0, 0.7, 1.03, 12, RECURSIVE, FINE, 0.0, 1},
    {STW_NET_STAR, 0.0, 1.5, 1.6, 2, RECURSIVE, FINE, 0.01, 1},    {STW_NET_STAR, 1.0, 0.7, 1.6, 1, RECURSIVE, FINE, 0.01, 1},
    {STW_NET_STAR, 1.0, 1.0, 1.3, 5, RECURSIVE, COARSE, 0.0, 1},   {STW_NET_SHARE, 1.0, 1.0, 1.02, 1, RECURSIVE, COARSE, 0.0, 1},
    {STW_NET_STAR, 5.0, 1.0, 1.02, 2, RECURSIVE, FINE, 0.0, 1},    {STW_NET_STAR, 0.0, 1.0, 1.02, 2, RECURSIVE, COARSE, 0.03, 1},
    {STW_NET_PATH, 5.0, 1.5, 2.0, 3, RECURSIVE, FINE, 0.0, 1},     {STW_NET_SHARE, 1.0, 0.7, 1.1, 3, AT_ONCE, FINE, 0.0, 1},
    {STW_NET_STAR, 0.0, 0.7, 1.3, 1, RECURSIVE, FINE, 0.1, 1},     {STW_NET_SHARE, 5.0, 1.0, 1.02, 5, VOLUME, FINE, 0.0, 1},
    {STW_NET_PATH, 0.0, 1.0, 1.02, 1, RECURSIVE, FINE, 0.1, 1},    {STW_NET_STAR, 1.0, 0.7, 1.3, 2, RECURSIVE, COARSE, 0.01, 1},
    {STW_NET_STAR, 1.0, 1.0, 1.6, 5, RECURSIVE, FINE, 0.03, 1},    {STW_NET_STAR, 1.0, 1.0, 1.6, 2, RECURSIVE, FINE, 0.0, 2},
    {STW_NET_STAR, 0.0, 1.0, 1.3, 5, RECURSIVE, COARSE, 0.3, 1},   {STW_NET_STAR, 5.0, 1.0, 1.3, 3, RECURSIVE, COARSE, 0.0, 2},
};
enum { SETTING_COUNT = sizeof settings / sizeof settings[0] };

typedef struct {
    const setting *setting;
    const stw_device_set *set;
    int32_t parts;
    int32_t seed;
} variant;

typedef struct { /* of one level of units; M units */
    const stw_units *units;
    double *work;   /* (M) share of the graph's work */
    double *bytes;  /* (M) memory */
    double *end_us; /* (M) time from the unit to the end of the step, by work */
} vertices;

typedef struct {
    const stw_simulator *simulator;
    stw_pool *pool;
    stw_metis_copies *copies;
    stw_unit_levels levels;
    vertices fine, coarse;
    stw_device_set set[STW_MAX_DEVICE_SETS];
    bool tight; /* memory may be short */
    int32_t count;
    variant variant[STW_MAX_DEVICE_SETS * SETTING_COUNT]; /* (count) the most promising first */
} context;

/* ---- vertices ---- */

/* Work counts relative to the whole on the same kind of device, so that kinds that differ a hundredfold weigh alike. */
static void add_work(const stw_costs *costs, const stw_device_set *set, vertices *v) {
    const stw_graph *graph = costs->graph;
    for (int32_t place = 0; place < set->count; place++) {
        const double *us = costs->us[costs->machine->device[set->device[place]].cost_class];
        for (int32_t k = 0; k < graph->op_count; k++) {
            const int32_t op = graph->topological[k];
            v->work[v->units->of[op]] += us[op] * set->speed[place] / set->count;
        }
    }
}

/* When a unit runs, counted from the end: the mean of its ops' ranks. */
static stw_status find_ends(const stw_simulator *s, stw_arena scratch, vertices *v, stw_error *error) {
    const stw_tasks *tasks = &s->unfused;
    double *rank;
    STW_TRY_NEW(&scratch, rank, tasks->T, error);
    stw_rule_upward_ranks(s->costs, tasks, NULL, rank);
    for (int32_t u = 0; u < v->units->count; u++) {
        double sum = 0.0;
        int32_t ops = 0;
        for (int32_t m = v->units->start[u]; m < v->units->start[u + 1]; m++) {
            const int32_t task = tasks->task_of[v->units->member[m]];
            if (task < 0) continue;
            sum += rank[task];
            ops++;
        }
        v->end_us[u] = ops > 0 ? sum / ops : 0.0;
    }
    return STW_OK;
}

static stw_status describe(const context *c, const stw_units *units, stw_arena *arena, vertices *out, stw_error *error) {
    const stw_graph *graph = c->simulator->graph;
    *out = (vertices){.units = units};
    STW_TRY_NEW(arena, out->work, units->count, error);
    STW_TRY_NEW(arena, out->bytes, units->count, error);
    STW_TRY_NEW(arena, out->end_us, units->count, error);
    add_work(c->simulator->costs, &c->set[0], out);
    for (int32_t m = 0; m < units->start[units->count]; m++) {
        const int32_t node = units->member[m];
        if (graph->updates[node] < 0) out->bytes[units->of[node]] += (double)graph->bytes[node];
    }
    return find_ends(c->simulator, *arena, out, error);
}

/* ---- constraints ---- */

typedef struct {
    double end_us, work;
    int32_t unit;
} moment;

static int compare_moments(const void *a, const void *b) {
    const moment *x = a, *y = b;
    if (x->end_us != y->end_us) return x->end_us > y->end_us ? -1 : 1;
    return x->unit < y->unit ? -1 : 1;
}

/* A constraint per window of time, each with the same work; and one for memory, if that is short. */
static stw_status weigh(const context *c, const vertices *v, int32_t windows, stw_arena *arena, stw_part_weights *out,
                        stw_error *error) {
    const int32_t M = v->units->count;
    double total = 0.0, so_far = 0.0;
    moment *moments;
    out->K = windows + (c->tight ? 1 : 0);
    STW_TRY_NEW(arena, out->weight, (int64_t)M * out->K, error);
    stw_arena scratch = *arena;
    STW_TRY_NEW(&scratch, moments, M, error);
    for (int32_t u = 0; u < M; u++) {
        moments[u] = (moment){v->end_us[u], v->work[u], u};
        total += v->work[u];
    }
    if (windows > 1) qsort(moments, (size_t)M, sizeof *moments, compare_moments);
    for (int32_t k = 0; k < M; k++) {
        const int32_t u = moments[k].unit;
        const int32_t window = total > 0.0 ? (int32_t)(windows * (so_far + 0.5 * v->work[u]) / total) : 0;
        out->weight[(int64_t)u * out->K + (window < windows ? window : windows - 1)] = v->work[u];
        if (c->tight) out->weight[(int64_t)u * out->K + windows] = v->bytes[u];
        so_far += v->work[u];
    }
    return STW_OK;
}

/* ---- a variant ---- */

/* Parts of vertices, which may be pieces that hold together. */
static stw_status divide_glued(const vertices *v, const stw_part_call *call, double dear, int32_t *part, stw_arena scratch,
                               stw_error *error) {
    const int32_t M = call->graph->M;
    int32_t *piece, *piece_part, pieces = 0;
    stw_part_graph graph;
    stw_part_weights weights;
    double largest = 0.0;
    for (int32_t p = 0; p < call->parts; p++) largest = fmax(largest, call->share[p]);
    STW_TRY_NEW(&scratch, piece, M, error);
    TRY(stw_part_graph_glue(call->graph, v->work, dear, largest * call->imbalance, &scratch, piece, &pieces, error));
    TRY(stw_part_graph_contract(call->graph, call->weights, piece, pieces, &scratch, &graph, &weights, error));
    STW_TRY_NEW(&scratch, piece_part, pieces, error);
    stw_part_call coarse = *call;
    coarse.graph = &graph;
    coarse.weights = &weights;
    TRY(stw_metis_partition(&coarse, piece_part, scratch, error));
    for (int32_t u = 0; u < M; u++) part[u] = piece_part[piece[u]];
    return STW_OK;
}

static stw_status divide(const context *c, const vertices *v, const variant *var, int32_t *part, stw_arena scratch,
                         stw_error *error) {
    const setting *how = var->setting;
    const stw_edge_cost edge_cost = {how->latency * var->set->link.fixed_us, &var->set->link, how->exponent, how->shape};
    stw_part_graph graph;
    stw_part_weights weights;
    double share[STW_MAX_DEVICES], speed = 0.0;
    TRY(stw_part_graph_build(c->simulator->graph, v->units, &edge_cost, &scratch, &graph, error));
    TRY(weigh(c, v, how->windows, &scratch, &weights, error));
    for (int32_t p = 0; p < var->parts; p++) speed += var->set->speed[p];
    for (int32_t p = 0; p < var->parts; p++) share[p] = var->set->speed[p] / speed;
    const stw_part_call call = {.graph = &graph,
                                .weights = &weights,
                                .parts = var->parts,
                                .share = share,
                                .imbalance = how->imbalance,
                                .recursive = how->algorithm == RECURSIVE,
                                .volume = how->algorithm == VOLUME,
                                .seed = var->seed,
                                .pool = c->pool,
                                .copies = c->copies};
    if (how->glue > 0.0) return divide_glued(v, &call, pow(how->glue / speed, how->exponent), part, scratch, error);
    return stw_metis_partition(&call, part, scratch, error);
}

static stw_status build(void *state, int32_t index, stw_plan *plan, stw_arena scratch, stw_error *error) {
    const context *c = state;
    const variant *var = &c->variant[index];
    const vertices *v = var->setting->size == COARSE ? &c->coarse : &c->fine;
    int32_t *unit_device, device[STW_MAX_DEVICES];
    STW_TRY_NEW(&scratch, unit_device, v->units->count, error);
    if (var->parts > 1 && v->units->count > 1) TRY(divide(c, v, var, unit_device, scratch, error));
    const stw_device_set set = stw_device_set_first(c->simulator->costs, var->set, var->parts);
    TRY(stw_metis_map(c->simulator, v->units, unit_device, &set, device, scratch, error));
    for (int32_t u = 0; u < v->units->count; u++) unit_device[u] = device[unit_device[u]];
    stw_units_expand(v->units, c->simulator->graph, unit_device, plan->device);
    return STW_OK;
}

/* ---- the method ---- */

static void list_variants(context *c, uint64_t seed) {
    const int32_t sets = stw_device_sets(c->simulator->costs, c->set);
    const stw_rng rng = stw_rng_create(seed);
    for (int32_t k = 0; k < SETTING_COUNT; k++) {
        for (int32_t s = 0; s < sets; s++) {
            const int32_t parts = c->set[s].count / settings[k].fraction;
            if (parts < 2 && (k > 0 || settings[k].fraction > 1)) continue; /* one part: nothing to choose */
            stw_rng own = stw_rng_split(&rng, (uint64_t)k);
            c->variant[c->count++] = (variant){&settings[k], &c->set[s], parts, (int32_t)stw_rng_below(&own, INT32_MAX)};
        }
    }
}

/* Everything that is ever made, held at once, against what the devices hold: far above the peak, but it needs no plan. */
static bool memory_is_tight(const stw_simulator *s) {
    double bytes = 0.0, memory = 0.0;
    for (int32_t i = 0; i < s->graph->N; i++) bytes += s->graph->kind[i] == STW_NODE_VIEW ? 0.0 : (double)s->graph->bytes[i];
    for (int32_t d = 0; d < s->machine->device_count; d++) memory += (double)s->machine->device[d].memory_bytes;
    return bytes > memory;
}

static stw_status prepare(context *c, const stw_search *search, stw_arena *arena, stw_error *error) {
    const stw_simulator *s = search->simulator;
    const int32_t wanted = search->unit_count > 0 ? search->unit_count : INT32_MAX /* off: every atom */;
    c->simulator = s;
    c->pool = search->pool;
    c->copies = search->metis_copies;
    list_variants(c, search->seed);
    c->tight = memory_is_tight(s);
    const double *us = s->costs->us[s->machine->device[c->set[0].device[0]].cost_class];
    TRY(stw_units_build(s->graph, us, &wanted, 1, arena, &c->levels, error));
    TRY(describe(c, &c->levels.level[0], arena, &c->fine, error));
    return describe(c, &c->levels.level[c->levels.count - 1], arena, &c->coarse, error);
}

static void write_note(const variant *var, char *note, size_t room) {
    const setting *how = var->setting;
    const double more = 100.0 * (how->imbalance - 1.0);
    if (how->windows > 1) {
        snprintf(note, room,
                 "%d parts with little between them, at most %.3g %% above even work in each of %d stretches of the step",
                 var->parts, more, how->windows);
    } else {
        snprintf(note, room, "%d parts with little between them, at most %.3g %% more work on one device than on average",
                 var->parts, more);
    }
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    stw_arena arena = search->arena;
    context c = {0};
    int32_t best = 0;
    if (!stw_metis_is_there())
        return stw_fail(error, STW_ERROR_NO_PLAN, "built without METIS; install libmetis-dev and build again");
    TRY(prepare(&c, search, &arena, error));
    const stw_variants variants = {.count = c.count, .build = build, .context = &c, .own_rule = STW_RULE_UPWARD_RANK};
    TRY(stw_search_variants(search, &variants, plan, &best, error));
    write_note(&c.variant[best], search->outcome.note, sizeof search->outcome.note);
    return STW_OK;
}

const stw_method stw_method_metis = {
    .name = "metis",
    .description = "parts of equal work with little between them, by METIS; the best of many settings",
    .kind = STW_METHOD_CONSTRUCTIVE,
    .traits = STW_METHOD_PLACES | STW_METHOD_VARIES,
    .op_s = 8e-6,
    .run = run};
