/* What if the machine or the times were others: each a machine and costs of its own, simulated with the plan as it is and with
 * the best plan of a short search that begins with it. */
#include <math.h>
#include <string.h>

#include "driver/runner.h"
#include "explain/explain.h"

/* ---- the option ---- */

static stw_status fail_change(stw_str text, const char *what, stw_error *error) {
    return stw_fail(error, STW_ERROR_INPUT,
                    "--what-if: '%.*s' %s; write bandwidth=x2, devices=+1, devices=-1, memory=+20%%, times=+10%% or the like, "
                    "'all' or 'none'",
                    STW_STR_SHOW(text), what);
}

/* "x2", "+20%", "-10%". */
static bool read_factor(stw_str text, double *factor) {
    double number;
    if (text.length >= 2 && text.p[0] == 'x') {
        if (!stw_str_to_double((stw_str){text.p + 1, text.length - 1}, factor)) return false;
    } else if (text.length >= 3 && (text.p[0] == '+' || text.p[0] == '-') && text.p[text.length - 1] == '%') {
        if (!stw_str_to_double((stw_str){text.p + 1, text.length - 2}, &number)) return false;
        *factor = (100.0 + (text.p[0] == '-' ? -number : number)) / 100.0;
    } else {
        return false;
    }
    return *factor >= 1e-6 && *factor <= 1e6;
}

static bool read_count(stw_str text, int32_t *count) {
    int64_t number;
    if (text.length < 2 || (text.p[0] != '+' && text.p[0] != '-')) return false;
    if (!stw_str_to_int64((stw_str){text.p + 1, text.length - 1}, &number) || number < 1 || number > STW_MAX_DEVICES)
        return false;
    *count = (int32_t)(text.p[0] == '-' ? -number : number);
    return true;
}

static stw_status read_change(stw_str text, stw_change *out, stw_error *error) {
    static const struct {
        const char *key;
        stw_change_kind kind;
    } known[] = {{"bandwidth=", STW_CHANGE_BANDWIDTH},
                 {"devices=", STW_CHANGE_DEVICES},
                 {"memory=", STW_CHANGE_MEMORY},
                 {"times=", STW_CHANGE_TIMES}};
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        const int64_t length = (int64_t)strlen(known[k].key);
        if (!stw_str_starts(text, known[k].key)) continue;
        const stw_str value = {text.p + length, text.length - length};
        *out = (stw_change){.kind = known[k].kind, .factor = 1.0};
        if (out->kind == STW_CHANGE_DEVICES)
            return read_count(value, &out->count) ? STW_OK : fail_change(text, "needs a number of devices with its sign", error);
        return read_factor(value, &out->factor) ? STW_OK : fail_change(text, "needs a factor (x2) or a percentage (+20%)", error);
    }
    return fail_change(text, "is no change that is known", error);
}

stw_status stw_changes_read(const char *text, stw_arena *arena, stw_change **out, stw_str **name, int32_t *count,
                            stw_error *error) {
    *count = 0;
    if (text == NULL || strcmp(text, "none") == 0) return STW_OK;
    if (strcmp(text, "all") == 0) text = "bandwidth=x2,devices=+1,devices=-1,memory=+20%,times=+10%";
    const stw_str all = stw_str_copy(arena, stw_str_of(text));
    if (all.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    STW_TRY_NEW(arena, *out, all.length / 2 + 1, error);
    STW_TRY_NEW(arena, *name, all.length / 2 + 1, error);
    for (const char *word = all.p; word != NULL;) {
        const char *comma = strchr(word, ',');
        const stw_str one = stw_str_copy(arena, (stw_str){word, comma == NULL ? (int64_t)strlen(word) : comma - word});
        if (one.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
        stw_change change;
        TRY(read_change(one, &change, error));
        (*name)[*count] = one;
        (*out)[(*count)++] = change;
        word = comma == NULL ? NULL : comma + 1;
    }
    return STW_OK;
}

/* ---- another machine ---- */

typedef struct { /* everything is owned */
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_plan *plan;
    int32_t device_of[STW_MAX_DEVICES]; /* of the old machine's devices; -1: gone */
    int32_t heir;                       /* the old device that has what was on those; -1: none is gone */
} world;

static void close_world(world *w) {
    stw_plan_destroy(w->plan);
    stw_simulator_destroy(w->simulator);
    stw_costs_destroy(w->costs);
    stw_machine_destroy(w->machine);
}

/* Who gets what was on a device that is gone: the least busy of its kind, else of any. */
static int32_t find_heir(const stw_explainer *e, const int32_t *device_of) {
    const stw_machine *machine = e->simulator->machine;
    int32_t gone = 0, heir = -1;
    bool heir_alike = false;
    while (gone < machine->device_count && device_of[gone] >= 0) gone++;
    if (gone == machine->device_count) return -1;
    for (int32_t d = 0; d < machine->device_count; d++) {
        const bool alike = machine->device[d].cost_class == machine->device[gone].cost_class;
        if (device_of[d] < 0 || (heir >= 0 && heir_alike && !alike)) continue;
        if (heir >= 0 && heir_alike == alike && e->result.busy_ps[d] >= e->result.busy_ps[heir]) continue;
        heir = d;
        heir_alike = alike;
    }
    return heir;
}

static stw_status move_plan(stw_explainer *e, world *w, stw_error *error) {
    const stw_plan *plan = e->plan;
    TRY(stw_plan_create(e->simulator->graph, w->machine, &w->plan, error));
    w->heir = find_heir(e, w->device_of);
    for (int32_t i = 0; i < e->simulator->graph->N; i++) {
        const int32_t before = plan->device[i], known = before >= 0 && before < plan->machine->device_count ? before : 0;
        const int32_t now = w->device_of[known];
        w->plan->device[i] = now >= 0 ? now : w->device_of[w->heir];
        w->plan->priority[i] = plan->priority[i];
        w->plan->group[i] = plan->group[i];
    }
    for (int32_t d = 0; d < plan->machine->device_count; d++) {
        if (plan->order[d] == NULL || w->device_of[d] < 0) continue;
        TRY(stw_plan_set_order(w->plan, w->device_of[d], plan->order[d], plan->order_count[d], error));
    }
    return STW_OK;
}

static stw_status open_world(stw_explainer *e, const stw_change *change, world *w, stw_error *error) {
    const stw_machine *machine = e->simulator->machine;
    int32_t class_of[STW_MAX_DEVICES];
    for (int32_t d = 0; d < machine->device_count; d++) { /* copies have the class of what they are copies of */
        if (w->device_of[d] >= 0) class_of[w->machine->device[w->device_of[d]].cost_class] = machine->device[d].cost_class;
    }
    TRY(stw_costs_scale(e->simulator->costs, w->machine, class_of, change->kind == STW_CHANGE_TIMES ? change->factor : 1.0,
                        &w->costs, error));
    TRY(stw_simulator_create(w->costs, &w->simulator, error));
    TRY(move_plan(e, w, error));
    return stw_refit_orders(e, w->simulator, w->plan, error);
}

/* ---- the trials ---- */

static bool is_better(const stw_attempt *a, const stw_attempt *b) {
    const bool valid = a->tried && a->reason == STW_VALID;
    return valid && (!b->tried || b->reason != STW_VALID || a->step_ps < b->step_ps);
}

/* A search from a plan never looks at the default. Where that is better on the other machine, it begins from nothing. */
static stw_status choose_start(stw_explainer *e, const world *w, const stw_attempt *kept, const stw_plan **start,
                               stw_error *error) {
    stw_plan *standard;
    stw_attempt worth = {0};
    *start = stw_has_step(kept) ? w->plan : NULL;
    stw_status status = stw_method_run("single", w->simulator, NULL, &standard, error);
    if (status == STW_ERROR_NO_PLAN) return STW_OK;
    TRY(status);
    status = stw_plan_fuse(standard, w->costs, "default", error);
    if (status == STW_OK) status = stw_try_plan_on(e, w->simulator, standard, &worth, error);
    stw_plan_destroy(standard);
    if (is_better(&worth, kept)) *start = NULL;
    return status;
}

static stw_status take_found(stw_explainer *e, const world *w, const stw_result *result, stw_attempt *out, stw_error *error) {
    const stw_plan *found = stw_result_plan(result);
    if (found != NULL) return stw_try_plan_on(e, w->simulator, found, out, error);
    const stw_str lacking = stw_str_copy(&e->out->arena, stw_str_of(stw_result_lacking(result)));
    if (lacking.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    *out = (stw_attempt){.tried = true, .reason = STW_INVALID_MEMORY, .message = lacking.p};
    return STW_OK;
}

static stw_status search(stw_explainer *e, const world *w, stw_what_if *out, stw_error *error) {
    stw_result *result;
    stw_candidate candidate;
    const stw_plan *start;
    stw_watch watch = e->watch != NULL ? *e->watch : (stw_watch){0};
    watch.spent_s = 0.0; /* every search has the whole budget */
    TRY(choose_start(e, w, &out->kept, &start, error));
    TRY(stw_optimize_by(w->simulator, e->options, e->watch != NULL ? &watch : NULL, NULL, start, &result, error));
    for (int32_t k = 0; stw_result_candidate(result, k, &candidate); k++) out->evaluations += candidate.evaluations;
    const stw_status status = take_found(e, w, result, &out->searched, error);
    stw_result_destroy(result);
    if (is_better(&out->kept, &out->searched)) out->searched = out->kept; /* which the search did not begin with */
    return status;
}

static stw_status tell(stw_explainer *e, const world *w, stw_str words, stw_what_if *out, stw_error *error) {
    if (w->plan != NULL && w->heir >= 0)
        words = stw_str_format(&e->out->arena, "%.*s, whose ops go to %.*s", STW_STR_SHOW(words),
                               STW_STR_SHOW(e->simulator->machine->device[w->heir].name));
    if (words.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    out->words = words.p;
    return STW_OK;
}

static stw_status try_change(stw_explainer *e, const stw_change *change, stw_what_if *out, stw_error *error) {
    world w = {.heir = -1};
    stw_str words;
    stw_status status = stw_machine_change(e->simulator->machine, change, &e->out->arena, &w.machine, w.device_of, &words, error);
    if (status == STW_OK && w.machine != NULL) status = open_world(e, change, &w, error);
    if (status == STW_OK) status = tell(e, &w, words, out, error);
    if (status == STW_OK && w.machine != NULL) status = stw_try_plan_on(e, w.simulator, w.plan, &out->kept, error);
    if (status == STW_OK && w.machine != NULL) status = search(e, &w, out, error);
    close_world(&w);
    return status;
}

stw_status stw_explain_what_ifs(stw_explainer *e, const stw_change *change, const stw_str *name, int32_t count,
                                stw_error *error) {
    static const stw_change nothing = {.kind = STW_CHANGE_NOTHING, .factor = 1.0};
    stw_explanation *out = e->out;
    for (int32_t k = -1; k < count && count > 0; k++) {
        out->interrupted |= e->watch != NULL && stw_cancel_is_requested(e->watch->cancel);
        if (out->interrupted) return STW_OK;
        stw_what_if what_if = {.change = k < 0 ? "" : name[k].p, .words = ""};
        TRY(try_change(e, k < 0 ? &nothing : &change[k], &what_if, error));
        STW_PUSH(&out->arena, out, what_if, what_if, error);
    }
    out->interrupted |= count > 0 && e->watch != NULL && stw_cancel_is_requested(e->watch->cancel);
    return STW_OK;
}
