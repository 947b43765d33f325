/* The grouper: two products on the backend; softmax, draws and gradient on the host, some rows at a time on all threads, so that
 * there is one (N, G) matrix. */
#include <math.h>

#include "policy/hdp_state.h"

enum { ROWS = 128 }; /* that a worker has before it */

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

void stw_hdp_grouper_backward(stw_hdp *hdp, const double *weight, const int32_t *group) {
    work w = {.hdp = hdp, .drawn = group, .weight = weight};
    for (int32_t k = 0; k < hdp->K; k++) w.weight_sum += weight[k];
    run(&w, gradient_rows);
    stw_linear_backward(&hdp->group, &hdp->p, hdp->N, hdp->hidden, NULL, hdp->chance, false, hdp->d_hidden);
    stw_linear_backward(&hdp->hide, &hdp->p, hdp->N, hdp->feature, NULL, hdp->d_hidden, false, NULL);
}
