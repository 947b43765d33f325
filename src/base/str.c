#define _GNU_SOURCE /* strtod_l, newlocale */
#include "base/str.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

stw_str stw_str_of(const char *text) { return (stw_str){text, text == NULL ? 0 : (int64_t)strlen(text)}; }

bool stw_str_equal(stw_str a, stw_str b) {
    return a.length == b.length && (a.length == 0 || memcmp(a.p, b.p, (size_t)a.length) == 0);
}

bool stw_str_is(stw_str a, const char *text) { return stw_str_equal(a, stw_str_of(text)); }

bool stw_str_starts(stw_str a, const char *prefix) {
    const size_t length = strlen(prefix);
    return (size_t)a.length >= length && memcmp(a.p, prefix, length) == 0;
}

bool stw_str_ends(stw_str a, const char *suffix) {
    const size_t length = strlen(suffix);
    return (size_t)a.length >= length && memcmp(a.p + (size_t)a.length - length, suffix, length) == 0;
}

/* What both begin and end with takes no edits. */
static void drop_common_ends(stw_str *a, stw_str *b) {
    while (a->length > 0 && b->length > 0 && a->p[0] == b->p[0]) a->p++, b->p++, a->length--, b->length--;
    while (a->length > 0 && b->length > 0 && a->p[a->length - 1] == b->p[b->length - 1]) a->length--, b->length--;
}

int32_t stw_str_distance(stw_str a, stw_str b) {
    drop_common_ends(&a, &b);
    if (a.length >= STW_FAR_WORD || b.length >= STW_FAR_WORD) return STW_FAR_WORD;
    int32_t cost[STW_FAR_WORD][STW_FAR_WORD];
    for (int64_t i = 0; i <= a.length; i++) cost[i][0] = (int32_t)i;
    for (int64_t j = 0; j <= b.length; j++) cost[0][j] = (int32_t)j;
    for (int64_t i = 1; i <= a.length; i++) {
        for (int64_t j = 1; j <= b.length; j++) {
            int32_t best = cost[i - 1][j - 1] + (a.p[i - 1] != b.p[j - 1]);
            if (cost[i - 1][j] + 1 < best) best = cost[i - 1][j] + 1;
            if (cost[i][j - 1] + 1 < best) best = cost[i][j - 1] + 1;
            const bool swapped = i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1];
            if (swapped && cost[i - 2][j - 2] + 1 < best) best = cost[i - 2][j - 2] + 1;
            cost[i][j] = best;
        }
    }
    return cost[a.length][b.length];
}

stw_str stw_str_copy(stw_arena *arena, stw_str s) {
    char *copy = STW_NEW(arena, char, s.length + 1);
    if (copy == NULL) return (stw_str){0};
    if (s.length > 0) memcpy(copy, s.p, (size_t)s.length);
    return (stw_str){copy, s.length};
}

stw_str stw_str_format(stw_arena *arena, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length < 0 ? NULL : STW_NEW(arena, char, (int64_t)length + 1);
    if (text != NULL) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text == NULL ? (stw_str){0} : (stw_str){text, length};
}

uint64_t stw_str_hash(stw_str s) { /* FNV-1a with a final mix */
    uint64_t hash = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < s.length; i++) {
        hash ^= (unsigned char)s.p[i];
        hash *= 0x100000001b3u;
    }
    return hash ^ (hash >> 32);
}

bool stw_str_to_int64(stw_str s, int64_t *out) {
    int64_t i = 0;
    const bool negative = s.length > 0 && s.p[0] == '-';
    if (negative) i++;
    if (i == s.length) return false;
    int64_t value = 0; /* kept negative, since the negative range is the larger one */
    for (; i < s.length; i++) {
        const int digit = s.p[i] - '0';
        if (digit < 0 || digit > 9) return false;
        if (__builtin_mul_overflow(value, (int64_t)10, &value)) return false;
        if (__builtin_sub_overflow(value, (int64_t)digit, &value)) return false;
    }
    if (!negative && value == INT64_MIN) return false;
    *out = negative ? value : -value;
    return true;
}

/* The rare numbers that plain double arithmetic does not get exactly. */
static bool parse_double_slowly(stw_str s, double *out) {
    char stack[64];
    char *text = s.length < (int64_t)sizeof stack ? stack : malloc((size_t)s.length + 1);
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    bool ok = text != NULL && c_locale != (locale_t)0;
    if (ok) {
        memcpy(text, s.p, (size_t)s.length);
        text[s.length] = '\0';
        *out = strtod_l(text, NULL, c_locale);
        ok = isfinite(*out);
    }
    if (c_locale != (locale_t)0) freelocale(c_locale);
    if (text != stack) free(text);
    return ok;
}

bool stw_str_to_double(stw_str s, double *out) {
    static const double power_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                          1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    int64_t i = 0;
    const bool negative = s.length > 0 && s.p[0] == '-';
    if (negative) i++;
    uint64_t mantissa = 0;
    int64_t digits = 0, significant = 0, exponent = 0;
    bool point = false;
    for (; i < s.length; i++) {
        if (s.p[i] == '.' && !point && digits > 0) {
            point = true;
            continue;
        }
        const int digit = s.p[i] - '0';
        if (digit < 0 || digit > 9) break;
        if (significant > 0 || digit > 0) significant++;
        if (significant <= 18) mantissa = mantissa * 10 + (uint64_t)digit;
        digits++;
        if (point) exponent--;
    }
    if (digits == 0 || s.p[i - 1] == '.') return false;
    if (i < s.length && (s.p[i] == 'e' || s.p[i] == 'E')) {
        i++;
        if (i < s.length && s.p[i] == '+') {
            i++;
            if (i < s.length && s.p[i] == '-') return false;
        }
        int64_t written = 0;
        if (!stw_str_to_int64((stw_str){s.p + i, s.length - i}, &written)) return false;
        if (written > 100000 || written < -100000) written = written > 0 ? 100000 : -100000;
        exponent += written;
        i = s.length;
    }
    if (i != s.length) return false;
    /* Both factors are exact doubles here, so one rounding gives the nearest double. */
    if (significant <= 18 && mantissa < (1ULL << 53) && exponent >= -22 && exponent <= 22) {
        const double value =
            exponent < 0 ? (double)mantissa / power_of_ten[-exponent] : (double)mantissa * power_of_ten[exponent];
        *out = negative ? -value : value;
        return true;
    }
    return parse_double_slowly(s, out);
}

typedef struct {
    const char *name;
    double factor;
} unit;

/* A number and one of the units, or none; longer names that end like shorter ones come first. */
static bool to_quantity(stw_str s, const unit *units, size_t count, double *out) {
    double factor = 1.0;
    for (size_t i = 0; i < count; i++) {
        if (!stw_str_ends(s, units[i].name)) continue;
        factor = units[i].factor;
        s.length -= (int64_t)strlen(units[i].name);
        break;
    }
    while (s.length > 0 && s.p[s.length - 1] == ' ') s.length--;
    double number = 0.0;
    if (!stw_str_to_double(s, &number)) return false;
    *out = number * factor;
    return true;
}

bool stw_str_to_bytes(stw_str s, int64_t *out) {
    static const unit units[] = {{"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
                                 {"kB", 1e3},     {"KB", 1e3},        {"MB", 1e6},           {"GB", 1e9},
                                 {"TB", 1e12},    {"B", 1.0}};
    double bytes = 0.0;
    if (!to_quantity(s, units, sizeof units / sizeof units[0], &bytes) || !(bytes >= 0.0 && bytes < 9.0e18)) return false;
    *out = (int64_t)(bytes + 0.5);
    return true;
}

bool stw_str_to_seconds(stw_str s, double *out) {
    static const unit units[] = {{"ms", 1e-3}, {"min", 60.0}, {"m", 60.0}, {"h", 3600.0}, {"s", 1.0}};
    double seconds = 0.0;
    if (!to_quantity(s, units, sizeof units / sizeof units[0], &seconds) || !(seconds > 0.0 && seconds <= 1e9)) return false;
    *out = seconds;
    return true;
}

/* The length of the UTF-8 character that begins at `c`, or 0: no overlong forms, no surrogates, nothing above U+10FFFF. */
int stw_utf8_length(const char *c, const char *end) {
    const unsigned char *u = (const unsigned char *)c;
    const int length = u[0] < 0x80 ? 1 : u[0] < 0xc2 ? 0 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : u[0] < 0xf5 ? 4 : 0;
    if (length == 0 || end - c < length) return 0;
    for (int i = 1; i < length; i++) {
        if ((u[i] & 0xc0) != 0x80) return 0;
    }
    if ((u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f)) return 0;
    if ((u[0] == 0xf0 && u[1] < 0x90) || (u[0] == 0xf4 && u[1] > 0x8f)) return 0;
    return length;
}

void stw_show_position(stw_str text, int64_t at, char out[STW_POSITION_SIZE]) {
    long long line = 1;
    for (int64_t k = 0; k < at && k < text.length; k++) line += text.p[k] == '\n';
    if (text.length > 0) {
        snprintf(out, STW_POSITION_SIZE, "line %lld", line);
    } else {
        snprintf(out, STW_POSITION_SIZE, "byte %lld", (long long)at);
    }
}
