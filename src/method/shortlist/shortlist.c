#include "method/shortlist/shortlist.h"

#include <stdio.h>

#include "method/method.h"
#include "plan/plan.h"

static const double SLOW_HOP_US = 10.0; /* with NVLink 3, over PCIe 50 */

typedef struct {
    const stw_method *method;
    int32_t variant;
} step;

static const step slow[] = {
#define SLOW(name, variant) {&stw_method_##name, variant},
#define FAST(name, variant)
#include "method/shortlist/shortlist.def"
#undef SLOW
#undef FAST
};

static const step fast[] = {
#define SLOW(name, variant)
#define FAST(name, variant) {&stw_method_##name, variant},
#include "method/shortlist/shortlist.def"
#undef SLOW
#undef FAST
};

double stw_shortlist_hop_us(const stw_machine *machine) {
    double sum_us = 0.0;
    int32_t links = 0;
    for (int32_t k = 0; k < machine->device_count * machine->device_count; k++) {
        const stw_link *link = &machine->link[k];
        if (k % (machine->device_count + 1) == 0 || link->bandwidth <= 0.0) continue; /* to itself; no link */
        sum_us += stw_link_fixed_us(link) + stw_link_bytes_us(link, 1 << 20);
        links++;
    }
    return links > 0 ? sum_us / links : 0.0;
}

typedef struct {
    stw_search *search;
    stw_plan *best; /* of the caller */
    stw_score score;
    char note[sizeof(((stw_outcome *)NULL)->note)]; /* of the step that it comes from */
    bool has_best, repaired;
} shortlist;

static stw_status keep(shortlist *l, const stw_search *inner, const stw_plan *plan, const stw_score *score) {
    const bool better = !l->has_best || stw_score_is_better(score, &l->score);
    if (!better) return STW_OK;
    l->has_best = true;
    l->score = *score;
    l->repaired = inner->outcome.repaired;
    snprintf(l->note, sizeof l->note, "%.*s: %.180s", STW_STR_SHOW(plan->method), inner->outcome.note);
    TRY(stw_plan_assign(l->best, plan, NULL));
    stw_search_tell(l->search, l->best, score);
    return STW_OK;
}

typedef struct { /* of the one plan that a step makes */
    stw_score score;
    bool told;
} heard;

static void hear(void *context, const stw_plan *plan, const stw_score *score) {
    heard *h = context;
    (void)plan;
    *h = (heard){*score, true};
}

/* One variant. What cannot be built, or is not there on this machine, is passed over. */
static stw_status take(shortlist *l, const step *s, stw_error *error) {
    const stw_simulator *simulator = l->search->simulator;
    stw_search inner = stw_search_within(l->search, (stw_budget){.until_s = l->search->budget.until_s, .evaluations = 1});
    heard h = {0};
    stw_plan *plan;
    inner.first_variant = s->variant;
    inner.repairs_later = l->search->repairs_later;
    inner.found = hear;
    inner.watch_context = &h;
    inner.tick = NULL;
    TRY(stw_plan_create(simulator->graph, simulator->machine, &plan, error));
    plan->method = stw_str_of(s->method->name);
    stw_status status = s->method->run(&inner, plan, error);
    if (status == STW_OK && (!h.told || inner.outcome.repaired)) /* it is another plan since */
        status = stw_search_evaluate(&inner, plan, 0, &h.score, error);
    atomic_fetch_add(&l->search->evaluations, atomic_load(&inner.evaluations));
    if (atomic_load(&inner.met)) atomic_store(&l->search->met, true);
    if (status == STW_OK) status = keep(l, &inner, plan, &h.score);
    stw_plan_destroy(plan);
    return status == STW_ERROR_NO_PLAN ? STW_OK : status;
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    const bool is_slow = stw_shortlist_hop_us(search->simulator->machine) >= SLOW_HOP_US;
    const step *list = is_slow ? slow : fast;
    const size_t count = is_slow ? sizeof slow / sizeof slow[0] : sizeof fast / sizeof fast[0];
    shortlist l = {.search = search, .best = plan};
    for (size_t k = 0; k < count && (k == 0 || !stw_search_is_over(search)); k++) {
        TRY(take(&l, &list[k], error));
        stw_search_tick(search);
    }
    if (!l.has_best) return stw_fail(error, STW_ERROR_NO_PLAN, "none of the methods that go first made a plan");
    search->outcome.repaired = l.repaired;
    snprintf(search->outcome.note, sizeof search->outcome.note, "%s", l.note);
    return STW_OK;
}

const stw_method stw_method_shortlist = {
    .name = "shortlist",
    .description = "what was best most often elsewhere, one evaluation each: first plans where plans are counted",
    .kind = STW_METHOD_CONSTRUCTIVE,
    .traits = STW_METHOD_PLACES | STW_METHOD_NAMED_ONLY,
    .pair_s = 2.5e-7,
    .run = run};
