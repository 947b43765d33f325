#include <string.h>

#include "backend/cpu/clones.h"
#include "backend/cpu/cpu.h"

enum { BLOCK_ROWS = 128, BLOCK_COLUMNS = 16 };

typedef struct {
    stw_blocks blocks;
    int64_t rows, width;
    const float *table;
    const int32_t *id;
    float *y;
} embedding;

static void embed_block(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const embedding *e = context;
    for (int64_t r = stw_block_begin(&e->blocks, index); r < stw_block_end(&e->blocks, index); r++)
        memcpy(e->y + r * e->width, e->table + e->id[r] * e->width, (size_t)e->width * sizeof(float));
}

static void embed(stw_backend *b, int32_t rows, int32_t width, const void *table, const int32_t *id, void *y) {
    embedding e = {.blocks = stw_blocks_of(rows, 1024, rows), .width = width, .table = table, .id = id, .y = y};
    stw_cpu_run(b, e.blocks.count, embed_block, &e);
}

/* Many rows have the same id, so that threads share the work by columns. y is d_table, table d_y. */
static void embed_back_block(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const embedding *e = context;
    const int64_t begin = stw_block_begin(&e->blocks, index), end = stw_block_end(&e->blocks, index);
    for (int64_t r = 0; r < e->rows; r++) {
        for (int64_t i = begin; i < end; i++) e->y[e->id[r] * e->width + i] += e->table[r * e->width + i];
    }
}

static void embed_back(stw_backend *b, int32_t rows, int32_t width, int32_t entries, const int32_t *id, const void *d_y,
                       void *d_table) {
    (void)entries;
    embedding e = {
        .blocks = stw_blocks_of(width, BLOCK_COLUMNS, width), .rows = rows, .width = width, .table = d_y, .id = id, .y = d_table};
    stw_cpu_run(b, e.blocks.count, embed_back_block, &e);
}

typedef struct {
    stw_blocks blocks;
    const stw_gathering *g;
    int64_t width;
    const float *x;
    float *y;
    int32_t *chosen;
} forward;

STW_CLONES static void keep_larger(int64_t width, int32_t source, const float *restrict x, float *restrict y,
                                   int32_t *restrict chosen) {
    for (int64_t i = 0; i < width; i++) {
        const bool larger = x[i] > y[i];
        y[i] = larger ? x[i] : y[i];
        chosen[i] = larger ? source : chosen[i];
    }
}

static void gather_block(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const forward *f = context;
    const stw_gathering *g = f->g;
    const int64_t width = f->width;
    for (int64_t r = stw_block_begin(&f->blocks, index); r < stw_block_end(&f->blocks, index); r++) {
        float *y = f->y + r * width;
        int32_t *chosen = f->chosen + r * width;
        const int32_t begin = g->start[r], end = g->start[r + 1], first = begin < end ? g->item[begin] : -1;
        if (first < 0)
            memset(y, 0, (size_t)width * sizeof(float));
        else
            memcpy(y, f->x + first * width, (size_t)width * sizeof(float));
        for (int64_t i = 0; i < width; i++) chosen[i] = first;
        for (int32_t n = begin + 1; n < end; n++) keep_larger(width, g->item[n], f->x + g->item[n] * width, y, chosen);
    }
}

static void gather_max(stw_backend *b, const stw_gathering *g, int32_t width, const void *x, void *y, int32_t *chosen) {
    forward f = {.blocks = stw_blocks_of(g->rows, BLOCK_ROWS, g->rows), .g = g, .width = width, .x = x, .y = y, .chosen = chosen};
    stw_cpu_run(b, f.blocks.count, gather_block, &f);
}

typedef struct {
    stw_blocks blocks;
    const stw_gathering *g;
    int64_t width;
    const int32_t *chosen;
    const float *d_y;
    bool add;
    float *d_x;
} backward;

STW_CLONES static void add_chosen(int64_t width, int32_t source, const int32_t *restrict chosen, const float *restrict d_y,
                                  float *restrict d_x) {
    for (int64_t i = 0; i < width; i++) d_x[i] += chosen[i] == source ? d_y[i] : 0.0f;
}

static void gather_back_block(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const backward *f = context;
    const stw_gathering *g = f->g;
    const int64_t width = f->width;
    for (int64_t u = stw_block_begin(&f->blocks, index); u < stw_block_end(&f->blocks, index); u++) {
        const int32_t begin = g->back_start[u], end = g->back_start[u + 1];
        if (!f->add) memset(f->d_x + u * width, 0, (size_t)width * sizeof(float));
        for (int32_t n = begin; n < end; n++) {
            const int64_t r = g->back_item[n];
            if (n > begin && r == g->back_item[n - 1]) continue; /* it gathers twice from u, and chose once */
            add_chosen(width, (int32_t)u, f->chosen + r * width, f->d_y + r * width, f->d_x + u * width);
        }
    }
}

static void gather_max_back(stw_backend *b, const stw_gathering *g, int32_t width, const int32_t *chosen, const void *d_y,
                            bool add, void *d_x) {
    backward f = {.blocks = stw_blocks_of(g->sources, BLOCK_ROWS, g->sources),
                  .g = g,
                  .width = width,
                  .chosen = chosen,
                  .d_y = d_y,
                  .add = add,
                  .d_x = d_x};
    stw_cpu_run(b, f.blocks.count, gather_back_block, &f);
}

void stw_cpu_use_gather(stw_backend *b) {
    b->embed = embed;
    b->embed_back = embed_back;
    b->gather_max = gather_max;
    b->gather_max_back = gather_max_back;
}
