/* The one place that knows MPI. MPI-3 counts in int, so what is larger goes in pieces.
 *
 * Failures are returned, not fatal, so that they can be reported in our words. Where a process has died, the launcher mostly ends
 * the others before they hear of it. */
#ifdef STW_HAVE_MPI

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "dist/transport.h"

typedef struct {
    MPI_Comm world;         /* our own copy: messages of others who use MPI in this process do not mix with ours */
    bool finalize;          /* we have initialised it */
    int *counts, *displace; /* (size) scratch of gather */
} mpi_state;

/* `code` as our own status; says what failed and what to do. */
static stw_status told(int code, const char *what, stw_error *error) {
    if (code == MPI_SUCCESS) return STW_OK;
    char reason[MPI_MAX_ERROR_STRING + 1] = "unknown";
    int length = 0;
    if (MPI_Error_string(code, reason, &length) != MPI_SUCCESS) length = 0;
    const int shown = length < 200 ? length : 200; /* MPICH tells the whole stack of calls */
    return stw_fail(
        error, STW_ERROR_IO,
        "%s among the processes of the job failed (MPI: %.*s); another process may have ended; the last checkpoint is "
        "intact, continue with --resume",
        what, length > 0 ? shown : (int)sizeof "unknown" - 1, reason);
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static stw_status broadcast_from(stw_comm *comm, int32_t root, void *bytes, int64_t count, const char *what, stw_error *error) {
    const mpi_state *m = comm->state;
    for (int64_t at = 0; at < count;) {
        const int64_t piece = smaller(count - at, comm->limit);
        TRY(told(MPI_Bcast((char *)bytes + at, (int)piece, MPI_BYTE, root, m->world), what, error));
        if (comm->rank == root) comm->traffic += piece;
        at += piece;
    }
    return STW_OK;
}

static stw_status broadcast(stw_comm *comm, void *bytes, int64_t count, stw_error *error) {
    return broadcast_from(comm, 0, bytes, count, "broadcasting", error);
}

/* Blocks too large for one call: each is broadcast by its owner. */
static stw_status gather_in_turn(stw_comm *comm, const void *mine, const int64_t *bytes, char *all, stw_error *error) {
    for (int32_t r = 0; r < comm->size; r++) {
        if (r == comm->rank && mine != all && bytes[r] > 0) memcpy(all, mine, (size_t)bytes[r]);
        TRY(broadcast_from(comm, r, all, bytes[r], "gathering", error));
        all += bytes[r];
    }
    return STW_OK;
}

static stw_status gather(stw_comm *comm, const void *mine, const int64_t *bytes, void *all, stw_error *error) {
    mpi_state *m = comm->state;
    int64_t total = 0, before = 0;
    for (int32_t r = 0; r < comm->size; r++) {
        if (r < comm->rank) before += bytes[r];
        total += bytes[r];
    }
    if (total > comm->limit) return gather_in_turn(comm, mine, bytes, all, error);
    for (int32_t r = 0, at = 0; r < comm->size; at += m->counts[r], r++) {
        m->counts[r] = (int)bytes[r];
        m->displace[r] = at;
    }
    const int64_t own = bytes[comm->rank];
    if (own > 0 && mine != (char *)all + before) memcpy((char *)all + before, mine, (size_t)own);
    TRY(told(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, m->counts, m->displace, MPI_BYTE, m->world), "gathering",
             error));
    comm->traffic += own;
    return STW_OK;
}

static stw_status sum_doubles(stw_comm *comm, double *values, int64_t count, stw_error *error) {
    const mpi_state *m = comm->state;
    const int64_t size = sizeof *values;
    for (int64_t at = 0; at < count;) {
        const int64_t piece = smaller(count - at, comm->limit / size);
        TRY(told(MPI_Allreduce(MPI_IN_PLACE, values + at, (int)piece, MPI_DOUBLE, MPI_SUM, m->world), "summing", error));
        comm->traffic += piece * size;
        at += piece;
    }
    return STW_OK;
}

static stw_status most(stw_comm *comm, int32_t *value, stw_error *error) {
    const mpi_state *m = comm->state;
    TRY(told(MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INT32_T, MPI_MAX, m->world), "agreeing", error));
    comm->traffic += (int64_t)sizeof *value;
    return STW_OK;
}

/* A process that ends without MPI_Finalize makes the launcher end the job: right where others wait for it in vain. */
static void close_mpi(stw_comm *comm) {
    mpi_state *m = comm->state;
    if (m != NULL && !comm->broken) {
        if (m->world != MPI_COMM_NULL) MPI_Comm_free(&m->world);
        if (m->finalize) MPI_Finalize();
    }
    if (m != NULL) {
        free(m->counts);
        free(m->displace);
    }
    free(m);
    free(comm);
}

static const stw_transport transport = {gather, sum_doubles, broadcast, most, close_mpi};

static const char *library(void) {
#if defined OMPI_MAJOR_VERSION
#define TEXT(number)  #number
#define VALUE(number) TEXT(number)
    return "Open MPI " VALUE(OMPI_MAJOR_VERSION) "." VALUE(OMPI_MINOR_VERSION) "." VALUE(OMPI_RELEASE_VERSION);
#elif defined MPICH_VERSION
    return "MPICH " MPICH_VERSION;
#else
    return "MPI";
#endif
}

/* MPI has one life per process. */
static stw_status initialise(mpi_state *m, stw_error *error) {
    int already = 0, over = 0, provided = MPI_THREAD_SINGLE;
    TRY(told(MPI_Finalized(&over), "starting", error));
    if (over) return stw_fail(error, STW_ERROR_INPUT, "MPI was closed in this process; it cannot be opened again");
    TRY(told(MPI_Initialized(&already), "starting", error));
    if (already) return told(MPI_Query_thread(&provided), "starting", error);
    TRY(told(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "starting", error));
    m->finalize = true;
    if (provided < MPI_THREAD_FUNNELED)
        return stw_fail(error, STW_ERROR_INPUT, "this MPI (%s) does not work in programs with threads", library());
    return STW_OK;
}

/* With the launcher of another MPI each process believes to be alone: all would do all the work and write the same files. */
static stw_status check_launch(const stw_comm *comm, const stw_launch *launch, stw_error *error) {
    if ((launch->size < 0 || launch->size == comm->size) && (launch->rank < 0 || launch->rank == comm->rank)) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT,
                    "started as one of several processes, but MPI sees %d: use the mpirun of the MPI that this program was built "
                    "with, %s",
                    (int)comm->size, library());
}

static stw_status set_up(stw_comm *comm, const stw_launch *launch, stw_error *error) {
    mpi_state *m = comm->state;
    TRY(initialise(m, error));
    TRY(told(MPI_Comm_dup(MPI_COMM_WORLD, &m->world), "starting", error));
    TRY(told(MPI_Comm_set_errhandler(m->world, MPI_ERRORS_RETURN), "starting", error));
    int rank = 0, size = 1;
    TRY(told(MPI_Comm_rank(m->world, &rank), "starting", error));
    TRY(told(MPI_Comm_size(m->world, &size), "starting", error));
    comm->rank = rank;
    comm->size = size;
    TRY(check_launch(comm, launch, error));
    m->counts = calloc((size_t)size, sizeof *m->counts);
    m->displace = calloc((size_t)size, sizeof *m->displace);
    if (m->counts == NULL || m->displace == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory (%d counts)", size);
    return STW_OK;
}

stw_status stw_comm_open_mpi(const stw_launch *launch, stw_comm **out, stw_error *error) {
    stw_comm *comm = calloc(1, sizeof *comm);
    mpi_state *m = calloc(1, sizeof *m);
    if (comm == NULL || m == NULL) {
        free(comm);
        free(m);
        return stw_fail(error, STW_ERROR_MEMORY, "out of memory (%zu bytes)", sizeof *comm + sizeof *m);
    }
    m->world = MPI_COMM_NULL;
    *comm = (stw_comm){.transport = &transport, .size = 1, .limit = INT_MAX, .state = m};
    const stw_status status = set_up(comm, launch, error);
    if (status == STW_OK)
        *out = comm;
    else
        close_mpi(comm);
    return status;
}

#else

/* An empty file is not C. */
typedef int stw_built_without_mpi;

#endif
