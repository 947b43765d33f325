/* Speed of the policy in one update of training, without the simulator: as many forward and backward passes and steps of Adam as
 * there are epochs, on random graphs of the sizes that go-one meets. Then one decision for all rows: a forward pass of both
 * tasks. Milliseconds, the best of many.
 *
 *     bench_policy [--threads N] [--seconds S] [--rows M]      --rows: only this size, on 2 devices
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "policy/policy.h"

enum { EPOCHS = 2, SAMPLES = 16, MOST_READ = 3 };

static stw_error error;

static void check(stw_status status) {
    if (status == STW_OK) return;
    fprintf(stderr, "bench_policy: %s\n", error.message);
    exit(2);
}

static void *array(int64_t count, size_t size) {
    void *memory = calloc((size_t)count + 1, size);
    if (memory == NULL) exit(2);
    return memory;
}

static double *normal_numbers(stw_rng *rng, int64_t count) {
    double *x = array(count, sizeof *x);
    for (int64_t k = 0; k < count; k++) x[k] = stw_rng_normal(rng);
    return x;
}

/* Every row reads up to three of the twenty before it. */
typedef struct {
    int32_t *start[2], *item[2]; /* producers, readers */
} lists;

static lists random_lists(stw_rng *rng, int32_t rows) {
    lists l;
    for (int way = 0; way < 2; way++) {
        l.start[way] = array(rows + 2, sizeof(int32_t));
        l.item[way] = array((int64_t)rows * MOST_READ, sizeof(int32_t));
    }
    for (int32_t r = 0; r < rows; r++) {
        const int32_t reach = r < 20 ? r : 20;
        l.start[0][r + 1] = l.start[0][r];
        for (int32_t back = 1 + (int32_t)stw_rng_below(rng, 7); back <= reach && l.start[0][r + 1] - l.start[0][r] < MOST_READ;
             back += 1 + (int32_t)stw_rng_below(rng, 7)) {
            l.item[0][l.start[0][r + 1]++] = r - back;
            l.start[1][r - back + 2]++;
        }
    }
    for (int32_t u = 0; u < rows; u++) l.start[1][u + 2] += l.start[1][u + 1];
    for (int32_t r = 0; r < rows; r++) {
        for (int32_t n = l.start[0][r]; n < l.start[0][r + 1]; n++) l.item[1][l.start[1][l.item[0][n] + 1]++] = r;
    }
    return l;
}

typedef struct {
    stw_net *net;
    stw_pass *pass;
    double *action, *means, *out, *d_means, *d_out; /* the last sample has no gradient: it is the greedy one */
} update;

static void run_update(update *u) {
    stw_parameters *p = stw_net_parameters(u->net);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        check(stw_pass_placement(u->pass, u->means, &error));
        check(stw_pass_schedule(u->pass, SAMPLES + 1, u->action, u->out, &error));
        stw_parameters_zero_gradient(p);
        check(stw_pass_backward(u->pass, &(stw_net_gradient){NULL, u->d_means, u->d_out}, &error));
        stw_parameters_update(p, 1e-4, 1.0);
    }
}

static void run_forward(update *u) {
    check(stw_pass_placement(u->pass, u->means, &error));
    check(stw_pass_schedule(u->pass, 1, u->means, u->out, &error));
}

static double process_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void measure(update *u, void (*work)(update *), const char *name, int32_t M, int32_t D, double seconds) {
    double wall = INFINITY, processor = INFINITY;
    work(u);
    for (double begin = stw_now_s(); stw_now_s() - begin < seconds || isinf(wall);) {
        const double wall_s = stw_now_s(), processor_s = process_s();
        work(u);
        wall = fmin(wall, stw_now_s() - wall_s);
        processor = fmin(processor, process_s() - processor_s);
    }
    printf("%6d rows  %2d devices  %-18s  %9.3f ms  processor %9.3f ms\n", M, D, name, wall * 1e3, processor * 1e3);
}

static void run(stw_pool *pool, int32_t M, int32_t D, double seconds) {
    stw_policy_config c;
    if (!stw_policy_preset("default", &c)) exit(2);
    c.unit_columns = 32;
    c.feedback_columns = 8;
    c.device_columns = 8;
    c.pair_columns = 8;
    stw_rng rng = stw_rng_create(1);
    lists l = random_lists(&rng, M);
    double *unit = normal_numbers(&rng, (int64_t)M * c.unit_columns);
    double *feedback = normal_numbers(&rng, (int64_t)M * c.feedback_columns);
    double *pair = normal_numbers(&rng, (int64_t)M * D * c.pair_columns);
    int32_t *operators = array(M, sizeof *operators);
    for (int32_t r = 0; r < M; r++) operators[r] = r % c.operators;
    const stw_net_input input = {.M = M,
                                 .D = D,
                                 .unit = unit,
                                 .feedback = feedback,
                                 .pair = pair,
                                 .operator_ = operators,
                                 .producer_start = l.start[0],
                                 .producer = l.item[0],
                                 .reader_start = l.start[1],
                                 .reader = l.item[1]};
    const int64_t rows = (int64_t)(SAMPLES + 1) * M;
    update u = {.action = normal_numbers(&rng, rows * STW_STEER_KNOBS),
                .means = array((int64_t)M * STW_STEER_KNOBS, sizeof(double)),
                .out = array(rows, sizeof(double)),
                .d_means = normal_numbers(&rng, (int64_t)M * STW_STEER_KNOBS),
                .d_out = normal_numbers(&rng, rows)};
    memset(u.d_out + (int64_t)SAMPLES * M, 0, (size_t)M * sizeof(double));
    stw_backend *backend = NULL;
    check(stw_backend_cpu(pool, &backend, &error));
    check(stw_net_create(&c, backend, 1, &u.net, &error));
    check(stw_pass_create(u.net, &u.pass, &error));
    check(stw_pass_set_input(u.pass, &input, &error));
    measure(&u, run_update, "update, 16 samples", M, D, seconds);
    measure(&u, run_forward, "forward", M, D, seconds);
    stw_pass_destroy(u.pass);
    stw_net_destroy(u.net);
    stw_backend_destroy(backend);
    void *arrays[] = {unit,      feedback, pair,    operators, l.start[0], l.start[1], l.item[0],
                      l.item[1], u.action, u.means, u.out,     u.d_means,  u.d_out};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
}

int main(int argc, char **argv) {
    int threads = 1, rows = 0;
    double seconds = 1.0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            threads = atoi(argv[++i]);
        else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            seconds = atof(argv[++i]);
        else if (strcmp(argv[i], "--rows") == 0 && i + 1 < argc)
            rows = atoi(argv[++i]);
        else
            return fprintf(stderr, "usage: bench_policy [--threads N] [--seconds S] [--rows M]\n"), 2;
    }
    stw_pool *pool = NULL;
    check(stw_pool_create(threads, &pool, &error));
    if (rows > 0) {
        run(pool, rows, 2, seconds);
    } else {
        run(pool, 128, 2, seconds);
        run(pool, 304, 4, seconds);
        run(pool, 2048, 8, seconds);
    }
    stw_pool_destroy(pool);
    return 0;
}
