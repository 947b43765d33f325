#!/usr/bin/env python3
"""Plans run by processes: the small training steps of run_models.py on CPU devices, each in a process of its own, beside what was predicted.

    torchrun --nproc-per-node 4 bench/run_ranks.py [--models lstm,towers] [--budget 4s] [--store run.jsonl] [--deadline 540]
    python3 bench/run_ranks.py --threads 4 ...            # the same devices as threads of one process
    python3 bench/run.py --table --store run.jsonl        # what came of it

Device k is core k of those that may be used (--cores gives each more). Rank 0 calibrates, makes the plans and writes a line of JSON for
each row, as bench/run.py does, with the carrier of the values: "shared", "gloo" (--carrier gloo; predicted as if memory were shared, since
gloo is not calibrated) or "threads". The plans are run in several sweeps with the ops timed again between them, and of all that the quickest
quarter counts, as in bench/run.py. What stands in the store is not run again; a model that fails, or a row that does not fit before the deadline, does not keep the others from running.
"""
import argparse
import copy
import datetime
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist

import stowage
import stowage.torch
from run import METHODS, static, time_again
from run_models import SMALL
from runs import about_this_place, append, lines_of
from stowage.torch.calibrating._host_bench import quickest

RANK, SIZE = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def say(text):
    print(text, file=sys.stderr, flush=True)


def devices_of(count, cores, ranks):
    """Names of so many devices, on cores that this process may use."""
    allowed = sorted(os.sched_getaffinity(0))
    if count * cores > len(allowed):
        raise SystemExit(f"{count} devices of {cores} cores need {count * cores}, and there are {len(allowed)}")
    parts = [allowed[k * cores : (k + 1) * cores] for k in range(count)]
    return [f"cpu:{','.join(map(str, part))}{f'@{k}' if ranks else ''}" for k, part in enumerate(parts)]


def from_first(value):
    """What rank 0 has, on all ranks, as JSON."""
    if SIZE == 1:
        return value
    text = json.dumps(value).encode() if RANK == 0 else b""
    length = torch.tensor([len(text)])
    dist.broadcast(length, 0)
    data = torch.zeros(int(length), dtype=torch.uint8)
    if RANK == 0:
        data.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
    dist.broadcast(data, 0)
    return json.loads(bytes(data.tolist()))


def made(model):
    torch.manual_seed(0)
    return SMALL[model]()


def plan_files(model, devices, machine, options, folder):
    """On rank 0: calibrates, makes plans and writes them. The calibration, the plans, their files, and what is known of the row."""
    module, args = made(model)
    began = time.monotonic()
    found = stowage.torch.calibrate(devices, module, *args, machine=machine)
    timed = time.monotonic()
    simulator = stowage.Simulator(found.graph, found.machine)
    plans = {name: simulator.run(name) for name in METHODS}
    plans["optimize"] = found.optimize(options.budget)
    paths = {name: str(pathlib.Path(folder) / f"{model}-{name}.json") for name in plans}
    for name, plan in plans.items():
        plan.save(paths[name])
    about = {"model": model, "devices": devices, "copies": False, "ops": len(simulator.graph.ops), "torch": torch.__version__,
             "timing_s": timed - began, "planning_s": time.monotonic() - timed}  # fmt: skip
    return found, plans, {"paths": paths, "about": about}


def run_plans(planned, devices, options, between):
    """On every rank: each plan is placed and timed, in several sweeps. What was measured of each, and the carrier."""
    module, args = made(planned["about"]["model"])
    state = copy.deepcopy(module.state_dict())
    times, counts, carrier = {name: [] for name in planned["paths"]}, {}, ""
    for _ in range(options.sweeps):
        for name, path in planned["paths"].items():
            with stowage.torch.place(module, *args, plan=path, devices=devices, update="sgd", rate=0.0, carrier=options.carrier) as step:
                step.runner.times(3)
                times[name] += step.runner.times(options.runs)
                carrier = step.carrier
                counts[name] = sum(1 for _ in step.program.transfers)
            module.load_state_dict(state)
        between(module, args)
    return {name: (statistics.median(quickest(found)), counts[name]) for name, found in times.items()}, carrier


def measure_row(model, devices, machine, options, folder):
    found = plans = planned = None
    if RANK == 0:
        try:
            found, plans, planned = plan_files(model, devices, machine, options, folder)
        except (stowage.Error, RuntimeError) as error:
            say(f"{model}: {str(error).splitlines()[0]}")
    planned = from_first(planned)
    if planned is None:
        return
    began = time.monotonic()

    def between(module, args):
        said = None
        if RANK == 0:
            try:
                time_again(found, devices, module, args)
            except (stowage.Error, RuntimeError) as error:
                said = str(error).splitlines()[0]
        said = from_first(said)  # the others wait
        if said is not None:
            raise stowage.Error(f"timing ops again failed: {said}")

    try:
        measured, carrier = run_plans(planned, devices, options, between)
    except (stowage.Error, RuntimeError) as error:  # of one rank or of all; whoever has it has told the others
        say(f"rank {RANK}, {model}: {str(error).splitlines()[0]}")
        return
    if RANK == 0:
        rows = []
        for name, (seconds, count) in measured.items():
            expected = found.predict(plans[name]).step
            rows.append({"plan": name, "predicted_us": 1e6 * expected, "static_us": 1e6 * static(found, plans[name]), "measured_us": 1e6 * seconds,
                         "transfers": count, "dependencies": count})  # fmt: skip
            say(f"{model} {len(devices)} {name} ({carrier}): predicted {1e6 * expected:.0f}, measured {1e6 * seconds:.0f} us, {count} transfers")
        append(options.store, {**planned["about"], "carrier": carrier, "plans": rows, "running_s": time.monotonic() - began, "machine": machine.machine,
                               **about_this_place()})  # fmt: skip


def what_to_run(devices, carrier, options):
    """On rank 0: the models that are not in the store."""
    stored = [json.loads(line) for line in lines_of(options.store)]
    ran = {r["model"] for r in stored if r.get("devices") == devices and r.get("carrier") == carrier}
    return [model for model in options.models.split(",") if model not in ran]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="so many devices as threads of this one process")
    parser.add_argument("--cores", type=int, default=1, help="of each device")
    parser.add_argument("--models", default=",".join(SMALL))
    parser.add_argument("--budget", default="4s")
    parser.add_argument("--runs", type=int, default=8, help="of each plan in each sweep")
    parser.add_argument("--sweeps", type=int, default=3)
    parser.add_argument("--carrier", choices=("shared", "gloo"), default="shared")
    parser.add_argument("--store", type=pathlib.Path, default=pathlib.Path("run.jsonl"))
    parser.add_argument("--deadline", type=float, default=1e9, help="seconds after which no row is begun")
    options = parser.parse_args()
    began = time.monotonic()
    unknown = [model for model in options.models.split(",") if model not in SMALL]
    if unknown or (options.threads > 0) == (SIZE > 1):
        parser.error(f"there is no model {unknown[0]}" if unknown else "start it with torchrun, or give --threads, not both")
    devices = devices_of(options.threads or SIZE, options.cores, SIZE > 1)
    torch.set_num_threads(options.cores)
    if SIZE > 1:  # the others wait for rank 0 while it calibrates and plans
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group("gloo", timeout=datetime.timedelta(hours=1))
    else:
        options.carrier = None
    models = from_first(what_to_run(devices, options.carrier or "threads", options) if RANK == 0 else None)
    machine = stowage.torch.calibrate(devices) if RANK == 0 and models else None
    longest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            begin = time.monotonic()
            if not from_first(begin - began + longest <= options.deadline):
                say(f"{model} is left for the next call") if RANK == 0 else None
                continue
            measure_row(model, devices, machine, options, folder)
            longest = max(longest, time.monotonic() - begin)
    if SIZE > 1:
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
