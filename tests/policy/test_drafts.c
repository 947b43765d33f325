/* policy/: several drafts, each of which knows the one before; devices with names; the network of GDP. Gradients against
 * differences of the loss, samples, and what is refused. */
#include "policy/bench.h"
#include "support/look.h"

enum { ROWS = 9, SAMPLES = 3, CLASSES = 3, DRAFTS = 3, TASKS = 3, NAMES = 5, DEVICES = 3 };

static stw_policy_config config_of(bool fuses, int32_t drafts, int32_t segment) {
    stw_policy_config c = example_config(true, segment);
    c.drafts = drafts;
    c.device_names = NAMES;
    c.fusion = fuses ? STW_FUSION_HEAD_CLASS : STW_FUSION_HEAD_NONE;
    c.fusion_classes = fuses ? CLASSES : 0;
    return c;
}

static stw_policy_config gdp(int32_t segment) {
    stw_policy_config c = config_of(false, 0, segment);
    c.modulation = STW_MODULATION_ROW;
    c.bare = 1;
    return c;
}

/* A bench with decisions for all tasks of all drafts, and weights for what they give. */
typedef struct {
    bench b;
    int32_t tasks, drafts, K;
    double *action[DRAFTS][TASKS]; /* (K, M) */
    double *out[DRAFTS][TASKS], *weight[DRAFTS][TASKS];
    int64_t size[DRAFTS][TASKS];
} course;

static int32_t width_of(const course *c, int32_t task) {
    const stw_pass *pass = c->b.pass;
    return task == 0 ? stw_pass_fusion_width(pass) : task == 1 ? stw_pass_placement_width(pass) : stw_pass_schedule_width(pass);
}

static bool has(const course *c, int32_t task) {
    const stw_policy_config *config = stw_net_config(c->b.net);
    return task == 0 ? c->b.fuses : task == 1 || config->bare == 0;
}

static void open_course(course *c, const stw_policy_config *config, stw_backend *backend) {
    *c = (course){.drafts = config->drafts > 1 ? config->drafts : 1, .K = SAMPLES};
    open_bench(&c->b, config, backend, ROWS, SAMPLES);
    stw_rng rng = stw_rng_create(17);
    for (int32_t d = 0; d < c->drafts; d++) {
        for (int32_t t = 0; t < TASKS; t++) {
            const bool shared = d == 0 && t == (c->b.fuses ? 0 : 1);
            c->size[d][t] = has(c, t) ? (int64_t)(shared ? 1 : SAMPLES) * ROWS * width_of(c, t) : 0;
            c->out[d][t] = STW_NEW(&c->b.arena, double, c->size[d][t] + 1);
            c->weight[d][t] = STW_NEW(&c->b.arena, double, c->size[d][t] + 1);
            c->action[d][t] = STW_NEW(&c->b.arena, double, SAMPLES *ROWS);
            for (int64_t k = 0; k < c->size[d][t]; k++) c->weight[d][t][k] = stw_rng_normal(&rng);
            for (int32_t k = 0; k < SAMPLES * ROWS; k++) c->action[d][t][k] = (double)stw_rng_below(&rng, DEVICES);
        }
    }
}

static double run(course *c) {
    stw_pass *pass = c->b.pass;
    stw_error error = {0};
    double loss = 0.0;
    for (int32_t d = 0; d < c->drafts; d++) {
        const int32_t first = c->b.fuses ? 0 : 1;
        if (d > 0) {
            CHECK(stw_pass_next_draft(pass, c->K, c->action[d - 1][2], c->out[d][first], &error) == STW_OK);
        } else {
            CHECK((first == 0 ? stw_pass_fusion(pass, c->out[d][0], &error) : stw_pass_placement(pass, c->out[d][1], &error)) ==
                  STW_OK);
        }
        if (first == 0) CHECK(stw_pass_place(pass, c->K, c->action[d][0], c->out[d][1], &error) == STW_OK);
        if (has(c, 2)) CHECK(stw_pass_schedule(pass, c->K, c->action[d][1], c->out[d][2], &error) == STW_OK);
        for (int32_t t = 0; t < TASKS; t++)
            for (int64_t k = 0; k < c->size[d][t]; k++) loss += c->weight[d][t][k] * c->out[d][t][k];
    }
    CHECK_STR(error.message, "");
    return loss;
}

static void back(course *c) {
    stw_net_gradient of_draft[STW_MOST_DRAFTS] = {{NULL, NULL, NULL}};
    for (int32_t d = 0; d < c->drafts; d++)
        of_draft[d] =
            (stw_net_gradient){c->b.fuses ? c->weight[d][0] : NULL, c->weight[d][1], has(c, 2) ? c->weight[d][2] : NULL};
    stw_parameters_zero_gradient(stw_net_parameters(c->b.net));
    CHECK(stw_pass_backward(c->b.pass, of_draft, NULL) == STW_OK);
}

/* Some entries of every parameter; see check_gradients in bench.h. */
static void check_slopes(stw_policy_config config, bool devices_see_bias) {
    course c;
    open_course(&c, &config, oracle());
    const stw_parameters *p = stw_net_parameters(c.b.net);
    run(&c);
    back(&c);
    for (int32_t i = 0; i < p->count; i++) {
        double *value = stw_parameter_value(p, i), worst = 0.0, size = 0.0;
        const double *gradient = stw_parameter_gradient(p, i);
        const int32_t count = p->entry[i].rows * p->entry[i].cols;
        for (int32_t k = 0; k < count; k += 1 + count / 16) {
            const double before = value[k], by = 1e-6;
            value[k] = before + by;
            const double above = run(&c);
            value[k] = before - by;
            const double below = run(&c), slope = (above - below) / (2.0 * by);
            value[k] = before;
            worst = fmax(worst, fabs(slope - gradient[k]));
            size = fmax(size, fabs(slope));
        }
        test_context("%s", p->entry[i].name);
        CHECK_NEAR(worst, 0.0, 3e-7 * (1.0 + size));
        const bool counts = strcmp(p->entry[i].name, "operator.table") != 0 &&
                            (devices_see_bias || strcmp(p->entry[i].name, "head.device.1.bias") != 0);
        if (counts) CHECK(size > 1e-4);
    }
    close_bench(&c.b);
}

TEST(drafts, gradients_of_placement_and_schedule) { check_slopes(config_of(false, 3, 16), true); }
TEST(drafts, gradients_of_all_tasks) { check_slopes(config_of(true, 3, 16), true); }
TEST(drafts, gradients_of_gdp) { check_slopes(gdp(16), false); }

/* What follows the first task of all, for samples `first` and on. */
static void run_batch(course *c, int32_t first, int32_t count) {
    stw_pass *pass = c->b.pass;
    const int64_t at = (int64_t)first * ROWS;
    const int32_t begins = c->b.fuses ? 0 : 1;
    stw_pass_rewind(pass);
    for (int32_t d = 0; d < c->drafts; d++) {
        double *out[TASKS];
        for (int32_t t = 0; t < TASKS; t++) out[t] = c->out[d][t] + (d == 0 && t == begins ? 0 : at * width_of(c, t));
        if (d > 0) CHECK(stw_pass_next_draft(pass, count, c->action[d - 1][2] + at, out[begins], NULL) == STW_OK);
        if (begins == 0) CHECK(stw_pass_place(pass, count, c->action[d][0] + at, out[1], NULL) == STW_OK);
        if (has(c, 2)) CHECK(stw_pass_schedule(pass, count, c->action[d][1] + at, out[2], NULL) == STW_OK);
    }
}

static void back_in_batches(course *c, int32_t most) {
    const int32_t begins = c->b.fuses ? 0 : 1;
    stw_net_gradient of_draft[STW_MOST_DRAFTS] = {{NULL, NULL, NULL}};
    stw_parameters_zero_gradient(stw_net_parameters(c->b.net));
    CHECK(stw_pass_begin_backward(c->b.pass, NULL) == STW_OK);
    for (int32_t first = 0; first < SAMPLES; first += most) {
        run_batch(c, first, SAMPLES - first < most ? SAMPLES - first : most);
        for (int32_t d = 0; d < c->drafts; d++) {
            const double *weight[TASKS] = {NULL};
            for (int32_t t = 0; t < TASKS; t++)
                if (has(c, t)) weight[t] = c->weight[d][t] + (d == 0 && t == begins ? 0 : first * ROWS * width_of(c, t));
            of_draft[d] = (stw_net_gradient){weight[0], weight[1], weight[2]};
        }
        CHECK(stw_pass_add_backward(c->b.pass, of_draft, NULL) == STW_OK);
    }
    CHECK(stw_pass_end_backward(c->b.pass, of_draft, NULL) == STW_OK);
}

/* The same gradient, but for the order of its sums. */
static void check_batches(stw_policy_config config) {
    course c;
    open_course(&c, &config, oracle());
    const stw_parameters *p = stw_net_parameters(c.b.net);
    double *whole = STW_NEW(&c.b.arena, double, p->total);
    run(&c);
    back(&c);
    for (int64_t k = 0; k < p->total; k++) whole[k] = ((const double *)stw_parameter_gradient(p, 0))[k];
    for (int32_t most = 1; most <= SAMPLES; most++) {
        test_context("%d samples at a time", most);
        double worst = 0.0, size = 0.0;
        back_in_batches(&c, most);
        for (int64_t k = 0; k < p->total; k++) {
            worst = fmax(worst, fabs(((const double *)stw_parameter_gradient(p, 0))[k] - whole[k]));
            size = fmax(size, fabs(whole[k]));
        }
        CHECK(size > 1.0);
        CHECK_NEAR(worst, 0.0, 1e-12 * size);
    }
    test_context("%s", "");
    close_bench(&c.b);
}

TEST(drafts, batches_of_placement_and_schedule) { check_batches(config_of(false, 3, 4)); }
TEST(drafts, batches_of_all_tasks) { check_batches(config_of(true, 3, 4)); }
TEST(drafts, batches_of_one_draft) { check_batches(config_of(true, 0, 4)); }
TEST(drafts, batches_of_gdp) { check_batches(gdp(4)); }

TEST(drafts, gradients_of_modulation_by_row) {
    stw_policy_config c = example_config(false, 16);
    c.modulation = STW_MODULATION_ROW;
    check_gradients(c);
    c.sage_layers = 0; /* then the gates are of the input */
    check_gradients(c);
}

/* A sample comes out as if it were alone, in every draft. */
TEST(drafts, samples_are_independent) {
    const stw_policy_config config = config_of(true, 3, 4);
    course all, one;
    open_course(&all, &config, oracle());
    open_course(&one, &config, oracle());
    run(&all);
    one.K = 1;
    for (int32_t k = 0; k < SAMPLES; k++) {
        for (int32_t d = 0; d < DRAFTS; d++)
            for (int32_t t = 0; t < TASKS; t++) one.action[d][t] = all.action[d][t] + k * ROWS;
        run(&one);
        for (int32_t d = 0; d < DRAFTS; d++) {
            for (int32_t t = 0; t < TASKS; t++) {
                const int64_t each = ROWS * width_of(&all, t), at = d == 0 && t == 0 ? 0 : k * each;
                test_context("sample %d, draft %d, task %d", (int)k, (int)d, (int)t);
                CHECK(memcmp(one.out[d][t], all.out[d][t] + at, (size_t)each * sizeof(double)) == 0);
            }
        }
    }
    close_bench(&one.b);
    close_bench(&all.b);
}

/* What one draft decides changes the next, and none before. */
TEST(drafts, know_the_one_before) {
    const stw_policy_config config = config_of(false, 3, 4);
    course c;
    open_course(&c, &config, oracle());
    run(&c);
    double *before[DRAFTS];
    const size_t bytes = (size_t)(SAMPLES * ROWS * DEVICES) * sizeof(double);
    for (int32_t d = 0; d < DRAFTS; d++) {
        before[d] = STW_NEW(&c.b.arena, double, SAMPLES *ROWS *DEVICES);
        memcpy(before[d], c.out[d][1], d == 0 ? bytes / SAMPLES : bytes);
    }
    c.action[1][2][3] = c.action[1][2][3] == 0.0 ? 1.0 : 0.0; /* of sample 0, in the second draft's schedule */
    run(&c);
    CHECK(memcmp(before[0], c.out[0][1], bytes / SAMPLES) == 0);
    CHECK(memcmp(before[1], c.out[1][1], bytes) == 0);
    CHECK(memcmp(before[2], c.out[2][1], bytes / SAMPLES) != 0);
    CHECK(memcmp((char *)before[2] + bytes / SAMPLES, (char *)c.out[2][1] + bytes / SAMPLES, 2 * (bytes / SAMPLES)) == 0);
    close_bench(&c.b);
}

/* Like devices get like scores unless they have names. */
TEST(drafts, names_tell_like_devices_apart) {
    for (int32_t names = 0; names <= NAMES; names += NAMES) {
        stw_policy_config config = gdp(4);
        config.device_names = names;
        bench b;
        double out[ROWS * DEVICES], like[DEVICES * 3] = {0.5, -1.0, 2.0, 0.5, -1.0, 2.0, 0.5, -1.0, 2.0};
        open_bench(&b, &config, oracle(), ROWS, 1);
        stw_net_input input = b.e.input;
        input.device = like;
        CHECK(stw_pass_set_input(b.pass, &input, NULL) == STW_OK && stw_pass_placement(b.pass, out, NULL) == STW_OK);
        test_context("%d names", (int)names);
        for (int32_t k = 0; k < ROWS * DEVICES && names == 0; k++) CHECK_NEAR(out[k], -log(DEVICES), 1e-12);
        CHECK(names == 0 || fabs(out[0] - out[1]) > 1e-3);
        close_bench(&b);
    }
    test_context("%s", "");
}

/* Threads change no bit. */
TEST(drafts, same_bits) {
    stw_policy_config config = config_of(true, 3, 16);
    double *first = NULL;
    for (int32_t threads = 1; threads <= 3; threads++) {
        stw_pool *pool = NULL;
        CHECK(stw_pool_create(threads, &pool, NULL) == STW_OK);
        course c;
        open_course(&c, &config, cpu(pool));
        const stw_parameters *p = stw_net_parameters(c.b.net);
        run(&c);
        back(&c);
        double *all = calloc((size_t)p->total, sizeof *all);
        stw_reals_out(c.b.backend, all, p->gradient, p->total, c.b.arena);
        if (first == NULL) {
            first = all;
        } else {
            CHECK(memcmp(first, all, (size_t)p->total * sizeof *all) == 0);
            free(all);
        }
        close_bench(&c.b);
        stw_pool_destroy(pool);
    }
    free(first);
}

static void refused(stw_policy_config c, const char *part) {
    stw_error error = {0};
    CHECK(stw_policy_config_check(&c, &error) == STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, part);
}

TEST(drafts, refuses_what_does_not_go_together) {
    stw_policy_config c = example_config(false, 4);
    c.drafts = 2;
    refused(c, "2 drafts need heads that choose");
    c = config_of(true, 0, 4);
    c.bare = 1;
    refused(c, "decides the placement alone");
    c = config_of(false, 5, 4);
    refused(c, "drafts is 5; it must be 0 to 4");

    const stw_policy_config two = config_of(false, 2, 4), bare = gdp(4);
    course k;
    stw_error error = {0};
    open_course(&k, &two, cpu(NULL));
    CHECK(stw_pass_next_draft(k.b.pass, 1, k.action[0][2], k.out[1][1], &error) == STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "run the first one first");
    run(&k);
    CHECK(stw_pass_next_draft(k.b.pass, SAMPLES, k.action[1][2], k.out[1][1], &error) == STW_ERROR_INPUT);
    CHECK_STR(error.message, "this network makes 2 drafts");
    CHECK(stw_pass_placement(k.b.pass, k.out[0][1], NULL) == STW_OK);
    CHECK(stw_pass_schedule(k.b.pass, SAMPLES, k.action[0][1], k.out[0][2], NULL) == STW_OK);
    CHECK(stw_pass_next_draft(k.b.pass, 1, k.action[0][2], k.out[1][1], &error) == STW_ERROR_INPUT);
    CHECK_STR(error.message, "1 samples to decide again, but 3 were decided");
    k.action[0][2][5] = CLASSES;
    CHECK(stw_pass_next_draft(k.b.pass, SAMPLES, k.action[0][2], k.out[1][1], &error) == STW_ERROR_INPUT);
    CHECK_STR(error.message, "sample 0, row 5: class 3; there are 3");
    close_bench(&k.b);

    bench b;
    double out[ROWS * DEVICES], action[ROWS] = {0};
    open_bench(&b, &bare, cpu(NULL), ROWS, 1);
    CHECK(stw_pass_placement(b.pass, out, NULL) == STW_OK);
    CHECK(stw_pass_schedule(b.pass, 1, action, out, &error) == STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "does not schedule");
    stw_net_input input = b.e.input;
    input.D = NAMES + 1;
    CHECK(stw_pass_set_input(b.pass, &input, &error) == STW_ERROR_INPUT);
    CHECK_STR(error.message, "6 devices; this policy has names for 5; --device-names no learns one without");
    close_bench(&b);
}
