/* pretrain/proposals: the same scorer from any number of threads; it ranks moves of problems that it has not seen; a training
 * that is interrupted stays as it was. */
#include <math.h>
#include <string.h>

#include "pretrain/proposals.h"
#include "test.h"

typedef struct {
    stw_corpus *corpus;
    stw_pool *pool;
    stw_proposals_training *training;
} bench;

static bench open_bench(const char *families, int32_t threads, double rate, const stw_cancel *cancel) {
    bench b;
    stw_error error = {0};
    const stw_proposals_settings settings = {.seed = 3, .problems = 8, .rate = rate, .cancel = cancel};
    CHECK_EQ_INT(stw_corpus_open(&(stw_corpus_wish){.families = families}, &b.corpus, &error), STW_OK);
    CHECK_EQ_INT(stw_pool_create(threads, &b.pool, &error), STW_OK);
    CHECK_EQ_INT(stw_proposals_create(&settings, b.corpus, b.pool, &b.training, &error), STW_OK);
    CHECK_STR(error.message, "");
    return b;
}

static void close_bench(const bench *b) {
    stw_proposals_destroy(b->training);
    stw_pool_destroy(b->pool);
    stw_corpus_close(b->corpus);
}

TEST(proposals, the_same_from_any_number_of_threads) {
    stw_scorer scorer[3];
    stw_proposals_row row[2];
    for (int32_t threads = 1; threads <= 3; threads++) {
        bench b = open_bench("wavenet,transformer-xl", threads, 5e-3, NULL);
        stw_error error = {0};
        CHECK(stw_proposals_scorer(b.training) == NULL);
        for (int k = 0; k < 2; k++) CHECK_EQ_INT(stw_proposals_update(b.training, &row[k], &error), STW_OK);
        scorer[threads - 1] = *stw_proposals_scorer(b.training);
        close_bench(&b);
    }
    CHECK(memcmp(&scorer[0], &scorer[1], sizeof scorer[0]) == 0);
    CHECK(memcmp(&scorer[0], &scorer[2], sizeof scorer[0]) == 0);
    CHECK(isnan(row[0].auc)); /* nothing had been learnt before */
    CHECK(row[0].examples > 1000 && row[0].helped > 20 && row[0].helped < row[0].examples / 3);
    CHECK(row[1].auc > 0.55);
    CHECK((double)row[1].helped / (double)row[1].examples > 1.3 * (double)row[0].helped / (double)row[0].examples);
}

TEST(proposals, an_interrupted_update_changes_nothing) {
    stw_cancel *cancel;
    stw_error error = {0};
    stw_proposals_row row;
    CHECK_EQ_INT(stw_cancel_create(&cancel, &error), STW_OK);
    bench b = open_bench("unet", 2, 5e-3, cancel);
    stw_cancel_request(cancel);
    CHECK_EQ_INT(stw_proposals_update(b.training, &row, &error), STW_ERROR_CANCELLED);
    CHECK(stw_proposals_scorer(b.training) == NULL);
    close_bench(&b);
    stw_cancel_destroy(cancel);
}
