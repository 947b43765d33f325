#include "pretrain/pretrain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "policy/checkpoint.h"
#include "pretrain/pretrain_state.h"
#include "search/budget.h"

/* ---- settings ---- */

/* What the network decides itself is learnt from samples alone. */
static void publish(unsigned tasks, stw_pretrain_settings *out) {
    out->reinforce_from = 0.0;
    out->tasks = out->config.bare != 0 ? STW_TASK_PLACEMENT : tasks | STW_TASK_PLACEMENT;
    if (out->tasks & STW_TASK_FUSION) stw_policy_add_fusion(&out->config);
}

stw_status stw_pretrain_preset(const char *preset, unsigned tasks, stw_pretrain_settings *out, stw_error *error) {
    const bool moves = strcmp(preset, "default") == 0;
    *out = (stw_pretrain_settings){.seed = 1,
                                   .updates = 2000,
                                   .slots = 16,
                                   .visits = 24,
                                   .validations = 16,
                                   .validate_every = 100,
                                   .curriculum = 0.8,
                                   .reinforce_from = 1.0,
                                   .tasks = STW_TASK_PLACEMENT,
                                   .unit_count = -1,
                                   .ordered = true};
    if (!stw_policy_preset(preset, &out->config) || !stw_train_preset(moves ? "transfer" : preset, &out->train))
        return stw_fail(error, STW_ERROR_INPUT, "there is no preset '%s'", preset);
    stw_policy_config *c = &out->config;
    c->feature_version = STW_FEATURE_VERSION;
    c->unit_columns = stw_feature_count(STW_FEATURES_UNIT);
    c->device_columns = stw_feature_count(STW_FEATURES_DEVICE);
    if (!moves) {
        publish(tasks, out);
        return STW_OK;
    }
    c->feedback_columns = stw_feature_count(STW_FEATURES_FEEDBACK);
    c->pair_columns = stw_feature_count(STW_FEATURES_PAIR);
    c->proposal_columns = stw_features_proposal_columns();
    return STW_OK;
}

/* ---- making one ---- */

static stw_status open_slot(stw_pretrain *p, stw_slot *slot, int32_t index, stw_error *error) {
    (void)index;
    return stw_slot_open(p, slot, error);
}

static stw_status fill(stw_pretrain *p, stw_error *error) {
    const int64_t slots = p->settings.slots, rank = stw_comm_rank(p->comm), ranks = stw_comm_size(p->comm);
    if (ranks > slots)
        return stw_fail(error, STW_ERROR_INPUT, "%lld processes share %lld problems; use at most as many", (long long)ranks,
                        (long long)slots);
    TRY(stw_arena_create(&p->arena, error));
    TRY(stw_metis_copies_open(stw_pool_threads(p->pool), &p->copies, error));
    TRY(stw_backend_cpu(p->pool, &p->backend, error));
    TRY(stw_net_create(&p->settings.config, p->backend, p->settings.seed, &p->net, error));
    p->first = (int32_t)(slots * rank / ranks);
    p->count = (int32_t)(slots * (rank + 1) / ranks) - p->first;
    const int64_t total = stw_net_parameters(p->net)->total, bytes = total * (int64_t)p->backend->real_bytes;
    STW_TRY_NEW(&p->arena, p->slot, p->count, error);
    STW_TRY_NEW(&p->arena, p->bytes, ranks, error);
    STW_TRY_NEW(&p->arena, p->mine, p->count * bytes, error);
    if (ranks > 1) STW_TRY_NEW(&p->arena, p->all, slots * bytes, error);
    STW_TRY_NEW(&p->arena, p->sum, total, error);
    STW_TRY_NEW(&p->arena, p->boundary.reals, 3 * bytes, error);
    return stw_slots_run(p, p->slot, p->first, p->count, open_slot, error);
}

stw_status stw_pretrain_create(const stw_pretrain_settings *settings, const stw_corpus *corpus, stw_comm *comm, stw_pool *pool,
                               stw_pretrain **out, stw_error *error) {
    *out = NULL;
    stw_pretrain *p = calloc(1, sizeof *p);
    if (p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    p->settings = *settings;
    p->corpus = corpus;
    p->comm = comm;
    p->pool = pool;
    p->rng = stw_rng_create(settings->seed);
    p->began_s = stw_now_s();
    const stw_status status = stw_comm_agree(comm, fill(p, error), error);
    if (status == STW_OK) {
        *out = p;
    } else {
        stw_pretrain_destroy(p);
    }
    return status;
}

static void give_up_ahead(stw_pretrain *p) {
    if (p->ahead.beside == NULL) return;
    atomic_store(&p->gives_up, true);
    (void)stw_slots_end(&p->ahead, NULL);
    atomic_store(&p->gives_up, false);
}

void stw_pretrain_destroy(stw_pretrain *p) {
    if (p == NULL) return;
    give_up_ahead(p);
    for (int32_t k = 0; p->slot != NULL && k < p->count; k++) stw_slot_close(&p->slot[k]);
    for (int32_t k = 0; p->check != NULL && k < p->checks; k++) stw_slot_close(&p->check[k]);
    stw_metis_copies_close(p->copies);
    stw_net_destroy(p->net);
    stw_backend_destroy(p->backend);
    stw_arena_destroy(&p->arena);
    free(p);
}

/* ---- an update ---- */

static stw_pretrain_row nothing_yet(void) {
    return (stw_pretrain_row){
        .validation_greedy = NAN, .validation_best = NAN, .validation_constants = NAN, .validation_moves = NAN};
}

static double difficulty_at(const stw_pretrain *p, double progress) {
    return p->settings.curriculum > 0.0 ? fmin(1.0, progress / p->settings.curriculum) : 1.0;
}

/* A share of 1: never. */
static bool has_begun(const stw_pretrain *p, double share) { return share < 1.0 && p->progress >= share; }

/* ---- generations ---- */

static stw_status draw(const stw_pretrain *p, const stw_slot *slot, int64_t generation, int32_t index, double progress,
                       stw_instance **out, stw_error *error) {
    const stw_rng all = stw_rng_split(&p->rng, (uint64_t)generation);
    const stw_slot_wish wish = {stw_rng_split(&all, (uint64_t)index), difficulty_at(p, progress), progress, false};
    return stw_slot_draw(p, slot, &wish, out, error);
}

static int64_t generation_of(const stw_pretrain *p) { return p->update / p->settings.visits; }

static stw_status draw_now(stw_pretrain *p, stw_slot *slot, int32_t index, stw_error *error) {
    return draw(p, slot, generation_of(p), index, p->progress, &slot->instance, error);
}

static stw_status draw_ahead(stw_pretrain *p, stw_slot *slot, int32_t index, stw_error *error) {
    if (atomic_load(&p->gives_up)) return STW_OK;
    return draw(p, slot, p->ahead_of, index, p->ahead_progress, &slot->next, error);
}

/* A problem reserves 18 GiB of addresses for each thread, and two generations and the validation are 48 of them: more threads
 * would leave the 128 TiB that a process has. */
enum { MOST_AHEAD = 128 };

/* Problems do not depend on the network, so the next ones are made by threads that would wait. Of a training by time nobody knows
 * how far it will be by then: they are as hard as those of now. */
static void begin_ahead(stw_pretrain *p) {
    const int64_t next = generation_of(p) + 1, update = next * p->settings.visits, updates = p->settings.updates;
    if (stw_pool_threads(p->pool) == 1 || (updates > 0 && update >= updates)) return; /* nobody waits; there is none */
    if (stw_pool_threads(p->pool) > MOST_AHEAD) return;
    p->ahead_of = next;
    p->ahead_progress = updates > 0 ? (double)update / (double)updates : p->progress;
    (void)stw_slots_begin(&p->ahead, p, draw_ahead, STW_POOL_SOMETIME, NULL); /* else they are drawn when they are needed */
}

static void drop_ahead(stw_pretrain *p) {
    for (int32_t k = 0; k < p->count; k++) {
        stw_instance_destroy(p->slot[k].next);
        p->slot[k].next = NULL;
    }
}

static stw_status renew(stw_pretrain *p, stw_error *error) {
    if (p->ahead.beside != NULL && p->ahead_of != generation_of(p)) give_up_ahead(p); /* after a failure */
    const bool ahead = p->ahead.beside != NULL;
    const stw_status made = ahead ? stw_slots_end(&p->ahead, error) : STW_OK;
    if (made == STW_ERROR_MEMORY) drop_ahead(p); /* there is room for one generation, if not for two */
    if (!ahead || made == STW_ERROR_MEMORY) {
        TRY(stw_slots_run(p, p->slot, p->first, p->count, draw_now, error));
    } else {
        TRY(stw_comm_agree(p->comm, made, error));
        for (int32_t k = 0; k < p->count; k++) {
            stw_instance *before = p->slot[k].instance;
            p->slot[k].instance = p->slot[k].next;
            p->slot[k].next = before; /* until it is drawn over, by whoever does that */
        }
    }
    for (int32_t k = 0; k < p->count; k++) p->slot[k].evaluations = 0;
    begin_ahead(p);
    return STW_OK;
}

/* ---- learning ---- */

static stw_status find_gradient(stw_pretrain *p, stw_slot *slot, int32_t epoch, stw_error *error) {
    stw_parameters_zero_gradient(stw_net_parameters(slot->net));
    if (slot->learns) {
        stw_trainer *trainer = stw_instance_trainer(slot->instance);
        TRY(stw_trainer_add_gradient(trainer, epoch, error));
        slot->number[STW_SLOT_CLIPPED] = stw_trainer_last_row(trainer)->clipped;
    }
    stw_slot_hand_in(p, slot);
    return STW_OK;
}

static int32_t visit_of(const stw_pretrain *p) { return (int32_t)(p->update % p->settings.visits); }

/* Samples, and the first gradient, which needs nothing of other slots. */
static stw_status sample(stw_pretrain *p, stw_slot *slot, int32_t index, stw_error *error) {
    (void)index;
    TRY(stw_instance_visit(slot->instance, visit_of(p), p->progress, error));
    TRY(stw_slot_sample(slot, !has_begun(p, p->settings.reinforce_from), error));
    return p->settings.train.epochs > 0 ? find_gradient(p, slot, 0, error) : STW_OK;
}

static stw_status next_gradient(stw_pretrain *p, stw_slot *slot, int32_t index, stw_error *error) {
    (void)index;
    return find_gradient(p, slot, 1, error);
}

/* What the next update needs and the network has no part in. */
static stw_status prepare_next(stw_pretrain *p, stw_slot *slot, int32_t index, stw_error *error) {
    (void)index;
    return stw_instance_prepare(slot->instance, visit_of(p) + 1, p->progress, error);
}

static double rate_of(const stw_pretrain *p) {
    const stw_train_settings *t = &p->settings.train;
    const double ramp = t->warm_up > 0 ? fmin(1.0, (double)(p->update + 1) / t->warm_up) : 1.0;
    return ramp * (t->rate + p->progress * (t->rate_end - t->rate));
}

static stw_status learn(stw_pretrain *p, stw_pretrain_row *row, stw_error *error) {
    for (int32_t epoch = 0; epoch < p->settings.train.epochs; epoch++) {
        if (epoch > 0) TRY(stw_slots_run(p, p->slot, p->first, p->count, next_gradient, error));
        TRY(stw_pretrain_reduce(p, error));
        row->gradient_norm = stw_parameters_update(stw_net_parameters(p->net), row->rate, p->settings.train.gradient_norm);
    }
    return STW_OK;
}

/* Threads that have no gradient to find, or have found theirs, prepare the next update. */
static stw_status learn_and_prepare(stw_pretrain *p, stw_pretrain_row *row, stw_error *error) {
    const bool last = visit_of(p) + 1 == p->settings.visits || p->update + 1 == p->settings.updates;
    stw_slots_job next = {0};
    if (!last && stw_pool_threads(p->pool) > 1)
        (void)stw_slots_begin(&next, p, prepare_next, STW_POOL_SOON, NULL); /* else the next update does it */
    const stw_status status = learn(p, row, error);
    const stw_status prepared = next.beside == NULL ? STW_OK : stw_slots_end(&next, status == STW_OK ? error : NULL);
    TRY(status); /* of all processes */
    /* What there is no memory for now is done by the next update. */
    return last ? STW_OK : stw_comm_agree(p->comm, prepared == STW_ERROR_MEMORY ? STW_OK : prepared, error);
}

static void describe(const stw_pretrain *p, const double *sum, stw_pretrain_row *row) {
    const double count = fmax(sum[STW_SLOT_COUNTS], 1.0);
    row->update = p->update;
    row->evaluations = p->evaluations;
    row->seconds = stw_now_s() - p->began_s;
    row->difficulty = difficulty_at(p, p->progress);
    row->greedy = exp(sum[STW_SLOT_GREEDY] / count);
    row->best = exp(sum[STW_SLOT_BEST] / count);
    row->mean = exp(sum[STW_SLOT_MEAN] / count);
    row->spread = sum[STW_SLOT_SPREAD] / count;
    row->clipped = sum[STW_SLOT_CLIPPED] / count;
    row->sigma = p->settings.train.sigma + p->progress * (p->settings.train.sigma_end - p->settings.train.sigma);
}

/* By time, all processes go by the clock of the first. `*over`: there is nothing left to do. */
static stw_status find_progress(stw_pretrain *p, bool *over, stw_error *error) {
    if (p->settings.updates > 0) {
        p->progress = fmin(1.0, (double)p->update / (double)p->settings.updates);
        *over = p->update >= p->settings.updates;
        return STW_OK;
    }
    const stw_budget budget = {.until_s = p->began_s + p->settings.budget_s, .began = {.s = p->began_s}};
    double share = stw_budget_progress(&budget, (stw_moment){.s = stw_now_s()});
    TRY(stw_comm_broadcast(p->comm, &share, sizeof share, error));
    p->progress = fmin(1.0, share);
    *over = share >= 1.0 && p->update > 0 && p->update % p->settings.visits == 0; /* something is learnt, however short it is */
    return STW_OK;
}

static bool is_due(const stw_pretrain *p) {
    const int64_t visits = p->settings.visits, every = p->settings.validate_every;
    if (p->settings.validations == 0 || every <= 0) return false;
    return p->update % ((every + visits - 1) / visits * visits) == 0;
}

/* ---- where a generation began ---- */

static void mark_boundary(stw_pretrain *p) {
    const stw_parameters *q = stw_net_parameters(p->net);
    const int64_t bytes = q->total * (int64_t)p->backend->real_bytes;
    const void *const block[] = {q->value, q->first, q->second};
    for (int k = 0; k < 3; k++) p->backend->copy_out(p->backend, p->boundary.reals + k * bytes, block[k], bytes);
    p->boundary.step = q->step;
    p->boundary.update = p->update;
    p->boundary.evaluations = p->evaluations;
}

static void return_to_boundary(stw_pretrain *p) {
    stw_parameters *q = stw_net_parameters(p->net);
    const int64_t bytes = q->total * (int64_t)p->backend->real_bytes;
    void *const block[] = {q->value, q->first, q->second};
    for (int k = 0; k < 3; k++) p->backend->copy_in(p->backend, block[k], p->boundary.reals + k * bytes, bytes);
    q->step = p->boundary.step;
    p->update = p->boundary.update;
    p->evaluations = p->boundary.evaluations;
}

static stw_status make_update(stw_pretrain *p, stw_pretrain_row *row, bool *over, stw_error *error) {
    double sum[STW_SLOT_NUMBERS];
    *row = nothing_yet();
    TRY(find_progress(p, over, error));
    if (*over) return STW_OK;
    row->rate = rate_of(p);
    if (p->update % p->settings.visits == 0) {
        mark_boundary(p);
        TRY(renew(p, error));
    }
    if (p->check == NULL && p->settings.validations > 0) TRY(stw_pretrain_open_checks(p, error));
    if (is_due(p)) TRY(stw_pretrain_validate(p, row, error));
    TRY(stw_slots_run(p, p->slot, p->first, p->count, sample, error));
    TRY(learn_and_prepare(p, row, error));
    TRY(stw_slots_sum(p, p->slot, p->count, sum, error));
    p->evaluations += (int64_t)sum[STW_SLOT_EVALUATIONS];
    describe(p, sum, row);
    p->update++;
    return STW_OK;
}

stw_status stw_pretrain_step(stw_pretrain *p, stw_pretrain_row *row, bool *over, stw_error *error) {
    const stw_status status = make_update(p, row, over, error);
    if (status != STW_OK && p->settings.updates > 0) return_to_boundary(p); /* the first update of all begins at one */
    return status;
}

int64_t stw_pretrain_updates(const stw_pretrain *p) { return p->update; }

/* ---- files ---- */

stw_status stw_pretrain_judge(stw_pretrain *p, stw_pretrain_row *row, stw_error *error) {
    *row = nothing_yet();
    return p->check != NULL ? stw_pretrain_validate(p, row, error) : STW_OK;
}

bool stw_pretrain_may_save(const stw_pretrain *p) {
    return p->update % p->settings.visits == 0 || p->update == p->settings.updates;
}

static void add_dimension(stw_tensor_file *file, const char *name, int64_t value) {
    const int32_t k = file->dimension_count++;
    snprintf(file->dimension[k].name, sizeof file->dimension[k].name, "%s", name);
    file->dimension[k].value = value;
}

/* A hash of the graphs that problems are drawn from. */
static int64_t corpus_key(const stw_pretrain *p) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (int32_t k = 0; k < stw_corpus_count(p->corpus); k++) {
        const stw_corpus_entry entry = stw_corpus_at(p->corpus, k);
        for (const char *at = entry.op_count > 0 ? entry.family : entry.name; *at != '\0'; at++)
            hash = (hash ^ (unsigned char)*at) * 1099511628211u;
        hash = (hash ^ (uint64_t)entry.op_count) * 1099511628211u; /* of a file, whose path may be another by now */
    }
    return (int64_t)(hash >> 1);
}

/* Of `train`, seed and updates say nothing here: each problem has a seed of its own. */
static int32_t keep_all(const stw_pretrain *p, stw_kept out[2 * STW_MOST_KEPT]) {
    const stw_pretrain_settings *s = &p->settings;
    const stw_kept own[] = {
#define STW_WHOLE(type, member, words) STW_KEPT_WHOLE(s, member, words),
#define STW_REAL(member, words)        STW_KEPT_REALS(s, member, words),
#include "pretrain/settings.def"
    };
    enum { OWN = sizeof own / sizeof own[0] };
    _Static_assert((int)OWN <= (int)STW_MOST_KEPT, "there is room for all");
    stw_kept train[STW_MOST_KEPT];
    const int32_t count = stw_train_settings_keep(&s->train, train);
    int32_t kept = OWN;
    memcpy(out, own, sizeof own);
    for (int32_t k = 0; k < count; k++) {
        if (strcmp(train[k].name, "seed") != 0 && strcmp(train[k].name, "updates") != 0) out[kept++] = train[k];
    }
    return kept;
}

stw_status stw_pretrain_save(stw_pretrain *p, bool state, const char *path, stw_error *error) {
    stw_arena scratch = p->arena;
    stw_tensor_file file = {0};
    stw_kept kept[2 * STW_MOST_KEPT];
    STW_TRY_NEW(&scratch, file.tensor, INT64_C(3) * STW_MAX_PARAMETERS + INT64_C(2) * STW_MOST_KEPT, error);
    TRY(stw_net_save(p->net, state, &scratch, &file, error));
    if (state) stw_kept_add(kept, keep_all(p, kept), &file);
    add_dimension(&file, "pretrain.seed", (int64_t)p->settings.seed);
    add_dimension(&file, "pretrain.updates", p->settings.updates);
    add_dimension(&file, "pretrain.update", p->update);
    add_dimension(&file, "pretrain.evaluations", p->evaluations);
    add_dimension(&file, "pretrain.slots", p->settings.slots);
    add_dimension(&file, "pretrain.corpus", corpus_key(p));
    add_dimension(&file, "pretrain.reinforced", p->settings.reinforce_from < 1.0);
    add_dimension(&file, "pretrain.schedules", (p->settings.tasks & STW_TASK_SCHEDULE) != 0);
    return stw_tensor_file_write(&file, path, error);
}

/* The file is of this pre-training, and something can go on from it. */
static stw_status check_owner(const stw_pretrain *p, const stw_tensor_file *file, stw_error *error) {
    int64_t updates = 0, update = 0, evaluations = 0, step = 0, corpus = 0;
    stw_kept kept[2 * STW_MOST_KEPT];
    if (!stw_tensor_file_dimension(file, "pretrain.updates", &updates) ||
        !stw_tensor_file_dimension(file, "pretrain.update", &update) ||
        !stw_tensor_file_dimension(file, "pretrain.evaluations", &evaluations))
        return stw_fail(error, STW_ERROR_INPUT, "has no state of a pre-training; start again");
    if (updates == 0) return stw_fail(error, STW_ERROR_INPUT, "a run with --budget cannot be resumed; use --updates");
    if (!stw_tensor_file_dimension(file, "adam_step", &step))
        return stw_fail(error, STW_ERROR_INPUT, "has the network alone, and no state to go on from; start again");
    TRY(stw_kept_check(kept, keep_all(p, kept), file, error));
    if (evaluations < 0)
        return stw_fail(error, STW_ERROR_INPUT, "says that %lld evaluations were made; the file is damaged, start again",
                        (long long)evaluations);
    if (update < 0 || update > updates || (update % p->settings.visits != 0 && update != updates))
        return stw_fail(error, STW_ERROR_INPUT, "ends after %lld updates, where nothing can go on", (long long)update);
    if (!stw_tensor_file_dimension(file, "pretrain.corpus", &corpus) || corpus != corpus_key(p))
        return stw_fail(
            error, STW_ERROR_INPUT,
            "cannot be resumed: the corpus was another, or other families were held out; resume with the same options, "
            "or start again");
    return STW_OK;
}

stw_status stw_pretrain_resume(stw_pretrain *p, const char *path, stw_error *error) {
    stw_arena scratch = p->arena;
    stw_tensor_file file;
    TRY(stw_tensor_file_read(path, &scratch, &file, error));
    stw_status status = check_owner(p, &file, error);
    if (status == STW_OK) status = stw_net_load(p->net, &file, scratch, error);
    if (status != STW_OK) {
        stw_error_prefix(error, path);
        return status;
    }
    (void)stw_tensor_file_dimension(&file, "pretrain.update", &p->update);
    (void)stw_tensor_file_dimension(&file, "pretrain.evaluations", &p->evaluations);
    return STW_OK;
}
