#include "plan/board.h"

#include <string.h>

/* ---- an empty board ---- */

/* Atoms whose home another plan gives are bound from the start. */
static void bind_glued(stw_board *b) {
    const stw_tasks *tasks = b->base->tasks;
    for (int32_t k = 0; k < tasks->source_count; k++) {
        const int32_t v = tasks->source[k], node = tasks->value_node[v];
        if (!(tasks->value_flags[v] & STW_VALUE_RESIDENT)) continue;
        const int32_t atom = b->base->atom[node], device = b->rules.glued[node];
        if (b->atom_device[atom] >= 0) continue;
        b->atom_device[atom] = device;
        b->held[device] += b->base->atom_bytes[atom];
    }
}

static void count_readers(stw_board *b) {
    const stw_board_base *base = b->base;
    for (int32_t r = 0; r < base->read_start[base->tasks->T]; r++) b->value[base->read[r].value].readers++;
}

stw_status stw_board_create(const stw_board_base *base, const stw_board_rules *rules, stw_arena *arena, stw_board *out,
                            stw_error *error) {
    const stw_tasks *tasks = base->tasks;
    const int32_t D = base->D, channels = base->costs->machine->channel_count;
    *out = (stw_board){.base = base, .rules = *rules};
    STW_TRY_NEW(arena, out->atom_device, base->atom_count, error);
    STW_TRY_NEW(arena, out->task_device, tasks->T, error);
    STW_TRY_NEW(arena, out->task_end, tasks->T, error);
    STW_TRY_NEW(arena, out->value, tasks->V, error);
    STW_TRY_NEW(arena, out->there, (int64_t)base->piece_rows * D, error);
    out->device = STW_NEW_DIRTY(arena, stw_calendar, D);
    out->channel = STW_NEW_DIRTY(arena, stw_calendar, (int64_t)channels + 1);
    STW_TRY_NEW(arena, out->sent, (int64_t)channels + 1, error);
    STW_TRY_NEW(arena, out->sent_look, (int64_t)channels + 1, error);
    out->arrival = STW_NEW_DIRTY(arena, double, (int64_t)tasks->V *D); /* rows are filled when values get a home */
    if (out->device == NULL || out->channel == NULL || out->arrival == NULL)
        return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    for (int32_t d = 0; d < D; d++) stw_calendar_clear(&out->device[d]);
    for (int32_t c = 0; c <= channels; c++) stw_calendar_clear(&out->channel[c]);
    memset(out->atom_device, -1, (size_t)base->atom_count * sizeof *out->atom_device);
    for (int32_t k = 0; k < tasks->source_count; k++) {
        out->value[tasks->source[k]].device = -1;
        for (int32_t d = 0; d < D; d++) out->arrival[(int64_t)tasks->source[k] * D + d] = -1.0;
    }
    if (rules->memory) count_readers(out);
    if (rules->home == STW_HOME_GLUED && rules->glued != NULL) bind_glued(out);
    return STW_OK;
}

/* ---- looking ---- */

/* The home of a value; -1 while that of a parameter is still open. */
static inline int32_t home_of(stw_board *b, int32_t v) {
    stw_board_value *value = &b->value[v];
    if (value->device >= 0) return value->device;
    const int32_t device = b->atom_device[b->base->atom[b->base->tasks->value_node[v]]];
    if (device < 0) return -1;
    value->device = device;
    b->arrival[(int64_t)v * b->base->D + device] = 0.0;
    if (b->base->piece_row[v] >= 0) b->there[(int64_t)b->base->piece_row[v] * b->base->D + device] = 1u;
    return device;
}

/* Will the home of a parameter be where this task goes? */
static bool takes_home(const stw_board *b, int32_t task, int32_t v) {
    switch (b->rules.home) {
        case STW_HOME_UPDATE: return !b->base->atom_has_op[b->base->atom[b->base->tasks->value_node[v]]];
        case STW_HOME_LARGEST: return b->base->largest_reader[v] == task;
        case STW_HOME_FIRST:
        case STW_HOME_GLUED: break;
    }
    return true;
}

/* What is read is on the device in all its pieces. */
static inline bool is_there(const stw_board *b, const stw_board_read *read, int32_t device) {
    const int32_t row = b->base->piece_row[read->value];
    if (row < 0) return true;
    const uint32_t there = b->there[(int64_t)row * b->base->D + device];
    return (there & 1u) || (read->pieces & ~there) == 0;
}

static void look_at_read(stw_board *b, const stw_board_read *read, bool alone, int32_t first, int32_t last) {
    const stw_board_base *base = b->base;
    const stw_board_value *value = &b->value[read->value];
    const double *row = &b->arrival[(int64_t)read->value * base->D];
    const int64_t links = (int64_t)value->device * base->D;
    for (int32_t d = first; d <= last; d++) {
        double ready = row[d];
        if (ready < 0.0 || !is_there(b, read, d)) {
            /* A further piece travels with the first: it pays no latency of its own. */
            const double us = (ready < 0.0 ? base->latency[links + d] : 0.0) + stw_board_bytes_us(base, links + d, read->bytes);
            const bool charges = base->send_us != NULL && ready < 0.0;
            const double send_us = charges && base->tasks->value_task[read->value] >= 0 ? base->send_us[links + d] : 0.0;
            const double receive_us = charges ? base->receive_us[links + d] : 0.0;
            double begin = value->ready + send_us;
            if (b->rules.queues) {
                const int32_t c = base->channel[links + d];
                const int64_t look = b->look_count * STW_MAX_DEVICES + d;
                begin = !alone && b->sent_look[c] == look ? stw_larger(begin, b->sent[c])
                                                          : stw_calendar_start(&b->channel[c], b->rules.channel_gaps, begin, us);
                if (!alone) {
                    b->sent[c] = begin + us;
                    b->sent_look[c] = look;
                }
            }
            ready = begin + us;
            b->comm[d] += us + send_us + receive_us;
            b->charge[d] += receive_us;
            b->need[d] += read->bytes;
        }
        if (ready > b->ready[d]) b->ready[d] = ready;
    }
}

/* Bytes that are the same on every device (outputs, homes that are still open), and inputs that are not there yet. */
static void look_at_memory(stw_board *b, int32_t task, int32_t first, int32_t last) {
    const stw_tasks *tasks = b->base->tasks;
    const int32_t own = b->base->atom[tasks->task_node[task]];
    double same = b->atom_device[own] < 0 ? b->base->atom_bytes[own] : 0.0;
    for (int32_t o = tasks->output_start[task]; o < tasks->output_start[task + 1]; o++)
        same += (double)tasks->home_bytes[tasks->output[o]];
    for (int32_t slot = tasks->input_start[task]; slot < tasks->input_start[task + 1]; slot++) {
        const int32_t v = tasks->slot_value[slot];
        if (tasks->value_flags[v] & STW_VALUE_RESIDENT) {
            const int32_t atom = b->base->atom[tasks->value_node[v]];
            if (atom != own && b->atom_device[atom] < 0) same += b->base->atom_bytes[atom];
        } else if (tasks->value_flags[v] & STW_VALUE_EVERYWHERE) {
            for (int32_t d = first; d <= last; d++)
                if (b->arrival[(int64_t)v * b->base->D + d] < 0.0) b->need[d] += (double)tasks->value_bytes[v];
        }
    }
    for (int32_t d = first; d <= last; d++) b->need[d] += same;
}

void stw_board_look(stw_board *b, int32_t task, int32_t first, int32_t last) {
    const stw_board_base *base = b->base;
    double waited = 0.0;
    for (int32_t w = base->wait_start[task]; w < base->wait_start[task + 1]; w++)
        waited = stw_larger(waited, b->task_end[base->wait[w]]);
    for (int32_t d = first; d <= last; d++) {
        b->ready[d] = waited;
        b->comm[d] = b->charge[d] = b->need[d] = 0.0;
    }
    b->look_count++;
    const int32_t from = base->read_start[task], to = base->read_start[task + 1];
    for (int32_t r = from; r < to; r++) {
        if (home_of(b, base->read[r].value) >= 0) look_at_read(b, &base->read[r], to - from == 1, first, last);
    }
    if (b->rules.memory) look_at_memory(b, task, first, last);
}

double stw_board_start(const stw_board *b, int32_t device, double ready, double us) {
    return stw_calendar_start(&b->device[device], b->rules.insertion, ready, us);
}

/* ---- placing ---- */

static void bind_atom(stw_board *b, int32_t atom, int32_t device) {
    if (atom < 0 || b->atom_device[atom] >= 0) return;
    b->atom_device[atom] = device;
    b->held[device] += b->base->atom_bytes[atom];
}

/* Brings one value to the device; returns when it is there. *charge: what receiving it adds to the reader. */
static double fetch(stw_board *b, const stw_board_read *read, int32_t device, double *charge) {
    const stw_board_base *base = b->base;
    const stw_board_value *value = &b->value[read->value];
    double *there = &b->arrival[(int64_t)read->value * base->D + device];
    if (*there >= 0.0 && is_there(b, read, device)) return *there;
    const int64_t link = (int64_t)value->device * base->D + device;
    const bool linked = base->latency[link] < STW_FAR_US; /* if not, the plan is invalid anyway */
    const double us = linked ? (*there < 0.0 ? base->latency[link] : 0.0) + stw_board_bytes_us(base, link, read->bytes) : 0.0;
    double begin = value->ready;
    if (base->send_us != NULL && linked && *there < 0.0) {
        const double send_us = base->tasks->value_task[read->value] >= 0 ? base->send_us[link] : 0.0;
        *charge += base->receive_us[link];
        begin += send_us;
        if (send_us > 0.0) stw_calendar_take(&b->device[value->device], b->rules.insertion, value->ready, send_us);
    }
    double end = begin + us;
    if (b->rules.queues && linked) end = stw_calendar_take(&b->channel[base->channel[link]], b->rules.channel_gaps, begin, us);
    b->held[device] += read->bytes;
    const int32_t row = base->piece_row[read->value];
    if (row >= 0) b->there[(int64_t)row * base->D + device] |= read->pieces;
    return *there = stw_larger(*there, end);
}

/* What nobody reads any more is given back on all devices. */
static void drop_reader(stw_board *b, const stw_board_read *read) {
    const stw_board_base *base = b->base;
    const stw_tasks *tasks = base->tasks;
    stw_board_value *value = &b->value[read->value];
    if (--value->readers > 0 || value->device < 0) return;
    for (int32_t d = 0; d < base->D; d++) {
        if (d == value->device || b->arrival[(int64_t)read->value * base->D + d] < 0.0) continue;
        b->held[d] -= read->bytes; /* of its last reader: others may have read other views */
    }
    if (tasks->value_flags[read->value] & (STW_VALUE_RESIDENT | STW_VALUE_KEPT)) return;
    b->held[value->device] -= (double)tasks->home_bytes[read->value];
}

/* Inputs and constants take memory on each device that reads them; they are not given back here. */
static void hold_inputs(stw_board *b, int32_t task, int32_t device) {
    const stw_tasks *tasks = b->base->tasks;
    for (int32_t slot = tasks->input_start[task]; slot < tasks->input_start[task + 1]; slot++) {
        const int32_t v = tasks->slot_value[slot];
        double *arrival = &b->arrival[(int64_t)v * b->base->D + device];
        if (!(tasks->value_flags[v] & STW_VALUE_EVERYWHERE) || *arrival >= 0.0) continue;
        *arrival = 0.0;
        b->held[device] += (double)tasks->value_bytes[v];
    }
}

static void publish(stw_board *b, int32_t task, int32_t device, double end) {
    const stw_tasks *tasks = b->base->tasks;
    const int32_t D = b->base->D;
    for (int32_t o = tasks->output_start[task]; o < tasks->output_start[task + 1]; o++) {
        const int32_t v = tasks->output[o];
        double *row = &b->arrival[(int64_t)v * D];
        for (int32_t d = 0; d < D; d++) row[d] = -1.0;
        row[device] = end;
        if (b->base->piece_row[v] >= 0) b->there[(int64_t)b->base->piece_row[v] * D + device] = 1u;
        b->value[v].ready = end;
        b->value[v].device = device;
        b->held[device] += (double)tasks->home_bytes[v];
        if (b->rules.memory && b->value[v].readers == 0 && !(tasks->value_flags[v] & STW_VALUE_KEPT))
            b->held[device] -= (double)tasks->home_bytes[v];
    }
}

void stw_board_place(stw_board *b, int32_t task, int32_t device) {
    const stw_board_base *base = b->base;
    double ready = 0.0, charge = 0.0;
    bind_atom(b, base->atom[base->tasks->task_node[task]], device);
    for (int32_t w = base->wait_start[task]; w < base->wait_start[task + 1]; w++)
        ready = stw_larger(ready, b->task_end[base->wait[w]]);
    for (int32_t r = base->read_start[task]; r < base->read_start[task + 1]; r++) {
        const stw_board_read *read = &base->read[r];
        int32_t home = home_of(b, read->value);
        if (home < 0 && takes_home(b, task, read->value)) {
            bind_atom(b, base->atom[base->tasks->value_node[read->value]], device);
            home = home_of(b, read->value);
        }
        if (home >= 0) ready = stw_larger(ready, fetch(b, read, device, &charge));
    }
    const double us = stw_board_us(base, task, device) + charge;
    const double end = stw_calendar_take(&b->device[device], b->rules.insertion, ready, us);
    b->task_device[task] = device;
    b->task_end[task] = end;
    b->end_us = stw_larger(b->end_us, end);
    publish(b, task, device, end);
    if (!b->rules.memory) return;
    hold_inputs(b, task, device);
    for (int32_t r = base->read_start[task]; r < base->read_start[task + 1]; r++) drop_reader(b, &base->read[r]);
}

void stw_board_devices(const stw_board *b, int32_t *device) {
    const stw_graph *graph = b->base->costs->graph;
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t atom = b->base->atom[graph->root[i]];
        const bool bound = atom >= 0 && b->atom_device[atom] >= 0;
        device[i] = bound ? b->atom_device[atom] : 0;
    }
}
