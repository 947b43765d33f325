/* Writes protobuf fields of fixed width, which only tests need: floats and doubles. */
#ifndef STW_TESTS_SUPPORT_PB_FIXED_H
#define STW_TESTS_SUPPORT_PB_FIXED_H

#include <string.h>

#include "import/wire/pbwire.h"

static inline void stw_pb_write_fixed(stw_pb_writer *w, int64_t number, int type, uint64_t bits, int size) {
    char field[24];
    int length = 0;
    uint64_t tag = (uint64_t)number << 3 | (uint64_t)type;
    for (; tag > 127; tag >>= 7) field[length++] = (char)((tag & 127) | 128);
    field[length++] = (char)tag;
    for (int k = 0; k < size; k++) field[length++] = (char)((bits >> (8 * k)) & 255);
    stw_pb_write_raw(w, (stw_str){field, length});
}

static inline void stw_pb_write_float(stw_pb_writer *w, int64_t number, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    stw_pb_write_fixed(w, number, STW_PB_FIXED32, bits, 4);
}

static inline void stw_pb_write_double(stw_pb_writer *w, int64_t number, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    stw_pb_write_fixed(w, number, STW_PB_FIXED64, bits, 8);
}

#endif
