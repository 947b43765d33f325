#!/usr/bin/env python3
"""What tuning finds after some runs, on made-up machines whose calibration is wrong (tests/support/tuning_world.py): no device is needed.

    python3 bench/tune.py [--worlds towers:2:11,inception:4:11] [--runs 50] [--evaluations 300] [--store tune.jsonl]

A world is a model of bench/run_models.py, a number of devices and the seed of what is hidden. Times are told over those of the plan of
Calibration.optimize, and without noise: what a plan takes in truth. A line of JSON for each world goes to --store, and what stands there is
not run again.
"""
import argparse
import json
import pathlib
import statistics
import sys
import time

import torch

import stowage
import stowage.torch
from run_models import MODELS
from runs import append, lines_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "support"))
from tuning_world import World  # noqa: E402

COUNTS = (1, 5, 10, 25, 50)
WORLDS = "towers:4:11,inception:2:11,transformer:2:11,moe:4:11,resnet:2:11,vit:2:11,unet:4:11,wavenet:2:11"


def made(model, devices, seed):
    torch.manual_seed(0)
    module, args = MODELS[model]()
    nodes = stowage.torch.tracing._trace.Nodes(stowage.torch.tracing._trace.Step(module, args, {}, True, None))
    return World(nodes.opgraph(model), list(nodes.fx), devices, seed)


def tuned(world, options):
    limits = {"budget": None, "evaluations": options.evaluations}
    tuning = stowage.torch.tuning._tune._Tuning(world.calibration, world.measure, options.runs, limits, lambda line: None, options.seed)
    began = time.monotonic()
    result = tuning.result()
    return result, time.monotonic() - began


def measure_row(spec, options):
    model, devices, seed = spec.split(":")
    world = made(model, int(devices), int(seed))
    result, took = tuned(world, options)
    single = world.seconds(next(run.plan for run in result.runs if run.name == "single"))
    after = {n: 1e6 * world.seconds(result.runs[n - 1].best) for n in COUNTS if n <= len(result.runs)}
    known = world.truth.optimize(None, evaluations=options.evaluations, seed=options.seed)
    return {"world": spec, "runs": len(result.runs), "evaluations": options.evaluations, "optimize_us": 1e6 * world.seconds(result.runs[0].plan),
            "single_us": 1e6 * single, "after_us": after, "known_us": 1e6 * world.seconds(known), "tuned_us": 1e6 * world.seconds(result.plan),
            "seconds": took}  # fmt: skip


def print_table(records):
    print("| world | `optimize`, us | one device | after 1 run | 5 | 10 | 25 | 50 | `optimize` with the hidden times |")
    print("| --- |" + 8 * " ---: |")
    for r in records:
        over = lambda us: f"{us / r['optimize_us']:.3f}"  # noqa: E731
        cells = [over(r["after_us"][str(n)]) if str(n) in r["after_us"] else "-" for n in COUNTS]
        print(f"| {r['world']} | {r['optimize_us']:.0f} | {over(r['single_us'])} | {' | '.join(cells)} | {over(r['known_us'])} |")
    means = []
    for n in COUNTS:
        found = [r["after_us"][str(n)] / r["optimize_us"] for r in records if str(n) in r["after_us"]]
        means.append(f"{statistics.geometric_mean(found):.3f}" if found else "-")
    print(f"| geometric mean | | | {' | '.join(means)} | {statistics.geometric_mean(r['known_us'] / r['optimize_us'] for r in records):.3f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", default=WORLDS, help="model:devices:seed, separated by commas")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--evaluations", type=int, default=300, help="of one search")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", type=pathlib.Path, default=pathlib.Path("tune.jsonl"))
    options = parser.parse_args()
    torch.set_num_threads(1)  # the tensors here are small
    for spec in options.worlds.split(","):
        if not any(json.loads(line)["world"] == spec for line in lines_of(options.store)):
            append(options.store, measure_row(spec, options))
    print_table([json.loads(line) for line in lines_of(options.store)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
