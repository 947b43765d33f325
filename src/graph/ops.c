#include "graph/ops.h"

#include <string.h>

#include "base/index.h"

const stw_op_info stw_op_table[] = {
#define STW_OP(name, op_class, aten, hlo, onnx, tensorflow) {#name, STW_CLASS_##op_class, {aten, hlo, onnx, tensorflow}},
#include "graph/ops.def"
#undef STW_OP
};
const int32_t stw_op_count = (int32_t)(sizeof stw_op_table / sizeof stw_op_table[0]);

static const char *const class_names[STW_CLASS_COUNT] = {
    [STW_CLASS_MATMUL] = "matmul",
    [STW_CLASS_CONVOLUTION] = "convolution",
    [STW_CLASS_ATTENTION] = "attention",
    [STW_CLASS_NORMALIZATION] = "normalization",
    [STW_CLASS_POOLING] = "pooling",
    [STW_CLASS_RECURRENT] = "recurrent",
    [STW_CLASS_ELEMENTWISE] = "elementwise",
    [STW_CLASS_BROADCAST] = "broadcast",
    [STW_CLASS_REDUCE] = "reduce",
    [STW_CLASS_SHAPE] = "shape",
    [STW_CLASS_ALIAS] = "alias",
    [STW_CLASS_GATHER] = "gather",
    [STW_CLASS_SCATTER] = "scatter",
    [STW_CLASS_RANDOM] = "random",
    [STW_CLASS_SORT] = "sort",
    [STW_CLASS_COLLECTIVE] = "collective",
    [STW_CLASS_CONTROL] = "control",
    [STW_CLASS_OPAQUE] = "opaque",
};

const char *stw_op_class_name(stw_op_class op_class) { return class_names[op_class]; }

bool stw_op_class_find(stw_str name, stw_op_class *out) {
    for (int i = 0; i < STW_CLASS_COUNT; i++) {
        if (!stw_str_is(name, class_names[i])) continue;
        *out = (stw_op_class)i;
        return true;
    }
    return false;
}

bool stw_op_class_fuses(stw_op_class op_class) {
    return op_class == STW_CLASS_ELEMENTWISE || op_class == STW_CLASS_BROADCAST || op_class == STW_CLASS_REDUCE ||
           op_class == STW_CLASS_SHAPE || op_class == STW_CLASS_ALIAS;
}

struct stw_op_index {
    stw_names row; /* a scope is a vocabulary */
};

/* The next word of a list separated by spaces; false at its end. */
static bool next_word(const char **cursor, stw_str *word) {
    while (**cursor == ' ') (*cursor)++;
    const char *start = *cursor;
    while (**cursor != ' ' && **cursor != '\0') (*cursor)++;
    *word = (stw_str){start, (int64_t)(*cursor - start)};
    return word->length > 0;
}

stw_status stw_op_index_create(stw_arena *arena, stw_op_index **out, stw_error *error) {
    int64_t names = 0;
    stw_str word;
    for (int32_t row = 0; row < stw_op_count; row++) {
        for (int v = 0; v < STW_VOCABULARY_COUNT; v++) {
            for (const char *c = stw_op_table[row].names[v]; next_word(&c, &word);) names++;
        }
    }
    stw_op_index *index;
    STW_TRY_NEW(arena, index, 1, error);
    TRY(stw_names_create(arena, names, &index->row, error));
    for (int32_t row = 0; row < stw_op_count; row++) {
        for (int v = 0; v < STW_VOCABULARY_COUNT; v++) {
            for (const char *c = stw_op_table[row].names[v]; next_word(&c, &word);) {
                int32_t *known;
                TRY(stw_names_enter(&index->row, v, word, &known, error));
                if (*known < 0) *known = row;
            }
        }
    }
    *out = index;
    return STW_OK;
}

int32_t stw_op_find(const stw_op_index *index, stw_vocabulary vocabulary, stw_str name) {
    if (vocabulary == STW_ATEN && name.length > 0) {
        const char *dot = memchr(name.p, '.', (size_t)name.length);
        if (dot != NULL) name.length = (int64_t)(dot - name.p);
    }
    return stw_names_find(&index->row, (int32_t)vocabulary, name);
}

int32_t stw_op_find_any(const stw_op_index *index, stw_str name) {
    int32_t row = -1;
    for (int v = 0; v < STW_VOCABULARY_COUNT && row < 0; v++) row = stw_op_find(index, (stw_vocabulary)v, name);
    return row;
}
