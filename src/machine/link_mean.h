/* The mean of several links, for estimates that do not know yet which one it will be. */
#ifndef STW_MACHINE_LINK_MEAN_H
#define STW_MACHINE_LINK_MEAN_H

#include "machine/machine.h"

enum { STW_LINK_MEAN_SIZES = 48 };

typedef struct stw_link_mean {         /* zeroed: of no links, over which everything takes 0 */
    double fixed_us;                   /* latency and charges of a transfer */
    double us_per_byte;                /* without tables of rates */
    int32_t count;                     /* links that were added */
    bool tabled;                       /* a link among them has a table: */
    double us_at[STW_LINK_MEAN_SIZES]; /* what 1, 2, 4, 8, ... bytes take; linear between them */
} stw_link_mean;

/* A sum of links; whoever made it divides it by their number, or multiplies it by a share of that. */
void stw_link_mean_add(stw_link_mean *mean, const stw_link *link);
/* All links between different devices. */
void stw_link_mean_add_all(stw_link_mean *mean, const stw_machine *machine);
void stw_link_mean_divide(stw_link_mean *mean, double by);
void stw_link_mean_multiply(stw_link_mean *mean, double by);
/* The mean of all links of a machine. */
stw_link_mean stw_machine_mean_link(const stw_machine *machine);

double stw_link_mean_tabled_us(const stw_link_mean *mean, double bytes);
/* What the bytes alone take. */
static inline double stw_link_mean_bytes_us(const stw_link_mean *mean, double bytes) {
    return mean->tabled ? stw_link_mean_tabled_us(mean, bytes) : bytes * mean->us_per_byte;
}
/* What a transfer takes, charges included. */
static inline double stw_link_mean_us(const stw_link_mean *mean, double bytes) {
    return mean->fixed_us + stw_link_mean_bytes_us(mean, bytes);
}

#endif
