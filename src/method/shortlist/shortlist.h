/* `shortlist`: the first plans where plans are counted. Which variants of which methods come first, one evaluation each, was
 * learnt from what all of them came to on many graphs: the lists of shortlist.def, made by bench/shortlist.py. */
#ifndef STW_METHOD_SHORTLIST_SHORTLIST_H
#define STW_METHOD_SHORTLIST_SHORTLIST_H

#include "machine/machine.h"

/* What decides which list: microseconds that a mebibyte takes over a link, in the mean; 0 without links. */
double stw_shortlist_hop_us(const stw_machine *machine);

#endif
