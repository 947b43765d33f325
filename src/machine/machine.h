/* The machine: devices and the links between them, as data (docs/formats/machine.md gives the file format). */
#ifndef STW_MACHINE_MACHINE_H
#define STW_MACHINE_MACHINE_H

#include "base/json.h"
#include "graph/ops.h"

enum { STW_MAX_DEVICES = 64, STW_MAX_RATES = 64 };

typedef struct stw_device {
    stw_str name;
    stw_str kind; /* "h200": equals the keys of measured times in graphs */
    int64_t memory_bytes;
    double launch_us;                         /* an empty kernel */
    double flops_f32, flops_tf32, flops_bf16; /* per second; tf32 and bf16 are 0 where the device has none */
    double bandwidth;                         /* bytes per second of its own memory */
    double efficiency[STW_CLASS_COUNT];       /* share of peak that ops of a class reach; (0, 1] */
    double latency_us[STW_CLASS_COUNT];       /* what they take beside the launch, however little they do */
    bool fuses_epilogue[STW_CLASS_COUNT];
    int32_t cost_class; /* devices with equal cost_class take equal times; numbered from 0 */
} stw_device;

typedef struct stw_rate { /* a transfer of this many bytes has this rate, in bytes per second */
    double bytes, rate;
} stw_rate;

typedef struct stw_link {
    double bandwidth; /* bytes per second, of large transfers where it differs by size; 0: there is no link */
    double latency_us;
    double send_us, receive_us; /* charges: what a transfer takes from the devices at its two ends */
    const stw_rate *rates;      /* (rate_count) by ascending size; NULL: `bandwidth` for all sizes */
    int32_t rate_count;
    int32_t channel; /* what it queues on: its own, or its bus's; numbered from 0 */
    int32_t bus;     /* index of bus_name, or -1 */
} stw_link;

struct stw_machine {
    stw_arena arena;
    stw_str name;
    bool queues;          /* contention: true = queue, false = none */
    int32_t device_count; /* D */
    stw_device *device;   /* (D) */
    stw_link *link;       /* (D, D) from row to column */
    int32_t channel_count;
    int32_t cost_class_count;
    int32_t *class_device; /* (cost_class_count) one device of each class */
    int32_t bus_count;
    stw_str *bus_name;
    bool complete;  /* every ordered pair has a link */
    bool charges;   /* some link charges something */
    bool tabled;    /* some link has a table of rates */
    int32_t host;   /* transfers between other devices are staged through its memory; -1: none is */
    stw_str remark; /* on the file, for the user: keys of links that nobody knows; or empty */
};

static inline const stw_link *stw_machine_link(const stw_machine *machine, int32_t from, int32_t to) {
    return &machine->link[(int64_t)from * machine->device_count + to];
}

/* What a transfer costs beside its bytes: the latency, and its charges at both ends. For estimates; the simulator keeps them
 * apart. */
static inline double stw_link_fixed_us(const stw_link *link) { return link->latency_us + link->send_us + link->receive_us; }

/* What the bytes of a transfer take on a link, by its table of rates if it has one: time is linear between two of its points. The
 * simulator and every estimate ask here. */
double stw_link_tabled_s(const stw_link *link, double bytes);
static inline double stw_link_bytes_s(const stw_link *link, double bytes) {
    return link->rates == NULL ? bytes / link->bandwidth : stw_link_tabled_s(link, bytes);
}
static inline double stw_link_bytes_us(const stw_link *link, double bytes) { return stw_link_bytes_s(link, bytes) * 1e6; }
/* The same of `count` transfers that have so many bytes together: as if each had the same. */
static inline double stw_link_sum_us(const stw_link *link, double bytes, double count) {
    return link->rates == NULL || count <= 0.0 ? stw_link_bytes_us(link, bytes) : count * stw_link_bytes_us(link, bytes / count);
}

/* The device description of a kind that we know ("h200", "cpu8"), for times measured on a kind that the machine lacks; false
 * if unknown. Strings are literals. */
bool stw_device_of_kind(stw_str kind, stw_device *out);

/* How far modelled times of a class are off on devices of a kind, |model / measured - 1| weighted by time (fitted.def). */
double stw_kind_error(stw_str kind, stw_op_class op_class);

/* Reads a machine object at the cursor (a machine file, or the machine within a plan). */
stw_status stw_machine_read(stw_json *json, stw_machine **out, stw_error *error);
/* Writes the machine object. */
void stw_machine_write(const stw_machine *machine, stw_json_writer *writer);
/* Equal in everything that matters to an evaluation (not the name of the machine). */
bool stw_machine_equal(const stw_machine *a, const stw_machine *b);
/* Two links over which everything takes and charges the same; channels are left aside. */
bool stw_link_equal(const stw_link *a, const stw_link *b);

/* Making one: create, fill in devices and links, finish. */
/* `device_count` (1 to STW_MAX_DEVICES) blank devices, no links, contention queue. */
stw_status stw_machine_create(int32_t device_count, stw_machine **out, stw_error *error);
/* The index of the bus of this name, which is added (and the name copied) if it is new. At most one bus per link. */
stw_status stw_machine_bus(stw_machine *machine, stw_str name, int32_t *out, stw_error *error);
/* Derives cost classes, channels and `complete` after devices and links are filled in. */
stw_status stw_machine_finish(stw_machine *machine, stw_error *error);
/* The built-in machine of this name; *out stays NULL if there is none. */
stw_status stw_machine_build(stw_str name, stw_machine **out, stw_error *error);
/* The i-th group of numbers of the built-in machines, and whether it is measured, a vendor's or assumed; false past the last. */
bool stw_machine_source(int32_t index, const char **what, const char **source);

#endif
