/* Reads machine files. Keys come in any order and links name devices, so there are two passes: the first checks the head and
 * remembers where `devices` and `links` begin, the second reads them there. */
#include <string.h>

#include "machine/fields.h"
#include "machine/machine.h"

/* ---- Devices --------------------------------------------------------------------------------------------------------------- */

static bool find_class(stw_machine_reader *r, const char *at, const char *key, stw_str name, stw_op_class *out) {
    if (stw_op_class_find(name, out)) return true;
    char list[STW_CLASS_COUNT * 20] = "";
    size_t length = 0;
    for (int32_t c = 0; c < STW_CLASS_COUNT && length < sizeof list; c++) {
        const char *comma = c == 0 ? "" : ", ";
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", comma, stw_op_class_name((stw_op_class)c));
    }
    const int shown = name.length < 40 ? (int)name.length : 40;
    return stw_field_fail(r, at, "%s: no operator class is called '%.*s'; there are %s", key, shown, name.p, list);
}

/* A number by class: {"matmul": 0.5}. Classes that are not named stay as they are. */
static void read_by_class(stw_machine_reader *r, const char *field, stw_range range, double value[STW_CLASS_COUNT]) {
    bool seen[STW_CLASS_COUNT] = {false};
    if (!stw_field_want(r, field, STW_JSON_OBJECT) || !stw_json_object(r->json)) return;
    stw_str key;
    while (stw_json_key(r->json, &key)) {
        stw_op_class op_class;
        if (!find_class(r, NULL, field, key, &op_class)) return;
        char name[40];
        snprintf(name, sizeof name, "%s.%s", field, stw_op_class_name(op_class));
        if (seen[op_class]) {
            stw_field_fail(r, NULL, "\"%s\" is given twice; keep one", name);
            return;
        }
        seen[op_class] = true;
        if (!stw_field_number(r, name, range, &value[op_class])) return;
    }
}

static void read_fuses_epilogue(stw_machine_reader *r, stw_device *device) {
    if (!stw_field_want(r, "fuses_epilogue", STW_JSON_ARRAY) || !stw_json_array(r->json)) return;
    while (stw_json_item(r->json)) {
        stw_str name;
        if (!stw_field_want(r, "a class in fuses_epilogue", STW_JSON_STRING)) return;
        const char *at = r->json->cursor;
        stw_op_class op_class;
        if (!stw_json_string(r->json, &name) || !find_class(r, at, "fuses_epilogue", name, &op_class)) return;
        device->fuses_epilogue[op_class] = true;
    }
}

static void read_flops(stw_machine_reader *r, stw_device *device) {
    static const char *const keys[] = {"f32", "tf32", "bf16"};
    double *const values[] = {&device->flops_f32, &device->flops_tf32, &device->flops_bf16};
    if (!stw_field_want(r, "flops_per_s", STW_JSON_OBJECT)) return;
    const char *at = r->json->cursor;
    uint32_t seen = 0;
    if (!stw_json_object(r->json)) return;
    for (int32_t key; (key = stw_field_next(r, keys, 3, &seen)) >= 0;) {
        char name[20];
        snprintf(name, sizeof name, "flops_per_s.%s", keys[key]);
        stw_field_number(r, name, STW_ABOVE_ZERO, values[key]);
    }
    if (!r->json->failed) stw_field_check(r, at, keys, 1u, seen, "flops_per_s needs at least this peak");
}

static void read_device_name(stw_machine_reader *r, int32_t index) {
    stw_device *device = &r->machine->device[index];
    if (!stw_field_want(r, "name", STW_JSON_STRING)) return;
    const char *at = r->json->cursor;
    if (!stw_field_text(r, "name", false, &device->name)) return;
    for (int32_t d = 0; d < index; d++) {
        if (!stw_str_equal(r->machine->device[d].name, device->name)) continue;
        stw_field_fail(r, at, "the name '%.*s' is already that of devices[%d]; names must differ", STW_STR_SHOW(device->name), d);
        return;
    }
    snprintf(r->subject, sizeof r->subject, "devices[%d] '%.*s'", index, STW_STR_SHOW(device->name));
}

enum { NAME, KIND, MEMORY, LAUNCH, FLOPS, BANDWIDTH, EFFICIENCY, CLASS_LATENCY, FUSES_EPILOGUE, DEVICE_KEY_COUNT };
static const char *const device_keys[DEVICE_KEY_COUNT] = {"name",       "kind",        "memory_bytes",
                                                          "launch_us",  "flops_per_s", "bandwidth_bytes_per_s",
                                                          "efficiency", "latency_us",  "fuses_epilogue"};

/* What the file leaves out, from the kind if we know it. */
static bool complete_device(stw_machine_reader *r, const char *at, stw_device *device, uint32_t seen) {
    if (!stw_field_check(r, at, device_keys, 1u << NAME | 1u << KIND, seen, "every device has one")) return false;
    stw_device known;
    if (!stw_device_of_kind(device->kind, &known)) {
        const uint32_t needed = 1u << MEMORY | 1u << LAUNCH | 1u << FLOPS | 1u << BANDWIDTH | 1u << EFFICIENCY;
        char remedy[160];
        snprintf(remedy, sizeof remedy, "give it, since '%.*s' is not a built-in kind", STW_STR_SHOW(device->kind));
        if (!stw_field_check(r, at, device_keys, needed, seen, remedy)) return false;
        (void)stw_device_of_kind(STW_STR("h200"), &known); /* for its efficiencies */
    }
    if ((seen >> MEMORY & 1) == 0) device->memory_bytes = known.memory_bytes;
    if ((seen >> LAUNCH & 1) == 0) device->launch_us = known.launch_us;
    if ((seen >> BANDWIDTH & 1) == 0) device->bandwidth = known.bandwidth;
    if ((seen >> FLOPS & 1) == 0) {
        device->flops_f32 = known.flops_f32;
        device->flops_tf32 = known.flops_tf32;
        device->flops_bf16 = known.flops_bf16;
    }
    for (int32_t c = 0; c < STW_CLASS_COUNT; c++) {
        if (!(device->efficiency[c] > 0.0)) device->efficiency[c] = known.efficiency[c];
    }
    return true;
}

static bool read_device(stw_machine_reader *r, int32_t index) {
    stw_device *device = &r->machine->device[index];
    snprintf(r->subject, sizeof r->subject, "devices[%d]", index);
    if (!stw_field_want(r, "a device", STW_JSON_OBJECT)) return false;
    const char *at = r->json->cursor;
    uint32_t seen = 0;
    if (!stw_json_object(r->json)) return false;
    for (int32_t key; (key = stw_field_next(r, device_keys, DEVICE_KEY_COUNT, &seen)) >= 0;) {
        switch (key) {
            case NAME: read_device_name(r, index); break;
            case KIND: stw_field_text(r, "kind", false, &device->kind); break;
            case MEMORY:
                stw_field_whole(r, "memory_bytes", 0, INT64_MAX, "give 0 or more whole bytes", &device->memory_bytes);
                break;
            case LAUNCH: stw_field_number(r, "launch_us", STW_ZERO_OR_MORE, &device->launch_us); break;
            case FLOPS: read_flops(r, device); break;
            case BANDWIDTH: stw_field_number(r, "bandwidth_bytes_per_s", STW_ABOVE_ZERO, &device->bandwidth); break;
            case EFFICIENCY: read_by_class(r, "efficiency", STW_SHARE, device->efficiency); break;
            case CLASS_LATENCY: read_by_class(r, "latency_us", STW_ZERO_OR_MORE, device->latency_us); break;
            default: read_fuses_epilogue(r, device); break;
        }
    }
    return !r->json->failed && complete_device(r, at, device, seen);
}

/* ---- Links ----------------------------------------------------------------------------------------------------------------- */

static int32_t read_end(stw_machine_reader *r, const char *key) {
    if (!stw_field_want(r, key, STW_JSON_STRING)) return -1;
    const char *at = r->json->cursor;
    stw_str name;
    if (!stw_json_string(r->json, &name)) return -1;
    for (int32_t d = 0; d < r->machine->device_count; d++) {
        if (stw_str_equal(r->machine->device[d].name, name)) return d;
    }
    stw_field_fail(r, at, "%s: no device is called '%.*s'; use a name from \"devices\"", key, STW_STR_SHOW(name));
    return -1;
}

enum { FROM, TO, LINK_BANDWIDTH, LATENCY, SEND, RECEIVE, BUS, LINK_KEY_COUNT };
static const char *const link_keys[LINK_KEY_COUNT] = {"from",       "to", "bandwidth_bytes_per_s", "latency_us", "send_us",
                                                      "receive_us", "bus"};

/* [bytes, bytes per second]; `before` is the point before it, or NULL. */
static bool read_rate(stw_machine_reader *r, const stw_rate *before, stw_rate *out) {
    static const char *const what[] = {"a size in bandwidth_bytes_per_s", "a rate in bandwidth_bytes_per_s"};
    double *const value[] = {&out->bytes, &out->rate};
    if (!stw_field_want(r, "a point of bandwidth_bytes_per_s", STW_JSON_ARRAY)) return false;
    const char *at = r->json->cursor;
    int32_t count = 0;
    if (!stw_json_array(r->json)) return false;
    for (; stw_json_item(r->json); count++) {
        if (count >= 2) {
            stw_json_skip(r->json, NULL);
        } else if (!stw_field_number(r, what[count], STW_ABOVE_ZERO, value[count])) {
            return false;
        }
    }
    if (r->json->failed) return false;
    if (count != 2) {
        return stw_field_fail(r, at, "a point of bandwidth_bytes_per_s is [bytes, bytes per second]");
    }
    if (before == NULL) return true;
    if (!(out->bytes > before->bytes)) {
        return stw_field_fail(r, at, "bandwidth_bytes_per_s has %.10g bytes behind %.10g; give its sizes in ascending order",
                              out->bytes, before->bytes);
    }
    if (out->bytes / out->rate < before->bytes / before->rate) {
        return stw_field_fail(r, at,
                              "bandwidth_bytes_per_s has %.10g bytes take less time than %.10g; lower its rate, or leave "
                              "the point out",
                              out->bytes, before->bytes);
    }
    return true;
}

/* A number, or a table by size. */
static bool read_bandwidth(stw_machine_reader *r, stw_link *link) {
    const stw_json_type type = stw_json_peek(r->json);
    if (type == STW_JSON_OBJECT || type == STW_JSON_STRING) {
        return stw_field_fail(r, NULL, "bandwidth_bytes_per_s must be a number, or an array of points [bytes, bytes per second]");
    }
    if (type != STW_JSON_ARRAY) {
        return stw_field_number(r, link_keys[LINK_BANDWIDTH], STW_ABOVE_ZERO, &link->bandwidth);
    }
    stw_rate rates[STW_MAX_RATES];
    int32_t count = 0;
    if (!stw_json_array(r->json)) return false;
    while (stw_json_item(r->json)) {
        if (count == STW_MAX_RATES) {
            return stw_field_fail(r, NULL, "bandwidth_bytes_per_s has more than %d points; leave some out", STW_MAX_RATES);
        }
        if (!read_rate(r, count == 0 ? NULL : &rates[count - 1], &rates[count])) return false;
        count++;
    }
    if (r->json->failed) return false;
    if (count == 0) return stw_field_fail(r, NULL, "bandwidth_bytes_per_s is empty; give at least one point");
    stw_rate *copy = STW_NEW(&r->machine->arena, stw_rate, count);
    if (copy == NULL) return stw_json_lacks_memory(r->json, link_keys[LINK_BANDWIDTH]);
    memcpy(copy, rates, (size_t)count * sizeof *copy);
    link->rates = copy;
    link->rate_count = count;
    link->bandwidth = copy[count - 1].rate;
    return true;
}

static void name_link(stw_machine_reader *r, int32_t index, const int32_t end[2]) {
    const stw_str from = r->machine->device[end[FROM]].name, to = r->machine->device[end[TO]].name;
    snprintf(r->subject, sizeof r->subject, "links[%d] '%.*s' -> '%.*s'", index, STW_STR_SHOW(from), STW_STR_SHOW(to));
}

static bool read_link(stw_machine_reader *r, int32_t index, stw_error *error) {
    stw_machine *machine = r->machine;
    snprintf(r->subject, sizeof r->subject, "links[%d]", index);
    if (!stw_field_want(r, "a link", STW_JSON_OBJECT)) return false;
    const char *at = r->json->cursor;
    uint32_t seen = 0;
    int32_t end[2] = {-1, -1};
    stw_str bus = {0};
    stw_link link = {.bus = -1, .channel = -1};
    if (!stw_json_object(r->json)) return false;
    r->warns = true;
    for (int32_t key; (key = stw_field_next(r, link_keys, LINK_KEY_COUNT, &seen)) >= 0;) {
        switch (key) {
            case FROM:
            case TO:
                end[key] = read_end(r, link_keys[key]);
                if (end[FROM] >= 0 && end[TO] >= 0) name_link(r, index, end);
                break;
            case LINK_BANDWIDTH: read_bandwidth(r, &link); break;
            case LATENCY: stw_field_number(r, link_keys[key], STW_ZERO_OR_MORE, &link.latency_us); break;
            case SEND: stw_field_number(r, link_keys[key], STW_ZERO_OR_MORE, &link.send_us); break;
            case RECEIVE: stw_field_number(r, link_keys[key], STW_ZERO_OR_MORE, &link.receive_us); break;
            default: stw_field_text(r, "bus", false, &bus); break;
        }
    }
    r->warns = false;
    if (r->json->failed) return false;
    const uint32_t needed = 1u << FROM | 1u << TO | 1u << LINK_BANDWIDTH | 1u << LATENCY;
    if (!stw_field_check(r, at, link_keys, needed, seen, "every link has one")) return false;
    stw_link *place = &machine->link[(int64_t)end[FROM] * machine->device_count + end[TO]];
    if (end[FROM] == end[TO]) return stw_field_fail(r, at, "a link from a device to itself; remove it");
    if (place->bandwidth > 0.0) return stw_field_fail(r, at, "this link is given twice; keep one");
    if (bus.p != NULL && stw_machine_bus(machine, bus, &link.bus, error) != STW_OK) return false;
    *place = link;
    return true;
}

/* ---- The whole ------------------------------------------------------------------------------------------------------------- */

enum { FORMAT, VERSION, MACHINE_NAME, CONTENTION, HOST, DEVICES, LINKS, MACHINE_KEY_COUNT };
static const char *const machine_keys[MACHINE_KEY_COUNT] = {"format", "version", "name", "contention",
                                                            "host",   "devices", "links"};

typedef struct machine_head {
    uint32_t seen;
    bool queues;
    stw_json section[MACHINE_KEY_COUNT]; /* where name, host, devices and links begin, if they are there */
} machine_head;

static bool read_head(stw_machine_reader *r, machine_head *out) {
    *out = (machine_head){.queues = true};
    snprintf(r->subject, sizeof r->subject, "machine");
    if (!stw_field_want(r, "a machine", STW_JSON_OBJECT)) return false;
    const char *at = r->json->cursor;
    if (!stw_json_object(r->json)) return false;
    for (int32_t key; (key = stw_field_next(r, machine_keys, MACHINE_KEY_COUNT, &out->seen)) >= 0;) {
        bool is_machine;
        int64_t version;
        switch (key) {
            case FORMAT: stw_field_choice(r, "format", "machine", NULL, &is_machine); break;
            case VERSION: stw_field_whole(r, "version", 1, 1, "this program reads version 1", &version); break;
            case CONTENTION: stw_field_choice(r, "contention", "queue", "none", &out->queues); break;
            default:
                out->section[key] = *r->json;
                stw_json_skip(r->json, NULL);
                break;
        }
    }
    if (r->json->failed) return false;
    const uint32_t needed = 1u << FORMAT | 1u << VERSION | 1u << DEVICES;
    return stw_field_check(r, at, machine_keys, needed, out->seen, "every machine file has it");
}

/* Goes to a section and into its array; false if it is not there. */
static bool enter_array(stw_machine_reader *r, const machine_head *head, int32_t key) {
    if ((head->seen >> key & 1) == 0) return false;
    snprintf(r->subject, sizeof r->subject, "machine");
    *r->json = head->section[key];
    return stw_field_want(r, machine_keys[key], STW_JSON_ARRAY) && stw_json_array(r->json);
}

/* Before anything is allocated. */
static bool count_devices(stw_machine_reader *r, const machine_head *head, int32_t *count) {
    *count = 0;
    if (!enter_array(r, head, DEVICES)) return false;
    while (stw_json_item(r->json)) {
        if (++*count > STW_MAX_DEVICES) return stw_field_fail(r, NULL, "more than %d devices; leave some out", STW_MAX_DEVICES);
        stw_json_skip(r->json, NULL);
    }
    return !r->json->failed && (*count > 0 || stw_field_fail(r, NULL, "devices is empty; give at least one"));
}

/* What is staged through the host needs links to it and from it. */
static bool read_host(stw_machine_reader *r, const machine_head *head) {
    stw_machine *machine = r->machine;
    if ((head->seen >> HOST & 1) == 0) return true;
    snprintf(r->subject, sizeof r->subject, "machine");
    *r->json = head->section[HOST];
    const char *at = r->json->cursor;
    machine->host = read_end(r, "host");
    for (int32_t d = 0; machine->host >= 0 && d < machine->device_count; d++) {
        if (d == machine->host || (stw_machine_link(machine, d, machine->host)->bandwidth > 0.0 &&
                                   stw_machine_link(machine, machine->host, d)->bandwidth > 0.0))
            continue;
        return stw_field_fail(r, at, "host '%.*s' needs links to and from '%.*s'",
                              STW_STR_SHOW(machine->device[machine->host].name), STW_STR_SHOW(machine->device[d].name));
    }
    return !r->json->failed;
}

static bool read_sections(stw_machine_reader *r, const machine_head *head, stw_error *error) {
    if ((head->seen >> MACHINE_NAME & 1) != 0) {
        *r->json = head->section[MACHINE_NAME];
        if (!stw_field_text(r, "name", true, &r->machine->name)) return false;
    }
    if (!enter_array(r, head, DEVICES)) return false;
    for (int32_t i = 0; stw_json_item(r->json); i++) {
        if (!read_device(r, i)) return false;
    }
    if (!r->json->failed && enter_array(r, head, LINKS)) {
        for (int32_t i = 0; stw_json_item(r->json); i++) {
            if (!read_link(r, i, error)) return false;
        }
    }
    return !r->json->failed && read_host(r, head);
}

stw_status stw_machine_read(stw_json *json, stw_machine **out, stw_error *error) {
    *out = NULL;
    stw_machine_reader r = {.json = json};
    machine_head head;
    if (!read_head(&r, &head)) return stw_json_status(json);
    const stw_json after = *json;
    int32_t count;
    if (!count_devices(&r, &head, &count)) return stw_json_status(json);
    TRY(stw_machine_create(count, &r.machine, error));
    r.machine->queues = head.queues;
    const bool read = read_sections(&r, &head, error);
    stw_status status = json->failed ? stw_json_status(json) : STW_ERROR_MEMORY;
    if (read) status = stw_machine_finish(r.machine, error);
    if (status != STW_OK) {
        stw_machine_destroy(r.machine);
        return status;
    }
    *json = after;
    *out = r.machine;
    return STW_OK;
}
