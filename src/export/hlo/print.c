/* Prints a module in a protobuf as HLO text, as XLA does. */
#include <stdlib.h>

#include "export/hlo/print.h"

/* ---- names ---- */

/* Names for printing: a protobuf may hold any bytes, and the same twice, for it refers by ids; text refers by names. */

enum { COMPUTATIONS = -5 }; /* scopes in the table of names: computations, and from here down each one's instructions */

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_inner(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-'; }

/* [A-Za-z_][A-Za-z0-9_.-]* */
static bool is_name(stw_str text) {
    bool fits = text.length > 0 && is_letter(text.p[0]);
    for (int64_t k = 1; fits && k < text.length; k++) fits = is_inner(text.p[k]);
    return fits;
}

stw_str stw_hlo_clean_name(stw_arena *arena, stw_str text) {
    if (is_name(text)) return text;
    if (text.length == 0) return STW_STR("unnamed");
    const int64_t shift = !is_letter(text.p[0]) && is_inner(text.p[0]); /* "7x" to "_7x", but "%x" to "_x" */
    char *name = STW_NEW(arena, char, text.length + shift);
    if (name == NULL) return (stw_str){0};
    name[0] = '_';
    for (int64_t k = 0; k < text.length; k++) name[k + shift] = is_inner(text.p[k]) ? text.p[k] : '_';
    return (stw_str){name, text.length + shift};
}

/* Words that stand in front of names. */
static bool is_reserved(stw_str name) {
    static const char *const word[] = {"ROOT", "ENTRY", "FileNames", "FunctionNames", "FileLocations", "StackFrames"};
    bool found = false;
    for (size_t k = 0; k < sizeof word / sizeof word[0]; k++) found |= stw_str_is(name, word[k]);
    return found;
}

typedef struct renamer {
    stw_hlo_module *m;
    stw_arena *arena;
    stw_error *error;
    int64_t counter;
} renamer;

/* First the names that are fit stay where they are the first of their kind, then the others take what is free. */
static stw_status settle(renamer *r, int32_t scope, stw_str *name, bool *is_settled) {
    if (!is_name(*name) || is_reserved(*name)) return STW_OK;
    return stw_hlo_set_name(r->m, scope, *name, 0, is_settled, r->error);
}

static stw_status find_free(renamer *r, int32_t scope, stw_str *name) {
    const stw_str base = stw_hlo_clean_name(r->arena, *name);
    const int length = base.length < 1000 ? (int)base.length : 1000;
    bool fresh = false;
    *name = base;
    if (base.p != NULL && !is_reserved(base)) TRY(stw_hlo_set_name(r->m, scope, *name, 0, &fresh, r->error));
    while (!fresh) {
        if (base.p != NULL) *name = stw_str_format(r->arena, "%.*s.%lld", length, base.p, (long long)++r->counter);
        if (name->p == NULL) return stw_fail(r->error, STW_ERROR_MEMORY, "out of memory");
        TRY(stw_hlo_set_name(r->m, scope, *name, 0, &fresh, r->error));
    }
    return STW_OK;
}

static stw_status rename_instructions(renamer *r, int32_t c, bool *is_settled) {
    const stw_hlo_computation *at = &r->m->computation[c];
    const int32_t scope = COMPUTATIONS - 1 - c;
    for (int32_t k = at->first; k < at->first + at->count; k++) {
        TRY(settle(r, scope, &r->m->instruction[k].name, &is_settled[k]));
    }
    for (int32_t k = at->first; k < at->first + at->count; k++) {
        if (!is_settled[k]) TRY(find_free(r, scope, &r->m->instruction[k].name));
    }
    return STW_OK;
}

/* Gives all instructions and computations names that text can have, each once. */
static stw_status print_names(stw_hlo_module *m, stw_arena *arena, stw_error *error) {
    renamer r = {.m = m, .arena = arena, .error = error};
    bool *is_settled;
    STW_TRY_NEW(arena, is_settled, (int64_t)m->instruction_count + m->computation_count, error);
    for (int32_t c = 0; c < m->computation_count; c++) {
        TRY(rename_instructions(&r, c, is_settled));
        TRY(settle(&r, COMPUTATIONS, &m->computation[c].name, &is_settled[m->instruction_count + c]));
    }
    for (int32_t c = 0; c < m->computation_count; c++) {
        if (!is_settled[m->instruction_count + c]) TRY(find_free(&r, COMPUTATIONS, &m->computation[c].name));
    }
    m->name = stw_hlo_clean_name(arena, m->name);
    return m->name.p == NULL ? stw_fail(error, STW_ERROR_MEMORY, "out of memory") : STW_OK;
}

/* ---- what an instruction refers to ---- */

/* Prints what an instruction or the module refers to: computations that are called, control predecessors, and outputs that share
 * the memory of parameters or operands. */

/* ---- who is called ---- */

static void put_computation(stw_hlo_printer *p, const stw_hlo_instruction *i, int32_t k) {
    stw_hlo_put_name(&p->out, p->m->computation[p->m->number[i->called.first + k]].name);
}

static void print_called(stw_hlo_printer *p, const stw_hlo_instruction *i, const char *key, int32_t k) {
    stw_hlo_print_key(p, key);
    put_computation(p, i, k);
}

static void print_called_list(stw_hlo_printer *p, const stw_hlo_instruction *i, const char *key) {
    stw_hlo_print_key(p, key);
    for (int32_t k = 0; k < i->called.count; k++) {
        stw_hlo_put(&p->out, k == 0 ? "{" : ", ");
        put_computation(p, i, k);
    }
    stw_hlo_put(&p->out, "}");
}

/* By a truth value there are two branches, by a number any count. */
static void print_branches(stw_hlo_printer *p, const stw_hlo_instruction *i) {
    const stw_str selector = stw_hlo_content(stw_hlo_operand(p->m, i, 0)->attributes, HLO_SHAPE);
    if (stw_hlo_int_of(selector, HLO_SHAPE_TYPE) == HLO_TYPE_PRED && i->called.count == 2) {
        print_called(p, i, "true_computation", 0);
        print_called(p, i, "false_computation", 1);
    } else {
        print_called_list(p, i, "branch_computations");
    }
}

void stw_hlo_print_calls(stw_hlo_printer *p, const stw_hlo_instruction *i) {
    if (i->called.count == 0) return;
    if (i->rule == STW_HLO_WHILE && i->called.count >= 2) {
        print_called(p, i, "condition", 1);
        print_called(p, i, "body", 0);
    } else if (i->rule == STW_HLO_CONDITIONAL) {
        print_branches(p, i);
    } else if (i->rule == STW_HLO_SELECT_AND_SCATTER && i->called.count == 2) {
        print_called(p, i, "select", 0);
        print_called(p, i, "scatter", 1);
    } else if (i->rule == STW_HLO_CUSTOM) {
        print_called_list(p, i, "called_computations");
    } else {
        const bool calls = i->rule == STW_HLO_FUSION || stw_str_starts(i->opcode, "async-");
        print_called(p, i, calls ? "calls" : "to_apply", 0);
    }
}

void stw_hlo_print_controls(stw_hlo_printer *p, const stw_hlo_instruction *i) {
    for (int32_t k = 0; k < i->control.count; k++) {
        stw_hlo_put(&p->out, k == 0 ? ", control-predecessors={" : ", ");
        stw_hlo_put_name(&p->out, p->m->instruction[p->m->number[i->control.first + k]].name);
    }
    if (i->control.count > 0) stw_hlo_put(&p->out, "}");
}

/* ---- memory that is shared ---- */

/* "(1, {0}": the number of a parameter or operand and the path to a part of it. */
static void open_place(stw_hlo_printer *p, stw_str message, int64_t number_field, int64_t path_field) {
    stw_hlo_put_format(&p->out, "(%lld, ", (long long)stw_hlo_int_of(message, number_field));
    stw_hlo_print_path(p, message, path_field);
}

/* "{0}: (1, {}": an output and its place. */
static void open_alias(stw_hlo_printer *p, stw_str alias) {
    stw_hlo_print_path(p, alias, HLO_ALIAS_OUTPUT_PATH);
    stw_hlo_put(&p->out, ": ");
    open_place(p, alias, HLO_ALIAS_NUMBER, HLO_ALIAS_PATH);
}

/* output_to_operand_aliasing={{0}: (1, {})} */
void stw_hlo_print_operand_aliases(stw_hlo_printer *p, stw_str instruction) {
    stw_str alias;
    int64_t count = 0;
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, instruction, HLO_OUTPUT_ALIASING, &alias); count++) {
        stw_hlo_put(&p->out, count == 0 ? ", output_to_operand_aliasing={" : ", ");
        open_alias(p, alias);
        stw_hlo_put(&p->out, ")");
    }
    if (count > 0) stw_hlo_put(&p->out, "}");
}

/* input_output_alias={ {0}: (0, {}, may-alias) } */
static void print_aliases(stw_hlo_printer *p, stw_str aliases) {
    enum { MUST_ALIAS = 2 };
    stw_str alias;
    int64_t count = 0;
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, aliases, HLO_ALIASES_ENTRY, &alias); count++) {
        stw_hlo_put(&p->out, count == 0 ? ", input_output_alias={ " : ", ");
        open_alias(p, alias);
        stw_hlo_put(&p->out, stw_hlo_int_of(alias, HLO_ALIAS_KIND) == MUST_ALIAS ? ", must-alias)" : ", may-alias)");
    }
    if (count > 0) stw_hlo_put(&p->out, " }");
}

/* buffer_donor={ (0, {}) } */
static void print_donors(stw_hlo_printer *p, stw_str donors) {
    stw_str donor;
    int64_t count = 0;
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, donors, HLO_DONORS_ENTRY, &donor); count++) {
        stw_hlo_put(&p->out, count == 0 ? ", buffer_donor={ " : ", ");
        open_place(p, donor, HLO_DONOR_PARAMETER, HLO_DONOR_PATH);
        stw_hlo_put(&p->out, ")");
    }
    if (count > 0) stw_hlo_put(&p->out, " }");
}

/* ---- the module ---- */

/* Prints a module in a protobuf as HLO text, as XLA does. */

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
    TRY(print_names(m, arena, error));
    const stw_str module = stw_hlo_module_bytes(m, bytes);
    p.m = m;
    TRY(read_schedule(&p, stw_hlo_content(module, HLO_MODULE_SCHEDULE), &s, error));
    stw_hlo_put(&p.out, "HloModule ");
    stw_hlo_put_str(&p.out, m->name);
    if (m->is_scheduled) stw_hlo_put(&p.out, ", is_scheduled=true");
    print_aliases(&p, stw_hlo_content(module, HLO_MODULE_ALIASES));
    print_donors(&p, stw_hlo_content(module, HLO_MODULE_DONORS));
    print_entry_layout(&p, stw_hlo_content(module, HLO_MODULE_PROGRAM_SHAPE));
    for (int32_t c = 0; c < m->computation_count; c++) {
        stw_hlo_put(&p.out, "\n\n");
        TRY(print_computation(&p, c, &s, error));
    }
    stw_hlo_put(&p.out, "\n");
    return stw_pb_written(&p.out.w, out, error);
}
