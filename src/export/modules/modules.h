/* Modules out of the labels of parameters: "encoder.0.attention.weight" lies in encoder, encoder.0 and encoder.0.attention.
 *
 * A unit is what cannot be divided: a plain layer, which has parameters and no modules inside; a module that has parameters of
 * its own beside plain layers, since it may read these without calling them, as attention does with its output projection; or a
 * single parameter that lies beside larger modules.
 *
 * A block is a module called by a number ("layers.3", "encoder_layer_3") that has a sibling of this kind: inside, values may go
 * around modules, as residual connections do. Where blocks are to stay whole, the outermost ones are units. */
#ifndef STW_EXPORT_MODULES_MODULES_H
#define STW_EXPORT_MODULES_MODULES_H

#include "export/device_numbers.h"

typedef struct stw_modules {
    int32_t count;        /* modules and parameters: a tree, parents first, else as they first appear; 0 is the root, "" */
    stw_str *name;        /* (count) whole paths */
    int32_t *parent;      /* (count) -1 for the root */
    bool *has_children;   /* (count) it is a module */
    bool *has_deep;       /* (count) one of its children has modules inside */
    bool *has_modules;    /* (count) one of its children is a module */
    bool *has_parameters; /* (count) one of its children is a parameter */
    bool *is_block;       /* (count) */
    int32_t *numbered;    /* (count) how many of its children are modules called by a number */
    int32_t unit_count;
    int32_t *unit_of;             /* (count) the unit that a node of the tree is, else -1 */
    int32_t *unit_node;           /* (unit_count) the node of the tree */
    int64_t *weight;              /* (unit_count, D) bytes that the plan has there, and one more for each parameter */
    int32_t *first_use;           /* (unit_count) the smallest op that reads it; graph->N: nobody does */
    int32_t *parameter_unit;      /* (N) of parameters and buffers that have a label, else -1 */
    int32_t labelled, unlabelled; /* parameters and buffers with and without a label that is a path */
    int32_t outside;              /* those with a label that are not in the module of e->strip */
    stw_device_number place[STW_MAX_DEVICES];
    int32_t hosts;
} stw_modules;

/* Fails where no parameter has a label, or labels are no paths of modules, or none is in the module of e->strip. */
stw_status stw_modules_of(const stw_export *e, bool whole_blocks, stw_modules *out, stw_error *error);
/* The set of devices that hold a parameter or run an op. */
uint64_t stw_modules_devices(const stw_export *e);
/* Lines on names that are left out or look wrapped; in the arena, empty if there is no memory. */
stw_str stw_modules_remarks(const stw_export *e, const stw_modules *m);

enum { STW_MODULES_MIXED = -2 };
/* value (unit_count) -> out (count): the value that all units within a node have, else STW_MODULES_MIXED. */
void stw_modules_agree(const stw_modules *m, const int32_t *value, int32_t *out);
/* The fewest nodes that tell the values are those that agree and whose parents do not. */
static inline bool stw_modules_tells(const stw_modules *m, const int32_t *agreed, int32_t node) {
    return agreed[node] >= 0 && (node == 0 || agreed[m->parent[node]] == STW_MODULES_MIXED);
}

/* "cpu", or the number of a device among those that are none. */
void stw_modules_put_device(stw_json_writer *w, const stw_modules *m, int32_t device);

#endif
