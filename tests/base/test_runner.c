/* The test of the test runner: runs failing_example and reads its verdicts. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "test.h"

/* Runs the example with an argument; returns its exit status, -1 if it did not end by itself. */
static int run_example(const char *argument, char *output, size_t size) {
    char command[4096];
    snprintf(command, sizeof command, "'%s' %s", STW_FAILING_EXAMPLE, argument);
    output[0] = '\0';
    FILE *pipe = popen(command, "r");
    if (pipe == NULL) return -1;
    const size_t length = fread(output, 1, size - 1, pipe);
    output[length] = '\0';
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The closing line, without its line break. */
static const char *last_line(char *output) {
    const size_t length = strlen(output);
    if (length == 0 || output[length - 1] != '\n') return "(no line break at the end)";
    output[length - 1] = '\0';
    const char *line = strrchr(output, '\n');
    return line != NULL ? line + 1 : output;
}

TEST(runner, every_kind_of_failing_check_fails) {
    static const struct {
        const char *name, *shows;
    } cases[] = {
        {"example.condition", "1 + 1 == 3 is false"},
        {"example.integer", "2 and 3"},
        {"example.near", "1 and 1.5 differ by 0.5"},
        {"example.not_a_number", "nan and 0"},
        {"example.string", "\"left\" and \"right\""},
        {"example.null_string", "\"(NULL)\" and \"right\""},
        {"example.contains", "lacks \"needle\": \"haystack\""},
        {"example.checks_nothing", "no check was executed"},
    };
    char output[8192], place[200];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_context("%s", cases[i].name);
        CHECK_EQ_INT(run_example(cases[i].name, output, sizeof output), 1);
        CHECK_CONTAINS(output, "failing_example.c:");
        snprintf(place, sizeof place, ": %s: ", cases[i].name);
        CHECK_CONTAINS(output, place);
        CHECK_CONTAINS(output, cases[i].shows);
        CHECK_STR(last_line(output), "0 passed, 1 failed");
    }
}

TEST(runner, a_failed_check_does_not_end_its_test) {
    char output[8192];
    CHECK_EQ_INT(run_example("goes_on", output, sizeof output), 1);
    CHECK_CONTAINS(output, "[case 7] 10 == 11 fails: 10 and 11\n");
    CHECK_CONTAINS(output, "[case 7] 20 == 21 fails: 20 and 21\n");
    CHECK_STR(last_line(output), "0 passed, 1 failed");
}

TEST(runner, skipping) {
    char output[8192];
    CHECK_EQ_INT(run_example("example.is_skipped", output, sizeof output), 0);
    CHECK_CONTAINS(output, "example.is_skipped skipped: not today\n");
    CHECK_STR(last_line(output), "0 passed, 0 failed, 1 skipped");
    CHECK_EQ_INT(run_example("fails_before", output, sizeof output), 1);
    CHECK_STR(last_line(output), "0 passed, 1 failed");
}

TEST(runner, filter_and_totals) {
    char output[8192];
    CHECK_EQ_INT(run_example("example.holds", output, sizeof output), 0);
    CHECK_STR(output, "1 passed, 0 failed\n");
    CHECK_EQ_INT(run_example("", output, sizeof output), 1);
    CHECK_STR(last_line(output), "1 passed, 10 failed, 1 skipped");
    CHECK_EQ_INT(run_example("no.such.test", output, sizeof output), 1);
    CHECK_STR(last_line(output), "0 passed, 0 failed");
}
