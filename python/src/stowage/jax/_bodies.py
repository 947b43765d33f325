"""Bodies of loops and branches, and what is called, each as a module of its own: planned like the entry, and put back.

In such a view the parameter of a body, a tuple, is taken apart: what the body takes out of it are parameters with the same ids. A loop
writes each part of its state over itself, so in the view of a loop's body outputs are written over the parameters.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, Optional

from ._module import Computation, Instruction, Module, read_module
from ._wire import Field, bytes_field, fields, int_field, ints_field, of, packed

# fields of HloModuleProto, HloComputationProto, HloInstructionProto, HloScheduleProto (xla/service/hlo.proto)
_ENTRY_NAME, _COMPUTATION, _PROGRAM_SHAPE, _ENTRY_ID, _SCHEDULE, _ALIASES, _DONORS = 2, 3, 4, 6, 7, 8, 18
_INSTRUCTION, _COMPUTATION_ID = 2, 5
_NAME, _OPCODE, _SHAPE, _PARAMETER_NUMBER, _ID = 1, 2, 3, 9, 35
_CONTROLS = 37
_OF_ENTRY = {_ENTRY_NAME, _PROGRAM_SHAPE, _ENTRY_ID, _ALIASES, _DONORS}


@dataclass(frozen=True)
class Body:
    """A computation that the entry runs, perhaps by way of others."""

    id: int
    loops: bool  #: a loop's: its result is written over its parameter


def find_bodies(module: Module) -> list[Body]:
    """Bodies of loops, branches and called computations that the entry comes to: those within others first. Their order is that in
    which they are called, and does not depend on names or ids."""
    found: dict[int, Body] = {}

    def visit(computation: Computation) -> None:
        for i in computation.instructions.values():
            for body in _called(i):
                if body.id in found or body.id not in module.computations:
                    continue
                visit(module.computations[body.id])
                found[body.id] = body

    visit(module.entry)
    return list(found.values())


def _called(i: Instruction) -> list[Body]:
    if i.opcode == "while":  # body, condition
        return [Body(i.called[0], True)] if i.called else []
    if i.opcode in ("conditional", "call"):
        return [Body(each, False) for each in i.called]
    return []


def runs_opaque(module: Module) -> list[str]:
    """Names of instructions whose computation runs as kernels and is not among those of :func:`find_bodies`."""
    computations = [module.entry] + [module.computations[body.id] for body in find_bodies(module)]
    return [i.name for c in computations for i in c.instructions.values() if i.opcode in ("async-start", "call-start")]


class View:
    """A body as the entry of a module. ``data`` is that module; ``fault``, where there is none, says why."""

    def __init__(self, data: bytes, body: Body) -> None:
        self._whole, self._body = data, body
        self._module = read_module(data)
        self._computation = self._module.computations[body.id]
        self._bytes = {i: raw for i, raw in _instructions(_computation_of(data, body.id))}
        self._parameter = self._find_parameter()
        self.fault = self._find_fault()
        self.data = b"" if self.fault else self._make()

    def put_back(self, planned: bytes) -> bytes:
        """The whole module with the body as it is in ``planned``, which was made of :attr:`data`."""
        computations = [f.raw if _id_of(f) != self._body.id else self._restore(f) for f in fields(planned) if f.number == _COMPUTATION]
        schedule = [self._schedule(f, False) for f in fields(planned) if f.number == _SCHEDULE]
        out, placed = bytearray(), False
        for f in fields(self._whole):
            if f.number == _COMPUTATION:
                if not placed:
                    out += b"".join(computations)
                placed = True
            elif f.number != _SCHEDULE:
                out += f.raw
        return bytes(out) + b"".join(schedule)

    # ---- the parameter ----

    def _find_parameter(self) -> Optional[Instruction]:
        """The only parameter, where that is a tuple."""
        parameters = [i for i in self._computation.instructions.values() if i.opcode == "parameter"]
        return parameters[0] if len(parameters) == 1 and parameters[0].is_tuple else None

    def _find_fault(self) -> str:
        name = self._computation.name
        for i in self._computation.instructions.values():
            if self._parameter is None or self._parameter.id not in i.operands:
                continue
            if i.opcode != "get-tuple-element":
                return f"{name}: {i.name} reads the whole state"
            if any(f.number == _CONTROLS for f in fields(self._bytes[i.id])):
                return f"{name}: {i.name} waits for another instruction"
        if self._parameter is not None and self._computation.root == self._parameter.id:
            return f"{name} hands on its state as it is"
        return ""

    def _parts(self) -> list[Instruction]:
        """What takes parts out of the parameter."""
        if self._parameter is None:
            return []
        return [i for i in self._computation.instructions.values() if self._parameter.id in i.operands]

    def _first_parts(self) -> dict[int, Instruction]:
        """For each part that is taken, the first that takes it."""
        found: dict[int, Instruction] = {}
        for i in self._parts():
            found.setdefault(i.tuple_index, i)
        return found

    # ---- the view ----

    def _make(self) -> bytes:
        out = bytearray()
        for f in fields(self._whole):
            if f.number == _COMPUTATION and _id_of(f) == self._body.id:
                out += bytes_field(_COMPUTATION, self._flatten(of(f)))
            elif f.number == _SCHEDULE:
                out += self._schedule(f, True)
            elif f.number not in _OF_ENTRY:
                out += f.raw
        out += bytes_field(_ENTRY_NAME, self._computation.name.encode()) + int_field(_ENTRY_ID, self._body.id)
        return bytes(out) + (bytes_field(_ALIASES, self._aliases()) if self._body.loops else b"")

    def _flatten(self, computation: bytes) -> bytes:
        first = self._first_parts()
        number = {i.id: k for k, i in enumerate(first.values())}
        again = {i.id: first[i.tuple_index] for i in self._parts() if i.id not in number}
        out = bytearray()
        for f in fields(computation):
            i = _id_of_instruction(of(f)) if f.number == _INSTRUCTION else -1
            if f.number == _INSTRUCTION and self._parameter is not None and i == self._parameter.id:
                continue
            if i in number:
                out += bytes_field(_INSTRUCTION, _as(of(f), b"parameter", int_field(_PARAMETER_NUMBER, number[i])))
            elif i in again:
                out += bytes_field(_INSTRUCTION, _as(of(f), b"bitcast", ints_field(36, [again[i].id])))
            else:
                out += f.raw
        return bytes(out)

    def _aliases(self) -> bytes:
        """Output k is written over part k of the state."""
        out = bytearray()
        if self._parameter is None:
            return bytes_field(1, int_field(2, 0) + int_field(4, 2))
        for number, part in enumerate(self._first_parts()):
            out += bytes_field(1, ints_field(1, [part]) + int_field(2, number) + int_field(4, 2))
        return bytes(out)

    # ---- and back ----

    def _restore(self, planned: Field) -> bytes:
        parts = {i.id for i in self._parts()}
        out, begun = bytearray(), False
        for f in fields(of(planned)):
            if f.number == _INSTRUCTION:
                if not begun and self._parameter is not None:
                    out += bytes_field(_INSTRUCTION, self._bytes[self._parameter.id])
                begun = True
                i = _id_of_instruction(of(f))
                out += bytes_field(_INSTRUCTION, self._bytes[i]) if i in parts else f.raw
            else:
                out += f.raw
        return bytes_field(_COMPUTATION, bytes(out))

    def _schedule(self, old: Field, takes_apart: bool) -> bytes:
        """The schedule with or without the parameter that is taken apart."""
        if self._parameter is None:
            return old.raw
        out = bytearray()
        for f in fields(of(old)):
            key = next((k.value for k in fields(of(f)) if k.number == 1), 0)
            if key != self._body.id:
                out += f.raw
                continue
            ids = [k for v in fields(of(f)) if v.number == 2 for k in _sequence(of(v)) if k != self._parameter.id]
            ids = ids if takes_apart else [self._parameter.id] + ids
            out += bytes_field(1, int_field(1, self._body.id) + bytes_field(2, ints_field(1, ids)))
        return bytes_field(_SCHEDULE, bytes(out))


def _sequence(data: bytes) -> Iterator[int]:
    for f in fields(data):
        if isinstance(f.value, bytes):
            yield from packed(f.value)
        else:
            yield f.value


def _as(instruction: bytes, opcode: bytes, rest: bytes) -> bytes:
    """An instruction of another sort with the same name, shape and id."""
    kept = b"".join(f.raw for f in fields(instruction) if f.number in (_NAME, _SHAPE, _ID))
    return kept + bytes_field(_OPCODE, opcode) + rest


def _instructions(computation: bytes) -> Iterator[tuple[int, bytes]]:
    for f in fields(computation):
        if f.number == _INSTRUCTION:
            yield _id_of_instruction(of(f)), of(f)


def _id_of_instruction(data: bytes) -> int:
    return next((f.value for f in fields(data) if f.number == _ID and isinstance(f.value, int)), 0)


def _id_of(computation: Field) -> int:
    return next((f.value for f in fields(of(computation)) if f.number == _COMPUTATION_ID and isinstance(f.value, int)), 0)


def _computation_of(data: bytes, wanted: int) -> bytes:
    return next(of(f) for f in fields(data) if f.number == _COMPUTATION and _id_of(f) == wanted)
