/* One kernel with its gradient on one set of shapes and random numbers, so that every backend can be asked the same. */
#ifndef STW_TESTS_BACKEND_TRIALS_H
#define STW_TESTS_BACKEND_TRIALS_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "base/arena.h"
#include "base/rng.h"
#include "test.h"

enum { MOST = 8 };

typedef struct trial trial;

typedef struct results { /* as doubles, whatever the backend's reals */
    double *out[MOST], *gradient[MOST];
    int32_t *chosen; /* (rows * width) of gather_max */
} results;

struct trial {
    char name[96];
    int inputs, outputs, gradients;
    int64_t in_size[MOST], out_size[MOST], gradient_size[MOST]; /* gradient i < inputs is that of input i */
    bool adds[MOST];                                            /* this gradient is added to what is there */
    bool smooth;                                                /* differences of the loss make sense everywhere */
    int32_t rows, in, width, times, entries;
    bool add, relu, bias; /* bias: the optional input is there */
    int32_t *id;
    stw_gathering gathering;
    stw_attention_shape shape;
    void (*forward)(const trial *t, stw_backend *b, void **in, void **out, int32_t *chosen);
    void (*backward)(const trial *t, stw_backend *b, void **in, void **out, const int32_t *chosen, void *d_y, void **d);
    double *in_value[MOST], *out_before, *d_y, *before[MOST]; /* exact in float too */
};

static inline double exact(double x) { return (double)(float)x; }

static inline double *random_numbers(stw_arena *arena, stw_rng *rng, int64_t count, double coarse) {
    double *x = STW_NEW(arena, double, count);
    for (int64_t k = 0; k < count; k++) {
        x[k] = exact(stw_rng_normal(rng));
        if (coarse > 0.0) x[k] = round(x[k] / coarse) * coarse;
    }
    return x;
}

static inline void trial_fill(trial *t, stw_arena *arena, stw_rng *rng, double coarse) {
    for (int i = 0; i < t->inputs; i++) t->in_value[i] = random_numbers(arena, rng, t->in_size[i], coarse);
    for (int i = 0; i < t->gradients; i++) {
        if (i < t->inputs) t->gradient_size[i] = t->in_size[i];
        t->before[i] = random_numbers(arena, rng, t->gradient_size[i], 0.0);
    }
    t->out_before = random_numbers(arena, rng, t->out_size[0], 0.0);
    t->d_y = random_numbers(arena, rng, t->out_size[0], 0.0);
}

/* Reals on the backend from doubles; not-a-number where `from` is NULL, so that whoever forgets to write is found. */
static inline void *reals_of(stw_backend *b, const double *from, int64_t count, stw_arena *arena) {
    void *out = stw_arena_alloc(arena, b->real_bytes, 64, count + 16);
    for (int64_t k = 0; k < count; k++) {
        const double value = from != NULL ? from[k] : (double)NAN;
        if (b->real_bytes == sizeof(double))
            ((double *)out)[k] = value;
        else
            ((float *)out)[k] = (float)value;
    }
    return out;
}

static inline double *doubles_of(stw_backend *b, const void *from, int64_t count, stw_arena *arena) {
    double *out = STW_NEW(arena, double, count);
    for (int64_t k = 0; k < count; k++)
        out[k] = b->real_bytes == sizeof(double) ? ((const double *)from)[k] : (double)((const float *)from)[k];
    return out;
}

static inline results trial_run(const trial *t, stw_backend *b, stw_arena *arena) {
    void *in[MOST] = {0}, *out[MOST] = {0}, *gradient[MOST] = {0};
    results result = {.chosen = STW_NEW(arena, int32_t, (int64_t)t->rows * t->width + 1)};
    for (int i = 0; i < t->inputs; i++) in[i] = reals_of(b, t->in_value[i], t->in_size[i], arena);
    for (int i = 0; i < t->outputs; i++) out[i] = reals_of(b, i == 0 && t->add ? t->out_before : NULL, t->out_size[i], arena);
    for (int i = 0; i < t->gradients; i++)
        gradient[i] = reals_of(b, t->adds[i] ? t->before[i] : NULL, t->gradient_size[i], arena);
    t->forward(t, b, in, out, result.chosen);
    t->backward(t, b, in, out, result.chosen, reals_of(b, t->d_y, t->out_size[0], arena), gradient);
    for (int i = 0; i < t->outputs; i++) result.out[i] = doubles_of(b, out[i], t->out_size[i], arena);
    for (int i = 0; i < t->gradients; i++) result.gradient[i] = doubles_of(b, gradient[i], t->gradient_size[i], arena);
    return result;
}

/* The kernels. */

static inline void forward_linear(const trial *t, stw_backend *b, void **in, void **out, int32_t *chosen) {
    (void)chosen;
    b->linear(b, t->rows, t->in, t->width, in[0], in[1], t->bias ? in[2] : NULL, t->add, t->relu, out[0]);
}
static inline void backward_linear(const trial *t, stw_backend *b, void **in, void **out, const int32_t *chosen, void *d_y,
                                   void **d) {
    (void)chosen;
    b->linear_back(b, t->rows, t->in, t->width, in[0], in[1], out[0], t->relu, d_y, t->adds[0], d[0], d[1],
                   t->bias ? d[2] : NULL);
}
static inline trial linear_trial(stw_arena *arena, stw_rng *rng, int32_t rows, int32_t in, int32_t out, int flags) {
    trial t = {.rows = rows, .in = in, .width = out, .add = flags & 1, .relu = flags & 2, .bias = flags & 4, .smooth = true};
    snprintf(t.name, sizeof t.name, "linear %d x %d -> %d, flags %d", rows, in, out, flags);
    t.inputs = t.gradients = t.bias ? 3 : 2;
    t.outputs = 1;
    t.in_size[0] = (int64_t)rows * in;
    t.in_size[1] = (int64_t)in * out;
    t.in_size[2] = out;
    t.out_size[0] = (int64_t)rows * out;
    t.adds[0] = flags & 8;
    t.adds[1] = t.adds[2] = true;
    t.forward = forward_linear;
    t.backward = backward_linear;
    trial_fill(&t, arena, rng, 0.0);
    return t;
}

static inline void forward_embed(const trial *t, stw_backend *b, void **in, void **out, int32_t *chosen) {
    (void)chosen;
    b->embed(b, t->rows, t->width, in[0], t->id, out[0]);
}
static inline void backward_embed(const trial *t, stw_backend *b, void **in, void **out, const int32_t *chosen, void *d_y,
                                  void **d) {
    (void)in;
    (void)out;
    (void)chosen;
    b->embed_back(b, t->rows, t->width, t->entries, t->id, d_y, d[0]);
}
static inline trial embed_trial(stw_arena *arena, stw_rng *rng, int32_t rows, int32_t width, int32_t entries) {
    trial t = {.rows = rows, .width = width, .entries = entries, .inputs = 1, .outputs = 1, .gradients = 1, .smooth = true};
    snprintf(t.name, sizeof t.name, "embed %d x %d of %d", rows, width, entries);
    t.in_size[0] = (int64_t)entries * width;
    t.out_size[0] = (int64_t)rows * width;
    t.adds[0] = true;
    t.id = STW_NEW(arena, int32_t, rows);
    for (int32_t r = 0; r < rows; r++) t.id[r] = (int32_t)stw_rng_below(rng, entries);
    t.forward = forward_embed;
    t.backward = backward_embed;
    trial_fill(&t, arena, rng, 0.0);
    return t;
}

static inline void forward_norm(const trial *t, stw_backend *b, void **in, void **out, int32_t *chosen) {
    (void)chosen;
    b->norm(b, t->rows, t->width, in[0], t->bias ? in[3] : NULL, in[1], in[2], out[0], out[1], out[2]);
}
static inline void backward_norm(const trial *t, stw_backend *b, void **in, void **out, const int32_t *chosen, void *d_y,
                                 void **d) {
    (void)chosen;
    b->norm_back(b, t->rows, t->width, out[1], out[2], in[1], d_y, d[0], d[1], d[2]);
    if (t->bias) b->copy(b, d[3], d[0], t->in_size[0] * (int64_t)b->real_bytes);
}
static inline trial norm_trial(stw_arena *arena, stw_rng *rng, int32_t rows, int32_t width, bool residual) {
    trial t = {.rows = rows, .width = width, .bias = residual, .outputs = 3, .smooth = true};
    snprintf(t.name, sizeof t.name, "norm %d x %d%s", rows, width, residual ? " with residual" : "");
    t.inputs = t.gradients = residual ? 4 : 3;
    t.in_size[0] = t.in_size[3] = t.out_size[0] = t.out_size[1] = (int64_t)rows * width;
    t.in_size[1] = t.in_size[2] = width;
    t.out_size[2] = rows;
    t.adds[1] = t.adds[2] = true;
    t.forward = forward_norm;
    t.backward = backward_norm;
    trial_fill(&t, arena, rng, 0.0);
    return t;
}

static inline void forward_gather(const trial *t, stw_backend *b, void **in, void **out, int32_t *chosen) {
    b->gather_max(b, &t->gathering, t->width, in[0], out[0], chosen);
}
static inline void backward_gather(const trial *t, stw_backend *b, void **in, void **out, const int32_t *chosen, void *d_y,
                                   void **d) {
    (void)in;
    (void)out;
    b->gather_max_back(b, &t->gathering, t->width, chosen, d_y, t->adds[0], d[0]);
}

/* Rows gather from up to `most` random sources, some from none, some twice from one. */
static inline stw_gathering random_gathering(stw_arena *arena, stw_rng *rng, int32_t rows, int32_t sources, int32_t most) {
    int32_t *start = STW_NEW(arena, int32_t, rows + 1), *item = STW_NEW(arena, int32_t, (int64_t)rows * most + 1);
    int32_t *back_start = STW_NEW(arena, int32_t, sources + 2), *back_item = STW_NEW(arena, int32_t, (int64_t)rows * most + 1);
    for (int32_t r = 0; r < rows; r++) {
        start[r + 1] = start[r] + (int32_t)stw_rng_below(rng, most + 1);
        for (int32_t n = start[r]; n < start[r + 1]; n++) back_start[(item[n] = (int32_t)stw_rng_below(rng, sources)) + 2]++;
    }
    for (int32_t u = 0; u < sources; u++) back_start[u + 2] += back_start[u + 1];
    for (int32_t r = 0; r < rows; r++) {
        for (int32_t n = start[r]; n < start[r + 1]; n++) back_item[back_start[item[n] + 1]++] = r;
    }
    return (stw_gathering){rows, sources, start, item, back_start, back_item};
}

static inline trial gather_trial(stw_arena *arena, stw_rng *rng, int32_t rows, int32_t sources, int32_t width, bool ties,
                                 bool add) {
    trial t = {.rows = rows, .width = width, .inputs = 1, .outputs = 1, .gradients = 1, .smooth = !ties};
    snprintf(t.name, sizeof t.name, "gather_max %d from %d x %d%s", rows, sources, width, ties ? ", ties" : "");
    t.gathering = random_gathering(arena, rng, rows, sources, 5);
    t.in_size[0] = (int64_t)sources * width;
    t.out_size[0] = (int64_t)rows * width;
    t.adds[0] = add;
    t.forward = forward_gather;
    t.backward = backward_gather;
    trial_fill(&t, arena, rng, ties ? 1.0 : 0.0);
    return t;
}

static inline void forward_attend(const trial *t, stw_backend *b, void **in, void **out, int32_t *chosen) {
    (void)chosen;
    b->attend(b, &t->shape, in[0], in[1], in[2], out[0], out[1]);
}
/* Gradients 1 and 2: of all uses of keys and values; 3 to 6: own, later. */
static inline void backward_attend(const trial *t, stw_backend *b, void **in, void **out, const int32_t *chosen, void *d_y,
                                   void **d) {
    (void)chosen;
    const int64_t bytes = t->in_size[0] * (int64_t)b->real_bytes;
    b->attend_back(b, &t->shape, in[0], in[1], in[2], out[0], out[1], d_y, d[0], d[3], d[4], d[5], d[6]);
    for (int i = 1; i <= 2; i++) {
        b->copy(b, d[i], d[i + 2], bytes);
        b->add_scaled(b, t->in_size[0], 1.0, d[i + 4], d[i]);
    }
}
static inline trial attend_trial(stw_arena *arena, stw_rng *rng, int32_t rows, int32_t sequence, int32_t segment, int32_t heads,
                                 int32_t width) {
    trial t = {.rows = rows, .width = width, .inputs = 3, .outputs = 2, .gradients = 7, .smooth = true};
    snprintf(t.name, sizeof t.name, "attend %d rows, sequence %d, segment %d, %d heads, width %d", rows, sequence, segment, heads,
             width);
    t.shape = (stw_attention_shape){rows, sequence, segment, heads, width};
    for (int i = 0; i < 3; i++) t.in_size[i] = (int64_t)rows * width;
    for (int i = 3; i < 7; i++) t.gradient_size[i] = (int64_t)rows * width;
    t.out_size[0] = (int64_t)rows * width;
    t.out_size[1] = (int64_t)rows * heads;
    t.forward = forward_attend;
    t.backward = backward_attend;
    trial_fill(&t, arena, rng, 0.0);
    return t;
}

static inline void forward_gate(const trial *t, stw_backend *b, void **in, void **out, int32_t *chosen) {
    (void)chosen;
    b->gate(b, t->rows, t->width, in[0], in[1], out[0]);
}
static inline void backward_gate(const trial *t, stw_backend *b, void **in, void **out, const int32_t *chosen, void *d_y,
                                 void **d) {
    (void)out;
    (void)chosen;
    b->gate_back(b, t->rows, t->width, in[0], in[1], d_y, t->adds[0], d[0], d[1]);
}
static inline void forward_mean(const trial *t, stw_backend *b, void **in, void **out, int32_t *chosen) {
    (void)chosen;
    b->mean(b, t->rows, t->width, in[0], out[0]);
}
static inline void backward_mean(const trial *t, stw_backend *b, void **in, void **out, const int32_t *chosen, void *d_y,
                                 void **d) {
    (void)in;
    (void)out;
    (void)chosen;
    b->mean_back(b, t->rows, t->width, d_y, t->adds[0], d[0]);
}
static inline void forward_repeat(const trial *t, stw_backend *b, void **in, void **out, int32_t *chosen) {
    (void)chosen;
    b->repeat(b, t->rows, t->width, t->times, in[0], out[0]);
}
static inline void backward_repeat(const trial *t, stw_backend *b, void **in, void **out, const int32_t *chosen, void *d_y,
                                   void **d) {
    (void)in;
    (void)out;
    (void)chosen;
    b->repeat_back(b, t->rows, t->width, t->times, d_y, t->adds[0], d[0]);
}
static inline void forward_log_softmax(const trial *t, stw_backend *b, void **in, void **out, int32_t *chosen) {
    (void)chosen;
    b->log_softmax(b, t->rows, t->width, in[0], out[0]);
}
static inline void backward_log_softmax(const trial *t, stw_backend *b, void **in, void **out, const int32_t *chosen, void *d_y,
                                        void **d) {
    (void)in;
    (void)chosen;
    b->log_softmax_back(b, t->rows, t->width, out[0], d_y, d[0]);
}

/* 0 gate, 1 mean, 2 repeat (3 times), 3 log_softmax. */
static inline trial rows_trial(stw_arena *arena, stw_rng *rng, int which, int32_t rows, int32_t width, bool add) {
    static const char *const name[] = {"gate", "mean", "repeat", "log_softmax"};
    trial t = {.rows = rows, .width = width, .times = 3, .inputs = 1, .outputs = 1, .gradients = 1, .smooth = true};
    snprintf(t.name, sizeof t.name, "%s %d x %d", name[which], rows, width);
    t.in_size[0] = t.out_size[0] = (int64_t)rows * width;
    t.in_size[1] = width;
    t.adds[0] = add && which != 3;
    t.adds[1] = true;
    t.forward = forward_gate;
    t.backward = backward_gate;
    if (which == 0) t.inputs = t.gradients = 2;
    if (which == 1) {
        t.out_size[0] = width;
        t.forward = forward_mean;
        t.backward = backward_mean;
    }
    if (which == 2) {
        t.out_size[0] = (int64_t)t.times * rows * width;
        t.forward = forward_repeat;
        t.backward = backward_repeat;
    }
    if (which == 3) {
        t.forward = forward_log_softmax;
        t.backward = backward_log_softmax;
    }
    trial_fill(&t, arena, rng, 0.0);
    return t;
}

/* Loss by h and c alike: output 0 is both, one after the other. The kernel works in the gates' place, so they are copied first.
 */
static inline void *second_half(const trial *t, stw_backend *b, void *both) {
    return (char *)both + (int64_t)t->rows * t->width * (int64_t)b->real_bytes;
}
static inline void forward_lstm(const trial *t, stw_backend *b, void **in, void **out, int32_t *chosen) {
    (void)chosen;
    b->copy(b, out[1], in[0], t->in_size[0] * (int64_t)b->real_bytes);
    b->lstm(b, t->rows, t->width, out[1], t->bias ? in[1] : NULL, second_half(t, b, out[0]), out[0]);
}
static inline void backward_lstm(const trial *t, stw_backend *b, void **in, void **out, const int32_t *chosen, void *d_y,
                                 void **d) {
    (void)chosen;
    void *d_c = second_half(t, b, d_y);
    b->lstm_back(b, t->rows, t->width, out[1], t->bias ? in[1] : NULL, second_half(t, b, out[0]), d_y, d_c, d[0]);
    if (t->bias) b->copy(b, d[1], d_c, t->in_size[1] * (int64_t)b->real_bytes);
}
static inline trial lstm_trial(stw_arena *arena, stw_rng *rng, int32_t rows, int32_t width, bool before) {
    trial t = {.rows = rows, .width = width, .bias = before, .outputs = 2, .smooth = true};
    snprintf(t.name, sizeof t.name, "lstm %d x %d%s", rows, width, before ? " with a state" : "");
    t.inputs = t.gradients = before ? 2 : 1;
    t.in_size[0] = t.out_size[1] = (int64_t)rows * 4 * width;
    t.in_size[1] = (int64_t)rows * width;
    t.out_size[0] = (int64_t)rows * 2 * width;
    t.forward = forward_lstm;
    t.backward = backward_lstm;
    trial_fill(&t, arena, rng, 0.0);
    return t;
}

/* times: items; in: depth. */
static inline void forward_point(const trial *t, stw_backend *b, void **in, void **out, int32_t *chosen) {
    (void)chosen;
    b->point(b, t->rows, t->times, t->width, t->in, in[0], in[1], in[2], in[3], out[0], out[1]);
}
static inline void backward_point(const trial *t, stw_backend *b, void **in, void **out, const int32_t *chosen, void *d_y,
                                  void **d) {
    (void)chosen;
    b->point_back(b, t->rows, t->times, t->width, t->in, in[0], in[1], in[2], in[3], out[1], d_y, d[0], d[1], d[2], d[3]);
}
static inline trial point_trial(stw_arena *arena, stw_rng *rng, int32_t K, int32_t items, int32_t width, int32_t depth) {
    trial t = {.rows = K, .times = items, .width = width, .in = depth, .inputs = 4, .outputs = 2, .gradients = 4, .smooth = true};
    snprintf(t.name, sizeof t.name, "point %d on %d x %d, depth %d", K, items, width, depth);
    t.in_size[0] = (int64_t)K * items * width;
    t.in_size[1] = (int64_t)K * width;
    t.in_size[2] = width;
    t.in_size[3] = (int64_t)K * items * depth;
    t.out_size[0] = (int64_t)K * depth;
    t.out_size[1] = (int64_t)K * items;
    t.adds[0] = t.adds[2] = t.adds[3] = true;
    t.forward = forward_point;
    t.backward = backward_point;
    trial_fill(&t, arena, rng, 0.0);
    for (int32_t i = 0; i < width; i++) t.in_value[2][i] = exact(t.in_value[2][i] / sqrt((double)width)); /* scores of about 1 */
    return t;
}

/* Trial `index` of those of about `rows` rows; false past the last. */
static inline bool trial_at(int index, int32_t rows, stw_arena *arena, trial *out) {
    stw_rng rng = stw_rng_create((uint64_t)index * 1000003 + (uint64_t)rows);
    const int32_t odd = rows / 2 * 2 + 1;
    const int32_t segment = rows > 20 ? rows / 5 : 3; /* the last one is short */
    if (index < 16)
        *out = linear_trial(arena, &rng, index % 3 == 0 ? rows : odd, index % 2 == 0 ? 5 : 16, index < 8 ? 7 : 33, index);
    else if (index < 24)
        *out = rows_trial(arena, &rng, (index - 16) % 4, rows, index < 20 ? 6 : 19, index % 2 == 0);
    else if (index < 26)
        *out = embed_trial(arena, &rng, rows, index == 24 ? 4 : 37, 3);
    else if (index < 28)
        *out = norm_trial(arena, &rng, rows, index == 26 ? 5 : 48, index == 27);
    else if (index < 32)
        *out = gather_trial(arena, &rng, rows, odd, index < 30 ? 3 : 20, index % 2 == 1, index % 2 == 0);
    else if (index == 32)
        *out = attend_trial(arena, &rng, rows, rows, segment, 2, 6);
    else if (index == 33)
        *out = attend_trial(arena, &rng, 3 * rows, rows, segment, 1, 4);
    else if (index == 34)
        *out = attend_trial(arena, &rng, 2 * rows, rows, rows + 5, 2, 8);
    else if (index == 35)
        *out = attend_trial(arena, &rng, rows, 1, 1, 2, 4);
    else if (index == 36)
        *out = attend_trial(arena, &rng, rows, rows, rows, 4, 32);
    else if (index == 37)
        *out = attend_trial(arena, &rng, rows, rows, segment, 1, 32);
    else if (index < 40)
        *out = lstm_trial(arena, &rng, rows, index == 38 ? 3 : 37, index == 38);
    else if (index < 42)
        *out = point_trial(arena, &rng, index == 40 ? 1 : 3, rows, index == 40 ? 17 : 6, index == 40 ? 4 : 35);
    else
        return false;
    return true;
}

#endif
