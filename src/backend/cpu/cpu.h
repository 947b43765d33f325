/* What the kernels of the cpu backend share.
 *
 * Work is cut into blocks that depend on its size alone; the pool's threads take blocks in any order, and what several blocks add
 * to (gradients of weights) is added up in the order of the blocks. So the number of threads changes no bit of any result. */
#ifndef STW_BACKEND_CPU_CPU_H
#define STW_BACKEND_CPU_CPU_H

#include "backend/backend.h"
#include "base/arena.h"

typedef struct stw_cpu {
    stw_pool *pool; /* borrowed; NULL: none */
    int32_t threads;
    stw_arena scratch; /* a kernel works in a copy; pages stay with the process, so a second pass takes no new memory */
} stw_cpu;

static inline stw_cpu *stw_cpu_of(const stw_backend *b) { return b->state; }

/* work(context, index, worker) for all indices, on the pool if there is more than one. */
void stw_cpu_run(stw_backend *b, int64_t count, stw_pool_work *work, void *context);

typedef struct stw_blocks {
    int64_t total, size, count; /* the last may be shorter */
} stw_blocks;

/* Blocks of about `size`, even, at most `most` of them. */
stw_blocks stw_blocks_of(int64_t total, int64_t size, int64_t most);
static inline int64_t stw_block_begin(const stw_blocks *blocks, int64_t index) { return index * blocks->size; }
static inline int64_t stw_block_end(const stw_blocks *blocks, int64_t index) {
    const int64_t end = (index + 1) * blocks->size;
    return end < blocks->total ? end : blocks->total;
}

/* `count` reals of scratch, gone with the copy of the arena. */
float *stw_cpu_reals(stw_arena *scratch, int64_t count);
/* to[k] += from[k] + from[count + k] + ... in this order, over `times` parts. */
void stw_cpu_add_parts(stw_backend *b, int64_t count, int64_t times, const float *from, float *to);

/* Kernels that need sums over rows: enough blocks for the threads, few enough that adding up costs little. */
enum { STW_SUM_ROWS = 160, STW_SUM_BLOCKS = 16 };

void stw_cpu_use_linear(stw_backend *b);    /* linear.c */
void stw_cpu_use_attention(stw_backend *b); /* attention.c, heads.c */
void stw_cpu_use_norm(stw_backend *b);      /* norm.c */
void stw_cpu_use_point(stw_backend *b);     /* point.c */
void stw_cpu_use_lstm(stw_backend *b);      /* lstm.c */
void stw_cpu_use_gather(stw_backend *b);    /* gather.c: embed, gather_max */
void stw_cpu_use_rows(stw_backend *b);      /* rows.c: gate, mean, repeat, log_softmax */
void stw_cpu_use_adam(stw_backend *b);      /* adam.c: add_scaled, square_sum, adam */

#endif
