#!/usr/bin/env python3
"""The bench of transfer: a policy pre-trained without a family, on that family's graphs of GO's table.

    bench/transfer.py train --policies DIR      a policy per family that is left out and seed: DIR/FAMILY-SEED.stw, .csv (its curve), .json
    bench/transfer.py run --policies DIR        makes the runs that the store lacks
    bench/transfer.py table                     prints Markdown from the store; exits 1 if a run is missing or a goal is not met
    bench/transfer.py ablate train|run|table    networks without a part, other rounds and units; all six families are left out at once
    bench/transfer.py budgets run|table         searches with and without a policy, half a second to four seconds

Every finished run is a line of the store (--store FILE), so all of it can be stopped and goes on where it was, a training by --updates in
the middle. --limit SECONDS starts nothing that could not end in time. A store made elsewhere is added with another --store; new runs go to
the first. A run with a policy is made again when the policy's file has changed; the last run counts.
"""
import argparse
import os
import pathlib
import shlex
import sys

from runs import words
from tables import PAPER, ROOT
from transfer_ablation import print_ablation
from transfer_budgets import print_budgets
from transfer_report import print_transfer
from transfer_runs import Bench, Training, knows
from transfer_what import ABLATION, BUDGETS, FAMILIES, SHUFFLE, TRANSFER, wanted_runs

# What is known to an action that has steps: its runs, the seeds it has by default, its table. The others are steps of "transfer".
ACTIONS = {"transfer": (TRANSFER, [1, 2, 3], print_transfer), "ablate": (ABLATION, [1, 2, 3], print_ablation),
           "budgets": (BUDGETS, [1, 2], print_budgets)}


def parse():
    graphs = [graph for graph, _, _ in PAPER]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["train", "run", "table", "ablate", "budgets"])
    parser.add_argument("step", nargs="?", choices=["train", "run", "table"], help="of ablate and budgets")
    parser.add_argument("--store", action="append", type=pathlib.Path, help="default build/transfer.jsonl, build/ablate.jsonl, build/budgets.jsonl")
    parser.add_argument("--policies", type=pathlib.Path, default=ROOT / "build/policies", help="the folder of the policies")
    parser.add_argument("--bin", default=str(ROOT / "build/release/stowage"), help="the program")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once, each on cores of its own where there are enough")
    parser.add_argument("--threads", type=int, default=1, help="of each training; runs have one")
    parser.add_argument("--seconds", type=float, default=300.0, help="of each training; with --updates, about as long as it takes")
    parser.add_argument("--updates", type=int, help="train for so many instead of by time")
    parser.add_argument("--arguments", type=shlex.split, default=[], help="more arguments of `stowage train --corpus`, in one word")
    parser.add_argument("--limit", type=float, help="seconds from now")
    parser.add_argument("--rows", type=words(graphs), default=graphs, metavar="GRAPH,...")
    parser.add_argument("--families", type=words(FAMILIES), default=FAMILIES, metavar="FAMILY,...")
    parser.add_argument("--what", type=lambda text: text.split(","), metavar="WHAT,...", help=f"{', '.join(TRANSFER)}; of ablate "
                        "and budgets, beginnings of names suffice")
    parser.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--go-one", type=pathlib.Path, default=ROOT / "docs/results/go_one.jsonl", help="the store of bench/go_one.py")
    parser.add_argument("--commit", help="what to call the program's commit where there is no git")
    options = parser.parse_args()
    has_steps = options.action in ACTIONS
    options.step = options.step if has_steps else options.action
    kind = options.action if has_steps else "transfer"
    options.ablate = kind == "ablate"
    if options.step is None or kind == "budgets" and options.step == "train":
        parser.error(f"{kind}: which step?")
    options.known, seeds, options.print_table = ACTIONS[kind]
    options.seeds = options.seeds or seeds
    options.store = options.store or [ROOT / f"build/{kind}.jsonl"]
    chosen = [what for what in options.known if not options.what or any(
        what == word or has_steps and what.startswith(word) for word in options.what)]
    if not chosen:
        parser.error(f"--what: known are {'; '.join(options.known)}")
    options.what = chosen
    if options.step != "table" and not os.access(options.bin, os.X_OK):
        parser.error(f"there is no program {options.bin}: build it, or name it with --bin")
    if options.jobs < 1 or options.threads < 1 or options.seconds <= 0:
        parser.error("--jobs, --threads and --seconds must be more than 0")
    return options


def main():
    options = parse()
    if options.step == "table":
        sys.exit(0 if options.print_table(options) else 1)
    try:
        if options.step == "train":
            sys.exit(0 if Training(options).make_all() else 1)
        if "shuffled" in options.what and not knows(options.bin, SHUFFLE):
            print(f"shuffled: skipped, since the program does not know {SHUFFLE}", file=sys.stderr)
            options.what.remove("shuffled")
        sys.exit(0 if Bench(options, wanted_runs(options)).make_all() else 1)
    except KeyboardInterrupt:
        print("interrupted; what is finished is in the store", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
