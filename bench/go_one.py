#!/usr/bin/env python3
"""The bench of the policy: `go-one` on the 14 rows of GO's table, on h200xN and h200xN-pcie, against what it must beat.

    bench/go_one.py                  makes the runs that the store lacks
    bench/go_one.py --table          prints Markdown from the store: tables, goals, where anneal is better

Every finished run is a line of the store (--store FILE), so the bench can be stopped and goes on where it was. --deadline SECONDS starts
nothing that could not end in time. A store made elsewhere is added with another --store; new runs go to the first. A run is known by
graph, machine, what, seed, threads and seconds: --table shows those of the same --threads and --seconds-scale. A store of
bench/table2.py (plain or .gz) may be added too: its runs of anneal and of go-one alone are the same calls.
`--table` exits 1 if a run is missing or a goal is not met.
"""
import argparse
import collections
import datetime
import json
import os
import pathlib
import re
import shlex
import sys

from runs import Runs, about_this_place, append, lines_of, number, print_places, stamp, words
from tables import FIRST, PAPER, ROOT, mean, milliseconds, table

LONG = {"rnnlm-8": 300, "gnmt-8": 300, "transformer-xl-8": 300}  # seconds; the other rows have SHORT
SHORT, BUILD = 60, 20  # BUILD: of each method that builds plans
SUFFIX = {"h200xN": "", "h200xN-pcie": "-pcie"}
Y0 = ["expert", "metis", "etf", "heft", "sct", "topo", "spread"]
PAPER_ROWS = ["rnnlm-2", "gnmt-4", "inception-v3-b32"]  # of the preset `paper`, on h200xN
POLICY = ["--methods", "go-one"]
# What is run: the budget (search: that of the row; build: BUILD; none) and the arguments. The order breaks ties between equal budgets.
WHAT = {
    "constructive": ("build", ["--methods", "single," + ",".join(Y0)]),
    "constants": ("none", ["--updates", "1", "--learning-rate", "0"]),
    "steer": ("build", ["--methods", "steer"]),
    "go-one": ("search", POLICY),
    "control": ("search", [*POLICY, "--learning-rate", "0"]),
    "anneal": ("search", ["--methods", "anneal"]),
    "no-glue": ("search", [*POLICY, "--initial-plans", "no"]),
    "paper-cold": ("search", [*POLICY, "--preset", "paper", "--warm-start", "no"]),
    "paper-warm": ("search", [*POLICY, "--preset", "paper", "--warm-start", "yes"]),
}
NAMES = {"constants": "the 60 constants", "control": "the control", "no-glue": "go-one without glue"}

Run = collections.namedtuple("Run", "graph machine what seed threads seconds")


# ---- runs ----


def wanted_runs(options):
    runs = []
    for kind in options.machines:
        for graph, k, _ in PAPER:
            for what in options.what:
                if graph not in options.only or what.startswith("paper-") and (graph not in PAPER_ROWS or kind != "h200xN"):
                    continue
                runs += [run_of(graph, k, kind, what, seed, options) for seed in options.seeds]
    return runs


def run_of(graph, k, kind, what, seed, options):
    budget = {"search": LONG.get(graph, SHORT), "build": BUILD, "none": 0}[WHAT[what][0]]
    return Run(graph, f"h200x{k}{SUFFIX[kind]}", what, seed, options.threads, round(budget * options.seconds_scale, 6))


def from_table2(record):
    """A run of bench/table2.py as one of ours, or None: anneal, and go-one without initial plans."""
    what = {"anneal": "anneal", "go-one-alone": "no-glue"}.get(record["what"])
    if what is None:
        return None
    result = {field: record[field] for field in ("method", "step_s", "valid", "evaluations", "search_s")}
    return {"graph": record["row"], "machine": record["machine"], "what": what, "seed": record["seed"], "threads": record["threads"],
            "seconds": record["budget_s"], "results": [result], "bound_s": None, "took_s": record["search_s"], "jobs": record["jobs"],
            "date": record["date"], "commit": record["commit"], "cores": record["cores"], "cpu": record["processor"]}


def read_stores(paths):
    """Runs by what they are known by; where two stores have the same, the first."""
    store = {}
    for path in paths:
        for line in lines_of(path):
            try:
                record = json.loads(line)
                if record.get("bench") == "table2":
                    record = from_table2(record)
                    if record is None:
                        continue
                store.setdefault(Run(*[record[field] for field in Run._fields]), record)
            except (ValueError, KeyError):  # it was killed while it wrote
                print(f"{path.name}: passed over a broken line", file=sys.stderr)
    return store


def command_of(run, store, options, folder):
    graph = str(ROOT / "data/graphs" / f"{run.graph}.json.gz")
    common = [graph, "--machine", FIRST + run.machine, "--tasks", "placement,schedule", "--seed", str(run.seed), "--threads", str(run.threads),
              "--format", "json"]
    if run.what == "constants":
        return [options.bin, "train", *common, *WHAT[run.what][1], "--output", os.path.join(folder, "policy.stw")]
    budget = ["--budget", f"{run.seconds:g}s"]
    if run.what == "control":
        budget = ["--evaluations", str(store[run._replace(what="go-one")]["results"][0]["evaluations"])]
    return [options.bin, "compare", *common, *WHAT[run.what][1], *budget]


def results_of(text):
    """One entry per method, of `compare` or of `train`."""
    answer = json.loads(text)
    head = answer[0] if isinstance(answer, list) else answer
    entries = head["methods"] if isinstance(answer, list) else [answer]
    fields = ("method", "step_s", "valid", "evaluations", "search_s")
    return head["lower_bound_s"], [{field: entry.get(field) for field in fields} for entry in entries]


def likely_seconds(run):
    if WHAT[run.what][0] == "search":
        return 1.03 * run.seconds + 3.0
    return 30.0 if run.graph in LONG else 5.0  # as seen on a busy core


class Bench(Runs):
    """First the short ones that all others are compared with, then the longest first."""

    def __init__(self, options, store, runs):
        rank = {what: index for index, what in enumerate(WHAT)}
        waiting = sorted((run for run in runs if run not in store),
                         key=lambda run: (WHAT[run.what][0] == "search", -run.seconds, run.seed, rank[run.what]))
        super().__init__(waiting, options.jobs, options.threads, options.deadline)
        self.options, self.store = options, store
        self.place = about_this_place(options.commit)

    def command_of(self, run, folder):
        return command_of(run, self.store, self.options, folder)

    def likely_seconds(self, run):
        return likely_seconds(run)

    def is_ready(self, run):
        return super().is_ready(run) and (run.what != "control" or run._replace(what="go-one") in self.store)

    def name_of(self, run):
        return f"{run.graph} {run.machine} {run.what} seed {run.seed}"

    def take(self, run, text, took):
        bound, results = results_of(text)
        record = dict(run._asdict(), results=results, bound_s=bound, took_s=round(took, 3), **stamp(self.jobs, self.place))
        self.store[run] = record
        append(self.options.store[0], record)
        best = min((result["step_s"] for result in results if result["valid"]), default=None)
        return f"{milliseconds(best)} ms"


# ---- the best plans known ----


def known_before(path):
    """(graph, machine) -> the smallest step time (s) in the tables of the results."""
    known, heading, columns = {}, "", []

    def add(graph, machine, text):
        value = re.match(r"\**([\d.]+)", text)
        if value:
            known[graph, machine] = min(known.get((graph, machine), float("inf")), 1e-3 * float(value.group(1)))

    for line in path.read_text().splitlines():
        if line.startswith("#"):
            heading, columns = line.strip("# "), []
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        columns = columns or cells
        row = dict(zip(columns, cells))
        paper = re.match(r"(h200xN(-pcie)?), step time", heading)
        tight = re.match(r"(\S+) on (h200x\S+), --memory", heading)
        if paper and re.match(r"\S+, \d", cells[0]):
            graph, k = cells[0].split(", ")
            add(graph, f"h200x{k}{SUFFIX[paper.group(1)]}", row["optimize"])
        elif heading.startswith("Every graph"):
            for machine in (column for column in columns if column.startswith("h200x")):
                add(cells[0], machine, row[machine])
        elif tight and row.get("state", "").strip("*") == "valid":  # a plan that needs less memory is a plan
            add(tight.group(1), tight.group(2), row["step time"])
        elif heading.startswith("Best step time") and re.match(r"\S+, h200x", cells[0]):
            for column in columns[2:-1]:
                add(*cells[0].split(", "), row[column])
    return known


# ---- the table ----


class Row:
    """What the store has for one graph on one machine. Step times in s."""

    def __init__(self, graph, k, kind, store, before, options):
        self.graph, self.k, self.machine, self.store, self.options = graph, k, f"h200x{k}{SUFFIX[kind]}", store, options
        self.kind = kind
        everything = [result["step_s"] for run, record in store.items() if (run.graph, run.machine) == (graph, self.machine)
                      for result in record["results"] if result["valid"]]
        before = before.get((graph, self.machine))
        self.best = min(everything + ([before] if before else []), default=None)

    def records(self, what):
        found = [self.store.get(run_of(self.graph, self.k, self.kind, what, seed, self.options)) for seed in self.options.seeds]
        return [record for record in found if record]

    def entries(self, what):
        """One per seed: of a single method; of `y0` the best; valid ones."""
        if what in ("single", "y0", *Y0):
            names = Y0 if what == "y0" else [what]
            each = [[result for result in record["results"] if result["method"] in names and result["valid"]]
                    for record in self.records("constructive")]
            return [min(results, key=lambda result: result["step_s"]) for results in each if results]
        return [record["results"][0] for record in self.records(what) if record["results"][0]["valid"]]

    def average(self, what, field="step_s"):
        values = [entry[field] for entry in self.entries(what)]
        return sum(values) / len(values) if values else None

    def limits(self, what):
        values = [entry["step_s"] for entry in self.entries(what)]
        return (min(values), max(values)) if values else None

    def cell(self, what, bold=False):
        average, limits = self.average(what), self.limits(what)
        if average is None:
            return "-"
        text = f"**{milliseconds(average)}**" if bold else milliseconds(average)
        seeds = len(self.entries(what))
        if milliseconds(limits[0]) != milliseconds(limits[1]):
            text += f" ({milliseconds(limits[0])} to {milliseconds(limits[1])})"
        return text if seeds == len(self.options.seeds) else f"{text}, {seeds} of {len(self.options.seeds)} seeds"

    def naive(self):
        values = [value for value in (self.average("single"), self.average("expert")) if value]
        return min(values) if len(values) == 2 else None

    def ratio(self, what, base="go-one"):
        """base / what; what: a name, `naive` or `best`."""
        below = self.naive() if what == "naive" else self.best if what == "best" else self.average(what)
        above = self.average(base)
        return above / below if above and below else None

    def room(self, limit):
        """What there is to gain over the better of single and expert: `best`, or `bound`, divided by it."""
        bounds = [record["bound_s"] for record in self.records("constructive")]
        value = self.best if limit == "best" else bounds[0] if bounds else None
        return value / self.naive() if value and self.naive() else None

    def control_is_cut_short(self):
        control, build = self.entries("control"), self.records("constructive")
        if not control or not build:
            return False
        full = sum(result["evaluations"] for result in build[0]["results"])
        return 0.1 * min(entry["evaluations"] for entry in control) < full or self.average("control") > self.average("y0")

    def name(self):
        return f"{self.graph}, {self.k}"


def mean_of(rows, function):
    values = [value for value in map(function, rows) if value]
    return (mean(values) if values else None), len(values)


def print_machine(kind, rows):
    print(f"## {kind}\n\nStep time in ms.\n")
    shown = ["constants", "steer", "control"]
    heading = ["graph, k", "single", "expert", "y0", "constants", "steer", "control", "go-one", "without glue", "anneal", "best known",
               "go-one / best known", "evaluations", "search, s"]
    body = []
    for row in rows:
        start = row.entries("y0")
        body.append([row.name(), row.cell("single"), row.cell("expert"), row.cell("y0") + (f" {start[0]['method']}" if start else ""),
                     *[row.cell(what) for what in shown], row.cell("go-one", True), row.cell("no-glue"), row.cell("anneal"),
                     milliseconds(row.best), number(row.ratio("best"), "{:.3f}"), number(row.average("go-one", "evaluations"), "{:,.0f}"),
                     number(row.average("go-one", "search_s"), "{:.1f}")])
    over = ["single", "expert", "y0", *shown, None, "no-glue", "anneal", "best"]
    means = [mean_of(rows, lambda row, what=what: row.ratio(what))[0] if what else None for what in over]
    cells = [number(value, "{:.3f}") for value in means]
    cells[over.index(None)] = ""
    body.append(["go-one / this, geometric mean", *cells, cells[-1], "", ""])
    table(heading, body)
    print("Evaluations, and seconds of search, mean of the seeds:\n")
    searches = ["constants", "steer", "control", "go-one", "no-glue", "anneal"]
    body = [[row.name(), *[f"{row.average(what, 'evaluations'):,.0f} in {row.average(what, 'search_s'):.3g} s" if row.entries(what) else "-"
                           for what in searches]] for row in rows]
    table(["graph, k", *[NAMES.get(what, what) for what in searches]], body)


def goal(text, rows, what, limit, goals):
    """A line of the list: go-one / what, at most the limit. Without a limit it is only told."""
    value, count = mean_of(rows, lambda row: row.ratio(what))
    if value is None:
        verdict = "no runs yet"
    else:
        worst = max((row for row in rows if row.ratio(what)), key=lambda row: row.ratio(what))
        side = "below" if value <= 1 else "above"
        seen = f"{value:.4f} ({100 * abs(1 - value):.1f} % {side}), worst row {worst.graph} at {worst.ratio(what):.3f}"
        over = sum(1 for row in rows if limit and row.ratio(what) and row.ratio(what) > limit)
        rest = "" if count == len(rows) else f", on {count} of {len(rows)} rows only"
        if limit is None:
            verdict = f"{seen}{rest}; no goal"
        else:
            verdict = f"{seen}; {over} of {count} rows above {limit}{rest}: **{'met' if value <= limit else 'NOT met'}**"
    if limit is not None:
        goals.append(value is not None and value <= limit and count == len(rows))
    print(f"- {text}: {verdict}")


def print_goals(machines):
    print("## Goals\n\ngo-one divided by each, geometric mean over the rows of the mean of the seeds.\n")
    goals = []
    for kind, rows in machines.items():
        best, bound = [mean_of(rows, lambda row, limit=limit: row.room(limit))[0] for limit in ("best", "bound")]
        if best and bound:
            print(f"Over the better of single and expert on {kind}, the best plans known gain {100 * (1 - best):.1f} %, and no plan can gain "
                  f"more than {100 * (1 - bound):.1f} % (the lower bounds).\n")
    for kind, rows in machines.items():
        goal(f"{kind}, the better of single and expert" + (" (at most 0.75)" if kind == "h200xN" else ""), rows, "naive",
             0.75 if kind == "h200xN" else None, goals)
        goal(f"{kind}, the best plan known (at most 1.05)", rows, "best", 1.05, goals)
        for what in ("y0", "constants", "control"):
            goal(f"{kind}, {NAMES.get(what, what)} (at most 0.98)", rows, what, 0.98, goals)
        for what in ("steer", "no-glue", "anneal"):
            goal(f"{kind}, {NAMES.get(what, what)}", rows, what, None, goals)
        weak = [row.graph for row in rows if row.control_is_cut_short()]
        if weak:
            print(f"- {kind}: on {', '.join(weak)} the control is put at a disadvantage: the methods that it begins with have a tenth "
                  "of its evaluations, which is less than they take in full.")
    print()
    return all(goals)


def print_anneal(machines):
    print("## Where anneal is better\n")
    for kind, rows in machines.items():
        both = [row for row in rows if row.ratio("anneal")]
        for row in both:
            if row.ratio("anneal") <= 1.0:
                continue
            apart = row.limits("anneal")[1] < row.limits("go-one")[0]
            few = len(row.entries("anneal")) < 2 or len(row.entries("go-one")) < 2
            note = "one seed says little" if few else "for every seed" if apart else "the ranges of the seeds overlap"
            print(f"- {row.graph} on {row.machine}: anneal is better, by {100 * (1 - 1 / row.ratio('anneal')):.2f} % "
                  f"({milliseconds(row.average('anneal'))} against {milliseconds(row.average('go-one'))} ms; {note}).")
        rest = [row.graph for row in both if row.ratio("anneal") <= 1.0]
        print(f"- {kind}: anneal is better on {len(both) - len(rest)} of {len(both)} rows with both; go-one is better or equal on "
              f"{', '.join(rest) or 'none'}.")
    print()


def print_paper(rows):
    print("## The preset `paper`\n\nA device for every unit of ops, named by the network as GO was published, without and with imitation of the best plan of other "
          "methods at the beginning. Step time in ms; evaluations in brackets.\n")
    body = []
    for row in rows:
        cells = [row.name(), row.cell("single"), row.cell("y0")]
        for what in ("paper-cold", "paper-warm"):
            cells.append(row.cell(what) + (f" [{row.average(what, 'evaluations'):,.0f}]" if row.entries(what) else ""))
        body.append([*cells, row.cell("go-one")])
    table(["graph, k", "single", "y0", "paper, from nothing", "paper, warm start", "go-one"], body)


def print_head(runs, store, options):
    present = [store[run] for run in runs if run in store]
    arguments = [os.path.basename(word) if "/" in word else word for word in sys.argv[1:]]
    print(f"# go-one\n\nPrinted by `bench/go_one.py {' '.join(map(shlex.quote, arguments))}` on {datetime.date.today()}. "
          f"{len(present)} of {len(runs)} runs are present{'' if len(present) == len(runs) else '; what is missing shows as -'}. "
          f"Seeds {', '.join(map(str, options.seeds))}; `--threads {options.threads}`; times for several devices are simulated.\n")
    scale = options.seconds_scale
    if scale != 1:
        print(f"**A quick try: all budgets of time times {scale:g}.**\n")
    print_places(present)
    print(f"""
A cell is the mean of the seeds, with the smallest and the largest where they differ. Every run is one call of `stowage compare GRAPH
--machine M --seed S --threads {options.threads}`, {SHORT * scale:g} s, or {300 * scale:g} s for {', '.join(LONG)}:

- single, expert: by themselves, {BUILD * scale:g} s at most, as all that build plans.
- y0: the best of {', '.join(Y0)}, and which (of the first seed).
- constants: the best of y0 and 60 decodes of the steered list scheduler with the same knobs for all units (`train --updates 1
  --learning-rate 0`, which tries them first and then 16 samples and a greedy plan, so it errs to the better side).
- steer: the method by itself, {BUILD * scale:g} s at most: up to nine rounds of 60 constants, beginning with expert, etf and heft.
- control: go-one with `--learning-rate 0` and as many evaluations as the run of go-one with the same seed.
- without glue: `--initial-plans no`, from nothing. anneal: the same time as go-one.
- best known: the smallest of all runs in the store and of the tables of [results](../results.md).
""")
    return len(present) == len(runs)


def print_all(runs, store, options):
    before = known_before(ROOT / "docs/results.md")
    graphs = [(graph, k) for graph, k, _ in PAPER if graph in options.only]
    machines = {kind: [Row(graph, k, kind, store, before, options) for graph, k in graphs] for kind in options.machines}
    complete = print_head(runs, store, options)
    for kind, rows in machines.items():
        print_machine(kind, rows)
    kept = print_goals(machines)
    print_anneal(machines)
    if "h200xN" in machines:
        print_paper([row for row in machines["h200xN"] if row.graph in PAPER_ROWS])
    return complete and kept


# ---- the command line ----


def main():
    graphs = [graph for graph, _, _ in PAPER]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="print, run nothing")
    parser.add_argument("--store", action="append", type=pathlib.Path, help="default build/go_one.jsonl")
    parser.add_argument("--bin", default=str(ROOT / "build/release/stowage"), help="the program")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once, each on cores of its own where there are enough")
    parser.add_argument("--threads", type=int, default=2, help="of each run")
    parser.add_argument("--seconds-scale", type=float, default=1.0, help="multiplies the budgets, for quick tries")
    parser.add_argument("--deadline", type=float, help="seconds from now")
    parser.add_argument("--only", type=words(graphs), default=graphs, metavar="GRAPH,...")
    parser.add_argument("--machines", type=words(list(SUFFIX)), default=list(SUFFIX), metavar=",".join(SUFFIX))
    parser.add_argument("--what", type=words(list(WHAT)), default=list(WHAT), metavar="WHAT,...", help=", ".join(WHAT))
    parser.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")], default=[1, 2, 3])
    parser.add_argument("--commit", help="what to call the program's commit where there is no git")
    options = parser.parse_args()
    options.store = options.store or [ROOT / "build/go_one.jsonl"]
    if not options.table and not os.access(options.bin, os.X_OK):
        parser.error(f"there is no program {options.bin}: build it, or name it with --bin")
    if options.jobs < 1 or options.threads < 1 or options.seconds_scale <= 0:
        parser.error("--jobs, --threads and --seconds-scale must be more than 0")
    runs, store = wanted_runs(options), read_stores(options.store)
    if options.table:
        sys.exit(0 if print_all(runs, store, options) else 1)
    try:
        sys.exit(0 if Bench(options, store, runs).make_all() else 1)
    except KeyboardInterrupt:
        print("interrupted; what is finished is in the store", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
