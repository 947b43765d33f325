#!/usr/bin/env bash
# Runs every test once, where it says most: units and readers under sanitizers; the program as people run it, and what compares with
# other people's packages, in the release build. A few, labelled `twice`, run in both; all do in `make check-all`. The last line is the
# total.
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

step "tests under the address and undefined-behaviour sanitizers" ctest --test-dir "$sanitize" --output-on-failure -j "$(nproc)" --verbose -L "unit|reference|fuzz|twice" -E failing_example
step "a failing check fails" ctest --test-dir "$sanitize" -R failing_example # its own closing line must not count
step "the program, and other people's packages, in the release build" ctest --test-dir "$release" --output-on-failure -j "$(nproc)" --verbose -L "cli|oracle|twice" -E failing_example

# Every test program closes with "N passed, M failed".
awk '/[0-9]+ passed, [0-9]+ failed/ {
        match($0, /[0-9]+ passed/); p += substr($0, RSTART, RLENGTH); match($0, /[0-9]+ failed/); f += substr($0, RSTART, RLENGTH)
        if (match($0, /[0-9]+ skipped/)) s += substr($0, RSTART, RLENGTH)
     } END { printf "\n%d passed, %d failed, %d skipped\n", p, f, s }' "$log"
exit $failed
