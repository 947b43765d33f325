/* What `optimize` would run, as things look before the first plan. */
#include "driver/agenda.h"
#include "method/starts.h"

static void add(stw_outline *out, const char *method, double most, double until, const char *when) {
    if (out->count < STW_MAX_ENTRIES) out->step[out->count++] = (stw_outline_step){method, most, until, when};
}

static void add_kind(const stw_runner *r, stw_outline *out, stw_method_kind kind, double most, double until, const char *when) {
    const stw_method *method;
    for (int32_t k = 0; (method = stw_method_at(k)) != NULL; k++) {
        if (method->kind == kind && stw_agenda_runs(r, method)) add(out, method->name, most, until, when);
    }
}

static void add_constructive(const stw_runner *r, stw_outline *out) {
    const stw_result nothing = {0};
    const double until = stw_agenda_until(r, &nothing), each = stw_agenda_each(r) * until;
    const stw_method *first = stw_agenda_first(r), *method;
    const bool first_runs = stw_method_decides_placement(first) ? stw_agenda_may_place(r) : stw_agenda_may_order(r);
    if (stw_agenda_has_shortlist(r)) {
        add(out, stw_method_shortlist.name, 1.0, 1.0, "always");
        return;
    }
    if (first_runs) add(out, first->name, each, until, "always");
    if (stw_agenda_may_place(r))
        add(out, stw_method_pack.name, STW_AGENDA_POLICY, STW_AGENDA_POLICY, "if nothing fits on one device");
    for (int32_t k = 0; (method = stw_agenda_at(r, false, k)) != NULL; k++) {
        const bool orders = (method->traits & STW_METHOD_ORDERS) != 0;
        if (!stw_agenda_has(r, method) || (method == first && first_runs && !orders)) continue;
        const bool all = (method->traits & STW_METHOD_STEERS) != 0 || method == &stw_method_stretches;
        const double most = all ? until : each;
        add(out, (method->traits & STW_METHOD_DEFAULT) != 0 ? "single-by-rule" : method->name, most, until, "");
    }
}

static void write_outline(const stw_runner *r, stw_outline *out) {
    static const char unless_proved[] = "unless a plan is proved to be optimal before";
    const stw_settings *settings = &r->settings;
    const double end = stw_agenda_tidies(r) ? 1.0 - STW_AGENDA_TIDY : 1.0, breed = stw_agenda_breed_share(r),
                 coarse = stw_agenda_coarse_share(r);
    *out = (stw_outline){0};
    add(out, settings->from != NULL ? "given" : stw_method_single.name, 0.0, STW_AGENDA_CONSTRUCTIVE, "always: the default");
    if ((settings->tasks & STW_TASK_FUSION) && settings->fusion < 0 && settings->from == NULL)
        add(out, "single-unfused", 0.0, STW_AGENDA_CONSTRUCTIVE, "always: nothing fused");
    if (stw_agenda_has_exact(r)) add(out, stw_method_exact.name, STW_AGENDA_EXACT, STW_AGENDA_EXACT, "");
    add_constructive(r, out);
    if (settings->policy.trains || !settings->policy.no_policy)
        add_kind(r, out, stw_agenda_policy(r), STW_AGENDA_POLICY, STW_AGENDA_POLICY, "unless memory is scarce");
    if (coarse > 0.0) add_kind(r, out, STW_METHOD_COARSENER, coarse * end, end, "unless memory is scarce");
    if (breed > 0.0) add_kind(r, out, STW_METHOD_BREEDER, breed * end, end, unless_proved);
    add_kind(r, out, STW_METHOD_SEARCH, end, end, unless_proved);
    if (stw_agenda_tidies(r)) add(out, "tidy", 1.0, 1.0, "drops transfers that bring nothing");
}

stw_status stw_optimize_outline(const stw_simulator *simulator, const stw_options *options, const stw_settings *settings,
                                stw_outline *out, stw_error *error) {
    const stw_watch watch = {0};
    stw_limited *limited;
    TRY(stw_limited_open(simulator, options, &limited, error));
    const stw_runner runner = {.simulator = limited != NULL ? limited->simulator : simulator,
                               .limited = limited,
                               .settings = *settings,
                               .watch = &watch,
                               .groups_by = STW_FUSION_DEFAULT,
                               .began_s = stw_clock_now_s(settings->clock)};
    write_outline(&runner, out);
    stw_limited_close(limited);
    return STW_OK;
}
