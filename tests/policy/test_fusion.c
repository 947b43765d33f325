/* policy/: three tasks in a chain, fusion -> placement -> schedule: gradients against differences of the loss, samples, and what
 * is refused. */
#include "policy/bench.h"
#include "support/look.h"

enum { ROWS = 9, SAMPLES = 3, CLASSES = 5 };

static stw_policy_config with_fusion(bool device, stw_fusion_head head, int32_t segment) {
    stw_policy_config c = example_config(device, segment);
    c.fusion = (int32_t)head;
    c.fusion_classes = head == STW_FUSION_HEAD_CLASS ? CLASSES : 0;
    return c;
}

TEST(fusion, gradients_of_nudge) { check_gradients(with_fusion(false, STW_FUSION_HEAD_NUDGE, 16)); }
TEST(fusion, gradients_of_class) { check_gradients(with_fusion(true, STW_FUSION_HEAD_CLASS, 16)); }

TEST(fusion, gradients_of_mixed_heads) {
    check_gradients(with_fusion(true, STW_FUSION_HEAD_NUDGE, 16));
    stw_policy_config c = with_fusion(false, STW_FUSION_HEAD_CLASS, 16);
    c.schedule = STW_SCHEDULE_CLASS;
    c.classes = 4;
    c.identities = ROWS;
    check_gradients(c);
}

TEST(fusion, gradients_without_stages) {
    stw_policy_config c = with_fusion(false, STW_FUSION_HEAD_NUDGE, 16);
    c.identities = ROWS;
    c.sage_layers = c.attention_layers = 0;
    c.feedback_columns = c.pair_columns = c.pair_width = 0;
    check_gradients(c);
}

/* The heads go together: a schedule of classes has fusion of classes. */
TEST(fusion, presets) {
    stw_policy_config c;
    stw_error error = {0};
    for (int k = 0; k < 2; k++) {
        CHECK(stw_policy_preset(k == 0 ? "default" : "paper", &c));
        CHECK_EQ_INT(c.fusion, STW_FUSION_HEAD_NONE);
        stw_policy_add_fusion(&c);
        CHECK_EQ_INT(c.fusion, k == 0 ? STW_FUSION_HEAD_NUDGE : STW_FUSION_HEAD_CLASS);
        c.unit_columns = c.device_columns = 4;
        CHECK(stw_policy_config_check(&c, &error) == STW_OK);
    }
    c.fusion_classes = 1; /* nothing could be merged */
    CHECK(stw_policy_config_check(&c, &error) == STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "2 fusion_classes or more");
}

/* What both have begins alike, whether there is fusion or not. */
TEST(fusion, the_rest_of_the_network_begins_as_without_it) {
    const stw_policy_config c = with_fusion(false, STW_FUSION_HEAD_NUDGE, 4), plain = example_config(false, 4);
    stw_backend *backend = oracle();
    stw_net *with = NULL, *without = NULL;
    CHECK(stw_net_create(&c, backend, 8, &with, NULL) == STW_OK && stw_net_create(&plain, backend, 8, &without, NULL) == STW_OK);
    const stw_parameters *p = stw_net_parameters(with), *q = stw_net_parameters(without);
    int32_t found = 0;
    for (int32_t i = 0; i < q->count; i++) {
        for (int32_t k = 0; k < p->count; k++) {
            if (strcmp(p->entry[k].name, q->entry[i].name) != 0) continue;
            const size_t bytes = (size_t)q->entry[i].rows * (size_t)q->entry[i].cols * sizeof(double);
            CHECK(memcmp(stw_parameter_value(p, k), stw_parameter_value(q, i), bytes) == 0);
            found++;
        }
    }
    CHECK_EQ_INT(found, q->count);
    CHECK(p->count > q->count);
    stw_net_destroy(with);
    stw_net_destroy(without);
    stw_backend_destroy(backend);
}

static double *gradient_of(bench *b, const double *d_fusion, const double *d_placement, const double *d_schedule) {
    stw_parameters *p = stw_net_parameters(b->net);
    stw_parameters_zero_gradient(p);
    CHECK(back_through(b->pass, d_fusion, d_placement, d_schedule, NULL) == STW_OK);
    double *out = STW_NEW(&b->arena, double, p->total);
    stw_reals_out(p->backend, out, p->gradient, p->total, b->arena);
    return out;
}

/* The gradient of each task alone adds up to that of all. */
static void check_adding_up(stw_policy_config c) {
    bench b;
    open_bench(&b, &c, oracle(), ROWS, SAMPLES);
    const int64_t total = stw_net_parameters(b.net)->total;
    loss_of(&b);
    const double *all = gradient_of(&b, b.weight[2], b.weight[0], b.weight[1]),
                 *fusion = gradient_of(&b, b.weight[2], NULL, NULL);
    const double *placement = gradient_of(&b, NULL, b.weight[0], NULL), *schedule = gradient_of(&b, NULL, NULL, b.weight[1]);
    double worst = 0.0;
    for (int64_t i = 0; i < total; i++) worst = fmax(worst, fabs(all[i] - fusion[i] - placement[i] - schedule[i]));
    CHECK_NEAR(worst, 0.0, 1e-11);
    close_bench(&b);
}

TEST(fusion, tasks_add_up) {
    check_adding_up(with_fusion(false, STW_FUSION_HEAD_NUDGE, 4));
    check_adding_up(with_fusion(true, STW_FUSION_HEAD_CLASS, 4));
}

/* Fusion alone: the other tasks need not run. */
TEST(fusion, alone) {
    const stw_policy_config c = with_fusion(false, STW_FUSION_HEAD_NUDGE, 4);
    bench b;
    open_bench(&b, &c, oracle(), ROWS, SAMPLES);
    const size_t bytes = (size_t)stw_net_parameters(b.net)->total * sizeof(double);
    loss_of(&b);
    const double *after_all = gradient_of(&b, b.weight[2], NULL, NULL);
    double *out = STW_NEW(&b.arena, double, b.size[2]);
    CHECK(stw_pass_fusion(b.pass, out, NULL) == STW_OK);
    CHECK(memcmp(out, b.out[2], (size_t)b.size[2] * sizeof *out) == 0);
    CHECK(memcmp(after_all, gradient_of(&b, b.weight[2], NULL, NULL), bytes) == 0);
    CHECK(back_through(b.pass, b.weight[2], b.weight[0], NULL, NULL) == STW_ERROR_INPUT); /* nothing was placed since */
    close_bench(&b);
}

/* A sample comes out as if it were alone: it sees its own fusion decisions, and those only. */
static void check_independence(stw_policy_config c) {
    const bool steer = c.placement == STW_PLACEMENT_STEER;
    bench b;
    open_bench(&b, &c, oracle(), ROWS, SAMPLES);
    loss_of(&b);
    const int64_t placed = b.size[0] / SAMPLES, scheduled = b.size[1] / SAMPLES;
    double *alone = STW_NEW(&b.arena, double, placed + scheduled);
    for (int64_t k = 0; k < SAMPLES; k++) {
        CHECK(stw_pass_place(b.pass, 1, b.e.fusion + k * ROWS, alone, NULL) == STW_OK);
        CHECK(memcmp(alone, b.out[0] + k * placed, (size_t)placed * sizeof *alone) == 0);
        CHECK(stw_pass_schedule(b.pass, 1, b.e.action + k * ROWS * (steer ? STW_STEER_KNOBS : 1), alone, NULL) == STW_OK);
        CHECK(memcmp(alone, b.out[1] + k * scheduled, (size_t)scheduled * sizeof *alone) == 0);
    }
    CHECK(memcmp(b.out[0], b.out[0] + placed, (size_t)placed * sizeof *alone) != 0); /* and decisions make a difference */
    close_bench(&b);
}

TEST(fusion, samples_are_independent) {
    check_independence(with_fusion(false, STW_FUSION_HEAD_NUDGE, 4));
    check_independence(with_fusion(true, STW_FUSION_HEAD_CLASS, 4));
}

/* The last sample has no gradient: as if it were not there. */
static void check_last_sample(stw_policy_config c) {
    bench b;
    open_bench(&b, &c, oracle(), ROWS, SAMPLES);
    const size_t bytes = (size_t)stw_net_parameters(b.net)->total * sizeof(double);
    const int64_t placed = b.size[0] / SAMPLES, scheduled = b.size[1] / SAMPLES;
    double *d[2] = {STW_NEW(&b.arena, double, b.size[0]), STW_NEW(&b.arena, double, b.size[1])};
    memcpy(d[0], b.weight[0], (size_t)(1 * placed) * sizeof **d); /* one for the placement, two for the schedule */
    memcpy(d[1], b.weight[1], (size_t)(2 * scheduled) * sizeof **d);
    loss_of(&b);
    const double *all = gradient_of(&b, b.weight[2], d[0], d[1]);
    CHECK(memcmp(all, gradient_of(&b, b.weight[2], d[0], d[1]), bytes) == 0); /* the pass still knows its samples */
    b.e.K = SAMPLES - 1;
    loss_of(&b);
    CHECK(memcmp(all, gradient_of(&b, b.weight[2], d[0], d[1]), bytes) == 0);
    close_bench(&b);
}

TEST(fusion, samples_without_gradient) {
    check_last_sample(with_fusion(false, STW_FUSION_HEAD_NUDGE, 4));
    check_last_sample(with_fusion(true, STW_FUSION_HEAD_CLASS, 4));
}

TEST(fusion, refuses_another_order) {
    const stw_policy_config c = with_fusion(true, STW_FUSION_HEAD_CLASS, 4), plain = example_config(true, 4);
    bench b;
    stw_error error = {0};
    double out[2 * ROWS * CLASSES], class[2 * ROWS] = {0};
    open_bench(&b, &c, cpu(NULL), ROWS, 2);
    CHECK(stw_pass_placement(b.pass, out, &error) == STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "fuses before it places");
    CHECK(stw_pass_place(b.pass, 2, class, out, &error) == STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "stw_pass_fusion first");
    CHECK(stw_pass_fusion(b.pass, out, NULL) == STW_OK);
    class[ROWS + 3] = CLASSES;
    CHECK(stw_pass_place(b.pass, 2, class, out, &error) == STW_ERROR_INPUT);
    CHECK_STR(error.message, "sample 1, row 3: fusion class 5; there are 5");
    class[ROWS + 3] = 0.0;
    CHECK(stw_pass_place(b.pass, 2, class, out, NULL) == STW_OK);
    CHECK(stw_pass_schedule(b.pass, 1, class, out, &error) == STW_ERROR_INPUT);
    CHECK_STR(error.message, "1 samples to schedule, but 2 were placed");
    close_bench(&b);
    open_bench(&b, &plain, cpu(NULL), ROWS, 2);
    CHECK(stw_pass_fusion(b.pass, out, &error) == STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "no head for fusion");
    close_bench(&b);
}

TEST(fusion, looks) {
    const stw_policy_config c = with_fusion(false, STW_FUSION_HEAD_NUDGE, 4);
    bench b;
    int32_t rows = 0, cols = 0;
    double out[ROWS];
    open_bench(&b, &c, cpu(NULL), ROWS, 2);
    CHECK(!stw_pass_look(b.pass, "fusion.hidden", &rows, &cols, NULL, b.arena));
    loss_of(&b);
    CHECK(stw_pass_look(b.pass, "fusion.hidden", &rows, &cols, NULL, b.arena) && rows == ROWS && cols == 8);
    CHECK(stw_pass_look(b.pass, "fusion.out", &rows, &cols, out, b.arena) && memcmp(out, b.out[2], sizeof out) == 0);
    CHECK(stw_pass_look(b.pass, "fusion.raw", &rows, &cols, out, b.arena) && memcmp(out, b.out[2], sizeof out) != 0);
    CHECK(stw_pass_look(b.pass, "placement.hidden", &rows, &cols, NULL, b.arena) && rows == 2 * ROWS);
    close_bench(&b);
}
