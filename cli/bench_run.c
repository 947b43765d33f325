/* One run: a graph on a machine, with one method or the best of several. */
#include <math.h>
#include <string.h>

#include "bench.h"

typedef struct work {
    const bench_setup *setup;
    const bench_run *run;
    stw_arena arena;
    stw_options *options;
    stw_session *session;
    stw_result *result;
    cli_curve curve;
    bool curve_is_cut; /* there was no memory for all of it */
} work;

static stw_status set_options(const work *w, stw_error *error) {
    char seed[24], threads[24], budget[40];
    const char *start_plans = bench_what_start_plans(w->run->what), *units = bench_what_units(w->run->what);
    snprintf(seed, sizeof seed, "%lld", (long long)w->run->seed);
    snprintf(threads, sizeof threads, "%d", w->run->threads);
    snprintf(budget, sizeof budget, "%.6fs", w->run->budget_s);
    TRY(stw_options_set(w->options, "machine", w->run->machine, error));
    TRY(stw_options_set(w->options, "tasks", "placement,schedule", error)); /* what the paper's Table 2 is about */
    TRY(stw_options_set(w->options, "seed", seed, error));
    TRY(stw_options_set(w->options, "threads", threads, error));
    TRY(stw_options_set(w->options, "budget", budget, error));
    if (units != NULL) TRY(stw_options_set(w->options, "units", units, error));
    return start_plans == NULL ? STW_OK : stw_options_set(w->options, "start-plans", start_plans, error);
}

static void on_update(void *context, const stw_curve_row *row) {
    work *w = context;
    w->curve_is_cut |= !cli_curve_add(&w->curve, row);
}

static stw_status search(work *w, stw_error *error) {
    char path[4200];
    const stw_watch watch = {.curve = bench_what_is_hdp(w->run->what) ? on_update : NULL, .context = w};
    snprintf(path, sizeof path, "%s/%s.json.gz", w->setup->data, bench_rows[w->run->row].name);
    TRY(set_options(w, error));
    TRY(stw_session_open(path, w->options, &w->session, error));
    TRY(stw_compare(stw_session_simulator(w->session), bench_what_methods(w->run->what), w->options, &watch, &w->result, error));
    return w->curve_is_cut ? stw_fail(error, STW_ERROR_MEMORY, "out of memory for the learning curve") : STW_OK;
}

/* ---- the record ---- */

static const double CLOCK_S = 0.001; /* between the clock of the budget and that of the search, at most */

bool bench_ends_of_itself(const bench_run *run, double search_s) {
    return bench_what_is_hdp(run->what) && search_s < run->budget_s - CLOCK_S;
}

/* Several methods run one after the other: what each finds counts where it is better than all before. */
static stw_status list_found(work *w, bench_record *record, stw_error *error) {
    stw_candidate c;
    int64_t count = 0;
    double began_s = 0.0, best = INFINITY;
    for (int32_t k = 0; stw_result_candidate(w->result, k, &c); k++) count += c.found_count;
    bench_point *found;
    STW_TRY_NEW(&w->arena, found, count, error);
    for (int32_t k = 0; stw_result_candidate(w->result, k, &c); k++) {
        for (int32_t f = 0; f < c.found_count; f++) {
            if (!(c.found[f].value < best)) continue;
            best = c.found[f].value;
            found[record->found_count++] = (bench_point){began_s + c.found[f].seconds, best};
        }
        began_s += c.search_s;
        record->evaluations += c.evaluations;
    }
    record->search_s = began_s;
    record->found = found;
    return STW_OK;
}

/* At most BENCH_MAX_CURVE rows, evenly, the last one always. */
static stw_status thin_curve(work *w, bench_record *record, stw_error *error) {
    const int64_t all = w->curve.count, count = all < BENCH_MAX_CURVE ? all : BENCH_MAX_CURVE;
    bench_update *curve;
    STW_TRY_NEW(&w->arena, curve, count, error);
    for (int64_t k = 0; k < count; k++) {
        const stw_curve_row *row = &w->curve.row[(k + 1) * all / count - 1];
        curve[k] = (bench_update){row->update, row->evaluations, row->seconds, row->mean, row->best};
    }
    record->curve = curve;
    record->curve_count = count;
    return STW_OK;
}

static stw_status fill_record(work *w, bench_record *record, stw_error *error) {
    stw_candidate best;
    *record = (bench_record){.run = *w->run,
                             .jobs = w->setup->jobs,
                             .cores = bench_cores(),
                             .step_s = NAN,
                             .method = "",
                             .note = stw_result_lacking(w->result),
                             .version = stw_version(),
                             .commit = w->setup->commit,
                             .date = bench_today(&w->arena),
                             .processor = bench_processor(&w->arena)};
    if (stw_result_candidate(w->result, stw_result_best(w->result), &best)) {
        record->valid = true;
        record->step_s = best.step_s;
        record->method = best.method;
        record->note = best.note;
    }
    TRY(list_found(w, record, error));
    record->converged = bench_ends_of_itself(w->run, record->search_s);
    return thin_curve(w, record, error);
}

static stw_status make(work *w, FILE *file, stw_error *error) {
    bench_record record;
    TRY(stw_options_create(&w->options, error));
    TRY(search(w, error));
    TRY(fill_record(w, &record, error));
    bench_record_write(&record, file);
    return STW_OK;
}

stw_status bench_make_run(const bench_setup *setup, const bench_run *run, stw_arena arena, FILE *file, stw_error *error) {
    work w = {.setup = setup, .run = run, .arena = arena};
    w.curve.arena = &w.arena;
    const stw_status status = make(&w, file, error);
    stw_result_destroy(w.result);
    stw_session_destroy(w.session);
    stw_options_destroy(w.options);
    return status;
}
