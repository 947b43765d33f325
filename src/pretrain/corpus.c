/* What is in a corpus, and one draw from it. */
#include "pretrain/corpus.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pretrain/corpus_parts.h"

static const double files_weight = 2.0; /* of all files together: as much as two families */

double stw_draw_between(stw_rng *rng, double low, double high) { return low + (high - low) * stw_rng_uniform(rng); }

double stw_draw_log_between(stw_rng *rng, double low, double high) { return exp(stw_draw_between(rng, log(low), log(high))); }

/* The parts of a list with commas, from the left; false at its end. Empty parts are skipped. */
static bool next_part(stw_str *rest, stw_str *out) {
    while (rest->length > 0) {
        int64_t length = 0;
        while (length < rest->length && rest->p[length] != ',') length++;
        *out = (stw_str){rest->p, length};
        const int64_t taken = length < rest->length ? length + 1 : length;
        *rest = (stw_str){rest->p + taken, rest->length - taken};
        if (length > 0) return true;
    }
    return false;
}

static int32_t find_family(stw_str name) {
    for (int32_t k = 0; stw_family_at(k) != NULL; k++) {
        if (stw_str_is(name, stw_family_at(k)->name)) return k;
    }
    return -1;
}

typedef struct gathered { /* while a corpus is opened */
    bool *wanted;         /* by index of the family */
    int32_t family_total;
    stw_corpus_file *files; /* the last first */
} gathered;

static stw_status gather(stw_corpus *corpus, const char *families, gathered *g, stw_error *error) {
    stw_str rest = stw_str_of(families), name;
    while (next_part(&rest, &name)) {
        const int32_t found = find_family(name);
        if (found >= 0) {
            g->wanted[found] = true;
        } else if (stw_str_is(name, "all")) {
            for (int32_t k = 0; k < g->family_total; k++) g->wanted[k] = true;
        } else {
            TRY(stw_corpus_read(corpus, name, &g->files, error));
        }
    }
    return STW_OK;
}

/* For messages: the families that there are, those of files behind the others. */
static void list_known(const gathered *g, char *out, size_t size) {
    out[0] = '\0';
    for (int32_t k = 0; k < g->family_total; k++) {
        const size_t length = strlen(out);
        snprintf(out + length, size - length, "%s%s", k == 0 ? "" : ", ", stw_family_at(k)->name);
    }
    for (const stw_corpus_file *file = g->files; file != NULL; file = file->next) {
        const stw_str word = file->graph->family.length > 0 ? file->graph->family : file->family;
        bool listed = find_family(word) >= 0;
        for (const stw_corpus_file *other = g->files; other != file; other = other->next) {
            listed |= stw_corpus_file_is(other, word);
        }
        const size_t length = strlen(out);
        if (!listed) snprintf(out + length, size - length, ", %.*s", STW_STR_SHOW(word));
    }
}

static bool is_known(const gathered *g, stw_str name) {
    bool known = find_family(name) >= 0;
    for (const stw_corpus_file *file = g->files; file != NULL; file = file->next) known |= stw_corpus_file_is(file, name);
    return known;
}

static void drop_files(gathered *g, stw_str family) {
    stw_corpus_file **link = &g->files;
    while (*link != NULL) {
        stw_corpus_file *file = *link;
        if (!stw_corpus_file_is(file, family)) {
            link = &file->next;
            continue;
        }
        *link = file->next;
        stw_graph_destroy(file->graph);
    }
}

/* Checks every name before anything goes: a name may be known by files that another name takes away. */
static stw_status hold_out(gathered *g, const char *names, const char *known, stw_error *error) {
    stw_str rest = stw_str_of(names), name;
    while (next_part(&rest, &name)) {
        if (is_known(g, name)) continue;
        return stw_fail(error, STW_ERROR_INPUT, "'%.*s' cannot be held out: no such family; known: %s", STW_STR_SHOW(name),
                        known);
    }
    rest = stw_str_of(names);
    while (next_part(&rest, &name)) {
        const int32_t found = find_family(name);
        if (found >= 0) g->wanted[found] = false;
        drop_files(g, name);
    }
    return STW_OK;
}

static stw_status keep(stw_corpus *corpus, const gathered *g, stw_error *error) {
    STW_TRY_NEW(&corpus->arena, corpus->family, g->family_total, error);
    for (int32_t k = 0; k < g->family_total; k++) {
        if (g->wanted[k]) corpus->family[corpus->family_count++] = stw_family_at(k);
    }
    int32_t count = 0;
    for (const stw_corpus_file *file = g->files; file != NULL; file = file->next) count++;
    STW_TRY_NEW(&corpus->arena, corpus->file, count, error);
    corpus->file_count = count;
    for (stw_corpus_file *file = g->files; file != NULL; file = file->next) corpus->file[--count] = file;
    return STW_OK;
}

static stw_status fill(stw_corpus *corpus, const stw_corpus_wish *wish, gathered *g, stw_error *error) {
    char known[400];
    while (stw_family_at(g->family_total) != NULL) g->family_total++;
    STW_TRY_NEW(&corpus->arena, g->wanted, g->family_total, error);
    TRY(stw_machine_build(STW_STR("h200x1"), &corpus->base, error));
    TRY(gather(corpus, wish->families, g, error));
    list_known(g, known, sizeof known);
    TRY(hold_out(g, wish->hold_out, known, error));
    TRY(keep(corpus, g, error));
    if (corpus->family_count + corpus->file_count > 0) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT,
                    "nothing is left to train on; name families that are not held out: all, %s, or graph files", known);
}

stw_status stw_corpus_open(const stw_corpus_wish *wish, stw_corpus **out, stw_error *error) {
    stw_arena arena;
    gathered g = {0};
    *out = NULL;
    TRY(stw_arena_create(&arena, error));
    stw_corpus *corpus = STW_NEW(&arena, stw_corpus, 1);
    *corpus = (stw_corpus){.arena = arena, .limits = wish->limits};
    const stw_status status = fill(corpus, wish, &g, error);
    if (status != STW_OK) { /* files that were not handed over yet are in the list */
        corpus->file_count = 0;
        for (stw_corpus_file *file = g.files; file != NULL; file = file->next) stw_graph_destroy(file->graph);
        stw_corpus_close(corpus);
        return status;
    }
    *out = corpus;
    return STW_OK;
}

void stw_corpus_close(stw_corpus *corpus) {
    if (corpus == NULL) return;
    for (int32_t k = 0; k < corpus->file_count; k++) stw_graph_destroy(corpus->file[k]->graph);
    stw_machine_destroy(corpus->base);
    stw_arena arena = corpus->arena; /* the corpus lies in it */
    stw_arena_destroy(&arena);
}

int32_t stw_corpus_count(const stw_corpus *corpus) { return corpus->family_count + corpus->file_count; }

stw_corpus_entry stw_corpus_at(const stw_corpus *corpus, int32_t index) {
    if (index < corpus->family_count) {
        const char *name = corpus->family[index]->name;
        return (stw_corpus_entry){.name = name, .family = name};
    }
    const stw_corpus_file *file = corpus->file[index - corpus->family_count];
    return (stw_corpus_entry){.name = file->path.p, .family = file->family.p, .op_count = file->graph->op_count};
}

/* The most ops that a draw may have. */
static double draw_most_ops(stw_rng *rng, double difficulty) {
    if (stw_rng_uniform(rng) < 0.05 * difficulty) return STW_CORPUS_RARE_OPS;
    return STW_CORPUS_EASY_OPS * pow((double)STW_CORPUS_MOST_OPS / STW_CORPUS_EASY_OPS, difficulty);
}

static const stw_corpus_file *draw_file(const stw_corpus *corpus, double most, int32_t fitting, stw_rng *rng) {
    int64_t draw = stw_rng_below(rng, fitting);
    int32_t k = 0;
    while (corpus->file[k]->graph->op_count > most || draw-- > 0) k++;
    return corpus->file[k];
}

typedef struct choice { /* one of them is not NULL */
    const stw_family *family;
    const stw_corpus_file *file;
} choice;

static choice choose(const stw_corpus *corpus, double most, stw_rng *rng) {
    int32_t fitting = 0;
    for (int32_t k = 0; k < corpus->file_count; k++) fitting += corpus->file[k]->graph->op_count <= most;
    if (corpus->family_count == 0 && fitting == 0) return (choice){.file = draw_file(corpus, HUGE_VAL, corpus->file_count, rng)};
    double total = fitting > 0 ? files_weight : 0.0;
    for (int32_t k = 0; k < corpus->family_count; k++) total += stw_family_weight(corpus->family[k]);
    double draw = total * stw_rng_uniform(rng);
    for (int32_t k = 0; k < corpus->family_count; k++) {
        draw -= stw_family_weight(corpus->family[k]);
        if (draw < 0.0 || (fitting == 0 && k + 1 == corpus->family_count)) return (choice){.family = corpus->family[k]};
    }
    return (choice){.file = draw_file(corpus, most, fitting, rng)};
}

/* A generated graph that fits on one device of the base: what does not is drawn anew, with smaller sizes each time. */
static stw_status draw_family(const stw_corpus *corpus, const stw_family *family, double most, stw_rng rng, stw_graph **out,
                              stw_need *need, stw_error *error) {
    enum { TRIES = 12 };
    const double room = 0.7 * (double)corpus->base->device[0].memory_bytes;
    stw_size_wish wish = {.most = most, .shrink = 1.0};
    wish.ops = stw_draw_log_between(&rng, 1.5 * STW_CORPUS_LEAST_OPS, most);
    for (uint64_t k = 0;; k++) {
        stw_graph *graph;
        TRY(stw_draw_generated(family, wish, stw_rng_split(&rng, k), &graph, error));
        const stw_status status = stw_need_of(graph, need, error);
        if (status == STW_OK && ((double)need->whole <= room || k + 1 == TRIES)) {
            *out = graph;
            return STW_OK;
        }
        stw_graph_destroy(graph);
        TRY(status);
        wish.shrink *= 0.7;
    }
}

static stw_status time_generated(const stw_corpus *corpus, stw_graph *graph, stw_rng rng, stw_error *error) {
    stw_arena scratch;
    double *us = NULL;
    TRY(stw_arena_create(&scratch, error));
    stw_status status = stw_base_times(graph, corpus->base, &scratch, &us, error);
    if (status == STW_OK) status = stw_augment_times(graph, us, rng, error);
    stw_arena_destroy(&scratch);
    return status;
}

/* most: 0, as the difficulty has it. */
static stw_status draw_problem(const stw_corpus *corpus, stw_rng rng, double difficulty, double most, stw_drawn *out,
                               stw_error *error) {
    stw_rng first = stw_rng_split(&rng, 0);
    const stw_rng sizes = stw_rng_split(&rng, 1), times = stw_rng_split(&rng, 2), machine = stw_rng_split(&rng, 3);
    stw_need need = {0};
    if (most <= 0.0) most = draw_most_ops(&first, difficulty);
    const choice chosen = choose(corpus, most, &first);
    if (chosen.file != NULL) {
        TRY(stw_graph_variant(chosen.file->graph, &out->graph, error));
        TRY(stw_need_of(out->graph, &need, error));
        TRY(stw_augment_times(out->graph, chosen.file->us, times, error));
    } else {
        TRY(draw_family(corpus, chosen.family, most, sizes, &out->graph, &need, error));
        TRY(time_generated(corpus, out->graph, times, error));
    }
    TRY(stw_draw_machine(machine, difficulty, need, &out->machine, error));
    snprintf(out->label, sizeof out->label, "%.*s, %d ops, %.*s", STW_STR_SHOW(out->graph->name), out->graph->op_count,
             STW_STR_SHOW(out->machine->name));
    return STW_OK;
}

stw_status stw_corpus_draw(const stw_corpus *corpus, stw_rng rng, double difficulty, stw_drawn *out, stw_error *error) {
    *out = (stw_drawn){0};
    const double bounded = fmin(fmax(difficulty, 0.0), 1.0); /* NaN becomes 0 */
    const stw_status status = draw_problem(corpus, rng, bounded, 0.0, out, error);
    if (status != STW_OK) stw_drawn_destroy(out);
    return status;
}

stw_status stw_corpus_draw_up_to(const stw_corpus *corpus, stw_rng rng, double most_ops, stw_drawn *out, stw_error *error) {
    stw_rng charges = stw_rng_split(&rng, 4);
    *out = (stw_drawn){0};
    stw_status status = draw_problem(corpus, rng, 1.0, fmax(most_ops, STW_CORPUS_EASY_OPS), out, error);
    if (status == STW_OK && stw_rng_below(&charges, 3) == 0) status = stw_draw_charges(charges, out->machine, error);
    if (status != STW_OK) stw_drawn_destroy(out);
    return status;
}

void stw_drawn_destroy(stw_drawn *drawn) {
    stw_graph_destroy(drawn->graph);
    stw_machine_destroy(drawn->machine);
    *drawn = (stw_drawn){0};
}
