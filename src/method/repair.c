#include "method/search.h"

stw_status stw_search_repair(stw_search *search, stw_plan *plan, stw_score *score, int32_t worker, stw_error *error) {
    (void)search, (void)plan, (void)score, (void)worker, (void)error;
    return STW_OK;
}
