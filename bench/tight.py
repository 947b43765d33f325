#!/usr/bin/env python3
"""Memory so tight that plans are rare: which memories `optimize` finds a plan for, how soon, and how fast the plan is.

    bench/tight.py least SET      the least memory known of each case of a set, kept in a file (bench/tight_least.json)
    bench/tight.py run SET        every case with 1.05, 1.1, 1.25 and 1.5 times that, as Markdown
    bench/tight.py impossible SET every case with 0.99 times its proved bound: the answer and the time that it takes

Sets: `development` is what the search was made on, `acceptance` and `fresh` are what docs/results/tight.md reports; `fresh` was chosen when
the method stood, and no run of it had been seen. Several calls with a --case each may run side by side. The least memory known is the
smallest --memory for which any run of `least` found a valid plan, whatever the method and the length of the search: `optimize
--objective memory`, then a bisection with --memory. It only ever falls.
Options: --stowage PROGRAM, --budget SECONDS (of processor time with one thread; 10), --case NAME, --json FILE (all numbers).
`first` is when the method ended that had the first valid plan. Everything printed is what the program reported in these runs.
"""
import argparse
import datetime
import fcntl
import json
import pathlib
import subprocess
import sys
import tempfile

from tables import ROOT

LEAST = ROOT / "bench/tight_least.json"
FACTORS = (1.05, 1.1, 1.25, 1.5)

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
}


def graph_of(options, what, folder):
    if (ROOT / f"data/graphs/{what}.json.gz").exists():
        return str(ROOT / f"data/graphs/{what}.json.gz")
    path = str(pathlib.Path(folder) / (what.replace(" ", "_") + ".json.gz"))
    subprocess.run([options.stowage, "generate", *what.split(), "-o", path], check=True, capture_output=True)
    return path


def optimize(options, graph, machine, *more, budget=None):
    command = [options.stowage, "optimize", graph, "--machine", machine, "--clock", "cpu", "--threads", "1", "--budget",
               f"{budget or options.budget}s", "--format", "json", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout), done.stderr.strip()


def first_valid(plan):
    """Seconds until the method was done that had the first valid plan."""
    spent = 0.0
    for row, seconds in zip(plan["candidates"], plan["timings"]["search_s"]):
        spent += seconds
        if row["valid"]:
            return spent
    return None


def read_least():
    text = LEAST.read_text() if LEAST.exists() else ""
    return json.loads(text) if text else {}


def note_least(name, what, machine, plan, how):
    with open(LEAST, "a+") as file:  # of several calls one at a time
        fcntl.flock(file, fcntl.LOCK_EX)
        known = read_least()
        peak = max(plan["peak_bytes"])
        if name in known and known[name]["bytes"] <= peak:
            return
        known[name] = {"bytes": peak, "graph": what, "machine": machine, "how": how, "date": str(datetime.date.today())}
        file.truncate(0)
        file.write(json.dumps(known, indent=1, sort_keys=True) + "\n")
    print(f"{name}: {peak / 1e9:.4f} GB by {how}", flush=True)


def least(options, name, what, machine, graph):
    """Objective memory, then ever less memory in steps that halve when nothing fits."""
    for tasks in ("placement,schedule,fusion", "placement,schedule"):
        plan, _ = optimize(options, graph, machine, "--objective", "memory", "--tasks", tasks)
        if plan["valid"]:
            note_least(name, what, machine, plan, f"objective memory, {plan['method']}, {tasks}")
    step = 0.08
    while step >= 0.005:
        memory = int(read_least()[name]["bytes"] * (1 - step))
        found = False
        for tasks in ("placement,schedule,fusion", "placement,schedule"):
            plan, _ = optimize(options, graph, machine, "--memory", str(memory), "--tasks", tasks)
            if plan["valid"]:
                note_least(name, what, machine, plan, f"--memory {memory}, {plan['method']}, {tasks}")
                found = True
                break
        if not found:
            step /= 2


def run(options, name, what, machine, graph):
    bytes_known = read_least()[name]["bytes"]
    for factor in FACTORS:
        memory = int(bytes_known * factor)
        plan, _ = optimize(options, graph, machine, "--memory", str(memory))
        first = first_valid(plan) if plan["valid"] else None
        row = {"case": name, "machine": machine, "least": bytes_known, "factor": factor, "memory": memory, "valid": plan["valid"],
               "first_s": first, "step_s": plan["step_s"] if plan["valid"] else None, "method": plan["method"],
               "lower_bound_s": plan["lower_bound_s"]}
        options.rows.append(row)
        told = f"{first:.2f} s | {row['step_s'] * 1e3:.2f} | {row['method']}" if plan["valid"] else "none | | "
        print(f"| {name} | {factor} | {memory / 1e9:.3f} | {told} |", flush=True)


def impossible(options, name, what, machine, graph):
    plan, _ = optimize(options, graph, machine, "--objective", "memory", budget=2)
    memory = int(plan["lower_bound_bytes"] * 0.99)
    plan, said = optimize(options, graph, machine, "--memory", str(memory))
    row = {"case": name, "memory": memory, "valid": plan["valid"], "seconds": sum(plan["timings"]["search_s"]), "said": said}
    options.rows.append(row)
    print(f"| {name} | {memory / 1e9:.3f} | {row['seconds']:.2f} s | {said} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("least", "run", "impossible"))
    parser.add_argument("set", choices=sorted(SETS))
    parser.add_argument("--stowage", default=str(ROOT / "build/release/stowage"))
    parser.add_argument("--budget", type=float, default=10)
    parser.add_argument("--case", action="append")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.rows = []
    heads = {"least": None, "run": "| case | times the least | memory GB | first valid plan | step ms | by |\n| --- | ---: | ---: | ---: "
             "| ---: | --- |", "impossible": "| case | memory GB | search | what is said |\n| --- | ---: | ---: | --- |"}
    if heads[options.what]:
        print(f"{datetime.date.today()}, {options.budget:g} s of processor time, one thread\n\n{heads[options.what]}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (what, machine) in SETS[options.set].items():
            if not options.case or name in options.case:
                globals()[options.what](options, name, what, machine, graph_of(options, what, folder))
    if options.json is not None:
        options.json.write_text("".join(json.dumps(row) + "\n" for row in options.rows))


if __name__ == "__main__":
    main()
