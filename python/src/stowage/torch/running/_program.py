"""From a plan to what each device does: its ops in the order in which the simulated plan starts them, what it receives before them and
sends behind them, what it waits for and what it no longer needs. Nothing here runs anything: streams, threads and processes carry a program out.

Values are named by the fx nodes that make them. An op, a parameter or a buffer is on one device; inputs and constants are on all;
views cost nothing and are made again wherever they are read.
"""
from __future__ import annotations

import csv
import io
import operator
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Optional, Sequence

import torch
from torch.utils._pytree import tree_flatten

from ..._library import Error
from ..._plan import Plan
from ..tracing._trace import Nodes, Step, attribute, is_view


@dataclass(frozen=True)
class Transfer:
    """A value that one device has and another reads."""

    node: Any  #: whose value goes over: that of an op or a parameter, or the one view of it that is read there
    source: int
    target: int
    producer: Optional[int]  #: the task that makes it; None for parameters and buffers


@dataclass
class Task:
    """One op on one device."""

    id: int
    node: Any
    device: int
    receives: list[Transfer] = field(default_factory=list)  #: what nobody on its device has read before
    views: list[Any] = field(default_factory=list)  #: to be made before the op, in this order
    waits: list[int] = field(default_factory=list)  #: tasks of other devices that must be over, though they send nothing
    copied: list[Transfer] = field(default_factory=list)  #: that must have been copied before it overwrites them
    results: list[Any] = field(default_factory=list)  #: views of what it makes that the step returns and no task reads
    sends: list[Transfer] = field(default_factory=list)
    frees: list[Any] = field(default_factory=list)  #: values that its device reads no more


class Program:
    """What the devices of a plan do. Its tasks stand in an order that all devices can follow one after the other."""

    def __init__(self, nodes: Nodes, plan: Plan) -> None:
        rows = _rows(plan)
        self.nodes = nodes
        self.device_count = len(plan.machine)
        self.fx = {k: n for n, k in nodes.id.items()}  # node id -> fx node
        self.home = _homes(nodes, plan, rows)
        self.tasks = [Task(k, nodes.fx[k], self.home[k]) for k in _order(nodes, rows)]
        self.by_id = {task.id: task for task in self.tasks}
        self._sent = self._find_transfers()  # (node, device) -> transfer
        self._have: list[set[Any]] = [set() for _ in range(self.device_count)]
        for task in self.tasks:
            for m in _argument_nodes(task.node):
                if m in nodes.id:
                    self._bring(m, task)
            self._have[task.device].add(task.node)
        for n in self.outputs:
            self._return_view(n)
        self._add_waits()
        self._add_frees()

    @property
    def transfers(self) -> Iterator[Transfer]:
        return (transfer for task in self.tasks for transfer in task.receives)

    def of(self, device: int) -> list[Task]:
        return [task for task in self.tasks if task.device == device]

    # ---- what a node is ----

    @property
    def outputs(self) -> list[Any]:
        """What the step is for: its results, and the new parameters or their gradients."""
        return [self.fx[k] for k in self.nodes.output]

    def is_view(self, n: Any) -> bool:
        return bool(self.nodes.nodes[self.nodes.id[n]].get("view"))

    def is_everywhere(self, n: Any) -> bool:
        return self.nodes.nodes[self.nodes.id[n]]["op"] in ("input", "constant")

    def root(self, n: Any) -> Any:
        while self.is_view(n):
            n = self._viewed(n)
        return n

    def _viewed(self, n: Any) -> Any:
        return next(m for m in _argument_nodes(n) if m in self.nodes.id)

    # ---- what goes over ----

    def _find_transfers(self) -> dict[tuple[Any, int], Transfer]:
        read: dict[tuple[Any, int], dict[Any, None]] = {}  # (root, device) -> the nodes that are read there
        for task in self.tasks:
            for m in _argument_nodes(task.node):
                if m in self.nodes.id:
                    read.setdefault((self.root(m), task.device), {})[m] = None
        found = {}
        for (root, device), nodes in read.items():
            source = self.home[self.nodes.id[root]]
            if source == device or self.is_everywhere(root):
                continue
            producer = self.nodes.id[root] if self.nodes.id[root] in self.by_id else None
            for n in self._carriers(root, list(nodes)):
                found[n, device] = Transfer(n, source, device, producer)
        return found

    def _carriers(self, root: Any, read: list[Any]) -> list[Any]:
        """What is copied so that these can be read: the value, or the one view of it that is read; of an op with several results
        each that is read."""
        if not isinstance(root.meta.get("val"), (tuple, list)):
            return [self._carrier(root, read)]
        results: dict[Any, list[Any]] = {}
        for n in read:
            results.setdefault(self._result_of(root, n), []).append(n)
        return [self._carrier(result, nodes) for result, nodes in results.items()]

    def _result_of(self, root: Any, n: Any) -> Any:
        """The view that picks one of the results of an op, through which n reads it."""
        while n is not root and self._viewed(n) is not root:
            n = self._viewed(n)
        return n

    def _carrier(self, base: Any, read: list[Any]) -> Any:
        view = read[0]
        if len(read) > 1 or view is base or _bytes(view) >= _bytes(base):
            return base
        n = view
        while n is not base:
            if "as_strided" in str(n.target):  # strides of the whole
                return base
            n = self._viewed(n)
        return view

    def _bring(self, n: Any, task: Task) -> None:
        """Makes a value that the task reads available on its device."""
        have = self._have[task.device]
        if n in have:
            return
        transfer = self._sent.get((n, task.device))
        if transfer is not None:
            task.receives.append(transfer)
            if transfer.producer is not None:
                self.by_id[transfer.producer].sends.append(transfer)
        elif self.is_view(n):
            for m in _argument_nodes(n):
                if m in self.nodes.id:
                    self._bring(m, task)
            task.views.append(n)
        have.add(n)

    def _return_view(self, n: Any) -> None:
        """A view that is returned is made behind the task whose value it shows, unless a task reads it anyway."""
        root = self.nodes.id[self.root(n)]
        if root not in self.by_id or any(n in have for have in self._have):
            return
        chain = [n]
        while self._viewed(chain[-1]) is not self.fx[root]:
            chain.append(self._viewed(chain[-1]))
        self.by_id[root].results += [m for m in reversed(chain) if m not in self.by_id[root].results]

    # ---- what must be over ----

    def _add_waits(self) -> None:
        place = {task.id: k for k, task in enumerate(self.tasks)}
        readers: dict[int, list[Task]] = {}  # of parameters and buffers
        for task in self.tasks:
            for m in {self.root(m) for m in _argument_nodes(task.node) if m in self.nodes.id}:
                readers.setdefault(self.nodes.id[m], []).append(task)
        for task in self.tasks:
            node = self.nodes.nodes[task.id]
            first = {self.nodes.id[self.root(self.fx[k])] for k in node.get("control", ())}
            if "updates" in node:
                others = [t for t in readers.get(node["updates"], ()) if place[t.id] < place[task.id] and t.device != task.device]
                first |= {t.id for t in others}
                task.copied = [r for t in others for r in t.receives if self.nodes.id[self.root(r.node)] == node["updates"]]
            task.waits = [k for k in sorted(first) if k in self.by_id and self.by_id[k].device != task.device]

    def _add_frees(self) -> None:
        """Each device drops a value behind its last use there. Sources stay, and so do the outputs of the step."""
        kept = set(self.outputs)
        kept |= {self.root(n) for n in kept}
        last: list[dict[Any, Task]] = [{} for _ in range(self.device_count)]
        for task in self.tasks:
            used = [task.node, *(t.node for t in task.receives), *task.views]
            for n in [*used, *(m for v in [task.node, *task.views] for m in _argument_nodes(v))]:
                last[task.device][n] = task
        for uses in last:
            for n, task in uses.items():
                if n not in kept and n.op == "call_function" and n in self.nodes.id:
                    task.frees.append(n)


def _rows(plan: Plan) -> list[dict[str, str]]:
    """The plan as it runs: device, kind and start of every node."""
    evaluation = plan.evaluate()
    if evaluation.step is None:
        raise Error(f"the plan cannot run: {evaluation.message}")
    return list(csv.DictReader(io.StringIO(plan.export_bytes("csv").decode())))


def _homes(nodes: Nodes, plan: Plan, rows: list[dict[str, str]]) -> list[int]:
    group = plan.group
    alone = [group[k] for k in nodes.fx]
    if -1 in alone or len(set(alone)) < len(alone):
        raise Error("the plan fuses ops, which PyTorch does not do one by one; make it with tasks='placement,schedule'")
    index = {device.name: k for k, device in enumerate(plan.machine.devices)}
    return [index.get(row["device"], 0) for row in rows]


def _order(nodes: Nodes, rows: list[dict[str, str]]) -> list[int]:
    """All tasks by their start in the simulation; what starts at the same time, by id."""
    return sorted(nodes.fx, key=lambda k: (float(rows[k]["start_us"]), k))


def _argument_nodes(n: Any) -> list[Any]:
    return list(dict.fromkeys(m for m in tree_flatten((n.args, n.kwargs))[0] if isinstance(m, torch.fx.Node)))


def _bytes(n: Any) -> int:
    values = [v for v in tree_flatten(n.meta.get("val"))[0] if isinstance(v, torch.Tensor)]
    return sum(v.numel() * v.element_size() for v in values)


def substitute(value: Any, change: Callable[[Any], Any]) -> Any:
    """Arguments with every leaf (fx nodes are leaves) changed."""
    if isinstance(value, (tuple, list)):
        return type(value)(substitute(v, change) for v in value)
    if isinstance(value, dict):
        return {key: substitute(v, change) for key, v in value.items()}
    return change(value)


# ---- what an op does ----


class Calls:
    """The function and the arguments of a task. Those of the traced update are others: a step that ``updates`` writes parameters in place,
    by a rate that is a tensor; one that does not leaves the gradient."""

    def __init__(self, step: Step, devices: Sequence[torch.device], updates: bool, rate: float) -> None:
        self._devices, self._writes = devices, updates
        self.rates = {device: torch.tensor(float(rate), dtype=torch.float64, device=device) for device in devices}
        self.updates = {update.new: update for update in step.updates()} if step.train else {}
        self._own = {new for new, update in self.updates.items() if _is_own(update.gradient)}
        self._scaled = {update.scaled for update in self.updates.values()}

    def __call__(self, task: Task) -> tuple[Callable[..., Any], tuple, dict]:
        n, device = task.node, self._devices[task.device]
        args = substitute(n.args, lambda a: device if isinstance(a, torch.device) else a)
        kwargs = substitute(dict(n.kwargs), lambda a: device if isinstance(a, torch.device) else a)
        if n in self._scaled:
            return (torch.mul, (args[0], self.rates[device]), {}) if self._writes else (_same, (args[0],), {})
        if n in self.updates:
            return (_subtract if self._writes else _dense if n in self._own else _copied, args, {})
        return n.target, args, kwargs


def _same(value: torch.Tensor) -> torch.Tensor:
    return value


def _subtract(parameter: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
    return parameter.sub_(change)


def _dense(parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """The gradient laid out like its parameter."""
    same = gradient.stride() == parameter.stride() and gradient.storage_offset() == 0
    return gradient if same else _copied(parameter, gradient)


def _copied(parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(parameter).copy_(gradient)


def _is_own(gradient: Any) -> bool:
    """Nobody else has this memory: an op made it, and nothing but the update reads it. A gradient that two parameters share, or that is a
    parameter itself, is not; whoever clips one in place would change the other."""
    n = gradient
    while n.op == "call_function" and len(n.users) == 1:
        if n.target is operator.getitem or not is_view(n):
            return True
        n = next(m for m in n.all_input_nodes)
    return False


def own_sources(step: Step, device: torch.device) -> dict[Any, Any]:
    """Copies of what is there before a step, for one device alone: parameters, buffers, inputs, constants."""
    values = [*step.parameters.values(), *step.buffers.values(), *step.inputs]
    found = {n: value.detach().to(device, copy=True) for n, value in zip((n for n in step.graph.nodes if n.op == "placeholder"), values)}
    for n in step.graph.nodes:
        if n.op == "get_attr":
            value = attribute(step.module, n.target)
            found[n] = value.to(device) if isinstance(value, torch.Tensor) else value
    return found
