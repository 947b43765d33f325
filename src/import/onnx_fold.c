/* Arithmetic on small tensors whose numbers are known: what computes shapes is worked out here and leaves the graph. */
#include <math.h>

#include "import/onnx_rules.h"

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

static bool is_readable(const stw_onnx_value *value, const stw_onnx_value *output) {
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
        if (!is_readable(c->node->input[k], output)) return;
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
