#!/usr/bin/env bash
# Makes data/kernels/h200.stw, the learned model of kernels, anew: some 10 s of one core.
#
#     make_kernel_model.sh [BUILD]
#
# BUILD is where stowage is built, build/release by default; build again afterwards, since the file is a part of the library. python3 (or
# $PYTHON) must have numpy and lightgbm; another version of lightgbm may choose other trees.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
file=data/kernels/h200.stw
[[ -x $build/bench/kernel_rows ]] || { echo "make_kernel_model: there is no $build/bench/kernel_rows; run make first, or name the build folder" >&2; exit 1; }
new=$(mktemp data/kernels/new.XXXXXX)
trap 'rm -f "$new"' EXIT
"${PYTHON:-python3}" bench/kernel_model.py make --store docs/results/xla_kernels.tar.xz --rows "$build/bench/kernel_rows" -o "$new"
chmod 644 "$new"
mv "$new" "$file"
echo "$file: made; build again to have it in the library"
