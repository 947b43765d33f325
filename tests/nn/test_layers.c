/* nn: layers against differences of the loss, in double on the reference backend. */
#include "nn/layers.h"

#include <math.h>
#include <string.h>

#include "support/reference_backend.h"
#include "test.h"

typedef struct {
    stw_arena arena;
    stw_backend *b;
    stw_parameters *p;
    stw_tape *tape;
    stw_rng rng;
} setting;

static bool open_setting(setting *s, uint64_t seed) {
    stw_error error = {0};
    *s = (setting){.rng = stw_rng_create(seed)};
    return CHECK_EQ_INT(stw_arena_create(&s->arena, &error), STW_OK) &&
           CHECK_EQ_INT(stw_backend_reference(8, &s->b, &error), STW_OK) &&
           CHECK_EQ_INT(stw_tape_create(s->b, &s->tape, &error), STW_OK) &&
           CHECK((s->p = STW_NEW(&s->arena, stw_parameters, 1)) != NULL) && (s->p->backend = s->b) != NULL;
}

static void close_setting(setting *s) {
    test_context("%s", "");
    stw_parameters_release(s->p);
    stw_tape_destroy(s->tape);
    stw_backend_destroy(s->b);
    stw_arena_destroy(&s->arena);
}

static double *random_numbers(setting *s, int64_t count) {
    double *x = STW_NEW(&s->arena, double, count);
    for (int64_t k = 0; k < count; k++) x[k] = stw_rng_normal(&s->rng);
    return x;
}

/* Gains and biases too, so that their gradients are tried away from where they start. */
static void shake(setting *s) {
    double *value = s->p->value;
    for (int64_t k = 0; k < s->p->total; k++) value[k] += 0.3 * stw_rng_normal(&s->rng);
}

typedef double loss_function(void *context);

static double difference(double *at, loss_function *loss, void *context) {
    const double value = *at, step = 1e-5;
    *at = value + step;
    const double above = loss(context);
    *at = value - step;
    const double below = loss(context);
    *at = value;
    return (above - below) / (2.0 * step);
}

static void check_gradient(const char *what, double *value, const double *gradient, int64_t count, loss_function *loss,
                           void *context) {
    double worst = 0.0, largest = 1e-3;
    for (int64_t k = 0; k < count; k++) {
        const double expected = difference(&value[k], loss, context);
        worst = fmax(worst, isnan(gradient[k]) ? INFINITY : fabs(gradient[k] - expected));
        largest = fmax(largest, fabs(expected));
    }
    test_context("%s", what);
    CHECK_NEAR(worst / largest, 0.0, 2e-6);
}

static void check_parameters(setting *s, loss_function *loss, void *context) {
    for (int32_t i = 0; i < s->p->count; i++) {
        const stw_parameter *entry = &s->p->entry[i];
        check_gradient(entry->name, stw_parameter_value(s->p, i), stw_parameter_gradient(s->p, i),
                       (int64_t)entry->rows * entry->cols, loss, context);
    }
}

static double weigh(const double *y, const double *weight, int64_t count) {
    double sum = 0.0;
    for (int64_t k = 0; k < count; k++) sum += y[k] * weight[k];
    return sum;
}

/* GraphSAGE. Six rows: 0 -> 1, 0 -> 2, 1 -> 3, 2 -> 3, 3 -> 4; 5 is alone. */

static const int32_t producer_start[] = {0, 0, 1, 2, 4, 5, 5}, producer[] = {0, 0, 1, 2, 3};
static const int32_t reader_start[] = {0, 2, 3, 4, 5, 5, 5}, reader[] = {1, 2, 3, 3, 4};

typedef struct {
    setting s;
    stw_sage_layer layer;
    stw_gathering producers, readers;
    double *x, *weight;
    stw_sage_kept kept;
} sage;

static double sage_loss(void *context) {
    sage *g = context;
    stw_error error = {0};
    stw_tape_reset(g->s.tape);
    if (stw_sage_forward(&g->layer, g->s.p, &g->producers, &g->readers, g->x, g->s.tape, &g->kept, &error) != STW_OK)
        return (double)NAN;
    return weigh(g->kept.y, g->weight, 6 * 3);
}

TEST(sage, gradients) {
    stw_error error = {0};
    sage g = {.producers = {6, 6, producer_start, producer, reader_start, reader},
              .readers = {6, 6, reader_start, reader, producer_start, producer}};
    if (!open_setting(&g.s, 1)) return;
    g.layer = stw_sage_declare(g.s.p, "sage", 4, 3);
    if (!CHECK_EQ_INT(stw_parameters_allocate(g.s.p, &g.s.rng, &error), STW_OK)) return;
    shake(&g.s);
    g.x = random_numbers(&g.s, 6 * 4);
    g.weight = random_numbers(&g.s, 6 * 3);
    double d_y[18], d_x[24];
    memcpy(d_y, g.weight, sizeof d_y);
    sage_loss(&g);
    CHECK_EQ_INT(g.kept.chosen_in[0], -1);
    CHECK_EQ_INT(g.kept.chosen_out[5 * 4], -1);
    CHECK_EQ_INT(g.kept.chosen_in[4 * 4], 3);
    CHECK_EQ_INT(stw_sage_backward(&g.layer, g.s.p, &g.producers, &g.readers, &g.kept, d_y, d_x, g.s.tape, &error), STW_OK);
    check_parameters(&g.s, sage_loss, &g);
    check_gradient("x", g.x, d_x, 24, sage_loss, &g);
    close_setting(&g.s);
}

/* Attention. The loss of the layer as it is differs from the one that training follows: memory is held fixed there. So the layer
 * is written again here, keys and values of memory coming from `memory_x`, which stays when x is moved. */

enum { WIDTH = 4, HEADS = 2, ROWS = 7, SEGMENT = 3 };

typedef struct {
    setting s;
    stw_attention_layer layer;
    int32_t rows, sequence;
    double *x, *memory_x, *weight;
    stw_attention_kept kept;
} attention;

static double dot_with(const attention *a, int32_t parameter, int32_t row, const double *x, int32_t count) {
    return weigh((const double *)stw_parameter_value(a->s.p, parameter) + (int64_t)row * count, x, count);
}

static void normalise(const attention *a, const stw_norm_layer *norm, double *z) {
    double mean = 0.0, variance = 0.0;
    for (int i = 0; i < WIDTH; i++) mean += z[i] / WIDTH;
    for (int i = 0; i < WIDTH; i++) variance += (z[i] - mean) * (z[i] - mean) / WIDTH;
    const double *gain = stw_parameter_value(a->s.p, norm->gain), *bias = stw_parameter_value(a->s.p, norm->bias);
    for (int i = 0; i < WIDTH; i++) z[i] = (z[i] - mean) / sqrt(variance + 1e-5) * gain[i] + bias[i];
}

/* What a row takes from those it sees. */
static void attend_by_hand(const attention *a, int32_t row, double *out) {
    const int32_t first = row / a->sequence * a->sequence, own = first + (row - first) / SEGMENT * SEGMENT;
    const int32_t begin = own > first ? own - SEGMENT : first;
    const int32_t end = own + SEGMENT < first + a->sequence ? own + SEGMENT : first + a->sequence;
    for (int32_t h = 0; h < HEADS; h++) {
        double sum = 0.0, taken[WIDTH / HEADS] = {0};
        for (int32_t u = begin; u < end; u++) {
            const double *seen = (u < own ? a->memory_x : a->x) + u * WIDTH;
            double score = 0.0;
            for (int32_t c = h * WIDTH / HEADS; c < (h + 1) * WIDTH / HEADS; c++)
                score += dot_with(a, a->layer.query.weight, c, a->x + row * WIDTH, WIDTH) *
                         dot_with(a, a->layer.key.weight, c, seen, WIDTH);
            const double share = exp(score / sqrt((double)WIDTH / HEADS));
            sum += share;
            for (int32_t c = 0; c < WIDTH / HEADS; c++)
                taken[c] += share * dot_with(a, a->layer.value.weight, h * WIDTH / HEADS + c, seen, WIDTH);
        }
        for (int32_t c = 0; c < WIDTH / HEADS; c++) out[h * WIDTH / HEADS + c] = taken[c] / sum;
    }
}

static double loss_by_hand(void *context) {
    attention *a = context;
    double loss = 0.0;
    for (int32_t row = 0; row < a->rows; row++) {
        double taken[WIDTH], z[WIDTH], up[8], y[WIDTH];
        attend_by_hand(a, row, taken);
        for (int32_t i = 0; i < WIDTH; i++) z[i] = a->x[row * WIDTH + i] + dot_with(a, a->layer.output.weight, i, taken, WIDTH);
        normalise(a, &a->layer.norm1, z);
        memcpy(y, z, sizeof y);
        for (int32_t i = 0; i < a->layer.inner; i++) up[i] = fmax(0.0, dot_with(a, a->layer.up.weight, i, z, WIDTH));
        for (int32_t i = 0; a->layer.inner > 0 && i < WIDTH; i++)
            y[i] += dot_with(a, a->layer.down.weight, i, up, a->layer.inner);
        if (a->layer.inner > 0) normalise(a, &a->layer.norm2, y);
        loss += weigh(y, a->weight + row * WIDTH, WIDTH);
    }
    return loss;
}

static void check_attention(int32_t rows, int32_t sequence, int32_t inner, uint64_t seed) {
    stw_error error = {0};
    attention a = {.rows = rows, .sequence = sequence};
    if (!open_setting(&a.s, seed)) return;
    a.layer = stw_attention_declare(a.s.p, "block", WIDTH, inner, HEADS);
    if (!CHECK_EQ_INT(stw_parameters_allocate(a.s.p, &a.s.rng, &error), STW_OK)) return;
    shake(&a.s);
    a.x = random_numbers(&a.s, (int64_t)rows * WIDTH);
    a.memory_x = random_numbers(&a.s, (int64_t)rows * WIDTH);
    a.weight = random_numbers(&a.s, (int64_t)rows * WIDTH);
    double *d_y = random_numbers(&a.s, (int64_t)rows * WIDTH), *d_x = random_numbers(&a.s, (int64_t)rows * WIDTH);
    memcpy(a.memory_x, a.x, sizeof(double) * (size_t)(rows * WIDTH));
    memcpy(d_y, a.weight, sizeof(double) * (size_t)(rows * WIDTH));
    CHECK_EQ_INT(stw_attention_forward(&a.layer, a.s.p, rows, sequence, SEGMENT, a.x, a.s.tape, &a.kept, &error), STW_OK);
    CHECK_NEAR(weigh(a.kept.y, a.weight, (int64_t)rows * WIDTH), loss_by_hand(&a), 1e-12);
    CHECK_EQ_INT(stw_attention_backward(&a.layer, a.s.p, &a.kept, d_y, d_x, a.s.tape, &error), STW_OK);
    check_parameters(&a.s, loss_by_hand, &a); /* weights learn from memory too */
    check_gradient("x", a.x, d_x, (int64_t)rows * WIDTH, loss_by_hand, &a);
    close_setting(&a.s);
}

TEST(attention, gradients_of_one_sequence) { check_attention(ROWS, ROWS, 5, 2); }
TEST(attention, gradients_of_two_sequences) { check_attention(2 * ROWS, ROWS, 5, 3); }
TEST(attention, gradients_without_second_half) { check_attention(ROWS, ROWS, 0, 4); }
TEST(attention, gradients_of_one_segment) { check_attention(6, 2, 5, 5); }

/* A loss of the last segment alone leaves the rows before it untouched, though they are seen. */
TEST(attention, memory_passes_no_gradient) {
    stw_error error = {0};
    setting s;
    if (!open_setting(&s, 6)) return;
    const stw_attention_layer layer = stw_attention_declare(s.p, "block", WIDTH, 5, HEADS);
    if (!CHECK_EQ_INT(stw_parameters_allocate(s.p, &s.rng, &error), STW_OK)) return;
    double *x = random_numbers(&s, ROWS * WIDTH), *d_y = random_numbers(&s, ROWS * WIDTH), d_x[ROWS * WIDTH];
    for (int k = 0; k < 2 * SEGMENT * WIDTH; k++) d_y[k] = 0.0;
    stw_attention_kept kept;
    CHECK_EQ_INT(stw_attention_forward(&layer, s.p, ROWS, ROWS, SEGMENT, x, s.tape, &kept, &error), STW_OK);
    CHECK_EQ_INT(stw_attention_backward(&layer, s.p, &kept, d_y, d_x, s.tape, &error), STW_OK);
    double before = 0.0, last = 0.0;
    for (int k = 0; k < ROWS * WIDTH; k++) *(k < 2 * SEGMENT * WIDTH ? &before : &last) += fabs(d_x[k]);
    CHECK_NEAR(before, 0.0, 0.0);
    CHECK(last > 0.0);
    close_setting(&s);
}
