/* Prints windows, paddings, slices and the labels of a convolution. */
#include <string.h>

#include "export/hlo_print.h"

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

void stw_hlo_print_window(stw_hlo_printer *p, stw_str window) {
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

void stw_hlo_print_padding(stw_hlo_printer *p, stw_str config) {
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

void stw_hlo_print_slice(stw_hlo_printer *p, stw_str message) {
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
void stw_hlo_print_labels(stw_hlo_printer *p, stw_str numbers) {
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
