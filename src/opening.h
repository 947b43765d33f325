/* Opening a graph with options, for those who pass on what there is to tell of it. */
#ifndef STW_OPENING_H
#define STW_OPENING_H

#include "base/file.h"

/* stw_costs_create with limits for the file (measured.c). */
stw_status stw_costs_create_within(const stw_graph *graph, const stw_machine *machine, const char *path,
                                   const stw_file_limits *limits, stw_costs **out, stw_error *error);

enum { STW_OPENING_REMARK = 500 };

/* stw_graph_open_with; `remark` is for the user, or empty. */
stw_status stw_graph_open_telling(const char *path, const stw_options *options, char remark[STW_OPENING_REMARK], stw_graph **out,
                                  stw_error *error);

#endif
