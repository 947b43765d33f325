/* Prints what stands behind the operands of an instruction, from the fields of its HloInstructionProto (xla/service/hlo.proto).
 */
#include "export/hlo_print.h"

#include <string.h>

/* ---- fields that are printed as they are ---- */

typedef enum { NUMBER, FLAG, LIST, WORD, QUOTED, REAL } field_kind;

typedef struct simple_field {
    int32_t field;
    const char *name;
    field_kind kind;
} simple_field;

static const simple_field simple[] = {
    {50, "feature_group_count", NUMBER},
    {58, "batch_group_count", NUMBER},
    {18, "exponent_bits", NUMBER},
    {19, "mantissa_bits", NUMBER},
    {20, "dynamic_slice_sizes", LIST},
    {22, "outfeed_config", QUOTED},
    {27, "infeed_config", QUOTED},
    {24, "epsilon", REAL},
    {26, "channel_id", NUMBER},
    {28, "custom_call_target", QUOTED},
    {32, "fft_length", LIST},
    {11, "kind", WORD},
    {63, "direction", WORD},
    {34, "slice_sizes", LIST},
    {71, "use_global_device_ids", FLAG},
    {47, "is_host_transfer", FLAG},
    {60, "is_stable", FLAG},
    {65, "custom_call_has_side_effect", FLAG},
    {66, "delta", NUMBER},
    {67, "indices_are_sorted", FLAG},
    {69, "unique_indices", FLAG},
    {81, "k", NUMBER},
    {85, "largest", FLAG},
    {89, "is_composite", FLAG},
};

static const simple_field dot_fields[] = {{3, "lhs_batch_dims", LIST},
                                          {1, "lhs_contracting_dims", LIST},
                                          {4, "rhs_batch_dims", LIST},
                                          {2, "rhs_contracting_dims", LIST}};
static const simple_field gather_fields[] = {{1, "offset_dims", LIST},
                                             {2, "collapsed_slice_dims", LIST},
                                             {3, "start_index_map", LIST},
                                             {5, "operand_batching_dims", LIST},
                                             {6, "start_indices_batching_dims", LIST}};
static const simple_field scatter_fields[] = {{1, "update_window_dims", LIST},
                                              {2, "inserted_window_dims", LIST},
                                              {3, "scatter_dims_to_operand_dims", LIST},
                                              {5, "input_batching_dims", LIST},
                                              {6, "scatter_indices_batching_dims", LIST}};

static void print_list(stw_hlo_printer *p, const char *key, stw_str message, int64_t field) {
    const stw_hlo_ints list = stw_hlo_ints_of(p, message, field);
    stw_hlo_print_key(p, key);
    stw_hlo_put(&p->out, "{");
    stw_hlo_print_ints(p, &list, ",");
    stw_hlo_put(&p->out, "}");
}

static float float_at(stw_str message, int64_t field) {
    double value = 0.0;
    stw_error ignored = {0};
    stw_pb_file file = stw_pb_open(message, &ignored);
    stw_pb fields = stw_pb_message(&file);
    for (stw_pb_field f; stw_pb_next(&fields, &f);) {
        if (f.number == field) stw_pb_float(&fields, &f, &value);
    }
    return (float)value;
}

static void print_simple(stw_hlo_printer *p, stw_str message, const simple_field *field, bool empty_too) {
    if (stw_hlo_field(message, field->field).length == 0 && !empty_too) return;
    const int64_t number = stw_hlo_int_of(message, field->field);
    switch (field->kind) {
        case LIST: print_list(p, field->name, message, field->field); return;
        case FLAG:
        case NUMBER:
            if (number <= 0 || (number == 1 && strstr(field->name, "group_count") != NULL)) return;
            stw_hlo_print_key(p, field->name);
            if (field->kind == FLAG) {
                stw_hlo_put(&p->out, "true");
            } else {
                stw_hlo_put_format(&p->out, "%lld", (long long)number);
            }
            return;
        case REAL:
            stw_hlo_print_key(p, field->name);
            stw_hlo_put_format(&p->out, "%.9g", (double)float_at(message, field->field));
            return;
        default: {
            const stw_str text = stw_hlo_content(message, field->field);
            if (text.length == 0) return;
            stw_hlo_print_key(p, field->name);
            if (field->kind == QUOTED) {
                stw_hlo_put_quoted(&p->out, text);
            } else {
                stw_hlo_put_str(&p->out, text);
            }
        }
    }
}

static void print_all(stw_hlo_printer *p, stw_str message, const simple_field *field, int count, bool empty_too) {
    for (int k = 0; k < count; k++) print_simple(p, message, &field[k], empty_too && k < 3);
}

#define PRINT_ALL(p, message, fields, empty_too) print_all(p, message, fields, (int)(sizeof fields / sizeof fields[0]), empty_too)

/* ---- words for numbers ---- */

static void print_word(stw_hlo_printer *p, const char *key, const char *const *words, int64_t count, int64_t number) {
    if (number < 0 || number >= count || words[number] == NULL) return;
    stw_hlo_print_key(p, key);
    stw_hlo_put(&p->out, words[number]);
}
#define PRINT_WORD(p, key, words, number) print_word(p, key, words, (int64_t)(sizeof words / sizeof words[0]), number)

static void print_words(stw_hlo_printer *p, const stw_hlo_instruction *i) {
    static const char *const fft[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
    static const char *const distribution[] = {NULL, "rng_uniform", "rng_normal"};
    static const char *const algorithm[] = {"rng_default", "rng_three_fry", "rng_philox"};
    static const char *const version[] = {NULL, NULL, "API_VERSION_STATUS_RETURNING", "API_VERSION_STATUS_RETURNING_UNIFIED",
                                          "API_VERSION_TYPED_FFI"};
    static const char *const schedule[] = {NULL, "SCHEDULE_LATEST", "SCHEDULE_EARLIEST"};
    static const char *const transpose[] = {NULL, "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
    static const char *const padding[] = {NULL, "PADDING_VALID", "PADDING_SAME"};
    const stw_str message = i->attributes;
    if (stw_str_is(i->opcode, "fft")) PRINT_WORD(p, "fft_type", fft, stw_hlo_int_of(message, 31));
    if (stw_str_is(i->opcode, "rng")) PRINT_WORD(p, "distribution", distribution, stw_hlo_int_of(message, 23));
    if (stw_str_is(i->opcode, "rng-bit-generator")) PRINT_WORD(p, "algorithm", algorithm, stw_hlo_int_of(message, 70));
    if (stw_str_is(i->opcode, "custom-call")) {
        PRINT_WORD(p, "api_version", version, stw_hlo_int_of(message, 77));
        PRINT_WORD(p, "schedule", schedule, stw_hlo_int_of(message, 76));
    }
    PRINT_WORD(p, "padding_type", padding, stw_hlo_int_of(message, 75));
    const stw_str solve = stw_hlo_content(message, 59), root = stw_hlo_content(message, 62);
    static const simple_field flags[] = {{1, "left_side", FLAG}, {2, "lower", FLAG}, {3, "unit_diagonal", FLAG}};
    if (stw_str_is(i->opcode, "triangular-solve")) {
        PRINT_ALL(p, solve, flags, false);
        PRINT_WORD(p, "transpose_a", transpose, stw_hlo_int_of(solve, 4));
    }
    if (stw_str_is(i->opcode, "cholesky") && stw_hlo_int_of(root, 1) != 0) stw_hlo_put(&p->out, ", lower=true");
    if (stw_str_is(stw_hlo_content(message, 72), "TOTALORDER")) stw_hlo_put(&p->out, ", type=TOTALORDER");
}

static void print_precision(stw_hlo_printer *p, stw_str config) {
    static const char *const words[] = {"default", "high", "highest", "packed_nibble"};
    const stw_hlo_ints list = stw_hlo_ints_of(p, config, 1);
    bool any = false;
    for (int64_t k = 0; k < list.count; k++) any |= list.value[k] > 0 && list.value[k] < 4;
    for (int64_t k = 0; any && k < list.count; k++) {
        stw_hlo_put(&p->out, k == 0 ? ", operand_precision={" : ",");
        stw_hlo_put(&p->out, words[list.value[k] >= 0 && list.value[k] < 4 ? list.value[k] : 0]);
    }
    if (any) stw_hlo_put(&p->out, "}");
}

/* ---- who is called ---- */

static void print_called(stw_hlo_printer *p, const stw_hlo_instruction *i, const char *key, int32_t k) {
    stw_hlo_print_key(p, key);
    stw_hlo_put_name(&p->out, p->m->computation[p->m->number[i->called.first + k]].name);
}

static void print_called_list(stw_hlo_printer *p, const stw_hlo_instruction *i, const char *key) {
    stw_hlo_print_key(p, key);
    for (int32_t k = 0; k < i->called.count; k++) {
        stw_hlo_put(&p->out, k == 0 ? "{" : ", ");
        stw_hlo_put_name(&p->out, p->m->computation[p->m->number[i->called.first + k]].name);
    }
    stw_hlo_put(&p->out, "}");
}

static void print_calls(stw_hlo_printer *p, const stw_hlo_instruction *i) {
    if (i->called.count == 0) return;
    if (i->rule == STW_HLO_WHILE && i->called.count == 2) {
        print_called(p, i, "condition", 1);
        print_called(p, i, "body", 0);
    } else if (i->rule == STW_HLO_CONDITIONAL) {
        const bool by_pred = stw_hlo_int_of(stw_hlo_content(stw_hlo_operand(p->m, i, 0)->attributes, 3), 2) == 1;
        if (!by_pred || i->called.count != 2) {
            print_called_list(p, i, "branch_computations");
            return;
        }
        print_called(p, i, "true_computation", 0);
        print_called(p, i, "false_computation", 1);
    } else if (stw_str_is(i->opcode, "select-and-scatter") && i->called.count == 2) {
        print_called(p, i, "select", 0);
        print_called(p, i, "scatter", 1);
    } else if (i->rule == STW_HLO_CUSTOM) {
        print_called_list(p, i, "called_computations");
    } else {
        const bool calls = i->rule == STW_HLO_FUSION || stw_str_starts(i->opcode, "async-");
        print_called(p, i, calls ? "calls" : "to_apply", 0);
    }
}

/* ---- the rest ---- */

static void print_frontend(stw_hlo_printer *p, stw_str attributes) {
    stw_str entry;
    int64_t count = 0;
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, attributes, 1, &entry); count++) {
        stw_hlo_put(&p->out, count == 0 ? ", frontend_attributes={" : ",");
        stw_hlo_put_str(&p->out, stw_hlo_content(entry, 1));
        stw_hlo_put(&p->out, "=");
        stw_hlo_put_quoted(&p->out, stw_hlo_content(entry, 2));
    }
    if (count > 0) stw_hlo_put(&p->out, "}");
}

static void print_metadata(stw_hlo_printer *p, stw_str metadata) {
    static const simple_field text[] = {{1, "op_type", QUOTED}, {2, "op_name", QUOTED}, {3, "source_file", QUOTED}};
    bool any = false;
    for (int k = 0; k < 3; k++) {
        const stw_str value = stw_hlo_content(metadata, text[k].field);
        if (value.length == 0) continue;
        stw_hlo_put(&p->out, any ? " " : ", metadata={");
        stw_hlo_put_format(&p->out, "%s=", text[k].name);
        stw_hlo_put_quoted(&p->out, value);
        any = true;
    }
    const int64_t line = stw_hlo_int_of(metadata, 4);
    if (line > 0) stw_hlo_put_format(&p->out, "%ssource_line=%lld", any ? " " : ", metadata={", (long long)line);
    if (any || line > 0) stw_hlo_put(&p->out, "}");
}

static void print_controls(stw_hlo_printer *p, const stw_hlo_instruction *i) {
    for (int32_t k = 0; k < i->control.count; k++) {
        stw_hlo_put(&p->out, k == 0 ? ", control-predecessors={" : ", ");
        stw_hlo_put_name(&p->out, p->m->instruction[p->m->number[i->control.first + k]].name);
    }
    if (i->control.count > 0) stw_hlo_put(&p->out, "}");
}

/* output_to_operand_aliasing={{0}: (1, {})} */
static void print_aliasing(stw_hlo_printer *p, stw_str message) {
    stw_str pair;
    int64_t count = 0;
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, message, 74, &pair); count++) {
        stw_hlo_put(&p->out, count == 0 ? ", output_to_operand_aliasing={" : ", ");
        stw_hlo_print_path(p, pair, 1);
        stw_hlo_put_format(&p->out, ": (%lld, ", (long long)stw_hlo_int_of(pair, 2));
        stw_hlo_print_path(p, pair, 3);
        stw_hlo_put(&p->out, ")");
    }
    if (count > 0) stw_hlo_put(&p->out, "}");
}

static void print_operand_layouts(stw_hlo_printer *p, stw_str message) {
    stw_str shape;
    int64_t count = 0;
    if (stw_hlo_int_of(message, 56) == 0 || stw_hlo_content(message, 28).length == 0) return;
    stw_hlo_print_key(p, "operand_layout_constraints");
    stw_hlo_put(&p->out, "{");
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, message, 57, &shape); count++) {
        if (count > 0) stw_hlo_put(&p->out, ", ");
        stw_hlo_print_shape(p, shape, true, 0);
    }
    stw_hlo_put(&p->out, "}");
}

static void print_dimensions(stw_hlo_printer *p, const stw_hlo_instruction *i) {
    static const char *const always[] = {"broadcast", "reduce", "transpose", "concatenate", "reverse", "sort"};
    const stw_hlo_ints list = stw_hlo_ints_of(p, i->attributes, 14);
    if (stw_str_is(i->opcode, "iota")) {
        stw_hlo_put_format(&p->out, ", iota_dimension=%lld", list.count > 0 ? (long long)list.value[0] : 0LL);
        return;
    }
    bool wanted = list.count > 0;
    for (size_t k = 0; k < sizeof always / sizeof always[0]; k++) wanted |= stw_str_is(i->opcode, always[k]);
    if (wanted) print_list(p, "dimensions", i->attributes, 14);
}

static void print_numbers(stw_hlo_printer *p, const stw_hlo_instruction *i) {
    const stw_str message = i->attributes, gather = stw_hlo_content(message, 33), scatter = stw_hlo_content(message, 48);
    const stw_str ragged = stw_hlo_content(message, 90);
    PRINT_ALL(p, ragged.length > 0 ? stw_hlo_content(ragged, 1) : stw_hlo_content(message, 30), dot_fields, false);
    static const simple_field ragged_fields[] = {{2, "lhs_ragged_dims", LIST}, {3, "rhs_group_dims", LIST}};
    PRINT_ALL(p, ragged, ragged_fields, false);
    if (i->rule == STW_HLO_SCATTER || stw_str_is(i->opcode, "gather")) {
        const bool gathers = i->rule != STW_HLO_SCATTER;
        if (gathers) PRINT_ALL(p, gather, gather_fields, true);
        if (!gathers) PRINT_ALL(p, scatter, scatter_fields, true);
        stw_hlo_put_format(&p->out, ", index_vector_dim=%lld", (long long)stw_hlo_int_of(gathers ? gather : scatter, 4));
    }
    if (i->rule == STW_HLO_NORMALIZATION)
        stw_hlo_put_format(&p->out, ", feature_index=%lld", (long long)stw_hlo_int_of(message, 25));
}

void stw_hlo_print_attributes(stw_hlo_printer *p, const stw_hlo_instruction *i) {
    const stw_str message = i->attributes;
    if (i->rule == STW_HLO_PART) stw_hlo_put_format(&p->out, ", index=%lld", (long long)stw_hlo_int_of(message, 13));
    print_dimensions(p, i);
    stw_hlo_print_window(p, stw_hlo_content(message, 15));
    stw_hlo_print_labels(p, stw_hlo_content(message, 16));
    if (stw_str_is(i->opcode, "slice")) stw_hlo_print_slice(p, message);
    stw_hlo_print_padding(p, stw_hlo_content(message, 21));
    print_numbers(p, i);
    PRINT_ALL(p, message, simple, false);
    print_words(p, i);
    print_precision(p, stw_hlo_content(message, 51));
    stw_hlo_print_collective(p, i);
    print_calls(p, i);
    print_operand_layouts(p, message);
    print_aliasing(p, message);
    if (stw_str_is(i->opcode, "outfeed")) {
        stw_hlo_print_key(p, "outfeed_shape");
        stw_hlo_print_shape(p, stw_hlo_content(message, 29), true, 0);
    }
    const stw_str thread = stw_hlo_content(message, 79), config = stw_hlo_content(message, 43);
    if (thread.length > 0 && !stw_str_is(thread, "main")) {
        stw_hlo_print_key(p, "async_execution_thread");
        stw_hlo_put_quoted(&p->out, thread);
    }
    if (stw_hlo_field(message, 40).length > 0) {
        stw_hlo_print_key(p, "sharding");
        stw_hlo_print_sharding(p, stw_hlo_content(message, 40), 0);
    }
    print_controls(p, i);
    print_frontend(p, stw_hlo_content(message, 68));
    print_metadata(p, stw_hlo_content(message, 7));
    if (config.length == 0) return;
    stw_hlo_print_key(p, "backend_config");
    if (config.p[0] == '{') {
        stw_hlo_put_str(&p->out, config);
    } else {
        stw_hlo_put_quoted(&p->out, config);
    }
}
