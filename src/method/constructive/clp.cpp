// In C++: an exception must not reach C, where nothing can catch it and the process ends (docs/adr/0015).
#include "method/constructive/clp.h"

#include <Clp_C_Interface.h>

#include <cstring>
#include <new>

extern "C" stw_clp_status stw_clp_solve(const stw_linear_program *p, double *x, bool *finished) {
    Clp_Simplex *model = nullptr;
    stw_clp_status status = STW_CLP_DONE;
    try {
        model = Clp_newModel();
        Clp_setLogLevel(model, 0);
        Clp_loadProblem(model, p->columns, p->rows, p->start, p->row, p->value, p->column_low, p->column_high, p->cost,
                        p->row_low, p->row_high);
        Clp_setMaximumIterations(model, p->most_iterations);
        if (p->most_s >= 0.0) Clp_setMaximumSeconds(model, p->most_s);
        Clp_dual(model, 0);
        *finished = Clp_status(model) == 0;
        std::memcpy(x, Clp_primalColumnSolution(model), static_cast<size_t>(p->columns) * sizeof *x);
    } catch (const std::bad_alloc &) {
        status = STW_CLP_MEMORY;
    } catch (...) {
        status = STW_CLP_FAILED;
    }
    if (model != nullptr) Clp_deleteModel(model);
    return status;
}
