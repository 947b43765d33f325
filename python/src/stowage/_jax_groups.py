"""Which ops of a module without fusions become one kernel: a fusion rule of the library, less what XLA would refuse."""
from __future__ import annotations

import re
from typing import Sequence

from ._graph import Graph
from ._library import Error
from ._plan import Plan

_NAMED = re.compile(r"\bop (\d+) '")


def settle(plan: Plan, rule: str, model: bytes) -> bytes:
    """Gives the plan the groups of the rule; those that are refused are dissolved. Returns the module with the plan in it."""
    plan.fuse(rule)
    while True:
        try:
            evaluation = plan.evaluate()
            if evaluation.reason not in (None, "memory"):
                raise Error(evaluation.message)
            return plan.export_bytes("hlo", model)
        except Error as error:
            group = _without(plan.group, plan.graph, str(error))
            if group is None:
                raise
            plan.group = group


def _without(group: Sequence[int], graph: Graph, message: str) -> list[int] | None:
    """The groups without the one that a message names: its ops stand alone, also those that others recompute."""
    match = _NAMED.search(message)
    if match is None or not 0 <= int(match[1]) < len(group):
        return None
    nodes, named = graph.nodes, int(match[1])
    members = {n.id for n in nodes if n.kind == "op" and group[n.id] == group[named] >= 0} or {named}
    left = list(members)
    while left:
        for k in nodes[left.pop()].inputs:
            root = nodes[k].root
            if nodes[root].kind == "op" and group[root] < 0 and root not in members:
                members.add(root)
                left.append(root)
    free = 1 + max(max(group), len(group))
    changed = [free + k if k in members else number for k, number in enumerate(group)]
    return changed if len(members) > 1 else None
