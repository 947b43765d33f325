/* What the rules of operators are made of. A rule sets shapes of outputs, and where it can, numbers and FLOPs; it returns false
 * when it does not know, and then what the file declares holds. */
#ifndef STW_IMPORT_ONNX_ONNX_RULES_H
#define STW_IMPORT_ONNX_ONNX_RULES_H

#include "import/onnx/onnx.h"

typedef bool stw_onnx_rule(stw_onnx_call *c);

typedef enum stw_onnx_basis { STW_PER_OUTPUT, STW_PER_INPUT, STW_BY_RULE } stw_onnx_basis;

struct stw_onnx_row {
    const char *names; /* separated by spaces */
    stw_onnx_rule *rule;
    int32_t flops; /* per element */
    stw_onnx_basis basis;
};

stw_status stw_onnx_table_create(stw_arena *arena, stw_onnx_table **out, stw_error *error);

#define STW_ROW(names, rule, flops, basis) stw_onnx_rule stw_onnx_rule_##rule;
#include "import/onnx/shapes.def"
#undef STW_ROW

/* Input k, or NULL when it is left out. */
static inline stw_onnx_value *stw_onnx_in(const stw_onnx_call *c, int32_t k) {
    return k < c->node->input_count ? c->node->input[k] : NULL;
}
static inline bool stw_onnx_known(const stw_onnx_value *value) { return value != NULL && value->rank >= 0; }
/* Input k if its shape is known, else NULL. */
static inline const stw_onnx_value *stw_onnx_shaped(const stw_onnx_call *c, int32_t k) {
    const stw_onnx_value *value = stw_onnx_in(c, k);
    return stw_onnx_known(value) ? value : NULL;
}

/* Of the operators of the standard, not of somebody's own? */
static inline bool stw_onnx_is_standard(const stw_onnx_node *node) {
    return node->domain.length == 0 || stw_str_is(node->domain, "ai.onnx");
}

/* Sets output k, which need not be there; false when a dimension is out of range. */
bool stw_onnx_put(stw_onnx_call *c, int32_t k, int32_t dtype, int64_t rank, const int64_t *shape);
bool stw_onnx_put_like(stw_onnx_call *c, int32_t k, const stw_onnx_value *value); /* false when that is not known */
bool stw_onnx_put_like_as(stw_onnx_call *c, int32_t k, const stw_onnx_value *value, const char *dtype);
/* Numbers of output k; nothing happens when there are too many or not as many as elements. */
void stw_onnx_put_content(stw_onnx_call *c, int32_t k, const double *content, int64_t count);
int32_t stw_onnx_dtype_named(const char *name);

/* An axis counted from the end if negative; false when out of range. */
bool stw_onnx_axis(int64_t axis, int64_t rank, int64_t *out);
/* Numbers of input k as integers, at most `room`; -1 when not known. */
int64_t stw_onnx_numbers(const stw_onnx_call *c, int32_t k, int64_t *out, int64_t room);
/* The same from the attribute if it is there, else from the input. */
int64_t stw_onnx_list(const stw_onnx_call *c, const char *attribute, int32_t k, int64_t *out, int64_t room);
int64_t stw_onnx_round(double value); /* toward zero, within int64 */
/* The shape of inputs [first, first + count) broadcast against each other; false when one is not known or they do not fit. */
bool stw_onnx_broadcast(const stw_onnx_call *c, int32_t first, int32_t count, int64_t *shape, int64_t *rank);

/* Element-wise arithmetic on known numbers, where the operator has one. */
void stw_onnx_fold(stw_onnx_call *c);

#endif
