/* Options: one table (options.def) drives the command line, its help, the man pages, the completion scripts and stw_options_*.
 *
 * A row belongs to a set of commands. A name may have several rows for different commands, where meaning, allowed values or
 * default differ; within one command it has one. To add an option, add a row and nothing else. */
#ifndef STW_API_OPTIONS_H
#define STW_API_OPTIONS_H

#include "base/file.h"

/* Who takes an option: bits of stw_option.commands. */
enum {
    STW_FOR_LIBRARY = 1u << 0, /* may be set by name through stowage.h */
    STW_FOR_INSPECT = 1u << 1,
    STW_FOR_SIMULATE = 1u << 2,
    STW_FOR_MACHINE = 1u << 3,
    STW_FOR_VERSION = 1u << 4,
    STW_FOR_HELP = 1u << 5,
    STW_FOR_OPTIMIZE = 1u << 6,
    STW_FOR_COMPARE = 1u << 7,
    STW_FOR_TRAIN = 1u << 8,
    STW_FOR_EXPORT = 1u << 9,
    STW_FOR_GENERATE = 1u << 10,
    STW_FOR_CALIBRATE = 1u << 11,
    STW_FOR_EXPLAIN = 1u << 12,
    STW_FOR_REPORT = 1u << 13,
    STW_FOR_SEARCHES = STW_FOR_OPTIMIZE | STW_FOR_COMPARE,
    STW_FOR_COMMANDS = STW_FOR_SEARCHES | STW_FOR_TRAIN | STW_FOR_EXPORT | STW_FOR_INSPECT | STW_FOR_SIMULATE | STW_FOR_MACHINE |
                       STW_FOR_GENERATE | STW_FOR_CALIBRATE | STW_FOR_EXPLAIN | STW_FOR_REPORT | STW_FOR_VERSION | STW_FOR_HELP
};

typedef enum stw_option_kind {
    STW_OPTION_FLAG,    /* "yes" or "no"; no value on the command line */
    STW_OPTION_TEXT,    /* anything but the empty text */
    STW_OPTION_PATH,    /* the name of a file */
    STW_OPTION_BYTES,   /* "4GB", "512MiB", "1000"; at least `minimum` */
    STW_OPTION_SECONDS, /* "10s", "500ms", "2min" */
    STW_OPTION_INTEGER, /* from `minimum` to `maximum` */
    STW_OPTION_CHOICE   /* one of the words in `value`, separated by "|" */
} stw_option_kind;

typedef struct stw_option {
    const char *name;  /* without dashes */
    char letter;       /* short form, or 0 */
    const char *value; /* what the help calls the value; NULL for a flag */
    stw_option_kind kind;
    int64_t minimum, maximum;  /* of integers; `minimum` also of bytes */
    const char *default_value; /* or NULL: none, or one that `help` explains */
    unsigned commands;
    const char *help; /* one line, without a full stop */
} stw_option;

/* The i-th row; NULL past the last. */
const stw_option *stw_option_at(int32_t index);
/* The row of a name (or letter) that one of `commands` takes, or NULL. */
const stw_option *stw_option_find(stw_str name, unsigned commands);
const stw_option *stw_option_find_letter(char letter, unsigned commands);
/* What a text means; by the option's kind, one of: */
typedef union stw_option_value {
    int64_t number; /* integers, bytes; flags: 1 is "yes" */
    double seconds;
} stw_option_value;

/* Like stw_options_create, for the rows of a command instead of those of the library. */
stw_status stw_options_create_for(unsigned commands, stw_options **out, stw_error *error);
/* Whoever they were made for has such an option. */
bool stw_options_takes(const stw_options *options, const char *name);

/* A value that holds where none is set, in place of the table's: the defaults of a user. */
stw_status stw_options_set_otherwise(stw_options *options, const char *name, const char *value, stw_error *error);

/* Somebody has said so, and it is not the default. */
bool stw_options_is_given(const stw_options *options, const char *name);

/* ---- values, which were read when they were set; `options` may be NULL: then nothing is set and there are no defaults ---- */

/* stw_options_get. */
const char *stw_options_text(const stw_options *options, const char *name);
/* Integers and bytes; `otherwise` where it is neither set nor has a default. */
int64_t stw_options_number(const stw_options *options, const char *name, int64_t otherwise);
double stw_options_seconds(const stw_options *options, const char *name, double otherwise);
bool stw_options_flag(const stw_options *options, const char *name);
/* Of "file-limit": that size, at any ratio; else the defaults. */
stw_file_limits stw_options_file_limits(const stw_options *options);

#endif
