#include "support/onnx_model.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The next word of a list; false at its end. */
static bool next_word(const char **list, char separator, stw_str *word) {
    while (**list == ' ' || (**list != '\0' && **list == separator)) (*list)++;
    const char *start = *list;
    while (**list != separator && **list != '\0') (*list)++;
    *word = (stw_str){start, (int64_t)(*list - start)};
    return word->length > 0;
}

static int64_t read_ints(const char *text, int64_t *out, int64_t room) {
    int64_t count = 0;
    while (*text != '\0' && *text != ' ' && count < room) {
        char *end = NULL;
        out[count++] = strtoll(text, &end, 10);
        text = *end == ',' ? end + 1 : end;
    }
    return count;
}

void onnx_attribute(stw_pb_writer *w, const char *text) {
    enum { STRING = 3, INT = 2, INTS = 7 };
    const char *equals = strchr(text, '=');
    if (equals == NULL) return;
    int64_t ints[32];
    const int64_t begun = stw_pb_begin(w, 5);
    stw_pb_write_string(w, 1, (stw_str){text, (int64_t)(equals - text)});
    const size_t length = strcspn(equals + 1, " ");
    if (isalpha((unsigned char)equals[1])) {
        stw_pb_write_string(w, 4, (stw_str){equals + 1, (int64_t)length});
        stw_pb_write_int(w, 20, STRING);
    } else {
        const int64_t count = read_ints(equals + 1, ints, 32);
        const bool list = memchr(equals + 1, ',', length) != NULL;
        for (int64_t k = 0; k < count; k++) stw_pb_write_int(w, list ? 8 : 3, ints[k]);
        stw_pb_write_int(w, 20, list ? INTS : INT);
    }
    stw_pb_end(w, begun);
}

static void write_names(stw_pb_writer *w, int64_t number, const char *names) {
    stw_str name;
    while (next_word(&names, ' ', &name)) stw_pb_write_string(w, number, stw_str_is(name, "-") ? (stw_str){"", 0} : name);
}

void onnx_node_with(stw_pb_writer *w, int64_t number, const char *op, const char *inputs, const char *outputs, stw_str more) {
    const int64_t begun = stw_pb_begin(w, number);
    write_names(w, 1, inputs);
    write_names(w, 2, outputs);
    stw_pb_write_string(w, 4, stw_str_of(op));
    stw_pb_write_raw(w, more);
    stw_pb_end(w, begun);
}

void onnx_node(stw_pb_writer *w, int64_t number, const char *op, const char *inputs, const char *outputs,
               const char *attributes) {
    const int64_t begun = stw_pb_begin(w, number);
    stw_str word;
    write_names(w, 1, inputs);
    write_names(w, 2, outputs);
    stw_pb_write_string(w, 4, stw_str_of(op));
    while (next_word(&attributes, ' ', &word)) onnx_attribute(w, word.p);
    stw_pb_end(w, begun);
}

void onnx_value(stw_pb_writer *w, int64_t number, const char *name, int64_t dtype, const char *shape) {
    stw_str dim;
    const int64_t begun = stw_pb_begin(w, number);
    stw_pb_write_string(w, 1, stw_str_of(name));
    const int64_t type = stw_pb_begin(w, 2), tensor = stw_pb_begin(w, 1);
    stw_pb_write_int(w, 1, dtype);
    if (shape != NULL) {
        const int64_t list = stw_pb_begin(w, 2);
        while (next_word(&shape, ',', &dim)) {
            const int64_t one = stw_pb_begin(w, 1);
            if (isalpha((unsigned char)dim.p[0]))
                stw_pb_write_string(w, 2, dim);
            else
                stw_pb_write_int(w, 1, strtoll(dim.p, NULL, 10));
            stw_pb_end(w, one);
        }
        stw_pb_end(w, list);
    }
    stw_pb_end(w, tensor);
    stw_pb_end(w, type);
    stw_pb_end(w, begun);
}

void onnx_weights(stw_pb_writer *w, int64_t number, const char *name, const char *shape) {
    int64_t dims[32];
    const int64_t rank = read_ints(shape, dims, 32), begun = stw_pb_begin(w, number);
    stw_pb_write_ints(w, 1, dims, rank);
    stw_pb_write_int(w, 2, ONNX_FLOAT);
    stw_pb_write_string(w, 8, stw_str_of(name));
    stw_pb_end(w, begun);
}

void onnx_numbers(stw_pb_writer *w, int64_t number, const char *name, const int64_t *value, int64_t count) {
    const int64_t begun = stw_pb_begin(w, number);
    stw_pb_write_int(w, 1, count);
    stw_pb_write_int(w, 2, ONNX_INT64);
    stw_pb_write_ints(w, 7, value, count);
    stw_pb_write_string(w, 8, stw_str_of(name));
    stw_pb_end(w, begun);
}

stw_str onnx_model(stw_arena *arena, stw_str graph, stw_str functions) {
    stw_pb_writer w = {.arena = arena};
    stw_str out = {0};
    stw_pb_write_int(&w, 1, 8);
    stw_pb_write_string(&w, 2, STW_STR("test"));
    stw_pb_write_string(&w, 7, graph);
    const int64_t opset = stw_pb_begin(&w, 8);
    stw_pb_write_int(&w, 2, 17);
    stw_pb_end(&w, opset);
    stw_pb_write_raw(&w, functions);
    stw_pb_written(&w, &out, NULL);
    return out;
}
