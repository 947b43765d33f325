/* An HLO module in memory: its lists, its names, and what both readers check. */
#include "base/index.h"
#include "import/hlo/hlo.h"
#include "import/hlo/meaning.h"

/* ---- lists that grow ---- */

#define ADD(list, value)                                                            \
    do {                                                                            \
        STW_HLO_RESERVE(m->arena, m->list, m->list##_count, m->list##_room, error); \
        m->list[m->list##_count++] = (value);                                       \
        return STW_OK;                                                              \
    } while (0)

stw_status stw_hlo_add_shape(stw_hlo_module *m, const stw_hlo_shape *shape, stw_error *error) { ADD(shape, *shape); }
stw_status stw_hlo_add_number(stw_hlo_module *m, int64_t number, stw_error *error) { ADD(number, number); }
stw_status stw_hlo_add_alias(stw_hlo_module *m, const stw_hlo_alias *alias, stw_error *error) { ADD(alias, *alias); }
stw_status stw_hlo_add_computation(stw_hlo_module *m, const stw_hlo_computation *c, stw_error *error) { ADD(computation, *c); }
stw_status stw_hlo_add_instruction(stw_hlo_module *m, const stw_hlo_instruction *i, stw_error *error) { ADD(instruction, *i); }

/* ---- opcodes ---- */

typedef struct {
    const char *opcode;
    stw_hlo_rule rule;
    int32_t operands, computations; /* at least */
} opcode_row;

static const opcode_row opcodes[] = {
#define STW_HLO_OP(opcode, rule, operands, computations) {opcode, STW_HLO_##rule, operands, computations},
#include "import/hlo/hlo_ops.def"
#undef STW_HLO_OP
};
enum { OPCODES = sizeof opcodes / sizeof opcodes[0] };

/* ---- names ---- */

struct stw_hlo_names {
    stw_names given;  /* a scope is a computation, or -1 */
    stw_names opcode; /* of the table */
};

stw_status stw_hlo_set_name(stw_hlo_module *m, int32_t scope, stw_str name, int32_t index, bool *fresh, stw_error *error) {
    int32_t *known;
    TRY(stw_names_enter(&m->names->given, scope, name, &known, error));
    *fresh = *known < 0;
    if (*fresh) *known = index;
    return STW_OK;
}

int32_t stw_hlo_find_name(const stw_hlo_module *m, int32_t scope, stw_str name) {
    return name.p == NULL ? -1 : stw_names_find(&m->names->given, scope, name);
}

static const opcode_row *find_opcode(const stw_hlo_module *m, stw_str opcode) {
    const int32_t row = stw_names_find(&m->names->opcode, 0, opcode);
    return row >= 0 ? &opcodes[row] : NULL;
}

/* Any opcode can stand in an asynchronous pair: "slice-start", "slice-done". */
stw_hlo_rule stw_hlo_find_rule(const stw_hlo_module *m, stw_str opcode) {
    const opcode_row *row = find_opcode(m, opcode);
    if (row != NULL) return row->rule;
    if (stw_str_ends(opcode, "-start")) return STW_HLO_START;
    return stw_str_ends(opcode, "-update") || stw_str_ends(opcode, "-done") ? STW_HLO_SAME : STW_HLO_UNKNOWN;
}

stw_status stw_hlo_module_create(stw_arena *arena, stw_hlo_module **out, stw_error *error) {
    stw_hlo_module *m;
    enum { FIRST_NAMES = 32, FIRST_NUMBERS = 64 };
    STW_TRY_NEW(arena, m, 1, error);
    STW_TRY_NEW(arena, m->number, FIRST_NUMBERS, error); /* never NULL: empty lists point into it */
    m->number_room = FIRST_NUMBERS;
    STW_TRY_NEW(arena, m->names, 1, error);
    TRY(stw_names_create(arena, FIRST_NAMES, &m->names->given, error));
    TRY(stw_names_create(arena, OPCODES, &m->names->opcode, error));
    m->arena = arena;
    m->entry = -1;
    for (int32_t k = 0; k < OPCODES; k++) {
        int32_t *row;
        TRY(stw_names_enter(&m->names->opcode, 0, stw_str_of(opcodes[k].opcode), &row, error));
        if (*row < 0) *row = k;
    }
    *out = m;
    return STW_OK;
}

/* ---- checks ---- */

static bool dimensions_fit(const stw_hlo_module *m, stw_hlo_range list, int32_t rank) {
    for (int32_t k = 0; k < list.count; k++) {
        const int64_t dimension = m->number[list.first + k];
        if (dimension < 0 || dimension >= rank) return false;
    }
    return true;
}

bool stw_hlo_are_alike(const stw_hlo_module *m, const stw_hlo_shape *a, const stw_hlo_shape *b) {
    bool alike = a->kind == b->kind && a->rank == b->rank;
    if (a->kind != STW_HLO_PARTS) return alike;
    for (int32_t k = 0; alike && k < a->rank; k++) alike = stw_hlo_are_alike(m, &m->shape[a->first + k], &m->shape[b->first + k]);
    return alike;
}

static const char *find_part_fault(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    const stw_hlo_shape *whole = stw_hlo_shape_of(m, stw_hlo_operand(m, i, 0));
    if (whole->kind != STW_HLO_PARTS) return "its operand is not a tuple";
    if (i->number < 0 || i->number >= whole->rank) return "the tuple has no element of that index";
    return stw_hlo_are_alike(m, &m->shape[whole->first + i->number], stw_hlo_shape_of(m, i))
               ? NULL
               : "its shape is not that of the element";
}

/* Parts that nobody could ask for need not be named. */
static const char *find_tuple_fault(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    const stw_hlo_shape *whole = stw_hlo_shape_of(m, i);
    if (whole->kind != STW_HLO_PARTS) return "its shape is not a tuple";
    return whole->rank > i->operand.count ? "its shape has more parts than it has operands" : NULL;
}

static const char *find_fusion_fault(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    const stw_hlo_computation *body = &m->computation[m->number[i->called.first]];
    if (body->parameter.count > i->operand.count) return "its computation has more parameters than it has operands";
    return stw_hlo_are_alike(m, stw_hlo_shape_of(m, &m->instruction[body->root]), stw_hlo_shape_of(m, i))
               ? NULL
               : "its shape is not that of its computation's root";
}

static const char *find_product_fault(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    const stw_hlo_shape *left = stw_hlo_shape_of(m, stw_hlo_operand(m, i, 0));
    const stw_hlo_shape *right = stw_hlo_shape_of(m, stw_hlo_operand(m, i, 1));
    if (left->kind != STW_HLO_ARRAY || right->kind != STW_HLO_ARRAY) return "its operands must be arrays";
    if (!dimensions_fit(m, i->contracting, left->rank) || !dimensions_fit(m, i->batch, left->rank)) {
        return "a dimension that it contracts is not there";
    }
    return i->kernel_output >= right->rank ? "dim_labels name more dimensions than the kernel has" : NULL;
}

const char *stw_hlo_find_fault(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    const opcode_row *row = find_opcode(m, i->opcode);
    if (row == NULL) return i->rule == STW_HLO_SAME && i->operand.count == 0 ? "it has too few operands" : NULL;
    if (i->operand.count < row->operands) return "it has too few operands";
    if (i->called.count < row->computations) return "the computation that it calls is missing";
    switch (row->rule) {
        case STW_HLO_PARAMETER: return i->number < 0 ? "its number is missing" : NULL;
        case STW_HLO_PART: return find_part_fault(m, i);
        case STW_HLO_TUPLE: return find_tuple_fault(m, i);
        case STW_HLO_DOT:
        case STW_HLO_CONVOLUTION: return find_product_fault(m, i);
        case STW_HLO_TRANSPOSE: {
            const stw_hlo_shape *from = stw_hlo_shape_of(m, stw_hlo_operand(m, i, 0)), *to = stw_hlo_shape_of(m, i);
            const bool fits = i->dimensions.count == to->rank && from->rank == to->rank && from->kind == STW_HLO_ARRAY &&
                              to->kind == STW_HLO_ARRAY && dimensions_fit(m, i->dimensions, to->rank);
            return fits ? NULL : "dimensions do not fit its shape";
        }
        case STW_HLO_FUSION: return find_fusion_fault(m, i);
        default: return NULL;
    }
}

stw_status stw_hlo_end_computation(stw_hlo_module *m, stw_error *error) {
    stw_hlo_computation *c = &m->computation[m->computation_count - 1];
    c->count = m->instruction_count - c->first;
    if (c->count == 0) {
        return stw_fail(error, STW_ERROR_INPUT, "computation '%.*s' has no instructions", STW_STR_SHOW(c->name));
    }
    if (c->root < 0) c->root = m->instruction_count - 1;
    int64_t parameters = 0;
    for (int32_t i = c->first; i < m->instruction_count; i++) {
        const stw_hlo_instruction *at = &m->instruction[i];
        if (at->rule == STW_HLO_PARAMETER && at->number >= parameters) parameters = at->number + 1;
        if (parameters <= c->count) continue;
        return stw_fail(error, STW_ERROR_INPUT, "computation '%.*s': parameter(%lld), but it has only %d instructions",
                        STW_STR_SHOW(c->name), (long long)at->number, c->count);
    }
    c->parameter = (stw_hlo_range){m->number_count, (int32_t)parameters};
    for (int64_t k = 0; k < parameters; k++) TRY(stw_hlo_add_number(m, -1, error));
    for (int32_t i = c->first; i < m->instruction_count; i++) {
        const stw_hlo_instruction *at = &m->instruction[i];
        c->constants += at->has_value;
        if (at->has_value) c->constant = at->value;
        if (at->rule != STW_HLO_PARAMETER) continue;
        int64_t *place = &m->number[c->parameter.first + at->number];
        if (*place >= 0) {
            return stw_fail(error, STW_ERROR_INPUT, "computation '%.*s': parameter(%lld) stands twice", STW_STR_SHOW(c->name),
                            (long long)at->number);
        }
        *place = i;
    }
    stw_hlo_hash_computation(m, c);
    return STW_OK;
}

stw_status stw_hlo_end_module(stw_hlo_module *m, stw_error *error) {
    if (m->computation_count == 0)
        return stw_fail(error, STW_ERROR_INPUT, "the module has no computations; is the file cut off?");
    if (m->entry < 0) m->entry = m->computation_count - 1;
    return STW_OK;
}

/* ---- shapes ---- */

/* Shapes of HLO values: types, sizes, and which changes of shape leave the bytes where they are. */

/* Types that the graph has no name for, with their bits; the others are found by name. */
bool stw_hlo_find_type(stw_str name, int16_t *dtype, int64_t *bits) {
    static const char *const small[] = {"s1", "u1", "s2", "u2", "f8e8m0", "f6e2m3fn", "f6e3m2fn"};
    const int32_t found = stw_dtype_find(name);
    *dtype = (int16_t)found;
    *bits = 8;
    if (found > STW_DTYPE_NONE) *bits = 8 * stw_dtype_bytes(found);
    bool known = found > STW_DTYPE_NONE;
    for (int k = 0; !known && k < (int)(sizeof small / sizeof small[0]); k++) known = stw_str_is(name, small[k]);
    if (found <= STW_DTYPE_NONE) *dtype = STW_UNKNOWN;
    return known;
}

bool stw_hlo_measure_array(const stw_hlo_module *m, stw_hlo_shape *shape, int64_t element_bits) {
    int64_t elements = 1;
    bool fits = true, empty = false;
    for (int32_t k = 0; k < shape->rank; k++) {
        const int64_t size = m->number[shape->first + k];
        empty |= size == 0;
        fits &= size >= 0 && !__builtin_mul_overflow(elements, size, &elements);
    }
    shape->elements = empty ? 0 : elements;
    shape->leaves = 1;
    if (empty) shape->bytes = 0;
    return empty || (fits && elements <= STW_GRAPH_MAX_BYTES &&
                     !__builtin_mul_overflow(elements, element_bits / 8, &shape->bytes) && shape->bytes <= STW_GRAPH_MAX_BYTES);
}

stw_status stw_hlo_add_tuple(stw_hlo_module *m, const stw_hlo_shape *parts, int32_t count, stw_hlo_shape *out, stw_error *error) {
    *out = (stw_hlo_shape){.kind = STW_HLO_PARTS, .dtype = STW_UNKNOWN, .rank = count, .first = m->shape_count};
    for (int32_t k = 0; k < count; k++) {
        stw_hlo_shape part = parts[k];
        part.offset = out->leaves;
        TRY(stw_hlo_add_shape(m, &part, error));
        if (part.leaves > INT32_MAX - out->leaves || part.bytes > STW_GRAPH_MAX_BYTES - out->bytes ||
            part.elements > STW_GRAPH_MAX_BYTES - out->elements) {
            return stw_fail(error, STW_ERROR_INPUT, "a tuple of more than 2^56 bytes; check its shapes");
        }
        out->leaves += part.leaves;
        out->elements += part.elements;
        out->bytes += part.bytes;
    }
    return STW_OK;
}

static bool is_floating(const stw_hlo_shape *shape) {
    if (shape->kind != STW_HLO_ARRAY || shape->dtype < 0) return false;
    const char *name = stw_dtype_name(shape->dtype);
    return name[0] == 'f' || (name[0] == 'b' && name[1] == 'f');
}

/* A workspace of bytes may be larger than the result that it comes with, and says nothing about it. */
static bool says_more(const stw_hlo_shape *a, const stw_hlo_shape *b) {
    return is_floating(a) != is_floating(b) ? is_floating(a) : a->bytes > b->bytes;
}

const stw_hlo_shape *stw_hlo_main_part(const stw_hlo_module *m, const stw_hlo_shape *shape) {
    for (int depth = 0; shape->kind == STW_HLO_PARTS && shape->rank > 0 && depth <= STW_HLO_MAX_DEPTH; depth++) {
        const stw_hlo_shape *part = &m->shape[shape->first], *most = part;
        for (int32_t k = 1; k < shape->rank; k++) {
            if (says_more(&part[k], most)) most = &part[k];
        }
        shape = most;
    }
    return shape;
}

/* ---- layouts ---- */

static int64_t minor_to_major(const stw_hlo_module *m, const stw_hlo_shape *shape, int32_t k) {
    return shape->has_layout ? m->number[shape->first + shape->rank + k] : shape->rank - 1 - k;
}

int64_t stw_hlo_next_dimension(const stw_hlo_module *m, const stw_hlo_shape *shape, int32_t *k) {
    while (*k < shape->rank) {
        const int64_t dimension = minor_to_major(m, shape, (*k)++);
        if (dimension < 0 || dimension >= shape->rank) return -1;
        if (m->number[shape->first + dimension] != 1) return dimension;
    }
    return -1;
}

/* Row-major, as far as dimensions of size 1 let anybody notice. */
bool stw_hlo_is_row_major(const stw_hlo_module *m, const stw_hlo_shape *shape) {
    int64_t last = INT64_MAX;
    int32_t k = 0;
    for (int64_t d; (d = stw_hlo_next_dimension(m, shape, &k)) >= 0; last = d) {
        if (d > last) return false;
    }
    return true;
}

/* How many dimensions that are not of size 1 stand before this one. */
static int32_t rank_without_ones(const stw_hlo_module *m, const stw_hlo_shape *shape, int64_t dimension) {
    int32_t rank = 0;
    for (int64_t d = 0; d < dimension; d++) rank += m->number[shape->first + d] != 1;
    return rank;
}

static bool have_same_dimensions(const stw_hlo_module *m, const stw_hlo_shape *a, const stw_hlo_shape *b) {
    int32_t i = 0, k = 0;
    for (;;) {
        const int64_t x = stw_hlo_next_dimension(m, a, &i), y = stw_hlo_next_dimension(m, b, &k);
        if (x < 0 || y < 0) return x < 0 && y < 0;
        if (m->number[a->first + x] != m->number[b->first + y]) return false;
        if (rank_without_ones(m, a, x) != rank_without_ones(m, b, y)) return false;
    }
}

bool stw_hlo_reshape_is_free(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    const stw_hlo_shape *from = stw_hlo_shape_of(m, stw_hlo_operand(m, i, 0)), *to = stw_hlo_shape_of(m, i);
    if (from->kind != STW_HLO_ARRAY || to->kind != STW_HLO_ARRAY) return true;
    if (stw_hlo_is_row_major(m, from) && stw_hlo_is_row_major(m, to)) return true;
    enum { MAX_RANK = 64 }; /* beyond it nobody needs the finer rule */
    return from->rank <= MAX_RANK && to->rank <= MAX_RANK && have_same_dimensions(m, from, to);
}

bool stw_hlo_transpose_is_free(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    const stw_hlo_shape *from = stw_hlo_shape_of(m, stw_hlo_operand(m, i, 0)), *to = stw_hlo_shape_of(m, i);
    int32_t x = 0, y = 0;
    for (;;) {
        const int64_t source = stw_hlo_next_dimension(m, from, &x), target = stw_hlo_next_dimension(m, to, &y);
        if (source < 0 || target < 0) return source < 0 && target < 0;
        if (m->number[i->dimensions.first + target] != source) return false;
    }
}
