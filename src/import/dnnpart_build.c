/* Graph and machine of a dnn-partitioning input. The file speaks of times and sizes, a graph of bytes; how the one becomes the
 * other is told in docs/formats/dnn-partitioning.md. */
#include <math.h>

#include "import/dnnpart.h"
#include "machine/machine.h"

static const double BYTES_PER_MS = 1e7; /* of transfer; so the links carry 1e10 bytes/s, and a byte stands for 100 ps */

/* ---- an order in which inputs come first ---- */

typedef struct {
    int64_t *start;  /* (nodes + 1) into source */
    int64_t *source; /* (edges) positions of the nodes that a node reads, in file order */
} sources;

static stw_status list_sources(const stw_dnnpart *r, stw_arena *arena, sources *out, stw_error *error) {
    int64_t *place;
    STW_TRY_NEW(arena, out->start, r->node_count + 1, error);
    STW_TRY_NEW(arena, out->source, r->edge_count, error);
    STW_TRY_NEW(arena, place, r->node_count + 1, error);
    for (int64_t e = 0; e < r->edge_count; e++) out->start[r->edge[e].target + 1]++;
    for (int64_t i = 0; i < r->node_count; i++) place[i + 1] = out->start[i + 1] += out->start[i];
    for (int64_t e = 0; e < r->edge_count; e++) out->source[place[r->edge[e].target]++] = r->edge[e].source;
    return STW_OK;
}

enum { UNSEEN, BEGUN, DONE };

/* File order, but for what a node reads: that comes before it. false: a cycle, which goes through *stuck. */
static bool sort_nodes(const stw_dnnpart *r, const sources *s, uint8_t *state, int64_t *stack, int64_t *cursor, int64_t *order,
                       int64_t *stuck) {
    int64_t done = 0;
    for (int64_t first = 0; first < r->node_count; first++) {
        int64_t depth = 0;
        if (state[first] == UNSEEN) stack[depth++] = first;
        while (depth > 0) {
            const int64_t i = stack[depth - 1];
            if (state[i] == UNSEEN) {
                state[i] = BEGUN;
                cursor[i] = s->start[i];
            }
            if (cursor[i] == s->start[i + 1]) {
                state[i] = DONE;
                order[done++] = i;
                depth--;
                continue;
            }
            const int64_t source = s->source[cursor[i]++];
            *stuck = source;
            if (state[source] == BEGUN) return false;
            if (state[source] == UNSEEN) stack[depth++] = source;
        }
    }
    return true;
}

static stw_status order_nodes(stw_dnnpart *r, const sources *s, int64_t **out, stw_error *error) {
    uint8_t *state;
    int64_t *stack, *cursor, stuck = 0;
    STW_TRY_NEW(&r->scratch, *out, r->node_count, error);
    STW_TRY_NEW(&r->scratch, state, r->node_count, error);
    STW_TRY_NEW(&r->scratch, stack, r->node_count, error);
    STW_TRY_NEW(&r->scratch, cursor, r->node_count, error);
    if (sort_nodes(r, s, state, stack, cursor, *out, &stuck)) return STW_OK;
    stw_dnnpart_fail(r, r->node[stuck].at,
                     "nodes[%lld] '%.*s' (id %lld) depends on itself: the edges close a cycle; remove one of them",
                     (long long)stuck, STW_STR_SHOW(r->node[stuck].name), (long long)r->node[stuck].id);
    return STW_ERROR_INPUT;
}

/* ---- bytes ---- */

typedef struct {
    double size_scale;    /* bytes of the graph per byte of the file */
    int64_t output_bytes; /* of all nodes together: what sizes must not be blamed for */
} byte_scale;

static int64_t output_bytes(const stw_dnnpart_node *node) {
    return node->transfer_ms > 0.0 ? llround(node->transfer_ms * BYTES_PER_MS) : 0;
}

/* Sizes are blown up, by a million where there is room, so that outputs, whose bytes are only a measure of time, hardly count. */
static bool choose_scale(stw_dnnpart *r, byte_scale *out) {
    const double limit = 0.5 * (double)STW_GRAPH_MAX_BYTES;
    double transfers = 0.0, sizes = 0.0;
    for (int64_t i = 0; i < r->node_count; i++) {
        if (r->node[i].transfer_ms > 0.0) transfers += r->node[i].transfer_ms * BYTES_PER_MS + 1.0;
        sizes += r->node[i].size + 1.0;
    }
    if (transfers > limit)
        return stw_json_fail(&r->json, "the transfers take %g ms in all; that is too long", transfers / BYTES_PER_MS);
    out->size_scale = 1e6;
    while (out->size_scale > 1.0 && sizes * out->size_scale > limit) out->size_scale /= 10.0;
    if (sizes * out->size_scale > limit)
        return stw_json_fail(&r->json, "the sizes are %g bytes in all; at most 2^55 are possible", sizes);
    for (int64_t i = 0; i < r->node_count; i++) out->output_bytes += output_bytes(&r->node[i]);
    return true;
}

static int64_t size_bytes(const stw_dnnpart_node *node, const byte_scale *scale) {
    return llround(node->size * scale->size_scale);
}

/* ---- the machine ---- */

static void describe_device(stw_device *device, stw_str name, const char *kind, int64_t memory) {
    *device = (stw_device){.name = name, .kind = stw_str_of(kind), .memory_bytes = memory};
    device->flops_f32 = device->bandwidth = 1e12; /* all times are measured, so these play no part */
    for (int32_t c = 0; c < STW_CLASS_COUNT; c++) device->efficiency[c] = 1.0;
}

/* Between CPUs a value stays where it is; between two accelerators it goes through the CPU's memory. */
static double link_bandwidth(bool from_cpu, bool to_cpu) {
    const double hop = BYTES_PER_MS * 1e3;
    return from_cpu && to_cpu ? 1e100 : from_cpu || to_cpu ? hop : hop / 2.0;
}

static stw_status fill_machine(const stw_dnnpart *r, const byte_scale *scale, stw_machine *machine, stw_error *error) {
    const double room = r->accelerator_size * scale->size_scale + (double)scale->output_bytes;
    const int64_t memory = room < (double)STW_GRAPH_MAX_BYTES ? (int64_t)room : STW_GRAPH_MAX_BYTES;
    machine->name = STW_STR("dnn-partitioning");
    machine->host = (int32_t)r->accelerators;
    for (int32_t d = 0; d < machine->device_count; d++) {
        const bool is_cpu = d >= r->accelerators;
        const char *kind = is_cpu ? "cpu" : "accelerator";
        const stw_str name = stw_str_format(&machine->arena, "%s:%d", kind, is_cpu ? d - machine->host : d);
        if (name.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
        describe_device(&machine->device[d], name, kind, is_cpu ? STW_GRAPH_MAX_BYTES : memory);
        for (int32_t to = 0; to < machine->device_count; to++) {
            if (to == d) continue;
            stw_link *link = &machine->link[d * machine->device_count + to];
            link->bandwidth = link_bandwidth(is_cpu, to >= r->accelerators);
        }
    }
    return stw_machine_finish(machine, error);
}

/* ---- the graph ---- */

typedef struct {
    stw_dnnpart *r;
    stw_graph *graph;
    const byte_scale *scale;
    int32_t *op_of; /* (nodes) the op of a node of the file */
    int32_t count;  /* nodes of the graph so far */
    int32_t dtype;
} builder;

static stw_status add_node(builder *b, stw_node_kind kind, const char *op, stw_str name, int64_t bytes, stw_error *error) {
    stw_graph *graph = b->graph;
    const int32_t i = b->count++;
    graph->kind[i] = (uint8_t)kind;
    graph->node_name[i] = name;
    graph->op_name[i] = stw_str_of(op);
    graph->label[i] = graph->attributes[i] = STW_STR("");
    graph->dtype[i] = (uint8_t)b->dtype;
    graph->op_class[i] = STW_CLASS_OPAQUE;
    graph->known[i] = true; /* as much as can be: the time is given */
    graph->bytes[i] = graph->shape[i] = bytes;
    graph->shape_start[i + 1] = i + 1;
    graph->op_count += kind == STW_NODE_OP;
    for (int32_t k = 0; k < graph->kind_count; k++) graph->us[k][i] = NAN;
    return name.p != NULL ? STW_OK : stw_fail(error, STW_ERROR_MEMORY, "out of memory");
}

static void add_input(builder *b, int64_t *next, int32_t node) { b->graph->input[(*next)++] = node; }

/* A node of the file: an op, and what it holds on its device as a parameter that stays with it. */
static stw_status add_record(builder *b, int64_t position, const sources *s, int64_t *next_input, stw_error *error) {
    stw_graph *graph = b->graph;
    const stw_dnnpart_node *node = &b->r->node[position];
    const int64_t held = size_bytes(node, b->scale);
    stw_arena *arena = &graph->arena;
    const stw_str name =
        node->name.length > 0 ? stw_str_copy(arena, node->name) : stw_str_format(arena, "node %lld", (long long)node->id);
    if (name.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    if (held > 0) {
        graph->input_start[b->count + 1] = *next_input;
        graph->colocate[b->count] = b->count + 1;
        TRY(add_node(b, STW_NODE_PARAMETER, "parameter",
                     stw_str_format(arena, "%.*s (size)", (int)(name.length < 4000 ? name.length : 4000), name.p), held, error));
        add_input(b, next_input, b->count - 1);
    }
    for (int64_t k = s->start[position]; k < s->start[position + 1]; k++) add_input(b, next_input, b->op_of[s->source[k]]);
    const int32_t op = b->op_of[position] = b->count;
    TRY(add_node(b, STW_NODE_OP, "node", name, output_bytes(node), error));
    graph->input_start[op + 1] = *next_input;
    graph->us[0][op] = node->accelerator_ms * 1e3;
    graph->us[1][op] = node->cpu_ms * 1e3;
    return STW_OK;
}

static int64_t count_held(const builder *b) {
    int64_t held = 0;
    for (int64_t i = 0; i < b->r->node_count; i++) held += size_bytes(&b->r->node[i], b->scale) > 0;
    return held;
}

static stw_status make_room(builder *b, stw_error *error) {
    stw_graph *graph = b->graph;
    stw_arena *arena = &graph->arena;
    const int64_t held = count_held(b), count = b->r->node_count + held;
    TRY(stw_graph_allocate(graph, count, error));
    STW_TRY_NEW(arena, graph->shape, count, error);
    STW_TRY_NEW(arena, graph->input, b->r->edge_count + held, error);
    STW_TRY_NEW(arena, graph->control, 0, error);
    STW_TRY_NEW(arena, graph->output, 0, error);
    STW_TRY_NEW(arena, graph->kind_name, 2, error);
    STW_TRY_NEW(arena, graph->us, 2, error);
    for (int32_t k = 0; k < 2; k++) STW_TRY_NEW(arena, graph->us[k], count, error);
    graph->kind_count = 2;
    graph->kind_name[0] = STW_STR("accelerator");
    graph->kind_name[1] = STW_STR("cpu");
    graph->name = STW_STR("dnn-partitioning");
    graph->family = STW_STR("");
    graph->loss = -1;
    STW_TRY_NEW(&b->r->scratch, b->op_of, b->r->node_count, error);
    return STW_OK;
}

/* Colours: each op is put with the first one of its colour. Positions sorted by colour would do, but order matters little and
 * a table is simpler. */
static stw_status join_colours(const builder *b, const int64_t *order, stw_error *error) {
    const stw_dnnpart *r = b->r;
    stw_arena scratch = r->scratch;
    uint64_t capacity = 16;
    while (capacity < 2 * (uint64_t)r->node_count) capacity *= 2;
    int64_t *slot; /* position + 1 of the first node of a colour */
    STW_TRY_NEW(&scratch, slot, (int64_t)capacity, error);
    for (int64_t k = 0; k < r->node_count; k++) {
        const stw_dnnpart_node *node = &r->node[order[k]];
        if (!node->has_colour) continue;
        uint64_t at = (uint64_t)node->colour * 0x9e3779b97f4a7c15u >> 20;
        while (slot[at & (capacity - 1)] != 0 && r->node[slot[at & (capacity - 1)] - 1].colour != node->colour) at++;
        int64_t *first = &slot[at & (capacity - 1)];
        if (*first == 0) {
            *first = order[k] + 1;
        } else {
            b->graph->colocate[b->op_of[order[k]]] = b->op_of[*first - 1];
        }
    }
    return STW_OK;
}

stw_status stw_dnnpart_build(stw_dnnpart *r, stw_graph *graph, stw_error *error) {
    sources s = {0};
    byte_scale scale = {0};
    int64_t *order, next_input = 0;
    TRY(list_sources(r, &r->scratch, &s, error));
    TRY(order_nodes(r, &s, &order, error));
    if (!choose_scale(r, &scale)) return STW_ERROR_INPUT;
    builder b = {.r = r, .graph = graph, .scale = &scale, .dtype = stw_dtype_find(STW_STR("u8"))};
    TRY(make_room(&b, error));
    for (int64_t k = 0; k < r->node_count; k++) TRY(add_record(&b, order[k], &s, &next_input, error));
    TRY(join_colours(&b, order, error));
    TRY(stw_machine_create((int32_t)(r->accelerators + r->cpus), &graph->machine, error));
    TRY(fill_machine(r, &scale, graph->machine, error));
    graph->size_scale = scale.size_scale;
    return stw_graph_finish(graph, error);
}
