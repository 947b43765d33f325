/* A machine as tables. */
#include "cli.h"

enum { MAX_LINK_ROWS = 32 };

static void warn_of(const stw_machine *machine) {
    const char *warning = stw_machine_warning(machine);
    if (warning != NULL) cli_warn(warning);
}

void cli_write_machine_json(const stw_machine *machine, FILE *file) {
    stw_json_writer writer;
    warn_of(machine);
    stw_json_writer_init(&writer, file);
    stw_machine_write(machine, &writer);
    fputc('\n', file);
}

static void add_peak(cli_table *table, double flops_per_s) {
    if (flops_per_s > 0.0) {
        cli_table_add(table, CLI_PLAIN, "%s", cli_amount(flops_per_s, "FLOP/s").text);
    } else {
        cli_table_add(table, CLI_DIM, "-");
    }
}

static void show_devices(const stw_machine *machine, stw_arena arena) {
    static const cli_column columns[] = {{"device", CLI_LEFT},     {"kind", CLI_LEFT},   {"memory", CLI_RIGHT},
                                         {"f32", CLI_RIGHT},       {"tf32", CLI_RIGHT},  {"bf16", CLI_RIGHT},
                                         {"bandwidth", CLI_RIGHT}, {"launch", CLI_RIGHT}};
    cli_table table;
    cli_table_begin(&table, &arena, columns, 8);
    for (int32_t d = 0; d < machine->device_count; d++) {
        const stw_device *device = &machine->device[d];
        cli_table_add(&table, CLI_PLAIN, "%.*s", STW_STR_SHOW(device->name));
        cli_table_add(&table, CLI_PLAIN, "%.*s", STW_STR_SHOW(device->kind));
        cli_table_add(&table, CLI_PLAIN, "%s", cli_bytes((double)device->memory_bytes).text);
        add_peak(&table, device->flops_f32);
        add_peak(&table, device->flops_tf32);
        add_peak(&table, device->flops_bf16);
        cli_table_add(&table, CLI_PLAIN, "%s/s", cli_bytes(device->bandwidth).text);
        cli_table_add(&table, CLI_PLAIN, "%s", cli_time(device->launch_us * 1e-6, 3).text);
    }
    cli_table_print(&table, stdout);
}

static bool same_link(const stw_link *a, const stw_link *b) { return stw_link_equal(a, b) && a->bus == b->bus; }

/* The one link that every ordered pair has, or NULL if they differ or some pair has none. */
static const stw_link *common_link(const stw_machine *machine) {
    const stw_link *first = NULL;
    for (int32_t from = 0; from < machine->device_count; from++) {
        for (int32_t to = 0; to < machine->device_count; to++) {
            const stw_link *link = stw_machine_link(machine, from, to);
            if (from == to) continue;
            if (link->bandwidth <= 0.0) return NULL;
            if (first == NULL) first = link;
            if (!same_link(first, link)) return NULL;
        }
    }
    return first;
}

static void add_link(cli_table *table, const stw_machine *machine, const char *from, const char *to, const stw_link *link) {
    cli_table_add(table, CLI_PLAIN, "%s", from);
    cli_table_add(table, CLI_PLAIN, "%s", to);
    if (link->rates == NULL) {
        cli_table_add(table, CLI_PLAIN, "%s/s", cli_bytes(link->bandwidth).text);
    } else { /* of small transfers, and of large ones */
        cli_table_add(table, CLI_PLAIN, "%s/s to %s/s", cli_bytes(link->rates[0].rate).text, cli_bytes(link->bandwidth).text);
    }
    cli_table_add(table, CLI_PLAIN, "%s", cli_time(link->latency_us * 1e-6, 3).text);
    if (machine->charges) {
        cli_table_add(table, CLI_PLAIN, "%s", cli_time(link->send_us * 1e-6, 3).text);
        cli_table_add(table, CLI_PLAIN, "%s", cli_time(link->receive_us * 1e-6, 3).text);
    }
    if (link->bus >= 0) {
        cli_table_add(table, CLI_PLAIN, "%.*s", STW_STR_SHOW(machine->bus_name[link->bus]));
    } else {
        cli_table_add(table, CLI_DIM, "-");
    }
}

static void show_links(const stw_machine *machine, stw_arena arena) {
    static const cli_column columns[] = {
        {"from", CLI_LEFT}, {"to", CLI_LEFT}, {"bandwidth", CLI_RIGHT}, {"latency", CLI_RIGHT}, {"bus", CLI_LEFT}};
    static const cli_column charged[] = {{"from", CLI_LEFT},     {"to", CLI_LEFT},    {"bandwidth", CLI_RIGHT},
                                         {"latency", CLI_RIGHT}, {"send", CLI_RIGHT}, {"receive", CLI_RIGHT},
                                         {"bus", CLI_LEFT}};
    cli_table table;
    cli_table_begin(&table, &arena, machine->charges ? charged : columns, machine->charges ? 7 : 5);
    const stw_link *common = common_link(machine);
    int32_t links = 0;
    if (common != NULL) add_link(&table, machine, "every device", "every other", common);
    for (int32_t from = 0; from < machine->device_count; from++) {
        for (int32_t to = 0; to < machine->device_count; to++) {
            const stw_link *link = stw_machine_link(machine, from, to);
            if (from == to || link->bandwidth <= 0.0) continue;
            links++;
            if (common != NULL || links > MAX_LINK_ROWS) continue;
            add_link(&table, machine, stw_machine_device_name(machine, from), stw_machine_device_name(machine, to), link);
        }
    }
    if (links == 0) {
        printf("  no links\n");
        return;
    }
    cli_table_print(&table, stdout);
    if (common == NULL && links > MAX_LINK_ROWS) printf("  and %d more; --format json lists all\n", links - MAX_LINK_ROWS);
}

void cli_show_machine(const stw_machine *machine, stw_arena *arena) {
    warn_of(machine);
    cli_heading("machine %.*s: %d device%s, contention %s", STW_STR_SHOW(machine->name), machine->device_count,
                machine->device_count == 1 ? "" : "s", machine->queues ? "queue" : "none");
    printf("\n");
    show_devices(machine, *arena);
    printf("\n");
    show_links(machine, *arena);
}
