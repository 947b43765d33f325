/* policy/pass.c: samples without a gradient change nothing, wherever they are. */
#include "policy/bench.h"
#include "support/look.h"
#include "support/reference_backend.h"

/* The gradient of all parameters after a pass of K samples and one backward pass, as doubles. */
static double *gradient_of(bench *b, int32_t K, const double *d_schedule) {
    stw_parameters *p = stw_net_parameters(b->net);
    CHECK(stw_pass_placement(b->pass, b->out[0], NULL) == STW_OK);
    CHECK(stw_pass_schedule(b->pass, K, b->e.action, b->out[1], NULL) == STW_OK);
    stw_parameters_zero_gradient(p);
    CHECK(back_through(b->pass, NULL, b->weight[0], d_schedule, NULL) == STW_OK);
    double *out = STW_NEW(&b->arena, double, p->total);
    stw_reals_out(p->backend, out, p->gradient, p->total, b->arena);
    return out;
}

static void check_samples(bool device) {
    enum { ROWS = 9, SAMPLES = 3 };
    stw_policy_config c = example_config(device, 4);
    c.identities = device ? 0 : ROWS;
    stw_backend *backend = NULL;
    CHECK(stw_backend_reference(8, &backend, NULL) == STW_OK);
    bench b;
    open_bench(&b, &c, backend, ROWS, SAMPLES);
    const stw_parameters *p = stw_net_parameters(b.net);
    const int64_t bytes = p->total * (int64_t)sizeof(double), each = b.size[1] / SAMPLES;
    double *d = STW_NEW(&b.arena, double, b.size[1]);
    /* The last sample has none: as if it were not there. */
    memcpy(d, b.weight[1], (size_t)(2 * each) * sizeof *d);
    const double *all = gradient_of(&b, SAMPLES, d), *fewer = gradient_of(&b, SAMPLES - 1, d);
    CHECK(memcmp(all, fewer, (size_t)bytes) == 0);
    /* No sample has one: as if no gradient were given; and the pass still knows its samples. */
    memset(d, 0, (size_t)b.size[1] * sizeof *d);
    const double *none = gradient_of(&b, SAMPLES, d), *without = gradient_of(&b, SAMPLES, NULL);
    CHECK(memcmp(none, without, (size_t)bytes) == 0);
    CHECK(memcmp(none, all, (size_t)bytes) != 0);
    int32_t rows = 0, cols = 0;
    CHECK(stw_pass_look(b.pass, "schedule.hidden", &rows, &cols, NULL, b.arena));
    CHECK_EQ_INT(rows, SAMPLES * ROWS);
    /* The first has none, the last has: all go back. */
    memcpy(d + 2 * each, b.weight[1] + 2 * each, (size_t)each * sizeof *d);
    const double *last = gradient_of(&b, SAMPLES, d);
    CHECK(memcmp(last, none, (size_t)bytes) != 0);
    close_bench(&b);
}

TEST(samples, without_gradient_of_steer_and_nudge) { check_samples(false); }
TEST(samples, without_gradient_of_device_and_class) { check_samples(true); }
