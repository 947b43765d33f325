/* Whole files in and out. */
#ifndef STW_BASE_FILE_H
#define STW_BASE_FILE_H

#include <stdio.h>

#include "base/str.h"

/* Reads a file, or standard input for "-", into the arena and unpacks gzip and zstd by their magic numbers. The text is
 * followed by a NUL that is not counted. At most STW_FILE_MAX_BYTES unpacked. Plain files from STW_FILE_MAP_BYTES on are mapped,
 * so that only what is looked at is loaded; whoever cuts such a file off meanwhile ends the program (SIGBUS). Smaller ones are
 * read, so nobody can. Messages carry the path. */
#define STW_FILE_MAX_BYTES ((int64_t)4 << 30)
#define STW_FILE_MAP_BYTES ((int64_t)32 << 20)
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
stw_status stw_unpack(stw_str packed, stw_arena *arena, stw_str *out, stw_error *error);

/* A file that appears whole or not at all: written aside, then renamed. "-" is standard output. */
typedef struct stw_output {
    FILE *file;
    char path[4096], aside[4110];
} stw_output;

stw_status stw_output_open(stw_output *output, const char *path, stw_error *error);
stw_status stw_output_commit(stw_output *output, stw_error *error);
void stw_output_discard(stw_output *output); /* no-op after a commit */

#endif
