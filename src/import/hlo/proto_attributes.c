/* What the fields of an HloInstructionProto mean, in the common form (meaning.h). */
#include "import/hlo/meaning.h"
#include "import/hlo/proto.h"

typedef struct {
    int64_t field;
    const char *common;
} named_field;

/* The numbers of a field, which are kept among the module's only for a moment. */
static stw_status mean_field(stw_hlo_proto *p, stw_pb message, named_field f, stw_hlo_meaning *w) {
    stw_hlo_range list;
    TRY(stw_hlo_proto_numbers(p, message, f.field, &list));
    stw_hlo_mean_list(w, f.common, p->module->number + list.first, list.count);
    p->module->number_count = list.first;
    return STW_OK;
}

static stw_status mean_fields(stw_hlo_proto *p, stw_pb message, const named_field *field, int count, stw_hlo_meaning *w) {
    for (int k = 0; k < count; k++) TRY(mean_field(p, message, field[k], w));
    return STW_OK;
}

static int64_t number_of(stw_pb message, int64_t field) {
    int64_t number = 0;
    for (stw_pb_field f; stw_pb_next(&message, &f);) {
        if (f.number == field) stw_pb_int(&message, &f, &number);
    }
    return number;
}

/* One message for each dimension, in `field`: `count` numbers of each, in the fields of `order`. */
static stw_status mean_rows(stw_hlo_proto *p, stw_pb message, int64_t field, const int64_t *order, int count,
                            const int64_t *usual, const char *common, stw_hlo_meaning *w) {
    stw_hlo_module *m = p->module;
    const int32_t first = m->number_count;
    for (stw_pb_field f; stw_pb_next(&message, &f);) {
        stw_pb row;
        if (f.number != field || !stw_pb_enter(&message, &f, &row)) continue;
        for (int k = 0; k < count; k++) {
            const int64_t number = number_of(row, order[k]);
            TRY(stw_hlo_add_number(m, number == 0 ? usual[k] : number, p->error));
        }
    }
    stw_hlo_mean_list(w, common, m->number + first, m->number_count - first);
    m->number_count = first;
    return stw_hlo_proto_state(p);
}

static stw_status mean_window(stw_hlo_proto *p, stw_pb window, stw_hlo_meaning *w) {
    static const int64_t order[] = {HLO_WINDOW_SIZE,         HLO_WINDOW_STRIDE,   HLO_WINDOW_PADDING_LOW,
                                    HLO_WINDOW_PADDING_HIGH, HLO_WINDOW_DILATION, HLO_WINDOW_BASE_DILATION,
                                    HLO_WINDOW_REVERSAL};
    static const int64_t usual[] = {0, 1, 0, 0, 1, 1, 0};
    return mean_rows(p, window, HLO_WINDOW_DIMENSION, order, STW_HLO_WINDOW_NUMBERS, usual, "window", w);
}

/* Letters at the places that a message names: "b01f". */
static int64_t put_letters(stw_pb message, const int64_t fields[3], const char letters[3], char *text) {
    enum { MOST = 10, PLACES = 2 * MOST };
    int64_t rank = 2, number = 0;
    for (int k = 0; k < PLACES; k++) text[k] = '?';
    for (int k = 0; k < 2; k++) {
        const int64_t at = number_of(message, fields[k]);
        if (at >= 0 && at < PLACES) text[at] = letters[k];
    }
    for (stw_pb_field f; stw_pb_next(&message, &f);) {
        if (f.number != fields[2]) continue;
        for (stw_pb_list list = stw_pb_list_of(&f); stw_pb_list_int(&message, &list, &number); rank++) {
            if (number >= 0 && number < PLACES && rank - 2 < MOST) text[number] = (char)('0' + (rank - 2));
        }
    }
    return rank < PLACES ? rank : PLACES;
}

/* ConvolutionDimensionNumbers as text has them: "b01f_01io->b01f". */
static void mean_labels(stw_pb message, stw_hlo_meaning *w) {
    static const int64_t input[] = {HLO_CONVOLUTION_INPUT_BATCH, HLO_CONVOLUTION_INPUT_FEATURE, HLO_CONVOLUTION_INPUT_SPATIAL};
    static const int64_t kernel[] = {HLO_CONVOLUTION_KERNEL_INPUT, HLO_CONVOLUTION_KERNEL_OUTPUT, HLO_CONVOLUTION_KERNEL_SPATIAL};
    static const int64_t output[] = {HLO_CONVOLUTION_OUTPUT_BATCH, HLO_CONVOLUTION_OUTPUT_FEATURE,
                                     HLO_CONVOLUTION_OUTPUT_SPATIAL};
    char text[100];
    int64_t length = put_letters(message, input, "bf", text);
    text[length++] = '_';
    length += put_letters(message, kernel, "io", text + length);
    text[length++] = '-';
    text[length++] = '>';
    length += put_letters(message, output, "bf", text + length);
    stw_hlo_mean_text(w, "dim_labels", (stw_str){text, length});
}

static stw_status mean_message(stw_hlo_proto *p, stw_pb inner, int64_t field, stw_hlo_meaning *w) {
    static const named_field dot[] = {{HLO_DOT_LEFT_BATCH, "lhs_batch_dims"},
                                      {HLO_DOT_LEFT_CONTRACTING, "lhs_contracting_dims"},
                                      {HLO_DOT_RIGHT_BATCH, "rhs_batch_dims"},
                                      {HLO_DOT_RIGHT_CONTRACTING, "rhs_contracting_dims"}};
    static const named_field gather[] = {{HLO_GATHER_OFFSET, "offset_dims"},
                                         {HLO_GATHER_COLLAPSED, "collapsed_slice_dims"},
                                         {HLO_GATHER_START_MAP, "start_index_map"},
                                         {HLO_GATHER_OPERAND_BATCH, "operand_batching_dims"},
                                         {HLO_GATHER_INDEX_BATCH, "start_indices_batching_dims"}};
    static const named_field scatter[] = {{HLO_SCATTER_WINDOW, "update_window_dims"},
                                          {HLO_SCATTER_INSERTED, "inserted_window_dims"},
                                          {HLO_SCATTER_MAP, "scatter_dims_to_operand_dims"},
                                          {HLO_SCATTER_INPUT_BATCH, "input_batching_dims"},
                                          {HLO_SCATTER_INDEX_BATCH, "scatter_indices_batching_dims"}};
    static const int64_t order[] = {HLO_PADDING_LOW, HLO_PADDING_HIGH, HLO_PADDING_INTERIOR}, zeros[] = {0, 0, 0};
    switch (field) {
        case HLO_WINDOW: return mean_window(p, inner, w);
        case HLO_CONVOLUTION_NUMBERS: mean_labels(inner, w); return stw_hlo_proto_state(p);
        case HLO_PADDING: return mean_rows(p, inner, HLO_PADDING_DIMENSION, order, 3, zeros, "padding", w);
        case HLO_DOT_NUMBERS: return mean_fields(p, inner, dot, 4, w);
        case HLO_GATHER_NUMBERS:
            stw_hlo_mean_number(w, "index_vector_dim", number_of(inner, HLO_GATHER_VECTOR), 0);
            return mean_fields(p, inner, gather, 5, w);
        case HLO_SCATTER_NUMBERS:
            stw_hlo_mean_number(w, "index_vector_dim", number_of(inner, HLO_SCATTER_VECTOR), 0);
            return mean_fields(p, inner, scatter, 5, w);
        default: return STW_OK;
    }
}

/* Numbers and words of the instruction itself. */
static void mean_scalar(stw_pb *message, const stw_pb_field *f, stw_hlo_meaning *w) {
    stw_str text = {0};
    int64_t number = 0;
    switch (f->number) {
        case HLO_FUSION_KIND:
            if (stw_pb_string(message, f, &text)) stw_hlo_mean_text(w, "kind", text);
            break;
        case HLO_COMPARISON_DIRECTION:
            if (stw_pb_string(message, f, &text)) stw_hlo_mean_text(w, "direction", text);
            break;
        case HLO_EXPONENT_BITS:
            if (stw_pb_int(message, f, &number)) stw_hlo_mean_number(w, "exponent_bits", number, 0);
            break;
        case HLO_MANTISSA_BITS:
            if (stw_pb_int(message, f, &number)) stw_hlo_mean_number(w, "mantissa_bits", number, 0);
            break;
        case HLO_FEATURE_INDEX:
            if (stw_pb_int(message, f, &number)) stw_hlo_mean_number(w, "feature_index", number, 0);
            break;
        case HLO_FEATURE_GROUP_COUNT:
            if (stw_pb_int(message, f, &number)) stw_hlo_mean_number(w, "feature_group_count", number, 1);
            break;
        case HLO_BATCH_GROUP_COUNT:
            if (stw_pb_int(message, f, &number)) stw_hlo_mean_number(w, "batch_group_count", number, 1);
            break;
        default: break;
    }
}

stw_status stw_hlo_proto_mean(stw_hlo_proto *p, stw_pb message, stw_hlo_instruction *i) {
    static const named_field lists[] = {{HLO_DIMENSIONS, "dimensions"},
                                        {HLO_DYNAMIC_SLICE_SIZES, "dynamic_slice_sizes"},
                                        {HLO_FFT_LENGTH, "fft_length"},
                                        {HLO_GATHER_SLICE_SIZES, "slice_sizes"}};
    static const int64_t slice[] = {HLO_SLICE_START, HLO_SLICE_LIMIT, HLO_SLICE_STRIDE}, usual_slice[] = {0, 0, 1};
    stw_hlo_meaning w = {.arena = p->module->arena};
    bool has_slice = false, has_list = false;
    stw_pb walk = message;
    for (stw_pb_field f; stw_pb_next(&walk, &f);) {
        stw_pb inner;
        const bool is_message = f.number == HLO_WINDOW || f.number == HLO_CONVOLUTION_NUMBERS || f.number == HLO_PADDING ||
                                f.number == HLO_DOT_NUMBERS || f.number == HLO_GATHER_NUMBERS || f.number == HLO_SCATTER_NUMBERS;
        has_slice |= f.number == HLO_SLICE_DIMENSIONS;
        has_list |= f.number == HLO_DIMENSIONS || f.number == HLO_DYNAMIC_SLICE_SIZES || f.number == HLO_FFT_LENGTH ||
                    f.number == HLO_GATHER_SLICE_SIZES;
        if (is_message && stw_pb_enter(&walk, &f, &inner)) TRY(mean_message(p, inner, f.number, &w));
        if (f.number == HLO_RAGGED_DOT_NUMBERS && stw_pb_enter(&walk, &f, &inner)) {
            stw_pb dot;
            for (stw_pb_field g; stw_pb_next(&inner, &g);) {
                if (g.number == HLO_RAGGED_DOT && stw_pb_enter(&inner, &g, &dot)) TRY(mean_message(p, dot, HLO_DOT_NUMBERS, &w));
            }
        }
        mean_scalar(&walk, &f, &w);
    }
    if (has_list) TRY(mean_fields(p, message, lists, 4, &w));
    if (has_slice) TRY(mean_rows(p, message, HLO_SLICE_DIMENSIONS, slice, 3, usual_slice, "slice", &w));
    TRY(stw_hlo_proto_state(p));
    return stw_hlo_mean_end(&w, i, p->error);
}
