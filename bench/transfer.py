#!/usr/bin/env python3
"""The bench of transfer: a policy pre-trained without a family, on that family's graphs of GO's table.

    bench/transfer.py train --policies DIR      a policy per family that is left out and seed: DIR/FAMILY-SEED.stw, .csv (its curve), .json
    bench/transfer.py run --policies DIR        makes the runs that the store lacks
    bench/transfer.py table                     prints Markdown from the store; exits 1 if a run is missing or a goal is not met
    bench/transfer.py ablate train|run|table    networks without a part, other rounds and units; all six families are left out at once

Every finished run is a line of the store (--store FILE), so all of it can be stopped and goes on where it was, a training by --updates in
the middle. --limit SECONDS starts nothing that could not end in time. A store made elsewhere is added with another --store; new runs go to the first. A run with a policy is
made again when the policy's file has changed; the last run counts.
"""
import argparse
import collections
import csv
import datetime
import hashlib
import io
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys

from go_one import SUFFIX, Y0
from runs import Runs, about_this_place, append, lines_of, number, print_places, stamp, words
from tables import PAPER, ROOT, mean, milliseconds, table

FAMILIES = ["rnnlm", "gnmt", "transformer-xl", "inception", "amoebanet", "wavenet"]
START_S = {"gnmt-8": 15.0, "transformer-xl-8": 7.0, "rnnlm-8": 6.0, "gnmt-4": 4.5, "gnmt-2": 2.5}  # to make y0, as seen; others: 2
OVER_8000_OPS = ["rnnlm-8", "gnmt-4", "gnmt-8", "transformer-xl-8"]  # not in the ablations
ENDS_BY_ITSELF = 200  # s; a tenth of it is the limit for the plans to begin with, which is more than they take
SEARCH_S = 2

# What is run: the policy (HELD_OUT: without the graph's family; or a name), the budget in seconds, the arguments, and how many times the
# time of y0 it takes, about.
HELD_OUT = "held out"
What = collections.namedtuple("What", "policy seconds arguments effort")
ZERO, SHUFFLE = ["--methods", "go-zero"], "--shuffle-features"
TRANSFER = {
    "y0": What(None, 20, ["--methods", ",".join(Y0)], 1.2),
    "constants": What(None, 0, ["--updates", "1", "--learning-rate", "0"], 1.2),
    "greedy": What(HELD_OUT, ENDS_BY_ITSELF, [*ZERO, "--decodes", "1"], 1.2),
    "go-zero": What(HELD_OUT, ENDS_BY_ITSELF, [*ZERO, "--decodes", "60"], 1.5),
    "untrained": What("untrained", ENDS_BY_ITSELF, [*ZERO, "--decodes", "60"], 1.5),
    "shuffled": What(HELD_OUT, ENDS_BY_ITSELF, [*ZERO, "--decodes", "60", SHUFFLE], 1.5),
    "go-tune": What(HELD_OUT, ENDS_BY_ITSELF, ["--methods", "go-tune"], 5.0),
    "anneal": What(None, None, ["--methods", "anneal"], 5.0),  # as long as go-tune took
    "constants + search": What(None, SEARCH_S, ["--methods", "anneal"], 0.0),
    "no policy + search": What("none", SEARCH_S, ["--methods", "optimize"], 0.0),
    "untrained + search": What("untrained", SEARCH_S, ["--methods", "optimize"], 0.0),
    "policy + search": What(HELD_OUT, SEARCH_S, ["--methods", "optimize"], 0.0),
}
NETWORKS = {"full": "", "no-attention": "attention_layers=0", "no-modulation": "modulation=0", "no-graphsage": "sage_layers=0",
            "no-segments": "segment=512"}
ABLATION = {
    "y0": TRANSFER["y0"], "constants": TRANSFER["constants"],
    **{f"greedy, {name}": TRANSFER["greedy"]._replace(policy=name) for name in NETWORKS},
    **{f"go-zero, {name}": TRANSFER["go-zero"]._replace(policy=name) for name in NETWORKS},
    **{f"go-zero, {count} decodes": What("full", ENDS_BY_ITSELF, [*ZERO, "--decodes", str(count)], 1.4) for count in (20, 40)},
    **{f"go-zero, {count} units": What("full", ENDS_BY_ITSELF, [*ZERO, "--units", str(count)], 1.6) for count in (32, 128, 512)},
    "go-tune, full": TRANSFER["go-tune"]._replace(policy="full"),
    "go-tune, untrained": TRANSFER["go-tune"]._replace(policy="untrained"),
    "go-one, 50 updates": What(None, ENDS_BY_ITSELF, ["--methods", "go-one", "--updates", "50"], 4.0),
}

Run = collections.namedtuple("Run", "graph machine what seed")


def family_of(graph):
    return next(family for family in FAMILIES if graph.startswith(family))


def policy_name(run, what):
    """Of the file that the run goes by, without .stw; None: it goes by none."""
    if run.what == "anneal":
        what = TRANSFER["go-tune"]  # its time
    if what.policy in (None, "none"):
        return None
    return f"{family_of(run.graph) if what.policy == HELD_OUT else what.policy}-{run.seed}"


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


# ---- training ----


def trainings(options):
    """name -> (families left out, other arguments)"""
    if options.ablate:
        every = {name: (FAMILIES, ["--network", network] if network else []) for name, network in NETWORKS.items()}
    else:
        every = {family: ([family], []) for family in options.families}
    every["untrained"] = (FAMILIES, None)
    return {f"{name}-{seed}": (held_out, seed, arguments) for name, (held_out, arguments) in every.items() for seed in options.seeds}


class Training(Runs):
    def __init__(self, options):
        self.options, self.wanted = options, trainings(options)
        self.folder = options.policies
        self.folder.mkdir(parents=True, exist_ok=True)
        waiting = [name for name in self.wanted if not (self.folder / f"{name}.json").exists()]
        waiting.sort(key=self.likely_seconds, reverse=True)
        super().__init__(waiting, options.jobs, options.threads, options.limit)
        self.place = about_this_place(options.commit)

    def name_of(self, run):
        return run

    def likely_seconds(self, run):
        if self.wanted[run][2] is None:
            return 20.0
        return 1.1 * self.options.seconds + 30.0  # validation is not all in the budget

    def part(self, name, ending):
        return self.folder / f"part-{name}.{ending}"

    def command_of(self, run, folder):
        held_out, seed, arguments = self.wanted[run]
        if arguments is None:  # a file of the network as it is made
            arguments = ["--updates", "1", "--problems", "1", "--learning-rate", "0"]
        elif self.options.updates:
            begun = ["--resume"] if self.part(run, "stw").exists() else []
            arguments = [*arguments, "--updates", str(self.options.updates), *self.options.arguments, *begun]
        else:
            arguments = [*arguments, "--budget", f"{self.options.seconds:g}s", *self.options.arguments]
        return [self.options.bin, "train", "--corpus", "all", "--hold-out", ",".join(held_out), "--seed", str(seed), "--threads",
                str(self.options.threads), "--format", "json", "--output", str(self.part(run, "stw")), "--curve",
                str(self.part(run, "csv")), *arguments]

    def take(self, run, text, took):
        held_out, seed, _ = self.wanted[run]
        answer = json.loads(text)
        end = [answer["seconds"], answer["updates"], *[answer.get(f"unseen_{what}") for what in ("greedy", "best", "constants")]]
        unwanted = {"--resume", "--output", "--curve", str(self.part(run, "stw")), str(self.part(run, "csv"))}  # paths say nothing elsewhere
        about = {"held_out": held_out, "seed": seed, "arguments": [word for word in self.command_of(run, "")[1:] if word not in unwanted],
                 "took_s": round(took, 1), "end": end, **stamp(self.jobs, self.place)}
        for ending in ("stw", "csv"):
            os.replace(self.part(run, ending), self.folder / f"{run}.{ending}")
        (self.folder / f"{run}.json").write_text(json.dumps(about, indent=1) + "\n")
        return f"{answer['updates']} updates, unseen: a round of moves {number(answer.get('unseen_moves'), '{:.4f}')}"


# ---- runs ----


def wanted_runs(options):
    runs = []
    for kind in SUFFIX:
        for graph, k, _ in PAPER:
            if graph not in options.rows or family_of(graph) not in options.families or options.ablate and graph in OVER_8000_OPS:
                continue
            runs += [Run(graph, f"h200x{k}{SUFFIX[kind]}", what, seed) for what in options.what for seed in options.seeds]
    return runs


def read_stores(paths):
    """Runs by what they are known by, and policies by name; the last line counts, and the first store before others."""
    store, policies, remarks = {}, {}, []
    for path in reversed(paths):
        for line in lines_of(path):
            try:
                record = json.loads(line)
                if "remark" in record:  # about the runs of this store, for its readers
                    remarks.append(record["remark"])
                elif "policy_name" in record:
                    policies[record["policy_name"]] = record
                else:
                    store[Run(*[record[field] for field in Run._fields])] = record
            except (ValueError, KeyError):  # it was killed while it wrote
                print(f"{path.name}: passed over a broken line", file=sys.stderr)
    return store, policies, remarks


def results_of(text):
    """The lower bound and an entry per method, from CSV: JSON has no notes."""
    results, bound = [], None
    for row in csv.DictReader(io.StringIO(text)):
        bound = float(row["lower_bound_s"])
        results.append({"method": row["method"], "step_s": float(row["step_s"]) if row["step_s"] else None, "valid": row["valid"] == "true",
                        "evaluations": int(row["evaluations"]), "search_s": float(row["search_s"]), "note": row["note"]})
    return bound, results


def results_of_train(text):
    answer, fields = json.loads(text), ("method", "step_s", "valid", "evaluations", "search_s", "note")
    return answer["lower_bound_s"], [{field: answer.get(field) for field in fields}]


def curve_of(path):
    """(seconds, update, greedy, best, constants, moves) of each validation."""
    fields = ("seconds", "update", *[f"validation_{what}" for what in ("greedy", "best", "constants", "moves")])
    with open(path, newline="") as file:
        return [[float(row[field]) for field in fields] for row in csv.DictReader(file) if row["validation_greedy"]]


class Bench(Runs):
    """The longest first."""

    def __init__(self, options, runs):
        self.options = options
        self.store, policies, _ = read_stores(options.store)
        self.digests = {path.stem: digest(path) for path in options.policies.glob("*.stw") if not path.stem.startswith("part-")}
        self.keep_policies(policies)
        missing = [run for run in runs if not self.is_there(run)]
        waiting = [run for run in missing if self.has_policy(run)]
        waiting.sort(key=lambda run: (-self.likely_seconds(run), run.what == "anneal", run.seed))
        super().__init__(waiting, options.jobs, 1, options.limit)
        self.failed = len(missing) - len(waiting)
        self.place = about_this_place(options.commit)

    def what(self, run):
        return self.options.known[run.what]

    def policy(self, run):
        return self.digests.get(policy_name(run, self.what(run)))

    def is_there(self, run):
        return run in self.store and self.store[run]["policy"] == self.policy(run)

    def keep_policies(self, known):
        """What they were trained with, and their curves, go to the store too: the table needs nothing else."""
        for name, value in self.digests.items():
            about = self.options.policies / f"{name}.json"
            if about.exists() and (name not in known or known[name]["policy"] != value):
                append(self.options.store[0], {"policy_name": name, "policy": value, "curve": curve_of(about.with_suffix(".csv")),
                                               **json.loads(about.read_text())})

    def has_policy(self, run):
        name = policy_name(run, self.what(run))
        if name is None:
            return True
        about = self.options.policies / f"{name}.json"
        if name not in self.digests or not about.exists():
            print(f"{self.name_of(run)}: there is no policy {name}", file=sys.stderr)
            return False
        if family_of(run.graph) not in json.loads(about.read_text())["held_out"]:
            sys.exit(f"{name}: was trained on {family_of(run.graph)}")
        return True

    def name_of(self, run):
        return f"{run.graph} {run.machine} {run.what} seed {run.seed}"

    def likely_seconds(self, run):
        what, tuned = self.what(run), self.store.get(run._replace(what="go-tune"))
        if run.what == "anneal" and tuned:
            return tuned["results"][0]["search_s"] + 2.0
        if what.seconds == SEARCH_S:
            return SEARCH_S + 2.0
        return 1.0 + what.effort * START_S.get(run.graph, 2.0)

    def is_ready(self, run):
        return super().is_ready(run) and (run.what != "anneal" or self.is_there(run._replace(what="go-tune")))

    def command_of(self, run, folder):
        what = self.what(run)
        common = [str(ROOT / "data/graphs" / f"{run.graph}.json.gz"), "--machine", run.machine, "--tasks", "placement,schedule", "--seed",
                  str(run.seed), "--threads", "1"]
        if run.what == "constants":
            return [self.options.bin, "train", *common, "--format", "json", *what.arguments, "--output", os.path.join(folder, "policy.stw")]
        seconds = self.store[run._replace(what="go-tune")]["results"][0]["search_s"] if what.seconds is None else what.seconds
        command = [self.options.bin, "compare", *common, "--format", "csv", "--budget", f"{seconds:.3f}s", *what.arguments]
        if what.policy == "none":
            return [*command, "--policy", "none"]
        return command if what.policy is None else [*command, "--policy", str(self.options.policies / f"{policy_name(run, what)}.stw")]

    def take(self, run, text, took):
        bound, results = results_of_train(text) if run.what == "constants" else results_of(text)
        record = dict(run._asdict(), results=results, bound_s=bound, policy=self.policy(run), took_s=round(took, 3),
                      **stamp(self.jobs, self.place))
        self.store[run] = record
        append(self.options.store[0], record)
        return f"{milliseconds(min((result['step_s'] for result in results if result['valid']), default=None))} ms"


def knows(program, option):
    return option in subprocess.run([program, "compare", "--help"], capture_output=True, text=True).stdout


# ---- a row of the tables ----


class Row:
    """A graph on a machine: what the store says about it."""

    def __init__(self, graph, k, kind, store, go_one, options):
        self.graph, self.kind, self.machine, self.name = graph, kind, f"h200x{k}{SUFFIX[kind]}", f"{graph}, {k}"
        self.store, self.go_one, self.seeds = store, go_one, options.seeds

    def record(self, what, seed):
        return (self.go_one if what == "go-one" else self.store).get(Run(self.graph, self.machine, what, seed))

    def best(self, what, seed):
        record = self.record(what, seed)
        valid = [result for result in record["results"] if result["valid"]] if record else []
        return min(valid, key=lambda result: result["step_s"]) if valid else None

    def value(self, what, seed):
        best = self.best(what, seed)
        return best["step_s"] if best else None

    def note(self, what, seed, pattern):
        """The groups of the pattern in the run's note, as numbers."""
        best = self.best(what, seed)
        found = re.search(pattern, best["note"] or "") if best else None
        return [float(group) for group in found.groups()] if found else None

    def from_note(self, what, seed):
        """Of go-zero, in s: the plan that it began with."""
        best = self.note(what, seed, r"best is at ([\d.]+) of")
        return self.value(what, seed) / best[0] if best else None

    def seconds(self, what, seed):
        if what == "start":
            return self.from_note("greedy", seed)
        return self.value(what, seed)

    def ratios(self, what, base="y0"):
        """what / base, each seed that has both."""
        pairs = [(self.seconds(what, seed), self.seconds(base, seed)) for seed in self.seeds]
        return [above / below for above, below in pairs if above and below]

    def ratio(self, what, base="y0"):
        values = self.ratios(what, base)
        return sum(values) / len(values) if values else None

    def cell(self, what):
        values = self.ratios(what)
        if not values:
            return "-"
        text = f"{sum(values) / len(values):.3f}"
        if f"{min(values):.3f}" != f"{max(values):.3f}":
            text += f" ({min(values):.3f} to {max(values):.3f})"
        return text if len(values) == len(self.seeds) else f"{text}, {len(values)} of {len(self.seeds)} seeds"

    def y0_cell(self):
        values = [self.best("y0", seed) for seed in self.seeds if self.best("y0", seed)]
        if not values:
            return "-"
        average = sum(value["step_s"] for value in values) / len(values)
        return f"{milliseconds(average)} {values[0]['method']}"


def over_rows(rows, what, base="y0"):
    """Geometric mean, median and how many rows."""
    values = [value for value in (row.ratio(what, base) for row in rows) if value]
    return (mean(values), statistics.median(values), len(values)) if values else (None, None, 0)


def ratio_table(rows, columns, names=None):
    body = [[row.name, row.y0_cell(), *[row.cell(what) for what in columns]] for row in rows]
    means = [over_rows(rows, what) for what in columns]
    body.append(["geometric mean", "", *[number(value[0], "**{:.4f}**") for value in means]])
    body.append(["median", "", *[number(value[1], "{:.4f}") for value in means]])
    table(["graph, k", "y0, ms", *[(names or {}).get(what, what) for what in columns]], body)


# ---- the table of transfer ----


COLUMNS = ["start", "constants", "greedy", "go-zero", "untrained", "shuffled", "go-tune", "go-one", "anneal",
           "constants + search", "no policy + search", "untrained + search", "policy + search"]
NAMES = {"greedy": "one decode"}


class Goals:
    """A list of lines, and whether all are met."""

    def __init__(self, machines):
        self.machines, self.all_met = machines, True

    def verdict(self, met):
        self.all_met &= met
        return f"**{'met' if met else 'NOT met'}**"

    def at_most(self, text, what, base, limit):
        for kind, rows in self.machines.items():
            value, _, count = over_rows(rows, what, base)
            if value is None:
                self.all_met = False
                print(f"- {kind}, {text}: no runs yet")
                continue
            worst = max((row for row in rows if row.ratio(what, base)), key=lambda row: row.ratio(what, base))
            within = sum(1 for row in rows if row.ratio(what, base) and row.ratio(what, base) <= limit)
            rest = "" if count == len(rows) else f", on {count} of {len(rows)} rows only"
            print(f"- {kind}, {text} (at most {limit:g}): {value:.4f}, worst row {worst.graph} at {worst.ratio(what, base):.3f}; "
                  f"{within} of {count} rows within{rest}: {self.verdict(value <= limit and count == len(rows))}")

    def keeps_to_decodes(self, most):
        """What is compared with 60 constants must not have more than 60."""
        rows = [row for kind, each in self.machines.items() if kind != "both" for row in each]
        found = [row.note(what, seed, r"(\d+) decodes") for row in rows for what in ("go-zero", "untrained", "shuffled") for seed in row.seeds]
        counts = [values[0] for values in found if values]
        if counts:
            print(f"- decodes of each run of go-zero, by its note (at most {most}): {min(counts):.0f} to {max(counts):.0f}: "
                  f"{self.verdict(max(counts) <= most)}")

    def shuffled(self, seeds):
        for kind, rows in self.machines.items():
            plain, shuffled = [per_seed(rows, what, seeds) for what in ("go-zero", "shuffled")]
            if len(plain) < 2 or len(shuffled) < 2:
                self.all_met = False
                print(f"- {kind}, shuffled features: no runs of two seeds yet")
                continue
            gap = sum(shuffled) / len(shuffled) - sum(plain) / len(plain)
            spread = max(max(values) - min(values) for values in (plain, shuffled))
            worse = sum(1 for row in rows if row.ratio("shuffled", "go-zero") and row.ratio("shuffled", "go-zero") > 1.0)
            print(f"- {kind}, shuffled features are worse by more than seeds differ: worse by {gap:+.4f} of y0 (geometric mean over the "
                  f"rows), seeds differ by {spread:.4f}; {worse} of {len(rows)} rows are worse: {self.verdict(gap > spread)}")


def per_seed(rows, what, seeds):
    """The geometric mean over the rows that all seeds have, for each seed."""
    complete = [row for row in rows if len(row.ratios(what)) == len(seeds)]
    return [mean([row.ratios(what)[index] for row in complete]) for index in range(len(seeds))] if complete else []


def print_goals(machines, seeds):
    print("## Goals\n\nGeometric means over the rows of the mean of the seeds.\n")
    goals = Goals(machines)
    goals.at_most("one decode, or the start where that is better, over y0", "greedy", "y0", 0.98)
    goals.at_most("60 decodes of go-zero over constants", "go-zero", "constants", 0.98)
    goals.keeps_to_decodes(60)
    goals.at_most("policy + search over constants + search", "policy + search", "constants + search", 0.98)
    goals.at_most("policy + search over no policy + search (`--policy none`)", "policy + search", "no policy + search", 0.98)
    goals.at_most("go-tune over go-one", "go-tune", "go-one", 1.0)
    goals.shuffled(seeds)
    print("\nNo goals:\n")
    for text, what, base in (("the start over y0: a gain that is not the policy's", "start", "y0"),
                             ("one decode over the start", "greedy", "start"),
                             ("60 decodes of go-zero over the start", "go-zero", "start"),
                             ("60 decodes of go-zero over those of an untrained network", "go-zero", "untrained"),
                             ("policy + search over untrained + search", "policy + search", "untrained + search"),
                             ("go-tune over anneal of the same time", "go-tune", "anneal")):
        for kind, rows in machines.items():
            print(f"- {kind}, {text}: {number(over_rows(rows, what, base)[0], '{:.4f}')}")
    print()
    return goals.all_met


def print_pairs(machines):
    print("## Row by row\n\nMean of the seeds.\n")
    pairs = [("go-zero", "constants"), ("go-zero", "untrained"), ("shuffled", "go-zero"),
             ("policy + search", "constants + search"),
             ("policy + search", "untrained + search"), ("go-tune", "go-one"), ("go-tune", "anneal")]
    body = [[f"{row.graph}, {row.machine}", *[number(row.ratio(*pair), "{:.3f}") for pair in pairs]]
            for rows in machines.values() for row in rows]
    table(["graph, machine", *[f"{above} / {below}" for above, below in pairs]], body)


def spread_cell(row, what):
    found = [row.note(what, seed, "knobs vary by " + ", ".join([r"([\d.e+-]+)"] * 4)) for seed in row.seeds]
    found = [values for values in found if values]
    return ", ".join(f"{sum(column) / len(column):.2f}" for column in zip(*found)) if found else "-"


def print_knobs(machines):
    print("## How much the knobs vary\n\nStandard deviation over the units of the four knobs; mean of the seeds. A policy that has learnt "
          "from moves alone uses the fourth: how promising it is that a unit moves. A network as it is made varies too, by 0.3.\n")
    table(["graph, machine", "go-zero", "untrained", "shuffled"],
          [[f"{row.graph}, {row.machine}", *[spread_cell(row, what) for what in ("go-zero", "untrained", "shuffled")]]
           for rows in machines.values() for row in rows])


def print_curves(policies):
    print("## Learning curves of the pre-trainings\n\nOn 16 problems that are not trained on: value over the best plan of other methods, "
          "geometric mean; constants: without a policy. By the share of the training.\n")
    body = []
    for name, record in sorted(policies.items()):
        if name.startswith("untrained"):
            continue
        curve = record["curve"]
        if len(curve) < 2:
            continue
        last, cells = curve[-1][1], []
        for tenth in range(11):
            seen = [point for point in curve if point[1] <= tenth * last / 10] or curve[:1]
            cells.append(number(seen[-1][5] if len(seen[-1]) > 5 else None, "{:.4f}"))
        body.append([name, f"{last:.0f} in {curve[-1][0]:.0f} s", *cells, f"{curve[-1][4]:.3f}"])
    table(["policy", "updates", *[f"{10 * tenth} %" for tenth in range(11)], "constants"], body)
    print("A cell is what one round of moves comes to: eight proposals, the nine that look most promising, and all that helped at once.\n")


def print_remarks(machines, store, policies, skipped):
    """What a reader of the tables should know that they do not show."""
    remarks = list(skipped)
    rows = [row for each in machines.values() for row in each]
    for row in rows:
        ours, theirs = row.record("y0", row.seeds[0]), row.record("go-one", row.seeds[0])
        if ours and theirs and abs(ours["bound_s"] / theirs["bound_s"] - 1.0) > 1e-9:
            remarks.append(f"{row.graph} on {row.machine}: the lower bound is not that of the run of go-one; its costs are others.")
    over = sorted({row.graph for row in rows for what in COLUMNS if what.endswith("+ search") for seed in row.seeds
                   if row.best(what, seed) and row.best(what, seed)["search_s"] > 1.25 * SEARCH_S})
    if over:
        remarks.append(f"searches of {SEARCH_S} s that took more than {1.25 * SEARCH_S:g} s: on {', '.join(over)}.")
    stale = sum(1 for run, record in store.items() if run.what in TRANSFER and policy_name(run, TRANSFER[run.what]) in policies
                and record["policy"] != policies[policy_name(run, TRANSFER[run.what])]["policy"])
    if stale:
        remarks.append(f"{stale} runs were made with other policies than the last ones of the same name.")
    if remarks:
        print("## Remarks\n")
        for remark in remarks:
            print(f"- {remark}")
        print()


def length_of(policy):
    """The arguments of its training that others have too."""
    own = ("--corpus", "--hold-out", "--seed", "--network", "--format")
    pairs = iter(policy["arguments"][1:])
    return " ".join(f"{option} {value}" for option, value in zip(pairs, pairs) if option not in own)


def print_head(title, runs, store, policies, options):
    present = [store[run] for run in runs if run in store]
    arguments = " ".join(shlex.quote(os.path.basename(word)) for word in sys.argv[1:])
    print(f"# {title}\n\nPrinted by `bench/transfer.py {arguments}` on "
          f"{datetime.date.today()}. {len(present)} of {len(runs)} runs are present"
          f"{'' if len(present) == len(runs) else '; what is missing shows as -'}. "
          f"Seeds {', '.join(map(str, options.seeds))}, of policy and run; `--threads 1`; times for several devices are simulated.\n")
    print_places(present)
    trained = [record for name, record in policies.items() if not name.startswith("untrained")]
    for (arguments, date, cpu, jobs, commit), count in sorted(collections.Counter(
            (length_of(record), record["date"], record["cpu"], record["jobs"], record["commit"]) for record in trained).items()):
        print(f"- {count} policies: trained with `{arguments}`, {jobs} at once, {date}, {cpu}, commit {commit}")
    print()
    return len(present) == len(runs)


def print_transfer(options):
    runs, (store, policies, said) = wanted_runs(options), read_stores(options.store)
    go_one = {}
    for line in lines_of(options.go_one):
        record = json.loads(line)
        go_one[Run(*[record[field] for field in Run._fields])] = record
    rows = [(graph, k) for graph, k, _ in PAPER if graph in options.rows and family_of(graph) in options.families]
    machines = {kind: [Row(graph, k, kind, store, go_one, options) for graph, k in rows] for kind in SUFFIX}
    complete = print_head("Transfer", runs, store, policies, options)
    print(f"""A policy for each of the six families is pre-trained on all others (`train --corpus all --hold-out FAMILY`) and then makes
plans for the graphs of the one it has not seen. Cells are step times over that of y0 with the same seed: the mean of the seeds, with the smallest
and the largest where they differ.

- y0: the best of {', '.join(Y0)} by themselves (`compare --budget 20s`), and which (of the first seed).
- constants: the best of y0 and 60 decodes of the steered list scheduler with the same knobs for all units (`train --updates 1
  --learning-rate 0`, which tries them first and then 16 samples and a greedy plan, so it errs to the better side).
- start: the plan that go-zero begins with, by its note (three digits). It is made by the same methods as y0, but one after the other, so
  that some go on from the plans before them; constants, go-zero and go-tune all begin with it.
- one decode: `go-zero --decodes 1`: the move that the policy finds most promising, or the start if that does not help.
- Whatever is kept as a better plan gets better priorities by up to three runs backwards, six evaluations that are no decodes: in
  constants, go-zero, go-tune and go-one alike, but not in y0 or in a start that nothing improves on. Where priorities are what a start
  lacks (transformer-xl with slow links), most of the gain of a first better plan is theirs. go-zero over untrained is free of that.
- go-zero: `--decodes 60`. untrained: the same with a network as it is made. shuffled: the same with `{SHUFFLE}`: each unit has
  the features of another.
- go-tune: 50 updates. anneal: for as long as go-tune took, that of the same row and seed.
- go-one: 60 s (300 s for rnnlm-8, gnmt-8, transformer-xl-8), from [go-one](go-one.md): not run again.
- {SEARCH_S} s with 1 thread: constants + search is `--methods anneal`, which has the constructive methods, steer and its constants among
  them, make plans for 40 % of the time and then searches. The others are `--methods optimize`, which shares these 40 % out among the
  methods in another way. no policy + search is `--policy none`; untrained + search and policy + search are `--policy POLICY`:
  constructive methods, go-zero, go-tune, and the search has the rest.
""")
    for kind, each in machines.items():
        print(f"## {kind}\n")
        ratio_table(each, COLUMNS, NAMES)
    skipped = [f"there are no runs with shuffled features: the program that made the runs may not know {SHUFFLE}."] if not any(
        run.what == "shuffled" for run in store) else []
    met = print_goals({**machines, "both": [row for each in machines.values() for row in each]}, options.seeds)
    print_remarks(machines, store, policies, [*said, *skipped])
    print_pairs(machines)
    print_knobs(machines)
    print_curves(policies)
    return complete and met


# ---- the table of the ablations ----


def print_ablation(options):
    runs, (store, policies, said) = wanted_runs(options), read_stores(options.store)
    rows = [(graph, k) for graph, k, _ in PAPER if any(run.graph == graph for run in runs)]
    machines = {kind: [Row(graph, k, kind, store, {}, options) for graph, k in rows] for kind in SUFFIX}
    policies = {name: record for name, record in policies.items() if name.rsplit("-", 1)[0] in NETWORKS}
    complete = print_head("Ablations of the pre-trained policy", runs, store, policies, options)
    networks = "; ".join(f"{name}: `--network {network}`" for name, network in NETWORKS.items() if network)
    print(f"""Policies that were trained with all six families left out, on the rows of up to 8,000 ops. Over y0: geometric mean of the
rows, mean of the seeds, and in brackets the geometric means of the single seeds. Networks: {networks}.
go-zero has 60 decodes unless it says otherwise; fewer are fewer rounds, each relative to the best plan so far. go-one with
50 updates is go-tune without the pre-training: the same number of updates from a network as it is made, with its own settings; go-tune, untrained has those of go-tune.
""")
    both = {**machines, "both": [row for each in machines.values() for row in each]}
    body = []
    for what in options.what:
        if what == "y0":
            continue
        cells = []
        for each in both.values():
            value, _, count = over_rows(each, what)
            seeds = ", ".join(f"{seed:.4f}" for seed in per_seed(each, what, options.seeds))
            rest = "" if count == len(each) else f", {count} rows"
            cells.append("-" if value is None else f"{value:.4f} ({seeds or 'seeds are missing'}){rest}")
        body.append([what, *cells])
    table(["what", *both], body)
    print_curves(policies)
    return complete


# ---- the command line ----


def parse():
    graphs = [graph for graph, _, _ in PAPER]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["train", "run", "table", "ablate"])
    parser.add_argument("step", nargs="?", choices=["train", "run", "table"], help="of ablate")
    parser.add_argument("--store", action="append", type=pathlib.Path, help="default build/transfer.jsonl, build/ablate.jsonl")
    parser.add_argument("--policies", type=pathlib.Path, default=ROOT / "build/policies", help="the folder of the policies")
    parser.add_argument("--bin", default=str(ROOT / "build/release/stowage"), help="the program")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once, each on cores of its own where there are enough")
    parser.add_argument("--threads", type=int, default=1, help="of each training; runs have one")
    parser.add_argument("--seconds", type=float, default=300.0, help="of each training; with --updates, about as long as it takes")
    parser.add_argument("--updates", type=int, help="train for so many instead of by time")
    parser.add_argument("--arguments", type=shlex.split, default=[], help="more arguments of `stowage train --corpus`, in one word")
    parser.add_argument("--limit", type=float, help="seconds from now")
    parser.add_argument("--rows", type=words(graphs), default=graphs, metavar="GRAPH,...")
    parser.add_argument("--families", type=words(FAMILIES), default=FAMILIES, metavar="FAMILY,...")
    parser.add_argument("--what", type=lambda text: text.split(","), metavar="WHAT,...", help=f"{', '.join(TRANSFER)}; of ablate, "
                        "beginnings of names suffice")
    parser.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--go-one", type=pathlib.Path, default=ROOT / "docs/results/go_one.jsonl", help="the store of bench/go_one.py")
    parser.add_argument("--commit", help="what to call the program's commit where there is no git")
    options = parser.parse_args()
    options.ablate = options.action == "ablate"
    options.step = options.step if options.ablate else options.action
    if options.step is None:
        parser.error("ablate train, run or table?")
    options.known = ABLATION if options.ablate else TRANSFER
    options.seeds = options.seeds or ([1, 2] if options.ablate else [1, 2, 3])
    options.store = options.store or [ROOT / f"build/{'ablate' if options.ablate else 'transfer'}.jsonl"]
    chosen = [what for what in options.known if not options.what or any(
        what == word or options.ablate and what.startswith(word) for word in options.what)]
    if not chosen:
        parser.error(f"--what: known are {'; '.join(options.known)}")
    options.what = chosen
    if options.step != "table" and not os.access(options.bin, os.X_OK):
        parser.error(f"there is no program {options.bin}: build it, or name it with --bin")
    if options.jobs < 1 or options.threads < 1 or options.seconds <= 0:
        parser.error("--jobs, --threads and --seconds must be more than 0")
    return options


def main():
    options = parse()
    if options.step == "table":
        sys.exit(0 if (print_ablation if options.ablate else print_transfer)(options) else 1)
    try:
        if options.step == "train":
            sys.exit(0 if Training(options).make_all() else 1)
        if "shuffled" in options.what and not knows(options.bin, SHUFFLE):
            print(f"shuffled: skipped, since the program does not know {SHUFFLE}", file=sys.stderr)
            options.what.remove("shuffled")
        sys.exit(0 if Bench(options, wanted_runs(options)).make_all() else 1)
    except KeyboardInterrupt:
        print("interrupted; what is finished is in the store", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
