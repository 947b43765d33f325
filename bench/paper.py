#!/usr/bin/env python3
"""GO and GDP as published beside other methods: makes the runs that the store lacks, then prints the tables from the store.

    bench/paper.py [--store FILE] [--rows inception-v3-b32@h200x2,...] [--what "GO-one;metis"] [--evaluations N] [--seeds 1,2,3] [--units N|off]
                   [--updates N] [--problems S] [--policies FOLDER] [--skip train,run,print] [--plots FOLDER] [--bin PROGRAM]

A run is by evaluations and on one thread, so it repeats exactly on a processor of the same kind. Each line of the store is a run with
its commit, and what is in the store is not made again: an interrupted bench goes on. Seed by seed and method by method, so that what was
not made leaves no hole in the middle. Policies are trained with `train --corpus all` on generated graphs, the family of a row and its
companion held out (APART); one file per preset, pair of families and seed. Exits 1 if a run fails; a run without a valid plan is a
cell that says so. --plots: writes the curves there. What the tables say is made in paper_tables.py.
"""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys

import paper_tables
from hdp_tune import place
from runs import append
from tables import FIRST, ROOT

GRAPHS = ["rnnlm-2", "gnmt-2", "transformer-xl-2", "inception-v3-b32", "inception-v3-b64", "wavenet-2x9", "rnnlm-4", "gnmt-4", "transformer-xl-4",
          "amoebanet", "wavenet-4x9"]
DEVICES = {"rnnlm-4": 4, "gnmt-4": 4, "transformer-xl-4": 4, "amoebanet": 4, "wavenet-4x9": 4}  # else 2
ROWS = [f"{graph}@h200x{DEVICES.get(graph, 2)}{links}" for links in ("", "-pcie") for graph in GRAPHS]
JOINT = ["--tasks", "placement,schedule"]
ALONE = ["--tasks", "placement"]

# A method with its options, cheap ones first. "POLICY paper" stands for the file of that preset without the row's family, "DRAWN paper"
# for the same network as it is made. `optimize` is a command of its own; the others are methods of `compare`.
WHAT = {
    "one device": ["single", *JOINT], "expert": ["expert", *JOINT], "METIS": ["metis", *JOINT], "HDP": ["hdp", *JOINT],
    "go-one": ["go-one", *JOINT], "optimize": ["optimize", *JOINT], "anneal": ["anneal", *JOINT],
    "anneal, blind": ["anneal", "--proposals", "none", *JOINT],
    "GDP at random": ["go-one", "--preset", "gdp", "--learning-rate", "0", "--device-names", "no", *ALONE],
    "GDP untrained": ["go-one", "--preset", "gdp", "--learning-rate", "0", *ALONE],
    "GDP-one": ["go-one", "--preset", "gdp", *ALONE],
    "GO at random": ["go-one", "--preset", "paper", "--learning-rate", "0", "--device-names", "no", *JOINT],
    "GO untrained": ["go-one", "--preset", "paper", "--learning-rate", "0", *JOINT],
    "GO-one": ["go-one", "--preset", "paper", *JOINT],
    "GDP-batch drawn, zero-shot": ["go-zero", "--policy", "DRAWN gdp", "--decodes", "1", *ALONE],
    "GDP-batch, zero-shot": ["go-zero", "--policy", "POLICY gdp", "--decodes", "1", *ALONE],
    "GDP-batch, fine-tuned": ["go-tune", "--policy", "POLICY gdp", *ALONE],
    "GO-batch drawn, zero-shot": ["go-zero", "--policy", "DRAWN paper", "--decodes", "1", *JOINT],
    "GO-batch, zero-shot": ["go-zero", "--policy", "POLICY paper", "--decodes", "1", *JOINT],
    "GO-batch, fine-tuned": ["go-tune", "--policy", "POLICY paper", *JOINT],
    "Placeto": ["placeto", *JOINT],
}
# Families that are held out together: a policy for the rows of either.
APART = {"rnnlm": "rnnlm,gnmt", "gnmt": "rnnlm,gnmt", "transformer-xl": "transformer-xl,wavenet", "wavenet": "transformer-xl,wavenet",
         "inception": "inception,amoebanet", "amoebanet": "inception,amoebanet"}


OWN_UNITS = {"Placeto"}  # as its preset has them: an episode visits every unit, and few episodes fit


def units_of(options, what):
    return "" if what in OWN_UNITS else options.units


def held_out(graph):
    return next(apart for family, apart in APART.items() if graph.startswith(family))


def where(options):
    return {**place(), **({"commit": options.commit} if options.commit else {}), "date": str(datetime.date.today())}


# ---- policies ----


def policy_path(options, kind, graph, seed):
    trained, preset = kind.split()
    name = f"{preset}-{options.updates}x{options.problems}" if trained == "POLICY" else f"{preset}-drawn"
    return options.policies / f"{name}-without-{held_out(graph).replace(',', '-')}-{seed}.stw"


def train(options, kind, graph, seed):
    """Makes the file, and its curve, unless it is there, whole."""
    path = policy_path(options, kind, graph, seed)
    part = path.with_suffix(".part")
    if path.exists():
        return
    options.policies.mkdir(parents=True, exist_ok=True)
    trained, preset = kind.split()
    amount = (["--updates", options.updates, "--problems", options.problems] if trained == "POLICY"
              else ["--updates", 1, "--problems", 1, "--learning-rate", 0])
    command = [options.bin, "train", "--corpus", "all", "--hold-out", held_out(graph), "--preset", preset, *(JOINT if preset == "paper" else ALONE),
               "--seed", seed, "--threads", options.threads, "--format", "json", "-o", part, *amount, *(["--resume"] if part.exists() else []),
               "--curve", path.with_suffix(".csv"), *(["--units", options.units] if options.units else [])]
    began = os.times()
    answer = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if answer.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {answer.stderr.strip()}")
    ended = os.times()
    append(options.store, {"key": ["training", path.stem, options.units], "report": json.loads(answer.stdout), "search_s": round(
        ended.children_user + ended.children_system - began.children_user - began.children_system, 3),
        "curve": paper_tables.training_curve(path.with_suffix(".csv")), **where(options)})
    os.replace(part, path)


# ---- runs ----


def command_of(options, row, what, seed):
    graph, machine = row.split("@")
    method, *more = WHAT[what]
    more = [str(policy_path(options, word, graph, seed)) if word.startswith(("POLICY ", "DRAWN ")) else word for word in more]
    command = ["optimize"] if method == "optimize" else ["compare", "--methods", method]
    return [options.bin, *command, str(ROOT / "data/graphs" / f"{graph}.json.gz"), "--machine", FIRST + machine, "--evaluations",
            str(options.evaluations), "--seed", str(seed), "--threads", "1", "--clock", "cpu", "--format", "json", *more,
            *(["--units", units_of(options, what)] if units_of(options, what) else [])]


def key_of(options, row, what, seed):
    learnt = f"{options.updates}x{options.problems}" if "POLICY" in " ".join(WHAT[what]) else ""
    return [row, what, seed, options.evaluations, units_of(options, what), learnt]


def run(options, row, what, seed):
    command = command_of(options, row, what, seed)
    answer = subprocess.run(command, capture_output=True, text=True)
    if not answer.stdout:
        raise RuntimeError(f"{' '.join(command)}: {answer.stderr.strip()}")
    return {"key": key_of(options, row, what, seed), **paper_tables.outcome_of(json.loads(answer.stdout)), **where(options)}


def make_runs(options, made):
    wanted = [(row, what, seed) for seed in options.seeds for what in options.what for row in options.rows
              if tuple(key_of(options, row, what, seed)) not in made]
    for row, what, seed in wanted:
        kinds = [word for word in WHAT[what] if word.startswith(("POLICY ", "DRAWN "))]
        for kind in kinds if "train" not in options.skip else []:
            train(options, kind, row.split("@")[0], seed)
        if any(not policy_path(options, kind, row.split("@")[0], seed).exists() for kind in kinds):
            continue
        entry = run(options, row, what, seed)
        append(options.store, entry)
        print(f"{row}, {what}, seed {seed}: {paper_tables.cell([entry])} ms, {entry['search_s']:.1f} s", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(word) for word in text.split(",")]
    parser.add_argument("--store", type=pathlib.Path, default=ROOT / "build/paper.jsonl", help="the finished runs; .gz: to print from")
    parser.add_argument("--rows", type=lambda text: text.split(","), default=ROWS)
    parser.add_argument("--what", type=lambda text: text.split(";"), default=list(WHAT), help="some of the table's columns, separated by ;")
    parser.add_argument("--evaluations", type=int, default=204)
    parser.add_argument("--seeds", type=numbers, default=[1, 2, 3])
    parser.add_argument("--updates", type=int, default=72, help="of the trainings on many graphs")
    parser.add_argument("--problems", type=int, default=4, help="in such an update")
    parser.add_argument("--policies", type=pathlib.Path, default=ROOT / "build/paper")
    parser.add_argument("--units", default="128", help="of all but Placeto, which has its own; off: one decision per op, as published; empty: by size")
    parser.add_argument("--threads", type=int, default=1, help="of a training; they change no bit")
    parser.add_argument("--skip", type=lambda text: text.split(","), default=[], help="train: no policies are made; run: the tables alone; print: no tables")
    parser.add_argument("--plots", type=pathlib.Path, help="a folder for the curves, SVG")
    parser.add_argument("--commit", help="that the program is of; else that of this folder")
    parser.add_argument("--bin", default=str(ROOT / "build/release/stowage"), help="the program")
    options = parser.parse_args()
    os.environ["XDG_CONFIG_HOME"] = os.devnull  # the program is run without defaults of whoever runs this
    if options.store.suffix == ".gz" and "run" not in options.skip:
        parser.error("runs are appended to a store that is not compressed; --skip run prints from one that is")
    try:
        if "run" not in options.skip:
            make_runs(options, {tuple(one["key"]) for one in paper_tables.read_store(options.store)})
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    figures = paper_tables.Figures(paper_tables.read_store(options.store), options.rows, list(WHAT), options.seeds,
                                   lambda row, what, seed: key_of(options, row, what, seed))
    if "print" not in options.skip:
        paper_tables.print_tables(figures)
    if options.plots:
        paper_tables.plot(figures, options.plots)
        paper_tables.plot_trainings(paper_tables.read_store(options.store), f"-{options.updates}x{options.problems}-", options.plots)
    return 0


if __name__ == "__main__":
    sys.exit(main())
