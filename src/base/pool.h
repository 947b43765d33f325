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

#endif
