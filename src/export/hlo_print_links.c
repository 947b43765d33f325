/* Prints what an instruction or the module refers to: computations that are called, control predecessors, and outputs that share
 * the memory of parameters or operands. */
#include "export/hlo_print.h"

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
void stw_hlo_print_aliases(stw_hlo_printer *p, stw_str aliases) {
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
void stw_hlo_print_donors(stw_hlo_printer *p, stw_str donors) {
    stw_str donor;
    int64_t count = 0;
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, donors, HLO_DONORS_ENTRY, &donor); count++) {
        stw_hlo_put(&p->out, count == 0 ? ", buffer_donor={ " : ", ");
        open_place(p, donor, HLO_DONOR_PARAMETER, HLO_DONOR_PATH);
        stw_hlo_put(&p->out, ")");
    }
    if (count > 0) stw_hlo_put(&p->out, " }");
}
