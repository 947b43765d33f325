/* What `anneal` proposes moves by, and who is told of what it tries. */
#ifndef STW_METHOD_ANNEAL_PROPOSALS_H
#define STW_METHOD_ANNEAL_PROPOSALS_H

#include "method/anneal/scorer.h"
#include "search/search.h"

/* Called by the thread that runs the chain: features of a move that it tried, and what the plan gained as a share, 0 where
 * nothing. */
typedef void stw_move_tried(void *context, int32_t chain, const float *feature, double gain, bool proposed);

struct stw_proposals {
    const stw_scorer *scorer; /* NULL: moves are drawn blindly */
    double rate;              /* above 0: it learns on from the trials of the search (learn.h) */
    bool shuffled;            /* each candidate has the features of another: a control */
    stw_move_tried *tried;    /* or NULL */
    void *context;
};

/* Those of the search; else by its policy settings: a file, or what comes with the library. Lives in the arena. */
stw_status stw_proposals_open(const stw_search *search, stw_arena *arena, stw_proposals *out, stw_error *error);
/* Reads and checks a file that was asked for, before anything is searched; nothing is kept of it. */
stw_status stw_proposals_check(const stw_policy_settings *wish, stw_error *error);

#endif
