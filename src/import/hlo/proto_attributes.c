/* What the fields of an HloInstructionProto mean, in the common form (meaning.h). Field numbers as in xla/service/hlo.proto
 * and xla/xla_data.proto. */
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

/* One message for each dimension, in field 1 or in `field` itself: `count` numbers of each, in fields 1 to count. */
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
    /* size, stride, padding_low, padding_high, window_dilation, base_dilation, window_reversal */
    static const int64_t order[] = {1, 2, 3, 4, 5, 6, 7}, usual[] = {0, 1, 0, 0, 1, 1, 0};
    return mean_rows(p, window, 1, order, STW_HLO_WINDOW_NUMBERS, usual, "window", w);
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
    static const int64_t input[] = {7, 8, 11}, kernel[] = {3, 4, 6}, output[] = {9, 10, 12};
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
    static const named_field dot[] = {
        {3, "lhs_batch_dims"}, {1, "lhs_contracting_dims"}, {4, "rhs_batch_dims"}, {2, "rhs_contracting_dims"}};
    static const named_field gather[] = {{1, "offset_dims"},
                                         {2, "collapsed_slice_dims"},
                                         {3, "start_index_map"},
                                         {5, "operand_batching_dims"},
                                         {6, "start_indices_batching_dims"}};
    static const named_field scatter[] = {{1, "update_window_dims"},
                                          {2, "inserted_window_dims"},
                                          {3, "scatter_dims_to_operand_dims"},
                                          {5, "input_batching_dims"},
                                          {6, "scatter_indices_batching_dims"}};
    static const int64_t order[] = {1, 2, 3}, zeros[] = {0, 0, 0};
    switch (field) {
        case 15: return mean_window(p, inner, w);
        case 16: mean_labels(inner, w); return stw_hlo_proto_state(p);
        case 21: return mean_rows(p, inner, 1, order, 3, zeros, "padding", w);
        case 30: return mean_fields(p, inner, dot, 4, w);
        case 33: stw_hlo_mean_number(w, "index_vector_dim", number_of(inner, 4), 0); return mean_fields(p, inner, gather, 5, w);
        case 48: stw_hlo_mean_number(w, "index_vector_dim", number_of(inner, 4), 0); return mean_fields(p, inner, scatter, 5, w);
        default: return STW_OK;
    }
}

/* Numbers and words of the instruction itself. */
static void mean_scalar(stw_pb *message, const stw_pb_field *f, stw_hlo_meaning *w) {
    stw_str text = {0};
    int64_t number = 0;
    switch (f->number) {
        case 11:
            if (stw_pb_string(message, f, &text)) stw_hlo_mean_text(w, "kind", text);
            break;
        case 63:
            if (stw_pb_string(message, f, &text)) stw_hlo_mean_text(w, "direction", text);
            break;
        case 18:
            if (stw_pb_int(message, f, &number)) stw_hlo_mean_number(w, "exponent_bits", number, 0);
            break;
        case 19:
            if (stw_pb_int(message, f, &number)) stw_hlo_mean_number(w, "mantissa_bits", number, 0);
            break;
        case 25:
            if (stw_pb_int(message, f, &number)) stw_hlo_mean_number(w, "feature_index", number, 0);
            break;
        case 50:
            if (stw_pb_int(message, f, &number)) stw_hlo_mean_number(w, "feature_group_count", number, 1);
            break;
        case 58:
            if (stw_pb_int(message, f, &number)) stw_hlo_mean_number(w, "batch_group_count", number, 1);
            break;
        default: break;
    }
}

stw_status stw_hlo_proto_mean(stw_hlo_proto *p, stw_pb message, stw_hlo_instruction *i) {
    static const named_field lists[] = {{14, "dimensions"}, {20, "dynamic_slice_sizes"}, {32, "fft_length"}, {34, "slice_sizes"}};
    static const int64_t slice[] = {1, 2, 3}, usual_slice[] = {0, 0, 1};
    stw_hlo_meaning w = {.arena = p->module->arena};
    bool has_slice = false, has_list = false;
    stw_pb walk = message;
    for (stw_pb_field f; stw_pb_next(&walk, &f);) {
        stw_pb inner;
        const bool is_message =
            f.number == 15 || f.number == 16 || f.number == 21 || f.number == 30 || f.number == 33 || f.number == 48;
        has_slice |= f.number == 17;
        has_list |= f.number == 14 || f.number == 20 || f.number == 32 || f.number == 34;
        if (is_message && stw_pb_enter(&walk, &f, &inner)) TRY(mean_message(p, inner, f.number, &w));
        if (f.number == 90 && stw_pb_enter(&walk, &f, &inner)) { /* of a ragged dot: its dot's numbers are field 1 */
            stw_pb dot;
            for (stw_pb_field g; stw_pb_next(&inner, &g);) {
                if (g.number == 1 && stw_pb_enter(&inner, &g, &dot)) TRY(mean_message(p, dot, 30, &w));
            }
        }
        mean_scalar(&walk, &f, &w);
    }
    if (has_list) TRY(mean_fields(p, message, lists, 4, &w));
    if (has_slice) TRY(mean_rows(p, message, 17, slice, 3, usual_slice, "slice", &w));
    TRY(stw_hlo_proto_state(p));
    return stw_hlo_mean_end(&w, i, p->error);
}
