/* base/json: what is read, exactly where reading fails, and that what is written reads back. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "base/json.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

/* A reader on an exact copy of a text, so that the address sanitizer sees one byte too many. */
typedef struct {
    stw_json json;
    stw_arena strings;
    stw_error error;
    char *copy;
} session;

static stw_json *begin(session *s, const char *text, int64_t length) {
    memset(s, 0, sizeof *s);
    CHECK_EQ_INT(stw_arena_create(&s->strings, NULL), STW_OK);
    s->copy = malloc(length > 0 ? (size_t)length : 1);
    if (length > 0) memcpy(s->copy, text, (size_t)length);
    stw_json_init(&s->json, (stw_str){s->copy, length}, &s->strings, &s->error);
    return &s->json;
}

static void end(session *s) {
    stw_arena_destroy(&s->strings);
    free(s->copy);
}

/* Reads one value of any kind and expects the end; the message goes to `message`. */
static stw_status validate(const char *text, int64_t length, char message[500]) {
    session s;
    stw_json *json = begin(&s, text, length);
    stw_json_skip(json, NULL);
    const stw_status status = stw_json_finish(json);
    if (message != NULL) memcpy(message, s.error.message, 500);
    end(&s);
    return status;
}

TEST(json, position_of_each_failure) {
    static const struct {
        const char *text;
        int line, column;
        const char *says;
    } cases[] = {
        {"", 1, 1, "the text ends where a value should be"},
        {"   ", 1, 4, "the text ends where a value should be"},
        {"x", 1, 1, "not a JSON value"},
        {"'a'", 1, 1, "not a JSON value"},
        {"/* no */ 1", 1, 1, "not a JSON value"},
        {"[", 1, 2, "the text ends before the closing ']'"},
        {"[1", 1, 3, "the text ends before the closing ']'"},
        {"[1,", 1, 4, "the text ends where a value should be"},
        {"[1,]", 1, 4, "nothing follows this ','"},
        {"[,1]", 1, 2, "not a JSON value"},
        {"[1,,2]", 1, 4, "not a JSON value"},
        {"[1 2]", 1, 4, "',' or ']' is expected here"},
        {"[1}", 1, 3, "',' or ']' is expected here"},
        {"[1]]", 1, 4, "text after the end"},
        {"{", 1, 2, "the text ends before the closing '}'"},
        {"{\"a\"", 1, 5, "':' is expected after a key"},
        {"{\"a\"}", 1, 5, "':' is expected after a key"},
        {"{\"a\":", 1, 6, "the text ends where a value should be"},
        {"{\"a\":}", 1, 6, "not a JSON value"},
        {"{\"a\":1,}", 1, 8, "nothing follows this ','"},
        {"{\"a\":1,,}", 1, 8, "a string is expected here, but something else stands here"},
        {"{,}", 1, 2, "a string is expected here, but something else stands here"},
        {"{a:1}", 1, 2, "a string is expected here, but something else stands here"},
        {"{1:1}", 1, 2, "a string is expected here, but a number stands here"},
        {"{\"a\":1 \"b\":2}", 1, 8, "',' or '}' is expected here"},
        {"{\"a\":1]", 1, 7, "',' or '}' is expected here"},
        {"{\"a\":1;", 1, 7, "',' or '}' is expected here"},
        {"\n\n [tru]", 3, 3, "'true' is expected here"},
        {"[fals]", 1, 2, "'false' is expected here"},
        {"[nul", 1, 2, "'null' is expected here"},
        {"[truer]", 1, 6, "',' or ']' is expected here"},
        {"[1,2]\n\n\tx", 3, 2, "text after the end"},
        {"[\r\n1\r\n2]", 3, 1, "',' or ']' is expected here"},
        {"\"abc", 1, 1, "the string that begins here has no closing quote"},
        {"\"abc\\", 1, 1, "the string that begins here has no closing quote"},
        {"\"abc\\\"", 1, 1, "the string that begins here has no closing quote"},
        {"[\"a\tb\"]", 1, 4, "a control character within a string"},
        {"[\"a\nb\"]", 1, 4, "a control character within a string"},
        {"\"ab\\x\"", 1, 5, "unknown escape in a string"},
        {"\"\\U0041\"", 1, 3, "unknown escape in a string"},
        {"\"\\u12G4\"", 1, 4, "a \\u escape needs four hexadecimal digits"},
        {"\"\\u12\"  ", 1, 4, "a \\u escape needs four hexadecimal digits"},
        {"\"\\u12\"", 1, 4, "the text ends within a \\u escape"},
        {"\"\\ud800\"", 1, 8, "half of a \\u surrogate pair"},
        {"\"\\udc00\"", 1, 8, "half of a \\u surrogate pair"},
        {"\"\\ud800\\n\"", 1, 8, "half of a \\u surrogate pair"},
        {"\"\\ud800\\u0041\"", 1, 14, "half of a \\u surrogate pair"},
        {"\"\\ud800\\ud800\"", 1, 14, "half of a \\u surrogate pair"},
        {"\"\x80\"", 1, 2, "not UTF-8"},
        {"\"a\xc0\xaf\"", 1, 3, "not UTF-8"},
        {"\"\xe0\x80\x80\"", 1, 2, "not UTF-8"},
        {"\"\xed\xa0\x80\"", 1, 2, "not UTF-8"},
        {"\"\xf0\x80\x80\x80\"", 1, 2, "not UTF-8"},
        {"\"\xf4\x90\x80\x80\"", 1, 2, "not UTF-8"},
        {"\"\xff\"", 1, 2, "not UTF-8"},
        {"\"\xe2\x82\"", 1, 2, "not UTF-8"},
        {"\"\\\xe2\x82\"", 1, 3, "not UTF-8"},
        {"[-]", 1, 2, "a number needs digits"},
        {"-", 1, 1, "a number needs digits"},
        {"-Infinity", 1, 1, "a number needs digits"},
        {"[01]", 1, 2, "a number must not begin with 0"},
        {"[-00]", 1, 2, "a number must not begin with 0"},
        {"[1.]", 1, 2, "digits are missing after the decimal point"},
        {"1.", 1, 1, "digits are missing after the decimal point"},
        {"[1.e5]", 1, 2, "digits are missing after the decimal point"},
        {"[1e]", 1, 2, "digits are missing in the exponent"},
        {"[1e+", 1, 2, "digits are missing in the exponent"},
        {"[1e+-5]", 1, 2, "digits are missing in the exponent"},
        {"[.5]", 1, 2, "not a JSON value"},
        {"[+1]", 1, 2, "not a JSON value"},
        {"[NaN]", 1, 2, "not a JSON value"},
        {"[Infinity]", 1, 2, "not a JSON value"},
        {"[1.5.2]", 1, 5, "',' or ']' is expected here"},
        {"[0x10]", 1, 3, "',' or ']' is expected here"},
        {"[1_000]", 1, 3, "',' or ']' is expected here"},
    };
    char message[500], place[60];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_context("case %zu: %.30s", i, cases[i].text);
        CHECK_EQ_INT(validate(cases[i].text, (int64_t)strlen(cases[i].text), message), STW_ERROR_INPUT);
        snprintf(place, sizeof place, "line %d, column %d: ", cases[i].line, cases[i].column);
        CHECK_CONTAINS(message, place);
        CHECK_CONTAINS(message, cases[i].says);
        CHECK(strchr(message, '\n') == NULL);
    }
}

TEST(json, a_nul_byte_is_no_end) {
    char message[500];
    CHECK_EQ_INT(validate("[1]\0", 4, message), STW_ERROR_INPUT);
    CHECK_CONTAINS(message, "line 1, column 4: text after the end");
    CHECK_EQ_INT(validate("\"a\0b\"", 5, message), STW_ERROR_INPUT);
    CHECK_CONTAINS(message, "line 1, column 3: a control character");
    CHECK_EQ_INT(validate("\"\\\0\"", 4, message), STW_ERROR_INPUT);
    CHECK_CONTAINS(message, "unknown escape");
}

TEST(json, what_is_valid) {
    static const char *const cases[] = {
        "0",
        "-0",
        "1e5",
        "1E-5",
        "-1.25e+10",
        "true",
        "false",
        "null",
        "\"\"",
        "[]",
        "{}",
        " \t\r\n[ ] \n",
        "[[],{}]",
        "{\"a\":1,\"a\":2,\"a\":[3]}", /* repeated keys: whoever reads decides */
        "{\"\":\"\"}",
        "\"\\u0000\\ud83d\\ude00\"",
        "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f\"",
        "[1,2,[3,[4]],{\"k\":{\"l\":null}}]",
        "1e400", /* a number by its grammar; only reading it as a double fails */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_context("%s", cases[i]);
        CHECK_EQ_INT(validate(cases[i], (int64_t)strlen(cases[i]), NULL), STW_OK);
    }
    stw_json json;
    stw_error error;
    stw_json_init(&json, (stw_str){NULL, 0}, NULL, &error);
    CHECK_EQ_INT(stw_json_peek(&json), STW_JSON_NONE);
    CHECK_EQ_INT(stw_json_finish(&json), STW_OK); /* nothing was asked for, nothing is left */
}

static const char small[] = "{\"a\":[1,-2.5e3,\"x\\u00e9\\\"y\xc3\xa9\",true,false,null,{}],\n \"b\":{\"c\":[[]]}}";

TEST(json, every_truncation_fails) {
    const int64_t length = (int64_t)sizeof small - 1;
    CHECK_EQ_INT(validate(small, length, NULL), STW_OK);
    for (int64_t cut = 0; cut < length; cut++) {
        char message[500];
        test_context("cut at %d", (int)cut);
        CHECK_EQ_INT(validate(small, cut, message), STW_ERROR_INPUT);
        CHECK_CONTAINS(message, "line ");
    }
}

TEST(json, no_changed_byte_crashes) {
    int64_t failures = 0, total = 0;
    char text[sizeof small];
    session s;
    for (size_t i = 0; i + 1 < sizeof small; i++) {
        for (int byte = 0; byte < 256; byte += i % 2 == 0 ? 1 : 7) {
            memcpy(text, small, sizeof small);
            text[i] = (char)byte;
            stw_json *json = begin(&s, text, (int64_t)sizeof small - 1);
            stw_json_skip(json, NULL);
            failures += stw_json_finish(json) != STW_OK;
            total++;
            end(&s);
        }
    }
    CHECK(failures > total / 2 && failures < total);
}

TEST(json, nesting_is_limited) {
    enum { DEEP = 100000 };
    char *text = malloc(5 * DEEP), message[500];
    memset(text, '[', DEEP);
    CHECK_EQ_INT(validate(text, DEEP, message), STW_ERROR_INPUT);
    CHECK_CONTAINS(message, "line 1, column 65: nested deeper than 64 levels");
    for (int i = 0; i < DEEP; i++) memcpy(text + 5 * i, "{\"a\":", 5);
    CHECK_EQ_INT(validate(text, 5 * DEEP, message), STW_ERROR_INPUT);
    CHECK_CONTAINS(message, "line 1, column 321: nested deeper than 64 levels");
    memset(text, '[', STW_JSON_MAX_DEPTH);
    memset(text + STW_JSON_MAX_DEPTH, ']', STW_JSON_MAX_DEPTH);
    CHECK_EQ_INT(validate(text, 2 * STW_JSON_MAX_DEPTH, message), STW_OK);
    memset(text, '[', STW_JSON_MAX_DEPTH + 1);
    memset(text + STW_JSON_MAX_DEPTH + 1, ']', STW_JSON_MAX_DEPTH + 1);
    CHECK_EQ_INT(validate(text, 2 * STW_JSON_MAX_DEPTH + 2, message), STW_ERROR_INPUT);
    /* Depth that was left does not count: wide is not deep. */
    text[0] = '[';
    for (int i = 0; i < 1000; i++) memcpy(text + 1 + 3 * i, "[],", 3);
    text[3000] = ']';
    CHECK_EQ_INT(validate(text, 3001, message), STW_OK);
    free(text);
}

TEST(json, commas_are_watched_on_every_level) {
    char text[200];
    for (int depth = 1; depth <= STW_JSON_MAX_DEPTH; depth++) { /* [[...[1 2]...]] with the fault on one level */
        memset(text, '[', (size_t)depth);
        memcpy(text + depth, "1 2", 3);
        memset(text + depth + 3, ']', (size_t)depth);
        CHECK_EQ_INT(validate(text, 2 * depth + 3, NULL), STW_ERROR_INPUT);
        text[depth + 1] = ',';
        CHECK_EQ_INT(validate(text, 2 * depth + 3, NULL), STW_OK);
    }
}

TEST(json, whole_numbers) {
    static const struct {
        const char *text;
        bool ok;
        int64_t value;
    } cases[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"-17", true, -17},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0}, /* 2^63 */
        {"-9223372036854775809", false, 0},
        {"18446744073709551615", false, 0},
        {"18446744073709551617", false, 0}, /* 1 modulo 2^64 */
        {"1e3", true, 1000},
        {"3.0", true, 3},
        {"-2.50e1", true, -25},
        {"1e15", true, 1000000000000000},
        {"9007199254740991.0", true, 9007199254740991},
        {"3.5", false, 0},
        {"1e-1", false, 0},
        {"1e19", false, 0},
        {"1e400", false, 0},
        {"123456789012345678901234567890123456789012345678901234567890", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        session s;
        char text[160];
        const int length = snprintf(text, sizeof text, "[%s]", cases[i].text);
        test_context("%s", cases[i].text);
        stw_json *json = begin(&s, text, length);
        int64_t value = -99;
        CHECK(stw_json_array(json) && stw_json_item(json));
        CHECK_EQ_INT(stw_json_int64(json, &value), cases[i].ok);
        CHECK_EQ_INT(stw_json_item(json), false);
        CHECK_EQ_INT(stw_json_finish(json), cases[i].ok ? STW_OK : STW_ERROR_INPUT);
        if (cases[i].ok) {
            CHECK_EQ_INT(value, cases[i].value);
        } else {
            snprintf(text, sizeof text, "line 1, column 2: %s is not a 64-bit whole number", cases[i].text);
            CHECK_STR(s.error.message, text);
        }
        end(&s);
    }
}

TEST(json, doubles_out_of_range) {
    static const char *const cases[] = {"1e309", "-1e309", "1.8e308", "1e99999", "1e999999999999999999999"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        session s;
        stw_json *json = begin(&s, cases[i], (int64_t)strlen(cases[i]));
        double value = 0.0;
        CHECK(!stw_json_double(json, &value));
        CHECK_CONTAINS(s.error.message, "line 1, column 1: ");
        CHECK_CONTAINS(s.error.message, "is out of range");
        end(&s);
    }
    session s;
    double value = 1.0;
    stw_json *json = begin(&s, "1e-400", 6);
    CHECK(stw_json_double(json, &value) && value == 0.0);
    end(&s);
}

TEST(json, strings_are_decoded) {
    static const struct {
        const char *text, *value;
        int64_t length;
    } cases[] = {
        {"\"\"", "", 0},
        {"\"plain\"", "plain", 5},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8},
        {"\"\\u0041\\u00e9\\u20AC\"", "A\xc3\xa9\xe2\x82\xac", 6},
        {"\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80", 4},
        {"\"\\ud800\\udc00\\udbff\\udfff\"", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8},
        {"\"\\u007f\\u0080\\u07ff\\u0800\\uffff\"", "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf", 11},
        {"\"a\\u0000b\"", "a\0b", 3},
        {"\"\\\\\"", "\\", 1},
        {"\"\xf0\x9f\x98\x80 \\n\"", "\xf0\x9f\x98\x80 \n", 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        session s;
        stw_str value = {0};
        test_context("%s", cases[i].text);
        stw_json *json = begin(&s, cases[i].text, (int64_t)strlen(cases[i].text));
        if (CHECK(stw_json_string(json, &value))) CHECK(stw_str_equal(value, (stw_str){cases[i].value, cases[i].length}));
        CHECK_EQ_INT(stw_json_finish(json), STW_OK);
        end(&s);
    }
    session s;
    stw_str value = {0};
    stw_json *json = begin(&s, "\"view\"", 6);
    CHECK(stw_json_string(json, &value));
    CHECK(value.p == s.copy + 1); /* no copy without escapes */
    end(&s);
}

TEST(json, a_failure_stays_and_stops_everything) {
    session s;
    stw_str key, raw = {0};
    int64_t number = 0;
    double real = 0.0;
    bool flag = false;
    stw_json *json = begin(&s, "{\"a\":[1,\"two\",3],\"b\":4}", 24);
    CHECK(stw_json_object(json) && stw_json_key(json, &key) && stw_str_is(key, "a"));
    CHECK(stw_json_array(json) && stw_json_item(json) && stw_json_int64(json, &number) && stw_json_item(json));
    CHECK(!stw_json_int64(json, &number));
    CHECK_STR(s.error.message, "line 1, column 9: a number is expected here, but a string stands here");
    CHECK_EQ_INT(stw_json_peek(json), STW_JSON_NONE);
    CHECK(!stw_json_item(json) && !stw_json_key(json, &key) && !stw_json_object(json) && !stw_json_array(json));
    CHECK(!stw_json_string(json, &key) && !stw_json_int64(json, &number) && !stw_json_double(json, &real));
    CHECK(!stw_json_bool(json, &flag) && !stw_json_null(json) && !stw_json_skip(json, &raw));
    CHECK(!stw_json_fail(json, "a later error"));
    CHECK_EQ_INT(stw_json_finish(json), STW_ERROR_INPUT);
    CHECK_STR(s.error.message, "line 1, column 9: a number is expected here, but a string stands here");
    end(&s);
}

TEST(json, wrong_types_are_named) {
    static const struct {
        const char *text;
        stw_json_type type;
        const char *name;
    } values[] = {{"{}", STW_JSON_OBJECT, "an object"},   {"[]", STW_JSON_ARRAY, "an array"},
                  {"\"s\"", STW_JSON_STRING, "a string"}, {"-1", STW_JSON_NUMBER, "a number"},
                  {"true", STW_JSON_BOOL, "a boolean"},   {"null", STW_JSON_NULL, "null"}};
    for (int have = 0; have < 6; have++) {
        for (int want = 0; want < 6; want++) {
            session s;
            stw_str text;
            double number;
            bool flag;
            char expected[200];
            stw_json *json = begin(&s, values[have].text, (int64_t)strlen(values[have].text));
            CHECK_EQ_INT(stw_json_peek(json), values[have].type);
            const bool ok = want == 0   ? stw_json_object(json)
                            : want == 1 ? stw_json_array(json)
                            : want == 2 ? stw_json_string(json, &text)
                            : want == 3 ? stw_json_double(json, &number)
                            : want == 4 ? stw_json_bool(json, &flag)
                                        : stw_json_null(json);
            CHECK_EQ_INT(ok, have == want);
            snprintf(expected, sizeof expected, "line 1, column 1: %s is expected here, but %s stands here", values[want].name,
                     values[have].name);
            CHECK_STR(s.error.message, ok ? "" : expected);
            end(&s);
        }
    }
}

TEST(json, errors_may_be_ignored) {
    stw_json json;
    stw_json_init(&json, STW_STR("nonsense"), NULL, NULL);
    CHECK(!stw_json_skip(&json, NULL));
    CHECK_EQ_INT(stw_json_finish(&json), STW_ERROR_INPUT);
}

TEST(json, skipping_gives_the_text) {
    session s;
    stw_str key, raw = {0};
    static const char text[] = "{ \"a\" : {\"x\":[1, \"]}\\\"\"]} , \"b\" :\t-1.5e3 }";
    stw_json *json = begin(&s, text, (int64_t)sizeof text - 1);
    CHECK(stw_json_object(json) && stw_json_key(json, &key) && stw_json_skip(json, &raw));
    CHECK(stw_str_is(raw, "{\"x\":[1, \"]}\\\"\"]}"));
    CHECK(stw_json_key(json, &key) && stw_str_is(key, "b") && stw_json_skip(json, &raw));
    CHECK(stw_str_is(raw, "-1.5e3"));
    CHECK(!stw_json_key(json, &key));
    CHECK_EQ_INT(stw_json_finish(json), STW_OK);
    end(&s);
}

/* JSON is shown on terminals too, and is UTF-8 whatever the names in a file are. */
TEST(json, what_would_steer_a_terminal_is_escaped) {
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    stw_json_writer writer;
    stw_json_writer_init(&writer, file);
    stw_json_write_string(&writer, STW_STR("\x1b\x7f\xc2\x9b\xe2\x80\xae\xff\xf0\x9f\x98\x80\xe2\x82"));
    fclose(file);
    CHECK_STR(text, "\"\\u001b\\u007f\\u009b\\u202e\\ufffd\xf0\x9f\x98\x80\\ufffd\\ufffd\"");
    free(text);
}

TEST(json, the_writer_writes_this) {
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    stw_json_writer writer;
    stw_json_writer_init(&writer, file);
    stw_json_begin_object(&writer);
    stw_json_write_key(&writer, "a\"b");
    stw_json_begin_array(&writer);
    stw_json_write_int64(&writer, INT64_MIN);
    stw_json_write_double(&writer, 0.1);
    stw_json_write_double(&writer, (double)NAN);
    stw_json_write_double(&writer, (double)INFINITY);
    stw_json_write_bool(&writer, true);
    stw_json_begin_array(&writer);
    stw_json_end_array(&writer);
    stw_json_begin_object(&writer);
    stw_json_end_object(&writer);
    stw_json_end_array(&writer);
    stw_json_newline(&writer);
    stw_json_write_key(&writer, "s");
    stw_json_write_string(&writer, STW_STR("\x01\n\\\"\xc3\xa9\0z"));
    stw_json_write_key(&writer, "n");
    stw_json_write_null(&writer);
    stw_json_end_object(&writer);
    fclose(file);
    CHECK_STR(text,
              "{\"a\\\"b\":[-9223372036854775808,0.1,null,null,true,[],{}],\n"
              "\"s\":\"\\u0001\\u000a\\\\\\\"\xc3\xa9\\u0000z\",\"n\":null}");
    CHECK_EQ_INT(validate(text, (int64_t)size, NULL), STW_OK);
    free(text);
}

static const double special[] = {0.0,
                                 -0.0,
                                 1.0,
                                 0.1,
                                 1.0 / 3.0,
                                 1e-308,
                                 DBL_MIN,
                                 4.9406564584124654e-324,
                                 DBL_MAX,
                                 -DBL_MAX,
                                 DBL_EPSILON,
                                 123456789.123456789,
                                 9007199254740993.0,
                                 1e22,
                                 1e23,
                                 5e-5,
                                 14.2,
                                 1e21,
                                 2.2250738585072011e-308,
                                 0.30000000000000004};

/* Doubles whose text does not read back to the same bits. */
static int64_t count_lossy_doubles(void) {
    char *text = NULL;
    size_t size = 0;
    enum { SPECIAL = sizeof special / sizeof special[0], COUNT = 20000 };
    double *values = malloc(COUNT * sizeof *values);
    uint64_t state = 88172645463325252u;
    for (int i = 0; i < COUNT; i++) { /* any bit pattern that is finite */
        do {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            memcpy(&values[i], &state, sizeof state);
        } while (!isfinite(values[i]));
        if (i < SPECIAL) values[i] = special[i];
        if (i >= COUNT / 2) values[i] = (double)(int64_t)(state >> 34) / 1000.0; /* such as measured times */
    }
    FILE *file = open_memstream(&text, &size);
    stw_json_writer writer;
    stw_json_writer_init(&writer, file);
    stw_json_begin_array(&writer);
    for (int i = 0; i < COUNT; i++) stw_json_write_double(&writer, values[i]);
    stw_json_end_array(&writer);
    fclose(file);
    session s;
    stw_json *json = begin(&s, text, (int64_t)size);
    int64_t count = 0, lossy = 0;
    double back = 0.0;
    CHECK(stw_json_array(json));
    while (stw_json_item(json) && stw_json_double(json, &back)) {
        if (count < COUNT) lossy += memcmp(&back, &values[count], sizeof back) != 0;
        count++;
    }
    CHECK_EQ_INT(stw_json_finish(json), STW_OK);
    CHECK_EQ_INT(count, COUNT);
    end(&s);
    free(values);
    free(text);
    return lossy;
}

TEST(json, doubles_read_back_exactly) {
    CHECK_EQ_INT(count_lossy_doubles(), 0);
    char text[32];
    CHECK_EQ_INT(stw_format_double(text, 0.1), 3);
    CHECK_STR(text, "0.1");
    stw_format_double(text, 14.2);
    CHECK_STR(text, "14.2");
    stw_format_double(text, DBL_MAX);
    CHECK_STR(text, "1.7976931348623157e+308");
    stw_format_double(text, -0.0);
    CHECK_STR(text, "-0");
}

/* Numbers must not depend on the locale; true if this one is installed and was tried. */
static bool try_locale(const char *name) {
    if (setlocale(LC_ALL, name) == NULL) return false;
    char text[32], expected[32];
    snprintf(expected, sizeof expected, "2%s5", localeconv()->decimal_point);
    snprintf(text, sizeof text, "%.1f", 2.5);
    test_context("%s: %s", name, text);
    CHECK_STR(text, expected);
    CHECK(strcmp(text, "2.5") != 0); /* so the locale is in force */
    CHECK_EQ_INT(count_lossy_doubles(), 0);
    stw_format_double(text, 2.5);
    CHECK_STR(text, "2.5");
    double value = 0.0;
    CHECK(stw_str_to_double(STW_STR("1234567890123456789.5"), &value) && value == 1234567890123456789.5);
    CHECK(!stw_str_to_double(STW_STR("2,5"), &value));
    setlocale(LC_ALL, "C");
    return true;
}

TEST(json, doubles_read_back_exactly_where_people_write_a_comma) {
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "es_ES.UTF-8", "it_IT.UTF-8",
                                        "pl_PL.UTF-8", "ru_RU.UTF-8", "pt_BR.UTF-8", "ps_AF.UTF-8" /* two bytes */};
    int tried = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) tried += try_locale(names[i]);
    if (tried == 0) SKIP("no locale with a decimal comma is installed");
}
