#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

stw_status stw_fail(stw_error *error, stw_status status, const char *format, ...) {
    if (error == NULL) return status;
    error->status = status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    /* Names come from files: a line break or an escape in one must not break "one line" or reach a terminal. */
    for (char *c = error->message; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    }
    return status;
}

void stw_error_prefix(stw_error *error, const char *prefix) {
    if (error == NULL) return;
    char joined[sizeof error->message];
    const int written = snprintf(joined, sizeof joined, "%s: %s", prefix, error->message);
    if (written > 0) memcpy(error->message, joined, sizeof joined);
    error->message[sizeof error->message - 1] = '\0';
}
