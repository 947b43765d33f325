#!/usr/bin/env python3
"""Optima of the generated task graphs, by CP-SAT (package ortools): what bench/optima.py compares with.

    bench/optima_cpsat.py [--sets development,acceptance] [--limit N] [--store data/optima.jsonl.gz] [--bin stowage] [--minutes N]

Each instance gets one worker and at most --limit units of CP-SAT's deterministic time, about seconds of an idle computer, so that a busy
one changes nothing. The store has a line per instance: the least step that was found, in
microseconds, the bound that was proved (equal: the optimum), and a plan. Instances that are closed, or that had as much time before, are
not solved again, so longer limits go on where shorter ones ended. With --bin, `stowage simulate` must find that each plan takes exactly as
long as CP-SAT says.

The model is docs/simulator.md for these machines: a device runs one task at a time; a result is sent to a device when the task has ended,
and is there after its bytes in microseconds; nothing queues. Devices are alike, so task t uses one of the first t + 1.
"""
import argparse
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import optima_graphs
from tables import ROOT

STORE = ROOT / "data" / "optima.jsonl.gz"


# ---- the model ----


def levels_of(instance):
    """What must follow the start of each task, itself included, without transfers."""
    left = list(instance["us"])
    for task in reversed(range(instance["tasks"])):
        for read in instance["inputs"][task]:
            left[read] = max(left[read], instance["us"][read] + left[task])
    return left


def longest_paths(instance):
    """between[a][b]: the tasks between the end of a and the start of b take at least this; absent: b does not follow a."""
    between = [{} for _ in range(instance["tasks"])]
    for b in range(instance["tasks"]):
        for a in range(b):
            ways = [0 if read == a else between[a][read] + instance["us"][read] for read in instance["inputs"][b]
                    if read == a or read in between[a]]
            if ways:
                between[a][b] = max(ways)
    return between


def list_schedule(instance, averse):
    """A plan to begin with: tasks by rank, each where it ends first. Starts and devices."""
    us, size, reads = instance["us"], instance["bytes"], instance["inputs"]
    rank = list(us)
    for task in reversed(range(instance["tasks"])):
        for read in reads[task]:
            rank[read] = max(rank[read], us[read] + averse * size[read] + rank[task])
    start, device, free = [0] * len(us), [0] * len(us), [0] * instance["devices"]
    for task in sorted(range(len(us)), key=lambda t: (-rank[t], t)):
        def begin(d):
            return max([free[d]] + [start[r] + us[r] + (size[r] if device[r] != d else 0) for r in reads[task]])
        d = min(range(instance["devices"]), key=lambda d: (begin(d), d))
        start[task], device[task] = begin(d), d
        free[d] = start[task] + us[task]
    return start, device


def step_of(instance, start):
    return max(s + us for s, us in zip(start, instance["us"]))


def bound_work(model, instance, start, step, on):
    """What helps CP-SAT with forks and joins: all work of a device between a task that many read and one that reads many takes its time,
    and if it is done on another device than theirs, something must be sent to it before and from it after."""
    us, size, reads = instance["us"], instance["bytes"], instance["inputs"]
    tasks, between = range(instance["tasks"]), longest_paths(instance)
    read = {r for t in tasks for r in reads[t]}
    forks = [None] + [r for r in tasks if sum(r in reads[t] for t in tasks) >= 4]
    joins = [None] + [s for s in tasks if len(reads[s]) >= 4]
    for r, s in ((r, s) for r in forks for s in joins if r is not None or s is not None):
        inside = [t for t in tasks if (r is None or t in between[r]) and (s is None or s in between[t])]
        sizes = sorted({size[t] + between[t][s] for t in inside}) if s is not None else [0]
        arrive = 0 if r is None else min([size[r]] + [between[r][x] + us[x] + size[x] for x in between[r] if x in read])
        for leave in sizes:
            late = [t for t in inside if s is None or size[t] + between[t][s] >= leave]
            if len(late) < 3:
                continue
            if s is not None:  # what leaves the device last: one of these, or what one of them leads to
                later = [x for x in tasks if s in between[x] and (x in late or any(x in between[t] for t in late))]
                leave = min(size[x] + between[x][s] for x in later)
            for d in range(instance["devices"]):
                here = [t for t in late if d < len(on[t])]
                if len(here) < 3:
                    continue
                some = model.new_bool_var("")
                for t in here:
                    model.add_implication(on[t][d], some)
                begin = 0 if r is None else start[r] + us[r] + arrive * (1 - (on[r][d] if d < len(on[r]) else 0))
                end = step if s is None else start[s] - leave * (1 - (on[s][d] if d < len(on[s]) else 0))
                model.add(begin + sum(us[t] * on[t][d] for t in here) <= end).only_enforce_if(some)


def solve(instance, limit, known=None):
    """The best starts and devices within `limit`, and a bound. `known`: starts and devices to begin with."""
    from ortools.sat.python import cp_model
    us, size, reads = instance["us"], instance["bytes"], instance["inputs"]
    tasks, devices = range(instance["tasks"]), instance["devices"]
    hints = [list_schedule(instance, averse) for averse in (0.0, 0.5, 1.0)] + ([known] if known else [])
    serial = ([sum(us[:t]) for t in tasks], [0] * len(us))
    hint_start, hint_device = min(hints + [serial], key=lambda hint: step_of(instance, hint[0]))
    most, after = step_of(instance, hint_start), levels_of(instance)
    model = cp_model.CpModel()
    step = model.new_int_var(max(max(after), -(-sum(us) // devices)), most, "step")
    start = [model.new_int_var(0, most - after[t], f"start{t}") for t in tasks]
    on = [[model.new_bool_var(f"on{t},{d}") for d in range(min(devices, t + 1))] for t in tasks]
    used = [[] for _ in range(devices)]
    for t in tasks:
        model.add_exactly_one(on[t])
        model.add(start[t] + after[t] <= step)
        for d, here in enumerate(on[t]):
            used[d].append(model.new_optional_fixed_size_interval_var(start[t], us[t], here, f"run{t},{d}"))
            if d > 0:  # of devices that are alike, the next one is begun by a task after one of the device before
                model.add_bool_or([here.negated()] + [on[e][d - 1] for e in range(t) if d - 1 < len(on[e])])
    for d in range(devices):
        model.add_no_overlap(used[d])
        model.add(sum(us[t] * on[t][d] for t in tasks if d < len(on[t])) <= step)
    model.add_cumulative([model.new_fixed_size_interval_var(start[t], us[t], f"any{t}") for t in tasks], [1] * len(us), devices)
    for t in tasks:
        for r in reads[t]:
            together = model.new_bool_var(f"together{r},{t}")
            for d in range(len(on[t])):
                if d < len(on[r]):
                    model.add_bool_or([together.negated(), on[t][d], on[r][d].negated()])
                    model.add_bool_or([together, on[t][d].negated(), on[r][d].negated()])
                else:
                    model.add_implication(on[t][d], together.negated())
            model.add(start[t] >= start[r] + us[r] + size[r] - size[r] * together)
    bound_work(model, instance, start, step, on)
    model.minimize(step)
    rename = {}
    for t in tasks:
        rename.setdefault(hint_device[t], len(rename))
        model.add_hint(start[t], hint_start[t])
        for d, here in enumerate(on[t]):
            model.add_hint(here, d == rename[hint_device[t]])
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = limit
    solver.parameters.random_seed = 1
    status = solver.solve(model)
    bound = max(int(round(solver.best_objective_bound)), max(after), -(-sum(us) // devices))
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return (hint_start, hint_device), bound
    return ([solver.value(s) for s in start], [next(d for d, here in enumerate(row) if solver.value(here)) for row in on]), bound


# ---- the plan, simulated ----


def plan_of(instance, start, device):
    """Strict orders, by start: every task takes time, so no two of a device start together."""
    order = [sorted((t for t in range(instance["tasks"]) if device[t] == d), key=lambda t: start[t]) for d in range(instance["devices"])]
    return {"format": "plan", "version": 1, "device": device, "order": order}


def simulate(program, instance, plan):
    """The step in microseconds."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        graph, machine = optima_graphs.write(instance, folder)
        (folder / "plan.json").write_text(json.dumps(plan))
        done = subprocess.run([program, "simulate", graph, "-m", machine, "-p", folder / "plan.json", "--format", "json"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{instance['name']}: {done.stderr.strip()}")
        return json.loads(done.stdout)["step_s"] * 1e6


# ---- the store ----


def read_store(path):
    if not path.exists():
        return {}
    return {record["name"]: record for record in map(json.loads, gzip.decompress(path.read_bytes()).decode().splitlines())}


def write_store(path, known):
    order = {name: k for k, name in enumerate(n for s in optima_graphs.SETS for n in optima_graphs.names_of(s))}
    text = "".join(json.dumps(known[name]) + "\n" for name in sorted(known, key=order.get))
    new = path.with_name(path.name + ".new")
    new.write_bytes(gzip.compress(text.encode(), mtime=0))
    new.replace(path)


def is_closed(record):
    return record["step_us"] == record["bound_us"]


def solve_one(name, limit, program, before):
    instance = optima_graphs.make(name)
    began = time.process_time()
    (start, device), bound = solve(instance, limit, before and (before["start"], before["device"]))
    took, step = time.process_time() - began, step_of(instance, start)
    if program:
        simulated = simulate(program, instance, plan_of(instance, start, device))
        if simulated > step * (1 + 1e-9) or simulated < bound * (1 - 1e-9):
            raise RuntimeError(f"{name}: CP-SAT says {step} us (at least {bound}), the simulator {simulated}")
        if abs(simulated - step) > 1e-6 and step == bound:
            raise RuntimeError(f"{name}: CP-SAT says that {step} us is the least, the simulator {simulated}")
    return {"name": name, "step_us": step, "bound_us": max(bound, before["bound_us"] if before else 0), "limit": limit,
            "took_s": round(took, 2), "start": start, "device": device}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(optima_graphs.SETS))
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing after this")
    parser.add_argument("--store", type=pathlib.Path, default=STORE)
    parser.add_argument("--bin")
    options = parser.parse_args()
    known = read_store(options.store)
    began = time.monotonic()
    for name in (n for s in options.sets.split(",") for n in optima_graphs.names_of(s)):
        before = known.get(name)
        if before and (is_closed(before) or before["limit"] >= options.limit):
            continue
        if time.monotonic() - began > 60.0 * options.minutes:
            break
        known[name] = solve_one(name, options.limit, options.bin, before)
        write_store(options.store, known)
        record = known[name]
        at_least = "" if is_closed(record) else f", at least {record['bound_us']}"
        print(f"{name}: {record['step_us']} us{at_least} in {record['took_s']} s", file=sys.stderr, flush=True)
    print(f"{sum(map(is_closed, known.values()))} of {len(known)} closed", file=sys.stderr)


if __name__ == "__main__":
    main()
