/* Machines: the built-in ones and what lies around them. All devices go by the built-in h200; what differs is how many there are,
 * how they are joined, and sometimes how fast and how large some are. */
#include <math.h>
#include <stdio.h>

#include "pretrain/corpus_parts.h"

typedef enum fabric { NVLINK, PCIE, BUS, ISLANDS } fabric;

typedef struct speed_range { /* bytes/s and microseconds; bandwidth uniform in its logarithm */
    double slowest, fastest;
    double least_us, most_us;
} speed_range;

static const speed_range nvlink = {100e9, 600e9, 2.0, 5.0};
static const speed_range pcie = {8e9, 60e9, 5.0, 15.0};
static const speed_range bus = {8e9, 60e9, 5.0, 30.0};
static const speed_range between = {5e9, 60e9, 8.0, 30.0}; /* of islands, shared per direction */

static const double builtin_share = 0.1, unlike_share = 0.15, tight_share = 0.1;

typedef struct layout {
    fabric fabric;
    int32_t devices, first; /* first: of the first island */
    stw_link inside, outside;
} layout;

static stw_link draw_link(stw_rng *rng, const speed_range *range) {
    const double bandwidth = stw_draw_log_between(rng, range->slowest, range->fastest);
    return (stw_link){.bandwidth = bandwidth, .latency_us = stw_draw_between(rng, range->least_us, range->most_us), .bus = -1};
}

static int32_t draw_devices(stw_rng *rng, double difficulty) {
    static const struct {
        int32_t count, share; /* per cent */
    } devices[] = {{2, 20}, {3, 8}, {4, 26}, {5, 6}, {6, 8}, {8, 18}, {12, 7}, {16, 7}};
    const bool any = stw_rng_uniform(rng) < difficulty;
    int64_t draw = stw_rng_below(rng, 100);
    if (!any) return draw < 50 ? 2 : 4;
    size_t k = 0;
    while (draw >= devices[k].share) draw -= devices[k++].share;
    return devices[k].count;
}

static fabric draw_fabric(stw_rng *rng, double difficulty) {
    const bool any = stw_rng_uniform(rng) < difficulty;
    const int64_t draw = stw_rng_below(rng, 90);
    if (any && draw >= 80) return ISLANDS;
    if (any && draw >= 70) return BUS;
    return draw % 2 == 0 ? NVLINK : PCIE;
}

static layout draw_layout(stw_rng *rng, double difficulty) {
    layout l = {.fabric = draw_fabric(rng, difficulty), .devices = draw_devices(rng, difficulty)};
    if (l.fabric == ISLANDS && l.devices < 3) l.devices = 4;
    l.first = l.devices - l.devices / 2;
    static const speed_range *const inside[] = {[NVLINK] = &nvlink, [PCIE] = &pcie, [BUS] = &bus, [ISLANDS] = &nvlink};
    l.inside = draw_link(rng, inside[l.fabric]);
    l.outside = draw_link(rng, &between);
    return l;
}

static stw_status add_links(stw_machine *machine, const layout *l, stw_error *error) {
    for (int32_t from = 0; from < l->devices; from++) {
        for (int32_t to = 0; to < l->devices; to++) {
            if (from == to) continue;
            stw_link *link = &machine->link[(int64_t)from * l->devices + to];
            const bool across = l->fabric == ISLANDS && (from < l->first) != (to < l->first);
            *link = across ? l->outside : l->inside;
            if (across) TRY(stw_machine_bus(machine, from < to ? STW_STR("forth") : STW_STR("back"), &link->bus, error));
            if (l->fabric == BUS) TRY(stw_machine_bus(machine, STW_STR("bus"), &link->bus, error));
        }
    }
    return STW_OK;
}

static stw_status add_devices(stw_machine *machine, stw_error *error) {
    for (int32_t d = 0; d < machine->device_count; d++) {
        (void)stw_device_of_kind(STW_STR("h200"), &machine->device[d]);
        machine->device[d].name = stw_str_format(&machine->arena, "h200:%d", d);
        if (machine->device[d].name.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for a device");
    }
    return STW_OK;
}

/* Some devices, not all, are slower, and not by the same factor for every class of ops. Their kind has a name of its own: times
 * go by kinds. */
static double slow_down(stw_machine *machine, stw_rng *rng) {
    const double speed = stw_draw_between(rng, 0.4, 1.0);
    stw_device slow = machine->device[0];
    slow.kind = STW_STR("slower");
    slow.flops_f32 *= speed;
    slow.flops_tf32 *= speed;
    slow.flops_bf16 *= speed;
    slow.bandwidth *= speed;
    for (int c = 0; c < STW_CLASS_COUNT; c++) {
        slow.efficiency[c] = fmin(1.0, slow.efficiency[c] * exp(0.15 * stw_rng_normal(rng)));
    }
    int64_t wanted = 1 + stw_rng_below(rng, machine->device_count - 1);
    for (int32_t d = 0; d < machine->device_count; d++) { /* each set of `wanted` devices is as likely as any other */
        if (stw_rng_below(rng, machine->device_count - d) >= wanted) continue;
        wanted--;
        slow.name = machine->device[d].name;
        machine->device[d] = slow;
    }
    return speed;
}

/* Not every plan fits, nearly always one does: some more than a device's share of what one device would need. */
static int64_t draw_memory(stw_rng *rng, stw_need need, int32_t devices) {
    const double share = stw_draw_between(rng, 1.1, 2.0) * (double)need.whole / devices;
    return (int64_t)fmax(share, 1.5 * (double)need.largest);
}

static stw_status fill(stw_machine *machine, const layout *l, double difficulty, stw_need need, stw_rng *rng, stw_error *error) {
    static const char *const name[] = {[NVLINK] = "nvlink", [PCIE] = "pcie", [BUS] = "bus", [ISLANDS] = "islands"};
    char unlike[32] = "", tight[48] = "";
    TRY(add_devices(machine, error));
    TRY(add_links(machine, l, error));
    if (stw_rng_uniform(rng) < unlike_share * difficulty) {
        snprintf(unlike, sizeof unlike, ", some at %.2f", slow_down(machine, rng));
    }
    if (stw_rng_uniform(rng) < tight_share * difficulty) {
        const int64_t bytes = draw_memory(rng, need, l->devices);
        TRY(stw_machine_set_memory(machine, bytes, error));
        snprintf(tight, sizeof tight, ", %.3g GB each", (double)bytes * 1e-9);
    }
    machine->name = stw_str_format(&machine->arena, "%s x%d %.0f GB/s %.0f us%s%s", name[l->fabric], l->devices,
                                   l->inside.bandwidth * 1e-9, l->inside.latency_us, unlike, tight);
    if (machine->name.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for the name of a machine");
    return stw_machine_finish(machine, error);
}

stw_status stw_draw_machine(stw_rng rng, double difficulty, stw_need need, stw_machine **out, stw_error *error) {
    *out = NULL;
    const bool builtin = stw_rng_uniform(&rng) < builtin_share;
    const layout l = draw_layout(&rng, difficulty);
    if (builtin && l.fabric <= PCIE) {
        char name[32]; /* of version 0.1: what the shipped policy has seen, so that it can be made again */
        snprintf(name, sizeof name, "0.1/h200x%d%s", l.devices, l.fabric == PCIE ? "-pcie" : "");
        return stw_machine_build(stw_str_of(name), out, error);
    }
    stw_machine *machine;
    TRY(stw_machine_create(l.devices, &machine, error));
    const stw_status status = fill(machine, &l, difficulty, need, &rng, error);
    if (status != STW_OK) {
        stw_machine_destroy(machine);
        return status;
    }
    *out = machine;
    return STW_OK;
}

stw_status stw_draw_charges(stw_rng rng, stw_machine *machine, stw_error *error) {
    const double send_us = stw_draw_log_between(&rng, 0.05, 2.0), receive_us = stw_draw_log_between(&rng, 0.3, 8.0);
    for (int32_t k = 0; k < machine->device_count * machine->device_count; k++) {
        if (k % (machine->device_count + 1) == 0) continue; /* from a device to itself */
        machine->link[k].send_us = send_us;
        machine->link[k].receive_us = receive_us;
    }
    return stw_machine_finish(machine, error);
}
