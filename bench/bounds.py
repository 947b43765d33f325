#!/usr/bin/env python3
"""What the lower bounds of the step say: on the 14 rows of README's graphs, and of small task graphs whose optima CP-SAT found.

    bench/bounds.py rows    [--budget 10s] [--clock wall|cpu] [--threads 2] [--jobs N] [--only GRAPH,...]
    bench/bounds.py optima

rows: `optimize --tasks placement,schedule` on 0.1/h200xN and 0.1/h200xN-pcie. optima: no run but `simulate`, for the bounds of the
instances of bench/optima_graphs.py; exits 1 if a bound is above CP-SAT's optimum.

The bound without transfers is that of the same machine with links that take no time, so both come from the program itself.
Options: --stowage PROGRAM; --jobs N, runs at once, each on cores of its own.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile

import optima_cpsat
import optima_graphs
from tables import FIRST, PAPER, ROOT, mean, milliseconds, table


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


# ---- the bounds of a graph ----


def without_transfers(machine, folder, name):
    """A file of the same machine, but over its links nothing takes time."""
    for link in machine["links"]:
        link.pop("send_us", None)
        link.pop("receive_us", None)
        link.update(bandwidth_bytes_per_s=1e30, latency_us=0)
    path = pathlib.Path(folder) / f"{name}.free.json"
    path.write_text(json.dumps(machine))
    return path


def bound_of(program, graph, machine):
    return run([program, "simulate", graph, "-m", machine, "--plan", "single", "--format", "json"])["lower_bound_s"]


# ---- README's rows ----


def search(options, slots, graph, devices, suffix):
    """(step, bound without transfers, bound), in seconds."""
    path, name = ROOT / "data/graphs" / f"{graph}.json.gz", f"h200x{devices}{suffix}"
    machine = json.loads((ROOT / "data/machines/0.1" / f"{name}.json").read_text())
    command = [options.stowage, "optimize", path, "-m", FIRST + name, "--tasks", "placement,schedule", "--format", "json", "--budget",
               options.budget, "--clock", options.clock, "--threads", options.threads]
    slot = slots.get()
    if options.jobs > 1:
        command = ["taskset", "-c", f"{slot * options.threads}-{(slot + 1) * options.threads - 1}", *command]
    try:
        step = run(command)["step_s"]
        with tempfile.TemporaryDirectory() as folder:
            old = bound_of(options.stowage, path, without_transfers(machine, folder, name))
        return step, old, bound_of(options.stowage, path, FIRST + name)
    finally:
        slots.put(slot)


def rows(options):
    slots = queue.Queue()
    for slot in range(options.jobs):
        slots.put(slot)
    chosen = [(graph, k) for graph, k, _ in PAPER if not options.only or graph in options.only.split(",")]
    for suffix in ("", "-pcie"):
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            found = list(pool.map(lambda row: search(options, slots, *row, suffix), chosen))
        print(f"### 0.1/h200xN{suffix}, step time in ms, --budget {options.budget} --clock {options.clock} --threads {options.threads}\n")
        body = [[f"{graph}, {k}", milliseconds(step), milliseconds(old), milliseconds(new), f"{step / old:.3f}", f"{step / new:.3f}",
                 f"{new / old:.3f}"] for (graph, k), (step, old, new) in zip(chosen, found)]
        means = [mean([numerator(*row) for row in found]) for numerator in
                 (lambda step, old, new: step / old, lambda step, old, new: step / new, lambda step, old, new: new / old)]
        body.append(["geometric mean", "", "", "", *[f"**{value:.4f}**" for value in means]])
        table(["graph, k", "optimize", "bound without transfers", "bound", "step / bound without", "step / bound", "bound / without"], body)
        sys.stdout.flush()
    return 0


# ---- optima ----


def optima(options):
    known = optima_cpsat.read_store(optima_cpsat.STORE)
    above, lines = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for kind in optima_graphs.KINDS:
            old, new, tight, tight_without = [], [], 0, 0
            for name in (n for chosen in optima_graphs.SETS for n in optima_graphs.names_of(chosen)):
                instance = optima_graphs.make(name)
                if instance["kind"] != kind or name not in known:
                    continue
                graph, machine = optima_graphs.write(instance, pathlib.Path(folder))
                best = known[name]["step_us"] * 1e-6
                free = without_transfers(json.loads(machine.read_text()), folder, name)
                bounds = bound_of(options.stowage, graph, free), bound_of(options.stowage, graph, machine)
                if max(bounds) > best:
                    above += 1
                    print(f"{name}: bounds {bounds[0]:.9g} and {bounds[1]:.9g} s, but CP-SAT has a plan of {best:.9g} s")
                tight_without += bounds[0] >= best * (1.0 - 1e-9)
                tight += bounds[1] >= best * (1.0 - 1e-9)
                old.append(best / bounds[0])
                new.append(best / bounds[1])
            lines.append([kind, len(new), f"{mean(old):.4f}", f"{mean(new):.4f}", tight_without, tight])
    count = sum(line[1] for line in lines)
    lines.append(["all", count, "", "", sum(line[4] for line in lines), sum(line[5] for line in lines)])
    table(["kind", "instances", "best / bound without transfers", "best / bound", "tight without", "tight"], lines)
    print(f"Bounds above the best that CP-SAT found: {above} of {count}.")
    return 1 if above or not count else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["rows", "optima"])
    parser.add_argument("--stowage", default=str(ROOT / "build/release/stowage"))
    parser.add_argument("--budget", default="10s")
    parser.add_argument("--clock", default="wall", choices=["wall", "cpu"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if options.jobs * options.threads > (os.cpu_count() or 1):
        parser.error(f"{options.jobs} jobs of {options.threads} threads need more than the {os.cpu_count()} cores there are; lower --jobs")
    print(f"{datetime.date.today()}, `bench/bounds.py {' '.join(sys.argv[1:])}`\n")
    return {"rows": rows, "optima": optima}[options.what](options)


if __name__ == "__main__":
    sys.exit(main())
