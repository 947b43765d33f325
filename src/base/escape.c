#include "base/escape.h"

#include <string.h>

unsigned stw_code_point(const char *text, int length) {
    const unsigned char *c = (const unsigned char *)text;
    if (length == 2) return (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu);
    if (length == 3) return (c[0] & 0x0fu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu);
    return length == 1 ? c[0] : 0x10000; /* of the longer ones none is special */
}

bool stw_is_special(unsigned code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 || code == 0x200e || code == 0x200f ||
           (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

int stw_show_character(const char *text, const char *end, char out[8], int *taken) {
    const int length = stw_utf8_length(text, end);
    const unsigned code = length == 0 ? (unsigned char)*text : stw_code_point(text, length);
    *taken = length == 0 ? 1 : length;
    if (length > 0 && !stw_is_special(code)) {
        memcpy(out, text, (size_t)length);
        return length;
    }
    if (code == '\n' || code == '\t' || code == '\r')
        return snprintf(out, 8, "\\%c", code == '\n' ? 'n' : code == '\t' ? 't' : 'r');
    return snprintf(out, 8, length <= 1 ? "\\x%02x" : "\\u%04x", code & 0xffffu);
}

/* What a cut leaves at the end of a text: the beginning of a character. */
static bool is_cut(const char *text, const char *end) {
    const unsigned char *c = (const unsigned char *)text, *last = (const unsigned char *)end;
    if (c[0] < 0xc2 || c[0] > 0xf4 || last - c >= (c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4)) return false;
    for (c++; c < last; c++) {
        if ((*c & 0xc0) != 0x80) return false;
    }
    return true;
}

/* Most texts are fine as they are. */
static bool is_plain(const char *text, const char *end) {
    while (text < end) {
        const int length = stw_utf8_length(text, end);
        if (length == 0 || stw_is_special(stw_code_point(text, length))) return false;
        text += length;
    }
    return true;
}

void stw_escape_text(char *text, size_t size) {
    char from[1024]; /* longer than any message */
    const size_t before = strlen(text);
    if (is_plain(text, text + before)) return;
    const size_t length = before < sizeof from ? before : sizeof from;
    memcpy(from, text, length);
    size_t to = 0;
    for (size_t at = 0; at < length;) {
        char shown[8];
        int taken;
        if (is_cut(from + at, from + length)) break;
        const int wide = stw_show_character(from + at, from + length, shown, &taken);
        if (to + (size_t)wide >= size) break;
        memcpy(text + to, shown, (size_t)wide);
        to += (size_t)wide;
        at += (size_t)taken;
    }
    text[to] = '\0';
}

void stw_write_escaped(FILE *file, stw_str text) {
    const char *const end = text.p + text.length;
    for (const char *at = text.p; at < end;) {
        char shown[8];
        int taken;
        fwrite(shown, 1, (size_t)stw_show_character(at, end, shown, &taken), file);
        at += taken;
    }
}

/* A byte of an escape, or of the text, within a cell. */
static void put_cell_byte(FILE *file, char c) {
    if (c == '"') fputc('"', file);
    fputc(c, file);
}

void stw_write_cell(FILE *file, stw_str text) {
    const char *const end = text.p + text.length;
    bool quoted = false;
    for (int64_t i = 0; i < text.length; i++) quoted |= text.p[i] == ',' || text.p[i] == '"';
    if (quoted) fputc('"', file);
    const char first = text.length > 0 ? text.p[0] : ' ';
    if (first == '=' || first == '+' || first == '-' || first == '@') fputc('\'', file); /* a spreadsheet would compute it */
    for (const char *at = text.p; at < end;) {
        char shown[8];
        int taken;
        const int wide = stw_show_character(at, end, shown, &taken);
        for (int k = 0; k < wide; k++) put_cell_byte(file, shown[k]);
        at += taken;
    }
    if (quoted) fputc('"', file);
}
