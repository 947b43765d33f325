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
    pthread_t thread;
} worker;

struct stw_pool {
    pthread_mutex_t lock;
    pthread_cond_t begin, done;
    int64_t round; /* counts calls of stw_pool_run; a worker sleeps until it grows */
    int32_t busy;  /* workers still in this round */
    bool closing;
    stw_pool_work *work;
    void *context;
    int64_t count;
    _Atomic int64_t next; /* the next index to take */
    int32_t threads;
    int32_t started; /* workers that run, the caller not counted */
    worker *workers; /* (threads); workers[0] is the caller and has no thread */
};

static void take_indices(stw_pool *pool, int32_t number) {
    for (;;) {
        const int64_t index = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (index >= pool->count) return;
        pool->work(pool->context, index, number);
    }
}

static void *worker_main(void *argument) {
    worker *self = argument;
    stw_pool *pool = self->pool;
    int64_t seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->round == seen && !pool->closing) pthread_cond_wait(&pool->begin, &pool->lock);
        if (pool->closing) break;
        seen = pool->round;
        pthread_mutex_unlock(&pool->lock);
        take_indices(pool, self->number);
        pthread_mutex_lock(&pool->lock);
        if (--pool->busy == 0) pthread_cond_signal(&pool->done);
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
    pthread_cond_init(&pool->done, NULL);
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
    pthread_cond_destroy(&pool->done);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}

int32_t stw_pool_threads(const stw_pool *pool) { return pool->threads; }

void stw_pool_run(stw_pool *pool, int64_t count, stw_pool_work *work, void *context) {
    pthread_mutex_lock(&pool->lock);
    pool->work = work;
    pool->context = context;
    pool->count = count;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    pool->busy = pool->started;
    pool->round++;
    pthread_cond_broadcast(&pool->begin);
    pthread_mutex_unlock(&pool->lock);
    take_indices(pool, 0);
    pthread_mutex_lock(&pool->lock);
    while (pool->busy > 0) pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
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

stw_status stw_pool_try(stw_pool *pool, int64_t count, stw_pool_attempt *attempt, void *context, stw_error *error) {
    attempts a = {.attempt = attempt, .context = context, .error = error};
    pthread_mutex_init(&a.lock, NULL);
    stw_pool_run(pool, count, attempt_one, &a);
    pthread_mutex_destroy(&a.lock);
    return a.status;
}
