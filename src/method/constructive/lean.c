/* `lean`: an order that holds little memory, on the placement of the best plans so far (else everything on one device). */
#include <stdio.h>

#include "method/method.h"
#include "method/starts.h"
#include "plan/plan.h"
#include "search/lean_order.h"

enum { MAX_PLACEMENTS = 4 };

typedef struct {
    const stw_search *search;
    const stw_lean_order *unfused;    /* for plans without groups */
    const stw_plan *const *placement; /* (placements) */
    bool is_least[MAX_PLACEMENTS];    /* no order takes less, if the machine has one device */
} problem;

/* For each placement: the lean order, topological order, and the priorities that it came with. */
enum { BY_ORDER, TOPOLOGICAL, AS_IT_WAS, KINDS };

static stw_status build(void *context, int32_t variant, stw_plan *plan, stw_arena scratch, stw_error *error) {
    problem *p = context;
    const stw_simulator *s = p->search->simulator;
    stw_lean_order order;
    TRY(stw_plan_assign(plan, p->placement[variant / KINDS], error));
    switch (variant % KINDS) {
        case BY_ORDER:
            TRY(stw_lean_reorder(p->search, p->unfused, plan, scratch, &order, error));
            p->is_least[variant / KINDS] = order.is_least && s->machine->device_count == 1;
            return STW_OK;
        case TOPOLOGICAL:
            stw_plan_remove_orders(plan);
            return stw_rule_apply(STW_RULE_TOPOLOGICAL, s->costs, &s->unfused, plan, scratch, error);
        default: return STW_OK;
    }
}

static stw_status reorder(stw_search *search, const stw_plan *const *placement, int32_t count, stw_plan *plan, stw_error *error) {
    static const char *const kind[] = {"in an order made for little memory", "in topological order",
                                       "in the order of the initial plan"};
    stw_arena arena = search->arena;
    stw_sequences sequences;
    stw_lean_order order;
    TRY(stw_sequences_build(&search->simulator->unfused, &arena, &sequences, error));
    TRY(stw_lean_find(&sequences, search->simulator->machine->cost_class_count, NULL, search, &arena, &order, error));
    problem p = {.search = search, .unfused = &order, .placement = placement};
    const stw_variants variants = {.count = count * KINDS, .build = build, .context = &p, .sets_priority = true};
    const int32_t rule = search->rule;
    int32_t best = 0;
    const stw_arena before = search->arena;
    search->arena = arena;
    search->rule = -1; /* the order is what this method is about */
    const stw_status status = stw_search_variants(search, &variants, plan, &best, error);
    search->rule = rule;
    search->arena = before;
    if (status != STW_OK) return status;
    const bool least = best % KINDS == BY_ORDER && p.is_least[best / KINDS];
    snprintf(search->outcome.note, sizeof search->outcome.note, "%s%s", kind[best % KINDS],
             least ? "; no order of this placement needs less" : "");
    return STW_OK;
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    if (!(search->tasks & STW_TASK_SCHEDULE)) return stw_starts_keep_placement(search, plan, error);
    if (search->start_count > 0) {
        const int32_t count = search->start_count < MAX_PLACEMENTS ? search->start_count : MAX_PLACEMENTS;
        return reorder(search, search->start, count, plan, error);
    }
    stw_plan *alone;
    TRY(stw_plan_create(search->simulator->graph, search->simulator->machine, &alone, error));
    stw_status status = stw_method_single.run(search, alone, error);
    if (status == STW_OK) status = reorder(search, (const stw_plan *const[]){alone}, 1, plan, error);
    stw_plan_destroy(alone);
    return status;
}

const stw_method stw_method_lean = {.name = "lean",
                                    .description = "an order that holds little memory, on the placement of the best plan so far",
                                    .kind = STW_METHOD_CONSTRUCTIVE,
                                    .traits = STW_METHOD_ORDERS,
                                    .op_s = 7e-7,
                                    .run = run};
