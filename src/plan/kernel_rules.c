#include "plan/kernel_rules.h"

#include "plan/membership.h"

typedef struct kernel {
    const stw_graph *graph;
    const int32_t *member;
    int32_t count;
    const int32_t *output;
    int32_t output_count;
} kernel;

static bool is_inside(const kernel *k, int32_t op) {
    int32_t low = 0, high = k->count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (k->member[middle] < op) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < k->count && k->member[low] == op;
}

static bool is_output(const kernel *k, int32_t op) {
    if (k->graph->flow[op].keeps) return true;
    for (int32_t o = 0; o < k->output_count; o++) {
        if (k->output[o] == op) return true;
    }
    return false;
}

/* Ops that stand by themselves, and views that do between two members. */
static const char *find_apart(const kernel *k, int32_t *op) {
    const stw_graph *graph = k->graph;
    for (int32_t m = 0; m < k->count; m++) {
        *op = k->member[m];
        if (graph->apart[*op] != NULL) return graph->apart[*op];
        for (int64_t e = graph->read_start[*op]; graph->flow != NULL && e < graph->read_start[*op + 1]; e++) {
            const int32_t view = graph->read[e].view;
            if (view < 0 || graph->apart[view] == NULL || !is_inside(k, graph->read[e].node)) continue;
            *op = view;
            return graph->apart[view];
        }
    }
    return NULL;
}

static bool reads(const stw_graph *graph, int32_t op, int32_t value) {
    for (int64_t e = graph->read_start[op]; e < graph->read_start[op + 1]; e++) {
        if (graph->read[e].node == value) return true;
    }
    return false;
}

static bool is_read_by_another(const kernel *k, int32_t value, int32_t but) {
    for (int32_t m = 0; m < k->count; m++) {
        if (k->member[m] != but && reads(k->graph, k->member[m], value)) return true;
    }
    return false;
}

/* A result that is written over an input: nobody else in the kernel may read that. A scatter is the only result. */
static const char *find_overwriting(const kernel *k, int32_t *op) {
    const stw_graph *graph = k->graph;
    for (int32_t m = 0; m < k->count; m++) {
        const stw_flow *flow = &graph->flow[k->member[m]];
        *op = k->member[m];
        if (flow->scatters && (k->output_count != 1 || k->output[0] != *op))
            return "scatters, which must be its group's only result";
        const bool is_there = flow->overwrites > 0 && flow->overwrites <= graph->input_start[*op + 1] - graph->input_start[*op];
        if (!is_there || !is_output(k, *op)) continue;
        const int32_t target = graph->root[graph->input[graph->input_start[*op] + flow->overwrites - 1]];
        if (is_inside(k, target)) {
            if (flow->scatters) return "writes over what another member of its group makes";
        } else if (is_read_by_another(k, target, *op)) {
            return "writes over what another member of its group reads";
        }
    }
    return NULL;
}

/* All that comes of a source within the kernel goes element by element, in the loop of its writer. */
static bool goes_in_step(const kernel *k, int32_t writer, int32_t *op) {
    const stw_graph *graph = k->graph;
    bool comes_of_it[STW_MAX_GROUP_MEMBERS] = {false};
    for (int32_t m = 0; m < k->count; m++) {
        *op = k->member[m];
        const stw_flow *flow = &graph->flow[*op];
        comes_of_it[m] = reads(graph, *op, graph->updates[writer]);
        for (int32_t before = 0; before < m && !comes_of_it[m]; before++) {
            comes_of_it[m] = comes_of_it[before] && reads(graph, *op, k->member[before]);
        }
        const bool in_step = graph->op_class[*op] == STW_CLASS_ELEMENTWISE && flow->loop == graph->flow[writer].loop;
        const bool in_place = *op == writer && flow->in_place;
        if (comes_of_it[m] && !in_step && !in_place) return false;
    }
    return true;
}

/* A result that is written over a source: some threads write it while others of the kernel still read. */
static const char *find_racing(const kernel *k, int32_t *op) {
    if (k->count > STW_MAX_GROUP_MEMBERS) return NULL; /* too many for a group, as others say */
    for (int32_t m = 0; m < k->count; m++) {
        const int32_t writer = k->member[m];
        if (k->graph->updates[writer] < 0 || !is_output(k, writer)) continue;
        if (!goes_in_step(k, writer, op)) return "comes of what its group writes over, and not element by element";
    }
    return NULL;
}

/* The same loop: equal sizes; where there are reductions, as many elements in the order of memory will do. */
static bool are_alike(const stw_flow *a, const stw_flow *b, bool reduces) {
    if (a->loop == b->loop) return true;
    return reduces && a->loop_elements == b->loop_elements && a->in_order && b->in_order;
}

static const char *find_other_loop(const kernel *k, int32_t *op) {
    const stw_graph *graph = k->graph;
    const stw_flow *first = NULL;
    bool reduces = false;
    for (int32_t m = 0; m < k->count; m++) reduces |= is_output(k, k->member[m]) && graph->flow[k->member[m]].reduces;
    for (int32_t m = 0; m < k->count; m++) {
        *op = k->member[m];
        if (!is_output(k, *op)) continue;
        if (first == NULL) first = &graph->flow[*op];
        if (!are_alike(first, &graph->flow[*op], reduces)) return "is a result of another shape than the others of its group";
    }
    return NULL;
}

const char *stw_kernel_fault(const stw_graph *graph, const int32_t *member, int32_t count, const int32_t *output,
                             int32_t output_count, int32_t *op) {
    const kernel k = {graph, member, count, output, output_count};
    if (count < 2) return NULL;
    const char *fault = find_apart(&k, op);
    if (fault == NULL && graph->flow != NULL) fault = find_overwriting(&k, op);
    if (fault == NULL && graph->flow != NULL) fault = find_racing(&k, op);
    if (fault == NULL && graph->flow != NULL) fault = find_other_loop(&k, op);
    return fault;
}

/* ---- rows ---- */

static bool fits_row(const stw_graph *graph, int32_t op, const stw_row_kernel *k) {
    const double elements = stw_graph_elements(graph, op);
    if (graph->flow[op].row == 0) return false;
    return elements == k->rows || (elements == k->rows * (double)k->length && graph->flow[op].row == k->length);
}

stw_row_kernel stw_find_row_kernel(const stw_graph *graph, const int32_t *member, const bool *written, int32_t count) {
    stw_row_kernel k = {0};
    int32_t results = 0;
    for (int32_t m = 0; m < count; m++) {
        results += written[m];
        if (written[m] || !graph->flow[member[m]].folds) continue;
        k.folds = true;
        k.rows = stw_graph_elements(graph, member[m]);
        k.length = graph->flow[member[m]].row;
    }
    k.fits = k.folds && results == 1;
    for (int32_t m = 0; k.fits && m < count; m++) k.fits = fits_row(graph, member[m], &k);
    return k;
}
