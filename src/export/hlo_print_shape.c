/* Prints a ShapeProto: f32[8,<=128]{1,0:T(8,128)S(1)}, (s32[], token[]). Also the helpers that read fields. */
#include <string.h>

#include "export/hlo_print.h"

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
