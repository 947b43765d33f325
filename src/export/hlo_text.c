/* Writes a module as HLO text: the old text, with the entry's lines in their new order, new fused computations in front of it and
 * names replaced where a fusion has taken the place of what was read. */
#include "export/hlo_text.h"

#include <string.h>

/* ---- pieces of the old text ---- */

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/* Where an instruction ends: behind its attributes or its operands. */
static const char *end_of(const stw_hlo_instruction *i) {
    const char *end = i->attributes.p + i->attributes.length;
    while (i->attributes.length == 0 && is_space(end[-1])) end--;
    return end;
}

/* Where it begins: with the percent sign of its name, if there is one. */
static const char *begin_of(const stw_hlo_instruction *i) { return i->name.p - (i->name.p[-1] == '%'); }

static stw_str between(const char *begin, const char *end) {
    while (begin < end && is_space(*begin)) begin++;
    while (end > begin && is_space(end[-1])) end--;
    return (stw_str){begin, (int64_t)(end - begin)};
}

static stw_str shape_of(const stw_hlo_edit *edit, int32_t instruction) {
    const stw_hlo_instruction *i = stw_hlo_at(edit, instruction);
    const char *equals = memchr(i->name.p + i->name.length, '=', (size_t)(i->opcode.p - i->name.p - i->name.length));
    return between(equals + 1, i->opcode.p);
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
    const char *cursor = i->name.p + i->name.length, *end = end_of(i);
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
        stw_hlo_put_attributes(o, item);
    } else {
        stw_hlo_put_inner_attributes(o, item);
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
    stw_hlo_put(o, fused->is_input ? "), kind=kInput, calls=" : "), kind=kLoop, calls=");
    stw_hlo_put_name(o, fused->name);
    stw_hlo_put_attributes(o, item);
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

/* The white space and comments before an instruction of the entry, without "ROOT". */
static stw_str lead_of(const stw_hlo_edit *edit, int32_t instruction, const char *body) {
    const char *begin = instruction == edit->entry->first ? body : NULL, *end = begin_of(stw_hlo_at(edit, instruction));
    if (begin == NULL) begin = end_of(stw_hlo_at(edit, instruction - 1));
    if (instruction == edit->entry->root) {
        const char *word = end;
        while (word > begin && is_space(word[-1])) word--;
        if (word - begin >= 4 && memcmp(word - 4, "ROOT", 4) == 0) end = word - 4;
    }
    return (stw_str){begin, (int64_t)(end - begin)};
}

static void put_entry(stw_hlo_out *o, const char *body) {
    const stw_hlo_edit *edit = o->edit;
    for (int32_t k = 0; k < edit->entry_count; k++) {
        const stw_hlo_item *item = &edit->item[edit->sequence[k]];
        const bool copies = item->kind == STW_ITEM_COPY;
        if (copies) {
            stw_hlo_put_str(o, lead_of(edit, item->source, body));
        } else {
            stw_hlo_put(o, "\n  ");
        }
        if (edit->sequence[k] == edit->root) stw_hlo_put(o, "ROOT ");
        if (copies) put_copy(o, item, true);
        if (item->kind == STW_ITEM_FUSION) put_fusion(o, item);
        if (item->kind == STW_ITEM_PART) put_new(o, item, NULL);
    }
}

/* ---- the module ---- */

/* Up to the first computation or table, with is_scheduled=true. */
static const char *put_head(stw_hlo_out *o) {
    const stw_hlo_edit *edit = o->edit;
    stw_str whole = {0};
    stw_hlo_text t = {.begin = edit->bytes.p, .cursor = edit->bytes.p, .end = edit->bytes.p + edit->bytes.length};
    stw_hlo_accept(&t, "HloModule");
    stw_hlo_value(&t);
    const char *name_end = t.cursor;
    const stw_str rest = {name_end, (int64_t)(t.end - name_end)};
    const stw_str value = stw_hlo_attribute(rest, "is_scheduled", &whole);
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

static extent extent_of(const stw_hlo_edit *edit, int32_t computation) {
    const stw_hlo_computation *c = &edit->m->computation[computation];
    const stw_hlo_instruction *last = stw_hlo_at(edit, c->first + c->count - 1);
    extent x = {.begin = c->name.p - (c->name.p > edit->bytes.p && c->name.p[-1] == '%')};
    stw_hlo_text t = {.begin = c->name.p, .cursor = c->name.p + c->name.length, .end = edit->bytes.p + edit->bytes.length};
    stw_hlo_skip_shape(&t);
    if (stw_hlo_accept(&t, "->")) stw_hlo_skip_shape(&t);
    stw_hlo_accept(&t, "{");
    x.body = t.cursor;
    t.cursor = end_of(last);
    x.close = t.cursor;
    stw_hlo_accept(&t, "}");
    while (stw_hlo_accept(&t, ",")) { /* execution_thread="..." */
        stw_hlo_word(&t);
        stw_hlo_accept(&t, "=");
        stw_hlo_value(&t);
    }
    x.end = t.cursor;
    if (computation != edit->m->entry) return x;
    const char *word = x.begin;
    while (word > edit->bytes.p && is_space(word[-1])) word--;
    if (word - edit->bytes.p >= 5 && memcmp(word - 5, "ENTRY", 5) == 0) x.begin = word - 5;
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
    const char *cursor = put_head(&o);
    for (int32_t c = 0; c < edit->m->computation_count; c++) {
        const extent x = extent_of(edit, c);
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
        cursor = x.close;
    }
    stw_hlo_put_str(&o, (stw_str){cursor, (int64_t)(end - cursor)});
    return stw_pb_written(&o.w, out, edit->error);
}
