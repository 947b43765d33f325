"""The runs of table 2, each a process of the program."""
import csv
import json
import os
import subprocess

from runs import Runs, about_this_place, append, stamp
from table2_what import HDP, WHAT, devices_of, ends_of_itself
from tables import FIRST, milliseconds

MOST_UPDATES = 200  # of a learning curve in the store


def version_of(program):
    return subprocess.run([program, "version"], capture_output=True, text=True, check=True).stdout.split()[-1]


def found_of(methods):
    """Several methods run one after the other: what each finds counts where it is better than all before."""
    found, began, best = [], 0.0, float("inf")
    for method in methods:
        for seconds, _, value in method["found"]:
            if value < best:
                best = value
                found.append([round(began + seconds, 6), value])
        began += method["search_s"]
    return found


def curve_of(path):
    """[update, evaluations, seconds, mean, best] of at most MOST_UPDATES updates, evenly, the last one always."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    count = min(len(rows), MOST_UPDATES)
    rows = [rows[(k + 1) * len(rows) // count - 1] for k in range(count)]
    return [[int(row["update"]), int(row["evaluations"]), round(float(row["seconds"]), 6),
             *[float(row[name]) if row[name] else None for name in ("mean", "best")]] for row in rows]


def outcome_of(run, methods):
    """What the store keeps of the methods of a run; the best plan counts."""
    valid = [method for method in methods if method["valid"]]
    best = min(valid, key=lambda method: method["value"]) if valid else None
    search_s = round(sum(method["search_s"] for method in methods), 6)
    outcome = {"step_s": best and best["step_s"], "valid": best is not None, "method": best["method"] if best else "", "search_s": search_s,
               "evaluations": sum(method["evaluations"] for method in methods),
               "note": best["note"] if best else next((method["reason"] for method in methods if method["reason"]), ""),
               "found": found_of(methods)}
    if run.what in HDP.values():
        outcome["converged"] = ends_of_itself(run, search_s)
    return outcome


class Bench(Runs):
    def __init__(self, options, store, runs):
        super().__init__([run for run in runs if run not in store], options.jobs, options.threads, options.deadline)
        self.options, self.store, self.curves = options, store, {}
        self.place = stamp(self.jobs, about_this_place(options.commit))
        self.place.update(processor=self.place.pop("cpu"), version=version_of(options.bin))

    def command_of(self, run, folder):
        methods, more = WHAT[run.what]
        if run.what in HDP.values():
            self.curves[run] = os.path.join(folder, "curve.csv")
            more = [*more, "--curve", self.curves[run]]
        return [self.options.bin, "compare", str(self.options.data / f"{run.row}.json.gz"), "--machine", FIRST + run.machine, "--tasks",
                "placement,schedule", "--seed", str(run.seed), "--threads", str(run.threads), "--budget", f"{run.budget_s:.6f}s",
                "--methods", methods, *more, "--format", "json"]

    def likely_seconds(self, run):
        return 1.03 * len(WHAT[run.what][0].split(",")) * run.budget_s + 3.0  # and reading the graph

    def name_of(self, run):
        return f"{run.row} on {run.machine}, {run.what}, seed {run.seed}"

    def take(self, run, text, took):
        record = {"bench": "table2", **run._asdict(), "devices": devices_of(run.row), **outcome_of(run, json.loads(text)[0]["methods"])}
        if run in self.curves:
            record["curve"] = curve_of(self.curves[run])
        record.update(self.place)
        append(self.options.store, record)
        self.store[run] = {"curve": [], "converged": False, **record}
        return f"{milliseconds(record['step_s'])} ms" if record["valid"] else "no valid plan"
