/* exp for loops that the compiler turns into vectors: relative error below 2e-7 for x in [-87, 88]; below, that of -87 (1e-38).
 * Softmaxes have no x above 0. */
#ifndef STW_BACKEND_CPU_EXP_H
#define STW_BACKEND_CPU_EXP_H

#include <stdint.h>
#include <string.h>

static inline float stw_exp(float x) {
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number, which then stands in the low bits */
    x = x > -87.0f ? x : -87.0f;
    const float shifted = x * 1.44269504f + shift, whole = shifted - shift;
    const float rest = (x - whole * 0.693359375f) + whole * 2.12194440e-4f; /* ln 2 in two parts, the first exact in products */
    float sum = 1.9875691500e-4f;
    sum = sum * rest + 1.3981999507e-3f;
    sum = sum * rest + 8.3334519073e-3f;
    sum = sum * rest + 4.1665795894e-2f;
    sum = sum * rest + 1.6666665459e-1f;
    sum = sum * rest + 5.0000001201e-1f;
    sum = sum * (rest * rest) + rest + 1.0f;
    int32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (int32_t)((uint32_t)bits << 23) + 0x3f800000; /* 2^whole */
    float power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

#endif
