#!/usr/bin/env python3
"""Peak memory by scheduling alone: every graph on one device, three orders and the lower bound, as Markdown.

    bench/memory.py [GRAPH...]       graphs: all of data/graphs unless files are named

Options: --stowage PROGRAM, --machine NAME (one device; h200x1), --evaluations N (of optimize; 200), --json FILE (all numbers).
topological, upward rank: `compare --methods single --tasks schedule --objective memory --rule ...`; ours: `compare --methods optimize`
with the same tasks and objective; bound: what no order can do without, by the same command. `fits`: `optimize --tasks schedule
--memory BYTES` with objective time finds a valid plan when the device has exactly the bytes of ours. reduction = 1 - peak / peak of the
order that is named. Everything printed is what the program reported in these runs.
Exits 1 if a peak is above that of topological order or below the bound, if a plan does not fit, or if rnnlm and gnmt together are less
than 10 % below upward rank on average.
"""
import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys

from tables import ROOT

PROMISED = 0.10  # below upward rank, the mean over the graphs of these families:
FAMILIES = ("rnnlm", "gnmt")


def run(program, *arguments):
    done = subprocess.run([program, *arguments, "--format", "json"], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(done.args)}: {done.stderr}")
    return json.loads(done.stdout)


def compare(options, graph, method, *more):
    rows = run(options.stowage, "compare", str(graph), "--machine", options.machine, "--methods", method, "--tasks", "schedule",
               "--objective", "memory", *more)
    return rows[0], rows[0]["methods"][0]


def measure(options, graph):
    row, topological = compare(options, graph, "single", "--rule", "topological")
    _, ranked = compare(options, graph, "single", "--rule", "upward-rank")
    _, ours = compare(options, graph, "optimize", "--evaluations", str(options.evaluations))
    peak = ours["peak_bytes"][0]
    plan = run(options.stowage, "optimize", str(graph), "--machine", options.machine, "--tasks", "schedule", "--memory", str(peak),
               "--evaluations", str(options.evaluations))
    return {"graph": row["graph"], "topological": topological["peak_bytes"][0], "upward_rank": ranked["peak_bytes"][0], "ours": peak,
            "bound": row["lower_bound_bytes"], "search_s": ours["search_s"], "evaluations": ours["evaluations"], "fits": plan["valid"]}


def reduction(row, reference):
    return 1 - row["ours"] / row[reference]


def print_table(rows):
    print("| graph | topological MB | upward rank MB | ours MB | bound MB | below topological | below upward rank | above the bound "
          "| search ms | fits |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    for row in rows:
        peaks = " | ".join(f"{row[key] / 1e6:,.1f}" for key in ("topological", "upward_rank", "ours", "bound"))
        shares = " | ".join(f"{100 * share:.1f} %" for share in (reduction(row, "topological"), reduction(row, "upward_rank"),
                                                                 row["ours"] / row["bound"] - 1))
        print(f"| {row['graph']} | {peaks} | {shares} | {1e3 * row['search_s']:.1f} | {'yes' if row['fits'] else 'no'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*", type=pathlib.Path)
    parser.add_argument("--stowage", default=str(ROOT / "build/release/stowage"))
    parser.add_argument("--machine", default="h200x1")
    parser.add_argument("--evaluations", type=int, default=200)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    graphs = options.graphs or sorted((ROOT / "data/graphs").glob("*.json.gz"))
    rows = [measure(options, graph) for graph in graphs]
    print(f"{datetime.date.today()}, {options.machine}, {len(rows)} graphs\n")
    print_table(rows)
    chosen = [row for row in rows if row["graph"].startswith(FAMILIES)]
    at_bound = sum(row["ours"] == row["bound"] for row in rows)
    faults = [f"{row['graph']}: {what}" for row in rows
              for what, wrong in (("above topological order", row["ours"] > row["topological"]),
                                  ("below the bound", row["ours"] < row["bound"]), ("does not fit", not row["fits"])) if wrong]
    print(f"\nAt the bound, so that no order takes less: {at_bound} of {len(rows)}.")
    if chosen:
        mean = statistics.mean(reduction(row, "upward_rank") for row in chosen)
        print(f"Below upward rank, mean over {' and '.join(FAMILIES)} ({len(chosen)} graphs): {100 * mean:.1f} %.")
        if mean < PROMISED:
            faults.append(f"less than {100 * PROMISED:.0f} % below upward rank")
    if options.json is not None:
        options.json.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for fault in faults:
        print(f"fault: {fault}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
