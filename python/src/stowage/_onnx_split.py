"""Cuts an ONNX model into parts by a plan: one model per part, each on one device, and the tensors that go between them.

The parts are as few as they can be if a part runs as a whole, once all that it reads is there. A node's level is the number of times
that a path to it changes devices, at most; nodes of one device and level are a part, so no part waits for itself.
"""
from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Iterator, Optional

from ._library import Error
from ._plan import Plan

if TYPE_CHECKING:
    import onnx

LAYER = "layer_ann"  # the entry of a planned node that has its device: "stowage_1"
RANDOM = {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}


@dataclass
class Part:
    """What one session runs as a whole."""

    device: int  #: index in the plan's machine
    level: int  #: parts of a device run in this order
    model: onnx.ModelProto
    inputs: list[str]  #: tensors that come from the caller or from other parts
    outputs: list[str]  #: tensors that others read, or the model returns
    seconds: float  #: what its nodes take by the plan's costs, one after the other


@dataclass
class Split:
    """A model in parts, in an order in which they can run."""

    parts: list[Part]
    inputs: list[str]  #: of the whole model, initializers left out
    outputs: list[str]
    plan: Plan
    bytes_between: dict[str, int] = field(default_factory=dict)  #: size of each tensor that goes between devices, where it is known

    def device_of(self, name: str) -> Optional[int]:
        """The device that makes a tensor; None: the caller."""
        return next((part.device for part in self.parts if name in part.outputs), None)

    def save(self, folder: Any) -> list[str]:
        """Writes each part as ``part0_device1.onnx`` and so on; returns the paths."""
        import onnx

        os.makedirs(folder, exist_ok=True)
        paths = [os.path.join(os.fspath(folder), f"part{k}_device{part.device}.onnx") for k, part in enumerate(self.parts)]
        for part, path in zip(self.parts, paths):
            onnx.save(part.model, path)
        return paths

    def predict(self, hand_over: float = 0.0, bytes_per_s: float = float("inf")) -> float:
        """Seconds of a step as parts run: each as a whole, when its device is free and what it reads has been made, from other
        devices ``hand_over`` seconds before. Then it takes what comes from these in, one tensor after the other, at that rate. A
        plan's own time lets single ops overlap, so it mostly is less."""
        free: dict[int, float] = {}
        made: dict[str, tuple[float, int]] = {}
        for part in self.parts:
            begin, taken = free.get(part.device, 0.0), 0
            for name in part.inputs:
                if name in made and made[name][1] != part.device:
                    begin = max(begin, made[name][0] + hand_over)
                    taken += self.bytes_between.get(name, 0)
            end = begin + taken / bytes_per_s + part.seconds
            free[part.device] = end
            made.update((name, (end, part.device)) for name in part.outputs)
        return max(free.values(), default=0.0)

    def __repr__(self) -> str:
        devices = len({part.device for part in self.parts})
        return f"<Split: {len(self.parts)} parts on {devices} devices, {len(self.bytes_between)} tensors between them>"


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """What a node reads: its inputs, and what bodies in it read from outside."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for body in [attribute.g] * attribute.HasField("g") + list(attribute.graphs):
            own = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
            for inner in body.node:
                yield from (name for name in _reads(inner) if name not in own)
                own.update(inner.output)
            yield from (value.name for value in body.output if value.name not in own)


def _device_of(node: onnx.NodeProto) -> int:
    for entry in node.metadata_props:
        if entry.key == LAYER and entry.value.startswith("stowage_"):
            return int(entry.value.removeprefix("stowage_"))
    raise Error(f"node '{node.name or (node.output or ['?'])[0]}' has no device; is this the planned model?")


def _copy_but(target: Any, source: Any, *left_out: str) -> None:
    """Copies the fields of a message but these."""
    for descriptor, value in source.ListFields():
        if descriptor.name in left_out:
            continue
        if hasattr(value, "MergeFrom"):  # a message, or several values
            getattr(target, descriptor.name).MergeFrom(value)
        else:
            setattr(target, descriptor.name, value)


class _Cutter:
    def __init__(self, model: onnx.ModelProto, plan: Plan) -> None:
        graph = model.graph
        self.model, self.plan = model, plan
        self.fixed = {tensor.name for tensor in graph.initializer} | {tensor.values.name for tensor in graph.sparse_initializer}
        self.inputs = [value.name for value in graph.input if value.name not in self.fixed]
        self.maker: dict[str, Any] = {}  # of nodes that every reader gets a copy of: they read nothing but constants
        self.home: dict[str, tuple[int, int]] = {}  # tensor: device and level of who makes it
        self.nodes: dict[tuple[int, int], list[Any]] = {}
        self.names = {node.name: node for node in plan.graph.nodes if node.kind == "op"}
        self.types = self._types()
        self.frame = self._frame()

    def _types(self) -> dict[str, Any]:
        import onnx.shape_inference

        known = list(self.model.graph.value_info) + list(self.model.graph.input) + list(self.model.graph.output)
        try:
            known += list(onnx.shape_inference.infer_shapes(self.model).graph.value_info)
        except (ValueError, RuntimeError):  # larger than 2 GiB, or of an operator that it cannot do
            pass
        types: dict[str, Any] = {}
        for value in known:
            if value.name not in types or value.type.tensor_type.HasField("shape"):
                types[value.name] = value
        return types

    def _frame(self) -> onnx.ModelProto:
        """What all parts have of the model: everything but what its graph holds, which can be gigabytes."""
        import onnx

        frame = onnx.ModelProto()
        _copy_but(frame, self.model, "graph")
        _copy_but(frame.graph, self.model.graph, "node", "input", "output", "value_info", "initializer", "sparse_initializer")
        return frame

    def place(self) -> None:
        """A part for every node that is not copied."""
        for node in self.model.graph.node:
            reads = list(_reads(node))
            if all(name in self.fixed for name in reads) and node.op_type not in RANDOM and not any(a.type in (5, 10) for a in node.attribute):
                self.fixed.update(node.output)
                self.maker.update((name, node) for name in node.output)
                continue
            device, level = _device_of(node), 0
            for name in reads:
                if name in self.home:
                    came, at = self.home[name]
                    level = max(level, at + (came != device))
            self.nodes.setdefault((device, level), []).append(node)
            self.home.update((name, (device, level)) for name in node.output if name)

    def _copies(self, reads: list[str], made: dict[str, None]) -> list[Any]:
        """The nodes that make constants for these, makers first."""
        found: list[Any] = []
        for name in reads:
            node = self.maker.get(name)
            if node is None or name in made:
                continue
            found += self._copies(list(_reads(node)), made)
            made.update((output, None) for output in node.output)
            found.append(node)
        return found

    def _seconds(self, device: int, nodes: list[Any]) -> float:
        ops = [self.names.get(node.name) or self.names.get(node.output[0]) for node in nodes]
        return sum(self.plan.simulator.op_seconds(op.id, device) for op in ops if op is not None)

    def cut(self) -> Split:
        self.place()
        wanted: dict[str, set[tuple[int, int]]] = {}  # tensor: parts that read it
        for key, nodes in self.nodes.items():
            for node in nodes:
                for name in _reads(node):
                    if name not in self.fixed and self.home.get(name) != key:
                        wanted.setdefault(name, set()).add(key)
        results = [value.name for value in self.model.graph.output]
        parts = [self._part(key, wanted, results) for key in sorted(self.nodes, key=lambda k: (k[1], k[0]))]
        loose = [name for name in results if name not in self.home]
        if loose:
            raise Error(f"the output '{loose[0]}' does not depend on what is computed; it cannot be cut")
        split = Split(parts, self.inputs, results, self.plan)
        for name, readers in wanted.items():
            if name in self.home and any(key[0] != self.home[name][0] for key in readers):
                split.bytes_between[name] = self._bytes(name)
        return split

    def _bytes(self, name: str) -> int:
        import numpy
        import onnx.helper

        value = self.types.get(name)
        if value is None or not value.type.tensor_type.HasField("shape"):
            return 0
        sizes = [d.dim_value if d.HasField("dim_value") else 1 for d in value.type.tensor_type.shape.dim]
        try:
            item = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).itemsize
        except KeyError:
            return 0
        return int(numpy.prod(sizes, dtype=numpy.int64)) * item

    def _typed(self, name: str) -> Any:
        if name not in self.types:
            raise Error(f"the type of tensor '{name}', which goes between devices, is not known; run onnx.shape_inference on the model")
        return self.types[name]

    def _part(self, key: tuple[int, int], wanted: dict[str, set[tuple[int, int]]], results: list[str]) -> Part:
        import onnx

        nodes = self.nodes[key]
        reads = [name for node in nodes for name in _reads(node)]
        made = {name for node in nodes for name in node.output if name}
        copies = self._copies(reads, {})
        held = set(reads) | {name for node in copies for name in _reads(node)}
        inputs = list(dict.fromkeys(name for name in reads if name not in self.fixed and name not in made))
        outputs = list(dict.fromkeys(name for node in nodes for name in node.output if name in wanted or name in results))
        if not outputs:  # nobody reads what it makes; a session needs an output all the same
            outputs = [nodes[-1].output[0]]
        model = onnx.ModelProto()
        model.CopyFrom(self.frame)
        graph = model.graph
        graph.node.extend([*copies, *nodes])
        graph.initializer.extend(tensor for tensor in self.model.graph.initializer if tensor.name in held)
        graph.sparse_initializer.extend(tensor for tensor in self.model.graph.sparse_initializer if tensor.values.name in held)
        graph.input.extend(self._typed(name) for name in inputs)
        graph.output.extend(self._typed(name) if name in self.types else onnx.ValueInfoProto(name=name) for name in outputs)
        return Part(key[0], key[1], model, inputs, outputs, self._seconds(key[0], nodes))


def split(model: onnx.ModelProto, plan: Plan) -> Split:
    """The parts of a planned model (nodes with their device, in planned order)."""
    return _Cutter(model, plan).cut()
