/* generate/step: arithmetic by hand for the basic ops and their derivatives, strides, gradients that add up. */
#include "generate/step.h"

#include <string.h>

#include "generate/step_parts.h"
#include "test.h"

typedef struct {
    stw_arena arena;
    stw_step *step;
} bench;

/* The step keeps a pointer to the arena. */
static void bench_open(bench *b) {
    stw_error error = {0};
    CHECK_EQ_INT(stw_arena_create(&b->arena, &error), STW_OK);
    CHECK_EQ_INT(stw_step_create(&b->arena, &b->step, &error), STW_OK);
}

static void finish(bench *b, stw_tensor loss) {
    stw_error error = {0};
    if (!CHECK_EQ_INT(stw_step_finish(b->step, loss, &error), STW_OK)) CHECK_STR(error.message, "");
}

static int count_of(const bench *b, const char *op) {
    int count = 0;
    for (stw_tensor i = 0; i < b->step->count; i++) {
        const stw_step_node *node = stw_step_at(b->step, i);
        count += node->op != NULL && strcmp(node->op->name, op) == 0;
    }
    return count;
}

static int64_t flops_of(const bench *b, const char *op) {
    int64_t flops = 0;
    for (stw_tensor i = 0; i < b->step->count; i++) {
        const stw_step_node *node = stw_step_at(b->step, i);
        if (node->op != NULL && strcmp(node->op->name, op) == 0) flops += node->flops;
    }
    return flops;
}

/* 3 rows, 5 features in, 7 out: forward 2 * 3 * 5 * 7; backward the same for the weight and, were x a result, for x. */
TEST(step, linear) {
    bench b;
    bench_open(&b);
    const stw_tensor x = stw_step_input(b.step, STW_SHAPE(3, 5));
    const stw_tensor y = stw_step_linear(b.step, x, stw_linear_create(b.step, 5, 7, true, "a"));
    const stw_tensor z = stw_step_linear(b.step, y, stw_linear_create(b.step, 7, 2, true, "b"));
    CHECK_EQ_INT(flops_of(&b, "addmm"), 2 * 3 * 5 * 7 + 2 * 3 * 7 * 2);
    finish(&b, stw_step_mean_square(b.step, z));
    CHECK_EQ_INT(count_of(&b, "mm"), 3); /* both weights, one x */
    CHECK_EQ_INT(flops_of(&b, "mm"), 2 * 3 * 5 * 7 + 2 * (2 * 3 * 7 * 2));
    CHECK_EQ_INT(count_of(&b, "sum"), 2); /* the biases */
    CHECK_EQ_INT(count_of(&b, "sub"), 4);
    stw_arena_destroy(&b.arena);
}

/* 2 images of 3 channels, 8 x 8; 4 channels out, window 3 x 3, stride 2, padding 1: 4 x 4 places. */
TEST(step, convolution) {
    bench b;
    bench_open(&b);
    const stw_tensor x = stw_step_input(b.step, STW_SHAPE(2, 3, 8, 8));
    const stw_tensor y = stw_step_convolution(b.step, x, 4, stw_window_same(3, 2), 1, true, "a");
    const int64_t first = 2LL * 2 * 16 * (4 * 3 * 9), second = 2LL * 2 * 16 * (4 * 1 * 9);
    CHECK(stw_shape_equal(stw_step_shape(b.step, y), STW_SHAPE(2, 4, 4, 4)));
    CHECK_EQ_INT(flops_of(&b, "convolution"), first);
    const stw_tensor z = stw_step_convolution(b.step, y, 4, stw_window_same(3, 1), 4, false, "b"); /* each channel by itself */
    CHECK_EQ_INT(flops_of(&b, "convolution"), first + second);
    finish(&b, stw_step_mean_square(b.step, z));
    CHECK_EQ_INT(count_of(&b, "convolution_backward"), 2);
    CHECK_EQ_INT(flops_of(&b, "convolution_backward"), first + second + 4 * second); /* x of the first has no gradient */
    stw_arena_destroy(&b.arena);
}

TEST(step, transposed_convolution) {
    bench b;
    bench_open(&b);
    const stw_tensor x = stw_step_input(b.step, STW_SHAPE(2, 6, 5, 5));
    const stw_tensor y = stw_step_upsample(b.step, x, 3, 2, "a");
    CHECK(stw_shape_equal(stw_step_shape(b.step, y), STW_SHAPE(2, 3, 10, 10)));
    CHECK_EQ_INT(flops_of(&b, "convolution"), 2LL * 2 * 25 * (6 * 3 * 4));
    stw_arena_destroy(&b.arena);
}

/* Batch 3, width 5: one product of (3, 10) and (10, 20), then 3 sigmoid, 2 tanh, 3 mul and 1 add of (3, 5). */
TEST(step, lstm_cell) {
    bench b;
    bench_open(&b);
    const stw_tensor x = stw_step_input(b.step, STW_SHAPE(3, 5));
    const stw_tensor zero = stw_step_zeros(b.step, x, STW_SHAPE(3, 5));
    const stw_linear gates = stw_linear_create(b.step, 10, 20, true, "layers.0.gates");
    const stw_lstm_state state = stw_step_lstm(b.step, x, (stw_lstm_state){zero, zero}, gates);
    CHECK_EQ_INT(flops_of(&b, "addmm"), 2 * 3 * 10 * 20);
    CHECK_EQ_INT(flops_of(&b, "sigmoid"), 3 * 15);
    CHECK_EQ_INT(flops_of(&b, "tanh"), 2 * 15);
    CHECK_EQ_INT(flops_of(&b, "mul"), 3 * 15);
    CHECK_EQ_INT(flops_of(&b, "add"), 15);
    finish(&b, stw_step_mean_square(b.step, state.h));
    CHECK_EQ_INT(count_of(&b, "sigmoid_backward"), 3);
    CHECK_EQ_INT(count_of(&b, "tanh_backward"), 2);
    CHECK_EQ_INT(count_of(&b, "cat"), 2); /* input with state; the gates' gradients */
    CHECK_EQ_INT(count_of(&b, "mm"), 1);  /* the weight's; neither input nor first state takes one */
    stw_arena_destroy(&b.arena);
}

/* 2 texts, 4 heads of 8 features, 6 words: 2 * 8 * (6 x 6) a head for the scores, the same for the values. */
TEST(step, attention) {
    bench b;
    bench_open(&b);
    const stw_tensor x = stw_step_input(b.step, STW_SHAPE(2, 6, 32));
    stw_tensor part[3];
    for (int k = 0; k < 3; k++) {
        const stw_tensor y = stw_step_linear(b.step, x, stw_linear_create(b.step, 32, 32, true, "a"));
        part[k] = stw_step_transpose(b.step, stw_step_view(b.step, y, STW_SHAPE(2, 6, 4, 8)), 1, 2);
    }
    const int64_t product = 2LL * 2 * 4 * 6 * 8 * 6;
    const stw_tensor score = stw_step_matmul(b.step, part[0], stw_step_transpose(b.step, part[1], 2, 3));
    CHECK_EQ_INT(flops_of(&b, "bmm"), product);
    const stw_tensor mixed = stw_step_matmul(b.step, stw_step_softmax(b.step, score), part[2]);
    CHECK_EQ_INT(flops_of(&b, "bmm"), 2 * product);
    CHECK_EQ_INT(flops_of(&b, "_softmax"), 2 * 4 * 36);
    finish(&b, stw_step_mean_square(b.step, mixed));
    CHECK_EQ_INT(flops_of(&b, "bmm"), 6 * product);
    CHECK_EQ_INT(count_of(&b, "_softmax_backward_data"), 1);
    stw_arena_destroy(&b.arena);
}

/* What is used twice gets the sum of two gradients; what is broadcast, their sum over the places. */
TEST(step, gradients_add_up) {
    bench b;
    bench_open(&b);
    const stw_tensor p = stw_step_parameter(b.step, STW_SHAPE(4), "p");
    const stw_tensor x = stw_step_input(b.step, STW_SHAPE(3, 4));
    const stw_tensor y = stw_step_mul(b.step, stw_step_add(b.step, x, p), p);
    finish(&b, stw_step_mean_square(b.step, y));
    CHECK_EQ_INT(count_of(&b, "sum"), 2);
    CHECK_EQ_INT(count_of(&b, "add"), 2); /* x + p; the two gradients of p */
    CHECK_EQ_INT(count_of(&b, "sub"), 1);
    stw_arena_destroy(&b.arena);
}

TEST(step, no_gradient_through_detach) {
    bench b;
    bench_open(&b);
    const stw_tensor p = stw_step_parameter(b.step, STW_SHAPE(4), "lost");
    const stw_tensor q = stw_step_parameter(b.step, STW_SHAPE(4), "kept");
    const stw_tensor y = stw_step_mul(b.step, stw_step_detach(b.step, p), q);
    stw_error error = {0};
    CHECK_EQ_INT(stw_step_finish(b.step, stw_step_mean_square(b.step, y), &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "the parameter lost gets no gradient");
    stw_arena_destroy(&b.arena);
}

/* A reshape is free where the elements lie in order, else a copy. */
TEST(step, copies_where_strides_ask_for_them) {
    bench b;
    bench_open(&b);
    const stw_tensor x = stw_step_input(b.step, STW_SHAPE(2, 6, 4, 8));
    stw_step_reshape(b.step, x, STW_SHAPE(12, 32));
    stw_step_reshape(b.step, stw_step_permute(b.step, x, "2013"), STW_SHAPE(4, 12, 8)); /* 2 and 6 stay together */
    CHECK_EQ_INT(count_of(&b, "clone"), 0);
    const stw_tensor turned = stw_step_transpose(b.step, x, 1, 2);
    stw_step_reshape(b.step, turned, STW_SHAPE(8, 48));
    CHECK_EQ_INT(count_of(&b, "clone"), 1);
    stw_step_reshape(b.step, stw_step_slice(b.step, x, 1, 0, 3), STW_SHAPE(6, 32));
    CHECK_EQ_INT(count_of(&b, "clone"), 2);
    /* the result of an op lies as its operand does: turned back it is in order */
    const stw_tensor bent = stw_step_relu(b.step, turned);
    stw_step_reshape(b.step, stw_step_transpose(b.step, bent, 1, 2), STW_SHAPE(12, 32));
    CHECK_EQ_INT(count_of(&b, "clone"), 2);
    stw_step_reshape(b.step, bent, STW_SHAPE(8, 48));
    CHECK_EQ_INT(count_of(&b, "clone"), 3);
    stw_arena_destroy(&b.arena);
}

TEST(step, the_first_failure_stays) {
    bench b;
    bench_open(&b);
    const int64_t much = (int64_t)1 << 40;
    const stw_tensor x = stw_step_input(b.step, STW_SHAPE(much, much));
    CHECK(stw_step_failed(b.step));
    const stw_tensor y = stw_step_linear(b.step, x, stw_linear_create(b.step, 3, 3, true, "a"));
    CHECK_EQ_INT(stw_step_max_pool(b.step, y, stw_window_same(3, 1)), 0);
    stw_error error = {0};
    CHECK_EQ_INT(stw_step_finish(b.step, y, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "more than 2^50 elements");
    stw_arena_destroy(&b.arena);
}
