"""For bench/measured.py: training steps on parts of a GPU, when their ops ran, and what was predicted of them."""
import contextlib
import csv
import dataclasses
import gzip
import io
import json
import math
import os
import statistics
import sys
import time
import traceback
from collections import Counter
from unittest import mock

import torch

import stowage
import stowage.torch
from run_models import MODELS
from stowage.torch.running import _kernels

RUNS = 10


@dataclasses.dataclass
class Op:
    """One op of a plan, in microseconds."""

    name: str
    operator: str
    device: int
    node: int
    predicted: tuple  # begin and end
    measured: tuple


def run(folder, models, devices, budget):
    """The exit status: of every model all is tried, and what fails is told."""
    torch.backends.cuda.matmul.allow_tf32 = True
    say(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, {torch.cuda.get_device_name() if torch.cuda.is_available() else 'no GPU'}; {devices}")
    failed = []
    machine = None
    with stage("calibrating the devices", failed):
        machine = stowage.torch.calibrate(devices)
        say(f"links {machine.machine['links']}")
    for model in models:
        with stage(model, failed):
            run_model(os.path.join(folder, model), model, devices, budget, machine, failed)
    say(f"failed: {'; '.join(failed)}" if failed else "no part failed")
    return int(bool(failed))


def run_model(path, model, devices, budget, machine, failed):
    torch.manual_seed(0)
    module, args = MODELS[model]()
    module, args = module.to("cuda"), tuple(a.to("cuda") for a in args)
    found = stowage.torch.calibrate(devices, module, *args, machine=machine)
    plan = found.optimize(budget)
    expected = found.as_predicted(plan)
    found.save(path + "-machine.json")
    expected.graph.save(path + "-graph.json.gz")
    expected.save(path + "-plan.json")
    predicted = 1e6 * expected.evaluate().step
    say(f"{model}: {len(plan.graph.ops)} ops, predicted {predicted:.1f} us")
    with stowage.torch.place(module, *args, plan=plan, devices=devices, update="sgd", rate=0.0) as step:
        unrecorded = 1e6 * step.seconds()
        say(f"{model}: {unrecorded:.1f} us a step, not recorded; {sum(1 for _ in step.program.transfers)} transfers, {step.runner.dependencies} dependencies")
        with kept(path + "-raw"):
            step.trace(path + "-trace.json", RUNS)
        say(f"{model}: {1e6 * step.seconds():.1f} us a step behind the profiler")
        with stage(f"{model}, compared", failed):
            ops, whole = compared(path + "-trace.json", plan, expected)
            print_table(model, ops, whole, predicted, unrecorded)
            print_order(model, ops, step.program, len(devices))
    with stage(f"{model}, page", failed):
        expected.report(path + ".html", measured=path + "-trace.json")
        say(f"{model}: page written")


@contextlib.contextmanager
def kept(path):
    """What the profiler records is kept in files: a bench of the trace itself."""
    read, count = _kernels.events_of, iter(range(9))

    def events_of(recorded):
        events = read(recorded)
        with gzip.open(f"{path}-{next(count)}.json.gz", "wt") as file:
            json.dump({"traceEvents": events}, file)
        streams = {}
        for e in events:
            if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
                key = e["cat"], e["args"].get("context"), e["args"].get("stream")
                streams[key] = streams.get(key, 0) + 1
        say(f"recorded {len(events)} events; on the device (category, context, stream): {streams}")
        return events

    with mock.patch.object(_kernels, "events_of", events_of):
        yield


def compared(path, plan, expected):
    """Ops that were measured and predicted, and the microseconds from the first one's begin to the last one's end."""
    with open(path, encoding="utf-8") as file:
        events = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X" and e["cat"] != "copy"]
    rows = list(csv.DictReader(io.StringIO(expected.export_bytes("csv").decode())))
    ops = []
    for e in events:
        node, row = plan.graph.nodes[e["args"]["id"]], rows[e["args"]["id"]]
        ops.append(Op(node.name, node.op, plan.device[node.id], node.id, (float(row["start_us"]), float(row["end_us"])), (e["ts"], e["ts"] + e["dur"])))
    seen = {op.node for op in ops}
    without = Counter(op.op for op in plan.graph.ops if op.id not in seen)
    say(f"{len(ops)} of {len(plan.graph.ops)} ops have an event; those without: {dict(without)}")
    return ops, max(op.measured[1] for op in ops) - min(op.measured[0] for op in ops)


def ratio(op):
    return length(op.measured) / length(op.predicted) if length(op.predicted) > 0 else float("inf")


def length(span):
    return span[1] - span[0]


def print_table(model, ops, whole, predicted, unrecorded):
    """By operator, those first that take longest."""
    classes = {}
    for op in ops:
        classes.setdefault(op.operator, []).append(op)
    print(f"\n| {model} | ops | measured, us | predicted, us | ratio of the sums | median ratio | 90th percentile |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, own in sorted(classes.items(), key=lambda item: -sum(length(op.measured) for op in item[1])):
        print_row(name, own)
    print_row("all ops", ops)
    print(f"| the step | | {whole:.1f} | {predicted:.1f} | {whole / predicted:.3f} | | |")
    print(f"| the step, not recorded | | {unrecorded:.1f} | {predicted:.1f} | {unrecorded / predicted:.3f} | | |\n", flush=True)


def print_row(name, ops):
    measured, predicted = (sum(length(getattr(op, which)) for op in ops) for which in ("measured", "predicted"))
    ratios = sorted(map(ratio, ops))
    of_sums = f"{measured / predicted:.3f}" if predicted > 0 else "-"
    print(f"| {name} | {len(ops)} | {measured:.1f} | {predicted:.1f} | {of_sums} | {statistics.median(ratios):.3f} | {ratios[math.ceil(0.9 * len(ratios)) - 1]:.3f} |")


def print_order(model, ops, program, device_count):
    """Whether the trace can be true: what reads begins behind what it reads, and a device does one thing after the other."""
    by_node = {op.node: op for op in ops}
    early, waited = [], 0
    for task in program.tasks:
        for transfer in task.receives:
            if transfer.producer in by_node and task.id in by_node:
                waited += 1
                early.append(by_node[transfer.producer].measured[1] - by_node[task.id].measured[0])
    wrong = sorted(us for us in early if us > 0.0)
    print(f"{model}: of {waited} values that cross, {len(wrong)} are read before they are made, by {max(wrong, default=0.0):.3f} us at most")
    for d in range(device_count):
        own = sorted((op for op in ops if op.device == d), key=lambda op: op.measured[0])
        gaps = [b.measured[0] - a.measured[1] for a, b in zip(own, own[1:])]
        in_order = [op.node for op in own] == [task.id for task in program.of(d) if task.id in by_node]
        busy, late = sum(length(op.measured) for op in own), sum(length(op.predicted) for op in own)
        print(f"{model}, device {d}: {len(own)} ops, {'in' if in_order else 'NOT in'} the order of the plan; busy {busy:.1f} us (predicted {late:.1f}); "
              f"gaps {statistics.median(gaps):.3f} us in the median, {min(gaps):.3f} at least, {max(gaps):.1f} at most; "
              f"last end {own[-1].measured[1]:.1f} (predicted {max(op.predicted[1] for op in own):.1f})")  # fmt: skip


@contextlib.contextmanager
def stage(name, failed):
    """What goes wrong is told, and the next part begins."""
    began = time.monotonic()
    try:
        yield
    except Exception:
        traceback.print_exc()
        failed.append(name)
    say(f"{name}: {time.monotonic() - began:.1f} s")


def say(text):
    print(text, flush=True)
    sys.stderr.flush()
