/* `heft`: ops by their upward rank, each where it ends first. Several ways to see parameters and channels; and anchored: held
 * to the parameter homes and, more or less, to the devices of another plan. */
#include <stdio.h>

#include "method/method.h"
#include "method/starts.h"
#include "search/list.h"

enum { MAX_VARIANTS = 48, ANCHORS = 3 };

typedef struct {
    stw_home home;
    bool queues;
    uint64_t allowed;
    int32_t anchor; /* index, or -1 */
    double glue;    /* in units of the mean op */
} variant;

typedef struct {
    stw_search *search;
    stw_list list;
    stw_starts starts; /* to be anchored to */
    variant variant[MAX_VARIANTS];
    int32_t count;
} heft;

static void add(heft *h, variant v) {
    if (h->count < MAX_VARIANTS) h->variant[h->count++] = v;
}

/* Links, if some are missing, only matter to free variants: an anchor that is valid knows them. */
static void list_variants(heft *h) {
    static const double glue[] = {2.0, 8.0, 0.5, 32.0, 256.0}; /* the last for slow links */
    static const stw_home home[] = {STW_HOME_UPDATE, STW_HOME_FIRST, STW_HOME_LARGEST};
    for (int32_t k = 0; k < 3; k++) {
        add(h, (variant){.home = home[k], .queues = true, .allowed = h->list.linked, .anchor = -1});
        add(h, (variant){.home = home[k], .allowed = h->list.linked, .anchor = -1});
    }
    for (int32_t k = 0; k < 3 && h->list.linked != 0; k++) add(h, (variant){.home = home[k], .queues = true, .anchor = -1});
    for (int32_t a = 0; a < h->starts.count && a < ANCHORS; a++) {
        for (int32_t g = 0; g < 5; g++) {
            add(h, (variant){.home = STW_HOME_GLUED, .queues = true, .anchor = a, .glue = glue[g]});
            if (g < 4) add(h, (variant){.home = STW_HOME_GLUED, .anchor = a, .glue = glue[g]});
        }
    }
}

static stw_status build(void *context, int32_t index, stw_plan *plan, stw_arena scratch, stw_error *error) {
    const heft *h = context;
    const variant *v = &h->variant[index];
    stw_steer_input input = {.base = &h->list.base,
                             .home = v->home,
                             .allowed = v->allowed,
                             .insertion = true,
                             .queues = v->queues,
                             .memory = h->list.memory && v->queues, /* what this pass can tell is not exact: half without */
                             .stop = stw_search_stop(h->search, index)};
    if (v->anchor >= 0) {
        const int32_t T = h->list.base.tasks->T;
        double *glue;
        STW_TRY_NEW(&scratch, glue, T, error);
        for (int32_t t = 0; t < T; t++) glue[t] = v->glue * h->list.mean_us;
        input.plan_glue = glue;
        input.glued = h->starts.plan[v->anchor]->device;
    }
    return stw_steer(&input, plan->device, NULL, scratch, error);
}

static void write_note(const heft *h, const variant *v) {
    stw_search *search = h->search;
    static const char *const home[] = {"their first reader", "their update", "their largest reader", "that plan"};
    const char *queues = v->queues ? "assuming that transfers queue" : "assuming that transfers never queue";
    if (v->anchor < 0) {
        snprintf(search->outcome.note, sizeof search->outcome.note, "each op where it ends first, parameters with %s, %s",
                 home[v->home], queues);
    } else {
        const stw_str name = h->starts.plan[v->anchor]->method;
        snprintf(search->outcome.note, sizeof search->outcome.note,
                 "%.*s's plan, ops elsewhere if they end %g mean op times sooner, %s", STW_STR_SHOW(name), v->glue, queues);
    }
}

static stw_status run_variants(heft *h, stw_plan *plan, stw_error *error) {
    int32_t best = 0;
    list_variants(h);
    const stw_variants variants = {.count = h->count, .build = build, .context = h, .own_rule = STW_RULE_UPWARD_RANK};
    TRY(stw_search_variants(h->search, &variants, plan, &best, error));
    write_note(h, &h->variant[best]);
    return STW_OK;
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    static const stw_method *const anchors[] = {&stw_method_expert, &stw_method_metis};
    stw_arena arena = search->arena;
    heft *h;
    STW_TRY_NEW(&arena, h, 1, error);
    h->search = search;
    TRY(stw_list_prepare(search, &arena, &h->list, error));
    const stw_arena before = search->arena;
    search->arena = arena; /* what runs within this method must not overwrite it */
    const stw_status found = stw_starts_open(search, anchors, 2, 0.5, &h->starts, error);
    search->arena = before;
    TRY(found);
    const stw_status status = run_variants(h, plan, error);
    stw_starts_close(&h->starts);
    return status;
}

const stw_method stw_method_heft = {
    .name = "heft",
    .description = "ops by upward rank, each where it ends first; alone and anchored to other plans",
    .kind = STW_METHOD_CONSTRUCTIVE,
    .traits = STW_METHOD_PLACES | STW_METHOD_VARIES,
    .pair_s = 1e-7,
    .run = run};
