#include "backend/cpu/narrow.h"

#include <stddef.h>

#include "backend/cpu/avx512.h"

enum { MOST_NUMBERS = 128 * 64 }; /* 32 KiB, the first cache; with more, libraries are as fast */

bool stw_narrow_fits(int64_t inner, int64_t outer) { return inner * outer <= MOST_NUMBERS && stw_has_avx512(); }

#if defined(__x86_64__)

enum { LANES = 16, MOST_VECTORS = 4, MOST_ROWS = 12 };

/* Where a tile lies: its first row and column, in all three matrices. */
typedef struct {
    stw_narrow_left a;
    const float *b, *bias;
    float *c;
    int64_t depth, b_step, c_step;
    __mmask16 last; /* lanes of the last vector */
    const stw_narrow_end *end;
} place;

STW_AVX512_INLINE __m512 load(const int v, const int vectors, __mmask16 last, const float *from) {
    return v + 1 < vectors ? _mm512_loadu_ps(from + (ptrdiff_t)v * LANES)
                           : _mm512_maskz_loadu_ps(last, from + (ptrdiff_t)v * LANES);
}

/* From the sums to c, one step for all after the other, so that the choices are made once. */
STW_AVX512_INLINE void finish(const int height, const int vectors, const place *p, __m512 sum[MOST_ROWS][MOST_VECTORS]) {
    const __m512 scale = _mm512_set1_ps(p->end->scale);
    STW_UNROLL
    for (int v = 0; v < vectors; v++) {
        const __m512 bias = p->bias == NULL ? _mm512_setzero_ps() : load(v, vectors, p->last, p->bias);
        STW_UNROLL
        for (int i = 0; i < height; i++) sum[i][v] = _mm512_fmadd_ps(scale, sum[i][v], bias);
    }
    if (p->end->add) {
        STW_UNROLL
        for (int i = 0; i < height; i++) {
            STW_UNROLL
            for (int v = 0; v < vectors; v++)
                sum[i][v] = _mm512_add_ps(sum[i][v], load(v, vectors, p->last, p->c + i * p->c_step));
        }
    }
    if (p->end->relu) {
        STW_UNROLL
        for (int i = 0; i < height; i++) {
            STW_UNROLL
            for (int v = 0; v < vectors; v++) sum[i][v] = _mm512_max_ps(sum[i][v], _mm512_setzero_ps());
        }
    }
    STW_UNROLL
    for (int i = 0; i < height; i++) {
        float *c = p->c + i * p->c_step;
        STW_UNROLL
        for (int v = 0; v + 1 < vectors; v++) _mm512_storeu_ps(c + (ptrdiff_t)v * LANES, sum[i][v]);
        _mm512_mask_storeu_ps(c + (ptrdiff_t)(vectors - 1) * LANES, p->last, sum[i][vectors - 1]);
    }
}

/* `height` rows of `vectors` vectors: few enough that the sums stay in registers. */
STW_AVX512_INLINE void tile(const int height, const int vectors, const place *p) {
    const float *a = p->a.at, *b = p->b;
    const int64_t across = p->a.across, along = p->a.along, b_step = p->b_step, depth = p->depth;
    const __mmask16 last = p->last;
    __m512 sum[MOST_ROWS][MOST_VECTORS];
    STW_UNROLL
    for (int i = 0; i < height; i++) {
        STW_UNROLL
        for (int v = 0; v < vectors; v++) sum[i][v] = _mm512_setzero_ps();
    }
    for (int64_t k = 0; k < depth; k++) {
        __m512 next[MOST_VECTORS];
        STW_UNROLL
        for (int v = 0; v < vectors; v++) next[v] = load(v, vectors, last, b + k * b_step);
        STW_UNROLL
        for (int i = 0; i < height; i++) {
            const __m512 factor = _mm512_set1_ps(a[i * across + k * along]);
            STW_UNROLL
            for (int v = 0; v < vectors; v++) sum[i][v] = _mm512_fmadd_ps(factor, next[v], sum[i][v]);
        }
    }
    finish(height, vectors, p, sum);
}

STW_AVX512_INLINE void down(place *p, int64_t rows) {
    p->a.at += rows * p->a.across;
    p->c += rows * p->c_step;
}

/* All rows of some columns, in tiles of `tall` rows, then of 4, then of 1. */
STW_AVX512_INLINE void columns(const int tall, const int vectors, int64_t m, place p) {
    int64_t i = 0;
    for (; i + tall <= m; i += tall, down(&p, tall)) tile(tall, vectors, &p);
    for (; i + 4 <= m; i += 4, down(&p, 4)) tile(4, vectors, &p);
    for (; i < m; i++, down(&p, 1)) tile(1, vectors, &p);
}

STW_AVX512 static void columns_1(int64_t m, const place *p) { columns(12, 1, m, *p); }
STW_AVX512 static void columns_2(int64_t m, const place *p) { columns(12, 2, m, *p); }
STW_AVX512 static void columns_3(int64_t m, const place *p) { columns(8, 3, m, *p); }
STW_AVX512 static void columns_4(int64_t m, const place *p) { columns(6, 4, m, *p); }

void stw_narrow(int64_t m, int64_t n, int64_t k, stw_narrow_left a, const float *b, int64_t b_step, const stw_narrow_end *end,
                float *c, int64_t c_step) {
    const int64_t most = (int64_t)MOST_VECTORS * LANES; /* columns at a time */
    for (int64_t j = 0; j < n; j += most) {
        const int64_t left = n - j < most ? n - j : most, vectors = (left + LANES - 1) / LANES;
        const place p = {.a = a,
                         .b = b + j,
                         .bias = end->bias == NULL ? NULL : end->bias + j,
                         .c = c + j,
                         .depth = k,
                         .b_step = b_step,
                         .c_step = c_step,
                         .last = stw_first_lanes(left - (vectors - 1) * LANES),
                         .end = end};
        if (vectors == 1)
            columns_1(m, &p);
        else if (vectors == 2)
            columns_2(m, &p);
        else if (vectors == 3)
            columns_3(m, &p);
        else
            columns_4(m, &p);
    }
}

/* 16 rows of 16: pairs, then fours, then quarters of vectors change places. */
STW_AVX512_INLINE void turn_square(const float *from, int64_t from_step, float *to, int64_t to_step) {
    __m512 a[LANES], b[LANES];
    STW_UNROLL
    for (int i = 0; i < LANES; i++) a[i] = _mm512_loadu_ps(from + i * from_step);
    STW_UNROLL
    for (int i = 0; i < LANES; i += 2) {
        b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
    STW_UNROLL
    for (int i = 0; i < LANES; i += 4) {
        for (int half = 0; half < 2; half++) {
            const __m512d low = _mm512_castps_pd(b[i + half]), high = _mm512_castps_pd(b[i + 2 + half]);
            a[i + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            a[i + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    }
    STW_UNROLL
    for (int i = 0; i < 4; i++) {
        const __m512 even0 = _mm512_shuffle_f32x4(a[i], a[i + 4], 0x88), even1 = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0x88);
        const __m512 odd0 = _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd), odd1 = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0xdd);
        _mm512_storeu_ps(to + i * to_step, _mm512_shuffle_f32x4(even0, even1, 0x88));
        _mm512_storeu_ps(to + (i + 4) * to_step, _mm512_shuffle_f32x4(odd0, odd1, 0x88));
        _mm512_storeu_ps(to + (i + 8) * to_step, _mm512_shuffle_f32x4(even0, even1, 0xdd));
        _mm512_storeu_ps(to + (i + 12) * to_step, _mm512_shuffle_f32x4(odd0, odd1, 0xdd));
    }
}

static void turn_each(int64_t rows, int64_t cols, const float *from, int64_t from_step, float *to, int64_t to_step) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++) to[c * to_step + r] = from[r * from_step + c];
    }
}

STW_AVX512 void stw_turn(int64_t rows, int64_t cols, const float *from, int64_t from_step, float *to, int64_t to_step) {
    const int64_t whole_rows = rows / LANES * LANES, whole_cols = cols / LANES * LANES;
    for (int64_t r = 0; r < whole_rows; r += LANES) {
        for (int64_t c = 0; c < whole_cols; c += LANES)
            turn_square(from + r * from_step + c, from_step, to + c * to_step + r, to_step);
    }
    turn_each(whole_rows, cols - whole_cols, from + whole_cols, from_step, to + whole_cols * to_step, to_step);
    turn_each(rows - whole_rows, cols, from + whole_rows * from_step, from_step, to + whole_rows, to_step);
}

#else

void stw_turn(int64_t rows, int64_t cols, const float *from, int64_t from_step, float *to, int64_t to_step) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++) to[c * to_step + r] = from[r * from_step + c];
    }
}

void stw_narrow(int64_t m, int64_t n, int64_t k, stw_narrow_left a, const float *b, int64_t b_step, const stw_narrow_end *end,
                float *c, int64_t c_step) {
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            float sum = 0.0f;
            for (int64_t d = 0; d < k; d++) sum += a.at[i * a.across + d * a.along] * b[d * b_step + j];
            sum = end->scale * sum + (end->bias != NULL ? end->bias[j] : 0.0f) + (end->add ? c[i * c_step + j] : 0.0f);
            c[i * c_step + j] = end->relu && sum < 0.0f ? 0.0f : sum;
        }
    }
}

#endif
