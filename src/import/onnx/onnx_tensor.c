/* Types and tensors of ONNX: dtype, shape and the numbers of small tensors. Weights are not looked at, external data is never
 * opened. */
#include <math.h>
#include <string.h>

#include "import/onnx/onnx.h"
#include "import/onnx/onnx_rules.h"

int32_t stw_onnx_dtype(int64_t code) {
    static const char *const names[] = {"none", "f32",  "u8",       "s8",       "u16",        "s16",    "s32",
                                        "s64",  "none", "pred",     "f16",      "f64",        "u32",    "u64",
                                        "c64",  "c128", "bf16",     "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz",
                                        "u4",   "s4",   "f4e2m1fn", "f8e8m0fnu"};
    if (code < 1 || code >= (int64_t)(sizeof names / sizeof names[0])) return STW_UNKNOWN;
    return stw_dtype_find(stw_str_of(names[code]));
}

bool stw_onnx_is_integer(int32_t dtype) {
    if (dtype < 0) return false;
    const char *name = stw_dtype_name(dtype);
    return name[0] == 's' || name[0] == 'u' || name[0] == 'p';
}

int64_t stw_onnx_multiply(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

int64_t stw_onnx_add(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

int64_t stw_onnx_elements(const stw_onnx_value *value) {
    if (value->rank < 0) return -1;
    int64_t count = 1;
    for (int32_t k = 0; k < value->rank; k++) {
        if (value->shape[k] == 0) return 0;
        count = stw_onnx_multiply(count, value->shape[k]);
    }
    return count;
}

int64_t stw_onnx_bytes(const stw_onnx_value *value) {
    if (value->rank < 0 || value->dtype < 0) return 0;
    return stw_onnx_multiply(stw_onnx_elements(value), stw_dtype_bytes(value->dtype));
}

static bool is_allowed(int64_t rank, const int64_t *shape) {
    if (rank < 0 || rank > STW_ONNX_MAX_RANK) return false;
    for (int64_t k = 0; k < rank; k++) {
        if (shape[k] < 0 || shape[k] > STW_ONNX_MAX_DIM) return false;
    }
    return true;
}

bool stw_onnx_set_shape(stw_onnx_value *value, int32_t dtype, int64_t rank, const int64_t *shape, stw_arena *arena) {
    if (!is_allowed(rank, shape)) return false;
    int64_t *copy = STW_NEW(arena, int64_t, rank);
    if (copy == NULL) return false;
    for (int64_t k = 0; k < rank; k++) copy[k] = shape[k];
    value->dtype = dtype;
    value->rank = (int32_t)rank;
    value->shape = copy;
    return true;
}

/* ---- types ---- */

/* What the file says of a dimension: a size, or -1 and perhaps a name. */
static bool read_dim(stw_onnx_reader *r, stw_pb dim, int64_t *size, stw_str *name) {
    *size = -1;
    *name = (stw_str){0};
    for (stw_pb_field f; stw_pb_next(&dim, &f);) {
        if (f.number == 1) stw_pb_int(&dim, &f, size);
        if (f.number == 2) stw_pb_string(&dim, &f, name);
    }
    if (*size < 0) *size = -1;
    return !r->file.failed;
}

typedef struct {
    int64_t code, rank; /* rank -1: not stated */
    int64_t size[STW_ONNX_MAX_RANK];
    stw_str name[STW_ONNX_MAX_RANK];
} stated_type;

static bool read_tensor_type(stw_onnx_reader *r, stw_pb type, stated_type *out) {
    out->code = 0;
    out->rank = -1;
    for (stw_pb_field f; stw_pb_next(&type, &f);) {
        stw_pb list, dim;
        if (f.number == 1) stw_pb_int(&type, &f, &out->code);
        if (f.number != 2 || !stw_pb_enter(&type, &f, &list)) continue;
        out->rank = 0;
        for (stw_pb_field g; stw_pb_next(&list, &g);) {
            int64_t size = 0;
            stw_str name = {0};
            if (g.number != 1 || !stw_pb_enter(&list, &g, &dim)) continue;
            if (!read_dim(r, dim, &size, &name)) return false;
            if (out->rank < STW_ONNX_MAX_RANK) {
                out->size[out->rank] = size;
                out->name[out->rank] = name;
            }
            out->rank++;
        }
    }
    return !r->file.failed;
}

/* A tensor's type, or a sparse one's; false where it is another, or the file is damaged. */
static bool find_tensor_type(stw_onnx_reader *r, stw_str type, int32_t depth, stated_type *out) {
    stw_pb m = stw_pb_range(&r->file, type, depth), inner;
    bool found = false;
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        if (f.number == 1 || f.number == 8) found = stw_pb_enter(&m, &f, &inner) && read_tensor_type(r, inner, out);
    }
    return found && !r->file.failed;
}

void stw_onnx_read_type(stw_onnx_reader *r, stw_str type, int32_t depth, stw_onnx_value *value, stw_arena *arena) {
    stated_type stated;
    if (!find_tensor_type(r, type, depth, &stated)) return;
    for (int64_t d = 0; d < stated.rank && d < STW_ONNX_MAX_RANK; d++) {
        if (stated.size[d] >= 0 || stw_given_size(r->options, stated.name[d], &stated.size[d])) continue;
        stated.size[d] = r->default_dim;
        value->is_guess = true;
    }
    const int32_t dtype = stw_onnx_dtype(stated.code);
    if (stated.rank < 0 || !stw_onnx_set_shape(value, dtype, stated.rank, stated.size, arena)) value->dtype = dtype;
}

bool stw_onnx_read_stated(stw_onnx_reader *r, stw_str type, stw_model_input *out, stw_arena *arena) {
    stated_type stated;
    if (!find_tensor_type(r, type, 0, &stated) || stated.rank > STW_ONNX_MAX_RANK) stated.rank = -1;
    out->rank = (int32_t)stated.rank;
    int64_t *size = STW_NEW(arena, int64_t, stated.rank > 0 ? stated.rank : 0);
    stw_str *name = STW_NEW(arena, stw_str, stated.rank > 0 ? stated.rank : 0);
    if (size == NULL || name == NULL) return stw_pb_fail(&r->file, r->file.begin, "out of memory");
    for (int64_t d = 0; d < stated.rank; d++) {
        size[d] = stated.size[d];
        name[d] = stated.name[d];
    }
    out->dim = size;
    out->dim_name = name;
    return !r->file.failed;
}

/* ---- tensors ---- */

typedef struct {
    int64_t code, rank;
    int64_t shape[STW_ONNX_MAX_RANK];
    stw_str raw;
    bool external;
    double number[STW_ONNX_MAX_CONTENT];
    int64_t count; /* of numbers, which may be more than there is room for */
} tensor;

static void read_numbers(stw_pb *m, const stw_pb_field *f, tensor *t) {
    double number = 0.0;
    int64_t whole = 0;
    for (stw_pb_list list = stw_pb_list_of(f); t->count < STW_ONNX_MAX_CONTENT + 1;) {
        if (f->number == 4    ? !stw_pb_list_float(m, &list, &number)
            : f->number == 10 ? !stw_pb_list_double(m, &list, &number)
                              : !stw_pb_list_int(m, &list, &whole))
            break;
        if (t->count < STW_ONNX_MAX_CONTENT) t->number[t->count] = f->number == 4 || f->number == 10 ? number : (double)whole;
        t->count++;
    }
}

static double raw_number(const char *at, int32_t dtype) {
    const int64_t bytes = stw_dtype_bytes(dtype);
    const char *name = stw_dtype_name(dtype);
    uint64_t bits = 0;
    for (int64_t k = 0; k < bytes; k++) bits |= (uint64_t)(uint8_t)at[k] << (8 * k);
    if (dtype == STW_DTYPE_F32) {
        const uint32_t low = (uint32_t)bits;
        float value;
        memcpy(&value, &low, sizeof value);
        return (double)value;
    }
    if (dtype == STW_DTYPE_F64) {
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    const int64_t sign = name[0] == 's' && bytes < 8 ? (int64_t)1 << (8 * bytes - 1) : 0; /* two's complement of fewer bytes */
    return name[0] == 'u' ? (double)bits : (double)(((int64_t)bits ^ sign) - sign);
}

/* May the numbers of this tensor be looked at? Only what raw_number and read_numbers read right. */
static bool is_readable(int32_t dtype) {
    if (dtype == STW_DTYPE_F32 || dtype == STW_DTYPE_F64) return true;
    const char *name = dtype >= 0 ? stw_dtype_name(dtype) : "";
    return stw_onnx_is_integer(dtype) && name[1] != '4'; /* two numbers of 4 bits share a byte */
}

static void keep_numbers(tensor *t, stw_onnx_value *value, stw_arena *arena) {
    const int64_t elements = stw_onnx_elements(value);
    const int64_t most = stw_onnx_is_integer(value->dtype) ? STW_ONNX_MAX_CONTENT : STW_ONNX_MAX_FLOAT_CONTENT;
    if (t->external || elements < 0 || elements > most || value->dtype < 0 || !is_readable(value->dtype)) return;
    const int64_t size = stw_dtype_bytes(value->dtype);
    if (t->raw.length > 0 && t->raw.length == elements * size) {
        for (int64_t k = 0; k < elements; k++) t->number[k] = raw_number(t->raw.p + k * size, value->dtype);
        t->count = elements;
    }
    if (t->count != elements) return;
    double *content = STW_NEW(arena, double, elements);
    if (content == NULL) return;
    for (int64_t k = 0; k < elements; k++) content[k] = t->number[k];
    value->content = content;
}

void stw_onnx_mark_stored(stw_onnx_value *value) {
    const int64_t elements = stw_onnx_elements(value);
    const bool small = stw_onnx_is_integer(value->dtype) ? elements <= STW_ONNX_MAX_CONTENT : elements <= 1;
    value->source = small && elements >= 0 ? STW_ONNX_CONSTANT : STW_ONNX_PARAMETER;
    value->stored = value->present = true;
}

bool stw_onnx_read_tensor(stw_onnx_reader *r, stw_pb m, stw_onnx_value *value, stw_str *name, stw_arena *arena) {
    tensor t = {0};
    int64_t dim = 0, wrong = -1; /* the name comes behind the dimensions */
    const char *at = m.cursor;
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        switch (f.number) {
            case 1:
                for (stw_pb_list list = stw_pb_list_of(&f); stw_pb_list_int(&m, &list, &dim); t.rank++) {
                    if (dim < 0 && wrong < 0) wrong = t.rank < STW_ONNX_MAX_RANK ? t.rank : STW_ONNX_MAX_RANK;
                    if (t.rank < STW_ONNX_MAX_RANK) t.shape[t.rank] = dim;
                }
                break;
            case 2: stw_pb_int(&m, &f, &t.code); break;
            case 4:
            case 5:
            case 7:
            case 10:
            case 11: read_numbers(&m, &f, &t); break;
            case 8: stw_pb_string(&m, &f, name); break;
            case 9: stw_pb_string(&m, &f, &t.raw); break;
            case 13: t.external = true; break;
            default: break;
        }
    }
    if (r->file.failed) return false;
    if (wrong >= 0 && wrong < STW_ONNX_MAX_RANK)
        return stw_pb_fail(&r->file, at, "dimension %lld of tensor '%.*s' is %lld; stored tensors have sizes of 0 or more",
                           (long long)wrong, STW_STR_SHOW(*name), (long long)t.shape[wrong]);
    if (!stw_onnx_set_shape(value, stw_onnx_dtype(t.code), t.rank, t.shape, arena))
        return is_allowed(t.rank, t.shape)
                   ? stw_pb_fail(&r->file, at, "out of memory")
                   : stw_pb_fail(&r->file, at, "tensor '%.*s' has more than %d dimensions or one above 2^40; check its dims",
                                 STW_STR_SHOW(*name), STW_ONNX_MAX_RANK);
    keep_numbers(&t, value, arena);
    stw_onnx_mark_stored(value);
    return true;
}

bool stw_onnx_read_sparse(stw_onnx_reader *r, stw_pb m, stw_onnx_value *value, stw_str *name, stw_arena *arena) {
    int64_t shape[STW_ONNX_MAX_RANK], rank = 0, dim = 0;
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        stw_pb inner;
        if (f.number == 1 && stw_pb_enter(&m, &f, &inner)) stw_onnx_read_tensor(r, inner, value, name, arena);
        if (f.number != 3) continue;
        for (stw_pb_list list = stw_pb_list_of(&f); stw_pb_list_int(&m, &list, &dim); rank++) {
            if (rank < STW_ONNX_MAX_RANK) shape[rank] = dim;
        }
    }
    value->content = NULL;
    if (!r->file.failed) stw_onnx_set_shape(value, value->dtype, rank, shape, arena);
    stw_onnx_mark_stored(value);
    return !r->file.failed;
}

/* ---- arithmetic ---- */

/* Arithmetic on small tensors whose numbers are known: what computes shapes is worked out here and leaves the graph. */

typedef double arithmetic(double a, double b, double third, bool integer);

#define FOLD(name, expression)                                              \
    static double fold_##name(double a, double b, double t, bool integer) { \
        (void)a, (void)b, (void)t, (void)integer;                           \
        return expression;                                                  \
    }
FOLD(add, a + b)
FOLD(sub, a - b)
FOLD(mul, a *b)
FOLD(div, integer ? (b != 0.0 ? trunc(a / b) : 0.0) : a / b)
FOLD(mod, b != 0.0 ? a - b * (integer ? floor(a / b) : trunc(a / b)) : 0.0)
FOLD(pow, pow(a, b))
FOLD(max, fmax(a, b))
FOLD(min, fmin(a, b))
FOLD(equal, a == b)
FOLD(less, a < b)
FOLD(greater, a > b)
FOLD(less_equal, a <= b)
FOLD(greater_equal, a >= b)
FOLD(and, a != 0.0 && b != 0.0)
FOLD(or, a != 0.0 || b != 0.0)
FOLD(not, a == 0.0)
FOLD(where, a != 0.0 ? b : t)
FOLD(same, a)
FOLD(neg, -a)
FOLD(abs, fabs(a))
FOLD(sqrt, sqrt(a))
FOLD(reciprocal, 1.0 / a)
FOLD(floor, floor(a))
FOLD(ceil, ceil(a))
FOLD(round, nearbyint(a))

static const struct {
    const char *op;
    arithmetic *apply;
    int32_t inputs; /* how many it takes; -2: two or more, one after the other */
} operators[] = {
    {"Add", fold_add, 2},
    {"Sub", fold_sub, 2},
    {"Mul", fold_mul, 2},
    {"Div", fold_div, 2},
    {"Mod", fold_mod, 2},
    {"Pow", fold_pow, 2},
    {"Max", fold_max, -2},
    {"Min", fold_min, -2},
    {"Equal", fold_equal, 2},
    {"Less", fold_less, 2},
    {"Greater", fold_greater, 2},
    {"LessOrEqual", fold_less_equal, 2},
    {"GreaterOrEqual", fold_greater_equal, 2},
    {"And", fold_and, 2},
    {"Or", fold_or, 2},
    {"Not", fold_not, 1},
    {"Where", fold_where, 3},
    {"Cast", fold_same, 1},
    {"Neg", fold_neg, 1},
    {"Abs", fold_abs, 1},
    {"Sqrt", fold_sqrt, 1},
    {"Reciprocal", fold_reciprocal, 1},
    {"Floor", fold_floor, 1},
    {"Ceil", fold_ceil, 1},
    {"Round", fold_round, 1},
};
enum { OPERATORS = sizeof operators / sizeof operators[0] };

/* The element of a value that broadcasting puts at place `at` of the output. */
static double element(const stw_onnx_value *value, const stw_onnx_value *output, int64_t at) {
    int64_t index = 0, stride = 1;
    for (int32_t k = 1; k <= output->rank; k++) {
        const int64_t size = output->shape[output->rank - k], here = at % size;
        at /= size;
        if (k > value->rank) continue;
        const int64_t own = value->shape[value->rank - k];
        if (own != 1) index += here * stride;
        stride *= own;
    }
    return value->content[index];
}

static bool is_operand_known(const stw_onnx_value *value, const stw_onnx_value *output) {
    if (value == NULL || value->content == NULL || value->rank > output->rank) return false;
    for (int32_t k = 1; k <= value->rank; k++) {
        const int64_t own = value->shape[value->rank - k];
        if (own != 1 && own != output->shape[output->rank - k]) return false;
    }
    return true;
}

void stw_onnx_fold(stw_onnx_call *c) {
    stw_onnx_value *output = c->output_count > 0 ? c->output[0] : NULL;
    if (output == NULL || output->rank < 0 || output->content != NULL || stw_onnx_elements(output) > STW_ONNX_MAX_CONTENT) return;
    int32_t which = 0;
    const int32_t count = c->node->input_count;
    while (which < OPERATORS && !stw_str_is(c->node->op, operators[which].op)) which++;
    if (which == OPERATORS || (operators[which].inputs > 0 ? count != operators[which].inputs : count < 1)) return;
    for (int32_t k = 0; k < count; k++) {
        if (!is_operand_known(c->node->input[k], output)) return;
    }
    stw_onnx_value **in = c->node->input;
    double content[STW_ONNX_MAX_CONTENT];
    const int64_t elements = stw_onnx_elements(output);
    const bool integer = stw_onnx_is_integer(output->dtype);
    for (int64_t i = 0; i < elements; i++) {
        double value = element(in[0], output, i);
        if (operators[which].inputs > 0) {
            const double second = count > 1 ? element(in[1], output, i) : 0.0,
                         third = count > 2 ? element(in[2], output, i) : 0.0;
            value = operators[which].apply(value, second, third, integer);
        } else {
            for (int32_t k = 1; k < count; k++) value = operators[which].apply(value, element(in[k], output, i), 0.0, integer);
        }
        content[i] = value;
    }
    stw_onnx_put_content(c, 0, content, elements);
}
