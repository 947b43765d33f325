#include <math.h>
#include <string.h>

#include "backend/cpu/clones.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/exp.h"

enum { BLOCK_ROWS = 128 };

typedef struct {
    stw_blocks blocks; /* of rows */
    int64_t rows, width, times;
    const float *x, *y;
    const float *factor; /* (width) */
    bool add;
    float *out;
    float *parts; /* (blocks, width) */
} rows_work;

static stw_blocks blocks_of_rows(int64_t rows) { return stw_blocks_of(rows, BLOCK_ROWS, rows); }

/* gate */

static void open_gate(int64_t width, const float *gate, float *factor) {
    for (int64_t i = 0; i < width; i++) factor[i] = 2.0f / (1.0f + expf(-gate[i]));
}

STW_CLONES static void multiply(int64_t rows, int64_t width, bool add, const float *x, const float *factor, float *y) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < width; i++) {
            const float product = x[r * width + i] * factor[i];
            y[r * width + i] = add ? y[r * width + i] + product : product;
        }
    }
}

/* Sums over rows of x * y, or of x. */
STW_CLONES static void add_up_rows(int64_t rows, int64_t width, const float *x, const float *y, float *restrict sum) {
    for (int64_t i = 0; i < width; i++) sum[i] = 0.0f;
    for (int64_t r = 0; r < rows; r++) {
        if (y != NULL)
            for (int64_t i = 0; i < width; i++) sum[i] += x[r * width + i] * y[r * width + i];
        else
            for (int64_t i = 0; i < width; i++) sum[i] += x[r * width + i];
    }
}

static void gate_block(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const rows_work *w = context;
    const int64_t begin = stw_block_begin(&w->blocks, index), rows = stw_block_end(&w->blocks, index) - begin;
    const int64_t at = begin * w->width;
    if (w->parts != NULL) add_up_rows(rows, w->width, w->x + at, w->y + at, w->parts + index * w->width);
    multiply(rows, w->width, w->add, w->x + at, w->factor, w->out + at);
}

static void gate(stw_backend *b, int32_t rows, int32_t width, const void *x, const void *gate_, void *y) {
    stw_arena scratch = stw_cpu_of(b)->scratch;
    float *factor = stw_cpu_reals(&scratch, width);
    open_gate(width, gate_, factor);
    rows_work w = {.blocks = blocks_of_rows(rows), .width = width, .x = x, .factor = factor, .out = y};
    stw_cpu_run(b, w.blocks.count, gate_block, &w);
}

static void gate_back(stw_backend *b, int32_t rows, int32_t width, const void *x, const void *gate_, const void *d_y, bool add,
                      void *d_x, void *d_gate) {
    stw_arena scratch = stw_cpu_of(b)->scratch;
    float *factor = stw_cpu_reals(&scratch, width), *sum = d_gate;
    open_gate(width, gate_, factor);
    rows_work w = {.blocks = blocks_of_rows(rows), .width = width, .x = d_y, .y = x, .factor = factor, .add = add, .out = d_x};
    w.parts = stw_cpu_reals(&scratch, w.blocks.count * width);
    stw_cpu_run(b, w.blocks.count, gate_block, &w);
    for (int64_t i = 0; i < width; i++) {
        double total = 0.0;
        for (int64_t k = 0; k < w.blocks.count; k++) total += (double)w.parts[k * width + i];
        sum[i] += (float)(total * (double)factor[i] * (1.0 - (double)factor[i] / 2.0));
    }
}

/* mean */

static void mean_block(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const rows_work *w = context;
    const int64_t begin = stw_block_begin(&w->blocks, index), rows = stw_block_end(&w->blocks, index) - begin;
    add_up_rows(rows, w->width, w->x + begin * w->width, NULL, w->parts + index * w->width);
}

static void mean(stw_backend *b, int32_t rows, int32_t width, const void *x, void *y) {
    stw_arena scratch = stw_cpu_of(b)->scratch;
    rows_work w = {.blocks = blocks_of_rows(rows), .width = width, .x = x};
    w.parts = stw_cpu_reals(&scratch, w.blocks.count * width);
    stw_cpu_run(b, w.blocks.count, mean_block, &w);
    for (int64_t i = 0; i < width; i++) {
        double total = 0.0;
        for (int64_t k = 0; k < w.blocks.count; k++) total += (double)w.parts[k * width + i];
        ((float *)y)[i] = (float)(total / rows);
    }
}

STW_CLONES static void spread(int64_t rows, int64_t width, bool add, const float *restrict d_y, float *restrict d_x) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < width; i++) d_x[r * width + i] = add ? d_x[r * width + i] + d_y[i] : d_y[i];
    }
}

static void mean_back_block(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const rows_work *w = context;
    const int64_t begin = stw_block_begin(&w->blocks, index), rows = stw_block_end(&w->blocks, index) - begin;
    spread(rows, w->width, w->add, w->factor, w->out + begin * w->width);
}

static void mean_back(stw_backend *b, int32_t rows, int32_t width, const void *d_y, bool add, void *d_x) {
    stw_arena scratch = stw_cpu_of(b)->scratch;
    float *share = stw_cpu_reals(&scratch, width);
    for (int64_t i = 0; i < width; i++) share[i] = ((const float *)d_y)[i] / (float)rows;
    rows_work w = {.blocks = blocks_of_rows(rows), .width = width, .factor = share, .add = add, .out = d_x};
    stw_cpu_run(b, w.blocks.count, mean_back_block, &w);
}

/* repeat */

static void repeat_block(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const rows_work *w = context;
    const int64_t begin = stw_block_begin(&w->blocks, index), rows = stw_block_end(&w->blocks, index) - begin;
    for (int64_t t = 0; t < w->times; t++)
        memcpy(w->out + (t * w->rows + begin) * w->width, w->x + begin * w->width, (size_t)(rows * w->width) * sizeof(float));
}

static void repeat(stw_backend *b, int32_t rows, int32_t width, int32_t times, const void *x, void *y) {
    rows_work w = {.blocks = blocks_of_rows(rows), .rows = rows, .width = width, .times = times, .x = x, .out = y};
    stw_cpu_run(b, w.blocks.count, repeat_block, &w);
}

STW_CLONES static void add_to(int64_t count, const float *restrict from, float *restrict to) {
    for (int64_t k = 0; k < count; k++) to[k] += from[k];
}

static void repeat_back_block(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const rows_work *w = context;
    const int64_t begin = stw_block_begin(&w->blocks, index), rows = stw_block_end(&w->blocks, index) - begin;
    float *d_x = w->out + begin * w->width;
    if (!w->add) memset(d_x, 0, (size_t)(rows * w->width) * sizeof(float));
    for (int64_t t = 0; t < w->times; t++) add_to(rows * w->width, w->x + (t * w->rows + begin) * w->width, d_x);
}

static void repeat_back(stw_backend *b, int32_t rows, int32_t width, int32_t times, const void *d_y, bool add, void *d_x) {
    rows_work w = {
        .blocks = blocks_of_rows(rows), .rows = rows, .width = width, .times = times, .x = d_y, .add = add, .out = d_x};
    stw_cpu_run(b, w.blocks.count, repeat_back_block, &w);
}

/* log_softmax */

static void log_softmax_block(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const rows_work *w = context;
    for (int64_t r = stw_block_begin(&w->blocks, index); r < stw_block_end(&w->blocks, index); r++) {
        const float *x = w->x + r * w->width;
        float *y = w->out + r * w->width, largest = x[0], sum = 0.0f;
        for (int64_t i = 1; i < w->width; i++) largest = x[i] > largest ? x[i] : largest;
        for (int64_t i = 0; i < w->width; i++) sum += stw_exp(x[i] - largest);
        const float log_sum = logf(sum);
        for (int64_t i = 0; i < w->width; i++) y[i] = x[i] - largest - log_sum;
    }
}

static void log_softmax(stw_backend *b, int32_t rows, int32_t width, const void *x, void *y) {
    rows_work w = {.blocks = blocks_of_rows(rows), .width = width, .x = x, .out = y};
    stw_cpu_run(b, w.blocks.count, log_softmax_block, &w);
}

static void log_softmax_back_block(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const rows_work *w = context;
    for (int64_t r = stw_block_begin(&w->blocks, index); r < stw_block_end(&w->blocks, index); r++) {
        const float *y = w->y + r * w->width, *d_y = w->x + r * w->width;
        float *d_x = w->out + r * w->width, sum = 0.0f;
        for (int64_t i = 0; i < w->width; i++) sum += d_y[i];
        for (int64_t i = 0; i < w->width; i++) d_x[i] = d_y[i] - stw_exp(y[i]) * sum;
    }
}

static void log_softmax_back(stw_backend *b, int32_t rows, int32_t width, const void *y, const void *d_y, void *d_x) {
    rows_work w = {.blocks = blocks_of_rows(rows), .width = width, .x = d_y, .y = y, .out = d_x};
    stw_cpu_run(b, w.blocks.count, log_softmax_back_block, &w);
}

void stw_cpu_use_rows(stw_backend *b) {
    b->gate = gate;
    b->gate_back = gate_back;
    b->mean = mean;
    b->mean_back = mean_back;
    b->repeat = repeat;
    b->repeat_back = repeat_back;
    b->log_softmax = log_softmax;
    b->log_softmax_back = log_softmax_back;
}
