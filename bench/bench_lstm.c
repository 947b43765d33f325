/* Speed of a decoder: an LSTM (512 to 512) of 160 steps with additive attention on 160 items at each, K sequences side by side,
 * each step's input its own. Wall time and processor time of the best pass.
 *
 *     bench_lstm [--threads N] [--seconds S]
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "nn/layers.h"
#include "support/lstm_steps.h"

static double seconds_per_case = 1.0;
static stw_error error;

static void check(stw_status status) {
    if (status == STW_OK) return;
    fprintf(stderr, "bench_lstm: %s\n", error.message);
    exit(2);
}

static void *checked(void *memory) {
    if (memory == NULL) exit(2);
    return memory;
}

static float *some_numbers(int64_t count) {
    float *x = checked(aligned_alloc(64, ((size_t)count * sizeof(float) / 64 + 1) * 64));
    for (int64_t k = 0; k < count; k++) x[k] = 0.01f * ((float)(k % 7) - 3.0f);
    return x;
}

static double process_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum { STEPS = 160, ITEMS = 160, STATE = 512 };

typedef struct {
    stw_backend *b;
    stw_parameters p;
    stw_lstm_layer layer;
    int32_t K;
    float *x, *gates, *c, *h; /* of all steps; h of zeros first */
    float *key, *value, *v, *y, *weight;
    float *d_gates, *d_x, *d_h, *d_c, *d_key, *d_value, *d_query, *d_v;
} decoder;

static void decode(decoder *n) {
    const int64_t state = (int64_t)n->K * STATE;
    for (int64_t t = 0; t < STEPS; t++) {
        float *h = n->h + (t + 1) * state;
        stw_lstm_step(&n->layer, &n->p, n->K, n->x + t * state, n->h + t * state, t > 0 ? n->c + (t - 1) * state : NULL,
                      n->gates + 4 * t * state, n->c + t * state, h);
        n->b->point(n->b, n->K, ITEMS, STATE, STATE, n->key, h, n->v, n->value, n->y, n->weight + t * n->K * ITEMS);
    }
}

static void decode_back(decoder *n) {
    const int64_t state = (int64_t)n->K * STATE;
    stw_parameters_zero_gradient(&n->p);
    n->b->zero(n->b, n->d_c, state * 4);
    n->b->zero(n->b, n->d_h, state * 4);
    for (int64_t t = STEPS; t-- > 0;) {
        n->b->point_back(n->b, n->K, ITEMS, STATE, STATE, n->key, n->h + (t + 1) * state, n->v, n->value,
                         n->weight + t * n->K * ITEMS, n->d_h, n->d_key, n->d_query, n->d_v, n->d_value);
        stw_lstm_step_back(&n->layer, &n->p, n->K, t > 0 ? n->c + (t - 1) * state : NULL, n->gates + 4 * t * state,
                           n->c + t * state, n->d_query, n->d_c, n->d_gates + 4 * t * state, n->d_x, n->d_h);
    }
    stw_lstm_weights_back(&n->layer, &n->p, STEPS * n->K, n->x, n->h, n->d_gates);
}

static void measure(const char *what, void (*pass)(decoder *), decoder *n) {
    double wall = INFINITY, processor = INFINITY;
    pass(n);
    for (double begin = stw_now_s(); stw_now_s() - begin < seconds_per_case || isinf(wall);) {
        const double start = stw_now_s(), start_processor = process_s();
        pass(n);
        wall = fmin(wall, stw_now_s() - start);
        processor = fmin(processor, process_s() - start_processor);
    }
    printf("K %2d  %-8s %8.4f s  processor %8.4f s\n", n->K, what, wall, processor);
}

static void run_decoder(stw_pool *pool, int32_t K) {
    decoder *n = checked(calloc(1, sizeof *n));
    const stw_rng rng = stw_rng_create(1);
    const int64_t state = (int64_t)K * STATE, items = (int64_t)ITEMS * state;
    check(stw_backend_cpu(pool, &n->b, &error));
    n->p.backend = n->b;
    n->K = K;
    n->layer = stw_lstm_declare(&n->p, "lstm", STATE, STATE);
    check(stw_parameters_allocate(&n->p, &rng, &error));
    const struct {
        float **at;
        int64_t count;
    } buffer[] = {{&n->x, STEPS * state},
                  {&n->c, STEPS * state},
                  {&n->gates, state * 4 * STEPS},
                  {&n->d_gates, state * 4 * STEPS},
                  {&n->h, (STEPS + 1) * state},
                  {&n->key, items},
                  {&n->value, items},
                  {&n->d_key, items},
                  {&n->d_value, items},
                  {&n->weight, (int64_t)STEPS * ITEMS * K},
                  {&n->v, STATE},
                  {&n->d_v, STATE},
                  {&n->y, state},
                  {&n->d_x, state},
                  {&n->d_query, state},
                  {&n->d_h, state},
                  {&n->d_c, state}};
    enum { BUFFERS = sizeof buffer / sizeof *buffer };
    for (int i = 0; i < BUFFERS; i++) *buffer[i].at = some_numbers(buffer[i].count);
    measure("forward", decode, n);
    measure("backward", decode_back, n);
    for (int i = 0; i < BUFFERS; i++) free(*buffer[i].at);
    stw_parameters_release(&n->p);
    stw_backend_destroy(n->b);
    free(n);
}

int main(int argc, char **argv) {
    int threads = 2;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            threads = atoi(argv[++i]);
        else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            seconds_per_case = atof(argv[++i]);
        else
            return fprintf(stderr, "usage: bench_lstm [--threads N] [--seconds S]\n"), 2;
    }
    stw_pool *pool;
    check(stw_pool_create(threads, &pool, &error));
    for (int32_t K = 1; K <= 16; K *= 2) run_decoder(pool, K);
    stw_pool_destroy(pool);
    return 0;
}
