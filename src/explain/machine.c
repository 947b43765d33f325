/* Machines that are changed: links of another bandwidth, devices more or less, another amount of memory. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "explain/explain.h"

/* Device `from` of one machine as device `to` of another. */
static stw_status copy_device(const stw_machine *machine, int32_t from, stw_machine *out, int32_t to, stw_error *error) {
    stw_device *device = &out->device[to];
    *device = machine->device[from];
    device->name = stw_str_copy(&out->arena, device->name);
    device->kind = stw_str_copy(&out->arena, device->kind);
    return device->name.p != NULL && device->kind.p != NULL ? STW_OK : stw_fail(error, STW_ERROR_MEMORY, "out of memory");
}

/* The same of a link, which queues on the bus of that name. */
static stw_status copy_link(const stw_machine *machine, const stw_link *link, stw_machine *out, stw_link *to, stw_error *error) {
    stw_rate *rates = NULL;
    *to = *link;
    to->channel = -1;
    if (link->bus >= 0) TRY(stw_machine_bus(out, machine->bus_name[link->bus], &to->bus, error));
    if (link->rates == NULL) return STW_OK;
    STW_TRY_NEW(&out->arena, rates, link->rate_count, error);
    memcpy(rates, link->rates, (size_t)link->rate_count * sizeof *rates);
    to->rates = rates;
    return STW_OK;
}

/* ---- devices ---- */

/* What is added or taken away: the last device that is not the host. */
static int32_t last_device(const stw_machine *machine) {
    const int32_t last = machine->device_count - 1;
    return last == machine->host && last > 0 ? last - 1 : last;
}

/* Between a device and its copy: the fastest link that it has to a device of its kind, else to any but the host. NULL: none. */
static const stw_link *link_to_copy(const stw_machine *machine, int32_t device) {
    const stw_link *best = NULL;
    bool best_alike = false;
    for (int32_t d = 0; d < machine->device_count; d++) {
        const stw_link *link = stw_machine_link(machine, device, d);
        const bool alike = stw_str_equal(machine->device[d].kind, machine->device[device].kind);
        if (d == device || d == machine->host || link->bandwidth <= 0.0) continue;
        if (best != NULL && (best_alike > alike || (best_alike == alike && best->bandwidth >= link->bandwidth))) continue;
        best = link;
        best_alike = alike;
    }
    return best;
}

/* A name that no device has: the number at the end of the other's, counted on. */
static stw_status name_copy(stw_machine *machine, int32_t device, stw_error *error) {
    const stw_str like = machine->device[device].name;
    int64_t digits = 0, number = 1;
    while (digits < like.length && digits < 9 && like.p[like.length - 1 - digits] >= '0' &&
           like.p[like.length - 1 - digits] <= '9')
        digits++;
    if (digits > 0) stw_str_to_int64((stw_str){like.p + like.length - digits, digits}, &number);
    for (;;) {
        const stw_str name = stw_str_format(&machine->arena, "%.*s%" PRId64, (int)(like.length - digits), like.p, ++number);
        int32_t d = 0;
        if (name.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
        while (d < machine->device_count && (d == device || !stw_str_equal(machine->device[d].name, name))) d++;
        if (d < machine->device_count) continue;
        machine->device[device].name = name;
        return STW_OK;
    }
}

/* source[d]: the device of the old machine that device d is, or is a copy of. */
static stw_status fill_machine(const stw_machine *machine, const int32_t *source, stw_machine *out, stw_error *error) {
    const int32_t D = out->device_count;
    out->queues = machine->queues;
    out->name = stw_str_copy(&out->arena, machine->name);
    if (out->name.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    for (int32_t d = 0; d < D; d++) {
        TRY(copy_device(machine, source[d], out, d, error));
        if (source[d] == machine->host) out->host = d;
    }
    for (int32_t from = 0; from < D; from++) {
        for (int32_t to = 0; to < D; to++) {
            const stw_link *link = source[from] != source[to] ? stw_machine_link(machine, source[from], source[to])
                                   : from != to               ? link_to_copy(machine, source[from])
                                                              : NULL;
            if (link != NULL) TRY(copy_link(machine, link, out, &out->link[(int64_t)from * D + to], error));
        }
    }
    return STW_OK;
}

/* source (STW_MAX_DEVICES), and how many devices there will be; 0: `words` say why there is no such machine. */
static int32_t choose_devices(const stw_machine *machine, int32_t count, int32_t *source, stw_arena *arena, stw_str *words) {
    const int32_t D = machine->device_count, last = last_device(machine);
    if (D + count < 1) {
        *words = stw_str_format(arena, "the machine has %d device%s", D, D == 1 ? "" : "s");
        return 0;
    }
    if (D + count > STW_MAX_DEVICES) {
        *words = stw_str_format(arena, "a machine has at most %d devices", STW_MAX_DEVICES);
        return 0;
    }
    if (count > 0 && link_to_copy(machine, last) == NULL) {
        *words = stw_str_format(arena, "%.*s has no link to another device, so that a copy's is not known",
                                STW_STR_SHOW(machine->device[last].name));
        return 0;
    }
    int32_t made = 0, stay = D, host = machine->host;
    for (int32_t d = D - 1, left = -count; d >= 0 && left > 0; d--) { /* the last ones go, but not the host */
        if (d == host) continue;
        stay = d;
        left--;
    }
    for (int32_t d = 0; d < D; d++) {
        if (d < stay || d == host) source[made++] = d;
    }
    for (int32_t k = 0; k < count; k++) source[made++] = last;
    *words = count > 0 ? stw_str_format(arena, "%d more like %.*s", count, STW_STR_SHOW(machine->device[last].name))
                       : stw_str_format(arena, "without %.*s%s", STW_STR_SHOW(machine->device[last].name),
                                        count < -1 ? " and those before it" : "");
    return made;
}

/* ---- the change ---- */

static void scale_links(stw_machine *machine, double factor) {
    const int64_t pairs = (int64_t)machine->device_count * machine->device_count;
    for (int64_t i = 0; i < pairs; i++) {
        stw_link *link = &machine->link[i];
        stw_rate *rates = (stw_rate *)link->rates; /* its own: copy_link has made them */
        link->bandwidth *= factor;
        for (int32_t k = 0; k < link->rate_count; k++) rates[k].rate *= factor;
    }
}

static void scale_memory(stw_machine *machine, double factor) {
    for (int32_t d = 0; d < machine->device_count; d++) {
        const double bytes = (double)machine->device[d].memory_bytes * factor;
        machine->device[d].memory_bytes = bytes < 0x1p62 ? llround(bytes) : INT64_C(1) << 62;
    }
}

static stw_status change(const stw_machine *machine, const stw_change *c, const int32_t *source, stw_machine *out,
                         stw_error *error) {
    TRY(fill_machine(machine, source, out, error));
    for (int32_t k = c->kind == STW_CHANGE_DEVICES ? c->count : 0; k > 0; k--) TRY(name_copy(out, out->device_count - k, error));
    if (c->kind == STW_CHANGE_BANDWIDTH) scale_links(out, c->factor);
    if (c->kind == STW_CHANGE_MEMORY) scale_memory(out, c->factor);
    return stw_machine_finish(out, error);
}

stw_status stw_machine_change(const stw_machine *machine, const stw_change *c, stw_arena *arena, stw_machine **out,
                              int32_t *device_of, stw_str *words, stw_error *error) {
    int32_t source[STW_MAX_DEVICES];
    *out = NULL;
    *words = STW_STR("");
    const int32_t count = choose_devices(machine, c->kind == STW_CHANGE_DEVICES ? c->count : 0, source, arena, words);
    if (count == 0) return STW_OK;
    if (c->kind != STW_CHANGE_DEVICES) *words = STW_STR("");
    TRY(stw_machine_create(count, out, error));
    const stw_status status = change(machine, c, source, *out, error);
    if (status != STW_OK) {
        stw_machine_destroy(*out);
        *out = NULL;
        return status;
    }
    for (int32_t d = 0; d < machine->device_count; d++) device_of[d] = -1;
    for (int32_t d = count - 1; d >= 0; d--) device_of[source[d]] = d; /* the first is the device itself */
    return STW_OK;
}
