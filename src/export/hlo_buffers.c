/* Ops that overwrite what they read: dynamic-update-slice, scatter, loops and their like, and whatever makes an output that is
 * written over a parameter. Other readers of that buffer that stand before such an op in the module stay before it.
 *
 * Only readers that do so now are held back, so the waits never contradict each other or the data. */
#include "export/hlo.h"
#include "export/hlo_fields.h"

typedef struct reader_link {
    int32_t instruction, next; /* next: -1 ends the list */
} reader_link;

typedef struct buffers {
    stw_hlo_edit *edit;
    stw_hlo_waits *waits;
    int32_t *first;    /* (entry->count) readers of an instruction's value so far, as links; -1: none */
    int32_t *mark;     /* (entry->count) the last reader that has taken a tuple apart, + 1 */
    int32_t *readers;  /* (entry->count) the same of aliased parameters, with all their readers */
    bool *is_fixed;    /* (entry->count) nobody overwrites it */
    bool *is_writing;  /* (computation_count) */
    reader_link *link; /* (link_count) */
    int32_t link_count, link_room;
} buffers;

static stw_status add_wait(buffers *b, int32_t before, int32_t after) {
    stw_hlo_waits *w = b->waits;
    if (before < 0 || after < 0 || before == after) return STW_OK;
    STW_HLO_RESERVE(b->edit->arena, w->pair, w->count, w->room, b->edit->error);
    w->pair[w->count++] = (stw_hlo_wait){before, after};
    return STW_OK;
}

/* A recomputed reader reads in every group that it is computed in. */
static stw_status let_wait(buffers *b, int32_t reader, int32_t writer) {
    const stw_hlo_edit *edit = b->edit;
    const int32_t after = stw_hlo_doer_of(edit, writer);
    if (!stw_hlo_is_recomputed(edit, reader)) return add_wait(b, stw_hlo_doer_of(edit, reader), after);
    const int32_t node = edit->op_node[stw_hlo_local(edit, reader)];
    for (int32_t k = edit->tasks.computer_start[node]; k < edit->tasks.computer_start[node + 1]; k++) {
        const int32_t group = edit->fused_of[edit->tasks.computer[k]];
        if (group >= 0) TRY(add_wait(b, edit->fused[group].item, after));
    }
    return STW_OK;
}

static stw_status add_reader(buffers *b, int32_t *list, int32_t instruction) {
    STW_HLO_RESERVE(b->edit->arena, b->link, b->link_count, b->link_room, b->edit->error);
    b->link[b->link_count] = (reader_link){instruction, *list};
    *list = b->link_count++;
    return STW_OK;
}

/* A value read by an instruction, and overwritten by it perhaps. After a writer it alone stands for all readers before it. */
static stw_status read_value(buffers *b, int32_t value, int32_t reader, bool writes) {
    int32_t *list = &b->first[stw_hlo_local(b->edit, value)];
    if (b->is_fixed[stw_hlo_local(b->edit, value)]) return STW_OK;
    for (int32_t k = *list; writes && k >= 0; k = b->link[k].next) TRY(let_wait(b, b->link[k].instruction, reader));
    if (writes) *list = -1;
    TRY(add_reader(b, list, reader));
    return stw_hlo_at(b->edit, value)->rule == STW_HLO_PARAMETER
               ? add_reader(b, &b->readers[stw_hlo_local(b->edit, value)], reader)
               : STW_OK;
}

static stw_status read_all(buffers *b, int64_t value, int32_t reader, bool writes, int32_t depth) {
    const int32_t root = stw_hlo_root_of(b->edit, value);
    const stw_hlo_instruction *i = stw_hlo_at(b->edit, root);
    if (i->rule != STW_HLO_TUPLE) return read_value(b, root, reader, writes);
    int32_t *mark = &b->mark[stw_hlo_local(b->edit, root)];
    if (*mark == reader + 1 || depth > STW_HLO_MAX_DEPTH) return STW_OK;
    *mark = reader + 1;
    for (int32_t k = 0; k < i->operand.count; k++) {
        TRY(read_all(b, stw_hlo_number(b->edit, i->operand, k), reader, writes, depth + 1));
    }
    return STW_OK;
}

/* ---- who overwrites ---- */

static bool calls_writer(const buffers *b, const stw_hlo_instruction *i) {
    bool writes = false;
    for (int32_t k = 0; k < i->called.count; k++) writes |= b->is_writing[stw_hlo_number(b->edit, i->called, k)];
    return writes;
}

static bool call_overwrites(const buffers *b, const stw_hlo_instruction *i) {
    return (b->edit->is_text ? stw_hlo_attribute(i->attributes, "output_to_operand_aliasing", NULL)
                             : stw_hlo_field(i->attributes, HLO_OUTPUT_ALIASING))
               .length > 0;
}

/* How many of its operands, from the first, an instruction writes over. */
static int32_t count_overwritten(const buffers *b, const stw_hlo_instruction *i) {
    const int32_t all = i->operand.count;
    switch ((stw_hlo_rule)i->rule) {
        case STW_HLO_UPDATE: return 1;
        case STW_HLO_SCATTER: return all / 2;
        case STW_HLO_WHILE: return all;
        case STW_HLO_CALL:
        case STW_HLO_CONDITIONAL:
        case STW_HLO_FUSION: return calls_writer(b, i) ? all : 0;
        case STW_HLO_START: return calls_writer(b, i) || all >= 4 ? all : 0; /* buffers to write to */
        case STW_HLO_CUSTOM: return call_overwrites(b, i) ? all : 0;
        default: return 0;
    }
}

/* Computations that write into what they are given, (computation_count). Callees come first. */
static stw_status find_writing(buffers *b) {
    const stw_hlo_edit *edit = b->edit;
    STW_TRY_NEW(edit->arena, b->is_writing, edit->m->computation_count, edit->error);
    for (int32_t c = 0; c < edit->m->computation_count; c++) {
        const stw_hlo_computation *at = &edit->m->computation[c];
        for (int32_t k = at->first; k < at->first + at->count && !b->is_writing[c]; k++) {
            b->is_writing[c] = count_overwritten(b, stw_hlo_at(edit, k)) > 0;
        }
    }
    return STW_OK;
}

/* Entry parameters are overwritten only where the module says so, constants never. */
static stw_status find_fixed(buffers *b) {
    const stw_hlo_edit *edit = b->edit;
    STW_TRY_NEW(edit->arena, b->is_fixed, edit->entry->count, edit->error);
    for (int32_t k = 0; k < edit->entry->count; k++) {
        const uint8_t rule = stw_hlo_at(edit, edit->entry->first + k)->rule;
        b->is_fixed[k] = rule == STW_HLO_PARAMETER || rule == STW_HLO_CONSTANT;
    }
    for (int32_t k = 0; k < edit->m->alias_count; k++) {
        const int64_t number = edit->m->alias[k].parameter;
        if (number < 0 || number >= edit->entry->parameter.count) continue;
        const int64_t parameter = stw_hlo_number(edit, edit->entry->parameter, (int32_t)number);
        if (parameter >= 0) b->is_fixed[stw_hlo_local(edit, parameter)] = false;
    }
    return STW_OK;
}

/* What may be written over a parameter, or a part of it, is one output. */
static stw_status check_aliased_once(buffers *b, const stw_hlo_alias *alias) {
    stw_hlo_edit *edit = b->edit;
    const int32_t steps = alias->parameter_part.count;
    bool fresh = true;
    int64_t *key; /* the parameter and the path, as a name */
    STW_TRY_NEW(edit->arena, key, (int64_t)steps + 1, edit->error);
    key[0] = alias->parameter;
    for (int32_t k = 0; k < steps; k++) key[k + 1] = stw_hlo_number(edit, alias->parameter_part, k);
    const stw_str name = {(const char *)key, (steps + 1) * (int64_t)sizeof *key};
    TRY(stw_hlo_set_name(edit->m, STW_HLO_ALIAS_SCOPE, name, 0, &fresh, edit->error));
    if (fresh) return STW_OK;
    return stw_fail(edit->error, STW_ERROR_INPUT,
                    "input_output_alias names parameter %lld twice; one output can be written over it, so keep one",
                    (long long)alias->parameter);
}

/* The instruction whose value is the output of an alias. */
static int32_t find_writer(const stw_hlo_edit *edit, const stw_hlo_alias *alias) {
    int64_t output = edit->entry->root;
    for (int32_t step = 0; step < alias->output.count; step++) {
        const stw_hlo_instruction *tuple = stw_hlo_at(edit, output);
        const int64_t index = stw_hlo_number(edit, alias->output, step);
        if (tuple->rule != STW_HLO_TUPLE || index < 0 || index >= tuple->operand.count) break;
        output = stw_hlo_root_of(edit, stw_hlo_number(edit, tuple->operand, (int32_t)index));
    }
    return stw_hlo_root_of(edit, output);
}

/* input_output_alias: the op behind the output writes the parameter. */
static stw_status follow_aliases(buffers *b) {
    enum { MOST_WAITS = 1 << 24 }; /* reached only where many parts of one parameter and many readers of the whole meet */
    stw_hlo_edit *edit = b->edit;
    for (int32_t k = 0; k < edit->m->alias_count; k++) {
        const stw_hlo_alias *alias = &edit->m->alias[k];
        if (alias->parameter < 0 || alias->parameter >= edit->entry->parameter.count) continue;
        TRY(check_aliased_once(b, alias));
        const int64_t parameter = stw_hlo_number(edit, edit->entry->parameter, (int32_t)alias->parameter);
        const int32_t writer = find_writer(edit, alias);
        if (parameter < 0 || edit->op_node[stw_hlo_local(edit, writer)] < 0) continue;
        for (int32_t r = b->readers[stw_hlo_local(edit, parameter)]; r >= 0; r = b->link[r].next) {
            if (b->link[r].instruction < writer) TRY(let_wait(b, b->link[r].instruction, writer));
        }
        if (b->waits->count > MOST_WAITS) {
            return stw_fail(edit->error, STW_ERROR_INPUT,
                            "parameter %lld has more parts that are overwritten, and readers of all "
                            "of them, than are followed here",
                            (long long)alias->parameter);
        }
    }
    return STW_OK;
}

/* Things with effects outside of the module keep their order. */
static bool has_effect(const stw_hlo_edit *edit, const stw_hlo_instruction *i) {
    if (stw_str_is(i->opcode, "infeed") || stw_str_is(i->opcode, "outfeed")) return true;
    if (stw_str_is(i->opcode, "rng-get-and-update-state") || stw_str_is(i->opcode, "rng")) return true;
    if (i->rule != STW_HLO_CUSTOM) return false;
    return edit->is_text ? stw_str_is(stw_hlo_attribute(i->attributes, "custom_call_has_side_effect", NULL), "true")
                         : stw_hlo_field(i->attributes, HLO_CALL_HAS_SIDE_EFFECT).length > 0;
}

stw_status stw_hlo_buffer_waits(stw_hlo_edit *edit, stw_hlo_waits *out) {
    buffers b = {.edit = edit, .waits = out};
    const int32_t count = edit->entry->count;
    int32_t last_effect = -1;
    *out = (stw_hlo_waits){0};
    STW_TRY_NEW(edit->arena, b.first, count, edit->error);
    STW_TRY_NEW(edit->arena, b.readers, count, edit->error);
    STW_TRY_NEW(edit->arena, b.mark, count, edit->error);
    for (int32_t k = 0; k < count; k++) b.first[k] = b.readers[k] = -1;
    TRY(find_fixed(&b));
    TRY(find_writing(&b));
    for (int32_t k = edit->entry->first; k < edit->entry->first + count; k++) {
        const stw_hlo_instruction *i = stw_hlo_at(edit, k);
        if (edit->op_node[stw_hlo_local(edit, k)] < 0) continue;
        const int32_t written = count_overwritten(&b, i);
        for (int32_t o = written; o < i->operand.count; o++) { /* what it only reads, first: then it never waits for itself */
            TRY(read_all(&b, stw_hlo_number(edit, i->operand, o), k, false, 0));
        }
        for (int32_t o = 0; o < written; o++) TRY(read_all(&b, stw_hlo_number(edit, i->operand, o), k, true, 0));
        if (!has_effect(edit, i)) continue;
        if (last_effect >= 0) TRY(let_wait(&b, last_effect, k));
        last_effect = k;
    }
    return follow_aliases(&b);
}
