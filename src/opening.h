/* Opening a graph with options, for those who pass on what there is to tell of it. */
#ifndef STW_OPENING_H
#define STW_OPENING_H

#include "stowage.h"

enum { STW_OPENING_REMARK = 500 };

/* stw_graph_open_with; `remark` is for the user, or empty. */
stw_status stw_graph_open_telling(const char *path, const stw_options *options, char remark[STW_OPENING_REMARK], stw_graph **out,
                                  stw_error *error);

#endif
