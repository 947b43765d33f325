/* Attention by segment and head: scores of a few rows at a time, so that they stay in a cache and nothing of the size rows x
 * segment is kept; the backward pass computes them again. Here by the library for matrices; heads.c does without. */
#include <math.h>
#include <string.h>

#include "backend/cpu/clones.h"
STW_FUSE
#include "backend/cpu/attention.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/exp.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/heads.h"
#include "backend/cpu/lanes.h"

enum { BLOCK_ROWS = 64 };

typedef stw_attention_work attention;
typedef stw_attention_part part;

static part part_of(const attention *a, int64_t index) {
    const stw_attention_shape *s = a->shape;
    const int64_t head = index % s->heads, segment = index / s->heads % a->segments;
    const int64_t first = index / s->heads / a->segments * s->sequence, last = first + s->sequence;
    part p = {.column = head * a->size, .own = first + segment * s->segment};
    p.begin = segment > 0 ? p.own - s->segment : p.own;
    p.end = p.own + s->segment < last ? p.own + s->segment : last;
    return p;
}

typedef struct {              /* a thread's scratch: numbers of one head without gaps */
    float *k, *v, *d_k, *d_v; /* (seen, size) */
    float *q, *y, *d_y;       /* (BLOCK_ROWS, size) */
    float *share, *d_score;   /* (BLOCK_ROWS, seen) */
    float *sum;               /* (BLOCK_ROWS) */
} desk;

static int64_t desk_size(const stw_attention_shape *s) {
    const int64_t seen = stw_seen_at_most(s), size = s->width / s->heads;
    return (4 * seen * size + (int64_t)3 * BLOCK_ROWS * size + (int64_t)2 * BLOCK_ROWS * seen + BLOCK_ROWS + 15) / 16 * 16;
}

static desk desk_of(const attention *a, int32_t worker) {
    const int64_t seen = stw_seen_at_most(a->shape);
    float *next = a->scratch + worker * a->desk;
    desk d;
    float **wide[] = {&d.k, &d.v, &d.d_k, &d.d_v}, **narrow[] = {&d.q, &d.y, &d.d_y}, **square[] = {&d.share, &d.d_score};
    for (int i = 0; i < 4; i++, next += seen * a->size) *wide[i] = next;
    for (int i = 0; i < 3; i++, next += BLOCK_ROWS * a->size) *narrow[i] = next;
    for (int i = 0; i < 2; i++, next += BLOCK_ROWS * seen) *square[i] = next;
    d.sum = next;
    return d;
}

STW_CLONES static void move_rows(int64_t rows, int64_t size, const float *from, int64_t from_step, float *to, int64_t to_step) {
    for (int64_t r = 0; r < rows; r++, from += from_step, to += to_step) {
        int64_t c = 0;
        for (; c + STW_LANES <= size; c += STW_LANES) memcpy(to + c, from + c, STW_LANES * sizeof(float)); /* needs no call */
        for (; c < size; c++) to[c] = from[c];
    }
}

void stw_move_rows(int64_t rows, int64_t size, const float *from, int64_t from_step, float *to, int64_t to_step) {
    move_rows(rows, size, from, from_step, to, to_step);
}

/* A head's columns of some rows to the desk, and back: rows a power of two apart would fall into few sets of the cache. */
static void take_head(const attention *a, const part *p, int64_t row, int64_t rows, const float *from, float *to) {
    stw_move_rows(rows, a->size, from + row * a->shape->width + p->column, a->shape->width, to, a->size);
}

static void put_head(const attention *a, const part *p, int64_t row, int64_t rows, const float *from, float *to) {
    stw_move_rows(rows, a->size, from, a->size, to + row * a->shape->width + p->column, a->shape->width);
}

/* out: (rows, seen) = scale * left memory^T. */
static void score(const attention *a, int64_t rows, int64_t seen, float scale, const float *left, const float *memory,
                  float *out) {
    stw_gemm(false, true, rows, seen, a->size, scale, left, a->size, memory, a->size, 0.0f, out, seen);
}

/* out: (rows, size) = scale * weight memory, weight: (rows, seen). */
static void mix(const attention *a, int64_t rows, int64_t seen, float scale, const float *weight, const float *memory,
                float *out) {
    stw_gemm(false, false, rows, a->size, seen, scale, weight, seen, memory, a->size, 0.0f, out, a->size);
}

/* out: (seen, size) = scale * weight^T from (+ out, if add), weight: (rows, seen). */
static void mix_back(const attention *a, int64_t rows, int64_t seen, float scale, const float *weight, const float *from,
                     bool add, float *out) {
    stw_gemm(true, false, seen, a->size, rows, scale, weight, seen, from, a->size, add ? 1.0f : 0.0f, out, a->size);
}

/* Scores become exp(score - largest of the row); the row's sum goes to `sum`, log of the sum of exp to `peak`. */
STW_CLONES static void exp_rows(int64_t rows, int64_t seen, int64_t heads, float *restrict score, float *restrict sum,
                                float *restrict peak) {
    for (int64_t r = 0; r < rows; r++) {
        float *row = score + r * seen;
        const float largest = stw_largest(seen, row);
        for (int64_t u = 0; u < seen; u++) row[u] = stw_exp(row[u] - largest);
        sum[r] = stw_sum(seen, row);
        peak[r * heads] = largest + logf(sum[r]);
    }
}

static void forward_by_library(const attention *a, const part *p, int32_t worker) {
    const desk d = desk_of(a, worker);
    const int64_t width = a->shape->width, heads = a->shape->heads, size = a->size, seen = p->end - p->begin;
    take_head(a, p, p->begin, seen, a->k, d.k);
    take_head(a, p, p->begin, seen, a->v, d.v);
    for (int64_t r = p->own; r < p->end; r += BLOCK_ROWS) {
        const int64_t rows = p->end - r < BLOCK_ROWS ? p->end - r : BLOCK_ROWS;
        take_head(a, p, r, rows, a->q, d.q);
        score(a, rows, seen, a->scale, d.q, d.k, d.share);
        exp_rows(rows, seen, heads, d.share, d.sum, a->out_peak + r * heads + p->column / size);
        mix(a, rows, seen, 1.0f, d.share, d.v, d.y);
        for (int64_t i = 0; i < rows; i++) {
            const float factor = 1.0f / d.sum[i];
            for (int64_t c = 0; c < size; c++) a->out[(r + i) * width + p->column + c] = d.y[i * size + c] * factor;
        }
    }
}

static void forward_part(void *context, int64_t index, int32_t worker) {
    const attention *a = context;
    const part p = part_of(a, index);
    if (a->wide)
        stw_heads_forward(a, &p, a->scratch + worker * a->desk);
    else
        forward_by_library(a, &p, worker);
}

/* Scores become shares, exp(score - peak), and gradients of shares become gradients of scores; mean: <d_y, y> of the row. */
STW_CLONES static void share_rows(int64_t rows, int64_t seen, int64_t heads, const float *restrict peak,
                                  const float *restrict mean, float *restrict score, float *restrict d_share) {
    for (int64_t r = 0; r < rows; r++) {
        const float top = peak[r * heads], m = mean[r];
        for (int64_t u = r * seen; u < (r + 1) * seen; u++) {
            const float share = stw_exp(score[u] - top);
            score[u] = share;
            d_share[u] = share * (d_share[u] - m);
        }
    }
}

/* Gradients of keys or values go apart: those of the segment before, those of the own. */
static void part_memory(const attention *a, const part *p, const float *from, float *later, float *own) {
    put_head(a, p, p->begin, p->own - p->begin, from, later);
    put_head(a, p, p->own, p->end - p->own, from + (p->own - p->begin) * a->size, own);
}

static void backward_rows(const attention *a, const part *p, const desk *d, int64_t r, int64_t rows) {
    const int64_t heads = a->shape->heads, size = a->size, seen = p->end - p->begin;
    take_head(a, p, r, rows, a->q, d->q);
    take_head(a, p, r, rows, a->d_y, d->d_y);
    take_head(a, p, r, rows, a->y, d->y);
    for (int64_t i = 0; i < rows; i++) {
        d->sum[i] = 0.0f;
        for (int64_t c = 0; c < size; c++) d->sum[i] += d->d_y[i * size + c] * d->y[i * size + c];
    }
    score(a, rows, seen, a->scale, d->q, d->k, d->share);
    score(a, rows, seen, 1.0f, d->d_y, d->v, d->d_score);
    share_rows(rows, seen, heads, a->peak + r * heads + p->column / size, d->sum, d->share, d->d_score);
    mix(a, rows, seen, a->scale, d->d_score, d->k, d->y);
    put_head(a, p, r, rows, d->y, a->d_q);
    mix_back(a, rows, seen, a->scale, d->d_score, d->q, r > p->own, d->d_k);
    mix_back(a, rows, seen, 1.0f, d->share, d->d_y, r > p->own, d->d_v);
}

static void backward_by_library(const attention *a, const part *p, int32_t worker) {
    const desk d = desk_of(a, worker);
    take_head(a, p, p->begin, p->end - p->begin, a->k, d.k);
    take_head(a, p, p->begin, p->end - p->begin, a->v, d.v);
    for (int64_t r = p->own; r < p->end; r += BLOCK_ROWS)
        backward_rows(a, p, &d, r, p->end - r < BLOCK_ROWS ? p->end - r : BLOCK_ROWS);
    part_memory(a, p, d.d_k, a->d_k_later, a->d_k);
    part_memory(a, p, d.d_v, a->d_v_later, a->d_v);
}

static void backward_part(void *context, int64_t index, int32_t worker) {
    const attention *a = context;
    const part p = part_of(a, index);
    if (a->wide)
        stw_heads_backward(a, &p, a->scratch + worker * a->desk);
    else
        backward_by_library(a, &p, worker);
    if (p.end % a->shape->sequence != 0 || p.column > 0) return;
    const int64_t width = a->shape->width, count = (p.end - p.own) * width; /* no segment comes after it: zeros, of all heads */
    memset(a->d_k_later + p.own * width, 0, (size_t)count * sizeof(float));
    memset(a->d_v_later + p.own * width, 0, (size_t)count * sizeof(float));
}

static attention prepare(stw_backend *b, const stw_attention_shape *shape, const void *q, const void *k, const void *v,
                         stw_arena *scratch) {
    attention a = {.shape = shape, .size = shape->width / shape->heads, .q = q, .k = k, .v = v};
    a.segments = (shape->sequence + (int64_t)shape->segment - 1) / shape->segment;
    a.scale = 1.0f / sqrtf((float)a.size);
    a.wide = stw_heads_fit(a.size);
    a.desk = a.wide ? stw_heads_desk(shape) : desk_size(shape);
    a.scratch = stw_cpu_reals(scratch, stw_cpu_of(b)->threads * a.desk);
    return a;
}

static void run(stw_backend *b, attention *a, stw_pool_work *work) {
    stw_cpu_run(b, a->shape->rows / a->shape->sequence * a->segments * a->shape->heads, work, a);
}

static void attend(stw_backend *b, const stw_attention_shape *shape, const void *q, const void *k, const void *v, void *y,
                   void *peak) {
    if (shape->rows == 0) return;
    stw_arena scratch = stw_cpu_of(b)->scratch;
    attention a = prepare(b, shape, q, k, v, &scratch);
    a.out = y;
    a.out_peak = peak;
    run(b, &a, forward_part);
}

static void attend_back(stw_backend *b, const stw_attention_shape *shape, const void *q, const void *k, const void *v,
                        const void *y, const void *peak, const void *d_y, void *d_q, void *d_k, void *d_v, void *d_k_later,
                        void *d_v_later) {
    if (shape->rows == 0) return;
    stw_arena scratch = stw_cpu_of(b)->scratch;
    attention a = prepare(b, shape, q, k, v, &scratch);
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
