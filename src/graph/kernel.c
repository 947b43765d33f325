#include "graph/kernel.h"

#include <math.h>

typedef struct {
    const stw_graph *graph;
    const stw_members *members;
    const stw_kernel_room *room;
    int32_t unit_count, external_count, use_count;
    int64_t read_count;
    int32_t first_unit[2 * 64]; /* of each member */
    uint8_t first_class;        /* of the first unit that is no alias */
} walk;

enum { OUTSIDE = -1, NOWHERE = -2 };

stw_status stw_kernel_room_create(const stw_graph *graph, stw_arena *arena, stw_kernel_room *out, stw_error *error) {
    *out = (stw_kernel_room){0};
    if (graph->flow == NULL) return STW_OK;
    out->unit = STW_NEW_DIRTY(arena, stw_unit, graph->kernel_units);
    out->read = STW_NEW_DIRTY(arena, stw_unit_read, graph->kernel_reads);
    out->external = STW_NEW_DIRTY(arena, stw_external, graph->kernel_reads);
    out->use = STW_NEW_DIRTY(arena, stw_external_use, graph->kernel_reads);
    out->slot = STW_NEW(arena, int32_t, graph->N);
    const bool lists = out->unit != NULL && out->read != NULL && out->external != NULL && out->use != NULL;
    if (lists && out->slot != NULL) return STW_OK;
    return stw_fail(error, STW_ERROR_MEMORY, "out of memory for kernels of %lld ops", (long long)graph->kernel_units);
}

/* NULL: a single op. */
static const stw_fused_kernel *fused_of(const stw_graph *graph, int32_t node) {
    return graph->fused_of[node] >= 0 ? &graph->fused[graph->fused_of[node]] : NULL;
}

static int32_t find_member(const stw_members *members, int32_t op) {
    int32_t low = 0, high = members->count;
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (members->member[middle] < op) low = middle + 1;
        if (members->member[middle] >= op) high = middle;
    }
    return low < members->count && members->member[low] == op ? low : -1;
}

/* ---- units and what they read ---- */

static void list_units(walk *w) {
    const stw_graph *graph = w->graph;
    stw_unit *unit = w->room->unit;
    const bool holds = w->members->count == 1 || w->members->holds_rows;
    w->first_class = STW_CLASS_ALIAS;
    for (int32_t k = 0; k < w->members->count; k++) {
        const int32_t op = w->members->member[k];
        w->first_unit[k] = w->unit_count;
        const stw_fused_kernel *fused = fused_of(graph, op);
        for (int32_t p = 0; fused != NULL && p < fused->part_count; p++) {
            const stw_part *part = &graph->part[fused->part_first + p];
            unit[w->unit_count++] = (stw_unit){.elements = part->elements,
                                               .flops = (double)part->flops,
                                               .member = k,
                                               .part = p,
                                               .op_class = part->op_class,
                                               .dtype = part->dtype,
                                               .dear = part->dear,
                                               .folds = part->folds && holds,
                                               .form = &part->form};
        }
        if (fused != NULL) continue;
        unit[w->unit_count++] = (stw_unit){.elements = graph->elements[op],
                                           .flops = (double)graph->flops[op],
                                           .member = k,
                                           .part = -1,
                                           .op_class = graph->op_class[op],
                                           .dtype = graph->dtype[op],
                                           .dear = graph->flow[op].dear,
                                           .folds = graph->flow[op].folds && w->members->holds_rows,
                                           .form = &graph->flow[op].form};
    }
    for (int32_t u = 0; u < w->unit_count && w->first_class == STW_CLASS_ALIAS; u++) w->first_class = unit[u].op_class;
    if (w->unit_count == 0) w->first_class = STW_CLASS_SHAPE; /* it copies */
}

static stw_unit_read find_input(const walk *w, int32_t node, int32_t place);

/* A node's value, whole or through a view. */
static stw_unit_read find_source(const walk *w, int32_t node, int32_t view) {
    const stw_graph *graph = w->graph;
    const int32_t at = graph->kind[node] == STW_NODE_OP ? find_member(w->members, node) : -1;
    stw_unit_read read = {.elements = graph->elements[view >= 0 ? view : node], .unit = OUTSIDE, .node = node, .view = view};
    if (at < 0) return read;
    int32_t unit = w->first_unit[at];
    const stw_fused_kernel *fused = fused_of(graph, node);
    if (fused != NULL) {
        const int32_t result = view >= 0 && graph->result_of[view] >= 0 ? graph->result_of[view] : 0;
        const int32_t part = result < fused->result_count ? graph->result[fused->result_first + result].part : INT32_MIN;
        if (part < 0) return part == INT32_MIN ? (stw_unit_read){.unit = NOWHERE} : find_input(w, node, -1 - part);
        unit += part;
    }
    read.unit = unit;
    read.elements = w->room->unit[unit].elements;
    return read;
}

static stw_unit_read find_input(const walk *w, int32_t node, int32_t place) {
    const stw_graph *graph = w->graph;
    if (place >= graph->input_start[node + 1] - graph->input_start[node]) return (stw_unit_read){.unit = NOWHERE};
    const int32_t input = graph->input[graph->input_start[node] + place];
    return find_source(w, graph->root[input], graph->kind[input] == STW_NODE_VIEW ? input : -1);
}

static bool is_first_input(const stw_graph *graph, int32_t node, stw_use use) {
    const int32_t first = graph->input[graph->input_start[node]];
    return graph->root[first] == use.node && (graph->kind[first] == STW_NODE_VIEW ? first : -1) == use.view;
}

static stw_take take_of(const stw_graph *graph, int32_t node, stw_use use) {
    const stw_flow *flow = &graph->flow[node];
    if (flow->by_element) return STW_TAKE_EACH;
    if (!(flow->slices || flow->in_place) || !is_first_input(graph, node, use)) return STW_TAKE_ALL;
    return flow->slices ? STW_TAKE_SLICE : STW_TAKE_NONE;
}

static void list_op_reads(walk *w, stw_unit *unit, int32_t op) {
    const stw_graph *graph = w->graph;
    for (int64_t e = graph->read_start[op]; e < graph->read_start[op + 1]; e++) {
        stw_unit_read *read = &w->room->read[w->read_count++];
        *read = find_source(w, graph->read[e].node, graph->read[e].view);
        read->take = (uint8_t)take_of(graph, op, graph->read[e]);
        unit->read_count++;
    }
}

static void list_part_reads(walk *w, stw_unit *unit, int32_t op) {
    const stw_graph *graph = w->graph;
    const stw_part *part = &graph->part[fused_of(graph, op)->part_first + unit->part];
    for (int64_t k = part->read_first; k < part->read_first + part->read_count; k++) {
        const int32_t from = graph->part_read[k].from, inside = w->first_unit[unit->member] + from;
        stw_unit_read *read = &w->room->read[w->read_count++];
        if (from < 0) *read = find_input(w, op, -1 - from);
        if (from >= 0) *read = (stw_unit_read){w->room->unit[inside].elements, inside, op, -1, STW_TAKE_ALL};
        read->take = graph->part_read[k].take;
        unit->read_count++;
    }
}

static void list_reads(walk *w) {
    for (int32_t u = 0; u < w->unit_count; u++) {
        stw_unit *unit = &w->room->unit[u];
        const int32_t op = w->members->member[unit->member];
        unit->read_first = w->read_count;
        if (unit->part < 0) list_op_reads(w, unit, op);
        if (unit->part >= 0) list_part_reads(w, unit, op);
    }
}

/* ---- how often ---- */

/* How many passes over what it reads a unit takes. */
static double passes_over(const stw_unit *unit, const stw_unit_read *from) {
    const stw_take take = (stw_take)from->take;
    if (take == STW_TAKE_NONE) return from->unit == OUTSIDE ? 0.0 : unit->passes;
    if (take == STW_TAKE_ALL || !(from->elements > 0.0)) return unit->passes;
    const double passes = unit->passes * unit->elements / from->elements;
    return take == STW_TAKE_SLICE ? fmin(passes, unit->passes) : passes;
}

static void add_need(double *whole, double *parts, double passes) {
    if (passes >= 1.0) *whole = fmax(*whole, passes);
    if (passes < 1.0) *parts += passes;
}

/* From the last unit to the first: readers come behind what they read. A kernel that goes on with what it has folded from rows
 * holds these rows, and computes nothing twice. */
static void find_passes(walk *w) {
    stw_unit *unit = w->room->unit;
    bool holds_rows = false;
    for (int32_t u = w->unit_count - 1; u >= 0; u--) {
        unit[u].passes = !unit[u].is_read ? 1.0 : fmax(unit[u].whole, fmin(unit[u].parts, 1.0));
        for (int64_t k = unit[u].read_first; k < unit[u].read_first + unit[u].read_count; k++) {
            const stw_unit_read *from = &w->room->read[k];
            if (from->unit < 0) continue;
            unit[from->unit].is_read = true;
            add_need(&unit[from->unit].whole, &unit[from->unit].parts, passes_over(&unit[u], from));
            holds_rows |= unit[from->unit].folds;
        }
    }
    for (int32_t u = 0; holds_rows && u < w->unit_count; u++) unit[u].passes = fmin(unit[u].passes, 1.0);
}

/* ---- traffic ---- */

/* A constant of one element is written into the kernel. */
static bool is_single(const stw_graph *graph, int32_t node) {
    return graph->kind[node] == STW_NODE_CONSTANT && graph->elements[node] == 1.0;
}

static stw_external *find_external(walk *w, const stw_unit_read *from) {
    const stw_graph *graph = w->graph;
    const int32_t result = from->view >= 0 ? graph->result_of[from->view] : -1;
    const int32_t first = w->room->slot[from->node] - 1;
    for (int32_t k = first; k >= 0; k = w->room->external[k].next) {
        if (w->room->external[k].result == result) return &w->room->external[k];
    }
    stw_external *made = &w->room->external[w->external_count++];
    w->room->slot[from->node] = w->external_count;
    const int32_t value = result >= 0 ? graph->first_view[from->view] : from->node;
    *made = (stw_external){.node = from->node,
                           .result = result,
                           .next = first,
                           .first_use = -1,
                           .most = graph->bytes[value],
                           .op_class = STW_CLASS_COUNT};
    return made;
}

static void add_use(walk *w, stw_external *external, int32_t view) {
    stw_external_use *use = w->room->use;
    for (int32_t k = external->first_use; k >= 0; k = use[k].next) {
        if (use[k].view == view) return;
    }
    use[w->use_count] = (stw_external_use){view, external->first_use};
    external->first_use = w->use_count++;
    const int64_t bytes = view >= 0 ? w->graph->bytes[view] : external->most;
    external->bytes = bytes >= external->most - external->bytes ? external->most : external->bytes + bytes;
}

static void find_externals(walk *w) {
    const stw_unit *unit = w->room->unit;
    for (int32_t u = 0; u < w->unit_count; u++) {
        for (int64_t k = unit[u].read_first; k < unit[u].read_first + unit[u].read_count; k++) {
            const stw_unit_read *from = &w->room->read[k];
            if (from->unit != OUTSIDE || is_single(w->graph, from->node)) continue;
            stw_external *external = find_external(w, from);
            add_need(&external->whole, &external->parts, passes_over(&unit[u], from));
            add_use(w, external, from->view);
            if (external->op_class == STW_CLASS_COUNT && unit[u].op_class != STW_CLASS_ALIAS)
                external->op_class = unit[u].op_class;
        }
    }
}

static void add_reads(walk *w, double *class_bytes) {
    find_externals(w);
    for (int32_t k = 0; k < w->external_count; k++) {
        stw_external *external = &w->room->external[k];
        external->moved = fmin(fmax(external->whole, external->parts), 1.0) * (double)external->bytes;
        class_bytes[external->op_class == STW_CLASS_COUNT ? w->first_class : external->op_class] += external->moved;
        w->room->slot[external->node] = 0;
    }
}

/* What a unit that writes in place writes over comes from outside. */
static bool overwrites_external(const walk *w, const stw_unit *unit) {
    for (int64_t k = unit->read_first; k < unit->read_first + unit->read_count; k++) {
        if (w->room->read[k].take == STW_TAKE_NONE) return w->room->read[k].unit == OUTSIDE;
    }
    return false;
}

static bool reads_outside(const walk *w, int32_t reader) {
    if (w->members->reads_outside != NULL) return w->members->reads_outside(w->members->context, reader);
    return find_member(w->members, reader) < 0;
}

/* The first kept result of the node that is `result` or a later one; its place is kept_count if there is none. */
static int32_t find_kept(const stw_graph *graph, int32_t op, int32_t result) {
    int32_t low = 0, high = graph->kept_count;
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        const stw_kept_result *kept = &graph->kept_result[middle];
        const bool before = kept->node != op ? kept->node < op : kept->result < result;
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    return low < graph->kept_count && graph->kept_result[low].node == op ? low : graph->kept_count;
}

static bool is_result_kept(const stw_graph *graph, int32_t op, int32_t result) {
    const int32_t at = find_kept(graph, op, result);
    return at < graph->kept_count && graph->kept_result[at].result == result;
}

/* Somebody outside reads this result of an op that has several. */
static bool is_result_read(const walk *w, int32_t op, int32_t result) {
    const stw_graph *graph = w->graph;
    for (int64_t r = graph->reader_start[op]; r < graph->reader_start[op + 1]; r++) {
        const int32_t view = graph->reader[r].view, shown = view >= 0 ? graph->result_of[view] : -1;
        if ((shown == result || shown < 0) && reads_outside(w, graph->reader[r].node)) return true;
    }
    return false;
}

static void add_written(stw_kernel_work *out, uint8_t op_class, int64_t bytes) {
    out->class_bytes[op_class] += (double)bytes;
    out->written += (double)bytes;
}

/* What leaves the kernel is computed whole, however little of it others within need. */
static void mark_written(stw_unit *unit) {
    unit->is_read = unit->leaves = true;
    unit->whole = 1.0;
}

/* Adds the bytes of a result unless it was counted. */
static void count_result(uint64_t *counted, int32_t result, int64_t bytes, int64_t *sum) {
    if (*counted >> result & 1) return;
    *counted |= (uint64_t)1 << result;
    *sum += bytes;
}

/* Of an op without parts: of several results those that are read outside or kept. */
static int64_t bytes_written(const walk *w, int32_t op) {
    enum { FEW = 64 };
    const stw_graph *graph = w->graph;
    int64_t sum = 0;
    uint64_t counted = 0;
    for (int64_t r = graph->reader_start[op]; r < graph->reader_start[op + 1]; r++) {
        const int32_t view = graph->reader[r].view, result = view >= 0 ? graph->result_of[view] : -1;
        if (result < 0 || result >= FEW) return graph->bytes[op];
        if (reads_outside(w, graph->reader[r].node)) count_result(&counted, result, graph->bytes[graph->first_view[view]], &sum);
    }
    for (int32_t k = find_kept(graph, op, 0); k < graph->kept_count && graph->kept_result[k].node == op; k++) {
        const stw_kept_result *kept = &graph->kept_result[k];
        if (kept->result >= FEW) return graph->bytes[op];
        count_result(&counted, kept->result, kept->bytes, &sum);
    }
    return counted != 0 && sum < graph->bytes[op] ? sum : graph->bytes[op];
}

/* An input that a kernel writes as it came is read whole. */
static void add_copied(walk *w, int32_t op, int32_t place) {
    const stw_unit_read from = find_input(w, op, place);
    if (from.unit >= 0) mark_written(&w->room->unit[from.unit]);
    if (from.unit != OUTSIDE || is_single(w->graph, from.node)) return;
    stw_external *external = find_external(w, &from);
    external->whole = 1.0;
    add_use(w, external, from.view);
}

static void add_fusion_writes(walk *w, int32_t k, stw_kernel_work *out) {
    const stw_graph *graph = w->graph;
    const int32_t op = w->members->member[k];
    const stw_fused_kernel *fused = fused_of(graph, op);
    for (int32_t r = 0; r < fused->result_count; r++) {
        const stw_part_result *result = &graph->result[fused->result_first + r];
        const bool chosen = w->members->written == NULL || fused->result_count == 1 || is_result_kept(graph, op, r);
        if (!chosen && !is_result_read(w, op, r)) continue;
        stw_unit *unit = result->part >= 0 ? &w->room->unit[w->first_unit[k] + result->part] : NULL;
        const stw_part *part = result->part >= 0 ? &graph->part[fused->part_first + result->part] : NULL;
        const bool in_place = part != NULL && part->in_place >= 0 && overwrites_external(w, unit);
        const uint8_t own = unit != NULL && unit->op_class != STW_CLASS_ALIAS ? unit->op_class : w->first_class;
        add_written(out, own, in_place ? part->in_place : result->bytes);
        if (unit != NULL) mark_written(unit);
        if (result->part < 0 && result->part != INT32_MIN) add_copied(w, op, -1 - result->part);
    }
}

static void add_op_writes(walk *w, int32_t k, stw_kernel_work *out) {
    const stw_graph *graph = w->graph;
    const int32_t op = w->members->member[k];
    stw_unit *unit = &w->room->unit[w->first_unit[k]];
    const bool two = graph->input_start[op + 1] - graph->input_start[op] > 1;
    const bool in_place = graph->flow[op].in_place && two && overwrites_external(w, unit);
    const int64_t bytes = in_place ? graph->bytes[graph->input[graph->input_start[op] + 1]] : bytes_written(w, op);
    add_written(out, unit->op_class != STW_CLASS_ALIAS ? unit->op_class : w->first_class, bytes);
    mark_written(unit);
}

void stw_kernel_find_work(const stw_graph *graph, const stw_members *members, const stw_kernel_room *room, stw_kernel_work *out) {
    walk w = {.graph = graph, .members = members, .room = room};
    *out = (stw_kernel_work){.unit = room->unit, .external = room->external};
    list_units(&w);
    list_reads(&w);
    for (int32_t k = 0; k < members->count; k++) {
        if (members->written != NULL && !members->written[k]) continue;
        if (fused_of(graph, members->member[k]) != NULL)
            add_fusion_writes(&w, k, out);
        else
            add_op_writes(&w, k, out);
    }
    find_passes(&w);
    add_reads(&w, out->class_bytes);
    out->unit_count = w.unit_count;
    out->external_count = w.external_count;
}

/* ---- rows ---- */

static stw_work_row *find_row(stw_work_row *row, int64_t *count, uint8_t op_class, uint8_t dtype) {
    for (int64_t k = 0; k < *count; k++) {
        if (row[k].op_class == op_class && row[k].dtype == dtype) return &row[k];
    }
    row[*count] = (stw_work_row){.op_class = op_class, .dtype = dtype};
    return &row[(*count)++];
}

int64_t stw_kernel_rows(const stw_kernel_work *kernel, stw_work_row *out) {
    int64_t count = 0;
    for (int32_t u = 0; u < kernel->unit_count; u++) {
        const stw_unit *unit = &kernel->unit[u];
        stw_work_row *row = find_row(out, &count, unit->op_class, unit->dtype);
        row->flops += fmin(unit->passes, 1.0) * unit->flops;
        row->again += fmax(unit->passes - 1.0, 0.0) * unit->flops * (unit->dear ? STW_DEAR_FACTOR : 1);
    }
    for (int c = 0; c < STW_CLASS_COUNT; c++) {
        if (kernel->class_bytes[c] > 0.0) find_row(out, &count, (uint8_t)c, STW_DTYPE_NONE)->bytes += kernel->class_bytes[c];
    }
    return count;
}

/* ---- an op alone ---- */

int64_t stw_read_bytes(const stw_graph *graph, int32_t value, const stw_use *use, int64_t count) {
    const int64_t whole = graph->bytes[value];
    int64_t sum = 0;
    for (int64_t k = 0; k < count; k++) {
        if (use[k].view < 0) return whole;
        if (k > 0 && use[k].view == use[k - 1].view) continue;
        const int64_t part = graph->bytes[use[k].view];
        if (part >= whole - sum) return whole;
        sum += part;
    }
    return sum;
}

int64_t stw_op_bytes_moved(const stw_graph *graph, int32_t i) {
    const bool gather = graph->op_class[i] == STW_CLASS_GATHER;
    if (graph->op_class[i] == STW_CLASS_ALIAS) return 0;
    if (stw_graph_moved(graph, i) >= 0) return stw_graph_moved(graph, i);
    int64_t sum = graph->bytes[i];
    for (int64_t e = graph->read_start[i]; e < graph->read_start[i + 1];) {
        int64_t end = e + 1;
        while (end < graph->read_start[i + 1] && graph->read[end].node == graph->read[e].node) end++;
        int64_t part = stw_read_bytes(graph, graph->read[e].node, graph->read + e, end - e);
        if (gather && part > graph->bytes[i]) part = graph->bytes[i];
        if (__builtin_add_overflow(sum, part, &sum)) return INT64_MAX;
        e = end;
    }
    return sum;
}
