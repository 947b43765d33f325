#!/usr/bin/env python3
"""The largest load on the throughput inputs of dnn-partitioning, beside the published programs' (baselines.csv in the same folder).

    bench/dnnpart.py FOLDER [--stowage build/release/stowage] [--budget 20s] [--seed 1] [NAME ...]

Runs `stowage optimize FILE --objective throughput` on each input and computes the load of the plan again from the input file, with
nothing but the definition: an accelerator is loaded with its nodes, with each output it reads from outside, once, and with each of
its own outputs that is read outside, once; a CPU with its nodes only. Exits with 1 if a plan breaks a limit, if the two loads differ,
or if one is above the best contiguous split (where that is known). Times in milliseconds.
"""
import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import tables  # noqa: F401: it keeps the defaults of whoever runs this away

COLUMNS = ["dp_contiguous_opt", "pipedream", "scotch", "localsearch10", "human_expert"]
PRINTED_DIGITS = 1e-5  # baselines.csv gives six digits


def baselines(folder):
    rows = [line for line in (folder / "baselines.csv").read_text().splitlines() if not line.startswith("#")]
    end = next((k for k, line in enumerate(rows[1:], 1) if line.startswith("kind,")), len(rows))
    return {row["graph"]: row for row in csv.DictReader(rows[:end]) if row["kind"] == "throughput"}


def node_places(data):
    """id -> index of its op in the graph: file order, but what a node reads comes first; a size is a node of its own before it."""
    reads = {node["id"]: [] for node in data["nodes"]}
    for edge in data["edges"]:
        reads[edge["destId"]].append(edge["sourceId"])
    place, count = {}, 0
    size = {node["id"]: node.get("size", 0) for node in data["nodes"]}
    for node in data["nodes"]:
        stack = [node["id"]]
        while stack:
            waiting = next((source for source in reads[stack[-1]] if source not in place), None)
            if waiting is not None and stack[-1] not in place:
                stack.append(waiting)
                continue
            top = stack.pop()
            if top not in place:
                count += 1 if size[top] > 0 else 0
                place[top] = count
                count += 1
    return place


def evaluate(data, device):
    """Largest load, and whether sizes and colours are respected; device: id -> index, accelerators first."""
    accelerators = data["maxFPGAs"]
    load = [0.0] * (accelerators + data["maxCPUs"])
    held = [0.0] * len(load)
    colours, readers, cost = {}, {}, {}
    for node in data["nodes"]:
        on = device[node["id"]]
        load[on] += node["fpgaLatency"] if on < accelerators else node["cpuLatency"]
        held[on] += node.get("size", 0)
        if node.get("colorClass") is not None:
            colours.setdefault(node["colorClass"], set()).add(on)
    for edge in data["edges"]:
        readers.setdefault(edge["sourceId"], set()).add(device[edge["destId"]])
        cost[edge["sourceId"]] = edge["cost"]
    for source, places in readers.items():
        away = places - {device[source]}
        ends = away | ({device[source]} if away else set())
        for end in ends:
            load[end] += cost[source] if end < accelerators else 0.0
    fits = all(held[d] <= data["maxSizePerFPGA"] for d in range(accelerators))
    return max(load), fits and all(len(places) == 1 for places in colours.values())


def run(stowage, path, budget, seed):
    with tempfile.TemporaryDirectory() as folder:
        plan_path = pathlib.Path(folder) / "plan.json"
        began = time.monotonic()
        subprocess.run([stowage, "optimize", str(path), "--objective", "throughput", "--tasks", "placement,schedule", "--budget", budget,
                        "--seed", str(seed), "--format", "json", "--output", str(plan_path)], check=True, stdout=subprocess.DEVNULL)
        took = time.monotonic() - began
        plan = json.loads(plan_path.read_text())
    data = json.loads(path.read_text())
    place = node_places(data)
    return data, plan, {node["id"]: plan["device"][place[node["id"]]] for node in data["nodes"]}, took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help="parts of the inputs' names; all without")
    parser.add_argument("--stowage", default="build/release/stowage")
    parser.add_argument("--budget", default="20s")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_intermixed_args()
    faults = []
    print(f"{'input':<38}{'stowage':>10}" + "".join(f"{name[:12]:>14}" for name in COLUMNS) + f"{'method':>10}{'s':>7}", flush=True)
    for name, row in baselines(options.folder).items():
        if options.names and not any(part in name for part in options.names):
            continue
        path = options.folder / "throughput-inputs" / (name + ".json")
        data, plan, device, took = run(options.stowage, path, options.budget, options.seed)
        load, respected = evaluate(data, device)
        print(f"{name:<38}{load:>10.4f}" + "".join(f"{row[column] or '-':>14}" for column in COLUMNS)
              + f"{plan['method']:>10}{took:>7.1f}", flush=True)
        if not respected:
            faults.append(f"{name}: a size limit or a colour class is broken")
        if abs(load - plan["value"] * 1e3) > 1e-6 * load:
            faults.append(f"{name}: the plan file says {plan['value'] * 1e3} ms")
        if row["dp_contiguous_opt"] and load > float(row["dp_contiguous_opt"]) * (1 + PRINTED_DIGITS):
            faults.append(f"{name}: {load} is above the best contiguous split")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
