"""The entry of an HLO module, read from the bytes of an HloModuleProto: names, opcodes, operands. Needs no jax."""
from __future__ import annotations

from dataclasses import dataclass, field

from ._wire import fields, of, packed
from .._library import Error


@dataclass
class Instruction:
    """One instruction."""

    name: str = ""
    opcode: str = ""
    fusion_kind: str = ""  #: "kLoop", "kInput", ...; "" unless it is a fusion
    is_tuple: bool = False
    tuple_index: int = 0  #: of a get-tuple-element
    number: int = 0  #: of a parameter
    shape: bytes = b""  #: a ShapeProto
    read_shape: bytes = b""  #: that of the first operand
    raw: bytes = b""  #: all of it
    id: int = 0
    operands: list[int] = field(default_factory=list)  #: ids
    called: list[int] = field(default_factory=list)  #: ids of computations


@dataclass
class Computation:
    name: str = ""
    id: int = 0
    root: int = 0
    raw: bytes = b""  #: all of it
    instructions: dict[int, Instruction] = field(default_factory=dict)  #: by id, in the order of the file


@dataclass
class Module:
    """A module: its computations by id, and which is the entry."""

    name: str
    computations: dict[int, Computation]
    entry: Computation
    schedule: dict[int, list[int]] = field(default_factory=dict)  #: ids of instructions by ids of computations
    aliases: list[tuple[int, int]] = field(default_factory=list)  #: outputs that are written over parameters, by numbers

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
    schedule: dict[int, list[int]] = {}
    aliases: list[tuple[int, int]] = []
    try:
        for f in fields(data):
            if f.number == 1:
                name = of(f).decode(errors="replace")
            elif f.number == 2:
                entry_name = of(f).decode(errors="replace")
            elif f.number == 3:
                computation = _computation(of(f))
                computations[computation.id] = computation
            elif f.number == 6 and isinstance(f.value, int):
                entry_id = f.value
            elif f.number == 7:
                schedule = read_schedule(of(f))
            elif f.number == 8:
                aliases = [_alias(of(entry)) for entry in fields(of(f)) if entry.number == 1]
        entry = computations.get(entry_id) or next(c for c in computations.values() if c.name == entry_name)
    except (IndexError, StopIteration):
        raise Error("these bytes are not an HLO module that can be read") from None
    return Module(name, computations, entry, schedule, aliases)


def ints(data: bytes, number: int) -> list[int]:
    """The numbers of a repeated field."""
    found: list[int] = []
    for f in fields(data):
        if f.number == number:
            found.extend([f.value] if isinstance(f.value, int) else packed(f.value))
    return found


def _alias(entry: bytes) -> tuple[int, int]:
    """(the first index into the output, the number of the parameter)."""
    return (ints(entry, 1) or [0])[0], (ints(entry, 2) or [0])[0]


def read_schedule(data: bytes) -> dict[int, list[int]]:
    """Ids of instructions by ids of computations (HloScheduleProto)."""
    found: dict[int, list[int]] = {}
    for f in fields(data):
        key = (ints(of(f), 1) or [0])[0]
        found[key] = [k for part in fields(of(f)) if part.number == 2 for k in ints(of(part), 1)]
    return found


def module_name(data: bytes) -> str:
    """The name alone."""
    return next((of(f).decode(errors="replace") for f in fields(data) if f.number == 1), "")


def _computation(data: bytes) -> Computation:
    computation = Computation(raw=data)
    for f in fields(data):
        if f.number == 1:
            computation.name = of(f).decode(errors="replace")
        elif f.number == 2:
            instruction = _instruction(of(f))
            computation.instructions[instruction.id] = instruction
        elif f.number == 5 and isinstance(f.value, int):
            computation.id = f.value
        elif f.number == 6 and isinstance(f.value, int):
            computation.root = f.value
    for i in computation.instructions.values():
        if i.operands and i.operands[0] in computation.instructions:
            i.read_shape = computation.instructions[i.operands[0]].shape
    return computation


_TUPLE = 13  # PrimitiveType


def _instruction(data: bytes) -> Instruction:
    i = Instruction(raw=data)
    for f in fields(data):
        if isinstance(f.value, int):
            if f.number == 9:
                i.number = f.value
            elif f.number == 13:
                i.tuple_index = f.value
            elif f.number == 35:
                i.id = f.value
            elif f.number == 36:
                i.operands.append(f.value)
            elif f.number == 38:
                i.called.append(f.value)
        elif f.number == 1:
            i.name = f.value.decode(errors="replace")
        elif f.number == 2:
            i.opcode = f.value.decode(errors="replace")
        elif f.number == 3:
            i.shape = f.value
            i.is_tuple = any(part.number == 2 and part.value == _TUPLE for part in fields(f.value))
        elif f.number == 11:
            i.fusion_kind = f.value.decode(errors="replace")
        elif f.number == 36:
            i.operands.extend(packed(f.value))
        elif f.number == 38:
            i.called.extend(packed(f.value))
    return i
