#!/usr/bin/env python3
"""What threads are worth: one process of T threads beside T processes of one thread, for the same time.

    bench/threads.py --store FILE.jsonl [--stowage PROGRAM] [--against PROGRAM] [--deadline SECONDS] [--threads 1,2,4,8,16]
                     [--seconds 2.5] [--updates 48] [--what anneal|train|optimize]
    bench/threads.py --store FILE.jsonl --table

anneal    `compare --methods anneal --from PLAN`, placement and schedule, SECONDS each (`--seconds`): evaluations per second, and the step.
          PLAN is that of `etf`, made once. The processes beside each other have different seeds; their step is the best of theirs.
train     `train --corpus all --updates N` (`--updates`): updates per second of all processes together, from the first update to the
          last, problems that are drawn anew included. The time before the first is for the problems that are never learnt from, and
          in the columns of steps. Only for 1, 4 and the most threads.
optimize  only with --against: the step after the same time by both programs, on the most threads.

Runs that the store has are not made again, so a run that the deadline ended is taken up by the same command. Nothing else should be
running. One thread is measured once, as both. The ratio of a row is (one process of T threads) / (T processes of one thread).
"""
import argparse
import csv
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from tables import ROOT, milliseconds, table

ROWS = [("amoebanet", "0.1/h200x4-pcie"), ("gnmt-8", "0.1/h200x8-pcie"), ("transformer-xl-4", "0.1/h200x4"), ("rnnlm-2", "0.1/h200x2")]
LONGER = {"gnmt-8": 2.0}  # times --seconds: preparing takes long
THREADS = [1, 2, 4, 8, 16]
TRAIN_THREADS = (1, 4)  # beside the most of all


def seconds_of(options, run):
    return options.seconds * LONGER.get(run["graph"], 1.0)


def graph_of(name):
    return ROOT / "data/graphs" / f"{name}.json.gz"


# ---- runs ----


def together(commands, limit):
    """Standard outputs of commands that run side by side."""
    running = [subprocess.Popen([str(word) for word in c], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for c in commands]
    outputs = []
    for process, command in zip(running, commands):
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            for other in running:
                other.kill()
            sys.exit(f"{' '.join(map(str, command))}: not done after {limit:.0f} s")
        if process.returncode not in (0, 1):
            sys.exit(f"{' '.join(map(str, command))}: exit {process.returncode}: {errors.strip()}")
        outputs.append(output)
    return outputs


def first_plan(options, folder, graph, machine):
    path = pathlib.Path(folder) / f"{graph}.plan.json"
    if not path.exists():
        together([[options.stowage, "optimize", graph_of(graph), "-m", machine, "--tasks", "placement,schedule", "--evaluations", 10,
                   "--policy", "none", "--threads", 1, "-o", path]], 120)
    return path


def anneal(options, folder, run):
    plan = first_plan(options, folder, run["graph"], run["machine"])
    commands = [[run["program"], "compare", graph_of(run["graph"]), "-m", run["machine"], "--methods", "anneal", "--from", plan, "--tasks",
                 "placement,schedule", "--budget", f"{seconds_of(options, run)}s", "--threads", run["threads"], "--seed", seed + 1, "--format",
                 "json"] for seed in range(run["processes"])]
    found = [json.loads(output)[0]["methods"][-1] for output in together(commands, 30 + 4 * seconds_of(options, run))]
    return {"per_s": sum(f["evaluations"] / f["search_s"] for f in found), "step_s": min(f["step_s"] for f in found)}


def train(options, folder, run):
    curves = [pathlib.Path(folder) / f"{run['threads']}-{k}.csv" for k in range(run["processes"])]
    commands = [[run["program"], "train", "--corpus", "all", "--updates", options.updates, "--threads", run["threads"], "--seed",
                 k + 1, "--curve", curve, "-o", curve.with_suffix(".stw")] for k, curve in enumerate(curves)]
    together(commands, 600)
    rate, before = 0.0, []
    for curve in curves:
        with open(curve, newline="") as file:
            rows = list(csv.DictReader(file))
        first, last = float(rows[0]["seconds"]), float(rows[-1]["seconds"])
        rate += (len(rows) - 1) / max(last - first, 1e-9)
        before.append(first)
    return {"per_s": rate, "before_s": sum(before) / len(before)}


def optimize(options, folder, run):
    output = together([[run["program"], "optimize", graph_of(run["graph"]), "-m", run["machine"], "--tasks", "placement,schedule", "--budget",
                        f"{seconds_of(options, run)}s", "--threads", run["threads"], "--format", "json"]], 30 + 4 * seconds_of(options, run))[0]
    return {"step_s": json.loads(output)["step_s"]}


WHAT = {"anneal": anneal, "train": train, "optimize": optimize}


def wanted(options):
    """Runs, what matters most first."""
    threads = sorted({int(t) for t in options.threads.split(",")}, reverse=True)
    runs = []
    for t in [threads[0], 1] + threads[1:]:
        shapes = [(t, 1)] + ([(1, t)] if t > 1 else [])
        for count, processes in shapes:
            for graph, machine in ROWS:
                runs.append(dict(what="anneal", graph=graph, machine=machine, threads=count, processes=processes))
            if t in TRAIN_THREADS or t == threads[0]:
                runs.append(dict(what="train", graph="", machine="", threads=count, processes=processes))
        if t == threads[0] and options.against:
            for program in (options.stowage, options.against):
                runs += [dict(what="optimize", graph=g, machine=m, threads=t, processes=1, program=program) for g, m in ROWS]
                runs += [dict(what=w, graph=g, machine=m, threads=t, processes=1, program=program) for w, g, m in
                         [("anneal", g, m) for g, m in ROWS] + [("train", "", "")]]
    unique = {key_of(dict({"program": options.stowage}, **run)): dict({"program": options.stowage}, **run) for run in runs}
    return list(unique.values())


def key_of(run):
    return tuple(run[name] for name in ("what", "program", "graph", "machine", "threads", "processes"))


def read_store(path):
    if not pathlib.Path(path).exists():
        return {}
    return {key_of(row): row for row in map(json.loads, pathlib.Path(path).read_text().splitlines())}


def measure(options):
    ends = time.monotonic() + options.deadline
    known = read_store(options.store)
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        for run in wanted(options):
            if key_of(run) in known or run["threads"] * run["processes"] > cores or options.what not in ("", run["what"]):
                continue
            likely = 10 + options.updates / 4 / run["threads"] if run["what"] == "train" else 2 + 1.2 * seconds_of(options, run)
            if time.monotonic() + likely > ends:
                print("the deadline is near: the same command goes on from here", file=sys.stderr)
                return 0
            row = dict(run, cores=cores, date=str(datetime.date.today()), seconds=seconds_of(options, run), updates=options.updates,
                       **WHAT[run["what"]](options, folder, run))
            with open(options.store, "a") as file:
                file.write(json.dumps(row) + "\n")
    return 0


# ---- the table ----


def print_table(options):
    rows = list(read_store(options.store).values())
    mine = {key_of(row)[2:] + (row["what"],): row for row in rows if row["program"] == options.stowage}
    body = []
    for what, graph, machine in [("anneal", g, m) for g, m in ROWS] + [("train", "", "")]:
        alone = mine.get((graph, machine, 1, 1, what))
        for t in THREADS:
            one, many = mine.get((graph, machine, t, 1, what)), mine.get((graph, machine, 1, t, what))
            if one is None or many is None:
                continue
            steps = [milliseconds(row["step_s"]) if "step_s" in row else f"{row['before_s']:.1f} s before" for row in (one, many)]
            body.append([f"{what} {graph}", t, f"{one['per_s']:.4g}", f"{many['per_s']:.4g}", f"{one['per_s'] / many['per_s']:.2f}",
                         f"{one['per_s'] / alone['per_s']:.1f}" if alone else "", *steps])
    print("Evaluations, or updates, per second; steps in ms after the same time.\n")
    table(["what", "T", "T threads", "T processes", "ratio", "over one thread", "step of T threads", "best of T processes"], body)
    others = [row for row in rows if row["program"] != options.stowage]
    if others:
        print("The other program first, each on as many threads.\n")
        body = []
        for row in others:
            one = mine.get(key_of(row)[2:] + (row["what"],))
            if one is not None:
                name = "per_s" if "per_s" in row else "step_s"
                steps = [f"{milliseconds(r['step_s'])}" if "step_s" in r else "" for r in (row, one)]
                rates = [f"{r['per_s']:.4g}" if "per_s" in r else "" for r in (row, one)]
                body.append([f"{row['what']} {row['graph']}", row["threads"], *rates, *steps, f"{one[name] / row[name]:.3f}"])
        table(["what", "T", "per second before", "after", "step before", "after", "after / before"], body)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", required=True)
    parser.add_argument("--stowage", default=str(ROOT / "build/release/stowage"))
    parser.add_argument("--against", default="")
    parser.add_argument("--deadline", type=float, default=3600.0)
    parser.add_argument("--seconds", type=float, default=2.5, help="of a run of anneal or optimize")
    parser.add_argument("--updates", type=int, default=48, help="of a training")
    parser.add_argument("--what", default="", help="only anneal, train or optimize")
    parser.add_argument("--threads", default=",".join(map(str, THREADS)))
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    return print_table(options) if options.table else measure(options)


if __name__ == "__main__":
    sys.exit(main())
