/* train/reward: rewards and advantages, by hand. */
#include "train/ppo.h"

#include <math.h>

#include "test.h"

static stw_score takes(double seconds) { return (stw_score){.reason = STW_VALID, .value = seconds, .step_s = seconds}; }
static stw_score lacks(double bytes) {
    return (stw_score){.reason = STW_INVALID_MEMORY, .value = 1.0, .step_s = 1.0, .lacks = bytes};
}

TEST(reward, logarithm_by_hand) {
    const stw_reward_rule rule = {STW_REWARD_LOG, 2.0, 1.0};
    const stw_score score[] = {takes(1.0), takes(2.0), takes(8.0)};
    double reward[3];
    stw_rewards(&rule, score, 3, reward);
    CHECK_NEAR(reward[0], 0.69314718055994531, 1e-15);
    CHECK_NEAR(reward[1], 0.0, 0.0);
    CHECK_NEAR(reward[2], -1.3862943611198906, 1e-15);
}

TEST(reward, root_by_hand) {
    const stw_reward_rule rule = {STW_REWARD_SQRT, 4.0, 1.0};
    const stw_score score[] = {takes(1.0), takes(4.0), takes(9.0)};
    double reward[3];
    stw_rewards(&rule, score, 3, reward);
    CHECK_NEAR(reward[0], 0.5, 1e-15); /* 1 - sqrt(1/4) */
    CHECK_NEAR(reward[1], 0.0, 0.0);
    CHECK_NEAR(reward[2], -0.5, 1e-15);
}

/* As published: seconds, and -10 for whatever does not fit. */
TEST(reward, published_by_hand) {
    const stw_reward_rule rule = {STW_REWARD_PUBLISHED, 4.0, 1.0};
    const stw_score score[] = {takes(0.25), lacks(3.0), takes(4.0), {.reason = STW_INVALID_LINKS}};
    double reward[4];
    stw_rewards(&rule, score, 4, reward);
    CHECK_NEAR(reward[0], -0.5, 0.0);
    CHECK_NEAR(reward[1], -10.0, 0.0);
    CHECK_NEAR(reward[2], -2.0, 0.0);
    CHECK_NEAR(reward[3], -10.0, 0.0);
}

/* The first update has no trials before it, and is compared with itself. */
TEST(reward, over_all_trials_before) {
    stw_trials trials = {0};
    double advantage[2];
    stw_advantages_over_trials(&trials, (double[]){-1.0, -3.0}, 2, advantage);
    CHECK(advantage[0] == 1.0 && advantage[1] == -1.0);
    stw_advantages_over_trials(&trials, (double[]){-1.0, -5.0}, 2, advantage);
    CHECK(advantage[0] == 1.0 && advantage[1] == -3.0);
    CHECK(trials.count == 4 && trials.mean == -2.5);
    stw_advantages_over_trials(&trials, (double[]){-2.5}, 1, advantage);
    CHECK(advantage[0] == 0.0 && trials.count == 5 && trials.mean == -2.5);
}

TEST(reward, losses_weigh_what_is_asked) {
    static const stw_reward kinds[] = {STW_REWARD_LOG, STW_REWARD_SQRT};
    for (int k = 0; k < 2; k++) {
        const stw_reward_rule full = {kinds[k], 3.0, 1.0}, part = {kinds[k], 3.0, 0.2};
        const stw_score score[] = {takes(1.0), takes(2.9), takes(3.0), takes(3.1), takes(30.0)};
        double a[5], b[5];
        stw_rewards(&full, score, 5, a);
        stw_rewards(&part, score, 5, b);
        test_context("kind %d", k);
        for (int i = 0; i < 3; i++) CHECK_NEAR(b[i], a[i], 0.0); /* gains are left alone */
        for (int i = 3; i < 5; i++) CHECK_NEAR(b[i], 0.2 * a[i], 1e-15);
        for (int i = 1; i < 5; i++) CHECK(b[i] < b[i - 1]); /* what is slower is worth less, whatever the weight */
    }
    test_context("%s", "");
}

TEST(reward, what_is_invalid_comes_last_by_what_it_lacks) {
    const stw_reward_rule rule = {STW_REWARD_LOG, 1.0, 0.2};
    const stw_score score[] = {
        takes(0.5), lacks(40.0), takes(1e6), lacks(10.0), lacks(80.0), takes(1.0), {.reason = STW_INVALID_LINKS}};
    double reward[7];
    stw_rewards(&rule, score, 7, reward);
    CHECK(reward[0] > reward[5] && reward[5] > reward[2]); /* valid ones by time */
    CHECK(reward[3] <= reward[2] - 1.0);                   /* the least bad after the worst good one */
    CHECK(reward[1] < reward[3] && reward[4] < reward[1]); /* then by bytes */
    CHECK(reward[6] <= reward[4]);                         /* what cannot run at all comes last */
    for (int k = 0; k < 7; k++) CHECK(isfinite(reward[k]));
}

TEST(reward, groups_without_any_valid_plan_still_have_an_order) {
    const stw_reward_rule rule = {STW_REWARD_LOG, 1.0, 1.0};
    const stw_score score[] = {lacks(1e12), {.reason = STW_INVALID_ORDER}, lacks(1.0)}, none[] = {{.reason = STW_INVALID_ORDER}};
    double reward[3], advantage[3];
    stw_rewards(&rule, score, 3, reward);
    CHECK(reward[2] > reward[0] && reward[0] >= reward[1]);
    stw_advantages(reward, 3, 0.002, 2.5, advantage);
    CHECK(advantage[2] > 0.0 && advantage[0] < 0.0);
    stw_rewards(&rule, none, 1, reward);
    CHECK(isfinite(reward[0]));
}

/* A reference or a step of no time must not make numbers that nothing can be done with. */
TEST(reward, no_time_at_all) {
    for (int k = 0; k < 2; k++) {
        const stw_reward_rule rule = {k == 0 ? STW_REWARD_LOG : STW_REWARD_SQRT, 0.0, 1.0};
        const stw_score score[] = {takes(0.0), takes(0.0)};
        double reward[2];
        stw_rewards(&rule, score, 2, reward);
        CHECK(reward[0] == 0.0 && reward[1] == 0.0);
    }
}

TEST(advantage, by_hand) {
    const double reward[] = {1.0, 2.0, 3.0, 6.0}; /* mean 3, variance (4 + 1 + 0 + 9) / 4 */
    double advantage[4];
    stw_advantages(reward, 4, 0.0, 10.0, advantage);
    for (int k = 0; k < 4; k++) CHECK_NEAR(advantage[k], (reward[k] - 3.0) / sqrt(3.5), 1e-12);
    stw_advantages(reward, 4, 0.5, 10.0, advantage);
    for (int k = 0; k < 4; k++) CHECK_NEAR(advantage[k], (reward[k] - 3.0) / (sqrt(3.5) + 0.5), 1e-12);
}

TEST(advantage, does_not_depend_on_scale_or_level) {
    const double reward[] = {0.3, -0.1, 0.7, 0.2, -0.4};
    double shifted[5], a[5], b[5];
    for (int k = 0; k < 5; k++) shifted[k] = 40.0 * reward[k] - 7.0;
    stw_advantages(reward, 5, 0.0, 10.0, a);
    stw_advantages(shifted, 5, 0.0, 10.0, b);
    for (int k = 0; k < 5; k++) CHECK_NEAR(a[k], b[k], 1e-9);
}

TEST(advantage, floor_keeps_converged_groups_small) {
    double reward[16], with[16], without[16];
    for (int k = 0; k < 16; k++) reward[k] = 0.5 + (k % 2 == 0 ? 1e-6 : -1e-6);
    stw_advantages(reward, 16, 0.002, 2.5, with);
    stw_advantages(reward, 16, 0.0, 2.5, without);
    for (int k = 0; k < 16; k++) {
        CHECK(fabs(with[k]) < 1e-3 && fabs(with[k]) > 0.0);
        CHECK_NEAR(fabs(without[k]), 1.0, 1e-6); /* what the floor is there for */
    }
    for (int k = 0; k < 16; k++) reward[k] = 0.5 + (k % 2 == 0 ? 0.2 : -0.2); /* a group that has not: hardly touched */
    stw_advantages(reward, 16, 0.002, 2.5, with);
    for (int k = 0; k < 16; k++) CHECK_NEAR(fabs(with[k]), 1.0, 0.01);
    for (int k = 0; k < 16; k++) reward[k] = 0.25; /* all alike: nothing to learn */
    stw_advantages(reward, 16, 0.002, 2.5, with);
    for (int k = 0; k < 16; k++) CHECK_NEAR(with[k], 0.0, 1e-9);
}

TEST(advantage, limit_cuts_both_ways) {
    double reward[16] = {0}, advantage[16];
    for (int sign = -1; sign <= 1; sign += 2) {
        reward[3] = 5.0 * sign; /* alone it is sqrt(15) deviations away */
        stw_advantages(reward, 16, 0.0, 100.0, advantage);
        CHECK_NEAR(advantage[3], sign * sqrt(15.0), 1e-9);
        stw_advantages(reward, 16, 0.0, 2.5, advantage);
        CHECK_NEAR(advantage[3], sign * 2.5, 0.0);
        CHECK_NEAR(advantage[0], -sign / sqrt(15.0), 1e-9);
    }
}
