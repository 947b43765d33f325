/* The table for people: text or Markdown. */
#include <math.h>
#include <string.h>

#include "bench.h"

static void add_row_name(cli_table *table, const bench_line *line) {
    cli_table_add(table, CLI_PLAIN, "%s", bench_rows[line->row].name);
}

static void add_versus(cli_table *table, cli_style style, bench_versus versus) {
    bench_add_percent(table, style, versus.reduction);
    bench_add_number(table, style, versus.speedup);
}

/* ---- the head ---- */

enum { MAX_PLACES = 20 };

static void print_seeds(const bench_setup *s, FILE *file) {
    for (int32_t k = 0; k < s->seed_count; k++) fprintf(file, "%s%lld", k == 0 ? "" : ", ", (long long)s->seed[k]);
}

static void print_places(const bench_text *r) {
    bench_place place[MAX_PLACES];
    const int32_t count = bench_list_places(r->figures, place, MAX_PLACES);
    for (int32_t k = 0; k < count; k++) {
        const bench_record *record = place[k].record;
        fprintf(r->file, "- %d runs: %s, %s, %d cores, %d at a time, stowage %s, commit %s\n", place[k].runs, record->date,
                record->processor[0] == '\0' ? "unknown processor" : record->processor, record->cores, record->jobs,
                record->version, record->commit[0] == '\0' ? "not stated" : record->commit);
    }
}

static void print_head(bench_text *r) {
    const bench_figures *f = r->figures;
    const bench_setup *s = f->setup;
    const char *tick = r->markdown ? "`" : "";
    fprintf(r->file, "%sGO's table 2 on %s\n\n", r->markdown ? "# " : "",
            strcmp(s->link, "pcie") == 0 ? "h200xN-pcie" : "h200xN");
    fprintf(r->file, "%s%s%s\nPrinted on %s. %d of %d runs are present; what is missing shows as -. Seeds ", tick,
            bench_command(s, &r->arena), tick, bench_today(&r->arena), f->present, f->run_count);
    print_seeds(s, r->file);
    fprintf(r->file, "; %d thread%s each.\n", s->threads, s->threads == 1 ? "" : "s");
    if (s->budget_scale != 1.0) fprintf(r->file, "All budgets of time are multiplied by %g.\n", s->budget_scale);
    fprintf(r->file, "\n");
    print_places(r);
}

/* ---- step times ---- */

static void add_step(cli_table *table, const bench_figures *f, const bench_cell *cell, bool names_method) {
    char text[160];
    int length = 0;
    if (cell->count == 0) {
        cli_table_add(table, CLI_PLAIN, "%s", cell->runs == 0 ? "-" : "no plan");
        return;
    }
    length = snprintf(text, sizeof text, "%.4g", 1e3 * cell->mean);
    if (cell->high > cell->low * (1.0 + 1e-4))
        length += snprintf(text + length, sizeof text - (size_t)length, " (%.4g to %.4g)", 1e3 * cell->low, 1e3 * cell->high);
    if (names_method) length += snprintf(text + length, sizeof text - (size_t)length, " %.30s", cell->one->method);
    if (cell->count < f->setup->seed_count)
        snprintf(text + length, sizeof text - (size_t)length, ", %d of %d", cell->count, f->setup->seed_count);
    cli_table_add(table, CLI_PLAIN, "%s", text);
}

static void print_steps(bench_text *r) {
    const bench_what what[] = {BENCH_EXPERT, BENCH_METIS,  r->figures->setup->hdp, BENCH_CONSTRUCTIVE,
                               BENCH_STEER,  BENCH_ANNEAL, BENCH_GO_ONE,           BENCH_GO_ONE_ALONE};
    static const cli_column column[] = {{"row", CLI_LEFT},     {"expert", CLI_RIGHT},       {"METIS", CLI_RIGHT},
                                        {"HDP", CLI_RIGHT},    {"constructive", CLI_RIGHT}, {"steer", CLI_RIGHT},
                                        {"anneal", CLI_RIGHT}, {"go-one", CLI_RIGHT},       {"go-one alone", CLI_RIGHT}};
    stw_arena scratch = r->arena;
    cli_table table;
    bench_print_heading(r, "Step time, ms");
    bench_print_paragraph(
        r,
        "Mean over the seeds, with the smallest and the largest where they differ. constructive: the best of single, "
        "expert, metis, etf, heft, sct, topo and spread, and which (of the first seed). go-one alone: without plans "
        "of other methods (--start-plans no).");
    cli_table_begin(&table, &scratch, column, 9);
    for (int32_t k = 0; k < r->figures->line_count; k++) {
        const bench_line *line = &r->figures->line[k];
        add_row_name(&table, line);
        for (int c = 0; c < 8; c++) add_step(&table, r->figures, &line->cell[what[c]], what[c] == BENCH_CONSTRUCTIVE);
    }
    bench_print_table(r, &table);
}

/* ---- against expert and HDP ---- */

static void print_versus(bench_text *r) {
    static const cli_column column[] = {{"row", CLI_LEFT},       {"go-one to expert", CLI_RIGHT}, {"speed-up", CLI_RIGHT},
                                        {"to HDP", CLI_RIGHT},   {"speed-up", CLI_RIGHT},         {"alone to expert", CLI_RIGHT},
                                        {"speed-up", CLI_RIGHT}, {"to HDP", CLI_RIGHT},           {"speed-up", CLI_RIGHT}};
    const bench_figures *f = r->figures;
    stw_arena scratch = r->arena;
    cli_table table;
    bench_print_heading(r, "Against expert and HDP");
    bench_print_paragraph(r,
                          "Of the means over the seeds that both have: reduction = 1 - t / t_ref, speed-up = t_ref / t. The last "
                          "line is the geometric "
                          "mean of the rows that have both (reduction: 1 - mean of t / t_ref).");
    cli_table_begin(&table, &scratch, column, 9);
    for (int32_t k = 0; k < f->line_count; k++) {
        add_row_name(&table, &f->line[k]);
        for (int i = 0; i < 4; i++) add_versus(&table, CLI_PLAIN, f->line[k].versus[i / 2][i % 2]);
    }
    cli_table_add(&table, CLI_BOLD, "geometric mean");
    for (int i = 0; i < 4; i++) add_versus(&table, CLI_BOLD, f->mean[i / 2][i % 2]);
    bench_print_table(r, &table);
}

/* ---- the search ---- */

static void print_never(const bench_text *r, int32_t subject) {
    const bench_figures *f = r->figures;
    const bench_race *all = &f->race[subject];
    const char *name = subject == 0 ? "go-one" : "go-one alone";
    fprintf(r->file, "\n%s has a plan as good as HDP's last in %d of %d pairs of runs.", name, all->reached, all->pairs);
    if (all->reached == all->pairs) {
        fputc('\n', r->file);
        return;
    }
    fprintf(r->file, " %d are in the means with an upper bound:", all->pairs - all->reached);
    const char *comma = "";
    for (int32_t k = 0; k < f->line_count; k++) {
        const bench_race *race = &f->line[k].race[subject];
        if (race->reached == race->pairs) continue;
        fprintf(r->file, "%s %s (seed", comma, bench_rows[f->line[k].row].name);
        for (int32_t n = 0; n < race->pairs - race->reached; n++) fprintf(r->file, " %lld", (long long)race->never[n]);
        fprintf(r->file, race->reached == 0 ? "; never)" : ")");
        comma = ",";
    }
    fprintf(r->file, ".\n");
}

static void print_races(bench_text *r) {
    static const cli_column column[] = {{"row", CLI_LEFT},
                                        {"HDP's last plan, s", CLI_RIGHT},
                                        {"go-one, s", CLI_RIGHT},
                                        {"speed-up", CLI_RIGHT},
                                        {"alone, s", CLI_RIGHT},
                                        {"speed-up", CLI_RIGHT},
                                        {"search: HDP, s", CLI_RIGHT},
                                        {"anneal", CLI_RIGHT},
                                        {"go-one", CLI_RIGHT},
                                        {"alone", CLI_RIGHT}};
    const bench_what search[] = {r->figures->setup->hdp, BENCH_ANNEAL, BENCH_GO_ONE, BENCH_GO_ONE_ALONE};
    const bench_figures *f = r->figures;
    stw_arena scratch = r->arena;
    cli_table table;
    bench_print_heading(r, "Search time");
    bench_print_paragraph(
        r,
        "When HDP found its last plan, when the others first had one at least as good, and the geometric mean over the "
        "seeds of the ratio (search speed-up); then how long each search took. A search that never had one counts with "
        "HDP's time over all of its own, which is more than its speed-up (<). The last line is the geometric mean of the "
        "rows.");
    bench_print_paragraph(
        r,
        "go-one's first plans are those of 60 constants for its list scheduler (and, unless alone, of other methods), made "
        "before anything is learnt: to be as good as HDP in the first tenths of a second is the decoder's merit, not that of "
        "learning.");
    cli_table_begin(&table, &scratch, column, 10);
    for (int32_t k = 0; k < f->line_count; k++) {
        const bench_race *race = f->line[k].race;
        add_row_name(&table, &f->line[k]);
        bench_add_number(&table, CLI_PLAIN, f->line[k].hdp_last_s);
        for (int s = 0; s < 2; s++) {
            bench_add_number(&table, CLI_PLAIN, race[s].reach_s);
            bench_add_speedup(&table, CLI_PLAIN, &race[s]);
        }
        for (int s = 0; s < 4; s++) bench_add_number(&table, CLI_PLAIN, f->line[k].cell[search[s]].search_s);
    }
    cli_table_add(&table, CLI_BOLD, "geometric mean");
    for (int c = 1; c < 10; c++) {
        if (c == 3 || c == 5) {
            bench_add_speedup(&table, CLI_BOLD, &f->race[c == 5]);
        } else {
            cli_table_add(&table, CLI_PLAIN, "%s", "");
        }
    }
    bench_print_table(r, &table);
    for (int32_t s = 0; s < BENCH_SUBJECTS; s++) print_never(r, s);
}

/* ---- the parts ---- */

void bench_report(const bench_figures *figures, bool markdown, stw_arena arena, FILE *file) {
    bench_text r = {.figures = figures, .markdown = markdown, .arena = arena, .file = file};
    print_head(&r);
    print_steps(&r);
    print_versus(&r);
    print_races(&r);
    bench_print_paper(&r);
    bench_print_hdp(&r);
    bench_print_goals(&r);
}
