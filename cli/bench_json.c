/* The table for programs. */
#include <math.h>

#include "bench.h"

enum { MAX_PLACES = 20 };

/* Keys of bench_subject and bench_reference. */
static const char *const subject_key[] = {"go-one", "go-one-alone"};
static const char *const reference_key[] = {"expert", "hdp"};

static void begin(stw_json_writer *w, const char *key) {
    stw_json_write_key(w, key);
    stw_json_begin_object(w);
}

static void write_flag(stw_json_writer *w, const char *key, bool value) {
    stw_json_write_key(w, key);
    stw_json_write_bool(w, value);
}

/* ---- the head ---- */

static void write_places(stw_json_writer *w, const bench_figures *f) {
    bench_place place[MAX_PLACES];
    const int32_t count = bench_list_places(f, place, MAX_PLACES);
    stw_json_write_key(w, "made");
    stw_json_begin_array(w);
    for (int32_t k = 0; k < count; k++) {
        const bench_record *record = place[k].record;
        stw_json_begin_object(w);
        cli_field_int(w, "runs", place[k].runs);
        cli_field_text(w, "date", stw_str_of(record->date));
        cli_field_text(w, "version", stw_str_of(record->version));
        cli_field_text(w, "commit", stw_str_of(record->commit));
        cli_field_text(w, "processor", stw_str_of(record->processor));
        cli_field_int(w, "cores", record->cores);
        cli_field_int(w, "jobs", record->jobs);
        stw_json_end_object(w);
    }
    stw_json_end_array(w);
}

static void write_head(stw_json_writer *w, const bench_figures *f, stw_arena arena) {
    const bench_setup *s = f->setup;
    cli_field_text(w, "format", STW_STR("bench"));
    cli_field_int(w, "version", 1);
    cli_field_text(w, "bench", STW_STR("table2"));
    cli_field_text(w, "command", stw_str_of(bench_command(s, &arena)));
    cli_field_text(w, "date", stw_str_of(bench_today(&arena)));
    cli_field_text(w, "link", stw_str_of(s->link));
    stw_json_write_key(w, "seeds");
    stw_json_begin_array(w);
    for (int32_t k = 0; k < s->seed_count; k++) stw_json_write_int64(w, s->seed[k]);
    stw_json_end_array(w);
    cli_field_int(w, "threads", s->threads);
    cli_field_double(w, "budget_scale", s->budget_scale);
    cli_field_double(w, "hdp_limit", s->hdp_limit);
    cli_field_text(w, "hdp", stw_str_of(bench_what_name(s->hdp)));
    cli_field_int(w, "runs", f->run_count);
    cli_field_int(w, "present", f->present);
    write_places(w, f);
}

/* ---- rows ---- */

static void write_cell(stw_json_writer *w, bench_what what, const bench_cell *cell) {
    begin(w, bench_what_name(what));
    cli_field_int(w, "runs", cell->runs);
    cli_field_int(w, "valid", cell->count);
    cli_field_double(w, "step_s", cell->mean);
    cli_field_double(w, "low_s", cell->low);
    cli_field_double(w, "high_s", cell->high);
    cli_field_double(w, "search_s", cell->search_s);
    cli_field_double(w, "evaluations", cell->evaluations);
    if (bench_what_is_hdp(what)) cli_field_int(w, "converged", cell->converged);
    cli_field_text(w, "method", cell->one == NULL ? (stw_str){0} : stw_str_of(cell->one->method));
    stw_json_end_object(w);
}

static void write_versus(stw_json_writer *w, const bench_versus versus[BENCH_SUBJECTS][BENCH_REFERENCES], bool is_mean) {
    begin(w, "versus");
    for (int s = 0; s < BENCH_SUBJECTS; s++) {
        begin(w, subject_key[s]);
        for (int r = 0; r < BENCH_REFERENCES; r++) {
            begin(w, reference_key[r]);
            cli_field_double(w, "reduction", versus[s][r].reduction);
            cli_field_double(w, "speedup", versus[s][r].speedup);
            cli_field_int(w, is_mean ? "rows" : "seeds", is_mean ? versus[s][r].rows : versus[s][r].seeds);
            stw_json_end_object(w);
        }
        stw_json_end_object(w);
    }
    stw_json_end_object(w);
}

static void write_races(stw_json_writer *w, const bench_race race[BENCH_SUBJECTS], bool is_mean) {
    begin(w, "search");
    for (int s = 0; s < BENCH_SUBJECTS; s++) {
        begin(w, subject_key[s]);
        cli_field_double(w, "speedup", race[s].speedup);
        cli_field_int(w, "pairs", race[s].pairs);
        cli_field_int(w, "reached", race[s].reached);
        if (is_mean) {
            cli_field_int(w, "rows", race[s].rows);
        } else {
            cli_field_double(w, "reach_s", race[s].reach_s);
            stw_json_write_key(w, "never");
            stw_json_begin_array(w);
            for (int32_t k = 0; k < race[s].pairs - race[s].reached; k++) stw_json_write_int64(w, race[s].never[k]);
            stw_json_end_array(w);
        }
        stw_json_end_object(w);
    }
    stw_json_end_object(w);
}

static void write_paper(stw_json_writer *w, const bench_row *row) {
    const struct bench_paper *paper = &row->paper;
    begin(w, "paper");
    cli_field_text(w, "name", stw_str_of(paper->name));
    cli_field_double(w, "go_one_s", paper->go_one_s);
    cli_field_double(w, "human_s", paper->human_s);
    cli_field_double(w, "metis_s", paper->metis_s);
    cli_field_double(w, "hdp_s", paper->hdp_s);
    cli_field_double(w, "reduction_to_human", bench_paper_versus(row, paper->human_s).reduction);
    cli_field_double(w, "reduction_to_hdp", bench_paper_versus(row, paper->hdp_s).reduction);
    cli_field_double(w, "search_speedup", paper->search_speedup);
    stw_json_end_object(w);
}

static void write_line(stw_json_writer *w, const bench_figures *f, const bench_line *line) {
    const bench_row *row = &bench_rows[line->row];
    stw_json_newline(w);
    stw_json_begin_object(w);
    cli_field_text(w, "row", stw_str_of(row->name));
    cli_field_int(w, "devices", row->devices);
    begin(w, "what");
    for (int32_t k = 0; k < BENCH_WHAT_COUNT; k++) {
        const bool other_hdp = bench_what_is_hdp((bench_what)k) && (bench_what)k != f->setup->hdp;
        if (!other_hdp) write_cell(w, (bench_what)k, &line->cell[k]);
    }
    stw_json_end_object(w);
    write_versus(w, line->versus, false);
    write_races(w, line->race, false);
    cli_field_double(w, "hdp_last_s", line->hdp_last_s);
    cli_field_double(w, "hdp_over_random", 1.0 / line->hdp_to_random.speedup);
    write_paper(w, row);
    if (row->is_plotted && line->cell[f->setup->hdp].one != NULL)
        bench_curve_write(line->cell[f->setup->hdp].one, w); /* the first seed's */
    stw_json_end_object(w);
}

/* ---- means and goals ---- */

static void write_means(stw_json_writer *w, const bench_figures *f) {
    bench_versus human, hdp;
    double search = NAN;
    bench_paper_means(f->setup, &human, &hdp, &search);
    begin(w, "means");
    write_versus(w, f->mean, true);
    write_races(w, f->race, true);
    begin(w, "paper");
    cli_field_double(w, "reduction_to_human", human.reduction);
    cli_field_double(w, "reduction_to_hdp", hdp.reduction);
    cli_field_double(w, "search_speedup", search);
    cli_field_text(w, "caution", stw_str_of(bench_caution));
    stw_json_end_object(w);
    stw_json_end_object(w);
}

static void write_goals(stw_json_writer *w, const bench_figures *f) {
    begin(w, "goals");
    for (int k = 0; k < BENCH_GOALS; k++) {
        const bench_goal *goal = &f->goal[k];
        begin(w, goal->key);
        cli_field_double(w, "least", goal->least);
        cli_field_double(w, "value", goal->value);
        cli_field_int(w, "rows", goal->rows);
        if (goal->verdict == BENCH_OPEN) {
            cli_field_text(w, "met", (stw_str){0});
        } else {
            write_flag(w, "met", goal->verdict == BENCH_MET);
        }
        stw_json_end_object(w);
    }
    stw_json_end_object(w);
}

void bench_write_json(const bench_figures *f, stw_arena arena, FILE *file) {
    stw_json_writer w;
    stw_json_writer_init(&w, file);
    stw_json_begin_object(&w);
    write_head(&w, f, arena);
    stw_json_write_key(&w, "rows");
    stw_json_begin_array(&w);
    for (int32_t k = 0; k < f->line_count; k++) write_line(&w, f, &f->line[k]);
    stw_json_end_array(&w);
    write_means(&w, f);
    write_goals(&w, f);
    stw_json_end_object(&w);
    fputc('\n', file);
}
