#include "backend/cpu/heads.h"

#include <math.h>

#include "backend/cpu/avx512.h"
#include "backend/cpu/narrow.h"

enum { LANES = 16, BLOCK_ROWS = 64 };

bool stw_heads_fit(int64_t size) { return size % LANES == 0 && stw_has_avx512(); }

/* Floats from row to row of scores: whole vectors; what is past `seen` counts as nothing. The number of vectors is odd, so that
 * rows do not fall into few sets of the cache. */
static int64_t step_of(int64_t seen) { return (seen + LANES - 1) / LANES * LANES | LANES; }

int64_t stw_heads_desk(const stw_attention_shape *shape) {
    const int64_t step = step_of(stw_seen_at_most(shape)), size = shape->width / shape->heads;
    return 4 * step * size + (int64_t)2 * BLOCK_ROWS * step;
}

#if defined(__x86_64__)

typedef struct {                /* numbers of one head without gaps: rows a power of two apart would fall into few sets */
    float *turned_k, *turned_v; /* (size, step) */
    float *k, *v;               /* (seen, size) */
    float *share, *d_score;     /* (BLOCK_ROWS, step) */
} desk;

static desk desk_at(float *next, int64_t step, int64_t size) {
    desk d;
    float **narrow[] = {&d.turned_k, &d.turned_v, &d.k, &d.v}, **wide[] = {&d.share, &d.d_score};
    for (int i = 0; i < 4; i++, next += step * size) *narrow[i] = next;
    for (int i = 0; i < 2; i++, next += BLOCK_ROWS * step) *wide[i] = next;
    return d;
}

/* A head of all rows that the part sees, turned round. */
static void turn_seen(const stw_attention_work *a, const stw_attention_part *p, int64_t step, const float *from, float *to) {
    const int64_t width = a->shape->width;
    stw_turn(p->end - p->begin, a->size, from + p->begin * width + p->column, width, to, step);
}

static void take_seen(const stw_attention_work *a, const stw_attention_part *p, const float *from, float *to) {
    const int64_t width = a->shape->width;
    stw_move_rows(p->end - p->begin, a->size, from + p->begin * width + p->column, width, to, a->size);
}

/* to: (rows, seen), `step` apart, = scale * from turned, `from` being a head of rows `width` apart. */
static void score(const stw_attention_work *a, int64_t rows, int64_t seen, int64_t step, float scale, const float *from,
                  const float *turned, float *to) {
    const stw_narrow_end end = {.scale = scale};
    stw_narrow(rows, seen, a->size, (stw_narrow_left){from, a->shape->width, 1}, turned, step, &end, to, step);
}

/* to, a head of rows `width` apart, = weight memory; weight: (rows, step), memory: (seen, size). */
static void mix(const stw_attention_work *a, int64_t rows, int64_t seen, int64_t step, const float *weight, const float *memory,
                float *to) {
    const stw_narrow_end end = {.scale = 1.0f};
    stw_narrow(rows, a->size, seen, (stw_narrow_left){weight, step, 1}, memory, a->size, &end, to, a->shape->width);
}

/* A head of `later` (the rows of the segment before) and of `own` = weight^T from (+ what is there, if add). */
static void mix_back(const stw_attention_work *a, const stw_attention_part *p, int64_t rows, int64_t step, const float *weight,
                     const float *from, bool add, float *later, float *own) {
    const stw_narrow_end end = {.scale = 1.0f, .add = add};
    const int64_t width = a->shape->width, before = p->own - p->begin;
    later += p->begin * width + p->column;
    own += p->own * width + p->column;
    stw_narrow(before, a->size, rows, (stw_narrow_left){weight, 1, step}, from, width, &end, later, width);
    stw_narrow(p->end - p->own, a->size, rows, (stw_narrow_left){weight + before, 1, step}, from, width, &end, own, width);
}

static const float LOG2_E = 1.44269504f;

/* 2^x, relative error below 3e-7: the whole part goes to the exponent, the rest, at most a half, to a polynomial. */
STW_AVX512_INLINE __m512 power_of_two(__m512 x) {
    x = _mm512_max_ps(x, _mm512_set1_ps(-126.0f));
    const __m512 shift = _mm512_set1_ps(12582912.0f); /* 1.5 * 2^23: adding it rounds to a whole number */
    const __m512 whole = _mm512_sub_ps(_mm512_add_ps(x, shift), shift), rest = _mm512_sub_ps(x, whole);
    __m512 sum = _mm512_set1_ps(1.339086336e-3f);
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(9.676031918e-3f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(5.550357114e-2f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(2.402210749e-1f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(6.931471880e-1f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(1.000000075f));
    return _mm512_scalef_ps(sum, whole);
}

/* exp(score - top). The difference comes first: it is exact where it is small, however large the two are. */
STW_AVX512_INLINE __m512 exp_below(const float *score, float top) {
    const __m512 below = _mm512_sub_ps(_mm512_loadu_ps(score), _mm512_set1_ps(top));
    return power_of_two(_mm512_mul_ps(below, _mm512_set1_ps(LOG2_E)));
}

/* A row of scores becomes exp(score - largest), zeros past `seen`. Returns the sum; log of the sum of exp goes to `peak`. */
STW_AVX512_INLINE float exp_row(int64_t seen, float *row, float *peak) {
    __m512 top = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
    for (int64_t u = 0; u < seen; u += LANES)
        top = _mm512_mask_max_ps(top, stw_first_lanes(seen - u), top, _mm512_loadu_ps(row + u));
    const float largest = _mm512_reduce_max_ps(top);
    for (int64_t u = 0; u < seen; u += LANES) {
        const __m512 value = _mm512_maskz_mov_ps(stw_first_lanes(seen - u), exp_below(row + u, largest));
        _mm512_storeu_ps(row + u, value);
        sum = _mm512_add_ps(sum, value);
    }
    const float total = _mm512_reduce_add_ps(sum);
    *peak = largest + logf(total);
    return total;
}

STW_AVX512_INLINE void multiply_row(int64_t size, float factor, float *row) {
    for (int64_t c = 0; c < size; c += LANES)
        _mm512_storeu_ps(row + c, _mm512_mul_ps(_mm512_set1_ps(factor), _mm512_loadu_ps(row + c)));
}

STW_AVX512_INLINE float dot(int64_t size, const float *x, const float *y) {
    __m512 sum = _mm512_setzero_ps();
    for (int64_t c = 0; c < size; c += LANES) sum = _mm512_fmadd_ps(_mm512_loadu_ps(x + c), _mm512_loadu_ps(y + c), sum);
    return _mm512_reduce_add_ps(sum);
}

STW_AVX512 void stw_heads_forward(const stw_attention_work *a, const stw_attention_part *p, float *desk_memory) {
    const int64_t width = a->shape->width, heads = a->shape->heads, seen = p->end - p->begin, step = step_of(seen);
    const desk d = desk_at(desk_memory, step, a->size);
    turn_seen(a, p, step, a->k, d.turned_k);
    take_seen(a, p, a->v, d.v);
    for (int64_t r = p->own; r < p->end; r += BLOCK_ROWS) {
        const int64_t rows = p->end - r < BLOCK_ROWS ? p->end - r : BLOCK_ROWS, at = r * width + p->column;
        float sum[BLOCK_ROWS];
        score(a, rows, seen, step, a->scale, a->q + at, d.turned_k, d.share);
        for (int64_t i = 0; i < rows; i++)
            sum[i] = exp_row(seen, d.share + i * step, a->out_peak + (r + i) * heads + p->column / a->size);
        mix(a, rows, seen, step, d.share, d.v, a->out + at);
        for (int64_t i = 0; i < rows; i++) multiply_row(a->size, 1.0f / sum[i], a->out + at + i * width);
    }
}

/* Scores become shares, exp(score - peak), and gradients of shares become gradients of scores; mean: <d_y, y> of the row. */
STW_AVX512_INLINE void share_row(int64_t seen, float scale, float peak, float mean, float *row, float *d_row) {
    for (int64_t u = 0; u < seen; u += LANES) {
        const __m512 share = _mm512_maskz_mov_ps(stw_first_lanes(seen - u), exp_below(row + u, peak));
        const __m512 d_share = _mm512_sub_ps(_mm512_loadu_ps(d_row + u), _mm512_set1_ps(mean));
        _mm512_storeu_ps(row + u, share);
        _mm512_storeu_ps(d_row + u, _mm512_mul_ps(_mm512_mul_ps(share, d_share), _mm512_set1_ps(scale)));
    }
}

STW_AVX512 void stw_heads_backward(const stw_attention_work *a, const stw_attention_part *p, float *desk_memory) {
    const int64_t width = a->shape->width, heads = a->shape->heads, seen = p->end - p->begin, step = step_of(seen);
    const desk d = desk_at(desk_memory, step, a->size);
    turn_seen(a, p, step, a->k, d.turned_k);
    turn_seen(a, p, step, a->v, d.turned_v);
    take_seen(a, p, a->k, d.k);
    for (int64_t r = p->own; r < p->end; r += BLOCK_ROWS) {
        const int64_t rows = p->end - r < BLOCK_ROWS ? p->end - r : BLOCK_ROWS, at = r * width + p->column;
        score(a, rows, seen, step, a->scale, a->q + at, d.turned_k, d.share);
        score(a, rows, seen, step, 1.0f, a->d_y + at, d.turned_v, d.d_score);
        for (int64_t i = 0; i < rows; i++)
            share_row(seen, a->scale, a->peak[(r + i) * heads + p->column / a->size],
                      dot(a->size, a->d_y + at + i * width, a->y + at + i * width), d.share + i * step, d.d_score + i * step);
        mix(a, rows, seen, step, d.d_score, d.k, a->d_q + at);
        mix_back(a, p, rows, step, d.d_score, a->q + at, r > p->own, a->d_k_later, a->d_k);
        mix_back(a, p, rows, step, d.share, a->d_y + at, r > p->own, a->d_v_later, a->d_v);
    }
}

#else

void stw_heads_forward(const stw_attention_work *a, const stw_attention_part *p, float *desk_memory) {
    (void)a, (void)p, (void)desk_memory;
}

void stw_heads_backward(const stw_attention_work *a, const stw_attention_part *p, float *desk_memory) {
    (void)a, (void)p, (void)desk_memory;
}

#endif
