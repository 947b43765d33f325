/* The key=value pairs behind an instruction in HLO text: finding them, and writing them anew. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "export/hlo_text.h"

/* ---- output ---- */

void stw_hlo_put_str(stw_hlo_out *o, stw_str text) { stw_pb_write_raw(&o->w, text); }
void stw_hlo_put(stw_hlo_out *o, const char *text) { stw_hlo_put_str(o, stw_str_of(text)); }

void stw_hlo_put_format(stw_hlo_out *o, const char *format, ...) {
    char text[120];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    stw_hlo_put(o, text);
}

void stw_hlo_put_name(stw_hlo_out *o, stw_str name) {
    if (o->percent) stw_hlo_put(o, "%");
    stw_hlo_put_str(o, name);
}

/* As in C: XLA reads it back so. */
void stw_hlo_put_quoted(stw_hlo_out *o, stw_str text) {
    stw_hlo_put(o, "\"");
    for (int64_t k = 0; k < text.length; k++) {
        const unsigned char c = (unsigned char)text.p[k];
        if (c == '"' || c == '\\' || c == '\'') {
            stw_hlo_put_format(o, "\\%c", c);
        } else if (c == '\n') {
            stw_hlo_put(o, "\\n");
        } else if (c < 0x20 || c == 0x7f) {
            stw_hlo_put_format(o, "\\%03o", c);
        } else {
            stw_hlo_put_str(o, (stw_str){&text.p[k], 1});
        }
    }
    stw_hlo_put(o, "\"");
}

/* ---- finding ---- */

static bool next_attribute(stw_hlo_text *t, stw_str *key, stw_str *value, stw_str *whole) {
    stw_hlo_skip_space(t);
    const char *start = t->cursor;
    if (!stw_hlo_accept(t, ",")) return false;
    *key = stw_hlo_word(t);
    if (!stw_hlo_accept(t, "=")) return false;
    *value = stw_hlo_value(t);
    *whole = (stw_str){start, (int64_t)(t->cursor - start)};
    return true;
}

stw_str stw_hlo_attribute(stw_str attributes, const char *key, stw_str *whole) {
    stw_hlo_text t = stw_hlo_text_of(attributes);
    stw_str found, value, all;
    while (next_attribute(&t, &found, &value, &all)) {
        if (!stw_str_is(found, key)) continue;
        if (whole != NULL) *whole = all;
        return value;
    }
    return (stw_str){0};
}

/* ---- writing ---- */

/* Has an export put an entry of frontend_attributes there? */
static bool is_ours(stw_str entry) {
    stw_str value;
    return stw_hlo_entry_note(entry, &value) < STW_HLO_NOTES;
}

static bool has_ours(stw_str frontend) {
    bool found = false;
    stw_str rest = stw_hlo_between_braces(frontend), entry;
    while (!found && stw_hlo_next_entry(&rest, &entry)) found = is_ours(entry);
    return found;
}

static bool is_blank(stw_str text) {
    stw_hlo_text t = stw_hlo_text_of(text);
    stw_hlo_skip_space(&t);
    return t.cursor == t.end;
}

/* {a="1",b="2"}: all but what an earlier export has put there, and the new notes. Nothing if nothing is left. */
static void put_frontend(stw_hlo_out *o, stw_str value, const stw_hlo_note *note) {
    bool any = false;
    stw_str rest = stw_hlo_between_braces(value), entry;
    while (stw_hlo_next_entry(&rest, &entry)) {
        if (is_blank(entry) || is_ours(entry)) continue;
        stw_hlo_put(o, any ? "," : ", frontend_attributes={");
        stw_hlo_put_str(o, entry);
        any = true;
    }
    for (int k = 0; k < STW_HLO_NOTES; k++) {
        if (note->value[k].length == 0) continue;
        stw_hlo_put(o, any ? "," : ", frontend_attributes={");
        stw_hlo_put(o, stw_hlo_note_keys[k]);
        stw_hlo_put(o, "=");
        stw_hlo_put_quoted(o, note->value[k]);
        any = true;
    }
    if (any) stw_hlo_put(o, "}");
}

static void put_controls(stw_hlo_out *o, const stw_hlo_item *item) {
    for (int32_t k = 0; k < item->control.count; k++) {
        stw_hlo_put(o, k == 0 ? ", control-predecessors={" : ", ");
        stw_hlo_put_name(o, o->edit->item[stw_hlo_number(o->edit, item->control, k)].name);
    }
    if (item->control.count > 0) stw_hlo_put(o, "}");
}

static bool has_new_controls(const stw_hlo_edit *edit, const stw_hlo_item *item) {
    const stw_hlo_instruction *i = stw_hlo_at(edit, item->source);
    bool same = i->control.count == item->control.count;
    for (int32_t k = 0; same && k < item->control.count; k++) {
        const stw_hlo_item *before = &edit->item[stw_hlo_number(edit, item->control, k)];
        same = before->kind == STW_ITEM_COPY && before->source == stw_hlo_number(edit, i->control, k);
    }
    return !same;
}

static bool is_array(const stw_hlo_out *o, const stw_hlo_item *item) {
    if (item->kind == STW_ITEM_FUSION && o->edit->fused[item->group].output_count > 1) return false;
    return stw_hlo_shape_of(o->edit->m, stw_hlo_at(o->edit, item->source))->kind == STW_HLO_ARRAY;
}

void stw_hlo_put_attributes(stw_hlo_out *o, const stw_hlo_item *item) {
    const stw_str attributes = stw_hlo_at(o->edit, item->source)->attributes;
    const stw_str frontend = stw_hlo_attribute(attributes, "frontend_attributes", NULL);
    const bool was_ours = has_ours(frontend);
    const bool new_controls = has_new_controls(o->edit, item);
    const bool is_new = item->kind != STW_ITEM_COPY; /* of a fusion's source only the origin is kept */
    const stw_hlo_mark *mark = &o->edit->mark[item - o->edit->item];
    const bool is_marked = stw_hlo_is_marked(mark);
    bool has_sharding = false;
    stw_str key, value, whole;
    for (stw_hlo_text t = stw_hlo_text_of(attributes); next_attribute(&t, &key, &value, &whole);) {
        if (is_new && !stw_str_is(key, "metadata")) continue;
        if (stw_str_is(key, "control-predecessors") && new_controls) continue;
        if (stw_str_is(key, "frontend_attributes") && (was_ours || is_marked)) continue;
        const bool is_sharding = stw_str_is(key, "sharding");
        if (is_sharding && was_ours && stw_hlo_find_after(value, "maximal").p != NULL) continue;
        has_sharding |= is_sharding;
        stw_hlo_put_str(o, whole);
    }
    if (is_new || new_controls) put_controls(o, item);
    if (is_marked || (was_ours && !is_new)) put_frontend(o, is_new ? (stw_str){0} : frontend, &mark->note);
    if (mark->device >= 0 && !has_sharding && is_array(o, item))
        stw_hlo_put_format(o, ", sharding={maximal device=%d}", mark->device);
}

/* Without the device of an earlier export: the fusion has one. */
void stw_hlo_put_inner_attributes(stw_hlo_out *o, const stw_hlo_item *item) {
    const stw_str attributes = stw_hlo_at(o->edit, item->source)->attributes;
    const stw_str frontend = stw_hlo_attribute(attributes, "frontend_attributes", NULL);
    const bool was_ours = has_ours(frontend);
    stw_str key, value, whole;
    for (stw_hlo_text t = stw_hlo_text_of(attributes); next_attribute(&t, &key, &value, &whole);) {
        if (stw_str_is(key, "control-predecessors")) continue;
        if (was_ours && stw_str_is(key, "frontend_attributes")) continue;
        if (was_ours && stw_str_is(key, "sharding") && stw_hlo_find_after(value, "maximal").p != NULL) continue;
        stw_hlo_put_str(o, whole);
    }
    if (was_ours) put_frontend(o, frontend, &(stw_hlo_note){0});
}
