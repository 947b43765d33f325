"""What the instructions of a module compute, as numbers: two instructions have the same one if they compute the same from the same
parameters, however it is divided into kernels. By these a kernel of one module is found again in another of the same function.

Names, ids, the order, fusions and where libraries keep their workspace play no part; shapes, layouts and the contents of constants
do. A bitcast is known as another view of what it reads."""
from __future__ import annotations

import hashlib
import json
import os
from typing import Mapping, Optional, Tuple, Union

from ._module import Computation, Instruction, Module, read_module
from ._wire import fields, of

Number = bytes
#: a number; ("bitcast", number of what is behind it, shape); or ("tuple", values)
Value = Union[Number, Tuple[str, Union[Number, tuple], Union[bytes, None]]]

# of HloInstructionProto, what does not change results: names, metadata, kinds of fusions, ids, sharding, hints
_IGNORED = {1, 7, 11, 35, 36, 37, 38, 40, 43, 64, 68, 76}
_TRANSPARENT = {"async-done", "async-update", "opt-barrier", "call-done"}
_DRAWS = {"rng", "rng-get-and-update-state", "infeed", "outfeed", "send", "recv", "custom-call-start"}  # not the same twice
_RUNS_ITS_BODY = {"fusion", "call", "async-start"}
VIEWS = {"get-tuple-element", "tuple", "bitcast", "parameter", "constant", "async-done", "async-update", "opt-barrier"}


class Values:
    """The values of a module's computations."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._functions: dict[int, Number] = {}
        self._drawn = os.urandom(16)  # of what is drawn: equal to nothing of another module

    def of(self, computation: Computation, given: Optional[Mapping[int, Value]] = None) -> dict[int, Value]:
        """Of each instruction, by id, from the values of the parameters (by number)."""
        if given is None:
            given = {i.number: _hash("parameter", i.number) for i in computation.instructions.values() if i.opcode == "parameter"}
        found: dict[int, Value] = {}
        for start in computation.instructions:
            left = [start]
            while left:
                k = left[-1]
                i = computation.instructions[k]
                missing = [o for o in i.operands if o not in found] if k not in found else []
                if missing:
                    left.extend(missing)
                    continue
                left.pop()
                if k not in found:
                    found[k] = self._value(i, [found[o] for o in i.operands], given)
        return found

    def result(self, computation: Computation, given: Optional[Mapping[int, Value]] = None) -> Value:
        return self.of(computation, given)[computation.root]

    def function(self, computation: int) -> Number:
        """The number of what a computation makes of its parameters."""
        if computation not in self._functions:
            self._functions[computation] = _hash("function", self.result(self._module.computations[computation]))
        return self._functions[computation]

    def _value(self, i: Instruction, read: list[Value], given: Mapping[int, Value]) -> Value:
        if i.opcode == "parameter":
            return _parts(given[i.number], i.shape) if isinstance(given[i.number], bytes) else given[i.number]
        if i.opcode == "tuple":
            return ("tuple", tuple(read), None)
        if i.opcode in _TRANSPARENT or (i.opcode == "copy" and is_second_buffer(i)):
            return read[0]
        if i.opcode == "get-tuple-element":
            return read[0][1][i.tuple_index]  # type: ignore[index, return-value]
        if i.opcode == "bitcast":
            return ("bitcast", base(read[0]), i.shape)
        if i.opcode in _RUNS_ITS_BODY and i.called:
            return self.result(self._module.computations[i.called[0]], dict(enumerate(read)))
        if i.opcode in _DRAWS:
            return _parts(_hash(self._drawn, i.id), i.shape)
        return _parts(_hash(i.opcode, _attributes(i), [self.function(c) for c in i.called], read), i.shape)


def computes_same(a: bytes, b: bytes) -> bool:
    """Whether two modules compute the same of their parameters, constants included."""
    if a == b:
        return True
    left, right = read_module(a), read_module(b)
    return Values(left).result(left.entry) == Values(right).result(right.entry)


def base(value: Value) -> Value:
    """What is behind bitcasts."""
    return value[1] if _is(value, "bitcast") else value  # type: ignore[return-value]


def arrays(value: Value) -> set[Value]:
    """What is behind a value's bitcasts, tuples taken apart."""
    if _is(value, "tuple"):
        return {each for part in value[1] for each in arrays(part)}  # type: ignore[arg-type]
    return {base(value)}


def is_second_buffer(copy: Instruction) -> bool:
    """A copy in the same layout is there so that a buffer may be written over."""
    return copy.read_shape == copy.shape


def _is(value: Value, what: str) -> bool:
    return isinstance(value, tuple) and value[0] == what


def _parts(value: Value, shape: bytes) -> Value:
    """A value of a tuple's shape as the tuple of its parts."""
    parts = [of(f) for f in fields(shape) if f.number == 4]
    if not parts:
        return value
    return ("tuple", tuple(_parts(_hash(k, value), part) for k, part in enumerate(parts)), None)


def _attributes(i: Instruction) -> object:
    """What an instruction does, beside what it reads. Of a library's call also its configuration, but neither the algorithm, which
    was found by timing, nor the size of the workspace that it needs."""
    if i.opcode != "custom-call":
        return b"".join(f.raw for f in fields(i.raw) if f.number not in _IGNORED)
    rest = b"".join(f.raw for f in fields(i.raw) if f.number not in _IGNORED and f.number != _SHAPE)
    config, target = (next((of(f) for f in fields(i.raw) if f.number == number), b"") for number in (_CONFIG, _TARGET))
    shape = _without_workspace(i.shape) if target.startswith((b"__cublas", b"__cudnn")) else i.shape
    return rest, shape, _settled(config)


_SHAPE, _TARGET, _CONFIG = 3, 28, 43
_FOUND_BY_TIMING = {
    "selected_algorithm", "algorithm", "autotune_workspace_size", "operation_queue_id", "wait_on_operation_queues",
    "force_earliest_schedule", "reification_cost",
}  # fmt: skip


def _settled(config: bytes) -> object:
    def keep(value: object) -> object:
        if isinstance(value, dict):
            return sorted((k, v if k == "precision_config" else keep(v)) for k, v in value.items() if k not in _FOUND_BY_TIMING)
        return [keep(v) for v in value] if isinstance(value, list) else value

    try:
        return keep(json.loads(config))
    except ValueError:
        return config


def _without_workspace(shape: bytes) -> list[bytes]:
    """The parts of a tuple, but for bytes at its end."""
    parts = [of(f) for f in fields(shape) if f.number == 4]
    kind = next((f.value for f in fields(parts[-1]) if f.number == 2), 0) if parts else 0
    return (parts[:-1] if kind in (2, 6) else parts) or [shape]  # s8, u8


def _hash(*what: object) -> Number:
    return hashlib.blake2b(repr(what).encode(), digest_size=16).digest()
