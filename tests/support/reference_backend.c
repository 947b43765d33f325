/* The reference backend: what every kernel means, in plain loops. One source, once in float and once in double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/host.h"
#include "support/reference_backend.h"

#define REAL       float
#define NAME(name) name##_float
#include "support/reference/attention.inc"
#include "support/reference/dense.inc"
#include "support/reference/recurrent.inc"
#include "support/reference/rows.inc"
#undef REAL
#undef NAME

#define REAL       double
#define NAME(name) name##_double
#include "support/reference/attention.inc"
#include "support/reference/dense.inc"
#include "support/reference/recurrent.inc"
#include "support/reference/rows.inc"
#undef REAL
#undef NAME

#define USE_KERNELS(b, type)                             \
    do {                                                 \
        (b)->linear = linear_##type;                     \
        (b)->linear_back = linear_back_##type;           \
        (b)->embed = embed_##type;                       \
        (b)->embed_back = embed_back_##type;             \
        (b)->norm = norm_##type;                         \
        (b)->norm_back = norm_back_##type;               \
        (b)->gather_max = gather_max_##type;             \
        (b)->gather_max_back = gather_max_back_##type;   \
        (b)->attend = attend_##type;                     \
        (b)->attend_back = attend_back_##type;           \
        (b)->point = point_##type;                       \
        (b)->point_back = point_back_##type;             \
        (b)->lstm = lstm_##type;                         \
        (b)->lstm_back = lstm_back_##type;               \
        (b)->gate = gate_##type;                         \
        (b)->gate_back = gate_back_##type;               \
        (b)->mean = mean_##type;                         \
        (b)->mean_back = mean_back_##type;               \
        (b)->repeat = repeat_##type;                     \
        (b)->repeat_back = repeat_back_##type;           \
        (b)->log_softmax = log_softmax_##type;           \
        (b)->log_softmax_back = log_softmax_back_##type; \
        (b)->add_scaled = add_scaled_##type;             \
        (b)->square_sum = square_sum_##type;             \
        (b)->adam = adam_##type;                         \
    } while (0)

static void destroy(stw_backend *b) { free(b); }

stw_status stw_backend_reference(size_t real_bytes, stw_backend **out, stw_error *error) {
    *out = NULL;
    if (real_bytes != sizeof(float) && real_bytes != sizeof(double))
        return stw_fail(error, STW_ERROR_INPUT, "reals of %zu bytes; the reference backend has 4 and 8", real_bytes);
    stw_backend *b = calloc(1, sizeof *b);
    if (b == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for a backend");
    b->name = "reference";
    b->real_bytes = real_bytes;
    b->destroy = destroy;
    stw_host_memory(b);
    if (real_bytes == sizeof(float))
        USE_KERNELS(b, float);
    else
        USE_KERNELS(b, double);
    *out = b;
    return STW_OK;
}
