/* A small thread pool: runs one function over many indices. Threads only execute; what is computed for an index must not
 * depend on the worker that computes it. */
#ifndef STW_BASE_POOL_H
#define STW_BASE_POOL_H

#include "base/error.h"

typedef struct stw_pool stw_pool;

/* `threads` workers, the calling thread being one of them; 0 means one per core. */
stw_status stw_pool_create(int32_t threads, stw_pool **out, stw_error *error);
void stw_pool_destroy(stw_pool *pool);
int32_t stw_pool_threads(const stw_pool *pool);

/* Calls work(context, index, worker) for each index in [0, count) and returns when all are done. worker < threads, and it is the
 * same for whatever a thread does. Work may call this again on the same pool: then workers that would be idle help with it. */
typedef void stw_pool_work(void *context, int64_t index, int32_t worker);
void stw_pool_run(stw_pool *pool, int64_t count, stw_pool_work *work, void *context);

/* The same with work that can fail. All of it is done; what failed with the smallest index is what the caller gets. */
typedef stw_status stw_pool_attempt(void *context, int64_t index, int32_t worker, stw_error *error);
stw_status stw_pool_try(stw_pool *pool, int64_t count, stw_pool_attempt *attempt, void *context, stw_error *error);

/* The same beside what the caller does, on threads that have nothing more urgent; what they have begun of it gives way, between
 * two indices, to what is. What that runs in its turn is as urgent as itself. So work on what a job that it gives way to is using
 * is not for this. stw_pool_run and stw_pool_try are for now unless they are called by such work. */
typedef enum stw_pool_urgency { STW_POOL_NOW, STW_POOL_SOON, STW_POOL_SOMETIME, STW_POOL_URGENCIES } stw_pool_urgency;
typedef struct stw_pool_job stw_pool_job;
stw_status stw_pool_begin(stw_pool *pool, stw_pool_urgency urgency, int64_t count, stw_pool_attempt *attempt, void *context,
                          stw_pool_job **out, stw_error *error);
/* Does what is left of it with the others, and returns when all is done. With one thread that is everything. */
stw_status stw_pool_end(stw_pool *pool, stw_pool_job *job, stw_error *error);

/* For what at most `most` threads of the pool may do at a time, 1 to 32: returns which of them this one is, until
 * stw_pool_end_turn. Whoever waits for its turn does meanwhile what is more urgent than its own work. */
int32_t stw_pool_take_turn(stw_pool *pool, int32_t most);
void stw_pool_end_turn(stw_pool *pool, int32_t turn);

#endif
