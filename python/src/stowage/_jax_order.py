"""The order of the tasks of a module: a search on the graph whose ops are the plan's groups."""
from __future__ import annotations

from typing import Any, Optional, Sequence

from ._graph import Graph, Node
from ._library import Error
from ._plan import Plan
from ._search import optimize
from ._simulate import Evaluation


class Contracted:
    """The graph in which every group of a plan is one op."""

    def __init__(self, plan: Plan, outputs: set[int]) -> None:
        self._nodes = list(plan.graph.nodes)
        self._number = plan.group
        self._members: dict[int, list[int]] = {}
        for n in self._nodes:
            if n.kind == "op" and self._number[n.id] >= 0:
                self._members.setdefault(self._number[n.id], []).append(n.id)
        self.place: list[Optional[int]] = [None] * len(self._nodes)  #: of each node in this graph; None: inside a group
        written: list[dict[str, Any]] = []
        for n in self._nodes:
            if self._stands(n) and self._stands(self._nodes[n.root]):
                self.place[n.id] = len(written)
                written.append(self._entry(n))
        kept = [self.place[k] for k in sorted(outputs)]
        head = {"format": "opgraph", "version": 1, "name": plan.graph.name, "outputs": [k for k in kept if k is not None]}
        self.graph = Graph.parse({**head, "nodes": written})

    def _stands(self, n: Node) -> bool:
        """Groups stand at their last member, which is the one that hands out a value."""
        return n.kind != "op" or (self._number[n.id] >= 0 and self._members[self._number[n.id]][-1] == n.id)

    def _reads(self, n: Node) -> list[int]:
        """What a group reads from outside, also by way of what it makes anew."""
        found: dict[int, None] = {}
        left = list(reversed(self._members[self._number[n.id]]))
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

    def _entry(self, n: Node) -> dict[str, Any]:
        inputs = self._reads(n) if n.kind == "op" else n.inputs
        if any(self.place[k] is None for k in inputs):
            raise Error(f"the group of '{n.name}' hands out more than one value")
        entry: dict[str, Any] = {
            "id": self.place[n.id], "name": n.name, "op": n.op if n.kind in ("op", "view") else n.kind, "dtype": n.dtype,
            "shape": n.shape, "inputs": [self.place[k] for k in inputs],
        }  # fmt: skip
        if n.kind == "view":
            entry["view"] = True
        else:
            entry["bytes"] = n.bytes
        if n.updates is not None:
            entry["updates"] = self.place[n.updates]
        return entry

    def spread(self, priority: Sequence[float]) -> list[float]:
        """Priorities of this graph's nodes for those of the plan's graph."""
        found: dict[int, float] = {}
        for members in self._members.values():
            place = self.place[members[-1]]
            if place is not None:
                found.update((k, priority[place]) for k in members)
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
