/* Compares our simulator with SimGrid, a simulator that others wrote, on machines without contention.
 *
 *     simgrid_oracle [--json] [GRAPHS]        GRAPHS: the folder of the graphs, data/graphs by default
 *
 * Each case is evaluated here and replayed in SimGrid: an actor per device runs the device's ops in the order in which our
 * simulator ran them, a message is a transfer. Who sends what to whom is worked out from the graph once more, so that SimGrid
 * shares the graph, the costs and the plan with our simulator, but neither its tasks nor its event loop. Passed: the
 * steps and the ends of every op agree, transfers and their bytes are the same, and ours is the faster by the factor that the
 * case asks for. README.md says why SimGrid is set up as it is. */
#define _GNU_SOURCE /* memfd_create, MAP_ANONYMOUS */
#include <math.h>
#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>
#include <simgrid/semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/rng.h"
#include "method/method.h"
#include "sim/sim.h"

/* Shares of our step. The step may differ by 3 %; ends of single ops differ by rounding alone, and a wait that is left out may
 * show nowhere else. */
#define MAX_STEP_DIFFERENCE 0.03
#define MAX_OP_DIFFERENCE   1e-4

enum { RANDOM_SEED = 1, WARM_UPS = 3, EVALUATIONS = 21, REPLAYS = 5, REPLAY_LIMIT_S = 300 };

typedef struct {
    const char *graph;   /* a file, or "made": see make_graph */
    const char *machine; /* a built-in one, its contention set to none */
    const char *plan;    /* a method, or "random" */
    double speed;        /* ours must be this many times as fast as SimGrid; 0: any */
} test_case;

static const test_case cases[] = {
    {"made", "0.1/h200x2", "random", 0.0},
    {"made", "0.1/h200x4-pcie", "random", 0.0},
    {"made", "0.1/cpu+h200x2", "random", 0.0},
    {"made", "0.1/h200x2+2", "random", 0.0},
    {"rnnlm-2", "0.1/h200x2", "spread", 0.0},
    {"rnnlm-2", "0.1/h200x2-pcie", "spread", 0.0},
    {"rnnlm-2", "0.1/h200x2", "random", 0.0},
    {"rnnlm-2", "0.1/h200x2-pcie", "random", 0.0},
    {"rnnlm-2", "0.1/cpu+h200x2", "random", 0.0},
    {"wavenet-2x9", "0.1/h200x2", "spread", 0.0},
    {"wavenet-2x9", "0.1/h200x2-pcie", "spread", 0.0},
    {"wavenet-2x9", "0.1/h200x2", "random", 0.0},
    {"wavenet-2x9", "0.1/h200x2-pcie", "random", 0.0},
    {"inception-v3-b32", "0.1/h200x2", "spread", 0.0},
    {"inception-v3-b32", "0.1/h200x2-pcie", "spread", 0.0},
    {"inception-v3-b32", "0.1/h200x2", "random", 0.0},
    {"inception-v3-b32", "0.1/h200x2-pcie", "random", 0.0},
    {"transformer-xl-4", "0.1/h200x4", "spread", 0.0},
    {"transformer-xl-4", "0.1/h200x4-pcie", "spread", 0.0},
    {"transformer-xl-4", "0.1/h200x4", "random", 0.0},
    {"transformer-xl-4", "0.1/h200x4-pcie", "random", 0.0},
    {"transformer-xl-4", "0.1/h200x2+2", "random", 0.0},
    {"gnmt-4", "0.1/h200x4", "spread", 0.0},
    {"gnmt-4", "0.1/h200x4-pcie", "spread", 0.0},
    {"rnnlm-8", "0.1/h200x8", "spread", 0.0},
    {"rnnlm-8", "0.1/h200x8-pcie", "spread", 0.0},
    {"gnmt-8", "0.1/h200x8", "spread", 50.0},
    {"gnmt-8", "0.1/h200x8-pcie", "spread", 50.0},
};
enum { CASE_COUNT = sizeof cases / sizeof cases[0] };

/* What a replay leaves behind, in memory that parent and child share. */
typedef struct {
    bool finished;   /* every op ran */
    char fault[200]; /* the replay broke a dependency; or empty */
    double wall_s;   /* of SimGrid's run alone: neither its start, nor the platform, nor the making of actors and mailboxes */
    double end_us[]; /* (N) end of each op */
} replay_outcome;

/* A transfer: one value, one device that reads it. */
typedef struct {
    int32_t value, to;
    int64_t bytes;
    sg_mailbox_t mailbox;
    sg_comm_t put; /* kept only if the value's update waits for it */
    sg_comm_t get;
    void *received;
    bool arrived;
} copy;

/* Simulated seconds are microseconds: SimGrid treats times closer than 1e-9 s as equal, and an op takes microseconds. */
typedef struct {
    const stw_graph *graph;
    const stw_machine *machine;
    const stw_costs *costs;
    const int32_t *device; /* (N) */
    int32_t **order;       /* (D) ops */
    int32_t *order_count;  /* (D) */
    int32_t *copy_start;   /* (N + 1) into copy, by value */
    copy *copy;
    int64_t copy_bytes;
    int32_t *waiter_start; /* (N + 1) into waiter: ops on other devices that wait for an op to finish */
    int32_t *waiter;
    int32_t *missing;   /* (N) ops on other devices that an op still waits for */
    sg_sem_t *released; /* (N) posted when `missing` comes to 0; NULL where it is 0 from the start */
    bool *done;         /* (N) */
    replay_outcome *outcome;
} replay;

static void die(const char *what, const char *message) {
    fprintf(stderr, "simgrid_oracle: %s: %s\n", what, message);
    exit(2);
}

static double now_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time); /* whatever else the machine does */
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int compare_doubles(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double median(double *numbers, int count) {
    qsort(numbers, (size_t)count, sizeof *numbers, compare_doubles);
    return numbers[count / 2];
}

/* ---- what is to be replayed ---- */

typedef struct {
    int32_t op, position; /* position in the graph's topological order */
    int64_t start_ps, end_ps;
} timed_op;

/* A total order that no dependency contradicts, ops of no duration included. */
static int compare_timed_ops(const void *left, const void *right) {
    const timed_op *a = left, *b = right;
    if (a->start_ps != b->start_ps) return a->start_ps < b->start_ps ? -1 : 1;
    if (a->end_ps != b->end_ps) return a->end_ps < b->end_ps ? -1 : 1;
    return a->position < b->position ? -1 : a->position > b->position;
}

static void list_orders(replay *r, const stw_timeline *timeline, stw_arena *arena) {
    const int32_t count = r->graph->op_count, D = r->machine->device_count;
    timed_op *ops = STW_NEW(arena, timed_op, count);
    r->order = STW_NEW(arena, int32_t *, D);
    r->order_count = STW_NEW(arena, int32_t, D);
    for (int32_t k = 0; k < count; k++) {
        const int32_t op = r->graph->topological[k], task = timeline->tasks->task_of[op];
        ops[k] = (timed_op){op, k, timeline->start_ps[task], timeline->end_ps[task]};
    }
    qsort(ops, (size_t)count, sizeof *ops, compare_timed_ops);
    for (int32_t d = 0; d < D; d++) r->order[d] = STW_NEW(arena, int32_t, count);
    for (int32_t k = 0; k < count; k++) {
        const int32_t d = r->device[ops[k].op];
        r->order[d][r->order_count[d]++] = ops[k].op;
    }
}

/* Rule 5: the whole value if it is read as such, else the sum of the distinct views, at most the whole. Readers are sorted by
 * view, the whole value first. */
static int64_t bytes_to(const replay *r, int32_t value, int32_t to) {
    const stw_graph *graph = r->graph;
    int64_t sum = -1; /* nobody reads it there */
    int32_t last = -2;
    for (int64_t k = graph->reader_start[value]; k < graph->reader_start[value + 1]; k++) {
        const int32_t view = graph->reader[k].view;
        if (r->device[graph->reader[k].node] != to || view == last) continue;
        if (view < 0) return graph->bytes[value];
        sum = (sum < 0 ? 0 : sum) + graph->bytes[view];
        last = view;
    }
    return sum < graph->bytes[value] ? sum : graph->bytes[value];
}

static void list_copies(replay *r, stw_arena *arena) {
    const stw_graph *graph = r->graph;
    r->copy_start = STW_NEW(arena, int32_t, (int64_t)graph->N + 1);
    r->copy = STW_NEW(arena, copy, graph->reader_start[graph->N]);
    int32_t count = 0;
    for (int32_t v = 0; v < graph->N; v++) {
        r->copy_start[v] = count;
        if (graph->kind[v] != STW_NODE_OP && !stw_node_is_resident(graph->kind[v])) continue;
        for (int32_t to = 0; to < r->machine->device_count; to++) {
            const int64_t bytes = to == r->device[v] ? -1 : bytes_to(r, v, to);
            if (bytes < 0) continue;
            r->copy[count++] = (copy){.value = v, .to = to, .bytes = bytes};
            r->copy_bytes += bytes;
        }
    }
    r->copy_start[graph->N] = count;
}

static void list_waiters(replay *r, stw_arena *arena) {
    const stw_graph *graph = r->graph;
    r->waiter_start = STW_NEW(arena, int32_t, (int64_t)graph->N + 2);
    r->waiter = STW_NEW(arena, int32_t, graph->wait_start[graph->N]);
    r->missing = STW_NEW(arena, int32_t, graph->N);
    for (int pass = 0; pass < 2; pass++) { /* counts two places ahead, then fills and so moves the starts into place */
        for (int32_t op = 0; op < graph->N; op++) {
            for (int64_t w = graph->wait_start[op]; w < graph->wait_start[op + 1]; w++) {
                const int32_t before = graph->wait[w];
                if (r->device[before] == r->device[op]) continue;
                if (pass == 0) {
                    r->waiter_start[before + 2]++;
                    r->missing[op]++;
                } else {
                    r->waiter[r->waiter_start[before + 1]++] = op;
                }
            }
        }
        for (int32_t i = 0; pass == 0 && i <= graph->N; i++) r->waiter_start[i + 1] += r->waiter_start[i];
    }
}

/* ---- SimGrid ---- */

static replay *running; /* actors get nothing but strings */

static void fault(int32_t op, int32_t before) {
    char *text = running->outcome->fault;
    if (text[0] != '\0') return;
    snprintf(text, sizeof running->outcome->fault, "op %d runs before op %d, which it needs, on the same device", op, before);
}

static void await_inputs(replay *r, int32_t op) {
    const stw_graph *graph = r->graph;
    const int32_t here = r->device[op];
    for (int64_t e = graph->read_start[op]; e < graph->read_start[op + 1]; e++) {
        const int32_t value = graph->read[e].node;
        if (stw_node_is_everywhere(graph->kind[value])) continue;
        if (r->device[value] == here) {
            if (graph->kind[value] == STW_NODE_OP && !r->done[value]) fault(op, value);
            continue;
        }
        copy *c = &r->copy[r->copy_start[value]];
        while (c->to != here) c++;
        if (c->arrived) continue;
        sg_comm_wait(c->get);
        c->arrived = true;
    }
}

/* Control edges and rule 7. */
static void await_others(replay *r, int32_t op) {
    const stw_graph *graph = r->graph;
    for (int64_t w = graph->wait_start[op]; w < graph->wait_start[op + 1]; w++) {
        const int32_t before = graph->wait[w];
        if (r->device[before] == r->device[op] && !r->done[before]) fault(op, before);
    }
    if (r->missing[op] > 0) sg_sem_acquire(r->released[op]);
    const int32_t updated = graph->updates[op];
    if (updated < 0) return;
    for (int32_t c = r->copy_start[updated]; c < r->copy_start[updated + 1]; c++) sg_comm_wait(r->copy[c].put);
}

static void send_value(replay *r, int32_t value) {
    const bool updated = r->graph->updated_by[value] >= 0;
    for (int32_t k = r->copy_start[value]; k < r->copy_start[value + 1]; k++) {
        copy *c = &r->copy[k];
        if (updated) {
            c->put = sg_mailbox_put_async(c->mailbox, c, c->bytes);
        } else {
            sg_comm_detach(sg_mailbox_put_init(c->mailbox, c, c->bytes), NULL);
        }
    }
}

static void run_device(int argc, char *argv[]) {
    replay *r = running;
    const int32_t here = argc == 2 ? atoi(argv[1]) : 0;
    /* A message travels once both sides have asked for it: receivers ask for all at time 0. */
    for (int32_t k = 0; k < r->copy_start[r->graph->N]; k++) {
        copy *c = &r->copy[k];
        if (c->to == here) c->get = sg_mailbox_get_async(c->mailbox, &c->received);
    }
    for (int32_t v = 0; v < r->graph->N; v++) {
        if (stw_node_is_resident(r->graph->kind[v]) && r->device[v] == here) send_value(r, v);
    }
    for (int32_t k = 0; k < r->order_count[here]; k++) {
        const int32_t op = r->order[here][k];
        await_inputs(r, op);
        await_others(r, op);
        sg_actor_execute(stw_costs_op_us(r->costs, op, here));
        r->outcome->end_us[op] = simgrid_get_clock();
        r->done[op] = true;
        send_value(r, op);
        for (int32_t w = r->waiter_start[op]; w < r->waiter_start[op + 1]; w++) {
            if (--r->missing[r->waiter[w]] == 0) sg_sem_release(r->released[r->waiter[w]]);
        }
    }
}

/* Hosts that do one unit of work per microsecond; a link per ordered pair, whose flows do not share it (FATPIPE). */
static void write_platform(const stw_machine *machine, FILE *file) {
    fputs("<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n", file);
    fputs("<platform version=\"4.1\">\n<zone id=\"machine\" routing=\"Full\">\n", file);
    const int32_t D = machine->device_count;
    for (int32_t d = 0; d < D; d++) fprintf(file, "<host id=\"d%d\" speed=\"1f\"/>\n", d);
    for (int pass = 0; pass < 2; pass++) { /* links before routes */
        for (int32_t pair = 0; pair < D * D; pair++) {
            const int32_t from = pair / D, to = pair % D;
            const stw_link *link = stw_machine_link(machine, from, to);
            if (from == to || !(link->bandwidth > 0.0)) continue;
            if (pass == 0) {
                fprintf(file, "<link id=\"l%d-%d\" bandwidth=\"%.17gBps\" latency=\"%.17gs\" sharing_policy=\"FATPIPE\"/>\n",
                        from, to, 1e-6 * link->bandwidth, link->latency_us);
            } else {
                fprintf(file, "<route src=\"d%d\" dst=\"d%d\" symmetrical=\"NO\"><link_ctn id=\"l%d-%d\"/></route>\n", from, to,
                        from, to);
            }
        }
    }
    fputs("</zone>\n</platform>\n", file);
}

/* SimGrid's C interface reads platforms from files; this one exists in memory only. */
static void load_platform(const stw_machine *machine) {
    char path[64];
    const int descriptor = memfd_create("platform", 0);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    if (file == NULL) die("platform", "cannot be written");
    write_platform(machine, file);
    if (fflush(file) != 0) die("platform", "cannot be written");
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    simgrid_load_platform(path);
    fclose(file);
}

static void prepare_simgrid(replay *r, stw_arena *arena) {
    char *argv[] = {"simgrid_oracle",
                    "--log=root.thresh:warning",
                    "--cfg=network/model:CM02",
                    "--cfg=network/crosstraffic:0",
                    "--cfg=network/TCP-gamma:0",
                    NULL};
    int argc = (int)(sizeof argv / sizeof argv[0]) - 1;
    simgrid_init(&argc, argv);
    load_platform(r->machine);
    r->done = STW_NEW(arena, bool, r->graph->N);
    r->released = STW_NEW(arena, sg_sem_t, r->graph->N);
    for (int32_t op = 0; op < r->graph->N; op++) {
        if (r->missing[op] > 0) r->released[op] = sg_sem_init(0);
    }
    for (int32_t k = 0; k < r->copy_start[r->graph->N]; k++) {
        char name[32];
        snprintf(name, sizeof name, "%d-%d", r->copy[k].value, r->copy[k].to);
        r->copy[k].mailbox = sg_mailbox_by_name(name);
    }
    for (int32_t d = 0; d < r->machine->device_count; d++) {
        char host[32], number[16];
        snprintf(host, sizeof host, "d%d", d);
        snprintf(number, sizeof number, "%d", d);
        char *arguments[] = {host, number, NULL};
        sg_actor_create(host, sg_host_by_name(host), run_device, 2, arguments);
    }
}

/* SimGrid starts once per process, so a child does it. */
static void replay_in_child(replay *r, stw_arena *arena) {
    const pid_t child = fork();
    if (child < 0) die("fork", "failed");
    if (child == 0) {
        alarm(REPLAY_LIMIT_S);
        running = r;
        prepare_simgrid(r, arena);
        const double start = now_s();
        simgrid_run();
        r->outcome->wall_s = now_s() - start;
        int32_t done = 0;
        for (int32_t i = 0; i < r->graph->N; i++) done += r->done[i];
        r->outcome->finished = done == r->graph->op_count; /* it returns from a deadlock, too */
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child) die("waitpid", "failed");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) r->outcome->finished = false;
}

/* ---- a case ---- */

typedef struct {
    int32_t tasks, transfers;
    double ours_s, simgrid_s; /* simulated */
    double difference;        /* of the step, relative to ours */
    double op_difference;     /* largest distance between the two ends of one op, relative to our step */
    double ours_wall_s, simgrid_wall_s, ratio;
    char fault[300]; /* why the comparison fails, or empty */
    bool fast;       /* as fast as the case asks for */
} comparison;

static STW_PRINTF(2, 3) void set_fault(comparison *out, const char *format, ...) {
    if (out->fault[0] != '\0') return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out->fault, sizeof out->fault, format, arguments);
    va_end(arguments);
}

enum { MADE_PARAMETERS = 40, MADE_EARLY = 16, MADE_NODES = 400 }; /* the first ops update the first parameters */

typedef struct {
    stw_rng rng;
    FILE *file;
    int32_t next_updated;        /* parameters are updated in turn */
    int32_t updates[MADE_NODES]; /* the parameter that an op updates, or -1 */
    bool is_op[MADE_NODES];
    int64_t length[MADE_NODES];
} graph_maker;

static int32_t draw(graph_maker *m, int64_t bound) { return (int32_t)stw_rng_below(&m->rng, bound); }

/* Reads something recent and something older; the reader of an update reads the parameter as well. */
static void make_op(graph_maker *m, int32_t i, int32_t recent) {
    const bool early = i < MADE_PARAMETERS + MADE_EARLY;
    const bool updates = m->next_updated < MADE_PARAMETERS && (early || draw(m, 8) == 0);
    const int32_t parameter = early ? m->next_updated : m->updates[recent];
    const int32_t older = i - 1 - draw(m, i < 60 ? i : 60), before = draw(m, i), h200_us = 1 + draw(m, 40),
                  cpu_us = 1 + draw(m, 80);
    m->is_op[i] = true;
    fprintf(m->file, "\"op\":\"add\",\"inputs\":[%d,%d],\"us\":{\"h200\":%d,\"cpu8\":%d},", early ? parameter : recent,
            parameter >= 0 ? parameter : older, h200_us, cpu_us);
    if (m->is_op[before]) fprintf(m->file, "\"control\":[%d],", before);
    if (!updates) return;
    m->updates[i] = m->next_updated++;
    fprintf(m->file, "\"updates\":%d,", m->updates[i]);
}

static void make_node(graph_maker *m, int32_t i) {
    m->updates[i] = -1;
    m->length[i] = draw(m, 16) == 0 ? 0 : draw(m, 1 << draw(m, 22));
    fprintf(m->file, "%s{\"id\":%d,\"name\":\"n%d\",\"dtype\":\"f32\",", i == 0 ? "" : ",", i, i);
    if (i < MADE_PARAMETERS) {
        m->length[i] = draw(m, 1 << 22);
        fputs("\"op\":\"parameter\",\"inputs\":[],", m->file);
    } else {
        const int32_t recent = i - 1 - draw(m, 30);
        if (i < MADE_PARAMETERS + MADE_EARLY || draw(m, 10) > 0) {
            make_op(m, i, recent);
        } else {
            m->length[i] = m->length[recent] / 3;
            fprintf(m->file, "\"op\":\"slice\",\"view\":true,\"inputs\":[%d],", recent);
        }
    }
    const long long length = m->length[i];
    fprintf(m->file, "\"shape\":[%lld],\"bytes\":%lld}", length, 4 * length);
}

/* A graph with what the models lack: control edges, updates that come early and hold back what follows, values of no bytes.
 * The JSON text, in memory from malloc. */
static char *make_graph(size_t *size) {
    char *text;
    graph_maker m = {.rng = stw_rng_create(RANDOM_SEED), .file = open_memstream(&text, size)};
    if (m.file == NULL) die("made", "out of memory");
    fputs("{\"format\":\"opgraph\",\"version\":1,\"name\":\"made\",\"outputs\":[],\"nodes\":[", m.file);
    for (int32_t i = 0; i < MADE_NODES; i++) make_node(&m, i);
    fputs("]}", m.file);
    if (fclose(m.file) != 0) die("made", "out of memory");
    return text;
}

static stw_status open_graph(const test_case *c, const char *folder, stw_graph **out, stw_error *error) {
    if (strcmp(c->graph, "made") == 0) {
        size_t size;
        char *text = make_graph(&size);
        const stw_status status = stw_graph_parse(text, size, c->graph, NULL, out, error);
        free(text);
        return status;
    }
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.json.gz", folder, c->graph);
    return stw_graph_open(path, NULL, out, error);
}

/* Every op on a random device; parameters follow their update, else their first reader. */
static stw_status place_at_random(const stw_simulator *simulator, stw_plan **out, stw_error *error) {
    const stw_graph *graph = simulator->graph;
    stw_rng rng = stw_rng_create(RANDOM_SEED);
    TRY(stw_plan_create(graph, simulator->machine, out, error));
    for (int32_t k = 0; k < graph->op_count; k++) {
        (*out)->device[graph->topological[k]] = (int32_t)stw_rng_below(&rng, simulator->machine->device_count);
    }
    stw_plan_complete(simulator, *out);
    return stw_rule_apply(STW_RULE_TOPOLOGICAL, simulator->costs, &simulator->unfused, *out, (*out)->arena, error);
}

static double time_evaluations(const stw_simulator *simulator, const stw_plan *plan, stw_workspace *workspace,
                               stw_evaluation *out, stw_error *error) {
    double seconds[EVALUATIONS];
    for (int k = -WARM_UPS; k < EVALUATIONS; k++) {
        const double start = now_s();
        if (stw_simulate(simulator, plan, workspace, out, error) != STW_OK) die("simulate", error->message);
        if (k >= 0) seconds[k] = now_s() - start;
    }
    return median(seconds, EVALUATIONS);
}

static void compare(const replay *r, const stw_timeline *timeline, const stw_evaluation *ours, comparison *out) {
    double last_us = 0.0, farthest_us = 0.0;
    for (int32_t k = 0; k < r->graph->op_count; k++) {
        const int32_t op = r->graph->topological[k];
        const double end_us = r->outcome->end_us[op];
        last_us = fmax(last_us, end_us);
        farthest_us = fmax(farthest_us, fabs(end_us - 1e-6 * (double)timeline->end_ps[timeline->tasks->task_of[op]]));
    }
    out->simgrid_s = 1e-6 * last_us;
    out->difference = out->simgrid_s / ours->step_s - 1.0;
    out->op_difference = 1e-6 * farthest_us / ours->step_s;
    if (!(fabs(out->difference) <= MAX_STEP_DIFFERENCE)) set_fault(out, "the steps differ by %.3f %%", 100.0 * out->difference);
    if (!(out->op_difference <= MAX_OP_DIFFERENCE)) set_fault(out, "ends of an op differ by %.3f %%", 100.0 * out->op_difference);
    if (r->copy_start[r->graph->N] != ours->transfer_count || r->copy_bytes != ours->transfer_bytes) {
        set_fault(out, "our simulator has %d transfers of %lld bytes, the graph asks for %d of %lld", ours->transfer_count,
                  (long long)ours->transfer_bytes, r->copy_start[r->graph->N], (long long)r->copy_bytes);
    }
}

static void run_replays(replay *r, const stw_timeline *timeline, const stw_evaluation *ours, stw_arena *arena, comparison *out) {
    const size_t size = sizeof(replay_outcome) + (size_t)r->graph->N * sizeof(double);
    r->outcome = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r->outcome == MAP_FAILED) die("mmap", "failed");
    double seconds[REPLAYS];
    for (int k = 0; k < REPLAYS; k++) {
        memset(r->outcome, 0, size);
        replay_in_child(r, arena);
        seconds[k] = r->outcome->wall_s;
        if (!r->outcome->finished) {
            set_fault(out, "SimGrid does not come to an end with these orders");
            break;
        }
        if (r->outcome->fault[0] != '\0') set_fault(out, "%s", r->outcome->fault);
        compare(r, timeline, ours, out);
    }
    if (r->outcome->finished) out->simgrid_wall_s = median(seconds, REPLAYS);
    munmap(r->outcome, size);
}

static void run_case(const test_case *c, const char *folder, comparison *out) {
    stw_error error;
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_plan *plan;
    stw_workspace *workspace;
    stw_arena arena;
    if (stw_arena_create(&arena, &error) != STW_OK) die("arena", error.message);
    if (open_graph(c, folder, &graph, &error) != STW_OK) die("graph", error.message);
    if (stw_machine_open(c->machine, &machine, &error) != STW_OK) die("machine", error.message);
    machine->queues = false;
    if (stw_machine_finish(machine, &error) != STW_OK) die("machine", error.message);
    if (stw_costs_create(graph, machine, NULL, &costs, &error) != STW_OK) die("costs", error.message);
    if (stw_simulator_create(costs, &simulator, &error) != STW_OK) die("simulator", error.message);
    const stw_status planned = strcmp(c->plan, "random") == 0 ? place_at_random(simulator, &plan, &error)
                                                              : stw_method_run(c->plan, simulator, NULL, &plan, &error);
    if (planned != STW_OK) die("plan", error.message);
    if (stw_workspace_create(simulator, &workspace, &error) != STW_OK) die("workspace", error.message);

    stw_evaluation ours;
    out->ours_wall_s = time_evaluations(simulator, plan, workspace, &ours, &error);
    if (ours.reason != STW_VALID && ours.reason != STW_INVALID_MEMORY) die("plan", ours.message);
    const stw_timeline *timeline = &workspace->timeline;
    if (timeline->tasks->T != graph->op_count) die("plan", "has groups, which are not replayed");
    out->tasks = timeline->tasks->T;
    out->transfers = ours.transfer_count;
    out->ours_s = ours.step_s;

    replay r = {.graph = graph, .machine = machine, .costs = costs, .device = plan->device};
    list_orders(&r, timeline, &arena);
    list_copies(&r, &arena);
    list_waiters(&r, &arena);
    run_replays(&r, timeline, &ours, &arena, out);
    out->ratio = out->simgrid_wall_s / out->ours_wall_s;
    out->fast = out->ratio >= c->speed;

    stw_workspace_destroy(workspace);
    stw_plan_destroy(plan);
    stw_simulator_destroy(simulator);
    stw_costs_destroy(costs);
    stw_machine_destroy(machine);
    stw_graph_destroy(graph);
    stw_arena_destroy(&arena);
}

/* ---- output ---- */

static const char *verdict(const comparison *result) {
    if (result->fault[0] != '\0') return "FAILED";
    return result->fast ? "ok" : "TOO SLOW";
}

static void print_heading(void) {
    printf("%-17s %-12s %-7s %6s %9s | %12s %12s %11s %11s | %9s %11s %7s |\n", "graph", "machine", "plan", "tasks", "transfers",
           "our step ms", "SimGrid ms", "step diff %", "op diff %", "our us", "SimGrid us", "ratio");
}

static void print_row(const test_case *c, const comparison *result) {
    printf("%-17s %-12s %-7s %6d %9d | %12.6f %12.6f %11.1e %11.1e | %9.1f %11.1f %7.1f | %s\n", c->graph, c->machine, c->plan,
           result->tasks, result->transfers, 1e3 * result->ours_s, 1e3 * result->simgrid_s, 100.0 * result->difference,
           100.0 * result->op_difference, 1e6 * result->ours_wall_s, 1e6 * result->simgrid_wall_s, result->ratio,
           verdict(result));
    if (result->fault[0] != '\0') printf("    %s\n", result->fault);
    if (result->fault[0] == '\0' && !result->fast)
        printf("    our simulator must be at least %g times as fast as SimGrid here\n", c->speed);
}

static void write_number(stw_json_writer *w, const char *key, double value) {
    stw_json_write_key(w, key);
    stw_json_write_double(w, value);
}

static void write_text(stw_json_writer *w, const char *key, const char *text) {
    stw_json_write_key(w, key);
    stw_json_write_string(w, stw_str_of(text));
}

static void write_line(const test_case *c, const comparison *result) {
    stw_json_writer w;
    stw_json_writer_init(&w, stdout);
    stw_json_begin_object(&w);
    write_text(&w, "graph", c->graph);
    write_text(&w, "machine", c->machine);
    write_text(&w, "plan", c->plan);
    write_number(&w, "tasks", result->tasks);
    write_number(&w, "transfers", result->transfers);
    write_number(&w, "step_s", result->ours_s);
    write_number(&w, "simgrid_step_s", result->simgrid_s);
    write_number(&w, "difference_percent", 100.0 * result->difference);
    write_number(&w, "op_difference_percent", 100.0 * result->op_difference);
    write_number(&w, "wall_s", result->ours_wall_s);
    write_number(&w, "simgrid_wall_s", result->simgrid_wall_s);
    write_number(&w, "ratio", result->ratio);
    write_number(&w, "ratio_wanted", c->speed);
    write_text(&w, "verdict", verdict(result));
    write_text(&w, "fault", result->fault);
    stw_json_end_object(&w);
    puts("");
}

int main(int argc, char *argv[]) {
    const bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
    if (argc > 2 + json || (argc > 1 + json && argv[1 + json][0] == '-')) {
        fputs("usage: simgrid_oracle [--json] [GRAPHS]\n", stderr);
        return 2;
    }
    const char *folder = argc > 1 + json ? argv[1 + json] : "data/graphs";
    int passed = 0;
    if (!json) print_heading();
    for (int k = 0; k < CASE_COUNT; k++) {
        fflush(stdout); /* a child must not inherit what is not yet written */
        comparison result = {0};
        run_case(&cases[k], folder, &result);
        if (json) {
            write_line(&cases[k], &result);
        } else {
            print_row(&cases[k], &result);
        }
        passed += result.fault[0] == '\0' && result.fast;
    }
    fflush(stdout);
    fprintf(json ? stderr : stdout, "%d passed, %d failed\n", passed, CASE_COUNT - passed);
    return passed == CASE_COUNT ? 0 : 1;
}
