/* Plain text for people: aligned tables and numbers with units. Colour only on a terminal. */
#define _POSIX_C_SOURCE 200809L /* isatty */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

struct cli_cell {
    const char *text;
    int32_t width; /* in characters */
    cli_style style;
    bool is_name;
    cli_cell *next;
};

/* NO_COLOR: see no-color.org; the empty text counts as not set. */
static bool has_colour(void) {
    const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (no_color != NULL && no_color[0] != '\0') return false;
    if (terminal != NULL && strcmp(terminal, "dumb") == 0) return false;
    return isatty(STDOUT_FILENO) == 1;
}

static const char *style_begin(cli_style style) {
    static const char *const code[] = {"", "\033[1m", "\033[2m", "\033[32m", "\033[31m"};
    return code[style];
}

/* Counts the characters of UTF-8 text, so that names in any script line up. */
static int32_t text_width(const char *text) {
    int32_t width = 0;
    for (; *text != '\0'; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

void cli_table_begin(cli_table *table, stw_arena *arena, const cli_column *column, int32_t column_count) {
    *table = (cli_table){.arena = arena, .column = column, .column_count = column_count};
}

void cli_table_add(cli_table *table, cli_style style, const char *format, ...) {
    char text[600]; /* room for the longest message */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    stw_escape_text(text, sizeof text);
    cli_cell *cell = STW_NEW(table->arena, cli_cell, 1);
    const stw_str copy = stw_str_copy(table->arena, stw_str_of(text));
    if (cell == NULL || copy.p == NULL) return; /* out of memory: a table with holes is the least of the troubles */
    *cell = (cli_cell){.text = copy.p, .width = text_width(text), .style = style};
    if (table->last != NULL) table->last->next = cell;
    if (table->first == NULL) table->first = cell;
    table->last = cell;
    table->cell_count++;
}

void cli_table_add_name(cli_table *table, cli_style style, const char *name) {
    const int32_t before = table->cell_count;
    cli_table_add(table, style, "%s", name);
    if (table->cell_count > before) table->last->is_name = true;
}

/* One line being printed: blanks wait until something follows them, so that no line ends in blanks. */
typedef struct line {
    FILE *file;
    bool colour;
    int32_t blanks;
} line;

static void print_cell(line *l, const char *text, int32_t width, int32_t column_width, cli_align align, cli_style style) {
    const int32_t padding = column_width - width;
    const bool coloured = l->colour && style != CLI_PLAIN;
    if (align == CLI_RIGHT) l->blanks += padding;
    if (width > 0) {
        fprintf(l->file, "%*s%s%s%s", l->blanks, "", coloured ? style_begin(style) : "", text, coloured ? "\033[0m" : "");
        l->blanks = 0;
    }
    l->blanks += 2 + (align == CLI_LEFT ? padding : 0);
}

static void end_line(line *l) {
    fputc('\n', l->file);
    l->blanks = 2; /* the indent of the next line */
}

static void find_widths(const cli_table *table, int32_t *width) {
    for (int32_t c = 0; c < table->column_count; c++) {
        width[c] = table->column[c].title != NULL ? text_width(table->column[c].title) : 0;
    }
    int32_t c = 0;
    for (const cli_cell *cell = table->first; cell != NULL; cell = cell->next, c = (c + 1) % table->column_count) {
        if (cell->width > width[c]) width[c] = cell->width;
    }
}

void cli_table_print(const cli_table *table, FILE *file) {
    int32_t width[CLI_MAX_COLUMNS];
    find_widths(table, width);
    line l = {.file = file, .colour = file == stdout && has_colour(), .blanks = 2};
    if (table->column[0].title != NULL) {
        for (int32_t c = 0; c < table->column_count; c++) {
            const char *title = table->column[c].title;
            print_cell(&l, title, text_width(title), width[c], table->column[c].align, CLI_BOLD);
        }
        end_line(&l);
    }
    int32_t c = 0;
    for (const cli_cell *cell = table->first; cell != NULL; cell = cell->next) {
        print_cell(&l, cell->text, cell->width, width[c], table->column[c].align, cell->style);
        c = (c + 1) % table->column_count;
        if (c == 0) end_line(&l);
    }
}

/* A cell's text, with what would end the cell or begin a tag escaped. */
static void print_markdown_text(const char *text, bool bold, bool is_name, FILE *file) {
    fputs(bold ? " **" : " ", file);
    if (is_name && text[0] != '\0' && strchr("=+-@", text[0]) != NULL) fputc('\'', file);
    for (; *text != '\0'; text++) {
        if (strchr("|\\*<`", *text) != NULL) fputc('\\', file);
        fputc(*text, file);
    }
    fputs(bold ? "** |" : " |", file);
}

void cli_table_print_markdown(const cli_table *table, FILE *file) {
    fputc('|', file);
    for (int32_t c = 0; c < table->column_count; c++) print_markdown_text(table->column[c].title, false, false, file);
    fputs("\n|", file);
    for (int32_t c = 0; c < table->column_count; c++) fputs(table->column[c].align == CLI_RIGHT ? " ---: |" : " --- |", file);
    int32_t c = 0;
    for (const cli_cell *cell = table->first; cell != NULL; cell = cell->next, c = (c + 1) % table->column_count) {
        if (c == 0) fputs("\n|", file);
        print_markdown_text(cell->text, cell->style == CLI_BOLD && cell->width > 0, cell->is_name, file);
    }
    fputc('\n', file);
}

void cli_heading(const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    stw_escape_text(text, sizeof text);
    if (has_colour()) {
        printf("\033[1m%s\033[0m\n", text);
    } else {
        printf("%s\n", text);
    }
}

/* `value` in the unit that leaves one to three digits before the point. */
static cli_text scaled(double value, const char *const *unit, int32_t unit_count, const char *suffix, int digits) {
    const double nearly = 1.0 - 0.5 * pow(10.0, -digits); /* 999.9 rounds up into the next unit */
    int32_t u = 0;
    while (u + 1 < unit_count && fabs(value) >= 1000.0 * nearly) {
        value /= 1000.0;
        u++;
    }
    const int before = value == 0.0 ? digits /* plain "0" */ : (int)floor(log10(fabs(value) / nearly)) + 1;
    const int decimals = before >= digits ? 0 : before < 1 ? digits - 1 : digits - before;
    cli_text out;
    snprintf(out.text, sizeof out.text, "%.*f %s%s", decimals, value, unit[u], suffix);
    return out;
}

cli_text cli_time(double seconds, int digits) {
    static const char *const unit[] = {"ns", "us", "ms", "s"};
    if (seconds == 0.0) return (cli_text){"0 s"};
    return scaled(seconds * 1e9, unit, 4, "", digits);
}

cli_text cli_bytes(double bytes) {
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    if (fabs(bytes) < 1000.0) return scaled(bytes, unit, 1, "", 1); /* whole bytes */
    return scaled(bytes, unit, 6, "", 3);
}

cli_text cli_amount(double value, const char *unit) {
    static const char *const prefix[] = {"", "k", "M", "G", "T", "P", "E"};
    return scaled(value, prefix, 7, unit, 3);
}

cli_text cli_count(int64_t count) {
    char digits[24];
    const int length = snprintf(digits, sizeof digits, "%lld", (long long)count);
    cli_text out = {""};
    int o = 0;
    for (int i = 0; i < length; i++) {
        const bool first = i == 0 || (i == 1 && digits[0] == '-');
        if (!first && (length - i) % 3 == 0) out.text[o++] = ',';
        out.text[o++] = digits[i];
    }
    return out;
}

cli_text cli_percent(double share) {
    cli_text out;
    snprintf(out.text, sizeof out.text, "%.1f %%", 100.0 * share);
    return out;
}

cli_text cli_bar(double share) {
    enum { WIDTH = 20 };
    const int full = share <= 0.0 ? 0 : share >= 1.0 ? WIDTH : (int)lround(share * WIDTH);
    cli_text out = {""};
    for (int i = 0; i < WIDTH; i++) out.text[i] = i < full ? '#' : '.';
    return out;
}
