/* The learning curve: rows in memory, as CSV and in characters. One table of the columns serves reading and writing. */
#define _POSIX_C_SOURCE 200809L /* access */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "search.h"

typedef enum column_kind { COUNT, SHORT_COUNT, REAL } column_kind;

#define COLUMN(kind, name) \
    { #name, kind, offsetof(stw_curve_row, name) }
static const struct column {
    const char *name;
    column_kind kind;
    size_t offset;
} columns[] = {COLUMN(COUNT, update), COLUMN(COUNT, evaluations), COLUMN(SHORT_COUNT, round), COLUMN(REAL, seconds),
               COLUMN(REAL, greedy),  COLUMN(REAL, mean),         COLUMN(REAL, best),         COLUMN(REAL, valid),
               COLUMN(REAL, entropy), COLUMN(REAL, sigma),        COLUMN(REAL, rate),         COLUMN(REAL, gradient_norm),
               COLUMN(REAL, clipped), COLUMN(REAL, loss),         COLUMN(REAL, spread)};
#undef COLUMN
enum { COLUMN_COUNT = sizeof columns / sizeof columns[0] };

/* ---- rows ---- */

void cli_curve_cut(cli_curve *curve, int64_t update) {
    while (curve->count > 0 && curve->row[curve->count - 1].update >= update) curve->count--;
}

bool cli_curve_add(cli_curve *curve, const stw_curve_row *row) {
    if (STW_GROW(curve->arena, curve->row, curve->count + 1, curve->capacity, NULL) != STW_OK) return false;
    curve->row[curve->count++] = *row;
    return true;
}

/* ---- out ---- */

static void write_head(FILE *file) {
    for (int c = 0; c < COLUMN_COUNT; c++) fprintf(file, "%s%s", c == 0 ? "" : ",", columns[c].name);
    fputc('\n', file);
}

/* Nothing stands for what does not exist. */
static void write_row(const stw_curve_row *row, FILE *file) {
    for (int c = 0; c < COLUMN_COUNT; c++) {
        const void *at = (const char *)row + columns[c].offset;
        char text[32] = "";
        if (c > 0) fputc(',', file);
        switch (columns[c].kind) {
            case COUNT: fprintf(file, "%" PRId64, *(const int64_t *)at); break;
            case SHORT_COUNT: fprintf(file, "%" PRId32, *(const int32_t *)at); break;
            case REAL:
                if (isfinite(*(const double *)at)) stw_format_double(text, *(const double *)at);
                fputs(text, file);
                break;
        }
    }
    fputc('\n', file);
}

stw_status cli_curve_write(const cli_curve *curve, const char *path, stw_error *error) {
    stw_output output;
    TRY(stw_output_open(&output, path, error));
    write_head(output.file);
    for (int64_t k = 0; k < curve->count; k++) write_row(&curve->row[k], output.file);
    return stw_output_commit(&output, error);
}

/* ---- in ---- */

/* Takes the text up to `end`, or all of it, and moves behind. */
static stw_str cut_off(stw_str *rest, char end) {
    const char *at = rest->length == 0 ? NULL : memchr(rest->p, end, (size_t)rest->length);
    const stw_str piece = {rest->p, at == NULL ? rest->length : at - rest->p};
    const int64_t used = piece.length + (at != NULL);
    *rest = (stw_str){rest->p + used, rest->length - used};
    return piece;
}

static bool read_cell(stw_str text, const struct column *column, stw_curve_row *row) {
    void *at = (char *)row + column->offset;
    int64_t count = 0;
    if (column->kind == REAL) {
        *(double *)at = NAN;
        return text.length == 0 || stw_str_to_double(text, at);
    }
    if (!stw_str_to_int64(text, &count) || count < (column->kind == SHORT_COUNT ? INT32_MIN : 0)) return false;
    if (column->kind == COUNT) *(int64_t *)at = count;
    if (column->kind == SHORT_COUNT) *(int32_t *)at = (int32_t)count;
    return column->kind == COUNT || count <= INT32_MAX;
}

static bool head_is_ours(stw_str line) {
    for (int c = 0; c < COLUMN_COUNT; c++) {
        if (!stw_str_is(cut_off(&line, ','), columns[c].name)) return false;
    }
    return line.length == 0;
}

static stw_status read_row(stw_str line, int64_t number, cli_curve *curve, stw_error *error) {
    stw_curve_row row = {0};
    for (int c = 0; c < COLUMN_COUNT; c++) {
        const stw_str cell = cut_off(&line, ',');
        if (!read_cell(cell, &columns[c], &row))
            return stw_fail(error, STW_ERROR_INPUT, "line %" PRId64 ": '%.*s' is no %s", number, STW_STR_SHOW(cell),
                            columns[c].name);
    }
    if (line.length > 0) return stw_fail(error, STW_ERROR_INPUT, "line %" PRId64 ": more than %d columns", number, COLUMN_COUNT);
    if (curve->count > 0 && row.update <= curve->row[curve->count - 1].update)
        return stw_fail(error, STW_ERROR_INPUT, "line %" PRId64 ": update %" PRId64 " is out of order", number, row.update);
    return cli_curve_add(curve, &row) ? STW_OK : stw_fail(error, STW_ERROR_MEMORY, "out of memory for the learning curve");
}

static stw_status parse(stw_str text, cli_curve *curve, stw_error *error) {
    if (!head_is_ours(cut_off(&text, '\n')))
        return stw_fail(error, STW_ERROR_INPUT, "is no learning curve to go on with; give another file to --curve");
    for (int64_t number = 2; text.length > 0; number++) TRY(read_row(cut_off(&text, '\n'), number, curve, error));
    return STW_OK;
}

stw_status cli_curve_read(cli_curve *curve, const char *path, stw_error *error) {
    stw_str text;
    if (access(path, F_OK) != 0) return STW_OK; /* nothing to go on with */
    TRY(stw_file_read(path, curve->arena, &text, error));
    const stw_status status = parse(text, curve, error);
    if (status != STW_OK) stw_error_prefix(error, path);
    return status;
}

/* ---- in characters, for a terminal or a text file ---- */

enum { LINES = 12, COLUMNS = 60 };

typedef struct canvas {
    double low, high; /* of all values */
    char cell[LINES][COLUMNS + 1];
} canvas;

static void find_range(canvas *c, const cli_plot *plot) {
    c->low = INFINITY;
    c->high = -INFINITY;
    for (int s = 0; s < 2; s++) {
        for (int64_t k = 0; k < plot->count; k++) {
            const double value = plot->series[s].value[k];
            if (!isfinite(value)) continue;
            c->low = fmin(c->low, value);
            c->high = fmax(c->high, value);
        }
    }
}

static void mark(canvas *c, int column, double value, char sign) {
    if (!isfinite(value)) return;
    const double span = c->high / 2.0 - c->low / 2.0; /* halves: the difference of the largest numbers is not finite */
    const double share = span > 0.0 ? (c->high / 2.0 - value / 2.0) / span : 1.0;
    c->cell[lround(fmin(fmax(share, 0.0), 1.0) * (LINES - 1))][column] = sign;
}

/* A column stands for the last of its values; few values are several columns wide. */
static void fill(canvas *c, const cli_plot *plot) {
    find_range(c, plot);
    for (int line = 0; line < LINES; line++) memset(c->cell[line], ' ', COLUMNS);
    for (int column = 0; column < COLUMNS && plot->count > 0; column++) {
        const int64_t k = ((column + 1) * plot->count + COLUMNS - 1) / COLUMNS - 1;
        for (int s = 0; s < 2; s++) mark(c, column, plot->series[s].value[k], plot->series[s].sign);
    }
}

static void print_line(const canvas *c, stw_objective objective, int line, FILE *file) {
    const double down = (double)line / (LINES - 1), value = c->high * (1.0 - down) + c->low * down;
    const bool labelled = line == 0 || line == LINES / 2 || line == LINES - 1;
    int length = COLUMNS;
    while (length > 0 && c->cell[line][length - 1] == ' ') length--;
    fprintf(file, "  %12s |%.*s\n", labelled ? cli_value(objective, value, 5).text : "", length, c->cell[line]);
}

void cli_plot_print(const cli_plot *plot, FILE *file) {
    const struct cli_series *below = &plot->series[0], *above = &plot->series[1];
    canvas c = {.low = 0.0};
    char rule[COLUMNS + 1] = "";
    fill(&c, plot);
    if (!(c.low <= c.high)) return; /* no plan was valid */
    memset(rule, '-', COLUMNS);
    fprintf(file, "\n  %12s  %c %s   %c %s\n", "", above->sign, above->name, below->sign, below->name);
    for (int line = 0; line < LINES; line++) print_line(&c, plot->objective, line, file);
    const cli_text first = cli_count(plot->first), last = cli_count(plot->last);
    fprintf(file, "  %12s +%s\n  %12s  %-*s%s\n", "", rule, plot->axis, COLUMNS - (int)strlen(last.text), first.text, last.text);
}
