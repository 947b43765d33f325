/* policy/: the whole network's gradients against differences of its loss, and what callers may rely on. */
#include <math.h>
#include <string.h>

#include "policy/bench.h"
#include "support/look.h"

TEST(network, gradients_of_steer_and_nudge) { check_gradients(example_config(false, 16)); }
TEST(network, gradients_of_device_and_class) { check_gradients(example_config(true, 16)); }

TEST(network, gradients_of_mixed_heads) {
    stw_policy_config c = example_config(false, 16);
    c.schedule = STW_SCHEDULE_CLASS;
    c.classes = 4;
    check_gradients(c);
    c = example_config(true, 16);
    c.schedule = STW_SCHEDULE_NUDGE;
    c.pair_columns = 2; /* pairs and devices at once */
    c.pair_width = 3;
    check_gradients(c);
}

TEST(network, gradients_without_stages) {
    stw_policy_config c = example_config(false, 16);
    c.sage_layers = 0;
    c.modulation = 0;
    check_gradients(c);
    c.attention_layers = 0;
    c.feedback_columns = c.pair_columns = c.pair_width = 0;
    check_gradients(c);
}

/* Rows with a vector of their own; without a stage between, these are what the second head of placement sees. */
TEST(network, gradients_with_identities) {
    for (int32_t device = 0; device < 2; device++) {
        stw_policy_config c = example_config(device == 1, 16);
        c.identities = 9;
        check_gradients(c);
        c.sage_layers = c.attention_layers = 0;
        c.feedback_columns = c.pair_columns = c.pair_width = 0;
        check_gradients(c);
    }
}

/* What the round proposes is one more piece of the input, whatever the others are. */
TEST(network, gradients_with_proposals) {
    for (int32_t device = 0; device < 2; device++) {
        stw_policy_config c = example_config(device == 1, 16);
        c.proposal_columns = 5;
        check_gradients(c);
        c.identities = 9;
        c.sage_layers = c.attention_layers = 0;
        c.feedback_columns = c.pair_columns = c.pair_width = 0;
        check_gradients(c);
    }
}

/* The gradient of each task alone adds up to that of both. */
static void check_tasks_add_up(bool device) {
    stw_policy_config c = example_config(device, 4);
    c.identities = device ? 0 : 11;
    bench b;
    open_bench(&b, &c, oracle(), 11, 3);
    stw_parameters *p = stw_net_parameters(b.net);
    loss_of(&b);
    double *both = example_normal(&(stw_rng){{1, 2, 3, 4}}, p->total);
    stw_parameters_zero_gradient(p);
    CHECK(back_through(b.pass, NULL, b.weight[0], b.weight[1], NULL) == STW_OK);
    memcpy(both, p->gradient, (size_t)p->total * sizeof *both);
    stw_parameters_zero_gradient(p);
    CHECK(back_through(b.pass, NULL, b.weight[0], NULL, NULL) == STW_OK);
    CHECK(back_through(b.pass, NULL, NULL, b.weight[1], NULL) == STW_OK);
    double worst = 0.0;
    for (int64_t i = 0; i < p->total; i++) worst = fmax(worst, fabs(both[i] - ((double *)p->gradient)[i]));
    CHECK_NEAR(worst, 0.0, 1e-11);
    free(both);
    close_bench(&b);
}

TEST(network, tasks_add_up_steer) { check_tasks_add_up(false); }
TEST(network, tasks_add_up_device) { check_tasks_add_up(true); }

/* A second backward pass adds as much again, to every parameter. */
TEST(network, gradients_are_added) {
    for (int32_t device = 0; device < 2; device++) {
        stw_policy_config c = example_config(device == 1, 4);
        c.identities = 11;
        bench b;
        open_bench(&b, &c, oracle(), 11, 3);
        const stw_parameters *p = stw_net_parameters(b.net);
        loss_of(&b);
        back_of(&b);
        double *once = STW_NEW(&b.arena, double, p->total), worst = 0.0;
        memcpy(once, p->gradient, (size_t)p->total * sizeof *once);
        CHECK(back_through(b.pass, NULL, b.weight[0], b.weight[1], NULL) == STW_OK);
        for (int64_t i = 0; i < p->total; i++) worst = fmax(worst, fabs(2.0 * once[i] - ((double *)p->gradient)[i]));
        CHECK_NEAR(worst, 0.0, 1e-11);
        close_bench(&b);
    }
}

/* Samples do not see each other: each comes out as if it were alone. */
TEST(network, samples_are_independent) {
    const stw_policy_config c = example_config(false, 4);
    bench b;
    open_bench(&b, &c, oracle(), 11, 3);
    loss_of(&b);
    for (int32_t k = 0; k < 3; k++) {
        double alone[11];
        CHECK(stw_pass_schedule(b.pass, 1, b.e.action + k * 11 * STW_STEER_KNOBS, alone, NULL) == STW_OK);
        CHECK(memcmp(alone, b.out[1] + k * 11, sizeof alone) == 0);
    }
    close_bench(&b);
}

/* Modulation starts as the identity: without it, the same numbers. */
TEST(network, starts_without_modulation) {
    stw_policy_config c = example_config(false, 4);
    double out[2][11 * STW_STEER_KNOBS];
    for (int32_t modulation = 0; modulation < 2; modulation++) {
        c.modulation = modulation;
        example e = example_make(&c, 11, 3, 1, 7);
        stw_backend *backend = oracle();
        stw_net *net = NULL;
        stw_pass *pass = NULL;
        CHECK(stw_net_create(&c, backend, 3, &net, NULL) == STW_OK && stw_pass_create(net, &pass, NULL) == STW_OK);
        CHECK(stw_pass_set_input(pass, &e.input, NULL) == STW_OK);
        CHECK(stw_pass_placement(pass, out[modulation], NULL) == STW_OK);
        stw_pass_destroy(pass);
        stw_net_destroy(net);
        stw_backend_destroy(backend);
        example_free(&e);
    }
    CHECK(memcmp(out[0], out[1], sizeof out[0]) == 0);
    CHECK(out[0][0] != out[0][STW_STEER_KNOBS]); /* rows differ */
}

/* Gradients and both outputs of one run, as doubles; the caller frees. */
static double *run_once(bench *b, int64_t *count) {
    stw_parameters *p = stw_net_parameters(b->net);
    *count = p->total + b->size[0] + b->size[1];
    double *all = calloc((size_t)*count, sizeof *all);
    loss_of(b);
    stw_parameters_zero_gradient(p);
    CHECK(back_through(b->pass, NULL, b->weight[0], b->weight[1], NULL) == STW_OK);
    stw_reals_out(b->backend, all, p->gradient, p->total, b->arena);
    memcpy(all + p->total, b->out[0], (size_t)b->size[0] * sizeof *all);
    memcpy(all + p->total + b->size[0], b->out[1], (size_t)b->size[1] * sizeof *all);
    return all;
}

/* Passes may be repeated, and threads change no bit. */
static void check_same_bits(bool device) {
    stw_policy_config c = example_config(device, 16);
    c.width = 32;
    c.identities = device ? 0 : 300;
    double *first = NULL;
    for (int32_t threads = 0; threads <= 2; threads++) { /* 0: no pool */
        stw_pool *pool = NULL;
        if (threads > 0) CHECK(stw_pool_create(threads, &pool, NULL) == STW_OK);
        bench b;
        open_bench(&b, &c, cpu(pool), 300, 4);
        for (int32_t repeat = 0; repeat < 2; repeat++) {
            int64_t count = 0;
            double *all = run_once(&b, &count);
            test_context("%d threads, repeat %d", threads, repeat);
            if (first == NULL) {
                first = all;
                continue;
            }
            CHECK(memcmp(first, all, (size_t)count * sizeof *all) == 0);
            free(all);
        }
        close_bench(&b);
        stw_pool_destroy(pool);
    }
    free(first);
}

TEST(network, same_bits_steer) { check_same_bits(false); }
TEST(network, same_bits_device) { check_same_bits(true); }

/* Feedback, pairs and proposals that are not given are zeros. */
TEST(network, absent_features_are_zeros) {
    stw_policy_config c = example_config(false, 4);
    c.proposal_columns = 5;
    bench b;
    open_bench(&b, &c, cpu(NULL), 11, 1);
    double *zeros = calloc(200, sizeof *zeros), with[11 * STW_STEER_KNOBS], without[11 * STW_STEER_KNOBS];
    stw_net_input input = b.e.input;
    input.feedback = input.pair = input.proposal = zeros;
    CHECK(stw_pass_set_input(b.pass, &input, NULL) == STW_OK && stw_pass_placement(b.pass, with, NULL) == STW_OK);
    CHECK(stw_pass_set_input(b.pass, &b.e.input, NULL) == STW_OK && stw_pass_placement(b.pass, without, NULL) == STW_OK);
    CHECK(memcmp(with, without, sizeof with) != 0);
    input.feedback = input.pair = input.proposal = NULL;
    CHECK(stw_pass_set_input(b.pass, &input, NULL) == STW_OK && stw_pass_placement(b.pass, without, NULL) == STW_OK);
    CHECK(memcmp(with, without, sizeof with) == 0);
    input.proposal = b.e.proposal; /* the proposal alone counts too */
    CHECK(stw_pass_set_input(b.pass, &input, NULL) == STW_OK && stw_pass_placement(b.pass, without, NULL) == STW_OK);
    CHECK(memcmp(with, without, sizeof with) != 0);
    free(zeros);
    close_bench(&b);
}

static void refused_input(stw_pass *pass, stw_net_input input, const char *part) {
    stw_error error = {0};
    CHECK(stw_pass_set_input(pass, &input, &error) == STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, part);
}

TEST(network, refuses_wrong_input) {
    const stw_policy_config c = example_config(true, 4);
    bench b;
    open_bench(&b, &c, cpu(NULL), 11, 1);
    stw_net_input input = b.e.input;
    double out[11 * STW_STEER_KNOBS] = {0};
    stw_error error = {0};
    CHECK(stw_pass_schedule(b.pass, 1, b.e.action, out, &error) == STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "stw_pass_placement first");
    CHECK(back_through(b.pass, NULL, out, NULL, &error) == STW_ERROR_INPUT);
    CHECK(stw_pass_placement(b.pass, out, NULL) == STW_OK);
    CHECK(back_through(b.pass, NULL, out, out, &error) == STW_ERROR_INPUT); /* nothing scheduled yet */
    double action[11] = {0};
    action[10] = 3.0;
    CHECK(stw_pass_schedule(b.pass, 1, action, out, &error) == STW_ERROR_INPUT);
    CHECK_STR(error.message, "sample 0, row 10: device 3; there are 3");
    action[10] = NAN;
    CHECK(stw_pass_schedule(b.pass, 1, action, out, &error) == STW_ERROR_INPUT);
    CHECK(stw_pass_schedule(b.pass, 0, action, out, &error) == STW_ERROR_INPUT);

    int32_t operator_[11] = {[4] = 5}, item[64] = {0};
    input.operator_ = operator_;
    refused_input(b.pass, input, "row 4 has operator 5; the network knows 0 to 4");
    input = b.e.input;
    item[0] = 11;
    input.producer = item;
    refused_input(b.pass, input, "include 11; rows are 0 to 10");
    input = b.e.input;
    input.device = NULL;
    refused_input(b.pass, input, "lacks its features");
    input = b.e.input;
    input.M = 0;
    refused_input(b.pass, input, "0 rows");
    close_bench(&b);
}

/* What a producer named twice adds is counted once. */
TEST(network, a_neighbour_named_twice_counts_once) {
    const stw_policy_config c = example_config(false, 4);
    bench b;
    open_bench(&b, &c, oracle(), 4, 1);
    const int32_t start[] = {0, 0, 1, 2, 3}, item[] = {0, 1, 1}, twice_start[] = {0, 0, 2, 4, 5}, twice[] = {0, 0, 1, 1, 1};
    stw_parameters *p = stw_net_parameters(b.net);
    double *once = example_normal(&(stw_rng){{1, 2, 3, 4}}, p->total);
    for (int32_t round = 0; round < 2; round++) {
        stw_net_input input = b.e.input;
        input.producer_start = round == 0 ? start : twice_start;
        input.producer = round == 0 ? item : twice;
        CHECK(stw_pass_set_input(b.pass, &input, NULL) == STW_OK);
        loss_of(&b);
        stw_parameters_zero_gradient(p);
        CHECK(back_through(b.pass, NULL, b.weight[0], b.weight[1], NULL) == STW_OK);
        if (round == 0) memcpy(once, p->gradient, (size_t)p->total * sizeof *once);
    }
    CHECK(memcmp(once, p->gradient, (size_t)p->total * sizeof *once) == 0);
    free(once);
    close_bench(&b);
}

TEST(network, looks) {
    const stw_policy_config c = example_config(false, 4);
    bench b;
    open_bench(&b, &c, cpu(NULL), 11, 2);
    int32_t rows = 0, cols = 0;
    CHECK(!stw_pass_look(b.pass, "input", &rows, &cols, NULL, b.arena)); /* nothing was run */
    loss_of(&b);
    CHECK(stw_pass_look(b.pass, "graph", &rows, &cols, NULL, b.arena) && rows == 1 && cols == 8);
    CHECK(stw_pass_look(b.pass, "schedule.hidden", &rows, &cols, NULL, b.arena) && rows == 22 && cols == 8);
    CHECK(!stw_pass_look(b.pass, "sage.2", &rows, &cols, NULL, b.arena));
    double out[11 * STW_STEER_KNOBS];
    CHECK(stw_pass_look(b.pass, "placement.out", &rows, &cols, out, b.arena) && memcmp(out, b.out[0], sizeof out) == 0);
    CHECK(rows == 11 && cols == STW_STEER_KNOBS);
    CHECK(stw_pass_look(b.pass, "schedule.out", &rows, &cols, out, b.arena));
    CHECK(rows == 22 && cols == 1 && memcmp(out, b.out[1], 22 * sizeof *out) == 0);
    CHECK(stw_pass_look(b.pass, "schedule.raw", &rows, &cols, out, b.arena));
    CHECK(rows == 22 && cols == 1 && memcmp(out, b.out[1], 22 * sizeof *out) != 0);
    CHECK(stw_pass_placement(b.pass, b.out[0], NULL) == STW_OK);
    CHECK(stw_pass_look(b.pass, "placement.raw", &rows, &cols, NULL, b.arena) && rows == 11 && cols == STW_STEER_KNOBS);
    CHECK(!stw_pass_look(b.pass, "schedule.raw", &rows, &cols, NULL, b.arena)); /* nothing scheduled since */
    close_bench(&b);
}

/* What is not spread has no value from before. */
TEST(network, looks_at_log_probabilities) {
    const stw_policy_config c = example_config(true, 4);
    bench b;
    open_bench(&b, &c, cpu(NULL), 11, 1);
    int32_t rows = 0, cols = 0;
    double out[11 * 3];
    loss_of(&b);
    CHECK(!stw_pass_look(b.pass, "placement.raw", &rows, &cols, NULL, b.arena));
    CHECK(!stw_pass_look(b.pass, "schedule.raw", &rows, &cols, NULL, b.arena));
    CHECK(stw_pass_look(b.pass, "placement.out", &rows, &cols, out, b.arena) && memcmp(out, b.out[0], sizeof out) == 0);
    CHECK(stw_pass_look(b.pass, "schedule.out", &rows, &cols, out, b.arena) && memcmp(out, b.out[1], sizeof out) == 0);
    close_bench(&b);
}
