#!/usr/bin/env bash
# Makes build/venv with the Python packages that tests compare with: the onnx checker, ONNX Runtime, JAX on the CPU. Nothing else
# needs them: where they cannot be had, this says so, and those tests are skipped. Silent when all is there.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
packages=(onnx onnxruntime "jax[cpu]")
venv=build/venv
wanted="${packages[*]} $(python3 --version 2>&1)"
[[ -f $venv/complete && $(<"$venv/complete") == "$wanted" ]] && exit 0
give_up() {
    echo "venv: $1; tests that compare with ${packages[*]} are skipped" >&2
    rm -rf "$venv"
    exit 0
}
rm -rf "$venv"
mkdir -p build
echo "venv: installing ${packages[*]}" >&2
log=$(python3 -m venv "$venv" 2>&1) || give_up "python3 -m venv failed: ${log##*$'\n'}"
log=$(timeout 400 "$venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}" 2>&1) || give_up "pip failed: ${log##*$'\n'}"
echo "$wanted" >"$venv/complete"
