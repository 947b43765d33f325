#include "pretrain/proposals.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "method/anneal/proposals.h"
#include "method/starts.h"
#include "plan/plan.h"
#include "search/fusing.h"

enum {
    CHAINS = 8,              /* as a search by evaluations has */
    MOST_EVALUATIONS = 1000, /* of a problem */
    LEAST_EVALUATIONS = 200, /* of a large one: */
    MOST_TASKS = 2000000,    /* evaluations times ops */
    LARGEST_OPS = 20000,     /* the most ops of a problem are drawn up to this */
    START_EVALUATIONS = 40,  /* for initial plans */
    EPOCHS = 6
};
static const int64_t ARENA_BYTES = INT64_C(4) << 30;

typedef struct { /* a problem and what was tried on it; by chain, so that threads do not matter */
    stw_example *example[CHAINS];
    int64_t count[CHAINS];
    int64_t room; /* of each chain */
} record;

struct stw_proposals_training {
    stw_proposals_settings settings;
    const stw_corpus *corpus;
    stw_pool *pool;
    stw_rng rng;
    double began_s;
    int64_t update;
    stw_scorer scorer;
    stw_example *example; /* (count) of all updates */
    int64_t count;
    record *record; /* (problems) of this one */
};

/* ---- one problem ---- */

static void hear(void *context, int32_t chain, const float *feature, double gain, bool proposed) {
    record *r = context;
    (void)proposed;
    if (r->count[chain] == r->room) return;
    stw_example *e = &r->example[chain][r->count[chain]++];
    memcpy(e->feature, feature, sizeof e->feature);
    e->gain = (float)gain;
}

static stw_status open_record(record *r, int64_t evaluations, stw_error *error) {
    r->room = evaluations; /* a chain has its share; one more where they do not divide */
    for (int32_t k = 0; k < CHAINS; k++) {
        r->count[k] = 0;
        r->example[k] = malloc((size_t)r->room * sizeof **r->example);
        if (r->example[k] == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for the examples of a problem");
    }
    return STW_OK;
}

static void close_record(record *r) {
    for (int32_t k = 0; k < CHAINS; k++) free(r->example[k]);
    *r = (record){0};
}

static int64_t evaluations_for(const stw_graph *graph) {
    const int64_t wanted = MOST_TASKS / (graph->op_count + 1);
    return wanted < LEAST_EVALUATIONS ? LEAST_EVALUATIONS : wanted > MOST_EVALUATIONS ? MOST_EVALUATIONS : wanted;
}

/* Initial plans as a search has them, then the chains. */
static stw_status anneal(stw_search *search, stw_plan *plan, stw_error *error) {
    static const stw_method *const methods[] = {&stw_method_heft, &stw_method_etf, &stw_method_expert};
    const int64_t evaluations = search->budget.evaluations;
    stw_starts starts;
    search->budget.evaluations = START_EVALUATIONS;
    stw_status status = stw_starts_open(search, methods, sizeof methods / sizeof methods[0], 1.0, &starts, error);
    search->budget.evaluations = evaluations;
    search->start = starts.plan;
    search->start_count = starts.count;
    atomic_store(&search->evaluations, 0);
    if (status == STW_OK && starts.count > 0) status = stw_method_anneal.run(search, plan, error);
    stw_starts_close(&starts);
    return status == STW_ERROR_NO_PLAN ? STW_OK : status;
}

typedef struct {
    stw_costs *costs;
    stw_simulator *simulator;
    stw_workspace *workspace;
    stw_arena arena, scratch;
    stw_pool *pool; /* of one thread: problems are what runs side by side */
    stw_plan *plan;
    bool fuses;
    stw_fusing fusing;
} bench;

static stw_status open_bench(const stw_drawn *drawn, bench *b, stw_error *error) {
    TRY(stw_costs_from_rows(drawn->graph, drawn->machine, NULL, false, &b->costs, error));
    TRY(stw_simulator_create(b->costs, &b->simulator, error));
    TRY(stw_workspace_create(b->simulator, &b->workspace, error));
    TRY(stw_arena_create_sized(&b->arena, ARENA_BYTES, error));
    TRY(stw_arena_create_sized(&b->scratch, ARENA_BYTES, error));
    TRY(stw_pool_create(1, &b->pool, error));
    if (b->fuses) TRY(stw_fusing_open(b->simulator, -1, STW_FUSION_DEFAULT, 1, NULL, &b->arena, &b->fusing, error));
    return stw_plan_create(drawn->graph, drawn->machine, &b->plan, error);
}

static void close_bench(bench *b) {
    if (b->fuses) stw_fusing_close(&b->fusing);
    stw_plan_destroy(b->plan);
    stw_pool_destroy(b->pool);
    stw_arena_destroy(&b->scratch);
    stw_arena_destroy(&b->arena);
    stw_workspace_destroy(b->workspace);
    stw_simulator_destroy(b->simulator);
    stw_costs_destroy(b->costs);
}

/* Every other one with groups, as half of a search has. */
static stw_status try_problem(const stw_proposals_training *t, const stw_drawn *drawn, stw_rng rng, record *r, stw_error *error) {
    const int64_t evaluations = evaluations_for(drawn->graph);
    const stw_proposals proposals = {.scorer = t->update > 0 ? &t->scorer : NULL, .tried = hear, .context = r};
    bench b = {.fuses = stw_rng_below(&rng, 2) == 0};
    TRY(open_record(r, evaluations, error));
    stw_status status = open_bench(drawn, &b, error);
    if (status == STW_OK) {
        stw_search search = {.simulator = b.simulator,
                             .objective = STW_OBJECTIVE_TIME,
                             .tasks = STW_TASK_PLACEMENT | STW_TASK_SCHEDULE | (b.fuses ? STW_TASK_FUSION : 0u),
                             .rule = -1,
                             .seed = stw_rng_next(&rng),
                             .unit_count = 512,
                             .budget = {.evaluations = evaluations},
                             .pool = b.pool,
                             .workspace = &b.workspace,
                             .scratch = &b.scratch,
                             .arena = b.arena,
                             .proposals = &proposals,
                             .fusing = b.fuses ? &b.fusing : NULL,
                             .cancelled = t->settings.cancel == NULL ? NULL : &t->settings.cancel->requested};
        status = anneal(&search, b.plan, error);
    }
    close_bench(&b);
    return status;
}

static stw_status work(void *context, int64_t index, int32_t worker, stw_error *error) {
    stw_proposals_training *t = context;
    const stw_rng updates = stw_rng_split(&t->rng, (uint64_t)t->update);
    stw_rng own = stw_rng_split(&updates, (uint64_t)index);
    stw_drawn drawn;
    (void)worker;
    if (stw_cancel_is_requested(t->settings.cancel)) return stw_fail(error, STW_ERROR_CANCELLED, "interrupted");
    const double most = STW_CORPUS_EASY_OPS * pow((double)LARGEST_OPS / STW_CORPUS_EASY_OPS, stw_rng_uniform(&own));
    TRY(stw_corpus_draw_up_to(t->corpus, own, most, &drawn, error));
    const stw_status status = try_problem(t, &drawn, stw_rng_split(&own, 0), &t->record[index], error);
    stw_drawn_destroy(&drawn);
    return stw_cancel_is_requested(t->settings.cancel) ? stw_fail(error, STW_ERROR_CANCELLED, "interrupted") : status;
}

/* ---- an update ---- */

static int64_t count_of(const record *r) {
    int64_t sum = 0;
    for (int32_t k = 0; k < CHAINS; k++) sum += r->count[k];
    return sum;
}

/* Behind the examples of the updates before, a problem after the other. */
static stw_status keep(stw_proposals_training *t, stw_error *error) {
    int64_t wanted = t->count;
    for (int32_t p = 0; p < t->settings.problems; p++) wanted += count_of(&t->record[p]);
    stw_example *all = realloc(t->example, (size_t)(wanted + 1) * sizeof *all);
    if (all == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for %lld examples", (long long)wanted);
    t->example = all;
    int64_t at = t->count;
    for (int32_t p = 0; p < t->settings.problems; p++) {
        const int64_t first = at;
        for (int32_t k = 0; k < CHAINS; at += t->record[p].count[k++]) {
            if (t->record[p].count[k] == 0) continue;
            memcpy(&all[at], t->record[p].example[k], (size_t)t->record[p].count[k] * sizeof *all);
        }
        stw_examples_weigh(&all[first], at - first);
    }
    return STW_OK;
}

/* What the scorer before thinks of the problems of this update. */
static void judge(const stw_proposals_training *t, float *score, stw_proposals_row *row) {
    int64_t at = t->count, judged = 0;
    double sum = 0.0;
    for (int32_t p = 0; p < t->settings.problems; p++) {
        const int64_t count = count_of(&t->record[p]);
        const double auc = t->update == 0 ? NAN : stw_scorer_auc(&t->scorer, &t->example[at], count, score);
        for (int64_t k = 0; k < count; k++) row->helped += t->example[at + k].gain > 0.0f;
        row->examples += count;
        row->problems += count > 0;
        at += count;
        if (isnan(auc)) continue;
        sum += auc;
        row->least_auc = judged == 0 ? auc : fmin(row->least_auc, auc);
        judged++;
    }
    row->auc = judged > 0 ? sum / (double)judged : NAN;
}

static stw_status learn(stw_proposals_training *t, stw_proposals_row *row, stw_error *error) {
    const stw_scorer_course course = {
        .epochs = EPOCHS, .rate = t->settings.rate, .rng = stw_rng_split(&t->rng, UINT64_MAX - (uint64_t)t->update)};
    TRY(keep(t, error));
    int64_t count = t->count;
    for (int32_t p = 0; p < t->settings.problems; p++) count += count_of(&t->record[p]);
    const stw_example **order = malloc((size_t)(count + 1) * sizeof *order);
    float *score = malloc((size_t)(count + 1) * sizeof *score);
    if (order != NULL && score != NULL) {
        judge(t, score, row);
        row->loss = stw_scorer_fit(t->example, count, &course, order, &t->scorer);
        t->count = count;
    }
    const bool enough = order != NULL && score != NULL;
    free(order);
    free(score);
    return enough ? STW_OK : stw_fail(error, STW_ERROR_MEMORY, "out of memory for %lld examples", (long long)count);
}

stw_status stw_proposals_update(stw_proposals_training *t, stw_proposals_row *row, stw_error *error) {
    *row = (stw_proposals_row){.update = t->update, .auc = NAN, .least_auc = NAN};
    stw_status status = stw_pool_try(t->pool, t->settings.problems, work, t, error);
    if (status == STW_OK) status = learn(t, row, error);
    for (int32_t p = 0; p < t->settings.problems; p++) close_record(&t->record[p]);
    TRY(status);
    t->update++;
    row->seconds = stw_now_s() - t->began_s;
    return STW_OK;
}

/* ---- the whole ---- */

stw_status stw_proposals_create(const stw_proposals_settings *settings, const stw_corpus *corpus, stw_pool *pool,
                                stw_proposals_training **out, stw_error *error) {
    stw_proposals_training *t = calloc(1, sizeof *t);
    record *records = calloc((size_t)settings->problems, sizeof *records);
    *out = t;
    if (t != NULL)
        *t = (stw_proposals_training){.settings = *settings,
                                      .corpus = corpus,
                                      .pool = pool,
                                      .rng = stw_rng_create(settings->seed),
                                      .began_s = stw_now_s(),
                                      .record = records};
    if (t != NULL && records != NULL) return STW_OK;
    if (t == NULL) free(records);
    stw_proposals_destroy(t);
    *out = NULL;
    return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
}

void stw_proposals_destroy(stw_proposals_training *t) {
    if (t == NULL) return;
    free(t->record);
    free(t->example);
    free(t);
}

const stw_scorer *stw_proposals_scorer(const stw_proposals_training *t) { return t->update > 0 ? &t->scorer : NULL; }
