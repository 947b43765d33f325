/* What stw_cancel is inside: for whoever hands the flag on to a search. */
#ifndef STW_BASE_CANCEL_H
#define STW_BASE_CANCEL_H

#include <stdatomic.h>

struct stw_cancel {
    atomic_bool requested;
};

#endif
