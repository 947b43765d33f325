/* policy/heads.c: the means have the shift and the gain that the graph says, its gradients are right up to the bounds of the
 * gain, and rows that are alike do no harm. */
#include <math.h>
#include <string.h>

#include "policy/bench.h"

enum { ROWS = 9, SAMPLES = 2, KNOBS = STW_STEER_KNOBS };

static double *parameter(const bench *b, const char *name) { /* only on the oracle: doubles */
    const stw_parameters *p = stw_net_parameters(b->net);
    const int32_t index = stw_parameters_find(p, name);
    CHECK(index >= 0);
    return stw_parameter_value(p, index);
}

static double *gradient(const bench *b, const char *name) {
    const stw_parameters *p = stw_net_parameters(b->net);
    return stw_parameter_gradient(p, stw_parameters_find(p, name));
}

/* Common parameters that do not depend on the graph: `shift` and the gain's logarithm for every number. */
static void set_common(bench *b, double shift, double gain) {
    const char *const names[2][2] = {{"common.steer.weight", "common.steer.bias"}, {"common.nudge.weight", "common.nudge.bias"}};
    for (int t = 0; t < 2; t++) {
        const int32_t dims = t == 0 ? KNOBS : 1;
        double *bias = parameter(b, names[t][1]);
        memset(parameter(b, names[t][0]), 0, (size_t)(2 * dims * stw_net_config(b->net)->width) * sizeof(double));
        for (int32_t k = 0; k < dims; k++) {
            bias[k] = shift;
            bias[dims + k] = gain;
        }
    }
}

/* Of one dimension of one sequence. */
static void check_moments(const double *x, int32_t dims, double mean, double deviation) {
    double sum = 0.0, square = 0.0;
    for (int32_t r = 0; r < ROWS; r++) sum += x[r * dims] / ROWS;
    for (int32_t r = 0; r < ROWS; r++) square += (x[r * dims] - sum) * (x[r * dims] - sum) / ROWS;
    CHECK_NEAR(sum, mean, 1e-12);
    CHECK_NEAR(sqrt(square), deviation, 1e-5 * deviation);
}

static void check_all_moments(bench *b, double mean, double deviation) {
    loss_of(b);
    for (int32_t k = 0; k < KNOBS; k++) check_moments(b->out[0] + k, KNOBS, mean, deviation);
    for (int32_t s = 0; s < SAMPLES; s++) check_moments(b->out[1] + s * ROWS, 1, mean, deviation);
}

TEST(spread, shift_and_gain) {
    const stw_policy_config c = example_config(false, 16);
    bench b;
    open_bench(&b, &c, oracle(), ROWS, SAMPLES);
    set_common(&b, 0.0, 0.0); /* as at the beginning of training */
    check_all_moments(&b, 0.0, 0.3);
    set_common(&b, -1.5, 0.7);
    check_all_moments(&b, -1.5, 0.3 * exp(0.7));
    set_common(&b, 0.5, 50.0);
    check_all_moments(&b, 0.5, 0.3 * exp(3.0));
    set_common(&b, 0.5, -50.0);
    check_all_moments(&b, 0.5, 0.3 * exp(-5.0));
    close_bench(&b);
}

/* A new network: nothing in common yet. */
TEST(spread, begins_at_zero) {
    const stw_policy_config c = example_config(false, 16);
    bench b;
    open_bench(&b, &c, oracle(), ROWS, SAMPLES);
    forget_bench(&b);
    check_all_moments(&b, 0.0, 0.3);
    close_bench(&b);
}

/* Every number of one parameter against differences; the largest slope of the first and the second half of its rows. */
static void check_slopes(bench *b, const char *name, double within, double size[2]) {
    const stw_parameters *p = stw_net_parameters(b->net);
    const stw_parameter *entry = &p->entry[stw_parameters_find(p, name)];
    const int32_t count = entry->rows * entry->cols;
    double *value = parameter(b, name);
    const double *found = gradient(b, name);
    test_context("%s", name);
    size[0] = size[1] = 0.0;
    for (int32_t k = 0; k < count; k++) {
        const double slope = slope_of(b, &value[k], 1e-6);
        CHECK_NEAR(found[k], slope, within * (1.0 + fabs(slope)));
        size[k >= count / 2] = fmax(size[k >= count / 2], fabs(slope));
    }
}

static void check_common(double gain, bool bounded) {
    static const char *const names[] = {"common.steer.weight", "common.steer.bias", "common.nudge.weight", "common.nudge.bias"};
    const stw_policy_config c = example_config(false, 16);
    bench b;
    open_bench(&b, &c, oracle(), ROWS, SAMPLES);
    set_common(&b, 0.2, gain);
    loss_of(&b);
    back_of(&b);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        double size[2];
        check_slopes(&b, names[i], 1e-6, size);
        CHECK(size[0] > 1e-2);
        CHECK(bounded ? size[1] == 0.0 : size[1] > 1e-4);
    }
    double size[2];
    check_slopes(&b, "head.steer.weight", 1e-6, size); /* a gain at its bound still passes gradients on to the rows */
    CHECK(size[0] > 1e-4 && size[1] > 1e-4);
    check_slopes(&b, "head.steer.own.weight", 1e-6, size);
    CHECK(size[0] > 1e-4 && size[1] > 1e-4);
    close_bench(&b);
}

TEST(spread, gradients_within_bounds) {
    check_common(0.4, false);
    check_common(-4.9, false);
    check_common(2.9, false);
}

TEST(spread, gradients_beyond_bounds) {
    check_common(-5.1, true);
    check_common(3.1, true);
}

/* Rows of one operator without edges, equal but for `by` times a normal number; the samples' actions likewise. */
static void make_alike(bench *b, const stw_policy_config *c, double by) {
    example *e = &b->e;
    const int32_t M = e->input.M, columns[] = {c->unit_columns, c->feedback_columns, e->input.D * c->pair_columns};
    double *features[] = {e->unit, e->feedback, e->pair};
    for (int f = 0; f < 3; f++) {
        for (int32_t i = columns[f]; i < M * columns[f]; i++) features[f][i] = features[f][i % columns[f]] + by * features[f][i];
    }
    for (int32_t i = 0; i < e->K * M * KNOBS; i++) e->action[i] = 0.5 + by * e->action[i];
    memset(e->operator_, 0, (size_t)M * sizeof *e->operator_);
    memset(e->start[0], 0, (size_t)(M + 1) * sizeof(int32_t));
    memset(e->start[1], 0, (size_t)(M + 1) * sizeof(int32_t));
    CHECK(stw_pass_set_input(b->pass, &e->input, NULL) == STW_OK);
}

/* The largest distance of an output from `shift`. */
static double farthest(const bench *b, double shift) {
    double most = 0.0;
    for (int t = 0; t < 2; t++) {
        for (int64_t i = 0; i < b->size[t]; i++)
            most = fmax(most, isfinite(b->out[t][i]) ? fabs(b->out[t][i] - shift) : INFINITY);
    }
    return most;
}

/* Infinite if a number of it is not finite. */
static double largest_gradient(bench *b) {
    const stw_parameters *p = stw_net_parameters(b->net);
    stw_arena scratch = b->arena;
    double *all = STW_NEW(&scratch, double, p->total), most = 0.0;
    stw_reals_out(b->backend, all, p->gradient, p->total, scratch);
    for (int64_t i = 0; i < p->total; i++) most = fmax(most, isfinite(all[i]) ? fabs(all[i]) : INFINITY);
    return most;
}

/* Equal rows, and a row alone: exactly the shift, and no gradient from the differences that are not there. */
TEST(spread, equal_rows_are_the_shift) {
    const stw_policy_config c = example_config(false, 16);
    for (int32_t M = 1; M <= ROWS; M += ROWS - 1) {
        bench b;
        open_bench(&b, &c, oracle(), M, SAMPLES);
        make_alike(&b, &c, 0.0);
        set_common(&b, 0.7, 3.0);
        loss_of(&b);
        test_context("%d rows", M);
        CHECK(farthest(&b, 0.7) == 0.0);
        back_of(&b);
        double sum = 0.0;
        for (int32_t r = 0; r < M; r++) sum += b.weight[0][r * KNOBS];
        CHECK_NEAR(gradient(&b, "common.steer.bias")[0], sum, 1e-12);
        CHECK(gradient(&b, "common.steer.bias")[KNOBS] == 0.0);
        CHECK(gradient(&b, "common.nudge.bias")[1] == 0.0);
        for (int32_t i = 0; i < KNOBS * c.width; i++) {
            CHECK(gradient(&b, "head.steer.weight")[i] == 0.0);
            CHECK(gradient(&b, "head.steer.own.weight")[i] == 0.0);
        }
        CHECK(largest_gradient(&b) < 100.0);
        close_bench(&b);
    }
}

/* Equal rows with vectors of their own are told apart, each knob over the whole spread. */
TEST(spread, identities_tell_equal_rows_apart) {
    stw_policy_config c = example_config(false, 16);
    c.identities = ROWS;
    bench b;
    open_bench(&b, &c, oracle(), ROWS, SAMPLES);
    make_alike(&b, &c, 0.0);
    set_common(&b, 0.7, 0.0);
    loss_of(&b);
    for (int32_t k = 0; k < KNOBS; k++) check_moments(b.out[0] + k, KNOBS, 0.7, 0.3);
    for (int32_t r = 1; r < ROWS; r++) CHECK(b.out[1][r] != b.out[1][0]);
    close_bench(&b);
}

/* Down to the rounding of floats: what the rows' small differences make of outputs and gradients is bounded, and in the end they
 * are equal rows. Segments are short, so that rows are not even computed alike. */
TEST(spread, nearly_equal_rows) {
    const stw_policy_config c = example_config(false, 4);
    const double by[] = {1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 0.0};
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        bench b;
        open_bench(&b, &c, cpu(NULL), 50, SAMPLES);
        forget_bench(&b);
        make_alike(&b, &c, by[i]);
        loss_of(&b);
        back_of(&b);
        test_context("differences of %g", by[i]);
        CHECK(farthest(&b, 0.0) <= 0.3 * sqrt(49.0)); /* one row alone at the far end */
        CHECK(largest_gradient(&b) < 1e4);
        CHECK(by[i] < 1e-3 || farthest(&b, 0.0) > 0.3); /* still told apart */
        if (by[i] < 1e-7) {
            CHECK(farthest(&b, 0.0) == 0.0);
            CHECK(largest_gradient(&b) < 100.0); /* of the shift only */
        }
        close_bench(&b);
    }
}

/* Where the deviation is about as small as what is added to the variance, gradients are still those of the loss. */
TEST(spread, gradients_of_nearly_equal_rows) {
    const stw_policy_config c = example_config(false, 16);
    bench b;
    open_bench(&b, &c, oracle(), ROWS, SAMPLES);
    make_alike(&b, &c, 1e-4);
    set_common(&b, 0.2, 0.4);
    loss_of(&b);
    back_of(&b);
    double size[2];
    check_slopes(&b, "head.steer.weight", 1e-5, size);
    check_slopes(&b, "head.steer.own.weight", 1e-5, size);
    check_slopes(&b, "head.nudge.weight", 1e-5, size);
    CHECK(size[0] > 1e-3);
    check_slopes(&b, "common.steer.bias", 1e-5, size);
    CHECK(size[1] > 1e-3);
    close_bench(&b);
}
