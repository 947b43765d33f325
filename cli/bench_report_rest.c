/* The second half of the report: the paper's figures beside ours, HDP by itself, goals. */
#include <math.h>
#include <string.h>

#include "bench.h"

const char bench_caution[] =
    "The paper's figures are of another experiment: its TensorFlow models, measured on P100 GPUs; ours are training steps of "
    "models "
    "of the same kinds in PyTorch operators, with op times measured on an H200 and steps on several devices simulated, so only "
    "ratios within one experiment can be set side by side.";

/* ---- the paper ---- */

static void print_seconds(bench_text *t) {
    static const cli_column column[] = {{"row", CLI_LEFT},         {"paper's model", CLI_LEFT}, {"GO-one, s", CLI_RIGHT},
                                        {"human, s", CLI_RIGHT},   {"METIS, s", CLI_RIGHT},     {"HDP, s", CLI_RIGHT},
                                        {"go-one, ms", CLI_RIGHT}, {"alone, ms", CLI_RIGHT},    {"expert, ms", CLI_RIGHT},
                                        {"METIS, ms", CLI_RIGHT},  {"HDP, ms", CLI_RIGHT}};
    const bench_what ours[] = {BENCH_GO_ONE, BENCH_GO_ONE_ALONE, BENCH_EXPERT, BENCH_METIS, t->figures->setup->hdp};
    stw_arena scratch = t->arena;
    cli_table table;
    cli_table_begin(&table, &scratch, column, 11);
    for (int32_t k = 0; k < t->figures->line_count; k++) {
        const bench_line *line = &t->figures->line[k];
        const struct bench_paper *paper = &bench_rows[line->row].paper;
        const double theirs[] = {paper->go_one_s, paper->human_s, paper->metis_s, paper->hdp_s};
        cli_table_add(&table, CLI_PLAIN, "%s", bench_rows[line->row].name);
        cli_table_add(&table, CLI_PLAIN, "%s", paper->name);
        for (int c = 0; c < 4; c++) bench_add_number(&table, CLI_PLAIN, theirs[c]);
        for (int c = 0; c < 5; c++) bench_add_number(&table, CLI_PLAIN, 1e3 * line->cell[ours[c]].mean);
    }
    bench_print_table(t, &table);
}

/* Reductions to the expert's and to HDP's step time, and search speed-ups: the paper's, go-one's, go-one's alone. */
static void add_ratios(cli_table *table, cli_style style, const bench_versus paper[2], double paper_search,
                       const bench_versus ours[BENCH_SUBJECTS][BENCH_REFERENCES], const bench_race race[BENCH_SUBJECTS]) {
    for (int r = 0; r < 2; r++) {
        bench_add_percent(table, style, paper[r].reduction);
        for (int s = 0; s < 2; s++) bench_add_percent(table, style, ours[s][r].reduction);
    }
    bench_add_number(table, style, paper_search);
    for (int s = 0; s < 2; s++) bench_add_speedup(table, style, &race[s]);
}

static void print_ratios(bench_text *t) {
    static const cli_column column[] = {{"row", CLI_LEFT},    {"to human: paper", CLI_RIGHT},        {"go-one", CLI_RIGHT},
                                        {"alone", CLI_RIGHT}, {"to HDP: paper", CLI_RIGHT},          {"go-one", CLI_RIGHT},
                                        {"alone", CLI_RIGHT}, {"search speed-up: paper", CLI_RIGHT}, {"go-one", CLI_RIGHT},
                                        {"alone", CLI_RIGHT}};
    const bench_figures *f = t->figures;
    stw_arena scratch = t->arena;
    cli_table table;
    bench_versus paper[2];
    double search = NAN;
    cli_table_begin(&table, &scratch, column, 10);
    for (int32_t k = 0; k < f->line_count; k++) {
        const bench_row *row = &bench_rows[f->line[k].row];
        paper[0] = bench_paper_versus(row, row->paper.human_s);
        paper[1] = bench_paper_versus(row, row->paper.hdp_s);
        cli_table_add(&table, CLI_PLAIN, "%s", row->name);
        add_ratios(&table, CLI_PLAIN, paper, row->paper.search_speedup, f->line[k].versus, f->line[k].race);
    }
    bench_paper_means(f->setup, &paper[0], &paper[1], &search);
    cli_table_add(&table, CLI_BOLD, "geometric mean");
    add_ratios(&table, CLI_BOLD, paper, search, f->mean, f->race);
    bench_print_table(t, &table);
}

void bench_print_paper(bench_text *t) {
    bench_print_heading(t, "Beside the paper");
    bench_print_paragraph(t, bench_caution);
    bench_print_paragraph(
        t,
        "Step times, the paper's in seconds (- for METIS: out of memory), ours in milliseconds; its WaveNets are "
        "larger than ours.");
    print_seconds(t);
    fputc('\n', t->file);
    bench_print_paragraph(t,
                          "Reductions 1 - t / t_ref, the paper's computed from its seconds with the same definition, and search "
                          "speed-ups.");
    print_ratios(t);
}

/* ---- HDP ---- */

static void print_hdp_rows(bench_text *t) {
    static const cli_column column[] = {
        {"row", CLI_LEFT},        {"random, ms", CLI_RIGHT},  {"HDP, ms", CLI_RIGHT},        {"HDP / random", CLI_RIGHT},
        {"search, s", CLI_RIGHT}, {"evaluations", CLI_RIGHT}, {"ended of itself", CLI_RIGHT}};
    stw_arena scratch = t->arena;
    cli_table table;
    cli_table_begin(&table, &scratch, column, 7);
    for (int32_t k = 0; k < t->figures->line_count; k++) {
        const bench_line *line = &t->figures->line[k];
        const bench_cell *hdp = &line->cell[t->figures->setup->hdp];
        cli_table_add(&table, CLI_PLAIN, "%s", bench_rows[line->row].name);
        bench_add_number(&table, CLI_PLAIN, 1e3 * line->cell[BENCH_RANDOM].mean);
        bench_add_number(&table, CLI_PLAIN, 1e3 * hdp->mean);
        bench_add_number(&table, CLI_PLAIN, 1.0 / line->hdp_to_random.speedup);
        bench_add_number(&table, CLI_PLAIN, hdp->search_s);
        cli_table_add(&table, CLI_PLAIN, "%s", hdp->runs == 0 ? "-" : cli_count(llround(hdp->evaluations)).text);
        if (hdp->runs == 0) {
            cli_table_add(&table, CLI_PLAIN, "-");
        } else {
            cli_table_add(&table, CLI_PLAIN, "%d of %d", hdp->converged, hdp->runs);
        }
    }
    bench_print_table(t, &table);
}

static void print_curve(bench_text *t, const bench_record *record) {
    stw_arena scratch = t->arena;
    const int64_t count = record->curve_count;
    double *best = STW_NEW(&scratch, double, count), *mean = STW_NEW(&scratch, double, count);
    if (best == NULL || mean == NULL || count == 0) return;
    for (int64_t k = 0; k < count; k++) {
        best[k] = record->curve[k].best;
        mean[k] = record->curve[k].mean;
    }
    fprintf(t->file, "\n%s on %s, seed %lld:\n%s", bench_rows[record->run.row].name, record->run.machine,
            (long long)record->run.seed, t->markdown ? "\n```" : "");
    cli_plot_print(&(cli_plot){.objective = STW_OBJECTIVE_TIME,
                               .series = {{'-', "best plan so far", best}, {'*', "mean of the valid samples", mean}},
                               .count = count,
                               .axis = "update",
                               .first = record->curve[0].update + 1,
                               .last = record->curve[count - 1].update + 1},
                   t->file);
    if (t->markdown) fputs("```\n", t->file);
}

void bench_print_hdp(bench_text *t) {
    bench_print_heading(t, "HDP");
    bench_print_paragraph(
        t,
        t->figures->setup->hdp == BENCH_HDP
            ? "This HDP decides about units (as the method 'hdp' does unless told otherwise), which makes it stronger than the "
              "published one: --hdp ops."
            : "This HDP decides about ops, as published (hdp with --units off); about units it is stronger: --hdp units.");
    bench_print_paragraph(
        t,
        "Means over the seeds, HDP / random of those that both have. HDP ends of itself when its plan has not become better "
        "for long, or is cut at its limit of time; the last column counts the runs that ended of themselves.");
    print_hdp_rows(t);
    for (int32_t k = 0; k < t->figures->line_count; k++) {
        const bench_line *line = &t->figures->line[k];
        if (bench_rows[line->row].is_plotted && line->cell[t->figures->setup->hdp].one != NULL)
            print_curve(t, line->cell[t->figures->setup->hdp].one);
    }
}

/* ---- goals ---- */

/* What a verdict rests on. */
static void print_reservations(const bench_text *t) {
    const bench_figures *f = t->figures;
    const bench_race *race = &f->race[1];
    const int32_t cut = f->hdp_runs - f->hdp_converged;
    if (race->reached < race->pairs)
        fprintf(t->file,
                "\nThe search speed-up is an upper bound: in %d of the %d pairs of runs go-one alone never has a plan as good as "
                "HDP's.\n",
                race->pairs - race->reached, race->pairs);
    if (cut > 0)
        fprintf(
            t->file,
            "\n%d of the %d HDP runs were cut at their limit of time; with more they might have come to better plans, so what "
            "is said of HDP holds for this limit.\n",
            cut, f->hdp_runs);
    else if (f->hdp_runs > 0)
        fprintf(t->file, "\nNone of the %d HDP runs was cut at its limit of time.\n", f->hdp_runs);
}

void bench_print_goals(bench_text *t) {
    static const char *const verdict[] = {"open", "met", "NOT met"};
    static const cli_column column[] = {
        {"goal", CLI_LEFT}, {"at least", CLI_RIGHT}, {"is", CLI_RIGHT}, {"whole rows", CLI_RIGHT}, {"", CLI_LEFT}};
    const bench_figures *f = t->figures;
    stw_arena scratch = t->arena;
    cli_table table;
    bench_print_heading(t, "Goals");
    bench_print_paragraph(t,
                          "A row is whole when every seed of both sides is in the store. A goal is open until all rows are; the "
                          "last one is lost as soon as one row is.");
    cli_table_begin(&table, &scratch, column, 5);
    for (int k = 0; k < BENCH_GOALS; k++) {
        const bench_goal *goal = &f->goal[k];
        cli_table_add(&table, CLI_PLAIN, "%s", goal->text);
        bench_add_number(&table, CLI_PLAIN, goal->least);
        bench_add_number(&table, CLI_PLAIN, goal->value);
        cli_table_add(&table, CLI_PLAIN, "%d of %d", goal->rows, f->line_count);
        cli_table_add(&table, CLI_BOLD, "%s", verdict[goal->verdict]);
    }
    bench_print_table(t, &table);
    if (f->present < f->run_count) fprintf(t->file, "\nRuns are missing: %d of %d.\n", f->run_count - f->present, f->run_count);
    print_reservations(t);
}
