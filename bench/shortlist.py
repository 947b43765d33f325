#!/usr/bin/env python3
"""Fits src/method/shortlist/shortlist.def: which variants of which methods to try first, by what a graph is like on a machine.

    bench/shortlist.py measure      tries every variant on graphs of the training families and on meshes (some 10 minutes of a core); goes on where it was
    bench/shortlist.py judge        what lists fitted without a family are worth on it: the mean of the best step after so many trials
    bench/shortlist.py fit          writes the table from all of it

A list is grown greedily: next comes the variant that lowers the mean of log(best plan so far over the best of all) most. There is one for slow links
and one for fast ones. Families that are held out are those of docs/results/learning.md.
"""
import argparse
import collections
import os
import pathlib
import random
import subprocess
import sys

import numpy

from tables import ROOT

SIZES = {"rnnlm": {"layers": (2, 6), "width": (128, 2048), "batch": (8, 64), "steps": (8, 32)},
         "gnmt": {"layers": (2, 6), "width": (128, 1024), "batch": (8, 128), "steps": (6, 24)},
         "transformer-xl": {"layers": (2, 6), "width": (128, 1024), "batch": (2, 16), "steps": (2, 8)},
         "inception": {"layers": (5, 11), "width": (8, 96), "batch": (2, 64), "image": (96, 299)},
         "amoebanet": {"layers": (3, 12), "width": (16, 256), "batch": (2, 64), "image": (64, 224)},
         "unet": {"layers": (3, 6), "width": (8, 128), "batch": (2, 32)}, "wavenet": {"layers": (6, 30), "width": (32, 512), "batch": (1, 16)}}
STEPS_OF = {"width": 8, "image": 32}  # sizes are multiples of these; of a transformer's width, of 64
EACH = 8  # graphs of a family
MESHES = 16
MACHINES = ["0.1/h200x2", "0.1/h200x4", "0.1/h200x8", "0.1/h200x2-pcie", "0.1/h200x4-pcie", "0.1/h200x8-pcie", "h200x4", "h200x4-pcie"]
LENGTH = 12  # steps of a list
MOST = 3.0  # log: what is worse counts as this
SLOW_HOP_US = 10.0  # as shortlist.c has it


def make_graphs(options):
    draw = random.Random(1)
    paths = []
    for family, ranges in SIZES.items():
        for k in range(EACH):
            sizes = []
            for key, (low, high) in ranges.items():
                step = 64 if key == "width" and family == "transformer-xl" else STEPS_OF.get(key, 1)
                sizes += [f"--{key}", str(max(1, round(low * (high / low)**draw.random() / step)) * step)]
            paths.append(options.folder / f"{family}-{k}.json.gz")
            if not paths[-1].exists():
                subprocess.run([options.bin / "stowage", "generate", family, *sizes, "-q", "-o", paths[-1]], check=True)
    meshes = [options.folder / f"mesh-{k}.json" for k in range(MESHES)]
    subprocess.run([sys.executable, ROOT / "bench/task_graphs.py", options.folder, ",".join(path.stem for path in meshes)], check=True)
    return paths + meshes


def measure(options):
    done = {tuple(line.split(",")[:2]) for line in options.data.read_text().splitlines()} if options.data.exists() else set()
    for path in make_graphs(options):
        draw = random.Random(path.name)
        for machine in sorted(draw.sample(MACHINES, 4)):
            if (str(path), machine) in done:
                continue
            run = subprocess.run([options.bin / "bench/bench_shortlist", path, machine], capture_output=True, text=True, check=False)
            if run.returncode != 0:
                print(f"{path.name} on {machine}: {run.stderr.strip()}", file=sys.stderr)
                continue
            with options.data.open("a") as file:
                file.write(run.stdout)


class Problems:
    """A row for each problem, a column for each step: log of its plan over the best one."""

    def __init__(self, path):
        steps, rows = {}, collections.defaultdict(dict)
        hop, family = {}, {}
        for line in path.read_text().splitlines():
            graph, machine, hop_us, method, variant, seconds = line.split(",")
            hop[graph, machine] = float(hop_us)
            family[graph, machine] = pathlib.Path(graph).name.split(".")[0].rsplit("-", 1)[0]
            rows[graph, machine][steps.setdefault((method, int(variant)), len(steps))] = float(seconds)
        values = numpy.full((len(rows), len(steps)), numpy.inf)
        for at, row in enumerate(rows.values()):
            for step, seconds in row.items():
                values[at, step] = seconds if seconds < 1e8 else numpy.inf
        keep = numpy.isfinite(values.min(axis=1))
        self.slow, self.family = numpy.array([hop[key] >= SLOW_HOP_US for key in rows])[keep], numpy.array([family[key] for key in rows])[keep]
        self.cost = numpy.minimum(numpy.log(values[keep] / values[keep].min(axis=1, keepdims=True)), MOST)
        self.steps = sorted(steps, key=steps.get)
        self.start = self.cost[:, steps["single", 0]]  # the default is there already


def grow(p, rows):
    """The steps of the list for these problems."""
    best, chosen = p.start[rows], []
    for _ in range(LENGTH):
        step = int(numpy.minimum(p.cost[rows], best[:, None]).mean(axis=0).argmin())
        chosen.append(step)
        best = numpy.minimum(best, p.cost[rows, step])
    return chosen


def after(p, row, steps):
    """What the best plan is over the best of all steps, after none of them, one, two ..."""
    return numpy.minimum.accumulate([p.start[row], *p.cost[row, steps]])


def judge(options):
    p = Problems(options.data)
    counts = [1, 2, 3, 4, 6, 8, 12]
    print("| links | list |", " | ".join(map(str, counts)), "|")
    for name, slow in [("slow", True), ("fast", False)]:
        rows = collections.defaultdict(list)
        for row in numpy.flatnonzero(p.slow == slow):
            others = p.family != p.family[row]
            lists = {"etf": [p.steps.index(("etf", k)) for k in range(6)]}
            lists["one list"] = options.known.setdefault(p.family[row], grow(p, numpy.flatnonzero(others)))
            lists["by links"] = options.known.setdefault((p.family[row], slow), grow(p, numpy.flatnonzero(others & (p.slow == slow))))
            for which, steps in lists.items():
                left = after(p, row, steps)
                rows[which].append([left[min(k, len(steps))] for k in counts])
        for which, left in rows.items():
            print(f"| {name} | {which} |", " | ".join(f"{x:.3f}" for x in numpy.exp(numpy.mean(left, axis=0))), "|")


def fit(options):
    p = Problems(options.data)
    lines = ["/* Made by bench/shortlist.py fit; not to be edited. Steps of the lists of shortlist.c: a method and which of its variants. */"]
    for name, slow in [("SLOW", True), ("FAST", False)]:
        lines += [f"{name}({method}, {variant})" for method, variant in (p.steps[s] for s in grow(p, numpy.flatnonzero(p.slow == slow)))]
    options.table.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["measure", "judge", "fit"])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release", help="where the programs are built")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/shortlist", help="for generated graphs")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build/shortlist.csv", help="what was measured")
    parser.add_argument("--table", type=pathlib.Path, default=ROOT / "src/method/shortlist/shortlist.def")
    options = parser.parse_args()
    options.known = {}
    os.environ["XDG_CONFIG_HOME"] = os.devnull
    options.folder.mkdir(parents=True, exist_ok=True)
    {"measure": measure, "judge": judge, "fit": fit}[options.action](options)


if __name__ == "__main__":
    main()
