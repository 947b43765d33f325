/* One run as a line of JSON, out and in. */
#include <math.h>
#include <string.h>

#include "bench.h"

static const char BENCH_NAME[] = "table2";

/* ---- out ---- */

static double to_microseconds(double seconds) { return round(1e6 * seconds) / 1e6; }

static void write_found(const bench_record *r, stw_json_writer *w) {
    stw_json_write_key(w, "found");
    stw_json_begin_array(w);
    for (int64_t k = 0; k < r->found_count; k++) {
        stw_json_begin_array(w);
        stw_json_write_double(w, to_microseconds(r->found[k].seconds));
        stw_json_write_double(w, r->found[k].step_s);
        stw_json_end_array(w);
    }
    stw_json_end_array(w);
}

void bench_curve_write(const bench_record *r, stw_json_writer *w) {
    stw_json_write_key(w, "curve");
    stw_json_begin_array(w);
    for (int64_t k = 0; k < r->curve_count; k++) {
        const bench_update *u = &r->curve[k];
        stw_json_begin_array(w);
        stw_json_write_int64(w, u->update);
        stw_json_write_int64(w, u->evaluations);
        stw_json_write_double(w, to_microseconds(u->seconds));
        stw_json_write_double(w, u->mean);
        stw_json_write_double(w, u->best);
        stw_json_end_array(w);
    }
    stw_json_end_array(w);
}

static void write_run(const bench_run *run, stw_json_writer *w) {
    cli_field_text(w, "bench", stw_str_of(BENCH_NAME));
    cli_field_text(w, "row", stw_str_of(bench_rows[run->row].name));
    cli_field_int(w, "devices", bench_rows[run->row].devices);
    cli_field_text(w, "machine", stw_str_of(run->machine));
    cli_field_text(w, "what", stw_str_of(bench_what_name(run->what)));
    cli_field_int(w, "seed", run->seed);
    cli_field_int(w, "threads", run->threads);
    cli_field_double(w, "budget_s", run->budget_s);
}

void bench_record_write(const bench_record *r, FILE *file) {
    stw_json_writer w;
    stw_json_writer_init(&w, file);
    stw_json_begin_object(&w);
    write_run(&r->run, &w);
    cli_field_int(&w, "jobs", r->jobs);
    cli_field_double(&w, "step_s", r->step_s);
    stw_json_write_key(&w, "valid");
    stw_json_write_bool(&w, r->valid);
    if (bench_what_is_hdp(r->run.what)) {
        stw_json_write_key(&w, "converged");
        stw_json_write_bool(&w, r->converged);
    }
    cli_field_text(&w, "method", stw_str_of(r->method));
    cli_field_double(&w, "search_s", to_microseconds(r->search_s));
    cli_field_int(&w, "evaluations", r->evaluations);
    cli_field_text(&w, "note", stw_str_of(r->note));
    write_found(r, &w);
    if (bench_what_is_hdp(r->run.what)) bench_curve_write(r, &w);
    cli_field_text(&w, "version", stw_str_of(r->version));
    cli_field_text(&w, "commit", stw_str_of(r->commit));
    cli_field_text(&w, "date", stw_str_of(r->date));
    cli_field_text(&w, "processor", stw_str_of(r->processor));
    cli_field_int(&w, "cores", r->cores);
    stw_json_end_object(&w);
    fputc('\n', file);
}

/* ---- in ---- */

bool bench_record_is_begun(stw_str line) {
    static const char beginning[] = "{\"bench\":\"table2\",\"row\":\"";
    const size_t length = sizeof beginning - 1, have = (size_t)line.length;
    return memcmp(line.p, beginning, have < length ? have : length) == 0;
}

static const double MOST_S = 1e12;                           /* of any time in the store: sums stay finite */
static const int64_t MOST_COUNT = INT64_C(1000000000000000); /* 1e15: a double has room for its sums */

typedef struct reader {
    stw_json json;
    stw_arena *arena;
    bench_record *out;
    bool knows_row, knows_what, knows_converged;
    uint32_t seen; /* bit per key that a run is known by */
} reader;

enum { SEEN_ROW = 1, SEEN_MACHINE = 2, SEEN_WHAT = 4, SEEN_SEED = 8, SEEN_THREADS = 16, SEEN_BUDGET = 32, SEEN_ALL = 63 };

/* Escaped, since it goes into reports. */
static void read_text(reader *r, const char **out) {
    stw_str text = {0};
    char shown[600];
    if (!stw_json_string(&r->json, &text)) return;
    snprintf(shown, sizeof shown, "%.*s", (int)(text.length < 500 ? text.length : 500), text.p);
    stw_escape_text(shown, sizeof shown);
    *out = stw_str_copy(r->arena, stw_str_of(shown)).p;
    if (*out == NULL) stw_json_fail(&r->json, "out of memory");
}

/* From 0 on. */
static bool read_count(reader *r, int64_t *out) {
    if (!stw_json_int64(&r->json, out)) return false;
    if (*out >= 0 && *out <= MOST_COUNT) return true;
    return stw_json_fail(&r->json, "%lld is out of range", (long long)*out);
}

static void read_int(reader *r, int32_t *out) {
    int64_t value = 0;
    if (!stw_json_int64(&r->json, &value)) return;
    if (value < 0 || value > INT32_MAX) stw_json_fail(&r->json, "%lld is out of range", (long long)value);
    *out = (int32_t)value;
}

/* A time since something began may be 0. */
static bool read_seconds(reader *r, double *out) {
    if (!stw_json_double(&r->json, out)) return false;
    return (*out >= 0.0 && *out <= MOST_S) || stw_json_fail(&r->json, "%g s is out of range", *out);
}

static bool read_step(reader *r, double *out) {
    if (!read_seconds(r, out)) return false;
    return *out > 0.0 || stw_json_fail(&r->json, "a time of 0 s");
}

/* null is NaN */
static bool read_or_null(reader *r, bool (*read)(reader *, double *), double *out) {
    *out = NAN;
    return stw_json_peek(&r->json) == STW_JSON_NULL ? stw_json_null(&r->json) : read(r, out);
}

static void read_row(reader *r) {
    stw_str name = {0};
    stw_json_string(&r->json, &name);
    for (int32_t k = 0; k < BENCH_ROW_COUNT; k++) {
        if (!stw_str_is(name, bench_rows[k].name)) continue;
        r->out->run.row = k;
        r->knows_row = true;
    }
}

static void read_what(reader *r) {
    stw_str name = {0};
    stw_json_string(&r->json, &name);
    for (int32_t k = 0; k < BENCH_WHAT_COUNT; k++) {
        if (!stw_str_is(name, bench_what_name((bench_what)k))) continue;
        r->out->run.what = (bench_what)k;
        r->knows_what = true;
    }
}

/* A list of rows of numbers; `row` reads one. */
static void read_rows(reader *r, void (*row)(reader *, void *), size_t size, void **out, int64_t *count) {
    const int64_t most = stw_json_count_items(&r->json, *r->arena);
    char *list = stw_arena_alloc(r->arena, size, _Alignof(max_align_t), most);
    *count = 0;
    if (list == NULL) stw_json_fail(&r->json, "out of memory");
    if (!stw_json_array(&r->json)) return;
    while (stw_json_item(&r->json) && *count < most) {
        if (stw_json_array(&r->json)) row(r, list + size * (size_t)(*count)++);
        if (stw_json_item(&r->json)) stw_json_fail(&r->json, "more numbers than there are columns");
    }
    *out = list;
}

static bool has_next(reader *r) { return stw_json_item(&r->json) || stw_json_fail(&r->json, "a number is missing"); }

static void read_point(reader *r, void *out) {
    bench_point *p = out;
    if (has_next(r) && read_seconds(r, &p->seconds) && has_next(r)) read_step(r, &p->step_s);
}

static void read_update(reader *r, void *out) {
    bench_update *u = out;
    if (!has_next(r) || !read_count(r, &u->update)) return;
    if (!has_next(r) || !read_count(r, &u->evaluations)) return;
    if (!has_next(r) || !read_seconds(r, &u->seconds)) return;
    if (has_next(r) && read_or_null(r, read_step, &u->mean) && has_next(r)) read_or_null(r, read_step, &u->best);
}

static void read_machine(reader *r) {
    stw_str name = {0};
    stw_json_string(&r->json, &name);
    snprintf(r->out->run.machine, sizeof r->out->run.machine, "%.*s", STW_STR_SHOW(name));
    stw_escape_text(r->out->run.machine, sizeof r->out->run.machine);
}

/* What the run is known by; false: another key. */
static bool read_known_by(reader *r, stw_str key) {
    static const char *const name[] = {"row", "machine", "what", "seed", "threads", "budget_s"};
    bench_run *run = &r->out->run;
    int k = 0;
    while (k < 6 && !stw_str_is(key, name[k])) k++;
    switch (1 << k) {
        case SEEN_ROW: read_row(r); break;
        case SEEN_MACHINE: read_machine(r); break;
        case SEEN_WHAT: read_what(r); break;
        case SEEN_SEED: stw_json_int64(&r->json, &run->seed); break;
        case SEEN_THREADS: read_int(r, &run->threads); break;
        case SEEN_BUDGET: read_step(r, &run->budget_s); break;
        default: return false;
    }
    r->seen |= 1u << k;
    return true;
}

static bool read_place(reader *r, stw_str key) {
    bench_record *out = r->out;
    if (stw_str_is(key, "jobs")) return read_int(r, &out->jobs), true;
    if (stw_str_is(key, "cores")) return read_int(r, &out->cores), true;
    if (stw_str_is(key, "version")) return read_text(r, &out->version), true;
    if (stw_str_is(key, "commit")) return read_text(r, &out->commit), true;
    if (stw_str_is(key, "date")) return read_text(r, &out->date), true;
    if (stw_str_is(key, "processor")) return read_text(r, &out->processor), true;
    return false;
}

static bool read_outcome(reader *r, stw_str key) {
    bench_record *out = r->out;
    void *list = NULL;
    if (stw_str_is(key, "step_s")) return read_or_null(r, read_step, &out->step_s), true;
    if (stw_str_is(key, "valid")) return stw_json_bool(&r->json, &out->valid), true;
    if (stw_str_is(key, "method")) return read_text(r, &out->method), true;
    if (stw_str_is(key, "note")) return read_text(r, &out->note), true;
    if (stw_str_is(key, "search_s")) return read_or_null(r, read_seconds, &out->search_s), true;
    if (stw_str_is(key, "evaluations")) return read_count(r, &out->evaluations), true;
    if (stw_str_is(key, "converged")) return r->knows_converged = stw_json_bool(&r->json, &out->converged), true;
    if (stw_str_is(key, "found")) {
        read_rows(r, read_point, sizeof(bench_point), &list, &out->found_count);
        out->found = list;
        return true;
    }
    if (stw_str_is(key, "curve")) {
        read_rows(r, read_update, sizeof(bench_update), &list, &out->curve_count);
        out->curve = list;
        return true;
    }
    return false;
}

static void read_keys(reader *r) {
    stw_str key = {0};
    if (!stw_json_object(&r->json)) return;
    while (stw_json_key(&r->json, &key)) {
        if (!read_known_by(r, key) && !read_place(r, key) && !read_outcome(r, key)) stw_json_skip(&r->json, NULL);
    }
}

/* Whose line it is comes first: another bench may mean something else by the same keys. */
static stw_status read_bench(stw_str line, stw_arena scratch, bool *is_ours, stw_error *error) {
    stw_json json;
    stw_str key = {0}, bench = {0};
    stw_json_init(&json, line, &scratch, error);
    if (stw_json_object(&json)) {
        while (stw_json_key(&json, &key)) {
            if (stw_str_is(key, "bench")) {
                stw_json_string(&json, &bench);
            } else {
                stw_json_skip(&json, NULL);
            }
        }
    }
    TRY(stw_json_finish(&json));
    if (bench.p == NULL) return stw_fail(error, STW_ERROR_INPUT, "is no run of a bench: the key bench is missing");
    *is_ours = stw_str_is(bench, BENCH_NAME);
    return STW_OK;
}

stw_status bench_record_read(stw_str line, stw_arena *arena, bench_record *out, bool *is_ours, stw_error *error) {
    *out = (bench_record){
        .step_s = NAN, .search_s = NAN, .method = "", .note = "", .version = "", .commit = "", .date = "", .processor = ""};
    reader r = {.arena = arena, .out = out};
    TRY(read_bench(line, *arena, is_ours, error));
    if (!*is_ours) return STW_OK;
    stw_json_init(&r.json, line, arena, error);
    read_keys(&r);
    TRY(stw_json_finish(&r.json));
    if (r.seen != SEEN_ALL) return stw_fail(error, STW_ERROR_INPUT, "is no run of a bench: keys are missing");
    if (out->valid && isnan(out->step_s)) return stw_fail(error, STW_ERROR_INPUT, "a valid plan without a step time");
    if (!r.knows_converged) out->converged = bench_ends_of_itself(&out->run, out->search_s);
    *is_ours = r.knows_row && r.knows_what;
    return STW_OK;
}
