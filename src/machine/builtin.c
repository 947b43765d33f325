/* Machines that need no file. A name says it all:
 *
 *     KINDxN  h200xN-pcie  h200xN-host  cpu+h200xN  KINDxA+B        (KIND: the rows of kinds.def with a link)
 *
 * and each of them with "0.1/" before it: the same as in version 0.1, whose transfers take nothing from the devices themselves.
 * Where each number comes from stands in `sources`. */
#include <stdio.h>
#include <string.h>

#include "machine/machine.h"

typedef struct link_speed {
    double bandwidth; /* bytes/s */
    double latency_us;
} link_speed;

static const double nvlink_latency_us = 3.0;
static const link_speed pcie = {25e9, 10.0}; /* staged through the host, rounded */
static const link_speed nic = {50e9, 20.0};  /* one 400 Gb/s adapter per host */

/* Between host and device: latency + bytes / bandwidth, fitted on the ten sizes of data/transfers.json (4 KiB to 1 GiB) by
 * least squares of the relative error, so that small and large copies count alike. The fit gives 14.00 us and 55.16e9 B/s
 * (h2d), 12.97 us and 55.08e9 B/s (d2h); it is off by 13 % at worst (64 KiB), by 2.5 % at most from 256 KiB on. */
static const link_speed host_to_device = {55.2e9, 14.0};
static const link_speed device_to_host = {55.1e9, 13.0};

/* What a transfer takes from the two devices, measured on an H200 cut into two groups of SMs (bench/charges.py,
 * docs/results/charges.md): an event that another group waits for, and that wait with a copy of 256 bytes behind it. For devices
 * that are GPUs of their own, for hosts and for other kinds, they are assumed. */
static const double send_us = 0.2, receive_us = 2.8;

typedef struct kind_link {
    const char *kind, *family;
    double bandwidth; /* bytes/s between two of them; 0: no machine of this kind alone */
    const char *description;
} kind_link;

static const kind_link kind_links[] = {
#define STW_KIND(name, memory, f32, tf32, bf16, bandwidth, link, description) {#name, #name "xN", link, description},
#include "machine/kinds.def"
};
enum { KIND_LINK_COUNT = sizeof kind_links / sizeof kind_links[0] };

static const struct {
    const char *family, *description;
} special[] = {
    {"h200xN-pcie", "N H200 without NVLink; 25 GB/s and 10 us per ordered pair"},
    {"h200xN-host", "N H200 that copy through the host; all share one bus of 55.1 GB/s, 27 us"},
    {"cpu+h200xN", "eight threads of the host and N H200; about 55 GB/s and 14 us between host and device"},
    {"KINDxA+B", "two hosts with A and B devices (h200x2+2); 50 GB/s and 20 us between them, shared per direction"},
    {"0.1/MACHINE", "any of the others as in version 0.1: transfers take nothing from the devices"},
};

static const struct {
    const char *what, *source;
} sources[] = {
    {"what a transfer takes from the devices: 0.2 us to send, 2.8 us to receive",
     "measured between two halves of an H200; assumed for whole GPUs, hosts and other kinds"},
    {"h200 and host: 55 GB/s, 13 and 14 us", "measured"},
    {"h200: launch, efficiencies", "fitted on measured ops"},
    {"cpu8: all but its memory", "fitted on measured ops"},
    {"other kinds: launch, efficiencies", "assumed: those of h200"},
    {"GPUs: memory, peaks, bandwidth; NVLink: bandwidth", "the vendors'"},
    {"NVLink: 3 us; PCIe; between hosts; memory of cpu8", "assumed"},
};

bool stw_machine_list(int32_t index, const char **name, const char **description) {
    STW_NEED(name);
    if (index < 0) return false;
    for (int32_t k = 0; k < KIND_LINK_COUNT; k++) {
        if (kind_links[k].bandwidth == 0.0 || index-- > 0) continue;
        *name = kind_links[k].family;
        *description = kind_links[k].description;
        return true;
    }
    if (index >= (int32_t)(sizeof special / sizeof special[0])) return false;
    *name = special[index].family;
    *description = special[index].description;
    return true;
}

bool stw_machine_source(int32_t index, const char **what, const char **source) {
    if (index < 0 || index >= (int32_t)(sizeof sources / sizeof sources[0])) return false;
    *what = sources[index].what;
    *source = sources[index].source;
    return true;
}

typedef enum fabric { NVLINK, PCIE, HOST } fabric;

typedef struct machine_layout { /* what a name says */
    const kind_link *kind;
    bool cpu;              /* device 0 is the host's processor */
    int32_t first, second; /* devices of the two hosts; second is 0 without a second host */
    fabric fabric;
    bool charges; /* transfers take time of the devices */
} machine_layout;

static bool take(stw_str *rest, const char *text) {
    if (!stw_str_starts(*rest, text)) return false;
    const int64_t length = (int64_t)strlen(text);
    *rest = (stw_str){rest->p + length, rest->length - length};
    return true;
}

static bool take_count(stw_str *rest, int32_t *out) {
    int32_t count = 0;
    while (rest->length > 0 && rest->p[0] >= '0' && rest->p[0] <= '9' && count <= STW_MAX_DEVICES) {
        if (count == 0 && rest->p[0] == '0') return false; /* one spelling per machine: no leading zeros */
        count = 10 * count + (rest->p[0] - '0');
        *rest = (stw_str){rest->p + 1, rest->length - 1};
    }
    *out = count;
    return count >= 1 && count <= STW_MAX_DEVICES;
}

static bool take_kind(stw_str *rest, const kind_link **out) {
    for (int32_t k = 0; k < KIND_LINK_COUNT; k++) {
        if (kind_links[k].bandwidth == 0.0 || !take(rest, kind_links[k].kind)) continue;
        *out = &kind_links[k];
        return true;
    }
    return false;
}

static bool read_name(stw_str name, machine_layout *out) {
    *out = (machine_layout){.fabric = NVLINK, .charges = !take(&name, "0.1/")};
    out->cpu = take(&name, "cpu+");
    if (!take_kind(&name, &out->kind) || !take(&name, "x") || !take_count(&name, &out->first)) return false;
    const bool h200 = strcmp(out->kind->kind, "h200") == 0;
    if (out->cpu) {
        if (!h200) return false;
    } else if (take(&name, "+")) {
        if (!take_count(&name, &out->second)) return false;
    } else if (h200 && take(&name, "-pcie")) {
        out->fabric = PCIE;
    } else if (h200 && take(&name, "-host")) {
        out->fabric = HOST;
    }
    return name.length == 0 && out->cpu + out->first + out->second <= STW_MAX_DEVICES;
}

static double smaller(double a, double b) { return a < b ? a : b; }

/* The link between two devices and the name of its bus, or NULL. */
static link_speed speed_between(const machine_layout *layout, int32_t from, int32_t to, const char **bus) {
    *bus = NULL;
    if (layout->cpu && from == 0) return host_to_device;
    if (layout->cpu && to == 0) return device_to_host;
    const bool from_second = layout->second > 0 && from >= layout->first;
    const bool to_second = layout->second > 0 && to >= layout->first;
    if (from_second != to_second) {
        *bus = from_second ? "nic1-0" : "nic0-1";
        return nic;
    }
    if (layout->fabric == PCIE) return pcie;
    if (layout->fabric == HOST) { /* two copies, one after the other, written as one link */
        *bus = "host";
        return (link_speed){smaller(device_to_host.bandwidth, host_to_device.bandwidth),
                            device_to_host.latency_us + host_to_device.latency_us};
    }
    return (link_speed){layout->kind->bandwidth, nvlink_latency_us};
}

static stw_status add_devices(stw_machine *machine, const machine_layout *layout, stw_error *error) {
    for (int32_t d = 0; d < machine->device_count; d++) {
        stw_device *device = &machine->device[d];
        const bool cpu = layout->cpu && d == 0;
        (void)stw_device_of_kind(stw_str_of(cpu ? "cpu8" : layout->kind->kind), device);
        device->name = cpu ? STW_STR("cpu") : stw_str_format(&machine->arena, "%s:%d", layout->kind->kind, d - layout->cpu);
        if (device->name.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for the name of a device");
    }
    return STW_OK;
}

static stw_status add_links(stw_machine *machine, const machine_layout *layout, stw_error *error) {
    for (int32_t from = 0; from < machine->device_count; from++) {
        for (int32_t to = 0; to < machine->device_count; to++) {
            if (from == to) continue;
            const char *bus;
            const link_speed speed = speed_between(layout, from, to, &bus);
            stw_link *link = &machine->link[(int64_t)from * machine->device_count + to];
            *link = (stw_link){.bandwidth = speed.bandwidth, .latency_us = speed.latency_us, .bus = -1};
            if (layout->charges) link->send_us = send_us, link->receive_us = receive_us;
            if (bus != NULL) TRY(stw_machine_bus(machine, stw_str_of(bus), &link->bus, error));
        }
    }
    return STW_OK;
}

static stw_status fill(stw_machine *machine, stw_str name, const machine_layout *layout, stw_error *error) {
    machine->name = stw_str_copy(&machine->arena, name);
    if (machine->name.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for the name of a machine");
    TRY(add_devices(machine, layout, error));
    TRY(add_links(machine, layout, error));
    return stw_machine_finish(machine, error);
}

stw_status stw_machine_build(stw_str name, stw_machine **out, stw_error *error) {
    *out = NULL;
    machine_layout layout;
    if (!read_name(name, &layout)) return STW_OK;
    stw_machine *machine;
    TRY(stw_machine_create(layout.cpu + layout.first + layout.second, &machine, error));
    const stw_status status = fill(machine, name, &layout, error);
    if (status != STW_OK) {
        stw_machine_destroy(machine);
        return status;
    }
    *out = machine;
    return STW_OK;
}
