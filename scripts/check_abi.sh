#!/usr/bin/env bash
# Compares the binary interface of the shared library (functions, their types, the layout of structs in stowage.h) with the recorded
# one, tests/package/stowage.abi; any difference is a failure. With --renew the record is written anew, for a change on purpose.
#
#     check_abi.sh [--renew] [LIBRARY]          build/release/libstowage.so by default; it must have debug information
set -euo pipefail
cd "$(dirname "$0")/.."
renew=no
if [[ ${1-} == --renew ]]; then
    renew=yes
    shift
fi
library=${1:-build/release/libstowage.so}
record=tests/package/stowage.abi
command -v abidw >/dev/null || { echo "abi: abidw is not there (package abigail-tools)" >&2; exit 1; }
[[ -f $library ]] || { echo "abi: no library at '$library'; build it with 'make'" >&2; exit 1; }
[[ $(uname -m) == x86_64 ]] || { echo "abi: the record is that of x86-64, this is $(uname -m); nothing compared" >&2; exit 0; }
now=$(mktemp)
trap 'rm -f "$now"' EXIT
# Only what the header says; where the sources lay, and which libraries are linked, is of no interest.
abidw --headers-dir include --drop-private-types --exported-interfaces-only --no-show-locs --no-parameter-names --no-corpus-path \
    --no-comp-dir-path --no-elf-needed --type-id-style hash "$library" | sed -E "s#path='[^']*/#path='#" >"$now"
functions=$(grep -c '<function-decl .*elf-symbol-id=' "$now") || { echo "abi: '$library' has no debug information" >&2; exit 1; }
if [[ $renew == yes ]]; then
    cat "$now" >"$record"
    echo "abi: $record written, $functions functions"
    exit
fi
if ! abidiff "$record" "$now"; then
    echo "abi: $library differs from $record; if that is meant, run scripts/check_abi.sh --renew and commit the record" >&2
    exit 1
fi
echo "abi: $functions functions as recorded"
