/* The key=value pairs behind an HLO instruction. All stay as text; those that decide costs and structure are taken apart. */
#include "import/hlo_text.h"

enum {
    CALLS,
    TO_APPLY,
    BODY,
    CONDITION,
    BRANCHES,
    TRUE_BRANCH,
    FALSE_BRANCH,
    CALLED,
    SELECT,
    INDEX,
    DIMENSIONS,
    CONTRACTING,
    BATCH,
    WINDOW,
    LABELS,
    DIRECTION,
    CONTROL,
    TARGET,
    CONFIG,
    KIND,
    METADATA,
    EFFECT,
    ALIASING,
    FRONTEND,
    KEYS
};
static const char *const keys[KEYS] = {"calls",
                                       "to_apply",
                                       "body",
                                       "condition",
                                       "branch_computations",
                                       "true_computation",
                                       "false_computation",
                                       "called_computations",
                                       "select",
                                       "index",
                                       "dimensions",
                                       "lhs_contracting_dims",
                                       "lhs_batch_dims",
                                       "window",
                                       "dim_labels",
                                       "direction",
                                       "control-predecessors",
                                       "custom_call_target",
                                       "backend_config",
                                       "kind",
                                       "metadata",
                                       "custom_call_has_side_effect",
                                       "output_to_operand_aliasing",
                                       "frontend_attributes"};

static int find_key(stw_str key) {
    int k = 0;
    while (k < KEYS && !stw_str_is(key, keys[k])) k++;
    return k;
}

/* The next name of "%a" or "{%a, %b}"; false: no more. */
static bool next_name(stw_hlo_text *t, stw_str *out) {
    for (;;) {
        *out = stw_hlo_word(t);
        if (out->length > 0) return true;
        if (t->cursor >= t->end) return false;
        t->cursor++;
    }
}

/* Appends what the names stand for: computations (scope -1) or instructions. */
static stw_status add_names(stw_hlo_text *t, stw_str value, int32_t scope, stw_hlo_range *out) {
    stw_hlo_text inner = *t;
    inner.cursor = value.p;
    inner.end = value.p + value.length;
    for (stw_str name; next_name(&inner, &name); out->count++) {
        const int32_t found = stw_hlo_find_name(t->module, scope, name);
        if (found < 0) {
            return stw_hlo_text_fail(t, name.p, "%s '%.*s' is not defined above; put it before whatever names it",
                                     scope < 0 ? "computation" : "instruction", STW_STR_SHOW(name));
        }
        TRY(stw_hlo_add_number(t->module, found, t->error));
    }
    return STW_OK;
}

static stw_status add_called(stw_hlo_text *t, const stw_str *value, stw_hlo_range *out) {
    static const int order[] = {BODY, CONDITION, CALLS, TO_APPLY, BRANCHES, TRUE_BRANCH, FALSE_BRANCH, CALLED};
    out->first = t->module->number_count;
    for (int k = 0; k < (int)(sizeof order / sizeof order[0]); k++) {
        if (value[order[k]].length > 0) TRY(add_names(t, value[order[k]], -1, out));
    }
    return STW_OK;
}

/* Up to the end of the string, without quotes; escapes stay. */
static stw_str until_quote(stw_str text) {
    int64_t k = 0;
    while (k < text.length && text.p[k] != '"') k += text.p[k] == '\\' && k + 1 < text.length ? 2 : 1;
    return (stw_str){text.p, k};
}

/* window={size=3x3 stride=2x2 lhs_dilate=2x2}: the numbers of one field. */
static stw_status read_window(stw_hlo_text *t, stw_str value, const char *field, stw_hlo_range *out) {
    stw_str part = stw_hlo_find_after(value, field);
    int64_t k = 0;
    while (k < part.length && part.p[k] != ' ' && part.p[k] != '}') k++;
    part.length = k;
    return part.length > 0 ? stw_hlo_numbers(t, part, out) : STW_OK;
}

/* dim_labels=b01f_01io->b01f: the place of o between the underscore and the arrow. */
static int16_t find_kernel_output(stw_str labels) {
    stw_str kernel = stw_hlo_find_after(labels, "_");
    for (int16_t k = 0; k < kernel.length && k < INT16_MAX && kernel.p[k] != '-'; k++) {
        if (kernel.p[k] == 'o') return k;
    }
    return STW_UNKNOWN;
}

static stw_status take_apart(stw_hlo_text *t, const stw_str *value, stw_hlo_instruction *i) {
    if (value[INDEX].length > 0 && !stw_str_to_int64(value[INDEX], &i->number)) {
        return stw_hlo_text_fail(t, value[INDEX].p, "index must be a number; write it as in index=0");
    }
    TRY(add_called(t, value, &i->called));
    i->control.first = t->module->number_count;
    if (value[CONTROL].length > 0) TRY(add_names(t, value[CONTROL], t->scope, &i->control));
    const bool has_dimensions = i->rule == STW_HLO_TRANSPOSE || i->rule == STW_HLO_REDUCE;
    if (value[DIMENSIONS].length > 0 && has_dimensions) TRY(stw_hlo_numbers(t, value[DIMENSIONS], &i->dimensions));
    if (value[CONTRACTING].length > 0) TRY(stw_hlo_numbers(t, value[CONTRACTING], &i->contracting));
    if (value[BATCH].length > 0) TRY(stw_hlo_numbers(t, value[BATCH], &i->batch));
    if (value[WINDOW].length > 0) {
        TRY(read_window(t, value[WINDOW], "size=", &i->window));
        TRY(read_window(t, value[WINDOW], "lhs_dilate=", &i->dilation));
    }
    i->kernel_output = find_kernel_output(value[LABELS]);
    i->direction = (uint8_t)stw_hlo_find_direction(value[DIRECTION]);
    i->config = value[CONFIG];
    i->kind = value[KIND];
    i->has_effect = stw_str_is(value[EFFECT], "true");
    i->aliases = value[ALIASING].length > 0;
    i->op_name = until_quote(stw_hlo_find_after(value[METADATA], "op_name=\""));
    if (value[TARGET].length > 1) i->target = until_quote((stw_str){value[TARGET].p + 1, value[TARGET].length - 1});
    return stw_hlo_text_note(value[FRONTEND], t->module->arena, &i->note, t->error);
}

stw_status stw_hlo_read_attributes(stw_hlo_text *t, stw_hlo_instruction *i) {
    stw_str value[KEYS + 1] = {{0}};
    stw_hlo_meaning meaning = {.arena = t->module->arena};
    stw_hlo_skip_space(t);
    const char *start = t->cursor, *last = t->cursor;
    while (stw_hlo_accept(t, ",")) {
        const stw_str key = stw_hlo_word(t);
        if (key.length == 0)
            return stw_hlo_text_fail(
                t, t->cursor, "an attribute is expected behind the comma; write it as in dimensions={0}, or take the comma away");
        TRY(stw_hlo_expect(t, "="));
        const int which = find_key(key);
        stw_hlo_skip_space(t);
        if (which < KEYS && value[which].p != NULL) {
            return stw_hlo_text_fail(t, key.p, "'%s' stands twice; keep one", keys[which]);
        }
        value[which] = stw_hlo_value(t);
        last = t->cursor;
        stw_hlo_text_mean(&meaning, key, value[which]);
    }
    i->attributes = (stw_str){start, (int64_t)(last - start)};
    TRY(stw_hlo_mean_end(&meaning, i, t->error));
    return take_apart(t, value, i);
}

/* "{0, 1}" at the cursor. */
static stw_status read_path(stw_hlo_text *t, stw_hlo_range *out) {
    TRY(stw_hlo_expect(t, "{"));
    const char *start = t->cursor;
    while (t->cursor < t->end && *t->cursor != '}') t->cursor++;
    TRY(stw_hlo_numbers(t, (stw_str){start, (int64_t)(t->cursor - start)}, out));
    return stw_hlo_expect(t, "}");
}

stw_status stw_hlo_read_aliases(stw_hlo_text *t, stw_str value) {
    stw_hlo_text inner = *t;
    inner.cursor = value.p;
    inner.end = value.p + value.length;
    TRY(stw_hlo_expect(&inner, "{"));
    if (stw_hlo_accept(&inner, "}")) return STW_OK;
    do { /* {0}: (18, {}, may-alias) */
        stw_hlo_alias alias = {.parameter = -1};
        TRY(read_path(&inner, &alias.output));
        TRY(stw_hlo_expect(&inner, ":"));
        TRY(stw_hlo_expect(&inner, "("));
        const stw_str number = stw_hlo_word(&inner);
        if (!stw_str_to_int64(number, &alias.parameter)) {
            return stw_hlo_text_fail(
                t, number.p, "input_output_alias: the number of a parameter is expected; write it as in {0}: (0, {}, may-alias)");
        }
        if (stw_hlo_accept(&inner, ",")) TRY(read_path(&inner, &alias.parameter_part));
        if (stw_hlo_accept(&inner, ",")) stw_hlo_word(&inner);
        TRY(stw_hlo_expect(&inner, ")"));
        TRY(stw_hlo_add_alias(t->module, &alias, t->error));
    } while (stw_hlo_accept(&inner, ","));
    return stw_hlo_expect(&inner, "}");
}
