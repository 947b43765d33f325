/* A search is watched: it tells how far it is, and ends early when asked to. */
#include <pthread.h>
#include <semaphore.h>

#include "whole_search.h"

/* ---- cancelling ---- */

TEST(cancel, before_the_start) {
    stw_rng rng = stw_rng_create(564);
    small *s = open_problem(&rng, 2);
    stw_cancel *cancel;
    CHECK_EQ_INT(stw_cancel_create(&cancel, NULL), STW_OK);
    stw_cancel_request(cancel);
    const stw_watch watch = {.cancel = cancel};
    stw_result *result = optimize(s->simulator, options_of(ALL_TASKS, "budget", "100h", NULL), &watch);
    if (result != NULL) {
        check_result(s->simulator, result);
        CHECK(stw_result_is_interrupted(result));
        CHECK_EQ_INT(count_candidates(result), 2); /* the default, and nothing fused */
        CHECK_EQ_INT(stw_result_noise(result).ahead, 0);
        CHECK_EQ_INT(stw_result_noise(result).draws, 0);
    }
    stw_result_destroy(result);
    stw_error error = {0};
    CHECK_EQ_INT(stw_compare(s->simulator, "heft,optimize,single", NULL, &watch, &result, &error), STW_OK);
    if (CHECK(result != NULL)) {
        CHECK(stw_result_is_interrupted(result));
        CHECK_EQ_INT(count_candidates(result), 1); /* the first builds its one plan */
    }
    stw_result_destroy(result);
    stw_cancel_destroy(cancel);
    small_close(s);
}

typedef struct messenger { /* another thread, which cancels when there is a first plan */
    stw_cancel *cancel;
    sem_t has_plan;
    bool told;
} messenger;

static void *cancel_when_told(void *context) {
    messenger *m = context;
    while (sem_wait(&m->has_plan) != 0) { /* a signal came between */
    }
    stw_cancel_request(m->cancel);
    return NULL;
}

static void tell_of_plan(void *context, const stw_progress *progress) {
    messenger *m = context;
    if (progress->has_plan && !m->told) m->told = sem_post(&m->has_plan) == 0;
}

TEST(cancel, from_another_thread) {
    problem p = open_graph("resnet50", "h200x2");
    messenger m = {0};
    pthread_t thread;
    CHECK_EQ_INT(stw_cancel_create(&m.cancel, NULL), STW_OK);
    CHECK_EQ_INT(sem_init(&m.has_plan, 0, 0), 0);
    const stw_watch watch = {.cancel = m.cancel, .progress = tell_of_plan, .context = &m};
    CHECK_EQ_INT(pthread_create(&thread, NULL, cancel_when_told, &m), 0);
    stw_result *result = optimize(p.simulator, options_of(ALL_TASKS, "budget", "100h", "threads", "2", NULL), &watch);
    pthread_join(thread, NULL);
    if (result != NULL) {
        check_result(p.simulator, result);
        CHECK(stw_result_is_interrupted(result));
    }
    stw_result_destroy(result);
    sem_destroy(&m.has_plan);
    stw_cancel_destroy(m.cancel);
    close_graph(p);
}

/* ---- progress ---- */

typedef struct {
    int calls, in_anneal;
    double best_value, elapsed_s;
    int64_t evaluations;
    stw_cancel *cancel; /* requested in the call after so many */
    int most_calls;
} observer;

static void observe(void *context, const stw_progress *progress) {
    observer *o = context;
    if (o->calls > 0) CHECK(progress->elapsed_s >= o->elapsed_s && progress->evaluations >= o->evaluations);
    if (o->best_value > 0.0) CHECK(progress->has_plan && progress->best_value <= o->best_value);
    if (progress->has_plan) CHECK(progress->best_step_s >= progress->lower_bound_s * (1.0 - 1e-12));
    CHECK(progress->method != NULL && progress->evaluation_budget == 2000 && progress->budget_s == 0.0);
    o->in_anneal += progress->method != NULL && strcmp(progress->method, "anneal") == 0;
    o->elapsed_s = progress->elapsed_s;
    o->evaluations = progress->evaluations;
    o->best_value = progress->has_plan ? progress->best_value : 0.0;
    if (++o->calls == o->most_calls) stw_cancel_request(o->cancel);
}

TEST(progress, tells_how_far_it_is) {
    stw_rng rng = stw_rng_create(565);
    small *s = random_open(&rng, (random_shape){.nodes = 120, .device_count = 4, .plain = true});
    observer o = {0};
    const stw_watch watch = {.progress = observe, .context = &o};
    stw_result *result = optimize(s->simulator, options_of(ALL_TASKS, "evaluations", "2000", "threads", "2", NULL), &watch);
    CHECK(o.calls > 10);
    CHECK(o.in_anneal > 0);
    if (result != NULL) {
        stw_candidate best;
        check_result(s->simulator, result);
        CHECK(stw_result_candidate(result, stw_result_best(result), &best));
        CHECK_NEAR(best.value, o.best_value, 0.0);
        CHECK_EQ_INT(o.evaluations, count_evaluations(result));
    }
    stw_result_destroy(result);
    small_close(s);
}

TEST(cancel, while_progress_is_told) {
    stw_rng rng = stw_rng_create(565);
    small *s = random_open(&rng, (random_shape){.nodes = 120, .device_count = 4, .plain = true});
    observer o = {.most_calls = 6};
    CHECK_EQ_INT(stw_cancel_create(&o.cancel, NULL), STW_OK);
    const stw_watch watch = {.progress = observe, .context = &o, .cancel = o.cancel};
    stw_result *result = optimize(s->simulator, options_of(ALL_TASKS, "evaluations", "2000", "threads", "2", NULL), &watch);
    if (result != NULL) {
        check_result(s->simulator, result);
        CHECK(stw_result_is_interrupted(result));
        CHECK(count_evaluations(result) < 1000);
    }
    stw_result_destroy(result);
    stw_cancel_destroy(o.cancel);
    small_close(s);
}
