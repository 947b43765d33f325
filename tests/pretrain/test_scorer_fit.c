/* pretrain/scorer_fit: gradients against differences, what counts how much, a rule that can be learnt. */
#include <math.h>
#include <stdlib.h>

#include "pretrain/scorer_fit.h"
#include "test.h"

static stw_example draw_example(stw_rng *rng) {
    stw_example e = {.worth = (float)(0.2 + stw_rng_uniform(rng))};
    for (int c = 0; c < STW_MOVE_FEATURES; c++) e.feature[c] = (float)stw_rng_normal(rng);
    e.gain = stw_rng_uniform(rng) < 0.4 ? (float)stw_rng_uniform(rng) : 0.0f;
    return e;
}

/* The loss in double, as it is defined. */
static double plain_loss(const stw_scorer *s, const stw_example *example, int64_t count) {
    double loss = 0.0;
    for (int64_t k = 0; k < count; k++) {
        double z = (double)s->weight[STW_SCORER_OUT_BIAS];
        for (int h = 0; h < STW_SCORER_HIDDEN; h++) {
            double x = (double)s->weight[STW_SCORER_BIAS + h];
            for (int c = 0; c < STW_MOVE_FEATURES; c++)
                x += (double)stw_scorer_input(s, example[k].feature, c) * (double)s->weight[c * STW_SCORER_HIDDEN + h];
            z += (x > 0.0 ? x : 0.01 * x) * (double)s->weight[STW_SCORER_OUT + h];
        }
        loss += log1p(exp(z)) + (double)example[k].worth * log1p(exp(-z));
    }
    return loss;
}

TEST(scorer_fit, gradients_equal_differences) {
    enum { COUNT = 12 };
    stw_rng rng = stw_rng_create(821);
    stw_example example[COUNT];
    const stw_example *order[COUNT];
    stw_scorer s;
    float gradient[STW_SCORER_WEIGHTS] = {0};
    stw_scorer_begin(&s, &rng);
    for (int k = 0; k < COUNT; k++) {
        example[k] = draw_example(&rng);
        order[k] = &example[k];
    }
    s.weight[STW_SCORER_BIAS + 3] = 0.5f;
    s.weight[STW_SCORER_OUT_BIAS] = -0.3f;
    CHECK_NEAR(stw_scorer_learn(&s, order, COUNT, gradient), plain_loss(&s, example, COUNT), 1e-4);
    for (int w = 0; w < STW_SCORER_WEIGHTS; w += w < STW_SCORER_BIAS ? 7 : 1) {
        stw_scorer up = s, down = s;
        up.weight[w] += 1e-3f;
        down.weight[w] -= 1e-3f;
        const double by = (double)up.weight[w] - (double)down.weight[w];
        test_context("weight %d", w);
        CHECK_NEAR((double)gradient[w], (plain_loss(&up, example, COUNT) - plain_loss(&down, example, COUNT)) / by, 2e-3);
    }
    test_context("%s", "");
}

TEST(scorer_fit, gains_count_beside_the_mean_of_their_problem) {
    stw_example e[5] = {{.gain = 0.0f}, {.gain = 0.001f}, {.gain = 0.003f}, {.gain = 0.0f}, {.gain = 0.0f}};
    stw_examples_weigh(e, 5);
    static const float worth[5] = {0.0f, 1.25f, 3.75f, 0.0f, 0.0f}; /* the mean gain is 0.0008 */
    for (int k = 0; k < 5; k++) CHECK_NEAR((double)e[k].worth, (double)worth[k], 1e-5);
    for (int k = 0; k < 5; k++) e[k].gain *= 1000.0f; /* another problem, with more to gain */
    stw_examples_weigh(e, 5);
    for (int k = 0; k < 5; k++) CHECK_NEAR((double)e[k].worth, (double)worth[k], 1e-5);
    for (int k = 0; k < 5; k++) e[k].gain = 0.0f; /* nothing helped */
    stw_examples_weigh(e, 5);
    for (int k = 0; k < 5; k++) CHECK_NEAR((double)e[k].worth, 0.0, 0.0);
}

/* Of moves that look alike, few of which gain much, and others of which most gain a little, the first are worth more. */
TEST(scorer_fit, expects_gains_not_help) {
    enum { COUNT = 4000 };
    stw_rng rng = stw_rng_create(823);
    stw_example *e = calloc(COUNT, sizeof *e);
    const stw_example **order = malloc(COUNT * sizeof *order);
    stw_scorer s;
    for (int k = 0; k < COUNT; k++) {
        const bool rare = k % 2 == 0, helped = stw_rng_uniform(&rng) < (rare ? 0.2 : 0.6);
        e[k].feature[STW_MOVE_HAS_window] = rare;
        e[k].gain = helped ? (rare ? 0.009f : 0.001f) : 0.0f;
    }
    stw_examples_weigh(e, COUNT);
    (void)stw_scorer_fit(e, COUNT, &(stw_scorer_course){.epochs = 60, .rate = 5e-3, .rng = rng}, order, &s);
    const double much = (double)stw_scorer_score(&s, e[0].feature, NULL),
                 little = (double)stw_scorer_score(&s, e[1].feature, NULL);
    CHECK_NEAR(exp(much - little), 0.2 * 9.0 / 0.6, 0.5);
    free(order);
    free(e);
}

/* Moves help where one column is above another, whatever the rest. */
static void draw_rule(stw_example *e, int64_t count, stw_rng *rng) {
    for (int64_t k = 0; k < count; k++) {
        e[k] = draw_example(rng);
        e[k].feature[STW_MOVE_HAS_torn] = 3.0f; /* always the same */
        e[k].gain = e[k].feature[3] * e[k].feature[3] > e[k].feature[20] + 1.5f ? 0.01f : 0.0f;
    }
    stw_examples_weigh(e, count);
}

TEST(scorer_fit, learns_a_rule_and_ranks_by_it) {
    enum { COUNT = 6000 }; /* twelve steps of Adam in an epoch */
    stw_rng rng = stw_rng_create(822);
    stw_example *e = malloc(2 * COUNT * sizeof *e);
    const stw_example **order = malloc(COUNT * sizeof *order);
    float score[COUNT];
    stw_scorer learnt, unlearnt, again;
    stw_scorer_course course = {.epochs = 60, .rate = 5e-3, .rng = rng};
    draw_rule(e, 2 * COUNT, &rng);
    const double loss = stw_scorer_fit(e, COUNT, &course, order, &learnt);
    CHECK(stw_scorer_auc(&learnt, &e[COUNT], COUNT, score) > 0.93);
    CHECK_NEAR((double)learnt.scale[STW_MOVE_HAS_torn], 0.0, 0.0); /* it says nothing */
    CHECK_NEAR(stw_scorer_fit(e, COUNT, &course, order, &again), loss, 0.0);
    CHECK(memcmp(&learnt, &again, sizeof again) == 0);
    course.rate = 0.0;
    const double before = stw_scorer_fit(e, COUNT, &course, order, &unlearnt);
    CHECK(loss < 0.65 * before);
    CHECK(fabs(stw_scorer_auc(&unlearnt, &e[COUNT], COUNT, score) - 0.5) < 0.25);
    free(order);
    free(e);
}

TEST(scorer_fit, auc_by_hand) {
    stw_scorer s = {.scale = {1.0f}};
    stw_example e[5] = {{.feature = {1.0f}, .gain = 0.5f},
                        {.feature = {2.0f}},
                        {.feature = {-1.0f}},
                        {.feature = {3.0f}, .gain = 0.1f},
                        {.feature = {1.0f}}};
    float score[5];
    s.weight[0] = 1.0f; /* the first column through the first hidden number */
    s.weight[STW_SCORER_OUT] = 1.0f;
    CHECK_NEAR(stw_scorer_auc(&s, e, 5, score), (1.5 + 3.0) / 6.0, 1e-9); /* 1 ties with one and beats one; 3 beats all three */
    CHECK(isnan(stw_scorer_auc(&s, e, 1, score)));
}
