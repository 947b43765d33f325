/* What a proposal to move units means to each of them. */
#include <string.h>

#include "feature/columns.h"
#include "feature/feature.h"

int32_t stw_features_proposal_columns(void) { return 1 + 2 * STW_PAIR_COLUMNS; }

void stw_features_proposal(const stw_features *f, const double *pair, const int32_t *now, const int32_t *then, double *proposal) {
    const int64_t columns = stw_features_proposal_columns();
    memset(proposal, 0, (size_t)(f->M * columns) * sizeof *proposal);
    for (int64_t u = 0; u < f->M; u++) {
        const int32_t member = f->units->member[f->units->start[u]], from = now[member], to = then[member];
        const double *of_unit = pair + u * f->D * STW_PAIR_COLUMNS;
        double *row = proposal + u * columns;
        if (from == to) continue;
        row[0] = 1.0;
        memcpy(row + 1, of_unit + (int64_t)to * STW_PAIR_COLUMNS, STW_PAIR_COLUMNS * sizeof *row);
        memcpy(row + 1 + STW_PAIR_COLUMNS, of_unit + (int64_t)from * STW_PAIR_COLUMNS, STW_PAIR_COLUMNS * sizeof *row);
    }
}
