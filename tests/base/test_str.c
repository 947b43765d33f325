/* base/str: strings with a length, and text to numbers. */
#include "base/str.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

TEST(str, comparing) {
    CHECK(stw_str_equal(stw_str_of("abc"), STW_STR("abc")));
    CHECK(!stw_str_equal(STW_STR("abc"), STW_STR("abd")));
    CHECK(!stw_str_equal(STW_STR("abc"), STW_STR("ab")));
    CHECK(stw_str_equal(stw_str_of(NULL), STW_STR("")));
    CHECK(stw_str_is(STW_STR("a\0b"), "a") == false); /* the length counts, not the NUL */
    CHECK(stw_str_is((stw_str){"abcdef", 3}, "abc"));
    CHECK(stw_str_is(stw_str_of(NULL), ""));
    CHECK(stw_str_starts(STW_STR("model.onnx"), "model"));
    CHECK(stw_str_starts(STW_STR("model"), ""));
    CHECK(!stw_str_starts(STW_STR("mo"), "model"));
    CHECK(stw_str_ends(STW_STR("model.onnx"), ".onnx"));
    CHECK(stw_str_ends(STW_STR("model"), ""));
    CHECK(!stw_str_ends(STW_STR("nnx"), ".onnx"));
    CHECK(!stw_str_ends((stw_str){"model.onnx", 9}, ".onnx"));
}

TEST(str, showing_cuts_long_names) {
    char text[200], name[120];
    memset(name, 'x', sizeof name);
    snprintf(text, sizeof text, "%.*s", STW_STR_SHOW(((stw_str){name, 120})));
    CHECK_EQ_INT(strlen(text), 80);
    snprintf(text, sizeof text, "[%.*s]", STW_STR_SHOW(stw_str_of(NULL)));
    CHECK_STR(text, "[]");
}

TEST(str, copying_and_formatting) {
    stw_arena arena;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    const stw_str copy = stw_str_copy(&arena, (stw_str){"abcdef", 3});
    CHECK_EQ_INT(copy.length, 3);
    CHECK_STR(copy.p, "abc");
    CHECK_STR(stw_str_copy(&arena, stw_str_of(NULL)).p, "");
    const stw_str text = stw_str_format(&arena, "%s has %d ops", "gnmt", 42);
    CHECK_STR(text.p, "gnmt has 42 ops");
    CHECK_EQ_INT(text.length, 15);
    CHECK_EQ_INT(stw_str_format(&arena, "%s", "").length, 0);
    CHECK_EQ_INT(stw_str_format(&arena, "%0*d", 100000, 7).length, 100000);
    stw_arena none = {0};
    CHECK(stw_str_copy(&none, copy).p == NULL);
    CHECK(stw_str_format(&none, "%d", 1).p == NULL);
    stw_arena_destroy(&arena);
}

TEST(str, hash_is_the_same_on_every_machine) {
    CHECK(stw_str_hash(STW_STR("")) == 0xcbf29ce44fd0bfc1u);
    CHECK(stw_str_hash(STW_STR("a")) == 0xaf63dc4c296230c0u);
    CHECK(stw_str_hash(STW_STR("foobar")) == 0x8594417172ad2699u);
    CHECK(stw_str_hash(STW_STR("a\0")) != stw_str_hash(STW_STR("a")));
    CHECK(stw_str_hash(STW_STR("\xff")) == stw_str_hash((stw_str){"\xff\x01", 1}));
}

TEST(str, whole_numbers) {
    static const struct {
        const char *text;
        bool ok;
        int64_t value;
    } cases[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"7", true, 7},
        {"-12", true, -12},
        {"0012", true, 12},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"18446744073709551616", false, 0},
        {"99999999999999999999999999", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {"+1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"1.0", false, 0},
        {"1e3", false, 0},
        {"--1", false, 0},
        {"0x10", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t value = 0;
        test_context("\"%s\"", cases[i].text);
        CHECK_EQ_INT(stw_str_to_int64(stw_str_of(cases[i].text), &value), cases[i].ok);
        if (cases[i].ok) CHECK_EQ_INT(value, cases[i].value);
    }
}

TEST(str, decimal_numbers) {
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"0", 0.0},
        {"1", 1.0},
        {"-2.5", -2.5},
        {"0.1", 0.1},
        {"1e3", 1e3},
        {"1E3", 1e3},
        {"1e+3", 1e3},
        {"1e-3", 1e-3},
        {"123456789012345678", 123456789012345678.0},
        {"12345678901234567890123", 12345678901234567890123.0},
        {"0.00000000000000000000000000001", 1e-29},
        {"9007199254740993", 9007199254740992.0}, /* 2^53 + 1 is a tie and goes to even */
        {"9007199254740993.00000000000000000001", 9007199254740994.0},
        {"1e22", 1e22},
        {"1e23", 1e23},
        {"8.5e-23", 8.5e-23},
        {"2.2250738585072014e-308", DBL_MIN},
        {"1e-308", 1e-308},
        {"5e-324", 4.9406564584124654e-324},
        {"2e-324", 0.0}, /* less than half of the smallest */
        {"1e-400", 0.0},
        {"0e400", 0.0},
        {"1.7976931348623157e308", DBL_MAX},
        {"-1.7976931348623157e308", -DBL_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double value = -1.0;
        test_context("\"%s\"", cases[i].text);
        if (!CHECK(stw_str_to_double(stw_str_of(cases[i].text), &value))) continue;
        CHECK(memcmp(&value, &cases[i].value, sizeof value) == 0);
    }
    double value = 1.0;
    CHECK(stw_str_to_double(STW_STR("-0"), &value) && value == 0.0 && signbit(value));
}

TEST(str, what_is_no_decimal_number) {
    static const char *const cases[] = {"",        "-",     "+1",    ".5",    "5.",       "5.e3",  "1e",    "1e+",
                                        "1e-",     "1e+-5", "1e--5", "e5",    "1.2.3",    "1 ",    " 1",    "1,5",
                                        "nan",     "NaN",   "inf",   "-inf",  "Infinity", "0x1p3", "1e400", "-1e400",
                                        "1.8e308", "1_000", "1e5x",  "1e5.0", "--1"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double value = 0.0;
        test_context("\"%s\"", cases[i]);
        CHECK(!stw_str_to_double(stw_str_of(cases[i]), &value));
    }
}

TEST(str, decimal_numbers_agree_with_the_library_of_c) {
    uint64_t state = 88172645463325252u;
    char text[64];
    int differing = 0;
    for (int i = 0; i < 20000; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        const int digits = (int)(state % 20) + 1, exponent = (int)((state >> 8) % 80) - 40;
        snprintf(text, sizeof text, "%.*llue%d", digits, (unsigned long long)(state >> (state % 60)), exponent);
        double value = 0.0;
        const bool ok = stw_str_to_double(stw_str_of(text), &value);
        differing += !ok || value != strtod(text, NULL);
    }
    CHECK_EQ_INT(differing, 0);
}

TEST(str, very_long_numbers) {
    static char text[5000];
    memset(text, '0', sizeof text);
    text[1] = '.';
    text[sizeof text - 1] = '1';
    double value = 1.0;
    CHECK(stw_str_to_double((stw_str){text, sizeof text}, &value) && value == 0.0);
    memset(text, '9', sizeof text);
    CHECK(!stw_str_to_double((stw_str){text, sizeof text}, &value));
    CHECK(stw_str_to_double((stw_str){text, 300}, &value));
    CHECK_NEAR(value / 1e300, 1.0, 1e-15);
}

TEST(str, sizes_in_bytes) {
    static const struct {
        const char *text;
        int64_t bytes; /* -1: refused */
    } cases[] = {
        {"0", 0},
        {"1000", 1000},
        {"4GB", 4000000000},
        {"4 GB", 4000000000},
        {"512MiB", 536870912},
        {"1.5TB", 1500000000000},
        {"2KiB", 2048},
        {"2kB", 2000},
        {"2KB", 2000},
        {"1TiB", 1099511627776},
        {"0.5GiB", 536870912},
        {"17B", 17},
        {"1e3", 1000},
        {"", -1},
        {"GB", -1},
        {"-1GB", -1},
        {"4G", -1},
        {"4gb", -1},
        {"4GBB", -1},
        {"x4GB", -1},
        {"NaN", -1},
        {"inf", -1},
        {"1e300GB", -1},
        {"9300000TB", -1},
        {"9223372036854775808", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t bytes = -1;
        test_context("\"%s\"", cases[i].text);
        const bool ok = stw_str_to_bytes(stw_str_of(cases[i].text), &bytes);
        CHECK_EQ_INT(ok ? bytes : -1, cases[i].bytes);
    }
}

TEST(error, messages_stay_one_line) {
    stw_error error;
    CHECK_EQ_INT(stw_fail(&error, STW_ERROR_IO, "node '%s' of %d", "a\nb\x1b[31m\x7f", 3), STW_ERROR_IO);
    CHECK_EQ_INT(error.status, STW_ERROR_IO);
    CHECK_STR(error.message, "node 'a\\nb\\x1b[31m\\x7f' of 3");
    stw_error_prefix(&error, "dir\nname.json");
    CHECK_STR(error.message, "dir\\nname.json: node 'a\\nb\\x1b[31m\\x7f' of 3");
    CHECK_EQ_INT(stw_fail(NULL, STW_ERROR_INPUT, "nobody listens"), STW_ERROR_INPUT);
    stw_error_prefix(NULL, "nobody listens");
}

TEST(error, long_messages_are_cut) {
    stw_error error;
    char name[1000];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    stw_fail(&error, STW_ERROR_INPUT, "%s", name);
    CHECK_EQ_INT(strlen(error.message), sizeof error.message - 1);
    stw_error_prefix(&error, "file");
    CHECK_EQ_INT(strlen(error.message), sizeof error.message - 1);
    CHECK_CONTAINS(error.message, "file: nnn");
    stw_error_prefix(&error, name);
    CHECK_EQ_INT(strlen(error.message), sizeof error.message - 1);
}
