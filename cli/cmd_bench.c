/* `stowage bench`: makes the runs of a table that a store lacks, then prints the table from the store. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "bench.h"

/* The table would take the place of the runs. */
static stw_status keep_apart(const bench_setup *s, stw_error *error) {
    if (s->output == NULL || cli_is_dash(s->output) || !stw_file_is_same(s->store, s->output)) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT, "--output: '%s' is the store; the table would overwrite it", s->output);
}

/* Whoever starts hours of runs wants to know first whether all graphs are there. */
static stw_status check_files(const bench_setup *s, stw_error *error) {
    for (int32_t r = 0; r < BENCH_ROW_COUNT && !s->only_table; r++) {
        char path[4200];
        if (!s->wanted_row[r]) continue;
        snprintf(path, sizeof path, "%s/%s.json.gz", s->data, bench_rows[r].name);
        if (access(path, R_OK) != 0)
            return stw_fail(error, STW_ERROR_INPUT, "%s: %s; --data names the folder of the graphs", path, strerror(errno));
    }
    return STW_OK;
}

static stw_status make_runs(const bench_setup *s, bench_store *store, const bench_run *run, int32_t count, stw_arena arena,
                            bench_outcome *out, stw_error *error) {
    TRY(bench_make_runs(s, store, run, count, arena, out, error));
    if (out->postponed > 0) {
        char line[100];
        snprintf(line, sizeof line, "%d runs were not begun, since they might not end before the deadline", out->postponed);
        cli_warn(line);
    }
    return STW_OK;
}

static stw_status write_page(const bench_figures *figures, const char *text, size_t length, stw_error *error) {
    const char *path = figures->setup->output;
    stw_output output;
    TRY(stw_output_open(&output, path == NULL ? "-" : path, error));
    fwrite(text, 1, length, output.file);
    return stw_output_commit(&output, error);
}

/* The page is made in memory and written in one piece: on the way to a terminal or not, tables disturb errno, and a fault of
 * the output must be told as what it is. */
static stw_status print_page(const bench_figures *figures, stw_arena arena, stw_error *error) {
    const cli_call *call = figures->setup->call;
    char *text = NULL;
    size_t length = 0;
    FILE *page = open_memstream(&text, &length);
    if (page == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for the table");
    if (cli_wants_json(call)) {
        bench_write_json(figures, arena, page);
    } else {
        bench_report(figures, cli_format_of(call) == CLI_MARKDOWN, arena, page);
    }
    const bool is_whole = ferror(page) == 0;
    stw_status status = fclose(page) == 0 && is_whole ? STW_OK : stw_fail(error, STW_ERROR_MEMORY, "out of memory for the table");
    if (status == STW_OK) status = write_page(figures, text, length, error);
    free(text);
    return status;
}

static stw_status print(const bench_setup *s, const bench_store *store, const bench_run *run, int32_t count, stw_arena arena,
                        stw_error *error) {
    bench_figures *figures;
    STW_TRY_NEW(&arena, figures, 1, error);
    bench_figures_fill(figures, s, store, run, count);
    return print_page(figures, arena, error);
}

static stw_status work(const bench_setup *s, bench_store *store, stw_arena arena, bench_outcome *out, stw_error *error) {
    bench_run *run;
    int32_t count = 0;
    TRY(keep_apart(s, error));
    TRY(check_files(s, error));
    TRY(bench_store_open(store, s->store, !s->only_table, error));
    TRY(bench_list_runs(s, &arena, &run, &count, error));
    if (!s->only_table) TRY(make_runs(s, store, run, count, arena, out, error));
    return print(s, store, run, count, arena, error);
}

/* A run that failed was told of when it did. */
int cmd_bench(const cli_call *call) {
    stw_error error;
    bench_setup setup;
    bench_outcome outcome = {0};
    bench_store store = {.file = -1};
    stw_status status = bench_setup_read(call, &setup, &error);
    if (status == STW_OK) status = work(&setup, &store, call->arena, &outcome, &error);
    bench_store_close(&store);
    if (status != STW_OK) return cli_fault(&error);
    return outcome.interrupted ? CLI_INTERRUPTED : outcome.failed > 0 ? CLI_FAULT : CLI_DONE;
}
