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

# The program's own page names those of all commands that have one.
commands=$("$binary" help --man | sed -n 's/^.*stowage\\-\([a-z][a-z-]*\)\\fR(1).*$/\1/p')
if [ -z "$commands" ]; then
  echo "$binary: 'help --man' names no pages under SEE ALSO" >&2
  exit 2
fi

status=0
for command in "" $commands; do
  page=stowage${command:+-$command}
  "$binary" help --man ${command:+"$command"} > "$new"
  if [ "$check" = no ]; then
    cat "$new" > "$folder/$page.1"
  elif [ ! -f "$folder/$page.1" ] || ! diff -u "$folder/$page.1" "$new"; then
    echo "docs/man/$page.1 is absent or out of date; run scripts/make_man.sh BINARY" >&2
    status=1
  fi
done
for file in "$folder"/*.1; do
  page=$(basename "$file" .1)
  if [ "$page" = stowage ] || printf '%s\n' "$commands" | grep -qx "${page#stowage-}"; then
    continue
  fi
  echo "docs/man/$page.1 is of no command; remove it" >&2
  [ "$check" = no ] || status=1
done
exit $status
