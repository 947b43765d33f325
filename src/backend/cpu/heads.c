#include "backend/cpu/heads.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define AVX512        __attribute__((target("avx512f,fma")))
#define AVX512_INLINE __attribute__((target("avx512f,fma"), always_inline)) static inline

enum { LANES = 16, TILE_ROWS = 4, TILE_VECTORS = 4, MIX_ROWS = 8 }; /* sums of a tile fill registers, not memory */

bool stw_heads_fit(int64_t size) {
    return size % LANES == 0 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma");
}

/* The tile of `height` rows and up to TILE_VECTORS vectors, `left` columns being there. */
AVX512_INLINE void score_tile(const int height, int64_t left, int64_t seen, int64_t size, float scale, const float *q,
                              const float *turned_k, float *score) {
    __mmask16 mask[TILE_VECTORS];
    __m512 sum[TILE_ROWS][TILE_VECTORS];
    for (int v = 0; v < TILE_VECTORS; v++) {
        const int64_t lanes = left - v * LANES;
        mask[v] = (__mmask16)(lanes >= LANES ? 0xffff : lanes <= 0 ? 0 : (1 << lanes) - 1);
        for (int r = 0; r < height; r++) sum[r][v] = _mm512_setzero_ps();
    }
    for (int64_t c = 0; c < size; c++) {
        __m512 k[TILE_VECTORS];
        for (int v = 0; v < TILE_VECTORS; v++) k[v] = _mm512_maskz_loadu_ps(mask[v], turned_k + c * seen + v * LANES);
        for (int r = 0; r < height; r++) {
            const __m512 factor = _mm512_set1_ps(q[r * size + c]);
            for (int v = 0; v < TILE_VECTORS; v++) sum[r][v] = _mm512_fmadd_ps(factor, k[v], sum[r][v]);
        }
    }
    const __m512 by = _mm512_set1_ps(scale);
    for (int r = 0; r < height; r++) {
        for (int v = 0; v < TILE_VECTORS; v++)
            _mm512_mask_storeu_ps(score + r * seen + v * LANES, mask[v], _mm512_mul_ps(by, sum[r][v]));
    }
}

AVX512 void stw_heads_score(int64_t rows, int64_t seen, int64_t size, float scale, const float *q, const float *turned_k,
                            float *score) {
    for (int64_t u = 0; u < seen; u += TILE_VECTORS * LANES) {
        int64_t r = 0;
        for (; r + TILE_ROWS <= rows; r += TILE_ROWS)
            score_tile(TILE_ROWS, seen - u, seen, size, scale, q + r * size, turned_k + u, score + r * seen + u);
        for (; r < rows; r++) score_tile(1, seen - u, seen, size, scale, q + r * size, turned_k + u, score + r * seen + u);
    }
}

/* One vector of each of `height` rows. */
AVX512_INLINE void mix_tile(const int height, int64_t depth, int64_t size, float scale, const float *weight, int64_t across,
                            int64_t along, const float *from, bool add, float *to) {
    __m512 sum[MIX_ROWS];
    for (int i = 0; i < height; i++) sum[i] = _mm512_setzero_ps();
    for (int64_t k = 0; k < depth; k++) {
        const __m512 next = _mm512_loadu_ps(from + k * size);
        for (int i = 0; i < height; i++) sum[i] = _mm512_fmadd_ps(_mm512_set1_ps(weight[i * across + k * along]), next, sum[i]);
    }
    const __m512 by = _mm512_set1_ps(scale);
    for (int i = 0; i < height; i++) {
        const __m512 before = add ? _mm512_loadu_ps(to + i * size) : _mm512_setzero_ps();
        _mm512_storeu_ps(to + i * size, _mm512_fmadd_ps(by, sum[i], before));
    }
}

AVX512 void stw_heads_mix(int64_t count, int64_t depth, int64_t size, float scale, const float *weight, int64_t across,
                          int64_t along, const float *from, bool add, float *to) {
    for (int64_t c = 0; c < size; c += LANES) {
        int64_t i = 0;
        for (; i + MIX_ROWS <= count; i += MIX_ROWS)
            mix_tile(MIX_ROWS, depth, size, scale, weight + i * across, across, along, from + c, add, to + i * size + c);
        for (; i < count; i++)
            mix_tile(1, depth, size, scale, weight + i * across, across, along, from + c, add, to + i * size + c);
    }
}

#else

bool stw_heads_fit(int64_t size) {
    (void)size;
    return false;
}

void stw_heads_score(int64_t rows, int64_t seen, int64_t size, float scale, const float *q, const float *turned_k, float *score) {
    for (int64_t i = 0; i < rows * seen; i++) {
        score[i] = 0.0f;
        for (int64_t c = 0; c < size; c++) score[i] += scale * q[i / seen * size + c] * turned_k[c * seen + i % seen];
    }
}

void stw_heads_mix(int64_t count, int64_t depth, int64_t size, float scale, const float *weight, int64_t across, int64_t along,
                   const float *from, bool add, float *to) {
    for (int64_t i = 0; i < count * size; i++) {
        float sum = 0.0f;
        for (int64_t k = 0; k < depth; k++) sum += weight[i / size * across + k * along] * from[k * size + i % size];
        to[i] = scale * sum + (add ? to[i] : 0.0f);
    }
}

#endif
