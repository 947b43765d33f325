/* The command line program: what its files share.
 *
 * main.c holds the command table; a command is one function in cmd_NAME.c. Results go to standard output, remarks to standard
 * error. Every fault is one line "stowage: ..." on standard error and exit status CLI_FAULT. */
#ifndef STW_CLI_H
#define STW_CLI_H

#include <stdio.h>

#include "api/options.h"
#include "base/escape.h"
#include "base/json.h"
#include "machine/machine.h"

/* Exit statuses. */
enum { CLI_DONE = 0, CLI_NO_PLAN = 1, CLI_FAULT = 2, CLI_WORSE = 3, CLI_INTERRUPTED = 130 };

typedef struct cli_call { /* one command line, parsed */
    const struct cli_command *command;
    stw_options *options;
    const char **operand; /* what is not an option */
    int32_t operand_count;
    stw_arena arena; /* for whatever the command needs until it ends */
} cli_call;

typedef struct cli_command {
    const char *name;
    unsigned bit;                     /* STW_FOR_..., which selects its options */
    int (*run)(const cli_call *call); /* returns the exit status */
    int32_t least_operands, most_operands;
    bool lists_methods;      /* its help names the methods that make plans */
    bool lists_formats;      /* its help names the formats that plans are exported to */
    const char *summary;     /* one line, without a full stop */
    const char *usage;       /* what follows "stowage " */
    const char *description; /* paragraphs separated by empty lines; wrapped by the printer */
    const char *examples;    /* lines "command<TAB>what it does" */
} cli_command;

/* main.c */
extern const cli_command cli_commands[];
extern const int32_t cli_command_count;
extern const char cli_description[];   /* of the program, one paragraph */
extern const char cli_exit_statuses[]; /* lines "status<TAB>meaning" */
const cli_command *cli_command_find(stw_str name);

int cmd_optimize(const cli_call *call);
int cmd_compare(const cli_call *call);
int cmd_train(const cli_call *call);
int cmd_inspect(const cli_call *call);
int cmd_simulate(const cli_call *call);
int cmd_explain(const cli_call *call);
int cmd_report(const cli_call *call);
int cmd_export(const cli_call *call);
int cmd_generate(const cli_call *call);
int cmd_machine(const cli_call *call);
int cmd_calibrate(const cli_call *call);
int cmd_help(const cli_call *call);
int cmd_version(const cli_call *call);

/* cmd_help.c */
void cli_print_help(const cli_command *command); /* NULL: of the program */
/* man.c, completion.c */
void cli_print_man(const cli_command *command); /* NULL: of the program */
void cli_print_completion(const char *shell);   /* "bash", "zsh" or "fish" */

/* parse.c */
/* Fills operands and options of a call from the arguments behind the command's name; strings are borrowed. */
stw_status cli_parse(cli_call *call, int count, char **argument, stw_error *error);
bool cli_is_set(const cli_call *call, const char *flag);
bool cli_wants_json(const cli_call *call);
/* "a,b,c" as words in the arena, each once. */
stw_status cli_split(const char *text, const char *option, stw_arena *arena, const char ***out, int32_t *count, stw_error *error);
/* The word nearest to `word` among the candidates seen so far, if it is near enough to be a slip of the pen. */
typedef struct cli_suggestion {
    stw_str word;
    const char *best;
    int32_t distance;
} cli_suggestion;
void cli_suggest(cli_suggestion *suggestion, const char *candidate);
stw_status cli_unknown_command(const char *name, stw_error *error);
/* A message that names the nearest of the methods (and of `also`, unless it is NULL), or all of them: "WHAT; did you mean heft?"
 */
stw_status cli_unknown_method(const char *name, const char *also, const char *what, stw_error *error);

/* Refuses a --plan that is neither a file nor a method. */
stw_status cli_check_plan(const char *plan, stw_error *error);

/* config.c */
/* The user's defaults, which hold where the call's options are not set. No file is no fault. */
stw_status cli_config_read(cli_call *call, stw_error *error);
const char *cli_config_path(stw_arena *arena); /* where they would be; NULL: nowhere */

/* outputs.c */
/* Refuses files that cannot be written, and those that are read, or written under another name, by the same command. */
stw_status cli_check_outputs(const cli_call *call, stw_error *error);
/* Refuses a --report or --plot that is standard output, and a --measured that no report shows. */
stw_status cli_check_report(const cli_call *call, stw_error *error);

/* report.c: faults and remarks on standard error */
int cli_fault(const stw_error *error); /* prints the line; returns the exit status that fits */
void cli_warn(const char *message);
/* Writes what is left in standard output and turns a write error into a fault. */
int cli_finish_output(int status);

/* table.c: plain text for people */
typedef enum cli_style { CLI_PLAIN, CLI_BOLD, CLI_DIM, CLI_GREEN, CLI_RED } cli_style;
typedef enum cli_align { CLI_LEFT, CLI_RIGHT } cli_align;

typedef struct cli_column {
    const char *title; /* all NULL: no heading */
    cli_align align;
} cli_column;

enum {
    CLI_MAX_COLUMNS = 80, /* of a table */
    CLI_WIDTH = 100,      /* characters of a line of text */
    CLI_NARROW = 24       /* characters that a column of words has at least, where it needs them */
};

typedef struct cli_cell cli_cell;
typedef struct cli_table {
    stw_arena *arena;
    const cli_column *column;
    int32_t column_count, cell_count;
    cli_cell *first, *last;
} cli_table;

void cli_table_begin(cli_table *table, stw_arena *arena, const cli_column *column, int32_t column_count);
/* The next cell; rows follow from the number of columns. Control characters are escaped: names come from files. */
void cli_table_add(cli_table *table, cli_style style, const char *format, ...) STW_PRINTF(3, 4);
/* A name from a file as the next cell. Tables in Markdown are pasted into spreadsheets: it begins with an apostrophe where these
 * would take it for a formula. */
void cli_table_add_name(cli_table *table, cli_style style, const char *name);
/* A name and what it is: the two cells of a row. */
void cli_table_add_line(cli_table *table, const char *name, const char *text);
/* Indented by two spaces, no wider than CLI_WIDTH. */
void cli_table_print(const cli_table *table, FILE *file);
void cli_table_print_markdown(const cli_table *table, FILE *file);
void cli_heading(const char *format, ...) STW_PRINTF(1, 2); /* a line in bold on standard output */
void cli_paragraph(const char *text);                       /* indented by two, over as many lines as it takes */

/* Numbers with units, to `digits` significant digits. To be used within one expression: cli_time(s, 3).text */
typedef struct cli_text {
    char text[64];
} cli_text;
cli_text cli_time(double seconds, int digits);       /* "12.3 ms" */
cli_text cli_bytes(double bytes);                    /* "1.25 GB" */
cli_text cli_amount(double value, const char *unit); /* "4.95 TFLOP" */
cli_text cli_count(int64_t count);                   /* "12,345" */
cli_text cli_percent(double share);                  /* 0.5: "50.0 %" */
cli_text cli_bar(double share);                      /* "#####....." */

/* report.c: one key and its value in a JSON object */
void cli_field_bytes(stw_json_writer *writer, const char *key, int64_t value); /* negative: null */
void cli_field_texts(stw_json_writer *writer, const char *key, const char *const *value, int32_t count);

/* interrupt.c: main's first call; ends what holds signals while libraries are loaded */
void cli_interrupts_loaded(void);
/* From here to there Ctrl-C, SIGTERM and SIGHUP wait, so that files are written whole */
void cli_hold_interrupts(void);
void cli_release_interrupts(void);

/* explain_trials.c: what `stowage explain` has tried, each as tables; nothing where it was not asked for */
void cli_print_what_ifs(const stw_explanation *explanation, stw_arena arena);
void cli_print_moves(const stw_explanation *explanation, stw_arena arena);
void cli_print_merges(const stw_explanation *explanation, stw_arena arena);

/* inspect_*.c: one kind of file each */
stw_status cli_show_graph(const cli_call *call, stw_str text, const char *label, stw_error *error);
stw_status cli_show_plan(const cli_call *call, stw_str text, const char *label, stw_error *error);
bool cli_is_policy(stw_str text); /* by its first bytes */
stw_status cli_show_policy(const cli_call *call, stw_str text, const char *label, stw_error *error);
stw_status cli_show_features(const cli_call *call, stw_error *error); /* of the graph that the operand names */
/* Both warn of what the reader of its file had to say. */
void cli_show_machine(const stw_machine *machine, stw_arena *arena);
void cli_write_machine_json(const stw_machine *machine, FILE *file);

#endif
