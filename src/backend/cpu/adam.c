/* What runs over whole blocks of numbers: sums and the step of training. */
#include <math.h>

#include "backend/cpu/avx512.h"
#include "backend/cpu/clones.h"
#include "backend/cpu/cpu.h"

enum { BLOCK = 16384, LANES = 16 };

typedef struct {
    stw_blocks blocks;
    const float *x;
    float factor;
    float *y;
    double *parts; /* (blocks) */
} sums;

STW_CLONES static void add_range(int64_t count, float factor, const float *restrict from, float *restrict to) {
    for (int64_t k = 0; k < count; k++) to[k] += factor * from[k];
}

static void add_block(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const sums *s = context;
    const int64_t begin = stw_block_begin(&s->blocks, index);
    add_range(stw_block_end(&s->blocks, index) - begin, s->factor, s->x + begin, s->y + begin);
}

static void add_scaled(stw_backend *b, int64_t count, double factor, const void *from, void *to) {
    sums s = {.blocks = stw_blocks_of(count, BLOCK, count), .factor = (float)factor, .x = from, .y = to};
    stw_cpu_run(b, s.blocks.count, add_block, &s);
}

STW_CLONES static double square_range(int64_t count, const float *x) {
    double lane[LANES] = {0}, sum = 0.0;
    int64_t k = 0;
    for (; k + LANES <= count; k += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += (double)x[k + l] * (double)x[k + l];
    for (; k < count; k++) sum += (double)x[k] * (double)x[k];
    for (int l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}

static void square_block(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const sums *s = context;
    const int64_t begin = stw_block_begin(&s->blocks, index);
    s->parts[index] = square_range(stw_block_end(&s->blocks, index) - begin, s->x + begin);
}

static double square_sum(stw_backend *b, int64_t count, const void *x) {
    stw_arena scratch = stw_cpu_of(b)->scratch;
    sums s = {.blocks = stw_blocks_of(count, BLOCK, count), .x = x};
    s.parts = STW_NEW_DIRTY(&scratch, double, s.blocks.count);
    stw_cpu_run(b, s.blocks.count, square_block, &s);
    double sum = 0.0;
    for (int64_t i = 0; i < s.blocks.count; i++) sum += s.parts[i];
    return sum;
}

typedef struct {
    stw_blocks blocks;
    float beta1, beta2, rate, root, epsilon, factor; /* value -= rate * first / (root * sqrt(second) + epsilon) */
    const float *gradient;
    float *first, *second, *value;
} adam_step;

STW_CLONES static void adam_range(const adam_step *a, int64_t begin, int64_t end) {
    const float beta1 = a->beta1, beta2 = a->beta2, rate = a->rate, root = a->root, epsilon = a->epsilon, factor = a->factor;
    const float *restrict gradient = a->gradient;
    float *restrict first = a->first, *restrict second = a->second, *restrict value = a->value;
    for (int64_t k = begin; k < end; k++) {
        const float g = factor * gradient[k];
        first[k] = beta1 * first[k] + (1.0f - beta1) * g;
        second[k] = beta2 * second[k] + (1.0f - beta2) * (g * g);
        value[k] -= rate * first[k] / (root * sqrtf(second[k]) + epsilon);
    }
}

#if defined(__x86_64__)

/* The same by whole vectors: compilers leave roots single, because they may set errno. Returns where it ended. */
STW_AVX512 static int64_t adam_vectors(const adam_step *a, int64_t begin, int64_t end) {
    const __m512 beta1 = _mm512_set1_ps(a->beta1), rest1 = _mm512_set1_ps(1.0f - a->beta1), beta2 = _mm512_set1_ps(a->beta2);
    const __m512 rest2 = _mm512_set1_ps(1.0f - a->beta2), rate = _mm512_set1_ps(a->rate), root = _mm512_set1_ps(a->root);
    const __m512 epsilon = _mm512_set1_ps(a->epsilon), factor = _mm512_set1_ps(a->factor);
    int64_t k = begin;
    for (; k + LANES <= end; k += LANES) {
        const __m512 g = _mm512_mul_ps(factor, _mm512_loadu_ps(a->gradient + k));
        const __m512 first = _mm512_fmadd_ps(beta1, _mm512_loadu_ps(a->first + k), _mm512_mul_ps(rest1, g));
        const __m512 second = _mm512_fmadd_ps(beta2, _mm512_loadu_ps(a->second + k), _mm512_mul_ps(rest2, _mm512_mul_ps(g, g)));
        const __m512 below = _mm512_fmadd_ps(root, _mm512_sqrt_ps(second), epsilon);
        const __m512 step = _mm512_div_ps(_mm512_mul_ps(rate, first), below);
        _mm512_storeu_ps(a->first + k, first);
        _mm512_storeu_ps(a->second + k, second);
        _mm512_storeu_ps(a->value + k, _mm512_sub_ps(_mm512_loadu_ps(a->value + k), step));
    }
    return k;
}

#else

static int64_t adam_vectors(const adam_step *a, int64_t begin, int64_t end) {
    (void)a;
    (void)end;
    return begin;
}

#endif

static void adam_block(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const adam_step *a = context;
    const int64_t begin = stw_block_begin(&a->blocks, index), end = stw_block_end(&a->blocks, index);
    adam_range(a, stw_has_avx512() ? adam_vectors(a, begin, end) : begin, end);
}

static void adam(stw_backend *b, int64_t count, const stw_adam *s, double factor, const void *gradient, void *first, void *second,
                 void *value) {
    const double unbias1 = 1.0 - pow(s->beta1, (double)s->step), unbias2 = 1.0 - pow(s->beta2, (double)s->step);
    adam_step a = {.blocks = stw_blocks_of(count, BLOCK, count),
                   .beta1 = (float)s->beta1,
                   .beta2 = (float)s->beta2,
                   .rate = (float)(s->rate / unbias1),
                   .root = (float)(1.0 / sqrt(unbias2)),
                   .epsilon = (float)s->epsilon,
                   .factor = (float)factor,
                   .gradient = gradient,
                   .first = first,
                   .second = second,
                   .value = value};
    stw_cpu_run(b, a.blocks.count, adam_block, &a);
}

void stw_cpu_use_adam(stw_backend *b) {
    b->add_scaled = add_scaled;
    b->square_sum = square_sum;
    b->adam = adam;
}
