#!/usr/bin/env python3
"""Tunes `hdp`: learning rates times groups per device, on three graphs, each run by itself with the same time.

    bench/hdp_tune.py                makes the runs that the store lacks
    bench/hdp_tune.py --table        prints Markdown from the store

Every finished run is a line of the store (--store FILE), so that it can be stopped and goes on where it was. Best means: the smallest
geometric mean over the graphs of the step time over that of everything on one device.
"""
import argparse
import concurrent.futures
import datetime
import json
import math
import os
import pathlib
import re
import shlex
import subprocess
import sys

from tables import FIRST, ROOT

ROWS = [("rnnlm-2", "h200x2", 2), ("inception-v3-b32", "h200x2", 2), ("gnmt-4", "h200x4", 4)]
RATES = [0.01, 0.003, 0.001, 0.0003, 0.0001, 0.00003]
PER_DEVICE = [3, 5, 10]
FIELDS = ("graph", "preset", "rate", "groups", "seed", "seconds", "threads")


def key(record):
    return tuple(record[field] for field in FIELDS)


def read(path):
    store = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            record = json.loads(line)
            store[key(record)] = record
        except (ValueError, KeyError):  # it was killed while it wrote
            print(f"{path.name}: passed over a broken line", file=sys.stderr)
    return store


def wanted(options):
    """The grid, then each preset as it is (rate and groups None)."""
    for seed in options.seeds:
        base = {"seed": seed, "seconds": options.seconds, "threads": options.threads}
        for rate in options.rates:
            for per_device in options.per_device:
                for graph, machine, devices in ROWS:
                    yield {"graph": graph, "machine": machine, "preset": "default", "rate": rate, "groups": per_device * devices, **base}
        for preset in ("default", "paper"):
            for graph, machine, _ in ROWS:
                yield {"graph": graph, "machine": machine, "preset": preset, "rate": None, "groups": None, **base}


def place():
    def git(*arguments):
        return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True).stdout.strip()

    cpu = re.search(r"model name\s*:\s*(.*)", open("/proc/cpuinfo").read()) if os.path.exists("/proc/cpuinfo") else None
    changed = git("status", "--porcelain", "--", "src", "cli", "include")
    return {"commit": (git("rev-parse", "--short", "HEAD") or "unknown") + (" with changes" if changed else ""),
            "cpu": cpu.group(1) if cpu else "unknown", "date": str(datetime.date.today())}


def make(record, options):
    command = [options.bin, "compare", str(ROOT / "data/graphs" / f"{record['graph']}.json.gz"), "--machine", FIRST + record["machine"],
               "--methods", "single,hdp", "--tasks", "placement,schedule", "--preset", record["preset"], "--seed", str(record["seed"]),
               "--threads", str(record["threads"]), "--budget", f"{record['seconds']:g}s", "--format", "json"]
    if record["rate"] is not None:
        command += ["--learning-rate", str(record["rate"])]
    if record["groups"] is not None:
        command += ["--groups", str(record["groups"])]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode not in (0, 1) or not answer.stdout:
        raise RuntimeError(f"{shlex.join(command)}: {answer.stderr.strip()}")
    single, hdp = json.loads(answer.stdout)[0]["methods"]
    return {**record, "single_s": single["step_s"], "step_s": hdp["step_s"], "valid": hdp["valid"],
            "evaluations": hdp["evaluations"], "search_s": hdp["search_s"], "jobs": options.jobs, **place()}


def make_all(options, store):
    """In two or more threads; the calling one writes."""
    missing = [record for record in wanted(options) if key(record) not in store]
    options.store.parent.mkdir(parents=True, exist_ok=True)
    workers = concurrent.futures.ThreadPoolExecutor(options.jobs)
    try:
        for done, future in enumerate(concurrent.futures.as_completed([workers.submit(make, record, options) for record in missing])):
            result = future.result()
            with open(options.store, "a") as file:
                file.write(json.dumps(result) + "\n")
            print(f"{done + 1} of {len(missing)}: {result['graph']}, {result['preset']}, rate {result['rate']}, "
                  f"{result['groups']} groups: {result['step_s'] / result['single_s']:.4f} after {result['search_s']:.0f} s", flush=True)
    finally:
        workers.shutdown(cancel_futures=True)


def ratio(store, options, graph, preset, rate, groups):
    """Mean over the seeds of step / single, or None."""
    found = [store.get((graph, preset, rate, groups, seed, options.seconds, options.threads)) for seed in options.seeds]
    found = [record["step_s"] / record["single_s"] for record in found if record and record["valid"]]
    return sum(found) / len(found) if len(found) == len(options.seeds) else None


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if None not in values else None


def cell(value):
    return "-" if value is None else f"{value:.4f}"


def grid(title, rows, counts, value):
    print(f"## {title}\n\n| learning rate | " + " | ".join(f"{n} groups per device" for n in counts) + " |")
    print("| --- " * (len(counts) + 1) + "|")
    for rate in rows:
        print(f"| {rate:g} | " + " | ".join(cell(value(rate, n)) for n in counts) + " |")
    print()


def print_table(options, store):
    present = list(store.values())
    arguments = " ".join(shlex.quote(os.path.basename(word) if "/" in word else word) for word in sys.argv[1:])
    seeds = ("seed " if len(options.seeds) == 1 else "mean of seeds ") + ", ".join(map(str, options.seeds))
    print(f"""# Tuning hdp

Printed by `{("bench/hdp_tune.py " + arguments).strip()}` on {datetime.date.today()}. Step time over that of `single`, {seeds}. Every run is one call of

    stowage compare GRAPH --machine M --methods single,hdp --learning-rate X --groups N --seed S --threads {options.threads} --budget {options.seconds:g}s

which ends sooner after 200 updates without a better plan. Where rates agree in all digits, the best plan is of the first draws: nothing was
learnt. Time budgets do not repeat exactly, so a preset and the same numbers in the grid can differ.
""")
    places = {(record["commit"], record["date"], record["cpu"], record["jobs"]) for record in present}
    for commit, date, cpu, jobs in sorted(places):
        print(f"- commit {commit}, {date}, {cpu}, {jobs} runs at once")
    print()
    devices = {graph: count for graph, _, count in ROWS}

    def over(graph):
        return lambda rate, n: ratio(store, options, graph, "default", rate, n * devices[graph])

    def all_rows(rate, n):
        return mean([over(graph)(rate, n) for graph, _, _ in ROWS])

    grid("Geometric mean", options.rates, options.per_device, all_rows)
    points = [(all_rows(rate, n), rate, n) for rate in options.rates for n in options.per_device if all_rows(rate, n) is not None]
    if points:
        best = min(points)
        print(f"Best: learning rate {best[1]:g}, {best[2]} groups per device, {best[0]:.4f}.\n")
    for graph, machine, _ in ROWS:
        grid(f"{graph} on {machine}", options.rates, options.per_device, over(graph))
    print("## The presets\n\n| preset | " + " | ".join(graph for graph, _, _ in ROWS) + " | geometric mean |")
    print("| --- " * (len(ROWS) + 2) + "|")
    for preset in ("default", "paper"):
        values = [ratio(store, options, graph, preset, None, None) for graph, _, _ in ROWS]
        print(f"| {preset} | " + " | ".join(map(cell, values)) + f" | {cell(mean(values))} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="print, run nothing")
    parser.add_argument("--store", type=pathlib.Path, default=ROOT / "build/hdp_tune.jsonl")
    parser.add_argument("--bin", default=str(ROOT / "build/release/stowage"), help="the program")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once")
    parser.add_argument("--threads", type=int, default=1, help="of each run")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each run")
    parser.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")], default=[1])
    parser.add_argument("--rates", type=lambda text: [float(word) for word in text.split(",")], default=RATES)
    parser.add_argument("--per-device", type=lambda text: [int(word) for word in text.split(",")], default=PER_DEVICE)
    options = parser.parse_args()
    store = read(options.store)
    if options.table:
        print_table(options, store)
    else:
        make_all(options, store)


if __name__ == "__main__":
    main()
