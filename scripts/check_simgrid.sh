#!/bin/sh
# Compares our simulator with SimGrid (tests/simgrid): scripts/check_simgrid.sh [--json] [BUILD]
# BUILD is where the library is built, with the release preset; build/release by default. The last line counts what passed and
# failed (with --json on standard error).
set -eu

cd "$(dirname "$0")/.."
json=
if [ "${1-}" = --json ]; then
  json=--json
  shift
fi
if [ $# -gt 1 ]; then
  echo "usage: scripts/check_simgrid.sh [--json] [BUILD]" >&2
  exit 2
fi
library=${1:-build/release}
program=build/simgrid
log=$(mktemp)
trap 'rm -f "$log"' EXIT

quietly() {
  if "$@" > "$log" 2>&1; then return; fi
  cat "$log" >&2
  echo "failed: $*" >&2
  echo "0 passed, 1 failed"
  exit 1
}

quietly cmake --preset release -B "$library"
quietly cmake --build "$library" --target stowage_static
library=$(cd "$library" && pwd)
# Afresh, so that SimGrid is looked for anew; stops with a message if it is not installed.
quietly cmake --fresh -G Ninja -S tests/simgrid -B "$program" -DSTOWAGE_BUILD="$library"
quietly cmake --build "$program"
status=0
"$program/simgrid_oracle" $json data/graphs || status=$?
if [ "$status" -gt 1 ]; then # stopped before it could count
  echo "0 passed, 1 failed"
  exit 1
fi
exit "$status"
