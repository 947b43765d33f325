/* Prints fields of an HloInstructionProto that hold a number, a list, a flag or a word: key=value. */
#include <string.h>

#include "export/hlo_print.h"

/* ---- fields that are printed as they are ---- */

typedef enum { NUMBER, GROUP_COUNT /* 1 is as usual */, FLAG, LIST, WORD, QUOTED, REAL } field_kind;

typedef struct simple_field {
    int32_t number;
    const char *name;
    field_kind kind;
    bool empty_too; /* a list that is printed even if there is nothing in it */
} simple_field;

static const simple_field of_instruction[] = {
    {HLO_FEATURE_GROUP_COUNT, "feature_group_count", GROUP_COUNT, false},
    {HLO_BATCH_GROUP_COUNT, "batch_group_count", GROUP_COUNT, false},
    {HLO_EXPONENT_BITS, "exponent_bits", NUMBER, false},
    {HLO_MANTISSA_BITS, "mantissa_bits", NUMBER, false},
    {HLO_DYNAMIC_SLICE_SIZES, "dynamic_slice_sizes", LIST, false},
    {HLO_OUTFEED_CONFIG, "outfeed_config", QUOTED, false},
    {HLO_INFEED_CONFIG, "infeed_config", QUOTED, false},
    {HLO_EPSILON, "epsilon", REAL, false},
    {HLO_CHANNEL_ID, "channel_id", NUMBER, false},
    {HLO_CALL_TARGET, "custom_call_target", QUOTED, false},
    {HLO_FFT_LENGTH, "fft_length", LIST, false},
    {HLO_FUSION_KIND, "kind", WORD, false},
    {HLO_COMPARISON_DIRECTION, "direction", WORD, false},
    {HLO_GATHER_SLICE_SIZES, "slice_sizes", LIST, false},
    {HLO_USE_GLOBAL_DEVICE_IDS, "use_global_device_ids", FLAG, false},
    {HLO_IS_HOST_TRANSFER, "is_host_transfer", FLAG, false},
    {HLO_IS_STABLE, "is_stable", FLAG, false},
    {HLO_CALL_HAS_SIDE_EFFECT, "custom_call_has_side_effect", FLAG, false},
    {HLO_DELTA, "delta", NUMBER, false},
    {HLO_INDICES_ARE_SORTED, "indices_are_sorted", FLAG, false},
    {HLO_UNIQUE_INDICES, "unique_indices", FLAG, false},
    {HLO_TOP_K, "k", NUMBER, false},
    {HLO_LARGEST, "largest", FLAG, false},
    {HLO_IS_COMPOSITE, "is_composite", FLAG, false},
};
static const simple_field of_dot[] = {{HLO_DOT_LEFT_BATCH, "lhs_batch_dims", LIST, false},
                                      {HLO_DOT_LEFT_CONTRACTING, "lhs_contracting_dims", LIST, false},
                                      {HLO_DOT_RIGHT_BATCH, "rhs_batch_dims", LIST, false},
                                      {HLO_DOT_RIGHT_CONTRACTING, "rhs_contracting_dims", LIST, false}};
static const simple_field of_ragged_dot[] = {{HLO_RAGGED_LEFT, "lhs_ragged_dims", LIST, false},
                                             {HLO_RAGGED_GROUPS, "rhs_group_dims", LIST, false}};
static const simple_field of_gather[] = {{HLO_GATHER_OFFSET, "offset_dims", LIST, true},
                                         {HLO_GATHER_COLLAPSED, "collapsed_slice_dims", LIST, true},
                                         {HLO_GATHER_START_MAP, "start_index_map", LIST, true},
                                         {HLO_GATHER_OPERAND_BATCH, "operand_batching_dims", LIST, false},
                                         {HLO_GATHER_INDEX_BATCH, "start_indices_batching_dims", LIST, false}};
static const simple_field of_scatter[] = {{HLO_SCATTER_WINDOW, "update_window_dims", LIST, true},
                                          {HLO_SCATTER_INSERTED, "inserted_window_dims", LIST, true},
                                          {HLO_SCATTER_MAP, "scatter_dims_to_operand_dims", LIST, true},
                                          {HLO_SCATTER_INPUT_BATCH, "input_batching_dims", LIST, false},
                                          {HLO_SCATTER_INDEX_BATCH, "scatter_indices_batching_dims", LIST, false}};
static const simple_field of_solve[] = {{HLO_SOLVE_LEFT_SIDE, "left_side", FLAG, false},
                                        {HLO_SOLVE_LOWER, "lower", FLAG, false},
                                        {HLO_SOLVE_UNIT_DIAGONAL, "unit_diagonal", FLAG, false}};
static const simple_field of_cholesky[] = {{HLO_CHOLESKY_LOWER, "lower", FLAG, false}};

void stw_hlo_print_list(stw_hlo_printer *p, const char *key, stw_str message, int64_t field) {
    const stw_hlo_ints list = stw_hlo_ints_of(p, message, field);
    stw_hlo_print_key(p, key);
    stw_hlo_put(&p->out, "{");
    stw_hlo_print_ints(p, &list, ",");
    stw_hlo_put(&p->out, "}");
}

static void print_number(stw_hlo_printer *p, const char *key, int64_t number) {
    stw_hlo_print_key(p, key);
    stw_hlo_put_format(&p->out, "%lld", (long long)number);
}

static void print_real(stw_hlo_printer *p, const char *key, stw_str message, int64_t field) {
    double value = 0.0;
    stw_error ignored = {0};
    stw_pb_file file = stw_pb_open(message, &ignored);
    stw_pb fields = stw_pb_message(&file);
    for (stw_pb_field f; stw_pb_next(&fields, &f);) {
        if (f.number == field) stw_pb_float(&fields, &f, &value);
    }
    stw_hlo_print_key(p, key);
    stw_hlo_put_format(&p->out, "%.9g", (double)(float)value);
}

static void print_text(stw_hlo_printer *p, const char *key, stw_str text, bool quoted) {
    if (text.length == 0) return;
    stw_hlo_print_key(p, key);
    if (quoted) {
        stw_hlo_put_quoted(&p->out, text);
    } else {
        stw_hlo_put_str(&p->out, text);
    }
}

static void print_plain(stw_hlo_printer *p, const char *key, stw_str word) {
    if (word.length > 0) print_text(p, key, stw_hlo_clean_name(p->arena, word), false);
}

static void print_simple(stw_hlo_printer *p, stw_str message, const simple_field *field) {
    if (stw_hlo_field(message, field->number).length == 0 && !field->empty_too) return;
    const int64_t number = stw_hlo_int_of(message, field->number);
    switch (field->kind) {
        case NUMBER:
            if (number > 0) print_number(p, field->name, number);
            return;
        case GROUP_COUNT:
            if (number > 1) print_number(p, field->name, number);
            return;
        case FLAG:
            if (number > 0) print_text(p, field->name, STW_STR("true"), false);
            return;
        case LIST: stw_hlo_print_list(p, field->name, message, field->number); return;
        case REAL: print_real(p, field->name, message, field->number); return;
        case WORD: print_plain(p, field->name, stw_hlo_content(message, field->number)); return;
        case QUOTED: print_text(p, field->name, stw_hlo_content(message, field->number), true); return;
    }
}

static void print_all(stw_hlo_printer *p, stw_str message, const simple_field *field, size_t count) {
    for (size_t k = 0; k < count; k++) print_simple(p, message, &field[k]);
}
#define PRINT_ALL(p, message, fields) print_all(p, message, fields, sizeof fields / sizeof fields[0])

void stw_hlo_print_simple(stw_hlo_printer *p, const stw_hlo_instruction *i) { PRINT_ALL(p, i->attributes, of_instruction); }

/* ---- numbers of dimensions ---- */

static void print_index_vector(stw_hlo_printer *p, int64_t dimension) { print_number(p, "index_vector_dim", dimension); }

void stw_hlo_print_numbers(stw_hlo_printer *p, const stw_hlo_instruction *i) {
    const stw_str message = i->attributes, ragged = stw_hlo_content(message, HLO_RAGGED_DOT_NUMBERS);
    const bool is_ragged = ragged.length > 0;
    const stw_str dot = is_ragged ? stw_hlo_content(ragged, HLO_RAGGED_DOT) : stw_hlo_content(message, HLO_DOT_NUMBERS);
    PRINT_ALL(p, dot, of_dot);
    PRINT_ALL(p, ragged, of_ragged_dot);
    if (i->rule == STW_HLO_SCATTER) {
        const stw_str scatter = stw_hlo_content(message, HLO_SCATTER_NUMBERS);
        PRINT_ALL(p, scatter, of_scatter);
        print_index_vector(p, stw_hlo_int_of(scatter, HLO_SCATTER_VECTOR));
    } else if (stw_str_is(i->opcode, "gather")) {
        const stw_str gather = stw_hlo_content(message, HLO_GATHER_NUMBERS);
        PRINT_ALL(p, gather, of_gather);
        print_index_vector(p, stw_hlo_int_of(gather, HLO_GATHER_VECTOR));
    }
    if (i->rule == STW_HLO_NORMALIZATION) print_number(p, "feature_index", stw_hlo_int_of(message, HLO_FEATURE_INDEX));
}

/* ---- words for numbers ---- */

typedef struct word_field {
    const char *opcode; /* NULL: any */
    int32_t number;
    const char *name;
    const char *word[5]; /* by number; NULL: none is printed */
} word_field;

static const word_field words[] = {
    {"fft", HLO_FFT_TYPE, "fft_type", {"FFT", "IFFT", "RFFT", "IRFFT"}},
    {"rng", HLO_DISTRIBUTION, "distribution", {NULL, "rng_uniform", "rng_normal"}},
    {"rng-bit-generator", HLO_RNG_ALGORITHM, "algorithm", {"rng_default", "rng_three_fry", "rng_philox"}},
    {"custom-call",
     HLO_CALL_API_VERSION,
     "api_version",
     {NULL, NULL, "API_VERSION_STATUS_RETURNING", "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI"}},
    {"custom-call", HLO_CALL_SCHEDULE, "schedule", {NULL, "SCHEDULE_LATEST", "SCHEDULE_EARLIEST"}},
    {NULL, HLO_PADDING_TYPE, "padding_type", {NULL, "PADDING_VALID", "PADDING_SAME"}},
};
static const word_field transpose_word = {
    NULL, HLO_SOLVE_TRANSPOSE, "transpose_a", {NULL, "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"}};

static void print_word(stw_hlo_printer *p, stw_str message, const word_field *field) {
    const int64_t number = stw_hlo_int_of(message, field->number);
    const bool known = number >= 0 && number < (int64_t)(sizeof field->word / sizeof field->word[0]);
    if (known && field->word[number] != NULL) print_text(p, field->name, stw_str_of(field->word[number]), false);
}

void stw_hlo_print_words(stw_hlo_printer *p, const stw_hlo_instruction *i) {
    const stw_str message = i->attributes;
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        if (words[k].opcode == NULL || stw_str_is(i->opcode, words[k].opcode)) print_word(p, message, &words[k]);
    }
    if (i->rule == STW_HLO_SOLVE) {
        const stw_str solve = stw_hlo_content(message, HLO_SOLVE_OPTIONS);
        PRINT_ALL(p, solve, of_solve);
        print_word(p, solve, &transpose_word);
    }
    if (i->rule == STW_HLO_CHOLESKY) PRINT_ALL(p, stw_hlo_content(message, HLO_CHOLESKY_OPTIONS), of_cholesky);
    const stw_str comparison = stw_hlo_content(message, HLO_COMPARISON_TYPE);
    if (stw_str_is(comparison, "TOTALORDER")) print_text(p, "type", comparison, false);
}
