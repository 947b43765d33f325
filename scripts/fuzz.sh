#!/usr/bin/env bash
# Fuzzes every reader for the given number of seconds each, starting from its corpus. New inputs go to build/fuzz-corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$(nproc)"
for target in fuzz/fuzz_*.c; do
    name=$(basename "$target" .c)
    name=${name#fuzz_}
    mkdir -p "build/fuzz-corpus/$name"
    echo "fuzzing $name for $seconds s"
    binary=$(find build/fuzz/fuzz -maxdepth 1 -type f -perm -u+x -name "*$name" | head -1)
    status=0
    "$binary" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 "build/fuzz-corpus/$name" "fuzz/corpus/$name" \
        >"build/fuzz-corpus/$name.log" 2>&1 || status=$?
    grep -E "number_of_executed_units|ERROR|SUMMARY|Test unit written" "build/fuzz-corpus/$name.log" || true
    ((status == 0)) || exit 1
done
