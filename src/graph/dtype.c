#include "graph/graph.h"

static const struct {
    const char *name;
    int64_t bytes;
} dtypes[] = {
    [STW_DTYPE_NONE] = {"none", 0},
    [STW_DTYPE_F32] = {"f32", 4},
    [STW_DTYPE_F16] = {"f16", 2},
    [STW_DTYPE_BF16] = {"bf16", 2},
    [STW_DTYPE_F64] = {"f64", 8},
    {"s64", 8},
    {"s32", 4},
    {"s16", 2},
    {"s8", 1},
    {"u64", 8},
    {"u32", 4},
    {"u16", 2},
    {"u8", 1},
    {"pred", 1},
    {"c64", 8},
    {"c128", 16},
    {"f8e4m3", 1},
    {"f8e4m3fn", 1},
    {"f8e5m2", 1},
    {"f8e8m0fnu", 1},
    {"f8e3m4", 1},
    {"f8e4m3b11fnuz", 1},
    {"f8e4m3fnuz", 1},
    {"f8e5m2fnuz", 1},
    {"s4", 1},
    {"u4", 1},
    {"f4e2m1fn", 1},
};
enum { DTYPE_COUNT = sizeof dtypes / sizeof dtypes[0] };

const char stw_dtype_list[] = "f32 f16 bf16 f64 f8* f4e2m1fn s64 s32 s16 s8 s4 u64 u32 u16 u8 u4 c64 c128 pred none";

int32_t stw_dtype_find(stw_str name) {
    for (int32_t i = 0; i < DTYPE_COUNT; i++) {
        if (stw_str_is(name, dtypes[i].name)) return i;
    }
    return -1;
}

const char *stw_dtype_name(int32_t dtype) { return dtypes[dtype].name; }
int64_t stw_dtype_bytes(int32_t dtype) { return dtypes[dtype].bytes; }
