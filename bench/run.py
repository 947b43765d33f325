#!/usr/bin/env python3
"""Plans run for real: training steps on several devices, measured beside what was predicted.

    python3 bench/run.py --devices cuda:0/sm:64,cuda:0/sm:64 [--models lstm,towers] [--budget 4s] [--store run.jsonl] [--deadline 540]
    python3 bench/run.py --table --store run.jsonl

For each model: its ops are timed on the devices, alone and in company, plans are made for the machine that was calibrated from small
benchmarks, and each of them is run. A line of JSON for each row goes to --store, and what stands there is not run again; a row that does
not fit before the deadline is left for the next call. --whole times the whole GPU instead: the module
as it is, compiled, and as one CUDA graph. Plans of a row take turns, and calls side by side (--lock, --beside) time one after the other.
"""
import argparse
import contextlib
import copy
import dataclasses
import fcntl
import gzip
import json
import pathlib
import statistics
import sys
import time

import torch

import stowage
import stowage.torch
from run_models import MODELS, SMALL
from stowage.torch.running import _place, _streams
from stowage.torch.predicting._predict import copy_onto
from stowage.torch.calibrating._host_bench import quickest
from runs import append, lines_of

METHODS = ("single", "spread", "topo", "random", "expert", "metis", "heft", "etf", "steer")


def on_gpu(devices):
    return all(device.startswith("cuda") for device in devices)


def say(text):
    print(text, file=sys.stderr, flush=True)


def made(model, gpu):
    torch.manual_seed(0)
    module, args = (MODELS if gpu else SMALL)[model]()
    place = "cuda" if gpu else "cpu"
    return module.to(place), tuple(a.to(place) for a in args)


def plans_for(found, options):
    simulator = stowage.Simulator(found.graph, found.machine)
    plans = {name: simulator.run(name) for name in METHODS}
    plans["optimize"] = found.optimize(options.budget, **limits(options))
    for name in options.by_file.split(",") if options.by_file else ():
        plans[f"{name}, file order"] = in_file_order(plans[name], simulator)
    return plans


def limits(options):
    return {"threads": options.threads} if options.threads else {}


def bounds(found):
    """Microseconds that no plan can beat with the times in company, and with those alone, by the simulator."""
    simulators = {"company": found.graph, "alone": dataclasses.replace(found, company=found.alone).graph}
    return {name: 1e6 * stowage.optimize(stowage.Simulator(graph, found.machine), budget=None, evaluations=20, tasks="placement,schedule").bounds.plan
            for name, graph in simulators.items()}  # fmt: skip


def in_file_order(plan, simulator):
    """The same placement, every device in the order of the trace."""
    same = plan.copy()
    ops = [node.id for node in simulator.graph.ops]
    for d in range(len(plan.machine)):
        same.set_order(d, [k for k in ops if plan.device[k] == d])
    return same


def placed(module, args, plan, devices, options):
    return stowage.torch.place(module, *args, plan=plan, devices=devices, update="sgd", rate=0.0, copies=options.copies)


def about(step, devices):
    count = sum(1 for _ in step.program.transfers)
    return {"transfers": count, "dependencies": getattr(step.runner, "dependencies", count),
            "order": [[task.id for task in step.program.of(d)] for d in range(len(devices))]}  # fmt: skip


def run_by_turns(module, args, plans, devices, options, found_times):
    """Of each plan: seconds, and what it is. All are placed before any is timed, and then take turns, so that what disturbs one disturbs
    all: the cores of a virtual machine may be slower for seconds, and what a GPU takes between two kernels changes with the processes that
    come and go. On CPUs ops are timed again between the turns, and of each plan the quickest quarter of its steps counts."""
    gpu = on_gpu(devices)
    steps = {name: placed(module, args, plan, devices, options) for name, plan in plans.items()}
    times = {name: [] for name in plans}
    with locked(options.lock):
        for turn in range(options.turns + 1):
            for name, found in zip(steps, _place.one_turn(steps.values(), 4)):
                if turn > 0:
                    times[name] += found
            if not gpu and turn % 4 == 3:
                time_again(found_times, devices, module, args)
    counted = {name: own if gpu else quickest(own) for name, own in times.items()}
    found = {name: (statistics.median(counted[name]), about(step, devices)) for name, step in steps.items()}
    for step in steps.values():
        step.close()
    return found


def time_again(found, devices, module, args):
    """Keeps the quieter of what was timed before and now."""
    again = stowage.torch.calibrate(devices, module, *args, machine=found)
    for mine, other in ((found.alone, again.alone), (found.company, again.company)):
        for kind in mine:
            mine[kind] = min(mine[kind], other[kind], key=lambda times: sum(times.values()))
    for kind, alone in found.alone.items():
        found.company[kind] = {k: max(us, alone[k]) for k, us in found.company[kind].items()}


def static(found, plan):
    """Seconds with all ops in company, by the times that are known now."""
    return copy_onto(plan, stowage.Simulator(found.graph, found.machine)).evaluate().step


def measure_row(model, devices, machine, options):
    module, args = made(model, on_gpu(devices))
    began = time.monotonic()
    with locked(options.lock):
        found = stowage.torch.calibrate(devices, module, *args, copies=options.copies, machine=machine)
    timed = time.monotonic()
    plans = plans_for(found, options)
    planned = time.monotonic()
    rows, raw = [], []
    state = copy.deepcopy(module.state_dict())
    runs = run_by_turns(module, args, plans, devices, options, found)
    for name, (measured, step) in runs.items():
        plan = plans[name]
        expected, in_company = found.predict(plan).step, static(found, plan)
        rows.append({"plan": name, "predicted_us": 1e6 * expected, "static_us": 1e6 * in_company, "measured_us": 1e6 * measured, **step})
        raw.append({"plan": name, "device": list(plan.device), "order": rows[-1].pop("order"), "measured_us": 1e6 * measured})
        say(f"{model} {len(devices)} {name}: predicted {1e6 * expected:.0f} (static {1e6 * in_company:.0f}), measured {1e6 * measured:.0f} us, "
            f"{rows[-1]['transfers']} transfers, {rows[-1]['dependencies']} dependencies")  # fmt: skip
    module.load_state_dict(state)
    ops = list(next(iter(found.alone.values())))
    if options.tune:
        tuning = time.monotonic()
        tuned = stowage.torch.tune(module, *args, devices=devices, runs=options.tune, budget=options.tune_budget, copies=options.copies,
                                   calibration=found, progress=say, report=(1, 5, 10, 25, 50))  # fmt: skip
        extra = {"tuned_us": 1e6 * tuned.seconds, "after_us": {n: 1e6 * s for n, s in tuned.report.items()}, "tuned_runs": len(tuned.runs),
                 "tuned_single_us": 1e6 * tuned.single, "tuning_s": time.monotonic() - tuning, "belief": tuned.belief.factors,
                 "tuned_plans": [{"plan": run.name, "predicted_us": 1e6 * run.predicted, "measured_us": 1e6 * run.measured}
                                 for run in tuned.runs]}  # fmt: skip
    else:
        extra = {}
    record = {"model": model, "devices": devices, "copies": options.copies, "ops": len(ops), "torch": torch.__version__, "plans": rows,
              "company": total(found.company) / total(found.alone), "bound_us": bounds(found), "timing_s": timed - began, "planning_s": planned - timed,
              "running_s": time.monotonic() - planned, **extra}  # fmt: skip
    if options.raw:
        with gzip.open(options.raw / f"{model}-{len(devices)}{'-copies' if options.copies else ''}.json.gz", "wt") as file:
            caches = {kind: dataclasses.asdict(cache) for kind, cache in found.caches.items()}
            json.dump({"devices": devices, "file": found.file, "alone": found.alone, "company": found.company, "caches": caches,
                       "machine": machine.machine, "runs": raw}, file)  # fmt: skip
    return record


def total(times):
    return sum(us for of_kind in times.values() for us in of_kind.values())


def whole(model, options):
    """The step on the whole GPU, microseconds: from Python as it is, compiled, compiled into CUDA graphs, and as one CUDA graph of the same
    ops that a plan runs."""
    module, args = made(model, True)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.0, fused=True)

    def step(run):
        optimizer.zero_grad()
        loss = run(*args)
        loss = loss if loss.numel() == 1 else loss.pow(2).mean()
        loss.backward()
        optimizer.step()

    def graph():
        traced = stowage.torch.trace(module, *args)
        plan = stowage.Simulator(traced, "h200x1").run("single")
        return stowage.torch.place(module, *args, plan=plan, devices=["cuda:0"], update="sgd", rate=0.0)

    ways = {"eager": lambda: module, "compiled": lambda: torch.compile(module), "graphs": lambda: torch.compile(module, mode="reduce-overhead")}
    found = {}
    for name, make in ways.items():
        run = make()
        for _ in range(5):
            step(run)
        with locked(options.lock):
            found[name] = timed(lambda: step(run))
        say(f"{model}, whole GPU, {name}: {found[name]:.0f} us")
        torch._dynamo.reset()
    optimizer.zero_grad()
    with locked(options.lock), graph() as placed:
        found["graph"] = 1e6 * placed.seconds(20)
    return {"model": model, "whole": found, "torch": torch.__version__}


def timed(run):
    """Microseconds of a step among others in a row, as Placed.seconds has it."""
    for _ in range(5):
        run()
    return 1e6 * statistics.median(_streams.times_in_a_row(run, 20))


_held = set()  # locks of this process


@contextlib.contextmanager
def locked(path):
    """Calls that run side by side time one after the other."""
    if path is None or path in _held:
        yield
        return
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _held.add(path)
        try:
            yield
        finally:
            _held.remove(path)


def meet(options, where):
    """Waits for the other calls: when a process begins or ends its use of a GPU, what all take between two kernels may change."""
    if options.beside > 1:
        place = options.lock.with_name(f"{options.lock.name}.{where}")
        append(place, {"here": True})
        while len(list(lines_of(place))) < options.beside:
            time.sleep(0.05)


def use_in_turn(path):
    """Plans are traced side by side, and given to the GPU and run one after the other."""
    class InTurn(_streams.Streams):
        def __init__(self, *args, **kwargs):
            with locked(path):
                super().__init__(*args, **kwargs)

        def times(self, runs):
            with locked(path):
                return super().times(runs)

    _place.Streams = InTurn


def tau(pairs):
    """Kendall's, over pairs whose measured times differ by more than 2 %."""
    agree = count = 0
    for k, (p, m) in enumerate(pairs):
        for q, n in pairs[:k]:
            if max(m, n) > 1.02 * min(m, n):
                count += 1
                agree += 1 if (p - q) * (m - n) > 0 else -1
    return agree / count if count else 1.0


def quantile(values, share):
    values = sorted(values)
    return values[min(int(share * len(values)), len(values) - 1)]


def is_method(plan):
    return "," not in plan["plan"]  # not the same placement in another order


def print_rows(records):
    print("| step, devices | ops | one device | best other plan | `optimize` | over it | transfers | error, median | largest | tau |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for r in records:
        plans = [p for p in r["plans"] if is_method(p)]
        named = {p["plan"]: p for p in plans}
        errors = [abs(p["measured_us"] / p["predicted_us"] - 1) for p in plans]
        best = min((p for p in plans if p["plan"] != "optimize"), key=lambda p: p["measured_us"])
        own = named["optimize"]
        print(f"| {r['model']}, {len(r['devices'])} | {r['ops']} | {named['single']['measured_us']:.0f} | {best['measured_us']:.0f} ({best['plan']}) "
              f"| {own['measured_us']:.0f} | {own['measured_us'] / best['measured_us']:.3f} | {own['transfers']} | {100 * statistics.median(errors):.1f} % "
              f"| {100 * max(errors):.1f} % | {tau([(p['predicted_us'], p['measured_us']) for p in plans]):.2f} |")  # fmt: skip


def print_summary(records):
    print("\n| devices | plans | times of ops | error, median | 90th percentile | tau, median row | least | `optimize` over the best other |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    for count in sorted({len(r["devices"]) for r in records}):
        rows = [[p for p in r["plans"] if is_method(p)] for r in records if len(r["devices"]) == count]
        gains = [next(p["measured_us"] for p in row if p["plan"] == "optimize") / min(p["measured_us"] for p in row if p["plan"] != "optimize")
                 for row in rows]  # fmt: skip
        for name, key in (("by who works beside them", "predicted_us"), ("all in company", "static_us")):
            errors = [abs(p["measured_us"] / p[key] - 1) for row in rows for p in row]
            taus = [tau([(p[key], p["measured_us"]) for p in row]) for row in rows]
            print(f"| {count} | {len(errors)} | {name} | {100 * statistics.median(errors):.1f} % | {100 * quantile(errors, 0.9):.1f} % "
                  f"| {statistics.median(taus):.2f} | {min(taus):.2f} | {statistics.geometric_mean(gains):.3f} |")  # fmt: skip


def sort_of(record):
    """What rows are told apart by in tables."""
    if len({d.startswith("cuda") for d in record["devices"]}) > 1:
        return "CPU and GPU together"
    if on_gpu(record["devices"]):
        return "groups of a GPU, values copied" if record["copies"] else "groups of a GPU, values by reference"
    return f"CPU devices, {record.get('carrier', 'threads')}"


def print_tables(stored):
    rows = [r for r in stored if "plans" in r]
    tuned = [r for r in rows if "tuned_us" in r]
    first = {}
    for r in rows:  # of those that were run again
        first.setdefault((sort_of(r), r["model"], tuple(r["devices"])), r)
    rows = list(first.values())
    for sort in dict.fromkeys(map(sort_of, rows)):
        print(f"### {sort}\n")
        print_rows([r for r in rows if sort_of(r) == sort])
        print_summary([r for r in rows if sort_of(r) == sort])
        print()
    print_tuned(tuned)
    print_whole([r for r in stored if "whole" in r])


def print_tuned(tuned):
    if tuned:
        print("| tuned by running | after 1 run | 5 | 10 | 25 | 50 | `optimize` | best other | one device |\n| --- |" + 8 * " ---: |")
    for r in tuned:
        named = {p["plan"]: p["measured_us"] for p in r["plans"]}
        best = min((p["plan"] for p in r["plans"] if is_method(p) and p["plan"] != "optimize"), key=named.__getitem__)
        after = [f"{r['after_us'][n]:.0f}" if n in r["after_us"] else "-" for n in ("1", "5", "10", "25", "50")]
        print(f"| {r['model']}, {len(r['devices'])} | {' | '.join(after)} | {named['optimize']:.0f} | {named[best]:.0f} ({best}) | {named['single']:.0f} |")


def print_whole(whole):
    if whole:
        print("\n| the whole GPU | eager | compiled | compiled, CUDA graphs | one CUDA graph, nothing fused |\n| --- | ---: | ---: | ---: | ---: |")
    for r in whole:
        print(f"| {r['model']} | " + " | ".join(f"{r['whole'][key]:.0f}" for key in ("eager", "compiled", "graphs", "graph")) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", default="cuda:0/sm:64,cuda:0/sm:64", help="separated by commas")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--budget", default="4s")
    parser.add_argument("--turns", type=int, default=10, help="of three steps each that every plan has")
    parser.add_argument("--threads", type=int, default=0, help="of a search; 0: all cores")
    parser.add_argument("--copies", action="store_true")
    parser.add_argument("--by-file", default="", help="plans that are also run with every device in the order of the trace")
    parser.add_argument("--tune", type=int, default=0, help="runs for stowage.torch.tune, beside the plans")
    parser.add_argument("--tune-budget", default="1s", help="of one of its searches")
    parser.add_argument("--whole", action="store_true", help="the whole GPU instead of plans")
    parser.add_argument("--lock", type=pathlib.Path, help="a file that calls side by side lock while they time")
    parser.add_argument("--beside", type=int, default=1, help="so many calls with this lock, which is new, wait for each other at begin and end")
    parser.add_argument("--store", type=pathlib.Path, default=pathlib.Path("run.jsonl"))
    parser.add_argument("--raw", type=pathlib.Path, help="folder for times of ops and plans")
    parser.add_argument("--deadline", type=float, default=1e9, help="seconds after which no row is begun")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.beside > 1 and options.lock is None:
        parser.error("--beside needs --lock, a file that all calls name")
    began = time.monotonic()
    torch.backends.cuda.matmul.allow_tf32 = True
    if options.lock:
        use_in_turn(options.lock)
    stored = [json.loads(line) for line in lines_of(options.store)]
    if options.table:
        print_tables(stored)
        return 0
    devices = options.devices.split(",")
    machine = None
    longest = 0.0
    if options.beside > 1:
        with locked(options.lock):
            machine = stowage.torch.calibrate(devices, copies=options.copies)
        meet(options, "begun")
    for model in options.models.split(","):
        if time.monotonic() - began + longest > options.deadline:
            say(f"{model} is left for the next call")
            continue
        begin = time.monotonic()
        try:
            if options.whole:
                if any(r.get("model") == model and "whole" in r for r in stored):
                    continue
                record = whole(model, options)
            else:
                if any(r.get("model") == model and r.get("devices") == devices and r.get("copies") == options.copies for r in stored):
                    continue
                if machine is None:
                    with locked(options.lock):
                        machine = stowage.torch.calibrate(devices, copies=options.copies)
                record = measure_row(model, devices, machine, options)
                record["machine"] = machine.machine
            append(options.store, record)
        except (stowage.Error, RuntimeError) as error:
            say(f"{model}: {str(error).splitlines()[0]}")
        longest = max(longest, time.monotonic() - begin)
    meet(options, "ended")
    return 0


if __name__ == "__main__":
    sys.exit(main())
