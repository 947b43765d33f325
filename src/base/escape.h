/* Text that comes from files, for terminals and for spreadsheets. */
#ifndef STW_BASE_ESCAPE_H
#define STW_BASE_ESCAPE_H

#include <stdio.h>

#include "base/str.h"

/* Control characters (C0, DEL, C1), separators of lines, and what turns the direction of writing. */
bool stw_is_special(unsigned code);
/* A character of 1 to 4 bytes (stw_utf8_length) as a number. */
unsigned stw_code_point(const char *text, int length);

/* The character at `text` as it is shown, in up to 8 bytes, whose number is returned; *taken bytes of the text are it. */
int stw_show_character(const char *text, const char *end, char out[8], int *taken);

/* Names come from files, and long ones are cut. What could break the line, steer a terminal or turn the text round is written as
 * "\\n", "\\x1b" or "\\u009b", and so is each byte of what is no UTF-8. In place, within `size` bytes: what has no room is cut
 * off, and so is the half of a character at the end. */
void stw_escape_text(char *text, size_t size);

/* The same into a file, however long. */
void stw_write_escaped(FILE *file, stw_str text);

/* A text as a cell of CSV for people: escaped likewise, in quotes where RFC 4180 wants them, and with an apostrophe in front of
 * what a spreadsheet would take for a formula. Not for files that are read back. */
void stw_write_cell(FILE *file, stw_str text);

#endif
