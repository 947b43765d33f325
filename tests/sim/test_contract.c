/* What the public interface asks of its callers (the conventions in stowage.h): what may be NULL, and that the rest is checked in
 * debug builds. */
#define _POSIX_C_SOURCE 200809L /* fork */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stowage.h"
#include "support/small.h"
#include "test.h"

TEST(contract, nothing_can_be_destroyed) {
    stw_options_destroy(NULL);
    stw_graph_destroy(NULL);
    stw_machine_destroy(NULL);
    stw_costs_destroy(NULL);
    stw_plan_destroy(NULL);
    stw_simulator_destroy(NULL);
    stw_workspace_destroy(NULL);
    stw_cancel_destroy(NULL);
    stw_result_destroy(NULL);
    stw_session_destroy(NULL);
    stw_bytes_free(NULL);
    CHECK(!stw_cancel_is_requested(NULL)); /* nobody can have asked */
}

TEST(contract, what_may_be_left_out) {
    stw_graph *graph = (stw_graph *)1;
    stw_session *session = (stw_session *)1;
    CHECK_EQ_INT(stw_graph_open("/nonexistent", NULL, &graph, NULL), STW_ERROR_INPUT); /* options and error */
    CHECK(graph == NULL);
    CHECK_EQ_INT(stw_session_open("/nonexistent", NULL, &session, NULL), STW_ERROR_INPUT);
    CHECK(session == NULL);
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 3) OP(1, "b", "[0]", 1, 4)});
    stw_result *result = NULL;
    stw_plan *plan = NULL;
    CHECK_EQ_INT(stw_method_run("single", s->simulator, NULL, &plan, NULL), STW_OK);
    CHECK_EQ_INT(stw_compare(s->simulator, "single", NULL, NULL, &result, NULL), STW_OK); /* watch */
    if (result != NULL) CHECK_EQ_INT(stw_result_noise(result).draws, 0);
    CHECK_EQ_INT(stw_plan_set_order(plan, 0, NULL, -1, NULL), STW_OK);
    stw_plan_destroy(plan);
    stw_result_destroy(result);
    small_close(s);
}

/* ---- what is checked ---- */

static void name_of_no_graph(void) { stw_graph_name(NULL); }
static void open_to_nowhere(void) { (void)!stw_graph_open("/nonexistent", NULL, NULL, NULL); }
static void simulate_nothing(void) { (void)!stw_simulate(NULL, NULL, NULL, NULL, NULL); }
static void best_of_no_result(void) { stw_result_best(NULL); }
static void warning_of_no_costs(void) { stw_costs_warning(NULL, 0); }
static void option_without_a_name(void) {
    stw_options *options;
    if (stw_options_create(&options, NULL) == STW_OK) stw_options_get(options, NULL);
}

/* Runs it in a process of its own; returns the signal that ended it, and what it wrote to standard error. */
static int end_of(void (*call)(void), char *text, size_t size) {
    int ends[2], status = 0;
    text[0] = '\0';
    if (!CHECK(pipe(ends) == 0)) return 0;
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        signal(SIGABRT, SIG_DFL);
        call();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; length + 1 < size && (got = read(ends[0], text + length, size - 1 - length)) > 0;) length += (size_t)got;
    text[length] = '\0';
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(contract, debug_builds_say_who_was_called_with_nothing) {
    static const struct {
        void (*call)(void);
        const char *function, *argument;
    } rows[] = {{name_of_no_graph, "stw_graph_name", "graph"},       {open_to_nowhere, "stw_graph_open", "out"},
                {simulate_nothing, "stw_simulate", "simulator"},     {best_of_no_result, "stw_result_best", "result"},
                {warning_of_no_costs, "stw_costs_warning", "costs"}, {option_without_a_name, "stw_options_get", "name"}};
#ifdef NDEBUG
    (void)rows;
    (void)end_of;
    test_skip("a release build: nothing is checked");
#else
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        char text[4000];
        test_context("%s", rows[k].function);
        CHECK_EQ_INT(end_of(rows[k].call, text, sizeof text), SIGABRT);
        CHECK_CONTAINS(text, rows[k].function);
        CHECK_CONTAINS(text, rows[k].argument);
        CHECK_CONTAINS(text, "NULL is not allowed here");
    }
    test_context("%s", "");
#endif
}
