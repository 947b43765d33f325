"""The order of the tasks of a module: a search on the graph whose ops are the plan's groups."""
from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

from .._graph import Graph, Node
from .._plan import Plan
from .._search import optimize
from .._simulate import Evaluation, Simulator


class Contracted:
    """The graph in which every group of a plan is one op; the results of a group with several are views of it."""

    def __init__(self, plan: Plan, outputs: set[int]) -> None:
        self._nodes = list(plan.graph.nodes)
        self._number = plan.group
        self._members: dict[int, list[int]] = {}
        for n in self._nodes:
            if n.kind == "op" and self._number[n.id] >= 0:
                self._members.setdefault(self._number[n.id], []).append(n.id)
        self.place: list[Optional[int]] = [None] * len(self._nodes)  #: of each node in this graph; None: inside a group
        self._task: dict[int, int] = {}  # where each group stands
        written: list[dict[str, Any]] = []
        for what in self._sequence(outputs):
            if isinstance(what, Node):
                self._write(what, written)
            else:
                self._write_group(what, outputs, written)
        kept = [self.place[k] for k in sorted(outputs)]
        head = {"format": "opgraph", "version": 1, "name": plan.graph.name, "outputs": [k for k in kept if k is not None]}
        self.graph = Graph.parse({**head, "nodes": written})

    def _visible(self, number: int, outputs: set[int]) -> list[int]:
        """Members that are read outside of their group, or handed out."""
        return [k for k in self._members[number] if k in self._outside or k in outputs] or self._members[number][-1:]

    def _sequence(self, outputs: set[int]) -> list[Any]:
        """Nodes, and numbers of groups, each behind what it reads. A group stands at its last member, unless it is read before."""
        reads = {number: self._reads(number) for number in self._members}
        self._outside = {self._nodes[k].root for each in reads.values() for k in each}
        self._outside |= {self._nodes[n.root].id for n in self._nodes if n.kind == "view" and n.id in outputs}
        done: set[int] = set()  # nodes
        found: list[Any] = []
        left: list[tuple[int, bool]] = []

        def need(k: int) -> None:
            if k not in done:
                left.append((k, False))

        for n in self._nodes:
            if n.kind != "op" or (self._number[n.id] >= 0 and self._members[self._number[n.id]][-1] == n.id):
                need(n.id)
            while left:
                k, ready = left.pop()
                node, number = self._nodes[k], self._number[k]
                is_op = node.kind == "op"
                if k in done or (is_op and number < 0):
                    continue
                before = reads[number] if is_op else node.inputs
                if not ready:
                    left.append((k, True))
                    for i in reversed(before):
                        need(i)
                elif is_op:
                    done.update(self._members[number])
                    found.append(number)
                else:
                    done.add(k)
                    if self._stands(node):
                        found.append(node)
        return found

    def _stands(self, n: Node) -> bool:
        """Views of what is inside a group do not."""
        root = self._nodes[n.root]
        return root.kind != "op" or root.id in self._outside

    def _reads(self, number: int) -> list[int]:
        """What a group reads from outside, also by way of what it makes anew."""
        found: dict[int, None] = {}
        left = list(reversed(self._members[number]))
        inside = set(left)
        while left:
            for k in self._nodes[left.pop()].inputs:
                root = self._nodes[k].root
                if self._nodes[root].kind == "op" and self._number[root] < 0:
                    if root not in inside:
                        inside.add(root)
                        left.append(root)
                elif root not in inside:
                    found[k] = None
        return list(found)

    def _write(self, n: Node, written: list[dict[str, Any]]) -> None:
        self.place[n.id] = len(written)
        entry: dict[str, Any] = {
            "id": len(written), "name": n.name, "op": n.op if n.kind == "view" else n.kind, "dtype": n.dtype, "shape": n.shape,
            "inputs": [self.place[k] for k in n.inputs[:1] if self.place[k] is not None],
        }  # fmt: skip
        written.append({**entry, "view": True} if n.kind == "view" else {**entry, "bytes": n.bytes})

    def _write_group(self, number: int, outputs: set[int], written: list[dict[str, Any]]) -> None:
        visible = self._visible(number, outputs)
        last = self._nodes[visible[-1]]
        self._task[number] = len(written)
        entry: dict[str, Any] = {
            "id": len(written), "name": last.name, "op": last.op, "dtype": last.dtype, "shape": last.shape,
            "inputs": [self.place[k] for k in self._reads(number)], "bytes": sum(self._nodes[k].bytes for k in visible),
        }  # fmt: skip
        updated = [self._nodes[k].updates for k in self._members[number] if self._nodes[k].updates is not None]
        if updated:
            entry["updates"] = self.place[updated[0]]
        written.append(entry)
        self.place[last.id] = entry["id"]
        for k in visible if len(visible) > 1 else ():
            n = self._nodes[k]
            self.place[k] = len(written)
            written.append({"id": len(written), "name": f"{n.name}, a result", "op": "getitem", "dtype": n.dtype, "shape": n.shape,
                            "inputs": [entry["id"]], "view": True})  # fmt: skip

    def spread(self, priority: Sequence[float]) -> list[float]:
        """Priorities of this graph's nodes for those of the plan's graph."""
        found = {k: priority[self._task[number]] for number, members in self._members.items() for k in members}
        return [found.get(k, 0.0) for k in range(len(self._nodes))]


class _Cache:
    """Which values a device's cache would hold: the last ones that were used."""

    def __init__(self, size: int) -> None:
        self._size, self._used = size, 0
        self._held: dict[int, int] = {}  # bytes by value, the oldest first

    def __contains__(self, value: int) -> bool:
        return value in self._held

    def use(self, values: Mapping[int, int]) -> None:
        for value, size in values.items():
            self._used += size - self._held.pop(value, 0)
            self._held[value] = size
        while self._used > self._size and self._held:
            self._used -= self._held.pop(next(iter(self._held)))


def _order_for_cache(graph: Graph, priority: Sequence[float], size: int) -> list[float]:
    """Priorities of the order of ``priority``, except that an op which would load a large weight into a cache of that size, one
    that others read as well, gives way to ops with small results that do not: weights that are read many times are so read in a
    row."""
    nodes = list(graph.nodes)
    ops = [n for n in nodes if n.kind == "op"]
    reads = {n.id: {r: nodes[r].bytes for r in (nodes[i].root for i in n.inputs)} for n in ops}
    waits = {n.id: sum(nodes[r].kind == "op" for r in reads[n.id]) for n in ops}
    readers: dict[int, list[int]] = {}
    for k, values in reads.items():
        for r in values:
            readers.setdefault(r, []).append(k)
    weights = {r for r in readers if nodes[r].kind != "op" and size / 8 <= nodes[r].bytes <= size}
    left = {r: len(readers[r]) for r in weights}
    cache, found = _Cache(size), [0.0] * len(nodes)

    def loads(op: int) -> bool:
        return any(r in weights and left[r] > 1 and r not in cache for r in reads[op])

    ready = {k for k, count in waits.items() if count == 0}
    for position in range(len(ops)):
        k = min(ready, key=lambda op: (-priority[op], op))
        if loads(k):
            light = [op for op in ready if nodes[op].bytes < size / 8 and not loads(op)]
            k = min(light, key=lambda op: (-priority[op], op), default=k)
        ready.remove(k)
        found[k] = -float(position)
        cache.use({**reads[k], k: nodes[k].bytes})
        for r in weights.intersection(reads[k]):
            left[r] -= 1
        for reader in readers.get(k, ()):
            waits[reader] -= 1
            if waits[reader] == 0:
                ready.add(reader)
    return found


_WORTH = 1.02  # an order that suits the cache may take so much more memory


def _value(evaluation: Evaluation, objective: str) -> tuple[float, float]:
    peak, step = float(max(evaluation.peak)), evaluation.step or 0.0
    return (peak, step) if objective == "memory" else (step, peak)


def set_order(plan: Plan, outputs: set[int], objective: str, budget: Any, options: dict[str, Any],
              cache: int = 0) -> tuple[str, bool]:  # fmt: skip
    """Gives the plan the best order that is found: that of the module, or one of a search; and where an order that suits a cache
    of so many bytes takes hardly more memory, that one. Returns which, and whether Ctrl-C ended the search."""
    contracted = Contracted(plan, outputs)
    found, origin, interrupted = [-float(k) for k in range(len(contracted.graph))], "module", False
    plan.priority = contracted.spread(found)
    best = _value(plan.evaluate(), objective)
    simulator = Simulator(contracted.graph, plan.machine, memory=options.get("memory"))
    simulator._told = True  # tasks are called as their last op, which says nothing of what they take
    options = {k: v for k, v in options.items() if k != "memory"}
    try:
        result = optimize(simulator, None, budget, objective=objective, tasks="schedule", **options)
    except KeyboardInterrupt:  # before the search had a plan: there is the module's
        return origin, True
    interrupted = result.interrupted
    if result.plan is not None and result.best is not None:
        plan.priority = contracted.spread(result.plan.priority)
        if _value(plan.evaluate(), objective) < best:
            found, origin, best = list(result.plan.priority), result.best.method, _value(plan.evaluate(), objective)
    if cache > 0:
        suited = contracted.spread(_order_for_cache(contracted.graph, found, cache))
        plan.priority = suited
        if _value(plan.evaluate(), objective) <= (_WORTH * best[0], _WORTH * best[1]):
            return "cache", interrupted
    plan.priority = contracted.spread(found)
    return origin, interrupted
