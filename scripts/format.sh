#!/usr/bin/env bash
# Formats all C files, or with --check only tells which are not formatted.
#
# Versions of clang-format differ in small ways; this project is formatted by version 14.
set -euo pipefail
cd "$(dirname "$0")/.."
tool=clang-format-14
command -v "$tool" >/dev/null || tool=clang-format
[[ $("$tool" --version) == *"version 14."* ]] || { echo "format: clang-format 14 is needed (package clang-format-14)" >&2; exit 1; }
mapfile -t files < <(find include src cli tests fuzz bench examples -name '*.[ch]' -o -name '*.cpp' | sort)
((${#files[@]})) || { echo "format: no files found" >&2; exit 1; }
if [[ ${1:-} == --check ]]; then
    "$tool" --dry-run --Werror "${files[@]}" && echo "${#files[@]} files: formatted"
else
    "$tool" -i "${files[@]}"
fi
