/* Items: forward ops in some order, in pieces, each with its gradients and updates. And three ways to deal them out. */
#ifndef STW_METHOD_EXPERT_STAGES_H
#define STW_METHOD_EXPERT_STAGES_H

#include "method/device_set.h"
#include "method/expert/model_layers.h"

typedef enum stw_item_order {
    STW_ITEMS_TRACE,       /* as the graph lists them */
    STW_ITEMS_LEVEL,       /* by depth; ops of one depth stay together */
    STW_ITEMS_LAYER,       /* by named layer, which stays together */
    STW_ITEMS_LAYER_TRACE, /* by named layer, then as listed; cut anywhere */
    STW_ITEMS_NUMBER       /* by the number in the layer's name: layer 3 of encoder and decoder together */
} stw_item_order;

enum { STW_MAX_ITEMS = 256 };

typedef struct stw_items { /* L items */
    int32_t count;
    int32_t *of;      /* (N) of ops, parameters and buffers; 0 for the rest */
    double **us;      /* (C)(L) microseconds by cost class */
    double *cross_us; /* (L + 1) transfers that a cut in front of an item makes; 0 at both ends */
} stw_items;

/* Fails with STW_ERROR_NO_PLAN when the order needs names and the graph has none. */
stw_status stw_items_build(const stw_layers *layers, const stw_costs *costs, const stw_device_set *set, stw_item_order order,
                           stw_arena *arena, stw_items *out, stw_error *error);

/* Contiguous stages, `rounds` per device of the set in its order, round after round (some may stay empty), so that the longest is
 * as short as possible and, that given, the others are as equal as possible. A stage takes its items' time and `aversion` times
 * the transfers at both of its ends. Fills device: (L). */
stw_status stw_items_cut(const stw_items *items, const stw_machine *machine, const stw_device_set *set, int32_t rounds,
                         double aversion, int32_t *device, stw_arena scratch, stw_error *error);
/* Item by item in turn. */
void stw_items_deal(const stw_items *items, const stw_device_set *set, int32_t *device);
/* From long to short, each to the device that then ends first. */
stw_status stw_items_pack(const stw_items *items, const stw_machine *machine, const stw_device_set *set, int32_t *device,
                          stw_arena scratch, stw_error *error);

#endif
