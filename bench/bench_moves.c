/* Plans per second that annealing tries on one core (those that it gives up early included), by processor time, on six graphs:
 * without and with charges, without and with fusion; moves are drawn blindly. The start of all is what `heft` makes; time and
 * plans are counted from the first round of the chains on.
 *
 *     bench_moves [--against PROGRAM] [--rounds N] [--share S] [ROW]
 *
 * With --against, the same program of another build makes the same runs in turn with this one, so that both meet the same
 * neighbours on the machine: the ratio is that of the least times of the rounds, and the plans that come out must be equal.
 * --share S makes S times as many evaluations. ROW makes one row only and prints its figures (this is what the rounds do), so
 * that it can be run under a profiler. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "method/method.h"
#include "plan/plan.h"
#include "search/fusing.h"

static const char *const graphs[][2] = {{"rnnlm-4", "h200x4"},          {"gnmt-4", "h200x4"},    {"transformer-xl-4", "h200x4"},
                                        {"inception-v3-b32", "h200x2"}, {"amoebanet", "h200x4"}, {"unet", "h200x2"}};
enum { GRAPHS = sizeof graphs / sizeof graphs[0], ROWS = 4 * GRAPHS };

typedef struct {
    const char *graph;
    char machine[32];
    bool charged, fuses;
} row;

/* Without fusion first, then with it. */
static row row_at(int index) {
    row r = {.graph = graphs[index / 2 % GRAPHS][0], .charged = index % 2 == 1, .fuses = index >= 2 * GRAPHS};
    snprintf(r.machine, sizeof r.machine, "%s%s", r.charged ? "" : "0.1/", graphs[index / 2 % GRAPHS][1]);
    return r;
}

typedef struct {
    long long evaluations;
    double seconds;          /* of the processor */
    unsigned long long plan; /* a hash of the plan that comes out */
} figures;

static void check(stw_status status, const stw_error *error) {
    if (status == STW_OK) return;
    fprintf(stderr, "bench_moves: %s\n", error->message);
    exit(2);
}

static double processor_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static unsigned long long hash_bytes(unsigned long long hash, const void *bytes, size_t count) {
    for (size_t k = 0; k < count; k++) hash = (hash ^ ((const unsigned char *)bytes)[k]) * 1099511628211ULL;
    return hash;
}

static unsigned long long hash_plan(const stw_plan *plan) {
    const size_t N = (size_t)plan->graph->N;
    unsigned long long hash = hash_bytes(14695981039346656037ULL, plan->device, N * sizeof *plan->device);
    hash = hash_bytes(hash, plan->priority, N * sizeof *plan->priority);
    return hash_bytes(hash, plan->group, N * sizeof *plan->group);
}

/* ---- one row ---- */

typedef struct { /* when the first round began */
    const stw_search *search;
    double processor_s;
    long long evaluations;
} beginning;

static void on_tick(void *context) {
    beginning *b = context;
    if (b->processor_s > 0.0) return;
    b->processor_s = processor_s();
    b->evaluations = (long long)atomic_load(&b->search->evaluations);
}

static figures anneal(const stw_simulator *s, bool fuses, int64_t evaluations) {
    stw_error error;
    stw_arena arena, scratch;
    stw_pool *pool;
    stw_workspace *workspace;
    stw_plan *start, *plan;
    stw_fusing fusing = {0};
    check(stw_arena_create(&arena, &error), &error);
    check(stw_arena_create(&scratch, &error), &error);
    check(stw_pool_create(1, &pool, &error), &error);
    check(stw_workspace_create(s, &workspace, &error), &error);
    check(stw_method_run("heft", s, NULL, &start, &error), &error);
    check(stw_plan_create(s->graph, s->machine, &plan, &error), &error);
    if (fuses) check(stw_fusing_open(s, -1, STW_FUSION_DEFAULT, 1, NULL, &arena, &fusing, &error), &error);
    const stw_policy_settings blindly = {.no_proposals = true};
    stw_search search = {.simulator = s,
                         .tasks = STW_TASK_PLACEMENT | STW_TASK_SCHEDULE | (fuses ? STW_TASK_FUSION : 0u),
                         .rule = -1,
                         .seed = 1,
                         .unit_count = 512,
                         .budget = {.evaluations = evaluations},
                         .pool = pool,
                         .workspace = &workspace,
                         .scratch = &scratch,
                         .arena = arena,
                         .start = (const stw_plan *const *)&start,
                         .start_count = 1,
                         .policy = &blindly,
                         .fusing = fuses ? &fusing : NULL,
                         .tick = on_tick};
    beginning first = {.search = &search};
    search.watch_context = &first;
    check(stw_method_anneal.run(&search, plan, &error), &error);
    const figures out = {(long long)atomic_load(&search.evaluations) - first.evaluations, processor_s() - first.processor_s,
                         hash_plan(plan)};
    if (fuses) stw_fusing_close(&fusing);
    stw_plan_destroy(plan);
    stw_plan_destroy(start);
    stw_workspace_destroy(workspace);
    stw_pool_destroy(pool);
    stw_arena_destroy(&scratch);
    stw_arena_destroy(&arena);
    return out;
}

static figures measure(const row *r, double share) {
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_error error;
    char path[1024];
    snprintf(path, sizeof path, "data/graphs/%s.json.gz", r->graph);
    check(stw_graph_open(path, NULL, &graph, &error), &error);
    check(stw_machine_open(r->machine, &machine, &error), &error);
    check(stw_costs_create(graph, machine, NULL, &costs, &error), &error);
    check(stw_simulator_create(costs, &simulator, &error), &error);
    const figures out = anneal(simulator, r->fuses, (int64_t)(share * (r->fuses ? 4e6 : 8e6) / graph->op_count) + 384);
    stw_simulator_destroy(simulator);
    stw_costs_destroy(costs);
    stw_machine_destroy(machine);
    stw_graph_destroy(graph);
    return out;
}

/* ---- all rows, against another build ---- */

static figures ask(const char *program, int index, double share) {
    char command[2048];
    figures out = {0};
    snprintf(command, sizeof command, "'%s' --share %g %d", program, share, index);
    FILE *answer = popen(command, "r");
    if (answer == NULL || fscanf(answer, "%lld %lf %llx", &out.evaluations, &out.seconds, &out.plan) != 3) {
        fprintf(stderr, "bench_moves: '%s' gave no answer\n", command);
        exit(2);
    }
    pclose(answer);
    return out;
}

/* Returns how many times as fast this program is as the other; 1 if there is none. */
static double compare(const char *program, const char *other, int index, int rounds, double share) {
    const row r = row_at(index);
    double least[2] = {HUGE_VAL, HUGE_VAL};
    figures last[2] = {0};
    for (int k = 0; k < rounds; k++) {
        for (int which = other == NULL; which < 2; which++) { /* the other build first */
            last[which] = ask(which == 0 ? other : program, index, share);
            least[which] = fmin(least[which], last[which].seconds);
        }
    }
    const double plans = (double)last[1].evaluations;
    printf("%-18s %-16s %-8s %9.0f %10.0f", r.graph, r.machine, r.fuses ? "fused" : "unfused", plans, plans / least[1]);
    if (other != NULL)
        printf(" %10.0f %7.3f%s", plans / least[0], least[0] / least[1], last[0].plan == last[1].plan ? "" : "  OTHER PLAN");
    printf("\n");
    fflush(stdout);
    return other == NULL ? 1.0 : least[0] / least[1];
}

static void compare_all(const char *program, const char *other, int rounds, double share) {
    double sum[2] = {0.0, 0.0};
    printf("%-18s %-16s %-8s %9s %10s", "graph", "machine", "tasks", "plans", "plans/s");
    printf(other == NULL ? "\n" : " %10s %7s\n", "before", "ratio");
    for (int index = 0; index < ROWS; index++) sum[index >= ROWS / 2] += compare(program, other, index, rounds, share);
    if (other != NULL) printf("mean ratio: %.3f unfused, %.3f fused\n", 2.0 * sum[0] / ROWS, 2.0 * sum[1] / ROWS);
}

int main(int count, char **argument) {
    const char *other = NULL;
    int rounds = 3, only = -1;
    double share = 1.0;
    for (int k = 1; k < count; k++) {
        if (strcmp(argument[k], "--against") == 0 && k + 1 < count) {
            other = argument[++k];
        } else if (strcmp(argument[k], "--rounds") == 0 && k + 1 < count) {
            rounds = atoi(argument[++k]);
        } else if (strcmp(argument[k], "--share") == 0 && k + 1 < count) {
            share = atof(argument[++k]);
        } else if (argument[k][0] >= '0' && argument[k][0] <= '9' && atoi(argument[k]) < ROWS) {
            only = atoi(argument[k]);
        } else {
            fprintf(stderr, "usage: bench_moves [--against PROGRAM] [--rounds N] [--share S] [ROW, 0 to %d]\n", ROWS - 1);
            return 2;
        }
    }
    if (only < 0) {
        compare_all(argument[0], other, rounds, share);
        return 0;
    }
    const row r = row_at(only);
    const figures out = measure(&r, share);
    printf("%lld %.6f %llx\n", out.evaluations, out.seconds, out.plan);
    return 0;
}
