/* The public interface as a stranger would use it: sessions, and arguments that belong to something else. */
#include <math.h>
#include <string.h>

#include "base/escape.h"
#include "stowage.h"
#include "test.h"

static stw_options *options_with(const char *machine, const char *plan, const char *memory) {
    stw_options *options = NULL;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    if (machine != NULL) CHECK_EQ_INT(stw_options_set(options, "machine", machine, NULL), STW_OK);
    if (plan != NULL) CHECK_EQ_INT(stw_options_set(options, "plan", plan, NULL), STW_OK);
    if (memory != NULL) CHECK_EQ_INT(stw_options_set(options, "memory", memory, NULL), STW_OK);
    return options;
}

static stw_session *open_session(const char *machine, const char *plan, const char *memory, stw_error *error) {
    stw_options *options = options_with(machine, plan, memory);
    stw_session *session = NULL;
    const stw_status status = stw_session_open(STW_SOURCE_DIR "/data/graphs/rnnlm-2.json.gz", options, &session, error);
    CHECK_EQ_INT(status == STW_OK, session != NULL);
    stw_options_destroy(options);
    return session;
}

static stw_evaluation evaluate(const stw_session *session) {
    stw_workspace *workspace;
    stw_evaluation result;
    CHECK_EQ_INT(stw_workspace_create(stw_session_simulator(session), &workspace, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulate(stw_session_simulator(session), stw_session_plan(session), workspace, &result, NULL), STW_OK);
    stw_workspace_destroy(workspace);
    return result;
}

/* One device and no transfers: the step is the sum of the op times. */
TEST(session, one_device_takes_the_sum_of_its_ops) {
    stw_error error;
    stw_session *session = open_session("h200x1", "single", NULL, &error);
    if (!CHECK(session != NULL)) return;
    const stw_graph *graph = stw_session_graph(session);
    stw_costs *costs;
    double sum_us = 0.0;
    CHECK_EQ_INT(stw_costs_create(graph, stw_session_machine(session), NULL, &costs, &error), STW_OK);
    for (int32_t i = 0; i < stw_graph_node_count(graph); i++) sum_us += stw_costs_op_us(costs, i, 0);
    CHECK(sum_us > 16000.0);
    CHECK_NEAR(evaluate(session).step_s, sum_us / 1e6, 1e-9);
    CHECK(stw_session_warning(session, 0) == NULL && stw_session_warning(session, -1) == NULL);
    stw_costs_destroy(costs);
    stw_session_destroy(session);
}

TEST(session, options_count) {
    stw_error error;
    stw_session *tight = open_session("h200x2", "spread", "100MB", &error);
    if (CHECK(tight != NULL)) CHECK_EQ_INT(evaluate(tight).reason, STW_INVALID_MEMORY);
    stw_session_destroy(tight);
    stw_session *bare = open_session("h200x2", NULL, NULL, &error);
    if (CHECK(bare != NULL)) CHECK(stw_session_plan(bare) == NULL && stw_machine_device_count(stw_session_machine(bare)) == 2);
    stw_session_destroy(bare);
    CHECK(open_session(NULL, "spread", NULL, &error) == NULL);
    CHECK_CONTAINS(error.message, "machine");
    CHECK(open_session("h300x2", "spread", NULL, &error) == NULL);
    CHECK_CONTAINS(error.message, "h300x2");
    CHECK(open_session("h200x2", "no-such-plan", NULL, &error) == NULL);
    CHECK_CONTAINS(error.message, "no-such-plan");
    stw_session *none = NULL;
    CHECK_EQ_INT(stw_session_open("x", NULL, &none, &error), STW_ERROR_INPUT);
}

TEST(session, a_plan_of_another_machine_is_refused) {
    stw_session *two = open_session("h200x2", "spread", NULL, NULL), *slow = open_session("h200x2-pcie", "spread", NULL, NULL);
    stw_workspace *workspace;
    stw_evaluation result;
    stw_bounds bounds;
    stw_error error;
    if (!CHECK(two != NULL && slow != NULL)) return;
    const stw_simulator *simulator = stw_session_simulator(two);
    CHECK_EQ_INT(stw_workspace_create(simulator, &workspace, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulate(simulator, stw_session_plan(slow), workspace, &result, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "another graph or machine");
    CHECK_EQ_INT(stw_lower_bounds(simulator, stw_session_plan(slow), &bounds, &error), STW_ERROR_INPUT);
    CHECK(isnan(stw_measured_share(simulator, stw_session_plan(slow))));
    stw_workspace_destroy(workspace);
    stw_session_destroy(two);
    stw_session_destroy(slow);
}

TEST(session, reasons_have_names) {
    CHECK(stw_reason_name(STW_VALID) == NULL);
    CHECK_STR(stw_reason_name(STW_INVALID_COLOCATION), "colocation");
    CHECK_STR(stw_reason_name(STW_INVALID_MEMORY), "memory");
    CHECK(stw_reason_name((stw_reason)7) == NULL && stw_reason_name((stw_reason)-1) == NULL);
}

/* Messages are UTF-8 even where a name was cut in the middle of a character, and no escape reaches a terminal. */
TEST(session, messages_are_clean_text) {
    /* line break, escape, e acute, a C1 control, one that is no UTF-8, text that turns round, half a euro sign */
    char text[80] = "a\n\x1b[1m\xc3\xa9\xc2\x9b\x9b-\xe2\x80\xae\xe2\x82";
    stw_escape_text(text, sizeof text);
    CHECK_STR(text, "a\\n\\x1b[1m\xc3\xa9\\u009b\\x9b-\\u202e");
    char tight[8] =
        "ab\x1b"
        "cdef";
    stw_escape_text(tight, sizeof tight); /* an escape is whole or not there */
    CHECK_STR(tight, "ab\\x1bc");
    char full[4] =
        "a\x1b"
        "b";
    stw_escape_text(full, sizeof full);
    CHECK_STR(full, "a");
}
