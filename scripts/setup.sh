#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that are missing: those of `make` and `make check`, with `all` also those of `make check-all`.
# Says first what it will install and why; silent when nothing is missing. NO_INSTALL=1: only names what is missing, and fails.
set -euo pipefail

packages() { # name, why
    cat <<'END'
build-essential     compiles Stowage
cmake               configures the build
ninja-build         runs the build
pkg-config          finds the libraries
zlib1g-dev          reads and writes .gz
libzstd-dev         reads and writes .zst
libmetis-dev        partitions graphs (method metis)
coinor-libclp-dev   solves linear programs (method sct)
libdnnl-dev         multiplies the matrices of the policy
libopenmpi-dev      trains in several processes
openmpi-bin         starts them
python3             runs scripts and tests
python3-venv        holds the Python packages that tests compare with
clang-format-14     checks the format of the sources
graphviz            draws exported plans in a test
END
}
packages_all() {
    cat <<'END'
libsimgrid-dev      simulates the same plans, as a second opinion
chromium            opens traces as people do
clang               fuzzes the readers
libclang-rt-14-dev  its sanitizers
clang-tidy          looks for mistakes in the sources
man-db              checks the manual pages
gcovr               counts covered lines
mpich               another MPI
libmpich-dev        another MPI, to build with
mmdebstrap          makes clean systems to install packages in
abigail-tools       compares the library's binary interface with the recorded one
zsh                 completes commands in a test
fish                likewise
END
}

table=$(packages)
[[ ${1-} == all ]] && table+=$'\n'$(packages_all)
command -v dpkg-query >/dev/null || { echo "setup: no dpkg here; install by hand what these Debian packages hold:"$'\n'"$table" >&2; exit 0; }
missing=() reasons=""
while read -r package why; do
    [[ $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) == *"ok installed"* ]] && continue
    missing+=("$package")
    reasons+=$(printf '\n    %-19s %s' "$package" "$why")
done <<<"$table"
((${#missing[@]})) || exit 0
if [[ ${NO_INSTALL-} == 1 ]]; then
    echo "setup: missing:$reasons"$'\n'"setup: NO_INSTALL=1, so nothing is installed; do it with: apt-get install ${missing[*]}" >&2
    exit 1
fi
as_root=()
if ((EUID != 0)); then
    command -v sudo >/dev/null || { echo "setup: missing:$reasons"$'\n'"setup: run as root: apt-get install ${missing[*]}" >&2; exit 1; }
    as_root=(sudo)
fi
echo "setup: will install these packages with ${as_root[*]:+sudo }apt-get (NO_INSTALL=1 to stop here):$reasons" >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
