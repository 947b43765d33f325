/* Plans out: one writer per format. The functions are those of stowage.h. */
#ifndef STW_EXPORT_EXPORT_H
#define STW_EXPORT_EXPORT_H

#include "sim/sim.h"

#endif
