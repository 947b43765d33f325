/* import/pbwire: fields as the encoding's documentation has them, every way in which bytes can be wrong, and what was written is
 * read. */
#include "import/wire/pbwire.h"

#include <stdlib.h>
#include <string.h>

#include "support/pb_fixed.h"
#include "test.h"

#define BYTES(literal) ((stw_str){(literal), (int64_t)sizeof(literal) - 1})

static void check_refused(stw_str bytes, const char *says) {
    stw_error error = {0};
    stw_pb_file file = stw_pb_open(bytes, &error);
    stw_pb m = stw_pb_message(&file);
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
    }
    CHECK_EQ_INT(stw_pb_close(&file), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, says);
    stw_pb_field f;
    CHECK(!stw_pb_next(&m, &f)); /* and it stays so */
}

TEST(pbwire, the_documented_examples) {
    stw_pb_file file = stw_pb_open(BYTES("\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01"), NULL);
    stw_pb m = stw_pb_message(&file), inner;
    stw_pb_field f;
    int64_t value = 0;
    stw_str text = {0};
    CHECK(stw_pb_next(&m, &f) && f.number == 1 && stw_pb_int(&m, &f, &value));
    CHECK_EQ_INT(value, 150);
    CHECK(stw_pb_next(&m, &f) && f.number == 2 && stw_pb_string(&m, &f, &text));
    CHECK(stw_str_is(text, "testing"));
    CHECK(stw_pb_next(&m, &f) && f.number == 3 && stw_pb_enter(&m, &f, &inner));
    CHECK_EQ_INT(inner.depth, 1);
    CHECK(stw_pb_next(&inner, &f) && stw_pb_int(&inner, &f, &value));
    CHECK_EQ_INT(value, 150);
    CHECK(!stw_pb_next(&inner, &f));
    CHECK(!stw_pb_next(&m, &f));
    CHECK_EQ_INT(stw_pb_close(&file), STW_OK);
}

TEST(pbwire, lists_packed_and_not) {
    /* field 6: 3, 270, 86942 packed; then 5 alone; field 7: 1.5 alone, then -2 packed */
    stw_pb_file file = stw_pb_open(BYTES("\x32\x06\x03\x8e\x02\x9e\xa7\x05\x30\x05\x3d\0\0\xc0\x3f\x3a\x04\0\0\0\xc0"), NULL);
    stw_pb m = stw_pb_message(&file);
    stw_arena arena;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    stw_vector ints = {.arena = &arena};
    double sum = 0.0, value = 0.0;
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        if (f.number == 6) CHECK(stw_pb_ints(&m, &f, &ints));
        if (f.number != 7) continue;
        for (stw_pb_list l = stw_pb_list_of(&f); stw_pb_list_float(&m, &l, &value);) sum += value * value;
    }
    CHECK_EQ_INT(stw_pb_close(&file), STW_OK);
    const int64_t expected[] = {3, 270, 86942, 5};
    CHECK_EQ_INT(ints.count, 4);
    for (int k = 0; k < 4 && k < ints.count; k++) CHECK_EQ_INT(ints.data[k], expected[k]);
    CHECK_NEAR(sum, 1.5 * 1.5 + 4.0, 0.0);
    stw_arena_destroy(&arena);
}

TEST(pbwire, damage) {
    check_refused(BYTES("\x08"), "byte 1: a number runs over the end");
    check_refused(BYTES("\x08\x96"), "cut off");
    check_refused(BYTES("\x09\x01\x02"), "cut off");
    check_refused(BYTES("\x0d\x01\x02\x03"), "cut off");
    check_refused(BYTES("\x08\x01\x12\x05"
                        "abcd"),
                  "byte 2: field 2 has 5 bytes, but only 4 are left");
    check_refused(BYTES("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                        "abcd"),
                  "field 2 has 18446744073709551615 bytes");
    check_refused(BYTES("\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
                        "abcd"),
                  "only 4 are left");
    check_refused(BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), "longer than 64 bits");
    check_refused(BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "longer than 64 bits");
    check_refused(BYTES("\x00\x01"), "no field");
    check_refused(BYTES("\x88\x80\x80\x80\x10\x01"), "no field");
    check_refused(BYTES("\x0b\x0c"), "wire type 3");
    check_refused(BYTES("\x0e"), "wire type 6");
}

TEST(pbwire, wrong_types) {
    stw_error error = {0};
    const stw_str bytes = BYTES("\x08\x01");
    for (int which = 0; which < 5; which++) {
        test_context("%d", which);
        stw_pb_file file = stw_pb_open(bytes, &error);
        stw_pb m = stw_pb_message(&file), inner;
        stw_pb_field f;
        double number = 0.0;
        stw_str text = {0};
        CHECK(stw_pb_next(&m, &f));
        stw_pb_list list = stw_pb_list_of(&f);
        CHECK(!(which == 0   ? stw_pb_float(&m, &f, &number)
                : which == 1 ? stw_pb_list_double(&m, &list, &number)
                : which == 2 ? stw_pb_string(&m, &f, &text)
                : which == 3 ? stw_pb_enter(&m, &f, &inner)
                             : stw_pb_list_float(&m, &list, &number)));
        CHECK_EQ_INT(stw_pb_close(&file), STW_ERROR_INPUT);
        CHECK_CONTAINS(error.message, "byte 0: field 1 is of wire type 0");
    }
}

TEST(pbwire, depth_is_bounded) {
    stw_arena arena;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    stw_pb_writer w = {.arena = &arena};
    int64_t begun[STW_PB_MAX_DEPTH + 1];
    for (int k = 0; k <= STW_PB_MAX_DEPTH; k++) begun[k] = stw_pb_begin(&w, 1);
    stw_pb_write_int(&w, 2, -1);
    for (int k = STW_PB_MAX_DEPTH; k >= 0; k--) stw_pb_end(&w, begun[k]);
    stw_str bytes = {0};
    stw_error error = {0};
    CHECK_EQ_INT(stw_pb_written(&w, &bytes, &error), STW_OK);
    stw_pb_file file = stw_pb_open(bytes, &error);
    stw_pb m = stw_pb_message(&file);
    int32_t depth = 0;
    for (stw_pb_field f; stw_pb_next(&m, &f) && stw_pb_enter(&m, &f, &m);) depth++;
    CHECK_EQ_INT(depth, STW_PB_MAX_DEPTH);
    CHECK_EQ_INT(stw_pb_close(&file), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "deeper than 100, which protobuf refuses too; the file is damaged, or must be written anew");
    stw_arena_destroy(&arena);
}

static void write_sample(stw_pb_writer *w) {
    stw_pb_write_int(w, 1, -12345678901);
    stw_pb_write_int(w, 536870911, 127);
    const int64_t outer = stw_pb_begin(w, 3);
    stw_pb_write_string(w, 4, STW_STR("name"));
    const int64_t inner = stw_pb_begin(w, 5);
    for (int k = 0; k < 100; k++) stw_pb_write_double(w, 6, k * 0.25);
    stw_pb_end(w, inner);
    stw_pb_write_ints(w, 7, (const int64_t[]){1, -1, 300}, 3);
    stw_pb_end(w, outer);
    stw_pb_write_float(w, 8, -0.5f);
    stw_pb_write_string(w, 9, STW_STR(""));
}

/* The sum of all numbers in it, messages in fields 3 and 5 included. */
static double add_up(stw_pb *m) {
    double sum = 0.0, number = 0.0;
    int64_t whole = 0;
    for (stw_pb_field f; stw_pb_next(m, &f);) {
        stw_pb inner;
        if (f.number == 1 || f.number == 536870911) sum += stw_pb_int(m, &f, &whole) ? (double)whole : 0.0;
        if (f.number == 6)
            for (stw_pb_list l = stw_pb_list_of(&f); stw_pb_list_double(m, &l, &number);) sum += number;
        if (f.number == 8) sum += stw_pb_float(m, &f, &number) ? number : 0.0;
        if (f.number == 7)
            for (stw_pb_list l = stw_pb_list_of(&f); stw_pb_list_int(m, &l, &whole);) sum += (double)whole;
        if ((f.number == 3 || f.number == 5) && stw_pb_enter(m, &f, &inner)) sum += add_up(&inner);
    }
    return sum;
}

TEST(pbwire, what_is_written_is_read) {
    stw_arena arena;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    stw_pb_writer w = {.arena = &arena};
    write_sample(&w);
    stw_str bytes = {0};
    CHECK_EQ_INT(stw_pb_written(&w, &bytes, NULL), STW_OK);
    stw_pb_file file = stw_pb_open(bytes, NULL);
    stw_pb m = stw_pb_message(&file);
    CHECK_NEAR(add_up(&m), -12345678901.0 + 127.0 + 0.25 * 4950.0 + 300.0 - 0.5, 0.0);
    CHECK_EQ_INT(stw_pb_close(&file), STW_OK);
    stw_arena_destroy(&arena);
}

/* Each in a block of exactly its size, so that the address sanitizer sees reading over the end. */
TEST(pbwire, every_truncation) {
    stw_arena arena;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    stw_pb_writer w = {.arena = &arena};
    write_sample(&w);
    int refused = 0;
    for (int64_t length = 0; length < w.length; length++) {
        char *cut = malloc(length > 0 ? (size_t)length : 1);
        memcpy(cut, w.data, (size_t)length);
        stw_error error = {0};
        stw_pb_file file = stw_pb_open((stw_str){cut, length}, &error);
        stw_pb m = stw_pb_message(&file);
        add_up(&m);
        const bool failed = stw_pb_close(&file) != STW_OK;
        CHECK(failed == (error.message[0] != '\0'));
        refused += failed;
        free(cut);
    }
    CHECK_EQ_INT(refused, w.length - 5); /* a cut between two of the five outer fields leaves a shorter message */
    stw_arena_destroy(&arena);
}
