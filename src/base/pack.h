/* Packed files, as they are written. */
#ifndef STW_BASE_PACK_H
#define STW_BASE_PACK_H

#include <stdio.h>

/* A file whose bytes reach `to` packed. Closing it completes them; `to` stays open. NULL: out of memory. */
FILE *stw_pack_gzip(FILE *to);
FILE *stw_pack_zstd(FILE *to);

#endif
