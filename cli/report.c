#include <errno.h>
#include <string.h>

#include "cli.h"

/* ---- faults and remarks ---- */

int cli_fault(const stw_error *error) {
    fflush(stdout); /* so that a terminal shows the lines in order */
    fprintf(stderr, "stowage: %s\n", error->message);
    switch (error->status) {
        case STW_ERROR_NO_PLAN: return CLI_NO_PLAN;
        case STW_ERROR_CANCELLED: return CLI_INTERRUPTED;
        default: return CLI_FAULT;
    }
}

void cli_warn(const char *message) {
    stw_error line; /* takes care of control characters, as names come from files */
    stw_fail(&line, STW_OK, "%s", message);
    fprintf(stderr, "stowage: warning: %s\n", line.message);
}

int cli_finish_output(int status) {
    errno = 0;
    const bool failed_before = ferror(stdout) != 0;
    const bool failed_now = fclose(stdout) != 0;
    if (!failed_before && !failed_now) return status;
    if (status == CLI_FAULT) return status; /* one line is enough, and it has been printed */
    fprintf(stderr, "stowage: standard output: cannot be written: %s\n", errno != 0 ? strerror(errno) : "write error");
    return CLI_FAULT;
}

/* ---- keys of JSON objects ---- */

void cli_field_bytes(stw_json_writer *writer, const char *key, int64_t value) {
    stw_json_write_key(writer, key);
    if (value < 0) {
        stw_json_write_null(writer);
    } else {
        stw_json_write_int64(writer, value);
    }
}

void cli_field_texts(stw_json_writer *writer, const char *key, const char *const *value, int32_t count) {
    stw_json_write_key(writer, key);
    stw_json_begin_array(writer);
    for (int32_t k = 0; k < count; k++) stw_json_write_string(writer, stw_str_of(value[k]));
    stw_json_end_array(writer);
}
