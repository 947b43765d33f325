"""The order of the tasks of a module: a search on the graph whose ops are the plan's groups."""
from __future__ import annotations

from typing import Any, Optional, Sequence

from ._graph import Graph, Node
from ._library import Error
from ._plan import Plan
from ._search import optimize
from ._simulate import Evaluation


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


def _value(evaluation: Evaluation, objective: str) -> tuple[float, float]:
    peak, step = float(max(evaluation.peak)), evaluation.step or 0.0
    return (peak, step) if objective == "memory" else (step, peak)


def set_order(plan: Plan, outputs: set[int], objective: str, budget: Any, options: dict[str, Any]) -> tuple[str, bool]:
    """Gives the plan the best order that is found: that of the module, or one of a search. Returns which, and whether Ctrl-C
    ended the search."""
    contracted = Contracted(plan, outputs)
    module_order = contracted.spread([-float(k) for k in range(len(contracted.graph))])
    plan.priority = module_order
    best, origin = _value(plan.evaluate(), objective), "module"
    try:
        result = optimize(contracted.graph, plan.machine, budget, objective=objective, tasks="schedule", **options)
    except KeyboardInterrupt:  # before the search had a plan: there is the module's
        return origin, True
    if result.plan is None or result.best is None:
        return origin, result.interrupted
    plan.priority = contracted.spread(result.plan.priority)
    if _value(plan.evaluate(), objective) < best:
        return result.best.method, result.interrupted
    plan.priority = module_order
    return origin, result.interrupted
