/* feature/build: what units and devices are, whatever the plan. */
#include <dirent.h>

#include "problem.h"

/* ---- the table ---- */

TEST(features, names_are_distinct) {
    for (int set = STW_FEATURES_UNIT; set <= STW_FEATURES_PAIR; set++) {
        const int32_t count = stw_feature_count((stw_feature_set)set);
        CHECK(count >= 10);
        CHECK(stw_feature_name((stw_feature_set)set, count) == NULL && stw_feature_name((stw_feature_set)set, -1) == NULL);
        for (int32_t k = 0; k < count; k++) {
            const char *name = stw_feature_name((stw_feature_set)set, k);
            CHECK_EQ_INT(column_of((stw_feature_set)set, name), k);
        }
    }
}

TEST(features, classes_are_in_the_order_of_the_enumeration) {
    for (int32_t k = 0; k < STW_CLASS_COUNT; k++) {
        char name[64];
        snprintf(name, sizeof name, "class.%s", stw_op_class_name((stw_op_class)k));
        CHECK_STR(stw_feature_name(STW_FEATURES_UNIT, k), name);
    }
}

/* Policies carry the version: whoever changes the table changes it as well, and this number. */
TEST(features, version_goes_with_the_columns) {
    uint64_t hash = 0;
    for (int set = STW_FEATURES_UNIT; set <= STW_FEATURES_PAIR; set++) {
        for (int32_t k = 0; k < stw_feature_count((stw_feature_set)set); k++)
            hash = hash * 31 + stw_str_hash(stw_str_of(stw_feature_name((stw_feature_set)set, k)));
    }
    CHECK_EQ_INT(STW_FEATURE_VERSION, 1);
    test_context("hash %llu", (unsigned long long)hash);
    CHECK(hash == 5729135925143634611ull);
}

/* ---- by hand ---- */

/* w is read by a; c updates it, so w and c are one unit. The loss is b. */
#define UPDATE                     \
    SOURCE(0, "w", "parameter", 8) \
    OP(1, "a", "[0]", 4, 2) OP(2, "b", "[1]", 2, 6) OP_WITH(3, "c", "[0,2]", 8, 2, ",'updates':0")

TEST(features, by_hand) {
    small *s = small_open((small_text){.nodes = UPDATE, .device_count = 2});
    s->graph->loss = 2;
    problem p = problem_of(s, 0);
    const int32_t *of = p.features.units->of, a = of[1], b = of[2], c = of[3];
    CHECK_EQ_INT(p.features.M, 3);
    CHECK_EQ_INT(of[0], c);
    CHECK_NEAR(unit_value(&p, a, "class.elementwise"), 1.0, 1e-12);
    CHECK_NEAR(unit_value(&p, b, "log_time"), log1p(6) / 10, 1e-12);
    CHECK_NEAR(unit_value(&p, b, "time_of_path"), log1p(600) / 7, 1e-12);
    CHECK_NEAR(unit_value(&p, b, "time_of_share"), log1p(1200) / 7, 1e-12);
    CHECK_NEAR(unit_value(&p, b, "log_external_bytes"), log1p(4 + 2) / 30, 1e-12);
    CHECK_NEAR(unit_value(&p, c, "log_parameter_bytes"), log1p(8) / 30, 1e-12);
    CHECK_NEAR(unit_value(&p, a, "log_output_bytes"), log1p(4) / 30, 1e-12);
    CHECK_NEAR(unit_value(&p, a, "log_comm"), log1p(8 + 4) / 10, 1e-12); /* a microsecond per byte: w in, a out */
    CHECK_NEAR(unit_value(&p, c, "log_fan_in"), log1p(1) / 5, 1e-12);
    CHECK_NEAR(unit_value(&p, c, "log_unit_ops"), log1p(1) / 10, 1e-12);
    CHECK_NEAR(unit_value(&p, a, "top_level"), 0.0, 1e-12);
    CHECK_NEAR(unit_value(&p, b, "top_level"), 0.2, 1e-12);
    CHECK_NEAR(unit_value(&p, b, "bottom_level"), 0.8, 1e-12);
    CHECK_NEAR(unit_value(&p, b, "slack"), 0.0, 1e-12);
    CHECK_NEAR(unit_value(&p, a, "upward_rank"), 1.0, 1e-12);
    CHECK_NEAR(unit_value(&p, b, "upward_rank"), 9.0 / 13, 1e-12); /* 6 + half of 2 + 2; a: 2 + half of 4 before it */
    CHECK_NEAR(unit_value(&p, b, "level"), 0.5, 1e-12);
    CHECK_NEAR(unit_value(&p, b, "level.sin1"), 0.0, 1e-12);
    CHECK_NEAR(unit_value(&p, b, "level.cos1"), -1.0, 1e-12);
    CHECK_NEAR(unit_value(&p, b, "trace_position"), 2.0 / 3, 1e-12);
    CHECK_NEAR(unit_value(&p, a, "forward"), 1.0, 1e-12);
    CHECK_NEAR(unit_value(&p, c, "forward"), 0.0, 1e-12);
    CHECK_NEAR(unit_value(&p, c, "update"), 1.0, 1e-12);
    CHECK_NEAR(unit_value(&p, a, "unlike"), 0.0, 1e-12);
    CHECK_NEAR(unit_value(&p, a, "path_of_work"), 1.0, 1e-12);
    CHECK_NEAR(unit_value(&p, a, "devices"), 0.25, 1e-12);
    CHECK_NEAR(device_value(&p, 1, "slot"), 1.0, 1e-12);
    CHECK_NEAR(device_value(&p, 1, "slot.cos1"), -1.0, 1e-12);
    CHECK_NEAR(device_value(&p, 1, "speed"), 1.0, 1e-12);
    stw_arena_destroy(&p.arena);
    small_close(s);
}

TEST(features, neighbours) {
    small *s = small_open((small_text){.nodes = UPDATE, .device_count = 2});
    problem p = problem_of(s, 0);
    const stw_features *f = &p.features;
    const int32_t *of = f->units->of, a = of[1], b = of[2], c = of[3];
    CHECK_EQ_INT(f->producer_start[f->M], 3);
    CHECK_EQ_INT(f->reader_start[f->M], 3);
    CHECK_EQ_INT(f->producer[f->producer_start[a]], c); /* the parameter is with its update */
    CHECK_EQ_INT(f->producer[f->producer_start[b]], a);
    CHECK_EQ_INT(f->reader[f->reader_start[b]], c);
    stw_arena_destroy(&p.arena);
    small_close(s);
}

TEST(features, unlike_devices) {
    problem p = problem_open("unet", "cpu+h200x3", 64);
    double slowest = 1.0, unlike = 0.0;
    for (int32_t d = 0; d < 4; d++) slowest = fmin(slowest, device_value(&p, d, "speed"));
    for (int32_t u = 0; u < p.features.M; u++) unlike = fmax(unlike, unit_value(&p, u, "unlike"));
    CHECK(slowest < 0.5);
    CHECK_NEAR(unit_value(&p, 0, "speed_spread"), 1.0 - slowest, 1e-9);
    CHECK(unlike > 0.3);
    problem_close(&p);
}

/* ---- rules ---- */

/* Columns of the atoms, summed or averaged by weight, are those of the units that hold them. */
TEST(features, units_are_sums_of_their_ops) {
    static const char *const means[] = {"class.matmul", "class.elementwise", "top_level", "bottom_level", "level",
                                        "upward_rank",  "trace_position",    "forward",   "update"};
    static const struct {
        const char *column;
        double scale;
    } sums[] = {{"log_time", 10.0},  {"log_parameter_bytes", 30.0}, {"log_output_bytes", 30.0},
                {"log_flops", 30.0}, {"log_moved_bytes", 30.0},     {"log_unit_ops", 10.0}};
    problem p = problem_open("unet", "h200x4", 40);
    problem fine = problem_open("unet", "h200x4", 0);
    const stw_units *coarse = p.features.units, *atoms = fine.features.units;
    for (int32_t u = 0; u < coarse->count; u++) {
        double mean[9] = {0.0}, sum[6] = {0.0}, weight = 0.0;
        int32_t last = -1;
        bool seen_atom[4096] = {false};
        for (int32_t m = coarse->start[u]; m < coarse->start[u + 1]; m++) {
            const int32_t atom = atoms->of[coarse->member[m]];
            if (atom == last || !CHECK(atom < 4096) || seen_atom[atom]) continue;
            seen_atom[last = atom] = true;
            double own = 0.0;
            for (int32_t k = atoms->start[atom]; k < atoms->start[atom + 1]; k++) {
                if (fine.graph->kind[atoms->member[k]] == STW_NODE_OP) own += fine.features.weight[atoms->member[k]];
            }
            weight += own;
            for (int k = 0; k < 9; k++) mean[k] += own * unit_value(&fine, atom, means[k]);
            for (int k = 0; k < 6; k++) sum[k] += expm1(sums[k].scale * unit_value(&fine, atom, sums[k].column));
        }
        test_context("unit %d", u);
        for (int k = 0; weight > 0.0 && k < 9; k++) CHECK_NEAR(unit_value(&p, u, means[k]), mean[k] / weight, 1e-9);
        for (int k = 0; k < 6; k++) CHECK_NEAR(unit_value(&p, u, sums[k].column), log1p(sum[k]) / sums[k].scale, 1e-9);
    }
    test_context("%s", "");
    problem_close(&fine);
    problem_close(&p);
}

/* Ten times slower devices and links: only what is measured by an absolute scale moves. */
TEST(features, relative_columns_do_not_know_the_scale) {
    stw_rng rng = stw_rng_create(11);
    small *s = random_open(&rng, (random_shape){.nodes = 60, .device_count = 3, .unlike = true});
    problem before = problem_of(s, 10);
    for (int32_t c = 0; c < s->machine->cost_class_count; c++) {
        for (int32_t i = 0; i < s->graph->N; i++) s->costs->us[c][i] *= 10.0;
    }
    if (s->costs->least_us != s->costs->us[0]) /* they are those of the only class */
        for (int32_t i = 0; i < s->graph->N; i++) s->costs->least_us[i] *= 10.0;
    for (int32_t k = 0; k < 9; k++) {
        s->machine->link[k].latency_us *= 10.0;
        s->machine->link[k].bandwidth /= 10.0;
    }
    problem after = problem_of(s, 10);
    const int32_t columns = stw_feature_count(STW_FEATURES_UNIT);
    int32_t moved = 0;
    CHECK_EQ_INT(after.features.M, before.features.M);
    for (int32_t u = 0; u < before.features.M; u++) {
        for (int32_t k = 0; k < columns; k++) {
            const char *name = stw_feature_name(STW_FEATURES_UNIT, k);
            const double change = after.features.unit[u * columns + k] - before.features.unit[u * columns + k];
            test_context("%s of unit %d", name, u);
            if (strncmp(name, "log_", 4) != 0) CHECK_NEAR(change, 0.0, 1e-9);
            moved += fabs(change) > 1e-3;
        }
    }
    test_context("%s", "");
    CHECK(moved > before.features.M); /* the test did change something */
    stw_arena_destroy(&after.arena);
    stw_arena_destroy(&before.arena);
    small_close(s);
}

/* ---- the graphs that ship ---- */

static void check_histograms(const problem *p) {
    const stw_features *f = &p->features;
    int32_t wrong = 0;
    for (int32_t u = 0; u < f->M; u++) {
        double sum = 0.0;
        const double *row = f->unit + (int64_t)u * stw_feature_count(STW_FEATURES_UNIT);
        for (int32_t k = 0; k < STW_CLASS_COUNT; k++) sum += row[k];
        const double expected = unit_value(p, u, "log_unit_ops") > 0.0 ? 1.0 : 0.0;
        wrong += fabs(sum - expected) > 1e-9 || f->operator_[u] < 0 || f->operator_[u] >= STW_OPERATOR_BUCKETS;
    }
    CHECK_EQ_INT(wrong, 0);
}

static void check_neighbours(const stw_features *f) {
    int32_t wrong = 0;
    for (int32_t u = 0; u < f->M; u++) {
        for (int32_t k = f->producer_start[u]; k < f->producer_start[u + 1]; k++) {
            const int32_t other = f->producer[k];
            wrong += other == u || (k > f->producer_start[u] && f->producer[k - 1] >= other);
            bool found = false;
            for (int32_t r = f->reader_start[other]; r < f->reader_start[other + 1]; r++) found = found || f->reader[r] == u;
            wrong += !found;
        }
    }
    CHECK_EQ_INT(wrong, 0);
    CHECK_EQ_INT(f->producer_start[f->M], f->reader_start[f->M]);
}

#if defined(__SANITIZE_ADDRESS__)
enum { MOST_NODES = 6000 }; /* above this, not op by op: it would take too long */
#else
enum { MOST_NODES = INT32_MAX };
#endif

static void check_graph(const char *name) {
    static const char *const machines[] = {"h200x4", "cpu+h200x3"};
    for (int m = 0; m < 2; m++) {
        problem p = problem_open(name, machines[m], 512);
        for (int round = 0; round < 2; round++) {
            if (round == 1 && p.graph->N > MOST_NODES) break;
            if (round == 1) problem_build(&p, 0);
            test_context("%s on %s, %d units", name, machines[m], p.features.M);
            CHECK_EQ_INT(count_bad_static(&p.features), 0);
            check_histograms(&p);
            check_neighbours(&p.features);
        }
        problem_close(&p);
    }
    test_context("%s", "");
}

TEST(features, finite_and_bounded_on_all_graphs) {
    DIR *folder = opendir(STW_SOURCE_DIR "/data/graphs");
    if (!CHECK(folder != NULL)) return;
    int32_t count = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char name[256];
        const char *end = strstr(entry->d_name, ".json.gz");
        if (end == NULL) continue;
        snprintf(name, sizeof name, "%.*s", (int)(end - entry->d_name), entry->d_name);
        check_graph(name);
        count++;
    }
    closedir(folder);
    CHECK(count >= 20);
}
