#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

void stw_clean_text(char *text) {
    const char *end = text + strlen(text);
    while (text < end) {
        const unsigned char c = (unsigned char)*text;
        const int length = stw_utf8_length(text, end);
        const bool control = c < 0x20 || c == 0x7f || (c == 0xc2 && length == 2 && (unsigned char)text[1] < 0xa0);
        if (length == 0 || control) *text = '?';
        if (control && length == 2) text[1] = '?';
        text += length == 0 ? 1 : length;
    }
}

stw_status stw_fail(stw_error *error, stw_status status, const char *format, ...) {
    if (error == NULL) return status;
    error->status = status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    stw_clean_text(error->message);
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
    stw_clean_text(error->message);
}
