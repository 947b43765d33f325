/* What a pre-training draws its problems from: graphs of the families that can be generated, graphs from files, and machines.
 * docs/pretraining.md has the ranges and probabilities.
 *
 * corpus.c    what is in it; one draw
 * files.c     graphs from files and folders, and the family that each belongs to
 * sizes.c     sizes of a generated graph, and the graph
 * machines.c  machines
 * augment.c   times that differ from draw to draw; the memory that a graph needs */
#ifndef STW_PRETRAIN_CORPUS_H
#define STW_PRETRAIN_CORPUS_H

#include "base/file.h"
#include "base/rng.h"
#include "graph/graph.h"
#include "machine/machine.h"

typedef struct stw_corpus stw_corpus; /* read only once it is open */

typedef struct stw_corpus_wish {
    const char *families;   /* with commas: "all", families of `stowage generate`, graph files, folders of them */
    const char *hold_out;   /* families with commas that are never drawn, generated or from files; NULL: none */
    stw_file_limits limits; /* of the files */
} stw_corpus_wish;

/* STW_ERROR_INPUT with a line that lists what is known: for a name that nobody knows, and where nothing is left to draw. */
stw_status stw_corpus_open(const stw_corpus_wish *wish, stw_corpus **out, stw_error *error);
void stw_corpus_close(stw_corpus *corpus); /* NULL is fine */

/* What can be drawn, for reports: families first, then files. */
typedef struct stw_corpus_entry {
    const char *name;   /* of the family, or the path of the file */
    const char *family; /* that holding out goes by */
    int32_t op_count;   /* of a file; 0: generated, of any size */
} stw_corpus_entry;
int32_t stw_corpus_count(const stw_corpus *corpus);
stw_corpus_entry stw_corpus_at(const stw_corpus *corpus, int32_t index);

/* A problem. The caller owns both; a graph from a file borrows from the corpus, which must outlive it. */
typedef struct stw_drawn {
    stw_graph *graph;
    stw_machine *machine;
    char label[160]; /* family, sizes, machine, for people */
} stw_drawn;

/* Ops of a graph that is drawn. Files that are too large wait until difficulty allows for them; where nothing else is in the
 * corpus they are drawn all the same. */
enum { STW_CORPUS_LEAST_OPS = 100, STW_CORPUS_EASY_OPS = 700, STW_CORPUS_MOST_OPS = 4000, STW_CORPUS_RARE_OPS = 8000 };

/* Depends on the generator's state alone; safe in many threads at once. Difficulty: from 0, small graphs and plain machines of
 * two and four devices, to 1, everything. */
stw_status stw_corpus_draw(const stw_corpus *corpus, stw_rng rng, double difficulty, stw_drawn *out, stw_error *error);
/* The same, as hard as it gets, with at most so many ops (STW_CORPUS_EASY_OPS at least), and every
 * third machine with charges. */
stw_status stw_corpus_draw_up_to(const stw_corpus *corpus, stw_rng rng, double most_ops, stw_drawn *out, stw_error *error);
void stw_drawn_destroy(stw_drawn *drawn); /* leaves it empty */

#endif
