/* The method: budget, the best plan so far, branching over placements. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "method/exact/exact.h"
#include "search/fusing.h"

/* ---- devices that may be exchanged ---- */

/* Devices that may be exchanged: the same plan with the two swapped takes the same step. */

typedef struct {
    const stw_machine *machine;
    int32_t a, b; /* to be swapped */
} swap;

static int32_t swapped(const swap *s, int32_t d) { return d == s->a ? s->b : d == s->b ? s->a : d; }

static const stw_link *swapped_link(const swap *s, int32_t from, int32_t to) {
    return stw_machine_link(s->machine, swapped(s, from), swapped(s, to));
}

static bool links_are_alike(const swap *s, int32_t from, int32_t to) {
    const stw_link *own = stw_machine_link(s->machine, from, to), *other = swapped_link(s, from, to);
    return stw_link_equal(own, other);
}

/* Two links share a channel exactly if the swapped ones do. Only links of a and b move, so only pairs with one of them count. */
static bool channels_are_alike(const swap *s, int32_t from, int32_t to) {
    const int32_t D = s->machine->device_count;
    const stw_link *own = stw_machine_link(s->machine, from, to), *other = swapped_link(s, from, to);
    for (int32_t p = 0; p < D; p++) {
        for (int32_t q = 0; q < D; q++) {
            if (p == q || stw_machine_link(s->machine, p, q)->bandwidth <= 0.0) continue;
            const bool shared = own->channel == stw_machine_link(s->machine, p, q)->channel;
            if (shared != (other->channel == swapped_link(s, p, q)->channel)) return false;
            /* Copies of one value that wait for one channel go by the number of their device, which no plan can change. */
            if (shared && p == from && q != to && (to < q) != (swapped(s, to) < swapped(s, q))) return false;
        }
    }
    return true;
}

static bool may_swap(const stw_machine *machine, int32_t a, int32_t b) {
    const swap s = {machine, a, b};
    const int32_t D = machine->device_count;
    const bool shared = machine->queues && machine->bus_count > 0; /* else every link has a channel of its own */
    if (machine->device[a].cost_class != machine->device[b].cost_class) return false;
    if (machine->device[a].memory_bytes != machine->device[b].memory_bytes) return false;
    for (int32_t k = 0; k < 4 * D; k++) { /* links from and to a and b */
        const int32_t own = k & 1 ? a : b, other = k / 4, from = k & 2 ? own : other, to = k & 2 ? other : own;
        if (from == to) continue;
        if (!links_are_alike(&s, from, to)) return false;
        if (stw_machine_link(machine, from, to)->bandwidth <= 0.0 || !shared) continue;
        if (!channels_are_alike(&s, from, to)) return false;
    }
    return true;
}

static void find_alike(const stw_machine *machine, int32_t alike[STW_MAX_DEVICES]) {
    for (int32_t d = 0; d < machine->device_count; d++) {
        alike[d] = d;
        for (int32_t first = 0; first < d && alike[d] == d; first++) {
            if (alike[first] == first && may_swap(machine, first, d)) alike[d] = first;
        }
    }
}

/* ---- budget and incumbent ---- */

/* Where this search stands; its nodes are added to the evaluations at its end. */
static stw_moment moment_of(const stw_exact *x) {
    stw_moment now = stw_search_moment(x->search);
    now.evaluations += x->nodes / STW_EXACT_NODES_PER_EVALUATION;
    return now;
}

/* At this pace the search would not end within its budget. The more placements are done with the faster the others go, so their
 * share is compared with the square of the time (docs/results/optima.md has what this stops). */
static bool is_hopeless(const stw_exact *x) {
    static const double LEAST = 0.2; /* of the budget, before which nothing is known */
    static const double SLOWEST = 0.3;
    stw_budget budget = x->search->budget;
    if (!budget.gives_up || !x->has_best || x->score.reason != STW_VALID) return false;
    budget.began = x->began;
    const double progress = stw_budget_progress(&budget, moment_of(x));
    return progress >= LEAST && x->done < SLOWEST * progress * progress;
}

bool stw_exact_count(stw_exact *x) {
    enum { LOOK_AT_CLOCK = 512 };
    const stw_search *search = x->search;
    x->nodes++;
    if (search->budget.evaluations > 0 && x->nodes / STW_EXACT_NODES_PER_EVALUATION >= stw_search_evaluations_left(search)) {
        x->over = true;
    }
    if (x->nodes % LOOK_AT_CLOCK == 0) {
        stw_search_tick(search);
        x->gave_up = !stw_search_is_over(search) && is_hopeless(x);
        x->over |= stw_search_is_over(search) || x->gave_up;
    }
    return x->over;
}

static int64_t step_of(const stw_timeline *timeline) {
    int64_t step = 0;
    for (int32_t t = 0; t < timeline->tasks->T; t++) {
        if (timeline->end_ps[t] > step) step = timeline->end_ps[t];
    }
    return step;
}

stw_status stw_exact_judge(stw_exact *x, const stw_plan *plan, int64_t *step_ps, stw_error *error) {
    stw_score score = {0};
    *step_ps = INT64_MAX;
    TRY(stw_search_evaluate(x->search, plan, 0, &score, error));
    if (score.reason == STW_VALID) *step_ps = step_of(&x->search->workspace[0]->timeline);
    if (score.reason != STW_VALID && score.reason != STW_INVALID_MEMORY) return STW_OK;
    if (x->has_best && !stw_score_is_better(&score, &x->score)) return STW_OK;
    x->has_best = true;
    x->score = score;
    if (*step_ps < INT64_MAX && *step_ps - x->grain_ps < x->beat_ps) x->beat_ps = *step_ps - x->grain_ps + 1;
    TRY(stw_plan_assign(x->best, plan, error));
    stw_search_tell(x->search, x->best, &x->score);
    return STW_OK;
}

/* Something to beat: the best initial plan, and everything on one device. */
static stw_status judge_simple_plans(stw_exact *x, stw_arena scratch, stw_error *error) {
    int64_t step_ps = 0;
    if (x->search->start_count > 0) TRY(stw_exact_judge(x, x->search->start[0], &step_ps, error));
    for (int32_t d = 0; d < x->s->machine->device_count; d++) {
        if (x->alike[d] != d || (x->has_best && stw_search_is_over(x->search))) continue;
        for (int32_t i = 0; i < x->s->graph->N; i++) x->trial->device[i] = d;
        TRY(stw_rule_apply(STW_RULE_TOPOLOGICAL, x->s->costs, x->tasks, x->trial, scratch, error));
        TRY(stw_exact_judge(x, x->trial, &step_ps, error));
    }
    return STW_OK;
}

/* A good plan to beat makes the search much shorter: most of the time it is the optimum, and only the proof is left. */
static stw_status breed_first(stw_exact *x, stw_error *error) {
    static const double SHARE = 0.3;   /* of the budget, at most */
    enum { EVALUATIONS_PER_PAIR = 5 }; /* of ops: small graphs are done with by branching at once */
    stw_search *outer = x->search;
    const int64_t most = (int64_t)EVALUATIONS_PER_PAIR * x->tasks->T * x->tasks->T;
    stw_budget budget = stw_budget_share(&outer->budget, stw_search_moment(outer), SHARE, STW_SHARE_DOWN);
    budget = stw_budget_rest(&budget, (int64_t)atomic_load(&outer->evaluations));
    if (budget.evaluations <= 0 || budget.evaluations > most) budget.evaluations = most;
    if (!x->has_best || !x->roomy || x->score.reason != STW_VALID || stw_search_is_over(outer)) return STW_OK;
    stw_search inner = stw_search_within(outer, budget);
    const stw_plan *start = x->best;
    int64_t step_ps = 0;
    inner.start = &start;
    inner.start_count = 1;
    inner.found = NULL; /* what is better is told by the judge */
    TRY(stw_plan_create(x->s->graph, x->s->machine, &x->bred, error));
    const stw_status status = stw_method_breed.run(&inner, x->bred, error);
    atomic_fetch_add(&outer->evaluations, atomic_load(&inner.evaluations));
    if (status != STW_OK) return status == STW_ERROR_NO_PLAN ? STW_OK : status;
    return stw_exact_judge(x, x->bred, &step_ps, error);
}

/* ---- placements ---- */

static void place_atom(stw_exact *x, int32_t atom, int32_t device) {
    for (int32_t k = x->atom_start[atom]; k < x->atom_start[atom + 1]; k++) x->device[x->atom_member[k]] = device;
}

/* What the step takes at least with the devices as they are; false if no plan with them is valid and better. */
static stw_status bound_placement(stw_exact *x, stw_arena arena, bool *may_help, int64_t *least_ps, stw_error *error) {
    stw_exact_model model;
    stw_exact_times times;
    *may_help = false;
    TRY(stw_exact_build(x, &arena, &model, error));
    if (model.impossible) return STW_OK;
    TRY(stw_exact_times_create(model.A, &arena, &times, error));
    *may_help = stw_exact_tighten(x, &model, &times);
    *least_ps = times.least_ps;
    return STW_OK;
}

typedef struct {
    int32_t device;
    int64_t least_ps;
} option;

/* The devices for an atom that may lead to a better plan, the most promising first. Of devices that may be exchanged, and of
 * which none has anything yet, one stands for all. */
static stw_status list_options(stw_exact *x, int32_t atom, uint64_t used, stw_arena arena, option *out, int32_t *count,
                               stw_error *error) {
    uint64_t fresh = 0; /* of each kind, by its first device */
    *count = 0;
    for (int32_t d = 0; d < x->s->machine->device_count && !x->over; d++) {
        if (!(used >> d & 1)) {
            if (fresh >> x->alike[d] & 1) continue;
            fresh |= 1ULL << x->alike[d];
        }
        bool may_help = false;
        int64_t least_ps = 0;
        if (stw_exact_count(x)) break;
        place_atom(x, atom, d);
        TRY(bound_placement(x, arena, &may_help, &least_ps, error));
        if (!may_help) continue;
        int32_t place = (*count)++;
        for (; place > 0 && out[place - 1].least_ps > least_ps; place--) out[place] = out[place - 1];
        out[place] = (option){d, least_ps};
    }
    place_atom(x, atom, -1);
    return STW_OK;
}

static stw_status place_from(stw_exact *x, int32_t atom, uint64_t used, double share, stw_arena arena, stw_error *error) {
    if (atom == x->atom_count) {
        TRY(stw_exact_orders(x, arena, error));
        if (!x->over) x->done += share;
        return STW_OK;
    }
    option *options;
    int32_t count = 0;
    STW_TRY_NEW(&arena, options, x->s->machine->device_count, error);
    TRY(list_options(x, atom, used, arena, options, &count, error));
    for (int32_t k = 0; k < count && !x->over; k++) {
        if (options[k].least_ps >= x->beat_ps) { /* sorted: so are all that follow */
            x->done += share * (count - k) / count;
            break;
        }
        place_atom(x, atom, options[k].device);
        TRY(place_from(x, atom + 1, used | 1ULL << options[k].device, share / count, arena, error));
    }
    if (count == 0 && !x->over) x->done += share;
    place_atom(x, atom, -1);
    return STW_OK;
}

/* ---- what there is to place ---- */

static bool is_alone(const stw_simulator *s, int32_t node) {
    for (int32_t k = 0; k < s->pair_count; k++) {
        if (s->pair[k][0] == node || s->pair[k][1] == node) return false;
    }
    return true;
}

/* The atom of a node, by one of its members. Without queues and with memory enough, a parameter that one atom alone reads is best
 * with it: elsewhere it would only be late. */
static int32_t atom_of(const stw_exact *x, int32_t node) {
    const stw_graph *graph = x->s->graph;
    const int32_t own = x->s->together[node];
    if (!stw_node_is_resident(graph->kind[node]) || !x->roomy || x->s->machine->queues || !is_alone(x->s, node)) return own;
    int32_t reader = -1;
    for (int64_t r = graph->reader_start[node]; r < graph->reader_start[node + 1]; r++) {
        const int32_t with = x->s->together[graph->reader[r].node];
        if (reader >= 0 && with != reader) return own;
        reader = with;
    }
    return reader < 0 ? own : reader;
}

/* Where an atom comes in the order of branching: at its first op, or after the first reader of its parameters. */
static void find_turns(const stw_exact *x, const int32_t *atom, int64_t *turn) {
    const stw_graph *graph = x->s->graph;
    for (int32_t i = 0; i < graph->N; i++) turn[i] = INT64_MAX;
    for (int32_t k = graph->op_count - 1; k >= 0; k--) turn[atom[graph->topological[k]]] = 2 * (int64_t)k;
    for (int32_t k = graph->op_count - 1; k >= 0; k--) {
        const int32_t op = graph->topological[k];
        for (int64_t r = graph->read_start[op]; r < graph->read_start[op + 1]; r++) {
            const int32_t source = graph->read[r].node;
            if (stw_node_is_resident(graph->kind[source]) && graph->kind[atom[source]] != STW_NODE_OP)
                turn[atom[source]] = 2 * k + 1;
        }
    }
}

static bool is_placed(const stw_graph *graph, int32_t node) {
    return graph->kind[node] == STW_NODE_OP || stw_node_is_resident(graph->kind[node]);
}

/* Fills the list of atoms, sorted by turn. What nobody reads lies on device 0 if memory is no question. */
static stw_status list_atoms(stw_exact *x, stw_arena *arena, stw_error *error) {
    const stw_graph *graph = x->s->graph;
    int32_t *atom, *leader, members = 0;
    int64_t *turn;
    STW_TRY_NEW(arena, x->device, graph->N, error);
    STW_TRY_NEW(arena, x->atom_start, graph->N + 1, error);
    STW_TRY_NEW(arena, x->atom_member, graph->N, error);
    STW_TRY_NEW(arena, atom, graph->N, error);
    STW_TRY_NEW(arena, leader, graph->N, error);
    STW_TRY_NEW(arena, turn, graph->N, error);
    for (int32_t i = 0; i < graph->N; i++) {
        x->device[i] = -1;
        atom[i] = is_placed(graph, i) ? atom_of(x, i) : i;
    }
    find_turns(x, atom, turn);
    for (int32_t i = 0; i < graph->N; i++) {
        if (!is_placed(graph, i) || atom[i] != i) continue;
        if (x->roomy && turn[i] == INT64_MAX) continue;
        int32_t place = x->atom_count++;
        for (; place > 0 && turn[leader[place - 1]] > turn[i]; place--) leader[place] = leader[place - 1];
        leader[place] = i;
    }
    for (int32_t k = 0; k < x->atom_count; k++) {
        for (int32_t i = 0; i < graph->N; i++) {
            if (is_placed(graph, i) && atom[i] == leader[k]) x->atom_member[members++] = i;
        }
        x->atom_start[k + 1] = members;
    }
    for (int32_t i = 0; i < graph->N; i++) {
        if (is_placed(graph, i) && x->roomy && turn[atom[i]] == INT64_MAX) x->device[i] = 0;
    }
    return STW_OK;
}

static stw_status prepare(stw_exact *x, stw_arena *arena, stw_error *error) {
    const stw_graph *graph = x->s->graph;
    int64_t bytes = 0;
    STW_TRY_NEW(arena, x->task_order, x->tasks->T, error);
    for (int32_t k = 0; k < x->tasks->T; k++) x->task_order[k] = x->tasks->task_of[graph->topological[k]];
    for (int32_t v = 0; v < x->tasks->V; v++) bytes += x->tasks->value_bytes[v];
    x->roomy = true;
    for (int32_t d = 0; d < x->s->machine->device_count; d++) x->roomy &= bytes <= x->s->machine->device[d].memory_bytes;
    find_alike(x->s->machine, x->alike);
    TRY(stw_exact_look_ahead(x, arena, error));
    return list_atoms(x, arena, error);
}

/* ---- the method ---- */

static stw_status check_size(const stw_search *search, stw_error *error) {
    const stw_tasks *tasks = &search->simulator->unfused;
    const unsigned both = STW_TASK_PLACEMENT | STW_TASK_SCHEDULE;
    if (search->objective != STW_OBJECTIVE_TIME) {
        return stw_fail(error, STW_ERROR_NO_PLAN, "exact serves the step time only; take another method for this objective");
    }
    if ((search->tasks & both) != both) {
        return stw_fail(error, STW_ERROR_NO_PLAN,
                        "exact decides placement and schedule together; --tasks leaves out one of them");
    }
    if (search->rule >= 0) {
        return stw_fail(error, STW_ERROR_NO_PLAN, "exact decides the order itself; leave out --rule");
    }
    if (tasks->T > STW_EXACT_MAX_OPS) {
        return stw_fail(error, STW_ERROR_NO_PLAN, "exact is for graphs of at most %d ops; this one has %d", STW_EXACT_MAX_OPS,
                        tasks->T);
    }
    if (tasks->V > STW_EXACT_MAX_VALUES || tasks->U > STW_EXACT_MAX_READS) {
        return stw_fail(error, STW_ERROR_NO_PLAN,
                        "exact is for graphs of at most %d tensors that are read %d times; this one has %d, read %d times",
                        STW_EXACT_MAX_VALUES, STW_EXACT_MAX_READS, tasks->V, tasks->U);
    }
    return STW_OK;
}

/* 1234567 -> "1,234,567" */
static void write_count(int64_t count, char *text, size_t size) {
    char digits[24];
    const int length = snprintf(digits, sizeof digits, "%" PRId64, count);
    size_t used = 0;
    for (int k = 0; k < length && used + 2 < size; k++) {
        if (k > 0 && (length - k) % 3 == 0) text[used++] = ',';
        text[used++] = digits[k];
    }
    text[used] = '\0';
}

static stw_status conclude(stw_exact *x, stw_error *error) {
    char nodes[40];
    stw_search *search = x->search;
    write_count(x->nodes, nodes, sizeof nodes);
    atomic_fetch_add(&search->evaluations, x->nodes / STW_EXACT_NODES_PER_EVALUATION); /* as they were counted on the way */
    search->outcome.proved = !x->over || (x->has_best && stw_search_meets_bound(search, &x->score));
    if (search->outcome.proved && (!x->has_best || x->score.reason != STW_VALID)) {
        return stw_fail(error, STW_ERROR_NO_PLAN,
                        "no plan is valid: all placements and orders were tried (%s nodes); the devices need more memory", nodes);
    }
    if (!x->has_best) return stw_fail(error, STW_ERROR_NO_PLAN, "no plan was found within the budget (%s nodes)", nodes);
    snprintf(search->outcome.note, sizeof search->outcome.note, "%s after %s search nodes",
             search->outcome.proved ? "proved optimal"
             : x->gave_up           ? "not proved optimal: too slow for the budget"
                                    : "not proved optimal: the budget ended",
             nodes);
    return STW_OK;
}

stw_status stw_exact_solve(stw_search *search, bool breeds, stw_plan *plan, stw_error *error) {
    const stw_arena before = search->arena;
    stw_arena arena = search->arena;
    stw_exact x = {.search = search,
                   .s = search->simulator,
                   .tasks = &search->simulator->unfused,
                   .best = plan,
                   .beat_ps = STW_EXACT_LIMIT_PS + 1};
    TRY(prepare(&x, &arena, error));
    TRY(stw_plan_create(search->simulator->graph, search->simulator->machine, &x.trial, error));
    stw_status status = judge_simple_plans(&x, arena, error);
    search->arena = arena; /* `breed` may use what is left of it */
    if (status == STW_OK && breeds) status = breed_first(&x, error);
    search->arena = before;
    x.began = stw_search_moment(search);
    if (status == STW_OK) status = place_from(&x, 0, 0, 1.0, arena, error);
    stw_plan_destroy(x.bred);
    stw_plan_destroy(x.trial);
    return status == STW_OK ? conclude(&x, error) : status;
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    const bool fuses = search->fusing != NULL && search->fusing->rule < 0;
    if (!fuses || (search->tasks & (STW_TASK_PLACEMENT | STW_TASK_SCHEDULE)) != 0) TRY(check_size(search, error));
    if (search->simulator->graph->allowed != NULL) /* devices that are alike are not tried twice, which pins would need */
        return stw_fail(error, STW_ERROR_NO_PLAN, "exact knows nothing of pins and other limits of devices");
    if (fuses) return stw_exact_fuse(search, plan, error);
    if (search->fusing != NULL && search->fusing->rule != STW_FUSION_NONE)
        return stw_fail(error, STW_ERROR_NO_PLAN, "exact does not go by a fusion rule; leave out --fusion");
    return stw_exact_solve(search, true, plan, error);
}

const stw_method stw_method_exact = {.name = "exact",
                                     .description = "the best plan of a small graph, proved by branch and bound",
                                     .kind = STW_METHOD_EXACT,
                                     .run = run};
