/* import/pbtxt: the text format, by what it hands on for each text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/wire/pbfields.h"
#include "test.h"

static bool colour(stw_str name, int64_t *value) {
    *value = 7;
    return stw_str_is(name, "RED");
}

enum { NUMBER, TEXT, INNER, COLOUR, SHORT };
static const stw_wanted_field inner_fields[] = {{1, "n", STW_WANTED_NUMBER, NUMBER, NULL, NULL, 0}};
static const stw_wanted inner_wanted = {"inner", inner_fields, 1};
static const stw_wanted_field outer_fields[] = {
    {1, "n", STW_WANTED_NUMBER, NUMBER, NULL, NULL, 0},          {2, "s", STW_WANTED_TEXT, TEXT, NULL, NULL, 0},
    {3, "m", STW_WANTED_MESSAGE, INNER, &inner_wanted, NULL, 0}, {4, "c", STW_WANTED_NUMBER, COLOUR, NULL, colour, 0},
    {5, "four", STW_WANTED_TEXT, SHORT, NULL, NULL, 4},
};
static const stw_wanted outer_wanted = {"outer", outer_fields, 5};

/* What was handed on, as text: "1 'a' { 2 }". */
typedef struct {
    char text[4000];
    int length;
} record;

static stw_status add(record *r, const char *text, int length) {
    if (r->length + length + 2 > (int)sizeof r->text) return STW_ERROR_MEMORY;
    if (r->length > 0) r->text[r->length++] = ' ';
    memcpy(r->text + r->length, text, (size_t)length);
    r->length += length;
    r->text[r->length] = '\0';
    return STW_OK;
}

static stw_status on_begin(void *context, int32_t id, int64_t at, stw_error *error) {
    (void)id, (void)at, (void)error;
    return add(context, "{", 1);
}
static stw_status on_end(void *context, int32_t id, stw_error *error) {
    (void)id, (void)error;
    return add(context, "}", 1);
}
static stw_status on_number(void *context, int32_t id, int64_t value, stw_error *error) {
    char text[40];
    (void)id, (void)error;
    return add(context, text, snprintf(text, sizeof text, "%lld", (long long)value));
}
static stw_status on_text(void *context, int32_t id, stw_str value, stw_error *error) {
    char text[1000];
    (void)id, (void)error;
    int length = snprintf(text, sizeof text, "'");
    for (int64_t i = 0; i < value.length && length < 900; i++) text[length++] = value.p[i] == '\0' ? '0' : value.p[i];
    text[length++] = '\'';
    return add(context, text, length);
}

/* Reads from a block of exactly its size. */
static stw_status read(const char *text, size_t size, record *r, stw_error *error) {
    stw_arena arena;
    char *copy = malloc(size + 1);
    memcpy(copy, text, size);
    copy = realloc(copy, size > 0 ? size : 1);
    *r = (record){.length = 0};
    const stw_field_receiver receiver = {r, on_begin, on_end, on_number, on_text};
    stw_status status = stw_arena_create_sized(&arena, 1 << 20, error);
    if (status == STW_OK) {
        status = stw_fields_of_text((stw_str){copy, (int64_t)size}, &outer_wanted, &receiver, &arena, error);
        stw_arena_destroy(&arena);
    }
    free(copy);
    return status;
}

static void takes(const char *text, const char *expected) {
    record r;
    stw_error error = {0};
    test_context("%s", text);
    CHECK_EQ_INT(read(text, strlen(text), &r, &error), STW_OK);
    CHECK_STR(error.message, "");
    CHECK_STR(r.text, expected);
    test_context("%s", "");
}

static void refuses(const char *text, const char *words) {
    record r;
    stw_error error = {0};
    test_context("%s", text);
    CHECK_EQ_INT(read(text, strlen(text), &r, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, words);
    CHECK(strchr(error.message, '\n') == NULL);
    test_context("%s", "");
}

TEST(pbtxt, fields_messages_and_lists) {
    takes("", "");
    takes("# only a comment", "");
    takes("n: 1 n:2,n : 3;\nn: -4", "1 2 3 -4");
    takes("m { n: 1 } m: { n: 2 } m < n: 3 > m: <>", "{ 1 } { 2 } { 3 } { }");
    takes("n: [1, 2,3] n: [] m: [{ n: 4 }, < n: 5 >]", "1 2 3 { 4 } { 5 }");
    takes("n: 0x1F n: 017 n: 0 n: 9223372036854775807 n: -9223372036854775808",
          "31 15 0 9223372036854775807 -9223372036854775808");
    takes("n: true n: False c: RED c: 2", "1 0 7 2");
    takes("n: 1 # n: 2\n#}\nn: 3", "1 3");
}

TEST(pbtxt, strings) {
    takes("s: \"plain\" s: 'it is \"quoted\"' s: \"\"", "'plain' 'it is \"quoted\"' ''");
    takes("s: \"a\\\"b\\\\c\\'d\" s: 'x\\101\\x42\\7y'", "'a\"b\\c'd' 'xAB\ay'");
    takes("s: \"\\t\\u00e9\\U0001F600\"", "'\t\xc3\xa9\xf0\x9f\x98\x80'");
    takes("s: \"one\" 'two'\n # between \" these\n \"three\" n: 1", "'onetwothree' 1");
    takes("s: \"\\000\\0001\"", "'001'"); /* a NUL is shown as 0 */
    takes("four: \"abcdef\\n\" \"x\"", "'abcd'");
    takes("s: ['a', \"b\" 'c']", "'a' 'bc'");
}

TEST(pbtxt, unwanted_fields_are_passed_over) {
    takes("x: 1.5e-3 y: -inf z: \"} # {\" w { n: 1 q < a: [1, {b: '>'}] > } n: 2", "2");
    takes("[some.extension]: 5 [type.googleapis.com/a.B] { n: 1 } n: 3", "3");
    takes("m { x { n: 9 } n: 1 }", "{ 1 }");
}

TEST(pbtxt, errors_say_where) {
    refuses("n: 1\n  n: x", "line 2, column 6: 'x' is no value for n");
    refuses("n: 1.5", "'1.5' is no value for n");
    refuses("n: 9223372036854775808", "is no value for n");
    refuses("n: 08", "is no value");
    refuses("c: BLUE", "the name of an enum value");
    refuses("n 1", "a colon was expected behind 'n'");
    refuses("n:", "is no value for n");
    refuses("s: 5", "a string in quotes was expected");
    refuses("s: \"open\nn: 1", "a \" is missing");
    refuses("s: 'ends\\", "a ' is missing");
    refuses("m { n: 1", "the text ends inside a inner; a } is missing");
    refuses("m { n: 1 >", "the name of a field was expected");
    refuses("m: 5", "a message in { } was expected");
    refuses("n: [1, 2", "a ] or a comma was expected");
    refuses("x { [ }", "'}' does not close what is open; a ] was expected");
    refuses("x { y { }", "a } is missing");
    refuses("} n: 1", "the name of a field was expected");
    refuses("[never", "a ] is missing");
    refuses("x:", "a value was expected");
}

TEST(pbtxt, depth_bombs) {
    char bomb[2000];
    for (int open = 0; open < 4; open++) {
        static const char *const what[] = {"a{", "a<", "a:[", "m{x{"};
        bomb[0] = '\0';
        for (int i = 0; i < 400; i++) strcat(bomb, what[open]);
        refuses(bomb, "nested deeper than 100, which protobuf refuses too; the file is damaged, or must be written anew");
    }
}

TEST(pbtxt, every_prefix_and_every_damage) {
    static const char text[] = "n: 1 s: 'a\\x41' \"b\" m < n: [2, 3] > u { v: [1, {w: 't'}] # c\n } c: RED four: '\\u00e9abc'";
    record r;
    for (size_t length = 0; length < sizeof text; length++) {
        char copy[sizeof text];
        stw_error error = {0};
        memcpy(copy, text, sizeof text);
        if (read(copy, length, &r, &error) != STW_OK) CHECK_CONTAINS(error.message, "line ");
        for (int bit = 0; bit < 7 && length < sizeof text - 1; bit++) {
            copy[length] = (char)(text[length] ^ 1 << bit);
            error = (stw_error){0};
            const stw_status status = read(copy, sizeof text - 1, &r, &error);
            CHECK((status == STW_OK) == (error.message[0] == '\0'));
        }
    }
}
