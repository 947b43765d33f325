/* Candidates as CSV (RFC 4180): one line each, numbers as in the JSON output. optimize and compare write the same columns, so
 * that files can be put together. */
#include <inttypes.h>
#include <math.h>

#include "search.h"

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
