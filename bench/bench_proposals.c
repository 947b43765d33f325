/* How well a scorer ranks the moves that annealing draws blindly, and what proposals take.
 *
 *     bench_proposals SCORER EVALUATIONS GRAPH MACHINE [GRAPH MACHINE ...]
 *
 * Prints a line of CSV for each: moves, how many of them helped, AUC of "it helped", the share of all gain that the eighth with
 * the highest scores has; and processor microseconds of an evaluation: of blind annealing, of the same while what each run shows
 * is kept, and with proposals. The start is what `heft` makes. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "method/anneal/proposals.h"
#include "method/method.h"
#include "plan/plan.h"
#include "pretrain/scorer_fit.h"

static void check(stw_status status, const stw_error *error) {
    if (status == STW_OK) return;
    fprintf(stderr, "bench_proposals: %s\n", error->message);
    exit(2);
}

static double processor_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct {
    stw_example *example; /* (room) */
    int64_t count, room;
} record;

static void hear(void *context, int32_t chain, const float *feature, double gain, bool proposed) {
    record *r = context;
    (void)chain;
    (void)proposed;
    if (r->count == r->room) return;
    stw_example *e = &r->example[r->count++];
    memcpy(e->feature, feature, sizeof e->feature);
    e->gain = (float)gain;
}

/* Processor seconds of the search. */
static double anneal(const stw_simulator *s, int64_t evaluations, const stw_proposals *proposals) {
    stw_error error;
    stw_arena arena, scratch;
    stw_pool *pool;
    stw_workspace *workspace;
    stw_plan *start, *plan;
    check(stw_arena_create(&arena, &error), &error);
    check(stw_arena_create(&scratch, &error), &error);
    check(stw_pool_create(1, &pool, &error), &error);
    check(stw_workspace_create(s, &workspace, &error), &error);
    check(stw_method_run("heft", s, NULL, &start, &error), &error);
    check(stw_plan_create(s->graph, s->machine, &plan, &error), &error);
    stw_search search = {.simulator = s,
                         .tasks = STW_TASK_PLACEMENT | STW_TASK_SCHEDULE,
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
                         .proposals = proposals};
    const double began_s = processor_s();
    check(stw_method_anneal.run(&search, plan, &error), &error);
    const double took_s = processor_s() - began_s;
    stw_plan_destroy(plan);
    stw_plan_destroy(start);
    stw_workspace_destroy(workspace);
    stw_pool_destroy(pool);
    stw_arena_destroy(&scratch);
    stw_arena_destroy(&arena);
    return took_s;
}

static int falling(const void *left, const void *right) {
    const float *a = left, *b = right;
    return (a[0] < b[0]) - (a[0] > b[0]);
}

/* What the best eighth has of all gain. */
static double share_of_best(const stw_scorer *scorer, const record *r) {
    float(*pair)[2] = malloc((size_t)(r->count + 1) * sizeof *pair); /* score, gain */
    double all = 0.0, best = 0.0;
    for (int64_t k = 0; k < r->count; k++) {
        pair[k][0] = stw_scorer_score(scorer, r->example[k].feature, NULL);
        pair[k][1] = r->example[k].gain;
        all += (double)r->example[k].gain;
    }
    qsort(pair, (size_t)r->count, sizeof *pair, falling);
    for (int64_t k = 0; k < r->count / 8; k++) best += (double)pair[k][1];
    free(pair);
    return best / all;
}

static void measure(const stw_scorer *scorer, int64_t evaluations, const char *path, const char *name) {
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_error error;
    check(stw_graph_open(path, NULL, &graph, &error), &error);
    check(stw_machine_open(name, &machine, &error), &error);
    check(stw_costs_create(graph, machine, NULL, &costs, &error), &error);
    check(stw_simulator_create(costs, &simulator, &error), &error);
    record r = {.room = evaluations, .example = malloc((size_t)evaluations * sizeof *r.example)};
    const double told_s = anneal(simulator, evaluations, &(stw_proposals){.tried = hear, .context = &r});
    const double blind_s = anneal(simulator, evaluations, &(stw_proposals){0});
    const double proposed_s = anneal(simulator, evaluations, &(stw_proposals){.scorer = scorer});
    float *score = malloc((size_t)evaluations * sizeof *score);
    int64_t helped = 0;
    for (int64_t k = 0; k < r.count; k++) helped += r.example[k].gain > 0.0f;
    printf("%s,%s,%d,%lld,%lld,%.4f,%.3f,%.3f,%.3f,%.3f\n", path, name, graph->op_count, (long long)r.count, (long long)helped,
           stw_scorer_auc(scorer, r.example, r.count, score), share_of_best(scorer, &r), 1e6 * blind_s / (double)evaluations,
           1e6 * told_s / (double)evaluations, 1e6 * proposed_s / (double)evaluations);
    fflush(stdout);
    free(score);
    free(r.example);
    stw_simulator_destroy(simulator);
    stw_costs_destroy(costs);
    stw_machine_destroy(machine);
    stw_graph_destroy(graph);
}

int main(int count, char **argument) {
    stw_scorer scorer;
    stw_error error;
    if (count < 5 || count % 2 == 0 || atoll(argument[2]) < 8) {
        fprintf(stderr, "usage: bench_proposals SCORER EVALUATIONS GRAPH MACHINE [GRAPH MACHINE ...]\n");
        return 2;
    }
    check(stw_scorer_read(argument[1], &scorer, &error), &error);
    printf("graph,machine,ops,moves,helped,auc,gain_of_best_eighth,blind_us,blind_with_sight_us,proposed_us\n");
    for (int k = 3; k < count; k += 2) measure(&scorer, atoll(argument[2]), argument[k], argument[k + 1]);
    return 0;
}
