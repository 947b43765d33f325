#include "graph/graph.h"

const char stw_apart_control[] = "is control flow: a loop, a branch or a call";

static const char *const kind_name[STW_NODE_KIND_COUNT] = {
#define STW_ROW(id, name) [STW_NODE_##id] = name,
    STW_NODE_KINDS(STW_ROW)
#undef STW_ROW
};

const char *stw_node_kind_name(uint8_t kind) { return kind_name[kind]; }

stw_node_kind stw_node_source_find(stw_str name) {
    for (int kind = 0; kind < STW_NODE_KIND_COUNT; kind++) {
        if (stw_node_is_source((uint8_t)kind) && stw_str_is(name, kind_name[kind])) return (stw_node_kind)kind;
    }
    return STW_NODE_OP;
}

stw_status stw_graph_check_links(int64_t count, const char *what, stw_error *error) {
    if (count <= STW_GRAPH_MAX_LINKS) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT,
                    "with %lld %s the graph is too large; at most 2^29 are possible, so give a part of it", (long long)count,
                    what);
}

stw_status stw_graph_allocate(stw_graph *graph, int64_t count, stw_error *error) {
    stw_arena *arena = &graph->arena;
    graph->N = (int32_t)count;
    STW_TRY_NEW(arena, graph->node_name, count, error);
    STW_TRY_NEW(arena, graph->op_name, count, error);
    STW_TRY_NEW(arena, graph->label, count, error);
    STW_TRY_NEW(arena, graph->module, count, error);
    STW_TRY_NEW(arena, graph->attributes, count, error);
    STW_TRY_NEW(arena, graph->kind, count, error);
    STW_TRY_NEW(arena, graph->dtype, count, error);
    STW_TRY_NEW(arena, graph->op_class, count, error);
    STW_TRY_NEW(arena, graph->known, count, error);
    STW_TRY_NEW(arena, graph->bytes, count, error);
    STW_TRY_NEW(arena, graph->flops, count, error);
    STW_TRY_NEW(arena, graph->updates, count, error);
    STW_TRY_NEW(arena, graph->updated_by, count, error);
    STW_TRY_NEW(arena, graph->colocate, count, error);
    STW_TRY_NEW(arena, graph->stays, count, error);
    STW_TRY_NEW(arena, graph->apart, count, error);
    STW_TRY_NEW(arena, graph->shape_start, count + 1, error);
    STW_TRY_NEW(arena, graph->input_start, count + 1, error);
    STW_TRY_NEW(arena, graph->control_start, count + 1, error);
    for (int64_t i = 0; i < count; i++) {
        graph->updates[i] = graph->updated_by[i] = graph->colocate[i] = -1;
    }
    return STW_OK;
}

void stw_graph_destroy(stw_graph *graph) {
    if (graph == NULL) return;
    stw_machine_destroy(graph->machine);
    stw_arena arena = graph->arena; /* the graph itself lives in it */
    stw_arena_destroy(&arena);
}

const char *stw_graph_name(const stw_graph *graph) {
    STW_NEED(graph);
    return graph->name.p;
}

const char *stw_graph_fingerprint(const stw_graph *graph) {
    STW_NEED(graph);
    return graph->fingerprint;
}

const stw_machine *stw_graph_machine(const stw_graph *graph) {
    STW_NEED(graph);
    return graph->machine;
}

int32_t stw_graph_node_count(const stw_graph *graph) {
    STW_NEED(graph);
    return graph->N;
}

int32_t stw_graph_op_count(const stw_graph *graph) {
    STW_NEED(graph);
    return graph->op_count;
}

double stw_graph_size_scale(const stw_graph *graph) {
    STW_NEED(graph);
    return graph->size_scale > 0.0 ? graph->size_scale : 1.0;
}

const char *stw_graph_node_name(const stw_graph *graph, int32_t node) {
    STW_NEED(graph);
    return node < 0 || node >= graph->N ? NULL : graph->node_name[node].p;
}

static const char *text_of(stw_str s) { return s.p != NULL ? s.p : ""; }

bool stw_graph_node(const stw_graph *graph, int32_t node, stw_node *out) {
    STW_NEED(graph);
    STW_NEED(out);
    if (node < 0 || node >= graph->N) return false;
    const int64_t shape = graph->shape_start[node], input = graph->input_start[node];
    *out = (stw_node){.name = text_of(graph->node_name[node]),
                      .op = text_of(graph->op_name[node]),
                      .kind = stw_node_kind_name(graph->kind[node]),
                      .label = text_of(graph->label[node]),
                      .dtype = stw_dtype_name(graph->dtype[node]),
                      .bytes = graph->bytes[node],
                      .flops = graph->flops[node],
                      .shape = graph->shape + shape,
                      .input = graph->input + input,
                      .rank = (int32_t)(graph->shape_start[node + 1] - shape),
                      .input_count = (int32_t)(graph->input_start[node + 1] - input),
                      .root = graph->root[node],
                      .updates = graph->updates[node]};
    return true;
}

/* ---- dtypes ---- */

static const struct {
    const char *name;
    int64_t bytes;
} dtypes[] = {
    [STW_DTYPE_NONE] = {"none", 0},
    [STW_DTYPE_F32] = {"f32", 4},
    [STW_DTYPE_F16] = {"f16", 2},
    [STW_DTYPE_BF16] = {"bf16", 2},
    [STW_DTYPE_F64] = {"f64", 8},
    {"s64", 8},
    {"s32", 4},
    {"s16", 2},
    {"s8", 1},
    {"u64", 8},
    {"u32", 4},
    {"u16", 2},
    {"u8", 1},
    {"pred", 1},
    {"c64", 8},
    {"c128", 16},
    {"f8e4m3", 1},
    {"f8e4m3fn", 1},
    {"f8e5m2", 1},
    {"f8e8m0fnu", 1},
    {"f8e3m4", 1},
    {"f8e4m3b11fnuz", 1},
    {"f8e4m3fnuz", 1},
    {"f8e5m2fnuz", 1},
    {"s4", 1},
    {"u4", 1},
    {"f4e2m1fn", 1},
};
enum { DTYPE_COUNT = sizeof dtypes / sizeof dtypes[0] };

const char stw_dtype_list[] = "f32 f16 bf16 f64 f8* f4e2m1fn s64 s32 s16 s8 s4 u64 u32 u16 u8 u4 c64 c128 pred none";

int32_t stw_dtype_find(stw_str name) {
    for (int32_t i = 0; i < DTYPE_COUNT; i++) {
        if (stw_str_is(name, dtypes[i].name)) return i;
    }
    return -1;
}

const char *stw_dtype_name(int32_t dtype) { return dtypes[dtype].name; }
int64_t stw_dtype_bytes(int32_t dtype) { return dtypes[dtype].bytes; }
