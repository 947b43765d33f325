/* Where something stands in a file, for messages. */
#include "import/position.h"

#include <stdio.h>

void stw_show_position(stw_str text, int64_t at, char out[STW_POSITION_SIZE]) {
    long long line = 1;
    for (int64_t k = 0; k < at && k < text.length; k++) line += text.p[k] == '\n';
    if (text.length > 0) {
        snprintf(out, STW_POSITION_SIZE, "line %lld", line);
    } else {
        snprintf(out, STW_POSITION_SIZE, "byte %lld", (long long)at);
    }
}
