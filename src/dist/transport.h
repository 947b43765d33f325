/* What stands behind a stw_comm (comm.c): this process alone (comm_self.c) or MPI (comm_mpi.c). */
#ifndef STW_DIST_TRANSPORT_H
#define STW_DIST_TRANSPORT_H

#include "dist/comm.h"

/* Sizes are >= 0; count is of items. Each returns STW_OK or fills `error`. */
typedef struct stw_transport {
    stw_status (*gather)(stw_comm *comm, const void *mine, const int64_t *bytes, void *all, stw_error *error);
    stw_status (*sum_doubles)(stw_comm *comm, double *values, int64_t count, stw_error *error);
    stw_status (*broadcast)(stw_comm *comm, void *bytes, int64_t count, stw_error *error);
    stw_status (*most)(stw_comm *comm, int32_t *value, stw_error *error); /* the largest of all ranks */
    void (*close)(stw_comm *comm); /* frees `comm`; without waiting for the others if `broken` */
} stw_transport;

struct stw_comm {
    const stw_transport *transport;
    int32_t rank, size;
    int64_t traffic; /* bytes given to the library */
    int64_t limit;   /* bytes that one call of it may get */
    bool broken;     /* a call has failed: the others may be gone */
    void *state;     /* the transport's own */
};

/* What the launcher says of this process by its environment; -1: nothing. */
typedef struct stw_launch {
    bool launched;
    int32_t rank, size;
} stw_launch;

/* comm_self.c. Fails where the launcher has started several. */
stw_status stw_comm_open_self(const stw_launch *launch, stw_comm **out, stw_error *error);

/* comm_mpi.c; only where STW_HAVE_MPI is defined. */
stw_status stw_comm_open_mpi(const stw_launch *launch, stw_comm **out, stw_error *error);

#endif
