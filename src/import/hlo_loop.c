/* Loops of HLO: how often they run, and what of their state they leave alone. */
#include "import/hlo.h"

stw_hlo_direction stw_hlo_find_direction(stw_str text) {
    static const char *const names[] = {"", "LT", "LE", "GT", "GE"}; /* in the order of the enum */
    int k = 0;
    while (k < STW_HLO_OTHER && !stw_str_is(text, names[k])) k++;
    return (stw_hlo_direction)k;
}

bool stw_hlo_while_passes(const stw_hlo_module *m, const stw_hlo_instruction *loop, int32_t k) {
    const stw_hlo_computation *body = &m->computation[m->number[loop->called.first]];
    const stw_hlo_instruction *root = &m->instruction[body->root];
    if (root->rule != STW_HLO_TUPLE || k >= root->operand.count) return false;
    const stw_hlo_instruction *part = stw_hlo_operand(m, root, k);
    return part->rule == STW_HLO_PART && part->number == k && stw_hlo_operand(m, part, 0)->rule == STW_HLO_PARAMETER;
}

/* The integer that an operand of the condition holds at the start: a constant there, or in the loop's initial state. */
static bool find_value(const stw_hlo_module *m, const stw_hlo_instruction *loop, const stw_hlo_instruction *i, int64_t *out) {
    if (i->rule == STW_HLO_PART && stw_hlo_operand(m, i, 0)->rule == STW_HLO_PARAMETER) {
        const stw_hlo_instruction *state = stw_hlo_operand(m, loop, 0);
        if (state->rule != STW_HLO_TUPLE || i->number >= state->operand.count) return false;
        i = stw_hlo_operand(m, state, (int32_t)i->number);
        if (i->rule != STW_HLO_CONSTANT && i->operand.count == 1) i = stw_hlo_operand(m, i, 0); /* a copy of one */
    }
    *out = i->value;
    return i->has_value;
}

static bool read_known_count(stw_str config, int64_t *out) {
    const stw_str count = stw_hlo_find_after(config, "known_trip_count");
    const char *cursor = count.p;
    return count.length > 0 && stw_hlo_next_number(&cursor, count.p + count.length, out);
}

/* By how much the body changes what the condition compares: a constant that it adds or takes away, else 1. */
static int64_t step_of(const stw_hlo_module *m, const stw_hlo_instruction *loop, const stw_hlo_instruction *compared) {
    const stw_hlo_computation *body = &m->computation[m->number[loop->called.first]];
    const stw_hlo_instruction *root = &m->instruction[body->root];
    const bool is_state = compared->rule == STW_HLO_PART && stw_hlo_operand(m, compared, 0)->rule == STW_HLO_PARAMETER;
    if (!is_state || root->rule != STW_HLO_TUPLE || compared->number >= root->operand.count) return 1;
    const stw_hlo_instruction *next = stw_hlo_operand(m, root, (int32_t)compared->number);
    if (!(stw_str_is(next->opcode, "add") || stw_str_is(next->opcode, "subtract"))) return 1;
    for (int32_t k = 0; k < next->operand.count; k++) {
        const stw_hlo_instruction *by = stw_hlo_operand(m, next, k);
        if (by->has_value && by->value != INT64_MIN && by->value != 0) return by->value < 0 ? -by->value : by->value;
    }
    return 1;
}

/* From the condition: a comparison with a constant, or with what the state begins with. False: it is not known; *out is then the
 * best there is, or as it was. */
static bool count_trips(const stw_hlo_module *m, const stw_hlo_instruction *loop, int64_t *out) {
    const stw_hlo_computation *condition = &m->computation[m->number[loop->called.first + 1]];
    const stw_hlo_instruction *root = &m->instruction[condition->root];
    int64_t limit = 0, first = 0, step = 1;
    bool is_known = true;
    if (root->direction != STW_HLO_NO_DIRECTION && root->operand.count == 2) {
        /* a > b is b < a: of a loop that counts down the start is the limit */
        const bool swapped = root->direction == STW_HLO_GREATER || root->direction == STW_HLO_GREATER_EQUAL;
        const stw_hlo_instruction *high = stw_hlo_operand(m, root, swapped ? 0 : 1),
                                  *low = stw_hlo_operand(m, root, swapped ? 1 : 0);
        if (!find_value(m, loop, high, &limit)) return false;
        is_known = find_value(m, loop, low, &first);
        if (!is_known) first = 0;
        const int64_t steps[] = {step_of(m, loop, low), step_of(m, loop, high)};
        step = steps[0] > steps[1] ? steps[0] : steps[1];
    } else if (condition->constants == 1) { /* a comparison that is fused */
        limit = condition->constant;
    } else {
        return false;
    }
    const bool inclusive = root->direction == STW_HLO_LESS_EQUAL || root->direction == STW_HLO_GREATER_EQUAL;
    if (inclusive && limit < INT64_MAX) limit++;
    int64_t distance = 0;
    if (__builtin_sub_overflow(limit, first, &distance)) return false;
    *out = distance / step + (distance % step > 0);
    return is_known;
}

int64_t stw_hlo_trip_count(const stw_hlo_module *m, const stw_hlo_instruction *loop, bool *is_known) {
    int64_t trips = 1;
    *is_known = read_known_count(loop->config, &trips) || count_trips(m, loop, &trips);
    return trips > 1 ? trips : 1;
}
