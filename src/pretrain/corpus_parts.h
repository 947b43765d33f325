/* Private to the corpus. */
#ifndef STW_PRETRAIN_CORPUS_PARTS_H
#define STW_PRETRAIN_CORPUS_PARTS_H

#include "generate/generate.h"
#include "pretrain/corpus.h"

typedef struct stw_corpus_file {
    stw_str path;
    stw_str family; /* the one that it belongs to, or the file's own word */
    stw_graph *graph;
    double *us; /* (N) of each op, before augmentation */
    struct stw_corpus_file *next;
} stw_corpus_file;

struct stw_corpus {
    stw_arena arena;
    stw_file_limits limits;
    stw_machine *base; /* one device, whose times all others go by */
    int32_t family_count;
    const stw_family **family; /* (family_count) in the order of the table */
    int32_t file_count;
    stw_corpus_file **file; /* (file_count) by path */
};

/* Numbers. */
double stw_draw_between(stw_rng *rng, double low, double high);     /* uniform */
double stw_draw_log_between(stw_rng *rng, double low, double high); /* uniform in the logarithm; 0 < low */

/* files.c: reads a file, or the graphs of a folder in order of their names, in front of *list. */
stw_status stw_corpus_read(stw_corpus *corpus, stw_str path, stw_corpus_file **list, stw_error *error);
/* Does it belong to this family, by ours or by its own word? */
bool stw_corpus_file_is(const stw_corpus_file *file, stw_str family);

/* sizes.c: a graph of this family with about this many ops, never more than `most`. `shrink`: what sizes are multiplied with. */
typedef struct stw_size_wish {
    double ops, most;
    double shrink;
} stw_size_wish;
/* The family's share of draws, against others. */
double stw_family_weight(const stw_family *family);
stw_status stw_draw_generated(const stw_family *family, stw_size_wish wish, stw_rng rng, stw_graph **out, stw_error *error);

/* augment.c */
typedef struct stw_need { /* bytes */
    int64_t whole;        /* on one device, in the order of the file */
    int64_t largest;      /* of the op that needs most at once */
} stw_need;
stw_status stw_need_of(const stw_graph *graph, stw_need *out, stw_error *error);
/* Times of the ops on the machine's fastest kind of device, into the arena. */
stw_status stw_base_times(const stw_graph *graph, const stw_machine *base, stw_arena *arena, double **us, stw_error *error);
/* Gives the graph times of its own: those of `us`, times a factor for the class and one for the op. */
stw_status stw_augment_times(stw_graph *graph, const double *us, stw_rng rng, stw_error *error);
/* A graph that shares everything but its times with `from`, which must outlive it. */
stw_status stw_graph_variant(const stw_graph *from, stw_graph **out, stw_error *error);

/* machines.c. The machine's name says what it is. */
stw_status stw_draw_machine(stw_rng rng, double difficulty, stw_need need, stw_machine **out, stw_error *error);
/* Sending and receiving take time of the devices, as drawn, the same on all links. */
stw_status stw_draw_charges(stw_rng rng, stw_machine *machine, stw_error *error);

#endif
