/* The processes of a job and what they tell each other.
 *
 * Every function but rank, size, traffic and give_up is collective: all processes call it, in the same order and with
 * sizes that agree; who comes first waits. One thread of each process calls. Once a call has failed, the others may never come:
 * every later call fails at once, and close does not wait. What one process alone finds out (a file that it cannot read) goes
 * through stw_comm_agree, so that the others do not wait for it; where that was not possible, stw_comm_give_up. */
#ifndef STW_DIST_COMM_H
#define STW_DIST_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct stw_comm stw_comm;

/* The processes that were started together: by mpirun, where this program was built with MPI; else this one alone. MPI is loaded
 * with the program but initialised only if a launcher has started it. Fails where a launcher started several processes and they
 * cannot find each other: without MPI, or with the launcher of another MPI. Call it where signals are already held back, because
 * MPI starts threads. */
stw_status stw_comm_open(stw_comm **out, stw_error *error);
/* Collective; NULL is fine. Finalises MPI if open initialised it, after which it cannot be opened again. */
void stw_comm_close(stw_comm *comm);

int32_t stw_comm_rank(const stw_comm *comm); /* 0 ... size - 1 */
int32_t stw_comm_size(const stw_comm *comm);
/* Bytes that this process has given to MPI so far; what MPI makes of them on the wire is its own business. */
int64_t stw_comm_traffic(const stw_comm *comm);

/* Every rank's block, in the order of ranks, into `all` of every rank. bytes: (size) of each rank's block, 0 or more, equal on
 * all ranks. `mine` may be its own place in `all`; else it must not overlap with it. */
stw_status stw_comm_gather(stw_comm *comm, const void *mine, const int64_t *bytes, void *all, stw_error *error);
/* Sums over ranks, in place, the same bits on all ranks. The order of the sum, and so the last bits, depend on MPI and the number
 * of ranks: where the result must not, gather and add up. */
stw_status stw_comm_sum_doubles(stw_comm *comm, double *values, int64_t count, stw_error *error);
/* From rank 0 to all. */
stw_status stw_comm_broadcast(stw_comm *comm, void *bytes, int64_t count, stw_error *error);
/* True everywhere if true anywhere. */
stw_status stw_comm_any(stw_comm *comm, bool *flag, stw_error *error);

/* Whether all have come as far. `mine` is what this process has to say, with its message in `error` unless it is STW_OK. STW_OK
 * if all said so; where this one failed, its own status and message; else those of the lowest rank that failed, with its rank in
 * front. */
stw_status stw_comm_agree(stw_comm *comm, stw_status mine, stw_error *error);

/* After a failure that may be this process's alone: from here it waits for nobody. Every later call fails, and close leaves MPI
 * as it is. When the program then ends with a status other than 0, the launcher ends the others. NULL is fine. */
void stw_comm_give_up(stw_comm *comm);

/* For tests: no call of MPI gets more than this many bytes (at least 8; equal on all ranks), larger ones are split. */
void stw_comm_limit(stw_comm *comm, int64_t bytes);

#endif
