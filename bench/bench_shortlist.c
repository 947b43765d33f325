/* What each variant of each method is worth as a first plan: the data that src/method/shortlist/shortlist.def is made of.
 *
 *     bench_shortlist GRAPH MACHINE [GRAPH MACHINE ...]
 *
 * Prints lines of CSV: graph, machine, microseconds of a hop, method, variant, step in seconds. Groups of the default rule are
 * placed as one, as `optimize` does. */
#include <stdio.h>
#include <stdlib.h>

#include "method/method.h"
#include "method/shortlist/shortlist.h"
#include "plan/plan.h"
#include "search/fusing.h"

enum { MOST = 120 }; /* variants of a method */

static void check(stw_status status, const stw_error *error) {
    if (status == STW_OK) return;
    fprintf(stderr, "bench_shortlist: %s\n", error->message);
    exit(2);
}

typedef struct {
    const char *graph, *machine;
    stw_search search; /* as it is before a run */
} bench;

/* False: there is no such variant. */
static bool try_one(bench *b, const stw_method *method, int32_t variant) {
    stw_search search = stw_search_within(&b->search, (stw_budget){.evaluations = 1});
    const stw_machine *machine = search.simulator->machine;
    stw_plan *plan;
    stw_score score = {0};
    stw_error error;
    search.first_variant = variant;
    search.repairs_later = true;
    check(stw_plan_create(search.simulator->graph, machine, &plan, &error), &error);
    const bool made = method->run(&search, plan, &error) == STW_OK && search.outcome.variant == variant;
    if (made) {
        check(stw_search_evaluate(&search, plan, 0, &score, &error), &error);
        printf("%s,%s,%.3f,%s,%d,%.9g\n", b->graph, b->machine, stw_shortlist_hop_us(machine), method->name, variant,
               score.reason == STW_VALID ? score.value : 1e9);
    }
    stw_plan_destroy(plan);
    return made;
}

static void try_all(bench *b) {
    static const stw_method *const methods[] = {&stw_method_single, &stw_method_spread, &stw_method_topo, &stw_method_etf,
                                                &stw_method_expert, &stw_method_metis,  &stw_method_heft, &stw_method_steer};
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        for (int32_t v = 0; v < MOST && try_one(b, methods[k], v); v++) {
        }
    }
}

static void measure(const char *path, const char *name) {
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_workspace *workspace;
    stw_pool *pool;
    stw_arena arena, scratch;
    stw_fusing fusing;
    stw_error error;
    check(stw_graph_open(path, NULL, &graph, &error), &error);
    check(stw_machine_open(name, &machine, &error), &error);
    check(stw_costs_create(graph, machine, NULL, &costs, &error), &error);
    check(stw_simulator_create(costs, &simulator, &error), &error);
    check(stw_arena_create(&arena, &error), &error);
    check(stw_arena_create(&scratch, &error), &error);
    check(stw_pool_create(1, &pool, &error), &error);
    check(stw_fusing_open(simulator, -1, STW_FUSION_DEFAULT, 1, NULL, &arena, &fusing, &error), &error);
    const stw_simulator *placed = fusing.fused != NULL ? fusing.fused->simulator : simulator;
    check(stw_workspace_create(placed, &workspace, &error), &error);
    bench b = {.graph = path,
               .machine = name,
               .search = {.simulator = placed,
                          .tasks = STW_TASK_PLACEMENT | STW_TASK_SCHEDULE,
                          .rule = -1,
                          .seed = 1,
                          .unit_count = 512,
                          .pool = pool,
                          .workspace = &workspace,
                          .scratch = &scratch,
                          .arena = arena}};
    try_all(&b);
    fflush(stdout);
    stw_workspace_destroy(workspace);
    stw_fusing_close(&fusing);
    stw_pool_destroy(pool);
    stw_arena_destroy(&scratch);
    stw_arena_destroy(&arena);
    stw_simulator_destroy(simulator);
    stw_costs_destroy(costs);
    stw_machine_destroy(machine);
    stw_graph_destroy(graph);
}

int main(int count, char **argument) {
    if (count < 3 || count % 2 == 0) {
        fprintf(stderr, "usage: bench_shortlist GRAPH MACHINE [GRAPH MACHINE ...]\n");
        return 2;
    }
    for (int k = 1; k < count; k += 2) measure(argument[k], argument[k + 1]);
    return 0;
}
