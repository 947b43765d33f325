/* What `stowage simulate` has when it reports. */
#ifndef STW_CLI_SIMULATE_H
#define STW_CLI_SIMULATE_H

#include "cli.h"
#include "plan/plan.h"
#include "sim/sim.h"

typedef struct cli_simulation {
    stw_session *session; /* owns the next four */
    const stw_graph *graph;
    const stw_machine *machine;
    const stw_simulator *simulator;
    const stw_plan *plan;
    stw_workspace *workspace;
    stw_evaluation result;
    stw_bounds bounds;
    double measured_share;
    bool has_step; /* there is a timeline: valid, or short of memory only */
} cli_simulation;

stw_status cli_report_text(const cli_simulation *s, stw_arena arena, stw_error *error);
stw_status cli_report_json(const cli_simulation *s, stw_arena arena, stw_error *error);

#endif
