#!/usr/bin/env bash
# Makes build/venv with the Python packages that tests compare with, at the versions and hashes of tests/requirements.lock: PyTorch and
# JAX on the CPU, the onnx checker, ONNX Runtime. Nothing else needs them: where they cannot be had, this says so, and those tests are
# skipped. 0.74 GB to download, 2.1 GB on disk. Silent when all is there. NO_INSTALL=1: nothing is installed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
venv=build/venv lock=tests/requirements.lock
wanted="$(sha256sum <"$lock") $(python3 --version 2>&1)"
[[ -f $venv/complete && $(<"$venv/complete") == "$wanted" ]] && exit 0
names="PyTorch, JAX, onnx, onnxruntime, accelerate"
give_up() {
    echo "venv: $1; tests that compare with $names are skipped" >&2
    rm -rf "$venv"
    exit 0
}
rm -rf "$venv"
[[ ${NO_INSTALL-} == 1 ]] && give_up "NO_INSTALL=1, so $lock is not installed"
mkdir -p build
echo "venv: will install $names and what they need ($lock, 0.74 GB) into $venv, for tests" >&2
log=$(python3 -m venv "$venv" 2>&1) || give_up "python3 -m venv failed: ${log##*$'\n'}"
log=$("$venv/bin/python3" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r "$lock" 2>&1) ||
    give_up "pip failed: ${log##*$'\n'}"
log=$("$venv/bin/python3" scripts/cuda_stand_ins.py "$("$venv/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" 2>&1) ||
    give_up "no stand-ins for CUDA: ${log##*$'\n'}"
echo "$wanted" >"$venv/complete"
