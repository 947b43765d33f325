/* What an exported plan is worth as its target will run it, beside the plan itself and beside one device. */
#include <math.h>

#include "export/export.h"
#include "plan/of_modules.h"

/* NaN: the plan is not valid. */
static stw_status step_of(const stw_export *e, const stw_plan *plan, stw_workspace *workspace, double *out, stw_error *error) {
    stw_evaluation evaluation;
    TRY(stw_simulate(e->simulator, plan, workspace, &evaluation, error));
    *out = evaluation.reason == STW_VALID ? evaluation.step_s : NAN;
    return STW_OK;
}

static bool has_groups(const stw_export *e) {
    for (int32_t i = 0; i < e->graph->N; i++)
        if (e->graph->kind[i] == STW_NODE_OP && e->plan->group[i] != i) return true;
    return false;
}

static bool is_like_another(const stw_machine *machine, int32_t d) {
    for (int32_t other = 0; other < d; other++) {
        if (machine->device[other].cost_class == machine->device[d].cost_class &&
            machine->device[other].memory_bytes == machine->device[d].memory_bytes)
            return true;
    }
    return false;
}

static double lesser(double a, double b) { return isnan(a) || b < a ? b : a; }

/* Everything on the device that does best, in the order of the program; fused by the rule too, where the plan is. */
static stw_status price_one(const stw_export *e, stw_workspace *workspace, double *out, stw_error *error) {
    stw_plan *plan;
    stw_status status = STW_OK;
    double step = NAN;
    *out = NAN;
    TRY(stw_plan_create(e->graph, e->machine, &plan, error));
    for (int32_t k = 0; k < e->graph->op_count; k++) plan->priority[e->graph->topological[k]] = -(double)k;
    for (int32_t d = 0; d < e->machine->device_count && status == STW_OK; d++) {
        if (is_like_another(e->machine, d)) continue;
        for (int32_t i = 0; i < e->graph->N; i++) plan->device[i] = d;
        status = stw_plan_fuse(plan, e->simulator->costs, "none", error);
        if (status == STW_OK) status = step_of(e, plan, workspace, &step, error);
        if (status == STW_OK) *out = lesser(*out, step);
        if (status != STW_OK || e->home != NULL || !has_groups(e)) continue;
        status = stw_plan_fuse(plan, e->simulator->costs, "default", error);
        if (status == STW_OK) status = step_of(e, plan, workspace, &step, error);
        if (status == STW_OK) *out = lesser(*out, step);
    }
    stw_plan_destroy(plan);
    return status;
}

static stw_status price_exported(const stw_export *e, stw_workspace *workspace, double plan_s, double *out, stw_error *error) {
    stw_plan *plan;
    *out = plan_s;
    if (e->home == NULL) return STW_OK; /* it says all that the plan says */
    TRY(stw_plan_of_homes(e->graph, e->machine, e->home_grain, e->home, &plan, NULL, error));
    const stw_status status = step_of(e, plan, workspace, out, error);
    stw_plan_destroy(plan);
    return status;
}

typedef struct {
    char text[32];
} step_text;

static step_text show(double seconds) {
    step_text out;
    if (isnan(seconds))
        snprintf(out.text, sizeof out.text, "not valid");
    else
        snprintf(out.text, sizeof out.text, "%.5g %s", seconds < 1e-3 ? 1e6 * seconds : 1e3 * seconds,
                 seconds < 1e-3 ? "us" : "ms");
    return out;
}

bool stw_export_is_worse(double exported_s, double one_device_s) {
    return exported_s > one_device_s || (isnan(exported_s) && !isnan(one_device_s));
}

/* Lines for the note: what is worse than one device comes first. */
static stw_status tell(stw_export *e, const stw_price *p, stw_error *error) {
    const char *worse = "";
    if (stw_export_is_worse(p->exported_s, p->one_device_s))
        worse = "worse than one device: as exported the step is slower than with everything on one, or not valid\n";
    e->price_note = stw_str_format(e->arena, "%ssimulated step: %s as exported, %s as planned, %s on one device\n", worse,
                                   show(p->exported_s).text, show(p->plan_s).text, show(p->one_device_s).text);
    return e->price_note.p != NULL ? STW_OK : stw_fail(error, STW_ERROR_MEMORY, "out of memory");
}

stw_status stw_export_price(stw_export *e, stw_error *error) {
    stw_price *out = &e->price;
    stw_workspace *workspace;
    *out = (stw_price){NAN, NAN, NAN};
    TRY(stw_workspace_create(e->simulator, &workspace, error));
    stw_status status = step_of(e, e->plan, workspace, &out->plan_s, error);
    if (status == STW_OK) status = price_one(e, workspace, &out->one_device_s, error);
    if (status == STW_OK) status = price_exported(e, workspace, out->plan_s, &out->exported_s, error);
    stw_workspace_destroy(workspace);
    return status == STW_OK ? tell(e, out, error) : status;
}
