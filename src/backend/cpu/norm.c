#include <math.h>
#include <string.h>

#include "backend/cpu/avx512.h"
#include "backend/cpu/clones.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/lanes.h"

enum { BLOCK_ROWS = 128 };

typedef struct {
    stw_blocks blocks;
    int64_t width;
    const float *x, *residual, *gain, *bias;
    float *y, *normal, *inverse;
} forward;

STW_CLONES static void norm_rows(int64_t begin, int64_t end, int64_t width, const forward *f) {
    const float *restrict gain = f->gain, *restrict bias = f->bias;
    for (int64_t r = begin; r < end; r++) {
        const float *x = f->x + r * width, *residual = f->residual == NULL ? NULL : f->residual + r * width;
        float *normal = f->normal + r * width, *y = f->y + r * width;
        if (residual != NULL)
            for (int64_t i = 0; i < width; i++) normal[i] = x[i] + residual[i];
        else
            memcpy(normal, x, (size_t)width * sizeof(float));
        const float mean = stw_sum(width, normal) / (float)width;
        for (int64_t i = 0; i < width; i++) normal[i] -= mean;
        const float scale = 1.0f / sqrtf(stw_dot(width, normal, normal) / (float)width + 1e-5f);
        f->inverse[r] = scale;
        for (int64_t i = 0; i < width; i++) {
            normal[i] *= scale;
            y[i] = normal[i] * gain[i] + bias[i];
        }
    }
}

#if defined(__x86_64__)

/* The same where a row is whole vectors; they go through memory once less, and sums need few steps. */
STW_AVX512 static void norm_vectors(int64_t begin, int64_t end, int64_t width, const forward *f) {
    for (int64_t r = begin; r < end; r++) {
        float *normal = f->normal + r * width, *y = f->y + r * width;
        __m512 sum = _mm512_setzero_ps(), squares = _mm512_setzero_ps();
        for (int64_t i = 0; i < width; i += STW_LANES) {
            __m512 z = _mm512_loadu_ps(f->x + r * width + i);
            if (f->residual != NULL) z = _mm512_add_ps(z, _mm512_loadu_ps(f->residual + r * width + i));
            _mm512_storeu_ps(normal + i, z);
            sum = _mm512_add_ps(sum, z);
        }
        const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum) / (float)width);
        for (int64_t i = 0; i < width; i += STW_LANES) {
            const __m512 z = _mm512_sub_ps(_mm512_loadu_ps(normal + i), mean);
            squares = _mm512_fmadd_ps(z, z, squares);
        }
        f->inverse[r] = 1.0f / sqrtf(_mm512_reduce_add_ps(squares) / (float)width + 1e-5f);
        const __m512 scale = _mm512_set1_ps(f->inverse[r]);
        for (int64_t i = 0; i < width; i += STW_LANES) {
            const __m512 z = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(normal + i), mean), scale);
            _mm512_storeu_ps(normal + i, z);
            _mm512_storeu_ps(y + i, _mm512_fmadd_ps(z, _mm512_loadu_ps(f->gain + i), _mm512_loadu_ps(f->bias + i)));
        }
    }
}

#else

static void norm_vectors(int64_t begin, int64_t end, int64_t width, const forward *f) { norm_rows(begin, end, width, f); }

#endif

static bool whole_vectors(int64_t width) { return width % STW_LANES == 0 && stw_has_avx512(); }

static void norm_block(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const forward *f = context;
    const int64_t begin = stw_block_begin(&f->blocks, index), end = stw_block_end(&f->blocks, index);
    if (whole_vectors(f->width))
        norm_vectors(begin, end, f->width, f);
    else
        norm_rows(begin, end, f->width, f);
}

static void norm(stw_backend *b, int32_t rows, int32_t width, const void *x, const void *residual, const void *gain,
                 const void *bias, void *y, void *normal, void *inverse) {
    forward f = {.blocks = stw_blocks_of(rows, BLOCK_ROWS, rows),
                 .width = width,
                 .x = x,
                 .residual = residual,
                 .gain = gain,
                 .bias = bias,
                 .y = y,
                 .normal = normal,
                 .inverse = inverse};
    stw_cpu_run(b, f.blocks.count, norm_block, &f);
}

typedef struct {
    stw_blocks blocks;
    int64_t width;
    const float *normal, *inverse, *gain, *d_y;
    float *d_z;
    float *gain_parts, *bias_parts; /* (blocks, width) */
    float *scratch;                 /* (threads, width): d_y * gain of a row */
} backward;

STW_CLONES static void back_rows(int64_t begin, int64_t end, int64_t width, const backward *f, float *restrict g,
                                 float *restrict gain_sum, float *restrict bias_sum) {
    const float *restrict gain = f->gain;
    for (int64_t i = 0; i < width; i++) gain_sum[i] = bias_sum[i] = 0.0f;
    for (int64_t r = begin; r < end; r++) {
        const float *normal = f->normal + r * width, *d_y = f->d_y + r * width;
        float *d_z = f->d_z + r * width;
        for (int64_t i = 0; i < width; i++) g[i] = d_y[i] * gain[i];
        const float mean = stw_sum(width, g) / (float)width, slope = stw_dot(width, g, normal) / (float)width;
        const float scale = f->inverse[r];
        for (int64_t i = 0; i < width; i++) {
            gain_sum[i] += d_y[i] * normal[i];
            bias_sum[i] += d_y[i];
        }
        for (int64_t i = 0; i < width; i++) d_z[i] = scale * (g[i] - mean - normal[i] * slope);
    }
}

#if defined(__x86_64__)

STW_AVX512 static void back_vectors(int64_t begin, int64_t end, int64_t width, const backward *f, float *gain_sum,
                                    float *bias_sum) {
    for (int64_t i = 0; i < width; i++) gain_sum[i] = bias_sum[i] = 0.0f;
    for (int64_t r = begin; r < end; r++) {
        const float *normal = f->normal + r * width, *d_y = f->d_y + r * width;
        __m512 sum = _mm512_setzero_ps(), along = _mm512_setzero_ps();
        for (int64_t i = 0; i < width; i += STW_LANES) {
            const __m512 d = _mm512_loadu_ps(d_y + i), n = _mm512_loadu_ps(normal + i);
            const __m512 g = _mm512_mul_ps(d, _mm512_loadu_ps(f->gain + i));
            sum = _mm512_add_ps(sum, g);
            along = _mm512_fmadd_ps(g, n, along);
            _mm512_storeu_ps(gain_sum + i, _mm512_fmadd_ps(d, n, _mm512_loadu_ps(gain_sum + i)));
            _mm512_storeu_ps(bias_sum + i, _mm512_add_ps(d, _mm512_loadu_ps(bias_sum + i)));
        }
        const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum) / (float)width);
        const __m512 slope = _mm512_set1_ps(_mm512_reduce_add_ps(along) / (float)width), scale = _mm512_set1_ps(f->inverse[r]);
        for (int64_t i = 0; i < width; i += STW_LANES) {
            const __m512 g = _mm512_mul_ps(_mm512_loadu_ps(d_y + i), _mm512_loadu_ps(f->gain + i));
            const __m512 rest = _mm512_fnmadd_ps(_mm512_loadu_ps(normal + i), slope, _mm512_sub_ps(g, mean));
            _mm512_storeu_ps(f->d_z + r * width + i, _mm512_mul_ps(scale, rest));
        }
    }
}

#else

static void back_vectors(int64_t begin, int64_t end, int64_t width, const backward *f, float *gain_sum, float *bias_sum) {
    back_rows(begin, end, width, f, f->scratch, gain_sum, bias_sum);
}

#endif

static void back_block(void *context, int64_t index, int32_t worker) {
    const backward *f = context;
    const int64_t begin = stw_block_begin(&f->blocks, index), end = stw_block_end(&f->blocks, index), width = f->width;
    float *gain_sum = f->gain_parts + index * width, *bias_sum = f->bias_parts + index * width;
    if (whole_vectors(width))
        back_vectors(begin, end, width, f, gain_sum, bias_sum);
    else
        back_rows(begin, end, width, f, f->scratch + worker * width, gain_sum, bias_sum);
}

static void norm_back(stw_backend *b, int32_t rows, int32_t width, const void *normal, const void *inverse, const void *gain,
                      const void *d_y, void *d_z, void *d_gain, void *d_bias) {
    stw_arena scratch = stw_cpu_of(b)->scratch;
    backward f = {.blocks = stw_blocks_of(rows, BLOCK_ROWS, rows),
                  .width = width,
                  .normal = normal,
                  .inverse = inverse,
                  .gain = gain,
                  .d_y = d_y,
                  .d_z = d_z};
    f.gain_parts = stw_cpu_reals(&scratch, f.blocks.count * width);
    f.bias_parts = stw_cpu_reals(&scratch, f.blocks.count * width);
    f.scratch = stw_cpu_reals(&scratch, (int64_t)stw_cpu_of(b)->threads * width);
    stw_cpu_run(b, f.blocks.count, back_block, &f);
    stw_cpu_add_parts(b, width, f.blocks.count, f.gain_parts, d_gain);
    stw_cpu_add_parts(b, width, f.blocks.count, f.bias_parts, d_bias);
}

void stw_cpu_use_norm(stw_backend *b) {
    b->norm = norm;
    b->norm_back = norm_back;
}
