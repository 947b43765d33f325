"""Which ops of a module without fusions become one kernel: each element-wise op joins its only consumer, broadcasts are made anew
wherever they are read."""
from __future__ import annotations

import math
import re
from typing import Optional, Sequence

from ._graph import Graph, Node
from ._jax_module import Module
from ._library import Error
from ._plan import Plan

MAX_MEMBERS = 64  # of a plan's groups
MAX_OPERANDS = 96  # of XLA's fusions, results included
_MAX_REPEATED = 8  # cheap ops that a fusion computes several times for each element that they yield

_CHEAP = {
    "abs", "add", "and", "bitcast-convert", "ceil", "clamp", "clz", "compare", "complex", "convert", "copy-sign", "floor", "imag",
    "is-finite", "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "real", "reduce-precision", "round-nearest-afz",
    "round-nearest-even", "select", "shift-left", "shift-right-arithmetic", "shift-right-logical", "sign", "subtract", "xor",
}  # fmt: skip
_DEAR = {
    "acos", "acosh", "asin", "asinh", "atan2", "atanh", "cbrt", "cosh", "cosine", "divide", "erf", "exponential",
    "exponential-minus-one", "log", "log-plus-one", "logistic", "power", "remainder", "rsqrt", "sine", "sinh", "sqrt", "tan", "tanh",
}  # fmt: skip
_SPREAD = {"broadcast", "iota", "constant", "bitcast", "reshape"}
_POINTWISE = _CHEAP | _DEAR | {"constant", "bitcast", "reshape"}
_JOINS = _POINTWISE | _SPREAD | {"slice", "pad", "reverse"}
_TAKES = _JOINS | {"reduce", "transpose", "concatenate"}


class _Op:
    """What the rule wants to know of an op."""

    def __init__(self, node: Node, opcodes: set[str], is_plain: bool, sizes: dict[int, int]) -> None:
        self.node = node
        self.elements = math.prod(node.shape)
        reads = [sizes[k] for k in node.inputs]
        self.work = max([self.elements, *reads]) if "reduce" in opcodes else self.elements
        self.joins = is_plain and opcodes <= _JOINS
        self.takes = is_plain and opcodes <= _TAKES
        self.is_pointwise = is_plain and opcodes <= _POINTWISE
        self.is_dear = not opcodes.isdisjoint(_DEAR)
        self.is_spread = is_plain and opcodes <= _SPREAD | {"convert"} and all(2 * size <= self.elements for size in reads)


class _Group:
    def __init__(self, op: _Op) -> None:
        self.members = {op.node.id}
        self.work = op.work
        self.repeated = 0


class Rule:
    """The plain rule on one module."""

    def __init__(self, graph: Graph, module: Module, max_members: int, max_operands: int) -> None:
        self.max_members, self.max_operands = min(max_members, MAX_MEMBERS), min(max_operands, MAX_OPERANDS)
        self.nodes = list(graph.nodes)
        by_name = {i.name: i for i in module.entry.instructions.values()}
        sizes = {n.id: math.prod(n.shape) for n in self.nodes}
        self.ops: dict[int, _Op] = {}
        for node in self.nodes:
            if node.kind != "op":
                continue
            instruction = by_name.get(node.name)
            if instruction is None:
                raise Error(f"the op '{node.name}' of the graph is not in the module")
            fused = instruction.opcode == "fusion"
            plain = not instruction.is_tuple and (not fused or instruction.fusion_kind in ("kLoop", "kInput"))
            self.ops[node.id] = _Op(node, module.opcodes(instruction), plain, sizes)
        outputs = module.outputs()
        self.kept = {n.root for n in self.nodes if n.name in outputs} | {n.id for n in self.nodes if n.updates is not None}
        self.sources = {k: {self.nodes[i].root for i in op.node.inputs} for k, op in self.ops.items()}
        self.readers: dict[int, set[int]] = {k: set() for k in self.ops}
        for k, sources in self.sources.items():
            for source in sources:
                if source in self.readers:
                    self.readers[source].add(k)

    def groups(self, alone: frozenset[int] = frozenset()) -> list[int]:
        """A number for each node: that of its group's consumer, -1 for what is made anew where it is read. Ops in `alone` stay
        by themselves."""
        number = list(range(len(self.nodes)))
        group: dict[int, _Group] = {}
        for k in reversed(self.ops):
            op = self.ops[k]
            group[k] = _Group(op)
            readers = self.readers[k]
            if k in alone or not op.joins or k in self.kept or not readers or not all(self._takes(r, alone) for r in readers):
                continue
            homes = {number[r] for r in readers}
            if len(homes) == 1 and -1 not in homes and self._may_join(op, readers, group[min(homes)], number):
                home = homes.pop()
                group[home].members.add(k)
                group[home].repeated += self._is_repeated(op, group[home])
                number[k] = home
            elif op.is_spread and self._may_repeat(k, group, number):
                number[k] = -1
                for home in self._homes(k, number):
                    group[home].members.add(k)
        return number

    def _takes(self, reader: int, alone: frozenset[int]) -> bool:
        return self.ops[reader].takes and reader not in alone

    def _homes(self, k: int, number: list[int]) -> set[int]:
        """Groups that compute an op which is made anew."""
        homes: set[int] = set()
        for reader in self.readers[k]:
            homes |= {number[reader]} if number[reader] >= 0 else self._homes(reader, number)
        return homes

    def _fits(self, k: int, group: _Group) -> bool:
        members = group.members | {k}
        outside = set().union(*(self.sources[m] for m in members)) - members
        return len(members) <= self.max_members and len(outside) + 1 <= self.max_operands

    @staticmethod
    def _is_repeated(op: _Op, group: _Group) -> bool:
        return not op.is_spread and 4 * op.elements <= group.work

    def _may_join(self, op: _Op, readers: set[int], group: _Group, number: list[int]) -> bool:
        if not self._fits(op.node.id, group):
            return False
        if self._is_repeated(op, group) and (op.is_dear or group.repeated >= _MAX_REPEATED):
            return False
        # read at several places of different index, it would be computed for each
        return len(readers) == 1 or op.is_spread or all(self.ops[r].is_pointwise for r in readers)

    def _may_repeat(self, k: int, group: dict[int, _Group], number: list[int]) -> bool:
        return all(self._fits(k, group[home]) for home in self._homes(k, number))


_NAMED = re.compile(r"\bop (\d+) '")


def settle(plan: Plan, rule: Rule, model: bytes) -> bytes:
    """Gives the plan the groups of the rule, less those that are refused; the module with the plan in it."""
    alone: set[int] = set()
    while True:
        plan.group = rule.groups(frozenset(alone))
        try:
            evaluation = plan.evaluate()
            if evaluation.reason not in (None, "memory"):
                raise Error(evaluation.message)
            return plan.export_bytes("hlo", model)
        except Error as error:
            refused = _refused(str(error), plan.group, rule)
            if refused is None or refused <= alone:
                raise
            alone |= refused


def _refused(message: str, number: Sequence[int], rule: Rule) -> Optional[set[int]]:
    """The ops of the group that a message names."""
    match = _NAMED.search(message)
    if match is None or int(match[1]) not in rule.ops:
        return None
    named = int(match[1])
    home = number[named]
    return {named} if home < 0 else {k for k in rule.ops if number[k] == home}
