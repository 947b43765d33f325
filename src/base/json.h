/* JSON: one bounded pull reader and one streaming writer.
 *
 * The reader walks a text in memory without building a tree. It keeps the first error (with line and column) and then
 * answers "false" to everything, so that callers need not check each call; stw_json_finish() tells at the end. Nesting is
 * limited to STW_JSON_MAX_DEPTH, strings are UTF-8, numbers are finite. */
#ifndef STW_BASE_JSON_H
#define STW_BASE_JSON_H

#include <stdio.h>

#include "base/str.h"

enum { STW_JSON_MAX_DEPTH = 64 };

typedef enum stw_json_type {
    STW_JSON_NONE, /* the end, or no JSON */
    STW_JSON_OBJECT,
    STW_JSON_ARRAY,
    STW_JSON_STRING,
    STW_JSON_NUMBER,
    STW_JSON_BOOL,
    STW_JSON_NULL
} stw_json_type;

typedef struct stw_json {
    const char *begin, *cursor, *end;
    stw_arena *strings; /* strings with escapes are decoded here; others are views into the text */
    stw_error *error;
    int32_t depth;
    uint64_t has_item;            /* bit per level (level 1: bit 0): an item was read, so a comma must come next */
    bool failed, short_of_memory; /* the first error; it is that memory ran out, whatever the text says */
} stw_json;

void stw_json_init(stw_json *json, stw_str text, stw_arena *strings, stw_error *error);

/* What comes next, without reading it. */
stw_json_type stw_json_peek(stw_json *json);

/* `if (stw_json_object(j)) while (stw_json_key(j, &key)) ...read one value...` */
bool stw_json_object(stw_json *json);
bool stw_json_key(stw_json *json, stw_str *key); /* false at the closing brace */
/* `if (stw_json_array(j)) while (stw_json_item(j)) ...read one value...` */
bool stw_json_array(stw_json *json);
bool stw_json_item(stw_json *json); /* false at the closing bracket */

bool stw_json_string(stw_json *json, stw_str *out);
bool stw_json_int64(stw_json *json, int64_t *out); /* 1e3 and 3.0 count as integers, 3.5 does not */
bool stw_json_double(stw_json *json, double *out);
bool stw_json_bool(stw_json *json, bool *out);
bool stw_json_null(stw_json *json);
/* Any one value; *raw (if not NULL) is its text. */
bool stw_json_skip(stw_json *json, stw_str *raw);
/* The number of items of the list that comes, so that arrays can be made to measure. The reader does not move; an error counts as
 * the end, since the reading that follows meets it again and reports it. */
int64_t stw_json_count_items(const stw_json *json, stw_arena scratch);

/* STW_OK, or what the first error is: of the input, or of memory. */
stw_status stw_json_status(const stw_json *json);
/* The same at the end, where nothing but white space may be left. */
stw_status stw_json_finish(stw_json *json);
/* Records "line L, column C: ..." unless an earlier error stands. Always returns false. */
bool stw_json_fail(stw_json *json, const char *format, ...) STW_PRINTF(2, 3);
/* The same for memory that ran out for something. */
bool stw_json_lacks_memory(stw_json *json, const char *what);

/* The writer. Output goes to a FILE; the caller checks ferror() once at the end. */
typedef struct stw_json_writer {
    FILE *file;
    int32_t depth;
    uint64_t has_item;
    bool after_key;
    bool newline_due;
} stw_json_writer;

void stw_json_writer_init(stw_json_writer *writer, FILE *file);
void stw_json_begin_object(stw_json_writer *writer);
void stw_json_end_object(stw_json_writer *writer);
void stw_json_begin_array(stw_json_writer *writer);
void stw_json_end_array(stw_json_writer *writer);
void stw_json_write_key(stw_json_writer *writer, const char *key);
void stw_json_write_string(stw_json_writer *writer, stw_str value);
void stw_json_write_int64(stw_json_writer *writer, int64_t value);
void stw_json_write_double(stw_json_writer *writer, double value); /* shortest that reads back; not finite: null */
void stw_json_write_bool(stw_json_writer *writer, bool value);
void stw_json_write_null(stw_json_writer *writer);
/* The same behind a key. */
void stw_json_field_string(stw_json_writer *writer, const char *key, stw_str value);
void stw_json_field_text(stw_json_writer *writer, const char *key, stw_str value); /* p NULL: null */
void stw_json_field_int64(stw_json_writer *writer, const char *key, int64_t value);
void stw_json_field_double(stw_json_writer *writer, const char *key, double value);
void stw_json_field_bool(stw_json_writer *writer, const char *key, bool value);
/* A line break before the next item, for files that people read. */
void stw_json_newline(stw_json_writer *writer);

/* The shortest decimal text that reads back to `value`, with a point whatever the locale; returns its length. */
int stw_format_double(char text[32], double value);

#endif
