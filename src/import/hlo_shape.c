/* Shapes of HLO values: types, sizes, and which changes of shape leave the bytes where they are. */
#include "import/hlo.h"

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

/* The dimensions from the fastest to the slowest, those of size 1 left out: the next one, or -1. */
static int64_t next_dimension(const stw_hlo_module *m, const stw_hlo_shape *shape, int32_t *k) {
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
    for (int64_t d; (d = next_dimension(m, shape, &k)) >= 0; last = d) {
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
        const int64_t x = next_dimension(m, a, &i), y = next_dimension(m, b, &k);
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
        const int64_t source = next_dimension(m, from, &x), target = next_dimension(m, to, &y);
        if (source < 0 || target < 0) return source < 0 && target < 0;
        if (m->number[i->dimensions.first + target] != source) return false;
    }
}
