/* `expert`: what a person does. The layers of the forward pass in stages of equal time, or a layer per device; gradients with
 * their forward ops, updates with their parameters. The simulator picks the best of some ways to do this. */
#include <stdio.h>

#include "method/expert/stages.h"
#include "method/method.h"
#include "plan/plan.h"

typedef enum { CUT, DEAL, PACK } dealing;

typedef struct {
    bool mirrored; /* gradients with their forward ops; else they are stages of their own */
    stw_item_order order;
    dealing dealing;
    int32_t rounds; /* of CUT: stages per device */
    const char *note;
} way;

static const way ways[] = {
    {true, STW_ITEMS_LAYER, CUT, 1, "stages of layers"},
    {true, STW_ITEMS_LAYER, PACK, 1, "layers packed by time"},
    {true, STW_ITEMS_NUMBER, DEAL, 1, "layers dealt out by number"},
    {true, STW_ITEMS_LAYER_TRACE, CUT, 1, "stages of layers, cut anywhere"},
    {true, STW_ITEMS_LEVEL, CUT, 1, "stages by depth"},
    {true, STW_ITEMS_TRACE, CUT, 1, "stages in the graph's order"},
    {true, STW_ITEMS_LAYER, DEAL, 1, "layers dealt out in turn"},
    {true, STW_ITEMS_NUMBER, PACK, 1, "layers by number, packed by time"},
    {true, STW_ITEMS_NUMBER, CUT, 1, "stages of layers by number"},
    {false, STW_ITEMS_LEVEL, CUT, 1, "stages by depth, gradients placed by themselves"},
    {false, STW_ITEMS_TRACE, CUT, 1, "stages in the graph's order, gradients placed by themselves"},
    {true, STW_ITEMS_LAYER_TRACE, CUT, 2, "two stages of layers per device, cut anywhere"},
    {true, STW_ITEMS_LEVEL, CUT, 2, "two stages by depth per device"},
    {true, STW_ITEMS_TRACE, CUT, 2, "two stages per device in the graph's order"},
    {true, STW_ITEMS_LAYER_TRACE, CUT, 4, "four stages of layers per device, cut anywhere"},
    {true, STW_ITEMS_LEVEL, CUT, 4, "four stages by depth per device"},
    {true, STW_ITEMS_TRACE, CUT, 4, "four stages per device in the graph's order"},
    {true, STW_ITEMS_LAYER_TRACE, CUT, 3, "three stages of layers per device, cut anywhere"},
    {true, STW_ITEMS_LEVEL, CUT, 3, "three stages by depth per device"},
    {true, STW_ITEMS_TRACE, CUT, 3, "three stages per device in the graph's order"},
    {true, STW_ITEMS_LAYER_TRACE, CUT, 8, "eight stages of layers per device, cut anywhere"},
    {true, STW_ITEMS_LEVEL, CUT, 8, "eight stages by depth per device"},
    {true, STW_ITEMS_TRACE, CUT, 8, "eight stages per device in the graph's order"},
};
enum { WAY_COUNT = sizeof ways / sizeof ways[0] };

/* Of CUT: how much the transfers at both ends of a stage count beside its time. */
static const double aversions[] = {0.0, 1.0, 0.2, 4.0, 0.5, 0.05};
enum { AVERSION_COUNT = sizeof aversions / sizeof aversions[0] };

typedef struct {
    const way *way;
    const stw_device_set *set;
    double aversion;
} variant;

typedef struct {
    const stw_simulator *simulator;
    stw_layers mirrored, plain;
    stw_device_set set[STW_MAX_DEVICE_SETS]; /* (set_count) */
    int32_t set_count, count;
    variant variant[STW_MAX_DEVICE_SETS * AVERSION_COUNT * WAY_COUNT]; /* (count) the most promising first */
} expert;

static stw_status build(void *context, int32_t index, stw_plan *plan, stw_arena scratch, stw_error *error) {
    const expert *e = context;
    const stw_simulator *s = e->simulator;
    const variant *v = &e->variant[index];
    stw_items items;
    int32_t *device;
    TRY(stw_items_build(v->way->mirrored ? &e->mirrored : &e->plain, s->costs, v->set, v->way->order, &scratch, &items, error));
    STW_TRY_NEW(&scratch, device, STW_MAX_ITEMS, error);
    device[0] = v->set->device[0]; /* where what is in no item goes */
    switch (v->way->dealing) {
        case CUT: TRY(stw_items_cut(&items, s->machine, v->set, v->way->rounds, v->aversion, device, scratch, error)); break;
        case DEAL: stw_items_deal(&items, v->set, device); break;
        case PACK: TRY(stw_items_pack(&items, s->machine, v->set, device, scratch, error)); break;
    }
    for (int32_t i = 0; i < s->graph->N; i++) plan->device[i] = device[items.of[i]];
    return STW_OK;
}

/* A person knows the layers by name; without names there is only depth and order. */
static bool is_possible(const expert *e, const way *w) {
    return e->mirrored.count > 0 || w->order == STW_ITEMS_TRACE || w->order == STW_ITEMS_LEVEL;
}

enum { MOST_STAGES = 96 }; /* more cost time and bring nothing */

static void list_variants(expert *e) {
    int32_t of_set[STW_MAX_DEVICE_SETS] = {0};
    for (int32_t a = 0; a < AVERSION_COUNT; a++) {
        for (int32_t s = 0; s < e->set_count; s++) {
            for (int32_t w = 0; w < WAY_COUNT; w++) {
                if (!is_possible(e, &ways[w]) || (a > 0 && ways[w].dealing != CUT)) continue;
                if (ways[w].rounds > 1 && ways[w].rounds * e->set[s].count > MOST_STAGES) continue;
                if (e->set[s].count == 1 && of_set[s]++ > 0) continue; /* one device: one way */
                e->variant[e->count++] = (variant){&ways[w], &e->set[s], aversions[a]};
            }
        }
    }
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    const stw_simulator *s = search->simulator;
    stw_arena arena = search->arena;
    expert e = {.simulator = s};
    int32_t best = 0;
    e.set_count = stw_device_sets(s->costs, e.set);
    const double *us = s->costs->us[s->machine->device[e.set[0].device[0]].cost_class];
    TRY(stw_layers_build(s->graph, us, true, &arena, &e.mirrored, error));
    TRY(stw_layers_build(s->graph, us, false, &arena, &e.plain, error));
    list_variants(&e);
    const stw_variants variants = {.count = e.count, .build = build, .context = &e, .own_rule = STW_RULE_UPWARD_RANK};
    TRY(stw_search_variants(search, &variants, plan, &best, error));
    const variant *v = &e.variant[best];
    snprintf(search->outcome.note, sizeof search->outcome.note, "%s%s", v->way->note,
             v->aversion > 0.0 ? ", cut where little is sent" : "");
    return STW_OK;
}

const stw_method stw_method_expert = {
    .name = "expert",
    .description = "the layers in stages, or a layer per device; gradients with their forward ops",
    .kind = STW_METHOD_CONSTRUCTIVE,
    .traits = STW_METHOD_PLACES | STW_METHOD_VARIES,
    .op_s = 7e-7,
    .run = run};
