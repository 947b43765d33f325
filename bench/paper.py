#!/usr/bin/env python3
"""GO and GDP as published beside other methods: makes the runs that the store lacks, then prints the tables from the store.

    bench/paper.py [--store FILE] [--rows inception-v3-b32@h200x2,...] [--evaluations N] [--seeds 1,2,3] [--updates N] [--policies FOLDER]
                   [--units N|off] [--skip train,run] [--bin PROGRAM]

A run is by evaluations and on one thread, so it repeats exactly on a processor of the same kind. Each line of the store is a run with
its commit, and what is in the store is not made again: an interrupted bench goes on. Policies are trained with `train --corpus` and the
family of a row held out; one file per preset, family and seed, which an interrupted training goes on from. Exits 1 if a run fails; a
run without a valid plan is a cell that says so.
"""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys

from hdp_tune import place
from runs import append
from tables import FIRST, ROOT

ROWS = ["rnnlm-2@h200x2", "rnnlm-2@h200x2-pcie", "gnmt-2@h200x2", "gnmt-2@h200x2-pcie", "transformer-xl-2@h200x2", "transformer-xl-2@h200x2-pcie",
        "inception-v3-b32@h200x2", "inception-v3-b32@h200x2-pcie", "inception-v3-b64@h200x2", "inception-v3-b64@h200x2-pcie",
        "wavenet-2x9@h200x2", "wavenet-2x9@h200x2-pcie", "rnnlm-4@h200x4", "rnnlm-4@h200x4-pcie", "gnmt-4@h200x4", "gnmt-4@h200x4-pcie",
        "transformer-xl-4@h200x4", "transformer-xl-4@h200x4-pcie", "amoebanet@h200x4", "amoebanet@h200x4-pcie", "wavenet-4x9@h200x4",
        "wavenet-4x9@h200x4-pcie"]
JOINT = ["--tasks", "placement,schedule"]
ALONE = ["--tasks", "placement"]

# A method with its options. "POLICY paper" stands for the file of that preset without the row's family, "DRAWN paper" for the same
# network as it is made.
WHAT = {
    "expert": ["expert", *JOINT], "metis": ["metis", *JOINT], "hdp": ["hdp", *JOINT], "placeto": ["placeto", *JOINT], "anneal": ["anneal", *JOINT],
    "go-one, ours": ["go-one", *JOINT],
    "GO-one": ["go-one", "--preset", "paper", *JOINT],
    "GO-one, not learning": ["go-one", "--preset", "paper", "--learning-rate", "0", *JOINT],
    "GO-one, like devices alike": ["go-one", "--preset", "paper", "--device-names", "no", *JOINT],
    "GO-one, warm start": ["go-one", "--preset", "paper", "--warm-start", "yes", *JOINT],
    "GDP-one": ["go-one", "--preset", "gdp", *ALONE],
    "GDP-one, not learning": ["go-one", "--preset", "gdp", "--learning-rate", "0", *ALONE],
    "GO-batch, zero-shot": ["go-zero", "--policy", "POLICY paper", "--decodes", "1", *JOINT],
    "GO-batch as drawn, zero-shot": ["go-zero", "--policy", "DRAWN paper", "--decodes", "1", *JOINT],
    "GO-batch, fine-tuned": ["go-tune", "--policy", "POLICY paper", *JOINT],
    "GO-batch as drawn, fine-tuned": ["go-tune", "--policy", "DRAWN paper", *JOINT],
    "GDP-batch, zero-shot": ["go-zero", "--policy", "POLICY gdp", "--decodes", "1", *ALONE],
    "GDP-batch, fine-tuned": ["go-tune", "--policy", "POLICY gdp", *ALONE],
}
FAMILIES = ["inception", "amoebanet", "rnnlm", "gnmt", "transformer-xl", "wavenet"]


def family_of(graph):
    return next(family for family in FAMILIES if graph.startswith(family))


def policy_path(options, kind, graph, seed):
    trained, preset = kind.split()
    updates = options.updates if trained == "POLICY" else 0
    return options.policies / f"{preset}-{updates}-without-{family_of(graph)}-{seed}.stw"


def train(options, kind, graph, seed):
    """Makes the file unless it is there, whole."""
    path = policy_path(options, kind, graph, seed)
    part = path.with_suffix(".part")
    if path.exists():
        return
    options.policies.mkdir(parents=True, exist_ok=True)
    trained, preset = kind.split()
    amount = ["--updates", str(options.updates)] if trained == "POLICY" else ["--updates", "1", "--problems", "1", "--learning-rate", "0"]
    tasks = JOINT if preset == "paper" else ALONE
    command = [options.bin, "train", "--corpus", "all", "--hold-out", family_of(graph), "--preset", preset, *tasks, "--seed", str(seed), "--threads",
               str(options.threads), "--format", "json", "-o", str(part), *amount, *(["--resume"] if part.exists() else [])]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {answer.stderr.strip()}")
    os.replace(part, path)


def command_of(options, row, what, seed):
    graph, machine = row.split("@")
    method, *more = WHAT[what]
    more = [str(policy_path(options, word, graph, seed)) if word.startswith(("POLICY ", "DRAWN ")) else word for word in more]
    return [options.bin, "compare", str(ROOT / "data/graphs" / f"{graph}.json.gz"), "--machine", FIRST + machine, "--methods", method,
            "--evaluations", str(options.evaluations), "--seed", str(seed), "--threads", "1", "--format", "json", *more,
            *(["--units", options.units] if options.units else [])]


def key_of(options, row, what, seed):
    learnt = options.updates if "POLICY" in " ".join(WHAT[what]) else 0
    return [row, what, seed, options.evaluations, options.units or "", learnt]


def run(options, row, what, seed):
    command = command_of(options, row, what, seed)
    answer = subprocess.run(command, capture_output=True, text=True)
    if not answer.stdout:
        raise RuntimeError(f"{' '.join(command)}: {answer.stderr.strip()}")
    found = json.loads(answer.stdout)[0]["methods"][0]
    return {"key": key_of(options, row, what, seed), "step_s": found["step_s"] if found["valid"] else None, "reason": found.get("reason", ""),
            "evaluations": found["evaluations"], "search_s": found["search_s"], "note": found.get("note", ""), **place(),
            "date": str(datetime.date.today())}


def read_store(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def cell(found):
    """Milliseconds: mean over the seeds, and their range where they differ."""
    valid = [one["step_s"] for one in found if one["step_s"] is not None]
    if not found:
        return "-"
    if not valid:
        return "does not fit"
    text = f"{1000 * sum(valid) / len(valid):.2f}"
    if max(valid) > min(valid):
        text += f" ({1000 * min(valid):.2f} to {1000 * max(valid):.2f})"
    return text + (f", {len(found) - len(valid)} of {len(found)} do not fit" if len(valid) < len(found) else "")


def print_table(options, store):
    known = {tuple(one["key"]): one for one in store}
    keys = {(row, what): [tuple(key_of(options, row, what, seed)) for seed in options.seeds] for row in options.rows for what in WHAT}
    chosen = [known[key] for every in keys.values() for key in every if key in known]
    commits, dates, kinds = (sorted({one[word] for one in chosen}) for word in ("commit", "date", "cpu"))
    print(f"Step time in ms, mean of seeds {', '.join(map(str, options.seeds))} (smallest to largest); {options.evaluations} evaluations at most, units: "
          f"{options.units or 'by size'}; policies of {options.updates} updates that never saw the row's family. Commit {', '.join(commits)}; "
          f"{', '.join(dates)}; {', '.join(kinds)}. \"-\": not measured.\n")
    print("| | " + " | ".join(row.replace("@", ", ") for row in options.rows) + " | evaluations | seconds |")
    print("| --- |" + " --- |" * (len(options.rows) + 2))
    for what in WHAT:
        rows = [[known[key] for key in keys[row, what] if key in known] for row in options.rows]
        every = [one for found in rows for one in found]
        evaluations = f"{min(one['evaluations'] for one in every)} to {max(one['evaluations'] for one in every)}" if every else "-"
        seconds = f"{sum(one['search_s'] for one in every) / len(every):.1f}" if every else "-"
        print(f"| {what} | " + " | ".join(map(cell, rows)) + f" | {evaluations} | {seconds} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=pathlib.Path, default=ROOT / "docs/results/paper.jsonl")
    parser.add_argument("--rows", type=lambda text: text.split(","), default=ROWS)
    parser.add_argument("--what", type=lambda text: text.split(";"), default=list(WHAT), help="some of the table's rows, separated by ;")
    parser.add_argument("--evaluations", type=int, default=2000)
    parser.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")], default=[1, 2, 3])
    parser.add_argument("--updates", type=int, default=500, help="of the trainings on many graphs")
    parser.add_argument("--policies", type=pathlib.Path, default=ROOT / "build/paper")
    parser.add_argument("--units", help="off: one decision per op, as published")
    parser.add_argument("--threads", type=int, default=1, help="of a training; they change no bit")
    parser.add_argument("--skip", type=lambda text: text.split(","), default=[], help="train: no policies are made; run: the tables alone")
    parser.add_argument("--bin", default=str(ROOT / "build/release/stowage"), help="the program")
    options = parser.parse_args()
    os.environ["XDG_CONFIG_HOME"] = os.devnull  # the program is run without defaults of whoever runs this
    made = {tuple(one["key"]) for one in read_store(options.store)}
    wanted = [(row, what, seed) for seed in options.seeds for row in options.rows for what in options.what
              if tuple(key_of(options, row, what, seed)) not in made]
    try:
        for row, what, seed in wanted if "run" not in options.skip else []:
            kinds = [word for word in WHAT[what] if word.startswith(("POLICY ", "DRAWN "))]
            for kind in kinds if "train" not in options.skip else []:
                train(options, kind, row.split("@")[0], seed)
            if any(not policy_path(options, kind, row.split("@")[0], seed).exists() for kind in kinds):
                continue
            entry = run(options, row, what, seed)
            append(options.store, entry)
            print(f"{row}, {what}, seed {seed}: {cell([entry])} ms", file=sys.stderr)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    print_table(options, read_store(options.store))
    return 0


if __name__ == "__main__":
    sys.exit(main())
