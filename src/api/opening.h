/* Opening what a session needs, with limits on how large files may be. */
#ifndef STW_API_OPENING_H
#define STW_API_OPENING_H

#include "base/file.h"

/* stw_costs_create with limits for the file (measured.c). */
stw_status stw_costs_create_within(const stw_graph *graph, const stw_machine *machine, const char *path,
                                   const stw_file_limits *limits, stw_costs **out, stw_error *error);

#endif
