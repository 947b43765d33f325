#include "sim/slice.h"

#include <string.h>

typedef struct {
    const stw_graph *whole;
    stw_graph *graph;
    int32_t from, to; /* nodes of `whole` */
    stw_error *error;
} builder;

static bool is_inside(const builder *b, int32_t node) { return node >= b->from && node < b->to; }

/* (N) ids, -1 for those outside. */
static stw_status take_ids(const builder *b, const int32_t *whole, int32_t **out) {
    STW_TRY_NEW(&b->graph->arena, *out, b->graph->N, b->error);
    for (int32_t i = 0; i < b->graph->N; i++) {
        const int32_t id = whole[b->from + i];
        (*out)[i] = is_inside(b, id) ? id - b->from : -1;
    }
    return STW_OK;
}

/* Lists of ids per node, those outside left out. */
static stw_status take_lists(const builder *b, const int32_t *whole_start, const int32_t *whole, int32_t **start, int32_t **out) {
    int32_t count = 0;
    STW_TRY_NEW(&b->graph->arena, *start, (int64_t)b->graph->N + 1, b->error);
    STW_TRY_NEW(&b->graph->arena, *out, whole_start[b->to] - whole_start[b->from], b->error);
    for (int32_t i = 0; i < b->graph->N; i++) {
        (*start)[i] = count;
        for (int64_t k = whole_start[b->from + i]; k < whole_start[b->from + i + 1]; k++) {
            if (is_inside(b, whole[k])) (*out)[count++] = whole[k] - b->from;
        }
    }
    (*start)[b->graph->N] = count;
    return STW_OK;
}

/* The same of reads and readers. */
static stw_status take_uses(const builder *b, const int32_t *whole_start, const stw_use *whole, int32_t **start, stw_use **out) {
    int32_t count = 0;
    STW_TRY_NEW(&b->graph->arena, *start, (int64_t)b->graph->N + 1, b->error);
    STW_TRY_NEW(&b->graph->arena, *out, whole_start[b->to] - whole_start[b->from], b->error);
    for (int32_t i = 0; i < b->graph->N; i++) {
        (*start)[i] = count;
        for (int64_t k = whole_start[b->from + i]; k < whole_start[b->from + i + 1]; k++) {
            const stw_use use = whole[k];
            if (!is_inside(b, use.node) || (use.view >= 0 && !is_inside(b, use.view))) continue;
            (*out)[count++] = (stw_use){use.node - b->from, use.view >= 0 ? use.view - b->from : -1};
        }
    }
    (*start)[b->graph->N] = count;
    return STW_OK;
}

/* A view of what comes from before is there as that is. */
static stw_status take_kinds(const builder *b) {
    stw_graph *graph = b->graph;
    TRY(take_ids(b, b->whole->root, &graph->root));
    STW_TRY_NEW(&graph->arena, graph->kind, graph->N, b->error);
    for (int32_t i = 0; i < graph->N; i++) {
        graph->kind[i] = graph->root[i] < 0 ? STW_NODE_INPUT : b->whole->kind[b->from + i];
        if (graph->root[i] < 0) graph->root[i] = i;
    }
    return STW_OK;
}

static stw_status take_order(const builder *b) {
    const stw_graph *whole = b->whole;
    stw_graph *graph = b->graph;
    TRY(stw_graph_build_topological(graph, b->error));
    STW_TRY_NEW(&graph->arena, graph->output, whole->output_count, b->error);
    graph->output_count = 0;
    for (int32_t k = 0; k < whole->output_count; k++) {
        if (is_inside(b, whole->output[k])) graph->output[graph->output_count++] = whole->output[k] - b->from;
    }
    graph->loss = is_inside(b, whole->loss) ? whole->loss - b->from : -1;
    return STW_OK;
}

/* What is the same for each node, from the first one on. */
static void shift_lists(stw_graph *graph, int32_t from) {
    graph->node_name += from;
    graph->op_name += from;
    graph->label += from;
    graph->attributes += from;
    graph->dtype += from;
    graph->op_class += from;
    graph->known += from;
    graph->bytes += from;
    graph->flops += from;
    if (graph->moved != NULL) graph->moved += from;
    if (graph->origin != NULL) graph->origin += from;
    if (graph->at != NULL) graph->at += from;
    graph->stays += from;
    graph->apart += from;
    graph->module += from;
    if (graph->allowed != NULL) graph->allowed += from;
    if (graph->kept_apart != NULL) graph->kept_apart += from;
    graph->kept += from;
    graph->shape_start += from;
}

static stw_status build(builder *b) {
    const stw_graph *whole = b->whole;
    stw_graph *graph = b->graph;
    shift_lists(graph, b->from);
    graph->carried = NULL;
    graph->hold_start = NULL;
    graph->body_of = NULL;
    graph->kind_count = 0; /* times are given */
    graph->op_count = 0;
    TRY(take_kinds(b));
    for (int32_t i = 0; i < graph->N; i++) graph->op_count += graph->kind[i] == STW_NODE_OP;
    TRY(take_ids(b, whole->updates, &graph->updates));
    TRY(take_ids(b, whole->updated_by, &graph->updated_by));
    TRY(take_ids(b, whole->colocate, &graph->colocate));
    TRY(take_lists(b, whole->input_start, whole->input, &graph->input_start, &graph->input));
    TRY(take_lists(b, whole->control_start, whole->control, &graph->control_start, &graph->control));
    TRY(take_lists(b, whole->wait_start, whole->wait, &graph->wait_start, &graph->wait));
    TRY(take_uses(b, whole->read_start, whole->read, &graph->read_start, &graph->read));
    TRY(take_uses(b, whole->reader_start, whole->reader, &graph->reader_start, &graph->reader));
    return take_order(b);
}

static stw_status cost(const stw_costs *whole, const builder *b, stw_costs **out) {
    const int32_t C = whole->machine->cost_class_count;
    stw_arena scratch = b->graph->arena;
    const double **us, **compute_us;
    const bool **measured;
    STW_TRY_NEW(&scratch, us, C, b->error);
    STW_TRY_NEW(&scratch, compute_us, C, b->error);
    STW_TRY_NEW(&scratch, measured, C, b->error);
    for (int32_t c = 0; c < C; c++) {
        us[c] = whole->us[c] + b->from;
        compute_us[c] = whole->compute_us[c] + b->from;
        measured[c] = whole->measured[c] + b->from;
    }
    return stw_costs_create_given(b->graph, whole->machine, &(stw_given_costs){us, compute_us, measured}, out, b->error);
}

stw_status stw_slice_open(const stw_simulator *whole, int32_t from, int32_t to, stw_slice *out, stw_error *error) {
    stw_arena arena;
    *out = (stw_slice){.from = from};
    TRY(stw_arena_create(&arena, error));
    stw_graph *graph = STW_NEW(&arena, stw_graph, 1);
    *graph = *whole->graph;
    graph->arena = arena;
    graph->machine = NULL; /* that of the whole graph is its own */
    graph->N = to - from;
    out->graph = graph;
    builder b = {.whole = whole->graph, .graph = graph, .from = from, .to = to, .error = error};
    TRY(build(&b));
    TRY(cost(whole->costs, &b, &out->costs));
    return stw_simulator_create(out->costs, &out->simulator, error);
}

void stw_slice_close(stw_slice *slice) {
    stw_simulator_destroy(slice->simulator);
    stw_costs_destroy(slice->costs);
    stw_graph_destroy(slice->graph);
    *slice = (stw_slice){0};
}

/* ---- which are the same ---- */

static void mix(uint64_t *hash, uint64_t value) {
    *hash = (*hash ^ value) * 0x9e3779b97f4a7c15ull;
    *hash ^= *hash >> 29;
}

static void mix_bits(uint64_t *hash, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    mix(hash, bits);
}

uint64_t stw_slice_hash(const stw_slice *slice) {
    const stw_graph *graph = slice->graph;
    uint64_t hash = (uint64_t)graph->N;
    for (int32_t i = 0; i < graph->N; i++) {
        mix(&hash, graph->kind[i]);
        mix(&hash, (uint64_t)graph->bytes[i]);
        mix(&hash, (uint64_t)graph->updates[i]);
        mix(&hash, (uint64_t)graph->colocate[i]);
        for (int32_t c = 0; c < slice->costs->machine->cost_class_count; c++) mix_bits(&hash, slice->costs->us[c][i]);
        for (int64_t e = graph->read_start[i]; e < graph->read_start[i + 1]; e++) {
            mix(&hash, (uint64_t)graph->read[e].node);
            mix(&hash, (uint64_t)graph->read[e].view);
        }
        for (int64_t w = graph->wait_start[i]; w < graph->wait_start[i + 1]; w++) mix(&hash, (uint64_t)graph->wait[w]);
        mix(&hash, (uint64_t)graph->read_start[i + 1]);
    }
    return hash;
}
