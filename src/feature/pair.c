/* What a simulated plan says of each unit and device: mostly, what it would mean if the unit went there. */
#include <math.h>
#include <string.h>

#include "feature/columns.h"
#include "feature/crossings.h"
#include "feature/feature.h"
#include "feature/feedback.h"

enum { BINS = 32 };

typedef struct {
    const stw_feedback *b;
    double *in, *out;    /* (M, D) what a unit reads of others at home on d; what others read of it on d: us on the mean link */
    double *late;        /* (M, D) ps */
    double *share;       /* (M, D) weight */
    double *busy;        /* (D, BINS) share of each bin */
    double *parameters;  /* (D) bytes */
    double *first_start; /* (E) ps, of the ops of a unit that read a value */
} pairs;

/* Reads of one value by other units: when, and on which devices. */
static void add_readers(pairs *p, int32_t value) {
    const stw_features *f = p->b->features;
    const stw_crossings *c = f->crossings;
    const stw_tasks *tasks = f->tasks;
    const double whole = (double)tasks->value_bytes[value];
    double bytes[STW_MAX_DEVICES] = {0.0};
    int32_t view[STW_MAX_DEVICES] = {0};
    uint64_t to = 0;
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        const stw_task_use *use = &tasks->use[u];
        const int32_t e = c->of_use[u], at = p->b->task_device[use->task];
        if (e < 0) continue;
        p->first_start[e] = fmin(p->first_start[e], (double)p->b->input->start_ps[use->task]);
        if (!(to >> at & 1u)) {
            to |= 1ull << at;
            bytes[at] = 0.0;
            view[at] = -2;
        }
        if (use->view == view[at]) continue;
        view[at] = use->view;
        bytes[at] = fmin(whole, bytes[at] + stw_use_bytes(f, value, use));
    }
    for (; to != 0; to &= to - 1) {
        const int d = __builtin_ctzll(to);
        p->out[(int64_t)c->from[value] * f->D + d] += stw_mean_link_us(c, bytes[d]);
    }
}

static void add_value(pairs *p, int32_t value) {
    const stw_features *f = p->b->features;
    const stw_crossings *c = f->crossings;
    const int32_t producer = f->tasks->value_task[value], home = p->b->input->device[f->tasks->value_node[value]];
    const double end = producer < 0 ? 0.0 : (double)p->b->input->end_ps[producer];
    for (int32_t e = c->start[value]; e < c->start[value + 1]; e++) p->first_start[e] = INFINITY;
    add_readers(p, value);
    for (int32_t e = c->start[value]; e < c->start[value + 1]; e++) {
        const int64_t row = (int64_t)c->to[e] * f->D;
        p->in[row + home] += stw_mean_link_us(c, c->bytes[e]);
        for (int32_t d = 0; d < f->D; d++) {
            const double late = end + stw_feature_transfer_ps(&p->b->links, home, d, c->bytes[e]) - p->first_start[e];
            if (late > p->late[row + d]) p->late[row + d] = late;
        }
    }
}

static void add_values(pairs *p) {
    const stw_features *f = p->b->features;
    const stw_tasks *tasks = f->tasks;
    for (int64_t k = 0; k < (int64_t)f->M * f->D; k++) p->late[k] = -INFINITY;
    for (int32_t v = 0; v < tasks->V; v++) {
        if (f->crossings->start[v] < f->crossings->start[v + 1]) add_value(p, v);
        if (tasks->value_flags[v] & STW_VALUE_RESIDENT)
            p->parameters[p->b->input->device[tasks->value_node[v]]] += (double)tasks->value_bytes[v];
    }
}

/* How much of each bin the tasks of a device fill. */
static void add_task(pairs *p, int32_t task) {
    const double bins = BINS * p->b->per_step;
    const double from = (double)p->b->input->start_ps[task] * bins, to = (double)p->b->input->end_ps[task] * bins;
    double *busy = p->busy + (int64_t)p->b->task_device[task] * BINS;
    for (int32_t k = (int32_t)fmax(0.0, fmin(from, BINS - 1)); k < BINS && k < to; k++)
        busy[k] += fmin(to, k + 1) - fmax(from, k);
}

/* Fills the rows of one unit. */
static void write_unit(const pairs *p, int32_t unit, double *rows) {
    const stw_features *f = p->b->features;
    const stw_costs *costs = f->costs;
    const int64_t at = (int64_t)unit * f->D;
    const double per_step = p->b->per_step, start = p->b->start[unit] * per_step;
    const int32_t bin = (int32_t)fmax(0.0, fmin(BINS * start, BINS - 1));
    double in = 0.0, out = 0.0, weight = 0.0;
    for (int32_t d = 0; d < f->D; d++) {
        in += p->in[at + d];
        out += p->out[at + d];
        weight += p->share[at + d];
    }
    for (int32_t d = 0; d < f->D; d++) {
        double *row = rows + (int64_t)d * STW_PAIR_COLUMNS, us = 0.0;
        const double *class_us = costs->us[costs->machine->device[d].cost_class];
        const double late = p->late[at + d] == -INFINITY ? -start : p->late[at + d] * per_step;
        for (int32_t m = f->units->start[unit]; m < f->units->start[unit + 1]; m++) us += class_us[f->units->member[m]];
        row[STW_PAIR_SHARE] = stw_ratio(p->share[at + d], weight);
        row[STW_PAIR_IN_FROM] = stw_compressed(p->in[at + d] * 1e6 * per_step);
        row[STW_PAIR_IN_NOT_FROM] = stw_compressed(fmax(0.0, in - p->in[at + d]) * 1e6 * per_step);
        row[STW_PAIR_OUT_TO] = stw_compressed(p->out[at + d] * 1e6 * per_step);
        row[STW_PAIR_OUT_NOT_TO] = stw_compressed(fmax(0.0, out - p->out[at + d]) * 1e6 * per_step);
        row[STW_PAIR_LATE] = stw_compressed(late);
        row[STW_PAIR_LOAD] = stw_bounded((double)p->b->input->busy_ps[d] * per_step);
        row[STW_PAIR_BUSY_THEN] = stw_bounded(p->busy[(int64_t)d * BINS + bin]);
        row[STW_PAIR_SPEED] = us > 0.0 ? stw_bounded(f->unit_us[unit] / us) : 1.0;
        row[STW_PAIR_PARAMETERS] = stw_bounded(stw_ratio(p->parameters[d], (double)costs->machine->device[d].memory_bytes));
    }
}

stw_status stw_feedback_pairs(const stw_feedback *b, double *matrix, stw_arena scratch, stw_error *error) {
    const stw_features *f = b->features;
    const int64_t cells = (int64_t)f->M * f->D;
    pairs p = {.b = b};
    STW_TRY_NEW(&scratch, p.in, cells, error);
    STW_TRY_NEW(&scratch, p.out, cells, error);
    STW_TRY_NEW(&scratch, p.late, cells, error);
    STW_TRY_NEW(&scratch, p.share, cells, error);
    STW_TRY_NEW(&scratch, p.busy, (int64_t)f->D * BINS, error);
    STW_TRY_NEW(&scratch, p.parameters, f->D, error);
    STW_TRY_NEW(&scratch, p.first_start, f->crossings->E, error);
    add_values(&p);
    for (int32_t t = 0; t < f->tasks->T; t++) add_task(&p, t);
    for (int32_t u = 0; u < f->M; u++) {
        for (int32_t m = f->units->start[u]; m < f->units->start[u + 1]; m++) {
            const int32_t node = f->units->member[m];
            p.share[(int64_t)u * f->D + b->input->device[node]] += f->weight[node];
        }
        write_unit(&p, u, matrix + (int64_t)u * f->D * STW_PAIR_COLUMNS);
    }
    return STW_OK;
}

/* ---- what a proposal to move units means to each of them ---- */

int32_t stw_features_proposal_columns(void) { return 1 + 2 * STW_PAIR_COLUMNS; }

void stw_features_proposal(const stw_features *f, const double *pair, const int32_t *now, const int32_t *then, double *proposal) {
    const int64_t columns = stw_features_proposal_columns();
    memset(proposal, 0, (size_t)(f->M * columns) * sizeof *proposal);
    for (int64_t u = 0; u < f->M; u++) {
        const int32_t member = f->units->member[f->units->start[u]], from = now[member], to = then[member];
        const double *of_unit = pair + u * f->D * STW_PAIR_COLUMNS;
        double *row = proposal + u * columns;
        if (from == to) continue;
        row[0] = 1.0;
        memcpy(row + 1, of_unit + (int64_t)to * STW_PAIR_COLUMNS, STW_PAIR_COLUMNS * sizeof *row);
        memcpy(row + 1 + STW_PAIR_COLUMNS, of_unit + (int64_t)from * STW_PAIR_COLUMNS, STW_PAIR_COLUMNS * sizeof *row);
    }
}
