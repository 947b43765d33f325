"""The entry of an HLO module, read from the bytes of an HloModuleProto: names, opcodes, operands. Needs no jax."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterator, Union

from ._library import Error

Value = Union[int, bytes]


@dataclass
class Instruction:
    """One instruction."""

    name: str = ""
    opcode: str = ""
    fusion_kind: str = ""  #: "kLoop", "kInput", ...; "" unless it is a fusion
    is_tuple: bool = False
    id: int = 0
    operands: list[int] = field(default_factory=list)  #: ids
    called: list[int] = field(default_factory=list)  #: ids of computations


@dataclass
class Computation:
    name: str = ""
    id: int = 0
    root: int = 0
    instructions: dict[int, Instruction] = field(default_factory=dict)  #: by id, in the order of the file


@dataclass
class Module:
    """A module: its computations by id, and which is the entry."""

    name: str
    computations: dict[int, Computation]
    entry: Computation

    def opcodes(self, instruction: Instruction) -> set[str]:
        """What an instruction does; of a fusion, what its body does."""
        if instruction.opcode != "fusion":
            return {instruction.opcode}
        body = (self.computations[called] for called in instruction.called)
        return {i.opcode for computation in body for i in computation.instructions.values()} - {"parameter"}

    def outputs(self) -> set[str]:
        """Names of the instructions that the step hands out, tuples taken apart."""
        found: set[str] = set()
        left = [self.entry.root]
        while left:
            i = self.entry.instructions[left.pop()]
            if i.opcode == "tuple":
                left.extend(i.operands)
            else:
                found.add(i.name)
        return found


def read_module(data: bytes) -> Module:
    """Reads the bytes of an HloModuleProto (field numbers as in xla/service/hlo.proto)."""
    name, entry_name, entry_id, computations = "", "", 0, {}
    try:
        for number, value in _fields(data, 0, len(data)):
            if number == 1 and isinstance(value, bytes):
                name = value.decode(errors="replace")
            elif number == 2 and isinstance(value, bytes):
                entry_name = value.decode(errors="replace")
            elif number == 3 and isinstance(value, bytes):
                computation = _computation(value)
                computations[computation.id] = computation
            elif number == 6 and isinstance(value, int):
                entry_id = value
        entry = computations.get(entry_id) or next(c for c in computations.values() if c.name == entry_name)
    except (IndexError, StopIteration):
        raise Error("these bytes are not an HLO module that can be read") from None
    return Module(name, computations, entry)


def module_name(data: bytes) -> str:
    """The name alone."""
    for number, value in _fields(data, 0, len(data)):
        if number == 1 and isinstance(value, bytes):
            return value.decode(errors="replace")
    return ""


def _computation(data: bytes) -> Computation:
    computation = Computation()
    for number, value in _fields(data, 0, len(data)):
        if number == 1 and isinstance(value, bytes):
            computation.name = value.decode(errors="replace")
        elif number == 2 and isinstance(value, bytes):
            instruction = _instruction(value)
            computation.instructions[instruction.id] = instruction
        elif number == 5 and isinstance(value, int):
            computation.id = value
        elif number == 6 and isinstance(value, int):
            computation.root = value
    return computation


_TUPLE = 13  # PrimitiveType


def _instruction(data: bytes) -> Instruction:
    i = Instruction()
    for number, value in _fields(data, 0, len(data)):
        if isinstance(value, int):
            if number == 35:
                i.id = value
            elif number == 36:
                i.operands.append(value)
            elif number == 38:
                i.called.append(value)
        elif number == 1:
            i.name = value.decode(errors="replace")
        elif number == 2:
            i.opcode = value.decode(errors="replace")
        elif number == 3:
            i.is_tuple = any(n == 2 and v == _TUPLE for n, v in _fields(value, 0, len(value)))
        elif number == 11:
            i.fusion_kind = value.decode(errors="replace")
        elif number == 36:
            i.operands.extend(_packed(value))
        elif number == 38:
            i.called.extend(_packed(value))
    return i


# ---- the wire format of protobuf ----


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _packed(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, Value]]:
    while at < end:
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
        elif kind == 2:
            size, at = _varint(data, at)
            if at + size > end:
                raise IndexError
            yield tag >> 3, data[at : at + size]
            at += size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise IndexError
