#define _POSIX_C_SOURCE 200809L
#include "base/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct {
    stw_pool *pool;
    int32_t number;
    int32_t urgency; /* of what it does; its own thread's alone */
    pthread_t thread;
} worker;

typedef struct job job;
struct job { /* one call of stw_pool_run, on its caller's stack, or of stw_pool_begin */
    stw_pool_work *work;
    void *context;
    int64_t count;
    int32_t urgency;
    _Atomic int64_t next; /* the next index to take */
    int32_t helpers;      /* workers that are in it, the caller not counted */
    pthread_cond_t done;  /* the last of them has left */
    job *before, *after;  /* in the pool's list */
};

struct stw_pool {
    pthread_mutex_t lock;
    pthread_cond_t begin;                /* there is a new job */
    job *first, *last;                   /* under way, oldest first: outer ones before those within them */
    atomic_int open[STW_POOL_URGENCIES]; /* how many of them are how urgent */
    uint32_t taken;                      /* turns: bits */
    int32_t waiting;                     /* for a turn */
    pthread_cond_t turn;                 /* one is free, or there is a job */
    int32_t sleeping;                    /* workers that wait for one */
    bool closing;
    int32_t threads;
    int32_t started; /* workers that run, the caller not counted */
    worker *workers; /* (threads); workers[0] is the caller and has no thread */
};

/* The most urgent job with indices left, of those the oldest; only what is more urgent than `than`. */
static job *find_job(const stw_pool *pool, int32_t than) {
    job *found = NULL;
    for (job *j = pool->first; j != NULL; j = j->after) {
        if (j->urgency >= than || atomic_load_explicit(&j->next, memory_order_relaxed) >= j->count) continue;
        found = j;
        than = j->urgency;
    }
    return found;
}

static void take_indices(stw_pool *pool, job *j, int32_t number);

/* Helps with a job that was found under the lock, which is held on return again. */
static void help(stw_pool *pool, job *j, int32_t number) {
    j->helpers++;
    pthread_mutex_unlock(&pool->lock);
    take_indices(pool, j, number);
    pthread_mutex_lock(&pool->lock);
    if (--j->helpers == 0) pthread_cond_signal(&j->done);
}

/* All that is more urgent, first. */
static void give_way(stw_pool *pool, int32_t urgency, int32_t number) {
    bool any = false;
    for (int32_t k = 0; k < urgency; k++) any |= atomic_load_explicit(&pool->open[k], memory_order_relaxed) > 0;
    if (!any) return;
    job *j;
    pthread_mutex_lock(&pool->lock);
    while ((j = find_job(pool, urgency)) != NULL) help(pool, j, number);
    pthread_mutex_unlock(&pool->lock);
}

static void take_indices(stw_pool *pool, job *j, int32_t number) {
    worker *self = &pool->workers[number];
    const int32_t before = self->urgency;
    if (before != j->urgency) self->urgency = j->urgency;
    for (;;) {
        if (j->urgency > 0) give_way(pool, j->urgency, number);
        const int64_t index = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
        if (index >= j->count) break;
        j->work(j->context, index, number);
    }
    if (before != j->urgency) self->urgency = before;
}

static void *worker_main(void *argument) {
    const worker *self = argument;
    stw_pool *pool = self->pool;
    pthread_mutex_lock(&pool->lock);
    while (!pool->closing) {
        job *j = find_job(pool, STW_POOL_URGENCIES);
        if (j == NULL) {
            pool->sleeping++;
            pthread_cond_wait(&pool->begin, &pool->lock);
            pool->sleeping--;
            continue;
        }
        help(pool, j, self->number);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

stw_status stw_pool_create(int32_t threads, stw_pool **out, stw_error *error) {
    *out = NULL;
    if (threads == 0) {
        const long cores = sysconf(_SC_NPROCESSORS_ONLN);
        threads = cores < 1 ? 1 : cores > 1024 ? 1024 : (int32_t)cores;
    }
    if (threads < 1 || threads > 1024) return stw_fail(error, STW_ERROR_INPUT, "%d threads; choose 1 to 1024", threads);
    stw_pool *pool = calloc(1, sizeof *pool);
    worker *workers = calloc((size_t)threads, sizeof *workers);
    if (pool == NULL || workers == NULL) {
        free(pool);
        free(workers);
        return stw_fail(error, STW_ERROR_MEMORY, "out of memory for %d threads", threads);
    }
    pool->threads = threads;
    pool->workers = workers;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->begin, NULL);
    pthread_cond_init(&pool->turn, NULL);
    for (int32_t i = 1; i < threads; i++) {
        workers[i] = (worker){.pool = pool, .number = i};
        if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) != 0) {
            stw_pool_destroy(pool);
            return stw_fail(error, STW_ERROR_MEMORY, "cannot start thread %d of %d", i + 1, threads);
        }
        pool->started++;
    }
    *out = pool;
    return STW_OK;
}

void stw_pool_destroy(stw_pool *pool) {
    if (pool == NULL) return;
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_broadcast(&pool->begin);
    pthread_mutex_unlock(&pool->lock);
    for (int32_t i = 1; i <= pool->started; i++) pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->begin);
    pthread_cond_destroy(&pool->turn);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}

int32_t stw_pool_threads(const stw_pool *pool) { return pool->threads; }

/* Which worker this thread is: whoever is none of ours is the caller. */
static int32_t number_of_caller(const stw_pool *pool) {
    const pthread_t self = pthread_self();
    for (int32_t i = 1; i <= pool->started; i++) {
        if (pthread_equal(pool->workers[i].thread, self)) return i;
    }
    return 0;
}

/* Wakes as many as there is work for `wanted` workers. */
static void begin_job(stw_pool *pool, job *j, int64_t wanted) {
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add_explicit(&pool->open[j->urgency], 1, memory_order_relaxed);
    j->before = pool->last;
    *(pool->last == NULL ? &pool->first : &pool->last->after) = j;
    pool->last = j;
    if (wanted >= pool->sleeping && pool->sleeping > 0) pthread_cond_broadcast(&pool->begin);
    for (int64_t k = 0; k < wanted && wanted < pool->sleeping; k++) pthread_cond_signal(&pool->begin);
    if (pool->waiting > 0) pthread_cond_broadcast(&pool->turn);
    pthread_mutex_unlock(&pool->lock);
}

static void end_job(stw_pool *pool, job *j) {
    pthread_mutex_lock(&pool->lock);
    *(j->before == NULL ? &pool->first : &j->before->after) = j->after;
    *(j->after == NULL ? &pool->last : &j->after->before) = j->before;
    atomic_fetch_sub_explicit(&pool->open[j->urgency], 1, memory_order_relaxed);
    while (j->helpers > 0) pthread_cond_wait(&j->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

void stw_pool_run(stw_pool *pool, int64_t count, stw_pool_work *work, void *context) {
    const int32_t number = number_of_caller(pool);
    job j = {.work = work, .context = context, .count = count, .urgency = pool->workers[number].urgency};
    if (pool->started == 0 || count < 2) {
        take_indices(pool, &j, number);
        return;
    }
    pthread_cond_init(&j.done, NULL);
    begin_job(pool, &j, count - 1);
    take_indices(pool, &j, number);
    end_job(pool, &j);
    pthread_cond_destroy(&j.done);
}

typedef struct {
    stw_pool_attempt *attempt;
    void *context;
    pthread_mutex_t lock;
    int64_t index; /* of the first failure so far */
    stw_status status;
    stw_error *error;
} attempts;

static void attempt_one(void *context, int64_t index, int32_t number) {
    attempts *a = context;
    stw_error error;
    error.status = STW_OK; /* and no message: the work may say nothing */
    error.message[0] = '\0';
    const stw_status status = a->attempt(a->context, index, number, &error);
    if (status == STW_OK) return;
    pthread_mutex_lock(&a->lock);
    if (a->status == STW_OK || index < a->index) {
        a->index = index;
        a->status = status;
        if (a->error != NULL) *a->error = error;
    }
    pthread_mutex_unlock(&a->lock);
}

static void open_attempts(attempts *a, stw_pool_attempt *attempt, void *context) {
    *a = (attempts){.attempt = attempt, .context = context};
    pthread_mutex_init(&a->lock, NULL);
}

stw_status stw_pool_try(stw_pool *pool, int64_t count, stw_pool_attempt *attempt, void *context, stw_error *error) {
    attempts a;
    open_attempts(&a, attempt, context);
    a.error = error;
    stw_pool_run(pool, count, attempt_one, &a);
    pthread_mutex_destroy(&a.lock);
    return a.status;
}

/* ---- beside what the caller does ---- */

struct stw_pool_job {
    job job;
    attempts attempts;
    stw_error error;
};

stw_status stw_pool_begin(stw_pool *pool, stw_pool_urgency urgency, int64_t count, stw_pool_attempt *attempt, void *context,
                          stw_pool_job **out, stw_error *error) {
    stw_pool_job *j = *out = calloc(1, sizeof *j);
    if (j == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    open_attempts(&j->attempts, attempt, context);
    j->attempts.error = &j->error;
    j->job = (job){.work = attempt_one, .context = &j->attempts, .count = count, .urgency = (int32_t)urgency};
    pthread_cond_init(&j->job.done, NULL);
    begin_job(pool, &j->job, count);
    return STW_OK;
}

stw_status stw_pool_end(stw_pool *pool, stw_pool_job *j, stw_error *error) {
    take_indices(pool, &j->job, number_of_caller(pool));
    end_job(pool, &j->job);
    const stw_status status = j->attempts.status;
    if (status != STW_OK && error != NULL) *error = j->error;
    pthread_cond_destroy(&j->job.done);
    pthread_mutex_destroy(&j->attempts.lock);
    free(j);
    return status;
}

/* ---- one after the other ---- */

/* -1: none is free. */
static int32_t free_turn(const stw_pool *pool, int32_t most) {
    int32_t turn = 0;
    while (turn < most && (pool->taken >> turn & 1) != 0) turn++;
    return turn < most ? turn : -1;
}

int32_t stw_pool_take_turn(stw_pool *pool, int32_t most) {
    const int32_t number = number_of_caller(pool), urgency = pool->workers[number].urgency;
    int32_t turn;
    pthread_mutex_lock(&pool->lock);
    while ((turn = free_turn(pool, most)) < 0) {
        job *j = find_job(pool, urgency);
        if (j != NULL) {
            help(pool, j, number);
            continue;
        }
        pool->waiting++;
        pthread_cond_wait(&pool->turn, &pool->lock);
        pool->waiting--;
    }
    pool->taken |= (uint32_t)1 << turn;
    pthread_mutex_unlock(&pool->lock);
    return turn;
}

void stw_pool_end_turn(stw_pool *pool, int32_t turn) {
    pthread_mutex_lock(&pool->lock);
    pool->taken &= ~((uint32_t)1 << turn);
    if (pool->waiting > 0) pthread_cond_signal(&pool->turn);
    pthread_mutex_unlock(&pool->lock);
}
