#!/usr/bin/env python3
"""Optima of the generated task graphs, by CP-SAT (package ortools): what bench/optima.py compares with.

    bench/optima_cpsat.py [--sets development] [--limit N] [--store data/optima.jsonl.gz] [--bin stowage] [--minutes N] [--jobs N]

Each instance gets one worker and at most --limit units of CP-SAT's deterministic time, about seconds of an idle computer, so that a busy
one changes nothing; half of it for each of two ways of searching. The store has a line per instance: the least step that was found, in
microseconds, the bound that was proved (equal: the optimum), and a plan. It is written after each instance. Instances that are closed, or
that had as much time before, are not solved again, so longer limits go on where shorter ones ended. After --minutes nothing is begun, and
what runs ends with what it has. With --bin, CP-SAT begins with the plan of `stowage optimize` (a hint and an upper bound, nothing else:
the lower bound is CP-SAT's own), and `stowage simulate` must find that each plan takes exactly as long as CP-SAT says.

The model is docs/simulator.md for these machines: a device runs one task at a time; a result is sent to a device when the task has ended,
and is there after its bytes in microseconds; nothing queues. Devices are alike, so task t uses one of the first t + 1. Stars (forks, joins
and fork-joins) have a model of their own, without times.
"""
import argparse
import concurrent.futures
import csv
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


def starts_of(instance, order, device):
    """When the tasks start if every device runs its own in this order, in which each task comes after what it reads."""
    us, size, start, free = instance["us"], instance["bytes"], [0] * instance["tasks"], {}
    for t in order:
        there = [start[r] + us[r] + (size[r] if device[r] != device[t] else 0) for r in instance["inputs"][t]]
        start[t] = max([free.get(device[t], 0)] + there)
        free[device[t]] = start[t] + us[t]
    return start


def least_of(instance):
    """What no plan is below: the longest path, and all work on all devices."""
    return max(max(levels_of(instance)), -(-sum(instance["us"]) // instance["devices"]))


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


def times_model(model, instance, hint):
    """Starts of tasks and their devices; returns what reads them from a solver. `hint`: starts and devices, an upper bound too."""
    us, size, reads = instance["us"], instance["bytes"], instance["inputs"]
    tasks, devices = range(instance["tasks"]), instance["devices"]
    most, after = step_of(instance, hint[0]), levels_of(instance)
    step = model.new_int_var(least_of(instance), most, "step")
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
        rename.setdefault(hint[1][t], len(rename))
        model.add_hint(start[t], hint[0][t])
        for d, here in enumerate(on[t]):
            model.add_hint(here, d == rename[hint[1][t]])
    return lambda solver: ([solver.value(s) for s in start], [next(d for d, here in enumerate(row) if solver.value(here)) for row in on])


def star_of(instance):
    """(root, sink), None where there is none, if all other tasks read the root and are read by the sink, and by nothing else."""
    count, reads = instance["tasks"], instance["inputs"]
    root = 0 if all(reads[t] == [0] for t in range(1, count - 1)) else None
    low = 0 if root is None else 1
    sink = count - 1 if reads[count - 1] == list(range(low, count - 1)) else None
    others = range(low, count if sink is None else sink)
    fits = all(reads[t] == ([] if root is None else [root]) for t in others) and len(others) > 0 and (root, sink) != (None, None)
    return (root, sink) if fits else None


def star_model(model, instance, star, most):
    """Devices alone, and no times: all that a device runs is there at once, so the order in which what it makes is sent, what travels
    longest first, is best on it (Jackson 1955). Then a device is done with what travels at least so long after the sum of these tasks."""
    us, size = instance["us"], instance["bytes"]
    root, sink = star
    inner = sorted((t for t in range(instance["tasks"]) if t not in star), key=lambda t: (-size[t] if sink is not None else 0, -us[t], t))
    devices = min(instance["devices"], len(inner) + 1)
    step = model.new_int_var(least_of(instance), most, "step")
    on = [[model.new_bool_var(f"on{t},{d}") for d in range(devices)] for t in inner]
    for row in on:
        model.add_exactly_one(row)
    apart = model.new_bool_var("apart")  # the sink is on device 1 and the root on 0; else both are on 0, or what there is of them
    if root is None or sink is None or devices == 1:
        model.add(apart == 0)
    end = step if sink is None else step - us[sink]
    for d in range(devices):
        done = 0 if root is None else us[root]
        for k, t in enumerate(inner):
            done += us[t] * on[k][d]
            if sink is None and t != inner[-1]:
                continue
            some, sent = model.new_bool_var(""), model.new_bool_var("")  # the device runs one of these; and the sink is elsewhere
            for row in on[:k + 1]:
                model.add_implication(row[d], some)
            model.add_bool_or([sent, some.negated()] + ([apart.negated()] if d == 0 else [apart] if d == 1 else []))
            begin = size[root] * some if root is not None and d > 0 else 0
            leave = size[t] * sent if sink is not None else 0
            model.add(begin + done + leave <= end)
    first = 1 if root is None or sink is None else 2  # the first of the devices that are alike: each begins after the one before
    for k, row in enumerate(on):
        for d in range(first + 1, devices):
            model.add_bool_or([row[d].negated()] + [earlier[d - 1] for earlier in on[:k]])
        if k + 1 < len(on) and us[inner[k]] == us[inner[k + 1]] and (sink is None or size[inner[k]] == size[inner[k + 1]]):
            model.add(sum(d * here for d, here in enumerate(row)) <= sum(d * here for d, here in enumerate(on[k + 1])))
    model.minimize(step)

    def read(solver):
        device = [0] * instance["tasks"]
        for row, t in zip(on, inner):
            device[t] = next(d for d, here in enumerate(row) if solver.value(here))
        if sink is not None:
            device[sink] = int(solver.value(apart))
        return starts_of(instance, ([] if root is None else [root]) + inner + ([] if sink is None else [sink]), device), device

    return read


WAYS = [{}, {"linearization_level": 0, "symmetry_level": 3}]  # with a linear relaxation, and without, where most trees and joins are closed


def solve(instance, limit, known=None, until=float("inf")):
    """The best starts and devices within `limit`, a bound, and the deterministic time that it had. `known`: starts and devices to begin
    with. `until`: of time.monotonic()."""
    from ortools.sat.python import cp_model
    serial = ([sum(instance["us"][:t]) for t in range(instance["tasks"])], [0] * instance["tasks"])
    hints = [list_schedule(instance, averse) for averse in (0.0, 0.5, 1.0)] + ([known] if known else []) + [serial]
    best = min(hints, key=lambda hint: step_of(instance, hint[0]))
    bound, had, star = least_of(instance), 0.0, star_of(instance)
    for way in WAYS:
        if bound == step_of(instance, best[0]) or time.monotonic() >= until:
            break
        model = cp_model.CpModel()
        read = star_model(model, instance, star, step_of(instance, best[0])) if star else times_model(model, instance, best)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_deterministic_time = limit / len(WAYS)
        solver.parameters.random_seed = 1
        for name, value in way.items():
            setattr(solver.parameters, name, value)
        if until < float("inf"):
            solver.parameters.max_time_in_seconds = max(0.1, until - time.monotonic())
        status = solver.solve(model)
        had += solver.response_proto.deterministic_time
        bound = max(bound, int(round(solver.best_objective_bound)))
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            best = min(best, read(solver), key=lambda found: step_of(instance, found[0]))
    return best, bound, limit if time.monotonic() < until else min(had, limit)


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


def plan_by(program, instance):
    """Starts and devices of a plan by `optimize`. The starts are worked out anew here: CP-SAT is told no more than a plan."""
    with tempfile.TemporaryDirectory() as folder:
        graph, machine = optima_graphs.write(instance, pathlib.Path(folder))
        plan, both = pathlib.Path(folder, "plan.json"), {"capture_output": True, "text": True, "check": True}
        subprocess.run([program, "optimize", graph, "-m", machine, "--threads", "1", "--clock", "cpu", "--budget", "0.5s", "-o", plan], **both)
        lines = subprocess.run([program, "export", graph, "-m", machine, "--plan", plan, "--to", "csv"], **both).stdout.splitlines()
        rows = list(csv.DictReader(lines))
    device = [int(row["device"][1:]) for row in rows]
    return starts_of(instance, sorted(range(len(rows)), key=lambda t: (float(rows[t]["start_us"]), t)), device), device


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


def solve_one(name, limit, program, before, until):
    instance = optima_graphs.make(name)
    began = time.process_time()
    known = [(before["start"], before["device"])] if before else []
    if program:
        known.append(plan_by(program, instance))
    known = min(known, key=lambda plan: step_of(instance, plan[0]), default=None)
    (start, device), bound, had = solve(instance, limit, known, until)
    took, step = time.process_time() - began, step_of(instance, start)
    if program:
        simulated = simulate(program, instance, plan_of(instance, start, device))
        if simulated > step * (1 + 1e-9) or simulated < bound * (1 - 1e-9):
            raise RuntimeError(f"{name}: CP-SAT says {step} us (at least {bound}), the simulator {simulated}")
        if abs(simulated - step) > 1e-6 and step == bound:
            raise RuntimeError(f"{name}: CP-SAT says that {step} us is the least, the simulator {simulated}")
    return {"name": name, "step_us": step, "bound_us": max(bound, before["bound_us"] if before else 0), "limit": round(had, 2),
            "took_s": round(took, 2), "start": start, "device": device}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="development", help="such as development,acceptance; one that waits for its turn only at the end")
    parser.add_argument("--only", help="names of instances, separated by commas, in place of whole sets")
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing after this, and end what runs")
    parser.add_argument("--store", type=pathlib.Path, default=STORE)
    parser.add_argument("--bin")
    parser.add_argument("--jobs", type=int, default=1, help="instances that are solved side by side, each in a process of its own")
    options = parser.parse_args()
    known = read_store(options.store)
    until = time.monotonic() + 60.0 * options.minutes

    def still_open(name):
        return name not in known or not (is_closed(known[name]) or known[name]["limit"] >= options.limit)

    every = options.only.split(",") if options.only else [n for s in options.sets.split(",") for n in optima_graphs.names_of(s)]
    names = [name for name in every if still_open(name)]
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        calls = {}
        while names or calls:
            while names and len(calls) < options.jobs and time.monotonic() < until:
                name = names.pop(0)
                calls[pool.submit(solve_one, name, options.limit, options.bin, known.get(name), until)] = name
            if not calls:
                break
            for call in concurrent.futures.wait(calls, return_when=concurrent.futures.FIRST_COMPLETED).done:
                record = known[calls.pop(call)] = call.result()
                write_store(options.store, known)
                at_least = "" if is_closed(record) else f", at least {record['bound_us']}"
                print(f"{record['name']}: {record['step_us']} us{at_least} in {record['took_s']} s", file=sys.stderr, flush=True)
    print(f"{sum(map(is_closed, known.values()))} of {len(known)} closed", file=sys.stderr)


if __name__ == "__main__":
    main()
