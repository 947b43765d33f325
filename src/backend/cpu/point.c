/* Additive attention, a query after the other. */
#include "backend/cpu/clones.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/lanes.h"
#include "backend/cpu/squash.h"

STW_FUSE

enum { WORTH_THREADS = 1 << 17 }; /* elements of all keys: fewer take less time than waking a thread */

typedef struct {
    int64_t K, items, width, depth;
    int64_t queries; /* of a task */
    const float *key, *query, *v, *value;
    float *y, *weight; /* forward */
    float *terms;      /* (K, width): of a score */
    const float *kept, *d_y;
    float *d_key, *d_query, *d_value; /* backward */
    float *d_weight;                  /* (K, items) */
    float *d_v;                       /* (K, width) */
} work;

STW_CLONES static float score(int64_t width, const float *restrict key, const float *restrict query, const float *restrict v,
                              float *restrict terms) {
    for (int64_t i = 0; i < width; i++) terms[i] = v[i] * stw_tanh(key[i] + query[i]);
    return stw_sum(width, terms);
}

STW_CLONES static void soften(int64_t items, float *weight) {
    const float largest = stw_largest(items, weight);
    for (int64_t j = 0; j < items; j++) weight[j] = stw_exp(weight[j] - largest);
    const float share = 1.0f / stw_sum(items, weight);
    for (int64_t j = 0; j < items; j++) weight[j] *= share;
}

STW_CLONES static void take_mean(int64_t items, int64_t depth, const float *restrict weight, const float *restrict value,
                                 float *restrict y) {
    for (int64_t i = 0; i < depth; i++) y[i] = 0.0f;
    for (int64_t j = 0; j < items; j++) {
        for (int64_t i = 0; i < depth; i++) y[i] += weight[j] * value[j * depth + i];
    }
}

static void point_query(const work *w, int64_t k) {
    const float *key = w->key + k * w->items * w->width, *query = w->query + k * w->width;
    float *weight = w->weight + k * w->items, *terms = w->terms + k * w->width;
    for (int64_t j = 0; j < w->items; j++) weight[j] = score(w->width, key + j * w->width, query, w->v, terms);
    soften(w->items, weight);
    take_mean(w->items, w->depth, weight, w->value + k * w->items * w->depth, w->y + k * w->depth);
}

/* The gradients of values and weights, of the weights less their mean. */
STW_CLONES static void back_to_weights(int64_t items, int64_t depth, const float *restrict weight, const float *restrict value,
                                       const float *restrict d_y, float *restrict d_value, float *restrict d_weight) {
    float mean = 0.0f; /* weighted by the weights */
    for (int64_t j = 0; j < items; j++) {
        d_weight[j] = stw_dot(depth, d_y, value + j * depth);
        mean += weight[j] * d_weight[j];
        for (int64_t i = 0; i < depth; i++) d_value[j * depth + i] += weight[j] * d_y[i];
    }
    for (int64_t j = 0; j < items; j++) d_weight[j] -= mean;
}

STW_CLONES static void back_to_key(int64_t width, float d_score, const float *restrict key, const float *restrict query,
                                   const float *restrict v, float *restrict d_key, float *restrict d_query, float *restrict d_v) {
    for (int64_t i = 0; i < width; i++) {
        const float squashed = stw_tanh(key[i] + query[i]), d_sum = d_score * v[i] * (1.0f - squashed * squashed);
        d_v[i] += d_score * squashed;
        d_key[i] += d_sum;
        d_query[i] += d_sum;
    }
}

static void back_query(const work *w, int64_t k) {
    const float *key = w->key + k * w->items * w->width, *query = w->query + k * w->width, *weight = w->kept + k * w->items;
    const int64_t values = k * w->items * w->depth;
    float *d_weight = w->d_weight + k * w->items, *d_key = w->d_key + k * w->items * w->width;
    float *d_query = w->d_query + k * w->width, *d_v = w->d_v + k * w->width;
    back_to_weights(w->items, w->depth, weight, w->value + values, w->d_y + k * w->depth, w->d_value + values, d_weight);
    for (int64_t i = 0; i < w->width; i++) d_query[i] = d_v[i] = 0.0f;
    for (int64_t j = 0; j < w->items; j++)
        back_to_key(w->width, weight[j] * d_weight[j], key + j * w->width, query, w->v, d_key + j * w->width, d_query, d_v);
}

static void run_task(void *context, int64_t index, int32_t worker) {
    (void)worker;
    const work *w = context;
    for (int64_t k = index * w->queries; k < (index + 1) * w->queries && k < w->K; k++) {
        if (w->d_y == NULL)
            point_query(w, k);
        else
            back_query(w, k);
    }
}

static void run_all(stw_backend *b, work *w) {
    const bool shared = w->K * w->items * w->width >= WORTH_THREADS;
    w->queries = shared ? 1 : w->K;
    stw_cpu_run(b, shared ? w->K : 1, run_task, w);
}

static work work_of(int32_t K, int32_t items, int32_t width, int32_t depth, const void *key, const void *query, const void *v,
                    const void *value) {
    return (work){.K = K, .items = items, .width = width, .depth = depth, .key = key, .query = query, .v = v, .value = value};
}

static void point(stw_backend *b, int32_t K, int32_t items, int32_t width, int32_t depth, const void *key, const void *query,
                  const void *v, const void *value, void *y, void *weight) {
    stw_arena scratch = stw_cpu_of(b)->scratch;
    work w = work_of(K, items, width, depth, key, query, v, value);
    w.y = y;
    w.weight = weight;
    w.terms = stw_cpu_reals(&scratch, (int64_t)K * width);
    run_all(b, &w);
}

static void point_back(stw_backend *b, int32_t K, int32_t items, int32_t width, int32_t depth, const void *key, const void *query,
                       const void *v, const void *value, const void *weight, const void *d_y, void *d_key, void *d_query,
                       void *d_v, void *d_value) {
    stw_arena scratch = stw_cpu_of(b)->scratch;
    work w = work_of(K, items, width, depth, key, query, v, value);
    w.kept = weight;
    w.d_y = d_y;
    w.d_key = d_key;
    w.d_query = d_query;
    w.d_value = d_value;
    w.d_weight = stw_cpu_reals(&scratch, (int64_t)K * items);
    w.d_v = stw_cpu_reals(&scratch, (int64_t)K * width);
    run_all(b, &w);
    stw_cpu_add_parts(b, width, K, w.d_v, d_v);
}

void stw_cpu_use_point(stw_backend *b) {
    b->point = point;
    b->point_back = point_back;
}
