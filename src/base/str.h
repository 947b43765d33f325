/* Strings with a length: views into memory that somebody else owns. NUL-terminated only at the border to the system. */
#ifndef STW_BASE_STR_H
#define STW_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct stw_str {
    const char *p;
    int64_t length;
} stw_str;

/* A string literal. */
#define STW_STR(literal) ((stw_str){(literal), (int64_t)sizeof(literal) - 1})
/* For printf("%.*s"): long names are cut so that messages stay one readable line. */
#define STW_STR_SHOW(s) (int)((s).length < 80 ? (s).length : 80), ((s).p != NULL ? (s).p : "")

stw_str stw_str_of(const char *text); /* NULL gives the empty string */
bool stw_str_equal(stw_str a, stw_str b);
bool stw_str_is(stw_str a, const char *text);
bool stw_str_starts(stw_str a, const char *prefix);
bool stw_str_ends(stw_str a, const char *suffix);

/* Edits (insert, delete, replace, swap of neighbours) that turn one word into the other; STW_FAR_WORD for words that differ over
 * a longer stretch than that. */
enum { STW_FAR_WORD = 40 };
int32_t stw_str_distance(stw_str a, stw_str b);

/* Copies into the arena, with a terminating NUL behind the counted bytes; {NULL, 0} when it is full. */
stw_str stw_str_copy(stw_arena *arena, stw_str s);
/* printf into the arena; NUL-terminated; {NULL, 0} when it is full. */
stw_str stw_str_format(stw_arena *arena, const char *format, ...) STW_PRINTF(2, 3);

/* The bytes of the UTF-8 character at `c`, or 0 if there is none. */
int stw_utf8_length(const char *c, const char *end);

/* 64-bit hash, the same on every machine. */
uint64_t stw_str_hash(stw_str s);

/* The whole of `s` as a number, or false. Locale plays no part. */
bool stw_str_to_int64(stw_str s, int64_t *out);
bool stw_str_to_double(stw_str s, double *out); /* finite decimal numbers only */
/* "4GB", "512MiB", "1.5TB", "1000": decimal (kB MB GB TB) and binary (KiB MiB GiB TiB) units of bytes. */
bool stw_str_to_bytes(stw_str s, int64_t *out);
/* "10s", "500ms", "2min", "1h"; without a unit: seconds. More than 0, at most 1e9 s. */
bool stw_str_to_seconds(stw_str s, double *out);

enum { STW_POSITION_SIZE = 40 };
/* Where something stands in a file, for messages: "line 7" of a text; "byte 1234" where `text` is empty: the file is bytes. */
void stw_show_position(stw_str text, int64_t at, char out[STW_POSITION_SIZE]);

#endif
