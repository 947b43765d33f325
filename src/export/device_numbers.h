/* How frameworks number devices, and where nodes are that the plan does not place itself. */
#ifndef STW_EXPORT_DEVICE_NUMBERS_H
#define STW_EXPORT_DEVICE_NUMBERS_H

#include "export/export.h"

typedef struct stw_device_number {
    const char *type; /* "CPU", "GPU" or "TPU" */
    int32_t host;     /* numbered from 0 */
    int32_t local;    /* counted within its type on its host */
    int32_t index;    /* counted within all that are no CPU, over all hosts; -1 for a CPU */
} stw_device_number;

/* Hosts are known where buses say so: one called nicA-B leads from host A to host B (docs/formats/graphdef.md). Returns how many
 * hosts there are. */
int32_t stw_device_numbers_of(const stw_machine *machine, stw_device_number place[STW_MAX_DEVICES]);

/* The device where a node is or, for what is everywhere, where it is read first; (N), -1: nobody reads it. */
stw_status stw_homes_of(const stw_export *e, int32_t **out, stw_error *error);

#endif
