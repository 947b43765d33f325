#include "backend/cpu/cpu.h"

#include <stdlib.h>

#include "backend/cpu/clones.h"
#include "backend/cpu/gemm.h"
#include "backend/host.h"

void stw_cpu_run(stw_backend *b, int64_t count, stw_pool_work *work, void *context) {
    const stw_cpu *cpu = stw_cpu_of(b);
    if (cpu->threads > 1 && count > 1)
        stw_pool_run(cpu->pool, count, work, context);
    else
        for (int64_t i = 0; i < count; i++) work(context, i, 0);
}

stw_blocks stw_blocks_of(int64_t total, int64_t size, int64_t most) {
    int64_t count = total / size;
    if (count > most) count = most;
    if (count < 1) count = 1;
    stw_blocks blocks = {.total = total, .size = ((total + count - 1) / count + 15) / 16 * 16};
    if (blocks.size < 16) blocks.size = 16;
    blocks.count = (total + blocks.size - 1) / blocks.size;
    return blocks;
}

float *stw_cpu_reals(stw_arena *scratch, int64_t count) { return stw_arena_alloc_dirty(scratch, sizeof(float), 64, count); }

typedef struct {
    stw_blocks blocks;
    int64_t times;
    const float *from;
    float *to;
} parts;

STW_CLONES static void add_range(int64_t begin, int64_t end, int64_t step, int64_t times, const float *restrict from,
                                 float *restrict to) {
    for (int64_t t = 0; t < times; t++) {
        for (int64_t k = begin; k < end; k++) to[k] += from[t * step + k];
    }
}

static void add_block(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const parts *p = context;
    add_range(stw_block_begin(&p->blocks, index), stw_block_end(&p->blocks, index), p->blocks.total, p->times, p->from, p->to);
}

void stw_cpu_add_parts(stw_backend *b, int64_t count, int64_t times, const float *from, float *to) {
    parts p = {.blocks = stw_blocks_of(count, 4096, 256), .times = times, .from = from, .to = to};
    if (times > 0) stw_cpu_run(b, p.blocks.count, add_block, &p);
}

static void destroy(stw_backend *b) {
    stw_arena_destroy(&stw_cpu_of(b)->scratch);
    free(b->state);
    free(b);
}

/* No kernel fails, so there must be room for the largest: sums of gradients in 16 parts, 64 MiB for a layer of 1024 by 1024. It
 * is address space alone until it is used. */
static stw_status create_scratch(stw_arena *out, stw_error *error) {
    if (stw_arena_create_sized(out, INT64_C(1) << 34, NULL) == STW_OK) return STW_OK;
    return stw_arena_create_sized(out, INT64_C(1) << 28, error);
}

stw_status stw_backend_cpu(stw_pool *pool, stw_backend **out, stw_error *error) {
    *out = NULL;
    stw_backend *b = calloc(1, sizeof *b);
    stw_cpu *cpu = calloc(1, sizeof *cpu);
    stw_status status = STW_OK;
    if (b == NULL || cpu == NULL)
        status = stw_fail(error, STW_ERROR_MEMORY, "out of memory for a backend");
    else
        status = create_scratch(&cpu->scratch, error);
    if (status != STW_OK) {
        free(b);
        free(cpu);
        return status;
    }
    cpu->pool = pool;
    cpu->threads = pool == NULL ? 1 : stw_pool_threads(pool);
    *b = (stw_backend){.name = "cpu", .real_bytes = sizeof(float), .state = cpu, .destroy = destroy};
    stw_gemm_prepare();
    stw_host_memory(b);
    stw_cpu_use_linear(b);
    stw_cpu_use_attention(b);
    stw_cpu_use_norm(b);
    stw_cpu_use_point(b);
    stw_cpu_use_lstm(b);
    stw_cpu_use_gather(b);
    stw_cpu_use_rows(b);
    stw_cpu_use_adam(b);
    *out = b;
    return STW_OK;
}
