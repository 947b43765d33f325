/* Sums and maxima over a row, in 16 parts side by side: the order of additions is fixed, and fills the widest vectors. */
#ifndef STW_BACKEND_CPU_LANES_H
#define STW_BACKEND_CPU_LANES_H

#include <stdint.h>
#include <string.h>

enum { STW_LANES = 16 };

typedef float stw_lanes __attribute__((vector_size(STW_LANES * sizeof(float))));
typedef int32_t stw_lane_mask __attribute__((vector_size(STW_LANES * sizeof(float))));

/* A macro, since functions of such types would be called differently on each generation. */
#define STW_LANES_LOAD(lanes, from) memcpy(&(lanes), (from), sizeof(lanes))

/* Halves upon halves: four steps that wait for each other, not sixteen. */
__attribute__((always_inline)) static inline float stw_add_lanes(const stw_lanes *lanes) {
    float part[STW_LANES];
    memcpy(part, lanes, sizeof part);
    for (int half = STW_LANES / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; l++) part[l] += part[l + half];
    }
    return part[0];
}

__attribute__((always_inline)) static inline float stw_sum(int64_t count, const float *x) {
    stw_lanes sum = {0}, next;
    float total = 0.0f;
    int64_t i = 0;
    for (; i + STW_LANES <= count; i += STW_LANES) {
        STW_LANES_LOAD(next, x + i);
        sum += next;
    }
    for (; i < count; i++) total += x[i];
    return total + stw_add_lanes(&sum);
}

/* Sum of a * b. */
__attribute__((always_inline)) static inline float stw_dot(int64_t count, const float *a, const float *b) {
    stw_lanes sum = {0}, left, right;
    float total = 0.0f;
    int64_t i = 0;
    for (; i + STW_LANES <= count; i += STW_LANES) {
        STW_LANES_LOAD(left, a + i);
        STW_LANES_LOAD(right, b + i);
        sum += left * right;
    }
    for (; i < count; i++) total += a[i] * b[i];
    return total + stw_add_lanes(&sum);
}

/* count > 0. */
__attribute__((always_inline)) static inline float stw_largest(int64_t count, const float *x) {
    float largest = x[0];
    int64_t i = 0;
    if (count >= STW_LANES) {
        stw_lanes top, next;
        STW_LANES_LOAD(top, x);
        for (i = STW_LANES; i + STW_LANES <= count; i += STW_LANES) {
            STW_LANES_LOAD(next, x + i);
            const stw_lane_mask larger = next > top;
            top = (stw_lanes)(((stw_lane_mask)next & larger) | ((stw_lane_mask)top & ~larger));
        }
        for (int l = 0; l < STW_LANES; l++) largest = top[l] > largest ? top[l] : largest;
    }
    for (; i < count; i++) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

#endif
