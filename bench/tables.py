#!/usr/bin/env python3
"""The tables of README and docs/results.md: runs `stowage optimize` on many graphs and machines and prints Markdown.

    bench/tables.py readme           README's table: five graphs on h200xN, --evaluations 4000, so it repeats exactly
    bench/tables.py paper            the 14 rows of GO's table, on h200xN and h200xN-pcie, --budget 20s
    bench/tables.py all              every graph in data/graphs on h200x2, h200x4, h200x8, --budget 10s
    bench/tables.py memory           rows where neither one device nor a naive split holds the graph
    bench/tables.py quality          best step time after 0.1, 1, 10 and 60 seconds

The last four are on the machines of version 0.1 (0.1/h200xN), whose links charge nothing: the published tables are of these.
Options: --stowage PROGRAM, --budget TIME (of readme: evaluations), --jobs N (runs at once), --cores C (cores of each run, pinned when there are jobs),
--json FILE (all results, for other tools). Everything printed is what the program reported in these runs.

Every cell is from one run of `optimize` per row: within it the methods share the first 40 % of the budget, constructive ones all with the
rule upward-rank (`single`: the default, topological order), and heft and steer begin with the plans before them.
Definitions: gain of anneal = 1 - t(anneal) / t(best candidate before it). ratio = t / bound; the bound is the program's own: the largest
head + work / devices + tail over all thresholds, which no plan can beat. Geometric means are over the rows of a table.
Exits 1 if a table misses what is promised: `paper` the limits for the means and a gain on 10 of 14 rows, `all` never worse.
"""
import argparse
import concurrent.futures
import datetime
import json
import math
import os
import pathlib
import queue
import subprocess
import sys

os.environ["XDG_CONFIG_HOME"] = os.devnull  # the program is run without defaults of whoever runs this
ROOT = pathlib.Path(__file__).resolve().parent.parent
# graph, devices, and the bound (ms) that an earlier study computed by itself, with other estimates for ops without measured times
PAPER = [("rnnlm-2", 2, 8.16), ("rnnlm-4", 4, 6.86), ("rnnlm-8", 8, 10.97), ("gnmt-2", 2, 17.20), ("gnmt-4", 4, 13.97),
         ("gnmt-8", 8, 28.18), ("transformer-xl-2", 2, 9.22), ("transformer-xl-4", 4, 7.77), ("transformer-xl-8", 8, 14.09),
         ("inception-v3-b32", 2, 24.20), ("inception-v3-b64", 2, 43.96), ("amoebanet", 4, 73.42), ("wavenet-2x9", 2, 14.82),
         ("wavenet-4x9", 4, 28.74)]
LIMITS = {"h200xN": 1.15, "h200xN-pcie": 1.55}  # for the geometric mean of t / that bound
FIRST = "0.1/"  # before a machine's name in version 0.1; headings and stores of published tables leave it out
README = [("rnnlm-8", 8), ("gnmt-4", 4), ("transformer-xl-4", 4), ("inception-v3-b32", 2), ("amoebanet", 4)]
CHAINS = [("resnet50", 2, None), ("unet", 2, None)]  # hardly anything to gain from placement: apart, since they dilute means
MEMORY = [("gnmt-4", "h200x4", "1GB"), ("rnnlm-8", "h200x8", "1.4GB")]  # neither `single` nor `spread` fits
CURVE = [("rnnlm-4", "h200x4"), ("gnmt-8", "h200x8"), ("amoebanet", "h200x4-pcie")]
SEARCHES = ("anneal",)


class Runner:
    """Runs commands, several at once, each on cores of its own."""

    def __init__(self, options):
        self.program, self.jobs = options.stowage, options.jobs
        self.slots = queue.Queue()
        for job in range(self.jobs):
            self.slots.put(job)
        self.cores = options.cores

    def optimize(self, graph, machine, *arguments):
        slot = self.slots.get()
        command = [self.program, "optimize", str(ROOT / "data/graphs" / f"{graph}.json.gz"), "--machine", machine, "--tasks",
                   "placement,schedule", "--format", "json", "--threads", str(self.cores), *arguments]
        if self.jobs > 1:
            first = slot * self.cores
            command = ["taskset", "-c", f"{first}-{first + self.cores - 1}", *command]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        finally:
            self.slots.put(slot)
        if done.returncode not in (0, 1):
            sys.exit(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def map(self, calls):
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            return list(pool.map(lambda call: self.optimize(*call), calls))


def milliseconds(seconds):
    return "-" if seconds is None else f"{1e3 * seconds:.4g}"


def mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


def candidate(result, method):
    return next((entry for entry in result["candidates"] if entry["method"] == method), None)


def step_of(result, method):
    entry = candidate(result, method)
    return entry["step_s"] if entry is not None and entry["valid"] else None


def before_search(result):
    """The best valid candidate that is no search: where annealing begins."""
    valid = [entry for entry in result["candidates"] if entry["valid"] and entry["method"] not in SEARCHES]
    return min(valid, key=lambda entry: entry["value"]) if valid else None


def gain_of(result):
    start, anneal = before_search(result), step_of(result, "anneal")
    if start is None:
        return None
    return 0.0 if anneal is None else 1.0 - anneal / start["step_s"]


def table(heading, rows):
    print("| " + " | ".join(heading) + " |")
    print("|" + " --- |" * len(heading))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print()


METHODS = ["expert", "topo", "etf", "heft", "sct", "metis", "steer"]


def paper_table(title, rows, results, limit):
    print(f"### {title}\n")
    heading = ["graph, k", "single", *METHODS, "optimize", "anneal's gain", "bound", "ratio"]
    body = []
    for (graph, k, _), result in zip(rows, results):
        gain = gain_of(result)
        body.append([f"{graph}, {k}", *[milliseconds(step_of(result, name)) for name in ["single", *METHODS]],
                     f"**{milliseconds(result['step_s'])}**", f"{100 * gain:.2f} %", milliseconds(result["lower_bound_s"]),
                     f"{result['step_s'] / result['lower_bound_s']:.3f}"])
    table(heading, body)
    ratios = [result["step_s"] / result["lower_bound_s"] for result in results]
    gains = sum(gain_of(result) > 0 for result in results)
    print(f"Geometric mean of the ratio: {mean(ratios):.4f} over {len(rows)} rows. anneal gained on {gains} of {len(rows)} rows.")
    kept = True
    if rows is PAPER:
        study = mean([1e3 * result["step_s"] / bound for (_, _, bound), result in zip(rows, results)])
        print(f"By the bounds of the earlier study: {study:.4f} (at most {limit}).")
        kept = study <= limit and gains >= 10
    print(flush=True)
    return kept


def readme(runner, evaluations):
    results = runner.map([(graph, f"h200x{k}", "--evaluations", evaluations) for graph, k in README])
    body = []
    for (graph, k), result in zip(README, results):
        built = min(step for step in (step_of(result, name) for name in METHODS if name != "expert") if step is not None)
        body.append([f"{graph}, {k}", *[milliseconds(step) for step in (step_of(result, "single"), step_of(result, "expert"), built)],
                     f"**{milliseconds(result['step_s'])}**", milliseconds(result["lower_bound_s"])])
    table(["graph, devices", "default", "human expert's rules", "best constructive method", "optimize", "no plan is below"], body)
    return results, True


def paper(runner, budget):
    collected, kept = {}, True
    for suffix in ("", "-pcie"):
        for rows, name in ((PAPER, "h200xN" + suffix), (CHAINS, "chains, h200xN" + suffix)):
            results = runner.map([(graph, f"{FIRST}h200x{k}{suffix}", "--budget", budget) for graph, k, _ in rows])
            kept &= paper_table(f"{name}, step time in ms, --tasks placement,schedule --budget {budget}", rows, results, LIMITS.get(name))
            collected[name] = results
    return collected, kept


def graphs():
    return sorted(path.name.removesuffix(".json.gz") for path in (ROOT / "data/graphs").glob("*.json.gz"))


def every(runner, budget):
    names, machines = graphs(), ["h200x2", "h200x4", "h200x8"]
    results = runner.map([(graph, FIRST + machine, "--budget", budget) for graph in names for machine in machines])
    body, worse = [], 0
    for index, graph in enumerate(names):
        three = results[3 * index:3 * index + 3]
        cells = [graph, milliseconds(step_of(three[0], "single"))]
        for result in three:
            best = min(entry["value"] for entry in result["candidates"] if entry["valid"])
            worse += result["value"] > best
            cells.append(f"{milliseconds(result['step_s'])} ({step_of(result, 'single') / result['step_s']:.2f}x, {result['method']})")
        body.append(cells)
    print(f"### Every graph, step time in ms (speed-up = t(default) / t, method of the winner), --tasks placement,schedule --budget {budget}\n")
    table(["graph", "default", *machines], body)
    print(f"Worse than the default or any candidate of its own table: {worse} of {len(results)} runs.\n")
    return results, worse == 0


def memory(runner, budget):
    """The program's own tables: they say which plans lack memory and which were made to fit."""
    for graph, machine, limit in MEMORY:
        command = [runner.program, "optimize", str(ROOT / "data/graphs" / f"{graph}.json.gz"), "--machine", FIRST + machine, "--budget", budget,
                   "--tasks", "placement,schedule", "--memory", limit, "--format", "markdown", "--threads", str(runner.cores)]
        print(f"### {graph} on {machine}, --memory {limit}, --tasks placement,schedule --budget {budget}\n", flush=True)
        print(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return [], True


def quality(runner, _):
    budgets = ["0.1s", "1s", "10s", "60s"]
    results = runner.map([(graph, FIRST + machine, "--budget", budget) for graph, machine in CURVE for budget in budgets])
    body = []
    for index, (graph, machine) in enumerate(CURVE):
        four = results[4 * index:4 * index + 4]
        body.append([f"{graph}, {machine}", milliseconds(step_of(four[0], "single")),
                     *[milliseconds(result["step_s"]) for result in four], milliseconds(four[0]["lower_bound_s"])])
    print("### Best step time (ms) after so much time\n")
    table(["graph, machine", "default", *budgets, "bound"], body)
    return results, True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=["readme", "paper", "all", "memory", "quality"])
    parser.add_argument("--stowage", default=str(ROOT / "build/release/stowage"))
    parser.add_argument("--budget")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    function, budget = {"readme": (readme, "4000"), "paper": (paper, "20s"), "all": (every, "10s"), "memory": (memory, "20s"),
                        "quality": (quality, None)}[options.table]
    print(f"{datetime.date.today()}, {options.cores} cores per run, `bench/tables.py {options.table}`\n")
    results, kept = function(Runner(options), options.budget or budget)
    if options.json:
        options.json.write_text(json.dumps(results))
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
