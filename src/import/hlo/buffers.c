/* Ops that overwrite what they read: dynamic-update-slice, scatter, loops and their like, and whatever makes an output that is
 * written over a parameter. Other readers of that buffer that stand before such an op in the module stay before it.
 *
 * Only readers that do so now are held back, so the waits never contradict each other or the data. */
#include "import/hlo/hlo.h"

typedef struct reader_link {
    int32_t instruction, next; /* next: -1 ends the list */
} reader_link;

typedef struct buffers {
    const stw_hlo_module *m;
    const stw_hlo_computation *entry;
    stw_arena *arena;
    const bool *is_op; /* (entry->count) */
    stw_hlo_holds *holds;
    int32_t *root;     /* (entry->count) what stands behind views; a tuple of several values stands for itself */
    int32_t *first;    /* (entry->count) readers of an instruction's value so far, as links; -1: none */
    int32_t *mark;     /* (entry->count) the last reader that has taken a tuple apart, + 1 */
    int32_t *readers;  /* (entry->count) the same of aliased parameters, with all their readers */
    bool *is_fixed;    /* (entry->count) nobody overwrites it */
    bool *is_writing;  /* (computation_count) */
    reader_link *link; /* (link_count) */
    int32_t link_count;
    int64_t link_room;
    stw_error *error;
} buffers;

static int32_t local(const buffers *b, int64_t instruction) { return (int32_t)instruction - b->entry->first; }
static int64_t number(const buffers *b, stw_hlo_range list, int32_t k) { return b->m->number[list.first + k]; }

static stw_status let_wait(buffers *b, int32_t reader, int32_t writer) {
    stw_hlo_holds *h = b->holds;
    if (reader == writer) return STW_OK;
    STW_HLO_RESERVE(b->arena, h->pair, h->count, h->room, b->error);
    h->pair[h->count++] = (stw_hlo_hold){reader, writer};
    return STW_OK;
}

static stw_status add_reader(buffers *b, int32_t *list, int32_t instruction) {
    STW_HLO_RESERVE(b->arena, b->link, b->link_count, b->link_room, b->error);
    b->link[b->link_count] = (reader_link){instruction, *list};
    *list = b->link_count++;
    return STW_OK;
}

/* A value read by an instruction, and overwritten by it perhaps. After a writer it alone stands for all readers before it. */
static stw_status read_value(buffers *b, int32_t value, int32_t reader, bool writes) {
    int32_t *list = &b->first[local(b, value)];
    if (b->is_fixed[local(b, value)]) return STW_OK;
    for (int32_t k = *list; writes && k >= 0; k = b->link[k].next) TRY(let_wait(b, b->link[k].instruction, reader));
    if (writes) *list = -1;
    TRY(add_reader(b, list, reader));
    const bool is_parameter = b->m->instruction[value].rule == STW_HLO_PARAMETER;
    return is_parameter ? add_reader(b, &b->readers[local(b, value)], reader) : STW_OK;
}

static stw_status read_all(buffers *b, int64_t value, int32_t reader, bool writes, int32_t depth) {
    const int32_t root = b->root[local(b, value)];
    const stw_hlo_instruction *i = &b->m->instruction[root];
    if (i->rule != STW_HLO_TUPLE) return read_value(b, root, reader, writes);
    int32_t *mark = &b->mark[local(b, root)];
    if (*mark == reader + 1 || depth > STW_HLO_MAX_DEPTH) return STW_OK;
    *mark = reader + 1;
    for (int32_t k = 0; k < i->operand.count; k++) TRY(read_all(b, number(b, i->operand, k), reader, writes, depth + 1));
    return STW_OK;
}

/* ---- who overwrites ---- */

static bool calls_writer(const buffers *b, const stw_hlo_instruction *i) {
    bool writes = false;
    for (int32_t k = 0; k < i->called.count; k++) writes |= b->is_writing[number(b, i->called, k)];
    return writes;
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
        case STW_HLO_CUSTOM: return i->aliases ? all : 0;
        default: return 0;
    }
}

/* Computations that write into what they are given, (computation_count). Callees come first. */
static stw_status find_writing(buffers *b) {
    STW_TRY_NEW(b->arena, b->is_writing, b->m->computation_count, b->error);
    for (int32_t c = 0; c < b->m->computation_count; c++) {
        const stw_hlo_computation *at = &b->m->computation[c];
        for (int32_t k = at->first; k < at->first + at->count && !b->is_writing[c]; k++) {
            b->is_writing[c] = count_overwritten(b, &b->m->instruction[k]) > 0;
        }
    }
    return STW_OK;
}

/* Entry parameters are overwritten only where the module says so, constants never. */
static stw_status find_fixed(buffers *b) {
    STW_TRY_NEW(b->arena, b->is_fixed, b->entry->count, b->error);
    for (int32_t k = 0; k < b->entry->count; k++) {
        const uint8_t rule = b->m->instruction[b->entry->first + k].rule;
        b->is_fixed[k] = rule == STW_HLO_PARAMETER || rule == STW_HLO_CONSTANT;
    }
    for (int32_t k = 0; k < b->m->alias_count; k++) {
        const int64_t at = b->m->alias[k].parameter;
        if (at < 0 || at >= b->entry->parameter.count) continue;
        const int64_t parameter = number(b, b->entry->parameter, (int32_t)at);
        if (parameter >= 0) b->is_fixed[local(b, parameter)] = false;
    }
    return STW_OK;
}

/* The instruction whose value is the output of an alias. */
static int32_t find_writer(const buffers *b, const stw_hlo_alias *alias) {
    int64_t output = b->entry->root;
    for (int32_t step = 0; step < alias->output.count; step++) {
        const stw_hlo_instruction *tuple = &b->m->instruction[output];
        const int64_t index = number(b, alias->output, step);
        if (tuple->rule != STW_HLO_TUPLE || index < 0 || index >= tuple->operand.count) break;
        output = b->root[local(b, number(b, tuple->operand, (int32_t)index))];
    }
    return b->root[local(b, output)];
}

/* input_output_alias: the op behind the output writes the parameter. */
static stw_status follow_aliases(buffers *b) {
    enum { MOST_WAITS = 1 << 24 }; /* reached only where many parts of one parameter and many readers of the whole meet */
    for (int32_t k = 0; k < b->m->alias_count; k++) {
        const stw_hlo_alias *alias = &b->m->alias[k];
        if (alias->parameter < 0 || alias->parameter >= b->entry->parameter.count) continue;
        const int64_t parameter = number(b, b->entry->parameter, (int32_t)alias->parameter);
        const int32_t writer = find_writer(b, alias);
        if (parameter < 0 || !b->is_op[local(b, writer)]) continue;
        for (int32_t r = b->readers[local(b, parameter)]; r >= 0; r = b->link[r].next) {
            if (b->link[r].instruction < writer) TRY(let_wait(b, b->link[r].instruction, writer));
        }
        if (b->holds->count > MOST_WAITS) {
            return stw_fail(b->error, STW_ERROR_INPUT,
                            "parameter %lld has more parts that are overwritten, and readers of all "
                            "of them, than are followed here",
                            (long long)alias->parameter);
        }
    }
    return STW_OK;
}

/* Things with effects outside of the module keep their order. */
static bool has_effect(const stw_hlo_instruction *i) {
    if (stw_str_is(i->opcode, "infeed") || stw_str_is(i->opcode, "outfeed")) return true;
    if (stw_str_is(i->opcode, "rng-get-and-update-state") || stw_str_is(i->opcode, "rng")) return true;
    return i->rule == STW_HLO_CUSTOM && i->has_effect;
}

stw_status stw_hlo_find_holds(const stw_hlo_module *m, const bool *is_op, stw_arena *arena, stw_hlo_holds *out,
                              stw_error *error) {
    buffers b = {.m = m, .entry = &m->computation[m->entry], .arena = arena, .is_op = is_op, .holds = out, .error = error};
    const int32_t count = b.entry->count;
    int32_t last_effect = -1, *behind = NULL;
    *out = (stw_hlo_holds){0};
    STW_TRY_NEW(arena, b.first, count, error);
    STW_TRY_NEW(arena, b.readers, count, error);
    STW_TRY_NEW(arena, b.mark, count, error);
    for (int32_t k = 0; k < count; k++) b.first[k] = b.readers[k] = -1;
    TRY(stw_hlo_look_through(m, b.entry, arena, &behind, error));
    TRY(stw_hlo_find_roots(m, b.entry, is_op, behind, arena, &b.root, error));
    TRY(find_fixed(&b));
    TRY(find_writing(&b));
    for (int32_t k = b.entry->first; k < b.entry->first + count; k++) {
        const stw_hlo_instruction *i = &m->instruction[k];
        if (!is_op[local(&b, k)]) continue;
        const int32_t written = count_overwritten(&b, i);
        for (int32_t o = written; o < i->operand.count; o++) { /* what it only reads, first: then it never waits for itself */
            TRY(read_all(&b, number(&b, i->operand, o), k, false, 0));
        }
        for (int32_t o = 0; o < written; o++) TRY(read_all(&b, number(&b, i->operand, o), k, true, 0));
        if (!has_effect(i)) continue;
        if (last_effect >= 0) TRY(let_wait(&b, last_effect, k));
        last_effect = k;
    }
    return follow_aliases(&b);
}
