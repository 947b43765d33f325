/* Errors: every function that can fail returns a stw_status and fills an optional stw_error.
 *
 * A message says what, where, value and remedy in one line. Lower layers state the fact; the layer that knows the file name
 * puts it in front (stw_error_prefix); nobody replaces a lower message. */
#ifndef STW_BASE_ERROR_H
#define STW_BASE_ERROR_H

#include <assert.h>

#include "stowage.h"

#define STW_PRINTF(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))

/* Returns early with the status of `expression` unless it is STW_OK. Cleanup is by arenas, so nothing leaks. */
#define TRY(expression)                       \
    do {                                      \
        const stw_status try_ = (expression); \
        if (try_ != STW_OK) return try_;      \
    } while (0)

/* Fills `error` (which may be NULL) and returns `status`, so that callers write `return stw_fail(...)`. */
stw_status stw_fail(stw_error *error, stw_status status, const char *format, ...) STW_PRINTF(3, 4);

/* What a caller of the public interface must not leave out: checked in debug builds, in which assert names the function. */
#define STW_NEED(pointer) assert((pointer) != NULL && "NULL is not allowed here; see the conventions in stowage.h")

/* Puts "<prefix>: " in front of the message, shortening its end if need be. */
void stw_error_prefix(stw_error *error, const char *prefix);

#endif
