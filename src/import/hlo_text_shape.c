/* Shapes in HLO text: f32[8,<=128]{1,0:T(8,128)}, (s32[], bf16[2]{0}), token[]. */
#include "import/hlo_text.h"

static stw_str read_type(stw_hlo_text *t) {
    stw_hlo_skip_space(t);
    const char *start = t->cursor;
    while (t->cursor < t->end && ((*t->cursor >= 'a' && *t->cursor <= 'z') || (*t->cursor >= '0' && *t->cursor <= '9')))
        t->cursor++;
    return (stw_str){start, (int64_t)(t->cursor - start)};
}

/* "8,<=128,?": a bound counts as the size, an unbounded size as 1. */
static stw_status read_dimensions(stw_hlo_text *t, stw_hlo_shape *out) {
    out->first = t->module->number_count;
    if (stw_hlo_accept(t, "]")) return STW_OK;
    do {
        int64_t size = 1;
        const bool bounded = stw_hlo_accept(t, "<=");
        stw_hlo_skip_space(t);
        const char *start = t->cursor;
        const bool is_number = start < t->end && *start >= '0' && *start <= '9';
        if (is_number) {
            stw_hlo_next_number(&t->cursor, t->end, &size);
        } else if (bounded || !stw_hlo_accept(t, "?")) {
            return stw_hlo_text_fail(t, start, "a shape needs numbers between its brackets; write them as in f32[8,128]");
        }
        if (out->rank == STW_HLO_MAX_RANK)
            return stw_hlo_text_fail(t, start, "a shape of more than %d dimensions; merge some of them", STW_HLO_MAX_RANK);
        TRY(stw_hlo_add_number(t->module, size, t->error));
        out->rank++;
    } while (stw_hlo_accept(t, ","));
    return stw_hlo_expect(t, "]");
}

/* "{1,0:T(8,128)}", directly behind the dimensions. What follows the colon is skipped. */
static stw_status read_layout(stw_hlo_text *t, stw_hlo_shape *out) {
    const char *start = t->cursor;
    if (start == t->end || *start != '{') return STW_OK;
    const stw_str value = stw_hlo_value(t);
    int64_t length = 1;
    while (length < value.length && value.p[length] != ':' && value.p[length] != '}') length++;
    stw_hlo_range order = {0};
    TRY(stw_hlo_numbers(t, (stw_str){value.p, length}, &order));
    out->has_layout = order.count == out->rank; /* otherwise it says only tiles */
    return order.count == 0 || out->has_layout
               ? STW_OK
               : stw_hlo_text_fail(
                     t, start, "the layout does not fit the shape; name each of its dimensions once, or leave the layout out");
}

static stw_status read_tuple(stw_hlo_text *t, int32_t depth, stw_hlo_shape *out) {
    if (depth >= STW_HLO_MAX_DEPTH) {
        return stw_hlo_text_fail(t, t->cursor, "tuples nested more than %d deep; put their parts into one", STW_HLO_MAX_DEPTH);
    }
    enum { FEW = 16 };
    int32_t count = 0, room = FEW;
    stw_hlo_shape few[FEW], *parts = few;
    if (stw_hlo_accept(t, ")")) return stw_hlo_add_tuple(t->module, parts, 0, out, t->error);
    do {
        if (count == room) {
            stw_hlo_shape *more;
            STW_TRY_NEW(t->module->arena, more, 2 * (int64_t)room, t->error);
            for (int32_t k = 0; k < count; k++) more[k] = parts[k];
            parts = more;
            room *= 2;
        }
        TRY(stw_hlo_read_shape(t, depth + 1, &parts[count++]));
    } while (stw_hlo_accept(t, ","));
    TRY(stw_hlo_expect(t, ")"));
    return stw_hlo_add_tuple(t->module, parts, count, out, t->error);
}

stw_status stw_hlo_read_shape(stw_hlo_text *t, int32_t depth, stw_hlo_shape *out) {
    if (stw_hlo_accept(t, "(")) return read_tuple(t, depth, out);
    const char *start = t->cursor;
    const stw_str type = read_type(t);
    *out = (stw_hlo_shape){.kind = STW_HLO_ARRAY};
    int64_t bits = 0;
    const bool is_token = stw_str_is(type, "token") || stw_str_is(type, "opaque");
    if (!is_token && !stw_hlo_find_type(type, &out->dtype, &bits)) {
        return stw_hlo_text_fail(t, start, "a shape is expected, such as f32[8,128]; '%.*s' is no type", STW_STR_SHOW(type));
    }
    TRY(stw_hlo_expect(t, "["));
    TRY(read_dimensions(t, out));
    if (!stw_hlo_measure_array(t->module, out, bits)) {
        return stw_hlo_text_fail(t, start, "the shape holds more than 2^56 bytes; check its dimensions");
    }
    if (is_token) {
        out->kind = STW_HLO_TOKEN;
        out->dtype = STW_UNKNOWN;
        out->elements = out->bytes = out->rank = 0;
    }
    return read_layout(t, out);
}

void stw_hlo_skip_shape(stw_hlo_text *t) {
    stw_hlo_skip_space(t);
    const char *start = t->cursor;
    if (start < t->end && *start == '(') {
        stw_hlo_value(t);
        return;
    }
    read_type(t);
    if (t->cursor > start && t->cursor < t->end && *t->cursor == '[') {
        stw_hlo_value(t); /* the dimensions and the layout behind them */
    } else {
        t->cursor = start;
    }
}
