/* Devices and priorities into a GraphDef in bytes. All other bytes are copied as they are, in their order; the device takes the
 * place of the old one, or stands before the attributes. */
#include <math.h>
#include <string.h>

#include "export/tensorflow/planned_graphdef.h"
#include "import/wire/pbwire.h"

enum { GRAPH_NODE = 1, NODE_DEVICE = 4, NODE_ATTR = 5, ENTRY_KEY = 1 };
enum { DEVICE_TAG = NODE_DEVICE << 3 | STW_PB_BYTES, ATTR_TAG = NODE_ATTR << 3 | STW_PB_BYTES };

typedef struct sink { /* counts, and writes where there is a file */
    FILE *file;
    uint64_t length;
} sink;

static void put(sink *s, const void *bytes, int64_t length) {
    s->length += (uint64_t)length;
    if (s->file != NULL && length > 0) fwrite(bytes, 1, (size_t)length, s->file);
}

static void put_varint(sink *s, uint64_t value) {
    char text[10];
    int length = 0;
    for (; value >= 0x80; value >>= 7) text[length++] = (char)(0x80 | (value & 0x7f));
    text[length++] = (char)value;
    put(s, text, length);
}

static void put_device(sink *s, stw_str device) {
    const char tag = DEVICE_TAG;
    put(s, &tag, 1);
    put_varint(s, (uint64_t)device.length);
    put(s, device.p, device.length);
}

/* attr { key: "_stowage_priority" value { f: 1.5 } } */
static void put_priority(sink *s, float priority) {
    const int64_t key = (int64_t)sizeof STW_TF_PRIORITY - 1;
    uint32_t bits;
    memcpy(&bits, &priority, sizeof bits);
    const char value[] = {
        0x12, 5, 0x25, (char)(bits & 0xff), (char)(bits >> 8 & 0xff), (char)(bits >> 16 & 0xff), (char)(bits >> 24)};
    const char entry[] = {ATTR_TAG, (char)(2 + key + (int64_t)sizeof value), 0x0a, (char)key};
    put(s, entry, sizeof entry);
    put(s, STW_TF_PRIORITY, key);
    put(s, value, sizeof value);
}

static bool is_priority(stw_pb *node, const stw_pb_field *attribute) {
    stw_pb entry;
    if (attribute->number != NODE_ATTR || !stw_pb_enter(node, attribute, &entry)) return false;
    bool is = false;
    for (stw_pb_field f; stw_pb_next(&entry, &f);) {
        if (f.number == ENTRY_KEY && f.type == STW_PB_BYTES) is = stw_str_is(f.bytes, STW_TF_PRIORITY);
    }
    return is;
}

static bool has_device(stw_pb node) {
    for (stw_pb_field f; stw_pb_next(&node, &f);) {
        if (f.number == NODE_DEVICE) return true;
    }
    return false;
}

/* The content of a node. */
static void put_node(sink *s, stw_pb node, const stw_tf_given *given) {
    bool device_due = given->device.length > 0, priority_due = !isnan(given->priority);
    const bool present = has_device(node); /* fields may come in any order */
    for (stw_pb_field f; stw_pb_next(&node, &f);) {
        if (f.number == NODE_DEVICE && given->device.length > 0) {
            if (device_due) put_device(s, given->device);
            device_due = false;
            continue;
        }
        if (is_priority(&node, &f)) {
            if (priority_due) put_priority(s, given->priority);
            priority_due = false;
            continue;
        }
        if (f.number > NODE_DEVICE && device_due && !present) {
            put_device(s, given->device);
            device_due = false;
        }
        put(s, f.at, node.cursor - f.at);
    }
    if (device_due) put_device(s, given->device);
    if (priority_due) put_priority(s, given->priority);
}

static int64_t tag_length(const char *at) {
    int64_t length = 1;
    while ((unsigned char)at[length - 1] >= 0x80) length++;
    return length;
}

stw_status stw_tf_put_bytes(stw_str bytes, const stw_tf_given *given, FILE *out, stw_error *error) {
    stw_pb_file file = stw_pb_open(bytes, error);
    stw_pb graph = stw_pb_message(&file), node;
    sink s = {.file = out};
    for (stw_pb_field f; stw_pb_next(&graph, &f);) {
        if (f.number != GRAPH_NODE || !stw_pb_enter(&graph, &f, &node)) {
            put(&s, f.at, graph.cursor - f.at);
            continue;
        }
        sink count = {.file = NULL};
        put_node(&count, node, given);
        put(&s, f.at, tag_length(f.at));
        put_varint(&s, count.length);
        put_node(&s, node, given++);
    }
    return stw_pb_close(&file);
}
