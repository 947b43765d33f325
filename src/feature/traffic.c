/* What each unit receives from other devices and sends to them: a value goes once to each device that reads it, and counts in
 * full for every unit that reads it there. */
#include <math.h>
#include <string.h>

#include "feature/columns.h"
#include "feature/crossings.h"
#include "feature/parts.h"

typedef struct {
    double us[STW_MAX_DEVICES]; /* on the mean link, for each device that the value at hand is sent to */
    int32_t view[STW_MAX_DEVICES];
    uint64_t to; /* a bit for each of them */
} sending;

/* Bytes first, then time. */
static void find_sending(const stw_feedback *b, int32_t value, sending *s) {
    const stw_features *f = b->features;
    const stw_tasks *tasks = f->tasks;
    const int32_t home = b->input->device[tasks->value_node[value]];
    s->to = 0;
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        const stw_task_use *use = &tasks->use[u];
        const int32_t at = b->task_device[use->task];
        if (at == home) continue;
        if (!(s->to >> at & 1u)) {
            s->to |= 1ull << at;
            s->us[at] = 0.0;
            s->view[at] = -2;
        }
        if (use->view == s->view[at]) continue;
        s->view[at] = use->view;
        s->us[at] = fmin((double)tasks->value_bytes[value], s->us[at] + stw_use_bytes(f, value, use));
    }
    for (uint64_t left = s->to; left != 0; left &= left - 1) {
        const int d = __builtin_ctzll(left);
        s->us[d] = stw_mean_link_us(f->crossings, s->us[d]);
    }
}

stw_status stw_feedback_traffic(const stw_feedback *b, double *matrix, stw_arena scratch, stw_error *error) {
    const stw_features *f = b->features;
    const stw_tasks *tasks = f->tasks;
    double *in, *out;
    int32_t *counted; /* (M, D) the last value that counted for a unit on a device, plus 1 */
    sending s;
    memset(&s, 0, sizeof s);
    STW_TRY_NEW(&scratch, in, f->M, error);
    STW_TRY_NEW(&scratch, out, f->M, error);
    STW_TRY_NEW(&scratch, counted, (int64_t)f->M * f->D, error);
    for (int32_t v = 0; v < tasks->V; v++) {
        if (f->crossings->from[v] < 0) continue;
        find_sending(b, v, &s);
        if (s.to == 0) continue;
        for (uint64_t left = s.to; left != 0; left &= left - 1) out[f->crossings->from[v]] += s.us[__builtin_ctzll(left)];
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) {
            const int32_t at = b->task_device[tasks->use[u].task];
            const int32_t unit = f->units->of[tasks->task_node[tasks->use[u].task]];
            int32_t *last = &counted[(int64_t)unit * f->D + at];
            if (!(s.to >> at & 1u) || *last == v + 1) continue;
            *last = v + 1;
            in[unit] += s.us[at];
        }
    }
    for (int32_t u = 0; u < f->M; u++) {
        double *row = matrix + (int64_t)u * STW_FEEDBACK_COLUMNS;
        row[STW_FEEDBACK_COMM_IN] = stw_compressed(in[u] * 1e6 * b->per_step);
        row[STW_FEEDBACK_COMM_OUT] = stw_compressed(out[u] * 1e6 * b->per_step);
    }
    return STW_OK;
}
