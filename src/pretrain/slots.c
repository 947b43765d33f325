/* What happens in a slot: a problem, samples of it, and their numbers; and the sum over all slots. */
#include <math.h>
#include <string.h>

#include "pretrain/pretrain_state.h"

enum { MOST_DRAWS = 20 };

/* ---- all slots ---- */

static stw_status work(void *context, int64_t k, int32_t worker, stw_error *error) {
    const stw_slots_job *job = context;
    const stw_cancel *cancel = job->p->settings.cancel;
    stw_status status = STW_OK;
    (void)worker;
    if (!stw_cancel_is_requested(cancel)) status = job->work(job->p, &job->slot[k], job->first + (int32_t)k, error);
    /* What was cut short looks like any other end, so nothing that was under way counts. */
    return stw_cancel_is_requested(cancel) ? stw_fail(error, STW_ERROR_CANCELLED, "interrupted") : status;
}

stw_status stw_slots_run(stw_pretrain *p, stw_slot *slot, int32_t first, int32_t count, stw_slot_work *function,
                         stw_error *error) {
    stw_slots_job job = {.p = p, .slot = slot, .first = first, .work = function};
    return stw_comm_agree(p->comm, stw_pool_try(p->pool, count, work, &job, error), error);
}

stw_status stw_slots_begin(stw_slots_job *job, stw_pretrain *p, stw_slot_work *function, stw_pool_urgency urgency,
                           stw_error *error) {
    *job = (stw_slots_job){.p = p, .slot = p->slot, .first = p->first, .work = function};
    return stw_pool_begin(p->pool, urgency, p->count, work, job, &job->beside, error);
}

stw_status stw_slots_end(stw_slots_job *job, stw_error *error) {
    const stw_status status = stw_pool_end(job->p->pool, job->beside, error);
    job->beside = NULL;
    return status;
}

/* ---- a slot ---- */

stw_status stw_slot_open(stw_pretrain *p, stw_slot *slot, stw_error *error) {
    TRY(stw_backend_cpu(NULL, &slot->backend, error));
    TRY(stw_net_create(&p->settings.config, slot->backend, p->settings.seed, &slot->net, error));
    stw_parameters_borrow(stw_net_parameters(slot->net), stw_net_parameters(p->net));
    return STW_OK;
}

void stw_slot_close(stw_slot *slot) {
    stw_instance_destroy(slot->instance);
    stw_instance_destroy(slot->next);
    stw_net_destroy(slot->net);
    stw_backend_destroy(slot->backend);
}

stw_status stw_slot_draw(const stw_pretrain *p, const stw_slot *slot, const stw_slot_wish *wish, stw_instance **out,
                         stw_error *error) {
    const stw_instance_wish own_wish = {.settings = &p->settings.train,
                                        .net = slot->net,
                                        .pool = p->pool,
                                        .copies = p->copies,
                                        .tasks = p->settings.tasks,
                                        .unit_count = p->settings.unit_count,
                                        .all_starts = wish->all_starts,
                                        .progress = wish->progress,
                                        .cancel = p->settings.cancel};
    stw_instance_destroy(*out);
    *out = NULL;
    for (uint64_t draw = 0; draw < MOST_DRAWS && *out == NULL; draw++) {
        const stw_rng own = stw_rng_split(&wish->rng, draw);
        stw_drawn drawn = {0};
        TRY(stw_corpus_draw(p->corpus, stw_rng_split(&own, 0), wish->difficulty, &drawn, error));
        TRY(stw_instance_create(&drawn, stw_rng_split(&own, 1), &own_wish, out, error));
    }
    if (*out != NULL) return STW_OK;
    return stw_fail(error, STW_ERROR_NO_PLAN, "no method finds a plan that fits for %d problems drawn one after the other",
                    MOST_DRAWS);
}

stw_status stw_slot_sample(stw_slot *slot, bool moves_alone, stw_error *error) {
    stw_trainer *trainer = stw_instance_trainer(slot->instance);
    bool over = false;
    memset(slot->number, 0, sizeof slot->number);
    TRY(moves_alone ? stw_trainer_try(trainer, &over, error) : stw_trainer_sample(trainer, &over, error));
    const stw_curve_row *row = stw_trainer_last_row(trainer);
    const double reference = stw_instance_reference(slot->instance);
    const int64_t evaluations = stw_instance_evaluations(slot->instance);
    slot->number[STW_SLOT_EVALUATIONS] = (double)(evaluations - slot->evaluations);
    slot->evaluations = evaluations;
    const bool counts = row->greedy > 0.0 && row->mean > 0.0; /* else it lacks memory */
    slot->learns = counts || stw_trainer_learns_from_all(trainer);
    if (!counts) return STW_OK;
    slot->number[STW_SLOT_GREEDY] = log(row->greedy / reference);
    slot->number[STW_SLOT_BEST] = log(row->best / reference);
    slot->number[STW_SLOT_MEAN] = log(row->mean / reference);
    slot->number[STW_SLOT_SPREAD] = row->spread;
    slot->number[STW_SLOT_COUNTS] = 1.0;
    return STW_OK;
}

stw_status stw_slots_sum(stw_pretrain *p, const stw_slot *slot, int32_t count, double *out, stw_error *error) {
    memset(out, 0, STW_SLOT_NUMBERS * sizeof *out);
    for (int32_t k = 0; k < count; k++) {
        for (int n = 0; n < STW_SLOT_NUMBERS; n++) out[n] += slot[k].number[n];
    }
    return stw_comm_sum_doubles(p->comm, out, STW_SLOT_NUMBERS, error);
}

/* ---- the gradients of all slots of all processes into one ---- */

void stw_slot_hand_in(stw_pretrain *p, const stw_slot *slot) {
    const stw_parameters *from = stw_net_parameters(slot->net);
    const int64_t bytes = from->total * (int64_t)p->backend->real_bytes;
    slot->backend->copy_out(slot->backend, p->mine + (slot - p->slot) * bytes, from->gradient, bytes);
}

/* Every sum is taken over slots in their order, by one thread; the parameters are cut into pieces. */
typedef struct {
    stw_backend *backend;
    const char *from; /* (slots, total) reals */
    double *sum;      /* (total) */
    int64_t total;
    int32_t slots, of; /* that are added; whose mean it is */
    void *mean;        /* (total) reals */
} addition;

enum { PIECE = 2048 }; /* parameters */

static void add(const addition *a, int32_t slot, int64_t begin, int64_t end) {
    const char *from = a->from + slot * a->total * (int64_t)a->backend->real_bytes;
    for (int64_t k = begin; k < end; k++) {
        a->sum[k] += a->backend->real_bytes == sizeof(float) ? (double)((const float *)(const void *)from)[k]
                                                             : ((const double *)(const void *)from)[k];
    }
}

static int64_t end_of(const addition *a, int64_t index) {
    return (index + 1) * PIECE < a->total ? (index + 1) * PIECE : a->total;
}

static void add_piece(void *context, int64_t index, int32_t worker) {
    const addition *a = context;
    const int64_t begin = index * PIECE, end = end_of(a, index);
    (void)worker;
    memset(&a->sum[begin], 0, (size_t)(end - begin) * sizeof *a->sum);
    for (int32_t k = 0; k < a->slots; k++) add(a, k, begin, end);
}

static void divide_piece(void *context, int64_t index, int32_t worker) {
    const addition *a = context;
    const int64_t begin = index * PIECE, end = end_of(a, index);
    (void)worker;
    for (int64_t k = begin; k < end; k++) a->sum[k] /= a->of;
    stw_reals_in(a->backend, (char *)a->mean + begin * (int64_t)a->backend->real_bytes, &a->sum[begin], end - begin,
                 (stw_arena){0});
}

static void add_and_divide(void *context, int64_t index, int32_t worker) {
    add_piece(context, index, worker);
    divide_piece(context, index, worker);
}

/* Every process has the gradient of every slot, and adds them in the same order. */
static stw_status gather(stw_pretrain *p, int64_t bytes, stw_error *error) {
    const int32_t ranks = stw_comm_size(p->comm), slots = p->settings.slots;
    for (int32_t r = 0; r < ranks; r++) p->bytes[r] = bytes * ((int64_t)slots * (r + 1) / ranks - (int64_t)slots * r / ranks);
    return stw_comm_gather(p->comm, p->mine, p->bytes, p->all, error);
}

stw_status stw_pretrain_reduce(stw_pretrain *p, stw_error *error) {
    stw_parameters *to = stw_net_parameters(p->net);
    const int64_t total = to->total, pieces = (total + PIECE - 1) / PIECE;
    const bool gathers = p->settings.ordered && stw_comm_size(p->comm) > 1;
    addition a = {.backend = p->backend,
                  .from = gathers ? p->all : p->mine,
                  .sum = p->sum,
                  .total = total,
                  .slots = gathers ? p->settings.slots : p->count,
                  .of = p->settings.slots,
                  .mean = to->gradient};
    if (gathers) TRY(gather(p, total * (int64_t)p->backend->real_bytes, error));
    if (p->settings.ordered) {
        stw_pool_run(p->pool, pieces, add_and_divide, &a);
        return STW_OK;
    }
    stw_pool_run(p->pool, pieces, add_piece, &a);
    TRY(stw_comm_sum_doubles(p->comm, p->sum, total, error));
    stw_pool_run(p->pool, pieces, divide_piece, &a);
    return STW_OK;
}
