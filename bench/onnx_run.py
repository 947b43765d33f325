#!/usr/bin/env python3
"""Plans run by ONNX Runtime, a session per part on two cores: predicted beside measured.

    build/venv/bin/python3 bench/onnx_run.py [--set fresh] [--runs 60] [--evaluations 2000]     prints a table of docs/results/onnx.md
    build/venv/bin/python3 bench/onnx_run.py --several [--runs 60]                              another: hand-overs of several tensors

The models of the set `first` were there when it was decided how the plan is chosen; those of `fresh` came after, for one run.

Op times are those of a profile of the whole model on one core; what a hand-over between two sessions takes is measured with chains of
small and of large tensors. Then everything on one core and the plan run in turn, so that what else the computer does meets both, and the
fastest step of each counts. The plan is the one among those of optimize and some methods that is best as parts run. Needs the packages onnx and onnxruntime, and two cores.
"""
import argparse
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python" / "src"))

import numpy  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import stowage  # noqa: E402
import stowage.onnx  # noqa: E402

CHAIN = 20  # hand-overs of a chain
TURNS = 12  # between two cores, with several tensors each time
LARGE = 1 << 20  # floats
METHODS = ["spread", "expert", "metis", "heft"]  # whose plans are tried as parts, beside that of optimize


class Model:
    """Nodes in order, each with a name; weights at random."""

    def __init__(self):
        self.nodes, self.weights, self.random = [], [], numpy.random.default_rng(1)

    def add(self, op, *inputs, **attributes):
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def weight(self, *sizes):
        name = f"w{len(self.weights)}"
        value = self.random.standard_normal(sizes, dtype=numpy.float32) / numpy.sqrt(numpy.prod(sizes[1:]), dtype=numpy.float32)
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def proto(self, inputs, output):
        graph = helper.make_graph(self.nodes, "model", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
                                  [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)], self.weights)  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def two_towers():
    m, ends = Model(), []
    for tower in ("user", "item"):
        at = tower
        for _ in range(6):
            at = m.add("Tanh", m.add("MatMul", at, m.weight(512, 512)))
        ends.append(at)
    return m.proto({"user": [64, 512], "item": [64, 512]}, m.add("Mul", *ends))


def inception(blocks=3, channels=48, size=32):
    m, at = Model(), "x"
    for _ in range(blocks):
        branches = [m.add("Relu", m.add("Conv", at, m.weight(channels // 4, channels, 1, 1)))]
        for kernel in (3, 5, 3):
            narrow = m.add("Relu", m.add("Conv", at, m.weight(channels // 2, channels, 1, 1)))
            branches.append(m.add("Relu", m.add("Conv", narrow, m.weight(channels // 4, channels // 2, kernel, kernel), pads=[kernel // 2] * 4)))
        at = m.add("Concat", *branches, axis=1)
    return m.proto({"x": [4, channels, size, size]}, at)


def experts(count=8, width=512):
    m = Model()
    ends = [m.add("MatMul", m.add("Relu", m.add("MatMul", "x", m.weight(width, 2 * width))), m.weight(2 * width, width)) for _ in range(count)]
    return m.proto({"x": [32, width]}, m.add("Sum", *ends))


def layers(count=8, width=512):
    """A plain chain: nothing in it runs side by side, so one core should win."""
    m, at = Model(), "x"
    for _ in range(count):
        at = m.add("Relu", m.add("MatMul", at, m.weight(width, width)))
    return m.proto({"x": [32, width]}, at)


def late_fusion(width=384):
    """An image through convolutions and a vector through products, of unequal work, joined at the end."""
    m, image, vector = Model(), "image", "vector"
    for k in range(4):
        image = m.add("Relu", m.add("Conv", image, m.weight(32, 3 if k == 0 else 32, 3, 3), pads=[1] * 4))
    for _ in range(5):
        vector = m.add("Tanh", m.add("MatMul", vector, m.weight(width, width)))
    image = m.add("MatMul", m.add("Flatten", m.add("GlobalAveragePool", image)), m.weight(32, width))
    return m.proto({"image": [8, 3, 32, 32], "vector": [8, width]}, m.add("Add", image, vector))


def heads(count=8, length=128, width=256, deep=2):
    """Attention with each head by itself, which all meet in a product after each layer."""
    m, at = Model(), "x"
    for _ in range(deep):
        ends = []
        for _ in range(count):
            query, key, value = (m.add("MatMul", at, m.weight(width, width // 4)) for _ in range(3))
            share = m.add("Softmax", m.add("MatMul", query, m.add("Transpose", key, perm=[1, 0])), axis=-1)
            ends.append(m.add("MatMul", share, value))
        at = m.add("Add", at, m.add("MatMul", m.add("Concat", *ends, axis=1), m.weight(count * width // 4, width)))
    return m.proto({"x": [length, width]}, at)


def ensemble(widths=(256, 384, 512, 640)):
    """Models of unequal size whose answers are added."""
    m, ends = Model(), []
    for width in widths:
        at = m.add("Relu", m.add("MatMul", "x", m.weight(256, width)))
        for _ in range(3):
            at = m.add("Relu", m.add("MatMul", at, m.weight(width, width)))
        ends.append(m.add("MatMul", at, m.weight(width, 64)))
    return m.proto({"x": [64, 256]}, m.add("Sum", *ends))


def skips(channels=24, size=32):
    """Down and up again, with what was before added on the way up: hardly anything runs side by side."""
    m, at, kept = Model(), "x", []
    for level in range(3):
        at = m.add("Relu", m.add("Conv", at, m.weight(channels, channels, 3, 3), pads=[1] * 4))
        kept.append(at)
        at = m.add("Relu", m.add("Conv", at, m.weight(channels, channels, 3, 3), pads=[1] * 4, strides=[2, 2]))
    for before in reversed(kept):
        at = m.add("ConvTranspose", at, m.weight(channels, channels, 2, 2), strides=[2, 2])
        aside = m.add("Relu", m.add("Conv", before, m.weight(channels, channels, 3, 3), pads=[1] * 4))
        at = m.add("Add", at, aside)
    return m.proto({"x": [4, channels, size, size]}, at)


def siamese(channels=32, size=24):
    """Two images through convolutions of their own, and how far apart they are."""
    m, ends = Model(), []
    for name in ("a", "b"):
        at = name
        for k in range(5):
            at = m.add("Relu", m.add("Conv", at, m.weight(channels, 3 if k == 0 else channels, 3, 3), pads=[1] * 4))
        ends.append(at)
    return m.proto({name: [4, 3, size, size] for name in "ab"}, m.add("Abs", m.add("Sub", *ends)))


SETS = {"first": {"two towers": two_towers, "inception": inception, "experts": experts, "chain": layers},
        "fresh": {"late fusion": late_fusion, "heads": heads, "ensemble": ensemble, "skips": skips, "siamese": siamese}}  # fmt: skip


def machine(latency_us, bytes_per_s):
    core = {"kind": "cpu1", "memory_bytes": 8e9, "launch_us": 1, "flops_per_s": {"f32": 5e10}, "bandwidth_bytes_per_s": 1e10,
            "efficiency": {"matmul": 0.5}}  # fmt: skip
    links = [{"from": f"core{k}", "to": f"core{1 - k}", "bandwidth_bytes_per_s": bytes_per_s, "latency_us": latency_us} for k in (0, 1)]
    return {"format": "machine", "version": 1, "name": "two cores", "devices": [{"name": f"core{k}", **core} for k in (0, 1)], "links": links}


def feeds_of(model):
    random = numpy.random.default_rng(2)
    return {value.name: random.standard_normal([d.dim_value for d in value.type.tensor_type.shape.dim], dtype=numpy.float32)
            for value in model.graph.input}  # fmt: skip


def fastest(runners, feeds, runs):
    """The fastest step of each, run in turn."""
    took = [[] for _ in runners]
    for _ in range(runs):
        for k, run in enumerate(runners):
            took[k] += run.seconds(feeds, 1)
    return [min(times) for times in took]


def hand_over(cores):
    """Seconds of a hand-over, and bytes per second on top: chains that change sessions at every node, against one that never does."""
    found = []
    for size in (1, LARGE):
        m, at = Model(), "x"
        for _ in range(CHAIN + 1):
            at = m.add("Relu", at)
        model = m.proto({"x": [size]}, at)
        graph = stowage.onnx.load(model)
        turns = [0] * len(graph)
        for turn, op in enumerate(graph.ops):
            turns[op.id] = turn % 2
        plans = [stowage.Plan(graph, machine(1, 1e10), device=device) for device in ([0] * len(graph), turns)]
        runners = [stowage.onnx.Runner(stowage.onnx.split(model, plan), cores) for plan in plans]
        alone, apart = fastest(runners, feeds_of(model), 40)
        for run in runners:
            run.close()
        found.append((apart - alone) / CHAIN)
    return found[0], 4 * (LARGE - 1) / max(found[1] - found[0], 1e-12)


def exchange(count, size):
    """Turns of one sum of `count` tensors and as many made of it; the turn of each node by its name."""
    m, turns, ends = Model(), {}, ["x"]
    for turn in range(TURNS):
        at = m.add("Sum", *ends)
        ends = [m.add("Relu", at) for _ in range(count)]
        turns.update(dict.fromkeys([at, *ends], turn))
    end = m.add("Sum", *ends)
    return m.proto({"x": [size]}, end), {**turns, end: TURNS - 1}


def several(cores, link, runs):
    """Microseconds that a change of sessions adds where so many tensors are handed over, measured and predicted."""
    print("| floats in each | tensors | measured | predicted |")
    print("| ---: | ---: | ---: | ---: |")
    for size in (1, LARGE // 4, LARGE):
        for count in (1, 2, 4, 8):
            model, turns = exchange(count, size)
            graph = stowage.onnx.load(model)
            device = [turns[node.name] % 2 if node.name in turns else 0 for node in graph.nodes]
            splits = [stowage.onnx.split(model, stowage.Plan(graph, machine(1, 1e10), device=d)) for d in ([0] * len(graph), device)]
            runners = [stowage.onnx.Runner(split, cores) for split in splits]
            times = [fastest(runners, feeds_of(model), runs), [split.predict(*link) for split in splits]]
            for run in runners:
                run.close()
            more = [1e6 * (apart - alone) / (TURNS - 1) for alone, apart in times]
            print(f"| {size} | {count} | {more[0]:.0f} | {more[1]:.0f} |", flush=True)


def profile(model, cores):
    """The file of a profile of the whole model on the first core."""
    graph = stowage.onnx.load(model)
    split = stowage.onnx.split(model, stowage.Plan(graph, machine(1, 1e10)))
    with tempfile.TemporaryDirectory() as folder, stowage.onnx.Runner(split, cores, profile=os.path.join(folder, "p")) as run:
        run.seconds(feeds_of(model), 30)
        return Path(run.end_profiling()[0]).read_bytes()


def row(name, model, cores, link, options, folder):
    costs = Path(folder, "costs.json")
    costs.write_bytes(profile(model, cores))
    graph = stowage.onnx.load(model)
    simulator = stowage.Simulator(graph, machine(1e6 * link[0], link[1]), costs=costs)
    single = simulator.run("single")
    found = stowage.optimize(simulator, evaluations=options.evaluations, tasks="placement,schedule").plan
    plan = min([found, *(simulator.run(method) for method in METHODS)], key=lambda p: stowage.onnx.split(model, p).predict(*link))
    splits = [stowage.onnx.split(model, p) for p in (single, plan)]
    runners = [stowage.onnx.Runner(split, cores) for split in splits]
    feeds = feeds_of(model)
    same = all(a.tobytes() == b.tobytes() for a, b in zip(*(run(feeds).values() for run in runners)))
    measured = fastest(runners, feeds, options.runs)
    for run in runners:
        run.close()
    predicted = [split.predict(*link) for split in splits]
    return (f"| {name} | {len(splits[1].parts)} | {len(splits[1].bytes_between)} | {'yes' if same else '**no**'} "
            f"| {single.evaluate().step / plan.evaluate().step:.2f} | {predicted[0] / predicted[1]:.2f} | {measured[0] / measured[1]:.2f} "
            f"| {measured[0] / predicted[0]:.2f} | {measured[1] / predicted[1]:.2f} |")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=SETS, default="fresh")
    parser.add_argument("--several", action="store_true", help="hand-overs of several tensors in place of models")
    parser.add_argument("--runs", type=int, default=60, help="steps of each, of which the fastest counts")
    parser.add_argument("--evaluations", type=int, default=2000, help="of the search for the plan")
    options = parser.parse_args()
    there = sorted(os.sched_getaffinity(0))
    if len(there) < 2:
        sys.exit("two cores are needed; this process may use one")
    cores = [f"cpu:{core}" for core in there[:2]]
    link = hand_over(cores)
    print(f"a hand-over takes {1e6 * link[0]:.0f} us and a second per {1e-9 * link[1]:.1f} GB\n")
    if options.several:
        several(cores, link, options.runs)
        return
    print("| model | parts | tensors between | results equal | speed-up of the plan | as parts | measured | measured / predicted, one core | two cores |")
    print("| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for name, make in SETS[options.set].items():
            print(row(name, make(), cores, link, options, folder), flush=True)


if __name__ == "__main__":
    main()
