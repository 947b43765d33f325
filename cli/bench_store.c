/* The store: finished runs, one line of JSON each. It only grows; whoever is killed while writing leaves a broken last line,
 * which the next reader passes over and the next writer cuts off. Nothing else is ever cut: the file may be somebody else's. */
#define _DEFAULT_SOURCE /* flock */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "bench.h"

static bool is_same(const bench_run *a, const bench_run *b) {
    return a->row == b->row && a->what == b->what && a->seed == b->seed && a->threads == b->threads &&
           strcmp(a->machine, b->machine) == 0 && fabs(a->budget_s - b->budget_s) < 1e-9;
}

const bench_record *bench_store_find(const bench_store *store, const bench_run *run) {
    for (int64_t k = 0; k < store->count; k++) {
        if (is_same(&store->record[k].run, run)) return &store->record[k];
    }
    return NULL;
}

/* ---- in ---- */

static stw_status keep(bench_store *store, const bench_record *record, stw_error *error) {
    if (bench_store_find(store, &record->run) != NULL) return STW_OK;
    if (store->count == store->capacity) {
        bench_record *larger;
        STW_TRY_NEW(&store->arena, larger, 2 * store->capacity + 256, error);
        if (store->count > 0) memcpy(larger, store->record, (size_t)store->count * sizeof *larger);
        store->record = larger;
        store->capacity = 2 * store->capacity + 256;
    }
    store->record[store->count++] = *record;
    return STW_OK;
}

static stw_status read_line(bench_store *store, stw_str line, stw_error *error) {
    bench_record record;
    bool is_ours = false;
    TRY(bench_record_read(line, &store->arena, &record, &is_ours, error));
    return is_ours ? keep(store, &record, error) : STW_OK;
}

/* A last line without an end was being written when somebody was killed, if it begins as one of ours and stops anywhere. */
static bool is_torn(stw_str line, stw_arena scratch) {
    stw_json json;
    stw_error ignored = {0};
    stw_json_init(&json, line, &scratch, &ignored);
    stw_json_skip(&json, NULL);
    return bench_record_is_begun(line) && stw_json_finish(&json) != STW_OK;
}

static stw_status read_lines(bench_store *store, stw_str text, int64_t *whole_bytes, stw_error *error) {
    int64_t at = 0;
    for (int64_t number = 1; at < text.length; number++) {
        const char *end = memchr(text.p + at, '\n', (size_t)(text.length - at));
        const stw_str line = {text.p + at, end == NULL ? text.length - at : end - text.p - at};
        const stw_status status = line.length == 0 ? STW_OK : read_line(store, line, error);
        if (status == STW_ERROR_INPUT && end == NULL && is_torn(line, store->arena)) {
            cli_warn("the last line of the store is not whole and is passed over");
            break;
        }
        if (status != STW_OK) {
            char where[40];
            snprintf(where, sizeof where, "run %" PRId64, number); /* what follows counts lines within it */
            stw_error_prefix(error, where);
            return status;
        }
        at += line.length + (end != NULL);
    }
    *whole_bytes = at;
    return STW_OK;
}

/* ---- opening ---- */

static stw_status fail(const char *what, stw_error *error) {
    return stw_fail(error, STW_ERROR_INPUT, "%s: %s", what, strerror(errno));
}

static stw_status lock(bench_store *store, const char *path, stw_error *error) {
    store->file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (store->file < 0) return fail("cannot be written", error);
    if (flock(store->file, LOCK_EX | LOCK_NB) == 0) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT, "another bench is at work on this store");
}

/* What is broken goes; a whole last line without an end gets one. */
static stw_status repair_end(const bench_store *store, int64_t bytes, int64_t whole_bytes, stw_error *error) {
    char last = '\n';
    if (lseek(store->file, 0, SEEK_END) != (off_t)bytes)
        return stw_fail(error, STW_ERROR_INPUT, "a packed store can be read (--table), but runs cannot be added");
    if (whole_bytes < bytes && ftruncate(store->file, (off_t)whole_bytes) != 0) return fail("cannot be written", error);
    if (whole_bytes > 0 && pread(store->file, &last, 1, (off_t)whole_bytes - 1) != 1) return fail("cannot be read", error);
    if (last != '\n' && write(store->file, "\n", 1) != 1) return fail("cannot be written", error);
    return STW_OK;
}

static stw_status with_path(stw_status status, const char *path, stw_error *error) {
    if (status != STW_OK) stw_error_prefix(error, path);
    return status;
}

stw_status bench_store_open(bench_store *store, const char *path, bool to_add, stw_error *error) {
    stw_str text = {0};
    int64_t whole_bytes = 0;
    *store = (bench_store){.file = -1};
    TRY(stw_arena_create(&store->arena, error));
    if (to_add) TRY(with_path(lock(store, path, error), path, error));
    TRY(stw_file_read(path, &store->arena, &text, error));
    TRY(with_path(read_lines(store, text, &whole_bytes, error), path, error));
    return to_add ? with_path(repair_end(store, text.length, whole_bytes, error), path, error) : STW_OK;
}

/* ---- out ---- */

/* In one piece, so that it is there whole as soon as the call returns. */
stw_status bench_store_add(bench_store *store, stw_str line, stw_error *error) {
    TRY(read_line(store, (stw_str){line.p, line.length - 1}, error));
    for (int64_t done = 0; done < line.length;) {
        const ssize_t count = write(store->file, line.p + done, (size_t)(line.length - done));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return fail("the store cannot be written", error);
        done += count;
    }
    return STW_OK;
}

void bench_store_close(bench_store *store) {
    if (store->file >= 0) close(store->file);
    stw_arena_destroy(&store->arena);
    store->file = -1;
}
