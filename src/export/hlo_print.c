/* Prints a module in a protobuf as HLO text, as XLA does. */
#include "export/hlo_print.h"

#include <stdlib.h>

/* ---- order ---- */

typedef struct numbered {
    int64_t id;
    int32_t instruction;
} numbered;

static int compare_numbered(const void *left, const void *right) {
    const numbered *a = left, *b = right;
    return (a->id > b->id) - (a->id < b->id);
}

typedef struct sequence { /* of a computation in the schedule */
    int64_t computation;
    const char *at; /* of two the first counts */
    stw_str ids;
} sequence;

static int compare_sequences(const void *left, const void *right) {
    const sequence *a = left, *b = right;
    if (a->computation != b->computation) return a->computation < b->computation ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

typedef struct schedule {
    sequence *sequence; /* (count) by computation */
    int64_t count;
} schedule;

static stw_status read_schedule(stw_hlo_printer *p, stw_str message, schedule *out, stw_error *error) {
    stw_str entry;
    int64_t count = 0;
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, message, HLO_SCHEDULE_SEQUENCE, &entry);) out->count++;
    STW_TRY_NEW(p->arena, out->sequence, out->count, error);
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, message, HLO_SCHEDULE_SEQUENCE, &entry);) {
        out->sequence[count++] = (sequence){stw_hlo_int_of(entry, HLO_MAP_KEY), entry.p, stw_hlo_content(entry, HLO_MAP_VALUE)};
    }
    if (count > 1) qsort(out->sequence, (size_t)count, sizeof *out->sequence, compare_sequences);
    return STW_OK;
}

static stw_hlo_ints sequence_of(stw_hlo_printer *p, const schedule *s, int64_t computation) {
    int64_t low = 0, high = s->count; /* the first that is not below it */
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (s->sequence[middle].computation < computation) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == s->count || s->sequence[low].computation != computation) return (stw_hlo_ints){0};
    return stw_hlo_ints_of(p, s->sequence[low].ids, HLO_SEQUENCE_ID);
}

static bool all_seen(const stw_hlo_printer *p, const stw_hlo_computation *c, stw_hlo_range list, const bool *seen) {
    bool all = true;
    for (int32_t k = 0; all && k < list.count; k++) all = seen[p->m->number[list.first + k] - c->first];
    return all;
}

/* Does a sequence of a computation's instructions have each of them once, behind what it reads? */
static stw_status check_order(stw_hlo_printer *p, const stw_hlo_computation *c, const int32_t *order, bool *fits,
                              stw_error *error) {
    bool *seen;
    STW_TRY_NEW(p->arena, seen, c->count, error);
    *fits = true;
    for (int32_t k = 0; *fits && k < c->count; k++) {
        const stw_hlo_instruction *i = &p->m->instruction[order[k]];
        *fits = !seen[order[k] - c->first] && all_seen(p, c, i->operand, seen) && all_seen(p, c, i->control, seen);
        seen[order[k] - c->first] = true;
    }
    return STW_OK;
}

/* The instructions of a computation as they are scheduled; as they stand where the schedule does not fit. */
static stw_status order_of(stw_hlo_printer *p, const stw_hlo_computation *c, const schedule *s, int32_t **out, stw_error *error) {
    int32_t *order, *scheduled;
    numbered *by_id;
    STW_TRY_NEW(p->arena, order, c->count, error);
    STW_TRY_NEW(p->arena, by_id, c->count, error);
    for (int32_t k = 0; k < c->count; k++) {
        order[k] = c->first + k;
        by_id[k] = (numbered){stw_hlo_int_of(p->m->instruction[c->first + k].attributes, HLO_ID), c->first + k};
    }
    *out = order;
    const stw_hlo_ints ids = sequence_of(p, s, c->id);
    if (ids.count != c->count) return STW_OK;
    qsort(by_id, (size_t)c->count, sizeof *by_id, compare_numbered);
    STW_TRY_NEW(p->arena, scheduled, c->count, error);
    for (int32_t k = 0; k < c->count; k++) {
        const numbered key = {ids.value[k], 0};
        const numbered *found = bsearch(&key, by_id, (size_t)c->count, sizeof *by_id, compare_numbered);
        if (found == NULL) return STW_OK;
        scheduled[k] = found->instruction;
    }
    bool fits = false;
    TRY(check_order(p, c, scheduled, &fits, error));
    if (fits) *out = scheduled;
    return STW_OK;
}

/* ---- computations ---- */

static void print_instruction(stw_hlo_printer *p, const stw_hlo_instruction *i) {
    stw_hlo_put_name(&p->out, i->name);
    stw_hlo_put(&p->out, " = ");
    stw_hlo_print_shape(p, stw_hlo_content(i->attributes, HLO_SHAPE), true, 0);
    stw_hlo_put(&p->out, " ");
    stw_hlo_put_str(&p->out, i->opcode);
    stw_hlo_put(&p->out, "(");
    if (i->rule == STW_HLO_PARAMETER) stw_hlo_put_format(&p->out, "%lld", (long long)i->number);
    if (i->rule == STW_HLO_CONSTANT) stw_hlo_print_literal(p, stw_hlo_content(i->attributes, HLO_LITERAL));
    const int32_t operands = i->rule == STW_HLO_PARAMETER || i->rule == STW_HLO_CONSTANT ? 0 : i->operand.count;
    for (int32_t k = 0; k < operands; k++) {
        if (k > 0) stw_hlo_put(&p->out, ", ");
        if (k > 0 && k % 5 == 0) stw_hlo_put_format(&p->out, "/*index=%d*/", k);
        stw_hlo_put_name(&p->out, stw_hlo_operand(p->m, i, k)->name);
    }
    stw_hlo_put(&p->out, ")");
    stw_hlo_print_attributes(p, i);
    stw_hlo_put(&p->out, "\n");
}

static stw_status print_computation(stw_hlo_printer *p, int32_t c, const schedule *s, stw_error *error) {
    const stw_hlo_computation *at = &p->m->computation[c];
    int32_t *order = NULL;
    TRY(order_of(p, at, s, &order, error));
    stw_hlo_put(&p->out, c == p->m->entry ? "ENTRY " : "");
    stw_hlo_put_name(&p->out, at->name);
    stw_hlo_put(&p->out, " (");
    for (int32_t k = 0; k < at->parameter.count; k++) {
        const int64_t parameter = p->m->number[at->parameter.first + k];
        if (parameter < 0) continue;
        if (k > 0) stw_hlo_put(&p->out, ", ");
        stw_hlo_put_str(&p->out, p->m->instruction[parameter].name);
        stw_hlo_put(&p->out, ": ");
        stw_hlo_print_shape(p, stw_hlo_content(p->m->instruction[parameter].attributes, HLO_SHAPE), false, 0);
    }
    stw_hlo_put(&p->out, ") -> ");
    stw_hlo_print_shape(p, stw_hlo_content(p->m->instruction[at->root].attributes, HLO_SHAPE), false, 0);
    stw_hlo_put(&p->out, " {\n");
    for (int32_t k = 0; k < at->count; k++) {
        stw_hlo_put(&p->out, order[k] == at->root ? "  ROOT " : "  ");
        print_instruction(p, &p->m->instruction[order[k]]);
    }
    stw_hlo_put(&p->out, "}");
    return STW_OK;
}

/* ---- the head ---- */

static void print_entry_layout(stw_hlo_printer *p, stw_str program) {
    stw_str shape;
    int64_t count = 0;
    if (program.length == 0) return;
    stw_hlo_put(&p->out, ", entry_computation_layout={(");
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, program, HLO_PROGRAM_PARAMETER, &shape); count++) {
        if (count > 0) stw_hlo_put(&p->out, ", ");
        if (count > 0 && count % 5 == 0) stw_hlo_put_format(&p->out, "/*index=%lld*/", (long long)count);
        stw_hlo_print_shape(p, shape, true, 0);
    }
    stw_hlo_put(&p->out, ")->");
    stw_hlo_print_shape(p, stw_hlo_content(program, HLO_PROGRAM_RESULT), true, 0);
    stw_hlo_put(&p->out, "}");
}

stw_status stw_hlo_print(stw_str bytes, stw_arena *arena, stw_str *out, stw_error *error) {
    stw_hlo_printer p = {.out = {.w = {.arena = arena}, .percent = true}, .arena = arena};
    stw_hlo_module *m = NULL;
    schedule s = {0};
    TRY(stw_hlo_proto_parse(bytes, arena, &m, error));
    TRY(stw_hlo_print_names(m, arena, error));
    const stw_str module = stw_hlo_module_bytes(m, bytes);
    p.m = m;
    TRY(read_schedule(&p, stw_hlo_content(module, HLO_MODULE_SCHEDULE), &s, error));
    stw_hlo_put(&p.out, "HloModule ");
    stw_hlo_put_str(&p.out, m->name);
    if (m->is_scheduled) stw_hlo_put(&p.out, ", is_scheduled=true");
    stw_hlo_print_aliases(&p, stw_hlo_content(module, HLO_MODULE_ALIASES));
    stw_hlo_print_donors(&p, stw_hlo_content(module, HLO_MODULE_DONORS));
    print_entry_layout(&p, stw_hlo_content(module, HLO_MODULE_PROGRAM_SHAPE));
    for (int32_t c = 0; c < m->computation_count; c++) {
        stw_hlo_put(&p.out, "\n\n");
        TRY(print_computation(&p, c, &s, error));
    }
    stw_hlo_put(&p.out, "\n");
    return stw_pb_written(&p.out.w, out, error);
}
