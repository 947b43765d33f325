#include "method/method.h"

#include <stdio.h>
#include <string.h>

static const stw_method *const methods[] = {&stw_method_single, &stw_method_spread};
enum { METHOD_COUNT = sizeof methods / sizeof methods[0] };

bool stw_method_list(int32_t index, const char **name, const char **description) {
    if (index < 0 || index >= METHOD_COUNT) return false;
    *name = methods[index]->name;
    *description = methods[index]->description;
    return true;
}

static int find_method(const char *name) {
    int k = 0;
    while (k < METHOD_COUNT && strcmp(methods[k]->name, name) != 0) k++;
    return k;
}

bool stw_method_exists(const char *name) { return find_method(name) < METHOD_COUNT; }

void stw_method_topological_priority(stw_plan *plan) {
    const stw_graph *graph = plan->graph;
    for (int32_t k = 0; k < graph->op_count; k++) plan->priority[graph->topological[k]] = -(double)k;
    for (int32_t i = 0; i < graph->N; i++) {
        if (!stw_node_is_resident(graph->kind[i])) continue;
        /* A parameter is sent in the order of its first reader. */
        bool read = false;
        for (int64_t r = graph->reader_start[i]; r < graph->reader_start[i + 1]; r++) {
            const double priority = plan->priority[graph->reader[r].node];
            if (!read || priority > plan->priority[i]) plan->priority[i] = priority;
            read = true;
        }
    }
}

static int32_t find(int32_t *leader, int32_t i) {
    while (leader[i] != i) i = leader[i] = leader[leader[i]];
    return i;
}

stw_status stw_method_join_colocated(const stw_simulator *simulator, stw_plan *plan, stw_error *error) {
    const stw_graph *graph = simulator->graph;
    stw_arena scratch = plan->arena;
    int32_t *leader, *first;
    STW_TRY_NEW(&scratch, leader, graph->N, error);
    STW_TRY_NEW(&scratch, first, graph->N, error); /* whom a set follows */
    for (int32_t i = 0; i < graph->N; i++) leader[i] = i;
    for (int32_t k = 0; k < simulator->pair_count; k++) {
        leader[find(leader, simulator->pair[k][0])] = find(leader, simulator->pair[k][1]);
    }
    for (int pass = 0; pass < 2; pass++) { /* any member first; an op, where there is one, overrides it */
        for (int32_t i = graph->N - 1; i >= 0; i--) {
            if (pass == 0 || graph->kind[i] == STW_NODE_OP) first[find(leader, i)] = i;
        }
    }
    for (int32_t i = 0; i < graph->N; i++) plan->device[i] = plan->device[first[find(leader, graph->root[i])]];
    return STW_OK;
}

static stw_status fail_unknown(const char *name, stw_error *error) {
    char list[300] = "";
    size_t length = 0;
    for (int k = 0; k < METHOD_COUNT && length < sizeof list; k++) {
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", k == 0 ? "" : ", ", methods[k]->name);
    }
    return stw_fail(error, STW_ERROR_INPUT, "unknown method '%s'; known: %s", name, list);
}

stw_status stw_method_run(const char *name, const stw_simulator *simulator, stw_plan **out, stw_error *error) {
    *out = NULL;
    const int k = find_method(name);
    if (k == METHOD_COUNT) return fail_unknown(name, error);
    stw_plan *plan;
    TRY(stw_plan_create(simulator->graph, simulator->machine, &plan, error));
    plan->method = stw_str_of(methods[k]->name);
    const stw_status status = methods[k]->run(simulator, plan, error);
    if (status != STW_OK) {
        stw_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return STW_OK;
}
