#!/usr/bin/env bash
# Cross-compiles for 64-bit Arm, runs unit tests there under qemu, and compares plans of both: they must be the same, bit for bit. The
# libraries come from Debian's archive, into build/aarch64-root. Where a tool is missing, or the archive, it says so and skips.
set -euo pipefail
cd "$(dirname "$0")/.."
export XDG_CONFIG_HOME=/dev/null # without defaults of whoever runs this
skip() { echo "aarch64: skipped: $1"; exit 0; }
for tool in aarch64-linux-gnu-gcc aarch64-linux-gnu-g++ qemu-aarch64 mmdebstrap; do
    command -v "$tool" >/dev/null || skip "$tool is not installed (Debian: gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user mmdebstrap)"
done
[[ -x build/release/stowage ]] || skip "build/release/stowage, whose plans are compared, is not there (make)"
root=build/aarch64-root
if [[ ! -e $root/usr/include/zstd.h ]]; then
    rm -rf "$root"
    mmdebstrap --quiet --architectures=arm64 --variant=extract \
        --include=libc6-dev,libstdc++-12-dev,zlib1g-dev,libzstd-dev,libmetis-dev bookworm "$root" ||
        { rm -rf "$root"; skip "Debian's archive cannot be reached"; }
fi
if [[ $PWD == *[[:space:]]* ]]; then
    link=$(mktemp -d)
    trap 'rm -rf "$link"' EXIT
    ln -s "$PWD/$root" "$link/root"
    export STOWAGE_ARM_ROOT=$link/root
fi
cmake --preset aarch64 >/dev/null
cmake --build --preset aarch64 -j "$(nproc)"
# Not here: what takes minutes under emulation, and what is about memory, files or threads as a real system has them.
ctest --test-dir build/aarch64 --output-on-failure -L unit \
    -R '^(base|graph|cost|machine|plan|sim|import|export|explain|feature|nn|backend|policy|generate)/' \
    -E '^(base/(arena|file|json|runner|failing_example)|sim/(invariants|levels|memory_bound|bounds|moves|threads|fused|allocation)|export/hlo_(price|odd)|generate/families|policy/(network|fusion|spread)|backend/(agreement|gradients)|feature/.*|import/(opgraph|onnx|graphdef|hlo_text|hlo_proto)|plan/(merge|fuse)|graph/units|nn/lstm)$'
arm() { qemu-aarch64 -R 15G -L "$root" build/aarch64/stowage "$@"; }
for method in heft expert metis; do
    for machine in h200x4 cpu+h200x2; do
        question=(simulate data/graphs/rnnlm-2.json.gz -m "$machine" -p "$method" --tasks all --evaluations 8 --format json)
        cmp <(arm "${question[@]}") <(build/release/stowage "${question[@]}") || { echo "aarch64: $method on $machine gives another plan"; exit 1; }
    done
done
echo "aarch64: six plans are the same, bit for bit"
