#!/usr/bin/env bash
# Formats all C files, or with --check only tells which are not formatted.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.c' '*.h' '*.cpp')
if [[ ${1:-} == --check ]]; then
    clang-format --dry-run --Werror "${files[@]}" && echo "${#files[@]} files: formatted"
else
    clang-format -i "${files[@]}"
fi
