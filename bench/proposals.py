#!/usr/bin/env python3
"""The bench of learned proposals: anneal at equal evaluations, blind and with moves chosen by a scorer, on families held out of its training.

    bench/proposals.py run [--untrained FILE,FILE,FILE]    makes the runs that the store lacks
    bench/proposals.py table                               prints Markdown from the store; exits 1 if a run is missing or a goal is not met

The untrained control goes by scorers as they are made, another one for each seed:
    stowage train --corpus all --hold-out bert,gpt,resnet,layered --learn proposals --learning-rate 0 --updates 1 --problems 4 --seed S -o FILE
Every finished run is a line of the store (--store FILE), so it can be stopped and goes on where it was. All begin with one plan for each
graph and machine: that of `optimize --policy none --evaluations 40`. The program's own scorer is used unless --scorer names another.
"""
import argparse
import json
import math
import os
import pathlib
import sys

from evaluations import ACCEPT, TRIALS
from runs import Runs, about_this_place, append, lines_of, print_places, stamp
from tables import ROOT

# name, devices, and what `stowage generate` makes it of; none: a file in data/graphs
ROWS = [("bert-base", 4, None), ("vit-b16", 4, None), ("gpt2", 4, None), ("llama-8x2048", 4, None), ("resnet50", 2, None),
        ("resnet-33", 4, "resnet --layers 33"), ("bert-experts", 8, "bert --layers 8 --experts 16"),
        ("layered-20", 4, "layered --layers 20 --seed 7"), ("layered-large", 8, "layered --layers 64 --steps 48 --seed 7")]
MACHINES = ["0.1/h200x{}", "0.1/h200x{}-pcie"]
CHARGED = ["h200x{}", "h200x{}-pcie"]
WAYS = ["blind", "scorer", "learning", "untrained", "untrained-learning", "shuffled"]  # learning: on, from the trials of the search
GOALS = {"0.1/h200x{}": 0.996, "0.1/h200x{}-pcie": 0.98}  # of untrained, at 300 and at 1,000 evaluations
WORST = 1.01
COLUMNS = [("scorer", "blind"), ("untrained", "blind"), ("shuffled", "blind"), ("scorer", "untrained"), ("learning", "scorer"),
           ("untrained-learning", "untrained"), ("learning", "untrained-learning")]
TASKS = "placement,schedule"


class Bench(Runs):
    def __init__(self, options, waiting):
        super().__init__(waiting, options.jobs, 1, options.limit)
        self.options, self.place = options, about_this_place(options.commit)

    def graph(self, name, made_of):
        if made_of is None:
            return str(ROOT / "data/graphs" / f"{name}.json.gz")
        path = self.options.folder / f"{name}.json.gz"
        if not path.exists() and made_of == "task":
            os.system(f"'{sys.executable}' '{ROOT}/bench/task_graphs.py' '{self.options.folder}' {name} && gzip -n '{self.options.folder}/{name}.json'")
        if not path.exists():
            os.system(f"'{self.options.bin}' generate {made_of} -o '{path}' > /dev/null")
        return str(path)

    def command_of(self, run, folder):
        name, machine, budget, way, seed = run
        made_of, *memory = next(row[2:] for row in ROWS if row[0] == name)
        memory = ["--memory", *memory] if memory else []
        graph = self.graph(name, made_of)
        start = self.options.folder / f"{name}-{machine.replace('/', '_')}.json"
        if not start.exists():
            os.system(f"'{self.options.bin}' optimize '{graph}' -m {machine} --policy none --evaluations 40 --threads 1 --tasks {TASKS} {' '.join(memory)} "
                      f"-o '{start}' > /dev/null 2>&1")
        scorer = ["--proposals", self.options.scorer] if self.options.scorer else []
        untrained = ["--proposals", self.options.untrained[(seed - 1) % len(self.options.untrained)]] if way.startswith("untrained") else []
        learning = ["--scorer-rate", "0.05"]
        how = {"blind": ["--policy", "none"], "scorer": scorer, "learning": [*scorer, *learning], "shuffled": [*scorer, "--shuffle-features"],
               "untrained": untrained, "untrained-learning": [*untrained, *learning]}[way]
        return [self.options.bin, "compare", graph, "-m", machine, "--from", str(start), "--methods", "anneal", "--tasks", TASKS, "--threads", "1",
                *(["--evaluations", str(budget)] if isinstance(budget, int) else ["--budget", budget, "--clock", "cpu"]), "--seed", str(seed),
                "--format", "json", *memory, *how]

    def likely_seconds(self, run):
        return run[2] * (0.1 if run[0] == "layered-large" else 0.01) if isinstance(run[2], int) else 3.0 * float(run[2].rstrip("s"))

    def take(self, run, text, took):
        name, machine, evaluations, way, seed = run
        method = json.loads(text)[0]["methods"][0]
        append(self.options.store, dict(row=name, machine=machine, evaluations=evaluations, way=way, seed=seed, step_s=method["step_s"],
                                        search_s=method["search_s"], **stamp(self.jobs, self.place)))
        return f"{1e3 * method['step_s']:.4f} ms"


def wanted(options):
    machines = CHARGED if options.charged else MACHINES
    return [(name, machine.format(devices), evaluations, way, seed) for evaluations in options.evaluations for machine in machines
            for name, devices, *_ in ROWS for seed in options.seeds for way in options.ways if not options.rows or name in options.rows]


def records_of(options):
    return {(r["row"], r["machine"], r["evaluations"], r["way"], r["seed"]): r for r in map(json.loads, lines_of(options.store))}


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def ratios(records, name, machine, evaluations, way, to, seeds):
    """Steps of one way over those of another with the same seed."""
    pairs = [(records.get((name, machine, evaluations, way, seed)), records.get((name, machine, evaluations, to, seed))) for seed in seeds]
    return [a["step_s"] / b["step_s"] for a, b in pairs if a and b]


def cell(values):
    if not values:
        return "-"
    spread = f" ({min(values):.3f} to {max(values):.3f})" if max(values) - min(values) > 5e-4 else ""
    return f"{mean(values):.3f}{spread}"


def words_of(budget):
    return f"{budget:,} evaluations" if isinstance(budget, int) else f"{budget} of processor time"


def print_table(options, records, machine, evaluations):
    """Returns whether the goals are met."""
    ways = {record["way"] for record in records.values()}
    columns = [column for column in COLUMNS if ways.issuperset(column)]
    print(f"\n## {machine.replace('{}', 'N')}, {words_of(evaluations)}\n")
    print("| graph, devices | blind, ms | " + " | ".join(f"{way} / {to}" for way, to in columns) + " | seconds, scorer over blind |")
    print("| --- | --- |" + " --- |" * (len(columns) + 1))
    means = {column: [] for column in columns}
    times, worst = [], (0.0, "")
    for name, devices, *_ in ROWS:
        where = (name, machine.format(devices), evaluations)
        blind = [records[(*where, "blind", seed)]["step_s"] for seed in options.seeds if (*where, "blind", seed) in records]
        if not blind:
            continue
        values = {column: ratios(records, *where, *column, options.seeds) for column in columns}
        for column in columns:
            means[column] += [mean(values[column])] if values[column] else []
        took = [mean([records[(*where, way, seed)]["search_s"] for seed in options.seeds if (*where, way, seed) in records])
                for way in ("scorer", "blind")]
        times.append(took[0] / took[1])
        worst = max(worst, (mean(values["scorer", "untrained"]), name)) if values.get(("scorer", "untrained")) else worst
        print(f"| {name}, {devices} | {1e3 * mean(blind):.4g} | " + " | ".join(cell(values[column]) for column in columns) + f" | {times[-1]:.2f} |")
    print("| geometric mean |  | " + " | ".join(f"**{mean(means[column]):.4f}**" for column in columns) + f" | {mean(times):.2f} |")
    goal = GOALS.get(machine)
    if goal is None or not means.get(("scorer", "untrained")):
        return True
    reached = mean(means["scorer", "untrained"])
    met = reached <= goal and worst[0] <= WORST
    print(f"\nScorer over untrained, at most {goal} and no row above {WORST}: {reached:.4f}, worst row {worst[1]} at {worst[0]:.3f}: "
          f"**{'met' if met else 'NOT met'}**")
    return met


def print_reached(options, records, machine):
    """Blind annealing at most evaluations against the scorer at fewer."""
    if options.budget:
        return
    most = max(options.evaluations)
    for fewer in sorted(options.evaluations)[:-1]:
        values = []
        for name, devices, *_ in ROWS:
            pairs = [(records.get((name, machine.format(devices), fewer, "scorer", seed)), records.get((name, machine.format(devices), most, "blind", seed)))
                     for seed in options.seeds]
            values += [mean([a["step_s"] / b["step_s"] for a, b in pairs])] if all(a and b for a, b in pairs) else []
        print(f"- {machine.replace('{}', 'N')}: scorer at {fewer:,} over blind at {most:,}: {mean(values):.4f} ({len(values)} rows)")


def table(options):
    records, runs = records_of(options), wanted(options)
    present = [records[run] for run in runs if run in records]
    print(f"{len(present)} of {len(runs)} runs are present. Seeds {', '.join(map(str, options.seeds))}.\n")
    print_places(present)
    machines = CHARGED if options.charged else MACHINES
    met = [print_table(options, records, machine, evaluations) for evaluations in options.evaluations for machine in machines]
    print()
    for machine in machines:
        print_reached(options, records, machine)
    return all(met) and len(present) == len(runs)


def main():
    numbers = lambda text: [int(word) for word in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "table"])
    parser.add_argument("--store", type=pathlib.Path, default=ROOT / "build/proposals.jsonl")
    parser.add_argument("--bin", default=str(ROOT / "build/release/stowage"), help="the program")
    parser.add_argument("--scorer", help="the scorer's file (default: the program's own)")
    parser.add_argument("--untrained", type=lambda text: text.split(","), default=[], help="files of scorers as they are made, one for each seed")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/proposals", help="for generated graphs and the plans that all begin with")
    parser.add_argument("--evaluations", type=numbers, default=[300, 1000])
    parser.add_argument("--seeds", type=numbers, default=[1, 2, 3])
    parser.add_argument("--ways", type=lambda text: text.split(","), default=WAYS, help=",".join(WAYS))
    parser.add_argument("--rows", type=lambda text: text.split(","))
    parser.add_argument("--charged", action="store_true", help="on the machines whose links charge, in place of those of version 0.1")
    parser.add_argument("--accept", action="store_true", help="the first rows of docs/results/learning.md, in place of those of proposals.md")
    parser.add_argument("--trials", action="store_true", help="the second, for a scorer that learns on from what is tried")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    parser.add_argument("--limit", type=float, help="seconds from now")
    parser.add_argument("--commit", help="what to call the program's commit where there is no git")
    parser.add_argument("--budget", type=lambda text: text.split(","), help="seconds of processor time, such as 2s, in place of --evaluations")
    options = parser.parse_args()
    options.evaluations = options.budget or options.evaluations
    if options.accept or options.trials:
        ROWS[:] = TRIALS if options.trials else ACCEPT
    os.environ["XDG_CONFIG_HOME"] = os.devnull
    if options.action == "table":
        sys.exit(0 if table(options) else 1)
    if any(way.startswith("untrained") for way in options.ways) and not options.untrained:
        parser.error("--untrained: the control needs files of scorers; or leave it out with --ways")
    options.folder.mkdir(parents=True, exist_ok=True)
    known = records_of(options)
    sys.exit(0 if Bench(options, [run for run in wanted(options) if run not in known]).make_all() else 1)


if __name__ == "__main__":
    main()
