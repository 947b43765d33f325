#!/usr/bin/env python3
"""The graphs that constants of the search are chosen on: generated ones, none of which any table reports.

    bench/develop.py [--stowage PROGRAM] [--against PROGRAM] [--budget 6s] [--threads 2] [--seed 1] [--only FAMILY,...]

`optimize --tasks placement,schedule --clock cpu` on each of ROWS, on 0.1/h200xN and 0.1/h200xN-pcie: the step over the lower
bound, and with --against the step over that of the other program, geometric means last. `--budget` is processor time of all threads.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from tables import ROOT, mean, milliseconds, table

# What `stowage generate` is asked for, and the number of devices. Depths and widths that data/graphs does not have.
ROWS = [
    ("rnnlm --layers 3 --steps 25", 2), ("rnnlm --layers 6 --steps 30 --width 1536", 4), ("gnmt --layers 3 --steps 18", 2),
    ("gnmt --layers 6 --steps 24 --width 768", 8), ("transformer-xl --layers 6 --steps 5", 4), ("inception --batch 24", 2),
    ("amoebanet --layers 8 --batch 48", 4), ("wavenet --layers 14", 2), ("wavenet --layers 25 --width 96", 4), ("gpt --layers 5", 4),
    ("unet --layers 4", 2), ("layered --layers 12 --steps 10", 8),
]


def step_of(program, options, graph, machine):
    command = [program, "optimize", graph, "-m", machine, "--tasks", "placement,schedule", "--format", "json", "--clock", "cpu",
               "--budget", options.budget, "--threads", options.threads, "--seed", options.seed]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    return found["step_s"], found["lower_bound_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", default=str(ROOT / "build/release/stowage"))
    parser.add_argument("--against", default="")
    parser.add_argument("--budget", default="6s")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="families, separated by commas")
    options = parser.parse_args()
    body, steps, ratios = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for wish, devices in ROWS:
            if options.only and wish.split()[0] not in options.only.split(","):
                continue
            graph = pathlib.Path(folder) / "graph.json.gz"
            subprocess.run([options.stowage, "generate", *wish.split(), "-o", graph], check=True, capture_output=True)
            for suffix in ("", "-pcie"):
                machine = f"0.1/h200x{devices}{suffix}"
                step, bound = step_of(options.stowage, options, graph, machine)
                steps.append(step / bound)
                body.append([wish, machine, milliseconds(step), f"{step / bound:.4f}"])
                if options.against:
                    ratios.append(step / step_of(options.against, options, graph, machine)[0])
                    body[-1].append(f"{ratios[-1]:.4f}")
    body.append(["geometric mean", "", "", f"{mean(steps):.4f}"] + ([f"{mean(ratios):.4f}"] if ratios else []))
    table(["graph", "machine", "step, ms", "step / bound"] + (["step / other's"] if ratios else []), body)
    return 0


if __name__ == "__main__":
    sys.exit(main())
