#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/json.h"

void stw_json_writer_init(stw_json_writer *writer, FILE *file) { *writer = (stw_json_writer){.file = file}; }

/* The comma before an item, if one is due. */
static void separate(stw_json_writer *writer) {
    if (writer->after_key) {
        writer->after_key = false;
        return;
    }
    const uint64_t bit = 1ULL << writer->depth;
    if (writer->has_item & bit) fputc(',', writer->file);
    if (writer->newline_due) fputc('\n', writer->file);
    writer->newline_due = false;
    writer->has_item |= bit;
}

static void begin(stw_json_writer *writer, char open) {
    separate(writer);
    fputc(open, writer->file);
    writer->depth++;
    writer->has_item &= ~(1ULL << writer->depth);
}

static void end(stw_json_writer *writer, char close) {
    writer->depth--;
    fputc(close, writer->file);
}

void stw_json_begin_object(stw_json_writer *writer) { begin(writer, '{'); }
void stw_json_end_object(stw_json_writer *writer) { end(writer, '}'); }
void stw_json_begin_array(stw_json_writer *writer) { begin(writer, '['); }
void stw_json_end_array(stw_json_writer *writer) { end(writer, ']'); }

/* A character beyond ASCII; returns its bytes. What would steer a terminal is escaped, what is no UTF-8 has no place in JSON. */
static int write_wide(FILE *file, const char *text, const char *end) {
    const int length = stw_utf8_length(text, end);
    const unsigned code = length == 0 ? 0xfffd : stw_code_point(text, length);
    if (length == 0 || stw_is_special(code)) {
        fprintf(file, "\\u%04x", code);
    } else {
        fwrite(text, 1, (size_t)length, file);
    }
    return length == 0 ? 1 : length;
}

static void write_quoted(FILE *file, stw_str text) {
    fputc('"', file);
    for (int64_t i = 0; i < text.length; i++) {
        const unsigned char c = (unsigned char)text.p[i];
        if (c == '"' || c == '\\') {
            fputc('\\', file);
            fputc(c, file);
        } else if (c < 0x20 || c == 0x7f) {
            fprintf(file, "\\u%04x", c);
        } else if (c < 0x80) {
            fputc(c, file);
        } else {
            i += write_wide(file, text.p + i, text.p + text.length) - 1;
        }
    }
    fputc('"', file);
}

void stw_json_write_key(stw_json_writer *writer, const char *key) {
    separate(writer);
    write_quoted(writer->file, stw_str_of(key));
    fputc(':', writer->file);
    writer->after_key = true;
}

void stw_json_write_string(stw_json_writer *writer, stw_str value) {
    separate(writer);
    write_quoted(writer->file, value);
}

void stw_json_write_int64(stw_json_writer *writer, int64_t value) {
    separate(writer);
    fprintf(writer->file, "%" PRId64, value);
}

int stw_format_double(char text[32], double value) {
    int length = 0;
    for (int precision = 15; precision <= 17; precision++) {
        length = snprintf(text, 32, "%.*g", precision, value);
        int kept = 0;
        for (int i = 0; i < length; i++) { /* a locale may write a comma, or a character of several bytes */
            if (strchr("0123456789+-e.", text[i]) != NULL) {
                text[kept++] = text[i];
            } else if (kept == 0 || text[kept - 1] != '.') {
                text[kept++] = '.';
            }
        }
        text[kept] = '\0';
        length = kept;
        double back = 0.0;
        if (stw_str_to_double((stw_str){text, length}, &back) && back == value) break;
    }
    return length;
}

void stw_json_write_double(stw_json_writer *writer, double value) {
    if (!isfinite(value)) {
        stw_json_write_null(writer);
        return;
    }
    separate(writer);
    char text[32];
    stw_format_double(text, value);
    fputs(text, writer->file);
}

void stw_json_write_bool(stw_json_writer *writer, bool value) {
    separate(writer);
    fputs(value ? "true" : "false", writer->file);
}

void stw_json_write_null(stw_json_writer *writer) {
    separate(writer);
    fputs("null", writer->file);
}

void stw_json_field_string(stw_json_writer *writer, const char *key, stw_str value) {
    stw_json_write_key(writer, key);
    stw_json_write_string(writer, value);
}

void stw_json_field_text(stw_json_writer *writer, const char *key, stw_str value) {
    stw_json_write_key(writer, key);
    if (value.p == NULL) {
        stw_json_write_null(writer);
    } else {
        stw_json_write_string(writer, value);
    }
}

void stw_json_field_int64(stw_json_writer *writer, const char *key, int64_t value) {
    stw_json_write_key(writer, key);
    stw_json_write_int64(writer, value);
}

void stw_json_field_double(stw_json_writer *writer, const char *key, double value) {
    stw_json_write_key(writer, key);
    stw_json_write_double(writer, value);
}

void stw_json_field_bool(stw_json_writer *writer, const char *key, bool value) {
    stw_json_write_key(writer, key);
    stw_json_write_bool(writer, value);
}

void stw_json_newline(stw_json_writer *writer) { writer->newline_due = true; }
