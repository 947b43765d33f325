#include "sim/prefix.h"

/* Nodes come after what they read, so the first ones are a graph. */
static int32_t count_nodes(const stw_graph *whole, int32_t ops) {
    int32_t n = 0;
    for (int32_t count = 0; n < whole->N; n++) {
        count += whole->kind[n] == STW_NODE_OP;
        if (count > ops) break;
    }
    return n;
}

/* The ids that are within, -1 for others. */
static stw_status keep_inside(stw_graph *graph, int32_t **list, stw_error *error) {
    const int32_t *before = *list;
    STW_TRY_NEW(&graph->arena, *list, graph->N, error);
    for (int32_t i = 0; i < graph->N; i++) (*list)[i] = before[i] < graph->N ? before[i] : -1;
    return STW_OK;
}

/* Readers behind the end are gone. */
static stw_status keep_readers(stw_graph *graph, const stw_graph *whole, stw_error *error) {
    int64_t count = 0;
    STW_TRY_NEW(&graph->arena, graph->reader_start, (int64_t)graph->N + 1, error);
    STW_TRY_NEW(&graph->arena, graph->reader, graph->read_start[graph->N], error); /* each is a read of one that stays */
    for (int32_t i = 0; i < graph->N; i++) {
        graph->reader_start[i] = count;
        for (int64_t r = whole->reader_start[i]; r < whole->reader_start[i + 1]; r++) {
            if (whole->reader[r].node < graph->N) graph->reader[count++] = whole->reader[r];
        }
    }
    graph->reader_start[graph->N] = count;
    return STW_OK;
}

/* An update waits for all readers of its parameter, of which some may come after it. */
static stw_status keep_waits(stw_graph *graph, const stw_graph *whole, stw_error *error) {
    int64_t count = 0;
    STW_TRY_NEW(&graph->arena, graph->wait_start, (int64_t)graph->N + 1, error);
    STW_TRY_NEW(&graph->arena, graph->wait, whole->wait_start[graph->N], error);
    for (int32_t i = 0; i < graph->N; i++) {
        graph->wait_start[i] = count;
        for (int64_t w = whole->wait_start[i]; w < whole->wait_start[i + 1]; w++) {
            if (whole->wait[w] < graph->N) graph->wait[count++] = whole->wait[w];
        }
    }
    graph->wait_start[graph->N] = count;
    return STW_OK;
}

static stw_status keep_lists(stw_graph *graph, const stw_graph *whole, stw_error *error) {
    STW_TRY_NEW(&graph->arena, graph->topological, whole->op_count, error);
    STW_TRY_NEW(&graph->arena, graph->output, whole->output_count, error);
    graph->op_count = graph->output_count = 0;
    for (int32_t k = 0; k < whole->op_count; k++) {
        if (whole->topological[k] < graph->N) graph->topological[graph->op_count++] = whole->topological[k];
    }
    for (int32_t k = 0; k < whole->output_count; k++) {
        if (whole->output[k] < graph->N) graph->output[graph->output_count++] = whole->output[k];
    }
    return STW_OK;
}

static stw_status cut(stw_graph *graph, const stw_graph *whole, stw_error *error) {
    if (graph->loss >= graph->N) graph->loss = -1;
    TRY(keep_inside(graph, &graph->updated_by, error));
    TRY(keep_inside(graph, &graph->colocate, error));
    TRY(keep_readers(graph, whole, error));
    TRY(keep_waits(graph, whole, error));
    return keep_lists(graph, whole, error);
}

stw_status stw_prefix_open(const stw_simulator *whole, int32_t ops, stw_prefix *out, stw_error *error) {
    const stw_costs *costs = whole->costs;
    stw_arena arena;
    *out = (stw_prefix){0};
    TRY(stw_arena_create(&arena, error));
    stw_graph *graph = STW_NEW(&arena, stw_graph, 1);
    *graph = *whole->graph;
    graph->arena = arena;
    graph->machine = NULL; /* that of the whole graph is its own */
    graph->N = count_nodes(whole->graph, ops);
    out->graph = graph;
    TRY(cut(graph, whole->graph, error));
    const stw_given_costs given = {(const double *const *)costs->us, (const double *const *)costs->compute_us,
                                   (const bool *const *)costs->measured};
    TRY(stw_costs_create_given(graph, costs->machine, &given, &out->costs, error));
    return stw_simulator_create(out->costs, &out->simulator, error);
}

void stw_prefix_close(stw_prefix *prefix) {
    stw_simulator_destroy(prefix->simulator);
    stw_costs_destroy(prefix->costs);
    stw_graph_destroy(prefix->graph);
    *prefix = (stw_prefix){0};
}
