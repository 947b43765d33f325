/* Prints who takes part: the groups of collectives, and shardings. */
#include "export/hlo_print.h"

/* [2,4]<=[8] or [2,2]<=[2,2]T(1,0): numbers counted up, then reshaped. */
static void print_iota(stw_hlo_printer *p, stw_str message, int64_t reshape, int64_t permutation) {
    const stw_hlo_ints dims = stw_hlo_ints_of(p, message, reshape), order = stw_hlo_ints_of(p, message, permutation);
    bool in_order = true;
    for (int64_t k = 0; k < order.count; k++) in_order &= order.value[k] == k;
    stw_hlo_put(&p->out, "<=[");
    stw_hlo_print_ints(p, &dims, ",");
    stw_hlo_put(&p->out, "]");
    if (in_order) return;
    stw_hlo_put(&p->out, "T(");
    stw_hlo_print_ints(p, &order, ",");
    stw_hlo_put(&p->out, ")");
}

/* {{0,1},{2,3}}: pairs or groups, messages of a repeated field. */
static void print_groups(stw_hlo_printer *p, stw_str message, int64_t field, bool pairs) {
    stw_str group;
    int64_t count = 0;
    stw_hlo_put(&p->out, "{");
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, message, field, &group); count++) {
        const stw_hlo_ints list = stw_hlo_ints_of(p, group, 1);
        stw_hlo_put(&p->out, count > 0 ? ",{" : "{");
        if (pairs) {
            stw_hlo_put_format(&p->out, "%lld,%lld", (long long)stw_hlo_int_of(group, 1), (long long)stw_hlo_int_of(group, 2));
        } else {
            stw_hlo_print_ints(p, &list, ",");
        }
        stw_hlo_put(&p->out, "}");
    }
    stw_hlo_put(&p->out, "}");
}

void stw_hlo_print_collective(stw_hlo_printer *p, const stw_hlo_instruction *i) {
    const stw_str message = i->attributes, list = stw_hlo_content(message, 87), iota = stw_hlo_content(list, 2);
    if (stw_hlo_field(message, 52).length > 0) {
        stw_hlo_print_key(p, "source_target_pairs");
        print_groups(p, message, 52, true);
    }
    if (iota.length > 0) {
        stw_hlo_print_key(p, "replica_groups");
        stw_hlo_put_format(&p->out, "[%lld,%lld]", (long long)stw_hlo_int_of(iota, 1), (long long)stw_hlo_int_of(iota, 2));
        print_iota(p, iota, 3, 4);
    } else if (list.length > 0 || stw_hlo_field(message, 49).length > 0) {
        stw_hlo_print_key(p, "replica_groups");
        print_groups(p, list.length > 0 ? list : message, list.length > 0 ? 1 : 49, false);
    }
}

void stw_hlo_print_sharding(stw_hlo_printer *p, stw_str sharding, int32_t depth) {
    enum { REPLICATED, MAXIMAL, TUPLE, OTHER, MANUAL };
    const int64_t type = stw_hlo_int_of(sharding, 1);
    const stw_hlo_ints dims = stw_hlo_ints_of(p, sharding, 3), devices = stw_hlo_ints_of(p, sharding, 4);
    stw_str part;
    int64_t count = 0;
    stw_hlo_put(&p->out, "{");
    if (type == REPLICATED) stw_hlo_put(&p->out, "replicated");
    if (type == MANUAL) stw_hlo_put(&p->out, "manual");
    if (type == MAXIMAL && devices.count > 0) stw_hlo_put_format(&p->out, "maximal device=%lld", (long long)devices.value[0]);
    for (stw_hlo_each each = {0}; type == TUPLE && depth < STW_HLO_MAX_DEPTH && stw_hlo_next(&each, sharding, 5, &part);
         count++) {
        if (count > 0) stw_hlo_put(&p->out, ", ");
        stw_hlo_print_sharding(p, part, depth + 1);
    }
    if (type == OTHER) {
        stw_hlo_put(&p->out, "devices=[");
        stw_hlo_print_ints(p, &dims, ",");
        stw_hlo_put(&p->out, "]");
        if (devices.count > 0) {
            stw_hlo_print_ints(p, &devices, ",");
        } else {
            print_iota(p, sharding, 9, 10);
        }
        if (stw_hlo_int_of(sharding, 6) != 0) stw_hlo_put(&p->out, " last_tile_dim_replicate");
    }
    stw_hlo_put(&p->out, "}");
}
