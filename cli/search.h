/* What `stowage optimize`, `compare` and `train` share: rows of candidates, how they are shown, progress and interrupts. */
#ifndef STW_CLI_SEARCH_H
#define STW_CLI_SEARCH_H

#include "api/settings.h"
#include "cli.h"

typedef enum cli_format { CLI_TEXT, CLI_JSON, CLI_CSV, CLI_MARKDOWN } cli_format;

typedef struct cli_row { /* what the methods came to for one graph on one machine */
    const char *graph, *machine;
    int32_t device_count;
    double size_scale;    /* what bytes are divided by for people (stw_graph_size_scale) */
    const char **warning; /* (warning_count) what the user should know; was printed when the session was opened */
    int32_t warning_count;
    stw_bounds bounds;
    double measured_share; /* of the best plan; NaN: there is none */
    const stw_candidate *candidate;
    int32_t candidate_count;
    int32_t best; /* index, or -1: no valid plan */
    const char *lacking;
    bool interrupted;
    bool repeats;         /* the budget is of evaluations alone: equal runs say the same, so nothing is said of times */
    bool short_of_memory; /* of this program, not of a device */
} cli_row;

/* search_row.c */
cli_format cli_format_of(const cli_call *call);
/* Everything is copied into the arena, so that session and result may go. */
stw_status cli_row_create(const stw_session *session, const stw_result *result, stw_arena *arena, cli_row *out, stw_error *error);
/* The session of a graph with the call's options; its remarks are printed. */
stw_status cli_session_open(const cli_call *call, const char *graph, stw_session **out, stw_error *error);
bool cli_is_dash(const char *path);
int64_t cli_candidate_peak(const cli_row *row, const stw_candidate *candidate); /* the largest of a device; -1: none */
/* What a value of each objective is, in words. */
typedef struct cli_objective_words {
    const char *quantity; /* "step time" */
    const char *in_full;
    const char *ratio; /* by which methods are compared over several graphs */
} cli_objective_words;
extern const cli_objective_words cli_words[STW_OBJECTIVE_COUNT];
/* A value of the objective: a time or bytes; "-" if there is none. */
cli_text cli_value(stw_objective objective, double value, int digits);
/* The same in the unit of the graph's file. */
cli_text cli_row_value(const cli_row *row, stw_objective objective, double value, int digits);
cli_text cli_row_bytes(const cli_row *row, double bytes);
/* What no plan can beat in the objective, with the groups of the plan; 0: nothing is known. */
double cli_row_bound(const cli_row *row, stw_objective objective);
cli_text cli_budget(const stw_settings *settings); /* "10 s", "1,000 evaluations" */
/* The stw_reason's name in a text "... memory: ..."; "no plan" if there is none. */
const char *cli_reason_word(const char *reason);
/* One line on standard error if memory ran out during the search: `what` (or NULL) in front, and which methods it was. */
void cli_warn_of_memory(const cli_row *row, const char *what);
/* The exit status of a search; without a valid plan, says what lacks. */
int cli_search_status(const cli_row *row);

/* candidates.c: a row's candidates, one per line, the best in bold; `first_is_default` adds the speed-up over it. */
void cli_print_candidates(const cli_row *row, stw_objective objective, bool first_is_default, cli_format format, stw_arena arena);
/* The same for programs. */
void cli_print_csv_head(void);
void cli_print_csv_row(const cli_row *row, stw_objective objective);

/* train_curve.c: the learning curve, in order of the updates */
typedef struct cli_curve {
    stw_arena *arena;
    stw_curve_row *row; /* (count) */
    int64_t count, capacity;
} cli_curve;
bool cli_curve_add(cli_curve *curve, const stw_curve_row *row); /* false: out of memory */
void cli_curve_cut(cli_curve *curve, int64_t update);           /* leaves the rows before this update */
/* CSV. A file that is not there has no rows. */
stw_status cli_curve_read(cli_curve *curve, const char *path, stw_error *error);
stw_status cli_curve_write(const cli_curve *curve, const char *path, stw_error *error);

/* Two curves in characters; where they meet, the second is seen */
typedef struct cli_plot {
    stw_objective objective;
    struct cli_series {
        char sign;
        const char *name;
        const double *value; /* (count); NaN: none */
    } series[2];
    int64_t count;
    const char *axis;
    int64_t first, last; /* what stands at the ends of the axis */
} cli_plot;
void cli_plot_print(const cli_plot *plot, FILE *file); /* nothing if there is no value */

/* svg.c: a picture, which needs no other file; its style's classes are colours in light and dark. Lengths in pixels. */
void cli_svg_begin(FILE *file, double width, double height, const char *title);
/* Text from files is data: escaped, and cut where it has no room. */
void cli_svg_text(FILE *file, const char *classes, double x, double y, double room, const char *text);
double cli_svg_text_width(const char *text); /* about */
/* `tip`, unless it is NULL, is seen when one points at the bar. */
void cli_svg_bar(FILE *file, const char *classes, double x, double y, double width, double height, const char *tip);
void cli_svg_line(FILE *file, const char *classes, double x1, double y1, double x2, double y2);
void cli_svg_end(FILE *file);

/* plot.c: what --plot writes. Bars, a panel per row; several `machines` of a graph stand side by side */
stw_status cli_plot_methods(const cli_row *row, int32_t row_count, int32_t machines, const stw_settings *settings,
                            const char *path, stw_error *error);
/* How the best plan of the search fell, over evaluations, or over time where that is the budget */
stw_status cli_plot_search(const cli_row *row, const stw_settings *settings, stw_arena arena, const char *path, stw_error *error);

/* train_many.c: one policy for many graphs, what `stowage train` does with --corpus; returns the exit status */
int cli_train_many(const cli_call *call);
/* train_proposals.c: with --learn proposals as well */
int cli_train_proposals(const cli_call *call);

/* dry_run.c: what `optimize` and `compare` would do, on standard output; before that, whether the initial plan and the policy can
 * be read */
stw_status cli_dry_run_check(const stw_session *session, const stw_settings *settings, stw_error *error);
stw_status cli_dry_run_optimize(const cli_call *call, const stw_session *session, const stw_settings *settings, stw_arena arena,
                                stw_error *error);
void cli_dry_run_compare(const cli_call *call, const stw_settings *settings, const char *const *method, int32_t count,
                         int64_t rows, stw_arena arena);

/* progress.c: a line on standard error, if that is a terminal. */
typedef struct cli_progress {
    const char *what; /* goes in front, or NULL */
    stw_objective objective;
    double size_scale;              /* as in cli_row; 1 until somebody knows the graph */
    bool shown;                     /* standard error is a terminal, and nobody asked for quiet */
    double drawn_s;                 /* when; 0: never */
    int32_t width;                  /* of what stands there */
    bool trains;                    /* a policy; then: */
    int64_t updates, update_budget; /* so far; 0: no limit of updates */
    double greedy;                  /* value of the policy's plan without noise; NaN: none yet */
} cli_progress;
void cli_progress_begin(const cli_call *call, cli_progress *progress, stw_objective objective);
void cli_progress_draw(void *progress, const stw_progress *now);               /* for stw_watch.progress */
void cli_progress_say(cli_progress *progress, double share, const char *text); /* a bar and these words */
void cli_progress_clear(cli_progress *progress);

/* interrupt.c: from here to there Ctrl-C, SIGTERM and SIGHUP ask for the end of a search; the second one ends the program at
 * once. Afterwards they are held until cli_release_interrupts. */
stw_status cli_interrupt_begin(stw_cancel **out, stw_error *error);
void cli_interrupt_end(stw_cancel *cancel);

#endif
