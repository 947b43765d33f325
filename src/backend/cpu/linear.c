#include "backend/cpu/clones.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/lanes.h"
#include "backend/cpu/narrow.h"
#include "backend/cpu/wide.h"

enum { FORWARD_ROWS = 192, BACKWARD_ROWS = 256 }; /* of a block: its numbers stay in the second cache */
enum { FEW_ROWS = 8, FEW_COLUMNS = 4 };           /* fewer: one product of vectors after the other */

typedef struct {
    stw_blocks blocks;
    int64_t in, out;
    const float *x, *w, *bias;
    bool add, relu;
    bool few;            /* rows or columns */
    const float *turned; /* (in, out), or NULL: not narrow */
    float *y;
} forward;

/* Products of vectors, one by one. */
STW_CLONES static void multiply_few(int64_t rows, int64_t in, int64_t out, const float *x, const float *w, bool add, float *y) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t o = 0; o < out; o++) {
            const float sum = stw_dot(in, x + r * in, w + o * in);
            y[r * out + o] = add ? y[r * out + o] + sum : sum;
        }
    }
}

STW_CLONES static void add_bias(int64_t rows, int64_t out, const float *restrict bias, float *restrict y) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t o = 0; o < out; o++) y[r * out + o] += bias[o];
    }
}

STW_CLONES static void cut(int64_t count, float *y) {
    for (int64_t k = 0; k < count; k++) y[k] = y[k] > 0.0f ? y[k] : 0.0f;
}

STW_CLONES static void add_bias_and_cut(int64_t rows, int64_t out, const float *restrict bias, float *restrict y) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t o = 0; o < out; o++) {
            const float sum = y[r * out + o] + bias[o];
            y[r * out + o] = sum > 0.0f ? sum : 0.0f;
        }
    }
}

static void finish(int64_t rows, int64_t out, const float *bias, bool relu, float *y) {
    if (bias != NULL && relu)
        add_bias_and_cut(rows, out, bias, y);
    else if (bias != NULL)
        add_bias(rows, out, bias, y);
    else if (relu)
        cut(rows * out, y);
}

static void forward_block(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const forward *f = context;
    const int64_t begin = stw_block_begin(&f->blocks, index), rows = stw_block_end(&f->blocks, index) - begin;
    const float *x = f->x + begin * f->in;
    float *y = f->y + begin * f->out;
    if (f->turned != NULL) {
        const stw_narrow_end end = {.scale = 1.0f, .add = f->add, .relu = f->relu, .bias = f->bias};
        stw_narrow(rows, f->out, f->in, (stw_narrow_left){x, f->in, 1}, f->turned, f->out, &end, y, f->out);
        return;
    }
    if (f->few)
        multiply_few(rows, f->in, f->out, x, f->w, f->add, y);
    else
        stw_gemm(false, true, rows, f->out, f->in, 1.0f, x, f->in, f->w, f->in, f->add ? 1.0f : 0.0f, y, f->out);
    finish(rows, f->out, f->bias, f->relu, y);
}

static void linear(stw_backend *b, int32_t rows, int32_t in, int32_t out, const void *x, const void *w, const void *bias,
                   bool add, bool relu, void *y) {
    if (stw_wide_fits(in, out) && stw_wide_few(rows)) {
        stw_wide_forward(b, rows, in, out, x, w, add, y);
        finish(rows, out, bias, relu, y);
        return;
    }
    forward f = {.blocks = stw_blocks_of(rows, FORWARD_ROWS, rows),
                 .in = in,
                 .out = out,
                 .x = x,
                 .w = w,
                 .bias = bias,
                 .add = add,
                 .relu = relu,
                 .few = rows < FEW_ROWS || out < FEW_COLUMNS,
                 .y = y};
    stw_arena scratch = stw_cpu_of(b)->scratch;
    if (!f.few && stw_narrow_fits(in, out)) {
        float *turned = stw_cpu_reals(&scratch, (int64_t)in * out);
        stw_turn(out, in, w, in, turned, out);
        f.turned = turned;
    }
    stw_cpu_run(b, f.blocks.count, forward_block, &f);
}

typedef struct {
    stw_blocks blocks;
    int64_t in, out;
    const float *x, *w, *y;
    bool relu, add, narrow;
    float *d_y, *d_x;
    float *d_w, *d_bias;         /* the first block adds to these */
    float *w_parts, *bias_parts; /* (blocks - 1, out, in), (blocks - 1, out): the others write theirs */
} backward;

STW_CLONES static void stop_where_cut(int64_t count, const float *restrict y, float *restrict d_y) {
    for (int64_t k = 0; k < count; k++) d_y[k] = y[k] > 0.0f ? d_y[k] : 0.0f;
}

STW_CLONES static void add_columns(int64_t rows, int64_t out, const float *restrict d_y, float *restrict sum) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t o = 0; o < out; o++) sum[o] += d_y[r * out + o];
    }
}

/* A part of a block; `fresh`: the sums begin with it. */
static void backward_rows(const backward *f, int64_t begin, int64_t rows, bool fresh, float *d_w, float *d_bias) {
    const float *x = f->x == NULL ? NULL : f->x + begin * f->in; /* the gradient of x alone needs none */
    float *d_y = f->d_y + begin * f->out;
    if (f->relu) stop_where_cut(rows * f->out, f->y + begin * f->out, d_y);
    if (d_bias != NULL) {
        for (int64_t o = 0; fresh && o < f->out; o++) d_bias[o] = 0.0f;
        add_columns(rows, f->out, d_y, d_bias);
    }
    if (f->narrow) {
        const stw_narrow_end end_w = {.scale = 1.0f, .add = !fresh}, end_x = {.scale = 1.0f, .add = f->add};
        if (d_w != NULL) stw_narrow(f->out, f->in, rows, (stw_narrow_left){d_y, 1, f->out}, x, f->in, &end_w, d_w, f->in);
        if (f->d_x != NULL)
            stw_narrow(rows, f->in, f->out, (stw_narrow_left){d_y, f->out, 1}, f->w, f->in, &end_x, f->d_x + begin * f->in,
                       f->in);
        return;
    }
    if (d_w != NULL) stw_gemm(true, false, f->out, f->in, rows, 1.0f, d_y, f->out, x, f->in, fresh ? 0.0f : 1.0f, d_w, f->in);
    if (f->d_x != NULL)
        stw_gemm(false, false, rows, f->in, f->out, 1.0f, d_y, f->out, f->w, f->in, f->add ? 1.0f : 0.0f, f->d_x + begin * f->in,
                 f->in);
}

static void backward_block(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const backward *f = context;
    const int64_t end = stw_block_end(&f->blocks, index);
    float *d_w = f->d_w, *d_bias = f->d_bias;
    if (index > 0 && d_w != NULL) d_w = f->w_parts + (index - 1) * f->out * f->in;
    if (index > 0 && d_bias != NULL) d_bias = f->bias_parts + (index - 1) * f->out;
    bool fresh = index > 0;
    for (int64_t begin = stw_block_begin(&f->blocks, index); begin < end; begin += BACKWARD_ROWS) {
        backward_rows(f, begin, end - begin < BACKWARD_ROWS ? end - begin : BACKWARD_ROWS, fresh, d_w, d_bias);
        fresh = false;
    }
}

static void linear_back(stw_backend *b, int32_t rows, int32_t in, int32_t out, const void *x, const void *w, const void *y,
                        bool relu, void *d_y, bool add, void *d_x, void *d_w, void *d_bias) {
    stw_arena scratch = stw_cpu_of(b)->scratch;
    const bool wide = stw_wide_fits(in, out), wide_x = wide && stw_wide_few(rows);
    backward f = {.blocks = stw_blocks_of(rows, STW_SUM_ROWS, STW_SUM_BLOCKS),
                  .in = in,
                  .out = out,
                  .x = x,
                  .w = w,
                  .y = y,
                  .relu = relu,
                  .add = add,
                  .narrow = stw_narrow_fits(in, out),
                  .d_y = d_y,
                  .d_x = wide_x ? NULL : d_x,
                  .d_w = wide ? NULL : d_w,
                  .d_bias = d_bias};
    const int64_t parts = f.blocks.count - 1;
    if (f.d_w != NULL) f.w_parts = stw_cpu_reals(&scratch, parts * out * in);
    if (d_bias != NULL) f.bias_parts = stw_cpu_reals(&scratch, parts * out);
    if (relu || f.d_x != NULL || f.d_w != NULL || d_bias != NULL) stw_cpu_run(b, f.blocks.count, backward_block, &f);
    if (f.d_w != NULL) stw_cpu_add_parts(b, (int64_t)out * in, parts, f.w_parts, d_w);
    if (d_bias != NULL) stw_cpu_add_parts(b, out, parts, f.bias_parts, d_bias);
    if (wide_x && d_x != NULL) stw_wide_back(b, rows, in, out, w, d_y, add, d_x);
    if (wide && d_w != NULL) stw_wide_weights(b, rows, in, out, x, d_y, d_w);
}

void stw_cpu_use_linear(stw_backend *b) {
    b->linear = linear;
    b->linear_back = linear_back;
}
