/* Loops of HLO: how often they run, and what of their state they leave alone. */
#include "import/hlo/hlo.h"

stw_hlo_direction stw_hlo_find_direction(stw_str text) {
    static const char *const names[] = {"", "LT", "LE", "GT", "GE", "NE"}; /* in the order of the enum */
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

static bool is_state(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    return i->rule == STW_HLO_PART && stw_hlo_operand(m, i, 0)->rule == STW_HLO_PARAMETER;
}

/* By how much each turn changes what the condition compares: a constant that the body adds or takes away; 0 of a constant and of
 * what the body hands on. False: by something else. */
static bool find_step(const stw_hlo_module *m, const stw_hlo_instruction *loop, const stw_hlo_instruction *compared,
                      int64_t *out) {
    const stw_hlo_computation *body = &m->computation[m->number[loop->called.first]];
    const stw_hlo_instruction *root = &m->instruction[body->root];
    *out = 0;
    if (!is_state(m, compared)) return compared->has_value;
    if (root->rule != STW_HLO_TUPLE || compared->number >= root->operand.count) return false;
    if (stw_hlo_while_passes(m, loop, (int32_t)compared->number)) return true;
    const stw_hlo_instruction *next = stw_hlo_operand(m, root, (int32_t)compared->number);
    const bool adds = stw_str_is(next->opcode, "add"), takes = stw_str_is(next->opcode, "subtract");
    for (int32_t k = 0; (adds || takes) && next->operand.count == 2 && k < 2; k++) {
        const stw_hlo_instruction *by = stw_hlo_operand(m, next, k), *from = stw_hlo_operand(m, next, 1 - k);
        const bool counts = by->has_value && by->value != INT64_MIN && is_state(m, from) && from->number == compared->number;
        if (!counts || (takes && k == 0)) continue;
        *out = takes ? -by->value : by->value;
        return true;
    }
    return false;
}

/* Turns of `for (a = first; a DIRECTION limit; a += step)`. False: it does not end, or not by this. */
static bool count_turns(stw_hlo_direction direction, int64_t first, int64_t limit, int64_t step, int64_t *out) {
    const bool down =
        direction == STW_HLO_GREATER || direction == STW_HLO_GREATER_EQUAL || (direction == STW_HLO_NOT_EQUAL && step < 0);
    const bool inclusive = direction == STW_HLO_LESS_EQUAL || direction == STW_HLO_GREATER_EQUAL;
    int64_t distance = 0;
    if (direction == STW_HLO_OTHER || step == INT64_MIN || (down ? step >= 0 : step <= 0)) return false;
    const int64_t by = down ? -step : step;
    if (__builtin_sub_overflow(down ? first : limit, down ? limit : first, &distance)) return false;
    if (direction == STW_HLO_NOT_EQUAL && (distance < 0 || distance % by != 0)) return false;
    if (inclusive && __builtin_add_overflow(distance, 1, &distance)) return false;
    *out = distance <= 0 ? 0 : distance / by + (distance % by > 0);
    return true;
}

/* From the condition: a comparison of what the body counts with a constant, or with what the state begins with. False: it is not
 * known; *out is then the best there is, or as it was. */
static bool count_trips(const stw_hlo_module *m, const stw_hlo_instruction *loop, int64_t *out) {
    static const uint8_t turned[] = {STW_HLO_NO_DIRECTION, STW_HLO_GREATER,   STW_HLO_GREATER_EQUAL, STW_HLO_LESS,
                                     STW_HLO_LESS_EQUAL,   STW_HLO_NOT_EQUAL, STW_HLO_OTHER}; /* b ? a for a ? b */
    const stw_hlo_computation *condition = &m->computation[m->number[loop->called.first + 1]];
    const stw_hlo_instruction *root = &m->instruction[condition->root];
    if (root->direction == STW_HLO_NO_DIRECTION || root->operand.count != 2) {
        if (condition->constants == 1)
            *out = condition->constant; /* a comparison that is fused: from 0 on, more likely than not */
        return false;
    }
    for (int32_t side = 0; side < 2; side++) {
        const stw_hlo_instruction *counter = stw_hlo_operand(m, root, side), *other = stw_hlo_operand(m, root, 1 - side);
        const stw_hlo_direction direction = (stw_hlo_direction)(side == 0 ? root->direction : turned[root->direction]);
        int64_t first = 0, limit = 0, step = 0, still = 0;
        if (!is_state(m, counter) || !find_value(m, loop, other, &limit)) continue;
        const bool steady = find_step(m, loop, other, &still) && still == 0;
        const bool counts = find_step(m, loop, counter, &step) && step != 0, begins = find_value(m, loop, counter, &first);
        int64_t turns = 0;
        if (!counts) step = begins && first > limit ? -1 : 1; /* a guess */
        if (!count_turns(direction, begins ? first : 0, limit, step, &turns)) continue;
        *out = turns;
        return counts && steady && begins;
    }
    return false;
}

int64_t stw_hlo_trip_count(const stw_hlo_module *m, const stw_hlo_instruction *loop, bool *is_known) {
    int64_t trips = 1;
    *is_known = read_known_count(loop->config, &trips) || count_trips(m, loop, &trips);
    return trips > 1 ? trips : 1;
}
