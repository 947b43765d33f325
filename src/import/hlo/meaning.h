/* The attributes of an HLO instruction that change what it computes, in one form whether they came from text or from a protobuf:
 * the members of a JSON object, such as "dimensions":[1,0]. Both readers write them while they read; the fingerprint of the graph
 * covers them. Left out: what decides how fast it runs or where (backend_config, sharding, replica groups), and contents of
 * constants. */
#ifndef STW_IMPORT_HLO_MEANING_H
#define STW_IMPORT_HLO_MEANING_H

#include "import/hlo/hlo.h"

typedef struct stw_hlo_meaning {
    stw_arena *arena;
    char *text;
    int64_t length, room;
    uint64_t hash; /* of the members, whatever their order */
    bool failed;   /* memory is out */
} stw_hlo_meaning;

enum { /* numbers for each dimension of a window: size, stride, padding low and high, dilation of window and base, reversal */
       STW_HLO_WINDOW_NUMBERS = 7
};

void stw_hlo_mean_number(stw_hlo_meaning *w, const char *key, int64_t number, int64_t usual); /* nothing when it is as usual */
void stw_hlo_mean_list(stw_hlo_meaning *w, const char *key, const int64_t *number, int64_t count); /* nothing when empty */
void stw_hlo_mean_text(stw_hlo_meaning *w, const char *key, stw_str text);                         /* likewise */
/* Hands the members over to the instruction. */
stw_status stw_hlo_mean_end(const stw_hlo_meaning *w, stw_hlo_instruction *i, stw_error *error);

/* The object: the members, and the hash of what the instruction calls. Empty when there are none. */
stw_status stw_hlo_attributes(const stw_hlo_module *m, const stw_hlo_instruction *i, stw_arena *arena, stw_str *out,
                              stw_error *error);
/* Hashes of the last computation and its instructions. Their order and names play no part. */
void stw_hlo_hash_computation(stw_hlo_module *m, stw_hlo_computation *c);

#endif
