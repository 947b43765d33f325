/* dist/comm: one process, and what it makes of the environment of launchers. Several processes: test_mpi.py. */
#define _POSIX_C_SOURCE 200809L /* setenv */

#include <stdlib.h>
#include <string.h>

#include "dist/transport.h"
#include "test.h"

static void forget_launcher(void) {
    static const char *const names[] = {
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK", "PMIX_SIZE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) unsetenv(names[i]);
}

static stw_comm *open_alone(void) {
    forget_launcher();
    stw_comm *comm = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_comm_open(&comm, &error), STW_OK);
    CHECK_STR(error.message, "");
    return comm;
}

TEST(comm, one_process_is_rank_0_of_1) {
    stw_comm *comm = open_alone();
    if (!CHECK(comm != NULL)) return;
    CHECK_EQ_INT(stw_comm_rank(comm), 0);
    CHECK_EQ_INT(stw_comm_size(comm), 1);
    stw_comm_close(comm);
    stw_comm_close(NULL);
    stw_comm_give_up(NULL);
}

TEST(comm, gather_copies_the_one_block) {
    stw_comm *comm = open_alone();
    if (!CHECK(comm != NULL)) return;
    const int64_t bytes = 6, none = 0;
    char all[8] = "--------";
    CHECK_EQ_INT(stw_comm_gather(comm, "abcdef", &bytes, all, NULL), STW_OK);
    CHECK(memcmp(all, "abcdef--", 8) == 0);
    CHECK_EQ_INT(stw_comm_gather(comm, all, &bytes, all, NULL), STW_OK); /* in place */
    CHECK_EQ_INT(stw_comm_gather(comm, NULL, &none, NULL, NULL), STW_OK);
    CHECK(memcmp(all, "abcdef--", 8) == 0);
    stw_comm_close(comm);
}

TEST(comm, sums_and_broadcasts_of_one_are_what_they_were) {
    stw_comm *comm = open_alone();
    if (!CHECK(comm != NULL)) return;
    double doubles[] = {0.1, 1e300};
    char text[] = "plan";
    CHECK_EQ_INT(stw_comm_sum_doubles(comm, doubles, 2, NULL), STW_OK);
    CHECK_EQ_INT(stw_comm_broadcast(comm, text, sizeof text, NULL), STW_OK);
    CHECK(doubles[0] == 0.1 && doubles[1] == 1e300);
    CHECK_STR(text, "plan");
    CHECK_EQ_INT(stw_comm_traffic(comm), 0);
    stw_comm_close(comm);
}

TEST(comm, any_and_agree_of_one_are_its_own_word) {
    stw_comm *comm = open_alone();
    if (!CHECK(comm != NULL)) return;
    bool flag = true;
    CHECK_EQ_INT(stw_comm_any(comm, &flag, NULL), STW_OK);
    CHECK(flag);
    flag = false;
    CHECK_EQ_INT(stw_comm_any(comm, &flag, NULL), STW_OK);
    CHECK(!flag);
    stw_error error = {0};
    CHECK_EQ_INT(stw_comm_agree(comm, STW_OK, &error), STW_OK);
    CHECK_STR(error.message, "");
    stw_fail(&error, STW_ERROR_INPUT, "graph.json: no such file");
    CHECK_EQ_INT(stw_comm_agree(comm, STW_ERROR_INPUT, &error), STW_ERROR_INPUT);
    CHECK_STR(error.message, "graph.json: no such file");
    CHECK_EQ_INT(stw_comm_agree(comm, STW_ERROR_CANCELLED, NULL), STW_ERROR_CANCELLED);
    stw_comm_close(comm);
}

/* Numbers that are none, as other programs may leave in such variables: nobody has started us. */
TEST(comm, what_is_no_number_is_no_launcher) {
    static const char *const values[] = {"", "-1", "two", "2 ", "99999999999", "0x2"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        test_context("'%s'", values[i]);
        forget_launcher();
        setenv("PMI_SIZE", values[i], 1);
        setenv("OMPI_COMM_WORLD_SIZE", values[i], 1);
        stw_comm *comm = NULL;
        CHECK_EQ_INT(stw_comm_open(&comm, NULL), STW_OK);
        if (comm != NULL) CHECK_EQ_INT(stw_comm_size(comm), 1);
        stw_comm_close(comm);
    }
    test_context("%s", "");
    forget_launcher();
}

/* Each would take itself for the only one. Through stw_comm_open and with MPI: test_mpi.py. */
TEST(comm, one_of_several_does_not_go_alone) {
    static const stw_launch one_of_several[] = {{true, 0, 2}, {true, 1, 2}, {true, 1, -1}, {true, -1, 3}};
    for (size_t i = 0; i < sizeof one_of_several / sizeof one_of_several[0]; i++) {
        test_context("rank %d of %d", (int)one_of_several[i].rank, (int)one_of_several[i].size);
        stw_comm *comm = NULL;
        stw_error error = {0};
        CHECK_EQ_INT(stw_comm_open_self(&one_of_several[i], &comm, &error), STW_ERROR_INPUT);
        CHECK(comm == NULL);
        CHECK_CONTAINS(error.message, "built without MPI");
    }
    test_context("%s", "");
    const stw_launch alone = {true, 0, 1};
    stw_comm *comm = NULL;
    CHECK_EQ_INT(stw_comm_open_self(&alone, &comm, NULL), STW_OK);
    CHECK(comm != NULL);
    stw_comm_close(comm);
}

/* As after a process of the job has died, or when this one gives up. */
TEST(comm, after_a_failure_nothing_waits) {
    stw_comm *comm = open_alone();
    if (!CHECK(comm != NULL)) return;
    stw_comm_give_up(comm);
    double value = 1.0;
    bool flag = false;
    stw_error error = {0};
    CHECK_EQ_INT(stw_comm_sum_doubles(comm, &value, 1, &error), STW_ERROR_IO);
    CHECK_CONTAINS(error.message, "lost each other");
    CHECK_EQ_INT(stw_comm_any(comm, &flag, NULL), STW_ERROR_IO);
    CHECK_EQ_INT(stw_comm_agree(comm, STW_OK, &error), STW_ERROR_IO);
    stw_fail(&error, STW_ERROR_INPUT, "graph.json: no such file");
    CHECK_EQ_INT(stw_comm_agree(comm, STW_ERROR_INPUT, &error), STW_ERROR_INPUT); /* the first failure is the one to tell */
    CHECK_STR(error.message, "graph.json: no such file");
    stw_comm_close(comm);
}
