/* Products with a matrix that fits the first cache, as those of heads and of networks of some dozen units: there a library's
 * copies and calls take as long as its arithmetic. AVX-512 only. */
#ifndef STW_BACKEND_CPU_NARROW_H
#define STW_BACKEND_CPU_NARROW_H

#include <stdbool.h>
#include <stdint.h>

/* What happens to sums of products: c = scale * sum (+ c, if add) (+ bias), then max(0, .) if relu. */
typedef struct stw_narrow_end {
    float scale;
    bool add, relu;
    const float *bias; /* (n), or NULL */
} stw_narrow_end;

/* A matrix whose element (i, k) is at[i * across + k * along]. */
typedef struct stw_narrow_left {
    const float *at;
    int64_t across, along;
} stw_narrow_left;

/* Whether there is AVX-512, and an (inner, outer) matrix is small enough. */
bool stw_narrow_fits(int64_t inner, int64_t outer);

/* c: (m, n) from the products of a: (m, k) and b: (k, n). b_step, c_step: between rows. */
void stw_narrow(int64_t m, int64_t n, int64_t k, stw_narrow_left a, const float *b, int64_t b_step, const stw_narrow_end *end,
                float *c, int64_t c_step);

/* to[c * to_step + r] = from[r * from_step + c]. AVX-512 only, too. */
void stw_turn(int64_t rows, int64_t cols, const float *from, int64_t from_step, float *to, int64_t to_step);

#endif
