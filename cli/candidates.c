/* The candidates of one graph on one machine, as a table for people and as CSV for programs. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "search.h"

/* ---- for people ---- */

/* Which columns there are; the order is that of the table. */
typedef enum column { METHOD, STEP, VALUE, SPEEDUP, GAP, STATE, PEAK, SEARCH, EVALUATIONS, NOTE, COLUMN_COUNT } column;

static const cli_column titles[COLUMN_COUNT] = {
    [METHOD] = {"method", CLI_LEFT},     [STEP] = {"step time", CLI_RIGHT},     [VALUE] = {"largest load", CLI_RIGHT},
    [SPEEDUP] = {"speed-up", CLI_RIGHT}, [GAP] = {"t / bound", CLI_RIGHT},      [STATE] = {"state", CLI_LEFT},
    [PEAK] = {"peak memory", CLI_RIGHT}, [SEARCH] = {"search time", CLI_RIGHT}, [EVALUATIONS] = {"evaluations", CLI_RIGHT},
    [NOTE] = {"note", CLI_LEFT},
};

typedef struct view {
    const cli_row *row;
    stw_objective objective;
    bool first_is_default;
    cli_format format;
    column column[COLUMN_COUNT];
    int32_t column_count;
} view;

static bool has_note(const stw_candidate *c) { return !c->valid || c->repaired || c->note[0] != '\0'; }

static bool any_note(const cli_row *row) {
    bool any = false;
    for (int32_t k = 0; k < row->candidate_count; k++) any |= has_note(&row->candidate[k]);
    return any;
}

static bool is_wanted(const view *v, column c) {
    switch (c) {
        case VALUE: return v->objective == STW_OBJECTIVE_THROUGHPUT; /* memory has its column anyway */
        case SPEEDUP: return v->first_is_default;
        case GAP: return !v->first_is_default && v->objective != STW_OBJECTIVE_MEMORY;
        case SEARCH: return !v->row->repeats;
        case NOTE: return v->format == CLI_MARKDOWN && any_note(v->row); /* else below the table */
        default: return true;
    }
}

static void add_ratio(cli_table *table, cli_style style, double above, double below) {
    if (above > 0.0 && below > 0.0) {
        cli_table_add(table, style, "%.2f", above / below);
    } else {
        cli_table_add(table, style, "-");
    }
}

static void add_method(const view *v, cli_table *table, cli_style style, int32_t index) {
    const char *mark = v->format == CLI_MARKDOWN ? "" : index == v->row->best ? "* " : "  ";
    const bool is_default = index == 0 && v->first_is_default && strcmp(v->row->candidate[0].method, "given") != 0;
    cli_table_add(table, style, "%s%s%s", mark, v->row->candidate[index].method, is_default ? " (default)" : "");
}

static void add_note(cli_table *table, cli_style style, const stw_candidate *c) {
    if (!c->valid) {
        const char *word = cli_reason_word(c->reason);
        const size_t said = strncmp(c->reason, word, strlen(word)) == 0 ? strlen(word) + 2 : 0; /* "memory: " is in its column */
        cli_table_add_name(table, style, c->reason + (said < strlen(c->reason) ? said : 0));    /* it may begin with a device's */
    } else {
        cli_table_add(table, style, "%s%s%s", c->repaired ? "made to fit" : "", c->repaired && c->note[0] != '\0' ? "; " : "",
                      c->note);
    }
}

/* What a speed-up is about: the load of the busiest device where that is the objective, else the step. */
static double time_of(const view *v, const stw_candidate *c) {
    return v->objective == STW_OBJECTIVE_THROUGHPUT ? c->value : c->step_s;
}

static void add_cell(const view *v, cli_table *table, column which, int32_t index) {
    const stw_candidate *c = &v->row->candidate[index], *first = &v->row->candidate[0];
    const cli_style style = index == v->row->best ? CLI_BOLD : CLI_PLAIN;
    const int64_t peak = cli_candidate_peak(v->row, c);
    switch (which) {
        case METHOD: add_method(v, table, style, index); break;
        case STEP: cli_table_add(table, style, "%s", cli_value(STW_OBJECTIVE_TIME, c->step_s, 5).text); break;
        case VALUE: cli_table_add(table, style, "%s", cli_row_value(v->row, v->objective, c->value, 5).text); break;
        case SPEEDUP: add_ratio(table, style, c->valid && first->valid ? time_of(v, first) : NAN, time_of(v, c)); break;
        case GAP: add_ratio(table, style, c->valid ? time_of(v, c) : NAN, cli_row_bound(v->row, v->objective)); break;
        case STATE:
            cli_table_add(table, c->valid ? style : CLI_RED, "%s", c->valid ? "valid" : cli_reason_word(c->reason));
            break;
        case PEAK: cli_table_add(table, style, "%s", peak < 0 ? "-" : cli_row_bytes(v->row, (double)peak).text); break;
        case SEARCH: cli_table_add(table, style, "%s", cli_time(c->search_s, 3).text); break;
        case EVALUATIONS: cli_table_add(table, style, "%s", cli_count(c->evaluations).text); break;
        case NOTE: add_note(table, style, c); break;
        case COLUMN_COUNT: break;
    }
}

/* Below the table, where there is room for them: what each method has to say about its plan, or why it has none. */
static void print_notes(const cli_row *row, stw_arena arena) {
    static const cli_column columns[] = {{NULL, CLI_LEFT}, {NULL, CLI_LEFT}};
    cli_table table;
    if (!any_note(row)) return;
    cli_table_begin(&table, &arena, columns, 2);
    for (int32_t k = 0; k < row->candidate_count; k++) {
        const stw_candidate *c = &row->candidate[k];
        if (!has_note(c)) continue;
        cli_table_add(&table, CLI_PLAIN, "  %s", c->method);
        add_note(&table, CLI_PLAIN, c);
    }
    printf("\n");
    cli_table_print(&table, stdout);
}

void cli_print_candidates(const cli_row *row, stw_objective objective, bool first_is_default, cli_format format,
                          stw_arena arena) {
    view v = {.row = row, .objective = objective, .first_is_default = first_is_default, .format = format};
    cli_column columns[COLUMN_COUNT];
    cli_table table;
    for (column c = METHOD; c < COLUMN_COUNT; c++) {
        if (!is_wanted(&v, c)) continue;
        columns[v.column_count] = titles[c];
        if (c == METHOD && format != CLI_MARKDOWN) columns[v.column_count].title = "  method";
        if (c == GAP && objective == STW_OBJECTIVE_THROUGHPUT) columns[v.column_count].title = "load / bound";
        v.column[v.column_count++] = c;
    }
    cli_table_begin(&table, &arena, columns, v.column_count);
    for (int32_t k = 0; k < row->candidate_count; k++) {
        for (int32_t c = 0; c < v.column_count; c++) add_cell(&v, &table, v.column[c], k);
    }
    if (format == CLI_MARKDOWN) {
        cli_table_print_markdown(&table, stdout);
    } else {
        cli_table_print(&table, stdout);
        print_notes(row, arena);
    }
}

/* ---- for programs ---- */

/* Candidates as CSV (RFC 4180): one line each, numbers as in the JSON output. optimize and compare write the same columns, so
 * that files can be put together. */

void cli_print_csv_head(void) {
    printf(
        "graph,machine,objective,method,step_s,value,valid,reason,worst_peak_bytes,search_s,evaluations,seed,lower_bound_s,"
        "lower_bound_fusion_s,lower_bound_bytes,measured_share,note\n");
}

static void print_text(const char *text) {
    if (text != NULL) stw_write_cell(stdout, stw_str_of(text));
}

/* With the comma before it; nothing for what does not exist. */
static void print_number(double value) {
    char text[32] = "";
    if (isfinite(value)) stw_format_double(text, value);
    printf(",%s", text);
}

static void print_candidate(const cli_row *row, stw_objective objective, const stw_candidate *c, bool is_best) {
    const int64_t peak = cli_candidate_peak(row, c);
    print_text(row->graph);
    putchar(',');
    print_text(row->machine);
    printf(",%s,%s", stw_objective_name[objective], c->method);
    print_number(c->step_s);
    print_number(c->value);
    printf(",%s,", c->valid ? "true" : "false");
    print_text(c->reason);
    printf(",");
    if (peak >= 0) printf("%" PRId64, peak);
    print_number(c->search_s);
    printf(",%" PRId64 ",%" PRId64, c->evaluations, c->seed);
    print_number(row->bounds.plan_s);
    print_number(row->bounds.fusion_s);
    printf(",%" PRId64, row->bounds.peak_bytes);
    print_number(is_best ? row->measured_share : NAN); /* known for the best plan only */
    putchar(',');
    print_text(c->note);
    putchar('\n');
}

void cli_print_csv_row(const cli_row *row, stw_objective objective) {
    for (int32_t k = 0; k < row->candidate_count; k++) print_candidate(row, objective, &row->candidate[k], k == row->best);
}
