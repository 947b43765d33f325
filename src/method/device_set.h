/* Which devices to divide a graph among, and what a transfer between two of them costs on average. */
#ifndef STW_METHOD_DEVICE_SET_H
#define STW_METHOD_DEVICE_SET_H

#include "cost/cost.h"
#include "machine/link_mean.h"

typedef struct stw_device_set {
    int32_t count;                   /* at least 1 */
    int32_t device[STW_MAX_DEVICES]; /* ascending */
    double speed[STW_MAX_DEVICES];   /* share of the whole graph's work per microsecond; by place in the set */
    stw_link_mean link;              /* the mean over the links within the set */
} stw_device_set;

enum { STW_MAX_DEVICE_SETS = 3 };

/* The sets worth trying, all different, most promising first: the fast devices (at least a quarter of the fastest), all devices,
 * and as many as can all talk to each other. Returns their number, at least 1. */
int32_t stw_device_sets(const stw_costs *costs, stw_device_set out[STW_MAX_DEVICE_SETS]);
/* The first `count` devices of a set. */
stw_device_set stw_device_set_first(const stw_costs *costs, const stw_device_set *set, int32_t count);

#endif
