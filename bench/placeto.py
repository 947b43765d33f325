#!/usr/bin/env python3
"""`placeto` beside `hdp` and `random` with equal evaluations: Markdown, every cell from runs made now.

    bench/placeto.py [--evaluations N] [--seeds 1,2,3] [--jobs N] [--bin PROGRAM]

Runs are by evaluations, so figures repeat exactly on any machine; seconds do not. Exits 1 if a run fails or has no valid plan.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import subprocess
import sys

from hdp_tune import place
from tables import FIRST, ROOT

ROWS = [("rnnlm-2", "h200x2"), ("inception-v3-b32", "h200x2"), ("gnmt-4", "h200x4")]
WHAT = {"random, 16 draws": ["random"], "hdp": ["hdp"], "placeto": ["placeto"], "placeto, 64 units": ["placeto", "--units", "64"],
        "placeto without learning": ["placeto", "--learning-rate", "0"], "placeto, preset paper": ["placeto", "--preset", "paper"],
        "placeto, preset paper, 32 units": ["placeto", "--preset", "paper", "--units", "32"]}


def run(job):
    graph, machine, what, seed, options = job
    method, *more = WHAT[what]
    command = ["compare", str(ROOT / "data/graphs" / f"{graph}.json.gz"), "--machine", FIRST + machine, "--methods", f"single,{method}", "--tasks",
               "placement,schedule", "--evaluations", str(options.evaluations), "--seed", str(seed), "--threads", "1", "--format", "json", *more]
    answer = subprocess.run([options.bin, *command], capture_output=True, text=True)
    if answer.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {answer.stderr.strip() or 'no valid plan'}")
    single, found = json.loads(answer.stdout)[0]["methods"]
    return {"ratio": found["step_s"] / single["step_s"], "evaluations": found["evaluations"], "seconds": found["search_s"]}


def cell(runs):
    ratios = [one["ratio"] for one in runs]
    return f"{sum(ratios) / len(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=300)
    parser.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")], default=[1, 2, 3])
    parser.add_argument("--jobs", type=int, default=2, help="runs at once")
    parser.add_argument("--bin", default=str(pathlib.Path(ROOT) / "build/release/stowage"), help="the program")
    options = parser.parse_args()
    os.environ["XDG_CONFIG_HOME"] = os.devnull  # the program is run without defaults of whoever runs this
    jobs = [(graph, machine, what, seed, options) for what in WHAT for graph, machine in ROWS for seed in options.seeds]
    try:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            results = dict(zip(((job[2], job[0], job[3]) for job in jobs), pool.map(run, jobs)))
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    where = place()
    print(f"Step time over that of `single`, mean of seeds {', '.join(map(str, options.seeds))} (smallest to largest); {options.evaluations} evaluations, "
          f"`bench/placeto.py --evaluations {options.evaluations}`, commit {where['commit']}, {datetime.date.today()}, {where['cpu']}.\n")
    print("| | " + " | ".join(f"{graph}, {machine}" for graph, machine in ROWS) + " | evaluations | seconds |")
    print("| --- |" + " --- |" * (len(ROWS) + 2))
    for what in WHAT:
        rows = [[results[what, graph, seed] for seed in options.seeds] for graph, _ in ROWS]
        every = [one for runs in rows for one in runs]
        print(f"| {what} | " + " | ".join(map(cell, rows)) + f" | {min(one['evaluations'] for one in every)} to "
              f"{max(one['evaluations'] for one in every)} | {sum(one['seconds'] for one in every) / len(every):.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
