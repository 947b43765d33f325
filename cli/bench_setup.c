/* What a call of `stowage bench` asks for, and the runs that this comes to. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const double BUILD_S = 20.0; /* for each method that builds plans */
static const double QUICK_SCALE = 1.0 / 12.0, HDP_LIMIT = 10.0, QUICK_HDP_LIMIT = 2.0;

/* ---- lists of names ---- */

static const char *row_name(int32_t index) { return bench_rows[index].name; }
static const char *what_name(int32_t index) { return bench_what_name((bench_what)index); }

static stw_status unknown_name(const char *option, const char *word, const char *(*name)(int32_t), int32_t count,
                               stw_error *error) {
    char list[300] = "";
    size_t length = 0;
    cli_suggestion near = {.word = stw_str_of(word)};
    for (int32_t k = 0; k < count; k++) {
        cli_suggest(&near, name(k));
        if (length < sizeof list)
            length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", k == 0 ? "" : ", ", name(k));
    }
    if (near.best != NULL)
        return stw_fail(error, STW_ERROR_INPUT, "--%s: '%.60s' is not known; did you mean %s?", option, word, near.best);
    return stw_fail(error, STW_ERROR_INPUT, "--%s: '%.60s' is not one of %s", option, word, list);
}

/* Marks the names that an option lists; all of them without it. */
static stw_status read_names(const bench_setup *s, const char *option, const char *(*name)(int32_t), int32_t count, bool *wanted,
                             stw_error *error) {
    const char *text = stw_options_get(s->call->options, option), **word = NULL;
    stw_arena scratch = s->call->arena;
    int32_t words = 0;
    for (int32_t k = 0; k < count; k++) wanted[k] = text == NULL;
    if (text == NULL) return STW_OK;
    TRY(cli_split(text, option, &scratch, &word, &words, error));
    for (int32_t w = 0; w < words; w++) {
        int32_t k = 0;
        while (k < count && strcmp(name(k), word[w]) != 0) k++;
        if (k == count) return unknown_name(option, word[w], name, count, error);
        wanted[k] = true;
    }
    return STW_OK;
}

/* A table is against one of the two. */
static void choose_hdp(bench_setup *s) {
    s->hdp = strcmp(stw_options_get(s->call->options, "hdp"), "ops") == 0 ? BENCH_HDP_OPS : BENCH_HDP;
    const bool wanted = s->wanted_what[BENCH_HDP];
    s->wanted_what[BENCH_HDP] = s->wanted_what[BENCH_HDP_OPS] = false;
    s->wanted_what[s->hdp] = wanted;
}

/* ---- numbers ---- */

static stw_status read_seeds(bench_setup *s, bool quick, stw_error *error) {
    const char *text = stw_options_get(s->call->options, "seeds"), **word = NULL;
    stw_arena scratch = s->call->arena;
    int32_t words = 0;
    if (text == NULL) text = quick ? "1" : "1,2,3";
    TRY(cli_split(text, "seeds", &scratch, &word, &words, error));
    if (words > BENCH_MAX_SEEDS) return stw_fail(error, STW_ERROR_INPUT, "--seeds: %d seeds; at most %d", words, BENCH_MAX_SEEDS);
    for (int32_t w = 0; w < words; w++) {
        if (!stw_str_to_int64(stw_str_of(word[w]), &s->seed[w]) || s->seed[w] < 0)
            return stw_fail(error, STW_ERROR_INPUT, "--seeds: '%.60s' is not a whole number from 0 on", word[w]);
    }
    s->seed_count = words;
    return STW_OK;
}

static stw_status read_factor(const bench_setup *s, const char *option, double otherwise, double *out, stw_error *error) {
    const char *text = stw_options_get(s->call->options, option);
    *out = otherwise;
    if (text == NULL || (stw_str_to_double(stw_str_of(text), out) && *out >= 1e-4 && *out <= 1e4)) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT, "--%s: '%s' is not a number from 0.0001 to 10000", option, text);
}

/* Of hdp's budget both are factors: what is too much for a budget would fail run by run. */
static stw_status check_product(const bench_setup *s, stw_error *error) {
    const double product = s->budget_scale * s->hdp_limit;
    if (product >= 1e-6 && product <= 1e6) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT, "--budget-scale times --hdp-limit is %g: not from 0.000001 to 1000000", product);
}

static int32_t read_count(const bench_setup *s, const char *option) {
    int64_t value = 1;
    stw_str_to_int64(stw_str_of(stw_options_get(s->call->options, option)), &value);
    return (int32_t)value;
}

static void read_deadline(bench_setup *s) {
    const char *text = stw_options_get(s->call->options, "deadline");
    if (text == NULL || !stw_str_to_seconds(stw_str_of(text), &s->deadline_s)) s->deadline_s = 0.0;
}

stw_status bench_setup_read(const cli_call *call, bench_setup *s, stw_error *error) {
    const char *bench = call->operand[0], *commit = stw_options_get(call->options, "commit");
    const bool quick = cli_is_set(call, "quick");
    if (strcmp(bench, "table2") != 0) return stw_fail(error, STW_ERROR_INPUT, "unknown bench '%.60s'; known: table2", bench);
    *s = (bench_setup){.call = call,
                       .data = stw_options_get(call->options, "data"),
                       .store = stw_options_get(call->options, "store"),
                       .output = stw_options_get(call->options, "output"),
                       .commit = commit == NULL ? "" : commit,
                       .link = stw_options_get(call->options, "link"),
                       .jobs = 1,
                       .only_table = cli_is_set(call, "table")};
    TRY(read_names(s, "rows", row_name, BENCH_ROW_COUNT, s->wanted_row, error));
    TRY(read_names(s, "what", what_name, BENCH_HDP_OPS, s->wanted_what, error));
    choose_hdp(s);
    TRY(read_seeds(s, quick, error));
    TRY(read_factor(s, "budget-scale", quick ? QUICK_SCALE : 1.0, &s->budget_scale, error));
    TRY(read_factor(s, "hdp-limit", quick ? QUICK_HDP_LIMIT : HDP_LIMIT, &s->hdp_limit, error));
    TRY(check_product(s, error));
    s->jobs = read_count(s, "jobs");
    s->threads = read_count(s, "threads");
    read_deadline(s);
    if (cli_is_dash(s->store)) return stw_fail(error, STW_ERROR_INPUT, "--store: '-' is no file that runs can be kept in");
    return STW_OK;
}

/* ---- runs ---- */

bench_run bench_run_of(const bench_setup *s, int32_t row, bench_what what, int64_t seed) {
    const bench_row *r = &bench_rows[row];
    double budget_s = bench_what_is_search(what) ? r->search_s : BUILD_S;
    if (bench_what_is_hdp(what)) budget_s *= s->hdp_limit;
    bench_run run = {.row = row, .what = what, .seed = seed, .threads = s->threads};
    run.budget_s = fmax(1e-6, round(1e6 * budget_s * s->budget_scale) / 1e6); /* so that it is found again in the file */
    snprintf(run.machine, sizeof run.machine, "h200x%d%s", r->devices, strcmp(s->link, "pcie") == 0 ? "-pcie" : "");
    return run;
}

double bench_run_limit(const bench_run *run) {
    int32_t methods = 1;
    for (const char *c = bench_what_methods(run->what); *c != '\0'; c++) methods += *c == ',';
    return 1.03 * methods * run->budget_s + 3.0; /* and reading the graph */
}

/* Those that build plans first, then seed by seed, so that a deadline leaves whole seeds; of a seed the longest first, so that
 * the last ones end at about the same time. */
static int compare_runs(const void *left, const void *right) {
    const bench_run *a = left, *b = right;
    const bool a_searches = bench_what_is_search(a->what), b_searches = bench_what_is_search(b->what);
    if (a_searches != b_searches) return a_searches ? 1 : -1;
    if (a->seed != b->seed) return a->seed < b->seed ? -1 : 1;
    if (a->budget_s != b->budget_s) return a->budget_s > b->budget_s ? -1 : 1;
    if (a->row != b->row) return a->row < b->row ? -1 : 1;
    return (int)a->what - (int)b->what;
}

stw_status bench_list_runs(const bench_setup *s, stw_arena *arena, bench_run **out, int32_t *count, stw_error *error) {
    STW_TRY_NEW(arena, *out, (int64_t)BENCH_ROW_COUNT * BENCH_WHAT_COUNT * s->seed_count, error);
    *count = 0;
    for (int32_t r = 0; r < BENCH_ROW_COUNT; r++) {
        for (int32_t w = 0; w < BENCH_WHAT_COUNT && s->wanted_row[r]; w++) {
            for (int32_t k = 0; k < s->seed_count && s->wanted_what[w]; k++)
                (*out)[(*count)++] = bench_run_of(s, r, (bench_what)w, s->seed[k]);
        }
    }
    qsort(*out, (size_t)*count, sizeof **out, compare_runs);
    return STW_OK;
}
