/* What a command is going to write, checked before it begins: before searching for an hour, one wants to know whether the
 * result can be kept, and that it takes the place of nothing that is needed. */
#define _POSIX_C_SOURCE 200809L /* access */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "search.h"

/* Options that name files, of any command. */
static const char *const written[] = {"output", "trace", "curve", "best", "graph", "report", "plot"};
static const char *const read_first[] = {"costs", "machine", "policy", "proposals", "corpus", "plan", "from", "measured"};
enum { WRITTEN = sizeof written / sizeof written[0], READ_FIRST = sizeof read_first / sizeof read_first[0] };

/* A plan may take the place of the one that it was made from. */
static bool may_replace(const cli_call *call, const char *output, const char *input) {
    const bool is_plan = strcmp(output, "best") == 0 ||
                         (strcmp(output, "output") == 0 && (call->command->bit & (STW_FOR_EXPORT | STW_FOR_REPORT)) == 0);
    return is_plan && (strcmp(input, "plan") == 0 || strcmp(input, "from") == 0);
}

static stw_status fail_same(const char *output, const char *path, const char *what, stw_error *error) {
    return stw_fail(error, STW_ERROR_INPUT, "--%s: '%s' is also %s, which it would overwrite; name another file", output, path,
                    what);
}

/* A file in a folder whose graphs are read. A policy may stand beside them. */
static bool is_in_folder(const char *output, const char *folder) {
    char around[STW_PATH_BYTES];
    struct stat input, outer;
    const char *slash = strrchr(output, '/');
    const size_t length = strlen(output);
    if (stat(folder, &input) != 0 || !S_ISDIR(input.st_mode) || access(output, F_OK) != 0) return false;
    if (length >= 4 && strcmp(output + length - 4, ".stw") == 0) return false;
    snprintf(around, sizeof around, "%.*s", slash == NULL ? 1 : (int)(slash + 1 - output), slash == NULL ? "." : output);
    return stat(around, &outer) == 0 && outer.st_dev == input.st_dev && outer.st_ino == input.st_ino;
}

/* Names of machines and methods are no files. Standard input may be one. */
static bool is_input(const char *output, const char *input) {
    if (cli_is_dash(input)) input = "/dev/stdin";
    return access(input, F_OK) == 0 && (stw_file_is_same(output, input) || is_in_folder(output, input));
}

/* One file, or several with commas. */
static stw_status check_list(const char *output, const char *path, const char *option, const char *list, stw_error *error) {
    char what[40], name[STW_PATH_BYTES];
    snprintf(what, sizeof what, "%s --%s", strcmp(option, "corpus") == 0 ? "a file of" : "that of", option);
    if (is_input(path, list)) return fail_same(output, path, what, error);
    while (*list != '\0') {
        const size_t length = strcspn(list, ",");
        if (length < sizeof name) {
            snprintf(name, sizeof name, "%.*s", (int)length, list);
            if (is_input(path, name)) return fail_same(output, path, what, error);
        }
        list += length + (list[length] == ',');
    }
    return STW_OK;
}

static stw_status check_output(const cli_call *call, int k, const char *path, stw_error *error) {
    const stw_options *options = call->options;
    for (int32_t i = 0; i < call->operand_count; i++) {
        if (is_input(path, call->operand[i])) return fail_same(written[k], path, "the input", error);
    }
    for (int i = 0; i < READ_FIRST; i++) {
        const char *list = stw_options_get(options, read_first[i]);
        if (list != NULL && !may_replace(call, written[k], read_first[i]))
            TRY(check_list(written[k], path, read_first[i], list, error));
    }
    for (int i = 0; i < k; i++) {
        const char *other = stw_options_get(options, written[i]);
        char what[40];
        snprintf(what, sizeof what, "that of --%s", written[i]);
        if (other != NULL && stw_file_is_same(path, other)) return fail_same(written[k], path, what, error);
    }
    return stw_output_check(path, error);
}

stw_status cli_check_outputs(const cli_call *call, stw_error *error) {
    for (int k = 0; k < WRITTEN; k++) {
        const char *path = stw_options_get(call->options, written[k]);
        if (path != NULL && !cli_is_dash(path)) TRY(check_output(call, k, path, error));
    }
    return STW_OK;
}

stw_status cli_check_report(const cli_call *call, stw_error *error) {
    const char *report = stw_options_get(call->options, "report");
    if (cli_is_dash(stw_options_get(call->options, "plot")))
        return stw_fail(error, STW_ERROR_INPUT, "--plot needs a file; standard output has the result");
    if (cli_is_dash(report))
        return stw_fail(error, STW_ERROR_INPUT, "--report needs a file; 'stowage report' writes a page to standard output");
    if (report == NULL && stw_options_get(call->options, "measured") != NULL)
        return stw_fail(error, STW_ERROR_INPUT, "--measured is shown in a report; name its file with --report FILE.html");
    return STW_OK;
}
