/* The library from C, on one page: open a graph and a machine, search for a plan within a budget, read it, write it.
 *
 *     cc -std=c11 optimize.c $(pkg-config --cflags --libs stowage) -o optimize
 *     ./optimize rnnlm-2.json.gz h200x2 plan.json trace.json
 *
 * examples/optimize.py does the same. */
#include <stdio.h>
#include <stowage.h>
#include <string.h>

/* What the program owns. Each object borrows from those above it, so they are given back from the last to the first. */
typedef struct problem {
    stw_graph *graph;         /* the operators of one step */
    stw_machine *machine;     /* devices and links */
    stw_costs *costs;         /* what each op takes on each device */
    stw_simulator *simulator; /* what a plan is worth */
    stw_options *options;     /* of the search */
    stw_result *result;       /* the best plan, and how it was found */
} problem;

static void close_problem(problem *p) { /* what was never opened is NULL, which every destroy takes */
    stw_result_destroy(p->result);
    stw_options_destroy(p->options);
    stw_simulator_destroy(p->simulator);
    stw_costs_destroy(p->costs);
    stw_machine_destroy(p->machine);
    stw_graph_destroy(p->graph);
}

/* STW_OK is 0: in a chain of ||, the first call that fails ends it, and `error` says what was wrong and what helps. */
static stw_status open_problem(problem *p, const char *graph, const char *machine, stw_error *error) {
    if (stw_graph_open(graph, NULL, &p->graph, error) ||                  /* NULL: default options */
        stw_machine_open(machine, &p->machine, error) ||                  /* "h200x2", or a machine file */
        stw_costs_create(p->graph, p->machine, NULL, &p->costs, error) || /* the graph's own times, others modelled */
        stw_simulator_create(p->costs, &p->simulator, error))
        return error->status;
    const char *warning;
    for (int32_t k = 0; (warning = stw_costs_warning(p->costs, k)) != NULL; k++) fprintf(stderr, "warning: %s\n", warning);
    return STW_OK;
}

/* Options have the names and values of the command line. A budget of evaluations (simulated plans) gives the same plan every
 * time; with "budget" in its place, such as "10s", the search takes what it finds in that time. */
static stw_status search(problem *p, stw_error *error) {
    if (stw_options_create(&p->options, error) || stw_options_set(p->options, "evaluations", "200", error) ||
        stw_options_set(p->options, "seed", "1", error))
        return error->status;
    return stw_optimize(p->simulator, p->options, NULL, &p->result, error); /* NULL: nobody watches */
}

/* The arrays of a plan have one entry per node of the graph and belong to the plan. */
static void print_plan(const problem *p, const stw_plan *plan) {
    const int32_t *device = stw_plan_device(plan), *group = stw_plan_group(plan);
    int32_t printed = 0;
    for (int32_t k = 0; k < stw_graph_node_count(p->graph) && printed < 5; k++) {
        stw_node node;
        if (!stw_graph_node(p->graph, k, &node) || strcmp(node.kind, "op") != 0) continue; /* views and inputs do not run */
        printf("%s (%s) on %s, in kernel %d\n", node.name, node.op, stw_machine_device_name(p->machine, device[k]), group[k]);
        printed++;
    }
    printf("... of %d ops\n", stw_graph_op_count(p->graph));
}

static void print_result(const problem *p) {
    const stw_bounds bounds = stw_result_bounds(p->result);
    stw_candidate best;
    if (!stw_result_candidate(p->result, stw_result_best(p->result), &best)) return;
    printf("step %.3f ms, found by %s; no plan takes less than %.3f ms\n", 1e3 * best.step_s, best.method, 1e3 * bounds.fusion_s);
}

/* The plan file, for `stowage simulate` and stw_plan_open, and a timeline of the step for chrome://tracing or Perfetto. */
static stw_status write_files(const problem *p, const stw_plan *plan, const char *plan_path, const char *trace_path,
                              stw_error *error) {
    stw_export_io trace = {.path = trace_path};
    if (stw_result_write(p->result, plan_path, false, error)) return error->status;
    return stw_plan_export(p->simulator, plan, "trace", NULL, &trace, error);
}

static stw_status run(problem *p, char **argument, stw_error *error) {
    if (open_problem(p, argument[1], argument[2], error) || search(p, error)) return error->status;
    const stw_plan *plan = stw_result_plan(p->result); /* borrowed from the result; stw_plan_copy makes one that can be changed */
    if (plan == NULL) {
        printf("no valid plan: %s\n", stw_result_lacking(p->result)); /* an answer, no error */
        return STW_OK;
    }
    print_plan(p, plan);
    print_result(p);
    return write_files(p, plan, argument[3], argument[4], error);
}

int main(int count, char **argument) {
    if (count != 5) {
        fprintf(stderr, "usage: %s GRAPH MACHINE PLAN_FILE TRACE_FILE\n", argument[0]);
        return 2;
    }
    problem p = {0};
    stw_error error;
    const stw_status status = run(&p, argument, &error);
    if (status != STW_OK) fprintf(stderr, "error: %s\n", error.message);
    close_problem(&p);
    return status == STW_OK ? 0 : 1;
}
