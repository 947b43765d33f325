/* The test framework: every test registers itself, every check is counted, and the exit status is the verdict.
 *
 *     TEST(json, empty_array) {
 *         CHECK_EQ_INT(count_items("[]"), 0);
 *     }
 *
 * A program of such tests runs all of them, or with one argument those whose "module.name" contains it. Each failed check is
 * one line with its place and values; the closing line is "N passed, M failed" (", K skipped"). A test that executes no check
 * has failed, and so has a run in which the argument selects nothing. Checks belong to the main thread. */
#ifndef STW_TEST_H
#define STW_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct test_case {
    const char *module, *name, *file;
    int line;
    void (*run)(void);
    struct test_case *next;
} test_case;

void test_register(test_case *test);

#define TEST(module_, name_)                                                                            \
    static void test_##module_##_##name_(void);                                                         \
    __attribute__((constructor)) static void register_##module_##_##name_(void) {                       \
        static test_case test = {#module_, #name_, __FILE__, __LINE__, test_##module_##_##name_, NULL}; \
        test_register(&test);                                                                           \
    }                                                                                                   \
    static void test_##module_##_##name_(void)

/* Every check goes on after a failure and returns whether it held: `if (!CHECK(graph != NULL)) return;` */
#define CHECK(condition)            test_check((condition), #condition, __FILE__, __LINE__)
#define CHECK_EQ_INT(a, b)          test_check_int((int64_t)(a), (int64_t)(b), #a " == " #b, __FILE__, __LINE__)
#define CHECK_NEAR(a, b, tolerance) test_check_near((a), (b), (tolerance), #a " ~ " #b, __FILE__, __LINE__)
#define CHECK_STR(a, b)             test_check_str((a), (b), #a " == " #b, __FILE__, __LINE__)
#define CHECK_CONTAINS(text, part)  test_check_contains((text), (part), #text, __FILE__, __LINE__)

/* Leaves the test (not a function that it calls) and says why. */
#define SKIP(reason)         \
    do {                     \
        test_skip((reason)); \
        return;              \
    } while (0)

/* What the checks that follow are about, for tests that loop over cases: shown in failures, "" to end it. */
void test_context(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* How many of `all` random cases to try: all in an optimised build; under a sanitizer, where each takes eight times as long, a
 * quarter. */
int test_cases(int all);

bool test_check(bool held, const char *text, const char *file, int line);
bool test_check_int(int64_t a, int64_t b, const char *text, const char *file, int line);
bool test_check_near(double a, double b, double tolerance, const char *text, const char *file, int line);
bool test_check_str(const char *a, const char *b, const char *text, const char *file, int line);
bool test_check_contains(const char *whole, const char *part, const char *text, const char *file, int line);
void test_skip(const char *reason);

#endif
