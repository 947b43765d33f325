/* The model in parts, one for each device: what goes into each and what comes out, for onnx.utils.extract_model. */
#include "export/onnx.h"

enum { NO_DEVICE = -1, COPIED = -2 };

typedef struct boundaries {
    const stw_onnx_output *x;
    int64_t *first; /* (n + 1) places: outputs of the nodes, then the inputs of the model */
    stw_onnx_part_value *value;
    int64_t count;
    bool *is_copied; /* (n) made of what stands in the file: every part that reads it gets it too */
} boundaries;

static uint64_t bit(int32_t device) { return (uint64_t)1 << device; }

static bool is_input(const stw_onnx_value *v) { return v->producer < 0 && !v->stored; }

/* Nodes that the plan has no task for and that read nothing but their like: constants and what is made of them. */
static bool find_copied(boundaries *b, int32_t k) {
    const stw_onnx_output *x = b->x;
    const stw_onnx_node *node = &x->graph.node[k];
    bool copied = x->id[k] < 0 || stw_node_is_source(x->e->graph->kind[x->id[k]]);
    for (int32_t i = 0; i < node->input_count; i++) copied &= node->input[i] == NULL || !is_input(node->input[i]);
    for (int64_t u = x->need_start[k]; u < x->need_start[k + 1]; u++) copied &= b->is_copied[x->need[u]];
    return copied;
}

static stw_status list_values(boundaries *b, stw_arena *arena, stw_error *error) {
    const stw_onnx_output *x = b->x;
    const int32_t n = x->graph.node_count;
    STW_TRY_NEW(arena, b->first, (int64_t)n + 1, error);
    STW_TRY_NEW(arena, b->is_copied, n, error);
    for (int32_t k = 0; k < n; k++) b->first[k + 1] = b->first[k] + x->graph.node[k].output_count;
    b->count = b->first[n] + x->graph.input_count;
    STW_TRY_NEW(arena, b->value, b->count, error);
    for (int32_t p = 0; p < n; p++) b->is_copied[x->order[p]] = find_copied(b, x->order[p]);
    for (int32_t k = 0; k < n; k++) {
        for (int32_t o = 0; o < x->graph.node[k].output_count; o++) {
            const stw_onnx_value *v = x->graph.node[k].output[o];
            const int32_t home = b->is_copied[k] ? COPIED : x->decision[k].device;
            b->value[b->first[k] + o] = (stw_onnx_part_value){.value = v, .home = home};
        }
    }
    for (int32_t i = 0; i < x->graph.input_count; i++) {
        b->value[b->first[n] + i] = (stw_onnx_part_value){.value = x->graph.input[i], .home = NO_DEVICE};
    }
    return STW_OK;
}

static stw_onnx_part_value *find(const boundaries *b, const stw_onnx_value *v) {
    const int32_t n = b->x->graph.node_count;
    const int64_t begin = b->first[v->producer >= 0 ? v->producer : n],
                  end = v->producer >= 0 ? b->first[v->producer + 1] : b->count;
    for (int64_t k = begin; k < end; k++) {
        if (b->value[k].value == v) return &b->value[k];
    }
    return NULL;
}

static void note_readers(boundaries *b, stw_onnx_parts *parts) {
    const stw_onnx_output *x = b->x;
    for (int32_t k = 0; k < x->graph.node_count; k++) {
        const stw_onnx_node *node = &x->graph.node[k];
        const int32_t device = x->decision[k].device;
        parts->has_bodies |= stw_str_is(node->op, "If") || stw_str_is(node->op, "Loop") || stw_str_is(node->op, "Scan");
        if (b->is_copied[k]) continue;
        parts->used |= bit(device);
        for (int32_t i = 0; i < node->input_count; i++) {
            const stw_onnx_value *v = node->input[i];
            if (v == NULL || (v->producer < 0 && !is_input(v))) continue;
            stw_onnx_part_value *read = find(b, v);
            if (read != NULL && read->home != COPIED) read->readers |= bit(device);
        }
    }
}

/* What nobody computes but the model hands out comes from the part that the plan has it in. */
static void note_outputs(boundaries *b, stw_onnx_parts *parts) {
    const stw_onnx_graph *graph = &b->x->graph;
    for (int32_t k = 0; k < graph->output_count; k++) {
        stw_onnx_part_value *out = graph->output[k]->producer >= 0 ? find(b, graph->output[k]) : NULL;
        if (out == NULL) continue;
        if (out->home == COPIED) out->home = b->x->decision[graph->output[k]->producer].device;
        parts->used |= bit(out->home);
        out->is_output = true;
    }
}

/* Devices in an order in which each comes behind those that it reads from; false: there is none. */
static bool sort_devices(const uint64_t *reads, stw_onnx_parts *parts) {
    uint64_t done = 0;
    while (done != parts->used) {
        int32_t next = 0;
        while (next < STW_MAX_DEVICES && ((parts->used & ~done & bit(next)) == 0 || (reads[next] & ~done) != 0)) next++;
        if (next == STW_MAX_DEVICES) return false;
        parts->order[parts->count++] = next;
        done |= bit(next);
    }
    return true;
}

stw_status stw_onnx_find_parts(const stw_onnx_output *x, stw_arena *arena, stw_onnx_parts *out, stw_error *error) {
    boundaries b = {.x = x};
    uint64_t reads[STW_MAX_DEVICES] = {0}; /* devices that each reads from */
    *out = (stw_onnx_parts){0};
    TRY(list_values(&b, arena, error));
    note_readers(&b, out);
    note_outputs(&b, out);
    for (int64_t k = 0; k < b.count; k++) {
        const int32_t home = b.value[k].home;
        const uint64_t elsewhere = home >= 0 ? b.value[k].readers & ~bit(home) : 0;
        out->crossing += elsewhere != 0;
        for (int32_t d = 0; d < STW_MAX_DEVICES; d++) {
            if ((elsewhere & bit(d)) != 0) reads[d] |= bit(home);
        }
    }
    out->value = b.value;
    out->value_count = b.count;
    out->is_forward = sort_devices(reads, out);
    return STW_OK;
}

bool stw_onnx_part_reads(const stw_onnx_part_value *v, int32_t device) {
    return v->home != device && (v->readers & bit(device)) != 0;
}

bool stw_onnx_part_writes(const stw_onnx_part_value *v, int32_t device) {
    return v->home == device && (v->is_output || (v->readers & ~bit(device)) != 0);
}
