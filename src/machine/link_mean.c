#include "machine/link_mean.h"

#include <math.h>

void stw_link_mean_add(stw_link_mean *mean, const stw_link *link) {
    mean->fixed_us += stw_link_fixed_us(link);
    mean->us_per_byte += 1e6 / link->bandwidth;
    mean->count++;
    mean->tabled |= link->rates != NULL;
    for (int k = 0; k < STW_LINK_MEAN_SIZES; k++) mean->us_at[k] += stw_link_bytes_us(link, ldexp(1.0, k));
}

void stw_link_mean_divide(stw_link_mean *mean, double by) {
    mean->fixed_us /= by;
    mean->us_per_byte /= by;
    for (int k = 0; k < STW_LINK_MEAN_SIZES; k++) mean->us_at[k] /= by;
}

void stw_link_mean_multiply(stw_link_mean *mean, double by) {
    mean->fixed_us *= by;
    mean->us_per_byte *= by;
    for (int k = 0; k < STW_LINK_MEAN_SIZES; k++) mean->us_at[k] *= by;
}

void stw_link_mean_add_all(stw_link_mean *mean, const stw_machine *machine) {
    for (int32_t from = 0; from < machine->device_count; from++) {
        for (int32_t to = 0; to < machine->device_count; to++) {
            const stw_link *link = stw_machine_link(machine, from, to);
            if (from != to && link->bandwidth > 0.0) stw_link_mean_add(mean, link);
        }
    }
}

stw_link_mean stw_machine_mean_link(const stw_machine *machine) {
    stw_link_mean mean = {0};
    stw_link_mean_add_all(&mean, machine);
    if (mean.count > 0) stw_link_mean_divide(&mean, mean.count);
    return mean;
}

double stw_link_mean_tabled_us(const stw_link_mean *mean, double bytes) {
    if (bytes <= 1.0) return bytes * mean->us_at[0];
    const int k = ilogb(bytes);
    if (k >= STW_LINK_MEAN_SIZES - 1) return bytes * mean->us_per_byte; /* beyond all tables */
    const double below = ldexp(1.0, k);
    return mean->us_at[k] + (mean->us_at[k + 1] - mean->us_at[k]) * ((bytes - below) / below);
}
