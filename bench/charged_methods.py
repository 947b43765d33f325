#!/usr/bin/env python3
"""What it is worth that a method sees charges: each method on a machine with charges, and on the same without; both plans are then
judged with charges.

    python3 bench/charged_methods.py [--evaluations 1000] [--jobs N] [--stowage build/release/stowage] [--store F] [--methods LIST] [--table]

Placement and schedule, a thread for each run, a budget of evaluations: every run repeats exactly. `optimize` runs last of the
row; the others are those that build plans, and `anneal`. A line of JSON for each run goes to --store, and what stands there is not run
again; the table in Markdown is printed at the end, once every run of it is there. With --methods only these are run, one after the other as
they are named.
"""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

from runs import append, lines_of
from tables import FIRST, PAPER, ROOT

METHODS = ("single", "spread", "topo", "etf", "expert", "metis", "heft", "sct", "steer", "anneal", "optimize")


def rows():
    """(graph, machine) of GO's table 2."""
    return [(graph, f"h200x{devices}") for graph, devices, *_ in PAPER]


def ask(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def run(options, graph, machine, method, sees):
    path = str(ROOT / "data" / "graphs" / f"{graph}.json.gz")
    with tempfile.TemporaryDirectory() as folder:
        plan = os.path.join(folder, "plan.json")
        ask([options.stowage, "compare", path, "-m", machine if sees else FIRST + machine, "--methods", method, "--tasks",
             "placement,schedule", "--evaluations", str(options.evaluations), "--threads", "1", "--best", plan, "-f", "json"])
        report = ask([options.stowage, "simulate", path, "-m", machine, "-p", plan, "-f", "json"])
    return {"graph": graph, "machine": machine, "method": method, "sees": sees, "evaluations": options.evaluations,
            "step_s": report["step_s"], "valid": report["valid"], "transfers": sum(link["transfers"] for link in report["links"]),
            "charged_s": [device["charged_s"] for device in report["devices"]]}


def key(record):
    return tuple(record[name] for name in ("graph", "machine", "method", "sees", "evaluations"))


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def print_table(found, evaluations):
    def at(row, method, sees):
        return found[(*row, method, sees, evaluations)]

    print("| method | step, seeing charges over not | transfers, over not | step over `optimize` that sees them | not seeing, over the same |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for method in METHODS:
        steps = geometric_mean([at(row, method, True)["step_s"] / at(row, method, False)["step_s"] for row in rows()])
        sent = [(at(row, method, True)["transfers"], at(row, method, False)["transfers"]) for row in rows()]
        transfers = f"{sum(a for a, _ in sent) / sum(b for _, b in sent):.2f}" if sum(b for _, b in sent) else "-"
        best = [geometric_mean([at(row, method, sees)["step_s"] / at(row, "optimize", True)["step_s"] for row in rows()]) for sees in (True, False)]
        print(f"| {method} | {steps:.3f} | {transfers} | {best[0]:.3f} | {best[1]:.3f} |")
    print("\n| graph, devices | best other method, ms | `optimize`, ms | transfers | `optimize` not seeing charges, ms | transfers |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    worse = 0
    for row in rows():
        others = {method: at(row, method, True)["step_s"] for method in METHODS if method != "optimize"}
        best = min(others, key=others.get)
        own, blind = at(row, "optimize", True), at(row, "optimize", False)
        worse += own["step_s"] > others[best]
        print(f"| {row[0]}, {row[1][5:]} | {1e3 * others[best]:.3f} ({best}) | {1e3 * own['step_s']:.3f} | {own['transfers']} "
              f"| {1e3 * blind['step_s']:.3f} | {blind['transfers']} |")
    print(f"\n`optimize` is above the best other method on {worse} of {len(rows())} rows.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", default=str(ROOT / "build" / "release" / "stowage"))
    parser.add_argument("--evaluations", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--store", type=pathlib.Path, default=pathlib.Path("charged_methods.jsonl"))
    parser.add_argument("--methods", type=lambda text: text.split(","), default=list(reversed(METHODS)), help="separated by commas; default: all")
    parser.add_argument("--table", action="store_true", help="run nothing; print what stands in the store")
    options = parser.parse_args()
    found = {key(record): record for record in map(json.loads, lines_of(options.store))}
    unknown = [method for method in options.methods if method not in METHODS]
    if unknown:
        parser.error(f"--methods: {', '.join(unknown)}: not one of {', '.join(METHODS)}")
    wanted = [(graph, machine, method, sees) for method in options.methods for graph, machine in rows() for sees in (True, False)
              if (graph, machine, method, sees, options.evaluations) not in found]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        jobs = [] if options.table else [pool.submit(run, options, *what) for what in wanted]
        for job in concurrent.futures.as_completed(jobs):
            record = job.result()
            found[key(record)] = record
            append(options.store, record)
            print(f"{record['graph']} {record['machine']} {record['method']}: {1e3 * record['step_s']:.3f} ms", file=sys.stderr)
    missing = [what for what in ((*row, method, sees, options.evaluations) for row in rows() for method in METHODS for sees in (True, False))
               if what not in found]
    if missing:
        print(f"{len(missing)} runs are missing for the table, among them {missing[0]}", file=sys.stderr)
        return 1
    print_table(found, options.evaluations)
    return 0


if __name__ == "__main__":
    sys.exit(main())
