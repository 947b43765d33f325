/* export: the plan file of a plan with any group numbers, and of the result of a search. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "support/small.h"
#include "test.h"

/* The text of what is written; the caller frees it. Exactly one of plan and result is given. */
static char *written(const stw_simulator *simulator, const stw_plan *plan, const stw_result *result, bool head_only) {
    char path[] = "/tmp/stowage-test-XXXXXX";
    const int descriptor = mkstemp(path);
    CHECK(descriptor >= 0);
    close(descriptor);
    const stw_status status =
        plan != NULL ? stw_plan_write(simulator, plan, path, NULL) : stw_result_write(result, path, head_only, NULL);
    CHECK_EQ_INT(status, STW_OK);
    stw_arena arena;
    stw_str text = {0};
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_file_read(path, &arena, &text, NULL), STW_OK);
    char *copy = calloc(1, (size_t)text.length + 1);
    if (text.length > 0) memcpy(copy, text.p, (size_t)text.length);
    stw_arena_destroy(&arena);
    unlink(path);
    return copy;
}

static const small_text three_in_a_row = {
    .nodes = SOURCE(0, "x", "input", 4) OP(1, "a", "[0]", 4, 2) OP(2, "b", "[1]", 4, 3) OP(3, "c", "[2]", 4, 4),
    .outputs = "[3]",
    .device_count = 2};

static void set_groups(small *s, int32_t a, int32_t b, int32_t c) {
    const int32_t group[] = {a, b, c};
    memcpy(&s->plan->group[1], group, sizeof group);
}

TEST(plan_file, an_op_alone_is_not_fused_whatever_its_number) {
    small *s = small_open(three_in_a_row);
    set_groups(s, 700, 3, 1);
    char *text = written(s->simulator, s->plan, NULL, false);
    CHECK_CONTAINS(text, "\"tasks\":[\"placement\",\"schedule\"],");
    CHECK_CONTAINS(text, "\"group\":[-1,1,2,3]");
    CHECK_CONTAINS(text, "\"candidates\":[]");
    free(text);
    small_close(s);
}

TEST(plan_file, groups_are_written_by_their_smallest_op) {
    small *s = small_open(three_in_a_row);
    set_groups(s, 9, 3, 3);
    char *text = written(s->simulator, s->plan, NULL, false);
    CHECK_CONTAINS(text, "\"tasks\":[\"placement\",\"schedule\",\"fusion\"],");
    CHECK_CONTAINS(text, "\"group\":[-1,1,2,2]");
    free(text);
    set_groups(s, -1, 3, 3); /* recomputed: fused, too */
    text = written(s->simulator, s->plan, NULL, false);
    CHECK_CONTAINS(text, "\"fusion\"");
    CHECK_CONTAINS(text, "\"group\":[-1,-1,2,2]");
    free(text);
    small_close(s);
}

static stw_result *optimize(const small *s, const char *objective, const char *tasks) {
    stw_options *options;
    stw_result *result = NULL;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "evaluations", "20", NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "seed", "5", NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "threads", "1", NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "objective", objective, NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "tasks", tasks, NULL), STW_OK);
    CHECK_EQ_INT(stw_optimize(s->simulator, options, NULL, &result, NULL), STW_OK);
    stw_options_destroy(options);
    return result;
}

/* A chain of 9 us on devices that are far apart: the default is the best, and meets the bound. */
TEST(plan_file, result_of_a_search) {
    small *s = small_open(three_in_a_row);
    stw_result *result = optimize(s, "time", "placement");
    char *whole = written(s->simulator, NULL, result, false), *head = written(s->simulator, NULL, result, true);
    CHECK_CONTAINS(head, "\"tasks\":[\"placement\"],\"method\":\"single\",\"seed\":5,\"objective\":\"time\",");
    CHECK_CONTAINS(head, "\"value\":9e-06,\"step_s\":9e-06,\"valid\":true,\"lower_bound_s\":");
    CHECK_CONTAINS(head, "{\"method\":\"single\",\"step_s\":9e-06,\"value\":9e-06,\"valid\":true,\"reason\":null,");
    CHECK(strstr(head, "\"device\":") == NULL);
    const char *timings = strstr(head, "\"timings\":{\"search_s\":["); /* where the head ends; the file has none */
    if (CHECK(timings != NULL)) CHECK_EQ_INT(strncmp(head, whole, (size_t)(timings - head)), 0);
    CHECK(strstr(whole, "search_s") == NULL);
    CHECK_CONTAINS(whole, "\"optimal\":true,");
    stw_plan *plan = NULL;
    stw_evaluation evaluation = {0};
    CHECK_EQ_INT(stw_plan_parse(whole, strlen(whole), "plan", s->graph, s->machine, &plan, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulate(s->simulator, plan, s->workspace, &evaluation, NULL), STW_OK);
    CHECK_EQ_INT(evaluation.step_ps, 9000000);
    stw_plan_destroy(plan);
    free(whole);
    free(head);
    stw_result_destroy(result);
    small_close(s);
}

/* The value is in the objective's unit: b and c hold 4 bytes each while c runs. */
TEST(plan_file, value_of_the_objective) {
    small *s = small_open(three_in_a_row);
    stw_result *result = optimize(s, "memory", "placement,schedule");
    char *head = written(s->simulator, NULL, result, true);
    CHECK_CONTAINS(head, "\"objective\":\"memory\",\"value\":8,\"step_s\":");
    free(head);
    stw_result_destroy(result);
    small_close(s);
}

TEST(plan_file, nothing_to_write_without_a_plan) {
    small_text text = three_in_a_row;
    text.devices = DEVICE("d0", "h200", 3) DEVICE("d1", "h200", 3);
    small *s = small_open(text);
    stw_result *result = optimize(s, "time", "placement,schedule");
    stw_error error = {0};
    CHECK(stw_result_plan(result) == NULL);
    CHECK_EQ_INT(stw_result_write(result, "/tmp/stowage-test-never", false, &error), STW_ERROR_NO_PLAN);
    CHECK(access("/tmp/stowage-test-never", F_OK) != 0);
    char *head = written(s->simulator, NULL, result, true);
    CHECK_CONTAINS(head, "\"method\":null,\"seed\":5,\"objective\":\"time\",\"value\":null,\"step_s\":null,\"valid\":false,");
    CHECK_CONTAINS(
        head,
        "\"measured_share\":null,\"peak_bytes\":[],\"noise\":null,\"warnings\":[],\"candidates\":[\n{\"method\":\"single\",");
    free(head);
    stw_result_destroy(result);
    small_close(s);
}
