/* Whole files in and out. */
#ifndef STW_BASE_FILE_H
#define STW_BASE_FILE_H

#include <stdio.h>

#include "base/str.h"

/* Reads a file, or standard input for "-", into the arena and unpacks gzip and zstd by their magic numbers. The text is
 * followed by a NUL that is not counted. At most STW_FILE_MAX_BYTES unpacked. Large plain files are mapped, so that only what is
 * looked at is loaded; whoever cuts such a file off meanwhile ends the program. Messages carry the path. */
#define STW_FILE_MAX_BYTES ((int64_t)4 << 30)
stw_status stw_file_read(const char *path, stw_arena *arena, stw_str *out, stw_error *error);

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
