/* The machine as a whole: making one, what follows from its devices and links, and the functions of stowage.h. */
#define _POSIX_C_SOURCE 200809L /* access */
#include "machine/machine.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

stw_status stw_machine_create(int32_t device_count, stw_machine **out, stw_error *error) {
    *out = NULL;
    if (device_count < 1 || device_count > STW_MAX_DEVICES) {
        return stw_fail(error, STW_ERROR_INPUT, "a machine of %d devices; 1 to %d are possible", device_count, STW_MAX_DEVICES);
    }
    const int64_t D = device_count;
    stw_arena arena;
    TRY(stw_arena_create(&arena, error));
    stw_machine *machine = STW_NEW(&arena, stw_machine, 1);
    stw_device *device = STW_NEW(&arena, stw_device, D);
    stw_link *link = STW_NEW(&arena, stw_link, D * D);
    int32_t *class_device = STW_NEW(&arena, int32_t, D);
    stw_str *bus_name = STW_NEW(&arena, stw_str, D * D);
    if (machine == NULL || device == NULL || link == NULL || class_device == NULL || bus_name == NULL) {
        stw_arena_destroy(&arena);
        return stw_fail(error, STW_ERROR_MEMORY, "out of memory for a machine of %d devices", device_count);
    }
    for (int64_t i = 0; i < D * D; i++) link[i].bus = link[i].channel = -1;
    *machine = (stw_machine){.arena = arena,
                             .name = STW_STR(""),
                             .queues = true,
                             .device_count = device_count,
                             .device = device,
                             .link = link,
                             .class_device = class_device,
                             .bus_name = bus_name,
                             .host = -1};
    *out = machine;
    return STW_OK;
}

void stw_machine_destroy(stw_machine *machine) {
    if (machine == NULL) return;
    stw_arena arena = machine->arena; /* the machine lies in its own arena */
    stw_arena_destroy(&arena);
}

stw_status stw_machine_bus(stw_machine *machine, stw_str name, int32_t *out, stw_error *error) {
    for (int32_t b = 0; b < machine->bus_count; b++) {
        if (!stw_str_equal(machine->bus_name[b], name)) continue;
        *out = b;
        return STW_OK;
    }
    if (machine->bus_count == machine->device_count * machine->device_count) {
        return stw_fail(error, STW_ERROR_INPUT, "more buses than links; at most one per link");
    }
    const stw_str copy = stw_str_copy(&machine->arena, name);
    if (copy.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for the name of a bus");
    *out = machine->bus_count++;
    machine->bus_name[*out] = copy;
    return STW_OK;
}

static bool costs_equal(const stw_device *a, const stw_device *b) {
    if (!stw_str_equal(a->kind, b->kind) || a->launch_us != b->launch_us || a->bandwidth != b->bandwidth) return false;
    if (a->flops_f32 != b->flops_f32 || a->flops_tf32 != b->flops_tf32 || a->flops_bf16 != b->flops_bf16) return false;
    for (int32_t c = 0; c < STW_CLASS_COUNT; c++) {
        if (a->efficiency[c] != b->efficiency[c] || a->latency_us[c] != b->latency_us[c]) return false;
        if (a->fuses_epilogue[c] != b->fuses_epilogue[c]) return false;
    }
    return true;
}

static void number_cost_classes(stw_machine *machine) {
    machine->cost_class_count = 0;
    for (int32_t d = 0; d < machine->device_count; d++) {
        int32_t c = 0;
        while (c < machine->cost_class_count && !costs_equal(&machine->device[machine->class_device[c]], &machine->device[d]))
            c++;
        if (c == machine->cost_class_count) machine->class_device[machine->cost_class_count++] = d;
        machine->device[d].cost_class = c;
    }
}

double stw_link_tabled_s(const stw_link *link, double bytes) {
    const stw_rate *rates = link->rates;
    int32_t k = 0;
    while (k < link->rate_count && rates[k].bytes < bytes) k++;
    if (k == 0) return bytes / rates[0].rate;
    if (k == link->rate_count) return bytes / link->bandwidth;
    const double below = rates[k - 1].bytes / rates[k - 1].rate, above = rates[k].bytes / rates[k].rate;
    const double between = below + (bytes - rates[k - 1].bytes) * ((above - below) / (rates[k].bytes - rates[k - 1].bytes));
    return between < above ? between : above; /* rounding could take it past, and more bytes must not take less time */
}

bool stw_link_equal(const stw_link *a, const stw_link *b) {
    if (a->bandwidth != b->bandwidth || a->latency_us != b->latency_us || a->rate_count != b->rate_count) return false;
    if (a->send_us != b->send_us || a->receive_us != b->receive_us) return false;
    for (int32_t k = 0; k < a->rate_count; k++) {
        if (a->rates[k].bytes != b->rates[k].bytes || a->rates[k].rate != b->rates[k].rate) return false;
    }
    return true;
}

/* In the order of the link matrix, so that the numbers say which links share a channel and nothing else. Without queues buses
 * have no meaning and every link is its own. */
static stw_status number_channels(stw_machine *machine, stw_arena scratch, stw_error *error) {
    int32_t *bus_channel;
    STW_TRY_NEW(&scratch, bus_channel, (int64_t)machine->bus_count + 1, error);
    for (int32_t b = 0; b < machine->bus_count; b++) bus_channel[b] = -1;
    machine->channel_count = 0;
    machine->complete = true;
    machine->charges = machine->tabled = false;
    for (int32_t from = 0; from < machine->device_count; from++) {
        for (int32_t to = 0; to < machine->device_count; to++) {
            stw_link *link = &machine->link[(int64_t)from * machine->device_count + to];
            if (from == to || !(link->bandwidth > 0.0)) {
                *link = (stw_link){.bus = -1, .channel = -1};
                if (from != to) machine->complete = false;
                continue;
            }
            machine->charges |= link->send_us > 0.0 || link->receive_us > 0.0;
            machine->tabled |= link->rates != NULL;
            int32_t *shared = machine->queues && link->bus >= 0 ? &bus_channel[link->bus] : NULL;
            link->channel = shared != NULL && *shared >= 0 ? *shared : machine->channel_count++;
            if (shared != NULL) *shared = link->channel;
        }
    }
    return STW_OK;
}

stw_status stw_machine_finish(stw_machine *machine, stw_error *error) {
    number_cost_classes(machine);
    return number_channels(machine, machine->arena, error);
}

bool stw_machine_equal(const stw_machine *a, const stw_machine *b) {
    if (a->device_count != b->device_count || a->queues != b->queues || a->host != b->host) return false;
    for (int32_t d = 0; d < a->device_count; d++) {
        const stw_device *x = &a->device[d], *y = &b->device[d];
        if (!stw_str_equal(x->name, y->name) || x->memory_bytes != y->memory_bytes || !costs_equal(x, y)) return false;
    }
    const int64_t pairs = (int64_t)a->device_count * a->device_count;
    for (int64_t i = 0; i < pairs; i++) { /* equal channels: the same links share, whatever their buses are called */
        const stw_link *x = &a->link[i], *y = &b->link[i];
        if (!stw_link_equal(x, y) || x->channel != y->channel) return false;
    }
    return true;
}

static stw_status parse_text(stw_str text, stw_arena *scratch, const char *label, stw_machine **out, stw_error *error) {
    stw_json json;
    stw_json_init(&json, text, scratch, error);
    stw_status status = stw_machine_read(&json, out, error);
    if (status == STW_OK) status = stw_json_finish(&json);
    if (status == STW_OK) return STW_OK;
    stw_machine_destroy(*out);
    *out = NULL;
    stw_error_prefix(error, label);
    return status;
}

stw_status stw_machine_parse(const void *bytes, size_t size, const char *label, stw_machine **out, stw_error *error) {
    STW_NEED(label);
    STW_NEED(out);
    *out = NULL;
    stw_arena scratch;
    TRY(stw_arena_create(&scratch, error));
    stw_str text = {size == 0 ? "" : bytes, (int64_t)size};
    stw_status status = stw_unpack(text, &scratch, &text, error);
    if (status == STW_OK) {
        status = parse_text(text, &scratch, label, out, error);
    } else {
        stw_error_prefix(error, label);
    }
    stw_arena_destroy(&scratch);
    return status;
}

static stw_status fail_unknown(const char *name, stw_error *error) {
    char list[200] = "";
    size_t length = 0;
    const char *family, *description;
    for (int32_t i = 0; stw_machine_list(i, &family, &description) && length < sizeof list; i++) {
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", i == 0 ? "" : ", ", family);
    }
    return stw_fail(error, STW_ERROR_INPUT,
                    "'%.100s' is neither a file nor a built-in machine; built in are %s (1 to %d devices in all); "
                    "describe any other in a file (docs/formats/machine.md) and give its path",
                    name, list, STW_MAX_DEVICES);
}

stw_status stw_machine_open(const char *name_or_path, stw_machine **out, stw_error *error) {
    STW_NEED(name_or_path);
    STW_NEED(out);
    TRY(stw_machine_build(stw_str_of(name_or_path), out, error));
    if (*out != NULL) return STW_OK;
    const bool standard_input = strcmp(name_or_path, "-") == 0;
    if (!standard_input && access(name_or_path, F_OK) != 0) return fail_unknown(name_or_path, error);
    stw_arena scratch;
    TRY(stw_arena_create(&scratch, error));
    stw_str text;
    stw_status status = stw_file_read(name_or_path, &scratch, &text, error);
    if (status == STW_OK) {
        status = parse_text(text, &scratch, standard_input ? "standard input" : name_or_path, out, error);
    }
    stw_arena_destroy(&scratch);
    return status;
}

const char *stw_machine_name(const stw_machine *machine) {
    STW_NEED(machine);
    return machine->name.p;
}

const char *stw_machine_warning(const stw_machine *machine) {
    STW_NEED(machine);
    return machine->remark.length > 0 ? machine->remark.p : NULL;
}

int32_t stw_machine_device_count(const stw_machine *machine) {
    STW_NEED(machine);
    return machine->device_count;
}

const char *stw_machine_device_name(const stw_machine *machine, int32_t device) {
    STW_NEED(machine);
    return device < 0 || device >= machine->device_count ? NULL : machine->device[device].name.p;
}

int64_t stw_machine_device_memory(const stw_machine *machine, int32_t device) {
    STW_NEED(machine);
    return device < 0 || device >= machine->device_count ? 0 : machine->device[device].memory_bytes;
}

stw_status stw_machine_set_memory(stw_machine *machine, int64_t bytes, stw_error *error) {
    STW_NEED(machine);
    if (bytes < 0) {
        return stw_fail(error, STW_ERROR_INPUT, "memory of %lld bytes; give 0 or more, such as 4GB", (long long)bytes);
    }
    for (int32_t d = 0; d < machine->device_count; d++) machine->device[d].memory_bytes = bytes;
    return STW_OK;
}
