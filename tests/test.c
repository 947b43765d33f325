#include "test.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static test_case *first, **last = &first;

static struct {
    const test_case *test;
    int64_t checks, failures;
    bool skipped;
    char context[200];
} current;

void test_register(test_case *test) {
    *last = test;
    last = &test->next;
}

void test_context(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(current.context, sizeof current.context, format, arguments);
    va_end(arguments);
}

/* The beginning of a failure's line; the caller writes the values and the line's end. */
static void begin_failure(const char *file, int line) {
    current.failures++;
    printf("%s:%d: %s.%s: ", file, line, current.test->module, current.test->name);
    if (current.context[0] != '\0') printf("[%s] ", current.context);
}

bool test_check(bool held, const char *text, const char *file, int line) {
    current.checks++;
    if (held) return true;
    begin_failure(file, line);
    printf("%s is false\n", text);
    return false;
}

bool test_check_int(int64_t a, int64_t b, const char *text, const char *file, int line) {
    current.checks++;
    if (a == b) return true;
    begin_failure(file, line);
    printf("%s fails: %" PRId64 " and %" PRId64 "\n", text, a, b);
    return false;
}

bool test_check_near(double a, double b, double tolerance, const char *text, const char *file, int line) {
    current.checks++;
    if (fabs(a - b) <= tolerance || a == b) return true; /* NaN is near nothing; an infinity equals itself */
    begin_failure(file, line);
    printf("%s fails: %.17g and %.17g differ by %.3g, allowed is %.3g\n", text, a, b, fabs(a - b), tolerance);
    return false;
}

bool test_check_str(const char *a, const char *b, const char *text, const char *file, int line) {
    current.checks++;
    if (a != NULL && b != NULL && strcmp(a, b) == 0) return true;
    begin_failure(file, line);
    printf("%s fails: \"%s\" and \"%s\"\n", text, a != NULL ? a : "(NULL)", b != NULL ? b : "(NULL)");
    return false;
}

bool test_check_contains(const char *whole, const char *part, const char *text, const char *file, int line) {
    current.checks++;
    if (whole != NULL && strstr(whole, part) != NULL) return true;
    begin_failure(file, line);
    printf("%s lacks \"%s\": \"%s\"\n", text, part, whole != NULL ? whole : "(NULL)");
    return false;
}

int test_cases(int all) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return (all + 3) / 4;
#else
    return all;
#endif
}

void test_skip(const char *reason) {
    current.skipped = true;
    printf("%s.%s skipped: %s\n", current.test->module, current.test->name, reason);
}

static bool selected(const test_case *test, const char *filter) {
    char name[300];
    snprintf(name, sizeof name, "%s.%s", test->module, test->name);
    return strstr(name, filter) != NULL;
}

int main(int argc, char **argv) {
    const char *filter = argc > 1 ? argv[1] : "";
    int passed = 0, failed = 0, skipped = 0;
    setvbuf(stdout, NULL, _IOLBF, 1 << 12); /* what came before a crash is seen */
    for (const test_case *test = first; test != NULL; test = test->next) {
        if (!selected(test, filter)) continue;
        memset(&current, 0, sizeof current);
        current.test = test;
        test->run();
        current.context[0] = '\0';
        if (current.checks == 0 && !current.skipped) {
            begin_failure(test->file, test->line);
            puts("no check was executed");
        }
        if (current.failures > 0) {
            failed++;
        } else if (current.skipped) {
            skipped++;
        } else {
            passed++;
        }
    }
    const bool none = passed + failed + skipped == 0;
    if (none) printf("no test matches \"%s\"\n", filter);
    printf("%d passed, %d failed", passed, failed);
    if (skipped > 0) printf(", %d skipped", skipped);
    putchar('\n');
    return failed > 0 || none ? 1 : 0;
}
