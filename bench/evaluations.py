#!/usr/bin/env python3
"""What `optimize --evaluations N` comes to, of one program or of several: a table, and curves over N as SVG.

    bench/evaluations.py run --bin NAME=PROGRAM [--bin ...] [--rows develop|accept]     makes the runs that the store lacks
    bench/evaluations.py table                                                        Markdown: over the best known, and over the first program
    bench/evaluations.py plot FOLDER                                                  one SVG for each kind of machine

Best known: the best plan of all runs in the store for that graph and machine. Rows to accept by: docs/results/learning.md.
"""
import argparse
import collections
import json
import math
import os
import pathlib
import re
import subprocess
import sys

from tables import ROOT

DEVELOP = [(name, int(devices), None) for name, devices in
           (row.split() for row in ["rnnlm-2 2", "rnnlm-4 4", "rnnlm-8 8", "gnmt-2 2", "gnmt-4 4", "gnmt-8 8", "transformer-xl-2 2", "transformer-xl-4 4",
                                    "transformer-xl-8 8", "inception-v3-b32 2", "inception-v3-b64 2", "amoebanet 4", "wavenet-2x9 2", "wavenet-4x9 4"])]
ACCEPT = [("cholesky", 4, "task"), ("fft", 4, "task"), ("bert-6", 4, "bert --layers 6 --width 512"), ("gpt-experts", 8, "gpt --layers 6 --experts 8"),
          ("resnet-21", 2, "resnet --layers 21"), ("layered-30", 4, "layered --layers 30 --seed 11"), ("layered-12", 8, "layered --layers 12 --seed 12")]
# name, devices, what it is made of and, of two, the memory of a device, in which few plans fit
TRIALS = [("lu", 4, "task"), ("wave", 4, "task"), ("bert-9", 8, "bert --layers 9 --width 640"), ("gpt-14", 4, "gpt --layers 14"),
          ("resnet-41", 4, "resnet --layers 41"), ("layered-26", 4, "layered --layers 26 --seed 31"),
          ("layered-12w", 8, "layered --layers 12 --steps 24 --seed 37"), ("gpt-20-tight", 4, "gpt --layers 20 --width 768 --batch 8", "11.5GB"),
          ("bert-x-tight", 4, "bert --layers 10 --width 512 --experts 8", "3.4GB"), ("gpt-300", 8, "gpt --layers 300 --width 512"),
          ("layered-60", 8, "layered --layers 60 --steps 52 --seed 41")]
ROWS = {"develop": DEVELOP, "accept": ACCEPT}
MACHINES = ["0.1/h200x{}", "0.1/h200x{}-pcie"]
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
COLOURS = ["#666666", "#0072b2", "#d55e00", "#009e73"]


def graph_of(options, name, made_of):
    if made_of is None:
        return ROOT / "data/graphs" / f"{name}.json.gz"
    path = options.folder / f"{name}.json"
    if not path.exists() and made_of == "task":
        subprocess.run([sys.executable, ROOT / "bench/task_graphs.py", options.folder, name], check=True)
    elif not path.exists():
        subprocess.run([next(iter(options.bin.values())), "generate", *made_of.split(), "-q", "-o", path], check=True, stdout=subprocess.DEVNULL)
    return path


def records_of(options):
    lines = options.store.read_text().splitlines() if options.store.exists() else []
    return {(r["rows"], r["row"], r["machine"], r["program"], r["evaluations"], r["seed"]): r for r in map(json.loads, lines)}


def run(options):
    known = records_of(options)
    for evaluations in options.evaluations:
        for machine in MACHINES:
            for name, devices, made_of in ROWS[options.rows]:
                for program, path in options.bin.items():
                    for seed in options.seeds:
                        key = (options.rows, name, machine, program, evaluations, seed)
                        if key in known:
                            continue
                        text = subprocess.run([path, "optimize", graph_of(options, name, made_of), "-m", machine.format(devices), "--evaluations",
                                               str(evaluations), "--threads", "1", "--seed", str(seed)], capture_output=True, text=True, check=True).stdout
                        number, unit = re.search(r"^  step time +([\d.,]+) (us|ms|s) ", text, re.M).groups()
                        counts = [int(line.split()[-1].replace(",", "")) for line in text.split("\n\n")[0].splitlines()[2:]
                                  if line.split() and line.split()[-1].replace(",", "").isdigit()]
                        record = dict(zip(("rows", "row", "machine", "program", "evaluations", "seed"), key),
                                      step_s=float(number.replace(",", "")) * UNITS[unit], made=sum(counts))
                        with options.store.open("a") as file:
                            file.write(json.dumps(record) + "\n")


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def tables_of(options):
    """By rows and machine: of each program and number of evaluations, by graph, steps over the best known."""
    best, out = {}, collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(list)))
    records = records_of(options)
    for (rows, row, machine, *_), r in records.items():
        best[rows, row, machine] = min(best.get((rows, row, machine), math.inf), r["step_s"])
    for (rows, row, machine, program, evaluations, _), r in records.items():
        out[rows, machine][program, evaluations][row].append(r["step_s"] / best[rows, row, machine])
    return out


def table(options):
    for (rows, machine), cells in sorted(tables_of(options).items()):
        programs = list(dict.fromkeys(program for program, _ in cells))
        print(f"\n### {rows}: {machine.replace('{}', 'N')}, over the best known\n")
        print("| evaluations |", " | ".join(programs), "|", " | ".join(f"{p} / {programs[0]} (least to most of a row)" for p in programs[1:]), "|")
        print("|" + " --- |" * (2 * len(programs)))
        for evaluations in sorted({e for _, e in cells}):
            of = {p: {row: mean(v) for row, v in cells[p, evaluations].items()} for p in programs if (p, evaluations) in cells}
            line = [f"{mean(list(of[p].values())):.3f}" if p in of else "-" for p in programs]
            for p in programs[1:]:
                ratios = [of[p][row] / of[programs[0]][row] for row in of.get(p, {}) if row in of.get(programs[0], {})]
                line.append(f"{mean(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})" if ratios else "-")
            print(f"| {evaluations:,} |", " | ".join(line), "|")
        print()
        for row in sorted({row for of in cells.values() for row in of}):
            few = [f"{e}: " + ", ".join(f"{p} {mean(cells[p, e][row]):.3f}" for p in programs if row in cells[p, e])
                   for e in sorted({e for _, e in cells}) if e in options.show]
            print(f"- {row}: " + "; ".join(few))


def plot(options):
    for (rows, machine), cells in tables_of(options).items():
        programs, counts = list(dict.fromkeys(p for p, _ in cells)), sorted({e for _, e in cells})
        points = {p: [(e, mean([mean(v) for v in cells[p, e].values()])) for e in counts if (p, e) in cells] for p in programs}
        top = max(y for line in points.values() for _, y in line)
        x = lambda e: 60 + 520 * (math.log(e) - math.log(counts[0])) / max(1e-9, math.log(counts[-1]) - math.log(counts[0]))
        y = lambda v: 300 - 270 * (v - 1) / max(1e-9, top - 1)
        name = f"{rows}: {machine.replace('{}', 'N')}"
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="620" height="350" font-family="sans-serif" font-size="12" fill="#444"><title>{name}</title>',
                 f'<text x="60" y="20">{name}: step over the best known, by evaluations</text>']
        for e in counts:
            parts.append(f'<text x="{x(e):.1f}" y="320" text-anchor="middle">{e:,}</text>')
        for k in range(5):
            v = 1 + (top - 1) * k / 4
            parts.append(f'<path d="M60 {y(v):.1f}H580" stroke="#ddd"/><text x="52" y="{y(v) + 4:.1f}" text-anchor="end">{v:.2f}</text>')
        for k, (program, line) in enumerate(points.items()):
            path = " ".join(f"{x(e):.1f},{y(v):.1f}" for e, v in line)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[k % 4]}" stroke-width="2"/>'
                         f'<text x="{60 + 120 * k}" y="342" fill="{COLOURS[k % 4]}">{program}</text>')
        (options.out / f"{rows}-{'pcie' if 'pcie' in machine else 'nvlink'}.svg").write_text("\n".join([*parts, "</svg>\n"]))


def main():
    numbers = lambda text: [int(word) for word in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "table", "plot"])
    parser.add_argument("out", nargs="?", type=pathlib.Path, help="plot: the folder")
    parser.add_argument("--bin", action="append", default=[], help="NAME=PROGRAM; the first is what others are compared with")
    parser.add_argument("--rows", choices=list(ROWS), default="develop")
    parser.add_argument("--store", type=pathlib.Path, default=ROOT / "build/evaluations.jsonl")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/evaluations", help="for generated graphs")
    parser.add_argument("--evaluations", type=numbers, default=[1, 3, 10, 30, 100, 300, 1000, 3000])
    parser.add_argument("--show", type=numbers, default=[10], help="table: of these, each row")
    parser.add_argument("--seeds", type=numbers, default=[1])
    options = parser.parse_args()
    options.bin = dict(word.split("=", 1) for word in options.bin or [f"stowage={ROOT / 'build/release/stowage'}"])
    os.environ["XDG_CONFIG_HOME"] = os.devnull
    options.folder.mkdir(parents=True, exist_ok=True)
    {"run": run, "table": table, "plot": plot}[options.action](options)


if __name__ == "__main__":
    main()
