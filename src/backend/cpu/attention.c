/* Attention by segment and head: scores of a few rows at a time, so that they stay in the second cache and nothing of the size
 * rows x segment is kept; the backward pass computes them again. */
#include <math.h>

#include "backend/cpu/clones.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/exp.h"
#include "backend/cpu/gemm.h"

enum { BLOCK_ROWS = 64, LANES = 16 };

typedef struct {
    const stw_attention_shape *shape;
    int64_t segments; /* of a sequence */
    int64_t size;     /* of a head */
    float scale;
    const float *q, *k, *v, *y, *peak, *d_y;
    float *out, *out_peak;                          /* forward */
    float *d_q, *d_k, *d_v, *d_k_later, *d_v_later; /* backward */
    float *scratch;                                 /* (threads, scratch_size) */
    int64_t scratch_size;
} attention;

typedef struct {             /* one segment and head */
    int64_t column;          /* where the head begins in a row */
    int64_t begin, own, end; /* rows: of the segment before, of the segment, after it */
} part;

static part part_of(const attention *a, int64_t index) {
    const stw_attention_shape *s = a->shape;
    const int64_t head = index % s->heads, segment = index / s->heads % a->segments;
    const int64_t first = index / s->heads / a->segments * s->sequence, last = first + s->sequence;
    part p = {.column = head * a->size, .own = first + segment * s->segment};
    p.begin = segment > 0 ? p.own - s->segment : p.own;
    p.end = p.own + s->segment < last ? p.own + s->segment : last;
    return p;
}

/* Scores become exp(score - largest of the row); the row's sum goes to `sum`, log of the sum of exp to `peak`. */
STW_CLONES static void exp_rows(int64_t rows, int64_t seen, int64_t heads, float *restrict score, float *restrict sum,
                                float *restrict peak) {
    for (int64_t r = 0; r < rows; r++) {
        float *row = score + r * seen;
        float largest = row[0], top[LANES], part_sum[LANES] = {0}, total = 0.0f;
        for (int l = 0; l < LANES; l++) top[l] = row[0];
        int64_t u = 0;
        for (; u + LANES <= seen; u += LANES)
            for (int l = 0; l < LANES; l++) top[l] = row[u + l] > top[l] ? row[u + l] : top[l];
        for (; u < seen; u++) largest = row[u] > largest ? row[u] : largest;
        for (int l = 0; l < LANES; l++) largest = top[l] > largest ? top[l] : largest;
        for (u = 0; u + LANES <= seen; u += LANES) {
            for (int l = 0; l < LANES; l++) {
                const float e = stw_exp(row[u + l] - largest);
                row[u + l] = e;
                part_sum[l] += e;
            }
        }
        for (; u < seen; u++) {
            row[u] = stw_exp(row[u] - largest);
            total += row[u];
        }
        for (int l = 0; l < LANES; l++) total += part_sum[l];
        sum[r] = total;
        peak[r * heads] = largest + logf(total);
    }
}

static void forward_part(void *context, int64_t index, int32_t worker) {
    const attention *a = context;
    const part p = part_of(a, index);
    const int64_t width = a->shape->width, heads = a->shape->heads, seen = p.end - p.begin;
    float *score = a->scratch + worker * a->scratch_size, *sum = score + BLOCK_ROWS * seen;
    for (int64_t r = p.own; r < p.end; r += BLOCK_ROWS) {
        const int64_t rows = p.end - r < BLOCK_ROWS ? p.end - r : BLOCK_ROWS;
        float *y = a->out + r * width + p.column;
        stw_gemm(false, true, rows, seen, a->size, a->scale, a->q + r * width + p.column, width,
                 a->k + p.begin * width + p.column, width, 0.0f, score, seen);
        exp_rows(rows, seen, heads, score, sum, a->out_peak + r * heads + p.column / a->size);
        stw_gemm(false, false, rows, a->size, seen, 1.0f, score, seen, a->v + p.begin * width + p.column, width, 0.0f, y, width);
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t c = 0; c < a->size; c++) y[i * width + c] /= sum[i];
        }
    }
}

/* Scores become shares, exp(score - peak). */
STW_CLONES static void share_rows(int64_t rows, int64_t seen, int64_t heads, const float *restrict peak, float *restrict score) {
    for (int64_t r = 0; r < rows; r++) {
        const float top = peak[r * heads];
        for (int64_t u = 0; u < seen; u++) score[r * seen + u] = stw_exp(score[r * seen + u] - top);
    }
}

/* Gradients of shares become gradients of scores; mean: <d_y, y> of the row. */
STW_CLONES static void score_rows(int64_t rows, int64_t seen, const float *restrict share, const float *restrict mean,
                                  float *restrict d_share) {
    for (int64_t r = 0; r < rows; r++) {
        const float m = mean[r];
        for (int64_t u = 0; u < seen; u++) d_share[r * seen + u] = share[r * seen + u] * (d_share[r * seen + u] - m);
    }
}

static void zero_rows(int64_t begin, int64_t end, const attention *a, int64_t column, float *x) {
    for (int64_t r = begin; r < end; r++) {
        for (int64_t c = 0; c < a->size; c++) x[r * a->shape->width + column + c] = 0.0f;
    }
}

/* Adds a few rows' part to the gradients of the keys and values that they see: to[u] += alpha * weight^T from. */
static void add_to_memory(const attention *a, const part *p, int64_t rows, float alpha, const float *weight, const float *from,
                          bool fresh, float *own, float *later) {
    const int64_t width = a->shape->width, seen = p->end - p->begin, before = p->own - p->begin;
    const float beta = fresh ? 0.0f : 1.0f;
    if (before > 0)
        stw_gemm(true, false, before, a->size, rows, alpha, weight, seen, from, width, beta, later + p->begin * width + p->column,
                 width);
    stw_gemm(true, false, seen - before, a->size, rows, alpha, weight + before, seen, from, width, beta,
             own + p->own * width + p->column, width);
}

static void backward_part(void *context, int64_t index, int32_t worker) {
    const attention *a = context;
    const part p = part_of(a, index);
    const int64_t width = a->shape->width, heads = a->shape->heads, seen = p.end - p.begin, first = p.begin * width + p.column;
    float *share = a->scratch + worker * a->scratch_size, *d_score = share + BLOCK_ROWS * seen;
    float *mean = d_score + BLOCK_ROWS * seen;
    for (int64_t r = p.own; r < p.end; r += BLOCK_ROWS) {
        const int64_t rows = p.end - r < BLOCK_ROWS ? p.end - r : BLOCK_ROWS, at = r * width + p.column;
        stw_gemm(false, true, rows, seen, a->size, a->scale, a->q + at, width, a->k + first, width, 0.0f, share, seen);
        share_rows(rows, seen, heads, a->peak + r * heads + p.column / a->size, share);
        stw_gemm(false, true, rows, seen, a->size, 1.0f, a->d_y + at, width, a->v + first, width, 0.0f, d_score, seen);
        for (int64_t i = 0; i < rows; i++) {
            mean[i] = 0.0f;
            for (int64_t c = 0; c < a->size; c++) mean[i] += a->d_y[at + i * width + c] * a->y[at + i * width + c];
        }
        score_rows(rows, seen, share, mean, d_score);
        stw_gemm(false, false, rows, a->size, seen, a->scale, d_score, seen, a->k + first, width, 0.0f, a->d_q + at, width);
        add_to_memory(a, &p, rows, a->scale, d_score, a->q + at, r == p.own, a->d_k, a->d_k_later);
        add_to_memory(a, &p, rows, 1.0f, share, a->d_y + at, r == p.own, a->d_v, a->d_v_later);
    }
    if (p.end % a->shape->sequence == 0) { /* no segment comes after it */
        zero_rows(p.own, p.end, a, p.column, a->d_k_later);
        zero_rows(p.own, p.end, a, p.column, a->d_v_later);
    }
}

static attention prepare(stw_backend *b, const stw_attention_shape *shape, stw_arena *scratch) {
    const int64_t seen = shape->segment < shape->sequence ? 2 * (int64_t)shape->segment : shape->sequence;
    attention a = {.shape = shape, .size = shape->width / shape->heads};
    a.segments = (shape->sequence + (int64_t)shape->segment - 1) / shape->segment;
    a.scale = 1.0f / sqrtf((float)a.size);
    a.scratch_size = (2 * BLOCK_ROWS * seen + BLOCK_ROWS + 15) / 16 * 16;
    a.scratch = stw_cpu_reals(scratch, stw_cpu_of(b)->threads * a.scratch_size);
    return a;
}

static void run(stw_backend *b, attention *a, stw_pool_work *work) {
    stw_cpu_run(b, a->shape->rows / a->shape->sequence * a->segments * a->shape->heads, work, a);
}

static void attend(stw_backend *b, const stw_attention_shape *shape, const void *q, const void *k, const void *v, void *y,
                   void *peak) {
    if (shape->rows == 0) return;
    stw_arena scratch = stw_cpu_of(b)->scratch;
    attention a = prepare(b, shape, &scratch);
    a.q = q;
    a.k = k;
    a.v = v;
    a.out = y;
    a.out_peak = peak;
    run(b, &a, forward_part);
}

static void attend_back(stw_backend *b, const stw_attention_shape *shape, const void *q, const void *k, const void *v,
                        const void *y, const void *peak, const void *d_y, void *d_q, void *d_k, void *d_v, void *d_k_later,
                        void *d_v_later) {
    if (shape->rows == 0) return;
    stw_arena scratch = stw_cpu_of(b)->scratch;
    attention a = prepare(b, shape, &scratch);
    a.q = q;
    a.k = k;
    a.v = v;
    a.y = y;
    a.peak = peak;
    a.d_y = d_y;
    a.d_q = d_q;
    a.d_k = d_k;
    a.d_v = d_v;
    a.d_k_later = d_k_later;
    a.d_v_later = d_v_later;
    run(b, &a, backward_part);
}

void stw_cpu_use_attention(stw_backend *b) {
    b->attend = attend;
    b->attend_back = attend_back;
}
