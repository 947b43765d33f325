/* Devices that may be exchanged: the same plan with the two swapped takes the same step. */
#include "method/exact.h"

typedef struct {
    const stw_machine *machine;
    int32_t a, b; /* to be swapped */
} swap;

static int32_t swapped(const swap *s, int32_t d) { return d == s->a ? s->b : d == s->b ? s->a : d; }

static const stw_link *swapped_link(const swap *s, int32_t from, int32_t to) {
    return stw_machine_link(s->machine, swapped(s, from), swapped(s, to));
}

static bool links_are_alike(const swap *s, int32_t from, int32_t to) {
    const stw_link *own = stw_machine_link(s->machine, from, to), *other = swapped_link(s, from, to);
    return own->bandwidth == other->bandwidth && own->latency_us == other->latency_us;
}

/* Two links share a channel exactly if the swapped ones do. Only links of a and b move, so only pairs with one of them count. */
static bool channels_are_alike(const swap *s, int32_t from, int32_t to) {
    const int32_t D = s->machine->device_count;
    const stw_link *own = stw_machine_link(s->machine, from, to), *other = swapped_link(s, from, to);
    for (int32_t p = 0; p < D; p++) {
        for (int32_t q = 0; q < D; q++) {
            if (p == q || stw_machine_link(s->machine, p, q)->bandwidth <= 0.0) continue;
            const bool shared = own->channel == stw_machine_link(s->machine, p, q)->channel;
            if (shared != (other->channel == swapped_link(s, p, q)->channel)) return false;
            /* Copies of one value that wait for one channel go by the number of their device, which no plan can change. */
            if (shared && p == from && q != to && (to < q) != (swapped(s, to) < swapped(s, q))) return false;
        }
    }
    return true;
}

static bool may_swap(const stw_machine *machine, int32_t a, int32_t b) {
    const swap s = {machine, a, b};
    const int32_t D = machine->device_count;
    const bool shared = machine->queues && machine->bus_count > 0; /* else every link has a channel of its own */
    if (machine->device[a].cost_class != machine->device[b].cost_class) return false;
    if (machine->device[a].memory_bytes != machine->device[b].memory_bytes) return false;
    for (int32_t k = 0; k < 4 * D; k++) { /* links from and to a and b */
        const int32_t own = k & 1 ? a : b, other = k / 4, from = k & 2 ? own : other, to = k & 2 ? other : own;
        if (from == to) continue;
        if (!links_are_alike(&s, from, to)) return false;
        if (stw_machine_link(machine, from, to)->bandwidth <= 0.0 || !shared) continue;
        if (!channels_are_alike(&s, from, to)) return false;
    }
    return true;
}

void stw_exact_find_alike(const stw_machine *machine, int32_t alike[STW_MAX_DEVICES]) {
    for (int32_t d = 0; d < machine->device_count; d++) {
        alike[d] = d;
        for (int32_t first = 0; first < d && alike[d] == d; first++) {
            if (alike[first] == first && may_swap(machine, first, d)) alike[d] = first;
        }
    }
}
