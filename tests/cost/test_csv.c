/* cost/csv: rows name,kind,us as people write them, and what is refused on which line. */
#include <stdlib.h>
#include <string.h>

#include "cost/cost.h"
#include "test.h"

typedef struct {
    stw_arena arena;
    stw_error error;
    stw_cost_row *row;
    int64_t count;
    stw_status status;
} table;

/* Parses an exact copy, so that the address sanitizer sees one byte too many. */
static table parse_bytes(const char *text, int64_t length) {
    table t;
    memset(&t, 0, sizeof t);
    CHECK_EQ_INT(stw_arena_create(&t.arena, NULL), STW_OK);
    char *copy = malloc(length > 0 ? (size_t)length : 1);
    memcpy(copy, text, (size_t)length);
    t.status = stw_cost_csv_parse((stw_str){copy, length}, &t.arena, &t.row, &t.count, &t.error);
    for (int64_t i = 0; t.status == STW_OK && i < t.count; i++) { /* names may be views into the text */
        t.row[i].name = stw_str_copy(&t.arena, t.row[i].name);
        t.row[i].kind = stw_str_copy(&t.arena, t.row[i].kind);
    }
    free(copy);
    return t;
}

static table parse(const char *text) { return parse_bytes(text, (int64_t)strlen(text)); }

static void check_row(const table *t, int64_t i, const char *name, const char *kind, double us, int64_t line) {
    if (!CHECK(i < t->count)) return;
    CHECK_STR(t->row[i].name.p, name);
    CHECK_STR(t->row[i].kind.p, kind);
    CHECK_NEAR(t->row[i].us, us, 0.0);
    CHECK_EQ_INT(t->row[i].line, line);
}

TEST(csv, rows) {
    table t = parse("mm_1,h200,14.2\nmm_1,cpu8,2210\nadd,h200,0\n");
    CHECK_EQ_INT(t.status, STW_OK);
    CHECK_EQ_INT(t.count, 3);
    check_row(&t, 0, "mm_1", "h200", 14.2, 1);
    check_row(&t, 1, "mm_1", "cpu8", 2210.0, 2);
    check_row(&t, 2, "add", "h200", 0.0, 3);
    stw_arena_destroy(&t.arena);
}

TEST(csv, nothing) {
    static const char *const texts[] = {
        "", "\n", "\r\n", "\n\n\n", "# only\n#words", "name,kind,us", "name,kind,us\n", "name,kind,us\r\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        table t = parse(texts[i]);
        test_context("case %zu", i);
        CHECK_EQ_INT(t.status, STW_OK);
        CHECK_EQ_INT(t.count, 0);
        stw_arena_destroy(&t.arena);
    }
}

TEST(csv, heading_comments_blank_lines_and_line_ends) {
    table t = parse("name,kind,us\r\n\r\n# measured on Monday\r\na,h200,1\r\n\n#b,h200,x\nb,h200,2.5e1\r\n\r\nc,h200,3");
    CHECK_EQ_INT(t.status, STW_OK);
    CHECK_EQ_INT(t.count, 3);
    check_row(&t, 0, "a", "h200", 1.0, 4);
    check_row(&t, 1, "b", "h200", 25.0, 7);
    check_row(&t, 2, "c", "h200", 3.0, 9);
    stw_arena_destroy(&t.arena);
}

TEST(csv, a_heading_may_follow_a_comment) {
    table t = parse("# measured on Monday\n\nname,kind,us\na,h200,1\n");
    CHECK_EQ_INT(t.status, STW_OK);
    CHECK_EQ_INT(t.count, 1);
    stw_arena_destroy(&t.arena);
}

TEST(csv, quoted_fields_and_spaces) {
    table t = parse("\"mm,1\",\"h200\",\"1\"\n\"say \"\"hi\"\"\",h200,2\r\n  a b \t, h200 , 3 \n\"#1\",h200,4\n\"\"\"\",h200,5");
    CHECK_EQ_INT(t.status, STW_OK);
    CHECK_EQ_INT(t.count, 5);
    check_row(&t, 0, "mm,1", "h200", 1.0, 1);
    check_row(&t, 1, "say \"hi\"", "h200", 2.0, 2);
    check_row(&t, 2, "a b", "h200", 3.0, 3);
    check_row(&t, 3, "#1", "h200", 4.0, 4);
    check_row(&t, 4, "\"", "h200", 5.0, 5);
    stw_arena_destroy(&t.arena);
}

TEST(csv, refusals_name_the_line) {
    static const struct {
        const char *text;
        int line;
        const char *says;
    } cases[] = {
        {"a,k,nan\n", 1, "nan"},
        {"name,kind,us\na,k,NaN\n", 2, "NaN"},
        {"a,k,1\n\n# c\nb,k,-0.5\n", 4, "-0.5"},
        {"a,k,inf", 1, "inf"},
        {"a,k,-inf", 1, "-inf"},
        {"a,k,Infinity", 1, "Infinity"},
        {"a,k,1e999", 1, "1e999"},
        {"a,k,2e12\nb,k,1e100", 2, "'b': a time of 1e+100 us; at most 2e+12 (23 days)"},
        {"a,k,12abc\n", 1, "12abc"},
        {"a,k,abc\r\n", 1, "'abc'"},
        {"a,k,0x10", 1, "0x10"},
        {"a,k,1e+-5", 1, "1e+-5"},
        {"a,k,", 1, "''"},
        {"a,k,1,5", 1, "three fields"},
        {"a,k,1,", 1, "three fields"},
        {"a,k\n", 1, "three fields"},
        {"a\n", 1, "three fields"},
        {"a,k,1\na,k", 2, "three fields"},
        {"a;k;1\n", 1, "three fields"},
        {",k,1", 1, "name"},
        {"\"\",k,1", 1, "name"},
        {"a,,1", 1, "kind"},
        {"a,k,1\nname,kind,us\n", 2, "us"},
        {"name,kind,time\n", 1, "time"},
        {"\"a,k,1\n", 1, "closing quote"},
        {"a,k,\"1", 1, "closing quote"},
        {"a,k,1\n\"a\nb\",k,1\n", 2, "closing quote"},
        {"\"a\"b,k,1", 1, "after a closing quote"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        table t = parse(cases[i].text);
        char line[40];
        test_context("case %zu: %.40s", i, cases[i].text);
        CHECK_EQ_INT(t.status, STW_ERROR_INPUT);
        snprintf(line, sizeof line, "line %d: ", cases[i].line);
        CHECK_CONTAINS(t.error.message, line);
        CHECK_CONTAINS(t.error.message, cases[i].says);
        CHECK(strchr(t.error.message, '\n') == NULL);
        stw_arena_destroy(&t.arena);
    }
}

TEST(csv, every_truncation_is_taken_or_refused) {
    static const char text[] = "name,kind,us\n\"a,\"\"b\",h200,1.5\r\n\n# c\nxy,cpu8,2e3\n";
    const int64_t length = (int64_t)sizeof text - 1;
    int64_t taken = 0;
    for (int64_t cut = 0; cut <= length; cut++) {
        table t = parse_bytes(text, cut);
        test_context("cut at %d", (int)cut);
        if (t.status == STW_OK) {
            taken++;
            CHECK(t.count <= 2);
        } else {
            CHECK_EQ_INT(t.status, STW_ERROR_INPUT);
            CHECK_CONTAINS(t.error.message, "line ");
        }
        stw_arena_destroy(&t.arena);
    }
    CHECK(taken > 10 && taken < length); /* a cut between rows, or within a number, is a file of its own right */
}

TEST(csv, memory_grows_with_the_file_alone) {
    enum { ROWS = 5000 };
    char *text = malloc(ROWS * 40);
    int64_t length = 0;
    for (int i = 0; i < ROWS; i++) length += sprintf(text + length, "\"op_%d\",\"h200\",%d\n", i, i);
    table t = parse_bytes(text, length);
    CHECK_EQ_INT(t.status, STW_OK);
    CHECK_EQ_INT(t.count, ROWS);
    check_row(&t, ROWS - 1, "op_4999", "h200", 4999.0, ROWS);
    CHECK(stw_arena_used(&t.arena) < 64 * length);
    stw_arena_destroy(&t.arena);
    free(text);
}
