#include "train/kept.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_TEXT = 120 };

static void name_tensor(const stw_kept *kept, char out[64]) { snprintf(out, 64, "setting/%s", kept->name); }

void stw_kept_add(const stw_kept *kept, int32_t count, stw_tensor_file *file) {
    for (int32_t k = 0; k < count; k++) {
        stw_tensor *tensor = &file->tensor[file->count++];
        *tensor = (stw_tensor){.type = STW_TENSOR_I64, .rows = 1, .cols = 1, .data = &kept[k].whole};
        if (kept[k].real != NULL)
            *tensor = (stw_tensor){.type = STW_TENSOR_F64, .rows = 1, .cols = kept[k].real_count, .data = kept[k].real};
        name_tensor(&kept[k], tensor->name);
    }
}

/* One number, or all of several. */
static void write_value(const stw_kept *kept, const void *data, char out[MOST_TEXT]) {
    int length = 0;
    out[0] = '\0';
    if (kept->real == NULL) snprintf(out, MOST_TEXT, "%" PRId64, *(const int64_t *)data);
    for (int64_t k = 0; kept->real != NULL && k < kept->real_count && length < MOST_TEXT; k++)
        length += snprintf(out + length, (size_t)(MOST_TEXT - length), "%s%g", k > 0 ? " " : "", ((const double *)data)[k]);
}

stw_status stw_kept_check(const stw_kept *kept, int32_t count, const stw_tensor_file *file, stw_error *error) {
    for (int32_t k = 0; k < count; k++) {
        const bool real = kept[k].real != NULL;
        const int64_t cols = real ? kept[k].real_count : 1;
        const void *now = real ? (const void *)kept[k].real : &kept[k].whole;
        const stw_tensor *tensor;
        char name[64], before[MOST_TEXT], after[MOST_TEXT];
        name_tensor(&kept[k], name);
        if (stw_tensor_find(file, name) == NULL)
            return stw_fail(error, STW_ERROR_INPUT,
                            "cannot be resumed: it does not say its %s, so another version of stowage wrote it; start again",
                            kept[k].words);
        TRY(stw_tensor_expect(file, name, real ? STW_TENSOR_F64 : STW_TENSOR_I64, 1, cols, &tensor, error));
        if (memcmp(tensor->data, now, (size_t)cols * 8) == 0) continue;
        write_value(&kept[k], tensor->data, before);
        write_value(&kept[k], now, after);
        return stw_fail(error, STW_ERROR_INPUT,
                        "cannot be resumed: the %s was %s, is %s; resume with the same options, or start again", kept[k].words,
                        before, after);
    }
    return STW_OK;
}
