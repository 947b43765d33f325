/* What `stowage explain` has tried: other machines and times, an op elsewhere, a group apart and merged. */
#include "cli.h"
#include "explain/explain.h"

enum { MOST_ROWS = 10 };

static double seconds(int64_t ps) { return (double)ps * 1e-12; }

static const stw_str *name_of(const stw_explanation *x, int32_t node) { return &x->simulator->graph->node_name[node]; }
static const char *device_name(const stw_explanation *x, int32_t device) { return x->simulator->machine->device[device].name.p; }

/* The step, and how it differs from that of the plan: two cells. */
static void add_step(const stw_explanation *x, cli_table *table, const stw_attempt *trial) {
    const int64_t step = x->parts.step_ps;
    const bool valid = trial->tried && trial->reason == STW_VALID;
    if (!trial->tried || trial->step_ps == 0) {
        cli_table_add(table, CLI_DIM, "%s", trial->tried && !valid ? "none" : "-");
        cli_table_add(table, CLI_PLAIN, "%s", "");
        return;
    }
    cli_table_add(table, valid ? CLI_PLAIN : CLI_RED, "%s", cli_time(seconds(trial->step_ps), 5).text);
    if (step == 0)
        cli_table_add(table, CLI_PLAIN, "%s", "");
    else
        cli_table_add(table, CLI_PLAIN, "%+.1f %%", 100.0 * ((double)trial->step_ps / (double)step - 1.0));
}

static cli_text bytes_of(const stw_explanation *x, int64_t bytes) {
    return cli_bytes((double)bytes / stw_graph_size_scale(x->simulator->graph));
}

/* ---- what-ifs ---- */

void cli_print_what_ifs(const stw_explanation *x, stw_arena arena) {
    static const cli_column columns[] = {
        {"what if", CLI_LEFT}, {"plan kept", CLI_RIGHT}, {"", CLI_RIGHT}, {"new search", CLI_RIGHT}, {"", CLI_RIGHT}};
    cli_table table;
    cli_table_begin(&table, &arena, columns, 5);
    for (int64_t k = 0; k < x->what_if_count; k++) {
        const stw_what_if *row = &x->what_if[k];
        cli_table_add(&table, CLI_PLAIN, "%s", row->change[0] == '\0' ? "as it is" : row->change);
        add_step(x, &table, &row->kept);
        add_step(x, &table, &row->searched);
    }
    if (x->what_if_count == 0) return;
    printf("\n");
    cli_table_print(&table, stdout);
    for (int64_t k = 0; k < x->what_if_count; k++) {
        const stw_what_if *row = &x->what_if[k];
        const stw_str line =
            stw_str_format(&arena, "%s: %s%s%s", row->change, row->words,
                           row->words[0] != '\0' && row->kept.message != NULL && row->kept.message[0] != '\0' ? "; " : "",
                           row->kept.message != NULL ? row->kept.message : "");
        if (line.p != NULL && line.length > (int64_t)stw_str_of(row->change).length + 2) cli_paragraph(line.p);
    }
    if (x->interrupted) cli_paragraph("interrupted: what-ifs that had not begun are left out");
}

/* ---- an op elsewhere ---- */

static void print_moved(const stw_explanation *x) {
    enum { MOST_NAMES = 8 };
    const int32_t op = x->moved[0];
    printf("\n");
    cli_heading("%.*s (%d) on %s%s", STW_STR_SHOW(*name_of(x, op)), op, device_name(x, x->plan->device[op]),
                x->moved_count > 1 ? "; with it must go:" : "; nothing must go with it");
    for (int32_t k = 1; k < x->moved_count && k <= MOST_NAMES; k++) {
        char name[100];
        snprintf(name, sizeof name, "%.*s", STW_STR_SHOW(*name_of(x, x->moved[k])));
        stw_escape_text(name, sizeof name);
        printf("  %s (%d)\n", name, x->moved[k]);
    }
    if (x->moved_count > MOST_NAMES + 1) printf("  and %d more\n", x->moved_count - 1 - MOST_NAMES);
}

static void print_devices(const stw_explanation *x, stw_arena arena) {
    static const cli_column columns[] = {{"device", CLI_LEFT},      {"step", CLI_RIGHT},         {"", CLI_RIGHT},
                                         {"peak there", CLI_RIGHT}, {"largest peak", CLI_RIGHT}, {"new transfers", CLI_RIGHT},
                                         {"no longer", CLI_RIGHT}};
    cli_table table;
    cli_table_begin(&table, &arena, columns, 7);
    for (int32_t k = 0; k < x->move_count; k++) {
        const stw_move_trial *move = &x->move[k];
        const bool has_step = stw_has_step(&move->trial);
        cli_table_add(&table, move->here ? CLI_BOLD : CLI_PLAIN, "%s%s", device_name(x, move->device),
                      move->here ? " (here)" : "");
        add_step(x, &table, &move->trial);
        cli_table_add(&table, CLI_PLAIN, "%s", has_step ? bytes_of(x, move->device_peak_bytes).text : "-");
        cli_table_add(&table, CLI_PLAIN, "%s", has_step ? bytes_of(x, move->trial.peak_bytes).text : "-");
        cli_table_add(&table, CLI_PLAIN, "%d, %s", move->appear_count, cli_time(seconds(move->appear_ps), 3).text);
        cli_table_add(&table, CLI_PLAIN, "%d, %s", move->vanish_count, cli_time(seconds(move->vanish_ps), 3).text);
    }
    cli_table_print(&table, stdout);
    for (int32_t k = 0; k < x->move_count; k++) {
        const stw_move_trial *move = &x->move[k];
        if (move->trial.reason == STW_VALID) continue;
        const stw_str line = stw_str_format(&arena, "%s: %s", device_name(x, move->device), move->trial.message);
        if (line.p != NULL) cli_paragraph(line.p);
    }
}

/* The transfers that would come and go, those that take longest; for each device the first few. */
static void print_pulls(const stw_explanation *x, stw_arena arena) {
    static const cli_column columns[] = {{"on", CLI_LEFT},   {"transfer", CLI_LEFT}, {"neighbour", CLI_LEFT}, {"", CLI_LEFT},
                                         {"link", CLI_LEFT}, {"bytes", CLI_RIGHT},   {"time", CLI_RIGHT}};
    const bool has_bytes = x->simulator->graph->size_scale <= 0.0;
    cli_table table;
    int32_t device = -1, shown = 0;
    cli_table_begin(&table, &arena, columns, 7);
    for (int64_t k = 0; k < x->pull_count; k++) {
        const stw_pull *pull = &x->pull[k];
        shown = pull->device == device ? shown + 1 : 0;
        device = pull->device;
        if (shown >= MOST_ROWS / 2) continue;
        cli_table_add(&table, CLI_PLAIN, "%s", shown == 0 ? device_name(x, device) : "");
        cli_table_add(&table, CLI_PLAIN, "%s", pull->appears ? "new" : "no longer");
        cli_table_add(&table, CLI_PLAIN, "%.*s (%d)", STW_STR_SHOW(*name_of(x, pull->neighbour)), pull->neighbour);
        cli_table_add(&table, CLI_PLAIN, "%s", pull->neighbour == pull->node ? "feeds it" : "reads it");
        cli_table_add(&table, CLI_PLAIN, "%s > %s", device_name(x, pull->from), device_name(x, pull->to));
        cli_table_add(&table, CLI_PLAIN, "%s", has_bytes ? cli_bytes((double)pull->bytes).text : "-");
        cli_table_add(&table, CLI_PLAIN, "%s", cli_time(seconds(pull->ps), 3).text);
    }
    if (device < 0) return;
    printf("\n");
    cli_table_print(&table, stdout);
}

void cli_print_moves(const stw_explanation *x, stw_arena arena) {
    if (x->moved_count == 0) return;
    print_moved(x);
    print_devices(x, arena);
    print_pulls(x, arena);
}

/* ---- a group ---- */

static void print_worth(const stw_explanation *x, stw_arena arena) {
    static const cli_column columns[] = {{"", CLI_LEFT}, {"kernels", CLI_RIGHT}, {"step", CLI_RIGHT}, {"", CLI_RIGHT}};
    const stw_group_worth *group = &x->group;
    const stw_attempt now = {.tried = true, .step_ps = x->parts.step_ps};
    cli_table table;
    printf("\n");
    cli_heading("group %d of %d op%s on %s, led by %.*s", group->group, group->member_count, group->member_count == 1 ? "" : "s",
                device_name(x, group->device), STW_STR_SHOW(*name_of(x, group->group)));
    cli_table_begin(&table, &arena, columns, 4);
    cli_table_add(&table, CLI_PLAIN, "as one kernel");
    cli_table_add(&table, CLI_PLAIN, "%s", cli_time(seconds(group->kernel_ps), 4).text);
    add_step(x, &table, &now);
    cli_table_add(&table, CLI_PLAIN, "its ops apart");
    cli_table_add(&table, CLI_PLAIN, "%s", cli_time(seconds(group->apart_ps), 4).text);
    add_step(x, &table, &group->apart);
    cli_table_print(&table, stdout);
    if (group->apart.reason != STW_VALID) cli_paragraph(group->apart.message);
}

static int32_t count_legal(const stw_explanation *x) {
    int32_t legal = 0;
    while (legal < x->merge_count && stw_has_step(&x->merge[legal].trial)) legal++;
    return legal;
}

static void print_merged(const stw_explanation *x, int32_t legal, stw_arena arena) {
    static const cli_column columns[] = {
        {"merged with", CLI_LEFT}, {"", CLI_LEFT}, {"kernel", CLI_RIGHT}, {"step", CLI_RIGHT}, {"", CLI_RIGHT}};
    cli_table table;
    cli_table_begin(&table, &arena, columns, 5);
    for (int32_t k = 0; k < legal && k < MOST_ROWS; k++) {
        const stw_merge_trial *merge = &x->merge[k];
        cli_table_add(&table, CLI_PLAIN, "%.*s (%d)", STW_STR_SHOW(*name_of(x, merge->node)), merge->node);
        cli_table_add(&table, CLI_PLAIN, "%s", merge->reads ? "which reads it" : "which it reads");
        cli_table_add(&table, CLI_PLAIN, "%s", cli_time(seconds(merge->kernel_ps), 4).text);
        add_step(x, &table, &merge->trial);
    }
    printf("\n");
    if (legal == 0)
        printf("  no merge with a neighbour is legal\n");
    else
        cli_table_print(&table, stdout);
    if (legal > MOST_ROWS) printf("  and %d more; --format json lists all\n", legal - MOST_ROWS);
}

static void print_illegal(const stw_explanation *x, int32_t legal, stw_arena arena) {
    static const cli_column columns[] = {{"not with", CLI_LEFT}, {"because", CLI_LEFT}};
    cli_table table;
    cli_table_begin(&table, &arena, columns, 2);
    for (int32_t k = legal; k < x->merge_count && k < legal + MOST_ROWS; k++) {
        const stw_merge_trial *merge = &x->merge[k];
        cli_table_add(&table, CLI_PLAIN, "%.*s (%d)", STW_STR_SHOW(*name_of(x, merge->node)), merge->node);
        cli_table_add(&table, CLI_PLAIN, "%s", merge->trial.message);
    }
    if (legal == x->merge_count) return;
    printf("\n");
    cli_table_print(&table, stdout);
    if (x->merge_count > legal + MOST_ROWS)
        printf("  and %d more; --format json lists all\n", x->merge_count - legal - MOST_ROWS);
    if (x->group.left_out > 0) printf("  %d further neighbours were not tried\n", x->group.left_out);
}

void cli_print_merges(const stw_explanation *x, stw_arena arena) {
    if (!x->has_group) return;
    const int32_t legal = count_legal(x);
    print_worth(x, arena);
    print_merged(x, legal, arena);
    print_illegal(x, legal, arena);
}
