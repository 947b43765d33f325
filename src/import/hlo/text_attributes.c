/* The key=value pairs behind an HLO instruction in text. All stay as text; those that decide costs and structure are taken apart.
 */
#include "import/hlo/meaning.h"
#include "import/hlo/text.h"

/* ---- what they mean ---- */

/* In the common form (meaning.h). */

typedef enum { LIST, NUMBER, COUNT, WORD, WINDOW_FORM, SLICE, PADDING } form;

static const struct {
    const char *key;
    form form;
    const char *common; /* its name in the common form; NULL: the same */
} known[] = {
    {"dimensions", LIST, NULL},
    {"iota_dimension", LIST, "dimensions"},
    {"lhs_contracting_dims", LIST, NULL},
    {"rhs_contracting_dims", LIST, NULL},
    {"lhs_batch_dims", LIST, NULL},
    {"rhs_batch_dims", LIST, NULL},
    {"slice", SLICE, NULL},
    {"dynamic_slice_sizes", LIST, NULL},
    {"padding", PADDING, NULL},
    {"window", WINDOW_FORM, NULL},
    {"dim_labels", WORD, NULL},
    {"feature_group_count", COUNT, NULL},
    {"batch_group_count", COUNT, NULL},
    {"offset_dims", LIST, NULL},
    {"collapsed_slice_dims", LIST, NULL},
    {"start_index_map", LIST, NULL},
    {"operand_batching_dims", LIST, NULL},
    {"start_indices_batching_dims", LIST, NULL},
    {"slice_sizes", LIST, NULL},
    {"update_window_dims", LIST, NULL},
    {"inserted_window_dims", LIST, NULL},
    {"scatter_dims_to_operand_dims", LIST, NULL},
    {"input_batching_dims", LIST, NULL},
    {"scatter_indices_batching_dims", LIST, NULL},
    {"index_vector_dim", NUMBER, NULL},
    {"direction", WORD, NULL},
    {"kind", WORD, NULL},
    {"fft_length", LIST, NULL},
    {"feature_index", NUMBER, NULL},
    {"exponent_bits", NUMBER, NULL},
    {"mantissa_bits", NUMBER, NULL},
};
enum { KNOWN = sizeof known / sizeof known[0], MOST_NUMBERS = 8 * STW_HLO_MAX_RANK };

typedef struct {
    int64_t number[MOST_NUMBERS];
    int64_t count;
} numbers;

static void add(numbers *n, int64_t number) {
    if (n->count < MOST_NUMBERS) n->number[n->count++] = number;
}

/* The piece up to `separator` or the end; false: no more. */
static bool next_piece(stw_str *rest, char separator, stw_str *out) {
    int64_t k = 0;
    if (rest->length <= 0) return false;
    while (k < rest->length && rest->p[k] != separator) k++;
    *out = (stw_str){rest->p, k};
    *rest = (stw_str){rest->p + k, rest->length - k};
    if (rest->length > 0) *rest = (stw_str){rest->p + 1, rest->length - 1};
    return true;
}

/* Up to `room` numbers of a piece; how many. */
static int read_few(stw_str piece, int64_t *out, int room) {
    int count = 0;
    for (const char *c = piece.p; count < room && stw_hlo_next_number(&c, piece.p + piece.length, &out[count]);) count++;
    return count;
}

static void read_list(stw_str value, numbers *n) {
    int64_t number = 0;
    for (const char *c = value.p; stw_hlo_next_number(&c, value.p + value.length, &number);) add(n, number);
}

/* {[0:2], [1:9:2]}: start, limit, stride of each dimension. */
static void read_slice(stw_str value, numbers *n) {
    for (stw_str piece; next_piece(&value, ']', &piece);) {
        int64_t part[3] = {0, 0, 1};
        if (read_few(piece, part, 3) < 2) continue;
        for (int k = 0; k < 3; k++) add(n, part[k]);
    }
}

/* 0_0x1_1_2: low, high and interior of each dimension. */
static void read_padding(stw_str value, numbers *n) {
    for (stw_str piece; next_piece(&value, 'x', &piece);) {
        int64_t part[3] = {0, 0, 0};
        if (read_few(piece, part, 3) < 2) continue;
        for (int k = 0; k < 3; k++) add(n, part[k]);
    }
}

/* {size=3x3 pad=1_1x1_1 rhs_reversal=1x1}: what is not said is as usual. */
static void mean_window(stw_str value, numbers *n) {
    static const struct {
        const char *key;
        int first, count; /* places among the numbers of a dimension */
    } fields[] = {{"size=", 0, 1},       {"stride=", 1, 1},     {"pad=", 2, 2},
                  {"rhs_dilate=", 4, 1}, {"lhs_dilate=", 5, 1}, {"rhs_reversal=", 6, 1}};
    static const int64_t usual[STW_HLO_WINDOW_NUMBERS] = {1, 1, 0, 0, 1, 1, 0};
    for (size_t f = 0; f < sizeof fields / sizeof fields[0]; f++) {
        stw_str part = stw_hlo_find_after(value, fields[f].key), piece;
        int64_t end = 0;
        while (end < part.length && part.p[end] != ' ' && part.p[end] != '}') end++;
        part.length = end;
        for (int64_t at = 0; next_piece(&part, 'x', &piece); at += STW_HLO_WINDOW_NUMBERS) {
            for (int k = 0; f == 0 && k < STW_HLO_WINDOW_NUMBERS; k++) add(n, usual[k]);
            if (at + STW_HLO_WINDOW_NUMBERS > n->count) break;
            read_few(piece, &n->number[at + fields[f].first], fields[f].count);
        }
    }
}

static void mean(stw_hlo_meaning *w, stw_str key, stw_str value) {
    int k = 0;
    while (k < KNOWN && !stw_str_is(key, known[k].key)) k++;
    if (k == KNOWN) return;
    const char *common = known[k].common != NULL ? known[k].common : known[k].key;
    numbers n;
    n.count = 0;
    int64_t number = 0;
    switch (known[k].form) {
        case WORD: stw_hlo_mean_text(w, common, value); return;
        case NUMBER:
        case COUNT:
            if (read_few(value, &number, 1) == 1) stw_hlo_mean_number(w, common, number, known[k].form == COUNT ? 1 : 0);
            return;
        case LIST: read_list(value, &n); break;
        case SLICE: read_slice(value, &n); break;
        case PADDING: read_padding(value, &n); break;
        case WINDOW_FORM: mean_window(value, &n); break;
    }
    stw_hlo_mean_list(w, common, n.number, n.count);
}

/* ---- the pairs ---- */

/* The key=value pairs behind an HLO instruction. All stay as text; those that decide costs and structure are taken apart. */

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
        mean(&meaning, key, value[which]);
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
