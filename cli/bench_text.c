/* Pieces of a report in text or Markdown. */
#include <math.h>
#include <string.h>

#include "bench.h"

enum { TEXT_COLUMNS = 110 };

void bench_print_heading(const bench_text *t, const char *heading) {
    fprintf(t->file, "\n%s%s\n\n", t->markdown ? "## " : "", heading);
}

/* A line break is as good as a blank in Markdown. */
void bench_print_paragraph(const bench_text *t, const char *words) {
    int column = 0;
    while (*words != '\0') {
        const int length = (int)strcspn(words, " ");
        if (column > 0 && column + 1 + length > TEXT_COLUMNS) {
            fputc('\n', t->file);
            column = 0;
        }
        column += fprintf(t->file, "%s%.*s", column > 0 ? " " : "", length, words);
        words += length + (words[length] == ' ');
    }
    fputs("\n\n", t->file);
}

void bench_print_table(const bench_text *t, const cli_table *table) {
    if (t->markdown) {
        cli_table_print_markdown(table, t->file);
    } else {
        cli_table_print(table, t->file);
    }
}

void bench_add_number(cli_table *table, cli_style style, double value) {
    if (isnan(value)) {
        cli_table_add(table, CLI_PLAIN, "-");
    } else {
        cli_table_add(table, style, "%.4g", value);
    }
}

void bench_add_speedup(cli_table *table, cli_style style, const bench_race *race) {
    if (race->reached == race->pairs) {
        bench_add_number(table, style, race->speedup);
    } else {
        cli_table_add(table, style, "< %.4g", race->speedup);
    }
}

void bench_add_percent(cli_table *table, cli_style style, double share) {
    if (isnan(share)) {
        cli_table_add(table, CLI_PLAIN, "-");
    } else {
        cli_table_add(table, style, "%s", cli_percent(share).text);
    }
}
