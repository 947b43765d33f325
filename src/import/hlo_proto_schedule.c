/* The schedule of an HloModuleProto. In text a scheduled computation stands in its order; in a protobuf the order stands apart
 * (HloScheduleProto), and the entry's instructions are put into it. */
#include <string.h>

#include "import/hlo_proto.h"

static stw_status fail_at(stw_hlo_proto *p, const char *at, const char *why) {
    stw_pb_fail(&p->file, at, "the schedule of the entry computation %s", why);
    return STW_ERROR_INPUT;
}

/* The instructions' new indices by their old ones, less the first of the computation. */
static stw_status find_places(stw_hlo_proto *p, const stw_hlo_computation *c, stw_hlo_range ids, const char *at, int32_t **out) {
    int32_t *place;
    STW_TRY_NEW(p->module->arena, place, c->count, p->error);
    for (int32_t k = 0; k < c->count; k++) place[k] = -1;
    if (ids.count != c->count) return fail_at(p, at, "does not list every instruction once");
    for (int32_t k = 0; k < ids.count; k++) {
        const int32_t instruction = stw_hlo_find_id(p, p->module->entry, p->module->number[ids.first + k]);
        if (instruction < 0) return fail_at(p, at, "lists an instruction that is not there");
        if (place[instruction - c->first] >= 0) return fail_at(p, at, "does not list every instruction once");
        place[instruction - c->first] = c->first + k;
    }
    *out = place;
    return STW_OK;
}

static bool move_list(stw_hlo_module *m, stw_hlo_range list, const stw_hlo_computation *c, const int32_t *place, int32_t reader) {
    bool before = true;
    for (int32_t k = 0; k < list.count; k++) {
        int64_t *number = &m->number[list.first + k];
        if (*number >= 0) *number = place[*number - c->first];
        before &= *number < reader;
    }
    return before;
}

static stw_status reorder(stw_hlo_proto *p, stw_hlo_range ids, const char *at) {
    stw_hlo_module *m = p->module;
    stw_hlo_computation *c = &m->computation[m->entry];
    int32_t *place = NULL;
    stw_hlo_instruction *copy;
    TRY(find_places(p, c, ids, at, &place));
    STW_TRY_NEW(m->arena, copy, c->count, p->error);
    memcpy(copy, &m->instruction[c->first], (size_t)c->count * sizeof *copy);
    for (int32_t k = 0; k < c->count; k++) {
        const bool operands = move_list(m, copy[k].operand, c, place, place[k]);
        const bool control = move_list(m, copy[k].control, c, place, place[k]);
        if (!operands || !control) return fail_at(p, at, "has an instruction before what it reads");
        m->instruction[place[k]] = copy[k];
    }
    move_list(m, c->parameter, c, place, INT32_MAX);
    c->root = place[c->root - c->first];
    return STW_OK;
}

/* sequences (1): a map from computation ids (1) to instruction_ids (2: 1). */
stw_status stw_hlo_proto_schedule(stw_hlo_proto *p, stw_pb schedule) {
    const stw_hlo_computation *entry = &p->module->computation[p->module->entry];
    for (stw_pb_field f; stw_pb_next(&schedule, &f);) {
        stw_pb sequence, ids = {0};
        int64_t id = 0;
        if (f.number != 1 || !stw_pb_enter(&schedule, &f, &sequence)) continue;
        for (stw_pb_field g; stw_pb_next(&sequence, &g);) {
            if (g.number == 1) stw_pb_int(&sequence, &g, &id);
            if (g.number == 2) stw_pb_enter(&sequence, &g, &ids);
        }
        TRY(stw_hlo_proto_state(p));
        if (id != entry->id || ids.file == NULL) continue;
        stw_hlo_range list = {0};
        TRY(stw_hlo_proto_numbers(p, ids, 1, &list));
        return reorder(p, list, f.at);
    }
    return stw_hlo_proto_state(p);
}
