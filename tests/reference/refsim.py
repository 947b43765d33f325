"""The second simulator: slow, plain, written from docs/simulator.md and from nothing else.

It exists to disagree with the fast one. Every function follows one paragraph of that page; rule numbers are those of the
page. Nothing here is shared with, or taken from, the C code.

    simulate(graph, machine, plan, duration_ps) -> result

`graph`, `machine` and `plan` are parsed JSON files; `duration_ps[i]` is the duration of the task whose id is node i (the
other entries are ignored). The result has `valid`, `reason` and, unless the reason forbids it, `step_ps`, `ops`
([id, start, end]), `transfers` ([producer, destination, bytes, start, end]), `peak_bytes`, `busy_ps` and `charged_ps` (one
per device).
"""

import heapq
import math
from collections import defaultdict

LAST_STEP = 2 ** 62  # a step above this is an overflow
MOST_MEMBERS = 64
MOST_OPERANDS = 96

RESIDENT = ("parameter", "buffer")  # on one device, sent to the others
EVERYWHERE = ("input", "constant")  # on every device, never sent

DTYPE_BYTES = {
    "c128": 16,
    "f64": 8, "s64": 8, "u64": 8, "c64": 8,
    "f32": 4, "s32": 4, "u32": 4,
    "f16": 2, "bf16": 2, "s16": 2, "u16": 2,
    "s8": 1, "u8": 1, "pred": 1,
    "none": 0,
}

# Only the operators that the tests put into groups need an entry. Every other operator is opaque.
CLASS_OF = {}
for _class, _names in {
    "element-wise": "add mul sub div neg pow relu tanh sigmoid tanh_backward sigmoid_backward threshold_backward",
    "broadcast": "new_zeros ones_like",
    "reduce": "sum mean",
    "shape": "cat clone",
    "matmul": "mm bmm addmm",
    "convolution": "convolution",
    "control": "while_loop cond scan",
}.items():
    for _name in _names.split():
        CLASS_OF[_name] = _class
FUSABLE = ("element-wise", "broadcast", "reduce", "shape")


class Invalid(Exception):
    """The plan is invalid for a reason that leaves no numbers."""

    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason


def llround(x):
    """Nearest integer, halves away from zero. floor(x + 0.5) is wrong: the sum itself rounds (0.49999999999999994)."""
    whole = int(abs(x))  # truncates, exactly
    if abs(x) - whole >= 0.5:  # exact: below 2^53 the difference is a double, above it is 0
        whole += 1
    return whole if x >= 0 else -whole


def transfer_ps(link, size):
    """Rule 1: rounded once, in doubles, in this order of operations."""
    return llround(float(link["latency_us"]) * 1e6 + transfer_s(link["bandwidth_bytes_per_s"], float(size)) * 1e12)


def transfer_s(bandwidth, size):
    """"Bandwidth over sizes": one rate, or points (size, rate) between which time is linear."""
    if not isinstance(bandwidth, list):
        return size / float(bandwidth)
    points = [(float(bytes_), float(rate)) for bytes_, rate in bandwidth]
    if size <= points[0][0]:
        return size / points[0][1]
    for (less, rate_of_less), (more, rate_of_more) in zip(points, points[1:]):
        if size <= more:
            before, after = less / rate_of_less, more / rate_of_more
            return min(before + (size - less) * ((after - before) / (more - less)), after)
    return size / points[-1][1]


# ---------------------------------------------------------------------------------------------------------------------
# The graph without its views
# ---------------------------------------------------------------------------------------------------------------------


def is_op_node(node):
    return not node.get("view") and node["op"] not in RESIDENT + EVERYWHERE


class Graph:
    """What the simulator needs to know of a graph: ops, values, who reads what, who waits for whom."""

    def __init__(self, data):
        self.nodes = data["nodes"]
        self.root = self._roots()
        self.ops = [n["id"] for n in self.nodes if is_op_node(n)]
        self.residents = [n["id"] for n in self.nodes if n["op"] in RESIDENT and not n.get("view")]
        self.everywhere = {n["id"] for n in self.nodes if n["op"] in EVERYWHERE and not n.get("view")}
        self.outputs = {self.root[i] for i in data.get("outputs", [])}
        self.updates = {i: self.nodes[i]["updates"] for i in self.ops if self.nodes[i].get("updates") is not None}
        # The nodes (roots or views) that an op names, each once; and the ops that read a root.
        self.reads = {i: set(self.nodes[i]["inputs"]) for i in self.ops}
        self.readers = defaultdict(set)
        for op in self.ops:
            for node in self.reads[op]:
                self.readers[self.root[node]].add(op)
        self.waits = self._control()  # pairs (first, then) of ops
        self.waits += self._update_waits()

    def _roots(self):
        """Rule 3: the first non-view up the chain of first inputs."""
        root = []
        for node in self.nodes:
            root.append(root[node["inputs"][0]] if node.get("view") else node["id"])
        return root

    def is_op(self, i):
        return is_op_node(self.nodes[i])

    def inputs(self, op):
        """The distinct values that an op reads."""
        return {self.root[node] for node in self.reads[op]}

    def value_bytes(self, value):
        return self.nodes[value]["bytes"]

    def view_bytes(self, view):
        """Rule 5: from the view's shape and dtype; its own `bytes` field says nothing, a view takes no memory."""
        node = self.nodes[view]
        return math.prod(node["shape"]) * DTYPE_BYTES[node["dtype"]]

    def _control(self):
        """A control edge from a view means its root; one from a source means nothing."""
        pairs = []
        for op in self.ops:
            for earlier in self.nodes[op].get("control") or []:
                if self.is_op(self.root[earlier]):
                    pairs.append((self.root[earlier], op))
        return pairs

    def _update_waits(self):
        """Rule 7: an update waits for the other readers of its parameter unless that would close a cycle."""
        after = defaultdict(set)
        for op in self.ops:
            for value in self.inputs(op):
                after[value].add(op)
        for first, then in self.waits:
            after[first].add(then)
        waits = []
        for update in sorted(self.updates):
            # A wait reader -> update closes a cycle when the update reaches the reader; that covers the update's own
            # descendants too. Waits into this update do not change what it reaches, so one search serves all its readers.
            reached = reachable(after, update)
            for reader in sorted(self.readers[self.updates[update]]):
                if reader not in reached:
                    after[reader].add(update)
                    waits.append((reader, update))
        return waits


def reachable(after, start):
    """Everything on a path from start, start included."""
    seen, stack = {start}, [start]
    while stack:
        for following in after[stack.pop()]:
            if following not in seen:
                seen.add(following)
                stack.append(following)
    return seen


# ---------------------------------------------------------------------------------------------------------------------
# Groups become tasks
# ---------------------------------------------------------------------------------------------------------------------


class Task:
    """An op or a fused group. `members` are its written ops and the ops it recomputes."""

    def __init__(self, written, device, priority):
        self.written = written
        self.members = set(written)
        self.id = min(written)
        self.device = device[self.id]
        self.priority = max(priority[i] for i in written)
        self.reads = defaultdict(set)  # external value -> nodes through which it is read
        self.waits = set()  # ids of tasks that must have finished
        self.outputs = set()  # values that exist in memory once it has started
        self.charge = 0  # picoseconds that transfers add to its duration
        self.start = self.end = self.ready = None


class Tasks:
    def __init__(self, graph, plan):
        size = len(graph.nodes)
        self.graph = graph
        self.device = plan["device"]
        self.priority = plan.get("priority") or [0] * size
        self.group = plan.get("group") or list(range(size))
        self.by_id = {}
        self.computed_by = {op: set() for op in graph.ops}  # op -> ids of the tasks that compute it
        self._form()
        self._connect()

    def recomputed(self, op):
        return self.group[op] == -1

    def _form(self):
        written = defaultdict(list)
        for op in self.graph.ops:
            if not self.recomputed(op):
                written[self.group[op]].append(op)
        for ops in written.values():
            task = Task(ops, self.device, self.priority)
            self.by_id[task.id] = task
            for op in ops:
                self.computed_by[op].add(task.id)
        # Readers come later in the file than what they read, so going backwards sees every reader of an op first.
        for op in reversed(self.graph.ops):
            if self.recomputed(op):
                for reader in self.graph.readers[op]:
                    self.computed_by[op] |= self.computed_by[reader]
                for task in self.computed_by[op]:
                    self.by_id[task].members.add(op)

    def _connect(self):
        """External reads, waits between tasks, and the outputs that exist."""
        for task in self.by_id.values():
            for op in task.members:
                for node in self.graph.reads[op]:
                    value = self.graph.root[node]
                    if value not in task.members:
                        task.reads[value].add(node)
        for first, then in self.graph.waits:
            for waiting in self.computed_by[then]:
                self.by_id[waiting].waits |= self.computed_by[first] - {waiting}
        used_outside = {value for task in self.by_id.values() for value in task.reads} | self.graph.outputs
        for task in self.by_id.values():
            alone = len(task.members) == 1
            task.outputs = {op for op in task.written if alone or op in used_outside}

    def writer(self, value):
        """The task that writes an op's output; None for a source."""
        if not self.graph.is_op(value):
            return None
        (task,) = self.computed_by[value]
        return self.by_id[task]


def check_colocation(graph, device):
    for op, parameter in graph.updates.items():
        if device[op] != device[parameter]:
            raise Invalid("colocation")
    for node in graph.nodes:
        if node.get("colocate") is None:
            continue
        one, other = graph.root[node["id"]], graph.root[node["colocate"]]
        if one in graph.everywhere or other in graph.everywhere:
            continue
        if device[one] != device[other]:
            raise Invalid("colocation")


def check_groups(graph, machine, tasks):
    for op in graph.ops:
        if tasks.recomputed(op) and not may_be_recomputed(graph, tasks, op):
            raise Invalid("groups")
    for task in tasks.by_id.values():
        if len(task.members) > 1 and not may_be_fused(graph, machine, tasks, task):
            raise Invalid("groups")
    if has_cycle(tasks):
        raise Invalid("groups")


def may_be_recomputed(graph, tasks, op):
    readers = graph.readers[op]
    return (len(readers) > 0
            and all(tasks.device[reader] == tasks.device[op] for reader in readers)
            and op not in graph.outputs
            and op not in graph.updates)


def may_be_fused(graph, machine, tasks, task):
    if any(tasks.device[op] != task.device for op in task.members):
        return False
    epilogue_classes = machine["devices"][task.device].get("fuses_epilogue") or []
    leaders = [op for op in task.members if op_class(graph, op) not in FUSABLE]
    if len(leaders) > 1:
        return False
    for op in leaders:
        if op_class(graph, op) not in epilogue_classes or graph.inputs(op) & task.members:
            return False
        if op_class(graph, op) == "control" and len(task.members) > 1:
            return False
    return len(task.members) <= MOST_MEMBERS and len(task.reads) + len(task.outputs) <= MOST_OPERANDS


def op_class(graph, op):
    return CLASS_OF.get(graph.nodes[op]["op"], "opaque")


def predecessors(tasks, task):
    """The tasks that must have finished before this one, wherever they run."""
    writers = (tasks.writer(value) for value in task.reads)
    return {writer.id for writer in writers if writer is not None} | task.waits


def has_cycle(tasks):
    """Takes away tasks without predecessors until none is left; what remains holds a cycle."""
    missing = {task.id: predecessors(tasks, task) for task in tasks.by_id.values()}
    after = defaultdict(list)
    for task, befores in missing.items():
        for before in befores:
            after[before].append(task)
    free = [task for task, befores in missing.items() if not befores]
    taken = 0
    while free:
        done = free.pop()
        taken += 1
        for task in after[done]:
            missing[task].discard(done)
            if not missing[task]:
                free.append(task)
    return taken < len(missing)


# ---------------------------------------------------------------------------------------------------------------------
# Transfers
# ---------------------------------------------------------------------------------------------------------------------


class Transfer:
    def __init__(self, value, source, destination, size, priority):
        self.value = value
        self.source = source
        self.destination = destination
        self.bytes = size
        self.priority = priority
        self.link = None
        self.channel = None
        self.ready = self.start = self.end = None

    @property
    def key(self):
        return (self.value, self.destination)


def find_transfers(graph, tasks):
    """Rule 5: one transfer per (value, device) pair with a reading task there."""
    read_there = defaultdict(set)  # (value, device) -> nodes through which tasks there read it
    for task in tasks.by_id.values():
        for value, nodes in task.reads.items():
            if value not in graph.everywhere:
                read_there[value, task.device] |= nodes
    transfers = {}
    for (value, destination), nodes in sorted(read_there.items()):
        writer = tasks.writer(value)
        source = writer.device if writer else tasks.device[value]
        priority = writer.priority if writer else tasks.priority[value]
        if source != destination:
            size = bytes_sent(graph, value, nodes)
            transfers[value, destination] = Transfer(value, source, destination, size, priority)
    return transfers


def transfers_by_value(transfers):
    by_value = defaultdict(list)
    for transfer in transfers.values():
        by_value[transfer.value].append(transfer)
    return by_value


def bytes_sent(graph, value, nodes):
    whole = graph.value_bytes(value)
    if value in nodes:
        return whole
    return min(whole, sum(graph.view_bytes(view) for view in nodes))


def find_links(machine, transfers):
    """Rule 6: the channel is the bus, if the link names one, else the ordered pair. `none` knows no channels."""
    index = {device["name"]: i for i, device in enumerate(machine["devices"])}
    links = {(index[link["from"]], index[link["to"]]): link for link in machine.get("links") or []}
    queued = machine.get("contention", "queue") == "queue"
    for transfer in transfers.values():
        pair = (transfer.source, transfer.destination)
        if pair not in links:
            raise Invalid("links")
        transfer.link = links[pair]
        if queued:
            bus = transfer.link.get("bus")
            transfer.channel = pair if bus is None else ("bus", bus)


def charge_tasks(tasks, transfers):
    """"Charges": each transfer adds to the task that wrote its value and to the smallest task that reads it where it goes."""
    for transfer in transfers.values():
        writer = tasks.writer(transfer.value)
        if writer is not None:
            writer.charge += llround(float(transfer.link.get("send_us", 0)) * 1e6)
        receiver = min(task.id for task in tasks.by_id.values()
                       if task.device == transfer.destination and transfer.value in task.reads)
        tasks.by_id[receiver].charge += llround(float(transfer.link.get("receive_us", 0)) * 1e6)


# ---------------------------------------------------------------------------------------------------------------------
# The step
# ---------------------------------------------------------------------------------------------------------------------


def check_order(machine, tasks, order):
    if order is None:
        return
    for device in range(len(machine["devices"])):
        wanted = sorted(task.id for task in tasks.by_id.values() if task.device == device)
        if order[device] is not None and sorted(order[device]) != wanted:
            raise Invalid("order")


class Run:
    """The state of one step. A task is awaited under its id, a transfer under its (value, destination)."""

    def __init__(self, graph, machine, tasks, transfers, order, duration_ps):
        devices = len(machine["devices"])
        self.tasks = tasks
        self.transfers = transfers
        self.duration_ps = duration_ps
        self.queue_left = [None if o is None else list(o) for o in (order or [None] * devices)]
        self.ready_tasks = [[] for _ in range(devices)]
        self.ready_transfers = []
        self.device_busy = [False] * devices
        self.channel_busy = set()
        self.running = []  # heap of (end, "task" | "transfer", key)
        self.sends = transfers_by_value(transfers)
        self.missing = {task.id: self._wanted(graph, task) for task in tasks.by_id.values()}
        self.awaited_by = defaultdict(list)
        for task, wanted in self.missing.items():
            for thing in wanted:
                self.awaited_by[thing].append(task)

    def _wanted(self, graph, task):
        """Rules 2 and 7: inputs on this device, tasks to wait for, copies of an updated parameter."""
        wanted = set(task.waits)
        for value in task.reads:
            writer = self.tasks.writer(value)
            if (value, task.device) in self.transfers:
                wanted.add((value, task.device))
            elif writer is not None:
                wanted.add(writer.id)
        for op in task.members & graph.updates.keys():
            wanted.update(copy.key for copy in self.sends[graph.updates[op]])
        return wanted

    def play(self):
        now = 0
        self._begin()
        while True:
            # One pass of this inner loop is one round of rule 1: finishes (and frees), then starts.
            changed = True
            while changed:
                finished = self._finish(now)
                started = self._start(now)
                changed = finished or started
            if not self.running:
                return
            now = self.running[0][0]

    def _begin(self):
        for transfer in self.transfers.values():
            if self.tasks.writer(transfer.value) is None:
                self._transfer_is_ready(transfer, 0)
        for task in self.tasks.by_id.values():
            if not self.missing[task.id]:
                self._task_is_ready(task, 0)

    def _task_is_ready(self, task, now):
        task.ready = now
        self.ready_tasks[task.device].append(task)

    def _transfer_is_ready(self, transfer, now):
        transfer.ready = now
        self.ready_transfers.append(transfer)

    def _finish(self, now):
        finished = False
        while self.running and self.running[0][0] == now:
            _, kind, key = heapq.heappop(self.running)
            finished = True
            if kind == "task":
                (thing,) = key
                self._task_ends(self.tasks.by_id[thing], now)
            else:
                thing = key
                self.channel_busy.discard(self.transfers[key].channel)
            for waiting in self.awaited_by[thing]:
                self.missing[waiting].discard(thing)
                if not self.missing[waiting]:
                    self._task_is_ready(self.tasks.by_id[waiting], now)
        return finished

    def _task_ends(self, task, now):
        self.device_busy[task.device] = False
        for value in task.outputs:
            for transfer in self.sends[value]:
                self._transfer_is_ready(transfer, now)

    def _start(self, now):
        started = False
        for device, busy in enumerate(self.device_busy):
            task = None if busy else self._choose_task(device)
            if task is not None:
                self._start_task(task, now)
                started = True
        for transfer in self._choose_transfers():
            self._start_transfer(transfer, now)
            started = True
        return started

    def _choose_task(self, device):
        """Rule 2."""
        ready = self.ready_tasks[device]
        left = self.queue_left[device]
        if left is not None:
            return next((task for task in ready if task.id == left[0]), None) if left else None
        return min(ready, key=lambda task: (-task.priority, task.ready, task.id), default=None)

    def _choose_transfers(self):
        """Rule 6: the best waiting transfer of every idle channel; without channels, all that wait."""
        best = {}
        free = []
        for transfer in self.ready_transfers:
            channel = transfer.channel
            if channel is None:
                free.append(transfer)
            elif channel not in self.channel_busy:
                if channel not in best or channel_rank(transfer) < channel_rank(best[channel]):
                    best[channel] = transfer
        return free + list(best.values())

    def _start_task(self, task, now):
        self.ready_tasks[task.device].remove(task)
        if self.queue_left[task.device] is not None:
            self.queue_left[task.device].pop(0)
        self.device_busy[task.device] = True
        task.start, task.end = now, now + self.duration_ps[task.id] + task.charge
        heapq.heappush(self.running, (task.end, "task", (task.id,)))

    def _start_transfer(self, transfer, now):
        self.ready_transfers.remove(transfer)
        if transfer.channel is not None:
            self.channel_busy.add(transfer.channel)
        transfer.start, transfer.end = now, now + transfer_ps(transfer.link, transfer.bytes)
        heapq.heappush(self.running, (transfer.end, "transfer", transfer.key))


def channel_rank(transfer):
    return (-transfer.priority, transfer.ready, transfer.value, transfer.destination)


# ---------------------------------------------------------------------------------------------------------------------
# Memory
# ---------------------------------------------------------------------------------------------------------------------


class Holding:
    """Bytes held on a device over [start, end)."""

    def __init__(self, device, size, start, end, is_copy=False):
        self.device = device
        self.bytes = size
        self.start = start
        self.end = end
        self.is_copy = is_copy


def find_holdings(graph, tasks, transfers, step):
    last_read = defaultdict(int)  # (value, device) -> end of its last reading task there
    for task in tasks.by_id.values():
        for value in task.reads:
            last_read[value, task.device] = max(last_read[value, task.device], task.end)
    sends = transfers_by_value(transfers)
    holdings = []
    for value in graph.residents:  # rule 8
        holdings.append(Holding(tasks.device[value], graph.value_bytes(value), 0, step))
    for (value, device), end in last_read.items():  # rule 8
        if value in graph.everywhere:
            holdings.append(Holding(device, graph.value_bytes(value), 0, end))
    for task in tasks.by_id.values():  # rule 9
        for value in task.outputs - graph.updates.keys():
            ends = [task.end, last_read.get((value, task.device), 0)]
            ends += [transfer.end for transfer in sends[value]]
            end = step if value in graph.outputs else max(ends)
            holdings.append(Holding(task.device, graph.value_bytes(value), task.start, end))
    for transfer in transfers.values():  # rule 10
        holdings.append(Holding(transfer.destination, transfer.bytes, transfer.start, last_read[transfer.key], True))
    return holdings


def peaks(devices, holdings):
    """Rule 11: all changes of one moment count together, so an empty interval never shows."""
    changes = [defaultdict(int) for _ in range(devices)]
    for held in holdings:
        changes[held.device][held.start] += held.bytes
        changes[held.device][held.end] -= held.bytes
    return [largest_sum(change) for change in changes]


def largest_sum(change):
    level = largest = 0
    for moment in sorted(change):
        level += change[moment]
        largest = max(largest, level)
    return largest


# ---------------------------------------------------------------------------------------------------------------------
# All together
# ---------------------------------------------------------------------------------------------------------------------


class Evaluation:
    """The result and, for those who want to look closer, how it came about (None where there are no numbers)."""

    def __init__(self, result, tasks=None, transfers=None, holdings=None):
        self.result = result
        self.tasks = tasks
        self.transfers = transfers
        self.holdings = holdings


def evaluate(graph, machine, plan, duration_ps):
    graph = graph if isinstance(graph, Graph) else Graph(graph)
    try:
        return evaluate_or_raise(graph, machine, plan, duration_ps)
    except Invalid as invalid:
        return Evaluation({"valid": False, "reason": invalid.reason})


def evaluate_or_raise(graph, machine, plan, duration_ps):
    check_colocation(graph, plan["device"])
    tasks = Tasks(graph, plan)
    check_groups(graph, machine, tasks)
    transfers = find_transfers(graph, tasks)
    find_links(machine, transfers)
    check_order(machine, tasks, plan.get("order"))
    charge_tasks(tasks, transfers)

    Run(graph, machine, tasks, transfers, plan.get("order"), duration_ps).play()
    if any(task.end is None for task in tasks.by_id.values()):
        raise Invalid("order")  # the groups are acyclic, so only an order can have stopped it
    step = max((task.end for task in tasks.by_id.values()), default=0)
    if step > LAST_STEP:
        raise Invalid("overflow")

    holdings = find_holdings(graph, tasks, transfers, step)
    peak = peaks(len(machine["devices"]), holdings)
    fits = all(p <= device["memory_bytes"] for p, device in zip(peak, machine["devices"]))
    result = {
        "valid": fits,
        "reason": None if fits else "memory",
        "step_ps": step,
        "ops": sorted([task.id, task.start, task.end] for task in tasks.by_id.values()),
        "transfers": [[t.value, t.destination, t.bytes, t.start, t.end] for _, t in sorted(transfers.items())],
        "peak_bytes": peak,
        "busy_ps": sum_by_device(machine, tasks, lambda task: task.end - task.start),
        "charged_ps": sum_by_device(machine, tasks, lambda task: task.charge),
    }
    return Evaluation(result, tasks, transfers, holdings)


def sum_by_device(machine, tasks, what):
    sums = [0] * len(machine["devices"])
    for task in tasks.by_id.values():
        sums[task.device] += what(task)
    return sums


def simulate(graph, machine, plan, duration_ps):
    return evaluate(graph, machine, plan, duration_ps).result
