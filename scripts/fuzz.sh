#!/usr/bin/env bash
# Fuzzes every target for the given number of seconds each, as many at once as there are cores, starting from its corpus. New inputs
# go to build/fuzz-corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$(nproc)"

fuzz_one() { # name, seconds
    local status=0 log="build/fuzz-corpus/$1.log"
    mkdir -p "build/fuzz-corpus/$1"
    "build/fuzz/fuzz/fuzz_$1" -max_total_time="$2" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 "build/fuzz-corpus/$1" "fuzz/corpus/$1" \
        >"$log" 2>&1 || status=$?
    echo "fuzzed $1 for $2 s: exit $status"
    grep -E "number_of_executed_units|ERROR|SUMMARY|Test unit written" "$log" || true
    return "$status"
}
export -f fuzz_one

for target in fuzz/fuzz_*.c; do
    target=${target##*/fuzz_}
    echo "${target%.c}"
done | xargs -P "$(nproc)" -I NAME bash -c 'fuzz_one "$1" "$2"' _ NAME "$seconds"
