#!/usr/bin/env python3
"""Table 3 of the GO paper on our graphs: fusion with the placement fixed; and all tasks at once against one after the other.

    bench/table3.py run   --store FILE.jsonl [--bin stowage] [--jobs N] [--rows A,B] [--budget S] [--seeds 1,2,3] [--plans DIR]
    bench/table3.py table --store FILE.jsonl [--store ...]

Runs that the store has are not made again. A row is a graph on 0.1/h200xN, N being its number of devices.

placement   the best placement and schedule without fusion: optimize --tasks placement,schedule; its plan is kept in --plans
none, rpo, default   that placement with the groups of a rule, in the order of the upward rank:
            compare --tasks fusion --fusion RULE --from PLAN --rule upward-rank --methods single
anneal, go  compare --tasks fusion --from PLAN --rule upward-rank --methods anneal (go-one): nothing but the groups is decided
joint       optimize with all three tasks, budget 3B
sequential  optimize --tasks placement, then --tasks schedule, then --tasks fusion, each from the plan before, B each
pairs       optimize --tasks placement,schedule, 2B, then --tasks fusion from that plan, B
"""
import argparse
import concurrent.futures
import datetime
import gzip
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from tables import ROOT

ROWS = {"gnmt-2": 2, "gnmt-4": 4, "gnmt-8": 8, "rnnlm-4": 4, "rnnlm-8": 8, "transformer-xl-2": 2, "transformer-xl-4": 4, "transformer-xl-8": 8}
RULES = {"none": "none", "rpo": "reverse-post-order", "default": "default"}
WHATS = ["placement", *RULES, "anneal", "go", "joint", "sequential", "pairs"]
SEARCHES = {"anneal": "anneal", "go": "go-one"}


class Runner:
    def __init__(self, options):
        self.o = options
        self.plans = pathlib.Path(options.plans)
        self.plans.mkdir(parents=True, exist_ok=True)

    def stowage(self, *arguments, budget=None):
        command = [self.o.bin, *map(str, arguments), "--threads", str(self.o.threads), "--format", "json"]
        if budget is not None:
            command += ["--budget", f"{budget}s"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=(budget or 60) * 3 + 300)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
        return json.loads(done.stdout)

    def graph(self, row):
        return str(ROOT / "data" / "graphs" / f"{row}.json.gz")

    def optimize(self, row, tasks, seed, budget, start=None):
        """The step in seconds and the whole plan, by way of a file."""
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "plan.json")
            given = ["--from", start] if start else []
            head = self.stowage("optimize", self.graph(row), "--machine", f"0.1/h200x{ROWS[row]}", "--tasks", tasks, "--seed", seed, *given,
                                "-o", file, budget=budget)
            with open(file) as handle:
                return head["step_s"], json.load(handle)

    def placement_plan(self, row):
        return self.plans / f"{row}.json"

    def run(self, row, what, seed):
        budget = self.o.budget * (5 if ROWS[row] == 8 and self.o.long else 1)
        began = time.time()
        record = {"row": row, "what": what, "seed": seed, "budget_s": budget, "threads": self.o.threads, "commit": self.o.commit,
                  "date": str(datetime.date.today())}
        start = str(self.placement_plan(row))
        if what == "placement":
            record["step_s"], plan = self.optimize(row, "placement,schedule", seed, budget)
            with open(start + ".new", "w") as handle:
                json.dump(plan, handle)
            os.replace(start + ".new", start)
        elif what in RULES or what in SEARCHES:
            self.fuse(row, what, seed, budget, start, record)
        elif what == "joint":
            record["step_s"], plan = self.optimize(row, "placement,schedule,fusion", seed, 3 * budget)
        else:
            steps = [("placement", 1), ("schedule", 1), ("fusion", 1)] if what == "sequential" else [("placement,schedule", 2), ("fusion", 1)]
            with tempfile.TemporaryDirectory() as folder:
                file = None
                for tasks, share in steps:
                    record["step_s"], plan = self.optimize(row, tasks, seed, share * budget, file)
                    file = os.path.join(folder, "plan.json")
                    with open(file, "w") as handle:
                        json.dump(plan, handle)
        record["seconds"] = round(time.time() - began, 2)
        return record

    def fuse(self, row, what, seed, budget, start, record):
        """The groups alone. A search comes back through optimize's file format by way of simulate, so that its groups are known."""
        common = [self.graph(row), "--machine", f"0.1/h200x{ROWS[row]}", "--tasks", "fusion", "--from", start, "--rule", "upward-rank", "--seed", seed]
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "plan.json")
            if what in RULES:
                result = self.stowage("compare", *common, "--fusion", RULES[what], "--methods", "single", "--best", file)
            else:
                result = self.stowage("compare", *common, "--methods", SEARCHES[what], "--best", file, budget=budget)
            method = result[0]["methods"][0]
            record.update(step_s=method["step_s"], evaluations=method["evaluations"])
            with open(file) as handle:
                record["groups"] = signature(json.load(handle)["group"])


def signature(group):
    """The sets of ops that are one kernel, as hashes: enough to tell which groups two plans share."""
    members = {}
    for node, number in enumerate(group):
        if number >= 0:
            members.setdefault(number, []).append(node)
    return sorted(hash(tuple(m)) & 0xffffffff for m in members.values() if len(m) > 1)


def load(paths):
    records = {}
    for path in paths:
        if not os.path.exists(path):
            continue
        with (gzip.open(path, "rt") if path.endswith(".gz") else open(path)) as handle:
            for line in handle:
                r = json.loads(line)
                records[r["row"], r["what"], r["seed"]] = r
    return records


def wanted(options):
    for what in WHATS:
        if options.what and what not in options.what.split(","):
            continue
        for row in (options.rows.split(",") if options.rows else ROWS):
            for seed in ([1] if what in RULES or what == "placement" else options.seeds):
                yield row, what, seed


def make_runs(options):
    have = load(options.store)
    runner = Runner(options)
    todo = [key for key in wanted(options) if key not in have]
    for stage in (lambda w: w == "placement", lambda w: w != "placement"):
        keys = sorted((k for k in todo if stage(k[1])), key=lambda k: (k[1] not in ("joint", "sequential", "pairs"), -ROWS[k[0]]))
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool, open(options.store[0], "a") as out:
            futures = {pool.submit(runner.run, *key): key for key in keys}
            for future in concurrent.futures.as_completed(futures):
                try:
                    record = future.result()
                except Exception as error:  # the others go on
                    print(f"{futures[future]}: {error}", file=sys.stderr)
                    continue
                out.write(json.dumps(record) + "\n")
                out.flush()
                print(f"{record['row']} {record['what']} seed {record['seed']}: {1e3 * record['step_s']:.3f} ms", file=sys.stderr)


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else math.nan


def seeds_of(records, row, what):
    return [r for (a, b, _), r in sorted(records.items()) if a == row and b == what]


def show(values, digits=1):
    values = list(values)
    if not values:
        return "-"
    spread = f" ({min(values):.{digits}f} to {max(values):.{digits}f})" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{spread}"


def print_fusion(records):
    print("| graph | none, ms | reverse post order | default | anneal | go | go - reverse post order | groups of go unlike the default's |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    columns = {k: [] for k in ("rpo", "default", "anneal", "go", "gain")}
    below = []
    for row in ROWS:
        none = seeds_of(records, row, "none")
        if not none:
            continue
        reference = none[0]["step_s"]
        reduction = {w: [100 * (1 - r["step_s"] / reference) for r in seeds_of(records, row, w)] for w in ("rpo", "default", "anneal", "go")}
        for w, values in reduction.items():
            columns[w].append(mean(values))
        gain = mean(reduction["go"]) - mean(reduction["rpo"])
        columns["gain"].append(gain)
        if reduction["go"] and min(reduction["go"]) < max(0.0, mean(reduction["default"])) - 1e-9:
            below.append(row)
        standard = seeds_of(records, row, "default")
        known = set(standard[0]["groups"]) if standard else set()
        other = [100 * mean(g not in known for g in r["groups"]) for r in seeds_of(records, row, "go") if r["groups"]]
        print(f"| {row} ({ROWS[row]}) | {1e3 * reference:.3f} | {show(reduction['rpo'])} | {show(reduction['default'])} | {show(reduction['anneal'])} "
              f"| {show(reduction['go'])} | {gain:+.1f} | {show(other, 0) + ' %' if other else 'fuses nothing'} |")
    print(f"| mean | | {mean(columns['rpo']):.1f} | {mean(columns['default']):.1f} | {mean(columns['anneal']):.1f} | {mean(columns['go']):.1f} "
          f"| {mean(columns['gain']):+.1f} | |")
    print(f"\nTime reduction over no fusion in per cent: 100 (1 - t / t_none); mean of the seeds, with the least and the most. go below none or "
          f"default in some seed: {', '.join(below) or 'nowhere'}.\n")


def print_joint(records):
    print("| graph | joint, ms | one after the other | placement and schedule, then fusion | joint / one after the other | joint / pairs |")
    print("| --- | --- | --- | --- | --- | --- |")
    ratios = {"sequential": [], "pairs": []}
    for row in ROWS:
        steps = {w: [1e3 * r["step_s"] for r in seeds_of(records, row, w)] for w in ("joint", "sequential", "pairs")}
        if not steps["joint"]:
            continue
        ratio = {w: mean(steps["joint"]) / mean(steps[w]) for w in ratios}
        for w in ratios:
            ratios[w].append(ratio[w])
        print(f"| {row} ({ROWS[row]}) | {show(steps['joint'], 3)} | {show(steps['sequential'], 3)} | {show(steps['pairs'], 3)} "
              f"| {ratio['sequential']:.3f} | {ratio['pairs']:.3f} |")
    geometric = {w: math.exp(mean(math.log(v) for v in values)) if values else math.nan for w, values in ratios.items()}
    print(f"| geometric mean | | | | {geometric['sequential']:.3f} | {geometric['pairs']:.3f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "table"])
    parser.add_argument("--store", action="append", required=True)
    parser.add_argument("--bin", default=str(ROOT / "build/release/stowage"))
    parser.add_argument("--plans", default=str(ROOT / "build/table3"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=60)
    parser.add_argument("--long", action="store_true", help="five times the budget on eight devices")
    parser.add_argument("--rows")
    parser.add_argument("--what")
    parser.add_argument("--seeds", type=lambda s: [int(x) for x in s.split(",")], default=[1, 2, 3])
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    if options.action == "run":
        make_runs(options)
        return
    records = load(options.store)
    print_fusion(records)
    print_joint(records)


if __name__ == "__main__":
    main()
