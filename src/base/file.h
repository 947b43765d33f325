/* Whole files in and out. */
#ifndef STW_BASE_FILE_H
#define STW_BASE_FILE_H

#include <stdio.h>

#include "base/str.h"

/* What a file may hold. 0 stands for the defaults below: a size, and of a packed file a ratio, from STW_FILE_FREE_BYTES on. */
typedef struct stw_file_limits {
    int64_t bytes; /* of the file, and of what it unpacks to */
    int64_t ratio; /* unpacked : packed */
} stw_file_limits;
#define STW_FILE_MAX_BYTES  ((int64_t)4 << 30)
#define STW_FILE_MAX_RATIO  200
#define STW_FILE_FREE_BYTES ((int64_t)64 << 20)

/* Reads a file, or standard input for "-", into the arena and unpacks gzip and zstd by their magic numbers. The text is
 * followed by a NUL that is not counted. No more memory is taken than three times what the limits (NULL: the defaults) allow.
 * Files are read, not mapped: nobody can end the process by cutting one off. Pipes are read to their end; one that nobody writes
 * to, and devices, which have none, are refused. Messages carry the path. */
stw_status stw_file_read_within(const char *path, const stw_file_limits *limits, stw_arena *arena, stw_str *out,
                                stw_error *error);
stw_status stw_file_read(const char *path, stw_arena *arena, stw_str *out, stw_error *error);

/* Size and time of the last change, to tell whether a file stayed as it was; zeros for what is no regular file. */
typedef struct stw_file_state {
    int64_t size, seconds, nanoseconds;
} stw_file_state;
stw_file_state stw_file_state_of(const char *path);
bool stw_file_state_equal(stw_file_state a, stw_file_state b);

/* The path for messages: "standard input" for "-". */
const char *stw_file_label(const char *path);

/* Unpacks bytes in memory (or returns them as they are). */
stw_status stw_unpack_within(stw_str packed, const stw_file_limits *limits, stw_arena *arena, stw_str *out, stw_error *error);
stw_status stw_unpack(stw_str packed, stw_arena *arena, stw_str *out, stw_error *error);

/* A file that appears whole or not at all: written aside, then renamed. "-" is standard output. Links are followed, also one that
 * leads to no file yet; a file that there is keeps its permissions, and one that may not be written is left alone. */
enum { STW_PATH_BYTES = 4096 };
typedef struct stw_output {
    FILE *file;
    char path[STW_PATH_BYTES], aside[STW_PATH_BYTES + 14];
} stw_output;

/* Could it be written? Nothing is left behind and nothing changed. */
stw_status stw_output_check(const char *path, stw_error *error);
/* Do both paths lead to one regular file, or would they if it were there? */
bool stw_file_is_same(const char *a, const char *b);
stw_status stw_output_open(stw_output *output, const char *path, stw_error *error);
stw_status stw_output_commit(stw_output *output, stw_error *error);
void stw_output_discard(stw_output *output); /* no-op after a commit */

#endif
