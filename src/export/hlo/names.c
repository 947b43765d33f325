/* Names and ids of all that is new, and which computations nobody calls any more. Copies keep their name where the original is
 * gone, so that members can be found again in the fused computations. */
#include "export/hlo/edit.h"
#include "import/hlo/hlo_fields.h"

typedef struct namer {
    stw_hlo_edit *edit;
    int64_t counter;
    bool *is_called;       /* (computation_count) */
    int32_t *computation;  /* (instruction_count) of an instruction */
    int64_t largest_entry; /* ids */
    int64_t largest, largest_computation;
} namer;

/* ---- computations ---- */

static void mark_called(const stw_hlo_module *m, const stw_hlo_instruction *i, bool *is_called) {
    for (int32_t k = 0; k < i->called.count; k++) is_called[m->number[i->called.first + k]] = true;
}

/* Callees come before callers, so one pass from the end sees all. */
static void follow_calls(const stw_hlo_edit *edit, bool *is_called) {
    for (int32_t c = edit->m->computation_count; c-- > 0;) {
        const stw_hlo_computation *from = &edit->m->computation[c];
        if (!is_called[c] || c == edit->m->entry) continue;
        for (int32_t k = from->first; k < from->first + from->count; k++) mark_called(edit->m, stw_hlo_at(edit, k), is_called);
    }
}

static stw_status find_dropped(namer *n) {
    stw_hlo_edit *edit = n->edit;
    const stw_hlo_module *m = edit->m;
    bool *before;
    STW_TRY_NEW(edit->arena, before, m->computation_count, edit->error);
    STW_TRY_NEW(edit->arena, n->is_called, m->computation_count, edit->error);
    STW_TRY_NEW(edit->arena, edit->dropped, m->computation_count, edit->error);
    STW_TRY_NEW(edit->arena, n->computation, m->instruction_count, edit->error);
    for (int32_t k = 0; k < m->instruction_count; k++) mark_called(m, &m->instruction[k], before);
    for (int32_t c = 0; c < m->computation_count; c++) { /* those that were never called stay, and what they call */
        n->is_called[c] = !before[c];
        const stw_hlo_computation *at = &m->computation[c];
        for (int32_t k = at->first; k < at->first + at->count; k++) n->computation[k] = c;
    }
    for (int32_t k = 0; k < edit->item_count; k++) {
        if (edit->item[k].kind == STW_ITEM_COPY) mark_called(m, stw_hlo_at(edit, edit->item[k].source), n->is_called);
    }
    follow_calls(edit, n->is_called);
    for (int32_t c = 0; c < m->computation_count; c++) edit->dropped[c] = !n->is_called[c] && c != m->entry;
    return STW_OK;
}

/* ---- names ---- */

static stw_status claim(namer *n, int32_t scope, stw_str name, bool *fresh) {
    return stw_hlo_set_name(n->edit->m, scope, name, 0, fresh, n->edit->error);
}

/* "base.7": a name that no instruction or computation has. */
static stw_status invent(namer *n, const char *base, int64_t length, stw_str *out) {
    for (bool fresh = false; !fresh;) {
        *out = stw_str_format(n->edit->arena, "%.*s.%lld", (int)length, base, (long long)++n->counter);
        if (out->p == NULL) return stw_fail(n->edit->error, STW_ERROR_MEMORY, "out of memory");
        if (stw_hlo_find_name(n->edit->m, STW_HLO_NEW_NAMES, *out) >= 0) continue;
        TRY(claim(n, STW_HLO_OLD_NAMES, *out, &fresh));
    }
    return STW_OK;
}

static stw_status invent_like(namer *n, const char *base, stw_str *out) {
    return invent(n, base, (int64_t)stw_str_of(base).length, out);
}

static stw_status name_copy(namer *n, stw_hlo_item *item) {
    stw_hlo_edit *edit = n->edit;
    const stw_hlo_instruction *i = stw_hlo_at(edit, item->source);
    const int32_t home = n->computation[item->source];
    const int32_t stays = home == edit->m->entry ? edit->item_of[stw_hlo_local(edit, item->source)] : -1;
    bool gone = home == edit->m->entry ? stays < 0 || edit->item[stays].kind != STW_ITEM_COPY : edit->dropped[home];
    if (gone) TRY(claim(n, STW_HLO_NEW_NAMES, i->name, &gone));
    item->name = i->name;
    return gone ? STW_OK : invent(n, i->name.p, i->name.length < 1000 ? i->name.length : 1000, &item->name);
}

static stw_status name_item(namer *n, stw_hlo_item *item, bool is_entry) {
    const stw_hlo_instruction *i = stw_hlo_at(n->edit, item->source);
    switch ((stw_hlo_item_kind)item->kind) {
        case STW_ITEM_PARAMETER: return invent_like(n, "stowage_parameter", &item->name);
        case STW_ITEM_TUPLE: return invent_like(n, "stowage_results", &item->name);
        case STW_ITEM_FUSION: return invent_like(n, "stowage_fusion", &item->name);
        case STW_ITEM_PART:
            item->name = i->name;
            return i->rule == STW_HLO_PART ? STW_OK : invent_like(n, "stowage_result", &item->name);
        default: item->name = i->name; return is_entry ? STW_OK : name_copy(n, item);
    }
}

/* ---- ids ---- */

static int64_t id_of(stw_str message) { return stw_hlo_int_of(message, HLO_ID); }

static void find_largest(namer *n) {
    const stw_hlo_module *m = n->edit->m;
    for (int32_t k = 0; k < m->instruction_count; k++) {
        const int64_t id = id_of(m->instruction[k].attributes);
        if (id > n->largest) n->largest = id;
        if (n->computation[k] == m->entry && id > n->largest_entry) n->largest_entry = id;
    }
    for (int32_t c = 0; c < m->computation_count; c++) {
        if (m->computation[c].id > n->largest_computation) n->largest_computation = m->computation[c].id;
    }
}

static stw_status next_id(namer *n, int64_t *last, int64_t most, int64_t *out) {
    if (*last >= most) {
        return stw_fail(n->edit->error, STW_ERROR_INPUT,
                        "the module has ids up to %lld, which leaves none for what is new; renumber it", (long long)*last);
    }
    *out = ++*last;
    return STW_OK;
}

/* Newer versions of XLA put the id of the computation into the upper half of an instruction's. */
static bool has_halves(const namer *n) {
    const int64_t entry = n->edit->entry->id;
    return entry > 0 && n->largest_entry >> 32 == entry;
}

static stw_status number_items(namer *n, int32_t first, int32_t count, int64_t *last, int64_t most) {
    for (int32_t k = first; k < first + count; k++) TRY(next_id(n, last, most, &n->edit->item[k].id));
    return STW_OK;
}

static stw_status number_fused(namer *n, stw_hlo_fused *fused) {
    const bool in_halves = has_halves(n);
    TRY(next_id(n, &n->largest_computation, in_halves ? INT32_MAX : INT64_MAX, &fused->id));
    int64_t own = in_halves ? fused->id * ((int64_t)1 << 32) - 1 : 0; /* the last id of the computation before */
    int64_t *last = in_halves ? &own : &n->largest;
    TRY(number_items(n, fused->first, fused->count, last, INT64_MAX));
    return number_items(n, fused->tail_first, fused->tail_count, last, INT64_MAX);
}

static stw_status number_entry(namer *n) {
    stw_hlo_edit *edit = n->edit;
    const bool in_halves = has_halves(n);
    int64_t *last = in_halves ? &n->largest_entry : &n->largest;
    const int64_t most = in_halves ? n->largest_entry | UINT32_MAX : INT64_MAX;
    for (int32_t k = 0; k < edit->entry_count; k++) {
        stw_hlo_item *item = &edit->item[edit->sequence[k]];
        item->id = id_of(stw_hlo_at(edit, item->source)->attributes);
        if (item->kind != STW_ITEM_COPY) TRY(next_id(n, last, most, &item->id));
    }
    return STW_OK;
}

stw_status stw_hlo_name(stw_hlo_edit *edit) {
    namer n = {.edit = edit};
    const stw_hlo_module *m = edit->m;
    bool fresh = true;
    TRY(find_dropped(&n));
    for (int32_t k = 0; k < m->instruction_count; k++) TRY(claim(&n, STW_HLO_OLD_NAMES, m->instruction[k].name, &fresh));
    for (int32_t c = 0; c < m->computation_count; c++) TRY(claim(&n, STW_HLO_OLD_NAMES, m->computation[c].name, &fresh));
    for (int32_t k = 0; k < edit->entry_count; k++) { /* first: a copy in a body must not take a name that stays */
        stw_hlo_item *item = &edit->item[edit->sequence[k]];
        TRY(name_item(&n, item, true));
        TRY(claim(&n, STW_HLO_NEW_NAMES, item->name, &fresh));
    }
    for (int32_t g = 0; g < edit->fused_count; g++) {
        stw_hlo_fused *fused = &edit->fused[g];
        TRY(invent_like(&n, "stowage_fused", &fused->name));
        for (int32_t k = 0; k < fused->count; k++) TRY(name_item(&n, &edit->item[fused->first + k], false));
        for (int32_t k = 0; k < fused->tail_count; k++) TRY(name_item(&n, &edit->item[fused->tail_first + k], false));
    }
    if (edit->is_text) return STW_OK;
    find_largest(&n);
    for (int32_t g = 0; g < edit->fused_count; g++) TRY(number_fused(&n, &edit->fused[g]));
    return number_entry(&n);
}
