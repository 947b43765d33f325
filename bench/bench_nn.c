/* Speed of the network: matrix products by each library that was found, then a network of 3 GraphSAGE and 2 attention layers
 * (width 128, 8 heads, inner 512, segment 256) on random graphs, forward and with backward pass and Adam. The dense share is the
 * arithmetic of linear layers and attention by the processor time, as a part of what large matrix products reach.
 *
 *     bench_nn [--threads N] [--seconds S] [--network]      --network: only the network; bench/nn_torch.py compares with PyTorch
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/gemm.h"
#include "base/clock.h"
#include "nn/layers.h"

#if defined(STW_BENCH_OPENBLAS)
#include <cblas.h>
#endif

enum { SAGES = 3, ATTENTIONS = 2, WIDTH = 128, HEADS = 8, INNER = 512, SEGMENT = 256 };

static double seconds_per_case = 1.0;
static stw_error error;

static void check(stw_status status) {
    if (status == STW_OK) return;
    fprintf(stderr, "bench_nn: %s\n", error.message);
    exit(2);
}

static void *checked(void *memory) {
    if (memory == NULL) exit(2);
    return memory;
}

static float *some_numbers(int64_t count) {
    float *x = checked(aligned_alloc(64, ((size_t)count * sizeof(float) / 64 + 1) * 64));
    for (int64_t k = 0; k < count; k++) x[k] = (float)(k % 7) - 3.0f;
    return x;
}

/* Matrix products */

typedef void product(bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_step,
                     const float *b, int64_t b_step, float beta, float *c, int64_t c_step);

typedef struct {
    const char *what;
    bool turn_a, turn_b;
    int64_t m, n, k, step; /* step: between rows of op(a)'s and op(b)'s narrow side; 0: no gaps */
} shape;

static const shape shapes[] = {
    {"square", false, false, 2048, 2048, 2048, 0},
    {"linear", false, true, 192, 128, 128, 0},
    {"linear up", false, true, 192, 512, 128, 0},
    {"linear down", false, true, 192, 128, 512, 0},
    {"linear, all rows at once", false, true, 34855, 128, 128, 0},
    {"linear, narrow", false, true, 192, 16, 32, 0},
    {"gradient of x", false, false, 256, 128, 128, 0},
    {"gradient of x, down", false, false, 256, 512, 128, 0},
    {"gradient of w", true, false, 128, 128, 256, 0},
    {"gradient of w, up", true, false, 512, 128, 256, 0},
    {"scores of a head", false, true, 64, 512, 16, 128},
    {"shares times values", false, false, 64, 16, 512, 0},
    {"gradient of keys", true, false, 256, 16, 64, 0},
};

#if defined(STW_BENCH_OPENBLAS)
static void by_openblas(bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_step,
                        const float *b, int64_t b_step, float beta, float *c, int64_t c_step) {
    cblas_sgemm(CblasRowMajor, turn_a ? CblasTrans : CblasNoTrans, turn_b ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n,
                (blasint)k, alpha, a, (blasint)a_step, b, (blasint)b_step, beta, c, (blasint)c_step);
}
#endif

/* Processor time of this thread, of all threads: what others take of a busy machine does not count. */
static double thread_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double process_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double gigaflops(product *multiply, const shape *s) {
    const int64_t a_step = s->step > 0 ? s->step : s->turn_a ? s->m : s->k;
    const int64_t b_step = s->step > 0 ? s->step : s->turn_b ? s->k : s->n;
    float *a = some_numbers((s->turn_a ? s->k : s->m) * a_step), *b = some_numbers((s->turn_b ? s->n : s->k) * b_step);
    float *c = some_numbers(s->m * s->n);
    const double flops = 2.0 * (double)s->m * (double)s->n * (double)s->k;
    const int64_t times = 1 + (int64_t)(2e8 / flops);
    double best = INFINITY;
    for (double begin = stw_now_s(); stw_now_s() - begin < 0.2 * seconds_per_case || isinf(best);) {
        const double start = thread_s();
        for (int64_t i = 0; i < times; i++)
            multiply(s->turn_a, s->turn_b, s->m, s->n, s->k, 1.0f, a, a_step, b, b_step, 0.0f, c, s->n);
        best = fmin(best, (thread_s() - start) / (double)times);
    }
    free(a);
    free(b);
    free(c);
    return flops / best * 1e-9;
}

static void compare_libraries(void) {
    printf("matrix products of one thread, GF/s           m     n     k  %10s", stw_gemm_library());
#if defined(STW_BENCH_OPENBLAS)
    openblas_set_num_threads(1);
    printf("  %10s", "OpenBLAS");
#endif
    printf("\n");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const shape *s = &shapes[i];
        printf("  %-26s %s%s %11lld %5lld %5lld  %10.1f", s->what, s->turn_a ? "T" : "N", s->turn_b ? "T" : "N", (long long)s->m,
               (long long)s->n, (long long)s->k, gigaflops(stw_gemm, s));
#if defined(STW_BENCH_OPENBLAS)
        printf("  %10.1f", gigaflops(by_openblas, s));
#endif
        printf("\n");
    }
}

static void peak_of_worker(void *context, int64_t index, int32_t worker) {
    (void)worker;
    ((double *)context)[index] = gigaflops(stw_gemm, &shapes[0]);
}

/* What each of the pool's threads reaches while all work. */
static double measure_peak(stw_pool *pool) {
    double rate[1024] = {0}, sum = 0.0;
    stw_pool_run(pool, stw_pool_threads(pool), peak_of_worker, rate);
    for (int i = 0; i < stw_pool_threads(pool); i++) sum += rate[i];
    return sum / stw_pool_threads(pool);
}

/* A random graph: every node reads one to three of the fifty before it. The same numbers as in nn_torch.py. */

static uint64_t draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

typedef struct {
    int32_t *start, *item, *back_start, *back_item;
} lists;

static lists random_graph(int32_t nodes) {
    lists g = {.start = checked(calloc((size_t)nodes + 1, sizeof(int32_t))),
               .item = checked(calloc((size_t)nodes * 3, 4)),
               .back_start = checked(calloc((size_t)nodes + 2, 4)),
               .back_item = checked(calloc((size_t)nodes * 3, 4))};
    uint64_t state = 1;
    for (int32_t r = 0; r < nodes; r++) {
        const int32_t reach = r < 50 ? r : 50, count = reach == 0 ? 0 : 1 + (int32_t)(draw(&state) % 3);
        g.start[r + 1] = g.start[r] + count;
        for (int32_t n = g.start[r]; n < g.start[r + 1]; n++) {
            g.item[n] = r - 1 - (int32_t)(draw(&state) % (uint64_t)reach);
            g.back_start[g.item[n] + 2]++;
        }
    }
    for (int32_t u = 0; u < nodes; u++) g.back_start[u + 2] += g.back_start[u + 1];
    for (int32_t r = 0; r < nodes; r++) {
        for (int32_t n = g.start[r]; n < g.start[r + 1]; n++) g.back_item[g.back_start[g.item[n] + 1]++] = r;
    }
    return g;
}

/* The network */

typedef struct {
    stw_backend *b;
    stw_parameters p;
    stw_tape *tape;
    stw_sage_layer sage[SAGES];
    stw_attention_layer attention[ATTENTIONS];
    stw_gathering producers, readers;
    int32_t rows;
    void *x, *d_y, *d_x; /* (rows, WIDTH); the gradients take turns */
    stw_sage_kept sage_kept[SAGES];
    stw_attention_kept attention_kept[ATTENTIONS];
} network;

static void declare(network *n) {
    char name[32];
    for (int i = 0; i < SAGES; i++) {
        snprintf(name, sizeof name, "sage.%d", i);
        n->sage[i] = stw_sage_declare(&n->p, name, WIDTH, WIDTH);
    }
    for (int i = 0; i < ATTENTIONS; i++) {
        snprintf(name, sizeof name, "attention.%d", i);
        n->attention[i] = stw_attention_declare(&n->p, name, WIDTH, INNER, HEADS);
    }
}

static void forward(network *n) {
    const void *x = n->x;
    stw_tape_reset(n->tape);
    for (int i = 0; i < SAGES; i++) {
        check(stw_sage_forward(&n->sage[i], &n->p, &n->producers, &n->readers, x, n->tape, &n->sage_kept[i], &error));
        x = n->sage_kept[i].y;
    }
    for (int i = 0; i < ATTENTIONS; i++) {
        check(
            stw_attention_forward(&n->attention[i], &n->p, n->rows, n->rows, SEGMENT, x, n->tape, &n->attention_kept[i], &error));
        x = n->attention_kept[i].y;
    }
}

static void train(network *n) { /* the loss is the sum of the squares of the output, halved */
    void *d_y = n->d_y, *d_x = n->d_x;
    forward(n);
    stw_parameters_zero_gradient(&n->p);
    n->b->copy(n->b, d_y, n->attention_kept[ATTENTIONS - 1].y, (int64_t)n->rows * WIDTH * 4);
    for (int i = ATTENTIONS; i-- > 0;) {
        check(stw_attention_backward(&n->attention[i], &n->p, &n->attention_kept[i], d_y, d_x, n->tape, &error));
        void *swap = d_y;
        d_y = d_x;
        d_x = swap;
    }
    for (int i = SAGES; i-- > 0;) {
        check(stw_sage_backward(&n->sage[i], &n->p, &n->producers, &n->readers, &n->sage_kept[i], d_y, d_x, n->tape, &error));
        void *swap = d_y;
        d_y = d_x;
        d_x = swap;
    }
    stw_parameters_update(&n->p, 1e-4, 1.0);
}

/* Useful arithmetic of a forward pass; the backward pass has twice as much. */
static double flops_of(int64_t rows) {
    double seen = 0.0;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t own = r / SEGMENT * SEGMENT, begin = own > 0 ? own - SEGMENT : 0;
        seen += (double)((own + SEGMENT < rows ? own + SEGMENT : rows) - begin);
    }
    const double linear = (double)rows * (SAGES * 5.0 * WIDTH * WIDTH + ATTENTIONS * (4.0 * WIDTH * WIDTH + 2.0 * WIDTH * INNER));
    return 2.0 * linear + ATTENTIONS * 4.0 * seen * WIDTH;
}

typedef struct {
    double wall, processor; /* s */
} times;

static times best_times(void (*pass)(network *), network *n) {
    times best = {INFINITY, INFINITY};
    pass(n);
    for (double begin = stw_now_s(); stw_now_s() - begin < seconds_per_case || isinf(best.wall);) {
        const double wall = stw_now_s(), processor = process_s();
        pass(n);
        best.wall = fmin(best.wall, stw_now_s() - wall);
        best.processor = fmin(best.processor, process_s() - processor);
    }
    return best;
}

static void print_line(const network *n, const char *what, times t, double flops, double peak) {
    printf("%6d nodes  %-21s %8.4f s  processor %8.4f s  %3.0f %% of %.0f GF/s and thread\n", n->rows, what, t.wall, t.processor,
           flops / t.processor / peak * 1e-7, peak);
}

static void run_network(stw_pool *pool, int32_t rows) {
    network *n = checked(calloc(1, sizeof *n));
    lists g = random_graph(rows);
    const stw_rng rng = stw_rng_create(1);
    n->rows = rows;
    n->producers = (stw_gathering){rows, rows, g.start, g.item, g.back_start, g.back_item};
    n->readers = (stw_gathering){rows, rows, g.back_start, g.back_item, g.start, g.item};
    check(stw_backend_cpu(pool, &n->b, &error));
    n->p.backend = n->b;
    declare(n);
    check(stw_parameters_allocate(&n->p, &rng, &error));
    check(stw_tape_create(n->b, &n->tape, &error));
    void **buffer[] = {&n->x, &n->d_y, &n->d_x};
    for (int i = 0; i < 3; i++) check(n->b->allocate(n->b, (int64_t)rows * WIDTH * 4, buffer[i], &error));
    stw_rng numbers = stw_rng_create(2);
    for (int64_t k = 0; k < (int64_t)rows * WIDTH; k++) ((float *)n->x)[k] = (float)stw_rng_normal(&numbers);
    const double peak = measure_peak(pool), flops = flops_of(rows);
    const times forward_s = best_times(forward, n), train_s = best_times(train, n);
    print_line(n, "forward", forward_s, flops, peak);
    print_line(n, "forward+backward+Adam", train_s, 3.0 * flops, peak);
    printf("%6d nodes  %-21s %8.1f MB\n", rows, "memory of the tape", (double)stw_tape_bytes(n->tape) * 1e-6);
    for (int i = 0; i < 3; i++) n->b->release(n->b, *buffer[i]);
    stw_tape_destroy(n->tape);
    stw_parameters_release(&n->p);
    stw_backend_destroy(n->b);
    int32_t *arrays[] = {g.start, g.item, g.back_start, g.back_item};
    for (int i = 0; i < 4; i++) free(arrays[i]);
    free(n);
}

int main(int argc, char **argv) {
    int threads = 2;
    bool only_network = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            threads = atoi(argv[++i]);
        else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            seconds_per_case = atof(argv[++i]);
        else if (strcmp(argv[i], "--network") == 0)
            only_network = true;
        else
            return fprintf(stderr, "usage: bench_nn [--threads N] [--seconds S] [--network]\n"), 2;
    }
    if (!only_network) compare_libraries();
    stw_pool *pool;
    check(stw_pool_create(threads, &pool, &error));
    run_network(pool, 34855);
    run_network(pool, 1414);
    stw_pool_destroy(pool);
    return 0;
}
