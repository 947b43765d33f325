#!/bin/sh
# Writes docs/man/*.1 with the program itself: scripts/make_man.sh BINARY
# With --check, writes nothing and fails if a page differs: scripts/make_man.sh --check BINARY
set -eu

check=no
if [ "${1-}" = --check ]; then
  check=yes
  shift
fi
if [ $# -ne 1 ]; then
  echo "usage: scripts/make_man.sh [--check] BINARY" >&2
  exit 2
fi
binary=$1
folder=$(cd "$(dirname "$0")/../docs/man" && pwd)
new=$(mktemp)
trap 'rm -f "$new"' EXIT

status=0
for page in stowage stowage-optimize stowage-compare stowage-train stowage-bench stowage-simulate stowage-inspect stowage-machine; do
  command=${page#stowage}
  command=${command#-}
  "$binary" help --man ${command:+"$command"} > "$new"
  if [ "$check" = no ]; then
    cat "$new" > "$folder/$page.1"
  elif ! diff -u "$folder/$page.1" "$new"; then
    echo "docs/man/$page.1 is out of date; run scripts/make_man.sh BINARY" >&2
    status=1
  fi
done
exit $status
