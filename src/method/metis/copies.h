/* Copies of METIS beside the one that the program is linked with, so that several threads can partition at a time.
 *
 * METIS draws from the C library's rand(), which is one for the whole process. A copy is loaded into a namespace of its own
 * (dlmopen), with its own C library and so with random numbers of its own: it finds what the first one would, and nothing outside
 * of it notices. What a copy's malloc keeps for a thread stays when the thread ends, so copies are for a few threads that live
 * long. */
#ifndef STW_METHOD_METIS_COPIES_H
#define STW_METHOD_METIS_COPIES_H

#include <stddef.h>

#include "base/error.h"

typedef struct stw_metis_copies stw_metis_copies;

/* Some, for so many threads; none, which is no error, for one thread and where copies cannot be made. */
stw_status stw_metis_copies_open(int32_t threads, stw_metis_copies **out, stw_error *error);
void stw_metis_copies_close(stw_metis_copies *copies);
int32_t stw_metis_copies_count(const stw_metis_copies *copies); /* of NULL: 0 */

typedef void stw_metis_function(void); /* METIS_PartGraphRecursive or METIS_PartGraphKway, by their true types */
typedef struct stw_metis_copy {
    stw_metis_function *recursive, *at_once;
    void *(*malloc)(size_t bytes); /* where it gets its memory */
    void (*free)(void *memory);
} stw_metis_copy;

const stw_metis_copy *stw_metis_copy_at(const stw_metis_copies *copies, int32_t index); /* for one thread at a time */

/* Around every call of METIS, of a copy or not. It catches signals while it runs: when the last of several calls in this process
 * has ended, handlers are as they were before the first. */
void stw_metis_enter(void);
void stw_metis_leave(void);

#endif
