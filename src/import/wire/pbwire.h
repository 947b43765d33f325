/* The wire format of protocol buffers: a reader over bytes in memory that copies nothing, and a writer.
 *
 * A message is a list of fields in any order. The reader keeps the first error, with its position in the file, and then answers
 * "false" to everything, so that callers need not check each call: they look at file->failed once at the end.
 *
 *     stw_pb_file file = stw_pb_open(bytes, error);
 *     stw_pb model = stw_pb_message(&file), graph;
 *     for (stw_pb_field f; stw_pb_next(&model, &f);) {
 *         switch (f.number) {
 *             case 1: stw_pb_int(&model, &f, &version); break;
 *             case 7: if (stw_pb_enter(&model, &f, &graph)) read_graph(&graph); break;
 *         }
 *     }
 *     return stw_pb_close(&file); */
#ifndef STW_IMPORT_WIRE_PBWIRE_H
#define STW_IMPORT_WIRE_PBWIRE_H

#include "base/str.h"
#include "base/vector.h"

enum { STW_PB_MAX_DEPTH = 100 };
#define STW_PB_DEPTH_REMEDY "the file is damaged, or must be written anew with fewer levels"

typedef enum stw_pb_type { STW_PB_VARINT = 0, STW_PB_FIXED64 = 1, STW_PB_BYTES = 2, STW_PB_FIXED32 = 5 } stw_pb_type;

typedef struct stw_pb_file { /* what the messages of one file share */
    const char *begin;
    int64_t length;
    stw_error *error;
    bool failed;
} stw_pb_file;

typedef struct stw_pb { /* a cursor over one message */
    stw_pb_file *file;
    const char *cursor, *end;
    int32_t depth; /* 0: the outermost */
} stw_pb;

typedef struct stw_pb_field {
    int64_t number; /* 1 and more */
    stw_pb_type type;
    uint64_t value; /* of a varint or a fixed number */
    stw_str bytes;  /* of STW_PB_BYTES: lies within the file */
    const char *at; /* its first byte */
} stw_pb_field;

stw_pb_file stw_pb_open(stw_str bytes, stw_error *error);
stw_pb stw_pb_message(stw_pb_file *file);   /* the whole file as a message */
stw_status stw_pb_close(stw_pb_file *file); /* STW_OK if nothing failed */
/* Records "byte N: ..." unless an earlier error stands. Always returns false. */
bool stw_pb_fail(stw_pb_file *file, const char *at, const char *format, ...) STW_PRINTF(3, 4);
int64_t stw_pb_offset(const stw_pb_file *file, const char *at);

/* The next field; false at the end of the message and after an error. */
bool stw_pb_next(stw_pb *message, stw_pb_field *field);
/* A cursor over the message in a field; fails when nested deeper than STW_PB_MAX_DEPTH. */
bool stw_pb_enter(stw_pb *message, const stw_pb_field *field, stw_pb *inner);
/* The same for a range that was kept from an earlier pass; `depth` as it was there. */
stw_pb stw_pb_range(stw_pb_file *file, stw_str bytes, int32_t depth);

/* The value of a field; fails when it is of another type. */
bool stw_pb_int(stw_pb *message, const stw_pb_field *field, int64_t *out); /* int32, int64, bool, enum */
bool stw_pb_float(stw_pb *message, const stw_pb_field *field, double *out);
bool stw_pb_string(stw_pb *message, const stw_pb_field *field, stw_str *out);

/* The values of a repeated field of numbers, packed or not: for (l = stw_pb_list_of(&f); stw_pb_list_int(m, &l, &v);) ... */
typedef struct stw_pb_list {
    stw_pb_field field;
    const char *cursor, *end;
    bool single_due;
} stw_pb_list;
stw_pb_list stw_pb_list_of(const stw_pb_field *field);
bool stw_pb_list_int(stw_pb *message, stw_pb_list *list, int64_t *out);
bool stw_pb_list_float(stw_pb *message, stw_pb_list *list, double *out);
bool stw_pb_list_double(stw_pb *message, stw_pb_list *list, double *out);
/* Appends them all. */
bool stw_pb_ints(stw_pb *message, const stw_pb_field *field, stw_vector *out);

/* The writer: fields are appended to a buffer that grows in an arena. It keeps failing once memory is out. */
typedef struct stw_pb_writer {
    stw_arena *arena;
    char *data;
    int64_t length, capacity;
    bool failed;
} stw_pb_writer;

void stw_pb_write_int(stw_pb_writer *w, int64_t number, int64_t value);
void stw_pb_write_string(stw_pb_writer *w, int64_t number, stw_str value);
void stw_pb_write_ints(stw_pb_writer *w, int64_t number, const int64_t *value, int64_t count); /* packed */
void stw_pb_write_raw(stw_pb_writer *w, stw_str fields);                                       /* whole fields, as they are */
/* A message within: what is written between the two is its content. */
int64_t stw_pb_begin(stw_pb_writer *w, int64_t number);
void stw_pb_end(stw_pb_writer *w, int64_t begun);
/* The bytes so far, or STW_ERROR_MEMORY. */
stw_status stw_pb_written(const stw_pb_writer *w, stw_str *out, stw_error *error);

#endif
