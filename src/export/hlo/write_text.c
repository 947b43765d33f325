/* Writes a module as HLO text. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "export/hlo/write_text.h"

/* ---- attributes ---- */

/* The key=value pairs behind an instruction in HLO text: finding them, and writing them anew. */

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

/* What stands behind the operands of an item of the entry. */
static void put_attributes(stw_hlo_out *o, const stw_hlo_item *item) {
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
static void put_inner_attributes(stw_hlo_out *o, const stw_hlo_item *item) {
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

/* ---- the module ---- */

/* Writes a module as HLO text: the old text, with the entry's lines in their new order, new fused computations in front of it and
 * names replaced where a fusion has taken the place of what was read. */

/* ---- pieces of the old text ---- */

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/* Behind the bracket that closes the operands. */
static const char *end_of_operands(const stw_hlo_edit *edit, const stw_hlo_instruction *i) {
    stw_hlo_text t = {.begin = i->opcode.p, .cursor = i->opcode.p + i->opcode.length, .end = edit->bytes.p + edit->bytes.length};
    if (i->rule == STW_HLO_CONSTANT) {
        stw_hlo_value(&t);
        return t.cursor;
    }
    stw_hlo_accept(&t, "(");
    if (i->rule == STW_HLO_PARAMETER) stw_hlo_word(&t);
    for (int32_t k = 0; k < i->operand.count; k++) {
        stw_hlo_skip_shape(&t);
        stw_hlo_word(&t);
        stw_hlo_accept(&t, ",");
    }
    stw_hlo_accept(&t, ")");
    return t.cursor;
}

/* Where an instruction ends: behind its attributes or its operands. Comments that follow are no part of it. */
static const char *end_of(const stw_hlo_edit *edit, const stw_hlo_instruction *i) {
    return i->attributes.length > 0 ? i->attributes.p + i->attributes.length : end_of_operands(edit, i);
}

/* Behind the comments that follow an instruction in its line: these are its own. A line that goes on with more has none. */
static const char *end_of_line(const stw_hlo_edit *edit, const stw_hlo_instruction *i) {
    const char *begin = end_of(edit, i), *end = edit->bytes.p + edit->bytes.length, *cursor = begin;
    for (bool any = false; end - cursor >= 2; any = true) {
        while (cursor < end && *cursor != '\n' && is_space(*cursor)) cursor++;
        if (cursor == end || *cursor == '\n') return any ? cursor : begin;
        const bool is_line = end - cursor >= 2 && memcmp(cursor, "//", 2) == 0;
        const bool is_block = end - cursor >= 2 && memcmp(cursor, "/*", 2) == 0;
        if (!is_line && !is_block) return begin;
        cursor += 2;
        while (cursor < end && *cursor != '\n' && (is_line || end - cursor < 2 || memcmp(cursor, "*/", 2) != 0)) cursor++;
        if (is_line) return cursor;
        if (cursor == end || *cursor == '\n') return begin; /* the comment goes on in the next line */
        cursor += 2;
    }
    return begin;
}

/* Where it begins: with the percent sign of its name, if there is one. */
static const char *begin_of(const stw_hlo_instruction *i) { return i->name.p - (i->name.p[-1] == '%'); }

static stw_str shape_of(const stw_hlo_edit *edit, int32_t instruction) {
    const stw_hlo_instruction *i = stw_hlo_at(edit, instruction);
    stw_hlo_text t = {.begin = i->name.p, .cursor = i->name.p + i->name.length, .end = i->opcode.p, .module = edit->m};
    stw_hlo_shape ignored;
    stw_hlo_accept(&t, "=");
    stw_hlo_skip_space(&t);
    const char *begin = t.cursor;
    if (stw_hlo_read_shape(&t, 0, &ignored) != STW_OK) t.cursor = t.end; /* it was read before */
    return (stw_str){begin, (int64_t)(t.cursor - begin)};
}

/* ---- instructions ---- */

static void put_operands(stw_hlo_out *o, const stw_hlo_item *item) {
    for (int32_t k = 0; k < item->operand.count; k++) {
        if (k > 0) stw_hlo_put(o, ", ");
        stw_hlo_put_name(o, o->edit->item[stw_hlo_number(o->edit, item->operand, k)].name);
    }
}

/* The old text of an instruction, with other names. */
static void put_copy(stw_hlo_out *o, const stw_hlo_item *item, bool is_entry) {
    const stw_hlo_edit *edit = o->edit;
    const stw_hlo_instruction *i = stw_hlo_at(edit, item->source);
    const char *cursor = i->name.p + i->name.length, *end = end_of(edit, i);
    stw_hlo_put_name(o, item->name);
    stw_hlo_text t = {.begin = i->opcode.p, .cursor = i->opcode.p + i->opcode.length, .end = end};
    stw_hlo_accept(&t, "(");
    for (int32_t k = 0; k < item->operand.count; k++) {
        stw_hlo_skip_shape(&t);
        const stw_str old = stw_hlo_word(&t), name = edit->item[stw_hlo_number(edit, item->operand, k)].name;
        stw_hlo_put_str(o, (stw_str){cursor, (int64_t)(old.p - cursor)});
        stw_hlo_put_str(o, name);
        cursor = old.p + old.length;
        stw_hlo_accept(&t, ",");
    }
    const char *behind = i->attributes.length > 0 ? i->attributes.p : end;
    stw_hlo_put_str(o, (stw_str){cursor, (int64_t)(behind - cursor)});
    if (is_entry) {
        put_attributes(o, item);
    } else {
        put_inner_attributes(o, item);
    }
}

static void put_tuple_shape(stw_hlo_out *o, const stw_hlo_fused *fused) {
    const stw_hlo_output *output = &o->edit->output[fused->output_first];
    if (fused->output_count > 1) stw_hlo_put(o, "(");
    for (int32_t k = 0; k < fused->output_count; k++) {
        if (k > 0) stw_hlo_put(o, ", ");
        stw_hlo_put_str(o, shape_of(o->edit, output[k].value));
    }
    if (fused->output_count > 1) stw_hlo_put(o, ")");
}

static void put_fusion(stw_hlo_out *o, const stw_hlo_item *item) {
    const stw_hlo_fused *fused = &o->edit->fused[item->group];
    stw_hlo_put_name(o, item->name);
    stw_hlo_put(o, " = ");
    put_tuple_shape(o, fused);
    stw_hlo_put(o, " fusion(");
    put_operands(o, item);
    stw_hlo_put(o, "), kind=");
    stw_hlo_put_str(o, stw_hlo_kind_of(fused));
    stw_hlo_put(o, ", calls=");
    stw_hlo_put_name(o, fused->name);
    if (fused->config.length > 0) stw_hlo_put(o, ", backend_config=");
    stw_hlo_put_str(o, fused->config);
    put_attributes(o, item);
}

static void put_new(stw_hlo_out *o, const stw_hlo_item *item, const stw_hlo_fused *fused) {
    stw_hlo_put_name(o, item->name);
    stw_hlo_put(o, " = ");
    if (item->kind == STW_ITEM_TUPLE) {
        put_tuple_shape(o, fused);
        stw_hlo_put(o, " tuple(");
        put_operands(o, item);
        stw_hlo_put(o, ")");
        return;
    }
    stw_hlo_put_str(o, shape_of(o->edit, item->source));
    if (item->kind == STW_ITEM_PARAMETER) {
        stw_hlo_put_format(o, " parameter(%d)", item->number);
        return;
    }
    stw_hlo_put(o, " get-tuple-element(");
    put_operands(o, item);
    stw_hlo_put_format(o, "), index=%d", item->number);
}

/* ---- computations ---- */

static void put_fused_item(stw_hlo_out *o, const stw_hlo_fused *fused, int32_t item) {
    stw_hlo_put(o, item == fused->root ? "  ROOT " : "  ");
    if (o->edit->item[item].kind == STW_ITEM_COPY) {
        put_copy(o, &o->edit->item[item], false);
    } else {
        put_new(o, &o->edit->item[item], fused);
    }
    stw_hlo_put(o, "\n");
}

static void put_fused(stw_hlo_out *o, const stw_hlo_fused *fused) {
    const stw_hlo_edit *edit = o->edit;
    stw_hlo_put_name(o, fused->name);
    stw_hlo_put(o, " (");
    for (int32_t k = 0; k < fused->parameter.count; k++) {
        const stw_hlo_item *parameter = &edit->item[stw_hlo_number(edit, fused->parameter, k)];
        if (k > 0) stw_hlo_put(o, ", ");
        stw_hlo_put_str(o, parameter->name);
        stw_hlo_put(o, ": ");
        stw_hlo_put_str(o, shape_of(edit, parameter->source));
    }
    stw_hlo_put(o, ") -> ");
    put_tuple_shape(o, fused);
    stw_hlo_put(o, " {\n");
    for (int32_t k = 0; k < fused->count; k++) put_fused_item(o, fused, fused->first + k);
    for (int32_t k = 0; k < fused->tail_count; k++) put_fused_item(o, fused, fused->tail_first + k);
    stw_hlo_put(o, "}\n\n");
}

/* Before old text behind what may be new: a value would run on into whatever follows it directly. */
static void keep_apart(stw_hlo_out *o, const char *next) {
    if (!is_space(*next) && *next != '}') stw_hlo_put(o, "\n  ");
}

static void put_comments_behind(stw_hlo_out *o, int32_t instruction) {
    const stw_hlo_instruction *i = stw_hlo_at(o->edit, instruction);
    const char *begin = end_of(o->edit, i), *end = end_of_line(o->edit, i);
    if (begin < end && !is_space(*begin)) stw_hlo_put(o, " ");
    stw_hlo_put_str(o, (stw_str){begin, (int64_t)(end - begin)});
}

/* The white space and comments before an instruction of the entry, without "ROOT". */
static void put_lead(stw_hlo_out *o, int32_t instruction, const char *body) {
    const stw_hlo_edit *edit = o->edit;
    const stw_hlo_instruction *i = stw_hlo_at(edit, instruction);
    const char *end = begin_of(i);
    const char *begin = instruction == edit->entry->first ? body : end_of_line(edit, stw_hlo_at(edit, instruction - 1));
    stw_hlo_text t = {.begin = begin, .cursor = begin, .end = end};
    stw_hlo_skip_space(&t);
    const char *root = t.cursor;
    stw_hlo_word(&t);
    keep_apart(o, begin);
    stw_hlo_put_str(o, (stw_str){begin, (int64_t)(root - begin)});
    while (t.cursor < end && is_space(*t.cursor)) t.cursor++;
    stw_hlo_put_str(o, (stw_str){t.cursor, (int64_t)(end - t.cursor)});
}

static void put_entry(stw_hlo_out *o, const char *body) {
    const stw_hlo_edit *edit = o->edit;
    for (int32_t k = 0; k < edit->entry_count; k++) {
        const stw_hlo_item *item = &edit->item[edit->sequence[k]];
        const bool copies = item->kind == STW_ITEM_COPY;
        if (copies) {
            put_lead(o, item->source, body);
        } else {
            stw_hlo_put(o, "\n  ");
        }
        if (edit->sequence[k] == edit->root) stw_hlo_put(o, "ROOT ");
        if (copies) put_copy(o, item, true);
        if (copies) put_comments_behind(o, item->source);
        if (item->kind == STW_ITEM_FUSION) put_fusion(o, item);
        if (item->kind == STW_ITEM_PART) put_new(o, item, NULL);
    }
}

/* ---- the module ---- */

static const char *skip_attributes(stw_hlo_text *t) {
    const char *end = t->cursor;
    while (stw_hlo_accept(t, ",")) { /* execution_thread="..." */
        stw_hlo_word(t);
        stw_hlo_accept(t, "=");
        stw_hlo_value(t);
        end = t->cursor;
    }
    return end;
}

/* Up to the first computation or table, with is_scheduled=true. */
static const char *put_head(stw_hlo_out *o, stw_hlo_text *t) {
    const stw_hlo_edit *edit = o->edit;
    stw_hlo_accept(t, "HloModule");
    stw_hlo_value(t);
    const char *name_end = t->cursor;
    skip_attributes(t);
    const stw_str rest = {name_end, (int64_t)(t->cursor - name_end)};
    const stw_str value = stw_hlo_attribute(rest, "is_scheduled", NULL);
    stw_hlo_put_str(o, (stw_str){edit->bytes.p, (int64_t)(name_end - edit->bytes.p)});
    if (value.length == 0) {
        stw_hlo_put(o, ", is_scheduled=true");
        return name_end;
    }
    stw_hlo_put_str(o, (stw_str){name_end, (int64_t)(value.p - name_end)});
    stw_hlo_put(o, "true");
    return value.p + value.length;
}

/* A computation's text: from its name, or the word ENTRY in front of it, to behind its closing brace. */
typedef struct extent {
    const char *begin, *body, *close, *end; /* body: behind the opening brace */
} extent;

/* Moves to a computation, past tables of source lines: to its name or the word ENTRY. */
static const char *find_begin(stw_hlo_text *t, const stw_hlo_computation *c) {
    while (t->cursor < t->end) {
        stw_hlo_skip_space(t);
        const char *begin = t->cursor;
        const stw_str word = stw_hlo_word(t);
        if (word.p == c->name.p) return begin;
        if (stw_str_is(word, "ENTRY")) {
            stw_hlo_word(t);
            return begin;
        }
        for (stw_hlo_skip_space(t); t->cursor < t->end && *t->cursor >= '0' && *t->cursor <= '9'; stw_hlo_skip_space(t)) {
            while (t->cursor < t->end && *t->cursor != '\n') t->cursor++;
        }
    }
    return t->end; /* never: the reader has found it */
}

/* `t` stands behind the head or the computation before. */
static extent next_extent(const stw_hlo_edit *edit, int32_t computation, stw_hlo_text *t) {
    const stw_hlo_computation *c = &edit->m->computation[computation];
    extent x = {.begin = find_begin(t, c)};
    stw_hlo_skip_shape(t);
    if (stw_hlo_accept(t, "->")) stw_hlo_skip_shape(t);
    stw_hlo_accept(t, "{");
    x.body = t->cursor;
    t->cursor = x.close = end_of_line(edit, stw_hlo_at(edit, c->first + c->count - 1));
    stw_hlo_accept(t, "}");
    x.end = skip_attributes(t);
    return x;
}

static const char *skip_blank(const char *cursor, const char *end) {
    while (cursor < end && is_space(*cursor)) cursor++;
    return cursor;
}

stw_status stw_hlo_write_text(stw_hlo_edit *edit, stw_str *out) {
    const char *end = edit->bytes.p + edit->bytes.length;
    stw_hlo_out o = {.edit = edit, .w = {.arena = edit->arena}};
    o.percent = stw_hlo_at(edit, edit->entry->first)->name.p[-1] == '%';
    stw_hlo_text t = {.begin = edit->bytes.p, .cursor = edit->bytes.p, .end = end};
    const char *cursor = put_head(&o, &t);
    for (int32_t c = 0; c < edit->m->computation_count; c++) {
        const extent x = next_extent(edit, c, &t);
        if (edit->dropped[c]) {
            stw_hlo_put_str(&o, (stw_str){cursor, (int64_t)(x.begin - cursor)});
            cursor = skip_blank(x.end, end);
            continue;
        }
        if (c != edit->m->entry) continue;
        stw_hlo_put_str(&o, (stw_str){cursor, (int64_t)(x.begin - cursor)});
        for (int32_t g = 0; g < edit->fused_count; g++) put_fused(&o, &edit->fused[g]);
        stw_hlo_put_str(&o, (stw_str){x.begin, (int64_t)(x.body - x.begin)});
        put_entry(&o, x.body);
        keep_apart(&o, x.close);
        cursor = x.close;
    }
    stw_hlo_put_str(&o, (stw_str){cursor, (int64_t)(end - cursor)});
    return stw_pb_written(&o.w, out, edit->error);
}
