#!/bin/sh
# What somebody does first with an installed program, in the checkout's folder for its data: newcomer.sh 'COMMAND'. Needs nothing but a
# shell and the program. Writes into a folder of its own.
set -eu
program=$1
graph=$PWD/data/graphs/gpt2.json.gz
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
fail() { echo "newcomer: $1" >&2; exit 1; }
has() { grep -q -- "$2" "$1" || fail "$1 has no '$2'"; }

$program version >version && has version "[0-9]\.[0-9]"
$program help optimize >help && has help "--grain"
$program optimize "$graph" -m h200x2 --grain module --evaluations 40 --policy none --report optimize.html -o plan.json >optimize
has optimize "lower bound"
$program simulate "$graph" -m h200x2 --plan plan.json >simulate && has simulate "valid  *yes"
$program explain "$graph" -m h200x2 --plan plan.json --what-if bandwidth=x2 --evaluations 20 --policy none >explain && has explain "critical path"
$program report "$graph" -m h200x2 --plan plan.json -o report.html >report && has report.html "<html"
for format in device-map split-points csv trace; do
    $program export "$graph" -m h200x2 --plan plan.json --to $format -o "plan.$format" >"said.$format"
    [ -s "plan.$format" ] || fail "export --to $format wrote nothing"
    has "said.$format" "simulated step"
done
$program simulate "$graph" -m h200x2 --plan plan.device-map >map && has map "valid  *yes"

# Pages and completion, where they are installed for everybody.
case $program in stowage) ;; *) exit 0 ;; esac
if command -v man >found 2>&1; then
    man stowage >page && has page "optimize" && man stowage-optimize >page && has page "grain"
fi
if [ -e /usr/share/bash-completion/bash_completion ]; then
    bash -c '. /usr/share/bash-completion/bash_completion && _completion_loader stowage; complete -p stowage' >completion
    has completion stowage
    bash -c '. /usr/share/bash-completion/bash_completion && _completion_loader stowage
        COMP_WORDS=(stowage opt) COMP_CWORD=1 COMP_LINE="stowage opt" COMP_POINT=11
        "$(complete -p stowage | sed "s/.*-F \([^ ]*\).*/\1/")" stowage opt stowage; echo "${COMPREPLY[@]}"' >completion
    has completion optimize
fi
