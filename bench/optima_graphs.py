"""Task graphs of the kinds that the literature on scheduling with communication uses, made from seeds: what bench/optima.py runs.

A task is an op that takes a whole number of microseconds, equal on all devices; its result is a tensor of a whole number of bytes, and a
link carries one byte in a microsecond without latency. The machine has no contention, memory is no question: the step is then the makespan
of the classical problem, except that a result goes to a device once, however many tasks read it there.

An instance is made of its set's name and its number alone, with nothing but random.Random(text).random(), which Python promises to keep.
An acceptance set is not for building with: it is run at the end, once, and then is as known as a development set. acceptance and
acceptance2 were run on 2026-11-18, acceptance3, acceptance4 and acceptance5 on 2026-11-19.
"""
import dataclasses
import json
import random

KINDS = ["fork", "join", "fork-join", "out-tree", "in-tree", "pipeline", "stencil", "series-parallel", "random"]


@dataclasses.dataclass(frozen=True)
class Range:
    """What a set's instances are drawn from. Kinds take turns, so each has as many."""
    count: int
    kinds: tuple = tuple(KINDS)
    least: int = 10  # tasks
    most: int = 40
    devices: tuple = (2, 3, 4, 8, 16)
    ratios: tuple = (0.1, 0.5, 1.0, 2.0, 10.0)  # mean microseconds of a transfer over those of a task


# trees, to build with: what the search of the first acceptance set's run fell short on, few tasks for each device and transfers that are dear.
RANGES = {"development": Range(198), "acceptance": Range(450), "acceptance2": Range(450), "acceptance3": Range(450),
          "acceptance4": Range(450), "acceptance5": Range(450), "acceptance6": Range(450),
          "trees": Range(120, ("out-tree", "in-tree", "fork", "join"), 30, 40, (8, 16), (5.0, 10.0))}
SETS = {name: drawn.count for name, drawn in RANGES.items()}


class Draw:
    def __init__(self, text):
        self.random = random.Random(text).random

    def whole(self, low, high):
        return low + int(self.random() * (high - low + 1))

    def one_of(self, items):
        return items[self.whole(0, len(items) - 1)]


# ---- shapes: a list of the tasks that each task reads, all earlier ones ----


def fork(draw, count):
    return [[]] + [[0] for _ in range(count - 1)]


def join(draw, count):
    return [[] for _ in range(count - 1)] + [list(range(count - 1))]


def fork_join(draw, count):
    return [[]] + [[0] for _ in range(count - 2)] + [list(range(1, count - 1))]


def out_tree(draw, count):
    branches = draw.whole(2, 4)
    inputs, free = [[]], [0] * branches
    while len(inputs) < count:
        parent = free.pop(draw.whole(0, len(free) - 1))
        free += [len(inputs)] * branches
        inputs.append([parent])
    return inputs


def turned_round(inputs):
    last = len(inputs) - 1
    out = [[] for _ in inputs]
    for task, reads in enumerate(inputs):
        for read in reads:
            out[last - read].append(last - task)
    return [sorted(reads) for reads in out]


def in_tree(draw, count):
    return turned_round(out_tree(draw, count))


def pipeline(draw, count):
    """Items that go through stages: a task needs its item from the stage before, and its stage to be done with the item before."""
    stages = draw.whole(3, 6)
    inputs = []
    for task in range(count):
        reads = []
        if task >= stages:
            reads.append(task - stages)
        if task % stages > 0:
            reads.append(task - 1)
        inputs.append(reads)
    return inputs


def stencil(draw, count):
    """Rows of cells; each reads the three next to it in the row before."""
    width = draw.whole(3, 7)
    inputs = []
    for task in range(count):
        row, column = divmod(task, width)
        near = [c for c in (column - 1, column, column + 1) if 0 <= c < width]
        inputs.append([(row - 1) * width + c for c in near] if row > 0 else [])
    return inputs


def series_parallel(draw, count):
    edges = []
    made = [0]

    def task():
        made[0] += 1
        return made[0] - 1

    def part(size):
        """Its first and last tasks. Two or more in parallel stand between a task before and one after."""
        if size == 1:
            one = task()
            return one, one
        if size < 4 or draw.random() < 0.4:
            size_before = draw.whole(1, size - 1)
            first, middle = part(size_before)
            follows, last = part(size - size_before)
            edges.append((middle, follows))
            return first, last
        first, left, ends = task(), size - 2, []
        while left > 0:
            share = left if len(ends) == 3 else draw.whole(1, max(1, left - (len(ends) == 0)))
            begin, end = part(share)
            edges.append((first, begin))
            ends.append(end)
            left -= share
        last = task()
        edges.extend((end, last) for end in ends)
        return first, last

    part(count)
    inputs = [[] for _ in range(count)]
    for source, target in edges:
        inputs[target].append(source)
    return inputs


def random_graph(draw, count):
    chance = min(1.0, 2.0 * (1.0 + 2.0 * draw.random()) / (count - 1))
    inputs = [[earlier for earlier in range(task) if draw.random() < chance] for task in range(count)]
    for task in range(1, count):  # nothing stands alone
        if not inputs[task] and not any(task in reads for reads in inputs[task + 1:]):
            inputs[task].append(draw.whole(0, task - 1))
    return inputs


SHAPES = {"fork": fork, "join": join, "fork-join": fork_join, "out-tree": out_tree, "in-tree": in_tree, "pipeline": pipeline,
          "stencil": stencil, "series-parallel": series_parallel, "random": random_graph}


# ---- instances ----


def make(name):
    """The instance SET-NUMBER, such as development-7."""
    chosen, number = name.rsplit("-", 1)
    if chosen not in SETS or not number.isdigit() or int(number) >= SETS[chosen]:
        raise ValueError(f"no instance {name}; there are {', '.join(f'{s}-0 to {s}-{n - 1}' for s, n in SETS.items())}")
    draw = Draw(f"stowage optima {name}")
    drawn = RANGES[chosen]
    kind = drawn.kinds[int(number) % len(drawn.kinds)]
    count, devices, ratio = draw.whole(drawn.least, drawn.most), draw.one_of(drawn.devices), draw.one_of(drawn.ratios)
    inputs = SHAPES[kind](draw, count)
    us = [draw.whole(1, 50) for _ in range(count)]
    size = [1 + int(2.0 * 25.5 * ratio * draw.random()) for _ in range(count)]
    return {"name": name, "kind": kind, "tasks": count, "devices": devices, "ratio": ratio, "inputs": inputs, "us": us, "bytes": size}


def names_of(chosen):
    return [f"{chosen}-{number}" for number in range(SETS[chosen])]


def graph_of(instance):
    """The opgraph file's object. A matrix product is fused with no other, so that nothing but placement and order is decided."""
    nodes = [{"id": task, "name": f"t{task}", "op": "mm", "inputs": reads, "dtype": "u8", "shape": [size], "bytes": size, "us": {"unit": us}}
             for task, (reads, us, size) in enumerate(zip(instance["inputs"], instance["us"], instance["bytes"]))]
    return {"format": "opgraph", "version": 1, "name": instance["name"], "family": instance["kind"], "nodes": nodes}


def machine_of(instance):
    names = [f"d{number}" for number in range(instance["devices"])]
    unit = {"kind": "unit", "memory_bytes": 1e12, "launch_us": 0, "flops_per_s": {"f32": 1e12}, "bandwidth_bytes_per_s": 1e12,
            "efficiency": {"matmul": 1}}
    return {"format": "machine", "version": 1, "name": f"{len(names)} units", "contention": "none",
            "devices": [{"name": name, **unit} for name in names],
            "links": [{"from": a, "to": b, "bandwidth_bytes_per_s": 1e6, "latency_us": 0} for a in names for b in names if a != b]}


def write(instance, folder):
    """Writes graph and machine; returns their paths."""
    graph, machine = folder / f"{instance['name']}.json", folder / f"{instance['name']}.machine.json"
    graph.write_text(json.dumps(graph_of(instance)))
    machine.write_text(json.dumps(machine_of(instance)))
    return graph, machine
