/* TensorFlow's data types. */
#include "import/graphdef.h"

static const struct {
    const char *name; /* behind "DT_" */
    const char *ours; /* "none": it has no size of its own */
} types[] = {
    [1] = {"FLOAT", "f32"},
    [2] = {"DOUBLE", "f64"},
    [3] = {"INT32", "s32"},
    [4] = {"UINT8", "u8"},
    [5] = {"INT16", "s16"},
    [6] = {"INT8", "s8"},
    [7] = {"STRING", "none"},
    [8] = {"COMPLEX64", "c64"},
    [9] = {"INT64", "s64"},
    [10] = {"BOOL", "pred"},
    [11] = {"QINT8", "s8"},
    [12] = {"QUINT8", "u8"},
    [13] = {"QINT32", "s32"},
    [14] = {"BFLOAT16", "bf16"},
    [15] = {"QINT16", "s16"},
    [16] = {"QUINT16", "u16"},
    [17] = {"UINT16", "u16"},
    [18] = {"COMPLEX128", "c128"},
    [19] = {"HALF", "f16"},
    [20] = {"RESOURCE", "none"},
    [21] = {"VARIANT", "none"},
    [22] = {"UINT32", "u32"},
    [23] = {"UINT64", "u64"},
    [24] = {"FLOAT8_E5M2", "f8e5m2"},
    [25] = {"FLOAT8_E4M3FN", "f8e4m3fn"},
    [26] = {"FLOAT8_E4M3FNUZ", "f8e4m3fnuz"},
    [27] = {"FLOAT8_E4M3B11FNUZ", "f8e4m3b11fnuz"},
    [28] = {"FLOAT8_E5M2FNUZ", "f8e5m2fnuz"},
    [29] = {"INT4", "s4"},
    [30] = {"UINT4", "u4"},
};
enum { TYPE_COUNT = sizeof types / sizeof types[0], REFERENCE = 100 };

int32_t stw_tf_dtype(int64_t type) {
    if (type > REFERENCE) type -= REFERENCE;
    return type > 0 && type < TYPE_COUNT ? stw_dtype_find(stw_str_of(types[type].ours)) : -1;
}

bool stw_tf_type_named(stw_str name, int64_t *type) {
    if (!stw_str_starts(name, "DT_")) return false;
    name = (stw_str){name.p + 3, name.length - 3};
    const bool reference = stw_str_ends(name, "_REF");
    if (reference) name.length -= 4;
    *type = 0;
    for (int64_t i = 1; i < TYPE_COUNT; i++) {
        if (stw_str_is(name, types[i].name)) *type = reference ? i + REFERENCE : i;
    }
    return true; /* a type that we do not know counts as not given */
}
