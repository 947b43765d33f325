/* Where something stands in a file, for messages. */
#ifndef STW_IMPORT_POSITION_H
#define STW_IMPORT_POSITION_H

#include "base/str.h"

enum { STW_POSITION_SIZE = 40 };

/* "line 7" of a text; "byte 1234" where `text` is empty: the file is bytes. */
void stw_show_position(stw_str text, int64_t at, char out[STW_POSITION_SIZE]);

#endif
