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
static int32_t text_width(stw_str text) {
    int32_t width = 0;
    for (int64_t i = 0; i < text.length; i++) width += ((unsigned char)text.p[i] & 0xc0) != 0x80;
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
    *cell = (cli_cell){.text = copy.p, .width = text_width(copy), .style = style};
    if (table->last != NULL) table->last->next = cell;
    if (table->first == NULL) table->first = cell;
    table->last = cell;
    table->cell_count++;
}

void cli_table_add_line(cli_table *table, const char *name, const char *text) {
    cli_table_add(table, CLI_PLAIN, "%s", name);
    cli_table_add(table, CLI_PLAIN, "%s", text);
}

void cli_table_add_name(cli_table *table, cli_style style, const char *name) {
    const int32_t before = table->cell_count;
    cli_table_add(table, style, "%s", name);
    if (table->cell_count > before) table->last->is_name = true;
}

/* The bytes of `text` that a line of `width` characters takes: to the last blank that fits, else the first word whole or, where
 * words may be broken, what fits of it. */
static int32_t fit_line(const char *text, int32_t width, bool breaks_words) {
    int32_t characters = 0, blank = 0, i = 0;
    for (; text[i] != '\0'; i++) {
        const bool begins = ((unsigned char)text[i] & 0xc0) != 0x80;
        if (begins && characters == width && text[i] != ' ' && (blank > 0 || breaks_words)) return blank > 0 ? blank : i;
        if (begins) characters++;
        if (i > 0 && text[i] == ' ' && text[i - 1] != ' ' && text[i + 1] != '%') blank = i;
        if (characters > width && blank > 0) return blank;
    }
    return i;
}

/* One line being printed: blanks wait until something follows them, so that no line ends in blanks. */
typedef struct line {
    FILE *file;
    bool colour;
    int32_t blanks;
} line;

static void print_cell(line *l, stw_str text, int32_t column_width, cli_align align, cli_style style) {
    const int32_t width = text_width(text), padding = column_width > width ? column_width - width : 0;
    const bool coloured = l->colour && style != CLI_PLAIN;
    if (align == CLI_RIGHT) l->blanks += padding;
    if (width > 0) {
        fprintf(l->file, "%*s%s%.*s%s", l->blanks, "", coloured ? style_begin(style) : "", (int)text.length, text.p,
                coloured ? "\033[0m" : "");
        l->blanks = 0;
    }
    l->blanks += 2 + (align == CLI_LEFT ? padding : 0);
}

static void end_line(line *l) {
    fputc('\n', l->file);
    l->blanks = 2; /* the indent of the next line */
}

/* Which columns are printed side by side, and how wide each is: the leading ones that name the row, then [from, to). */
typedef struct block {
    const cli_column *column;
    const int32_t *width;
    int32_t names, from, to, count; /* count: of the table */
} block;

/* A row of `text` and `style` per column of the table, over as many lines as its longest cell needs. */
static void print_row(line *l, const block *b, const char **text, const cli_style *style) {
    bool more = true;
    while (more) {
        more = false;
        for (int32_t c = 0; c < b->to; c++) {
            if (c == b->names) c = b->from;
            if (c >= b->to) break;
            const int32_t length = fit_line(text[c], b->width[c], c + 1 < b->count); /* the last may stand out: a path */
            print_cell(l, (stw_str){text[c], length}, b->width[c], b->column[c].align, style[c]);
            text[c] += length;
            while (*text[c] == ' ' && length > 0) text[c]++;
            more |= *text[c] != '\0';
        }
        end_line(l);
    }
}

static void print_block(const cli_table *table, const block *b, FILE *file) {
    const char *text[CLI_MAX_COLUMNS];
    cli_style style[CLI_MAX_COLUMNS];
    line l = {.file = file, .colour = file == stdout && has_colour(), .blanks = 2};
    for (int32_t c = 0; c < table->column_count; c++) text[c] = table->column[c].title, style[c] = CLI_BOLD;
    if (table->column[0].title != NULL) print_row(&l, b, text, style);
    int32_t c = 0;
    for (const cli_cell *cell = table->first; cell != NULL; cell = cell->next) {
        text[c] = cell->text;
        style[c] = cell->style;
        c = (c + 1) % table->column_count;
        if (c == 0) print_row(&l, b, text, style);
    }
}

static void find_widths(const cli_table *table, int32_t *width) {
    for (int32_t c = 0; c < table->column_count; c++) {
        width[c] = table->column[c].title != NULL ? text_width(stw_str_of(table->column[c].title)) : 0;
    }
    int32_t c = 0;
    for (const cli_cell *cell = table->first; cell != NULL; cell = cell->next, c = (c + 1) % table->column_count) {
        if (cell->width > width[c]) width[c] = cell->width;
    }
}

static int32_t total_width(const int32_t *width, int32_t first, int32_t end) {
    int32_t total = 0;
    for (int32_t c = first; c < end; c++) total += 2 + width[c];
    return total;
}

/* Makes columns of words narrower, the widest first, until the table fits or all are at NARROW; their cells take several lines.
 */
static void narrow(const cli_table *table, int32_t *width) {
    for (;;) {
        const int32_t excess = total_width(width, 0, table->column_count) - CLI_WIDTH;
        int32_t widest = -1;
        for (int32_t c = 0; c < table->column_count; c++) {
            if (table->column[c].align != CLI_LEFT || width[c] <= CLI_NARROW) continue;
            if (widest < 0 || width[c] >= width[widest]) widest = c;
        }
        if (excess <= 0 || widest < 0) return;
        width[widest]--;
    }
}

/* At most CLI_WIDTH columns: long words take several lines; what is still too wide becomes several tables below each other, each
 * with the names of the rows. */
void cli_table_print(const cli_table *table, FILE *file) {
    int32_t width[CLI_MAX_COLUMNS];
    find_widths(table, width);
    narrow(table, width);
    block b = {.column = table->column, .width = width, .count = table->column_count};
    while (b.names < b.count && table->column[b.names].align == CLI_LEFT) b.names++;
    for (b.from = b.names; b.from < b.count || b.from == b.names; b.from = b.to) {
        b.to = b.from < b.count ? b.from + 1 : b.from;
        while (b.to < b.count && total_width(width, 0, b.names) + total_width(width, b.from, b.to + 1) <= CLI_WIDTH) b.to++;
        if (b.from > b.names) fputc('\n', file);
        print_block(table, &b, file);
        if (b.to == b.from) return;
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

/* Further lines are indented by two. */
static void print_wrapped(const char *text, int32_t indent, cli_style style) {
    while (*text != '\0') {
        const int32_t length = fit_line(text, CLI_WIDTH - indent, false);
        printf("%*s%s%.*s%s\n", indent, "", style_begin(style), length, text, style != CLI_PLAIN ? "\033[0m" : "");
        text += length;
        while (*text == ' ') text++;
        indent = 2;
    }
}

void cli_heading(const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    stw_escape_text(text, sizeof text);
    print_wrapped(text, 0, has_colour() ? CLI_BOLD : CLI_PLAIN);
}

void cli_paragraph(const char *text) { print_wrapped(text, 2, CLI_PLAIN); }

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
