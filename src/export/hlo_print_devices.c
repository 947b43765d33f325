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
        const stw_hlo_ints list = stw_hlo_ints_of(p, group, HLO_GROUP_MEMBER);
        stw_hlo_put(&p->out, count > 0 ? ",{" : "{");
        if (pairs) {
            const int64_t from = stw_hlo_int_of(group, HLO_PAIR_SOURCE), to = stw_hlo_int_of(group, HLO_PAIR_TARGET);
            stw_hlo_put_format(&p->out, "%lld,%lld", (long long)from, (long long)to);
        } else {
            stw_hlo_print_ints(p, &list, ",");
        }
        stw_hlo_put(&p->out, "}");
    }
    stw_hlo_put(&p->out, "}");
}

/* "[2,4]<=[8]": groups and members of each. */
static void print_iota_groups(stw_hlo_printer *p, stw_str iota) {
    const int64_t groups = stw_hlo_int_of(iota, HLO_IOTA_GROUPS), members = stw_hlo_int_of(iota, HLO_IOTA_MEMBERS);
    stw_hlo_put_format(&p->out, "[%lld,%lld]", (long long)groups, (long long)members);
    print_iota(p, iota, HLO_IOTA_RESHAPE, HLO_IOTA_PERMUTATION);
}

/* Groups stand in the instruction itself or, from newer versions, in a message of their own. */
void stw_hlo_print_collective(stw_hlo_printer *p, const stw_hlo_instruction *i) {
    const stw_str message = i->attributes, list = stw_hlo_content(message, HLO_DEVICE_LIST);
    const stw_str iota = stw_hlo_content(list, HLO_DEVICES_IOTA);
    if (stw_hlo_field(message, HLO_SOURCE_TARGET_PAIRS).length > 0) {
        stw_hlo_print_key(p, "source_target_pairs");
        print_groups(p, message, HLO_SOURCE_TARGET_PAIRS, true);
    }
    if (iota.length > 0) {
        stw_hlo_print_key(p, "replica_groups");
        print_iota_groups(p, iota);
    } else if (list.length > 0) {
        stw_hlo_print_key(p, "replica_groups");
        print_groups(p, list, HLO_DEVICES_GROUP, false);
    } else if (stw_hlo_field(message, HLO_REPLICA_GROUPS).length > 0) {
        stw_hlo_print_key(p, "replica_groups");
        print_groups(p, message, HLO_REPLICA_GROUPS, false);
    }
}

/* devices=[2,1]0,1 */
static void print_tiles(stw_hlo_printer *p, stw_str sharding, const stw_hlo_ints *devices) {
    const stw_hlo_ints dims = stw_hlo_ints_of(p, sharding, HLO_SHARDING_DIMENSIONS);
    stw_hlo_put(&p->out, "devices=[");
    stw_hlo_print_ints(p, &dims, ",");
    stw_hlo_put(&p->out, "]");
    if (devices->count > 0) {
        stw_hlo_print_ints(p, devices, ",");
    } else {
        print_iota(p, sharding, HLO_SHARDING_RESHAPE, HLO_SHARDING_PERMUTATION);
    }
    if (stw_hlo_int_of(sharding, HLO_SHARDING_LAST_REPLICATED) != 0) stw_hlo_put(&p->out, " last_tile_dim_replicate");
}

static void print_parts(stw_hlo_printer *p, stw_str sharding, int32_t depth) {
    stw_str part;
    int64_t count = 0;
    for (stw_hlo_each each = {0}; depth < STW_HLO_MAX_DEPTH && stw_hlo_next(&each, sharding, HLO_SHARDING_PARTS, &part);
         count++) {
        if (count > 0) stw_hlo_put(&p->out, ", ");
        stw_hlo_print_sharding(p, part, depth + 1);
    }
}

void stw_hlo_print_sharding(stw_hlo_printer *p, stw_str sharding, int32_t depth) {
    const stw_hlo_ints devices = stw_hlo_ints_of(p, sharding, HLO_SHARDING_DEVICES);
    stw_hlo_put(&p->out, "{");
    switch (stw_hlo_int_of(sharding, HLO_SHARDING_TYPE)) {
        case HLO_SHARDING_REPLICATED: stw_hlo_put(&p->out, "replicated"); break;
        case HLO_SHARDING_MANUAL: stw_hlo_put(&p->out, "manual"); break;
        case HLO_SHARDING_TUPLE: print_parts(p, sharding, depth); break;
        case HLO_SHARDING_OTHER: print_tiles(p, sharding, &devices); break;
        case HLO_SHARDING_MAXIMAL:
            if (devices.count > 0) stw_hlo_put_format(&p->out, "maximal device=%lld", (long long)devices.value[0]);
            break;
        default: break;
    }
    stw_hlo_put(&p->out, "}");
}
