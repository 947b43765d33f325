/* The JSON reader: no text crashes it, and the value that it skips is the value that it reads. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "fuzz.h"

static void require(bool held) { /* not assert: it must hold in every build */
    if (!held) abort();
}

/* Reads any value by its type, the numbers both ways. */
static void read_value(stw_json *json) {
    stw_str text;
    double number;
    bool flag;
    switch (stw_json_peek(json)) {
        case STW_JSON_OBJECT:
            if (!stw_json_object(json)) return;
            while (stw_json_key(json, &text)) read_value(json);
            break;
        case STW_JSON_ARRAY:
            if (!stw_json_array(json)) return;
            while (stw_json_item(json)) read_value(json);
            break;
        case STW_JSON_STRING: stw_json_string(json, &text); break;
        case STW_JSON_NUMBER: stw_json_double(json, &number); break;
        case STW_JSON_BOOL: stw_json_bool(json, &flag); break;
        case STW_JSON_NULL: stw_json_null(json); break;
        default: stw_json_fail(json, "no value");
    }
}

static stw_status parse(const uint8_t *data, size_t size, bool skip, stw_error *error) {
    stw_arena strings;
    stw_json json;
    require(stw_arena_create(&strings, NULL) == STW_OK);
    stw_json_init(&json, (stw_str){(const char *)data, (int64_t)size}, &strings, error);
    if (skip) {
        stw_json_skip(&json, NULL);
    } else {
        read_value(&json);
    }
    const stw_status status = stw_json_finish(&json);
    stw_arena_destroy(&strings);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    stw_error read_error = {0}, skip_error = {0};
    const stw_status read = parse(data, size, false, &read_error), skipped = parse(data, size, true, &skip_error);
    if (read == STW_OK) {
        require(skipped == STW_OK);
    } else { /* skipping does not mind a number out of range */
        require(skipped == read || strstr(read_error.message, "out of range") != NULL);
        require(strncmp(read_error.message, "line ", 5) == 0 && strchr(read_error.message, '\n') == NULL);
    }
    return 0;
}

int stw_fuzz_accepts(const uint8_t *data, size_t size) { return parse(data, size, true, NULL) == STW_OK; }
