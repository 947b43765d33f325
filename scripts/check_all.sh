#!/usr/bin/env bash
# The long checks, after `make check`: all tests in both builds, the binary interface, faults put into the simulator, threads under
# TSan, another MPI, an independent engine, a real trace viewer, many more random cases, every reader fuzzed. Prints what each says,
# then the total; exits 1 if one failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
export XDG_CONFIG_HOME=/dev/null # without defaults of whoever runs this
passed=0 failed=0

step() { # name, command...
    echo "== $1"
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $*"
    fi
}

tsan() {
    cmake --preset tsan >/dev/null && cmake --build --preset tsan -j "$(nproc)" && ctest --test-dir build/tsan --output-on-failure -L unit -j "$(nproc)"
}
mpich() {
    cmake --preset mpich >/dev/null && cmake --build --preset mpich -j "$(nproc)" --target stowage comm_ranks &&
        STOWAGE_LONG=1 ctest --test-dir build/mpich --output-on-failure -R '^dist/mpi$'
}
long_random() {
    local seed
    for seed in 2 3 4 5; do
        python3 tests/reference/test_against_reference.py --replay build/sanitize/tests/replay --cases 5000 --seed "$seed" || return 1
    done
}
trace_viewer() {
    local trace machine status=0
    trace=$(mktemp --suffix=.json)
    for machine in 0.1/h200x4 h200x4; do
        build/release/stowage simulate data/graphs/rnnlm-2.json.gz --machine "$machine" --plan spread --trace "$trace" >/dev/null &&
            python3 tests/export/trace_in_chromium.py "$trace" || status=1
    done
    rm -f "$trace"
    return $status
}

step "the program and other people's packages under sanitizers" ctest --test-dir build/sanitize --output-on-failure -j "$(nproc)" -L "cli|oracle" -LE twice
step "units and readers in the release build" ctest --test-dir build/release --output-on-failure -j "$(nproc)" -L "unit|reference|fuzz" -LE twice -E failing_example
step "the binary interface is the recorded one" scripts/check_abi.sh
step "faults put into the simulator are noticed" python3 scripts/mutate_sim.py
step "threads: unit tests under TSan" tsan
step "several processes by Open MPI, at length" env STOWAGE_LONG=1 ctest --test-dir build/release --output-on-failure -R '^dist/mpi$'
step "several processes by MPICH" mpich
step "devices measured, and plans run in several processes, at length" env STOWAGE_LONG=1 ctest --test-dir build/release --output-on-failure -R '^(cli/calibrate|python/torch_ranks)$'
step "a newcomer on clean systems: Dockerfile, Debian package, make install, wheel; README and tutorial" scripts/check_newcomer.py
step "64-bit Arm: unit tests under qemu, and the same plans" scripts/check_aarch64.sh
step "SimGrid agrees within 3 % and is at least 50 times slower" scripts/check_simgrid.sh
step "the trace opens in Chromium" trace_viewer
step "a report works in Chromium" python3 tests/report/report_in_chromium.py
step "20,000 more random cases against the second simulator" long_random
step "every plan of large HLO modules, in XLA" env STOWAGE_BIN=build/release/stowage STOWAGE_LONG=1 STOWAGE_SEEDS=40 build/venv/bin/python3 tests/export/test_hlo_plans.py
step "every reader fuzzed for 60 s" scripts/fuzz.sh 60
echo
echo "$passed passed, $failed failed"
exit $((failed > 0))
