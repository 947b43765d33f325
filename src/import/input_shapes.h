/* Shapes of a model's inputs: those that the user gives (--shape), and those that the file leaves open. */
#ifndef STW_IMPORT_INPUT_SHAPES_H
#define STW_IMPORT_INPUT_SHAPES_H

#include "base/file.h"

typedef struct stw_given_shape { /* "image=1,3,224,224" or "batch=8" */
    stw_str name;                /* of an input; of a dimension where it is one number and no input has the name */
    int32_t rank;
    const int64_t *dim; /* (rank) */
    bool is_input;      /* set by the reader */
    bool used;          /* likewise */
} stw_given_shape;

typedef struct stw_model_input { /* as the file states it */
    stw_str name;
    int32_t rank;            /* -1: not stated */
    const int64_t *dim;      /* (rank) -1: open */
    const stw_str *dim_name; /* (rank) of open dimensions, where they have one; else empty. NULL: none has */
    bool is_open;            /* a dimension counts as 1 because nobody says how large it is */
} stw_model_input;

typedef struct stw_named_dim { /* settled by the shape of an input that has it */
    stw_str name, by;
    int64_t size;
} stw_named_dim;

/* What a reader is told, and what it tells back. A zeroed one gives no shapes; readers take NULL for it as well. */
typedef struct stw_read_options {
    stw_file_limits limits; /* of the file */
    stw_arena *arena;       /* for all below */
    int64_t given_count, input_count, input_room, named_count, named_room;
    stw_given_shape *given;
    stw_model_input *input;
    stw_named_dim *named;
} stw_read_options;

/* Takes "NAME=1,3,224,224;NAME=..." apart; NULL or empty: nothing is given. */
stw_status stw_read_options_parse(const char *shapes, stw_arena *arena, stw_read_options *out, stw_error *error);

/* ---- for readers; `options` may be NULL ---- */

/* The shape that is given for an input, which is marked as used; NULL: none. */
const stw_given_shape *stw_given_find(stw_read_options *options, stw_str input);
/* The size that is given for a dimension of this name, or that an input settled. */
bool stw_given_size(stw_read_options *options, stw_str dimension, int64_t *out);
/* An input with a given shape: its rank must be the stated one, and its named dimensions are settled by it. */
stw_status stw_given_settle(stw_read_options *options, const stw_model_input *input, const stw_given_shape *given,
                            stw_error *error);
/* Remembers an input, of which everything is copied. `is_open` is set here. */
stw_status stw_note_input(stw_read_options *options, const stw_model_input *input, stw_error *error);
/* At the end: refuses names that nothing in the file has, with those that it has. */
stw_status stw_given_check(const stw_read_options *options, stw_error *error);

/* ---- for reports ---- */

/* The next name of an open dimension at or after input *at, dimension *d; each name comes as often as it stands. */
bool stw_next_open_name(const stw_read_options *options, int64_t *at, int32_t *d, stw_str *out);
/* "batch,3,?,?"; "?" where not even the rank is stated. Empty when memory is out. */
stw_str stw_input_text(const stw_model_input *input, stw_arena *arena);

#endif
