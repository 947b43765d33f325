/* Private to the readers of TensorFlow graphs: the functions of a file, and the nodes that run them. A function is looked at as a
 * graph of its own, on what is known of the values that it is called with, in scratch memory; its kernels are kept (insides.h).
 */
#ifndef STW_IMPORT_TENSORFLOW_FUNCTION_H
#define STW_IMPORT_TENSORFLOW_FUNCTION_H

#include "import/insides.h"
#include "import/tensorflow/infer.h"

typedef struct stw_tf_outcome { /* of what a node runs */
    stw_tf_fact *out;           /* (count) */
    int64_t count;
    int32_t body; /* among the insides */
    int64_t flops, moved;
} stw_tf_outcome;

typedef struct stw_tf_last_run { /* of a function; calls with the same arguments come to the same */
    bool is_there;
    stw_tf_fact *in;
    stw_tf_outcome outcome;
} stw_tf_last_run;

struct stw_tf_library {
    stw_tf_model *model;
    stw_arena scratch; /* for the functions that the file's graph runs; theirs use what is left of it */
    stw_insides insides;
    stw_names names;       /* of the functions */
    stw_tf_last_run *last; /* (function_count) */
    int64_t budget;        /* of looking at functions, since calls of functions with calls multiply */
};

stw_status stw_tf_library_create(stw_tf_model *model, stw_arena scratch, stw_tf_library *out, stw_error *error);
const stw_tf_function *stw_tf_find_function(const stw_tf_library *library, stw_str name); /* NULL: none */
int64_t stw_tf_count_arguments(const stw_tf_model *model, const stw_tf_function *function, bool outputs);
/* Which of a node's outputs is the first that goes by a name. */
int64_t stw_tf_first_output(const stw_tf_graph *graph, const stw_tf_node *node, stw_str name);

typedef struct stw_tf_frame { /* a function that is looked at; it holds pointers to itself */
    stw_tf_model model;
    stw_tf_graph graph;
    stw_arena arena;
    stw_tf_edge *out; /* (out_count) what it returns */
    int64_t out_count;
    int32_t body;
    int64_t flops, moved;
} stw_tf_frame;

typedef enum stw_tf_role { STW_TF_CALLED, STW_TF_TURN, STW_TF_CONDITION } stw_tf_role;

/* The function's nodes, linked, for a node of the caller that gives it `in` (count); in scratch memory. */
stw_status stw_tf_open(const stw_tf_graph *caller, int32_t node, const stw_tf_function *function, const stw_tf_fact *in,
                       int64_t count, stw_arena scratch, stw_tf_frame *out, stw_error *error);
/* Its shapes, and its kernels as a body. What is found out stays until another function of the same caller is run. */
stw_status stw_tf_run(stw_tf_frame *frame, stw_tf_role role, stw_error *error);
stw_tf_fact stw_tf_returned_fact(const stw_tf_frame *frame, int64_t k);

/* A state of a loop. */
typedef struct stw_tf_state {
    bool passes; /* the body hands it on as it is */
    bool has_first, has_step;
    int64_t first, step; /* what it begins with, and what a turn adds */
} stw_tf_state;

/* Before the body is run: which states pass; after it: what it adds to the others. */
void stw_tf_find_passing(const stw_tf_frame *body, stw_tf_state *state, int64_t count);
void stw_tf_find_steps(const stw_tf_frame *body, stw_tf_state *state, int64_t count);
/* From the condition, after it is run. False: it is not known; *turns is then the best there is. */
bool stw_tf_count_turns(const stw_tf_frame *condition, const stw_tf_state *state, int64_t count, int64_t *turns);

/* A loop, a branch, a call, or an op that is a function. */
bool stw_tf_runs_functions(const stw_tf_graph *graph, int32_t node);
stw_status stw_tf_run_functions(const stw_tf_graph *graph, int32_t node, stw_tf_outcome *out, stw_error *error);
STW_PRINTF(4, 5)
stw_status stw_tf_call_fail(const stw_tf_graph *graph, int32_t node, stw_error *error, const char *format, ...);

#endif
