/* What of each value inside a fusion is needed: a fusion computes only what its results ask for, and reads no more of its
 * parameters. A sum of which a slice is taken is summed in the slice alone. */
#include <math.h>

#include "import/hlo.h"

static int64_t elements_of_operand(const stw_hlo_module *m, const stw_hlo_instruction *i, int32_t k) {
    return stw_hlo_shape_of(m, stw_hlo_operand(m, i, k))->elements;
}

/* How many elements of operand k it takes to have `count` of the result. A slice hands on what it reads; an update in place
 * leaves the rest of its target alone; of a reduction each element takes its share of the input. */
static int64_t needed_of_operand(const stw_hlo_module *m, const stw_hlo_instruction *i, int32_t k, int64_t count) {
    const int64_t all = stw_hlo_shape_of(m, i)->elements, whole = elements_of_operand(m, i, k);
    switch ((stw_hlo_rule)i->rule) {
        case STW_HLO_SLICE: return k == 0 && count < whole ? count : whole;
        case STW_HLO_UPDATE: return k == 0 ? 0 : whole;
        case STW_HLO_BITCAST:
        case STW_HLO_RESHAPE:
        case STW_HLO_TRANSPOSE:
        case STW_HLO_ELEMENTWISE:
        case STW_HLO_MOVE:
        case STW_HLO_REDUCE:
            if (count >= all || stw_hlo_shape_of(m, i)->kind != STW_HLO_ARRAY) return whole;
            if (whole < all) return whole < count ? whole : count; /* a broadcast value, or a piece of what is put together */
            return (int64_t)ceil((double)whole * ((double)count / (double)all));
        default: return whole;
    }
}

void stw_hlo_find_needed(const stw_hlo_module *m, const stw_hlo_computation *body, int64_t *needed) {
    needed[body->root] = stw_hlo_shape_of(m, &m->instruction[body->root])->elements;
    for (int32_t index = body->first + body->count - 1; index >= body->first; index--) {
        const stw_hlo_instruction *i = &m->instruction[index];
        if (needed[index] == 0) continue;
        for (int32_t k = 0; k < i->operand.count; k++) {
            const int64_t operand = m->number[i->operand.first + k], whole = elements_of_operand(m, i, k);
            const int64_t sum = stw_hlo_add(needed[operand], needed_of_operand(m, i, k, needed[index]));
            needed[operand] = sum < whole ? sum : whole;
        }
    }
}
