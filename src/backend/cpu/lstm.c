/* The step of an LSTM, element by element. */
#include "backend/cpu/clones.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/squash.h"

STW_FUSE

enum { BLOCK_NUMBERS = 1 << 14 }; /* of a thread's block of rows: some 10 us, as much as waking a thread takes */

typedef struct {
    stw_blocks blocks; /* of rows */
    int64_t width;
    const float *squashed, *c_before, *c, *d_h;
    int64_t before_step; /* between rows of c_before; 0: one row of zeros for all */
    float *gates, *c_out, *h_out;
    float *d_c, *d_gates;
} work;

STW_CLONES static void step_row(int64_t width, float *restrict gates, const float *restrict c_before, float *restrict c,
                                float *restrict h) {
    float *restrict forget = gates + width, *restrict cell = gates + 2 * width, *restrict output = gates + 3 * width;
    for (int64_t i = 0; i < width; i++) {
        gates[i] = stw_sigmoid(gates[i]);
        forget[i] = stw_sigmoid(forget[i]);
        cell[i] = stw_tanh(cell[i]);
        c[i] = forget[i] * c_before[i] + gates[i] * cell[i];
    }
    for (int64_t i = 0; i < width; i++) {
        output[i] = stw_sigmoid(output[i]);
        h[i] = output[i] * stw_tanh(c[i]);
    }
}

STW_CLONES static void back_row(int64_t width, const float *restrict gates, const float *restrict c_before,
                                const float *restrict c, const float *restrict d_h, float *restrict d_c,
                                float *restrict d_gates) {
    const float *restrict forget = gates + width, *restrict cell = gates + 2 * width, *restrict output = gates + 3 * width;
    float *restrict d_forget = d_gates + width, *restrict d_cell = d_gates + 2 * width, *restrict d_output = d_gates + 3 * width;
    for (int64_t i = 0; i < width; i++) {
        const float squashed = stw_tanh(c[i]), d_now = d_c[i] + d_h[i] * output[i] * (1.0f - squashed * squashed);
        d_gates[i] = d_now * cell[i] * gates[i] * (1.0f - gates[i]);
        d_forget[i] = d_now * c_before[i] * forget[i] * (1.0f - forget[i]);
        d_cell[i] = d_now * gates[i] * (1.0f - cell[i] * cell[i]);
        d_output[i] = d_h[i] * squashed * output[i] * (1.0f - output[i]);
        d_c[i] = d_now * forget[i];
    }
}

static void step_block(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const work *w = context;
    for (int64_t r = stw_block_begin(&w->blocks, index); r < stw_block_end(&w->blocks, index); r++)
        step_row(w->width, w->gates + 4 * r * w->width, w->c_before + r * w->before_step, w->c_out + r * w->width,
                 w->h_out + r * w->width);
}

static void back_block(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const work *w = context;
    for (int64_t r = stw_block_begin(&w->blocks, index); r < stw_block_end(&w->blocks, index); r++)
        back_row(w->width, w->squashed + 4 * r * w->width, w->c_before + r * w->before_step, w->c + r * w->width,
                 w->d_h + r * w->width, w->d_c + r * w->width, w->d_gates + 4 * r * w->width);
}

/* Blocks, and zeros from the scratch if there is no state before. */
static work work_of(int32_t rows, int32_t width, const float *c_before, stw_arena *scratch) {
    const int64_t size = BLOCK_NUMBERS / width + 1;
    work w = {.blocks = stw_blocks_of(rows, size, rows), .width = width, .c_before = c_before, .before_step = width};
    if (c_before != NULL) return w;
    float *zeros = stw_cpu_reals(scratch, width);
    for (int32_t i = 0; i < width; i++) zeros[i] = 0.0f;
    w.c_before = zeros;
    w.before_step = 0;
    return w;
}

static void lstm(stw_backend *b, int32_t rows, int32_t width, void *gates, const void *c_before, void *c, void *h) {
    stw_arena scratch = stw_cpu_of(b)->scratch;
    work w = work_of(rows, width, c_before, &scratch);
    w.gates = gates;
    w.c_out = c;
    w.h_out = h;
    stw_cpu_run(b, w.blocks.count, step_block, &w);
}

static void lstm_back(stw_backend *b, int32_t rows, int32_t width, const void *gates, const void *c_before, const void *c,
                      const void *d_h, void *d_c, void *d_gates) {
    stw_arena scratch = stw_cpu_of(b)->scratch;
    work w = work_of(rows, width, c_before, &scratch);
    w.squashed = gates;
    w.c = c;
    w.d_h = d_h;
    w.d_c = d_c;
    w.d_gates = d_gates;
    stw_cpu_run(b, w.blocks.count, back_block, &w);
}

void stw_cpu_use_lstm(stw_backend *b) {
    b->lstm = lstm;
    b->lstm_back = lstm_back;
}
