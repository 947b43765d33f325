/* Training on graphs small enough that the best the decoder can do is known: the greedy plan gets there, and not without
 * learning. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "train/bench.h"

/* ---- graphs that need opposite knobs ---- */

/* `width` ops of about 100 us read one value of `in` bytes and write `out` bytes each, which one op reads. Sent at a microsecond
 * per byte, a branch that leaves the device of the others is there after `in`, so with an aversion below (100 - in) / in it
 * does. If `out` is small that is right, if it is large it is not: the list scheduler does not look that far. */
static int32_t add_fork(sketch *k, int32_t value, int32_t width, int32_t out, int32_t next_in) {
    char inputs[64] = "";
    for (int32_t w = 0; w < width; w++) {
        const int32_t id = sketch_op(k, out, 99.0 + width - w, "%d", value);
        snprintf(inputs + strlen(inputs), sizeof inputs - strlen(inputs), w > 0 ? ",%d" : "%d", id);
    }
    return sketch_op(k, next_in, 10.0, "%s", inputs);
}

typedef struct design {
    int32_t width;           /* of the forks, and the number of devices */
    int32_t in_bad, in_good; /* bytes that a branch needs where leaving is bad, where it is good */
} design;

/* Two devices: leaving is bad below exp(0.49) and would be good below exp(-0.20). With three, the third branch leaves a full
 * device earlier. In both, no aversion serves all forks. */
static const design designs[] = {{2, 38, 55}, {3, 90, 55}};
enum { DESIGNS = sizeof designs / sizeof designs[0], FORKS = 4 };

static small *open_design(const design *d) {
    sketch *k = sketch_begin();
    int32_t value = sketch_op(k, d->in_bad, 10.0, "%s", "");
    for (int32_t f = 0; f < FORKS; f++)
        value = f % 2 == 0 ? add_fork(k, value, d->width, 300, d->in_good) : add_fork(k, value, d->width, 5, d->in_bad);
    return sketch_end(k, d->width, NULL);
}

/* ---- the best that the decoder can do ---- */

static double step_of(bench *b, const stw_round *round, const double *action) {
    steer(b, round, action);
    return b->s->result.step_s;
}

/* All ways in which branches can be eager or loath to leave (a fork's join and the first op have nothing to gain), and as many
 * random knobs of all units. */
static double search(bench *b) {
    const stw_graph *graph = b->s->graph;
    const int32_t M = b->problem.M;
    stw_round round = round_of(b, NULL);
    stw_rng rng = stw_rng_create(1);
    double *action = constant_knobs(b, 1.0, -4.0, 0.0), best = INFINITY;
    int32_t branch[32], count = 0;
    round.home = STW_HOME_FIRST;
    for (int32_t u = 0; u < M; u++) {
        const int32_t op = b->problem.units.member[b->problem.units.start[u]];
        if (graph->input_start[op + 1] - graph->input_start[op] == 1) branch[count++] = u;
    }
    CHECK(count == FORKS * b->s->machine->device_count && count <= 12);
    for (int32_t choice = 0; choice < 1 << count; choice++) {
        for (int32_t k = 0; k < count; k++) action[branch[k] * STW_STEER_KNOBS] = choice >> k & 1 ? 1.0 : -2.0;
        best = fmin(best, step_of(b, &round, action));
    }
    for (int32_t draw = 0; draw < 1 << count; draw++) {
        for (int32_t k = 0; k < M * STW_STEER_KNOBS; k++)
            action[k] = (9.0 * stw_rng_uniform(&rng) - 4.0) / stw_knob_scale[k % STW_STEER_KNOBS];
        best = fmin(best, step_of(b, &round, action));
    }
    return best;
}

static double best_constant(bench *b) {
    stw_round round = round_of(b, NULL);
    double best = INFINITY;
    round.home = STW_HOME_FIRST;
    for (double a0 = -4.0; a0 <= 5.0; a0 += 0.25) {
        for (double a1 = -4.0; a1 <= 8.0; a1 += 2.0) {
            stw_arena before = b->arena;
            best = fmin(best, step_of(b, &round, constant_knobs(b, a0, a1, 0.0)));
            b->arena = before;
        }
    }
    return best;
}

/* ---- tests ---- */

enum { UPDATES = 120 };

static double greedy_after(bench *b, uint64_t seed, int64_t updates, double rate) {
    const stw_policy_config config = config_of("default");
    stw_train_settings settings = settings_of("default", seed, updates);
    settings.glue = false;
    settings.rate = rate;
    settings.rate_end = 0.1 * rate;
    settings.sigma_end = settings.sigma;
    stw_trainer *trainer = trainer_of(b, &config, &settings, NULL);
    train(trainer);
    CHECK_EQ_INT(stw_trainer_updates(trainer), updates);
    const double step_s = greedy_s(b, trainer);
    stw_trainer_destroy(trainer);
    return step_s;
}

TEST(learning, greedy_plan_becomes_the_best_that_knobs_can_give) {
    for (int32_t d = 0; d < DESIGNS; d++) {
        bench *b = bench_open(open_design(&designs[d]), 0, BENCH_THREADS);
        const double best = search(b);
        int32_t reached = 0;
        test_context("design %d", d);
        CHECK(best_constant(b) > 1.05 * best); /* what is the same for all units does not suffice */
        for (uint64_t seed = 1; seed <= 5; seed++) {
            reached += greedy_after(b, seed, UPDATES, 1e-2) <= 1.02 * best;
            CHECK(greedy_after(b, seed, seed == 1 ? UPDATES : 1, 0.0) > 1.02 * best); /* without learning all updates are alike */
        }
        CHECK(reached >= 4);
        bench_close(b);
    }
    test_context("%s", "");
}

/* The row of every update, and the greedy plan at the end. */
static double record(small *s, int32_t threads, stw_curve_row *row, int32_t updates) {
    bench *b = bench_open(s, 0, threads);
    const stw_policy_config config = config_of("default");
    stw_train_settings settings = settings_of("default", 5, updates);
    stw_error error = {0};
    bool over = false;
    b->problem.schedules = true;
    b->problem.rule = -1;
    settings.patience = 3; /* some rounds are among them */
    stw_trainer *trainer = trainer_of(b, &config, &settings, NULL);
    for (int32_t k = 0; k < updates; k++) {
        CHECK_EQ_INT(stw_trainer_step(trainer, &over, &error), STW_OK);
        CHECK(!over);
        row[k] = *stw_trainer_last_row(trainer);
        row[k].seconds = 0.0;
    }
    const double step_s = greedy_s(b, trainer);
    stw_trainer_destroy(trainer);
    bench_close(b);
    return step_s;
}

TEST(learning, threads_do_not_change_a_bit) {
    enum { ROWS = 12 };
    stw_curve_row row[2][ROWS];
    double step_s[2];
    memset(row, 0, sizeof row);
    for (int k = 0; k < 2; k++) {
        stw_rng rng = stw_rng_create(12);
        step_s[k] = record(random_open(&rng, (random_shape){.nodes = 90, .device_count = 3}), k + 1, row[k], ROWS);
    }
    for (int u = 0; u < ROWS; u++) {
        const stw_curve_row *a = &row[0][u], *c = &row[1][u];
        test_context("update %d", u);
        CHECK_EQ_INT(a->update, c->update);
        CHECK_EQ_INT(a->evaluations, c->evaluations);
        CHECK_EQ_INT(a->round, c->round);
        const double x[] = {a->greedy, a->mean,          a->best,    a->valid, a->entropy, a->sigma,
                            a->rate,   a->gradient_norm, a->clipped, a->loss,  a->spread};
        const double y[] = {c->greedy, c->mean,          c->best,    c->valid, c->entropy, c->sigma,
                            c->rate,   c->gradient_norm, c->clipped, c->loss,  c->spread};
        CHECK(memcmp(x, y, sizeof x) == 0);
        CHECK(isfinite(a->loss) && a->gradient_norm > 0.0);
    }
    test_context("%s", "");
    CHECK(row[0][ROWS - 1].round > 0);
    CHECK(memcmp(&step_s[0], &step_s[1], sizeof step_s[0]) == 0);
}
