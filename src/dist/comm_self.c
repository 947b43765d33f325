/* One process: what it gathers is its own, and sums are what they were. */
#include <stdlib.h>
#include <string.h>

#include "dist/transport.h"

static stw_status gather(stw_comm *comm, const void *mine, const int64_t *bytes, void *all, stw_error *error) {
    (void)comm, (void)error;
    if (mine != all && bytes[0] > 0) memcpy(all, mine, (size_t)bytes[0]);
    return STW_OK;
}

static stw_status sum_doubles(stw_comm *comm, double *values, int64_t count, stw_error *error) {
    (void)comm, (void)values, (void)count, (void)error;
    return STW_OK;
}

static stw_status broadcast(stw_comm *comm, void *bytes, int64_t count, stw_error *error) {
    (void)comm, (void)bytes, (void)count, (void)error;
    return STW_OK;
}

static stw_status most(stw_comm *comm, int32_t *value, stw_error *error) {
    (void)comm, (void)value, (void)error;
    return STW_OK;
}

static void close_self(stw_comm *comm) { free(comm); }

static const stw_transport transport = {gather, sum_doubles, broadcast, most, close_self};

stw_status stw_comm_open_self(const stw_launch *launch, stw_comm **out, stw_error *error) {
    if (launch->size > 1 || launch->rank > 0) /* each would do all the work and write the same files */
        return stw_fail(
            error, STW_ERROR_INPUT,
            "started as one of several processes, but built without MPI; install libopenmpi-dev and build again, or start "
            "one process");
    stw_comm *comm = calloc(1, sizeof *comm);
    if (comm == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory (%zu bytes)", sizeof *comm);
    comm->transport = &transport;
    comm->size = 1;
    comm->limit = INT32_MAX;
    *out = comm;
    return STW_OK;
}
