#include "search/search.h"

#include <stdlib.h>

#include "plan/plan.h"

enum { BATCH = 8 }; /* variants that are judged together, where evaluations are counted: no number of threads changes it */

/* ---- searches within others ---- */

stw_search stw_search_within(const stw_search *outer, stw_budget budget) {
    return (stw_search){
        .simulator = outer->simulator,
        .objective = outer->objective,
        .tasks = outer->tasks,
        .rule = outer->rule,
        .seed = outer->seed,
        .unit_count = outer->unit_count,
        .repairs_later = outer->repairs_later,
        .budget = budget,
        .bound = outer->bound,
        .pool = outer->pool,
        .metis_copies = outer->metis_copies,
        .workspace = outer->workspace,
        .scratch = outer->scratch,
        .arena = outer->arena,
        .given = outer->given,
        .given_groups = outer->given_groups,
        .cancelled = outer->cancelled,
        .clock = outer->clock,
        .policy = outer->policy,
        .proposals = outer->proposals,
        .fusing = outer->fusing,
        .found = outer->found,
        .tick = outer->tick,
        .watch_context = outer->watch_context,
    };
}

stw_search stw_search_on_groups(const stw_search *outer, const stw_simulator *simulator, stw_workspace *const *workspace) {
    stw_search inner = stw_search_within(outer, outer->budget);
    inner.simulator = simulator;
    inner.workspace = workspace;
    inner.tasks &= ~(unsigned)STW_TASK_FUSION;
    inner.given = NULL;
    inner.given_groups = inner.fusing = NULL;
    inner.found = NULL;
    atomic_init(&inner.evaluations, atomic_load(&outer->evaluations));
    return inner;
}

/* ---- budget ---- */

bool stw_search_meets_bound(const stw_search *search, const stw_score *score) {
    return search->bound > 0.0 && score->reason == STW_VALID && score->value <= search->bound * (1.0 + 1e-9);
}

int64_t stw_search_evaluations_left(const stw_search *search) {
    if (atomic_load(&search->met)) return 0;
    return stw_budget_evaluations_left(&search->budget, (int64_t)atomic_load(&search->evaluations));
}

double stw_search_now_s(const stw_search *search) { return stw_clock_now_s(search->clock); }

stw_moment stw_search_moment(const stw_search *search) {
    return (stw_moment){stw_search_now_s(search), (int64_t)atomic_load(&search->evaluations)};
}

bool stw_search_is_stopped(const stw_search *search) {
    return stw_stop_is_due(&(stw_stop){search->cancelled, search->clock, search->budget.until_s});
}

stw_stop stw_search_stop(const stw_search *search, int32_t variant) {
    const stw_budget *budget = &search->budget;
    const double last_s = budget->until_s > budget->last_s ? budget->until_s : budget->last_s;
    if (variant == search->first_variant && !budget->gives_up) return (stw_stop){0};
    return (stw_stop){search->cancelled, search->clock, last_s};
}

bool stw_search_is_over(const stw_search *search) {
    return stw_search_is_stopped(search) || stw_search_evaluations_left(search) == 0;
}

void stw_search_tick(const stw_search *search) {
    if (search->tick != NULL) search->tick(search->watch_context);
}

void stw_search_tell(const stw_search *search, const stw_plan *plan, const stw_score *score) {
    if (search->found != NULL) search->found(search->watch_context, plan, score);
}

stw_status stw_search_evaluate_within(stw_search *search, const stw_plan *plan, double limit_s, int32_t worker, stw_score *out,
                                      stw_error *error) {
    stw_evaluation evaluation;
    const double limit_ps = limit_s * 1e12 + 1.0;
    const stw_run_options options = {.stop_ps = limit_ps > 1.0 && limit_ps < (double)STW_MAX_STEP_PS ? (int64_t)limit_ps : 0};
    atomic_fetch_add(&search->evaluations, 1);
    TRY(stw_simulator_run(search->simulator, plan, &options, search->workspace[worker], &evaluation, error));
    *out = stw_score_of(search->objective, search->workspace[worker], &evaluation);
    if (stw_search_meets_bound(search, out)) atomic_store(&search->met, true);
    return STW_OK;
}

stw_status stw_search_evaluate(stw_search *search, const stw_plan *plan, int32_t worker, stw_score *out, stw_error *error) {
    return stw_search_evaluate_within(search, plan, 0.0, worker, out, error);
}

/* ---- variants ---- */

typedef struct { /* one place of a batch */
    stw_plan *plan;
    stw_score score;
    stw_status status;
    stw_error error;
    bool done;
} slot;

typedef struct {
    stw_search *search;
    const stw_variants *variants;
    int32_t first; /* the place of slot 0 among all variants */
    int32_t size;  /* slots */
    slot *slot;    /* (size) */
} batch;

/* What building a variant takes and what a run takes need not be there at once; nobody asks for the timeline of a variant. */
static void trim(const stw_search *search, int32_t worker) {
    enum { WORTH_BYTES = 1 << 26 };
    stw_arena scratch = search->scratch[worker];
    stw_arena_trim(&scratch, WORTH_BYTES);
    stw_workspace_trim(search->workspace[worker]);
}

static stw_status build_one(const batch *b, slot *place, int32_t variant, int32_t worker) {
    stw_search *search = b->search;
    const stw_simulator *s = search->simulator;
    stw_plan_remove_orders(place->plan); /* what the variant before has left */
    TRY(b->variants->build(b->variants->context, variant, place->plan, search->scratch[worker], &place->error));
    trim(search, worker);
    stw_plan_join(s, place->plan);
    if (!b->variants->sets_priority || search->rule >= 0) {
        const stw_rule rule = search->rule >= 0 ? (stw_rule)search->rule : b->variants->own_rule;
        TRY(stw_rule_apply(rule, s->costs, &s->unfused, place->plan, search->scratch[worker], &place->error));
    }
    TRY(stw_search_evaluate(search, place->plan, worker, &place->score, &place->error));
    trim(search, worker);
    return STW_OK;
}

/* The variant that comes at this place: one before all others, the rest in order. */
static int32_t variant_at(const batch *b, int32_t place) {
    const int32_t first = b->search->first_variant;
    return place == 0 ? first : place <= first ? place - 1 : place;
}

static void work_on_slot(void *context, int64_t index, int32_t worker) {
    batch *b = context;
    slot *place = &b->slot[index];
    const int32_t variant = variant_at(b, b->first + (int32_t)index);
    const stw_stop stop = stw_search_stop(b->search, variant);
    /* Evaluations were counted beforehand; only time and cancelling can end a batch early. */
    place->done = variant == b->search->first_variant ? !stw_stop_is_due(&stop) : !stw_search_is_stopped(b->search);
    if (place->done) place->status = build_one(b, place, variant, worker);
    if (place->status == STW_ERROR_CANCELLED) place->done = false;
}

typedef struct {
    int32_t variant; /* -1: none yet */
    stw_score score;
    stw_error error; /* of the first that failed */
    stw_status status;
} winner;

/* Keeps the best of a batch, lower variants first among equals. A variant that cannot be built is passed over. */
static stw_status judge_batch(batch *b, int32_t count, stw_plan *plan, winner *best, stw_error *error) {
    for (int32_t k = 0; k < count; k++) {
        const slot *place = &b->slot[k];
        if (!place->done) continue;
        if (place->status == STW_ERROR_MEMORY) {
            if (error != NULL) *error = place->error;
            return place->status;
        }
        if (place->status != STW_OK) {
            if (best->status == STW_OK) {
                best->status = place->status;
                best->error = place->error;
            }
            continue;
        }
        if (best->variant >= 0 && !stw_score_is_better(&place->score, &best->score)) continue;
        best->variant = variant_at(b, b->first + k);
        best->score = place->score;
        TRY(stw_plan_assign(plan, place->plan, error));
        stw_search_tell(b->search, plan, &best->score);
    }
    return STW_OK;
}

static stw_status run_batches(batch *b, stw_plan *plan, winner *best, stw_error *error) {
    const int64_t left = stw_search_evaluations_left(b->search);
    const int32_t count = b->variants->count > left ? (left > 1 ? (int32_t)left : 1) : b->variants->count;
    for (b->first = 0; b->first < count; b->first += b->size) {
        if (b->first > 0 && stw_search_is_over(b->search)) break;
        const int32_t size = count - b->first < b->size ? count - b->first : b->size;
        stw_pool_run(b->search->pool, size, work_on_slot, b);
        TRY(judge_batch(b, size, plan, best, error));
        stw_search_tick(b->search);
    }
    return STW_OK;
}

/* By time, two for each thread at least, so that few wait for the slowest; one after the other where there is one thread and the
 * graph is large, since each place holds a plan. */
static int32_t batch_size(const stw_search *search, int32_t variants) {
    enum { LARGE_OPS = 50000 };
    const int32_t threads = stw_pool_threads(search->pool), wanted = threads == 1 ? 1 : 2 * threads;
    const bool timed = search->budget.evaluations <= 0, large = search->simulator->graph->op_count >= LARGE_OPS;
    const int32_t size = timed && (large || wanted > BATCH) ? wanted : BATCH;
    return size < variants ? size : variants;
}

static stw_status create_places(batch *b, stw_error *error) {
    const stw_simulator *s = b->search->simulator;
    b->slot = calloc((size_t)b->size + 1, sizeof *b->slot);
    if (b->slot == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    for (int32_t k = 0; k < b->size; k++) TRY(stw_plan_create(s->graph, s->machine, &b->slot[k].plan, error));
    return STW_OK;
}

static void destroy_places(batch *b) {
    for (int32_t k = 0; k < b->size && b->slot != NULL; k++) stw_plan_destroy(b->slot[k].plan);
    free(b->slot);
}

stw_status stw_search_variants(stw_search *search, const stw_variants *variants, stw_plan *plan, int32_t *best_variant,
                               stw_error *error) {
    batch b = {.search = search, .variants = variants, .size = batch_size(search, variants->count)};
    winner best = {.variant = -1};
    if (search->first_variant >= variants->count) search->first_variant = 0;
    stw_status status = create_places(&b, error);
    if (status == STW_OK) status = run_batches(&b, plan, &best, error);
    destroy_places(&b);
    TRY(status);
    if (best.variant < 0) {
        if (best.status == STW_OK)
            return stw_fail(error, STW_ERROR_NO_PLAN, "given up: the time was over before a plan was built");
        if (error != NULL) *error = best.error;
        return best.status;
    }
    if (best_variant != NULL) *best_variant = best.variant;
    search->outcome.variant = best.variant;
    return best.score.reason == STW_INVALID_MEMORY ? stw_search_repair(search, plan, &best.score, 0, error) : STW_OK;
}
