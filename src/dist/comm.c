#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist/transport.h"

/* Launchers tell a process its place by its environment: Open MPI's mpirun; Hydra (MPICH, Intel MPI) and Slurm's pmi2; PMIx
 * (Slurm's pmix, PRRTE), which has no variable for the size. Slurm's own variables say nothing: every shell of a job has them. */
static int32_t number_of(const char *variable) {
    const char *text = getenv(variable);
    if (text == NULL || *text < '0' || *text > '9') return -1;
    char *end = NULL;
    const long value = strtol(text, &end, 10);
    return *end == '\0' && value <= INT32_MAX ? (int32_t)value : -1;
}

static stw_launch read_launch(void) {
    static const char *const names[][2] = {
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}, {"PMIX_RANK", "PMIX_SIZE"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const stw_launch launch = {.launched = true, .rank = number_of(names[i][0]), .size = number_of(names[i][1])};
        if (launch.rank >= 0 || launch.size >= 0) return launch;
    }
    return (stw_launch){.launched = false, .rank = -1, .size = -1};
}

stw_status stw_comm_open(stw_comm **out, stw_error *error) {
    *out = NULL;
    const stw_launch launch = read_launch();
#ifdef STW_HAVE_MPI
    if (launch.launched) return stw_comm_open_mpi(&launch, out, error);
#endif
    return stw_comm_open_self(&launch, out, error);
}

void stw_comm_close(stw_comm *comm) {
    if (comm != NULL) comm->transport->close(comm);
}

int32_t stw_comm_rank(const stw_comm *comm) { return comm->rank; }
int32_t stw_comm_size(const stw_comm *comm) { return comm->size; }
int64_t stw_comm_traffic(const stw_comm *comm) { return comm->traffic; }
void stw_comm_limit(stw_comm *comm, int64_t bytes) { comm->limit = bytes; }

/* Refused before it can wait for processes that are gone. */
static stw_status check(const stw_comm *comm, const char *what, stw_error *error) {
    if (!comm->broken) return STW_OK;
    return stw_fail(error, STW_ERROR_IO, "%s: the processes of the job have lost each other before", what);
}

static stw_status done(stw_comm *comm, stw_status status) {
    if (status != STW_OK) comm->broken = true;
    return status;
}

stw_status stw_comm_gather(stw_comm *comm, const void *mine, const int64_t *bytes, void *all, stw_error *error) {
    TRY(check(comm, "gathering", error));
    return done(comm, comm->transport->gather(comm, mine, bytes, all, error));
}

stw_status stw_comm_sum_doubles(stw_comm *comm, double *values, int64_t count, stw_error *error) {
    TRY(check(comm, "summing", error));
    return done(comm, comm->transport->sum_doubles(comm, values, count, error));
}

stw_status stw_comm_broadcast(stw_comm *comm, void *bytes, int64_t count, stw_error *error) {
    TRY(check(comm, "broadcasting", error));
    return done(comm, comm->transport->broadcast(comm, bytes, count, error));
}

stw_status stw_comm_any(stw_comm *comm, bool *flag, stw_error *error) {
    TRY(check(comm, "asking all processes", error));
    int32_t value = *flag ? 1 : 0;
    TRY(done(comm, comm->transport->most(comm, &value, error)));
    *flag = value != 0;
    return STW_OK;
}

void stw_comm_give_up(stw_comm *comm) {
    if (comm != NULL) comm->broken = true;
}

/* The failure of rank `from`, into `told` of every rank. */
static stw_status tell(stw_comm *comm, int32_t from, const stw_error *mine, stw_error *told, stw_error *error) {
    int64_t *bytes = calloc((size_t)comm->size, sizeof *bytes);
    if (bytes == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory (%d sizes)", (int)comm->size);
    bytes[from] = sizeof *told;
    const stw_status status = stw_comm_gather(comm, mine, bytes, told, error);
    free(bytes);
    return status;
}

stw_status stw_comm_agree(stw_comm *comm, stw_status mine, stw_error *error) {
    stw_error failure = {.status = mine};
    if (mine != STW_OK) snprintf(failure.message, sizeof failure.message, "%s", error == NULL ? "" : error->message);
    int32_t first = mine == STW_OK ? 0 : comm->size - comm->rank; /* largest for the lowest rank */
    stw_error lost = {0}; /* the failure itself says more than that it could not be sent */
    stw_status status = check(comm, "agreeing", &lost);
    if (status == STW_OK) status = done(comm, comm->transport->most(comm, &first, &lost));
    stw_error told = {0};
    if (status == STW_OK && first > 0) status = tell(comm, comm->size - first, &failure, &told, &lost);
    if (mine != STW_OK) return mine;
    if (status != STW_OK) return stw_fail(error, status, "%s", lost.message);
    if (first == 0) return STW_OK;
    stw_fail(error, told.status, "%s", told.message[0] == '\0' ? "failed" : told.message);
    char who[64];
    snprintf(who, sizeof who, "process %d of %d", (int)(comm->size - first), (int)comm->size);
    stw_error_prefix(error, who);
    return told.status;
}
