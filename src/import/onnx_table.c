/* The table of ONNX operators, looked up by name, and what rules are made of. */
#include <math.h>

#include "import/onnx_rules.h"

static const stw_onnx_row rows[] = {
#define STW_ROW(names, rule, flops, basis) {names, stw_onnx_rule_##rule, flops, basis},
#include "import/onnx_shapes.def"
#undef STW_ROW
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0], SLOTS = 1024 }; /* a good deal more slots than names */

struct stw_onnx_table {
    struct {
        stw_str name;
        int32_t row;
    } slot[SLOTS];
};

static uint64_t find_slot(const stw_onnx_table *table, stw_str name) {
    uint64_t at = stw_str_hash(name) % SLOTS;
    while (table->slot[at].name.length > 0 && !stw_str_equal(table->slot[at].name, name)) at = (at + 1) % SLOTS;
    return at;
}

stw_status stw_onnx_table_create(stw_arena *arena, stw_onnx_table **out, stw_error *error) {
    STW_TRY_NEW(arena, *out, 1, error);
    for (int32_t row = 0; row < ROW_COUNT; row++) {
        for (const char *c = rows[row].names; *c != '\0';) {
            const char *start = c;
            while (*c != ' ' && *c != '\0') c++;
            const stw_str name = {start, (int64_t)(c - start)};
            const uint64_t at = find_slot(*out, name);
            (*out)->slot[at].name = name;
            (*out)->slot[at].row = row;
            while (*c == ' ') c++;
        }
    }
    return STW_OK;
}

const stw_onnx_row *stw_onnx_table_find(const stw_onnx_table *table, stw_str op) {
    const uint64_t at = find_slot(table, op);
    return table->slot[at].name.length > 0 ? &rows[table->slot[at].row] : NULL;
}

int32_t stw_onnx_dtype_named(const char *name) { return stw_dtype_find(stw_str_of(name)); }

bool stw_onnx_put(stw_onnx_call *c, int32_t k, int32_t dtype, int64_t rank, const int64_t *shape) {
    return k >= c->output_count || stw_onnx_set_shape(c->output[k], dtype, rank, shape, c->eval->arena);
}

bool stw_onnx_put_like(stw_onnx_call *c, int32_t k, const stw_onnx_value *value) {
    return stw_onnx_known(value) && stw_onnx_put(c, k, value->dtype, value->rank, value->shape);
}

bool stw_onnx_put_like_as(stw_onnx_call *c, int32_t k, const stw_onnx_value *value, const char *dtype) {
    return stw_onnx_known(value) && stw_onnx_put(c, k, stw_onnx_dtype_named(dtype), value->rank, value->shape);
}

void stw_onnx_put_content(stw_onnx_call *c, int32_t k, const double *content, int64_t count) {
    if (k >= c->output_count || c->output[k]->dtype < 0 || stw_onnx_elements(c->output[k]) != count) return;
    const bool integer = stw_onnx_is_integer(c->output[k]->dtype);
    if (count > (integer ? STW_ONNX_MAX_CONTENT : STW_ONNX_MAX_FLOAT_CONTENT)) return;
    double *copy = STW_NEW(c->eval->arena, double, count);
    if (copy == NULL) return;
    for (int64_t i = 0; i < count; i++) copy[i] = integer ? trunc(content[i]) : content[i];
    c->output[k]->content = copy;
}

bool stw_onnx_axis(int64_t axis, int64_t rank, int64_t *out) {
    if (axis < -rank || axis >= rank) return false;
    *out = axis < 0 ? axis + rank : axis;
    return true;
}

int64_t stw_onnx_round(double value) {
    if (!(value > -9.2e18)) return value != value ? 0 : INT64_MIN;
    return value < 9.2e18 ? (int64_t)value : INT64_MAX;
}

int64_t stw_onnx_numbers(const stw_onnx_call *c, int32_t k, int64_t *out, int64_t room) {
    const stw_onnx_value *value = stw_onnx_in(c, k);
    if (value == NULL || value->content == NULL) return -1;
    const int64_t count = stw_onnx_elements(value);
    for (int64_t i = 0; i < count && i < room; i++) out[i] = stw_onnx_round(value->content[i]);
    return count;
}

int64_t stw_onnx_list(const stw_onnx_call *c, const char *attribute, int32_t k, int64_t *out, int64_t room) {
    const int64_t count = stw_onnx_ints(c, attribute, out, room);
    return count >= 0 ? count : stw_onnx_numbers(c, k, out, room);
}

bool stw_onnx_broadcast(const stw_onnx_call *c, int32_t first, int32_t count, int64_t *shape, int64_t *rank) {
    *rank = 0;
    for (int32_t i = first; i < first + count; i++) {
        const stw_onnx_value *value = stw_onnx_shaped(c, i);
        if (value == NULL) return false;
        if (value->rank > *rank) *rank = value->rank;
    }
    for (int64_t d = 0; d < *rank; d++) shape[d] = 1;
    for (int32_t i = first; i < first + count; i++) {
        const stw_onnx_value *value = c->node->input[i];
        for (int32_t d = 0; d < value->rank; d++) {
            int64_t *to = &shape[*rank - value->rank + d];
            if (*to == 1)
                *to = value->shape[d];
            else if (value->shape[d] != 1 && value->shape[d] != *to)
                return false;
        }
    }
    return true;
}
