#include "plan/steer.h"

#include <string.h>

/* Far above any time, far below STW_FAR_US: a device that lacks memory comes after all that do not, and before those that
 * cannot be reached. */
static const double LACKS_US = 1e15;

typedef struct {
    const stw_steer_input *input;
    stw_board board;
    int32_t *unit_device; /* (units) of the last placed op; -1: none */
    uint64_t allowed;
    uint64_t *readers_at;             /* (V) a bit per device where the other plan has readers; NULL: no outlook */
    int32_t devices[STW_MAX_DEVICES]; /* in the order in which they are looked at: the first of equals is chosen */
} pass;

/* By their first op in the other plan, so that the names of like devices do not matter; else by number. */
static void order_devices(pass *p, const int32_t *order) {
    const stw_board_base *base = p->board.base;
    uint64_t left = base->D == STW_MAX_DEVICES ? UINT64_MAX : (1ull << base->D) - 1;
    int32_t count = 0;
    for (int32_t k = 0; p->input->glued != NULL && k < base->tasks->T && left != 0; k++) {
        const int32_t device = p->input->glued[base->tasks->task_node[order[k]]];
        if (left >> device & 1u) p->devices[count++] = device;
        left &= ~(1ull << device);
    }
    for (int32_t d = 0; d < base->D; d++)
        if (left >> d & 1u) p->devices[count++] = d;
}

static stw_status look_out(pass *p, stw_arena *arena, stw_error *error) {
    const stw_tasks *tasks = p->board.base->tasks;
    STW_TRY_NEW(arena, p->readers_at, tasks->V, error);
    for (int32_t v = 0; v < tasks->V; v++) {
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++)
            p->readers_at[v] |= 1ull << p->input->glued[tasks->task_node[tasks->use[u].task]];
    }
    return STW_OK;
}

/* What it takes to send a task's outputs from the device to where the other plan has their readers. */
static double sending_us(const pass *p, int32_t task, int32_t device) {
    const stw_board_base *base = p->board.base;
    const int64_t links = (int64_t)device * base->D;
    double us = 0.0;
    for (int32_t o = base->tasks->output_start[task]; o < base->tasks->output_start[task + 1]; o++) {
        const int32_t v = base->tasks->output[o];
        for (uint64_t left = p->readers_at[v] & ~(1ull << device); left != 0; left &= left - 1) {
            const int to = __builtin_ctzll(left);
            us += base->latency[links + to] + stw_board_bytes_us(base, links + to, base->sent_bytes[v]);
            if (base->send_us != NULL) us += base->send_us[links + to] + base->receive_us[links + to];
        }
    }
    return us;
}

static double penalty_of_memory(const stw_board *board, int32_t device) {
    const double lacks = stw_board_lacks(board, device);
    return lacks > 0.0 ? LACKS_US + lacks : 0.0;
}

/* Where a task costs least; among equals where least is sent, then the first in order. */
static int32_t choose(pass *p, int32_t task) {
    const stw_steer_input *input = p->input;
    const stw_board_base *base = p->board.base;
    const int32_t node = base->tasks->task_node[task];
    const double aversion = input->aversion == NULL ? 0.0 : input->aversion[task];
    const double unit_glue = p->unit_device == NULL ? 0.0 : input->unit_glue[task];
    const double plan_glue = input->glued == NULL || input->plan_glue == NULL ? 0.0 : input->plan_glue[task];
    const int32_t unit_at = unit_glue > 0.0 && input->unit[node] >= 0 ? p->unit_device[input->unit[node]] : -1;
    const int32_t plan_at = plan_glue > 0.0 ? input->glued[node] : -1;
    int32_t best = -1;
    double best_cost = 0.0;
    stw_board_look(&p->board, task, 0, base->D - 1);
    for (int32_t k = 0; k < base->D; k++) {
        const int32_t d = p->devices[k];
        if (!(p->allowed >> d & 1u)) continue;
        const double us = stw_board_whole_us(&p->board, task, d);
        double cost = stw_board_start(&p->board, d, p->board.ready[d], us) + us + aversion * p->board.comm[d];
        if (p->readers_at != NULL && aversion > 0.0) cost += aversion * sending_us(p, task, d);
        if (unit_at >= 0 && d != unit_at) cost += unit_glue;
        if (plan_at >= 0 && d != plan_at) cost += plan_glue;
        if (input->memory) cost += penalty_of_memory(&p->board, d);
        if (best >= 0 && (cost > best_cost || (cost == best_cost && p->board.comm[d] >= p->board.comm[best]))) continue;
        best = d;
        best_cost = cost;
    }
    return best;
}

enum { TASKS_PER_LOOK = 1024 }; /* at the clock */

static stw_status run(pass *p, stw_error *error) {
    const stw_board_base *base = p->board.base;
    const int32_t *order = p->input->order != NULL ? p->input->order : base->order;
    order_devices(p, order);
    for (int32_t k = 0; k < base->tasks->T; k++) {
        if ((k + 1) % TASKS_PER_LOOK == 0 && stw_stop_is_due(&p->input->stop)) return stw_fail_stopped(error);
        const int32_t task = order[k], bound = stw_board_bound(&p->board, task);
        const bool stays = p->input->glued != NULL && p->input->plan_glue != NULL && p->input->plan_glue[task] >= STW_GLUE_FIXED;
        const int32_t device = bound >= 0 ? bound : stays ? p->input->glued[base->tasks->task_node[task]] : choose(p, task);
        stw_board_place(&p->board, task, device);
        if (p->unit_device == NULL) continue;
        const int32_t unit = p->input->unit[base->tasks->task_node[task]];
        if (unit >= 0) p->unit_device[unit] = device;
    }
    return STW_OK;
}

stw_status stw_steer(const stw_steer_input *input, int32_t *device, double *out_us, stw_arena scratch, stw_error *error) {
    stw_board_base own = {0};
    const stw_board_base *base = input->base;
    if (base == NULL) {
        TRY(stw_board_prepare(input->costs, input->tasks, input->atom, input->atom_count, input->rank, &scratch, &own, error));
        base = &own;
    }
    const stw_board_rules rules = {.home = input->home,
                                   .insertion = input->insertion,
                                   .queues = input->queues,
                                   .channel_gaps = input->channel_gaps,
                                   .memory = input->memory,
                                   .glued = input->glued};
    const uint64_t all = base->D == STW_MAX_DEVICES ? UINT64_MAX : (1ull << base->D) - 1;
    pass p = {.input = input, .allowed = (input->allowed & all) == 0 ? all : input->allowed & all};
    TRY(stw_board_create(base, &rules, &scratch, &p.board, error));
    if (input->unit != NULL && input->unit_glue != NULL) {
        STW_TRY_NEW(&scratch, p.unit_device, input->unit_count, error);
        memset(p.unit_device, -1, (size_t)input->unit_count * sizeof *p.unit_device);
    }
    if (input->outlook && input->glued != NULL) TRY(look_out(&p, &scratch, error));
    TRY(run(&p, error));
    stw_board_devices(&p.board, device);
    if (out_us != NULL) *out_us = p.board.end_us;
    return STW_OK;
}
