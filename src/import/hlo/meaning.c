/* What an HLO instruction means; see meaning.h. */
#include "import/hlo/meaning.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- writing ---- */

static void put(stw_hlo_meaning *w, const char *bytes, int64_t length) {
    w->failed |= STW_GROW(w->arena, w->text, w->length + length, w->room, NULL) != STW_OK;
    if (w->failed || length == 0) return;
    memcpy(w->text + w->length, bytes, (size_t)length);
    w->length += length;
}

static void put_text(stw_hlo_meaning *w, const char *text) { put(w, text, (int64_t)strlen(text)); }

static void put_number(stw_hlo_meaning *w, int64_t number) {
    char text[24];
    put(w, text, snprintf(text, sizeof text, "%" PRId64, number));
}

/* Where the member begins. */
static int64_t put_key(stw_hlo_meaning *w, const char *key) {
    if (w->length > 0) put_text(w, ",");
    const int64_t begun = w->length;
    put_text(w, "\"");
    put_text(w, key);
    put_text(w, "\":");
    return begun;
}

static void end_member(stw_hlo_meaning *w, int64_t begun) {
    if (!w->failed) w->hash += stw_str_hash((stw_str){w->text + begun, w->length - begun});
}

void stw_hlo_mean_number(stw_hlo_meaning *w, const char *key, int64_t number, int64_t usual) {
    if (number == usual) return;
    const int64_t begun = put_key(w, key);
    put_number(w, number);
    end_member(w, begun);
}

void stw_hlo_mean_list(stw_hlo_meaning *w, const char *key, const int64_t *number, int64_t count) {
    if (count == 0) return;
    const int64_t begun = put_key(w, key);
    for (int64_t k = 0; k < count; k++) {
        put_text(w, k == 0 ? "[" : ",");
        put_number(w, number[k]);
    }
    put_text(w, "]");
    end_member(w, begun);
}

/* Words of XLA are plain; whatever else stands in a file becomes '?'. */
void stw_hlo_mean_text(stw_hlo_meaning *w, const char *key, stw_str text) {
    if (text.length == 0) return;
    const int64_t begun = put_key(w, key);
    put_text(w, "\"");
    for (int64_t k = 0; k < text.length; k++) {
        const char c = text.p[k];
        const bool plain = c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
        put(w, plain ? &c : "?", 1);
    }
    put_text(w, "\"");
    end_member(w, begun);
}

stw_status stw_hlo_mean_end(const stw_hlo_meaning *w, stw_hlo_instruction *i, stw_error *error) {
    i->meaning = (stw_str){w->text, w->length};
    i->hash = w->hash;
    return w->failed ? stw_fail(error, STW_ERROR_MEMORY, "out of memory") : STW_OK;
}

/* ---- what is called ---- */

/* The text of select-and-scatter and of asynchronous pairs names its computations in ways of its own. */
static bool has_body(const stw_hlo_instruction *i) {
    return i->called.count > 0 && i->rule != STW_HLO_SELECT_AND_SCATTER && i->rule != STW_HLO_START && i->rule != STW_HLO_SAME;
}

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9fb21c651e98df25u;
    return hash ^ (hash >> 32);
}

static uint64_t hash_called(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    uint64_t hash = 1;
    for (int32_t k = 0; k < i->called.count; k++) hash = mix(hash, m->computation[m->number[i->called.first + k]].hash);
    return hash;
}

/* Numbers of 32 and 64 bits, which both readers read; text shows others that are whole, too. */
static bool is_counting(int16_t dtype) {
    const stw_str name = stw_str_of(dtype >= 0 ? stw_dtype_name(dtype) : "");
    return stw_str_is(name, "s32") || stw_str_is(name, "s64") || stw_str_is(name, "u32") || stw_str_is(name, "u64");
}

static uint64_t hash_instruction(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    const stw_hlo_shape *shape = stw_hlo_shape_of(m, i);
    uint64_t hash = mix(stw_str_hash(i->opcode), i->hash);
    hash = mix(mix(hash, shape->kind), (uint64_t)(int64_t)shape->dtype);
    hash = mix(mix(hash, (uint64_t)(int64_t)shape->rank), (uint64_t)shape->bytes);
    for (int32_t k = 0; shape->kind == STW_HLO_ARRAY && k < shape->rank; k++)
        hash = mix(hash, (uint64_t)stw_hlo_dimensions(m, shape)[k]);
    if (i->rule == STW_HLO_PARAMETER || i->rule == STW_HLO_PART) hash = mix(hash, (uint64_t)i->number);
    if (i->has_value && is_counting(shape->dtype)) hash = mix(hash, (uint64_t)i->value);
    if (i->target.length > 0) hash = mix(hash, stw_str_hash(i->target));
    if (has_body(i)) hash = mix(hash, hash_called(m, i));
    for (int32_t k = 0; k < i->operand.count; k++) hash = mix(hash, stw_hlo_operand(m, i, k)->hash);
    return hash;
}

void stw_hlo_hash_computation(stw_hlo_module *m, stw_hlo_computation *c) {
    uint64_t sum = 0;
    for (int32_t k = c->first; k < c->first + c->count; k++) {
        m->instruction[k].hash = hash_instruction(m, &m->instruction[k]);
        sum += m->instruction[k].hash;
    }
    c->hash = mix(m->instruction[c->root].hash, sum);
}

stw_status stw_hlo_attributes(const stw_hlo_module *m, const stw_hlo_instruction *i, stw_arena *arena, stw_str *out,
                              stw_error *error) {
    const bool is_part = i->rule == STW_HLO_PART;
    *out = (stw_str){0};
    if (i->meaning.length == 0 && !has_body(i) && !is_part) return STW_OK;
    char text[64] = "";
    const char *comma = i->meaning.length > 0 ? "," : "";
    if (is_part) snprintf(text, sizeof text, "%s\"index\":%" PRId64, comma, i->number);
    if (has_body(i)) snprintf(text, sizeof text, "%s\"body\":\"%016" PRIx64 "\"", comma, hash_called(m, i));
    stw_hlo_meaning w = {.arena = arena};
    put_text(&w, "{");
    put(&w, i->meaning.p, i->meaning.length);
    put_text(&w, text);
    put_text(&w, "}");
    *out = (stw_str){w.text, w.length};
    return w.failed ? stw_fail(error, STW_ERROR_MEMORY, "out of memory") : STW_OK;
}
