#include "cli.h"

void cli_field_bytes(stw_json_writer *writer, const char *key, int64_t value) {
    stw_json_write_key(writer, key);
    if (value < 0) {
        stw_json_write_null(writer);
    } else {
        stw_json_write_int64(writer, value);
    }
}

void cli_field_text(stw_json_writer *writer, const char *key, stw_str value) {
    stw_json_write_key(writer, key);
    if (value.p == NULL) {
        stw_json_write_null(writer);
    } else {
        stw_json_write_string(writer, value);
    }
}

void cli_field_texts(stw_json_writer *writer, const char *key, const char *const *value, int32_t count) {
    stw_json_write_key(writer, key);
    stw_json_begin_array(writer);
    for (int32_t k = 0; k < count; k++) stw_json_write_string(writer, stw_str_of(value[k]));
    stw_json_end_array(writer);
}
