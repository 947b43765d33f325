/* Private to the exporter of HLO. A plan is applied to a module in memory; what comes out is a list of items, instructions of
 * the new module, the same whether the module is text or a protobuf:
 *
 *     edit.c     the steps; which instruction is which node of the graph
 *     fused_body.c  a fused computation for each group: its members, and the bodies of fusions among them
 *     results.c  what stays in the entry, and what the fusions hand to it; tuples that nobody takes parts of any more; whole rows
 *     names.c    names and ids of all that is new; computations that nobody calls any more
 *     order.c    the entry in planned order; what it says of devices and priorities
 *     write_text.c, write_proto.c  the module as it came; print*.c: a protobuf as text */
#ifndef STW_EXPORT_HLO_EDIT_H
#define STW_EXPORT_HLO_EDIT_H

#include "export/export.h"
#include "import/hlo/hlo.h"
#include "import/wire/pbwire.h"
#include "plan/membership.h"

enum { /* scopes in the module's table of names; the readers have those from -1 on */
       STW_HLO_OLD_NAMES = -2,
       STW_HLO_NEW_NAMES = -3,
       STW_HLO_ALIAS_SCOPE = -4
};

typedef enum stw_hlo_item_kind {
    STW_ITEM_COPY,      /* of its source, with other operands perhaps */
    STW_ITEM_PARAMETER, /* of a fused computation; its source is what the fusion reads */
    STW_ITEM_FUSION,    /* its source is its (first) output */
    STW_ITEM_PART,      /* get-tuple-element; its source has the same value in the old module */
    STW_ITEM_TUPLE      /* the root of a fused computation with several outputs */
} stw_hlo_item_kind;

typedef struct stw_hlo_item {
    uint8_t kind;  /* stw_hlo_item_kind */
    int32_t group; /* of a fusion and its parts: the fused computation; else -1 */
    int32_t source;
    int32_t number; /* of a parameter or part */
    stw_str name;
    int64_t id;            /* in a protobuf */
    stw_hlo_range operand; /* items, in module->number */
    stw_hlo_range control;
} stw_hlo_item;

typedef struct stw_hlo_output {
    int32_t value; /* instruction of the entry */
    int32_t item;  /* of the fused computation */
} stw_hlo_output;

typedef struct stw_hlo_result { /* a member's, in its fused computation */
    int32_t item;
    bool is_pack; /* of a fusion with several results: their items */
    stw_hlo_range pack;
} stw_hlo_result;

typedef struct stw_hlo_fused { /* a fused computation and its place in the entry */
    int32_t task;
    stw_str name;
    int64_t id;
    int32_t first, count;           /* items: parameters and members, operands first */
    int32_t tail_first, tail_count; /* items that make the root, if it is none of these */
    int32_t root;                   /* item */
    stw_hlo_range parameter;        /* items */
    stw_hlo_range outside;          /* what the fusion reads: instructions of the entry, by parameter number */
    int32_t output_first, output_count;
    bool is_input;  /* kind kInput */
    stw_str config; /* backend_config, of kind kCustom; empty: none */
    int32_t item;   /* the fusion in the entry */
} stw_hlo_fused;

typedef struct stw_hlo_mark { /* what the plan says of an item of the entry */
    stw_hlo_note note;        /* empty: nothing is written (one device, or neither a task nor a parameter) */
    int32_t device;           /* index; -1: none, or a parameter's */
} stw_hlo_mark;

typedef struct stw_hlo_edit {
    stw_export *e;
    stw_arena *arena;
    stw_hlo_module *m; /* its lists of numbers grow */
    const stw_hlo_computation *entry;
    stw_str bytes; /* the file */
    bool is_text;
    stw_membership tasks;
    int32_t *op_node;       /* (entry->count) the op, or -1 */
    int32_t *op_at;         /* (N) the instruction of an op, else -1 */
    int32_t *behind;        /* (entry->count) what an instruction stands for when one looks through tuples and barriers */
    bool unpacks_all;       /* nobody takes parts of tuples of the entry */
    int32_t *stands_for;    /* (entry->count) what its readers in the new entry read in its place: itself, in most cases */
    int32_t *view_root;     /* (entry->count) what stands behind views; a tuple of several values stands for itself */
    stw_hlo_note *home;     /* (entry->count) of a parameter, else empty; a tuple's arrays may differ: "gpu0,gpu1" */
    int32_t *fused_of;      /* (T) the fused computation of a task, or -1: an op alone */
    stw_hlo_result *result; /* (entry->count) of members that are written */
    bool *live;             /* (entry->count) somebody in the new entry reads it, or it stands there for its own sake */
    int32_t *item_of;       /* (entry->count) the item with its value in the new entry, or -1 */
    bool *dropped;          /* (computation_count) */
    int32_t item_count, fused_count, output_count;
    int64_t item_room, output_room;
    stw_hlo_item *item;
    stw_hlo_fused *fused;   /* (fused_count) */
    stw_hlo_output *output; /* (output_count) */
    int32_t entry_count;
    int32_t *sequence;  /* (entry_count) items of the entry, in order */
    int32_t root;       /* item of the entry */
    stw_hlo_mark *mark; /* (item_count) */
    stw_error *error;
} stw_hlo_edit;

stw_status stw_hlo_fuse(stw_hlo_edit *edit);
stw_status stw_hlo_link(stw_hlo_edit *edit);
stw_status stw_hlo_find_cycle(stw_hlo_edit *edit, bool *is_cyclic);
stw_status stw_hlo_name(stw_hlo_edit *edit);
stw_status stw_hlo_order(stw_hlo_edit *edit);
stw_status stw_hlo_mark_entry(stw_hlo_edit *edit);
stw_status stw_hlo_write_text(stw_hlo_edit *edit, stw_str *out);
stw_status stw_hlo_write_proto(stw_hlo_edit *edit, stw_str *out);
/* A module in a protobuf as text. */
stw_status stw_hlo_print(stw_str bytes, stw_arena *arena, stw_str *out, stw_error *error);

/* ---- shared ---- */

stw_status stw_hlo_add_item(stw_hlo_edit *edit, const stw_hlo_item *item, int32_t *out);
/* Appends numbers to the module's list: a range of them. */
stw_status stw_hlo_add_list(stw_hlo_edit *edit, const int64_t *number, int32_t count, stw_hlo_range *out);

static inline const stw_hlo_instruction *stw_hlo_at(const stw_hlo_edit *edit, int64_t instruction) {
    return &edit->m->instruction[instruction];
}
static inline int32_t stw_hlo_local(const stw_hlo_edit *edit, int64_t instruction) {
    return (int32_t)instruction - edit->entry->first;
}
static inline int64_t stw_hlo_number(const stw_hlo_edit *edit, stw_hlo_range list, int32_t k) {
    return edit->m->number[list.first + k];
}
/* The fused computation that an instruction of the entry is written by, or -1. */
static inline int32_t stw_hlo_fused_of(const stw_hlo_edit *edit, int64_t instruction) {
    const int32_t node = edit->op_node[stw_hlo_local(edit, instruction)];
    const int32_t task = node < 0 ? -1 : edit->tasks.task_of[node];
    return task < 0 ? -1 : edit->fused_of[task];
}
/* The item that does all that an instruction did: its own, or its fusion. -1: it was no more than another name. */
static inline int32_t stw_hlo_doer_of(const stw_hlo_edit *edit, int64_t instruction) {
    const int32_t group = stw_hlo_fused_of(edit, instruction);
    return group >= 0 ? edit->fused[group].item : edit->item_of[stw_hlo_local(edit, instruction)];
}
/* The k-th operand of an instruction of the entry, as the new entry has it. */
static inline int32_t stw_hlo_new_operand(const stw_hlo_edit *edit, const stw_hlo_instruction *i, int32_t k) {
    return edit->stands_for[stw_hlo_local(edit, stw_hlo_number(edit, i->operand, k))];
}
static inline bool stw_hlo_is_recomputed(const stw_hlo_edit *edit, int64_t instruction) {
    const int32_t node = edit->op_node[stw_hlo_local(edit, instruction)];
    return node >= 0 && edit->tasks.task_of[node] < 0;
}
/* Neither an op nor a source: what only renames, takes apart or packs. */
static inline bool stw_hlo_is_view(const stw_hlo_edit *edit, int64_t instruction) {
    const uint8_t rule = stw_hlo_at(edit, instruction)->rule;
    return edit->op_node[stw_hlo_local(edit, instruction)] < 0 && rule != STW_HLO_PARAMETER && rule != STW_HLO_CONSTANT;
}

static inline stw_str stw_hlo_kind_of(const stw_hlo_fused *fused) {
    return fused->config.length > 0 ? STW_STR("kCustom") : fused->is_input ? STW_STR("kInput") : STW_STR("kLoop");
}
/* "kLoop"; empty: none is said. */
stw_str stw_hlo_fusion_kind(const stw_hlo_edit *edit, const stw_hlo_instruction *i);
/* The bytes of a field of an instruction in a protobuf, tag and all; the last one counts. Empty: not there. */
stw_str stw_hlo_field(stw_str message, int64_t number);
stw_str stw_hlo_content(stw_str message, int64_t number); /* of a field that holds bytes */
int64_t stw_hlo_int_of(stw_str message, int64_t field);   /* of one that holds a number; 0 if it is not there */
/* The module in a file that was read as a protobuf: the file itself, or a field of it. */
stw_str stw_hlo_module_bytes(const stw_hlo_module *m, stw_str file);
/* The value of an attribute in text; `whole` (may be NULL) with the comma in front. Empty: not there. */
stw_str stw_hlo_attribute(stw_str attributes, const char *key, stw_str *whole);

static inline int32_t stw_hlo_root_of(const stw_hlo_edit *edit, int64_t instruction) {
    return edit->view_root[stw_hlo_local(edit, instruction)];
}

/* order.c: the homes of parameters, of the graph that was built again. */
stw_status stw_hlo_name_homes(stw_hlo_edit *edit, const stw_graph *graph, const int32_t *instruction_of);
static inline bool stw_hlo_is_marked(const stw_hlo_mark *mark) { return mark->note.value[STW_HLO_NOTE_DEVICE].length > 0; }

#endif
