#include <string.h>

#include "plan/plan.h"
#include "search/lean_order.h"
#include "search/repair.h"

/* ---- repair ---- */

/* Memory repair: as long as devices lack memory, the fullest hands units over to others, in batches that one evaluation judges.
 *
 * A step looks at what the device holds at its peak and tries batches of coarse and of fine units for a few targets. The best
 * that lowers the bytes that are lacking is kept; else smaller batches are tried, then the next device. */

enum {
    MAX_TARGETS = 3,
    MAX_EVALUATIONS = 150,       /* of one descent */
    LEAST_FOR_PACKING = 16,      /* evaluations that are left: with fewer it comes to nothing */
    MANY_OVER = 4,               /* devices that lack memory: then the first batch that mends one will do */
    PICKS_WORK = 4 * 1000 * 1000 /* looks at units within a batch */
};

typedef struct {
    stw_search *search;
    stw_plan *plan; /* the one that is worked on */
    stw_score score;
    int32_t worker;
    int32_t rule; /* for every new placement; -1: priorities stay as they are */
    stw_arena arena;
    stw_tasks room;         /* for those of a plan with groups */
    const stw_tasks *tasks; /* of the plan, whatever its devices */
    stw_lean_order lean;    /* of these tasks; task NULL: not looked for yet */
    stw_repair_units units;
    int32_t units_first, units_past; /* those that are in use */
    double *first_priority;          /* (N) of the plan that came in */
    stw_plan *nearest;               /* to valid, of all ways to repair it; NULL: nothing was moved */
    stw_score nearest_score;
    /* The best of a step. */
    int32_t *device;
    double *priority;
    stw_score best;
    bool found;
    bool is_last; /* it is what the workspace holds */
    /* The plan that the step began with. */
    int32_t *from_device;
    double *from_priority;
    int64_t excess[STW_MAX_DEVICES]; /* bytes above the limit; negative: room */
    double busy_us[STW_MAX_DEVICES];
} repair;

static size_t bytes_of(const repair *r, size_t size) { return (size_t)r->plan->graph->N * size; }

static void set_plan(repair *r, const int32_t *device, const double *priority) {
    memcpy(r->plan->device, device, bytes_of(r, sizeof *device));
    memcpy(r->plan->priority, priority, bytes_of(r, sizeof *priority));
}

static void get_plan(const repair *r, int32_t *device, double *priority) {
    memcpy(device, r->plan->device, bytes_of(r, sizeof *device));
    memcpy(priority, r->plan->priority, bytes_of(r, sizeof *priority));
}

static bool may_schedule(const repair *r) { return (r->search->tasks & STW_TASK_SCHEDULE) && r->search->rule < 0; }

/* ---- one try ---- */

/* Evaluates the plan as it stands and notes it if it is the best of this step. */
static stw_status try_plan(repair *r, stw_error *error) {
    stw_score score;
    TRY(stw_search_evaluate(r->search, r->plan, r->worker, &score, error));
    r->is_last = false;
    if (!stw_score_is_better(&score, r->found ? &r->best : &r->score)) return STW_OK;
    r->best = score;
    r->found = r->is_last = true;
    get_plan(r, r->device, r->priority);
    return STW_OK;
}

static stw_status apply_rule(repair *r, int32_t rule, stw_error *error) {
    const stw_simulator *s = r->search->simulator;
    return stw_rule_apply((stw_rule)rule, s->costs, &s->unfused, r->plan, r->arena, error);
}

static void begin_step(repair *r) {
    r->found = false;
    get_plan(r, r->from_device, r->from_priority);
}

/* Takes the best of the step, or what was there before, and leaves its run in the workspace. */
static stw_status end_step(repair *r, stw_error *error) {
    if (r->found) {
        set_plan(r, r->device, r->priority);
        r->score = r->best;
    } else {
        set_plan(r, r->from_device, r->from_priority);
    }
    if ((r->found && r->is_last) || stw_search_is_over(r->search)) return STW_OK; /* nobody will look at it */
    stw_score again;
    return stw_search_evaluate(r->search, r->plan, r->worker, &again, error);
}

/* ---- moving ---- */

static void read_loads(repair *r) {
    const stw_timeline *timeline = &r->search->workspace[r->worker]->timeline;
    const stw_machine *machine = r->search->simulator->machine;
    for (int32_t d = 0; d < machine->device_count; d++) {
        r->excess[d] = timeline->peak_bytes[d] - machine->device[d].memory_bytes;
        r->busy_us[d] = (double)timeline->busy_ps[d] / 1e6;
    }
}

/* The devices to move to: most room first, and of two, the one that is exchanged most with already. */
static int32_t list_targets(const repair *r, int32_t from, int32_t *target) {
    const stw_machine *machine = r->search->simulator->machine;
    const stw_timeline *timeline = &r->search->workspace[r->worker]->timeline;
    double shared[STW_MAX_DEVICES] = {0};
    int32_t count = 0, friend = -1;
    for (int32_t k = 0; k < timeline->transfer_count; k++) {
        const stw_transfer *transfer = &timeline->transfer[k];
        if (transfer->from == from) shared[transfer->to] += (double)transfer->bytes;
        if (transfer->to == from) shared[transfer->from] += (double)transfer->bytes;
    }
    for (int32_t d = 0; d < machine->device_count; d++) { /* an insertion into the few best by room */
        if (d == from || r->excess[d] >= 0) continue;
        int32_t at = count < MAX_TARGETS ? count++ : MAX_TARGETS;
        for (; at > 0 && r->excess[d] < r->excess[target[at - 1]]; at--) {
            if (at < MAX_TARGETS) target[at] = target[at - 1];
        }
        if (at < MAX_TARGETS) target[at] = d;
        if (-r->excess[d] >= r->excess[from] && (friend < 0 || shared[d] > shared[friend])) friend = d;
    }
    for (int32_t k = 0; k < count; k++) {
        if (target[k] == friend) return count;
    }
    if (friend >= 0) target[count - 1] = friend;
    return count;
}

static stw_status try_move(repair *r, const stw_peak *peak, const stw_units *units, int32_t target, double share,
                           stw_error *error) {
    int32_t moved = 0;
    set_plan(r, r->from_device, r->from_priority);
    stw_repair_move move = {.simulator = r->search->simulator,
                            .units = units,
                            .peak = peak,
                            .target = target,
                            .wanted = (int64_t)((double)r->excess[peak->device] * share) + 1,
                            .room = -r->excess[target],
                            .most_units = share < 0.1 ? 1 : 1 + PICKS_WORK / (units->count + 1),
                            .busy_us = r->busy_us[target],
                            .step_us = r->score.step_s * 1e6};
    TRY(stw_move_choose(&move, r->plan->device, &moved, r->arena, error));
    if (moved == 0) return STW_OK;
    if (r->rule >= 0) TRY(apply_rule(r, r->rule, error));
    return try_plan(r, error);
}

/* Tries to help one device. share: of its excess, per batch. */
static stw_status help_device(repair *r, int32_t from, double share, int32_t over_count, stw_error *error) {
    stw_peak peak = {0};
    int32_t target[MAX_TARGETS];
    const stw_arena mark = r->arena; /* the peak is kept while batches are tried */
    const int32_t targets = list_targets(r, from, target);
    const stw_timeline *timeline = &r->search->workspace[r->worker]->timeline;
    TRY(stw_peak_find(r->search->simulator->machine, timeline, r->plan->device, from, &r->arena, &peak, error));
    begin_step(r);
    const int32_t kinds = r->units_past - r->units_first;
    const double enough = r->score.lacks - 0.9 * (double)r->excess[from];
    for (int32_t k = 0; k < targets * kinds; k++) {
        const bool mended = r->found && (r->best.reason == STW_VALID || r->best.lacks <= enough);
        if ((mended && (k >= kinds || over_count > MANY_OVER)) || stw_search_is_over(r->search)) break;
        TRY(try_move(r, &peak, &r->units.kind[r->units_first + k % kinds], target[k / kinds], share, error));
    }
    r->arena = mark;
    return end_step(r, error);
}

/* One step: the device that lacks most, then the others, with ever smaller batches. `helped`: something got better. */
static stw_status step(repair *r, bool *helped, stw_error *error) {
    static const double shares[] = {1.02, 0.3, 0.01};
    const int32_t D = r->search->simulator->machine->device_count;
    int32_t over_count = 0;
    read_loads(r);
    for (int32_t d = 0; d < D; d++) over_count += r->excess[d] > 0;
    for (int k = 0; k < 3 && !*helped; k++) {
        int64_t below = INT64_MAX;
        int32_t last = -1;
        for (int32_t n = 0; n < over_count && !*helped && !stw_search_is_over(r->search); n++) {
            int32_t worst = -1; /* the next by excess, then by number */
            for (int32_t d = 0; d < D; d++) {
                if (r->excess[d] <= 0 || r->excess[d] > below || (r->excess[d] == below && d <= last)) continue;
                if (worst < 0 || r->excess[d] > r->excess[worst]) worst = d;
            }
            if (worst < 0) break;
            below = r->excess[worst];
            last = worst;
            TRY(help_device(r, worst, shares[k], over_count, error));
            *helped = r->found;
        }
    }
    return STW_OK;
}

/* Steps until the plan is valid, nothing helps, or it would take too long. */
static stw_status descend(repair *r, stw_error *error) {
    const int64_t until = (int64_t)atomic_load(&r->search->evaluations) + MAX_EVALUATIONS;
    while (r->score.reason == STW_INVALID_MEMORY && (int64_t)atomic_load(&r->search->evaluations) < until) {
        bool helped = false;
        if (stw_search_is_over(r->search)) break;
        TRY(step(r, &helped, error));
        if (!helped) break;
    }
    return STW_OK;
}

/* ---- orders ---- */

/* It depends on the tasks alone, so it is looked for once. */
static stw_status find_lean(repair *r, stw_error *error) {
    const int32_t T = r->tasks->T;
    stw_sequences sequences;
    stw_lean_order found;
    int32_t *kept;
    STW_TRY_NEW(&r->arena, kept, T, error);
    stw_arena scratch = r->arena;
    TRY(stw_sequences_build(r->tasks, &scratch, &sequences, error));
    TRY(stw_lean_find(&sequences, r->plan->machine->cost_class_count, NULL, r->search, &scratch, &found, error));
    memcpy(kept, found.task, (size_t)T * sizeof *kept);
    r->lean = found;
    r->lean.task = kept;
    return STW_OK;
}

/* The leanest order, if the plan fits with it as it is. */
static stw_status try_lean(repair *r, stw_error *error) {
    if (r->score.reason != STW_INVALID_MEMORY || !may_schedule(r) || stw_search_is_over(r->search)) return STW_OK;
    if (r->lean.task == NULL) TRY(find_lean(r, error));
    begin_step(r);
    stw_lean_apply(r->tasks, &r->lean, r->plan);
    TRY(try_plan(r, error));
    if (r->found && r->best.reason != STW_VALID) r->found = false;
    return end_step(r, error);
}

/* Where every way to repair a plan begins. */
typedef struct {
    int32_t *device;  /* (N) */
    double *priority; /* (N) */
} start_of;

static stw_status keep_start(repair *r, start_of *out, stw_error *error) {
    STW_TRY_NEW(&r->arena, out->device, r->plan->graph->N, error);
    STW_TRY_NEW(&r->arena, out->priority, r->plan->graph->N, error);
    get_plan(r, out->device, out->priority);
    return STW_OK;
}

/* From there again, with its run in the workspace. */
static stw_status begin_again(repair *r, const start_of *start, stw_error *error) {
    stw_plan_remove_orders(r->plan);
    set_plan(r, start->device, start->priority);
    return stw_search_evaluate(r->search, r->plan, r->worker, &r->score, error);
}

static stw_status keep_nearest(repair *r, stw_error *error) {
    if (!stw_score_is_better(&r->score, &r->nearest_score)) return STW_OK;
    r->nearest_score = r->score;
    return stw_plan_assign(r->nearest, r->plan, error);
}

static bool goes_on(const repair *r) { return r->nearest_score.reason == STW_INVALID_MEMORY && !stw_search_is_over(r->search); }

/* Descents: with all units; with the coarse ones alone; with the weights and the atoms alone. The first begins with the plan as
 * it is. */
static stw_status move_units(repair *r, int first, int past, const start_of *start, stw_error *error) {
    const int32_t all = r->units.count;
    const struct { int32_t first, past; } choice[] = {{0, all}, {0, all > 3 ? 2 : 1}, {all - 2, all}};
    for (int k = first; k < past && goes_on(r); k++) {
        r->units_first = choice[k].first;
        r->units_past = choice[k].past;
        if (k > 0) TRY(begin_again(r, start, error));
        TRY(descend(r, error));
        TRY(try_lean(r, error)); /* with other devices it may do */
        TRY(keep_nearest(r, error));
    }
    return STW_OK;
}

static stw_status pack(repair *r, const start_of *start, stw_error *error) {
    if (!goes_on(r) || stw_search_evaluations_left(r->search) < LEAST_FOR_PACKING) return STW_OK;
    TRY(begin_again(r, start, error));
    TRY(stw_repair_pack(r->search, r->tasks, &r->units, STW_PACK_REPAIR, r->plan, &r->score, r->worker, r->arena, error));
    return keep_nearest(r, error);
}

/* Unit by unit, which changes least. Where that ends too early, packing, which sees all devices at all moments at once; then unit
 * by unit in other sizes. Keeps the best. */
static stw_status move_anything(repair *r, stw_error *error) {
    const stw_simulator *s = r->search->simulator;
    start_of start;
    TRY(stw_repair_units_list(s->graph, s->costs->least_us, r->tasks, &r->arena, &r->units, error));
    TRY(keep_start(r, &start, error));
    TRY(stw_plan_create(r->plan->graph, r->plan->machine, &r->nearest, error));
    TRY(stw_plan_assign(r->nearest, r->plan, error));
    r->nearest_score = r->score;
    TRY(move_units(r, 0, 1, &start, error));
    TRY(pack(r, &start, error));
    TRY(move_units(r, 1, 3, &start, error));
    r->score = r->nearest_score;
    return stw_plan_assign(r->plan, r->nearest, error);
}

/* ---- the whole ---- */

/* Other priorities on the same devices: before anything is moved, since that costs no transfer; and at the end, for time. */
static stw_status try_rules(repair *r, const stw_rule *rules, int32_t count, stw_error *error) {
    begin_step(r);
    for (int32_t k = 0; k < count && !stw_search_is_over(r->search); k++) {
        set_plan(r, r->from_device, r->from_priority);
        TRY(apply_rule(r, (int32_t)rules[k], error));
        const bool before = r->found;
        const stw_score best = r->best;
        TRY(try_plan(r, error));
        if (r->found && (!before || stw_score_is_better(&r->best, &best))) r->rule = (int32_t)rules[k];
    }
    return end_step(r, error);
}

static stw_status prepare(repair *r, stw_error *error) {
    const int64_t N = r->plan->graph->N;
    STW_TRY_NEW(&r->arena, r->device, N, error);
    STW_TRY_NEW(&r->arena, r->priority, N, error);
    STW_TRY_NEW(&r->arena, r->from_device, N, error);
    STW_TRY_NEW(&r->arena, r->from_priority, N, error);
    STW_TRY_NEW(&r->arena, r->first_priority, N, error);
    memcpy(r->first_priority, r->plan->priority, bytes_of(r, sizeof *r->first_priority));
    stw_plan_remove_orders(r->plan);
    /* Its run, in the workspace; without its orders it may be another plan. */
    return stw_search_evaluate(r->search, r->plan, r->worker, &r->score, error);
}

static stw_status run(repair *r, stw_error *error) {
    stw_str illegal;
    TRY(prepare(r, error));
    TRY(stw_simulator_tasks(r->search->simulator, r->plan, &r->arena, &r->room, &r->tasks, &illegal, error));
    if (illegal.length > 0) return STW_OK; /* nothing that is done here helps */
    if (r->score.reason == STW_INVALID_MEMORY && may_schedule(r)) {
        TRY(try_rules(r, &(stw_rule){STW_RULE_DEPTH_FIRST}, 1, error));
        TRY(try_lean(r, error));
    }
    if (r->score.reason == STW_INVALID_MEMORY && (r->search->tasks & STW_TASK_PLACEMENT)) TRY(move_anything(r, error));
    if (r->score.reason != STW_VALID || !may_schedule(r) || stw_search_is_over(r->search)) return STW_OK;
    if (stw_plan_has_orders(r->plan)) return STW_OK; /* it is valid because of them */
    begin_step(r);
    memcpy(r->plan->priority, r->first_priority, bytes_of(r, sizeof *r->first_priority));
    TRY(try_plan(r, error));
    TRY(end_step(r, error));
    return try_rules(r, (const stw_rule[]){STW_RULE_UPWARD_RANK, STW_RULE_DEPTH_FIRST}, 2, error);
}

stw_status stw_search_repair(stw_search *search, stw_plan *plan, stw_score *score, int32_t worker, stw_error *error) {
    if (score->reason != STW_INVALID_MEMORY || search->repairs_later || stw_search_is_over(search)) return STW_OK;
    if (stw_plan_has_orders(plan) && !(search->tasks & STW_TASK_SCHEDULE)) return STW_OK; /* what moves would break the order */
    repair r = {.search = search, .worker = worker, .rule = search->rule, .arena = search->scratch[worker]};
    TRY(stw_plan_create(plan->graph, plan->machine, &r.plan, error));
    stw_status status = stw_plan_assign(r.plan, plan, error);
    if (status == STW_OK) status = run(&r, error);
    if (status == STW_OK && stw_score_is_better(&r.score, score)) {
        status = stw_plan_assign(plan, r.plan, error);
        *score = r.score;
        search->outcome.repaired = true;
    }
    stw_plan_destroy(r.plan);
    stw_plan_destroy(r.nearest);
    return status;
}
