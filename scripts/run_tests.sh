#!/usr/bin/env bash
# Runs the tests: all of ctest in the sanitizer build, units and command line in the release build, and the faults put into the
# simulator one at a time. The last line is the total over all of them.
#
#     run_tests.sh SANITIZE_BUILD RELEASE_BUILD
set -uo pipefail
cd "$(dirname "$0")/.." || exit
sanitize=$1 release=$2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0

step() { # name, command...
    echo "== $1"
    shift
    "$@" 2>&1 | tee -a "$log"
    [[ ${PIPESTATUS[0]} -eq 0 ]] || failed=1
}

step "tests under the address and undefined-behaviour sanitizers" ctest --test-dir "$sanitize" --output-on-failure -j "$(nproc)" --verbose -E failing_example
step "a failing check fails" ctest --test-dir "$sanitize" -R failing_example # its own closing line must not count
step "the same tests in the release build, where allocations are counted" ctest --test-dir "$release" --output-on-failure -j "$(nproc)" --verbose -L "unit|cli|oracle" -E failing_example
step "faults put into the simulator" python3 scripts/mutate_sim.py

# Every test program closes with "N passed, M failed".
awk '/[0-9]+ passed, [0-9]+ failed/ {
        match($0, /[0-9]+ passed/); p += substr($0, RSTART, RLENGTH); match($0, /[0-9]+ failed/); f += substr($0, RSTART, RLENGTH)
        if (match($0, /[0-9]+ skipped/)) s += substr($0, RSTART, RLENGTH)
     } END { printf "\n%d passed, %d failed, %d skipped\n", p, f, s }' "$log"
exit $failed
