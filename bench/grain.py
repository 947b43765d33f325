#!/usr/bin/env python3
"""What the grain of a plan costs: plans that place ops, modules, layers and stages of the same step, and the device map of the second.

    STOWAGE_LIBRARY=build/release/libstowage.so bench/grain.py [--stowage PROGRAM] [--evaluations N] [--model NAME] > table.md

Times are milliseconds of a simulated step. All but the last column place only, and run ops in the order of the program, each alone, as
PyTorch does; the last column is `optimize` with everything that it may decide. Every map is read again with `simulate`: a line says
whether its step is that of its plan (1e-9 of it) and not longer than that of one device; another, whether every plan of stages is a
pipeline for split-points. The exit status is 1 if one is not so.
"""
import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

from runs import about_this_place
from tables import ROOT

GRAPHS = ("vit-b16", "gpt2", "bert-base", "llama-8x2048", "resnet50", "t5-like")
MACHINES = ("h200x2", "h200x4-pcie")
GRAINS = ("op", "module", "layer", "stage")


def graph_of(name, folder):
    if name != "t5-like":
        return str(ROOT / f"data/graphs/{name}.json.gz")
    import torch
    from grain_models import t5_like

    sys.path.insert(0, str(ROOT / "python/src"))
    from stowage.torch.tracing import _trace

    torch.manual_seed(0)
    model, inputs = t5_like()
    path = folder / "t5-like.json"
    path.write_text(json.dumps(_trace.Nodes(_trace.Step(model, inputs, {}, True, None)).opgraph(name)))
    return str(path)


def ran(options, *arguments):
    done = subprocess.run([options.stowage, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def plan_of(options, graph, machine, file, *more):
    ran(options, "optimize", graph, "-m", machine, "--evaluations", str(options.evaluations), "--threads", "1", "-o", str(file), *more)
    return json.loads(file.read_text())


def row_of(options, name, graph, machine, folder):
    found = {}
    for grain in GRAINS:
        file = folder / f"{grain}.json"
        plan = plan_of(options, graph, machine, file, "--grain", grain, "--tasks", "placement", "--min-gain", "1%")
        found[grain] = plan["step_s"]
        found["one"] = plan["candidates"][0]["step_s"]
        if grain == "stage":
            said = ran(options, "export", graph, "-m", machine, "-p", str(file), "--to", "split-points", "-o", str(folder / "split.json"))
            found["pipeline"] = "the plan is such a pipeline" in said
        if grain != "module":
            continue
        ran(options, "export", graph, "-m", machine, "-p", str(file), "--to", "device-map", "-o", str(folder / "map.json"))
        entries = json.loads((folder / "map.json").read_text())
        found["devices"] = len(set(map(str, entries.values())))
        found["map"] = json.loads(ran(options, "simulate", graph, "-m", machine, "-p", str(folder / "map.json"), "-f", "json"))["step_s"]
    found["all"] = plan_of(options, graph, machine, folder / "all.json")["step_s"]
    same = abs(found["map"] - found["module"]) <= 1e-9 * found["module"]
    return {"graph": name, "machine": machine, **found, "holds": same and found["map"] <= found["one"] * (1 + 1e-9)}


def print_row(row):
    ms = {key: f"{1e3 * row[key]:.2f}" for key in ("one", "op", "module", "layer", "stage", "map", "all")}
    lost = 100 * (row["module"] / row["op"] - 1)
    where = "one device" if row["devices"] == 1 else f"{row['devices']} devices"
    print(f"| {row['graph']}, {row['machine']} | {ms['one']} | {ms['op']} | {ms['module']} | {ms['layer']} | {ms['stage']} | {ms['map']}, {where} | "
          f"{lost:.0f} % | {ms['all']} |", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", default=str(ROOT / "build/release/stowage"))
    parser.add_argument("--evaluations", type=int, default=1000)
    parser.add_argument("--model", choices=GRAPHS, action="append")
    options = parser.parse_args()
    place = about_this_place()
    print(f"{datetime.date.today()}, {place['commit']}, --evaluations {options.evaluations}\n")
    print("| graph, machine | one device | ops | modules | layers | stages | the device map of modules | price of modules | ops, with schedule and fusion |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    broken, turned = [], []
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        for name in options.model or GRAPHS:
            graph = graph_of(name, folder)
            for machine in MACHINES:
                row = row_of(options, name, graph, machine, folder)
                print_row(row)
                if not row["holds"]:
                    broken.append(f"{name} on {machine}")
                if not row["pipeline"]:
                    turned.append(f"{name} on {machine}")
    print(f"\nMaps that do not simulate to their plan's time, or are slower than one device: {', '.join(broken) or 'none'}.")
    print(f"Plans of stages that are no pipeline: {', '.join(turned) or 'none'}.")
    return 1 if broken or turned else 0


if __name__ == "__main__":
    sys.exit(main())
