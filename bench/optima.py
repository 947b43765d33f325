#!/usr/bin/env python3
"""How often `optimize` finds the optimum of small task graphs: generated sets (optima_graphs.py) with CP-SAT's optima (optima_cpsat.py).

    bench/optima.py run   --store FILE.jsonl [--bin stowage] [--sets development] [--budget 1s] [--label NAME] [--seed N] [--jobs N] [--minutes N]
    bench/optima.py table --store FILE.jsonl [--sets acceptance] [--format text|markdown]

A run is `optimize` with one thread and a budget of processor time, so that a busy computer changes nothing. Runs that the store has
(instance, budget, label) are not made again. The table has a row per kind of graph and per size, for each label: the share of the
instances that CP-SAT closed on which the step is the optimum, and by how much it is above it, in the mean and at worst. Instances that it
did not close are told apart: how often the step is at most the best that CP-SAT found.
"""
import argparse
import json
import math
import pathlib
import sys

import optima_cpsat
import optima_graphs
from runs import Runs, about_this_place, append, lines_of, stamp, words

SIZES = [(10, 20), (21, 30), (31, 40)]


# ---- runs ----


class Searches(Runs):
    def __init__(self, waiting, options):
        super().__init__(waiting, options.jobs, 1, 60.0 * options.minutes)
        self.options, self.place = options, about_this_place(options.commit)

    def command_of(self, run, folder):
        graph, machine = optima_graphs.write(optima_graphs.make(run), pathlib.Path(folder))
        return [self.options.bin, "optimize", graph, "-m", machine, "--threads", "1", "--clock", "cpu", "--budget", self.options.budget,
                "--seed", str(self.options.seed), "--format", "json"]

    def likely_seconds(self, run):
        return 60.0  # of a very busy computer, on which a second of processor time may take long

    def name_of(self, run):
        return run

    def take(self, run, text, took):
        head = json.loads(text)
        record = {"bench": "optima", "name": run, "label": self.options.label, "budget": self.options.budget,
                  "step_us": round(head["step_s"] * 1e6, 6), "method": head["method"], "optimal": head["optimal"],
                  "search_s": round(sum(head["timings"]["search_s"]), 3), **stamp(self.options.jobs, self.place)}
        append(self.options.store, record)
        return f"{record['step_us']:g} us by {record['method']}"


def read_runs(store):
    return [record for record in map(json.loads, lines_of(store)) if record.get("bench") == "optima"]


def run(options):
    done = {(r["name"], r["budget"], r["label"]) for r in read_runs(options.store)}
    names = options.only.split(",") if options.only else [n for s in options.sets for n in optima_graphs.names_of(s)]
    return Searches([n for n in names if (n, options.budget, options.label) not in done], options).make_all()


# ---- the table ----


def gap_of(record, known):
    return record["step_us"] / known["step_us"] - 1.0


def row_of(name, records, optima):
    """What a group of runs came to."""
    closed = [r for r in records if r["name"] in optima and optima_cpsat.is_closed(optima[r["name"]])]
    gaps = [gap_of(r, optima[r["name"]]) for r in closed]
    for r, gap in zip(closed, gaps):
        if gap < -1e-9:
            raise RuntimeError(f"{r['name']}: {r['step_us']} us is less than CP-SAT's optimum of {optima[r['name']]['step_us']} us")
    hit = sum(gap < 1e-9 for gap in gaps)
    return [name, len(closed), hit, f"{100.0 * hit / len(closed):.1f} %" if closed else "-",
            f"{100.0 * math.fsum(gaps) / len(gaps):.3f} %" if gaps else "-", f"{100.0 * max(gaps):.2f} %" if gaps else "-",
            sum(bool(r["optimal"]) for r in closed)]


def open_row(name, records, optima):
    left = [r for r in records if r["name"] in optima and not optima_cpsat.is_closed(optima[r["name"]])]
    gaps = [gap_of(r, optima[r["name"]]) for r in left]
    above = [r["step_us"] / optima[r["name"]]["bound_us"] - 1.0 for r in left]
    return [name, len(left), sum(g < -1e-9 for g in gaps), sum(abs(g) <= 1e-9 for g in gaps), sum(g > 1e-9 for g in gaps),
            f"{100.0 * max(gaps):.2f} %" if gaps else "-", f"{100.0 * max(above):.2f} %" if above else "-",
            sum(bool(r["optimal"]) for r in left)]


def print_rows(head, rows, form):
    rows = [head] + [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[k]) for row in rows) for k in range(len(head))]
    for number, row in enumerate(rows):
        cells = [cell.ljust(width) if k == 0 else cell.rjust(width) for k, (cell, width) in enumerate(zip(row, widths))]
        print("| " + " | ".join(cells) + " |" if form == "markdown" else "  ".join(cells))
        if number == 0 and form == "markdown":
            print("| --- |" + " ---: |" * (len(head) - 1))


def groups_of(records):
    made = {r["name"]: optima_graphs.make(r["name"]) for r in records}
    yield "all", records
    for low, high in SIZES:
        yield f"{low} to {high} tasks", [r for r in records if low <= made[r["name"]]["tasks"] <= high]
    for kind in optima_graphs.KINDS:
        yield kind, [r for r in records if made[r["name"]]["kind"] == kind]


def table(options):
    optima = optima_cpsat.read_store(options.optima)
    chosen = {name for s in options.sets for name in optima_graphs.names_of(s)}
    records = [r for r in read_runs(options.store) if r["name"] in chosen]
    for label in dict.fromkeys(r["label"] for r in records):
        mine = [r for r in records if r["label"] == label]
        known = sum(r["name"] in optima for r in mine)
        print(f"\n{label}: {len(mine)} instances of {', '.join(options.sets)}, {known} with CP-SAT's result\n")
        print_rows(["closed by CP-SAT", "instances", "optimal", "share", "mean gap", "worst gap", "proved"],
                   [row_of(name, group, optima) for name, group in groups_of(mine)], options.format)
        print()
        print_rows(["not closed", "instances", "better", "equal", "worse", "worst", "above the bound", "proved"],
                   [row for row in (open_row(name, group, optima) for name, group in groups_of(mine)) if row[1] > 0], options.format)
        if options.misses:
            for r in mine:
                if r["name"] in optima and gap_of(r, optima[r["name"]]) > 1e-9:
                    made, best = optima_graphs.make(r["name"]), optima[r["name"]]
                    print(f"{r['name']}: {made['kind']}, {made['tasks']} tasks, {made['devices']} devices, ratio {made['ratio']}: "
                          f"{r['step_us']:g} us, {best['bound_us']} to {best['step_us']} by CP-SAT")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--store", type=pathlib.Path, required=True)
    parser.add_argument("--optima", type=pathlib.Path, default=optima_cpsat.STORE)
    parser.add_argument("--sets", type=words(list(optima_graphs.SETS)), default=["development"])
    parser.add_argument("--only", help="names of instances, separated by commas, in place of whole sets")
    parser.add_argument("--bin", default=str(optima_cpsat.ROOT / "build" / "release" / "stowage"))
    parser.add_argument("--budget", default="1s")
    parser.add_argument("--label", default="now")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--commit", help="what the program was built from; left out: the checkout's")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=0.0, help="begin nothing after this; 0: no end")
    parser.add_argument("--format", choices=["text", "markdown"], default="text")
    parser.add_argument("--misses", action="store_true", help="name the instances above the best that is known")
    options = parser.parse_args()
    return 0 if (run if options.what == "run" else table)(options) else 1


if __name__ == "__main__":
    sys.exit(main())
