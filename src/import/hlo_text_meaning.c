/* What attributes in HLO text mean, in the common form (hlo_meaning.h). */
#include "import/hlo_meaning.h"
#include "import/hlo_text.h"

typedef enum { LIST, NUMBER, COUNT, WORD, WINDOW, SLICE, PADDING } form;

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
    {"window", WINDOW, NULL},
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
static void read_window(stw_str value, numbers *n) {
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

void stw_hlo_text_mean(stw_hlo_meaning *w, stw_str key, stw_str value) {
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
        case WINDOW: read_window(value, &n); break;
    }
    stw_hlo_mean_list(w, common, n.number, n.count);
}
