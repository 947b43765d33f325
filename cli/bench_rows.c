/* The rows of GO's table 2 with its figures, and what is run on each. */
#include <math.h>

#include "bench.h"

#define OOM NAN
/* GO, table 2: GO-one, human expert, METIS, HDP in seconds per step; search speed-up over HDP. Its WaveNets are larger. */
const bench_row bench_rows[BENCH_ROW_COUNT] = {
    {"rnnlm-2", 2, 60.0, true, {"RNNLM-2", 0.173, 0.192, 0.355, 0.191, 2.95}},
    {"rnnlm-4", 4, 60.0, false, {"RNNLM-4", 0.210, 0.239, 0.503, 0.251, 1.76}},
    {"rnnlm-8", 8, 300.0, false, {"RNNLM-8", 0.320, 0.332, OOM, 0.764, 27.8}},
    {"gnmt-2", 2, 60.0, false, {"GNMT-2", 0.301, 0.384, 0.344, 0.327, 30.0}},
    {"gnmt-4", 4, 60.0, true, {"GNMT-4", 0.350, 0.469, 0.466, 0.432, 58.8}},
    {"gnmt-8", 8, 300.0, false, {"GNMT-8", 0.440, 0.562, OOM, 0.693, 7.35}},
    {"transformer-xl-2", 2, 60.0, false, {"Transformer-XL-2", 0.223, 0.268, 0.37, 0.262, 40.0}},
    {"transformer-xl-4", 4, 60.0, false, {"Transformer-XL-4", 0.230, 0.27, OOM, 0.259, 26.7}},
    {"transformer-xl-8", 8, 300.0, false, {"Transformer-XL-8", 0.350, 0.46, OOM, 0.425, 16.7}},
    {"inception-v3-b32", 2, 60.0, true, {"Inception b32", 0.229, 0.312, OOM, 0.301, 13.5}},
    {"inception-v3-b64", 2, 60.0, false, {"Inception b64", 0.423, 0.731, OOM, 0.498, 21.0}},
    {"amoebanet", 4, 60.0, false, {"AmoebaNet", 0.394, 0.44, 0.426, 0.418, 58.8}},
    {"wavenet-2x9", 2, 60.0, false, {"WaveNet 2x18", 0.317, 0.376, OOM, 0.354, 6.67}},
    {"wavenet-4x9", 4, 60.0, false, {"WaveNet 4x36", 0.659, 0.988, OOM, 0.721, 20.0}},
};

static const struct {
    const char *name, *methods, *start_plans;
    bool is_search;
    const char *units;
} whats[BENCH_WHAT_COUNT] = {
    [BENCH_RANDOM] = {"random", "random", NULL, false, NULL},
    [BENCH_EXPERT] = {"expert", "expert", NULL, false, NULL},
    [BENCH_METIS] = {"metis", "metis", NULL, false, NULL},
    [BENCH_CONSTRUCTIVE] = {"constructive", "single,expert,metis,etf,heft,sct,topo,spread", NULL, false, NULL},
    [BENCH_STEER] = {"steer", "steer", NULL, false, NULL},
    [BENCH_HDP] = {"hdp", "hdp", NULL, true, NULL},
    [BENCH_HDP_OPS] = {"hdp-ops", "hdp", NULL, true, "off"},
    [BENCH_GO_ONE] = {"go-one", "go-one", NULL, true, NULL},
    [BENCH_GO_ONE_ALONE] = {"go-one-alone", "go-one", "no", true, NULL},
    [BENCH_ANNEAL] = {"anneal", "anneal", NULL, true, NULL},
};

const char *bench_what_name(bench_what what) { return whats[what].name; }
const char *bench_what_methods(bench_what what) { return whats[what].methods; }
const char *bench_what_start_plans(bench_what what) { return whats[what].start_plans; }
const char *bench_what_units(bench_what what) { return whats[what].units; }
bool bench_what_is_hdp(bench_what what) { return what == BENCH_HDP || what == BENCH_HDP_OPS; }
bool bench_what_is_search(bench_what what) { return whats[what].is_search; }
