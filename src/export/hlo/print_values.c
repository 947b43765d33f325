/* Prints shapes, constants, and who takes part in a collective or a sharding. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "export/hlo/print.h"

/* ---- shapes, and how fields are read ---- */

/* Prints a ShapeProto: f32[8,<=128]{1,0:T(8,128)S(1)}, (s32[], token[]). Also the helpers that read fields. */

bool stw_hlo_next(stw_hlo_each *each, stw_str message, int64_t field, stw_str *out) {
    if (!each->begun) {
        each->file = stw_pb_open(message, &each->ignored);
        each->fields = stw_pb_message(&each->file);
        each->begun = true;
    }
    for (stw_pb_field f; stw_pb_next(&each->fields, &f);) {
        if (f.number != field || f.type != STW_PB_BYTES) continue;
        *out = f.bytes;
        return true;
    }
    return false;
}

stw_hlo_ints stw_hlo_ints_of(stw_hlo_printer *p, stw_str message, int64_t field) {
    stw_vector list = {.arena = p->arena};
    stw_error ignored = {0};
    stw_pb_file file = stw_pb_open(message, &ignored);
    stw_pb fields = stw_pb_message(&file);
    for (stw_pb_field f; stw_pb_next(&fields, &f);) {
        /* What is malformed is printed as far as it can be read; but nothing may be left out for want of memory. */
        if (f.number == field && !stw_pb_ints(&fields, &f, &list))
            p->out.w.failed |= strstr(ignored.message, "out of memory") != NULL;
    }
    return (stw_hlo_ints){p, list.data, list.count};
}

void stw_hlo_print_ints(stw_hlo_printer *p, const stw_hlo_ints *list, const char *separator) {
    for (int64_t k = 0; k < list->count; k++) {
        stw_hlo_put_format(&p->out, "%s%lld", k > 0 ? separator : "", (long long)list->value[k]);
    }
}

void stw_hlo_print_path(stw_hlo_printer *p, stw_str message, int64_t field) {
    const stw_hlo_ints path = stw_hlo_ints_of(p, message, field);
    stw_hlo_put(&p->out, "{");
    stw_hlo_print_ints(p, &path, ", ");
    stw_hlo_put(&p->out, "}");
}

void stw_hlo_print_key(stw_hlo_printer *p, const char *key) {
    stw_hlo_put(&p->out, ", ");
    stw_hlo_put(&p->out, key);
    stw_hlo_put(&p->out, "=");
}

/* {1,0:T(8,128)L(4)E(4)S(1)} */
static void print_layout(stw_hlo_printer *p, stw_str layout, int64_t rank) {
    const stw_hlo_ints order = stw_hlo_ints_of(p, layout, HLO_LAYOUT_MINOR_TO_MAJOR);
    stw_str tile;
    const int64_t bits = stw_hlo_int_of(layout, HLO_LAYOUT_ELEMENT_BITS), space = stw_hlo_int_of(layout, HLO_LAYOUT_MEMORY_SPACE);
    const int64_t tail = stw_hlo_int_of(layout, HLO_LAYOUT_TAIL_PADDING);
    const bool tiled = stw_hlo_field(layout, HLO_LAYOUT_TILES).length > 0;
    const bool more = tiled || bits > 0 || space > 0 || tail > 1;
    if (rank == 0 && !more) return;
    if (order.count != rank) return;
    stw_hlo_put(&p->out, "{");
    stw_hlo_print_ints(p, &order, ",");
    if (more) stw_hlo_put(&p->out, ":");
    if (tiled) stw_hlo_put(&p->out, "T");
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, layout, HLO_LAYOUT_TILES, &tile);) {
        const stw_hlo_ints size = stw_hlo_ints_of(p, tile, HLO_TILE_DIMENSIONS);
        stw_hlo_put(&p->out, "(");
        stw_hlo_print_ints(p, &size, ",");
        stw_hlo_put(&p->out, ")");
    }
    if (tail > 1) stw_hlo_put_format(&p->out, "L(%lld)", (long long)tail);
    if (bits > 0) stw_hlo_put_format(&p->out, "E(%lld)", (long long)bits);
    if (space > 0) stw_hlo_put_format(&p->out, "S(%lld)", (long long)space);
    stw_hlo_put(&p->out, "}");
}

static const char *type_name(int64_t type) {
    static const char *const name[] = {
        "invalid", "pred",   "s8",       "s16", "s32",   "s64",           "u8",         "u16",        "u32",
        "u64",     "f16",    "f32",      "f64", "tuple", "opaque",        "c64",        "bf16",       "token",
        "c128",    "f8e5m2", "f8e4m3fn", "s4",  "u4",    "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "s2",
        "u2",      "f8e4m3", "f8e3m4",   "s1",  "u1",    "f4e2m1fn",      "f8e8m0fnu"};
    const int64_t count = (int64_t)(sizeof name / sizeof name[0]);
    return name[type >= 0 && type < count ? type : 0];
}

static void print_array(stw_hlo_printer *p, stw_str shape, const char *type, bool with_layout) {
    const stw_hlo_ints size = stw_hlo_ints_of(p, shape, HLO_SHAPE_DIMENSIONS);
    const stw_hlo_ints dynamic = stw_hlo_ints_of(p, shape, HLO_SHAPE_IS_DYNAMIC);
    stw_hlo_put(&p->out, type);
    stw_hlo_put(&p->out, "[");
    for (int64_t k = 0; k < size.count; k++) {
        if (k > 0) stw_hlo_put(&p->out, ",");
        if (k < dynamic.count && dynamic.value[k] != 0 && size.value[k] >= 0) stw_hlo_put(&p->out, "<=");
        if (size.value[k] < 0) {
            stw_hlo_put(&p->out, "?");
        } else {
            stw_hlo_put_format(&p->out, "%lld", (long long)size.value[k]);
        }
    }
    stw_hlo_put(&p->out, "]");
    if (with_layout) print_layout(p, stw_hlo_content(shape, HLO_SHAPE_LAYOUT), size.count);
}

void stw_hlo_print_shape(stw_hlo_printer *p, stw_str shape, bool with_layout, int32_t depth) {
    const int64_t type = stw_hlo_int_of(shape, HLO_SHAPE_TYPE);
    if (type == HLO_TYPE_OPAQUE || type == HLO_TYPE_TOKEN) {
        stw_hlo_put(&p->out, type == HLO_TYPE_TOKEN ? "token[]" : "opaque[]");
    } else if (type != HLO_TYPE_TUPLE) {
        print_array(p, shape, type_name(type), with_layout);
    } else {
        int64_t count = 0;
        stw_str part;
        stw_hlo_put(&p->out, "(");
        for (stw_hlo_each each = {0}; depth < STW_HLO_MAX_DEPTH && stw_hlo_next(&each, shape, HLO_SHAPE_PARTS, &part); count++) {
            if (count > 0) stw_hlo_put(&p->out, ", ");
            if (count > 0 && count % 5 == 0) stw_hlo_put_format(&p->out, "/*index=%lld*/", (long long)count);
            stw_hlo_print_shape(p, part, with_layout, depth + 1);
        }
        stw_hlo_put(&p->out, ")");
    }
}

/* ---- constants ---- */

/* Prints a LiteralProto as the contents of a constant: 0.5, {1, 2}, { {1, 2}, {3, 4} }. Large ones, and types that have no
 * decimal numbers here, are elided as XLA elides them: {...}. */

enum { MOST_ELEMENTS = 1024 };

typedef enum {
    BOOLS,
    SIGNED,
    UNSIGNED,
    FLOATS,
    HALVES,
    BRAINS,
    BYTES,
    UNSIGNED_BYTES,
    SHORTS,
    UNSIGNED_SHORTS,
    DOUBLES
} encoding;

/* Where the numbers of a type stand in LiteralProto. */
static const struct {
    int32_t type, field;
    encoding encoding;
} places[] = {{1, 2, BOOLS},          {2, 15, BYTES},           {3, 17, SHORTS},  {4, 4, SIGNED},   {5, 5, SIGNED},
              {6, 3, UNSIGNED_BYTES}, {7, 16, UNSIGNED_SHORTS}, {8, 6, UNSIGNED}, {9, 7, UNSIGNED}, {10, 11, HALVES},
              {11, 8, FLOATS},        {12, 9, DOUBLES},         {16, 13, BRAINS}};

typedef struct literal {
    encoding encoding;
    stw_hlo_ints ints;  /* of varints */
    stw_str raw;        /* of everything else: little-endian */
    stw_hlo_ints size;  /* of each dimension */
    int64_t stride[16]; /* of each dimension, in elements */
    int64_t elements;
} literal;

static double half_of(uint32_t bits) {
    const int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    const double magnitude = exponent == 31  ? (fraction != 0 ? (double)NAN : (double)INFINITY)
                             : exponent == 0 ? ldexp(fraction, -24)
                                             : ldexp(fraction + 1024, exponent - 25);
    return bits >> 15 != 0 ? -magnitude : magnitude;
}

static double float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static uint64_t raw_bits(const literal *l, int64_t k, int64_t bytes) {
    uint64_t bits = 0;
    for (int64_t b = 0; b < bytes; b++) bits |= (uint64_t)(unsigned char)l->raw.p[k * bytes + b] << (8 * b);
    return bits;
}

static void print_real(stw_hlo_printer *p, double value, int digits) {
    if (isnan(value)) {
        stw_hlo_put(&p->out, "nan");
    } else if (isinf(value)) {
        stw_hlo_put(&p->out, value > 0 ? "inf" : "-inf");
    } else {
        stw_hlo_put_format(&p->out, "%.*g", digits, value);
    }
}

static void print_element(stw_hlo_printer *p, const literal *l, int64_t k) {
    double value = 0.0;
    switch (l->encoding) {
        case BOOLS: stw_hlo_put(&p->out, l->ints.value[k] != 0 ? "true" : "false"); break;
        case SIGNED: stw_hlo_put_format(&p->out, "%lld", (long long)l->ints.value[k]); break;
        case UNSIGNED: stw_hlo_put_format(&p->out, "%llu", (unsigned long long)l->ints.value[k]); break;
        case BYTES: stw_hlo_put_format(&p->out, "%d", (int)(int8_t)raw_bits(l, k, 1)); break;
        case UNSIGNED_BYTES: stw_hlo_put_format(&p->out, "%d", (int)raw_bits(l, k, 1)); break;
        case SHORTS: stw_hlo_put_format(&p->out, "%d", (int)(int16_t)raw_bits(l, k, 2)); break;
        case UNSIGNED_SHORTS: stw_hlo_put_format(&p->out, "%d", (int)raw_bits(l, k, 2)); break;
        case HALVES: print_real(p, half_of((uint32_t)raw_bits(l, k, 2)), 5); break;
        case BRAINS: print_real(p, float_of((uint32_t)raw_bits(l, k, 2) << 16), 4); break;
        case FLOATS: print_real(p, float_of((uint32_t)raw_bits(l, k, 4)), 9); break;
        default: {
            const uint64_t bits = raw_bits(l, k, 8);
            memcpy(&value, &bits, sizeof value);
            print_real(p, value, 17);
        }
    }
}

static void print_level(stw_hlo_printer *p, const literal *l, int64_t dimension, int64_t offset) {
    if (dimension == l->size.count) {
        print_element(p, l, offset);
        return;
    }
    const bool inner = dimension + 1 < l->size.count;
    stw_hlo_put(&p->out, inner ? "{ " : "{");
    for (int64_t k = 0; k < l->size.value[dimension]; k++) {
        if (k > 0) stw_hlo_put(&p->out, ", ");
        print_level(p, l, dimension + 1, offset + k * l->stride[dimension]);
    }
    stw_hlo_put(&p->out, inner ? " }" : "}");
}

/* The data stand in the order of the literal's own layout. False: elide it. */
static bool find_strides(stw_hlo_printer *p, stw_str shape, literal *l) {
    const stw_hlo_ints order = stw_hlo_ints_of(p, stw_hlo_content(shape, HLO_SHAPE_LAYOUT), HLO_LAYOUT_MINOR_TO_MAJOR);
    l->size = stw_hlo_ints_of(p, shape, HLO_SHAPE_DIMENSIONS);
    l->elements = 1;
    if (l->size.count > 16) return false;
    bool seen[16] = {false}; /* each dimension stands once */
    for (int64_t k = 0; k < l->size.count; k++) {
        const int64_t dimension = order.count == l->size.count ? order.value[k] : l->size.count - 1 - k;
        if (dimension < 0 || dimension >= l->size.count || l->size.value[dimension] <= 0) return false;
        if (seen[dimension]) return false;
        seen[dimension] = true;
        l->stride[dimension] = l->elements;
        if (l->size.value[dimension] > MOST_ELEMENTS / l->elements) return false;
        l->elements *= l->size.value[dimension];
    }
    return true;
}

static bool find_data(stw_hlo_printer *p, stw_str message, literal *l) {
    static const int64_t bytes[] = {[HALVES] = 2, [BRAINS] = 2,          [BYTES] = 1,  [UNSIGNED_BYTES] = 1,
                                    [SHORTS] = 2, [UNSIGNED_SHORTS] = 2, [FLOATS] = 4, [DOUBLES] = 8};
    const int64_t type = stw_hlo_int_of(stw_hlo_content(message, HLO_LITERAL_SHAPE), HLO_SHAPE_TYPE);
    for (size_t k = 0; k < sizeof places / sizeof places[0]; k++) {
        if (places[k].type != type) continue;
        l->encoding = places[k].encoding;
        if (l->encoding == BOOLS || l->encoding == SIGNED || l->encoding == UNSIGNED) {
            l->ints = stw_hlo_ints_of(p, message, places[k].field);
            return l->ints.count >= l->elements;
        }
        l->raw = stw_hlo_content(message, places[k].field); /* packed */
        return l->raw.length >= l->elements * bytes[l->encoding];
    }
    return false;
}

void stw_hlo_print_literal(stw_hlo_printer *p, stw_str message) {
    literal l = {0};
    if (!find_strides(p, stw_hlo_content(message, HLO_LITERAL_SHAPE), &l) || !find_data(p, message, &l)) {
        stw_hlo_put(&p->out, "{...}");
        return;
    }
    print_level(p, &l, 0, 0);
}

/* ---- who takes part ---- */

/* Prints who takes part: the groups of collectives, and shardings. */

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
