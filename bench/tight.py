#!/usr/bin/env python3
"""Memory so tight that plans are rare: which memories `optimize` finds a plan for, how soon, and how fast the plan is.

    bench/tight.py least SET         the least memory known of each case of a set, kept in a file (bench/tight_least.json)
    bench/tight.py run SET           every case with 1.05, 1.1, 1.25 and 1.5 times that, by each program and with each seed
    bench/tight.py table SET         what the store has of that, as Markdown: the programs side by side
    bench/tight.py impossible SET    every case with 0.99 times its proved bound: the answer and the time that it takes

Sets: `development` is what the search was made on; `acceptance`, `fresh` and `fresh2` are what docs/results/tight.md reports. `fresh` was
chosen when the method stood, `fresh2` before the next one was begun; no run of either had been seen. The least memory known is the
smallest --memory for which any run of `least` found a valid plan, whatever the program, the method and the length of the search:
`optimize --objective memory`, then a bisection with --memory. It only ever falls.

--programs NAME=PATH,... are the programs (build/release/stowage, called `now`); the last is compared with each before it. --jobs N runs
at once, each on a core of its own. Every run is a line of the store (--store FILE), known by case, memory, program (name and bytes), seed
and budget: `run` makes those that are not there, so it goes on where it was stopped, and other seeds or programs may be added later.
Other options: --seeds 1,2,..., --factors 1.05,1.1,..., --budget SECONDS (of processor time with one thread; 10), --case NAME (again for
more). `first` is when the method ended that had the first valid plan; of several seeds the latest, of steps the geometric mean.
Everything printed is what the programs reported in these runs.
"""
import argparse
import collections
import concurrent.futures
import datetime
import fcntl
import hashlib
import json
import math
import pathlib
import subprocess
import sys
import tempfile

from runs import Runs, about_this_place, append, lines_of, print_places, stamp
from tables import ROOT

LEAST = ROOT / "bench/tight_least.json"
FACTORS = (1.05, 1.1, 1.25, 1.5)
LONGER = 0.02  # what is told apart: rows that are longer by more

# name: (a graph of data/graphs, or what `generate` is asked for; machine)
SETS = {
    "development": {
        "gnmt-4": ("gnmt-4", "0.1/h200x4"),
        "gnmt-2x8": ("gnmt-2", "0.1/h200x8"),
        "rnnlm-4": ("rnnlm-4", "0.1/h200x4"),
        "transformer-xl-4": ("transformer-xl-4", "h200x4"),
        "gpt-32": ("gpt --layers 32 --width 512 --batch 8", "0.1/h200x4"),
        "moe-8": ("gpt --layers 8 --width 512 --experts 8", "0.1/h200x4"),
        "gpt-48x8": ("gpt --layers 48 --width 640 --batch 6", "0.1/h200x8"),
        "transformer-xl-10": ("transformer-xl --layers 10 --width 640", "0.1/h200x4"),
        "moe-wide": ("bert --layers 6 --width 512 --experts 16", "h200x8"),
    },
    "acceptance": {
        "gnmt-8": ("gnmt-8", "0.1/h200x8"),
        "gpt-96": ("gpt --layers 96 --width 1024 --batch 5", "0.1/h200x4"),
        "moe-gpt-24": ("gpt --layers 24 --width 1024 --experts 16", "0.1/h200x4"),
        "moe-bert-12": ("bert --layers 12 --experts 32", "0.1/h200x8"),
    },
    "fresh": {
        "gnmt-6": ("gnmt --layers 6 --steps 40 --width 768", "0.1/h200x4"),
        "rnnlm-8": ("rnnlm --layers 8 --steps 30 --width 1024", "0.1/h200x8"),
        "gpt-64": ("gpt --layers 64 --width 768 --batch 6", "0.1/h200x8"),
        "bert-48": ("bert --layers 48 --width 1024 --batch 8", "0.1/h200x4"),
        "moe-gpt-16": ("gpt --layers 16 --width 768 --experts 8", "0.1/h200x8"),
        "moe-bert-18": ("bert --layers 18 --width 512 --experts 16", "0.1/h200x4"),
        "transformer-xl-12": ("transformer-xl --layers 12 --width 768", "0.1/h200x4"),
        "amoebanet-24": ("amoebanet --layers 24", "0.1/h200x4"),
    },
    "fresh2": {
        "wavenet-45": ("wavenet --layers 45 --width 384 --batch 16", "0.1/h200x4"),
        "unet-6": ("unet --layers 6 --width 96", "0.1/h200x4"),
        "resnet-50": ("resnet --layers 50 --width 96", "0.1/h200x8"),
        "inception-22": ("inception --layers 22 --batch 64", "0.1/h200x4"),
        "layered-48": ("layered --layers 48 --steps 24 --width 512 --seed 7", "0.1/h200x8"),
        "gpt-40": ("gpt --layers 40 --width 896 --batch 4", "0.1/h200x4"),
        "transformer-xl-16": ("transformer-xl --layers 16 --width 512 --steps 6", "0.1/h200x8"),
        "gnmt-3": ("gnmt --layers 3 --steps 48 --width 1280", "0.1/h200x4"),
    },
}

Run = collections.namedtuple("Run", "case memory program digest seed budget_s")


# ---- the program ----


def command_of(program, graph, machine, budget_s, *more):
    return [program, "optimize", graph, "--machine", machine, "--clock", "cpu", "--threads", "1", "--budget", f"{budget_s:g}s", "--format",
            "json", *more]


def optimize(program, graph, machine, budget_s, *more):
    command = command_of(program, graph, machine, budget_s, *more)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout), done.stderr.strip()


def graph_of(program, what, folder):
    if (ROOT / f"data/graphs/{what}.json.gz").exists():
        return str(ROOT / f"data/graphs/{what}.json.gz")
    path = pathlib.Path(folder) / (what.replace(" ", "_") + ".json.gz")
    if not path.exists():
        subprocess.run([program, "generate", *what.split(), "-o", str(path)], check=True, capture_output=True)
    return str(path)


def first_valid(plan):
    """Seconds until the method was done that had the first valid plan."""
    spent = 0.0
    for row, seconds in zip(plan["candidates"], plan["timings"]["search_s"]):
        spent += seconds
        if row["valid"]:
            return spent
    return None


# ---- the least memory known ----


def read_least():
    text = LEAST.read_text() if LEAST.exists() else ""
    return json.loads(text) if text else {}


def note_least(name, what, machine, plan, how):
    with open(LEAST, "a+") as file:  # of several cases one at a time
        fcntl.flock(file, fcntl.LOCK_EX)
        known = read_least()
        peak = max(plan["peak_bytes"])
        if name in known and known[name]["bytes"] <= peak:
            return
        known[name] = {"bytes": peak, "graph": what, "machine": machine, "how": how, "date": str(datetime.date.today())}
        file.truncate(0)
        file.write(json.dumps(known, indent=1, sort_keys=True) + "\n")
    print(f"{name}: {peak / 1e9:.4f} GB by {how}", flush=True)


def find_least(options, program, name, graph):
    """Objective memory, then ever less memory in steps that halve when nothing fits."""
    what, machine = SETS[options.set][name]
    for tasks in ("placement,schedule,fusion", "placement,schedule"):
        plan, _ = optimize(program, graph, machine, options.budget, "--objective", "memory", "--tasks", tasks)
        if plan["valid"]:
            note_least(name, what, machine, plan, f"objective memory, {plan['method']}, {tasks}")
    step = 0.08
    while step >= 0.005:
        memory = int(read_least()[name]["bytes"] * (1 - step))
        found = False
        for tasks in ("placement,schedule,fusion", "placement,schedule"):
            plan, _ = optimize(program, graph, machine, options.budget, "--memory", str(memory), "--tasks", tasks)
            if plan["valid"]:
                note_least(name, what, machine, plan, f"--memory {memory}, {plan['method']}, {tasks}")
                found = True
                break
        if not found:
            step /= 2


def least(options, graphs):
    for program in options.programs.values():
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(lambda name, by=program: find_least(options, by, name, graphs[name]), graphs))
    return 0


# ---- the runs ----


class TightRuns(Runs):
    def __init__(self, options, graphs, waiting):
        super().__init__(waiting, options.jobs, 1, None)
        self.options, self.graphs, self.place = options, graphs, about_this_place()

    def command_of(self, run, folder):
        machine = SETS[self.options.set][run.case][1]
        return command_of(self.options.programs[run.program], self.graphs[run.case], machine, run.budget_s, "--memory", str(run.memory),
                          "--seed", str(run.seed))

    def likely_seconds(self, run):
        return 1.1 * run.budget_s + 2.0

    def take(self, run, text, took):
        plan = json.loads(text)
        found = {"valid": plan["valid"], "first_s": first_valid(plan), "step_s": plan["step_s"] if plan["valid"] else None,
                 "method": plan["method"], "lower_bound_s": plan["lower_bound_s"]}
        append(self.options.store, dict(run._asdict(), **found, **stamp(self.jobs, self.place)))
        return f"{1e3 * found['step_s']:.2f} ms by {found['method']}" if found["valid"] else "none"


def read_store(path):
    return {Run(*[record[field] for field in Run._fields]): record for record in map(json.loads, lines_of(path))}


def wanted(options):
    """Rows of the table, with their runs by program: (case, factor) to {program: [run of each seed]}."""
    known, rows = read_least(), {}
    digests = {name: hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()[:12] for name, path in options.programs.items()}
    for case in options.cases:
        if case not in known:
            sys.exit(f"{case}: no memory is known to do; first: bench/tight.py least {options.set} --case {case}")
        for factor in options.factors:
            memory = int(known[case]["bytes"] * factor)
            rows[case, factor] = {name: [Run(case, memory, name, digest, seed, options.budget) for seed in options.seeds]
                                  for name, digest in digests.items()}
    return rows


def run(options, graphs):
    store = read_store(options.store)
    runs = [run for row in wanted(options).values() for by in row.values() for run in by if run not in store]
    return 0 if TightRuns(options, graphs, runs).make_all() else 1


# ---- the table ----


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def cell_of(records):
    """Latest first plan, mean step of what was solved (s), and how many seeds were not."""
    solved = [record for record in records if record["valid"]]
    if not solved:
        return None, None, len(records)
    return max(record["first_s"] for record in solved), mean([record["step_s"] for record in solved]), len(records) - len(solved)


def print_summary(names, cells):
    """cells: of each row {program: cell}."""
    last = names[-1]
    for name in names:
        solved = [row[name] for row in cells.values() if row[name][2] == 0]
        latest = max((first for first, _, _ in solved), default=0.0)
        print(f"- `{name}`: {len(solved)} of {len(cells)} solved with every seed, the latest first plan after {latest:.2f} s")
    for name in names[:-1]:
        both = {key: row[last][1] / row[name][1] for key, row in cells.items() if row[last][2] == 0 and row[name][2] == 0}
        if not both:
            continue
        longer = [f"{case} at {factor:g} ({100 * (ratio - 1):.1f} %)" for (case, factor), ratio in both.items() if ratio > 1 + LONGER]
        print(f"- `{last}` / `{name}`: {mean(both.values()):.4f} in the geometric mean of {len(both)} rows; longer by more than "
              f"{100 * LONGER:g} %: {', '.join(longer) if longer else 'none'}")


def table(options, _):
    store, names, missing = read_store(options.store), list(options.programs), 0
    head = ["case", "devices", "times the least", "memory GB", *[f"{what} {name}" for name in names for what in ("first", "step ms")],
            *[f"{names[-1]} / {name}" for name in names[:-1]]]
    lines, cells, used = [], {}, []
    for (case, factor), row in wanted(options).items():
        found = {name: [store[run] for run in by if run in store] for name, by in row.items()}
        missing += sum(len(row[name]) - len(found[name]) for name in names)
        used += [record for by in found.values() for record in by]
        cell = cells[case, factor] = {name: cell_of(found[name]) for name in names}
        line = [case, SETS[options.set][case][1], f"{factor:g}", f"{row[names[0]][0].memory / 1e9:.3f}"]
        for first, step, failed in cell.values():
            less = f" ({failed} none)" if step is not None and failed else ""
            line += ["none", "-"] if step is None else [f"{first:.2f} s{less}", f"{1e3 * step:.2f}"]
        steps = [cell[name][1] for name in names]
        lines.append(line + ["-" if None in (steps[-1], step) else f"{steps[-1] / step:.3f}" for step in steps[:-1]])
    if missing:
        print(f"{missing} runs are not in {options.store}; first: bench/tight.py run {options.set}, with the same options", file=sys.stderr)
        return 1
    print(f"{options.budget:g} s of processor time, one thread, seeds {','.join(map(str, options.seeds))}\n")
    print(f"| {' | '.join(head)} |\n| --- | --- |{' ---: |' * (len(head) - 2)}")
    print("\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n")
    print_summary(names, cells)
    print()
    print_places(used)
    return 0


# ---- where nothing fits ----


def impossible(options, graphs):
    program = list(options.programs.values())[-1]
    print(f"{datetime.date.today()}, {options.budget:g} s of processor time, one thread\n\n| case | memory GB | search | what is said |")
    print("| --- | ---: | ---: | --- |")
    for case, graph in graphs.items():
        machine = SETS[options.set][case][1]
        plan, _ = optimize(program, graph, machine, 2, "--objective", "memory")
        memory = int(plan["lower_bound_bytes"] * 0.99)
        plan, said = optimize(program, graph, machine, options.budget, "--memory", str(memory))
        print(f"| {case} | {memory / 1e9:.3f} | {sum(plan['timings']['search_s']):.2f} s | {said} |", flush=True)
    return 0


def programs(text):
    pairs = [pair.split("=", 1) for pair in text.split(",")]
    for pair in pairs:
        if len(pair) != 2 or not pathlib.Path(pair[1]).is_file():
            raise argparse.ArgumentTypeError(f"not NAME=PATH of a program: {'='.join(pair)}")
    return {name: str(pathlib.Path(path).resolve()) for name, path in pairs}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("least", "run", "table", "impossible"))
    parser.add_argument("set", choices=sorted(SETS))
    parser.add_argument("--programs", type=programs, default=f"now={ROOT / 'build/release/stowage'}")
    parser.add_argument("--budget", type=float, default=10.0)
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[1])
    parser.add_argument("--factors", type=lambda text: [float(factor) for factor in text.split(",")], default=FACTORS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--store", type=pathlib.Path, default=ROOT / "build/tight.jsonl")
    parser.add_argument("--case", action="append")
    options = parser.parse_args()
    options.cases = [name for name in SETS[options.set] if not options.case or name in options.case]
    with tempfile.TemporaryDirectory() as folder:
        made = {}
        if options.what != "table":
            program = list(options.programs.values())[-1]
            made = {name: graph_of(program, SETS[options.set][name][0], folder) for name in options.cases}
        return globals()[options.what](options, made)


if __name__ == "__main__":
    sys.exit(main())
