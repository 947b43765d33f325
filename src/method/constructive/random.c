/* `random`: every op on a device of its own choice; the best of several draws. What every other method must beat. */
#include "method/method.h"
#include "plan/plan.h"

enum { DRAWS = 16 };

static stw_status build(void *context, int32_t variant, stw_plan *plan, stw_arena scratch, stw_error *error) {
    const stw_search *search = context;
    const stw_simulator *s = search->simulator;
    const stw_rng seeded = stw_rng_create(search->seed);
    stw_rng rng = stw_rng_split(&seeded, (uint64_t)variant);
    (void)scratch, (void)error;
    for (int32_t i = 0; i < s->graph->N; i++) plan->device[i] = (int32_t)stw_rng_below(&rng, s->machine->device_count);
    stw_plan_complete(s, plan);
    return STW_OK;
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    const stw_variants variants = {.count = DRAWS, .build = build, .context = search, .own_rule = STW_RULE_UPWARD_RANK};
    return stw_search_variants(search, &variants, plan, NULL, error);
}

const stw_method stw_method_random = {.name = "random",
                                      .description = "every op on a random device; the best of 16 draws",
                                      .kind = STW_METHOD_CONSTRUCTIVE,
                                      .traits = STW_METHOD_PLACES | STW_METHOD_NAMED_ONLY,
                                      .op_s = 7e-7,
                                      .run = run};
