/* A run as columns: what ran and was sent when, what was held, and the critical path. */
#include "report/report.h"

stw_status stw_report_run_create(const stw_simulator *simulator, stw_report_run *run, stw_error *error) {
    TRY(stw_workspace_create(simulator, &run->workspace, error));
    TRY(stw_simulate(simulator, run->plan, run->workspace, &run->result, error));
    if (run->result.peak_bytes == NULL)
        return stw_fail(error, STW_ERROR_NO_PLAN, "the plan has no step to report: %s", run->result.message);
    return stw_explain(simulator, run->plan, NULL, NULL, &run->explanation, error);
}

void stw_report_run_destroy(stw_report_run *run) {
    stw_explanation_destroy(run->explanation);
    stw_workspace_destroy(run->workspace);
    stw_plan_destroy(run->owned_plan);
}

/* A field of a list of structs as a column: `list[k].field` for k < count. */
#define ADD_FIELD(name, kind, type, list, field, count)                                 \
    do {                                                                                \
        type *numbers_;                                                                 \
        STW_TRY_NEW(payload->arena, numbers_, (count), error);                          \
        for (int64_t k_ = 0; k_ < (count); k_++) numbers_[k_] = (type)(list)[k_].field; \
        TRY(stw_payload_add(payload, index, (name), (kind), numbers_, (count), error)); \
    } while (0)

static stw_status add_tasks(const stw_timeline *timeline, int32_t N, int32_t index, stw_payload *payload, stw_error *error) {
    const stw_tasks *tasks = timeline->tasks;
    uint8_t *device;
    STW_TRY_NEW(payload->arena, device, tasks->T, error);
    for (int32_t t = 0; t < tasks->T; t++) device[t] = (uint8_t)timeline->device[t];
    TRY(stw_payload_add(payload, index, "task_node", STW_COLUMN_I32, tasks->task_node, tasks->T, error));
    TRY(stw_payload_add(payload, index, "task_device", STW_COLUMN_U8, device, tasks->T, error));
    TRY(stw_payload_add_int64(payload, index, "task_start", timeline->start_ps, tasks->T, error));
    TRY(stw_payload_add_int64(payload, index, "task_end", timeline->end_ps, tasks->T, error));
    if (timeline->charge_ps != NULL)
        TRY(stw_payload_add_int64(payload, index, "task_charge", timeline->charge_ps, tasks->T, error));
    return stw_payload_add(payload, index, "task_of", STW_COLUMN_I32, tasks->task_of, N, error);
}

static stw_status add_transfers(const stw_timeline *timeline, int32_t index, stw_payload *payload, stw_error *error) {
    const stw_transfer *transfer = timeline->transfer;
    const int64_t count = timeline->transfer_count;
    ADD_FIELD("transfer_node", STW_COLUMN_I32, int32_t, transfer, producer, count);
    ADD_FIELD("transfer_from", STW_COLUMN_U8, uint8_t, transfer, from, count);
    ADD_FIELD("transfer_to", STW_COLUMN_U8, uint8_t, transfer, to, count);
    ADD_FIELD("transfer_bytes", STW_COLUMN_F64, double, transfer, bytes, count);
    ADD_FIELD("transfer_ready", STW_COLUMN_F64, double, transfer, ready_ps, count);
    ADD_FIELD("transfer_start", STW_COLUMN_F64, double, transfer, start_ps, count);
    ADD_FIELD("transfer_end", STW_COLUMN_F64, double, transfer, end_ps, count);
    return STW_OK;
}

static stw_status add_boxes(const stw_report_run *run, int32_t index, stw_payload *payload, stw_error *error) {
    stw_box *box;
    int64_t count;
    TRY(stw_report_boxes(run, payload->arena, &box, &count, error));
    ADD_FIELD("box_node", STW_COLUMN_I32, int32_t, box, node, count);
    ADD_FIELD("box_device", STW_COLUMN_U8, uint8_t, box, device, count);
    ADD_FIELD("box_kind", STW_COLUMN_U8, uint8_t, box, kind, count);
    ADD_FIELD("box_from", STW_COLUMN_F64, double, box, from_ps, count);
    ADD_FIELD("box_to", STW_COLUMN_F64, double, box, to_ps, count);
    ADD_FIELD("box_bytes", STW_COLUMN_F64, double, box, bytes, count);
    ADD_FIELD("box_base", STW_COLUMN_F64, double, box, base, count);
    return STW_OK;
}

static stw_status add_path(const stw_explanation *x, int32_t index, stw_payload *payload, stw_error *error) {
    ADD_FIELD("path_kind", STW_COLUMN_U8, uint8_t, x->path, kind, x->path_count);
    ADD_FIELD("path_node", STW_COLUMN_I32, int32_t, x->path, node, x->path_count);
    ADD_FIELD("path_waiting", STW_COLUMN_I32, int32_t, x->path, waiting, x->path_count);
    ADD_FIELD("path_from", STW_COLUMN_U8, uint8_t, x->path, from, x->path_count);
    ADD_FIELD("path_to", STW_COLUMN_U8, uint8_t, x->path, to, x->path_count);
    ADD_FIELD("path_start", STW_COLUMN_F64, double, x->path, start_ps, x->path_count);
    ADD_FIELD("path_end", STW_COLUMN_F64, double, x->path, end_ps, x->path_count);
    return STW_OK;
}

stw_status stw_report_run_add(const stw_report_run *run, int32_t index, stw_payload *payload, stw_error *error) {
    const stw_timeline *timeline = &run->workspace->timeline;
    TRY(add_tasks(timeline, run->plan->graph->N, index, payload, error));
    TRY(add_transfers(timeline, index, payload, error));
    TRY(add_boxes(run, index, payload, error));
    return add_path(run->explanation, index, payload, error);
}
