/* Loops of TensorFlow: what a turn does to the counter, and how many turns there are. */
#include "import/graphdef_function.h"

enum { CHAIN = 100 }; /* Identities that are followed; longer chains may be cycles */

/* What an Identity hands on. */
static stw_tf_edge look_through(const stw_tf_graph *g, stw_tf_edge edge) {
    for (int steps = 0; steps < CHAIN; steps++) {
        const stw_str op = g->model->node[edge.from].op;
        const stw_tf_range in = g->facts[edge.from].inputs;
        const bool hands_on = stw_str_is(op, "Identity") || stw_str_is(op, "IdentityN") || stw_str_is(op, "StopGradient");
        if (!hands_on || edge.output >= in.count) break;
        edge = g->edge[in.start + edge.output];
    }
    return edge;
}

static bool is_argument(const stw_tf_frame *f, stw_tf_edge edge, int64_t k) {
    edge = look_through(&f->graph, edge);
    return edge.from == k && k < f->graph.argument_count && edge.output == 0;
}

static stw_tf_edge operand(const stw_tf_graph *g, int32_t node, int64_t k) { return g->edge[g->facts[node].inputs.start + k]; }

void stw_tf_find_passing(const stw_tf_frame *body, stw_tf_state *state, int64_t count) {
    for (int64_t k = 0; k < count && k < body->out_count; k++) state[k].passes = is_argument(body, body->out[k], k);
}

/* One that is added or taken away, where the other operand is the state. */
static bool find_step(const stw_tf_frame *body, int64_t k, int64_t *step) {
    const stw_tf_graph *g = &body->graph;
    const int32_t node = look_through(g, body->out[k]).from;
    const stw_str op = g->model->node[node].op;
    const bool takes = stw_str_is(op, "Sub"), adds = stw_str_is(op, "Add") || stw_str_is(op, "AddV2");
    if (!(takes || adds) || g->facts[node].inputs.count != 2) return false;
    for (int by = 0; by < 2; by++) {
        const stw_tf_ints value = stw_tf_ints_of(g, operand(g, node, by));
        if (!is_argument(body, operand(g, node, 1 - by), k) || value.count != 1 || (takes && by == 0)) continue;
        *step = value.value[0];
        return !takes || !__builtin_sub_overflow((int64_t)0, *step, step);
    }
    return false;
}

void stw_tf_find_steps(const stw_tf_frame *body, stw_tf_state *state, int64_t count) {
    for (int64_t k = 0; k < count && k < body->out_count; k++) {
        state[k].has_step = state[k].passes || find_step(body, k, &state[k].step);
    }
}

typedef struct {
    const stw_tf_frame *condition;
    const stw_tf_state *state;
    int64_t count;
} loop;

static stw_tf_state state_at(const loop *l, stw_tf_edge edge) {
    const stw_tf_graph *g = &l->condition->graph;
    edge = look_through(g, edge);
    if (edge.from < g->argument_count) return edge.from < l->count ? l->state[edge.from] : (stw_tf_state){0};
    const stw_tf_ints value = stw_tf_ints_of(g, edge);
    stw_tf_state constant = {.has_first = value.count == 1, .has_step = value.count == 1};
    if (constant.has_first) constant.first = value.value[0];
    return constant;
}

/* low < high, or low <= high. False: it is not known; *turns is then what the limit says, or as it was. */
static bool count_between(stw_tf_state low, stw_tf_state high, bool inclusive, int64_t *turns) {
    int64_t distance = 0, step = 1;
    const bool steps = low.has_step && high.has_step && !__builtin_sub_overflow(low.step, high.step, &step) && step > 0;
    const bool is_known = low.has_first && high.has_first && steps;
    if (!high.has_first) return false;
    if (!low.has_first) low.first = 0;
    if (!steps) step = 1;
    if (__builtin_sub_overflow(high.first, low.first, &distance)) return false;
    if (inclusive && __builtin_add_overflow(distance, (int64_t)1, &distance)) return false;
    *turns = distance <= 0 ? 0 : distance / step + (distance % step > 0);
    return is_known;
}

/* A comparison, or several that must all hold: the one that fails first ends the loop. */
static bool count_at(const loop *l, stw_tf_edge edge, int depth, int64_t *turns) {
    enum { DEEPEST = 8 };
    const stw_tf_graph *g = &l->condition->graph;
    const int32_t node = look_through(g, edge).from;
    const stw_str op = g->model->node[node].op;
    const bool less = stw_str_is(op, "Less"), less_equal = stw_str_is(op, "LessEqual");
    const bool greater = stw_str_is(op, "Greater"), greater_equal = stw_str_is(op, "GreaterEqual");
    if (g->facts[node].inputs.count != 2) return false;
    const stw_tf_edge a = operand(g, node, 0), b = operand(g, node, 1);
    if (less || less_equal) return count_between(state_at(l, a), state_at(l, b), less_equal, turns);
    if (greater || greater_equal) return count_between(state_at(l, b), state_at(l, a), greater_equal, turns);
    if (!stw_str_is(op, "LogicalAnd") || depth == DEEPEST) return false;
    int64_t other = *turns;
    const bool first = count_at(l, a, depth + 1, turns), second = count_at(l, b, depth + 1, &other);
    if (other < *turns) *turns = other;
    return first && second;
}

bool stw_tf_count_turns(const stw_tf_frame *condition, const stw_tf_state *state, int64_t count, int64_t *turns) {
    const loop l = {condition, state, count};
    int64_t found = INT64_MAX;
    const bool is_known = condition->out_count > 0 && count_at(&l, condition->out[0], 0, &found);
    *turns = found == INT64_MAX ? 1 : found;
    return is_known;
}
