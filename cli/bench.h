/* `stowage bench table2`: GO's table 2 with graphs and a simulator of ours. Runs are kept in a store (docs/formats/bench.md), and
 * the table is made from the store alone.
 *
 * A row is a graph with a number of devices; on each row several things are run ("what"), each with several seeds. */
#ifndef STW_CLI_BENCH_H
#define STW_CLI_BENCH_H

#include "search.h"

/* ---- what there is ---- */

typedef struct bench_row {
    const char *name; /* of the graph */
    int32_t devices;
    double search_s;     /* the budget of a search */
    bool is_plotted;     /* the learning curve of hdp is shown */
    struct bench_paper { /* the row of the paper; seconds per step; NaN: out of memory */
        const char *name;
        double go_one_s, human_s, metis_s, hdp_s;
        double search_speedup; /* over HDP */
    } paper;
} bench_row;

typedef enum bench_what { /* the order is that of the runs: what all others are compared with first */
                          BENCH_RANDOM,
                          BENCH_EXPERT,
                          BENCH_METIS,
                          BENCH_CONSTRUCTIVE,
                          BENCH_STEER,
                          BENCH_HDP, /* as this project has it: it decides about units */
                          BENCH_GO_ONE,
                          BENCH_GO_ONE_ALONE,
                          BENCH_ANNEAL,
                          BENCH_HDP_OPS, /* in place of BENCH_HDP: as published, it decides about ops */
                          BENCH_WHAT_COUNT
} bench_what;

enum { BENCH_ROW_COUNT = 14, BENCH_MAX_SEEDS = 64, BENCH_MAX_CURVE = 200 };

/* bench_rows.c */
extern const bench_row bench_rows[BENCH_ROW_COUNT];
const char *bench_what_name(bench_what what);
const char *bench_what_methods(bench_what what);     /* names separated by commas: the best of them counts */
const char *bench_what_start_plans(bench_what what); /* value of the option, or NULL */
const char *bench_what_units(bench_what what);       /* likewise */
bool bench_what_is_hdp(bench_what what);
bool bench_what_is_search(bench_what what); /* takes all the time that it gets, or nearly */

/* ---- what is asked for ---- */

typedef struct bench_setup {
    const cli_call *call;
    const char *data, *store, *output, *commit; /* folder, files (output NULL: standard output), what was built */
    const char *link;                           /* nvlink, pcie */
    bool wanted_row[BENCH_ROW_COUNT];
    bool wanted_what[BENCH_WHAT_COUNT];
    bench_what hdp; /* which of the two */
    int64_t seed[BENCH_MAX_SEEDS];
    int32_t seed_count, jobs, threads;
    double budget_scale, hdp_limit; /* hdp may take so many times the time of a search */
    double deadline_s;              /* from now; 0: none */
    bool only_table;
} bench_setup;

typedef struct bench_run { /* what a run is known by */
    int32_t row;
    bench_what what;
    char machine[24];
    int64_t seed;
    int32_t threads;
    double budget_s; /* of each method */
} bench_run;

/* bench_setup.c */
stw_status bench_setup_read(const cli_call *call, bench_setup *out, stw_error *error);
/* All runs that the table needs, in the order in which they are best made. */
stw_status bench_list_runs(const bench_setup *setup, stw_arena *arena, bench_run **out, int32_t *count, stw_error *error);
bench_run bench_run_of(const bench_setup *setup, int32_t row, bench_what what, int64_t seed);
double bench_run_limit(const bench_run *run); /* the seconds that it takes at most, about */

/* ---- the store ---- */

typedef struct bench_point {
    double seconds, step_s;
} bench_point;

typedef struct bench_update { /* of hdp's learning curve */
    int64_t update, evaluations;
    double seconds, mean, best; /* step times; NaN: none */
} bench_update;

typedef struct bench_record { /* a finished run; strings are never NULL */
    bench_run run;
    int32_t jobs, cores;
    double step_s; /* NaN: no plan */
    bool valid;
    double search_s;
    int64_t evaluations;
    bool converged;            /* hdp: it ended of itself, not at its limit of time */
    const char *method, *note; /* whose plan it is; how it was found, or why it is not valid */
    const char *version, *commit, *date, *processor;
    const bench_point *found; /* (found_count) */
    int64_t found_count;
    const bench_update *curve; /* (curve_count) */
    int64_t curve_count;
} bench_record;

typedef struct bench_store {
    stw_arena arena;
    bench_record *record; /* (count); of equal runs, the first */
    int64_t count, capacity;
    int file; /* open for appending and locked, or -1 */
} bench_store;

/* bench_store.c */
/* `to_add`: runs can be added then, by nobody else at the same time; a file that is not there is made, and a last line that
 * another writer began and did not end is cut off. */
stw_status bench_store_open(bench_store *store, const char *path, bool to_add, stw_error *error);
/* Adds the text of one record: to memory first, so that a line that cannot be read again never gets into the file. */
stw_status bench_store_add(bench_store *store, stw_str line, stw_error *error);
void bench_store_close(bench_store *store);
const bench_record *bench_store_find(const bench_store *store, const bench_run *run); /* or NULL */

/* bench_record.c: one line of the store */
void bench_record_write(const bench_record *record, FILE *file);
void bench_curve_write(const bench_record *record, stw_json_writer *writer); /* the key "curve" and its list */
/* The beginning of a line as it is written here, or a part of that beginning. */
bool bench_record_is_begun(stw_str line);
/* *is_ours is false for the runs of another bench, or of rows that are not known here. */
stw_status bench_record_read(stw_str line, stw_arena *arena, bench_record *out, bool *is_ours, stw_error *error);

/* ---- runs ---- */

/* bench_run.c */
/* A search looks at the time only while it goes on: one that ends before its budget has ended of itself. */
bool bench_ends_of_itself(const bench_run *run, double search_s);
/* Makes one run and writes its record. */
stw_status bench_make_run(const bench_setup *setup, const bench_run *run, stw_arena arena, FILE *file, stw_error *error);
/* bench_jobs.c: makes those of the runs that the store lacks, several at a time, each in a process of its own. */
typedef struct bench_outcome {
    int32_t made, failed, postponed; /* postponed: the deadline is too near */
    bool interrupted;
} bench_outcome;
stw_status bench_make_runs(const bench_setup *setup, bench_store *store, const bench_run *run, int32_t count, stw_arena arena,
                           bench_outcome *out, stw_error *error);

/* ---- the table ---- */

typedef struct bench_cell {  /* what one method came to in a row; means over the seeds */
    int32_t runs, count;     /* in the store; with a valid plan */
    int32_t converged;       /* hdp: ended of themselves */
    double mean, low, high;  /* step time; NaN: none */
    double search_s;         /* NaN: no run */
    double evaluations;      /* likewise */
    const bench_record *one; /* the first valid one, or NULL */
} bench_cell;

typedef struct bench_versus { /* of the seeds where both have a valid plan; NaN: there is none */
    double reduction;         /* 1 - t / t_ref; mean: 1 - geometric mean of t / t_ref */
    double speedup;           /* t_ref / t; mean: geometric */
    int32_t seeds, lost;      /* such seeds; seeds where only the reference has a valid plan */
    int32_t rows;             /* of a mean: how many it is over */
} bench_versus;

/* How much sooner one had a plan as good as hdp's last one, by seed. */
typedef struct bench_race {
    int32_t pairs, reached;         /* seeds with both runs; seeds where it came to that */
    double reach_s;                 /* mean over the seeds where it did; NaN: none */
    double speedup;                 /* geometric mean over the pairs of hdp's time / its time, or, where it never came to that,
                                     * / its whole search, which is an upper bound */
    int64_t never[BENCH_MAX_SEEDS]; /* (pairs - reached) seeds where it did not */
    int32_t rows;                   /* of a mean over rows: those in it */
} bench_race;

enum { BENCH_SUBJECTS = 2, BENCH_REFERENCES = 2, BENCH_GOALS = 3 };
extern const bench_what bench_subject[BENCH_SUBJECTS];               /* go-one, go-one-alone */
bench_what bench_reference(const bench_setup *setup, int32_t index); /* expert, hdp */

typedef struct bench_line { /* a row of the table */
    int32_t row;
    bench_cell cell[BENCH_WHAT_COUNT];
    bench_versus versus[BENCH_SUBJECTS][BENCH_REFERENCES];
    bench_race race[BENCH_SUBJECTS];
    double hdp_last_s; /* when hdp had its last plan, mean over the seeds; NaN: none */
    bench_versus hdp_to_random;
} bench_line;

typedef enum bench_verdict { BENCH_OPEN, BENCH_MET, BENCH_NOT_MET } bench_verdict;

typedef struct bench_goal {
    const char *key, *text;
    double value, least; /* NaN: no runs */
    int32_t rows;        /* where every seed of both sides is present */
    bench_verdict verdict;
} bench_goal;

typedef struct bench_figures {
    const bench_setup *setup;
    const bench_store *store;
    const bench_run *run; /* (run_count) all that the table needs */
    int32_t run_count, present;
    bench_line line[BENCH_ROW_COUNT];
    int32_t line_count;
    bench_versus mean[BENCH_SUBJECTS][BENCH_REFERENCES];
    bench_race race[BENCH_SUBJECTS];
    bench_goal goal[BENCH_GOALS];
    int32_t hdp_runs, hdp_converged;
} bench_figures;

/* bench_figures.c */
void bench_figures_fill(bench_figures *out, const bench_setup *setup, const bench_store *store, const bench_run *run,
                        int32_t run_count);
bench_versus bench_paper_versus(const bench_row *row, double reference_s);
void bench_paper_means(const bench_setup *setup, bench_versus *human, bench_versus *hdp, double *search_speedup);

/* bench_place.c: where runs are made, and whose they are */
typedef struct bench_place { /* runs that were made alike */
    const bench_record *record;
    int32_t runs;
} bench_place;
const char *bench_processor(stw_arena *arena);
int32_t bench_cores(void);
const char *bench_today(stw_arena *arena); /* 2026-11-15 */
int32_t bench_list_places(const bench_figures *figures, bench_place *out, int32_t most);
/* The call that makes the same table; files are left out. */
const char *bench_command(const bench_setup *setup, stw_arena *arena);

typedef struct bench_text { /* a report being printed */
    const bench_figures *figures;
    bool markdown;
    stw_arena arena;
    FILE *file;
} bench_text;

/* bench_report.c: step times and what follows from them */
void bench_report(const bench_figures *figures, bool markdown, stw_arena arena, FILE *file);
/* bench_report_rest.c: the paper, HDP, goals */
void bench_print_paper(bench_text *text);
void bench_print_hdp(bench_text *text);
void bench_print_goals(bench_text *text);
/* bench_text.c */
void bench_print_heading(const bench_text *text, const char *heading);
void bench_print_paragraph(const bench_text *text, const char *words); /* and an empty line */
void bench_print_table(const bench_text *text, const cli_table *table);
void bench_add_number(cli_table *table, cli_style style, double value);            /* NaN: "-" */
void bench_add_speedup(cli_table *table, cli_style style, const bench_race *race); /* "<": an upper bound */
void bench_add_percent(cli_table *table, cli_style style, double share);

/* bench_json.c */
void bench_write_json(const bench_figures *figures, stw_arena arena, FILE *file);
extern const char bench_caution[]; /* why the paper's figures are not those of the same experiment */

#endif
