/* Links with a table of rates by size: estimates go by it. A table whose first size is above all tensors is a link with the rate
 * of that size, so methods must come to the same plans, features and noise as without a table. */
#include "machine/link_mean.h"
#include "whole_search.h"

/* As slow as the links of random problems, a microsecond per byte, up to far above their tensors; then next to nothing. */
static const stw_rate slow_then_fast[] = {{1e6, 1e6}, {1e9, 1e12}};

static void give_tables(stw_machine *machine) {
    stw_error error = {0};
    for (int32_t k = 0; k < machine->device_count * machine->device_count; k++) {
        if (machine->link[k].bandwidth <= 0.0) continue;
        machine->link[k].rates = slow_then_fast;
        machine->link[k].rate_count = 2;
        machine->link[k].bandwidth = slow_then_fast[1].rate;
    }
    CHECK_EQ_INT(stw_machine_finish(machine, &error), STW_OK);
    CHECK(machine->tabled);
}

static small *open_seeded(uint64_t seed, bool tables) {
    stw_rng rng = stw_rng_create(seed);
    small *s = random_open(&rng, (random_shape){.nodes = 60, .device_count = 3});
    if (tables) give_tables(s->machine);
    return s;
}

static void check_same(const small *s, const stw_result *a, const stw_result *b) {
    if (!CHECK(a != NULL && b != NULL)) return;
    const stw_plan *one = stw_result_plan(a), *other = stw_result_plan(b);
    if (!CHECK((one == NULL) == (other == NULL)) || one == NULL) return;
    int32_t elsewhere = 0, otherwise = 0;
    for (int32_t i = 0; i < s->graph->N; i++) {
        elsewhere += stw_plan_device(one)[i] != stw_plan_device(other)[i];
        otherwise += stw_plan_priority(one)[i] != stw_plan_priority(other)[i];
    }
    CHECK_EQ_INT(elsewhere, 0);
    CHECK_EQ_INT(otherwise, 0);
    CHECK_NEAR(stw_result_noise(a).ahead, stw_result_noise(b).ahead, 0.0);
}

static void compare_both(const char *method, const char *objective) {
    for (uint64_t seed = 1; seed <= 6; seed++) {
        small *s[2];
        stw_result *result[2];
        for (int k = 0; k < 2; k++) {
            s[k] = open_seeded(seed, k == 1);
            result[k] =
                compare(s[k]->simulator, method, options_of("objective", objective, "evaluations", "200", "threads", "1", NULL));
        }
        test_context("%s, %s, seed %d", method, objective, (int)seed);
        check_same(s[0], result[0], result[1]);
        for (int k = 0; k < 2; k++) {
            stw_result_destroy(result[k]);
            small_close(s[k]);
        }
    }
    test_context("%s", "");
}

TEST(tables, methods_go_by_them) {
    static const char *const names[] = {"etf", "expert", "metis", "heft", "sct", "steer", "anneal"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) compare_both(names[k], "time");
    compare_both("balance", "throughput");
}

TEST(tables, optimize_and_its_noise_check_go_by_them) {
    for (uint64_t seed = 1; seed <= 3; seed++) {
        stw_result *result[2];
        small *s[2];
        for (int k = 0; k < 2; k++) {
            s[k] = open_seeded(seed, k == 1);
            result[k] = optimize(s[k]->simulator, options_of("evaluations", "300", "threads", "1", "policy", "none", NULL), NULL);
        }
        check_same(s[0], result[0], result[1]);
        for (int k = 0; k < 2; k++) {
            stw_result_destroy(result[k]);
            small_close(s[k]);
        }
    }
}

/* Both links of a mean count: 8 bytes take 8 us over the one and 2 us over the other; 1024 bytes 8 us and 256 us. */
TEST(tables, a_mean_of_links_is_theirs_at_every_size) {
    static const stw_rate steep[] = {{8.0, 1e6}, {1024.0, 128e6}};
    const stw_link links[] = {{.bandwidth = 128e6, .latency_us = 1.0, .send_us = 2.0, .rates = steep, .rate_count = 2},
                              {.bandwidth = 4e6, .latency_us = 3.0}};
    stw_link_mean mean = {0};
    for (int k = 0; k < 2; k++) stw_link_mean_add(&mean, &links[k]);
    stw_link_mean_divide(&mean, mean.count);
    CHECK_NEAR(mean.fixed_us, 3.0, 0.0);
    CHECK_NEAR(stw_link_mean_us(&mean, 8.0), 3.0 + 5.0, 1e-12);
    CHECK_NEAR(stw_link_mean_us(&mean, 1024.0), 3.0 + 132.0, 1e-12);
    CHECK_NEAR(stw_link_mean_us(&mean, 0.5), 3.0 + 0.3125, 1e-12);
    CHECK_NEAR(stw_link_mean_us(&mean, 3e15), 3.0 + 3e15 * 0.5 * (1.0 / 128.0 + 0.25), 1.0);
    for (double bytes = 1.0; bytes < 1e7; bytes *= 1.3) {
        const double exact = 0.5 * (stw_link_bytes_us(&links[0], bytes) + stw_link_bytes_us(&links[1], bytes));
        CHECK_NEAR(stw_link_mean_bytes_us(&mean, bytes), exact, 1e-9 * exact);
    }
}
