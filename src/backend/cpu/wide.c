#include "backend/cpu/wide.h"

#include "backend/cpu/cpu.h"
#include "backend/cpu/gemm.h"

enum { FEW_ROWS = 32 };
enum { PIECE_ROWS = 8 };          /* of few: a library that packs the matrix for more takes twice as long */
enum { PIECE_COLUMNS = 256 };     /* a piece of the matrix stays in the second cache from one piece of rows to the next */
enum { WORTH_THREADS = 1 << 22 }; /* products of numbers: fewer take as long as waking a thread */

bool stw_wide_fits(int64_t inner, int64_t outer) { return inner * outer >= 1 << 18; }
bool stw_wide_few(int64_t rows) { return rows <= FEW_ROWS; }

typedef struct {
    stw_blocks blocks;
    int64_t rows, in, out;
    const float *x, *w, *d_y;
    float before; /* share of what is there: 0 or 1 */
    float *y, *d_x, *d_w;
} work;

static void run(stw_backend *b, work *k, stw_pool_work *piece) {
    if (k->rows * k->in * k->out >= WORTH_THREADS)
        stw_cpu_run(b, k->blocks.count, piece, k);
    else
        for (int64_t i = 0; i < k->blocks.count; i++) piece(k, i, 0);
}

static int64_t piece_of(int64_t rows, int64_t begin) { return rows - begin < PIECE_ROWS ? rows - begin : PIECE_ROWS; }

static void forward_piece(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const work *k = context;
    const int64_t begin = stw_block_begin(&k->blocks, index), columns = stw_block_end(&k->blocks, index) - begin;
    for (int64_t r = 0; r < k->rows; r += PIECE_ROWS)
        stw_gemm(false, true, piece_of(k->rows, r), columns, k->in, 1.0f, k->x + r * k->in, k->in, k->w + begin * k->in, k->in,
                 k->before, k->y + r * k->out + begin, k->out);
}

void stw_wide_forward(stw_backend *b, int64_t rows, int64_t in, int64_t out, const float *x, const float *w, bool add, float *y) {
    work k = {.blocks = stw_blocks_of(out, PIECE_COLUMNS, out),
              .rows = rows,
              .in = in,
              .out = out,
              .x = x,
              .w = w,
              .before = add ? 1.0f : 0.0f,
              .y = y};
    run(b, &k, forward_piece);
}

static void back_piece(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const work *k = context;
    const int64_t begin = stw_block_begin(&k->blocks, index), columns = stw_block_end(&k->blocks, index) - begin;
    stw_gemm(false, false, k->rows, columns, k->out, 1.0f, k->d_y, k->out, k->w + begin, k->in, k->before, k->d_x + begin, k->in);
}

void stw_wide_back(stw_backend *b, int64_t rows, int64_t in, int64_t out, const float *w, const float *d_y, bool add,
                   float *d_x) {
    work k = {.blocks = stw_blocks_of(in, PIECE_COLUMNS, in),
              .rows = rows,
              .in = in,
              .out = out,
              .w = w,
              .d_y = d_y,
              .before = add ? 1.0f : 0.0f,
              .d_x = d_x};
    run(b, &k, back_piece);
}

static void weights_piece(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const work *k = context;
    const int64_t begin = stw_block_begin(&k->blocks, index), columns = stw_block_end(&k->blocks, index) - begin;
    stw_gemm(true, false, columns, k->in, k->rows, 1.0f, k->d_y + begin, k->out, k->x, k->in, 1.0f, k->d_w + begin * k->in,
             k->in);
}

void stw_wide_weights(stw_backend *b, int64_t rows, int64_t in, int64_t out, const float *x, const float *d_y, float *d_w) {
    work k = {
        .blocks = stw_blocks_of(out, PIECE_COLUMNS, out), .rows = rows, .in = in, .out = out, .x = x, .d_y = d_y, .d_w = d_w};
    run(b, &k, weights_piece);
}
