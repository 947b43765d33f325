/* Defaults of the user: lines "key = value" in $XDG_CONFIG_HOME/stowage/config, else ~/.config/stowage/config. They hold where
 * the command line says nothing. No other place is looked at, least of all the working directory: a folder that somebody else has
 * made must not decide what a command does. For the same reason a file or a folder that others can write to is refused. */
#define _POSIX_C_SOURCE 200809L /* fstat, O_CLOEXEC */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli.h"

enum { MAX_BYTES = 65536, MAX_VALUE = 4096 };

/* What may stand there, and for whom. A budget is that of a search, 10 s otherwise; training and what-ifs have theirs. */
static const struct {
    const char *key;
    unsigned commands;
} keys[] = {{"machine", STW_FOR_SEARCHES | STW_FOR_TRAIN | STW_FOR_SIMULATE | STW_FOR_EXPORT | STW_FOR_EXPLAIN | STW_FOR_REPORT},
            {"budget", STW_FOR_SEARCHES | STW_FOR_SIMULATE},
            {"threads", STW_FOR_SEARCHES | STW_FOR_TRAIN | STW_FOR_SIMULATE | STW_FOR_EXPLAIN | STW_FOR_EXPORT}};
enum { KEY_COUNT = sizeof keys / sizeof keys[0] };

/* ---- the file ---- */

const char *cli_config_path(stw_arena *arena) {
    const char *folder = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (folder != NULL && folder[0] == '/') return stw_str_format(arena, "%s/stowage/config", folder).p;
    if (home == NULL || home[0] != '/') return NULL; /* a path from here would be the working directory's */
    return stw_str_format(arena, "%s/.config/stowage/config", home).p;
}

static stw_status check_owner(const struct stat *found, const char *path, const char *what, stw_error *error) {
    if (found->st_uid != geteuid() && found->st_uid != 0)
        return stw_fail(error, STW_ERROR_INPUT, "%s: belongs to another user (%ld); defaults are read from a %s of your own",
                        path, (long)found->st_uid, what);
    if ((found->st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return stw_fail(error, STW_ERROR_INPUT, "%s: others can write to it (mode %03o); chmod go-w makes it yours alone", path,
                        (unsigned)found->st_mode & 0777u);
    return STW_OK;
}

/* The file and its folder: who can write to that can put another file there. */
static stw_status check_owners(int file, const char *path, stw_arena scratch, stw_error *error) {
    struct stat found;
    if (fstat(file, &found) != 0) return stw_fail(error, STW_ERROR_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(found.st_mode)) return stw_fail(error, STW_ERROR_INPUT, "%s: the user's defaults must be a plain file", path);
    TRY(check_owner(&found, path, "file", error));
    const char *folder = stw_str_copy(&scratch, (stw_str){path, strrchr(path, '/') - path}).p;
    if (folder == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    if (stat(folder, &found) != 0) return stw_fail(error, STW_ERROR_IO, "%s: %s", folder, strerror(errno));
    return check_owner(&found, folder, "folder", error);
}

/* As much as there is, up to one byte too many. */
static stw_status read_text(int file, const char *path, char *text, size_t *length, stw_error *error) {
    for (*length = 0; *length < MAX_BYTES;) {
        const ssize_t got = read(file, text + *length, MAX_BYTES - *length);
        if (got == 0) break;
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return stw_fail(error, STW_ERROR_IO, "%s: %s", path, strerror(errno));
        *length += (size_t)got;
    }
    if (*length == MAX_BYTES) return stw_fail(error, STW_ERROR_INPUT, "%s: larger than %d bytes", path, MAX_BYTES - 1);
    if (memchr(text, '\0', *length) != NULL) return stw_fail(error, STW_ERROR_INPUT, "%s: not a text", path);
    text[*length] = '\0';
    return STW_OK;
}

/* Whether a file that cannot be opened (errno says why) counts as none: there is none, or a folder on the way to it cannot be
 * entered, as with the home of another user. One that is there and cannot be read is a fault. */
static bool is_none(const char *path) {
    struct stat found;
    if (errno == EACCES) return stat(path, &found) != 0;
    return errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG;
}

/* *out is NULL where there is no such file. */
static stw_status read_config(const char *path, stw_arena *arena, char **out, stw_error *error) {
    *out = NULL;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const int reason = errno;
    if (file < 0 && is_none(path)) return STW_OK;
    if (file < 0) return stw_fail(error, STW_ERROR_IO, "%s: cannot be read: %s", path, strerror(reason));
    size_t length;
    char *text = STW_NEW(arena, char, MAX_BYTES + 1);
    stw_status status =
        text == NULL ? stw_fail(error, STW_ERROR_MEMORY, "out of memory") : check_owners(file, path, *arena, error);
    if (status == STW_OK) status = read_text(file, path, text, &length, error);
    close(file);
    if (status == STW_OK) *out = text;
    return status;
}

/* ---- its lines ---- */

typedef struct place { /* where we are, for faults */
    const char *path;
    int line;
} place;

static stw_status fail_at(const place *at, stw_error *error, const char *what) {
    stw_error line = {0}; /* `what` may be the text of `error` */
    snprintf(line.message, sizeof line.message, "%s", what);
    return stw_fail(error, STW_ERROR_INPUT, "%s:%d: %s", at->path, at->line, line.message);
}

/* Blanks at both ends go; the text is cut in place. */
static char *trim(char *text) {
    text += strspn(text, " \t\r");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1]) != NULL) length--;
    text[length] = '\0';
    return text;
}

static stw_status find_key(const place *at, const char *name, int *out, stw_error *error) {
    char what[200];
    cli_suggestion near = {.word = stw_str_of(name)};
    for (*out = 0; *out < KEY_COUNT; (*out)++) {
        if (strcmp(name, keys[*out].key) == 0) return STW_OK;
        cli_suggest(&near, keys[*out].key);
    }
    snprintf(what, sizeof what, near.best != NULL ? "unknown key '%.60s'; did you mean %s?" : "unknown key '%.60s'; known: %s",
             name, near.best != NULL ? near.best : "machine, budget, threads");
    return fail_at(at, error, what);
}

/* A name that is no built-in machine would be a file of the working directory. */
static stw_status check_machine(const place *at, const char *value, stw_error *error) {
    stw_machine *machine = NULL;
    if (value[0] == '/') return STW_OK;
    if (stw_machine_build(stw_str_of(value), &machine, error) != STW_OK) return fail_at(at, error, error->message);
    const bool known = machine != NULL;
    stw_machine_destroy(machine);
    char what[300];
    snprintf(what, sizeof what,
             "machine: '%.100s' is neither built in ('stowage machine' lists those) nor a path that begins with /", value);
    return known ? STW_OK : fail_at(at, error, what);
}

static stw_status take_line(cli_call *call, const place *at, char *line, int *seen, stw_error *error) {
    char what[200];
    int key;
    line = trim(line);
    if (line[0] == '\0' || line[0] == '#') return STW_OK;
    char *equals = strchr(line, '=');
    if (equals == NULL) return fail_at(at, error, "not a line of the form key = value");
    *equals = '\0';
    const char *name = trim(line), *value = trim(equals + 1);
    TRY(find_key(at, name, &key, error));
    if (seen[key] > 0) {
        snprintf(what, sizeof what, "%s stands in line %d already", name, seen[key]);
        return fail_at(at, error, what);
    }
    seen[key] = at->line;
    if (strcmp(name, "machine") == 0 && value[0] != '\0') TRY(check_machine(at, value, error));
    /* Checked whatever the command: a mistake is found at once, not when another command meets it. */
    const bool taken = (keys[key].commands & call->command->bit) != 0;
    stw_options *all = NULL;
    if (!taken) TRY(stw_options_create_for(STW_FOR_OPTIMIZE, &all, error));
    const stw_status status = stw_options_set_otherwise(taken ? call->options : all, name, value, error);
    stw_options_destroy(all);
    return status == STW_OK ? STW_OK : fail_at(at, error, error->message + strspn(error->message, "-"));
}

stw_status cli_config_read(cli_call *call, stw_error *error) {
    stw_arena scratch = call->arena;
    const char *path = cli_config_path(&scratch);
    int seen[KEY_COUNT] = {0};
    char *text;
    if (path == NULL) return STW_OK;
    TRY(read_config(path, &scratch, &text, error));
    place at = {.path = path};
    static const char mark[] = "\xef\xbb\xbf"; /* which some editors put first (BOM) */
    if (text != NULL && strncmp(text, mark, strlen(mark)) == 0) text += strlen(mark);
    for (char *line = text; line != NULL;) {
        char *end = strchr(line, '\n');
        if (end != NULL) *end = '\0';
        at.line++;
        TRY(take_line(call, &at, line, seen, error));
        line = end == NULL ? NULL : end + 1;
    }
    return STW_OK;
}
