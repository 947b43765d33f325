/* The wire format of protocol buffers: no bytes crash the reader, and what it reads is written and read to the same fields. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "import/wire/pbwire.h"
#include "support/pb_fixed.h"

static void require(bool held) { /* not assert: it must hold in every build */
    if (!held) abort();
}

/* Every way to look at a field; each on a file of its own, since the first error ends the reading. */
static void look_at(const stw_pb_field *field, stw_pb_file whole) {
    int64_t count = 0, value;
    double number;
    for (int way = 0; way < 3; way++) {
        stw_pb_file file = whole;
        stw_pb m = stw_pb_message(&file);
        stw_pb_list list = stw_pb_list_of(field);
        while (way == 0   ? stw_pb_list_int(&m, &list, &value)
               : way == 1 ? stw_pb_list_float(&m, &list, &number)
                          : stw_pb_list_double(&m, &list, &number))
            count++;
        require(count <= 3 * whole.length);
    }
}

/* Reads a message, and within it whatever can be read as a message. */
static bool walk(stw_str bytes, int32_t depth) {
    stw_error error = {0};
    stw_pb_file file = stw_pb_open(bytes, &error);
    stw_pb m = stw_pb_message(&file);
    m.depth = depth;
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        require(f.number > 0 && f.at >= bytes.p && f.at < bytes.p + bytes.length);
        look_at(&f, stw_pb_open(bytes, NULL));
        stw_pb inner;
        if (f.type == STW_PB_BYTES && stw_pb_enter(&m, &f, &inner)) walk(f.bytes, inner.depth);
    }
    require(file.failed == (error.message[0] != '\0'));
    return !file.failed;
}

static void write_field(stw_pb_writer *w, const stw_pb_field *f) {
    double number;
    uint32_t low = (uint32_t)f->value;
    float single;
    memcpy(&number, &f->value, sizeof number);
    memcpy(&single, &low, sizeof single);
    switch (f->type) {
        case STW_PB_VARINT: stw_pb_write_int(w, f->number, (int64_t)f->value); break;
        case STW_PB_FIXED64: stw_pb_write_double(w, f->number, number); break;
        case STW_PB_FIXED32: stw_pb_write_float(w, f->number, single); break;
        default: stw_pb_write_string(w, f->number, f->bytes); break;
    }
}

static void rewrite(stw_str bytes) {
    stw_arena arena;
    if (stw_arena_create_sized(&arena, (int64_t)1 << 26, NULL) != STW_OK) return;
    stw_pb_writer w = {.arena = &arena};
    stw_pb_file file = stw_pb_open(bytes, NULL);
    stw_pb m = stw_pb_message(&file);
    for (stw_pb_field f; stw_pb_next(&m, &f);) write_field(&w, &f);
    stw_str copy = {0};
    if (stw_pb_written(&w, &copy, NULL) == STW_OK) {
        stw_pb_file again = stw_pb_open(copy, NULL), first = stw_pb_open(bytes, NULL);
        stw_pb a = stw_pb_message(&first), b = stw_pb_message(&again);
        stw_pb_field f, g;
        while (stw_pb_next(&a, &f)) {
            require(stw_pb_next(&b, &g) && f.number == g.number && f.type == g.type && stw_str_equal(f.bytes, g.bytes));
        }
        require(!stw_pb_next(&b, &g) && !again.failed);
    }
    stw_arena_destroy(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const stw_str bytes = {(const char *)data, (int64_t)size};
    walk(bytes, 0);
    rewrite(bytes);
    return 0;
}

int stw_fuzz_accepts(const uint8_t *data, size_t size) { return walk((stw_str){(const char *)data, (int64_t)size}, 0); }
