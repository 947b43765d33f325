/* Prints what stands behind the operands of an instruction, from the fields of its HloInstructionProto: key=value. */
#include <string.h>

#include "export/hlo/print.h"

/* ---- numbers, flags, lists and words ---- */

/* Prints fields of an HloInstructionProto that hold a number, a list, a flag or a word: key=value. */

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

static void print_list(stw_hlo_printer *p, const char *key, stw_str message, int64_t field) {
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
        case LIST: print_list(p, field->name, message, field->number); return;
        case REAL: print_real(p, field->name, message, field->number); return;
        case WORD: print_plain(p, field->name, stw_hlo_content(message, field->number)); return;
        case QUOTED: print_text(p, field->name, stw_hlo_content(message, field->number), true); return;
    }
}

static void print_all(stw_hlo_printer *p, stw_str message, const simple_field *field, size_t count) {
    for (size_t k = 0; k < count; k++) print_simple(p, message, &field[k]);
}
#define PRINT_ALL(p, message, fields) print_all(p, message, fields, sizeof fields / sizeof fields[0])

/* what stands in the file as it is printed */
static void print_as_is(stw_hlo_printer *p, const stw_hlo_instruction *i) { PRINT_ALL(p, i->attributes, of_instruction); }

/* ---- numbers of dimensions ---- */

static void print_index_vector(stw_hlo_printer *p, int64_t dimension) { print_number(p, "index_vector_dim", dimension); }

/* of dot, gather, scatter, normalization */
static void print_numbers(stw_hlo_printer *p, const stw_hlo_instruction *i) {
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

/* for numbers of enumerations */
static void print_words(stw_hlo_printer *p, const stw_hlo_instruction *i) {
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

/* ---- windows ---- */

/* Prints windows, paddings, slices and the labels of a convolution. */

/* One field of all dimensions, joined by x; only if one of them is not as usual. */
static void print_window_field(stw_hlo_printer *p, stw_str window, const char *key, int64_t field, int64_t usual, bool *any) {
    stw_str dimension;
    const bool is_padding = field == HLO_WINDOW_PADDING_LOW;
    bool differs = field == HLO_WINDOW_SIZE;
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, window, HLO_WINDOW_DIMENSION, &dimension);) {
        const int64_t value = stw_hlo_int_of(dimension, field);
        differs |= value != usual && !(value == 0 && usual == 1);
        if (is_padding) differs |= stw_hlo_int_of(dimension, HLO_WINDOW_PADDING_HIGH) != 0;
    }
    if (!differs) return;
    stw_hlo_put(&p->out, *any ? " " : "");
    *any = true;
    stw_hlo_put(&p->out, key);
    int64_t count = 0;
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, window, HLO_WINDOW_DIMENSION, &dimension); count++) {
        int64_t value = stw_hlo_int_of(dimension, field);
        if (value == 0 && usual == 1) value = 1;
        stw_hlo_put_format(&p->out, "%s%lld", count > 0 ? "x" : "", (long long)value);
        if (is_padding) stw_hlo_put_format(&p->out, "_%lld", (long long)stw_hlo_int_of(dimension, HLO_WINDOW_PADDING_HIGH));
    }
}

static void print_window(stw_hlo_printer *p, stw_str window) {
    bool any = false;
    if (stw_hlo_field(window, HLO_WINDOW_DIMENSION).length == 0) return;
    stw_hlo_print_key(p, "window");
    stw_hlo_put(&p->out, "{");
    print_window_field(p, window, "size=", HLO_WINDOW_SIZE, -1, &any);
    print_window_field(p, window, "stride=", HLO_WINDOW_STRIDE, 1, &any);
    print_window_field(p, window, "pad=", HLO_WINDOW_PADDING_LOW, 0, &any);
    print_window_field(p, window, "lhs_dilate=", HLO_WINDOW_BASE_DILATION, 1, &any);
    print_window_field(p, window, "rhs_dilate=", HLO_WINDOW_DILATION, 1, &any);
    print_window_field(p, window, "rhs_reversal=", HLO_WINDOW_REVERSAL, 0, &any);
    stw_hlo_put(&p->out, "}");
}

static void print_padding(stw_hlo_printer *p, stw_str config) {
    stw_str dimension;
    int64_t count = 0;
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, config, HLO_PADDING_DIMENSION, &dimension); count++) {
        const int64_t low = stw_hlo_int_of(dimension, HLO_PADDING_LOW), high = stw_hlo_int_of(dimension, HLO_PADDING_HIGH);
        const int64_t inner = stw_hlo_int_of(dimension, HLO_PADDING_INTERIOR);
        if (count == 0) stw_hlo_print_key(p, "padding");
        stw_hlo_put_format(&p->out, "%s%lld_%lld", count > 0 ? "x" : "", (long long)low, (long long)high);
        if (inner > 0) stw_hlo_put_format(&p->out, "_%lld", (long long)inner);
    }
}

static void print_slice(stw_hlo_printer *p, stw_str message) {
    stw_str dimension;
    int64_t count = 0;
    stw_hlo_print_key(p, "slice");
    stw_hlo_put(&p->out, "{");
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, message, HLO_SLICE_DIMENSIONS, &dimension); count++) {
        const int64_t start = stw_hlo_int_of(dimension, HLO_SLICE_START), limit = stw_hlo_int_of(dimension, HLO_SLICE_LIMIT);
        const int64_t stride = stw_hlo_int_of(dimension, HLO_SLICE_STRIDE);
        stw_hlo_put_format(&p->out, "%s[%lld:%lld", count > 0 ? ", " : "", (long long)start, (long long)limit);
        if (stride > 1) stw_hlo_put_format(&p->out, ":%lld", (long long)stride);
        stw_hlo_put(&p->out, "]");
    }
    stw_hlo_put(&p->out, "}");
}

/* dim_labels=b01f_01io->b01f */
static void print_labels(stw_hlo_printer *p, stw_str numbers) {
    static const struct {
        int32_t first_field, second_field, spatial_field;
        char first, second;
        const char *behind;
    } part[] = {{HLO_CONVOLUTION_INPUT_BATCH, HLO_CONVOLUTION_INPUT_FEATURE, HLO_CONVOLUTION_INPUT_SPATIAL, 'b', 'f', "_"},
                {HLO_CONVOLUTION_KERNEL_INPUT, HLO_CONVOLUTION_KERNEL_OUTPUT, HLO_CONVOLUTION_KERNEL_SPATIAL, 'i', 'o', "->"},
                {HLO_CONVOLUTION_OUTPUT_BATCH, HLO_CONVOLUTION_OUTPUT_FEATURE, HLO_CONVOLUTION_OUTPUT_SPATIAL, 'b', 'f', ""}};
    if (numbers.p == NULL) return;
    stw_hlo_print_key(p, "dim_labels");
    for (int k = 0; k < 3; k++) {
        char label[64];
        memset(label, '?', sizeof label);
        const stw_hlo_ints spatial = stw_hlo_ints_of(p, numbers, part[k].spatial_field);
        const int64_t first = stw_hlo_int_of(numbers, part[k].first_field),
                      second = stw_hlo_int_of(numbers, part[k].second_field);
        const int64_t rank = spatial.count + 2;
        if (rank > 12) return;
        if (first >= 0 && first < rank) label[first] = part[k].first;
        if (second >= 0 && second < rank) label[second] = part[k].second;
        for (int64_t d = 0; d < spatial.count; d++) {
            if (spatial.value[d] >= 0 && spatial.value[d] < rank) label[spatial.value[d]] = (char)('0' + d);
        }
        stw_hlo_put_str(&p->out, (stw_str){label, rank});
        stw_hlo_put(&p->out, part[k].behind);
    }
}

/* ---- all that stands behind the operands ---- */

/* Prints what stands behind the operands of an instruction, from the fields of its HloInstructionProto. */

static void print_dimensions(stw_hlo_printer *p, const stw_hlo_instruction *i) {
    static const char *const always[] = {"broadcast", "reduce", "transpose", "concatenate", "reverse", "sort"};
    const stw_hlo_ints list = stw_hlo_ints_of(p, i->attributes, HLO_DIMENSIONS);
    if (stw_str_is(i->opcode, "iota")) {
        stw_hlo_put_format(&p->out, ", iota_dimension=%lld", list.count > 0 ? (long long)list.value[0] : 0LL);
        return;
    }
    bool wanted = list.count > 0;
    for (size_t k = 0; k < sizeof always / sizeof always[0]; k++) wanted |= stw_str_is(i->opcode, always[k]);
    if (wanted) print_list(p, "dimensions", i->attributes, HLO_DIMENSIONS);
}

static void print_precision(stw_hlo_printer *p, stw_str config) {
    static const char *const names[] = {"default", "high", "highest", "packed_nibble"};
    const stw_hlo_ints list = stw_hlo_ints_of(p, config, HLO_PRECISION_OPERAND);
    bool any = false;
    for (int64_t k = 0; k < list.count; k++) any |= list.value[k] > 0 && list.value[k] < 4;
    for (int64_t k = 0; any && k < list.count; k++) {
        stw_hlo_put(&p->out, k == 0 ? ", operand_precision={" : ",");
        stw_hlo_put(&p->out, names[list.value[k] >= 0 && list.value[k] < 4 ? list.value[k] : 0]);
    }
    if (any) stw_hlo_put(&p->out, "}");
}

static void print_operand_layouts(stw_hlo_printer *p, stw_str message) {
    stw_str shape;
    int64_t count = 0;
    const bool is_call = stw_hlo_content(message, HLO_CALL_TARGET).length > 0;
    if (stw_hlo_int_of(message, HLO_CONSTRAINS_LAYOUT) == 0 || !is_call) return;
    stw_hlo_print_key(p, "operand_layout_constraints");
    stw_hlo_put(&p->out, "{");
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, message, HLO_OPERAND_SHAPES, &shape); count++) {
        if (count > 0) stw_hlo_put(&p->out, ", ");
        stw_hlo_print_shape(p, shape, true, 0);
    }
    stw_hlo_put(&p->out, "}");
}

static void print_frontend(stw_hlo_printer *p, stw_str attributes) {
    stw_str entry;
    int64_t count = 0;
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, attributes, HLO_FRONTEND_MAP, &entry); count++) {
        stw_hlo_put(&p->out, count == 0 ? ", frontend_attributes={" : ",");
        stw_hlo_put_str(&p->out, stw_hlo_clean_name(p->arena, stw_hlo_content(entry, HLO_MAP_KEY)));
        stw_hlo_put(&p->out, "=");
        stw_hlo_put_quoted(&p->out, stw_hlo_content(entry, HLO_MAP_VALUE));
    }
    if (count > 0) stw_hlo_put(&p->out, "}");
}

static void print_metadata(stw_hlo_printer *p, stw_str metadata) {
    static const struct {
        int32_t number;
        const char *name;
    } text[] = {{HLO_METADATA_OP_TYPE, "op_type"}, {HLO_METADATA_OP_NAME, "op_name"}, {HLO_METADATA_FILE, "source_file"}};
    bool any = false;
    for (int k = 0; k < 3; k++) {
        const stw_str value = stw_hlo_content(metadata, text[k].number);
        if (value.length == 0) continue;
        stw_hlo_put_format(&p->out, "%s%s=", any ? " " : ", metadata={", text[k].name);
        stw_hlo_put_quoted(&p->out, value);
        any = true;
    }
    const int64_t line = stw_hlo_int_of(metadata, HLO_METADATA_LINE);
    if (line > 0) stw_hlo_put_format(&p->out, "%ssource_line=%lld", any ? " " : ", metadata={", (long long)line);
    if (any || line > 0) stw_hlo_put(&p->out, "}");
}

/* JSON stands bare, if its brackets fit. */
static void print_config(stw_hlo_printer *p, stw_str config) {
    if (config.length == 0) return;
    stw_hlo_print_key(p, "backend_config");
    stw_hlo_text t = {.begin = config.p, .cursor = config.p, .end = config.p + config.length};
    if (config.p[0] == '{' && stw_hlo_value(&t).length == config.length && config.p[config.length - 1] == '}') {
        stw_hlo_put_str(&p->out, config);
    } else {
        stw_hlo_put_quoted(&p->out, config);
    }
}

/* Attributes of single opcodes. */
static void print_own(stw_hlo_printer *p, const stw_hlo_instruction *i) {
    const stw_str message = i->attributes;
    if (i->rule == STW_HLO_PART) {
        stw_hlo_put_format(&p->out, ", index=%lld", (long long)i->number);
    }
    print_dimensions(p, i);
    print_window(p, stw_hlo_content(message, HLO_WINDOW));
    print_labels(p, stw_hlo_content(message, HLO_CONVOLUTION_NUMBERS));
    if (stw_str_is(i->opcode, "slice")) print_slice(p, message);
    print_padding(p, stw_hlo_content(message, HLO_PADDING));
    print_numbers(p, i);
    print_as_is(p, i);
    print_words(p, i);
    print_precision(p, stw_hlo_content(message, HLO_PRECISION));
    stw_hlo_print_collective(p, i);
    stw_hlo_print_calls(p, i);
    print_operand_layouts(p, message);
    stw_hlo_print_operand_aliases(p, message);
    if (stw_str_is(i->opcode, "outfeed")) {
        stw_hlo_print_key(p, "outfeed_shape");
        stw_hlo_print_shape(p, stw_hlo_content(message, HLO_OUTFEED_SHAPE), true, 0);
    }
}

void stw_hlo_print_attributes(stw_hlo_printer *p, const stw_hlo_instruction *i) {
    const stw_str message = i->attributes, thread = stw_hlo_content(message, HLO_ASYNC_THREAD);
    print_own(p, i);
    if (thread.length > 0 && !stw_str_is(thread, "main")) {
        stw_hlo_print_key(p, "async_execution_thread");
        stw_hlo_put_quoted(&p->out, thread);
    }
    if (stw_hlo_field(message, HLO_SHARDING).length > 0) {
        stw_hlo_print_key(p, "sharding");
        stw_hlo_print_sharding(p, stw_hlo_content(message, HLO_SHARDING), 0);
    }
    stw_hlo_print_controls(p, i);
    print_frontend(p, stw_hlo_content(message, HLO_FRONTEND));
    print_metadata(p, stw_hlo_content(message, HLO_METADATA));
    print_config(p, stw_hlo_content(message, HLO_BACKEND_CONFIG));
}
