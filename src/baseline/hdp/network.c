#include "baseline/hdp/network.h"

#include <math.h>
#include <stdlib.h>

#include "baseline/hdp/network_state.h"

static const double START = 1.0; /* scale of the weights: uniform in +-1 / sqrt(inputs) */

static stw_status check(const stw_hdp_config *c, stw_error *error) {
    static const int32_t MOST = 1 << 16;
    const int32_t size[] = {c->columns, c->hidden, c->groups, c->devices, c->embedding, c->width};
    for (int32_t i = 0; i < 6; i++) {
        if (size[i] < 1 || size[i] > MOST)
            return stw_fail(error, STW_ERROR_INPUT,
                            "a planner of %d columns, %d hidden, %d groups, %d devices, %d columns per group "
                            "and width %d; each must be from 1 to %d",
                            size[0], size[1], size[2], size[3], size[4], size[5], MOST);
    }
    if (c->width % 2 != 0) return stw_fail(error, STW_ERROR_INPUT, "a planner of width %d; it must be even", c->width);
    return STW_OK;
}

static void declare(stw_hdp *hdp) {
    const stw_hdp_config *c = &hdp->config;
    stw_parameters *p = &hdp->p;
    const int32_t half = c->width / 2;
    hdp->hide = stw_linear_declare(p, "grouper.hide", c->columns, c->hidden, false, false, START);
    hdp->group = stw_linear_declare(p, "grouper.group", c->hidden, c->groups, false, false, START * c->sharpness);
    hdp->forwards = stw_lstm_declare(p, "encoder.forwards", c->embedding, half);
    hdp->backwards = stw_lstm_declare(p, "encoder.backwards", c->embedding, half);
    hdp->from_first = stw_linear_declare(p, "memory.forwards", half, c->width, false, false, START);
    hdp->from_last = stw_linear_declare(p, "memory.backwards", half, c->width, false, false, START);
    hdp->decoder = stw_lstm_declare(p, "decoder", c->width, c->width);
    hdp->query = stw_linear_declare(p, "query", c->width, c->width, false, false, START);
    hdp->head_state = stw_linear_declare(p, "head.state", c->width, c->devices, false, false, START);
    hdp->head_value = stw_linear_declare(p, "head.value", c->width, c->devices, false, false, START);
    hdp->devices = stw_parameters_declare(p, c->devices + 1, c->width, STW_START_UNIFORM, START, "devices");
    hdp->score = stw_parameters_declare(p, 1, c->width, STW_START_UNIFORM, START, "score");
}

static stw_status make(stw_hdp *hdp, uint64_t seed, stw_error *error) {
    declare(hdp);
    const stw_rng rng = stw_rng_create(seed);
    TRY(stw_parameters_allocate(&hdp->p, &rng, error));
    TRY(stw_arena_create(&hdp->arena, error));
    TRY(stw_arena_create(&hdp->host, error));
    hdp->host_begin = hdp->host;
    TRY(stw_tape_create(hdp->backend, &hdp->input_tape, error));
    TRY(stw_tape_create(hdp->backend, &hdp->place_tape, error));
    return stw_tape_create(hdp->backend, &hdp->back_tape, error);
}

stw_status stw_hdp_create(const stw_hdp_config *config, stw_backend *backend, stw_pool *pool, uint64_t seed, stw_hdp **out,
                          stw_error *error) {
    *out = NULL;
    TRY(check(config, error));
    stw_hdp *hdp = calloc(1, sizeof *hdp);
    if (hdp == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory (the planner's network)");
    hdp->config = *config;
    hdp->backend = hdp->p.backend = backend;
    hdp->pool = pool;
    const stw_status status = make(hdp, seed, error);
    if (status != STW_OK) {
        stw_hdp_destroy(hdp);
        return status;
    }
    *out = hdp;
    return STW_OK;
}

void stw_hdp_destroy(stw_hdp *hdp) {
    if (hdp == NULL) return;
    stw_tape_destroy(hdp->input_tape);
    stw_tape_destroy(hdp->place_tape);
    stw_tape_destroy(hdp->back_tape);
    stw_arena_destroy(&hdp->arena);
    stw_arena_destroy(&hdp->host_begin);
    stw_parameters_release(&hdp->p);
    free(hdp);
}

stw_parameters *stw_hdp_parameters(stw_hdp *hdp) { return &hdp->p; }

void stw_hdp_log_softmax(int32_t count, double *logits) {
    double most = logits[0], sum = 0.0;
    for (int32_t i = 1; i < count; i++) most = fmax(most, logits[i]);
    for (int32_t i = 0; i < count; i++) sum += exp(logits[i] - most);
    const double shift = most + log(sum);
    for (int32_t i = 0; i < count; i++) logits[i] -= shift;
}

/* ---- the grouper ---- */

/* Two products on the backend; softmax, draws and gradient on the host, some rows at a time on all threads, so that there is one
 * (N, G) matrix. */

enum { ROWS = 128 }; /* that one worker handles at a time */

static int32_t blocks_of(const stw_hdp *hdp) { return (hdp->N + ROWS - 1) / ROWS; }

stw_status stw_hdp_set_input(stw_hdp *hdp, int32_t N, const double *feature, stw_error *error) {
    if (hdp->N > 0 || N < 1) return stw_fail(error, STW_ERROR_INPUT, "the planner takes its input once, and %d ops are none", N);
    const stw_hdp_config *c = &hdp->config;
    const int32_t threads = hdp->pool == NULL ? 1 : stw_pool_threads(hdp->pool);
    TRY(stw_tape_reals(hdp->input_tape, (int64_t)N * c->columns, &hdp->feature, error));
    TRY(stw_tape_reals(hdp->input_tape, (int64_t)N * c->hidden, &hdp->hidden, error));
    TRY(stw_tape_reals(hdp->input_tape, (int64_t)N * c->hidden, &hdp->d_hidden, error));
    TRY(stw_tape_reals(hdp->input_tape, (int64_t)N * c->groups, &hdp->chance, error));
    hdp->N = N;
    hdp->desk_count = (int64_t)(ROWS + 1) * c->groups;
    STW_TRY_NEW(&hdp->arena, hdp->desk, threads * hdp->desk_count, error);
    stw_reals_in(hdp->backend, hdp->feature, feature, (int64_t)N * c->columns, hdp->arena);
    return STW_OK;
}

typedef struct {
    stw_hdp *hdp;
    const stw_hdp_draw *draw;
    double deviation; /* of the noise */
    int32_t *group;   /* (K, N) to draw */
    double *logp;     /* (blocks, K) */
    const int32_t *drawn;
    const double *weight;
    double weight_sum;
} work;

static void run(work *w, stw_pool_work *function) {
    const stw_hdp *hdp = w->hdp;
    if (hdp->pool != NULL) {
        stw_pool_run(hdp->pool, blocks_of(hdp), function, w);
    } else {
        for (int32_t block = 0; block < blocks_of(hdp); block++) function(w, block, 0);
    }
}

/* Rows of `chance` between the backend and a worker's desk. */
static void *rows_at(const stw_hdp *hdp, int64_t first) {
    return (char *)hdp->chance + first * hdp->config.groups * (int64_t)hdp->backend->real_bytes;
}

static int32_t rows_of(const stw_hdp *hdp, int64_t first) { return hdp->N - first < ROWS ? (int32_t)(hdp->N - first) : ROWS; }

/* Nearly normal, from one draw: four uniform numbers of 16 bits added up have variance 1/3. */
static double cheap_normal(stw_rng *rng) {
    const uint64_t bits = stw_rng_next(rng);
    const double sum =
        (double)(bits & 0xffff) + (double)(bits >> 16 & 0xffff) + (double)(bits >> 32 & 0xffff) + (double)(bits >> 48);
    return 1.7320508075688772 * (sum / 65535.0 - 2.0);
}

/* Logits -> probabilities, in place; `below`: sums of them from the left, times a factor. */
static void softmax(int32_t count, double *logit, double *below) {
    double most = logit[0], sum = 0.0;
    for (int32_t g = 1; g < count; g++) most = logit[g] > most ? logit[g] : most;
    for (int32_t g = 0; g < count; g++) {
        logit[g] = exp(logit[g] - most);
        sum += logit[g];
        below[g] = sum;
    }
    for (int32_t g = 0; g < count; g++) logit[g] /= sum;
}

/* The first whose sum from the left is above `at`. */
static int32_t find(int32_t count, const double *below, double at) {
    int32_t low = 0, high = count - 1;
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (below[middle] > at) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static int32_t largest(int32_t count, const double *a) {
    int32_t best = 0;
    for (int32_t g = 1; g < count; g++) best = a[g] > a[best] ? g : best;
    return best;
}

static void draw_rows(void *context, int64_t block, int32_t worker) {
    static const double LEAST = 1e-300;
    work *w = context;
    const stw_hdp *hdp = w->hdp;
    const int32_t G = hdp->config.groups, K = w->draw->K;
    const int64_t first = block * ROWS, rows = rows_of(hdp, first);
    double *desk = hdp->desk + worker * hdp->desk_count, *below = desk + (int64_t)ROWS * G;
    stw_rng rng = stw_rng_split(&w->draw->rng, (uint64_t)block);
    stw_reals_out(hdp->backend, desk, rows_at(hdp, first), rows * G, hdp->arena);
    for (int64_t i = 0; w->deviation > 0.0 && i < rows * G; i++) desk[i] += w->deviation * cheap_normal(&rng);
    for (int64_t r = 0; r < rows; r++) {
        double *p = &desk[r * G];
        softmax(G, p, below);
        const int32_t likely = w->draw->choice == STW_HDP_LIKELY ? largest(G, p) : 0;
        for (int64_t k = 0; k < K; k++) {
            int32_t *group = &w->group[k * hdp->N + first + r];
            if (w->draw->choice == STW_HDP_SAMPLE) *group = find(G, below, stw_rng_uniform(&rng) * below[G - 1]);
            if (w->draw->choice == STW_HDP_LIKELY) *group = likely;
            w->logp[block * K + k] += log(fmax(p[*group], LEAST));
        }
    }
    stw_reals_in(hdp->backend, rows_at(hdp, first), desk, rows * G, hdp->arena);
}

stw_status stw_hdp_group(stw_hdp *hdp, const stw_hdp_draw *draw, int32_t *group, double *logp, stw_error *error) {
    if (hdp->N == 0) return stw_fail(error, STW_ERROR_INPUT, "the planner has no input; call stw_hdp_set_input first");
    stw_arena scratch = hdp->arena;
    const int64_t count = (int64_t)hdp->N * hdp->config.groups;
    work w = {.hdp = hdp, .draw = draw, .group = group};
    STW_TRY_NEW(&scratch, w.logp, (int64_t)blocks_of(hdp) * draw->K, error);
    stw_linear_forward(&hdp->hide, &hdp->p, hdp->N, hdp->feature, false, hdp->hidden);
    stw_linear_forward(&hdp->group, &hdp->p, hdp->N, hdp->hidden, false, hdp->chance);
    if (draw->noise > 0.0)
        w.deviation = draw->noise * sqrt(hdp->backend->square_sum(hdp->backend, count, hdp->chance) / (double)count);
    run(&w, draw_rows);
    for (int32_t k = 0; k < draw->K; k++) {
        logp[k] = 0.0;
        for (int32_t block = 0; block < blocks_of(hdp); block++) logp[k] += w.logp[(int64_t)block * draw->K + k];
    }
    hdp->K = draw->K;
    hdp->grouped = true;
    hdp->placed = false;
    return STW_OK;
}

static void gradient_rows(void *context, int64_t block, int32_t worker) {
    const work *w = context;
    const stw_hdp *hdp = w->hdp;
    const int32_t G = hdp->config.groups;
    const int64_t first = block * ROWS, rows = rows_of(hdp, first);
    double *desk = hdp->desk + worker * hdp->desk_count;
    stw_reals_out(hdp->backend, desk, rows_at(hdp, first), rows * G, hdp->arena);
    for (int64_t i = 0; i < rows * G; i++) desk[i] *= -w->weight_sum;
    for (int64_t k = 0; k < hdp->K; k++) {
        const int32_t *group = &w->drawn[k * hdp->N + first];
        for (int64_t r = 0; r < rows; r++) desk[r * G + group[r]] += w->weight[k];
    }
    stw_reals_in(hdp->backend, rows_at(hdp, first), desk, rows * G, hdp->arena);
}

static void grouper_backward(stw_hdp *hdp, const double *weight, const int32_t *group) {
    work w = {.hdp = hdp, .drawn = group, .weight = weight};
    for (int32_t k = 0; k < hdp->K; k++) w.weight_sum += weight[k];
    run(&w, gradient_rows);
    stw_linear_backward(&hdp->group, &hdp->p, hdp->N, hdp->hidden, NULL, hdp->chance, false, hdp->d_hidden);
    stw_linear_backward(&hdp->hide, &hdp->p, hdp->N, hdp->feature, NULL, hdp->d_hidden, false, NULL);
}

/* ---- backwards ---- */

stw_status stw_hdp_backward(stw_hdp *hdp, const double *weight, const int32_t *group, const int32_t *device, stw_error *error) {
    if (!hdp->grouped || !hdp->placed)
        return stw_fail(error, STW_ERROR_INPUT, "no draw to go back through; call stw_hdp_group and stw_hdp_place first");
    hdp->grouped = hdp->placed = false;
    grouper_backward(hdp, weight, group);
    return stw_hdp_placer_backward(hdp, weight, device, error);
}
