/* Measured costs of TensorFlow into a graph, by node name. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "import/tf_costs.h"

enum { MAX_KINDS = 64 };

typedef struct { /* names of ops to their ids: an open-addressing hash table */
    const stw_graph *graph;
    int32_t *slot; /* id + 1, or 0 */
    uint64_t mask;
} index_of_ops;

static int32_t find_op(const index_of_ops *index, stw_str name) {
    for (uint64_t slot = stw_str_hash(name);; slot++) {
        const int32_t found = index->slot[slot & index->mask];
        if (found == 0) return -1;
        if (stw_str_equal(index->graph->node_name[found - 1], name)) return found - 1;
    }
}

static stw_status make_index(const stw_graph *graph, stw_arena *scratch, index_of_ops *out, stw_error *error) {
    uint64_t capacity = 16;
    while ((int64_t)capacity < 2 * (int64_t)graph->N) capacity *= 2;
    *out = (index_of_ops){.graph = graph, .mask = capacity - 1};
    STW_TRY_NEW(scratch, out->slot, (int64_t)capacity, error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP || find_op(out, graph->node_name[i]) >= 0) continue;
        uint64_t slot = stw_str_hash(graph->node_name[i]);
        while (out->slot[slot & out->mask] != 0) slot++;
        out->slot[slot & out->mask] = i + 1;
    }
    return STW_OK;
}

/* Kernels are called "node:Operator". */
static int32_t op_of_row(const index_of_ops *index, stw_str name) {
    const int32_t op = find_op(index, name);
    if (op >= 0) return op;
    while (name.length > 0 && name.p[name.length - 1] != ':') name.length--;
    if (name.length > 0) name.length--;
    return name.length > 0 ? find_op(index, name) : -1;
}

static bool contains(stw_str whole, stw_str part) {
    for (int64_t i = 0; i + part.length <= whole.length; i++) {
        if (part.length == 0 || memcmp(whole.p + i, part.p, (size_t)part.length) == 0) return true;
    }
    return part.length == 0;
}

static int compare_devices(const void *left, const void *right) {
    const stw_tf_cost *a = *(const stw_tf_cost *const *)left, *b = *(const stw_tf_cost *const *)right;
    const int64_t shorter = a->device.length < b->device.length ? a->device.length : b->device.length;
    const int order = shorter > 0 ? memcmp(a->device.p, b->device.p, (size_t)shorter) : 0;
    if (order != 0) return order;
    if (a->device.length != b->device.length) return a->device.length < b->device.length ? -1 : 1;
    return a < b ? -1 : a > b; /* file order, so that sums do not depend on the sort */
}

/* The graph's column of times for a kind; a new one is all NaN. */
static stw_status find_column(stw_graph *graph, stw_str kind, double **out, stw_error *error) {
    for (int32_t k = 0; k < graph->kind_count; k++) {
        *out = graph->us[k];
        if (stw_str_equal(graph->kind_name[k], kind)) return STW_OK;
    }
    const int32_t count = graph->kind_count;
    if (count >= MAX_KINDS) return stw_fail(error, STW_ERROR_INPUT, "times for more than %d kinds of device", MAX_KINDS);
    stw_str *names;
    double **columns;
    STW_TRY_NEW(&graph->arena, names, (int64_t)count + 1, error);
    STW_TRY_NEW(&graph->arena, columns, (int64_t)count + 1, error);
    STW_TRY_NEW(&graph->arena, columns[count], graph->N, error);
    for (int32_t k = 0; k < count; k++) {
        names[k] = graph->kind_name[k];
        columns[k] = graph->us[k];
    }
    for (int32_t i = 0; i < graph->N; i++) columns[count][i] = NAN;
    names[count] = stw_str_copy(&graph->arena, kind);
    if (names[count].p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    graph->kind_name = names;
    graph->us = columns;
    graph->kind_count = count + 1;
    *out = columns[count];
    return STW_OK;
}

/* us[op]: the longest of its devices, NaN for ops without a row. `row` is sorted by device. */
static stw_status add_up(const index_of_ops *index, stw_tf_cost *const *row, int64_t count, stw_arena scratch, double *us,
                         int64_t *unmatched, stw_error *error) {
    double *sum;
    int32_t *seen;
    STW_TRY_NEW(&scratch, sum, index->graph->N, error);
    STW_TRY_NEW(&scratch, seen, count, error);
    for (int64_t first = 0, next = 0; first < count; first = next) {
        int64_t seen_count = 0;
        for (; next < count && stw_str_equal(row[next]->device, row[first]->device); next++) {
            const int32_t op = op_of_row(index, row[next]->name);
            *unmatched += op < 0;
            if (op < 0) continue;
            sum[op] += row[next]->us;
            seen[seen_count++] = op;
        }
        for (int64_t k = 0; k < seen_count; k++) us[seen[k]] = fmax(us[seen[k]], sum[seen[k]]); /* NaN gives way */
        for (int64_t k = 0; k < seen_count; k++) sum[seen[k]] = 0.0;
    }
    return STW_OK;
}

stw_status stw_tf_costs_times(const stw_tf_costs *costs, const stw_graph *graph, stw_arena *arena, double **us,
                              int64_t *unmatched, stw_error *error) {
    index_of_ops index;
    stw_tf_cost **row;
    *unmatched = 0;
    STW_TRY_NEW(arena, *us, graph->N, error);
    for (int32_t i = 0; i < graph->N; i++) (*us)[i] = NAN;
    stw_arena scratch = *arena;
    TRY(make_index(graph, &scratch, &index, error));
    STW_TRY_NEW(&scratch, row, costs->count, error);
    for (int64_t i = 0; i < costs->count; i++) row[i] = &costs->row[i];
    if (costs->count > 0) qsort(row, (size_t)costs->count, sizeof *row, compare_devices);
    return add_up(&index, row, costs->count, scratch, *us, unmatched, error);
}

stw_status stw_tf_costs_merge(const stw_tf_costs *costs, stw_str device, stw_str kind, stw_graph *graph, int64_t *matched,
                              stw_error *error) {
    double *column = NULL, *us = NULL;
    int64_t unmatched = 0;
    *matched = 0;
    TRY(find_column(graph, kind, &column, error));
    stw_arena scratch = graph->arena;
    stw_tf_costs some = {0};
    STW_TRY_NEW(&scratch, some.row, costs->count, error);
    for (int64_t i = 0; i < costs->count; i++) {
        if (contains(costs->row[i].device, device)) some.row[some.count++] = costs->row[i];
    }
    TRY(stw_tf_costs_times(&some, graph, &scratch, &us, &unmatched, error));
    for (int32_t i = 0; i < graph->N; i++) {
        if (isnan(us[i])) continue;
        column[i] = us[i];
        ++*matched;
    }
    return STW_OK;
}
