/* CSV files with measured times. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cost/cost.h"
#include "fuzz.h"

static void require(bool held) { /* not assert: it must hold in every build */
    if (!held) abort();
}

static stw_status parse(const uint8_t *data, size_t size, stw_error *error) {
    stw_arena arena;
    stw_cost_row *rows = NULL;
    int64_t count = 0;
    require(stw_arena_create(&arena, NULL) == STW_OK);
    const stw_status status = stw_cost_csv_parse((stw_str){(const char *)data, (int64_t)size}, &arena, &rows, &count, error);
    for (int64_t i = 0; status == STW_OK && i < count; i++) {
        require(rows[i].name.length > 0 && rows[i].kind.length > 0);
        require(isfinite(rows[i].us) && rows[i].us >= 0.0);
        require(rows[i].line > (i > 0 ? rows[i - 1].line : 0));
    }
    stw_arena_destroy(&arena);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    stw_error error = {0};
    if (parse(data, size, &error) != STW_OK) {
        require(error.status != STW_OK && strncmp(error.message, "line ", 5) == 0 && strchr(error.message, '\n') == NULL);
    }
    return 0;
}

int stw_fuzz_accepts(const uint8_t *data, size_t size) { return parse(data, size, NULL) == STW_OK; }
