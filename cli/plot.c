/* Curves in characters, for a terminal or a text file. */
#include <math.h>
#include <string.h>

#include "search.h"

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
