/* Prints a module in a protobuf as HLO text, as XLA does. */
#include "export/hlo_print.h"

#include <stdlib.h>

#include "import/import.h"

/* ---- order ---- */

typedef struct numbered {
    int64_t id;
    int32_t instruction;
} numbered;

static int compare_numbered(const void *left, const void *right) {
    const numbered *a = left, *b = right;
    return (a->id > b->id) - (a->id < b->id);
}

/* The sequence of a computation in the schedule. */
static stw_hlo_ints sequence_of(stw_hlo_printer *p, stw_str schedule, int64_t computation) {
    stw_str entry;
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, schedule, HLO_SCHEDULE_SEQUENCE, &entry);) {
        if (stw_hlo_int_of(entry, HLO_MAP_KEY) != computation) continue;
        return stw_hlo_ints_of(p, stw_hlo_content(entry, HLO_MAP_VALUE), HLO_SEQUENCE_ID);
    }
    return (stw_hlo_ints){0};
}

/* The instructions of a computation as they are scheduled; as they stand where the schedule does not fit. */
static stw_status order_of(stw_hlo_printer *p, const stw_hlo_computation *c, stw_str schedule, int32_t **out, stw_error *error) {
    int32_t *order;
    numbered *by_id;
    STW_TRY_NEW(p->arena, order, c->count, error);
    STW_TRY_NEW(p->arena, by_id, c->count, error);
    for (int32_t k = 0; k < c->count; k++) {
        order[k] = c->first + k;
        by_id[k] = (numbered){stw_hlo_int_of(p->m->instruction[c->first + k].attributes, HLO_ID), c->first + k};
    }
    *out = order;
    const stw_hlo_ints ids = sequence_of(p, schedule, c->id);
    if (ids.count != c->count) return STW_OK;
    qsort(by_id, (size_t)c->count, sizeof *by_id, compare_numbered);
    int32_t *scheduled;
    STW_TRY_NEW(p->arena, scheduled, c->count, error);
    for (int32_t k = 0; k < c->count; k++) {
        const numbered key = {ids.value[k], 0};
        const numbered *found = bsearch(&key, by_id, (size_t)c->count, sizeof *by_id, compare_numbered);
        if (found == NULL) return STW_OK;
        scheduled[k] = found->instruction;
    }
    *out = scheduled;
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
    for (int32_t k = 0; k < i->operand.count; k++) {
        if (k > 0) stw_hlo_put(&p->out, ", ");
        if (k > 0 && k % 5 == 0) stw_hlo_put_format(&p->out, "/*index=%d*/", k);
        stw_hlo_put_name(&p->out, stw_hlo_operand(p->m, i, k)->name);
    }
    stw_hlo_put(&p->out, ")");
    stw_hlo_print_attributes(p, i);
    stw_hlo_put(&p->out, "\n");
}

static stw_status print_computation(stw_hlo_printer *p, int32_t c, stw_str schedule, stw_error *error) {
    const stw_hlo_computation *at = &p->m->computation[c];
    int32_t *order = NULL;
    TRY(order_of(p, at, schedule, &order, error));
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
    const stw_str inner = stw_hlo_content(bytes, HLO_PROTO_MODULE), module = stw_hlo_proto_is(inner) ? inner : bytes;
    TRY(stw_hlo_proto_parse(bytes, arena, &m, error));
    p.m = m;
    stw_hlo_put(&p.out, "HloModule ");
    stw_hlo_put_str(&p.out, m->name);
    if (m->is_scheduled) stw_hlo_put(&p.out, ", is_scheduled=true");
    stw_hlo_print_aliases(&p, stw_hlo_content(module, HLO_MODULE_ALIASES));
    stw_hlo_print_donors(&p, stw_hlo_content(module, HLO_MODULE_DONORS));
    print_entry_layout(&p, stw_hlo_content(module, HLO_MODULE_PROGRAM_SHAPE));
    for (int32_t c = 0; c < m->computation_count; c++) {
        stw_hlo_put(&p.out, "\n\n");
        TRY(print_computation(&p, c, stw_hlo_content(module, HLO_MODULE_SCHEDULE), error));
    }
    stw_hlo_put(&p.out, "\n");
    return stw_pb_written(&p.out.w, out, error);
}
