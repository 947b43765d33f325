/* What the options of a search mean, and that bad ones are told before it begins. */
#include "api/options.h"
#include "whole_search.h"

static stw_status read_setting(const char *name, const char *value, stw_settings *out, stw_error *error) {
    stw_options *options = options_of(name, value, NULL);
    const stw_status status = stw_settings_read(options, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE, out, error);
    stw_options_destroy(options);
    return status;
}

TEST(settings, defaults) {
    stw_options *options;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    for (int k = 0; k < 2; k++) {
        stw_settings settings;
        CHECK_EQ_INT(stw_settings_read(k == 0 ? NULL : options, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE, &settings, NULL), STW_OK);
        CHECK_EQ_INT(settings.objective, STW_OBJECTIVE_TIME);
        CHECK_EQ_INT(settings.tasks, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE);
        CHECK_EQ_INT(settings.rule, -1);
        CHECK_EQ_INT(settings.fusion, -1);
        CHECK(settings.from == NULL);
        CHECK_EQ_INT(settings.seed, 1);
        CHECK_EQ_INT(settings.threads, 0);
        CHECK_EQ_INT(settings.unit_count, 512);
        CHECK_NEAR(settings.budget_s, 10.0, 0.0);
        CHECK_EQ_INT(settings.evaluations, 0);
        CHECK_EQ_INT(stw_settings_read(k == 0 ? NULL : options, STW_TASK_ALL, &settings, NULL), STW_OK);
        CHECK_EQ_INT(settings.tasks, STW_TASK_ALL); /* what holds where the options are silent is up to the caller */
    }
    stw_options_destroy(options);
}

TEST(settings, clock) {
    stw_settings settings;
    CHECK_EQ_INT(read_setting("clock", "wall", &settings, NULL), STW_OK);
    CHECK(settings.clock == NULL);
    CHECK_EQ_INT(read_setting("clock", "cpu", &settings, NULL), STW_OK);
    CHECK(settings.clock == stw_processor_clock());
    /* It goes on while the processor works for this process, and never back. */
    const double began_s = stw_clock_now_s(settings.clock);
    double now_s = began_s;
    for (int64_t looks = 0; now_s < began_s + 1e-3; looks++) {
        const double later_s = stw_clock_now_s(settings.clock);
        CHECK(later_s >= now_s);
        now_s = later_s;
    }
}

TEST(settings, tasks) {
    static const struct {
        const char *text;
        unsigned tasks; /* 0: refused */
    } cases[] = {{"placement", STW_TASK_PLACEMENT},
                 {"schedule", STW_TASK_SCHEDULE},
                 {"placement,schedule", STW_TASK_PLACEMENT | STW_TASK_SCHEDULE},
                 {"schedule,placement", STW_TASK_PLACEMENT | STW_TASK_SCHEDULE},
                 {"placement,placement", 0},
                 {"placement,", 0},
                 {",schedule", 0},
                 {",", 0},
                 {"placement schedule", 0},
                 {"fusion", STW_TASK_FUSION},
                 {"fusion,schedule", STW_TASK_FUSION | STW_TASK_SCHEDULE},
                 {"fusion,placement,schedule", STW_TASK_ALL},
                 {"placement,schedule,fusion", STW_TASK_ALL},
                 {"fusion,placement,fusion", 0},
                 {"fusions", 0},
                 {"place", 0},
                 {"placements", 0}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        stw_settings settings;
        stw_error error = {0};
        test_context("'%s'", cases[k].text);
        const stw_status status = read_setting("tasks", cases[k].text, &settings, &error);
        CHECK_EQ_INT(status, cases[k].tasks == 0 ? STW_ERROR_INPUT : STW_OK);
        if (status == STW_OK) CHECK_EQ_INT(settings.tasks, cases[k].tasks);
        if (status != STW_OK) CHECK_CONTAINS(error.message, "--tasks: '");
        if (status != STW_OK) CHECK_CONTAINS(error.message, cases[k].text);
    }
    test_context("%s", "");
}

TEST(settings, units) {
    static const struct {
        const char *text;
        int32_t count; /* -1: refused */
    } cases[] = {{"off", 0},  {"1", 1},    {"512", 512}, {"2147483647", INT32_MAX},   {"2147483648", -1}, {"0", -1}, {"-3", -1},
                 {"1.5", -1}, {"Off", -1}, {"12x", -1},  {"99999999999999999999", -1}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        stw_settings settings;
        stw_error error = {0};
        test_context("'%s'", cases[k].text);
        const stw_status status = read_setting("units", cases[k].text, &settings, &error);
        CHECK_EQ_INT(status, cases[k].count < 0 ? STW_ERROR_INPUT : STW_OK);
        if (status == STW_OK) CHECK_EQ_INT(settings.unit_count, cases[k].count);
        if (status != STW_OK) CHECK_CONTAINS(error.message, "--units: '");
    }
    test_context("%s", "");
}

TEST(settings, budgets) {
    static const struct {
        const char *text;
        double seconds; /* 0: refused */
    } cases[] = {{"10s", 10.0},    {"500ms", 0.5}, {"2min", 120.0}, {"2m", 120.0}, {"1h", 3600.0}, {"1.5s", 1.5}, {"3", 3.0},
                 {"2 min", 120.0}, {"1e9", 1e9},   {"1e9h", 0.0},   {"0", 0.0},    {"0s", 0.0},    {"-1s", 0.0},  {"s", 0.0},
                 {"ten", 0.0},     {"10 d", 0.0},  {"1s2", 0.0},    {"1sms", 0.0}, {"nan", 0.0},   {"inf", 0.0},  {" ", 0.0}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        double seconds = -7.0;
        stw_error error = {0};
        stw_options *options = options_of(NULL);
        test_context("'%s'", cases[k].text);
        const bool good = cases[k].seconds > 0.0;
        CHECK_EQ_INT(stw_str_to_seconds(stw_str_of(cases[k].text), &seconds), good);
        CHECK_NEAR(seconds, good ? cases[k].seconds : -7.0, 1e-9);
        CHECK_EQ_INT(stw_options_set(options, "budget", cases[k].text, &error), good ? STW_OK : STW_ERROR_INPUT);
        if (!good) CHECK_CONTAINS(error.message, "--budget");
        stw_settings settings;
        CHECK_EQ_INT(stw_settings_read(options, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE, &settings, NULL), STW_OK);
        CHECK_NEAR(settings.budget_s, good ? cases[k].seconds : 10.0, 1e-9);
        stw_options_destroy(options);
    }
    test_context("%s", "");
}

/* Values are what was set, else the default, else what the caller says. */
TEST(options, values) {
    stw_options *options;
    CHECK_EQ_INT(stw_options_create_for(STW_FOR_TRAIN, &options, NULL), STW_OK);
    CHECK_NEAR(stw_options_seconds(options, "budget", 1.0), 60.0, 0.0);
    CHECK_EQ_INT(stw_options_number(options, "problems", 3), 16);
    CHECK_EQ_INT(stw_options_number(options, "memory", 3), 3);
    CHECK_EQ_INT(stw_options_file_limits(options).bytes, 0);
    CHECK(!stw_options_flag(options, "resume") && !stw_options_is_given(options, "resume"));
    CHECK_EQ_INT(stw_options_set(options, "budget", "500ms", NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "problems", "8", NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "memory", "2KiB", NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "file-limit", "1GiB", NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "resume", "yes", NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "problems", "none", NULL), STW_ERROR_INPUT); /* what was set stays */
    CHECK_NEAR(stw_options_seconds(options, "budget", 1.0), 0.5, 0.0);
    CHECK_EQ_INT(stw_options_number(options, "problems", 3), 8);
    CHECK_EQ_INT(stw_options_number(options, "memory", 3), 2048);
    CHECK_EQ_INT(stw_options_file_limits(options).bytes, 1 << 30);
    CHECK(stw_options_flag(options, "resume") && stw_options_is_given(options, "resume"));
    CHECK_STR(stw_options_text(options, "memory"), "2KiB");
    CHECK(stw_options_text(options, "nothing") == NULL && stw_options_text(NULL, "budget") == NULL);
    CHECK_NEAR(stw_options_seconds(NULL, "budget", 1.0), 1.0, 0.0);
    stw_options_destroy(options);
}

TEST(settings, evaluations_take_the_place_of_time) {
    stw_settings settings;
    CHECK_EQ_INT(read_setting("evaluations", "100", &settings, NULL), STW_OK);
    CHECK_EQ_INT(settings.evaluations, 100);
    CHECK_NEAR(settings.budget_s, 0.0, 0.0);
    stw_options *options = options_of("evaluations", "100", "budget", "2s", NULL);
    CHECK_EQ_INT(stw_settings_read(options, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE, &settings, NULL), STW_OK);
    CHECK_EQ_INT(settings.evaluations, 100);
    CHECK_NEAR(settings.budget_s, 2.0, 0.0); /* whichever ends first */
    stw_options_destroy(options);
}

TEST(settings, choices) {
    stw_settings settings;
    for (int k = 0; k < 3; k++) {
        CHECK_EQ_INT(read_setting("objective", stw_objective_name[k], &settings, NULL), STW_OK);
        CHECK_EQ_INT(settings.objective, k);
    }
    for (int k = 0; k < STW_RULE_COUNT; k++) {
        CHECK_EQ_INT(read_setting("rule", stw_rule_name[k], &settings, NULL), STW_OK);
        CHECK_EQ_INT(settings.rule, k);
    }
    for (int k = 0; k < STW_FUSION_COUNT; k++) {
        stw_options *fused = options_of("tasks", "all", "fusion", stw_fusion_name[k], NULL);
        CHECK_EQ_INT(stw_settings_read(fused, STW_TASK_PLACEMENT, &settings, NULL), STW_OK);
        CHECK_EQ_INT(settings.tasks, STW_TASK_ALL);
        CHECK_EQ_INT(settings.fusion, k);
        stw_options_destroy(fused);
    }
    CHECK_EQ_INT(read_setting("fusion", "default", &settings, NULL), STW_ERROR_INPUT); /* no task */
    CHECK_EQ_INT(read_setting("seed", "9223372036854775807", &settings, NULL), STW_OK);
    CHECK(settings.seed == (uint64_t)INT64_MAX);
    stw_options *options = options_of(NULL);
    CHECK_EQ_INT(stw_options_set(options, "objective", "speed", NULL), STW_ERROR_INPUT);
    CHECK_EQ_INT(stw_options_set(options, "rule", "lifo", NULL), STW_ERROR_INPUT);
    CHECK_EQ_INT(stw_options_set(options, "fusion", "greedy", NULL), STW_ERROR_INPUT);
    CHECK_EQ_INT(stw_options_set(options, "evaluations", "0", NULL), STW_ERROR_INPUT);
    CHECK_EQ_INT(stw_options_set(options, "threads", "1025", NULL), STW_ERROR_INPUT);
    stw_options_destroy(options);
}

TEST(settings, bad_ones_end_a_search_before_it_begins) {
    small *s = small_open((small_text){.nodes = CHAINS, .device_count = 2});
    stw_options *options = options_of("tasks", "cooking", NULL);
    stw_result *result = (stw_result *)1;
    stw_plan *plan = (stw_plan *)1;
    stw_error error = {0};
    CHECK_EQ_INT(stw_optimize(s->simulator, options, NULL, &result, &error), STW_ERROR_INPUT);
    CHECK(result == NULL);
    CHECK_CONTAINS(error.message, "cooking");
    result = (stw_result *)1;
    CHECK_EQ_INT(stw_compare(s->simulator, "single", options, NULL, &result, &error), STW_ERROR_INPUT);
    CHECK(result == NULL);
    CHECK_EQ_INT(stw_method_run("single", s->simulator, options, &plan, &error), STW_ERROR_INPUT);
    CHECK(plan == NULL);
    stw_options_destroy(options);
    small_close(s);
}
