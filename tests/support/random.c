#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "support/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "method/method.h"

static void die(const char *what, const char *why) {
    fprintf(stderr, "the test is wrong: %s: %s\n", what, why);
    exit(2);
}

static bool chance(stw_rng *rng, double share) { return stw_rng_uniform(rng) < share; }
static int32_t below(stw_rng *rng, int32_t bound) { return (int32_t)stw_rng_below(rng, bound); }

/* ---- graphs ---- */

enum { MAX_NODES = 400 };

typedef struct {
    stw_rng *rng;
    const random_shape *shape;
    FILE *file;
    int32_t count;
    int32_t bytes[MAX_NODES];
    bool updatable[MAX_NODES];
} grower;

static void put_head(grower *g, const char *op) {
    fprintf(g->file, "%s{'id':%d,'name':'n%d','op':'%s'", g->count > 0 ? "," : "", g->count, g->count, op);
}

static void put_shape(grower *g, int32_t bytes) {
    g->bytes[g->count] = bytes;
    fprintf(g->file, ",'dtype':'u8','shape':[%d]", bytes);
}

static int32_t some_bytes(grower *g) {
    if (g->shape->far) return chance(g->rng, 0.5) ? 1000 * below(g->rng, 500) : 1000 * below(g->rng, 64000);
    if (g->shape->model) return 1000 * below(g->rng, 4000);
    return chance(g->rng, 0.1) ? 0 : 1 + below(g->rng, 9);
}

/* An earlier node, mostly a late one; where tensors are large, often one of the first, which many read then. */
static int32_t earlier(grower *g) {
    if (g->shape->far && chance(g->rng, 0.3)) return below(g->rng, g->count < 2 ? g->count : 2);
    const int32_t recent = g->count < 6 ? g->count : 6;
    return chance(g->rng, 0.6) ? g->count - 1 - below(g->rng, recent) : below(g->rng, g->count);
}

static void add_source(grower *g) {
    static const char *const kinds[] = {"parameter", "parameter", "buffer", "input", "constant"};
    const int32_t kind = below(g->rng, 5);
    put_head(g, kinds[kind]);
    fputs(",'inputs':[]", g->file);
    put_shape(g, some_bytes(g));
    fputs("}", g->file);
    g->updatable[g->count++] = kind < 3;
}

static void add_view(grower *g) {
    const int32_t of = earlier(g), whole = g->bytes[of];
    put_head(g, "slice");
    fprintf(g->file, ",'inputs':[%d],'view':true", of);
    put_shape(g, chance(g->rng, 0.2) ? 3 * whole : whole > 0 ? below(g->rng, whole + 1) : 0);
    fputs("}", g->file);
    g->count++;
}

static void put_inputs(grower *g, int32_t first) {
    const int32_t count = g->count == 0 || (g->shape->wide && chance(g->rng, 0.9)) ? 0 : below(g->rng, 4);
    fputs(",'inputs':[", g->file);
    if (first >= 0) fprintf(g->file, count > 0 ? "%d," : "%d", first);
    for (int32_t k = 0; k < count; k++) fprintf(g->file, k > 0 ? ",%d" : "%d", earlier(g));
    fputs("]", g->file);
}

/* Measured times, mostly of all kinds; ties are frequent. */
static void put_times(grower *g) {
    static const int32_t times[] = {0, 1, 1, 2, 2, 3, 5, 8};
    if (g->shape->far) { /* times come later: see move_times */
        fprintf(g->file, ",'flops':%d", 100000 * below(g->rng, chance(g->rng, 0.5) ? 100 : 10000));
        return;
    }
    fprintf(g->file, ",'flops':%d", g->shape->model ? 100000 * below(g->rng, 10000) : below(g->rng, 100));
    if (g->shape->model && chance(g->rng, 0.6)) return;
    fprintf(g->file, ",'us':{'h200':%d", times[below(g->rng, 8)]);
    if (chance(g->rng, 0.8)) fprintf(g->file, ",'cpu8':%d", times[below(g->rng, 8)]);
    fputs("}", g->file);
}

static void add_op(grower *g) {
    static const char *const ops[] = {"relu", "add", "mul", "tanh", "detach", "sum", "cat", "mm", "convolution", "mystery"};
    put_head(g, ops[below(g->rng, g->shape->far && chance(g->rng, 0.7) ? 7 : 10)]); /* the first seven can fuse */
    put_inputs(g, -1);
    put_shape(g, some_bytes(g));
    put_times(g);
    if (!g->shape->plain && g->count > 0 && chance(g->rng, 0.1)) fprintf(g->file, ",'control':[%d]", below(g->rng, g->count));
    if (!g->shape->plain && g->count > 0 && chance(g->rng, 0.04)) fprintf(g->file, ",'colocate':%d", below(g->rng, g->count));
    fputs("}", g->file);
    g->count++;
}

/* An update of a parameter that has none yet; a plain op if there is no such parameter. */
static void add_update(grower *g) {
    int32_t parameter = g->count - 1;
    while (parameter >= 0 && !g->updatable[parameter]) parameter--;
    if (parameter < 0) {
        add_op(g);
        return;
    }
    g->updatable[parameter] = false;
    put_head(g, "add");
    put_inputs(g, chance(g->rng, 0.8) ? parameter : -1);
    put_shape(g, g->bytes[parameter]);
    put_times(g);
    fprintf(g->file, ",'updates':%d}", parameter);
    g->count++;
}

static char *grow(stw_rng *rng, const random_shape *shape) {
    char *text;
    size_t size;
    grower *g = calloc(1, sizeof *g);
    if (g == NULL || shape->nodes > MAX_NODES) die("random graph", "too large");
    g->rng = rng;
    g->shape = shape;
    g->file = open_memstream(&text, &size);
    while (g->count < shape->nodes) {
        const double roll = shape->plain ? 1.0 : stw_rng_uniform(rng);
        if (roll < 0.15 || (roll < 0.5 && g->count < shape->nodes / 5)) {
            add_source(g);
        } else if (roll < 0.3 && g->count > 0) {
            add_view(g);
        } else if (roll < 0.4) {
            add_update(g);
        } else {
            add_op(g);
        }
    }
    fclose(g->file);
    free(g);
    return text;
}

/* ---- machines ---- */

static const char *const epilogues[] = {"", ",'fuses_epilogue':['matmul']", ",'fuses_epilogue':['matmul','convolution']"};

/* Two kinds that have nothing in common with any device but their names. */
static char *list_odd_devices(stw_rng *rng, const random_shape *shape) {
    static const char *const shares[] = {"1", "1", "0.7", "0.3", "0.1"};
    char *text, *kind[2];
    size_t size;
    for (int k = 0; k < 2; k++) {
        FILE *file = open_memstream(&kind[k], &size);
        fprintf(file, "'kind':'%s','memory_bytes':1000000000000000,'launch_us':%s", k == 0 ? "h200" : "cpu8",
                chance(rng, 0.6) ? "0" : "0.5");
        fprintf(file, ",'flops_per_s':{'f32':%de12},'bandwidth_bytes_per_s':%de11,'efficiency':{", 1 + below(rng, 20),
                1 + below(rng, 20));
        fprintf(file, "'elementwise':%s,'reduce':%s,'shape':%s,", shares[below(rng, 5)], shares[below(rng, 5)],
                shares[below(rng, 5)]);
        fprintf(file, "'broadcast':0.1,'alias':0.1,'matmul':%s,'convolution':%s}%s", shares[below(rng, 5)], shares[below(rng, 5)],
                epilogues[below(rng, 3)]);
        fclose(file);
    }
    FILE *file = open_memstream(&text, &size);
    for (int32_t d = 0; d < shape->device_count; d++) fprintf(file, "{'name':'d%d',%s},", d, kind[shape->unlike && d % 2 == 1]);
    fclose(file);
    free(kind[0]);
    free(kind[1]);
    return text;
}

static char *list_devices(stw_rng *rng, const random_shape *shape) {
    char *text;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    const char *epilogue = epilogues[below(rng, 3)];
    for (int32_t d = 0; d < shape->device_count; d++) {
        const char *kind = shape->unlike && (d % 2 == 1 || chance(rng, 0.2)) ? "cpu8" : "h200";
        fprintf(file, "{'name':'d%d','kind':'%s'%s},", d, kind, epilogue);
    }
    fclose(file);
    return text;
}

static char *list_links(stw_rng *rng, const random_shape *shape) {
    static const char *const rates[] = {"1e6", "1e6", "2e6", "5e5"};
    char *text;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    for (int32_t from = 0; from < shape->device_count; from++) {
        for (int32_t to = 0; to < shape->device_count; to++) {
            if (from == to) continue;
            const char *rate = shape->free_links            ? "1e90"
                               : shape->model || shape->far ? "1e11"
                                                            : rates[shape->buses ? below(rng, 4) : 0];
            fprintf(file, "{'from':'d%d','to':'d%d','bandwidth_bytes_per_s':%s,'latency_us':%d", from, to, rate,
                    shape->buses && !shape->free_links ? below(rng, 2) : 0);
            if (shape->buses && chance(rng, 0.7)) fprintf(file, ",'bus':'b%d'", below(rng, 2));
            if (shape->charges) fprintf(file, ",'send_us':%d,'receive_us':%d", below(rng, 3), below(rng, 3));
            fputs("},", file);
        }
    }
    fclose(file);
    return text;
}

/* Times that are the model's times a factor, which is another one for every op in half of the problems. */
static void move_times(stw_rng *rng, small *s) {
    const double factor = exp(4.0 * stw_rng_uniform(rng) - 2.0), spread = chance(rng, 0.5) ? 0.0 : 3.0 * stw_rng_uniform(rng);
    stw_error error;
    for (int32_t c = 0; c < s->machine->cost_class_count; c++) {
        for (int32_t i = 0; i < s->graph->N; i++) s->costs->us[c][i] *= factor * exp(spread * stw_rng_uniform(rng));
    }
    stw_workspace_destroy(s->workspace);
    stw_simulator_destroy(s->simulator);
    if (stw_simulator_create(s->costs, &s->simulator, &error) != STW_OK) die("simulator", error.message);
    if (stw_workspace_create(s->simulator, &s->workspace, &error) != STW_OK) die("workspace", error.message);
    small_run(s);
}

small *random_open(stw_rng *rng, random_shape shape) {
    char *nodes = grow(rng, &shape);
    char *devices = shape.far ? list_odd_devices(rng, &shape) : list_devices(rng, &shape);
    char *links = list_links(rng, &shape);
    char outputs[64] = "[]";
    if (!shape.plain && shape.nodes > 0) snprintf(outputs, sizeof outputs, "[%d,%d]", shape.nodes - 1, below(rng, shape.nodes));
    small *s = small_open((small_text){.nodes = nodes,
                                       .outputs = outputs,
                                       .devices = devices,
                                       .device_count = shape.device_count,
                                       .links = links,
                                       .contention = shape.contention});
    free(nodes);
    free(devices);
    free(links);
    if (shape.far) move_times(rng, s);
    return s;
}

/* ---- plans ---- */

void random_placement(stw_rng *rng, const stw_simulator *simulator, stw_plan *plan) {
    const int32_t D = simulator->machine->device_count;
    const double stay = stw_rng_uniform(rng);
    int32_t device = below(rng, D);
    for (int32_t i = 0; i < simulator->graph->N; i++) {
        if (!chance(rng, stay)) device = below(rng, D);
        plan->device[i] = device;
    }
    stw_plan_join(simulator, plan);
}

void random_priorities(stw_rng *rng, stw_plan *plan) {
    const int32_t few = 1 + below(rng, 6);
    for (int32_t i = 0; i < plan->graph->N; i++) plan->priority[i] = below(rng, few) - 2.5;
}

static bool groups_are_legal(const stw_simulator *simulator, const stw_plan *plan, stw_arena scratch) {
    stw_tasks room;
    const stw_tasks *tasks;
    stw_str reason;
    stw_error error;
    if (stw_simulator_tasks(simulator, plan, &scratch, &room, &tasks, &reason, &error) != STW_OK) die("groups", error.message);
    return reason.length == 0;
}

/* Recomputes an op, or joins its group with that of an op that reads it. */
static void change_groups(stw_rng *rng, const stw_graph *graph, int32_t *group) {
    const int32_t op = graph->topological[below(rng, graph->op_count)];
    const int64_t readers = graph->reader_start[op + 1] - graph->reader_start[op];
    if (readers == 0) return;
    const int32_t reader = graph->reader[graph->reader_start[op] + stw_rng_below(rng, readers)].node;
    const int32_t from = group[op], to = group[reader];
    if (from < 0 || to < 0 || chance(rng, 0.2)) {
        group[op] = -1;
        return;
    }
    for (int32_t i = 0; i < graph->N; i++) {
        if (group[i] == from) group[i] = to;
    }
}

int32_t random_groups(stw_rng *rng, const stw_simulator *simulator, stw_plan *plan, int32_t tries) {
    const stw_graph *graph = simulator->graph;
    const size_t size = (size_t)graph->N * sizeof *plan->group;
    stw_arena arena;
    stw_error error;
    int32_t *old = malloc(size + 1), legal = 0;
    if (old == NULL || stw_arena_create(&arena, &error) != STW_OK) die("groups", "out of memory");
    for (int32_t k = 0; k < tries && graph->op_count > 0; k++) {
        memcpy(old, plan->group, size);
        change_groups(rng, graph, plan->group);
        if (memcmp(old, plan->group, size) == 0) continue;
        if (groups_are_legal(simulator, plan, arena)) {
            legal++;
        } else {
            memcpy(plan->group, old, size);
        }
    }
    if (stw_plan_canonical_groups(plan, &error) != STW_OK) die("groups", error.message);
    stw_arena_destroy(&arena);
    free(old);
    return legal;
}

/* A random order in which all tasks could run. */
static void order_all(stw_rng *rng, const stw_tasks *tasks, stw_arena *arena, int32_t *out) {
    int32_t *pending = STW_NEW(arena, int32_t, tasks->T), *ready = STW_NEW(arena, int32_t, tasks->T), count = 0, done = 0;
    for (int32_t v = 0; v < tasks->V; v++) {
        if (tasks->value_task[v] < 0) continue;
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) pending[tasks->use[u].task]++;
    }
    for (int32_t w = 0; w < tasks->waiter_start[tasks->T]; w++) pending[tasks->waiter[w]]++;
    for (int32_t t = 0; t < tasks->T; t++) {
        if (pending[t] == 0) ready[count++] = t;
    }
    while (count > 0) {
        const int32_t k = below(rng, count), t = ready[k];
        ready[k] = ready[--count];
        out[done++] = t;
        for (int32_t o = tasks->output_start[t]; o < tasks->output_start[t + 1]; o++) {
            for (int32_t u = tasks->use_start[tasks->output[o]]; u < tasks->use_start[tasks->output[o] + 1]; u++) {
                if (--pending[tasks->use[u].task] == 0) ready[count++] = tasks->use[u].task;
            }
        }
        for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++) {
            if (--pending[tasks->waiter[w]] == 0) ready[count++] = tasks->waiter[w];
        }
    }
    if (done != tasks->T) die("orders", "the tasks form a cycle");
}

void random_orders(stw_rng *rng, const stw_simulator *simulator, stw_plan *plan) {
    stw_arena arena;
    stw_tasks room;
    const stw_tasks *tasks;
    stw_str reason;
    stw_error error;
    if (stw_arena_create(&arena, &error) != STW_OK) die("orders", error.message);
    stw_arena scratch = arena;
    if (stw_simulator_tasks(simulator, plan, &scratch, &room, &tasks, &reason, &error) != STW_OK) die("orders", error.message);
    if (reason.length > 0) die("orders", reason.p);
    int32_t *all = STW_NEW(&scratch, int32_t, tasks->T), *own = STW_NEW(&scratch, int32_t, tasks->T);
    order_all(rng, tasks, &scratch, all);
    for (int32_t d = 0; d < simulator->machine->device_count; d++) {
        int32_t count = 0;
        for (int32_t k = 0; k < tasks->T; k++) {
            const int32_t node = tasks->task_node[all[k]];
            if (plan->device[node] == d) own[count++] = node;
        }
        if (stw_plan_set_order(plan, d, own, count, &error) != STW_OK) die("orders", error.message);
    }
    stw_arena_destroy(&arena);
}

void remove_orders(stw_plan *plan) {
    for (int32_t d = 0; d < plan->machine->device_count; d++) {
        if (stw_plan_set_order(plan, d, NULL, -1, NULL) != STW_OK) die("orders", "a device is missing");
    }
}

void unfuse_and_free(stw_plan *plan) {
    for (int32_t i = 0; i < plan->graph->N; i++) plan->group[i] = plan->graph->kind[i] == STW_NODE_OP ? i : -1;
    remove_orders(plan);
}

/* ---- hashes ---- */

static uint64_t add(uint64_t hash, const void *data, size_t size) {
    const uint64_t part = stw_str_hash((stw_str){data, (int64_t)size});
    return (hash ^ part ^ size) * 0x9e3779b97f4a7c15u + (hash >> 29);
}

uint64_t hash_run(const stw_workspace *workspace, const stw_evaluation *result) {
    const stw_timeline *t = &workspace->timeline;
    const int64_t numbers[] = {result->reason, result->step_ps, result->transfer_count, result->transfer_bytes,
                               result->worst_peak_bytes};
    uint64_t hash = add(1, numbers, sizeof numbers);
    hash = add(hash, result->message, strlen(result->message));
    if (result->peak_bytes == NULL) return hash;
    const size_t T = (size_t)t->tasks->T, D = (size_t)workspace->simulator->machine->device_count;
    hash = add(hash, t->tasks->task_node, T * sizeof *t->tasks->task_node);
    hash = add(hash, t->device, T * sizeof *t->device);
    hash = add(hash, t->start_ps, T * sizeof *t->start_ps);
    hash = add(hash, t->end_ps, T * sizeof *t->end_ps);
    hash = add(hash, t->peak_bytes, D * sizeof *t->peak_bytes);
    hash = add(hash, t->peak_ps, D * sizeof *t->peak_ps);
    hash = add(hash, t->busy_ps, D * sizeof *t->busy_ps);
    for (int32_t k = 0; k < t->transfer_count; k++) { /* fields, since a struct may have gaps */
        const stw_transfer *x = &t->transfer[k];
        const int64_t fields[] = {x->producer, x->from, x->to, x->bytes, x->ready_ps, x->start_ps, x->end_ps};
        hash = add(hash, fields, sizeof fields);
    }
    for (int64_t k = 0; k < t->change_count; k++) {
        const int64_t fields[] = {t->change[k].time_ps, t->change[k].device, t->change[k].bytes};
        hash = add(hash, fields, sizeof fields);
    }
    return hash;
}
