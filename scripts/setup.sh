#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages named as arguments that are not there yet. Silent when nothing is missing.
set -euo pipefail
command -v dpkg-query >/dev/null || { echo "setup: no dpkg here; install by hand what these packages hold: $*" >&2; exit 0; }
missing=()
for package in "$@"; do
    [[ $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) == *"ok installed"* ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0
echo "setup: installing ${missing[*]}" >&2
as_root=()
if ((EUID != 0)); then
    command -v sudo >/dev/null || { echo "setup: run as root: apt-get install ${missing[*]}" >&2; exit 1; }
    as_root=(sudo)
fi
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
