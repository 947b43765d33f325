/* Speed and memory of reading and simulating: a table for people, --json for programs. Absolute times are for orientation (the
 * machines are noisy); the ratios within one run count.
 *
 *     bench_sim [--json] [--seconds S] [--data DIR] */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/pool.h"
#include "base/rng.h"
#include "method/method.h"
#include "sim/sim.h"

static bool json_output;
static double seconds_per_case = 1.0;
static const char *data_folder = "data/graphs";

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(stw_status status, const stw_error *error) {
    if (status == STW_OK) return;
    fprintf(stderr, "bench_sim: %s\n", error->message);
    exit(2);
}

typedef struct {
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
} setting;

static void prepare(setting *s, const char *machine) {
    stw_error error;
    check(stw_machine_open(machine, &s->machine, &error), &error);
    check(stw_costs_create(s->graph, s->machine, NULL, &s->costs, &error), &error);
    check(stw_simulator_create(s->costs, &s->simulator, &error), &error);
}

static setting open_setting(const char *graph, const char *machine) {
    setting s;
    stw_error error;
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.json.gz", data_folder, graph);
    check(stw_graph_open(path, NULL, &s.graph, &error), &error);
    prepare(&s, machine);
    return s;
}

static void close_setting(setting *s) {
    stw_simulator_destroy(s->simulator);
    stw_costs_destroy(s->costs);
    stw_machine_destroy(s->machine);
    stw_graph_destroy(s->graph);
}

/* Every op on a device of its own choice; parameters with their update. */
static stw_plan *random_plan(const setting *s, uint64_t seed) {
    stw_error error;
    stw_plan *plan;
    stw_rng rng = stw_rng_create(seed);
    check(stw_plan_create(s->graph, s->machine, &plan, &error), &error);
    for (int32_t i = 0; i < s->graph->N; i++) plan->device[i] = (int32_t)stw_rng_below(&rng, s->machine->device_count);
    stw_plan_complete(s->simulator, plan);
    stw_arena scratch = plan->arena;
    check(stw_rule_apply(STW_RULE_TOPOLOGICAL, s->costs, &s->simulator->unfused, plan, scratch, &error), &error);
    return plan;
}

static stw_plan *spread_plan(const setting *s) {
    stw_error error;
    stw_plan *plan;
    check(stw_method_run("spread", s->simulator, NULL, &plan, &error), &error);
    return plan;
}

enum { PLANS = 16 };

/* Sixteen plans like `like`, each with one op in two hundred moved: a search never sees the same plan twice, and neither must the
 * processor's branch predictor. */
static void vary(const setting *s, const stw_plan *like, stw_plan *plans[PLANS]) {
    stw_error error;
    stw_rng rng = stw_rng_create(7);
    for (int k = 0; k < PLANS; k++) {
        check(stw_plan_create(s->graph, s->machine, &plans[k], &error), &error);
        for (int32_t i = 0; i < s->graph->N; i++) {
            plans[k]->device[i] =
                stw_rng_below(&rng, 200) == 0 ? (int32_t)stw_rng_below(&rng, s->machine->device_count) : like->device[i];
            plans[k]->priority[i] = like->priority[i];
        }
        stw_plan_complete(s->simulator, plans[k]);
    }
}

/* Seconds of one evaluation: the fastest round over all plans, that is, what the code can do when the machine lets it. */
static double time_evaluation(const setting *s, const stw_plan *like, stw_evaluation *result) {
    stw_error error;
    stw_workspace *workspace;
    stw_plan *plans[PLANS];
    check(stw_workspace_create(s->simulator, &workspace, &error), &error);
    vary(s, like, plans);
    double best = HUGE_VAL;
    const double stop = now_s() + seconds_per_case;
    for (int round = 0; round < 3 || now_s() < stop; round++) {
        const double start = now_s();
        for (int k = 0; k < PLANS; k++) check(stw_simulate(s->simulator, plans[k], workspace, result, &error), &error);
        best = fmin(best, (now_s() - start) / PLANS);
    }
    result->peak_bytes = result->busy_ps = NULL;
    for (int k = 0; k < PLANS; k++) stw_plan_destroy(plans[k]);
    stw_workspace_destroy(workspace);
    return best;
}

static void report_evaluations(void) {
    static const struct {
        const char *graph, *machine;
    } cases[] = {{"rnnlm-2", "0.1/h200x2"},          {"inception-v3-b32", "0.1/h200x2"}, {"wavenet-2x9", "0.1/h200x2"},
                 {"transformer-xl-4", "0.1/h200x4"}, {"gnmt-4", "0.1/h200x4"},           {"gnmt-8", "0.1/h200x8"}};
    if (!json_output)
        printf("%-18s %-8s %-8s %8s %10s %12s %10s\n", "graph", "machine", "plan", "ops", "transfers", "ms/evaluation", "ns/op");
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        setting s = open_setting(cases[k].graph, cases[k].machine);
        for (int random = 0; random < 2; random++) {
            stw_plan *plan = random ? random_plan(&s, 1) : spread_plan(&s);
            stw_evaluation result;
            const double seconds = time_evaluation(&s, plan, &result);
            printf(
                json_output
                    ? "{\"bench\":\"evaluation\",\"graph\":\"%s\",\"machine\":\"%s\",\"plan\":\"%s\",\"ops\":%d,\"transfers\":%d,"
                      "\"ms\":%.5f,\"ns_per_op\":%.1f}\n"
                    : "%-18s %-8s %-8s %8d %10d %12.4f %10.1f\n",
                cases[k].graph, cases[k].machine, random ? "random" : "spread", s.graph->op_count, result.transfer_count,
                1e3 * seconds, 1e9 * seconds / s.graph->op_count);
            stw_plan_destroy(plan);
        }
        close_setting(&s);
    }
}

/* ---- threads ---- */

typedef struct {
    const setting *s;
    const stw_plan *plan;
    stw_workspace **workspace;
} batch;

static void evaluate_one(void *context, int64_t index, int32_t worker) {
    (void)index;
    batch *b = context;
    stw_error error;
    stw_evaluation result;
    check(stw_simulate(b->s->simulator, b->plan, b->workspace[worker], &result, &error), &error);
}

static double evaluations_per_second(const setting *s, const stw_plan *plan, int32_t threads) {
    stw_error error;
    stw_pool *pool;
    check(stw_pool_create(threads, &pool, &error), &error);
    stw_workspace **workspace = calloc((size_t)threads, sizeof *workspace);
    for (int32_t k = 0; k < threads; k++) check(stw_workspace_create(s->simulator, &workspace[k], &error), &error);
    batch b = {s, plan, workspace};
    stw_pool_run(pool, 16, evaluate_one, &b);
    double best = 0.0;
    for (int round = 0; round < 5; round++) {
        const double start = now_s();
        int64_t count = 0;
        do {
            stw_pool_run(pool, 32, evaluate_one, &b);
            count += 32;
        } while (now_s() - start < 0.3 * seconds_per_case);
        best = fmax(best, (double)count / (now_s() - start));
    }
    for (int32_t k = 0; k < threads; k++) stw_workspace_destroy(workspace[k]);
    free(workspace);
    stw_pool_destroy(pool);
    return best;
}

static void report_threads(void) {
    setting s = open_setting("gnmt-2", "0.1/h200x4");
    stw_plan *plan = spread_plan(&s);
    const double one = evaluations_per_second(&s, plan, 1), two = evaluations_per_second(&s, plan, 2);
    printf(json_output
               ? "{\"bench\":\"threads\",\"graph\":\"gnmt-2\",\"per_second_1\":%.1f,\"per_second_2\":%.1f,\"ratio\":%.3f}\n"
               : "\nthreads: gnmt-2 on h200x4, spread: %.0f plans/s with 1 thread, %.0f with 2: %.2f times as many\n",
           one, two, two / one);
    stw_plan_destroy(plan);
    close_setting(&s);
}

/* ---- growth ---- */

/* Ops that nothing precedes: in a repeated graph they wait for the step before. */
static bool begins(const stw_graph *g, int32_t i) {
    if (g->kind[i] != STW_NODE_OP) return false;
    for (int64_t e = g->read_start[i]; e < g->read_start[i + 1]; e++) {
        if (g->kind[g->read[e].node] == STW_NODE_OP) return false;
    }
    return true;
}

/* The graph `copies` times over, as text. In a row: each step waits for the loss of the one before, as in a longer model. Side by
 * side: the steps know nothing of each other, so that the queues of ready ops grow as well. */
static stw_graph *repeat_graph(const stw_graph *g, int32_t copies, bool in_a_row) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    fputs("{\"format\":\"opgraph\",\"version\":1,\"name\":\"repeated\",\"outputs\":[", f);
    for (int32_t c = 0; c < copies; c++) {
        for (int32_t o = 0; o < g->output_count; o++) fprintf(f, "%s%d", c + o > 0 ? "," : "", c * g->N + g->output[o]);
    }
    fputs("],\"nodes\":[", f);
    for (int32_t c = 0; c < copies; c++) {
        for (int32_t i = 0; i < g->N; i++) {
            fprintf(f,
                    "%s{\"id\":%d,\"name\":\"n%d\",\"op\":\"%s\",\"dtype\":\"%s\",\"bytes\":%lld,\"flops\":%lld,\"view\":%s,"
                    "\"inputs\":[",
                    c + i > 0 ? "," : "", c * g->N + i, i, g->op_name[i].p, stw_dtype_name(g->dtype[i]), (long long)g->bytes[i],
                    (long long)g->flops[i], g->kind[i] == STW_NODE_VIEW ? "true" : "false");
            for (int64_t k = g->input_start[i]; k < g->input_start[i + 1]; k++) {
                fprintf(f, "%s%d", k > g->input_start[i] ? "," : "", c * g->N + g->input[k]);
            }
            fputs("],\"shape\":[", f);
            for (int64_t k = g->shape_start[i]; k < g->shape_start[i + 1]; k++)
                fprintf(f, "%s%lld", k > g->shape_start[i] ? "," : "", (long long)g->shape[k]);
            fputc(']', f);
            if (in_a_row && c > 0 && begins(g, i)) fprintf(f, ",\"control\":[%d]", (c - 1) * g->N + g->loss);
            if (g->updates[i] >= 0) fprintf(f, ",\"updates\":%d", c * g->N + g->updates[i]);
            if (!isnan(g->us[0][i])) fprintf(f, ",\"us\":{\"%s\":%.17g}", g->kind_name[0].p, g->us[0][i]);
            fputc('}', f);
        }
    }
    fputs("]}", f);
    fclose(f);
    stw_graph *graph;
    stw_error error;
    check(stw_graph_parse(text, size, "repeated", NULL, &graph, &error), &error);
    free(text);
    return graph;
}

static void report_growth(bool in_a_row, const char *machine) {
    static const int32_t copies[] = {1, 10, 103};
    const char *how = in_a_row ? "in a row" : "side by side";
    setting small = open_setting("gnmt-4", machine);
    double per_op[3];
    if (!json_output)
        printf("\ngrowth: gnmt-4 repeated %s, spread on %s\n%12s %14s %10s %28s\n", how, machine, "ops", "ms/evaluation", "ns/op",
               "time against 10x fewer ops");
    for (int k = 0; k < 3; k++) {
        setting s = {.graph = copies[k] == 1 ? small.graph : repeat_graph(small.graph, copies[k], in_a_row)};
        prepare(&s, machine);
        stw_plan *plan = spread_plan(&s);
        stw_evaluation result;
        const double seconds = time_evaluation(&s, plan, &result);
        per_op[k] = seconds / s.graph->op_count;
        const double growth = k == 0 ? 0.0 : 10.0 * per_op[k] / per_op[k - 1];
        printf(json_output ? "{\"bench\":\"growth\",\"repeated\":\"%s\",\"machine\":\"%s\",\"ops\":%d,\"ms\":%.4f,\"ns_per_op\":%"
                             ".1f,\"times_per_10x\":%.2f}\n"
                           : "%.0s%.0s%12d %14.3f %10.1f %28.2f\n",
               how, machine, s.graph->op_count, 1e3 * seconds, 1e9 * per_op[k], growth);
        stw_plan_destroy(plan);
        stw_simulator_destroy(s.simulator);
        stw_costs_destroy(s.costs);
        stw_machine_destroy(s.machine);
        if (s.graph != small.graph) stw_graph_destroy(s.graph);
    }
    close_setting(&small);
}

/* ---- reading ---- */

/* In a child, so that the peak memory is that of reading alone. */
static void report_reading(void) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        char path[1024];
        double best = HUGE_VAL;
        snprintf(path, sizeof path, "%s/gnmt-8.json.gz", data_folder);
        for (int round = 0; round < 5; round++) {
            stw_graph *graph;
            stw_error error;
            const double start = now_s();
            check(stw_graph_open(path, NULL, &graph, &error), &error);
            best = fmin(best, now_s() - start);
            stw_graph_destroy(graph);
        }
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        printf(json_output ? "{\"bench\":\"reading\",\"graph\":\"gnmt-8\",\"seconds\":%.4f,\"peak_mb\":%.1f}\n"
                           : "reading gnmt-8.json.gz: %.3f s, %.0f MB at most\n",
               best, (double)usage.ru_maxrss / 1024.0);
        fflush(stdout);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) exit(2);
}

int main(int argc, char **argv) {
    for (int k = 1; k < argc; k++) {
        if (strcmp(argv[k], "--json") == 0) {
            json_output = true;
        } else if (strcmp(argv[k], "--seconds") == 0 && k + 1 < argc) {
            seconds_per_case = atof(argv[++k]);
        } else if (strcmp(argv[k], "--data") == 0 && k + 1 < argc) {
            data_folder = argv[++k];
        } else {
            fprintf(stderr, "usage: bench_sim [--json] [--seconds S] [--data DIR]\n");
            return 2;
        }
    }
    report_reading();
    report_evaluations();
    report_threads();
    report_growth(true, "0.1/h200x8");
    report_growth(false, "0.1/h200x1");
    report_growth(false, "0.1/h200x8"); /* eight devices busy at once, which one step alone never has */
    return 0;
}
