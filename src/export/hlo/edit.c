/* Plans into HLO modules: reads the module again, applies the plan, writes it as it came. */
#include "export/hlo/edit.h"
#include "import/hlo/hlo_fields.h"
#include "import/import.h"

/* ---- which instruction is which node ---- */

/* Which instruction of the module is which node of the graph. The graph is built again from the module, so the two cannot
 * differ unnoticed. */

/* In a protobuf any bytes may stand as an opcode; files are recognised by them, so those of a module that is written are
 * words. */
static stw_status check_opcodes(const stw_hlo_edit *edit) {
    for (int32_t k = 0; k < edit->m->instruction_count; k++) {
        const stw_hlo_instruction *i = &edit->m->instruction[k];
        bool fits = i->opcode.length > 0 && i->opcode.length < 64;
        for (int64_t c = 0; fits && c < i->opcode.length; c++) {
            const char letter = i->opcode.p[c];
            fits = (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '-';
        }
        if (fits || edit->is_text) continue;
        return stw_fail(edit->error, STW_ERROR_INPUT,
                        "instruction %d has no opcode that is a word of small letters; the module is damaged", k);
    }
    return STW_OK;
}

/* The entry may lose instructions, so that a number beyond all of them would no longer be read. */
static stw_status check_parameters(const stw_hlo_edit *edit) {
    for (int32_t k = 0; k < edit->entry->parameter.count; k++) {
        if (stw_hlo_number(edit, edit->entry->parameter, k) >= 0) continue;
        return stw_fail(edit->error, STW_ERROR_INPUT, "the entry computation has parameters up to %d, but no parameter(%d)",
                        edit->entry->parameter.count - 1, k);
    }
    return STW_OK;
}

/* Readers of parts are led past tuples, so these must be of what they say. */
static stw_status check_tuples(const stw_hlo_edit *edit) {
    const stw_hlo_module *m = edit->m;
    for (int32_t k = 0; k < m->instruction_count; k++) {
        const stw_hlo_instruction *i = &m->instruction[k];
        if (i->rule != STW_HLO_TUPLE) continue;
        const stw_hlo_shape *whole = stw_hlo_shape_of(m, i);
        bool fits = whole->rank == i->operand.count;
        for (int32_t o = 0; fits && o < whole->rank; o++) {
            fits = stw_hlo_are_alike(m, &m->shape[whole->first + o], stw_hlo_shape_of(m, stw_hlo_operand(m, i, o)));
        }
        if (fits) continue;
        return stw_fail(edit->error, STW_ERROR_INPUT, "instruction '%.*s' (tuple): its shape is not that of its operands",
                        STW_STR_SHOW(i->name));
    }
    return STW_OK;
}

/* What may be written over a parameter, or a part of it, is one output. */
static stw_status check_aliases(stw_hlo_edit *edit) {
    for (int32_t a = 0; a < edit->m->alias_count; a++) {
        const stw_hlo_alias *alias = &edit->m->alias[a];
        const int32_t steps = alias->parameter_part.count;
        bool fresh = true;
        int64_t *key; /* the parameter and the path, as a name */
        if (alias->parameter < 0 || alias->parameter >= edit->entry->parameter.count) continue;
        STW_TRY_NEW(edit->arena, key, (int64_t)steps + 1, edit->error);
        key[0] = alias->parameter;
        for (int32_t k = 0; k < steps; k++) key[k + 1] = stw_hlo_number(edit, alias->parameter_part, k);
        const stw_str name = {(const char *)key, (steps + 1) * (int64_t)sizeof *key};
        TRY(stw_hlo_set_name(edit->m, STW_HLO_ALIAS_SCOPE, name, 0, &fresh, edit->error));
        if (fresh) continue;
        return stw_fail(edit->error, STW_ERROR_INPUT,
                        "input_output_alias names parameter %lld twice; one output can be written over it, so keep one",
                        (long long)alias->parameter);
    }
    return STW_OK;
}

static stw_status look_behind_views(stw_hlo_edit *edit) {
    bool *is_op; /* (entry->count) */
    STW_TRY_NEW(edit->arena, is_op, edit->entry->count, edit->error);
    for (int32_t k = 0; k < edit->entry->count; k++) is_op[k] = edit->op_node[k] >= 0;
    TRY(stw_hlo_look_through(edit->m, edit->entry, edit->arena, &edit->behind, edit->error));
    return stw_hlo_find_roots(edit->m, edit->entry, is_op, edit->behind, edit->arena, &edit->view_root, edit->error);
}

static stw_status match_nodes(stw_hlo_edit *edit, const stw_graph *graph, const int32_t *instruction_of) {
    STW_TRY_NEW(edit->arena, edit->op_node, edit->entry->count, edit->error);
    STW_TRY_NEW(edit->arena, edit->op_at, graph->N, edit->error);
    for (int32_t k = 0; k < edit->entry->count; k++) edit->op_node[k] = -1;
    for (int32_t i = 0; i < graph->N; i++) {
        edit->op_at[i] = graph->kind[i] == STW_NODE_OP ? instruction_of[graph->origin[i]] : -1;
        if (edit->op_at[i] >= 0) edit->op_node[stw_hlo_local(edit, edit->op_at[i])] = i;
    }
    TRY(look_behind_views(edit));
    return stw_hlo_name_homes(edit, graph, instruction_of);
}

static stw_status check_same(const stw_hlo_edit *edit, const stw_graph *graph) {
    const stw_str read = stw_str_of(edit->e->graph->fingerprint);
    if (graph->N == edit->e->graph->N && stw_str_is(read, graph->fingerprint)) return STW_OK;
    return stw_fail(edit->error, STW_ERROR_INPUT,
                    "the module '%.*s' is not the one that the plan's graph was read from (%d nodes, not %d); was it changed?",
                    STW_STR_SHOW(edit->m->name), graph->N, edit->e->graph->N);
}

/* The tasks: the simulator has accepted the groups already. */
static stw_status find_tasks(stw_hlo_edit *edit) {
    const stw_export *e = edit->e;
    stw_str reason = {0};
    TRY(stw_membership_build(e->graph, e->machine, e->plan->group, e->plan->device, edit->arena, &edit->tasks, &reason,
                             edit->error));
    if (reason.length > 0) return stw_fail(edit->error, STW_ERROR_NO_PLAN, "%.*s", (int)reason.length, reason.p);
    STW_TRY_NEW(edit->arena, edit->fused_of, edit->tasks.T, edit->error);
    for (int32_t t = 0; t < edit->tasks.T; t++) {
        const bool several = edit->tasks.member_start[t + 1] - edit->tasks.member_start[t] > 1;
        edit->fused_of[t] = several ? edit->fused_count++ : -1;
    }
    STW_TRY_NEW(edit->arena, edit->fused, edit->fused_count, edit->error);
    for (int32_t t = 0; t < edit->tasks.T; t++) {
        if (edit->fused_of[t] >= 0) edit->fused[edit->fused_of[t]].task = t;
    }
    return STW_OK;
}

static stw_status match(stw_hlo_edit *edit) {
    stw_graph *graph = NULL;
    int32_t *instruction_of = NULL;
    TRY(check_opcodes(edit));
    TRY(check_parameters(edit));
    TRY(check_tuples(edit));
    TRY(check_aliases(edit));
    TRY(stw_hlo_build(edit->m, edit->arena, &graph, &instruction_of, edit->error));
    stw_status status = check_same(edit, graph);
    if (status == STW_OK) status = match_nodes(edit, graph, instruction_of);
    stw_graph_destroy(graph);
    return status == STW_OK ? find_tasks(edit) : status;
}

/* ---- the steps ---- */

/* Plans into HLO modules: reads the module again, applies the plan, writes it as it came. */

stw_status stw_hlo_add_item(stw_hlo_edit *edit, const stw_hlo_item *item, int32_t *out) {
    STW_HLO_RESERVE(edit->arena, edit->item, edit->item_count, edit->item_room, edit->error);
    edit->item[edit->item_count] = *item;
    *out = edit->item_count++;
    return STW_OK;
}

stw_status stw_hlo_add_list(stw_hlo_edit *edit, const int64_t *number, int32_t count, stw_hlo_range *out) {
    *out = (stw_hlo_range){edit->m->number_count, count};
    for (int32_t k = 0; k < count; k++) TRY(stw_hlo_add_number(edit->m, number[k], edit->error));
    return STW_OK;
}

/* The last field of a number, which is the one that counts, and the bytes that it takes; of one type, or of any (-1). All
 * zero: there is none. */
static stw_pb_field last_field(stw_str message, int64_t number, int type, stw_str *whole) {
    stw_error ignored = {0};
    stw_pb_field found = {0};
    stw_pb_file file = stw_pb_open(message, &ignored);
    stw_pb fields = stw_pb_message(&file);
    *whole = (stw_str){0};
    for (stw_pb_field f; stw_pb_next(&fields, &f);) {
        if (f.number != number || (type >= 0 && (int)f.type != type)) continue;
        found = f;
        *whole = (stw_str){f.at, (int64_t)(fields.cursor - f.at)};
    }
    return found;
}

stw_str stw_hlo_field(stw_str message, int64_t number) {
    stw_str whole;
    last_field(message, number, -1, &whole);
    return whole;
}

stw_str stw_hlo_content(stw_str message, int64_t number) {
    return last_field(message, number, STW_PB_BYTES, &(stw_str){0}).bytes;
}

int64_t stw_hlo_int_of(stw_str message, int64_t field) {
    return (int64_t)last_field(message, field, STW_PB_VARINT, &(stw_str){0}).value;
}

/* By what the reader has found: an instruction lies within. */
stw_str stw_hlo_module_bytes(const stw_hlo_module *m, stw_str file) {
    const char *inside = m->instruction[0].attributes.p;
    stw_error ignored = {0};
    stw_pb_file opened = stw_pb_open(file, &ignored);
    stw_pb fields = stw_pb_message(&opened);
    for (stw_pb_field f; stw_pb_next(&fields, &f);) {
        if (f.number != HLO_PROTO_MODULE || f.type != STW_PB_BYTES) continue;
        if (inside >= f.bytes.p && inside < f.bytes.p + f.bytes.length) return f.bytes;
    }
    return file;
}

stw_str stw_hlo_fusion_kind(const stw_hlo_edit *edit, const stw_hlo_instruction *i) {
    return edit->is_text ? stw_hlo_attribute(i->attributes, "kind", NULL) : stw_hlo_content(i->attributes, HLO_FUSION_KIND);
}

/* ---- the whole ---- */

/* Whatever is packed into a tuple with something late stands behind it, which the plan does not know of: where that closes a
 * cycle, nobody takes parts of tuples any more. Then the entry has the order of the plan's tasks, and these have no cycle. */
static stw_status link_entry(stw_hlo_edit *edit) {
    const int32_t bodies = edit->item_count;
    bool is_cyclic = false;
    TRY(stw_hlo_link(edit));
    TRY(stw_hlo_find_cycle(edit, &is_cyclic));
    if (!is_cyclic) return STW_OK;
    edit->item_count = bodies;
    edit->output_count = 0;
    edit->unpacks_all = true;
    return stw_hlo_link(edit);
}

/* The plan applied to e->model: bytes of the same kind, in the arena. */
static stw_status apply_plan(stw_export *e, stw_str *out, stw_error *error) {
    stw_hlo_edit edit = {.e = e, .arena = e->arena, .bytes = e->model, .error = error};
    edit.is_text = stw_hlo_text_is(e->model);
    if (!edit.is_text && !stw_hlo_proto_is(e->model)) {
        return stw_fail(error, STW_ERROR_INPUT, "the graph is not an HLO module, so its plan cannot be written as one; see --to");
    }
    TRY(edit.is_text ? stw_hlo_text_parse(e->model, e->arena, &edit.m, error)
                     : stw_hlo_proto_parse(e->model, e->arena, &edit.m, error));
    edit.entry = &edit.m->computation[edit.m->entry];
    TRY(match(&edit));
    TRY(stw_hlo_fuse(&edit));
    TRY(link_entry(&edit));
    TRY(stw_hlo_name(&edit));
    TRY(stw_hlo_order(&edit));
    TRY(stw_hlo_mark_entry(&edit));
    return edit.is_text ? stw_hlo_write_text(&edit, out) : stw_hlo_write_proto(&edit, out);
}

stw_status stw_export_hlo(stw_export *e, stw_error *error) {
    stw_str bytes;
    TRY(apply_plan(e, &bytes, error));
    fwrite(bytes.p, 1, (size_t)bytes.length, e->out);
    return STW_OK;
}

stw_status stw_export_hlo_text(stw_export *e, stw_error *error) {
    stw_str bytes, text;
    TRY(apply_plan(e, &bytes, error));
    text = bytes;
    if (!stw_hlo_text_is(bytes)) TRY(stw_hlo_print(bytes, e->arena, &text, error));
    fwrite(text.p, 1, (size_t)text.length, e->out);
    return STW_OK;
}
