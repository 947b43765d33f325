/* Fused computations: for each group of a plan a body of copies of its members. A member that is itself a loop fusion, as XLA
 * wraps single ops, is taken apart: the instructions of its body join the new one. What may be a member is no question here: the
 * simulator has accepted the groups by what the reader of modules says of each instruction (import/hlo/kernel_apart.c). */
#include <string.h>

#include "export/hlo/edit.h"

typedef struct inside_value { /* what an instruction of the entry is within the body that is being made */
    int32_t body;             /* the last one that it is in, + 1 */
    stw_hlo_result v;
} inside_value;

typedef struct fuser {
    stw_hlo_edit *edit;
    stw_hlo_fused *fused;
    int32_t number;       /* of fused, + 1 */
    inside_value *inside; /* (entry->count) */
    int32_t *inner;       /* (instruction_count) the item of an instruction of a member's body */
    int64_t *operand;     /* scratch for operands */
    int64_t operand_room;
    stw_vector outside;    /* what the fusion reads */
    stw_vector parameters; /* items */
} fuser;

/* ---- values ---- */

static stw_status reserve_operands(fuser *f, int32_t count) {
    return STW_GROW(f->edit->arena, f->operand, count, f->operand_room, f->edit->error);
}

/* A copy of `source` that reads the items in f->operand. */
static stw_status add_copy(fuser *f, int64_t source, int32_t *out) {
    stw_hlo_item item = {.kind = STW_ITEM_COPY, .group = -1, .source = (int32_t)source};
    const stw_hlo_instruction *i = stw_hlo_at(f->edit, source);
    item.number = (int32_t)i->number;
    TRY(stw_hlo_add_list(f->edit, f->operand, i->operand.count, &item.operand));
    return stw_hlo_add_item(f->edit, &item, out);
}

static stw_status add_parameter(fuser *f, int64_t instruction, int32_t *out) {
    const int32_t number = (int32_t)f->outside.count;
    const stw_hlo_item item = {.kind = STW_ITEM_PARAMETER, .group = -1, .source = (int32_t)instruction, .number = number};
    TRY(stw_hlo_add_item(f->edit, &item, out));
    if (!stw_vector_push(&f->outside, instruction) || !stw_vector_push(&f->parameters, *out)) {
        return stw_fail(f->edit->error, STW_ERROR_MEMORY, "out of memory");
    }
    return STW_OK;
}

static inside_value *inside_of(fuser *f, int64_t instruction) { return &f->inside[stw_hlo_local(f->edit, instruction)]; }
static bool is_inside(fuser *f, int64_t instruction) { return inside_of(f, instruction)->body == f->number; }

/* What a view is a view of. */
static int64_t step_back(const stw_hlo_edit *edit, int64_t view) {
    const stw_hlo_instruction *i = stw_hlo_at(edit, view);
    const int32_t behind = edit->behind[stw_hlo_local(edit, view)];
    if (behind != view) return behind;
    return i->operand.count == 0 || i->rule == STW_HLO_TUPLE ? -1 : stw_hlo_number(edit, i->operand, 0);
}

/* Does a chain of views lead to a member, or soon to a view that the body reads already? */
static bool leads_inside(fuser *f, int64_t instruction) {
    enum { FEW_STEPS = 32 }; /* chains have no bound, and every group may read their ends */
    if (is_inside(f, stw_hlo_root_of(f->edit, instruction))) return true;
    for (int step = 0; step < FEW_STEPS && instruction >= 0; step++) {
        if (is_inside(f, instruction)) return true;
        instruction = stw_hlo_is_view(f->edit, instruction) ? step_back(f->edit, instruction) : -1;
    }
    return false;
}

static bool is_single(const stw_hlo_edit *edit, const stw_hlo_instruction *i) {
    const stw_hlo_shape *shape = stw_hlo_shape_of(edit->m, i);
    return i->rule == STW_HLO_CONSTANT && shape->kind == STW_HLO_ARRAY && shape->elements == 1;
}

static void keep_inside(fuser *f, int64_t instruction, stw_hlo_result value) {
    *inside_of(f, instruction) = (inside_value){.body = f->number, .v = value};
}

/* A value that comes from elsewhere: a constant is copied, all else becomes a parameter. */
static stw_status take_in(fuser *f, int64_t instruction, stw_hlo_result *value) {
    *value = (stw_hlo_result){.item = -1};
    TRY(is_single(f->edit, stw_hlo_at(f->edit, instruction)) ? add_copy(f, instruction, &value->item)
                                                             : add_parameter(f, instruction, &value->item));
    keep_inside(f, instruction, *value);
    return STW_OK;
}

/* From a value in the body to what a view makes of it: the same, one of its parts, or a copy of the view. */
static stw_status follow_view(fuser *f, int64_t instruction, stw_hlo_result *value) {
    const stw_hlo_instruction *view = stw_hlo_at(f->edit, instruction);
    const bool is_alias = f->edit->behind[stw_hlo_local(f->edit, instruction)] != instruction;
    if (!is_alias && value->is_pack) { /* nothing but parts is taken of it: it would stand apart */
        *value = (stw_hlo_result){.item = (int32_t)stw_hlo_number(f->edit, value->pack, (int32_t)view->number)};
    } else if (!is_alias) {
        f->operand[0] = value->item;
        TRY(add_copy(f, instruction, &value->item));
    }
    keep_inside(f, instruction, *value);
    return STW_OK;
}

/* The item of a value that members read: a member, a view of one, a constant or a parameter. */
static stw_status find_value(fuser *f, int64_t instruction, int32_t *out) {
    stw_hlo_result value = {.item = -1};
    if (!leads_inside(f, instruction)) {
        TRY(take_in(f, instruction, &value));
        *out = value.item;
        return STW_OK;
    }
    stw_vector views = {.arena = f->edit->arena}; /* from the reader back to the member */
    int64_t member = instruction;
    for (; !is_inside(f, member); member = step_back(f->edit, member)) {
        if (!stw_vector_push(&views, member)) return stw_fail(f->edit->error, STW_ERROR_MEMORY, "out of memory");
    }
    value = inside_of(f, member)->v;
    for (int64_t k = views.count; k-- > 0;) TRY(follow_view(f, views.data[k], &value));
    *out = value.item;
    return STW_OK;
}

/* ---- members ---- */

static stw_status find_operands(fuser *f, const stw_hlo_instruction *i) {
    TRY(reserve_operands(f, i->operand.count));
    int64_t *item;
    STW_TRY_NEW(f->edit->arena, item, i->operand.count, f->edit->error);
    for (int32_t k = 0; k < i->operand.count; k++) {
        int32_t found = -1;
        TRY(find_value(f, stw_hlo_number(f->edit, i->operand, k), &found)); /* writes f->operand itself */
        item[k] = found;
    }
    if (i->operand.count > 0) memcpy(f->operand, item, (size_t)i->operand.count * sizeof *item);
    return STW_OK;
}

/* The body of a fusion, its parameters replaced by what the fusion reads. */
static stw_status take_apart(fuser *f, int64_t instruction) {
    stw_hlo_edit *edit = f->edit;
    const stw_hlo_instruction *fusion = stw_hlo_at(edit, instruction);
    const stw_hlo_computation *body = &edit->m->computation[stw_hlo_number(edit, fusion->called, 0)];
    TRY(find_operands(f, fusion));
    for (int32_t k = 0; k < body->parameter.count; k++) {
        const int64_t parameter = stw_hlo_number(edit, body->parameter, k);
        if (parameter >= 0) f->inner[parameter] = (int32_t)f->operand[k];
    }
    stw_hlo_result value = {.item = -1};
    for (int32_t k = body->first; k < body->first + body->count; k++) {
        const stw_hlo_instruction *i = stw_hlo_at(edit, k);
        if (i->rule == STW_HLO_PARAMETER) continue;
        TRY(reserve_operands(f, i->operand.count));
        for (int32_t o = 0; o < i->operand.count; o++) {
            const int64_t read = stw_hlo_number(edit, i->operand, o);
            f->operand[o] = f->inner[read];
        }
        if (k == body->root && i->rule == STW_HLO_TUPLE) {
            value.is_pack = true;
            TRY(stw_hlo_add_list(edit, f->operand, i->operand.count, &value.pack));
        } else {
            TRY(add_copy(f, k, &f->inner[k]));
        }
    }
    if (!value.is_pack) value.item = f->inner[body->root];
    keep_inside(f, instruction, value);
    return STW_OK;
}

static stw_status add_member(fuser *f, int64_t instruction) {
    const stw_hlo_instruction *i = stw_hlo_at(f->edit, instruction);
    if (i->rule == STW_HLO_FUSION) return take_apart(f, instruction);
    stw_hlo_result value = {.item = -1};
    TRY(find_operands(f, i));
    TRY(add_copy(f, instruction, &value.item));
    keep_inside(f, instruction, value);
    return STW_OK;
}

/* Instructions of a task, operands first: by insertion, for there are few. */
static int32_t sort_members(const stw_hlo_edit *edit, int32_t task, int32_t *list) {
    const stw_membership *tasks = &edit->tasks;
    const int32_t first = tasks->member_start[task], count = tasks->member_start[task + 1] - first;
    for (int32_t k = 0; k < count; k++) {
        const int32_t added = edit->op_at[tasks->member[first + k]];
        int32_t to = k;
        for (; to > 0 && list[to - 1] > added; to--) list[to] = list[to - 1];
        list[to] = added;
    }
    return count;
}

static stw_status fuse_group(fuser *f, int32_t number) {
    stw_hlo_edit *edit = f->edit;
    f->fused = &edit->fused[number];
    f->number = number + 1;
    f->outside.count = f->parameters.count = 0;
    f->fused->first = edit->item_count;
    int32_t list[STW_MAX_GROUP_MEMBERS];
    const int32_t count = sort_members(edit, f->fused->task, list);
    for (int32_t k = 0; k < count; k++) {
        TRY(add_member(f, list[k]));
        if (stw_hlo_fused_of(edit, list[k]) == number) edit->result[stw_hlo_local(edit, list[k])] = inside_of(f, list[k])->v;
    }
    f->fused->count = edit->item_count - f->fused->first;
    TRY(stw_hlo_add_list(edit, f->outside.data, (int32_t)f->outside.count, &f->fused->outside));
    return stw_hlo_add_list(edit, f->parameters.data, (int32_t)f->parameters.count, &f->fused->parameter);
}

stw_status stw_hlo_fuse(stw_hlo_edit *edit) {
    fuser f = {.edit = edit, .outside = {.arena = edit->arena}, .parameters = {.arena = edit->arena}};
    if (edit->fused_count == 0) return STW_OK;
    STW_TRY_NEW(edit->arena, f.inside, edit->entry->count, edit->error);
    STW_TRY_NEW(edit->arena, f.inner, edit->m->instruction_count, edit->error);
    TRY(reserve_operands(&f, 64));
    STW_TRY_NEW(edit->arena, edit->result, edit->entry->count, edit->error);
    for (int32_t k = 0; k < edit->fused_count; k++) TRY(fuse_group(&f, k));
    return STW_OK;
}
