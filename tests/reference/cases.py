"""Random cases for the two simulators: small graphs, odd machines, plans that are mostly valid and full of ties.

    make_case(seed, number) -> {"graph", "machine", "plan", "duration_ps"}

A case depends on (seed, number) alone. Most cases combine many features (views, updates, groups, orders, buses), because
faults hide where features meet. About one case in six is spoiled on purpose, so that every reason for invalidity occurs.
"""

import copy
import heapq
import random

import refsim

SOURCES = ("parameter", "parameter", "parameter", "buffer", "input", "constant")
VIEWS = ("view", "slice", "expand", "t", "getitem")
OPS = (["add", "mul", "sub", "relu", "tanh", "sigmoid", "neg"] * 4
       + ["new_zeros", "ones_like", "sum", "mean", "cat", "clone"]
       + ["mm", "bmm", "addmm", "convolution", "mystery_op"])
KINDS = ("h200", "cpu8", "p100")
DTYPES = ("f32",) * 6 + ("bf16", "f16", "f64", "s64", "s32", "pred", "u8", "s8", "u16", "c64", "c128", "none")
SHAPES = ([], [1], [3], [8], [2, 5], [16], [4, 6], [7, 7], [32], [3, 4, 5], [100], [0], [0, 4])
# At 1e12 B/s a byte takes a picosecond: transfers then end at the same moments as tasks that last a few picoseconds.
BANDWIDTHS = (1e12, 1e12, 1e12, 4e12, 2e13, 1e14, 2.5e11, 3e12 / 7, 1.7e12, 999999999999.9, 10 ** 12)
# 1e-6 us is a picosecond; the halves show how halves are rounded.
LATENCIES = (0, 0, 0, 0.0, 1e-6, 3e-6, 5e-6, 2.5e-6, 0.5e-6, 1.5e-6, 1e-5, 0.0001)
CHARGES = (0, 1e-6, 2e-6, 3e-6, 7e-6, 0.5e-6, 1.5e-6, 2.5e-6, 2e-5, 0.0001)
# An odd number of picoseconds above 2^52: adding 0.5 to it in doubles gives the next even one.
ODD_LATENCY = 5000000000.000001


def make_case(seed, number):
    rng = random.Random(f"stowage {seed}/{number}")  # seeded by text: the same on every version of Python
    shape = rng.random()
    if shape < 0.02:
        case = wide_case(rng)
    elif shape < 0.035:
        case = long_case(rng)
    else:
        case = ordinary_case(rng)
    finish_case(rng, case)
    if rng.random() < 0.19:
        case = spoil(rng, case)
    scramble_ignored(rng, case)
    return case


def ordinary_case(rng):
    graph = random_graph(rng, pick_size(rng))
    machine = random_machine(rng)
    plan = {"format": "plan", "version": 1, "device": place(rng, graph, machine)}
    case = {"graph": graph, "machine": machine, "plan": plan}
    if rng.random() < 0.75:
        fuse(rng, case)
    return case


def finish_case(rng, case):
    """Everything that needs to know the tasks: priorities, durations, orders, links that are left out, memory."""
    set_priorities(rng, case)
    set_durations(rng, case)
    if rng.random() < 0.1:
        reach_the_limit(rng, case)
    if rng.random() < 0.6:
        set_order(rng, case)
    if rng.random() < 0.3:
        drop_idle_links(rng, case)
    if rng.random() < 0.35:
        set_memory(rng, case)


# ---------------------------------------------------------------------------------------------------------------------
# Graphs
# ---------------------------------------------------------------------------------------------------------------------


def pick_size(rng):
    roll = rng.random()
    if roll < 0.01:
        return 0
    if roll < 0.05:
        return rng.randint(1, 6)
    if roll < 0.93:
        return rng.randint(12, 40)
    return rng.randint(41, 60)


class GraphMaker:
    def __init__(self, rng):
        self.rng = rng
        self.nodes = []
        self.root = []
        self.not_updated = []

    def add(self, op, inputs, shape, dtype, size=None, **more):
        node = {"id": len(self.nodes), "name": f"n{len(self.nodes)}", "op": op, "inputs": inputs, "dtype": dtype,
                "shape": list(shape), "bytes": shape_bytes(shape, dtype) if size is None else size}
        node.update(more)
        self.root.append(self.root[inputs[0]] if more.get("view") else node["id"])
        self.nodes.append(node)
        return node["id"]

    def tensor(self):
        return self.rng.choice(SHAPES), self.rng.choice(DTYPES)

    def earlier(self):
        """An earlier node, mostly a recent one, so that chains grow."""
        last = len(self.nodes) - 1
        if self.rng.random() < 0.6:
            return self.rng.randint(max(0, last - 6), last)
        return self.rng.randint(0, last)

    def add_source(self):
        kind = self.rng.choice(SOURCES)
        node = self.add(kind, [], *self.tensor())
        if kind in refsim.RESIDENT:
            self.not_updated.append(node)
        return node

    def add_view(self):
        """A slice, a reshape or an expansion (which has more bytes than its root); file `bytes` are mostly 0."""
        of = self.earlier()
        base = self.nodes[of]
        shape, dtype = list(base["shape"]), base["dtype"]
        roll = self.rng.random()
        if roll < 0.45 and shape:
            shape[0] = self.rng.randint(0 if self.rng.random() < 0.1 else min(1, shape[0]), shape[0])
        elif roll < 0.65:
            shape = [self.rng.randint(2, 6)] + shape
        elif roll < 0.75:
            dtype = self.rng.choice(DTYPES)
        inputs = [of]
        if self.rng.random() < 0.15:
            inputs.append(self.earlier())  # an index tensor, say: it does not count
        size = 0 if self.rng.random() < 0.8 else shape_bytes(shape, dtype)
        return self.add(self.rng.choice(VIEWS), inputs, shape, dtype, size, view=True)

    def add_op(self):
        inputs = [self.earlier() for _ in range(self.rng.choice((0, 1, 1, 1, 2, 2, 2, 3, 4)))] if self.nodes else []
        if inputs and self.rng.random() < 0.15:
            inputs.append(self.rng.choice(inputs))
        shape, dtype = self.tensor()
        size = None if self.rng.random() < 0.92 else self.rng.randint(0, 600)  # several outputs in one node
        return self.add(self.rng.choice(OPS), inputs, shape, dtype, size, flops=self.rng.randint(0, 1000))

    def add_update(self):
        parameter = self.not_updated.pop(self.rng.randrange(len(self.not_updated)))
        read = [node["id"] for node in self.nodes if self.root[node["id"]] == parameter]
        inputs = [self.rng.choice(read)] if self.rng.random() < 0.85 else []
        inputs.append(self.earlier())
        base = self.nodes[parameter]
        update = self.add(self.rng.choice(("sub", "add", "mul")), inputs, base["shape"], base["dtype"], flops=1,
                          updates=parameter)
        roll = self.rng.random()
        if roll < 0.25:  # a late reader, for which the update must wait although it stands earlier in the file
            self.add("tanh", [parameter], *self.tensor(), flops=1)
        elif roll < 0.5:  # a descendant of the update that reads the parameter: no wait
            self.add("add", [update, parameter], *self.tensor(), flops=1)
        elif roll < 0.6:  # the same, held back by a control edge instead of data
            self.add("mul", [parameter], *self.tensor(), flops=1, control=[update])

    def grow(self, size):
        for _ in range(self.rng.randint(min(1, size), max(1, size // 4)) if size else 0):
            self.add_source()
        while len(self.nodes) < size:
            roll = self.rng.random()
            if roll < 0.05:
                self.add_source()
            elif roll < 0.27:
                self.add_view()
            elif roll < 0.36 and self.not_updated:
                self.add_update()
            else:
                self.add_op()

    def decorate(self):
        """Control edges (from any node) and colocation (of any node with any node)."""
        for node in self.nodes:
            if refsim.is_op_node(node) and node["id"] > 0 and "control" not in node and self.rng.random() < 0.12:
                node["control"] = [self.rng.randrange(node["id"]) for _ in range(self.rng.randint(1, 2))]
        if self.rng.random() < 0.35 and len(self.nodes) > 1:
            for _ in range(self.rng.randint(1, 3)):
                one, other = self.rng.sample(range(len(self.nodes)), 2)
                self.nodes[one]["colocate"] = other

    def graph(self, outputs):
        graph = {"format": "opgraph", "version": 1, "name": "random", "family": "random", "outputs": outputs,
                 "nodes": self.nodes}
        if outputs:
            graph["loss"] = outputs[0]
        return graph


def shape_bytes(shape, dtype):
    size = refsim.DTYPE_BYTES[dtype]
    for extent in shape:
        size *= extent
    return size


def random_graph(rng, size):
    maker = GraphMaker(rng)
    maker.grow(size)
    maker.decorate()
    count = min(len(maker.nodes), rng.choice((0, 1, 1, 2, 3, 5)))
    return maker.graph(rng.sample(range(len(maker.nodes)), count))


# ---------------------------------------------------------------------------------------------------------------------
# Machines
# ---------------------------------------------------------------------------------------------------------------------


def random_machine(rng, devices=None):
    count = devices or rng.choice((1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 6, 6))
    kinds = rng.sample(KINDS, rng.randint(2, 3)) if rng.random() < 0.9 else [rng.choice(KINDS)]
    return {"format": "machine", "version": 1, "name": "random",
            "contention": "queue" if rng.random() < 0.88 else "none",
            "devices": [random_device(rng, i, kinds) for i in range(count)],
            "links": random_links(rng, count)}


def random_device(rng, index, kinds):
    kind = kinds[index % len(kinds)] if rng.random() < 0.7 else rng.choice(kinds)
    device = {"name": f"dev{index}", "kind": kind, "memory_bytes": 10 ** 12, "launch_us": rng.choice((0, 1, 2.5)),
              "flops_per_s": {"f32": 1e13}, "bandwidth_bytes_per_s": 1e12, "efficiency": {}}
    fuses = rng.choice((None, [], ["matmul"], ["matmul", "convolution"], ["convolution"]))
    if fuses is not None:
        device["fuses_epilogue"] = fuses
    return device


def random_links(rng, count):
    """All pairs. Buses: none, one for all, one per sending device, or a few that cross the pairs at random."""
    style = rng.choice(("none", "all", "all", "all", "sender", "mixed", "mixed", "mixed"))
    links = []
    slow = rng.choice(BANDWIDTHS)
    alike = rng.random() < 0.4
    charging = rng.choice((0, 0.5, 0.8, 1))  # the share of links that charge something
    for source in range(count):
        for destination in range(count):
            if source == destination:
                continue
            link = {"from": f"dev{source}", "to": f"dev{destination}",
                    "bandwidth_bytes_per_s": slow if alike else rng.choice(BANDWIDTHS),
                    "latency_us": rng.choice(LATENCIES) if rng.random() < 0.995 else ODD_LATENCY}
            add_charges(rng, link, charging)
            bus = {"none": None, "all": "host", "sender": f"bus{source}",
                   "mixed": rng.choice((None, "busA", "busA", "busB"))}[style]
            if bus is not None:
                link["bus"] = bus
            links.append(link)
    rng.shuffle(links)
    return links


def add_charges(rng, link, share):
    """What a link takes from its two devices, and now and then a table of bandwidths in place of one."""
    if rng.random() < share:
        for key in rng.choice((("send_us",), ("receive_us",), ("send_us", "receive_us"), ("send_us", "receive_us"))):
            link[key] = rng.choice(CHARGES)
    if rng.random() < 0.15:
        sizes = sorted(rng.sample((1, 8, 64, 100, 1000, 4096, 100000), rng.randint(1, 4)))
        seconds = sorted(size / link["bandwidth_bytes_per_s"] * rng.choice((0.5, 1, 1, 3, 10)) for size in sizes)
        points = [[size, size / time] for size, time in zip(sizes, seconds)]
        if all(a[0] / a[1] <= b[0] / b[1] for a, b in zip(points, points[1:])):  # the division may have rounded them apart
            link["bandwidth_bytes_per_s"] = points


# ---------------------------------------------------------------------------------------------------------------------
# Placement
# ---------------------------------------------------------------------------------------------------------------------


def place(rng, graph, machine):
    """A device per node that respects colocation. Views take their root's device."""
    known = refsim.Graph(graph)
    count = len(machine["devices"])
    cluster = clusters(known)
    style = rng.choice(("near",) * 6 + ("stages",) * 3 + ("random",) * 2 + ("one",))
    home = rng.randrange(count)
    chosen = {}
    device = []
    for node in graph["nodes"]:
        i = known.root[node["id"]]
        key = cluster[i]
        if key not in chosen:
            if style == "one":
                chosen[key] = home
            elif style == "stages":
                chosen[key] = node["id"] * count // len(graph["nodes"])
            elif style == "near" and node["inputs"] and rng.random() < 0.55:
                chosen[key] = device[rng.choice(node["inputs"])]
            else:
                chosen[key] = rng.randrange(count)
        device.append(chosen[key])
    return device


def clusters(known):
    """Nodes that must share a device, by the name of one of them."""
    name = list(range(len(known.nodes)))

    def find(i):
        while name[i] != i:
            i = name[i]
        return i

    pairs = list(known.updates.items())
    pairs += [(known.root[n["id"]], known.root[n["colocate"]]) for n in known.nodes if n.get("colocate") is not None]
    for one, other in pairs:
        if one not in known.everywhere and other not in known.everywhere:
            name[find(one)] = find(other)
    return [find(i) for i in range(len(name))]


def scramble_ignored(rng, case):
    """Entries for views, inputs and constants count for nothing; durations neither, unless they belong to a task."""
    plan = case["plan"]
    known = refsim.Graph(case["graph"])
    tasks = legal_tasks(case)
    ignored = [i for i in range(len(known.nodes)) if known.root[i] != i or i in known.everywhere]
    if rng.random() < 0.2:
        for i in ignored:
            plan["device"][i] = rng.randrange(len(case["machine"]["devices"]))
    if rng.random() < 0.2 and "priority" in plan:
        for i in ignored:
            plan["priority"][i] = rng.randint(-5, 5)
    if tasks is not None:
        for i in range(len(known.nodes)):
            if i not in tasks.by_id:
                case["duration_ps"][i] = rng.choice((None, 0))


# ---------------------------------------------------------------------------------------------------------------------
# Groups
# ---------------------------------------------------------------------------------------------------------------------


def legal_tasks(case):
    """The tasks of the plan, or None where its groups are illegal."""
    known = refsim.Graph(case["graph"])
    return legal_tasks_of(known, case["machine"], case["plan"])


def legal_tasks_of(known, machine, plan):
    tasks = refsim.Tasks(known, plan)
    try:
        refsim.check_groups(known, machine, tasks)
    except refsim.Invalid:
        return None
    return tasks


def fuse(rng, case):
    """Grows legal groups step by step: a step that is not legal is taken back."""
    known = refsim.Graph(case["graph"])
    plan = case["plan"]
    plan["group"] = list(range(len(known.nodes)))
    edges = [(first, then) for first in known.ops for then in sorted(known.readers[first])]
    rng.shuffle(edges)
    wanted_merges, wanted_recomputed = rng.choice((1, 2, 4, 8)), rng.choice((1, 1, 2, 4))
    for first, then in edges:
        if wanted_recomputed > 0 and rng.random() < 0.6:
            wanted_recomputed -= try_groups(known, case, recomputing(plan["group"], first))
        elif wanted_merges > 0:
            wanted_merges -= try_groups(known, case, merging(plan["group"], first, then))
    relabel(rng, known, plan)


def try_groups(known, case, group):
    """Keeps the new groups if they are legal; 1 if so."""
    if group is None:
        return 0
    old = case["plan"]["group"]
    case["plan"]["group"] = group
    if legal_tasks_of(known, case["machine"], case["plan"]) is not None:
        return 1
    case["plan"]["group"] = old
    return 0


def recomputing(group, op):
    if group[op] == -1:
        return None
    return group[:op] + [-1] + group[op + 1:]


def merging(group, first, then):
    one, other = group[first], group[then]
    if one == other or -1 in (one, other):
        return None
    return [other if g == one else g for g in group]


def relabel(rng, known, plan):
    """Group numbers mean nothing but equality, and those of views and sources nothing at all."""
    numbers = sorted(set(plan["group"]) - {-1})
    spread = rng.choice((1, 1, 3, 1000))
    label = dict(zip(numbers, rng.sample(range(len(numbers) * spread), len(numbers))))
    label[-1] = -1
    ops = set(known.ops)
    noise = rng.random() < 0.15
    for i, number in enumerate(plan["group"]):
        if i in ops:
            plan["group"][i] = label[number]
        else:
            plan["group"][i] = rng.randint(-1, 9) if noise else -1


# ---------------------------------------------------------------------------------------------------------------------
# Priorities, durations, orders, links, memory
# ---------------------------------------------------------------------------------------------------------------------


def set_priorities(rng, case):
    size = len(case["graph"]["nodes"])
    style = rng.choice(("absent", "bits", "bits", "few", "few", "fractions", "position", "wide"))
    values = {
        "bits": lambda i: rng.randint(0, 1),
        "few": lambda i: rng.choice((-2, -1, 0, -0.0, 1, 1.5, 3)),
        "fractions": lambda i: rng.randint(-8, 8) / 10,
        "position": lambda i: -i,
        "wide": lambda i: rng.uniform(-1e6, 1e6),
    }
    if style != "absent":
        case["plan"]["priority"] = [values[style](i) for i in range(size)]


def set_durations(rng, case):
    """Small numbers with many ties; unlike kinds take unlike times for the same op."""
    pool = rng.choice(((0, 1, 1, 2, 2, 3), (5,), (1, 2, 3, 4, 6, 8, 10), (0, 10, 20, 50, 100), (7, 40, 300, 1234567)))
    factors = dict(zip(KINDS, rng.sample((1, 2, 3, 5), len(KINDS))))
    devices = case["machine"]["devices"]
    case["duration_ps"] = [rng.choice(pool) * factors[devices[d]["kind"]] for d in case["plan"]["device"]]


def reach_the_limit(rng, case):
    """A step of exactly 2^62 ps, or a little more: where all is on one device it never idles, so durations just add up."""
    tasks = legal_tasks(case)
    if tasks is None or len(tasks.by_id) < 3 or used_pairs(case) or len({t.device for t in tasks.by_id.values()}) > 1:
        return
    case["duration_ps"] = [0] * len(case["duration_ps"])
    parts = (2 ** 61, 2 ** 61, rng.choice((0, 0, 1024)))  # exact in doubles too
    for i, part in zip(rng.sample(sorted(tasks.by_id), 3), parts):
        case["duration_ps"][i] = part


def run(case):
    return refsim.evaluate(case["graph"], case["machine"], case["plan"], case["duration_ps"])


def set_order(rng, case):
    """Strict orders that can proceed: any linear order of all tasks, cut up by device."""
    tasks = legal_tasks(case)
    if tasks is None:
        return
    evaluation = run(case)
    if evaluation.tasks is not None and rng.random() < 0.5:
        start = {task.id: task.start for task in evaluation.tasks.by_id.values()}
        sequence = linear_order(tasks, lambda i: (start[i], i))
    else:
        sequence = linear_order(tasks, lambda i: (rng.random(), i))
    share = rng.choice((0.4, 0.7, 1, 1))
    order = []
    for device in range(len(case["machine"]["devices"])):
        own = [i for i in sequence if tasks.by_id[i].device == device]
        order.append(own if rng.random() < share else None)
    case["plan"]["order"] = order


def linear_order(tasks, key):
    missing = {i: refsim.predecessors(tasks, task) for i, task in tasks.by_id.items()}
    after = {i: [] for i in missing}
    for i in sorted(missing):
        for before in missing[i]:
            after[before].append(i)
    free = [key(i) for i in sorted(missing) if not missing[i]]
    heapq.heapify(free)
    sequence = []
    while free:
        done = heapq.heappop(free)[-1]
        sequence.append(done)
        for i in after[done]:
            missing[i].discard(done)
            if not missing[i]:
                heapq.heappush(free, key(i))
    return sequence


def used_pairs(case):
    tasks = legal_tasks(case)
    if tasks is None:
        return None
    return {(f"dev{t.source}", f"dev{t.destination}") for t in refsim.find_transfers(tasks.graph, tasks).values()}


def drop_idle_links(rng, case):
    """Missing and one-way links that the plan happens not to need."""
    used = used_pairs(case)
    if used is not None:
        links = case["machine"]["links"]
        case["machine"]["links"] = [k for k in links if (k["from"], k["to"]) in used or rng.random() < 0.4]


def set_memory(rng, case):
    """Limits near the peaks: mostly just enough, sometimes a byte short."""
    result = run(case).result
    if "peak_bytes" not in result:
        return
    for device, peak in zip(case["machine"]["devices"], result["peak_bytes"]):
        device["memory_bytes"] = max(0, peak + rng.choice((0, 0, 0, 1, 100)))
    if rng.random() < 0.3:
        device = rng.randrange(len(case["machine"]["devices"]))
        short = rng.choice((1, 1, 8, 64))
        case["machine"]["devices"][device]["memory_bytes"] = max(0, result["peak_bytes"][device] - short)


# ---------------------------------------------------------------------------------------------------------------------
# The limits of a group
# ---------------------------------------------------------------------------------------------------------------------


def wide_case(rng):
    """A `cat` of about 96 values: alone it may read any number, fused it may not."""
    maker = GraphMaker(rng)
    sources = [maker.add(rng.choice(SOURCES), [], rng.choice(([1], [2])), "f32") for _ in range(rng.randint(93, 97))]
    inputs = sources + rng.sample(sources, 3)
    cat = maker.add("cat", inputs, [98], "f32", flops=1)
    relu = maker.add("relu", [cat, rng.choice(sources)], [98], "f32", flops=1)
    more = maker.add("mul", [relu, cat], [98], "f32", flops=1)
    maker.add("mystery_op", rng.sample([cat, relu, more], 2), [3], "f32", flops=1)
    graph = maker.graph(rng.sample([cat, relu, more], rng.randint(0, 2)))
    case = special_case(rng, graph, fused=[cat, relu, more])
    if rng.random() < 0.4:
        del case["plan"]["group"]
    return case


def long_case(rng):
    """A chain of about 64 ops in one group, some of them recomputed."""
    maker = GraphMaker(rng)
    chain = []
    previous = maker.add("input", [], [4], "f32")
    for _ in range(rng.randint(61, 67)):
        previous = maker.add(rng.choice(("relu", "neg", "add")), [previous], [4], "f32", flops=1)
        chain.append(previous)
    maker.add("mm", [previous, chain[5]], [4], "f32", flops=1)
    case = special_case(rng, maker.graph([previous]), fused=chain)
    for op in rng.sample(chain[:-1], rng.choice((0, 0, 1, 5))):
        case["plan"]["group"][op] = -1
    return case


def special_case(rng, graph, fused):
    machine = random_machine(rng)
    known = refsim.Graph(graph)
    plan = {"format": "plan", "version": 1, "device": place(rng, graph, machine)}
    for op in fused:
        plan["device"][op] = plan["device"][fused[0]]
    plan["group"] = [fused[0] if i in fused else i if known.is_op(i) else -1 for i in range(len(graph["nodes"]))]
    return {"graph": graph, "machine": machine, "plan": plan}


# ---------------------------------------------------------------------------------------------------------------------
# Spoiling
# ---------------------------------------------------------------------------------------------------------------------


def spoil(rng, case):
    """One fault or two. The fault that is checked later comes first, so that the other one must hide it."""
    weighted = list(SPOILERS) + ["groups", "groups"]  # there are many ways to be illegal
    chosen = {rng.choice(weighted) for _ in range(rng.choice((1, 1, 2)))}
    if rng.random() < 0.08:
        chosen = {"order", "overflow"}  # rare by chance, and the only pair of which one is found while the other runs
    for reason in reversed(SPOILERS):
        if reason in chosen:
            case = spoil_for(rng, case, reason)
    return case


def spoil_for(rng, case, reason):
    for _ in range(12):
        spoiled = copy.deepcopy(case)
        if SPOILERS[reason](rng, spoiled) is not False and run(spoiled).result["reason"] == reason:
            return spoiled
    return case


def spoil_colocation(rng, case):
    known = refsim.Graph(case["graph"])
    pairs = [i for i in known.updates] + [known.root[n["id"]] for n in known.nodes if n.get("colocate") is not None]
    if not pairs:
        return False
    case["plan"]["device"][rng.choice(pairs)] = rng.randrange(len(case["machine"]["devices"]))
    return True


def spoil_groups(rng, case):
    """Breaks one of the rules, chosen at random; where it can, no other one, so that no rule hides behind another."""
    known = refsim.Graph(case["graph"])
    case["plan"].setdefault("group", list(range(len(known.nodes))))
    return rng.choice(GROUP_FAULTS)(rng, case, known)


def same_device(case, ops):
    """All ordered pairs of these ops that share a device."""
    device = case["plan"]["device"]
    return [(one, other) for one in ops for other in ops if one != other and device[one] == device[other]]


def of_class(known, *classes):
    return [op for op in known.ops if refsim.op_class(known, op) in classes]


def put_together(rng, case, pairs):
    if not pairs:
        return False
    one, other = rng.choice(pairs)
    case["plan"]["group"][one] = case["plan"]["group"][other]
    return True


def recompute_any(rng, case, known):
    """Unread ones, outputs, ops with readers elsewhere."""
    if not known.ops:
        return False
    case["plan"]["group"][rng.choice(known.ops)] = -1
    return True


def recompute_opaque(rng, case, known):
    opaque = recomputable(case, known, ("opaque", "matmul", "convolution"))
    if not opaque:
        return False
    case["plan"]["group"][rng.choice(sorted(opaque))] = -1
    return True


def recomputable(case, known, classes):
    """Ops of these classes that could be recomputed if only their class mattered."""
    tasks = refsim.Tasks(known, case["plan"])
    return {op for op in of_class(known, *classes) if refsim.may_be_recomputed(known, tasks, op)}


def recompute_update(rng, case, known):
    read = [op for op in known.updates if known.readers[op]]
    if not read:
        return False
    case["plan"]["group"][rng.choice(read)] = -1
    return True


def recompute_output(rng, case, known):
    recomputed = {op for op in known.ops if case["plan"]["group"][op] == -1}
    nodes = [i for i in range(len(known.nodes)) if known.root[i] in recomputed]
    if not nodes:
        return False
    case["graph"]["outputs"].append(rng.choice(nodes))
    return True


def group_over_devices(rng, case, known):
    fusable = of_class(known, *refsim.FUSABLE)
    device = case["plan"]["device"]
    return put_together(rng, case, [(a, b) for a in fusable for b in fusable if device[a] != device[b]])


def group_over_cycle(rng, case, known):
    """Two fusable ops with something between them that stays outside."""
    after = {op: set(known.readers[op]) for op in known.ops}
    for first, then in known.waits:
        after[first].add(then)
    pairs = same_device(case, of_class(known, *refsim.FUSABLE))
    return put_together(rng, case, [(a, b) for a, b in pairs if b in refsim.reachable(after, a) - after[a]])


def group_opaque(rng, case, known):
    one, others = of_class(known, "opaque", "matmul", "convolution"), set(of_class(known, *refsim.FUSABLE))
    pairs = same_device(case, known.ops)
    return put_together(rng, case, [(a, b) for a, b in pairs if a in one and b in others])


def group_two_leaders(rng, case, known):
    allow_epilogues(case)
    return put_together(rng, case, same_device(case, of_class(known, "matmul", "convolution")))


def group_late_leader(rng, case, known):
    """A leader that reads a member, which may well be one that is recomputed."""
    allow_epilogues(case)
    leaders = set(of_class(known, "matmul", "convolution"))
    pairs = same_device(case, known.ops)
    pairs = [(a, b) for a, b in pairs if b in leaders and b in known.readers[a]]
    hidden = sorted({a for a, b in pairs} & recomputable(case, known, refsim.FUSABLE))
    if hidden and rng.random() < 0.6:
        case["plan"]["group"][rng.choice(hidden)] = -1
        return True
    return put_together(rng, case, pairs)


def allow_epilogues(case):
    for device in case["machine"]["devices"]:
        device["fuses_epilogue"] = ["matmul", "convolution"]


GROUP_FAULTS = (recompute_any, recompute_opaque, recompute_update, recompute_output, group_over_devices, group_over_cycle,
                group_opaque, group_two_leaders, group_late_leader)


def spoil_links(rng, case):
    used = used_pairs(case)
    links = case["machine"]["links"]
    needed = [k for k in links if used and (k["from"], k["to"]) in used]
    if not needed:
        return False
    links.remove(rng.choice(needed))
    return True


def spoil_order(rng, case):
    if case["plan"].get("order") is None:
        set_order(rng, case)
    full = [o for o in case["plan"].get("order") or [] if o]
    if not full:
        return False
    order = rng.choice(full)
    node = rng.randrange(len(case["graph"]["nodes"]))
    roll = rng.random()
    if roll < 0.12:
        order.pop(rng.randrange(len(order)))
    elif roll < 0.24:
        order[rng.randrange(len(order))] = node
    elif roll < 0.36:
        order.insert(rng.randint(0, len(order)), node)
    elif roll < 0.45:
        order.append(rng.choice(order))
    elif roll < 0.7:
        one, other = rng.randrange(len(order)), rng.randrange(len(order))
        order[one], order[other] = order[other], order[one]
    else:
        order.reverse()
    return True


def spoil_overflow(rng, case):
    """Long tasks around the limit, a link so slow that the transfer alone does not fit into 64 bits, or charges whose sum does not."""
    tasks = legal_tasks(case)
    if tasks is None or not tasks.by_id:
        return False
    if rng.random() < 0.2 and case["machine"]["links"]:
        for link in case["machine"]["links"]:
            link["bandwidth_bytes_per_s"] = rng.choice((1e-6, 1e-4))
        return True
    if rng.random() < 0.2 and case["machine"]["links"]:
        for link in case["machine"]["links"]:
            link[rng.choice(("send_us", "receive_us"))] = rng.choice((1e12, 2e12))
        return True
    for i in rng.sample(sorted(tasks.by_id), min(len(tasks.by_id), rng.randint(1, 4))):
        case["duration_ps"][i] = rng.choice((2 ** 60, 2 ** 61, 2 ** 62, 2 ** 62 - 1024, 2 ** 62 + 1024))
    return True


SPOILERS = {  # in the order in which the reasons are checked
    "colocation": spoil_colocation,
    "groups": spoil_groups,
    "links": spoil_links,
    "order": spoil_order,
    "overflow": spoil_overflow,
}
