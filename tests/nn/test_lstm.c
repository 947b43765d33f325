/* nn: the LSTM against differences of the loss, against PyTorch, against itself step by step, and on the cpu. */
#include <math.h>
#include <string.h>

#include "nn/layers.h"
#include "support/lstm_steps.h"
#include "support/reference_backend.h"
#include "test.h"

typedef struct {
    stw_arena arena;
    stw_backend *b; /* borrowed */
    stw_parameters *p;
    stw_tape *tape;
    stw_lstm_layer layer;
    int32_t steps, K;
    bool backwards;
    double *x, *weight_h, *weight_c; /* the loss: all of h and the last c, weighted */
    stw_lstm_kept kept;
    void *d_x;
} example;

static double *sines(stw_arena *arena, int begin, int64_t count) {
    double *x = STW_NEW(arena, double, count);
    for (int64_t k = 0; k < count; k++) x[k] = sin((double)(begin + k));
    return x;
}

static void *reals_of(example *e, const double *from, int64_t count) {
    void *to = stw_arena_alloc(&e->arena, e->b->real_bytes, 64, count);
    stw_reals_in(e->b, to, from, count, e->arena);
    return to;
}

static double *doubles_of(example *e, const void *from, int64_t count) {
    double *to = STW_NEW(&e->arena, double, count);
    stw_reals_out(e->b, to, from, count, e->arena);
    return to;
}

static void set_parameter(example *e, int32_t index, int begin) {
    const stw_parameter *entry = &e->p->entry[index];
    const int64_t count = (int64_t)entry->rows * entry->cols;
    double *value = sines(&e->arena, begin, count);
    const double scale = entry->cols > 8 && entry->rows > 1 ? 2.0 / sqrt((double)entry->cols) : 1.0;
    for (int64_t k = 0; k < count; k++) value[k] *= scale; /* sums of about 1 */
    stw_reals_in(e->b, stw_parameter_value(e->p, index), value, count, e->arena);
}

/* Everything is a sine of a number: lstm_reference.py makes the same. */
static bool open_example(example *e, stw_backend *b, int32_t steps, int32_t K, int32_t in, int32_t width, bool backwards) {
    stw_error error = {0};
    const stw_rng rng = stw_rng_create(1);
    *e = (example){.b = b, .steps = steps, .K = K, .backwards = backwards};
    if (!CHECK_EQ_INT(stw_arena_create(&e->arena, &error), STW_OK)) return false;
    if (!CHECK_EQ_INT(stw_tape_create(b, &e->tape, &error), STW_OK)) return false;
    e->p = STW_NEW(&e->arena, stw_parameters, 1);
    e->p->backend = b;
    e->layer = stw_lstm_declare(e->p, "lstm", in, width);
    if (!CHECK_EQ_INT(stw_parameters_allocate(e->p, &rng, &error), STW_OK)) return false;
    set_parameter(e, e->layer.input.weight, 1);
    set_parameter(e, e->layer.recurse.weight, 101);
    set_parameter(e, e->layer.input.bias, 201);
    e->x = sines(&e->arena, 301, (int64_t)steps * K * in);
    e->weight_h = sines(&e->arena, 401, (int64_t)steps * K * width);
    e->weight_c = STW_NEW(&e->arena, double, (int64_t)K *width);
    return true;
}

static void close_example(example *e) {
    test_context("%s", "");
    stw_parameters_release(e->p);
    stw_tape_destroy(e->tape);
    stw_arena_destroy(&e->arena);
}

static void forward(example *e) {
    stw_error error = {0};
    const void *x = e->x;
    if (e->b->real_bytes == 4) x = reals_of(e, e->x, (int64_t)e->steps * e->K * e->layer.in);
    stw_tape_reset(e->tape);
    CHECK_EQ_INT(stw_lstm_forward(&e->layer, e->p, e->steps, e->K, e->backwards, x, e->tape, &e->kept, &error), STW_OK);
}

static void backward(example *e) {
    stw_error error = {0};
    const int64_t state = (int64_t)e->K * e->layer.width, inputs = (int64_t)e->steps * e->K * e->layer.in;
    void *d_h = reals_of(e, e->weight_h, e->steps * state), *d_c = reals_of(e, e->weight_c, state);
    e->d_x = reals_of(e, sines(&e->arena, 7, inputs), inputs); /* overwritten */
    stw_parameters_zero_gradient(e->p);
    CHECK_EQ_INT(stw_lstm_backward(&e->layer, e->p, &e->kept, d_h, d_c, false, e->d_x, e->tape, &error), STW_OK);
}

static double loss_of(example *e) {
    const int64_t state = (int64_t)e->K * e->layer.width;
    forward(e);
    const double *h = e->kept.h, *c = (const double *)e->kept.c + (e->backwards ? 0 : e->steps - 1) * state;
    double loss = 0.0;
    for (int64_t k = 0; k < e->steps * state; k++) loss += h[k] * e->weight_h[k];
    for (int64_t k = 0; k < state; k++) loss += c[k] * e->weight_c[k];
    return loss;
}

static void check_gradient(example *e, const char *what, double *value, const double *gradient, int64_t count) {
    double worst = 0.0;
    for (int64_t k = 0; k < count; k++) {
        const double was = value[k], step = 1e-5;
        value[k] = was + step;
        const double above = loss_of(e);
        value[k] = was - step;
        const double below = loss_of(e);
        value[k] = was;
        worst = fmax(worst, isnan(gradient[k]) ? INFINITY : fabs(gradient[k] - (above - below) / (2.0 * step)));
    }
    test_context("%s, %d steps%s", what, e->steps, e->backwards ? ", backwards" : "");
    CHECK_NEAR(worst, 0.0, 1e-8);
}

TEST(lstm, gradients) {
    stw_error error = {0};
    stw_backend *b = NULL;
    if (!CHECK_EQ_INT(stw_backend_reference(8, &b, &error), STW_OK)) return;
    for (int i = 0; i < 4; i++) {
        example e;
        if (!open_example(&e, b, i < 2 ? 4 : 1, 3, 5, 3, i % 2 == 1)) return;
        memcpy(e.weight_c, sines(&e.arena, 501, 9), 9 * sizeof(double));
        forward(&e);
        backward(&e);
        for (int32_t k = 0; k < e.p->count; k++) {
            const int64_t count = (int64_t)e.p->entry[k].rows * e.p->entry[k].cols;
            check_gradient(&e, e.p->entry[k].name, stw_parameter_value(e.p, k), stw_parameter_gradient(e.p, k), count);
        }
        check_gradient(&e, "x", e.x, e.d_x, (int64_t)e.steps * e.K * e.layer.in);
        close_example(&e);
    }
    stw_backend_destroy(b);
}

/* By lstm_reference.py. */
static const double h_forwards[] = {0.0281617578,  -0.1918790167, -0.0939757625, -0.1143289323, -0.0388038048, -0.3097826256,
                                    -0.1835861036, -0.2304143898, -0.0868098211, -0.3864570928, -0.2716866651, -0.2562397632};
static const double d_x_forwards[] = {-0.0884023183, -0.2025453312, -0.1304691008, -0.1562230648, -0.5440208530, -0.4316483778,
                                      0.0013711913,  -0.1012460838, -0.1107781764, 0.0395570950,  0.2074635078,  0.1846289282,
                                      -0.0014882853, 0.1234711936,  0.1349118265,  -0.0268133741, -0.0751473178, -0.0543911642};
static const double d_recurse_forwards[] = {0.0012934789,  0.0113192295, -0.0091950744, -0.0090529089, 0.0008979459, 0.0017797201,
                                            -0.0024727150, 0.0061985946, -0.0044234462, -0.0253242398, 0.0276229846, 0.0141752048,
                                            0.0077395005,  0.0171948204, 0.0033380779,  0.0197887946};
static const double h_backwards[] = {-0.1440957201, -0.2177934421, -0.1336402049, -0.0800820760, -0.1408038246, -0.2762481514,
                                     -0.1449475027, -0.2552431096, -0.0945686628, -0.2977471972, -0.1102675199, -0.2641773172};
static const double d_x_backwards[] = {-0.0766842613, -0.1779732392, -0.1156344418, -0.1623636345, -0.5408299046, -0.4220596545,
                                       -0.0288656890, -0.1725811521, -0.1576262999, 0.0506162196,  0.1690505360,  0.1320605693,
                                       0.0025216455,  0.0544628175,  0.0563311262,  -0.0106833342, -0.0091297542, 0.0008176797};
static const double d_recurse_backwards[] = {
    -0.0050279107, -0.0157295412, -0.0077401935, -0.0174085463, -0.0035809355, -0.0092649075, 0.0045671797,  0.0037785726,
    0.0460467347,  0.1052724304,  -0.0585816673, -0.0905257665, -0.0111835960, -0.0312104229, -0.0173315613, -0.0492387594};
static const double pointed[] = {-0.0889316138, -0.0032524231, -0.2522209141, 0.0618916127};
static const double pointed_weight[] = {0.4178385376, 0.2380258822, 0.3441355802, 0.5741598313, 0.2051097702, 0.2207303985};

static double worst_of(const double *found, const double *expected, int64_t count) {
    double worst = 0.0;
    for (int64_t k = 0; k < count; k++) worst = fmax(worst, isnan(found[k]) ? INFINITY : fabs(found[k] - expected[k]));
    return worst;
}

TEST(lstm, is_that_of_pytorch) {
    stw_error error = {0};
    stw_backend *b = NULL;
    if (!CHECK_EQ_INT(stw_backend_reference(8, &b, &error), STW_OK)) return;
    for (int i = 0; i < 2; i++) {
        example e;
        if (!open_example(&e, b, 3, 2, 3, 2, i == 1)) return;
        forward(&e);
        backward(&e);
        CHECK_NEAR(worst_of(e.kept.h, i == 0 ? h_forwards : h_backwards, 12), 0.0, 1e-9);
        CHECK_NEAR(worst_of(e.d_x, i == 0 ? d_x_forwards : d_x_backwards, 18), 0.0, 1e-9);
        const double *d_recurse = stw_parameter_gradient(e.p, e.layer.recurse.weight);
        CHECK_NEAR(worst_of(d_recurse, i == 0 ? d_recurse_forwards : d_recurse_backwards, 16), 0.0, 1e-9);
        close_example(&e);
    }
    stw_backend_destroy(b);
}

TEST(point, is_that_of_pytorch) {
    stw_error error = {0};
    stw_backend *b = NULL;
    stw_arena arena = {0};
    if (!CHECK_EQ_INT(stw_backend_reference(8, &b, &error), STW_OK)) return;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK)) return;
    double y[4] = {0}, weight[6] = {0};
    b->point(b, 2, 3, 2, 2, sines(&arena, 1, 12), sines(&arena, 101, 4), sines(&arena, 201, 2), sines(&arena, 301, 12), y,
             weight);
    CHECK_NEAR(worst_of(y, pointed, 4), 0.0, 1e-9);
    CHECK_NEAR(worst_of(weight, pointed_weight, 6), 0.0, 1e-9);
    stw_arena_destroy(&arena);
    stw_backend_destroy(b);
}

TEST(lstm, begins_by_remembering) {
    stw_error error = {0};
    stw_backend *b = NULL;
    stw_arena arena = {0};
    const stw_rng rng = stw_rng_create(3);
    if (!CHECK_EQ_INT(stw_backend_reference(8, &b, &error), STW_OK)) return;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK)) return;
    stw_parameters *p = STW_NEW(&arena, stw_parameters, 1);
    p->backend = b;
    const stw_lstm_layer layer = stw_lstm_declare(p, "lstm", 4, 3);
    if (!CHECK_EQ_INT(stw_parameters_allocate(p, &rng, &error), STW_OK)) return;
    CHECK_EQ_INT(stw_parameters_find(p, "lstm.bias"), layer.input.bias);
    CHECK_EQ_INT(layer.recurse.bias, -1);
    const double *bias = stw_parameter_value(p, layer.input.bias);
    for (int k = 0; k < 12; k++) CHECK_NEAR(bias[k], k / 3 == 1 ? 1.0 : 0.0, 0.0);
    stw_parameters_release(p);
    stw_arena_destroy(&arena);
    stw_backend_destroy(b);
}

typedef struct { /* of all steps */
    double *gates, *c, *h, *d_gates, *d_x;
} by_step;

static by_step new_by_step(example *e) {
    const int64_t rows = (int64_t)e->steps * e->K, width = e->layer.width;
    return (by_step){.gates = STW_NEW(&e->arena, double, 4 * rows * width),
                     .c = STW_NEW(&e->arena, double, rows *width),
                     .h = STW_NEW(&e->arena, double, rows *width),
                     .d_gates = STW_NEW(&e->arena, double, 4 * rows * width),
                     .d_x = STW_NEW(&e->arena, double, rows * e->layer.in)};
}

static void walk_back(example *e, const by_step *s) {
    const int64_t state = (int64_t)e->K * e->layer.width, inputs = (int64_t)e->K * e->layer.in;
    double *d_h = STW_NEW(&e->arena, double, state), *d_h_before = STW_NEW(&e->arena, double, state);
    double *d_c = STW_NEW(&e->arena, double, state);
    memcpy(d_c, e->weight_c, (size_t)state * sizeof(double));
    for (int64_t t = e->steps; t-- > 0;) {
        for (int64_t k = 0; k < state; k++) d_h[k] = e->weight_h[t * state + k] + d_h_before[k];
        stw_lstm_step_back(&e->layer, e->p, e->K, t > 0 ? s->c + (t - 1) * state : NULL, s->gates + 4 * t * state,
                           s->c + t * state, d_h, d_c, s->d_gates + 4 * t * state, s->d_x + t * inputs,
                           t > 0 ? d_h_before : NULL);
    }
    double *h_before = STW_NEW(&e->arena, double, e->steps *state); /* zeros, then all but the last */
    memcpy(h_before + state, s->h, (size_t)((e->steps - 1) * state) * sizeof(double));
    stw_lstm_weights_back(&e->layer, e->p, e->steps * e->K, e->x, h_before, s->d_gates);
}

TEST(lstm, step_by_step_is_the_same) {
    stw_error error = {0};
    stw_backend *b = NULL;
    example e;
    if (!CHECK_EQ_INT(stw_backend_reference(8, &b, &error), STW_OK)) return;
    if (!open_example(&e, b, 5, 3, 4, 6, false)) return;
    const int64_t state = (int64_t)e.K * e.layer.width, inputs = (int64_t)e.K * e.layer.in;
    memcpy(e.weight_c, sines(&e.arena, 501, state), (size_t)state * sizeof(double));
    forward(&e);
    const by_step s = new_by_step(&e);
    for (int64_t t = 0; t < e.steps; t++)
        stw_lstm_step(&e.layer, e.p, e.K, e.x + t * inputs, t > 0 ? s.h + (t - 1) * state : NULL,
                      t > 0 ? s.c + (t - 1) * state : NULL, s.gates + 4 * t * state, s.c + t * state, s.h + t * state);
    CHECK_NEAR(worst_of(s.h, e.kept.h, e.steps * state), 0.0, 1e-15);
    CHECK_NEAR(worst_of(s.c, e.kept.c, e.steps * state), 0.0, 1e-15);
    backward(&e);
    const double *gradient = doubles_of(&e, e.p->gradient, e.p->total);
    stw_parameters_zero_gradient(e.p);
    walk_back(&e, &s);
    CHECK_NEAR(worst_of(s.d_x, e.d_x, e.steps * inputs), 0.0, 1e-13);
    CHECK_NEAR(worst_of(e.p->gradient, gradient, e.p->total), 0.0, 1e-12);
    close_example(&e);
    stw_backend_destroy(b);
}

/* d_x is added to where it says so, and may be left out. */
TEST(lstm, adds_to_the_gradient_of_x) {
    stw_error error = {0};
    stw_backend *b = NULL;
    example e;
    if (!CHECK_EQ_INT(stw_backend_reference(8, &b, &error), STW_OK)) return;
    if (!open_example(&e, b, 3, 2, 3, 2, true)) return;
    forward(&e);
    backward(&e);
    const double *alone = doubles_of(&e, e.d_x, 18), *gradient = doubles_of(&e, e.p->gradient, e.p->total);
    double *d_h = doubles_of(&e, e.weight_h, 12), *d_x = sines(&e.arena, 9, 18);
    const double *before = doubles_of(&e, d_x, 18);
    CHECK_EQ_INT(stw_lstm_backward(&e.layer, e.p, &e.kept, d_h, NULL, true, d_x, e.tape, &error), STW_OK);
    for (int k = 0; k < 18; k++) CHECK_NEAR(d_x[k], before[k] + alone[k], 1e-14);
    d_h = doubles_of(&e, e.weight_h, 12);
    stw_parameters_zero_gradient(e.p);
    CHECK_EQ_INT(stw_lstm_backward(&e.layer, e.p, &e.kept, d_h, NULL, false, NULL, e.tape, &error), STW_OK);
    CHECK_NEAR(worst_of(e.p->gradient, gradient, e.p->total), 0.0, 1e-14);
    close_example(&e);
    stw_backend_destroy(b);
}

/* Everything that a pass gives: h, d_x, gradients. */
static double *run_on(stw_backend *b, int32_t steps, int32_t K, int32_t in, int32_t width, bool backwards, stw_arena *arena,
                      int64_t *count) {
    example e;
    if (!open_example(&e, b, steps, K, in, width, backwards)) return NULL;
    const int64_t outputs = (int64_t)steps * K * width, inputs = (int64_t)steps * K * in;
    *count = outputs + inputs + e.p->total;
    double *all = STW_NEW(arena, double, *count);
    forward(&e);
    stw_reals_out(b, all, e.kept.h, outputs, *arena);
    backward(&e);
    stw_reals_out(b, all + outputs, e.d_x, inputs, *arena);
    stw_reals_out(b, all + outputs + inputs, e.p->gradient, e.p->total, *arena);
    close_example(&e);
    return all;
}

TEST(lstm, on_the_cpu_is_the_same_from_any_number_of_threads) {
    stw_error error = {0};
    static const int32_t size[][4] = {{7, 1, 3, 5}, {9, 3, 20, 33}, {40, 2, 65, 31}, {4, 16, 300, 256}, {3, 5, 17, 257}};
    stw_backend *reference = NULL;
    if (!CHECK_EQ_INT(stw_backend_reference(8, &reference, &error), STW_OK)) return;
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        stw_arena arena = {0};
        if (!CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK)) return;
        const int32_t steps = size[i][0], K = size[i][1], in = size[i][2], width = size[i][3];
        int64_t count = 0;
        const double *expected = run_on(reference, steps, K, in, width, i % 2 == 1, &arena, &count), *one = NULL;
        double largest = 1.0;
        for (int64_t k = 0; k < count; k++) largest = fmax(largest, fabs(expected[k]));
        for (int32_t threads = 1; threads <= 3; threads++) {
            stw_pool *pool = NULL;
            stw_backend *cpu = NULL;
            if (!CHECK_EQ_INT(stw_pool_create(threads, &pool, &error), STW_OK)) return;
            if (!CHECK_EQ_INT(stw_backend_cpu(pool, &cpu, &error), STW_OK)) return;
            const double *found = run_on(cpu, steps, K, in, width, i % 2 == 1, &arena, &count);
            test_context("%d steps, K %d, %d -> %d, %d threads", steps, K, in, width, threads);
            CHECK_NEAR(worst_of(found, expected, count) / largest, 0.0, 2e-6);
            if (threads == 1) one = found;
            CHECK(memcmp(found, one, (size_t)count * sizeof(double)) == 0);
            stw_backend_destroy(cpu);
            stw_pool_destroy(pool);
        }
        stw_arena_destroy(&arena);
    }
    test_context("%s", "");
    stw_backend_destroy(reference);
}
