/* Does a plan stay ahead when costs are off by what is known of them? */
#include <math.h>
#include <stdlib.h>

#include "plan/fuse.h"
#include "whole_search.h"

static stw_noise noise_of(const small *s, const stw_plan *best, const stw_plan *standard) {
    stw_settings settings;
    stw_runner *runner;
    stw_result *result = calloc(1, sizeof *result);
    CHECK_EQ_INT(stw_settings_read(NULL, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE, &settings, NULL), STW_OK);
    settings.threads = 2;
    CHECK_EQ_INT(stw_runner_create(s->simulator, &settings, NULL, &runner, NULL), STW_OK);
    CHECK_EQ_INT(stw_runner_try_noise(runner, best, standard, result, NULL), STW_OK);
    CHECK_EQ_INT(result->noise.draws, 32);
    const stw_noise noise = result->noise;
    stw_runner_destroy(runner);
    free(result);
    return noise;
}

static int32_t ahead_of(const small *s, const stw_plan *best, const stw_plan *standard) {
    return noise_of(s, best, standard).ahead;
}

static stw_plan *plan_of(const small *s, const char *method) {
    stw_options *options = options_of("evaluations", "100", NULL);
    stw_plan *plan = NULL;
    CHECK_EQ_INT(stw_method_run(method, s->simulator, options, &plan, NULL), STW_OK);
    stw_options_destroy(options);
    return plan;
}

/* Four ops without edges: 20 us on one device, 10 on two. A step of 20.1 us is behind now and then. */
TEST(noise, far_better_plans_stay_ahead) {
    small *s = small_open((small_text){
        .nodes = OP(0, "a", "[]", 9, 5) OP(1, "b", "[]", 9, 5) OP(2, "c", "[]", 9, 5) OP(3, "d", "[]", 9, 5), .device_count = 2});
    stw_plan *one = plan_of(s, "single"), *two = plan_of(s, "heft");
    CHECK_EQ_INT(ahead_of(s, one, one), 32);
    CHECK_EQ_INT(ahead_of(s, two, two), 32);
    CHECK_EQ_INT(ahead_of(s, two, one), 32);
    CHECK_EQ_INT(ahead_of(s, one, two), 0);
    stw_plan_destroy(one);
    stw_plan_destroy(two);
    small_close(s);
}

/* a and b take 5 us each and c 5.2: which two of them share a device matters less than the noise. */
TEST(noise, a_lead_within_the_noise_is_lost_now_and_then) {
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 9, 5) OP(1, "b", "[]", 9, 5) OP(2, "c", "[]", 9, 5.2), .device_count = 2});
    stw_plan *better = plan_of(s, "single"), *worse = plan_of(s, "single");
    memcpy(better->device, (const int32_t[]){0, 0, 1}, 3 * sizeof(int32_t)); /* 10 */
    memcpy(worse->device, (const int32_t[]){0, 1, 1}, 3 * sizeof(int32_t));  /* 10.2 */
    const int32_t count = ahead_of(s, better, worse);
    CHECK(count > 8 && count < 32);
    CHECK_EQ_INT(ahead_of(s, better, worse), count); /* the same draws every time */
    stw_plan_destroy(better);
    stw_plan_destroy(worse);
    small_close(s);
}

/* ---- what is known of the times decides ---- */

/* A chain of `count` ops, each with `more` at its end. */
static small *open_chain(int count, const char *more, const char *devices, int32_t device_count) {
    char *nodes = calloc((size_t)count, 160);
    size_t length = 0;
    for (int i = 0; i < count; i++) {
        char input[16] = "";
        if (i > 0) snprintf(input, sizeof input, "%d", i - 1);
        length += (size_t)snprintf(nodes + length, 160, NODE(% d, "n%d", "relu", "[%s]", 1000000, "%s"), i, i, input, more);
    }
    small *s = small_open((small_text){.nodes = nodes, .devices = devices, .device_count = device_count});
    free(nodes);
    return s;
}

static stw_plan *plan_on(const small *s, int32_t device) {
    stw_plan *plan = plan_of(s, "single");
    for (int32_t i = 0; i < s->graph->N; i++) plan->device[i] = device;
    return plan;
}

#define KIND(name, kind, efficiency)                                                                       \
    "{'name':'" name "','kind':'" kind                                                                     \
    "','memory_bytes':100000000000,'launch_us':1,'bandwidth_bytes_per_s':1e12,'flops_per_s':{'f32':1e13}," \
    "'efficiency':{'elementwise':" #efficiency "}},"

/* Four hundred ops that nobody has measured take 5 % less on one kind of device than on another. Errors of single ops average
 * out, that of the model for a class and kind does not: which device is the better one is not known. */
TEST(noise, errors_of_a_class_do_not_average_out) {
    small *s = open_chain(400, "", KIND("d0", "one", 0.5) KIND("d1", "other", 0.45), 2);
    stw_plan *better = plan_on(s, 0), *worse = plan_on(s, 1);
    const double gain = 1.0 - s->costs->us[0][0] / s->costs->us[1][0];
    CHECK(gain > 0.04 && gain < 0.08);
    const stw_noise noise = noise_of(s, better, worse);
    CHECK(noise.ahead > 12 && noise.ahead < 30);
    CHECK_NEAR(noise.modelled_error, 0.082, 1e-9); /* of element-wise ops, docs/cost-model.md */
    CHECK(isnan(noise.measured_error) && isnan(noise.carried_error) && isnan(noise.fused_error));
    stw_plan_destroy(better);
    stw_plan_destroy(worse);
    small_close(s);
}

/* The same times measured are known to 5 %: twice the lead is safe. Carried over from another kind they are not. */
TEST(noise, measured_times_are_known_better) {
    static const struct {
        const char *us;
        bool safe;
    } row[] = {{",'us':{'one':10,'other':12.5}", true}, {",'us':{'h200':10}", false}};
    for (int k = 0; k < 2; k++) {
        small *s = open_chain(50, row[k].us, KIND("d0", "one", 0.5) KIND("d1", "other", 0.37), 2);
        stw_plan *better = plan_on(s, 0), *worse = plan_on(s, 1);
        const stw_noise noise = noise_of(s, better, worse);
        test_context("%s", row[k].us);
        CHECK(s->costs->us[0][0] < 0.85 * s->costs->us[1][0]);
        CHECK(row[k].safe ? noise.ahead >= 31 : noise.ahead < 28);
        CHECK_NEAR(row[k].safe ? noise.measured_error : noise.carried_error, row[k].safe ? 0.05 : 0.5, 1e-9);
        CHECK(isnan(row[k].safe ? noise.carried_error : noise.measured_error));
        stw_plan_destroy(better);
        stw_plan_destroy(worse);
        small_close(s);
    }
    test_context("%s", "");
}

/* Two of 2,500 ops in one kernel: the plans are the same but for that, and the gain of a few hundredths of a per cent is less
 * than what no simulation knows. */
TEST(noise, a_gain_of_next_to_nothing_is_no_lead) {
    small *s = open_chain(2500, "", NULL, 1);
    stw_plan *same = plan_on(s, 0), *fused = plan_on(s, 0);
    fused->group[1] = fused->group[0];
    stw_evaluation a, b;
    CHECK_EQ_INT(stw_simulate(s->simulator, same, s->workspace, &a, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulate(s->simulator, fused, s->workspace, &b, NULL), STW_OK);
    CHECK(b.reason == STW_VALID && b.step_s < a.step_s && b.step_s > 0.9995 * a.step_s);
    const stw_noise noise = noise_of(s, fused, same);
    CHECK(noise.ahead > 6 && noise.ahead < 26);
    CHECK_NEAR(noise.fused_error, hypot(0.082, 0.19), 1e-4); /* as its members are, and as groups are */
    stw_plan_destroy(same);
    stw_plan_destroy(fused);
    small_close(s);
}

/* A hundred short ops that are sent to and fro over one link, against as much work on one device: 6 % less, all of it in what the
 * link is thought to take. */
TEST(noise, transfers_of_a_link_are_off_together) {
    enum { OPS = 100 };
    char nodes[OPS * 160] = "";
    size_t length = 0;
    for (int i = 0; i < OPS; i++) /* a byte takes a microsecond */
        length += (size_t)snprintf(
            nodes + length, 160,
            i == 0 ? OP(0, "n0", "[]", 94, 0) : NODE(% d, "n%d", "relu", "[%d]", 94, ",'us':{'h200':0.001,'slow':100}"), i, i,
            i - 1);
    small *s = small_open((small_text){
        .nodes = nodes, .devices = KIND("d0", "h200", 0.5) KIND("d1", "h200", 0.5) KIND("d2", "slow", 0.5), .device_count = 3});
    stw_plan *moving = plan_on(s, 0), *still = plan_on(s, 2);
    still->device[0] = 0;
    for (int32_t i = 0; i < s->graph->N; i++) moving->device[i] = i % 2;
    stw_evaluation a, b;
    CHECK_EQ_INT(stw_simulate(s->simulator, moving, s->workspace, &a, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulate(s->simulator, still, s->workspace, &b, NULL), STW_OK);
    CHECK(a.step_s < 0.96 * b.step_s && a.step_s > 0.9 * b.step_s);
    const int32_t count = ahead_of(s, moving, still);
    CHECK(count > 10 && count < 31);
    stw_plan_destroy(moving);
    stw_plan_destroy(still);
    small_close(s);
}
