#include "export/export.h"

stw_status stw_export_hlo(stw_export *e, stw_error *error) {
    (void)e;
    return stw_fail(error, STW_ERROR_INPUT, "not written yet");
}

stw_status stw_export_hlo_text(stw_export *e, stw_error *error) {
    (void)e;
    return stw_fail(error, STW_ERROR_INPUT, "not written yet");
}
