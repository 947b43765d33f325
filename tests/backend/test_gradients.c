/* backend/reference: every gradient against differences of the loss, in double. */
#include "support/reference_backend.h"
#include "trials.h"

static double loss_of(const trial *t, stw_backend *b, stw_arena arena) {
    void *in[MOST] = {0}, *out[MOST] = {0};
    int32_t *chosen = STW_NEW(&arena, int32_t, (int64_t)t->rows * t->width + 1);
    for (int i = 0; i < t->inputs; i++) in[i] = t->in_value[i];
    for (int i = 0; i < t->outputs; i++) out[i] = reals_of(b, i == 0 && t->add ? t->out_before : NULL, t->out_size[i], &arena);
    t->forward(t, b, in, out, chosen);
    double loss = 0.0;
    for (int64_t k = 0; k < t->out_size[0]; k++) loss += ((double *)out[0])[k] * t->d_y[k];
    return loss;
}

static double difference(trial *t, stw_backend *b, int input, int64_t k, stw_arena arena) {
    const double value = t->in_value[input][k], step = 1e-5;
    t->in_value[input][k] = value + step;
    const double above = loss_of(t, b, arena);
    t->in_value[input][k] = value - step;
    const double below = loss_of(t, b, arena);
    t->in_value[input][k] = value;
    return (above - below) / (2.0 * step);
}

TEST(gradients, equal_differences_of_the_loss) {
    stw_error error = {0};
    stw_arena arena = {0};
    stw_backend *b = NULL;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK)) return;
    if (!CHECK_EQ_INT(stw_backend_reference(8, &b, &error), STW_OK)) return;
    for (int32_t rows = 1; rows <= 15; rows += 7) {
        trial t;
        for (int index = 0;; index++) {
            stw_arena scratch = arena;
            if (!trial_at(index, rows, &scratch, &t)) break;
            if (!t.smooth) continue;
            const results result = trial_run(&t, b, &scratch);
            for (int i = 0; i < t.inputs; i++) {
                double worst = 0.0, largest = 1e-3;
                for (int64_t k = 0; k < t.in_size[i]; k++) {
                    const double expected = difference(&t, b, i, k, scratch);
                    const double found = result.gradient[i][k] - (t.adds[i] ? t.before[i][k] : 0.0);
                    worst = fmax(worst, isnan(found) ? INFINITY : fabs(found - expected));
                    largest = fmax(largest, fabs(expected));
                }
                test_context("%s, input %d", t.name, i);
                CHECK_NEAR(worst / largest, 0.0, 2e-6);
            }
        }
    }
    test_context("%s", "");
    stw_backend_destroy(b);
    stw_arena_destroy(&arena);
}

/* Three segments of two rows; the loss is of the middle one alone. */
TEST(gradients, of_memory_come_apart) {
    stw_error error = {0};
    stw_arena arena = {0};
    stw_backend *b = NULL;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK)) return;
    if (!CHECK_EQ_INT(stw_backend_reference(8, &b, &error), STW_OK)) return;
    stw_rng rng = stw_rng_create(1);
    trial t = attend_trial(&arena, &rng, 6, 6, 2, 1, 4);
    for (int64_t k = 0; k < t.out_size[0]; k++) {
        if (k / 4 / 2 != 1) t.d_y[k] = 0.0;
    }
    const results result = trial_run(&t, b, &arena);
    for (int64_t row = 0; row < 6; row++) {
        for (int i = 3; i < 7; i++) { /* keys and values of the own segment, then as memory */
            double sum = 0.0;
            for (int64_t c = 0; c < 4; c++) sum += fabs(result.gradient[i][row * 4 + c]);
            test_context("row %d, gradient %d", (int)row, i);
            CHECK((sum > 0.0) == (row / 2 == (i < 5 ? 1 : 0)));
        }
    }
    test_context("%s", "");
    stw_backend_destroy(b);
    stw_arena_destroy(&arena);
}

TEST(reference, refuses_other_reals) {
    stw_error error = {0};
    stw_backend *b = NULL;
    CHECK_EQ_INT(stw_backend_reference(2, &b, &error), STW_ERROR_INPUT);
    CHECK(b == NULL);
    CHECK_CONTAINS(error.message, "4 and 8");
}
