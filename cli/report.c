#include <errno.h>
#include <string.h>

#include "cli.h"

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
