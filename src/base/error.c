#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/escape.h"

stw_status stw_fail(stw_error *error, stw_status status, const char *format, ...) {
    if (error == NULL) return status;
    error->status = status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    stw_escape_text(error->message, sizeof error->message);
    return status;
}

void stw_error_prefix(stw_error *error, const char *prefix) {
    enum { LONGEST = 200 }; /* of a long path the end tells most, and the message must have room */
    if (error == NULL) return;
    const size_t length = strlen(prefix);
    const bool cut = length > LONGEST;
    char joined[sizeof error->message + LONGEST + 8];
    snprintf(joined, sizeof joined, "%s%s: %s", cut ? "..." : "", cut ? prefix + (length - LONGEST) : prefix, error->message);
    joined[sizeof error->message - 1] = '\0';
    memcpy(error->message, joined, sizeof error->message);
    stw_escape_text(error->message, sizeof error->message);
}
