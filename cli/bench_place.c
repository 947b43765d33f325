/* Where and when runs are made, and what a table says of it. */
#define _POSIX_C_SOURCE 200809L /* gmtime_r */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

int32_t bench_cores(void) { return (int32_t)sysconf(_SC_NPROCESSORS_ONLN); }

const char *bench_today(stw_arena *arena) {
    const time_t now = time(NULL);
    struct tm parts = {0};
    char text[20] = "";
    gmtime_r(&now, &parts);
    strftime(text, sizeof text, "%Y-%m-%d", &parts);
    const stw_str copy = stw_str_copy(arena, stw_str_of(text));
    return copy.p == NULL ? "" : copy.p;
}

/* The name as Linux has it; empty elsewhere. */
const char *bench_processor(stw_arena *arena) {
    char line[300];
    FILE *file = fopen("/proc/cpuinfo", "r");
    stw_str name = STW_STR("");
    while (file != NULL && name.length == 0 && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (colon == NULL || strncmp(line, "model name", 10) != 0) continue;
        name = stw_str_copy(arena, (stw_str){colon + 2, (int64_t)strcspn(colon + 2, "\n")});
    }
    if (file != NULL) fclose(file);
    return name.p == NULL ? "" : name.p;
}

static bool is_alike(const bench_record *a, const bench_record *b) {
    return a->jobs == b->jobs && a->cores == b->cores && strcmp(a->version, b->version) == 0 &&
           strcmp(a->commit, b->commit) == 0 && strcmp(a->date, b->date) == 0 && strcmp(a->processor, b->processor) == 0;
}

int32_t bench_list_places(const bench_figures *f, bench_place *out, int32_t most) {
    int32_t count = 0;
    for (int32_t k = 0; k < f->run_count; k++) {
        const bench_record *record = bench_store_find(f->store, &f->run[k]);
        int32_t place = 0;
        if (record == NULL) continue;
        while (place < count && !is_alike(out[place].record, record)) place++;
        if (place == most) continue;
        if (place == count) out[count++] = (bench_place){.record = record};
        out[place].runs++;
    }
    return count;
}

const char *bench_command(const bench_setup *setup, stw_arena *arena) {
    static const char *const option[] = {"link", "rows", "what", "seeds", "threads", "budget-scale", "hdp", "hdp-limit"};
    stw_str text = stw_str_format(arena, "stowage bench table2%s", cli_is_set(setup->call, "quick") ? " --quick" : "");
    for (size_t k = 0; k < sizeof option / sizeof option[0] && text.p != NULL; k++) {
        const char *value = stw_options_get(setup->call->options, option[k]);
        if (value != NULL) text = stw_str_format(arena, "%s --%s %s", text.p, option[k], value);
    }
    return text.p == NULL ? "" : text.p;
}
