#!/usr/bin/env bash
# Makes data/policy/proposals.stw, what `anneal` proposes moves by, anew: some 90 s of one core.
#
#     make_proposals.sh [BUILD]
#
# BUILD is where stowage is built, build/release by default; build again afterwards, since the file is a part of the library. The families
# that are held out are those of docs/results/proposals.md and learning.md.
set -euo pipefail
cd "$(dirname "$0")/.."
export XDG_CONFIG_HOME=/dev/null # without defaults of whoever runs this
stowage=${1:-build/release}/stowage
file=data/policy/proposals.stw
[[ -x $stowage ]] || { echo "make_proposals: there is no $stowage; run make first, or name the build folder" >&2; exit 1; }
new=$(mktemp data/policy/new.XXXXXX)
meshes=$(mktemp -d)
trap 'rm -rf "$new" "$meshes"' EXIT
SECONDS=0
python3 bench/task_graphs.py "$meshes" train
"$stowage" train --corpus "all,$meshes" --hold-out bert,gpt,resnet,layered --learn proposals -o "$new" --updates 6 --problems 64 --seed 1
chmod 644 "$new"
mv "$new" "$file"
echo "$file: made in $SECONDS s; build again to have it in the library"
