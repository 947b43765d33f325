#!/usr/bin/env bash
# Makes data/policy/default.stw, the policy that comes with the library, anew: about 8 minutes on two cores.
#
#     make_policy.sh [BUILD]
#
# BUILD is where stowage is built, build/release by default; build again afterwards, since the policy is a part of the library.
set -euo pipefail
cd "$(dirname "$0")/.."
export XDG_CONFIG_HOME=/dev/null # without defaults of whoever runs this
stowage=${1:-build/release}/stowage
policy=data/policy/default.stw
[[ -x $stowage ]] || { echo "make_policy: there is no $stowage; run make first, or name the build folder" >&2; exit 1; }
new=$(mktemp data/policy/new.XXXXXX)
trap 'rm -f "$new"' EXIT
SECONDS=0
"$stowage" train --corpus all,data/graphs -o "$new" --updates 6000 --seed 1 --threads 2
chmod 644 "$new"
mv "$new" "$policy"
echo "$policy: made in $SECONDS s; build again to have it in the library"
