/* What HLO instructions do: arithmetic (multiply and add are two) and bytes read and written. */
#include <math.h>

#include "import/hlo/hlo.h"

/* ---- what is needed of each value ---- */

/* What of each value inside a fusion is needed: a fusion computes only what its results ask for, and reads no more of its
 * parameters. A sum of which a slice is taken is summed in the slice alone. */

static int64_t operand_elements(const stw_hlo_module *m, const stw_hlo_instruction *i, int32_t k) {
    return stw_hlo_shape_of(m, stw_hlo_operand(m, i, k))->elements;
}

/* How many elements of operand k it takes to have `count` of the result. A slice hands on what it reads; an update in place
 * leaves the rest of its target alone; of a reduction each element takes its share of the input. */
static int64_t needed_of_operand(const stw_hlo_module *m, const stw_hlo_instruction *i, int32_t k, int64_t count) {
    const int64_t all = stw_hlo_shape_of(m, i)->elements, whole = operand_elements(m, i, k);
    switch ((stw_hlo_rule)i->rule) {
        case STW_HLO_SLICE: return k == 0 && count < whole ? count : whole;
        case STW_HLO_UPDATE: return k == 0 ? 0 : whole;
        case STW_HLO_BITCAST:
        case STW_HLO_RESHAPE:
        case STW_HLO_TRANSPOSE:
        case STW_HLO_ELEMENTWISE:
        case STW_HLO_MOVE:
        case STW_HLO_REDUCE:
            if (count >= all || stw_hlo_shape_of(m, i)->kind != STW_HLO_ARRAY) return whole;
            if (whole < all) return whole < count ? whole : count; /* a broadcast value, or a piece of what is put together */
            return (int64_t)ceil((double)whole * ((double)count / (double)all));
        default: return whole;
    }
}

/* How many elements of each instruction's result the root of its computation needs; readers of different parts add
 * up. `needed` (instruction_count), zeros before. */
static void find_needed(const stw_hlo_module *m, const stw_hlo_computation *body, int64_t *needed) {
    needed[body->root] = stw_hlo_shape_of(m, &m->instruction[body->root])->elements;
    for (int32_t index = body->first + body->count - 1; index >= body->first; index--) {
        const stw_hlo_instruction *i = &m->instruction[index];
        if (needed[index] == 0) continue;
        for (int32_t k = 0; k < i->operand.count; k++) {
            const int64_t operand = m->number[i->operand.first + k], whole = operand_elements(m, i, k);
            const int64_t sum = stw_hlo_add(needed[operand], needed_of_operand(m, i, k, needed[index]));
            needed[operand] = sum < whole ? sum : whole;
        }
    }
}

/* ---- costs ---- */

/* Called computations come first in a module, so that one pass is enough. The sums over fusions, loops, branches and calls are
 * what reports and features show; their time goes by what is inside (kernel_flow.c, entry.c). */

typedef struct {
    int64_t flops, moved;
    int64_t matmul, convolution, attention; /* the parts of flops that run on matrix units */
    int64_t fused_flops, written;           /* as a fusion: of the elements that its results need; what its root writes */
    bool reduces, scatters, gathers, computes;
} body_cost;

struct stw_hlo_costs {
    const stw_hlo_module *m;
    body_cost *body;  /* (computation_count) */
    int64_t *needed;  /* (instruction_count) as a part of a fusion: elements of its result that the fusion's results need */
    int32_t *forward; /* (instruction_count) the parameter of which it is a view, else itself */
};

/* ---- arithmetic by opcode ---- */

static int64_t product(const stw_hlo_module *m, stw_hlo_range list) {
    int64_t result = 1;
    for (int32_t k = 0; k < list.count; k++) {
        const int64_t factor = m->number[list.first + k];
        result = stw_hlo_multiply(result, factor > 1 ? factor : 1);
    }
    return result;
}

static int64_t dot_flops(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    const int64_t *left = stw_hlo_dimensions(m, stw_hlo_shape_of(m, stw_hlo_operand(m, i, 0)));
    int64_t flops = stw_hlo_multiply(2, stw_hlo_shape_of(m, i)->elements);
    for (int32_t k = 0; k < i->contracting.count; k++) {
        flops = stw_hlo_multiply(flops, left[m->number[i->contracting.first + k]]);
    }
    return flops;
}

/* Every output needs the kernel's elements per output feature. Holes in a dilated input are not computed. */
static int64_t convolution_flops(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    const stw_hlo_shape *kernel = stw_hlo_shape_of(m, stw_hlo_operand(m, i, 1));
    const int64_t features = i->kernel_output >= 0 ? stw_hlo_dimensions(m, kernel)[i->kernel_output] : 1;
    const int64_t each = kernel->elements / (features > 0 ? features : 1);
    return stw_hlo_multiply(stw_hlo_multiply(2, stw_hlo_shape_of(m, i)->elements), each) / product(m, i->dilation);
}

static int64_t largest_dimension(const stw_hlo_module *m, const stw_hlo_shape *shape) {
    int64_t largest = 1;
    for (int32_t k = 0; shape->kind == STW_HLO_ARRAY && k < shape->rank; k++) {
        const int64_t size = stw_hlo_dimensions(m, shape)[k];
        if (size > largest) largest = size;
    }
    return largest;
}

static int64_t levels(int64_t count) { /* ceil(log2) */
    int64_t level = 0;
    while (level < 62 && (int64_t)1 << level < count) level++;
    return level;
}

/* Arithmetic of one application of the called scalar computation. */
static int64_t applied(const stw_hlo_costs *c, const stw_hlo_instruction *i) {
    const int64_t flops = i->called.count > 0 ? c->body[c->m->number[i->called.first]].flops : 1;
    return flops > 1 ? flops : 1;
}

static int64_t simple_flops(const stw_hlo_costs *c, const stw_hlo_instruction *i) {
    const stw_hlo_module *m = c->m;
    const stw_hlo_shape *shape = stw_hlo_shape_of(m, i);
    switch ((stw_hlo_rule)i->rule) {
        case STW_HLO_ELEMENTWISE: return shape->elements;
        case STW_HLO_DOT: return dot_flops(m, i);
        case STW_HLO_CONVOLUTION: return convolution_flops(m, i);
        case STW_HLO_REDUCE: return stw_hlo_multiply(operand_elements(m, i, 0), applied(c, i));
        case STW_HLO_MAP: return stw_hlo_multiply(shape->elements, applied(c, i));
        case STW_HLO_WINDOW: return stw_hlo_multiply(stw_hlo_multiply(shape->elements, product(m, i->window)), applied(c, i));
        case STW_HLO_SELECT_AND_SCATTER: return stw_hlo_multiply(operand_elements(m, i, 1), product(m, i->window) + 1);
        case STW_HLO_SCATTER: return stw_hlo_multiply(operand_elements(m, i, i->operand.count - 1), applied(c, i));
        case STW_HLO_SORT: {
            const stw_hlo_shape *keys = stw_hlo_shape_of(m, stw_hlo_operand(m, i, 0));
            return stw_hlo_multiply(keys->elements, levels(largest_dimension(m, keys)));
        }
        case STW_HLO_NORMALIZATION: return stw_hlo_multiply(stw_str_ends(i->opcode, "grad") ? 12 : 8, operand_elements(m, i, 0));
        case STW_HLO_FFT: return stw_hlo_multiply(stw_hlo_multiply(5, shape->elements), levels(largest_dimension(m, shape)));
        case STW_HLO_CHOLESKY: return stw_hlo_multiply(shape->elements, largest_dimension(m, shape)) / 3;
        case STW_HLO_SOLVE:
            return stw_hlo_multiply(operand_elements(m, i, 1),
                                    largest_dimension(m, stw_hlo_shape_of(m, stw_hlo_operand(m, i, 0))));
        default: return 0;
    }
}

/* ---- traffic ---- */

/* Bytes of the operands, a repeated one counted once where there are few. */
static int64_t operand_bytes(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    enum { FEW = 8 };
    const int64_t *operand = &m->number[i->operand.first];
    int64_t sum = 0;
    for (int32_t k = 0; k < i->operand.count; k++) {
        bool again = false;
        for (int32_t j = 0; j < k && k < FEW; j++) again |= operand[j] == operand[k];
        if (!again) sum = stw_hlo_add(sum, m->shape[m->instruction[operand[k]].shape].bytes);
    }
    return sum;
}

/* The parameter that a chain of views leads to, or the instruction itself. */
static int32_t forward_of(const stw_hlo_costs *c, int32_t index) {
    const stw_hlo_module *m = c->m;
    const stw_hlo_instruction *i = &m->instruction[index];
    const bool is_view = i->rule == STW_HLO_BITCAST || (i->rule == STW_HLO_RESHAPE && stw_hlo_reshape_is_free(m, i));
    return is_view ? c->forward[m->number[i->operand.first]] : index;
}

/* The same share of an amount as is needed of the result. */
static int64_t needed_share(const stw_hlo_costs *c, int32_t index, int64_t amount) {
    const int64_t all = stw_hlo_shape_of(c->m, &c->m->instruction[index])->elements, needed = c->needed[index];
    return needed >= all ? amount : (int64_t)((double)amount * ((double)needed / (double)all));
}

/* What a value at a fusion's end writes: an update in place only its slice. */
static int64_t fusion_writes(const stw_hlo_costs *c, int32_t index) {
    const stw_hlo_module *m = c->m;
    const stw_hlo_instruction *i = &m->instruction[c->forward[index]];
    if (i->rule == STW_HLO_UPDATE) return stw_hlo_shape_of(m, stw_hlo_operand(m, i, 1))->bytes;
    return stw_hlo_shape_of(m, &m->instruction[index])->bytes;
}

static int64_t fusion_written(const stw_hlo_costs *c, const stw_hlo_computation *body) {
    const stw_hlo_module *m = c->m;
    const stw_hlo_instruction *root = &m->instruction[body->root];
    if (root->rule != STW_HLO_TUPLE) return fusion_writes(c, body->root);
    int64_t sum = 0;
    for (int32_t k = 0; k < root->operand.count; k++) {
        sum = stw_hlo_add(sum, fusion_writes(c, (int32_t)m->number[root->operand.first + k]));
    }
    return sum;
}

static int64_t fusion_reads(const stw_hlo_costs *c, int64_t computation, int32_t parameter) {
    const stw_hlo_computation *body = &c->m->computation[computation];
    const int32_t index = (int32_t)c->m->number[body->parameter.first + parameter];
    return index < 0 ? 0 : needed_share(c, index, stw_hlo_shape_of(c->m, &c->m->instruction[index])->bytes);
}

static int64_t fusion_moved(const stw_hlo_costs *c, int64_t computation) {
    const stw_hlo_computation *body = &c->m->computation[computation];
    int64_t sum = c->body[computation].written;
    for (int32_t p = 0; p < body->parameter.count; p++) sum = stw_hlo_add(sum, fusion_reads(c, computation, p));
    return sum;
}

/* ---- instructions with bodies ---- */

static int32_t body_class(const body_cost *body, bool is_fusion) {
    const int64_t matrix = stw_hlo_add(body->matmul, stw_hlo_add(body->convolution, body->attention));
    if (matrix > 0 && (is_fusion || matrix >= body->flops / 2)) {
        if (body->attention >= body->matmul && body->attention >= body->convolution) return STW_CLASS_ATTENTION;
        return body->matmul >= body->convolution ? STW_CLASS_MATMUL : STW_CLASS_CONVOLUTION;
    }
    if (is_fusion && body->scatters) return STW_CLASS_SCATTER;
    if (is_fusion && body->reduces) return STW_CLASS_REDUCE;
    if (body->computes) return STW_CLASS_ELEMENTWISE;
    return is_fusion && body->gathers ? STW_CLASS_GATHER : STW_CLASS_SHAPE;
}

static void take_body(stw_hlo_cost *cost, const body_cost *body, int64_t times) {
    cost->flops = stw_hlo_multiply(body->flops, times);
    cost->moved = stw_hlo_multiply(body->moved, times);
    cost->op_class = body_class(body, false);
    cost->usual = false;
}

static void price_while(const stw_hlo_costs *c, const stw_hlo_instruction *i, stw_hlo_cost *cost) {
    const stw_hlo_module *m = c->m;
    bool is_known = false;
    const int64_t trips = stw_hlo_trip_count(m, i, &is_known);
    const body_cost *condition = &c->body[m->number[i->called.first + 1]];
    take_body(cost, &c->body[m->number[i->called.first]], trips);
    cost->flops = stw_hlo_add(cost->flops, stw_hlo_multiply(condition->flops, trips));
    cost->moved = stw_hlo_add(cost->moved, stw_hlo_multiply(condition->moved, trips));
    const stw_hlo_shape *state = stw_hlo_shape_of(m, i);
    for (int32_t k = 0; state->kind == STW_HLO_PARTS && k < state->rank; k++) {
        if (stw_hlo_while_passes(m, i, k)) cost->bytes -= m->shape[state->first + k].bytes;
    }
}

static void price_conditional(const stw_hlo_costs *c, const stw_hlo_instruction *i, stw_hlo_cost *cost) {
    const body_cost *dearest = &c->body[c->m->number[i->called.first]];
    for (int32_t k = 1; k < i->called.count; k++) {
        const body_cost *branch = &c->body[c->m->number[i->called.first + k]];
        const bool more = branch->flops != dearest->flops ? branch->flops > dearest->flops : branch->moved > dearest->moved;
        if (more) dearest = branch;
    }
    take_body(cost, dearest, 1);
}

/* The start of an asynchronous pair: its shape is (operands, result, state); that of copy-start and recv begins with the result.
 */
static void price_start(const stw_hlo_costs *c, const stw_hlo_instruction *i, stw_hlo_cost *cost) {
    const stw_hlo_module *m = c->m;
    const stw_hlo_shape *shape = stw_hlo_shape_of(m, i);
    const int32_t result = stw_str_is(i->opcode, "copy-start") || stw_str_is(i->opcode, "recv") ? 0 : 1;
    const bool apart = shape->kind == STW_HLO_PARTS && shape->rank > result && !stw_str_is(i->opcode, "all-reduce-start");
    if (apart) cost->bytes = m->shape[shape->first + result].bytes;
    cost->moved = stw_hlo_add(operand_bytes(m, i), cost->bytes);
    if (stw_str_is(i->opcode, "slice-start") || stw_str_is(i->opcode, "dynamic-slice-start")) {
        cost->moved = stw_hlo_multiply(2, cost->bytes);
        cost->usual = false;
        cost->op_class = STW_CLASS_SHAPE;
    }
    const bool fusion = stw_str_is(i->opcode, "fusion-start");
    if (i->called.count == 0 || !(fusion || stw_str_is(i->opcode, "async-start") || stw_str_is(i->opcode, "call-start"))) return;
    const int64_t called = m->number[i->called.first];
    take_body(cost, &c->body[called], 1);
    if (fusion) cost->flops = c->body[called].fused_flops;
    if (fusion) cost->moved = fusion_moved(c, called);
    if (fusion) cost->op_class = body_class(&c->body[called], true);
}

stw_hlo_cost stw_hlo_cost_of(const stw_hlo_costs *c, int32_t index) {
    const stw_hlo_module *m = c->m;
    const stw_hlo_instruction *i = &m->instruction[index];
    const int64_t called = i->called.count > 0 ? m->number[i->called.first] : -1;
    stw_hlo_cost cost = {.bytes = stw_hlo_shape_of(m, i)->bytes, .op_class = STW_UNKNOWN, .usual = true};
    cost.flops = simple_flops(c, i);
    cost.moved = stw_hlo_add(operand_bytes(m, i), cost.bytes);
    switch ((stw_hlo_rule)i->rule) {
        case STW_HLO_RESHAPE:
        case STW_HLO_TRANSPOSE:
            cost.op_class = STW_CLASS_SHAPE;
            if (i->rule == STW_HLO_RESHAPE ? stw_hlo_reshape_is_free(m, i) : stw_hlo_transpose_is_free(m, i)) cost.moved = 0;
            break;
        case STW_HLO_SLICE:
            cost.usual = false;
            cost.moved = stw_hlo_multiply(2, cost.bytes);
            break;
        case STW_HLO_UPDATE:
            cost.usual = false;
            cost.moved = stw_hlo_multiply(2, stw_hlo_shape_of(m, stw_hlo_operand(m, i, 1))->bytes);
            break;
        case STW_HLO_SCATTER: /* reads the updates, reads and writes as much of the target */
            cost.usual = false;
            cost.moved = stw_hlo_multiply(3, stw_hlo_shape_of(m, stw_hlo_operand(m, i, i->operand.count - 1))->bytes);
            break;
        case STW_HLO_REDUCE:
            if (stw_hlo_reduces_few(m, i)) cost.op_class = STW_CLASS_ELEMENTWISE;
            break;
        case STW_HLO_FUSION:
            cost.usual = false;
            cost.flops = c->body[called].fused_flops;
            cost.moved = fusion_moved(c, called);
            cost.op_class = body_class(&c->body[called], true);
            break;
        case STW_HLO_CALL: take_body(&cost, &c->body[called], 1); break;
        case STW_HLO_WHILE: price_while(c, i, &cost); break;
        case STW_HLO_CONDITIONAL: price_conditional(c, i, &cost); break;
        case STW_HLO_START: price_start(c, i, &cost); break;
        case STW_HLO_CUSTOM: stw_hlo_call_cost(m, i, &cost); break;
        case STW_HLO_OPAQUE:
            if (stw_str_is(i->opcode, "send")) cost.bytes = 0; /* what it hands on is its operand */
            break;
        default:
            if (i->rule != STW_HLO_UNKNOWN && i->rule < STW_HLO_ELEMENTWISE) cost.moved = 0;
            break;
    }
    return cost;
}

static int64_t fused_flops(const stw_hlo_costs *c, int32_t index) {
    return needed_share(c, index, stw_hlo_cost_of(c, index).flops);
}

/* ---- computations ---- */

static void add_to_body(body_cost *body, const stw_hlo_costs *c, int32_t index) {
    const stw_hlo_instruction *i = &c->m->instruction[index];
    const stw_hlo_cost cost = stw_hlo_cost_of(c, index);
    body->flops = stw_hlo_add(body->flops, cost.flops);
    body->moved = stw_hlo_add(body->moved, cost.moved);
    const bool dot = i->rule == STW_HLO_DOT || cost.op_class == STW_CLASS_MATMUL;
    const bool convolution = i->rule == STW_HLO_CONVOLUTION || cost.op_class == STW_CLASS_CONVOLUTION;
    if (dot) body->matmul = stw_hlo_add(body->matmul, cost.flops);
    if (convolution) body->convolution = stw_hlo_add(body->convolution, cost.flops);
    if (cost.op_class == STW_CLASS_ATTENTION) body->attention = stw_hlo_add(body->attention, cost.flops);
    body->reduces |= (i->rule == STW_HLO_REDUCE && !stw_hlo_reduces_few(c->m, i)) || i->rule == STW_HLO_WINDOW;
    body->scatters |= i->rule == STW_HLO_SCATTER;
    body->gathers |= i->rule == STW_HLO_SLICE && !stw_str_is(i->opcode, "slice");
    body->computes |= cost.flops > 0;
}

stw_status stw_hlo_costs_create(const stw_hlo_module *m, stw_arena *arena, stw_hlo_costs **out, stw_error *error) {
    stw_hlo_costs *c;
    STW_TRY_NEW(arena, c, 1, error);
    c->m = m;
    STW_TRY_NEW(arena, c->body, m->computation_count, error);
    STW_TRY_NEW(arena, c->needed, m->instruction_count, error);
    STW_TRY_NEW(arena, c->forward, m->instruction_count, error);
    for (int32_t k = 0; k < m->computation_count; k++) {
        const stw_hlo_computation *body = &m->computation[k];
        for (int32_t i = body->first; i < body->first + body->count; i++) {
            c->forward[i] = forward_of(c, i);
            add_to_body(&c->body[k], c, i);
        }
        find_needed(m, body, c->needed);
        for (int32_t i = body->first; i < body->first + body->count; i++) {
            c->body[k].fused_flops = stw_hlo_add(c->body[k].fused_flops, fused_flops(c, i));
        }
        c->body[k].written = fusion_written(c, body);
    }
    *out = c;
    return STW_OK;
}
