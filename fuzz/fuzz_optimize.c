/* Whole problems: whatever graph, machine and measured times the readers take goes through the search without a crash, and a plan
 * that comes out of it is valid when it is simulated by itself.
 *
 * The bytes of an input are drawn one by one: each chooses from a short list, so that a few bytes make a problem of odd sizes and
 * extreme numbers. The problem is written down as files are (JSON, CSV) and read by the readers. With STW_FUZZ_SHOW in the
 * environment it is printed, for whoever wants to see what an input stands for. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost/cost.h"
#include "fuzz.h"
#include "import/import.h"
#include "sim/sim.h"

enum { MOST_NODES = 24, MOST_DEVICES = 5, MOST_ROWS = 6 };

static void require(bool held) { /* not assert: it must hold in every build */
    if (!held) abort();
}

static bool shows(void) { return getenv("STW_FUZZ_SHOW") != NULL; }

/* ---- drawing ---- */

typedef struct bytes {
    const uint8_t *next, *end;
} bytes;

static uint32_t draw(bytes *b, uint32_t count) { return b->next < b->end ? *b->next++ % count : 0; }

#define DRAW_FROM(b, list) ((list)[draw((b), sizeof(list) / sizeof((list)[0]))])

/* Numbers of a sort: `usual` ones first, then the limits of what is taken, and what is not. One odd one spoils a whole problem,
 * so they are rare. */
typedef struct numbers {
    uint32_t usual, count;
    const char *number[20];
} numbers;

static const numbers times = {11, 20, {"1",    "2.5",  "40",   "0",    "1e-6", "3e-7", "1e3",   "1e6",   "1e9",         "1e10",
                                       "1e11", "9e11", "2e12", "1e12", "1e13", "1e16", "1e100", "1e308", "1.999999e12", "-1"}};
static const numbers amounts = {8,
                                11,
                                {"1024", "4", "0", "1", "1000000", "4000000000", "100000000000", "3000", /* FLOP, bytes */
                                 "100000000000000", "36028797018963968", "9223372036854775807"}};
static const numbers rates = {
    5, 10, {"1e12", "1e9", "1e6", "1e100", "67e12", "1", "0.001", "1e-9", "1e-100", "0"}}; /* per second */
static const numbers shares = {3, 6, {"1", "0.5", "1e-3", "1e-30", "1e-100", "0"}};

static const char *draw_number(bytes *b, const numbers *n) {
    const uint32_t byte = draw(b, 256);
    return n->number[byte < 232 ? byte % n->usual : byte % n->count];
}

/* ---- the problem as files ---- */

/* One draw per call: arguments of one call are drawn in an order that differs between compilers. */
static void put(FILE *out, const char *before, const char *value) { fprintf(out, "%s%s", before, value); }
static void put_index(FILE *out, const char *before, uint32_t value) { fprintf(out, "%s%u", before, value); }

static const char *const kinds[] = {"h200", "cpu8", "odd"};

/* Sources first, then what reads them; classes of every sort. */
static void write_node(FILE *out, bytes *b, uint32_t i) {
    static const char *const sources[] = {"input", "parameter", "buffer", "constant"};
    static const char *const ops[] = {"mul", "mm", "sum", "expand", "t", "embedding", "convolution", "topk", "unknown_op"};
    const uint32_t what = i == 0 ? 0 : draw(b, 8);
    const bool is_source = i == 0 || what == 7;
    fprintf(out, "%s{\"id\":%u,\"name\":\"n%u\",\"dtype\":\"f32\"", i > 0 ? ",\n" : "", i, i);
    put(out, ",\"shape\":[", draw_number(b, &amounts));
    put(out, "],\"op\":\"", is_source ? DRAW_FROM(b, sources) : DRAW_FROM(b, ops));
    fprintf(out, "\",\"inputs\":[");
    for (uint32_t k = 0, count = is_source ? 0 : 1 + draw(b, 3); k < count; k++)
        put_index(out, k > 0 ? "," : "", i - 1 - draw(b, i));
    fprintf(out, "]");
    if (what == 6) fprintf(out, ",\"view\":true");
    if (!is_source && what < 6) {
        if (what > 1) put(out, ",\"flops\":", draw_number(b, &amounts));
        if (what > 1) put(out, ",\"bytes\":", draw_number(b, &amounts));
        if (what > 2) put(out, ",\"us\":{\"", DRAW_FROM(b, kinds));
        if (what > 2) put(out, "\":", draw_number(b, &times));
        if (what > 2) fprintf(out, "}");
        if (what > 3) put_index(out, ",\"control\":[", draw(b, i));
        if (what > 3) fprintf(out, "]");
        if (what > 4) put(out, ",\"", draw(b, 2) == 0 ? "colocate" : "updates");
        if (what > 4) put_index(out, "\":", draw(b, i));
    }
    fprintf(out, "}");
}

static void write_graph(FILE *out, bytes *b) {
    const uint32_t count = 2 + draw(b, MOST_NODES - 1);
    fprintf(out, "{\"format\":\"opgraph\",\"version\":1,\"name\":\"drawn\",\"outputs\":[%u],\"nodes\":[", count - 1);
    for (uint32_t i = 0; i < count; i++) write_node(out, b, i);
    fprintf(out, "]}");
}

static void write_device(FILE *out, bytes *b, uint32_t d) {
    fprintf(out, "%s{\"name\":\"d%u\"", d > 0 ? ",\n" : "", d);
    put(out, ",\"kind\":\"", DRAW_FROM(b, kinds));
    put(out, "\",\"memory_bytes\":", draw(b, 3) > 0 ? "100000000000" : draw_number(b, &amounts));
    put(out, ",\"launch_us\":", draw_number(b, &times));
    put(out, ",\"bandwidth_bytes_per_s\":", draw_number(b, &rates));
    put(out, ",\"flops_per_s\":{\"f32\":", draw_number(b, &rates));
    put(out, "},\"efficiency\":{\"matmul\":", draw_number(b, &shares));
    put(out, ",\"elementwise\":", draw_number(b, &shares));
    put(out, "},\"fuses_epilogue\":[", draw(b, 2) == 0 ? "" : "\"matmul\",\"gather\"");
    fprintf(out, "]}");
}

static void write_link(FILE *out, bytes *b, uint32_t from, uint32_t to, bool on_bus) {
    fprintf(out, "{\"from\":\"d%u\",\"to\":\"d%u\"", from, to);
    put(out, ",\"bandwidth_bytes_per_s\":", draw_number(b, &rates));
    put(out, ",\"latency_us\":", draw_number(b, &times));
    fprintf(out, "%s}", on_bus && draw(b, 2) == 0 ? ",\"bus\":\"b\"" : "");
}

static void write_machine(FILE *out, bytes *b) {
    const uint32_t count = 1 + draw(b, MOST_DEVICES);
    const uint32_t sort = draw(b, 4); /* of its links: queues, none, through a host, on buses with gaps */
    fprintf(out, "{\"format\":\"machine\",\"version\":1,\"name\":\"drawn\",\"contention\":\"%s\",", sort == 1 ? "none" : "queue");
    if (sort == 2) fprintf(out, "\"host\":\"d0\",");
    fprintf(out, "\"devices\":[");
    for (uint32_t d = 0; d < count; d++) write_device(out, b, d);
    fprintf(out, "],\"links\":[");
    bool first = true;
    for (uint32_t k = 0; k < count * count; k++) {
        if (k / count == k % count || (sort == 3 && draw(b, 3) == 0)) continue;
        fprintf(out, "%s", first ? "" : ",\n");
        write_link(out, b, k / count, k % count, sort == 3);
        first = false;
    }
    fprintf(out, "]}");
}

static void write_costs(FILE *out, bytes *b) {
    for (uint32_t k = draw(b, MOST_ROWS + 1); k > 0; k--) {
        put_index(out, "n", draw(b, MOST_NODES));
        put(out, ",", DRAW_FROM(b, kinds));
        put(out, ",", draw_number(b, &times));
        fprintf(out, "\n");
    }
}

typedef struct text {
    char *p;
    size_t size;
} text;

static text write_part(bytes *b, void (*write)(FILE *out, bytes *b)) {
    text t = {0};
    FILE *out = open_memstream(&t.p, &t.size);
    require(out != NULL);
    write(out, b);
    require(fclose(out) == 0);
    if (shows()) fprintf(stderr, "%s\n\n", t.p);
    return t;
}

/* ---- reading it ---- */

typedef struct problem {
    text graph_text, machine_text, costs_text;
    stw_arena arena;
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_options *options;
} problem;

static stw_status read_costs(problem *p, stw_error *error) {
    stw_cost_rows rows = {0};
    TRY(stw_cost_csv_parse((stw_str){p->costs_text.p, (int64_t)p->costs_text.size}, &p->arena, &rows.row, &rows.count, error));
    return stw_costs_from_rows(p->graph, p->machine, rows.count > 0 ? &rows : NULL, true, &p->costs, error);
}

static stw_status read_all(problem *p, stw_error *error) {
    TRY(stw_graph_parse(p->graph_text.p, p->graph_text.size, "graph", NULL, &p->graph, error));
    TRY(stw_machine_parse(p->machine_text.p, p->machine_text.size, "machine", &p->machine, error));
    TRY(read_costs(p, error));
    return stw_simulator_create(p->costs, &p->simulator, error);
}

/* False: one of the readers refuses its part, with one line of reason. */
static bool open_problem(problem *p, bytes *b) {
    stw_error error = {0};
    *p = (problem){0};
    require(stw_arena_create(&p->arena, NULL) == STW_OK);
    p->graph_text = write_part(b, write_graph);
    p->machine_text = write_part(b, write_machine);
    p->costs_text = write_part(b, write_costs);
    if (read_all(p, &error) == STW_OK) return true;
    if (shows()) fprintf(stderr, "%s\n", error.message);
    require(error.status == STW_ERROR_INPUT && error.message[0] != '\0' && strchr(error.message, '\n') == NULL);
    return false;
}

static void close_problem(problem *p) {
    stw_options_destroy(p->options);
    stw_simulator_destroy(p->simulator);
    stw_costs_destroy(p->costs);
    stw_machine_destroy(p->machine);
    stw_graph_destroy(p->graph);
    stw_arena_destroy(&p->arena);
    free(p->graph_text.p);
    free(p->machine_text.p);
    free(p->costs_text.p);
}

/* ---- searching ---- */

typedef struct wish { /* the first bytes of an input */
    const char *evaluations, *objective, *tasks, *method;
    bool has_policy;
} wish;

static wish draw_wish(bytes *b) {
    static const char *const evaluations[] = {"40", "1", "7", "60"};
    static const char *const objectives[] = {"time", "memory", "throughput"};
    static const char *const tasks[] = {"placement,schedule,fusion", "placement,schedule", "placement", "schedule", "fusion"};
    static const char *const methods[] = {"optimize", "single", "spread", "topo",    "random", "etf",    "expert", "metis",
                                          "heft",     "sct",    "lean",   "balance", "steer",  "anneal", "exact"};
    wish w;
    w.evaluations = DRAW_FROM(b, evaluations);
    w.objective = DRAW_FROM(b, objectives);
    w.tasks = DRAW_FROM(b, tasks);
    w.method = DRAW_FROM(b, methods);                          /* all but those that learn, which takes long */
    if (strcmp(w.method, "balance") == 0) w.evaluations = "2"; /* each stands for thousands of moves */
    w.has_policy = draw(b, 256) == 255;
    return w;
}

static void set(problem *p, const char *name, const char *value) {
    require(stw_options_set(p->options, name, value, NULL) == STW_OK);
}

static void set_options(problem *p, const wish *w) {
    require(stw_options_create(&p->options, NULL) == STW_OK);
    set(p, "threads", "1");
    set(p, "decodes", "2");
    set(p, "evaluations", w->evaluations);
    set(p, "objective", w->objective);
    set(p, "tasks", w->tasks);
    if (!w->has_policy) set(p, "policy", "none"); /* it takes a hundred times as long as all the rest */
}

static bool is_done(stw_status status, const stw_error *error) {
    if (status != STW_OK) require(status == STW_ERROR_NO_PLAN || status == STW_ERROR_INPUT);
    if (status != STW_OK) require(error->message[0] != '\0' && strchr(error->message, '\n') == NULL);
    return status == STW_OK;
}

/* Of a search: its plan is valid, and no better than the bounds. */
static void check_plan(const problem *p, const stw_result *result) {
    const stw_plan *plan = stw_result_plan(result);
    stw_workspace *workspace;
    stw_evaluation found;
    if (plan == NULL) return;
    require(stw_workspace_create(p->simulator, &workspace, NULL) == STW_OK);
    require(stw_simulate(p->simulator, plan, workspace, &found, NULL) == STW_OK && found.reason == STW_VALID);
    require(isfinite(found.step_s) && found.step_s >= 0.0);
    const stw_bounds bounds = stw_result_bounds(result);
    require(bounds.plan_s <= found.step_s * (1.0 + 1e-9) && bounds.fusion_s <= found.step_s * (1.0 + 1e-9));
    stw_workspace_destroy(workspace);
}

static void search(problem *p, const wish *w) {
    stw_error error = {0};
    stw_result *result = NULL;
    set_options(p, w);
    if (shows()) fprintf(stderr, "%s for %s of %s\n", w->method, w->objective, w->tasks);
    const stw_status status = strcmp(w->method, "optimize") == 0
                                  ? stw_optimize(p->simulator, p->options, NULL, &result, &error)
                                  : stw_compare(p->simulator, w->method, p->options, NULL, &result, &error);
    if (is_done(status, &error)) check_plan(p, result);
    stw_result_destroy(result);
}

static bool run(const uint8_t *data, size_t size) {
    bytes b = {data, data + size};
    problem p;
    const wish w = draw_wish(&b);
    const bool taken = open_problem(&p, &b);
    if (taken) search(&p, &w);
    close_problem(&p);
    return taken;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    run(data, size);
    return 0;
}

int stw_fuzz_accepts(const uint8_t *data, size_t size) { return run(data, size); }
